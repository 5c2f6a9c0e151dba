"""Penstock on a packed data set or on the plain folder."""

from __future__ import annotations

from pathlib import Path

import common
import numpy as np
import peer_penstock
import penstock as ps
from peer_penstock import normalize, versions
from penstock import transforms as T

import recipes

NAME = "Penstock"
MIXED = True
STORES = {"pli-jpeg": "packed as pli-jpeg", "pli": "packed as PLI", "original": "packed, the files' own bytes", "": "plain folder"}
LEVELS, PIXELS = 1, 0.01  # largest difference from torchvision: levels of a pixel, pixels of a box
__all__ = ["versions"]


def name(task: recipes.Task, form: str) -> str:
    return f"Penstock, {STORES[form]}"


def prepare(task: recipes.Task, form: str) -> Path:
    if not form:
        return task.root
    if task.name != "detect":
        return peer_penstock.packed(task, form)
    return common.made(task.store(form + ".pst"), lambda path: ps.pack(task.root, path, voc=True, forms=(form,)))


def random_transforms(task: recipes.Task) -> list[T.Transform]:
    flip = T.RandomHorizontalFlip()
    if task.name == "classify":
        return [T.RandomResizedCrop(task.size), flip, T.RandAugment(interpolation="bilinear"), *normalize(),
                T.RandomErasing(recipes.ERASING)]
    if task.name == "detect":
        return [T.RandomIoUCrop(), T.Resize((task.size, task.size)), flip, T.ColorJitter(*recipes.JITTER), T.SanitizeBoxes(),
                *normalize()]
    return [T.RandomScaleCrop(task.size, recipes.SCALES, mask_fill=recipes.IGNORE), flip, *normalize()]


def fields_of(task: recipes.Task) -> dict:
    """Returns Loader options for the fields that are delivered beside images."""
    if task.name == "detect":
        return {"fields": ["image", "boxes", "labels"], "annotations": ps.Annotations(per_box=["labels"])}
    return {"fields": ["image", "label" if task.name == "classify" else "mask"]}


def batches(task: recipes.Task, store: Path, threads: int):
    dataset = ps.Dataset(str(store))
    options = fields_of(task)
    if task.name == "classify":
        options["mix"] = [T.MixUp(recipes.MIXUP), T.CutMix(recipes.CUTMIX)]
    if task.name == "detect":
        options["ragged"] = "padded"
    # The few files are repeated, which makes epochs as long as those of real data. With one core the calling thread does the work,
    # as in the torch peer. There is no cache, because no other loader has one.
    loader = ps.Loader(dataset, task.batch, shuffle=True, seed=1, drop_last=True, indices=np.tile(np.arange(len(dataset)), 64),
                       num_workers=threads if threads > 1 else 0, output="numpy", cache=None, transforms=random_transforms(task),
                       **options)
    names = {"classify": ("image", "label"), "detect": ("image", "boxes", "labels", "boxes_counts"), "segment": ("image", "mask")}
    while True:
        for batch in loader:
            yield tuple(batch[name] for name in names[task.name])


def rows_of(task: recipes.Task, store: Path, files: list[Path], ops: list[T.Transform]) -> list[dict]:
    dataset = ps.Dataset(str(store))
    numbers = {Path(dataset.name(i)).stem: i for i in range(len(dataset))}
    loader = ps.Loader(dataset, 1, indices=[numbers[path.stem] for path in files], num_workers=0, output="numpy", cache=None,
                       transforms=ops, **fields_of(task))
    return [{name: np.array(values[0]) for name, values in batch.items() if isinstance(name, str) and len(values)}
            for batch in loader]


def evaluate(task: recipes.Task, store: Path, files: list[Path]) -> np.ndarray:
    ops = [T.Resize((task.size, task.size)), *normalize()]
    return np.stack([row["image"] for row in rows_of(task, store, files, ops)])


def compare(task: recipes.Task, store: Path, files: list[Path]) -> dict:
    """Compares samples with torchvision's for equal parameters: images within LEVELS, boxes within PIXELS, masks equal."""
    import with_torchvision

    found = {"levels": 0.0, "pixels": 0.0, "labels": 0}
    ops = [T.Resize((task.size, task.size)), T.RandomHorizontalFlip(1.0)]
    for row, (image, *others) in zip(rows_of(task, store, files, ops), with_torchvision.fixed(task, files), strict=True):
        found["levels"] = max(found["levels"], float(np.abs(row["image"].astype(int) - image.numpy().astype(int)).max()))
        labels = others[-1].numpy()
        if task.name == "detect":
            found["pixels"] = max(found["pixels"], float(np.abs(row["boxes"] - others[0].numpy()).max()))
        name = {"classify": "label", "detect": "labels", "segment": "mask"}[task.name]
        found["labels"] += int((row[name] != labels).sum())
    if found["levels"] > LEVELS or found["pixels"] > PIXELS or found["labels"]:
        raise SystemExit(f"{task.name}: not what torchvision makes: {found}")
    return found
