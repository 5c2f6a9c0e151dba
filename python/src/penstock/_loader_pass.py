"""One pass over a loader, and the part of a sampler that frameworks use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import Loader


class EpochSetter:
    """The part of torch's samplers that frameworks use to count epochs."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader._agree_on_epoch(epoch)


class Pass:
    """One pass over the loader: what ``iter(loader)`` returns."""

    def __init__(self, loader: Loader, serial: int) -> None:
        self._loader = loader
        self._serial = serial
        self._done = False

    def __iter__(self) -> Pass:
        return self

    def __len__(self) -> int:
        """Returns the number of batches that the pass has still to deliver."""
        return 0 if self._done or self._serial != self._loader._serial else self._loader._left

    def __next__(self) -> Any:
        batch = None if self._done else self._loader._next(self._serial)
        if batch is None:
            self._done = True
            raise StopIteration
        return self._loader._deliver(batch)
