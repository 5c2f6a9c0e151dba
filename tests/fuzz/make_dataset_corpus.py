#!/usr/bin/env python3
"""Writes seeds for fuzz_dataset_index and fuzz_dataset_shard: index and shards of small data sets, made by the writer.

    .venv/bin/python tests/fuzz/make_dataset_corpus.py DIRECTORY

Writes DIRECTORY/dataset_index/real-* and DIRECTORY/dataset_shard/real-*. The other files of the corpora were grown from these
with the targets' own mutator, which changes one member of a structure and corrects the checksums: see scripts/fuzz.py, or grow.c
if libFuzzer is not installed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import penstock as ps


def image(i: int, height: int, width: int, channels: int = 3, dtype: type = np.uint8) -> np.ndarray:
    return ((np.arange(height * width * channels).reshape(height, width, channels) * 7 + i * 13) % 251).astype(dtype)


def everything(i: int) -> dict[str, object]:
    return {"image": image(i, 2 + i, 3), "mask": image(i, 2 + i, 3, 1)[..., 0], "boxes": np.tile(np.float32([0, 0, 1, 1]), (i, 1)),
            "points": np.ones((i, 3), "f4"), "label": i % 2, "weight": i / 2, "blob": bytes(range(i)), "text": "grün" * i,
            "meta": {"i": [i, None]}, "fixed": np.ones(3, "i2"), "ragged": np.ones((i, 2), "f4"), "sound": b"RIFF"}


SETS = {
    "everything": (everything, {
        "image": ps.Image("raw"), "mask": ps.Mask(), "boxes": ps.Boxes(), "points": ps.Keypoints(),
        "label": ps.Int(classes=["cat", "dog"]), "weight": ps.Float(), "blob": ps.Bytes(), "text": ps.Text(),
        "meta": ps.Json(), "fixed": ps.Array("int16", (3,)), "ragged": ps.Array("float32"), "sound": ps.Audio()}, 3),
    "classes": (lambda i: {"label": i}, {"label": ps.Int(classes=["a", "zürich", "c c"])}, 3),
    "labels": (lambda i: {"labels": np.arange(i) % 3, "few": np.zeros((i, 2), "u1")},
               {"labels": ps.Array("int64", classes=["a", "zürich", "c c"]), "few": ps.Array("uint8", classes=2)}, 4),
    "many": (lambda i: {"label": i % 7, "weight": -i}, {"label": ps.Int(classes=7), "weight": ps.Float()}, 40),
    "text": (lambda i: {"text": "x" * i, "meta": i}, {"text": ps.Text(), "meta": ps.Json()}, 4),
    "deep": (lambda i: {"image": image(i, 1, 5, 1, np.uint16)}, {"image": ps.Image("raw")}, 2),
    "shard": (lambda i: {"image": image(i, 1, 8, 1), "text": f"grün {i}", "meta": [{"a": i}], "blob": bytes(i)},
              {"image": ps.Image("raw"), "text": ps.Text(), "meta": ps.Json(), "blob": ps.Bytes()}, 3),
    "none": (lambda i: {}, {"text": ps.Text()}, 0),
}


def main() -> None:
    target = Path(sys.argv[1])
    for kind in ("index", "shard"):
        (target / f"dataset_{kind}").mkdir(parents=True, exist_ok=True)
    for name, (value, schema, n) in SETS.items():
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "set"
            with ps.Writer(path, schema) as writer:
                for i in range(n):
                    writer.write(value(i), f"{name}/{i}")
            (target / "dataset_index" / f"real-{name}").write_bytes((path / "index.pst").read_bytes())
            for shard in sorted(path.glob("shard-*.pst")):
                (target / "dataset_shard" / f"real-{name}").write_bytes(shard.read_bytes())


if __name__ == "__main__":
    main()
