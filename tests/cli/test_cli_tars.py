"""Tars as data sets on the command line: they are read in place, and nothing is written into them."""

import gzip
import io
import json
import tarfile
import unittest

from cli_case import Case, png


class Tars(Case):
    def tars(self, n=2, each=3):
        """Makes a folder of tars whose samples have an image, a mask, a class, a text and a file of code."""
        folder = self.dir / "tars"
        folder.mkdir()
        for i in range(n):
            with tarfile.open(folder / f"train-{i}.tar", "w") as tar:
                for k in range(each):
                    members = {
                        "png": png(8, 6, seed=i * each + k)[0], "seg.png": png(8, 6, 1, seed=k)[0], "cls": b"%d" % k,
                        "txt": f"sample {k}".encode(), "pkl": b"code",
                    }
                    for suffix, content in members.items():
                        entry = tarfile.TarInfo(f"{i}/{k:04d}.{suffix}")
                        entry.size = len(content)
                        tar.addfile(entry, io.BytesIO(content))
        return folder

    def contents(self, folder):
        return {path.name: path.read_bytes() for path in folder.glob("*.tar")}

    def test_info_says_what_they_are(self):
        folder = self.tars()
        out = self.ok("info", folder, "--members", "pkl=-").decode()
        self.assertIn(": tar files, 6 samples", out)
        self.assertIn("2 files", out)
        self.assertIn("index " + str(folder / ".penstock"), out)
        found = json.loads(self.ok("info", folder, "--members", "pkl=-", "--json"))
        self.assertEqual((found["kind"], found["samples"], found["files"]), ("tar", 6, 2))

    def test_index_is_made_found_and_checked(self):
        folder = self.tars()
        words = ["index", folder, "--members", "pkl=-,cls=label:int:3", "--json"]
        first, second = (json.loads(self.ok(*words)) for _ in range(2))
        self.assertEqual((first["made"], second["made"], first["samples"]), (True, False, 6))
        third = json.loads(self.ok(*words, "--check"))
        self.assertEqual((third["made"], third["checked"], third["wrong"]), (False, True, False))

    def test_sums_are_added_once(self):
        words = ["index", self.tars(), "--members", "pkl=-", "--json"]
        made = [json.loads(self.ok(*words, *more))["made"] for more in ((), ("--sums",), ("--sums",), ())]
        self.assertEqual(made, [True, True, False, False])

    def test_verbs_read_them(self):
        folder = self.tars()
        before = self.contents(folder)
        for path in (folder, folder / "train-0.tar", f"{folder}/train-{{0..1}}.tar"):
            for verb in ("ls", "verify", "info"):
                self.ok(verb, path, "--members", "pkl=-")
        self.assertEqual(self.ok("cat", folder, "0", "--field", "text", "--members", "pkl=-"), b"sample 0")
        self.ok("pack", folder, self.dir / "p.pst", "--members", "pkl=-")
        self.ok("verify", self.dir / "p.pst")
        self.assertEqual(self.contents(folder), before)

    def splits(self):
        """Makes a folder of tars with two splits."""
        folder = self.tars(n=3)
        (folder / "train-2.tar").rename(folder / "val-2.tar")
        return folder

    def test_every_verb_takes_split_and_members(self):
        folder = self.splits()
        before = self.contents(folder)
        options = ("--split", "train", "--members", "pkl=-,png=picture,cls=kind:int:3,seg.png=mask")
        found = json.loads(self.ok("info", folder, *options, "--json"))
        self.assertEqual((found["samples"], [field["name"] for field in found["fields"]]),
                         (6, ["picture", "mask", "kind", "text"]))
        self.assertEqual(self.ok_json("index", folder, *options)["samples"], 6)
        self.assertEqual(self.ok_json("ls", folder, *options)["count"], 6)
        self.assertEqual(self.ok_json("ls", folder, "--split", "val", *options[2:])["count"], 3)
        self.assertEqual(self.ok("cat", folder, "4", "--field", "kind", *options), b"1\n")
        self.assertEqual(self.ok("cat", folder, "4", "--field", "picture", *options), png(8, 6, seed=4)[0])
        self.assertTrue(self.ok_json("verify", folder, *options)["ok"])
        self.ok("bench", folder, *options, "--epochs", "1", "--op", "none", "--batch-size", "2")
        self.ok("pack", folder, self.dir / "p.pst", *options)
        self.assertEqual(self.ok_json("info", self.dir / "p.pst")["samples"], 6)
        self.assertEqual(self.contents(folder), before)

    def test_unpack(self):
        folder = self.splits()
        before = self.contents(folder)
        options = ("--split", "train", "--members", "pkl=-,cls=label:int:3,seg.png=mask")
        report = self.ok_json("unpack", folder, self.dir / "out", *options)
        self.assertEqual((report["files"], report["masks"], report["not_restored"]), (12, 6, []))
        self.assertEqual((self.dir / "out/1/0002.png").read_bytes(), png(8, 6, seed=5)[0])
        self.assertEqual((self.dir / "out/masks/1/0002.png").read_bytes(), png(8, 6, 1, seed=2)[0])
        lines = [json.loads(line) for line in (self.dir / "out/labels.jsonl").read_text().splitlines()]
        self.assertEqual(lines[5], {"file": "1/0002.png", "mask": "masks/1/0002.png", "label": 2, "text": "sample 2"})
        self.ok("unpack", folder, self.dir / "out", *options, "--resume")
        self.ok("pack", self.dir / "out", self.dir / "p.pst", "--labels", self.dir / "out/labels.jsonl")
        self.assertEqual(self.ok_json("info", self.dir / "p.pst")["samples"], 6)
        self.assertEqual(self.contents(folder), before)

    def test_mistakes_are_named(self):
        folder = self.splits()
        rules = ("--members", "pkl=-")
        (self.dir / "empty").mkdir()
        (self.dir / "both").mkdir()
        (folder / "val-2.tar").rename(self.dir / "both/val-2.tar")
        self.write("both/a.png", png(4, 4)[0])
        self.write("x.tar.gz", gzip.compress(b"\0" * 2048))
        self.write("gz/y.tar.gz", gzip.compress(b"\0" * 2048))
        self.write("z.tar", gzip.compress(b"\0" * 2048))
        self.write("note.txt", b"hello")
        for words, status, parts in (
            (["info", folder, "--split", "tain", *rules], 1, ["tain", "train"]),
            (["info", folder, "--members", "pkl=-,jpgg=image"], 1, ["jpgg"]),
            (["info", folder, "--members", "pkl"], 1, ["--members", "SUFFIX=NAME"]),
            (["info", folder, "--members", "pkl=-,cls=label:int:x"], 1, ["--members", '"x"']),
            (["info", folder, "--member", "pkl=-"], 2, ["--members"]),
            (["info", self.dir / "both", *rules], 1, ["both", "images lie beside such files"]),
            (["info", self.dir / "x.tar.gz"], 1, ["compressed tar", "from-webdataset.md"]),
            (["info", self.dir / "gz"], 1, ["compressed as a whole by gzip", "gunzip"]),
            (["info", self.dir / "z.tar"], 1, ["compressed", "gunzip"]),
            (["ls", self.dir / "empty"], 1, ["no image"]),
            (["ls", self.dir / "nowhere"], 1, ["nowhere"]),
            (["ls", self.dir / "nowhere.tar"], 1, ["nowhere.tar"]),
            (["ls", str(folder) + "/test-*.tar"], 1, ["test-*.tar"]),
            (["ls", self.dir / "note.txt"], 1, ["note.txt"]),
            (["ls", self.classes(names=("cat",)), "--split", "train"], 1, ["split", "tars"]),
        ):
            with self.subTest(words=[str(word) for word in words[:3]]):
                done = self.run_cli(*words)
                text = done.stderr.decode()
                self.assertEqual((done.returncode, text.count("\n")), (status, 1), text)
                for part in parts:
                    self.assertIn(part, text)

    def test_refusals(self):
        folder = self.tars()
        before = self.contents(folder)
        photos = self.classes(names=("cat",))
        for words, part in (
            (["info", folder], "pkl"),
            (["info", folder, "--members", "pkl=-,cls=label:inte"], 'did you mean "int"'),
            (["append", folder, photos], "files that others made"),
            (["repack", folder, "--form", "raw"], "files that others made"),
            (["unpack", folder, self.dir / "out"], "pkl"),
        ):
            done = self.run_cli(*words)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(part, done.stderr.decode())
        self.assertEqual(self.contents(folder), before)


if __name__ == "__main__":
    unittest.main()
