"""SPDL: threads decode by FFmpeg, with one filter graph per image (crop, scale, flip); a last stage makes the batch."""

from __future__ import annotations

import random
from importlib.metadata import version

import numpy as np
import spdl.io
import spdl.pipeline
import torch

import common

NAME = "SPDL"


def versions() -> dict:
    return {"spdl": version("spdl"), "torch": torch.__version__}


def decode(path, box, work: common.Work, flip: bool):
    packets = spdl.io.demux_image(str(path))
    left, top, width, height = box(packets.width, packets.height)
    steps = [f"crop={width}:{height}:{left}:{top}:exact=1"]
    if work.resized:
        steps.append(f"scale={work.size}:{work.size}:flags=bilinear")
    steps.append("format=pix_fmts=rgb24")
    return spdl.io.decode_packets(packets, filter_desc=",".join(steps + ["hflip"] * flip))


def finish(frames) -> torch.Tensor:
    images = spdl.io.to_torch(spdl.io.convert_frames(frames))
    images = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) * 255 for x in (common.MEAN, common.STD))
    return images.sub_(mean).mul_(1 / std)


def random_order(n: int):
    while True:
        yield from random.sample(range(n), n)


def batches(work: common.Work, store, threads: int):
    torch.set_num_threads(threads)
    files, labels, size = work.files(), work.labels(), work.size

    def crop(width: int, height: int) -> tuple[int, int, int, int]:
        return random.randint(0, width - size), random.randint(0, height - size), size, size

    box = common.random_box if work.resized else crop

    def load(i: int):
        return decode(files[i], box, work, random.random() < 0.5), labels[i]

    def collate(samples):
        return finish([frames for frames, _ in samples]), torch.tensor([label for _, label in samples])

    pipeline = (spdl.pipeline.PipelineBuilder().add_source(random_order(len(files))).pipe(load, concurrency=threads)
                .aggregate(work.batch, drop_last=True).pipe(collate).add_sink(2).build(num_threads=threads))
    with pipeline.auto_stop():
        yield from pipeline


def evaluate(work: common.Work, store, files):
    def box(width: int, height: int):
        return (0, 0, width, height) if work.resized else common.center_box(width, height, work.size)

    return np.concatenate([finish([decode(path, box, work, False)]).numpy() for path in files])
