"""repack makes a data set from a data set: images in other forms, everything else unchanged."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import cli_case
from cli_case import CLI


class Repack(cli_case.Case):
    def forms(self, path, field=0):
        """Returns the number of items of each form of a field."""
        return {form: of["items"] for form, of in self.ok_json("info", path)["fields"][field]["forms"].items()}

    def items(self, path, n, variant=0, field="image"):
        return [self.ok("cat", path, i, "--variant", variant, "--field", field) for i in range(n)]

    def mixed(self):
        """Packs JPEGs of two classes and a PNG without changing their form: a.pst, with 5 samples."""
        self.classes(count=2)
        self.write("photos/dog/z.png", cli_case.png(30, 20)[0])
        self.ok("pack", "photos", "a.pst", "--form", "original")

    def same_listing(self, a, b):
        """Asserts that names, order, labels, classes and fields are the same."""
        keys = "sample", "name", "label", "class"
        listings = [[[s.get(k) for k in keys] for s in self.ok_json("ls", p)["samples"]] for p in (a, b)]
        self.assertEqual(*listings)
        fields = [[(f["name"], f["type"], f.get("classes")) for f in self.ok_json("info", p)["fields"]] for p in (a, b)]
        self.assertEqual(*fields)

    def test_there_and_back(self):
        self.mixed()
        before = self.items("a.pst", 5)
        sizes = [len(item) for item in before]
        report = self.ok_json("repack", "a.pst", "b.pst")
        self.assertEqual((report["samples"], report["resumed"], report["skipped"]), (5, 0, 0))
        self.assertEqual((report["pli_jpeg"]["items"], report["pli_jpeg"]["jpeg_bytes"]), (4, sum(sizes[:4])))
        self.assertLess(report["pli_jpeg"]["bytes"], report["pli_jpeg"]["jpeg_bytes"])
        self.assertEqual(report["restored_jpeg"], {"items": 0, "pli_jpeg_bytes": 0, "bytes": 0})
        self.assertEqual(self.forms("b.pst"), {"pli-jpeg": 4, "png": 1})
        self.same_listing("a.pst", "b.pst")
        self.assertTrue(self.ok_json("verify", "b.pst", "--decode", "--restore")["ok"])
        # Packing the folder directly gives the same result.
        self.ok("pack", "photos", "direct.pst")
        self.assertEqual(self.items("b.pst", 5), self.items("direct.pst", 5))
        self.assertEqual(self.ok("ls", "b.pst", "--long"), self.ok("ls", "direct.pst", "--long"))
        back = self.ok_json("repack", "b.pst", "c.pst", "--form", "original")
        self.assertEqual(back["restored_jpeg"], {"items": 4, "pli_jpeg_bytes": report["pli_jpeg"]["bytes"],
                                                 "bytes": sum(sizes[:4])})
        self.assertEqual((back["pli_jpeg"]["items"], back["not_original"]), (0, 0))
        self.assertEqual(self.items("c.pst", 5), before)
        self.assertEqual(self.ok("ls", "c.pst", "--long"), self.ok("ls", "a.pst", "--long"))
        verified = [self.ok_json("verify", p, "--decode") for p in ("a.pst", "c.pst")]
        for of in verified:
            of.pop("path", None)
        self.assertEqual(*verified)
        # "jpeg" is a form for JPEGs only; the error names a form for all images.
        error = self.fails(1, "repack", "b.pst", "d.pst", "--form", "jpeg", says=["png", "original"])["error"]
        where = os.path.realpath(self.dir / "b.pst")
        self.assertEqual((error["status"], error["sample"], error["dataset"]), ("UNSUPPORTED", 4, where))
        left = self.fails(1, "repack", "b.pst", "d.pst", "--form", "jpeg", "--on-error", "skip", "--resume")
        self.assertEqual((left["samples"], left["skipped"]), (4, 1))
        self.assertEqual(self.items("d.pst", 4), before[:4])

    def test_what_it_says(self):
        self.mixed()
        out = self.ok("repack", "a.pst", "b.pst")
        self.assertRegex(out, rb"b\.pst: 5 samples, .* read, .* written \(\d+\.\d %\)\n  4 JPEG kept as PLI.* saved\n")
        out = self.ok("repack", "b.pst", "c.pst", "--form", "original")
        self.assertIn(b"  4 JPEG made again from pli-jpeg, byte for byte: ", out)
        done = self.run_cli("repack", "b.pst", "d.pst")  # nothing has to be done, and a note says so
        self.assertIn(b"no JPEG is left to become pli-jpeg", done.stderr)
        self.assertEqual((done.returncode, self.items("d.pst", 5)), (0, self.items("b.pst", 5)))
        done = self.run_cli("repack", "b.pst", "e.pst", "--quiet")
        self.assertEqual((done.stdout, done.stderr), (b"", b""))
        self.assertEqual(self.run_cli("repack", "a.pst", "f.pst").stderr, b"")

    def test_pack_does_the_same(self):
        self.mixed()
        self.ok("repack", "a.pst", "b.pst")
        self.ok("pack", "a.pst", "c.pst")
        self.assertEqual(self.items("b.pst", 5), self.items("c.pst", 5))
        self.assertEqual(self.ok("ls", "b.pst", "--long"), self.ok("ls", "c.pst", "--long"))

    def test_lossless_tiers(self):
        pixels = []
        for i in range(3):
            data, of = cli_case.png(200 + i, 150, 3, seed=i)
            self.write(f"f/{i}.png", data)
            pixels.append(of)
        self.ok("pack", "f", "a.pst")
        self.ok("repack", "a.pst", "small.pst", "--form", "pli")
        report = self.ok_json("repack", "small.pst", "dense.pst", "--form", "pli", "--tier", "dense")
        for path, tier in ("small.pst", "small"), ("dense.pst", "dense"):
            self.assertEqual(self.forms(path), {"pli": 3})
            self.assertEqual([self.ok("cat", path, i, "--as", "raw") for i in range(3)], pixels)
            self.write("x.pli", self.ok("cat", path, 0))
            self.assertEqual(self.ok_json("info", "x.pli")["pli"]["tier"], tier)
            self.assertTrue(self.ok_json("verify", path, "--decode")["ok"])
        self.assertEqual(report["bytes_in"], sum(len(item) for item in self.items("small.pst", 3)))
        self.assertEqual(report["bytes_out"], sum(len(item) for item in self.items("dense.pst", 3)))
        # The JPEG files cannot be restored, which is reported and counted.
        report = self.ok_json("repack", "dense.pst", "c.pst", "--form", "original")
        self.assertEqual((report["not_original"], report["restored_jpeg"]["items"]), (3, 0))
        self.assertEqual(self.items("c.pst", 3), self.items("dense.pst", 3))
        self.assertIn(b"3 stay as they are: only their pixels", self.ok("repack", "c.pst", "d.pst", "-f", "original"))

    def test_fields_stay(self):
        lines = []
        for i in range(4):
            self.write(f"f/masks/{i}.png", cli_case.png(64, 48, 1, 16 if i % 2 else 8, seed=i)[0])
            lines.append({"file": f"000{3 - i}.jpg", "label": "cba"[i % 3], "mask": f"masks/{i}.png", "note": f"n{i}\n",
                          "score": i / 3, "boxes": [[1, 2, 3, 4 + i]] * i, "keypoints": [[1, 2, i]], "meta": {"i": [i]}})
        self.jpegs("f", 4)
        self.write("labels.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.ok("pack", "f", "a.pst", "--labels", "labels.jsonl", "--form", "original")
        self.ok("repack", "a.pst", "b.pst", "--workers", 3)
        self.ok("repack", "b.pst", "c.pst", "--mask-form", "pli", "--form", "original,raw")
        for path in "b.pst", "c.pst":
            self.same_listing("a.pst", path)
            for field in "label", "note", "score", "boxes", "keypoints", "meta":
                self.assertEqual(self.items(path, 4, 0, field), self.items("a.pst", 4, 0, field), field)
            self.assertTrue(self.ok_json("verify", path, "--decode")["ok"])
        self.assertEqual(self.items("b.pst", 4, 0, "mask"), self.items("a.pst", 4, 0, "mask"))
        self.assertEqual(self.items("c.pst", 4), self.items("a.pst", 4))
        for i in range(4):
            masks = [self.ok("cat", p, i, "--field", "mask", "--as", "raw") for p in ("a.pst", "c.pst")]
            self.assertEqual(*masks)
        self.assertNotEqual(self.items("c.pst", 4, 0, "mask"), self.items("a.pst", 4, 0, "mask"))

    def test_variants_stay(self):
        self.mixed()
        self.ok("pack", "a.pst", "pli.pst")
        self.ok("pack", "photos", "two.pst", "--form", "original,raw")
        self.ok("repack", "two.pst", "b.pst")
        self.assertEqual(self.items("b.pst", 5), self.items("pli.pst", 5))
        self.assertEqual(self.items("b.pst", 5, 1), self.items("two.pst", 5, 1))
        # Both variants are JPEGs, and each becomes a PLI of its own.
        jpegs = self.jpegs("g", 3)
        self.ok("pack", jpegs, "j.pst", "--form", "original,jpeg")
        self.ok("repack", "j.pst", "jj.pst")
        self.assertEqual(self.forms("jj.pst"), {"pli-jpeg": 6})
        self.assertEqual(self.items("jj.pst", 3), self.items("jj.pst", 3, 1))
        for i in range(3):
            self.assertEqual(self.ok("cat", "jj.pst", i, "--original"), (jpegs / f"000{i}.jpg").read_bytes())
        # A JPEG beside its PLI was stored intentionally, so it stays.
        self.ok("pack", jpegs, "both.pst", "--form", "pli-jpeg,jpeg")
        self.ok("repack", "both.pst", "c.pst")
        for variant in 0, 1:
            self.assertEqual(self.items("c.pst", 3, variant), self.items("both.pst", 3, variant))
        # Keeps only one of the forms, or adds one.
        self.ok("repack", "both.pst", "d.pst", "--form", "jpeg")
        self.assertEqual(self.items("d.pst", 3), self.items("both.pst", 3, 1))
        self.ok("repack", "jj.pst", "e.pst", "--form", "original,pli-jpeg")
        self.assertEqual(self.items("e.pst", 3), self.items("both.pst", 3, 1))
        self.assertEqual(self.items("e.pst", 3, 1), self.items("both.pst", 3))

    def test_original_is_the_file_that_was_packed(self):
        self.mixed()
        before = self.items("a.pst", 5)
        self.ok("repack", "a.pst", "b.pst", "--form", "raw,pli-jpeg")
        self.ok("repack", "b.pst", "c.pst", "--form", "original")
        self.assertEqual(self.items("c.pst", 5), before)
        # PLI files that were packed count as originals, even if they hold a JPEG.
        self.ok("cat", "photos/cat/0000.jpg", "--as", "pli-jpeg", "-o", "j.pli")
        self.ok("cat", "photos/dog/z.png", "--as", "pli", "-o", "p.pli")
        files = [self.write(f"f/{n}", (self.dir / n).read_bytes()).read_bytes() for n in ("j.pli", "p.pli")]
        self.ok("pack", "f", "f.pst")
        for form in [], ["--form", "original"], ["--form", "raw,original"]:
            self.ok("repack", "f.pst", "g.pst", *form)
            self.assertEqual(self.items("g.pst", 2, 1 if "raw,original" in form else 0), files)
            self.ok("unpack", "g.pst", "out")
            self.assertEqual([(self.dir / "out" / n).read_bytes() for n in ("j.pli", "p.pli")], files)
            for name in "g.pst", "out":
                shutil.rmtree(self.dir / name)

    def test_wrong_use(self):
        self.mixed()
        os.symlink("a.pst", self.dir / "link.pst")
        before = sorted(os.listdir(self.dir))
        for source, destination, says in [
                ("photos", "x.pst", "photos': this is a plain folder, not a data set: pack it first"),
                ("photos/dog/z.png", "x.pst", "a data set is a directory, this is not one"),
                ("nowhere.pst", "x.pst", "nowhere.pst"),
                ("a.pst", "a.pst", "same data set"), ("a.pst", "a.pst/", "same data set"),
                ("link.pst", "a.pst", "same data set"), ("a.pst", "link.pst", "same data set"),
                ("a.pst", "a.pst/b.pst", "lies within"), ("a.pst", "a.pst/no/../b.pst", "lies within"),
                ("a.pst", "link.pst/no/b.pst", "lies within"),
                ("a.pst", "photos", "not empty"), ("a.pst", "no/b.pst", "no/b.pst")]:
            for more in [], ["--resume"]:
                with self.subTest((source, destination, more)):
                    self.fails(1, "repack", source, destination, *more, says=says)
        for options, says in [(["--form", "pli_jpeg"], 'did you mean "pli-jpeg"'), (["--form", "gif"], "no form"),
                              (["--labels", "x"], "no option"), (["--from", "raw"], "did you mean --form"),
                              (["--tier", "dense"], "go with the form pli"), (["--on-error", "x"], "stop or skip")]:
            self.assertEqual(self.fails(2, "repack", "a.pst", "x.pst", *options, says=says)["error"]["status"], "USAGE")
        self.fails(2, "repack", "a.pst", says="operand is missing")
        self.fails(2, "repak", "a.pst", "x.pst", says='did you mean "repack"')
        error = self.fails(1, "repack", "a.pst", "x.pst", "--form", "raw,raw", says="twice")["error"]
        self.assertEqual(error["status"], "ARGUMENT")
        self.fails(1, "append", "a.pst", "a.pst", says="same data set")
        self.assertEqual(sorted(os.listdir(self.dir)), before)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])
        self.ok("repack", "a.pst", "b.pst")
        self.fails(1, "repack", "a.pst", "b.pst", says="there already")
        self.assertEqual(self.ok_json("repack", "a.pst", "b.pst", "--resume")["resumed"], 5)
        # A path that only seems to lie within the source is allowed.
        self.ok("repack", "a.pst", "a.pst/../c.pst")
        self.ok("repack", "a.pst", "a.pst2")

    def test_no_samples(self):
        self.write("f/a.jpg", b"no image")
        self.fails(1, "pack", "f", "a.pst", "--on-error", "skip")
        self.assertEqual(self.ok_json("repack", "a.pst", "b.pst")["samples"], 0)
        self.assertEqual(self.ok_json("info", "b.pst")["samples"], 0)

    def test_a_source_that_has_grown(self):
        self.mixed()
        self.ok("repack", "a.pst", "b.pst")
        self.ok("repack", "a.pst", "c.pst", "--form", "original")
        self.jpegs("more/dog/new", 2)
        self.ok("append", "a.pst", "more")
        for path, forms in ("b.pst", {"pli-jpeg": 6, "png": 1}), ("c.pst", {"jpeg": 6, "png": 1}):
            self.assertEqual(self.ok_json("repack", "a.pst", path, "--resume")["resumed"], 5)
            self.assertEqual(self.forms(path), forms)
            self.same_listing("a.pst", path)
        # Samples of another data set are appended in the forms of this one.
        for name in "cat", "dog":
            self.jpegs(f"new/{name}/new2", 1)
        self.ok("pack", "new", "n.pst", "--form", "original")
        for path, forms in ("b.pst", {"pli-jpeg": 8, "png": 1}), ("c.pst", {"jpeg": 8, "png": 1}):
            self.assertEqual(self.ok_json("append", path, "n.pst")["samples"], 2)
            self.assertEqual(self.forms(path), forms)

    def test_a_bad_sample_is_named(self):
        self.mixed()
        target = self.ok("cat", "a.pst", 2)
        shard = self.dir / self.ok_json("info", "a.pst")["shards"][0]["path"]
        content = bytearray(shard.read_bytes())
        at = content.rfind(target)  # sample 0 has the same bytes
        content[at + len(target) // 2] ^= 1
        shard.write_bytes(content)
        done = self.run_cli("repack", "a.pst", "b.pst", "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual((done.returncode, error["status"], error["sample"], error["offset"], error["codec"]),
                         (1, "CHECKSUM", 2, at, "jpeg"))
        self.assertEqual((error["dataset"], os.path.basename(error["file"])), (os.path.realpath(self.dir / "a.pst"), shard.name))
        self.assertIn(b"go on with: penstock repack --resume a.pst b.pst --json", done.stderr)
        report = self.fails(1, "repack", "a.pst", "b.pst", "--resume", "--on-error", "skip", says="sample 2")
        self.assertEqual((report["samples"], report["resumed"], report["skipped"]), (4, 2, 1))
        self.assertEqual([b["name"] for b in report["bad"]], ["dog/0000.jpg"])
        self.assertEqual(self.forms("b.pst"), {"pli-jpeg": 3, "png": 1})


class Interrupted(cli_case.Case):
    N_FOLDERS, N_EACH = 40, 20
    N = N_FOLDERS * N_EACH

    def setUp(self):
        super().setUp()
        self.jpegs("one", self.N_EACH, 320, 240)
        self.links("photos", self.N_FOLDERS)
        self.ok("pack", "photos", "a.pst", "--form", "original")

    def interrupt(self, number, *options):
        """Repacks a.pst until some samples are committed, then sends the signal. Returns stderr."""
        for _ in range(10):
            process = subprocess.Popen([CLI, "repack", "a.pst", "b.pst", "--workers", "1", "--commit-size", "64KiB",
                                        *options], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            journal = self.dir / "b.pst/journal.pst"
            while process.poll() is None and not (journal.exists() and journal.stat().st_size > 2000):
                time.sleep(0.0005)
            process.send_signal(number)
            said = process.communicate(timeout=60)[1].decode()
            if not (self.dir / "b.pst/index.pst").exists() and journal.exists():
                self.assertEqual(process.returncode, 130 if number == signal.SIGINT else -number)
                return said
            shutil.rmtree(self.dir / "b.pst", ignore_errors=True)
        self.fail("it was always done before it could be interrupted")

    def go_on(self, *options):
        report = self.ok_json("repack", "a.pst", "b.pst", "--resume", *options)
        self.assertEqual(report["samples"], self.N)
        self.assertTrue(0 < report["resumed"] < self.N)
        self.ok("repack", "a.pst", "whole.pst", *options)
        self.assertEqual(self.ok("ls", "b.pst", "--long"), self.ok("ls", "whole.pst", "--long"))
        for i in 0, self.N // 2, self.N - 1:
            self.assertEqual(self.ok("cat", "b.pst", i), self.ok("cat", "whole.pst", i))
        self.assertTrue(self.ok_json("verify", "b.pst", "--decode", "--restore")["ok"])

    def test_kill_and_resume(self):
        self.interrupt(signal.SIGKILL)
        self.fails(1, "repack", "b.pst", "c.pst", says="--resume")  # an unfinished data set cannot be a source
        self.fails(1, "repack", "a.pst", "b.pst", "--form", "original", "--resume", says="as pli-jpeg, original is asked for")
        self.fails(1, "repack", "a.pst", "b.pst", "--form", "raw", "--resume", says="as pli-jpeg, raw is asked for")
        self.go_on()

    def test_interrupt_says_how_to_go_on(self):
        said = self.interrupt(signal.SIGINT)
        self.assertIn("go on with: penstock repack --resume a.pst b.pst --workers 1 --commit-size 64KiB\n", said)
        self.go_on()

    def test_back_again(self):
        self.ok("repack", "a.pst", "pli.pst")
        os.rename(self.dir / "a.pst", self.dir / "files.pst")
        os.rename(self.dir / "pli.pst", self.dir / "a.pst")
        said = self.interrupt(signal.SIGINT, "--form", "original")
        self.assertIn("go on with: penstock repack --resume a.pst b.pst --workers 1 --commit-size 64KiB "
                      "--form original\n", said)
        self.fails(1, "repack", "a.pst", "b.pst", "--resume", says="as jpeg, pli-jpeg is asked for")
        self.go_on("--form", "original")
        self.assertEqual(self.ok("ls", "b.pst", "--long"), self.ok("ls", "files.pst", "--long"))


if __name__ == "__main__":
    os.environ.setdefault("PENSTOCK_NUM_THREADS", "2")
    unittest.main()
