"""The cells: which are counted, drawn by a seed, and which stand apart because they can hardly miss.

Counted cells ask the report of the user's own folder about other conditions, and mostly about other forms. Each set has so many of
each kind, by what differs from the run that was analysed:

    cores     fewer cores, by affinity or by a CPU quota; all forms; files in the page cache
    storage   slow storage; forms other than the analysed one
    cache     a cache of a part of the set or of all of it, mostly before slow storage; mostly other forms
    jobs      two or three jobs on one machine, mostly of other forms

Apart: slow storage under the analysed form (its bytes are known, so the answer is a division), a step that sleeps, workers that
sleep, and a GPU that a stand-in emulates. Slow storage is the loader's throttle; jobs share its rate.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sets import Set

KINDS = {"cores": 9, "storage": 12, "cache": 8, "jobs": 7}  # cells of each set
EASY = ("storage, own form", "step", "sleeping workers")
EMULATED = "GPU, emulated"
SLOWEST, FASTEST = 20, 400  # MB/s
LONGEST_EPOCH_S = 3.0  # by storage, so that a cell ends in time
CACHES = (0.25, 0.5, 0.75, 1.0)
ROOM = 2.0  # times the bytes of the set that a cache of all of it has
SLEEPING = {"spin": 0.0002, "sleep": 0.02}
SLEEPING_BATCH = 4
STEPS = {"imagenet": (100, 200, 400), "frames": (25, 50)}  # samples/s
Cell = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """Cores that the bench may use, and whether it can make control groups with a CPU quota."""

    cores: int
    has_quota: bool

    def shares(self, least: float = 0.0) -> list[float]:
        """Returns the numbers of cores that cells may have: whole ones by affinity, others by quota."""
        whole = {float(n) for n in (1, 2, self.cores // 4, self.cores // 2, self.cores) if 1 <= n <= self.cores}
        parts = {0.5, 0.75, 1.25, 1.5, 1.75, 2.5, 0.75 * self.cores} if self.has_quota else set()
        return sorted(n for n in whole | parts if least <= n <= self.cores)


def cell(kind: str, of: Set, form: str, cores: float, *, storage: int = 0, part: float = 0.0, jobs: int = 1) -> Cell:
    """Returns a cell: what is run, and what is asked. storage: MB/s of the machine, 0: the page cache; part: of the set that the
    cache of each job holds."""
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
    """Returns MB/s with which the set's epochs are short enough."""
    return max(SLOWEST, math.ceil(jobs * of.about(form) / LONGEST_EPOCH_S / 1e6))


def between(draw: random.Random, of: Set, form: str, *, jobs: int = 1, place: int = 0, n: int = 1) -> int:
    """Returns MB/s from the slowest ones on, drawn from the given one of n parts of the range, which are equal by ratio."""
    low = slowest(of, form, jobs)
    high = max(low, min(FASTEST, 6 * low))
    return round(low * (high / low) ** ((place + draw.random()) / n))


# Kinds ---------------------------------------------------------------------------------------------------


def _cores(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Each form with different numbers of cores, in turns."""
    by_form = {form: draw.sample(shares := machine.shares(), len(shares)) for form in draw.sample(of.forms, len(of.forms))}
    turns = itertools.zip_longest(*([(form, cores) for cores in found] for form, found in by_form.items()))
    pairs = [pair for turn in turns for pair in turn if pair is not None]
    return [cell("cores", of, form, cores) for form, cores in pairs[: KINDS["cores"]]]


def _storage(draw: random.Random, of: Set, machine: Machine, n: int) -> list[Cell]:
    """The other forms in turns, each over its whole range of rates."""
    found, each = [], math.ceil(n / len(of.others))
    for place in range(each):
        for form in of.others:
            rate = between(draw, of, form, place=place, n=each)
            found.append(cell("storage", of, form, draw.choice(machine.shares(1)), storage=rate))
    return found[:n]


def _cache(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Each other form twice before slow storage, and any two forms in the page cache; parts in turns."""
    parts = itertools.cycle(draw.sample(CACHES, len(CACHES)))
    slow = [cell("cache", of, form, draw.choice(machine.shares(1)), storage=between(draw, of, form), part=next(parts))
            for form in of.others * 2]  # fmt: skip
    n = KINDS["cache"] - len(slow)
    return slow + [cell("cache", of, form, draw.choice(machine.shares(1)), part=next(parts)) for form in draw.sample(of.forms, n)]


def _jobs(draw: random.Random, of: Set, machine: Machine) -> list[Cell]:
    """Each form in the page cache; each other form before slow storage, the first of them with a cache."""
    jobs = itertools.cycle(draw.sample((2, 3), 2))
    forms = draw.sample(of.forms, len(of.forms))
    found = [cell("jobs", of, form, draw.choice(machine.shares(1)), jobs=next(jobs)) for form in forms]
    for i, form in enumerate(draw.sample(of.others, len(of.others))):
        n = next(jobs)
        rate = between(draw, of, form, jobs=n)
        found.append(cell("jobs", of, form, draw.choice(machine.shares(1)), storage=rate, jobs=n, part=0.0 if i else 0.5))
    return found[: KINDS["jobs"]]


def counted(seed: int, sets: Sequence[Set], machine: Machine, n: int | None = None) -> list[Cell]:
    """Returns the counted cells; the same ones for the same arguments. n: fewer of them, of all kinds and sets in turns.

    Where a machine has too few numbers of cores for the first kind, the second has more cells.
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
    """Returns the cells that are not counted."""
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
    """Returns the cells of a GPU that is emulated."""
    found = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        one = cell(EMULATED, of, "pli-jpeg", cores)
        del one["question"]["form"], one["question"]["cores"]
        found.append({**one, "name": f"{of.name}: pli-jpeg, part {part} on a GPU", "report": "emulated", "gpu_part": part,
                      "question": {**one["question"], "gpu_part": part}})  # fmt: skip
    return found
