"""NVIDIA DALI, CPU pipeline: image_random_crop / image_crop decoders, triangular antialiased resize."""

from __future__ import annotations

import numpy as np
import nvidia.dali
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def

import common

NAME = "DALI, CPU pipeline"
SCALED = {"mean": [x * 255 for x in common.MEAN], "std": [x * 255 for x in common.STD]}


def versions() -> dict:
    return {"dali": nvidia.dali.__version__}


def resize(images, **size):
    return fn.resize(images, interp_type=types.INTERP_TRIANGULAR, antialias=True, **size)


def finish(images, **extra):
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", **SCALED, **extra)


def random_images(work: common.Work, encoded):
    """Decodes a random crop, resizes it if the group is resized, flips half of the images, and normalises."""
    options = {"device": "cpu", "output_type": types.RGB}
    if work.resized:
        images = fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4 / 3],
                                               num_attempts=10, **options)
        images = resize(images, resize_x=work.size, resize_y=work.size)
    else:
        images = fn.decoders.image_crop(encoded, crop=(work.size, work.size), crop_pos_x=fn.random.uniform(range=[0.0, 1.0]),
                                        crop_pos_y=fn.random.uniform(range=[0.0, 1.0]), **options)
    return finish(images, mirror=fn.random.coin_flip(probability=0.5))


def fixed_images(work: common.Work, encoded):
    images = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    if work.resized:
        images = resize(images, resize_x=work.size, resize_y=work.size)
    return finish(images, crop=(work.size, work.size))


def batches(work: common.Work, store, threads: int):
    files, labels = [str(p) for p in work.files()], work.labels()

    @pipeline_def(batch_size=work.batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1)
    def pipeline():
        encoded, label = fn.readers.file(files=files, labels=labels, random_shuffle=True, initial_fill=min(len(files), 1024),
                                         read_ahead=True, name="reader")
        return random_images(work, encoded), label

    pipe = pipeline()
    pipe.build()
    while True:
        images, label = pipe.run()
        yield np.asarray(images.as_tensor()), np.asarray(label.as_tensor())


def evaluate(work: common.Work, store, files):
    @pipeline_def(batch_size=len(files), num_threads=1, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=[str(p) for p in files], random_shuffle=False, name="reader")
        return fixed_images(work, encoded)

    pipe = pipeline()
    pipe.build()
    (images,) = pipe.run()
    return np.array(images.as_tensor())
