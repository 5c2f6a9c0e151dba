"""pyarrow under torch's DataLoader, in an exact random order: for each row its whole row group is read, because Parquet has no
smaller unit."""

from __future__ import annotations

import bisect
import itertools
from importlib.metadata import version
from pathlib import Path

import common
import pyarrow.parquet as pq
import torch
import torch_rows

NAME = "pyarrow, row groups"
EXACT = True


def versions() -> dict:
    return {"pyarrow": version("pyarrow"), "torch": torch.__version__}


def prepare(store: Path) -> None:
    """Does nothing: the files' footers are read at each opening."""


class Rows(torch.utils.data.Dataset):
    def __init__(self, store: Path, transform) -> None:
        self.paths, self.transform, self.opened = sorted(store.glob("*.parquet")), transform, {}
        self.groups, sizes = [], []
        for path in self.paths:
            found = pq.read_metadata(path)
            self.groups += [(path, i) for i in range(found.num_row_groups)]
            sizes += [found.row_group(i).num_rows for i in range(found.num_row_groups)]
        self.ends = list(itertools.accumulate(sizes))

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, i: int):
        k = bisect.bisect_right(self.ends, i)
        path, group = self.groups[k]
        if path not in self.opened:  # each worker opens files for itself
            self.opened[path] = pq.ParquetFile(path, memory_map=True)
        table = self.opened[path].read_row_group(group, columns=["image", "label"], use_threads=False)
        row = i - (self.ends[k - 1] if k else 0)
        return self.transform(table["image"][row]["bytes"].as_buffer()), table["label"][row].as_py()


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    yield from torch_rows.epochs(Rows(store, torch_rows.transform_of(work, fixed, rows)), work, threads, not fixed)
