"""Several processes make the index of tars: index --part and --merge; processes that are killed."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
import unittest

import cli_case
from cli_case import CLI, png

N_KILLS = 200
WORDS = ("--sums", "--members", "pkl=-")


class IndexParts(cli_case.Case):
    def tars(self, n=6, each=40):
        """Makes a folder of tars. Returns the bytes of the index that one process makes, with checksums."""
        (self.dir / "t").mkdir()
        pictures = [png(8, 6, seed=i)[0] for i in range(7)]
        for i in range(n):
            with tarfile.open(self.dir / f"t/{i}.tar", "w") as tar:
                for k in range(each):
                    for suffix, content in {"png": pictures[k % 7], "txt": b"text " * 20, "cls": b"%d" % k, "pkl": b"code"}.items():
                        entry = tarfile.TarInfo(f"{i}-{k:04d}.{suffix}")
                        entry.size = len(content)
                        tar.addfile(entry, io.BytesIO(content))
        self.ok("index", "t", *WORDS)
        [path] = self.saved()
        content = path.read_bytes()
        path.unlink()
        return content

    def saved(self):
        return sorted((self.dir / "t/.penstock").iterdir())

    def same(self, wanted):
        """Asserts that the index equals the one made by one process, and that no other file is left."""
        [path] = self.saved()
        self.assertEqual(path.read_bytes(), wanted)

    def test_parts_and_merge(self):
        wanted = self.tars()
        for i in 3, 1, 2:
            done = self.ok_json("index", "t", *WORDS, "--part", f"{i}/3")
            self.assertEqual((done["part"], done["parts"], done["files"], done["made_before"]), (i, 3, 2, 0))
        self.assertIn(b"part 1 of 2 of the index: 3 files, 3 of them done before", self.ok("index", "t", *WORDS, "--part", "1/2"))
        self.assertEqual(self.ok("index", "t", *WORDS, "--part", "1/2", "--quiet"), b"")
        self.assertTrue(self.ok_json("index", "t", *WORDS, "--merge")["made"])
        self.same(wanted)
        self.assertFalse(self.ok_json("index", "t", *WORDS, "--merge")["made"])
        self.assertFalse(self.ok_json("index", "t", *WORDS, "--check")["wrong"])
        self.same(wanted)

    def test_auto(self):
        wanted = self.tars(4)
        for i in range(2):
            done = self.run_cli("index", "t", *WORDS, "--part", "auto", "--json", env={"RANK": str(i), "WORLD_SIZE": "2"})
            self.assertEqual(json.loads(done.stdout)["part"], i + 1)
        self.ok("index", "t", *WORDS, "--merge")
        self.same(wanted)

    def test_a_folder_that_cannot_be_written(self):
        """Parts are stored below PENSTOCK_CACHE_DIR, which all machines share."""
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        self.tars(2)
        (self.dir / "t/.penstock").rmdir()
        (self.dir / "t").chmod(0o500)
        self.addCleanup((self.dir / "t").chmod, 0o700)
        env = {"PENSTOCK_CACHE_DIR": str(self.dir / "cache")}
        for words in (["--part", "1/2"], ["--part", "2/2"], ["--merge"]):
            self.assertEqual(self.run_cli("index", "t", *WORDS, *words, env=env).returncode, 0)
        self.assertEqual(len([path for path in (self.dir / "cache").rglob("*") if path.is_file()]), 1)

    def test_mistakes(self):
        self.tars(2, 3)
        for words in (["--part", "3/2"], ["--part", "1/2", "--merge"], ["--check", "--merge"]):
            self.assertEqual(self.run_cli("index", "t", *words).returncode, 2)
        self.fails(1, "index", "t", *WORDS, "--merge", says="2 of 2 files are in no part of the index yet, the first is 0.tar")
        self.write("t/0.tar", (self.dir / "t/0.tar").read_bytes()[:1000])
        self.fails(1, "index", "t", *WORDS, "--part", "1/2", says="0.tar")
        self.assertEqual(self.saved(), [])

    def test_killed(self):
        self.killed_at_random(6)

    def test_killed_often(self):
        if "long" not in sys.argv:
            self.skipTest("takes long")
        self.killed_at_random(N_KILLS)

    def killed_at_random(self, n_kills):
        """Parts and merges are killed at any moment; running all of them again gives the index, whatever files were left."""
        wanted = self.tars()
        chance = random.Random(53)
        begun = time.monotonic()
        self.ok("index", "t", *WORDS, "--part", "1/2")
        took = time.monotonic() - begun
        n_killed = 0
        while n_killed < n_kills:
            n = chance.randint(1, 4)
            words = ["--merge"] if chance.random() < 0.3 else ["--part", f"{chance.randint(1, n)}/{n}"]
            run = subprocess.Popen([CLI, "index", "t", *WORDS, *words], cwd=self.dir, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)  # fmt: skip
            time.sleep(chance.random() * took)
            run.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
            said = run.communicate(timeout=120)[1]
            n_killed += run.returncode not in (0, 1)
            self.assertTrue(run.returncode in (0, -2, -9, -15, 130, 143) or b"are in no part" in said, said)
            if chance.random() < 0.2:
                self.finish(wanted)
        self.finish(wanted)

    def finish(self, wanted):
        self.ok("index", "t", *WORDS, "--part", "1/1")
        self.ok("index", "t", *WORDS, "--merge")
        for lock in (self.dir / "t/.penstock").glob("*.lock"):
            lock.unlink()  # left by a merge that was killed after it wrote the index; the next one removes it
        self.same(wanted)
        self.saved()[0].unlink()

    def test_at_once(self):
        """Two processes make the same part, and two merge."""
        wanted = self.tars()
        for words in (["--part", "1/1"], ["--merge"]):
            command = [CLI, "index", "t", *WORDS, *words]
            runs = [subprocess.Popen(command, cwd=self.dir, stdout=subprocess.DEVNULL) for _ in range(2)]
            self.assertEqual([run.wait(120) for run in runs], [0, 0])
        self.same(wanted)



if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[a for a in sys.argv[1:] if a != "long"]])
