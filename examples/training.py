"""Code that the training examples share: a loop that measures how long it waits for batches, and comparisons of two loaders.

This is not a program. train_images.py, train_detector.py and train_segmentation.py import it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

import penstock as ps


@dataclass
class Run:
    """losses: loss of each step. seconds: time of the whole loop. waited: the part of it spent in next()."""

    losses: list[float] = field(default_factory=list)
    waited: float = 0.0
    seconds: float = 0.0

    @property
    def stall(self) -> float:
        return self.waited / self.seconds

    @property
    def last(self) -> float:
        """The mean loss of the last twentieth of the steps, at least 5."""
        part = self.losses[-max(5, len(self.losses) // 20):]
        return sum(part) / len(part)


def train(step: Callable[[Any], torch.Tensor], batches: Iterable[Any], n_epochs: int) -> Run:
    """Calls `step`, which returns a loss, with each batch of each epoch. The time in next() is the stall, whatever the loader
    is."""
    run, begun = Run(), perf_counter()
    for epoch in range(n_epochs):
        sampler = getattr(batches, "sampler", None)
        if hasattr(sampler, "set_epoch"):  # needed by torch's DistributedSampler; a ps.Loader also counts epochs by itself
            sampler.set_epoch(epoch)
        iterator, end = iter(batches), object()
        while True:
            since = perf_counter()
            batch = next(iterator, end)
            run.waited += perf_counter() - since
            if batch is end:
                break
            run.losses.append(float(step(batch).detach()))
    run.seconds = perf_counter() - begun
    return run


def need_steps(n_steps: int) -> int:
    """Returns the number of steps. If it is 0, ends the program: an epoch leaves out a last batch that is not full."""
    if n_steps < 1:
        sys.exit("there is nothing to train: an epoch has fewer samples than --batch says, or --epochs is 0")
    return n_steps


def order_of(loader: ps.Loader, n_epochs: int) -> list[list[int]]:
    """Returns the samples of each batch in the loader's next epochs, by position in its data set: a batch_sampler for a torch
    loader."""
    places = {number: i for i, number in enumerate(loader.dataset.indices.tolist())}
    order = [[places[number] for number in batch["index"].tolist()] for _ in range(n_epochs) for batch in loader]
    need_steps(len(order))
    return order


def peer_loader(samples: Any, collate: Callable[[list[Any]], Any], n_workers: int, seed: int, **options: Any) -> Any:
    """Returns a torch DataLoader. It has its own random generator, so it does not advance torch's global one."""
    torch.manual_seed(seed)
    return torch.utils.data.DataLoader(samples, collate_fn=collate, num_workers=n_workers, persistent_workers=n_workers > 0,
                                       generator=torch.Generator().manual_seed(seed), **options)


def normalized(images: torch.Tensor) -> torch.Tensor:
    """Normalises uint8 images for a network. Floats were already normalised by their loader.

    Penstock's Normalize rounds once where torchvision's rounds twice, so numbers may differ in their last bit, and training
    increases the difference from step to step. So losses are compared for integer pixels.
    """
    if images.dtype != torch.uint8:
        return images
    mean, std = (torch.tensor(values)[:, None, None] for values in (ps.IMAGENET_MEAN, ps.IMAGENET_STD))
    return (images / 255 - mean) / std


def same_losses(ours: Run, theirs: Run) -> bool:
    """Prints the largest difference of the losses. Returns True if they are equal."""
    gap = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses, strict=True))
    print(f"without augmentation: {len(ours.losses)} losses, from {ours.losses[0]:.4f} to {ours.losses[-1]:.4f}; "
          f"largest difference {gap:g}", flush=True)
    return gap == 0


def report(name: str, seed: int, run: Run, results: str) -> None:
    print(f"{name}, seed {seed}: loss {run.losses[0]:.3f} to {run.last:.3f}, {run.stall:.1%} of {run.seconds:.1f} s waiting, "
          f"{results}", flush=True)


def compare(metric: str, results: dict[str, Sequence[float]]) -> None:
    """Prints mean and range of each loader's results over the seeds, and whether the ranges overlap."""
    if len(results) < 2 or min(map(len, results.values())) < 2:
        return
    for name, values in results.items():
        print(f"{metric}, {name}: mean {sum(values) / len(values):.1%}, from {min(values):.1%} to {max(values):.1%}")
    meet = max(map(min, results.values())) <= min(map(max, results.values()))
    print(f"the ranges {'overlap' if meet else 'DO NOT OVERLAP'}")
