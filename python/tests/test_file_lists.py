"""Label files that list a path and labels in each line, as DALI's readers take them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture

NAMES = ["a.jpg", "two words.png", "ü/b c.jpg", "no ending", "d.jpg 5.jpg", "7.jpg"]


@pytest.fixture
def root(tmp_path):
    for i, name in enumerate(NAMES):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(i, 20, 30), "PNG" if name.endswith("png") else "JPEG"))
    return tmp_path / "root"


def read_by_rule(text: str) -> dict[str, int]:
    """Reads a line by DALI's rule: the digits at its end are the label, and the text before the blanks is the name."""
    found = {}
    for line in filter(str.strip, text.split("\n")):
        name, _, label = line.rstrip().replace("\t", " ").rpartition(" ")
        found[name.rstrip()] = int(label)
    return found


def test_random_lists_are_read_as_dali_reads_them(root, tmp_path):
    for seed in range(40):
        draw = random.Random(seed)
        names = draw.sample(NAMES, draw.randint(1, len(NAMES)))
        lines = []
        for name in names:
            lines += [draw.choice(["", " ", "\t \r"])] * (draw.random() < 0.3)
            end = draw.choice(["", " ", "\r", "\t"])
            lines.append(f"{name}{draw.choice([' ', chr(9), '   '])}{draw.choice(['', '0'])}{draw.randint(0, 999)}{end}")
        text = "\n".join(lines) + draw.choice(["", "\n", "\n\n"])
        path = tmp_path / "list.txt"
        path.write_bytes(draw.choice([b"", b"\xef\xbb\xbf"]) + text.encode())
        ds = ps.Dataset(root, labels=path)
        assert {ds.name(i): int(ds[i]["label"]) for i in range(len(ds))} == read_by_rule(text), (seed, text)


def test_packed_loaded_and_mixed(root, tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES)))
    (tmp_path / "several.list").write_text("a.jpg 1 2\n7.jpg\n")
    ps.pack(root, tmp_path / "out", labels=tmp_path / "list.txt")
    ds = ps.Dataset(tmp_path / "out")
    assert {ds.name(i): int(ds[i]["label"]) for i in range(len(ds))} == {name: i % 2 for i, name in enumerate(NAMES)}
    mixture = ps.Mixture({"list": ps.Dataset(root, labels=tmp_path / "list.txt"), "packed": ds})
    assert np.array_equal(mixture.column("label"), [*ds.column("label"), *ds.column("label")])
    several = ps.Dataset(root, labels=tmp_path / "several.list")
    assert [several[i]["labels"] for i in range(2)] == [[], [1, 2]]
    with pytest.raises(ps.errors.NotFoundError, match="line 2: b.jpg: there is no such file"):
        (tmp_path / "list.txt").write_text("a.jpg 1\nb.jpg 1\n")
        ps.pack(root, tmp_path / "none", labels=tmp_path / "list.txt")
