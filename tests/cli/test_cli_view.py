"""`penstock view`: what is on the sheet, where, and what wrong files of operations say."""

import json
import struct
import unittest
import zlib

import cli_case

RED, BLUE = b"\xff\0\0", b"\0\0\xff"


def unfiltered(kind, line, before):
    """Undoes the filter of a row of a PNG, 3 bytes per pixel. before: the row above it."""
    if kind == 0:
        return line
    if kind == 2:
        return bytes([(x + b) & 255 for x, b in zip(line, before, strict=True)])
    out = bytearray(len(line))
    for channel in range(3):
        a = c = 0
        samples = []
        for x, b in zip(line[channel::3], before[channel::3], strict=True):
            if kind == 1:
                a = (x + a) & 255
            elif kind == 3:
                a = (x + (a + b) // 2) & 255
            else:
                assert kind == 4
                pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                a = (x + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
                c = b
            samples.append(a)
        out[channel::3] = bytes(samples)
    return bytes(out)


def read_png(data):
    """Returns height, width and the rows of an 8-bit RGB PNG, each row as bytes."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        n, tag = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(tag + body)
        if tag == b"IHDR":
            width, height, bits, color = struct.unpack(">IIBB", body[:10])
            assert (bits, color) == (8, 2)
        packed += body if tag == b"IDAT" else b""
        at += 12 + n
    raw, rows, row_nbytes = zlib.decompress(packed), [], 3 * width
    before = bytes(row_nbytes)
    for at in range(0, height * (row_nbytes + 1), row_nbytes + 1):
        before = unfiltered(raw[at], raw[at + 1:at + 1 + row_nbytes], before)
        rows.append(before)
    return height, width, rows


def rgb_png(rows):
    """A PNG of rows of RGB bytes."""
    def chunk(tag, body):
        return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))

    head = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


class View(cli_case.Case):
    def sheet(self, *arguments, file="view.png"):
        report = self.ok_json("view", *arguments)
        height, width, rows = read_png((self.dir / file).read_bytes())
        self.assertEqual((height, width, report["file"]), (report["height"], report["width"], file))
        self.assertEqual(report["bytes"], (self.dir / file).stat().st_size)
        return report, rows

    def picture(self, rows, tile):
        """The rows of a tile's picture on the sheet."""
        return [row[3 * tile["x"]:3 * (tile["x"] + tile["width"])] for row in rows[tile["y"]:tile["y"] + tile["height"]]]

    def two_colours(self, where="f", names=("a.png", "b.png")):
        """Pictures of 64x64 pixels, the left half red, the right one blue; each one with a green line at the top."""
        rows = [b"\0\xff\0" * 64] + [RED * 32 + BLUE * 32] * 63
        for name in names:
            self.write(f"{where}/{name}", rgb_png(rows))
        return rows

    def test_pictures_stand_side_by_side_as_they_are(self):
        rows = self.two_colours()
        report, sheet = self.sheet("f", "0:2", "--size", 64)
        self.assertEqual([(t["sample"], t["name"]) for t in report["tiles"]], [(0, "a.png"), (1, "b.png")])
        for tile in report["tiles"]:
            self.assertEqual(self.picture(sheet, tile), rows)
            self.assertEqual((tile["image_height"], tile["image_width"], tile["boxes"], tile["mask"]), (64, 64, 0, False))
        first, second = report["tiles"]
        self.assertEqual(first["y"], second["y"])
        self.assertGreater(second["x"], first["x"] + 64)
        below = b"".join(sheet[first["y"] + 64:])
        self.assertGreater(below.count(b"\xf0\xf0\xf0"), 20)  # letters of the caption

    def test_larger_and_smaller_pictures(self):
        self.two_colours(names=["a.png"])
        report, sheet = self.sheet("f", "a.png", "--size", 200, "-o", "big.png", file="big.png")
        tile = report["tiles"][0]
        self.assertEqual((tile["height"], tile["width"]), (192, 192))
        picture = self.picture(sheet, tile)
        self.assertEqual(picture[0], b"\0\xff\0" * 192)
        self.assertEqual(picture[2], b"\0\xff\0" * 192)
        self.assertEqual(picture[3], RED * 96 + BLUE * 96)
        report, sheet = self.sheet("f", 0, "--size", 32)
        picture = self.picture(sheet, report["tiles"][0])
        self.assertEqual(picture[0][:3], bytes([128, 128, 0]))  # the mean of green and red
        self.assertEqual(picture[1], RED * 16 + BLUE * 16)

    def test_boxes_keypoints_and_masks_are_drawn(self):
        rows = self.two_colours("s/f", ["a.png"])
        self.write("s/m/a.png", rgb_png([b"\0\0\0" * 64] * 64))
        mask = cli_case.png(64, 64, channels=1)[0]
        self.write("s/m/a.png", mask)
        sample = {"file": "f/a.png", "boxes": [[10, 20, 40, 50]], "labels": ["ox"], "keypoints": [[50, 40, 1], [50, 55, 0]]}
        self.write("l.jsonl", json.dumps(sample) + "\n")
        report, sheet = self.sheet("s", 0, "--labels", "l.jsonl", "--size", 64)
        tile = report["tiles"][0]
        self.assertEqual((tile["boxes"], tile["keypoints"], tile["mask"]), (1, 2, False))
        picture = self.picture(sheet, tile)

        def at(y, x):
            return picture[y][3 * x:3 * x + 3]
        box = at(20, 20)
        self.assertNotIn(box, (RED, BLUE))
        for y, x in (49, 20), (30, 10), (30, 39), (20, 39):  # four sides of two pixels
            self.assertEqual(at(y, x), box)
        self.assertEqual(at(30, 20), RED)
        self.assertEqual(at(12, 11), box)  # the ground of the label above the box
        self.assertIn(b"\0\0\0", [at(y, x) for y in range(9, 18) for x in range(12, 24)])  # its letters
        self.assertEqual(at(30, 50), BLUE)
        self.assertNotEqual(at(40, 50), BLUE)  # a point
        self.assertEqual(at(55, 50), BLUE)  # one that is not visible is hollow
        self.assertNotEqual(at(55, 52), BLUE)
        self.write("l.jsonl", json.dumps({**sample, "mask": "m/a.png"}) + "\n")
        report, sheet = self.sheet("s", 0, "--labels", "l.jsonl", "--size", 64)
        self.assertTrue(report["tiles"][0]["mask"])
        tinted = self.picture(sheet, report["tiles"][0])
        self.assertNotEqual(tinted[60], rows[60])

    def test_operations_move_everything_together(self):
        self.two_colours("f", ["a.png"])
        self.write("l.jsonl", json.dumps({"file": "a.png", "boxes": [[4, 20, 24, 50]], "labels": [3]}) + "\n")
        self.write("t.json", json.dumps([{"op": "RandomHorizontalFlip", "p": 1}, {"op": "CenterCrop", "size": [64, 60]},
                                         {"op": "Normalize", "mean": 0.5, "std": 0.5}]))
        report, sheet = self.sheet("f", "a.png", "--labels", "l.jsonl", "-t", "t.json", "--size", 64)
        tile = report["tiles"][0]
        self.assertEqual((tile["height"], tile["width"]), (64, 60))
        picture = self.picture(sheet, tile)
        self.assertEqual(picture[5], BLUE * 30 + RED * 30)
        row = picture[35]  # flipped, the box goes from 40 to 60, less 2 that are cropped
        self.assertNotIn(row[3 * 38:3 * 39], (RED, BLUE))
        self.assertEqual(row[3 * 36:3 * 37], RED)
        done = self.run_cli("view", "f", "0", "--labels", "l.jsonl", "-t", "t.json")
        self.assertIn(b"Normalize is left out", done.stderr)
        self.assertEqual(self.run_cli("view", "f", "0", "-t", "t.json", "--quiet").stderr, b"")

    def test_epochs_and_positions(self):
        self.two_colours("f", [f"{i}.png" for i in range(6)])
        self.write("t.json", '[{"op": "RandomCrop", "size": 32}]')
        report, sheet = self.sheet("f", "0:2", "-t", "t.json", "--epochs", 3, "--size", 32)
        self.assertEqual([(t["sample"], t["epoch"]) for t in report["tiles"]],
                         [(s, e) for s in range(2) for e in range(3)])
        self.assertEqual([t["y"] for t in report["tiles"][:3]], [8, 8, 8])
        pictures = [self.picture(sheet, tile) for tile in report["tiles"]]
        self.assertGreater(len({b"".join(p) for p in pictures}), 1)
        again, same = self.sheet("f", "0:2", "-t", "t.json", "--epochs", 3, "--size", 32)
        self.assertEqual(sheet, same)
        orders = []
        for epoch in range(4):
            report, _ = self.sheet("f", ":", "--batch", "--epoch", epoch, "--seed", 1, "--size", 32)
            orders.append([t["sample"] for t in report["tiles"]])
            self.assertEqual(sorted(orders[-1]), list(range(6)))
        self.assertGreater(len({tuple(order) for order in orders}), 1)
        report, _ = self.sheet("f", "2:4", "--batch", "--epoch", 3, "--seed", 1, "--size", 32)
        self.assertEqual([t["sample"] for t in report["tiles"]], orders[3][2:4])

    def test_a_bad_sample_has_its_message_in_its_place(self):
        self.two_colours()
        self.write("f/a.png", (self.dir / "f/b.png").read_bytes()[:60])
        report = self.fails(1, "view", "f", ":", "--size", 64, says="a.png")
        self.assertEqual(report["bad"], 1)
        self.assertEqual(report["tiles"][0]["error"]["sample"], 0)
        self.assertEqual(report["tiles"][1]["image_width"], 64)
        read_png((self.dir / "view.png").read_bytes())

    def test_wrong_use(self):
        self.two_colours()
        for arguments, says in [(["f"], "an operand is missing"), (["f", "1:1"], "A < B"), (["f", "5:9"], "A < B"),
                                (["f", "0", "--size", "9"], "--size"), (["f", "0", "--epochs", "0"], "--epochs"),
                                (["f", "0:2", "--epochs", "4000"], "8000 pictures"),
                                (["f", "a.png", "--batch"], "positions"), (["f", "0", "-o", "-"], "--json"),
                                (["f", "0", "--transform", "x"], "--transforms")]:
            with self.subTest(arguments):
                self.fails(2, "view", *arguments, says=says)
        for arguments, says in [(["f", "7"], "no sample 7"), (["f", "c.png"], "c.png"), (["nowhere", "0"], "nowhere"),
                                (["f", "0", "--field", "imagee"], "did you mean image"),
                                (["f", "0", "-t", "none.json"], "none.json"),
                                (["f", "0", "-o", "no/such/x.png"], "no/such/x.png")]:
            with self.subTest(arguments):
                self.fails(1, "view", *arguments, says=says)

    def test_wrong_files_of_operations_say_where(self):
        self.two_colours()
        for content, says in [("", "line 1, column 1: the text ends"), ("[", "the text ends"), ("hello", "a value is expected"),
                              ("[1]", "an operation is an object"), ('{"op": "CenterCrop", "size": 2}', "[ ]"),
                              ('[\n {"op": "CentreCrop", "size": 2}]', "line 2, column 9: no operation \"CentreCrop\": did you"),
                              ('[{"op": "CenterCrop", "sise": 2, "size": 3}]',  # codespell:ignore sise
                               'no argument "sise": did you mean size?'),  # codespell:ignore sise
                              ('[{"op": "CenterCrop"}]', 'CenterCrop: the argument "size" is missing'),
                              ('[{"op": "CenterCrop", "size": 2.5}]', "whole number of pixels"),
                              ('[{"op": "CenterCrop", "size": "2"}]', "a number is expected"),
                              ('[{"op": "Pad", "padding": [1, 2, 3]}]', "1, 2 or 4"),
                              ('[{"op": "Resize", "size": 9, "interpolation": "bilinaer"}]', "did you mean bilinear"),
                              ('[{"op": "Normalize", "mean": 128, "std": 1}]', "divide numbers for 0..255"),
                              ('[{"op": "Normalize", "mean": 0, "std": 1}, {"op": "Pad", "padding": 1}]', "the last"),
                              ('[{"op": "RandomVerticalFlip", "p": 2}]', "p must be within 0..1"),
                              ('{"mask": []}', 'no field "mask"'), ('[{"op": "Pad", "op": "Pad"}]', "has that name already"),
                              ('[] []', "something follows"), ('[{"op": "Pad\\x"}]', "an escape"), ("[" * 99, "nested too deep")]:
            with self.subTest(content):
                self.write("t.json", content)
                error = self.fails(1, "view", "f", "0", "-t", "t.json", says=["t.json", says])["error"]
                self.assertEqual(error["status"], "ARGUMENT")
        self.assertFalse((self.dir / "view.png").exists())

    def test_stdout_and_a_data_set_without_images(self):
        self.two_colours()
        done = self.run_cli("view", "f", "0", "-o", "-", "--size", 64)
        self.assertEqual(done.returncode, 0)
        read_png(done.stdout)


if __name__ == "__main__":
    unittest.main()
