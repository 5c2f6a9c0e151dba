"""Caches at the training size: batches of images, masks, boxes and keypoints equal those without a cache, to the bit."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

PROGRAM = Path(sysconfig.get_path("scripts")) / "penstock"
N = 12
CHAINS = {
    "resize": [T.Resize(24), T.RandomCrop(20), T.RandomHorizontalFlip()],
    "resize, crop": [T.Resize(30), T.CenterCrop(24), T.ColorJitter(0.4, 0.4), T.RandomHorizontalFlip(),
                     T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    "two sides, pad": [T.Resize((28, 20), interpolation="bicubic"), T.Pad(3, fill=7), T.RandomCrop(18)],
    "crop": [T.CenterCrop((30, 26)), T.RandomResizedCrop(16), T.RandomGrayscale(0.5)],
    "as it stays": [T.Resize(24), T.CenterCrop(20)],
}  # fmt: skip


def sample(i: int, made_for: str | None) -> dict[str, object]:
    """Returns an image of about 40 x 56 pixels as JPEG, PNG or raw pixels, with its annotations. Some have an EXIF orientation."""
    height, width = 40 + i, 56 - i
    pixels, orientation = picture(i, height, width), (1, 6, 3, 1, 8, 5)[i % 6] if made_for else 1
    exif = PilImage.Exif()
    exif[0x0112] = orientation
    image: object = encoded(pixels, "JPEG", exif=exif, quality=90) if i % 3 else encoded(pixels, "PNG", exif=exif)
    if i == 9:
        image, orientation = pixels, 1
    if made_for == "upright" and orientation >= 5:
        height, width = width, height
    rng = np.random.default_rng(i)
    corners = rng.uniform(2, 18, (3, 2)).astype(np.float32)
    return {
        "image": image,
        "mask": rng.integers(0, 200, (height, width), dtype=np.uint8),
        "boxes": np.concatenate([corners, corners + rng.uniform(5, 19, (3, 2)).astype(np.float32)], axis=1),
        "points": np.concatenate([corners, np.ones((3, 1), np.float32)], axis=1),
    }


@pytest.fixture(scope="module", params=[None, "upright", "stored"])
def source(request, tmp_path_factory) -> ps.Dataset:
    path = tmp_path_factory.mktemp("data") / "data.pst"
    made_for = request.param
    schema = {"image": ps.Image(), "mask": ps.Mask(made_for=made_for), "boxes": ps.Boxes(made_for),
              "points": ps.Keypoints(made_for)}  # fmt: skip
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(sample(i, made_for))
    return ps.Dataset(path)


def make(source, **options) -> ps.Loader:
    if isinstance(source, ps.Dataset) and "fields" not in options:
        options["per_box"] = ["points"]
    return ps.Loader(source, **keywords(batch_size=4, shuffle=True, seed=3, num_workers=2, storage="threads", live=False,
                     **{"output": "numpy", "cache": None, **options}))  # fmt: skip


def epoch(loader: ps.Loader) -> list[bytes]:
    found = []
    for batch in loader:
        for name in ("image", "mask", "boxes", "points"):
            rows = batch[name] if isinstance(batch[name], list) else list(batch[name])
            for row in rows:
                kind = f"{name} {row.dtype} {tuple(row.shape)}".encode()
                if not isinstance(row, np.ndarray):  # a tensor; numpy has no bfloat16
                    row = (row.float() if row.is_floating_point() else row).numpy()
                found.append(kind + row.tobytes())
    return found


WAYS = {
    "float32": {},
    "float16, channels last": {"dtype": "float16", "layout": "channels_last"},
    "bfloat16": {"dtype": "bfloat16", "output": "torch"},
    "NHWC, gray": {"layout": "NHWC", "channels": 1},
    "RGBA, 16 bits": {"channels": 4, "bits": 16},
    "stored channels": {"channels": "stored", "dtype": "float32"},
    "not turned": {"ignore_orientation": True},
}


def test_batches_are_the_same(source):
    forms = itertools.cycle(["stored", "raw", "pli-fast", "pli", "pli-jpeg"])
    for (chain, transforms), (name, way) in itertools.product(CHAINS.items(), WAYS.items()):
        normalizes = any(isinstance(op, T.Normalize) for op in transforms)
        if normalizes and way.get("channels"):
            continue  # the image has three channels
        options = {"transforms": transforms, **way}
        if not normalizes and options.get("dtype") in (None, "float16", "bfloat16") and "bits" not in way and len(chain) % 2:
            options["dtype"] = "uint8"
        form = next(forms)
        with make(source, **options) as plain, make(
            source, cache="16MiB", cache_resolution="training", cache_form=form, **options
        ) as kept:
            for number in range(2):
                assert epoch(kept) == epoch(plain), (chain, name, form, number)
            use = kept.stats()["cache"]
            assert (use["form"], use["resolution"]) == (form, "training")
            assert use["hits"] == use["misses"] > 0, (chain, name)
            assert use["hits_training"] >= N, (chain, name)


def test_masks_are_kept_smaller_unless_they_are_turned(source):
    transforms = CHAINS["resize"]
    with make(source, cache="16MiB", cache_resolution="training", transforms=transforms, fields=["image", "mask"]) as loader:
        for _ in range(2):
            list(loader)
        use = loader.stats()["cache"]
        n_turned = sum(i % 6 not in (0, 3) and i != 9 for i in range(N))
        turned = n_turned if source.fields["mask"].made_for == "stored" else 0
        assert use["hits_training"] == 2 * N - turned


def test_host_and_saved_caches(source, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    monkeypatch.setenv("PENSTOCK_SERVE", str(PROGRAM))
    options = {"transforms": CHAINS["resize, crop"], "cache_resolution": "training", "cache_form": "raw"}
    try:
        with make(source, transforms=options["transforms"]) as plain, make(source, cache="host", **options) as hosted:
            first = epoch(plain)
            assert epoch(hosted) == first
            cache = ps.Cache.host()
            assert cache.save(tmp_path / "saved").items == 4 * N
            loader = pickle.loads(pickle.dumps(hosted))
            with loader:  # the second cache goes on where the first one stopped
                assert epoch(loader) == epoch(plain)
                assert loader.stats()["storage"]["reads"] == 0
                assert loader.stats()["cache"]["hits_training"] == N
            shown = subprocess.run([PROGRAM, "cache", "status"], capture_output=True, text=True, check=True)
            assert "(at the training size)" in shown.stdout
    finally:
        subprocess.run([PROGRAM, "serve", "stop", "--socket", tmp_path / "host.sock"], capture_output=True, check=False)
    own = ps.Cache("16MiB")
    own.load(tmp_path / "saved")
    with make(source, cache=own, **options) as again:
        assert epoch(again) == first
        assert again.stats()["storage"]["reads"] == 0


def test_resume_and_share(source):
    options = {"transforms": CHAINS["resize"], "cache": "16MiB", "cache_resolution": "training"}
    with make(source, transforms=CHAINS["resize"]) as plain, make(source, **options) as kept:
        wanted = [epoch(plain), epoch(plain)]
        assert epoch(kept) == wanted[0]
        iterator = iter(kept)
        next(iterator)
        state = kept.state_dict()
        del iterator
        kept.load_state_dict(state)
        rest = epoch(kept)
        assert rest == wanted[1][-len(rest) :] and len(rest) == len(wanted[1]) * 2 // 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"transforms": [T.RandomResizedCrop(20)]}, r"operation 0 \(RandomResizedCrop\) is in the way"),
        ({"transforms": [T.Pad(2), T.RandomCrop(20)]}, r"operation 1 \(RandomCrop\) is in the way"),
        ({"transforms": []}, "no Resize, CenterCrop or Letterbox"),
        ({"transforms": CHAINS["resize"], "scaled_decode": True}, "scaled_decode"),
        ({"transforms": CHAINS["resize"], "cache": None}, "no cache"),
        ({"transforms": CHAINS["resize"], "fleet": "127.0.0.1:1"}, "fleet"),
        ({"transforms": CHAINS["resize"], "cache_resolution": "small"}, "resolution is one of full, training"),
    ],
)
def test_refusals(packed, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        make(packed, **{"cache": "16MiB", "cache_resolution": "training", **options})


def test_a_plan_sets_it(packed, tmp_path):
    plan = {"kind": "penstock plan", "version": 1,
            "loader": {"cache": 16 << 20, "cache_resolution": "training", "cache_form": "raw"}}
    with ps.Loader(packed, transforms=CHAINS["resize"], plan=plan, output="numpy", num_workers=0) as loader:
        assert loader.stats()["cache"]["resolution"] == "training"
    with pytest.raises(ps.errors.ArgumentError, match="loader.cache_resolution is str"):
        ps.Loader(packed, plan={**plan, "loader": {"cache_resolution": 3}})
    with ps.Loader(packed, plan=plan, cache=None, output="numpy", num_workers=0) as loader:
        assert loader.stats()["cache"]["resolution"] == ""
