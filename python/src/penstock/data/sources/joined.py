"""Packs the samples of tars and other containers, each joined with its row of a table (CSV, JSON lines, Parquet or Arrow).

The table's key column holds the name of the sample that a row belongs to (for tars: the sample's key). Every sample must have one
row, and every row a sample.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

from ...base.files import parse, read_file, text_of
from ...errors import ArgumentError, CorruptError, UnsupportedError
from .. import packing
from ..dataset import Dataset, Field
from ..pack_report import PackReport
from ..schema import Array, Audio, Boxes, Bytes, FieldSpec, Float, Int, Json, Keypoints, Text
from . import typed
from .objects import Storing

KEYS = ("key", "__key__", "name", "file", "id")
_TABLES = (".parquet", ".parq", ".pq", ".arrow", ".feather")
_WHOLE, _NUMBER = re.compile(r"-?(0|[1-9][0-9]*)"), re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_FILES = ("image", "mask", "audio")


class Table:
    """The rows of the table by key, and the fields made of its columns."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self.schema: dict[str, FieldSpec] = {}

    def fault(self, text: str) -> CorruptError:
        return CorruptError(f"table {self.path!r}: {text}", text=text, file=self.path)

    def add(self, place: str, key: Any, row: dict[str, Any]) -> None:
        if not isinstance(key, str) or not key:
            raise self.fault(f"{place}: the key is {key!r}, a text is expected")
        if key in self.rows:
            raise self.fault(f"{place}: the key {key!r} is there twice")
        self.rows[key] = row

    def key_of(self, columns: Sequence[str]) -> str:
        """Returns the name of the key column."""
        found = next((name for name in KEYS if name in columns), None)
        if found is None:
            raise self.fault(f"no column has the keys of the samples: call it {' or '.join(KEYS)}; there are {', '.join(columns)}")
        return found


def open_table(path: str) -> Table:
    """Reads a table. The ending of the file name decides the format."""
    ending = os.path.splitext(path)[1].lower()
    table = Table(path)
    if ending in _TABLES:
        _read_dataset(table)
    elif ending in (".jsonl", ".ndjson"):
        _read_lines(table)
    elif ending == ".csv":
        _read_csv(table)
    else:
        text = ".csv, .jsonl, .parquet or .arrow is expected"
        raise UnsupportedError(f"table {path!r}: {text}", text=text, file=path)
    if not table.rows:
        raise table.fault("there is no row in it")
    return table


def _read_csv(table: Table) -> None:
    reader = csv.DictReader(io.StringIO(text_of(read_file(table.path, "table"), table.path), newline=""), strict=True)
    try:
        columns = list(reader.fieldnames or ())
        if len(set(columns)) != len(columns):
            raise table.fault("two columns have the same name")
        key = table.key_of(columns)
        for row in reader:
            place = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise table.fault(f"{place} has not as many cells as the first line")
            table.add(place, row.pop(key), row)
    except csv.Error as error:
        raise table.fault(f"line {reader.line_num}: {error}") from None
    for name in columns:
        if name != key:
            _type_cells(table, name)


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _type_cells(table: Table, name: str) -> None:
    """Sets the type of a CSV column by the rules for label files: int if all cells are whole numbers, float if all are numbers,
    else text.

    A column with a whole number beyond 64 bits becomes text, because a float would change the number. In the column "label" it is
    an error.
    """
    cells = [row[name] for row in table.rows.values()]
    large = next((cell for cell in cells if _WHOLE.fullmatch(cell) and not (len(cell) <= 20 and _fits(int(cell)))), None)
    if large is not None and name == "label":
        raise table.fault(f"label {large[:100]} is beyond 64 bits: it is no class number")
    kind: type
    if large is not None:
        kind = str
    elif all(_WHOLE.fullmatch(cell) for cell in cells):
        kind = int
    elif all(_NUMBER.fullmatch(cell) and abs(float(cell)) < float("inf") for cell in cells):
        kind = float
    else:
        kind = str
    for row in table.rows.values():
        row[name] = kind(row[name])
    table.schema[name] = _spec_of(table, name, {kind})


def _read_lines(table: Table) -> None:
    columns: dict[str, set[type]] = {}
    key = ""
    lines = read_file(table.path, "table").removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for i, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = parse(line, table.path)
        except CorruptError as error:
            raise table.fault(f"line {i}: {error.text}") from None
        if not isinstance(row, dict):
            raise table.fault(f"line {i} is no object")
        key = key or table.key_of(list(row))
        if not columns:
            columns = {name: set() for name in row if name != key}
        if row.keys() != {key, *columns}:
            raise table.fault(f"line {i} has the members {', '.join(row)}, the first line {', '.join([key, *columns])}")
        for name, kinds in columns.items():
            kinds.add(type(row[name]))
            if type(row[name]) is int and not _fits(row[name]):
                raise table.fault(f"line {i}: {name!r} is beyond 64 bits")
        table.add(f"line {i}", row.pop(key), row)
    for name, kinds in columns.items():
        table.schema[name] = _spec_of(table, name, kinds)


def _spec_of(table: Table, name: str, kinds: set[type]) -> FieldSpec:
    values = [row[name] for row in table.rows.values()]
    if name == "label" and kinds == {str}:
        return Int(sorted(set(values), key=lambda text: text.encode("utf-8", "surrogatepass")))
    if name == "label" and kinds == {int} and min(values) >= 0:
        return Int(max(values) + 1)
    if kinds <= {int, bool}:
        return Int()
    if kinds <= {int, float}:
        return Float()
    if kinds == {str}:
        return Text()
    if kinds <= {list, dict}:
        return Json()
    raise table.fault(f"the column {name!r} has values of several types: {', '.join(sorted(kind.__name__ for kind in kinds))}")


def _read_dataset(table: Table) -> None:
    rows = Dataset(table.path)
    if pictures := [name for name, field in rows.fields.items() if field.type in _FILES]:
        raise table.fault(f"the column {pictures[0]!r} has files; a table that is joined has labels alone")
    key = table.key_of(list(rows.fields))
    if rows.fields[key].type != "text":
        raise table.fault(f"the column {key!r} has the keys, and is no text")
    for name, field in rows.fields.items():
        if name != key:
            table.schema[name] = _spec_on_disk(rows, field)
    for i in range(len(rows)):
        row = rows[i]
        table.add(f"row {i}", row.get(key), {name: row.get(name) for name in table.schema})


def _spec_on_disk(dataset: Dataset, field: Field) -> FieldSpec:
    """Returns the writer's spec of a field."""
    if field.type == "int":
        return Int(dataset.class_names(field.name) or field.n_classes or None)
    if field.type == "array":
        names = dataset.class_names(field.name) if field.n_classes else None
        return Array(field.dtype, field.shape or None, classes=names or field.n_classes or None)
    kinds: dict[str, Callable[[], FieldSpec]] = {
        "float": Float, "text": Text, "json": Json, "bytes": Bytes, "audio": Audio, "boxes": Boxes, "keypoints": Keypoints,
    }  # fmt: skip
    return kinds[field.type]()


class Joined(typed.Source):
    """The source that the packing loop reads: the samples of a data set, each with its row of the table."""

    def __init__(self, dataset: Dataset, table: Table, storing: Storing) -> None:
        self.place, self.notices = dataset.path, dataset.notices
        self.early: list[str] = []
        self._dataset, self._table, self._lock = dataset, table, Lock()
        self._names = [dataset.name(i) for i in range(len(dataset))]
        self._place = {name: i for i, name in enumerate(self._names)}
        self._compare()
        pictures = {"image": storing.image, "mask": storing.mask}
        found = {name: pictures[field.type]() if field.type in pictures else _spec_on_disk(dataset, field)
                 for name, field in dataset.fields.items()}  # fmt: skip
        if both := [name for name in table.schema if name in found]:
            raise table.fault(f"the samples have a field {both[0]!r}, too: rename one, or leave the member out (--members)")
        self.schema: dict[str, FieldSpec] = {**found, **table.schema}

    def _compare(self) -> None:
        missing = [name for name in self._names if name not in self._table.rows]
        extra = [key for key in self._table.rows if key not in self._place]
        if missing or extra:
            parts = [f"{len(each)} {what}, the first {', '.join(map(repr, each[:3]))}"
                     for each, what in ((missing, "samples have no row"), (extra, "rows have no sample")) if each]  # fmt: skip
            raise self._table.fault("; ".join(parts))

    def _sample(self, name: str) -> dict[str, Any]:
        with self._lock:
            sample = dict(self._read(self._place[name]))
        return {**sample, **self._table.rows[name]}

    def _read(self, i: int) -> Iterator[tuple[str, Any]]:
        """Yields name and value of each field of a sample. The value of a file is its bytes."""
        dataset = self._dataset
        for name, field in dataset.fields.items():
            if field.type not in _FILES:
                yield name, dataset._value(dataset._sample(i), dataset._place(name), field)
            elif dataset.item(i, name)["present"]:
                yield name, dataset.read(i, name, original=True)


def pack_joined(
    dataset: Dataset, table: str, destination: str, storing: Storing, *, num_workers: int | None, **how: Any
) -> PackReport:
    """Packs the samples of a data set with their rows of the table."""
    if not len(dataset):
        raise ArgumentError("the data set has no samples")
    found = Joined(dataset, open_table(table), storing)
    return packing.run(found, destination, found.schema, n_threads=packing.threads(num_workers), **how)
