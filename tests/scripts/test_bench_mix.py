"""Mixes of forms: the single forms they are compared with, the accuracy of predictions of plans, and what plans store."""

import argparse
import json

import pytest

import views_plans
from bench_modules import BENCH, load

mix_accuracy = load("mix", "mix_accuracy")
RESULTS = BENCH / "results" / "mix_zen4-2026-11-27.json"


def setting(**rates):
    """Returns a setting with one accelerator. Each rate is (measured, predicted)."""
    return {"cells": [{"way": way.replace("_", " "), "fraction": 4.0, "rate": rate, "predicted": predicted}
                      for way, (rate, predicted) in rates.items()]}  # fmt: skip


def test_the_best_single_form_without_pli_may_be_at_the_training_size():
    found = setting(jpeg=(800, 900), raw=(600, 610), raw256=(1600, 1600), pli=(2000, 2000), mix_of_before=(1000, 1250),
                    half_and_half_of_before=(1100, None), mix_of_all=(2200, 2200))  # fmt: skip
    assert mix_accuracy.over_best_single(found, "mix of before") == 1000 / 1600
    assert mix_accuracy.over_best_single(found, "half and half of before") == 1100 / 1600
    assert mix_accuracy.over_best_single(found, "mix of all") == 2200 / 2000


def test_predictions_are_counted_for_the_fastest_accelerator():
    found = setting(jpeg=(800, 900), raw=(600, 610), mix_of_before=(1000, 960), half_and_half_of_before=(1100, None))
    found["cells"].append({"way": "raw", "fraction": 1.0, "rate": 1, "predicted": 2})
    counted = mix_accuracy.with_summary({"groups": {"a": {"b": found}}})["accuracy"]
    assert counted == {"cells": 3, "near": 2, "within": 0.05, "far": [
        {"group": "a", "setting": "b", "way": "jpeg", "off": 0.125}]}  # fmt: skip
    assert [cell["off"] for cell in found["cells"]][3:] == [None, 1.0]


def test_the_published_figures_have_their_summary():
    result = json.loads(RESULTS.read_text())
    assert mix_accuracy.with_summary(json.loads(RESULTS.read_text())) == result
    assert (result["accuracy"]["near"], result["accuracy"]["cells"]) == (28, 44)
    ratios = {title: found["over_best_single"].get("mix of before") for title, found in result["groups"]["imagenet256"].items()}
    assert round(ratios["few cores, fast storage"], 2) == 0.65 and round(ratios["balanced"], 2) == 0.67


RAW, SMALL = {"form": "raw"}, {"form": "raw", "resize": 256}
PLI = {"form": "pli", "tier": "small", "resize": 256}


def test_a_plan_of_the_training_size_is_no_single_form():
    found = setting(jpeg=(800, 800), pli=(2000, 2000)) | {"mixes": {}}
    found["cells"].append({"way": "mix of all, training size", "fraction": 4.0, "rate": 3000, "predicted": 2900})
    assert mix_accuracy.over_best_single(found, "mix of all, training size") == 1.5
    assert views_plans.best(views_plans.singles(found, pli=True)) == "pli"


def test_the_table_shows_the_plan_of_the_training_size():
    own = setting(jpeg=(800, 800)) | {"mixes": {"all": {"jpeg": 1.0}}, "cores": 1, "storage": 4e8}
    assert len(views_plans.mixes_of_all({"groups": {"a": {"few": own}}})[0].split("|")) == 9
    small = setting(jpeg=(800, 800)) | {"mixes": {"all": {"jpeg": 1.0}, views_plans.SMALL: {"raw@256": 0.75, "jpeg": 0.25}},
                                        "cores": 1, "storage": 4e8}  # fmt: skip
    small["cells"].append({"way": f"mix of {views_plans.SMALL}", "fraction": 4.0, "rate": 1600, "predicted": 1600})
    lines = views_plans.mixes_of_all({"groups": {"a": {"few": own}, "b": {"few": small}}})
    assert lines[2].endswith("||||") and lines[3].endswith("|75 % raw@256, 25 % jpeg|1600|")


@pytest.fixture
def mix():
    pytest.importorskip("penstock")
    return load("mix", "mix")


def test_what_a_plan_stores_in_each_form(mix):
    classes = [{"samples": 30, "ways": [{"share": 0.5, "store": [{"form": "jpeg"}]}, {"share": 0.5, "store": [SMALL]}]},
               {"samples": 10, "ways": [{"share": 1.0, "store": [PLI, RAW]}]}]  # fmt: skip
    assert mix.shares_stored(argparse.Namespace(data={"classes": classes})) == {
        "jpeg": 0.375, "raw@256": 0.375, "pli-small@256": 0.25}  # fmt: skip
    assert mix.SMALL == views_plans.SMALL


def test_groups_without_a_resize_have_no_plan_of_the_training_size(mix, tmp_path):
    assert mix.store_planned(tmp_path, tmp_path / "x.pst", mix.GROUPS["imagenet"], 1, 1e6, "3s") is None
