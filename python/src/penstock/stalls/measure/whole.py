"""Scales the measurements of a probe's images to all images of the data set.

The bytes of forms follow from the survey's sizes and pixels (survey.py), the bytes that are read from the crops (crops.py), and
times from lines fitted to sizes and pixels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ...data import pli
from . import crops
from .survey import Sample, Sizes, Survey, of_images, strata, times_as_much

if TYPE_CHECKING:
    from ...data.dataset import Dataset

_ENOUGH = 0.01  # standard error of a form's mean bytes at which no more images are written
_DRAWS = 4096  # number of random crops, over all images
_TABLE_DRAWS = 16  # number of random crops of each image whose units are known
_DRAWS_ERROR = 0.01  # standard error of the result of _DRAWS crops

Place = int
Encoder = Callable[[bytes, str], bytes | int | None]


def follows(form: str, stored: str) -> bool:
    """Whether the bytes of an image in a form depend on its stored bytes, and not only on its pixels."""
    if form == stored:
        return True
    return form == "pli-jpeg" if stored in ("jpeg", "pli-jpeg") else form != "raw" and stored != "raw"


class Whole:
    """The whole data set that the images of a probe represent.

    Args:
        images: the images of the probe: a Sample, or a complete list.
        stored: the form of the images.
        chain: the operations on an image; None: no operations.
        options: arguments of the user's Loader, which say how storage is read.
    """

    def __init__(self, images: Sequence[bytes], stored: str, chain: Any, options: Mapping[str, Any]) -> None:
        self._sample = images if isinstance(images, Sample) else None
        self.survey: Survey = images.survey if isinstance(images, Sample) else of_images(images)
        self._places = images.places if isinstance(images, Sample) else list(range(len(images)))
        self._stored = stored
        self._labels = strata(self.survey)
        self._crops = crops.Crops(chain)
        direct = options.get("page_cache") == "direct"
        self._rules = crops.Rules(crops.BLOCK if direct else 1, crops.gap_of(options))
        self._views = bool(options.get("views"))
        self._sizes: dict[str, Sizes] = {}
        self._reads: dict[str, tuple[float, float]] = {}  # results of _read, by form
        self._tables: dict[str, dict[Place, crops.Stored]] = {}  # the tables of units of images that are PLI

    def written(self, form: str, dataset: Dataset) -> None:
        """Records the bytes of the probe's images, which were written to a data set in this form."""
        known = self.survey.nbytes if follows(form, self._stored) else self.survey.raw
        sizes = self._sizes[form] = Sizes(self.survey, self._labels, known)
        for i, place in enumerate(self._places):
            item = dataset.item(i, "image")
            sizes.add(place, item["nbytes"])
            if item["form"] in ("pli", "pli-jpeg"):
                self._tables.setdefault(form, {})[place] = _table(dataset.read(i, "image"))

    def look_at_more(self, stored_as: Encoder, seconds: float, threads: int) -> None:
        """Encodes further images in memory, until the mean bytes of each form are known well enough, or for `seconds`.

        Each image is taken from the stratum that reduces the error most, for the form with the largest error.

        stored_as: called with an image's stored bytes and a form, in threads; returns the image in that form, or only its number of
            bytes. None: it cannot be converted.
        """
        if self._sample is None:
            return
        sample = self._sample
        left = self._in_turn()
        end = time.perf_counter() + seconds
        with ThreadPoolExecutor(threads) as pool:
            while time.perf_counter() < end:
                errors = {form: sizes.error for form, sizes in self._sizes.items()}
                unsure = [form for form, error in errors.items() if error > _ENOUGH]
                worst = max(unsure, key=lambda form: errors[form], default=None)
                stratum = self._sizes[worst].wanted() if worst is not None else None
                if stratum is None or not left[stratum]:
                    return
                some = [left[stratum].pop() for _ in range(min(threads, len(left[stratum])))]
                made = pool.map(_forms_of, map(sample.read, some), repeat(unsure), repeat(stored_as))
                for place, found in zip(some, made, strict=True):
                    for form, (nbytes, table) in found.items():
                        self._sizes[form].add(place, nbytes)
                        if table is not None:
                            self._tables[form][place] = table

    def _in_turn(self) -> list[list[Place]]:
        """Returns for each stratum the images that were not written yet, in random order. Images are taken from the end, where
        large ones are more likely (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006)."""
        import numpy as np

        chance = np.random.default_rng(2).random(len(self._labels)) ** (self.survey.raw.mean() / self.survey.raw)
        probed = set(self._places)
        found: list[list[Place]] = [[] for _ in range(int(self._labels.max()) + 1)]
        for place in map(int, np.argsort(chance)):
            if place not in probed:
                found[self._labels[place]].append(place)
        return found

    def notes(self) -> list[str]:
        """Returns remarks about what was read, if not all images were."""
        found = []
        n, count = len(self.survey.numbers), self.survey.count
        if n < count:
            found.append(f"the sizes of {n} of {count} images stand for all: reading more headers would have taken too long")
        for form, sizes in self._sizes.items():
            if 2 * sizes.error > 0.03:
                found.append(f"form {form}: the bytes of {len(sizes.probed)} images stand for all, within {2 * sizes.error:.0%}")
        return found

    def costs(self, form: str, measured: Mapping[str, float], times: Sequence[float]) -> dict[str, float]:
        """Returns the costs of a form, scaled to all images.

        measured: costs from the probe. times: CPU seconds of each of its images, or an empty list.
        """
        sizes = self._sizes[form]
        each = sizes.each()
        item = sizes.mean * self._all_sizes(form)
        read, reads = self._read(form, each, measured)
        deviation = math.sqrt(max(self.survey.mean(each * each) - self.survey.mean(each) ** 2, 0.0))
        band = 2 * sizes.error
        factor = self._times(form, each, times)
        found = {name: value * factor for name, value in measured.items() if name in ("cpu_seconds", "hit_cpu_seconds")}
        partly = read < 1
        return {
            **measured,
            **found,
            "nbytes": item * read,
            "nbytes_sd": deviation * read,
            "nbytes_band": math.hypot(band, _DRAWS_ERROR) if partly else band,
            "reads": reads,
            "item_nbytes": item,
            "pixels": self.survey.pixels,
        }

    def _all_sizes(self, form: str) -> float:
        """Returns the ratio of the mean stored bytes of all images to that of the survey. More images have known sizes than known
        pixels."""
        return self.survey.mean_nbytes / self.survey.mean(self.survey.nbytes) if follows(form, self._stored) else 1.0

    def _times(self, form: str, each: Any, times: Sequence[float]) -> float:
        if self._sample is None or len(times) < 2:
            return 1.0
        probed = [each[self._places], self.survey.raw[self._places]]
        return times_as_much(times, probed, [each, self.survey.raw], self.survey.weights)

    def _read(self, form: str, each: Any, measured: Mapping[str, float]) -> tuple[float, float]:
        """Returns the mean fraction of an item's bytes that is read, and the number of reads per sample."""
        tables = self._tables.get(form)
        if not tables or self._views or (form == self._stored and self.survey.folder):
            return 1.0, 1.0
        if not self._crops.known:
            return min(measured["nbytes"] / max(measured["item_nbytes"], 1.0), 1.0), measured["reads"]
        if form not in self._reads:
            self._reads[form] = self._draw(each, tables)
        return self._reads[form]

    def _draw(self, each: Any, tables: Mapping[Place, crops.Stored]) -> tuple[float, float]:
        """Returns the fraction of bytes that is read, and the reads per sample, from random crops of all images."""
        import numpy as np

        random = np.random.default_rng(3)
        part = reads = inverse = 0.0
        edges = self._edges(tables)
        for place, times in _by_share(self.survey.weights * each, _DRAWS).items():
            nbytes, n = float(each[place]), 1.0
            if self._rules.may_read_parts(nbytes):
                shape = int(self.survey.heights[place]), int(self.survey.widths[place])
                item = crops.Stored.even(nbytes, *shape, edges[place])
                nbytes, n = crops.expected([item] * times, self._crops, self._rules, random)
            part += times * nbytes / float(each[place])
            reads += times * n / float(each[place])
            inverse += times / float(each[place])
        return min(part / _DRAWS * self._unevenness(tables), 1.0), reads / inverse

    def _edges(self, tables: Mapping[Place, crops.Stored]) -> list[int]:
        """Returns the side of each image's units, taken from the image with known units whose bytes per pixel are nearest."""
        import numpy as np

        density = self.survey.nbytes / self.survey.raw
        order = sorted(tables, key=lambda place: float(density[place]))
        points = density[order]
        nearest = np.searchsorted((points[1:] + points[:-1]) / 2, density)
        return [tables[order[int(i)]].edge for i in nearest]

    def _unevenness(self, tables: Mapping[Place, crops.Stored]) -> float:
        """Returns the ratio of the bytes read for images with known units to the bytes if all pixels took equally many. It differs
        from 1 because crops cover the middle of an image more often than its edges."""
        import numpy as np

        real = even = 0.0
        for place, table in tables.items():
            weight = float(self.survey.weights[place])
            real += weight * self._drawn(table, np.random.default_rng(place))
            even += weight * self._drawn(table.evened(), np.random.default_rng(place))
        return real / even if even > 0 else 1.0

    def _drawn(self, table: crops.Stored, random: Any) -> float:
        if not self._rules.may_read_parts(table.nbytes):
            return float(table.nbytes)
        return crops.expected([table] * _TABLE_DRAWS, self._crops, self._rules, random)[0]


def _table(data: bytes) -> crops.Stored:
    return crops.Stored.of(data, pli.info(data))


def _forms_of(data: bytes, forms: Sequence[str], stored_as: Encoder) -> dict[str, tuple[int, crops.Stored | None]]:
    """Returns the bytes of an image in each form, and its units if the form is PLI."""
    found: dict[str, tuple[int, crops.Stored | None]] = {}
    for form in forms:
        made = stored_as(data, form)
        if isinstance(made, int):
            found[form] = made, None
        elif made is not None:
            found[form] = len(made), _table(made) if made[1:4] == b"PLI" else None
    return found


def _by_share(shares: Any, n: int) -> dict[Place, int]:
    """Returns n indices, each as often as its share of the total."""
    import numpy as np

    sums = shares.cumsum()
    wanted = (np.arange(n) + 0.5) / n * sums[-1]
    places, times = np.unique(np.minimum(np.searchsorted(sums, wanted), len(shares) - 1), return_counts=True)
    return {int(place): int(n) for place, n in zip(places, times, strict=True)}
