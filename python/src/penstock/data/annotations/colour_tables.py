"""Colour tables, which map the colours of a mask to classes. The tables of CamVid and VOC are here, that of ADE20K in ade.py. Other
tables are read from a file."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...base.files import parse, read_file, text_of
from ...errors import CorruptError, NotFoundError
from .given import is_text
from .yaml import Node, read_yaml

_MOST_BYTES = 1 << 20
IGNORED = 255

# CamVid (Cambridge-driving Labeled Video Database): its 32 names and colours, in the order of its label_colors.txt.
_CAMVID = """Animal 64 128 64, Archway 192 0 128, Bicyclist 0 128 192, Bridge 0 128 64, Building 128 0 0, Car 64 0 128,
CartLuggagePram 64 0 192, Child 192 128 64, Column_Pole 192 192 128, Fence 64 64 128, LaneMkgsDriv 128 0 192,
LaneMkgsNonDriv 192 0 64, Misc_Text 128 128 64, MotorcycleScooter 192 0 192, OtherMoving 128 64 64, ParkingBlock 64 192 128,
Pedestrian 64 64 0, Road 128 64 128, RoadShoulder 128 128 192, Sidewalk 0 0 192, SignSymbol 192 128 128, Sky 128 128 128,
SUVPickupTruck 64 128 192, TrafficCone 0 0 64, TrafficLight 0 64 64, Train 192 64 128, Tree 128 128 0, Truck_Bus 192 128 192,
Tunnel 64 0 64, VegetationMisc 192 192 0, Void 0 0 0, Wall 64 192 0"""

_VOC = ("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
        "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor")  # fmt: skip

Colour = tuple[int, int, int]


class Table:
    """Maps colours to labels and class names. `names` has the names of the labels 0, 1 and so on. Labels from 255 on may have no
    name."""

    ignored = IGNORED  # the label of pixels without a class

    def __init__(self, where: str) -> None:
        self.where = where
        self.labels: dict[Colour, int] = {}
        self.names: list[str] = []
        self._lut: Any = None

    def fault(self, text: str) -> CorruptError:
        return CorruptError(f"table of colours {self.where!r}: {text}", text=text, file=self.where)

    def fill(self, rows: Iterator[tuple[str, str, Any, Any]]) -> Table:
        """Adds rows of (place in the file, name, colour, label). A row without a label gets the index of its name in `names`."""
        by_name: dict[str, int] = {}
        for place, name, given, label in rows:
            colour = _colour(given)
            if colour is None:
                raise self.fault(f"{place}: {given!r} is no colour: three numbers from 0 to 255, or #rrggbb")
            if not is_text(name):
                raise self.fault(f"{place}: {name!r} is no name of a class")
            if colour in self.labels:
                raise self.fault(f"{place}: the colour {colour} is there twice")
            number = self._label(place, label)
            if number is None:
                number = by_name.get(name, len(by_name))
            if by_name.setdefault(name, number) != number:
                raise self.fault(f"{place}: the class {name!r} has two labels")
            self.labels[colour] = number
        if not self.labels:
            raise self.fault("there is no colour in it")
        self._name(by_name)
        return self

    def _label(self, place: str, label: Any) -> int | None:
        if label is None or label == "":
            return None
        if isinstance(label, int) and not isinstance(label, bool):
            label = str(label)
        if not isinstance(label, str) or not re.fullmatch(r"[0-9]{1,5}", label.strip()) or int(label) > 65534:
            raise self.fault(f"{place}: {label!r} is no label from 0 to 65534")
        return int(label)

    def _name(self, by_name: Mapping[str, int]) -> None:
        named: dict[int, str] = {}
        for name, label in by_name.items():
            if label != IGNORED and named.setdefault(label, name) != name:
                raise self.fault(f"the classes {named[label]!r} and {name!r} have the label {label}")
        self.names = [named.get(label, f"class_{label}") for label in range(max(named, default=-1) + 1)]
        if len(set(self.names)) != len(self.names):
            raise self.fault("two classes have the same name")

    def painted(self, pixels: Any) -> tuple[Any, Any]:
        """Returns the labels of the pixels, and None or, if some colours are unknown, a mask of those pixels, bool (H, W). pixels:
        uint8 (H, W, 3)."""
        import numpy as np

        if self._lut is None:
            lut = np.full(1 << 24, 65535, np.uint16)
            for (r, g, b), label in self.labels.items():
                lut[r << 16 | g << 8 | b] = label
            self._lut = lut
        codes = pixels[..., 0].astype(np.uint32) << 16 | pixels[..., 1].astype(np.uint32) << 8 | pixels[..., 2]
        found = self._lut[codes]
        unknown = found == 65535
        if unknown.any():
            return found, unknown
        return found.astype(np.uint16 if max(self.labels.values()) > 255 else np.uint8), None


def _colour(given: Any) -> Colour | None:
    if isinstance(given, str):
        if re.fullmatch(r"#[0-9A-Fa-f]{6}", given.strip()):
            number = int(given.strip()[1:], 16)
            return number >> 16, number >> 8 & 255, number & 255
        given = re.split(r"[\s,]+", given.strip())
    if not isinstance(given, (list, tuple)) or len(given) != 3:
        return None
    sides = [str(side).strip() for side in given if not isinstance(side, (bool, float))]
    if len(sides) != 3 or not all(re.fullmatch(r"[0-9]{1,3}", side) and int(side) < 256 for side in sides):
        return None
    return int(sides[0]), int(sides[1]), int(sides[2])


def _rows_of_csv(table: Table, text: str) -> Iterator[tuple[str, str, Any, Any]]:
    reader = csv.DictReader(io.StringIO(text), strict=True, skipinitialspace=True)
    try:
        columns = {(name or "").strip().lower(): name for name in reader.fieldnames or ()}
        colour = next((columns[name] for name in ("colour", "color", "rgb") if name in columns), None)
        label = next((columns[name] for name in ("label", "id") if name in columns), None)
        if "name" not in columns or (colour is None and not {"r", "g", "b"} <= columns.keys()):
            raise table.fault("the first line names the columns: name, and r, g, b or colour; label too, if you like")
        for row in reader:
            place = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise table.fault(f"{place} has not as many cells as the first line")
            given = row[colour] if colour is not None else [row[columns[side]] for side in "rgb"]
            yield place, row[columns["name"]].strip(), given, None if label is None else row[label]
    except csv.Error as error:
        raise table.fault(f"line {reader.line_num}: {error}") from None


def _rows_of_lines(table: Table, text: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields the rows of lines such as `64 128 64  Animal`, the format of CamVid's label_colors.txt."""
    for i, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)[\s,]+(\S.*?)\s*", line, re.ASCII)
        if found is not None:
            yield f"line {i}", found[4], found.groups()[:3], None
        elif line.strip() and not line.lstrip().startswith("#"):
            raise table.fault(f"line {i}: R G B NAME is expected, not {line.strip()[:60]!r}")


def _rows_of_tree(table: Table, tree: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields the rows of a map from names to colours, or of a list of objects with name, colour and optionally label."""
    if isinstance(tree, Mapping) and len(tree) == 1:
        inner = next(iter(tree.values()))
        is_list = isinstance(inner, list) and any(isinstance(each, Mapping) for each in inner)
        tree = inner if is_list or isinstance(inner, Mapping) else tree
    if isinstance(tree, Mapping):
        for name, colour in tree.items():
            yield f"the class {name!r}", name, colour, None
        return
    if not isinstance(tree, list):
        raise table.fault("a map of names to colours, or a list of objects with name and colour, is expected")
    for i, row in enumerate(tree):
        if not isinstance(row, Mapping) or "name" not in row:
            raise table.fault(f"entry {i} is no object with name and colour")
        label = row.get("label", row.get("id"))
        yield f"entry {i}", row["name"], row.get("colour", row.get("color", row.get("rgb"))), label


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _plain(each) for key, each in node.value.items()}
    return [_plain(each) for each in node.value] if isinstance(node.value, list) else node.value


def _built_in(name: str) -> Table:
    table = Table(name)
    if name == "camvid":
        entries = [entry.rsplit(" ", 3) for entry in re.split(r",\s", _CAMVID)]
        found: list[tuple[str, str, Any, Any]] = [(each[0], each[0], each[1:], None) for each in entries if each[0] != "Void"]
        return table.fill(iter([*found, ("Void", "Void", (0, 0, 0), IGNORED)]))
    colours = [tuple(sum((i >> 3 * bit + side & 1) << 7 - bit for bit in range(3)) for side in range(3)) for i in range(256)]
    rows: list[tuple[str, str, Any, Any]] = [(each, each, colours[i], i) for i, each in enumerate(_VOC)]
    return table.fill(iter([*rows, ("void", "void", colours[IGNORED], IGNORED)]))


BUILT_IN = ("camvid", "voc")
_NAMES = (*BUILT_IN, "ade", "ade150")


def open_table(given: str) -> Table:
    """Opens a colour table: the name of a built-in one, or a file of CSV, JSON, YAML, or lines of R G B NAME."""
    if given in BUILT_IN and not os.path.exists(given):
        return _built_in(given)
    ending = os.path.splitext(given)[1].lower()
    table = Table(given)
    if not ending and not os.path.exists(given):
        raise NotFoundError(f"there is no table of colours {given!r}: {', '.join(_NAMES)}, or a file", file=given)
    if ending in (".yaml", ".yml"):
        return table.fill(_rows_of_tree(table, {key: _plain(node) for key, node in read_yaml(given, "table of colours").items()}))
    data = read_file(given, "table of colours", _MOST_BYTES)
    if ending == ".json":
        return table.fill(_rows_of_tree(table, parse(data, given)))
    text = text_of(data, given)
    return table.fill(_rows_of_csv(table, text) if ending == ".csv" else _rows_of_lines(table, text))
