"""Several processes check one data set: verify --part, and the summary of their reports."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import tarfile
import time
import unittest

import cli_case
from cli_case import CLI

COUNTS = ("samples", "items", "bytes", "bad", "ok")


class VerifyParts(cli_case.Case):
    def packed(self, count=20):
        self.classes(count=count)
        self.ok("pack", "photos", "d.pst", "--shard-size", "6KiB", "--workers", 1)

    def part(self, i, n, path="d.pst", *more, env=None):
        """Runs a part, saves its report as I.json, and returns the exit status."""
        done = self.run_cli("verify", path, "--part", f"{i}/{n}", "--json", *more, env=env)
        self.write(f"{i}.json", done.stdout)
        return done.returncode

    def summary(self, n, status=0, says=()):
        """Joins the reports 1.json to N.json, as JSON, and also as text if `says` gives words for it."""
        files = [f"{i + 1}.json" for i in range(n)]
        if says:
            text = self.run_cli("verify", "--summary", *files)
            self.assertEqual(text.returncode, status, text.stderr)
            self.assertIn(says, (text.stdout + text.stderr).decode())
        done = self.run_cli("verify", "--summary", "--json", *files)
        self.assertEqual(done.returncode, status)
        return json.loads(done.stdout)

    def same(self, path, n, *more):
        """Asserts that parts and summary report the same as one process."""
        one = json.loads(self.run_cli("verify", path, "--json", *more).stdout)
        for i in range(n):
            self.part(i + 1, n, path, *more)
        joined = self.summary(n, 0 if one["ok"] else 1)
        self.assertEqual({key: joined[key] for key in COUNTS}, {key: one[key] for key in COUNTS})
        self.assertEqual((joined["parts"], joined["missing"]), (n, []))

        def sort(found):
            return sorted(json.dumps(finding, sort_keys=True) for finding in found)

        self.assertEqual(sort(joined["findings"]), sort(one["findings"]))

    def damage(self):
        """Changes a byte in the middle of the second shard."""
        shard = sorted((self.dir / "d.pst").glob("shard-*.pst"))[1]
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 4
        shard.chmod(0o600)
        shard.write_bytes(data)

    def test_packed(self):
        self.packed()
        for n in 1, 2, 5:
            self.same("d.pst", n)
        self.same("d.pst", 3, "--decode")
        self.damage()
        for n in 1, 3:
            self.same("d.pst", n)

    def test_folder_and_tars(self):
        self.classes(count=40)
        self.write("photos/cat/0003.jpg", b"no image " * 100)
        self.same("photos", 3, "--allow-unreadable")
        (self.dir / "tars").mkdir()
        for k in range(4):
            with tarfile.open(self.dir / f"tars/{k}.tar", "w") as tar:
                for path in sorted((self.dir / "photos/dog").iterdir())[k * 10 : k * 10 + 10]:
                    tar.add(path, f"{k}/{path.name}")
        self.same("tars", 3)
        self.same("photos/dog/" + sorted(path.name for path in (self.dir / "photos/dog").iterdir())[0], 2)

    def test_auto(self):
        self.packed(4)
        for i in range(2):
            env = {"RANK": str(i), "WORLD_SIZE": "2"}
            done = self.run_cli("verify", "d.pst", "--part", "auto", "--json", env=env)
            self.write(f"{i + 1}.json", done.stdout)
            self.assertEqual(json.loads(done.stdout)["part"], i + 1)
        self.assertTrue(self.summary(2)["ok"])

    def test_a_missing_part_is_told(self):
        self.packed()
        for i in 1, 2, 3:
            self.part(i, 3)
        (self.dir / "3.json").rename(self.dir / "kept.json")
        joined = self.summary(2, 1, "NOT ALL PARTS ARE THERE; missing: 3")
        self.assertEqual((joined["ok"], joined["missing"], joined["bad"]), (False, [3], 0))
        (self.dir / "kept.json").rename(self.dir / "3.json")
        self.assertTrue(self.summary(3, 0, "all good")["ok"])

    def test_a_straggler_runs_twice(self):
        self.packed()
        for i in 1, 2:
            self.part(i, 2)
        self.ok("verify", "--summary", "1.json", "2.json", "1.json")
        done = json.loads((self.dir / "1.json").read_text())
        self.write("4.json", json.dumps({**done, "items": done["items"] + 1}))
        said = self.run_cli("verify", "--summary", "1.json", "2.json", "4.json")
        self.assertEqual(said.returncode, 1)
        self.assertIn(b"another report tells otherwise", said.stderr)

    def test_reports_of_other_runs_are_refused(self):
        self.packed()
        self.part(1, 2)
        self.part(2, 3)
        self.summary(2, 1, "of another number of parts")
        self.part(2, 2, "d.pst", "--decode")
        self.summary(2, 1, "with other options")
        self.ok("repack", "d.pst", "--form", "raw")
        self.part(2, 2)
        self.summary(2, 1, "the data set changed between the parts")

    def test_a_size_that_no_item_has(self):
        """Only all parts together detect it; no single part can."""
        self.packed()
        for i in 1, 2, 3:
            self.part(i, 3)
        for i in 1, 2, 3:
            report = json.loads((self.dir / f"{i}.json").read_text())
            self.write(f"{i}.json", json.dumps({**report, "unreached": ["image"]}))
        joined = self.summary(3, 1, "another size of the largest item of field image")
        self.assertEqual(joined["bad"], 1)
        for i in 1, 2, 3:
            report = json.loads((self.dir / f"{i}.json").read_text())
            self.write(f"{i}.json", json.dumps({**report, "unreached": ["image", "label", "image (pixels)", "mask (pixels)"]}))
        joined = self.summary(3, 1, "of field mask than")  # a field counts as one finding, as for a single process
        self.assertEqual((joined["bad"], len(joined["findings"])), (3, 3))

    def reads_a_shard(self, run):
        """Waits until the process has a shard open. Returns False if it ended."""
        while run.poll() is None:
            for fd in pathlib.Path(f"/proc/{run.pid}/fd").glob("*"):
                with contextlib.suppress(OSError):
                    if "shard-" in os.readlink(fd):
                        return True
        return False

    def test_a_data_set_that_is_gone_at_the_end(self):
        """A report states which sizes a part has not seen, whatever happens to the path in the meantime."""
        self.jpegs("photos/ant", 1, 100, 70)  # the largest image, which is in part 1
        self.packed(200)
        self.part(2, 3)
        wanted = json.loads((self.dir / "2.json").read_text())["unreached"]
        self.assertEqual(wanted, ["image", "image (pixels)"])
        for _ in range(100):
            run = subprocess.Popen([CLI, "verify", "d.pst", "--decode", "--workers", "1", "--part", "2/3", "--json"], cwd=self.dir,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
            if is_there := self.reads_a_shard(run):
                (self.dir / "d.pst").rename(self.dir / "gone.pst")
                is_there = run.poll() is None
            said = run.communicate(timeout=120)[0]
            if (self.dir / "gone.pst").exists():
                (self.dir / "gone.pst").rename(self.dir / "d.pst")
            self.assertEqual(json.loads(said)["unreached"], wanted)
            if is_there:
                return
        self.fail("it always ended before its data set was gone")

    def test_hostile_reports(self):
        self.packed(4)
        self.part(1, 1)
        text = (self.dir / "1.json").read_text()
        good = json.loads(text)
        for key in ("part", "parts", "total", "samples", "items", "bytes", "bad", "ok", "findings", "unreached", "decode"):
            for value in (None, -1, 1e300, 0.5, "text", [[]], True):
                if value == good[key] and type(value) is type(good[key]):
                    continue
                self.write("1.json", json.dumps({**good, key: value}))
                if (key, value) == ("decode", True):
                    continue
                joined = self.summary(1, 1)
                self.assertFalse(joined["ok"], (key, value))
        for key in good:
            if key not in ("path", "identity"):
                self.write("1.json", json.dumps({other: good[other] for other in good if other != key}))
                self.summary(1, 1)
        self.write("1.json", json.dumps({**good, "identity": "x" * 5000}))
        self.summary(1, 1, "is no report of `penstock verify --part")
        chance = random.Random(5)
        for cut in sorted(chance.sample(range(len(text) - 2), 20)):
            self.write("1.json", text[:cut])
            self.summary(1, 1)
        finding = {"name": "a" * 9000, "error": {"status": "X", "text": "b" * 9000}}
        self.write("1.json", json.dumps({**good, "bad": 1, "ok": False, "findings": [finding]}))
        self.summary(1, 1, "FINDING")
        self.summary(2, 1, "cannot open the report")
        self.fails_usage("--summary reads the reports", "verify", "--summary", "1.json", "--part", "1/2")
        self.fails_usage("one operand too many", "verify", "d.pst", "1.json")
        self.fails_usage("an operand is missing", "verify", "--summary")

    def fails_usage(self, text, *arguments):
        done = self.run_cli(*arguments)
        self.assertEqual(done.returncode, 2)
        self.assertIn(text, done.stderr.decode())

    def has_whole_report(self, number):
        """Returns whether the report is complete: a part killed at its very end has written all of it, a stopped one reports an
        error."""
        path = self.dir / f"{number}.json"
        path.touch()
        try:
            return "error" not in json.loads(path.read_bytes())
        except ValueError:
            return False

    def test_killed_at_random(self):
        """Parts are killed: their reports are incomplete, and the summary never reports success before all parts have ended."""
        self.packed(60)
        chance = random.Random(53)
        begun = time.monotonic()
        self.part(1, 3)
        took = time.monotonic() - begun
        n_killed = 0
        done = set()
        while len(done) < 3 or n_killed < 5:
            i = chance.randint(1, 3)
            with (self.dir / f"{i}.json").open("wb") as out:
                run = subprocess.Popen([CLI, "verify", "d.pst", "--decode", "--part", f"{i}/3", "--json"], cwd=self.dir, stdout=out,
                                       stderr=subprocess.DEVNULL)
                if chance.random() < 0.7:
                    time.sleep(chance.random() * took)
                    run.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
                code = run.wait(120)
            n_killed += code != 0
            done = {k for k in (1, 2, 3) if self.has_whole_report(k)}
            self.assertTrue(code != 0 or i in done)
            said = self.run_cli("verify", "--summary", "1.json", "2.json", "3.json")
            self.assertEqual(said.returncode, 0 if len(done) == 3 else 1)


if __name__ == "__main__":
    unittest.main()
