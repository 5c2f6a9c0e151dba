"""The survey of a data set's images: sizes of all, pixels of many, and what some that were probed say of all of them.

Bytes of a form are estimated from images that were written in it. Images that are alike, by their stored bytes for a pixel and by
their pixels, are a stratum. Within a stratum bytes are proportional to an expected size. That is the stored bytes, or the bytes of
the pixels, by a line in the logarithm of the stored bytes for a pixel, which all probed images give. The ratio of each stratum is
that of its probed images, and weighs as much as the stratum does: the separate ratio estimator of Cochran, "Sampling Techniques",
3rd edition 1977, section 6.10. Images that were probed count as they are.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...data.image import probe as image_info
from ...data.items import share_nbytes
from ...errors import PenstockError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...data.dataset import Dataset

    Floats = npt.NDArray[np.float64]

_MOST_ITEMS, _ITEM_SECONDS = 16384, 2.0  # samples whose stored bytes are looked at, and for how long
_MOST_HEADERS, _HEADER_SECONDS = 4096, 4.0  # of files whose headers are read
_LEAST = 512  # of either, however long it takes
_PREFIX_NBYTES = 64 << 10  # of a file; most headers are within
_SIZE_GROUPS = 8
_STRATA, _PARTS = 4, 2  # by bytes for a pixel, and each by pixels
_FEW = 8  # images that a stratum has at least
_POOLED = 4  # images' worth of the deviation of all in that of a stratum, of which few were probed


def spread(numbers: Sequence[int], sizes: Sequence[float], n: int) -> list[int]:
    """Returns n of the numbers, or all: the middle ones of n parts in the order of their sizes, so that their means are near those
    of all."""
    order = sorted(range(len(numbers)), key=lambda i: (sizes[i], i))
    n = min(n, len(order))
    return [numbers[order[int((k + 0.5) * len(order) / n)]] for k in range(n)]


@dataclass
class Survey:
    """Images of one kind, those whose pixels are known.

    Attributes:
        count: images of the kind in the data set, or an estimate.
        mean_nbytes: stored bytes of one, by all that were looked at.
        numbers: of the images in the data set, one for each entry of the arrays that follow.
        weights: how many images of the data set each stands for.
        nbytes: stored bytes.
        heights, widths: as shown.
        raw: bytes as raw pixels.
        folder: the images are files of a folder, which are read whole.
    """

    count: int
    mean_nbytes: float
    numbers: list[int]
    weights: Floats
    nbytes: Floats
    heights: npt.NDArray[np.int64]
    widths: npt.NDArray[np.int64]
    raw: Floats
    folder: bool = False

    def mean(self, values: Floats) -> float:
        """Returns the mean over all images of what is known of each entry."""
        return float((self.weights * values).sum() / self.weights.sum())

    def spread(self, n: int) -> list[int]:
        """Returns the places of n images, or of all: the middle ones of n parts of all images in the order of their sizes."""
        import numpy as np

        order = np.argsort(self.nbytes, kind="stable")
        sums = self.weights[order].cumsum()
        n = min(n, len(order))
        wanted = (np.arange(n) + 0.5) / n * sums[-1]
        return list(dict.fromkeys(map(int, order[np.minimum(np.searchsorted(sums, wanted), len(order) - 1)])))

    @property
    def pixels(self) -> float:
        """Height times width of an image, a mean."""
        return self.mean((self.heights * self.widths).astype(float))

    def error(self, values: Floats) -> float:
        """Returns the standard error of a mean, relative to it: not all images are entries."""
        n = len(self.numbers)
        left = 1 - n / max(self.count, n)
        mean = self.mean(values)
        if n < 2 or left <= 0 or mean <= 0:
            return 0.0
        residual = values - self.nbytes * mean / max(self.mean(self.nbytes), 1e-9)  # sizes of all are known
        spread_of = min(float(residual.var()), float(values.var()))
        return math.sqrt(left * spread_of / n) / mean


def of_images(images: Sequence[bytes]) -> Survey:
    """Returns the survey of images that are all there is."""
    import numpy as np

    found: list[tuple[int, int, float]] = []
    for data in images:
        try:
            info = image_info(data)
            found.append((info.height, info.width, _raw(info.height, info.width, info.channels, info.bits)))
        except PenstockError:  # raw pixels have no header
            found.append((1, max(len(data), 1), float(len(data))))
    nbytes = np.array([len(data) for data in images], float)
    n = len(images)
    heights, widths, raw = (np.array(column) for column in zip(*found, strict=True))
    return Survey(n, float(nbytes.mean()), list(range(n)), np.ones(n), nbytes, heights, widths, raw.astype(float))


def _raw(height: int, width: int, channels: int, bits: int) -> float:
    return float(height * width * channels * bits // 8)


class Look:
    """The stored items of an image field, as far as the index or the scan of a folder has them.

    Args:
        numbers: of the samples, in a random order.

    Attributes:
        lost: why images could not be read, which are left out: their files were removed or changed since the data set was opened.
    """

    def __init__(self, dataset: Dataset, image: str, numbers: Sequence[int]) -> None:
        self._dataset = dataset
        self._image = image
        self.kinds: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.looked_at = 0
        self.lost: list[str] = []
        self.samples = len(numbers)
        end = time.perf_counter() + _ITEM_SECONDS
        for number in map(int, numbers[:_MOST_ITEMS]):
            if self.looked_at >= _LEAST and time.perf_counter() > end:
                break
            item = dataset.item(number, image)
            self.kinds.setdefault(kind_of(item), []).append((number, item))
            self.looked_at += 1

    @property
    def main(self) -> str:
        """The kind that most of them have."""
        return Counter({kind: len(found) for kind, found in self.kinds.items()}).most_common(1)[0][0]

    def mean_nbytes(self, kind: str | None) -> float:
        """Returns the mean stored bytes of the images of a kind; None: of all. 0: there are none."""
        groups = self.kinds.values() if kind is None else [self.kinds.get(kind, [])]
        sizes = [share_nbytes(item) for group in groups for _, item in group]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def survey(self, kind: str) -> Survey:
        """Returns the survey of a data set of that kind. It reads the images' headers if no index has their sizes."""
        import numpy as np

        found = self.kinds[kind]
        nbytes = np.array([share_nbytes(item) for _, item in found], float)
        groups = _by_size(nbytes)
        shapes = _in_turns(groups, lambda place: self._shape(*found[place]))
        places = sorted(shapes)
        if not places:  # every file is damaged: loading says so
            shapes, places = dict.fromkeys(range(len(found)), (1, 1, 1.0)), list(range(len(found)))
        members = np.bincount(groups[places], minlength=groups.max() + 1)
        per_group = np.bincount(groups) / np.maximum(members, 1)
        scale = self.samples / self.looked_at
        heights, widths, raw = (np.array(column) for column in zip(*(shapes[place] for place in places), strict=True))
        return Survey(
            round(len(found) * scale), float(nbytes.mean()), [found[place][0] for place in places],
            per_group[groups[places]] * scale, nbytes[places], heights, widths, raw.astype(float),
            folder=found[0][1]["form"] is None,
        )  # fmt: skip

    def _shape(self, number: int, item: Mapping[str, Any]) -> tuple[int, int, float] | None:
        """Returns height, width and bytes as raw pixels. None: the image is damaged, or cannot be read."""
        if item["form"] is not None:
            return item["height"], item["width"], _raw(item["height"], item["width"], item["channels"], item["bits"])
        try:
            head = self._dataset._head(number, self._image, _PREFIX_NBYTES)
            data = head if _info(head) is not None else self._dataset.read(number, self._image)
        except PenstockError as error:
            self.lost.append(str(error))
            return None
        info = _info(data)
        return None if info is None else (info.height, info.width, _raw(info.height, info.width, info.channels, info.bits))


def kind_of(item: Mapping[str, Any]) -> str:
    """Returns the form of an item, or the ending of its file's name where only the file knows the form."""
    return str(item["form"] or os.path.splitext(str(item["file"]))[1].lower())


def _info(data: bytes) -> Any:
    """Returns what the first bytes of an image say. None: they do not."""
    try:
        return image_info(data)
    except PenstockError:
        return None


def _by_size(nbytes: Floats) -> npt.NDArray[np.int64]:
    """Returns the group of each image: groups in the order of sizes, each with about as many bytes as the others."""
    import numpy as np

    return _equal_parts(np.argsort(nbytes, kind="stable"), nbytes, min(_SIZE_GROUPS, max(1, len(nbytes) // _FEW)))


def _equal_parts(order: Any, shares: Floats, n: int) -> npt.NDArray[np.int64]:
    """Divides the entries, in an order, in n parts of equal sums of shares."""
    import numpy as np

    sums = shares[order].cumsum()
    part = np.minimum((n * (sums - shares[order] / 2) / max(sums[-1], 1e-9)).astype(np.int64), n - 1)
    found = np.empty(len(order), np.int64)
    found[order] = part
    return found


def _in_turns(groups: Any, look: Any) -> dict[int, Any]:
    """Looks at an entry of each group in turn, until all are done, or enough of them, or it took too long."""
    left = [list(map(int, (groups == group).nonzero()[0])) for group in range(int(groups.max()) + 1)]
    found: dict[int, Any] = {}
    n, end = 0, time.perf_counter() + _HEADER_SECONDS
    while any(left):
        for group in left:
            if not group:
                continue
            if n >= _MOST_HEADERS or (n >= _LEAST and time.perf_counter() > end):
                return found
            n += 1
            place = group.pop()
            shape = look(place)
            if shape is not None:
                found[place] = shape
    return found


def strata(survey: Survey) -> npt.NDArray[np.int64]:
    """Returns the stratum of each image: by stored bytes for a pixel, and each such part by pixels."""
    import numpy as np

    n = len(survey.numbers)
    shares = survey.weights * survey.raw
    outer = min(_STRATA, max(1, n // (2 * _FEW)))
    first = _equal_parts(np.argsort(survey.nbytes / survey.raw, kind="stable"), shares, outer)
    found = np.zeros(n, np.int64)
    for part in range(outer):
        inside = (first == part).nonzero()[0]
        if len(inside) == 0:
            continue
        parts = _PARTS if len(inside) >= _PARTS * _FEW else 1
        order = np.argsort(survey.raw[inside], kind="stable")
        found[inside] = part * _PARTS + _equal_parts(order, shares[inside], parts)
    return np.unique(found, return_inverse=True)[1].reshape(n)


class Sizes:
    """The bytes of all images of a survey in one form, by those of the images that were probed.

    Args:
        labels: the stratum of each image.
        known: what bytes are proportional to within a stratum: an array of the survey.
    """

    def __init__(self, survey: Survey, labels: Any, known: Floats) -> None:
        self._survey = survey
        self._labels = labels
        self._known = known
        self._n = int(labels.max()) + 1
        self.probed: dict[int, float] = {}

    def add(self, place: int, nbytes: float) -> None:
        """An image of the survey, by its place in the arrays, takes so many bytes."""
        self.probed[place] = float(nbytes)

    def _sums(self) -> tuple[Any, Any, Any, Any, Floats]:
        """Returns for each stratum how many images were probed, their ratio, the deviation of their ratios, and the sum of the
        expected sizes of the images that were not probed; and the expected size of each image. A stratum without probed images
        has the ratio of the nearest one."""
        import numpy as np

        places = np.fromiter(self.probed, np.int64, len(self.probed))
        found = np.fromiter(self.probed.values(), float, len(self.probed))
        expected = self._known * self._line(places, found / self._known[places])
        of = self._labels[places]
        n = np.bincount(of, minlength=self._n)
        known = np.bincount(of, expected[places], self._n)
        there = (n > 0).nonzero()[0]
        nearest = there[np.abs(np.arange(self._n)[:, None] - there[None, :]).argmin(axis=1)]
        ratio = (np.bincount(of, found, self._n) / np.maximum(known, 1e-9))[nearest]
        square = (found / expected[places] - ratio[of]) ** 2
        pooled = square.sum() / max(len(places) - len(there), 1)
        own = np.bincount(of, square, self._n)
        deviation = np.sqrt((own + _POOLED * pooled) / (np.maximum(n - 1, 0) + _POOLED))
        left = np.bincount(self._labels, self._survey.weights * expected, self._n) - known
        return n, ratio, deviation, np.maximum(left, 0.0), expected

    def _line(self, places: Any, ratios: Floats) -> Floats:
        """Returns the ratio to the known size that a line expects of each image, within those of the probed ones."""
        import numpy as np

        if len(places) < _FEW:
            return np.full(len(self._known), ratios.mean())
        density = np.log(self._survey.nbytes / self._survey.raw)
        here = density[places] - density[places].mean()
        square = float((here * here).sum())
        slope = float((here * ratios).sum()) / square if square > 1e-9 else 0.0
        expected: Floats = ratios.mean() + slope * (density - density[places].mean())
        return expected.clip(ratios.min(), ratios.max())

    def each(self) -> Floats:
        """Returns the bytes of each image of the survey: those that were probed, and the estimates of the others."""
        _, ratio, _, _, expected = self._sums()
        found: Floats = ratio[self._labels] * expected
        for place, nbytes in self.probed.items():
            found[place] = nbytes
        return found

    @property
    def mean(self) -> float:
        """The mean over the data set."""
        _, ratio, _, left, _ = self._sums()
        return float((sum(self.probed.values()) + (ratio * left).sum()) / self._survey.weights.sum())

    @property
    def error(self) -> float:
        """The standard error of the mean, relative to it. 0: all images were probed."""
        import numpy as np

        n, _, deviation, left, expected = self._sums()
        if len(self.probed) < 2:
            return 0.0 if left.sum() <= 1e-6 * expected.sum() else 1.0
        places = list(self.probed)
        squares = np.bincount(self._labels, self._survey.weights * expected * expected, self._n)
        squares -= np.bincount(self._labels[places], expected[places] ** 2, self._n)
        # The ratios are uncertain, and so is each image that was not probed by itself.
        variance = deviation**2 * (left**2 / np.maximum(n, 1) + np.maximum(squares, 0.0))
        mean = self.mean * self._survey.weights.sum()
        return math.hypot(math.sqrt(variance.sum()) / max(mean, 1e-9), self._survey.error(self._known))

    def wanted(self) -> int | None:
        """Returns the stratum whose next image makes the error smallest. None: all images were probed."""
        import numpy as np

        n, _, deviation, left, _ = self._sums()
        total = np.bincount(self._labels, minlength=self._n)
        gain = np.where(n < 2, 1e6 * left, (left * deviation) ** 2 / np.maximum(n * (n + 1), 1))
        gain = np.where(n >= total, -1.0, gain)
        best = int(gain.argmax())
        return best if gain[best] >= 0 else None


class Sample(list[bytes]):
    """The stored bytes of images that stand for a survey, and the way to further ones.

    Attributes:
        survey: of all images.
        places: of these images in the survey.
    """

    def __init__(self, images: Sequence[bytes], survey: Survey, places: Sequence[int], dataset: Dataset, image: str) -> None:
        super().__init__(images)
        self.survey = survey
        self.places = list(places)
        self._dataset = dataset
        self._image = image

    def read(self, place: int) -> bytes:
        """Returns the stored bytes of an image of the survey."""
        return self._dataset.read(self.survey.numbers[place], self._image)


def line(times: Sequence[float], columns: Sequence[Floats]) -> Floats:
    """Returns the factors, none below 0, of the line through a constant and these columns that is closest to the times.

    Of all sets of factors that are above 0 the best one is taken: there are few.
    """
    import numpy as np

    wanted = np.asarray(times, float)
    full = np.column_stack([np.ones(len(wanted)), *columns])
    scale = np.maximum(full.mean(axis=0), 1e-300)
    best, least = np.zeros(full.shape[1]), math.inf
    for mask in range(1, 1 << full.shape[1]):
        chosen = [i for i in range(full.shape[1]) if mask >> i & 1]
        factors, *_ = np.linalg.lstsq(full[:, chosen] / scale[chosen], wanted, rcond=None)
        if (factors < 0).any():
            continue
        left = float(((full[:, chosen] / scale[chosen]) @ factors - wanted).__pow__(2).sum())
        if left < least * (1 - 1e-9):
            best, least = np.zeros(full.shape[1]), left
            best[chosen] = factors / scale[chosen]
    return best


def times_as_much(times: Sequence[float], probed: Sequence[Floats], all_of: Sequence[Floats], weights: Floats) -> float:
    """Returns how many times the mean time of the probed images the mean of all is, by a line in their columns.

    probed, all_of: the same columns, of the images that were timed and of all. weights: of all.
    """
    factors = line(times, probed)
    here = factors[0] + sum(f * float(column.mean()) for f, column in zip(factors[1:], probed, strict=True))
    share = weights / weights.sum()
    there = factors[0] + sum(f * float((share * column).sum()) for f, column in zip(factors[1:], all_of, strict=True))
    return float(there / here) if here > 0 and there > 0 else 1.0
