"""Mixes of forms: which single forms they are compared with, and how near the predictions of plans are."""

import json

from bench_modules import BENCH, load

mix_accuracy = load("mix", "mix_accuracy")
RESULTS = BENCH / "results" / "mix_zen4-2026-11-27.json"


def setting(**rates):
    """Returns a setting of one accelerator; a rate is (measured, predicted)."""
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
