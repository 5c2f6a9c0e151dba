"""Makes the batches of a loader one after another. A batch is made again until the caller has received it.

An exception may come at any instruction, from a function or from a signal handler. Nothing in this module counts a batch as
delivered; :class:`penstock._native.Delivery` decides that. Batches under way are only prepared work. They are used if they are
certain to be right; otherwise the loader goes back to the place after the newest received batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .. import _native
from ..data.notebook import Batch
from ..functions import calls, loop
from ..functions.place import Place, State

_ELSEWHERE = Place((), 0, 0)  # a place that no pass has


class Made(Protocol):
    """The part of a loader that is needed to make batches."""

    _received: list[Place]
    _wrap: Any

    @property
    def dataset(self) -> Any: ...

    def _arrays(self, batch: _native.Batch) -> Any: ...

    def _one(self, epoch: int, sample: int) -> dict[str, Any]: ...

    def _deliver(self, batch: Any) -> Any: ...


class Maker:
    """Makes the batches of one loader's iterations."""

    def __init__(self, functions: loop.Pipeline | None) -> None:
        self._functions = functions
        # The place after the batch that was last handed to code that may write to it. Until that batch is received, it must be made
        # again.
        self._begun: Place | None = None

    def begin(self) -> None:
        """Drops batches under way, because the loader has a new place."""
        if self._functions is not None:
            self._functions.reset()
        self._begun = None

    def leave(self, here: Place) -> None:
        """Called before the loader moves from `here` to another place in the same epoch, so that the next batch is made there."""
        self._begun = here

    def make(self, loader: Made, native: _native.Loader, here: Place) -> tuple[Any, Place] | None:
        """Returns the batch after `here` and the place after that batch, or None at the end of the epoch."""
        if self._begun is not None and self._begun is not here:
            if here.left == 0:
                return None
            self._go_back(native, here)
        if self._functions is not None and self._functions.has_workers:
            return self._made_by_workers(self._functions, loader, native, here)
        batch = native.next()
        if batch is None:
            return None
        place = Place(native.state(), here.taken + 1, here.left - 1)
        self._begun = place
        native.take(batch)
        try:
            return _with_receipt(loader._deliver(batch), loader, here, place), place
        except Exception as error:
            _note(error, loader, *batch.place(), _samples(loader, batch))
            raise

    def _go_back(self, native: _native.Loader, here: Place) -> None:
        if self._functions is not None:
            self._functions.reset()
        native.resume(here.state)
        self._begun = None

    def _made_by_workers(
        self, functions: loop.Pipeline, loader: Made, native: _native.Loader, here: Place
    ) -> tuple[Any, Place] | None:
        if functions.is_torn:
            self._begun = _ELSEWHERE  # if mend() is interrupted, the next call must still move the loader back
            functions.mend()
            self._go_back(native, here)
        found = functions.next(native, loader._arrays, loader._one, here)
        if found is None:
            return None
        result, place, rows = found
        self._begun = place
        try:
            return _with_receipt(loader._deliver((result,)), loader, here, place), place
        except Exception as error:
            _note(error, loader, rows.epoch, rows.step, rows.samples)
            raise


def _with_receipt(batch: Any, loader: Made, here: Place, place: Place) -> Any:
    """Stores a receipt in the batch, if it is a loader's own dict (see native_delivery.c)."""
    if type(batch) is Batch:
        batch.receipt = _native.Receipt(loader._received, here, place)
    return batch


def place_behind(start: State, left: int, n: int, stride: int) -> State:
    """Returns the state n batches after `start`, where the epoch has `left` more batches. stride: number of samples that all ranks
    take in one step."""
    epoch, position, *more = start
    return (epoch + 1, 0, *more) if n >= left else (epoch, position + n * stride, *more)


def _samples(loader: Made, batch: _native.Batch) -> list[int]:
    index = loader._wrap(batch.index())
    if not isinstance(index, _native.Tensor):
        return index.tolist()  # type: ignore[no-any-return]
    return memoryview(index).tolist() if index.device == "cpu" else []


def _note(error: BaseException, loader: Made, epoch: int, step: int, samples: Sequence[int]) -> None:
    """Adds a note to an exception that says which batch failed."""
    where = f"data set {loader.dataset.path!r}, {calls.named(epoch, step, samples)}"
    if not any(note.startswith("penstock: ") for note in getattr(error, "__notes__", ())):
        error.add_note(f"penstock: {where}: the batch was not delivered and comes next; loader.skip_batch() goes past it")
