"""Reads exports of Roboflow: folders train, valid and test with data.yaml, COCO JSON, Pascal VOC or a CSV file of boxes."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from ...base.files import read_file, text_of
from ...errors import ArgumentError, CorruptError, NotFoundError
from ..schema import Array, Boxes, FieldSpec, Text
from .coco import Coco
from .given import (
    AnnotationError,
    Drops,
    Given,
    Source,
    box_problem,
    boxes_array,
    finite,
    is_image_name,
    is_text,
    listed,
    tidy_path,
)
from .voc import Voc
from .yolo import Yolo

COCO_NAME, CSV_NAME = "_annotations.coco.json", "_annotations.csv"
_COLUMNS = ["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"]
_MOST_BYTES = 1 << 30
_SPLITS = ("train", "valid", "test")


class Rows:
    """Reads a folder of images with _annotations.csv, which has a row for each box in pixels, counted from 0."""

    def __init__(self, folder: str, given: Given) -> None:
        self.folder, self._given, self.early = folder, given, Drops(given.drop)
        self._path = os.path.join(folder, CSV_NAME)
        self._rows: dict[str, list[tuple[int, list[str]]]] = {name: [] for name in listed(folder) if is_image_name(name)}
        self.notices: list[dict[str, Any]] = []
        text = text_of(read_file(self._path, "CSV of boxes", _MOST_BYTES), self._path)
        try:
            self._read(csv.reader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise CorruptError(f"{self._path!r}: no CSV: {error}", file=self._path) from None
        names = {row[3] for rows in self._rows.values() for _, row in rows}
        if not names:
            raise CorruptError(f"{self._path!r}: there is no row with a box", file=self._path)
        self.classes = sorted(names, key=str.encode)
        free = [name for name, rows in self._rows.items() if not rows]
        if free:
            self.notices.append({"kind": "background", "name": "no row", "count": len(free), "first": free[0]})

    def _fault(self, line: int, text: str) -> CorruptError:
        return CorruptError(f"{self._path!r}, line {line}: {text}", text=f"line {line}: {text}", file=self._path)

    def _read(self, reader: Any) -> None:
        head = [word.strip() for word in next(reader, [])]
        if head != _COLUMNS:
            raise self._fault(1, f"the columns are {', '.join(head)}; {', '.join(_COLUMNS)} are expected")
        for row in reader:
            if not row:
                continue
            if len(row) != len(_COLUMNS):
                raise self._fault(reader.line_num, f"{len(row)} values, {len(_COLUMNS)} are expected")
            name = tidy_path(row[0].replace("\\", "/"))
            if name is None or not is_text(row[3]):
                raise self._fault(reader.line_num, "there is no class" if name else f"{row[0]!r} is no path within the folder")
            self._rows.setdefault(name, []).append((reader.line_num, row))

    def names(self) -> list[str]:
        return list(self._rows)

    def schema(self) -> dict[str, FieldSpec]:
        return {"boxes": Boxes(self._given.made_for), "labels": Array("int64", classes=self.classes)}

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        boxes, labels = [], []
        for line, row in self._rows[name]:
            try:
                values = [finite(word) for word in (*row[1:3], *row[4:])]
                if values[:2] != [width, height]:
                    raise ValueError(f"the image is {row[1]} x {row[2]} pixels there, its file has {width} x {height}")
                problem = box_problem(values[2:], height, width)
                if problem is not None:
                    raise ValueError(f"the box {values[2:]} {problem}")
            except ValueError as error:
                text = f"line {line}: {error}"
                drops.add(AnnotationError(f"{self._path!r}, {text}", text=text, file=self._path))
                continue
            boxes.append(values[2:])
            labels.append(self.classes.index(row[3]))
        return {"boxes": boxes_array(boxes), "labels": np.array(labels, np.int64)}


class Joined:
    """Joins the splits, each in its own folder, to one source. A class has the same number in all splits."""

    def __init__(self, folder: str, parts: dict[str, Any], given: Given) -> None:
        self.folder, self._parts, self.early = folder, parts, Drops(given.drop)
        self.notices: list[dict[str, Any]] = []
        for split, part in parts.items():
            self.early.listed += part.early.listed
            self.notices += [{**notice, "first": f"{split}/{notice['first']}"} for notice in part.notices]
        self._give_classes()
        schemas = {split: repr(part.schema()) for split, part in parts.items()}
        first = next(iter(schemas))
        for split, schema in schemas.items():
            if schema != schemas[first]:
                raise ArgumentError(f"{folder!r}: the splits {first} and {split} differ in classes or points: pack each by --split")

    def _give_classes(self) -> None:
        """Gives all splits the names of the classes of all splits, because a split only names its own."""
        for kind, name in ((Rows, "classes"), (Voc, "_classes")):
            parts = [part for part in self._parts.values() if isinstance(part, kind)]
            names = sorted({each for part in parts for each in getattr(part, name)}, key=str.encode)
            same = all(getattr(part, name) == getattr(parts[0], name) for part in parts)
            for part in () if same else parts:
                setattr(part, name, names)

    def names(self) -> list[str]:
        return [f"{split}/{name}" for split, part in self._parts.items() for name in part.names()]

    def schema(self) -> dict[str, FieldSpec]:
        return {**next(iter(self._parts.values())).schema(), "split": Text()}

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        split, _, own = name.partition("/")
        return {**self._parts[split].sample(own, height, width, drops), "split": split}


def _has_xml(folder: str) -> bool:
    return any(name.lower().endswith(".xml") for name in os.listdir(folder))


def _part(folder: str, given: Given) -> Source | None:
    """Opens the source in the folder of one split. Returns None if the folder has no annotations."""
    if os.path.exists(os.path.join(folder, COCO_NAME)):
        return Coco(folder, os.path.join(folder, COCO_NAME), given)
    if os.path.exists(os.path.join(folder, CSV_NAME)):
        return Rows(folder, given)
    return Voc(folder, given) if _has_xml(folder) else None


def open_export(folder: str, given: Given) -> Source:
    """Opens an export in any of the formats."""
    if not os.path.isdir(folder):
        raise NotFoundError(f"{folder!r}: no such folder", dataset=folder)
    if os.path.exists(os.path.join(folder, "data.yaml")):
        return Yolo(folder, given)
    wanted = "valid" if given.split == "val" else given.split
    splits = [name for name in _SPLITS if os.path.isdir(os.path.join(folder, name)) and wanted in (None, name)]
    if not splits and wanted is not None:
        raise ArgumentError(f"{folder!r} has no split {given.split!r}: a folder train, valid or test is expected")
    of_part = Given(None, given.paint, given.drop, given.made_for, given.mask_form, given.tier, given.effort)
    parts: dict[str, Any] = {}
    for name in splits:
        part = _part(os.path.join(folder, name), of_part)
        if part is not None:
            parts[name] = part
    if given.paint and not all(isinstance(part, Coco) for part in parts.values()):
        raise ArgumentError("paint goes with exports that have polygons: YOLO and COCO")
    if not parts:
        raise NotFoundError(f"{folder!r}: there is no data.yaml, and no folder train, valid or test with {COCO_NAME}, {CSV_NAME} "
                            "or XML files: name the folder that the export was unpacked to", dataset=folder)
    return Joined(folder, parts, given)
