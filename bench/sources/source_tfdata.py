"""tf.data, which cannot read tars itself. Each shard has a generator over tarfile; they are interleaved. Shards are shuffled, then
a shuffle buffer follows.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import common
import peer_tfdata
import tensorflow as tf
from peer_tfdata import versions

NAME = "tf.data over tarfile"
EXACT = True
INTERLEAVED = 4
SAMPLE = (tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.int64))
__all__ = ["versions"]


def prepare(store: Path) -> None:
    """Does nothing: there is no index."""


def samples(path: bytes):
    """Yields the samples of a shard from its beginning to its end."""
    with tarfile.open(path.decode(), "r|") as tar:
        image = b""
        for member in tar:
            content = tar.extractfile(member).read()
            if member.name.endswith(".jpg"):
                image = content
            else:
                yield image, int(content)


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    def prepared(data, number):
        if fixed:
            return peer_tfdata.finish(peer_tfdata.resize(tf.io.decode_jpeg(data, channels=3), work.size)), number
        return peer_tfdata.random_image(work, data), number

    def opened(path):
        return tf.data.Dataset.from_generator(samples, args=(path,), output_signature=SAMPLE)

    shards = [str(path) for path in sorted(store.glob("*.tar"))]
    data = tf.data.Dataset.from_tensor_slices(shards)
    if fixed:
        data = data.flat_map(opened)
    else:
        data = data.shuffle(len(shards)).interleave(opened, cycle_length=INTERLEAVED,
                                                    num_parallel_calls=tf.data.AUTOTUNE).shuffle(buffer)
    data = data.map(prepared, num_parallel_calls=tf.data.AUTOTUNE).batch(work.batch).prefetch(tf.data.AUTOTUNE)
    data = peer_tfdata.with_threads(data, threads)
    while True:
        yield ((images.numpy(), numbers.numpy().tolist()) for images, numbers in data)
