"""Tests whether two lists of random draws have the same distribution: the two-sample tests of Kolmogorov-Smirnov and of chi-square.

Probabilities are those of Press et al., Numerical Recipes, 3rd edition, 14.3: Kolmogorov's series with Stephens' correction for
KS; the incomplete gamma function for chi-square, whose cells with fewer than 10 draws are merged into one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

FEW_VALUES = 40  # up to this number of different values, each value is counted by itself
LEAST_CELL = 10


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two lists of draws. `statistic`: D of KS, or chi-square over its degrees of freedom. `p`: the
    probability of a larger statistic, if both have one distribution."""

    test: str
    statistic: float
    p: float


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> Comparison:
    every = np.sort(np.concatenate([a, b]))
    below = [np.searchsorted(np.sort(part), every, side="right") / len(part) for part in (a, b)]
    distance = float(np.abs(below[0] - below[1]).max())
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    x = (root + 0.12 + 0.11 / root) * distance
    p = 1.0 if x < 0.2 else 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))
    return Comparison("KS", distance, min(max(p, 0.0), 1.0))


def chi_square(a: np.ndarray, b: np.ndarray) -> Comparison:
    values, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    counts = np.stack([np.bincount(part, minlength=len(values)) for part in (place[: len(a)], place[len(a) :])]).astype(float)
    few = counts.sum(0) < LEAST_CELL
    cells = np.concatenate([counts[:, ~few], counts[:, few].sum(1, keepdims=True)], 1) if few.any() else counts
    cells = cells[:, cells.sum(0) > 0]
    freedom = cells.shape[1] - 1
    if freedom == 0:
        return Comparison("equal", 0.0, 1.0)
    scale = math.sqrt(len(b) / len(a))
    total = float(((scale * cells[0] - cells[1] / scale) ** 2 / cells.sum(0)).sum())
    return Comparison("chi²", total / freedom, tail_of_chi_square(total, freedom))


def tail_of_chi_square(value: float, freedom: int) -> float:
    """Returns the probability of a larger chi-square: the incomplete gamma function, by recurrence from a half or 1 up to freedom /
    2.
    """
    x, a = value / 2, 0.5 if freedom % 2 else 1.0
    tail = math.erfc(math.sqrt(x)) if freedom % 2 else math.exp(-x)
    while a < freedom / 2:
        tail += math.exp(a * math.log(x) - x - math.lgamma(a + 1)) if x > 0 else 0.0
        a += 1
    return min(tail, 1.0)


def compare(a: Iterable[float], b: Iterable[float]) -> Comparison:
    """Uses KS for numbers with many different values, chi-square for few. NaN marks a draw that was not made; it is left out."""
    a, b = (np.asarray(list(part), np.float64) for part in (a, b))
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    few = len(np.unique(np.concatenate([a, b]))) <= FEW_VALUES
    return chi_square(a, b) if few else kolmogorov_smirnov(a, b)


class Classes:
    """Finds which of a list of outcomes a picture shows. Outcomes whose mean difference is less than a level form one class."""

    def __init__(self, outcomes: list[np.ndarray]) -> None:
        self.table = np.stack([np.asarray(outcome, np.float64).reshape(-1) for outcome in outcomes])
        near = self.distances(self.table) < 1.0
        self.class_of = near.argmax(1)  # the first outcome that is near enough

    def distances(self, pictures: np.ndarray) -> np.ndarray:
        """Returns the root mean square difference between each picture and each outcome, in levels."""
        norms = (pictures**2).mean(1)[:, None] + (self.table**2).mean(1)[None]
        return np.sqrt(np.maximum(norms - 2 * (pictures @ self.table.T) / self.table.shape[1], 0))

    def __call__(self, pictures: list[np.ndarray], most: float) -> np.ndarray:
        """Returns the class of each picture. A picture must be within `most` levels of its class."""
        found = self.distances(np.stack([np.asarray(picture, np.float64).reshape(-1) for picture in pictures]))
        assert found.min(1).max() <= most, found.min(1).max()
        return self.class_of[found.argmin(1)]
