"""LitData: chunks on the local disk with the files' own bytes, decoded by torchvision; transforms of torchvision v2.

Chunks are written as LitData advises: images by their paths, 64 MB each. A local folder of chunks is mapped where it lies.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import litdata
import torch

import common
import peer_torchvision

NAME = "LitData + torchvision v2"
CHUNK = "64MB"


def versions() -> dict:
    return {"litdata": version("litdata"), **peer_torchvision.versions()}


def sample_of(files: list[str], labels: list[int], i: int) -> dict:
    return {"image": litdata.Image(path=files[i]), "label": labels[i]}


def write(work: common.Work, folder: Path) -> None:
    """Writes the chunks: sample i is file i.

    It runs in a process of its own, because optimize() changes the process's start method, seeds and environment variables.
    optimize() also empties two cache folders, by default /tmp/chunks and /tmp/data.
    """
    files, labels = [str(path) for path in work.files()], work.labels()
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        for name in ("DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER"):
            os.environ[name] = f"{scratch}/{name}"
        litdata.optimize(fn=partial(sample_of, files, labels), inputs=list(range(len(files))), output_dir=str(folder),
                         chunk_bytes=CHUNK, num_workers=1, reorder_files=False, keep_data_ordered=True, verbose=False)


def n_stored(folder: Path) -> int:
    """Returns the number of samples in the chunks; 0 if their index was not written."""
    index = folder / "index.json"
    return sum(chunk["chunk_size"] for chunk in json.loads(index.read_text())["chunks"]) if index.exists() else 0


def prepare(work: common.Work) -> Path:
    def make(folder: Path) -> None:
        process = multiprocessing.get_context("fork").Process(target=write, args=(work, folder))
        process.start()
        process.join()
        n = len(work.files())
        if process.exitcode or n_stored(folder) != n:  # the exit status may be 0 although a worker failed
            raise RuntimeError(f"{folder}: {n_stored(folder)} of {n} samples were written; exit status {process.exitcode}")

    return common.made(work.store("litdata"), make)


class Crops:
    """Returns for each sample a transformed image and its label."""

    def __init__(self, work: common.Work):
        self.transform = peer_torchvision.random_transform(work)

    def __call__(self, sample: dict) -> tuple[torch.Tensor, int]:
        return self.transform(sample["image"]), sample["label"]


class Forever(litdata.StreamingDataset):
    """Yields epoch after epoch, because a measured window should not contain the start of an epoch's workers."""

    def __iter__(self):
        while True:
            super().__iter__()
            n = 0
            for sample in iter(super().__next__, None):  # an epoch ends by an exception, with its number
                yield sample
                n += 1
            if n == 0:  # whole batches are dealt to the workers, so a worker may have none in any epoch
                raise common.Unavailable("a worker has no samples: there are too few for its batches")


def batches(work: common.Work, store: Path, threads: int):
    torch.set_num_threads(threads)
    samples = Forever(str(store), shuffle=True, transform=Crops(work))
    workers = threads if threads > 1 else 0
    extra = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    yield from litdata.StreamingDataLoader(samples, batch_size=work.batch, num_workers=workers, **extra)


def evaluate(work: common.Work, store: Path, files):
    transform, numbers = peer_torchvision.fixed_transform(work), {path: i for i, path in enumerate(work.files())}
    stored = litdata.StreamingDataset(str(store))
    return torch.stack([transform(stored[numbers[path]]["image"]) for path in files]).numpy()
