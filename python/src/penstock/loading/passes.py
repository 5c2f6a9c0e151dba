"""One iteration (pass) over a loader, and the part of torch's sampler that frameworks call."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Protocol

from .. import _native
from ..errors import StateError
from ..functions.place import Place


class Passed(Protocol):
    """The part of a loader that its passes and samplers use."""

    _serial: int

    def _make(self, serial: int, here: Place) -> tuple[Any, Place] | None: ...

    def _agree_on_epoch(self, epoch: int) -> None: ...


def refuse_copies(path: str, maker: int, world_size: int | None) -> None:
    """Raises StateError in a worker of torch's DataLoader with an IterableDataset, if all workers have copies of the same loader.

    path: path of the data set. maker: the process that made the loader. world_size: the loader's argument. A worker may make its
    own loader for a part of the samples.
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


exiting = threading.Event()  # set when the interpreter ends and loaders are stopped


class EpochSetter:
    """The part of torch's samplers that frameworks call to set the epoch."""

    def __init__(self, loader: Passed) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader._agree_on_epoch(epoch)


class Pass(_native.Delivery):
    """One pass (iteration) over the loader: the result of ``iter(loader)``. Its place is stored in the list that it is made
    with."""

    def __init__(self, place: list[Place], loader: Passed, serial: int) -> None:
        self._loader = loader
        self._serial = serial
        self._done = False

    def __len__(self) -> int:
        """Returns the number of batches that this pass has still to deliver."""
        return 0 if self._done or self._serial != self._loader._serial else self.place.left

    def _make(self) -> tuple[Any, Place] | None:
        """Returns the batch after the newest received one, and the place after it. Returns the same batch until the caller has
        received it. None: the pass is over."""
        try:
            made = None if self._done else self._loader._make(self._serial, self.place)
        except StateError:
            if exiting.is_set() and threading.current_thread() is not threading.main_thread():
                raise SystemExit from None  # ends a daemon thread silently
            raise
        self._done = made is None
        return made

    def _check(self) -> None:
        """Does nothing. At its first instruction, Python runs pending signal handlers. If one raises, the batch is not received."""
