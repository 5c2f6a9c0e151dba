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


def data_set(path: str, masks: tuple[str, ...] = (), flags: int = 0) -> bytes:
    return text(path) + bytes(range(16)) + struct.pack("<II", flags, len(masks)) + b"".join(map(text, masks))


def shape(n_samples: int, n_items: int, forms: int) -> bytes:
    return struct.pack("<QIQ", n_samples, n_items, forms)


def report(n_sets: int, n_sessions: int) -> bytes:
    status = struct.pack("<Q", 42) + text("0.1.0") + struct.pack("<7QIIIII", 1, 2, 3, 4, 5, 6, 7, 2, 600, 1, n_sets, n_sessions)
    one = text("/data/photos") + bytes(16) + struct.pack("<8QII", 0, 9, 9, 900, 9, 900, 0, 0, 1, 0)
    session = struct.pack("<QQ", 1, 77) + text("cache") + text("/data/photos") + struct.pack("<5Q", 5, 4, 3, 2, 1)
    return status + one * n_sets + session * n_sessions


SEEDS = {
    "cache-open": message(16, data_set("/data/photos") + shape(1000, 1, 0), n_fds=1),
    "cache-open-labels": message(16, data_set("/data/photos", ("depth",), 3) + shape(10, 2, 1), n_fds=2),
    "cache-open-masks-alone": message(16, data_set("/data/photos", ("depth",), 0) + shape(10, 2, 1), n_fds=1),
    "cache-open-mask-long": message(16, data_set("/data/photos", ("d" * 64,), 2) + shape(10, 2, 1), n_fds=2),
    "cache-opened": message(17, struct.pack("<QQQ", 8000, 1 << 26, 1 << 26), n_fds=2),
    "cache-read": message(18, struct.pack("<QQQQ", 5, 0, 6, 1)),
    "cache-read-cut": message(18, struct.pack("<QQQ", 5, 0, 6)),
    "cache-ready": message(19, struct.pack("<QI", 1, 2)),
    "cache-ready-result": message(19, struct.pack("<QI", 1, 5)),
    "report": message(33, report(1, 2), n_fds=1),
    "report-empty": message(33, report(0, 0), n_fds=1),
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
