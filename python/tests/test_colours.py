"""Folders of images with masks in colours, by a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import picture
from penstock.data.annotations import colour_tables

COLOURS = {"road": (128, 64, 128), "person": (220, 20, 60), "sky é": (0, 0, 0), "void": (255, 255, 255)}
CSV = "name,r,g,b,label\nroad,128,64,128,\nperson,220,20,60,\nsky é,0,0,0,\nvoid,255,255,255,255\n"


def labels(i: int) -> np.ndarray:
    found = np.random.default_rng(i).integers(0, 4, (20 + i, 30)).astype(np.uint8)
    return np.where(found == 3, 255, found).astype(np.uint8)


def coloured(numbers: np.ndarray) -> np.ndarray:
    lut = np.zeros((256, 3), np.uint8)
    lut[[0, 1, 2, 255]] = list(COLOURS.values())
    return lut[numbers]


def made(root, images: str = "images", masks: str = "masks", ending: str = "", n: int = 4):
    for i in range(n):
        (root / images / "ü b").mkdir(parents=True, exist_ok=True)
        (root / masks / "ü b").mkdir(parents=True, exist_ok=True)
        PilImage.fromarray(picture(i, 20 + i, 30)).save(root / images / f"ü b/{i}.1.jpg")
        PilImage.fromarray(coloured(labels(i))).save(root / masks / f"ü b/{i}.1{ending}.png")
    return root


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize(
    ("images", "masks", "ending", "split"),
    [("images", "masks", "", None), ("images", "labels", "_mask", None), ("JPEGImages", "SegmentationClass", "", None),
     ("701_StillsRaw_full", "LabeledApproved_full", "_L", None), ("train", "train_labels", "_L", "train"),
     ("val", "valannot", "", "val")],
)  # fmt: skip
def test_layouts(tmp_path, table, images, masks, ending, split):
    root = made(tmp_path / "data", images, masks, ending)
    report = ps.pack(root, tmp_path / "out", colours=table)
    assert report.n_samples == 4 and report.notices == []
    ds = ps.Dataset(tmp_path / "out")
    assert ds.class_names("mask_classes") == ["road", "person", "sky é"] and ds.fields["mask"].type == "mask"
    for i in range(4):
        assert np.array_equal(ds[i]["mask"], labels(i)) and ds[i]["mask_classes"].tolist() == [0, 1, 2]
        assert ds.name(i) == f"{images}/ü b/{i}.1.jpg" and ds[i].get("split") == split
    if split:
        with pytest.raises(ps.errors.NotFoundError, match="of the split 'test'"):
            ps.pack(root, tmp_path / "test", colours=table, split="test")


def test_palettes_gray_and_alpha_have_the_colours_that_are_seen(tmp_path, table):
    root = made(tmp_path / "data", n=4)
    rgb = PilImage.fromarray(coloured(labels(0)))
    folder = root / "masks/ü b"
    palette = rgb.quantize(8)
    assert np.array_equal(np.asarray(palette.convert("RGB")), np.asarray(rgb))
    palette.save(folder / "0.1.png")
    PilImage.fromarray(np.full((21, 30), 255, np.uint8)).save(folder / "1.1.png")  # gray: white
    PilImage.fromarray(coloured(labels(2))).convert("RGBA").save(folder / "2.1.png")
    PilImage.fromarray(coloured(labels(3))).save(folder / "3.1.webp", lossless=True)
    os.unlink(folder / "3.1.png")
    ps.pack(root, tmp_path / "out", colours=table, mask_forms="raw")
    ds = ps.Dataset(tmp_path / "out")
    for i in (0, 2, 3):
        assert np.array_equal(ds[i]["mask"], labels(i)), i
    assert (ds[1]["mask"] == 255).all() and ds[1]["mask_classes"].size == 0


def test_unknown_colours_are_named_with_file_place_and_colour(tmp_path, table):
    root = made(tmp_path / "data")
    path = root / "masks/ü b/2.1.png"
    pixels = coloured(labels(2))
    pixels[7, 11] = (128, 64, 129)
    pixels[9, 3:5] = (1, 2, 3)
    PilImage.fromarray(pixels).save(path)
    words = (r"2\.1\.png'?: the pixel at x=11, y=7 has the colour \(128, 64, 129\), #804081, which the table .*table\.csv does not "
             "have; 3 pixels have 2 such colours")  # fmt: skip
    with pytest.raises(ps.errors.CorruptError, match=words):
        ps.pack(root, tmp_path / "out", colours=table, num_workers=1)
    report = ps.pack(root, tmp_path / "skipped", colours=table, on_error="skip")
    assert report.n_samples == 3 and [bad["name"] for bad in report.bad] == ["images/ü b/2.1.jpg"]
    PilImage.fromarray(coloured(labels(2))).save(path)
    ps.pack(root, tmp_path / "out", colours=table, resume=True)
    ps.pack(root, tmp_path / "whole", colours=table)
    for name in os.listdir(tmp_path / "whole"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize(
    ("save", "words"),
    [
        (lambda p: PilImage.fromarray(coloured(labels(0))).save(p, "JPEG"), "JPEG changes colours"),
        (lambda p: PilImage.fromarray(np.full((20, 30), 300, np.uint16)).save(p, "PNG"), "16 bits are no colours"),
        (lambda p: PilImage.fromarray(coloured(labels(0))[:9]).save(p, "PNG"), "mask"),
        (lambda p: PilImage.new("RGBA", (30, 20), (0, 0, 0, 7)).save(p, "PNG"), "x=0, y=0 is transparent"),
        (lambda p: p.write_bytes(b"no picture"), "mask|image"),
        (lambda p: p.write_bytes(b""), "mask|image"),
    ],
)
def test_bad_masks(tmp_path, table, save, words):
    root = made(tmp_path / "data")
    save(root / "masks/ü b/0.1.png")
    with pytest.raises(ps.PenstockError, match=words) as raised:
        ps.pack(root, tmp_path / "out", colours=table)
    assert "0.1" in str(raised.value)


def test_what_has_no_partner(tmp_path, table):
    root = made(tmp_path / "data")
    os.unlink(root / "masks/ü b/1.1.png")
    os.unlink(root / "images/ü b/3.1.jpg")
    report = ps.pack(root, tmp_path / "out", colours=table)
    assert report.n_samples == 2
    assert [(each["kind"], each["count"], each["first"]) for each in report.notices] == [
        ("left_out", 1, "images/ü b/1.1.jpg"), ("mask_alone", 1, "masks/ü b/3.1.png")]  # fmt: skip
    PilImage.new("RGB", (30, 20)).save(root / "masks/ü b/0.1_mask.png")
    with pytest.raises(ps.errors.CorruptError, match="are masks of one image"):
        ps.pack(root, tmp_path / "two", colours=table)
    with pytest.raises(ps.errors.NotFoundError, match="no folders of images and masks"):
        ps.pack(tmp_path / "out", tmp_path / "none", colours=table)
    with pytest.raises(ps.errors.NotFoundError, match="have no splits"):
        ps.pack(root, tmp_path / "none", colours=table, split="train")


def test_built_in_tables():
    camvid, voc = colour_tables.open_table("camvid"), colour_tables.open_table("voc")
    assert len(camvid.names) == 31 and camvid.labels[64, 128, 64] == 0 and camvid.labels[64, 192, 0] == 30
    assert camvid.labels[0, 0, 0] == 255 and "Void" not in camvid.names and len(camvid.labels) == 32
    assert len(voc.names) == 21 and voc.labels[224, 224, 192] == 255
    # The colours that VOC's devkit states for aeroplane, bicycle, chair, cow, person and tvmonitor.
    known = {1: (128, 0, 0), 2: (0, 128, 0), 9: (192, 0, 0), 10: (64, 128, 0), 15: (192, 128, 128), 20: (0, 64, 128)}
    assert all(voc.labels[colour] == label for label, colour in known.items())
    assert [voc.names[i] for i in known] == ["aeroplane", "bicycle", "chair", "cow", "person", "tvmonitor"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bom.csv", "\ufeff" + CSV.replace("\n", "\r\n")),
        ("hex.csv", 'Name, Colour, ID\n"road",#804080,0\nperson,"220, 20, 60",1\nsky é,#000000,2\nvoid,#ffFFff,255\n'),
        ("a.json", json.dumps([{"name": name, "color": colour, "id": [0, 1, 2, 255][i]}
                               for i, (name, colour) in enumerate(COLOURS.items())])),
        ("b.json", json.dumps({"classes": [{"name": name, "colour": list(colour), "label": [0, 1, 2, 255][i]}
                                           for i, (name, colour) in enumerate(COLOURS.items())]})),
        ("c.yaml", "classes:\n" + "".join(f"  - name: {name}\n    rgb: {list(colour)}\n    label: {[0, 1, 2, 255][i]}\n"
                                          for i, (name, colour) in enumerate(COLOURS.items()))),
    ],
)  # fmt: skip
def test_forms_of_tables(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = colour_tables.open_table(str(tmp_path / name))
    assert table.labels == dict(zip(COLOURS.values(), (0, 1, 2, 255), strict=True)) and table.names == ["road", "person", "sky é"]


def test_tables_without_labels_count(tmp_path):
    for name, text in [("a.yaml", "road: [128, 64, 128]\nsky: '#000000'\n"), ("b.txt", "128 64 128\troad\n\n# no\n0 0 0\tsky\n"),
                       ("c.json", '{"road": [128, 64, 128], "sky": "#000000"}')]:  # fmt: skip
        (tmp_path / name).write_text(text)
        table = colour_tables.open_table(str(tmp_path / name))
        assert table.labels == {(128, 64, 128): 0, (0, 0, 0): 1} and table.names == ["road", "sky"], name
    (tmp_path / "d.csv").write_text("name,r,g,b\na,1,1,1\nb,2,2,2\na,3,3,3\n")
    table = colour_tables.open_table(str(tmp_path / "d.csv"))
    assert table.labels[3, 3, 3] == 0 and table.names == ["a", "b"]
    (tmp_path / "gap.csv").write_text("name,r,g,b,label\na,1,1,1,3\nb,2,2,2,300\n")
    assert colour_tables.open_table(str(tmp_path / "gap.csv")).names[:4] == ["class_0", "class_1", "class_2", "a"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "name,r,g\nroad,1,2\n", "names the columns"), ("a.csv", "", "names the columns"),
        ("a.csv", "name,r,g,b\n", "no colour"),
        ("a.csv", "name,r,g,b\nroad,1,2\n", "line 2 has not as many cells"),
        ("a.csv", "name,r,g,b\nroad,1,2,256\n", "line 2: .*no colour"),
        ("a.csv", "name,r,g,b\nroad,1,2,-1\n", "no colour"), ("a.csv", "name,r,g,b\nroad,1,2,1.5\n", "no colour"),
        ("a.csv", "name,r,g,b\nroad,1,2,3\nsky,1,2,3\n", "there twice"), ("a.csv", "name,r,g,b\n,1,2,3\n", "no name"),
        ("a.csv", "name,r,g,b,label\na,1,2,3,70000\n", "no label"),
        ("a.csv", "name,r,g,b,label\na,1,2,3,1\nb,1,2,4,1\n", "have the label 1"),
        ("a.csv", "name,r,g,b,label\na,1,2,3,1\na,1,2,4,2\n", "two labels"), ("a.csv", 'name,r,g,b\n"a,1,2,3\n', "line"),
        ("a.csv", "name,r,g,b\na,\u0661,2,3\n", "no colour"), ("a.json", "[1]", "entry 0"), ("a.json", "7", "a map of names"),
        ("a.json", '{"a": [1, 2, true]}', "no colour"), ("a.json", '{"a": [1, 2, 3.0]}', "no colour"), ("a.json", "{", "not JSON"),
        ("a.yaml", "a: &x [1, 2, 3]\n", "a.yaml"), ("a.txt", "1 2 road\n", "R G B NAME"),
        ("a.csv", b"name,r,g,b\n\xff,1,2,3\n", "UTF-8"),
        ("a.txt", "9999999999999999999999 2 3 road\n", "no colour"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ps.PenstockError, match=words) as raised:
        colour_tables.open_table(str(tmp_path / name))
    assert raised.value.file == str(tmp_path / name)
    with pytest.raises(ps.errors.NotFoundError):
        colour_tables.open_table("nowhere")


def test_command_line(tmp_path, table):
    root = made(tmp_path / "data")
    program = os.path.join(os.path.dirname(sys.executable), "penstock")
    environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable}
    os.unlink(root / "images/ü b/3.1.jpg")
    done = subprocess.run([program, "pack", root, tmp_path / "out", "--colours", table, "--tier", "fast"], capture_output=True,
                          text=True, check=False, env=environment)  # fmt: skip
    assert done.returncode == 0 and "1 masks have no image" in done.stderr, done
    assert np.array_equal(ps.Dataset(tmp_path / "out")[1]["mask"], labels(1))
    done = subprocess.run([program, "pack", root, tmp_path / "no", "--colours", table, "--paint", "mask"], capture_output=True,
                          text=True, check=False, env=environment)  # fmt: skip
    assert done.returncode == 2 and "--paint" in done.stderr


def ade_image(folder, name: str, numbers: np.ndarray, objects: list[tuple[int, str]] | None, blue: int = 9) -> None:
    """Writes an image of the full ADE20K with its mask, and a JSON file if there are objects."""
    folder.mkdir(parents=True, exist_ok=True)
    PilImage.fromarray(picture(3, *numbers.shape)).save(folder / f"{name}.jpg")
    rgb = np.stack([numbers // 256 * 10, numbers % 256, np.full(numbers.shape, blue)], axis=2).astype(np.uint8)
    PilImage.fromarray(rgb).save(folder / f"{name}_seg.png")
    PilImage.fromarray(rgb[..., 0]).save(folder / f"{name}_parts_1.png")
    (folder / name).mkdir(exist_ok=True)
    PilImage.fromarray(rgb[..., 0]).save(folder / name / "instance_000_x.png")
    if objects is not None:
        tree = {"annotation": {"object": [{"id": i, "name": text, "name_ndx": number} for i, (number, text) in enumerate(objects)]}}
        (folder / f"{name}.json").write_bytes(json.dumps(tree, ensure_ascii=False).encode("iso-8859-1"))


ADE_OBJECTS = [(2420, "sky"), (312, "building, edifice"), (255, "caf\xe9"), (1, "sky")]


@pytest.fixture
def ade(tmp_path):
    root = tmp_path / "ADE20K_2021_17_01/images/ADE"
    numbers = np.random.default_rng(1).choice([0, 1, 255, 312, 2420], (20, 30))
    ade_image(root / "training/urban/street", "ADE_train_00000001", numbers, ADE_OBJECTS)
    ade_image(root / "validation/nature/é", "ADE_val_00000001", np.full((9, 8), 312), ADE_OBJECTS[1:2])
    return tmp_path / "ADE20K_2021_17_01", numbers


def test_full_ade20k(tmp_path, ade):
    root, numbers = ade
    report = ps.pack(root, tmp_path / "out", colours="ade")
    assert report.n_samples == 2 and report.notices == []
    ds = ps.Dataset(tmp_path / "out")
    assert ds.name(0) == "images/ADE/training/urban/street/ADE_train_00000001.jpg"
    assert np.array_equal(ds[0]["mask"], numbers) and ds[0]["mask"].dtype == np.uint16
    assert ds[0]["mask_classes"].tolist() == [1, 255, 312, 2420] and ds[1]["mask_classes"].tolist() == [312]
    assert [ds[i]["split"] for i in range(2)] == ["training", "validation"]
    names = ds.class_names("mask_classes")
    assert [names[i] for i in (0, 1, 2, 255, 312)] == ["unlabelled", "sky", "class_2", "café", "building, edifice"]
    assert names[2420] == "sky 2420"
    ps.pack(root, tmp_path / "val", colours="ade", split="validation")
    assert len(ps.Dataset(tmp_path / "val")) == 1
    with pytest.raises(ps.errors.NotFoundError, match="split 'test'; there are training, validation"):
        ps.pack(root, tmp_path / "no", colours="ade", split="test")


def test_ade20k_without_names_and_with_others(tmp_path, ade):
    root, numbers = ade
    folder = root / "images/ADE/training/urban/street"
    ade_image(folder, "ADE_train_00000002", np.full((9, 8), 312), [(312, "house")])
    report = ps.pack(root, tmp_path / "out", colours="ade")
    assert [(each["kind"], each["count"]) for each in report.notices] == [("names_differ", 1)]
    for path in root.rglob("*.json"):
        path.unlink()
    (folder / "ADE_train_00000002.jpg").unlink()
    PilImage.new("RGB", (8, 9)).save(root / "alone.jpg")
    report = ps.pack(root, tmp_path / "plain", colours="ade")
    assert {(each["kind"], each["count"]) for each in report.notices} == {("mask_alone", 1), ("left_out", 1)}
    ds = ps.Dataset(tmp_path / "plain")
    assert np.array_equal(ds[0]["mask"], numbers) and not ds.class_names("mask_classes")


def test_colours_that_ade20k_does_not_have(tmp_path, ade):
    root, numbers = ade
    path = root / "images/ADE/training/urban/street/ADE_train_00000001_seg.png"
    pixels = np.asarray(PilImage.open(path)).copy()
    pixels[5, 6] = (11, 0, 0)
    PilImage.fromarray(pixels).save(path)
    with pytest.raises(ps.errors.CorruptError, match=r"x=6, y=5 has the colour \(11, 0, 0\), #0b0000, which the table ade"):
        ps.pack(root, tmp_path / "red", colours="ade")
    pixels[5, 6] = (0, 2, 0)
    PilImage.fromarray(pixels).save(path)
    with pytest.raises(ps.errors.CorruptError, match=r"x=6, y=5 has the colour \(0, 2, 0\)"):
        ps.pack(root, tmp_path / "unnamed", colours="ade")
    (path.parent / "ADE_train_00000001.json").write_text('{"annotation": {"object": [{"name": "sky"}]}}')
    with pytest.raises(ps.errors.CorruptError, match=r"00001\.json.*annotation\.object\[0\] has no name and number"):
        ps.pack(root, tmp_path / "json", colours="ade")
    with pytest.raises(ps.errors.NotFoundError, match="table is ade150"):
        ps.pack(root / "images/ADE/validation/nature/é/ADE_val_00000001", tmp_path / "none", colours="ade")


def test_benchmark_of_ade20k(tmp_path):
    root = tmp_path / "ADEChallengeData2016"
    numbers = np.random.default_rng(2).integers(0, 151, (20, 30)).astype(np.uint8)
    for split, name in (("training", "ADE_train_1"), ("validation", "ADE_val_1")):
        for folder in ("images", "annotations"):
            (root / folder / split).mkdir(parents=True)
        PilImage.fromarray(picture(1, 20, 30)).save(root / "images" / split / f"{name}.jpg")
        PilImage.fromarray(numbers).save(root / "annotations" / split / f"{name}.png")
    ps.pack(root, tmp_path / "out", colours="ade150")
    ds = ps.Dataset(tmp_path / "out")
    assert np.array_equal(ds[0]["mask"], np.where(numbers == 0, 255, numbers - 1)) and ds[1]["split"] == "validation"
    names = ds.class_names("mask_classes")
    assert len(names) == 150 and [names[i] for i in (0, 7, 12, 44, 149)] == ["wall", "bed", "person", "chest of drawers", "flag"]
    ps.pack(root, tmp_path / "val", colours="ade150", split="validation")
    assert [ps.Dataset(tmp_path / "val").name(i) for i in range(1)] == ["images/validation/ADE_val_1.jpg"]
    numbers[3, 4] = 151
    PilImage.fromarray(numbers).save(root / "annotations/training/ADE_train_1.png")
    with pytest.raises(ps.errors.CorruptError, match=r"x=4, y=3 has the colour \(151, 151, 151\)"):
        ps.pack(root, tmp_path / "no", colours="ade150")
