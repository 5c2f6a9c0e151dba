"""Packs annotated data sets in foreign formats: COCO JSON, Pascal VOC, CityPersons. A module for each format reads its
files. This one has what they share, and the packing loop, whose threads prepare samples ahead of a single writer."""

from __future__ import annotations

import math
import os
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from . import _image, _options
from ._files import read_file, unreadable
from ._schema import FieldSpec, Image, Mask
from .errors import (
    ArgumentError,
    CancelledError,
    CorruptError,
    ExistsError,
    LimitError,
    NotFoundError,
    PenstockError,
    StateError,
    StorageError,
    UnsupportedError,
    in_file,
)

if TYPE_CHECKING:
    from .writer import PackReport, Progress, Writer

PAINTS = ("mask", "instances")
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".pli")


def is_image_name(name: str) -> bool:
    """True if a folder of images would take a file of that name."""
    return name.lower().endswith(_EXTENSIONS)


class AnnotationError(CorruptError):
    """An annotation that cannot be stored."""


@dataclass
class Given:
    """What a source is read by."""

    split: str | None = None
    paint: tuple[str, ...] = ()
    drop: bool = False
    made_for: str | None = None
    mask_form: tuple[str, ...] | None = None
    tier: str = "small"
    effort: int = 3

    def mask(self, form: str) -> Mask:
        """Returns the field of a mask, which is stored in `form` unless another one is asked for."""
        forms = self.mask_form or (form,)
        if "pli" not in forms:
            return Mask(forms, self.made_for)
        return Mask(forms, self.made_for, tier=self.tier, effort=self.effort)


@dataclass
class Drops:
    """The annotations of one sample that are left out, or the rule that the first one is an error."""

    allowed: bool
    listed: list[str] = field(default_factory=list)

    def add(self, error: AnnotationError) -> None:
        if not self.allowed:
            raise error
        self.listed.append(str(error))


class Source(Protocol):
    """An annotated data set."""

    folder: str
    notices: list[dict[str, Any]]
    early: Drops  # what was left out of the files as a whole

    def schema(self) -> dict[str, FieldSpec]:
        """Fields other than `image`."""

    def names(self) -> list[str]:
        """The samples: paths of their images within the folder."""

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        """Values of the fields of `schema`; any thread. Raises PenstockError if the sample cannot be stored."""


def tidy_path(name: Any) -> str | None:
    """Returns the normalised path within the folder, which names the sample, or None if it leads out of the folder."""
    if not isinstance(name, str) or name.startswith("/") or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    try:
        "/".join(parts).encode()
    except UnicodeEncodeError:
        return None
    return None if not parts or ".." in parts else "/".join(parts)


def number(value: Any) -> float | None:
    """Returns a finite number as float; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """Returns a whole number as int, also of a float such as 48.0; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def is_text(value: Any) -> bool:
    """True for a text that a data set can hold as a name."""
    if not isinstance(value, str) or not 0 < len(value) < 4096 or any(unicodedata.category(c) == "Cc" for c in value):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def box_problem(box: Sequence[float], height: int, width: int) -> str | None:
    """Returns what is wrong with x0, y0, x1, y1 on an image; None: nothing."""
    import numpy as np

    with np.errstate(over="ignore"):
        x0, y0, x1, y1 = (float(side) for side in np.asarray(box, np.float32))
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        return "is not finite"
    if x0 >= x1 or y0 >= y1:
        return "has no area"
    if x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height:
        return f"lies outside of the image ({width} x {height} pixels)"
    return None


def size_problem(stated: Sequence[Any], height: int, width: int, made_for: str | None) -> str | None:
    """Returns what is wrong with a stated height and width of an image of these sides; None: nothing."""
    if tuple(stated) == (height, width):
        return None
    text = f"is {stated[1]!r} x {stated[0]!r} pixels there, its file has {width} x {height}"
    if tuple(stated) != (width, height):
        return text
    other, when = ("upright", "after") if made_for == "stored" else ("stored", "before")
    return (f"{text}; if the annotations are for the {other} picture, {when} its EXIF orientation has turned it, say "
            f'made_for="{other}" (--made-for {other})')


def boxes_array(boxes: Sequence[Sequence[float]]) -> Any:
    import numpy as np

    return np.array(boxes, np.float32).reshape(-1, 4)


def listed(folder: str, below: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Gives the files below the folder, as paths within it, sorted; names that begin with a point are left out. Links are
    followed, but not to a folder that this one lies in (`above`: device and inode of these)."""
    root = os.path.join(folder, below)
    try:
        place = os.stat(root)
        here = (place.st_dev, place.st_ino)
        entries = [] if here in above else sorted(os.scandir(root), key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise unreadable(error, root, "folder") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{below}{entry.name}"
        if entry.is_dir():
            yield from listed(folder, path + "/", above | {here})
        else:
            yield path


def by_bytes(names: Sequence[str]) -> list[str]:
    """Sorts by the bytes of UTF-8, as folders are."""
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))


@dataclass
class _Counts:
    n_samples: int = 0
    n_bad: int = 0
    n_resumed: int = 0
    nbytes_in: int = 0
    nbytes_out: int = 0
    n_pli_jpeg: int = 0
    jpeg_nbytes: int = 0
    pli_jpeg_nbytes: int = 0
    n_kept_jpeg: int = 0
    kept_jpeg_nbytes: int = 0


@dataclass
class _Ready:
    """A sample on its way to the writer."""

    name: str
    values: dict[str, Any]
    kept: list[tuple[str, PenstockError]]
    dropped: list[str]
    nbytes: int
    form: str


def _prepare(source: Source, writer: Writer, name: str, made_for: str | None, drop: bool) -> _Ready:
    path = os.path.join(source.folder, name)
    data = read_file(path, "image")
    try:
        head = _image.probe(data, ignore_orientation=made_for == "stored")
        drops = Drops(drop)
        sample = source.sample(name, head.height, head.width, drops)
        values, kept = writer._prepare({"image": data, **sample})
    except PenstockError as error:
        raise in_file(error, path) from None
    return _Ready(name, values, kept, drops.listed, len(data), head.form)


def _in_order(
    pool: ThreadPoolExecutor, make: Callable[[str], _Ready], names: Iterator[str], window: int
) -> Iterator[tuple[str, Future[_Ready]]]:
    """Gives the samples in order, while the pool works on the next ones."""
    under_way: deque[tuple[str, Future[_Ready]]] = deque()
    for name in names:
        under_way.append((name, pool.submit(make, name)))
        if len(under_way) == window:
            yield under_way.popleft()
    yield from under_way


class _DiskError(StorageError):
    """The destination cannot be written."""


# What may be wrong with a sample alone.
_SAMPLE_FAULTS = (ArgumentError, CorruptError, ExistsError, LimitError, NotFoundError, StorageError, UnsupportedError)


class _Run:
    """Progress of a packing run: samples stored, samples refused, samples left."""

    def __init__(self, source: Source, writer: Writer, skip: bool, progress: Progress | None) -> None:
        self.source, self.writer, self.skip, self.progress = source, writer, skip, progress
        self.counts = _Counts()
        self.names = by_bytes(source.names())
        self.bad: list[dict[str, Any]] = []
        self.dropped: list[dict[str, Any]] = [{"name": None, "text": text} for text in source.early.listed]
        self._stored = [name in writer for name in self.names]
        if sum(self._stored) != len(writer):
            raise ArgumentError(
                "the unfinished data set holds samples that the source does not have: it changed since; remove the data "
                "set and begin anew",
                dataset=writer.path,
            )
        self._n_passed = max((i + 1 for i, is_stored in enumerate(self._stored) if is_stored), default=0)

    def todo(self) -> Iterator[str]:
        for i, name in enumerate(self.names):
            if self._stored[i]:
                self.counts.n_resumed += 1
                self.counts.n_samples += 1
            else:
                yield name

    def take(self, name: str, ready: Future[_Ready], place: int) -> None:
        """Adds a sample, or notes that it is a bad one."""
        try:
            self._add(ready.result(), place)
        except _SAMPLE_FAULTS as error:
            if not self.skip or isinstance(error, _DiskError):
                raise
            self.counts.n_bad += 1
            parts = ("status", "text", "room", "dataset", "sample", "file", "offset", "codec", "os_error")
            self.bad.append({**{part: getattr(error, part) for part in parts}, "message": str(error), "name": name})

    def _add(self, ready: _Ready, place: int) -> None:
        if place < self._n_passed:
            raise StateError(
                f"sample {ready.name!r} was left out before the interruption and is good now: its place is past; remove the "
                "data set and begin anew",
                dataset=self.writer.path,
            )
        try:
            self.writer._add(ready.name, ready.values, ready.kept)
        except StorageError as error:
            raise _DiskError(str(error), status=error.status, text=error.text, file=error.file) from error
        except PenstockError as error:
            raise in_file(error, os.path.join(self.source.folder, ready.name)) from None
        counts = self.counts
        counts.n_samples += 1
        counts.nbytes_in += ready.nbytes
        counts.nbytes_out += sum(
            memoryview(value.buffer).nbytes for values in ready.values.values() for value in values if value is not None
        )
        self.dropped.extend({"name": ready.name, "text": text} for text in ready.dropped)
        for value in ready.values["image"]:
            if ready.form == "jpeg" and value.form == _image.form_number("pli-jpeg"):
                counts.n_pli_jpeg += 1
                counts.jpeg_nbytes += ready.nbytes
                counts.pli_jpeg_nbytes += len(value.buffer)
        if ready.kept:
            counts.n_kept_jpeg += 1
            counts.kept_jpeg_nbytes += ready.nbytes

    def tell(self) -> None:
        counts = self.counts
        done = counts.n_samples + counts.n_bad
        if self.progress is not None and self.progress(done, len(self.names), counts.nbytes_in, counts.nbytes_out):
            raise CancelledError(f"cancelled after {done} of {len(self.names)} samples", dataset=self.writer.path)


def run(
    source: Source,
    destination: str,
    schema: dict[str, FieldSpec],
    *,
    given: Given,
    resume: bool,
    skip: bool,
    num_workers: int | None,
    shard_size: int | str,
    commit_size: int | str,
    progress: Progress | None,
) -> PackReport:
    """Packs the source. Samples stand in the byte order of their names, whatever `num_workers`."""
    from .writer import PackReport, Writer

    n_threads = max(1, _options.workers(num_workers))
    if not source.names():
        raise NotFoundError(f"{source.folder!r}: no sample is annotated", dataset=source.folder)
    writer = Writer(destination, schema, resume=resume, shard_size=shard_size, commit_size=commit_size)
    with writer, ThreadPoolExecutor(n_threads, thread_name_prefix="penstock-import") as pool:
        work = _Run(source, writer, skip, progress)
        places = {name: i for i, name in enumerate(work.names)}
        try:
            for name, ready in _in_order(
                pool, lambda name: _prepare(source, writer, name, given.made_for, given.drop), work.todo(), 4 * n_threads
            ):
                work.take(name, ready, places[name])
                work.tell()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        if not work.counts.n_samples:
            raise NotFoundError(f"none of the {len(work.names)} samples could be stored", dataset=source.folder)
    counts = work.counts
    return PackReport(
        **{name: getattr(counts, name) for name in _Counts.__dataclass_fields__},
        n_skipped=0,
        n_restored_jpeg=0,
        restored_pli_jpeg_nbytes=0,
        restored_jpeg_nbytes=0,
        n_not_original=0,
        notices=source.notices,
        bad=work.bad,
        kept_jpeg=writer.kept_jpeg,
        n_changed=0,
        n_kept_files=0,
        n_files=0,
        waits=False,
        dropped=work.dropped,
    )


def image_field(
    forms: Sequence[str] | None, tier: str | None, effort: int | None, max_error: int
) -> Image:
    """Returns the field `image` as `pack` would store it."""
    named = tuple(forms) if forms else ("pli-jpeg",)
    if "pli" not in named:
        return Image(named)
    return Image(named, tier=tier or "small", effort=3 if effort is None else effort, max_error=max_error)


def open_source(
    folder: str, given: Given, coco: str | None, voc: bool, citypersons: bool
) -> Source:
    """Reads the annotations."""
    if (coco is not None) + voc + citypersons != 1:
        raise ArgumentError("one of coco, voc and citypersons says what the annotations are")
    if given.split is not None and coco is not None:
        raise ArgumentError("split goes with voc and citypersons: a file of COCO is one split")
    if given.paint and coco is None:
        raise ArgumentError("paint goes with coco: the others have no polygons")
    if coco is not None:
        from ._imports_coco import Coco

        return Coco(folder, coco, given)
    if voc:
        from ._imports_voc import Voc

        return Voc(folder, given)
    from ._imports_citypersons import CityPersons

    return CityPersons(folder, given)
