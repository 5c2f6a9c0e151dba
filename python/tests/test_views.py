"""Several views of a sample and repeated augmentation: pixels, draws, order, resume, ranks, errors.

The tests compute each view's random numbers by Philox and the rule of src/augment/augment_draw.c.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import N, encoded, philox, picture, torchvision_v2
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError
from test_policies import below, unit

SEED = 7
CROP = [T.RandomCrop((20, 24)), T.RandomHorizontalFlip()]
GLOBAL = [T.RandomResizedCrop(48, scale=(0.4, 1.0)), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4)]
LOCAL = [T.RandomResizedCrop(16, scale=(0.05, 0.4)), T.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path = tmp_path_factory.mktemp("views") / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "label": ps.Int()}) as writer:
        for i in range(N):
            writer.write({"image": picture(i, 50 + i, 61), "label": i % 5})
    return path


def load(path, **options):
    return ps.Loader(path,
                     **keywords(**{"batch_size": 5, "shuffle": True, "seed": SEED, "output": "numpy", "num_workers": 2, **options}))


def contents(loader):
    return [{name: np.array(value) for name, value in batch.items()} for batch in loader]


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert list(x) == list(y)
        for name in x:
            assert x[name].dtype == y[name].dtype
            np.testing.assert_array_equal(x[name], y[name])


def words(epoch, sample, draw, view, number, turn=0):
    """Returns the four random numbers of one try of an operation."""
    folded = philox((epoch & 0xFFFFFFFF, epoch >> 32, 0, 0x70737430), (SEED, 0))
    key = philox((draw & 0xFFFFFFFF, draw >> 32, view, 0), folded)[:2]
    return philox((sample, 0, number, turn), key)


def crop_of(i, epoch, draw, view):
    """Returns RandomCrop((20, 24)) and a flip of picture i, as (H, W, C)."""
    pixels = picture(i, 50 + i, 61)
    row, column = words(epoch, i, draw, view, 0)[:2]
    y, x = below(row, 50 + i - 20 + 1), below(column, 61 - 24 + 1)
    pixels = pixels[y : y + 20, x : x + 24]
    return pixels[:, ::-1] if unit(words(epoch, i, draw, view, 1)[0]) < 0.5 else pixels


def test_each_view_has_draws_of_its_own(pictures):
    loader = load(pictures, views={"a": (3, CROP), "b": CROP, "c": (1, CROP)})
    for epoch in range(2):
        for batch in loader:
            n = len(batch["index"])
            assert batch["a"].shape == (n, 3, 3, 20, 24)
            assert batch["b"].shape == (n, 3, 20, 24)
            assert batch["c"].shape == (n, 1, 3, 20, 24)
            assert "image" not in batch
            assert batch["label"].tolist() == [int(i) % 5 for i in batch["index"]]
            for row, i in enumerate(batch["index"].tolist()):
                views = [*batch["a"][row], batch["b"][row], batch["c"][row, 0]]
                for v, view in enumerate(views):
                    np.testing.assert_array_equal(view.transpose(1, 2, 0), crop_of(i, epoch, 0, v))


def test_first_view_is_what_transforms_give(packed):
    plain = contents(load(packed, transforms=GLOBAL))
    views = contents(load(packed, views={"image": (2, GLOBAL), "local": (6, LOCAL)}))
    for a, b in zip(plain, views, strict=True):
        np.testing.assert_array_equal(a["image"], b["image"][:, 0])
        assert (b["image"][:, 0] != b["image"][:, 1]).any(axis=(1, 2, 3)).all()
        assert b["local"].shape[1:] == (6, 3, 16, 16)


@pytest.mark.parametrize("form", ["folder", "packed"])
def test_one_decode_gives_the_same_views_as_one_for_each(form, request):
    """JPEG and PNG: a loader with several views gives the same views as loaders with one view each, and decodes each image once."""
    path = request.getfixturevalue(form)
    ops = {"g": GLOBAL, "l": LOCAL}
    loader = load(path, views={"g": (2, GLOBAL), "l": (4, LOCAL)})
    together = contents(loader)
    assert loader.stats()["device"]["cpu_samples"] <= 2 * N  # few samples have crops that cover less than their bounds
    # Views by themselves: a loader whose first views are left out by their numbers.
    for name, count, first in (("g", 2, 0), ("l", 4, 2)):
        for v in range(count):
            alone = ps.Loader(path, batch_size=5, shuffle=True, seed=SEED, output="numpy", views={name: ops[name]})
            alone._native_options["fields"][-1]["first_view"] = first + v
            alone._native = alone._make_native()
            for a, b in zip(together, contents(alone), strict=True):
                np.testing.assert_array_equal(a[name][:, v], b[name])


def test_pli_decodes_once(folder, tmp_path):
    """For forms whose units are counted, the count is that of one decode of each image."""
    ps.pack(folder, tmp_path / "set.pst", forms=["pli"], of_lossy=True)
    whole = load(tmp_path / "set.pst", transforms=[T.Resize((32, 32))])
    contents(whole)
    loader = load(tmp_path / "set.pst", views={"v": (4, [T.RandomResizedCrop(32, scale=(0.5, 1.0))])})
    contents(loader)
    assert 0 < loader.stats()["decode"]["units"] <= whole.stats()["decode"]["units"]
    assert loader.stats()["fallbacks"].get("views", 0) == 0


def test_layouts_dtypes_and_torch(pictures):
    ops = [*CROP, T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    reference = contents(load(pictures, views={"v": (2, ops)}))
    for layout, axes in (("NHWC", (0, 1, 4, 2, 3)), ("channels_last", (0, 1, 2, 3, 4))):
        found = contents(load(pictures, views={"v": (2, ops)}, layout=layout))
        for a, b in zip(reference, found, strict=True):
            np.testing.assert_array_equal(a["v"], b["v"].transpose(axes))
    half = contents(load(pictures, views={"v": (2, ops)}, dtype="float16"))
    np.testing.assert_array_equal(half[0]["v"], reference[0]["v"].astype(np.float16))
    batch = next(iter(load(pictures, views={"v": (2, ops)}, output="torch")))
    assert batch["v"].shape == (5, 2, 3, 20, 24) and batch["v"].dtype == torch.float32
    flat = batch["v"].flatten(0, 1)  # views of a sample lie side by side, without a copy
    assert flat.data_ptr() == batch["v"].data_ptr()


def test_against_torchvision(pictures):
    """A resized centre crop, equal in all views."""
    v2 = torchvision_v2()
    loader = load(pictures, views={"v": (2, [T.Resize(40), T.CenterCrop(32)])}, output="torch")
    for batch in loader:
        for row, i in enumerate(batch["index"].tolist()):
            pixels = torch.from_numpy(picture(i, 50 + i, 61)).permute(2, 0, 1)
            wanted = v2.functional.center_crop(v2.functional.resize(pixels, [40], antialias=True), [32, 32])
            for v in range(2):
                assert (batch["v"][row, v].int() - wanted.int()).abs().max() <= 1


def test_image_and_masks_beside_views(typed):
    """The image, its mask and its boxes are moved by `transforms`, independently of the views."""
    ops = [T.RandomCrop((16, 20)), T.RandomHorizontalFlip()]
    plain = list(ps.Loader(typed, batch_size=10, seed=SEED, transforms=ops, fields=["image", "mask", "boxes"], output="numpy",
                           annotations=ps.Annotations(per_box=())))[0]
    both = list(ps.Loader(typed, batch_size=10, seed=SEED, transforms=ops, fields=["image", "mask", "boxes"], output="numpy",
                          annotations=ps.Annotations(per_box=()), views={"view": (2, ops)}))[0]
    np.testing.assert_array_equal(plain["image"], both["image"])
    np.testing.assert_array_equal(plain["mask"], both["mask"])
    for a, b in zip(plain["boxes"], both["boxes"], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(both["view"][:, 0], both["image"])  # view 0 has the same random numbers as the image
    assert (both["view"][:, 1] != both["image"]).any()


def test_resume_ranks_replay_and_threads(pictures):
    views = {"g": (2, GLOBAL), "l": (3, LOCAL)}
    reference = contents(load(pictures, views=views))
    same(contents(load(pictures, views=views, num_workers=0)), reference)
    loader = load(pictures, views=views)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    state = loader.state_dict()
    resumed = load(pictures, views=views)
    resumed.load_state_dict(state)
    same(contents(resumed), reference[2:])
    again = {name: np.array(value) for name, value in loader.replay(1).items()}
    same([again], reference[1:2])
    rows = {}
    for rank in range(2):
        for batch in contents(load(pictures, views=views, batch_size=4, rank=rank, world_size=2)):
            rows |= {int(i): batch["l"][row] for row, i in enumerate(batch["index"])}
    for batch in reference:
        for row, i in enumerate(batch["index"]):
            np.testing.assert_array_equal(rows[int(i)], batch["l"][row])


def test_cache_and_fetch(packed):
    views = {"v": (2, GLOBAL)}
    cached = load(packed, views=views, cache="64MiB", cache_form="pli-jpeg")
    first, second = contents(cached), contents(cached)
    assert cached.stats()["cache"]["hits"] == N
    plain = load(packed, views=views, cache=None)
    same(first, contents(plain))
    same(second, contents(plain))
    fetched = plain.fetch([3, 5], epoch=0)
    by_index = {int(i): batch["v"][row] for batch in first for row, i in enumerate(batch["index"])}
    np.testing.assert_array_equal(fetched["v"][0], by_index[3])
    with pytest.raises(ArgumentError, match="views: these need it whole"):
        load(packed, views={"v": (2, [T.Resize(32), T.CenterCrop(24)])}, cache="64MiB", cache_resolution="training")


def test_damaged_image(pictures, folder, tmp_path):
    root = tmp_path / "animals"
    root.mkdir()
    for path in sorted((folder / "ant").iterdir()):
        (root / path.name).write_bytes(path.read_bytes())
    victim = sorted(root.iterdir())[1]
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    with pytest.raises(ps.PenstockError, match=victim.name):
        contents(ps.Loader(root, batch_size=2, views={"v": (2, GLOBAL)}, output="numpy"))
    loader = ps.Loader(root, batch_size=8, views={"v": (2, GLOBAL)}, output="numpy", on_error="skip")
    assert [len(batch["v"]) for batch in loader] == [7]
    assert [entry["sample"] for entry in loader.quarantine] == [1]


def test_little_memory_decodes_each_view(tmp_path):
    """The picture from which views are made may not exceed host_memory. If it does, each view decodes by itself."""
    pictures = [encoded(picture(i, 1500, 1500), "PNG", compress_level=1) for i in range(2)]
    with ps.Writer(tmp_path / "set.pst", {"image": ps.Image()}) as writer:
        for image in (*pictures, *pictures):
            writer.write({"image": image})
    ops = [T.RandomResizedCrop(64, scale=(0.9, 1.0))]
    rich = load(tmp_path / "set.pst", views={"v": (3, ops)}, batch_size=2, num_workers=1)
    poor = load(tmp_path / "set.pst", views={"v": (3, ops)}, batch_size=2, num_workers=1, host_memory="18MiB", cache=None)
    same(contents(rich), contents(poor))
    assert rich.stats()["fallbacks"].get("views", 0) == 0
    assert rich.stats()["device"]["cpu_samples"] == 4  # once for each image
    assert poor.stats()["memory"]["peak"] <= 18 << 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": {}}, "views is a dict"),
        ({"views": [CROP]}, "views is a dict"),
        ({"views": {"": CROP}}, "1 to 63 bytes"),
        ({"views": {"index": CROP}}, "index"),
        ({"views": {"v": (0, CROP)}}, "1 to 64 views"),
        ({"views": {"v": (2, CROP, "label")}}, "no image 'label'"),
        ({"views": {"v": (2,)}}, "count, operations"),
        ({"views": {"v": (40, CROP), "w": (40, CROP)}}, "at most 64"),
        ({"views": {"v": (2, [T.RandomHorizontalFlip()])}}, "may differ in size"),
        ({"views": {"v": (2, ["flip"])}}, "views\\['v'\\] holds 'flip'"),
        ({"views": {"label": (2, CROP)}}, "two arrays of a batch would be called 'label'"),
        ({"views": {"v": (2, CROP)}, "scaled_decode": True}, "without scaled_decode"),
        ({"views": {"v": (2, CROP)}, "encoded": ["image"], "fields": ["image"]}, "delivered encoded"),
        ({"views": {"v": (2, CROP)}, "transforms": CROP}, "none is delivered as pixels"),
        ({"views": {"v": (2, CROP)}, "transforms": {"image": CROP}}, "not delivered itself"),
        ({"views": {"v": (2, CROP), "w": (2, [*CROP, T.Normalize(0.5, 0.5)])}}, "different pixels"),
        ({"views": {"v": (2, [T.RandomIoUCrop(), *CROP])}}, "needs the sample's boxes"),
        ({"views": {"v": (2, CROP)}, "mix": T.MixUp(num_classes=5)}, "not for views"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 3, "shuffle": False, "order": "pages"}, "repeats is not possible"),
    ],
)
def test_refusals(pictures, options, message):
    with pytest.raises(ArgumentError, match=message):
        load(pictures, **options)


# Repeated augmentation --------------------------------------------------------------------------


def test_repeats_stand_side_by_side(pictures):
    """Each sample comes three times: place g of an epoch with repeats holds the sample at g

    3 of the epoch without.
    """
    plain = load(pictures, batch_size=N)
    orders = [batch["index"].tolist() for _ in range(2) for batch in plain]
    loader = load(pictures, batch_size=6, repeats=3, transforms=CROP)
    assert len(loader) == N // 6
    for group in range(2):
        places = []
        for part in range(3):
            loader.set_epoch(group * 3 + part)
            position = 0
            for batch in loader:
                for row, i in enumerate(batch["index"].tolist()):
                    wanted = crop_of(i, group * 3 + part, position, 0)
                    np.testing.assert_array_equal(batch["image"][row].transpose(1, 2, 0), wanted)
                    places.append(i)
                    position += 1
        assert places == [i for i in orders[group] for _ in range(3)]


def test_repeats_that_do_not_divide(pictures):
    loader = load(pictures, batch_size=5, repeats=7, views={"v": (2, CROP)}, num_workers=1)
    counts = np.zeros(N, int)
    for _ in range(7):
        for batch in contents(loader):
            np.add.at(counts, batch["index"][: 5], 1)
    assert (counts >= 7).all() and counts.sum() == 7 * N


def test_repeats_over_ranks_and_resume(pictures):
    whole = contents(load(pictures, batch_size=6, repeats=3, transforms=CROP))
    parts = [contents(load(pictures, batch_size=3, repeats=3, transforms=CROP, rank=rank, world_size=2)) for rank in range(2)]
    for batch, a, b in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(batch["index"], np.concatenate([a["index"], b["index"]]))
        np.testing.assert_array_equal(batch["image"], np.concatenate([a["image"], b["image"]]))
        assert len(set(a["index"].tolist())) == 1  # all repeats of a sample are in one rank's batch
    loader = load(pictures, batch_size=6, repeats=3, transforms=CROP)
    iterator = iter(loader)
    next(iterator)
    resumed = load(pictures, batch_size=6, repeats=3, transforms=CROP)
    resumed.load_state_dict(loader.state_dict())
    same(contents(resumed), whole[1:])
    with pytest.raises(ArgumentError, match="another loader"):
        load(pictures, batch_size=6).load_state_dict(loader.state_dict())


def test_repeats_with_weights_and_indices(pictures):
    weights = np.zeros(N)
    weights[[2, 5]] = 1
    loader = load(pictures, batch_size=6, repeats=2, weights=weights, transforms=CROP)
    for batch in contents(loader):
        assert set(batch["index"].tolist()) <= {2, 5}
        np.testing.assert_array_equal(batch["index"][::2], batch["index"][1::2])
    some = contents(load(pictures, batch_size=3, repeats=3, indices=[4, 8, 1], transforms=CROP))
    assert len(some) == 1 and len(set(some[0]["index"].tolist())) == 1


def test_shared_views_and_repeats(pictures, tmp_path, monkeypatch):
    """The host service makes the same views."""
    command = Path(sys.executable).with_name("penstock")
    if subprocess.run([command, "serve", "--help"], capture_output=True).returncode != 0:
        pytest.skip("this command has no serve")
    socket = tmp_path / "host.sock"
    monkeypatch.setenv("PENSTOCK_SOCKET", str(socket))
    server = subprocess.Popen([command, "serve"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        options = {"views": {"g": (2, GLOBAL), "l": (3, LOCAL)}, "repeats": 2, "cache": None}
        alone = contents(load(pictures, **options))
        loaders = [load(pictures, share="views", **options) for _ in range(2)]
        other = load(pictures, share="views", **{**options, "views": {"g": (4, LOCAL)}})  # another group, on one shelf
        iterators = [iter(loader) for loader in (*loaders, other)]
        got = [[], [], []]
        for _ in alone:
            for found, iterator in zip(got, iterators, strict=True):
                found.append({name: np.array(value) for name, value in next(iterator).items()})
        same(got[0], alone)
        same(got[1], alone)
        same(got[2], contents(load(pictures, **{**options, "views": {"g": (4, LOCAL)}})))
        for loader in loaders:
            assert loader.stats()["share"]["batches"] >= len(alone) - 1
            loader.close()
        other.close()
    finally:
        server.kill()
        server.wait()


def test_torch_dataset(pictures):
    from penstock.torch import TorchDataset

    ds = TorchDataset(pictures, views={"v": (2, CROP)}, seed=SEED)
    assert ds[4]["v"].shape == (2, 3, 20, 24)
    np.testing.assert_array_equal(ds[4]["v"][1].numpy().transpose(1, 2, 0), crop_of(4, 0, 0, 1))
