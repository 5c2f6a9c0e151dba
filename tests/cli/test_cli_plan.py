"""Samples of one data set in different forms, as a plan file says: pack --plan, and repack in place.

With the argument "long", repack is killed at 100 random moments, otherwise at 5.
"""

import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli_case
from cli_case import CLI

N_KILLS = 100 if "long" in sys.argv[1:] else 5
SMALL = [{"form": "pli", "tier": "small"}]
BOTH = [{"form": "pli", "tier": "fast"}, {"form": "raw"}]


def ways(*shares_and_stores):
    return [{"share": share, "store": store} for share, store in shares_and_stores]


def given(n, shares):
    """Returns the form of each of n samples: the first of the forms that are farthest behind their share."""
    counts, out = [0] * len(shares), []
    for k in range(n):
        behind = [share * (k + 1) - count for share, count in zip(shares, counts, strict=True)]
        out.append(behind.index(max(behind)))
        counts[out[-1]] += 1
    return out


class Plan(cli_case.Case):
    def plan(self, *classes, name="plan.json", **more):
        self.write(name, json.dumps({"kind": "penstock plan", "version": 1, "field": "image", "loader": {"x": [1, {"y": None}]},
                                     "classes": list(classes), **more}))
        return name

    def images(self, n_png=21, n_jpeg=5):
        """Makes a folder of PNGs and JPEGs. PNGs with even numbers have 40 x 30 pixels, the others 80 x 60."""
        for i in range(n_png):
            self.write(f"photos/p{i:03}.png", cli_case.png(40 << i % 2, 30 << i % 2, seed=i)[0])
        self.jpegs("photos", n_jpeg)

    def stored(self, path):
        """Returns the items of each sample, as (form, bytes) of its variants, in the order of the shards' records."""
        out = [[] for _ in range(self.ok_json("info", path)["samples"])]
        for shard in sorted(self.shards(path).values()):
            content, at = (self.dir / path / shard).read_bytes(), 64
            while at < len(content):
                self.assertEqual(content[at:at + 4], b"PSTR")
                start, form = int.from_bytes(content[at + 4:at + 6], "little"), content[at + 9]
                sample, n = (int.from_bytes(content[at + i:at + i + 8], "little") for i in (16, 24))
                out[sample].append((form, content[at + start:at + start + n]))
                at = (at + start + n + 7) // 8 * 8
        return out

    def forms(self, path):
        names = {1: "raw", 2: "jpeg", 3: "png", 4: "webp", 5: "pli", 6: "pli-jpeg"}
        return [[names[form] for form, _ in sample] for sample in self.stored(path)]

    def shards(self, path):
        return {self.inode(path, name): name for name in os.listdir(self.dir / path) if name.startswith("shard-")}

    def inode(self, path, name):
        return os.stat(self.dir / path / name).st_ino

    def pixels(self, path, n, variant=0):
        return [self.ok("cat", path, i, "--pixels", "--variant", variant) for i in range(n)]

    def check_clean(self, path):
        """Asserts that the data set is valid, and that its folder has no file that the index does not name."""
        self.assertTrue(self.ok_json("verify", path, "--decode")["ok"])
        n_shards = len(self.ok_json("info", path)["shards"])
        names = sorted(os.listdir(self.dir / path))
        self.assertEqual((names[0], len(names)), ("index.pst", n_shards + 1), names)

    # pack --plan

    def test_shares_are_exact_for_any_number_of_workers(self):
        self.images()
        plan = self.plan({"form": "png", "pixels": [0, 1201], "ways": ways((0.4, SMALL), (0.6, BOTH))},
                         {"form": "png", "pixels": [1201, None], "ways": ways((1 / 3, SMALL), (1 / 3, [{"form": "original"}]),
                                                                              (1 / 3, BOTH))})
        self.ok("pack", "photos", "1.pst", "--plan", plan, "--workers", 1)
        self.ok("pack", "photos", "4.pst", "--plan", plan, "--workers", 4)
        self.assertEqual(self.stored("1.pst"), self.stored("4.pst"))
        two, three = given(11, (0.4, 0.6)), given(10, (1 / 3, 1 / 3, 1 / 3))
        self.assertEqual([two.count(0), two.count(1)], [4, 7])  # with 11 samples each count is within one of its exact share
        wanted = [["jpeg"]] * 5  # no class of the plan covers the JPEGs, so they stay unchanged
        for i in range(21):
            wanted.append([["pli"], ["pli", "raw"]][two[i // 2]] if i % 2 == 0
                          else [["pli"], ["png"], ["pli", "raw"]][three[i // 2]])
        self.assertEqual(self.forms("1.pst"), wanted)
        self.assertEqual(self.pixels("1.pst", 26), [self.ok("cat", f"photos/{s['name']}", "--pixels")
                                                    for s in self.ok_json("ls", "1.pst")["samples"]])
        self.check_clean("1.pst")
        # The same plan finds nothing to do in the result, although the forms are now others than when the plan was made.
        done = self.ok_json("repack", "1.pst", "--plan", plan)
        self.assertEqual((done["changed"], done["samples"], done["resumed"]), (0, 26, 26))

    def test_pack_goes_on(self):
        self.images(9, 1)
        plan = self.plan({"form": "png", "pixels": [0, None], "ways": ways((0.5, SMALL), (0.5, BOTH))})
        self.ok("pack", "photos", "whole.pst", "--plan", plan)
        self.write("photos/p0045.png", b"no image")
        self.fails(1, "pack", "photos", "a.pst", "--plan", plan, "--workers", 1, says="p0045")
        os.unlink(self.dir / "photos/p0045.png")
        self.assertGreater(self.ok_json("pack", "photos", "a.pst", "--plan", plan, "--resume")["resumed"], 3)
        self.assertEqual(self.stored("a.pst"), self.stored("whole.pst"))

    def test_data_set_to_data_set(self):
        self.images(7, 2)
        self.ok("pack", "photos", "a.pst", "--form", "original,raw")
        plan = self.plan({"form": "png", "pixels": [0, 1201], "ways": ways((1, [{"form": "raw"}, {"form": "png"}]))})
        self.ok("repack", "a.pst", "b.pst", "--plan", plan)
        self.assertEqual(self.forms("b.pst"), [["jpeg", "raw"]] * 2 + [["raw", "png"], ["png", "raw"]] * 3 + [["raw", "png"]])
        self.assertEqual(self.pixels("b.pst", 9, 1), self.pixels("a.pst", 9, 0))

    # in place

    def packed(self, **of):
        self.images(**of)
        self.ok("pack", "photos", "a.pst", "--form", "original", "--shard-size", "8KiB")
        self.assertGreater(len(self.shards("a.pst")), 2)

    def test_only_what_must_change(self):
        self.packed()
        before, forms, shards = self.pixels("a.pst", 26), self.forms("a.pst"), self.shards("a.pst")
        stored, listing = self.stored("a.pst"), self.ok("ls", "a.pst")
        plan = self.plan({"form": "png", "pixels": [4800, None], "ways": ways((0.8, [{"form": "png"}]), (0.2, BOTH))})
        shutil.copytree(self.dir / "a.pst", self.dir / "b.pst")
        report = self.ok_json("repack", "a.pst", "--plan", plan, "--workers", 1)
        self.ok("repack", "b.pst", "--plan", plan, "--workers", 4)
        self.assertEqual(report["changed"], given(10, (0.8, 0.2)).count(1))
        for name in os.listdir(self.dir / "a.pst"):  # the id is the same, and so are all bytes
            self.assertEqual((self.dir / "a.pst" / name).read_bytes(), (self.dir / "b.pst" / name).read_bytes(), name)
        changed = [i for i, of in enumerate(self.forms("a.pst")) if of != forms[i]]
        self.assertEqual(len(changed), report["changed"])
        now = self.stored("a.pst")
        self.assertEqual([now[i] for i in range(26) if i not in changed], [stored[i] for i in range(26) if i not in changed])
        kept = {inode for inode, name in self.shards("a.pst").items() if shards.get(inode) == name}
        self.assertEqual(len(kept), report["kept_files"])
        self.assertGreater(len(kept), 0)
        self.assertLess(len(kept), report["files"])
        self.assertEqual(self.pixels("a.pst", 26), before)
        self.assertEqual(self.ok("ls", "a.pst"), listing)
        self.check_clean("a.pst")
        index = self.inode("a.pst", "index.pst")
        self.assertEqual(self.ok_json("repack", "a.pst", "--plan", plan)["resumed"], 26)
        self.assertEqual(self.inode("a.pst", "index.pst"), index)
        # Appended samples go into the last shard, whatever its name is.
        self.write("more/z.png", cli_case.png(9, 9)[0])
        self.ok("append", "a.pst", "more")
        self.check_clean("a.pst")
        self.assertEqual(self.pixels("a.pst", 26), before)

    def test_forms_in_place_and_back(self):
        self.packed()
        stored = self.stored("a.pst")
        report = self.ok_json("repack", "a.pst", "--form", "pli-jpeg,raw")
        self.assertEqual(self.forms("a.pst"), [["pli-jpeg", "raw"]] * 5 + [["png", "raw"]] * 21)
        self.assertEqual((report["changed"], report["pli_jpeg"]["items"]), (26, 5))
        self.check_clean("a.pst")
        self.ok("repack", "a.pst", "--form", "original")
        self.assertEqual(self.stored("a.pst"), stored)
        shards = self.shards("a.pst")
        self.assertEqual(self.ok_json("repack", "a.pst", "--form", "original,raw")["changed"], 26)
        self.assertEqual(self.ok_json("repack", "a.pst", "--form", "original")["changed"], 26)
        self.assertNotEqual(self.shards("a.pst"), shards)
        self.assertEqual(self.stored("a.pst"), stored)
        self.check_clean("a.pst")

    def test_what_cannot_be_made_changes_nothing(self):
        """A JPEG that cannot become PLI stays as it is. The new shard is then useless and is removed, and the old one stays."""
        self.write("photos/a.jpg", self.no_pli_jpeg())
        self.ok("pack", "photos", "a.pst", "--form", "original")
        shards = self.shards("a.pst")
        report = self.ok_json("repack", "a.pst", "--form", "pli-jpeg")
        self.assertEqual((report["kept_jpeg"]["items"], report["kept_files"]), (1, 1))
        self.assertEqual(self.shards("a.pst"), shards)
        self.assertEqual(len(os.listdir(self.dir / "a.pst")), 2)
        self.ok("verify", "a.pst")

    def no_pli_jpeg(self):
        """Returns a truncated JPEG, which cannot become PLI."""
        self.jpegs("tmp", 1, 64, 64)
        return (self.dir / "tmp/0000.jpg").read_bytes()[:-200]

    def test_rotated_jpeg(self):
        self.jpegs("photos", 3)
        exif = b"Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
        for i in range(3):
            path = self.dir / f"photos/000{i}.jpg"
            jpeg = path.read_bytes()
            path.write_bytes(jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:])
        self.ok("pack", "photos", "a.pst", "--form", "original")
        before = self.pixels("a.pst", 3)
        plan = self.plan({"form": "jpeg", "pixels": [3072, 3073],
                          "ways": ways((1, [{"form": "pli-jpeg"}, {"form": "pli"}, {"form": "raw"}]))})
        self.ok("repack", "a.pst", "--plan", plan)
        self.assertEqual(self.forms("a.pst"), [["pli-jpeg", "pli", "raw"]] * 3)
        for variant in range(3):
            self.assertEqual(self.pixels("a.pst", 3, variant), before)
        sizes = {(s["width"], s["height"]) for s in self.ok_json("ls", "a.pst", "--long")["samples"]}
        self.assertEqual(sizes, {(48, 64)})
        self.check_clean("a.pst")

    def test_killed_at_random(self):
        self.images(120, 20)
        self.ok("pack", "photos", "base.pst", "--form", "original", "--shard-size", "64KiB")
        plan = self.plan({"form": "png", "pixels": [0, None], "ways": ways((0.5, SMALL), (0.3, BOTH), (0.2, [{"form": "png"}]))},
                         {"form": "jpeg", "pixels": [0, None], "ways": ways((1, [{"form": "pli-jpeg"}]))})
        shutil.copytree(self.dir / "base.pst", self.dir / "whole.pst")
        arguments = [CLI, "repack", "a.pst", "--plan", plan, "--workers", "1", "--commit-size", "16KiB"]
        begin = time.monotonic()
        self.ok("repack", "whole.pst", *arguments[3:])
        seconds = time.monotonic() - begin
        old, new = self.ok("ls", "base.pst", "--long"), self.ok("ls", "whole.pst", "--long")
        stored, chance, n_resumed = self.stored("whole.pst"), random.Random(7), 0
        shards = len(self.shards("base.pst"))
        for _ in range(N_KILLS):
            shutil.rmtree(self.dir / "a.pst", True)
            shutil.copytree(self.dir / "base.pst", self.dir / "a.pst")
            process = subprocess.Popen(arguments, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                process.communicate(timeout=chance.random() * seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
            self.assertIn(self.ok("ls", "a.pst", "--long"), (old, new))
            self.ok("verify", "a.pst")
            report = self.ok_json(*arguments[1:])
            n_resumed += report["resumed"] not in (0, 140)
            self.assertEqual(report["samples"], 140)
            self.assertEqual(self.ok("ls", "a.pst", "--long"), new)
            self.assertEqual(self.stored("a.pst"), stored)
            self.check_clean("a.pst")
            self.assertEqual(len(self.shards("a.pst")), shards)
        if N_KILLS >= 100:
            self.assertGreater(n_resumed, 0)

    def unfinished(self, plan, *more):
        """Leaves a change in place unfinished, with some samples committed: it fails at a bad image of the last shard."""
        last = sorted(self.shards("a.pst").values())[-1]
        whole = (self.dir / "a.pst" / last).read_bytes()
        broken = bytearray(whole)
        broken[-20:-10] = bytes(10)
        (self.dir / "a.pst" / last).write_bytes(broken)
        self.fails(1, "repack", "a.pst", "--plan", plan, "--commit-size", "1KiB", *more, says="were altered")
        (self.dir / "a.pst" / last).write_bytes(whole)
        self.assertIn("repack.pst", os.listdir(self.dir / "a.pst"))

    def test_goes_on_or_begins_anew(self):
        self.packed()
        listing = self.ok("ls", "a.pst", "--long")
        plan = self.plan({"form": "png", "pixels": [0, None], "ways": ways((1, BOTH))})
        other = self.plan({"form": "png", "pixels": [0, None], "ways": ways((1, SMALL))}, name="other.json")
        self.unfinished(plan)
        self.assertEqual(self.ok("ls", "a.pst", "--long"), listing)
        self.write("more/z.png", cli_case.png(9, 9)[0])
        self.fails(1, "append", "a.pst", "more", says="change in place was interrupted")
        report = self.ok_json("repack", "a.pst", "--plan", plan)
        self.assertGreater(report["resumed"], 10)
        self.assertEqual(self.forms("a.pst"), [["jpeg"]] * 5 + [["pli", "raw"]] * 21)
        self.check_clean("a.pst")
        shutil.rmtree(self.dir / "a.pst")
        self.ok("pack", "photos", "a.pst", "--form", "original", "--shard-size", "8KiB")
        self.unfinished(plan)
        self.assertEqual(self.ok_json("repack", "a.pst", "--plan", other)["resumed"], 0)
        self.assertEqual(self.forms("a.pst"), [["jpeg"]] * 5 + [["pli"]] * 21)
        self.check_clean("a.pst")

    def test_journal_of_no_use(self):
        self.packed()
        plan = self.plan({"form": "png", "pixels": [0, None], "ways": ways((1, BOTH))})
        self.unfinished(plan)
        kept = self.dir / "kept.pst"
        shutil.copytree(self.dir / "a.pst", kept)
        journal = (kept / "repack.pst").read_bytes()
        new = next(name for name in os.listdir(kept) if name.count(".") == 2)
        for damage in ({"repack.pst": b""}, {"repack.pst": b"x" * 500}, {"repack.pst": journal[:len(journal) // 2]},
                       {"repack.pst": journal[:100]}, {new: b""}, {new: None}, {new: bytes(9000)}):
            shutil.rmtree(self.dir / "a.pst")
            shutil.copytree(kept, self.dir / "a.pst")
            for name, content in damage.items():
                os.unlink(self.dir / "a.pst" / name)
                if content is not None:
                    self.write(f"a.pst/{name}", content)
            with self.subTest(damage.keys()):
                self.ok("repack", "a.pst", "--plan", plan)
                self.assertEqual(self.forms("a.pst"), [["jpeg"]] * 5 + [["pli", "raw"]] * 21)
                self.check_clean("a.pst")

    def test_append_after_a_change_of_an_older_state(self):
        """Files left by a change of an older state of the data set are removed."""
        self.packed()
        plan = self.plan({"form": "png", "pixels": [0, None], "ways": ways((1, BOTH))})
        shutil.copytree(self.dir / "a.pst", self.dir / "b.pst")
        self.unfinished(plan)
        left = {name: (self.dir / "a.pst" / name).read_bytes() for name in os.listdir(self.dir / "a.pst")
                if name == "repack.pst" or name.count(".") == 2}
        self.assertGreater(len(left), 2)
        for i in range(3):
            self.write(f"more{i}/z{i}.png", cli_case.png(9, 9)[0])
        self.ok("append", "b.pst", "more0")
        self.ok("append", "b.pst", "more1")
        for name, content in left.items():
            self.write(f"b.pst/{name}", content)
        self.ok("append", "b.pst", "more2")
        self.assertEqual(self.ok_json("info", "b.pst")["samples"], 29)
        self.check_clean("b.pst")

    def test_full_disk(self):
        self.packed()
        listing, shards = self.ok("ls", "a.pst", "--long"), self.shards("a.pst")
        for limit in 100, 9000, 30000:
            def full(nbytes=limit):
                resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            done = subprocess.run([CLI, "repack", "a.pst", "--form", "raw,original"], cwd=self.dir, preexec_fn=full,
                                  capture_output=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"a.pst/", done.stderr)
            self.assertEqual(self.shards("a.pst"), shards)
            self.assertEqual(self.ok("ls", "a.pst", "--long"), listing)
            self.check_clean("a.pst")
        self.ok("repack", "a.pst", "--form", "raw,original")
        self.check_clean("a.pst")

    def test_two_at_once(self):
        self.packed()
        with open(self.dir / "a.pst/writer.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails(1, "repack", "a.pst", "--form", "raw", says="another writer is at work")
        self.ok("repack", "a.pst", "--form", "raw")

    def test_old_state_stays_for_its_readers(self):
        self.packed()
        shards = set(self.shards("a.pst").values())
        with open(self.dir / "a.pst/index.pst", "rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            self.assertTrue(self.ok_json("repack", "a.pst", "--form", "raw")["waits_for_readers"])
            self.assertLess(shards, set(self.shards("a.pst").values()))
            self.assertIn(b"still being read", self.ok("repack", "a.pst", "--form", "original,raw"))
            self.assertLess(shards, set(self.shards("a.pst").values()))
        self.assertFalse(self.ok_json("repack", "a.pst", "--form", "original,raw")["waits_for_readers"])
        self.check_clean("a.pst")

    # plans that are refused

    def test_wrong_plans(self):
        self.packed(n_png=12, n_jpeg=1)
        before = self.stored("a.pst")
        good = {"form": "png", "pixels": [0, None], "ways": ways((1, SMALL))}

        def class_with(**members):
            return {**good, **members}

        cases = [("{", "it is not JSON"), ("[]", "this is no plan file"), ('{"kind": "x"}', "this is no plan file"), ("", "JSON")]
        whole = (self.dir / self.plan(good)).read_text(encoding="utf-8")
        cases.append((whole[:len(whole) // 2], "it is not JSON"))
        cases += [(json.dumps({**json.loads(whole), **members}), says) for members, says in [
            ({"version": 2}, "version 2, this library reads up to 1"), ({"version": "1"}, '"version"'),
            ({"field": "depth"}, 'its "field" is "depth"'), ({"classes": {}}, '"classes" must be a list'),
            ({"classes": [1]}, "class 0: a class must be an object"),
            ({"classes": [class_with(form="gif")]}, 'class 0: "form" is "gif"'),
            ({"classes": [class_with(pixels=[5, 5])]}, 'class 0: "pixels"'),
            ({"classes": [class_with(pixels=[-1, 5])]}, 'class 0: "pixels"'),
            ({"classes": [class_with(pixels=[0.5, 5])]}, 'class 0: "pixels"'),
            ({"classes": [class_with(pixels=[1])]}, 'class 0: "pixels"'),
            ({"classes": [good, class_with(pixels=[7, 9])]}, "class 1: its \"pixels\" overlap those of class 0"),
            ({"classes": [class_with(ways=[])]}, 'class 0: "ways"'),
            ({"classes": [class_with(ways=ways((0.5, SMALL), (0.4, BOTH)))]}, "add up to 0.9, not to 1"),
            ({"classes": [class_with(ways=ways((0.5, SMALL), (1.5, BOTH)))]}, 'class 0, way 1: "share"'),
            ({"classes": [class_with(ways=ways((1, [])))]}, 'class 0, way 0: "store" is empty'),
            ({"classes": [class_with(ways=ways((1, [{"form": "bmp"}])))]}, 'asks for the form "bmp"'),
            ({"classes": [class_with(ways=ways((1, [{"form": "jpeg"}])))]}, "never made"),
            ({"classes": [class_with(ways=ways((1, [{"form": "raw", "tier": "fast"}])))]}, "goes with the form pli"),
            ({"classes": [class_with(ways=ways((1, [{"form": "pli", "tier": "huge"}])))]}, "must be fast, small or dense"),
            ({"classes": [class_with(ways=ways((1, SMALL + SMALL)))]}, "twice")]]
        for text, says in cases:
            with self.subTest(text):
                self.write("bad.json", text)
                for source, destination in ("a.pst", []), ("photos", ["x.pst"]):
                    verb = "pack" if destination else "repack"
                    self.fails(1, verb, source, *destination, "--plan", "bad.json", says=["bad.json", says])
                    self.assertFalse((self.dir / "x.pst").exists())
        self.fails(1, "repack", "a.pst", "--plan", "none.json", says="none.json")
        self.fails(2, "repack", "a.pst", "--plan", "plan.json", "--form", "raw", says="--plan says forms")
        self.fails(2, "repack", "a.pst", "--plan", "plan.json", "--on-error", "skip", says="go with a DST")
        self.fails(2, "append", "a.pst", "photos", "--plan", "plan.json", says="no option")
        self.fails(1, "repack", "photos", "--plan", "plan.json", says="plain folder")
        self.assertEqual(self.stored("a.pst"), before)
        self.check_clean("a.pst")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[a for a in sys.argv[1:] if a != "long"]])
