"""Shared by the peers of the comparison: the groups of images and the crop rule.

A peer (a loader in the comparison) is a module `peer_<name>.py` with

    NAME, versions() -> dict
    batches(work, store, threads)  -> endless iterator of (images, labels), f32 NCHW, normalised
    evaluate(work, store, files)   -> f32 (n, 3, S, S): the same files by a rule without randomness

and optionally, instead of these defaults,

    prepare(work) -> Path   makes the peer's input (`store`) once; the default is the folder of images
    AREA = False            True: its antialiased resize averages areas; False: it uses a triangle filter, as Pillow does
    DECODES = True          False: its input is decoded pixels, so its figures are separate from the others'

`evaluate` is compared with Pillow before anything is timed. A peer raises `Unavailable` for work that it cannot do.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner import Unavailable  # noqa: F401  (peers raise it)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Work:
    """One group of images: `root` holds one folder per class; crops are `size` pixels square."""

    name: str
    root: Path
    batch: int
    size: int
    resized: bool  # RandomResizedCrop(size); False: RandomCrop(size)
    jpeg: bool  # False: PNG

    def files(self) -> list[Path]:
        return sorted(p for p in self.root.glob("*/*") if p.is_file())

    def labels(self) -> list[int]:
        names = sorted({p.parent.name for p in self.files()})
        return [names.index(p.parent.name) for p in self.files()]

    def store(self, what: str) -> Path:
        """Returns the folder of a peer's own copy of the group. Its name depends on the group's size, so a group that has grown is
        copied again.
        """
        return self.root.parent / f"{self.name}-{len(self.files())}.{what}"


def works(root: Path) -> dict[str, Work]:
    return {
        "imagenet": Work("imagenet", root / "imagenet", 64, 224, True, True),
        "photographs": Work("photographs", root / "photographs", 16, 224, True, True),
        "frames": Work("frames", root / "frames", 8, 768, False, False),
    }


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """Returns `path`. If it does not exist, make() first writes it under another name, so an incomplete file never has this
    name.
    """
    if not path.exists():
        unfinished = path.with_name("unfinished-" + path.name)
        remove(unfinished)
        make(unfinished)
        unfinished.rename(path)
    return path


def random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Returns left, top, width, height of torchvision's RandomResizedCrop (scale 0.08 to 1, ratio 3/4 to 4/3)."""
    low, high = math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def center_box(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    return round((width - size) / 2), round((height - size) / 2), size, size


def area_means(array, size: int):
    """Resizes the first axis to `size`. Each output sample is the mean of the input samples that it covers, weighted by the covered
    part.
    """
    import numpy as np

    sums = np.concatenate([np.zeros_like(array[:1]), np.cumsum(array, axis=0)])
    edges = np.arange(size + 1) * (len(array) / size)
    below = np.minimum(edges.astype(int), len(array) - 1)
    part = (edges - below).reshape(-1, *[1] * (array.ndim - 1))
    return np.diff(sums[below] + part * (sums[below + 1] - sums[below]), axis=0) * (size / len(array))


def resized(image, size: int, area: bool):
    import numpy as np
    from PIL import Image

    if not area:
        return image.resize((size, size), Image.Resampling.BILINEAR)
    rows = area_means(np.asarray(image, np.float64), size)
    return Image.fromarray(np.rint(area_means(rows.swapaxes(0, 1), size).swapaxes(0, 1)).astype(np.uint8))


def reference(work: Work, files: list[Path], area: bool = False):
    """Returns the expected result of `evaluate`: the whole image, decoded by Pillow, resized to size x size, or its centre
    crop."""
    import numpy as np
    from PIL import Image

    out = np.empty((len(files), 3, work.size, work.size), np.float32)
    for i, path in enumerate(files):
        image = Image.open(path).convert("RGB")
        if work.resized:
            image = resized(image, work.size, area)
        left, top, width, height = center_box(*image.size, work.size)
        crop = np.asarray(image.crop((left, top, left + width, top + height)), np.float32)
        crop = (crop / 255 - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        out[i] = crop.transpose(2, 0, 1)
    return out
