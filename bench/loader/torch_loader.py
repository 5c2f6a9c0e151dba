"""A torch DataLoader that never ends, because a measured window should not contain the restart of an epoch's workers."""

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
    """Yields batches without end. One thread: no worker process, which is faster on one core. More: as many workers, which stay
    alive.
    """
    torch.set_num_threads(threads)
    workers = threads if threads > 1 else 0
    extra = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    loader = torch.utils.data.DataLoader(samples, batch_size=batch, sampler=Endless(len(samples)), num_workers=workers,
                                         drop_last=True, **extra)
    yield from loader
