"""Bad images, bad label files and altered data sets: errors name the file or sample, exit statuses are right, and on_error
decides."""

import json
import os
import resource
import signal
import struct
import subprocess
import unittest

import cli_case


class Bad(cli_case.Case):
    def test_bad_images_stop_or_are_skipped(self):
        self.jpegs("f", 6)
        good = (self.dir / "f/0000.jpg").read_bytes()
        bad = {"0001.jpg": b"", "0002.jpg": b"not an image", "0003.jpg": good[:100], "0005.jpg": good[:len(good) // 2]}
        for name, content in bad.items():
            self.write(f"f/{name}", content)
        error = self.fails(1, "pack", "f", "a.pst", "--verify-pixels", says="0001.jpg")["error"]
        self.assertTrue(error["file"].endswith("f/0001.jpg") or error["sample"] == 1, error)
        # A bad image does not affect the images packed before: the same command continues.
        done = self.run_cli("pack", "f", "b.pst", "--verify-pixels", "--on-error", "skip", "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertEqual((report["samples"], report["skipped"]), (2, 4))
        self.assertEqual([b["name"] for b in report["bad"]], sorted(bad))
        for entry in report["bad"]:
            self.assertTrue(entry["error"]["file"].endswith(entry["name"]), entry)
            self.assertTrue(entry["error"]["text"])
            self.assertEqual(entry["error"]["dataset"], os.path.realpath(self.dir / "f"))
        self.assertTrue(self.ok_json("verify", "b.pst", "--decode")["ok"])
        self.assertEqual([s["name"] for s in self.ok_json("ls", "b.pst")["samples"]], ["0000.jpg", "0004.jpg"])
        found = self.fails(1, "verify", "f")
        self.assertEqual([f["name"] for f in found["findings"]], sorted(bad))
        self.assertEqual(found["bad"], 4)
        self.assertEqual([f["error"]["sample"] for f in found["findings"]], [1, 2, 3, 5])

    def test_bad_sounds_are_found(self):
        """verify and pack --verify-samples refuse sounds that a loader refuses, in folders, packed data sets and single files."""
        pcm = b"\1\0" * 400

        def wav(kind, bits, data, stated=None, block=None, chunks=True):
            block = bits // 8 if block is None else block
            body = b"fmt " + struct.pack("<IHHIIHH", 16, kind, 1, 16000, 16000 * bits // 8, block, bits)
            body += b"data" + struct.pack("<I", len(data) if stated is None else stated) + data if chunks else b""
            return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body

        late = b"".join(struct.pack("<f", 0.1) for _ in range(1 << 21)) + struct.pack("<f", float("inf"))
        sounds = {
            "block.wav": wav(1, 16, pcm, block=4), "cut.wav": wav(1, 16, pcm[:700], 800), "empty.wav": b"",
            "good.wav": wav(1, 16, pcm), "late.wav": wav(3, 32, late), "nan.wav": wav(3, 32, struct.pack("<f", float("nan")) * 9),
            "none.wav": wav(1, 16, b"", chunks=False), "text.wav": b"this is no sound at all",
        }  # fmt: skip
        for name, content in sounds.items():
            self.write(f"f/{name}", content)
        bad = [name for name in sounds if name != "good.wav"]
        found = self.fails(1, "verify", "f")
        self.assertEqual([f["name"] for f in found["findings"]], bad)
        for finding in found["findings"]:
            self.assertTrue(finding["error"]["file"].endswith(finding["name"]), finding)
        self.ok("pack", "f", "all.pst")
        self.assertTrue(self.ok_json("verify", "all.pst")["ok"])  # the checksums of the bad sounds are right
        found = self.fails(1, "verify", "all.pst", "--decode")
        self.assertEqual([f["name"] for f in found["findings"]], bad)
        for option in ("--verify-samples", "--verify-pixels"):
            packed = f"{option.strip('-')}.pst"
            done = self.run_cli("pack", "f", packed, option, "--on-error", "skip", "--json")
            self.assertEqual(done.returncode, 1)
            self.assertEqual([b["name"] for b in json.loads(done.stdout)["bad"]], bad)
            self.assertTrue(self.ok_json("verify", packed, "--decode")["ok"])
            self.fails(1, "pack", "f", "one.pst", option, says="block.wav")
        self.assertTrue(self.ok_json("verify", "f/good.wav")["ok"])
        for name in bad:
            found = self.fails(1, "verify", f"f/{name}")
            self.assertTrue(found["findings"][0]["error"]["file"].endswith(name), found)

    def test_what_is_no_file_is_refused_at_once(self):
        self.jpegs("f", 3)
        self.ok("pack", "f", "a.pst")
        os.mkfifo(self.dir / "pipe")
        for words in (("pack", "f", "b.pst", "--labels", "pipe"), ("pack", "f", "b.pst", "--plan", "pipe"),
                      ("info", "pipe"), ("verify", "pipe"),
                      ("cat", "pipe", "--as", "png", "-o", "x.png")):
            self.assertNotEqual(self.run_cli(*words).returncode, 0, words)
        for name in ("index.pst", "shard-000000.pst"):
            os.rename(self.dir / "a.pst" / name, self.dir / name)
            os.mkfifo(self.dir / "a.pst" / name)
            done = self.run_cli("verify", "a.pst", "--decode")
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"is a pipe, not a regular file", done.stdout + done.stderr)
            os.unlink(self.dir / "a.pst" / name)
            os.rename(self.dir / name, self.dir / "a.pst" / name)
        self.assertTrue(self.ok_json("verify", "a.pst")["ok"])

    def test_what_was_left_out_is_counted(self):
        self.jpegs("f", 3)
        os.symlink("nowhere", self.dir / "f/gone.jpg")
        self.fails(1, "pack", "f", "a.pst", says="gone.jpg")
        report = self.ok_json("pack", "f", "a.pst", "--allow-unreadable")
        self.assertEqual((report["samples"], report["skipped"], report["unreadable"]), (3, 0, 1))
        self.assertIn(b"1 UNREADABLE left out", self.ok("pack", "f", "b.pst", "--allow-unreadable"))

    def test_going_on_is_offered_only_where_it_is_possible(self):
        self.jpegs("f", 4)
        good = (self.dir / "f/0000.jpg").read_bytes()
        self.write("f/0000.jpg", b"bad")
        done = self.run_cli("pack", "f", "a.pst")  # packing fails at the first image and leaves nothing
        self.assertEqual(done.returncode, 1)
        self.assertNotIn(b"--resume", done.stderr)
        self.assertFalse((self.dir / "a.pst").exists())
        self.write("f/0000.jpg", good)
        self.write("f/0002.jpg", b"bad")
        done = self.run_cli("pack", "f", "a.pst", "--form", "raw")
        self.assertIn(b"go on with: penstock pack --resume f a.pst --form raw", done.stderr)
        self.write("f/0002.jpg", good)
        error = self.fails(1, "pack", "f", "a.pst", "--resume", says="as raw, pli-jpeg is asked for")["error"]
        self.assertEqual(error["status"], "ARGUMENT")
        self.ok("pack", "f", "a.pst", "--form", "raw", "--resume")
        done = self.run_cli("append", "a.pst", "f")  # the samples' names exist already
        self.assertEqual(done.returncode, 1)
        self.assertNotIn(b"--resume", done.stderr)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_what_is_offered_can_be_run(self):
        """Runs the command that an error message prints in a shell, for any file names, and once more if it fails again."""
        names = [" it's here", 'a "$HOME" `b`', "c\\n*?[d]", "~", "#e", "f;g&h|i>j", "\u00e4(k)!{l,m}"]
        good = (self.jpegs("one", 2) / "0000.jpg").read_bytes()
        for name in names:
            with self.subTest(name):
                self.write(f"{name}/0.jpg", good)
                self.write(f"{name}/1.jpg", b"bad")
                text = self.run_cli("pack", name, f"{name}.pst", "--form", "raw", "--workers", 1).stderr.decode()
                for bad in b"bad", good:
                    self.assertEqual(text.count("go on with: "), 1, text)
                    command = text.rstrip("\n").partition("go on with: ")[2]
                    self.assertEqual(command.count("--resume"), 1)
                    self.write(f"{name}/1.jpg", bad)
                    done = subprocess.run(["sh", "-c", 'penstock() { "$PENSTOCK_CLI" "$@"; }\n' + command], cwd=self.dir,
                                          capture_output=True, timeout=120)
                    text = done.stderr.decode()
                    self.assertEqual(done.returncode, int(bad == b"bad"), text)
                self.assertEqual(self.ok("ls", f"{name}.pst"), self.ok("ls", name))

    def test_the_extension_does_not_matter(self):
        self.write("f/a.jpg", cli_case.png(4, 4)[0])
        self.jpegs("g", 1)
        os.rename(self.dir / "g/0000.jpg", self.dir / "f/b.PNG")
        self.ok("pack", "f", "a.pst")
        self.assertEqual([s["form"] for s in self.ok_json("ls", "a.pst", "--long")["samples"]], ["png", "pli-jpeg"])

    def test_forms_that_would_need_an_encoder(self):
        self.jpegs("f", 2)
        error = self.fails(1, "pack", "f", "a.pst", "--form", "png", says="only original (its own file), raw, pli")["error"]
        self.assertEqual(error["status"], "UNSUPPORTED")
        self.ok("pack", "f", "b.pst", "--form", "jpeg")

    def test_destination_that_exists(self):
        self.jpegs("f", 1)
        self.ok("pack", "f", "a.pst")
        self.assertEqual(self.fails(1, "pack", "f", "a.pst", says="a.pst")["error"]["status"], "EXISTS")
        self.assertTrue(self.ok_json("verify", "a.pst")["ok"])
        self.fails(1, "pack", "f", "no/such/place.pst", says="no/such")
        self.fails(1, "append", "f", "f")

    def test_folders(self):
        (self.dir / "empty").mkdir()
        self.assertEqual(self.fails(1, "info", "empty", says="no image")["error"]["status"], "NOT_FOUND")
        self.fails(1, "ls", "nowhere", says="nowhere")
        os.makedirs(os.path.join(os.fsencode(self.dir), b"latin", b"caf\xe9"))
        os.link(self.jpegs("f", 1) / "0000.jpg", os.path.join(os.fsencode(self.dir), b"latin", b"caf\xe9", b"x.jpg"))
        self.fails(1, "info", "latin", says="caf\\xE9")
        self.fails(1, "pack", "latin", "x.pst", says="caf\\xE9")
        self.assertFalse((self.dir / "x.pst").exists())

    def test_label_files(self):
        self.jpegs("f", 2)
        for content, says in [("file,label\n0000.jpg,1\nnone.jpg,2\n", "line 3: none.jpg"),
                              ("file,label\n0000.jpg,1\n0000.jpg,2\n", "line 3: 0000.jpg is named twice"),
                              ("file,label\n0000.jpg,-1\n", "line 2: label -1"),
                              ('{"file": "0000.jpg"}\n{"file": 7}\n', "line 2")]:
            self.write("l", content)
            self.fails(1, "pack", "f", "a.pst", "--labels", "l", says=[f"'{os.path.realpath(self.dir / 'l')}'", says])
        self.fails(1, "info", "f", "--labels", "nope.csv", says="nope.csv")
        self.assertFalse((self.dir / "a.pst").exists())

    def test_items_that_are_not_there(self):
        self.jpegs("f", 2)
        self.ok("pack", "f", "a.pst")
        self.fails(1, "cat", "a.pst", "2", says="there are 2")
        self.fails(1, "cat", "a.pst", "x.jpg", says="no sample is named")
        self.fails(2, "cat", "a.pst", "0", "--field", "mask", says='no field "mask"')
        self.fails(2, "cat", "a.pst", "0", "--variant", "1", says="has 1")
        self.fails(1, "cat", "a.pst", "0", "-o", "no/such/file", says="no/such/file")

    def test_a_file_that_is_there_survives_a_failing_cat(self):
        self.write("p.png", cli_case.png(200, 100)[0])
        self.write("out.pnm", "what was there")

        def full():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run([cli_case.CLI, "cat", "p.png", "--as", "pnm", "-o", "out.pnm", "--force"], cwd=self.dir,
                              preexec_fn=full, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"out.pnm", done.stderr)
        self.assertEqual((self.dir / "out.pnm").read_text(), "what was there")
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["out.pnm", "p.png"])
        self.ok("cat", "p.png", "--as", "pnm", "-o", "out.pnm", "--force")
        self.assertEqual((self.dir / "out.pnm").read_bytes()[:2], b"P6")
        (self.dir / "link").symlink_to("out.pnm")
        self.ok("cat", "p.png", "-o", "link", "--force")
        self.assertTrue((self.dir / "link").is_symlink())
        self.assertEqual((self.dir / "out.pnm").read_bytes(), (self.dir / "p.png").read_bytes())

    def test_every_altered_byte_is_found(self):
        self.classes(count=2)
        self.write("photos/cat/p.png", cli_case.png(9, 7)[0])
        self.ok("pack", "photos", "a.pst")
        files = [p for p in (self.dir / "a.pst").rglob("*") if p.is_file() and p.stat().st_size > 0]
        self.assertGreaterEqual(len(files), 2)
        for path in files:
            content = path.read_bytes()
            for at in sorted({*range(0, len(content), max(1, len(content) // 12)), len(content) - 1}):
                altered = bytearray(content)
                altered[at] ^= 0x10
                path.write_bytes(altered)
                done = self.run_cli("verify", "a.pst", "--json")
                with self.subTest(f"{path.name} at {at} of {len(content)}"):
                    self.assertEqual(done.returncode, 1)
                    found = json.loads(done.stdout)
                    self.assertFalse(found["ok"])
                    self.assertTrue(found["findings"] or "error" in found)
            for length in 0, len(content) // 2, len(content) - 1:
                path.write_bytes(content[:length])
                self.assertEqual(self.run_cli("verify", "a.pst").returncode, 1, f"{path.name} cut to {length}")
            path.write_bytes(content)
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_a_bad_item_is_named(self):
        self.jpegs("f", 4)
        for form in "jpeg", "pli-jpeg":
            pst = f"{form}.pst"
            self.ok("pack", "f", pst, "--form", form)
            target = self.ok("cat", pst, "2")
            shard = self.dir / self.ok_json("info", pst)["shards"][0]["path"]
            content = bytearray(shard.read_bytes())
            at = content.find(target)
            self.assertGreater(at, 0)
            content[at + len(target) // 2] ^= 1
            shard.write_bytes(content)
            found = self.fails(1, "verify", pst, says=())
            named = [f for f in found["findings"] if f["name"] == "0002.jpg"]
            self.assertEqual(len(named), 1)
            error = named[0]["error"]
            self.assertEqual((error["status"], error["sample"], error["offset"], error["codec"]),
                             ("CHECKSUM", 2, at, form))
            self.assertEqual(os.path.basename(error["file"]), shard.name)
            self.assertEqual(error["dataset"], os.path.realpath(self.dir / pst))
            error = self.fails(1, "cat", pst, "2", says=["sample 2", shard.name])["error"]
            self.assertEqual((error["status"], error["codec"]), ("CHECKSUM", form))
            self.ok("cat", pst, "1")
            self.fails(1, "unpack", pst, f"{form}-out", says="sample 2")
            skipped = self.fails(1, "unpack", pst, f"{form}-skipped", "--on-error", "skip")
            self.assertEqual(([b["name"] for b in skipped["bad"]], skipped["files"]), (["0002.jpg"], 3))

    def test_a_shard_of_another_data_set(self):
        self.jpegs("f", 2)
        self.jpegs("g", 3)
        self.write("g/0000.jpg", (self.dir / "g/0002.jpg").read_bytes())
        self.ok("pack", "f", "a.pst")
        self.ok("pack", "g", "b.pst")
        a, b = (self.dir / self.ok_json("info", p)["shards"][0]["path"] for p in ("a.pst", "b.pst"))
        a.write_bytes(b.read_bytes())
        self.fails(1, "verify", "a.pst")
        self.fails(1, "cat", "a.pst", "0", says=a.name)

    def test_bench_on_bad_images(self):
        self.jpegs("f", 4)
        self.write("f/0002.jpg", b"garbage")
        error = self.fails(1, "bench", "f", "--epochs", "1", says="0002.jpg")["error"]
        self.assertEqual(error["sample"], 2)
        done = self.run_cli("bench", "f", "--epochs", "1", "--on-error", "skip", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["bad"]), (1, 2))

    def test_what_is_no_data_set_names_a_page(self):
        """Every verb that opens a data set explains that a tar, an address or the like is no data set, and which page helps."""
        self.write("s.tar.gz", b"x")
        self.write("tars/s.tgz", b"x")
        self.write("a.h5", b"\x89HDF\r\n\x1a\n")
        for path, page in (("s.tar.gz", "from-webdataset.md"), ("tars", "from-webdataset.md"), ("a.h5", "from-records.md"),
                           ("s3://bucket/train", "object-storage.md"), ("hf://datasets/x", "from-huggingface.md")):
            for words in (["info", path], ["ls", path], ["pack", path, "out.pst"], ["cat", path],
                          ["cat", path, "0"], ["unpack", path, "out"], ["bench", path]):
                if words == ["cat", "tars"]:  # cat on a folder needs a sample
                    continue
                with self.subTest(words):
                    self.assertEqual(self.fails(1, *words, says=page)["error"]["status"], "UNSUPPORTED")
            self.assertIn(page, self.fails(1, "verify", path)["findings"][0]["error"]["text"])
        self.assertFalse((self.dir / "out.pst").exists())
        self.jpegs("photos", 1)
        self.fails(1, "pack", "photos", "s3://bucket/out.pst", says="object-storage.md")

    def test_labels_of_yolo_are_not_lost(self):
        self.jpegs("det/images/train", 2)
        self.write("det/labels/train/0000.txt", "0 0.5 0.5 0.2 0.2\n")
        for source in ("det", "det/images", "det/images/train"):
            for verb in (["pack", source, "out.pst"], ["info", source], ["ls", source]):
                error = self.fails(1, *verb, says="from-yolo.md")["error"]
                self.assertTrue(error["file"].endswith("labels/train/0000.txt"), error)
                self.assertIn("--ignore-labels", error["text"])
            self.ok("pack", source, f"{source.replace('/', '-')}.pst", "--ignore-labels")
            info = self.ok_json("info", f"{source.replace('/', '-')}.pst")
            self.assertEqual((info["samples"], [field["name"] for field in info["fields"]]), (2, ["image"]))
        self.jpegs("one", 1)
        self.write("two/0000.txt", "0 0.5 0.5 0.2 0.2\n")
        self.jpegs("two", 1)
        self.ok("pack", "one", "grown.pst")
        self.fails(1, "append", "two", "grown.pst", says="YOLO")

    def test_masks_in_colours_are_named(self):
        for i in range(2):
            self.write(f"m/images/{i}.png", cli_case.png(8, 6)[0])
            self.write(f"m/masks/{i}.png", cli_case.png(8, 6, channels=1 + 2 * i)[0])
        for words in (["info", "m"], ["ls", "m"]):
            done = self.run_cli(*words)
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"masks-in-colours.md", done.stderr)
            self.assertIn(b"masks/1.png", done.stderr)
        notices = self.ok_json("info", "m")["notices"]
        self.assertEqual([(n["kind"], n["name"], n["first"]) for n in notices], [("mask_in_colours", "mask", "masks/1.png")])
        error = self.fails(1, "pack", "m", "m.pst", says="masks-in-colours.md")["error"]
        self.assertTrue(error["sample"] == 1 or error["file"].endswith("masks/1.png"), error)


if __name__ == "__main__":
    unittest.main()
