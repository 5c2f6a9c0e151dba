"""The ways in which samples can be kept and prepared, and the best shares of them.

A way is a form, whether the cache keeps it, and where it is decoded. The solver (plan_solve.h) finds the share of each; here
its problem is made of a report's costs and a machine's capacities, and its answer is put on the scale of predictions.
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
_TRAINING = "@training"  # after the form of a cache that keeps images after the beginning of their transforms
_RANDOM = 2  # the page cache's policy, of enum psti_stall_policy
_PREFETCH = (2, 3, 4, 6, 8, 12, 16)
_MIX_PREFETCH = 4
MIX_WORTH = 0.05  # of the rate: what a mix must bring beside a form alone
_NEARLY = 0.01  # of the rate: less than costs are known to
_WORTH = 0.02  # of the bytes stored
_LARGER = 0.1  # may be what needs no writing
_SMALLEST = 1e-3  # share of a way

_RATE, _STORED, _COST = ("samples_per_second", 1.0), ("stored_nbytes", -1.0), ("cost", -1.0)
_BY_RATE, _BY_STORAGE, _BY_COST = (_RATE, _STORED), (_STORED, _RATE), (_COST, _STORED)

# The machine's members that are capacities of the solver, by resource.
_RATES = {
    "storage": "storage_nbytes_per_second",
    "reads": "reads_per_second",
    "network": "network_nbytes_per_second",
}


@dataclass(frozen=True)
class Way:
    """One way of keeping and preparing the samples of a class.

    Attributes:
        i_class: number of the class.
        form: in which they are stored: "jpeg", "pli-small", ...; "raw@256" after Resize(256).
        cache_form: what the cache keeps of them ("stored", "pli-jpeg", "pli", "raw", "raw@training": pixels after the beginning of
            the transforms); "": nothing.
        place: where images are decoded: "cpu" or "gpu".
        demands: of one sample, by resource.
        costs: the costs that the demands were made of, as in a report.
        stored_nbytes: of one sample on storage.
        is_lossy: the pixels differ from today's.
        cpu_seconds: of preparing one sample, the mean of all epochs.
        recode_seconds: CPU seconds of re-coding one sample for the cache, once; 0: it is kept as it is stored.
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
    """What a plan must keep to.

    Attributes:
        goal: "rate", "storage" or "cost".
        least_rate: samples/s; 0: any.
        stored_nbytes: most bytes on storage; 0: any.
        cache_nbytes: of memory for the cache; 0: no cache.
        allow_lossy: ways whose pixels differ may be used.
        library: path of HiGHS; None: where it is usually found.
        epochs: of the training, all with one cache, of which the first one fills it; 0: so many that the first one does not count.
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
        """Returns the part of a training's draws that find no item in a cache with room for all, because they are the first ones of
        their samples. per_draw: of :class:`Class`. 1: a cache is of no use, as in the only epoch of a training without weights."""
        return min(1.0, per_draw / self.epochs) if self.epochs else 0.0


@dataclass
class Solution:
    """The best shares for one form of the cache.

    Attributes:
        ways, shares: each way, and the part of its class's samples that it has.
        answer: the solver's.
        cache_form: of the loader; "stored" where nothing is cached.
        problem: what was solved.
    """

    ways: list[Way]
    shares: list[float]
    answer: dict[str, Any]
    cache_form: str
    problem: Problem

    def used(self) -> Iterator[tuple[Way, float]]:
        """Yields the ways that have samples, with their shares."""
        yield from ((way, share) for way, share in zip(self.ways, self.shares, strict=True) if share > 0)


def consumers(subject: Mapping[str, Any]) -> float:
    """Returns the accelerators of all jobs on the machine."""
    return max(1.0, float(subject.get("ranks", 1))) * max(1.0, float(subject.get("jobs", 1)))


def gpu_free(report: Mapping[str, Any]) -> float:
    """Returns the part of each GPU that is there for preparation, 0 to 1. All of it, where the report does not say."""
    free = report["machine"].get("gpu_free")
    return 1.0 if free is None else float(free)


def capacities(report: Mapping[str, Any], limits: Limits) -> dict[str, float]:
    """Returns what there is of each resource, per second; bytes for "cache". What does not limit is left out."""
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
    """Returns all ways of all classes for a cache that keeps one form; "": without a cache."""
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
    """Returns the costs of a cached sample; None: it cannot be cached so."""
    if cache_form.endswith(_TRAINING):
        return part.kept.get(cache_form.removesuffix(_TRAINING)) if place == "cpu" else None
    return part.in_cache.get(_kept(part, form, cache_form) or "", {}).get(place)


def _kept(part: Class, form: str, cache_form: str) -> str | None:
    """Returns whose costs a cached sample has; None: the cache keeps it as it is stored, which is another cache_form's way."""
    name, at, side = form.partition("@")  # of what is stored at the training size the cache keeps the same picture
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
    """Returns the core-seconds of a sample that are no preparation: the training thread's and the step's."""
    subject, step = report["subject"], report["accelerator"]
    return float((step.get("step_cpu_seconds", 0.0) + subject.get("batch_cpu_seconds", 0.0)) / subject["batch_size"])


def _once(report: Mapping[str, Any]) -> float:
    """Returns how many consumers one prepared sample has."""
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
    """Returns the CPU seconds of a sample that a cache has."""
    return costs.get("hit_cpu_seconds") or costs["cpu_seconds"]


def recoding(part: Class, kept: Mapping[str, float], cache_form: str) -> float:
    """Returns the CPU seconds of re-coding a sample for the cache, which the probe has measured as packing it in that form.

    kept: the costs of what the cache keeps. At the training size they follow its bytes; the row is made of those pixels anyway.
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
    """Returns the way with a cache. Its demands are the means of a training's draws: `misses` of them read, prepare and re-code.

    recode_seconds: of a draw's part of a sample, as all costs of what a sample has once (planning/mixtures.py).
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
    demands["cache"] = costs.get("item_nbytes", 0.0)
    return replace(
        way,
        cache_form=cache_form,
        demands=demands,
        costs={**costs, "pack_seconds": way.costs.get("pack_seconds", 0.0)},  # of what is stored
        cpu_seconds=misses * way.cpu_seconds + (1 - misses) * hit + recoded,
        recode_seconds=recode_seconds,
    )


@dataclass
class Problem:
    """What the solver is asked, as src/plan/plan_solve.h has it.

    Attributes:
        setup: members of struct psti_plan_setup.
        samples: of each class.
        ways: members of struct psti_plan_way.
        forms: their names by the numbers in `ways`.
        solver: what solves it.
    """

    setup: dict[str, Any]
    samples: list[float]
    ways: list[dict[str, Any]]
    forms: list[str]
    solver: _solver.Solver

    def solve(self) -> dict[str, Any]:
        return _native.plan_solve(self.setup, self.samples, self.ways, self.solver)

    def need(self, form: str, resource: str, rate: float) -> float:
        """Returns how much of a resource plans that store one form need for a rate. LimitError: no amount is enough."""
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
    """Returns the best plan over all forms of the cache. Of plans whose rate is the best one's but for a hundredth, which is less
    than costs are known to, it is the one that stores least.

    choice: of a machine whose resources can be chosen: "capacities_most" and "unit_prices" by resource, "price".
    only: forms that may be stored; None: all. LimitError: no plan keeps within the limits.
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
    # What is worth how much is the goal's.
    kept = {name: best.answer[name] for name in ("prices", "price_low", "price_high", "quota_price", "binding", "single")}
    if single is not None:
        kept["single"] = None
    return replace(chosen, answer={**chosen.answer, **kept}, problem=best.problem)


def _worthwhile(best: Solution) -> str | None:
    """Returns the best single form, if mixing brings less than costs and variance are known to; else None."""
    single = best.answer["single"]
    if single is None or single["samples_per_second"] < (1 - MIX_WORTH) * best.answer["samples_per_second"]:
        return None
    form: str = best.problem.forms[single["form"]]
    return form


def _unchanged(classes: Sequence[Class], report: Mapping[str, Any], enough: Limits, chosen: Solution) -> Solution:
    """Returns the plan that stores what is stored now, if it is as fast and not much larger: then nothing has to be written."""
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
    """Returns the flat argument "cache_form" of a Loader and, where it is not the whole image, "cache_resolution"."""
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
    # A class that cannot have the form keeps what it has.
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
    """Drops shares that are too small to matter; those of a class then add up to 1 again."""
    kept = [share if share >= _SMALLEST else 0.0 for share in shares]
    sums: dict[int, float] = {}
    for way, share in zip(ways, kept, strict=True):
        sums[way.i_class] = sums.get(way.i_class, 0.0) + share
    return [share / sums[way.i_class] for way, share in zip(ways, kept, strict=True)]


def _better(found: Solution, best: Solution, goal: str) -> bool:
    """Compares by the goal, then by bytes stored (by samples/s where these are the goal)."""
    first, second = {"rate": _BY_RATE, "storage": _BY_STORAGE, "cost": _BY_COST}[goal]
    for member, sign in (first, second):
        ours, theirs = sign * found.answer[member], sign * best.answer[member]
        if abs(ours - theirs) > 1e-6 * abs(theirs):
            return bool(ours > theirs)
    return False


def mixed(solution: Solution, classes: Sequence[Class], exact: bool = False) -> dict[str, float]:
    """Returns the mean demands of a sample of the plan, as members of struct psti_stall_setup. Hits of the cache are counted in.

    exact: every run of samples has the shares of the ways, as with copies. Then samples differ within their ways alone.
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
    """Returns mean and deviation of samples that are each of one part: its share, mean and deviation."""
    mean = sum(p * value for p, value, _ in parts)
    return mean, math.sqrt(sum(p * (sd**2 + (0.0 if exact else (value - mean) ** 2)) for p, value, sd in parts))


def _nbytes_sd(way: Way) -> float:
    """Returns the deviation of the bytes that storage gives of a sample: of those that the page cache does not hold."""
    whole = way.costs.get("nbytes", 0.0)
    return way.costs.get("nbytes_sd", 0.0) * way.demands.get("storage", 0.0) / whole if whole > 0 else 0.0


def taken(solution: Solution, classes: Sequence[Class], rate: float) -> dict[str, float]:
    """Returns how much of each resource that there is the plan's samples take at a rate; of the cache its bytes."""
    whole = float(sum(part.samples for part in classes))
    found: dict[str, float] = {}
    for name, capacity in zip(model.RESOURCES, solution.problem.setup["capacities"], strict=True):
        if capacity <= 0 or name in ("accelerator", "workers"):
            continue
        mean = sum(classes[way.i_class].samples / whole * share * way.demands.get(name, 0.0) for way, share in solution.used())
        found[name] = mean * (whole if name == "cache" else rate)
    return found


def saved_by(solution: Solution, way: Way, part: Class) -> dict[str, Any]:
    """Returns what caching a sample of the class takes and saves, for a plan's file: "cached_nbytes", and "saves", the seconds of
    an epoch by "sample", by "nbyte" that is stored and by "pixel". A second of a resource counts as much as the resource limits.
    """
    if not way.cache_form:
        return {}
    uncached = next(
        one.demands for one in solution.ways
        if not one.cache_form and (one.i_class, one.form, one.place) == (way.i_class, way.form, way.place)
    )  # fmt: skip
    answer = solution.answer
    weights = dict(zip(model.RESOURCES, answer["prices"], strict=True))  # of one unit more, as a part of the rate
    if not any(weights[name] > 0 for name in ("cores", "storage", "reads")):
        there = zip(model.RESOURCES, answer["capacities"], strict=True)
        weights = {name: 1 / amount if amount > 0 else 0.0 for name, amount in there}
    less = {name: uncached.get(name, 0.0) - way.demands.get(name, 0.0) for name in ("cores", "storage", "reads")}
    saved = {name: weights[name] * max(amount, 0.0) for name, amount in less.items()}
    nbytes, pixels = max(way.stored_nbytes, 1.0), max(part.pixels, 1.0)
    decodes = way.cache_form != "stored" and part.pixels > 0
    by_nbyte = saved["storage"] + (0.0 if decodes else saved["cores"])
    saves = {"sample": saved["reads"], "nbyte": by_nbyte / nbytes, "pixel": saved["cores"] / pixels if decodes else 0.0}
    return {"cached_nbytes": way.demands["cache"], "saves": saves}


def is_mix(solution: Solution) -> bool:
    """Whether samples of the plan are kept in several ways."""
    return len({(way.form, way.cache_form, way.place) for way, _ in solution.used()}) > 1


def predict(
    report: Mapping[str, Any], demands: Mapping[str, float], mixes: bool = False
) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns the prediction for a plan's mean demands, with the fewest threads and the shortest read-ahead that reach it, and
    these: "num_workers" and "prefetch".

    mixes: several resources are to be busy at a time, for which more rows must be under way.
    """
    made = model.setup(report, {"cache": 0, "page_cache": 0})
    speed = report["machine"].get("core_speed", 1.0)
    made.update(demands)
    for member in ("cpu_seconds", "cpu_sd_seconds"):
        made[member] /= speed
    made.update(hit_cpu_seconds=0.0, item_nbytes=0.0, reads_ahead=True)  # a plan is for Penstock's loader
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
    """Returns the stall model's answer."""
    return dict(_native.stall_predict({**made, "workers": float(workers), "prefetch": float(prefetch)}))
