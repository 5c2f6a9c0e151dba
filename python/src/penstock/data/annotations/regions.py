"""Converts polygons and run lengths to regions of pixels, and paints masks of regions.

A region is a list of runs of pixels: two int64 arrays with the starts and the ends. Pixels are numbered down the columns, beginning
with the left column, as in COCO. Runs are sorted, not empty, and do not touch each other.

Polygons become pixels by the rule of COCO's own tool (maskApi.c, ``rleFrPoly``). Vertices are rounded to a fifth of a pixel, and
edges are drawn on that grid. Where the boundary crosses the middle of a column of pixels, the pixels below switch between outside
and inside. The polygons of one object are joined.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import LimitError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Region = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

# Maximum number of crossings of a polygon's edges with columns that are computed; more are an error.
_MOST_CROSSINGS = 1 << 24
_SCALE = 5.0
# Maximum number of pixels of a painted image; it equals the limit for decoded images.
_PAINTED_MAX = 1 << 28
# Runs of more pixels in total are painted one by one, because an array of their pixel numbers would take much memory.
_MANY_PIXELS = 1 << 22


class RegionError(ValueError):
    """A region that cannot be drawn. The text completes the sentence "the segmentation ..."."""


def _spread(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers counts[0] + counts[1] + ... rows: returns for each row the index of its count, and its number within that count."""
    import numpy as np

    if int(counts.sum()) > _MOST_CROSSINGS:
        raise RegionError("crosses columns more than 16 million times")
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)


def _columns(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], width: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the pixel columns whose middle an edge crosses. The middle of column x lies between 5 x + 2 and 5 x + 3 of the grid,
    and an edge spans `low` to `high`. Returns the index of the edge and the column of each crossing."""
    import numpy as np

    first = np.maximum(-((2 - low) // 5), 0)
    last = np.minimum((high - 3) // 5, width - 1)
    which, step = _spread(np.maximum(last - first + 1, 0))
    return which, first[which] + step


def _polygon(points: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.int64]:
    """Returns the positions (numbered down the columns) where the mask switches between outside and inside: int64 (n), not sorted.

    ``rleFrPoly`` draws every point of the boundary and keeps only the points where the column changes. This function computes only
    those points, with the same arithmetic."""
    import numpy as np

    start = np.trunc(_SCALE * points + 0.5).astype(np.int64)
    end = np.roll(start, -1, 0)
    delta = end - start
    wide = np.abs(delta[:, 0]) >= np.abs(delta[:, 1])
    # As in rleFrPoly, an edge is drawn from its lower end along its longer axis, whatever the direction of the polygon.
    flip = np.where(wide, delta[:, 0], delta[:, 1]) < 0
    low, high = np.where(flip[:, None], end, start), np.where(flip[:, None], start, end)
    length = np.abs(delta).max(1)
    slope = np.where(wide, high[:, 1] - low[:, 1], high[:, 0] - low[:, 0]) / np.maximum(length, 1)
    found = []
    for edges, crossings in ((wide, _of_wide), (~wide, _of_steep)):
        if edges.any():
            column, v = crossings(low[edges], high[edges], slope[edges], width)
            y = np.ceil(np.clip((v + 0.5) / _SCALE - 0.5, 0, height)).astype(np.int64)
            found.append(column * height + y)
    return np.concatenate(found)


def _of_wide(low: Any, high: Any, slope: Any, width: int) -> tuple[Any, Any]:
    """Returns the crossings of edges that are wider than high: the column, and the upper one of the two rows there."""
    import numpy as np

    which, column = _columns(low[:, 0], high[:, 0], width)
    t = 5 * column + 2 - low[which, 0]
    y, rise = low[which, 1], slope[which]
    return column, np.minimum(np.trunc(y + rise * t + 0.5), np.trunc(y + rise * (t + 1) + 0.5))


def _of_steep(low: Any, high: Any, slope: Any, width: int) -> tuple[Any, Any]:
    """Returns the crossings of edges that are higher than wide: columns and rows. The row where the column changes is estimated,
    and then found exactly by rounding as rleFrPoly does."""
    import numpy as np

    left, right = np.minimum(low[:, 0], high[:, 0]), np.maximum(low[:, 0], high[:, 0])
    which, column = _columns(left, right, width)
    x, run, length = low[which, 0], slope[which], (high[:, 1] - low[:, 1])[which]
    rises = run > 0
    middle = 5 * column + 3
    t = np.clip(np.floor((middle - 0.5 - x) / np.where(run == 0, 1, run)).astype(np.int64) - 1, 1, length)
    for _ in range(3):
        is_right = np.trunc(x + run * t + 0.5) >= middle
        t = np.where((is_right == rises) | (t >= length), t, t + 1)
    return column, t - 1 + low[which, 1]


def _runs(changes: npt.NDArray[np.int64]) -> Region:
    """Returns the runs between every odd change and the next one. Two changes at the same position cancel out."""
    import numpy as np

    places, n = np.unique(changes, return_counts=True)
    places = places[n % 2 == 1]
    return places[0::2], places[1::2]


def _union(regions: Sequence[Region]) -> Region:
    import numpy as np

    if len(regions) == 1:
        return regions[0]
    starts = np.concatenate([start for start, _ in regions])
    ends = np.concatenate([end for _, end in regions])
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    return starts[first], reach[np.concatenate([first[1:], [True]])]


def _has_numbers(values: Any) -> bool:
    """Whether a value is a list or an array of numbers. Texts, true and false do not count as numbers."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind is not None:
        return kind in "iuf"
    if isinstance(values, array):
        return True
    return isinstance(values, (list, tuple)) and all(type(value) in (int, float) for value in values)


def from_polygons(polygons: Any, height: int, width: int) -> Region | None:
    """Draws the polygons [[x0, y0, x1, y1, ...], ...] of one object on height x width pixels. Returns None if no pixel is
    inside."""
    import numpy as np

    regions = []
    for polygon in polygons:
        if not _has_numbers(polygon):
            raise RegionError("has a polygon that is no list of numbers")
        try:
            points = np.asarray(polygon, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise RegionError("has a polygon that is no list of numbers") from None
        if points.ndim != 1 or len(points) % 2 or len(points) < 6:
            raise RegionError(f"has a polygon of {points.size} numbers: three points or more have 6, 8, 10, ...")
        if not np.isfinite(points).all() or np.abs(points).max() > 1e7:
            raise RegionError("has a point that is not finite, or farther than 10 million pixels away")
        region = _runs(_polygon(points.reshape(-1, 2), height, width))
        if len(region[0]):
            regions.append(region)
    return _union(regions) if regions else None


def counts_of(text: str | bytes) -> npt.NDArray[np.int64]:
    """Decodes the run lengths of COCO's compressed text (maskApi.c, ``rleFrString``). Their values are not checked."""
    import numpy as np

    try:
        data = text.encode("ascii") if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError:
        raise RegionError("has a character that no run length has") from None
    digits = np.frombuffer(data, np.uint8).astype(np.int64) - 48
    if not len(digits):
        return digits
    if int(digits.min()) < 0 or int(digits.max()) > 63:
        raise RegionError("has a character that no run length has")
    ends = np.flatnonzero((digits & 32) == 0)
    if not len(ends) or int(ends[-1]) != len(digits) - 1:
        raise RegionError("ends within a run length")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if int(lengths.max()) > 7:
        raise RegionError("has a run length beyond any image")
    place = np.arange(len(digits)) - np.repeat(starts, lengths)
    numbers = np.add.reduceat((digits & 31) << (5 * place), starts)
    numbers = np.where((digits[ends] & 16) != 0, numbers - (np.int64(1) << (5 * lengths)), numbers)
    # From the fourth number on, each is stored as the difference from the number two before it.
    numbers[1::2] = np.cumsum(numbers[1::2])
    numbers[2::2] = np.cumsum(numbers[2::2])
    return numbers


def from_counts(counts: Any, height: int, width: int) -> Region:
    """Makes a region of run lengths, which alternate between outside and inside: a list, or COCO's compressed text."""
    import numpy as np

    if isinstance(counts, (str, bytes)):
        runs = counts_of(counts)
    else:
        if not _has_numbers(counts):
            raise RegionError("has run lengths that are no whole numbers")
        try:
            given = [int(count) for count in counts]
            runs = np.array(given, np.int64)
        except (TypeError, ValueError, OverflowError):
            raise RegionError("has run lengths that are no whole numbers") from None
        if runs.ndim != 1 or any(count != whole for count, whole in zip(counts, given, strict=True)):
            raise RegionError("has run lengths that are no whole numbers")
    size = height * width
    if len(runs) and (int(runs.min()) < 0 or int(runs.max()) > size):
        raise RegionError(f"has a run of {int(runs[(runs < 0) | (runs > size)][0])} pixels, the image has {size}")
    total = int(runs.sum())
    if total != size:
        what = "is truncated: its runs have" if total < size else "goes beyond the image: its runs have"
        raise RegionError(f"{what} {total} pixels, the image has {size}")
    places = np.cumsum(runs)
    return _runs(places if len(places) % 2 == 0 else places[:-1])


def from_segmentation(given: Any, height: int, width: int) -> Region | None:
    """Makes the region of COCO's member "segmentation": polygons, run lengths, or compressed run lengths."""
    if isinstance(given, dict):
        size = given.get("size")
        if not isinstance(size, list) or size != [height, width]:
            raise RegionError(f"is of {size!r} pixels (height, width), the image has {[height, width]}")
        return from_counts(given.get("counts"), height, width)
    if not isinstance(given, list):
        raise RegionError("is neither a list of polygons nor an object with counts and size")
    return from_polygons(given, height, width) if given else None


def n_pixels(region: Region | None) -> int:
    return 0 if region is None else int((region[1] - region[0]).sum())


def paint(regions: Iterable[tuple[Region, int]], height: int, width: int, dtype: Any) -> npt.NDArray[Any]:
    """Paints regions over each other with their values. Returns (height, width); pixels outside all regions are 0."""
    import numpy as np

    canvas = np.zeros(width * height, dtype)
    for (starts, ends), value in regions:
        lengths = ends - starts
        before = np.cumsum(lengths)
        if len(before) and int(before[-1]) <= _MANY_PIXELS:
            canvas[np.arange(int(before[-1])) + np.repeat(ends - before, lengths)] = value
        else:
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                canvas[start:end] = value
    return np.ascontiguousarray(canvas.reshape(width, height).T)


def painting_order(regions: Sequence[Region | None], is_crowd: Sequence[int]) -> list[int]:
    """Returns the order in which regions are painted: crowds first, then larger regions before smaller ones, and equal ones as
    listed. So the smallest object is painted last and is never covered."""
    sizes = [n_pixels(region) for region in regions]
    order = sorted(range(len(regions)), key=lambda i: (not is_crowd[i], -sizes[i]))
    return [i for i in order if sizes[i]]


def painted(
    wanted: Sequence[str],
    regions: Sequence[Any],
    labels: Sequence[int],
    size: tuple[int, int],
    n_classes: int,
    crowds: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Paints the wanted masks: `mask` with class labels, `instances` with the numbers of objects. Pixels without an object are 0.

    regions: a Region or None for each object. size: height and width of the image. crowds: 1 for each object that is a crowd, which
    is painted first; None: no object is.
    """
    import numpy as np

    if wanted and len(regions) > 65535:
        raise LimitError("an instance map has at most 65535 objects")
    if wanted and size[0] * size[1] > _PAINTED_MAX:
        raise LimitError(f"{size[1]} x {size[0]} pixels are too many to paint: {_PAINTED_MAX} are possible")
    order = painting_order(regions, crowds or [0] * len(regions)) if wanted else []
    values: dict[str, Any] = {}
    if "mask" in wanted:
        dtype = np.uint8 if n_classes < 255 else np.uint16
        values["mask"] = paint(((regions[i], labels[i] + 1) for i in order), *size, dtype)
    if "instances" in wanted:
        values["instances"] = paint(((regions[i], i + 1) for i in order), *size, np.uint16)
    return values
