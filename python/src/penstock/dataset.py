"""Data sets, opened for reading."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _image, _native
from .errors import ArgumentError, PenstockError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Dataset", "Field"]


def mask_columns(masks: Sequence[str]) -> tuple[str, ...]:
    """The argument ``masks`` as the native module takes it."""
    if isinstance(masks, str):
        raise ArgumentError(f"masks is a list of columns, not {masks!r}")
    return tuple(masks)


class Field(NamedTuple):
    """One column of a data set.

    ``dtype`` and ``shape`` are those of an array field ("" and () elsewhere; () also for ragged
    arrays). ``n_classes`` is 0 where labels have no bound. ``max_item_nbytes`` is the largest stored
    item, ``max_pixels_nbytes`` the largest decoded image (0: not known).
    """

    name: str
    type: str
    dtype: str
    shape: tuple[int, ...]
    n_variants: int
    n_classes: int
    max_item_nbytes: int
    max_pixels_nbytes: int


class Dataset:
    """A data set that a :class:`Writer` made, or a plain folder of images.

    Args:
        path: directory of the data set, or of the images.
        labels: plain folders: CSV (header ``file,label,...``) or JSON-lines file that names files and
            gives their fields. None: one class per sub-folder.
        allow_unreadable: plain folders: leave out (and count) what cannot be read.
        masks: columns of the label file whose values are paths of mask files. "mask", "mask_..." and "..._mask"
            are such columns anyway. Without a label file, a sub-folder "images" beside "masks" ("mask_x",
            "x_masks") gives each image the masks of its name instead of a class.

    ``len(ds)`` samples; ``ds[i]`` is a dict of the stored values: images as uint8 or uint16 (H, W, C),
    masks as (H, W), boxes float32 (n, 4), keypoints float32 (n, 3), arrays as numpy arrays, and int,
    float, str, bytes and JSON values. Pickles by its arguments.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        labels: str | os.PathLike[str] | None = None,
        allow_unreadable: bool = False,
        masks: Sequence[str] = (),
    ) -> None:
        self._arguments = (
            os.fspath(path),
            None if labels is None else os.fspath(labels),
            bool(allow_unreadable),
            mask_columns(masks),
        )
        self._native = _native.Dataset(*self._arguments)
        info = self._native.info()
        self._path: str = info["path"]
        self._count: int = info["count"]
        self._id: bytes = info["id"]
        self._is_folder: bool = info["is_folder"]
        self._n_skipped: int = info["n_skipped"]
        self._fields = tuple(Field(**field) for field in self._native.fields())
        self._places = {field.name: i for i, field in enumerate(self._fields)}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    @property
    def path(self) -> str:
        """Where it lies, as given."""
        return self._path

    @property
    def id(self) -> str:
        """32 hexadecimal digits that name the data set; for a folder, made of names and sizes."""
        return self._id.hex()

    @property
    def is_folder(self) -> bool:
        """True for a plain folder."""
        return self._is_folder

    @property
    def n_skipped(self) -> int:
        """Files left out by ``allow_unreadable``."""
        return self._n_skipped

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What a plain folder holds and the data set does not show: dicts of ``kind``, ``name``, ``count``, ``first``.

        Kinds: "left_out" (no images; ``name`` is the extension, "hidden", ...), "unreadable",
        "mask_without_image", "image_without_mask", and "text_names_files" (a text column, ``name``, whose
        values are paths of images: perhaps one for ``masks``). ``first`` is the first path.
        """
        return self._native.notices()

    @property
    def fields(self) -> dict[str, Field]:
        """The schema: fields by name, in order."""
        return {field.name: field for field in self._fields}

    @property
    def classes(self) -> list[str] | None:
        """Class names of the field "label", else of the first int field that has any."""
        ordered = sorted(self._fields, key=lambda field: field.name != "label")
        for field in ordered:
            names = self.class_names(field.name) if field.type == "int" else None
            if names is not None:
                return names
        return None

    def class_names(self, field: str) -> list[str] | None:
        """Names of the classes of an int field; None if there are none."""
        i_field = self._place(field)
        names = []
        for label in range(self._fields[i_field].n_classes):
            name = self._native.class_name(i_field, label)
            if name is None:
                return None
            names.append(name)
        return names or None

    def name(self, i: int) -> str:
        """The unique name of a sample: its file's relative path, or the key given to the writer."""
        return self._native.name(self._sample(i))

    def item(self, i: int, field: str, variant: int | None = None) -> dict[str, Any]:
        """Where and how an item is stored: form, file, offset, nbytes, checksums, size.

        ``variant`` None: the first one present. A plain folder does not know the form (None).
        """
        sample, i_field = self._sample(i), self._place(field)
        chosen = self._variant(sample, i_field, variant)
        found = self._native.item(sample, i_field, chosen)
        i_file = found.pop("i_file")
        found["file"] = None if i_file is None else self._native.file_path(i_file)
        found["variant"] = chosen
        return found

    def read(
        self, i: int, field: str, variant: int | None = None, *, original: bool = False
    ) -> bytes:
        """The stored bytes of an item, checked against their checksum.

        ``original``: of a JPEG that is kept as PLI ("pli-jpeg") the bytes of the JPEG file. One that was
        a PLI already when it was packed is that file.
        """
        sample, i_field = self._sample(i), self._place(field)
        chosen = self._variant(sample, i_field, variant)
        item = self._native.item(sample, i_field, chosen)
        data = self._native.read(sample, i_field, chosen, 0, item["nbytes"])
        was_jpeg = item["form"] == "pli-jpeg" and not item["was_pli"]
        return _native.pli_to_jpeg(data) if original and was_jpeg else data

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> dict[str, Any]:
        sample = self._sample(i)
        return {
            field.name: self._value(sample, i_field, field)
            for i_field, field in enumerate(self._fields)
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for sample in range(self._count):
            yield self[sample]

    def _sample(self, i: int) -> int:
        sample = int(i.__index__())
        if sample < 0:
            sample += self._count
        if not 0 <= sample < self._count:
            raise IndexError(f"sample {i} of {self._count} in {self._path}")
        return sample

    def _place(self, field: str) -> int:
        place = self._places.get(field)
        if place is None:
            raise ArgumentError(
                f"no field {field!r} in {self._path}: it has {', '.join(self._places)}",
                dataset=self._path,
            )
        return place

    def _variant(self, sample: int, i_field: int, variant: int | None) -> int:
        if variant is not None:
            return variant
        for v in range(self._fields[i_field].n_variants):
            if self._native.item(sample, i_field, v)["present"]:
                return v
        return 0

    def _value(self, sample: int, i_field: int, field: Field) -> Any:
        if field.type in ("int", "float"):
            return self._native.value(sample, i_field)
        variant = self._variant(sample, i_field, None)
        item = self._native.item(sample, i_field, variant)
        if not item["present"]:
            return None
        data = self._native.read(sample, i_field, variant, 0, item["nbytes"])
        if field.type in ("image", "mask"):
            return self._pixels(sample, field, item, data)
        if field.type == "text":
            return data.decode()
        if field.type == "json":
            return json.loads(data)
        if field.type in ("boxes", "keypoints", "array"):
            return _stored_array(field, item, data)
        return data

    def _pixels(
        self, sample: int, field: Field, item: dict[str, Any], data: bytes
    ) -> npt.NDArray[np.uint8 | np.uint16]:
        import numpy as np

        if item["form"] == "raw":
            dtype = np.dtype("<u2") if item["bits"] == 16 else np.dtype("u1")
            shape = (item["height"], item["width"], item["channels"])
            pixels = np.frombuffer(bytearray(data), dtype).reshape(shape)
        else:
            try:
                pixels = _image.decode(data, item["form"], palette_indices=field.type == "mask")
            except PenstockError as error:
                # The decoder saw bytes only; say whose they are.
                error.dataset, error.sample = self._path, sample
                if item["i_file"] is not None:
                    error.file = self._native.file_path(item["i_file"])
                where = f"{self._path}: sample {sample} ({self._native.name(sample)}): "
                error.args = (where + str(error),)
                raise
        return pixels[..., 0] if field.type == "mask" and pixels.shape[2] == 1 else pixels

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {_type_text(field)}" for field in self._fields)
        return f"Dataset({self._path!r}, {self._count} samples, {{{columns}}})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(field.name)}</td><td>{escape(_type_text(field))}</td>"
            f"<td>{field.n_variants}</td><td>{field.max_item_nbytes:,}</td></tr>"
            for field in self._fields
        )
        kind = "folder" if self._is_folder else "data set"
        return (
            f"<table><caption>{kind} <code>{escape(self._path)}</code>: {self._count:,} samples"
            "</caption><tr><th>field</th><th>type</th><th>variants</th><th>largest item, bytes</th>"
            f"</tr>{rows}</table>"
        )


def _type_text(field: Field) -> str:
    if field.type == "array":
        shape = ", ".join(map(str, field.shape)) if field.shape else "..."
        return f"{field.dtype} ({shape})"
    if field.type == "int" and field.n_classes:
        return f"int, {field.n_classes} classes"
    return field.type


def _stored_array(field: Field, item: dict[str, Any], data: bytes) -> Any:
    import numpy as np

    if field.type != "array":
        return np.frombuffer(bytearray(data), "<f4").reshape(-1, 4 if field.type == "boxes" else 3)
    shape = item["shape"] or field.shape
    if field.dtype == "bfloat16":
        import torch  # numpy has no such type

        return torch.frombuffer(bytearray(data), dtype=torch.bfloat16).reshape(shape)
    return np.frombuffer(bytearray(data), field.dtype).reshape(shape)
