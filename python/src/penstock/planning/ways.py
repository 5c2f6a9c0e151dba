"""The ways in which samples can be stored, cached and decoded, and the solution for their best shares.

A way is a stored form, the form that the cache keeps, if any, and the place of decoding. The solver (plan_solve.h) finds the share
of each way. This module makes its input from a report's costs and a machine's capacities, and converts its output for predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _native
from ..errors import ArgumentError, LimitError
from ..stalls import model
from . import solver as _solver
from .classes import Class

GOALS = ("rate", "storage", "cost")
CACHE_FORMS = ("stored", "pli-jpeg", "pli", "pli-fast", "raw")
_TRAINING = "@training"  # suffix of cache_form: the cache keeps images at the training size, after the first operations
_RANDOM = 2  # policy by which the page cache evicts, from enum psti_stall_policy
_PREFETCH = (2, 3, 4, 6, 8, 12, 16)
_MIX_PREFETCH = 4
MIX_WORTH = 0.05  # fraction of the rate by which a mix must exceed a single form
_NEARLY = 0.01  # plans whose rates differ by less than this fraction count as equally fast
_WORTH = 0.02  # a smaller plan is preferred only if it saves more than this fraction of the stored bytes
_LARGER = 0.1  # a plan that needs no writing may be larger by this fraction
_SMALLEST = 1e-3  # smallest share of a way that is kept
_RECODED_PART = 31 / 32  # part of a cache for items, if idle workers re-code them: see src/cache/cache_later.c

_RATE, _STORED, _COST = ("samples_per_second", 1.0), ("stored_nbytes", -1.0), ("cost", -1.0)
_BY_RATE, _BY_STORAGE, _BY_COST = (_RATE, _STORED), (_STORED, _RATE), (_COST, _STORED)

# The members of a machine that are capacities of the solver, by resource.
_RATES = {
    "storage": "storage_nbytes_per_second",
    "reads": "reads_per_second",
    "network": "network_nbytes_per_second",
}


@dataclass(frozen=True)
class Way:
    """One way of storing, caching and decoding the samples of a class.

    Attributes:
        i_class: index of the class.
        form: the stored form: "jpeg", "pli-small", ...; "raw@256" after Resize(256).
        cache_form: the form in the cache: "stored", "pli-jpeg", "pli", "raw", or "raw@training": pixels after the first operations
            of the transforms; "": not cached.
        place: where images are decoded: "cpu" or "gpu".
        demands: what one sample takes of each resource.
        costs: the costs from which the demands were computed, as in a report.
        stored_nbytes: bytes of one sample on storage.
        is_lossy: the pixels differ from the present ones.
        cpu_seconds: CPU seconds of preparing one sample, the mean over all epochs.
        recode_seconds: CPU seconds of re-coding one sample for the cache, once; 0: it is kept as stored.
    """

    i_class: int
    form: str
    cache_form: str
    place: str
    demands: dict[str, float]
    costs: Mapping[str, float]
    stored_nbytes: float
    is_lossy: bool = False
    cpu_seconds: float = 0.0
    recode_seconds: float = 0.0


@dataclass
class Limits:
    """The limits that a plan must meet.

    Attributes:
        goal: "rate", "storage" or "cost".
        least_rate: smallest samples/s; 0: no limit.
        stored_nbytes: most bytes on storage; 0: no limit.
        cache_nbytes: bytes of memory for the cache; 0: no cache.
        allow_lossy: whether ways with other pixels may be used.
        library: path of HiGHS; None: it is looked for in the usual places.
        epochs: number of epochs, which all use one cache that the first fills; 0: so many that the first one does not matter.
    """

    goal: str = "rate"
    least_rate: float = 0.0
    stored_nbytes: float = 0.0
    cache_nbytes: float = 0.0
    allow_lossy: bool = False
    library: str | None = None
    epochs: int = 0

    @property
    def has_cache(self) -> bool:
        """Whether there is memory for a cache."""
        return self.cache_nbytes > 0

    def misses(self, per_draw: float) -> float:
        """Returns the fraction of all draws of a training that miss a cache with room for everything, because they are the first
        draws of their samples. per_draw: see :class:`Class`. 1: a cache is useless, as for a single epoch without weights."""
        return min(1.0, per_draw / self.epochs) if self.epochs else 0.0


@dataclass
class Solution:
    """The solution with the best shares, for one form of the cache.

    Attributes:
        ways, shares: the ways, and the fraction of its class's samples that each has.
        answer: the solver's answer.
        cache_form: the loader's cache form; "stored" if nothing is cached.
        problem: the problem that was solved.
    """

    ways: list[Way]
    shares: list[float]
    answer: dict[str, Any]
    cache_form: str
    problem: Problem

    def used(self) -> Iterator[tuple[Way, float]]:
        """Yields the ways with a share above 0, and their shares."""
        yield from ((way, share) for way, share in zip(self.ways, self.shares, strict=True) if share > 0)


def consumers(subject: Mapping[str, Any]) -> float:
    """Returns the number of accelerators of all jobs on the machine."""
    return max(1.0, float(subject.get("ranks", 1))) * max(1.0, float(subject.get("jobs", 1)))


def gpu_free(report: Mapping[str, Any]) -> float:
    """Returns the fraction of each GPU that preparation may use, 0 to 1; 1 if the report does not say."""
    free = report["machine"].get("gpu_free")
    return 1.0 if free is None else float(free)


def capacities(report: Mapping[str, Any], limits: Limits) -> dict[str, float]:
    """Returns the capacity of each resource, per second (for "cache": bytes). Resources that do not limit are left out."""
    machine, subject, step = report["machine"], report["subject"], report["accelerator"]
    n = consumers(subject)
    found = {"cores": float(machine["cores"])}
    for name, member in _RATES.items():
        if machine.get(member):
            found[name] = float(machine[member])
    if machine.get("link_nbytes_per_second"):
        found["link"] = n * float(machine["link_nbytes_per_second"])
    if gpu_free(report) > 0:
        found["gpu"] = n * gpu_free(report)
    if step.get("step_seconds"):
        cycle = step["step_seconds"] + subject.get("batch_cpu_seconds", 0.0) / machine.get("core_speed", 1.0)
        found["accelerator"] = n * subject["batch_size"] / cycle
    if limits.cache_nbytes > 0:
        found["cache"] = float(limits.cache_nbytes)
    return found


def ways_of(classes: Sequence[Class], report: Mapping[str, Any], limits: Limits, cache_form: str) -> list[Way]:
    """Returns all ways of all classes, for a cache that keeps one form; "": without a cache."""
    found = []
    for i, part in enumerate(classes):
        for form, places in part.forms.items():
            for place, costs in places.items():
                if place == "gpu" and gpu_free(report) <= 0:
                    continue
                found.append(_way(report, classes, i, form, place, costs))
                is_of_use = limits.has_cache and limits.misses(part.per_draw) < 1
                kept = kept_costs(part, form, place, cache_form) if cache_form and is_of_use else None
                if kept is not None:
                    found.append(_cached(report, found[-1], kept, cache_form, recoding(part, kept, cache_form),
                                         limits.misses(part.per_draw), part.per_draw))  # fmt: skip
    return found


def kept_costs(part: Class, form: str, place: str, cache_form: str) -> Mapping[str, float] | None:
    """Returns the costs of a cached sample, or None if it cannot be cached in this form."""
    if cache_form.endswith(_TRAINING):
        return part.kept.get(cache_form.removesuffix(_TRAINING)) if place == "cpu" else None
    return part.in_cache.get(_kept(part, form, cache_form) or "", {}).get(place)


def is_whole(cache_form: str) -> bool:
    """Whether a cache of that form re-codes images as a whole. Idle workers of a loader with a plan do that."""
    return cache_form in CACHE_FORMS[1:]


def room_of(nbytes: float, cache_form: str) -> float:
    """Returns the bytes of a cache of that form that items of `nbytes` take, with what it keeps free for images on their way."""
    return nbytes / _RECODED_PART if is_whole(cache_form) else nbytes


def _kept(part: Class, form: str, cache_form: str) -> str | None:
    """Returns the form whose costs a cached sample has. None: the cache would keep it as stored, which is the way of another
    cache_form."""
    name, at, side = form.partition("@")  # of images stored at the training size, the cache keeps the same picture
    jpeg = name in ("jpeg", "pli-jpeg")
    if cache_form == "stored":
        return form
    if cache_form == "raw":
        return f"raw{at}{side}" if name != "raw" else None
    if jpeg:
        return "pli-jpeg" if name == "jpeg" else None
    if cache_form == "pli-jpeg":
        return None
    wanted = "pli-fast" if cache_form == "pli-fast" else "pli-small"
    return f"{wanted}{at}{side}" if not name.startswith("pli") else None


def _taken(report: Mapping[str, Any]) -> float:
    """Returns the core-seconds per sample that are not preparation: those of the training thread and of the step."""
    subject, step = report["subject"], report["accelerator"]
    return float((step.get("step_cpu_seconds", 0.0) + subject.get("batch_cpu_seconds", 0.0)) / subject["batch_size"])


def _once(report: Mapping[str, Any]) -> float:
    """Returns how many jobs use each prepared sample."""
    subject = report["subject"]
    return max(1.0, float(subject.get("jobs", 1))) if subject.get("shared_preparation") else 1.0


def _way(report: Mapping[str, Any], classes: Sequence[Class], i: int, form: str, place: str, costs: Mapping[str, float]) -> Way:
    speed, once = report["machine"].get("core_speed", 1.0), _once(report)
    item = costs.get("item_nbytes", costs.get("nbytes", 0.0))
    samples = sum(part.samples for part in classes)
    page = report["machine"].get("page_cache_nbytes") or 0.0
    misses = 1.0 - _native.stall_hit_ratio(_RANDOM, page / max(item * samples, 1.0)) if page > 0 else 1.0
    demands = {
        "cores": costs["cpu_seconds"] / speed / once + _taken(report) / speed,
        "storage": misses * costs.get("nbytes", 0.0) / once,
        "reads": misses * (costs.get("reads", 0.0) or (1.0 if costs.get("nbytes") else 0.0)) / once,
        "link": costs.get("link_nbytes", 0.0),
        "gpu": costs.get("gpu_seconds", 0.0),
    }
    return Way(i, form, "", place, demands, costs, item, ":" in form, costs["cpu_seconds"])


def hit_of(costs: Mapping[str, float]) -> float:
    """Returns the CPU seconds of preparing a sample that is in the cache."""
    return costs.get("hit_cpu_seconds") or costs["cpu_seconds"]


def recoding(part: Class, kept: Mapping[str, float], cache_form: str) -> float:
    """Returns the CPU seconds of re-coding a sample for the cache. The probe has measured them as the time of packing it in that
    form.

    kept: costs of the cached form. At the training size, re-coding is in proportion to its bytes; the pixels are made for the row
    anyway.
    """
    if cache_form == "stored":
        return 0.0
    if not cache_form.endswith(_TRAINING):
        return kept.get("pack_seconds", 0.0)
    name = cache_form.removesuffix(_TRAINING)
    whole = part.in_cache.get("pli-small" if name == "pli" else name, {}).get("cpu", {})
    if name == "raw" or not whole.get("item_nbytes"):
        return 0.0
    return whole.get("pack_seconds", 0.0) * kept.get("item_nbytes", 0.0) / whole["item_nbytes"]


def _cached(
    report: Mapping[str, Any], way: Way, costs: Mapping[str, float], cache_form: str, recode_seconds: float, misses: float,
    per_draw: float,
) -> Way:  # fmt: skip
    """Returns the way with a cache. Its demands are means over all draws of a training, of which the fraction `misses` must be
    read, prepared and re-coded.

    recode_seconds: of a draw's share of a sample, like all costs that a sample has once (planning/mixtures.py).
    """
    speed = report["machine"].get("core_speed", 1.0)
    recoded = recode_seconds * misses / per_draw
    hit = hit_of(costs)
    later = {
        "cores": hit / speed / _once(report) + _taken(report) / speed,
        "link": costs.get("link_nbytes", 0.0),
        "gpu": costs.get("gpu_seconds", 0.0),
    }
    demands = {name: misses * amount + (1 - misses) * later.get(name, 0.0) for name, amount in way.demands.items()}
    demands["cores"] += recoded / speed / _once(report)
    demands["cache"] = room_of(costs.get("item_nbytes", 0.0), cache_form)
    return replace(
        way,
        cache_form=cache_form,
        demands=demands,
        costs={**costs, "pack_seconds": way.costs.get("pack_seconds", 0.0)},  # packing is a cost of the stored form, not the cached
        cpu_seconds=misses * way.cpu_seconds + (1 - misses) * hit + recoded,
        recode_seconds=recode_seconds,
    )


@dataclass
class Problem:
    """The input of the solver, see src/plan/plan_solve.h.

    Attributes:
        setup: members of struct psti_plan_setup.
        samples: number of samples of each class.
        ways: members of struct psti_plan_way.
        forms: names of the forms; `ways` has their indices.
        solver: the solver to use, see solver.find.
    """

    setup: dict[str, Any]
    samples: list[float]
    ways: list[dict[str, Any]]
    forms: list[str]
    solver: _solver.Solver

    def solve(self) -> dict[str, Any]:
        return _native.plan_solve(self.setup, self.samples, self.ways, self.solver)

    def need(self, form: str, resource: str, rate: float) -> float:
        """Returns how much of a resource plans that store only `form` need to reach a rate. LimitError: no amount is enough."""
        number = model.RESOURCES.index(resource)
        need: float = _native.plan_need(
            self.setup, self.samples, self.ways, self.solver, self.forms.index(form), number, rate
        )
        return need


def problem_of(
    ways: Sequence[Way], classes: Sequence[Class], available: Mapping[str, float], limits: Limits, interference: float
) -> Problem:
    forms = list(dict.fromkeys(way.form for way in ways))
    setup = {
        "goal": GOALS.index(limits.goal),
        "capacities": [available.get(name, 0.0) for name in model.RESOURCES],
        "stored_nbytes": limits.stored_nbytes,
        "least_rate": limits.least_rate,
        "allow_lossy": limits.allow_lossy,
        "gpu_interference": interference,
    }
    rows = [
        {
            "i_class": way.i_class,
            "form": forms.index(way.form),
            "demands": [way.demands.get(name, 0.0) for name in model.RESOURCES],
            "stored_nbytes": way.stored_nbytes,
            "is_lossy": way.is_lossy,
        }
        for way in ways
    ]
    return Problem(setup, [float(part.samples) for part in classes], rows, forms, _solver.find(limits.library))


def solve(
    classes: Sequence[Class],
    report: Mapping[str, Any],
    limits: Limits,
    choice: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
) -> Solution:
    """Returns the best plan over all forms of the cache. Among plans whose rate is within a hundredth of the best, which is less
    than the uncertainty of the costs, it is the one that stores the fewest bytes.

    choice: for a machine whose resources can be chosen: "capacities_most" and "unit_prices" by resource, and "price". only: forms
    that may be stored; None: all. LimitError: no plan meets the limits.
    """
    best = _best(classes, report, limits, choice or {}, only)
    if limits.goal != "rate":
        return best
    single = _worthwhile(best)
    if single is not None:
        best = _best(classes, report, limits, choice or {}, (single,))
    enough = replace(limits, goal="storage", least_rate=(1 - _NEARLY) * best.answer["samples_per_second"])
    thrifty = _best(classes, report, enough, choice or {}, only if single is None else (single,))
    chosen = thrifty if thrifty.answer["stored_nbytes"] < (1 - _WORTH) * best.answer["stored_nbytes"] else best
    if only is None:
        chosen = _unchanged(classes, report, enough, chosen)
    # Prices and binding resources must be those for the goal "rate", not for the smaller plan.
    kept = {name: best.answer[name] for name in ("prices", "price_low", "price_high", "quota_price", "binding", "single")}
    if single is not None:
        kept["single"] = None
    return replace(chosen, answer={**chosen.answer, **kept}, problem=best.problem)


def _worthwhile(best: Solution) -> str | None:
    """Returns the best single form, if a mix is not faster by more than the uncertainty of costs and variance; else None."""
    single = best.answer["single"]
    if single is None or single["samples_per_second"] < (1 - MIX_WORTH) * best.answer["samples_per_second"]:
        return None
    form: str = best.problem.forms[single["form"]]
    return form


def _unchanged(classes: Sequence[Class], report: Mapping[str, Any], enough: Limits, chosen: Solution) -> Solution:
    """Returns the plan with the present forms, if it is as fast and not much larger, because then nothing has to be written."""
    try:
        kept = _best(classes, report, enough, {}, tuple({part.form for part in classes}))
    except LimitError:
        return chosen
    is_now = all(way.form == classes[way.i_class].form for way, _ in kept.used())
    return kept if is_now and kept.answer["stored_nbytes"] <= (1 + _LARGER) * chosen.answer["stored_nbytes"] else chosen


def _best(
    classes: Sequence[Class], report: Mapping[str, Any], limits: Limits, choice: Mapping[str, Any], only: Sequence[str] | None
) -> Solution:
    best: Solution | None = None
    error: LimitError | None = None
    for cache_form in _cache_forms(classes, limits):
        try:
            found = _solve_one(classes, report, limits, cache_form, choice, only)
        except LimitError as refused:
            error = refused
            continue
        if best is None or _better(found, best, limits.goal):
            best = found
    if best is None:
        raise error or LimitError("there is no way that may be used")
    return best


def _cache_forms(classes: Sequence[Class], limits: Limits) -> tuple[str, ...]:
    if not limits.has_cache:
        return ("",)
    found = ["stored"]
    for cache_form in CACHE_FORMS[1:]:
        kept = {_kept(part, form, cache_form) for part in classes for form in part.forms} - {None}
        if any(name in part.in_cache for part in classes for name in kept):
            found.append(cache_form)
    if not any("gpu" in places for part in classes for places in part.forms.values()):
        found += [name + _TRAINING for name in dict.fromkeys(name for part in classes for name in part.kept)]
    return tuple(found)


def of_cache(cache_form: str) -> dict[str, str]:
    """Returns a Loader's flat argument "cache_form" and, if the cache keeps images at the training size, "cache_resolution"."""
    if cache_form.endswith(_TRAINING):
        return {"cache_form": cache_form.removesuffix(_TRAINING), "cache_resolution": "training"}
    return {"cache_form": cache_form}


def _solve_one(
    classes: Sequence[Class],
    report: Mapping[str, Any],
    limits: Limits,
    cache_form: str,
    choice: Mapping[str, Any],
    only: Sequence[str] | None,
) -> Solution:
    ways = [way for way in ways_of(classes, report, limits, cache_form) if only is None or way.form in only]
    missing = set(range(len(classes))) - {way.i_class for way in ways}
    # Classes that cannot be stored in this form keep their present form.
    ways += [way for way in ways_of(classes, report, limits, cache_form) if way.i_class in missing]
    if not ways:
        raise ArgumentError("no form has costs: nothing can be planned")
    problem = problem_of(ways, classes, capacities(report, limits), limits, report["machine"].get("gpu_interference", 0.0))
    for name in ("capacities_most", "unit_prices"):
        if name in choice:
            problem.setup[name] = [choice[name].get(resource, 0.0) for resource in model.RESOURCES]
    problem.setup["price"] = choice.get("price", 0.0)
    answer = problem.solve()
    shares = _rounded(ways, answer.pop("shares"))
    cached = any(way.cache_form and share > 0 for way, share in zip(ways, shares, strict=True))
    return Solution(ways, shares, answer, cache_form if cached else "stored", problem)


def _rounded(ways: Sequence[Way], shares: Sequence[float]) -> list[float]:
    """Removes shares that are too small to matter. The shares of each class add up to 1 again."""
    kept = [share if share >= _SMALLEST else 0.0 for share in shares]
    sums: dict[int, float] = {}
    for way, share in zip(ways, kept, strict=True):
        sums[way.i_class] = sums.get(way.i_class, 0.0) + share
    return [share / sums[way.i_class] for way, share in zip(ways, kept, strict=True)]


def _better(found: Solution, best: Solution, goal: str) -> bool:
    """Compares two solutions by the goal, then by bytes stored (by samples/s if the goal is storage)."""
    first, second = {"rate": _BY_RATE, "storage": _BY_STORAGE, "cost": _BY_COST}[goal]
    for member, sign in (first, second):
        ours, theirs = sign * found.answer[member], sign * best.answer[member]
        if abs(ours - theirs) > 1e-6 * abs(theirs):
            return bool(ours > theirs)
    return False


def mixed(solution: Solution, classes: Sequence[Class], exact: bool = False) -> dict[str, float]:
    """Returns the mean demands of a sample of the plan, as members of struct psti_stall_setup. They include hits of the cache.

    exact: every run of samples has exactly the shares of the ways, as if each sample were stored in all forms. The deviations then
    leave out the differences between ways.
    """
    whole = float(sum(part.samples for part in classes))
    parts = [(classes[way.i_class].samples / whole * share, way) for way, share in solution.used()]
    made: dict[str, float] = {}
    for member in ("link_nbytes", "gpu_seconds", "wait_seconds"):
        made[member] = sum(p * way.costs.get(member, 0.0) for p, way in parts)
    made["reads"] = sum(p * way.demands.get("reads", 0.0) for p, way in parts)
    cpu = [(p, way.cpu_seconds, way.costs.get("cpu_sd_seconds", 0.0)) for p, way in parts]
    nbytes = [(p, way.demands.get("storage", 0.0), _nbytes_sd(way)) for p, way in parts]
    made["cpu_seconds"], made["cpu_sd_seconds"] = _spread(cpu, exact)
    made["nbytes"], made["nbytes_sd"] = _spread(nbytes, exact)
    return made


def _spread(parts: Sequence[tuple[float, float, float]], exact: bool) -> tuple[float, float]:
    """Returns mean and deviation of a mixture of parts, each with its share, mean and deviation."""
    mean = sum(p * value for p, value, _ in parts)
    return mean, math.sqrt(sum(p * (sd**2 + (0.0 if exact else (value - mean) ** 2)) for p, value, sd in parts))


def _nbytes_sd(way: Way) -> float:
    """Returns the deviation of a sample's bytes read from storage, that is, of the part that the page cache does not hold."""
    whole = way.costs.get("nbytes", 0.0)
    return way.costs.get("nbytes_sd", 0.0) * way.demands.get("storage", 0.0) / whole if whole > 0 else 0.0


def taken(solution: Solution, classes: Sequence[Class], rate: float) -> dict[str, float]:
    """Returns how much of each limited resource the plan's samples use at a rate; for the cache, its bytes."""
    whole = float(sum(part.samples for part in classes))
    found: dict[str, float] = {}
    for name, capacity in zip(model.RESOURCES, solution.problem.setup["capacities"], strict=True):
        if capacity <= 0 or name in ("accelerator", "workers"):
            continue
        mean = sum(classes[way.i_class].samples / whole * share * way.demands.get(name, 0.0) for way, share in solution.used())
        found[name] = mean * (whole if name == "cache" else rate)
    return found


def saved_by(solution: Solution, way: Way, part: Class) -> dict[str, Any]:
    """Returns what caching a sample of the class costs and saves, for a plan's file: "cached_nbytes", and "saves": seconds per
    epoch for each "sample", each stored "nbyte" and each "pixel". A second of a resource is weighted by how much the resource
    limits the rate.
    """
    if not way.cache_form:
        return {}
    uncached = next(
        one.demands for one in solution.ways
        if not one.cache_form and (one.i_class, one.form, one.place) == (way.i_class, way.form, way.place)
    )  # fmt: skip
    answer = solution.answer
    weights = dict(zip(model.RESOURCES, answer["prices"], strict=True))  # value of one more unit, as a fraction of the rate
    if not any(weights[name] > 0 for name in ("cores", "storage", "reads")):
        there = zip(model.RESOURCES, answer["capacities"], strict=True)
        weights = {name: 1 / amount if amount > 0 else 0.0 for name, amount in there}
    less = {name: uncached.get(name, 0.0) - way.demands.get(name, 0.0) for name in ("cores", "storage", "reads")}
    saved = {name: weights[name] * max(amount, 0.0) for name, amount in less.items()}
    nbytes, pixels = max(way.stored_nbytes, 1.0), max(part.pixels, 1.0)
    decodes = way.cache_form != "stored" and part.pixels > 0
    by_nbyte = saved["storage"] + (0.0 if decodes else saved["cores"])
    saves = {"sample": saved["reads"], "nbyte": by_nbyte / nbytes, "pixel": saved["cores"] / pixels if decodes else 0.0}
    return {"cached_nbytes": way.costs.get("item_nbytes", 0.0), "saves": saves}


def is_mix(solution: Solution) -> bool:
    """Whether the plan's samples have several ways."""
    return len({(way.form, way.cache_form, way.place) for way, _ in solution.used()}) > 1


def predict(
    report: Mapping[str, Any], demands: Mapping[str, float], mixes: bool = False
) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns the prediction for a plan's mean demands, with the fewest threads and the shortest read-ahead that reach it; and a
    dict of these two, "num_workers" and "prefetch".

    mixes: several resources should be busy at the same time, which needs more rows under way.
    """
    made = model.setup(report, {"cache": 0, "page_cache": 0})
    speed = report["machine"].get("core_speed", 1.0)
    made.update(demands)
    for member in ("cpu_seconds", "cpu_sd_seconds"):
        made[member] /= speed
    made.update(hit_cpu_seconds=0.0, item_nbytes=0.0, reads_ahead=True)  # plans are for Penstock's loader, which reads ahead
    ahead = _PREFETCH if not mixes else tuple(n for n in _PREFETCH if n >= _MIX_PREFETCH)
    most = _most_workers(made)
    best = _rate(made, most, ahead[-1])
    prefetch = next((n for n in ahead if _rate(made, most, n) >= 0.99 * best), ahead[-1])
    workers = next((n for n in range(1, most + 1) if _rate(made, n, prefetch) >= 0.99 * best), most)
    return _answer(made, workers, prefetch), {"num_workers": workers, "prefetch": prefetch}


def _most_workers(made: Mapping[str, Any]) -> int:
    return int(max(1, math.ceil(made["cores"] / max(1.0, made.get("ranks", 1.0) * made.get("jobs", 1.0)))))


def _rate(made: Mapping[str, Any], workers: int, prefetch: int) -> float:
    return float(_answer(made, workers, prefetch)["samples_per_second"])


def _answer(made: Mapping[str, Any], workers: int, prefetch: int) -> dict[str, Any]:
    """Returns the answer of the stall model."""
    return dict(_native.stall_predict({**made, "workers": float(workers), "prefetch": float(prefetch)}))
