"""A map-style data set for torch.utils.data.DataLoader, Lightning and the like."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import transforms as _transforms
from .dataset import Dataset
from .errors import ArgumentError
from .loader import Loader

__all__ = ["TorchDataset"]


class TorchDataset(torch.utils.data.Dataset[Any]):
    """Samples by number, decoded and augmented by Penstock, for torch's DataLoader.

    ``ds[i]`` is a dict of tensors (numpy arrays with ``output="numpy"``), ints, floats and str, as
    ``default_collate`` takes them; with ``as_tuple=True`` it is (image, label), and with a list of names
    those fields in that order. Each sample is a copy of its own. DataLoader fetches whole batches at
    once (``__getitems__``), in any number of workers, forked or spawned.

    Augmentations are a function of (seed, epoch, sample): call :meth:`set_epoch` before each epoch; it
    reaches workers that are alive already (``persistent_workers=True``).

    Args:
        dataset: a :class:`Dataset` or a path.
        transforms: operations per field, as for :class:`Loader`.
        seed: of the augmentations.
        output: "torch" or "numpy"; "auto" is torch.
        as_tuple: see above.
        loader_options: further arguments of :class:`Loader`: ``dtype``, ``layout``, ``channels``,
            ``bits``, ``fields``, ``encoded``, ``variants``, ``host_memory``, ``storage``, ...
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
        for name in ("batch_size", "shuffle", "order", "rank", "world_size", "num_workers", "weights"):
            if name in loader_options:
                raise ArgumentError(f"{name} belongs to torch's DataLoader and its sampler")
        if "device" in loader_options:
            raise ArgumentError("samples of a TorchDataset are in host memory: use Loader(device=...)")
        indices = loader_options.pop("indices", None)
        self._loader = Loader(
            dataset,
            batch_size=1,
            seed=seed,
            transforms=transforms,
            num_workers=0,
            rank=0,
            world_size=1,
            output="torch" if output == "auto" else output,
            **loader_options,
        )
        shown = self._loader.dataset if indices is None else self._loader.dataset.subset(indices)
        self._indices = shown._indices
        self._names = self._tuple_names(as_tuple)
        # Shared with worker processes, so that set_epoch reaches those that live on.
        self._epoch = torch.zeros(1, dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call, unused-ignore]

    def _tuple_names(self, as_tuple: bool | Sequence[str]) -> tuple[str, ...] | None:
        fields = self._loader.dataset.fields
        if as_tuple is False:
            return None
        if as_tuple is True:
            image = next((f.name for f in fields.values() if f.type == "image"), None)
            labels = [f.name for f in fields.values() if f.type == "int"]
            label = "label" if "label" in labels else next(iter(labels), None)
            if image is None or label is None:
                raise ArgumentError("as_tuple=True wants an image and an int field")
            return image, label
        for name in as_tuple:
            if name not in fields and name != "index":
                raise ArgumentError(f"as_tuple: no field {name!r}, there are {', '.join(fields)}")
        return tuple(as_tuple)

    @property
    def dataset(self) -> Dataset:
        return self._loader.dataset

    @property
    def epoch(self) -> int:
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Randomness from now on is that of ``epoch``."""
        if epoch < 0:
            raise ArgumentError(f"epoch must not be negative, not {epoch}")
        self._epoch[0] = epoch

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
        columns = {
            name: _rows(values)
            for name, values in self._loader.fetch(numbers, self.epoch).items()
        }
        if self._names is not None:
            return [
                tuple(columns[name][row] for name in self._names) for row in range(len(numbers))
            ]
        return [
            {name: values[row] for name, values in columns.items()} for row in range(len(numbers))
        ]

    def __repr__(self) -> str:
        return f"TorchDataset({self._loader.dataset!r}, epoch {self.epoch})"


def _copy(array: Any) -> Any:
    return array.clone() if isinstance(array, torch.Tensor) else array.copy()


def _rows(values: Any) -> list[Any]:
    """One entry per sample that does not lie in the loader's memory."""
    if isinstance(values, list):
        if values and not isinstance(values[0], (str, bytes)) and hasattr(values[0], "shape"):
            return [_copy(array) for array in values]
        return values
    if values.ndim == 1:
        return list(values.tolist())
    return list(_copy(values))
