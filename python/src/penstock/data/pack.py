"""Packs folders and data sets, changes data sets in place, and verifies them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from ..base import options as _options
from ..base.public import public
from ..errors import ArgumentError, from_parts
from . import image as _image
from . import packing as _packing
from . import progress as _opening
from .dataset import Dataset, Paths, Rules, mask_columns, member_rules, path_text
from .pack_report import BadSample, IndexReport, PackReport, Progress, VerifyReport, collector
from .schema import FieldSpec
from .sources import joined as _joined
from .sources import objects as _objects
from .writer import APPEND, CREATE, KEPT_LISTED, RESUME, Path

__all__ = ["index", "merge", "pack", "repack", "verify"]


def _form_numbers(forms: Sequence[str] | None) -> list[int]:
    return [0 if form == "original" else _image.form_number(form) for form in forms or ()]


def _one_path(source: Paths) -> str:
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentError("coco, voc, citypersons and the like take one folder of images")
    return os.fspath(source)


def _alone(text: str, others: Mapping[str, Any]) -> None:
    """Raises an error if the user gave arguments that have no meaning for this source."""
    if wrong := [name for name, value in others.items() if value]:
        raise ArgumentError(f"{text} {', '.join(wrong)}")


def pack(
    source: Paths | Any,
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
    yolo: bool = False,
    cvat: bool = False,
    labelme: bool = False,
    roboflow: bool = False,
    colours: Path | None = None,
    join: Path | None = None,
    croissant: bool = False,
    record_set: str | None = None,
    split: str | None = None,
    paint: Sequence[str] = (),
    bad_annotations: str = "raise",
    ignore_labels: bool = False,
    fields: Rules | None = None,
    schema: Mapping[str, FieldSpec | str | type[FieldSpec]] | None = None,
    part: tuple[int, int] | None = None,
    prepare: bool = False,
) -> PackReport:
    """Packs a folder of images, containers of other programs (tars, zips, tables), or another data set (as ``penstock repack``
    does).

    When a data set is packed again, the samples' order, names, labels and other fields stay the same.

    Args:
        source, destination: the folder, containers (as for :class:`Dataset`) or data set; and the directory to make. The source may
            also be a data set of your own: an object with ``__len__`` and ``__getitem__`` (docs/imports.md).
        forms: the forms in which each image is stored. "pli-jpeg": JPEGs become PLI of their own coefficients (smaller, the same
            pixels, the file can be restored), other files stay as they are. "original": the file's own bytes; for a data set, the
            bytes of the original file, so "pli-jpeg" becomes the JPEG again. Also "raw", "pli", "jpeg" (only from JPEGs and
            "pli-jpeg"), ... Several forms make variants, the preferred one first. None: "pli-jpeg", but an image that a data set
            stores in several forms keeps them all.
        mask_forms: the forms for masks; None: the forms that the source has.
        tier, effort, max_error: for the form "pli", as for :func:`penstock.pli.encode`: "fast", "small" or "dense" (None: "small"),
            1 to 5 (None: 3), 0 (lossless) to 127. Masks are always lossless. Images that are PLI already are kept, unless one of
            these arguments is given and they were encoded with other values.
        of_lossy: make "pli" also from JPEGs and lossy WebP, although that makes them larger. Otherwise such images are an error,
            unless max_error is given.
        labels, masks, allow_unreadable, ignore_labels: as for :class:`Dataset`.
        append: add to a finished data set. A sample name that exists already is an error. Forms and settings of "pli" are those of
            that data set unless they are given.
        resume: continue an interrupted run (also one with ``append``).
        on_error: "raise": stop at the first image that cannot be used. "skip": leave it out and list it in the report's ``bad``,
            and leave out files and folders that cannot be read, as with ``allow_unreadable``.
        verify_samples: decode every image and sound once, so that bad ones are found during packing.
        verify_pixels: the older name of ``verify_samples``.
        num_workers: number of threads; None: as many as the process may use. For a data set of your own: number of processes that
            read samples; None or 0: the calling thread reads them.
        progress: called from time to time with (samples done, all samples, bytes in, bytes out). If it returns true, the run is
            cancelled.
        made_for: "upright" or "stored": the picture that masks, boxes and keypoints were made for. It counts where an image has an
            EXIF orientation and the source does not state it: see :class:`Mask`. Not with ``append``.
        add_classes: with ``append``: classes of the source that the data set lacks are added behind its own. Otherwise they are an
            error.
        plan: a plan file of ``penstock plan``. For each class of samples, it says which shares are stored in which forms. In the
            order of the samples, each sample of a class gets the forms that are farthest behind their share. Samples of no class
            stay as they are. Not with ``forms``, ``tier`` or ``append``.
        resize: store images whose shorter side is longer than this after ``Resize(resize)``, upright, with the masks, boxes and
            keypoints of their sample. Other samples stay as they are. Resized images are stored as raw pixels if ``forms`` says
            "raw", else as PLI. A loader whose transforms begin with the same Resize delivers the same bits as from the whole
            images, in the images' own channels (or gray as RGB, or RGBA without alpha) and bits. Other channels or bits may differ
            by rounding, and other transforms see smaller images. The original pixels are lost. Not with ``plan`` or ``resume``.
        coco, voc, citypersons: ``coco`` is a file of COCO JSON, and ``source`` the folder of its images. ``voc`` or
            ``citypersons``: ``source`` has the layout of Pascal VOC (XML), or of CityPersons beside Cityscapes.
        yolo, cvat, labelme, roboflow: ``source`` is ``data.yaml`` of YOLO or its folder; an unpacked export of CVAT for images 1.1
            or its XML file; a folder of images with JSON files of Labelme; or an unpacked export of Roboflow.
        colours: ``source`` has images and colour masks. This is their colour table: "camvid", "voc", "ade", "ade150", or a file
            (CSV, JSON, YAML).
        join: a table (CSV, JSON lines, Parquet, Arrow) with a row for each sample of ``source``. A row names its sample, for a tar
            by the key. The table's columns become fields.
        croissant: ``source`` is MLCommons' croissant.json (1.0, 1.1), or its folder. The files that it names must lie there;
            nothing is downloaded.
        record_set: with ``croissant``: id of the record set to pack. None: the only record set with images, or the only one.
        split: pack the samples of one split, such as "train". With ``voc``, ``citypersons``, ``yolo``, ``cvat`` (its subset),
            ``roboflow`` and ``croissant``, and for containers of other programs. For a DatasetDict of ``datasets``, "all" packs all
            splits and adds a field ``split``.
        paint: with ``coco``, ``yolo``, ``cvat``, ``labelme`` and ``roboflow``: the masks to draw from polygons and run lengths:
            "mask" (classes) and "instances" (objects).
        bad_annotations: what happens with an annotation that cannot be stored, such as a box without area. "raise": its sample is a
            bad sample. "drop": the annotation is left out and listed in the report's ``dropped``.
        fields: for containers of other programs: as for :class:`Dataset`.
        schema: for a data set of your own: its fields, as for :class:`Writer`. None: they are derived from the first sample.
        part, prepare: ``part=(I, N)``, with I from 1, packs part I of N as ``penstock pack --part I/N`` does. ``prepare`` only
            makes the plan of shards. ``penstock.writer.merge`` completes both.

    docs/imports.md explains ``coco`` to ``record_set``, ``paint`` and ``bad_annotations``, and which arguments go together. To
    continue an interrupted run (also after Ctrl-C), call it with ``resume=True`` and otherwise the same arguments."""
    forms, mask_forms, paint = _options.words(forms), _options.words(mask_forms), _options.words(paint) or ()
    skip = _options.choice("on_error", on_error, ("raise", "skip")) == 1
    gives_pli = tier is not None or effort is not None or max_error != 0 or of_lossy
    drawn = [name for name, on in (("yolo", yolo), ("cvat", cvat), ("labelme", labelme), ("roboflow", roboflow)) if on]
    others = {
        "of_lossy": of_lossy, "labels": labels, "allow_unreadable": allow_unreadable, "append": append, "fields": fields,
        "ignore_labels": ignore_labels, "verify_samples": verify_samples or verify_pixels, "masks": masks,
        "add_classes": add_classes, "plan": plan, "resize": resize, "part": part, "prepare": prepare,
    }  # fmt: skip
    how: dict[str, Any] = {
        "resume": resume, "skip": skip, "num_workers": num_workers, "shard_size": shard_size, "commit_size": commit_size,
        "progress": progress,
    }  # fmt: skip
    annotated = {"coco": coco, "voc": voc, "citypersons": citypersons, **dict.fromkeys(drawn, True), "colours": colours,
                 "paint": paint, "bad_annotations": bad_annotations != "raise"}  # fmt: skip
    storing = _objects.Storing(forms, mask_forms, tier, effort, max_error, made_for)
    if croissant or record_set is not None:
        _alone("croissant goes without", {**others, **annotated, "schema": schema, "join": join})
        return _pack_croissant(croissant, source, os.fspath(destination), record_set, split, storing, **how)
    if join is not None:
        _alone("join goes without", {**others, **annotated, "schema": schema, "fields": None})
        opened = Dataset(source, split=split, fields=fields)
        return _joined.pack_joined(opened, os.fspath(join), os.fspath(destination), storing, **how)
    if _objects.is_object(source):
        _alone("a data set of your own goes without", {**others, **annotated})
        return _objects.pack_object(source, os.fspath(destination), schema, storing, make=None, split=split, **how)
    if schema is not None:
        raise ArgumentError("schema goes with a data set of your own: an object with __len__ and __getitem__")
    if coco is not None or colours is not None or voc or citypersons or drawn:
        _alone("pack, then change the data set: coco, voc and the like go without", others)
        files = [None if path is None else os.fspath(path) for path in (coco, colours)]
        read_by = (split, tuple(paint), bad_annotations, made_for)
        kept_as = (forms, mask_forms, tier, effort, max_error)
        kind = (files[0], voc, citypersons, drawn, files[1])
        return _pack_annotated(_one_path(source), os.fspath(destination), kind, read_by, kept_as, **how)
    if paint or bad_annotations != "raise":
        raise ArgumentError("paint and bad_annotations go with coco, voc or citypersons, yolo, cvat, labelme or roboflow")
    if gives_pli and not append and plan is None and resize is None and "pli" not in (*(forms or ()), *(mask_forms or ())):
        raise ArgumentError('tier, effort, max_error and of_lossy go with the form "pli"')
    opening = {"allow_unreadable": allow_unreadable or skip, "ignore_labels": bool(ignore_labels)}
    writing = {
        "mode": RESUME if resume else APPEND if append else CREATE,
        "shard_nbytes": _options.nbytes("shard_size", shard_size),
        "commit_nbytes": _options.nbytes("commit_size", commit_size),
    }
    options = _work(num_workers, verify_samples or verify_pixels, tier, effort, max_error, of_lossy) | {
        "made_for": _options.made_for(made_for),
        "add_classes": add_classes,
        "resize": 0 if resize is None else _options.count("resize", resize, 1, 65535),
        **_parted(part, prepare),
    }
    reading = (None if labels is None else os.fspath(labels), mask_columns(masks), split, member_rules(fields))
    storing_as = (_form_numbers(forms), _form_numbers(mask_forms), None if plan is None else os.fspath(plan))
    return _pack_files(path_text(source), os.fspath(destination), reading, storing_as, (options, writing, opening), progress, skip)


def _pack_croissant(croissant: bool, source: Any, *given: Any, **how: Any) -> PackReport:
    if not croissant:
        raise ArgumentError("record_set goes with croissant")
    from .croissant.source import pack_croissant

    return pack_croissant(_one_path(source), *given, **how)


def _work(
    num_workers: int | None, verify: bool, tier: str | None, effort: int | None, max_error: int, of_lossy: bool
) -> dict[str, Any]:
    """Returns the options of the C library that pack and repack have in common."""
    return {
        "num_workers": max(1, _options.workers(num_workers)),
        "verify_pixels": verify,
        "pli_tier": 0 if tier is None else _options.choice("tier", tier, _options.TIERS) + 1,
        "pli_effort": 0 if effort is None else _options.count("effort", effort, 1, 5),
        "pli_max_error": _options.count("max_error", max_error, 0, 127),
        "pli_of_lossy": of_lossy,
    }


def _pack_files(
    source: str,
    destination: str,
    reading: tuple[str | None, tuple[str, ...], str | None, Any],
    storing: tuple[list[int], list[int], str | None],
    how: tuple[dict[str, Any], dict[str, Any], dict[str, Any]],
    progress: Progress | None,
    skip: bool,
) -> PackReport:
    """Packs a source that the C library reads itself."""
    labels, masks, split, rules = reading
    forms, mask_forms, plan = storing
    bad: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    listed = collector(bad, None) if skip else None
    with _opening.shown() as told:
        report = _native.pack(
            source, destination, labels, masks, forms, mask_forms, *how, progress, listed, collector(kept, None, KEPT_LISTED),
            plan, split, rules, told,
        )  # fmt: skip
    return PackReport(**report, bad=bad, kept_jpeg=kept)


def _parted(part: tuple[int, int] | None, prepare: bool) -> dict[str, Any]:
    if part is None:
        return {"prepare": prepare}
    return {"prepare": prepare, "part": _options.count("part", part[0], 1, part[1]), "n_parts": part[1]}


def _pack_annotated(
    source: str,
    destination: str,
    kind: tuple[str | None, bool, bool, Sequence[str], str | None],
    reading: tuple[str | None, tuple[str, ...], str, str | None],
    storing: tuple[Sequence[str] | None, Sequence[str] | None, str | None, int | None, int],
    **how: Any,
) -> PackReport:
    from .annotations import given as _imports_given
    from .annotations import run

    split, paint, bad_annotations, made_for = reading
    forms, mask_forms, tier, effort, max_error = storing
    for name in paint:
        _options.choice("paint", name, _imports_given.PAINTS)
    if len(set(paint)) != len(paint):
        raise ArgumentError(f"paint names a field twice: {paint}")
    of_images = "pli" in (forms or ())
    paints = bool(paint) or kind[4] is not None
    of_masks = "pli" in (mask_forms or ()) or (paints and not mask_forms)
    if (max_error != 0 and not of_images) or ((tier is not None or effort is not None) and not (of_images or of_masks)):
        raise ArgumentError('tier, effort and max_error go with the form "pli", max_error with that of images')
    if tier is not None:
        _options.choice("tier", tier, _options.TIERS)
    effort = 3 if effort is None else _options.count("effort", effort, 1, 5)
    given = _imports_given.Given(
        split,
        paint,
        _options.choice("bad_annotations", bad_annotations, ("raise", "drop")) == 1,
        made_for,
        None if mask_forms is None else tuple(mask_forms),
        tier or "small",
        effort,
    )
    image = _packing.image_field(forms, tier, effort, max_error)
    found = run.open_source(source, given, *kind)
    return run.run(found, destination, {"image": image, **found.schema()}, given=given, **how)


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
    """Changes the forms in which a finished data set stores its images, in place (``penstock repack`` with one operand).

    Only samples that change and the shards that hold them are written. Order, names, labels and other fields stay. The data set is
    complete at any time: it has the old content until the last step. After an interruption, the same call continues. If all is done
    already, it does nothing. A :class:`Dataset` or :class:`Loader` that has the old state open keeps reading it.

    Args:
        path: the data set.
        plan, forms, mask_forms: the forms to store, as for :func:`pack`. At least one must be given; not ``plan`` with ``forms``.
        tier, effort, max_error, of_lossy, verify_samples, verify_pixels, num_workers, commit_size, progress: as for
            :func:`pack`.

    A bad image ends the call. So does a full disk; then everything that was written is removed.
    """
    forms, mask_forms = _options.words(forms), _options.words(mask_forms)
    kept: list[dict[str, Any]] = []
    if (tier is not None or effort is not None or max_error != 0 or of_lossy) and plan is None and \
            "pli" not in (*(forms or ()), *(mask_forms or ())):
        raise ArgumentError('tier, effort, max_error and of_lossy go with the form "pli"')
    options = _work(num_workers, verify_samples or verify_pixels, tier, effort, max_error, of_lossy)
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
        collector(kept, None, KEPT_LISTED),
        None if plan is None else os.fspath(plan),
        None,
        (),
        None,
    )
    return PackReport(**report, bad=[], kept_jpeg=kept)


def merge(path: Path) -> PackReport:
    """Joins what the parts of a pack (``part``) have packed into ``path`` to one data set, as ``penstock merge`` does.

    It may be called again; then it does nothing. IncompleteError: planned shards are missing.
    """
    return PackReport(**_native.merge(os.fspath(path)), notices=[], bad=[], kept_jpeg=[])


def index(
    path: Paths,
    *,
    sums: bool = False,
    check: bool = False,
    split: str | None = None,
    fields: Rules | None = None,
    part: tuple[int, int] | None = None,
    merge: bool = False,
) -> IndexReport:
    """Makes or checks the index of containers of other programs (tars, zips, tables) that are read in place, as ``penstock index``
    does.

    Opening the data also makes the index. It lies in the data's folder ``.penstock``, or below ``PENSTOCK_CACHE_DIR``.

    Args:
        path: the files, as for :class:`Dataset`. A plain folder is only opened.
        sums: read all items, so that the index has a checksum of each. The fleet needs the checksums.
        check: read all files again, and compare their content with the index.
        split, fields: as for :class:`Dataset`. All parts and the merge need the same values, and the same ``sums``.
        part: (i, n): index part i of n of the files, counted from 1. The result is stored where the index will lie.
        merge: make the index from the results of all parts. It has the same bytes as that of one process.

    Raises IncompleteError if some files are in no part yet. StateError: a file changed, or its part was made with other options.
    """
    with _opening.shown() as told:
        report = _native.index(
            path_text(path), split, member_rules(fields), bool(sums), bool(check), *(part or (0, 0)), bool(merge), told
        )
    return IndexReport(**report)


def verify(
    path: Paths,
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
    split: str | None = None,
    fields: Rules | None = None,
    part: tuple[int, int] | None = None,
) -> VerifyReport:
    """Reads a whole data set and compares every checksum. Faults are listed in the report, not raised.

    Args:
        path: the data set, or a plain folder; the images of a folder are decoded.
        decode: also decode images and compare the checksums of their pixels.
        restore: restore the JPEG files of "pli-jpeg" and compare their checksums.
        num_workers: threads; None: as many as the process may use.
        progress: as for :func:`pack`.
        on_finding: called with the sample's name and a dict that describes the finding. If it returns true, the run ends.
        labels, masks, allow_unreadable, ignore_labels: for a plain folder, as for :class:`Dataset`.
        split, fields: for containers of other programs, as for :class:`Dataset`.
        part: (i, n): check part i of n, from 1, as ``penstock verify --part`` does; see :class:`VerifyReport`.
    """
    findings: list[dict[str, Any]] = []
    text = path_text(path)
    with _opening.shown() as told:
        error, counts = _native.verify(
            text,
            None if labels is None else os.fspath(labels),
            mask_columns(masks),
            allow_unreadable,
            bool(ignore_labels),
            split,
            member_rules(fields),
            decode,
            restore,
            max(1, _options.workers(num_workers)),
            *(part or (0, 0)),
            progress,
            collector(findings, on_finding),
            told,
        )
    if error is not None and (not findings or (counts["n_samples"] == 0 and not os.path.exists(text))):
        raise from_parts(error)  # verification was not possible at all
    return VerifyReport(ok=error is None, **counts, findings=findings)


public(__name__, "penstock.writer")
