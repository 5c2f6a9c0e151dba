"""A report as text: the answer in words, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.units import amount, duration, percent, size
from ..errors import LimitError, PenstockError
from ..transforms.words import words as words_of
from . import conclusion, model
from .conclusion import Conclusion

_BAR = 40
_SLOWER = 0.02  # a slower step is mentioned in the title if it takes at least this fraction of the time
_DISTURBED = 0.1  # other programs are mentioned if they use at least this fraction of the cores
_STARTS = 0.01  # starts of epochs are mentioned if they cost at least this fraction of the rate
_LETTERS = (("compute", "#"), ("slowed", "s"), ("upload", "u"), ("prepare", "p"), ("fetch", "f"))
MEANINGS = {
    "compute": "the accelerator computes",
    "slowed": "its step is slower beside the loader's workers than alone",
    "upload": "it waits for batches to reach it",
    "prepare": "it waits for decoding and augmentation",
    "fetch": "it waits for storage",
}
RESOURCES = {
    "accelerator": "the accelerator", "cores": "CPU cores", "workers": "the number of workers", "storage": "bytes/s of storage",
    "reads": "reads/s of storage", "network": "the network", "link": "the link to the accelerator",
    "gpu": "preparation on the GPU", "cache": "the cache", "quota": "the room on storage",
    "copying": "copying out of the page cache",
}  # fmt: skip
PHASES = {
    "resident": "one batch, again and again",
    "prepared": "finished batches in memory",
    "warm": "stored bytes in memory",
    "cold": "stored bytes on storage",
}


def limit_words(resource: str) -> str:
    """Returns the name of a model's resource in words."""
    return RESOURCES.get(resource, resource)


def limit_of(data: Mapping[str, Any]) -> float:
    return data["accelerator"].get("limit") or 0.98


def alternatives(data: Mapping[str, Any]) -> list[tuple[str, model.Answer]]:
    """Returns the other forms that were measured, each with its prediction, the fastest first."""
    own = data["subject"]["form"]
    found = []
    for form, places in data["forms"].items():
        if form == own or "cpu" not in places:
            continue
        found.append((form, model.predict(data, {"form": form})))
    return sorted(found, key=lambda pair: (-round(pair[1].samples_per_second, 3), data["forms"][pair[0]]["cpu"]["item_nbytes"]))


def best_form(data: Mapping[str, Any]) -> tuple[str, model.Answer] | None:
    """Returns the form to recommend with its prediction, or None if no other form is faster by 5 %.

    Chooses the smallest form that feeds all accelerators; else the fastest that is no larger than the present form; else the
    fastest.
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


# The answer in words --------------------------------------------------------------------------------------


def words(data: Mapping[str, Any]) -> str:
    """Returns the conclusion in sentences."""
    return " ".join(f"{sentence}." for sentence in [*warnings(data), title(data), *explanations(data)])


def warnings(data: Mapping[str, Any]) -> list[str]:
    """Returns the warnings to print first: that the report should not be trusted, and why."""
    reason = conclusion.distrust(data)
    if not reason:
        return []
    how = "" if data.get("changed") else "; --wait-quiet 60s waits for one"
    return [f"DISTURBED, do not rely on this report. {reason} {conclusion.again(data)}{how}"]


def title(data: Mapping[str, Any]) -> str:
    """Returns the report's conclusion as a sentence without its full stop."""
    found = conclusion.of(data)
    if found is None:
        return _title_without_step(data)
    rate, most = amount(found.samples_per_second), amount(found.most)
    where = conclusion.PLACES[found.place] if found.measured else "predicted"
    one = found.n == 1
    waits = f"{'it waits' if one else 'they wait'} for data in {percent(found.wait)} of {'its' if one else 'their'} time"
    if found.limit == "accelerator":
        return f"{who(data) if one else 'All ' + who(data)} {'is' if one else 'are'} fed: {waits}, at {rate} samples/s ({where})"
    why = f"{waits}, most of all for {_waiting_for(found)}"
    if one:
        return f"{who(data)} {why.removeprefix('it ')}: {rate} of the {most} samples/s that it could take ({where})"
    enough = amount(found.n * (1 - found.wait), 2)
    return f"The data are enough for {enough} of {who(data)}: {why}, and take {rate} of {most} samples/s ({where})"


def who(data: Mapping[str, Any]) -> str:
    """Returns the accelerators in words: "The H100", "8 accelerators of 3,000 samples/s"."""
    step, n = data["accelerator"], int(data["subject"].get("ranks", 1))
    name = step.get("title", "accelerator")
    if name.endswith("/s"):  # a rate was given instead of a name
        own = f" of {amount(data['subject']['batch_size'] / step['step_seconds'])} samples/s"
        return f"The accelerator{own}" if n == 1 else f"{n} accelerators{own} each"
    if name == "accelerator":
        return "The accelerator" if n == 1 else f"{n} accelerators"
    return f"The {name}" if n == 1 else f"{n} {name}"


def _waiting_for(found: Conclusion) -> str:
    return {"upload": "batches to reach the accelerator"}.get(found.limit, conclusion.LIMITS[found.limit])


def _title_without_step(data: Mapping[str, Any]) -> str:
    answer, phases = model.predict(data, {}), data["phases"]
    why = f"limited by {limit_words(answer.binding)}"
    if "warm" in phases and not data.get("elsewhere"):
        return f"The loader alone gives {amount(phases['warm']['samples_per_second'])} samples/s from memory, {why}"
    return f"The loader alone gives {amount(answer.samples_per_second)} samples/s (predicted), {why}"


def explanations(data: Mapping[str, Any]) -> list[str]:
    """Returns sentences that explain the title: a slower step, another limit in the model, and what would feed the accelerators."""
    found = conclusion.of(data)
    if found is None:
        return []
    lines = []
    if found.parts["slowed"] >= _SLOWER:
        beside, alone = (duration(data["phases"][name]["step_seconds"]) for name in (found.place, "resident"))
        lines.append(
            f"The step itself takes {beside} beside the loader's workers and {alone} alone, {percent(found.parts['slowed'])} of "
            "the time: they share CPU cores"
        )
    other = conclusion.conflict(data)
    lines += [other] if other else []
    if found.limit != "accelerator":
        limit = data["accelerator"].get("limit")
        if limit and 1 - found.wait >= limit:
            lines.append(f"That is allowed: it has to compute in {percent(limit)} of the time")
        elif not warnings(data):
            lines.append(_remedies(data, found))
    return lines


def _remedies(data: Mapping[str, Any], found: Conclusion) -> str:
    enough, limit = [], limit_of(data)
    try:
        more = model.need(data, "cores", limit, {}) - data["machine"]["cores"]
        enough += [f"{amount(more)} more CPU cores"] if more >= 0.05 else []
    except LimitError:
        pass
    best = best_form(data)
    if best is not None and best[1].utilisation >= limit:
        enough.append(f"the images stored as {best[0]}")
    try:
        cache = model.need(data, "cache", limit, {})
        enough += [f"a cache of {size(cache)}"] if cache > (data["machine"].get("cache_nbytes") or 0) else []
    except LimitError:
        pass
    it = "it" if found.n == 1 else "all"
    text = f"To feed {it}: {', or '.join(enough)}" if enough else f"No single change that the model knows feeds {it}"
    if best is not None and best[1].utilisation < limit:
        rate = best[1].samples_per_second
        text += f"; with the images stored as {best[0]} this machine gives {amount(rate)} samples/s"
    return text


def doubts(data: Mapping[str, Any]) -> list[str]:
    """Returns sentences about what makes a report uncertain besides its check: other programs on the machine."""
    found = []
    machine = data["machine"]
    cores = f"of {amount(machine['cores'])} CPU cores"
    began = machine.get("other_cores_at_start") or 0.0
    if began > conclusion.quiet_cores(machine["cores"]):
        found.append(f"other programs used {amount(began, 2)} {cores} at the start")
    others = machine.get("other_cores", 0.0)
    if others > _DISTURBED * machine["cores"] and not conclusion.distrust(data):  # distrust() already mentions it
        found.append(f"other programs used {amount(others, 2)} {cores} while this was measured")
    return found


def chain(subject: Mapping[str, Any]) -> str:
    """Returns in one line what the loader does to samples, or "" if the report does not say.

    subject: the section "subject" of a report, or "data" of a plan.
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


# The whole report ------------------------------------------------------------------------------------------


def text(data: Mapping[str, Any]) -> str:
    """Returns the whole report for a terminal."""
    lines = [f"{sentence}." for sentence in [*warnings(data), title(data), *explanations(data)]] + [""]
    subject, machine = data["subject"], data["machine"]
    lines.append(
        f"data       {subject['path']}: {amount(subject['samples'])} samples, {size(subject['nbytes'])}, stored as "
        f"{subject['form']}"
    )
    lines.append(f"loader     {loader_words(subject)}")
    if chain(subject):
        lines.append(f"chain      {chain(subject)}")
    storage = machine.get("storage_nbytes_per_second")
    lines.append(
        f"machine    {amount(machine['cores'])} CPU cores"
        + (f" ({machine['cpu']})" if machine.get("cpu") else "")
        + (f", storage of {size(storage)}/s" if storage else "")
    )
    lines += [f"uncertain  {doubt}" for doubt in doubts(data)]
    parts = [_phase_lines(data), _stall_lines(data), _stage_lines(data), _form_lines(data), _enough_lines(data)]
    for part in [*parts, [*check_lines(data), *rank_lines(data)], [f"note: {note}" for note in data.get("notes", [])]]:
        lines += ["", *part] if part else []
    return "\n".join(lines)


def loader_words(subject: Mapping[str, Any]) -> str:
    """Describes the loader: "Penstock's, batches of 64 samples, 2 workers, 2 batches ahead"."""
    whose = "torch's DataLoader" if subject["loader"] == "torch" else "Penstock's"
    return (
        f"{whose}, batches of {amount(subject['batch_size'])} samples, {amount(subject['workers'])} workers, "
        f"{amount(subject['prefetch'])} batches ahead"
    )


def _phase_lines(data: Mapping[str, Any]) -> list[str]:
    if not data["phases"]:
        return []
    lines = ["Measured, with one accelerator; step and wait are of a batch:"]
    lines.append(
        f"  {'phase':9s} {'batches come from':27s} {'samples/s':>9s} {'(95 % sure of)':>17s} {'wait':>8s} {'step':>8s} "
        f"{'99 % of steps':>14s}"
    )
    for name, phase in data["phases"].items():
        low, high = phase["low"], phase["high"]
        interval = f"({amount(low)} to {amount(high)})" if low is not None and high is not None else "(too short)"
        lines.append(
            f"  {name:9s} {PHASES.get(name, ''):27s} {amount(phase['samples_per_second']):>9s} {interval:>17s} "
            f"{duration(phase['wait_seconds_per_batch']):>8s} {duration(phase['step_seconds']):>8s} "
            f"{'under ' + duration(phase['step_p99_seconds']):>14s}"
        )
    return lines


def bar(parts: Mapping[str, float]) -> str:
    """Returns the stall bar: one letter for each 2.5 % of the time."""
    ends, at, bars = 0.0, 0, ""
    for name, letter in _LETTERS:
        ends += parts.get(name, 0.0)
        until = round(ends * _BAR)
        bars += letter * max(until - at, 0)
        at = max(at, until)
    return bars


def bars(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, float]]]:
    """Returns the rows of the stall bars with their names: the measured ones, and the prediction in the title."""
    rows = [(name, parts) for name, parts in data.get("stall", {}).items()]
    found = conclusion.of(data)
    return rows if found is None or found.measured else [*rows, ("predicted", found.parts)]


def bars_note(data: Mapping[str, Any]) -> str:
    """Returns a note that says what the rows of the stall bars show."""
    found = conclusion.of(data)
    measured = "warm and cold: measured with one accelerator" if not data.get("ranks") else "warm and cold: measured, of rank 0"
    if found is None or found.measured:
        return measured
    return f"{measured}; predicted: {who(data)[:1].lower()}{who(data)[1:]} on the machine above"


def _stall_lines(data: Mapping[str, Any]) -> list[str]:
    rows = bars(data)
    if not rows:
        return (
            ["No step and no accelerator was given: the rates are those of the loader alone."]
            if conclusion.of(data) is None
            else []
        )
    lines = [f"Where the accelerator's time goes ({bars_note(data)}):"]
    shown = [name for name, _ in _LETTERS if any(parts.get(name, 0.0) >= 0.005 for _, parts in rows)]
    for name, parts in rows:
        shares = ", ".join(f"{part} {percent(parts[part])}" for part in shown if parts.get(part, 0.0) >= 0.005)
        lines.append(f"  {name:9s} [{bar(parts):{_BAR}s}] {shares}")
    return lines + [f"  {letter} {name}: {MEANINGS[name]}" for name, letter in _LETTERS if name in shown]


def _stage_lines(data: Mapping[str, Any]) -> list[str]:
    if not data["stages"]:
        return []
    lines = ["The way of one sample, and what it uses:"]
    for stage in data["stages"]:
        lines.append(f"  {stage['name']:16s} {duration(stage['seconds']):>8s} of {limit_words(stage['resource'])}")
    return lines


def _form_lines(data: Mapping[str, Any]) -> list[str]:
    if not data["forms"]:
        return []
    lines = [
        "Predicted rates if the images were stored otherwise:",
        f"  {'form':16s} {'CPU/sample':>10s} {'stored':>8s} {'read':>8s} {'samples/s':>10s} {'(band)':>18s}  limited by",
    ]
    for form, places in data["forms"].items():
        for place, costs in places.items():
            try:
                answer = model.predict(data, {"form": form, "decode": place})
            except PenstockError:
                continue
            now = " (as it is now)" if (form, place) == (data["subject"]["form"], data["subject"].get("decode", "cpu")) else ""
            name = form if place == "cpu" else f"{form} on the {place.upper()}"
            band = f"({amount(answer.low)} to {amount(answer.high)})"
            lines.append(
                f"  {name:16s} {duration(costs['cpu_seconds']):>10s} {size(costs.get('item_nbytes', costs['nbytes'])):>8s} "
                f"{size(costs['nbytes']):>8s} {amount(answer.samples_per_second):>10s} {band:>18s}  "
                f"{limit_words(answer.binding)}{now}"
            )
    note = epochs_note(data)
    return [*lines, f"{note}."] if note else lines


def epochs_note(data: Mapping[str, Any]) -> str:
    """Returns a sentence that predictions include the start of each epoch, which the measured phases do not, with the rate without
    it. "": starts take almost no time."""
    own, endless = (model.predict(data, question).samples_per_second for question in ({}, {"epoch_batches": 0}))
    if own >= (1 - _STARTS) * endless:
        return ""
    batches = data["subject"]["batches_per_epoch"]
    an_epoch = f"an epoch has {amount(batches)} batch{'' if batches == 1 else 'es'}"
    return (
        f"These rates count the start of each epoch, where nothing is prepared yet and the first batch is waited for; {an_epoch}. "
        f"The phases were measured without it, and without it {data['subject']['form']} gives {amount(endless)} samples/s"
    )


_NEEDS = {"cores": "CPU cores", "storage": "from storage", "cache": "of cache"}


def need_value(resource: str, value: float) -> str:
    """Formats an amount of a resource: "14.4 CPU cores", "90 MB/s from storage"."""
    shown = f"{size(value)}/s" if resource == "storage" else size(value) if resource == "cache" else amount(value)
    return f"{shown} {_NEEDS.get(resource, resource)}"


def enough(needs: Mapping[str, float | str]) -> list[str]:
    """Returns sentences about how much of each single resource would feed the accelerators."""
    found = [need_value(name, value) for name, value in needs.items() if not isinstance(value, str)]
    lines = [f"Enough to feed the accelerators, if all else stays as it is: {', or '.join(found)}."] if found else []
    never = [limit_words(name) if name != "cache" else "cache" for name, value in needs.items() if isinstance(value, str)]
    return lines + ([f"Not enough alone, however much there is: {', '.join(never)}."] if never else [])


def _enough_lines(data: Mapping[str, Any]) -> list[str]:
    found = conclusion.of(data)
    if found is None or found.limit == "accelerator":
        return []
    return enough(model.needs(data, limit_of(data), {}))


def check_lines(data: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each phase that compares the model with the measurement."""
    return [
        f"Check of the model, {conclusion.PLACES.get(name, name)}: {amount(check['predicted'])} samples/s predicted, "
        f"{amount(check['measured'])} measured ({100 * check['error']:+.1f} %)."
        for name, check in conclusion.checks(data)
    ]


def rank_lines(data: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each rank and phase about the times of a step."""
    lines = []
    for rank in data.get("ranks") or []:
        for name, times in rank["phases"].items():
            late = "; it is the one that the others wait for" if times.get("straggler") else ""
            lines.append(
                f"Rank {rank['rank']}, {conclusion.PLACES.get(name, name)}: in a step it computes "
                f"{duration(times['compute_seconds'])}, and waits "
                f"{duration(times['gradient_wait_seconds'])} for gradients of others and "
                f"{duration(times['data_wait_seconds'])} for its data{late}."
            )
    return lines
