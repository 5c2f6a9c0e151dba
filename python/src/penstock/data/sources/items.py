"""Converts the values of the user's data set (numpy, torch, PIL) to plain values, which can be sent between processes.

Values are converted right after the data set returned a sample, in a worker or in the calling thread. So both give the same sample.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ArgumentError

# PIL modes whose pixels are stored unchanged. The channels of CMYK, YCbCr and the like could be mistaken for RGB.
_PIL_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "I;16L", "I;16B", "I;16N")
_MOST_DEEP = 32


@dataclass(frozen=True)
class File:
    """A path (os.PathLike). The bytes of its file are the value."""

    path: str


@dataclass(frozen=True)
class Tensor:
    """A tensor of torch. Images are (C, H, W)."""

    array: Any


@dataclass(frozen=True)
class Picture:
    """An image of PIL without a file: its pixels, and the palette's colours, uint8 (n, 3 or 4)."""

    pixels: Any
    palette: Any = None


@dataclass(frozen=True)
class Parts:
    """A sample that is a tuple or a list, so its values have no names."""

    values: list[Any]


def plain_sample(sample: Any) -> Any:
    """Converts a sample to a dict of plain values, to Parts, or to one plain value."""
    if hasattr(sample, "_asdict"):
        sample = sample._asdict()
    if isinstance(sample, Mapping):
        for name in sample:
            if not isinstance(name, str):
                raise ArgumentError(f"names of fields are texts, not {name!r}")
        return {name: _of_field(name, value) for name, value in sample.items()}
    if isinstance(sample, (tuple, list)):
        return Parts([_of_field(i, value) for i, value in enumerate(sample)])
    return plain(sample)


def _of_field(field: str | int, value: Any) -> Any:
    try:
        return plain(value)
    except ArgumentError as error:
        where = f"field {field!r}" if isinstance(field, str) else f"value {field}"
        raise ArgumentError(f"{where}: {error}") from None


def plain(value: Any, depth: int = 0) -> Any:
    """Converts a value to a plain one: a value of Python, bytes, array, File, Tensor or Picture, or a dict or list of these."""
    import numpy as np

    if depth > _MOST_DEEP:
        raise ArgumentError("lists and dicts are nested too deep")
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return _number(value)
    module = type(value).__module__.partition(".")[0]
    if module == "PIL" and hasattr(value, "mode"):
        return _picture(value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return _tensor(value)
    if isinstance(value, os.PathLike):
        return File(os.path.abspath(os.fsdecode(value)))
    return _of_python(value, depth)


def _of_python(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        if unnamed := [key for key in value if not isinstance(key, str)]:
            raise ArgumentError(f"keys of a dict are texts, not {unnamed[0]!r}")
        return {str(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each, depth + 1) for each in value]
    kinds: tuple[type, ...] = (bool, int, float, str, bytes)
    for kind in kinds:  # converts subclasses, such as IntEnum
        if isinstance(value, kind):
            return kind(value)
    raise ArgumentError(
        f"a {type(value).__module__}.{type(value).__qualname__} cannot be stored: give bytes, a path, an array, a tensor, an image "
        "of PIL, a number, a text, or a dict or list of these"
    )


def _number(value: Any) -> Any:
    number = value.item()
    if not isinstance(number, (bool, int, float, str, bytes)):
        raise ArgumentError(f"a number of numpy's {value.dtype} cannot be stored")
    return number


def _array(array: Any) -> Any:
    import numpy as np

    if array.dtype.kind not in "biuf" or isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(f"an array of {array.dtype} cannot be stored{' with a mask' * isinstance(array, np.ma.MaskedArray)}")
    return _number(array[()]) if array.ndim == 0 else np.asarray(array)


def _tensor(tensor: Any) -> Any:
    box = getattr(getattr(tensor, "format", None), "value", None)
    if isinstance(box, str) and box.upper() != "XYXY":
        raise ArgumentError(f"boxes in the format {box}: convert them to XYXY")
    if "bfloat16" in str(tensor.dtype):
        raise ArgumentError("a tensor of bfloat16: convert it by .float(), or write it with ps.Writer")
    try:
        array = tensor.detach().cpu().numpy()
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"a tensor that is no plain array: {error}") from None
    found = _array(array)
    return Tensor(found) if array.ndim else found


def _picture(image: Any) -> Picture:
    import numpy as np

    if image.mode not in _PIL_MODES:
        raise ArgumentError(f"an image of PIL in the mode {image.mode}: convert it, say by .convert('RGB')")
    pixels = np.asarray(image)
    if image.mode != "P":
        return Picture(pixels)
    if "transparency" in image.info:
        return Picture(pixels, np.array(image.getpalette("RGBA"), np.uint8).reshape(-1, 4))
    return Picture(pixels, np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3))
