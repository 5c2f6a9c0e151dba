#!/usr/bin/env python3
"""Seeds for fuzz_share_wire and fuzz_share_stream: messages of the host service's protocol.

    tests/fuzz/make_share_corpus.py DIRECTORY   # the corpora, which has share_wire and share_stream
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


def options(fields: bytes, n_fields: int, n_ops: int, numbers: list[int] | None) -> bytes:
    """The options of a loader: src/share/share_options.c."""
    first = struct.pack("<IQ?II?Q", 1, 17, True, 64, 64, False, 1 << 28) + struct.pack("<II", n_fields, n_ops) + fields
    first += struct.pack("<Q", 2**64 - 1 if numbers is None else len(numbers))
    first += b"".join(struct.pack("<Q", n) for n in numbers or ()) + struct.pack("<Q", 2**64 - 1)
    return struct.pack("<4sIQ", b"PSTO", 0, 16 + len(first)) + first + struct.pack("<IIddI", 0, 0, 0.0, 0.0, 4)


def field(name: str, n_ops: int) -> bytes:
    return (text(name) + text(None) + struct.pack("<IIBBB????IIff?", 2, 1, 3, 8, 0, False, False, False, False, 0, 0, 1, 0, 0)
            + struct.pack("<I", n_ops))


FLIP = struct.pack("<IIII??I", 5, 0, 0, 2, False, False, 0) + struct.pack("<4I4ff", 0, 0, 0, 0, 0, 0, 0, 0, 0.5)
FLIP += struct.pack("<20ffB", *([1.0] * 20), 0.0, 0)
COUNTS = struct.pack("<9Q", 50, 49, 0, 50, 5000, 49, 4900, 0, 0)


def layout(own: int) -> bytes:
    head = struct.pack("<IIIIQQQQQ", 8, 64, 1, 10, 1 << 20, own, 1000, 3, 99)
    return head + COUNTS + struct.pack("<QQ", 4096, 4096)


EXTENT = struct.pack("<QIIIQ", 7, 1, 2, 8, 320)
STREAM = {
    "options": b"\0" + options(b"", 0, 0, None),
    "options-indices": b"\0" + options(b"", 0, 0, [3, 1, 2]),
    "options-field": b"\0" + options(field("image", 1) + FLIP, 1, 1, None),
    "options-bool": b"\0" + options(field("image", 0), 1, 0, None).replace(b"\x01\x40", b"\x02\x40"),
    "options-cut": b"\0" + options(b"", 0, 0, [3, 1, 2])[:-40],
    "open": b"\1" + text("search") + struct.pack("<IIII", 8, 32, 1, 4) + text("/data") + b"v" * 16 + struct.pack("<II", 0, 0),
    "layout": b"\2" + layout(1 << 16),
    "layout-outside": b"\2" + layout(1 << 12),
    "want": b"\3" + struct.pack("<QQQIIIIQQ", 3, 64, 1000, 32, 32, 0, 2, 5, 6),
    "ready": b"\4" + struct.pack("<QQ", 3, 99) + COUNTS + struct.pack("<III", 1, 1, 2) + EXTENT + EXTENT,
    "ready-slot": b"\4" + struct.pack("<QQ", 3, 99) + COUNTS + struct.pack("<II", 0, 1) + struct.pack("<QIIIQ", 7, 1, 9, 8, 320),
    "alone": b"\5" + struct.pack("<I", 2),
}


def main() -> None:
    for corpus, seeds in (("share_wire", SEEDS), ("share_stream", STREAM)):
        directory = Path(sys.argv[1]) / corpus
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()
