"""The cost probe: measures what a sample of the user's data costs in each form, on this machine.

Some samples are written in each form to a data set in a temporary directory. They are loaded with the user's number of workers and
read-ahead, from storage as the user's loader reads it, and from Penstock's cache. The CPU seconds of the process are then those of
preparation, with and without reading. Workers read ahead into batches and buffers that do not stay in the processor's caches, as in
a training. The calling thread alone would reuse one buffer, and large stored images would seem several times as cheap as they are.
Forms that are not stored yet are measured in the same way. The results are then scaled to the whole data set (whole.py).
"""

from __future__ import annotations

import io
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ... import cuda, transforms
from ...base import options as _options
from ...caching.cache import Cache
from ...data import image, pli
from ...data.dataset import Dataset
from ...data.schema import Boxes, Image
from ...data.writer import Writer
from ...errors import ArgumentError, PenstockError
from ...loading import table
from ...loading.loader import Loader
from . import machine, phases
from .survey import Sample
from .whole import Whole
from .whole import follows as follows

if TYPE_CHECKING:
    from ...loading.stats import LoaderStats

TRAINING_FORMS = ("raw", "pli", "pli-fast")  # forms of a cache at the training size
FORMS = ("jpeg", "pli-jpeg", "png", "webp", "pli-fast", "pli-small", "pli-dense", "raw")
_EPOCHS, _MOST_TURNS = 8, 64  # number of epochs of a measurement, and maximum number of repetitions of the samples in an epoch
_OVERHEAD = 1 << 20  # bytes that a cache takes in addition to its items
_SIZES_PART = 0.25  # fraction of a probe's time for the bytes of further images
_TIMES_PART = 0.5  # fraction of the time of a form at a place for timing single images

# Arguments of the user's loader that decide how pixels are made and delivered. The others concern its data set or its threads.
_PIXEL_OPTIONS = table.marked(table.PIXELS)
# Arguments that decide how storage is read. Slow reads, and reads that bypass the page cache, take other CPU time than fast ones.
_READ_OPTIONS = table.marked(table.READS)


def check_forms(forms: Sequence[str] | None) -> None:
    """Raises ArgumentError if one of the forms cannot be probed."""
    for form in forms or ():
        name, _, error = form.partition(":")
        if name not in FORMS or (error and not (name.startswith("pli-") and name != "pli-jpeg" and error.isdecimal())):
            raise ArgumentError(f"there is no form {form!r}{_options.nearest(name, FORMS)}")


def usual_forms(form: str) -> tuple[str, ...]:
    """Returns the forms that are worth probing for images of a form."""
    if form in ("jpeg", "pli-jpeg"):
        return ("jpeg", "pli-jpeg", "pli-small", "raw")
    return (form, "pli-fast", "pli-small", "raw") if form not in ("pli", "raw") else ("pli-fast", "pli-small", "raw")


def places_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the places where images can be decoded for a Loader with these arguments: "cpu", and "gpu" if it or the machine has
    one."""
    return ("cpu", "gpu") if options.get("device", "cpu") != "cpu" or cuda.is_available() else ("cpu",)


def _pixels(data: bytes) -> Any:
    return image.decode(data)


def _png(data: bytes) -> bytes | None:
    """Encodes the picture as PNG with Pillow. Returns None without Pillow."""
    try:
        from PIL import Image as PilImage
    except ImportError:
        return None
    out = io.BytesIO()
    PilImage.fromarray(_pixels(data)).save(out, "PNG", compress_level=6)
    return out.getvalue()


def encoded(data: bytes, stored: str, form: str) -> Any:
    """Returns the value that a Writer needs to store the image `data` (whose form is `stored`) in `form`.

    "pli-small:2" is near-lossless PLI, whose samples differ by at most 2. Returns None if the image cannot be converted to the
    form.
    """
    if form == stored:
        return data
    if form == "pli-jpeg":
        return data if stored == "jpeg" else None
    if form.startswith("pli-"):
        tier, _, error = form.removeprefix("pli-").partition(":")
        return pli.encode(_pixels(data), tier, max_error=int(error or 0))
    if form == "raw":
        return _pixels(data)
    if form == "png":
        return _png(data)
    return None


def stored_as(data: bytes, stored: str, form: str) -> bytes | int | None:
    """Returns the image `data` as a Writer would store it in `form`, or only its number of bytes. None: it cannot be converted."""
    try:
        if form == "pli-jpeg" and stored == "jpeg":
            return pli.from_jpeg(data)
        value = encoded(data, stored, form)
    except PenstockError:
        return len(data) if form == "pli-jpeg" else None  # pli-jpeg cannot store such a JPEG, so it is kept unchanged
    return value if value is None or isinstance(value, bytes) else int(value.nbytes)


def _writer_form(form: str) -> str:
    return "pli" if form.startswith("pli-") and form != "pli-jpeg" else form


@dataclass
class BoxesOf:
    """The boxes of the samples in a probe.

    Attributes:
        rows: float32 (n, 4) for each sample.
        made_for: as for the data set's field.
    """

    rows: list[Any]
    made_for: str | None


def boxes_of(dataset: Dataset, fields: Sequence[str] | None, numbers: Sequence[int]) -> BoxesOf | None:
    """Returns the delivered boxes of samples, or None if the loader delivers none, or several fields of boxes."""
    found = [f for name, f in dataset.fields.items() if f.type == "boxes" and (fields is None or name in fields)]
    if len(found) != 1:
        return None
    return BoxesOf(dataset.subset(list(numbers)).column(found[0].name), found[0].made_for or None)


class Probe:
    """Measures forms of some samples. It is a context manager, because it needs a temporary directory.

    Args:
        images: stored bytes of the samples.
        stored: the form of the samples.
        options: the arguments of the user's Loader; only those about making pixels are used. An additional entry "boxes" is a
            BoxesOf, if the samples have boxes that operations may need.
        batch_size: samples in a batch.
    """

    def __init__(self, images: Sequence[bytes], stored: str, options: Mapping[str, Any], batch_size: int) -> None:
        self._images = list(images)
        self._stored = stored
        self._options = options
        self._batch_size = max(1, min(batch_size, len(self._images)))
        self._directory = ""
        self._boxes: BoxesOf | None = options.get("boxes")
        given = options.get("num_workers")
        self._workers = max(1, int(machine.quota_cores()) if given is None else int(given))

    def __enter__(self) -> Probe:
        self._scratch = machine.scratch_directory("probe")
        self._directory = self._scratch.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._scratch.__exit__(None, None, None)

    def write(self, form: str) -> dict[str, float] | None:
        """Writes the samples in a form. Returns the bytes and the packing seconds of a sample, or None if they cannot be
        converted."""
        start = time.process_time()
        schema: dict[str, Any] = {"image": Image(_writer_form(form))}
        if self._boxes is not None:
            schema["boxes"] = Boxes(self._boxes.made_for)
        with Writer(os.path.join(self._directory, form), schema) as writer:
            for i, data in enumerate(self._images):
                value = encoded(data, self._stored, form)
                if value is None:
                    break
                sample = {"image": value} if self._boxes is None else {"image": value, "boxes": self._boxes.rows[i]}
                writer.write(sample, name=str(i))
        if value is None:
            return None
        seconds = time.process_time() - start
        _read_anew(os.path.join(self._directory, form))
        return {"pack_seconds": seconds / len(self._images)}

    def _place(self, place: str) -> dict[str, Any]:
        """Returns the Loader's options for decoding at a place, "cpu" or "gpu". If the user's batches are on a GPU, it stays the
        same GPU."""
        device = self._options.get("device", "cpu")
        if place == "cpu" and device == "cpu":
            return {}
        found = {"device": "cuda" if device == "cpu" else device, "decode": place}
        found["output"] = "dlpack" if device == "cpu" else self._options.get("output", "dlpack")
        return found

    def _loader(self, form: str, place: str = "cpu", **changes: Any) -> Loader:
        options: dict[str, Any] = {
            "dataset": os.path.join(self._directory, form),
            "batch_size": self._batch_size,
            "num_workers": self._workers,
            "prefetch": self._options.get("prefetch") or 2,
            "cache": None,
            "fields": ["image"] if self._boxes is None else ["image", "boxes"],
            "host_memory": self._options.get("host_memory", "4GiB"),
        }
        for name in _PIXEL_OPTIONS:
            if name in self._options:
                options[name] = _of_image(self._options[name], self._options.get("image_field", "image"))
        options["transforms"] = _of_image(self._options.get("transforms"), self._options.get("image_field", "image"))
        return Loader._of({**options, **self._place(place), **changes})

    def measure(self, form: str, place: str, seconds: float) -> dict[str, float] | None:
        """Returns the costs of a sample in a form that was written, by the process's CPU seconds and the GPU's clock.

        Returns None if the GPU does not decode this form.
        """
        with self._loader(form, place, page_cache="keep") as once:
            for _ in once:
                pass
            stats = once.stats()
            n = stats["samples"]["delivered"]
            if place == "gpu" and stats["device"]["gpu_samples"] < n:
                return None
            nbytes = stats["storage"]["nbytes_read"] / n
            reads = stats["storage"]["reads"] / n
            found = self._items(once)
        items = sum(item["nbytes"] for item in found)
        cache = Cache(2 * items + 64 * len(found) + _OVERHEAD)
        read, gpu = self._run(form, place, None, seconds / 2)
        hit, _ = self._run(form, place, cache, seconds / 2)
        return {
            **gpu,
            "cpu_seconds": read,
            "hit_cpu_seconds": hit,
            "nbytes": nbytes,
            "reads": reads,
            "item_nbytes": items / len(found),
        }

    def training(self, form: str, cache_form: str, seconds: float) -> dict[str, float] | None:
        """Returns the bytes of a sample in a cache that keeps it at the training size, and the CPU seconds of a hit.

        Returns None if the transforms do not allow it, or if the sample would not become smaller.
        """
        kept: dict[str, Any] = {"cache_form": cache_form, "cache_resolution": "training"}
        try:
            with self._loader(form, cache=Cache(_OVERHEAD), **kept):
                pass
        except ArgumentError:
            return None
        with self._loader(form) as loader:
            raw = sum(item["height"] * item["width"] * 8 for item in self._items(loader))
        cache = Cache(raw + 64 * len(self._images) + _OVERHEAD)
        hit, _ = self._run(form, "cpu", cache, seconds, **kept)
        use = cache.stats()
        nbytes = use["used"] / max(use["items"], 1)
        return {"hit_cpu_seconds": hit, "cpu_seconds": hit, "item_nbytes": nbytes}

    def _items(self, loader: Loader) -> list[dict[str, Any]]:
        return [loader.dataset.item(i, "image") for i in range(len(loader.dataset))]

    def _run(
        self, form: str, place: str, cache: Cache | None, seconds: float, **changes: Any
    ) -> tuple[float, dict[str, float]]:
        """Returns the CPU seconds of a sample, without those of the thread that takes the batches, and the GPU's costs.

        Only whole epochs are measured: at the end of an epoch no worker is ahead, so only delivered samples are counted. The first
        epoch, which fills the cache and touches memory for the first time, is left out. The result is the median of the others.
        """
        reads = {} if cache else {name: self._options[name] for name in _READ_OPTIONS if self._options.get(name) is not None}
        options = {"cache": cache, "drop_last": True, **reads, **changes}
        with self._loader(form, place, **options, indices=self._tiled(1)) as loader:
            begin = time.perf_counter()
            _epoch_cpu(loader)
            turns = int(seconds / _EPOCHS / max(time.perf_counter() - begin, 1e-6))
        with self._loader(form, place, **options, indices=self._tiled(max(1, min(turns, _MOST_TURNS)))) as loader:
            _epoch_cpu(loader)
            end = time.perf_counter() + seconds
            found = [_epoch_cpu(loader)]
            while time.perf_counter() < end:
                found.append(_epoch_cpu(loader))
            return max(statistics.median(found), 1e-9), gpu_costs(loader.stats())

    def _tiled(self, turns: int) -> Any:
        """Returns `turns` permutations of the samples, one after another."""
        import numpy as np

        return np.concatenate([np.random.default_rng(turn).permutation(len(self._images)) for turn in range(turns)])

    def dataset(self, form: str) -> Dataset:
        """Opens the data set of a form that was written. The caller closes it."""
        return Dataset(os.path.join(self._directory, form))

    def times(self, form: str, seconds: float) -> list[list[float]]:
        """Returns the CPU seconds of each sample, each measured at least twice."""
        with self._loader(form, batch_size=1, num_workers=0, storage="memory") as loader:
            n = len(loader)
            found: list[list[float]] = [[] for _ in range(n)]
            end = time.perf_counter() + seconds
            for turn in itertools.count():
                batches = iter(loader)
                for i in range(n):
                    before = time.thread_time()
                    next(batches)
                    found[i].append(time.thread_time() - before)
                if turn > 0 and time.perf_counter() >= end:
                    return found
        raise AssertionError("the turns end only there")

    def fetch_cpu(self, form: str, seconds: float) -> float:
        """Returns the CPU seconds of a sample that is delivered as stored bytes: fetching and batching without decoding."""
        with Loader(os.path.join(self._directory, form), self._batch_size, encoded=["image"], fields=["image"], num_workers=0,
                    cache=None, drop_last=True, output="numpy") as loader:  # fmt: skip
            return phases.run("fetch", forever(loader), phases.nothing, seconds).caller_cpu_seconds / self._batch_size


def _read_anew(directory: str) -> None:
    """Drops the files of a directory from the page cache, so that they are read from storage again, like a training's files.

    The kernel keeps bytes from read-ahead in larger pieces than bytes that were written, and copies them up to twice as fast.
    """
    for entry in os.scandir(directory):
        if not entry.is_file(follow_symlinks=False):
            continue
        handle = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)  # pages that are not written yet cannot be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def gpu_costs(stats: LoaderStats) -> dict[str, float]:
    """Returns the bytes of a sample that are uploaded to the GPU, and the GPU's seconds for preparing it, without the upload."""
    upload, n = stats["stages"]["upload"], max(stats["samples"]["delivered"], 1)
    return {"link_nbytes": upload["nbytes"] / n, "gpu_seconds": upload["gpu"] / n}


def _epoch_cpu(loader: Loader) -> float:
    """Runs one epoch. Returns the CPU seconds of the process per sample, without those of this thread."""
    before, own, n = time.process_time(), time.thread_time(), 0
    for batch in loader:
        n += phases.samples_in(batch)
    return (time.process_time() - before - (time.thread_time() - own)) / max(n, 1)


def forever(loader: Any) -> Iterator[Any]:
    """Yields the batches of one epoch after another. Ends if an epoch has no batch."""
    while True:
        count = 0
        for batch in loader:
            count += 1
            yield batch
        if count == 0:
            return


def _of_image(value: Any, field: str) -> Any:
    """Returns the image's value of an option that may be a dict per field."""
    return value.get(field) if isinstance(value, Mapping) else value


@dataclass
class Costs:
    """The results of a probe.

    Attributes:
        forms: costs by form and place.
        stages: CPU seconds of single stages ("fetch"; "augment": of a raw picture).
        kept: for a cache at the training size, by its form: "hit_cpu_seconds" and "item_nbytes" of a sample.
        notes: forms that could not be probed, and why.
    """

    forms: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    kept: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def keeps_training_size(options: Mapping[str, Any], places: Sequence[str]) -> bool:
    """Whether a cache can keep the images of a Loader with these arguments at the training size."""
    chain = _of_image(options.get("transforms"), options.get("image_field", "image"))
    first = next((op for op in chain or () if not isinstance(op, transforms.Pad)), None) if isinstance(chain, Sequence) else None
    makes_smaller = (transforms.Resize, transforms.CenterCrop, transforms.Letterbox)
    return tuple(places) == ("cpu",) and isinstance(first, makes_smaller)


def costs(
    images: Sequence[bytes],
    stored: str,
    options: Mapping[str, Any],
    batch_size: int,
    forms: Sequence[str],
    places: Sequence[str],
    seconds: float,
) -> Costs:
    """Probes forms at places, "cpu" and "gpu".

    images: if it is a :class:`Sample`, the costs are those of a mean image of its survey, else of a mean image of the list.
    """
    found = Costs()
    wanted = list(dict.fromkeys((stored, *forms)))
    keeps = TRAINING_FORMS if keeps_training_size(options, places) else ()
    of_sizes = _SIZES_PART * seconds if isinstance(images, Sample) else 0.0
    each = (seconds - of_sizes) / (len(wanted) * (len(places) + _TIMES_PART) + 1 + len(keeps) / 2)
    whole = Whole(images, stored, _of_image(options.get("transforms"), options.get("image_field", "image")), options)
    with Probe(images, stored, options, batch_size) as probe:
        measured: dict[str, dict[str, dict[str, float]]] = {}
        times: dict[str, list[list[float]]] = {}
        for form in wanted:
            try:
                if _probe_form(probe, form, stored, places, each, found.notes, measured):
                    with probe.dataset(form) as dataset:
                        whole.written(form, dataset)
                    times[form] = probe.times(form, _TIMES_PART * each)
            except PenstockError as error:
                measured.pop(form, None)
                found.notes.append(f"form {form}: {error.text}")
        whole.look_at_more(lambda data, form: stored_as(data, stored, form), of_sizes, max(1, int(machine.quota_cores())))
        for form, demands in measured.items():
            typical = [statistics.median(of_one) for of_one in times[form]]
            found.forms[form] = {place: whole.costs(form, of_place, typical) for place, of_place in demands.items()}
        found.notes += whole.notes()
        if stored in found.forms:
            deviation = statistics.pstdev(min(of_one) for of_one in times[stored])
            for of_place in found.forms[stored].values():
                of_place["cpu_sd_seconds"] = deviation * of_place["cpu_seconds"] / found.forms[stored]["cpu"]["cpu_seconds"]
            found.stages["fetch"] = probe.fetch_cpu(stored, each)
            kept = {name: probe.training(stored, name, each / 2) for name in keeps}
            found.kept = {name: demands for name, demands in kept.items() if demands is not None}
        if "raw" in found.forms:
            found.stages["augment"] = found.forms["raw"]["cpu"]["hit_cpu_seconds"]
    return found


def _probe_form(
    probe: Probe, form: str, stored: str, places: Sequence[str], seconds: float, notes: list[str],
    measured: dict[str, dict[str, dict[str, float]]],
) -> bool:  # fmt: skip
    """Writes and measures a form. Returns False if images cannot be converted to it, or if no place decodes it."""
    written = probe.write(form)
    if written is None:
        notes.append(f"form {form}: cannot be made of {stored} here")
        return False
    for place in places:
        demands = probe.measure(form, place, seconds)
        if demands is not None:
            measured.setdefault(form, {})[place] = {**demands, **written}
    return form in measured
