"""The steady part of a measurement: warm-ups are found, intervals cover the truth as often as they say."""

from __future__ import annotations

import math
import random

import pytest

from penstock.stalls.measure import steady


def test_warm_up_is_found() -> None:
    rng = random.Random(1)
    flat = [1 + 0.05 * rng.random() for _ in range(60)]
    assert steady.warm_up([5.0, 3.0, 2.0, *flat]) in range(3, 12)
    assert steady.warm_up([0.01] * 6 + flat) in range(6, 14)  # the first six batches were prepared before
    assert steady.warm_up(flat) <= 30
    assert steady.warm_up([1.0]) == 0 and steady.warm_up([]) == 0


def test_rate_drops_the_warm_up() -> None:
    rate = steady.rate_of([1.0, 1.0] + [0.1] * 20, [10] * 22)
    assert rate.samples_per_second == pytest.approx(100) and rate.dropped == 2 and rate.batches == 20
    assert rate.low <= 100 <= rate.high


def test_samples_of_different_batches_count() -> None:
    assert steady.rate_of([0.1, 0.1, 0.1, 0.1], [10, 10, 10, 10]).samples_per_second == pytest.approx(100)
    assert math.isnan(steady.rate_of([], []).samples_per_second)


def test_interval_covers_the_mean_of_values_that_depend_on_their_neighbours() -> None:
    rng = random.Random(2)
    covered = 0
    for _ in range(300):
        values, level = [], 0.0
        for _ in range(200):
            level = 0.5 * level + rng.gauss(0, 1)
            values.append(10 + level)
        interval = steady.batch_means(values)
        covered += interval.low <= 10 <= interval.high
    assert 0.88 < covered / 300 < 0.99  # 0.95 is expected; the margin is for the sampling error


def test_the_band_of_windows_is_two_standard_deviations() -> None:
    assert steady.windows_band([]) == steady.windows_band([3.0]) == steady.windows_band([0.0, 0.0]) == 0
    assert steady.windows_band([2.0, 2.0, 2.0]) == 0
    assert steady.windows_band([1.0, 3.0]) == pytest.approx(2 * 2**0.5 / 2)
    rng = random.Random(3)
    many = [rng.gauss(10, 0.5) for _ in range(4000)]
    band = steady.windows_band(many)
    inside = sum(abs(value / 10 - 1) <= band for value in many) / len(many)
    assert band == pytest.approx(0.1, rel=0.05) and inside == pytest.approx(0.954, abs=0.015)


def test_t_quantiles() -> None:
    assert steady.t95(1) == 12.706 and steady.t95(30) == 2.042 and math.isinf(steady.t95(0))
    assert steady.t95(1000) == pytest.approx(1.962, abs=0.003)
