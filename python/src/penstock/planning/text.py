"""A plan as text for a terminal."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ..base.units import duration, size
from ..loading.plan_file import changes_forms
from ..stalls.text import chain
from . import layout

_WORTH = 0.02  # of the bytes stored
_FASTER = 1.05


def words(data: Mapping[str, Any]) -> str:
    """Returns the plan in a few words: "60 % pli-small, 40 % raw: 2900 samples/s, 1.4 x"."""
    forms: dict[str, float] = {}
    whole = sum(part["samples"] for part in data["classes"]) or 1
    for part in data["classes"]:
        for way in part["ways"]:
            name = store_words(way["store"])
            forms[name] = forms.get(name, 0.0) + part["samples"] * way["share"] / whole
    mix = ", ".join(f"{100 * share:.0f} % {name}" for name, share in sorted(forms.items(), key=lambda pair: -pair[1]))
    rate, now = data["predicted"]["samples_per_second"], data["now"]["samples_per_second"]
    return f"{mix}: {rate:.4g} samples/s, {rate / now:.2f} x"


def store_words(store: Any) -> str:
    return " + ".join(
        one["form"] + (f"-{one['tier']}" if "tier" in one else "") + (f" (error {one['max_error']})" if "max_error" in one else "")
        + (f"@{one['resize']}" if "resize" in one else "")
        for one in store
    )


def text(data: Mapping[str, Any], commands: bool = True) -> str:
    """Returns the whole plan. commands: say how it is applied, too."""
    lines = [*_head(data), "", *_ways(data), "", *_rates(data), *_prices(data), *_need(data), "", *_singles(data)]
    for part in (_layout(data), _machines(data), [*_conversion(data), verdict(data)], _commands(data) if commands else []):
        lines += ["", *part] if part else []
    return "\n".join(lines + [f"note: {note}" for note in data.get("notes", [])])


def _head(data: Mapping[str, Any]) -> Iterator[str]:
    machine, step = data["machine"], data["accelerator"]
    storage = machine.get("storage_nbytes_per_second")
    has = [f"{machine['cores']:g} cores", f"storage of {size(storage)}/s" if storage else "data in memory"]
    if step.get("step_seconds"):
        title = step.get("title") or step.get("name")
        has.append(f"{step.get('count') or 1} x {title}")
    about = data["data"]
    yield f"{about['path']}: {about['samples']} samples, {size(about['nbytes'])}; {', '.join(has)}"
    if chain(about):
        yield f"measured with batches of {about['batch_size']}; {chain(about)}"


def _ways(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'samples':>9s}  {'now':10s}{'pixels':>16s}  {'share':>7s}  {'stored as':24s}{'cache':10s}decoded by"
    for part in data["classes"]:
        low, high = part["pixels"]
        span = "all" if low == 0 and high is None else f"{low}..{'' if high is None else high}"
        for i, way in enumerate(part["ways"]):
            start = f"{part['samples']:9d}  {part['form']:10s}{span:>16s}" if i == 0 else " " * 37
            where = "CPU" if way["decode"] == "cpu" else "GPU"
            yield f"{start}  {100 * way['share']:6.1f}%  {store_words(way['store']):24s}{way['cache'] or '-':10s}{where}"


def _rates(data: Mapping[str, Any]) -> Iterator[str]:
    now, then = data["now"], data["predicted"]
    yield f"now        {_rate(now)}, limited by {now['binding']}"
    binding = " and ".join(then["binding"]) or "nothing measured"
    gain = then["samples_per_second"] / now["samples_per_second"]
    yield f"planned    {_rate(then)}, limited by {binding}: {gain:.2f} x"
    yield f"stored     {size(data['data']['nbytes'])} now, {size(data['stored_nbytes'])} planned"
    loader = data["loader"]
    form = loader["cache_form"] + (" at the training size" if loader.get("cache_resolution") == "training" else "")
    kept = f", cache {size(loader['cache_nbytes'])} of {form}" if loader.get("cache") else ", no cache"
    yield f"loader     {loader['num_workers']} threads, {loader['prefetch']} batches ahead{kept}"
    if kept != ", no cache" and then["binding"] == ["accelerator"]:
        yield "           the accelerator is the limit: the cache spares storage and cores, not time; --cache 0 plans without it"
    yield from _schedule(data)


def _schedule(data: Mapping[str, Any]) -> Iterator[str]:
    """A line for each stage of the schedule, and one that says what the mix was solved for."""
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
    return f"{found['samples_per_second']:9.4g} samples/s ({found['low']:.4g} to {found['high']:.4g})"


def _prices(data: Mapping[str, Any]) -> Iterator[str]:
    goal = {"rate": "samples/s", "storage": "of the bytes stored", "cost": "of the cost"}[data["goal"]]
    for price in data["prices"]:
        span = ""
        if "low" in price:
            low = _amount_of(price["low"] or 0)
            span = f", from {low} {'on' if price['high'] is None else 'to ' + _amount_of(price['high'])}"
            span += f" (there are {_amount_of(price['there'])})" if price.get("there") else ""
        sign = "+" if data["goal"] == "rate" else "-"
        yield f"worth      one {price['unit']}: {sign}{100 * price['gain']:.2g} % {goal}{span}"


def _amount_of(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


_NEEDS = {"cores": (1.0, "cores"), "storage": (1e6, "MB/s of storage"), "reads": (1.0, "reads/s"), "cache": (1e9, "GB of cache"),
          "link": (1e6, "MB/s of link"), "network": (1e6, "MB/s of network"), "gpu": (1.0, "GPUs for preparation")}  # fmt: skip


def _need(data: Mapping[str, Any]) -> Iterator[str]:
    need = data["need"]
    if not need:
        return
    parts = [f"{need['together'][name] / scale:.4g} {unit}" for name, (scale, unit) in _NEEDS.items()
             if need["together"].get(name)]  # fmt: skip
    amounts = " and ".join(parts) or "nothing measured"
    if need["is_plan"]:
        yield f"unmixed    the plan is one form, {need['form']}: {need['rate']:.4g} samples/s take {amounts}"
    else:
        alone = f"{need['form']} alone: {need['samples_per_second']:.4g} samples/s"
        yield f"unmixed    {alone}; {need['rate']:.4g} would take {amounts}"
        ones = [f"{need[name] / scale:.4g} {unit}" for name, (scale, unit) in _NEEDS.items() if name in need]
        yield f"           {'one thing more is enough: ' + ' or '.join(ones) if ones else 'no one thing more is enough'}"
    if "price_per_hour" in need:
        currency = (data.get("machines") or {}).get("currency") or ""
        yield f"           by price: {need['price_per_hour']:.4g} {currency}/h on {need['machine']}, for the rate of its plan there"


def _singles(data: Mapping[str, Any]) -> Iterator[str]:
    yield "one form for all samples, with its own best cache and placement:"
    for row in data["singles"]:
        if "why" in row:
            yield f"  {row['form']:14s} not possible: {row['why']}"
            continue
        yield (f"  {row['form']:14s} {row['samples_per_second']:9.4g} samples/s  {size(row['stored_nbytes']):>8s}  "
               f"limited by {row['binding']}")  # fmt: skip


def _layout(data: Mapping[str, Any]) -> list[str]:
    if not data.get("layout"):
        return []
    lines = layout.text(data["layout"])
    gain = data["convert"].get("of_layout")
    if gain:
        lines.append(f"  packing as it is takes {duration(gain['seconds'])}: {_paid(gain['break_even_epochs'])}")
    return lines


def _paid(epochs: float | None) -> str:
    return "by time it never pays" if epochs is None else f"paid back after {epochs:.2g} epochs"


def _conversion(data: Mapping[str, Any]) -> list[str]:
    convert = data["convert"]
    if not convert["nbytes"]:
        return []
    return [f"making the forms takes {duration(convert['seconds'])} and writes {size(convert['nbytes'])}: "
            f"{_paid(convert['break_even_epochs'])}"]  # fmt: skip


def verdict(data: Mapping[str, Any]) -> str:
    """Returns whether to write what the plan says, in a sentence."""
    gain = data["predicted"]["samples_per_second"] / data["now"]["samples_per_second"]
    if not changes_forms(data):
        also = f"; the plan's cache and threads alone make it {gain:.2f} x as fast" if gain > _FASTER else ""
        return f"verdict    write nothing: no other form is worth it{also}"
    saved = data["data"]["nbytes"] - data["stored_nbytes"]
    smaller = f"it stores {size(saved)} less" if saved > _WORTH * data["data"]["nbytes"] else ""
    epochs = data["convert"]["break_even_epochs"]
    if epochs is None:
        return f"verdict    {'do it for the storage alone: ' + smaller if smaller else 'leave it: it saves no time'}"
    also = f", and {smaller}" if smaller else ""
    if epochs <= 1:
        return f"verdict    do it: one epoch pays for it, each later one is {gain:.2f} x as fast{also}"
    return f"verdict    do it if you train for more than {epochs:.2g} epochs ({gain:.2f} x as fast){also}"


def _machines(data: Mapping[str, Any]) -> list[str]:
    table = data.get("machines")
    if not table:
        return []
    money = table.get("currency") or ""
    good = [row for row in table["rows"] if "error" not in row]
    lines = [f"machines ({table.get('date') or 'no date'}), an epoch of the best plan on each:",
             f"  {'':28s}{money + '/h':>8s}{'samples/s':>11s}{'epoch':>9s}{money + '/epoch':>11s}  limited by"]  # fmt: skip
    fastest = max(good, key=lambda row: row["samples_per_second"], default=None)
    for row in table["rows"]:
        if "error" in row:
            lines.append(f"  {row['name']:28s}not possible: {row['error']}")
            continue
        marks = [mark for mark, it in (("cheapest", good[0]), ("fastest", fastest)) if it is row]
        lines.append(f"  {row['name']:28s}{row['price_per_hour']:8.3f}{row['samples_per_second']:11.4g}"
                     f"{duration(row['epoch_seconds']):>9s}{row['epoch_cost']:11.4g}  {row['binding']}"
                     f"{': ' + ' and '.join(marks) if marks else ''}")  # fmt: skip
        if row.get("single") and row["stored"] != [row["single"]["form"]]:
            lines.append(f"      unmixed, {row['single']['form']}: {row['single']['epoch_cost']:.4g} an epoch")
        if row["chosen"]:
            lines.append(f"      with {', '.join(_amount(name, value) for name, value in row['chosen'].items())}")
    return lines


def _amount(name: str, value: float) -> str:
    if name == "memory_nbytes":
        return f"{value / (1 << 30):.0f} GiB of memory"
    if name.endswith("_nbytes_per_second"):
        return f"{name.removesuffix('_nbytes_per_second')} of {size(value)}/s"
    return f"{value:.3g} {name.replace('_per_second', '/s')}"


def packed_path(path: str) -> str:
    """Returns where a folder is packed to if nothing else is said: beside it, with the suffix ".pst". A data set stays."""
    whole = path.rstrip("/") or path
    if os.path.basename(whole) in ("", ".", ".."):
        whole = os.path.abspath(whole)
    return path if whole.endswith(".pst") else whole + ".pst"


def _commands(data: Mapping[str, Any]) -> list[str]:
    path = data["data"]["path"]
    packed = packed_path(path)
    changes = changes_forms(data)
    lines = ["what to do with the plan, once it is in a file (penstock plan --out plan.json):"]
    if changes and packed != path:
        lines.append(f"  penstock pack {shlex.quote(path)} {shlex.quote(packed)} --plan plan.json")
    elif changes:
        lines.append(f"  penstock repack {shlex.quote(path)} --plan plan.json")
    return [*lines, f'  ps.Loader({(packed if changes else path)!r}, ..., plan="plan.json")']


def check(predicted: Mapping[str, Any], samples_per_second: float) -> str:
    """Returns a comparison of a measured rate with the predicted one."""
    rate = predicted["samples_per_second"]
    inside = predicted["low"] <= samples_per_second <= predicted["high"]
    return (f"predicted {rate:.4g} samples/s ({predicted['low']:.4g} to {predicted['high']:.4g}), measured "
            f"{samples_per_second:.4g}: {samples_per_second / rate - 1:+.1%}{'' if inside else ', outside the band'}")  # fmt: skip
