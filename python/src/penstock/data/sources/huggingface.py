"""Data sets of Hugging Face `datasets` as sources of `pack`. Features become fields; images and sounds keep the bytes of their
files.

This module loads nothing: the user's code or command has loaded the data set. A data set with its own transform (`set_transform`)
is packed like any other object, from the values that it returns, because the transform would be lost with the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ArgumentError, CorruptError, UnsupportedError
from ..schema import Array, Audio, Bytes, FieldSpec, Float, Image, Int, Json, Text
from .items import File

_FILES = ("Image", "Audio")
_ARRAYS = ("Array2D", "Array3D", "Array4D", "Array5D")
_LISTS = ("Sequence", "LargeList", "List")
_INTS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")
_VALUES: dict[str, type[FieldSpec]] = {
    **dict.fromkeys(_INTS, Int), **dict.fromkeys(_FLOATS, Float), "string": Text, "large_string": Text, "binary": Bytes,
    "large_binary": Bytes,
}  # fmt: skip
_OTHER_NAMES = {"float": "float32", "double": "float64", "half_float": "float16", "halffloat": "float16"}


def is_hub(dataset: Any) -> bool:
    """Whether an object comes from the package `datasets`."""
    return type(dataset).__module__.partition(".")[0] == "datasets"


def one_split(dataset: Any, split: str | None) -> tuple[Any, Mapping[str, Any] | None]:
    """Returns the split to pack and None. If the user wants all splits, returns None and a dict of the splits."""
    if not isinstance(dataset, Mapping):
        if split is not None:
            raise ArgumentError("split goes with a DatasetDict of datasets: the object is one split")
        return dataset, None
    names = ", ".join(dataset)
    if split is not None and split in dataset:
        return dataset[split], None
    if split == "all":
        return None, dataset
    if split is None and len(dataset) == 1:
        return next(iter(dataset.values())), None
    wanted = "split= (--split) says which one, or all" if split is None else f"there is no split {split!r}"
    raise ArgumentError(f"the data set has the splits {names}: {wanted}")


class Hub:
    """One or more splits of `datasets`. Indexing returns a row as values for the packing loop. The object is pickled for worker
    processes."""

    def __init__(self, parts: Mapping[str, Any], with_split: bool) -> None:
        self._parts = [(name, _plain(part)) for name, part in parts.items()]
        self._with_split = with_split
        features = self._parts[0][1].features
        for name, part in self._parts[1:]:
            if part.features != features:
                raise ArgumentError(f"the splits {self._parts[0][0]} and {name} have other columns or types: pack one at a time")
        if with_split and "split" in features:
            raise ArgumentError("a column is called split: pack one split at a time")
        self._readers = {name: _reader(name, feature) for name, feature in features.items()}

    def __len__(self) -> int:
        return sum(len(part) for _, part in self._parts)

    def __getitem__(self, i: int) -> dict[str, Any]:
        for name, part in self._parts:
            if i < len(part):
                row = part[i]
                values = {field: read(row[field]) for field, read in self._readers.items()}
                return {**values, "split": name} if self._with_split else values
            i -= len(part)
        raise IndexError(i)

    def schema(self, picture: Callable[[], Image]) -> dict[str, FieldSpec]:
        """Returns the fields that the features define."""
        found = {name: _spec(feature, picture) for name, feature in self._parts[0][1].features.items()}
        return {**found, "split": Text()} if self._with_split else found


def hub_of(dataset: Any, split: str | None) -> Hub | None:
    """Returns a `datasets` object as a source, or None if it has a transform and is packed from the transform's values."""
    one, several = one_split(dataset, split)
    parts = several if several is not None else {"": one}
    for part in parts.values():
        if not (hasattr(type(part), "__len__") and hasattr(part, "features")):
            raise UnsupportedError(f"a {type(part).__name__} is streamed and has no numbers: load it without streaming=True")
        if part.features is None:
            raise UnsupportedError("the data set has no features")
    if several is None and one.format.get("type") == "custom":
        return None
    return Hub(parts, several is not None)


def _plain(part: Any) -> Any:
    """Returns the data set without a format, and with undecoded images and sounds."""
    if part.format.get("type") == "custom":
        raise ArgumentError("a data set with a transform (set_transform) is packed one split at a time")
    part = part.with_format(None)
    for name, feature in part.features.items():
        if type(feature).__name__ in _FILES:
            part = part.cast_column(name, type(feature)(decode=False))
    return part


def _dtype(feature: Any) -> str:
    dtype = str(getattr(feature, "dtype", ""))
    return _OTHER_NAMES.get(dtype, dtype)


def _element(feature: Any) -> Any:
    """Returns the feature of a list's elements, or None if the feature is no list of one kind of value."""
    if isinstance(feature, list) and len(feature) == 1:
        return feature[0]
    return getattr(feature, "feature", None) if type(feature).__name__ in _LISTS else None


def _is_number(feature: Any) -> bool:
    return type(feature).__name__ in ("Value", "ClassLabel") and _dtype(feature) in (*_INTS, *_FLOATS)


def _spec(feature: Any, picture: Callable[[], Image]) -> FieldSpec:
    kind, dtype, element = type(feature).__name__, _dtype(feature), _element(feature)
    if kind == "Image":
        return picture()
    if kind == "Audio":
        return Audio()
    if kind == "ClassLabel":
        return Int(list(feature.names) or None)
    if kind in _ARRAYS:
        return Array(dtype)
    if element is not None and _is_number(element):
        names = list(element.names) if type(element).__name__ == "ClassLabel" else None
        return Array("int64" if names else _dtype(element), classes=names or None)
    return _VALUES.get(dtype, Json)() if kind == "Value" else Json()


def _reader(name: str, feature: Any) -> Callable[[Any], Any]:
    """Returns a function that converts a cell of the column to a value. The function can be pickled for a worker process."""
    kind, element = type(feature).__name__, _element(feature)
    _refuse_nested(name, feature)
    if kind in _FILES:
        return _Bytes(kind.lower())
    if kind in _ARRAYS:
        return _Numbers(_dtype(feature))
    if element is not None and _is_number(element):
        return _Numbers("int64" if type(element).__name__ == "ClassLabel" else _dtype(element))
    return _same


def _refuse_nested(name: str, feature: Any) -> None:
    """Refuses images and sounds inside lists and structs, because no field type can hold them."""
    inner = feature.values() if isinstance(feature, Mapping) else [] if (element := _element(feature)) is None else [element]
    for each in inner:
        if type(each).__name__ in _FILES:
            raise UnsupportedError(
                f"column {name!r} has images or sounds in a list or struct: make columns of them, or remove_columns({name!r})"
            )
        _refuse_nested(name, each)


def _same(value: Any) -> Any:
    return value


def _has_null(value: Any) -> bool:
    return isinstance(value, list) and any(each is None or _has_null(each) for each in value)


class _Numbers:
    def __init__(self, dtype: str) -> None:
        self._dtype = dtype

    def __call__(self, value: Any) -> Any:
        import numpy as np

        if _has_null(value):  # numpy would turn a null into NaN
            raise CorruptError("a null is in a list of numbers")
        return None if value is None else np.asarray(value, self._dtype)


class _Bytes:
    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        if value.get("bytes") is not None:
            return value["bytes"]
        if not value.get("path"):
            raise CorruptError(f"the {self._what} has neither bytes nor a path")
        return _Path(value["path"])


class _Path(File):
    """An os.PathLike with the path of a file beside the table."""

    def __fspath__(self) -> str:
        return self.path
