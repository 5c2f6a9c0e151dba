"""tf.data over TFRecord, as its guides advise: files shuffled and interleaved, a shuffle buffer, map and prefetch AUTOTUNE."""

from __future__ import annotations

from pathlib import Path

import common
import peer_tfdata
import tensorflow as tf
from peer_tfdata import versions

NAME = "tf.data"
EXACT = True
INTERLEAVED = 4
FEATURES = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
__all__ = ["versions"]


def prepare(store: Path) -> None:
    """Does nothing: there is no index."""


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    def prepared(record):
        found = tf.io.parse_single_example(record, FEATURES)
        image, number = found["image/encoded"], found["image/class/label"]
        if rows:
            return image, number
        if fixed:
            return peer_tfdata.finish(peer_tfdata.resize(tf.io.decode_jpeg(image, channels=3), work.size)), number
        return peer_tfdata.random_image(work, image), number

    files = [str(path) for path in sorted(store.glob("train.tfrecord-*"))]
    data = tf.data.Dataset.from_tensor_slices(files)
    if fixed:
        data = tf.data.TFRecordDataset(files)
    else:
        data = data.shuffle(len(files)).interleave(tf.data.TFRecordDataset, cycle_length=INTERLEAVED,
                                                   num_parallel_calls=tf.data.AUTOTUNE, deterministic=False).shuffle(buffer)
    data = data.map(prepared, num_parallel_calls=tf.data.AUTOTUNE, deterministic=fixed).batch(work.batch)
    data = peer_tfdata.with_threads(data.prefetch(tf.data.AUTOTUNE), threads)
    while True:
        yield ((list(images.numpy()) if rows else images.numpy(), numbers.numpy().tolist()) for images, numbers in data)
