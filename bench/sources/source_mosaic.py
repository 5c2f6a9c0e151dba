"""MosaicML Streaming: a local StreamingDataset, shuffled by its own settings, under torch's DataLoader."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import common
import streaming
import torch
import torch_rows

NAME = "MosaicML Streaming"
EXACT = True


def versions() -> dict:
    return {"mosaicml-streaming": version("mosaicml-streaming"), "torch": torch.__version__}


def prepare(store: Path) -> None:
    """Does nothing: the folder contains an index."""


class Rows(streaming.StreamingDataset):
    transform = None

    def __getitem__(self, i: int):
        row = super().__getitem__(i)
        return self.transform(row["image"]), row["label"]


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    streaming.base.util.clean_stale_shared_memory()
    data = Rows(local=str(store), shuffle=not fixed, batch_size=work.batch)
    data.transform = torch_rows.transform_of(work, fixed, rows)
    yield from torch_rows.epochs(data, work, threads, False)
