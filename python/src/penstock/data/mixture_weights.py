"""Checks the weights of a mixture's sources, and computes the shares of nested mixtures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..base import options
from ..errors import ArgumentError

STOPS = ("all_exhausted", "first_exhausted", "endless")  # enum pst_source_stop
ENDLESS = STOPS.index("endless")
QUOTAS = ("batch", "epoch")
_QUOTA_EPOCH = 2**32 - 1  # PST_QUOTA_EPOCH

Weights = Mapping[str, float] | Sequence[float]


class Rule(NamedTuple):
    """How a loader draws from the sources of a mixture. weights: one for each source, as given; None: each sample comes once."""

    weights: tuple[float, ...] | None
    stop: str
    quota: int | str

    def to_options(self, batch_size: int) -> dict[str, int]:
        """Returns the options of the C library for stop and quota."""
        quota = batch_size if self.quota == "batch" else _QUOTA_EPOCH if self.quota == "epoch" else int(self.quota)
        return {"source_quota": quota, "source_stop": STOPS.index(self.stop)}


def rule(weights: Any, stop: Any, quota: Any, names: Sequence[str], numbered: bool) -> Rule:
    """Checks weights, stop and quota of a mixture. names: of its sources; numbered: the user gave the sources as a list."""
    options.choice("stop", stop, STOPS)
    if isinstance(quota, str):
        options.choice("quota", quota, QUOTAS)
    else:
        quota = options.count("quota", quota, 1, _QUOTA_EPOCH - 1)
    if weights is None:
        if stop != STOPS[0] or quota != QUOTAS[0]:
            raise ArgumentError("stop and quota are for a mixture with weights; without them each sample comes once")
        return Rule(None, stop, quota)
    return Rule(numbers(weights, names, numbered), stop, quota)


def numbers(weights: Any, names: Sequence[str], numbered: bool) -> tuple[float, ...]:
    """Returns one weight for each source, in the order of the sources."""
    if isinstance(weights, Mapping):
        if numbered:
            raise ArgumentError("weights is a list, one for each source, because the sources are a list")
        unknown = [name for name in weights if name not in names]
        missing = [name for name in names if name not in weights]
        if unknown:
            raise ArgumentError(f"weights: there is no source {unknown[0]!r}{options.nearest(str(unknown[0]), list(names))}")
        if missing:
            raise ArgumentError(f"weights: source {missing[0]!r} has none; 0 leaves it out of the draws")
        given = [weights[name] for name in names]
    elif isinstance(weights, (str, bytes)) or not hasattr(weights, "__iter__"):
        raise ArgumentError(f"weights are numbers, one for each source, not {weights!r}")
    else:
        given = list(weights)
        if len(given) != len(names):
            raise ArgumentError(f"there are {len(given)} weights and {len(names)} sources")
    found = tuple(_number(value, name) for value, name in zip(given, names, strict=True))
    if not 0 < sum(found) < math.inf:
        raise ArgumentError(f"the weights' sum is {sum(found):g}: it is above 0, and finite")
    return found


def _number(value: Any, name: str) -> float:
    try:
        number = float("nan") if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 <= number < math.inf:
        raise ArgumentError(f"source {name!r} has the weight {value!r}: weights are finite numbers, 0 or more")
    return number


class Share(NamedTuple):
    """`n` samples of a mixture, beginning with number `first`, that share one weight."""

    name: str
    first: int
    n: int
    weight: float  # the fraction of all draws; all weights add up to 1


def shares(mixture: Any, weights: Sequence[float], first: int = 0, scale: float = 1, prefix: str = "") -> list[Share]:
    """Returns the shares of a mixture's sources for these weights; they add up to `scale`. A source that is itself a mixture with
    weights becomes several shares: its own weights divide its share."""
    found: list[Share] = []
    for i, (source, weight) in enumerate(zip(mixture._sources, weights, strict=True)):
        name, part = prefix + mixture._name_of(i), weight / sum(weights) * scale
        inner: tuple[float, ...] | None = source._rule.weights if is_weighted(source) else None
        if inner is not None:
            found += shares(source, inner, first, part, name + "/")
        else:
            found.append(Share(name, first, source._count, part))
        first += source._count
    return found


def is_weighted(dataset: Any) -> bool:
    """Whether a data set is a mixture with weights, or a view of one."""
    found: Rule | None = getattr(dataset, "_rule", None)
    return found is not None and found.weights is not None


def unweighted(dataset: Any) -> Any:
    """Returns the data set, or, for a mixture with weights, the same mixture without weights."""
    return dataset._unweighted() if is_weighted(dataset) else dataset


def check_filled(found: Sequence[Share], view: Any) -> None:
    """Raises ArgumentError if a source with a weight has no sample, or none in the view. view: sample numbers, or None."""
    import numpy as np

    counts = [share.n for share in found]
    if view is not None:
        ends = [share.first for share in found] + [found[-1].first + found[-1].n]
        placed = np.sort(np.asarray(view, np.uint64))
        counts = np.diff(np.searchsorted(placed, np.asarray(ends, np.uint64))).tolist()
    for share, count in zip(found, counts, strict=True):
        if share.weight > 0 and count == 0:
            raise ArgumentError(
                f"source {share.name!r} has a weight, and no samples"
                f"{' among those that are used' if share.n else ''}: give it the weight 0, or leave it out"
            )
