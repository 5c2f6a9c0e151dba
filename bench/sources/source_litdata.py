"""LitData's ParquetLoader over Parquet, indexed beforehand by index_parquet_dataset: StreamingDataset and StreamingDataLoader.

Crops are shuffled as it shuffles: files, then rows within each. Rows without decoding come in stored order, as in LitData's own
benchmark.
"""

from __future__ import annotations

from pathlib import Path

import common
import litdata
import torch_rows
from litdata.streaming.item_loader import ParquetLoader
from peer_litdata import versions

NAME = "LitData"
EXACT = False  # with several workers LitData may leave out rows to give each the same number
__all__ = ["versions"]


def prepare(store: Path) -> None:
    litdata.index_parquet_dataset(str(store))


class Pairs:
    """Makes pairs of rows. Some releases of LitData return rows as dictionaries, others as lists of columns."""

    def __init__(self, transform) -> None:
        self.transform = transform

    def __call__(self, row) -> tuple:
        image, label = (row["image"], row["label"]) if isinstance(row, dict) else row[:2]
        return self.transform(image["bytes"] if isinstance(image, dict) else image), label


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    transform = Pairs(torch_rows.transform_of(work, fixed, rows))
    data = litdata.StreamingDataset(str(store), item_loader=ParquetLoader(), shuffle=not (fixed or rows), transform=transform)
    workers = torch_rows.workers_of(1 if fixed else threads)
    if workers["num_workers"]:
        workers["multiprocessing_context"] = "spawn"  # Polars must not be forked, and newer releases of LitData refuse it
    loader = litdata.StreamingDataLoader(data, batch_size=work.batch, collate_fn=torch_rows.collate, **workers)
    while True:
        yield torch_rows.delivered(loader)
