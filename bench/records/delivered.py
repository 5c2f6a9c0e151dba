"""Drops of stored files what a loader has delivered from the page cache, page by page. What was only read ahead stays there.

A page belongs to all samples that have bytes in it. Bytes between two samples (the head of a record, say) belong to the later one.
A page is dropped when all its samples have been delivered, which holds for each epoch anew. Storage is then read once in an epoch,
however far a loader or the kernel reads ahead. A page that is dropped too early would be read twice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import formats
import numpy as np

PAGE = mmap.PAGESIZE  # bytes


class _File:
    """The pages of a file: how many samples each has, and how many of them are still to be delivered."""

    def __init__(self, path: Path, ends: list[int]):
        self.path, starts = path, [0, *ends[:-1]]
        self.pages = [(start // PAGE, -(-end // PAGE)) for start, end in zip(starts, ends, strict=True)]
        self.owners = np.zeros(self.pages[-1][1], np.int32)
        for first, end in self.pages:
            self.owners[first:end] += 1
        self.left = self.owners.copy()

    def deliver(self, extent: int) -> list[tuple[int, int]]:
        """Counts an extent as delivered. Returns the runs of pages that nobody waits for any more: first page, end."""
        first, end = self.pages[extent]
        self.left[first:end] -= 1
        done = np.flatnonzero(self.left[first:end] == 0) + first
        self.left[done] = self.owners[done]
        return [(int(run[0]), int(run[-1]) + 1) for run in np.split(done, np.flatnonzero(np.diff(done) > 1) + 1) if len(run)]


class Delivered:
    """The places of samples in stored files. A sample may have several places."""

    def __init__(self, samples: Iterable[formats.Sample]):
        of_file: dict[Path, list[formats.Sample]] = {}
        for sample in samples:
            of_file.setdefault(sample.path, []).append(sample)
        self._places: dict[int, list[tuple[_File, int]]] = {}
        for path, own in of_file.items():
            own.sort(key=lambda sample: sample.offset)
            file = _File(path, [*(sample.offset + sample.nbytes for sample in own[:-1]), path.stat().st_size])
            for extent, sample in enumerate(own):
                self._places.setdefault(sample.number, []).append((file, extent))

    def drop(self, numbers: Iterable[int]) -> None:
        """Drops the pages that these samples, which have just been delivered, complete. Numbers that are not known have none."""
        runs: dict[Path, list[tuple[int, int]]] = {}
        for number in numbers:
            for file, extent in self._places.get(number, ()):
                runs.setdefault(file.path, []).extend(file.deliver(extent))
        for path, found in runs.items():
            with path.open("rb") as opened:
                for first, end in found:
                    os.posix_fadvise(opened.fileno(), first * PAGE, (end - first) * PAGE, os.POSIX_FADV_DONTNEED)
