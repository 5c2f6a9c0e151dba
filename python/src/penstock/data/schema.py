"""The types of fields: which values a field takes, and which bytes the writer stores for them."""

from __future__ import annotations

import json
import numbers
import os
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _native
from ..base import files, options
from ..base.public import public
from ..errors import (
    ArgumentError,
    ChecksumError,
    CorruptError,
    InternalError,
    LimitError,
    PenstockError,
    TruncatedError,
    UnsupportedError,
)
from . import image

__all__ = [
    "Array",
    "Audio",
    "Boxes",
    "Bytes",
    "FieldSpec",
    "Float",
    "Image",
    "Int",
    "Json",
    "Keypoints",
    "Mask",
    "Text",
]

_RAW, _PLI = _native.form_number("raw"), _native.form_number("pli")


class _Required:
    """The type of REQUIRED, the value of ``missing`` for a field that every sample must have."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class _Value(NamedTuple):
    """The bytes of one variant, with the members of ``struct pst_value``."""

    buffer: Any
    form: int = 0
    height: int = 0
    width: int = 0
    channels: int = 0
    bits: int = 0
    shape: tuple[int, ...] | None = None
    was_pli: bool = False


def _is_bytes(value: Any) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview))


class FieldSpec:
    """A field of the schema; use the subclasses.

    Args:
        missing: the value for samples that leave the field out or have None for it. Without ``missing``, every sample must have the
            field. The value is stored like any other, so every reader of the data set sees it.
    """

    type = ""
    missing: Any = REQUIRED

    def __init__(self, *, missing: Any = REQUIRED) -> None:
        if missing is not REQUIRED:
            self.missing = missing
            self.absent(None)  # raises an error if the field does not take the value

    def absent(self, size: tuple[int, int] | None) -> list[_Value | None]:
        """Returns the stored values for a sample that leaves the field out, like :meth:`values`. ``size``: height and width of the
        sample's image, if it has one."""
        return self.values(self.missing)

    def describe(self) -> dict[str, Any]:
        """Returns the members of ``struct pst_field``, without the name."""
        return {"type": _native.field_type_number(self.type), "n_variants": 1}

    def variants(self, value: Any, kept: list[PenstockError]) -> list[_Value | None]:
        """Returns the same as :meth:`values`, and adds to ``kept`` the reason if a JPEG cannot become smaller."""
        return self.values(value)

    def values(self, value: Any) -> list[_Value | None]:
        """Returns the stored value of each variant."""
        raise NotImplementedError

    def _fail(self, value: Any, wanted: str) -> ArgumentError:
        return ArgumentError(f"{type(self).__name__}: {wanted}, not {type(value).__name__}")

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({parts})"


class Image(FieldSpec):
    """An image. Penstock never re-encodes it with loss, unless ``max_error`` allows it.

    Values: encoded bytes; a path (str or os.PathLike) of an encoded file; a uint8 or uint16 array
    (H, W) or (H, W, C).

    Args:
        form: "original": encoded bytes are stored as they are, arrays as raw pixels. "pli": arrays and PNG are encoded as PLI;
            bytes that are PLI are stored as they are. "jpeg", "png", "webp": the encoded bytes must have that form. "pli-jpeg":
            JPEGs become smaller, with the same pixels, and the file can be restored (see penstock.pli.from_jpeg). JPEGs that cannot
            be converted, or would not become smaller, stay JPEG, and :attr:`Writer.kept_jpeg` has the reasons. Other bytes are
            stored as they are. "raw": pixels, decoded at writing if needed (lossless). A list stores the image in several forms
            (variants), the preferred one first.
        tier, effort, max_error: for the form "pli", as for :func:`penstock.pli.encode`. Values that are PLI already stay as they
            are.
        missing: as for every field: the image for samples that have none, such as ``np.zeros((8, 8, 3), np.uint8)``.
    """

    type = "image"

    def __init__(
        self,
        form: str | Sequence[str] = "original",
        *,
        tier: str = "small",
        effort: int = 3,
        max_error: int = 0,
        missing: Any = REQUIRED,
    ) -> None:
        self.form = (form,) if isinstance(form, str) else tuple(form)
        known = ("original", *image.FORMS)
        for name in self.form:
            if name not in known:
                raise ArgumentError(f"form is one of {', '.join(known)}, not {name!r}")
        if not 1 <= len(self.form) <= 8 or len(set(self.form)) != len(self.form):
            raise ArgumentError(f"an image has 1 to 8 different forms, not {self.form}")
        self._tier = options.choice("tier", tier, options.TIERS) + 1
        self._effort = options.count("effort", effort, 1, 5)
        self._max_error = options.count("max_error", max_error, 0, 127)
        if "pli" not in self.form and (tier, effort, max_error) != ("small", 3, 0):
            raise ArgumentError('tier, effort and max_error go with the form "pli"')
        super().__init__(missing=missing)

    def __repr__(self) -> str:
        form = self.form[0] if len(self.form) == 1 else self.form
        parts = [f"form={form!r}"]
        if (self._tier, self._effort, self._max_error) != (2, 3, 0):
            tier = options.TIERS[self._tier - 1]
            parts.append(f"tier={tier!r}, effort={self._effort}, max_error={self._max_error}")
        parts.extend(f"{name}={value!r}" for name, value in sorted(vars(self).items()) if name in ("made_for", "missing"))
        return f"{type(self).__name__}({', '.join(parts)})"

    def describe(self) -> dict[str, Any]:
        return {"type": _native.field_type_number(self.type), "n_variants": len(self.form)}

    def values(self, value: Any) -> list[_Value | None]:
        return self.variants(value, [])

    def variants(self, value: Any, kept: list[PenstockError]) -> list[_Value | None]:
        if isinstance(value, (str, os.PathLike)):
            value = files.read_file(os.fsdecode(value), self.type)
        if _is_bytes(value):
            return [self._from_bytes(value, form, kept) for form in self.form]
        return [self._from_array(value, form) for form in self.form]

    def _from_bytes(self, data: Any, form: str, kept: list[PenstockError]) -> _Value:
        if form == "raw":
            indices = self.type == "mask"
            return self._from_array(image.decode(data, palette_indices=indices), form)
        found = image.probe(data).form
        was_pli = found in ("pli", "pli-jpeg")
        if form == "pli-jpeg":
            if found == "jpeg":
                data, found = self._smaller(data, kept)
        elif form == "pli" and found == "png":
            return self._from_array(image.decode(data, palette_indices=self.type == "mask"), form)
        elif form not in ("original", found):
            hint = "; encode(decode(bytes)) of penstock.pli and penstock makes them so" if form == "pli" else ""
            raise ArgumentError(f"{type(self).__name__}: the bytes are {found}, the schema says {form}{hint}")
        return _Value(data, _native.form_number(found), was_pli=was_pli)

    @staticmethod
    def _smaller(jpeg: Any, kept: list[PenstockError]) -> tuple[Any, str]:
        try:
            return _native.pli_from_jpeg(jpeg, 0, True, True), "pli-jpeg"
        except (UnsupportedError, LimitError, CorruptError, TruncatedError, ChecksumError, InternalError) as error:
            kept.append(error)
            return jpeg, "jpeg"

    def _from_array(self, value: Any, form: str) -> _Value:
        import numpy as np

        if type(value).__module__.partition(".")[0] == "PIL":
            raise ArgumentError(
                f"{type(self).__name__}: a PIL image has lost its file's bytes; give those bytes (or "
                "the path), or numpy.asarray(image) to store raw pixels"
            )
        pixels = np.asarray(value)
        is_known = pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2
        if not is_known or pixels.ndim not in (2, 3):
            raise self._fail(
                value,
                "encoded bytes, a path, or a uint8 or uint16 array (H, W) or (H, W, C), "
                f"{pixels.dtype} {pixels.shape} came",
            )
        if form not in ("original", "raw", "pli", "pli-jpeg"):
            raise ArgumentError(f"{type(self).__name__}: an array cannot be stored as {form}")
        if pixels.ndim == 2:
            pixels = pixels[:, :, np.newaxis]
        height, width, channels = pixels.shape
        limit = 1 if self.type == "mask" else 4
        if not 1 <= channels <= limit:
            raise ArgumentError(
                f"{type(self).__name__}: {channels} channels, 1 to {limit} are possible"
            )
        if form == "pli":
            native = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("="))
            return _Value(_native.pli_encode(native, self._tier, self._effort, self._max_error, True, 1), _PLI)
        little = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
        bits = 8 * little.itemsize
        return _Value(little.reshape(-1).view(np.uint8), _RAW, height, width, channels, bits)


class Mask(Image):
    """A mask of labels or of instance numbers: one channel of uint8 or uint16, never interpolated.

    Values as for :class:`Image`. For a palette image, the indices count as labels. A mask has the same size as an image of its
    sample.

    Args:
        form, tier, effort: as for :class:`Image`. With "pli", arrays and PNG (of a palette, the indices) are encoded losslessly.
        made_for: the picture that the mask was made for, if its image has an EXIF orientation: "upright", with the orientation
            applied, or "stored", without. None: not stated; a sample with an orientation is then an error, unless the mask's size
            shows which one it is.
        missing: a label, often 255, which losses ignore. A sample without the mask gets a mask that has this label everywhere, of
            the size of its first image. The mask has 8 bits if the label fits, else 16, or the bits of a numpy integer such as
            ``np.uint16(0)``.
    """

    type = "mask"

    def __init__(
        self,
        form: str | Sequence[str] = "original",
        made_for: str | None = None,
        *,
        tier: str = "small",
        effort: int = 3,
        missing: Any = REQUIRED,
    ) -> None:
        self.made_for = made_for
        options.made_for(made_for)
        super().__init__(form, tier=tier, effort=effort, missing=missing)

    def absent(self, size: tuple[int, int] | None) -> list[_Value | None]:
        import numpy as np

        if not isinstance(self.missing, (int, np.integer)) or not 0 <= int(self.missing) <= 65535:
            raise ArgumentError(f"Mask: missing is a label, 0 to 65535, not {self.missing!r}")
        if not set(self.form) <= {"original", "raw", "pli", "pli-jpeg"}:
            raise ArgumentError(f"Mask: missing goes with the forms original, raw and pli, not {self.form}")
        own = getattr(self.missing, "dtype", None)
        dtype = own if own in (np.uint8, np.uint16) else np.uint8 if int(self.missing) < 256 else np.uint16
        pixels = np.full(size or (1, 1), int(self.missing), dtype)
        # As PLI, a mask with a single label takes some hundred bytes, whatever its size.
        return [self._from_array(pixels, "raw" if form == "raw" else "pli") for form in self.form]

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "made_for": options.made_for(self.made_for)}


class _Points(FieldSpec):
    columns = 0

    def __init__(self, made_for: str | None = None, *, missing: Any = REQUIRED) -> None:
        self.made_for = made_for
        options.made_for(made_for)
        super().__init__(missing=missing)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "made_for": options.made_for(self.made_for)}

    def values(self, value: Any) -> list[_Value | None]:
        import numpy as np

        points = np.ascontiguousarray(value, "<f4")
        if points.size == 0:
            points = points.reshape(0, self.columns)
        if points.ndim != 2 or points.shape[1] != self.columns:
            raise ArgumentError(
                f"{type(self).__name__}: shape (n, {self.columns}) is wanted, not {points.shape}"
            )
        return [_Value(points.reshape(-1).view(np.uint8))]


class Boxes(_Points):
    """Boxes: float32 (n, 4), x0, y0, x1, y1 in pixels; n may differ from sample to sample.

    Each box must be finite, have an area (x0 < x1 and y0 < y1) and overlap the image; otherwise the sample is refused. ``made_for``
    is as for :class:`Mask`. ``missing=()`` allows samples without boxes.
    """

    type = "boxes"
    columns = 4


def _other_side(name: str) -> str:
    """Swaps left and right in a name. Returns a name with neither unchanged."""
    other = {"left": "right", "right": "left", "Left": "Right", "Right": "Left", "LEFT": "RIGHT", "RIGHT": "LEFT"}
    return re.sub("|".join(other), lambda found: other[found[0]], name)


def _pairs_of_names(names: Sequence[str]) -> tuple[tuple[int, int], ...] | None:
    """Returns the pairs of points whose names differ only in left and right, or None if there are no such pairs."""
    place = {name: i for i, name in enumerate(names)}
    others = [(i, place.get(_other_side(name), i)) for name, i in place.items()]
    return tuple((i, other) for i, other in others if i < other) or None


def pairs_of_flip_idx(flipped: Sequence[int], n_points: int) -> list[tuple[int, int]]:
    """Converts YOLO's flip_idx to pairs. flip_idx gives for each point the index of the point that takes its place. Raises
    ValueError."""
    if sorted(flipped) != list(range(n_points)):
        raise ValueError(f"flip_idx has each number of 0 to {n_points - 1} once: the point that comes to stand there")
    for i, other in enumerate(flipped):
        if flipped[other] != i:
            raise ValueError(f"flip_idx: {i} becomes {other}, which becomes {flipped[other]}: points are swapped in pairs")
    return [(i, other) for i, other in enumerate(flipped) if i < other]


class Keypoints(_Points):
    """Keypoints: float32 (n, 3), x and y in pixels, and visibility; finite; n may differ from sample to sample.

    Args:
        made_for: as for :class:`Mask`.
        points: the points of one instance (17 for a person in COCO): their names, or their number, at most 4096. A sample has any
            number of instances, one after another. None: a sample has one instance.
        pairs: the pairs of left and right points, ``[("left_eye", "right_eye"), ...]`` or ``[(1, 2), ...]``, by name or number; or
            YOLO's ``flip_idx``, ``[0, 2, 1]``, a number for each point of an instance. Where operations mirror the picture, the
            loader swaps the points of each pair, also invisible ones, after it has moved them. (A horizontal or a vertical flip
            mirrors; both together are a rotation.) ``[]``: no point is left or right. None: the pairs of ``points`` whose names
            differ only in left and right, such as ``left_eye`` and ``right_eye``. If there are none, the pairs are not stated, and
            a loader that flips warns.
        missing: ``()`` allows samples without keypoints.
    """

    type = "keypoints"
    columns = 3

    def __init__(
        self,
        made_for: str | None = None,
        *,
        points: int | Sequence[str] | None = None,
        pairs: Sequence[Sequence[int | str]] | Sequence[int] | None = None,
        missing: Any = REQUIRED,
    ) -> None:
        self.names, self.n_points = _classes_of("Keypoints", points)
        if self.n_points > 4096:
            raise ArgumentError(f"Keypoints: an instance has at most 4096 points, not {self.n_points}")
        found = _pairs_of_names(self.names) if self.names is not None else None
        self.pairs = found if pairs is None else self._numbered(pairs)
        super().__init__(made_for, missing=missing)

    def _flipped(self, flipped: Sequence[int]) -> tuple[tuple[int, int], ...]:
        self.n_points = self.n_points or len(flipped)
        try:
            return tuple(pairs_of_flip_idx(flipped, self.n_points))
        except ValueError as error:
            raise ArgumentError(f"Keypoints: {error}") from None

    def _numbered(self, given: Sequence[Sequence[int | str]] | Sequence[int]) -> tuple[tuple[int, int], ...]:
        pairs: list[Any] = list(given)
        if pairs and all(isinstance(point, numbers.Integral) for point in pairs):
            return self._flipped([int(point) for point in pairs])
        places = {name: i for i, name in enumerate(self.names or ())}
        end = self.n_points or 4096
        numbered, seen = [], set()
        for pair in pairs:
            if isinstance(pair, (str, numbers.Integral)) or len(pair) != 2:
                raise ArgumentError(f"Keypoints: pairs is a list of (left, right), and {pair!r} is none")
            both = [places.get(point, -1) if isinstance(point, str) else int(point) for point in pair]
            for point, number in zip(pair, both, strict=True):
                if not 0 <= number < end:
                    raise ArgumentError(f"Keypoints: pairs: {point!r} is none of the points of an instance (points)")
                if number in seen:
                    raise ArgumentError(f"Keypoints: pairs: point {point!r} is in two pairs, or twice in one")
                seen.add(number)
            numbered.append((both[0], both[1]))
        return tuple(numbered)

    def __repr__(self) -> str:
        points = self.names if self.names is not None else self.n_points or None
        missing = "" if self.missing is REQUIRED else f", missing={self.missing!r}"
        pairs = self.pairs if self.pairs is None else list(self.pairs)
        return f"Keypoints(made_for={self.made_for!r}, points={points!r}, pairs={pairs!r}{missing})"

    def pair_bytes(self) -> bytes:
        """Returns the pairs as bytes for the C library, uint32 (n, 2)."""
        numbers = [number for pair in self.pairs or () for number in pair]
        return struct.pack(f"={len(numbers)}I", *numbers)

    def describe(self) -> dict[str, Any]:
        stated = 0 if self.pairs is None else 1 + len(self.pairs)
        return {**super().describe(), "n_classes": self.n_points, "n_pairs_plus_1": stated}


def _classes_of(field: str, classes: int | Sequence[str] | None) -> tuple[list[str] | None, int]:
    """Returns the names of the classes, None if they have no names, and their number, 0 if there are no classes."""
    if isinstance(classes, Sequence) and not isinstance(classes, str):
        names = [str(name) for name in classes]
        if len(set(names)) != len(names):
            raise ArgumentError(f"{field}: two classes have the same name")
        return names, len(names)
    return None, 0 if classes is None else options.count("classes", classes, 1, 2**63 - 1)


class Int(FieldSpec):
    """One int64.

    Args:
        classes: labels are 0 to n-1. Give the number n, or the names; with names, values may be names, too.
        missing: as for every field: a label if there are ``classes``, else any number, such as -1.
    """

    type = "int"

    def __init__(self, classes: int | Sequence[str] | None = None, *, missing: Any = REQUIRED) -> None:
        self.names, self.n_classes = _classes_of("Int", classes)
        self._numbers = {name: i for i, name in enumerate(self.names or ())}
        super().__init__(missing=missing)

    def __repr__(self) -> str:
        classes = self.names if self.names is not None else self.n_classes or None
        missing = "" if self.missing is REQUIRED else f", missing={self.missing!r}"
        return f"Int(classes={classes!r}{missing})"

    def more(self, names: Sequence[str]) -> Int:
        """Returns this field with more classes appended."""
        return Int([*(self.names or ()), *names], missing=self.missing)

    def absent(self, size: tuple[int, int] | None) -> list[_Value | None]:
        if self.n_classes and not isinstance(self.missing, str) and not 0 <= int(self.missing) < self.n_classes:
            raise ArgumentError(f"Int: missing is a label, 0 to {self.n_classes - 1}, not {self.missing!r}")
        return self.values(self.missing)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "n_classes": self.n_classes}

    def values(self, value: Any) -> list[_Value | None]:
        if isinstance(value, str):
            if value not in self._numbers:
                raise ArgumentError(f"Int: {value!r} is none of the {self.n_classes} class names")
            value = self._numbers[value]
        if not hasattr(value, "__index__"):
            raise self._fail(value, "a whole number is wanted")
        number = int(value.__index__())
        if not -(2**63) <= number < 2**63:
            raise ArgumentError(f"Int: {number} does not fit in 64 bits")
        return [_Value(struct.pack("=q", number))]


class Float(FieldSpec):
    """One float64, delivered as float32. ``missing=float("nan")`` marks samples that have none."""

    type = "float"

    def values(self, value: Any) -> list[_Value | None]:
        return [_Value(struct.pack("=d", float(value)))]


class Bytes(FieldSpec):
    """Bytes of any content and length."""

    type = "bytes"

    def values(self, value: Any) -> list[_Value | None]:
        if not _is_bytes(value):
            raise self._fail(value, "bytes are wanted")
        return [_Value(value)]


class Audio(FieldSpec):
    """An audio file, stored as it is. Values are its bytes, or its path. A loader delivers its sound (docs/audio.md)."""

    type = "audio"

    def values(self, value: Any) -> list[_Value | None]:
        if isinstance(value, (str, os.PathLike)):
            value = files.read_file(os.fsdecode(value), self.type)
        if not _is_bytes(value):
            raise self._fail(value, "the file's bytes or its path are wanted")
        return [_Value(value)]


class Text(FieldSpec):
    """A text (str)."""

    type = "text"

    def values(self, value: Any) -> list[_Value | None]:
        if not isinstance(value, str):
            raise self._fail(value, "a str is wanted")
        return [_Value(value.encode())]


class Json(FieldSpec):
    """Any value that ``json.dumps`` accepts. With ``missing=None``, a sample without a value stores no bytes, and is read as
    None."""

    type = "json"

    def absent(self, size: tuple[int, int] | None) -> list[_Value | None]:
        return [_Value(b"")] if self.missing is None else self.values(self.missing)

    def values(self, value: Any) -> list[_Value | None]:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Json: {error}") from None
        return [_Value(text.encode())]


class Array(FieldSpec):
    """An n-d array.

    Args:
        dtype: dtype of the elements: a name, or a dtype of numpy or torch. Values are not converted.
        shape: the shape of all samples, or None if shapes differ (up to 8 axes).
        classes: for arrays of whole numbers that are labels, such as the labels of boxes: labels are 0 to n-1. Give the number n,
            or the names, which :meth:`Dataset.class_names` then returns.
        missing: as for every field: an array of that dtype, or a list, which is converted.
    """

    type = "array"

    def __init__(
        self,
        dtype: Any = "float32",
        shape: Sequence[int] | None = None,
        *,
        classes: int | Sequence[str] | None = None,
        missing: Any = REQUIRED,
    ) -> None:
        self.names, self.n_classes = _classes_of("Array", classes)
        self._number = options.dtype_number(dtype)
        self.dtype = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype)
        self.dtype = self.dtype.rpartition(".")[2]
        self.shape = None if shape is None else tuple(int(side) for side in shape)
        if self.shape is not None and not (
            1 <= len(self.shape) <= 8 and all(0 < side < 2**32 for side in self.shape)
        ):
            raise ArgumentError(f"Array: shape has 1 to 8 sides above 0, not {self.shape}")
        if self.n_classes and "int" not in self.dtype:
            raise ArgumentError(f"Array: labels of classes are whole numbers, not {self.dtype}")
        super().__init__(missing=missing)

    def __repr__(self) -> str:
        missing = "" if self.missing is REQUIRED else f", missing={self.missing!r}"
        classes = self.names if self.names is not None else self.n_classes
        shown = f", classes={classes!r}" if classes else ""
        return f"Array(dtype={self.dtype!r}, shape={self.shape!r}{shown}{missing})"

    def more(self, names: Sequence[str]) -> Array:
        """Returns this field with more classes appended."""
        return Array(self.dtype, self.shape, classes=[*(self.names or ()), *names], missing=self.missing)

    def absent(self, size: tuple[int, int] | None) -> list[_Value | None]:
        if isinstance(self.missing, (list, tuple)) and self.dtype != "bfloat16":
            import numpy as np

            return self.values(np.array(self.missing, self.dtype))
        return self.values(self.missing)

    def describe(self) -> dict[str, Any]:
        shape = self.shape or ()
        return {
            **super().describe(),
            "dtype": self._number,
            "ndim": len(shape),
            "shape": list(shape),
            "n_classes": self.n_classes,
        }

    def values(self, value: Any) -> list[_Value | None]:
        import numpy as np

        if self.dtype == "bfloat16":  # numpy has no bfloat16, so the bits of a torch tensor are stored
            if str(getattr(value, "dtype", "")) != "torch.bfloat16":
                raise self._fail(value, "a torch.bfloat16 tensor is wanted")
            import torch

            array = value.detach().cpu().contiguous().view(torch.int16).numpy()
        else:
            array = np.asarray(value)
            if array.dtype.newbyteorder("=") != np.dtype(self.dtype):
                raise ArgumentError(f"Array: {self.dtype} is wanted, not {array.dtype.name}")
        if self.shape is not None and array.shape != self.shape:
            raise ArgumentError(f"Array: shape {self.shape} is wanted, not {array.shape}")
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        shape = tuple(int(side) for side in array.shape)
        return [_Value(little.reshape(-1).view(np.uint8), shape=shape)]


_SHORTHANDS: dict[str, Callable[[], FieldSpec]] = {
    "image": Image,
    "jpeg": lambda: Image("jpeg"),
    "png": lambda: Image("png"),
    "webp": lambda: Image("webp"),
    "pli": lambda: Image("pli"),
    "pli-jpeg": lambda: Image("pli-jpeg"),
    "raw": lambda: Image("raw"),
    "mask": Mask,
    "boxes": Boxes,
    "keypoints": Keypoints,
    "audio": Audio,
    "int": Int,
    "float": Float,
    "bytes": Bytes,
    "text": Text,
    "json": Json,
    "array": Array,
}


def spec(name: str, given: Any) -> FieldSpec:
    if isinstance(given, FieldSpec):
        return given
    if isinstance(given, type) and issubclass(given, FieldSpec):
        return given()
    if isinstance(given, str) and given in _SHORTHANDS:
        return _SHORTHANDS[given]()
    raise ArgumentError(
        f"schema[{name!r}] is a field such as penstock.Image(), or one of "
        f"{', '.join(_SHORTHANDS)}, not {given!r}"
    )


def spec_on_disk(field: dict[str, Any], classes: Sequence[str] | None) -> FieldSpec:
    """Returns the spec of a field of an existing data set that is continued without a schema. ``classes``: the names, if known."""
    if field["type"] == "int":
        return Int(classes or field["n_classes"] or None)
    if field["type"] == "array":
        return Array(field["dtype"], field["shape"] or None, classes=classes or field["n_classes"] or None)
    if field["type"] in ("image", "mask") and field["n_variants"] > 1:
        raise ArgumentError(
            f"field {field['name']!r} has {field['n_variants']} variants: give schema= to say which "
            "forms they are"
        )
    made_for = options.MADE_FOR[field["made_for"]] or None
    if field["type"] == "mask":
        return Mask(made_for=made_for)
    if field["type"] == "boxes":
        return Boxes(made_for)
    if field["type"] == "keypoints":
        return Keypoints(made_for)
    return _SHORTHANDS[field["type"]]()


public(__name__, "penstock.writer")
