"""Reads Labelme: a JSON file beside each image, with the shapes that were drawn on it."""

from __future__ import annotations

import base64
import binascii
import math
import os
from typing import Any

from ...base.files import parse, read_file
from ...errors import ArgumentError, CorruptError, NotFoundError, PenstockError
from .. import image
from ..schema import FieldSpec
from .cvat import ellipse, region_of_window
from .given import Drops, Given, is_image_name, is_text, listed, number, size_problem, tidy_path, whole
from .shapes import Fields, Shape, around, far

_MOST_BYTES = 1 << 30
_ENDINGS = {"jpeg": ".jpg", "png": ".png", "webp": ".webp", "pli": ".pli"}
_ROWS = {"point": "points", "points": "points", "line": "polyline", "linestrip": "polyline"}


def _outline(given: Any) -> list[float]:
    """Converts the points [[x, y], ...] to the list x, y, x, y, ..."""
    if not isinstance(given, list) or not given:
        raise ValueError("points is no list of [x, y]")
    found = []
    for point in given:
        values = [number(side) for side in point] if isinstance(point, list) else []
        if len(values) != 2 or None in values:
            raise ValueError(f"the point {point!r} is no [x, y] of two finite numbers")
        found += [value for value in values if value is not None]
    if far(found):
        raise ValueError("a point lies farther than 10 million pixels away")
    return found


def _pixels(given: Any) -> Any:
    """Decodes the mask of a shape, a PNG in base64, to bool (h, w)."""
    try:
        data = base64.b64decode(given, validate=True)
        return image.decode(data, "png", channels=1, palette_indices=True)[:, :, 0] != 0
    except (TypeError, binascii.Error, ValueError, PenstockError) as error:
        raise ValueError(f"the mask is no PNG in base64: {error}") from None


def _mask(shape: Shape, outline: list[float], given: Any) -> None:
    left, top, right, bottom = (math.floor(side + 0.5) for side in around(outline))
    if not isinstance(given, str):
        raise ValueError("a shape of type mask has no mask")
    pixels = _pixels(given)
    height, width = pixels.shape
    # The second point is either the last pixel of the mask, or the pixel after it.
    if (right - left, bottom - top) not in ((width - 1, height - 1), (width, height)) or left < 0 or top < 0:
        raise ValueError(f"the mask has {width} x {height} pixels, its points are {outline}")
    shape.kind, shape.box = "mask", [left, top, left + width, top + height]
    shape.region = lambda rows, columns: region_of_window(pixels, (left, top, width, height), rows, columns)


def _fill(shape: Shape, given: dict[str, Any]) -> None:
    kind, outline = given.get("shape_type", "polygon"), _outline(given.get("points"))
    n = len(outline) // 2
    if kind == "polygon" or kind is None:
        if n < 3:
            raise ValueError(f"a polygon of {n} points has no area")
        shape.kind, shape.outline, shape.box = "polygon", outline, around(outline)
    elif kind in ("rectangle", "circle", "mask") and n != 2 and not (kind == "rectangle" and n == 4):
        raise ValueError(f"a {kind} has 2 points, not {n}")
    elif kind == "rectangle":
        x0, y0, x1, y1 = around(outline)
        shape.kind, shape.box, shape.outline = "rectangle", [x0, y0, x1, y1], [x0, y0, x1, y0, x1, y1, x0, y1]
    elif kind == "circle":
        x, y, r = outline[0], outline[1], math.dist(outline[:2], outline[2:])
        shape.kind, shape.box, shape.outline = "ellipse", [x - r, y - r, x + r, y + r], ellipse(x, y, r, r)
    elif kind == "mask":
        _mask(shape, outline, given.get("mask"))
    elif kind in _ROWS:
        if kind == "line" and n != 2:
            raise ValueError(f"a line has 2 points, not {n}")
        shape.kind = _ROWS[kind]
        shape.points = [(x, y, 2.0) for x, y in zip(outline[0::2], outline[1::2], strict=True)]
    else:
        raise ValueError(f"shape_type {kind!r} is none that can be stored")


def _shape(given: Any, i: int) -> Shape:
    label = given.get("label") if isinstance(given, dict) else None
    shape = Shape(f"shape {i} ({label})", label if isinstance(label, str) else "")
    try:
        if not is_text(label):
            raise ValueError("it has no label, a text of one line")
        group = given.get("group_id")
        own = -1 if group is None else whole(group)
        if own is None or not -1 <= own < 1 << 62:
            raise ValueError(f"group_id is {group!r}, a whole number from 0 on is expected")
        shape.extra["groups"] = own
        _fill(shape, given)
    except ValueError as error:
        shape.problem = str(error)
    return shape


class Labelme:
    """Reads a folder of images with JSON files beside them, also in sub-folders."""

    def __init__(self, folder: str, given: Given) -> None:
        if not os.path.isdir(folder):
            raise ArgumentError(f"{folder!r} is no folder: Labelme's files lie in one")
        self.folder, self._given, self.early = folder, given, Drops(given.drop)
        self._json: dict[str, str] = {}  # path of an image: path of its JSON file
        self._shapes: dict[str, list[Shape] | PenstockError] = {}
        self._size: dict[str, tuple[Any, Any]] = {}  # path of an image: its stated height and width
        self._is_embedded: set[str] = set()
        self.notices: list[dict[str, Any]] = []
        others = []
        paths = list(listed(folder))
        for path in paths:
            if path.lower().endswith(".json") and not self._read(path):
                others.append(path)
        if not self._json:
            raise NotFoundError(f"{folder!r}: there is no JSON file of Labelme, with shapes and imagePath", dataset=folder)
        self._choose(paths, others)

    def _read(self, path: str) -> bool:
        """Reads a JSON file. Returns False if it is not a file of Labelme."""
        full = os.path.join(self.folder, path)
        stem = os.path.splitext(path)[0]
        try:
            found = parse(read_file(full, "annotation", _MOST_BYTES), full)
        except PenstockError as error:
            names = [stem + end for end in (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".PNG")]
            self._add(next((name for name in names if os.path.exists(os.path.join(self.folder, name))), names[0]), path, error)
            return True
        if not isinstance(found, dict) or not isinstance(found.get("shapes"), list):
            return False
        name = self._image(path, stem, found)
        shapes = [_shape(each, i) for i, each in enumerate(found["shapes"])]
        self._add(name, path, shapes)
        self._size[name] = (found.get("imageHeight"), found.get("imageWidth"))
        return True

    def _add(self, name: str, path: str, found: list[Shape] | PenstockError) -> None:
        if name in self._json:
            full = os.path.join(self.folder, path)
            raise CorruptError(f"{full!r}: {name!r} is the image of {self._json[name]!r}, too: remove one", file=full)
        if tidy_path(name) != name:
            raise CorruptError(f"{path!a}: the name is not UTF-8", dataset=self.folder)
        self._json[name], self._shapes[name] = path, found

    def _image(self, path: str, stem: str, found: dict[str, Any]) -> str:
        """Returns the path of the image: `imagePath`, relative to the JSON file's folder, or a name for the embedded image."""
        full, given = os.path.join(self.folder, path), found.get("imagePath")
        below = os.path.dirname(path)
        stated = given.replace("\\", "/") if isinstance(given, str) and is_text(given) else None
        name = os.path.normpath(os.path.join(below, stated)) if stated else None
        beside = os.path.normpath(os.path.join(below, os.path.basename(name))) if name else None
        for each in (name, beside):
            if each and tidy_path(each) == each and os.path.exists(os.path.join(self.folder, each)):
                return each
        if isinstance(found.get("imageData"), str):
            name = stem + self._ending(found["imageData"], full)
            self._is_embedded.add(name)
            return name
        if name is None or tidy_path(name) != name:
            text = f"imagePath {given!r} is no path within {self.folder!r}, and no image is embedded"
            raise CorruptError(f"{full!r}: {text}", text=text, file=full)
        return name

    @staticmethod
    def _ending(data: str, path: str) -> str:
        try:
            return _ENDINGS[image.probe(_bytes_of(data)).form]
        except (KeyError, ValueError, PenstockError) as error:
            raise CorruptError(f"{path!r}: imageData is no image in base64: {error}", file=path) from None

    def _choose(self, paths: list[str], others: list[str]) -> None:
        shapes = [shape for each in self._shapes.values() if isinstance(each, list) for shape in each if not shape.problem]
        if not shapes:
            raise self._nothing()
        classes = sorted({shape.label for shape in shapes}, key=str.encode)
        self._fields = Fields(self._given, classes, ["groups"], has_points=any(shape.points for shape in shapes))
        alone = [path for path in paths if is_image_name(path) and path not in self._json]
        for kind, name, which in (("left_out", "not annotated", alone), ("other_json", "JSON of others", others)):
            if which:
                self.notices.append({"kind": kind, "name": name, "count": len(which), "first": which[0]})

    def _nothing(self) -> PenstockError:
        for name, found in self._shapes.items():
            path = os.path.join(self.folder, self._json[name])
            if isinstance(found, PenstockError):
                return found
            for shape in found:
                return CorruptError(f"{path!r}: {shape.what}: {shape.problem}", text=shape.problem, file=path)
        return CorruptError(f"{self.folder!r}: no shape is drawn", dataset=self.folder)

    def names(self) -> list[str]:
        return list(self._json)

    def embedded(self, name: str) -> bytes | None:
        """Returns the bytes of an image that is embedded in its JSON file, or None if the image is a file."""
        if name not in self._is_embedded:
            return None
        path = os.path.join(self.folder, self._json[name])
        try:
            return _bytes_of(parse(read_file(path, "annotation", _MOST_BYTES), path)["imageData"])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptError(f"{path!r}: imageData is no image in base64: {error}", file=path) from None

    def schema(self) -> dict[str, FieldSpec]:
        return self._fields.schema()

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        path, found = os.path.join(self.folder, self._json[name]), self._shapes[name]
        if isinstance(found, PenstockError):
            raise found
        size = self._size[name]
        stated = (whole(size[0]), whole(size[1]))
        problem = None if size == (None, None) else size_problem(stated, height, width, self._given.made_for)
        if problem is not None:
            raise CorruptError(f"{path!r}: the image {problem}", text=f"the image {problem}", file=path)
        return self._fields.values(found, height, width, path, drops)


def _bytes_of(data: str) -> bytes:
    return base64.b64decode("".join(data.split()), validate=True)
