"""Data sets of three kinds for tests of mixtures: packed, a folder, and a tar, each of pictures of its own."""

from __future__ import annotations

import tarfile
from pathlib import Path

import penstock as ps
from conftest import encoded, picture

N = {"packed": 12, "folder": 9, "tar": 7}


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
