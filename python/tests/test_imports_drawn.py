"""Shapes that were drawn in CVAT and Labelme."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

import penstock as ps
from conftest import encoded
from test_imports import LAUGHS, H, W, drawn, penstock, picture


def cvat(path, images: str, labels: tuple[str, ...] = ("cat", "dog"), head: str = "", n: int = 2):
    (path / "images").mkdir(parents=True, exist_ok=True)
    for i in range(n):
        (path / f"images/{i}.jpg").write_bytes(picture(i))
    names = "".join(f"<label><name>{name}</name></label>" for name in labels)
    (path / "annotations.xml").write_text(
        f"<?xml version='1.0' encoding='utf-8'?>{head}\n<annotations><version>1.1</version>\n<meta><task><labels>{names}</labels>"
        f"</task></meta>\n{images}</annotations>"
    )
    return path


def image(i: int, shapes: str, more: str = "") -> str:
    return f'<image id="{i}" name="{i}.jpg" width="{W}" height="{H}" {more}>\n{shapes}\n</image>\n'


SHAPES = """<box label="dog" xtl="5" ytl="6" xbr="25" ybr="16.5" occluded="1"><attribute name="age">4</attribute></box>
<polygon label="cat" points="1,1;20.5,2;10,20"/>
<mask label="dog" rle="1, 2, 3, 2, 0, 1" left="30" top="10" width="3" height="3"/>
<ellipse label="cat" cx="40" cy="20" rx="6" ry="4"/>
<polyline label="cat" points="1,2;3,4"/><points label="dog" points="7,8"/>
<skeleton label="cat">
<points label="1" outside="0" occluded="1" points="5,5"/><points label="2" outside="1" points="6,6"/></skeleton>
<tag label="dog"/>"""


def test_cvat(tmp_path):
    folder = cvat(tmp_path / "set", image(0, SHAPES) + image(1, ""))
    report = ps.pack(folder, tmp_path / "out", cvat=True, paint=["mask", "instances"])
    ds = ps.Dataset(tmp_path / "out")
    first = ds[0]
    assert ds.classes == ["cat", "dog"] and ds.name(0) == "images/0.jpg" and report.n_pli_jpeg == 2
    want = [[5, 6, 25, 16.5], [1, 1, 20.5, 20], [30, 10, 33, 13], [34, 16, 46, 24]]
    np.testing.assert_allclose(first["boxes"], want, rtol=1e-6)
    assert first["labels"].tolist() == [1, 0, 1, 0] and first["shapes"].tolist() == [0, 1, 3, 2]
    assert first["occluded"].tolist() == [1, 0, 0, 0] and first["tags"].tolist() == [1]
    assert first["points"].tolist() == [[1, 2, 2], [3, 4, 2], [7, 8, 2], [5, 5, 1], [6, 6, 0]]
    assert first["point_sets"].tolist() == [0, 0, 1, 2, 2] and first["point_shapes"].tolist() == [1, 1, 0, 2, 2]
    assert first["point_labels"].tolist() == [0, 0, 1, 0, 0] and ds[1]["points"].shape == (0, 3)
    instances = np.asarray(first["instances"])
    window = [[0, 1, 1], [0, 0, 0], [1, 1, 1]]  # runs along the rows: 1 outside, 2 inside, 3 outside, 2 inside, 0 outside, 1 inside
    assert (instances[10:13, 30:33] == np.array(window) * 3).all() and (instances == 3).sum() == 5
    polygon = drawn([1, 1, 20.5, 2, 10, 20], H, W)
    assert (instances[polygon] != 0).all() and (np.asarray(first["mask"])[instances == 3] == 2).all()
    y, x = np.mgrid[:H, :W] + 0.5
    inside = ((x - 40) / 6) ** 2 + ((y - 20) / 4) ** 2
    assert (instances[inside < 0.7] == 4).all() and (instances[inside > 1.4] != 4).all()
    assert [notice["kind"] for notice in report.notices] == ["attributes"]


def test_cvat_turned_boxes_and_subsets(tmp_path):
    box = '<box label="dog" xtl="10" ytl="10" xbr="30" ybr="20" rotation="90"/>'
    folder = cvat(tmp_path / "set", image(0, box, 'subset="train"') + image(1, "", 'subset="val"'))
    ps.pack(folder, tmp_path / "out", cvat=True)
    ds = ps.Dataset(tmp_path / "out")
    np.testing.assert_allclose(ds[0]["boxes"], [[15, 5, 25, 25]], atol=1e-4)
    assert [ds[i]["split"] for i in range(2)] == ["train", "val"]
    ps.pack(folder / "annotations.xml", tmp_path / "val", cvat=True, split="val")
    assert len(ps.Dataset(tmp_path / "val")) == 1
    with pytest.raises(ps.errors.ArgumentError, match="pack SRC DST --cvat"):
        ps.Dataset(folder)


@pytest.mark.parametrize(("shape", "text"), [
    ('<box label="dog" xtl="a" ytl="6" xbr="25" ybr="16"/>', "xtl is 'a'"),
    ('<box label="dog" xtl="5" ytl="6" xbr="25"/>', "ybr is None"),
    ('<box label="dog" xtl="nan" ytl="6" xbr="25" ybr="16"/>', "'nan'"),
    ('<box label="dog" xtl="5" ytl="6" xbr="5" ybr="16"/>', "no area"),
    ('<box label="dog" xtl="9" ytl="6" xbr="5" ybr="16"/>', "negative"), ('<box xtl="5" ytl="6" xbr="25" ybr="16"/>', "no label"),
    ('<box label="dog" xtl="500" ytl="6" xbr="525" ybr="16"/>', "outside of the image"),
    ('<polygon label="dog" points="1,1;2,2"/>', "3 are expected"), ('<polygon label="dog" points="1,1;2;3,3"/>', "'2', x,y"),
    ('<mask label="dog" rle="1,2" left="0" top="0" width="2" height="2"/>', "3 pixels, its box has 4"),
    ('<mask label="dog" rle="4" left="59" top="0" width="2" height="2"/>', "beyond the image"),
    ('<mask label="dog" rle="-1,5" left="0" top="0" width="2" height="2"/>', "rle"),
    ('<mask label="dog" rle="4" left="0.5" top="0" width="2" height="2"/>', "whole number"),
    ('<cuboid label="dog"/>', "no shape that can be stored"), ('<skeleton label="dog"/>', "no points"),
])  # fmt: skip
def test_bad_cvat_shapes(tmp_path, shape, text):
    folder = cvat(tmp_path / "set", image(0, shape + '<box label="cat" xtl="1" ytl="1" xbr="5" ybr="6"/>'), n=1)
    with pytest.raises(ps.errors.CorruptError, match=r"annotations.xml': line 5: ") as found:
        ps.pack(folder, tmp_path / "out", cvat=True, paint=["mask"])
    assert text in str(found.value)
    report = ps.pack(folder, tmp_path / "dropped", cvat=True, paint=["mask"], bad_annotations="drop")
    assert len(report.dropped) == 1 and len(ps.Dataset(tmp_path / "dropped")[0]["boxes"]) == 1


def test_bad_cvat_files(tmp_path):
    def fails(text, folder):
        with pytest.raises(ps.PenstockError, match=text):
            ps.pack(folder, tmp_path / f"{folder.name}.pst", cvat=True)

    fails("DOCTYPE", cvat(tmp_path / "a", image(0, SHAPES), head=LAUGHS))
    fails("tracks of a video", cvat(tmp_path / "b", "<track/>"))
    fails("line 14: image 'images/0.jpg' is there twice", cvat(tmp_path / "c", image(0, SHAPES) + image(0, "")))
    fails("no path within", cvat(tmp_path / "d", image(0, SHAPES).replace("0.jpg", "../0.jpg")))
    fails("no path within", cvat(tmp_path / "e", image(0, SHAPES).replace("0.jpg", "/etc/0.jpg")))
    fails("is 61 x 40 pixels there", cvat(tmp_path / "f", image(0, SHAPES).replace(f'width="{W}"', 'width="61"')))
    fails("images/9.jpg", cvat(tmp_path / "g", image(9, SHAPES)))
    fails("there is no image", cvat(tmp_path / "h", ""))
    fails("width is 'x'", cvat(tmp_path / "i", image(0, SHAPES).replace(f'width="{W}"', 'width="x"')))
    (tmp_path / "a/annotations.xml").write_text("<annotations><image></annotations>")
    fails("not XML", tmp_path / "a")


# Labelme
# ---------------------------------------------------------------------------------------------------------------------


def shape(kind: str, points, label="cat", **more):
    return {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}, **more}


def labelme(path, name: str, shapes, image_path: str | None = None, data: bytes | None = None, **more):
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    found = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": image_path or f"{name.rpartition('/')[2]}.jpg",
             "imageData": None if data is None else base64.b64encode(data).decode(), "imageHeight": H, "imageWidth": W, **more}
    (path / f"{name}.json").write_text(json.dumps(found))
    return path


BITS = np.array([[0, 255, 255], [255, 0, 0]], np.uint8)
DRAWN = [
    shape("rectangle", [[25, 16], [5, 6]], "dog", group_id=3), shape("polygon", [[1, 1], [20.5, 2], [10, 20]]),
    shape("circle", [[30, 20], [33, 24]]), shape("mask", [[40, 10], [42, 11]], "dog", mask="BITS"),
    shape("point", [[7, 8]]), shape("line", [[1, 2], [3, 4]], "größe"), shape("linestrip", [[1, 1], [2, 2], [3, 1]]),
]  # fmt: skip


def bits() -> str:
    return base64.b64encode(encoded(BITS, "png")).decode()


def test_labelme(tmp_path):
    shapes = [{**each, "mask": bits()} if "mask" in each else each for each in DRAWN]
    folder = labelme(tmp_path / "set", "json/a", shapes, "..\\images\\a.jpg")
    (folder / "images").mkdir()
    (folder / "images/a.jpg").write_bytes(picture(1))
    (folder / "images/free.jpg").write_bytes(picture(2))
    labelme(folder, "b", [], "gone.jpg", picture(3))
    (folder / "config.json").write_text('{"a": 1}')
    report = ps.pack(folder, tmp_path / "out", labelme=True, paint=["instances"])
    ds = ps.Dataset(tmp_path / "out")
    assert [ds.name(i) for i in range(2)] == ["b.jpg", "images/a.jpg"] and ds.classes == ["cat", "dog", "größe"]
    np.testing.assert_allclose(ds[1]["boxes"], [[5, 6, 25, 16], [1, 1, 20.5, 20], [25, 15, 35, 25], [40, 10, 43, 12]], rtol=1e-6)
    assert ds[1]["labels"].tolist() == [1, 0, 0, 1] and ds[1]["shapes"].tolist() == [0, 1, 2, 3]
    assert ds[1]["groups"].tolist() == [3, -1, -1, -1]
    assert ds[1]["points"][:, :2].tolist() == [[7, 8], [1, 2], [3, 4], [1, 1], [2, 2], [3, 1]]
    assert ds[1]["point_sets"].tolist() == [0, 1, 1, 2, 2, 2] and ds[1]["point_labels"].tolist() == [0, 2, 2, 0, 0, 0]
    instances = np.asarray(ds[1]["instances"])
    assert (instances[10:12, 40:43] == (BITS > 0) * 4).all() and (instances == 4).sum() == 3
    assert {notice["kind"]: notice["first"] for notice in report.notices} == {
        "left_out": "images/free.jpg", "other_json": "config.json",
    }  # fmt: skip
    penstock("unpack", tmp_path / "out", tmp_path / "files", status=1)
    assert (tmp_path / "files/b.jpg").read_bytes() == picture(3)  # the bytes embedded in the JSON


@pytest.mark.parametrize(("given", "text"), [
    (shape("rectangle", [[5, 6]]), "2 points, not 1"), (shape("polygon", [[1, 1], [2, 2]]), "no area"),
    (shape("polygon", [[1, 1], [2, "x"], [3, 3]]), "no [x, y]"), (shape("circle", [[1, 1], [1, 1]]), "no area"),
    (shape("rectangle", [[5, 6], [float("nan"), 9]]), "finite"), (shape("rectangle", [[5, 6], [1e300, 9]]), "10 million"),
    (shape("rectangle", [[500, 6], [510, 9]]), "outside of the image"), (shape("star", [[5, 6]]), "'star' is none"),
    (shape("rectangle", [[5, 6], [7, 9]], group_id="x"), "group_id is 'x'"),
    (shape("rectangle", [[5, 6], [7, 9]], label=5), "no label"),
    (shape("mask", [[1, 1], [2, 2]]), "has no mask"), (shape("mask", [[1, 1], [2, 2]], mask="###"), "no PNG"),
    (shape("mask", [[1, 1], [9, 9]], mask="BITS"), "3 x 2 pixels"), ("x", "no label"), (shape("point", 5), "no list"),
    (shape("mask", [[58, 1], [60, 2]], mask="BITS"), "beyond the image"),
])  # fmt: skip
def test_bad_labelme_shapes(tmp_path, given, text):
    if isinstance(given, dict) and given.get("mask") == "BITS":
        given = {**given, "mask": bits()}
    folder = labelme(tmp_path / "set", "a", [shape("rectangle", [[5, 6], [20, 30]]), given])
    (folder / "a.jpg").write_bytes(picture(1))
    with pytest.raises(ps.errors.CorruptError, match=r"a.json': shape 1 ") as found:
        ps.pack(folder, tmp_path / "out", labelme=True, paint=["mask"])
    assert text in str(found.value)
    report = ps.pack(folder, tmp_path / "dropped", labelme=True, bad_annotations="drop", paint=["mask"])
    assert len(report.dropped) == 1 and len(ps.Dataset(tmp_path / "dropped")[0]["boxes"]) == 1


def test_bad_labelme_files(tmp_path):
    good = [shape("rectangle", [[5, 6], [20, 30]])]
    folder = labelme(tmp_path / "set", "a", good)
    (folder / "a.jpg").write_bytes(picture(1))

    def fails(text):
        with pytest.raises(ps.PenstockError, match=text):
            ps.pack(folder, tmp_path / str(len(list(tmp_path.iterdir()))), labelme=True)

    with pytest.raises(ps.errors.ArgumentError, match="--labelme"):
        ps.Dataset(folder)
    labelme(folder, "b", good, "a.jpg")
    fails("is the image of 'a.json', too")
    labelme(folder, "b", good, "../../x.jpg")
    fails("no path within")
    labelme(folder, "b", good, "b.jpg", b"no image")
    fails("imageData is no image")
    labelme(folder, "b", good, "b.jpg")
    fails("b.jpg")
    labelme(folder, "b", good, "b.jpg", picture(1), imageWidth=W + 1)
    fails("b.json': the image is 61 x 40")
    (folder / "b.json").write_bytes(b"\xef\xbb\xbf{")
    (folder / "b.jpg").write_bytes(picture(2))
    fails("b.json': not JSON")
    report = ps.pack(folder, tmp_path / "skipped", labelme=True, on_error="skip")
    assert report.n_samples == 1 and report.n_bad == 1
    with pytest.raises(ps.errors.NotFoundError, match="no JSON file of Labelme"):
        ps.pack(tmp_path / "skipped", tmp_path / "out", labelme=True)
    with pytest.raises(ps.errors.ArgumentError, match="split goes without labelme"):
        ps.pack(folder, tmp_path / "out", labelme=True, split="train")
