"""Derives the fields of the user's own data set from its first sample or a schema, and converts values to these fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.files import read_file
from ...errors import ArgumentError, PenstockError, in_field, in_sample
from .. import image, packing
from ..schema import Array, Audio, Boxes, Bytes, FieldSpec, Float, Image, Int, Json, Keypoints, Mask, Text
from ..writer import Writer
from .items import File, Parts, Picture, Tensor

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
_PICTURES = ("image", "mask")
_SOUNDS = (b"fLaC", b"RIFF....WAVE", b"FORM....AIF", b"OggS", b"ID3")


def named(sample: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Returns the values of a sample by field name. `names`: the fields of the schema, or of the first sample."""
    if isinstance(sample, Mapping):
        return dict(sample)
    values = sample.values if isinstance(sample, Parts) else [sample]
    if len(values) == 2 and isinstance(values[1], Mapping):
        if isinstance(values[0], Mapping) or "image" in values[1]:
            raise ArgumentError("a pair of two dicts, or one whose dict has an image of its own, names no fields: give one dict")
        return {"image": values[0], **values[1]}
    if names is None:
        if len(values) > 2 or not values:
            raise ArgumentError(
                f"a tuple of {len(values)} values names no fields: give dicts, pairs (image, label), or a schema of as many"
            )
        names = ["image", "mask" if len(values) == 2 and _is_map(values[1]) else "label"][: len(values)]
    if len(values) != len(names):
        raise ArgumentError(f"{len(values)} values came, the fields are {', '.join(names)}")
    return dict(zip(names, values, strict=True))


def _is_map(value: Any) -> bool:
    """Whether the second value of a pair (image, value) is a mask, with a label for each pixel."""
    if isinstance(value, Picture):
        return True
    return getattr(_array_of(value), "ndim", 0) >= 2


def _array_of(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value.pixels if isinstance(value, Picture) else value


def schema_of(
    sample: Mapping[str, Any], classes: Any, picture: Callable[[], Image], mask: Callable[[], Mask]
) -> dict[str, FieldSpec]:
    """Derives the fields from the values of a sample. `classes`: class names of `label`, if it is a list of texts."""
    found: dict[str, FieldSpec] = {}
    for name, value in sample.items():
        if not _NAME.fullmatch(name):
            raise ArgumentError(f"field {name!r}: names are of letters, digits, '_', '.' and '-', at most 63")
        try:
            found[name] = _spec_of(name, value, picture, mask)
        except ArgumentError as error:
            raise ArgumentError(f"field {name!r}: {error}") from None
    is_list = isinstance(classes, (list, tuple)) and classes and all(isinstance(each, str) for each in classes)
    if is_list and len(set(classes)) == len(classes) and isinstance(found.get("label"), (Int, Text)):
        found["label"] = Int(classes)
    return found


def _spec_of(name: str, value: Any, picture: Callable[[], Image], mask: Callable[[], Mask]) -> FieldSpec:
    array = _array_of(value)
    if value is None:
        raise ArgumentError("the first sample has None: say by a schema what the field is, and what it is where it is missing")
    if name in _PICTURES and isinstance(value, (str, bytes, File, Picture)) or isinstance(value, Picture):
        return mask() if name == "mask" else picture()
    if name == "mask" or (name == "image" and isinstance(array, _ndarray())):
        return mask() if name == "mask" else picture()
    if name == "audio" and isinstance(value, (str, bytes, File)):
        return Audio()
    if isinstance(value, (bytes, File)):
        return _spec_of_bytes(value, picture)
    if isinstance(value, int):
        return Int()
    if isinstance(value, float):
        return Float()
    if isinstance(value, str):
        return Text()
    if name in ("boxes", "keypoints"):
        return Boxes() if name == "boxes" else Keypoints()
    dtype = getattr(array, "dtype", None)
    return Json() if dtype is None else Array(dtype)


def _ndarray() -> type:
    import numpy as np

    return np.ndarray


def _spec_of_bytes(value: bytes | File, picture: Callable[[], Image]) -> FieldSpec:
    data = _bytes_of(value, "file")
    if any(re.match(first, data, re.DOTALL) for first in _SOUNDS):
        return Audio()
    try:
        image.probe(data)
    except PenstockError:
        return Bytes()
    return picture()


def _bytes_of(value: Any, what: str) -> bytes:
    return read_file(value.path, what) if isinstance(value, File) else bytes(value)


def fitted(spec: FieldSpec, value: Any) -> Any:
    """Converts a value to the form that the field takes. Most invalid values pass and are refused by the field later."""
    if value is None:
        return None
    if isinstance(spec, Image):
        return _image(value, spec.type == "mask")
    if isinstance(value, File):
        return _bytes_of(value, spec.type)
    if isinstance(value, Picture):
        raise ArgumentError(f"an image is no value of {type(spec).__name__}")
    if isinstance(spec, Float) and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise ArgumentError(f"Float: a number is wanted, not {type(_array_of(value)).__name__}")
    if isinstance(spec, Audio) and isinstance(value, str):
        return read_file(value, "audio")
    return _array_of(value)


def _image(value: Any, is_mask: bool) -> Any:
    """Converts an image to encoded bytes, or to an array (H, W) or (H, W, C)."""
    import numpy as np

    what = "mask" if is_mask else "image"
    if isinstance(value, str):
        value = File(value)
    if isinstance(value, (bytes, File)):
        return _bytes_of(value, what)
    array = _array_of(value)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"bytes, a path, an array, a tensor or an image of PIL is wanted, not {type(array).__name__}")
    if isinstance(value, Picture) and value.palette is not None and not is_mask:
        if array.max(initial=0) >= len(value.palette):
            raise ArgumentError(f"a pixel has the number {array.max()}, and the palette has {len(value.palette)} colours")
        array = value.palette[array]
    if isinstance(value, Tensor) and array.ndim == 3:
        if array.shape[0] > 4:
            raise ArgumentError(f"images of torch are (C, H, W) with up to 4 channels, not {array.shape}: permute the tensor")
        array = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    if array.dtype.kind == "f":
        raise ArgumentError(
            f"{array.dtype} came, and pixels are whole numbers: take transforms such as ToTensor out of the data set, or store "
            "the numbers by a schema as ps.Array"
        )
    return _whole(array) if is_mask or isinstance(value, Picture) else array


def _whole(array: Any) -> Any:
    """Converts pixels to 8 or 16 bits. Integers of more bits always become 16 bits, whatever their values are, so that all samples
    have the same dtype."""
    import numpy as np

    if array.dtype == bool:
        return array.astype(np.uint8)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize <= 2):
        return array
    if array.size and not 0 <= int(array.min()) <= int(array.max()) <= 65535:
        raise ArgumentError(f"labels of pixels are 0 to 65535, and {array.min()} to {array.max()} came")
    return array.astype(np.uint16)


def stored(sample: Mapping[str, Any], schema: Mapping[str, FieldSpec]) -> tuple[dict[str, Any], int, dict[str, int]]:
    """Returns the values of a sample as the writer takes them, the bytes that the source gave, and the bytes of JPEGs by field."""
    values: dict[str, Any] = {}
    jpegs: dict[str, int] = {}
    nbytes = 0
    for name, value in sample.items():
        spec = schema.get(name)
        try:
            values[name] = value if spec is None else fitted(spec, value)
        except PenstockError as error:
            raise in_field(error, name) from None
        if isinstance(values[name], bytes):
            nbytes += len(values[name])
            if isinstance(spec, Image) and values[name].startswith(b"\xff\xd8"):
                jpegs[name] = len(values[name])
        else:
            nbytes += int(getattr(values[name], "nbytes", 8))
    return values, nbytes, jpegs


class Source:
    """A source for the packing loop (:class:`packing.Packable`) whose samples are converted by :func:`stored`."""

    schema: dict[str, FieldSpec]
    _names: Sequence[str]

    def _sample(self, name: str) -> dict[str, Any]:
        """Reads the values of a sample. Any thread may call."""
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        return self._names

    def begin(self, name: str) -> Callable[[Writer], packing.Ready]:
        return lambda writer: self._prepare(writer, name)

    def _prepare(self, writer: Writer, name: str) -> packing.Ready:
        try:
            values, nbytes, jpegs = stored(self._sample(name), self.schema)
            prepared, kept = writer._prepare(values)
        except PenstockError as error:
            raise self.located(error, name) from None
        return packing.Ready(name, prepared, kept, nbytes, jpegs)

    def located(self, error: PenstockError, name: str) -> PenstockError:
        return in_sample(error, name)

    def close(self) -> None:
        pass
