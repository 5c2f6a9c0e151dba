#!/usr/bin/env python3
"""Writes the files of this folder with pyarrow: some bytes, and the same bytes compressed with Snappy, Zstandard and LZ4
(frame).

    python tests/golden/codings/make_codings.py

The committed files were made with pyarrow 26.0.1. tests/base/test_base_codings.c reads them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow

HERE = Path(__file__).parent


def raws() -> dict[str, bytes]:
    """Returns the uncompressed contents of each file."""
    chance = random.Random(1)
    words = ["penstock", "water", "turbine", "of", "the", "a", "training", "epoch"]
    mixed = b"".join(chance.randbytes(chance.randrange(40)) + bytes([i % 7]) * chance.randrange(90) for i in range(300))
    return {
        "empty": b"",
        "one": b"x",
        "text": " ".join(chance.choice(words) for _ in range(3000)).encode(),
        "mixed": mixed,
        "zeros": bytes(70_000),
    }


def main() -> None:
    for name, raw in raws().items():
        (HERE / f"{name}.raw").write_bytes(raw)
        for codec, end in (("snappy", "snappy"), ("zstd", "zst"), ("lz4", "lz4")):
            (HERE / f"{name}.{end}").write_bytes(pyarrow.compress(raw, codec=codec, asbytes=True))


if __name__ == "__main__":
    main()
