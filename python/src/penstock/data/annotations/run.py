"""Packs annotated data sets in foreign formats, from COCO JSON to YOLO. A module for each format reads its
files. This one has the packing loop, whose threads prepare samples ahead of a single writer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...base import options
from ...base.files import read_file
from ...errors import (
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
from .. import image
from ..pack_report import PackReport, Progress
from ..schema import FieldSpec, Image
from ..writer import Writer
from .given import Drops, Given, Source, by_bytes


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
    embedded = getattr(source, "embedded", None)
    data = (None if embedded is None else embedded(name)) or read_file(path, "image")
    try:
        head = image.probe(data, ignore_orientation=made_for == "stored")
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
            if ready.form == "jpeg" and value.form == image.form_number("pli-jpeg"):
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
    n_threads = max(1, options.workers(num_workers))
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


_DRAWN = ("yolo", "cvat", "labelme", "roboflow")  # they may have polygons


def _open_drawn(kind: str, folder: str, given: Given) -> Source:
    if given.split is not None and kind == "labelme":
        raise ArgumentError("split goes without labelme: pack the folder of one split")
    if kind == "yolo":
        from .yolo import Yolo

        return Yolo(folder, given)
    if kind == "cvat":
        from .cvat import Cvat

        return Cvat(folder, given)
    if kind == "labelme":
        from .labelme import Labelme

        return Labelme(folder, given)
    from .roboflow import open_export

    return open_export(folder, given)


def open_source(
    folder: str, given: Given, coco: str | None, voc: bool, citypersons: bool, kinds: Sequence[str] = ()
) -> Source:
    """Reads the annotations."""
    if (coco is not None) + voc + citypersons + len(kinds) != 1:
        raise ArgumentError("one of coco, voc, citypersons and " + ", ".join(_DRAWN) + " says what the annotations are")
    if kinds:
        return _open_drawn(kinds[0], folder, given)
    if given.split is not None and coco is not None:
        raise ArgumentError("split goes with voc and citypersons: a file of COCO is one split")
    if given.paint and coco is None:
        raise ArgumentError("paint goes with coco, yolo, cvat, labelme and roboflow: the others have no polygons")
    if coco is not None:
        from .coco import Coco

        return Coco(folder, coco, given)
    if voc:
        from .voc import Voc

        return Voc(folder, given)
    from .citypersons import CityPersons

    return CityPersons(folder, given)
