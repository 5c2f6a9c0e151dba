"""`penstock view`: the contents of the sheet and their places."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from penstock import transforms as T
from penstock.cli import main, samples
from penstock.cli import sheet as _sheet

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)

Draw = Callable[..., tuple[dict[str, Any], Any]]


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Draw:
    """Runs the verb in the test's directory. Returns its JSON and the sheet's pixels."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object, status: int = 0) -> tuple[dict[str, Any], Any]:
        assert main.main(["view", *map(str, words), "--json", "--force"]) == status, capfd.readouterr()
        report = json.loads(capfd.readouterr().out)
        image = PilImage.open(report["file"])
        assert (image.format, image.size) == ("PNG", (report["width"], report["height"]))
        assert report["bytes"] == Path(report["file"]).stat().st_size
        return report, np.asarray(image)

    return run


def picture(sheet: Any, tile: dict[str, Any]) -> Any:
    """Returns the pixels of one picture on the sheet."""
    y, x, height, width = (tile[name] for name in ("y", "x", "height", "width"))
    return sheet[y : y + height, x : x + width]


def two_colours(folder: Path, names: Sequence[str] = ("a.png", "b.png")) -> Any:
    """Writes pictures of 64 x 64 pixels: left half red, right half blue, a green line at the top. Returns their pixels."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :32], pixels[:, 32:], pixels[0] = RED, BLUE, GREEN
    folder.mkdir(exist_ok=True)
    for name in names:
        PilImage.fromarray(pixels).save(folder / name)
    return pixels


def test_pictures_stand_side_by_side_as_they_are(draw: Draw, tmp_path: Path) -> None:
    pixels = two_colours(tmp_path / "f")
    report, sheet = draw("f", "0:2", "--size", 64)
    assert [(t["sample"], t["name"]) for t in report["tiles"]] == [(0, "a.png"), (1, "b.png")]
    for tile in report["tiles"]:
        np.testing.assert_array_equal(picture(sheet, tile), pixels)
        assert (tile["image_height"], tile["image_width"], tile["boxes"], tile["mask"]) == (64, 64, 0, False)
    first, second = report["tiles"]
    assert first["y"] == second["y"] and second["x"] > first["x"] + 64
    assert (sheet[first["y"] + 64 :] > 200).all(-1).sum() > 10  # letters of the caption


def test_larger_and_smaller_pictures(draw: Draw, tmp_path: Path) -> None:
    two_colours(tmp_path / "f", ["a.png"])
    report, sheet = draw("f", "a.png", "--size", 200, "-o", "big.png")
    found = picture(sheet, report["tiles"][0])
    assert found.shape == (192, 192, 3)
    assert (found[:3] == GREEN).all() and (found[3:, :96] == RED).all() and (found[3:, 96:] == BLUE).all()
    report, sheet = draw("f", 0, "--size", 32)
    found = picture(sheet, report["tiles"][0])
    assert tuple(found[0, 0]) == (128, 128, 0)  # the mean of green and red
    assert (found[1, :16] == RED).all() and (found[1, 16:] == BLUE).all()


def test_a_wide_picture_keeps_its_proportions(draw: Draw, tmp_path: Path) -> None:
    PilImage.new("RGB", (400, 1)).save(tmp_path / "wide.png")
    PilImage.new("L", (30, 90), 77).save(tmp_path / "tall.png")
    report, sheet = draw(".", ":", "--size", 100, "--columns", 1)
    tall, wide = report["tiles"]
    assert (tall["height"], tall["width"], wide["height"], wide["width"]) == (90, 30, 1, 100)
    assert (picture(sheet, tall) == 77).all() and wide["y"] > tall["y"] and report["width"] == 116


def test_boxes_keypoints_and_masks_are_drawn(draw: Draw, tmp_path: Path) -> None:
    pixels = two_colours(tmp_path / "f", ["a.png"])
    sample = {"file": "f/a.png", "boxes": [[10, 20, 40, 50]], "labels": ["ox"], "keypoints": [[50, 40, 1], [50, 55, 0]]}
    (tmp_path / "l.jsonl").write_text(json.dumps(sample) + "\n")
    report, sheet = draw(".", 0, "--labels", "l.jsonl", "--size", 64)
    tile = report["tiles"][0]
    assert (tile["boxes"], tile["keypoints"], tile["mask"]) == (1, 2, False)
    found = picture(sheet, tile)

    def at(y: int, x: int) -> tuple[int, ...]:
        return tuple(map(int, found[y, x]))

    box = at(20, 20)
    assert box not in (RED, BLUE)
    assert all(at(y, x) == box for y, x in ((49, 20), (30, 10), (30, 39), (20, 39), (21, 30)))  # four sides, each two pixels wide
    assert at(30, 20) == RED and at(12, 11) == box  # inside the box, and the background of the label above it
    letters = found[8:19, 12:24].reshape(-1, 3).sum(-1)
    assert letters.min() < 100 or letters.max() > 600
    assert at(30, 50) == BLUE and at(40, 50) != BLUE  # a point
    assert at(55, 50) == BLUE and at(55, 52) != BLUE  # an invisible point is hollow
    (tmp_path / "m").mkdir()
    PilImage.fromarray(np.tile(np.repeat(np.arange(4, dtype=np.uint8), 16), (64, 1))).save(tmp_path / "m/a.png")
    (tmp_path / "l.jsonl").write_text(json.dumps({**sample, "mask": "m/a.png"}) + "\n")
    report, sheet = draw(".", 0, "--labels", "l.jsonl", "--size", 64)
    assert report["tiles"][0]["mask"]
    tinted = picture(sheet, report["tiles"][0])
    assert (tinted[60, :8] == pixels[60, :8]).all() and (tinted[60, 17:31] != pixels[60, 17:31]).any(-1).all()
    assert tinted[60, 15].sum() < 255  # the line between two labels


def test_a_mask_alone(draw: Draw, tmp_path: Path) -> None:
    with ps.Writer(tmp_path / "m.pst", {"image": ps.Image(), "mask": ps.Mask()}) as writer:
        mask = np.zeros((40, 40), np.uint8)
        mask[:, 20:30], mask[:, 30:] = 3, 255
        writer.write({"image": np.full((40, 40, 3), 9, np.uint8), "mask": mask})
    report, sheet = draw("m.pst", 0, "--field", "mask", "--size", 40)
    found = picture(sheet, report["tiles"][0])
    colours = [(0, 0, 0), _sheet.palette(2), (150, 150, 150)]
    assert [tuple(map(int, found[5, x])) for x in (5, 25, 35)] == colours


def test_labels_of_boxes(draw: Draw, tmp_path: Path) -> None:
    """Equal labels have the same colour; class names replace numbers."""
    schema = {"image": ps.Image(), "boxes": ps.Boxes(), "labels": ps.Array("int64", classes=["ox", "cow"]),
              "label": ps.Int(["a", "b"])}  # fmt: skip
    with ps.Writer(tmp_path / "b.pst", schema) as writer:
        boxes = np.array([[10, 20, 30, 30], [10, 40, 30, 50], [10, 60, 30, 70], [5, 5, 5.5, 5.5]], np.float32)
        image = np.zeros((80, 80, 3), np.uint8)
        writer.write({"image": image, "boxes": boxes, "labels": np.array([1, 0, 1, 0]), "label": 1})
    report, sheet = draw("b.pst", 0, "--size", 80)
    found = picture(sheet, report["tiles"][0])
    assert report["tiles"][0]["boxes"] == 3  # a box of less than a square pixel is not drawn
    first, second, third = (tuple(found[y, 29]) for y in (24, 44, 64))
    assert first == third != second
    with ps.Dataset(tmp_path / "b.pst") as dataset:
        tile = samples.Samples(dataset, samples.choose(dataset, None, None), None, None).tile(0, 0)
    assert (tile.label, list(tile.labels)) == ("b", ["cow", "ox", "cow", "ox"])


def test_operations_move_everything_together(draw: Draw, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    two_colours(tmp_path / "f", ["a.png"])
    (tmp_path / "l.jsonl").write_text(json.dumps({"file": "a.png", "boxes": [[4, 20, 24, 50]], "labels": [3]}) + "\n")
    (tmp_path / "t.json").write_text(T.to_json([T.RandomHorizontalFlip(1), T.CenterCrop((64, 60)), T.Normalize(0.5, 0.5)]))
    report, sheet = draw("f", "a.png", "--labels", "l.jsonl", "-t", "t.json", "--size", 64)
    found = picture(sheet, report["tiles"][0])
    assert found.shape == (64, 60, 3)
    assert (found[5, :30] == BLUE).all() and (found[5, 30:] == RED).all()
    row = found[35]  # flipped, the box extends from 40 to 60, less 2 that are cropped
    assert tuple(row[38]) not in (RED, BLUE) and tuple(row[36]) == RED
    assert main.main(["view", "f", "0", "-t", "t.json", "--force"]) == 0
    assert "Normalize is left out" in capfd.readouterr().err
    assert main.main(["view", "f", "0", "-t", "t.json", "--quiet", "--force"]) == 0
    assert capfd.readouterr().err == ""


def test_operations_by_field(draw: Draw, tmp_path: Path) -> None:
    """Operations of a field that is not drawn are checked but not applied."""
    with ps.Writer(tmp_path / "m.pst", {"image": ps.Image(), "other": ps.Image(), "text": ps.Text()}) as writer:
        image = np.arange(64 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(64, 64, 3)
        writer.write({"image": image, "other": 255 - image, "text": "x"})
    (tmp_path / "t.json").write_text(T.to_json({"other": [T.CenterCrop(40)]}))
    report, sheet = draw("m.pst", 0, "-t", "t.json", "--size", 64, "--field", "other")
    np.testing.assert_array_equal(picture(sheet, report["tiles"][0]), 255 - image[12:52, 12:52])
    report, sheet = draw("m.pst", 0, "-t", "t.json", "--size", 64)
    np.testing.assert_array_equal(picture(sheet, report["tiles"][0]), image)


def test_epochs_and_positions(draw: Draw, tmp_path: Path) -> None:
    two_colours(tmp_path / "f", [f"{i}.png" for i in range(6)])
    (tmp_path / "t.json").write_text(T.to_json([T.RandomCrop(32)]))
    words = ("f", "0:2", "-t", "t.json", "--epochs", 3, "--size", 32)
    report, sheet = draw(*words)
    assert [(t["sample"], t["epoch"]) for t in report["tiles"]] == [(s, e) for s in range(2) for e in range(3)]
    assert [t["y"] for t in report["tiles"][:3]] == [8, 8, 8]
    assert len({picture(sheet, tile).tobytes() for tile in report["tiles"]}) > 1
    np.testing.assert_array_equal(draw(*words)[1], sheet)
    orders = []
    for epoch in range(4):
        report, _ = draw("f", ":", "--batch", "--epoch", epoch, "--seed", 1, "--size", 32)
        orders.append([t["sample"] for t in report["tiles"]])
        assert sorted(orders[-1]) == list(range(6))
    assert len({tuple(order) for order in orders}) > 1
    report, _ = draw("f", "2:4", "--batch", "--epoch", 3, "--seed", 1, "--size", 32)
    assert [t["sample"] for t in report["tiles"]] == orders[3][2:4]
    with ps.Dataset(tmp_path / "f") as dataset:
        loader = ps.Loader(dataset, shuffle=True, seed=1, output="numpy")
        loader.set_epoch(3)
        assert [int(batch["index"][0]) for batch in loader] == orders[3]


def test_sixteen_bits_and_other_channels(draw: Draw, tmp_path: Path) -> None:
    with ps.Writer(tmp_path / "x.pst", {"image": ps.Image()}) as writer:
        writer.write({"image": np.full((32, 32, 1), 0x7B00, np.uint16)})
        writer.write({"image": np.dstack([np.full((32, 32, 3), 50, np.uint8), np.full((32, 32, 1), 9, np.uint8)])})
    report, sheet = draw("x.pst", ":", "--size", 32)
    assert [int(picture(sheet, tile).max()) for tile in report["tiles"]] == [0x7B, 50]


def test_the_font_of_an_old_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 10.1 Pillow's font has one size and only the letters of Latin-1."""
    old = _sheet.ImageFont.load_default_imagefont()
    monkeypatch.setattr(_sheet.ImageFont, "load_default", lambda: old)
    sheet = _sheet.Sheet(1, 64, 0)
    sheet.draw(0, samples.Tile(0, 0, "\u540d\u524d.jpg", np.zeros((64, 64, 3), np.uint8), label="caf\u00e9"))
    assert np.asarray(PilImage.open(io.BytesIO(sheet.png()))).max() == 240
