"""Penstock inside DLIO, the benchmark program of MLPerf Storage (github.com/argonne-lcf/dlio_benchmark).

Where this folder is in PYTHONPATH, a workload of JPEG or PNG files takes Penstock instead of DLIO's own loader by::

    ++workload.reader.data_loader_classname=penstock_dlio.Loader ++workload.reader.data_loader_sampler=index

or keeps torch's DataLoader and takes Penstock for each sample by::

    ++workload.reader.reader_classname=penstock_dlio.Reader

The first reads the files of the workload's folder in a global order, with ranks, threads (``read_threads``), prefetch
(``prefetch_size``), shuffle and O_DIRECT as the workload says. By MLPerf's rules such a run is of the OPEN division. The
environment says the rest:

    PENSTOCK_DLIO_DECODE   1 (default): pixels are decoded, cropped, flipped and normalised. 0: stored bytes are delivered, which
                           is all that MLPerf Storage asks for.
    PENSTOCK_DLIO_CROP     edge of the crop in pixels; default 224
    PENSTOCK_DLIO_DATA     a packed data set made of the workload's folder (penstock pack), to be read instead of its files

This module imports dlio_benchmark, which is not a dependency of Penstock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
from dlio_benchmark.reader.reader_handler import FormatReader

import penstock as ps
from penstock import transforms
from penstock.errors import ArgumentError, NotFoundError


def decodes() -> bool:
    """True if pixels are wanted, by PENSTOCK_DLIO_DECODE."""
    text = os.environ.get("PENSTOCK_DLIO_DECODE", "1")
    if text not in ("0", "1"):
        raise ArgumentError(f"PENSTOCK_DLIO_DECODE is 0 or 1, not {text!r}")
    return text == "1"


def chain() -> list[Any]:
    """Returns the operations on pixels: a crop of PENSTOCK_DLIO_CROP pixels, a flip and normalisation."""
    text = os.environ.get("PENSTOCK_DLIO_CROP", "224")
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ArgumentError(f"PENSTOCK_DLIO_CROP is an edge in pixels, not {text!r}")
    return [
        transforms.RandomResizedCrop(int(text)),
        transforms.RandomHorizontalFlip(),
        transforms.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD),
    ]


def samples_of(files: Sequence[str]) -> tuple[ps.Dataset, list[int]]:
    """Opens the data set that has these files, and returns it with their sample numbers, in the order of the files.

    The data set is the folder that all files have in common, or the packed one of PENSTOCK_DLIO_DATA, whose samples have the names
    of the files.
    """
    if not files:
        raise ArgumentError("the workload has no files")
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    dataset = ps.Dataset(os.environ.get("PENSTOCK_DLIO_DATA") or folder)
    number_of = {dataset.name(i): i for i in range(len(dataset))}
    names = [os.path.relpath(os.path.abspath(file), folder) for file in files]
    missing = next((name for name in names if name not in number_of), None)
    if missing is not None:
        raise NotFoundError(f"no sample {missing!r}: was the data set packed of {folder}?", dataset=dataset.path)
    numbers = [number_of[name] for name in names]
    return dataset, numbers


class Loader(BaseDataLoader):
    """Penstock as DLIO's data loader. DLIO makes an object for each epoch, calls `read` once, and takes batches by `next`."""

    def __init__(self, format_type: Any, dataset_type: Any, epoch_number: int) -> None:
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._batches: ps.Loader | None = None
        self._samples: tuple[ps.Dataset, list[int]] | None = None

    def read(self) -> None:
        """Opens the files. No sample is read before `next`."""
        args = self._args
        if self._samples is None:
            self._samples = samples_of(args.file_list_train if self.dataset_type is DatasetType.TRAIN else args.file_list_eval)
        dataset, numbers = self._samples
        field = next(name for name, about in dataset.fields.items() if about.type == "image")
        wanted: dict[str, Any] = {"transforms": chain()} if decodes() else {"encoded": [field]}
        self._batches = ps.Loader(
            dataset,
            self.batch_size,
            indices=numbers,
            fields=[field],
            shuffle=args.sample_shuffle != Shuffle.OFF,
            seed=int(args.seed),
            num_workers=int(args.read_threads),
            prefetch=max(1, int(args.prefetch_size) or 2),
            reading=ps.Reading(page_cache="direct" if getattr(args, "odirect", False) else "keep"),
            rank=int(args.my_rank),
            world_size=int(args.comm_size),
            drop_last=True,
            output="numpy",
            cache=None,
            **wanted,
        )
        self._field = field

    def next(self) -> Iterator[Any]:
        """Yields the images of each batch of this epoch: float32 (N, 3, H, W), or a list of stored bytes."""
        if self._batches is None:
            self.read()
        assert self._batches is not None
        self._batches.set_epoch(int(self.epoch_number))
        for batch in self._batches:
            yield batch[self._field]
        self.epoch_number += 1

    def finalize(self) -> None:
        """Ends the threads. DLIO calls it after each epoch; `next` starts them again."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None


class Reader(FormatReader):
    """Penstock as DLIO's reader of single samples, for torch's DataLoader. It returns real pixels of the crop's size."""

    def __init__(self, dataset_type: Any, thread_index: int, epoch: int) -> None:
        super().__init__(dataset_type, thread_index)
        dataset, numbers = samples_of(self._file_list)
        # DLIO passes some file names relative to the working directory and some as absolute paths, so both are looked up.
        self._number_of: dict[str, int] = dict(zip(map(os.path.abspath, self._file_list), numbers, strict=True))
        self._image = next(name for name, about in dataset.fields.items() if about.type == "image")
        self._samples = ps.TorchDataset(dataset, chain(), fields=[self._image], seed=int(self._args.seed), cache=None)
        self._samples.set_epoch(max(int(epoch), 0))

    def open(self, filename: str) -> int:
        """Returns the sample number of the file, which DLIO uses as its handle of the open file."""
        return self._number_of[os.path.abspath(filename)]

    def close(self, filename: str) -> None:
        """Does nothing: no file is open for a single sample."""

    def get_sample(self, filename: str, sample_index: int) -> Any:
        """Returns the pixels of a file: float32 (3, H, W)."""
        return self._samples[self.open(filename)][self._image]

    def read_index(self, image_idx: int, step: int) -> Any:
        """Returns the pixels of a sample by its number in DLIO's map."""
        filename, sample_index = self.global_index_map[image_idx]
        found = self.get_sample(filename, sample_index)
        self.preprocess()
        return found

    def next(self) -> Iterator[Any]:
        """Yields batches of the files of this thread. The last batch is filled up with repeats of its last sample."""
        mine = self.file_map[self.thread_index]
        for start in range(0, len(mine), self.batch_size):
            part = [self.get_sample(name, i).numpy() for _, name, i in mine[start : start + self.batch_size]]
            part += [part[-1]] * (self.batch_size - len(part))
            yield np.stack(part)

    def finalize(self) -> None:
        """Does nothing: there is nothing to free."""

    def is_index_based(self) -> bool:
        """Tells DLIO that samples can be read by number."""
        return True

    def is_iterator_based(self) -> bool:
        """Tells DLIO that samples can be read one after another."""
        return True
