"""Operations for detection and segmentation: crops by boxes, canvases, random sizes, classes of masks.

They are imported from :mod:`penstock.transforms`, whose description applies to them.
"""

from __future__ import annotations

import array
import math
import numbers
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.public import public
from .base import (
    Fill,
    Labels,
    Size,
    Transform,
    _fail,
    _fill,
    _filter,
    _mask_fill,
    _pair,
    _probability,
    _range,
    _side,
    _whole,
)

__all__ = [
    "Letterbox",
    "MapLabels",
    "RandomIoUCrop",
    "RandomResize",
    "RandomScaleCrop",
    "RandomShortestSize",
    "RandomZoomOut",
    "SanitizeBoxes",
    "ScaleJitter",
]

# Numbers of operations in include/penstock/augment.h, which never change.
_RANDOM_IOU_CROP, _RANDOM_ZOOM_OUT, _LETTERBOX, _SCALE_JITTER = range(11, 15)
_RANDOM_SHORTEST_SIZE, _RANDOM_RESIZE, _MAP_LABELS, _SANITIZE_BOXES = range(15, 19)
_RANDOM_CROP = 3
_MAX_CHOICES = 16  # maximum number of sizes and overlaps that an operation may choose from
_MAX_FACTOR = 1000


def _factors(op: object, name: str, value: object, low: float, high: float) -> list[float]:
    factors = _range(op, name, value, low, high)
    if factors[0] <= 0:
        raise _fail(op, f"{name} is above 0, not {value!r}")
    return factors


def _number(op: object, name: str, value: object) -> float:
    if not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise _fail(op, f"{name} is a number of at least 0, not {value!r}")
    return float(value)


@dataclass(frozen=True)
class RandomIoUCrop(Transform):
    """SSD's crop (Liu et al., 2016) with torchvision's rule. It depends on the sample's boxes, so the loader must deliver one boxes
    field.

    It draws an overlap from ``sampler_options``, and then up to ``trials`` crops. Each side of a crop is ``min_scale`` to
    ``max_scale`` of the picture's, and width / height lies within ``min_aspect_ratio`` to ``max_aspect_ratio``. A crop is accepted
    if it contains the centre of at least one box, and its IoU with one such box is at least the overlap. The picture stays
    unchanged with an overlap of 1, for a sample without boxes, and if 100 overlaps gave no crop. Boxes whose centre is outside the
    crop are dropped, with the rows that belong to them (``Annotations.per_box``). Crops differ in size, so a Resize should follow.
    """

    _draws = True

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    trials: int = 40

    def describe(self) -> dict[str, Any]:
        default = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
        given = default if self.sampler_options is None else self.sampler_options
        if not isinstance(given, Sequence) or isinstance(given, str) or not 1 <= len(given) <= _MAX_CHOICES:
            raise _fail(self, f"sampler_options is 1 to {_MAX_CHOICES} overlaps, not {given!r}")
        overlaps = tuple(_number(self, "an overlap", value) for value in given)
        object.__setattr__(self, "sampler_options", overlaps)
        return {
            "kind": _RANDOM_IOU_CROP,
            "scale": _factors(self, "(min_scale, max_scale)", (self.min_scale, self.max_scale), 0, 1),
            "ratio": _factors(self, "(min_aspect_ratio, max_aspect_ratio)", (self.min_aspect_ratio, self.max_aspect_ratio), 0, 1e6),
            "overlaps": list(overlaps),
            "n_overlaps": len(overlaps),
            "trials": _whole(self, "trials", self.trials, 1, 1000),
        }


@dataclass(frozen=True)
class RandomZoomOut(Transform):
    """With probability ``p``, places the picture at random on a canvas whose sides are ``side_range`` times those of the picture.

    ``fill`` is in pixel units, ``mask_fill`` a class. The whole canvas is in memory unless a crop follows immediately.
    """

    _draws = True

    fill: Fill = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        return {
            "kind": _RANDOM_ZOOM_OUT,
            "fill": _fill(self, self.fill),
            "mask_fill": _mask_fill(self, self.mask_fill),
            "scale": _range(self, "side_range", self.side_range, 1, _MAX_FACTOR),
            "p": _probability(self, self.p),
        }


@dataclass(frozen=True)
class Letterbox(Transform):
    """Resizes to fit into ``size``, keeps the aspect ratio, and pads evenly to exactly ``size``: the rule of YOLO.

    An odd pixel of padding is added at the right or at the bottom. ``scale_up=False``: a smaller picture keeps its size and is only
    padded.
    """

    size: Size
    fill: Fill = 114
    mask_fill: float = 0
    scale_up: bool = True
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.size, square=True)
        return {
            "kind": _LETTERBOX,
            "height": height,
            "width": width,
            "fill": _fill(self, self.fill),
            "mask_fill": _mask_fill(self, self.mask_fill),
            "no_scale_up": not self.scale_up,
            **_filter(self),
        }


@dataclass(frozen=True)
class ScaleJitter(Transform):
    """Resizes by a random factor of ``scale_range``, relative to the factor with which the picture fits into ``target_size``: LSJ.

    ``target_size`` is (width, height), as torchvision interprets it, or one number. Sizes differ, so a RandomCrop should follow.
    """

    _draws = True

    target_size: Size
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        # torchvision divides target_size[1] by the height, so the order is (width, height).
        width, height = _pair(self, self.target_size, square=True)
        return {
            "kind": _SCALE_JITTER,
            "height": height,
            "width": width,
            "scale": _factors(self, "scale_range", self.scale_range, 0, _MAX_FACTOR),
            **_filter(self),
        }


@dataclass(frozen=True)
class RandomShortestSize(Transform):
    """Resizes so that the shorter side is one of ``min_size`` (a number, or up to 16), and the longer one at most ``max_size``.

    Sizes differ, so a crop or a Letterbox should follow if batches need one size.
    """

    _draws = True

    min_size: int | Sequence[int]
    max_size: int | None = None
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        given = [self.min_size] if isinstance(self.min_size, numbers.Integral) else self.min_size
        if not isinstance(given, Sequence) or isinstance(given, str) or not 1 <= len(given) <= _MAX_CHOICES:
            raise _fail(self, f"min_size is a number or 1 to {_MAX_CHOICES} of them, not {self.min_size!r}")
        sizes = [_side(self, value) for value in given]
        if not isinstance(self.min_size, numbers.Integral):
            object.__setattr__(self, "min_size", tuple(sizes))
        return {
            "kind": _RANDOM_SHORTEST_SIZE,
            "sizes": sizes,
            "n_sizes": len(sizes),
            "max_size": 0 if self.max_size is None else _side(self, self.max_size),
            **_filter(self),
        }


@dataclass(frozen=True)
class RandomResize(Transform):
    """Resizes so that the shorter side is a random number from ``min_size`` to ``max_size - 1`` pixels, as in torchvision."""

    _draws = True

    min_size: int
    max_size: int
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        low, high = _side(self, self.min_size), _side(self, self.max_size)
        if low >= high:
            raise _fail(self, f"min_size is less than max_size, not {self.min_size!r} and {self.max_size!r}")
        return {"kind": _RANDOM_RESIZE, "sizes": [low, high], **_filter(self)}


@dataclass(frozen=True)
class RandomScaleCrop(Transform):
    """Resizes by a random factor of ``scale_range``, then crops ``size`` at a random place: the usual recipe for Cityscapes.

    A picture that became smaller than ``size`` is placed at random within the padding: ``fill`` in pixel units, ``mask_fill`` the
    class to ignore.
    """

    _draws = True

    size: Size
    scale_range: Sequence[float] = (0.5, 2.0)
    fill: Fill = 0
    mask_fill: float = 255
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        return {
            "kind": _SCALE_JITTER,
            "height": 0,
            "width": 0,
            "scale": _factors(self, "scale_range", self.scale_range, 0, _MAX_FACTOR),
            **_filter(self),
        }

    def parts(self) -> list[dict[str, Any]]:
        height, width = _pair(self, self.size, square=True)
        crop = {
            "kind": _RANDOM_CROP,
            "height": height,
            "width": width,
            "pad_if_needed": True,
            "fill": _fill(self, self.fill),
            "mask_fill": _mask_fill(self, self.mask_fill),
        }
        return [self.describe(), crop]

    def __post_init__(self) -> None:
        self.parts()


@dataclass(frozen=True)
class MapLabels(Transform):
    """Maps the classes of masks. ``table``: a dict, a list (element i is the new class of i), or a list of pairs.

    Classes that are not in the table become ``other``, or stay if it is None. Classes are 0 to 65535, or to 255 in masks of 8 bits.
    Images are not changed. Padding of an earlier operation is mapped, too; padding of a later one is not, so its ``mask_fill`` must
    be a new class.
    """

    table: Labels
    other: int | None = 255

    def __post_init__(self) -> None:
        table = self.table
        given: Any = table.items() if isinstance(table, Mapping) else table
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise _fail(self, f"table is a dict, a list of classes or a list of pairs, not {table!r}")
        given = list(given)
        if not all(isinstance(entry, numbers.Integral) or hasattr(entry, "__iter__") for entry in given):
            raise _fail(self, f"table is a list of classes, whole numbers, or a list of pairs, not {table!r}")
        entries = [entry if isinstance(entry, numbers.Integral) else tuple(entry) for entry in given]
        pairs = [(i, entry) if isinstance(entry, numbers.Integral) else entry for i, entry in enumerate(entries)]
        if len({isinstance(entry, tuple) for entry in entries}) > 1 or any(len(pair) != 2 for pair in pairs):
            raise _fail(self, f"table is a list of classes or a list of pairs, not {table!r}")
        checked = sorted((_whole(self, "a class", a, 0, 65535), _whole(self, "a class", b, 0, 65535)) for a, b in pairs)
        if len({a for a, _ in checked}) != len(checked):
            raise _fail(self, "table has a class twice")
        plain = all(isinstance(entry, numbers.Integral) for entry in entries) and bool(entries)
        object.__setattr__(self, "table", tuple(b for _, b in checked) if plain else tuple(checked))
        super().__post_init__()

    def describe(self) -> dict[str, Any]:
        table: Any = self.table
        pairs = [entry if isinstance(entry, tuple) else (i, entry) for i, entry in enumerate(table)]
        n = max((a for a, _ in pairs), default=-1) + 1
        other = None if self.other is None else _whole(self, "other", self.other, 0, 65535)
        labels = array.array("H", range(n)) if other is None else array.array("H", [other]) * n
        for a, b in pairs:
            labels[a] = b
        assert labels.itemsize == 2 and sys.byteorder == "little"
        return {
            "kind": _MAP_LABELS,
            "labels": labels.tobytes(),
            "other_label": 255 if other is None else other,
            "keep_others": other is None,
        }


@dataclass(frozen=True)
class SanitizeBoxes(Transform):
    """Drops boxes with a side below ``min_size`` pixels or an area below ``min_area``, with the rows that belong to them
    (``per_box``).

    Boxes are measured on the picture at this place in the chain. The rule is that of torchvision's SanitizeBoundingBoxes. It
    replaces the loader's ``min_area``: later operations drop only boxes that lost all of their area. ``min_visibility`` still
    applies.
    """

    min_size: float = 1.0
    min_area: float = 1.0

    def describe(self) -> dict[str, Any]:
        return {
            "kind": _SANITIZE_BOXES,
            "min_size": _number(self, "min_size", self.min_size),
            "min_area": _number(self, "min_area", self.min_area),
        }


public(__name__, "penstock.transforms")
