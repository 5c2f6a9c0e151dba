"""Samples that spin and sleep for known times, for torch DataLoaders."""

from __future__ import annotations

import time

import torch


class Known(torch.utils.data.Dataset):
    def __init__(self, spin: float, sleep: float, n: int = 4096) -> None:
        self.spin, self.sleep, self.n = spin, sleep, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> torch.Tensor:
        end = time.thread_time() + self.spin
        while time.thread_time() < end:
            pass
        time.sleep(self.sleep)
        return torch.zeros(3, 8, 8)
