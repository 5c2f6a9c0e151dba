"""Images that a plan stores at the training size: planned, written, and loaded with the same pixels as whole images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, needs_highs, picture
from penstock import transforms as T
from penstock.planning import classes, ways

SIDE, N = 40, 24
RAW, PLI = {"form": "raw", "resize": SIDE}, {"form": "pli", "tier": "small", "resize": SIDE}


def chain(side: int = SIDE) -> list[Any]:
    return [T.Resize(side), T.RandomCrop(32), T.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "photos"
    (path / "a").mkdir(parents=True)
    for i in range(N):  # the last two images are not larger than SIDE
        height, width = (300 + 3 * i, 420 - i) if i < N - 2 else (SIDE, 50 + i)
        (path / "a" / f"{i:02d}.jpg").write_bytes(encoded(picture(i, height, width), "JPEG"))
    return path


def made_plan(*ways_of: tuple[float, list[dict[str, Any]]], **loader: Any) -> dict[str, Any]:
    made = [{"share": share, "store": store} for share, store in ways_of]
    section = {"form": "jpeg", "pixels": [0, None], "samples": N, "ways": made}
    return {"kind": "penstock plan", "version": 1, "field": "image", "classes": [section], "loader": loader,
            "data": {"samples": N}}  # fmt: skip


def written(plan: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps(plan))
    return path


def batches(data: Path, **options: Any) -> list[Any]:
    given = {"transforms": chain(), "shuffle": True, "seed": 3, "output": "numpy", "cache": None, **options}
    with ps.Loader(data, 8, **given) as loader:
        return [batch["image"].copy() for batch in loader]


MIX = ((0.5, [{"form": "jpeg"}]), (0.25, [RAW]), (0.25, [PLI, RAW]))


def test_a_mix_of_sizes_has_the_same_batches(folder: Path, tmp_path: Path) -> None:
    plan = written(made_plan(*MIX, num_workers=1, prefetch=3), tmp_path / "plan.json")
    report = ps.pack(folder, tmp_path / "mixed.pst", plan=plan)
    assert 10 <= report.n_resized <= 12
    with ps.Dataset(tmp_path / "mixed.pst") as dataset:
        items = [dataset.item(i, "image") for i in range(N)]
    assert {item["form"] for item in items} == {"jpeg", "raw", "pli"}
    assert all(min(item["height"], item["width"]) == SIDE for item in items if item["form"] != "jpeg")
    for wanted, found in zip(batches(folder), batches(tmp_path / "mixed.pst", plan=plan), strict=True):
        np.testing.assert_array_equal(wanted, found)
    ps.pack(tmp_path / "mixed.pst", tmp_path / "again.pst")  # small images stay as they are, the others are stored whole
    np.testing.assert_array_equal(batches(folder)[0], batches(tmp_path / "again.pst")[0])


def test_other_transforms_are_refused(folder: Path, tmp_path: Path) -> None:
    plan = made_plan(*MIX)
    for other in ([T.Resize(64), T.RandomCrop(32)], [T.RandomResizedCrop(32)], [T.Resize((SIDE, SIDE))],
                  [T.Resize(SIDE, antialias=False), T.RandomCrop(32)], [T.Resize(SIDE, "bicubic"), T.RandomCrop(32)]):  # fmt: skip
        with pytest.raises(ps.errors.ArgumentError, match=r"stores images after Resize\(40\)"):
            ps.Loader(folder, 8, transforms=other, plan=plan)


def test_what_is_not_possible(folder: Path, tmp_path: Path) -> None:
    plan = written(made_plan((1.0, [RAW])), tmp_path / "plan.json")
    ps.pack(folder, tmp_path / "whole.pst")
    with pytest.raises(ps.errors.ArgumentError, match="in place"):
        ps.repack(tmp_path / "whole.pst", plan=plan)
    with ps.Writer(tmp_path / "two.pst", {"image": ps.Image(), "other": ps.Image()}) as writer:
        writer.write({"image": picture(1, 90, 90), "other": picture(2, 90, 90)}, name="0")
    with pytest.raises(ps.errors.ArgumentError, match="several images"):
        ps.pack(tmp_path / "two.pst", tmp_path / "none.pst", plan=plan)
    for store, words in (
        ([{"form": "jpeg", "resize": SIDE}], "not made smaller"),
        ([RAW, {"form": "pli", "tier": "small"}], 'the same "resize"'),
        ([{"form": "raw", "resize": 0}], "1 to 65535"),
        ([{"form": "raw", "resize": "40"}], "1 to 65535"),
    ):
        wrong = written(made_plan((1.0, store)), tmp_path / "wrong.json")
        with pytest.raises(ps.errors.PenstockError, match=words):
            ps.pack(folder, tmp_path / "none.pst", plan=wrong)
        assert not (tmp_path / "none.pst").exists()


def test_small_samples_are_cached_by_their_form(folder: Path, tmp_path: Path) -> None:
    plan = made_plan((0.5, [{"form": "jpeg"}]), (0.5, [RAW]), cache=1 << 20, cache_nbytes=1 << 20)
    plan["classes"][0]["pixels"] = [5000, None]  # small samples have fewer bytes
    plan["classes"][0]["ways"][1].update(cache="encoded", cached_nbytes=5e3, stored_nbytes=5e3, saves={"sample": 1.0})
    ps.pack(folder, tmp_path / "mixed.pst", plan=written(plan, tmp_path / "plan.json"))
    with ps.Dataset(tmp_path / "mixed.pst") as dataset:
        admitted = ps.Plan(plan).cache_plan(dataset).admit
        forms = np.array([dataset.item(i, "image")["form"] for i in range(N)])
    assert admitted[forms == "raw"].all() and not admitted[(forms == "jpeg") & (np.arange(N) < N - 2)].any()


def test_costs_at_the_training_size() -> None:
    part = classes.Class("jpeg", 0, None, 100, 160_000.0, small=40_000.0, small_sd=4_000.0)
    raw = {"cpu_seconds": 3e-4, "hit_cpu_seconds": 1e-4, "item_nbytes": 4.8e5, "nbytes": 4.8e5}
    part.forms = {"jpeg": {"cpu": {"cpu_seconds": 1e-3, "item_nbytes": 5e4, "nbytes": 5e4}}, "raw": {"cpu": raw}}
    part.kept = {"raw": {"hit_cpu_seconds": 9e-5, "item_nbytes": 1.18e5}, "pli": {"hit_cpu_seconds": 2e-4, "item_nbytes": 0.59e5}}
    classes.add_training_size([part], 200)
    assert set(part.forms) == {"jpeg", "raw", "raw@200"}  # PLI was not probed
    small = part.forms["raw@200"]["cpu"]
    assert small["nbytes"] == 120_000 and small["nbytes_sd"] == 12_000
    assert small["cpu_seconds"] == pytest.approx(9e-5 + 2e-4 / 4)
    part.small = 150_000.0
    del part.forms["raw@200"]
    classes.add_training_size([part], 390)
    assert set(part.forms) == {"jpeg", "raw"}
    assert classes._pixels_after(375, 500, 256) == 256 * 341 and classes._pixels_after(200, 500, 256) == 100_000
    assert ways._kept(part, "pli-small@200", "raw") == "raw@200" and ways._kept(part, "raw@200", "raw") is None
    assert ways._kept(part, "raw@200", "pli") == "pli-small@200" and ways._kept(part, "raw@200", "pli-jpeg") is None


@needs_highs()
def test_planned_written_and_loaded(folder: Path, tmp_path: Path) -> None:
    """With storage of 5 MB/s, small pictures are the best plan if they are allowed."""
    slow: Any = {"transforms": chain(), "shuffle": True, "output": "numpy", "cache": None, "num_workers": 1,
                 "reading": ps.Reading(throttle=(5e6, 0.0))}  # fmt: skip
    with ps.Loader(folder, 8, **slow) as loader:
        report = ps.analyze(loader, budget="3s")
        plain = ps.plan(loader, report=report, cache=0, layout=False, budget="3s")
        plan = ps.plan(loader, report=report, cache=0, layout=False, budget="3s", training_size=True)
    assert not any("@" in row["form"] for row in plain.data["singles"])
    assert {"raw@40", "pli-small@40"} <= {row["form"] for row in plan.data["singles"]}
    stored = [way["store"][0] for way in plan.data["classes"][0]["ways"]]
    assert all(one.get("resize") == SIDE for one in stored) and "@40" in plan.report() and plan.changes_forms
    plan.to_json(tmp_path / "plan.json")
    ps.pack(folder, tmp_path / "small.pst", plan=tmp_path / "plan.json")
    for wanted, got in zip(batches(folder), batches(tmp_path / "small.pst", plan=plan), strict=True):
        np.testing.assert_array_equal(wanted, got)


@needs_highs()
def test_what_is_no_training_size(folder: Path) -> None:
    options: dict[str, Any]
    for options, words in (
        ({"transforms": [T.RandomResizedCrop(32)]}, "begin with"), ({"transforms": chain(), "channels": 1}, "channels")
    ):  # fmt: skip
        with ps.Loader(folder, 8, **options) as loader, pytest.raises(ps.errors.ArgumentError, match=words):
            ps.plan(loader, cache=0, layout=False, training_size=True)
