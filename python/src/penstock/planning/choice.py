"""Chooses the plan: the solved mix of forms, the same forms in equal shares, or a single form, whichever is predicted to be best.

The linear programme ignores variance. If a mix keeps storage and cores equally busy, each sometimes waits for the other, and a plan
that leaves one of them some slack may be faster. So these candidates are compared by the predictions that a plan prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..stalls import model
from . import ways as _ways
from .classes import Class


def best_of(
    solved: _ways.Solution,
    alone: Iterable[_ways.Solution],
    report: Mapping[str, Any],
    classes: Sequence[Class],
    limits: _ways.Limits,
    copies: bool,
) -> _ways.Solution:
    """Returns the best of three kinds of plans: the solved plan, its forms in equal shares, and plans with a single form.

    A single form is chosen unless a mix is predicted to be faster by more than the uncertainty of the costs (MIX_WORTH). If the
    solved plan has a single form, another form must be faster by as much to replace it. For goals other than the rate, the solver's
    plan is returned.
    """
    if limits.goal != "rate":
        return solved
    single = max(alone, key=lambda one: rate_of(one, report, classes, copies), default=solved)
    if not _ways.is_mix(solved):
        is_better = (1 - _ways.MIX_WORTH) * rate_of(single, report, classes, copies) > rate_of(solved, report, classes, copies)
        return single if is_better else solved
    equal = even(solved, report, classes, limits)
    mix = max((one for one in (solved, equal) if one is not None), key=lambda one: rate_of(one, report, classes, copies))
    worth = (1 - _ways.MIX_WORTH) * rate_of(mix, report, classes, copies)
    return mix if rate_of(single, report, classes, copies) < worth else single


def rate_of(solution: _ways.Solution, report: Mapping[str, Any], classes: Sequence[Class], copies: bool) -> float:
    """Returns the predicted samples/s of a plan."""
    answer, _ = _ways.predict(report, _ways.mixed(solution, classes, copies), _ways.is_mix(solution))
    return float(answer["samples_per_second"])


def even(
    solved: _ways.Solution, report: Mapping[str, Any], classes: Sequence[Class], limits: _ways.Limits
) -> _ways.Solution | None:
    """Returns the plan in which the ways of each class have equal shares. Returns None if the solved plan uses caches or GPUs, or
    if the new plan would exceed limits."""
    ways = list(solved.used())
    if any(way.cache_form or way.place != "cpu" for way, _ in ways):
        return None
    count = {i: sum(way.i_class == i for way, _ in ways) for i in range(len(classes))}
    shares = [1 / count[way.i_class] if share > 0 else 0.0 for way, share in zip(solved.ways, solved.shares, strict=True)]
    made = replace(solved, shares=shares)
    there = {name: amount for name, amount in _ways.capacities(report, limits).items() if name not in ("cache", "accelerator")}
    whole = float(sum(part.samples for part in classes))
    parts = [(classes[way.i_class].samples / whole * share, way) for way, share in made.used()]
    seconds = {name: sum(p * way.demands.get(name, 0.0) for p, way in parts) / amount for name, amount in there.items()}
    stored = whole * sum(p * way.stored_nbytes for p, way in parts)
    slowest = max(seconds.values())
    rate = min(1 / slowest, _ways.capacities(report, limits).get("accelerator", float("inf")))
    if 0 < limits.stored_nbytes < stored or rate < limits.least_rate:
        return None
    binding = sum(1 << i for i, name in enumerate(model.RESOURCES) if seconds.get(name, 0.0) > (1 - 1e-5) * slowest)
    answer = {**solved.answer, "samples_per_second": rate, "stored_nbytes": stored, "binding": binding, "quota_binds": False}
    return replace(made, answer=answer)
