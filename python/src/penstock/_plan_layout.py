"""How samples are best laid out on this storage: as files of a folder or packed, read at random or page by page.

Nothing is decoded: stored bytes are read around the page cache, as fast as reads go. A folder is compared with a data set that is
packed of some of its files, beside it where that directory can be written, else in a temporary one.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _analyze_phases as phases
from ._analyze_probe import forever
from .dataset import Dataset
from .errors import ArgumentError
from .loader import Loader
from .writer import Image, Writer

ORDERS = ("shuffled", "pages")
_BATCH = 64
_MOST_SAMPLES = 20_000
_MOST_NBYTES = 512 << 20  # of the files that are packed for the comparison


def measure(
    data: Dataset | str | os.PathLike[str],
    seconds: float,
    *,
    field: str = "image",
    throttle: tuple[float, float] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Measures the layouts of a data set within about so many seconds.

    Args:
        data: a plain folder, or a data set, of which only the order of reads is measured then.
        seconds: for all layouts together, without the packing.
        field: the images' name.
        throttle: as :class:`penstock.Loader` has it: (bytes/s, seconds per read), for tests and predictions.
        progress: called with a line before each layout.

    Returns a dict: "samples" and "nbytes" of those that were read, "packed_here" (whether a folder was packed for it),
    "pack_seconds" of one sample then, "notes", and "layouts", each with "layout" ("folder" or "packed"), "order" ("shuffled" or
    "pages"), "samples_per_second" with "low" and "high", "nbytes_per_second", "reads_per_second", and "cpu_seconds" of a sample.
    """
    say = progress or (lambda line: None)
    dataset = data if isinstance(data, Dataset) else Dataset(data)
    if field not in dataset.fields:
        raise ArgumentError(f"{dataset.path} has no field {field!r}: there are {', '.join(dataset.fields)}")
    numbers, nbytes = _some(dataset, field)
    found: dict[str, Any] = {"samples": len(numbers), "nbytes": nbytes, "packed_here": dataset.is_folder}
    found.update(notes=[], layouts=[])
    each = seconds / (len(ORDERS) * (2 if dataset.is_folder else 1))
    with _place(dataset.path, found["notes"]) as place:
        sources = [("folder" if dataset.is_folder else "packed", dataset)]
        if dataset.is_folder:
            say(f"packing {len(numbers)} files for the comparison")
            packed, found["pack_seconds"] = _pack_some(dataset, field, numbers, os.path.join(place, "packed.pst"))
            sources.append(("packed", packed))
        for layout, source in sources:
            for order in ORDERS:
                say(f"{layout}, {order}: {each:.0f} s")
                subset = numbers if source is dataset else None
                row = _read(source, field, subset, order, each, throttle)
                found["layouts"].append({"layout": layout, "order": order, **row})
    return found


def _some(dataset: Dataset, field: str) -> tuple[list[int], int]:
    """Returns the samples that are read, neighbours with each other, and their bytes."""
    numbers, nbytes = [], 0
    for i in range(min(len(dataset), _MOST_SAMPLES)):
        nbytes += int(dataset.item(i, field)["nbytes"])
        numbers.append(i)
        if nbytes >= _MOST_NBYTES:
            break
    if not numbers:
        raise ArgumentError(f"{dataset.path} has no samples")
    return numbers, nbytes


@contextlib.contextmanager
def _place(path: str, notes: list[str]) -> Iterator[str]:
    """Gives a directory on the storage of `path`, and removes it. Elsewhere, with a note, if none can be made there."""
    beside = os.path.dirname(os.path.abspath(path))
    try:
        folder = tempfile.mkdtemp(prefix=".penstock-layout-", dir=beside)
    except OSError as error:
        folder = tempfile.mkdtemp(prefix="penstock-layout-")
        notes.append(f"{beside} cannot be written ({error.strerror}): the packed layout was measured in {os.path.dirname(folder)}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pack_some(dataset: Dataset, field: str, numbers: list[int], path: str) -> tuple[Dataset, float]:
    """Packs the files as they are; returns the data set, and the seconds for one sample."""
    start = time.perf_counter()
    with Writer(path, {field: Image()}) as writer:
        for i in numbers:
            writer.write({field: dataset.read(i, field)}, name=str(i))
    return Dataset(path), (time.perf_counter() - start) / len(numbers)


def _read(
    dataset: Dataset, field: str, numbers: list[int] | None, order: str, seconds: float, throttle: tuple[float, float] | None
) -> dict[str, float | None]:
    """Reads stored bytes for some seconds, as fast as reads go."""
    source = dataset if numbers is None or len(numbers) == len(dataset) else dataset.subset(numbers)
    batch_size = max(1, min(_BATCH, len(source) // 4))
    with Loader(source, batch_size, order=order, page_cache="direct", cache=None, encoded=[field], fields=[field],
                throttle=throttle) as loader:  # fmt: skip
        phase = phases.run(order, forever(loader), phases.nothing, seconds)
        storage, n = loader.stats()["storage"], max(loader.stats()["samples"]["delivered"], 1)
    rate = phase.rate
    return {
        "samples_per_second": rate.samples_per_second,
        "low": phases.finite(rate.low),
        "high": phases.finite(rate.high),
        "nbytes_per_second": rate.samples_per_second * storage["nbytes_read"] / n,
        "reads_per_second": rate.samples_per_second * storage["reads"] / n,
        "cpu_seconds": phase.cpu_seconds,
    }


def best(layouts: Sequence[dict[str, Any]], layout: str) -> dict[str, Any]:
    """Returns the row of a layout that reads most samples/s."""
    rows = [row for row in layouts if row["layout"] == layout]
    return max(rows, key=lambda row: row["samples_per_second"])


def break_even(convert_seconds: float, before: float, after: float, samples: int) -> float:
    """Returns the epochs after which converting has paid: its time over the time that it saves in each epoch.

    before, after: samples/s of an epoch. Returns infinity if nothing is saved.
    """
    saved = samples / before - samples / after
    return convert_seconds / saved if saved > 0 else math.inf


def text(found: dict[str, Any]) -> list[str]:
    """Returns the comparison in lines."""
    mean = found["nbytes"] / max(found["samples"], 1)
    lines = [f"storage, {found['samples']} samples of {mean / 1000:.0f} kB, read around the page cache"]
    for row in found["layouts"]:
        lines.append(f"  {row['layout']:6s} {row['order']:8s} {row['samples_per_second']:8.0f} samples/s  "
                     f"{row['nbytes_per_second'] / 1e6:7.0f} MB/s  {row['reads_per_second']:7.0f} reads/s  "
                     f"{1e6 * row['cpu_seconds']:6.0f} us of CPU a sample")  # fmt: skip
    return lines + [f"  {note}" for note in found["notes"]]
