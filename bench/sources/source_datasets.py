"""Hugging Face's datasets as its documents advise: map-style, set_transform, torch's DataLoader, an exact random order.

A folder that save_to_disk wrote is mapped; Parquet becomes Arrow files beforehand, in its cache.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import common
import datasets
import torch_rows

NAME = "datasets"
EXACT = True


def versions() -> dict:
    return {name: version(name) for name in ("datasets", "pyarrow", "torch")}


def opened(store: Path) -> datasets.Dataset:
    if (store / "dataset_info.json").exists():
        return datasets.load_from_disk(str(store))
    files = [str(path) for path in sorted(store.glob("*.parquet"))]
    return datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(store / "cache"))


def prepare(store: Path) -> None:
    datasets.disable_progress_bars()
    opened(store)


class Rows:
    """Transforms the images of some rows."""

    def __init__(self, transform) -> None:
        self.transform = transform

    def __call__(self, rows: dict) -> dict:
        return {"image": [self.transform(image["bytes"]) for image in rows["image"]], "label": rows["label"]}


class Pairs:
    """Makes pairs from dictionaries for the collation. A batch is read by one call of `datasets`."""

    def __init__(self, data: datasets.Dataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int):
        return self.__getitems__([i])[0]

    def __getitems__(self, places: list[int]) -> list[tuple]:
        return [(row["image"], row["label"]) for row in self.data.__getitems__(places)]


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    datasets.disable_progress_bars()
    data = opened(store).cast_column("image", datasets.Image(decode=False))
    data.set_transform(Rows(torch_rows.transform_of(work, fixed, rows)))
    yield from torch_rows.epochs(Pairs(data), work, threads, not fixed)
