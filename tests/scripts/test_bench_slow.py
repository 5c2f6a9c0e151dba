"""The comparison of loaders with and without slow samples: its results from rates and processor times. Figures are invented."""

import pytest

from bench_modules import load

slow_samples = load("loader", "slow_samples")


def runs(with_rate, without_rate, with_cpu_ms, without_cpu_ms, wall_s=2.0):
    def one(rate, cpu_ms):
        return {"images_per_s": rate, "wall_s": wall_s, "cpu_s": cpu_ms * rate * wall_s / 1e3, "cpu_ms": cpu_ms, "held_up": 0.25,
                "longest_s": 0.5}

    return {"with": [one(with_rate, with_cpu_ms)] * 3, "without": [one(without_rate, without_cpu_ms)] * 3}


def cells(workers):
    return {"torch": slow_samples.summed("torch", runs(300, 600, 4.0, 3.0), workers, 2),
            "penstock": slow_samples.summed("penstock", runs(1500, 2000, 1.0, 0.75), workers, 2)}


def test_a_loader_is_compared_with_itself():
    found = cells(2)
    assert (found["torch"]["keeps"], found["torch"]["decoding"], found["torch"]["order"]) == (0.5, 0.75, 0.667)
    assert (found["penstock"]["keeps"], found["penstock"]["decoding"], found["penstock"]["order"]) == (0.75, 0.75, 1.0)
    assert found["torch"]["busy"] == pytest.approx(4.0 * 300 / 1e3 / 2)


def test_more_workers_than_cores_have_no_more_processor_time():
    assert cells(8)["torch"]["busy"] == cells(2)["torch"]["busy"]


def test_the_goal_is_judged_by_what_is_kept_and_decoding_is_apart():
    assert slow_samples.beside(cells(4), "penstock") == {"loader": "penstock", "workers": 4, "keeps": 1.5, "rates": 5.0,
                                                         "decoding_alone": 3.33}


def test_long_waits_are_those_beyond_twice_the_median():
    assert slow_samples.held_up([1.0, 1.0, 1.0, 2.0]) == 0
    assert slow_samples.held_up([1.0, 1.0, 1.0, 1.0, 4.0]) == 0.5


def test_the_table_has_both_parts():
    found = {"machine": {"cores": 2}, "cells": {"4": cells(4)}, "beside": [slow_samples.beside(cells(4), "penstock")]}
    text = slow_samples.table(found)
    assert text.startswith("| loader, 4 workers on 2 cores")
    assert "| torch DataLoader + Pillow, in order | 300 | 600 | 0.50 | 0.75 | 0.67 | 25% | 0.50 | 0.60 |" in text
    assert "| Penstock, prefetch 4 | 4 | 1.50 | 5.00 | 3.33 |" in text
