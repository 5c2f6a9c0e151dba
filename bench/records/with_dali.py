"""NVIDIA DALI's readers of files, TFRecord, RecordIO and tar, CPU pipeline.

The list of files is shuffled after each epoch. For records the list of shards is shuffled; shards are read in sequence into a
buffer, from which samples are drawn at random.
"""

from __future__ import annotations

from pathlib import Path

import common
import formats
import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.tfrecord as tfrec
from nvidia.dali import pipeline_def
from peer_dali import fixed_images, random_images, versions

NAME = "DALI"
__all__ = ["versions"]


def read(work: common.Work, form: str, store: Path, options: dict):
    """Returns the encoded images and their numbers, as this format's reader delivers them."""
    shards = [str(path) for path in formats.shards(store, form)] if form in formats.RECORDS else []
    indexes = [str(Path(path).with_suffix(formats.INDEXES.get(form, ""))) for path in shards]
    if form == "folder":
        files = [str(path) for path in work.files()]
        return fn.readers.file(files=files, labels=list(range(len(files))), **options)
    if form == "tfrecord":
        features = {"image": tfrec.FixedLenFeature((), tfrec.string, ""), "number": tfrec.FixedLenFeature([1], tfrec.int64, -1)}
        found = fn.readers.tfrecord(path=shards, index_path=indexes, features=features, **options)
        return found["image"], found["number"]
    if form == "recordio":
        return fn.readers.mxnet(path=shards, index_path=indexes, **options)
    beside = [str(Path(path).with_suffix(".idx")) for path in shards]  # the index of a tar, as wds2idx names it
    options = options | ({"index_paths": beside} if all(Path(path).exists() for path in beside) else {})
    return fn.readers.webdataset(paths=shards, ext=["jpg", "cls"], missing_component_behavior="error", **options)


def numbers_of(form: str, found: np.ndarray) -> list[int]:
    if form == "tar":  # the number is stored as text
        return [int(bytes(row)) for row in found]
    return [int(number) for number in found.reshape(-1)]


def epochs(work: common.Work, form: str, store: Path, threads: int, buffer: int, fixed: bool, cold: bool):
    # Cold epochs read files instead of mapping them, because mapped pages cannot be dropped from the page cache.
    options = {"name": "reader", "read_ahead": True, "pad_last_batch": True, "dont_use_mmap": cold}
    if not fixed:
        options |= {"shuffle_after_epoch": True}
        options |= {} if form == "folder" else {"random_shuffle": True, "initial_fill": buffer}

    @pipeline_def(batch_size=work.batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1)
    def pipeline():
        encoded, number = read(work, form, store, options)
        return (fixed_images if fixed else random_images)(work, encoded), number

    pipe = pipeline()
    pipe.build()
    n = pipe.reader_meta("reader")["epoch_size"]

    def epoch():
        for start in range(0, n, work.batch):
            images, found = pipe.run()
            own = min(work.batch, n - start)  # number of samples: the last batch is filled up with repeats
            yield np.asarray(images.as_tensor())[:own], numbers_of(form, np.asarray(found.as_tensor()))[:own]

    while True:
        yield epoch()
