"""Converts values of Croissant's data types: chooses the field type for a data type, and converts values to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ...base.files import parse, text_of
from ..schema import Array, Audio, Boxes, FieldSpec, Float, Image, Int, Json, Mask, Text
from .files import Entry
from .metadata import Field, Metadata
from .paths import steps_of, values_at

_INTS = {"Integer": "int64", **{f"{sign}{bits}": f"{sign.lower()}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)}}
_FLOATS = {"Float": "float64", "Number": "float64", "Float16": "float16", "Float32": "float32", "Float64": "float64"}
_TEXTS = ("Text", "URL", "Date", "Time", "DateTime", "String")
_DATES = ("Date", "Time", "DateTime")
_REFUSED = ("VideoObject", "GeoShape")
BOXES = ("XYXY", "XYWH", "CENTER_XYWH")
_WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
_MOST_PATTERN = 4096


def kind_of(types: Sequence[str]) -> str | None:
    """Returns the kind of value that the types name: image, mask, audio, boxes, int, float, bool or text; None if they name
    none."""
    if "ImageObject" in types:
        return "mask" if "SegmentationMask" in types else "image"
    if "AudioObject" in types:
        return "audio"
    if "BoundingBox" in types:
        return "boxes"
    for kind, names in (("bool", ("Boolean",)), ("int", tuple(_INTS)), ("float", tuple(_FLOATS)), ("text", _TEXTS)):
        if any(each in names for each in types):
            return kind
    return None


def check_types(metadata: Metadata, field: Field) -> None:
    if refused := [each for each in field.types if each in _REFUSED]:
        raise metadata.refusal(f"{field.where}.dataType", f"{refused[0]} is not read")


def spec_of(field: Field, kind: str | None, image: Callable[[], Image], mask: Callable[[], Mask]) -> FieldSpec:
    """Returns the spec of the field that stores values of a kind."""
    if field.sub_fields:
        return Json()
    if field.is_array and kind in ("int", "float", "bool"):
        return Array(dtype_of(field))
    if field.is_array and kind in ("text", None):
        return Json()
    made: dict[str | None, Callable[[], FieldSpec]] = {
        "image": image, "mask": mask, "audio": Audio, "boxes": Boxes, "int": Int, "float": Float, "bool": Int, "text": Text,
    }  # fmt: skip
    return made[kind]()


def dtype_of(field: Field) -> str:
    """Returns the dtype of an array field."""
    names = {**_INTS, **_FLOATS, "Boolean": "uint8"}
    return next(names[each] for each in field.types if each in names)


class Transforms:
    """The transforms of a source, parsed when the metadata are read."""

    def __init__(
        self, metadata: Metadata, given: Sequence[tuple[str, str]], where: str, kind: str | None, types: Sequence[str]
    ) -> None:
        self._steps: list[Callable[[Any], Any]] = []
        self.box_format = "XYXY"
        for name, text in given:
            if name == "regex":
                self._steps.append(_regex(metadata, text, where))
            elif name == "separator":
                self._steps.append(_separator(text))
            elif name == "jsonPath":
                self._steps.append(_json_path(metadata, text, where))
            elif kind == "boxes" and text in BOXES:
                self.box_format = text
            elif not (kind == "text" and any(each in _DATES for each in types)):
                text = f"{text!r} is not read: dates keep the text of their source, and boxes are {', '.join(BOXES)}"
                raise metadata.refusal(f"{where}.format", text)

    def __call__(self, value: Any) -> Any:
        for step in self._steps:
            value = step(value)
        return value


def _separator(text: str) -> Callable[[Any], Any]:
    return lambda value: _text(value).split(text)


def _regex(metadata: Metadata, text: str, where: str) -> Callable[[Any], Any]:
    try:
        if len(text) > _MOST_PATTERN:
            raise re.error(f"more than {_MOST_PATTERN} characters")
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise metadata.fault(f"{where}.transform.regex", f"{text[:80]!r}: {error}") from None
    if not pattern.groups:
        raise metadata.fault(f"{where}.transform.regex", f"{text[:80]!r} has no group, which would be the value")

    def apply(value: Any) -> Any:
        found = pattern.match(_text(value))
        group = None if found is None else next((each for each in found.groups() if each is not None), None)
        if group is None:
            raise ValueError(f"{_text(value)[:120]!r} does not fit the regular expression {text[:120]!r}")
        return group

    return apply


def _json_path(metadata: Metadata, text: str, where: str) -> Callable[[Any], Any]:
    try:
        steps = steps_of(text)
    except ValueError as error:
        raise metadata.refusal(f"{where}.transform.jsonPath", str(error)) from None

    def apply(value: Any) -> Any:
        if isinstance(value, bytes) and steps == ["bytes"]:  # the image column of Parquet already holds the bytes
            return value
        if isinstance(value, Entry):
            value = parse(value.read(), value.shown)
        elif isinstance(value, (str, bytes)):
            value = parse(value.encode() if isinstance(value, str) else value, "value")
        values = values_at(value, steps)
        return values if None in steps else values[0]

    return apply


def _text(value: Any) -> str:
    """Converts a value to text."""
    if isinstance(value, Entry):
        return text_of(value.read(), value.shown)
    if isinstance(value, bytes):
        return text_of(value, "value")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(f"a text is expected, not {_named(value)}")


def _named(value: Any) -> str:
    return "no value" if value is None else f"a {type(value).__name__}"


def whole_of(value: Any) -> int:
    """Converts a value or its text to a whole number."""
    if isinstance(value, bytes):
        value = _text(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, (str, float)):
        raise ValueError(f"a whole number is expected, not {str(value)[:80]!r}")
    raise ValueError(_wanted("a whole number", value))


def _wanted(what: str, value: Any) -> str:
    return f"{what} is expected, not {_named(value)}"


def float_of(value: Any) -> float:
    """Converts a value or its text to a finite float."""
    if isinstance(value, bytes):
        value = _text(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(_wanted("a number", value))
    try:
        found = float(value) if not isinstance(value, str) or "_" not in value else float("nan")
    except (ValueError, OverflowError):
        found = float("nan")
    if found - found != 0:
        raise ValueError(f"a finite number is expected, not {str(value)[:80]!r}")
    return found


def _bool_of(value: Any) -> int:
    words = {"true": 1, "false": 0, "1": 1, "0": 0}
    if isinstance(value, (bool, int)) and value in (0, 1):
        return int(value)
    if isinstance(value, (str, bytes)) and _text(value).strip().lower() in words:
        return words[_text(value).strip().lower()]
    raise ValueError(f"true or false is expected, not {str(value)[:80]!r}")


_OF_ONE: dict[str | None, Callable[[Any], Any]] = {"int": whole_of, "float": float_of, "bool": _bool_of, "text": _text}


def stored(field: Field, kind: str | None, box_format: str, value: Any) -> Any:
    """Converts a value to the one that the field stores. Raises ValueError if that is not possible."""
    if value is None:
        raise ValueError("there is no value")
    if kind in ("image", "mask", "audio"):
        if isinstance(value, Entry):
            return value.read()
        if not isinstance(value, bytes):
            raise ValueError(_wanted("the bytes of a file", value))
        return value
    if kind == "boxes":
        return _boxes(value, box_format)
    if field.is_array:
        return _array(field, kind, value)
    return _OF_ONE[kind](value)


def listed(value: Any) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)) and _text(value).lstrip().startswith("["):
        value = parse(_text(value).encode(), "value")
    if not isinstance(value, list):
        raise ValueError(_wanted("a list", value))
    return value


def _array(field: Field, kind: str | None, value: Any) -> Any:
    import numpy as np

    values = listed(value)
    if kind in ("text", None):
        return values

    def each(inner: Any) -> Any:
        return list(map(each, inner)) if isinstance(inner, list) else _OF_ONE[kind](inner)

    try:
        array = np.array(each(values))
    except ValueError as error:
        raise ValueError(f"the list is no array: {error}") from None
    if array.dtype == object:
        raise ValueError("a number has more than 64 bits")
    stated = [side.strip() for side in (field.shape or "").strip("() ").split(",") if side.strip()]
    if stated and (len(stated) != array.ndim or any(a not in ("-1", str(b)) for a, b in zip(stated, array.shape, strict=True))):
        raise ValueError(f"the array has the shape {array.shape}, arrayShape is {field.shape}")
    dtype = dtype_of(field)
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    if np.dtype(dtype).kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"a number is too large for {dtype}")
    if np.dtype(dtype).kind in "iu" and array.size and (found != array).any():
        raise ValueError(f"a number is too large for {dtype}")
    return found


def _boxes(value: Any, box_format: str) -> Any:
    import numpy as np

    values = re.split(r"[\s,;]+", value.strip(" []()")) if isinstance(value, str) and value.strip() else listed(value)
    rows = values if values and isinstance(values[0], list) else [values] if values else []
    if any(not isinstance(row, list) or len(row) != 4 for row in rows):
        raise ValueError("a box has four numbers")
    boxes = np.array([[float_of(side) for side in row] for row in rows], np.float64).reshape(-1, 4)
    if box_format == "XYWH":
        boxes[:, 2:] += boxes[:, :2]
    elif box_format == "CENTER_XYWH":
        half = boxes[:, 2:] / 2
        boxes = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    with np.errstate(over="ignore"):
        found = boxes.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError("a side of a box is too large for float32")
    return found


def inferred(value: Any) -> str:
    """Returns the kind of a value, where the types do not say."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, (str, bytes)):
        return "text"
    raise ValueError(_wanted("a dataType, or a number or text", value))
