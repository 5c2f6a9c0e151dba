"""Reads the records of a record set: rows of its main source, each joined with rows of other sources by `references`.

Every field is resolved to a root: a file, a set of files, or a record set with data in the metadata. The main root is the first
root from which references lead to the roots of all other fields.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import CorruptError
from . import values as _values
from .files import Entry, Files
from .metadata import Field, Metadata, RecordSet, Source
from .paths import steps_of
from .tables import Row, file_of, lines_of, rows_of

_DEEPEST = 16  # most steps from a field to the field that is its source
_OF_FILES = ("content", "fullpath", "filename")
Rows = dict[str, Row]


@dataclass
class Column:
    """Where the values of a field lie. root: the file, set of files or record set that has them; None: the field is a constant."""

    root: str | None
    extract: tuple[str, str]
    transforms: list[tuple[str, str]]
    where: str
    value: Any = None


@dataclass
class Join:
    """Finds the row of one root (a file or record set) that belongs to a row of another root, by the value of a field."""

    root: str
    raw: Callable[[Rows], Any]
    key: Callable[[Rows], Any]
    index: dict[Any, Row]
    field: Field
    target: str


class Resolver:
    """Finds the columns of fields, and reads the rows of files and record sets with data (roots)."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata, self.files = metadata, Files(metadata)

    def column(self, record_set: RecordSet, field: Field) -> Column:
        if field.source is not None:
            return self.source(field.source)
        if field.has_value:
            return Column(None, ("", ""), [], field.where, field.value)
        if record_set.data is not None:
            return Column(record_set.id, ("column", field.id), [], field.where)
        raise self.metadata.fault(field.where, f"the field {field.id!r} has neither a source nor a value")

    def source(self, source: Source, depth: int = 0) -> Column:
        metadata = self.metadata
        if source.target in metadata.fields and source.kind in ("", "field"):
            if depth > _DEEPEST:
                raise metadata.fault(source.where, f"the field {source.target!r} is its own source")
            record_set, field = metadata.fields[source.target]
            if source.extract is not None:
                raise metadata.refusal(f"{source.where}.extract", "an extract of another field's value is not read")
            inner = self.source(field.source, depth + 1) if field.source is not None else self.column(record_set, field)
            return Column(inner.root, inner.extract, [*inner.transforms, *source.transforms], source.where, inner.value)
        if source.target in metadata.resources and source.kind != "recordSet":
            extract = source.extract or ("fileProperty", "content")
            self._check_path(extract, source.where)
            return Column(source.target, extract, source.transforms, source.where)
        if source.target in metadata.record_sets and source.extract is not None and source.extract[0] == "column":
            record_set = metadata.record_sets[source.target]
            wanted = source.extract[1]
            found = next((each for each in record_set.fields.values() if wanted in (each.id, name_of(each, record_set))), None)
            if found is not None:
                return self.source(Source("field", found.id, None, source.transforms, source.where), depth + 1)
        raise metadata.fault(source.where, f"there is no {source.kind or 'part'} {source.target!r} with that value")

    def _check_path(self, extract: tuple[str, str], where: str) -> None:
        if extract[0] == "jsonPath":
            try:
                steps_of(extract[1])
            except ValueError as error:
                raise self.metadata.refusal(f"{where}.extract.jsonPath", str(error)) from None

    def rows(self, root: str, columns: list[Column]) -> Iterator[Row]:
        """Yields the rows of a root (a file, set of files or record set). The columns decide how its files are read."""
        if root in self.metadata.record_sets:
            yield from self._data(self.metadata.record_sets[root])
            return
        kinds = {each.extract[0] for each in columns}
        properties = {each.extract[1] for each in columns if each.extract[0] == "fileProperty"}
        by_line, by_record = properties & {"lines", "lineNumbers"}, kinds & {"column", "jsonPath"}
        if (by_record and (by_line or "content" in properties)) or (by_line and "content" in properties) or len(by_record) > 1:
            text = f"whole files, lines, columns and JSONPaths of {root!r} are asked for in one record set: one of these is read"
            raise self.metadata.refusal(columns[0].where, text)
        resource = self.metadata.resources[root]
        paths = sorted({each.extract[1] for each in columns if each.extract[0] == "jsonPath"})
        for entry in self.files.entries(root):
            if by_record:
                yield from rows_of(self.metadata, resource, entry, paths)
            elif by_line:
                yield from lines_of(entry)
            else:
                yield file_of(entry)

    def _data(self, record_set: RecordSet) -> Iterator[Row]:
        entry = Entry(self.files.folder, os.path.basename(self.metadata.path))
        for i, row in enumerate(record_set.data or ()):
            place = f"{record_set.where}.data[{i}]"

            def get(kind: str, name: str, row: dict[str, Any] = row, place: str = place) -> Any:
                if name not in row:
                    raise self.metadata.fault(place, f"there is no {name!r}")
                return row[name]

            yield Row(entry, place, get)


def name_of(field: Field, record_set: RecordSet) -> str:
    """Returns the plain name of a field: its id without the id of its record set."""
    return field.id.removeprefix(record_set.id + "/").rpartition("/")[2] or field.id


class Getter:
    """Returns the value of a column from the joined rows of one record."""

    def __init__(self, resolver: Resolver, column: Column, field: Field) -> None:
        self.column, self.field = column, field
        self.kind = _values.kind_of(field.types)
        self._transforms = _values.Transforms(resolver.metadata, column.transforms, column.where, self.kind, field.types)
        self.box_format = self._transforms.box_format

    def raw(self, rows: Rows) -> Any:
        """Returns the value before it is converted to the field's type."""
        column = self.column
        if column.root is None:
            try:
                return self._transforms(column.value)
            except ValueError as error:
                raise self.fault(None, str(error)) from None
        row = rows[column.root]
        kind, name = column.extract
        value: Any = row.entry
        if kind == "fileProperty" and name in _OF_FILES:
            value = {"content": row.entry, "fullpath": row.entry.name, "filename": os.path.basename(row.entry.name)}[name]
        else:
            value = row.get(kind, name)
        try:
            return self._transforms(value)
        except ValueError as error:
            raise self.fault(row, str(error)) from None

    def fault(self, row: Row | None, text: str) -> CorruptError:
        if row is None:
            return CorruptError(f"{self.field.id}: {text}", text=text)
        text = f"{row.place}: {self.field.id}: {text}" if row.place else f"{self.field.id}: {text}"
        return CorruptError(f"{row.entry.shown!r}: {text}", text=text, file=row.entry.shown)

    def __call__(self, rows: Rows) -> Any:
        """Returns the value converted to the field's type."""
        value = self.raw(rows)
        row = None if self.column.root is None else rows[self.column.root]
        try:
            return _values.stored(self.field, self.kind, self.box_format, value)
        except ValueError as error:
            raise self.fault(row, str(error)) from None


def key_of(value: Any, as_number: bool) -> Any:
    """Returns the join key of a value. If either field is of whole numbers, numbers and texts of numbers have the same key."""
    if as_number:
        try:
            return _values.whole_of(value)
        except ValueError:
            return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None if value is None else str(value)


class Records:
    """The records of a record set, with joins applied."""

    def __init__(self, resolver: Resolver, record_set: RecordSet) -> None:
        self.resolver, self.record_set = resolver, record_set
        self.columns = {id_: resolver.column(record_set, field) for id_, field in _leaves(record_set).items()}
        self.base, plan = self._plan()
        needed: dict[str, list[Column]] = {}
        for column in self.columns.values():
            if column.root is not None:
                needed.setdefault(column.root, []).append(column)
        for _, target, _ in plan:
            needed.setdefault(target.root or "", []).append(target)
        self.rows = list(resolver.rows(self.base, needed[self.base]))
        self._joins = [self._join(field, target, target_field, needed[target.root or ""]) for field, target, target_field in plan]

    def _plan(self) -> tuple[str, list[tuple[Field, Column, Field]]]:
        """Returns the main root (the source whose rows become the records), and the references that lead to the other roots, in the
        order of the joins."""
        wanted = list(dict.fromkeys(column.root for column in self.columns.values() if column.root is not None))
        if not wanted:
            raise self.resolver.metadata.fault(self.record_set.where, "all fields are constants, so there is no record")
        best: tuple[str, set[str]] = (wanted[0], set())
        for base in wanted:
            reached, plan = {base}, []
            links = [(field, self.columns[id_], *self._target(field)) for id_, field in _leaves(self.record_set).items()
                     if field.references is not None and id_ in self.columns]  # fmt: skip
            for _ in links:
                for field, column, target, target_field in links:
                    if column.root in reached and target.root not in reached and target.root in wanted:
                        reached.add(target.root)
                        plan.append((field, target, target_field))
            if reached >= set(wanted):
                return base, plan
            if len(reached) > len(best[1]):
                best = base, reached
        missing = next(root for root in wanted if root not in best[1] | {best[0]})
        id_ = next(id_ for id_, column in self.columns.items() if column.root == missing)
        raise self.resolver.metadata.fault(
            self.record_set.where, f"the field {id_!r} is of {missing!r}, others are of {best[0]!r}, and no field references it"
        )

    def _target(self, field: Field) -> tuple[Column, Field]:
        source = field.references
        assert source is not None
        found = self.resolver.metadata.fields.get(source.target)
        return self.resolver.source(source), field if found is None else found[1]

    def _join(self, field: Field, target: Column, target_field: Field, columns: list[Column]) -> Join:
        as_number = "int" in (_values.kind_of(field.types), _values.kind_of(target_field.types))
        here = Getter(self.resolver, self.columns[field.id], field)
        there = Getter(self.resolver, target, target_field)
        root = target.root or ""
        index: dict[Any, Row] = {}
        for row in self.resolver.rows(root, columns):
            key = key_of(there.raw({root: row}), as_number)
            if key is None:  # no value, or no number: this row is joined with no record
                continue
            if key in index:
                raise there.fault(row, f"the value {key!r} is there twice, and {field.id} references it")
            index[key] = row
        return Join(root, here.raw, lambda rows: key_of(here.raw(rows), as_number), index, field, target_field.id)

    def joined(self, i: int) -> Rows:
        """Returns the rows that are joined to record i, keyed by the file or record set (root) that they come from."""
        rows = {self.base: self.rows[i]}
        for join in self._joins:
            key = join.key(rows)
            if key is None or key not in join.index:
                row = self.rows[i]
                shown = repr(join.raw(rows) if key is None else key)[:120]
                text = f"{row.place}: " * bool(row.place) + f"{join.field.id}: {join.target} has no {shown}"
                raise CorruptError(f"{row.entry.shown!r}: {text}", text=text, file=row.entry.shown)
            rows[join.root] = join.index[key]
        return rows


def _leaves(record_set: RecordSet) -> dict[str, Field]:
    """Returns the fields with values, by id. A field with sub-fields is replaced by its sub-fields."""
    found: dict[str, Field] = {}

    def add(field: Field) -> None:
        if field.sub_fields:
            for inner in field.sub_fields:
                add(inner)
        else:
            found[field.id] = field

    for field in record_set.fields.values():
        add(field)
    return found
