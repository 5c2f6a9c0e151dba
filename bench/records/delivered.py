"""Drops the pages of delivered samples from the page cache. Pages that were only read ahead stay.

A page belongs to all samples that have bytes in it. Bytes between two samples (the head of a record, say) belong to the later one.
A page is dropped when all its samples have been delivered, and counting starts anew in each epoch. Storage is then read once in an
epoch, however far a loader or the kernel reads ahead. A page that is dropped too early would be read twice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Container, Iterable
from pathlib import Path

import formats
import numpy as np

PAGE = mmap.PAGESIZE  # bytes
FOR_EVER = 1 << 30  # count of undelivered samples for pages that are never dropped


class _File:
    """The pages of a file. It counts for each page the samples that it has, and those that are not delivered yet."""

    def __init__(self, path: Path, ends: list[int], stay: list[bool]):
        self.path, starts = path, [0, *ends[:-1]]
        self.pages = [(start // PAGE, -(-end // PAGE)) for start, end in zip(starts, ends, strict=True)]
        self.owners = np.zeros(self.pages[-1][1], np.int64)
        for (first, end), stays in zip(self.pages, stay, strict=True):
            self.owners[first:end] += FOR_EVER if stays else 1
        self.left = self.owners.copy()

    def deliver(self, extent: int) -> list[tuple[int, int]]:
        """Counts an extent as delivered. Returns the runs of pages (first, end) whose samples have all been delivered now."""
        first, end = self.pages[extent]
        self.left[first:end] -= 1
        done = np.flatnonzero(self.left[first:end] == 0) + first
        self.left[done] = self.owners[done]
        return [(int(run[0]), int(run[-1]) + 1) for run in np.split(done, np.flatnonzero(np.diff(done) > 1) + 1) if len(run)]


def release(path: Path, runs: list[tuple[int, int]]) -> None:
    """Drops runs of pages (first, end) of a file from the page cache. The kernel keeps pages that are mapped."""
    with path.open("rb") as file:
        for first, end in runs:
            os.posix_fadvise(file.fileno(), first * PAGE, (end - first) * PAGE, os.POSIX_FADV_DONTNEED)


class Delivered:
    """Knows where samples lie in stored files; a sample may have several extents. The pages of samples in `stay` are never dropped.
    `how` drops pages.
    """

    def __init__(self, samples: Iterable[formats.Sample], stay: Container[int] = (), how: Callable = release):
        self._how, of_file = how, {}
        for sample in samples:
            of_file.setdefault(sample.path, []).append(sample)
        self._places: dict[int, list[tuple[_File, int]]] = {}
        for path, own in of_file.items():
            own.sort(key=lambda sample: sample.offset)
            ends = [*(sample.offset + sample.nbytes for sample in own[:-1]), path.stat().st_size]
            file = _File(path, ends, [sample.number in stay for sample in own])
            for extent, sample in enumerate(own):
                self._places.setdefault(sample.number, []).append((file, extent))

    def drop(self, numbers: Iterable[int]) -> None:
        """Counts these samples as delivered, and drops the pages that are complete now. Unknown numbers are ignored."""
        runs: dict[Path, list[tuple[int, int]]] = {}
        for number in numbers:
            for file, extent in self._places.get(number, ()):
                runs.setdefault(file.path, []).extend(file.deliver(extent))
        for path, found in runs.items():
            self._how(path, found)
