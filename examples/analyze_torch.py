#!/usr/bin/env python3
"""A training script with a plain torch DataLoader, and where it stalls.

    examples/analyze_torch.py --analyze                              two lines of the script, below, do it
    penstock analyze --command "python examples/analyze_torch.py"    without a change of the script

Images are decoded by Pillow in worker processes, as in many scripts. The report says what the model waits for, and how fast
Penstock would load the same files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import penstock as ps

PHOTOGRAPHS = Path(__file__).resolve().parent / "photographs"


class Folder(torch.utils.data.Dataset):
    """Images in folders, which are their classes. Each image is made a square."""

    def __init__(self, root: Path, edge: int) -> None:
        self.files = sorted(path for path in root.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        self.classes = sorted({path.parent.name for path in self.files})
        self.edge = edge

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.files[i]) as image:
            pixels = np.asarray(image.convert("RGB").resize((self.edge, self.edge)))
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255, self.classes.index(self.files[i].parent.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, default=PHOTOGRAPHS)
    parser.add_argument("--analyze", action="store_true", help="analyse instead of training")
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    dataset = Folder(arguments.images, 64)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=arguments.workers)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, len(dataset.classes)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch: list[torch.Tensor]) -> None:
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    if arguments.analyze:
        print(ps.analyze(loader, step, budget=arguments.budget).report())  # the two added lines
        return
    for epoch in range(2):
        for batch in loader:
            step(batch)
        print(f"epoch {epoch} done")


if __name__ == "__main__":
    main()
