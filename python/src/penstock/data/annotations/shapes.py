"""Converts shapes that people drew on images to the fields of a sample: boxes with classes, points and lines, painted masks.

A shape with an area (rectangle, polygon, ellipse, mask) becomes a box. A shape without area (point, line) becomes one row for each
of its points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..schema import Array, Boxes, FieldSpec, Keypoints
from .given import AnnotationError, Drops, Given, box_problem, boxes_array
from .regions import RegionError, from_polygons, painted

KINDS = ["rectangle", "polygon", "ellipse", "mask"]
POINT_KINDS = ["points", "polyline", "skeleton"]
_REACH = 1e7  # largest valid coordinate, in pixels


@dataclass
class Shape:
    """One shape, in pixels. `problem` says why it cannot be stored."""

    what: str  # description for messages: "shape 3 (cat)"
    label: str
    kind: str = ""
    box: list[float] | None = None
    outline: list[float] | None = None  # corners as x0, y0, x1, y1, ...
    region: Callable[[int, int], Any] | None = None  # called with (height, width): returns the region to paint
    points: list[tuple[float, float, float]] = field(default_factory=list)  # (x, y, visibility) of each point
    extra: dict[str, int] = field(default_factory=dict)  # values of additional fields, by their names
    problem: str | None = None


def around(outline: Sequence[float]) -> list[float]:
    """Returns the smallest box around the corners x0, y0, x1, y1, ..."""
    return [min(outline[0::2]), min(outline[1::2]), max(outline[0::2]), max(outline[1::2])]


def far(values: Sequence[float]) -> bool:
    """Whether a coordinate is too large to be valid."""
    return any(not -_REACH <= value <= _REACH for value in values)


class Fields:
    """Decides which fields the samples of a source have, and converts shapes to the values of these fields."""

    def __init__(self, given: Given, classes: list[str], extra: Sequence[str], *, has_points: bool) -> None:
        self.given, self.classes, self.extra, self.has_points = given, classes, list(extra), has_points
        self._number = {name: i for i, name in enumerate(classes)}

    def schema(self) -> dict[str, FieldSpec]:
        made_for = self.given.made_for
        schema: dict[str, FieldSpec] = {
            "boxes": Boxes(made_for),
            "labels": Array("int64", classes=self.classes),
            "shapes": Array("uint8", classes=KINDS),
            **{name: Array("int64") for name in self.extra},
        }
        if self.has_points:
            schema["points"] = Keypoints(made_for, pairs=[])
            schema["point_labels"] = Array("int64", classes=self.classes)
            schema["point_shapes"] = Array("uint8", classes=POINT_KINDS)
            schema["point_sets"] = Array("int64")
        return schema | self.given.paints()

    def number(self, label: str) -> int:
        return self._number[label]

    def values(self, shapes: Sequence[Shape], height: int, width: int, path: str, drops: Drops) -> dict[str, Any]:
        import numpy as np

        kept: list[tuple[Shape, Any]] = []
        sets: list[Shape] = []
        for shape in shapes:
            try:
                if shape.points and shape.problem is None:
                    sets.append(shape)
                else:
                    kept.append((shape, self._region(shape, height, width)))
            except ValueError as error:
                text = f"{shape.what}: {error}"
                drops.add(AnnotationError(f"{path!r}: {text}", text=text, file=path))
        labels = [self._number[shape.label] for shape, _ in kept]
        values = {
            "boxes": boxes_array([shape.box for shape, _ in kept if shape.box is not None]),
            "labels": np.array(labels, np.int64),
            "shapes": np.array([KINDS.index(shape.kind) for shape, _ in kept], np.uint8),
            **{name: np.array([shape.extra.get(name, 0) for shape, _ in kept], np.int64) for name in self.extra},
        }
        if self.has_points:
            values.update(self._points(sets))
        values.update(painted(self.given.paint, [region for _, region in kept], labels, (height, width), len(self.classes)))
        return values

    def _region(self, shape: Shape, height: int, width: int) -> Any:
        if shape.problem is not None:
            raise ValueError(shape.problem)
        wrong = "is missing" if shape.box is None else box_problem(shape.box, height, width)
        if wrong is not None or shape.box is None:
            raise ValueError(f"the box {shape.box} {wrong}")
        if not self.given.paint:
            return None
        return drawn(shape.outline, height, width) if shape.region is None else shape.region(height, width)

    def _points(self, sets: Sequence[Shape]) -> dict[str, Any]:
        import numpy as np

        rows = [(point, shape, i) for i, shape in enumerate(sets) for point in shape.points]
        return {
            "points": np.array([point for point, _, _ in rows], np.float32).reshape(-1, 3),
            "point_labels": np.array([self._number[shape.label] for _, shape, _ in rows], np.int64),
            "point_shapes": np.array([POINT_KINDS.index(shape.kind) for _, shape, _ in rows], np.uint8),
            "point_sets": np.array([i for _, _, i in rows], np.int64),
        }


def drawn(outline: Sequence[float] | None, height: int, width: int) -> Any:
    """Returns the region of a polygon, or None if it has no pixels."""
    if outline is None:
        return None
    try:
        return from_polygons([list(outline)], height, width)
    except RegionError as error:
        raise ValueError(f"the polygon {error}") from None
