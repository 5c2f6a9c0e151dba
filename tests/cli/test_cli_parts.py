"""Several processes pack one data set: --prepare, --part and merge; the environment variables of schedulers; processes that are
killed."""

import os
import random
import signal
import subprocess
import sys
import time
import unittest

import cli_case
from cli_case import CLI

SMALL = ("--shard-size", "6KiB", "--workers", 1)
N_KILLS = 200
SCHEDULERS = ("SLURM_", "JOB_COMPLETION_INDEX", "AWS_BATCH_", "RANK", "WORLD_SIZE")


class Parts(cli_case.Case):
    def setUp(self):
        super().setUp()
        for name in [name for name in os.environ if name.startswith(SCHEDULERS)]:
            self.addCleanup(os.environ.__setitem__, name, os.environ.pop(name))

    def files(self, name):
        return {path.name: path.read_bytes() for path in (self.dir / name).iterdir()}

    def photos(self, count=12):
        """Makes the folder photos, and packs it with one process into one.pst."""
        self.classes(count=count)
        self.ok("pack", "photos", "one.pst", *SMALL)
        self.assertGreater(len(self.files("one.pst")), count // 2)

    def same(self, name="d.pst"):
        self.assertEqual(self.files(name), self.files("one.pst"))

    def fails(self, status, text, *arguments, env=None):
        done = self.run_cli(*arguments, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr.decode())
        return done

    def test_prepare_parts_merge(self):
        self.photos()
        prepared = self.ok_json("pack", "photos", "d.pst", "--prepare", *SMALL)
        n = prepared["planned_shards"]
        self.assertGreater(n, 4)
        self.assertIn(b"planned shards", self.ok("pack", "photos", "d.pst", "--prepare", *SMALL))
        first = self.ok_json("pack", "photos", "d.pst", "--part", "1/2", *SMALL)
        self.assertEqual((first["planned_shards"], first["packed_before"]), ((n + 1) // 2, 0))
        self.fails(1, "planned shards are not packed yet", "merge", "d.pst")
        self.fails(1, "packed in parts", "info", "d.pst")
        self.fails(1, "packed in parts", "pack", "photos", "d.pst", *SMALL)
        self.fails(1, "other options", "pack", "photos", "d.pst", "--part", "2/2")
        rest = self.ok_json("pack", "photos", "d.pst", "--part", "1/1", *SMALL)
        self.assertEqual((rest["planned_shards"], rest["packed_before"]), (n, (n + 1) // 2))
        merged = self.ok_json("merge", "d.pst")
        self.assertEqual((merged["samples"], merged["merged_before"]), (24, False))
        self.same()
        self.assertTrue(self.ok_json("merge", "d.pst")["merged_before"])
        self.same()
        self.assertTrue(self.ok_json("verify", "d.pst", "--decode")["ok"])
        self.ok("append", "d.pst", "one.pst", "--resume")
        self.same()

    def test_repack(self):
        self.photos()
        self.ok("repack", "one.pst", "whole.pst", "--form", "original,raw", *SMALL)
        for i in 3, 1, 2:
            self.ok("repack", "one.pst", "d.pst", "--form", "original,raw", "--part", f"{i}/3", *SMALL)
        self.ok("merge", "d.pst")
        self.assertEqual(self.files("d.pst"), self.files("whole.pst"))

    def test_bad_samples(self):
        self.classes(count=8)
        for i in 0, 1, 5:
            self.write(f"photos/cat/000{i}.jpg", b"no image " * 500)
        arguments = ("--on-error", "skip", *SMALL)
        self.assertEqual(self.run_cli("pack", "photos", "one.pst", *arguments).returncode, 1)
        codes = [self.run_cli("pack", "photos", "d.pst", "--part", f"{i}/2", *arguments).returncode for i in (1, 2)]
        self.assertIn(1, codes)
        self.ok("merge", "d.pst")
        self.same()

    def test_wrong_use(self):
        self.photos(4)
        for text in "0/2", "3/2", "1/", "/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "autos", "auto/", "auto/0", "1/99999999999":
            self.fails(2, "--part is", "pack", "photos", "d.pst", "--part", text)
        self.fails(2, "--prepare", "pack", "photos", "d.pst", "--prepare", "--part", "1/2")
        self.fails(2, "--resume", "pack", "photos", "d.pst", "--resume", "--part", "1/2")
        self.fails(2, "go with a DST", "repack", "one.pst", "--form", "raw", "--part", "1/2")
        self.fails(2, "--part goes without", "pack", "photos", "d.pst", "--yolo", "--part", "1/2")
        self.fails(2, "no option --part", "append", "one.pst", "photos", "--part", "1/2")
        self.assertFalse((self.dir / "d.pst").exists())

    def part(self, wanted, text="auto", **env):
        """Runs `--part TEXT` in that environment. wanted: the part (I, N) that it must pack, or a text that the message must
        contain."""
        env = {name: str(value) for name, value in env.items()}
        arguments = ("pack", "photos", "d.pst", "--part", text, *SMALL)
        if isinstance(wanted, str):
            self.fails(2, wanted, *arguments, env=env)
            return
        self.ok("pack", "photos", "d.pst", "--prepare", *SMALL)
        done = self.run_cli(*arguments, "--quiet", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder, = (self.dir / "d.pst").glob("parts-*")
        packed = sorted(int(path.name[6:]) for path in folder.iterdir())
        self.assertEqual(packed, list(range(wanted[0] - 1, self.n_planned, wanted[1])))
        subprocess.run(["rm", "-r", self.dir / "d.pst"], check=True)

    def test_environments(self):
        self.photos(20)
        self.n_planned = self.ok_json("pack", "photos", "d.pst", "--prepare", *SMALL)["planned_shards"]
        self.assertGreater(self.n_planned, 8)
        subprocess.run(["rm", "-r", self.dir / "d.pst"], check=True)
        array = {"SLURM_ARRAY_TASK_MIN": 4, "SLURM_ARRAY_TASK_MAX": 10, "SLURM_ARRAY_TASK_STEP": 3, "SLURM_ARRAY_TASK_COUNT": 3}
        self.part((2, 3), SLURM_ARRAY_TASK_ID=7, **array)
        self.part((2, 3), "auto/3", SLURM_ARRAY_TASK_ID=7, **array)
        self.part("there are 3 parts", "auto/4", SLURM_ARRAY_TASK_ID=7, **array)
        self.part((3 * 2 - 2 + 1, 6), SLURM_ARRAY_TASK_ID=10, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2, **array)
        # without srun: the script of a batch job, which has SLURM_PROCID but not SLURM_STEP_NUM_TASKS
        self.part((3, 3), SLURM_ARRAY_TASK_ID=10, SLURM_PROCID=0, SLURM_NTASKS=2, **array)
        self.part((1, 1), SLURM_ARRAY_TASK_ID=7, SLURM_ARRAY_TASK_MIN=7, SLURM_ARRAY_TASK_MAX=7, SLURM_ARRAY_TASK_COUNT=1)
        self.part("SLURM_ARRAY_TASK_ID is 8", SLURM_ARRAY_TASK_ID=8, **array)
        self.part("SLURM_ARRAY_TASK_ID is 1", SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_MIN=1, SLURM_ARRAY_TASK_MAX=7,
                  SLURM_ARRAY_TASK_COUNT=3)
        self.part("SLURM_ARRAY_TASK_ID is 7", SLURM_ARRAY_TASK_ID=7)
        self.part((2, 4), SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4, SLURM_NTASKS=8)
        self.part("SLURM_PROCID is 4", SLURM_PROCID=4, SLURM_STEP_NUM_TASKS=4)
        self.part("no variable", SLURM_PROCID=0, SLURM_NTASKS=4)
        self.part((3, 5), "auto/5", JOB_COMPLETION_INDEX=2)
        self.part("JOB_COMPLETION_INDEX is set, but nothing says how many", JOB_COMPLETION_INDEX=2)
        self.part("JOB_COMPLETION_INDEX says part 6 of 5", "auto/5", JOB_COMPLETION_INDEX=5)
        self.part((1, 3), AWS_BATCH_JOB_ARRAY_INDEX=0, AWS_BATCH_JOB_ARRAY_SIZE=3)
        self.part((1, 3), "auto/3", AWS_BATCH_JOB_ARRAY_INDEX=0)
        self.part((2, 2), RANK=1, WORLD_SIZE=2, LOCAL_RANK=1)
        self.part("WORLD_SIZE is not", RANK=1)
        self.part("RANK is \"one\"", RANK="one", WORLD_SIZE=2)
        self.part((2, 2), RANK=1, WORLD_SIZE=2, SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2)  # they agree
        self.part("SLURM_PROCID says part 1 of 2, RANK says 3 of 8", RANK=2, WORLD_SIZE=8, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2)
        self.part("JOB_COMPLETION_INDEX says part 1 of 2, AWS_BATCH_JOB_ARRAY_INDEX says 2 of 2", "auto/2", JOB_COMPLETION_INDEX=0,
                  AWS_BATCH_JOB_ARRAY_INDEX=1)
        self.part("no variable")

    def start(self, *arguments):
        return subprocess.Popen([CLI, *map(str, arguments)], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_many_at_once(self):
        """Parts that begin at the same time agree on one plan. Each part runs twice at once, and both runs do the same work."""
        self.photos(40)
        for _ in range(5):
            parts = [self.start("pack", "photos", "d.pst", "--part", f"{i % 3 + 1}/3", *SMALL) for i in range(6)]
            self.assertEqual([part.wait(120) for part in parts], [0] * 6)
            merges = [self.start("merge", "d.pst") for _ in range(3)]
            self.assertIn(0, [merge.wait(120) for merge in merges])
            self.ok("merge", "d.pst")
            self.same()
            subprocess.run(["rm", "-r", self.dir / "d.pst"], check=True)

    def killed_at_random(self, n_kills):
        """Parts and merges are killed at random moments. Each run has another number of parts."""
        self.photos(40)
        chance = random.Random(53)
        begun = time.monotonic()
        self.ok("pack", "photos", "timed.pst", "--part", "1/1", *SMALL)
        took = time.monotonic() - begun
        n_done = 0
        while n_done < n_kills:
            n = chance.randint(1, 3)
            parts = [self.start("pack", "photos", "d.pst", "--part", f"{i + 1}/{n}", *SMALL) for i in range(n)]
            time.sleep(chance.random() * took / 3)
            for part in parts:
                part.send_signal(chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            codes = [part.wait(120) for part in parts]
            n_done += sum(code != 0 for code in codes)
            merge = self.start("merge", "d.pst")
            time.sleep(chance.random() * 0.02)
            merge.kill()
            merge.wait(120)
            if any(codes) and not (self.dir / "d.pst/index.pst").exists():
                continue
            self.ok("merge", "d.pst")
            self.same()
            subprocess.run(["rm", "-r", self.dir / "d.pst"], check=True)
        self.ok("pack", "photos", "d.pst", "--part", "1/1", *SMALL)
        self.ok("merge", "d.pst")
        self.same()

    def test_killed(self):
        self.killed_at_random(10)

    def test_killed_often(self):
        if "long" not in sys.argv:
            self.skipTest("takes long")
        self.killed_at_random(N_KILLS)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[a for a in sys.argv[1:] if a != "long"]])
