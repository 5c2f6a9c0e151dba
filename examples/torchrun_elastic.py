"""Training under torchrun that survives the loss of a worker, and continues with the remaining workers.

    torchrun --nnodes 1:4 --nproc-per-node 1 --max-restarts 3 --rdzv-backend c10d --rdzv-endpoint HOST:29400 \\
        examples/torchrun_elastic.py checkpoint.pt

When a worker is lost, torchrun restarts all others with new ranks. Each loads the newest checkpoint: weights, the loader's state,
and, for the check below, the samples that all ranks have had so far. The loader accepts a state of any number of ranks. At the end,
the program asserts that each sample of each epoch came once (except for padding), however often it was restarted.
PENSTOCK_EXAMPLE_DIE=RANK:STEP kills that rank once, without warning, before it ends that step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import penstock as ps
from penstock import transforms as T

PHOTOGRAPHS = Path(__file__).parent / "photographs"
EPOCHS = 2


def save(path: Path, state: dict[str, object]) -> None:
    """Writes a checkpoint, whole or not at all."""
    other = path.with_suffix(".new")
    torch.save(state, other)
    other.replace(path)


def main(path: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1))
    chain = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    loader = ps.Loader(PHOTOGRAPHS, batch_size=1, shuffle=True, seed=1, transforms=chain, fields=["image"], output="torch")
    steps: list[tuple[int, list[int]]] = []  # for each step: its epoch, and the samples of all ranks
    if path.exists():
        saved = torch.load(path, weights_only=True)
        net.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dies = os.environ.get("PENSTOCK_EXAMPLE_DIE", "")
    while loader.epoch < EPOCHS:
        epoch = loader.epoch
        for batch in loader:
            if dies == f"{dist.get_rank()}:{len(steps)}" and not path.with_suffix(".died").exists():
                path.with_suffix(".died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            (model(batch["image"]).mean() - 1).square().backward()
            optimizer.step()
            parts: list[list[int]] = [[] for _ in range(dist.get_world_size())]
            dist.all_gather_object(parts, batch["index"].tolist())
            steps.append((epoch, sum(parts, [])))
            if dist.get_rank() == 0:
                save(path, {"model": net.state_dict(), "loader": loader.state_dict(), "steps": steps})
    n = len(loader.dataset)
    for epoch in range(EPOCHS):
        counts = Counter(i for e, indices in steps if e == epoch for i in indices)
        assert set(counts) == set(range(n)), "every sample comes"
        assert sum(counts.values()) - n < max(len(indices) for _, indices in steps), "and once only, but for padding"
    if dist.get_rank() == 0:
        worlds = list(dict.fromkeys(len(indices) for _, indices in steps))
        os.write(sys.stdout.fileno(), f"{len(steps)} steps of {worlds} ranks, each sample once: equal\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
