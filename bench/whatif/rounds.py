"""Rounds of runs: the order in which cells run, and one run of a cell."""

from __future__ import annotations

import datetime
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import hybrid
import sets
from draw import KINDS, SLEEPING, SLEEPING_BATCH, Cell
from quota import Quota

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import Meter, Process, pinned  # noqa: E402

HERE = Path(__file__).resolve().parent
RUNS, MOST_AGAIN = 2, 3
AGAIN = 0.04  # cells whose runs differ by more than this share run again
LIMIT_S = 180.0  # longest wait for a line of a job
OVERHEAD_S = 4.0  # seconds of a run that are not measured: start, first epoch, the rest of the last epoch


# Which cell runs next ------------------------------------------------------------------------------------


def differs(rates: list[float]) -> float:
    """Returns the largest difference between the runs of a cell, divided by their median."""
    return (max(rates) - min(rates)) / statistics.median(rates)


def rates_of(cell: Cell) -> list[float]:
    return [run["samples_per_second"] for run in cell["runs"]]


def order_of(turn: int, seed: int, n: int) -> list[int]:
    """Returns the order of a round. The second round begins with the cells of the first half of the first round, in another order.
    So about half a round lies between the two runs of a cell."""
    first = random.Random(f"{seed} order").sample(range(n), n)
    if turn == 0:
        return first
    draw = random.Random(f"{seed} order {turn}")
    half = n // 2
    return draw.sample(first[:half], half) + draw.sample(first[half:], n - half)


def pending(cells: list[Cell], seed: int) -> list[Cell]:
    """Returns the cells that this round still has to run. All cells run twice; then counted cells whose runs differ run again, at
    most three times.
    """
    wanted = list(range(len(cells)))
    if all(len(cell["runs"]) >= RUNS for cell in cells):
        wanted = [i for i in wanted if len(cells[i]["runs"]) < most_runs(cells[i]) and differs(rates_of(cells[i])) > AGAIN]
    turn = min((len(cells[i]["runs"]) for i in wanted), default=0)
    return [cells[i] for i in order_of(turn, seed, len(cells)) if i in wanted and len(cells[i]["runs"]) == turn]


def most_runs(cell: Cell) -> int:
    return RUNS + MOST_AGAIN if cell["kind"] in KINDS else RUNS


def estimate(cells: list[Cell], seconds: float) -> tuple[float, float]:
    """Estimates the seconds of the runs that are still to come: if no cell runs again, and if all cells run again as often as they
    may.
    """
    done = [len(cell.get("runs", ())) for cell in cells]
    least = sum(max(0, RUNS - n) for n in done)
    most = sum(max(0, most_runs(cell) - n) for cell, n in zip(cells, done, strict=True))
    return least * (seconds + OVERHEAD_S), most * (seconds + OVERHEAD_S)


# One run -------------------------------------------------------------------------------------------------


def words_of(cell: Cell, seconds: float) -> dict[str, Any]:
    """Returns the arguments of cell.py, except for the control group, which differs in each run."""
    if "workers" in cell:
        return {"torch": {"workers": cell["workers"], **SLEEPING}, "batch_size": SLEEPING_BATCH, "seconds": seconds}
    words = {"set": cell["set"], "data": sets.stored(cell["set"], cell["form"]), "seconds": seconds, "jobs": cell["jobs"],
             "throttle": cell["storage"] * 1e6 / cell["jobs"], "cache": cell["cache"] // cell["jobs"]}  # fmt: skip
    return {**words, **{name: cell[name] for name in ("step", "gpu_part") if name in cell}}


def is_quota(cell: Cell) -> bool:
    return cell["cores"] != int(cell["cores"])


def command_of(cell: Cell, cpus: list[int], seconds: float) -> str:
    """Returns the command of each job of a cell, for readers. WORK stands for the folder of the sets."""
    group = f"in a control group of {cell['cores']:g} cores: " if is_quota(cell) else ""
    jobs = f"{cell['jobs']} at once: " if cell["jobs"] > 1 else ""
    pin = [] if is_quota(cell) else pinned(cpus, int(cell["cores"]))
    return f"{group}{jobs}{' '.join([*pin, 'python bench/whatif/cell.py WORK'])} '{json.dumps(words_of(cell, seconds))}'"


def measure(cell: Cell, work: Path, cpus: list[int], seconds: float, quota: Quota, stand_in: Path | None) -> dict[str, Any]:
    """Runs a cell once. Raises runner.Unavailable if a job ends or hangs."""
    words = {**words_of(cell, seconds), "cgroup": quota.set(cell["cores"]) if is_quota(cell) else ""}
    command = [sys.executable, str(HERE / "cell.py"), str(work), json.dumps(words)]
    if not is_quota(cell):
        command = [*pinned(cpus, int(cell["cores"])), *command]
    environment = hybrid.environment(stand_in) if "gpu_part" in cell and stand_in else dict(os.environ)
    at, jobs, meter = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), [], Meter()
    try:
        for _ in range(cell["jobs"]):
            jobs.append(Process(cell["name"], command, environment))
        for job in jobs:
            job.line("warm", time.monotonic() + LIMIT_S)
        for job in jobs:
            job.say("count")
        found = [json.loads(job.line("{", time.monotonic() + LIMIT_S)) for job in jobs]
        spent = meter.spent()
    finally:
        for job in jobs:
            job.kill()
    return {"samples_per_second": sum(one["samples_per_second"] for one in found), "jobs": found, "at": at,
            "other_cores": round(spent.foreign_cores, 3)}  # fmt: skip
