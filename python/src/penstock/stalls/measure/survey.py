"""The survey of a data set's images: the sizes of all, the pixels of many, and estimates for all from some that were probed.

The bytes of a form are estimated from images that were written in it. A stratum is a group of similar images, by their stored
bytes per pixel and by their pixels. Within a stratum, the bytes in the form are assumed proportional to an expected size: the
stored or raw bytes of the image, times a factor. A straight line fitted to all probed images gives the factor, as a function of the
logarithm of the stored bytes per pixel. Each stratum uses the ratio of its probed images to their expected sizes, weighted by the
size of the stratum: the separate ratio estimator of Cochran, "Sampling Techniques", 3rd edition 1977, section 6.10. Probed images
count with their exact bytes.
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

_MOST_ITEMS, _ITEM_SECONDS = 16384, 2.0  # maximum number of samples whose stored bytes are read, and the time limit
_MOST_HEADERS, _HEADER_SECONDS = 4096, 4.0  # maximum number of files whose headers are read, and the time limit
_LEAST = 512  # minimum number of items and headers that are read, however long that takes
_PREFIX_NBYTES = 64 << 10  # number of bytes that are read of a file; most headers fit
_SIZE_GROUPS = 8
_STRATA, _PARTS = 4, 2  # number of parts by bytes per pixel, and of parts by pixels in each of these
_FEW = 8  # minimum number of images in a stratum
_POOLED = 4  # weight of the overall deviation in that of a stratum, as a number of images


def spread(numbers: Sequence[int], sizes: Sequence[float], n: int) -> list[int]:
    """Returns n of the numbers (or all). The numbers are sorted by size and divided into n parts; the middle of each part is taken,
    so that the means are near those of all."""
    order = sorted(range(len(numbers)), key=lambda i: (sizes[i], i))
    n = min(n, len(order))
    return [numbers[order[int((k + 0.5) * len(order) / n)]] for k in range(n)]


@dataclass
class Survey:
    """The images of one kind whose pixel counts are known.

    Attributes:
        count: number of images of this kind in the data set, or an estimate.
        mean_nbytes: mean stored bytes, from all images that were read.
        numbers: numbers of the images in the data set, one for each entry of the arrays below.
        weights: how many images of the data set each entry stands for.
        nbytes: stored bytes.
        heights, widths: size with the orientation applied.
        raw: bytes as raw pixels.
        folder: True if the images are files of a folder, which are read whole.
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
        """Returns the weighted mean of values that are known for each entry."""
        return float((self.weights * values).sum() / self.weights.sum())

    def spread(self, n: int) -> list[int]:
        """Returns the indices of n entries (or of all): sorted by size and divided into n parts, the middle of each part."""
        import numpy as np

        order = np.argsort(self.nbytes, kind="stable")
        sums = self.weights[order].cumsum()
        n = min(n, len(order))
        wanted = (np.arange(n) + 0.5) / n * sums[-1]
        return list(dict.fromkeys(map(int, order[np.minimum(np.searchsorted(sums, wanted), len(order) - 1)])))

    @property
    def pixels(self) -> float:
        """Mean pixel count (height times width) of an image."""
        return self.mean((self.heights * self.widths).astype(float))

    def error(self, values: Floats) -> float:
        """Returns the relative standard error of a mean, because not all images are entries."""
        n = len(self.numbers)
        left = 1 - n / max(self.count, n)
        mean = self.mean(values)
        if n < 2 or left <= 0 or mean <= 0:
            return 0.0
        residual = values - self.nbytes * mean / max(self.mean(self.nbytes), 1e-9)  # only what sizes do not explain is uncertain
        spread_of = min(float(residual.var()), float(values.var()))
        return math.sqrt(left * spread_of / n) / mean


def of_images(images: Sequence[bytes]) -> Survey:
    """Returns a survey of a complete list of images."""
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
    """The stored items of an image field, as far as the index or the scan of a folder knows them.

    Args:
        numbers: numbers of the samples, in random order.

    Attributes:
        lost: reasons why images could not be read and were left out: their files were removed or changed since the data set was
            opened.
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
        """The kind that most images have."""
        return Counter({kind: len(found) for kind, found in self.kinds.items()}).most_common(1)[0][0]

    def mean_nbytes(self, kind: str | None) -> float:
        """Returns the mean stored bytes of the images of a kind (None: of all), or 0 if there are none."""
        groups = self.kinds.values() if kind is None else [self.kinds.get(kind, [])]
        sizes = [share_nbytes(item) for group in groups for _, item in group]
        return sum(sizes) / len(sizes) if sizes else 0.0

    def survey(self, kind: str) -> Survey:
        """Returns the survey of the images of a kind. It reads their headers if no index has their sizes."""
        import numpy as np

        found = self.kinds[kind]
        nbytes = np.array([share_nbytes(item) for _, item in found], float)
        groups = _by_size(nbytes)
        shapes = _in_turns(groups, lambda place: self._shape(*found[place]))
        places = sorted(shapes)
        if not places:  # every file is damaged, which loading will report
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
        """Returns height, width and raw bytes of an image, or None if it is damaged or cannot be read."""
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
    """Returns the form of an item, or its file name's extension if the form is unknown before the file is read."""
    return str(item["form"] or os.path.splitext(str(item["file"]))[1].lower())


def _info(data: bytes) -> Any:
    """Returns the header of an image from its first bytes, or None if they are not enough."""
    try:
        return image_info(data)
    except PenstockError:
        return None


def _by_size(nbytes: Floats) -> npt.NDArray[np.int64]:
    """Returns the group of each image. The groups are sorted by size and have about equal total bytes."""
    import numpy as np

    return _equal_parts(np.argsort(nbytes, kind="stable"), nbytes, min(_SIZE_GROUPS, max(1, len(nbytes) // _FEW)))


def _equal_parts(order: Any, shares: Floats, n: int) -> npt.NDArray[np.int64]:
    """Divides the entries, in the given order, into n parts with equal sums of shares."""
    import numpy as np

    sums = shares[order].cumsum()
    part = np.minimum((n * (sums - shares[order] / 2) / max(sums[-1], 1e-9)).astype(np.int64), n - 1)
    found = np.empty(len(order), np.int64)
    found[order] = part
    return found


def _in_turns(groups: Any, look: Any) -> dict[int, Any]:
    """Calls `look` for an entry of each group in turn, until all are done, enough are done, or the time is over."""
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
    """Returns the stratum of each image: by stored bytes per pixel, and within such a part by pixels."""
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
    """Estimates the bytes of all images of a survey in one form, from the images that were probed.

    Args:
        labels: the stratum of each image.
        known: a size that the bytes are proportional to within a stratum: an array of the survey.
    """

    def __init__(self, survey: Survey, labels: Any, known: Floats) -> None:
        self._survey = survey
        self._labels = labels
        self._known = known
        self._n = int(labels.max()) + 1
        self.probed: dict[int, float] = {}

    def add(self, place: int, nbytes: float) -> None:
        """Records that the image with index `place` in the survey takes `nbytes` in the form."""
        self.probed[place] = float(nbytes)

    def _sums(self) -> tuple[Any, Any, Any, Any, Floats]:
        """Returns for each stratum: the number of probed images, their ratio, the deviation of their ratios, and the sum of the
        expected sizes of images that were not probed; and the expected size of each image. A stratum without probed images gets the
        ratio of the nearest stratum that has some."""
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
        """Returns the ratio to the known size that a fitted line predicts for each image, limited to the range of the probed
        images."""
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
        """Returns the bytes of each image of the survey: exact for probed images, else estimated."""
        _, ratio, _, _, expected = self._sums()
        found: Floats = ratio[self._labels] * expected
        for place, nbytes in self.probed.items():
            found[place] = nbytes
        return found

    @property
    def mean(self) -> float:
        """The estimated mean bytes over the data set."""
        _, ratio, _, left, _ = self._sums()
        return float((sum(self.probed.values()) + (ratio * left).sum()) / self._survey.weights.sum())

    @property
    def error(self) -> float:
        """The relative standard error of the mean; 0 if all images were probed."""
        import numpy as np

        n, _, deviation, left, expected = self._sums()
        if len(self.probed) < 2:
            return 0.0 if left.sum() <= 1e-6 * expected.sum() else 1.0
        places = list(self.probed)
        squares = np.bincount(self._labels, self._survey.weights * expected * expected, self._n)
        squares -= np.bincount(self._labels[places], expected[places] ** 2, self._n)
        # Both the ratio of a stratum and each image that was not probed are uncertain.
        variance = deviation**2 * (left**2 / np.maximum(n, 1) + np.maximum(squares, 0.0))
        mean = self.mean * self._survey.weights.sum()
        return math.hypot(math.sqrt(variance.sum()) / max(mean, 1e-9), self._survey.error(self._known))

    def wanted(self) -> int | None:
        """Returns the stratum in which probing one more image reduces the error most, or None if all were probed."""
        import numpy as np

        n, _, deviation, left, _ = self._sums()
        total = np.bincount(self._labels, minlength=self._n)
        gain = np.where(n < 2, 1e6 * left, (left * deviation) ** 2 / np.maximum(n * (n + 1), 1))
        gain = np.where(n >= total, -1.0, gain)
        best = int(gain.argmax())
        return best if gain[best] >= 0 else None


class Sample(list[bytes]):
    """The stored bytes of images that represent a survey, and access to further images of it.

    Attributes:
        survey: the survey of all images.
        places: indices of these images in the survey.
    """

    def __init__(self, images: Sequence[bytes], survey: Survey, places: Sequence[int], dataset: Dataset, image: str) -> None:
        super().__init__(images)
        self.survey = survey
        self.places = list(places)
        self._dataset = dataset
        self._image = image

    def read(self, place: int) -> bytes:
        """Returns the stored bytes of the image with this index in the survey."""
        return self._dataset.read(self.survey.numbers[place], self._image)


def line(times: Sequence[float], columns: Sequence[Floats]) -> Floats:
    """Fits times by least squares with a constant and these columns. Returns the factors, none of which is negative.

    It tries every subset of columns, which are few, and takes the best fit whose factors are all positive.
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
    """Returns the ratio of the mean time of all images to the mean time of the probed ones, from a line fitted to their columns.

    probed, all_of: the same columns for the timed images and for all. weights: weights of all images.
    """
    factors = line(times, probed)
    here = factors[0] + sum(f * float(column.mean()) for f, column in zip(factors[1:], probed, strict=True))
    share = weights / weights.sum()
    there = factors[0] + sum(f * float((share * column).sum()) for f, column in zip(factors[1:], all_of, strict=True))
    return float(there / here) if here > 0 and there > 0 else 1.0
