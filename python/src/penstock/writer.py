"""Writes and verifies data sets."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from . import _image, _native, _options
from .dataset import mask_columns
from .errors import (
    ArgumentError,
    ChecksumError,
    CorruptError,
    InternalError,
    LimitError,
    PenstockError,
    TruncatedError,
    UnsupportedError,
)

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
    "PackReport",
    "Text",
    "VerifyReport",
    "Writer",
    "pack",
    "verify",
]

Path = Union[str, os.PathLike[str]]
Progress = Callable[[int, int, int, int], object]
BadSample = Callable[[str, dict[str, Any]], object]

_CREATE, _RESUME, _APPEND = 0, 1, 2
_KEPT_LISTED = 1000
_RAW = _native.form_number("raw")


class _Value(NamedTuple):
    """Bytes of one variant, with the members of ``struct pst_value``."""

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
    """A field of the schema; use the subclasses."""

    type = ""

    def describe(self) -> dict[str, Any]:
        """Returns the members of ``struct pst_field``, without the name."""
        return {"type": _native.field_type_number(self.type), "n_variants": 1}

    def variants(self, value: Any, kept: list[PenstockError]) -> list[_Value | None]:
        """As :meth:`values`. ``kept`` receives the reason why a JPEG stays as it is."""
        return self.values(value)

    def values(self, value: Any) -> list[_Value | None]:
        """Returns one entry per variant."""
        raise NotImplementedError

    def _fail(self, value: Any, wanted: str) -> ArgumentError:
        return ArgumentError(f"{type(self).__name__}: {wanted}, not {type(value).__name__}")

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({parts})"


class Image(FieldSpec):
    """An image. No form is ever made by lossy re-encoding.

    Values: encoded bytes; a path (str or os.PathLike) of an encoded file; a uint8 or uint16 array
    (H, W) or (H, W, C).

    Args:
        form: "original": encoded bytes as they are, arrays as raw pixels. "jpeg", "png", "webp", "pli": encoded bytes
            that must have that form (penstock.pli.encode makes such bytes from arrays). "pli-jpeg": JPEGs become
            smaller, with the same pixels, and the file can be restored (see penstock.pli.from_jpeg). JPEGs that cannot
            be kept so, or would not be smaller, stay JPEG, and :attr:`Writer.kept_jpeg` has the reasons. Other bytes
            stay as they are. "raw": pixels, decoded at writing if needed (lossless). A list stores the image in several
            forms (variants), the preferred one first.
    """

    type = "image"

    def __init__(self, form: str | Sequence[str] = "original") -> None:
        self.form = (form,) if isinstance(form, str) else tuple(form)
        known = ("original", *_image.FORMS)
        for name in self.form:
            if name not in known:
                raise ArgumentError(f"form is one of {', '.join(known)}, not {name!r}")
        if not 1 <= len(self.form) <= 8 or len(set(self.form)) != len(self.form):
            raise ArgumentError(f"an image has 1 to 8 different forms, not {self.form}")

    def describe(self) -> dict[str, Any]:
        return {"type": _native.field_type_number(self.type), "n_variants": len(self.form)}

    def values(self, value: Any) -> list[_Value | None]:
        return self.variants(value, [])

    def variants(self, value: Any, kept: list[PenstockError]) -> list[_Value | None]:
        if isinstance(value, (str, os.PathLike)):
            with open(value, "rb") as file:
                value = file.read()
        if _is_bytes(value):
            return [self._from_bytes(value, form, kept) for form in self.form]
        return [self._from_array(value, form) for form in self.form]

    def _from_bytes(self, data: Any, form: str, kept: list[PenstockError]) -> _Value:
        if form == "raw":
            indices = self.type == "mask"
            return self._from_array(_image.decode(data, palette_indices=indices), form)
        found = _image.probe(data).form
        was_pli = found in ("pli", "pli-jpeg")
        if form == "pli-jpeg":
            if found == "jpeg":
                data, found = self._smaller(data, kept)
        elif form not in ("original", found):
            raise ArgumentError(
                f"{type(self).__name__}: the bytes are {found}, the schema says {form}"
            )
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
        if form not in ("original", "raw", "pli-jpeg"):
            raise ArgumentError(f"{type(self).__name__}: an array cannot be stored as {form}")
        if pixels.ndim == 2:
            pixels = pixels[:, :, np.newaxis]
        height, width, channels = pixels.shape
        limit = 1 if self.type == "mask" else 4
        if not 1 <= channels <= limit:
            raise ArgumentError(
                f"{type(self).__name__}: {channels} channels, 1 to {limit} are possible"
            )
        little = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
        bits = 8 * little.itemsize
        return _Value(little.reshape(-1).view(np.uint8), _RAW, height, width, channels, bits)


class Mask(Image):
    """A label or instance map: one channel of uint8 or uint16, never interpolated.

    Values as for :class:`Image`; palette images are stored as they are and read as indices. A mask has the
    size of an image of its sample.

    Args:
        form: as for :class:`Image`.
        made_for: the picture that the mask was made for, if its image has an EXIF orientation: "upright", with the
            orientation applied, or "stored". None: not stated; then such a sample is an error unless the mask's size
            decides.
    """

    type = "mask"

    def __init__(
        self, form: str | Sequence[str] = "original", made_for: str | None = None
    ) -> None:
        super().__init__(form)
        self.made_for = made_for
        _options.made_for(made_for)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "made_for": _options.made_for(self.made_for)}


class _Points(FieldSpec):
    columns = 0

    def __init__(self, made_for: str | None = None) -> None:
        self.made_for = made_for
        _options.made_for(made_for)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "made_for": _options.made_for(self.made_for)}

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
    """float32 (n, 4): x0, y0, x1, y1 in pixels; n may differ from sample to sample.

    Each box is finite, has an area (x0 < x1 and y0 < y1) and lies on the image, if only in part; otherwise the sample
    is refused. ``made_for`` is as for :class:`Mask`.
    """

    type = "boxes"
    columns = 4


class Keypoints(_Points):
    """float32 (n, 3): x, y in pixels, visibility; finite; n may differ from sample to sample.

    ``made_for`` is as for :class:`Mask`.
    """

    type = "keypoints"
    columns = 3


class Int(FieldSpec):
    """One int64.

    Args:
        classes: labels are 0 to n-1. Give the number n, or the names (then values may be names too).
    """

    type = "int"

    def __init__(self, classes: int | Sequence[str] | None = None) -> None:
        self.names: list[str] | None = None
        self.n_classes = 0
        if isinstance(classes, Sequence) and not isinstance(classes, str):
            self.names = [str(name) for name in classes]
            self.n_classes = len(self.names)
        elif classes is not None:
            self.n_classes = _options.count("classes", classes, 1, 2**63 - 1)
        self._numbers = {name: i for i, name in enumerate(self.names or ())}
        if len(self._numbers) != len(self.names or ()):
            raise ArgumentError("Int: two classes have the same name")

    def __repr__(self) -> str:
        classes = self.names if self.names is not None else self.n_classes or None
        return f"Int(classes={classes!r})"

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
    """One float64 (delivered as float32)."""

    type = "float"

    def values(self, value: Any) -> list[_Value | None]:
        return [_Value(struct.pack("=d", float(value)))]


class Bytes(FieldSpec):
    """Any bytes."""

    type = "bytes"

    def values(self, value: Any) -> list[_Value | None]:
        if not _is_bytes(value):
            raise self._fail(value, "bytes are wanted")
        return [_Value(value)]


class Audio(FieldSpec):
    """An audio file as it is: its bytes, or its path."""

    type = "audio"

    def values(self, value: Any) -> list[_Value | None]:
        if isinstance(value, (str, os.PathLike)):
            with open(value, "rb") as file:
                value = file.read()
        if not _is_bytes(value):
            raise self._fail(value, "the file's bytes or its path are wanted")
        return [_Value(value)]


class Text(FieldSpec):
    """A str."""

    type = "text"

    def values(self, value: Any) -> list[_Value | None]:
        if not isinstance(value, str):
            raise self._fail(value, "a str is wanted")
        return [_Value(value.encode())]


class Json(FieldSpec):
    """Any value that ``json.dumps`` accepts."""

    type = "json"

    def values(self, value: Any) -> list[_Value | None]:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Json: {error}") from None
        return [_Value(text.encode())]


class Array(FieldSpec):
    """An n-d array.

    Args:
        dtype: dtype of the elements: a name, or a numpy or torch dtype. Values are not converted.
        shape: the shape that every sample has, or None: any shape (up to 8 axes).
    """

    type = "array"

    def __init__(self, dtype: Any = "float32", shape: Sequence[int] | None = None) -> None:
        self._number = _options.dtype_number(dtype)
        self.dtype = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype)
        self.dtype = self.dtype.rpartition(".")[2]
        self.shape = None if shape is None else tuple(int(side) for side in shape)
        if self.shape is not None and not (
            1 <= len(self.shape) <= 8 and all(0 < side < 2**32 for side in self.shape)
        ):
            raise ArgumentError(f"Array: shape has 1 to 8 sides above 0, not {self.shape}")

    def __repr__(self) -> str:
        return f"Array(dtype={self.dtype!r}, shape={self.shape!r})"

    def describe(self) -> dict[str, Any]:
        shape = self.shape or ()
        return {
            **super().describe(),
            "dtype": self._number,
            "ndim": len(shape),
            "shape": list(shape),
        }

    def values(self, value: Any) -> list[_Value | None]:
        import numpy as np

        if self.dtype == "bfloat16":  # numpy has no bfloat16, so torch's bits are stored
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


def _spec(name: str, given: Any) -> FieldSpec:
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


def _spec_on_disk(field: dict[str, Any]) -> FieldSpec:
    """Returns the field of an existing data set that is continued without a schema."""
    if field["type"] == "int":
        return Int(field["n_classes"] or None)
    if field["type"] == "array":
        return Array(field["dtype"], field["shape"] or None)
    if field["type"] in ("image", "mask") and field["n_variants"] > 1:
        raise ArgumentError(
            f"field {field['name']!r} has {field['n_variants']} variants: give schema= to say which "
            "forms they are"
        )
    made_for = _options.MADE_FOR[field["made_for"]] or None
    if field["type"] == "mask":
        return Mask(made_for=made_for)
    if field["type"] == "boxes":
        return Boxes(made_for)
    if field["type"] == "keypoints":
        return Keypoints(made_for)
    return _SHORTHANDS[field["type"]]()


class Writer:
    """Writes a data set, sample by sample; safe against crashes.

    ::

        with ps.Writer("train.pst", {"image": ps.Image(), "label": ps.Int(classes=names)}) as writer:
            for path, label in files:
                writer.write({"image": path, "label": label})

    Leaving the ``with`` block without an exception finishes the data set. After an exception, committed samples stay,
    and ``resume=True`` goes on from there (``len(writer)`` samples are in it).

    Args:
        path: the directory to make; it must not exist, or must be empty.
        schema: fields by name: :class:`Image`, :class:`Int`, ... or shorthands ("image", "jpeg", "int",
            "float", "text", "json", "bytes", "array", "mask", "boxes", "keypoints", "audio"). May be
            left out with ``resume`` and ``append``.
        resume: continue an interrupted writer (or begin, if there is none).
        append: add to a finished data set.
        shard_size: begin a new file after this many bytes.
        commit_size: commit each time after this many bytes.

    One thread at a time.
    """

    def __init__(
        self,
        path: Path,
        schema: Mapping[str, FieldSpec | str | type[FieldSpec]] | None = None,
        *,
        resume: bool = False,
        append: bool = False,
        shard_size: int | str = "1GiB",
        commit_size: int | str = "256MiB",
    ) -> None:
        if resume and append:
            raise ArgumentError("append=True goes on with an interrupted append by itself")
        if not schema and not (resume or append):
            raise ArgumentError("schema says which fields the data set has; it is empty")
        self._path = os.fspath(path)
        self._specs = {name: _spec(name, given) for name, given in (schema or {}).items()}
        self._native = _native.Writer(
            self._path,
            [{"name": name, **spec.describe()} for name, spec in self._specs.items()],
            _APPEND if append else _RESUME if resume else _CREATE,
            _options.nbytes("shard_size", shard_size),
            _options.nbytes("commit_size", commit_size),
        )
        if not self._specs:
            on_disk = self._native.fields()
            self._specs = {field["name"]: _spec_on_disk(field) for field in on_disk}
        for i_field, spec in enumerate(self._specs.values()):
            if isinstance(spec, Int) and spec.names is not None:
                self._native.set_class_names(i_field, spec.names)
        self._finished = False
        self._n_kept_jpeg = 0
        self._kept_jpeg: list[dict[str, Any]] = []

    @property
    def path(self) -> str:
        return self._path

    @property
    def schema(self) -> dict[str, FieldSpec]:
        return dict(self._specs)

    @property
    def n_kept_jpeg(self) -> int:
        """The number of JPEGs written with ``Image("pli-jpeg")`` that stay as they are."""
        return self._n_kept_jpeg

    @property
    def kept_jpeg(self) -> list[dict[str, Any]]:
        """The first 1000 JPEGs that stay as they are: name, field, and the reason (status, text, offset in the
        JPEG)."""
        return [dict(entry) for entry in self._kept_jpeg]

    def __len__(self) -> int:
        """The number of samples in the data set so far. A resumed job goes on with that sample."""
        return self._native.count()

    def __contains__(self, name: str) -> bool:
        """True if a sample has that name."""
        return self._native.has(name)

    def write(self, sample: Mapping[str, Any], name: str | None = None) -> None:
        """Adds a sample: a value per field. A bad sample raises an error, and the writer can go on.

        ``name`` must be unique; None: the sample's number, in twelve digits.
        """
        if sample.keys() != self._specs.keys():
            missing = [field for field in self._specs if field not in sample]
            unknown = [field for field in sample if field not in self._specs]
            raise ArgumentError(
                f"a sample has the fields {', '.join(self._specs)}; missing: {missing}, "
                f"unknown: {unknown}",
                dataset=self._path,
            )
        values = []
        kept: list[tuple[str, PenstockError]] = []
        for field, spec in self._specs.items():
            reasons: list[PenstockError] = []
            try:
                values.append(spec.variants(sample[field], reasons))
            except ArgumentError as error:
                raise ArgumentError(f"field {field!r}: {error}", dataset=self._path) from None
            kept.extend((field, reason) for reason in reasons)
        name = f"{len(self):012d}" if name is None else name
        self._native.add(name, values)
        self._n_kept_jpeg += len(kept)
        for field, reason in kept[: _KEPT_LISTED - len(self._kept_jpeg)]:
            self._kept_jpeg.append(
                {"name": name, "field": field, "status": reason.status, "text": reason.text, "offset": reason.offset}
            )

    def write_many(
        self, samples: Iterable[Mapping[str, Any] | tuple[str, Mapping[str, Any]]]
    ) -> int:
        """Adds samples, or pairs (name, sample). Returns their number."""
        n = 0
        for entry in samples:
            if isinstance(entry, tuple):
                self.write(entry[1], entry[0])
            else:
                self.write(entry)
            n += 1
        return n

    @staticmethod
    def from_folder(path: Path, folder: Path, **options: Any) -> PackReport:
        """Makes the data set ``path`` from a folder of images, as :func:`pack` with its arguments swapped."""
        return pack(folder, path, **options)

    def commit(self) -> None:
        """Makes all added samples durable."""
        self._native.commit()

    def finish(self) -> None:
        """Finishes the data set. After it nothing can be written."""
        if not self._finished:
            self._native.finish()
            self._finished = True
        self._native.close()

    def close(self) -> None:
        """Frees the writer. Without :meth:`finish` the data set stays resumable."""
        self._native.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"Writer({self._path!r}, {self._specs!r})"


class PackReport(NamedTuple):
    """The result of :func:`pack`; sizes are in bytes, ``bad`` has a dict for each sample that was left out.

    ``n_skipped`` counts files that ``allow_unreadable`` left out, ``n_resumed`` samples that were stored before.
    ``n_pli_jpeg`` counts JPEGs that became PLI (their bytes before and after: ``jpeg_nbytes``, ``pli_jpeg_nbytes``),
    ``n_kept_jpeg`` those that stay as they are; ``kept_jpeg`` has the reasons for the first 1000. ``n_restored_jpeg``
    JPEGs were restored from "pli-jpeg" (``restored_pli_jpeg_nbytes`` before, ``restored_jpeg_nbytes`` after).
    ``n_not_original`` images were requested as "original" but stay as they are, because only their pixels were kept.
    ``notices`` lists parts of the source that the data set does not have, as :attr:`Dataset.notices`.
    """

    n_samples: int
    n_bad: int
    n_resumed: int
    n_skipped: int
    nbytes_in: int
    nbytes_out: int
    n_pli_jpeg: int
    jpeg_nbytes: int
    pli_jpeg_nbytes: int
    n_kept_jpeg: int
    kept_jpeg_nbytes: int
    n_restored_jpeg: int
    restored_pli_jpeg_nbytes: int
    restored_jpeg_nbytes: int
    n_not_original: int
    notices: list[dict[str, Any]]
    bad: list[dict[str, Any]]
    kept_jpeg: list[dict[str, Any]]


class VerifyReport(NamedTuple):
    """The result of :func:`verify`: ``findings`` has a dict for each finding."""

    ok: bool
    n_samples: int
    n_items: int
    n_bad: int
    nbytes: int
    findings: list[dict[str, Any]]


def _collector(found: list[dict[str, Any]], also: BadSample | None, most: int | None = None) -> BadSample:
    def collect(name: str, what: dict[str, Any]) -> object:
        if most is None or len(found) < most:
            found.append({**what, "name": name})
        return also(name, what) if also is not None else None

    return collect


def _form_numbers(forms: Sequence[str] | None) -> list[int]:
    return [0 if form == "original" else _image.form_number(form) for form in forms or ()]


def pack(
    source: Path,
    destination: Path,
    *,
    forms: Sequence[str] | None = None,
    mask_forms: Sequence[str] | None = None,
    tier: str | None = None,
    effort: int | None = None,
    max_error: int = 0,
    of_lossy: bool = False,
    labels: Path | None = None,
    allow_unreadable: bool = False,
    resume: bool = False,
    append: bool = False,
    on_error: str = "raise",
    verify_pixels: bool = False,
    num_workers: int | None = None,
    shard_size: int | str = "1GiB",
    commit_size: int | str = "256MiB",
    progress: Progress | None = None,
    masks: Sequence[str] = (),
    made_for: str | None = None,
) -> PackReport:
    """Packs a folder of images, or another data set (as ``penstock repack`` does), into a data set.

    From a data set, the samples' order, names, labels and other fields stay as they are.

    Args:
        source, destination: the folder (or data set), and the directory to make.
        forms: the forms in which each image is stored. "pli-jpeg": JPEGs as PLI of their own coefficients (smaller, the
            same pixels, the file can be restored), other files as they are. "original": the file's own bytes; from a
            data set, the original's, so that "pli-jpeg" becomes the JPEG again. Also "raw", "pli", "jpeg" (only from
            JPEGs and "pli-jpeg"), ... Several forms make variants, the preferred one first. None: "pli-jpeg", but an
            image that a data set stores in several forms keeps them all.
        mask_forms: the forms for masks; None: as in the source.
        tier, effort, max_error: for the form "pli", as for :func:`penstock.pli.encode`: "fast", "small" or "dense"
            (None: "small"), 1 to 5 (None: 3), 0 (lossless) to 127. Masks are always lossless. Images that are PLI
            already are kept, unless one of these arguments is given and they were encoded otherwise.
        of_lossy: make "pli" from JPEGs and lossy WebP too, which makes them larger. Otherwise such images cannot be
            used, unless max_error is given.
        labels, masks, allow_unreadable: as for :class:`Dataset`.
        append: add to a finished data set. A name that exists already is an error. Forms and settings of "pli" are
            those of that data set unless they are given.
        resume: continue an interrupted run (also one with ``append``).
        on_error: "raise" stops at the first image that cannot be used; "skip" leaves it out and lists it in the
            report's ``bad``.
        verify_pixels: decode every image once, so that bad ones are found now.
        num_workers: threads; None: as many as the process may use.
        progress: called now and then with (samples done, samples in all, bytes in, bytes out). If it returns true, the
            run is cancelled.
        made_for: "upright" or "stored": the picture that masks, boxes and keypoints were made for, where an image has
            an EXIF orientation and the source does not state it: see :class:`Mask`. Not when appending.

    To continue an interrupted run (also after Ctrl-C), call it with ``resume=True`` and otherwise the same arguments.
    """
    gives_pli = tier is not None or effort is not None or max_error != 0 or of_lossy
    if gives_pli and not append and "pli" not in (*(forms or ()), *(mask_forms or ())):
        raise ArgumentError('tier, effort, max_error and of_lossy go with the form "pli"')
    skip = _options.choice("on_error", on_error, ("raise", "skip")) == 1
    bad: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    options = {
        "mode": _RESUME if resume else _APPEND if append else _CREATE,
        "shard_nbytes": _options.nbytes("shard_size", shard_size),
        "commit_nbytes": _options.nbytes("commit_size", commit_size),
        "allow_unreadable": allow_unreadable,
        "num_workers": max(1, _options.workers(num_workers)),
        "verify_pixels": verify_pixels,
        "pli_tier": 0 if tier is None else _options.choice("tier", tier, _options.TIERS) + 1,
        "pli_effort": 0 if effort is None else _options.count("effort", effort, 1, 5),
        "pli_max_error": _options.count("max_error", max_error, 0, 127),
        "pli_of_lossy": of_lossy,
        "made_for": _options.made_for(made_for),
    }
    report = _native.pack(
        os.fspath(source),
        os.fspath(destination),
        None if labels is None else os.fspath(labels),
        mask_columns(masks),
        _form_numbers(forms),
        _form_numbers(mask_forms),
        options,
        progress,
        _collector(bad, None) if skip else None,
        _collector(kept, None, _KEPT_LISTED),
    )
    return PackReport(**report, bad=bad, kept_jpeg=kept)


def verify(
    path: Path,
    *,
    decode: bool = False,
    restore: bool = False,
    num_workers: int | None = None,
    progress: Progress | None = None,
    on_finding: BadSample | None = None,
    labels: Path | None = None,
    masks: Sequence[str] = (),
    allow_unreadable: bool = False,
) -> VerifyReport:
    """Reads a whole data set and compares every checksum. Faults are listed, not raised.

    Args:
        path: the data set, or a plain folder; the images of a folder are decoded.
        decode: decode images too and compare their pixels' checksums.
        restore: restore the JPEG files of "pli-jpeg" and compare their checksums.
        num_workers: threads; None: as many as the process may use.
        progress: as for :func:`pack`.
        on_finding: called with the sample's name and a dict that describes the finding. If it returns true, the run
            ends.
        labels, masks, allow_unreadable: for a plain folder, as for :class:`Dataset`.
    """
    findings: list[dict[str, Any]] = []
    error, counts = _native.verify(
        os.fspath(path),
        None if labels is None else os.fspath(labels),
        mask_columns(masks),
        allow_unreadable,
        decode,
        restore,
        max(1, _options.workers(num_workers)),
        progress,
        _collector(findings, on_finding),
    )
    if error is not None and (not findings or not os.path.exists(path)):
        from .errors import from_parts

        raise from_parts(error)  # verification was not possible
    return VerifyReport(ok=error is None, **counts, findings=findings)
