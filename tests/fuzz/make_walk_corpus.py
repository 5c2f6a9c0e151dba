#!/usr/bin/env python3
"""Writes seeds for fuzz_containers_walk: one byte that chooses the rules, and a small tar.

    tests/fuzz/make_walk_corpus.py DIRECTORY

Writes DIRECTORY/containers_walk.
"""

from __future__ import annotations

import io
import struct
import sys
import tarfile
from pathlib import Path


def npy(version: int, descr: str, shape: str, elements: bytes) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(115) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + elements


def tar(files: list[tuple[str, bytes]], layout: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=layout) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = 1700000000
            archive.addfile(member, io.BytesIO(content))
        end = archive.offset
    return out.getvalue()[:end + 1024]


SEEDS = {
    "plain": (0, [("a/0.jpg", b"\xff\xd8\xff"), ("a/0.cls", b"3\n"), ("a/1.png", b"\x89PNG"), ("a/1.cls", b"-4")]),
    "apart": (0, [("b.jpg", b"1"), ("a.jpg", b"2"), ("b.txt", b"a bird"), ("a.json", b"{}"), ("b.seg.png", b"3")]),
    "arrays": (0, [("0.npy", npy(1, "<f4", "(2, 1)", bytes(8))), ("1.npy", npy(2, "<f4", "(3,)", bytes(12))),
                   ("1.x.npy", npy(3, "|u1", "()", b"1"))]),
    "objects": (0, [("0.npy", npy(1, "|O", "(2, 1)", bytes(8)))]),
    "twice": (0, [("a.jpg", b"1"), ("b.jpg", b"2"), ("./a.JPG", b"3")]),
    "two-images": (0, [("a.jpg", b"1"), ("a.png", b"2")]),
    "names": (0, [("../../x.txt", b"1"), ("/etc/y.txt", b"2"), (".hidden.jpg", b"3"), ("__m__/a.jpg", b"4"), ("plain", b"5"),
                  ("v1.2/a.b c", b"6"), ("v1.2/a.7z", b"7"), ("a.index", b"8")]),
    "code": (0, [("a.jpg", b"1"), ("a.pkl", b"2")]),
    "code-left-out": (1, [("a.jpg", b"1"), ("a.pkl", b"2")]),
    "rules": (4, [("a.jpg", b"1"), ("a.png", b"2"), ("a.cls", b"9"), ("a.bin", b" +77 ")]),
    "long-names": (0, [("k" * 120 + "/" + "n" * 40 + ".jpg", b"1"), ("k" * 120 + "/" + "n" * 40 + ".txt", b"t" * 70)]),
}


def main() -> int:
    folder = Path(sys.argv[1]) / "containers_walk"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (rules, files) in SEEDS.items():
        layout = tarfile.PAX_FORMAT if name == "long-names" else tarfile.USTAR_FORMAT
        (folder / name).write_bytes(bytes([rules]) + tar(files, layout))
    whole = bytes([0]) + tar([("a.jpg", b"1"), ("a.cls", b"1"), ("b.jpg", b"2" * 600), ("b.cls", b"2")])
    (folder / "cut").write_bytes(whole[:1 + 512 * 6])
    return 0


if __name__ == "__main__":
    sys.exit(main())
