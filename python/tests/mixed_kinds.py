"""Data sets of three kinds for tests of mixtures (packed, a folder, and a tar), each with its own pictures; and loaders of them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

N = {"packed": 12, "folder": 9, "tar": 7}
CHAIN = {"image": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]}


def make_sources(place: Path) -> dict[str, Path]:
    """Writes the data sets into a folder; returns their paths."""
    numbers = iter(range(sum(N.values())))
    for name, n in N.items():
        for i in range(n):
            path = place / f"{name}-files" / "ab"[i % 2] / f"{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(picture(next(numbers), 24 + i % 3, 32), "png"))
    ps.pack(place / "packed-files", place / "packed.pst", forms=["original"])
    with tarfile.open(place / "x.tar", "w") as tar:
        for path in sorted((place / "tar-files").rglob("*.png")):
            tar.add(path, path.name)
    return {"packed": place / "packed.pst", "folder": place / "folder-files", "tar": place / "x.tar"}


def loader_of(dataset: object, **options: object) -> ps.Loader:
    given = {"batch_size": 4, "seed": 5, "shuffle": True, "output": "numpy", "num_workers": 1, "cache": None,
             "transforms": CHAIN, **options}  # fmt: skip
    return ps.Loader(dataset, **keywords(**given))


def batches(loader: ps.Loader) -> list[tuple[list[int], bytes]]:
    return [(batch["index"].tolist(), batch["image"].tobytes()) for batch in loader]
