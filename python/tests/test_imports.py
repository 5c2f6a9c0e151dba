"""Importing annotated data sets: COCO JSON, Pascal VOC, CityPersons."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import penstock as ps
from conftest import encoded
from flat import keywords
from penstock import transforms as T
from penstock.data.annotations import regions

# A second reading of COCO's rules
# ---------------------------------------------------------------------------------------------------------------------


def drawn(polygon: list[float], h: int, w: int) -> np.ndarray:
    """Draws a polygon point by point like COCO's rleFrPoly (maskApi.c), with parity instead of runs and their decoding."""
    k = len(polygon) // 2
    xs = [int(5 * polygon[2 * i] + 0.5) for i in range(k)]
    ys = [int(5 * polygon[2 * i + 1] + 0.5) for i in range(k)]
    xs.append(xs[0])
    ys.append(ys[0])
    u, v = [], []
    for j in range(k):
        x0, x1, y0, y1 = xs[j], xs[j + 1], ys[j], ys[j + 1]
        dx, dy = abs(x1 - x0), abs(y1 - y0)
        flip = (dx >= dy and x0 > x1) or (dx < dy and y0 > y1)
        if flip:
            x0, x1, y0, y1 = x1, x0, y1, y0
        if dx >= dy:
            slope = (y1 - y0) / dx if dx else 0.0
            for d in range(dx + 1):
                t = dx - d if flip else d
                u.append(t + x0)
                v.append(int(y0 + slope * t + 0.5))
        else:
            slope = (x1 - x0) / dy
            for d in range(dy + 1):
                t = dy - d if flip else d
                v.append(t + y0)
                u.append(int(x0 + slope * t + 0.5))
    ends = []
    for j in range(1, len(u)):
        if u[j] == u[j - 1]:
            continue
        x = ((u[j] if u[j] < u[j - 1] else u[j] - 1) + 0.5) / 5 - 0.5
        if math.floor(x) != x or x < 0 or x > w - 1:
            continue
        y = (min(v[j], v[j - 1]) + 0.5) / 5 - 0.5
        ends.append(int(x) * h + math.ceil(min(max(y, 0), h)))
    ends = sorted([*ends, h * w])
    flat = np.zeros(h * w, bool)
    inside, at = False, 0
    for end in ends:
        flat[at:end] = inside
        inside, at = not inside, end
    return flat.reshape(w, h).T


def compressed(counts: list[int]) -> str:
    """COCO's rleToString."""
    out = []
    for i, count in enumerate(counts):
        x = count - (counts[i - 2] if i > 2 else 0)
        more = True
        while more:
            c = x & 0x1F
            x >>= 5
            more = x != -1 if c & 0x10 else x != 0
            out.append(chr((c | 0x20 if more else c) + 48))
    return "".join(out)


def runs(mask: np.ndarray) -> list[int]:
    flat = mask.T.reshape(-1)
    counts, inside, n = [], False, 0
    for value in flat.tolist():
        if value != inside:
            counts.append(n)
            inside, n = value, 0
        n += 1
    return [*counts, n]


def whole(region, h: int, w: int) -> np.ndarray:
    canvas = np.zeros(w * h, bool)
    if region is not None:
        starts, ends = (places.tolist() for places in region)
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert all(end < start for end, start in zip(ends[:-1], starts[1:], strict=True))
        for start, end in zip(starts, ends, strict=True):
            canvas[start:end] = True
        assert regions.n_pixels(region) == canvas.sum()
        np.testing.assert_array_equal(regions.paint([(region, 3)], h, w, np.uint8), 3 * canvas.reshape(w, h).T)
    return canvas.reshape(w, h).T


def star(rng, h: int, w: int, n: int, reach: float = 0.7) -> list[float]:
    angles = np.sort(rng.uniform(0, 2 * np.pi, n))
    radius = rng.uniform(0.05, reach, n) * min(h, w)
    centre = rng.uniform(0, 1, 2) * (w, h)
    points = np.stack([centre[0] + radius * np.cos(angles), centre[1] + radius * np.sin(angles)], 1)
    return points.round(2).reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(40))
def test_polygons_become_cocos_pixels(seed):
    rng = np.random.default_rng(seed)
    h, w = (int(side) for side in rng.integers(1, 90, 2))
    polygons = [star(rng, h, w, int(rng.integers(3, 14))) for _ in range(int(rng.integers(1, 4)))]
    if seed % 5 == 0:  # repeated points, and points on whole pixels
        polygons.append([0, 0, w, 0, w, 0, w, h, 0, h])
        polygons.append(np.round(polygons[0]).tolist())
    wanted = np.zeros((h, w), bool)
    for polygon in polygons:
        wanted |= drawn(polygon, h, w)
    np.testing.assert_array_equal(whole(regions.from_polygons(polygons, h, w), h, w), wanted)


def test_polygons_equal_pycocotools():
    masks = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(7)
    n_pixels = 0
    for _ in range(500):
        h, w = (int(side) for side in rng.integers(1, 300, 2))
        polygons = [star(rng, h, w, int(rng.integers(3, 30)), 1.2) for _ in range(int(rng.integers(1, 4)))]
        wanted = masks.decode(masks.merge(masks.frPyObjects(polygons, h, w))).astype(bool)
        np.testing.assert_array_equal(whole(regions.from_polygons(polygons, h, w), h, w), wanted)
        rle = masks.encode(np.asfortranarray(wanted.astype(np.uint8)))
        np.testing.assert_array_equal(whole(regions.from_counts(rle["counts"], h, w), h, w), wanted)
        n_pixels += int(wanted.sum())
    assert n_pixels > 1_000_000


@pytest.mark.parametrize("seed", range(10))
def test_run_lengths(seed):
    rng = np.random.default_rng(seed)
    h, w = (int(side) for side in rng.integers(1, 200, 2))
    mask = rng.random((h, w)) < rng.random() if seed else np.zeros((h, w), bool)
    if seed > 4:
        mask = np.repeat(np.repeat(mask, 9, 0), 9, 1)[:h, :w]
    counts = runs(mask)
    for given in (counts, compressed(counts)):
        region = regions.from_segmentation({"size": [h, w], "counts": given}, h, w)
        np.testing.assert_array_equal(whole(region, h, w), mask)
    assert regions.counts_of(compressed(counts)).tolist() == counts


@pytest.mark.parametrize(("given", "text"), [
    ({"size": [4, 4], "counts": [3, 4]}, "truncated: its runs have 7 pixels, the image has 16"),
    ({"size": [4, 4], "counts": [3, 14]}, "beyond the image: its runs have 17"),
    ({"size": [4, 4], "counts": [3, -1, 14]}, "a run of -1 pixels"),
    ({"size": [4, 4], "counts": [3, 10**30]}, "no whole numbers"),
    ({"size": [4, 4], "counts": [2**62, 2**62]}, "a run of 4611686018427387904 pixels"),
    ({"size": [4, 4], "counts": [1.5, 14.5]}, "no whole numbers"),
    ({"size": [4, 4], "counts": [[16]]}, "no whole numbers"),
    ({"size": [4, 4], "counts": None}, "no whole numbers"),
    ({"size": [4, 4], "counts": compressed([3, 13])[:-1] + "P"}, "ends within a run length"),
    ({"size": [4, 4], "counts": ""}, "truncated"),
    ({"size": [4, 4], "counts": "\x00"}, "character"),
    ({"size": [4, 4], "counts": "\xff"}, "character"),
    ({"size": [4, 4], "counts": "o" * 30 + "0"}, "beyond any image"),
    ({"size": [4, 5], "counts": [20]}, r"of \[4, 5\] pixels"),
    ({"counts": [16]}, "of None pixels"),
    ([[0, 0, 1, 1]], "a polygon of 4 numbers"),
    ([[0, 0, 1, 1, 2, 2, 3]], "a polygon of 7 numbers"),
    ([[0, 0, 1, 1, 2, float("nan")]], "not finite"),
    ([[0, 0, 1, 1, 2, 1e300]], "10 million"),
    ([["a", "b", "c", "d", "e", "f"]], "no list of numbers"),
    ([[10**400] * 6], "no list of numbers"),
    ("text", "neither"),
])  # fmt: skip
def test_bad_segmentations(given, text):
    with pytest.raises(regions.RegionError, match=text):
        regions.from_segmentation(given, 4, 4)


def test_endless_polygons_are_refused(monkeypatch):
    zigzag = [0, 0, 60, 3, 60, 30] * 101
    assert regions.from_polygons([zigzag], 40, 60) is not None
    monkeypatch.setattr(regions, "_MOST_CROSSINGS", 1000)
    with pytest.raises(regions.RegionError, match="16 million"):
        regions.from_polygons([zigzag], 40, 60)


def test_random_text_is_run_lengths_or_an_error():
    rng = np.random.default_rng(3)
    for _ in range(3000):
        text = bytes(rng.integers(40, 118, int(rng.integers(0, 40))).astype(np.uint8).tolist())
        try:
            region = regions.from_counts(text, 9, 11)
        except regions.RegionError:
            continue
        assert whole(region, 9, 11).shape == (9, 11)


# COCO
# ---------------------------------------------------------------------------------------------------------------------

H, W = 40, 60
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 90, "name": "größe"}]


def picture(seed: int, h: int = H, w: int = W, form: str = "jpeg") -> bytes:
    return encoded(np.random.default_rng(seed).integers(0, 255, (h, w, 3), dtype=np.uint8), form)


def annotation(number: int, image: int, category: int = 18, box=(5, 6, 20, 10), **more):
    x, y, w, h = box
    return {"id": number, "image_id": image, "category_id": category, "bbox": list(box), "iscrowd": 0, "area": w * h / 2,
            "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]], **more}


def coco(path, annotations, images=("b.jpg", "a.jpg", "sub/c.jpg"), categories=CATEGORIES, **more):
    folder = path / "images"
    for i, name in enumerate(images):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(i))
    listed = [{"id": 10 + i, "file_name": name, "height": H, "width": W} for i, name in enumerate(images)]
    file = path / "instances.json"
    file.write_text(json.dumps({"images": listed, "annotations": annotations, "categories": categories, **more}))
    return folder, file


def test_coco_instances(tmp_path):
    mask = np.zeros((H, W), bool)
    mask[20:30, 3:50] = True
    annotations = [
        annotation(1, 10, box=(5.5, 6, 20, 10)),
        annotation(2, 11, 1),
        annotation(3, 10, 90, (10, 8, 5, 5)),
        annotation(4, 10, 1, (3, 20, 47, 10), iscrowd=1, segmentation={"size": [H, W], "counts": runs(mask)}),
    ]
    folder, file = coco(tmp_path, annotations)
    (folder / "more.png").write_bytes(picture(9, form="png"))
    report = ps.pack(folder, tmp_path / "out", coco=file, paint=["mask", "instances"])
    assert (report.n_samples, report.n_bad, report.n_pli_jpeg) == (3, 0, 3)
    assert report.notices == [{"kind": "left_out", "name": "not annotated", "count": 1, "first": "more.png"}]
    ds = ps.Dataset(tmp_path / "out")
    assert [ds.name(i) for i in range(3)] == ["a.jpg", "b.jpg", "sub/c.jpg"]
    assert ds.classes == ["person", "dog", "größe"] == ds.class_names("labels")
    assert ds.fields["labels"].n_classes == 3
    row = ds[1]
    np.testing.assert_array_equal(row["boxes"], np.float32([[5.5, 6, 25.5, 16], [10, 8, 15, 13], [3, 20, 50, 30]]))
    assert row["labels"].tolist() == [1, 2, 0] and row["labels"].dtype == np.int64
    assert row["iscrowd"].tolist() == [0, 0, 1] and row["area"].tolist() == [100, 12.5, 235]
    assert ds.column("image_id").tolist() == [11, 10, 12]
    assert [len(ds[i]["boxes"]) for i in range(3)] == [1, 3, 0] and ds[2]["labels"].shape == (0,)
    wanted = np.zeros((H, W), np.uint16)
    wanted[mask] = 3  # crowds are drawn below all other objects
    wanted[drawn([5.5, 6, 25.5, 6, 25.5, 16, 5.5, 16], H, W)] = 1
    wanted[drawn([10, 8, 15, 8, 15, 13, 10, 13], H, W)] = 2  # the smaller object is drawn over the larger one
    np.testing.assert_array_equal(np.asarray(row["instances"]).reshape(H, W), wanted)
    assert np.asarray(row["instances"]).dtype == np.uint16 and np.asarray(row["mask"]).dtype == np.uint8
    np.testing.assert_array_equal(np.asarray(row["mask"]).reshape(H, W), np.array([0, 2, 3, 1])[wanted])
    assert {ds.item(i, name)["form"] for i in range(3) for name in ("mask", "instances")} == {"pli"}
    original = ps.decode((folder / "b.jpg").read_bytes())
    np.testing.assert_array_equal(row["image"], original)
    assert ps.verify(tmp_path / "out", decode=True, restore=True).ok


def test_coco_loads_with_rows_dropped_together(tmp_path):
    rng = np.random.default_rng(1)
    annotations = []
    for i in range(24):
        x, y = rng.integers(0, 30), rng.integers(0, 20)
        points = [number for k in range(17) for number in (float(x + k / 4), float(y + k / 8), k % 3)]
        annotations.append(annotation(i, 10 + i % 3, 1, (float(x), float(y), 12.0, 9.0), keypoints=points))
    person = {"id": 1, "name": "person", "keypoints": [f"p{i}" for i in range(17)]}
    folder, file = coco(tmp_path, annotations, categories=[person])
    ps.pack(folder, tmp_path / "out", coco=file)
    ds = ps.Dataset(tmp_path / "out")
    assert ds[0]["keypoints"].shape == (8 * 17, 3)
    transforms = [T.RandomCrop(24), T.RandomHorizontalFlip()]
    with pytest.raises(ps.errors.ArgumentError, match="'keypoints' seems to have a row for each box"):
        ps.Loader(ds, batch_size=3, transforms=transforms, output="numpy", fields=["image", "boxes", "keypoints"])
    per_box = ("labels", "iscrowd", "area", "keypoints")
    options = {"batch_size": 3, "transforms": transforms, "output": "numpy", "seed": 4}
    kept = next(iter(ps.Loader(ds, **keywords(per_box=per_box, **options))))
    every = next(iter(ps.Loader(ds, **keywords(per_box=per_box, keep_boxes=True, **options))))
    n_dropped = 0
    for row in range(3):
        boxes, points = every["boxes"][row], every["keypoints"][row].reshape(-1, 17, 3)
        stays = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) >= 1
        n_dropped += int((~stays).sum())
        np.testing.assert_array_equal(kept["boxes"][row], boxes[stays])
        np.testing.assert_array_equal(kept["keypoints"][row].reshape(-1, 17, 3), points[stays])
        assert len(kept["labels"][row]) == int(stays.sum())
    assert n_dropped > 0


def test_coco_forms_and_workers(tmp_path):
    folder, file = coco(tmp_path, [annotation(i, 10 + i % 3, box=(i, i, 9 + i, 8)) for i in range(9)])
    files = []
    for n in (1, 3):
        out = tmp_path / f"out{n}"
        ps.pack(folder, out, coco=file, paint=["instances"], num_workers=n, forms=["original"], mask_forms=["raw"])
        files.append([(out / name).read_bytes()[64:] for name in sorted(os.listdir(out)) if name.startswith("shard")])
        ds = ps.Dataset(out)
        assert ds.item(0, "image")["form"] == "jpeg" and ds.item(0, "instances")["form"] == "raw"
        assert ds.read(1, "image") == (folder / "b.jpg").read_bytes()
    assert files[0] == files[1]


def fail(tmp_path, text, *, kind=ps.errors.CorruptError, **options):
    with pytest.raises(kind, match=text) as caught:
        ps.pack(tmp_path / "images", tmp_path / "out", coco=tmp_path / "instances.json", paint=["mask"], **options)
    return caught.value


@pytest.mark.parametrize(("changes", "text"), [
    ({"bbox": [5, 5, -3, 4]}, "annotation 7 of image 10 .'b.jpg'.: bbox .* has a negative size"),
    ({"bbox": [5, 5, 0, 4]}, "has no area"),
    ({"bbox": [1e9, 5, 1, 4]}, "has no area"),
    ({"bbox": [float("nan"), 5, 3, 4]}, "is not finite"),
    ({"bbox": [5, 5, float("inf"), 4]}, "is not finite"),
    ({"bbox": [5, 5, 1e308, 4]}, "is not finite"),
    ({"bbox": [60, 5, 3, 4]}, "lies outside of the image .60 x 40"),
    ({"bbox": [-9, 5, 9, 4]}, "lies outside"),
    ({"bbox": [5, 5, 3]}, "four numbers"),
    ({"bbox": ["5", 5, 3, 4]}, "four numbers"),
    ({"bbox": [True, 5, 3, 4]}, "four numbers"),
    ({"bbox": None}, "four numbers"),
    ({"bbox": {}}, "four numbers"),
    ({"bbox": [10**400, 5, 3, 4]}, "four numbers"),
    ({"iscrowd": 2}, "iscrowd is 2"),
    ({"area": -1}, "area is -1"),
    ({"area": "x"}, "area is 'x'"),
    ({"area": 10**400}, "area is 1000"),
    ({"category_id": 2}, "annotation 7 of image 10: there is no category 2"),
    ({"category_id": None}, "there is no category None"),
    ({"image_id": 99}, "annotation 7: there is no image 99"),
    ({"image_id": [1]}, "there is no image"),
    ({"id": 6}, "annotation 6 is there twice"),
    ({"id": True}, "annotation True: the id is no whole number and no text"),
    ({"id": 6.5}, "annotation 6.5: the id is no whole number and no text"),
    ({"image_id": True}, "there is no image True"),
    ({"category_id": "3"}, "there is no category '3'"),
    ({"segmentation": [["1", "2", "5", "2", "5", "6"]]}, "the segmentation has a polygon that is no list of numbers"),
    ({"segmentation": [[1, 2, 5, 2, 5, True]]}, "the segmentation has a polygon that is no list of numbers"),
    ({"segmentation": {"size": [H, W], "counts": [str(H * W)]}}, "has run lengths that are no whole numbers"),
    ({"segmentation": {"size": [H, W], "counts": [0.5, H * W - 0.5]}}, "has run lengths that are no whole numbers"),
    ({"segmentation": {"size": [H, W + 1], "counts": [H * W]}}, r"the segmentation is of \[40, 61\] pixels"),
    ({"segmentation": {"size": [H, W], "counts": [100]}}, "the segmentation is truncated"),
    ({"segmentation": {"size": [H, W], "counts": [100, 9000]}}, "a run of 9000 pixels"),
    ({"segmentation": [[1, 2, 3]]}, "a polygon of 3 numbers"),
    ({"segmentation": 4}, "neither a list"),
    ({"iscrowd": 0.5}, "iscrowd is 0.5"),
    ({"keypoints": 5}, "keypoints are 5"),
    ({"keypoints": "abc"}, "keypoints are 'abc'"),
    ({"keypoints": {"a": 1}}, "keypoints are"),
    ({"keypoints": [1, 2]}, "keypoints are 2 numbers"),
])  # fmt: skip
def test_bad_annotations_are_named_or_dropped(tmp_path, changes, text):
    good = [annotation(6, 10), annotation(8, 11)]
    if "keypoints" in changes:
        good[0]["keypoints"] = [1, 2, 2]
    folder, file = coco(tmp_path, [good[0], {**annotation(7, 10, 1), **changes}, good[1]])
    error = fail(tmp_path, text)
    assert str(file) in str(error) and error.file == str(file)
    report = ps.pack(folder, tmp_path / "dropped", coco=file, paint=["mask"], bad_annotations="drop")
    assert report.n_samples == 3 and len(report.dropped) == 1 and file.name in report.dropped[0]["text"]
    ds = ps.Dataset(tmp_path / "dropped")
    assert [len(boxes) for boxes in ds.column("boxes")] == [1, 1, 0]


@pytest.mark.parametrize("first", [5, [1, 2], "abc", {"a": 1}, [True] * 3])
def test_faulty_keypoints_do_not_say_how_many_there_are(tmp_path, first):
    annotations = [annotation(1, 10, keypoints=first), annotation(2, 10, keypoints=[1, 2, 2, 3, 4, 1]), annotation(3, 11)]
    folder, file = coco(tmp_path, annotations)
    fail(tmp_path, "annotation 1 of image 10 .'b.jpg'.: keypoints are")
    report = ps.pack(folder, tmp_path / "dropped", coco=file, bad_annotations="drop")
    ds = ps.Dataset(tmp_path / "dropped")
    assert len(report.dropped) == 1 and ds[1]["keypoints"].tolist() == [[1, 2, 2], [3, 4, 1]]
    assert ds[0]["keypoints"].tolist() == [[0, 0, 0]] * 2
    folder, file = coco(tmp_path / "alone", annotations[:1])
    fail(tmp_path / "alone", "annotation 1 of image 10 .'b.jpg'.: keypoints are")
    ps.pack(folder, tmp_path / "none", coco=file, bad_annotations="drop")
    assert "keypoints" not in ps.Dataset(tmp_path / "none").fields


def test_empty_lists_of_keypoints_are_none(tmp_path):
    """Annotation tools write empty lists into data sets of boxes, and beside categories that have keypoints."""
    empty = [{**category, "keypoints": [], "skeleton": []} for category in CATEGORIES]
    folder, file = coco(tmp_path, [annotation(1, 10, keypoints=[], num_keypoints=0)], categories=empty)
    ps.pack(folder, tmp_path / "boxes", coco=file)
    assert "keypoints" not in ps.Dataset(tmp_path / "boxes").fields
    named = [{**empty[0], "keypoints": ["nose", "tail"]}, *empty[1:]]
    folder, file = coco(tmp_path, [annotation(1, 10, keypoints=[]), annotation(2, 10, keypoints=[1, 2, 2, 3, 4, 1])],
                        categories=named)
    ps.pack(folder, tmp_path / "points", coco=file)
    assert ps.Dataset(tmp_path / "points")[1]["keypoints"].tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 2], [3, 4, 1]]


def test_crowds_may_be_truth_values(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10, iscrowd=True), annotation(2, 10, iscrowd=False)])
    ps.pack(folder, tmp_path / "out", coco=file, paint=["mask"])
    assert ps.Dataset(tmp_path / "out")[1]["iscrowd"].tolist() == [1, 0]


def test_settings_of_pli(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10)])
    for name in ("b.jpg", "a.jpg", "sub/c.jpg"):
        (folder / name).write_bytes(picture(4, form="png"))
    ps.pack(folder, tmp_path / "lossy", coco=file, forms="pli", max_error=4, effort=1)
    image = ps.Dataset(tmp_path / "lossy")[0]["image"].astype(int)
    gap = np.abs(image - ps.decode(picture(4, form="png"))).max()
    assert 0 < gap <= 4
    ps.pack(folder, tmp_path / "masks", coco=file, paint="mask", tier="dense", effort=5)
    ps.pack(folder, tmp_path / "other", coco=file, paint=["mask"], mask_forms="pli", tier="fast")
    assert ps.Dataset(tmp_path / "masks").item(0, "mask")["form"] == "pli"


@pytest.mark.parametrize("options", [
    {"max_error": 4}, {"max_error": 4, "paint": ["mask"]}, {"max_error": 4, "mask_forms": ["pli"]}, {"tier": "dense"},
    {"effort": 5},
    {"tier": "dense", "paint": ["mask"], "mask_forms": ["raw"]}, {"forms": ["pli"], "effort": 0}, {"forms": ["pli"], "tier": "x"},
    {"paint": ["mask"], "effort": 0}, {"effort": 0}, {"forms": ["pli"], "max_error": 128},
])  # fmt: skip
def test_settings_of_pli_without_pli(tmp_path, options):
    folder, file = coco(tmp_path, [annotation(1, 10)])
    with pytest.raises(ps.errors.ArgumentError, match="tier|effort|max_error"):
        ps.pack(folder, tmp_path / "out", coco=file, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("content", "text"), [
    (b"{", "not JSON.*line 1"),
    (b"", "not JSON"),
    (b"[1]", "an object with the lists"),
    (b'{"images": [], "annotations": {}, "categories": []}', 'no list "annotations"'),
    (b'{"images": "\xff"}', "byte 12 is not UTF-8"),
    (b"[" * 200000, "nested too deep|not JSON"),
    (b'{"images": [' + b"9" * 5000 + b"]}", "not JSON"),
    (b'{"images": [], "annotations": [], "categories": []}', "no categories"),
])  # fmt: skip
def test_files_that_are_no_coco(tmp_path, content, text):
    _, file = coco(tmp_path, [])
    file.write_bytes(content)
    assert fail(tmp_path, text).file == str(file)


@pytest.mark.parametrize(("part", "value", "text"), [
    ("images", [{"id": 1, "file_name": "a.jpg", "height": 40, "width": 60}] * 2, "image 1 is there twice"),
    ("images", [{"id": i, "file_name": "a.jpg", "height": 40, "width": 60} for i in (1, 2)], "that of image 1, too"),
    ("images", [{"id": 1, "file_name": "../a.jpg", "height": 40, "width": 60}], "no path within"),
    ("images", [{"id": 1, "file_name": "/a.jpg", "height": 40, "width": 60}], "no path within"),
    ("images", [{"id": 1, "file_name": "a\0.jpg", "height": 40, "width": 60}], "no path within"),
    ("images", [{"id": 1, "file_name": "\udcff.jpg", "height": 40, "width": 60}], "in UTF-8"),
    ("images", [{"id": 1, "file_name": None, "height": 40, "width": 60}], "no path within"),
    ("images", [{"id": 1, "file_name": "a.jpg", "height": 0, "width": 60}], "height 0"),
    ("images", [{"id": 1, "file_name": "a.jpg", "height": 40, "width": 10**9}], "width 1000000000"),
    ("images", [{"id": 1.5, "file_name": "a.jpg", "height": 40, "width": 60}], "image number 0"),
    ("images", [{"id": False, "file_name": "a.jpg", "height": 40, "width": 60}], "image number 0"),
    ("images", [{"id": 1, "file_name": "a.jpg", "height": 40.5, "width": 60}], "height 40.5 and width 60 are no whole numbers"),
    ("images", [{"id": 1, "file_name": "a.jpg", "height": "40", "width": 60}], "height '40' and width 60 are no whole numbers"),
    ("images", [3], "image number 0"),
    ("categories", [{"id": 1, "name": "a"}] * 2, "category 1 is there twice"),
    ("categories", [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}], "two categories are named 'a'"),
    ("categories", [{"id": 1}], "category number 0"),
    ("annotations", [5], "annotation number 0"),
])  # fmt: skip
def test_bad_lists(tmp_path, part, value, text):
    _, file = coco(tmp_path, [])
    file.write_text(json.dumps({**json.loads(file.read_text()), part: value}))
    fail(tmp_path, text)
    assert not (tmp_path / "out").exists()


def test_images_that_are_too_large_to_paint(tmp_path, monkeypatch):
    coco(tmp_path, [annotation(1, 10)])
    monkeypatch.setattr(regions, "_PAINTED_MAX", H * W - 1)
    fail(tmp_path, "60 x 40 pixels are too many to paint", kind=ps.errors.LimitError)


def test_folders_that_link_to_themselves(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10)])
    for name in ("loop", "again"):
        (folder / "sub" / name).symlink_to(folder, target_is_directory=True)
    (folder / "sub/free.png").write_bytes(picture(1, form="png"))
    report = ps.pack(folder, tmp_path / "out", coco=file)
    assert report.n_samples == 3 and report.notices[0]["count"] == 1


def test_destinations(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10)])
    ps.pack(folder, tmp_path / "out", coco=file)
    with pytest.raises(ps.errors.ExistsError):
        ps.pack(folder, tmp_path / "out", coco=file)
    report = ps.pack(folder, tmp_path / "out", coco=file, resume=True)
    assert (report.n_samples, report.n_resumed) == (3, 3)
    assert len(ps.Dataset(tmp_path / "out")) == 3


def test_turned_images(tmp_path):
    """Annotations of an image with an EXIF orientation may be for the stored or the upright picture; the user must say which."""
    folder, file = coco(tmp_path, [annotation(1, 10, box=(2, 41, 20, 15))], ["a.jpg"])
    jpeg = picture(0)
    entry = (0x0112).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little") + (6).to_bytes(4, "little")
    exif = b"Exif\0\0II*\0" + (8).to_bytes(4, "little") + (1).to_bytes(2, "little") + entry + bytes(4)
    (folder / "a.jpg").write_bytes(jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:])
    error = fail(tmp_path, "is 60 x 40 pixels there, its file has 40 x 60", made_for="upright")
    assert error.file == str(file) and str(error).endswith('say made_for="stored" (--made-for stored)')
    fail(tmp_path, "lies outside of the image .60 x 40", made_for="stored")
    found = json.loads(file.read_text())
    found["images"][0].update(height=W, width=H)
    file.write_text(json.dumps(found))
    fail(tmp_path, "orientation", kind=ps.errors.ArgumentError)
    fail(tmp_path, r'its file has 60 x 40; .* say made_for="upright" \(--made-for upright\)', made_for="stored")
    one = voc(tmp_path / "VOC", {"a": xml(thing("cat"))})
    (one / "JPEGImages/a.jpg").write_bytes((folder / "a.jpg").read_bytes())
    with pytest.raises(ps.errors.CorruptError, match=r'its file has 40 x 60; .* say made_for="stored" \(--made-for stored\)'):
        ps.pack(one, tmp_path / "out", voc=True)
    ps.pack(one, tmp_path / "stored", voc=True, made_for="stored")
    assert ps.Dataset(tmp_path / "stored").fields["boxes"].made_for == "stored"
    ps.pack(folder, tmp_path / "upright", coco=file, paint=["mask"], made_for="upright")
    ds = ps.Dataset(tmp_path / "upright")
    assert ds.fields["boxes"].made_for == ds.fields["mask"].made_for == "upright"
    assert ds[0]["image"].shape == (W, H, 3) and np.asarray(ds[0]["mask"]).reshape(W, H)[45, 10] == 2


def test_missing_and_broken_images(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10)])
    (folder / "a.jpg").unlink()
    (folder / "b.jpg").write_bytes(picture(0, H, W + 2))
    error = fail(tmp_path, r"a\.jpg.*No such file", kind=FileNotFoundError, num_workers=1)
    assert isinstance(error, ps.PenstockError) and error.file == str(folder / "a.jpg")
    report = ps.pack(folder, tmp_path / "skipped", coco=file, on_error="skip")
    assert (report.n_samples, report.n_bad) == (1, 2)
    assert [bad["name"] for bad in report.bad] == ["a.jpg", "b.jpg"]
    assert report.bad[0]["status"] == "PST_ERROR_NOT_FOUND"
    assert "image 10 ('b.jpg') is 60 x 40 pixels there, its file has 62 x 40" in report.bad[1]["message"]
    (folder / "sub/c.jpg").write_bytes(b"no image")
    with pytest.raises(ps.PenstockError, match="none of the 3 samples"):
        ps.pack(folder, tmp_path / "none", coco=file, on_error="skip")


def test_resume(tmp_path):
    names = [f"{i:02d}.jpg" for i in range(12)]
    folder, file = coco(tmp_path, [annotation(i, 10 + i) for i in range(12)], names)
    hidden = (folder / "07.jpg").read_bytes()
    (folder / "07.jpg").unlink()
    fail(tmp_path, "No such file", kind=FileNotFoundError, num_workers=2)
    with pytest.raises(ps.PenstockError):  # unfinished
        ps.Dataset(tmp_path / "out")
    (folder / "07.jpg").write_bytes(hidden)
    report = ps.pack(folder, tmp_path / "out", coco=file, paint=["mask"], resume=True)
    assert (report.n_samples, report.n_resumed) == (12, 7)
    ps.pack(folder, tmp_path / "whole", coco=file, paint=["mask"])
    one, other = ps.Dataset(tmp_path / "out"), ps.Dataset(tmp_path / "whole")
    assert [one.name(i) for i in range(12)] == names and one.classes == other.classes
    for i in range(12):
        for name, value in one[i].items():
            np.testing.assert_array_equal(value, other[i][name])


def test_resume_of_another_source(tmp_path):
    names = [f"{i:02d}.jpg" for i in range(6)]
    folder, file = coco(tmp_path, [annotation(i, 10 + i) for i in range(6)], names)
    (folder / "01.jpg").rename(folder / "hidden")
    (folder / "04.jpg").unlink()

    def stop(done, *_):
        return done >= 4

    with pytest.raises(ps.errors.CancelledError):
        ps.pack(folder, tmp_path / "out", coco=file, on_error="skip", progress=stop, num_workers=1)
    (folder / "hidden").rename(folder / "01.jpg")
    with pytest.raises(ps.errors.StateError, match="'01.jpg' was left out before"):
        ps.pack(folder, tmp_path / "out", coco=file, on_error="skip", resume=True)
    coco(tmp_path, [], ["x.jpg"])
    with pytest.raises(ps.errors.ArgumentError, match="holds samples that the source does not have"):
        ps.pack(folder, tmp_path / "out", coco=file, resume=True)


@pytest.mark.parametrize(("options", "text"), [
    ({"coco": "x", "voc": True}, "one of coco, voc"),
    ({"coco": "x", "split": "train"}, "one split"),
    ({"voc": True, "paint": ["mask"]}, "paint goes with coco"),
    ({"coco": "x", "resize": 8, "labels": "y"}, "go without labels, resize"),
    ({"coco": "x", "paint": ["masks"]}, "masks"),
    ({"coco": "x", "paint": ["mask", "mask"]}, "twice"),
    ({"coco": "x", "bad_annotations": "skip"}, "bad_annotations"),
    ({"paint": ["mask"]}, "go with coco, voc or citypersons"),
])  # fmt: skip
def test_options_that_do_not_go_together(tmp_path, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.pack(tmp_path, tmp_path / "out", **options)


# Pascal VOC
# ---------------------------------------------------------------------------------------------------------------------


def xml(objects: str, size: tuple[int, int] | None = (H, W), root: str = "annotation", head: str = "") -> bytes:
    sides = f"<size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>" if size else ""
    return f"<?xml version='1.0' encoding='utf-8'?>{head}<{root}>{sides}{objects}</{root}>".encode()


def thing(name: str, box=(6, 7, 25, 16), more: str = "") -> str:
    sides = "".join(f"<{side}>{value}</{side}>" for side, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return f"<object><name>{name}</name>{more}<bndbox>{sides}</bndbox></object>"


def voc(path, files: dict[str, bytes], images: str = "JPEGImages", annotations: str = "Annotations"):
    for name in (images, annotations, "ImageSets/Main"):
        (path / name).mkdir(parents=True, exist_ok=True)
    for i, (stem, content) in enumerate(files.items()):
        (path / images / f"{stem}.jpg").write_bytes(picture(i))
        (path / annotations / f"{stem}.xml").write_bytes(content)
    return path


UNSAID = "<pose>Unspecified</pose><truncated>Unspecified</truncated>"
HEAD = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"


def test_voc(tmp_path):
    folder = voc(tmp_path / "VOC", {
        "2007_b": xml(thing("person", more=HEAD + "<difficult>1</difficult>")
                      + thing("cat", (1, 1, 60, 40), "<truncated>1</truncated>")),
        "2007_a": xml(thing("dog", ("0.5", "1", "20.5", "9"))),
        "2007_c": xml(""),
    })  # fmt: skip
    (folder / "JPEGImages/free.jpg").write_bytes(picture(8))
    (folder / "ImageSets/Main/train.txt").write_text("2007_c\n2007_b\n")
    (folder / "ImageSets/Main/dog_val.txt").write_text("2007_a  1\n2007_b -1\n2007_c  0\n")
    (folder / "ImageSets/Main/cow_val.txt").write_text("2007_a -1\n")
    report = ps.pack(folder, tmp_path / "all", voc=True)
    assert report.n_samples == 3 and report.notices[0]["first"] == "JPEGImages/free.jpg"
    ds = ps.Dataset(tmp_path / "all")
    assert [ds.name(i) for i in range(3)] == [f"JPEGImages/2007_{c}.jpg" for c in "abc"]
    assert len(ds.classes) == 20 and ds.classes[14] == "person"  # VOC's own list of classes, even if some are not in these files
    assert ds[0]["boxes"].tolist() == [[0, 0, 20.5, 9]]
    assert ds[1]["boxes"].tolist() == [[5, 6, 25, 16], [0, 0, 60, 40]]
    assert [ds.classes[label] for label in ds[1]["labels"]] == ["person", "cat"]
    assert ds[1]["difficult"].tolist() == [1, 0] and ds[1]["truncated"].tolist() == [0, 1]
    assert ds[2]["boxes"].shape == (0, 4)
    ps.pack(folder, tmp_path / "train", voc=True, split="train")
    assert [ps.Dataset(tmp_path / "train").name(i)[-5:-4] for i in range(2)] == ["b", "c"]
    ps.pack(folder, tmp_path / "val", voc=True, split="dog_val")
    with pytest.raises(ps.errors.CorruptError, match="names no image"):
        ps.pack(folder, tmp_path / "cow", voc=True, split="cow_val")
    names = [ps.Dataset(tmp_path / "val").name(i)[-5:-4] for i in range(2)]
    assert names == ["a", "c"] and len(ps.Dataset(tmp_path / "val")) == 2 and ps.Dataset(tmp_path / "val").classes == ds.classes


@pytest.mark.parametrize("layout", ["images", "one"])
def test_voc_of_others(tmp_path, layout):
    names = ("images", "annotations") if layout == "images" else ("", "")
    folder = voc(tmp_path / "set", {"b": xml(thing("zebra") + thing("ant")), "a": xml(thing("ant", more=UNSAID), None)}, *names)
    ps.pack(folder, tmp_path / "out", voc=True)
    ds = ps.Dataset(tmp_path / "out")
    assert ds[0]["truncated"].tolist() == [0] and ds.classes == ["ant", "zebra"] and ds[1]["labels"].tolist() == [1, 0]
    assert ds.name(0) == os.path.join(names[0], "a.jpg")


def test_real_voc(tmp_path):
    folder = os.path.join(os.environ.get("PST_SHARED_DATA", ""), "boxes")
    if not os.path.isdir(os.path.join(folder, "annotations")):
        pytest.skip("PST_SHARED_DATA has no boxes")
    report = ps.pack(folder, tmp_path / "out", voc=True, on_error="skip")
    ds = ps.Dataset(tmp_path / "out")
    assert report.n_samples > 100 and ds.classes == ["raccoon"]
    assert report.n_samples + report.n_bad == len(os.listdir(os.path.join(folder, "annotations")))
    assert ps.verify(tmp_path / "out").ok


LAUGHS = "<!DOCTYPE a [<!ENTITY b '" + "x" * 1000 + "'>" + "".join(
    f"<!ENTITY b{i} '{f'&b{i - 1 or str()};' * 10}'>" for i in range(1, 10)) + "]>"


@pytest.mark.parametrize(("content", "text"), [
    (b"<annotation><object>", "not XML: .*line 1"),
    (b"", "not XML"),
    (b"\xff\xfe\x00", "not XML"),
    (b"<?xml version='1.0' encoding='x-none'?><annotation/>", "not XML"),
    (xml("", root="boxes"), "the root is <boxes>"),
    (xml("&b9;", head=LAUGHS), "declares a document type"),
    (xml("&b;", head="<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>"), "declares a document type"),
    (xml("&b;"), "not XML: undefined entity"),
    (xml("<a>" * 70 + "</a>" * 70), "nested more than 64"),
    (xml(thing("cat", (30, 7, 20, 16))), r"object 0 \(cat\): the box .* has no area"),
    (xml(thing("cat", ("nan", 7, 20, 16))), r"object 0 \(cat\): xmin is 'nan'"),
    (xml(thing("cat", ("1e999", 7, 20, 16))), "xmin is '1e999'"),
    (xml(thing("cat", ("9" * 400, 7, 20, 16))), "xmin is '9999"),
    (xml(thing("cat", ("1_0", 7, 20, 16))), "xmin is '1_0'"),
    (xml(thing("cat", (100, 7, 120, 16))), "lies outside of the image"),
    (xml(thing("cat", (1, 7, 20, 16), "<difficult>maybe</difficult>")), "difficult is 'maybe'"),
    (xml("<object><name>cat</name></object>"), "it has no bndbox"),
    (xml("<object><bndbox/></object>"), "object 0 .*it has no name"),
    (xml(thing("cat"), (H, W + 1)), "the image is 61 x 40 pixels there, its file has 60 x 40"),
])  # fmt: skip
def test_bad_voc(tmp_path, content, text):
    folder = voc(tmp_path / "VOC", {"a": xml(thing("cat")), "b": content, "c": xml(thing("dog"))})
    with pytest.raises(ps.errors.CorruptError, match=text) as caught:
        ps.pack(folder, tmp_path / "out", voc=True)
    assert caught.value.file == str(folder / "Annotations/b.xml")
    report = ps.pack(folder, tmp_path / "skipped", voc=True, on_error="skip")
    assert (report.n_samples, report.n_bad, report.bad[0]["name"]) == (2, 1, "JPEGImages/b.jpg")


def test_bad_voc_folders(tmp_path):
    folder = voc(tmp_path / "VOC", {"a": xml(thing("cat"))})

    def refuse(text, kind=ps.PenstockError, **options):
        with pytest.raises(kind, match=text):
            ps.pack(folder, tmp_path / "out", voc=True, **options)

    refuse("none.txt.*No such file", FileNotFoundError, split="none")
    refuse("split is the name", ps.errors.ArgumentError, split="../Main/x")
    (folder / "ImageSets/Main/train.txt").write_text("a\nb\n")
    refuse("names 'b', which has no annotation", FileNotFoundError, split="train")
    (folder / "ImageSets/Main/train.txt").write_text("a\na\n")
    refuse("'a' is there twice", split="train")
    (folder / "JPEGImages/a.png").write_bytes(picture(1, form="png"))
    refuse("have one annotation")
    (folder / "JPEGImages/a.png").unlink()
    (folder / "JPEGImages/a.jpg").unlink()
    refuse("a.jpg.*No such file", FileNotFoundError)
    os.rename(folder / "Annotations/a.xml", os.fsencode(folder) + b"/Annotations/\xff.xml")
    refuse("not UTF-8")
    os.unlink(os.fsencode(folder) + b"/Annotations/\xff.xml")
    refuse("there is no XML file", FileNotFoundError)


# CityPersons
# ---------------------------------------------------------------------------------------------------------------------


def person(label="pedestrian", box=(5, 6, 20, 10), visible=(6, 7, 10, 5), **more):
    return {"label": label, "instanceId": 24003, "bbox": list(box), "bboxVis": list(visible), **more}


def citypersons(path, files: dict[str, list], split: str = "train", masks: bool = True, **more):
    for stem, listed in files.items():
        city = stem.split("_")[0]
        for i, (top, end, data) in enumerate([
            ("leftImg8bit", "leftImg8bit.png", picture(3, form="png")),
            ("gtBboxCityPersons", "gtBboxCityPersons.json",
             json.dumps({"imgHeight": H, "imgWidth": W, "objects": listed, **more}).encode()),
            ("gtFine", "gtFine_labelIds.png", encoded(np.full((H, W), 7, np.uint8), "png")),
            ("gtFine", "gtFine_instanceIds.png", encoded(np.full((H, W), 24003, np.uint16), "png")),
        ]):  # fmt: skip
            if i < 2 or masks:
                file = path / top / split / city / f"{stem}_{end}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
    return path


def test_citypersons(tmp_path):
    folder = citypersons(tmp_path / "city", {
        "bonn_000001_000019": [person(), person("ignore", (0, 0, 60, 40), (0, 0, 0, 0))],
        "aachen_000000_000019": [],
    })  # fmt: skip
    citypersons(folder, {"ulm_000000_000019": [person("rider")]}, "val")
    report = ps.pack(folder, tmp_path / "all", citypersons=True)
    assert report.n_samples == 3
    ds = ps.Dataset(tmp_path / "all")
    assert ds.classes == ["ignore", "pedestrian", "rider", "sitting person", "person (other)", "person group"]
    assert ds.name(1) == "leftImg8bit/train/bonn/bonn_000001_000019_leftImg8bit.png"
    assert ds.column("split") == ["train", "train", "val"] and ds.column("city") == ["aachen", "bonn", "ulm"]
    row = ds[1]
    assert row["boxes"].tolist() == [[5, 6, 25, 16], [0, 0, 60, 40]]
    assert row["visible_boxes"].tolist() == [[6, 7, 16, 12], [0, 0, 60, 40]]
    assert row["labels"].tolist() == [1, 0] and row["ignore"].tolist() == [0, 1]
    assert row["instance_ids"].tolist() == [24003, 24003]
    assert np.asarray(row["mask"]).max() == 7 and np.asarray(row["instances"]).min() == 24003
    assert ps.verify(tmp_path / "all", decode=True).ok
    ps.pack(folder, tmp_path / "val", citypersons=True, split="val", mask_forms=["pli"])
    val = ps.Dataset(tmp_path / "val")
    assert len(val) == 1 and val.item(0, "mask")["form"] == "pli" and val.classes == ds.classes


def test_citypersons_without_masks(tmp_path):
    folder = citypersons(tmp_path / "city", {"bonn_000001_000019": [person()]}, masks=False)
    ps.pack(folder, tmp_path / "out", citypersons=True)
    assert "mask" not in ps.Dataset(tmp_path / "out").fields


@pytest.mark.parametrize(("objects", "more", "text"), [
    ([person("car")], {}, "object 0: the label 'car' is none of"),
    ([person(), person(box=(5, 6, -1, 4))], {}, "object 1: bbox .* negative size"),
    ([person(visible=(100, 6, 3, 4))], {}, "object 0: bboxVis .* lies outside"),
    ([person(box="x")], {}, "four numbers"),
    ([person(instanceId="x")], {}, "instanceId is 'x'"),
    ([5], {}, "object 0: it is no JSON object"),
    ([], {"imgHeight": 41}, "the image is 60 x 41 pixels there, its file has 60 x 40"),
    ([], {"objects": 3}, 'list "objects"'),
])  # fmt: skip
def test_bad_citypersons(tmp_path, objects, more, text):
    folder = citypersons(tmp_path / "city", {"bonn_000001_000019": objects}, **more)
    with pytest.raises(ps.errors.CorruptError, match=text) as caught:
        ps.pack(folder, tmp_path / "out", citypersons=True)
    assert caught.value.file.endswith("bonn_000001_000019_gtBboxCityPersons.json")


# The command line
# ---------------------------------------------------------------------------------------------------------------------


def penstock(*words, status: int = 0, **environment: str):
    program = os.path.join(os.path.dirname(sys.executable), "penstock")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, "PENSTOCK_PYTHON": sys.executable, **environment})
    assert done.returncode == status, done
    return done


def test_command_line(tmp_path):
    folder, file = coco(tmp_path, [annotation(1, 10), annotation(2, 11, box=(5, 5, 0, 1))])
    out = tmp_path / "out"
    failed = penstock("pack", folder, out, "--coco", file, "--json", status=1)
    assert "annotation 2 of image 11" in json.loads(failed.stdout)["error"]["text"] and "annotation 2" in failed.stderr
    options = ("--coco", file, "--paint", "mask,instances", "--bad-annotations", "drop", "-w", "2", "--shard-size", "8MiB")
    told = json.loads(penstock("pack", folder, out, *options, "--json").stdout)
    assert told["samples"] == 3 and len(told["dropped"]) == 1 and told["pli_jpeg"]["items"] == 3
    assert "classes: person dog" in " ".join(penstock("info", out).stdout.split())
    penstock("verify", out, "--decode")
    text = penstock("pack", folder, tmp_path / "again", *options).stdout
    assert "3 samples" in text and "1 annotations DROPPED" in text
    told = penstock("unpack", out, tmp_path / "files", status=1).stdout  # a label file holds no arrays
    assert "field labels is NOT RESTORED" in told and "field boxes" not in told
    assert (tmp_path / "files" / "sub" / "c.jpg").read_bytes() == (folder / "sub" / "c.jpg").read_bytes()
    penstock("view", out, "0:3", "-o", tmp_path / "sheet.png")
    assert ps.probe(tmp_path / "sheet.png").form == "png"


@pytest.mark.parametrize("size", ["8M", "8 MiB", "1G", "8000kB", "8000K", "0.5G", "8388608", "8MB", "1T"])
def test_command_line_sizes(tmp_path, size):
    """Sizes that the program takes without annotations are taken by the Python package with annotations, too."""
    folder, file = coco(tmp_path, [annotation(1, 10)], ["a.jpg", "b.jpg"])
    penstock("pack", folder, tmp_path / "plain", "-s", size, "--commit-size", "4M", "--workers", "0")
    penstock("pack", folder, tmp_path / "out", "--coco", file, "-s", size, "--commit-size", "4M", "--workers", "0")
    assert len(ps.Dataset(tmp_path / "out")) == 2


@pytest.mark.parametrize(("words", "text"), [
    (("--coco", "x", "--voc"), "only one of"),
    (("--paint", "mask"), "go with --coco"),
    (("--coco", "x", "--split", "train"), "--split goes with"),
    (("--voc", "--paint", "mask"), "--paint goes with"),
    (("--voc", "--resize", "8"), "--resize goes without"),
    (("--voc", "--bad-annotations", "x"), "stop or drop"),
    (("--voc", "--tier", "fast"), "go with the form pli"),
    (("--coco", "x", "--paint", "mask", "--mask-form", "raw", "--effort", "5"), "go with the form pli"),
    (("--coco", "x", "--paint", "mask", "--max-error", "4"), "--max-error goes with --form pli"),
    (("--voc", "--mask-form", "pli", "--max-error", "4"), "--max-error goes with --form pli"),
    (("--coco", "x", "--paint", "mask,instance"), '"instance" is not mask or instances'),
    (("--coco", "x", "--paint", "mask,,instances"), '"" is not'),
    (("--coco", "x", "--paint", "mask,mask"), "names mask twice"),
    (("--coco", "x", "--shard-size", "8Q"), "8Q"),
])  # fmt: skip
def test_command_line_misuse(tmp_path, words, text):
    assert text in penstock("pack", tmp_path, tmp_path / "out", *words, status=2).stderr


# Arrays of labels
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "uint64"])
def test_arrays_have_classes(tmp_path, dtype):
    schema = {"labels": ps.Array(dtype, classes=["a", "b"]), "n": ps.Int()}
    with ps.Writer(tmp_path / "one", schema) as writer:
        for bad in ([2], [0, 1, 200 if dtype == "uint8" else 2]):
            with pytest.raises(ps.errors.ArgumentError, match=r"outside of 0\.\.1"):
                writer.write({"labels": np.array(bad, dtype), "n": 0})
        writer.write({"labels": np.array([0, 1, 1], dtype), "n": 1}, "x")
        writer.write({"labels": np.zeros((0,), dtype), "n": 1}, "y")
    ds = ps.Dataset(tmp_path / "one")
    assert ds.classes == ["a", "b"] == ds.class_names("labels") and ds.fields["labels"].n_classes == 2
    assert "2 classes" in repr(ds)
    with ps.Writer(tmp_path / "two", {**schema, "labels": ps.Array(dtype, classes=["b", "c"])}) as writer:
        writer.write({"labels": np.array([[0, 1], [1, 1]], dtype), "n": 2}, "z")
    with pytest.raises(ps.errors.ArgumentError, match='"c"'):
        ps.pack(tmp_path / "two", tmp_path / "one", append=True)
    ps.pack(tmp_path / "two", tmp_path / "one", append=True, add_classes=True)
    ds = ps.Dataset(tmp_path / "one")
    assert ds.classes == ["a", "b", "c"] and ds[2]["labels"].tolist() == [[1, 2], [2, 2]]
    assert ds[0]["labels"].tolist() == [0, 1, 1] and ds[2]["labels"].dtype == np.dtype(dtype)
    with ps.Writer(tmp_path / "one", append=True) as writer:
        assert writer.schema["labels"].names == ["a", "b", "c"]
        writer.add_classes("labels", ["d"])
        writer.write({"labels": np.array([3], dtype), "n": 2}, "w")
    ps.pack(tmp_path / "one", tmp_path / "copy")
    copy = ps.Dataset(tmp_path / "copy")
    assert copy.classes == ["a", "b", "c", "d"] and copy[3]["labels"].tolist() == [3]
    assert ps.verify(tmp_path / "copy").ok


def test_only_whole_numbers_are_labels(tmp_path):
    with pytest.raises(ps.errors.ArgumentError, match="whole numbers, not float32"):
        ps.Array("float32", classes=3)
    with pytest.raises(ps.errors.ArgumentError, match="same name"):
        ps.Array("int64", classes=["a", "a"])
    with ps.Writer(tmp_path / "x", {"labels": ps.Array("int64", classes=3)}) as writer:
        writer.write({"labels": [1, 2]})
    assert ps.Dataset(tmp_path / "x").classes is None and ps.Dataset(tmp_path / "x").fields["labels"].n_classes == 3


# Hostile input
# ---------------------------------------------------------------------------------------------------------------------

JUNK = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 10**350, 1e308, -1e308, float("nan"), float("inf"), 0.5, "", "x", "\udcff",
    "1", "\x00", [], [[]], [None], {}, {"counts": [1], "size": [1, 1]}, {"id": 1}, [1, 2, 3, 4], ["a"] * 6, [[1e9] * 6],
    {"image_id": 1, "category_id": 1},
]  # fmt: skip


def spoil(value, rng):
    """Returns the JSON value with a part replaced by junk, removed or doubled."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15:
        return JUNK[int(rng.integers(len(JUNK)))]
    if isinstance(value, dict):
        key = list(value)[int(rng.integers(len(value)))]
        if rng.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: spoil(value[key], rng)}
    i = int(rng.integers(len(value)))
    what = [spoil(value[i], rng)] if rng.random() < 0.8 else [value[i]] * int(rng.integers(0, 3))
    return [*value[:i], *what, *value[i + 1 :]]


def test_spoiled_coco(tmp_path):
    from penstock.data.annotations import given as _imports_given
    from penstock.data.annotations import run

    rng = np.random.default_rng(5)
    rle = {"size": [H, W], "counts": compressed([100, 50, H * W - 150])}
    good = [annotation(i, 10 + i % 3, keypoints=[1, 2, 2], **({"segmentation": rle} if i % 2 else {})) for i in range(4)]
    folder, file = coco(tmp_path, good)
    whole_file = json.loads(file.read_text())
    n_good = n_bad = 0
    for _ in range(600):
        file.write_text(json.dumps(spoil(spoil(whole_file, rng), rng)))
        try:
            given = _imports_given.Given(paint=("mask", "instances"), drop=bool(rng.integers(2)))
            source = run.open_source(str(folder), given, str(file), False, False)
            source.schema()
            for name in source.names():
                source.sample(name, H, W, _imports_given.Drops(given.drop))
            n_good += 1
        except ps.PenstockError as error:
            assert str(error)
            n_bad += 1
    assert n_good > 20 and n_bad > 100


def test_spoiled_xml_and_citypersons(tmp_path):
    from penstock.data.annotations import given as _imports_given
    from penstock.data.annotations import run

    rng = np.random.default_rng(6)
    folder = voc(tmp_path / "VOC", {"a": xml(thing("cat") + thing("dog", more=HEAD)), "b": xml(thing("person"))})
    city = citypersons(tmp_path / "city", {"bonn_000001_000019": []})
    file = next((city / "gtBboxCityPersons").rglob("*.json"))
    content = (folder / "Annotations/a.xml").read_bytes()
    given = _imports_given.Given()
    n_bad = 0
    for _ in range(300):
        spoiled = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            i, j = sorted(rng.integers(0, len(spoiled), 2).tolist())
            junk = rng.integers(0, 256, 2).astype(np.uint8).tobytes() if j % 2 else spoiled[j : j + 9]
            spoiled[i : i + int(rng.integers(0, 3))] = junk
        (folder / "Annotations/a.xml").write_bytes(spoiled)
        file.write_text(json.dumps(spoil({"imgHeight": H, "imgWidth": W, "objects": [person(), person("ignore")]}, rng)))
        for kind in ("voc", "city"):
            try:
                files = str(folder if kind == "voc" else city)
                source = run.open_source(files, given, None, kind == "voc", kind == "city")
                for name in source.names():
                    source.sample(name, H, W, _imports_given.Drops(False))
            except ps.PenstockError as error:
                assert error.file
                n_bad += 1
    assert n_bad > 100
