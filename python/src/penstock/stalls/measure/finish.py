"""What follows from the measurements of an analysis: stalls by difference, the model's check, and the ranks."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from .. import accelerators, model
from ..accelerators import Accelerator
from ..report import Report


def accelerator_of(given: Accelerator | str | float | None, batch_size: int) -> Accelerator | None:
    """Returns the accelerator that is named, or that takes so many samples/s; None: none."""
    if given is None or isinstance(given, Accelerator):
        return given
    if isinstance(given, str):
        return accelerators.by_name(given)
    return accelerators.of_rate(float(given), batch_size)


def half(low: float, high: float, mean: float) -> float:
    """Returns half of an interval as a part of its mean, 0.5 where that is not known."""
    if not (math.isfinite(low) and math.isfinite(high)) or mean <= 0:
        return 0.5
    return (high - low) / 2 / mean


def finished(data: dict[str, Any]) -> Report:
    """Returns the report, with what follows from the measurements: stalls by difference, the model's check, and the ranks."""
    rates = {name: phase["samples_per_second"] for name, phase in data["phases"].items()}
    data["stall"] = stalls(rates)
    data["check"] = _check(data, rates)
    data["ranks"] = _ranks(data)
    return Report(data)


def stalls(rates: dict[str, float]) -> dict[str, dict[str, float]]:
    """Returns for "warm" and "cold" the parts of a sample's time: compute, upload, prepare, fetch."""
    found: dict[str, dict[str, float]] = {}
    if not {"resident", "prepared", "warm"} <= rates.keys():
        return found
    for name in ("warm", "cold"):
        if name not in rates:
            continue
        whole = 1 / rates[name]
        own, prepared, warm = (1 / rates[phase] for phase in ("resident", "prepared", "warm"))
        own = min(own, whole)
        upload = min(max(prepared - own, 0.0), whole - own)
        prepare = min(max(min(warm, whole) - own - upload, 0.0), whole - own - upload)
        fetch = max(whole - own - upload - prepare, 0.0)
        found[name] = {"compute": own / whole, "upload": upload / whole, "prepare": prepare / whole, "fetch": fetch / whole}
    return found


def _check(data: dict[str, Any], rates: dict[str, float]) -> dict[str, dict[str, float]]:
    """Compares the model with the phases that it was not made from."""
    found = {}
    questions: dict[str, dict[str, Any]] = {
        "warm": {"cache": float(data["subject"]["nbytes"]) * 4 + 1, "ranks": 1},
        "cold": {"cache": 0, "page_cache": 0, "ranks": 1},
    }
    for name, question in questions.items():
        if name in rates and data["accelerator"]["step_seconds"] > 0:
            # Cores that other processes took were not there to be used.
            left = max(data["machine"]["cores"] - data["phases"][name]["other_cores"], 0.1)
            predicted = model.predict(
                data, {**question, "cores": left, "workers": data["subject"]["workers"]}
            ).samples_per_second
            found[name] = {"predicted": predicted, "measured": rates[name], "error": predicted / rates[name] - 1, "cores": left}
    return found


def _ranks(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Collects the phases of all ranks, and tells waiting for gradients from computing.

    The step of the phase "resident" has every rank at the same pace, so it is computing. What a step takes longer in "warm" or
    "cold" is waiting for the slowest rank: the one that waits longest for its data and least for the others.
    """
    mine = {
        name: {key: phase[key] for key in ("samples_per_second", "wait_seconds_per_batch", "step_seconds")}
        for name, phase in data["phases"].items()
    }
    distributed = sys.modules.get("torch.distributed")
    if (
        not distributed
        or not distributed.is_available()
        or not distributed.is_initialized()
        or distributed.get_world_size() < 2
    ):
        return []
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, mine)
    return ranks_of(gathered)


def ranks_of(gathered: Sequence[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Returns for each rank and phase: computing, waiting for gradients, waiting for data, in seconds of a step."""
    found: list[dict[str, Any]] = []
    for rank, phase_of in enumerate(gathered):
        own = phase_of.get("resident", {}).get("step_seconds", 0.0)
        entry: dict[str, Any] = {"rank": rank, "phases": {}}
        for name in ("warm", "cold"):
            if name in phase_of:
                step = phase_of[name]["step_seconds"]
                entry["phases"][name] = {
                    "compute_seconds": min(own, step),
                    "gradient_wait_seconds": max(step - own, 0.0),
                    "data_wait_seconds": phase_of[name]["wait_seconds_per_batch"],
                }
        found.append(entry)
    for name in ("warm", "cold"):
        there = [entry for entry in found if name in entry["phases"]]
        if len(there) < 2:
            continue
        slowest = max(there, key=lambda entry: entry["phases"][name]["data_wait_seconds"])
        slowest["phases"][name]["straggler"] = True
    return found
