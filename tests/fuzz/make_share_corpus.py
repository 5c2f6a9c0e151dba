#!/usr/bin/env python3
"""Seeds for fuzz_share_wire: messages of the host service's protocol (docs/internals/host-protocol.md).

    tests/fuzz/make_share_corpus.py DIRECTORY
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path


def message(kind: int, body: bytes, n_fds: int = 0, ident: int = 0) -> bytes:
    return b"PSTH" + struct.pack("<HHIIQ", kind, n_fds, 24 + len(body), 0, ident) + body


def text(value: str | None) -> bytes:
    return struct.pack("<I", 0xFFFFFFFF) if value is None else struct.pack("<I", len(value)) + value.encode()


def hello(protocol: int, session: int, version: str) -> bytes:
    return struct.pack("<II", protocol, session) + version.encode().ljust(32, b"\0")


def error(status: int, words: str) -> bytes:
    return struct.pack("<IIqq", status, 0, -1, -1) + b"".join(text(t) for t in ("serve", "", "photos", "", words))


SEEDS = {
    "hello": message(1, hello(1, 1, "0.1.0")),
    "welcome": message(2, hello(1, 1234, "0.1.0")),
    "hello-later": message(1, hello(9, 2, "9.0.0") + b"more"),
    "hello-endless": message(1, struct.pack("<II", 1, 1) + b"x" * 32),
    "error": message(3, error(4, "the cache has no room"), ident=7),
    "error-status": message(3, error(99, "unknown")),
    "error-cut": message(3, error(4, "the cache has no room")[:-3]),
    "alive": message(4, b""),
    "stop": message(38, b"", ident=3),
    "descriptors": message(16, b"", n_fds=16),
    "too-many-descriptors": message(16, b"", n_fds=17),
    "length": message(4, b"")[:-1],
}


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()
