"""Operations of detection and segmentation recipes, compared with torchvision v2 and with rules computed here."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import picture, torchvision_v2
from flat import keywords
from penstock import transforms as T

N, HEIGHT, WIDTH = 12, 60, 88


def boxes_of(i: int) -> np.ndarray:
    """Returns i % 5 boxes. Some extend beyond the picture."""
    rng = np.random.default_rng(100 + i)
    corners = rng.uniform(-4, [WIDTH - 12, HEIGHT - 12], (i % 5, 2))
    return np.concatenate([corners, corners + rng.uniform(6, 40, corners.shape)], 1).astype(np.float32)


def mask_of(i: int) -> np.ndarray:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return ((x // 7 + y // 5 + i) % 11).astype(np.uint8)


def image_of(i: int) -> np.ndarray:
    return picture(i, HEIGHT, WIDTH)


def centres_of(boxes: np.ndarray) -> np.ndarray:
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.ones((len(boxes), 1))], 1).astype(np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("detection") / "data.pst"
    schema = {"image": ps.Image(), "mask": ps.Mask(), "boxes": ps.Boxes(), "labels": ps.Array("int64"),
              "centres": ps.Keypoints(pairs=[])}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            boxes = boxes_of(i)
            writer.write({"image": image_of(i), "mask": mask_of(i), "boxes": boxes, "labels": np.arange(len(boxes)) + 10 * i,
                          "centres": centres_of(boxes)}, name=str(i))
    return path


def rows(path, transforms, epochs=1, **options):
    options = {"per_box": ("labels", "centres"), "batch_size": 3, "output": "numpy", "num_workers": 1, "seed": 5,
               "shuffle": True, "layout": "NHWC", **options}
    found = {}
    loader = ps.Loader(path, **keywords(transforms=transforms, **options))
    for epoch in range(epochs):
        for batch in loader:
            for row, index in enumerate(batch["index"].tolist()):
                found[epoch, index] = {name: np.asarray(batch[name][row]) for name in batch if name != "index"}
    return found, loader


def same(a, b):
    assert a.keys() == b.keys()
    for key, row in a.items():
        assert row.keys() == b[key].keys()
        for name, value in row.items():
            np.testing.assert_array_equal(value, b[key][name], err_msg=f"{key} {name}")


def tv(i: int):
    import torch
    from torchvision import tv_tensors

    return {"image": tv_tensors.Image(torch.from_numpy(image_of(i)).permute(2, 0, 1)),
            "mask": tv_tensors.Mask(torch.from_numpy(mask_of(i))),
            "boxes": tv_tensors.BoundingBoxes(torch.from_numpy(boxes_of(i)), format="XYXY", canvas_size=(HEIGHT, WIDTH)),
            "labels": torch.arange(i % 5) + 10 * i}


def near(row, done, mask=True):
    image = done["image"].permute(1, 2, 0).numpy().astype(int)
    assert row["image"].shape == image.shape and np.abs(row["image"].astype(int) - image).max() <= 1
    if mask:
        np.testing.assert_array_equal(row["mask"], done["mask"].numpy())
    assert len(row["boxes"]) == len(done["boxes"])
    if len(row["boxes"]):
        np.testing.assert_allclose(row["boxes"], done["boxes"].numpy(), atol=1e-3)
    np.testing.assert_array_equal(row["labels"], done["labels"].numpy())


FIXED = {
    "jitter": (T.ScaleJitter((70, 50), (0.8, 0.8)), lambda v2: v2.ScaleJitter((70, 50), (0.8, 0.8))),
    "jitter up": (T.ScaleJitter((70, 90), (1.7, 1.7)), lambda v2: v2.ScaleJitter((70, 90), (1.7, 1.7))),
    "shortest": (T.RandomShortestSize(41), lambda v2: v2.RandomShortestSize(41)),
    "shortest, limited": (T.RandomShortestSize([70, 70], 77), lambda v2: v2.RandomShortestSize([70, 70], 77)),
    "resize": (T.RandomResize(33, 34), lambda v2: v2.RandomResize(33, 34)),
    "zoom": (T.RandomZoomOut(9, (1.0, 1.0), 1.0, 4), lambda v2: v2.RandomZoomOut(9, (1.0, 1.0), 1.0)),
    "as it is": (T.RandomIoUCrop(sampler_options=(1.0,)), lambda v2: v2.RandomIoUCrop(sampler_options=[1.0])),
}


@pytest.mark.parametrize("name", FIXED)
def test_fixed_parameters_give_torchvisions_pixels_and_boxes(data, name):
    v2 = torchvision_v2()
    op, make = FIXED[name]
    found, _ = rows(data, [op, T.SanitizeBoxes()])
    chain = v2.Compose([make(v2), v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])
    for i in range(N):
        # without a box torchvision searches for a crop for ever
        near(found[0, i], chain(tv(i)))


def test_letterbox_is_a_resize_and_a_pad(data):
    v2 = torchvision_v2()
    for size, scale_up, to in [((64, 64), True, (44, 64)), ((200, 120), True, (82, 120)), ((90, 201), True, (90, 132)),
                               ((101, 131), False, (60, 88)), ((40, 131), False, (40, 59))]:
        found, _ = rows(data, [T.Letterbox(size, fill=(1, 2, 3), mask_fill=255, scale_up=scale_up)])
        dy, dx = size[0] - to[0], size[1] - to[1]
        chain = v2.Compose([v2.Resize(to), v2.Pad([dx // 2, dy // 2, dx - dx // 2, dy - dy // 2], fill=0),
                            v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])
        border = np.pad(np.zeros(to, bool), ((dy // 2, dy - dy // 2), (dx // 2, dx - dx // 2)), constant_values=True)
        for i in range(N):
            row = found[0, i]
            assert (row["image"][border] == (1, 2, 3)).all() and (row["mask"][border] == 255).all()
            row["image"][border] = 0
            row["mask"][border] = 0
            near(row, chain(tv(i)))


def find(image: np.ndarray, part: np.ndarray) -> tuple[int, int]:
    """Returns the position of a crop in an image."""
    windows = np.lib.stride_tricks.sliding_window_view(image, part.shape)[..., 0, :, :, :]
    places = np.argwhere((windows == part).all((-1, -2, -3)))
    assert len(places) == 1
    return tuple(int(value) for value in places[0])


def test_iou_crops_follow_torchvision_given_their_place(data):
    """The position of the crop is read from the pixels. All other results must be torchvision's for that position."""
    v2 = torchvision_v2()
    import torch

    found, _ = rows(data, [T.RandomIoUCrop()], epochs=3)
    crops = 0
    for (_, i), row in found.items():
        h, w = row["image"].shape[:2]
        y, x = find(image_of(i), row["image"])
        crops += (h, w) != (HEIGHT, WIDTH)
        boxes = boxes_of(i)
        cx, cy = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
        within = (x < cx) & (cx < x + w) & (y < cy) & (cy < y + h)
        if (h, w) == (HEIGHT, WIDTH):
            within[:] = True
        else:
            assert within.any() and 0.5 <= w / h <= 2 and w >= int(0.3 * WIDTH) and h >= int(0.3 * HEIGHT)
        done = v2.functional.crop(tv(i)["boxes"], y, x, h, w)
        done[~torch.from_numpy(within)] = 0
        chain = v2.SanitizeBoundingBoxes()({"boxes": done, "labels": tv(i)["labels"]})
        np.testing.assert_allclose(row["boxes"], chain["boxes"].numpy(), atol=1e-3)
        np.testing.assert_array_equal(row["labels"], chain["labels"].numpy())
        np.testing.assert_array_equal(row["mask"], mask_of(i)[y : y + h, x : x + w])
        wanted = np.isin(np.arange(len(boxes)) + 10 * i, row["labels"])
        np.testing.assert_allclose(row["centres"][:, :2], centres_of(boxes)[wanted][:, :2] - (x, y), atol=1e-3)
    assert crops > N


def ks(a, b) -> float:
    """Returns the Kolmogorov-Smirnov statistic times the square root of n m / (n + m). It exceeds 1.95 in one of 1000 cases."""
    a, b = np.sort(np.asarray(a, float)), np.sort(np.asarray(b, float))
    every = np.concatenate([a, b])
    distance = np.abs(np.searchsorted(a, every, "right") / len(a) - np.searchsorted(b, every, "right") / len(b)).max()
    return float(distance * np.sqrt(len(a) * len(b) / (len(a) + len(b))))


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """2400 samples with three boxes and the same picture, whose pixels encode their positions."""
    path = tmp_path_factory.mktemp("single") / "single.pst"
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    image = np.stack([y + 1, x + 1, np.ones_like(x)], -1).astype(np.uint8)
    with ps.Writer(path, {"image": ps.Image(), "boxes": ps.Boxes()}) as writer:
        for i in range(2400):
            writer.write({"image": image, "boxes": BOXES}, name=str(i))
    return path


BOXES = np.array([[5, 8, 30, 40], [40, 10, 80, 50], [20, 30, 34, 41]], np.float32)


def places(path, op):
    """Returns y, x, height and width of the visible part of each picture, and the rows."""
    found, _ = rows(path, [op], per_box=None, num_workers=2, batch_size=100)
    out = []
    for row in found.values():
        image = row["image"]
        inside = np.argwhere(image[..., 2] == 1)
        y, x = inside.min(0)
        first = image[y, x].astype(int)
        out.append((y - (first[0] - 1), x - (first[1] - 1), *image.shape[:2], len(row["boxes"])))
    return np.array(out)


@pytest.mark.long
def test_iou_crops_are_distributed_as_torchvisions(single):
    v2 = torchvision_v2()
    import torch
    from torchvision import tv_tensors

    mine = places(single, T.RandomIoUCrop())
    torch.manual_seed(3)
    boxes = tv_tensors.BoundingBoxes(torch.from_numpy(BOXES), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    image = tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8))
    op, theirs = v2.RandomIoUCrop(), []
    for _ in range(len(mine)):
        drawn = op.make_params([image, boxes])
        within = int(drawn["is_within_crop_area"].sum()) if drawn else 3
        theirs.append((-drawn["top"], -drawn["left"], drawn["height"], drawn["width"], within) if drawn
                      else (0, 0, HEIGHT, WIDTH, within))
    theirs = np.array(theirs)
    for column in range(5):
        assert ks(mine[:, column], theirs[:, column]) < 1.95, column
    for column in (2, 3):  # only sizes of crops that differ from the whole picture
        assert ks(mine[mine[:, 2] < HEIGHT, column], theirs[theirs[:, 2] < HEIGHT, column]) < 1.95


def test_zooms_are_distributed_as_torchvisions(single):
    v2 = torchvision_v2()
    import torch
    from torchvision import tv_tensors

    mine = places(single, T.RandomZoomOut(side_range=(1.0, 2.5), p=0.7))
    torch.manual_seed(4)
    op, theirs = v2.RandomZoomOut(side_range=(1.0, 2.5)), []
    image = tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8))
    for _ in range(len(mine)):
        left, top, right, bottom = op.make_params([image])["padding"] if torch.rand(1) < 0.7 else (0, 0, 0, 0)
        theirs.append((top, left, HEIGHT + top + bottom, WIDTH + left + right))
    theirs = np.array(theirs)
    for column in range(4):
        assert ks(mine[:, column], theirs[:, column]) < 1.95, column


@pytest.mark.parametrize("name", ["jitter", "shortest", "resize"])
def test_sizes_are_distributed_as_torchvisions(single, name):
    v2 = torchvision_v2()
    import torch
    from torchvision import tv_tensors

    op, make = {"jitter": (T.ScaleJitter((80, 80), (0.5, 1.5)), v2.ScaleJitter((80, 80), (0.5, 1.5))),
                "shortest": (T.RandomShortestSize((30, 40, 50, 70), 95), v2.RandomShortestSize((30, 40, 50, 70), 95)),
                "resize": (T.RandomResize(20, 70), v2.RandomResize(20, 70))}[name]
    found, _ = rows(single, [op], per_box=None, batch_size=100)
    mine = np.array([row["image"].shape[:2] for row in found.values()])
    torch.manual_seed(5)
    image = tv_tensors.Image(torch.zeros(1, HEIGHT, WIDTH, dtype=torch.uint8))
    theirs = np.array([make(image).shape[-2:] for _ in range(len(mine))])
    assert ks(mine[:, 0], theirs[:, 0]) < 1.95 and ks(mine[:, 1], theirs[:, 1]) < 1.95
    assert set(map(tuple, mine)) <= set(map(tuple, theirs)) or name == "jitter"


def test_scale_crops_are_resizes_and_crops_with_padding(data):
    """Each result is a resize to a possible size, a window of it, and fill around it. The test searches for the window."""
    found, _ = rows(data, [T.RandomScaleCrop((70, 72), (0.5, 2.0), fill=7, mask_fill=255)], epochs=3)
    padded = 0
    for row in found.values():
        assert row["image"].shape == (70, 72, 3) and row["mask"].shape == (70, 72)
        outside = row["mask"] == 255
        assert (row["image"][outside] == 7).all()
        padded += outside.any()
        ys, xs = np.where(~outside.all(1))[0], np.where(~outside.all(0))[0]
        assert not outside[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1].any()
        if len(row["boxes"]):
            assert row["boxes"][:, 0].min() >= xs[0] - 1e-3 or xs[0] == 0
    assert 0 < padded < len(found)
    sizes = T.RandomScaleCrop((70, 72)).parts()
    assert [part["kind"] for part in sizes] == [14, 3] and sizes[1]["pad_if_needed"]


TABLE = {0: 255, 1: 3, 2: 0, 5: 9, 10: 1}


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("other", [77, None])
def test_classes_are_mapped_where_the_table_says(tmp_path, dtype, other):
    wide = dtype == "uint16"
    masks = [np.random.default_rng(i).integers(0, 3000 if wide else 14, (HEIGHT, WIDTH)).astype(dtype) for i in range(4)]
    for mask in masks:
        mask[: 6, : 3] = np.array([0, 1, 2, 5, 10, 11])[:, None]
    path = tmp_path / "data.pst"
    with ps.Writer(path, {"image": ps.Image(), "mask": ps.Mask()}) as writer:
        for i, mask in enumerate(masks):
            writer.write({"image": image_of(i), "mask": mask}, name=str(i))
    table = {**TABLE, 2999: 40000} if wide else TABLE

    def mapped(mask):
        out = mask.copy() if other is None else np.full_like(mask, other)
        for a, b in table.items():
            out[mask == a] = b
        return out

    options = {"per_box": None, "shuffle": False, "dtype": {"mask": dtype}}
    op = T.MapLabels(table, other)
    for chain in ([op], [op, T.RandomCrop(32), T.RandomHorizontalFlip()], [T.RandomCrop(32), T.RandomHorizontalFlip(), op],
                  [T.Resize((40, 50)), op, T.RandomVerticalFlip(1.0)], [T.RandomScaleCrop(48, mask_fill=1), op],
                  [op, T.RandomScaleCrop(48, mask_fill=12), T.ColorJitter(0.2)], [op, T.Pad(3, mask_fill=13)]):
        plain, _ = rows(path, [part for part in chain if part is not op], **options)
        found, _ = rows(path, chain, **options)
        for key, row in found.items():
            np.testing.assert_array_equal(row["image"], plain[key]["image"])
            expected = mapped(plain[key]["mask"])
            fill = {"RandomScaleCrop": 12, "Pad": 13}.get(type(chain[1]).__name__ if len(chain) > 1 else "")
            if chain[0] is op and fill is not None:  # padding after the mapping is not mapped
                assert (row["mask"][row["mask"] != expected] == fill).all()
                keep = plain[key]["mask"] != fill
                np.testing.assert_array_equal(row["mask"][keep], expected[keep])
            else:
                np.testing.assert_array_equal(row["mask"], expected)


def test_a_mask_alone_is_mapped(tmp_path):
    path = tmp_path / "data.pst"
    with ps.Writer(path, {"mask": ps.Mask()}) as writer:
        writer.write({"mask": mask_of(0)}, name="a")
    for chain in ([T.MapLabels([5] * 3)], {"mask": [T.MapLabels([5] * 3)]}):
        found, _ = rows(path, chain, per_box=None)
        np.testing.assert_array_equal(found[0, 0]["mask"], np.where(mask_of(0) < 3, 5, 255))


def test_sanitizing_measures_boxes_at_its_place(data):
    every, _ = rows(data, [T.Resize((30, 44))], keep_boxes=True)
    for chain, factor in (([T.SanitizeBoxes(10, 200), T.Resize((30, 44))], 1), ([T.Resize((30, 44)), T.SanitizeBoxes(10, 200)], 2)):
        found, loader = rows(data, chain)
        n = 0
        for key, row in found.items():
            boxes = every[key]["boxes"] * (2 if factor == 1 else 1)
            if factor == 1:  # before the resize no operation clips boxes
                boxes = boxes_of(key[1])
            sides = boxes[:, 2:] - boxes[:, :2]
            wanted = (sides >= 10).all(1) & (sides.prod(1) >= 200)
            n += int((~wanted).sum())
            np.testing.assert_array_equal(row["boxes"], every[key]["boxes"][wanted])
            np.testing.assert_array_equal(row["labels"], np.arange(len(boxes))[wanted] + 10 * key[1])
        assert loader.stats()["boxes"]["dropped"] == n > 0
    tiny, _ = rows(data, [T.Resize((3, 4)), T.SanitizeBoxes(0, 0)])
    assert any(((row["boxes"][:, 2:] - row["boxes"][:, :2]).prod(1) < 1).any() for row in tiny.values())
    with pytest.raises(ps.errors.ArgumentError, match="SanitizeBoxes.*min_area"):
        rows(data, [T.SanitizeBoxes()], min_area=4.0)
    kept, _ = rows(data, [T.SanitizeBoxes(10, 200)], keep_boxes=True)
    assert all(len(row["boxes"]) == key[1] % 5 for key, row in kept.items())


SSD = [T.RandomZoomOut((123, 117, 104), mask_fill=250), T.RandomIoUCrop(), T.RandomHorizontalFlip(), T.Resize((48, 48)),
       T.MapLabels(TABLE), T.SanitizeBoxes(2, 8)]


def test_draws_do_not_depend_on_threads_ranks_cache_and_resume(data):
    one, _ = rows(data, SSD, num_workers=0)
    for options in ({"num_workers": 3}, {"num_workers": 2, "cache": "64MiB", "epochs": 1}, {"storage": "memory"},
                    {"batch_size": 5}):
        same(rows(data, SSD, **options)[0], one)
    ranks: dict = {}
    for rank in range(2):
        ranks |= rows(data, SSD, rank=rank, world_size=2)[0]
    same(ranks, one)
    loader = ps.Loader(data, transforms=SSD, annotations=ps.Annotations(per_box=("labels", "centres")), batch_size=3,
                       output="numpy", seed=5, shuffle=True,
                       layout="NHWC", num_workers=2)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    again = ps.Loader(data, transforms=SSD, annotations=ps.Annotations(per_box=("labels", "centres")), batch_size=3,
                      output="numpy", seed=5, shuffle=True,
                      layout="NHWC")
    again.load_state_dict(state)
    n = 0
    for batch in again:
        for row, index in enumerate(batch["index"].tolist()):
            np.testing.assert_array_equal(batch["image"][row], one[0, index]["image"])
            np.testing.assert_array_equal(batch["boxes"][row], one[0, index]["boxes"])
            n += 1
    assert n == N - 6
    colours = [*SSD[:2], T.ColorJitter(0.3), *SSD[2:]]
    for key, row in rows(data, colours)[0].items():
        np.testing.assert_array_equal(row["boxes"], one[key]["boxes"])
        np.testing.assert_array_equal(row["mask"], one[key]["mask"])


def test_an_epoch_draws_anew(data):
    found, _ = rows(data, [T.RandomZoomOut(p=1.0)], epochs=2)
    assert any(found[0, i]["image"].shape != found[1, i]["image"].shape for i in range(N))


def test_a_group_of_jobs_gets_the_same(data, tmp_path, monkeypatch):
    """Operations are sent to the host service with their tables."""
    command = Path(sys.executable).with_name("penstock")
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    server = subprocess.Popen([command, "serve"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "host.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        found, loader = rows(data, SSD, share="detection")
        assert loader.stats()["share"]["batches"] > 0
        # Two jobs with different operations run side by side. One job decodes the region that both crops need.
        others = [[T.RandomIoUCrop(trials=3), T.Letterbox(30)],
                  [T.RandomHorizontalFlip(), T.RandomIoUCrop(0.6), T.Resize((20, 20))]]
        options = {"per_box": ("labels", "centres"), "batch_size": 3, "output": "numpy", "seed": 5, "shuffle": True,
                   "layout": "NHWC", "share": "side by side", "cache": None}
        jobs = [ps.Loader(data, **keywords(transforms=chain, **options)) for chain in others]
        beside: list = [{}, {}]
        for batches in zip(*jobs, strict=True):
            for got, batch in zip(beside, batches, strict=True):
                for row, index in enumerate(batch["index"].tolist()):
                    got[0, index] = {name: np.asarray(batch[name][row]).copy() for name in batch if name != "index"}
        counts = jobs[0].stats()["share"]
        assert counts["decoded_shared"] > 0
        del jobs, loader
    finally:
        server.kill()
        server.wait()
    same(found, rows(data, SSD)[0])
    for chain, got in zip(others, beside, strict=True):
        same(got, rows(data, chain)[0])


def test_a_cache_keeps_letterboxed_images(data):
    plain, _ = rows(data, [T.Letterbox(40, mask_fill=9), T.RandomHorizontalFlip()], epochs=2)
    for form in ("raw", "pli"):
        found, loader = rows(data, [T.Letterbox(40, mask_fill=9), T.RandomHorizontalFlip()], epochs=2, cache="64MiB",
                             cache_form=form, cache_resolution="training")
        same(found, plain)
        assert loader.stats()["cache"]["hits"] > 0
    with pytest.raises(ps.errors.ArgumentError, match=r"RandomIoUCrop\) is in the way"):
        rows(data, SSD[1:], cache="64MiB", cache_form="raw", cache_resolution="training")


def test_json_brings_back_what_it_was():
    ops = [T.RandomIoUCrop(0.2, sampler_options=[0.5, 1.0]), T.RandomZoomOut((1, 2, 3), (1.5, 2), 0.3, 7),
           T.Letterbox((64, 32), scale_up=False), T.ScaleJitter((64, 32), (0.2, 1.0)), T.RandomShortestSize([10, 20], 40),
           T.RandomShortestSize(10), T.RandomResize(10, 20), T.RandomScaleCrop(64, (0.5, 0.7)), T.MapLabels({7: 0, 8: 1}),
           T.MapLabels([1, 2, 3], None), T.MapLabels({}), T.SanitizeBoxes(3, 9)]
    back = T.from_json(T.to_json(ops))
    assert back == ops and [op.parts() for op in back] == [op.parts() for op in ops] and len({*back}) == len(ops)
    assert T.MapLabels({1: 5, 0: 2}) == T.MapLabels([(0, 2), (1, 5)])


WRONG = [
    (lambda: T.RandomIoUCrop(0.8, 0.5), "min_scale"),
    (lambda: T.RandomIoUCrop(0.0), "above 0"),
    (lambda: T.RandomIoUCrop(max_scale=1.5), "min_scale"),
    (lambda: T.RandomIoUCrop(min_aspect_ratio=3.0), "aspect"),
    (lambda: T.RandomIoUCrop(sampler_options=()), "sampler_options"),
    (lambda: T.RandomIoUCrop(sampler_options=(float("nan"),)), "overlap"),
    (lambda: T.RandomIoUCrop(trials=0), "trials"),
    (lambda: T.RandomZoomOut(side_range=(0.5, 2)), "side_range"),
    (lambda: T.RandomZoomOut(p=2), "p is a probability"),
    (lambda: T.Letterbox(0), "a side has"),
    (lambda: T.Letterbox(8, mask_fill=-1), "mask_fill"),
    (lambda: T.ScaleJitter(8, (2, 1)), "scale_range"),
    (lambda: T.ScaleJitter(8, (0, 1)), "above 0"),
    (lambda: T.RandomShortestSize([]), "min_size"),
    (lambda: T.RandomShortestSize(range(1, 30)), "min_size"),
    (lambda: T.RandomResize(20, 20), "less than"),
    (lambda: T.RandomScaleCrop(8, (2, 1)), "scale_range"),
    (lambda: T.RandomScaleCrop(0), "a side has"),
    (lambda: T.MapLabels({-1: 0}), "class"),
    (lambda: T.MapLabels([(1, 2), (1, 3)]), "twice"),
    (lambda: T.MapLabels("ab"), "table"),
    (lambda: T.MapLabels([1, (2, 3)]), "table"),
    (lambda: T.MapLabels({1: 70000}), "class"),
    (lambda: T.MapLabels({1: 1}, other=-3), "other"),
    (lambda: T.MapLabels([0.0, 1.0]), "whole numbers"),
    (lambda: T.MapLabels({0: 1.5}), "class"),
    (lambda: T.RandomZoomOut(side_range=(1, None)), "side_range is two numbers"),
    (lambda: T.RandomIoUCrop(min_scale="a"), "two numbers"),
    (lambda: T.SanitizeBoxes(-1), "min_size"),
    (lambda: T.SanitizeBoxes(min_area=float("nan")), "min_area"),
    (lambda: T.RandomApply([T.RandomIoUCrop()]), "cannot be within"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_are_named(case):
    make, text = WRONG[case]
    with pytest.raises(ps.errors.ArgumentError, match=text):
        make()


def test_what_a_loader_cannot_do_is_said_at_open(data, typed):
    with pytest.raises(ps.errors.ArgumentError, match="RandomIoUCrop.*needs the sample's boxes: no field"):
        ps.Loader(data, transforms=[T.RandomIoUCrop()], fields=["image", "mask"])
    with pytest.raises(ps.errors.ArgumentError, match="RandomIoUCrop needs.*own_geometry"):
        ps.Loader(data, transforms=[T.RandomIoUCrop()],
                  annotations=ps.Annotations(per_box=("labels", "centres"), own_geometry=["mask"]))
    with pytest.raises(ps.errors.ArgumentError, match="class above 255"):
        ps.Loader(data, transforms=[T.MapLabels({1: 300})], annotations=ps.Annotations(per_box=()))
    with pytest.raises(ps.errors.ArgumentError, match="'labels' seems to have a row for each box"):
        ps.Loader(data, transforms=[T.RandomIoUCrop()])
    with pytest.raises(ps.errors.ArgumentError, match="first difference"):
        ps.Loader(data, transforms={"image": [T.Letterbox(30)], "mask": [T.Letterbox(30, scale_up=False)]},
                  annotations=ps.Annotations(per_box=()))


def test_bad_boxes_and_masks_are_errors_of_their_field(tmp_path):
    """The writer refuses bad boxes and masks, so a label file provides them."""
    import json

    from conftest import encoded

    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.png").write_bytes(encoded(image_of(0), "PNG"))
    for box, text in (([float("nan"), 0, 5, 5], "boxes"), ([500, 500, 600, 600], "boxes"), ([9, 9, 3, 3], "boxes")):
        labels = tmp_path / "labels.jsonl"
        labels.write_text(json.dumps({"file": "a.png", "boxes": [[1, 1, 30, 30], box]}) + "\n")
        with pytest.raises(ps.errors.PenstockError, match=text):
            list(ps.Loader(ps.Dataset(folder, labels=labels), transforms=[T.RandomIoUCrop()], batch_size=1))


def test_boxes_are_those_of_the_picture_that_is_shown(tmp_path):
    """A JPEG with EXIF orientation 6: the crop is drawn by boxes that are rotated with the picture."""
    from PIL import Image as PilImage

    exif = PilImage.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    PilImage.fromarray(image_of(0)).save(buffer, "JPEG", exif=exif)
    stored = np.array([[4, 6, 20, 30]], np.float32)
    upright = np.array([[HEIGHT - 30, 4, HEIGHT - 6, 20]], np.float32)
    for i, boxes in enumerate((stored, upright)):
        schema = {"image": ps.Image(), "boxes": ps.Boxes(made_for=("stored", "upright")[i])}
        with ps.Writer(tmp_path / f"{i}.pst", schema) as writer:
            for k in range(20):
                writer.write({"image": buffer.getvalue(), "boxes": boxes}, name=str(k))
    chain = [T.RandomIoUCrop(sampler_options=(0.3,))]
    one, other = (rows(tmp_path / f"{i}.pst", chain, per_box=None)[0] for i in range(2))
    same(one, other)
    assert all(len(row["boxes"]) == 1 and row["image"].shape[0] <= WIDTH for row in one.values())
    assert any(row["image"].shape[:2] != (WIDTH, HEIGHT) for row in one.values())


def test_a_sample_without_boxes_stays_whole(data):
    found, _ = rows(data, [T.RandomIoUCrop(sampler_options=(0.0, 0.5))], epochs=2)
    for (_, i), row in found.items():
        if i % 5 == 0:
            assert row["image"].shape == (HEIGHT, WIDTH, 3) and row["boxes"].shape == (0, 4)


def test_an_overlap_that_no_crop_has_ends(tmp_path):
    path = tmp_path / "data.pst"
    with ps.Writer(path, {"image": ps.Image(), "boxes": ps.Boxes()}) as writer:
        writer.write({"image": image_of(0), "boxes": np.array([[1, 1, 3, 3]], np.float32)}, name="a")
    found, _ = rows(path, [T.RandomIoUCrop(sampler_options=(0.9,))], per_box=None)
    assert found[0, 0]["image"].shape == (HEIGHT, WIDTH, 3) and len(found[0, 0]["boxes"]) == 1


def test_the_command_line_reads_the_operations(data, tmp_path):
    ops = [T.RandomZoomOut(), T.RandomIoUCrop(), T.RandomScaleCrop(40), T.MapLabels({1: 3, 7: 9}), T.MapLabels([1, 2], None),
           T.ScaleJitter(50), T.RandomShortestSize((30, 40)), T.RandomResize(30, 40), T.Letterbox(32), T.SanitizeBoxes()]
    file = tmp_path / "operations.json"
    file.write_text(T.to_json(ops))
    out = tmp_path / "sheet.png"
    view = [sys.executable, "-m", "penstock.cli.main", "view", data, "0:6", "--transforms", file, "-o", out, "--quiet", "--force"]
    done = subprocess.run(view, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 1000
    file.write_text('[{"op": "RandomIoUCrop", "trials": 0}]')
    done = subprocess.run(view, capture_output=True, text=True)
    assert done.returncode == 2 and "trials is " in done.stderr


def test_masks_crop_by_the_boxes_that_are_left(tmp_path):
    """SanitizeBoxes before an IoU crop removes small boxes from the draws of both the image and the mask."""
    path = tmp_path / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "mask": ps.Mask(), "boxes": ps.Boxes()}) as writer:
        for i in range(N):
            boxes = np.array([[2, 2, 7, 7], [80, 50, 85, 55], [40, 10, 45, 15], [20 + i, 15, 60, 45]], np.float32)
            writer.write({"image": np.repeat(mask_of(i)[..., None], 3, 2), "mask": mask_of(i), "boxes": boxes})
    chain = [T.SanitizeBoxes(min_size=20), T.RandomIoUCrop(min_scale=0.2), T.Resize((40, 40), interpolation="nearest")]
    for transforms in (chain, {"image": chain, "mask": chain}):
        found, _ = rows(path, transforms, epochs=8, per_box=())
        for row in found.values():
            np.testing.assert_array_equal(row["image"][..., 0], row["mask"].reshape(40, 40))
    with pytest.raises(ps.errors.ArgumentError, match="mask"):
        rows(path, {"image": chain, "mask": chain[1:]}, per_box=())
