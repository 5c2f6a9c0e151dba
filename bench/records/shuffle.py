"""Measures how well an epoch's order is shuffled, relative to a random permutation of the whole set.

A sample is named by its place in storage, 0 to n - 1. Figures of an order:

    displacement   mean distance of a sample's position from its place in storage, divided by that of a random permutation (n / 3):
                   1 is as good as random, 0 is the order of storage
    serial         correlation of the places of samples that follow each other: 0 is random, 1 is the order of storage
    repeats        correlation of a sample's positions in two epochs: 0 is random, 1 is the same order again
    entropy        mean entropy of the classes in a batch, divided by that of batches of random permutations
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RANDOM_ORDERS = 50
Order = Sequence[int]


def displacement(order: Order) -> float:
    n = len(order)
    return float(np.abs(np.asarray(order) - np.arange(n)).mean() / ((n * n - 1) / (3 * n)))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def serial(order: Order) -> float:
    return correlation(np.asarray(order[:-1]), np.asarray(order[1:]))


def repeats(first: Order, second: Order) -> float:
    """Returns the correlation of positions in two epochs. Both orders must have the same samples."""
    return correlation(np.argsort(first), np.argsort(second))


def batch_entropy(order: Order, classes: np.ndarray, batch: int) -> float:
    """Returns the mean entropy of the classes in whole batches, in bits."""
    found = []
    for start in range(0, len(order) - batch + 1, batch):
        shares = np.bincount(classes[np.asarray(order[start : start + batch])]) / batch
        shares = shares[shares > 0]
        found.append(float(-(shares * np.log2(shares)).sum()))
    return float(np.mean(found))


def entropy(order: Order, classes: np.ndarray, batch: int) -> float:
    rng = np.random.default_rng(1)
    random = np.mean([batch_entropy(rng.permutation(len(order)), classes, batch) for _ in range(RANDOM_ORDERS)])
    return batch_entropy(order, classes, batch) / float(random)


def quality(orders: list[Order], classes: np.ndarray, batch: int) -> dict[str, float]:
    """Returns the means over epochs; `repeats` compares each epoch with the next one."""
    found = {"displacement": np.mean([displacement(order) for order in orders]),
             "serial": np.mean([serial(order) for order in orders]),
             "entropy": np.mean([entropy(order, classes, batch) for order in orders])}
    if len(orders) > 1:
        found["repeats"] = np.mean([repeats(a, b) for a, b in zip(orders, orders[1:], strict=False)])
    return {name: round(float(value), 3) for name, value in found.items()}
