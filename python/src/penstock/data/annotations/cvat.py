"""Reads "CVAT for images 1.1": one XML file with the shapes of all images."""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

from ...base.files import read_file
from ...errors import CorruptError, NotFoundError
from ..schema import Array, FieldSpec, Text
from .given import Drops, Given, decimal, is_image_name, is_text, listed, size_problem, tidy_path
from .regions import RegionError, from_counts
from .shapes import Fields, Shape, around, far
from .voc import parse_xml

_MOST_BYTES = 1 << 30
_LINE = " line"  # XML attributes have no blank in their names, so this name is free
_SIDE_MAX = 65535
_CORNERS = 64  # number of corners of the polygon that replaces an ellipse


def _number(element: ET.Element, name: str) -> float:
    text = element.get(name)
    found = decimal(text)
    if found is None or far([found]):
        raise ValueError(f"{name} is {text!r}, a number is expected")
    return found


def _whole(element: ET.Element, name: str) -> int:
    found = _number(element, name)
    if not found.is_integer():
        raise ValueError(f"{name} is {element.get(name)!r}, a whole number is expected")
    return int(found)


def _flag(element: ET.Element, name: str) -> int:
    text = element.get(name, "0")
    if text not in ("0", "1"):
        raise ValueError(f"{name} is {text!r}, 0 or 1 is expected")
    return int(text)


def _outline(element: ET.Element, least: int) -> list[float]:
    """Converts the points "x,y;x,y;..." to the list x, y, x, y, ..."""
    found: list[float] = []
    for point in (element.get("points") or "").split(";"):
        left, _, right = point.partition(",")
        x, y = decimal(left), decimal(right)
        if x is None or y is None:
            raise ValueError(f"points has {point!r}, x,y is expected")
        found += [x, y]
    if len(found) < 2 * least or far(found):
        raise ValueError(f"points has {len(found) // 2} points within reach, {least} are expected")
    return found


def _turned(corners: list[float], degrees: float) -> list[float]:
    """Rotates corners around their centre, clockwise as the picture is seen."""
    x, y = sum(corners[0::2]) / (len(corners) // 2), sum(corners[1::2]) / (len(corners) // 2)
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    found = []
    for px, py in zip(corners[0::2], corners[1::2], strict=True):
        found += [x + c * (px - x) - s * (py - y), y + s * (px - x) + c * (py - y)]
    return found


def ellipse(x: float, y: float, rx: float, ry: float) -> list[float]:
    """Returns a polygon whose corners lie on the ellipse."""
    angles = [2 * math.pi * i / _CORNERS for i in range(_CORNERS)]
    return [value for angle in angles for value in (x + rx * math.cos(angle), y + ry * math.sin(angle))]


def _box(element: ET.Element, shape: Shape) -> None:
    x0, y0, x1, y1 = (_number(element, name) for name in ("xtl", "ytl", "xbr", "ybr"))
    shape.kind = "rectangle"
    turn = _number(element, "rotation") if element.get("rotation") is not None else 0.0
    if x0 > x1 or y0 > y1:
        raise ValueError(f"the box {[x0, y0, x1, y1]} has a negative size")
    corners = [x0, y0, x1, y0, x1, y1, x0, y1]
    shape.outline = _turned(corners, turn) if turn else corners
    shape.box = around(shape.outline) if turn else [x0, y0, x1, y1]


def _polygon(element: ET.Element, shape: Shape) -> None:
    shape.kind, shape.outline = "polygon", _outline(element, 3)
    shape.box = around(shape.outline)


def _ellipse(element: ET.Element, shape: Shape) -> None:
    x, y, rx, ry = (_number(element, name) for name in ("cx", "cy", "rx", "ry"))
    turn = math.radians(_number(element, "rotation") if element.get("rotation") is not None else 0.0)
    if rx < 0 or ry < 0:
        raise ValueError("the ellipse has a negative size")
    reach_x = math.hypot(rx * math.cos(turn), ry * math.sin(turn))
    reach_y = math.hypot(rx * math.sin(turn), ry * math.cos(turn))
    shape.kind, shape.box = "ellipse", [x - reach_x, y - reach_y, x + reach_x, y + reach_y]
    shape.outline = _turned(ellipse(x, y, rx, ry), math.degrees(turn))


def _mask(element: ET.Element, shape: Shape) -> None:
    left, top, width, height = (_whole(element, name) for name in ("left", "top", "width", "height"))
    if not (0 <= left <= _SIDE_MAX and 0 <= top <= _SIDE_MAX and 1 <= width <= _SIDE_MAX and 1 <= height <= _SIDE_MAX):
        raise ValueError(f"the mask at {left}, {top} of {width} x {height} pixels is none within an image")
    try:
        counts = [int(word) for word in (element.get("rle") or "").split(",")]
    except ValueError:
        raise ValueError("rle is no list of whole numbers") from None
    if min(counts) < 0 or sum(counts) != width * height:
        raise ValueError(f"rle has {sum(counts)} pixels, its box has {width * height}")
    shape.kind, shape.box = "mask", [left, top, left + width, top + height]
    shape.region = lambda rows, columns: region_of_window(counts, (left, top, width, height), rows, columns)


def region_of_window(counts: Any, window: tuple[int, int, int, int], height: int, width: int) -> Any:
    """Converts the mask of a window of the image to a region. The mask is run lengths along the window's rows, or pixels, bool (h,
    w)."""
    import numpy as np

    left, top, w, h = window
    if left + w > width or top + h > height:
        raise ValueError(f"the mask of {w} x {h} pixels at {left}, {top} goes beyond the image ({width} x {height} pixels)")
    inside = np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(h, w) if isinstance(counts, list) else counts
    canvas = np.zeros((width, height), bool)  # transposed: regions count pixels down the columns of the image
    canvas[left : left + w, top : top + h] = inside.T
    flat = np.concatenate([[False], canvas.reshape(-1), [False]])
    places = np.flatnonzero(flat[1:] != flat[:-1])
    try:
        return from_counts(np.diff(np.concatenate([[0], places, [width * height]])).tolist(), height, width)
    except RegionError as error:
        raise ValueError(f"the mask {error}") from None


def _points(element: ET.Element, shape: Shape) -> None:
    outline = _outline(element, 2 if element.tag == "polyline" else 1)
    shape.kind = element.tag
    shape.points = [(x, y, 2.0) for x, y in zip(outline[0::2], outline[1::2], strict=True)]


def _skeleton(element: ET.Element, shape: Shape) -> None:
    shape.kind = "skeleton"
    for point in element.findall("points"):
        x, y = _outline(point, 1)[:2]
        shape.points.append((x, y, 0.0 if _flag(point, "outside") else 1.0 if _flag(point, "occluded") else 2.0))
    if not shape.points:
        raise ValueError("the skeleton has no points")


_READERS: dict[str, Callable[[ET.Element, Shape], None]] = {
    "box": _box, "polygon": _polygon, "ellipse": _ellipse, "mask": _mask,
    "points": _points, "polyline": _points, "skeleton": _skeleton,
}  # fmt: skip


def _shape(element: ET.Element) -> Shape:
    label = element.get("label") or ""
    shape = Shape(f"line {element.get(_LINE)}: {element.tag} ({label})", label)
    try:
        if not is_text(label):
            raise ValueError("it has no label")
        if element.tag not in _READERS:
            raise ValueError(f"a {element.tag} is no shape that can be stored")
        shape.extra["occluded"] = _flag(element, "occluded")
        _READERS[element.tag](element, shape)
    except (ValueError, OverflowError) as error:
        shape.problem = str(error)
    return shape


class Cvat:
    """Reads an unpacked export: a folder with annotations.xml and images/, or that file with the images beside it."""

    def __init__(self, source: str, given: Given) -> None:
        self.folder = source
        path = os.path.join(source, "annotations.xml")
        if not os.path.isdir(source):
            self.folder, path = os.path.dirname(source) or ".", source
        self._path, self._given, self.early = path, given, Drops(given.drop)
        root = parse_xml(read_file(path, "annotations of CVAT", _MOST_BYTES), path, _LINE)
        if root.tag != "annotations":
            raise self._fault(root, f"the root is <{root.tag}>, <annotations> is expected")
        if root.find("track") is not None:
            raise self._fault(root, "it has tracks of a video: export it as CVAT for images 1.1")
        self._images: dict[str, tuple[int, int]] = {}  # path of an image: its height and width
        self._shapes: dict[str, list[Shape]] = {}
        self._tags: dict[str, list[str]] = {}
        self._subsets: dict[str, str] = {}
        self._there = [name for name in listed(self.folder) if is_image_name(name)]
        for element in root.findall("image"):
            if given.split in (None, element.get("subset")):
                self._read(element)
        if not self._images:
            raise NotFoundError(f"{path!r}: there is no image" + (f" of subset {given.split!r}" if given.split else ""), file=path)
        self._choose(root)

    def _fault(self, element: ET.Element, problem: str) -> CorruptError:
        text = f"line {element.get(_LINE)}: {problem}"
        return CorruptError(f"{self._path!r}, {text}", text=text, file=self._path)

    def _read(self, element: ET.Element) -> None:
        name = tidy_path((element.get("name") or "").replace("\\", "/"))
        if name is None:
            raise self._fault(element, f"name {element.get('name')!r} is no path within the folder of images")
        subset = element.get("subset") or ""
        if subset and not is_text(subset):
            raise self._fault(element, f"subset {subset!r} is no text of one line")
        places = [name, f"images/{name}", *([f"images/{subset}/{name}", f"{subset}/{name}"] if tidy_path(subset) else [])]
        path = next((place for place in reversed(places) if os.path.exists(os.path.join(self.folder, place))), places[1])
        if path in self._images:
            raise self._fault(element, f"image {path!r} is there twice")
        try:
            height, width = _whole(element, "height"), _whole(element, "width")
        except ValueError as error:
            raise self._fault(element, f"image {name!r}: {error}") from None
        self._images[path] = (height, width)
        self._subsets[path] = subset
        self._shapes[path] = [_shape(each) for each in element if each.tag not in ("tag", "attribute")]
        self._tags[path] = [self._tag(each) for each in element.findall("tag")]

    def _tag(self, element: ET.Element) -> str:
        label = element.get("label") or ""
        if not is_text(label):
            raise self._fault(element, "a tag has no label")
        return label

    def _choose(self, root: ET.Element) -> None:
        """Sets the classes: the labels of the task or project in their order, or else the labels of the shapes."""
        used = {shape.label for shapes in self._shapes.values() for shape in shapes if not shape.problem}
        used |= {tag for tags in self._tags.values() for tag in tags}
        stated = [(each.text or "").strip() for each in root.findall("meta/*/labels/label/name")]
        stated = list(dict.fromkeys(stated))
        self._classes = stated if stated and used <= set(stated) else sorted(used, key=str.encode)
        if not self._classes or not all(map(is_text, self._classes)):
            raise self._fault(root, "there is no label" if not self._classes else "a label is no text of one line")
        shapes = [shape for each in self._shapes.values() for shape in each]
        # The list also has the parts of skeletons as labels, but no box can have such a label.
        self._fields = Fields(self._given, self._classes, ["occluded"], has_points=any(shape.points for shape in shapes))
        left_out = [name for name in self._there if name not in self._images]
        self.notices: list[dict[str, Any]] = []
        if left_out:
            self.notices.append({"kind": "left_out", "name": "not annotated", "count": len(left_out), "first": left_out[0]})
        attributes = root.findall("image/*/attribute")
        if attributes:
            first = attributes[0].get("name") or ""
            self.notices.append({"kind": "attributes", "name": "attributes", "count": len(attributes), "first": first})

    def names(self) -> list[str]:
        return list(self._images)

    def schema(self) -> dict[str, FieldSpec]:
        schema = self._fields.schema()
        if any(self._subsets.values()):
            schema["split"] = Text()
        if any(self._tags.values()):
            schema["tags"] = Array("int64", classes=self._classes)
        return schema

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        problem = size_problem(self._images[name], height, width, self._given.made_for)
        if problem is not None:
            raise CorruptError(f"{self._path!r}: image {name!r} {problem}", text=problem, file=self._path)
        values = self._fields.values(self._shapes[name], height, width, self._path, drops)
        if any(self._subsets.values()):
            values["split"] = self._subsets[name]
        if any(self._tags.values()):
            values["tags"] = np.array([self._fields.number(tag) for tag in self._tags[name]], np.int64)
        return values
