"""Chooses the samples that the cache of a plan admits.

A plan says which share of each class is cached. The samples themselves are computed from the plan and the data set when a loader
opens it, and are saved nowhere. So they always fit the data set, and all ranks compute the same ones without communication.

In a plan, a class is a group of images of one form and a range of pixel counts; a way says how a share of a class is stored and
cached. Samples that match the same ways (stored form and pixel count) make a cell. A sample that matches no way, because the plan
did not write it, belongs to the class of its form. The cached share of a cell's bytes is the mean over its ways. Within a cell, the
samples that save the most seconds per byte of the cache are admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _native
from ..data.image import probe as image_info
from ..data.items import kept_nbytes
from ..data.mixture_sources import leaves
from ..errors import PenstockError
from .cache import CachePlan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..data.dataset import Dataset

    Numbers = npt.NDArray[np.float64]

_ALL = 1 - 1e-9
_HEADER_NBYTES = 1 << 16
_LEAST_SECONDS = 1e-12  # time saved by caching a sample, where the plan does not give it


@dataclass(frozen=True)
class _Way:
    """A way of a plan: the form and the pixel counts of its samples, their number, and the benefit of caching one (None: not
    cached)."""

    form: str
    low: float
    high: float
    samples: float
    cached: Mapping[str, Any] | None
    sources: frozenset[str] | None = None  # names of the mixture's sources that it applies to; None: all

    def takes(self, samples: _Samples) -> Any:
        found = (samples.form == self.form) & (samples.pixels >= self.low) & (samples.pixels < self.high)
        return found if self.sources is None else found & samples.are_of(self.sources)


@dataclass
class _Samples:
    """Arrays with one element per sample: form and stored bytes of the image, its pixels and their decoded bytes, and the stored
    bytes of the other fields, which are cached, too; and the data set of the samples."""

    form: Any
    stored: Numbers
    pixels: Numbers
    raw: Numbers
    others: Numbers
    dataset: Dataset

    def are_of(self, sources: Collection[str]) -> Any:
        """Returns a bool for each sample: whether it belongs to one of these sources of the mixture."""
        import numpy as np

        found = np.zeros(len(self.stored), bool)
        for leaf in leaves(self.dataset):
            found[leaf.first : leaf.first + leaf.dataset._count] = leaf.name in sources
        return found

    def room(self, cached: Mapping[str, Any], cache_form: str, is_whole: bool) -> Numbers:
        """Returns the bytes that each sample takes in the cache, with its image whole or at the training size."""
        if not is_whole and cached.get("cached_nbytes"):
            return self.others + float(cached["cached_nbytes"])
        if cache_form == "raw":
            return self.others + self.raw
        kept, stored = cached.get("cached_nbytes"), cached.get("stored_nbytes")
        factor = 1.0 if cache_form == "stored" or not kept or not stored else kept / stored
        return self.others + factor * self.stored

    def seconds(self, cached: Mapping[str, Any]) -> Numbers:
        """Returns the seconds that caching each sample saves in an epoch."""
        saves = cached.get("saves") or {}
        found: Numbers = saves.get("sample", 0.0) + saves.get("nbyte", 0.0) * self.stored + saves.get("pixel", 0.0) * self.pixels
        found = found.clip(_LEAST_SECONDS)
        return found


class Planned:
    """Chooses the samples of any data set that a plan caches (:meth:`of`). The object is small and can be pickled."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        loader = plan.get("loader") or {}
        self._field = str(plan.get("field") or "image")
        self._cache_form = str(loader.get("cache_form") or "stored")
        self._is_whole = (loader.get("cache_resolution") or "full") == "full"
        self._nbytes = int(loader.get("cache_nbytes") or 0)
        self._stored: list[_Way] = []  # the ways, matched by the form in which they store samples
        self._now: list[_Way] = []  # the ways, matched by the form that the samples had before
        for part in plan.get("classes") or ():
            low, high = part["pixels"]
            sources = frozenset(part["sources"]) if part.get("sources") else None
            for way in part["ways"]:
                cached = dict(way) if way.get("cache") else None
                span = (float(low or 0), float("inf") if high is None else float(high), float(part["samples"] * way["share"]))
                is_smaller = "resize" in way["store"][0]  # stored smaller than the class's pixel counts
                held = (0.0, float("inf"), span[2]) if is_smaller else span
                self._stored.append(_Way(way["store"][0]["form"], *held, cached, sources))
                self._now.append(_Way(part["form"], *span, cached, sources))

    def __bool__(self) -> bool:
        """Whether the plan caches some samples but not all."""
        return len({way.cached is None for way in self._stored if way.samples > 0}) > 1

    def of(self, dataset: Dataset) -> CachePlan:
        """Chooses the samples of a data set to cache. A plan is for the whole data set, also if `dataset` is a view."""
        import numpy as np

        samples = self._look(dataset)
        n = len(samples.stored)
        admit, room, seconds = np.zeros(n, bool), np.zeros(n, np.uint64), np.zeros(n)
        for chosen, ways in self._cells(samples):
            part = np.flatnonzero(chosen)
            self._choose(part, ways, samples, admit, room, seconds)
        limit = self._nbytes - 8 * dataset._count * sum(field.n_variants for field in _items(dataset))
        found, report = _greedy(room, np.where(admit, seconds, 0.0), max(0, limit) if self._nbytes else None)
        return CachePlan(found, *report)

    def _cells(self, samples: _Samples) -> list[tuple[Any, Sequence[_Way]]]:
        """Groups the samples by the ways that they match. Returns for each group a mask of its samples, and its ways."""
        import numpy as np

        found: list[tuple[Any, Sequence[_Way]]] = []
        left = np.ones(len(samples.stored), bool)
        for ways in (self._stored, self._now):
            taken = np.stack([way.takes(samples) & left for way in ways], axis=1)
            for row in np.unique(taken, axis=0):
                if row.any():
                    found.append(((taken == row).all(axis=1), [way for way, has in zip(ways, row, strict=True) if has]))
            left &= ~taken.any(axis=1)
        return found

    def _choose(self, part: Any, ways: Sequence[_Way], samples: _Samples, admit: Any, room: Any, seconds: Any) -> None:
        """Fills `admit`, `room` (bytes) and `seconds` for the samples `part` of one cell."""
        whole = sum(way.samples for way in ways)
        cached = [(way.samples / whole, way.cached) for way in ways if way.cached is not None and way.samples > 0]
        share = sum(weight for weight, _ in cached)
        if share <= 0:
            return
        for weight, way in cached:
            room[part] += (weight / share * samples.room(way, self._cache_form, self._is_whole)[part]).astype(room.dtype)
            seconds[part] += weight / share * samples.seconds(way)[part]
        everything, (_, nbytes, _, _) = _greedy(room[part], seconds[part], None)
        admit[part] = everything if share >= _ALL else _greedy(room[part], seconds[part], round(share * nbytes))[0]

    def _look(self, dataset: Dataset) -> _Samples:
        """Collects form and sizes of all samples. Reads the headers of a folder's files only if the choice depends on them."""
        import numpy as np

        n = dataset._count
        fields = dataset.fields
        image = self._field if self._field in fields else next((f.name for f in fields.values() if f.type == "image"), None)
        form = np.full(n, "", object)
        stored, pixels, raw, others = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        for field in _items(dataset):
            i_field = dataset._places[field.name]
            for i in range(n):
                item = dataset._native.item(i, i_field, 0)
                if field.name != image:
                    others[i] += kept_nbytes(item)
                    continue
                stored[i] = kept_nbytes(item)
                form[i], height, width, nbytes = _header(dataset, i, i_field, item) if self._needs_headers(item) else _sizes(item)
                pixels[i], raw[i] = height * width, height * width * nbytes
        if not dataset.is_packed and not self._needs_headers({"form": None}):
            form[form == ""] = self._now[0].form  # the plan has one class, so all have its form
        return _Samples(form, stored, pixels, raw, others, dataset)

    def _needs_headers(self, item: Mapping[str, Any]) -> bool:
        if item["form"] is not None:
            return False
        alone = {(way.form, way.low, way.high) for way in self._now}
        return len(alone) > 1 or self._cache_form != "stored"


def _items(dataset: Dataset) -> list[Any]:
    return [field for field in dataset._fields if field.type not in ("int", "float")]


def _sizes(item: Mapping[str, Any]) -> tuple[str, int, int, int]:
    """Returns an item's form, height, width and bytes per pixel."""
    return str(item["form"] or ""), item["height"], item["width"], (item["channels"] or 3) * (2 if (item["bits"] or 8) > 8 else 1)


def _header(dataset: Dataset, sample: int, i_field: int, item: Mapping[str, Any]) -> tuple[str, int, int, int]:
    for nbytes in dict.fromkeys((min(_HEADER_NBYTES, item["decoded_nbytes"]), item["decoded_nbytes"])):
        try:
            info = image_info(dataset._native.read(sample, i_field, 0, 0, nbytes))
        except PenstockError:
            continue  # the header is longer than this; or the file is damaged, which loading reports
        return info.form, info.height, info.width, info.channels * (2 if info.bits > 8 else 1)
    return _sizes(item)


def _greedy(room: Any, seconds: Any, limit: int | None) -> tuple[Any, tuple[int, int, float, float]]:
    """Admits the samples that save the most seconds per byte, within `limit` bytes (None: no limit). Returns a bool for each
    sample, and the number, bytes and saved seconds of the admitted samples with an upper bound of the seconds."""
    import numpy as np

    chosen = np.zeros(len(room), np.uint8)
    most = 1 << 62 if limit is None else limit
    report = _native.cache_plan(np.ascontiguousarray(room, np.uint64), np.ascontiguousarray(seconds, np.float64), most, chosen)
    return chosen.astype(bool), report
