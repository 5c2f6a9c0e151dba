"""DDP training under torchrun: each rank has its own samples, and a stopped run resumes exactly.

    torchrun --standalone --nproc-per-node 2 examples/torchrun_resume.py

The loader finds rank and world size by itself. Its state is a few numbers, which are the same on all ranks, and is saved with the
weights. The program asserts that the ranks' samples are disjoint, and that a run that is stopped in the middle of an epoch and
resumed with new objects has the same batches and losses as a run that was never stopped.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import penstock as ps
from penstock import transforms as T

PHOTOGRAPHS = Path(__file__).parent / "photographs"
EPOCHS = 2
STOP_AFTER = 2  # number of steps, which ends in the middle of the first epoch


class Training:
    """Model, optimiser and loader, which together make up a checkpoint."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1))
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        chain = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
        self.loader = ps.Loader(PHOTOGRAPHS, batch_size=2, shuffle=True, seed=1, transforms={"image": chain},
                                fields=["image"], output="torch")

    def run(self, log: list[tuple[int, list[int], float]], max_steps: int | None = None) -> None:
        """Continues to the end of the last epoch, or for max_steps."""
        while self.loader.epoch < EPOCHS:
            epoch = self.loader.epoch
            for batch in self.loader:
                loss = (self.model(batch["image"]).mean() - 1).square()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                log.append((epoch, batch["index"].tolist(), loss.item()))
                if len(log) == max_steps:
                    return

    def save(self) -> bytes:
        file = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "loader": self.loader.state_dict()}, file)
        return file.getvalue()

    def load(self, checkpoint: bytes) -> None:
        state = torch.load(io.BytesIO(checkpoint), weights_only=True)
        self.model.load_state_dict(state["model"])
        self.loader.load_state_dict(state["loader"])


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    log: list[tuple[int, list[int], float]] = []
    training = Training()
    training.run(log)
    assert (training.loader.rank, training.loader.world_size) == (rank, world_size)

    logs: list[list[tuple[int, list[int], float]]] = [[] for _ in range(world_size)]
    dist.all_gather_object(logs, log)
    n = len(training.loader.dataset)
    for epoch in range(EPOCHS):
        seen = [i for part in logs for e, indices, _ in part if e == epoch for i in indices]
        assert set(seen) == set(range(n)), "every sample comes"
        assert len(seen) == n + -n % world_size, "and once only, but for padding"
    assert len({len(part) for part in logs}) == 1, "all ranks have equally many batches"

    again: list[tuple[int, list[int], float]] = []
    stopped = Training()
    stopped.run(again, max_steps=STOP_AFTER)
    checkpoint = [stopped.save()]
    dist.broadcast_object_list(checkpoint)  # all ranks get rank 0's state
    resumed = Training()
    resumed.load(checkpoint[0])
    left = len(resumed.loader) - STOP_AFTER
    assert resumed.loader.remaining == left, "what is left of the epoch"
    rest: list[tuple[int, list[int], float]] = []
    resumed.run(rest)
    assert again + rest == log, "the same batches and losses as without the stop"
    line = f"rank {rank} of {world_size}: {len(log)} batches, resumed after {STOP_AFTER}: equal"
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # a single write, because all ranks share standard output
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
