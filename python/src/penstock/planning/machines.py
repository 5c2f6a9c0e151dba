"""Compares named machines: which one is the cheapest for an epoch, and which the fastest.

A file of machines is JSON: see docs/format-plan.md. A machine may be a family, in which the amounts of some resources can be
chosen, within ranges and at prices per unit. The solver then finds the best amounts.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..base import files
from ..errors import ArgumentError, LimitError
from . import ways as _ways
from .classes import Class

KIND = "penstock-machines"
VERSION = 1
EXAMPLE = "machines.json"
_CACHE_PART = 0.7  # fraction of a machine's memory that the cache may use

_HOUR = 3600.0
_MOST_ACCELERATORS = 4096  # maximum number of accelerators to try, because every number is tried
# Members that are numbers, and the unit that their price is for.
_UNITS = {
    "cores": 1.0,
    "memory_nbytes": float(1 << 30),
    "storage_nbytes_per_second": 1e6,
    "reads_per_second": 1.0,
    "network_nbytes_per_second": 1e6,
    "link_nbytes_per_second": 1e6,
    "accelerators": 1.0,
}
_RESOURCES = {
    "cores": "cores",
    "storage_nbytes_per_second": "storage",
    "reads_per_second": "reads",
    "network_nbytes_per_second": "network",
    "link_nbytes_per_second": "link",
}
_NUMBERS = (*_UNITS, "core_speed", "accelerator_speed", "accelerator_samples_per_second", "gpu_free", "price_per_hour")
_TEXTS = ("name", "accelerator", "source", "notes")


def example() -> str:
    """Returns the path of the example table that comes with Penstock."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), EXAMPLE)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads and checks a file of machines. Errors name the file, the machine and the member."""
    name = os.fspath(path)
    data = files.read_json(name, "table of machines")
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind != KIND:
        raise ArgumentError(f"{name} is no table of machines: its kind is {kind!r}, not {KIND!r}")
    if not isinstance(data.get("version"), int) or data["version"] > VERSION:
        raise ArgumentError(f"{name} has version {data.get('version')!r}; this Penstock knows {VERSION}")
    machines = data.get("machines")
    if not isinstance(machines, list) or not machines:
        raise ArgumentError(f"{name} has no machines")
    for i, machine in enumerate(machines):
        _check(machine, f"{name}, machine {i + 1}")
    return dict(data)


def _check(machine: Any, where: str) -> None:
    if not isinstance(machine, dict) or not isinstance(machine.get("name"), str):
        raise ArgumentError(f"{where} has no name")
    where = f"{where} ({machine['name']})"
    for key, value in machine.items():
        if key in _TEXTS:
            continue
        if key == "choose":
            _check_choice(value, machine, where)
        elif key not in _NUMBERS:
            raise ArgumentError(f"{where}: no member {key!r}: there are {', '.join((*_TEXTS, *_NUMBERS, 'choose'))}")
        elif not _is_number(value):
            raise ArgumentError(f"{where}: {key} is a number of 0 or more, not {value!r}")
        elif key == "accelerators" and value > _MOST_ACCELERATORS:
            raise ArgumentError(f"{where}: a machine has at most {_MOST_ACCELERATORS} accelerators, not {value!r}")
    if machine.get("accelerator_speed") and machine.get("accelerator_samples_per_second"):
        raise ArgumentError(f"{where}: accelerator_speed and accelerator_samples_per_second say the same: give one of them")
    for key in ("cores", "price_per_hour"):
        if not machine.get(key):
            raise ArgumentError(f"{where} has no {key}")


def _check_choice(choice: Any, machine: Mapping[str, Any], where: str) -> None:
    if not isinstance(choice, dict):
        raise ArgumentError(f"{where}: choose is an object, not {choice!r}")
    for key, value in choice.items():
        if key not in _UNITS:
            raise ArgumentError(f"{where}: {key!r} cannot be chosen: {', '.join(_UNITS)} can")
        if not isinstance(value, dict) or not _is_number(value.get("most")) or not _is_number(value.get("price_per_hour")):
            raise ArgumentError(f"{where}: choose {key} has the numbers most and price_per_hour")
        if key == "accelerators" and value["most"] > _MOST_ACCELERATORS:
            raise ArgumentError(f"{where}: choose accelerators: most is {_MOST_ACCELERATORS} or less, not {value['most']!r}")
        if not _is_number(machine.get(key, 0)):
            raise ArgumentError(f"{where}: {key} is a number of 0 or more, not {machine.get(key)!r}")
        if value["most"] < machine.get(key, 0):
            raise ArgumentError(f"{where}: choose {key}: most is below the {machine.get(key)} that it has")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18


def compare(
    machines: Mapping[str, Any], classes: Sequence[Class], report: Mapping[str, Any], limits: _ways.Limits
) -> list[dict[str, Any]]:
    """Returns for each machine the time and cost of an epoch with that machine's best plan, the cheapest first.

    A family appears twice, with its cheapest and its fastest amounts, if they differ. A machine that cannot meet the limits has
    "error" instead.
    """
    found = []
    for machine in machines["machines"]:
        rows = [_row(machine, classes, report, limits, goal) for goal in _goals(machine)]
        if len(rows) == 2 and _is_alike(*rows):
            rows.pop()
        found += rows
    return sorted(found, key=lambda row: row.get("epoch_cost", float("inf")))


def _is_alike(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if "error" in a or "error" in b:
        return "error" in a and "error" in b
    return all(abs(a[name] / b[name] - 1) < 0.01 for name in ("samples_per_second", "epoch_cost"))


def _goals(machine: Mapping[str, Any]) -> tuple[str, ...]:
    return ("cost", "rate") if machine.get("choose") else ("cost",)


def _row(
    machine: Mapping[str, Any], classes: Sequence[Class], report: Mapping[str, Any], limits: _ways.Limits, goal: str
) -> dict[str, Any]:
    """Returns the best plan of a machine. Tries the amounts that the solver does not choose: numbers of accelerators, and memory
    sizes."""
    best: dict[str, Any] | None = None
    error = ""
    for accelerators, memory in itertools.product(_steps(machine, "accelerators", 1.0), _steps(machine, "memory_nbytes", 2.0)):
        try:
            row = _solved(machine, accelerators, memory, classes, report, limits, goal)
        except LimitError as refused:
            error = refused.text
            continue
        if best is None or _is_better(row, best, goal):
            best = row
    return best or {"name": machine["name"], "error": error}


def _is_better(row: Mapping[str, Any], best: Mapping[str, Any], goal: str) -> bool:
    member, sign = ("samples_per_second", -1.0) if goal == "rate" else ("epoch_cost", 1.0)
    if abs(row[member] / best[member] - 1) > 1e-3:
        return bool(sign * row[member] < sign * best[member])
    return bool(row["price_per_hour"] < best["price_per_hour"])


def _steps(machine: Mapping[str, Any], member: str, factor: float) -> list[float]:
    """Returns the amounts to try. Accelerators go up by one, other resources are doubled."""
    least = float(machine.get(member, 0.0))
    most = float(machine.get("choose", {}).get(member, {}).get("most", least))
    if factor == 1.0:
        return [least + i for i in range(int(most - least) + 1)] or [least]
    found, step = [least], max(least, float(1 << 33))
    while step < most:
        step *= factor
        found.append(min(step, most))
    return list(dict.fromkeys(found))


def _solved(
    machine: Mapping[str, Any],
    accelerators: float,
    memory: float,
    classes: Sequence[Class],
    report: Mapping[str, Any],
    limits: _ways.Limits,
    goal: str,
) -> dict[str, Any]:
    changed = on(report, machine, accelerators)
    own = replace(limits, goal=goal, cache_nbytes=_CACHE_PART * memory if limits.cache_nbytes > 0 else 0.0)
    choice = _choice(machine, {"accelerators": accelerators, "memory_nbytes": memory})
    if goal == "rate":  # for the goal "rate" the plan uses the largest amount of everything that can be chosen
        most = {member: value["most"] for member, value in machine.get("choose", {}).items() if member in _RESOURCES}
        changed["machine"].update(most)
        solution = _ways.solve(classes, changed, own)
        price = choice["price"] + sum(
            choice["unit_prices"][_RESOURCES[m]] * max(_used(solution, m) - machine.get(m, 0.0), 0.0) for m in most
        )
    else:
        solution = _ways.solve(classes, changed, own, choice)
        price = choice["price"]
        for member in machine.get("choose", {}):
            if member in _RESOURCES:
                amount = solution.answer["capacities"][_whatif_index(_RESOURCES[member])]
                changed["machine"][member] = amount
                price += choice["unit_prices"][_RESOURCES[member]] * max(amount - machine.get(member, 0.0), 0.0)
    answer, _ = _ways.predict(changed, _ways.mixed(solution, classes))
    chosen = {
        member: _amount(solution, changed, member, accelerators, memory) if goal == "cost" or member not in _RESOURCES
        else max(_used(solution, member), machine.get(member, 0.0))
        for member in machine.get("choose", {})
    }  # fmt: skip
    samples = sum(part.samples for part in classes)
    seconds = samples / answer["samples_per_second"]
    return {
        "name": machine["name"],
        "goal": goal,
        "price_per_hour": price * _HOUR,
        "samples_per_second": answer["samples_per_second"],
        "low": answer["low"],
        "high": answer["high"],
        "epoch_seconds": seconds,
        "epoch_cost": price * seconds,
        "binding": answer["binding"],
        "utilisation": answer["utilisation"],
        "accelerators": accelerators,
        "accelerator": machine.get("accelerator", ""),
        "accelerator_samples_per_second": rate_of(changed),
        "is_rate_assumed": _is_rate_assumed(machine, report),
        "chosen": chosen,
        "single": _single(solution, price, seconds),
        "stored": sorted({way.form for way, _ in solution.used()}),
    }


def _single(solution: _ways.Solution, price: float, seconds: float) -> dict[str, Any] | None:
    """Returns the cost of an epoch with the best single form on this machine (which may be the plan's own form), and the price of
    an hour for as many such machines as reach the plan's rate. None: no single form meets the limits."""
    single = solution.answer.get("single")
    if single and _ways.is_mix(solution):
        cost = float(single["cost"])
        return {"form": solution.problem.forms[single["form"]], "epoch_cost": cost, "price_per_hour": cost / seconds * _HOUR}
    forms = {way.form for way, _ in solution.used()}
    if len(forms) > 1:
        return None
    return {"form": forms.pop(), "epoch_cost": price * seconds, "price_per_hour": price * _HOUR}


def price_of_single(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns where the best single form is cheapest: the "machine", and its "price_per_hour" at the rate of the plan there."""
    good = [row for row in rows if row.get("single")]
    best = min(good, key=lambda row: row["single"]["epoch_cost"], default=None)
    return {} if best is None else {"machine": best["name"], "price_per_hour": best["single"]["price_per_hour"]}


def on(report: Mapping[str, Any], machine: Mapping[str, Any], accelerators: float | None = None) -> dict[str, Any]:
    """Returns the report for another machine: with its capacities, and its number and speed of accelerators."""
    data: dict[str, Any] = json.loads(json.dumps(report))
    own = {"cores": machine["cores"], "core_speed": machine.get("core_speed", 1.0), "page_cache_nbytes": 0.0, "cache_nbytes": 0.0}
    for member in ("storage_nbytes_per_second", "reads_per_second", "network_nbytes_per_second", "link_nbytes_per_second"):
        own[member] = machine.get(member, 0.0)
    own["gpu_free"] = machine.get("gpu_free", _ways.gpu_free(data))
    own["gpu_interference"] = data["machine"].get("gpu_interference", 0.0)
    data["machine"] = own
    n = machine.get("accelerators", 1.0) if accelerators is None else accelerators
    data["subject"]["ranks"] = max(1.0, n)
    speed = machine.get("accelerator_speed") or 1.0
    if machine.get("accelerator_samples_per_second") and rate_of(data) > 0:
        speed = machine["accelerator_samples_per_second"] / rate_of(data)
    for member in ("step_seconds", "step_sd_seconds"):
        if data["accelerator"].get(member):
            data["accelerator"][member] /= speed
    return data


def rate_of(report: Mapping[str, Any]) -> float:
    """Returns the samples/s that one accelerator of a report consumes; 0 if it has none."""
    seconds = report["accelerator"].get("step_seconds") or 0.0
    return float(report["subject"]["batch_size"] / seconds) if seconds > 0 else 0.0


def _is_rate_assumed(machine: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    """Whether the speed of a machine's accelerator for the report's network is unknown: it is another accelerator, and no speed is
    given."""
    if machine.get("accelerator_speed") or machine.get("accelerator_samples_per_second") or rate_of(report) <= 0:
        return False
    own = {str(report["accelerator"].get(name, "")).lower() for name in ("name", "title")}
    return str(machine.get("accelerator", "")).lower() not in own - {""}


def _choice(machine: Mapping[str, Any], fixed: Mapping[str, float]) -> dict[str, Any]:
    """Returns the resources of a family that the solver chooses: their limits, prices per second, and the price of everything
    else."""
    choose = machine.get("choose", {})
    price = machine["price_per_hour"]
    for member, amount in fixed.items():
        if member in choose:
            price += choose[member]["price_per_hour"] * (amount - machine.get(member, 0.0)) / _UNITS[member]
    solver = {member: value for member, value in choose.items() if member in _RESOURCES}
    return {
        "price": price / _HOUR,
        "capacities_most": {_RESOURCES[m]: float(v["most"]) for m, v in solver.items()},
        "unit_prices": {_RESOURCES[m]: v["price_per_hour"] / _UNITS[m] / _HOUR for m, v in solver.items()},
    }


def _whatif_index(resource: str) -> int:
    from ..stalls.model import RESOURCES

    return RESOURCES.index(resource)


def _used(solution: _ways.Solution, member: str) -> float:
    return float(solution.answer["used"][_whatif_index(_RESOURCES[member])])


def _amount(solution: _ways.Solution, changed: Mapping[str, Any], member: str, accelerators: float, memory: float) -> float:
    if member in _RESOURCES:
        return float(changed["machine"][member])
    return accelerators if member == "accelerators" else memory
