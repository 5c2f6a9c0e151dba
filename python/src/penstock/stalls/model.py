"""Answers what-if questions about a report: single questions, sweeps, and "how much is enough". The model is in the C library."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import _native
from ..base import options
from ..errors import ArgumentError, LimitError

# Names of resources, in the order of enum psti_stall_resource.
RESOURCES = ("accelerator", "cores", "workers", "storage", "reads", "network", "link", "gpu", "cache", "copying")

# Members of struct psti_stall_setup that a section of a report has under the same names.
_DEMANDS = (
    "cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds", "wait_seconds", "nbytes", "nbytes_sd", "reads", "item_nbytes",
    "link_nbytes", "gpu_seconds",
)  # fmt: skip
_AT_LEAST_1 = ("jobs", "ranks", "hosts", "prefetch", "batch_size")
_RUN = (
    "batch_size",
    "prefetch",
    "workers",
    "ranks",
    "jobs",
    "hosts",
    "batch_cpu_seconds",
    "shared_cache",
    "shared_preparation",
)
_STEP = ("step_seconds", "step_sd_seconds", "step_cpu_seconds")
CAPACITIES = (
    "cores", "storage_nbytes_per_second", "reads_per_second", "network_nbytes_per_second", "link_nbytes_per_second",
    "copy_nbytes_per_second", "gpu_free", "cache_nbytes", "page_cache_nbytes", "gpu_interference",
)  # fmt: skip
_BANDS = ("cpu_band", "storage_band", "step_band", "copy_band")
# The questions that state a resource. If one is asked, the error band of that resource is 0.
_STATED = {"storage_band": ("storage", "reads", "network"), "copy_band": ("copying",)}
_NBYTES_BAND = 0.02  # error band of a form's bytes, if the report has none
POLICIES = {"minio": 1, "random": 2, "lru": 3, "lru-sequential": 4}

# The names of plain questions, and the members that they set.
_PLAIN = {
    "cores": "cores",
    "workers": "workers",
    "prefetch": "prefetch",
    "jobs": "jobs",
    "ranks": "ranks",
    "hosts": "hosts",
    "reads": "reads_per_second",
    "gpu_free": "gpu_free",
    "epoch_batches": "batches_per_epoch",
    "epoch_pause": "epoch_pause_seconds",
}
_SIZES = {"cache": "cache_nbytes", "page_cache": "page_cache_nbytes"}
_RATES = {
    "storage": "storage_nbytes_per_second",
    "network": "network_nbytes_per_second",
    "link": "link_nbytes_per_second",
    "copying": "copy_nbytes_per_second",
}
_TRUTHS = ("shared_cache", "shared_preparation")
OLD = {"gpu_share": "gpu_part"}  # former names of questions, before 0.1
QUESTIONS = (*_PLAIN, *_SIZES, *_RATES, *_TRUTHS, "gpu_speed", "gpu_part", "form", "decode", "batch_size", "policy")


@dataclass(frozen=True)
class Answer:
    """A prediction of the model.

    Attributes:
        question: the conditions that were changed.
        samples_per_second, low, high: total rate of all jobs and ranks of one machine, and its error band.
        binding, next: the resource that limits the rate, and the one that would limit it next.
        utilisation: fraction of the time in which accelerators compute. Pauses between epochs do not count.
        prep_stall, fetch_stall: fractions in which they wait for preparation, and for storage or network.
        start_stall: the part of both stalls that is waiting for the first batch of an epoch.
        hits, page_hits, misses: fractions of the samples that come from the cache, the page cache and storage.
        bounds: samples/s that each resource alone would allow.
        cores_used, storage_nbytes_per_second: cores and storage bandwidth that the rate uses.
        extrapolated: resources beyond the range in which costs were measured, for which the error band is wider.
    """

    question: dict[str, Any]
    samples_per_second: float
    low: float
    high: float
    binding: str
    next: str
    utilisation: float
    prep_stall: float
    fetch_stall: float
    start_stall: float
    hits: float
    page_hits: float
    misses: float
    bounds: dict[str, float]
    cores_used: float
    storage_nbytes_per_second: float
    extrapolated: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON. A bound that does not limit is None."""
        bounds = {name: None if value == float("inf") else value for name, value in self.bounds.items()}
        return {**asdict(self), "bounds": bounds}

    def __str__(self) -> str:
        asked = ", ".join(f"{name} {value}" for name, value in self.question.items()) or "as it is"
        beyond = f" (beyond what was measured: {', '.join(self.extrapolated)})" if self.extrapolated else ""
        return (
            f"{asked}: {self.samples_per_second:.4g} samples/s ({self.low:.4g} to {self.high:.4g}), "
            f"limited by {self.binding}, then {self.next}; utilisation {self.utilisation:.2f}{beyond}"
        )


def rate(name: str, value: float | str) -> float:
    """Converts a number or a text such as "2GB/s" to bytes per second."""
    text = re.sub(r"\s*/\s*s(ec)?\s*$", "", value, flags=re.IGNORECASE) if isinstance(value, str) else value
    return float(options.nbytes(name, text))


def factor(name: str, value: float | str) -> float:
    """Converts 2, "2" or "2x" to a number."""
    text = value.strip().lower().removesuffix("x") if isinstance(value, str) else value
    try:
        number = float(text)
    except ValueError:
        raise ArgumentError(f'{name} is a factor such as "2x", not {value!r}') from None
    if not 0 < number < 1e6:
        raise ArgumentError(f"{name} must be above 0, not {value!r}")
    return number


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is a number, not {value!r}") from None
    if not 0 <= number < 1e15:
        raise ArgumentError(f"{name} must be 0 or more, not {value!r}")
    if name in _AT_LEAST_1 and number < 1:
        raise ArgumentError(f"{name} must be 1 or more, not {value!r}")
    if name == "cores" and number == 0:
        raise ArgumentError(f"cores must be above 0, not {value!r}")
    if name == "epoch_batches" and 0 < number < 1:
        raise ArgumentError(f"epoch_batches must be 0 (epochs never end), or 1 or more, not {value!r}")
    return number


def _size(name: str, value: Any) -> float:
    """Converts a size to bytes. 0 is allowed."""
    if value in (0, "0"):
        return 0.0
    return float(options.nbytes(name, value))


def demands_of(report: Mapping[str, Any], form: str, decode: str) -> dict[str, float]:
    """Returns the demands (costs per sample) of a form that is decoded at `decode`, "cpu" or "gpu"."""
    forms = report["forms"]
    if form not in forms:
        raise ArgumentError(f"the report has no costs of form {form!r}: it has {', '.join(forms)}")
    places = forms[form]
    if decode not in places:
        raise ArgumentError(
            f"the report has no costs of form {form!r} with decode={decode!r}: it has {', '.join(places)}. "
            "Costs of a GPU are measured on a machine that has one, or added to the report's file"
        )
    found: dict[str, float] = places[decode]
    return found


def _demands(report: Mapping[str, Any], form: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the demands of a form for the place where the question, or else the run, decodes it: CPUs, the GPU, or a share on
    each."""
    subject = report["subject"]
    decode, share = question.get("decode"), question.get("gpu_part")
    if share is not None and decode == "cpu":
        raise ArgumentError('gpu_part is the part of the rows that the GPU decodes: it contradicts decode="cpu"')
    if decode is None:
        decode = "gpu" if share is not None else subject.get("decode", "cpu")
        share = subject.get("gpu_part") if share is None else share
    part = 1.0 if share is None else _number("gpu_part", share)
    if part > 1:
        raise ArgumentError(f"gpu_part is 0 to 1, not {share!r}")
    if decode != "gpu" or part == 1:
        return demands_of(report, form, decode)
    cpu, gpu = demands_of(report, form, "cpu"), demands_of(report, form, "gpu")
    # Only amounts per sample can be mixed. Other members (counts, or None: workers follow the cores) are taken from the CPU's
    # costs.
    return {
        name: part * gpu.get(name, 0.0) + (1 - part) * cpu.get(name, 0.0) if name in _DEMANDS else cpu[name]
        for name in {**cpu, **{name: 0 for name in gpu if name in _DEMANDS}}
    }


def setup(report: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the model's setup (members of struct psti_stall_setup) for a report with the changes of a question."""
    for name in question:
        if name not in QUESTIONS:
            raise ArgumentError(f"no question {name!r}{options.nearest(name, QUESTIONS)}")
    subject, machine, step = report["subject"], report["machine"], report["accelerator"]
    form = question.get("form") or subject["form"]
    demands = _demands(report, form, question)
    made: dict[str, Any] = {"ranks": 1.0, "jobs": 1.0, "hosts": 1.0, "gpu_free": 1.0}
    for names, section in (
        (_DEMANDS, demands),
        (_RUN, subject),
        (_STEP, step),
        (CAPACITIES, machine),
        (_BANDS, report["bands"]),
    ):
        made.update({name: section[name] for name in names if section.get(name) is not None})
    # A form may state that another loader loads it, whose workers follow the cores (None).
    made.update({name: demands[name] for name in _RUN if demands.get(name) is not None})
    follows = subject.get("workers_follow_cores", True) or ("workers" in demands and demands["workers"] is None)
    if "workers" in demands and demands["workers"] is None:
        made["workers"] = _workers_for(made["cores"], made)
    # Penstock's loader reads ahead of its workers, even if the run had another loader. Workers of a DataLoader read by themselves.
    made["reads_ahead"] = subject.get("loader") != "torch" or "workers" in demands
    speed = machine.get("core_speed", 1.0)
    for name in ("cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds", "batch_cpu_seconds", "step_cpu_seconds"):
        if name in made:
            made[name] = made[name] / speed
    made["nbytes_band"] = demands.get("nbytes_band", _NBYTES_BAND)
    stored = subject["samples"] * (subject.get("stored_part") or 1.0)  # equals the samples of an epoch, except with weights
    made["dataset_nbytes"] = stored * demands.get("item_nbytes", demands["nbytes"])
    measured = report.get("measured", {})
    made["measured_low"] = [float(measured.get(name, (0, 0))[0]) for name in RESOURCES]
    made["measured_high"] = [float(measured.get(name, (0, 0))[1]) for name in RESOURCES]
    _apply(made, question, follows)
    if subject.get("batches_per_epoch") and question.get("epoch_batches") is None:
        made["batches_per_epoch"] = _epoch_of(subject, made)
    made["cpu_band"] = _cpu_band(report, made["cores"])
    # A rate that the question states was not measured, so it has no error band.
    for band, stated in _STATED.items():
        if any(question.get(name) is not None for name in stated):
            made[band] = 0.0
    return made


def _epoch_of(subject: Mapping[str, Any], made: Mapping[str, Any]) -> float:
    """Returns a rank's batches per epoch, for the batch size and the number of ranks in `made`."""
    whole = subject["batches_per_epoch"] * subject["batch_size"] * subject.get("ranks", 1)
    return float(max(1.0, whole / (made["batch_size"] * made["ranks"])))


def _cpu_band(report: Mapping[str, Any], cores: float) -> float:
    """Returns the error band of CPU seconds on `cores` cores. They were measured on all cores, and on one core differ by
    `cores_band`."""
    bands, most = report["bands"], float(report.get("measured", {}).get("cores", (0, 0))[1])
    away = min(max((most - cores) / (most - 1), 0.0), 1.0) if most > 1 else 0.0
    return math.hypot(bands.get("cpu_band") or 0.0, away * (bands.get("cores_band") or 0.0))


def _workers_for(cores: float, made: Mapping[str, Any]) -> float:
    """Returns the number of workers per rank that Loader(num_workers=None) starts."""
    return max(1.0, float(-(-cores // max(1.0, made.get("ranks", 1.0)))))


def _apply(made: dict[str, Any], question: Mapping[str, Any], follows: bool) -> None:
    for name, value in question.items():
        if value is None:
            continue
        if name in _PLAIN:
            made[_PLAIN[name]] = _number(name, value)
        elif name in _SIZES:
            made[_SIZES[name]] = _size(name, value)
        elif name in _RATES:
            made[_RATES[name]] = rate(name, value)
        elif name in _TRUTHS:
            made[name] = bool(value)
        elif name == "gpu_speed":
            for member in ("step_seconds", "step_sd_seconds"):
                made[member] = made.get(member, 0.0) / factor(name, value)
        elif name == "batch_size":
            wider = _number(name, value) / made["batch_size"]
            made["batch_size"] = _number(name, value)
            for member in (*_STEP, "batch_cpu_seconds"):
                made[member] = made.get(member, 0.0) * wider
        elif name == "policy":
            made["policy"] = POLICIES[list(POLICIES)[options.choice("policy", value, POLICIES)]]
    # The number of workers follows the cores, as with Loader(num_workers=None), unless the question or the user sets it.
    if question.get("cores") is not None and question.get("workers") is None and follows:
        made["workers"] = _workers_for(made["cores"], made)


def predict(report: Mapping[str, Any], question: Mapping[str, Any]) -> Answer:
    """Returns the prediction for one question."""
    answer = _native.stall_predict(setup(report, question))
    return Answer(question={name: value for name, value in question.items() if value is not None}, **answer)


def sweep(report: Mapping[str, Any], question: Mapping[str, Any]) -> list[Answer]:
    """Returns predictions for all combinations of the values of a question, which may be lists."""
    names = list(question)
    lists = [
        list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] for value in question.values()
    ]
    return [predict(report, dict(zip(names, values, strict=True))) for values in itertools.product(*lists)]


def need(report: Mapping[str, Any], resource: str, utilisation: float, question: Mapping[str, Any]) -> float:
    """Returns how much of a resource is enough for a utilisation. LimitError: no amount is enough."""
    number = options.choice("resource", resource, RESOURCES)
    made = setup(report, question)
    if resource == "cores":
        made["workers"] = max(made.get("workers", 1.0), 4096.0)
    return _native.stall_need(made, number, utilisation)


def needs(report: Mapping[str, Any], utilisation: float, question: Mapping[str, Any]) -> dict[str, float | str]:
    """Returns for each resource how much is enough to make the accelerator the limit, or why no amount is enough."""
    found: dict[str, float | str] = {}
    if not report["accelerator"].get("step_seconds"):
        return found
    for resource in ("cores", "storage", "cache"):
        try:
            found[resource] = need(report, resource, utilisation, question)
        except LimitError as error:
            found[resource] = error.text or str(error)
    return found


def renamed(question: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces former names in a question, with a warning."""
    for name in question:
        if name in OLD:
            warnings.warn(f"whatif: {name} is {OLD[name]} now", FutureWarning, stacklevel=3)
    return {OLD.get(name, name): value for name, value in question.items()}


def answers(report: Mapping[str, Any], question: Mapping[str, Any]) -> Answer | list[Answer]:
    """Returns the answer to a question, or a list of answers if one of its values is a list."""
    found = sweep(report, question)
    many = any(isinstance(value, Sequence) and not isinstance(value, str) for value in question.values())
    return found if many else found[0]
