"""Computes which bytes of a stored image a random crop reads: the regions that operations need, and the loader's rules for reading
parts.

Only a PLI in a packed data set is read in parts (src/loader/rows/loader_ranges.c, whose rules and numbers are repeated here). All
other forms, and files of a folder, are read whole for any crop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import transforms

# Constants of loader_ranges.c and loader_plan.h.
_SAVE_NBYTES, _SAVE_SHARE = 64 << 10, 4
_GAP_NBYTES, _HEAD_NBYTES, BLOCK, _MOST_RANGES = 8 << 10, 2048, 4096, 16
_CELL, _CELL_NBYTES = 64, 8
# In page order, a throttled storage also reads a gap between two items, to get both with one request. Limits of the gap, as in
# loader_open.c.
_LEAST_GAP, _MOST_GAP = 4 << 10, 1 << 20
_TRIES = 10  # attempts of RandomResizedCrop to draw a crop

_FLIPS = (transforms.RandomHorizontalFlip, transforms.RandomVerticalFlip)
_CROPS = (transforms.RandomResizedCrop, transforms.RandomCrop, transforms.CenterCrop)
# Operations that may need only a part of the stored image.
_NARROW = (*_CROPS, transforms.RandomIoUCrop, transforms.RandomScaleCrop)

Region = tuple[int, int, int, int]  # y, x, height, width in pixels


class Crops:
    """Draws the regions of stored images that a chain of operations needs.

    Attributes:
        known: whether the regions of the chain can be computed: it begins with a crop, or with a Resize and a crop (possibly after
            flips), or it has no crop.
    """

    def __init__(self, chain: Any) -> None:
        ops = [None] if isinstance(chain, Mapping) else [] if chain is None else list(chain)
        while ops and isinstance(ops[0], _FLIPS):
            ops.pop(0)
        n = 2 if len(ops) > 1 and isinstance(ops[0], transforms.Resize) and isinstance(ops[1], _CROPS) else 1
        self._resize = ops[0] if n == 2 else None
        self._crop = ops[n - 1] if len(ops) >= n and isinstance(ops[n - 1], _CROPS) else None
        rest = ops if self._crop is None else ops[n:]
        padded = isinstance(self._crop, transforms.RandomCrop) and (self._crop.padding is not None or self._crop.pad_if_needed)
        self.known = not padded and not any(op is None or isinstance(op, _NARROW) for op in rest)

    def draw(self, height: int, width: int, random: Any) -> Region:
        """Returns the region for one random draw. `random` is a numpy Generator."""
        if self._crop is None:
            return 0, 0, height, width
        if self._resize is None:
            return _cropped(self._crop, height, width, random)
        to_height, to_width = _resized(self._resize, height, width)
        y, x, tall, wide = _cropped(self._crop, to_height, to_width, random)
        reach = 2 if self._resize.interpolation == "bicubic" else 1
        y, tall = _before_resize(y, tall, to_height, height, reach)
        x, wide = _before_resize(x, wide, to_width, width, reach)
        return y, x, tall, wide


def _resized(op: transforms.Resize, height: int, width: int) -> tuple[int, int]:
    size = op.describe()
    if size["width"]:
        return size["height"], size["width"]
    shorter = min(height, width)
    return max(height * size["height"] // shorter, 1), max(width * size["height"] // shorter, 1)


def _before_resize(start: int, length: int, of: int, source: int, reach: int) -> tuple[int, int]:
    """Maps a part of a resized line of `of` pixels back to the part of the source line of `source` pixels. reach: of the filter."""
    scale = source / of
    around = reach * max(scale, 1.0)
    first = max(int((start + 0.5) * scale - around), 0)
    end = min(math.ceil((start + length - 0.5) * scale + around), source)
    return first, max(end - first, 1)


def _cropped(op: Any, height: int, width: int, random: Any) -> Region:
    if isinstance(op, transforms.RandomResizedCrop):
        return _resized_crop(op, height, width, random)
    size = op.describe()
    tall, wide = min(size["height"], height), min(size["width"], width)
    if isinstance(op, transforms.CenterCrop):
        return (height - tall) // 2, (width - wide) // 2, tall, wide
    return int(random.integers(height - tall + 1)), int(random.integers(width - wide + 1)), tall, wide


def _resized_crop(op: transforms.RandomResizedCrop, height: int, width: int, random: Any) -> Region:
    """Draws a crop as torchvision and src/augment/augment_draw.c do."""
    low, high = math.log(op.ratio[0]), math.log(op.ratio[1])
    for _ in range(_TRIES):
        area = height * width * random.uniform(op.scale[0], op.scale[1])
        aspect = math.exp(random.uniform(low, high))
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            return int(random.integers(height - tall + 1)), int(random.integers(width - wide + 1)), tall, wide
    wide, tall = width, height
    if width / height < op.ratio[0]:
        tall = round(width / op.ratio[0])
    elif width / height > op.ratio[1]:
        wide = round(height * op.ratio[1])
    tall, wide = min(max(tall, 1), height), min(max(wide, 1), width)
    return (height - tall) // 2, (width - wide) // 2, tall, wide


@dataclass
class Stored:
    """A stored PLI, with what is needed to compute reads of its parts.

    Attributes:
        nbytes: bytes of the item.
        height, width: size of its stored pixels.
        edge: side of its units in pixels.
        head_nbytes: bytes before the first unit.
        units: array (rows, columns) with the bytes of each unit.
    """

    nbytes: int
    height: int
    width: int
    edge: int
    head_nbytes: int
    units: Any

    @classmethod
    def of(cls, data: bytes, info: Mapping[str, Any]) -> Stored:
        """Reads the table of units in a PLI (docs/format-pli.md, section 1). info: a result of :func:`penstock.pli.info`."""
        import numpy as np

        rows, columns = info["unit_rows"], info["unit_columns"]
        size_nbytes = 4 if data[14] & 1 else 2
        entry_nbytes = size_nbytes + (4 if data[14] & 2 else 0)
        start = 40 + int.from_bytes(data[16:20], "little")
        table = np.frombuffer(data, np.uint8, rows * columns * entry_nbytes, start).reshape(-1, entry_nbytes)
        sizes = np.ascontiguousarray(table[:, :size_nbytes]).view(f"<u{size_nbytes}").astype(np.int64)
        head = start + rows * columns * entry_nbytes
        return cls(len(data), info["height"], info["width"], info["unit_edge"], head, sizes.reshape(rows, columns))

    @classmethod
    def even(cls, nbytes: float, height: int, width: int, edge: int) -> Stored:
        """Returns a model of a PLI with `nbytes`, in which all pixels take equally many bytes."""
        import numpy as np

        rows, columns = -(-height // edge), -(-width // edge)
        head = min(128 + rows * columns * 6, nbytes / 2)
        tall = np.full(rows, edge)
        wide = np.full(columns, edge)
        tall[-1], wide[-1] = height - (rows - 1) * edge, width - (columns - 1) * edge
        return cls(int(nbytes), height, width, edge, int(head), np.outer(tall, wide) * ((nbytes - head) / (height * width)))

    def evened(self) -> Stored:
        """Returns a PLI of the same size in which all pixels take equally many bytes."""
        return Stored.even(self.nbytes, self.height, self.width, self.edge)


def gap_of(options: Mapping[str, Any]) -> float:
    """Returns the largest gap in bytes between two items that storage reads to save a request, for a Loader with these arguments.

    Only a loader in page order reads gaps. Without a throttle it does so only if a read takes a millisecond or more, which is not
    known here, so the gap is assumed to be 0.
    """
    throttle = options.get("throttle")
    by_pages = options.get("order") == "pages" and options.get("num_workers") != 0 and options.get("page_cache") != "direct"
    if not throttle or not by_pages:
        return 0.0
    rate, latency = float(throttle[0]), float(throttle[1])
    return min(max(rate * latency if rate > 0 else _MOST_GAP, _LEAST_GAP), _MOST_GAP)


@dataclass(frozen=True)
class Rules:
    """The rules by which a loader reads parts of an item.

    Attributes:
        alignment: reads begin and end at multiples of this many bytes; 4096 when the page cache is bypassed, else 1.
        gap: bytes between two ranges that are read to save a request.
    """

    alignment: int = 1
    gap: float = 0.0

    def may_read_parts(self, nbytes: float) -> bool:
        """Whether an item of this size is read in parts for at least some regions."""
        return self._saves_enough(nbytes, nbytes)

    def _saves_enough(self, skipped: float, nbytes: float) -> bool:
        return skipped >= _SAVE_NBYTES and skipped >= nbytes // _SAVE_SHARE and skipped > self.gap

    def read(self, item: Stored, region: Region, offset: int) -> tuple[float, int]:
        """Returns the bytes and the number of reads that a region of an item needs. offset: offset of the item in its file."""
        whole = (float(item.nbytes), 1)
        if not self.may_read_parts(item.nbytes):
            return whole
        cells = -(-item.height // _CELL) * -(-item.width // _CELL)
        share = 1 - _along(region[0], region[2], _CELL) * _along(region[1], region[3], _CELL) / cells
        head = -(-(offset + _HEAD_NBYTES + _CELL_NBYTES * cells) // BLOCK) * BLOCK - offset
        if head >= item.nbytes or not self._saves_enough(share * item.nbytes, item.nbytes):
            return whole
        ranges = self._joined(item, self._rows(item, region), head, offset)
        wanted = sum(end - first for first, end in ranges)
        if not self._saves_enough(item.nbytes - head - wanted, item.nbytes):
            return float(item.nbytes), 2
        return head + wanted, 1 + len(ranges)

    def _rows(self, item: Stored, region: Region) -> list[tuple[float, float]]:
        """Returns the needed byte range of each row of units, (first, end)."""
        y, x, height, width = region
        rows, columns = item.units.shape
        top, left = y // item.edge, x // item.edge
        right = min(-(-(x + width) // item.edge), columns)
        ends = item.units.cumsum().reshape(rows, columns)
        found = []
        for row in range(top, min(-(-(y + height) // item.edge), rows)):
            first = ends[row, left] - item.units[row, left]
            found.append((item.head_nbytes + float(first), item.head_nbytes + float(ends[row, right - 1])))
        return found

    def _joined(self, item: Stored, wanted: list[tuple[float, float]], head: int, offset: int) -> list[tuple[float, float]]:
        """Aligns the ranges, removes what the head's read contains, and joins neighbouring ranges."""
        step = self.alignment
        found: list[tuple[float, float]] = []
        for first, end in wanted:
            if step > 1:
                first = (offset + first) // step * step - offset
                end = -(-(offset + end) // step) * step - offset
            first, end = max(first, head), min(end, item.nbytes)
            if end <= first:
                continue
            if found and first <= found[-1][1] + _GAP_NBYTES:
                found[-1] = (found[-1][0], end)
            else:
                found.append((first, end))
        while len(found) > _MOST_RANGES:
            at = min(range(1, len(found)), key=lambda i: found[i][0] - found[i - 1][1])
            found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
        return found


def _along(start: int, length: int, edge: int) -> int:
    """Returns how many borders between cells of length `edge` lie in a part of a line, plus one: the number of cells that it
    touches."""
    return (start + length - 1) // edge - start // edge + 1


def expected(items: Sequence[Stored], crops: Crops, rules: Rules, random: Any) -> tuple[float, float]:
    """Returns the mean bytes and reads of one random crop of each item, at random offsets in files."""
    nbytes, reads = 0.0, 0
    for item in items:
        one, n = rules.read(item, crops.draw(item.height, item.width, random), 8 * int(random.integers(BLOCK // 8)))
        nbytes, reads = nbytes + one, reads + n
    return nbytes / len(items), reads / len(items)
