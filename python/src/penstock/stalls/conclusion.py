"""The conclusion of a report. It is computed from one set of numbers: the fractions of the accelerator's time that the report's
bars show.

Titles, advice and verdicts all use it, so none of them can contradict the bars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.units import amount, percent
from . import model

WAITS = ("upload", "prepare", "fetch")
PARTS = ("compute", "slowed", *WAITS)
FED = 0.02  # fraction of its time that an accelerator may wait and still count as fed
MISSED = 0.1  # relative error of a rate that is too large to be noise
_BUSY = 0.1  # if other programs use at least this many cores, it is mentioned
PLACES = {"warm": "from memory", "cold": "from storage"}
# The part of the waiting that each resource of the model causes.
_CAUSES = {
    "accelerator": "accelerator", "cores": "prepare", "workers": "prepare", "gpu": "prepare", "link": "upload",
    "storage": "fetch", "reads": "fetch", "network": "fetch", "cache": "fetch",
    "copying": "prepare",  # reading from memory counts as preparation
}  # fmt: skip


def cause_of(resource: str) -> str:
    """Returns the part of the waiting that a resource of the model causes, or "accelerator"."""
    return _CAUSES[resource]


@dataclass(frozen=True)
class Conclusion:
    """The numbers that the report's title is about: of a measured run, or of a prediction.

    Attributes:
        place: "warm" (stored bytes come from memory) or "cold" (from storage).
        measured: True: the numbers of a measured phase; False: the model's, for more accelerators or another machine.
        n: number of accelerators.
        parts: fractions of the accelerators' time: compute, slowed, upload, prepare, fetch. They add up to 1.
        samples_per_second: rate of all accelerators together.
        most: samples/s that the accelerators could consume.
    """

    place: str
    measured: bool
    n: int
    parts: Mapping[str, float]
    samples_per_second: float
    most: float

    @property
    def wait(self) -> float:
        """The fraction of the time in which accelerators wait for data."""
        return sum(self.parts[name] for name in WAITS)

    @property
    def limit(self) -> str:
        """The largest part of the waiting: "upload", "prepare" or "fetch". "accelerator" if there is almost no waiting."""
        return "accelerator" if self.wait < FED else max(WAITS, key=lambda name: self.parts[name])


def of(data: Mapping[str, Any]) -> Conclusion | None:
    """Returns the conclusion of a report, or None if the report has neither an accelerator nor a step."""
    step, stall = data["accelerator"], data.get("stall", {})
    if not step.get("step_seconds"):
        return None
    place = _place(data)
    n = int(data["subject"].get("ranks", 1))
    ranks = len(data.get("ranks") or ())
    if place in stall and not data.get("elsewhere") and n == max(ranks, 1):
        rate = data["phases"][place]["samples_per_second"]
        most = data["phases"]["resident"]["samples_per_second"]
        return Conclusion(place, True, n, {name: stall[place].get(name, 0.0) for name in PARTS}, rate * n, max(most, rate) * n)
    answer = model.predict(data, {})
    most = answer.samples_per_second / max(answer.utilisation, 1e-9)
    return Conclusion(place, False, n, _predicted(answer), answer.samples_per_second, most)


def _place(data: Mapping[str, Any]) -> str:
    """Returns "warm" if all bytes of the data set fit into memory, so that an epoch reads them from there, else "cold"."""
    machine = data["machine"]
    room = max(machine.get("page_cache_nbytes") or 0.0, machine.get("cache_nbytes") or 0.0)
    return "cold" if "cold" in data["phases"] and room < data["subject"].get("nbytes", 0) else "warm"


def _predicted(answer: model.Answer) -> dict[str, float]:
    """Returns the fractions of the accelerators' time that the model predicts."""
    compute = min(max(answer.utilisation, 0.0), 1.0)
    prepare, fetch = max(answer.prep_stall, 0.0), max(answer.fetch_stall, 0.0)
    if prepare + fetch <= 0:
        fetch = 1.0 if cause_of(answer.binding) == "fetch" else 0.0
        prepare = 1.0 - fetch
    scale = (1 - compute) / (prepare + fetch)
    found = {"compute": compute, "slowed": 0.0, "upload": 0.0, "prepare": prepare * scale, "fetch": fetch * scale}
    if answer.binding == "link":
        found["upload"], found["prepare"] = found["prepare"], 0.0
    return found


# The model's check -----------------------------------------------------------------------------------------


def checks(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the phases for which the model was compared with a measurement, and the comparisons."""
    for name, check in (data.get("check") or {}).items():
        if isinstance(check, Mapping):
            yield name, check


def misses(data: Mapping[str, Any]) -> list[str]:
    """Describes the comparisons in which the model is far off."""
    return [
        f"{PLACES.get(name, name)} the model expects {amount(check['predicted'])} samples/s, and {amount(check['measured'])} were "
        f"measured ({100 * check['error']:+.0f} %)"
        for name, check in checks(data)
        if abs(check["error"]) > MISSED
    ]


def distrust(data: Mapping[str, Any]) -> str:
    """Returns sentences that say why a report should not be trusted, or "" if it can be."""
    if data.get("elsewhere"):  # the report was measured on another machine than it is for now
        return str((data.get("check") or {}).get("reason") or "")
    changed, found = str(data.get("changed") or ""), misses(data)
    if not found:
        return changed
    others, cores = others_of(data), data["machine"]["cores"]
    who = (
        f"Other programs used {amount(others, 2)} of {amount(cores)} CPU cores meanwhile"
        if others >= _BUSY
        else "Other programs used hardly any CPU time, so something slows this run that the model does not know"
    )
    text = "; ".join(found)
    return f"{changed} {text[:1].upper()}{text[1:]}. {who}.".lstrip()


def again(data: Mapping[str, Any]) -> str:
    """Returns a sentence (without full stop) about how to repeat a measurement that should not be trusted."""
    return f"Measure again {'while nobody changes the data' if data.get('changed') else 'on a quiet machine'}"


def others_of(data: Mapping[str, Any]) -> float:
    """Returns the number of cores that other programs used during the analysis."""
    if "other_cores" in data["machine"]:
        return float(data["machine"]["other_cores"] or 0.0)
    found = [float(data["phases"][name].get("other_cores") or 0.0) for name, _ in checks(data) if name in data["phases"]]
    return max(found, default=0.0)


def quiet_cores(cores: float) -> float:
    """Returns how many CPU cores other programs may use on a quiet machine with `cores` cores."""
    return max(_BUSY, 0.05 * cores)


def conflict(data: Mapping[str, Any]) -> str:
    """Returns a sentence if model and measurement name different limits. "": they agree, or nothing was measured."""
    found = of(data)
    check = dict(checks(data)).get(found.place) if found is not None and found.measured else None
    if found is None or check is None or "limit" not in check:
        return ""
    one = found.most / found.n  # samples/s of one accelerator, because the check has only one
    expected = "accelerator" if check["predicted"] >= (1 - FED) * one else cause_of(check["limit"])
    if expected == found.limit:
        return ""
    return (
        f"The model expects another limit: {LIMITS[expected]}, at {amount(check['predicted'])} samples/s. Measured "
        f"were {amount(check['measured'])} samples/s, and the limit was {LIMITS[found.limit]}; the accelerator waited "
        f"{percent(found.wait)} of its time"
    )


LIMITS = {
    "accelerator": "the accelerator itself",
    "upload": "bringing batches to the accelerator",
    "prepare": "decoding and augmentation",
    "fetch": "storage",
}
