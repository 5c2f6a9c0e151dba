"""A ResNet-18 trained from a folder of JPEGs and from the same folder as pli-jpeg: every batch and every loss is the same.

    python examples/same_training.py FOLDER [--epochs 2] [--size 224] [--batch 32]

FOLDER holds one folder of JPEGs per class. It is packed, which stores JPEGs as pli-jpeg. Then two networks with the same initial
weights are trained with the same seed, one from the folder and one from the packed data set. Prints a hash of all batches and the
mean loss of both for each epoch, and ends with status 1 if any differs.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import penstock as ps
from penstock import transforms as T


class Block(nn.Module):
    """Two 3x3 convolutions with a residual connection around them (He et al., CVPR 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(self.first(x)) + self.around(x))


def resnet18(n_classes: int) -> nn.Module:
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [64, 64, 128, 256, 512]
    for i in range(4):
        layers += [Block(widths[i], widths[i + 1], 1 if i == 0 else 2), Block(widths[i + 1], widths[i + 1], 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, n_classes))


def train(dataset: ps.Dataset, args) -> list[tuple[str, float, float]]:
    """Returns (hash of the batches, mean loss, seconds spent in the loader) for each epoch."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    network = resnet18(len(dataset.classes))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    loader = ps.Loader(dataset, batch_size=args.batch, shuffle=True, seed=1, drop_last=True, output="torch",
                       transforms={"image": [T.RandomResizedCrop(args.size), T.RandomHorizontalFlip(),
                                             T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]})
    epochs = []
    for _ in range(args.epochs):
        digest, losses, waited, begun = hashlib.sha256(), [], 0.0, time.perf_counter()
        for batch in loader:
            waited += time.perf_counter() - begun
            digest.update(batch["image"].numpy().tobytes())
            digest.update(batch["label"].numpy().tobytes())
            loss = nn.functional.cross_entropy(network(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            begun = time.perf_counter()
        epochs.append((digest.hexdigest(), sum(losses) / len(losses), waited))
    return epochs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "set.pst"
        ps.pack(str(args.folder), str(packed), forms=("pli-jpeg",))
        results = {"JPEG files": train(ps.Dataset(str(args.folder)), args), "pli-jpeg": train(ps.Dataset(str(packed)), args)}
    for name, epochs in results.items():
        for i, (digest, loss, waited) in enumerate(epochs):
            print(f"{name:10}  epoch {i}  batches {digest[:16]}  mean loss {loss:.9f}  waited for the loader {waited:.2f} s")
    plain, kept = ([epoch[:2] for epoch in epochs] for epochs in results.values())
    print("the same" if plain == kept else "THEY DIFFER")
    return plain != kept


if __name__ == "__main__":
    sys.exit(main())
