"""Boxes that operations reduce too much are dropped with the values that belong to them, and counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, torchvision_v2
from flat import keywords
from penstock import transforms as T

N = 20
SIZE = 80


def boxes_of(i: int) -> np.ndarray:
    rng = np.random.default_rng(i)
    corners = rng.integers(0, SIZE - 24, (i % 7, 2)).astype(np.float32)
    return np.concatenate([corners, corners + rng.integers(4, 24, corners.shape)], 1).astype(np.float32)


@pytest.fixture(scope="module")
def detection(tmp_path_factory):
    path = tmp_path_factory.mktemp("detection") / "data.pst"
    schema = {"labels": ps.Array("int64"), "centres": ps.Keypoints(pairs=[]), "boxes": ps.Boxes(), "image": ps.Image(),
              "ids": ps.Array("uint8")}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            boxes = boxes_of(i)
            centres = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.ones((len(boxes), 1))], 1)
            writer.write({"image": np.full((SIZE, SIZE, 3), i, np.uint8), "boxes": boxes,
                          "labels": np.arange(len(boxes)) + 100 * i, "centres": centres.astype(np.float32),
                          "ids": np.full((len(boxes), 2, 3), i, np.uint8)}, name=str(i))
    return path


PER_BOX = ("labels", "centres", "ids")
CROP = [T.RandomCrop(40), T.RandomHorizontalFlip()]


def samples(path, transforms, **options):
    options = {"per_box": PER_BOX, "batch_size": 3, "output": "numpy", "num_workers": 1, "seed": 5, **options}
    loader = ps.Loader(path, **keywords(transforms=transforms, **options))
    found = {}
    for batch in loader:
        for row, index in enumerate(batch["index"].tolist()):
            found[index] = {name: np.asarray(batch[name][row]) for name in ("boxes", *PER_BOX) if name in batch}
    return found, loader.stats()["boxes"]["dropped"]


def area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize(("min_area", "min_visibility"), [(1.0, 0.0), (30.0, 0.0), (1.0, 0.5), (1e-6, 1.0)])
def test_what_is_left_follows_the_rule(detection, min_area, min_visibility, workers):
    kept, dropped = samples(detection, CROP, min_area=min_area, min_visibility=min_visibility, num_workers=workers)
    every, none = samples(detection, CROP, keep_boxes=True)
    assert none == 0 and dropped > 0
    n = 0
    for i in range(N):
        boxes = every[i]["boxes"]
        assert len(boxes) == i % 7
        share = area(boxes) / area(boxes_of(i))
        wanted = (area(boxes) >= min_area) & (share >= min_visibility)
        n += int((~wanted).sum())
        np.testing.assert_array_equal(kept[i]["boxes"], boxes[wanted])
        np.testing.assert_array_equal(kept[i]["labels"], np.arange(i % 7)[wanted] + 100 * i)
        np.testing.assert_array_equal(kept[i]["centres"], every[i]["centres"][wanted])
        np.testing.assert_array_equal(kept[i]["ids"], np.full((int(wanted.sum()), 2, 3), i))
        assert (area(kept[i]["boxes"]) > 0).all()
    assert dropped == n


def test_by_default_no_box_is_empty(detection):
    """torchvision's detectors raise an error on boxes without area."""
    every, _ = samples(detection, [T.RandomCrop(16)], keep_boxes=True)
    assert any((area(row["boxes"]) == 0).any() for row in every.values())
    kept, dropped = samples(detection, [T.RandomCrop(16)])
    assert dropped > 0 and all((area(row["boxes"]) >= 1).all() for row in kept.values())


def test_torchvision_keeps_the_same(detection):
    v2 = torchvision_v2()
    import torch
    from torchvision import tv_tensors

    kept, _ = samples(detection, CROP)
    every, _ = samples(detection, CROP, keep_boxes=True)
    for i in range(N):
        boxes = tv_tensors.BoundingBoxes(torch.tensor(every[i]["boxes"]), format="XYXY", canvas_size=(40, 40))
        done = v2.SanitizeBoundingBoxes(min_size=1, min_area=1.0)(
            {"boxes": boxes, "labels": torch.tensor(every[i]["labels"])})
        np.testing.assert_array_equal(kept[i]["boxes"], done["boxes"].numpy())
        np.testing.assert_array_equal(kept[i]["labels"], done["labels"].numpy())


def test_resizes_drop_what_becomes_too_small(detection):
    kept, dropped = samples(detection, [T.Resize((8, 8))])
    expected = sum(int((area(boxes_of(i)) / 100 < 1 - 1e-6).sum()) for i in range(N))
    assert dropped == expected > 0
    assert all((area(row["boxes"]) >= 1).all() for row in kept.values())


def test_without_crops_and_resizes_nothing_is_dropped(detection):
    for transforms in (None, [T.RandomHorizontalFlip(), T.Pad(3)]):
        found, dropped = samples(detection, transforms, per_box=None, min_area=1e6)
        assert dropped == 0 and all(len(found[i]["boxes"]) == i % 7 for i in range(N))


def test_what_is_not_declared_is_an_error_at_open(detection):
    with pytest.raises(ps.errors.ArgumentError, match="'labels' seems to have a row for each box.*per_box.*keep_boxes"):
        ps.Loader(detection, transforms=CROP)
    with pytest.raises(ps.errors.ArgumentError, match="'ids' seems to have a row"):
        ps.Loader(detection, transforms=CROP, fields=["image", "boxes", "ids"])
    ps.Loader(detection, transforms=CROP, fields=["image", "boxes"])
    ps.Loader(detection, transforms=CROP, annotations=ps.Annotations(per_box=()))
    ps.Loader(detection, transforms=CROP, annotations=ps.Annotations(keep_boxes=True))
    ps.Loader(detection, transforms=CROP, annotations=ps.Annotations(per_box={"labels": "boxes"}))
    for wrong, text in [({"labels": "nothing"}, "'labels' cannot have a row for each box of 'nothing'"),
                        (["image"], "'image' cannot have a row for each box of 'boxes'"), (["none"], "no field 'none'")]:
        with pytest.raises(ps.errors.ArgumentError, match=text):
            ps.Loader(detection, transforms=CROP, annotations=ps.Annotations(per_box=wrong))
    for options in ({"min_area": 0}, {"min_visibility": 1.5}, {"min_area": float("nan")}):
        with pytest.raises(ps.errors.ArgumentError, match="min_area"):
            ps.Loader(detection, **keywords(transforms=CROP, per_box=(), **options))


def test_lists_of_json_are_not_unpaired_in_silence(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.png").write_bytes(encoded(np.zeros((32, 32, 3), np.uint8), "PNG"))
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"file": "a.png", "boxes": [[1, 1, 9, 9]], "labels": [1]}) + "\n")
    data = ps.Dataset(folder, labels=labels)
    with pytest.raises(ps.errors.ArgumentError, match="'labels' seems to have a row for each box.*JSON"):
        ps.Loader(data, transforms=[T.RandomCrop(8)])
    ps.Loader(data, transforms=[T.RandomCrop(8)], annotations=ps.Annotations(per_box=()))


def test_another_number_of_rows_is_a_bad_sample(tmp_path):
    schema = {"image": ps.Image(), "boxes": ps.Boxes(), "labels": ps.Array("int64")}
    with ps.Writer(tmp_path / "data", schema) as writer:
        for i in range(3):
            writer.write({"image": np.zeros((32, 32, 3), np.uint8), "boxes": [[1, 1, 9, 9]],
                          "labels": np.arange(1 + (i == 1))}, name=str(i))
    with pytest.raises(ps.errors.CorruptError, match="'labels' does not have a row for each of the 1 boxes") as caught:
        list(ps.Loader(tmp_path / "data", transforms=CROP[:0] + [T.CenterCrop(20)], annotations=ps.Annotations(per_box=["labels"])))
    assert caught.value.sample == 1
