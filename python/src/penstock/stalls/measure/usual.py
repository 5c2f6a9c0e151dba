"""The loader that analyze, plan and tune measure if they get data but no loader: what the user stated, and what is assumed.

Assumed values are recorded in `Loader._assumed`, by the name of the argument that would set them, so that a report can list them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import transforms
from ...data import metadataset
from ...data.dataset import Dataset
from ...data.mixture import Mixture
from ...errors import ArgumentError
from ...loading.arguments import Annotations
from ...loading.loader import Loader
from ...loading.stages import wanted
from ...transforms.base import IMAGENET_MEAN, IMAGENET_STD
from ...transforms.words import words
from .. import accelerators

BATCH = 64
SIDE = 224


@dataclass(frozen=True)
class Usual:
    """Makes a loader for a path. It is called with (path, plan), where the plan may be None.

    Attributes:
        batch_size: samples per batch; None: `usual_batch`, but at most half of the data set.
        usual_batch: samples per batch if the user states none.
        transforms: the loader's transforms; None: RandomResizedCrop, flip and Normalize for data sets with images.
        size: side of the crop, or (height, width), if no transforms are given; None: 224.
        fields, per_box: arguments of the loader; None: all fields, and no field with a row for each box.
        labels, masks, allow_unreadable, ignore_labels, split, members: arguments of :class:`penstock.Dataset`; members are its
            `fields`.
        output: the loader's argument.
    """

    batch_size: int | None = None
    usual_batch: int = BATCH
    transforms: Any = None
    size: Any = None
    fields: Sequence[str] | None = None
    per_box: Sequence[str] | Mapping[str, str] | None = None
    labels: str | None = None
    masks: Sequence[str] = ()
    allow_unreadable: bool = False
    ignore_labels: bool = False
    split: str | None = None
    members: Mapping[str, Any] | None = None
    output: str = "auto"

    def __post_init__(self) -> None:
        if self.transforms is not None and self.size is not None:
            raise ArgumentError("size is that of the usual transforms: transforms of your own have theirs")
        wanted(self.size, self.batch_size)  # raises an error for wrong values

    def of_packed(self) -> Usual:
        """Returns the same settings for the data set that was packed from the data. It is opened by its path alone."""
        return replace(
            self, labels=None, masks=(), allow_unreadable=False, ignore_labels=False, split=None, members=None
        )

    def __call__(self, data: Dataset | str | os.PathLike[str], plan: Any = None) -> Loader:
        if isinstance(data, Dataset):
            dataset = data
        elif metadataset.is_one(data):
            dataset = self._mixture(data)
        else:
            dataset = Dataset(
                data, labels=self.labels, masks=self.masks, allow_unreadable=self.allow_unreadable,
                ignore_labels=self.ignore_labels, split=self.split, fields=self.members,
            )  # fmt: skip
        assumed: dict[str, str] = {}
        batch_size = self._batch_of(dataset, assumed)
        chain = self._chain_of(dataset, assumed)
        per_box = self._per_box_of(dataset, assumed)
        loader = Loader(
            dataset, batch_size, shuffle=True, transforms=chain, fields=self.fields, annotations=Annotations(per_box), plan=plan,
            output=self.output,
        )  # fmt: skip
        loader._assumed = assumed
        return loader

    def _mixture(self, path: str | os.PathLike[str]) -> Dataset:
        """Opens a metadataset. It defines itself how its data sets are opened."""
        names = ("labels", "masks", "allow_unreadable", "ignore_labels", "members")
        if given := [name for name in names if getattr(self, name)]:
            raise ArgumentError(f"{', '.join(given)}: {os.fspath(path)} is a metadataset, whose data sets are opened as they are")
        return Mixture.from_energon(path, split=self.split or "train", fields=self.fields)

    def _batch_of(self, dataset: Dataset, assumed: dict[str, str]) -> int:
        if self.batch_size is not None:
            return self.batch_size
        most = max(1, len(dataset) // 2)
        found = min(self.usual_batch, most)
        assumed["batch_size"] = f"batches of {found} are assumed" + (
            f", not of {self.usual_batch}: the data set has {len(dataset)} samples" if found < self.usual_batch else ""
        )
        return found

    def _chain_of(self, dataset: Dataset, assumed: dict[str, str]) -> Any:
        if self.transforms is not None:
            return self.transforms
        delivered = [field for name, field in dataset.fields.items() if self.fields is None or name in self.fields]
        if not any(field.type == "image" for field in delivered):
            assumed["transforms"] = "no transforms are assumed: no image is delivered"
            return None
        found = usual_chain(self.size)
        assumed["transforms"] = f"the transforms are assumed: {words(found)}"
        return found

    def _per_box_of(self, dataset: Dataset, assumed: dict[str, str]) -> Any:
        if self.per_box is not None or not any(field.type == "boxes" for field in dataset.fields.values()):
            return self.per_box
        assumed["per_box"] = "no field is assumed to have a row for each box (Annotations.per_box)"
        return ()


def usual(batch_size: int | None, accelerator: Any) -> Usual:
    """Returns the usual loader with this batch size; None: that of the named accelerator, else 64."""
    return Usual(batch_size, usual_batch=batch_of(accelerator))


def batch_of(accelerator: Any) -> int:
    """Returns the batch size of an accelerator that has one, else the usual batch size."""
    found = accelerators.by_name(accelerator) if isinstance(accelerator, str) else accelerator
    return found.batch_size if isinstance(found, accelerators.Accelerator) else BATCH


def usual_chain(size: Any = None) -> list[transforms.Transform]:
    return [
        transforms.RandomResizedCrop(SIDE if size is None else size),
        transforms.RandomHorizontalFlip(),
        transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]
