"""From a mosaic back to the originals: each box, mask and keypoint is mapped to the picture of its tile by the batch's geometry."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError

N, BATCH, SIZE = 11, 4, (64, 80)
SAID = ("image_geometry", "image_original_size", "image_tiles", "image_tile_index", "image_mosaic_geometry")


def sample(i):
    """Returns a picture of its own size with i % 4 rectangles, whose numbers are in the mask, and two points for each."""
    rng = np.random.default_rng(i)
    height, width = 60 + 7 * i, 130 - 6 * i
    pixels = rng.integers(0, 40, (height, width, 3), np.uint8)
    mask = np.zeros((height, width), np.uint8)
    boxes, points = [], []
    for k in range(i % 4):
        x, y = 5 + (width // 3) * k + i % 3, 6 + (height // 4) * k
        w, h = width // 4, height // 4
        boxes.append((x, y, x + w, y + h))
        points += [(x, y, 2), (x + w, y + h, 2)]
        mask[y : y + h, x : x + w] = k + 1
        pixels[y : y + h, x : x + w] = 100 + 50 * k
    marks = [(3.5, 4.5, 1), (width - 2.0, height / 2, 2)][: i % 3]
    return {"boxes": np.array(boxes, np.float32).reshape(-1, 4), "points": np.array(points, np.float32).reshape(-1, 3),
            "marks": np.array(marks, np.float32).reshape(-1, 3), "image": pixels, "mask": mask,
            "ids": 100 * i + np.arange(len(boxes))}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("mosaic") / "geometry.pst"
    schema = {"boxes": ps.Boxes(), "points": ps.Keypoints(pairs=[]), "marks": ps.Keypoints(pairs=[]), "image": ps.Image(),
              "mask": ps.Mask(), "ids": ps.Array("int64")}  # fmt: skip
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(sample(i), name=f"pictures/{i}.png")
    return ps.Dataset(path)


CHAINS = {
    "resize": [T.Resize(SIZE)],
    "flips": [T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.Letterbox((64, 80))],
    "affine": [T.RandomAffine(20, (0.1, 0.1), (0.7, 1.1), (-10, 10, -5, 5)), T.RandomHorizontalFlip(), T.Resize(SIZE)],
    "crop": [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip()],
    "iou crop": [T.RandomZoomOut(p=0.5), T.RandomIoUCrop(), T.Resize(SIZE), T.SanitizeBoxes(min_size=2)],
    "perspective": [T.Resize(SIZE), T.RandomPerspective(0.3, p=1)],
}


BEHIND = {
    "flips": [T.RandomHorizontalFlip(), T.RandomVerticalFlip()],
    "zoom": [T.RandomAffine(0, (0.1, 0.1), (0.6, 1.4)), T.RandomHorizontalFlip()],
    "crop": [T.RandomResizedCrop(SIZE, (0.3, 1.0)), T.ColorJitter(0.2, 0.2)],
    "pad and crop": [T.Pad(9), T.RandomCrop(SIZE), T.SanitizeBoxes(min_size=2)],
    "resize": [T.CenterCrop((40, 50)), T.Resize(SIZE)],
    "affine": [T.RandomAffine(20, (0.1, 0.1), (0.7, 1.1), (-10, 10, -5, 5)), T.RandomHorizontalFlip(1)],
    "perspective": [T.RandomPerspective(0.4, p=1)],
}
TURN = ("affine", "perspective")


def loader(data, chain="flips", mix=None, **more):
    more = {"num_workers": 1, "output": "numpy", "seed": 5, "shuffle": True, "geometry": True, "batch_size": BATCH,
            "per_box": ["points", "ids"], **more}  # fmt: skip
    return ps.Loader(data, **keywords(transforms=CHAINS[chain], mix=mix or T.Mosaic(), **more))


def shown_part(matrix, rectangle):
    """Returns the corners of a tile on its original picture, clockwise, as (4, 2)."""
    x0, y0, x1, y1 = rectangle
    moved = np.linalg.inv(matrix) @ np.array([[x0, x1, x1, x0], [y0, y0, y1, y1], [1, 1, 1, 1]])
    return (moved[:2] / moved[2]).T


def check_row(batch, r, boxes, points, marks, masks, turns):
    """Compares the mapped results with the annotations of the tiles' samples. Returns the numbers of whole boxes and of points."""
    n_whole = n_points = 0
    of_boxes, of_points, of_marks = (batch[f"{name}_tile"][r] for name in ("boxes", "points", "marks"))
    assert of_boxes.dtype == np.int64 and len(of_boxes) == len(batch["boxes"][r]) == len(boxes)
    assert (of_points == np.repeat(of_boxes, 2)).all() and len(of_marks) == len(batch["marks"][r])
    for k, (box, tile, number) in enumerate(zip(boxes, of_boxes, batch["ids"][r], strict=True)):
        assert batch["image_tile_index"][r, tile] == number // 100
        want = sample(number // 100)["boxes"][number % 100]
        corners = shown_part(batch["image_geometry"][r, tile], batch["image_tiles"][r, tile])
        whole = (corners.min(0) <= want[:2]).all() and (corners.max(0) >= want[2:]).all()
        if not turns:
            assert (box[:2] >= want[:2] - 0.5).all() and (box[2:] <= want[2:] + 0.5).all()
            cut = np.concatenate([np.maximum(want[:2], corners.min(0)), np.minimum(want[2:], corners.max(0))])
            np.testing.assert_allclose(box, cut, atol=0.5)
            n_whole += whole
        want_points = sample(number // 100)["points"].reshape(-1, 2, 3)[number % 100]
        np.testing.assert_allclose(points.reshape(-1, 2, 3)[k][:, :2], want_points[:, :2], atol=0.02)
        n_points += 2
    have = {int(tile): [tuple(np.round(mark[:2], 1)) for mark in marks[of_marks == tile]] for tile in range(4)}
    for tile, i in enumerate(batch["image_tile_index"][r].tolist()):
        want = sample(i) if i >= 0 else {"marks": [], "mask": np.zeros((0, 0))}
        assert len(have[tile]) == len(want["marks"])
        for got, mark in zip(have[tile], want["marks"], strict=True):
            np.testing.assert_allclose(got, mark[:2], atol=0.06)
        mask = masks[tile]
        assert list(mask.shape) == batch["image_original_size"][r, tile].tolist() == list(want["mask"].shape)
        wrong = (mask != 255) & (mask != want["mask"])
        rims = np.zeros(mask.shape, bool)  # nearest-neighbour sampling may be wrong only near the borders of rectangles
        for x0, y0, x1, y1 in want["boxes"].astype(int) if i >= 0 else ():
            rims[max(y0 - 4, 0) : y1 + 4, max(x0 - 4, 0) : x1 + 4] = True
            rims[y0 + 4 : y1 - 4, x0 + 4 : x1 - 4] = False
        assert not (wrong & ~rims).any()
    return n_whole, n_points


@pytest.mark.parametrize("chain", list(CHAINS))
def test_boxes_points_and_masks_come_back_to_their_pictures(data, chain):
    n_whole = n_points = n_rows = 0
    for batch in loader(data, chain):
        assert batch["image_geometry"].shape == (len(batch["index"]), 4, 3, 3)
        boxes, points, marks = (ps.to_original(batch[name], batch) for name in ("boxes", "points", "marks"))
        masks = ps.to_original(batch["mask"], batch, fill=255)
        for r in range(len(batch["index"])):
            assert batch["image_tile_index"][r, 0] == batch["index"][r]
            x0, y0, x1, y1 = batch["image_tiles"][r].T
            assert ((x1 - x0) * (y1 - y0)).sum() == SIZE[0] * SIZE[1]
            found = check_row(batch, r, boxes[r], points[r], marks[r], masks[r], chain in ("affine", "perspective"))
            n_whole, n_points, n_rows = n_whole + found[0], n_points + found[1], n_rows + 1
    assert n_rows == N and n_points > 10
    assert n_whole >= 3 or chain in ("affine", "perspective", "crop", "iou crop")


def test_the_picture_itself_comes_back(data):
    """Nearest-exact enlarges, so the visible part of an original comes back bit for bit."""
    chain = [T.Resize((256, 260), interpolation="nearest-exact"), T.RandomHorizontalFlip()]
    n = 0
    for batch in ps.Loader(data, **keywords(transforms=chain, mix=T.Mosaic(), fields=["image"], geometry=True, batch_size=4,
                                            output="numpy", num_workers=1, shuffle=True)):  # fmt: skip
        for r, image in enumerate(batch["image"]):
            tiles = [ps.to_original([channel] * len(batch["index"]), batch, kind="masks", fill=0)[r] for channel in image]
            for tile, i in enumerate(batch["image_tile_index"][r].tolist()):
                got, want = np.stack([channel[tile] for channel in tiles], -1), sample(i)["image"]
                shown = got.any(-1)
                assert (got[shown] == want[shown]).all()
                n += shown.sum()
    assert n > N * 5000


def test_ids_do_not_count(data):
    for batch in loader(data):
        wrong = {**batch, "index": batch["index"][::-1] + 1000, "image_tile_index": batch["image_tile_index"][::-1] + 77,
                 "sample_name": ["?"] * len(batch["index"]), "ids": [row[::-1] + 5 for row in batch["ids"]]}  # fmt: skip
        for name in ("boxes", "points", "marks"):
            for a, b in zip(ps.to_original(batch[name], batch), ps.to_original(batch[name], wrong), strict=True):
                assert a.tobytes() == b.tobytes()
        for a, b in zip(ps.to_original(batch["mask"], batch), ps.to_original(batch["mask"], wrong), strict=True):
            assert all((x == y).all() for x, y in zip(a, b, strict=True))


def test_predictions_have_the_tile_under_their_centre(data):
    import torch

    for batch in loader(data, output="torch"):
        predicted = [row.clone() for row in batch["boxes"]]  # these boxes are no longer an entry of the batch
        tiles = ps.tiles_of(predicted, batch)
        assert all(a.dtype == torch.int64 and a.equal(b) for a, b in zip(tiles, batch["boxes_tile"], strict=True))
        assert all(a.equal(b) for a, b in zip(ps.tiles_of(batch["boxes"], batch), batch["boxes_tile"], strict=True))
        for a, b in zip(ps.to_original(predicted, batch), ps.to_original(batch["boxes"], batch), strict=True):
            assert isinstance(a, torch.Tensor) and a.dtype == torch.float32 and a.equal(b)
        instances = [torch.stack([row[:, [0, 1]], row[:, [2, 3]]], 1) for row in predicted]  # (n, 2, 2): opposite corners
        assert all(a.equal(b) for a, b in zip(ps.tiles_of(instances, batch, kind="keypoints"), tiles, strict=True))
        for r, corners in enumerate(ps.to_original(instances, batch, kind="keypoints")):
            assert corners.shape == (len(predicted[r]), 2, 2)
        masks = [torch.stack([torch.zeros(SIZE, dtype=torch.uint8)] * len(row)) if len(row) else torch.zeros(0, *SIZE)
                 for row in predicted]  # fmt: skip
        for row, of in zip(predicted, masks, strict=True):
            for box, mask in zip(row.round().int().tolist(), of, strict=True):
                mask[box[1] : max(box[3], box[1] + 1), box[0] : max(box[2], box[0] + 1)] = 1
        for r, found in enumerate(ps.to_original(masks, batch, kind="masks")):
            for tile, mask in zip(tiles[r].tolist(), found, strict=True):
                assert list(mask.shape) == batch["image_original_size"][r, tile].tolist() and isinstance(mask, torch.Tensor)
                assert mask.any()


def test_rules_of_the_tile():
    """The batch has two rows: four tiles around (30, 20) of a picture of 80 x 64, and a row without mosaic."""
    tiles = np.array([[[0, 0, 30, 20], [30, 0, 80, 20], [0, 20, 30, 64], [30, 20, 80, 64]],
                      [[0, 0, 80, 64], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]])  # fmt: skip
    shifts = ((-50, -44), (30, -44), (-50, 20), (30, 20))
    moves = np.stack([np.array([[1, 0, dx], [0, 1, dy], [0, 0, 1]], float) for dx, dy in shifts])
    batch = {"image_geometry": np.stack([moves, np.stack([np.eye(3)] * 4)]), "image_tiles": tiles,
             "image_original_size": np.array([[[64, 80]] * 4, [[64, 80]] + [[0, 0]] * 3])}  # fmt: skip
    rows = [[28, 18, 31, 21], [29, 19, 32, 22], [28, 19, 32, 21], [-9, -9, -5, -5], [90, 90, 99, 99], [75, 1, 79, 5]]
    rows = np.array(rows, float)
    assert [row.tolist() for row in ps.tiles_of([rows, rows], batch)] == [[0, 3, 3, 0, 3, 1], [0] * 6]
    assert ps.tiles_of([np.array([[30, 19.5], [29.9, 20]])] * 2, batch)[0].tolist() == [1, 2]
    seen = np.array([[[1, 1, 2], [79, 63, 0]], [[79, 63, 0], [70, 60, 0]]])  # the second has no visible point
    assert ps.tiles_of([seen] * 2, batch)[0].tolist() == [0, 3]
    moved = ps.to_original([rows[:1], rows[:1]], batch, tiles=[[3], [0]], clip=False)
    assert moved[0].tolist() == [[-2, -2, 1, 1]] and moved[1].tolist() == [[28, 18, 31, 21]]
    assert ps.to_original([rows[:1], rows[:1]], batch, tiles=[[3], [0]])[0].tolist() == [[0, 0, 1, 1]]
    assert ps.to_original([rows[:0]] * 2, batch)[0].shape == (0, 4)
    for tiles_given, match in (([[4], [0]], "0 to 3"), ([[0, 0], [0]], "shape"), ([[0]], "rows"), ([[0.5], [0.5]], "whole")):
        with pytest.raises(ArgumentError, match=match):
            ps.to_original([rows[:1], rows[:1]], batch, tiles=tiles_given)
    with pytest.raises(ArgumentError, match="all tiles"):
        ps.tiles_of([np.zeros((64, 80))] * 2, batch)
    with pytest.raises(ArgumentError, match="no axis of views"):
        ps.to_original([rows, rows], batch, view=0)


def same(a, b):
    for name in (*SAID, "index"):
        assert np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes(), name
    for name in ("boxes", "boxes_tile", "points_tile", "marks_tile"):
        assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(a[name], b[name], strict=True)), name


@pytest.mark.parametrize("mix", [T.Mosaic(), T.Mosaic(0.5, (0.0, 1.0))])
def test_threads_resume_replay_ranks_and_fetch(data, mix):
    chain = "iou crop"
    want = list(loader(data, chain, mix))
    first = loader(data, chain, mix, num_workers=3)
    next(iter(first))
    second = loader(data, chain, mix, num_workers=0)
    second.load_state_dict(first.state_dict())
    for a, b in zip(want[1:], second, strict=True):
        same(a, b)
    same(want[2], first.replay(2, epoch=0))
    rows = [b for rank in range(2) for b in loader(data, chain, mix, rank=rank, world_size=2, num_workers=2)]
    for batch in rows:
        for r, found in enumerate(ps.to_original(batch["points"], batch)):
            for point, tile in zip(found, batch["points_tile"][r], strict=True):
                known = sample(int(batch["image_tile_index"][r, tile]))["points"]
                assert np.abs(known[:, :2] - point[:2]).max(1).min() < 0.02
    fetched = first.fetch([4, 2], 0)  # no mosaics are made
    assert fetched["image_tile_index"].tolist() == [[4, -1, -1, -1], [2, -1, -1, -1]]
    assert (fetched["image_tiles"] == [[0, 0, SIZE[1], SIZE[0]], [0] * 4, [0] * 4, [0] * 4]).all()
    assert all(len(a) == len(b) and not a.any() for a, b in zip(fetched["boxes_tile"], fetched["boxes"], strict=True))
    assert (fetched["image_geometry"][:, 1:] == np.eye(3)).all() and (fetched["image_original_size"][:, 1:] == 0).all()


def test_ragged_batches_and_functions_have_the_tiles(data):
    def count(sample, rng=None):
        return {**sample, "most": np.int64(sample["image_tile_index"].max())}

    plain = list(loader(data, keep_boxes=True))
    padded = loader(data, keep_boxes=True, ragged=dict.fromkeys(("boxes", "points", "marks"), ps.Padded(value=-2.5)))
    for a, b, c in zip(plain, padded, loader(data, keep_boxes=True, ragged="offsets"), strict=True):
        for name in ("boxes", "points", "marks"):
            assert (b[f"{name}_tile_counts"] == b[f"{name}_counts"]).all() if f"{name}_counts" in b else True
            ends = c[f"{name}_tile_offsets"]
            back = ps.to_original(b[name], b)
            for r, want in enumerate(ps.to_original(a[name], a)):
                n = len(want)
                np.testing.assert_array_equal(a[f"{name}_tile"][r], b[f"{name}_tile"][r][:n])
                np.testing.assert_array_equal(a[f"{name}_tile"][r], c[f"{name}_tile"][ends[r] : ends[r + 1]])
                assert (b[f"{name}_tile"][r][n:] == -1).all()
                np.testing.assert_array_equal(back[r][:n], want)
    for a, b in zip(plain, loader(data, keep_boxes=True, sample_function=count), strict=True):
        assert (b["most"] == a["image_tile_index"].max(1)).all()


def test_own_geometry_beside_a_mosaic(data):
    chains = {"image": CHAINS["flips"], "mask": [T.RandomCrop(20)]}
    more = keywords(transforms=chains, own_geometry=["mask"], fields=["image", "mask", "boxes", "ids"], mix=T.Mosaic(),
                    geometry=True, per_box=["ids"], batch_size=4, seed=5, shuffle=True, output="numpy", num_workers=1)  # fmt: skip
    for batch, plain in zip(ps.Loader(data, **more), loader(data), strict=True):
        same({**plain, "points_tile": [], "marks_tile": []}, {**batch, "points_tile": [], "marks_tile": []})
        assert "mask_tiles" not in batch
        for r, mask in enumerate(ps.to_original(batch["mask"], batch, image="mask", fill=9)):
            want = sample(int(batch["index"][r]))["mask"]
            assert mask.shape == want.shape and (mask[mask != 9] == want[mask != 9]).all() and (mask != 9).sum() == 400


@pytest.mark.parametrize("way", ["skip", "replace"])
def test_bad_samples_are_on_no_tile(tmp_path, way):
    """If a batch leaves out a sample, mosaics use the others. If another sample replaces a bad one, the tile names the
    replacement.
    """
    for i in range(9):
        data = encoded(picture(i, 40, 60), "JPEG")
        (tmp_path / f"{i}.jpg").write_bytes(data[:90] if i in (3, 4) else data)
    more = keywords(transforms=CHAINS["resize"], mix=T.Mosaic(), geometry=True, batch_size=3, on_error=way, output="numpy",
                    num_workers=1)  # fmt: skip
    seen = set()
    for batch in ps.Loader(tmp_path, **more):
        assert (batch["image_tile_index"][:, 0] == batch["index"]).all()
        assert set(batch["image_tile_index"].ravel().tolist()) <= set(batch["index"].tolist())
        seen |= set(batch["index"].tolist())
    assert seen == {0, 1, 2, 5, 6, 7, 8}


def test_loaders_that_share_have_the_same(service, data, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(service))
    alone = list(loader(data, "iou crop"))
    jobs = [loader(data, "iou crop", share="mosaic", cache=None) for _ in range(2)]
    for batches in [list(job) for job in jobs]:
        for a, b in zip(alone, batches, strict=True):
            same(a, b)
    assert sum(job.stats()["share"]["batches"] for job in jobs) > 0


def test_names_that_are_taken_are_refused(tmp_path):
    path = tmp_path / "taken.pst"
    with ps.Writer(path, {"image": ps.Image(), "boxes": ps.Boxes(), "boxes_tile": ps.Int()}) as writer:
        writer.write({"image": sample(1)["image"], "boxes": sample(1)["boxes"], "boxes_tile": 1})
    with pytest.raises(ArgumentError, match="would be called 'boxes_tile'"):
        ps.Loader(path, **keywords(transforms=[T.Resize(SIZE)], mix=T.Mosaic(), geometry=True))


def check_shown(batch, r):
    """Checks that each pixel of the delivered mask has the value that the matrices give for one of the tiles' samples, or fill.
    Returns the numbers of pixels that show a rectangle, and of wrong pixels away from the rectangles' borders.
    """
    delivered = batch["mask"][r]
    n_shown = n_wrong = 0
    behind = np.linalg.inv(batch["image_mosaic_geometry"][r])
    for y in range(2, SIZE[0], 5):
        for x in range(2, SIZE[1], 5):
            a, b, c = behind @ (x + 0.5, y + 0.5, 1)
            a, b = a / c, b / c
            inside = [(x0 + 1 < a < x1 - 1) and (y0 + 1 < b < y1 - 1) for x0, y0, x1, y1 in batch["image_tiles"][r].tolist()]
            if not any(inside):
                continue
            tile = inside.index(True)
            u, v, w = np.linalg.inv(batch["image_geometry"][r, tile]) @ (x + 0.5, y + 0.5, 1)
            u, v = u / w, v / w
            want = sample(int(batch["image_tile_index"][r, tile]))["mask"]
            if not (4 <= u < want.shape[1] - 4 and 4 <= v < want.shape[0] - 4):
                continue
            around = want[int(v) - 4 : int(v) + 5, int(u) - 4 : int(u) + 5]
            if around.min() == around.max():
                n_shown += int(around.max() > 0)
                n_wrong += int(delivered[y, x] != around[0, 0])
    return n_shown, n_wrong


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.parametrize("behind", list(BEHIND))
def test_operations_behind_a_mosaic_come_back_to_the_pictures(data, behind, p):
    n_boxes = n_whole = n_points = n_pixels = n_moved = 0
    for batch in loader(data, "resize", T.Mosaic(p, transforms=BEHIND[behind])):
        boxes, points, marks = (ps.to_original(batch[name], batch) for name in ("boxes", "points", "marks"))
        masks = ps.to_original(batch["mask"], batch, fill=255)
        n_moved += int((batch["image_mosaic_geometry"] != np.eye(3)).any((1, 2)).sum())
        for r in range(len(batch["index"])):
            for k, (box, tile, number) in enumerate(zip(boxes[r], batch["boxes_tile"][r], batch["ids"][r], strict=True)):
                assert batch["image_tile_index"][r, tile] == number // 100
                want = sample(number // 100)["boxes"][number % 100]
                if behind not in TURN:  # the visible part of a box lies within it, and an edge that is not cut is in its place
                    assert (box[:2] >= want[:2] - 0.5).all() and (box[2:] <= want[2:] + 0.5).all()
                    n_whole += int(np.abs(box - want).max() <= 0.5)
                want_points = sample(number // 100)["points"].reshape(-1, 2, 3)[number % 100]
                np.testing.assert_allclose(points[r].reshape(-1, 2, 3)[k][:, :2], want_points[:, :2], atol=0.02)
                n_boxes, n_points = n_boxes + 1, n_points + 2
            for tile, i in enumerate(batch["image_tile_index"][r].tolist()):
                got = marks[r][batch["marks_tile"][r] == tile]
                want = sample(i) if i >= 0 else {"marks": np.zeros((0, 3)), "mask": np.zeros((0, 0))}
                np.testing.assert_allclose(got[:, :2], want["marks"][:, :2], atol=0.06)
                assert masks[r][tile].shape == want["mask"].shape
            n_shown, n_wrong = check_shown(batch, r)
            n_pixels += n_shown
            assert n_wrong == 0
    assert n_boxes > 5 and n_points > 10 and n_pixels > 30 and n_moved > 0
    assert n_whole >= 2 or behind in TURN


def test_masks_of_operations_behind_a_mosaic_show_their_own_tile(data):
    """A mask (H, W) comes back in parts: a tile's pixels do not appear on the original of another tile."""
    for batch in loader(data, "resize", T.Mosaic(transforms=BEHIND["affine"])):
        for r, found in enumerate(ps.to_original(batch["mask"], batch, fill=255)):
            tiles = batch["image_tile_index"][r].tolist()
            for tile, i in enumerate(tiles):
                want, got = sample(i)["mask"], found[tile]
                rims = np.zeros(want.shape, bool)
                for x0, y0, x1, y1 in sample(i)["boxes"].astype(int):
                    rims[max(y0 - 5, 0) : y1 + 5, max(x0 - 5, 0) : x1 + 5] = True
                    rims[y0 + 5 : y1 - 5, x0 + 5 : x1 - 5] = False
                # At the seams of tiles the nearest pixel may belong to the neighbour, so pixels along the seams are not compared.
                height, width = want.shape
                x0, y0, x1, y1 = batch["image_tiles"][r, tile].tolist()
                ys, xs = np.mgrid[0:height, 0:width] + 0.5
                on = batch["image_geometry"][r, tile] @ np.stack([xs.ravel(), ys.ravel(), np.ones(xs.size)])
                at = np.linalg.inv(batch["image_mosaic_geometry"][r]) @ (on / on[2])
                at = (at[:2] / at[2]).reshape(2, height, width)
                inner = (at[0] > x0 + 1) & (at[0] < x1 - 1) & (at[1] > y0 + 1) & (at[1] < y1 - 1)
                assert not ((got != 255) & (got != want) & ~rims & inner).any()


def test_predictions_behind_operations_have_the_tile_under_their_centre(data):
    n = 0
    for batch in loader(data, "resize", T.Mosaic(transforms=BEHIND["zoom"])):
        predicted = [row.copy() for row in batch["boxes"]]
        tiles = ps.tiles_of(predicted, batch)
        for a, b in zip(tiles, batch["boxes_tile"], strict=True):
            assert (a == b).all()
            n += len(a)
        masks = []
        for row in predicted:
            drawn = np.zeros((len(row), *SIZE), np.uint8)
            for mask, box in zip(drawn, row.round().astype(int), strict=True):
                mask[box[1] : max(box[3], box[1] + 1), box[0] : max(box[2], box[0] + 1)] = 1
            masks.append(drawn)
        for a, b in zip(ps.tiles_of(masks, batch, kind="masks"), tiles, strict=True):
            assert (a == b).all()
    assert n > 10


def test_left_and_right_change_places_behind_a_mosaic(tmp_path):
    path = tmp_path / "sides.pst"
    schema = {"image": ps.Image(), "face": ps.Keypoints(points=3, pairs=[(0, 2)]), "one": ps.Keypoints(pairs=[(0, 1)])}
    with ps.Writer(path, schema) as writer:
        for i in range(8):
            face = np.array([[10, 5 + i, 2], [20, 6 + i, 2], [30, 7 + i, 2]] * (1 + i % 2), np.float32)
            writer.write({"image": sample(i)["image"], "face": face, "one": np.array([[5, 5, 2], [9, 9, 2]], np.float32)})
    for batch in ps.Loader(path, **keywords(transforms=[T.Resize(SIZE)], mix=T.Mosaic(transforms=[T.RandomHorizontalFlip(1)]),
                                            geometry=True, batch_size=4, output="numpy", num_workers=1)):  # fmt: skip
        for r in range(len(batch["index"])):
            for name, order in (("face", [30, 20, 10]), ("one", [9, 5])):
                back = ps.to_original(batch[name], batch)[r][:, 0]
                np.testing.assert_allclose(back, np.resize(order, len(back)), atol=0.02)


def test_operations_behind_a_mosaic_resume_share_and_replay(data, service, monkeypatch):
    mix = T.Mosaic(0.7, transforms=BEHIND["affine"])
    want = list(loader(data, "resize", mix))
    assert any((a["image"] != b["image"]).any() for a, b in zip(want, loader(data, "resize", T.Mosaic(0.7)), strict=True))
    first = loader(data, "resize", mix, num_workers=3)
    next(iter(first))
    second = loader(data, "resize", mix, num_workers=0)
    second.load_state_dict(first.state_dict())
    for a, b in zip(want[1:], second, strict=True):
        same(a, b)
        assert (a["image"] == b["image"]).all() and (a["mask"] == b["mask"]).all()
    same(want[2], first.replay(2, epoch=0))
    again = ps.Loader.from_config(loader(data, "resize", mix).config())
    for a, b in zip(want, again, strict=True):
        same(a, b)
    monkeypatch.setenv("PENSTOCK_SOCKET", str(service))
    for a, b in zip(want, loader(data, "resize", mix, share="behind", cache=None), strict=True):
        same(a, b)
        assert (a["image"] == b["image"]).all()
    second.set(size=(96, 100))
    batch = next(iter(second))
    assert batch["image"].shape[2:] == (96, 100)
    for found, of in zip(ps.to_original(batch["points"], batch), batch["points_tile"], strict=True):
        assert len(found) == len(of)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depths_and_dtypes_behind_a_mosaic(data, layout):
    """16-bit pixels are moved like 8-bit ones, and masks in each of their dtypes."""
    mix = T.Mosaic(transforms=BEHIND["flips"])
    plain = list(loader(data, "resize", mix))
    for dtype, mask in (("uint8", "int64"), ("uint16", "float32"), ("uint16", "uint16"), ("uint8", "int32")):
        for a, b in zip(plain, loader(data, "resize", mix, dtype={"image": dtype, "mask": mask}, layout=layout), strict=True):
            assert b["mask"].dtype == mask and (a["mask"] == b["mask"]).all()
            image = b["image"].transpose(0, 3, 1, 2) if layout == "NHWC" else b["image"]
            assert image.dtype == dtype
            if dtype == "uint8":
                assert (image == a["image"]).all()
            else:
                assert np.abs(image / 257 - a["image"]).max() <= 1


def test_operations_that_cannot_be_behind_a_mosaic_are_refused(data):
    for behind, text, more in (
        ([T.Resize(20)], "Resize behind a mosaic changes the size", {}),
        ([T.Pad(2)], "Pad behind a mosaic changes the size", {}),
        ([T.Resize((20, 20))], "20x20", {}),
        ([T.RandomIoUCrop(), T.Resize(SIZE)], "RandomIoUCrop behind a mosaic: it needs the boxes", {}),
        ([T.RandAugment()], "RandAugment behind a mosaic moves the image's pixels alone", {}),
        ([T.ElasticTransform()], "ElasticTransform behind a mosaic", {}),
        ([T.RandomHorizontalFlip()], "8 or 16 bits", {"dtype": "float32"}),
        ([T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)], "normalised pixels need", {}),
    ):
        with pytest.raises(ArgumentError, match=text):
            loader(data, "resize", T.Mosaic(transforms=behind), **more)
    for behind in ([T.Mono()], ["flip"], 3):
        with pytest.raises(ArgumentError):
            T.Mosaic(transforms=behind)
    fixed = loader(data, "resize", T.Mosaic(transforms=BEHIND["crop"]))
    with pytest.raises(ArgumentError, match="behind a mosaic"):
        fixed.set(size=(96, 100))
    assert next(iter(fixed))["image"].shape[2:] == SIZE
