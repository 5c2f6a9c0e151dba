"""Mosaics of batches: pixels, boxes, masks and keypoints compared with numpy, with draws computed here; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from conftest import philox, picture
from flat import keywords
from penstock import transforms as T

N, SIZE = 22, (32, 40)
PER_BOX = ("labels", "centres")
SEED = 5


def drawn(epoch, position, row, n, p=1.0, centre=(0.25, 0.75)):
    """Returns the drawn parameters by the rule of docs/transforms.md: None, or (y, x, the four rows)."""
    key = philox((epoch, 0, 4, 0x70737430), (SEED, 0))
    r, others = (philox((position, 0, row + 1, draw), key[:2]) for draw in (0, 1))
    uniform = [float(value >> 8) * 2.0**-24 for value in r]
    if uniform[0] >= np.float32(p):
        return None
    low, high = (float(np.float32(value)) for value in centre)
    point = [int(np.clip(np.floor((2 * (low + (high - low) * u) - 0.5) * size + 0.5), 0, size))
             for u, size in zip(uniform[1:3], SIZE, strict=True)]
    return (*point, [row, *((value * n) >> 32 for value in others[:3])])


def row_of(i):
    rng = np.random.default_rng(i)
    corners = rng.uniform(0, 24, (i % 5, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.uniform(2, 8, corners.shape)], 1).astype(np.float32)
    centres = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.full((len(boxes), 1), 2)], 1).astype(np.float32)
    return {"image": picture(i, *SIZE), "boxes": boxes, "labels": np.arange(len(boxes)) + 100 * i, "centres": centres,
            "mask": picture(i + 50, *SIZE)[..., 0].copy(), "label": i,
            "marks": np.array([[3, 5, 1], [30, 20, 2]], np.float32)[: i % 3]}


@pytest.fixture(scope="module")
def detection(tmp_path_factory):
    path = tmp_path_factory.mktemp("mosaic") / "set.pst"
    schema = {"image": ps.Image("raw"), "boxes": ps.Boxes(), "labels": ps.Array("int64"), "centres": ps.Keypoints(pairs=[]),
              "mask": ps.Mask(), "label": ps.Int(), "marks": ps.Keypoints(pairs=[])}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(row_of(i))
    return path


def load(path, mix, **options):
    options = {"batch_size": 6, "shuffle": True, "seed": SEED, "output": "numpy", "num_workers": 2, "per_box": PER_BOX,
               "transforms": [T.Resize(SIZE)], **options}
    return ps.Loader(path, **keywords(mix=mix, **options))


def expected(rows, how, min_area=1.0, min_visibility=0.0, keep=False):
    """Makes the mosaic of four stored samples: pastes them onto a canvas of twice the size, and cuts out its middle."""
    y, x, partners = how
    height, width = SIZE
    top, left = y + height // 2, x + width // 2  # the point where the tiles meet on the canvas
    size = (2 * height + 2, 2 * width + 2)
    canvas = {"image": np.zeros((*size, 3), np.uint8), "mask": np.zeros(size, np.uint8)}
    found = {name: [] for name in ("boxes", "labels", "centres", "marks")}
    for q, partner in enumerate(partners):
        row = rows[partner]
        y0, x0 = top - (0 if q & 2 else height), left - (0 if q & 1 else width)
        for name, whole in canvas.items():
            for i in range(height):
                if 0 <= y0 + i < len(whole):
                    a, b = max(x0, 0), min(x0 + width, whole.shape[1])
                    whole[y0 + i, a:b] = row[name][i, a - x0 : b - x0]
        low = np.array([x if q & 1 else 0, y if q & 2 else 0], np.float32)
        high = np.array([width if q & 1 else x, height if q & 2 else y], np.float32)
        shift = np.array([x0 - width // 2, y0 - height // 2], np.float32)
        for i, box in enumerate(row["boxes"]):
            moved = np.concatenate([np.clip(box[:2] + shift, low, high), np.clip(box[2:] + shift, low, high)])
            area = lambda b: (float(b[2]) - float(b[0])) * (float(b[3]) - float(b[1]))  # noqa: E731
            if keep or (area(moved) >= min_area and area(moved) >= np.float32(min_visibility) * area(box)):
                found["boxes"].append(moved)
                found["labels"].append(row["labels"][i])
                found["centres"].append(placed(row["centres"][i], shift, low, high))
        found["marks"].extend(placed(mark, shift, low, high) for mark in row["marks"])
    middle = (slice(height // 2, height // 2 + height), slice(width // 2, width // 2 + width))
    return {**{name: whole[middle] for name, whole in canvas.items()}, **found}


def placed(point, shift, low, high):
    at = point[:2] + shift
    return np.append(at, point[2] if (at >= low).all() and (at < high).all() else 0).astype(np.float32)


def check(batches, epoch=0, batch=6, **rule):
    position, n_mosaics = 0, 0
    way = {key: rule.pop(key) for key in ("p", "centre") if key in rule}
    for values in batches:
        indices = values["index"].tolist()
        rows = [row_of(i) for i in indices]
        for row in range(len(rows)):
            how = drawn(epoch, position, row, len(rows), **way)
            wanted = rows[row] if how is None else expected(rows, how, **rule)
            n_mosaics += how is not None
            np.testing.assert_array_equal(values["image"][row].transpose(1, 2, 0), wanted["image"])
            np.testing.assert_array_equal(values["mask"][row], wanted["mask"])
            for name in ("boxes", "labels", "centres", "marks"):
                found = np.asarray(values[name][row])
                assert len(found) == len(wanted[name])
                np.testing.assert_array_equal(found, np.reshape(wanted[name], found.shape))
        assert values["label"].tolist() == indices
        position += batch
    return n_mosaics


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("rule", [{}, {"min_area": 9.0}, {"min_visibility": 0.5}])
def test_all_follows_the_reference(detection, rule, workers):
    loader = load(detection, T.Mosaic(), num_workers=workers, **rule)
    assert check(loader, **rule) == N
    assert loader.stats()["boxes"]["dropped"] > 0
    assert check(loader, epoch=1, **rule) == N


def test_keep_boxes_p_and_centre(detection):
    check(load(detection, T.Mosaic(), keep_boxes=True), keep=True)
    n = check(load(detection, T.Mosaic(0.5, (0.4, 0.6))), p=0.5, centre=(0.4, 0.6))
    assert 0 < n < N


@pytest.mark.parametrize("layout", ["NHWC", "channels_last"])
def test_layouts_and_dtypes(detection, layout):
    options = {"dtype": {"image": "float32"}}
    for a, b in zip(load(detection, T.Mosaic(), **options), load(detection, T.Mosaic(), layout=layout, **options), strict=True):
        image = b["image"].transpose(0, 3, 1, 2) if layout == "NHWC" else b["image"]
        np.testing.assert_array_equal(a["image"], image)


def test_ragged_outputs_are_the_same(detection):
    plain, padded, offsets = (load(detection, T.Mosaic(), ragged=kind) for kind in ("list", "padded", "offsets"))
    for a, b, c in zip(plain, padded, offsets, strict=True):
        for name in ("boxes", "labels", "centres", "marks"):
            ends = c[f"{name}_offsets"]
            for row in range(len(a["index"])):
                np.testing.assert_array_equal(a[name][row], b[name][row, : b[f"{name}_counts"][row]])
                np.testing.assert_array_equal(a[name][row], c[name][ends[row] : ends[row + 1]])


def test_resume_and_replay(detection):
    whole = list(load(detection, T.Mosaic(), ragged="padded"))
    loader = load(detection, T.Mosaic(), ragged="padded")
    next(iter(loader))
    again = load(detection, T.Mosaic(), ragged="padded")
    again.load_state_dict(loader.state_dict())
    for a, b in zip(whole[1:], again, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    replayed = loader.replay(2, epoch=0)
    assert all(np.array_equal(whole[2][name], replayed[name]) for name in replayed)


def test_draws_are_uniform():
    draws = [drawn(epoch, 6 * step, row, 64) for epoch in range(10) for step in range(10) for row in range(40)]
    partners = np.array([how[2][1:] for how in draws]).ravel()
    assert abs(np.mean([how[0] for how in draws]) - SIZE[0] / 2) < 0.6
    assert abs(np.mean([how[1] for how in draws]) - SIZE[1] / 2) < 0.8
    counts = np.bincount(partners, minlength=64)
    assert len(counts) == 64 and ((counts - len(partners) / 64) ** 2 / (len(partners) / 64)).sum() < 110  # chi2, 63 degrees


def test_what_is_refused(detection):
    error = ps.errors.ArgumentError
    with pytest.raises(error, match="one Mosaic"):
        load(detection, [T.Mosaic(), T.MixUp(1.0, 3)])
    with pytest.raises(error, match="differ in size"):
        load(detection, T.Mosaic(), transforms=[T.Resize(20)])
    with pytest.raises(error, match="'labels' seems to have a row for each box"):
        load(detection, T.Mosaic(), per_box=None)
    for wrong in ({"p": 0}, {"p": 1.5}, {"centre": (0.6, 0.4)}, {"centre": (0.5, 1.5)}, {"centre": 0.5}, {"centre": (0.5, None)},
                  {"centre": "ab"}):
        with pytest.raises(error):
            T.Mosaic(**wrong)


def test_several_keypoints_for_each_box(tmp_path):
    """Each box has two keypoints, its corners. They move with the box, and are dropped with it."""
    path = tmp_path / "corners.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "boxes": ps.Boxes(), "corners": ps.Keypoints(pairs=[])}) as writer:
        for i in range(N):
            row = row_of(i)
            corners = [[*point, 2] for box in row["boxes"] for point in (box[:2], box[2:])]
            writer.write({"image": row["image"], "boxes": row["boxes"], "corners": np.array(corners, np.float32).reshape(-1, 3)})
    n_boxes = n_visible = n_hidden = 0
    for batch in load(path, T.Mosaic(), per_box=("corners",)):
        for boxes, corners in zip(batch["boxes"], batch["corners"], strict=True):
            boxes, corners = np.asarray(boxes), np.asarray(corners).reshape(-1, 2, 3)
            assert len(boxes) == len(corners)
            n_boxes += len(boxes)
            for corner, sides in ((0, slice(0, 2)), (1, slice(2, 4))):
                visible = corners[:, corner, 2] > 0
                np.testing.assert_array_equal(corners[visible, corner, :2], boxes[visible, sides])
                n_visible, n_hidden = n_visible + visible.sum(), n_hidden + (~visible).sum()
    assert n_boxes > N and n_visible > n_boxes and n_hidden > 0
