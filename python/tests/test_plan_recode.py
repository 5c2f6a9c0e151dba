"""Plans that know the number of epochs: whether the cache re-codes images, what the text says about it, and Loaders that follow
it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, needs_highs, picture
from penstock import transforms as T
from penstock.loading import plan_file, table
from penstock.planning import ways
from penstock.report import Report

N, CORES, NBYTES = 1000, 2.0, 100_000
# CPU seconds of a sample: read and decoded, from a cache, and packed. Re-coding as pli-jpeg pays after 1 + 4 / (1 - 0.3) epochs.
JPEG = {"cpu_seconds": 1.2e-3, "hit_cpu_seconds": 1e-3, "nbytes": NBYTES, "item_nbytes": NBYTES, "reads": 1.0, "pack_seconds": 1e-4}
PLI_JPEG = {"cpu_seconds": 4e-4, "hit_cpu_seconds": 3e-4, "nbytes": 0.87 * NBYTES, "item_nbytes": 0.87 * NBYTES, "reads": 1.0,
            "pack_seconds": 4e-3}  # fmt: skip
FROM = 7


def report(**changes: Any) -> Report:
    data: dict[str, Any] = {
        "kind": "penstock-report", "version": 1, "made": "2026-01-01T00:00:00+00:00", "penstock": ps.__version__,
        "subject": {"loader": "penstock", "path": "photos", "samples": N, "nbytes": N * NBYTES, "form": "jpeg", "decode": "cpu",
                    "gpu_part": 1.0, "batch_size": 8, "prefetch": 2, "workers": 2, "workers_follow_cores": True,
                    "batch_cpu_seconds": 0.0, "ranks": 1, "jobs": 1},
        "machine": {"cores": CORES, "storage_nbytes_per_second": 1e10, "page_cache_nbytes": 0, "cache_nbytes": 0,
                    "memory_available_nbytes": 0},
        "accelerator": {"name": "none", "step_seconds": 0.0, "count": 1},
        "phases": {}, "forms": {"jpeg": {"cpu": JPEG}, "pli-jpeg": {"cpu": PLI_JPEG}}, "stages": [],
        "bands": {"cpu_band": 0.03, "storage_band": 0.02, "step_band": 0.0},
    }  # fmt: skip
    for name, value in changes.items():
        data[name] = {**data[name], **value}
    return Report(data)


def planned(epochs: int | None, forms: tuple[str, ...] | None = (), **changes: Any) -> ps.Plan:
    return ps.plan(report(**changes), cache="300%", epochs=epochs, forms=forms)


@needs_highs()
def test_the_number_of_epochs_decides() -> None:
    found = {epochs: planned(epochs).data["loader"] for epochs in (1, 2, FROM - 1, FROM + 2, 90, None)}
    assert found[1]["cache"] is None and found[1]["cache_form"] == "stored"
    for epochs in (2, FROM - 1):
        assert found[epochs]["cache"] > N * NBYTES and found[epochs]["cache_form"] == "stored"
        assert "cache_recode" not in found[epochs]
    for many in (FROM + 2, 90, None):
        assert found[many]["cache_form"] == "pli-jpeg" and found[many]["cache_recode"] == "idle"
        assert found[many]["cache"] > 33 / 32 * N * NBYTES  # in the first epoch the cache has the images as they are stored


@needs_highs()
def test_rates_are_the_mean_of_the_epochs() -> None:
    epochs = 20
    each = (JPEG["cpu_seconds"] + PLI_JPEG["pack_seconds"] + (epochs - 1) * PLI_JPEG["hit_cpu_seconds"]) / epochs
    assert planned(epochs).data["predicted"]["bound_samples_per_second"] == pytest.approx(CORES / each, rel=1e-6)
    assert planned(1).data["predicted"]["bound_samples_per_second"] == pytest.approx(CORES / JPEG["cpu_seconds"], rel=1e-6)
    without = planned(None).data["predicted"]["bound_samples_per_second"]
    assert without == pytest.approx(CORES / PLI_JPEG["hit_cpu_seconds"], rel=1e-6)


@needs_highs()
def test_what_the_cache_keeps_free_is_counted() -> None:
    """A cache with room for all items as pli-jpeg, but for 1/32 of it, which re-coding needs."""
    plan = ps.plan(report(), cache=int(N * PLI_JPEG["item_nbytes"]), forms=())
    ways_used = plan.data["classes"][0]["ways"]
    assert [way["share"] for way in ways_used if way["cache"] == "pli-jpeg"] == [pytest.approx(31 / 32, rel=1e-3)]
    assert {way["cached_nbytes"] for way in ways_used if way["cache"]} == {PLI_JPEG["item_nbytes"]}


@needs_highs()
def test_what_it_costs_and_saves() -> None:
    plan = planned(30)
    assert plan.data["epochs"] == 30 and plan.data["recode"] == {
        "form": "pli-jpeg", "cpu_seconds": pytest.approx(4e-3), "saved_cpu_seconds": pytest.approx(7e-4), "from_epochs": FROM,
        "is_planned": True,
    }  # fmt: skip
    text = plan.report()
    assert "epochs     30; rates are the mean of them, the first one included" in text
    assert "re-coding  into the cache as pli-jpeg, idle workers do it: takes 4 ms of a core for an image, once" in text
    assert f"saves 700 us in each later epoch: worth it from {FROM} epochs on" in text
    few = planned(3)
    assert few.data["recode"]["from_epochs"] == FROM and not few.data["recode"]["is_planned"]
    assert f"worth it from {FROM} epochs on, and 3 planned" in few.report()
    assert "rates are the mean of it" in planned(1).report()
    assert "recode" not in ps.plan(report(), cache=0, epochs=30, forms=()).data


@needs_highs()
def test_cores_that_are_not_short_are_not_spared() -> None:
    """The accelerator takes 100 samples/s, so re-coding makes nothing faster."""
    plan = planned(90, accelerator={"name": "a", "step_seconds": 0.08, "step_sd_seconds": 0.0})
    assert plan.data["predicted"]["binding"] == ["accelerator"] and plan.data["loader"]["cache_form"] == "stored"
    assert "where the cores are the limit" in plan.report()


@needs_highs()
def test_several_ranks_share_the_host_cache() -> None:
    found = planned(90, subject={"ranks": 2}).data["loader"]
    assert found["cache"] == "host" and found["cache_form"] == "pli-jpeg" and found["cache_recode"] == "idle"


@needs_highs()
def test_forms_are_written_only_if_the_epochs_pay_for_it() -> None:
    stored = {epochs: planned(epochs, None).changes_forms for epochs in (1, 2, 12, None)}
    assert stored == {1: False, 2: False, 12: True, None: True}
    assert any("the present ones stay" in note for note in planned(2, None).data["notes"])
    many = planned(1000, None)  # re-coding by idle workers is as good in the end
    assert not many.changes_forms and many.data["loader"]["cache_recode"] == "idle"


@needs_highs()
def test_the_command(tmp_path: Path) -> None:
    report().to_json(tmp_path / "report.json")
    command = [sys.executable, "-m", "penstock.cli.main", "plan", str(tmp_path / "report.json"), "--forms", "", "--cache", "300%"]
    for epochs, form in ((2, "stored"), (90, "pli-jpeg")):
        out = tmp_path / f"{epochs}.json"
        done = subprocess.run([*command, "--epochs", str(epochs), "--out", str(out)], capture_output=True, text=True, check=True)
        assert ps.Plan.load(out).data["loader"]["cache_form"] == form and "re-coding" in done.stdout


def test_wrong_numbers_of_epochs() -> None:
    for wrong in (0, -1, "3", 1.5, True):
        with pytest.raises(ps.errors.ArgumentError, match="epochs"):
            ps.plan(report(), epochs=wrong)  # type: ignore[arg-type]


# Loaders with such a plan ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "photos"
    (path / "a").mkdir(parents=True)
    for i in range(24):
        (path / "a" / f"{i:02d}.jpg").write_bytes(encoded(picture(i, 200 + 3 * i, 240 - i), "JPEG"))
    return path


def made_plan(**loader: Any) -> dict[str, Any]:
    section = {"form": "jpeg", "pixels": [0, None], "samples": 24,
               "ways": [{"share": 1.0, "store": [{"form": "jpeg"}], "cache": "pli-jpeg"}]}  # fmt: skip
    settings = {"num_workers": 2, "cache": 1 << 24, "cache_form": "pli-jpeg", "cache_recode": "idle", **loader}
    return {"kind": "penstock plan", "version": 1, "field": "image", "classes": [section], "loader": settings,
            "data": {"samples": 24}}  # fmt: skip


def epoch_of(loader: ps.Loader) -> Any:
    return np.concatenate([batch["image"] for batch in loader])


@pytest.mark.parametrize("n_sources", [1, 2])
def test_idle_workers_of_a_planned_loader(folder: Path, n_sources: int) -> None:
    """Also of a mixture, here of the same data set twice."""
    chain, plan = [T.RandomResizedCrop(48), T.RandomHorizontalFlip()], made_plan()
    data = ps.Mixture([folder] * n_sources, fields=["image"]) if n_sources > 1 else ps.Dataset(folder)
    plan["data"]["samples"] = plan["classes"][0]["samples"] = 24 * n_sources
    with ps.Loader(data, 8, shuffle=True, seed=5, transforms=chain, output="numpy", cache=None) as plain, \
            ps.Loader(data, 8, shuffle=True, seed=5, transforms=chain, output="numpy", plan=plan) as loader:  # fmt: skip
        for _ in range(3):
            assert np.array_equal(epoch_of(plain), epoch_of(loader))
            end = time.monotonic() + 30
            while loader.stats()["cache"]["recoded"] < 24 and time.monotonic() < end:
                time.sleep(0.005)
        found = loader.stats()["cache"]
    assert found["recoded"] == 24 and found["to_recode"] == 0 and found["recode_seconds"] > 0


@pytest.mark.parametrize(
    "given",
    [{"num_workers": 0}, {"cache": None}, {"cache_form": "stored"}, {"fleet": "127.0.0.1:1"},
     {"cache_resolution": "training"}],
)  # fmt: skip
def test_what_the_user_gives_rules_a_planned_wish_out(folder: Path, given: dict[str, Any]) -> None:
    """If idle workers cannot re-code, a plan that asks for it is no error. If the user asks for it, it is."""
    flat = table.converted(table.completed({"dataset": ps.Dataset(folder), **given}))
    if given.get("cache_form") == "stored":
        plan = plan_file.read(made_plan(cache_form="stored"))
    else:
        plan = plan_file.read(made_plan())
    flat.setdefault("output", "numpy")
    assert plan_file.applied(flat, plan)["cache_recode"] == "at-once"
    own = plan_file.applied({**flat, "cache_recode": "idle"}, plan)
    assert own["cache_recode"] == "idle"


def test_a_planned_loader_without_workers(folder: Path) -> None:
    with ps.Loader(folder, 8, num_workers=0, output="numpy", transforms=[T.RandomResizedCrop(48)], plan=made_plan()) as loader:
        epoch_of(loader)
        assert loader.stats()["cache"]["recoded"] == 24
    dataset = pytest.importorskip("torch") and ps.TorchDataset(folder, transforms=[T.RandomResizedCrop(48)], plan=made_plan())
    assert len(dataset) == 24 and tuple(dataset[3]["image"].shape)[-2:] == (48, 48)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"epochs": 0}, "epochs"), ({"epochs": "3"}, "epochs"), ({"recode": []}, "recode"),
     ({"recode": {"form": 3, "cpu_seconds": 1.0, "saved_cpu_seconds": 1.0}}, "recode.form"),
     ({"recode": {"form": "pli-jpeg", "saved_cpu_seconds": 1.0}}, "recode.cpu_seconds"),
     ({"loader": {"cache_recode": 1}}, "loader.cache_recode")],
)  # fmt: skip
def test_wrong_files(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**made_plan(), **change}))
    with pytest.raises(ps.errors.ArgumentError, match=words):
        ps.Plan.load(path)


@pytest.mark.parametrize(
    ("per_draw", "epochs", "misses"), [(1, 10, 0.1), (20, 10, 1.0), (0.1, 2, 0.05), (1, 1, 1.0), (0.5, 1, 0.5)]
)
def test_first_draws_of_samples(per_draw: float, epochs: int, misses: float) -> None:
    """An epoch draws a sample 1 / per_draw times in the mean. Misses are the share of a training's draws that are the first of
    their sample.
    """
    assert ways.Limits(epochs=epochs).misses(per_draw) == pytest.approx(misses)
    assert ways.Limits().misses(per_draw) == 0
