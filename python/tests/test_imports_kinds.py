"""Annotations whose numbers and ids have unusual types, and VOC files written by other programs."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest

import penstock as ps
from test_imports import H, W, annotation, coco, penstock, thing, voc, xml


def test_coco_of_pandas(tmp_path):
    """Whole numbers stored as floats are taken as pycocotools takes them."""
    given = {**annotation(1.0, 10.0, 18.0), "iscrowd": 0.0, "bbox": [5.0, 6, 20, 10]}
    runs_ = {"size": [float(H), float(W)], "counts": [10.0, 5.0, H * W - 15.0]}
    folder, file = coco(tmp_path, [given, {**annotation(2.0, 10), "segmentation": runs_}])
    data = json.loads(file.read_text())
    for image in data["images"]:
        image.update(id=float(image["id"]), height=float(H), width=float(W))
    for category in data["categories"]:
        category["id"] = float(category["id"])
    file.write_text(json.dumps(data))
    ps.pack(folder, tmp_path / "out", coco=file, paint=["instances"])
    ds = ps.Dataset(tmp_path / "out")
    assert ds.column("image_id").tolist() == [11, 10, 12] and ds[1]["labels"].tolist() == [1, 1]
    assert (np.asarray(ds[1]["instances"]) == 2).sum() == 5


def test_coco_with_texts_as_ids(tmp_path):
    """pycocotools uses any id as a key: ids that are texts work, and are sorted as texts."""
    folder, file = coco(tmp_path, [annotation("x", "img-b", "10"), annotation(7, "img-a", "9")])
    data = json.loads(file.read_text())
    for image, own in zip(data["images"], ("img-b", "img-a", "2"), strict=True):
        image["id"] = own
    data["categories"] = [{"id": "9", "name": "nine"}, {"id": "10", "name": "ten"}, {"id": 3, "name": "three"}]
    file.write_text(json.dumps(data))
    ps.pack(folder, tmp_path / "out", coco=file)
    ds = ps.Dataset(tmp_path / "out")
    assert ds.classes == ["three", "ten", "nine"]  # numbers first, then texts, each sorted
    assert [ds[i]["image_id"] for i in range(3)] == ["img-a", "img-b", "2"]
    assert ds[0]["labels"].tolist() == [2] and ds[1]["labels"].tolist() == [1]
    (next(iter(data["images"])))["id"] = 10
    file.write_text(json.dumps(data))
    with pytest.raises(ps.errors.CorruptError, match="annotation 'x': there is no image 'img-b'"):
        ps.pack(folder, tmp_path / "other", coco=file)


def test_coco_ids_are_found_as_pycocotools_finds_them(tmp_path):
    coco_tool = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    folder, file = coco(tmp_path, [annotation("x", "b", 18.0), annotation(2, "a", 1), annotation(3.0, "b", 90)])
    data = json.loads(file.read_text())
    for image, own in zip(data["images"], ("b", "a", 4.0), strict=True):
        image["id"] = own
    file.write_text(json.dumps(data))
    with contextlib.redirect_stdout(None):
        tool = coco_tool.COCO(str(file))
    ps.pack(folder, tmp_path / "out", coco=file)
    ds = ps.Dataset(tmp_path / "out")
    for i in range(3):
        image = next(image for image in data["images"] if image["file_name"] == ds.name(i))
        theirs = [tool.anns[a]["category_id"] for a in tool.getAnnIds(imgIds=[image["id"]])]
        ids = sorted(tool.getCatIds())
        assert [ids[label] for label in ds[i]["labels"]] == theirs


def test_names_of_categories_are_texts_of_a_data_set(tmp_path):
    for name in ("a\0b", "\ud800", "", "a\nb", 3, None, True):
        folder, file = coco(tmp_path, [], categories=[{"id": 1, "name": name}])
        with pytest.raises(ps.errors.CorruptError, match="category number 0 of the list") as caught:
            ps.pack(folder, tmp_path / "out", coco=file)
        assert caught.value.file == str(file)


NO_BOX = "<object><name>dog</name><polygon><x1>1</x1><y1>2</y1></polygon></object>"


@pytest.mark.parametrize(("first", "text"), [
    (xml(NO_BOX), r"object 0 \(dog\): it has no bndbox"),
    (xml(thing("cat", (1, "left", 5, 6))), r"object 0 \(cat\): ymin is 'left', a number is expected"),
    (xml("<object><bndbox/></object>"), r"object 0 \(\): it has no name"),
])  # fmt: skip
def test_voc_without_a_single_good_object(tmp_path, first, text):
    folder = voc(tmp_path / "VOC", {"a": xml(""), "b": first, "c": xml(NO_BOX)})
    with pytest.raises(ps.errors.CorruptError, match=text) as caught:
        ps.pack(folder, tmp_path / "out", voc=True)
    assert caught.value.file == str(folder / "Annotations/b.xml")


def test_voc_that_counts_from_0_is_said(tmp_path):
    folder = voc(tmp_path / "VOC", {
        "a": xml(thing("cat", (1, 1, 9, 9))),
        "b": xml(thing("cat", (3, 0, 9, 9)) + thing("dog", (0, 0, 5, 5))),
        "c": xml(thing("cat", (0, 4, 9, 9))),
    })  # fmt: skip
    report = ps.pack(folder, tmp_path / "out", voc=True)
    assert report.notices == [{"kind": "counted_from_0", "name": "boxes", "count": 2, "first": "Annotations/b.xml"}]
    done = penstock("pack", folder, tmp_path / "again", "--voc")
    assert "boxes of 2 files begin at pixel 0, the first Annotations/b.xml" in done.stderr
