"""The samples of a contact sheet: chooses the fields to draw, and loads their values as a training with the same operations
would."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import transforms
from ..base import files as _files
from ..base import options as _options
from ..data.dataset import Dataset, Field
from ..errors import ArgumentError, PenstockError
from ..loading.arguments import Annotations, Watch
from ..loading.loader import Loader
from ..transforms.base import Transform, chain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PICTURES = ("image", "mask")
_BOX_LABELS = ("labels", "box_labels", "classes", "names", "categories", "category", "label", "class")


class Fields(NamedTuple):
    """Names of the fields that are drawn; None where the data set has no such field."""

    image: str | None
    mask: str | None
    boxes: str | None
    keypoints: str | None
    box_labels: str | None
    label: str | None


class Place(NamedTuple):
    """A rectangle of the sheet, in pixels."""

    y: int
    x: int
    height: int
    width: int


@dataclass
class Tile:
    """One sample to draw on a sheet.

    Attributes:
        sample, epoch, name: number of the sample, the epoch, and the sample's name, "" where it cannot be read.
        image: uint8 (height, width, 3); mask: int32 (height, width); None if the sample has none.
        boxes: float32 (n, 4). labels: a text for each box, or an empty list. points: float32 (n, 3).
        label: number or name of the sample's class; "" if it has none.
        error: the error of a bad sample. The other attributes are then empty.
        place, n_boxes: rectangle of the picture on the sheet, and number of boxes drawn; the sheet sets both.
    """

    sample: int
    epoch: int
    name: str = ""
    image: npt.NDArray[np.uint8] | None = None
    mask: npt.NDArray[np.int32] | None = None
    boxes: Sequence[Any] = ()
    labels: Sequence[str] = ()
    points: Sequence[Any] = ()
    label: str = ""
    error: PenstockError | None = None
    place: Place = field(default=Place(0, 0, 0, 0))
    n_boxes: int = 0

    @property
    def height(self) -> int:
        return self._shape[0]

    @property
    def width(self) -> int:
        return self._shape[1]

    @property
    def _shape(self) -> tuple[int, ...]:
        picture = self.mask if self.image is None else self.image
        return (0, 0) if picture is None else picture.shape


# Choosing fields ------------------------------------------------------------------------------------


def choose(dataset: Dataset, picture: str | None, box_labels: str | None) -> Fields:
    """Chooses the fields to draw: the image or mask `picture`, else the loader's main image, with the boxes, points and labels of
    it.

    box_labels: name of the field with a text or number for each box; None: a field with a usual name. ArgumentError: there is
    nothing to draw, or no such field.
    """
    fields = dataset.fields
    image, mask = _pictures(dataset, picture)
    boxes = _first(fields, "boxes")
    of_boxes = _usual_box_labels(fields)
    label = _label(fields, of_boxes)
    if boxes is None:
        of_boxes = None
    elif box_labels is not None:
        of_boxes = _find(dataset, box_labels, "--box-labels").name
        if not _labels_boxes(fields[of_boxes]):
            raise ArgumentError(f'--box-labels: "{box_labels}" is neither JSON nor an array of whole numbers')
    return Fields(image, mask, boxes, _first(fields, "keypoints"), of_boxes, label)


def _pictures(dataset: Dataset, picture: str | None) -> tuple[str | None, str | None]:
    """Returns the names of the image field and the mask field to draw."""
    fields = dataset.fields
    if picture is None and "image" in fields and fields["image"].type == "image":
        picture = "image"
    found = _first(fields, "image") if picture is None else _find(dataset, picture, "--field").name
    if found is not None and fields[found].type == "mask":
        return None, found
    if found is not None and fields[found].type != "image":
        raise ArgumentError(f'--field: "{found}" is {fields[found].type}, not an image or mask', dataset=dataset.path)
    mask = _first(fields, "mask")
    if found is None and mask is None:
        text = "the data set has no image or mask: nothing to draw"
        raise ArgumentError(f"{dataset.path}: {text}", text=text, dataset=dataset.path)
    return found, mask


def _first(fields: Mapping[str, Field], kind: str) -> str | None:
    return next((name for name, field in fields.items() if field.type == kind), None)


def _find(dataset: Dataset, name: str, option: str) -> Field:
    fields = dataset.fields
    if name not in fields:
        text = f'no field "{name}" for {option}{_options.nearest(name, list(fields))}'
        raise ArgumentError(f"{dataset.path}: {text}", text=text, dataset=dataset.path)
    return fields[name]


def _labels_boxes(field: Field) -> bool:
    """Whether the type of a field allows a label for each box."""
    return field.type == "json" or (field.type == "array" and len(field.shape) <= 1 and field.dtype in ("int64", "int32", "uint8"))


def _usual_box_labels(fields: Mapping[str, Field]) -> str | None:
    return next((name for name in _BOX_LABELS if name in fields and _labels_boxes(fields[name])), None)


def _label(fields: Mapping[str, Field], of_boxes: str | None) -> str | None:
    """Returns the name of the field with a sample's label: an int with classes or named "label". Without such a field and without
    labels of boxes: the first int."""
    ints = [field for field in fields.values() if field.type == "int"]
    sure = next((field.name for field in ints if field.n_classes or field.name == "label"), None)
    return sure or (None if of_boxes is not None or not ints else ints[0].name)


# Loading --------------------------------------------------------------------------------------------


class Samples:
    """Loads the samples of a sheet one by one, in the calling thread.

    chains: operations, as read from the JSON file; None: no operations. file: name of that file, for errors. by_position: samples
    are numbered by their position in the shuffled epoch. normalizes: Normalize was left out of the operations.
    """

    def __init__(
        self, dataset: Dataset, fields: Fields, chains: Any, file: str | None, *, seed: int = 0, by_position: bool = False
    ) -> None:
        self._dataset, self._fields, self._by_position = dataset, fields, by_position
        self._classes = _names(dataset, fields.label)
        self._box_classes = _names(dataset, fields.box_labels)
        self.normalizes = False
        with _files.of_file(file), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the loader's warnings are about training
            drawn = self._chains(chains)
            self._loader = Loader(
                dataset,
                transforms=drawn,
                shuffle=by_position,
                seed=seed,
                fields=[name for name in dict.fromkeys(fields) if name is not None],
                dtype={name: kind for name, kind in ((fields.image, "uint8"), (fields.mask, "int32")) if name is not None},
                layout={fields.image: "NHWC"} if fields.image is not None else "NHWC",
                channels={fields.image: 3} if fields.image is not None else None,
                num_workers=0,
                prefetch=1,
                rank=0,
                world_size=1,
                output="numpy",
                cache=None,
                fleet=None,
                annotations=Annotations(per_box=(), keep_boxes=True),  # keep a label for each box
                watch=Watch(live=False),
            )

    def _chains(self, chains: Any) -> Any:
        """Returns the operations on the drawn fields, without Normalize."""
        if not isinstance(chains, Mapping):
            return None if chains is None else self._pixels(None, chains)
        for name in chains:
            kind = _find(self._dataset, name, "operations").type
            if kind not in _PICTURES:
                raise ArgumentError(f'operations are for images and masks: "{name}" is {kind}')
        drawn = (self._fields.image, self._fields.mask)
        return {name: self._pixels(name, ops) for name, ops in chains.items() if name in drawn}

    def _pixels(self, name: str | None, ops: Any) -> list[Transform]:
        """Returns operations without Normalize, because a sheet shows pixels."""
        found = chain(name, ops)
        place = next((i for i, op in enumerate(found) if isinstance(op, transforms.Normalize)), None)
        if place is None:
            return found
        behind = found[place + 1 :]
        if len(behind) > 1 or not all(isinstance(op, transforms.RandomErasing) for op in behind):
            raise ArgumentError("Normalize must be the last operation, but for RandomErasing")
        self.normalizes = True
        return found[:place] + behind

    def tile(self, number: int, epoch: int) -> Tile:
        """Loads a sample by its number, or by its position in the epoch. A bad sample becomes a tile with its error; other errors
        are raised."""
        try:
            batch = self._loader.replay(number, epoch) if self._by_position else self._loader.fetch([number], epoch)
        except PenstockError as error:
            if error.sample is None:
                raise
            return Tile(error.sample, epoch, self._name(error.sample), error=error)
        sample = int(batch["index"][0])
        image, mask, boxes, points, box_labels, label = (None if name is None else batch[name][0] for name in self._fields)
        if image is not None and mask is not None and image.shape[:2] != mask.shape:
            mask = None  # the mask has other operations than the image, so it does not match the picture
        tile = Tile(sample, epoch, self._name(sample), image, mask)
        tile.boxes = () if boxes is None else boxes
        tile.points = () if points is None else points
        tile.labels = self._texts(box_labels, len(tile.boxes))
        if label is not None and label >= 0:
            tile.label = _class_name(self._classes, int(label)) or f"label {label}"
        return tile

    def _name(self, sample: int) -> str:
        try:
            return self._dataset.name(sample)
        except PenstockError:
            return ""

    def _texts(self, labels: Any, n_boxes: int) -> list[str]:
        """Returns the labels of boxes as texts, or an empty list if their number is not that of the boxes."""
        if not isinstance(labels, list) and getattr(labels, "ndim", 0) != 1:
            return []
        return [self._text(label) for label in labels] if len(labels) == n_boxes else []

    def _text(self, label: Any) -> str:
        if isinstance(label, str):
            return label
        if isinstance(label, bool) or not hasattr(label, "__float__"):
            return ""
        if isinstance(label, float):
            return f"{label:g}"
        return _class_name(self._box_classes, int(label)) or str(label)


def _names(dataset: Dataset, name: str | None) -> list[str] | None:
    return None if name is None or not dataset.fields[name].n_classes else dataset.class_names(name)


def _class_name(names: list[str] | None, number: int) -> str | None:
    return names[number] if names is not None and 0 <= number < len(names) else None
