"""A map-style data set for torch.utils.data.DataLoader, Lightning and the like."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import transforms as _transforms
from ..base import options
from ..base.counters import Counters
from ..base.public import door
from ..data.dataset import Dataset
from ..data.mixture_weights import is_weighted
from ..errors import ArgumentError
from . import table, tuples
from .loader import Loader

__all__ = ["TorchDataset"]

_COUNTERS = 1024  # counters of fetched samples: one for the main process, the others for workers


class TorchDataset(torch.utils.data.Dataset[Any]):
    """A map-style data set for torch's DataLoader. Penstock decodes and augments its samples.

    ``ds[i]`` is a dict of tensors (numpy arrays with ``output="numpy"``), ints, floats and str, as ``default_collate`` takes them;
    with ``as_tuple=True`` it is (image, label), and with a list of names those fields in that order. Each sample has its own
    memory. DataLoader fetches whole batches at once (``__getitems__``), in any number of workers, forked or spawned.

    Augmentations depend only on (seed, epoch, sample): call :meth:`set_epoch` before each epoch (with Lightning in
    ``on_train_epoch_start``); it also reaches running workers (``persistent_workers=True``). A data set cannot see where an epoch
    of DataLoader begins, so the epoch does not advance by itself. It warns once if operations are random and more samples than an
    epoch has were fetched with one epoch number.

    Args:
        dataset: a :class:`Dataset` or a path.
        transforms: operations per field, as for :class:`Loader`.
        seed: seed of the augmentations.
        output: "torch" or "numpy"; "auto" is torch.
        as_tuple: return a sample as a tuple: True: (image, label); a list of names: those fields.
        loader_options: further arguments of :class:`Loader`: ``dtype``, ``layout``, ``channels``, ``fields``, ``encoded``,
            ``forms``, ``host_memory``, ``reading``, ``decoding``, ... ``on_error`` is "raise" or "replace" (another sample, with
            its own "index", replaces a bad one); "skip" is not possible, because each number must return a sample. Arguments
            without an effect are errors.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        transforms: Mapping[str, Sequence[_transforms.Transform]]
        | Sequence[_transforms.Transform]
        | None = None,
        *,
        seed: int = 0,
        output: str = "auto",
        as_tuple: bool | Sequence[str] = False,
        **loader_options: Any,
    ) -> None:
        given = {name: value for name, value in loader_options.items() if name in table.PARAMETERS}
        older = {name: value for name, value in loader_options.items() if name not in given}
        flat, said = table.flat(given, older, "TorchDataset", 2)
        table.refuse_for_torch(said, flat)
        if flat["on_error"] == "skip":
            raise ArgumentError(
                'on_error="skip": a TorchDataset has to give a sample for each number; "replace" gives another one'
            )
        indices = flat.pop("indices")
        shown = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        if is_weighted(shown):
            raise ArgumentError(
                "the mixture has weights, by which a Loader draws; with a TorchDataset torch's sampler says which samples come: "
                "give it a mixture without weights, and torch a WeightedRandomSampler"
            )
        own = {"seed": seed, "transforms": transforms, "output": "torch" if output == "auto" else output}
        flat.update(own, num_workers=0, rank=0, world_size=1, dataset=shown if indices is None else shown.subset(indices))
        self._loader = Loader._of(flat)
        self._indices = self._loader.dataset._indices
        self._names = tuples.names(as_tuple, self._loader.dataset, self._loader._given)
        # Memory shared with worker processes, so that set_epoch reaches running ones: the epoch, and the number of samples that
        # each process has fetched since set_epoch, -1 after the warning. Each counter has one writer.
        self._epoch = Counters(1)
        self._fetched = Counters(_COUNTERS)
        self._counts = self._loader._is_random

    @property
    def dataset(self) -> Dataset:
        """The data set or view that the samples come from."""
        return self._loader.dataset

    @property
    def epoch(self) -> int:
        """The epoch that random operations use now, see :meth:`set_epoch`."""
        return self._epoch[0]

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that random operations use from now on."""
        if epoch < 0:
            raise ArgumentError(f"epoch must not be negative, not {epoch}")
        self._epoch[0] = epoch
        for i, n in enumerate(self._fetched):
            self._fetched[i] = min(n, 0)

    def __len__(self) -> int:
        return len(self._loader.dataset) if self._indices is None else len(self._indices)

    def __getitem__(self, i: int) -> Any:
        return self.__getitems__([i])[0]

    def __getitems__(self, batch: Sequence[int]) -> list[Any]:
        n = len(self)
        numbers = []
        for i in batch:
            place = int(i) + n if int(i) < 0 else int(i)
            if not 0 <= place < n:
                raise IndexError(f"sample {int(i)} of {n}")
            numbers.append(place if self._indices is None else int(self._indices[place]))
        if self._counts:
            self._count(len(numbers))
        columns = {
            name: _rows(values)
            for name, values in self._loader.fetch(numbers, self.epoch).items()
        }
        if self._names is not None:
            return list(zip(*tuples.of(columns, self._names), strict=True))
        return [
            {name: values[row] for name, values in columns.items()} for row in range(len(numbers))
        ]

    def _count(self, n: int) -> None:
        """Warns once if more samples than an epoch has were fetched with the same epoch number."""
        worker = torch.utils.data.get_worker_info()
        if min(self._fetched) < 0:  # the warning was already given
            self._counts = False
            return
        mine = 0 if worker is None else 1 + worker.id % (_COUNTERS - 1)
        self._fetched[mine] += n
        if sum(self._fetched) <= self._of_an_epoch(n):
            return
        self._fetched[mine] = -1
        warnings.warn(
            f"more samples than an epoch has were fetched with epoch {self.epoch}, and their augmentations repeat: "
            "call set_epoch(epoch) on the TorchDataset before each epoch",
            stacklevel=3,
        )

    def _of_an_epoch(self, n: int) -> int:
        """Returns how many samples this rank may fetch in an epoch, if the sampler yields ``n`` at a time.

        Rank 0 may fetch the samples of all ranks and send them (accelerate's dispatch_batches). Other ranks may get up to ``n``
        more than their share, so that all have equally many batches (accelerate's even_batches).
        """
        try:
            rank, world_size, _ = options.ranks(None, None)
        except ArgumentError:  # a launcher's variables are wrong
            return len(self)
        return len(self) if rank == 0 else -(-len(self) // world_size) + n

    def __repr__(self) -> str:
        return f"TorchDataset({self._loader.dataset!r}, epoch {self.epoch})"


def _copy(array: Any) -> Any:
    return array.clone() if isinstance(array, torch.Tensor) else array.copy()


def _rows(values: Any) -> list[Any]:
    """Splits a column into a list with one entry per sample. The entries are copies, outside the loader's memory."""
    if isinstance(values, list):
        if values and not isinstance(values[0], (str, bytes)) and hasattr(values[0], "shape"):
            return [_copy(array) for array in values]
        return values
    if values.ndim == 1:
        return list(values.tolist())
    return list(_copy(values))


door(__name__, "penstock.torch")
