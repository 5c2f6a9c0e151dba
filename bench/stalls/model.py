"""Computes stalls by the what-if model of penstock.analyze, from the measured costs of a way of loading.

The time of a sample is split as DS-Analyzer does it: t_g of the step alone, t_p with preparation, t also with fetching.

Penstock's cache evicts nothing, so misses are spread evenly over an epoch. The page cache evicts at random (docs/internals/
stall-model.md): an item that is wanted at the place v of an epoch (0 to 1) is still there with the probability
exp(-s v) (1 - exp(-s)) / s, with s = (1 - h) / x. So hits come early in an epoch and misses late, and an epoch that waits for
cores in the beginning and for storage in the end takes longer than the mean of its misses says. The epoch is cut into slices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

SLICES = 16


@dataclass(frozen=True)
class Costs:
    """Costs of one sample in a loader: CPU seconds, bytes that it reads on a miss, and bytes of the whole item."""

    cpu_seconds: float
    nbytes: float
    item_nbytes: float


@dataclass(frozen=True)
class Place:
    """One accelerator's share of a machine: cores, and bytes/s of storage (0: no limit)."""

    cores: float
    storage: float


@dataclass(frozen=True)
class Split:
    """The shares of an epoch's time, which add up to 1, and its rate."""

    samples_per_second: float
    compute: float
    prepare: float
    fetch: float


def split(step: float, prepared: float, whole: float) -> Split:
    """Splits the seconds of a sample: the step alone, with preparation, and with fetching, too. Noise of measurements makes no
    share negative.
    """
    prepared = min(max(prepared, step), max(whole, step))
    whole = max(whole, prepared)
    return Split(1 / whole, step / whole, (prepared - step) / whole, (whole - prepared) / whole)


def page_hits(x: float) -> float:
    """Returns the share of an epoch's samples that hits a page cache with room for the part x of the set."""
    if x >= 1:
        return 1.0
    hits = x
    for _ in range(200):
        s = (1 - hits) / x
        hits = ((1 - math.exp(-s)) / s) ** 2
    return hits


def page_misses(x: float, slices: int = SLICES) -> list[float]:
    """Returns the share of misses in each slice of an epoch: the mean over the slice of 1 - exp(-s v) (1 - exp(-s)) / s."""
    if x >= 1:
        return [0.0] * slices
    s = (1 - page_hits(x)) / x
    return [1 - (math.exp(-s * i / slices) - math.exp(-s * (i + 1) / slices)) * slices / s * (1 - math.exp(-s)) / s
            for i in range(slices)]  # fmt: skip


def cache_misses(x: float, costs: Costs, original: float) -> list[float]:
    """Returns the share of misses for a cache that evicts nothing and has room for the part x of the original items."""
    return [max(0.0, 1 - x * original / costs.item_nbytes)]


def report_of(costs: Costs, place: Place, rate: float, batch: int) -> Any:
    """Returns the report that an analysis with these measurements would make."""
    from penstock.report import KIND, VERSION, Report

    return Report({
        "kind": KIND, "version": VERSION,
        "subject": {"loader": "penstock", "path": "", "samples": 1_000_000, "nbytes": 1_000_000 * costs.item_nbytes, "form": "way",
                    "decode": "cpu", "batch_size": batch, "prefetch": 2, "workers": math.ceil(place.cores),
                    "workers_follow_cores": True, "batch_cpu_seconds": 0.0, "ranks": 1, "jobs": 1},
        "machine": {"cores": place.cores, "storage_nbytes_per_second": place.storage, "cache_nbytes": 0, "page_cache_nbytes": 0},
        "accelerator": {"name": "step", "step_seconds": batch / rate if rate else 0.0, "limit": 0.9},
        "forms": {"way": {"cpu": {"cpu_seconds": costs.cpu_seconds, "nbytes": costs.nbytes, "item_nbytes": costs.item_nbytes,
                                  "reads": 1.0}}},
        "bands": {"cpu_band": 0.03, "storage_band": 0.0, "step_band": 0.0},
        "measured": {}, "stages": [], "phases": {}, "check": {}, "stall": {}, "notes": [],
    })  # fmt: skip


def predict(costs: Costs, place: Place, rate: float, misses: list[float], batch: int) -> Split:
    """Returns the stalls of an epoch. rate 0: no step. misses: share of misses in each of the epoch's equal slices."""

    def seconds(part: float) -> float:  # a sample's seconds; only the part that misses needs storage
        asked = Place(place.cores, place.storage / part if part > 0 else 0.0)
        return 1 / float(report_of(costs, asked, rate, batch).whatif().samples_per_second)

    known = {part: seconds(part) for part in {0.0, *misses}}
    return split(1 / rate if rate else 0.0, known[0.0], sum(known[part] for part in misses) / len(misses))


def cores_to_hide(costs: Costs, rate: float) -> float:
    """Returns the number of cores whose preparation is as fast as the accelerator."""
    return rate * costs.cpu_seconds
