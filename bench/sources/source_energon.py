"""Megatron-Energon: a folder that Energon prepared beforehand, raw samples, a shuffle buffer, transforms of torchvision v2."""

from __future__ import annotations

import itertools
from pathlib import Path

import common
import torch
from megatron import energon
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory
from peer_torchvision import fixed_transform, random_transform
from peer_webdataset import decode

NAME = "Energon"
EXACT = False  # Energon's training stream never ends, so an epoch is a number of samples
DATASET = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def versions() -> dict:
    from importlib.metadata import version

    return {name: version(name) for name in ("megatron-energon", "webdataset", "torch")}


def prepare(store: Path) -> None:
    tars = sorted(path.name for path in store.glob("*.tar"))
    BaseWebdatasetFactory.prepare_dataset(store, tars, split_parts_ratio=[("train", 1.0)], workers=1)
    (store / ".nv-meta" / "dataset.yaml").write_text(DATASET)


class Encoder(energon.DefaultTaskEncoder):
    decoder = None

    def __init__(self, transform) -> None:
        super().__init__()
        self.transform = transform
        self.cookers = [energon.Cooker(self.cook)]

    @energon.stateless
    def cook(self, sample: dict) -> dict:
        return {**energon.basic_sample_keys(sample), "image": self.transform(decode(sample["jpg"], True)),
                "number": int(sample["cls"])}

    @energon.stateless
    def encode_sample(self, sample):
        return sample

    @energon.stateless
    def batch(self, samples):
        return torch.stack([sample["image"] for sample in samples]), [sample["number"] for sample in samples]

    @energon.stateless
    def encode_batch(self, batch):
        return batch


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    torch.set_num_threads(threads)
    workers = energon.WorkerConfig(rank=0, world_size=1, num_workers=threads if threads > 1 else 0)
    options = {"batch_size": work.batch, "worker_config": workers,
               "task_encoder": Encoder((fixed_transform if fixed else random_transform)(work))}
    if fixed:
        data = energon.get_val_dataset(store, split_part="train", **options)
    else:
        data = energon.get_train_dataset(store, shuffle_buffer_size=buffer, max_samples_per_sequence=100, **options)
    n, batches = len(work.files()), iter(energon.get_loader(data))
    while True:
        taken = batches if fixed else itertools.islice(batches, -(-n // work.batch))
        yield ((images.numpy(), numbers) for images, numbers in taken)
