"""Updates the costs in a report with those that a training run has shown, for predictions and plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..data.image import stored_form
from ..errors import ArgumentError

_PREPARATION = ("fetch", "decode", "augment", "batch", "keep")
_KNOWN = 500.0  # number of samples after which learnt costs weigh as much as the measured ones
_MOST = 5.0  # largest factor that is believed; with a larger one, something else was measured
_MEMBERS = ("cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds")


def learned(report: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data of a report, updated with the costs that a loader's ``stats()`` show.

    The time of all forms is scaled by the measured over the predicted worker time of a sample, weighted by the number of samples.
    The storage rate is replaced if waiting for storage was the largest part of the stalls.
    """
    n = int(stats["stages"]["fetch"]["count"])
    if n == 0:
        raise ArgumentError("nothing was learnt: the loader has not prepared a sample")
    data: dict[str, Any] = json.loads(json.dumps(report))
    weight = n / (n + _KNOWN)
    found: dict[str, Any] = {"samples": n}
    spent = sum(stats["stages"][name]["work"] for name in _PREPARATION) / n
    cores = float(data["machine"]["cores"])
    speed = float(data["machine"].get("core_speed", 1.0))
    expected = _expected(data, stats) / speed
    factor = spent / expected if expected > 0 else 1.0
    if stats["workers"] > cores + 0.5:
        found["note"] = f"{stats['workers']} workers shared {cores:g} cores: their time says nothing of costs"
    elif not 1 / _MOST < factor < _MOST:
        found["note"] = f"a sample took {factor:.2g} times what the report says: these are other samples or operations"
    else:
        found["cpu_factor"] = factor
        for places in data["forms"].values():
            for place, costs in places.items():
                if place == "cpu":
                    costs.update({m: costs[m] * (1 + weight * (factor - 1)) for m in _MEMBERS if m in costs})
    storage = stats["storage"]
    if stats["step"]["window"]["cause"] == "fetch" and storage["seconds"] > 0 and storage["nbytes_read"] > 0:
        rate = storage["nbytes_read"] / storage["seconds"]
        before = data["machine"].get("storage_nbytes_per_second") or rate
        data["machine"]["storage_nbytes_per_second"] = before * (1 - weight) + rate * weight
        found["storage_nbytes_per_second"] = rate
    data["learned"] = [*data.get("learned", []), found]
    return data


def _expected(data: Mapping[str, Any], stats: Mapping[str, Any]) -> float:
    """Returns the core-seconds of a sample that the report predicts for the loader's mix of forms and cache hits."""
    cache = stats["cache"]
    looked = cache["hits"] + cache["misses"]
    hits = cache["hits"] / looked if looked else 0.0
    rows = {name: row["rows"] for name, row in stats["forms"]["by_form"].items() if row["rows"]}
    rows = {form: sum(n for name, n in rows.items() if stored_form(name) == stored_form(form)) for form in data["forms"]}
    rows = {form: n for form, n in rows.items() if n} or {data["subject"]["form"]: 1}
    whole = sum(rows.values())
    costs = {form: data["forms"].get(form, {}).get("cpu", {}) for form in rows}
    return float(
        sum(
            n / whole * (hits * (costs[form].get("hit_cpu_seconds") or costs[form].get("cpu_seconds", 0.0))
                         + (1 - hits) * costs[form].get("cpu_seconds", 0.0))
            for form, n in rows.items()
        )
    )  # fmt: skip
