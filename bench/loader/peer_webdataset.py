"""WebDataset: the original bytes in tar shards, torch workers, torchvision v2 for decoding and transforms."""

from __future__ import annotations

from pathlib import Path

import torch
import webdataset as wds

import common
import peer_torchvision

NAME = "WebDataset + torchvision v2"
SHARDS = 8


def versions() -> dict:
    return {"webdataset": wds.__version__, **peer_torchvision.versions()}


def prepare(work: common.Work) -> Path:
    def write(folder: Path) -> None:
        folder.mkdir()
        samples = list(zip(work.files(), work.labels(), strict=True))
        for shard in range(SHARDS):
            with wds.TarWriter(str(folder / f"{shard:02d}.tar")) as tar:
                for i, (path, label) in list(enumerate(samples))[shard::SHARDS]:
                    tar.write({"__key__": f"{i:06d}", "image": path.read_bytes(), "cls": label})

    return common.made(work.store("tars"), write)


def shards(store: Path) -> list[str]:
    return [str(path) for path in sorted(store.glob("*.tar"))]


def decode(data: bytes, jpeg: bool) -> torch.Tensor:
    return peer_torchvision.decode(torch.frombuffer(bytearray(data), dtype=torch.uint8), jpeg)


def batches(work: common.Work, store: Path, threads: int):
    torch.set_num_threads(threads)
    transform = peer_torchvision.random_transform(work)
    # Shards are drawn with replacement. So the stream is endless, and no worker waits for the end of another worker's epoch.
    held = min(1000, len(work.files()))  # full from the start: while it grows, two samples are read for each one delivered
    samples = (wds.WebDataset(shards(store), resampled=True, shardshuffle=False).shuffle(held, initial=held)
               .to_tuple("image", "cls").map_tuple(lambda data: transform(decode(data, work.jpeg)), int)
               .batched(work.batch, partial=False))
    workers = threads if threads > 1 else 0
    extra = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    yield from wds.WebLoader(samples, batch_size=None, num_workers=workers, **extra)


def evaluate(work: common.Work, store: Path, files):
    numbers = {path: f"{i:06d}" for i, path in enumerate(work.files())}
    transform = peer_torchvision.fixed_transform(work)
    found = {sample["__key__"]: sample["image"]
             for sample in wds.WebDataset(shards(store), shardshuffle=False)}
    return torch.stack([transform(decode(found[numbers[path]], work.jpeg)) for path in files]).numpy()
