"""Left and right keypoints: the effect of a flip, where the pairs are stated, and when a warning is printed."""

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T
from penstock.loading import fields

NAMES = ["nose", "left_eye", "right_eye", "left_hip", "right_hip"]
PAIRS = ((1, 2), (3, 4))
FLIP_IDX = [0, 2, 1, 4, 3]  # the same pairs as in YOLO's flip_idx
FLIP = [T.RandomHorizontalFlip(1)]
N, SIDE = 6, 32


def points_of(i, n_instances=1):
    """Returns points at distinct places; every second one is invisible."""
    x = (np.arange(5 * n_instances) * 3 + i) % SIDE
    return np.stack([x, x[::-1] * 0.5, np.arange(5 * n_instances) % 2 * 2], 1).astype(np.float32)


def mirrored(points, pairs=PAIRS):
    """Returns the points after a flip: moved, then swapped within each instance of 5."""
    moved = points.copy()
    moved[:, 0] = SIDE - moved[:, 0]
    swapped = moved.copy()
    for first in range(0, len(points), 5):
        for a, b in pairs:
            swapped[first + a], swapped[first + b] = moved[first + b], moved[first + a]
    return swapped


def write(path, spec, n_instances=lambda i: 1, n=N):
    pixels = np.arange(SIDE * SIDE * 3, dtype=np.uint8).reshape(SIDE, SIDE, 3)
    with ps.Writer(path, {"image": ps.Image("raw"), "boxes": ps.Boxes(), "points": spec}) as writer:
        for i in range(n):
            k = n_instances(i)
            boxes = np.array([[0, 0, SIDE, SIDE]] * k, np.float32).reshape(-1, 4)
            writer.write({"image": pixels, "boxes": boxes, "points": points_of(i, k)})
    return ps.Dataset(path)


def delivered(dataset, transforms, **more):
    loader = ps.Loader(dataset, **keywords(batch_size=2, transforms=transforms, num_workers=1, output="numpy", **more))
    return [row for batch in loader for row in batch["points"]], loader


@pytest.fixture
def named(tmp_path):
    return write(tmp_path / "named.pst", ps.Keypoints(points=NAMES), lambda i: i % 3)


@pytest.fixture
def unnamed(tmp_path):
    return write(tmp_path / "unnamed.pst", ps.Keypoints())


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(fields, "_UNPAIRED", set())


def test_names_make_pairs_that_are_kept(named):
    field = named.fields["points"]
    assert field.pairs == PAIRS and field.n_classes == 5 and named.class_names("points") == NAMES
    assert named.classes is None  # points are not classes of labels
    again = ps.Keypoints(points=["Left hand", "Right hand", "tail", "l", "r"])
    assert again.pairs == ((0, 1),)
    assert ps.Keypoints(points=["a", "b"]).pairs is None and ps.Keypoints(pairs=[]).pairs == ()
    assert ps.Keypoints(points=NAMES, pairs=[("nose", "left_eye"), (3, 4)]).pairs == ((0, 1), (3, 4))
    assert ps.Keypoints(points=["eye_left", "eye_right"]).pairs == ((0, 1),)


def test_flip_swaps_each_instance_and_invisible_points(named):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, loader = delivered(named, FLIP, per_box=["points"])
    for i, row in enumerate(rows):
        assert np.array_equal(row, mirrored(points_of(i, i % 3))), i
    assert loader.stats()["fallbacks"].get("pairs", 0) == 0


def test_both_axes_are_a_rotation(named):
    rows, _ = delivered(named, [T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)], per_box=["points"])
    upright, _ = delivered(named, [T.RandomVerticalFlip(1)], per_box=["points"])
    for i, (row, once) in enumerate(zip(rows, upright, strict=True)):
        turned = points_of(i, i % 3)
        turned[:, :2] = SIDE - turned[:, :2]
        assert np.array_equal(row, turned)
        moved = points_of(i, i % 3)
        moved[:, 1] = SIDE - moved[:, 1]
        for first in range(0, len(moved), 5):
            for a, b in PAIRS:
                moved[[first + a, first + b]] = moved[[first + b, first + a]]
        assert np.array_equal(once, moved)
    twice, _ = delivered(named, [T.RandomHorizontalFlip(1), T.RandomHorizontalFlip(1)], per_box=["points"])
    assert all(np.array_equal(row, points_of(i, i % 3)) for i, row in enumerate(twice))


@pytest.mark.parametrize("chain", [
    [T.RandomApply([T.RandomHorizontalFlip(1)], p=0.5)],
    [T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(0)])],
    [T.RandomHorizontalFlip(0.5), T.ColorJitter(0.2)],
])
def test_chance(named, chain):
    """Each row is either moved and swapped, or unchanged; both occur within some epochs."""
    loader = ps.Loader(named, batch_size=1, transforms=chain, annotations=ps.Annotations(per_box=["points"]), output="numpy",
                       seed=3)
    seen = set()
    for _ in range(4):
        for i, batch in enumerate(loader):
            (row,) = batch["points"]
            before = points_of(i, i % 3)
            flips = [np.array_equal(row, before), np.array_equal(row, mirrored(before))]
            assert any(flips), i
            seen.add(flips[1] and not flips[0] if len(before) else None)
    assert {True, False} <= seen


def test_mosaic_gets_swapped_points(tmp_path):
    dataset = write(tmp_path / "m.pst", ps.Keypoints(points=NAMES))
    chain = [*FLIP, T.Resize((SIDE, SIDE))]
    plain, _ = delivered(dataset, chain, per_box=["points"], mix=T.Mosaic(p=1.0), keep_boxes=True)
    other = write(tmp_path / "o.pst", ps.Keypoints(points=NAMES, pairs=[]))
    without, _ = delivered(other, chain, per_box=["points"], mix=T.Mosaic(p=1.0), keep_boxes=True)
    for row, kept in zip(plain, without, strict=True):
        assert len(row) == len(kept) == 20
        order = np.concatenate([5 * k + np.array([0, 2, 1, 4, 3]) for k in range(4)])
        assert np.array_equal(row[:, :2], kept[order][:, :2])


def test_warns_once(unnamed):
    with pytest.warns(UserWarning, match="left and right") as caught:
        rows, loader = delivered(unnamed, FLIP)
        delivered(unnamed, FLIP)
        ps.Loader(unnamed, transforms=FLIP)
        for _ in loader:
            pass
    assert len(caught) == 1 and "pairs=[]" in str(caught[0].message) and caught[0].filename == __file__
    assert loader.stats()["fallbacks"]["pairs"] == 2 * N
    assert all(np.array_equal(row, mirrored(points_of(i), ())) for i, row in enumerate(rows))


@pytest.mark.parametrize("transforms", [[], [T.RandomHorizontalFlip(0)], [T.Resize((SIDE, SIDE)), T.ColorJitter(0.1)]])
def test_no_flip_no_warning(unnamed, transforms):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        delivered(unnamed, transforms)
        ps.Loader(unnamed, transforms=FLIP, fields=["image"])


def test_loader_is_told(unnamed, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbered = ps.Keypoints(points=5, pairs=PAIRS)
        told = (ps.Keypoints(points=NAMES), numbered, {"points": numbered}, PAIRS, np.array(PAIRS), FLIP_IDX, np.array(FLIP_IDX))
        for pairs in told:
            rows, _ = delivered(unnamed, FLIP, pairs=pairs)
            assert all(np.array_equal(row, mirrored(points_of(i))) for i, row in enumerate(rows))
        rows, loader = delivered(unnamed, FLIP, pairs=[])
        assert all(np.array_equal(row, mirrored(points_of(i), ())) for i, row in enumerate(rows))
        assert loader.stats()["fallbacks"].get("pairs", 0) == 0
    several = write(tmp_path / "several.pst", ps.Keypoints(), lambda i: 2)
    with pytest.raises(ps.PenstockError, match="how many points one has"):
        delivered(several, FLIP, pairs=PAIRS)
    for pairs in (ps.Keypoints(points=5, pairs=PAIRS), FLIP_IDX):  # the length of flip_idx is the number of points of an instance
        rows, _ = delivered(several, FLIP, pairs=pairs)
        assert all(np.array_equal(row, mirrored(points_of(i, 2))) for i, row in enumerate(rows))


@pytest.mark.parametrize("wrong", [
    {"pairs": [(0, 1), (1, 2)]}, {"pairs": [(0, 0)]}, {"pairs": [("nose", "ear")]}, {"points": 5000}, {"pairs": ["ab"]},
    {"points": 5, "pairs": [(0, 5)]}, {"points": ["a", "a"]}, {"pairs": [0, 0]}, {"pairs": [1, 2, 0]}, {"pairs": [-1, 0]},
    {"points": 5, "pairs": [0, 2, 1]}, {"pairs": [0, (1, 2)]},
])
def test_wrong_pairs(wrong):
    with pytest.raises(ps.errors.ArgumentError):
        ps.Keypoints(**wrong)


def test_wrong_pairs_of_a_loader(unnamed):
    for pairs in ([(0, 0)], {"image": [(0, 1)]}, {"no": [(0, 1)]}):
        with pytest.raises(ps.errors.ArgumentError):
            ps.Loader(unnamed, annotations=ps.Annotations(pairs=pairs))


def test_points_are_whole_instances(tmp_path):
    for spec, n, text in ((ps.Keypoints(points=4), 5, "whole instances"), (ps.Keypoints(pairs=PAIRS), 10, "how many points")):
        with pytest.raises(ps.errors.ArgumentError, match=text), ps.Writer(tmp_path / f"{n}.pst", {"points": spec}) as writer:
            writer.write({"points": np.zeros((n, 3), np.float32)})


def test_append_resume_and_repack(named, tmp_path):
    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    sample = {"image": pixels, "boxes": np.zeros((0, 4)), "points": points_of(0)}
    with ps.Writer(named.path, append=True) as writer:
        writer.write(sample)
    schema = {"image": ps.Image("raw"), "boxes": ps.Boxes(), "points": ps.Keypoints(points=3)}
    with pytest.raises(ps.errors.ArgumentError, match="fields differ"):
        ps.Writer(named.path, schema, append=True)
    ps.pack(named.path, tmp_path / "again.pst", forms=["pli"])
    for path in (named.path, tmp_path / "again.pst"):
        assert ps.Dataset(path).fields["points"].pairs == PAIRS and ps.Dataset(path).class_names("points") == NAMES
        assert len(ps.Dataset(path)) == N + 1
    other = write(tmp_path / "other.pst", ps.Keypoints(points=NAMES, pairs=[(1, 2)]))
    with pytest.raises(ps.errors.ArgumentError, match="other pairs"):
        ps.pack(other.path, named.path, append=True)


def test_torch_dataset(named):
    torch = pytest.importorskip("torch")
    from penstock.torch import TorchDataset

    rows = TorchDataset(named, FLIP, annotations=ps.Annotations(per_box=["points"]))[1]["points"]
    assert torch.equal(torch.as_tensor(rows), torch.from_numpy(mirrored(points_of(1, 1))))


def test_plain_folder(tmp_path):
    from PIL import Image

    folder = tmp_path / "folder"
    folder.mkdir()
    with open(tmp_path / "labels.jsonl", "w") as file:
        for i in range(4):
            Image.new("RGB", (SIDE, SIDE)).save(folder / f"{i}.png")
            file.write(json.dumps({"file": f"{i}.png", "keypoints": points_of(i).tolist()}) + "\n")
    dataset = ps.Dataset(folder, labels=tmp_path / "labels.jsonl")
    with pytest.warns(UserWarning, match="keypoints"):
        ps.Loader(dataset, transforms=FLIP)
    batch = next(iter(ps.Loader(dataset, batch_size=4, transforms=FLIP,
                                annotations=ps.Annotations(pairs=ps.Keypoints(points=NAMES)), output="numpy")))
    for i, row in enumerate(batch["keypoints"]):
        assert np.array_equal(row, mirrored(points_of(i)))


def test_coco_names(tmp_path):
    from PIL import Image

    folder = tmp_path / "folder"
    folder.mkdir()
    Image.new("RGB", (SIDE, SIDE)).save(folder / "a.png")
    values = points_of(1, 2).reshape(2, -1).tolist()
    coco = {
        "images": [{"id": 1, "file_name": "a.png", "width": SIDE, "height": SIDE}],
        "categories": [{"id": 1, "name": "person", "keypoints": NAMES, "skeleton": [[1, 2]]}],
        "annotations": [
            {"id": k, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0, "keypoints": points}
            for k, points in enumerate(values)
        ],
    }
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    ps.pack(folder, tmp_path / "coco.pst", coco=tmp_path / "coco.json")
    dataset = ps.Dataset(tmp_path / "coco.pst")
    assert dataset.fields["keypoints"].pairs == PAIRS and dataset.class_names("keypoints") == NAMES
    loader = ps.Loader(dataset, transforms=FLIP, annotations=ps.Annotations(per_box=["keypoints", "labels", "iscrowd", "area"]),
                       output="numpy")
    (row,) = next(iter(loader))["keypoints"]
    assert np.array_equal(row, mirrored(points_of(1, 2)))


def test_service_swaps_too(unnamed, named, tmp_path, monkeypatch):
    """Pairs given to the loader are sent to the service; pairs stated in the data set are read by the service itself."""
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    server = subprocess.Popen([Path(sys.executable).with_name("penstock"), "serve"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "host.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        told = ps.Keypoints(points=5, pairs=PAIRS)
        rows, loader = delivered(unnamed, FLIP, pairs=told, share="told")
        assert loader.stats()["share"]["batches"] > 0
        assert all(np.array_equal(row, mirrored(points_of(i))) for i, row in enumerate(rows))
        rows, loader = delivered(named, FLIP, per_box=["points"], share="stated")
        assert loader.stats()["share"]["batches"] > 0
        assert all(np.array_equal(row, mirrored(points_of(i, i % 3))) for i, row in enumerate(rows))
    finally:
        server.terminate()
        server.wait()


def test_one_warning_of_a_process(unnamed):
    """Uses Python's default warning filters in a separate program."""
    program = f"""
import penstock as ps
def make():
    return ps.Loader({str(unnamed.path)!r}, batch_size=1, transforms=[ps.transforms.RandomHorizontalFlip()])
for _ in range(3):
    for batch in make(): pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr.count("UserWarning") == 1 and "left and right" in done.stderr
