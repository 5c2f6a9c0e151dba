"""Converts ``Loader(ragged=...)``, the way in which rows of different shapes are collated, to options of the C library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..base import options as _options
from ..data.dataset import Dataset, Field
from ..errors import ArgumentError

_KINDS = ("list", "padded", "offsets")
SUFFIXES = ("_counts", "_sizes", "_offsets", "_shapes")
_SIGNED = ("int8", "int16", "int32", "int64")


def named(given: Mapping[str, Any]) -> Iterable[str]:
    """Returns the names of the fields that the arguments about ragged rows mention."""
    values = [given[name] for name in ("ragged", "pad_value", "pad_multiple")]
    return [field for value in values if isinstance(value, Mapping) for field in value]


def _kind(given: Mapping[str, Any], field: Field) -> str:
    """Returns the way in which a field is collated. A way given for all fields applies to the fields for which it is possible."""
    value = given["ragged"]
    if value is None:
        return "list"
    if isinstance(value, Mapping):
        return _KINDS[_options.choice(f"ragged[{field.name!r}]", value.get(field.name, "list"), _KINDS)]
    kind = _KINDS[_options.choice("ragged", value, _KINDS)]
    possible = field.type in ("boxes", "keypoints", "array", "image", "mask", "audio")
    return kind if possible and field.name not in given["encoded"] else "list"


def options_of(given: Mapping[str, Any], field: Field) -> dict[str, Any]:
    """Returns the options of a field for the C library."""
    kind = _kind(given, field)
    values, multiples = given["pad_value"], given["pad_multiple"]
    options: dict[str, Any] = {}
    if kind != "list":
        options["ragged"] = _KINDS.index(kind)
    if isinstance(values, Mapping) and field.name in values:
        options["pad_value"] = float(values[field.name])
    elif kind == "padded" and values is not None and not isinstance(values, Mapping):
        options["pad_value"] = float(values)
    elif kind == "padded" and field.type == "array" and field.dtype in _SIGNED:
        options["pad_value"] = -1.0
    pixels = field.type in ("image", "mask")
    if isinstance(multiples, Mapping):
        if field.name in multiples:
            options["pad_multiple"] = _options.count("Padded.multiple", multiples[field.name], 1, 1 << 16)
    elif kind == "padded" and pixels:
        options["pad_multiple"] = _options.count("Padded.multiple", multiples, 1, 1 << 16)
    return options


def check_names(given: Mapping[str, Any], dataset: Dataset) -> None:
    """Raises an error if a field has a name that the batch needs for the lengths of another field."""
    wanted = given["fields"]
    known = {name: field for name, field in dataset.fields.items() if wanted is None or name in wanted}
    for field in known.values():
        kind = _kind(given, field)
        for suffix in SUFFIXES if kind != "list" else ():
            if field.name + suffix in known:
                raise ArgumentError(
                    f"ragged: field {field.name!r} needs the name {field.name + suffix!r}, which is another field's: "
                    'leave one out ("fields"), or give ragged per field'
                )
    if given["ragged"] is None and (given["pad_value"] is not None or given["pad_multiple"] != 1):
        raise ArgumentError('Padded.value and Padded.multiple are for ragged="padded"')
