"""Reads rows from files that metadata name: lines of CSV, TSV, JSON lines and texts, records of JSON and Parquet, or whole
files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...base.files import parse, text_of
from ...errors import CorruptError, PenstockError, UnsupportedError
from ..dataset import Dataset
from .files import Entry, Folder
from .metadata import Metadata, Resource
from .paths import counts_at, steps_of, values_at

_FORMATS = {
    "csv": ("text/csv",),
    "tsv": ("text/tsv", "text/tab-separated-values"),
    "json": ("application/json",),
    "lines": ("application/jsonlines", "application/x-jsonlines", "application/jsonl", "application/x-jsonl",
              "application/x-ndjson", "application/ndjson"),
    "parquet": ("application/x-parquet", "application/vnd.apache.parquet"),
}
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "lines", ".ndjson": "lines", ".parquet": "parquet"}


@dataclass
class Row:
    """A record of a file, or a whole file. get(kind, name): returns a column, or the value at a JSONPath."""

    entry: Entry
    place: str  # for errors: the file, and the line or record number within it
    get: Callable[[str, str], Any]


def format_of(resource: Resource, entry: Entry) -> str | None:
    """Returns the table format of a file, or None if it is no table."""
    stated = next((kind for kind, names in _FORMATS.items() if any(each in names for each in resource.formats)), None)
    return stated or _ENDINGS.get(os.path.splitext(entry.name)[1].lower())


def rows_of(metadata: Metadata, resource: Resource, entry: Entry, paths: list[str]) -> Iterator[Row]:
    """Yields the rows of a table. paths: the JSONPaths that will be read from the rows of a JSON file."""
    kind = format_of(resource, entry)
    if kind in ("csv", "tsv"):
        return _csv(entry, "," if kind == "csv" else "\t")
    if kind == "lines":
        return _lines(entry)
    if kind == "json":
        return _json(entry, paths)
    if kind == "parquet":
        return _parquet(entry)
    text = f"{', '.join(resource.formats) or entry.name}: columns are read of CSV, TSV, JSON, JSON lines and Parquet"
    raise metadata.refusal(f"{resource.where}.encodingFormat", text)


def _fault(entry: Entry, text: str) -> CorruptError:
    return CorruptError(f"{entry.shown!r}: {text}", text=text, file=entry.shown)


def _of_column(entry: Entry, place: str, row: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def get(kind: str, name: str) -> Any:
        if kind == "jsonPath":
            return _at(entry, place, row, name)
        if name not in row:
            raise _fault(entry, f"{place}: there is no column {name!r}; there are {', '.join(map(str, list(row)[:20]))}")
        return row[name]

    return get


def _at(entry: Entry, place: str, value: Any, path: str) -> Any:
    """Returns the value at a JSONPath. With [*] in the path, returns a list."""
    steps = steps_of(path)
    try:
        values = values_at(value, steps)
    except ValueError as error:
        raise _fault(entry, f"{place}: {path}: {error}") from None
    return values if None in steps else values[0]


def _csv(entry: Entry, separator: str) -> Iterator[Row]:
    text = text_of(entry.read(), entry.shown)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    try:
        columns = list(reader.fieldnames or ())
        if len(set(columns)) != len(columns):
            raise _fault(entry, "two columns have the same name")
        for row in reader:
            place = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise _fault(entry, f"{place} has not as many cells as the first line")
            yield Row(entry, place, _of_column(entry, place, row))
    except csv.Error as error:
        raise _fault(entry, f"line {reader.line_num}: {error}") from None


def _lines(entry: Entry) -> Iterator[Row]:
    for i, line in enumerate(entry.read().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse(line, entry.shown)
        except CorruptError as error:
            raise _fault(entry, f"line {i}: {error.text}") from None
        if not isinstance(row, Mapping):
            raise _fault(entry, f"line {i} is no object")
        yield Row(entry, f"line {i}", _of_column(entry, f"line {i}", row))


def _json(entry: Entry, paths: list[str]) -> Iterator[Row]:
    """Yields the rows of a JSON file. A JSONPath with [*] has one value per row, and all paths of a file must have equally many. A
    path without [*] has one value per file."""
    tree = parse(entry.read(), entry.shown)
    if not paths:  # without JSONPaths, the file is a list of objects
        if not isinstance(tree, list) or not all(isinstance(each, Mapping) for each in tree):
            raise _fault(entry, "a column is asked for, and the file is no list of objects")
        for i, row in enumerate(tree):
            yield Row(entry, f"record {i}", _of_column(entry, f"record {i}", row))
        return
    columns: dict[str, list[Any]] = {}
    for path in paths:
        try:
            columns[path] = values_at(tree, steps_of(path))
        except ValueError as error:
            raise _fault(entry, f"{path}: {error}") from None
    lengths = {path: len(values) for path, values in columns.items()}
    first = paths[0]
    for path, n in lengths.items():
        if n != lengths[first]:
            raise _fault(entry, f"{path} gives {n} values, and {first} {lengths[first]}")
    if any(steps_of(path).count(None) > 1 for path in paths):  # equal totals may still belong to different parents
        for path in paths[1:]:
            if counts_at(tree, steps_of(path)) != counts_at(tree, steps_of(first)):
                raise _fault(entry, f"{path} and {first} give other numbers of values within one [*]")
    for i in range(lengths[first]):
        yield Row(entry, f"record {i}", _of_lists(columns, i))


def _of_lists(columns: Mapping[str, list[Any]], i: int) -> Callable[[str, str], Any]:
    return lambda _, path: columns[path][i]


def _parquet(entry: Entry) -> Iterator[Row]:
    if not isinstance(entry.place, Folder):
        text = "Parquet in an archive is not read: unpack it"
        raise UnsupportedError(f"{entry.shown!r}: {text}", text=text, file=entry.shown)
    entry.place.open(entry.name).close()  # open() refuses links
    rows = Dataset(entry.shown)
    for i in range(len(rows)):
        yield Row(entry, f"row {i}", _of_parquet(entry, rows, i))


def _of_parquet(entry: Entry, rows: Dataset, i: int) -> Callable[[str, str], Any]:
    def get(kind: str, name: str) -> Any:
        if kind != "column" or name not in rows.fields:
            raise _fault(entry, f"there is no column {name!r}; there are {', '.join(rows.fields)}")
        field = rows.fields[name]
        try:
            if field.type in ("image", "mask", "audio"):
                return rows.read(i, name, original=True) if rows.item(i, name)["present"] else None
            return rows._value(rows._sample(i), rows._place(name), field)
        except PenstockError as error:
            raise _fault(entry, f"row {i}: {error}") from None

    return get


def lines_of(entry: Entry) -> Iterator[Row]:
    """Yields the lines of a text file as bytes, without line ends."""
    lines = entry.read().split(b"\n")
    for i, line in enumerate(lines[:-1] if lines and not lines[-1] else lines):

        def get(kind: str, name: str, line: bytes = line, i: int = i) -> Any:
            return line.removesuffix(b"\r") if name == "lines" else i

        yield Row(entry, f"line {i + 1}", get)


def file_of(entry: Entry) -> Row:
    """Returns a row that stands for a whole file."""

    def get(kind: str, name: str) -> Any:
        raise _fault(entry, f"a {kind} is asked of a whole file")

    return Row(entry, "", get)
