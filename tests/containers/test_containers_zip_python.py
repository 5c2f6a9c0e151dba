"""Compares the walk over zips with Python's zipfile, on zips that zipfile writes.

    test_containers_zip_python.py ZIP_LIST

ZIP_LIST is the program of zip_list.c.
"""

from __future__ import annotations

import calendar
import io
import random
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

PROGRAM = sys.argv.pop(1)


class Unseekable(io.RawIOBase):
    """A file that cannot seek, so zipfile writes data descriptors."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        return self.file.write(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def run(path: Path) -> tuple[int, list[str]]:
    done = subprocess.run([PROGRAM, str(path)], capture_output=True, check=False, timeout=300)
    return done.returncode, done.stdout.decode().splitlines()


def wanted(path: Path) -> list[str]:
    """Returns what zip_list.c should print. The offsets that zipfile gives include the bytes before the zip."""
    lines = []
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = 1 if info.is_dir() else 2 if info.external_attr >> 28 == 0o12 else 0
            sizes = (info.compress_size, info.file_size) if kind == 0 else (0, 0)
            coding = int(kind == 0 and info.compress_type == zipfile.ZIP_DEFLATED)
            mtime = calendar.timegm(info.date_time)
            lines.append(f"{kind} {coding} {info.header_offset} {sizes[0]} {sizes[1]} {info.CRC:08x} {info.CRC:08x} "
                         f"{mtime} {info.filename}")
    return [*lines, "end"]


def fill(archive: zipfile.ZipFile, n: int, seed: int) -> None:
    rand = random.Random(seed)
    for i in range(n):
        name = rand.choice(["train/{}.jpg", "{}.json", "d\u00e9j\u00e0/{}.txt", "\u65e5\u672c/{}.png", "a b {}.bin"]).format(i)
        size = rand.choice([0, 1, 100, 5000, 70000])
        data = rand.randbytes(size) if rand.random() < 0.5 else bytes(rand.choices(b"abc \n", k=size))
        info = zipfile.ZipInfo(name, (rand.randint(1980, 2107), rand.randint(1, 12), rand.randint(1, 28), rand.randint(0, 23),
                                      rand.randint(0, 59), 2 * rand.randint(0, 29)))
        info.compress_type = rand.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
        with archive.open(info, "w", force_zip64=rand.random() < 0.2) as member:
            member.write(data)
    archive.writestr("folder/", "")
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    archive.writestr(link, "../../etc/passwd")


class ZipTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "a.zip"

    def check(self) -> None:
        code, lines = run(self.path)
        self.assertEqual(lines, wanted(self.path))
        self.assertEqual(code, 0)

    def test_members_are_those_of_zipfile(self) -> None:
        for seed in range(8):
            with zipfile.ZipFile(self.path, "w") as archive:
                fill(archive, 30, seed)
                archive.comment = b"c" * (seed * 1000)
            self.check()

    def test_data_descriptors(self) -> None:
        with Unseekable(self.path) as file, zipfile.ZipFile(file, "w") as archive:
            fill(archive, 30, 7)
        self.check()

    def test_bytes_before_the_zip(self) -> None:
        self.path.write_bytes(b"#!/bin/sh\n" * 1000)
        with zipfile.ZipFile(self.path, "a") as archive:
            fill(archive, 10, 8)
        self.check()
        with zipfile.ZipFile(self.path, "w") as archive:
            fill(archive, 10, 9)
        whole = self.path.read_bytes()
        self.path.write_bytes(b"before" + whole)  # the zip's offsets count from its own start
        self.check()

    def test_many_members_need_zip64(self) -> None:
        with zipfile.ZipFile(self.path, "w") as archive:
            for i in range(66000):
                archive.writestr(f"{i}.txt", "x")
        self.check()

    def test_appended_members_hide_replaced_directories(self) -> None:
        with zipfile.ZipFile(self.path, "w") as archive:
            fill(archive, 5, 1)
        with zipfile.ZipFile(self.path, "a") as archive:
            archive.writestr("later.txt", "later")
        self.check()

    def test_other_methods_are_refused(self) -> None:
        for method, name in ((zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "lzma")):
            with zipfile.ZipFile(self.path, "w", method) as archive:
                archive.writestr("a.txt", "a" * 100)
            code, lines = run(self.path)
            self.assertEqual(code, 1)
            self.assertIn(f"({name})", lines[-1])


if __name__ == "__main__":
    unittest.main()
