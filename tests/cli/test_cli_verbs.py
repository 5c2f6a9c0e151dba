"""Every verb with valid input, printing text and JSON."""

import json
import os
import unittest

import cli_case


class Verbs(cli_case.Case):
    def test_pack_info_ls_verify(self):
        photos = self.classes()
        report = self.ok_json("pack", photos, "a.pst")
        self.assertEqual((report["samples"], report["skipped"], report["resumed"]), (6, 0, 0))
        self.assertEqual(report["bytes_in"], sum(p.stat().st_size for p in photos.rglob("*.jpg")))
        info = self.ok_json("info", "a.pst")
        self.assertEqual(info["kind"], "dataset")
        self.assertEqual(info["samples"], 6)
        image, label = info["fields"]
        self.assertEqual(image["forms"]["pli-jpeg"]["items"], 6)
        self.assertEqual((image["min_width"], image["max_height"]), (64, 48))
        self.assertEqual(label["classes"], ["cat", "dog"])
        self.assertEqual(len(info["shards"]), 1)
        self.assertIn(b"  1 shard\n", self.ok("info", "a.pst"))
        listing = self.ok_json("ls", "a.pst", "--long")
        self.assertEqual([s["name"] for s in listing["samples"]],
                         sorted(str(p.relative_to(photos)) for p in photos.rglob("*.jpg")))
        self.assertEqual([s["class"] for s in listing["samples"]], ["cat"] * 3 + ["dog"] * 3)
        self.assertEqual({(s["form"], s["width"], s["height"], s["channels"], s["bits"]) for s in listing["samples"]},
                         {("pli-jpeg", 64, 48, 3, 8)})
        for decode in [], ["--decode"]:
            checked = self.ok_json("verify", "a.pst", *decode)
            self.assertTrue(checked["ok"])
            self.assertEqual((checked["samples"], checked["items"], checked["bad"]), (6, 6, 0))
            self.assertEqual(checked["findings"], [])
        self.assertIn(b"all good", self.ok("verify", "a.pst"))
        self.assertIn(b"6 samples", self.ok("info", "a.pst"))
        self.assertEqual(self.ok("verify", "a.pst", "--quiet"), b"")

    def test_a_folder_needs_no_packing(self):
        photos = self.classes()
        info = self.ok_json("info", photos)
        self.assertEqual((info["kind"], info["samples"], info["looked_at"]), ("folder", 6, 6))
        self.assertEqual(len(self.ok_json("ls", photos)["samples"]), 6)
        self.assertTrue(self.ok_json("verify", photos)["ok"])
        self.assertEqual(self.ok("cat", photos, "dog/0001.jpg"), (photos / "dog/0001.jpg").read_bytes())

    def test_order_does_not_depend_on_workers(self):
        photos = self.classes(count=9)
        for n in 1, 2, 7:
            self.ok("pack", photos, f"{n}.pst", "--workers", n, "--form", "original,raw")
        listings = [self.ok("ls", f"{n}.pst", "--long") for n in (1, 2, 7)]
        self.assertEqual(listings[0], listings[1])
        self.assertEqual(listings[0], listings[2])

    def test_ranges(self):
        self.jpegs("f", 5)
        for text, numbers in [("1:3", [1, 2]), (":2", [0, 1]), ("3:", [3, 4]), ("4", [4]), ("2:2", []), ("3:99", [3, 4]),
                              (":", [0, 1, 2, 3, 4])]:
            self.assertEqual([s["sample"] for s in self.ok_json("ls", "f", "--range", text)["samples"]], numbers)
        for text in "3:1", "a", "1:b", "-1:2", "1:2:3":
            self.fails(2, "ls", "f", f"--range={text}", says="--range")

    def test_cat_bytes_and_pixels(self):
        self.write("f/gray8.png", cli_case.png(5, 4, 1)[0])
        self.write("f/gray16.png", cli_case.png(5, 4, 1, 16)[0])
        self.write("f/rgb16.png", cli_case.png(3, 2, 3, 16)[0])
        self.write("f/rgb8.png", cli_case.png(3, 2)[0])
        self.write("f/rgba.png", cli_case.png(3, 2, 4)[0])
        self.ok("pack", "f", "a.pst", "--form", "original,raw")
        heads = {"gray8": (b"P5\n5 4\n255\n", 1, 8, 5, 4), "gray16": (b"P5\n5 4\n65535\n", 1, 16, 5, 4),
                 "rgb8": (b"P6\n3 2\n255\n", 3, 8, 3, 2), "rgb16": (b"P6\n3 2\n65535\n", 3, 16, 3, 2)}
        for name, (head, channels, bits, width, height) in heads.items():
            stored, pixels = cli_case.png(width, height, channels, bits)
            self.assertEqual(self.ok("cat", "a.pst", f"{name}.png"), stored)
            for source in "a.pst", "f":
                self.assertEqual(self.ok("cat", source, f"{name}.png", "--pixels"), head + pixels)
            self.assertEqual(self.ok("cat", "a.pst", f"{name}.png", "--pixels", "--variant", 1), head + pixels)
        pam = self.ok("cat", "f", "rgba.png", "--pixels")
        self.assertTrue(pam.startswith(b"P7\nWIDTH 3\nHEIGHT 2\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n"))
        self.assertTrue(pam.endswith(cli_case.png(3, 2, 4)[1]))
        self.ok("cat", "a.pst", "0", "-o", "out.bin")
        self.assertEqual((self.dir / "out.bin").read_bytes(), self.ok("cat", "a.pst", 0))

    def test_cat_fields(self):
        self.jpegs("f", 2)
        self.write("labels.jsonl", "".join(json.dumps(line) + "\n" for line in [
            {"file": "0000.jpg", "label": "b", "note": "grün\n", "score": 0.5, "boxes": [[1, 2, 3, 4]], "meta": [1]},
            {"file": "0001.jpg", "label": "a", "note": "", "score": 1, "boxes": [], "meta": {}}]))
        self.ok("pack", "f", "a.pst", "--labels", "labels.jsonl")
        for path in ["a.pst"], ["f", "--labels", "labels.jsonl"]:
            def cat(sample, field, path=path):
                return self.ok("cat", path[0], sample, *path[1:], "--field", field)
            self.assertEqual(cat(0, "label"), b"1\n")
            self.assertEqual(cat(0, "score"), b"0.5\n")
            self.assertEqual(cat(0, "note"), "grün\n".encode())
            self.assertEqual(cat(1, "note"), b"")
            self.assertEqual(cat(0, "boxes"), bytes.fromhex("0000803f000000400000404000008040"))
            self.assertEqual(cat(0, "meta"), b"[1]")
        self.assertEqual([s["class"] for s in self.ok_json("ls", "a.pst")["samples"]], ["b", "a"])
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_names_that_look_like_numbers(self):
        self.jpegs("f", 3)
        os.rename(self.dir / "f/0002.jpg", self.dir / "f/1.jpg")
        self.write("l.csv", "file\n0000.jpg\n1.jpg\n")
        self.assertEqual(self.ok("cat", "f", "1"), (self.dir / "f/0001.jpg").read_bytes())
        self.fails(1, "cat", "f", "1", "--name", says="no sample is named")
        self.assertEqual(self.ok("cat", "f", "1", "--labels", "l.csv"), (self.dir / "f/1.jpg").read_bytes())

    def test_append(self):
        self.classes(names=("cat", "dog"))
        self.jpegs("more/dog/new", 2)
        self.ok("pack", "photos", "a.pst")
        self.assertEqual(self.ok_json("append", "a.pst", "more")["samples"], 2)
        samples = self.ok_json("ls", "a.pst")["samples"]
        self.assertEqual(len(samples), 8)
        # In "more" dog is class 0; in the data set it stays class 1.
        self.assertEqual([s["class"] for s in samples[6:]], ["dog", "dog"])
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])
        self.fails(1, "append", "a.pst", "more", says="dog/new/0000.jpg")
        self.jpegs("birds/bird", 1)
        self.fails(1, "append", "a.pst", "birds", says='a class "bird"')
        self.jpegs("flat", 1)
        self.fails(1, "append", "a.pst", "flat", says='no field "label"')
        self.assertEqual(len(self.ok_json("ls", "a.pst")["samples"]), 8)

    def test_append_keeps_the_forms(self):
        self.jpegs("f", 2)
        self.jpegs("g/new", 1)
        os.rename(self.dir / "g/new/0000.jpg", self.dir / "g/9.jpg")
        os.rmdir(self.dir / "g/new")
        self.ok("pack", "f", "a.pst", "--form", "original,raw")
        self.ok("append", "a.pst", "g")
        forms = self.ok_json("info", "a.pst")["fields"][0]["forms"]
        self.assertEqual((forms["jpeg"]["items"], forms["raw"]["items"]), (3, 3))

    def test_pack_a_data_set(self):
        self.classes()
        self.ok("pack", "photos", "a.pst", "--form", "original,raw")
        self.ok("pack", "a.pst", "b.pst", "--form", "original,raw")
        self.ok("pack", "a.pst", "c.pst", "--form", "raw")
        self.assertEqual(self.ok("ls", "a.pst", "--long"), self.ok("ls", "b.pst", "--long"))
        self.assertEqual(set(self.ok_json("info", "c.pst")["fields"][0]["forms"]), {"raw"})
        for i in range(6):
            self.assertEqual(self.ok("cat", "a.pst", i), self.ok("cat", "b.pst", i))
            self.assertEqual(self.ok("cat", "a.pst", i, "--variant", 1), self.ok("cat", "c.pst", i))
        self.assertTrue(self.ok_json("verify", "c.pst", "--decode")["ok"])

    def test_shards(self):
        self.jpegs("f", 20)
        self.ok("pack", "f", "a.pst", "--shard-size", "10kB")
        shards = self.ok_json("info", "a.pst")["shards"]
        self.assertGreater(len(shards), 2)
        for shard in shards:
            self.assertEqual(os.path.getsize(self.dir / shard["path"]), shard["bytes"])
        self.assertTrue(self.ok_json("verify", "a.pst")["ok"])

    def test_info_of_an_image(self):
        self.write("x.png", cli_case.png(7, 5, 2, 16)[0])
        info = self.ok_json("info", "x.png")
        self.assertEqual({k: info[k] for k in ("kind", "form", "width", "height", "channels", "bits", "orientation")},
                         {"kind": "image", "form": "png", "width": 7, "height": 5, "channels": 2, "bits": 16,
                          "orientation": 1})
        self.assertIn(b"png, 7x5", self.ok("info", "x.png"))

    def test_bench(self):
        self.classes()
        for path in "photos", "a.pst":
            if path == "a.pst":
                self.ok("pack", "photos", "a.pst")
            for operation in "rrc224", "crop768", "none":
                result = self.ok_json("bench", path, "--epochs", 2, "--batch-size", 2, "--workers", 1, "--op", operation)
                self.assertGreater(result["images_per_second"], 0)
                self.assertEqual(result["images"], 18)
        self.assertIn(b"images/s", self.ok("bench", "a.pst", "--epochs", 1))

    def test_bench_says_why_there_is_no_gpu(self):
        self.classes()
        for device in "cuda", "cuda:3":
            done = self.run_cli("bench", "photos", "--device", device, env={"PENSTOCK_CUDA_DRIVER": "/nowhere/libcuda.so"})
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"no CUDA driver", done.stderr)

    def test_env(self):
        env = json.loads(self.ok("env"))
        self.assertEqual(env["version"], self.ok_json("--version")["version"])
        self.assertEqual(env, self.ok_json("env"))
        os.environ["PENSTOCK_CUDA"] = "0"
        self.addCleanup(os.environ.pop, "PENSTOCK_CUDA")
        hidden = self.ok_json("env")
        self.assertEqual((hidden["gpus"], hidden["gpus_reason"]), ([], "PENSTOCK_CUDA=0 hides all GPUs"))
        self.assertEqual(env["gpus_reason"] == "", bool(env["gpus"]))
        self.assertEqual(env["gpu_kernels_reason"] == "", bool(env["gpu_kernels"]))


if __name__ == "__main__":
    unittest.main()
