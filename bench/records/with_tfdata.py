"""tf.data. A folder: the list of files is shuffled. TFRecord: shards are shuffled and interleaved, then a shuffle buffer
follows.
"""

from __future__ import annotations

import time
from pathlib import Path

import common
import formats
import peer_tfdata
import tensorflow as tf
from peer_tfdata import versions

NAME = "tf.data"
INTERLEAVED = 4
__all__ = ["versions"]


def written_s(work: common.Work, form: str, store: Path) -> float | None:
    """Writes the records by TensorFlow's own writer, and checks that the bytes are the same. Returns the seconds of writing."""
    if form != "tfrecord":
        return None
    begun, files, copy, number = time.perf_counter(), work.files(), store.with_name("unfinished.tfrecord"), 0
    seconds = 0.0
    for path in formats.shards(store, form):
        count = len(path.with_suffix(formats.INDEXES[form]).read_text().splitlines())
        with tf.io.TFRecordWriter(str(copy)) as writer:
            for _ in range(count):
                writer.write(formats.example(number, files[number].read_bytes()))
                number += 1
        paused = time.perf_counter()
        if copy.read_bytes() != path.read_bytes():
            raise SystemExit(f"{path}: not what TensorFlow writes")
        seconds -= time.perf_counter() - paused
    copy.unlink()
    return round(seconds + time.perf_counter() - begun, 3)


def encoded(work: common.Work, form: str, store: Path, buffer: int, fixed: bool) -> tf.data.Dataset:
    """Returns the tf.data data set of the files' bytes and numbers."""
    if form == "folder":
        files = [str(path) for path in work.files()]
        data = tf.data.Dataset.from_tensor_slices((files, list(range(len(files)))))
        if not fixed:
            data = data.shuffle(len(files))
        return data.map(lambda path, number: (tf.io.read_file(path), number), num_parallel_calls=tf.data.AUTOTUNE)
    features = {"image": tf.io.FixedLenFeature([], tf.string), "number": tf.io.FixedLenFeature([], tf.int64)}
    shards = [str(path) for path in formats.shards(store, form)]
    if fixed:
        data = tf.data.TFRecordDataset(shards)
    else:
        data = tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards)).interleave(
            tf.data.TFRecordDataset, cycle_length=INTERLEAVED, num_parallel_calls=tf.data.AUTOTUNE).shuffle(buffer)

    def parse(record):
        found = tf.io.parse_single_example(record, features)
        return found["image"], found["number"]

    return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def epochs(work: common.Work, form: str, store: Path, threads: int, buffer: int, fixed: bool, cold: bool):
    def prepare(data, number):
        if fixed:
            image = tf.io.decode_jpeg(data, channels=3)
            return peer_tfdata.finish(peer_tfdata.resize(image, work.size)), number
        return peer_tfdata.random_image(work, data), number

    data = encoded(work, form, store, buffer, fixed).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    data = peer_tfdata.with_threads(data.batch(work.batch).prefetch(tf.data.AUTOTUNE), threads)
    while True:
        yield ((images.numpy(), numbers.numpy().tolist()) for images, numbers in data)
