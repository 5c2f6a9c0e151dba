"""Which samples a plan's cache admits: plans with known classes, over images of two forms."""

from __future__ import annotations

import json
import pickle
import subprocess

import numpy as np
import pytest

import penstock as ps
from conftest import PROGRAM
from flat import keywords

PIL = pytest.importorskip("PIL.Image")

N = 48


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of 24 PNGs (odd numbers) and 24 JPEGs of random pixels, from 30 x 30 to 77 x 77."""
    folder = tmp_path_factory.mktemp("plan_cache") / "images"
    folder.mkdir()
    random = np.random.default_rng(4)
    for i in range(N):
        side = 30 + (i * 29) % N
        form = "png" if i % 2 else "jpg"
        PIL.fromarray(random.integers(0, 256, (side, side, 3), np.uint8)).save(folder / f"{i:02d}.{form}")
    return folder


@pytest.fixture(scope="module")
def packed(images):
    path = images.with_name("images.pst")
    ps.pack(images, path, forms=["original"])
    return path


def way(share: float, form: str, cache: str = "", **more) -> dict:
    return {"share": share, "store": [{"form": form}], "cache": cache, "decode": "cpu", "stored_nbytes": 5000.0, **more}


def plan_of(png: list[dict], jpeg: list[dict], cache_form: str = "stored", nbytes: int = 1 << 22, cache=None) -> dict:
    ways = {"png": png, "jpeg": jpeg}
    classes = [{"form": form, "pixels": [0, None], "samples": N // 2, "ways": ways[form]} for form in ways]
    loader = {"cache": cache or nbytes, "cache_nbytes": nbytes, "cache_form": cache_form}
    return {"kind": "penstock plan", "version": 1, "field": "image", "classes": classes, "loader": loader}


BY_READS = {"cached_nbytes": 5000.0, "saves": {"sample": 1e-3, "nbyte": 0.0, "pixel": 0.0}}  # small images save more per byte
TWO_SHARES = plan_of([way(0.25, "png", "encoded", **BY_READS), way(0.75, "png")], [way(1.0, "jpeg", "encoded", **BY_READS)])


def make(source, **options) -> ps.Loader:
    return ps.Loader(source, 4, **keywords(seed=2, output="numpy", transforms=[ps.transforms.RandomResizedCrop(24)], **options))


def epoch(loader: ps.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def misses_of(source, cache: ps.Cache, numbers, **options) -> int:
    """Returns the number of these samples that a cache does not have."""
    with make(source, cache=cache, indices=numbers, cache_plan=np.zeros(N, bool), **options) as loader:
        epoch(loader)
        return loader.stats()["cache"]["misses"]


@pytest.mark.parametrize("kind", ["images", "packed"])
def test_classes_of_two_shares(kind, request) -> None:
    source = request.getfixturevalue(kind)
    dataset = ps.Dataset(source)
    admit = ps.Plan(TWO_SHARES).cache_plan(dataset).admit
    nbytes = np.array([dataset.item(i, "image")["nbytes"] for i in range(N)])
    png = np.arange(N) % 2 == 1
    assert admit[~png].all()
    # a quarter of the bytes, to within one image; the smallest images are taken
    assert 0 <= nbytes[png].sum() / 4 - nbytes[png & admit].sum() < nbytes[png & ~admit].min()
    assert nbytes[png & admit].max() <= nbytes[png & ~admit].min()
    cache = ps.Cache("4MiB")
    with make(source, shuffle=True, plan=TWO_SHARES, cache=cache) as loader, make(source, shuffle=True, cache=None) as plain:
        for _ in range(3):
            for got, wanted in zip(epoch(loader), epoch(plain), strict=True):
                np.testing.assert_array_equal(got, wanted)
        assert loader.stats()["cache"]["hits"] == 2 * admit.sum()
    assert cache.stats()["items"] == admit.sum()
    assert misses_of(source, cache, np.flatnonzero(admit)) == 0
    assert misses_of(source, cache, np.flatnonzero(~admit)) == (~admit).sum()


def test_the_cache_of_the_plan(packed) -> None:
    admit = ps.Plan(TWO_SHARES).cache_plan(ps.Dataset(packed)).admit
    with make(packed, plan=TWO_SHARES) as loader:
        epoch(loader), epoch(loader)
        again = pickle.loads(pickle.dumps(loader))
        assert loader.stats()["cache"]["hits"] == admit.sum()
    with again:
        epoch(again), epoch(again)
        assert again.stats()["cache"]["hits"] == admit.sum()
    with make(packed, plan=TWO_SHARES, cache=None) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["hits"] == 0
    with make(packed, plan=TWO_SHARES, cache_plan=~admit) as loader:  # the user's own arguments take precedence
        epoch(loader), epoch(loader)
        assert loader.stats()["cache"]["hits"] == (~admit).sum()


def test_an_analysis_has_caches_of_its_own(packed) -> None:
    with make(packed, plan=TWO_SHARES) as loader:
        report = ps.analyze(loader, budget="1s", forms=())
    assert report.data["subject"]["samples"] == N


def test_the_host_cache(packed, tmp_path, monkeypatch) -> None:
    socket = tmp_path / "host.sock"
    monkeypatch.setenv("PENSTOCK_SOCKET", str(socket))
    monkeypatch.setenv("PENSTOCK_SERVE", str(PROGRAM))
    admit = ps.Plan(TWO_SHARES).cache_plan(ps.Dataset(packed)).admit
    try:
        with make(packed, plan={**TWO_SHARES, "loader": {**TWO_SHARES["loader"], "cache": "host"}}) as loader:
            epoch(loader), epoch(loader)
            assert ps.Cache.host(start=False).stats()["items"] == admit.sum()
            assert loader.stats()["cache"]["hits"] == admit.sum()
    finally:
        subprocess.run([PROGRAM, "serve", "stop", "--socket", socket], capture_output=True, check=False)


def test_forms_that_were_written(images, tmp_path) -> None:
    """After packing by a plan, samples are found by their new form; raw pixels are cached, PLI is not."""
    plan = plan_of([way(0.5, "raw", "encoded"), way(0.5, "pli")], [way(1.0, "jpeg")])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    ps.pack(images, tmp_path / "d.pst", plan=path)
    dataset = ps.Dataset(tmp_path / "d.pst")
    forms = [dataset.item(i, "image")["form"] for i in range(N)]
    assert forms.count("raw") == N // 4 and forms.count("pli") == N // 4
    admit = ps.Plan.load(path).cache_plan(dataset).admit
    assert [bool(a) for a in admit] == [form == "raw" for form in forms]


def test_pixels_that_are_cached(packed) -> None:
    """Decoded pixels are cached: bytes are those of the pixels. The samples that save most per byte have the most stored bytes per
    pixel.
    """
    saves = {"sample": 0.0, "nbyte": 1e-9, "pixel": 0.0}
    cached = way(0.5, "jpeg", "raw", cached_nbytes=9000.0, saves=saves)
    plan = plan_of([way(1.0, "png")], [cached, way(0.5, "jpeg")], "raw")
    dataset = ps.Dataset(packed)
    found = ps.Plan(plan).cache_plan(dataset)
    items = [dataset.item(i, "image") for i in range(0, N, 2)]
    pixels = np.array([3 * item["height"] * item["width"] for item in items])
    per_byte = np.array([item["nbytes"] for item in items]) / pixels
    admit = found.admit[::2]
    assert not found.admit[1::2].any() and 0 <= pixels.sum() / 2 - pixels[admit].sum() < pixels.max()
    order = np.argsort(-per_byte)
    assert admit[order[:6]].all() and not admit[order[-3:]].any()
    with make(packed, plan=plan) as loader:
        epoch(loader), epoch(loader)
        assert loader.stats()["cache"]["hits"] == found.samples


def test_room_and_other_data(packed, images, tmp_path) -> None:
    dataset = ps.Dataset(packed)
    small = ps.Plan({**TWO_SHARES, "loader": {**TWO_SHARES["loader"], "cache_nbytes": 20_000}}).cache_plan(dataset)
    assert 0 < small.samples < 24 and small.nbytes <= 20_000 - 8 * N
    part = tmp_path / "part"
    part.mkdir()
    for file in sorted(images.iterdir())[:10]:
        (part / file.name).symlink_to(file)
    few = ps.Plan(TWO_SHARES).cache_plan(ps.Dataset(part))  # other samples: chosen anew
    assert len(few.admit) == 10 and few.admit[::2].all() and 1 <= few.admit[1::2].sum() <= 2
    everything = plan_of([way(1.0, "png", "encoded")], [way(1.0, "jpeg", "encoded")])
    assert ps.Plan(everything).cache_plan(dataset) is None
