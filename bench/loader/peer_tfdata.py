"""tf.data: decode_and_crop_jpeg of the drawn box, antialiased resize, map and prefetch with AUTOTUNE."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import common

NAME = "tf.data"
MEAN, SCALE = tf.constant([x * 255 for x in common.MEAN]), tf.constant([1 / (x * 255) for x in common.STD])
TRIES = 10


def versions() -> dict:
    return {"tensorflow": tf.__version__}


def random_box(height, width):
    """Draws a box by torchvision's rule, because TensorFlow's sample_distorted_bounding_box draws by another rule."""
    h, w = tf.cast(height, tf.float32), tf.cast(width, tf.float32)
    area = h * w * tf.random.uniform([TRIES], 0.08, 1.0)
    ratio = tf.exp(tf.random.uniform([TRIES], np.log(3 / 4), np.log(4 / 3)))
    widths = tf.cast(tf.round(tf.sqrt(area * ratio)), tf.int32)
    heights = tf.cast(tf.round(tf.sqrt(area / ratio)), tf.int32)
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    # If no drawn box fits: the largest centred box of an allowed ratio.
    widths = tf.concat([widths, [tf.minimum(width, tf.cast(tf.round(h * 4 / 3), tf.int32))]], 0)
    heights = tf.concat([heights, [tf.minimum(height, tf.cast(tf.round(w * 4 / 3), tf.int32))]], 0)
    first = tf.argmax(tf.concat([fits, [True]], 0))
    box_w, box_h = widths[first], heights[first]
    where = tf.where(tf.reduce_any(fits), tf.random.uniform([2]), [0.5, 0.5])
    free = tf.cast([height - box_h + 1, width - box_w + 1], tf.float32)
    top, left = tf.unstack(tf.cast(where * free, tf.int32))
    return tf.stack([top, left, box_h, box_w])


def resize(image, size: int):
    return tf.ensure_shape(tf.image.resize(image, [size, size], "bilinear", antialias=True), [size, size, 3])


def finish(image):
    return tf.transpose((tf.cast(image, tf.float32) - MEAN) * SCALE, [2, 0, 1])


def random_image(work: common.Work, data):
    if work.resized:
        shape = tf.io.extract_jpeg_shape(data)
        image = resize(tf.io.decode_and_crop_jpeg(data, random_box(shape[0], shape[1]), channels=3), work.size)
    else:
        image = tf.image.random_crop(tf.image.decode_png(data, channels=3), [work.size, work.size, 3])
    return finish(tf.image.random_flip_left_right(image))


def with_threads(data: tf.data.Dataset, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    return data.with_options(options)


def dataset(work: common.Work, threads: int):
    """Returns the endless data set of batches."""
    def load(path, label):
        return random_image(work, tf.io.read_file(path)), label

    files = [str(p) for p in work.files()]
    data = tf.data.Dataset.from_tensor_slices((files, work.labels())).shuffle(len(files)).repeat()
    data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return with_threads(data.batch(work.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE), threads)


def batches(work: common.Work, store, threads: int):
    for images, labels in dataset(work, threads):
        yield images.numpy(), labels.numpy()


def evaluate(work: common.Work, store, files):
    out = []
    for path in files:
        image = tf.image.decode_image(tf.io.read_file(str(path)), channels=3, expand_animations=False)
        if work.resized:
            image = resize(image, work.size)
        else:
            left, top, width, height = common.center_box(image.shape[1], image.shape[0], work.size)
            image = image[top : top + height, left : left + width]
        out.append(finish(image).numpy())
    return np.stack(out)
