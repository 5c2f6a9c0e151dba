"""PLI on the command line: conversion to and from PNG, packing, appending, resuming, describing, verifying."""

import json
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

import cli_case
from cli_case import CLI


def read_png(data):
    """Returns (width, height, channels, bits, big-endian samples) of a PNG without palette and interlacing."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        n, tag = struct.unpack(">I4s", data[at:at + 8])
        content = data[at + 8:at + 8 + n]
        assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(tag + content)
        if tag == b"IHDR":
            width, height, bits, color = struct.unpack(">IIBB", content[:10])
        body += content if tag == b"IDAT" else b""
        at += 12 + n
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    step = channels * bits // 8
    stride, raw = width * step, zlib.decompress(body)
    rows, above = [], bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a = row[i - step] if i >= step else 0
            b, c = above[i], above[i - step] if i >= step else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, nearest)[kind]) % 256
        rows.append(bytes(row))
        above = row
    return width, height, channels, bits, b"".join(rows)


class Pli(cli_case.Case):
    def png(self, where, *args, **kwargs):
        data, pixels = cli_case.png(*args, **kwargs)
        self.write(where, data)
        return data, pixels

    def test_there_and_back(self):
        for channels in 1, 2, 3, 4:
            for bits in 8, 16:
                for width, height in (1, 1), (70, 3), (65, 130):
                    _, pixels = self.png("a.png", width, height, channels, bits)
                    for tier in "fast", "small", "dense":
                        self.ok("cat", "a.png", "--as", "pli", "--tier", tier, "-o", "a.pli", "--force")
                        back = self.ok("cat", "a.pli", "--as", "png")
                        self.assertEqual(read_png(back), (width, height, channels, bits, pixels))
                    raw = self.ok("cat", "a.pli", "--as", "raw")
                    if bits == 16:
                        raw = b"".join(raw[i:i + 2][::-1] for i in range(0, len(raw), 2))
                    self.assertEqual(raw, pixels)
                    self.assertEqual(self.ok("cat", "a.pli", "--pixels"), self.ok("cat", "a.png", "--as", "pnm"))

    def test_as_it_is(self):
        data, _ = self.png("a.png", 20, 30)
        self.assertEqual(self.ok("cat", "a.png"), data)
        self.assertEqual(self.ok("cat", "a.png", "--as", "png"), data)
        self.ok("cat", "a.png", "--as", "pli", "--tier", "fast", "-o", "a.pli")
        stored = (self.dir / "a.pli").read_bytes()
        self.assertEqual(self.ok("cat", "a.pli", "--as", "pli"), stored)
        other = self.ok("cat", "a.pli", "--as", "pli", "--tier", "dense", "--effort", "5")
        self.assertNotEqual(other, stored)
        self.write("b.pli", other)
        self.assertEqual(self.ok("cat", "b.pli", "-p"), self.ok("cat", "a.pli", "-p"))

    def test_palettes_by_colour_or_index(self):
        def chunk(tag, body):
            return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))
        rows = bytes([0, 0, 1, 2, 0, 2, 2, 0])
        self.write("p.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 3, 0, 0, 0)) +
                   chunk(b"PLTE", bytes([9, 8, 7, 20, 21, 22, 255, 0, 128])) + chunk(b"IDAT", zlib.compress(rows)) +
                   chunk(b"IEND", b""))
        self.ok("cat", "p.png", "--as", "pli", "-o", "colours.pli")
        self.ok("cat", "p.png", "--as", "pli", "--indices", "-o", "indices.pli")
        colours = [bytes([9, 8, 7]), bytes([20, 21, 22]), bytes([255, 0, 128])]
        self.assertEqual(self.ok("cat", "colours.pli", "--as", "raw"), b"".join(colours[i] for i in (0, 1, 2, 2, 2, 0)))
        self.assertEqual(self.ok("cat", "indices.pli", "--as", "raw"), bytes([0, 1, 2, 2, 2, 0]))
        self.assertEqual(read_png(self.ok("cat", "p.png", "--as", "png", "-i"))[2:], (1, 8, bytes([0, 1, 2, 2, 2, 0])))

    def test_near_lossless(self):
        _, pixels = self.png("a.png", 90, 70)
        for most in 1, 5, 40:
            self.ok("cat", "a.png", "--as", "pli", "--max-error", most, "-o", "a.pli", "--force")
            near = self.ok("cat", "a.pli", "--as", "raw")
            self.assertTrue(0 < max(abs(a - b) for a, b in zip(near, pixels, strict=True)) <= most)
            self.assertEqual(self.ok_json("info", "a.pli")["pli"]["max_error"], most)
            self.assertTrue(self.ok_json("verify", "a.pli")["ok"])

    def test_info(self):
        self.png("a.png", 100, 200, 4, 16)
        self.ok("cat", "a.png", "--as", "pli", "--tier", "dense", "--effort", "4", "-o", "a.pli")
        size = (self.dir / "a.pli").stat().st_size
        info = self.ok_json("info", "a.pli")
        self.assertEqual((info["form"], info["width"], info["height"], info["channels"], info["bits"], info["bytes"]),
                         ("pli", 100, 200, 4, 16, size))
        pli = info["pli"]
        self.assertEqual((pli["version"], pli["content"], pli["tier"], pli["effort"], pli["max_error"], pli["bytes"]),
                         (2, "pixels", "dense", 4, 0, size))
        self.assertEqual(sum(pli["units"].values()), pli["unit_rows"] * pli["unit_columns"])
        self.assertAlmostEqual(pli["bits_per_pixel"], size * 8 / 20000)
        self.assertEqual(len(pli["pixel_checksum"]), 16)
        self.assertTrue(pli["unit_checksums"])
        text = self.ok("info", "a.pli").decode()
        for word in "100x200", "dense", "lossless", pli["pixel_checksum"]:
            self.assertIn(word, text)
        self.assertTrue(pli["complete"])
        whole = (self.dir / "a.pli").read_bytes()
        for n in len(whole) - 9, pli["head_bytes"]:
            self.write("cut.pli", whole[:n])
            done = self.run_cli("info", "cut.pli")
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"100x200", done.stdout)  # known properties are printed
            self.assertIn(b"INCOMPLETE: it has %d bytes when whole, here are %d" % (len(whole), n), done.stderr)
            done = self.run_cli("info", "cut.pli", "--json")
            self.assertEqual(done.returncode, 1)
            report = json.loads(done.stdout)
            self.assertEqual((report["pli"]["complete"], report["error"]["status"], report["error"]["offset"]),
                             (False, "TRUNCATED", n))
        self.write("cut.pli", whole[:pli["head_bytes"] - 1])
        self.assertIn(b"its head has", self.run_cli("info", "cut.pli").stderr)
        self.write("more.pli", whole + b"x")
        self.assertIn(b"ends at byte %d" % len(whole), self.run_cli("info", "more.pli").stderr)

    def test_verify_finds_each_kind(self):
        self.png("a.png", 150, 150)
        self.ok("cat", "a.png", "--as", "pli", "-o", "a.pli")
        good = (self.dir / "a.pli").read_bytes()
        head = self.ok_json("info", "a.pli")["pli"]["head_bytes"]
        self.assertTrue(self.ok_json("verify", "a.pli")["ok"])
        bad = {"head": good[:44] + bytes([good[44] ^ 1]) + good[45:],
               "unit": good[:-3] + bytes([good[-3] ^ 1]) + good[-2:], "cut": good[:-3], "more": good + b"\0",
               "empty": b"", "stub": good[:20], "later version": good[:4] + b"\7" + good[5:]}
        wanted = {"head": "CHECKSUM", "unit": "CHECKSUM", "cut": "TRUNCATED", "more": "CORRUPT", "empty": "TRUNCATED",
                  "stub": "TRUNCATED", "later version": "VERSION"}
        for what, content in bad.items():
            with self.subTest(what):
                self.write("bad.pli", content)
                found = self.fails(1, "verify", "bad.pli")
                self.assertEqual(found["findings"][0]["error"]["status"], wanted[what])
                self.assertEqual(found["findings"][0]["error"]["file"], "bad.pli")
                self.assertEqual(found["bad"], 1)
        self.write("bad.pli", bad["unit"])
        error = self.fails(1, "verify", "bad.pli")["findings"][0]["error"]
        self.assertEqual(error["codec"], "pli")
        self.assertGreaterEqual(error["offset"], head)
        self.assertEqual(self.fails(1, "cat", "bad.pli", "--as", "png")["error"]["codec"], "pli")
        self.write("not.pli", "hello")
        error = self.fails(1, "verify", "not.pli")["findings"][0]["error"]
        self.assertEqual((error["status"], error["file"]), ("UNSUPPORTED", "not.pli"))

    def test_files_in_folders(self):
        for i in range(3):
            self.png("a.png", 80 + i, 60, seed=i)
            self.ok("cat", "a.png", "--as", "pli", "-o", "x.pli", "--force")
            self.write(f"f/{i}.PLI", (self.dir / "x.pli").read_bytes())
        info = self.ok_json("info", "f")
        self.assertEqual((info["samples"], info["fields"][0]["forms"]["pli"]["items"]), (3, 3))
        self.assertTrue(self.ok_json("verify", "f")["ok"])
        self.ok("bench", "f", "--epochs", 1, "--op", "none", "--batch-size", 1)
        self.ok("pack", "f", "a.pst")
        self.assertEqual(self.ok("cat", "a.pst", 1), (self.dir / "f/1.PLI").read_bytes())
        data = bytearray((self.dir / "f/2.PLI").read_bytes())
        data[-2] ^= 4
        self.write("f/2.PLI", bytes(data))
        found = self.fails(1, "verify", "f")["findings"]
        self.assertEqual([(f["name"], f["error"]["status"]) for f in found], [("2.PLI", "CHECKSUM")])

    def test_pack(self):
        pixels = [self.png(f"f/{i}.png", 100 + i, 90, (1, 3, 4)[i % 3], seed=i)[1] for i in range(6)]
        sizes = sum(p.stat().st_size for p in self.dir.glob("f/*.png"))
        report = self.ok_json("pack", "f", "a.pst", "--form", "pli,original", "--tier", "dense", "--effort", 2)
        self.assertEqual((report["samples"], report["bytes_in"]), (6, sizes))
        forms = self.ok_json("info", "a.pst")["fields"][0]["forms"]
        self.assertEqual((forms["pli"]["items"], forms["png"]["items"]), (6, 6))
        self.assertEqual(forms["pli"]["bytes"] + forms["png"]["bytes"], report["bytes_out"])
        for i in range(6):
            self.assertEqual(self.ok("cat", "a.pst", i, "--as", "raw"), pixels[i])
            self.assertEqual(read_png(self.ok("cat", "a.pst", i, "--as", "png"))[4], pixels[i])
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])
        self.write("x.pli", self.ok("cat", "a.pst", 0))
        self.assertEqual(self.ok_json("info", "x.pli")["pli"]["tier"], "dense")
        self.assertIn(b" %)", self.ok("pack", "f", "b.pst", "--form", "pli"))
        # From a data set, with any number of workers: the bytes are the same.
        for n in 1, 3:
            self.ok("pack", "a.pst", f"{n}.pst", "--form", "pli", "--tier", "dense", "--effort", 2, "--workers", n)
            for i in range(6):
                self.assertEqual(self.ok("cat", f"{n}.pst", i), self.ok("cat", "a.pst", i))
        self.ok("pack", "1.pst", "raw.pst", "--form", "raw")
        self.ok("pack", "raw.pst", "again.pst", "--form", "pli", "--tier", "dense", "--effort", 2)
        self.assertEqual(self.ok("cat", "again.pst", 4), self.ok("cat", "a.pst", 4))

    def test_masks(self):
        labels = []
        for i in range(4):
            self.png(f"f/{i}.png", 70, 70, seed=i)
            self.png(f"f/masks/{i}.png", 70, 70, 1, 16 if i % 2 else 8, seed=i)
            labels.append(json.dumps({"file": f"{i}.png", "mask": f"masks/{i}.png"}))
        self.write("labels.jsonl", "\n".join(labels) + "\n")
        options = "--labels", "labels.jsonl", "--form", "pli", "--max-error", 9
        self.ok("pack", "f", "a.pst", *options)
        self.ok("pack", "f", "b.pst", *options, "--mask-form", "pli")
        fields = {f["name"]: f["forms"] for f in self.ok_json("info", "b.pst")["fields"]}
        self.assertEqual((fields["image"]["pli"]["items"], fields["mask"]["pli"]["items"]), (4, 4))
        for i in range(4):
            a = self.ok("cat", "a.pst", i, "--field", "mask", "--as", "raw")
            self.assertEqual(self.ok("cat", "b.pst", i, "--field", "mask", "--as", "raw"), a)  # masks are lossless
            self.assertEqual(self.ok("cat", "a.pst", i, "--field", "mask"), (self.dir / f"f/masks/{i}.png").read_bytes())
        self.assertTrue(self.ok_json("verify", "b.pst", "--decode")["ok"])

    def test_lossy_sources(self):
        self.jpegs("f", 3)
        error = self.fails(1, "pack", "f", "a.pst", "--form", "pli", says="lossy")["error"]
        self.assertEqual((error["status"], error["sample"], error["codec"]), ("UNSUPPORTED", 0, "jpeg"))
        self.assertFalse((self.dir / "a.pst").exists())
        self.png("f/z.png", 64, 48)
        report = self.fails(1, "pack", "f", "a.pst", "--form", "pli", "--on-error", "skip")
        self.assertEqual((report["samples"], report["skipped"]), (1, 3))
        self.ok("pack", "f", "b.pst", "--form", "pli", "--of-lossy")
        self.ok("pack", "f", "c.pst", "--form", "raw")
        for i in range(4):
            self.assertEqual(self.ok("cat", "b.pst", i, "--as", "raw"), self.ok("cat", "c.pst", i))
        self.ok("pack", "f", "d.pst", "--form", "pli", "--max-error", 2)
        # The raw variant beside the JPEG is a lossless source, so packing needs no --of-lossy.
        self.ok("pack", "f", "e.pst", "--form", "original,raw")
        self.ok("pack", "e.pst", "g.pst", "--form", "pli")
        self.assertEqual(self.ok("cat", "g.pst", 0, "--as", "raw"), self.ok("cat", "c.pst", 0))

    def test_pli_are_kept_unless_asked(self):
        self.png("a.png", 100, 100)
        self.ok("cat", "a.png", "--as", "pli", "--tier", "fast", "--effort", 4, "-o", "x.pli")
        fast = (self.dir / "x.pli").read_bytes()
        self.write("f/x.pli", fast)
        self.ok("pack", "f", "a.pst", "--form", "pli")
        self.ok("pack", "f", "b.pst", "--form", "pli", "--tier", "fast", "--effort", 4)
        self.ok("pack", "f", "c.pst", "--form", "pli", "--tier", "dense")
        self.assertEqual(self.ok("cat", "a.pst", 0), fast)
        self.assertEqual(self.ok("cat", "b.pst", 0), fast)
        self.assertNotEqual(self.ok("cat", "c.pst", 0), fast)
        self.assertEqual(self.ok("cat", "c.pst", 0, "-p"), self.ok("cat", "a.pst", 0, "-p"))

    def test_append(self):
        for i in range(3):
            self.png(f"f/{i}.png", 80, 80, seed=i)
            self.png(f"g/{i + 3}.png", 80, 80, seed=i + 3)
        self.ok("pack", "f", "a.pst", "--form", "pli", "--tier", "fast", "--effort", 1)
        self.ok("append", "a.pst", "g")
        for i in 0, 3, 5:
            self.write("x.pli", self.ok("cat", "a.pst", i))
            self.assertEqual(self.ok_json("info", "x.pli")["pli"]["tier"], "fast")
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])
        self.png("h/9.png", 80, 80)
        self.fails(1, "append", "a.pst", "h", "--form", "original,raw", says="forms")
        self.fails(1, "append", "a.pst", "h", "--form", "raw", says="pli")
        self.ok("append", "a.pst", "h", "--tier", "dense")
        self.write("x.pli", self.ok("cat", "a.pst", 6))
        self.assertEqual(self.ok_json("info", "x.pli")["pli"]["tier"], "dense")
        self.ok("pack", "f", "png.pst")
        self.fails(1, "append", "png.pst", "h", "--form", "pli", says="holds field image as png")

    def test_wrong_use(self):
        self.png("a.png", 9, 9)
        self.png("f/a.png", 9, 9)
        self.ok("pack", "f", "a.pst")
        for arguments, says in [
                (("cat", "a.png", "--as", "plo"), 'did you mean pli?'),
                (("cat", "a.png", "--as", "png", "--tier", "fast"), "go with --as pli"),
                (("cat", "a.png", "--as", "pli", "--tier", "smal"), 'did you mean small?'),  # codespell:ignore smal
                (("cat", "a.png", "--as", "pli", "--effort", "6"), "--effort is 6"),
                (("cat", "a.png", "--as", "pli", "--max-error", "128"), "--max-error is 128"),
                (("cat", "a.png", "--as", "pnm", "--pixels"), "one of them"),
                (("cat", "a.png", "7"), "it has no sample 7"),
                (("cat", "a.pst"), "an operand is missing"),
                (("pack", "f", "b.pst", "--tier", "fast"), "go with the form pli"),
                (("pack", "f", "b.pst", "--form", "pli", "--tier", "quick"), "--tier is"),
                (("pack", "f", "b.pst", "--form", "pil"), 'did you mean "pli"?'),
                (("pack", "f", "b.pst", "--mask-form", "pil"), "--mask-form"),
                (("pack", "f", "b.pst", "--form", "pli", "--effort", "9"), "--effort is 9")]:
            with self.subTest(arguments):
                self.fails(2, *arguments, says=says)


class Resume(cli_case.Case):
    N_FOLDERS, N_EACH = 40, 4
    N = N_FOLDERS * N_EACH

    def setUp(self):
        super().setUp()
        for i in range(self.N_EACH):
            self.write(f"one/{i}.png", cli_case.png(211, 160, 3, seed=i)[0])
        self.links("f", self.N_FOLDERS)

    def interrupted(self, *options):
        """Packs and kills the process after a commit. Tries again if that came too late."""
        for _ in range(10):
            process = subprocess.Popen([CLI, "pack", "f", "a.pst", "--form", "pli", "--commit-size", "64KiB",
                                        "--workers", "1", *options], cwd=self.dir, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            journal = self.dir / "a.pst/journal.pst"
            while process.poll() is None and not (journal.exists() and journal.stat().st_size > 2000):
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if not (self.dir / "a.pst/index.pst").exists() and journal.exists():
                return
            shutil.rmtree(self.dir / "a.pst", ignore_errors=True)
        self.fail("the pack was always done before it could be killed")

    def test_kill_and_resume(self):
        self.interrupted("--tier", "fast")
        for other, says in [(["--tier", "dense"], "tier fast"), (["--tier", "fast", "--effort", "1"], "effort 3"),
                            (["--tier", "fast", "--max-error", "3"], "max_error 0"), ([], "tier small")]:
            error = self.fails(1, "pack", "f", "a.pst", "--form", "pli", *other, "--resume", says=says)["error"]
            self.assertEqual(error["status"], "ARGUMENT")
        self.fails(1, "pack", "f", "a.pst", "--form", "original", "--resume", says="as pli")
        report = self.ok_json("pack", "f", "a.pst", "--form", "pli", "--tier", "fast", "--resume")
        self.assertEqual(report["samples"], self.N)
        self.assertTrue(0 < report["resumed"] < self.N)
        self.ok("pack", "f", "b.pst", "--form", "pli", "--tier", "fast")
        self.assertEqual(self.ok("ls", "a.pst", "--long"), self.ok("ls", "b.pst", "--long"))
        for i in 0, self.N // 2, self.N - 1:
            self.assertEqual(self.ok("cat", "a.pst", i), self.ok("cat", "b.pst", i))
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_kept_files_say_nothing_of_the_options(self):
        for path in sorted((self.dir / "one").glob("*.png")):
            self.write(f"kept/{path.stem}.pli", self.ok("cat", path, "--as", "pli", "--tier", "dense"))
        for i in range(2):
            (self.dir / f"f/c{i:02}").unlink()
            os.symlink("../kept", self.dir / f"f/c{i:02}")
        self.interrupted()  # the first images are PLI of another tier, and stay so
        report = self.ok_json("pack", "f", "a.pst", "--form", "pli", "--resume")
        self.assertEqual(report["samples"], self.N)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])


if __name__ == "__main__":
    os.environ.setdefault("PENSTOCK_NUM_THREADS", "2")
    unittest.main()
