"""Prints a plan as text for a terminal."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ..base.units import amount, duration, size
from ..data import opening
from ..loading.plan_file import changes_forms
from ..stalls.text import chain, limit_words
from . import layout, mixtures, recoding

_WORTH = 0.02  # a saving of storage is mentioned if it is more than this fraction of the stored bytes
_FASTER = 1.05
_LONG = 30.0  # epochs: a plan must pay off within this number, if the length of the training is not given


def words(data: Mapping[str, Any]) -> str:
    """Returns the plan in a few words: "60 % pli-small, 40 % raw: 2,900 samples/s, 1.4 times as fast as now"."""
    forms: dict[str, float] = {}
    whole = sum(part["samples"] for part in data["classes"]) or 1
    for part in data["classes"]:
        for way in part["ways"]:
            name = store_words(way["store"])
            forms[name] = forms.get(name, 0.0) + part["samples"] * way["share"] / whole
    mix = ", ".join(f"{100 * share:.0f} % {name}" for name, share in sorted(forms.items(), key=lambda pair: -pair[1]))
    rate, now = data["predicted"]["samples_per_second"], data["now"]["samples_per_second"]
    return f"{mix}: {amount(rate)} samples/s, {_times(rate / now)} as now"


def _times(gain: float) -> str:
    return f"{amount(gain)} times as fast" if abs(gain - 1) >= 0.005 else "as fast"


def store_words(store: Any) -> str:
    return " + ".join(
        one["form"] + (f"-{one['tier']}" if "tier" in one else "") + (f" (error {one['max_error']})" if "max_error" in one else "")
        + (f"@{one['resize']}" if "resize" in one else "")
        for one in store
    )


def text(data: Mapping[str, Any], commands: bool = True) -> str:
    """Returns the whole plan as text. It ends with the advice whether to apply it. commands: also say how."""
    lines = [*warnings(data), *_head(data), "", *_ways(data), "", *_rates(data)]
    parts = [_prices(data), _need(data), _singles(data), _layout(data), _machines(data), _conversion(data)]
    parts += [[f"note: {note}" for note in data.get("notes", [])], _commands(data) if commands else [], [verdict(data)]]
    for part in map(list, parts):
        lines += ["", *part] if part else []
    return "\n".join(lines)


def warnings(data: Mapping[str, Any]) -> list[str]:
    """Returns lines that say why the plan's measurements should not be trusted; an empty list if they can be."""
    check = data.get("check") or {}
    if check.get("trusted", True):
        return []
    again = "Measure again on a quiet machine; --wait-quiet 60s waits for one."
    return [f"DISTURBED, do not rely on this plan. {check.get('reason', '')} {again}"]


def _head(data: Mapping[str, Any]) -> Iterator[str]:
    machine, step = data["machine"], data["accelerator"]
    storage = machine.get("storage_nbytes_per_second")
    has = [f"{amount(machine['cores'])} CPU cores", f"storage of {size(storage)}/s" if storage else "data in memory"]
    if step.get("step_seconds"):
        has.append(_accelerators(str(step.get("title") or step.get("name")), step.get("count") or 1))
    about = data["data"]
    yield f"{about['path']}: {amount(about['samples'])} samples, {size(about['nbytes'])}; {', '.join(has)}"
    if chain(about):
        yield f"measured with batches of {amount(about['batch_size'])} samples; {chain(about)}"


def _accelerators(title: str, n: float) -> str:
    """Returns accelerators in words: "8 H100", "2 accelerators of 900 samples/s"."""
    if title == "step" or title.endswith("/s"):  # the training step has no name, or a rate was given
        of = "" if title == "step" else f" of {title.removesuffix('/s')} samples/s"
        title = f"accelerator{'s' if n > 1 else ''}{of}"
    return f"{amount(n)} {title}"


def _ways(data: Mapping[str, Any]) -> Iterator[str]:
    yield "How the samples are best stored:"
    yield f"{'samples':>9s}  {'now':10s}{'pixels':>16s}  {'share':>7s}  {'store as':24s}{'cache as':10s}decode on"
    for part in data["classes"]:
        low, high = part["pixels"]
        span = "all" if low == 0 and high is None else f"{low}..{'' if high is None else high}"
        for i, way in enumerate(part["ways"]):
            start = f"{part['samples']:9d}  {part['form']:10s}{span:>16s}" if i == 0 else " " * 37
            where = "CPU" if way["decode"] == "cpu" else "GPU"
            cache = {"": "-", "encoded": "stored"}.get(way["cache"] or "", way["cache"])
            yield f"{start}  {100 * way['share']:6.1f}%  {store_words(way['store']):24s}{cache:10s}{where}"


def _rates(data: Mapping[str, Any]) -> Iterator[str]:
    now, then = data["now"], data["predicted"]
    yield f"now        {_rate(now)}, limited by {limit_words(now['binding'])}"
    binding = " and ".join(map(limit_words, then["binding"])) or "nothing that was measured"
    gain = then["samples_per_second"] / now["samples_per_second"]
    yield f"planned    {_rate(then)}, limited by {binding}: {_times(gain)}"
    yield f"stored     {size(data['data']['nbytes'])} now, {size(data['stored_nbytes'])} planned"
    loader = data["loader"]
    form = loader["cache_form"] + (" at the training size" if loader.get("cache_resolution") == "training" else "")
    form = "images as stored" if form == "stored" else f"images as {form}"
    kept = f"a cache of {size(loader['cache_nbytes'])} for {form}" if loader.get("cache") else "no cache"
    yield f"loader     {loader['num_workers']} threads, {loader['prefetch']} batches ahead, {kept}"
    if loader.get("cache") and then["binding"] == ["accelerator"]:
        yield "           the accelerator is the limit: the cache spares storage and cores, not time; --cache 0 plans without it"
    yield from recoding.text(data)
    yield from _schedule(data)


def _schedule(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each stage of the schedule, and one about the size that the mix was solved for."""
    if not data.get("schedule"):
        return
    for i, stage in enumerate(data["schedule"]):
        yield f"{'schedule' if i == 0 else '':11s}from epoch {stage['epoch']}: {_sizes(stage)}"
    yield f"           the mix and its rates are for {_sizes(data['solved_for'])}"


def _sizes(stage: Mapping[str, Any]) -> str:
    size = stage.get("size")
    sides = [size, size] if isinstance(size, int) else size
    parts = [f"pictures of {sides[0]} x {sides[1]}"] if sides else []
    return ", ".join(parts + [f"batches of {stage['batch_size']}"] if stage.get("batch_size") else parts) or "pictures as measured"


def _rate(found: Mapping[str, Any]) -> str:
    return f"{amount(found['samples_per_second']):>9s} samples/s ({amount(found['low'])} to {amount(found['high'])})"


def _prices(data: Mapping[str, Any]) -> Iterator[str]:
    if data["prices"]:
        yield "What more would bring, if nothing else changes:"
    for price in data["prices"]:
        gain, there = price["gain"], price.get("there") or 0.0
        unit = f"one {price['unit']}"
        if price["resource"] == "accelerator" and there:  # nobody can buy one sample/s of an accelerator
            unit, gain = "accelerators that are 1 % faster", 0.01 * gain * there
        brings = {"rate": "{} more samples/s", "storage": "{} fewer bytes", "cost": "{} less cost of an epoch"}[data["goal"]]
        yield f"  {unit}: {brings.format(_gain(gain))}{_span(price, there)}"


def _gain(part: float) -> str:
    return f"{amount(100 * part, 2)} %"


def _span(price: Mapping[str, Any], there: float) -> str:
    """Returns the range of amounts in which a price holds."""
    if "low" not in price:
        return ""
    low, high = price["low"] or 0.0, price["high"]
    holds = f"from {amount(low)} on" if low else "for any number"
    holds = holds if high is None else f"from {amount(low)} to {amount(high)}"
    what = " of their samples/s" if price["resource"] == "accelerator" else ""
    return f"; holds {holds}{what}" + (f", and there are {amount(there)}" if there else "")


_NEEDS = {"cores": (1.0, "CPU cores"), "storage": (1e6, "MB/s of storage"), "reads": (1.0, "reads/s"),
          "cache": (1e9, "GB of cache"), "link": (1e6, "MB/s of link"),
          "network": (1e6, "MB/s of network"), "gpu": (1.0, "GPUs for preparation")}  # fmt: skip


def _need(data: Mapping[str, Any]) -> Iterator[str]:
    need = data["need"]
    if not need:
        return
    parts = [f"{amount(need['together'][name] / scale)} {unit}" for name, (scale, unit) in _NEEDS.items()
             if need["together"].get(name)]  # fmt: skip
    amounts = " and ".join(parts) or "nothing that was measured"
    if need["is_plan"]:
        yield f"The plan is one form, {need['form']}: {amount(need['rate'])} samples/s take {amounts}."
    else:
        alone = amount(need["samples_per_second"])
        yield (f"With one form alone, {need['form']}, this machine gives {alone} samples/s; the plan's "
               f"{amount(need['rate'])} would take {amounts}.")  # fmt: skip
        ones = [f"{amount(need[name] / scale)} {unit}" for name, (scale, unit) in _NEEDS.items() if name in need]
        yield f"Enough for that, of one thing alone: {' or '.join(ones)}." if ones else "No one thing more is enough for that."
    if "price_per_hour" in need:
        currency = (data.get("machines") or {}).get("currency") or ""
        price = f"{amount(need['price_per_hour'])} {currency} an hour"
        yield f"One form alone is cheapest on {need['machine']}: {price} at the rate of the plan there."


def _singles(data: Mapping[str, Any]) -> Iterator[str]:
    yield "One form for all samples, each with its own best cache and placement:"
    for row in data["singles"]:
        if "why" in row:
            yield f"  {row['form']:14s} is not possible: {row['why']}"
            continue
        yield (f"  {row['form']:14s} {amount(row['samples_per_second']):>9s} samples/s  {size(row['stored_nbytes']):>8s} stored  "
               f"limited by {limit_words(row['binding'])}")  # fmt: skip


def _layout(data: Mapping[str, Any]) -> list[str]:
    if not data.get("layout"):
        return []
    lines = layout.text(data["layout"])
    gain = data["convert"].get("of_layout")
    if gain:
        lines.append(f"  Packing the files as they are takes {duration(gain['seconds'])}; {_paid(gain['break_even_epochs'])}.")
    return lines


def _paid(epochs: float | None) -> str:
    if epochs is None:
        return "it never saves the time that it takes"
    return f"that time is saved after {amount(epochs, 2)} epochs of training"


def _conversion(data: Mapping[str, Any]) -> list[str]:
    convert = data["convert"]
    if not convert["nbytes"]:
        return []
    return [f"Writing these forms takes {duration(convert['seconds'])} and {size(convert['nbytes'])}; "
            f"{_paid(convert['break_even_epochs'])}."]  # fmt: skip


def verdict(data: Mapping[str, Any]) -> str:
    """Returns in a sentence whether to apply the plan: "Do it: ..." or "Leave it as it is: ..."."""
    if warnings(data):
        return "Leave it as it is: the measurements were disturbed, and the plan follows from them. Measure again."
    gain = data["predicted"]["samples_per_second"] / data["now"]["samples_per_second"]
    faster = f"{amount(gain)} times as fast"
    if not changes_forms(data):
        if gain > _FASTER:
            return f"Do it: nothing is written, and with the plan's cache and threads the data are loaded {faster}."
        return "Leave it as it is: no other form is worth writing."
    saved = data["data"]["nbytes"] - data["stored_nbytes"]
    smaller = f"{size(saved)} less are stored" if saved > _WORTH * data["data"]["nbytes"] else ""
    epochs, most = data["convert"]["break_even_epochs"], data.get("epochs") or _LONG
    if epochs is None:
        return f"Do it: {smaller}, though no time is saved." if smaller else "Leave it as it is: no time is saved."
    also = f", and {smaller}" if smaller else ""
    if epochs <= 1:
        return f"Do it: the first epoch pays for the writing, each later one is {faster}{also}."
    if epochs <= most or smaller:
        return f"Do it: from {amount(epochs, 2)} epochs of training on time is saved ({faster}){also}."
    return f"Leave it as it is: only from {amount(epochs, 2)} epochs of training on is time saved ({faster})."


def _machines(data: Mapping[str, Any]) -> list[str]:
    table = data.get("machines")
    if not table:
        return []
    money = table.get("currency") or ""
    good = [row for row in table["rows"] if "error" not in row]
    assumed = [row for row in good if row.get("is_rate_assumed")]
    prices = f"prices of {table['date']}" if table.get("date") else "prices without a date"
    lines = [f"Machines ({prices}), and an epoch of the best plan on each:",
             f"  {'':28s}{money + '/h':>8s}{'samples/s':>11s}{'epoch':>9s}{money + '/epoch':>11s}  limited by"]  # fmt: skip
    fastest = max(good, key=lambda row: row["samples_per_second"], default=None)
    for row in table["rows"]:
        if "error" in row:
            lines.append(f"  {row['name']:28s}is not possible: {row['error']}")
            continue
        marks = [mark for mark, it in (("cheapest", good[0]), ("fastest", fastest)) if it is row]
        claim = f": {' and '.join(marks)}{', if the assumption below holds' if assumed else ''}" if marks else ""
        lines.append(f"  {row['name']:28s}{row['price_per_hour']:8.3f}{amount(row['samples_per_second']):>11s}"
                     f"{duration(row['epoch_seconds']):>9s}{amount(row['epoch_cost']):>11s}  "
                     f"{limit_words(row['binding'])}{claim}")  # fmt: skip
        if row.get("single") and row["stored"] != [row["single"]["form"]]:
            lines.append(f"      with one form alone, {row['single']['form']}: {amount(row['single']['epoch_cost'])} an epoch")
        if row["chosen"]:
            lines.append(f"      with {', '.join(_amount(name, value) for name, value in row['chosen'].items())}")
    return lines + _assumption(assumed)


def _assumption(rows: list[Mapping[str, Any]]) -> list[str]:
    """Returns a line that lists the machines whose accelerator rate is not known."""
    if not rows:
        return []
    named: dict[str, list[str]] = {}
    for row in rows:
        known = named.setdefault(row.get("accelerator") or "an accelerator without a name", [])
        known += [row["name"]] if row["name"] not in known else []
    each = "; ".join(f"{name} ({', '.join(machines)})" for name, machines in named.items())
    rate = amount(rows[0]["accelerator_samples_per_second"])
    return [f"  Assumed: these take {rate} samples/s of your network, as this accelerator does: {each}. "
            "Say what each really takes by accelerator_samples_per_second in the file of machines."]  # fmt: skip


def _amount(name: str, value: float) -> str:
    if name == "memory_nbytes":
        return f"{value / (1 << 30):.0f} GiB of memory"
    if name.endswith("_nbytes_per_second"):
        return f"{name.removesuffix('_nbytes_per_second')} of {size(value)}/s"
    return f"{amount(value)} {name.replace('_per_second', '/s')}"


def packed_path(path: str) -> str:
    """Returns the default path that a folder is packed to: beside it, with the suffix ".pst". The path of a data set is returned
    unchanged."""
    whole = path.rstrip("/") or path
    if os.path.basename(whole) in ("", ".", ".."):
        whole = os.path.abspath(whole)
    return path if whole.endswith(".pst") else whole + ".pst"


def _commands(data: Mapping[str, Any]) -> list[str]:
    path = data["data"]["path"]
    packed = packed_path(path)
    changes = changes_forms(data)
    given = data["data"].get("opening") or {}
    options = opening.words(given)
    source = given.get("path", path)
    lines = ["How to apply it, once it is in a file (penstock plan --out plan.json):"]
    if data["data"].get("sources"):
        return lines + mixtures.commands(data)
    if changes and packed != path:
        lines.append("  " + shlex.join(["penstock", "pack", source, packed, *options, "--plan", "plan.json"]))
    elif changes:
        lines.append(f"  penstock repack {shlex.quote(path)} --plan plan.json")
    data_set = opening.expression(path, given)
    return [*lines, f'  ps.Loader({repr(packed) if changes else data_set}, ..., plan="plan.json")']


def check(predicted: Mapping[str, Any], samples_per_second: float) -> str:
    """Compares a measured rate with the predicted one. Returns a sentence."""
    rate = predicted["samples_per_second"]
    inside = predicted["low"] <= samples_per_second <= predicted["high"]
    return (f"{amount(rate)} samples/s were predicted ({amount(predicted['low'])} to {amount(predicted['high'])}), and "
            f"{amount(samples_per_second)} were measured: {samples_per_second / rate - 1:+.1%}"
            f"{'' if inside else ', outside the band'}")  # fmt: skip
