"""A report as text: the answer in words, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.units import duration, size
from ..errors import LimitError, PenstockError
from ..transforms.words import words as words_of
from . import model

_BAR = 40
_MISSED = 0.1  # of a rate, or of a step's time: more is no noise
_DISTURBED = 0.1  # of the cores
_PARTS = (("compute", "#"), ("upload", "u"), ("prepare", "p"), ("fetch", "f"))
MEANINGS = {
    "compute": "the accelerator computes",
    "upload": "it waits for batches to reach it",
    "prepare": "it waits for decoding and augmentation",
    "fetch": "it waits for storage",
}


def limit_of(data: Mapping[str, Any]) -> float:
    return data["accelerator"].get("limit") or 0.98


def alternatives(data: Mapping[str, Any]) -> list[tuple[str, model.Answer]]:
    """Returns the other probed forms with what they would give, the fastest first."""
    own = data["subject"]["form"]
    found = []
    for form, places in data["forms"].items():
        if form == own or "cpu" not in places:
            continue
        found.append((form, model.predict(data, {"form": form})))
    return sorted(found, key=lambda pair: (-round(pair[1].samples_per_second, 3), data["forms"][pair[0]]["cpu"]["item_nbytes"]))


def best_form(data: Mapping[str, Any]) -> tuple[str, model.Answer] | None:
    """Returns the form to recommend with what it would give; None if no other form is faster by 5 %.

    The smallest one that feeds all accelerators; else the fastest that is no larger than the present one; else the fastest.
    """
    now = model.predict(data, {})
    faster = [pair for pair in alternatives(data) if pair[1].samples_per_second > 1.05 * now.samples_per_second]
    if not faster:
        return None
    sizes = {form: places["cpu"].get("item_nbytes", 0.0) for form, places in data["forms"].items() if "cpu" in places}
    enough = [pair for pair in faster if pair[1].utilisation >= limit_of(data)]
    if enough:
        return min(enough, key=lambda pair: sizes[pair[0]])
    small = [pair for pair in faster if sizes[pair[0]] <= 1.05 * sizes.get(data["subject"]["form"], 0.0)]
    return small[0] if small else faster[0]


def fed(answer: model.Answer, n: int, limit: float) -> str:
    """Returns how many accelerators are fed: "3.4 of 8", "8 of 8"."""
    if answer.utilisation >= limit:
        return f"{n} of {n}"
    return f"{answer.utilisation * n:.1f} of {n}"


def words(data: Mapping[str, Any]) -> str:
    """Returns the answer in the words people use."""
    answer = model.predict(data, {})
    step = data["accelerator"]
    if not step.get("step_seconds"):
        return f"{answer.samples_per_second:.4g} samples/s, limited by {answer.binding}"
    n, limit = int(data["subject"].get("ranks", 1)), limit_of(data)
    title = step.get("title", "accelerator")
    text = f"{fed(answer, n, limit)} {title} fed, utilisation {answer.utilisation:.2f}"
    if "warm" in misses(data):
        return f"{text} by the model, which these measurements contradict: measure again on a quiet machine"
    if answer.utilisation >= limit:
        return f"{text}: the accelerator is the limit"
    return f"{text}; limited by {answer.binding}. {_remedies(data, n, limit)}"


def misses(data: Mapping[str, Any]) -> dict[str, str]:
    """Returns the phases whose measured rate the model misses by much, in words. Answers for them are worth little then."""
    return {
        name: f"{name}: the model expects {check['predicted']:.4g} samples/s, measured were {check['measured']:.4g} "
        f"({100 * check['error']:+.0f} %)"
        for name, check in data.get("check", {}).items()
        if abs(check["error"]) > _MISSED
    }


def doubts(data: Mapping[str, Any]) -> list[str]:
    """Returns sentences on what makes the report uncertain: other work on the machine, a slower step, a model that misses."""
    found = list(misses(data).values())
    machine, phases = data["machine"], data["phases"]
    others = machine.get("other_cores", 0.0)
    if others > _DISTURBED * machine["cores"]:
        found.append(f"other programs used {others:.1f} of {machine['cores']:g} cores while this was measured")
    alone = phases.get("resident", {}).get("step_seconds", 0.0)
    beside = phases.get("warm", {}).get("step_seconds", 0.0)
    if alone > 0 and beside > (1 + _MISSED) * alone:
        wait = phases["warm"]["wait_seconds_per_batch"]
        found.append(
            f"the step itself took {duration(beside)} beside the workers and {duration(alone)} alone, and waited {duration(wait)} "
            "for data: where the bars say prepare or fetch, most of it is a slower step, which shares its cores"
        )
    return found


def chain(subject: Mapping[str, Any]) -> str:
    """Returns in a line what the loader does to samples; "": the report does not know.

    subject: of a report, or the section "data" of a plan.
    """
    if "transforms" not in subject:
        return ""
    text = words_of(subject["transforms"])
    text += " (assumed: nobody named transforms)" if "transforms" in subject.get("assumed", ()) else ""
    if subject.get("fields") is not None:
        text += f"; fields {', '.join(subject['fields'])}"
    if subject.get("per_box"):
        text += f"; a row for each box: {', '.join(subject['per_box'])}"
    return text


def _remedies(data: Mapping[str, Any], n: int, limit: float) -> str:
    ways = []
    try:
        more = model.need(data, "cores", limit, {}) - data["machine"]["cores"]
        ways.append(f"{max(more, 0):.1f} more cores")
    except LimitError:
        pass
    best = best_form(data)
    if best is not None:
        ways.append(f"{best[0]} on these: {fed(best[1], n, limit)}")
    try:
        cache = model.need(data, "cache", limit, {})
        if cache > data["machine"].get("cache_nbytes", 0):
            ways.append(f"a cache of {size(cache)}")
    except LimitError:
        pass
    return ("To feed all: " + ", or ".join(ways)) if ways else "No single change feeds all"


def text(data: Mapping[str, Any]) -> str:
    """Returns the whole report for a terminal."""
    lines = [words(data), ""]
    subject, machine = data["subject"], data["machine"]
    lines.append(
        f"data       {subject['path']}: {subject['samples']} samples, {size(subject['nbytes'])}, form {subject['form']}"
    )
    lines.append(
        f"loader     {subject['loader']}, batches of {subject['batch_size']}, {subject['workers']} workers, prefetch "
        f"{subject['prefetch']}"
    )
    if chain(subject):
        lines.append(f"chain      {chain(subject)}")
    storage = machine.get("storage_nbytes_per_second")
    lines.append(
        f"machine    {machine['cores']:g} cores ({machine.get('cpu', '?')})"
        + (f", storage {size(storage)}/s" if storage else "")
        + (f"; others used {machine['other_cores']:.1f} cores meanwhile" if machine.get("other_cores", 0) > 0.1 else "")
    )
    lines += [f"uncertain  {doubt}" for doubt in doubts(data)]
    lines += ["", *_phase_lines(data), "", *_stall_lines(data), "", *_stage_lines(data)]
    lines += ["", *_form_lines(data), "", *_need_lines(data)]
    lines += [line for line in _check_lines(data) if line]
    lines += [line for line in _rank_lines(data) if line]
    for note in data.get("notes", []):
        lines.append(f"note       {note}")
    return "\n".join(lines)


def _phase_lines(data: Mapping[str, Any]) -> list[str]:
    lines = ["phase       samples/s        95 % interval  batches  wait/batch  step (sd, p99)"]
    for name, phase in data["phases"].items():
        low, high = phase["low"], phase["high"]
        interval = f"{low:.4g}..{high:.4g}" if low is not None and high is not None else "unknown"
        lines.append(
            f"{name:10s} {phase['samples_per_second']:10.4g} {interval:>20s} {phase['batches']:8d} "
            f"{duration(phase['wait_seconds_per_batch']):>11s}  {duration(phase['step_seconds'])} "
            f"({duration(phase['step_sd_seconds'])}, {duration(phase['step_p99_seconds'])})"
        )
    return lines


def bar(parts: Mapping[str, float]) -> str:
    """Returns the stall bar: a letter for each 2.5 % of the time."""
    ends, at, bars = 0.0, 0, ""
    for name, letter in _PARTS:
        ends += parts.get(name, 0.0)
        until = round(ends * _BAR)
        bars += letter * max(until - at, 0)
        at = max(at, until)
    return bars


def _stall_lines(data: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, parts in data.get("stall", {}).items():
        shares = ", ".join(f"{part} {100 * parts[part]:.0f} %" for part, _ in _PARTS if parts[part] >= 0.005)
        lines.append(f"{name:10s} [{bar(parts):{_BAR}s}] {shares}")
    if not lines:
        lines.append("stalls     no step was given: the rates above are those of the loader alone")
    return lines


def _stage_lines(data: Mapping[str, Any]) -> list[str]:
    lines = ["stage       resource     time per sample"]
    for stage in data["stages"]:
        lines.append(f"{stage['name']:10s}  {stage['resource']:11s}  {duration(stage['seconds'])}")
    return lines


def _form_lines(data: Mapping[str, Any]) -> list[str]:
    lines = ["form        CPU/sample  bytes  bytes read  samples/s predicted (band)       limited by"]
    for form, places in data["forms"].items():
        for place, costs in places.items():
            try:
                answer = model.predict(data, {"form": form, "decode": place})
            except PenstockError:
                continue
            mark = " <- now" if form == data["subject"]["form"] else ""
            name = form if place == "cpu" else f"{form}@{place}"
            lines.append(
                f"{name:10s}  {duration(costs['cpu_seconds']):>10s}  {size(costs.get('item_nbytes', costs['nbytes'])):>7s}  "
                f"{size(costs['nbytes']):>7s}  {answer.samples_per_second:8.4g} ({answer.low:.4g}..{answer.high:.4g})  "
                f"{answer.binding}{mark}"
            )
    return lines


def need_value(resource: str, value: float) -> str:
    if resource == "storage":
        return f"{size(value)}/s"
    return size(value) if resource == "cache" else f"{value:.3g}"


def _need_lines(data: Mapping[str, Any]) -> list[str]:
    found = model.needs(data, limit_of(data), {})
    lines = []
    for resource, value in found.items():
        shown = value if isinstance(value, str) else need_value(resource, value)
        lines.append(f"enough     {resource}: {shown}")
    return lines


def _check_lines(data: Mapping[str, Any]) -> list[str]:
    return [
        f"check      {name}: predicted {check['predicted']:.4g}, measured {check['measured']:.4g} samples/s "
        f"({100 * check['error']:+.1f} %)"
        for name, check in data.get("check", {}).items()
    ]


def _rank_lines(data: Mapping[str, Any]) -> list[str]:
    lines = []
    for rank in data.get("ranks", []):
        for name, times in rank["phases"].items():
            mark = "  <- straggler" if times.get("straggler") else ""
            lines.append(
                f"rank {rank['rank']:<4d}  {name}: compute {duration(times['compute_seconds'])}, waits for gradients "
                f"{duration(times['gradient_wait_seconds'])}, for data {duration(times['data_wait_seconds'])}{mark}"
            )
    return lines
