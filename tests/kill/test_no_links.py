"""Packs in parts on a file system without hard links, which kill_shim.c imitates."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import cli_case  # noqa: E402
from cli_case import CLI  # noqa: E402

SMALL = ("--shard-size", "6KiB", "--workers", "1")


class NoLinks(cli_case.Case):
    def start(self, how, *arguments):
        env = {**os.environ, "LD_PRELOAD": os.environ["KILL_SHIM"], "PST_NO_LINKS": how}
        return subprocess.Popen([CLI, *arguments], cwd=self.dir, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run_all(self, runs):
        said = [run.communicate(timeout=120)[1].decode() for run in runs]
        self.assertEqual([run.returncode for run in runs], [0] * len(runs), said)

    def files(self, name):
        return {path.name: path.read_bytes() for path in (self.dir / name).iterdir()}

    def test_parts_that_begin_at_once_make_one_plan(self):
        """Plans get their name by a rename that does not replace a plan, so no part packs by a plan that was replaced."""
        self.classes(count=12)
        self.ok("pack", "photos", "one.pst", *SMALL)
        for _ in range(8):
            self.run_all([self.start("", "pack", "photos", "d.pst", "--part", f"{i + 1}/4", *SMALL) for i in range(4)])
            self.assertEqual(len(list((self.dir / "d.pst").glob("parts-*"))), 1)
            self.run_all([self.start("", "merge", "d.pst")])
            self.assertEqual(self.files("d.pst"), self.files("one.pst"))
            shutil.rmtree(self.dir / "d.pst")

    def test_without_such_a_rename_a_prepared_plan_is_one(self):
        self.classes(count=6)
        self.ok("pack", "photos", "one.pst", *SMALL)
        self.run_all([self.start("replace", "pack", "photos", "d.pst", "--prepare", *SMALL)])
        self.run_all([self.start("replace", "pack", "photos", "d.pst", "--part", f"{i + 1}/3", *SMALL) for i in range(3)])
        self.run_all([self.start("replace", "merge", "d.pst")])
        self.assertEqual(self.files("d.pst"), self.files("one.pst"))


if __name__ == "__main__":
    unittest.main()
