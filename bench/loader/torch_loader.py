"""A torch DataLoader that never ends, so that no window contains the restart of an epoch's workers."""

from __future__ import annotations

import random

import torch


class Endless(torch.utils.data.Sampler):
    def __init__(self, n: int):
        self.n = n

    def __iter__(self):
        while True:
            order = list(range(self.n))
            random.shuffle(order)
            yield from order

    def __len__(self) -> int:
        return 1 << 40


def forever(samples, batch: int, threads: int):
    """With one thread no worker process (the faster choice on one core); with more, as many workers, kept alive."""
    torch.set_num_threads(threads)
    workers = threads if threads > 1 else 0
    extra = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    loader = torch.utils.data.DataLoader(samples, batch_size=batch, sampler=Endless(len(samples)), num_workers=workers,
                                         drop_last=True, **extra)
    yield from loader
