"""What torch's DataLoader has and frameworks ask a loader for.

accelerate's ``skip_first_batches`` and ``dispatch_batches`` make a DataLoader of torch out of the parts of another one: its
``dataset``, its ``batch_sampler`` and its arguments. Those of a Loader fit together so that this DataLoader gives the
Loader's batches: what the batch sampler yields are no numbers of samples but tickets, each for one batch, which the data set's
``__getitems__`` hands back to the Loader. So a batch that is skipped is never made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..data.ticket import Ticket
from .passes import EpochSetter


class Ticketed(Protocol):
    """What of a loader its tickets need."""

    @property
    def remaining(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def _skip(self, n: int) -> None: ...

    def set_epoch(self, epoch: int) -> None: ...


class _Tickets:
    """One pass over a loader, by tickets. It begins with the first one that is redeemed; those before it are skipped, unless
    the loader is as far already, by a state that it has loaded. From then on each ticket is for the next batch."""

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
        """As that of the loader."""
        self._loader.set_epoch(epoch)


def as_it_is(batch: Any) -> Any:
    """Returns the batch: a Loader's batches are collated."""
    return batch


class LikeDataLoader:
    """What of a DataLoader's attributes a Loader has."""

    prefetch_factor = None  # of DataLoader's workers, of which there are none
    _given: dict[str, Any]

    @property
    def sampler(self: Any) -> EpochSetter:
        """For Lightning and other frameworks, which call ``loader.sampler.set_epoch`` when an epoch begins."""
        return EpochSetter(self)

    @property
    def batch_sampler(self: Any) -> TicketSampler:
        """For accelerate, which makes a DataLoader of torch out of it. It yields no numbers of samples."""
        return TicketSampler(self)

    @property
    def collate_fn(self) -> Any:
        """For accelerate, which asks loaders for it: returns batches as they are. The collate_fn of the arguments has run."""
        return as_it_is

    @property
    def drop_last(self) -> bool:
        """As given."""
        return bool(self._given["drop_last"])
