"""Finds the steady part of a measurement and its confidence interval. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t by degrees of freedom, 1 to 30.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def t95(freedom: int) -> float:
    """Returns the 97.5 % quantile of Student's t."""
    if freedom < 1:
        return math.inf
    return _T95[freedom - 1] if freedom <= len(_T95) else 1.96 + 2.5 / freedom


def warm_up(values: Sequence[float]) -> int:
    """Returns how many values at the front belong to the warm-up, at most half of them.

    MSER (White, "An Effective Truncation Heuristic for Bias Reduction in Simulation Output", Simulation 69(6), 1997): drops the
    front so that the mean of the rest has the smallest standard error.
    """
    n = len(values)
    best, best_error = 0, math.inf
    total = squares = 0.0
    for start in range(n - 1, -1, -1):
        total += values[start]
        squares += values[start] ** 2
        left = n - start
        if left < max(2, (n + 1) // 2):
            continue
        error = max(squares - total * total / left, 0.0) / left**2
        if error <= best_error:
            best, best_error = start, error
    return best


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def batch_means(values: Sequence[float], n_groups: int = 10) -> Interval:
    """Returns the mean and its confidence interval by the method of batch means.

    Neighbouring values depend on each other (a slow batch is followed by ready ones). So the values are joined to up to `n_groups`
    groups of neighbours, whose means are nearly independent.
    """
    n = len(values)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan)
    mean = sum(values) / n
    groups = min(n_groups, n)
    if groups < 2:
        return Interval(mean, -math.inf, math.inf)
    means = []
    for i in range(groups):
        part = values[i * n // groups : (i + 1) * n // groups]
        means.append(sum(part) / len(part))
    center = sum(means) / groups
    spread = math.sqrt(sum((m - center) ** 2 for m in means) / (groups - 1) / groups)
    half = t95(groups - 1) * spread
    return Interval(mean, mean - half, mean + half)


def windows_band(means: Sequence[float]) -> float:
    """Returns two standard deviations of the means of several time windows, relative to their mean; 0 for fewer than two windows.

    A later run is one more window. So this is how far it may deviate from the mean, in addition to the interval within a window.
    """
    n = len(means)
    center = sum(means) / n if n else 0.0
    if n < 2 or center <= 0:
        return 0.0
    return 2 * math.sqrt(sum((m - center) ** 2 for m in means) / (n - 1)) / center


@dataclass(frozen=True)
class Rate:
    """Samples per second over the steady part of a run of batches.

    Attributes:
        samples_per_second, low, high: the rate and its 95 % interval.
        batches, dropped: number of batches measured, and number of warm-up batches before them.
        seconds: total time of the measured batches.
        sd_seconds: standard deviation of a batch's time.
    """

    samples_per_second: float
    low: float
    high: float
    batches: int
    dropped: int
    seconds: float
    sd_seconds: float


def rate_of(seconds: Sequence[float], samples: Sequence[int]) -> Rate:
    """Returns the rate of batches that took `seconds` each and had `samples` samples each."""
    per_sample = [s / max(n, 1) for s, n in zip(seconds, samples, strict=True)]
    start = warm_up(per_sample)
    kept, kept_samples = list(seconds[start:]), list(samples[start:])
    total, count = sum(kept), sum(kept_samples)
    if not kept or total <= 0 or count == 0:
        return Rate(math.nan, math.nan, math.nan, 0, start, 0.0, 0.0)
    interval = batch_means(per_sample[start:])
    half = (interval.high - interval.mean) / interval.mean if interval.mean > 0 else math.inf
    rate = count / total
    mean = total / len(kept)
    deviation = math.sqrt(sum((s - mean) ** 2 for s in kept) / max(len(kept) - 1, 1))
    low = rate / (1 + half) if math.isfinite(half) else 0.0
    high = rate / (1 - half) if half < 1 else math.inf
    return Rate(rate, low, high, len(kept), start, total, deviation)
