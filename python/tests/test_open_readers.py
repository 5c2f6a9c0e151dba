"""Readers that stay open while a data set is appended to and changed in place, in any order and number."""

from __future__ import annotations

import os
import random
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords

PROGRAM = Path(sysconfig.get_path("scripts")) / "penstock"
FORMS = ("raw", "pli", "raw,pli", "pli,raw")


def change(path: Path, how: str) -> None:
    """Appends two samples, or changes the form of all samples in place."""
    if how == "append":
        n = len(ps.Dataset(path))
        more = path.parent / f"more-{n}"
        (more / "a").mkdir(parents=True)
        for i in range(n, n + 2):
            (more / "a" / f"{i:03d}.png").write_bytes(encoded(picture(i, 24, 32), "png"))
        command = ["append", path, more]
    else:
        command = ["repack", path, "--form", how]
    subprocess.run([PROGRAM, *command, "--quiet"], check=True)


class Reader:
    """A data set, or a loader in use, that keeps the state in which it was opened."""

    def __init__(self, path: Path, loads: bool) -> None:
        self.n = len(ps.Dataset(path))
        self.dataset = ps.Dataset(path)
        options = {"num_workers": 1, "prefetch": 1, "cache": None, "fleet": None, "output": "numpy"}
        self.loader = ps.Loader(self.dataset, 1, **keywords(**options)) if loads else None
        self.batches: Iterator[dict] | None = iter(self.loader) if self.loader else None
        self.first = next(self.batches)["image"].copy() if self.batches else None

    def check(self) -> None:
        if self.batches is None:
            found = [self.dataset[i]["image"] for i in range(self.n)]
        else:
            found = [image[0] for image in (self.first, *(batch["image"].copy() for batch in self.batches))]
            found = [np.moveaxis(image, 0, -1) for image in found]
        assert len(found) == self.n
        for i, image in enumerate(found):
            np.testing.assert_array_equal(image, picture(i, 24, 32))

    def close(self) -> None:
        if self.loader is not None:
            self.loader.close()
        self.dataset.close()


@pytest.mark.parametrize("seed", range(4))
def test_readers_go_on(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    path = tmp_path / "set.pst"
    folder = tmp_path / "files" / "a"
    folder.mkdir(parents=True)
    for i in range(4):
        (folder / f"{i:03d}.png").write_bytes(encoded(picture(i, 24, 32), "png"))
    ps.pack(folder.parent, path, shard_size="4KiB")
    changes = ["append", "raw", "append", *(dice.choice(("append", *FORMS)) for _ in range(4))]
    if seed % 2:
        dice.shuffle(changes)
    readers = [Reader(path, loads) for loads in (False, True)]
    for how in changes:
        change(path, how)
        if dice.random() < 0.3:
            readers.append(Reader(path, dice.random() < 0.5))
        if dice.random() < 0.2:
            reader = readers.pop(dice.randrange(len(readers)))
            reader.check()
            reader.close()
    for reader in readers:
        reader.check()
    for reader in readers:
        reader.close()
    # When nobody reads old states any more, the next changes remove them.
    change(path, "append")
    change(path, "raw")
    named = {name for name in os.listdir(path) if name.startswith("shard-")}
    assert sum((path / name).stat().st_size for name in named) < 3 * len(ps.Dataset(path)) * 24 * 32 * 3 + 65536
    assert not [name for name in os.listdir(path) if name.startswith("index.pst.old")]
