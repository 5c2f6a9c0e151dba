"""DDP with torch.multiprocessing.spawn: the loader is made once, before the ranks exist.

    python examples/spawn_ddp.py

A pickled loader contains its arguments and its state, and a loader reads its rank when an epoch begins. So the parent may make the
loader and pass it to the processes, which join their process group afterwards. The program asserts that the ranks' samples are
disjoint, and that a state saved by two ranks in the middle of an epoch resumes exactly, also on one rank.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import penstock as ps
from penstock import transforms as T

PHOTOGRAPHS = Path(__file__).parent / "photographs"
WORLD_SIZE = 2
BATCH_SIZE = 2
STEPS = 2  # steps before the state is saved


def make_loader() -> ps.Loader:
    chain = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
    return ps.Loader(PHOTOGRAPHS, batch_size=BATCH_SIZE, shuffle=True, seed=3, transforms={"image": chain}, fields=["image"],
                     output="torch", num_workers=1)


def samples_of(batch: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns (number, sum of pixels) for each sample. The sum also depends on the augmentation."""
    return [(int(i), int(image.sum())) for i, image in zip(batch["index"], batch["image"], strict=True)]


def work(rank: int, loader: ps.Loader, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD_SIZE)
    steps = [samples_of(batch) for batch in loader]
    assert (loader.rank, loader.world_size, len(steps)) == (rank, WORLD_SIZE, len(loader))

    loader.set_epoch(0)
    batches = iter(loader)
    for step in range(STEPS):
        assert samples_of(next(batches)) == steps[step]
    state = loader.state_dict()
    resumed = make_loader()
    resumed.load_state_dict(state)
    assert [samples_of(batch) for batch in resumed] == steps[STEPS:]

    torch.save({"steps": steps, "state": state}, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    loader = make_loader()
    n = len(loader.dataset)
    assert loader.world_size == 1 and len(loader) == -(-n // BATCH_SIZE)  # no process has joined a group yet
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (loader, folder), nprocs=WORLD_SIZE)
        parts = [torch.load(f"{folder}/{rank}.pt") for rank in range(WORLD_SIZE)]

    seen = [sample for part in parts for step in part["steps"] for sample, _ in step]
    assert set(seen) == set(range(n)) and len(seen) == n + -n % WORLD_SIZE, "each sample once, but for padding"
    assert parts[0]["state"] == parts[1]["state"], "the state is the same on all ranks"

    loader.load_state_dict(parts[0]["state"])  # one process continues where two processes stopped
    rest = [sample for batch in loader for sample in samples_of(batch)]
    done = [sample for part in parts for step in part["steps"][:STEPS] for sample in step]
    whole = [sample for batch in set_epoch(loader, 0) for sample in samples_of(batch)]
    assert sorted(done + rest) == sorted(whole), "and delivers the others, augmented alike"
    print(f"{WORLD_SIZE} ranks: {n} samples, disjoint; resumed by each rank and by one process: equal")


def set_epoch(loader: ps.Loader, epoch: int) -> ps.Loader:
    loader.set_epoch(epoch)
    return loader


if __name__ == "__main__":
    main()
