"""In every verb that writes, the process ends or power is lost at each call that changes the disk.

Every state left on the disk can be opened or resumed, with the same result. After a verb has succeeded, everything is durable.
Each verb is also killed while it resumes after a kill. The short form tries a few of the calls. With the argument "long" all are
tried, and every third call of a verb that resumes after a kill.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import cli_case  # noqa: E402
import disk_model  # noqa: E402

SHIM = os.environ["KILL_SHIM"]
LONG = "long" in sys.argv[1:]
N_TRIED = 5  # number of calls that the short form tries for each verb, besides the end
KILLED = -9
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"  # the disk is modelled, so files can lie in memory


def always():
    return True


def never():
    return False


def states(seed):
    """Yields choices for the changes that no fsync covers: lists of the names and bytes that reach the disk."""
    yield "nothing", never, never
    yield "names alone", always, never
    for i in range(4 if LONG else 1):
        chance = random.Random(seed * 10 + i)

        def either(chance=chance):
            return chance.random() < 0.5

        yield f"subset {seed * 10 + i}", either, either


class Sweep(cli_case.Case):
    def setUp(self):
        super().setUp()
        self.log, self.root, self.lost = self.dir / "log", self.dir / "root", self.dir / "lost"
        self.small = ("--workers", 1, "--commit-size", "3KiB", "--shard-size", "6KiB")

    def killed(self, at, *arguments):
        """Runs a verb in the root and ends it at that call. Returns True if the verb finished before."""
        env = {**os.environ, "LD_PRELOAD": SHIM, "PST_KILL_ROOT": str(self.root), "PST_KILL_LOG": str(self.log),
               "PST_KILL_AT": str(at)}
        done = subprocess.run([cli_case.CLI, *map(str, arguments)], cwd=self.root, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120)
        self.assertIn(done.returncode, (0, KILLED), done.stderr.decode(errors="replace"))
        return done.returncode == 0

    def begin(self, base):
        """Makes a new root; all files in it are durable."""
        shutil.rmtree(self.root, True)
        shutil.copytree(base, self.root)
        self.log.unlink(missing_ok=True)
        return disk_model.Disk(self.root)

    def count_calls(self, base, arguments, before=None):
        """Counts the calls of a verb that runs to its end. With `before`, the verb was killed at that call and resumes."""
        self.begin(base)
        if before is not None:
            self.assertFalse(self.killed(before, *arguments))
            self.log.unlink()
        self.assertTrue(self.killed(0, *arguments))
        return disk_model.count(self.log)

    def sweep(self, base, arguments, check, before=None):
        """Runs a verb and ends it at each call. `check(root, through)` asserts that the state of a root is possible, resumes,
        and asserts the result. `before`: the verb was killed at that call, without a loss of power, and now resumes."""
        last = self.count_calls(base, arguments, before) + 1  # the first call at which the verb finishes
        self.assertGreater(last, 8 if before is None else 3)
        if not LONG:
            chosen = sorted({1 + i * (last - 1) // N_TRIED for i in range(N_TRIED)} | {last})
        elif before is None:
            chosen = range(1, last + 1)
        else:
            chosen = sorted({*range(1 + before // 5 % 3, last, 3), last})  # other calls for each value of `before`
        for at in chosen:
            disk = self.begin(base)
            if before is not None:
                self.assertFalse(self.killed(before, *arguments))
            through = self.killed(at, *arguments)
            self.assertEqual(through, at == last)
            disk.replay(self.log)
            for name, pick_names, pick_bytes in states(at):
                with self.subTest(verb=arguments[0], before=before, call=at, of=last, kept=name):
                    shutil.rmtree(self.lost, True)
                    disk.write_to(self.lost, pick_names, pick_bytes)
                    check(self.lost, through)
            with self.subTest(verb=arguments[0], before=before, call=at, of=last, kept="everything"):
                check(self.root, through)

    def listing(self, root, name):
        """Returns the contents of a data set, without its id and shards."""
        done = subprocess.run([cli_case.CLI, "verify", name], cwd=root, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout.decode() + done.stderr.decode())
        return subprocess.run([cli_case.CLI, "ls", name, "--long"], cwd=root, capture_output=True, check=True).stdout

    def checker(self, target, arguments, olds, wanted):
        """Returns a check for verbs that write the data set `target`: it is absent, one of `olds`, unfinished, or as wanted."""
        def check(root, through):
            if (root / target / "index.pst").exists():
                self.assertIn(self.listing(root, target), (*olds, wanted))
            if through:
                self.assertTrue((root / target / "index.pst").exists(), "the verb had ended well")
                self.assertEqual(self.listing(root, target), wanted)
            done = subprocess.run([cli_case.CLI, *map(str, arguments)], cwd=root, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            self.assertEqual(self.listing(root, target), wanted)
        return check

    def make_base(self):
        """Makes base/: two folders of images, and a data set of the first."""
        base = self.dir / "base"
        self.jpegs("base/f", 5, 40, 30)
        self.jpegs("base/g/all", 8, 40, 30)
        (base / "g/new").mkdir()
        for i in 5, 6, 7:
            os.rename(base / f"g/all/000{i}.jpg", base / f"g/new/000{i}.jpg")
        shutil.rmtree(base / "g/all")
        self.ok("pack", "base/f", "base/a.pst", *self.small)
        return base

    def both(self, base, arguments, check):
        """Sweeps over the verb from its beginning, and from the state that a kill in the middle left."""
        self.sweep(base, arguments, check)
        n = self.count_calls(base, arguments)
        # n - 2: the data set's index has its name, but the name is not durable yet.
        for before in sorted({*range(1, n, 5), n - 2, n - 1}) if LONG else (n // 2, n - 2):
            self.sweep(base, arguments, check, before)

    def test_pack(self):
        base = self.make_base()
        wanted = self.listing(base, "a.pst")
        shutil.rmtree(base / "a.pst")
        arguments = ("pack", "f", "a.pst", "--resume", *self.small)
        self.both(base, arguments, self.checker("a.pst", arguments, (), wanted))

    def test_append(self):
        base = self.make_base()
        old = self.listing(base, "a.pst")
        shutil.copytree(base / "a.pst", self.dir / "b.pst")
        self.ok("append", "b.pst", "base/g/new", *self.small)
        arguments = ("append", "a.pst", "g/new", "--resume", *self.small)
        self.both(base, arguments, self.checker("a.pst", arguments, (old,), self.listing(self.dir, "b.pst")))

    def test_repack(self):
        base = self.make_base()
        self.ok("repack", "base/a.pst", "b.pst", "--form", "original", *self.small)
        arguments = ("repack", "a.pst", "b.pst", "--resume", "--form", "original", *self.small)
        self.both(base, arguments, self.checker("b.pst", arguments, (), self.listing(self.dir, "b.pst")))

    def test_repack_in_place(self):
        """Of the shards some change, some are reused unchanged, and some are written for nothing, because their JPEGs cannot
        become PLI."""
        base = self.make_base()
        for i in range(3):
            self.write(f"base/f/001{i}.jpg", (base / f"f/000{i}.jpg").read_bytes()[:-100])
        shutil.rmtree(base / "a.pst")
        self.ok("pack", "base/f", "base/a.pst", *self.small)
        old = self.listing(base, "a.pst")
        half = [{"share": 0.5, "store": [{"form": "pli-jpeg"}]}, {"share": 0.5, "store": [{"form": "original"}, {"form": "raw"}]}]
        self.write("base/plan.json", json.dumps({"kind": "penstock plan", "version": 1, "classes": [
            {"form": "pli-jpeg", "pixels": [0, None], "ways": half},
            {"form": "jpeg", "pixels": [0, None], "ways": [{"share": 1, "store": [{"form": "pli-jpeg"}]}]}]}))
        shutil.copytree(base / "a.pst", self.dir / "b.pst")
        self.ok("repack", "b.pst", "--plan", "base/plan.json")
        wanted = self.listing(self.dir, "b.pst")
        self.assertNotEqual(wanted, old)
        names = len(os.listdir(self.dir / "b.pst"))
        kept = set(os.listdir(base / "a.pst")) & set(os.listdir(self.dir / "b.pst")) - {"index.pst"}
        self.assertIn(f"shard-{names - 2:06}.pst", kept)
        self.assertLess(len(kept), names - 1)
        arguments = ("repack", "a.pst", "--plan", "plan.json", "--workers", 1, "--commit-size", "1KiB")
        check = self.checker("a.pst", arguments, (old,), wanted)

        def check_whole(root, through):
            self.assertIn(self.listing(root, "a.pst"), (old, wanted))  # the data set can be read at any time
            check(root, through)
            self.assertEqual(len(os.listdir(root / "a.pst")), names)  # no file of the interrupted change is left

        self.both(base, arguments, check_whole)

    def test_parts(self):
        """Kills a part while it makes the plan and packs planned shards."""
        base, wanted = self.make_parts(n_bad=0)
        arguments = ("pack", "f", "a.pst", "--part", "1/1", *self.small)

        def check(root, through):
            folders = list((root / "a.pst").glob("parts-*"))
            if through:
                self.assertTrue((root / "a.pst/parts.pst").exists() and len(folders) == 1)
            self.run_in(root, *arguments)
            self.run_in(root, "merge", "a.pst")
            self.assertEqual(self.tree(root / "a.pst"), wanted)

        self.both(base, arguments, check)

    def test_merge(self):
        """Kills a merge that changes the numbers of samples. There is no data set until it is complete, and then it has the same
        bytes as one made by one process."""
        base, wanted = self.make_parts(n_bad=3)
        done = self.run_cli("pack", "base/f", "base/a.pst", "--part", "1/1", "--on-error", "skip", *self.small)
        self.assertEqual(done.returncode, 1, done.stderr)
        arguments = ("merge", "a.pst")

        def check(root, through):
            if through:  # the removal of the lock file may not have reached the disk
                self.assertEqual({**self.tree(root / "a.pst"), "writer.lock": b""}, {**wanted, "writer.lock": b""})
            if (root / "a.pst/index.pst").exists():
                self.assertEqual(self.listing(root, "a.pst"), listing)
            self.run_in(root, *arguments)
            self.assertEqual(self.tree(root / "a.pst"), wanted)

        listing = self.listing(self.dir, "one.pst")
        self.sweep(base, arguments, check)
        n = self.count_calls(base, arguments)
        calls = list(disk_model.entries(self.log))
        # A kill after a number is written into a shard, and before the fsync of that file.
        unsynced = next(i for i, call in enumerate(calls, 1)
                        if call[0] == disk_model.SYNC and "shard-000" in call[2] and calls[i - 2][0] == disk_model.WRITE)
        # After call n - 2 only the removal of the plan's name has to become durable.
        for before in sorted({*range(1, n - 2, 5), unsynced, n - 2}) if LONG else (unsynced, n // 2, n - 2):
            self.sweep(base, arguments, check, before)

    def make_parts(self, n_bad):
        """Makes base/f, with bad samples before good ones. Returns the files of the data set that one process packs from it."""
        base = self.dir / "base"
        self.jpegs("base/f", 5, 40, 30)
        for i in range(n_bad):
            self.write(f"base/f/0001-{i}.png", b"no image" * 400)
        done = self.run_cli("pack", "base/f", "one.pst", "--on-error", "skip", *self.small)
        self.assertEqual(done.returncode, 1 if n_bad else 0, done.stderr)
        return base, self.tree(self.dir / "one.pst")

    def run_in(self, root, *arguments):
        done = subprocess.run([cli_case.CLI, *map(str, arguments)], cwd=root, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))

    def tars(self, n_each):
        """Makes base/t with two tars of n_each images. Returns base and the listing of t."""
        base = self.dir / "base"
        (base / "t").mkdir(parents=True)
        for i in range(2):
            images = self.jpegs(f"images{i}", n_each, 40, 30)
            with tarfile.open(base / f"t/t-{i}.tar", "w") as tar:
                for path in sorted(images.iterdir()):
                    tar.add(path, path.name)
        shutil.copytree(base, self.dir / "whole")
        return base, self.listing(self.dir / "whole", "t")

    def test_index(self):
        """The index of tars with checksums exists or is made again. Files that a killed process left are removed by the next
        one."""
        base, wanted = self.tars(4)
        arguments = ("index", "t", "--sums")

        def names(root):
            return sorted(path.name for path in (root / "t/.penstock").glob("*"))

        def check(root, through):
            for lock in (root / "t/.penstock").glob("*.lock"):
                os.utime(lock, (0, 0))  # a lock that never reached the disk counts for two minutes
            if through and root == self.root:
                self.assertEqual([name[-6:] for name in names(root)], [".index"])
            done = subprocess.run([cli_case.CLI, *arguments], cwd=root, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            self.assertEqual(self.listing(root, "t"), wanted)
            self.assertLessEqual({pathlib.Path(name).suffix for name in names(root)}, {".index", ".lock"})
            done = subprocess.run([cli_case.CLI, "index", "t", "--check"], cwd=root, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            self.assertEqual([name[-6:] for name in names(root)], [".index"])

        self.sweep(base, arguments, check)
        n = self.count_calls(base, arguments)
        # After call n - 7 the index may be in place, and then the next run changes nothing.
        for before in range(1, n - 7, 5) if LONG else (n // 3, 2 * n // 3):
            self.sweep(base, arguments, check, before)

    def test_index_in_parts(self):
        """A part or a merge is killed. The index exists or can be made from the parts, and no file is left behind."""
        base, wanted = self.tars(3)
        part, merge = ("index", "t", "--sums", "--part", "1/1"), ("index", "t", "--sums", "--merge")

        def check(root, through):
            for lock in (root / "t/.penstock").glob("*.lock"):
                os.utime(lock, (0, 0))
            self.run_in(root, *part)
            self.run_in(root, *merge)
            self.assertEqual([path.suffix for path in (root / "t/.penstock").iterdir()], [".index"])
            self.assertEqual(self.listing(root, "t"), wanted)
            self.run_in(root, "index", "t", "--check")

        self.sweep(base, part, check)

        def prepared(root):
            shutil.copytree(base, root, dirs_exist_ok=True)
            self.run_in(root, *part)

        for at in range(1, 200, 1 if LONG else 9):
            shutil.rmtree(self.root, True)
            prepared(self.root)
            self.log.unlink(missing_ok=True)
            through = self.killed(at, *merge)
            check(self.root, through)
            if through:
                return
        self.fail("the merge did not end")

    def test_unpack(self):
        base = self.make_base()
        for i in range(5):
            self.write(f"base/f/{'ab'[i % 2]}/000{i}.jpg", (base / f"f/000{i}.jpg").read_bytes())
            os.unlink(base / f"f/000{i}.jpg")
        lines = "".join(f'{{"file": "{"ab"[i % 2]}/000{i}.jpg", "count": {i}}}\n' for i in range(5))
        self.write("labels.jsonl", lines)
        shutil.rmtree(base / "a.pst")
        self.ok("pack", "base/f", "base/a.pst", "--labels", "labels.jsonl")
        self.ok("unpack", "base/a.pst", "wanted")
        wanted = self.tree(self.dir / "wanted")
        self.assertEqual(len(wanted), 6)
        arguments = ("unpack", "a.pst", "out", "--resume", "--workers", 1)

        def check(root, through):
            for name, content in self.tree(root / "out").items():
                if not name.startswith(".penstock-"):
                    self.assertEqual(content, wanted[name], name)
            if through:
                self.assertEqual(self.tree(root / "out"), wanted)
            done = subprocess.run([cli_case.CLI, *map(str, arguments)], cwd=root, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            self.assertEqual(self.tree(root / "out"), wanted)

        self.both(base, arguments, check)

    def saved(self, root, data):
        """Returns the names in the folder of saved indexes."""
        folder = root / data / ".penstock"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def sweep_saved(self, base, data, name):
        """Sweeps over a verb that saves an index of other programs' data. Whatever is left of the index, the data are read
        correctly, and the next process that makes the index removes what a killed one left."""
        self.enterContext(mock.patch.dict(os.environ, {"PENSTOCK_LISTING_FILES": "1", "PENSTOCK_CACHE_DIR": str(self.dir / "c")}))
        arguments = ("ls", data, "--members", "pkl=-") if data == "tars" else ("ls", data)
        names = sorted(path for path in (base / data).rglob("*") if path.is_file())
        wanted = self.ok(*arguments[:1], base / data, *arguments[2:])
        shutil.rmtree(base / data / ".penstock")
        self.assertEqual(wanted.count(b"\n"), 12)

        def opened(root):
            done = subprocess.run([cli_case.CLI, *arguments], cwd=root, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, wanted), done.stderr.decode(errors="replace"))

        def check(root, through):
            if through and root == self.root:
                self.assertEqual(self.saved(root, data), [name])
            had = name in self.saved(root, data)
            opened(root)
            self.assertIn(name, self.saved(root, data))
            if not had:
                self.assertEqual(self.saved(root, data), [name])
            if root == self.root:
                time.sleep(0.25)  # a directory's times count only some ticks after its last change
            for _ in range(2):
                opened(root)
            self.assertEqual(len([path for path in (root / data).rglob("*") if path.is_file() and ".penstock" not in path.parts]),
                             len(names))

        if LONG:
            self.both(base, arguments, check)
        else:
            self.sweep(base, arguments, check)

    def test_listing(self):
        base = self.make_base()
        for i in range(12):
            self.write(f"base/many/{'abc'[i % 3]}/{i:02}.jpg", (base / "f/0000.jpg").read_bytes())
        self.write("base/many/a/notes.txt", b"left out")
        self.sweep_saved(base, "many", "files.pls")

    def tree(self, root):
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[a for a in sys.argv[1:] if a not in ("short", "long")]])
