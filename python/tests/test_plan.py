"""Plans made from reports with known costs, whose answers are known, and once from real images."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import subprocess
import sys

import pytest

import penstock as ps
from conftest import needs_highs
from flat import keywords
from penstock import transforms as T
from penstock.planning import classes as _plan_classes
from penstock.planning import layout, machines
from penstock.planning import ways as _plan_ways
from penstock.report import Report
from penstock.stalls.measure import probe, survey

pytestmark = needs_highs()


def costs(cpu: float, nbytes: float, hit: float | None = None, pack: float = 0.01) -> dict[str, float]:
    return {"cpu_seconds": cpu, "hit_cpu_seconds": hit or cpu, "cpu_sd_seconds": 0.1 * cpu, "nbytes": nbytes, "item_nbytes": nbytes,
            "reads": 1.0, "pack_seconds": pack}  # fmt: skip


def report(**changes: object) -> Report:
    """Returns a report of frames: with PNG the cores are the bottleneck, with raw pixels storage."""
    data = {
        "kind": "penstock-report", "version": 1, "made": "2026-01-01T00:00:00+00:00", "penstock": ps.__version__,
        "subject": {"loader": "penstock", "path": "frames", "samples": 1000, "nbytes": 2_000_000_000, "form": "png",
                    "decode": "cpu", "gpu_part": 1.0, "batch_size": 8, "prefetch": 2, "workers": 16, "workers_follow_cores": True,
                    "batch_cpu_seconds": 0.0, "ranks": 1, "jobs": 1},
        "machine": {"cores": 16.0, "storage_nbytes_per_second": 1e9, "page_cache_nbytes": 0, "cache_nbytes": 0,
                    "memory_available_nbytes": 0},
        "accelerator": {"name": "none", "step_seconds": 0.0, "count": 1},
        "phases": {}, "forms": {"png": {"cpu": costs(0.05, 2e6)}, "raw": {"cpu": costs(0.002, 6e6)}}, "stages": [],
        "bands": {"cpu_band": 0.03, "storage_band": 0.02, "step_band": 0.0},
    }  # fmt: skip
    for name, value in changes.items():
        data[name] = {**data[name], **value} if name in ("machine", "accelerator", "subject") else value
    return Report(data)


def shares(plan: ps.Plan) -> dict[str, float]:
    return {way["store"][0]["form"]: way["share"] for way in plan.data["classes"][0]["ways"]}


def test_a_mix_that_is_known() -> None:
    # x of PNG and y of raw per second: 0.05 x + 0.002 y = 16 cores, 2 x + 6 y = 1000 MB/s.
    y = (1000 - 2 * 320) / (6 - 2 * 0.04)
    x = (16 - 0.002 * y) / 0.05
    plan = ps.plan(report(), cache=0)
    assert shares(plan)["raw"] == pytest.approx(y / (x + y), abs=0.02)
    assert plan.data["predicted"]["bound_samples_per_second"] == pytest.approx(x + y, rel=0.011)
    assert set(plan.data["predicted"]["binding"]) == {"cores", "storage"}
    assert plan.data["need"]["form"] == "png"
    assert plan.data["need"]["cores"] == pytest.approx(0.05 * (x + y), rel=0.01)
    together = plan.data["need"]["together"]
    assert together["cores"] == pytest.approx(plan.data["need"]["cores"])
    assert together["storage"] == pytest.approx(2e6 * plan.data["need"]["rate"])
    assert "With one form alone, png, this machine gives 320 samples/s" in plan.report()
    assert "Enough for that, of one thing alone: " in plan.report()
    prices = {price["resource"]: price["gain"] for price in plan.data["prices"]}
    assert 0 < prices["cores"] < 1 / 16 and 0 < prices["storage"] < 1e-3
    assert sum(shares(plan).values()) == pytest.approx(1)


def test_prices_predict_another_core() -> None:
    one = ps.plan(report(), cache=0).data
    more = ps.plan(report(machine={"cores": 17.0}), cache=0).data
    gain = next(price["gain"] for price in one["prices"] if price["resource"] == "cores")
    bound = [data["predicted"]["bound_samples_per_second"] for data in (one, more)]
    assert bound[1] / bound[0] - 1 == pytest.approx(gain, rel=0.15)


def test_what_is_fast_enough_stays() -> None:
    plan = ps.plan(report(accelerator={"name": "a", "step_seconds": 0.08, "step_sd_seconds": 0.0, "count": 1}), cache=0)
    assert plan.data["predicted"]["binding"] == ["accelerator"]
    assert shares(plan) == {"png": 1.0}
    assert not plan.changes_forms and plan.data["convert"]["nbytes"] == 0
    need = plan.data["need"]  # the plan has one form, and states its own demand
    assert need["is_plan"] and need["form"] == "png" and need["rate"] == pytest.approx(100)
    assert need["together"]["cores"] == pytest.approx(5) and need["together"]["storage"] == pytest.approx(2e8)
    assert "The plan is one form, png: 100 samples/s take 5 CPU cores and 200 MB/s of storage." in plan.report()
    assert "repack" not in plan.report() and 'ps.Loader(\'frames\', ..., plan="plan.json")' in plan.report()


def test_the_cache_takes_what_saves_most() -> None:
    forms = {"png": {"cpu": costs(0.05, 2e6)}, "pli-small": {"cpu": costs(0.004, 1.5e6, hit=0.003)},
             "raw": {"cpu": costs(0.002, 6e6)}}  # fmt: skip
    plan = ps.plan(report(forms=forms), cache="1GB")
    ways = plan.data["classes"][0]["ways"]
    assert plan.data["loader"]["cache"] <= 1e9
    cached = sum(way["share"] for way in ways if way["cache"])
    assert 1000 * cached * 1.5e6 == pytest.approx(1e9, rel=0.01)
    assert {way["store"][0]["form"] for way in ways} == {"pli"}
    (kept,) = [way for way in ways if way["cache"]]
    assert kept["cached_nbytes"] == 1.5e6 and sum(kept["saves"].values()) > 0
    whole = ps.plan(report(forms=forms), cache="100%")
    assert sum(way["share"] for way in whole.data["classes"][0]["ways"] if way["cache"]) > 0.9
    assert whole.data["predicted"]["samples_per_second"] > 2 * plan.data["predicted"]["samples_per_second"]


def test_a_cache_at_the_training_size() -> None:
    kept = {"raw": {"hit_cpu_seconds": 5e-4, "cpu_seconds": 5e-4, "item_nbytes": 2e5}}
    plan = ps.plan(report(kept=kept), cache="300MB")
    assert plan.data["loader"]["cache_form"] == "raw" and plan.data["loader"]["cache_resolution"] == "training"
    (way,) = plan.data["classes"][0]["ways"]
    assert way["cache"] == "raw" and way["cached_nbytes"] == 2e5 and not plan.changes_forms
    assert "for images as raw at the training size" in plan.report()
    assert plan.data["predicted"]["bound_samples_per_second"] == pytest.approx(16 / 5e-4)
    part = ps.plan(report(kept=kept), cache="100MB").data["classes"][0]["ways"]
    assert sum(way["share"] for way in part if way["cache"]) == pytest.approx(0.5, abs=0.01)
    assert ps.plan(report(), cache="300MB").data["loader"].get("cache_resolution") is None
    on_gpu = {"png": {"cpu": costs(0.05, 2e6), "gpu": {**costs(0.01, 2e6), "gpu_seconds": 1e-3}}}
    assert ps.plan(report(kept=kept, forms=on_gpu), cache="300MB").data["loader"].get("cache_resolution") is None


@pytest.mark.parametrize(
    ("chain", "keeps"),
    [([T.Resize(64), T.RandomCrop(32)], True), ([T.Pad(2), T.CenterCrop(64)], True), ([T.RandomResizedCrop(32)], False),
     ([T.RandomCrop(32), T.Resize(20)], False), ([], False), (None, False)],
)  # fmt: skip
def test_chains_that_a_cache_may_begin_behind(chain, keeps) -> None:
    assert probe.keeps_training_size({"transforms": chain}, ("cpu",)) == keeps
    assert probe.keeps_training_size({"transforms": {"image": chain or []}}, ("cpu",)) == keeps
    assert not probe.keeps_training_size({"transforms": chain}, ("cpu", "gpu"))


def test_the_probe_of_the_training_size(tmp_path) -> None:
    """The planned cache size equals what a Loader with the plan's arguments takes."""
    pil = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    random = np.random.default_rng(9)
    for i in range(12):
        pil.fromarray(random.integers(0, 255, (120, 120, 3), np.uint8)).save(tmp_path / f"{i:02d}.png")
    chain = [T.Resize(48), T.RandomCrop(32)]
    with ps.Loader(tmp_path, 4, transforms=chain, output="numpy") as loader:
        made = ps.analyze(loader, budget="2s", forms=())
    assert set(made.data["kept"]) == {"raw", "pli", "pli-fast"}
    raw = made.data["kept"]["raw"]
    assert 48 * 48 * 3 <= raw["item_nbytes"] <= 48 * 48 * 3 + 128
    plan = ps.plan(made, cache="1MiB")
    assert ps.plan(made, cache=(1 << 20) - 1).loader.get("cache") is None
    assert plan.loader["cache_resolution"] == "training" and plan.loader["cache_form"] in ("raw", "pli", "pli-fast")
    batches = []
    for options in ({"plan": plan}, {"cache": None}):
        with ps.Loader(tmp_path, 4, **keywords(transforms=chain, output="numpy", shuffle=True, **options)) as loader:
            batches.append([np.array(batch["image"]) for _ in range(2) for batch in loader])
            hits = loader.stats()["cache"]["hits"]
            assert hits == 0 if "cache" in options else hits > 0
    assert all(np.array_equal(a, b) for a, b in zip(*batches, strict=True))


def test_limits() -> None:
    quota = ps.plan(report(), cache=0, storage="120%")
    assert quota.data["stored_nbytes"] <= 1.2 * 2e9 * 1.0001
    assert "quota" in quota.data["predicted"]["binding"]
    least = ps.plan(report(), cache=0, goal="storage", least_rate=330)
    assert least.data["predicted"]["bound_samples_per_second"] == pytest.approx(330, rel=0.001)
    assert least.data["stored_nbytes"] < ps.plan(report(), cache=0).data["stored_nbytes"]
    with pytest.raises(ps.errors.LimitError, match="rate that must be reached"):
        ps.plan(report(), cache=0, goal="storage", least_rate=5000)
    with pytest.raises(ps.errors.LimitError, match="bytes on storage"):
        ps.plan(report(), cache=0, storage=1000)


def test_lossy_forms_only_when_allowed() -> None:
    forms = {"png": {"cpu": costs(0.05, 2e6)}, "pli-small:2": {"cpu": costs(0.003, 1e6)}}
    assert shares(ps.plan(report(forms=forms), cache=0)) == {"png": 1.0}
    plan = ps.plan(report(forms=forms), cache=0, max_error=2)
    assert plan.data["classes"][0]["ways"][0]["store"] == [{"form": "pli", "tier": "small", "max_error": 2}]
    assert "(error 2)" in plan.report()


def test_copies_keep_the_mix_in_each_batch() -> None:
    plan = ps.plan(report(), cache=0, copies=True)
    (way,) = plan.data["classes"][0]["ways"]
    assert way["share"] == 1 and [one["form"] for one in way["store"]] == ["png", "raw"]
    assert plan.loader["form_parts"]["png"] == pytest.approx(1 - plan.loader["form_parts"]["raw"])
    assert plan.data["stored_nbytes"] == pytest.approx(1000 * 8e6)


def test_files() -> None:
    plan = ps.plan(report(), cache=0)
    text = plan.to_json("plan.json")
    try:
        again = ps.Plan.load("plan.json")
        assert again.data == plan.data == json.loads(text)
        assert "samples/s" in again.report() and repr(again).startswith("Plan(")
    finally:
        os.unlink("plan.json")
    broken = copy.deepcopy(plan.data)
    broken["loader"]["prefetch"] = "many"
    with pytest.raises(ps.errors.ArgumentError, match="loader.prefetch is int, not 'many'"):
        ps.Plan(broken)
    with pytest.raises(ps.errors.ArgumentError, match="its kind is 'x'"):
        ps.Plan({"kind": "x"})
    with pytest.raises(ps.errors.ArgumentError, match="version 2"):
        ps.Plan({"kind": "penstock plan", "version": 2})


def test_a_schedule_is_carried(tmp_path) -> None:
    plain = ps.plan(report(), cache=0)
    assert "schedule" not in plain.data and "from epoch" not in plain.report()
    plan = ps.plan(report(), cache=0, schedule="0:128:512,6:160x192,12::64")
    first, second = {"epoch": 0, "size": [128, 128], "batch_size": 512}, {"epoch": 6, "size": [160, 192]}
    stages = [first, second, {"epoch": 12, "batch_size": 64}]
    assert plan.data["schedule"] == stages
    assert plan.data["solved_for"] == {"size": None, "batch_size": 8}  # a report does not know the size
    assert shares(plan) == shares(plain)
    assert "from epoch 6: pictures of 160 x 192" in plan.report() and "are for batches of 8" in plan.report()
    plan.to_json(tmp_path / "plan.json")
    assert ps.Plan.load(tmp_path / "plan.json").data == plan.data
    assert ps.plan(report(), cache=0, schedule=stages).data["schedule"] == stages
    for wrong in ("6:192,6:224", "x"):
        with pytest.raises(ps.errors.ArgumentError, match="schedule"):
            ps.plan(report(), cache=0, schedule=wrong)


def test_break_even() -> None:
    assert layout.break_even(100, 100, 200, 1000) == pytest.approx(20)
    assert math.isinf(layout.break_even(100, 100, 90, 1000))
    data = ps.plan(report(), cache=0).data
    converted = data["convert"]["nbytes"] / 6e6  # samples that become raw pixels
    seconds = max(0.01 * converted / 16, converted * 8e6 / 1e9)
    assert data["convert"]["seconds"] == pytest.approx(seconds, rel=1e-6)
    saved = 1000 / data["now"]["samples_per_second"] - 1000 / data["predicted"]["samples_per_second"]
    assert data["convert"]["break_even_epochs"] == pytest.approx(seconds / saved, rel=1e-6)


# Machines -------------------------------------------------------------------------------------------

TABLE = {
    "kind": "penstock-machines", "version": 1, "date": "2026-01", "currency": "EUR",
    "machines": [
        {"name": "small", "cores": 4, "storage_nbytes_per_second": 1e8, "price_per_hour": 1.0},
        {"name": "large", "cores": 64, "storage_nbytes_per_second": 4e9, "price_per_hour": 6.0},
        {"name": "family", "cores": 4, "storage_nbytes_per_second": 1e8, "price_per_hour": 1.0,
         "choose": {"cores": {"most": 32, "price_per_hour": 0.03},
                    "storage_nbytes_per_second": {"most": 2e9, "price_per_hour": 0.0002}}},
    ],
}  # fmt: skip


def test_machines() -> None:
    rows = ps.plan(report(), cache=0, machines=TABLE).data["machines"]["rows"]
    by = {(row["name"], row["goal"]): row for row in rows}
    small, large, family = by["small", "cost"], by["large", "cost"], by["family", "cost"]
    assert [row["epoch_cost"] for row in rows] == sorted(row["epoch_cost"] for row in rows)
    assert large["samples_per_second"] == max(row["samples_per_second"] for row in rows)
    assert family["epoch_cost"] < min(small["epoch_cost"], large["epoch_cost"])
    assert 4 <= family["chosen"]["cores"] <= 32 and 1e8 <= family["chosen"]["storage_nbytes_per_second"] <= 2e9
    extra = 0.03 * (family["chosen"]["cores"] - 4) + 0.0002 * (family["chosen"]["storage_nbytes_per_second"] - 1e8) / 1e6
    assert family["price_per_hour"] == pytest.approx(1.0 + extra, rel=1e-6)
    assert family["epoch_cost"] == pytest.approx(family["price_per_hour"] / 3600 * family["epoch_seconds"], rel=1e-6)
    # no point of a grid of machines is cheaper
    classes = _plan_classes.of_report(report().data)
    for cores in range(4, 33, 4):
        for storage in (1e8, 3e8, 6e8, 1e9, 1.5e9, 2e9):
            changed = report(machine={"cores": float(cores), "storage_nbytes_per_second": storage}).data
            rate = _plan_ways.solve(classes, changed, _plan_ways.Limits()).answer["samples_per_second"]
            price = 1.0 + 0.03 * (cores - 4) + 0.0002 * (storage - 1e8) / 1e6
            assert family["epoch_cost"] <= 1.03 * price / 3600 * 1000 / rate
    need = ps.plan(report(), cache=0, machines=TABLE).data["need"]
    cheapest = min((row for row in rows if row["single"]), key=lambda row: row["single"]["epoch_cost"])
    assert need["machine"] == cheapest["name"]
    assert need["price_per_hour"] == pytest.approx(cheapest["single"]["epoch_cost"] / cheapest["epoch_seconds"] * 3600)
    assert need["price_per_hour"] >= 0.999 * cheapest["price_per_hour"]
    text = ps.plan(report(), cache=0, machines=TABLE).report()
    assert "One form alone is cheapest on " in text
    assert "cheapest" in text and "fastest" in text and "EUR/epoch" in text


def test_the_example_of_machines() -> None:
    table = machines.read(machines.example())
    assert table["date"] and table["source"]
    step = {"name": "a", "step_seconds": 0.01, "step_sd_seconds": 0.0, "count": 1}
    rows = ps.plan(report(accelerator=step), machines=table).data["machines"]["rows"]
    assert {row["name"] for row in rows} == {machine["name"] for machine in table["machines"]}
    assert all(row["epoch_cost"] > 0 for row in rows)


def test_rates_of_accelerators() -> None:
    """Each machine has the rate of its own accelerator. If not, a line says that the report's rate is assumed, and no claim depends
    on it.
    """
    own = {"cores": 64, "price_per_hour": 1.0}
    step = {"name": "mlperf:resnet50:h100", "title": "H100", "step_seconds": 0.08, "step_sd_seconds": 0.0, "count": 1}
    fast = report(accelerator=step, forms={"raw": {"cpu": costs(0.0002, 6e5)}}, subject={"form": "raw"})

    def planned(*machines: dict) -> tuple[dict, str]:
        plan = ps.plan(fast, cache=0, machines={**TABLE, "machines": [{**own, **machine} for machine in machines]})
        return {row["name"]: row for row in plan.data["machines"]["rows"]}, plan.report()

    rows, text = planned(
        {"name": "a", "accelerator": "T4", "accelerator_samples_per_second": 40}, {"name": "b", "accelerator": "H100"},
        {"name": "c", "accelerator": "A10G", "accelerator_speed": 0.5},
    )  # fmt: skip
    assert [rows[name]["accelerator_samples_per_second"] for name in "abc"] == pytest.approx([40, 100, 50])
    assert [rows[name]["samples_per_second"] for name in "abc"] == pytest.approx([40, 100, 50], rel=0.02)
    assert not any(row["is_rate_assumed"] for row in rows.values()) and "Assumed" not in text
    assert "cheapest and fastest\n" in text
    rows, text = planned({"name": "a", "accelerator": "T4"}, {"name": "b", "accelerator": "H100"}, {"name": "d"})
    assert [rows[name]["is_rate_assumed"] for name in ("a", "b", "d")] == [True, False, True]
    assert "cheapest and fastest, if the assumption below holds" in text and "fastest\n" not in text
    assert "Assumed: these take 100 samples/s of your network, as this accelerator does: T4 (a); " in text
    assert "; an accelerator without a name (d). Say what each really takes" in text
    assert "Assumed" not in ps.plan(report(), cache=0, machines=TABLE).report()  # nothing is trained, so no rate is assumed


def test_sentences() -> None:
    """No number is printed with an exponent, every line is a sentence, and the last one says what to do."""
    step = {"name": "1e+06/s", "title": "3000/s", "step_seconds": 8 / 3000, "step_sd_seconds": 0.0, "count": 1}
    forms = {"png": {"cpu": costs(0.0005, 2e4)}, "raw": {"cpu": costs(0.00002, 6e4)}}
    for made in (report(), report(accelerator=step), report(accelerator=step, forms=forms)):
        for goal in ({}, {"goal": "storage", "least_rate": 20}):
            text = ps.plan(made, cache=0, **goal).report()
            assert not re.search(r"\d(\.\d+)?e[+-]\d", text) and "None" not in text, text
            assert text.splitlines()[-1].startswith(("Do it: ", "Leave it as it is: "))
    text = ps.plan(report(accelerator={**step, "step_seconds": 0.08}), cache=0).report()
    assert "accelerators that are 1 % faster: 1 % more samples/s; holds from 0 to " in text
    text = ps.plan(report(), cache=0).report()
    assert re.search(r"  one more core: [\d.]+ % more samples/s; holds from [\d.]+ to [\d.]+, and there are 16\n", text)


def test_a_plan_of_a_disturbed_report_says_so_first() -> None:
    made = report(phases={"warm": {"other_cores": 1.0}})
    made.data["check"] = {"warm": {"predicted": 40.0, "measured": 30.0, "error": 0.33, "cores": 15.0}}
    plan = ps.plan(made, cache=0)
    reason = (
        "From memory the model expects 40 samples/s, and 30 were measured (+33 %). Other programs used 1 of 16 CPU cores meanwhile."
    )
    assert plan.data["check"] == {"trusted": False, "reason": reason}
    assert plan.report().startswith(f"DISTURBED, do not rely on this plan. {reason} Measure again")
    assert plan.report().splitlines()[-1].startswith("Leave it as it is: the measurements were disturbed")
    assert ps.plan(report(), cache=0).data["check"] == {"trusted": True, "reason": ""}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "x"}, "its kind is 'x'"),
        ({"machines": []}, "has no machines"),
        ({"machines": [{"cores": 4}]}, "machine 1 has no name"),
        ({"machines": [{"name": "a", "cores": 4}]}, r"machine 1 \(a\) has no price_per_hour"),
        ({"machines": [{"name": "a", "cores": 4, "price_per_hour": 1, "ram": 3}]}, "no member 'ram'"),
        ({"machines": [{"name": "a", "cores": 4, "price_per_hour": 1, "accelerator_speed": 2,
                        "accelerator_samples_per_second": 9}]}, "say the same"),
        ({"machines": [{"name": "a", "cores": -4, "price_per_hour": 1}]}, "cores is a number of 0 or more"),
        ({"machines": [{"name": "a", "cores": 4, "price_per_hour": 1, "choose": {"cores": {"most": 2, "price_per_hour": 1}}}]},
         "most is below"),
    ],
)  # fmt: skip
def test_wrong_machines(tmp_path, change, words) -> None:
    path = tmp_path / "machines.json"
    path.write_text(json.dumps({**TABLE, **change}))
    with pytest.raises(ps.errors.ArgumentError, match=words):
        machines.read(path)


# Real images ----------------------------------------------------------------------------------------


def test_classes_of_a_folder(tmp_path) -> None:
    pil = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    random = np.random.default_rng(3)
    for i in range(160):
        side = 16 if i % 2 else 64
        pixels = random.integers(0, 255, (side, side, 3), np.uint8)
        form = "png" if i % 4 < 3 else "jpeg"
        pil.fromarray(pixels).save(tmp_path / f"{i:03d}.{'png' if form == 'png' else 'jpg'}", form)
    found = _plan_classes.survey(ps.Dataset(tmp_path), "image", 30)
    assert {part.form for part in found} == {"png", "jpeg"}
    assert sum(part.samples for part in found) == 160
    pngs = sorted((part for part in found if part.form == "png"), key=lambda part: part.low)
    assert len(pngs) >= 2 and pngs[0].low == 0 and pngs[-1].high is None
    assert all(a.high == b.low for a, b in zip(pngs[:-1], pngs[1:], strict=True))


def test_the_probe_takes_images_of_all_sizes() -> None:
    numbers, sizes = [7, 3, 9, 1, 5], [70.0, 30.0, 90.0, 10.0, 50.0]
    assert survey.spread(numbers, sizes, 1) == [5]
    assert survey.spread(numbers, sizes, 2) == [3, 7]
    assert survey.spread(numbers, sizes, 9) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("packed", [False, True])
def test_pixels_of_the_whole_set(tmp_path, packed) -> None:
    """32 images are probed; the number of pixels and the bytes of raw pixels are those of all 150 images."""
    pil = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    folder = tmp_path / "images"
    folder.mkdir()
    random = np.random.default_rng(8)
    sides = [int(40 + 24 * random.random() ** 3) for _ in range(150)]
    for i, side in enumerate(sides):
        pil.fromarray(random.integers(0, 255, (side, side, 3), np.uint8)).save(folder / f"{i:03d}.jpg")
    mean = sum(side**2 for side in sides) / len(sides)
    if packed:
        ps.pack(folder, tmp_path / "d.pst", forms=["original"])
    chain = [ps.transforms.RandomCrop(32)]
    with ps.Loader(tmp_path / "d.pst" if packed else folder, 4, transforms=chain, output="numpy") as loader:
        made = ps.analyze(loader, budget="1.5s", forms=("raw",))
        (part,) = found = _plan_classes.survey(loader.dataset, "image", 30)
        _plan_classes.measure(found, made.data, loader.dataset, "image", loader._given, 1, lambda line: None)
    assert part.pixels == pytest.approx(mean)
    raw = part.forms["raw"]["cpu"]
    assert raw["item_nbytes"] == pytest.approx(3 * mean) and raw["pixels"] == pytest.approx(mean)
    stored = [file.stat().st_size for file in folder.iterdir()]
    assert part.forms["jpeg"]["cpu"]["item_nbytes"] == pytest.approx(sum(stored) / len(stored))
    assert 0 < raw["hit_cpu_seconds"] <= 1.5 * raw["cpu_seconds"]


def test_seconds_follow_the_pixels() -> None:
    """Seconds of decoding and of reading pixels grow with the number of pixels; the cost of a cached raw image depends on the
    output.
    """
    forms = {"raw": {"cpu": {**costs(0.003, 300.0, hit=0.001), "pixels": 100.0}},
             "jpeg": {"cpu": {**costs(0.012, 50.0, hit=0.011), "pixels": 100.0}}}  # fmt: skip
    part = _plan_classes.Class("jpeg", 0, None, 10, 150.0, [], forms)
    _plan_classes._to_pixels(part)
    raw, jpeg = part.forms["raw"]["cpu"], part.forms["jpeg"]["cpu"]
    assert (raw["nbytes"], raw["hit_cpu_seconds"], raw["cpu_seconds"]) == pytest.approx((450, 0.001, 0.004))
    assert (jpeg["nbytes"], jpeg["hit_cpu_seconds"], jpeg["cpu_seconds"]) == pytest.approx((50, 0.016, 0.017))


def test_a_plan_of_images(tmp_path) -> None:
    pil = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    folder = tmp_path / "images"
    folder.mkdir()
    rows = np.add.outer(np.arange(200), np.arange(200))[..., None]
    for i in range(24):
        pil.fromarray(((rows * [1, 2, 3] + i) % 256).astype(np.uint8)).save(folder / f"{i}.png")
    out = tmp_path / "plan.json"
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "plan", str(folder), "--budget", "3s", "--batch-size", "4", "--out", str(out),
         "--rate", "50", "--schedule", "0:16:8,1:24"], capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = ps.Plan.load(out)
    assert plan.data["data"]["samples"] == 24 and plan.data["predicted"]["samples_per_second"] <= 51
    assert {row["layout"] for row in plan.data["layout"]["layouts"]} == {"folder", "packed"}
    assert "penstock" in done.stdout and not list(tmp_path.glob(".penstock*"))
    assert plan.data["solved_for"] == {"size": [224, 224], "batch_size": 4} and "from epoch 1" in done.stdout
    loader = ps.Loader(folder, 4, transforms=[T.RandomResizedCrop(32)], plan=out, output="numpy")
    shapes = [{batch["image"].shape for batch in loader} for _ in range(2)]
    assert shapes == [{(8, 3, 16, 16)}, {(8, 3, 24, 24)}]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nowhere"], "nowhere"),
        (["--goal", "speed", "x"], "invalid choice"),
        (["report.json", "--storage-limit", "lots"], "storage"),
        (["report.json", "--schedule", "1:2:3:4"], "stage of a schedule"),
        (["report.json", "--machines", "no.json"], "no.json"),
    ],
)
def test_wrong_commands(tmp_path, words, text) -> None:
    report().to_json(tmp_path / "report.json")
    done = subprocess.run([sys.executable, "-m", "penstock.cli.main", "plan", *words], capture_output=True, text=True, cwd=tmp_path,
                          timeout=240)  # fmt: skip
    assert done.returncode in (1, 2) and text in done.stderr and "Traceback" not in done.stderr


def test_packing_by_a_plan(tmp_path) -> None:
    """The plan permits PLI of JPEGs, and near-lossless PLI."""
    pil = pytest.importorskip("PIL.Image")
    np = pytest.importorskip("numpy")
    folder = tmp_path / "images"
    folder.mkdir()
    random = np.random.default_rng(5)
    for i in range(6):
        form = "jpg" if i % 2 else "png"
        pil.fromarray(random.integers(0, 255, (40, 40, 3), np.uint8)).save(folder / f"{i}.{form}")

    def plan_of(**stores: list[dict]) -> dict:
        classes = [{"form": form, "pixels": [0, None], "samples": 3, "ways": [{"share": 1.0, "store": store}]}
                   for form, store in stores.items()]  # fmt: skip
        return {"kind": "penstock plan", "version": 1, "field": "image", "classes": classes}

    path = tmp_path / "plan.json"
    lossy = {"form": "pli", "tier": "small", "max_error": 4}
    path.write_text(json.dumps(plan_of(jpeg=[{"form": "pli", "tier": "fast"}], png=[lossy])))
    ps.pack(folder, tmp_path / "a.pst", plan=path)
    dataset = ps.Dataset(tmp_path / "a.pst")
    assert [dataset.item(i, "image")["form"] for i in range(6)] == ["pli"] * 6
    for i in range(6):
        wanted = np.asarray(pil.open(folder / f"{i}.{'jpg' if i % 2 else 'png'}")).astype(int)
        off = np.abs(dataset[i]["image"].astype(int) - wanted).max()
        assert off == 0 if i % 2 else 0 < off <= 4
    assert ps.repack(tmp_path / "a.pst", plan=path).n_changed == 0
    for wrong in (200, -1, 1.5, "2"):
        path.write_text(json.dumps(plan_of(png=[{**lossy, "max_error": wrong}])))
        with pytest.raises(ps.errors.ArgumentError, match="max_error"):
            ps.pack(folder, tmp_path / "b.pst", plan=path)


# Learning -------------------------------------------------------------------------------------------


def stats_of(spent: float, n: int = 4500, workers: int = 16, cause: str = "decode", rows: dict[str, int] | None = None) -> dict:
    stage = {"work": 0.0, "count": n}
    stages = {name: dict(stage) for name in ("fetch", "decode", "augment", "batch", "keep")}
    stages["decode"]["work"] = 0.75 * spent * n
    stages["augment"]["work"] = 0.25 * spent * n
    return {"stages": stages, "workers": workers, "cache": {"hits": 0, "misses": 0},
            "forms": {"by_form": {name: {"rows": k} for name, k in (rows or {}).items()}},
            "step": {"window": {"cause": cause}}, "storage": {"nbytes_read": 6e8, "seconds": 2.0}}  # fmt: skip


def test_costs_are_learnt() -> None:
    before = report()
    after = before.learned(stats_of(0.1))
    assert after.data["forms"]["png"]["cpu"]["cpu_seconds"] == pytest.approx(0.05 * 1.9)  # 4500 of 5000 samples take twice the cost
    assert after.data["forms"]["raw"]["cpu"]["cpu_seconds"] == pytest.approx(0.002 * 1.9)
    assert after.data["learned"][0]["cpu_factor"] == pytest.approx(2)
    assert before.data["forms"]["png"]["cpu"]["cpu_seconds"] == 0.05
    mixed = before.learned(stats_of(0.026, rows={"png": 500, "raw": 500}))
    assert mixed.data["learned"][0]["cpu_factor"] == pytest.approx(1)
    rates = [ps.plan(one, cache=0).data["predicted"]["samples_per_second"] for one in (before, after)]
    assert rates[1] < 0.8 * rates[0]


def test_what_says_nothing_is_not_learnt() -> None:
    other = report().learned(stats_of(5.0))
    assert "other samples" in other.data["learned"][0]["note"]
    crowded = report().learned(stats_of(0.1, workers=40))
    assert "40 workers" in crowded.data["learned"][0]["note"]
    assert other.data["forms"] == crowded.data["forms"] == report().data["forms"]
    slow = report().learned(stats_of(0.05, cause="fetch"))
    assert slow.data["machine"]["storage_nbytes_per_second"] == pytest.approx(0.1 * 1e9 + 0.9 * 3e8)
    with pytest.raises(ps.errors.ArgumentError, match="nothing was learnt"):
        report().learned(stats_of(0.1, n=0))
