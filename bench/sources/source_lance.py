"""Lance: take() of the rows of a batch in an exact random order, by torch's DataLoader; spawned workers, because Lance must not be
forked.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import common
import lance
import torch
import torch_rows

NAME = "Lance"
EXACT = True


def versions() -> dict:
    return {"pylance": version("pylance"), "torch": torch.__version__}


def prepare(store: Path) -> None:
    """Does nothing: the file contains its own index."""


class Rows(torch.utils.data.Dataset):
    """The rows of the file, which each process opens for itself."""

    def __init__(self, store: Path, transform) -> None:
        self.path, self.transform, self.data = str(store / "train.lance"), transform, None
        self.n = lance.dataset(self.path).count_rows()

    def __len__(self) -> int:
        return self.n

    def __getstate__(self) -> dict:
        return {**self.__dict__, "data": None}

    def __getitem__(self, i: int):
        return self.__getitems__([i])[0]

    def __getitems__(self, places: list[int]) -> list[tuple]:
        if self.data is None:
            self.data = lance.dataset(self.path)
        table = self.data.take(places, columns=["image", "label"])
        images, labels = table["image"], table["label"].to_pylist()
        return [(self.transform(images[i].as_buffer()), labels[i]) for i in range(len(labels))]


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    spawned = {"multiprocessing_context": "spawn"} if threads > 1 else {}
    yield from torch_rows.epochs(Rows(store, torch_rows.transform_of(work, fixed, rows)), work, threads, not fixed, **spawned)
