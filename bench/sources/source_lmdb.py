"""lmdb under torch's DataLoader, in an exact random order: Caffe's Datum at each key, parsed by protobuf."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import common
import lmdb
import torch
import torch_rows
from datum import Datum

NAME = "lmdb"
EXACT = True


def versions() -> dict:
    return {"lmdb": version("lmdb"), "protobuf": version("protobuf"), "torch": torch.__version__}


def prepare(store: Path) -> None:
    """Does nothing: the file is a B+ tree of its keys."""


class Rows(torch.utils.data.Dataset):
    """The records of the file, which each process opens for itself. Readahead is off because the order is random."""

    def __init__(self, store: Path, transform) -> None:
        self.path, self.transform, self.environment = str(store / "train"), transform, None
        with lmdb.open(self.path, readonly=True, lock=False) as environment:
            self.n = environment.stat()["entries"]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int):
        if self.environment is None:
            self.environment = lmdb.open(self.path, readonly=True, lock=False, readahead=False)
        with self.environment.begin(buffers=True) as reader:
            found = Datum.FromString(bytes(reader.get(b"%08d" % i)))
        return self.transform(found.data), found.label


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    yield from torch_rows.epochs(Rows(store, torch_rows.transform_of(work, fixed, rows)), work, threads, not fixed)
