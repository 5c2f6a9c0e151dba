"""Weights of a mixture's sources: their checks, and the shares of nested ones."""

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
    """How the sources of a mixture are drawn. weights: one for each source, as they were given; None: each sample once."""

    weights: tuple[float, ...] | None
    stop: str
    quota: int | str

    def to_options(self, batch_size: int) -> dict[str, int]:
        """Returns the options of the C library that go with the weights."""
        quota = batch_size if self.quota == "batch" else _QUOTA_EPOCH if self.quota == "epoch" else int(self.quota)
        return {"source_quota": quota, "source_stop": STOPS.index(self.stop)}


def rule(weights: Any, stop: Any, quota: Any, names: Sequence[str], numbered: bool) -> Rule:
    """Checks the arguments of a mixture whose sources have these names; numbered: the user gave the sources as a list."""
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
    """Returns one weight for each source, in their order."""
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
    """`n` samples of a mixture, from number `first` on, that share one weight."""

    name: str
    first: int
    n: int
    weight: float  # of a sum of 1


def shares(mixture: Any, weights: Sequence[float], first: int = 0, scale: float = 1, prefix: str = "") -> list[Share]:
    """Returns the shares of a mixture's sources by these weights; their sum is `scale`. A source that is itself a mixture with
    weights has several shares: its own weights divide what it gets."""
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
    """True for a mixture with weights, or a view of one."""
    found: Rule | None = getattr(dataset, "_rule", None)
    return found is not None and found.weights is not None


def unweighted(dataset: Any) -> Any:
    """Returns the data set; of a mixture with weights, a mixture that gives each of its samples once."""
    return dataset._unweighted() if is_weighted(dataset) else dataset


def check_filled(found: Sequence[Share], view: Any) -> None:
    """Raises ArgumentError if a source has a weight but no sample, or no sample in the view. view: array of sample numbers."""
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
