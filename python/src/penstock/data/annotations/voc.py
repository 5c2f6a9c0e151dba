"""Reads Pascal VOC: one XML file for each image."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from ...base.files import read_file
from ...errors import ArgumentError, CorruptError, NotFoundError, PenstockError
from ..schema import Array, Boxes, FieldSpec
from .given import (
    AnnotationError,
    Drops,
    Given,
    box_problem,
    boxes_array,
    decimal,
    is_image_name,
    listed,
    size_problem,
    tidy_path,
)

_CLASSES = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa "
    "train tvmonitor"
).split()
_MOST_BYTES = 64 << 20
_DEPTH = 64


class _Refused(Exception):
    pass


def parse_xml(data: bytes, path: str, line_name: str | None = None) -> ET.Element:
    """Parses XML. A document type declaration is refused, so the XML can define no entities and read no other files. Each element
    gets its line number as the attribute `line_name`, which should not be a valid XML name."""

    def bad(text: str, offset: int | None = None) -> CorruptError:
        return CorruptError(f"{path!r}: {text}", text=text, file=path, offset=offset)

    builder = ET.TreeBuilder()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEPTH:
            raise _Refused(f"elements are nested more than {_DEPTH} deep")
        if line_name is not None:
            attributes[line_name] = str(parser.CurrentLineNumber)
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def doctype(*_: object) -> None:
        raise _Refused("it declares a document type (DOCTYPE), which may hold entities: annotations need none")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise bad(f"not XML: {expat.ErrorString(error.code)} (line {error.lineno})", parser.ErrorByteIndex) from None
    except _Refused as error:
        raise bad(str(error)) from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not have
        raise bad(f"not XML: {error}") from None
    return builder.close()


@dataclass
class _Object:
    name: str
    box: list[float] | None
    difficult: int
    truncated: int
    problem: str | None
    is_at_zero: bool = False  # the box begins at pixel 0, although VOC counts from 1


def _text(element: ET.Element, name: str) -> str | None:
    found = element.find(name)
    return None if found is None or found.text is None else found.text.strip()


def _flag(element: ET.Element, name: str) -> int:
    text = _text(element, name)
    if text == "Unspecified":
        return 0
    if text in (None, "", "0", "1"):
        return int(text or 0)
    raise ValueError(f"{name} is {text!r}, 0 or 1 is expected")


def _object(element: ET.Element, i: int) -> _Object:
    name = _text(element, "name") or ""
    found = _Object(name, None, 0, 0, None)
    try:
        if not name:
            raise ValueError("it has no name")
        found.difficult, found.truncated = _flag(element, "difficult"), _flag(element, "truncated")
        bounds = element.find("bndbox")
        if bounds is None:
            raise ValueError("it has no bndbox")
        corners = {}
        for side in ("xmin", "ymin", "xmax", "ymax"):
            value = decimal(_text(bounds, side))
            if value is None:
                raise ValueError(f"{side} is {_text(bounds, side)!r}, a number is expected")
            corners[side] = value
        # VOC counts pixels from 1, and the last pixel belongs to the box.
        found.is_at_zero = 0 in (corners["xmin"], corners["ymin"])
        found.box = [max(corners["xmin"] - 1, 0.0), max(corners["ymin"] - 1, 0.0), corners["xmax"], corners["ymax"]]
    except ValueError as error:
        found.problem = f"object {i} ({name}): {error}"
    return found


class Voc:
    """Reads a folder with JPEGImages/ and Annotations/, or with images/ and annotations/, or with images and XML files together."""

    def __init__(self, folder: str, given: Given) -> None:
        self.folder, self._given = folder, given
        self.early = Drops(given.drop)
        images = self._below("JPEGImages", "images")
        annotations = self._below("Annotations", "annotations")
        self._xml: dict[str, str] = {}  # path of an image: path of its XML file
        self._size: dict[str, tuple[int, int] | None] = {}  # path of an image: its height and width
        self._objects: dict[str, list[_Object] | PenstockError] = {}
        images_of = self._images_of(images)
        stems = [name[len(annotations) : -4] for name in listed(folder, annotations) if name.lower().endswith(".xml")]
        if not stems:
            raise NotFoundError(f"{os.path.join(folder, annotations)!r}: there is no XML file", dataset=folder)
        wanted = None if given.split is None else self._split(given.split)
        for stem in stems:
            self._read(annotations + stem, images_of.get(stem) or f"{images}{stem}.jpg")
        self._choose(wanted, images, annotations, images_of)
        unknown = [path for stem, path in images_of.items() if path not in self._objects]
        self.notices = (
            [{"kind": "left_out", "name": "not annotated", "count": len(unknown), "first": unknown[0]}] if unknown else []
        )
        self._notice_zeros()

    def _below(self, *names: str) -> str:
        for name in names:
            if os.path.isdir(os.path.join(self.folder, name)):
                return name + "/"
        return ""

    def _images_of(self, below: str) -> dict[str, str]:
        """Returns the paths of the images, by the path without extension."""
        found: dict[str, str] = {}
        for path in listed(self.folder, below):
            stem = os.path.splitext(path[len(below) :])[0]
            if is_image_name(path) and found.setdefault(stem, path) != path:
                raise CorruptError(f"{self.folder!r}: {found[stem]!r} and {path!r} have one annotation", dataset=self.folder)
        return found

    def _split(self, split: str) -> list[str]:
        path = os.path.join(self.folder, "ImageSets", "Main", f"{split}.txt")
        if tidy_path(split) != split or "/" in split:
            raise ArgumentError(f"split is the name of a file in ImageSets/Main, without .txt, not {split!r}")
        lines = read_file(path, "split", _MOST_BYTES).decode("utf-8", "surrogateescape").splitlines()
        rows = [line.split() for line in lines if line.split()]
        stems = [row[0] for row in rows]
        stem, n = Counter(stems).most_common(1)[0] if stems else ("", 0)
        if n > 1:
            raise CorruptError(f"{path!r}: {stem!r} is there twice", file=path)
        # The file of one class, such as cat_train, gives a number after each name: 1: the image has the class; -1: it has not; 0:
        # it has only difficult objects.
        stems = [row[0] for row in rows if row[1:2] != ["-1"]]
        if not stems:
            raise CorruptError(f"{path!r}: it names no image", file=path)
        return stems

    def _read(self, stem: str, image: str) -> None:
        path = os.path.join(self.folder, stem + ".xml")
        self._xml[image] = path
        self._size[image] = None
        try:
            if tidy_path(image) != image:
                raise CorruptError(f"{image!a}: the name is not UTF-8", file=path)
            root = parse_xml(read_file(path, "annotation", _MOST_BYTES), path)
            if root.tag != "annotation":
                raise CorruptError(f"{path!r}: the root is <{root.tag}>, <annotation> is expected", file=path)
            sides = [decimal(_text(root, f"size/{side}")) for side in ("height", "width")]
            if all(side is not None and side > 0 for side in sides):
                self._size[image] = (int(sides[0] or 0), int(sides[1] or 0))
            self._objects[image] = [_object(element, i) for i, element in enumerate(root.findall("object"))]
        except PenstockError as error:
            self._objects[image] = error

    def _nothing(self) -> PenstockError:
        """Returns the error for a folder without any usable object: the first fault, with its file."""
        for image, found in self._objects.items():
            if isinstance(found, PenstockError):
                return found
            for each in found:
                if each.problem:
                    path = self._xml[image]
                    return AnnotationError(f"{path!r}: {each.problem}", text=each.problem, file=path)
        return CorruptError(f"{self.folder!r}: no object is annotated", dataset=self.folder)

    def _choose(self, wanted: list[str] | None, images: str, annotations: str, images_of: dict[str, str]) -> None:
        names = {each.name for found in self._objects.values() if isinstance(found, list) for each in found if not each.problem}
        if not names:
            raise self._nothing()
        self._classes = list(_CLASSES) if names <= set(_CLASSES) else sorted(names, key=str.encode)
        self._names = list(self._objects)
        if wanted is not None:
            self._names = [images_of.get(stem) or f"{images}{stem}.jpg" for stem in wanted]
            for name, stem in zip(self._names, wanted, strict=True):
                if name not in self._objects:
                    path = os.path.join(self.folder, f"{annotations}{stem}.xml")
                    raise NotFoundError(f"{path!r}: the split names {stem!r}, which has no annotation", file=path)
        for name in self._names:
            fault = self._objects[name]
            if isinstance(fault, PenstockError) and tidy_path(name) != name:
                raise fault

    def _notice_zeros(self) -> None:
        """Adds a notice that boxes begin at pixel 0. The files then probably count from 0, and all boxes are shifted by one
        pixel."""
        files = [name for name in self._names if self._has_zero(self._objects[name])]
        if files:
            first = os.path.relpath(self._xml[files[0]], self.folder)
            self.notices.append({"kind": "counted_from_0", "name": "boxes", "count": len(files), "first": first})

    @staticmethod
    def _has_zero(found: list[_Object] | PenstockError) -> bool:
        return isinstance(found, list) and any(each.is_at_zero for each in found)

    def names(self) -> list[str]:
        return self._names

    def schema(self) -> dict[str, FieldSpec]:
        return {
            "boxes": Boxes(self._given.made_for),
            "labels": Array("int64", classes=self._classes),
            "difficult": Array("uint8"),
            "truncated": Array("uint8"),
        }

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        path, found, size = self._xml[name], self._objects[name], self._size[name]
        if isinstance(found, PenstockError):
            raise found
        wrong = None if size is None else size_problem(size, height, width, self._given.made_for)
        if wrong is not None:
            text = f"the image {wrong}"
            raise CorruptError(f"{path!r}: {text}", text=text, file=path)
        kept: list[_Object] = []
        for i, each in enumerate(found):
            problem = each.problem
            if problem is None and each.box is not None:
                wrong = box_problem(each.box, height, width)
                problem = None if wrong is None else f"object {i} ({each.name}): the box {each.box} {wrong}"
            if problem is not None:
                drops.add(AnnotationError(f"{path!r}: {problem}", text=problem, file=path))
                continue
            kept.append(each)
        return {
            "boxes": boxes_array([each.box for each in kept if each.box is not None]),
            "labels": np.array([self._classes.index(each.name) for each in kept], np.int64),
            "difficult": np.array([each.difficult for each in kept], np.uint8),
            "truncated": np.array([each.truncated for each in kept], np.uint8),
        }
