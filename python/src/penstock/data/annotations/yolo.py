"""Reads YOLO: data.yaml, and for each image a text file of boxes, polygons, or boxes with points."""

from __future__ import annotations

import os
import re
from collections import Counter
from threading import Lock
from typing import Any

from ...base.files import read_file, text_of
from ...errors import ArgumentError, CorruptError, NotFoundError
from ..schema import Array, Boxes, FieldSpec, Keypoints, Text, pairs_of_flip_idx
from .given import (
    AnnotationError,
    Drops,
    Given,
    box_problem,
    boxes_array,
    finite,
    is_image_name,
    is_text,
    listed,
    tidy_path,
)
from .regions import painted
from .shapes import around, drawn
from .yaml import Node, read_yaml

SPLITS = ("train", "val", "test")
_OTHER_NAMES = {"valid": "val", "validation": "val"}
_FOREIGN = (".bmp", ".tif", ".tiff", ".heic", ".dng", ".mpo", ".avif", ".jp2")  # formats that YOLO's tools read, unlike Penstock
_MOST_BYTES = 64 << 20
_SLACK = 0.01  # tolerance for rounding of coordinates, as a fraction of the picture


def find_yaml(source: str) -> str:
    """Returns the path of data.yaml: the source itself, or a file in the folder."""
    if source.lower().endswith((".yaml", ".yml")):
        return source
    if not os.path.isdir(source):
        raise NotFoundError(f"{source!r}: no such folder", dataset=source)
    found = [name for name in sorted(os.listdir(source)) if name.lower().endswith((".yaml", ".yml"))]
    for name in ("data.yaml", "data.yml", "dataset.yaml", *(found if len(found) == 1 else ())):
        if name in found:
            return os.path.join(source, name)
    text = "there is no data.yaml" if not found else f"there are {len(found)} files of YAML, and no data.yaml"
    raise NotFoundError(f"{source!r}: {text}: name the file in place of the folder", dataset=source)


def _classes(data: dict[str, Node], path: str) -> list[str]:
    """Returns the names of the classes in the order of their numbers."""
    names, count = data.get("names"), data.get("nc")
    n = None if count is None or count.is_null else count.whole("nc")
    if names is None or names.is_null:
        if n is None or not 0 < n <= 1 << 20:
            raise CorruptError(f"{path!r}: there are no names: write the names of the classes below names:", file=path)
        return [f"class_{i}" for i in range(n)]
    if isinstance(names.value, list):
        found = [each.text("a name of a class") for each in names.value]
    elif isinstance(names.value, dict):
        found = _numbered(names)
    else:
        raise names.fault("names is neither a list of classes nor a map from their numbers")
    for name, times in Counter(found).items():
        if times > 1 or not is_text(name):
            raise names.fault(f"the class {name!r} {'is there twice' if times > 1 else 'is no text of one line'}: rename one")
    if not found or n not in (None, len(found)):
        raise names.fault(f"there are {len(found)} names, nc is {n}: make them agree")
    return found


def _numbered(names: Node) -> list[str]:
    found: dict[int, str] = {}
    for key, each in names.value.items():
        if re.fullmatch("[0-9]{1,7}", key) is None:
            raise each.fault(f"names: {key!r} is no number of a class")
        if found.setdefault(int(key), each.text("a name of a class")) != each.value:
            raise each.fault(f"names: class {int(key)} is there twice")
    for i in range(len(found)):
        if i not in found:
            raise names.fault(f"names: class {i} is missing: the numbers are 0 to {len(found) - 1} without a gap")
    return [found[i] for i in range(len(found))]


def _points(data: dict[str, Node]) -> tuple[int, int]:
    """Returns the number of points of an object and the numbers that each point has; (0, 0): objects have no points."""
    shape = data.get("kpt_shape")
    if shape is None or shape.is_null:
        return 0, 0
    sides = [each.whole("kpt_shape") for each in shape.value] if isinstance(shape.value, list) else []
    if len(sides) != 2 or not 1 <= sides[0] <= 4096 or sides[1] not in (2, 3):
        raise shape.fault("kpt_shape is [number of points, 2 or 3], such as [17, 3]")
    return sides[0], sides[1]


def _pairs(data: dict[str, Node], n_points: int) -> list[tuple[int, int]] | None:
    """Returns the pairs of points that a horizontal flip swaps, or None if the file does not say."""
    given = data.get("flip_idx")
    if given is None or given.is_null or not n_points:
        return None
    flipped = [each.whole("flip_idx") for each in given.value] if isinstance(given.value, list) else []
    try:
        return pairs_of_flip_idx(flipped, n_points)
    except ValueError as error:
        raise given.fault(str(error)) from None


def _point_names(data: dict[str, Node], n_points: int) -> list[str] | None:
    given = data.get("kpt_names")
    lists = list(given.value.values()) if given is not None and isinstance(given.value, dict) else [given] if given else []
    found = [[each.value for each in one.value] for one in lists if isinstance(one.value, list)]
    if not found or any(one != found[0] for one in found) or len(found[0]) != n_points:
        return None
    return found[0] if all(map(is_text, found[0])) and len(set(found[0])) == n_points else None


def label_path(image: str) -> str:
    """Returns the path where YOLO's tools look for the label file: in the image's path, the last folder `images` becomes
    `labels`."""
    before, found, behind = f"/{image}".rpartition("/images/")
    path = f"{before}/labels/{behind}" if found else f"/{image}"
    return os.path.splitext(path)[0][1:] + ".txt"


class _Places:
    """The folder that holds all images, and the splits of data.yaml."""

    def __init__(self, path: str, data: dict[str, Node]) -> None:
        self.yaml, self.root = path, _root(path, data.get("path"))
        self.foreign: list[str] = []

    def within(self, path: str) -> str | None:
        """Returns a path relative to the folder, "" for the folder itself, and None for a path outside."""
        if "\0" in path:
            return None
        whole, root = os.path.abspath(os.path.join(self.root, path)), os.path.abspath(self.root)
        if whole == root:
            return ""
        top = root.rstrip("/") + "/"
        return whole[len(top) :] if whole.startswith(top) else None

    def images(self, entry: Node, name: str) -> list[str]:
        """Returns the images of a split, in the order in which data.yaml names them."""
        found: list[str] = []
        for each in entry.value if isinstance(entry.value, list) else [entry]:
            found += self._images(each, each.text(name), name)
        return found

    def _images(self, node: Node, text: str, name: str) -> list[str]:
        # Exports write ../train/images although the folder lies beside data.yaml.
        beside = text.replace("\\", "/").removeprefix("../")
        for path in (text, text.replace("\\", "/"), beside):
            inside = self.within(path)
            if inside is not None and os.path.exists(os.path.join(self.root, inside)):
                break
        else:
            if self.within(text) is None and (beside == text or self.within(beside) is None):
                raise node.fault(f"{name} {text!r} leads out of {self.root!r}: say by path: which folder holds all images")
            raise NotFoundError(f"{node.path!r}, line {node.line}: {name}: there is no {text!r} in {self.root!r}: mend the path, "
                                "or pack the other splits by --split", file=node.path)
        if not os.path.isdir(os.path.join(self.root, inside)):
            return self._of_list(inside)
        return self._taken(listed(self.root, inside and inside + "/"))

    def _taken(self, paths: Any) -> list[str]:
        found = []
        for path in paths:
            if is_image_name(path):
                found.append(path)
            elif path.lower().endswith(_FOREIGN):
                self.foreign.append(path)
        return found

    def _of_list(self, inside: str) -> list[str]:
        """Reads a list of images. Its paths are relative to the list's folder, or else to the folder of all images."""
        path = os.path.join(self.root, inside)
        text = text_of(read_file(path, "list of images", _MOST_BYTES), path)
        found = []
        for i, line in enumerate(re.split("\r\n|\n|\r", text), 1):
            if name := line.strip():
                found.append(self._listed(name, os.path.dirname(inside), f"{path!r}, line {i}", path))
        return self._taken(found)

    def _listed(self, name: str, folder: str, where: str, path: str) -> str:
        inside = None
        for text in dict.fromkeys((name, name.replace("\\", "/"))):
            for below in (folder, ""):
                inside = self.within(os.path.join(below, text))
                if inside and os.path.exists(os.path.join(self.root, inside)):
                    return inside
        if not inside:
            raise CorruptError(f"{where}: {name!r} is no path within {self.root!r}: list images of this folder", file=path)
        return inside  # a missing image is reported as a bad sample later


def _root(path: str, given: Node | None) -> str:
    folder = os.path.dirname(path) or "."
    if given is None or given.is_null:
        return folder
    text = given.text("path")
    if "\0" in text:
        raise given.fault("path has a character NUL")
    found = os.path.normpath(os.path.join(folder, text))
    if os.path.isdir(found):
        return found
    if os.path.basename(found) == os.path.basename(os.path.abspath(folder)):
        return folder  # data.yaml lies in the folder that it names
    raise given.fault(f"path {text!r} is no folder: write the folder of the images, as it is seen from this file")


class Yolo:
    """Reads a folder with data.yaml, or the file data.yaml."""

    def __init__(self, source: str, given: Given) -> None:
        path = find_yaml(source)
        data = read_yaml(path, "data.yaml")
        self._given, self.early = given, Drops(given.drop)
        self._classes = _classes(data, path)
        self._n_points, self._n_numbers = _points(data)
        self._pairs = _pairs(data, self._n_points)
        self._point_names = _point_names(data, self._n_points)
        places = _Places(path, data)
        self.folder = places.root
        self.notices: list[dict[str, Any]] = []
        self._split: dict[str, str] = {}  # path of an image: its split
        self._read_splits(places, data, given.split)
        self._find_labels()
        self._notice("left_out_form", "form", list(dict.fromkeys(places.foreign)))
        self._polygons: dict[str, Any] = {"kind": "polygons", "name": "boxes of polygons", "count": 0, "first": ""}
        self._lock = Lock()

    def _notice(self, kind: str, name: str, paths: list[str]) -> None:
        if paths:
            self.notices.append({"kind": kind, "name": name, "count": len(paths), "first": paths[0]})

    def _read_splits(self, places: _Places, data: dict[str, Node], wanted: str | None) -> None:
        there = [name for name in SPLITS if name in data and not data[name].is_null]
        if "val" not in there and "valid" in data:
            data["val"] = data["valid"]
            there.append("val")
        wanted = _OTHER_NAMES.get(wanted or "", wanted)
        if wanted is not None and wanted not in there:
            raise ArgumentError(f"{places.yaml!r} has no split {wanted!r}: there are {', '.join(there) or 'none'}")
        if not there:
            raise CorruptError(f"{places.yaml!r}: there is no train, val or test: write where the images are", file=places.yaml)
        for name in there if wanted is None else [wanted]:
            try:
                images = places.images(data[name], name)
            except NotFoundError:
                if wanted is not None or name != "test":
                    raise
                self._notice("no_split", name, [name])  # exports may name a test split that does not exist
                continue
            for image in dict.fromkeys(images):
                if tidy_path(image) != image:
                    raise CorruptError(f"{os.path.join(self.folder, image)!a}: the name is not UTF-8", dataset=self.folder)
                if self._split.setdefault(image, name) != name:
                    raise data[name].fault(
                        f"{image!r} is in the splits {self._split[image]} and {name}: pack one of them by --split"
                    )

    def _find_labels(self) -> None:
        """Finds the label file of each image, label files without an image, and label files that several images share."""
        self._labels: dict[str, str] = {}
        of_label: dict[str, str] = {}
        for image in self._split:
            label = label_path(image)
            if of_label.setdefault(label, image) != image:
                raise CorruptError(f"{self.folder!r}: {of_label[label]!r} and {image!r} share the label file {label!r}: rename one",
                                   dataset=self.folder)
            if os.path.lexists(os.path.join(self.folder, label)):
                self._labels[image] = label
        if self._split and not self._labels:
            first = next(iter(self._split))
            raise NotFoundError(f"{self.folder!r}: no image has a label file; that of {first!r} would be {label_path(first)!r}. "
                                "Put the folders images and labels below the folder of path:", dataset=self.folder)
        self._notice("background", "no label file", [image for image in self._split if image not in self._labels])
        self._notice("label_alone", "label files", self._alone(of_label))

    def _alone(self, of_label: dict[str, str]) -> list[str]:
        """Returns the label files in `labels` folders that belong to no image of any split."""
        found: list[str] = []
        folders = {os.path.dirname(label): os.path.dirname(image) for label, image in of_label.items()}
        for folder, images in sorted(folders.items()):
            if folder == images or not os.path.isdir(os.path.join(self.folder, folder)):
                continue
            stems = {os.path.splitext(name)[0] for name in os.listdir(os.path.join(self.folder, images))}
            for name in sorted(os.listdir(os.path.join(self.folder, folder)), key=os.fsencode):
                stem, end = os.path.splitext(name)
                if end == ".txt" and stem not in stems and name != "classes.txt":
                    found.append(os.path.join(folder, name))
        return found

    def names(self) -> list[str]:
        return list(self._split)

    def schema(self) -> dict[str, FieldSpec]:
        made_for = self._given.made_for
        schema: dict[str, FieldSpec] = {
            "boxes": Boxes(made_for),
            "labels": Array("int64", classes=self._classes),
            "split": Text(),
        }
        if self._n_points:
            schema["keypoints"] = Keypoints(made_for, points=self._point_names or self._n_points, pairs=self._pairs)
        return schema | self._given.paints()

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        boxes, labels, points, regions = [], [], [], []
        n_polygons = 0
        path = os.path.join(self.folder, self._labels.get(name, ""))
        for i, line in self._lines(path) if name in self._labels else ():
            try:
                label, box, outline, own = self._object(line.split(), height, width)
                regions.append(drawn(outline, height, width) if self._given.paint else None)
            except ValueError as error:
                text = f"line {i}: {error}"
                drops.add(AnnotationError(f"{path!r}, {text}", text=text, file=path))
                continue
            n_polygons += outline is not None
            boxes.append(box)
            labels.append(label)
            points.append(own)
        values: dict[str, Any] = {
            "boxes": boxes_array(boxes),
            "labels": np.array(labels, np.int64),
            "split": self._split[name],
        }
        if self._n_points:
            values["keypoints"] = np.array(points, np.float32).reshape(-1, 3)
        if n_polygons and not self._given.paint:
            self._has_polygons(path)
        values.update(painted(self._given.paint, regions, labels, (height, width), len(self._classes)))
        return values

    def _has_polygons(self, path: str) -> None:
        """Adds a notice that a file has polygons, of which only the boxes are stored."""
        with self._lock:
            if not self._polygons["count"]:
                self.notices.append(self._polygons)
            first = os.path.relpath(path, self.folder)
            self._polygons.update(count=self._polygons["count"] + 1, first=min(self._polygons["first"] or first, first))

    @staticmethod
    def _lines(path: str) -> list[tuple[int, str]]:
        text = text_of(read_file(path, "label file", _MOST_BYTES), path)
        return [(i, line) for i, line in enumerate(re.split("\r\n|\n|\r", text), 1) if line.strip()]

    def _object(self, words: list[str], height: int, width: int) -> tuple[int, list[float], list[float] | None, Any]:
        """Parses one line: returns class, box, polygon or None, and rows of points. Raises ValueError with the fault."""
        numbers = [finite(word) for word in words]
        label = int(numbers[0]) if numbers[0].is_integer() else -1
        if not 0 <= label < len(self._classes):
            raise ValueError(f"class {words[0]!r} is none of 0 to {len(self._classes) - 1}, which data.yaml names")
        values = numbers[1:]
        if self._n_points:
            n = 4 + self._n_points * self._n_numbers
            if len(values) != n:
                raise ValueError(f"{len(words)} values, {n + 1} are expected: class, box, and kpt_shape "
                                 f"[{self._n_points}, {self._n_numbers}]")
        elif len(values) != 4 and (len(values) < 6 or len(values) % 2):
            hint = ": a box with a confidence is no label" if len(values) == 5 else ""
            raise ValueError(f"{len(words)} values, 5 are expected (class, box), or 7, 9, ... (class, polygon){hint}")
        outline = None
        if len(values) == 4 or self._n_points:
            _check_parts(values[:4])
            x, y, w, h = values[:4]
            if w < 0 or h < 0:
                raise ValueError(f"the box {w:g} x {h:g} has a negative size")
            box = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height]
        else:
            _check_parts(values)
            outline = [value * (height if i % 2 else width) for i, value in enumerate(values)]
            box = around(outline)
        problem = box_problem(box, height, width)
        if problem is not None:
            raise ValueError(f"the box {' '.join(words[1:5])} {problem}")
        return label, box, outline, self._rows(values[4:], height, width) if self._n_points else None

    def _rows(self, values: list[float], height: int, width: int) -> list[list[float]]:
        """Returns x, y and visibility of each point. For points of two numbers, a negative number means that the point is
        missing."""
        rows = []
        for i in range(0, len(values), self._n_numbers):
            x, y, *shown = values[i : i + self._n_numbers]
            if not shown and (x < 0 or y < 0):
                rows.append([0.0, 0.0, 0.0])
                continue
            _check_parts([x, y])
            if shown and shown[0] not in (0, 1, 2):
                raise ValueError(f"the visibility of point {i // self._n_numbers} is {shown[0]:g}: 0, 1 or 2 is expected")
            rows.append([x * width, y * height, shown[0] if shown else 2.0])
        return rows


def _check_parts(values: list[float]) -> None:
    for value in values:
        if not -_SLACK <= value <= 1 + _SLACK:
            raise ValueError(f"{value:g} is no part of the picture, from 0 to 1 (are these pixels?)")
