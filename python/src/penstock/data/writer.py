"""Writes data sets, sample by sample."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import _native
from ..base import options as _options
from ..base.public import public
from ..errors import ArgumentError, PenstockError, in_field
from . import image
from .dataset import Dataset
from .pack_report import PackReport
from .schema import REQUIRED, Array, FieldSpec, Int, Json, Keypoints, Mask, spec, spec_on_disk

__all__ = ["Writer"]

Path = str | os.PathLike[str]
_Prepared = tuple[dict[str, Any], list[tuple[str, PenstockError]]]

CREATE, RESUME, APPEND = 0, 1, 2
KEPT_LISTED = 1000


class Writer:
    """Writes a data set, sample by sample. A crash loses only the samples since the last commit.

    ::

        with ps.Writer("train.pst", {"image": ps.Image(), "label": ps.Int(classes=names)}) as writer:
            for path, label in files:
                writer.write({"image": path, "label": label})

    Leaving the ``with`` block without an exception finishes the data set. After an exception, committed samples stay, and
    ``resume=True`` continues after them (``len(writer)`` samples are stored).

    Args:
        path: the directory to make; it must not exist, or must be empty.
        schema: fields by name: :class:`Image`, :class:`Int`, ... or shorthands ("image", "jpeg", "int",
            "float", "text", "json", "bytes", "array", "mask", "boxes", "keypoints", "audio"). May be
            left out with ``resume`` and ``append``.
        resume: continue an interrupted run, or begin if there is none.
        append: add to a finished data set.
        shard_size: begin a new file after this many bytes.
        commit_size: commit after every this many bytes.

    Only one thread at a time may call.
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
        self._specs = {name: spec(name, given) for name, given in (schema or {}).items()}
        self._native = _native.Writer(
            self._path,
            [{"name": name, **spec.describe()} for name, spec in self._specs.items()],
            APPEND if append else RESUME if resume else CREATE,
            _options.nbytes("shard_size", shard_size),
            _options.nbytes("commit_size", commit_size),
        )
        if not self._specs:
            known = self._known_classes()
            self._specs = {
                field["name"]: spec_on_disk(field, known.get(field["name"])) for field in self._native.fields()
            }
        for i_field, given in enumerate(self._specs.values()):
            if isinstance(given, (Int, Array)) and given.names is not None:
                self._native.set_class_names(i_field, given.names)
            if isinstance(given, Keypoints) and given.names is not None:
                self._native.set_class_names(i_field, given.names)
            if isinstance(given, Keypoints) and given.pairs:
                self._native.set_point_pairs(i_field, given.pair_bytes())
        self._finished = False
        self._n_kept_jpeg = 0
        self._kept_jpeg: list[dict[str, Any]] = []

    def _known_classes(self) -> dict[str, list[str]]:
        """Returns the class names of the finished data set, by field; an empty dict if there is no data set yet."""
        try:
            finished = Dataset(self._path)
        except PenstockError:
            return {}
        sizes = {field["name"]: field["n_classes"] for field in self._native.fields()}
        classed = (name for name, field in finished.fields.items() if field.n_classes)
        named = {name: finished.class_names(name) or [] for name in classed}
        # An interrupted append may have added classes. Their names are only in its journal, so such fields are left out.
        return {name: names for name, names in named.items() if len(names) == sizes[name]}

    def add_classes(self, field: str, names: Sequence[str]) -> None:
        """Adds classes to a field of a data set that is appended to. Stored labels keep their numbers.

        ``names`` are added behind the names that the field has; names that it already has are skipped. After an interruption, give
        the same names again.
        """
        given = self._specs.get(field)
        if not isinstance(given, (Int, Array)) or given.names is None:
            raise ArgumentError(f"{field!r} is no field with named classes", dataset=self._path)
        more = given.more([name for name in names if name not in given.names])
        if more.names != given.names:
            self._native.set_class_names(list(self._specs).index(field), more.names or [])
            self._specs[field] = more

    @property
    def path(self) -> str:
        """The directory of the data set, as it was given."""
        return self._path

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """The fields by name (a copy)."""
        return dict(self._specs)

    @property
    def n_kept_jpeg(self) -> int:
        """The number of JPEGs written with ``Image("pli-jpeg")`` that could not become smaller PLI and stay JPEG."""
        return self._n_kept_jpeg

    @property
    def kept_jpeg(self) -> list[dict[str, Any]]:
        """The first 1000 JPEGs that stay JPEG: name, field, and the reason (status, text, offset in the JPEG)."""
        return [dict(entry) for entry in self._kept_jpeg]

    def __len__(self) -> int:
        """The number of samples in the data set so far. A resumed run continues with this sample number."""
        return self._native.count()

    def __contains__(self, name: str) -> bool:
        """Returns True if a sample has that name."""
        return self._native.has(name)

    def write(self, sample: Mapping[str, Any], name: str | None = None) -> None:
        """Adds a sample: a value for each field. A bad sample raises an error; the writer can still be used.

        A field with ``missing`` may be left out, or be None. ``name`` must be unique; None: the sample's number, in twelve digits.
        """
        values, kept = self._prepare(sample)
        self._add(f"{len(self):012d}" if name is None else name, values, kept)

    def _prepare(self, sample: Mapping[str, Any]) -> _Prepared:
        """Converts the values of a sample to the bytes to store. Any thread may call."""
        required = [field for field, spec in self._specs.items() if spec.missing is REQUIRED]
        missing = [field for field in required if field not in sample]
        unknown = [field for field in sample if field not in self._specs]
        if missing or unknown:
            raise ArgumentError(
                f"a sample has the fields {', '.join(self._specs)}; missing: {missing}, "
                f"unknown: {unknown}",
                dataset=self._path,
            )
        values: dict[str, Any] = {}
        kept: list[tuple[str, PenstockError]] = []
        # Masks are last, because a missing mask gets the size of the sample's image.
        for field, kind in sorted(self._specs.items(), key=lambda item: isinstance(item[1], Mask)):
            reasons: list[PenstockError] = []
            try:
                if kind.missing is not REQUIRED and sample.get(field) is None and not self._is_null(kind, field, sample):
                    values[field] = kind.absent(self._image_size(kind, values))
                else:
                    values[field] = kind.variants(sample[field], reasons)
            except ArgumentError as error:
                raise ArgumentError(f"field {field!r}: {error}", dataset=self._path) from None
            except PenstockError as error:
                raise in_field(error, field) from None
            # raised when a value is converted to a number, text or array
            except (TypeError, ValueError, OverflowError) as error:
                raise ArgumentError(f"field {field!r}: {type(kind).__name__}: {error}", dataset=self._path) from None
            kept.extend((field, reason) for reason in reasons)
        return values, kept

    def _add(self, name: str, values: Mapping[str, Any], kept: Sequence[tuple[str, PenstockError]]) -> None:
        """Adds the values that :meth:`_prepare` made to the data set."""
        self._native.add(name, [values[field] for field in self._specs])
        self._n_kept_jpeg += len(kept)
        for field, reason in kept[: KEPT_LISTED - len(self._kept_jpeg)]:
            self._kept_jpeg.append(
                {"name": name, "field": field, "status": reason.status, "text": reason.text, "offset": reason.offset}
            )

    @staticmethod
    def _is_null(spec: FieldSpec, field: str, sample: Mapping[str, Any]) -> bool:
        """Whether the sample has JSON's null in this field, which is a value and not a missing one."""
        return isinstance(spec, Json) and field in sample

    def _image_size(self, spec: FieldSpec, values: Mapping[str, Any]) -> tuple[int, int] | None:
        """For a mask that is missing: returns height and width of the sample's first image, in the orientation that masks have."""
        if not isinstance(spec, Mask):
            return None
        for field, other in self._specs.items():
            if type(other).type == "image":
                value = values[field][0]
                if value.height:
                    return value.height, value.width
                head = image.probe(value.buffer, ignore_orientation=spec.made_for == "stored")
                return head.height, head.width
        raise ArgumentError("the sample has no image whose size the mask could have")

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
        """Packs a folder of images into the data set ``path``. It calls :func:`pack` with the arguments swapped."""
        from .pack import pack

        return pack(folder, path, **options)

    def commit(self) -> None:
        """Makes all added samples durable, so that a crash does not lose them."""
        self._native.commit()

    def finish(self) -> None:
        """Finishes the data set. Nothing can be written afterwards."""
        if not self._finished:
            self._native.finish()
            self._finished = True
        self._native.close()

    def close(self) -> None:
        """Frees the writer. Without :meth:`finish`, the data set can be resumed."""
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


public(__name__, "penstock.writer")
