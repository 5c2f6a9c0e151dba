"""Hostile input through the command line: damaged images, folders, data sets, disks and writers.

usage: test_fault_bad_input.py PENSTOCK [unittest arguments]

Each case states the exit status and the names in the message. Inputs are the same in every run, because they depend on no clock
and no random number.
"""

import errno
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

CLI = ""


def chunk(tag, body):
    return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))


def png(width, height, bits=8, color=2, seed=0, body=None):
    """Returns a PNG with the given header. Its pixels depend on `seed`, unless `body` replaces them."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}.get(color, 1)
    if body is None:
        row = (width * channels * bits + 7) // 8
        body = b"".join(b"\0" + bytes((y * 31 + x * 7 + seed * 13) % 256 for x in range(row)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(body, 1)) + chunk(b"IEND", b"")


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="penstock-bad-"))
        self.addCleanup(shutil.rmtree, self.dir, True)

    def write(self, where, content):
        path = self.dir / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def folder(self, where="f", count=4, size=(24, 16)):
        for i in range(count):
            self.write(f"{where}/{i:04d}.png", png(*size, seed=i))
        return self.dir / where

    def run_cli(self, *arguments, **options):
        done = subprocess.run([CLI, *arguments], capture_output=True, cwd=self.dir,
                              stdin=subprocess.DEVNULL, timeout=60, **options)
        self.assertGreaterEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"Sanitizer", done.stderr, done.stderr.decode(errors="replace"))
        return done

    def ok(self, *arguments):
        done = self.run_cli(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def ok_json(self, *arguments):
        return json.loads(self.ok(*arguments, "--json"))

    def error(self, *arguments, status, says=(), exit_status=1):
        """Runs with --json, expects a failure, and returns the error."""
        done = self.run_cli(*arguments, "--json")
        self.assertEqual(done.returncode, exit_status, done.stderr.decode(errors="replace"))
        found = json.loads(done.stdout)
        error = found["error"] if "error" in found else found["findings"][0]["error"]
        self.assertEqual(error["status"], status, error)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, error["text"])
        return self.below(error)

    def below(self, error):
        """Returns an error with its absolute paths made relative to the test's directory."""
        top = os.path.realpath(self.dir) + "/"
        return {**error, **{part: error[part].removeprefix(top) for part in ("dataset", "file") if error[part]}}

    def contents(self, path):
        """Returns the names of the samples, and the stored bytes of each."""
        samples = self.ok_json("ls", path, "--long")["samples"]
        return [(s, self.ok("cat", path, str(s["sample"]))) for s in samples]


class Images(Case):
    def test_headers_that_promise_too_much(self):
        huge, flat = 2**31 - 1, bytes(1000)
        expected = {
            "a_both.png": (png(huge, huge, body=flat), "LIMIT", f"{huge} x {huge}"),
            "b_wide.png": (png(huge, 1, body=flat), "LIMIT", "65535"),
            "c_area.png": (png(60000, 60000, body=flat), "LIMIT", "60000 x 60000"),
            "d_none.png": (png(0, 5, body=flat), "CORRUPT", "0 x 5"),
            "e_bits.png": (png(4, 4, bits=7, body=flat), "CORRUPT", "depth 7"),
            "f_short.png": (png(4000, 4000, body=flat), "CORRUPT", ""),
        }
        for name, (content, _, _) in expected.items():
            self.write(f"f/{name}", content)
        found = json.loads(self.run_cli("verify", "f", "--json").stdout)["findings"]
        self.assertEqual([f["name"] for f in found], sorted(expected))
        for number, entry in enumerate(found):
            _, status, text = expected[entry["name"]]
            error = self.below(entry["error"])
            with self.subTest(entry["name"]):
                self.assertEqual(error["status"], status, error)
                self.assertIn(text, error["text"])
                self.assertEqual((error["dataset"], error["sample"], error["codec"]), ("f", number, "png"))
                self.assertEqual(error["file"], f"f/{entry['name']}")
                self.assertIsNotNone(error["offset"])

    def test_a_bomb_is_refused_by_its_header(self):
        # 17000 x 17000 gray pixels exceed 2**28: refused because of the header, before zlib inflates anything.
        self.write("f/a.png", png(17000, 17000, color=0, body=b""))
        error = self.error("verify", "f", status="LIMIT", says="17000 x 17000")
        self.assertEqual(error["codec"], "png")

    def test_a_png_cut_at_every_length_is_found(self):
        whole = png(20, 10, seed=3)
        end = whole.index(b"IDAT") + 4  # up to here there are only headers; after the data all pixels are there
        data_end = len(whole) - 12 - 4
        for n in range(data_end):
            self.write(f"f/{n:04d}.png", whole[:n])
        self.assertGreater(data_end, end)
        found = json.loads(self.run_cli("verify", "f", "--json").stdout)
        self.assertEqual(len(found["findings"]), data_end)
        for entry in found["findings"]:
            self.assertIn(entry["error"]["status"], ("TRUNCATED", "CORRUPT", "UNSUPPORTED"), entry)
            self.assertTrue(entry["error"]["file"].endswith(entry["name"]))
            # An empty file gives no hint of its codec.
            self.assertEqual(entry["error"]["codec"], "png" if entry["error"]["sample"] > 0 else None)

    def test_a_png_with_any_bit_turned_never_crashes_and_is_found(self):
        whole = png(20, 10, seed=4)
        for n in range(len(whole)):
            self.write(f"f/{n:04d}.png", whole[:n] + bytes([whole[n] ^ (1 << n % 8)]) + whole[n + 1:])
        found = json.loads(self.run_cli("verify", "f", "--json").stdout)
        names = {f["name"] for f in found["findings"]}
        quiet = [n for n in range(len(whole) - 12) if f"{n:04d}.png" not in names]
        self.assertEqual(quiet, [], "every chunk has a checksum")
        # With "skip" the pack makes a valid data set.
        done = self.run_cli("pack", "f", "a.pst", "--verify-pixels", "--on-error", "skip", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, report["skipped"]), (1, len(names)))
        self.assertEqual({b["name"] for b in report["bad"]}, names)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_other_formats_say_what_they_begin_with(self):
        for name, content in {"a.jpg": b"GIF89a" + bytes(50), "b.png": b"\0\0\0\x1cftypavif" + bytes(50),
                              "c.webp": b"RIFF\x10\0\0\0WAVE" + bytes(50)}.items():
            with self.subTest(name):
                shutil.rmtree(self.dir / "f", True)
                self.write(f"f/{name}", content)
                error = self.error("pack", "f", f"{name}.pst", status="UNSUPPORTED", says=content[:4].hex(" ").upper())
                self.assertEqual((error["file"], error["sample"]), (f"f/{name}", 0))


class Folders(Case):
    def test_what_cannot_be_read(self):
        makers = {
            "the link leads nowhere": lambda path: os.symlink("nowhere", path),
            "not a regular file": os.mkfifo,
        }
        for text, make in makers.items():
            with self.subTest(text):
                shutil.rmtree(self.dir / "f", True)
                make(self.folder() / "9.jpg")
                for verb in ("info", "f"), ("ls", "f"), ("verify", "f"), ("bench", "f"), ("pack", "f", "a.pst"):
                    done = self.run_cli(*verb, "--json")
                    report = json.loads(done.stdout)
                    error = self.below(report["error"] if "error" in report else report["findings"][0]["error"])
                    self.assertEqual((done.returncode, error["dataset"], error["file"]), (1, "f", "9.jpg"))
                    self.assertIn(text, error["text"])
                self.assertFalse((self.dir / "a.pst").exists())
                self.assertEqual(self.ok_json("pack", "f", "a.pst", "--allow-unreadable")["samples"], 4)
                shutil.rmtree(self.dir / "a.pst")

    @unittest.skipIf(os.geteuid() != 0 or shutil.which("setpriv") is None, "another user is needed: root, and setpriv")
    def test_permissions(self):
        os.chmod(self.dir, 0o777)
        self.folder()
        os.chmod(self.dir / "f/0002.png", 0)
        program = shutil.copy(CLI, self.dir / "penstock")  # a place where that user may read it
        for library in pathlib.Path(CLI).resolve().parents[2].glob("libpenstock.so.?"):
            shutil.copy(library, self.dir)  # the build directory may be accessible to its owner only
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"LD_LIBRARY_PATH={self.dir}", program]
        if subprocess.run([*other, "--version"], capture_output=True, timeout=60).returncode != 0:
            self.skipTest("another user cannot run the program here")

        def as_other(*arguments):
            done = subprocess.run([*other, *arguments, "--json"], capture_output=True, cwd=self.dir, timeout=60)
            return done.returncode, json.loads(done.stdout)

        status, report = as_other("pack", "f", "a.pst")
        self.assertEqual((status, self.below(report["error"])["file"]), (1, "0002.png"))
        self.assertEqual(report["error"]["os_error"], os.strerror(errno.EACCES))
        self.assertIn("cannot be read", report["error"]["text"])
        status, report = as_other("pack", "f", "a.pst", "--allow-unreadable")
        self.assertEqual((status, report["samples"]), (0, 3))
        os.mkdir(self.dir / "closed", 0o755)
        os.chmod(self.dir / "f/0002.png", 0o644)
        status, report = as_other("pack", "f", "closed/a.pst")
        self.assertEqual((status, self.below(report["error"])["dataset"]), (1, "closed/a.pst"))
        self.assertEqual(os.listdir(self.dir / "closed"), [])

    def test_links_in_a_circle(self):
        self.folder("f/c")
        os.symlink("..", self.dir / "f/c/up")
        error = self.error("info", "f", status="UNSUPPORTED", says="cycle")
        self.assertEqual((error["dataset"], error["file"]), ("f", "c/up/"))

    def test_names(self):
        image = png(4, 4)
        good = sorted([b'a"b,\'c.png', "é 日本.png".encode(), b" lead.png", b"-dash.png", b"%s%n.png", b"b\\s.png"])
        for name in good:
            self.write(os.fsdecode(b"f/" + name), image)
        self.ok("pack", "f", "a.pst")
        for path in "f", "a.pst":
            self.assertEqual([s["name"].encode() for s in self.ok_json("ls", path)["samples"]], good)
            for name in good:
                self.assertEqual(self.ok("cat", "--name", path, "--", os.fsdecode(name)), image)
        for name, shown in (b"a\nb.png", "a\\x0Ab.png"), (b"\xff\xfe.png", "\\xFF\\xFE.png"):
            path = os.fsencode(self.dir) + b"/f/" + name
            with open(path, "wb") as file:
                file.write(image)
            with self.subTest(shown):
                error = self.error("pack", "f", "b.pst", status="UNSUPPORTED", says="UTF-8 or has control")
                self.assertEqual(error["file"], shown)
                self.assertFalse((self.dir / "b.pst").exists())
            os.remove(path)

    def test_a_source_that_holds_its_own_data_set_stays_the_same(self):
        self.folder("f/cat")
        self.folder("f/dog")
        self.ok("pack", "f", "f/out.pst")
        os.remove(self.dir / "f/out.pst/index.pst")
        self.write("f/out.pst/journal.pst", b"")
        self.assertEqual(self.ok_json("info", "f")["samples"], 8)
        self.ok("pack", "f", "g.pst")
        self.assertEqual([s["label"] for s in self.ok_json("ls", "g.pst")["samples"]], [0] * 4 + [1] * 4)

    def test_paths_of_a_data_set(self):
        self.folder()
        self.ok("pack", "f/", "ä ö.pst/")
        for path in "ä ö.pst", "ä ö.pst/", "./f/../ä ö.pst", str(self.dir / "ä ö.pst"):
            self.assertTrue(self.ok_json("verify", path)["ok"])
        self.error("info", "a" * 5000, status="LIMIT", says="too long")
        self.error("info", "", status="ARGUMENT", says="empty")

    def test_label_files(self):
        self.folder("f", 2)
        for content, says in [(b"", "line 1"), (b"label\n1\n", "line 1"), (b"file,label\n", "no file"),
                              (b"file,label\n0000.png\n", "line 2: 1 cells"),
                              (b"file,label\n0000.png,2147483647\n", "line 2: label 2147483647 is outside"),
                              (b"file,label\n0000.png,1\n0001.png,-7\n", "line 3: label -7 is outside"),
                              (b"file,label,label\n0000.png,1,2\n", "two columns"),
                              (b"file,a\0b\n0000.png,1\n", "NUL"),
                              (b"file,index\n0000.png,1\n", '"index" is taken'),
                              (b"file,label\n../x.png,1\n", "../x.png"), (b"file,label\n/etc/passwd,1\n", "/etc/passwd"),
                              (b'file,label\n"0000.png,1\n', "line 2: a quote"), (b"file,label\n0000.png,\xff\n", "\\xFF"),
                              (b'{"file":"0000.png"', "line 1: not JSON"), (b'{"file":"0000.png","label":1.5}', "label"),
                              (b'{"file":"0000.png","boxes":[[1,2]]}', "boxes"),
                              (b'{"file":"0000.png","x":' + b"[" * 9999, "nested deeper"),
                              (b'{"file":"0000.png","mask":"none.png"}', "none.png"),
                              (b'{"file":"0000.png","x":1e999}', "beyond 64 bits")]:
            with self.subTest(content[:40]):
                self.write("l", content)
                done = self.run_cli("pack", "f", "a.pst", "--labels", "l", "--json")
                error = self.below(json.loads(done.stdout)["error"])
                self.assertEqual((done.returncode, error["dataset"], error["file"]), (1, "f", "l"))
                self.assertIn(says, error["text"])
                self.assertFalse((self.dir / "a.pst").exists())


class DataSets(Case):
    def setUp(self):
        super().setUp()
        self.folder(count=5)
        self.ok("pack", "f", "a.pst")
        self.index, self.shard = self.dir / "a.pst/index.pst", self.dir / "a.pst/shard-000000.pst"

    def altered(self, path, content):
        original = path.read_bytes()
        path.write_bytes(content)
        self.addCleanup(path.write_bytes, original)

    def test_an_index_cut_at_any_length(self):
        whole = self.index.read_bytes()
        for n in [0, 1, 7, 8, 12, 63, 4087, 4088, 4095, 4096, 4097, *range(4200, len(whole), 190), len(whole) - 1]:
            with self.subTest(n):
                self.index.write_bytes(whole[:n])
                error = self.error("info", "a.pst", status="TRUNCATED", says=f"after {n} bytes")
                self.assertEqual((error["dataset"], error["file"], error["offset"]), ("a.pst", "a.pst/index.pst", n))
        self.index.write_bytes(whole + b"\0")
        self.assertEqual(self.error("info", "a.pst", status="CORRUPT", says="longer")["offset"], len(whole))

    def test_any_byte_of_the_index_altered(self):
        whole = self.index.read_bytes()
        places = [*range(0, 130, 3), *range(130, 4088, 311), 4088, 4095, *range(4096, len(whole), 29)]
        for at in places:
            with self.subTest(at):
                self.index.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1:])
                done = self.run_cli("verify", "a.pst", "--json")
                report = json.loads(done.stdout)
                self.assertEqual((done.returncode, report["ok"]), (1, False))
                for finding in report["findings"]:
                    self.assertEqual(self.below(finding["error"])["file"], "a.pst/index.pst")
                    self.assertEqual(self.below(finding["error"])["dataset"], "a.pst")

    def test_any_byte_of_the_shard_altered_or_cut(self):
        whole = self.shard.read_bytes()
        for at in [*range(0, 130, 5), *range(130, len(whole), 97), len(whole) - 1]:
            for content in whole[:at], whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1:]:
                with self.subTest(at=at, length=len(content)):
                    self.shard.write_bytes(content)
                    done = self.run_cli("verify", "a.pst", "--json")
                    self.assertEqual(done.returncode, 1)
                    for finding in json.loads(done.stdout)["findings"]:
                        self.assertEqual(self.below(finding["error"])["file"], "a.pst/shard-000000.pst")
                        if finding["name"] is not None:
                            self.assertEqual(finding["error"]["codec"], "png")

    def test_versions_to_come(self):
        for path, what in (self.index, "index"), (self.shard, "shard"):
            whole = path.read_bytes()
            path.write_bytes(whole[:8] + b"\x02\0" + whole[10:])
            with self.subTest(what):
                error = self.error("cat", "a.pst", "0", status="VERSION", says=[what, "2.1", "1.x"])
                self.assertEqual((error["dataset"], error["file"]), ("a.pst", f"a.pst/{path.name}"))
            path.write_bytes(whole)

    def test_a_shard_that_is_missing_or_foreign(self):
        shutil.copytree(self.dir / "f", self.dir / "g")
        shutil.copy(self.dir / "g/0001.png", self.dir / "g/0000.png")  # one picture differs, but names and sizes are the same
        self.ok("pack", "g", "b.pst")
        shutil.copy(self.dir / "b.pst/shard-000000.pst", self.shard)
        error = self.error("cat", "a.pst", "3", status="CORRUPT", says="another data set")
        self.assertEqual((error["dataset"], error["sample"], error["file"]), ("a.pst", 3, "a.pst/shard-000000.pst"))
        self.assertEqual(self.run_cli("verify", "a.pst").returncode, 1)
        self.shard.unlink()
        error = self.error("cat", "a.pst", "3", status="NOT_FOUND", says="shard")
        self.assertEqual((error["sample"], error["file"]), (3, "a.pst/shard-000000.pst"))
        self.assertEqual(self.error("bench", "a.pst", status="NOT_FOUND")["file"], "a.pst/shard-000000.pst")

    def test_names_that_are_there_already(self):
        before = self.contents("a.pst")
        error = self.error("append", "a.pst", "f", status="EXISTS", says='"0000.png"')
        self.assertEqual((error["dataset"], error["sample"], error["file"]), ("f", 0, "f/0000.png"))
        self.assertEqual(self.contents("a.pst"), before)
        self.folder("g", 7)
        self.assertEqual(self.ok_json("append", "a.pst", "g", "--resume")["resumed"], 5)
        self.assertEqual(len(self.contents("a.pst")), 7)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_wrong_things_for_every_verb(self):
        for verb in ("ls", "f/0000.png"), ("bench", "f/0000.png"), ("pack", "f/0000.png", "x.pst"), \
                ("append", "a.pst", "f/0000.png"):
            with self.subTest(verb):
                done = self.run_cli(*verb, "--json")
                error = self.below(json.loads(done.stdout)["error"])
                self.assertEqual(done.returncode, 1)
                self.assertEqual(error["dataset"], "f/0000.png")
                self.assertIn("a data set is a directory", error["text"])
        self.assertTrue(self.ok_json("verify", "f/0000.png")["ok"])  # a single image can still be verified
        done = self.run_cli("cat", "f/0000.png", "0", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["status"]), (2, "USAGE"))
        (self.dir / "text.txt").write_text("no image\n")
        done = self.run_cli("verify", "text.txt", "--json")
        finding = json.loads(done.stdout)["findings"][0]["error"]
        self.assertEqual((done.returncode, finding["status"], finding["file"]), (1, "UNSUPPORTED", "text.txt"))
        self.error("pack", "a.pst", "a.pst", status="ARGUMENT", says="the same data set")
        self.assertTrue(self.ok_json("verify", "a.pst")["ok"])
        done = self.run_cli("pack", "none", "x.pst")
        self.assertEqual((done.returncode, done.stdout), (1, b""))  # nothing was begun, so there is no result
        self.assertFalse((self.dir / "x.pst").exists())


class Writers(Case):
    SIZES = "--commit-size", "50kB", "--shard-size", "400kB"

    def test_killed_and_resumed_until_done(self):
        self.folder("f", 160, (64, 48))
        self.ok("pack", "f", "ref.pst", *self.SIZES)
        wanted = self.ok_json("ls", "ref.pst", "--long")
        for when in (0.002, 0.006, 0.01, 0.02):
            kills = 0
            while True:
                work = subprocess.Popen([CLI, "pack", "f", "k.pst", "--resume", "--quiet", *self.SIZES], cwd=self.dir,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                time.sleep(when * (1 + kills / 4))
                work.kill()  # at any moment: nothing below depends on how far it got
                _, text = work.communicate(timeout=60)
                kills += 1
                if work.returncode == 0:
                    break
                self.assertEqual(work.returncode, -signal.SIGKILL, text)
                if kills > 5:
                    self.ok("pack", "f", "k.pst", "--resume", *self.SIZES)
                    break
            self.assertEqual(self.ok_json("ls", "k.pst", "--long"), wanted)
            self.assertTrue(self.ok_json("verify", "k.pst", "--decode")["ok"])
            self.assertEqual(sorted(os.listdir(self.dir / "k.pst")), sorted(os.listdir(self.dir / "ref.pst")))
            for name in os.listdir(self.dir / "ref.pst"):
                if name.startswith("shard"):  # all bytes except the 16 of the data set's id and the checksum over them
                    a, b = ((self.dir / s / name).read_bytes()[64:] for s in ("ref.pst", "k.pst"))
                    self.assertEqual(a, b)
            shutil.rmtree(self.dir / "k.pst")

    def test_an_unfinished_data_set_says_how_to_go_on(self):
        self.folder()
        self.write("f/0009.png", b"no image")
        self.error("pack", "f", "a.pst", status="UNSUPPORTED")
        for verb in ("info", "a.pst"), ("ls", "a.pst"), ("cat", "a.pst", "0"), ("bench", "a.pst"), ("verify", "a.pst"):
            with self.subTest(verb):
                self.assertEqual(self.error(*verb, status="INCOMPLETE", says="resume")["dataset"], "a.pst")
        self.error("pack", "f", "a.pst", status="INCOMPLETE", says="resume it, or remove it")
        os.remove(self.dir / "f/0009.png")
        self.assertEqual(self.ok_json("pack", "f", "a.pst", "--resume")["samples"], 4)

    def test_two_writers(self):
        import fcntl

        self.folder()
        self.ok("pack", "f", "a.pst")
        before = self.contents("a.pst")
        with open(self.dir / "a.pst/writer.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.folder("g", 6)
            error = self.error("append", "a.pst", "g", "--resume", status="BUSY", says="another writer")
            self.assertEqual((error["dataset"], error["file"]), ("a.pst", "a.pst/writer.lock"))
            self.assertEqual(self.contents("a.pst"), before)
        self.assertEqual(self.ok_json("append", "a.pst", "g", "--resume")["samples"], 6)

    def test_a_full_disk(self):
        full = self.dir / "full"
        full.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(full)]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("a small tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(full)], check=False)
        # Incompressible pixels, stored raw: 80 x 6144 bytes.
        self.folder("f", 80, (64, 32))
        arguments = ("pack", "f", "full/a.pst", "--form", "raw", "--commit-size", "20kB")
        for more in (), ("--resume",):
            error = self.error(*arguments, *more, status="NO_SPACE")
            self.assertEqual(error["dataset"], "full/a.pst")
            self.assertTrue(error["file"].startswith("full/a.pst/"), error)
        self.error("info", "full/a.pst", status="INCOMPLETE")
        large = self.write("g/large.png", png(512, 256, body=bytes(257)) + bytes(300000))
        error = self.error("cat", "g", "0", "-o", f"full/{large.name}", status="NO_SPACE", says="cannot be written")
        self.assertEqual(error["file"], f"full/{large.name}")
        self.assertFalse((full / large.name).exists(), "no partial output")
        subprocess.run(["mount", "-o", "remount,size=8m", str(full)], check=True)
        report = self.ok_json(*arguments, "--resume")
        self.assertEqual(report["samples"], 80)
        self.assertGreater(report["resumed"], 0)
        self.ok("pack", "f", "ref.pst", "--form", "raw")
        self.assertEqual(self.ok_json("ls", "full/a.pst", "--long"), self.ok_json("ls", "ref.pst", "--long"))
        self.assertTrue(self.ok_json("verify", "full/a.pst", "--decode")["ok"])

    def test_results_that_cannot_be_written(self):
        self.folder()
        for verb in ("ls", "f"), ("info", "f"), ("verify", "f"), ("cat", "f", "0"), ("env",), ("ls", "f", "--json"):
            with self.subTest(verb), open("/dev/full", "wb") as full:
                done = subprocess.run([CLI, *verb], stdout=full, stderr=subprocess.PIPE, cwd=self.dir, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn(os.strerror(errno.ENOSPC).encode(), done.stderr)
        self.error("cat", "f", "0", "-o", "f", status="IO", says="cannot be written")


if __name__ == "__main__":
    CLI = os.path.abspath(sys.argv.pop(1))
    unittest.main()
