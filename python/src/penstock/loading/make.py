"""How a loader makes its batches, one after another, each until the caller has received it.

An exception may come at any instruction: of a function, or of a handler of a signal. Nothing here counts as delivered;
:class:`penstock._native.Delivery` decides that. What is under way is only prepared work: it is used if that is certain to be
right, else the loader goes back to the place after the newest batch that was received.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .. import _native
from ..data.notebook import Batch
from ..functions import calls, loop
from ..functions.place import Place, State

_ELSEWHERE = Place((), 0, 0)  # no pass is here


class Made(Protocol):
    """What of a loader the making of its batches needs."""

    _received: list[Place]
    _wrap: Any

    @property
    def dataset(self) -> Any: ...

    def _arrays(self, batch: _native.Batch) -> Any: ...

    def _one(self, epoch: int, sample: int) -> dict[str, Any]: ...

    def _deliver(self, batch: Any) -> Any: ...


class Maker:
    """Makes the batches of one loader's passes."""

    def __init__(self, functions: loop.Pipeline | None) -> None:
        self._functions = functions
        # The place after the batch that was given to code that may write to it. While that is not received, the batch has to be
        # made anew.
        self._begun: Place | None = None

    def begin(self) -> None:
        """The loader has another place: what is under way is dropped."""
        if self._functions is not None:
            self._functions.reset()
        self._begun = None

    def leave(self, here: Place) -> None:
        """The place is going to be another one than `here`, in the same epoch."""
        self._begun = here

    def make(self, loader: Made, native: _native.Loader, here: Place) -> tuple[Any, Place] | None:
        """Returns the batch after `here`, and the place after it. None: there is none."""
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
            self._begun = _ELSEWHERE  # an exception after mend() must not forget that the loader is too far
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
    """Puts a receipt into a batch of the loader's own kind (native_delivery.c)."""
    if type(batch) is Batch:
        batch.receipt = _native.Receipt(loader._received, here, place)
    return batch


def place_behind(start: State, left: int, n: int, stride: int) -> State:
    """Returns the state n batches after `start`, where `left` batches of the epoch are left. stride: samples of all ranks'
    batches of one step."""
    epoch, position, *more = start
    return (epoch + 1, 0, *more) if n >= left else (epoch, position + n * stride, *more)


def _samples(loader: Made, batch: _native.Batch) -> list[int]:
    index = loader._wrap(batch.index())
    if not isinstance(index, _native.Tensor):
        return index.tolist()  # type: ignore[no-any-return]
    return memoryview(index).tolist() if index.device == "cpu" else []


def _note(error: BaseException, loader: Made, epoch: int, step: int, samples: Sequence[int]) -> None:
    """Says of which batch an exception is."""
    where = f"data set {loader.dataset.path!r}, {calls.named(epoch, step, samples)}"
    if not any(note.startswith("penstock: ") for note in getattr(error, "__notes__", ())):
        error.add_note(f"penstock: {where}: the batch was not delivered and comes next; loader.skip_batch() goes past it")
