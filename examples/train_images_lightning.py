"""The training of train_images.py with Lightning, in one process or in several (strategy "ddp").

    python examples/train_images_lightning.py [--devices 2] [--epochs 30] [the options of train_images.py]

fit() gets the Loaders as they are. They find their rank when an epoch begins.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

import penstock as ps
import train_images as plain
from penstock import transforms as T
from training import need_steps

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning  # noqa: E402


class Classifier(lightning.LightningModule):
    def __init__(self, n_classes: int, n_steps: int, args: Any) -> None:
        super().__init__()
        torch.manual_seed(args.seeds[0])
        self.network = plain.resnet(args.model, n_classes, args.width)
        self.rate, self.n_steps = args.rate, n_steps
        self.losses: list[float] = []

    def training_step(self, batch: dict[str, Any], i_batch: int) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(self.network(batch["image"]), batch["label"], label_smoothing=plain.SMOOTHING)
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: dict[str, Any], i_batch: int) -> None:
        right = self.network(batch["image"]).argmax(1) == batch["label"]
        self.log("accuracy", right.float().mean(), batch_size=len(right), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer, schedule = plain.optimizer_of(self.network, self.rate, self.n_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def run(folder: Path, args: Any, n_devices: int) -> None:
    dataset = ps.Dataset(folder)
    training, test = dataset.split([1 - args.test, args.test], seed=1, stratify="label") if args.test else (dataset, dataset)
    ops = [T.Resize(args.size + args.size // 8), T.CenterCrop(args.size), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    held = ps.Loader(test, 16, transforms={"image": ops}, fields=["image", "label"], pad_epoch=False, num_workers=1, output="torch")
    batches = plain.penstock_batches(training, args, True, args.seeds[0])
    # len(batches) is not known before fit() has set the ranks.
    n_steps = need_steps(args.epochs * (len(training) // (args.batch * n_devices)))
    module = Classifier(len(dataset.classes or ()), n_steps, args)
    trainer = lightning.Trainer(accelerator="cpu", devices=n_devices, strategy="ddp" if n_devices > 1 else "auto",
                                max_epochs=args.epochs, check_val_every_n_epoch=args.epochs, num_sanity_val_steps=0,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, batches, held)
    last = sum(module.losses[-5:]) / len(module.losses[-5:])
    line = (f"lightning, rank {trainer.global_rank} of {n_devices}: {len(module.losses)} steps, loss {module.losses[0]:.3f} to "
            f"{last:.3f}, accuracy {float(trainer.callback_metrics['accuracy']):.1%}\n")
    os.write(sys.stdout.fileno(), line.encode())  # a single write, because all ranks share standard output


def parse() -> tuple[int, argparse.Namespace]:
    """Returns the number of devices, and the options of train_images.py, without those that this program ignores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], add_help=False, allow_abbrev=False)
    parser.add_argument("--devices", type=int, default=1, help="processes that train")
    own, rest = parser.parse_known_args()
    args = plain.parse(rest)
    ignored = {"--loader": args.loader != ["penstock"], "--ema": args.ema, "--same": args.same,
               "more than one of --seeds": len(args.seeds) > 1}
    for name, is_given in ignored.items():
        if is_given:
            parser.error(f"this program goes without {name}: see train_images.py")
    if own.devices < 1:
        parser.error(f"--devices is {own.devices}: at least 1 is expected")
    return own.devices, args


def main() -> None:
    n_devices, args = parse()
    with tempfile.TemporaryDirectory() as scratch:
        if args.data is None:  # each rank cuts its own tiles, which are the same
            plain.cut_tiles(Path(scratch))
        run(args.data or Path(scratch), args, n_devices)


if __name__ == "__main__":
    main()
