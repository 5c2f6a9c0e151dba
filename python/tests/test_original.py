"""From a batch back to the original pictures: boxes, keypoints and masks, by the batch's own geometry."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError

N = 8
POINTS = ps.Keypoints(points=["nose", "left", "right"])


def sample(i):
    """Returns a picture of its own size with two rectangles, whose classes and colours are in the mask, and points at their
    corners.
    """
    rng = np.random.default_rng(i)
    height, width = 60 + 7 * i, 90 - 5 * i
    pixels = rng.integers(0, 40, (height, width, 3), np.uint8)
    mask = np.zeros((height, width), np.uint8)
    boxes, points = [], []
    for k in range(2):
        x, y = 8 + (width // 2) * k + i % 3, 9 + (height // 3) * k
        w, h = width // 4, height // 3
        boxes.append((x, y, x + w, y + h))
        points += [(x + w / 2, y + 1, 2), (x, y + h, 1), (x + w, y + h, 2)]
        mask[y : y + h, x : x + w] = k + 1
        pixels[y : y + h, x : x + w] = 100 + 100 * k
    return {"image": pixels, "mask": mask, "boxes": np.array(boxes, np.float32), "points": np.array(points, np.float32)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "original.pst"
    schema = {"image": ps.Image(), "mask": ps.Mask(), "boxes": ps.Boxes(), "points": POINTS}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(sample(i), name=f"pictures/{i}.png")
    return ps.Dataset(path)


def loader(data, transforms, **more):
    more = {"num_workers": 1, "output": "numpy", "seed": 5, "shuffle": True, "geometry": True, "keep_boxes": True, **more}
    return ps.Loader(data, **keywords(transforms=transforms, batch_size=3, **more))


WHOLE = {  # chains of operations that cut nothing off
    "nothing": [],
    "resize": [T.Resize((64, 80))],
    "flips": [T.RandomHorizontalFlip(), T.RandomVerticalFlip()],
    "letterbox": [T.RandomHorizontalFlip(), T.Letterbox(96)],
    "pad": [T.Pad((3, 5, 7, 2)), T.Resize((128, 100))],
    "zoom": [T.RandomZoomOut(p=1), T.RandomHorizontalFlip()],
    "sizes": [T.RandomShortestSize((50, 90, 130))],
}
WARPS = {
    "rotation": [T.Pad(60), T.RandomRotation(30)],
    "affine": [T.Pad(60), T.RandomAffine(20, (0.1, 0.1), (0.7, 1.0), (-10, 10, -5, 5))],
    "perspective": [T.Pad(20), T.RandomPerspective(0.4, p=1), T.Resize((120, 140))],
}
CUTS = {
    "crop": [T.RandomCrop(32, pad_if_needed=True)],
    "resized crop": [T.RandomResizedCrop(48), T.RandomHorizontalFlip()],
    "iou crop": [T.RandomIoUCrop(), T.Resize((64, 64))],
}


def rows(batches):
    for batch in batches:
        boxes = ps.to_original(batch["boxes"], batch)
        points = ps.to_original(batch["points"], batch)
        masks = ps.to_original(batch["mask"], batch)
        for r, i in enumerate(batch["index"]):
            yield int(i), batch, r, boxes[r], points[r], masks[r]


def unpaired(points, mirrors):
    """Undoes the swap of left and right points: the positions are right on the original picture, but the order is not."""
    return points.reshape(-1, 3, 3)[:, [0, 2, 1] if mirrors else [0, 1, 2]].reshape(-1, 3)


@pytest.mark.parametrize("name", [*WHOLE, *WARPS])
def test_what_is_not_cut_comes_back(data, name):
    seen = set()
    for i, batch, r, boxes, points, masks in rows(loader(data, {**WHOLE, **WARPS}[name])):
        seen.add(i)
        want = sample(i)
        matrix = batch["image_geometry"][r]
        assert matrix.dtype == np.float64 and batch["image_original_size"][r].tolist() == list(want["mask"].shape)
        assert batch["sample_name"][r] == f"pictures/{i}.png"
        mirrors = np.linalg.det(matrix[:2, :2]) < 0
        np.testing.assert_allclose(unpaired(points, mirrors), want["points"], atol=0.01)
        assert masks.shape == want["mask"].shape
        if name in WHOLE:
            np.testing.assert_allclose(boxes, want["boxes"], atol=0.01)
        else:  # the smallest upright box around a rotated box
            assert (boxes[:, :2] <= want["boxes"][:, :2] + 0.01).all() and (boxes[:, 2:] >= want["boxes"][:, 2:] - 0.01).all()
        wrong = masks != want["mask"]
        y, x = np.nonzero(wrong)  # nearest pixels differ only at the borders of rectangles
        near = [np.abs(want["boxes"][:, [0, 2]].ravel() - c).min() <= 2.5 for c in x] if len(x) else []
        near_y = [np.abs(want["boxes"][:, [1, 3]].ravel() - c).min() <= 2.5 for c in y] if len(y) else []
        assert all(a or b for a, b in zip(near, near_y, strict=True)), (name, i)
    assert seen == set(range(N))


@pytest.mark.parametrize("name", list(CUTS))
def test_what_is_cut_comes_back_where_it_was(data, name):
    """A box that an edge cut comes back as the visible part of the annotation. The mask agrees."""
    for i, batch, r, boxes, points, masks in rows(loader(data, CUTS[name])):
        want, matrix = sample(i), batch["image_geometry"][r]
        mirrors = np.linalg.det(matrix[:2, :2]) < 0
        np.testing.assert_allclose(unpaired(points, mirrors)[:, :2], want["points"][:, :2], atol=0.01)
        height, width = batch["image"][r].shape[-2:]
        shown = np.linalg.inv(matrix) @ np.array([[0, width], [0, height], [1, 1]])
        low, high = np.sort(shown[:2], 1).T
        for got, box in zip(boxes, want["boxes"], strict=True):
            cut = np.concatenate([np.clip(box[:2], low, high), np.clip(box[2:], low, high)])
            if (got[2:] - got[:2]).min() > 0:
                np.testing.assert_allclose(got, cut, atol=0.05)
        assert not masks[(np.arange(len(masks))[:, None] + 0.5 < low[1] - 1) & (np.arange(masks.shape[1]) > -1)].any()


def test_matrices_are_those_of_the_pixels(data):
    """The picture itself is mapped back by its matrix: the visible part equals the original."""
    for batch in loader(data, [T.Resize((150, 200), interpolation="nearest-exact"), T.RandomHorizontalFlip()]):
        for r, picture in enumerate(ps.to_original(list(batch["image"]), batch, kind="masks")):
            i = int(batch["index"][r])
            assert (picture.transpose(1, 2, 0) == sample(i)["image"]).all()


def test_only_the_geometry_of_the_batch_counts(data):
    for batch in loader(data, CUTS["resized crop"]):
        want = ps.to_original(batch["boxes"], batch)
        wrong = {**batch, "index": batch["index"][::-1] + 1000, "sample_name": ["?"] * len(batch["index"])}
        for a, b in zip(want, ps.to_original(batch["boxes"], wrong), strict=True):
            assert (a == b).all()
        kept = {key: batch[key] for key in ("image_geometry", "image_original_size")}
        for a, b in zip(want, ps.to_original(batch["boxes"], kept), strict=True):
            assert (a == b).all()


def test_views_have_a_matrix_each(data):
    views = {"big": (2, [T.RandomResizedCrop(40), T.RandomHorizontalFlip()]), "small": [T.RandomResizedCrop(16)]}
    one = ps.Loader(data, **keywords(views=views, fields=["boxes"], batch_size=4, output="numpy", num_workers=1, geometry=True))
    alone = ps.Loader(data, **keywords(transforms=views["big"][1], fields=["image"], batch_size=4, output="numpy",
                                       num_workers=1, geometry=True))  # fmt: skip
    for batch, plain in zip(one, alone, strict=True):
        assert batch["big_geometry"].shape == (4, 2, 3, 3) and batch["small_geometry"].shape == (4, 3, 3)
        assert (batch["big_geometry"][:, 0] == plain["image_geometry"]).all()  # view 0 is the one that `transforms` makes
        assert (batch["big_geometry"][:, 1] != batch["big_geometry"][:, 0]).any()
        assert (batch["big_original_size"] == plain["image_original_size"]).all()
        whole = [np.array([[0, 0, 40, 40]], np.float32)] * 4
        for v in range(2):
            for r, box in enumerate(ps.to_original(whole, batch, image="big", view=v)):
                corner = np.linalg.inv(batch["big_geometry"][r, v]) @ [20, 20, 1]
                np.testing.assert_allclose((box[0, :2] + box[0, 2:]) / 2, corner[:2], atol=1e-3)
        with pytest.raises(ArgumentError, match="view=0 to 1"):
            ps.to_original(whole, batch, image="big")
        with pytest.raises(ArgumentError, match="say which"):
            ps.to_original(whole, batch)


def test_threads_resume_fetch_and_torch_give_the_same(data):
    import torch

    chain = [T.RandomResizedCrop(48), T.RandomHorizontalFlip()]
    want = {int(i): m for b in loader(data, chain) for i, m in zip(b["index"], b["image_geometry"], strict=True)}
    first = loader(data, chain, num_workers=3)
    iterator = iter(first)
    next(iterator)
    second = loader(data, chain, num_workers=0, output="torch")
    second.load_state_dict(first.state_dict())
    n = 0
    for batch in second:
        for i, matrix in zip(batch["index"].tolist(), batch["image_geometry"], strict=True):
            assert (matrix.numpy() == want[i]).all()
            n += 1
        found = ps.to_original(batch["boxes"], batch)
        assert all(isinstance(row, torch.Tensor) and row.dtype == torch.float32 for row in found)
        masks = ps.to_original(batch["mask"], batch)
        assert all(isinstance(row, torch.Tensor) and row.dtype == batch["mask"].dtype for row in masks)
    assert n == N - 3
    fetched = first.fetch([4, 2], 0)
    assert (fetched["image_geometry"][0] == want[4]).all() and fetched["sample_name"] == ["pictures/4.png", "pictures/2.png"]
    dataset = ps.TorchDataset(data, **keywords(transforms=chain, geometry=True, seed=5, keep_boxes=True))
    assert (dataset[4]["image_geometry"].numpy() == want[4]).all() and dataset[4]["sample_name"] == "pictures/4.png"


def test_functions_and_padded_rows_have_it(data):
    def mean(sample, rng=None):
        return {**sample, "zoom": np.float32(sample["image_geometry"][0, 0])}

    plain = list(loader(data, WHOLE["letterbox"]))
    for batch, want in zip(loader(data, WHOLE["letterbox"], sample_function=mean, ragged="padded"), plain, strict=True):
        np.testing.assert_allclose(batch["zoom"], want["image_geometry"][:, 0, 0], rtol=1e-6)
        for a, b in zip(ps.to_original(batch["boxes"], batch), ps.to_original(want["boxes"], want), strict=True):
            assert (a[: len(b)] == b).all()


def test_own_geometry_has_its_own_matrix(data):
    chains = {"image": [T.Resize((64, 64))], "mask": [T.RandomCrop(20)]}
    for batch in ps.Loader(data, **keywords(transforms=chains, own_geometry=["mask"], geometry=True, keep_boxes=True, batch_size=4,
                                            output="numpy", num_workers=1)):  # fmt: skip
        assert (batch["mask_geometry"][:, 0, 0] == 1).all() and (batch["image_geometry"][:, 0, 0] != 1).any()
        for r, mask in enumerate(ps.to_original(batch["mask"], batch, image="mask", fill=9)):
            want = sample(int(batch["index"][r]))["mask"]
            assert mask.shape == want.shape and (mask != 9).sum() == 400 and (mask[mask != 9] == want[mask != 9]).all()


def test_what_no_matrix_says_is_refused(data):
    for name, chain in (("ElasticTransform", [T.ElasticTransform()]), ("RandAugment", [T.RandAugment()])):
        with pytest.raises(ArgumentError, match=name):
            ps.Loader(data, **keywords(transforms=chain, fields=["image"], geometry=True))
    batch = next(iter(loader(data, WHOLE["resize"])))
    for call in (lambda: ps.to_original(batch["boxes"], batch, tiles=[[0, 0]] * 3), lambda: ps.tiles_of(batch["boxes"], batch)):
        with pytest.raises(ArgumentError, match="no tiles"):
            call()
    with pytest.raises(ArgumentError, match="none is delivered as pixels"):
        ps.Loader(data, **keywords(fields=["boxes"], geometry=True))


def test_wrong_calls_say_what_to_do(data):
    batch = next(iter(loader(data, WHOLE["resize"])))
    with pytest.raises(ArgumentError, match="geometry=True"):
        ps.to_original(batch["boxes"], {"boxes": batch["boxes"]})
    with pytest.raises(ArgumentError, match="rows"):
        ps.to_original(batch["boxes"][:2], batch)
    with pytest.raises(ArgumentError, match="shape"):
        ps.to_original([np.zeros(4)] * 3, batch)
    with pytest.raises(ArgumentError, match="no 'thumb_geometry'"):
        ps.to_original(batch["boxes"], batch, image="thumb")
    with pytest.raises(ArgumentError, match="axis of views"):
        ps.to_original(batch["boxes"], batch, view=0)
    outside = [np.array([[-50, -50, 500, 500]], np.float32)] * 3
    for box, size in zip(ps.to_original(outside, batch), batch["image_original_size"], strict=True):
        assert box[0].tolist() == [0, 0, size[1], size[0]]
    assert ps.to_original(outside, batch, clip=False)[0][0, 0] < 0


def test_without_geometry_batches_are_as_before(data):
    plain = next(iter(ps.Loader(data, **keywords(batch_size=2, output="numpy"))))
    assert set(plain) == {"image", "mask", "boxes", "points", "index"}


def test_loaders_that_share_have_the_same(service, data, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(service))
    chain, names = [T.RandomResizedCrop(48), T.RandomHorizontalFlip()], ("image_geometry", "image_original_size", "index")
    alone = [[batch[name].tobytes() for name in names] for batch in loader(data, chain)]
    jobs = [loader(data, chain, share="original", cache=None) for _ in range(2)]
    got = [list(job) for job in jobs]
    for batches in got:
        assert [[batch[name].tobytes() for name in names] for batch in batches] == alone
        assert [batch["sample_name"] for batch in batches] == [[f"pictures/{i}.png" for i in b["index"]] for b in batches]
    assert sum(job.stats()["share"]["batches"] for job in jobs) > 0
