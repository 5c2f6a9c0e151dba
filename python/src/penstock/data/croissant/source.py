"""Packs a record set of croissant.json. Samples have the order of the main source. Their names are keys, files or numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ArgumentError, CorruptError, NotFoundError
from .. import packing
from ..annotations.given import is_text
from ..pack_report import PackReport
from ..schema import Array, FieldSpec, Int, Json
from ..sources import typed
from ..sources.objects import Numbers, Storing
from . import values as _values
from .metadata import Field, Metadata, RecordSet
from .records import Getter, Records, Resolver, Rows, key_of, name_of

FILE_NAME = "croissant.json"
_NAME = re.compile(r"[^A-Za-z0-9_.-]")
# The names of a split that Croissant's split IRIs mean, by the last word of the IRI.
_SPLITS = {"training": ("train", "training"), "validation": ("val", "valid", "validation"), "test": ("test", "testing"),
           "testing": ("test", "testing")}  # fmt: skip


def open_metadata(path: str) -> Metadata:
    """Reads the metadata file `path`, or croissant.json in the folder `path`."""
    if os.path.isdir(path):
        path = os.path.join(path, FILE_NAME)
        if not os.path.exists(path):
            raise NotFoundError(f"{path!r}: no such file: name the file with the metadata, if it is called otherwise", file=path)
    return Metadata(path)


def choose(metadata: Metadata, name: str | None) -> RecordSet:
    """Returns the record set to pack: the named one, or the only one that is no enumeration and holds no data itself."""
    found = [each for each in metadata.record_sets.values() if name in (each.id, each.id.rpartition("/")[2])]
    if name is None:
        everything = list(metadata.record_sets.values())
        found = [each for each in everything if each.data is None and not {"Enumeration", "Split"} & set(each.types)] or everything
        with_files = [each for each in found if _has_files(each)]
        found = with_files if len(found) > 1 and len(with_files) == 1 else found
    if len(found) != 1:
        names = ", ".join(metadata.record_sets)
        text = f"there is no record set {name!r}" if name is not None and not found else "record_set= (--record-set) says which one"
        raise ArgumentError(f"{metadata.path!r} has the record sets {names}: {text}", file=metadata.path)
    return found[0]


def _has_files(record_set: RecordSet) -> bool:
    return any(_values.kind_of(field.types) in ("image", "audio") for field in record_set.fields.values())


class Classes:
    """The classes of a field that references an enumeration: the class number of each value, and the class names."""

    def __init__(self, resolver: Resolver, field: Field, target: Field, record_set: RecordSet) -> None:
        self._field = field
        names = {name_of(each, record_set): each for each in record_set.fields.values()}
        shown = names.get("name", names.get("label", target))
        keys, texts = [], []
        wanted = (target, shown)
        getters = [Getter(resolver, resolver.column(record_set, each), each) for each in wanted]
        root = getters[0].column.root
        if root is None or getters[1].column.root != root:
            raise resolver.metadata.fault(record_set.where, "key and name of an enumeration come from one source")
        self.as_number = getters[0].kind == "int"
        for row in resolver.rows(root, [each.column for each in getters]):
            keys.append(key_of(getters[0].raw({root: row}), self.as_number))
            texts.append(key_of(getters[1].raw({root: row}), False))
        if len(set(keys)) != len(keys) or None in keys or not keys:
            raise resolver.metadata.fault(record_set.where, f"the values of {target.id!r} are missing or there twice")
        order = keys if not self.as_number else sorted(keys)
        self.numbers = {key: i for i, key in enumerate(order)}
        by_number = dict(zip((self.numbers[key] for key in keys), texts, strict=True))
        found = [by_number[i] for i in range(len(keys))]
        self.names = found if all(map(is_text, found)) and len(set(found)) == len(found) else None

    def number(self, value: Any) -> int:
        key = key_of(value, self.as_number)
        if key not in self.numbers:
            raise ValueError(f"{str(value)[:80]!r} is no value of the enumeration")
        return self.numbers[key]


class _Stored:
    """One field of the packed data set, and the function that computes it from a record."""

    def __init__(self, name: str, spec: FieldSpec, get: Callable[[Rows], Any]) -> None:
        self.name, self.spec, self.get = name, spec, get


class Croissant(typed.Source):
    """The source that the packing loop reads: the records of one record set."""

    def __init__(self, path: str, record_set: str | None, split: str | None, storing: Storing) -> None:
        metadata = open_metadata(path)
        self.place = metadata.path
        self.early: list[str] = []
        self.notices: list[dict[str, Any]] = []
        self._storing, self._resolver = storing, Resolver(metadata)
        self.record_set = choose(metadata, record_set)
        self._records = Records(self._resolver, self.record_set)
        self._fields = [self._stored(field) for field in self.record_set.fields.values()]
        self.schema: dict[str, FieldSpec] = {}
        for each in self._fields:
            if each.name in self.schema:
                raise metadata.fault(self.record_set.where, f"two fields are called {each.name!r}")
            self.schema[each.name] = each.spec
        chosen = list(range(len(self._records.rows)))
        if split is not None:
            chosen = self._of_split(split, chosen)
        self._names = self._named(chosen)
        self._place = dict(zip(self._names, chosen, strict=True))
        if not chosen:
            raise NotFoundError(f"{metadata.path!r}: the record set {self.record_set.id!r} has no record", file=metadata.path)

    # Fields ------------------------------------------------------------------------------------

    def _stored(self, field: Field) -> _Stored:
        metadata = self._resolver.metadata
        name = _NAME.sub("_", name_of(field, self.record_set))[:63]
        name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"[:63]
        if field.sub_fields:
            return _Stored(name, Json(), self._tree(field))
        _values.check_types(metadata, field)
        getter = Getter(self._resolver, self._records.columns[field.id], field)
        classes = self._classes(field)
        if classes is not None and getter.kind in (None, "int", "text"):
            of = classes.names or len(classes.numbers)
            spec: FieldSpec = Array("int64", classes=of) if field.is_array else Int(of)
            return _Stored(name, spec, _labels(getter, classes, field))
        if getter.kind is None and not field.is_array:
            getter.kind = self._inferred(getter)
        return _Stored(name, _values.spec_of(field, getter.kind, self._storing.image, self._storing.mask), getter)

    def _tree(self, field: Field) -> Callable[[Rows], Any]:
        """Returns a function that makes a dict of the values of a field's sub-fields."""
        made: dict[str, Callable[[Rows], Any]] = {}
        for inner in field.sub_fields:
            if inner.sub_fields:
                made[inner.id.rpartition("/")[2]] = self._tree(inner)
                continue
            _values.check_types(self._resolver.metadata, inner)
            getter = Getter(self._resolver, self._records.columns[inner.id], inner)
            if getter.kind in ("image", "mask", "audio"):
                raise self._resolver.metadata.refusal(inner.where, "a sub-field of images or sounds is not read: make it a field")
            if getter.kind is None and not inner.is_array:
                getter.kind = self._inferred(getter)
            made[inner.id.rpartition("/")[2]] = _plain(getter)
        if len(made) != len(field.sub_fields):
            raise self._resolver.metadata.fault(field.where, "two sub-fields have one name")
        return lambda rows: {name: get(rows) for name, get in made.items()}

    def _inferred(self, getter: Getter) -> str:
        """Returns the kind of the first record's value, for a field whose types do not say."""
        if not self._records.rows:
            return "text"
        try:
            return _values.inferred(getter.raw(self._records.joined(0)))
        except ValueError as error:
            text = f"its type is told by no dataType, and in the first record {error}"
            raise self._resolver.metadata.fault(getter.field.where, text) from None

    def _target(self, field: Field) -> tuple[RecordSet, Field] | None:
        return None if field.references is None else self._resolver.metadata.fields.get(field.references.target)

    def _classes(self, field: Field) -> Classes | None:
        found = self._target(field)
        if found is None or "Enumeration" not in found[0].types:
            return None
        return Classes(self._resolver, field, found[1], found[0])

    # Splits and names --------------------------------------------------------------------------

    def _of_split(self, wanted: str, chosen: list[int]) -> list[int]:
        metadata = self._resolver.metadata
        fields = list(self.record_set.fields.values())
        by_reference = next((each for each in fields if (to := self._target(each)) is not None and "Split" in to[0].types), None)
        is_split = [each for each in fields if "Split" in each.types or name_of(each, self.record_set) == "split"]
        field = by_reference or (is_split[0] if is_split else None)
        if field is None or field.id not in self._records.columns:
            text = f"the record set {self.record_set.id!r} has no field of splits"
            raise ArgumentError(f"{metadata.path!r}: {text}", file=metadata.path)
        names = {wanted} | (self._same_split(field, wanted) if by_reference is not None else set())
        getter = Getter(self._resolver, self._records.columns[field.id], field)
        found: dict[str, int] = {}
        taken = []
        for i in chosen:
            value = key_of(getter.raw(self._records.joined(i)), False) or ""
            found[value] = found.get(value, 0) + 1
            if value in names:
                taken.append(i)
        if not taken:
            raise NotFoundError(f"{metadata.path!r}: there is no split {wanted!r}; there are {', '.join(sorted(found))}",
                                file=metadata.path)  # fmt: skip
        return taken

    def _same_split(self, field: Field, wanted: str) -> set[str]:
        """Returns the values that mean the wanted split by their IRI, such as cr:TrainingSplit."""
        target = self._target(field)
        assert target is not None
        same = set()
        for row in target[0].data or ():
            words = [each.rpartition("/")[2].rpartition(":")[2].lower() for each in row.values() if isinstance(each, str)]
            kinds = [word.removesuffix("split").rstrip("_") for word in words if word.endswith("split")]
            if any(wanted in _SPLITS.get(kind, ()) for kind in kinds):
                same.add(str(row.get(target[1].id)))
        return same

    def _named(self, chosen: list[int]) -> Sequence[str]:
        """Returns the samples' names: values of the record set's key, else names of files, else numbers."""
        records = self._records
        keys = [id_ for id_ in self.record_set.key if id_ in records.columns]
        if len(self.record_set.key) == 1 and keys:
            getter = Getter(self._resolver, records.columns[keys[0]], self.record_set.fields[keys[0]])
            if getter.kind in (None, "int", "text"):
                names = [key_of(getter.raw(records.joined(i)), False) or "" for i in chosen]
                return self._unique(names, f"the key {keys[0]}")
        extracts = {column.extract for column in records.columns.values() if column.root == records.base}
        if extracts and all(kind == "fileProperty" and name in ("content", "fullpath", "filename") for kind, name in extracts):
            return self._unique([records.rows[i].entry.name for i in chosen], "the name of a file")
        return Numbers(len(chosen))

    def _unique(self, names: list[str], what: str) -> list[str]:
        seen: set[str] = set()
        for name in names:
            if not is_text(name):
                raise CorruptError(f"{self.place!r}: {what} is {name[:80]!r}, which can name no sample", file=self.place)
            if name in seen:
                raise CorruptError(f"{self.place!r}: {what} is {name!r} twice", file=self.place)
            seen.add(name)
        return names

    def _sample(self, name: str) -> dict[str, Any]:
        rows = self._records.joined(self._place[name])
        return {each.name: each.get(rows) for each in self._fields}


def _plain(getter: Getter) -> Callable[[Rows], Any]:
    def get(rows: Rows) -> Any:
        value = getter(rows)
        return value.tolist() if hasattr(value, "tolist") else value

    return get


def _labels(getter: Getter, classes: Classes, field: Field) -> Callable[[Rows], Any]:
    import numpy as np

    def get(rows: Rows) -> Any:
        value = getter.raw(rows)
        try:
            if not field.is_array:
                return classes.number(value)
            return np.array([classes.number(each) for each in _values.listed(value)], np.int64)
        except ValueError as error:
            row = None if getter.column.root is None else rows[getter.column.root]
            raise getter.fault(row, str(error)) from None

    return get


def pack_croissant(
    path: str, destination: str, record_set: str | None, split: str | None, storing: Storing, *, num_workers: int | None, **how: Any
) -> PackReport:
    """Packs one record set of croissant.json."""
    found = Croissant(path, record_set, split, storing)
    return packing.run(found, destination, found.schema, n_threads=packing.threads(num_workers), **how)
