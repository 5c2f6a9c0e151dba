"""Writes and verifies data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from . import _image, _native, _options
from ._schema import (
    REQUIRED,
    Array,
    Audio,
    Boxes,
    Bytes,
    FieldSpec,
    Float,
    Image,
    Int,
    Json,
    Keypoints,
    Mask,
    Text,
    spec,
    spec_on_disk,
)
from .dataset import Dataset, mask_columns
from .errors import ArgumentError, PenstockError

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

_Prepared = tuple[dict[str, Any], list[tuple[str, PenstockError]]]

_CREATE, _RESUME, _APPEND = 0, 1, 2
_KEPT_LISTED = 1000


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
        self._specs = {name: spec(name, given) for name, given in (schema or {}).items()}
        self._native = _native.Writer(
            self._path,
            [{"name": name, **spec.describe()} for name, spec in self._specs.items()],
            _APPEND if append else _RESUME if resume else _CREATE,
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
        """Returns the class names that the finished data set has, by field; nothing if there is none yet."""
        try:
            finished = Dataset(self._path)
        except PenstockError:
            return {}
        sizes = {field["name"]: field["n_classes"] for field in self._native.fields()}
        classed = (name for name, field in finished.fields.items() if field.n_classes)
        named = {name: finished.class_names(name) or [] for name in classed}
        # An interrupted append may have added classes; their names are in its journal alone.
        return {name: names for name, names in named.items() if len(names) == sizes[name]}

    def add_classes(self, field: str, names: Sequence[str]) -> None:
        """Adds classes to a field of a data set that is appended to. Labels that are stored keep their numbers.

        ``names`` come behind the names that the field has; those that it has already are left out. After an
        interruption give the same names again.
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
        """The fields by name; a copy."""
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

        A field of the schema that says what is ``missing`` may be left out, or be None. ``name`` must be unique; None:
        the sample's number, in twelve digits.
        """
        values, kept = self._prepare(sample)
        self._add(f"{len(self):012d}" if name is None else name, values, kept)

    def _prepare(self, sample: Mapping[str, Any]) -> _Prepared:
        """Makes what is stored of a sample; any thread."""
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
        # Masks come last, because one that is missing gets the size of the sample's image.
        for field, spec in sorted(self._specs.items(), key=lambda item: isinstance(item[1], Mask)):
            reasons: list[PenstockError] = []
            try:
                if spec.missing is not REQUIRED and sample.get(field) is None and not self._is_null(spec, field, sample):
                    values[field] = spec.absent(self._image_size(spec, values))
                else:
                    values[field] = spec.variants(sample[field], reasons)
            except ArgumentError as error:
                raise ArgumentError(f"field {field!r}: {error}", dataset=self._path) from None
            kept.extend((field, reason) for reason in reasons)
        return values, kept

    def _add(self, name: str, values: Mapping[str, Any], kept: Sequence[tuple[str, PenstockError]]) -> None:
        """Adds what :meth:`_prepare` made."""
        self._native.add(name, [values[field] for field in self._specs])
        self._n_kept_jpeg += len(kept)
        for field, reason in kept[: _KEPT_LISTED - len(self._kept_jpeg)]:
            self._kept_jpeg.append(
                {"name": name, "field": field, "status": reason.status, "text": reason.text, "offset": reason.offset}
            )

    @staticmethod
    def _is_null(spec: FieldSpec, field: str, sample: Mapping[str, Any]) -> bool:
        """True if the sample has the value null of JSON, which is one."""
        return isinstance(spec, Json) and field in sample

    def _image_size(self, spec: FieldSpec, values: Mapping[str, Any]) -> tuple[int, int] | None:
        """Returns height and width of the sample's first image, for a mask that is missing; as the mask has them."""
        if not isinstance(spec, Mask):
            return None
        for field, other in self._specs.items():
            if type(other).type == "image":
                value = values[field][0]
                if value.height:
                    return value.height, value.width
                head = _image.probe(value.buffer, ignore_orientation=spec.made_for == "stored")
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
    ``n_resized`` samples have smaller images than the source (``resize``). ``dropped`` has a dict, of ``name`` (the sample,
    None: no sample of the source) and ``text``, for each annotation that ``bad_annotations="drop"`` left out.
    The four before it are of :func:`repack`: ``n_changed`` samples were written in other forms, ``n_kept_files`` of ``n_files``
    shards stay as they are; ``waits``: old shards are left because somebody reads the old state, and the next
    :func:`repack` or append removes them.
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
    n_changed: int
    n_kept_files: int
    n_files: int
    waits: bool
    n_resized: int = 0
    dropped: Sequence[dict[str, Any]] = ()


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
    verify_samples: bool = False,
    verify_pixels: bool = False,
    num_workers: int | None = None,
    shard_size: int | str = "1GiB",
    commit_size: int | str = "256MiB",
    progress: Progress | None = None,
    masks: Sequence[str] = (),
    made_for: str | None = None,
    add_classes: bool = False,
    plan: Path | None = None,
    resize: int | None = None,
    coco: Path | None = None,
    voc: bool = False,
    citypersons: bool = False,
    split: str | None = None,
    paint: Sequence[str] = (),
    bad_annotations: str = "raise",
    ignore_labels: bool = False,
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
        labels, masks, allow_unreadable, ignore_labels: as for :class:`Dataset`.
        append: add to a finished data set. A name that exists already is an error. Forms and settings of "pli" are
            those of that data set unless they are given.
        resume: continue an interrupted run (also one with ``append``).
        on_error: "raise" stops at the first image that cannot be used; "skip" leaves it out and lists it in the
            report's ``bad``, and leaves out files and folders that cannot be read, as with ``allow_unreadable``.
        verify_samples: decode every image and sound once, so that bad ones are found now.
        verify_pixels: the older name of ``verify_samples``.
        num_workers: threads; None: as many as the process may use.
        progress: called now and then with (samples done, samples in all, bytes in, bytes out). If it returns true, the
            run is cancelled.
        made_for: "upright" or "stored": the picture that masks, boxes and keypoints were made for, where an image has
            an EXIF orientation and the source does not state it: see :class:`Mask`. Not when appending.
        add_classes: with ``append``: classes of the source that the data set does not have are added behind its own.
            Otherwise they are an error.
        plan: a plan file of ``penstock plan``: for classes of samples the shares that are stored in certain forms. Each
            sample of a class gets the forms that are farthest behind their share, in the order of samples. Samples of no
            class stay as they are. Goes without ``forms`` and ``tier``; not when appending.
        resize: store images whose shorter side is longer than this after ``Resize(resize)``, upright, with the masks,
            boxes and keypoints of their sample; others stay as they are. Resized images are raw pixels where ``forms``
            says "raw", and PLI where it says anything else. A loader whose transforms begin with the same Resize
            delivers the same bits as from the whole images, in the images' own channels (or gray as RGB, or RGBA
            without alpha) and bits; other channels or bits may differ by rounding, and other transforms see smaller
            images. The original pixels are not kept. Not with ``plan`` or ``resume``.
        coco: a file of COCO JSON; ``source`` is the folder of its images.
        voc, citypersons: ``source`` has the layout of Pascal VOC (XML), or of CityPersons beside Cityscapes.
        split: with ``voc`` and ``citypersons``: the samples of one split, such as "train".
        paint: with ``coco``: "mask" (classes) and "instances" (objects) are drawn from polygons and run lengths.
        bad_annotations: an annotation that cannot be stored, such as a box without area: "raise" makes its sample a bad
            one, "drop" leaves it out and lists it in the report's ``dropped``.

    The last six are explained in docs/imports.md, with the fields that they give. They go with ``forms``, ``mask_forms``,
    ``tier``, ``effort``, ``max_error``, ``made_for``, ``resume``, ``on_error``, ``num_workers``, ``shard_size``,
    ``commit_size`` and ``progress``.

    To continue an interrupted run (also after Ctrl-C), call it with ``resume=True`` and otherwise the same arguments.
    """
    forms, mask_forms, paint = _options.words(forms), _options.words(mask_forms), _options.words(paint) or ()
    gives_pli = tier is not None or effort is not None or max_error != 0 or of_lossy
    if coco is not None or voc or citypersons:
        others = {
            "of_lossy": of_lossy, "labels": labels, "allow_unreadable": allow_unreadable, "append": append,
            "ignore_labels": ignore_labels, "verify_samples": verify_samples or verify_pixels, "masks": masks,
            "add_classes": add_classes, "plan": plan, "resize": resize,
        }  # fmt: skip
        wrong = [name for name, value in others.items() if value]
        if wrong:
            raise ArgumentError(f"coco, voc and citypersons go without {', '.join(wrong)}: pack, then change the data set")
        return _pack_annotated(
            os.fspath(source),
            os.fspath(destination),
            (None if coco is None else os.fspath(coco), voc, citypersons),
            (split, tuple(paint), bad_annotations, made_for),
            (forms, mask_forms, tier, effort, max_error),
            resume=resume,
            skip=_options.choice("on_error", on_error, ("raise", "skip")) == 1,
            num_workers=num_workers,
            shard_size=shard_size,
            commit_size=commit_size,
            progress=progress,
        )
    if split is not None or paint or bad_annotations != "raise":
        raise ArgumentError("split, paint and bad_annotations go with coco, voc or citypersons")
    if gives_pli and not append and plan is None and resize is None and "pli" not in (*(forms or ()), *(mask_forms or ())):
        raise ArgumentError('tier, effort, max_error and of_lossy go with the form "pli"')
    skip = _options.choice("on_error", on_error, ("raise", "skip")) == 1
    bad: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    writing = {
        "mode": _RESUME if resume else _APPEND if append else _CREATE,
        "shard_nbytes": _options.nbytes("shard_size", shard_size),
        "commit_nbytes": _options.nbytes("commit_size", commit_size),
    }
    opening = {"allow_unreadable": allow_unreadable or skip, "ignore_labels": bool(ignore_labels)}
    options = {
        "num_workers": max(1, _options.workers(num_workers)),
        "verify_pixels": verify_samples or verify_pixels,
        "pli_tier": 0 if tier is None else _options.choice("tier", tier, _options.TIERS) + 1,
        "pli_effort": 0 if effort is None else _options.count("effort", effort, 1, 5),
        "pli_max_error": _options.count("max_error", max_error, 0, 127),
        "pli_of_lossy": of_lossy,
        "made_for": _options.made_for(made_for),
        "add_classes": add_classes,
        "resize": 0 if resize is None else _options.count("resize", resize, 1, 65535),
    }
    report = _native.pack(
        os.fspath(source),
        os.fspath(destination),
        None if labels is None else os.fspath(labels),
        mask_columns(masks),
        _form_numbers(forms),
        _form_numbers(mask_forms),
        options,
        writing,
        opening,
        progress,
        _collector(bad, None) if skip else None,
        _collector(kept, None, _KEPT_LISTED),
        None if plan is None else os.fspath(plan),
    )
    return PackReport(**report, bad=bad, kept_jpeg=kept)


def _pack_annotated(
    source: str,
    destination: str,
    kind: tuple[str | None, bool, bool],
    reading: tuple[str | None, tuple[str, ...], str, str | None],
    storing: tuple[Sequence[str] | None, Sequence[str] | None, str | None, int | None, int],
    **how: Any,
) -> PackReport:
    from . import _imports

    split, paint, bad_annotations, made_for = reading
    forms, mask_forms, tier, effort, max_error = storing
    for name in paint:
        _options.choice("paint", name, _imports.PAINTS)
    if len(set(paint)) != len(paint):
        raise ArgumentError(f"paint names a field twice: {paint}")
    of_images = "pli" in (forms or ())
    of_masks = "pli" in (mask_forms or ()) or (bool(paint) and not mask_forms)
    if (max_error != 0 and not of_images) or ((tier is not None or effort is not None) and not (of_images or of_masks)):
        raise ArgumentError('tier, effort and max_error go with the form "pli", max_error with that of images')
    if tier is not None:
        _options.choice("tier", tier, _options.TIERS)
    effort = 3 if effort is None else _options.count("effort", effort, 1, 5)
    given = _imports.Given(
        split,
        paint,
        _options.choice("bad_annotations", bad_annotations, ("raise", "drop")) == 1,
        made_for,
        None if mask_forms is None else tuple(mask_forms),
        tier or "small",
        effort,
    )
    image = _imports.image_field(forms, tier, effort, max_error)
    found = _imports.open_source(source, given, *kind)
    return _imports.run(found, destination, {"image": image, **found.schema()}, given=given, **how)


def repack(
    path: Path,
    *,
    plan: Path | None = None,
    forms: Sequence[str] | None = None,
    mask_forms: Sequence[str] | None = None,
    tier: str | None = None,
    effort: int | None = None,
    max_error: int = 0,
    of_lossy: bool = False,
    verify_samples: bool = False,
    verify_pixels: bool = False,
    num_workers: int | None = None,
    commit_size: int | str = "256MiB",
    progress: Progress | None = None,
) -> PackReport:
    """Changes in which forms a finished data set stores its images, in place (``penstock repack`` with one operand).

    Only samples that must change are written anew, and only shards that hold one of them. Order, names, labels and other
    fields stay. The data set is whole at any time: it has the old content until the last step. After an interruption the
    same call goes on; where all is done, as the last change, it has nothing to do. A :class:`Dataset` or :class:`Loader`
    that has the old state open goes on reading it.

    Args:
        path: the data set.
        plan, forms, mask_forms: what to store, as for :func:`pack`; one of them must be given, and ``forms`` not with
            ``plan``.
        tier, effort, max_error, of_lossy, verify_samples, verify_pixels, num_workers, commit_size, progress: as for
            :func:`pack`.

    A bad image ends the call, and so does a full disk, after which nothing is left of what was written.
    """
    forms, mask_forms = _options.words(forms), _options.words(mask_forms)
    kept: list[dict[str, Any]] = []
    if (tier is not None or effort is not None or max_error != 0 or of_lossy) and plan is None and \
            "pli" not in (*(forms or ()), *(mask_forms or ())):
        raise ArgumentError('tier, effort, max_error and of_lossy go with the form "pli"')
    options = {
        "num_workers": max(1, _options.workers(num_workers)),
        "verify_pixels": verify_samples or verify_pixels,
        "pli_tier": 0 if tier is None else _options.choice("tier", tier, _options.TIERS) + 1,
        "pli_effort": 0 if effort is None else _options.count("effort", effort, 1, 5),
        "pli_max_error": _options.count("max_error", max_error, 0, 127),
        "pli_of_lossy": of_lossy,
    }
    report = _native.pack(
        os.fspath(path),
        None,
        None,
        (),
        _form_numbers(forms),
        _form_numbers(mask_forms),
        options,
        {"commit_nbytes": _options.nbytes("commit_size", commit_size)},
        {},
        progress,
        None,
        _collector(kept, None, _KEPT_LISTED),
        None if plan is None else os.fspath(plan),
    )
    return PackReport(**report, bad=[], kept_jpeg=kept)


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
    ignore_labels: bool = False,
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
        labels, masks, allow_unreadable, ignore_labels: for a plain folder, as for :class:`Dataset`.
    """
    findings: list[dict[str, Any]] = []
    error, counts = _native.verify(
        os.fspath(path),
        None if labels is None else os.fspath(labels),
        mask_columns(masks),
        allow_unreadable,
        bool(ignore_labels),
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
