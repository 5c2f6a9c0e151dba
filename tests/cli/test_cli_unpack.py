"""JPEGs kept as PLI, on the command line: bytes saved, files that stay, and restored files."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import time
import unittest

import cli_case


class Unpack(cli_case.Case):
    def tree(self, where):
        root = self.dir / where
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    def test_what_was_saved_is_said(self):
        photos = self.classes()
        report = self.ok_json("pack", photos, "a.pst")
        before = sum(p.stat().st_size for p in photos.rglob("*.jpg"))
        self.assertEqual((report["pli_jpeg"]["items"], report["pli_jpeg"]["jpeg_bytes"]), (6, before))
        self.assertEqual(report["pli_jpeg"]["bytes"], report["bytes_out"] - 6 * 8)
        self.assertLess(report["pli_jpeg"]["bytes"], before)
        self.assertEqual(report["kept_jpeg"], {"items": 0, "bytes": 0, "reasons": []})
        forms = self.ok_json("info", "a.pst")["fields"][0]["forms"]
        self.assertEqual((forms["pli-jpeg"]["jpeg_bytes"], forms["pli-jpeg"]["bytes"]), (before, report["pli_jpeg"]["bytes"]))
        text = self.ok("pack", photos, "b.pst").decode()
        self.assertIn("6 JPEG kept as PLI", text)
        self.assertIn("% saved", text)
        self.assertIn(b"% of the JPEG files", self.ok("info", "a.pst"))

    def test_what_stays_is_named(self):
        photos = self.jpegs("f", 5)
        for i in 1, 3:  # a file without its last bytes can be decoded only in part
            content = (photos / f"000{i}.jpg").read_bytes()
            (photos / f"000{i}.jpg").write_bytes(content[:-len(content) // 3])
        report = self.ok_json("pack", photos, "a.pst")
        kept = report["kept_jpeg"]
        self.assertEqual((report["samples"], report["pli_jpeg"]["items"], kept["items"]), (5, 3, 2))
        self.assertEqual([name for r in kept["reasons"] for name in r["first"]], ["0001.jpg", "0003.jpg"])
        self.assertEqual(sum(r["samples"] for r in kept["reasons"]), 2)
        text = self.ok("pack", photos, "b.pst").decode()
        self.assertIn("2 JPEG stay as they are", text)
        self.assertIn("0001.jpg", text)
        self.assertEqual([s["form"] for s in self.ok_json("ls", "a.pst", "--long")["samples"]],
                         ["pli-jpeg", "jpeg", "pli-jpeg", "jpeg", "pli-jpeg"])
        self.ok("unpack", "a.pst", "out")
        self.assertEqual(self.tree("out"), self.tree("f"))
        self.fails(1, "pack", photos, "c.pst", "--verify-pixels", says="0001.jpg")

    def test_forms(self):
        photos = self.jpegs("f", 3)
        stored = {}
        for form in "jpeg", "original", "pli-jpeg", "raw,pli-jpeg", "pli-jpeg,jpeg":
            self.ok("pack", photos, f"{form}.pst", "--form", form)
            stored[form] = set(self.ok_json("info", f"{form}.pst")["fields"][0]["forms"])
            self.ok("verify", f"{form}.pst", "--decode", "--restore")
            self.assertEqual(self.ok("cat", f"{form}.pst", 1, "--original"), (photos / "0001.jpg").read_bytes())
        self.assertEqual(stored, {"jpeg": {"jpeg"}, "original": {"jpeg"}, "pli-jpeg": {"pli-jpeg"},
                                  "raw,pli-jpeg": {"raw", "pli-jpeg"}, "pli-jpeg,jpeg": {"pli-jpeg", "jpeg"}})
        # Copies from data set to data set: unchanged, into PLI, and back.
        self.ok("pack", "pli-jpeg.pst", "same.pst")
        self.ok("pack", "jpeg.pst", "kept.pst", "--form", "pli-jpeg")
        self.ok("pack", "kept.pst", "back.pst", "--form", "jpeg")
        for i in range(3):
            self.assertEqual(self.ok("cat", "same.pst", i), self.ok("cat", "pli-jpeg.pst", i))
            self.assertEqual(self.ok("cat", "kept.pst", i), self.ok("cat", "pli-jpeg.pst", i))
            self.assertEqual(self.ok("cat", "back.pst", i), self.ok("cat", "jpeg.pst", i))
        self.fails(1, "pack", "kept.pst", "x.pst", "--form", "pli", says="lossy already (pli-jpeg)")
        self.ok("pack", "kept.pst", "y.pst", "--form", "pli", "--of-lossy")
        self.assertEqual(self.ok("cat", "y.pst", 0, "--pixels"), self.ok("cat", "kept.pst", 0, "--pixels"))

    def test_other_images_stay(self):
        self.jpegs("f", 1)
        self.write("f/x.png", cli_case.png(9, 7)[0])
        self.ok("cat", "f/0000.jpg", "--as", "pli-jpeg", "-o", "f/y.pli")
        self.ok("cat", "f/x.png", "--as", "pli", "-o", "f/z.pli")
        self.ok("pack", "f", "a.pst")
        self.assertEqual([s["form"] for s in self.ok_json("ls", "a.pst", "--long")["samples"]],
                         ["pli-jpeg", "png", "pli-jpeg", "pli"])
        self.ok("verify", "a.pst", "--decode", "--restore")
        self.ok("unpack", "a.pst", "out")
        self.assertEqual(self.tree("out"), self.tree("f"))  # y.pli is the packed file, not the JPEG from which it was made
        self.ok("verify", "f/y.pli", "--restore")
        self.ok("verify", "f", "--restore")

    def test_names_do_not_say_what_a_file_was(self):
        self.jpegs("f", 3)
        os.rename(self.dir / "f/0000.jpg", self.dir / "f/0000.pli")  # a JPEG
        self.ok("cat", "f/0001.jpg", "--as", "pli-jpeg", "-o", "y")
        os.rename(self.dir / "y", self.dir / "f/0001.jpg")  # a PLI made from a JPEG
        self.write("x.png", cli_case.png(9, 7)[0])
        self.ok("cat", "x.png", "--as", "pli", "-o", "f/0003.png")  # a PLI made from pixels
        self.ok("pack", "f", "a.pst")
        self.ok("pack", "a.pst", "b.pst")  # originals stay known when a data set is packed from a data set
        files = self.tree("f")
        self.assertEqual([s["form"] for s in self.ok_json("ls", "a.pst", "--long")["samples"]],
                         ["pli-jpeg", "pli-jpeg", "pli-jpeg", "pli"])
        for name in "a", "b":
            report = self.ok_json("unpack", f"{name}.pst", f"{name}.out")
            self.assertEqual((report["restored"], report["not_original"]), (2, 0))
            self.assertEqual(self.tree(f"{name}.out"), files)
            for i, file in enumerate(sorted(files)):
                self.assertEqual(self.ok("cat", f"{name}.pst", i, "--original"), files[file])
        # An image that was encoded again is not the original, and its original is not stored.
        self.ok("pack", "a.pst", "c.pst", "--form", "pli", "--max-error", 2)
        self.fails(1, "cat", "c.pst", 3, "--original", says="was not kept")

    def test_single_files(self):
        self.jpegs("f", 1)
        jpeg = (self.dir / "f/0000.jpg").read_bytes()
        self.ok("cat", "f/0000.jpg", "--as", "pli-jpeg", "-o", "x.pli")
        self.assertEqual(self.ok("cat", "x.pli", "--original"), jpeg)
        self.assertEqual(self.ok("cat", "f/0000.jpg", "--original"), jpeg)
        self.assertEqual(self.ok("cat", "x.pli", "--pixels"), self.ok("cat", "f/0000.jpg", "--pixels"))
        pli = self.ok_json("info", "x.pli")
        self.assertEqual((pli["form"], pli["pli"]["content"], pli["pli"]["jpeg_bytes"]), ("pli-jpeg", "jpeg", len(jpeg)))
        self.assertEqual(pli["pli"]["bytes"], os.path.getsize(self.dir / "x.pli"))
        self.assertIn(pli["pli"]["subsampling"].encode(), self.ok("info", "x.pli"))
        self.write("y.png", cli_case.png(4, 4)[0])
        self.fails(1, "cat", "y.png", "--as", "pli-jpeg", says="made of JPEG files alone")
        self.fails(2, "cat", "x.pli", "--original", "--as", "png", says="--original")

    def test_altered_files_do_not_come_back(self):
        self.jpegs("f", 1)
        self.ok("cat", "f/0000.jpg", "--as", "pli-jpeg", "-o", "x.pli")
        content = (self.dir / "x.pli").read_bytes()
        jpeg = hashlib.sha256((self.dir / "f/0000.jpg").read_bytes()).digest()
        for at in range(0, len(content), max(1, len(content) // 97)):
            self.write("y.pli", content[:at] + bytes([content[at] ^ 4]) + content[at + 1:])
            done = self.run_cli("cat", "y.pli", "--original")
            self.assertTrue(done.returncode == 1 or hashlib.sha256(done.stdout).digest() == jpeg, at)
            # Damage that does not change pixels is detected when the file is restored.
            self.assertEqual(self.run_cli("verify", "y.pli", "--restore").returncode, 1, at)

    def test_folders_come_back(self):
        photos = self.classes(count=4)
        self.ok("pack", photos, "a.pst")
        report = self.ok_json("unpack", "a.pst", "out")
        self.assertEqual((report["files"], report["restored"], report["labels"], report["not_restored"]), (8, 8, None, []))
        self.assertEqual(self.tree("out"), self.tree("photos"))
        self.fails(1, "unpack", "a.pst", "out", says="not empty")
        os.unlink(self.dir / "out/cat/0001.jpg")
        report = self.ok_json("unpack", "a.pst", "out", "--resume")
        self.assertEqual((report["files"], report["there_already"], report["restored"]), (8, 7, 1))
        self.assertEqual(self.tree("out"), self.tree("photos"))
        self.write("out/cat/0001.jpg", "other")
        self.fails(1, "unpack", "a.pst", "out", "--resume", says="there already")
        self.assertEqual((self.dir / "out/cat/0001.jpg").read_bytes(), b"other")
        self.fails(1, "unpack", photos, "out2", says=f"data set '{photos}': this is a folder of images already")
        self.assertFalse((self.dir / "out2").exists())
        for n in 1, 3:
            self.ok("unpack", "a.pst", f"w{n}", "--workers", n)
            self.assertEqual(self.tree(f"w{n}"), self.tree("photos"))

    def test_two_runs_do_not_share_a_folder(self):
        self.ok("pack", self.jpegs("f", 2), "a.pst")
        self.ok("unpack", "a.pst", "out")
        folder = os.open(self.dir / "out", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        self.fails(1, "unpack", "a.pst", "out", "--resume", says="another run is unpacking")
        os.close(folder)
        self.ok("unpack", "a.pst", "out", "--resume")

    def test_offsets_count_from_the_start_of_the_file(self):
        photos = self.jpegs("f", 2)
        whole = (photos / "0001.jpg").read_bytes()
        (photos / "0001.jpg").write_bytes(whole[:-len(whole) // 3])
        self.ok("pack", photos, "a.pst", "--form", "original")
        begins = self.ok("cat", "a.pst", 0)
        shard = (self.dir / "a.pst/shard-000000.pst").read_bytes()
        item = shard.index(begins) + len(begins)
        for verb in ("cat", "a.pst", 1, "--as", "pli-jpeg"), ("cat", "a.pst", 1, "--as", "png"):
            error = json.loads(self.run_cli(*verb, "--json").stdout)["error"]
            self.assertTrue(error["file"].endswith("shard-000000.pst"), error)
            self.assertGreaterEqual(error["offset"], item, error)

    def test_labels_come_back(self):
        self.jpegs("f", 3)
        for i in range(3):
            self.write(f"f/m/{i}.png", cli_case.png(64, 48, 1, seed=i)[0])
        lines = [{"file": f"000{i}.jpg", "label": name, "mask": f"m/{i}.png", "note": f'"grün"\n\\{i}', "score": score,
                  "count": i * 2**40, "boxes": boxes, "meta": {"a": [1, i]}}
                 for i, (name, score, boxes) in enumerate([("b", 0.1, [[1, 2, 3, 4]]), ("a", 2, []),
                                                           ("b", -1e30, [[0.1, 0, 9, 9], [5, 5, 6, 6.5]])])]
        self.write("l.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.ok("pack", "f", "a.pst", "--labels", "l.jsonl")
        report = self.ok_json("unpack", "a.pst", "out")
        self.assertEqual((report["labels"], report["not_restored"]), ("labels.jsonl", []))
        self.assertEqual((report["files"], report["masks"], report["restored"]), (6, 3, 3))
        self.assertEqual(report["bytes"], sum(map(len, self.tree("out").values())))
        self.assertIn(b"6 files", self.ok("unpack", "a.pst", "again"))
        # A resumed run counts only its own work.
        os.unlink(self.dir / "out/masks/0001.jpg.png")
        os.unlink(self.dir / "out/0002.jpg")
        written = sum(len((self.dir / "again" / name).read_bytes()) for name in ("masks/0001.jpg.png", "0002.jpg"))
        report = self.ok_json("unpack", "a.pst", "out", "--resume")
        self.assertEqual((report["files"], report["there_already"], report["restored"]), (6, 4, 1))
        self.assertEqual((report["bytes"], self.tree("out")), (written, self.tree("again")))
        self.write("again/labels.jsonl", "{}\n")
        self.fails(1, "unpack", "a.pst", "again", "--resume", says="labels.jsonl")
        self.assertEqual((self.dir / "again/labels.jsonl").read_bytes(), b"{}\n")
        self.ok("pack", "out", "b.pst", "--labels", "out/labels.jsonl")
        for i in range(3):
            self.assertEqual(self.ok("cat", "out", f"000{i}.jpg", "--labels", "out/labels.jsonl"),
                             (self.dir / f"f/000{i}.jpg").read_bytes())
            for field in "image", "label", "mask", "note", "score", "count", "boxes", "meta":
                self.assertEqual(self.ok("cat", "a.pst", i, "--field", field), self.ok("cat", "b.pst", i, "--field", field))
        self.assertEqual(self.ok("ls", "a.pst"), self.ok("ls", "b.pst"))

    def test_what_is_beyond_a_limit_is_a_bad_sample(self):
        self.jpegs("f", 2)
        deep = "/".join(["d" * 200] * 15)  # a path of 3 KB is possible here, but not below a long folder
        for place, name in ("a", "0000.jpg"), (deep, "0001.jpg"):
            (self.dir / "f" / place).mkdir(parents=True)
            os.rename(self.dir / "f" / name, self.dir / "f" / place / name)
        self.ok("pack", "f", "a.pst")
        folder = "/".join(["e" * 200] * 6)
        (self.dir / folder).mkdir(parents=True)
        report = self.run_cli("unpack", "a.pst", folder, "--on-error", "skip", "--json")
        self.assertEqual(report.returncode, 1)
        report = json.loads(report.stdout)
        self.assertEqual((report["files"], report["skipped"]), (1, 1))
        self.assertIn("too long", report["bad"][0]["error"]["text"])

    def test_pixels_become_files_of_another_name(self):
        self.write("f/x.png", cli_case.png(9, 7)[0])
        self.write("f/y.png", cli_case.png(5, 7, 1, 16)[0])
        for form, suffix in ("raw", ""), ("pli", ".pli"):
            self.ok("pack", "f", f"{form}.pst", "--form", form)
            report = self.ok_json("unpack", f"{form}.pst", f"{form}-out")
            self.assertEqual((report["not_original"], report["restored"]), (2, 0))
            self.assertEqual(sorted(self.tree(f"{form}-out")), [f"x.png{suffix}", f"y.png{suffix}"])
            for name in "x.png", "y.png":
                self.assertEqual(self.ok("cat", f"{form}-out/{name}{suffix}", "--pixels"), self.ok("cat", f"f/{name}", "--pixels"))

    def test_append_and_resume_keep_the_form(self):
        self.jpegs("f", 2)
        self.jpegs("g", 3)
        os.unlink(self.dir / "g/0000.jpg")
        os.unlink(self.dir / "g/0001.jpg")
        for form in "jpeg", "pli-jpeg":
            self.ok("pack", "f", f"{form}.pst", "--form", form)
            self.ok("append", f"{form}.pst", "g")
            self.assertEqual({s["form"] for s in self.ok_json("ls", f"{form}.pst", "--long")["samples"]}, {form})
        whole = self.jpegs("h", 8)
        good = (whole / "0005.jpg").read_bytes()
        (whole / "0005.jpg").write_bytes(b"bad")
        self.fails(1, "pack", whole, "p.pst", "--workers", 1, says="0005.jpg")
        self.fails(1, "pack", whole, "o.pst", "--workers", 1, "--form", "original", says="0005.jpg")
        (whole / "0005.jpg").write_bytes(good)
        self.fails(1, "pack", whole, "p.pst", "--resume", "--form", "original", says="as pli-jpeg, original is asked for")
        self.fails(1, "pack", whole, "o.pst", "--resume", says="as jpeg, pli-jpeg is asked for")
        shorter = (whole / "0002.jpg").read_bytes()
        (whole / "0002.jpg").write_bytes(shorter + b"more")
        self.fails(1, "pack", whole, "p.pst", "--resume", says="0002.jpg")
        (whole / "0002.jpg").write_bytes(shorter)
        report = self.ok_json("pack", whole, "p.pst", "--resume")
        self.assertEqual((report["samples"], report["resumed"]), (8, 5))
        self.ok("pack", whole, "q.pst")
        self.assertEqual(self.ok("ls", "p.pst", "--long"), self.ok("ls", "q.pst", "--long"))
        for i in range(8):
            self.assertEqual(self.ok("cat", "p.pst", i), self.ok("cat", "q.pst", i))

    def test_a_kill_leaves_whole_files_only(self):
        photos = self.jpegs("f", 120, 400, 300)
        self.ok("pack", photos, "a.pst")
        wanted = self.tree("f")
        for delay in 0.01, 0.03, 0.06:
            done = subprocess.Popen([cli_case.CLI, "unpack", "a.pst", "out", "--resume", "--quiet"], cwd=self.dir)
            time.sleep(delay)
            done.send_signal(signal.SIGKILL)
            done.wait()
            if (self.dir / "out").exists():
                for name, content in self.tree("out").items():
                    if not name.startswith("."):
                        self.assertEqual(content, wanted[name])
        # Unfinished files of all workers are removed.
        (self.dir / "out").mkdir(exist_ok=True)
        self.write("out/.penstock-200.tmp", "part")
        self.ok("unpack", "a.pst", "out", "--resume", "--workers", 1)
        self.assertEqual(self.tree("out"), wanted)
        self.ok("verify", "out")


if __name__ == "__main__":
    unittest.main()
