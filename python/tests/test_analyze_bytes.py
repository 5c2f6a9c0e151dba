"""The bytes of each form in a report: from the survey of sizes and pixels, from probed images, and from the parts that crops
read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import picture
from flat import keywords
from penstock import transforms as T
from penstock.stalls.measure import crops, probe, survey, whole
from penstock.stalls.measure.loader import LoaderSubject

CROP = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]


def made(nbytes: np.ndarray, raw: np.ndarray, weights: np.ndarray | None = None) -> survey.Survey:
    """Makes a survey from rows, one for each image."""
    n = len(nbytes)
    share = np.ones(n) if weights is None else weights
    mean = float((share * nbytes).sum() / share.sum())
    ones, widths = np.ones(n, np.int64), (raw / 3).astype(np.int64)
    return survey.Survey(round(share.sum()), mean, list(range(n)), share, nbytes.astype(float), ones, widths, raw.astype(float))


def two_kinds(n: int = 200) -> tuple[survey.Survey, np.ndarray]:
    """Half of the images are small, both as files and in the form; the other half are large. Their pixel counts vary equally."""
    random = np.random.default_rng(0)
    raw = np.round(random.uniform(2e5, 6e5, n) / 3) * 3
    smooth = np.arange(n) % 2 == 0
    return made(raw * np.where(smooth, 0.05, 0.2), raw), raw * np.where(smooth, 0.2, 0.6)


def test_strata_are_weighed_by_their_share() -> None:
    found, truth = two_kinds()
    labels = survey.strata(found)
    assert len(np.unique(labels)) == 8
    shares = np.bincount(labels, found.raw) / found.raw.sum()
    assert shares == pytest.approx(1 / 8, rel=0.25)
    sizes = survey.Sizes(found, labels, found.raw)
    # Three of the four probed images are smooth, so their plain mean would be wrong.
    smooth, rough = np.flatnonzero(truth < 0.3 * found.raw), np.flatnonzero(truth > 0.3 * found.raw)
    random = np.random.default_rng(4)
    for place in [*random.permutation(smooth)[:48], *random.permutation(rough)[:16]]:
        sizes.add(int(place), truth[place])
    assert sizes.mean == pytest.approx(truth.mean(), rel=1e-6)
    assert sizes.each() == pytest.approx(truth, rel=1e-6) and sizes.error == pytest.approx(0, abs=1e-6)


def test_the_error_falls_and_is_nothing_when_all_are_probed() -> None:
    found, truth = two_kinds()
    noisy = truth * np.random.default_rng(1).uniform(0.7, 1.3, len(truth))
    sizes = survey.Sizes(found, survey.strata(found), found.raw)
    errors = []
    for place in np.random.default_rng(2).permutation(len(truth)):
        sizes.add(int(place), noisy[place])
        if len(sizes.probed) in (20, 80, 160):
            errors.append(sizes.error)
            assert abs(sizes.mean / noisy.mean() - 1) < 3 * sizes.error
    assert errors[0] > errors[1] > errors[2] > 0
    assert sizes.error == pytest.approx(0, abs=1e-9) and sizes.mean == pytest.approx(noisy.mean()) and sizes.wanted() is None


def test_more_images_are_wanted_where_ratios_vary() -> None:
    found, truth = two_kinds()
    labels = survey.strata(found)
    varied = labels == labels[np.argmax(truth)]
    sizes = survey.Sizes(found, labels, found.raw)
    random = np.random.default_rng(3)
    for place in random.permutation(len(truth))[:100]:
        sizes.add(int(place), truth[place] * (random.uniform(0.5, 1.5) if varied[place] else 1.0))
    assert sizes.wanted() == labels[np.argmax(truth)]


def test_weights_stand_for_images_whose_pixels_are_unknown() -> None:
    raw = np.array([3e5, 3e5, 9e5, 9e5])
    found = made(raw / 10, raw, np.array([3.0, 3.0, 1.0, 1.0]))
    assert found.mean(raw) == pytest.approx(4.5e5) and found.count == 8
    assert found.spread(4)[0] == 0 and found.spread(1) == [1]  # six of the eight images are small
    sizes = survey.Sizes(found, survey.strata(found), found.raw)
    for place in range(4):
        sizes.add(place, raw[place] / 2)
    assert sizes.mean == pytest.approx(2.25e5)


def test_times_follow_a_line_in_bytes_and_pixels() -> None:
    random = np.random.default_rng(0)
    nbytes, raw = random.uniform(1e4, 1e5, 500), random.uniform(1e5, 1e6, 500)
    times = 1e-4 + 2e-9 * nbytes + 3e-9 * raw
    probed = np.argsort(raw)[::25]  # images of all sizes, but twice as many of the large sizes
    probed = np.concatenate([probed, np.argsort(raw)[400::5]])
    more = survey.times_as_much(times[probed], [nbytes[probed], raw[probed]], [nbytes, raw], np.ones(500))
    assert more * times[probed].mean() == pytest.approx(times.mean(), rel=1e-6) and more < 0.95
    assert survey.line(times, [nbytes, raw]) == pytest.approx([1e-4, 2e-9, 3e-9])
    falling = survey.line(2e-3 - 1e-9 * raw, [raw])  # no time becomes less for larger images
    assert falling[1] == 0 and falling[0] == pytest.approx((2e-3 - 1e-9 * raw).mean())
    assert survey.times_as_much([1e-3] * 4, [np.ones(4)], [np.ones(9)], np.ones(9)) == pytest.approx(1)


def test_chains_whose_regions_are_known() -> None:
    for chain in (CROP, [T.RandomHorizontalFlip(), *CROP], None, [], [T.Resize(32)], [T.Resize(32), T.CenterCrop(24)],
                  [T.RandomCrop(24), T.Resize(9)]):  # fmt: skip
        assert crops.Crops(chain).known
    for chain in ([T.RandomCrop(24, padding=4)], [*CROP, T.CenterCrop(8)],
                  [T.RandomIoUCrop()], {"image": CROP}):  # fmt: skip
        assert not crops.Crops(chain).known


def test_regions() -> None:
    random = np.random.default_rng(0)
    drawn = np.array([crops.Crops(CROP).draw(400, 500, random) for _ in range(2000)])
    y, x, height, width = drawn.T
    assert (y >= 0).all() and (x >= 0).all() and (y + height <= 400).all() and (x + width <= 500).all()
    # The area of a crop is uniform from 0.08 to 1, but large areas often do not fit in their ratio and are drawn again.
    assert (height * width / 2e5).mean() == pytest.approx(0.45, abs=0.02)
    assert crops.Crops([T.CenterCrop((100, 200))]).draw(400, 500, random) == (150, 150, 100, 200)
    assert crops.Crops(None).draw(400, 500, random) == (0, 0, 400, 500)
    y, x, height, width = crops.Crops([T.Resize(100), T.CenterCrop(50)]).draw(400, 800, random)
    assert abs(y - 100) <= 4 and abs(x - 300) <= 4 and abs(height - 200) <= 8 and abs(width - 200) <= 8


def test_the_rules_of_reading_parts() -> None:
    item = crops.Stored(1 << 20, 640, 640, 64, 1000, np.full((10, 10), 10475))
    rules = crops.Rules()
    assert rules.read(item, (0, 0, 640, 640), 0) == (1 << 20, 1)
    # The crop reads the head of the PLI and ten rows of one unit below it. They are too far apart to be joined; the first row lies
    # in the head's block.
    nbytes, reads = rules.read(item, (0, 576, 640, 64), 0)
    head = 4096
    assert nbytes == head + 10 * 10475 and reads == 11
    assert rules.read(item, (0, 576, 640, 64), 0)[0] < crops.Rules(4096).read(item, (0, 576, 640, 64), 0)[0]
    assert crops.Rules(gap=1 << 20).read(item, (0, 576, 640, 64), 0) == (1 << 20, 1)  # a request costs more than it saves
    assert rules.read(crops.Stored.even(60000, 640, 640, 64), (0, 0, 64, 64), 0) == (60000, 1)
    by_pages = {"order": "pages", "page_cache": "keep", "num_workers": None, "throttle": (2e8, 1e-3)}
    assert crops.gap_of(by_pages) == pytest.approx(2e5) and crops.gap_of({**by_pages, "throttle": (2e8, 0)}) == 4096
    for other in ({"throttle": None}, {"order": None}, {"page_cache": "direct"}, {"num_workers": 0}):
        assert crops.gap_of({**by_pages, **other}) == 0


def test_units_of_a_file() -> None:
    data = ps.pli.encode(picture(1, 200, 300), "small")
    info = ps.pli.info(data)
    stored = crops.Stored.of(data, info)
    assert stored.units.shape == (4, 5) and stored.head_nbytes == info["head_nbytes"]
    assert stored.head_nbytes + stored.units.sum() == len(data)
    assert stored.evened().units.sum() + stored.evened().head_nbytes == pytest.approx(len(data))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 JPEGs of 60 x 40 to 640 x 480, some with much noise."""
    folder = tmp_path_factory.mktemp("bytes") / "images"
    folder.mkdir()
    random = np.random.default_rng(5)
    for i in range(48):
        height, width = (60, 40) if i == 0 else (int(random.integers(200, 480)), int(random.integers(200, 640)))
        pixels = picture(i, height, width).astype(int) + random.integers(-1, 2, (height, width, 3)) * (i % 4) * 10
        PilImage.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{i:02d}.jpg", quality=85)
    return folder


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey looks at further images until it knows enough, however long that takes."""
    look = whole.Whole.look_at_more
    monkeypatch.setattr(whole.Whole, "look_at_more", lambda self, stored_as, _, threads: look(self, stored_as, 600.0, threads))


def costs_of(
    source: Path, seconds: float, forms: tuple[str, ...], n: int = 32, **reading: Any
) -> tuple[probe.Costs, survey.Sample]:
    loader = ps.Loader(source, 16, **keywords(shuffle=True, num_workers=2, transforms=CROP, **reading))
    with LoaderSubject(loader) as subject:
        numbers, sample, stored = subject.images(n, 64 << 20)
        assert len(numbers) == len(sample) == len(sample.places)
        options = {**subject.given, "image_field": subject.image, "boxes": None}
        return probe.costs(sample, stored, options, 16, forms, ("cpu",), seconds), sample


def packed_as(source: Path, form: str) -> Path:
    path = source.with_name(f"{source.name}-{form}")
    if not path.exists():
        more = {"tier": form[4:], "of_lossy": True} if form.startswith("pli-") and form != "pli-jpeg" else {}
        ps.pack(source, path, forms=["pli" if more else form], **more)
    return path


def mean_item(path: Path) -> float:
    with ps.Dataset(path) as dataset:
        return sum(dataset.item(i, "image")["nbytes"] for i in range(len(dataset))) / len(dataset)


def read_for_a_sample(path: Path, epochs: int, **reading: Any) -> float:
    options = keywords(shuffle=True, num_workers=2, fields=["image"], cache=None, transforms=CROP, **reading)
    with ps.Loader(path, 16, **options) as loader:
        for _ in range(epochs):
            for _ in loader:
                pass
        stats = loader.stats()
    return stats["storage"]["nbytes_read"] / stats["samples"]["delivered"]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("form", ["raw", "pli-small", "pli-jpeg"])
def test_bytes_are_those_of_a_packed_set(images: Path, form: str) -> None:
    found, sample = costs_of(images, 1.0, (form,))
    path = packed_as(images, form)
    costs = found.forms[form]["cpu"]
    within = 1e-9 if form == "raw" else 0.02
    assert costs["item_nbytes"] == pytest.approx(mean_item(path), rel=within)
    assert costs["nbytes_band"] < 0.05 and costs["pixels"] == pytest.approx(sample.survey.pixels)
    assert costs["nbytes"] == pytest.approx(read_for_a_sample(path, 1 if form == "raw" else 40), rel=within)
    assert (costs["nbytes"] < costs["item_nbytes"]) == (form != "raw")
    own = found.forms["jpeg"]["cpu"]
    assert own["nbytes"] == own["item_nbytes"] == pytest.approx(mean_item(images))


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("order", [None, "pages"])
def test_throttled_storage_is_read_whole_by_pages_alone(images: Path, order: str | None) -> None:
    """Reading 1 MiB takes as long as a request, so storage is read page by page, and gaps are read over rather than making a
    request. No image is larger.
    """
    reading: dict[str, Any] = {"throttle": (1e10, 1e-4), "order": order}
    found, _ = costs_of(images, 1.0, ("pli-small",), **reading)
    costs = found.forms["pli-small"]["cpu"]
    path = packed_as(images, "pli-small")
    assert costs["nbytes"] == pytest.approx(read_for_a_sample(path, 40 if order is None else 1, **reading), rel=0.02)
    assert (costs["nbytes"] == costs["item_nbytes"]) == (order == "pages")


def test_bytes_from_a_packed_set(images: Path) -> None:
    found, _ = costs_of(packed_as(images, "pli-jpeg"), 1.0, ("raw",))
    raw, own = found.forms["raw"]["cpu"], found.forms["pli-jpeg"]["cpu"]
    assert raw["item_nbytes"] == pytest.approx(mean_item(packed_as(images, "raw")), rel=1e-9)
    assert own["item_nbytes"] == pytest.approx(mean_item(packed_as(images, "pli-jpeg")), rel=1e-9)
    assert own["nbytes"] <= own["item_nbytes"]


def test_few_probed_images_stand_for_all(images: Path) -> None:
    found, _ = costs_of(images, 1.0, ("raw", "pli-small"), n=8)
    small = found.forms["pli-small"]["cpu"]
    assert found.forms["raw"]["cpu"]["item_nbytes"] == pytest.approx(mean_item(packed_as(images, "raw")), rel=1e-9)
    wrong = small["item_nbytes"] / mean_item(packed_as(images, "pli-small")) - 1
    assert abs(wrong) < max(1.5 * small["nbytes_band"], 0.02) < 0.5


def test_images_that_are_all_there_is(images: Path) -> None:
    data = [path.read_bytes() for path in sorted(images.iterdir())[:6]]
    found = probe.costs(data, "jpeg", {"transforms": CROP}, 4, ("raw",), ("cpu",), 0.2)
    raw = [ps.decode(one).nbytes for one in data]
    assert found.forms["raw"]["cpu"]["item_nbytes"] == pytest.approx(np.mean(raw))
    assert found.forms["jpeg"]["cpu"]["item_nbytes"] == pytest.approx(np.mean([len(one) for one in data]))
    assert found.notes == [] and found.forms["raw"]["cpu"]["nbytes_band"] == pytest.approx(0, abs=1e-6)


def test_headers_are_read_of_some_files_of_each_size(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_MOST_HEADERS", 24)
    with ps.Dataset(images) as dataset:
        look = survey.Look(dataset, "image", list(range(len(dataset))))
        found = look.survey(look.main)
        whole_set = [dataset.item(i, "image")["nbytes"] for i in range(len(dataset))]
    assert len(found.numbers) == 24 and found.count == 48 and found.weights.sum() == pytest.approx(48)
    assert found.mean_nbytes == pytest.approx(np.mean(whole_set))
    assert found.mean(found.nbytes) == pytest.approx(found.mean_nbytes, rel=0.1)
    assert 0 < found.error(found.raw) < 0.2
    sample = survey.Sample([], found, [], dataset, "image")
    assert "24 of 48" in whole.Whole(sample, "jpeg", CROP, {}).notes()[0]
