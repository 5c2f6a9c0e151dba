"""Draws the cells by a seed: those that count, and those that are reported separately because they are easy to predict.

Counted cells ask the report of the user's own folder about other conditions, and mostly about other forms. Each set has a number of
cells of each kind. A kind is named after what differs from the analysed run:

    cores     fewer cores, by affinity or by a CPU quota; all forms; files in the page cache
    storage   slow storage; forms other than the analysed one
    cache     a cache of a part of the set or of all of it, mostly before slow storage; mostly other forms
    jobs      two or three jobs on one machine, mostly of other forms

Reported separately: slow storage with the analysed form (its bytes are known, so the answer is a division), a step that sleeps,
workers that sleep, and an emulated GPU. Slow storage is the loader's throttle; jobs share its rate.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sets import Set

KINDS = {"cores": 9, "storage": 12, "cache": 8, "jobs": 7}  # number of cells that each set has of each kind
EASY = ("storage, own form", "step", "sleeping workers")
EMULATED = "GPU, emulated"
SLOWEST, FASTEST = 20, 400  # MB/s
LONGEST_EPOCH_S = 3.0  # longest epoch if storage is the bottleneck, so a cell ends in time
CACHES = (0.25, 0.5, 0.75, 1.0)
ROOM = 2.0  # size of a cache for the whole set, as a multiple of the set's bytes
SLEEPING = {"spin": 0.0002, "sleep": 0.02}
SLEEPING_BATCH = 4
STEPS = {"imagenet": (100, 200, 400), "frames": (25, 50)}  # samples/s
Cell = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """The cores that the bench may use, and whether it can make control groups with a CPU quota."""

    cores: int
    has_quota: bool

    def shares(self, least: float = 0.0) -> list[float]:
        """Returns the numbers of cores that cells may have: whole numbers by affinity, other numbers by a CPU quota."""
        whole = {float(n) for n in (1, 2, self.cores // 4, self.cores // 2, self.cores) if 1 <= n <= self.cores}
        parts = {0.5, 0.75, 1.25, 1.5, 1.75, 2.5, 0.75 * self.cores} if self.has_quota else set()
        return sorted(n for n in whole | parts if least <= n <= self.cores)


def cell(kind: str, of: Set, form: str, cores: float, *, storage: int = 0, part: float = 0.0, jobs: int = 1) -> Cell:
    """Returns a cell: the run, and the question to the report. storage: MB/s of the machine's storage; 0: the page cache. part:
    share of the set that the cache of each job holds.
    """
    cache = int((ROOM if part == 1 else part) * of.about(form)) * jobs
    page_cache = 0 if storage else int(8 * jobs * (of.pixel_nbytes + of.nbytes))
    question: dict[str, Any] = {"form": form, "cores": cores, "page_cache": page_cache}
    words = [f"{of.name}: {form}", f"{cores:g} core" + ("s" if cores != 1 else "")]
    if storage:
        question["storage"] = storage * 1e6
        words.append(f"{storage} MB/s")
    if cache:
        question["cache"] = cache
        words.append("cache of all" if part == 1 else f"cache of {100 * part:.0f} %")
    if jobs > 1:
        question["jobs"] = jobs
        words.append(f"{jobs} jobs")
    return {"kind": kind, "name": ", ".join(words), "report": of.name, "set": of.name, "form": form, "own": form == of.own,
            "cores": cores, "storage": storage, "cache": cache, "jobs": jobs, "question": question}  # fmt: skip


def slowest(of: Set, form: str, jobs: int = 1) -> int:
    """Returns the slowest rate in MB/s at which an epoch of the set is still short enough."""
    return max(SLOWEST, math.ceil(jobs * of.about(form) / LONGEST_EPOCH_S / 1e6))


def between(draw: random.Random, of: Set, form: str, *, jobs: int = 1, place: int = 0, n: int = 1) -> int:
    """Draws a rate in MB/s, at least the slowest one. The range is divided into n parts of equal ratio, and the rate is drawn from
    part `place`.
    """
    low = slowest(of, form, jobs)
    high = max(low, min(FASTEST, 6 * low))
    return round(low * (high / low) ** ((place + draw.random()) / n))


# Kinds ---------------------------------------------------------------------------------------------------


def _cores(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Draws cells for each form in turn, with different numbers of cores."""
    by_form = {form: draw.sample(shares := machine.shares(), len(shares)) for form in draw.sample(of.forms, len(of.forms))}
    turns = itertools.zip_longest(*([(form, cores) for cores in found] for form, found in by_form.items()))
    pairs = [pair for turn in turns for pair in turn if pair is not None]
    return [cell("cores", of, form, cores) for form, cores in pairs[: KINDS["cores"]]]


def _storage(draw: random.Random, of: Set, machine: Machine, n: int) -> list[Cell]:
    """Draws cells for the other forms in turn. Each form gets rates from the whole range."""
    found, each = [], math.ceil(n / len(of.others))
    for place in range(each):
        for form in of.others:
            rate = between(draw, of, form, place=place, n=each)
            found.append(cell("storage", of, form, draw.choice(machine.shares(1)), storage=rate))
    return found[:n]


def _cache(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Draws each other form twice with slow storage, and some forms from the page cache; the cached shares take turns."""
    parts = itertools.cycle(draw.sample(CACHES, len(CACHES)))
    slow = [cell("cache", of, form, draw.choice(machine.shares(1)), storage=between(draw, of, form), part=next(parts))
            for form in of.others * 2]  # fmt: skip
    n = KINDS["cache"] - len(slow)
    return slow + [cell("cache", of, form, draw.choice(machine.shares(1)), part=next(parts)) for form in draw.sample(of.forms, n)]


def _jobs(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Draws each form from the page cache, and each other form with slow storage, the first of these with a cache."""
    jobs = itertools.cycle(draw.sample((2, 3), 2))
    forms = draw.sample(of.forms, len(of.forms))
    found = [cell("jobs", of, form, draw.choice(machine.shares(1)), jobs=next(jobs)) for form in forms]
    for i, form in enumerate(draw.sample(of.others, len(of.others))):
        n = next(jobs)
        rate = between(draw, of, form, jobs=n)
        found.append(cell("jobs", of, form, draw.choice(machine.shares(1)), storage=rate, jobs=n, part=0.0 if i else 0.5))
    return found[: KINDS["jobs"]]


def counted(seed: int, sets: Sequence[Set], machine: Machine, n: int | None = None) -> list[Cell]:
    """Returns the counted cells, which depend only on the arguments. n: return fewer cells, of all kinds and sets in turn.

    If a machine has too few cores for the first kind, the second kind gets more cells.
    """
    groups: list[list[Cell]] = []
    for of in sets:
        cores, cache, jobs = (make(random.Random(f"{seed} {of.name} {kind}"), of, machine)
                              for kind, make in (("cores", _cores), ("cache", _cache), ("jobs", _jobs)))  # fmt: skip
        more = KINDS["storage"] + KINDS["cores"] - len(cores)
        groups += [cores, _storage(random.Random(f"{seed} {of.name} storage"), of, machine, more), cache, jobs]
    found = [one for turn in itertools.zip_longest(*groups) for one in turn if one is not None][:n]
    return sorted(found, key=lambda one: (list(KINDS).index(one["kind"]), one["set"] != sets[0].name, one["set"]))


# Apart ---------------------------------------------------------------------------------------------------


def easy(sets: Sequence[Set], cores: float) -> list[Cell]:
    """Returns the cells that do not count because they are easy to predict."""
    found = []
    for of in sets:
        low = slowest(of, of.own)
        for storage, part in ((low, 0.0), (2 * low, 0.0), (low, 0.5)):
            found.append(cell(EASY[0], of, of.own, cores, storage=storage, part=part))
    for of in sets:
        for rate in STEPS[of.name]:
            one = cell(EASY[1], of, of.own, cores)
            found.append({**one, "name": f"{of.name}: {of.own}, step takes {rate}/s", "step": rate})
    for workers in (1, 4, 16):
        found.append({"kind": EASY[2], "name": f"workers that sleep: {workers}", "report": "sleeping", "workers": workers,
                      "jobs": 1, "cores": cores, "storage": 0, "question": {"workers": workers}})  # fmt: skip
    return found


def emulated(of: Set, cores: float) -> list[Cell]:
    """Returns the cells with an emulated GPU."""
    found = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        one = cell(EMULATED, of, "pli-jpeg", cores)
        del one["question"]["form"], one["question"]["cores"]
        found.append({**one, "name": f"{of.name}: pli-jpeg, part {part} on a GPU", "report": "emulated", "gpu_part": part,
                      "question": {**one["question"], "gpu_part": part}})  # fmt: skip
    return found
