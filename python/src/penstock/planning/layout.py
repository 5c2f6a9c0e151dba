"""Measures how samples are best laid out on this storage: as files of a folder or packed, read at random or page by page.

Stored bytes are read without decoding, bypassing the page cache, at full speed. A folder is compared with a data set packed from
some of its files. It is written beside the folder if that directory is writable, else to a temporary directory.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from ..base import outputs
from ..base.units import duration, size
from ..data.dataset import Dataset
from ..data.items import share_nbytes
from ..data.schema import Image
from ..data.writer import Writer
from ..errors import ArgumentError
from ..loading.arguments import Reading
from ..loading.loader import Loader
from ..stalls.measure import phases
from ..stalls.measure.loader import Delivered
from ..stalls.measure.machine import scratch_directory
from ..stalls.measure.probe import forever

ORDERS = ("shuffled", "pages")
_BATCH = 64
_MOST_SAMPLES = 20_000
_MOST_NBYTES = 512 << 20  # maximum bytes of the files that are packed for the comparison


def measure(
    data: Dataset | str | os.PathLike[str],
    seconds: float,
    *,
    field: str = "image",
    throttle: tuple[float, float] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Measures the layouts of a data set within about `seconds`.

    Args:
        data: a plain folder, or a data set. For a data set, only orders of reading are compared.
        seconds: time for all layouts together, without the packing.
        field: the images' name.
        throttle: as for :class:`penstock.Loader`: (bytes/s, seconds per read), for tests and predictions.
        progress: called with a line before each layout.

    Returns a dict: "samples" and "nbytes" that were read; "packed_here": whether a folder was packed for the comparison;
    "pack_seconds": time of packing one sample; "notes"; and "layouts", each with "layout" ("folder", "tar" or "packed"), "order"
    ("shuffled" or "pages"), "samples_per_second" with "low" and "high", "nbytes_per_second", "reads_per_second", and "cpu_seconds"
    of a sample.
    """
    say = progress or (lambda line: None)
    dataset = data if isinstance(data, Dataset) else Dataset(data)
    if field not in dataset.fields:
        raise ArgumentError(f"{dataset.path} has no field {field!r}: there are {', '.join(dataset.fields)}")
    part, nbytes = _part(dataset, field)
    found: dict[str, Any] = {"samples": len(part), "nbytes": nbytes, "packed_here": not dataset.is_packed}
    found.update(notes=[], layouts=[])
    sources = [(dataset.kind, part)]
    each = seconds / (len(ORDERS) * (1 if dataset.is_packed else 2))
    with contextlib.ExitStack() as stack:
        if not dataset.is_packed:
            say(f"packing {len(part)} files for the comparison")
            place = stack.enter_context(scratch_directory("layout", _beside(dataset.path, found["notes"])))
            packed, found["pack_seconds"] = _packed(part, field, os.path.join(place, "packed.pst"))
            sources.append(("packed", packed))
        for layout, source in sources:
            for order in ORDERS:
                say(f"{layout}, {order}: {each:.0f} s")
                found["layouts"].append({"layout": layout, "order": order, **_read(source, field, order, each, throttle)})
    return found


def need_room(dataset: Dataset) -> None:
    """Raises NoSpaceError if the files to be packed for the comparison do not fit on the disk."""
    nbytes = min(_MOST_NBYTES, int(dataset._native.nbytes()))
    place = _beside(dataset.path, []) or tempfile.gettempdir()
    outputs.need_room(place, nbytes, "Packing files for it", "free some, or give --no-layout")


def _part(dataset: Dataset, field: str) -> tuple[Dataset, int]:
    """Returns a view of the first samples, which are neighbours on storage, limited in number and bytes; and their bytes."""
    n = nbytes = 0
    while n < min(len(dataset), _MOST_SAMPLES) and nbytes < _MOST_NBYTES:
        nbytes += share_nbytes(dataset.item(n, field))
        n += 1
    if n == 0:
        raise ArgumentError(f"{dataset.path} has no samples")
    return dataset if n == len(dataset) else dataset.subset(range(n)), nbytes


def _beside(path: str, notes: list[str]) -> str | None:
    """Returns the directory of the data set. If it is not writable, adds a note and returns None."""
    beside = os.path.dirname(os.path.abspath(path))
    if os.access(beside, os.W_OK | os.X_OK):
        return beside
    notes.append(f"{beside} cannot be written: the packed layout was measured in {tempfile.gettempdir()}")
    return None


def _packed(dataset: Dataset, field: str, path: str) -> tuple[Dataset, float]:
    """Packs the files unchanged. Returns the data set, and the packing time of one sample in seconds."""
    start = time.perf_counter()
    with Writer(path, {field: Image()}) as writer:
        for i in range(len(dataset)):
            writer.write({field: dataset.read(i, field)}, name=str(i))
    return Dataset(path), (time.perf_counter() - start) / len(dataset)


def _read(
    dataset: Dataset, field: str, order: str, seconds: float, throttle: tuple[float, float] | None
) -> dict[str, float | None]:
    """Reads stored bytes at full speed for `seconds`."""
    batch_size = max(1, min(_BATCH, len(dataset) // 4))
    with Loader(dataset, batch_size, order=order, cache=None, encoded=[field], fields=[field], output="numpy",
                reading=Reading(page_cache="direct", throttle=throttle)) as loader:  # fmt: skip
        counted = Delivered(forever(loader), field)
        phase = phases.run(order, counted, phases.nothing, seconds)
        storage = loader.stats()["storage"]
    rate = phase.rate
    nbytes_per_second = rate.samples_per_second * counted.nbytes / max(counted.samples, 1)
    return {
        "samples_per_second": rate.samples_per_second,
        "low": phases.finite(rate.low),
        "high": phases.finite(rate.high),
        "nbytes_per_second": nbytes_per_second,
        "reads_per_second": nbytes_per_second * storage["reads"] / max(storage["nbytes_read"], 1),
        "cpu_seconds": phase.cpu_seconds,
    }


def break_even(convert_seconds: float, before: float, after: float, samples: int) -> float:
    """Returns the number of epochs after which a conversion has paid off: its time / the time that it saves in each epoch.

    before, after: samples/s of an epoch. Returns infinity if nothing is saved.
    """
    saved = samples / before - samples / after
    return convert_seconds / saved if saved > 0 else math.inf


def text(found: dict[str, Any]) -> list[str]:
    """Returns the comparison as lines of text."""
    mean = found["nbytes"] / max(found["samples"], 1)
    lines = [f"How fast storage reads {found['samples']} samples of {size(mean)}, around the page cache:"]
    for row in found["layouts"]:
        lines.append(f"  {row['layout']:6s} {row['order']:8s} {row['samples_per_second']:8.0f} samples/s  "
                     f"{row['nbytes_per_second'] / 1e6:7.0f} MB/s  {row['reads_per_second']:7.0f} reads/s  "
                     f"{duration(row['cpu_seconds']):>7s} of CPU a sample")  # fmt: skip
    return lines + [f"  {note}" for note in found["notes"]]
