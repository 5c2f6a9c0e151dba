"""Data sets that are open for reading."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from .. import _native
from ..base import options as _options
from ..base.public import door
from ..errors import ArgumentError, NotFoundError, PenstockError, StateError
from . import image, markup, notebook, progress
from .ticket import Ticket

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Dataset", "Field"]


def mask_columns(masks: Sequence[str]) -> tuple[str, ...]:
    """Converts the argument ``masks`` of :class:`Dataset` for the native module."""
    if isinstance(masks, str):
        raise ArgumentError(f"masks is a list of columns, not {masks!r}")
    return tuple(masks)


_TYPES = ("image", "mask", "boxes", "keypoints", "audio", "int", "float", "bytes", "text", "json", "array")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""What names a data set: one path, or a list of files with many samples, such as tars and tables."""
Rules = Mapping[str, str | Sequence[Any] | None]
"""What members of tars are, by suffix, or columns of tables, by name: a name; (name, type) or (name, "int", classes), where the
name may be None; None."""


def path_text(path: Any) -> Any:
    """Returns the text by which the C library opens a path. Several paths are joined to one text of absolute paths."""
    if isinstance(path, (str, bytes, os.PathLike)):
        text = os.fspath(path)
        if not isinstance(text, str) or "::" not in text or os.path.exists(text):
            return text
        parts = text.split("::")
    else:
        parts = [os.fspath(part) for part in path]
        if not parts:
            raise ArgumentError("the list of paths is empty")
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            if "::" in part:
                raise ArgumentError(f"{part!r}: a path in a list has no '::', which stands between two paths")
    return "::".join(part if part.startswith("pipe:") else os.path.join(os.getcwd(), part) for part in parts)


def member_rules(fields: Rules | None) -> tuple[tuple[str, str | None, str | None, bool, int], ...]:
    """Converts the argument ``fields`` of :class:`Dataset` for the native module."""
    if fields is None:
        return ()
    if not isinstance(fields, Mapping):
        raise ArgumentError(f"fields is a dict by suffix, such as {{'jpg': 'image', 'pkl': None}}, not {fields!r}")
    return tuple(_member_rule(suffix, rule) for suffix, rule in fields.items())


def rules_text(fields: Rules) -> str:
    """Converts rules for fields to the words of the option ``--members``."""
    found = []
    for suffix, name, kind, is_left_out, n_classes in member_rules(fields):
        typed = f":{kind}" if kind else ""
        found.append(f"{suffix}=-" if is_left_out else f"{suffix}={name or ''}{typed}" + (f":{n_classes}" if n_classes else ""))
    return ",".join(found)


def _member_rule(suffix: Any, rule: Any) -> tuple[str, str | None, str | None, bool, int]:
    if not isinstance(suffix, str) or not suffix:
        raise ArgumentError(f"fields: a suffix is a text such as 'jpg', not {suffix!r}")
    if rule is None:
        return suffix, None, None, True, 0
    parts = [rule] if isinstance(rule, str) else list(rule) if isinstance(rule, Sequence) else []
    if not 1 <= len(parts) <= 3 or not all(part is None or isinstance(part, str) for part in parts[:2]):
        raise ArgumentError(f"fields[{suffix!r}] is a name, (name, type), (name, 'int', classes) or None, not {rule!r}")
    name, kind = parts[0], parts[1] if len(parts) > 1 else None
    if kind is not None and kind not in _TYPES:
        raise ArgumentError(f"fields[{suffix!r}]: there is no type {kind!r}{_options.nearest(kind, _TYPES)}")
    return suffix, name, kind, False, _options.count(f"fields[{suffix!r}]", parts[2], 0, 2**63 - 1) if len(parts) > 2 else 0


class Field(NamedTuple):
    """One field (column) of a data set.

    ``dtype`` and ``shape`` are those of an array field. Other fields have "" and (); ragged arrays have the shape (), too.
    ``n_classes`` is 0 if labels have no bound. ``max_item_nbytes`` is the size of the largest stored item, ``max_pixels_nbytes``
    that of the largest decoded image (0: not known). ``made_for`` of masks, boxes and keypoints is "upright", "stored" or "": see
    :class:`Mask`. For keypoints, ``n_classes`` is the number of points of one instance (0: not stated), and ``pairs`` are the pairs
    of left and right points, None if they are not stated: see :class:`Keypoints`.
    """

    name: str
    type: str
    dtype: str
    shape: tuple[int, ...]
    n_variants: int
    n_classes: int
    max_item_nbytes: int
    max_pixels_nbytes: int
    made_for: str = ""
    pairs: tuple[tuple[int, int], ...] | None = None


class Dataset:
    """A data set that a :class:`Writer` made, a plain folder of images, or tars, zips and tables of other programs.

    Args:
        path: directory of the data set, or of the images; a tar, a folder of tars, a pattern such as ``"train-{0000..0099}.tar"``,
            or a list of these (docs/tar-fields.md); or the same for zips and tables (docs/table-fields.md). An index of such files
            is made when they are opened for the first time. It lies in the folder .penstock beside them, or below
            ``PENSTOCK_CACHE_DIR``.
        labels: only for plain folders: a CSV file (header ``file,label,...``) or JSON-lines file that names files and gives their
            fields, or a list (.txt, .list) of lines "path label" like DALI's ``file_list``. None: each sub-folder is a class.
        allow_unreadable: only for plain folders: leave out and count the files that cannot be read.
        masks: columns of the label file that hold paths of mask files. Columns named "mask", ``"mask_..."`` or ``"..._mask"``
            always count as such. Without a label file, the images in a sub-folder "images" beside "masks" ("mask_x", "x_masks") get
            the masks of the same name instead of a class. "leftImg8bit" beside "gtFine" is read as Cityscapes, with the fields
            "mask", "instances" and "mask_train", "split" and "city".
        files: only for plain folders: the images to read, in this order, instead of all files; paths relative to the folder. There
            are no labels then. :meth:`from_files` takes any list of paths.
        ignore_labels: only for plain folders: read only the images. Sub-folders are not classes, and text files with boxes beside
            the images (as YOLO's tools keep them) are left out. False: such text files raise an ArgumentError, unless ``labels`` or
            ``files`` is given (docs/guide/from-yolo.md).
        split: only for containers of other programs: the split to read, such as "train". Needed if the names of files or folders
            name several.
        fields: only for containers of other programs: rules for members by the suffix of their names, or for columns by their
            names. ``"jpg": "image"`` gives the field's name. ``"cls": ("label", "int", 10)`` also gives its type and number of
            classes (the name may be None). ``"pkl": None`` leaves members out. All others follow docs/tar-fields.md and
            docs/table-fields.md.

    ``len(ds)`` is the number of samples. ``ds[i]`` is a dict of the stored values of a sample: images as uint8 or uint16 (H, W, C),
    masks as (H, W), boxes float32 (n, 4), keypoints float32 (n, 3), arrays as numpy arrays, and int, float, str, bytes and JSON
    values. ``ds[2:5]`` and ``ds[[0, 7]]`` are lists of such dicts. ``ds["label"]`` is :meth:`column`: the labels of all samples,
    without decoding an image.

    :meth:`subset`, :meth:`filter` and :meth:`split` return views: data sets that show some samples of this one, in an order of
    their own. Positions in a view count from 0. :class:`Loader` and :class:`TorchDataset` deliver the samples of a view, with their
    numbers in the whole data set as "index".

    When the data set is opened, paths are made absolute and links are resolved. So a later change of the working directory or of a
    link does not change what is read. A file of a plain folder whose size, inode number or time has changed since opening is a
    CorruptError; docs/python.md lists the changes that cannot be noticed.

    A pickle contains the arguments and, for a view, its indices. Unpickling opens the path again and must find the same data set:
    with the same bytes (:attr:`bytes_identity`) or, for a folder on another machine, with the same names, sizes and labels.
    Otherwise it raises StateError. :meth:`close` or ``with`` closes the files early.
    """

    def __init__(
        self,
        path: Paths,
        *,
        labels: str | os.PathLike[str] | None = None,
        allow_unreadable: bool = False,
        masks: Sequence[str] = (),
        files: Sequence[str] = (),
        ignore_labels: bool = False,
        split: str | None = None,
        fields: Rules | None = None,
    ) -> None:
        if isinstance(files, str):
            raise ArgumentError(f"files is a list of names, not {files!r}")
        options = (
            None if labels is None else os.path.realpath(labels),
            bool(allow_unreadable),
            mask_columns(masks),
            tuple(files),
            bool(ignore_labels),
        )
        text = path_text(path)
        with progress.shown() as told:
            self._take(_native.Dataset(text, *options, split, member_rules(fields), told))
        again = self._path if "::" not in str(text) or os.path.exists(text) else text
        self._arguments = (again, *options, split, None if fields is None else dict(fields))
        for notice in self.notices if self._is_folder else ():
            if notice["kind"] == "mask_in_colours":
                warnings.warn(
                    f"{self._path}: masks of field {notice['name']!r} are pictures in colours (the first: {notice['first']}), "
                    "and a mask has the number of a class in each pixel: convert them (docs/guide/masks-in-colours.md)",
                    stacklevel=2,
                )

    def _take(self, native: _native.Dataset) -> None:
        """Stores the open native data set and its properties."""
        info = native.info()
        self._native = native
        self._path: str = info["path"]
        self._kind: str = info["kind"]
        self._count: int = info["count"]
        self._id: bytes = info["id"]
        self._is_folder: bool = self._kind == "folder"
        self._n_skipped: int = info["n_skipped"]
        self._fields = tuple(
            Field(**{**field, "made_for": _options.MADE_FOR[field["made_for"]]})
            for field in native.fields()
        )
        self._places = {field.name: i for i, field in enumerate(self._fields)}
        self._indices: npt.NDArray[np.uint64] | None = None  # numbers of the samples that a view shows

    @classmethod
    def from_files(cls, paths: Iterable[str | os.PathLike[str]], *, allow_unreadable: bool = False) -> Dataset:
        """Opens a data set of these image files, in this order.

        paths: image files in any folders, with any ending. Relative paths count from the current folder. Each path is a sample:
            ArgumentError if a path occurs twice, or if there is none. The samples are named by their paths below :attr:`path`, the
            folder that all files have in common. It is computed from the texts of the paths.
        allow_unreadable: leave out and count files that cannot be read. Otherwise they raise a :class:`StorageError` or a subclass
            of it.

        Caches treat it as the same data set as long as names, sizes, inodes and times of the files stay the same
        (:attr:`bytes_identity`).
        """
        whole = [os.path.abspath(os.fspath(path)) for path in paths]
        if not whole:
            raise ArgumentError("from_files wants one file or more")
        root = os.path.commonpath([os.path.dirname(path) for path in whole])
        start = len(root) if root.endswith("/") else len(root) + 1
        return cls(root, files=[path[start:] for path in whole], allow_unreadable=allow_unreadable)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._arguments, self._indices, self._token())

    def _token(self) -> tuple[str, bytes, bytes]:
        """Returns what an unpickled copy must match: the boot of this machine, the identity of the bytes, and that of the listed
        files."""
        of_bytes, listed = (self._native.identity(kind) for kind in (_options.IDENTITY_BYTES, _options.IDENTITY_LISTED))
        return _options.boot(), of_bytes, listed

    def close(self) -> None:
        """Closes the files of this data set and of all its views. Reading then raises StateError.

        A :class:`Loader` made from it keeps working, because it holds the files open itself. Closing again does nothing.
        """
        self._native.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The absolute path, with links resolved as they were when the data set was opened."""
        return self._path

    @property
    def id(self) -> str:
        """32 hexadecimal digits that all files of a packed data set contain. For a folder they are made from names and sizes.

        Data sets with the same schema may have the same id. :attr:`bytes_identity` and :attr:`samples_identity` tell them apart.
        """
        return self._id.hex()

    @property
    def bytes_identity(self) -> str:
        """32 hexadecimal digits that identify the stored bytes. Caches, host services and fleets know the data set by them.

        Packing the same files twice with the same options gives the same identity. Two copies that were appended to or repacked in
        different ways have different identities. For a plain folder, it is made of the files' names, sizes, inodes and times, so it
        is valid on this machine and where the same file system is mounted. A view has the identity of the whole data set.
        """
        return self._native.identity(_options.IDENTITY_BYTES).hex()

    @property
    def samples_identity(self) -> str:
        """32 hexadecimal digits that identify the samples: their number, order, names, int and float values, and class names.

        A folder, the result of ``penstock pack`` on it, and the result of ``penstock repack`` on that have the same identity: form,
        pixels and path do not count. A loader's state contains it. A view has the identity of the whole data set.
        """
        return self._native.identity(_options.IDENTITY_SAMPLES).hex()

    @property
    def kind(self) -> str:
        """Where the samples lie: "packed", "folder", "mixture" for a :class:`Mixture`, or the format of another program's
        containers: "tar", "zip", "parquet", "arrow", "mds", "tfrecord", "lmdb", "recordio", "beton"."""
        return self._kind

    @property
    def is_packed(self) -> bool:
        """True for a data set that Penstock packed, False for a plain folder and for containers of other programs."""
        return self._kind == "packed"

    @property
    def is_folder(self) -> bool:
        """True for a plain folder."""
        return self._is_folder

    @property
    def n_skipped(self) -> int:
        """The number of files that ``allow_unreadable`` left out."""
        return self._n_skipped

    @property
    def notices(self) -> list[dict[str, Any]]:
        """Notices of a plain folder or of tables about parts that the data set does not show: dicts of ``kind``, ``name``,
        ``count``, ``first``, and sometimes ``why``, the reason.

        Kinds for folders: "left_out" (files that are no images; ``name`` is the extension, "hidden", ...), "unreadable",
        "mask_without_image", "image_without_mask", and "text_names_files" (a text column, ``name``, whose values are paths of
        images: it may belong into ``masks``). ``first`` is the first path. Kinds for tables: "column_left_out" (a column that
        becomes no field), "rows_left_out" (``name`` says which) and "labels_hidden" (a field with labels of -1, and therefore
        without classes).
        """
        return self._native.notices()

    @property
    def fields(self) -> dict[str, Field]:
        """The schema: fields by name, in order."""
        return {field.name: field for field in self._fields}

    @property
    def classes(self) -> list[str] | None:
        """Class names of the field "label". If it has none: of the first int field that has names, else of the first array that
        has."""
        ordered = sorted(self._fields, key=lambda field: (field.name != "label", field.type != "int"))
        for field in ordered:
            names = self.class_names(field.name) if field.n_classes and field.type != "keypoints" else None
            if names is not None:
                return names
        return None

    def class_names(self, field: str) -> list[str] | None:
        """Returns the class names of a field of labels (int, or an array), or the names of the points of keypoints; None if there
        are none."""
        i_field = self._place(field)
        names = []
        for label in range(self._fields[i_field].n_classes):
            name = self._native.class_name(i_field, label)
            if name is None:
                return None
            names.append(name)
        return names or None

    @functools.cached_property
    def _about(self) -> notebook.About:
        """Returns what notebooks need to know about the fields besides their values."""
        names = {field.name: self.class_names(field.name) for field in self._fields if field.n_classes}
        label = next((field.name for field in self._fields if field.type == "int"), None)
        return notebook.About({name: found for name, found in names.items() if found}, {}, label)

    @property
    def indices(self) -> npt.NDArray[np.uint64]:
        """The numbers of the samples in the whole data set, uint64 (n): 0, 1, ... except for a view."""
        import numpy as np

        return np.arange(self._count, dtype=np.uint64) if self._indices is None else self._indices.copy()

    def name(self, i: int) -> str:
        """Returns the unique name of a sample: its file's relative path, or the name given to the writer."""
        return self._native.name(self._sample(i))

    def index_of(self, name: str) -> int:
        """Returns the position of the sample with that name: ``ds.name(ds.index_of(name)) == name``.

        Names are read one after another. For many look-ups, make a dict of the names once. Raises NotFoundError if there is no such
        sample.
        """
        number = self._native.find(name)
        if self._indices is None:
            return number
        found = (self._indices == number).nonzero()[0]
        if found.size == 0:
            raise NotFoundError(f"no sample of this view of {self._path} is named {name!r}", dataset=self._path)
        return int(found[0])

    def column(self, field: str) -> Any:
        """Returns the values of one field of all samples, without reading the other fields.

        int: int64 (n). float: float64 (n). Arrays of a fixed shape: (n, ...). Boxes, keypoints and ragged arrays: a list of arrays.
        Text, JSON, bytes, audio: a list. Images and masks raise ArgumentError.
        """
        import numpy as np

        i_field = self._place(field)
        kind = self._fields[i_field]
        if kind.type in ("int", "float"):
            values = self._native.column(i_field, 0, self._count)
            column = np.frombuffer(values, "<i8" if kind.type == "int" else "<f8")
            return column if self._indices is None else column[self._indices]
        if kind.type in ("image", "mask"):
            raise ArgumentError(
                f"field {field!r} of type {kind.type} has no column: ask for samples, or use a Loader",
                dataset=self._path,
            )
        rows = [self._value(self._sample(i), i_field, kind) for i in range(len(self))]
        fixed = kind.type == "array" and kind.shape and kind.dtype != "bfloat16"
        if fixed:
            return np.stack(rows) if rows else np.empty((0, *kind.shape), kind.dtype)
        return rows

    def subset(self, indices: Any) -> Dataset:
        """Returns a view of some samples, chosen by positions (also negative), a slice, or a mask of bools (n)."""
        import numpy as np

        own = self.indices
        if isinstance(indices, slice):
            return _view(self, own[indices])
        chosen = np.asarray(indices)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
            raise ArgumentError("indices are a list of positions, a slice, or a list of bools")
        if chosen.dtype.kind == "b":
            if chosen.shape != own.shape:
                raise ArgumentError(f"the mask has {chosen.size} bools for {own.size} samples")
        elif chosen.size and not -own.size <= int(chosen.min()) <= int(chosen.max()) < own.size:
            raise IndexError(f"positions are 0 to {own.size - 1} in {self._path}")
        return _view(self, own[chosen])

    def filter(self, keep: Any = None, /, **columns: Any) -> Dataset:
        """Returns a view of the samples that pass all given conditions.

        ``keep`` is a mask of bools (n), or a function that gets a dict of a sample's values (without images, masks and audio) and
        returns whether to keep the sample. A keyword names a field. Its value is a function that gets the whole :meth:`column` and
        returns such a mask, or a value or list of values to keep: ``ds.filter(label=3)``, ``ds.filter(score=lambda score: score >
        0.5)``.
        """
        import numpy as np

        mask = np.ones(len(self), bool)
        if callable(keep):
            mask &= np.fromiter((bool(keep(row)) for row in self._small_values()), bool, len(self))
        elif keep is not None:
            mask &= _mask_of(keep, len(self))
        for name, wanted in columns.items():
            column = self.column(name)
            if callable(wanted):
                mask &= _mask_of(wanted(column), len(self))
            elif isinstance(column, list):
                values = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else (wanted,)
                mask &= np.fromiter((value in values for value in column), bool, len(self))
            else:
                mask &= _mask_of(np.isin(column, np.asarray(wanted)), len(self))
        return self.subset(mask)

    def _small_values(self) -> Iterator[dict[str, Any]]:
        chosen = [
            (i_field, field)
            for i_field, field in enumerate(self._fields)
            if field.type not in ("image", "mask", "audio")
        ]
        for i in range(len(self)):
            sample = self._sample(i)
            yield {field.name: self._value(sample, i_field, field) for i_field, field in chosen}

    def split(
        self, fractions: Sequence[float], seed: int = 0, stratify: str | Sequence[Any] | None = None
    ) -> list[Dataset]:
        """Divides the samples into views: one view for each fraction, with no sample in two views.

        Args:
            fractions: fractions of all samples, with a sum of at most 1: ``[0.9, 0.1]``. Sizes are rounded.
            seed: seed, number of the sample and the samples in the data set decide which view a sample is in. The result is the
                same in every version and on every machine.
            stratify: name of an int or text field, or one value per sample. The samples of each value are divided by the same
                fractions, up to rounding to whole samples.

        Within a view samples keep their order.
        """
        import numpy as np

        parts = np.asarray(fractions, np.float64)
        if parts.ndim != 1 or parts.size == 0 or not (parts >= 0).all() or parts.sum() > 1 + 1e-9:
            raise ArgumentError(f"fractions are 0 or more, at most 1 together, not {fractions!r}")
        numbers, n = self.indices, len(self)
        groups = np.zeros(n, np.int64)
        if stratify is not None:
            values = self.column(stratify) if isinstance(stratify, str) else stratify
            groups = np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1)
            if groups.shape != (n,):
                raise ArgumentError(f"stratify has {groups.size} values for {n} samples")
        keys = _mixed(numbers, seed)
        # A sample's position within its group as a fraction of the group's size, so that the same cuts divide all groups.
        order = np.lexsort((keys, groups))
        sizes = np.bincount(groups)
        starts = np.cumsum(sizes) - sizes
        place = np.empty(n, np.float64)
        place[order] = (np.arange(n) - starts[groups[order]] + 0.5) / sizes[groups[order]]
        order = np.lexsort((keys, place))
        cuts = np.rint(np.concatenate(([0.0], np.cumsum(parts))) * n).astype(np.int64).clip(0, n)
        return [_view(self, numbers[np.sort(order[a:b])]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]

    def item(self, i: int, field: str, variant: int | None = None) -> dict[str, Any]:
        """Returns where and how an item is stored: form, file, offset, nbytes (in the file), decoded_nbytes (as ``read`` returns
        it), checksums, size. A page of a table holds many items that are compressed together. An item in a page has the offset and
        the nbytes of the page; ``page_nbytes`` is the page's decoded length, 0 for other items.

        ``variant`` None selects the first variant that is present. In a plain folder the form is None, because the files were not
        read.
        """
        sample, i_field = self._sample(i), self._item_place(field)
        chosen = self._variant(sample, i_field, variant)
        found = self._native.item(sample, i_field, chosen)
        i_file = found.pop("i_file")
        found["file"] = None if i_file is None else self._native.file_path(i_file)
        found["variant"] = chosen
        return found

    def read(
        self, i: int, field: str, variant: int | None = None, *, original: bool = False
    ) -> bytes:
        """Returns the bytes of an item, decompressed if the container compresses them, after comparing their checksum.

        ``original``: for a JPEG that is stored as PLI ("pli-jpeg"), return the bytes of the JPEG file. A file that was a PLI before
        packing is its own original.
        """
        sample, i_field = self._sample(i), self._item_place(field)
        chosen = self._variant(sample, i_field, variant)
        item = self._native.item(sample, i_field, chosen)
        data = self._native.read(sample, i_field, chosen, 0, item["decoded_nbytes"])
        was_jpeg = item["form"] == "pli-jpeg" and not item["was_pli"]
        return _native.pli_to_jpeg(data) if original and was_jpeg else data

    def _head(self, i: int, field: str, nbytes: int) -> bytes:
        """Returns up to `nbytes` first bytes of an item. A folder's file is checked to be the listed one."""
        sample, i_field = self._sample(i), self._item_place(field)
        chosen = self._variant(sample, i_field, None)
        whole = self._native.item(sample, i_field, chosen)["decoded_nbytes"]
        return self._native.read(sample, i_field, chosen, 0, min(nbytes, whole))

    def __len__(self) -> int:
        return self._count if self._indices is None else len(self._indices)

    @overload
    def __getitem__(self, i: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, i: str) -> Any: ...

    @overload
    def __getitem__(self, i: slice | Sequence[int] | npt.NDArray[Any]) -> list[dict[str, Any]]: ...

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, str):
            return self.column(i)
        if not hasattr(i, "__index__") or getattr(i, "ndim", 0) > 0:
            return list(self.subset(i))
        sample = self._sample(i)
        return self._sample_of(sample)

    def __getitems__(self, batch: Any) -> Any:
        """Implements the batched access of torch's DataLoader: returns samples by number, or, for a ticket of a Loader's
        batch_sampler, the batch of that Loader."""
        return batch.redeem() if isinstance(batch, Ticket) else [self[i] for i in batch]

    def _sample_of(self, sample: int) -> notebook.Sample:
        values = {field.name: self._value(sample, i_field, field) for i_field, field in enumerate(self._fields)}
        kinds = {field.name: field.type for field in self._fields}
        return notebook.Sample(values, kinds, f"sample {sample}: {self._native.name(sample)}", self._about)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(len(self)):
            yield self[i]

    def _sample(self, i: int) -> int:
        """Returns the number in the whole data set of the sample at position i of this view. i may be negative."""
        sample, n = int(i.__index__()), len(self)
        if sample < 0:
            sample += n
        if not 0 <= sample < n:
            raise IndexError(f"sample {i} of {n} in {self._path}")
        return sample if self._indices is None else int(self._indices[sample])

    def _origin(self, sample: int) -> tuple[str, int | None, str]:
        """Returns for errors: the path of a sample's data set, the sample's number in a mixture's source, and words that name
        it."""
        return self._path, None, f"sample {sample}"

    def _item_place(self, field: str) -> int:
        place = self._place(field)
        if self._fields[place].type in ("int", "float"):
            raise ArgumentError(
                f"field {field!r} of type {self._fields[place].type} has values but no items: "
                f"ds.column({field!r}) has them all, ds[i][{field!r}] one",
                dataset=self._path,
            )
        return place

    def _place(self, field: str) -> int:
        place = self._places.get(field)
        if place is None:
            raise ArgumentError(
                f"no field {field!r} in {self._path}{_options.nearest(str(field), list(self._places))}",
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
        data = self._native.read(sample, i_field, variant, 0, item["decoded_nbytes"])
        if field.type in ("image", "mask"):
            return self._pixels(sample, field, item, data)
        if field.type == "text":
            return data.decode()
        if field.type == "json":
            return json.loads(data.decode()) if data else None
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
                pixels = image.decode(
                    data, item["form"], palette_indices=field.type == "mask", orientation=item["orientation"]
                )
            except PenstockError as error:
                # The decoder saw only bytes, so the data set and the sample are added to its error here.
                path, own, words = self._origin(sample)
                error.dataset, error.sample = path, sample
                error.source_sample = own
                if item["i_file"] is not None:
                    error.file = self._native.file_path(item["i_file"])
                where = f"{path}: {words} ({self._native.name(sample)}): "
                error.args = (where + str(error),)
                raise
        return pixels[..., 0] if field.type == "mask" and pixels.shape[2] == 1 else pixels

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {_type_text(field)}" for field in self._fields)
        n = f"{self._count}" if self._indices is None else f"{len(self)} of {self._count}"
        return f"Dataset({self._path!r}, {n} samples, {{{columns}}})"

    def _repr_html_(self) -> str:
        rows = [(field.name, _type_text(field), str(field.n_variants), f"{field.max_item_nbytes:,}") for field in self._fields]
        kind = {"packed": "data set", "folder": "folder", "mixture": "mixture"}.get(self._kind, f"{self._kind} files")
        title = f"{kind} {markup.plain(self._path, 200)}: {len(self):,} samples"
        return markup.framed(markup.table(title, ("field", "type", "variants", "largest item, bytes"), rows) + self._pictures())

    def _pictures(self) -> str:
        """Returns HTML with pictures of the first samples, for notebooks. Bad samples are left out."""
        if not any(field.type in ("image", "mask", "audio") for field in self._fields):
            return ""
        shown = []
        for i in range(min(len(self), notebook.MOST)):
            try:
                sample = self._sample_of(self._sample(i))
            except (PenstockError, OSError):
                continue
            label = self._about.label
            caption = "" if label is None else f" {notebook.caption(self._about, label, sample[label])}"
            shown.append(sample._shown(f"{i}{caption}", None))
        return "".join(shown)


def _view(dataset: Dataset, indices: npt.NDArray[np.uint64]) -> Dataset:
    """Returns a view of the open data set that shows the samples of these numbers."""
    view = object.__new__(type(dataset))
    view.__dict__.update(dataset.__dict__)
    view._indices = indices
    return view


def _reopened(
    kind: type[Dataset],
    arguments: tuple[Any, ...],
    indices: npt.NDArray[np.uint64] | None,
    token: tuple[str, bytes, bytes] | None = None,
) -> Dataset:
    """Unpickles a data set or view. Pickles of older versions have no token and fewer arguments."""
    later: list[Any] = [False, None, None]
    path, labels, allow_unreadable, masks, files, ignore_labels, split, fields = [*arguments, *later[len(arguments) - 5 :]]
    dataset = kind(
        path, labels=labels, allow_unreadable=allow_unreadable, masks=masks, files=files, ignore_labels=bool(ignore_labels),
        split=split, fields=fields,
    )  # fmt: skip
    if token is not None:
        _check_token(dataset, token)
    return dataset if indices is None else _view(dataset, indices)


def _check_token(dataset: Dataset, token: tuple[str, bytes, bytes]) -> None:
    """Raises StateError if this is not the data set that was pickled. Inodes and times are compared only on the same machine."""
    boot, of_bytes, listed = dataset._token()
    here, wanted = (of_bytes, token[1]) if boot == token[0] else (listed, token[2])
    if here != wanted:
        raise StateError(
            f"another data set, or a changed one, lies at this path than the one that was pickled: it has the identity "
            f"{here.hex()}, that one had {wanted.hex()}",
            dataset=dataset._path,
        )


def _mask_of(values: Any, n: int) -> npt.NDArray[np.bool_]:
    import numpy as np

    mask = np.asarray(values)
    if mask.shape != (n,) or mask.dtype.kind != "b":
        raise ArgumentError(f"a filter's mask is {n} bools, one per sample, not {mask.dtype} {mask.shape}")
    return mask


def _mixed(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Returns 64 pseudo-random bits for each number: a hash of (seed, number), the finalizer of splitmix64 applied twice."""
    import numpy as np

    words = [np.array([seed & (2**64 - 1)], np.uint64), numbers]
    keys = np.zeros(1, np.uint64)
    for word in words:
        keys = (keys ^ word) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
        keys ^= keys >> np.uint64(31)
    return keys


def _type_text(field: Field) -> str:
    if field.type == "array":
        shape = ", ".join(map(str, field.shape)) if field.shape else "..."
        classes = f", {field.n_classes} classes" if field.n_classes else ""
        return f"{field.dtype} ({shape}){classes}"
    if field.type == "int" and field.n_classes:
        return f"int, {field.n_classes} classes"
    return field.type


def _stored_array(field: Field, item: dict[str, Any], data: bytes) -> Any:
    import numpy as np

    if field.type != "array":
        return np.frombuffer(bytearray(data), "<f4").reshape(-1, 4 if field.type == "boxes" else 3)
    shape = item["shape"] or field.shape
    if field.dtype == "bfloat16":
        import torch  # numpy has no bfloat16

        return torch.frombuffer(bytearray(data), dtype=torch.bfloat16).reshape(shape)
    return np.frombuffer(bytearray(data), field.dtype).reshape(shape)


door(__name__, "penstock.dataset")
