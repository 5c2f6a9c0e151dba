#!/usr/bin/env python3
"""Writes seeds for fuzz_cache_file: saved caches, valid ones and some that contradict themselves.

    tests/fuzz/make_cache_corpus.py DIRECTORY

Writes DIRECTORY/*, following docs/format-cache.md. Checksums stay 0, because the target tries each input with corrected
checksums.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

MAGIC = b"\x89PSTC\r\n\x1a"


def header(major: int = 1, nbytes: int = 64) -> bytes:
    return (MAGIC + struct.pack("<HHI", major, 0, nbytes)).ljust(64, b"\0")


def record(kind: int, body: bytes) -> bytes:
    return (b"PSCR" + struct.pack("<I", kind) + body).ljust(64, b"\0")


def data_set(identity: int, n_samples: int, n_items: int) -> bytes:
    return record(1, bytes([identity]).ljust(16, b"\0") + struct.pack("<QI", n_samples, n_items))


def block(items: list[tuple[int, int]], more: int = 0, count: int | None = None, stated: int | None = None,
          number: int = 0) -> bytes:
    """Returns a block of items (number, length). The other arguments alter its length, its count, lengths in its table, or
    numbers of items."""
    table = b"".join(struct.pack("<QQQ", i, n if stated is None else stated, 0) for i, n in items)
    stored = b"".join((struct.pack("<QQ", n, i + number) + bytes([65 + i % 26]) * n).ljust(-(-(16 + n) // 16) * 16, b"\0")
                      for i, n in items)
    return record(2, struct.pack("<QQ", len(items) if count is None else count, len(stored) + more)) + table + stored


def whole(*parts: bytes, sets: int | None = None, items: int | None = None, more: int = 0) -> bytes:
    data = header() + b"".join(parts)
    counted = sum(struct.unpack_from("<Q", part, 8)[0] for part in parts if part[4] == 2)
    end = struct.pack("<QQQ", sum(part[4] == 1 for part in parts) if sets is None else sets,
                      counted if items is None else items, len(data) + 64 + more)
    return data + record(3, end)


GOOD = data_set(1, 4, 2), block([(0, 5), (3, 0), (7, 40)])
SEEDS = {
    "empty": whole(),
    "one": whole(*GOOD),
    "two": whole(*GOOD, data_set(2, 3, 1), block([(1, 1)]), block([(2, 100)])),
    "table-without-room": whole(data_set(3, 100, 1), *(block([(i, 500)]) for i in range(2)), data_set(4, 200000, 1),
                            block([(199999, 3)])),
    "set-without-items": whole(data_set(1, 4, 2)),
    "set-twice": whole(*GOOD, *GOOD),
    "no-set": whole(block([(0, 5)])),
    "huge-set": whole(data_set(1, 2**62, 4)),
    "out-of-order": whole(data_set(1, 4, 2), block([(3, 1), (2, 1)])),
    "falling-blocks": whole(data_set(1, 4, 2), block([(3, 1)]), block([(2, 1)])),
    "beyond-the-set": whole(data_set(1, 4, 2), block([(8, 1)])),
    "long-item": whole(data_set(1, 4, 2), block([(0, 1)], stated=2**63)),
    "other-length": whole(data_set(1, 4, 2), block([(0, 1)], stated=2)),
    "other-number": whole(data_set(1, 4, 2), block([(0, 1)], number=1)),
    "long-block": whole(data_set(1, 4, 2), block([(0, 1)], more=16)),
    "short-block": whole(data_set(1, 4, 2), block([(0, 1), (1, 1)], more=-16)),
    "endless-block": whole(data_set(1, 4, 2), block([(0, 1)], more=2**64 - 48)),
    "no-items": whole(data_set(1, 4, 2), block([])),
    "too-many-items": whole(data_set(1, 4, 2), block([(0, 1)], count=4097)),
    "end-sets": whole(*GOOD, sets=2),
    "end-items": whole(*GOOD, items=4),
    "end-length": whole(*GOOD, more=8),
    "after-the-end": whole(*GOOD) + b"more",
    "unknown-kind": header() + record(9, b""),
    "other-version": header(major=2) + whole()[64:],
    "other-header": header(nbytes=128) + whole()[64:],
    "cut": whole(*GOOD)[:-70],
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
