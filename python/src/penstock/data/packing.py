"""The loop that packs sources that are read in Python: data sets with annotations of other tools, and the user's own data sets.

The calling thread begins samples in their order and adds them to the only writer. A pool of threads prepares later samples
meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..base import options
from ..errors import (
    ArgumentError,
    CancelledError,
    CorruptError,
    ExistsError,
    FunctionError,
    LimitError,
    NotFoundError,
    PenstockError,
    StateError,
    StorageError,
    UnsupportedError,
)
from . import image
from .pack_report import PackReport, Progress
from .schema import FieldSpec, Image
from .writer import Writer


@dataclass
class Ready:
    """A sample that is ready for the writer. `jpegs`: by field, the bytes of its JPEGs in the source."""

    name: str
    values: dict[str, Any]
    kept: list[tuple[str, PenstockError]]
    nbytes: int
    jpegs: dict[str, int]
    dropped: list[str] = field(default_factory=list)


class Packable(Protocol):
    """A source that this loop can pack."""

    place: str  # path of the source, for errors and reports
    notices: list[dict[str, Any]]
    early: list[str]  # notices about files that were left out when the source was opened

    def names(self) -> Sequence[str]:
        """Returns the names of the samples, in the order in which they are stored."""

    def begin(self, name: str) -> Callable[[Writer], Ready]:
        """Begins a sample, in the calling thread. Returns a function that prepares the sample; any thread may call the function."""

    def located(self, error: PenstockError, name: str) -> PenstockError:
        """Returns an error of the writer with the sample's name added to its text."""

    def close(self) -> None:
        """Ends pending reads, so that no thread keeps waiting."""


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


def _in_order(
    pool: ThreadPoolExecutor, source: Packable, writer: Writer, todo: Iterator[tuple[int, str]], window: int
) -> Iterator[tuple[int, str, Future[Ready]]]:
    """Yields the samples in order, while the pool prepares the next ones. `window` limits the samples under way."""
    under_way: deque[tuple[int, str, Future[Ready]]] = deque()
    for place, name in todo:
        under_way.append((place, name, pool.submit(source.begin(name), writer)))
        if len(under_way) == window:
            yield under_way.popleft()
    while under_way:
        yield under_way.popleft()


class _DiskError(StorageError):
    """An error of writing to the destination."""


# The errors that may concern one sample only. Any other error ends the run.
_SAMPLE_FAULTS = (
    ArgumentError, CorruptError, ExistsError, FunctionError, LimitError, NotFoundError, StorageError, UnsupportedError,
)  # fmt: skip


class _Run:
    """Counts the samples that are stored, refused and left."""

    def __init__(self, source: Packable, writer: Writer, skip: bool, progress: Progress | None) -> None:
        self.source, self.writer, self.skip, self.progress = source, writer, skip, progress
        self.counts = _Counts()
        self.names = source.names()
        self.bad: list[dict[str, Any]] = []
        self.dropped: list[dict[str, Any]] = [{"name": None, "text": text} for text in source.early]
        self._stored = bytearray(name in writer for name in self.names)
        if sum(self._stored) != len(writer):
            raise ArgumentError(
                "the unfinished data set holds samples that the source does not have: it changed since; remove the data "
                "set and begin anew",
                dataset=writer.path,
            )
        self._n_passed = self._stored.rfind(1) + 1

    def todo(self) -> Iterator[tuple[int, str]]:
        for place, name in enumerate(self.names):
            if self._stored[place]:
                self.counts.n_resumed += 1
                self.counts.n_samples += 1
            else:
                yield place, name

    def take(self, place: int, name: str, ready: Future[Ready]) -> None:
        """Adds a prepared sample to the writer, or records it as a bad sample."""
        try:
            self._add(ready.result(), place)
        except _SAMPLE_FAULTS as error:
            if not self.skip or isinstance(error, _DiskError):
                raise
            self.counts.n_bad += 1
            parts = ("status", "text", "room", "dataset", "sample", "file", "offset", "codec", "os_error")
            self.bad.append({**{part: getattr(error, part) for part in parts}, "message": str(error), "name": name})

    def _add(self, ready: Ready, place: int) -> None:
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
            raise self.source.located(error, ready.name) from None
        counts = self.counts
        counts.n_samples += 1
        counts.nbytes_in += ready.nbytes
        counts.nbytes_out += sum(
            memoryview(value.buffer).nbytes for values in ready.values.values() for value in values if value is not None
        )
        self.dropped.extend({"name": ready.name, "text": text} for text in ready.dropped)
        for name, nbytes in ready.jpegs.items():
            for value in ready.values[name]:
                if value is not None and value.form == image.form_number("pli-jpeg"):
                    counts.n_pli_jpeg += 1
                    counts.jpeg_nbytes += nbytes
                    counts.pli_jpeg_nbytes += len(value.buffer)
        for name, _ in ready.kept:
            counts.n_kept_jpeg += 1
            counts.kept_jpeg_nbytes += ready.jpegs.get(name, 0)

    def tell(self) -> None:
        counts = self.counts
        done = counts.n_samples + counts.n_bad
        if self.progress is not None and self.progress(done, len(self.names), counts.nbytes_in, counts.nbytes_out):
            raise CancelledError(f"cancelled after {done} of {len(self.names)} samples", dataset=self.writer.path)


def run(
    source: Packable,
    destination: str,
    schema: dict[str, FieldSpec],
    *,
    resume: bool,
    skip: bool,
    n_threads: int,
    shard_size: int | str,
    commit_size: int | str,
    progress: Progress | None,
) -> PackReport:
    """Packs a source. The result does not depend on the number of threads."""
    try:
        writer = Writer(destination, schema, resume=resume, shard_size=shard_size, commit_size=commit_size)
        with writer, ThreadPoolExecutor(n_threads, thread_name_prefix="penstock-import") as pool:
            try:
                work = _Run(source, writer, skip, progress)
                for place, name, ready in _in_order(pool, source, writer, work.todo(), 4 * n_threads):
                    work.take(place, name, ready)
                    work.tell()
            except BaseException:
                source.close()
                pool.shutdown(cancel_futures=True)
                raise
            if not work.counts.n_samples:
                raise NotFoundError(f"none of the {len(work.names)} samples could be stored", dataset=source.place)
    finally:
        source.close()
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


def threads(num_workers: int | None) -> int:
    """Returns the number of threads that prepare samples."""
    return max(1, options.workers(num_workers))


def image_field(
    forms: Sequence[str] | None, tier: str | None, effort: int | None, max_error: int
) -> Image:
    """Returns the spec of the field `image` for these arguments of `pack`."""
    named = tuple(forms) if forms else ("pli-jpeg",)
    if "pli" not in named:
        return Image(named)
    return Image(named, tier=tier or "small", effort=3 if effort is None else effort, max_error=max_error)
