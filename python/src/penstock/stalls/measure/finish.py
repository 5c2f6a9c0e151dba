"""Computes results from the measurements of an analysis: the stalls, the check of the model, and the comparison of ranks."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .. import accelerators, conclusion, model
from ..accelerators import Accelerator
from ..report import Report


def accelerator_of(given: Accelerator | str | float | None, batch_size: int) -> Accelerator | None:
    """Returns the accelerator that is given by name or by its samples/s; None if none is given."""
    if given is None or isinstance(given, Accelerator):
        return given
    if isinstance(given, str):
        return accelerators.by_name(given)
    return accelerators.of_rate(float(given), batch_size)


def half(low: float, high: float, mean: float) -> float:
    """Returns half the width of an interval relative to its mean; 0.5 if the interval is not known."""
    if not (math.isfinite(low) and math.isfinite(high)) or mean <= 0:
        return 0.5
    return (high - low) / 2 / mean


def finished(data: dict[str, Any], ranks: Sequence[dict[str, dict[str, float]]] | None = None) -> Report:
    """Returns the report with the results that follow from the measurements: stalls, the check of the model, and ranks.

    ranks: the phases of all ranks; None: they are gathered with torch.distributed if this process is one of its ranks.
    """
    gathered = _gathered(data) if ranks is None else list(ranks)
    data["ranks"] = ranks_of(gathered) if len(gathered) > 1 else []
    uploads = float(data["machine"].get("link_nbytes_per_second") or 0.0) > 0
    # With several ranks, a step gets longer when it waits for the gradients of another rank, and so for that rank's data.
    data["stall"] = stalls(data["phases"], uploads=uploads, shares_cores=not data["ranks"])
    data["check"] = _check(data)
    return Report({"kind": data["kind"], "version": data["version"], "check": data["check"], **data})


def begun(report: Report, other_cores: float) -> Report:
    """Adds to the report the cores that other programs used at the start."""
    report.data["machine"]["other_cores_at_start"] = round(other_cores, 3)
    return report


def stalls(phases: Mapping[str, Mapping[str, Any]], *, uploads: bool, shares_cores: bool) -> dict[str, dict[str, float]]:
    """Divides the time of a sample in "warm" and "cold" into fractions: compute, slowed, upload, prepare, fetch. They add up to 1.

    "slowed" is the time by which the step itself gets longer when the loader's workers run beside it. It is not waiting for data.

    uploads: a step on a new batch may take longer than a step on a batch that is already on the accelerator, because it waits for
    the copy. shares_cores: if False, the workers cannot slow the step, so a longer step counts as waiting for data.
    """
    found: dict[str, dict[str, float]] = {}
    if not {"resident", "prepared", "warm"} <= phases.keys():
        return found
    seconds = {name: 1 / phase["samples_per_second"] for name, phase in phases.items()}
    steps = {name: seconds[name] * _step_part(phase) for name, phase in phases.items()}
    alone = max(steps["resident"], steps["prepared"]) if uploads else steps["resident"]

    def slower(name: str) -> float:
        return max(steps[name] - alone, 0.0) if shares_cores else 0.0

    for name in ("warm", "cold"):
        if name not in phases:
            continue
        whole = seconds[name]
        own = min(seconds["resident"], whole)
        slowed = min(slower(name), whole - own)
        upload = min(max(seconds["prepared"] - slower("prepared") - own, 0.0), whole - own - slowed)
        warm = min(seconds["warm"] - slower("warm"), whole - slowed)
        prepare = min(max(warm - own - upload, 0.0), whole - own - slowed - upload)
        fetch = max(whole - own - slowed - upload - prepare, 0.0)
        parts = {"compute": own, "slowed": slowed, "upload": upload, "prepare": prepare, "fetch": fetch}
        found[name] = {part: value / whole for part, value in parts.items()}
    return found


def _step_part(phase: Mapping[str, Any]) -> float:
    """Returns the fraction of a phase's time that its steps took. The rest is waiting for batches."""
    step, wait = phase["step_seconds"], phase["wait_seconds_per_batch"]
    return float(step / (step + wait)) if step + wait > 0 else 0.0


def _check(data: dict[str, Any]) -> dict[str, Any]:
    """Compares the model's predictions with measured phases that were not used to make the model, and decides whether to trust
    it."""
    found: dict[str, Any] = {}
    questions: dict[str, dict[str, Any]] = {
        "warm": {"cache": float(data["subject"]["nbytes"]) * 4 + 1},
        "cold": {"cache": 0, "page_cache": 0},
    }
    for name, question in questions.items():
        if name in data["phases"] and data["accelerator"]["step_seconds"] > 0:
            # Cores that other processes used were not available to the phase.
            left = max(data["machine"]["cores"] - data["phases"][name]["other_cores"], 0.1)
            # Phases have one accelerator, and contain no ends of epochs.
            alone = {"cores": left, "workers": data["subject"]["workers"], "ranks": 1, "epoch_batches": 0}
            answer = model.predict(data, {**question, **alone})
            predicted, measured = answer.samples_per_second, data["phases"][name]["samples_per_second"]
            found[name] = {
                "predicted": predicted,
                "measured": measured,
                "error": predicted / measured - 1,
                "cores": left,
                "limit": answer.binding,
            }
    checked = {**data, "check": found}
    reason = conclusion.distrust(checked)
    return {"trusted": not reason, "reason": reason, "other_cores": conclusion.others_of(checked), **found}


def _gathered(data: dict[str, Any]) -> list[Any]:
    """Gathers the phases of all ranks; returns an empty list if there is one rank."""
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
    return gathered


def ranks_of(gathered: Sequence[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Returns for each rank and phase the seconds of a step: computing, waiting for gradients, and waiting for data.

    In the phase "resident" all ranks have the same pace, so the time of a step is computing. In "warm" or "cold", the time by which
    a step is longer is waiting for the slowest rank, the straggler. The straggler waits longest for its own data and least for the
    other ranks.
    """
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
