#!/usr/bin/env python3
"""Checks that the slow decoder gives the pixels that docs/format-pli.md states for its test vectors.

    tests/golden/test_golden_vectors.py DOCUMENT
"""

import re
import sys
from pathlib import Path

import pli_slow

VECTOR = re.compile(r"^vector (.+)\n((?:hex .+\n)+)((?:pixels .+\n)+)", re.MULTILINE)
N_VECTORS = 10


def numbers(lines, base=10):
    return [int(word, base) for line in lines.splitlines() for word in line.split()[1:]]


def main(document):
    vectors = VECTOR.findall(document.read_text())
    failures = []
    for words, data, pixels in vectors:
        name, *shape = words.split()
        try:
            (*got, samples), _ = pli_slow.decode(bytes(numbers(data, 16)))
        except pli_slow.Corrupt as error:
            failures.append(f"{name}: {error}")
            continue
        if got != [int(n) for n in shape] or list(samples) != numbers(pixels):
            failures.append(f"{name}: decodes otherwise")
    print("\n".join(failures) or f"{len(vectors)} vectors decode as the document says")
    return 1 if failures or len(vectors) != N_VECTORS else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
