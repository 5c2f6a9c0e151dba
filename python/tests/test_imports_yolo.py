"""YOLO's data.yaml and label files, and exports of Roboflow."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import penstock as ps
from test_imports import H, W, drawn, penstock, picture, thing, xml

POSE = "names: {0: person}\nkpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\n"


def yolo(path, labels: dict[str, str | bytes | None], yaml="path: .\ntrain: images/train\nnames: [cat, dog]\n"):
    """Writes a data set. Names are split/stem; None means an image without a label file."""
    for i, (name, text) in enumerate(labels.items()):
        for kind in ("images", "labels"):
            (path / kind / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "images" / f"{name}.jpg").write_bytes(picture(i))
        if text is not None:
            (path / "labels" / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    (path / "data.yaml").write_bytes(yaml.encode())
    return path


def packed(folder, out, **options):
    report = ps.pack(folder, out, **{"yolo": True, **options})
    return report, ps.Dataset(out)


def test_boxes(tmp_path):
    """YOLO's formula: centre and size as fractions of the picture."""
    folder = yolo(tmp_path / "set", {
        "train/b": b"\xef\xbb\xbf1 0.5 0.25 0.5 0.25\r\n\r\n0.0 0.1 0.1 0.1 0.1 \r\n",
        "train/a": None, "train/deep/c": "", "val/größe": "0 5e-1 0.5 1.0 1",
    }, "# a remark\npath: .\ntrain: images/train  # below path\nval: images/val\ntest:\n\nnc: 2\nnames:\n  1: dog\n  0: 'no'\n"
       "download: |\n  import x\n\n  x.get('a: b')\n")  # fmt: skip
    (folder / "labels/train/lost.txt").write_text("0 0.5 0.5 1 1")
    report, ds = packed(folder, tmp_path / "out")
    assert [ds.name(i) for i in range(4)] == ["images/train/a.jpg", "images/train/b.jpg", "images/train/deep/c.jpg",
                                              "images/val/größe.jpg"]
    assert ds.classes == ["no", "dog"] and [ds[i]["split"] for i in range(4)] == ["train"] * 3 + ["val"]
    assert [len(ds[i]["boxes"]) for i in range(4)] == [0, 2, 0, 1]
    want = [[0.25 * W, 0.125 * H, 0.75 * W, 0.375 * H], [0.05 * W, 0.05 * H, 0.15 * W, 0.15 * H]]
    np.testing.assert_allclose(ds[1]["boxes"], want, rtol=1e-6)
    assert ds[1]["labels"].tolist() == [1, 0] and ds[3]["boxes"].tolist() == [[0, 0, W, H]]
    assert {notice["kind"]: notice["count"] for notice in report.notices} == {"background": 1, "label_alone": 1}
    assert report.n_pli_jpeg == 4
    penstock("unpack", tmp_path / "out", tmp_path / "files", status=1)
    for name in ("images/train/b.jpg", "images/val/größe.jpg"):
        assert (tmp_path / "files" / name).read_bytes() == (folder / name).read_bytes()
    _, ds = packed(folder / "data.yaml", tmp_path / "val", split="val")
    assert len(ds) == 1
    with pytest.raises(ps.errors.ArgumentError, match="no split 'test': there are train, val"):
        packed(folder, tmp_path / "test", split="test")


def test_polygons(tmp_path):
    parts = [0.1, 0.1, 0.9, 0.2, 0.5, 0.8]
    folder = yolo(tmp_path / "set", {"train/a": "1 " + " ".join(map(str, parts)) + "\n0 0.2 0.2 0.1 0.1\n"})
    report, ds = packed(folder, tmp_path / "boxes")
    np.testing.assert_allclose(ds[0]["boxes"][0], [0.1 * W, 0.1 * H, 0.9 * W, 0.8 * H], rtol=1e-6)
    assert report.notices[0]["kind"] == "polygons" and report.notices[0]["first"] == "labels/train/a.txt"
    report, ds = packed(folder, tmp_path / "masks", paint=["mask", "instances"])
    want = drawn([part * (H if i % 2 else W) for i, part in enumerate(parts)], H, W)
    assert not report.notices and want.sum() > 100
    assert (np.asarray(ds[0]["mask"]) == want * 2).all() and (np.asarray(ds[0]["instances"]) == want).all()


def test_poses(tmp_path):
    folder = yolo(tmp_path / "set", {"train/a": "0 0.5 0.5 0.5 0.5 0.5 0.5 2 0.4 0.6 1 0 0 0\n"}, "train: images/train\n" + POSE)
    _, ds = packed(folder, tmp_path / "out")
    np.testing.assert_allclose(ds[0]["keypoints"], [[30, 20, 2], [24, 24, 1], [0, 0, 0]], rtol=1e-6)
    loader = ps.Loader(ds, batch_size=1, transforms=[ps.transforms.RandomHorizontalFlip(1.0)], output="numpy")
    points = np.asarray(next(iter(loader))["keypoints"][0])
    np.testing.assert_allclose(points[2], [W - 24, 24, 1], rtol=1e-6)  # flip_idx: points 1 and 2 are swapped
    assert points[1, 2] == 0
    two = POSE.replace("3, 3]", "3, 2]").replace("[0, 2, 1]", "[0, 1, 2]")
    folder = yolo(tmp_path / "two", {"train/a": "0 .5 .5 .5 .5 .5 .5 -1 -1 .25 0"}, "train: images/train\n" + two)
    _, ds = packed(folder, tmp_path / "out2")
    assert ds[0]["keypoints"].tolist() == [[30, 20, 2], [0, 0, 0], [15, 0, 2]]


@pytest.mark.parametrize(("line", "text"), [
    ("2 .5 .5 .1 .1", "class '2' is none of 0 to 1"), ("-1 .5 .5 .1 .1", "class '-1'"), ("1.5 .5 .5 .1 .1", "class '1.5'"),
    ("cat .5 .5 .1 .1", "'cat' is no finite number"), ("0 nan .5 .1 .1", "'nan'"), ("0 inf .5 .1 .1", "'inf'"),
    ("0 1e999 .5 .1 .1", "1e999"), ("0 .5 .5 .1", "4 values, 5 are expected"), ("0 .5 .5 .1 .1 .9", "confidence"),
    ("0 .1 .1 .2 .2 .3 .3 .4", "8 values"), ("0 30 20 5 5", "are these pixels"), ("0 -.5 .5 .1 .1", "from 0 to 1"),
    ("0 .5 .5 0 .1", "no area"), ("0 .5 .5 -0.005 .1", "negative size"), ("0 1_0 .5 .1 .1", "1_0"), ("0", "1 values"),
    ("0 .1 .1 .2 .1 .3 .1", "no area"), ("0 .1 .1 .2 .2 .3 1.5", "1.5 is no part"),
])  # fmt: skip
def test_bad_lines(tmp_path, line, text):
    folder = yolo(tmp_path / "set", {"train/a": f"1 .5 .5 .5 .5\n{line}\n", "train/b": ""})
    with pytest.raises(ps.errors.CorruptError, match="labels/train/a.txt', line 2: ") as found:
        packed(folder, tmp_path / "out")
    assert text in str(found.value)
    report, ds = packed(folder, tmp_path / "dropped", bad_annotations="drop")
    assert len(ds[0]["boxes"]) == 1 and len(report.dropped) == 1
    report, ds = packed(folder, tmp_path / "skipped", on_error="skip")
    assert report.n_bad == 1 and len(ds) == 1


@pytest.mark.parametrize(("yaml", "text"), [
    ("train: images/train\nnames: {0: a, 2: b}\n", "line 2: names: class 1 is missing"),
    ("train: images/train\nnames: [a, a]\n", "there twice"), ("train: images/train\nnames: {x: a}\n", "'x' is no number"),
    ("train: images/train\nnc: 3\nnames: [a]\n", "1 names, nc is 3"), ("train: images/train\nnc: x\nnames: [a]\n", "nc is x"),
    ("train: images/train\n", "there are no names"), ("names: [a]\n", "no train, val or test"),
    ("train: images/none\nnames: [a]\n", "line 1: train: there is no 'images/none'"),
    ("train: /etc\nnames: [a]\n", "leads out of"), ("train: ../../x\nnames: [a]\n", "leads out of"),
    ("path: nowhere\ntrain: images/train\nnames: [a]\n", "line 1: path 'nowhere' is no folder"),
    ("train: images/train\nnames: [a]\nnames: [b]\n", "'names' stands there twice"),
    ("train: &x images/train\nval: *x\nnames: [a]\n", "line 1"), ("train: !!python/object:os.system x\nnames: [a]\n", "line 1"),
    ("train: images/train\nnames: a\n", "neither a list"), ("- a\n", "keys with values"), ("", "keys with values"),
    ("train: images/train\nval: images\nnames: [a]\n", "is in the splits train and val"),
    ("train: images/train\nkpt_shape: [3]\nnames: [a]\n", "line 2: kpt_shape is"),
    ("train: images/train\nkpt_shape: [3, 4]\nnames: [a]\n", "kpt_shape is"),
    ("train: images/train\nkpt_shape: [3, 3]\nflip_idx: [0, 1]\nnames: [a]\n", "line 3: flip_idx"),
    ("train: images/train\nkpt_shape: [3, 3]\nflip_idx: [1, 2, 0]\nnames: [a]\n", "swapped in pairs"),
])  # fmt: skip
def test_bad_yaml(tmp_path, yaml, text):
    folder = yolo(tmp_path / "set", {"train/a": "0 .5 .5 .5 .5"}, yaml)
    with pytest.raises(ps.PenstockError) as found:
        packed(folder, tmp_path / "out")
    assert text in str(found.value) and "data.yaml" in str(found.value)
    assert not (tmp_path / "out").exists()


def test_lists_of_images(tmp_path):
    folder = yolo(tmp_path / "set", {f"train/{c}": "0 .5 .5 .5 .5" for c in "abcd"},
                  "train: [train.txt, images/more]\nval: lists/val.txt\nnames: [a]\n")
    (folder / "images/more").mkdir()
    (folder / "lists").mkdir()
    (folder / "images/more/e.jpg").write_bytes(picture(9))
    (folder / "images/more/f.tif").write_bytes(b"II")
    (folder / "train.txt").write_bytes(b"\xef\xbb\xbf./images/train/a.jpg\r\n\r\n" + f"{folder}/images/train/b.jpg\r\n".encode())
    (folder / "lists/val.txt").write_text("../images/train/c.jpg\nimages\\train\\d.jpg\n")
    report, ds = packed(folder, tmp_path / "out")
    assert [ds.name(i)[-5] for i in range(5)] == ["e", "a", "b", "c", "d"]
    assert [ds[i]["split"] for i in range(5)] == ["train"] * 3 + ["val"] * 2
    assert {notice["kind"] for notice in report.notices} == {"background", "left_out_form"}
    for line in ("../../secret.jpg", "/etc/x.jpg", "a\0b.jpg"):
        (folder / "train.txt").write_text(f"./images/train/a.jpg\n{line}\n")
        with pytest.raises(ps.errors.CorruptError, match=r"train.txt', line 2: .* is no path within"):
            packed(folder, tmp_path / "bad")
    (folder / "train.txt").write_text("./images/train/a.jpg\nimages/gone.jpg\n")
    report, _ = packed(folder, tmp_path / "gone", on_error="skip")
    assert [bad["name"] for bad in report.bad] == ["images/gone.jpg"]


def test_files_that_do_not_fit(tmp_path):
    folder = yolo(tmp_path / "set", {"train/a": "0 .5 .5 .5 .5"})
    (folder / "images/train/a.png").write_bytes(picture(1, form="png"))
    with pytest.raises(ps.errors.CorruptError, match="share the label file 'labels/train/a.txt'"):
        packed(folder, tmp_path / "out")
    (folder / "images/train/a.png").unlink()
    os.symlink("..", folder / "images/train/loop")
    (folder / "labels/train/a.txt").rename(folder / "real.txt")
    os.symlink("../../real.txt", folder / "labels/train/a.txt")
    report, ds = packed(folder, tmp_path / "links")
    assert len(ds) == 1 and len(ds[0]["boxes"]) == 1
    (folder / "real.txt").write_bytes(b"0 .5 .5 .5 \xff")
    with pytest.raises(ps.errors.CorruptError, match="a.txt.*not UTF-8"):
        packed(folder, tmp_path / "bytes")
    (folder / "real.txt").unlink()
    with pytest.raises(ps.errors.NotFoundError, match="label file .*labels/train/a.txt"):
        packed(folder, tmp_path / "dangling")  # a broken link is an error, not an image without labels
    (folder / "labels/train/a.txt").unlink()
    with pytest.raises(ps.errors.NotFoundError, match="no image has a label file; that of .* would be 'labels/train/a.txt'"):
        packed(folder, tmp_path / "none")
    for name in ("data.yaml", "x.yml"):
        (folder / name).rename(folder / f"other-{name}") if (folder / name).exists() else None
    (folder / "second.yaml").write_text("")
    with pytest.raises(ps.errors.NotFoundError, match="2 files of YAML"):
        packed(folder, tmp_path / "two")


def test_the_command(tmp_path):
    folder = yolo(tmp_path / "set", {"train/a": "0 .5 .5 .5 .5", "train/b": None})
    with pytest.raises(ps.errors.ArgumentError, match="pack data.yaml DST --yolo"):
        ps.Dataset(folder)
    done = penstock("pack", folder / "data.yaml", tmp_path / "out", "--yolo", "--split", "train")
    assert "2 samples" in done.stdout and "backgrounds" in done.stderr and "images/train/b.jpg" in done.stderr
    assert "only one of" in penstock("pack", folder, tmp_path / "x", "--yolo", "--voc", status=2).stderr


# Roboflow
# ---------------------------------------------------------------------------------------------------------------------


def export(path, files: dict[str, str | bytes]):
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_roboflow_as_yolo(tmp_path):
    folder = export(tmp_path / "set", {
        "data.yaml": "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['cat', 'dog']\n\n"
                     "roboflow:\n  workspace: me\n  version: 1\n  license: CC BY 4.0\n",
        "train/images/a_jpg.rf.0f.jpg": picture(1), "train/labels/a_jpg.rf.0f.txt": "1 0.5 0.5 0.5 0.5",
        "valid/images/b.jpg": picture(2), "valid/labels/b.txt": "", "README.roboflow.txt": "x",
    })  # fmt: skip
    for kind in ("yolo", "roboflow"):
        report = ps.pack(folder, tmp_path / kind, **{kind: True})
        ds = ps.Dataset(tmp_path / kind)
        assert [ds[i]["split"] for i in range(2)] == ["train", "val"] and ds[0]["labels"].tolist() == [1]
        assert [notice["kind"] for notice in report.notices] == ["no_split"]


def test_roboflow_as_coco(tmp_path):
    categories = [{"id": 0, "name": "dog", "supercategory": "none"}, {"id": 1, "name": "dog", "supercategory": "dog"}]
    files: dict[str, str | bytes] = {}
    for i, split in enumerate(("train", "valid")):
        files[f"{split}/a.jpg"] = picture(i)
        files[f"{split}/_annotations.coco.json"] = json.dumps({
            "images": [{"id": 0, "file_name": "a.jpg", "height": H, "width": W}], "categories": categories,
            "annotations": [{"id": 0, "image_id": 0, "category_id": 1, "bbox": [1, 2, 3 + i, 4], "area": 12, "iscrowd": 0}],
        })  # fmt: skip
    folder = export(tmp_path / "set", files)
    ps.pack(folder, tmp_path / "out", roboflow=True)
    ds = ps.Dataset(tmp_path / "out")
    assert ds.classes == ["dog"] and [ds.name(i) for i in range(2)] == ["train/a.jpg", "valid/a.jpg"]
    assert ds[1]["boxes"].tolist() == [[1, 2, 5, 6]] and ds[1]["split"] == "valid"
    ps.pack(folder / "train", tmp_path / "train", coco=folder / "train/_annotations.coco.json")
    assert len(ps.Dataset(tmp_path / "train")) == 1
    with pytest.raises(ps.errors.ArgumentError, match="--roboflow"):
        ps.Dataset(folder)


def test_roboflow_as_voc_and_csv(tmp_path):
    folder = export(tmp_path / "voc", {"train/a.jpg": picture(1), "train/a.xml": xml(thing("zebra")),
                                       "valid/b.jpg": picture(2), "valid/b.xml": xml(thing("ant"))})  # fmt: skip
    ps.pack(folder, tmp_path / "out", roboflow=True)
    ds = ps.Dataset(tmp_path / "out")
    assert ds.classes == ["ant", "zebra"] and [ds[i]["labels"].tolist() for i in range(2)] == [[1], [0]]
    head = "filename,width,height,class,xmin,ymin,xmax,ymax\r\n"
    folder = export(tmp_path / "csv", {
        "train/a.jpg": picture(1), "train/c.jpg": picture(3), "valid/b.jpg": picture(2),
        "train/_annotations.csv": f'\ufeff{head}a.jpg,{W},{H},"big, dog",1,2,30,20\r\n',
        "valid/_annotations.csv": f"{head}b.jpg,{W},{H},cat,0,0,5,5\r\nb.jpg,{W},{H},cat,5,5,5,9\r\n",
    })  # fmt: skip
    with pytest.raises(ps.errors.CorruptError, match="valid/_annotations.csv', line 3: .*no area"):
        ps.pack(folder, tmp_path / "bad", roboflow=True)
    report = ps.pack(folder, tmp_path / "rows", roboflow=True, bad_annotations="drop")
    ds = ps.Dataset(tmp_path / "rows")
    assert ds.classes == ["big, dog", "cat"] and ds[0]["boxes"].tolist() == [[1, 2, 30, 20]]
    assert [ds[i]["labels"].tolist() for i in range(3)] == [[0], [], [1]] and len(report.dropped) == 1
    for row, text in (("../x.jpg,1,1,a,0,0,1,1", "no path within"), ("a.jpg,1", "2 values"), ("a.jpg,1,1,,0,0,1,1", "no class")):
        (folder / "train/_annotations.csv").write_text(head + row)
        with pytest.raises(ps.errors.CorruptError, match=f"line 2: .*{text}"):
            ps.pack(folder, tmp_path / "bad", roboflow=True)
    with pytest.raises(ps.errors.NotFoundError, match="no data.yaml, and no folder train"):
        ps.pack(tmp_path / "out", tmp_path / "bad", roboflow=True)
