"""Unpack with conflicts of names: two samples with one file name, links and files in the way, names that are too long."""

import json
import os
import subprocess
import unittest

import cli_case


class Names(cli_case.Case):
    def raw(self, *names):
        """Makes a data set of raw pixels, which unpack writes as PNG. `names`: the samples' names; each has its own picture."""
        for i, name in enumerate(names):
            self.write(f"f/{name}", cli_case.png(9, 7 + i, seed=i)[0])
        self.ok("pack", "f", "a.pst", "--form", "raw")

    def skips(self, *arguments):
        done = self.run_cli("unpack", *arguments, "--on-error", "skip", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        return json.loads(done.stdout)

    def test_two_samples_of_one_name(self):
        self.raw("x.jpg", "x.jpg.png", "y.png")  # the pixels of x.jpg would become x.jpg.png, too
        for workers in 1, 3:
            out = f"out{workers}"
            error = self.fails(1, "unpack", "a.pst", out, "--workers", workers, says="sample 0 has the file of this name")["error"]
            self.assertEqual((error["sample"], error["file"]), (1, "x.jpg.png"))
            # After --resume the first sample's file must not count as the second sample's.
            self.fails(1, "unpack", "a.pst", out, "--resume", "--workers", workers, says="sample 0 has the file of this name")
            for _ in range(2):
                report = self.skips("a.pst", out, "--resume", "--workers", workers)
                self.assertEqual((report["files"], report["skipped"], [b["name"] for b in report["bad"]]), (2, 1, ["x.jpg.png"]))
            self.assertEqual(sorted(os.listdir(self.dir / out)), ["x.jpg.png", "y.png"])
            self.assertEqual(self.ok("cat", f"{out}/x.jpg.png", "--pixels"), self.ok("cat", "a.pst", 0, "--pixels"))

    def test_a_file_where_another_sample_needs_a_folder(self):
        self.raw("c/x.jpg", "c/x.jpg.png/y.png", "c/z.png")
        for resume in (), ("--resume",):
            report = self.skips("a.pst", "out", *resume)
            self.assertEqual([(b["name"], b["error"]["file"]) for b in report["bad"]], [("c/x.jpg.png/y.png", "c/x.jpg.png")])
            self.assertEqual((report["files"], report["there_already"]), (2, 2 if resume else 0))

    def test_names_that_are_too_long(self):
        self.raw("a.png", "x" * 248 + ".jpg")  # with ".png" added the name is too long
        report = self.skips("a.pst", "out")
        self.assertEqual((report["files"], report["skipped"]), (1, 1))
        self.assertEqual(report["bad"][0]["error"]["status"], "LIMIT")
        self.fails(1, "unpack", "a.pst", "out2", says="File name too long")

    def test_links_are_not_followed(self):
        photos = self.classes(count=2)
        self.ok("pack", photos, "a.pst")
        (self.dir / "elsewhere").mkdir()
        (self.dir / "out").mkdir()
        os.symlink("../elsewhere", self.dir / "out/cat")
        self.fails(1, "unpack", "a.pst", "out", "--resume", says="links are not followed")
        self.assertEqual(os.listdir(self.dir / "elsewhere"), [])
        report = self.skips("a.pst", "out", "--resume")
        self.assertEqual((report["files"], report["skipped"]), (2, 2))
        self.assertEqual(os.listdir(self.dir / "elsewhere"), [])
        # A link to an equal file does not count as the sample's file.
        os.rename(self.dir / "out/dog/0000.jpg", self.dir / "elsewhere/0000.jpg")
        os.symlink("../../elsewhere/0000.jpg", self.dir / "out/dog/0000.jpg")
        report = self.skips("a.pst", "out", "--resume")
        self.assertEqual((report["files"], report["skipped"], report["there_already"]), (1, 3, 1))
        # The path of the output folder may be a link.
        (self.dir / "real").mkdir()
        os.symlink("real", self.dir / "named")
        self.ok("unpack", "a.pst", "named")
        self.assertEqual(sorted(os.listdir(self.dir / "real")), ["cat", "dog"])

    def test_temporaries_are_made_anew(self):
        self.ok("pack", self.jpegs("f", 2), "a.pst")
        (self.dir / "out").mkdir()
        victim = self.write("victim", "precious")
        for name in ".penstock-0.tmp", ".penstock-labels.tmp":
            os.symlink("../victim", self.dir / "out" / name)
        self.ok("unpack", "a.pst", "out", "--resume", "--workers", 1)
        self.assertEqual(victim.read_bytes(), b"precious")
        self.assertEqual(sorted(os.listdir(self.dir / "out")), ["0000.jpg", "0001.jpg"])

    def test_pictures_of_somebody_else_are_not_there_already(self):
        self.raw("x.png", "y.png")
        self.ok("unpack", "a.pst", "out")
        self.assertEqual(self.ok_json("unpack", "a.pst", "out", "--resume")["there_already"], 2)
        for other in cli_case.png(9, 7, seed=5)[0], b"no picture":
            self.write("out/x.png", other)
            self.fails(1, "unpack", "a.pst", "out", "--resume", says="something else is there already")
            self.assertEqual((self.dir / "out/x.png").read_bytes(), other)

    def test_a_part_is_not_taken_for_the_whole(self):
        subprocess.run([os.environ["MAKE_FIELDS"], self.dir / "a.pst"], check=True)
        done = self.run_cli("unpack", "a.pst", "out", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["not_restored"][0]["field"]), (1, "sound"))
        self.assertEqual(os.listdir(self.dir / "out"), ["a.png"])
        done = self.run_cli("unpack", "a.pst", "out", "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"field sound is NOT RESTORED", done.stdout)


if __name__ == "__main__":
    unittest.main()
