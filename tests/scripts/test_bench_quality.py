"""bench/quality: traces and tiles, comparison of bytes, what it refuses to train on, and its conclusions. Figures are invented."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from bench_modules import load


@pytest.fixture(scope="module")
def quality():
    return load("quality", "quality")


def test_traces_have_their_strength_and_direction(quality):
    made = {kind: quality.trace(kind, np.random.default_rng(1), 2.0) for kind in quality.TRACES}
    assert not made["none"].any()
    for kind in ("rows", "columns", "noise", "pattern"):
        assert made[kind].shape == (quality.TILE, quality.TILE, 1)
        assert abs(made[kind].std() - 2) < 0.5, kind
    assert not np.ptp(made["rows"], axis=1).any() and not np.ptp(made["columns"], axis=0).any()
    assert np.array_equal(made["pattern"][::2, ::2], np.broadcast_to(made["pattern"][0, 0], made["pattern"][::2, ::2].shape))


def test_tiles_do_not_overlap_and_are_the_same_again(quality, tmp_path):
    paths = []
    for i in range(6):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(np.full((200, 1000, 3), 40 * i, np.uint8)).save(paths[-1])
    places = quality.corners(2000, 3000)
    assert len(places) == len(set(places)) == quality.MOST_TILES
    assert all(y % quality.TILE == 0 and x % quality.TILE == 0 for y, x in places)
    train, test = quality.split(paths)
    assert not set(train) & set(test) and sorted(train + test) == paths
    once, again = quality.tiles_of(train, 2.0), quality.tiles_of(train, 2.0)
    assert all(np.array_equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(once, again, strict=True))
    assert {kind for _, kind in once} == set(range(len(quality.TRACES)))


def test_webp_takes_no_more_bytes_than_asked_for(quality):
    random = np.random.default_rng(1)
    tiles = [random.integers(0, 256, (48, 48, 3), np.uint8) for _ in range(3)]
    asked = sum(len(quality.coded(tile, "webp", 60)) for tile in tiles)
    found = quality.matching_quality(tiles, asked)
    assert sum(len(quality.coded(tile, "webp", found)) for tile in tiles) <= asked
    assert sum(len(quality.coded(tile, "webp", found + 1)) for tile in tiles) > asked


def hashes_of(quality, **other):
    found = {form: ("order", form) for form in quality.FORMS}
    found.update({form: ("order", twin) for form, twin in quality.TWINS.items()})
    return {**found, **other}


def test_only_equal_work_is_compared(quality):
    quality.check_equal(hashes_of(quality))
    for wrong in ({"webp": ("another order", "webp")}, {"pli": ("order", "pli")}, {"pli-jpeg": ("order", "webp")},
                  {"webp": ("order", "png")}):
        with pytest.raises(SystemExit):
            quality.check_equal(hashes_of(quality, **wrong))


def forms_of(quality, **accuracies):
    return {form: {"nbytes": 1000, "most": 0, "psnr": None, "accuracy": accuracies.get(form.replace("-", "_"), [0.9, 0.92, 0.91]),
                   "accuracy_as_made": [0.9, 0.91, 0.92], "loss": [0.1], "steps": 10} for form in quality.FORMS}


def test_conclusion_table_and_picture(quality):
    forms = forms_of(quality, jpeg_30=[0.3, 0.31, 0.32], pli_4=[0.5, 0.6, 0.7])
    lines = quality.conclude(forms)
    assert "sees losses: jpeg-30 lies" in lines[0] and lines[1].endswith("range: pli-4.")
    assert forms["pli"]["meets_png"] and not forms["jpeg-30"]["meets_png"]
    result = {"machine": {"cpu": "x", "date": "2000-01-02", "commit": "c"}, "n_train": 10, "n_test": 5, "seeds": [1, 2, 3],
              "strength": 2.0, "forms": forms, "conclusion": lines}
    assert "| pli-4 | - | 100 |" in quality.table(result)
    names = ["".join(node.itertext()) for node in ET.fromstring(quality.draw(result)).iter() if node.tag.endswith("text")]
    assert "webp-low" in names and "60.0%" in names


def test_a_task_that_sees_nothing_says_so(quality):
    assert "does NOT see" in quality.conclude(forms_of(quality))[0]


def test_forms_with_other_steps_are_no_comparison(quality):
    forms = forms_of(quality)
    forms["webp"]["steps"] = 9
    with pytest.raises(SystemExit):
        quality.conclude(forms)
