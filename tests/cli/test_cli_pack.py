"""The messages of `penstock pack`: files that it leaves out, masks, whether PLI would save space, progress."""

import json
import os
import subprocess
import unittest

import cli_case
from cli_case import png


class TestPack(cli_case.Case):
    def masks(self, folder, names, suffix=""):
        for i, name in enumerate(names):
            self.write(f"{folder}/{name}{suffix}.png", png(64, 48, 1, seed=i)[0])

    def notices(self, *arguments):
        found = self.ok_json("info", *arguments)["notices"]
        return {(n["kind"], n["name"]): (n["count"], n["first"]) for n in found}

    def test_what_is_left_out_is_named_and_counted(self):
        self.jpegs("f/a", 3)
        for name in ("x.tiff", "sub/y.TIFF", "notes.txt", ".hidden.jpg", "Makefile"):
            self.write(f"f/a/{name}", b"")
        found = self.notices("f")
        self.assertEqual(found["left_out", ".tiff"][0], 2)
        self.assertIn(found["left_out", ".tiff"][1], ("a/x.tiff", "a/sub/y.TIFF"))  # depends on the order of the directory
        self.assertEqual(found["left_out", ".txt"], (1, "a/notes.txt"))
        self.assertEqual(found["left_out", "hidden"], (1, "a/.hidden.jpg"))
        self.assertEqual(found["left_out", "no extension"], (1, "a/Makefile"))
        done = self.run_cli("pack", "f", "a.pst")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"left out: 2 .tiff (the first: a/", done.stderr)
        self.assertIn(b"left out: 1 .txt (a/notes.txt)", done.stderr)
        report = self.ok_json("pack", "f", "b.pst")
        self.assertEqual(sorted((n["name"], n["count"]) for n in report["notices"]),
                         [(".tiff", 2), (".txt", 1), ("hidden", 1), ("no extension", 1)])
        self.assertEqual(self.run_cli("pack", "f", "c.pst", "--quiet").stderr, b"")

    def test_the_list_of_kinds_is_bounded(self):
        self.jpegs("f", 1)
        for i in range(50):
            self.write(f"f/x.k{i:02}", b"")
        found = self.ok_json("info", "f")["notices"]
        self.assertEqual(len(found), 32)
        self.assertEqual(sum(n["count"] for n in found), 50)
        self.assertEqual((found[-1]["name"], found[-1]["count"]), ("others", 19))

    def test_images_and_masks_in_folders_of_their_own(self):
        self.jpegs("f/images", 3)
        names = ["0000", "0001", "0002"]
        self.masks("f/masks", names)
        self.masks("f/inst_masks", names, "_mask")
        self.write("f/masks/extra.png", png(8, 8, 1)[0])
        info = self.ok_json("info", "f")
        self.assertEqual([(f["name"], f["type"]) for f in info["fields"]],
                         [("image", "image"), ("inst_mask", "mask"), ("mask", "mask")])
        self.assertEqual(self.notices("f"), {("mask_without_image", "mask"): (1, "masks/extra.png")})
        self.assertEqual(self.ok_json("pack", "f", "a.pst")["samples"], 3)
        for i, name in enumerate(names):
            stored = self.ok("cat", "a.pst", i, "--field", "mask")
            self.assertEqual(stored, (self.dir / f"f/masks/{name}.png").read_bytes())
            stored = self.ok("cat", "a.pst", i, "--field", "inst_mask")
            self.assertEqual(stored, (self.dir / f"f/inst_masks/{name}_mask.png").read_bytes())

    def test_sub_folders_of_images_have_their_masks_below_the_same_ones(self):
        self.jpegs("f/image/train/x", 2)
        self.masks("f/mask/train/x", ["0000", "0001"])
        self.assertEqual([s["name"] for s in self.ok_json("ls", "f")["samples"]],
                         ["image/train/x/0000.jpg", "image/train/x/0001.jpg"])
        self.assertEqual([f["name"] for f in self.ok_json("info", "f")["fields"]], ["image", "mask"])

    def test_an_image_without_mask_is_an_error_that_names_it(self):
        self.jpegs("f/images", 2)
        self.masks("f/masks", ["0000"])
        error = self.fails(1, "pack", "f", "a.pst", says="no mask of its name in masks/")["error"]
        self.assertEqual(error["file"], "images/0001.jpg")
        self.assertEqual(self.notices("f", "--allow-unreadable"),
                         {("image_without_mask", "mask"): (1, "images/0001.jpg")})

    def test_two_masks_of_one_name_are_an_error(self):
        self.jpegs("f/images", 1)
        self.masks("f/masks", ["0000"])
        self.write("f/masks/0000.webp", b"")
        self.fails(1, "info", "f", says="masks of the same name")

    def test_columns_of_masks_in_label_files(self):
        self.jpegs("f", 2)
        self.masks("f/m", ["0000", "0001"])
        rows = [f"{i:04}.jpg,m/{i:04}.png,m/{i:04}.png,m/{i:04}.png\n" for i in range(2)]
        self.write("l.csv", "file,mask,inst,mask_b\n" + "".join(rows))
        fields = self.ok_json("info", "f", "--labels", "l.csv")["fields"]
        self.assertEqual({f["name"]: f["type"] for f in fields},
                         {"image": "image", "mask": "mask", "inst": "text", "mask_b": "mask"})
        self.assertEqual(self.notices("f", "--labels", "l.csv"),
                         {("text_names_files", "inst"): (2, "m/0000.png")})
        self.assertIn(b"say --masks inst", self.run_cli("pack", "f", "a.pst", "--labels", "l.csv").stderr)
        self.ok("pack", "f", "b.pst", "--labels", "l.csv", "--masks", "inst")
        fields = self.ok_json("info", "b.pst")["fields"]
        self.assertEqual({f["name"]: f["type"] for f in fields}["inst"], "mask")
        self.fails(1, "pack", "f", "c.pst", "--labels", "l.csv", "--masks", "ins", says='no column "ins"')
        self.fails(1, "pack", "f", "c.pst", "--masks", "inst", says="--labels")
        self.write("l.jsonl", "".join(json.dumps({"file": f"{i:04}.jpg", "inst": f"m/{i:04}.png"}) + "\n" for i in range(2)))
        fields = self.ok_json("info", "f", "--labels", "l.jsonl", "--masks", "inst")["fields"]
        self.assertEqual(fields[1]["type"], "mask")

    def test_a_json_array_is_told_from_json_lines(self):
        self.jpegs("f", 1)
        self.write("l.jsonl", '[{"file": "0000.jpg", "label": 1}]')
        self.fails(1, "info", "f", "--labels", "l.jsonl", says="JSON lines are expected")

    def test_pli_is_tried_on_lossless_images(self):
        for i in range(3):
            self.write(f"f/{i}.png", png(96, 64, seed=i)[0])
        trial = self.ok_json("pack", "f", "a.pst")["pli_trial"]
        self.assertEqual(trial["images"], 3)
        self.assertEqual(trial["bytes"], sum((self.dir / f"f/{i}.png").stat().st_size for i in range(3)))
        packed = self.ok_json("pack", "f", "b.pst", "--form", "pli")
        self.assertNotIn("pli_trial", packed)
        self.assertEqual(trial["pli_bytes"], packed["bytes_out"])
        self.jpegs("g", 2)
        self.assertNotIn("pli_trial", self.ok_json("pack", "g", "c.pst"))

    def test_skipping_bad_images_skips_unreadable_ones_too(self):
        self.jpegs("f", 3)
        os.symlink("nowhere", self.dir / "f/gone.jpg")
        self.fails(1, "pack", "f", "a.pst", says="allow_unreadable")
        done = self.run_cli("pack", "f", "a.pst", "--on-error", "skip", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, report["samples"], report["unreadable"]), (1, 3, 1))
        for verb in (["ls"], ["info"], ["verify"], ["bench", "--epochs", 1]):
            self.assertIn("gone.jpg", json.dumps(self.fails(1, *verb, "f")))
            self.ok_json(*verb, "f", "--allow-unreadable")

    def test_parts_of_a_data_set_are_told_from_images(self):
        self.jpegs("f", 1)
        self.ok("pack", "f", "a.pst")
        self.fails(1, "info", "a.pst/shard-000000.pst", says="a shard of a data set")
        self.fails(1, "info", "a.pst/index.pst", says="the index of a data set")

    def test_progress_without_a_terminal(self):
        self.jpegs("f", 5)
        environment = {**os.environ, "PENSTOCK_PROGRESS_SECONDS": "0"}
        done = subprocess.run([cli_case.CLI, "pack", "f", "a.pst"], cwd=self.dir, env=environment, capture_output=True,
                              check=True)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("pack: ")]
        self.assertRegex(lines[-1], r"^pack: 100%  5 of 5  \S+ \S+  \S+/s  \S+ left$")
        self.assertNotIn(b"\r", done.stderr)
        environment["PENSTOCK_DISABLE_PROGRESS_BARS"] = "1"
        done = subprocess.run([cli_case.CLI, "pack", "f", "b.pst"], cwd=self.dir, env=environment, capture_output=True,
                              check=True)
        self.assertEqual(done.stderr, b"")

    def test_append_adds_classes(self):
        self.classes()
        self.classes("more", names=("ape", "cat"), count=1)
        for name in "ape", "cat":
            (self.dir / f"more/{name}/0000.jpg").rename(self.dir / f"more/{name}/new.jpg")
        self.ok("pack", "photos", "a.pst")
        self.fails(1, "append", "a.pst", "more", says=['class "ape"', "add_classes"])
        self.fails(2, "pack", "photos", "b.pst", "--add-classes", says="no option --add-classes")
        self.assertEqual(self.ok_json("append", "a.pst", "more", "--add-classes")["samples"], 2)
        info = self.ok_json("info", "a.pst")
        self.assertEqual(info["fields"][1]["classes"], ["cat", "dog", "ape"])
        samples = self.ok_json("ls", "a.pst")["samples"]
        self.assertEqual([s["class"] for s in samples], ["cat"] * 3 + ["dog"] * 3 + ["ape", "cat"])
        self.assertEqual(samples[6]["label"], 2)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])
        self.ok("append", "a.pst", "more", "--add-classes", "--resume")  # everything is appended, so nothing is left to do
        self.assertEqual(self.ok_json("info", "a.pst")["samples"], 8)


if __name__ == "__main__":
    unittest.main()
