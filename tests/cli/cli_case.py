"""Shared by the command-line tests: runs the program, makes images, makes a directory for each test."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

CLI = os.environ["PENSTOCK_CLI"]
MAKE_IMAGES = os.environ["MAKE_IMAGES"]
PYTHON_VERBS = ["view", "analyze", "plan", "tune", "whatif"]  # the Python package runs these verbs: python/tests/test_verbs.py
VERBS = ["pack", "append", "repack", "merge", "info", "index", "ls", "cat", "unpack", "verify", "serve", "cache", "top", "bench",
         "doctor", "env"]


def png(width, height, channels=3, bits=8, seed=0):
    """Returns the bytes of a PNG whose samples form a pattern, and its pixels as PNM stores them."""
    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows, pixels = b"", b""
    for y in range(height):
        row = b"".join(
            ((x * 7 + y * 13 + c * 50 + seed * 3) * (257 if bits == 16 else 1) % (1 << bits)).to_bytes(bits // 8, "big")
            for x in range(width) for c in range(channels))
        rows += b"\0" + row
        pixels += row

    def chunk(tag, body):
        return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))

    head = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""),
            pixels)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pst-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, True)

    def jpegs(self, where, count=3, width=64, height=48):
        path = self.dir / where
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run([MAKE_IMAGES, path, str(count), str(width), str(height)], check=True)
        return path

    def write(self, where, content):
        path = self.dir / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def classes(self, where="photos", names=("cat", "dog"), count=3):
        for name in names:
            self.jpegs(f"{where}/{name}", count)
        return self.dir / where

    def links(self, where, n_folders):
        """Makes a folder of many samples from few files: each class is a link to the folder "one"."""
        (self.dir / where).mkdir()
        for i in range(n_folders):
            os.symlink("../one", self.dir / f"{where}/c{i:02}")

    def run_cli(self, *arguments, env=None, stdout=subprocess.PIPE):
        done = subprocess.run([CLI, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, cwd=self.dir,
                              env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, timeout=120)
        self.assertNotIn(b"Sanitizer", done.stderr, done.stderr.decode(errors="replace"))
        return done

    def ok(self, *arguments):
        done = self.run_cli(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def ok_json(self, *arguments):
        return json.loads(self.ok(*arguments, "--json"))

    def fails(self, status, *arguments, says=()):
        """Expects the exit status, these words on stderr, and JSON on stdout. Returns the JSON."""
        done = self.run_cli("--json", *arguments)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, status, text)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, text)
        return json.loads(done.stdout)
