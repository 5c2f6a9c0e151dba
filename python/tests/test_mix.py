"""MixUp and CutMix of batches: torchvision's arithmetic with the drawn parameters, labels, ranks, resume, errors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import picture
from flat import keywords
from penstock import transforms as T

N, CLASSES = 22, 5
OPS = [T.RandomResizedCrop((33, 40)), T.Normalize(0.5, 0.25)]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path = tmp_path_factory.mktemp("mix") / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "label": ps.Int()}) as writer:
        for i in range(N):
            writer.write({"image": picture(i, 50 + i, 61), "label": i % CLASSES})
    return path


def load(path, mix, **options):
    return ps.Loader(path, **keywords(**{"batch_size": 4, "transforms": OPS, "shuffle": True, "seed": 3, "mix": mix, **options}))


def drawn(loader):
    """Returns the batches of one epoch, with (kind, lambda, y, x, height, width, is_applied) of each."""
    native = loader._deliver
    found = []

    def deliver(batch):
        found.append(batch.mix())
        return native(batch)

    loader._deliver = deliver
    return [({name: np.asarray(value).copy() for name, value in batch.items()}, found[i]) for i, batch in enumerate(loader)]


def mixed(plain, how, layout="NCHW"):
    kind, share, y, x, height, width, is_applied = how
    assert is_applied
    assert 0 <= share <= 1
    images, partners = plain["image"], np.roll(plain["image"], 1, 0)
    if len(images) == 1:
        return images
    if kind == 1:
        own, other = np.float32(share), np.float32(1) - np.float32(share)
        both = images.astype(np.float32) * own + partners.astype(np.float32) * other
        return np.floor(both + 0.5).astype(images.dtype) if images.dtype.kind == "u" else both.astype(images.dtype)
    images = images.copy()
    rows, columns = slice(y, y + height), slice(x, x + width)
    hole = (slice(None), slice(None), rows, columns) if layout == "NCHW" else (slice(None), rows, columns)
    images[hole] = partners[hole]
    assert share == pytest.approx(1 - height * width / (33 * 40), abs=1e-6)
    return images


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("workers", [0, 2])
def test_images_and_labels(pictures, dtype, layout, workers):
    options = {"dtype": dtype, "layout": layout, "output": "numpy", "num_workers": workers}
    if dtype == "uint8":
        options["transforms"] = OPS[:1]
    plain = list(load(pictures, None, **options))
    kinds = set()
    ways = [T.MixUp(0.4, CLASSES), T.CutMix(1.0, CLASSES)]
    for before, (after, how) in zip(plain, drawn(load(pictures, ways, **options)), strict=True):
        kinds.add(how[0])
        np.testing.assert_array_equal(after["image"], mixed(before, how, layout))
        ones = np.eye(CLASSES, dtype=np.float32)[before["label"]]
        expected = ones * np.float32(how[1]) + np.roll(ones, 1, 0) * np.float32(1 - how[1])
        np.testing.assert_allclose(after["label"], expected, atol=1e-6)
        np.testing.assert_array_equal(after["index"], before["index"])
    assert kinds == {1, 2}


def test_one_row_is_its_own_partner(pictures):
    [(batch, _)] = drawn(load(pictures, T.MixUp(1.0, CLASSES), indices=[7], output="numpy", num_workers=0))
    [plain] = load(pictures, None, indices=[7], output="numpy", num_workers=0)
    np.testing.assert_array_equal(batch["image"], plain["image"])
    assert batch["label"].sum() == pytest.approx(1)


def test_resume_and_replay_mix_alike(pictures):
    whole = [batch for batch, _ in drawn(load(pictures, T.CutMix(num_classes=CLASSES), output="numpy"))]
    loader = load(pictures, T.CutMix(num_classes=CLASSES), output="numpy")
    passing = iter(loader)
    for _ in range(2):
        next(passing)
    state = loader.state_dict()
    again = load(pictures, T.CutMix(num_classes=CLASSES), output="numpy")
    again.load_state_dict(state)
    for expected, batch in zip(whole[2:], again, strict=True):
        np.testing.assert_array_equal(batch["image"], expected["image"])
    np.testing.assert_array_equal(again.replay(1, 0)["image"], whole[1]["image"])


def test_shares_have_the_beta_distribution(pictures):
    loader = load(pictures, T.MixUp(0.4, CLASSES), batch_size=1, num_workers=0, transforms=[T.Resize((4, 4))])
    shares = [how[1] for _ in range(40) for _, how in drawn(loader)]
    assert len(shares) == 40 * N
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    assert np.var(shares) == pytest.approx(1 / (4 * (2 * 0.4 + 1)), rel=0.12)  # the variance of beta(a, a)


def test_torch_labels_train(pictures):
    batch = next(iter(load(pictures, T.MixUp(num_classes=CLASSES), output="torch")))
    assert batch["label"].dtype == torch.float32
    assert batch["label"].shape == (4, CLASSES)
    assert torch.allclose(batch["label"].sum(1), torch.ones(4))
    logits = batch["image"].flatten(1) @ torch.zeros(3 * 33 * 40, CLASSES)
    assert float(torch.nn.functional.cross_entropy(logits, batch["label"])) == pytest.approx(np.log(CLASSES), rel=1e-5)


def test_what_cannot_be_mixed_is_refused(pictures, tmp_path):
    error = ps.errors.ArgumentError
    with pytest.raises(error, match="may differ in size"):
        load(pictures, T.MixUp(num_classes=CLASSES), transforms=[T.Resize(30)])
    with pytest.raises(error, match="num_classes"):
        load(pictures, T.MixUp())
    with pytest.raises(error, match="labels of mixed images are 0 to 2"):
        list(load(pictures, T.MixUp(num_classes=3)))
    with pytest.raises(error, match="mix is MixUp"):
        load(pictures, [])
    with pytest.raises(error, match="mix is MixUp"):
        load(pictures, T.Normalize(0.5, 0.5))
    with pytest.raises(error, match="same num_classes"):
        load(pictures, [T.MixUp(num_classes=5), T.CutMix(num_classes=6)])
    for alpha in (0, -1, float("nan"), "1"):
        with pytest.raises(error, match="alpha is above 0"):
            T.MixUp(alpha)
    path = tmp_path / "mask.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "mask": ps.Mask(), "label": ps.Int()}) as writer:
        writer.write({"image": picture(0, 20, 20), "mask": np.zeros((20, 20), np.uint8), "label": 0})
    with pytest.raises(error, match="'mask' cannot be"):
        load(path, T.MixUp(num_classes=2))
    assert len(list(load(path, T.MixUp(num_classes=2), fields=["image", "label"]))) == 1


def test_ranks_mix_their_own_batches(pictures):
    for rank in range(2):
        options = {"rank": rank, "world_size": 2, "output": "numpy", "num_workers": 1}
        plain = list(load(pictures, None, **options))
        for before, (after, how) in zip(plain, drawn(load(pictures, T.MixUp(num_classes=CLASSES), **options)), strict=True):
            np.testing.assert_array_equal(after["image"], mixed(before, how))


def test_bad_samples_leave_before_mixing(pictures, tmp_path):
    """If bad rows of a batch were left out, the remaining rows are mixed with each other."""
    path = tmp_path / "bad.pst"
    shutil.copytree(pictures, path)
    shard = max((file for file in path.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    data = bytearray(shard.read_bytes())
    at = bytes(data).find(picture(9, 59, 61).tobytes()[:64])
    assert at > 0
    data[at] ^= 255
    shard.write_bytes(data)
    options = {"on_error": "skip", "output": "numpy", "num_workers": 2}
    plain = list(load(path, None, **options))
    assert sum(len(batch["index"]) for batch in plain) == N - 1
    for before, (after, how) in zip(plain, drawn(load(path, T.MixUp(num_classes=CLASSES), **options)), strict=True):
        np.testing.assert_array_equal(after["image"], mixed(before, how))


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_batch_without_rows(folder, tmp_path, output):
    path = tmp_path / "bad"
    shutil.copytree(folder, path)
    bad = sorted(path.rglob("*.jpg"))[0]
    bad.write_bytes(bad.read_bytes()[:200])
    ways = {"batch_size": 1, "shuffle": False, "on_error": "skip", "on_empty": "empty", "cache": None, "output": output}
    for mix in (T.MixUp(0.4), T.CutMix(1.0)):
        with load(path, mix, **ways) as loader:
            batch = next(iter(loader))
            assert tuple(batch["label"].shape) == (0, 3) and tuple(batch["image"].shape) == (0, 3, 33, 40)
            assert batch["label"].dtype == {"numpy": np.float32, "torch": torch.float32}[output]
