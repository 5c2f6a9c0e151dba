"""Lightning with strategy="ddp": fit() takes a Loader as it is, and checkpoints contain its state.

    python examples/lightning_ddp.py

Lightning itself starts the second process, and joins the process group inside fit(), after the loader was made. The program asserts
that the ranks' samples are disjoint, and that a fit() from a checkpoint, saved in the middle or at the end of an epoch, gets
exactly the remaining batches.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import penstock as ps
from penstock import transforms as T

PHOTOGRAPHS = Path(__file__).parent / "photographs"
EPOCHS = 2
SAVE_AFTER = 2  # number of steps, which ends in the middle of the first epoch

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[tuple[int, list[int]]] = []

    def training_step(self, batch: dict[str, Any], i_batch: int) -> torch.Tensor:
        self.seen.append((self.current_epoch, batch["index"].tolist()))
        return self.layer(batch["image"].mean((2, 3))).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def make_loader() -> ps.Loader:
    chain = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return ps.Loader(PHOTOGRAPHS, batch_size=2, shuffle=True, seed=5, transforms={"image": chain}, fields=["image"],
                     output="torch", num_workers=1)


def fit(folder: str, checkpoint: str | None = None) -> tuple[Module, ps.Loader]:
    save = ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = lightning.Trainer(strategy="ddp", devices=2, accelerator="cpu", max_epochs=EPOCHS, callbacks=[save],
                                logger=False, enable_progress_bar=False, enable_model_summary=False)
    module, loader = Module(), make_loader()
    trainer.fit(module, loader, ckpt_path=checkpoint)
    return module, loader


def main() -> None:
    torch.set_num_threads(1)
    # Lightning starts this program again as the other rank. Both ranks use the same folder.
    folder = os.environ.setdefault("LIGHTNING_DDP_FOLDER", tempfile.mkdtemp())

    module, loader = fit(f"{folder}/first")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    assert (loader.rank, loader.world_size) == (rank, world_size) == (rank, 2)
    parts: list[list[tuple[int, list[int]]]] = [[] for _ in range(world_size)]
    dist.all_gather_object(parts, module.seen)
    n = len(loader.dataset)
    for epoch in range(EPOCHS):
        seen = [i for part in parts for e, indices in part if e == epoch for i in indices]
        assert set(seen) == set(range(n)) and len(seen) == n + -n % world_size, "each once, but for padding"
    assert module.seen[0] != module.seen[len(loader)], "another order in the second epoch"

    for steps in (SAVE_AFTER, len(loader)):  # saved in the middle of an epoch, and at its end
        resumed, _ = fit(f"{folder}/{steps}", checkpoint=f"{folder}/first/step={steps}.ckpt")
        assert resumed.seen == module.seen[steps:], "the batches that were left"
    line = f"rank {rank} of {world_size}: {len(module.seen)} batches, resumed after {SAVE_AFTER} and {len(loader)}: equal"
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # a single write, because both ranks share standard output
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
