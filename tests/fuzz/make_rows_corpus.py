#!/usr/bin/env python3
"""Writes seeds for fuzz_containers_lmdb, _recordio and _beton: one byte that chooses the rules, and a golden file.

    tests/fuzz/make_rows_corpus.py DIRECTORY

Writes DIRECTORY/containers_lmdb and so on.
"""

from __future__ import annotations

import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "containers"
# Folder and ending, the files, and the largest length of a seed: longer files are truncated.
SETS = {
    "lmdb": ("mdb", ("datum_images", "datum_floats", "keys", "names", "pickles", "several_values", "commits", "integer_keys")),
    "recordio": ("rec", ("joined_labels", "insightface", "plain", "mixed_labels", "large_label")),
    "beton": ("beton", ("jpegs", "pixels_ragged", "every", "custom", "empty_first", "records")),
}
NBYTES_MAX = 24 << 10


def main() -> int:
    for name, (ending, files) in SETS.items():
        folder = Path(sys.argv[1]) / f"containers_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        for i, file in enumerate(files):
            content = (GOLDEN / name / f"{file}.{ending}").read_bytes()[:NBYTES_MAX]
            if name == "recordio":
                content += b"idx:" + (GOLDEN / name / f"{file}.idx").read_bytes()
            (folder / file).write_bytes(bytes([i % 5]) + content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
