"""Computes whether re-coding images for a plan's cache pays: its cost, what it saves in each later epoch, and the number of epochs
after which it pays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..base.units import amount, duration
from . import ways as _ways
from .classes import Class


def loader_options(solution: _ways.Solution) -> dict[str, str]:
    """Returns when a Loader with the plan's cache re-codes. Idle workers re-code if the cache keeps whole images. Otherwise images
    are re-coded when they are admitted, which is the default."""
    return {"cache_recode": "idle"} if _ways.is_whole(solution.cache_form) else {}


def room_of(way: _ways.Way) -> float:
    """Returns the largest number of bytes of the cache that a sample takes. With idle re-coding, the sample is first kept as
    stored."""
    at_first = _ways.room_of(way.stored_nbytes, way.cache_form) if _ways.is_whole(way.cache_form) else 0.0
    return max(way.demands["cache"], at_first)


def section(solution: _ways.Solution, classes: Sequence[Class], limits: _ways.Limits) -> dict[str, Any] | None:
    """Returns the costs and savings of re-coding for a plan's file, for the form of the plan's cache, or for the form that would
    pay first. None: there is no cache, or no re-coding of whole images is possible.
    """
    planned = next((way.cache_form for way, _ in solution.used() if way.cache_form not in ("", "stored")), "")
    if limits.cache_nbytes <= 0 or (planned and not _ways.is_whole(planned)):
        return None
    forms = (planned,) if planned else _ways.CACHE_FORMS[1:]
    rows = [row for row in (_row(solution, classes, form) for form in forms) if row is not None]
    best = min(rows, key=lambda row: row["from_epochs"] or math.inf, default=None)
    return None if best is None else {**best, "is_planned": bool(planned)}


def _row(solution: _ways.Solution, classes: Sequence[Class], cache_form: str) -> dict[str, Any] | None:
    whole = cost = saved = 0.0
    for weight, once, less in _parts(solution, classes, cache_form):
        whole, cost, saved = whole + weight, cost + weight * once, saved + weight * less
    if whole <= 0:
        return None
    epochs = 1 + max(1, math.ceil(cost / saved - 1e-9)) if saved > 0 else None
    return {"form": cache_form, "cpu_seconds": cost / whole, "saved_cpu_seconds": saved / whole, "from_epochs": epochs}


def _parts(solution: _ways.Solution, classes: Sequence[Class], cache_form: str) -> Iterator[tuple[float, float, float]]:
    """Yields for groups of samples that can be re-coded: their number, the CPU seconds of re-coding one, and the CPU seconds that
    hits save per epoch."""
    for way, share in solution.used():
        part = classes[way.i_class]
        kept = _ways.kept_costs(part, way.form, way.place, cache_form)
        if kept is not None:
            stored = part.forms[way.form][way.place]
            once = _ways.recoding(part, kept, cache_form) / part.per_draw
            saved = (_ways.hit_of(stored) - _ways.hit_of(kept)) / part.per_draw  # per epoch, for all draws of a sample
            yield part.samples * part.per_draw * share, once, saved


def text(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines about re-coding in a plan's text."""
    found, epochs = data.get("recode"), data.get("epochs")
    if epochs:
        yield f"epochs     {amount(epochs)}; rates are the mean of {'it' if epochs == 1 else 'them'}, the first one included"
    if not found:
        return
    costs = f"{duration(found['cpu_seconds'])} of a core for an image, once"
    if found["saved_cpu_seconds"] <= 0 or not found["from_epochs"]:
        yield f"re-coding  none into the cache: as {found['form']} it takes {costs}, and saves nothing"
        return
    gain = f"saves {duration(found['saved_cpu_seconds'])} in each later epoch"
    worth = f"worth it from {amount(found['from_epochs'])} epochs on"
    if found["is_planned"]:
        who = "idle workers do it" if data["loader"].get("cache_recode") == "idle" else "when it is admitted"
        yield f"re-coding  into the cache as {found['form']}, {who}: takes {costs}, {gain}: {worth}"
        return
    why = f", and {amount(epochs)} planned" if epochs and epochs < found["from_epochs"] else " where the cores are the limit"
    yield f"re-coding  none into the cache: as {found['form']} it takes {costs}, and {gain}: {worth}{why}"
