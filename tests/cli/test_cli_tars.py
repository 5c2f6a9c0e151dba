"""Tars as data sets on the command line: they are read as they are, and nothing is written into them."""

import io
import json
import tarfile
import unittest

from cli_case import Case, png


class Tars(Case):
    def tars(self, n=2, each=3):
        """Makes a folder of tars whose samples have an image, a mask, a class, a text and code."""
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
