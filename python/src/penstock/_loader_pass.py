"""One pass over a loader, and the part of a sampler that frameworks use."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .errors import StateError

if TYPE_CHECKING:
    from .loader import Loader


def refuse_copies(path: str, maker: int, world_size: int | None) -> None:
    """Raises StateError in a worker of torch's DataLoader with an IterableDataset, if its siblings have copies of the loader.

    path: of the data set. maker: the process that made the loader. world_size: the loader's argument. A worker may make a
    loader for a part of its own.
    """
    data = sys.modules.get("torch.utils.data")
    worker = None if data is None else data.get_worker_info()
    if data is None or worker is None or worker.num_workers < 2 or not isinstance(worker.dataset, data.IterableDataset):
        return
    if maker != os.getpid() or world_size is None:
        raise StateError(
            f"each of the {worker.num_workers} workers of torch's DataLoader would deliver the whole epoch: iterate over the "
            "Loader itself, which has num_workers of its own, or give DataLoader a penstock.TorchDataset",
            dataset=path,
        )


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
