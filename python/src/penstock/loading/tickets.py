"""The attributes of torch's DataLoader that frameworks read from a loader.

accelerate's ``skip_first_batches`` and ``dispatch_batches`` make a new torch DataLoader from parts of another one: its ``dataset``,
its ``batch_sampler`` and its arguments. A Loader offers such parts, and the new DataLoader then yields the Loader's batches: the
batch sampler yields tickets instead of sample numbers, one for each batch, and the data set's ``__getitems__`` asks the Loader for
the batch of a ticket. So a skipped batch is never made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..data.ticket import Ticket
from .passes import EpochSetter


class Ticketed(Protocol):
    """The part of a loader that its tickets use."""

    @property
    def remaining(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def _skip(self, n: int) -> None: ...

    def set_epoch(self, epoch: int) -> None: ...


class _Tickets:
    """One pass over a loader by tickets. The pass begins at the first redeemed ticket; earlier tickets are skipped, unless a loaded
    state already has the loader at that place. After that, each ticket returns the next batch."""

    def __init__(self, loader: Ticketed) -> None:
        self._loader = loader
        self._batches: Iterator[Any] | None = None

    def batch(self, step: int) -> Any:
        if self._batches is None:
            batches = iter(self._loader)
            n = step - (len(self._loader) - self._loader.remaining)
            if n > 0:
                self._loader._skip(n)
            self._batches = batches
        return next(self._batches)


class TicketSampler:
    """A batch sampler for torch's DataLoader that yields tickets."""

    def __init__(self, loader: Ticketed) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Ticket]:
        tickets = _Tickets(self._loader)
        for step in range(len(self._loader)):
            yield Ticket(tickets.batch, step)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the loader."""
        self._loader.set_epoch(epoch)


def as_it_is(batch: Any) -> Any:
    """Returns the batch unchanged, because a Loader's batches are already collated."""
    return batch


class LikeDataLoader:
    """Gives a Loader the attributes of a torch DataLoader."""

    prefetch_factor = None  # a Loader has no DataLoader workers
    _given: dict[str, Any]

    @property
    def sampler(self: Any) -> EpochSetter:
        """For Lightning and other frameworks, which call ``loader.sampler.set_epoch`` when an epoch begins."""
        return EpochSetter(self)

    @property
    def batch_sampler(self: Any) -> TicketSampler:
        """For accelerate, which passes it to a new torch DataLoader. It yields tickets, not sample numbers."""
        return TicketSampler(self)

    @property
    def collate_fn(self) -> Any:
        """For accelerate, which reads it from loaders: returns batches unchanged. The Loader's own collate_fn has run before."""
        return as_it_is

    @property
    def drop_last(self) -> bool:
        """The loader's argument ``drop_last``."""
        return bool(self._given["drop_last"])
