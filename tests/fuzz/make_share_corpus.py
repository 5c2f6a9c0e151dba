#!/usr/bin/env python3
"""Seeds for fuzz_share_wire, fuzz_share_stream and fuzz_share_files: messages of the host service's protocol.

    tests/fuzz/make_share_corpus.py DIRECTORY   # the corpora, which has share_wire, share_stream, share_files
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


def shape(n_samples: int, n_items: int, forms: int, later: int = 0, n_more: int = 0, rule: bytes = b"") -> bytes:
    return struct.pack("<QIQIII", n_samples, n_items, forms, later, n_more, len(rule)) + rule


def report(n_sets: int, n_sessions: int) -> bytes:
    numbers = (1, 2, 3, 4, 5, 6, 7, 2, 600, 1, n_sets, n_sessions, -1, 0)
    status = struct.pack("<Q", 42) + text("0.1.0") + struct.pack("<7QIIIIIiI", *numbers)
    one = text("/data/photos") + bytes(16) + struct.pack("<8QIIQQ", 0, 9, 9, 900, 9, 900, 0, 0, 1, 0, 70, 3)
    session = struct.pack("<QQ", 1, 77) + text("cache") + text("/data/photos") + struct.pack("<5Q", 5, 4, 3, 2, 1)
    return status + one * n_sets + session * n_sessions


SEEDS = {
    "cache-open": message(16, data_set("/data/photos") + shape(1000, 1, 0), n_fds=1),
    "cache-open-labels": message(16, data_set("/data/photos", ("depth",), 3) + shape(10, 2, 1), n_fds=2),
    "cache-open-masks-alone": message(16, data_set("/data/photos", ("depth",), 0) + shape(10, 2, 1), n_fds=1),
    "cache-open-mask-long": message(16, data_set("/data/photos", ("d" * 64,), 2) + shape(10, 2, 1), n_fds=2),
    "cache-open-later": message(16, data_set("/data/photos") + shape(10, 2, 1, later=1, n_more=63), n_fds=1),
    "cache-open-later-rule": message(16, data_set("/data/photos") + shape(10, 2, 1, later=1, rule=b"rule"), n_fds=1),
    "cache-open-rule": message(16, data_set("/data/photos") + shape(10, 2, 1 << 63, rule=b"rule"), n_fds=1),
    "cache-open-more": message(16, data_set("/data/photos") + shape(10, 2, 1, n_more=64), n_fds=1),
    "cache-opened": message(17, struct.pack("<QQQ", 8000, 1 << 26, 1 << 26), n_fds=2),
    "cache-read": message(18, struct.pack("<QQIQQI", 5, 0, 0, 6, 1, 2)),
    "cache-read-cut": message(18, struct.pack("<QQQ", 5, 0, 6)),
    "cache-read-later": message(18, struct.pack("<QQI", 2**64 - 1, 2**64 - 1, 1)),
    "cache-ready": message(19, struct.pack("<QIIQQ", 1, 2, 1, 4096, 0)),
    "cache-ready-here": message(19, struct.pack("<QIIQQ", 1, 1, 0, 0, 0)),
    "cache-ready-result": message(19, struct.pack("<QIIQQ", 1, 5, 0, 0, 0)),
    "cache-ready-recoding": message(19, struct.pack("<QIIQQ", 1, 1, 1, 0, 0)),
    "cache-ready-later": message(19, struct.pack("<QIIQQ", 2**64 - 1, 2, 1, 900, 31_000_000)),
    "cache-ready-time": message(19, struct.pack("<QIIQQ", 1, 3, 0, 0, 5)),
    "cache-round": message(21, struct.pack("<IQ", 1, 7)),
    "cache-round-ended": message(22, struct.pack("<IQ", 1, 7)),
    "cache-round-long": message(21, struct.pack("<IQI", 1, 7, 0)),
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
    "descriptors": message(16, b"", n_fds=250),
    "too-many-descriptors": message(16, b"", n_fds=251),
    "length": message(4, b"")[:-1],
}


def options(fields: bytes, n_fields: int, n_ops: int, numbers: list[int] | None) -> bytes:
    """Returns the options of a loader as src/share/share_options.c prints them."""
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


def layout(own: int, n_slots: int = 64, n_fields: int = 1) -> bytes:
    head = struct.pack("<IIIIQQQQQ", 8, n_slots, n_fields, 10, 1 << 20, own, 1000, 3, 99)
    return head + COUNTS + struct.pack("<QQ", 4096, 4096)


READY = struct.pack("<QQ", 3, 99) + COUNTS
EXTENT = struct.pack("<QIIIQ", 7, 1, 2, 8, 320)
STREAM = {
    "options": b"\0" + options(b"", 0, 0, None),
    "options-indices": b"\0" + options(b"", 0, 0, [3, 1, 2]),
    "options-field": b"\0" + options(field("image", 1) + FLIP, 1, 1, None),
    "options-bool": b"\0" + options(field("image", 0), 1, 0, None).replace(b"\x01\x40", b"\x02\x40"),
    "options-cut": b"\0" + options(b"", 0, 0, [3, 1, 2])[:-40],
    "open-files": b"\1" + text("search") + struct.pack("<IIII", 8, 32, 1, 4) + data_set("/data", flags=4),
    "open-name": b"\1" + text("s" * 128) + struct.pack("<IIII", 8, 32, 1, 4) + data_set("/data"),
    "open-rows": b"\1" + text("search") + struct.pack("<IIII", 65, 32, 0, 0) + data_set("/data"),
    "open": b"\1" + text("search") + struct.pack("<IIII", 8, 32, 1, 4) + text("/data") + b"v" * 16 + struct.pack("<II", 0, 0),
    "layout": b"\2" + layout(1 << 16),
    "layout-outside": b"\2" + layout(1 << 12),
    "want": b"\3" + struct.pack("<QQQIIIIQQ", 3, 64, 1000, 32, 32, 0, 2, 5, 6),
    "want-many": b"\3" + struct.pack("<QQQIIII", 0, 0, 1000, 8, 8, 0, 1024) + struct.pack("<1024Q", *range(1024)),
    "want-too-many": b"\3" + struct.pack("<QQQIIII", 0, 0, 1000, 8, 8, 0, 1025) + struct.pack("<1025Q", *range(1025)),
    "want-last-epoch": b"\3" + struct.pack("<QQQIIII", 2**64 - 1, 2**64 - 8, 2**64 - 1, 2**32 - 1, 2**32 - 1, 0, 0),
    "give": b"\3" + struct.pack("<QQQIIIIQ", 0, 0, 0, 0, 0, 0, 1, 2**64 - 1),
    "give-leaves": b"\3" + struct.pack("<QQQIIII", 0, 0, 0, 0, 0, 1, 0),
    "layout-fields": b"\2" + layout(1 << 16, n_fields=64) + bytes(16 * 63),
    "layout-slots": b"\2" + layout(1 << 16, n_slots=2**32 - 1),
    "ready-none": b"\4" + READY + struct.pack("<II", 0, 0),
    "ready-arena": b"\4" + READY + struct.pack("<III", 1, 4, 1) + struct.pack("<QIIIQ", 7, 4, 2, 8, 320),
    "ready-own": b"\4" + READY + struct.pack("<III", 1, 1, 1) + struct.pack("<QIIIQ", 7, 1, 2, 9, 2**63),
    "alone-reason": b"\5" + struct.pack("<I", 5),
    "ready": b"\4" + READY + struct.pack("<III", 1, 1, 2) + EXTENT + EXTENT,
    "ready-slot": b"\4" + READY + struct.pack("<II", 0, 1) + struct.pack("<QIIIQ", 7, 1, 9, 8, 320),
    "alone": b"\5" + struct.pack("<I", 2),
}


def listed(blob: bytes, flags: int = 4, masks: tuple[str, ...] = ()) -> bytes:
    described = data_set("/data", masks, flags)
    return struct.pack("<H", len(described)) + described + blob


FILES = {
    "good": listed(b"a.png\0b.png\0c.png\0"),
    "some": listed(b"c.png\0a.png\0"),
    "twice": listed(b"a.png\0a.png\0"),
    "no-end": listed(b"a.png\0b.png"),
    "empty-name": listed(b"a.png\0\0b.png\0"),
    "only-ends": listed(b"\0" * 40),
    "absent": listed(b"a.png\0d.png\0"),
    "outside": listed(b"../../../../etc/hostname\0"),
    "absolute": listed(b"/dev/zero\0/etc/hostname\0"),
    "directory": listed(b".\0..\0"),
    "long": listed(b"a/" * 3000 + b"a.png\0"),
    "many": listed(b"a.png\0" * 2000),
    "bytes": listed(bytes(range(1, 256)) + b"\0"),
    "no-list": listed(b""),
    "unreadable": listed(b"a.png\0d.png\0", flags=5),
    "folder": listed(b"", flags=0),
    "labels": listed(b"image,label\na.png,x\nb.png,y\n", flags=2),
    "labels-masks": listed(b"image,label,mask\na.png,x,c.png\n", flags=2, masks=("mask",)),
    "both": listed(b"a.png\0", flags=6),
    "flags": listed(b"a.png\0", flags=8),
}


def mixture(fields: tuple[str, ...], sets: tuple[bytes, ...], sources: tuple[tuple[int, ...], ...]) -> bytes:
    """Returns a mixture as src/share/share_dataset_mixture.c prints it."""
    blob = struct.pack("<III", len(sets), len(fields), len(sources)) + b"".join(map(text, fields)) + b"".join(sets)
    return listed(blob + b"".join(struct.pack("<I", number) for source in sources for number in source), flags=32)


FOLDER = data_set("/data", (), 0)
FILES |= {
    "mixture": mixture(("image",), (FOLDER, FOLDER), ((0, 0), (1, 0), (0, 0))),
    "mixture-renamed": mixture(("unused0", "picture"), (FOLDER, FOLDER), ((0, 1, 0), (1, 1, 0))),
    "mixture-number": mixture(("image",), (FOLDER, FOLDER), ((0, 0), (2, 0))),
    "mixture-field": mixture(("image",), (FOLDER, FOLDER), ((0, 0), (1, 9))),
    "mixture-nested": mixture(("image",), (FOLDER, data_set("/data", (), 32)), ((0, 0), (1, 0))),
    "mixture-files": mixture(("image",), (data_set("/data", (), 4),), ((0, 0),)),
    "mixture-more": mixture(("image",), (FOLDER,) * 3, ((0, 0), (1, 0), (2, 0))),
}


def main() -> None:
    for corpus, seeds in (("share_wire", SEEDS), ("share_stream", STREAM), ("share_files", FILES)):
        directory = Path(sys.argv[1]) / corpus
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()
