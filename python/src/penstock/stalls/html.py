"""A report as one self-contained HTML page: inline SVG and CSS, no script, nothing from elsewhere, legible in light and dark."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..base.units import duration, size
from ..errors import PenstockError
from . import model
from . import svg as pictures
from . import text as words

_STYLE = """
.pst{--text:#1c2430;--muted:#5d6b7c;--line:#d6dde5;--box:#f1f4f8;--back:#ffffff;--onbar:#ffffff;
--c1:#1f7a4d;--c2:#8250b8;--c3:#c4590c;--c4:#1666b5;--c5:#7a8593;
color:var(--text);background:var(--back);font:15px/1.5 system-ui,"DejaVu Sans",sans-serif;
max-width:940px;margin:0 auto;padding:24px}
@media (prefers-color-scheme:dark){.pst{--text:#e6ebf1;--muted:#9fadbd;--line:#364352;--box:#1e2732;--back:#131920;--onbar:#10151b;
--c1:#53c78f;--c2:#b794e6;--c3:#f09a5b;--c4:#6cb2f2;--c5:#8b98a7}}
.pst h1{font-size:24px;line-height:1.3;margin:0 0 4px}.pst h2{font-size:17px;margin:30px 0 10px}
.pst p{margin:6px 0;color:var(--muted)}.pst .lead{color:var(--text);font-size:17px}
.pst table{border-collapse:collapse;width:100%;font-size:14px}
.pst th,.pst td{text-align:right;padding:5px 10px;border-bottom:1px solid var(--line)}
.pst th{color:var(--muted);font-weight:600}.pst th:first-child,.pst td:first-child{text-align:left}
.pst .now{background:var(--box)}
.pst code,.pst pre{font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;color:var(--text)}
.pst pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:8px 12px;
margin:4px 0 12px;white-space:pre-wrap}
.pst .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(380px,1fr));gap:18px}
.pst ul{padding-left:20px;color:var(--muted)}
"""
_COLORS = {"compute": 1, "upload": 4, "prepare": 2, "fetch": 3}
_STAGE_COLORS = {"compute": 1, "upload": 4, "fetch": 3}


def page(data: Mapping[str, Any]) -> str:
    """Returns the whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>Penstock: {escape(str(data['subject']['path']))}</title>"
        "<style>body{margin:0}@media (prefers-color-scheme:dark){body{background:#131920}}</style></head>"
        f"<body>{fragment(data)}</body></html>\n"
    )


def fragment(data: Mapping[str, Any]) -> str:
    """Returns the report as one element, for a page or a notebook."""
    parts = [f"<style>{_STYLE}</style>", _head(data), _stages(data), _stalls(data), _curves(data), _forms(data)]
    parts += [_advice(data), _phases(data), _notes(data)]
    return f'<div class="pst">{"".join(parts)}</div>'


def _head(data: Mapping[str, Any]) -> str:
    subject, machine = data["subject"], data["machine"]
    head, _, rest = words.words(data).partition("; ")
    facts = (
        f"{subject['path']}: {subject['samples']} samples, {size(subject['nbytes'])}, form {subject['form']} · "
        f"{subject['loader']} loader, batches of {subject['batch_size']}, {subject['workers']} workers · "
        f"{machine['cores']:g} cores, {machine.get('cpu', '')} · {data['made'][:10]}"
    )
    if words.chain(subject):
        facts += f" · {words.chain(subject)}"
    more = f'<p class="lead">{escape(rest[:1].upper() + rest[1:])}</p>' if rest else ""
    doubts = "".join(f"<li>{escape(doubt)}</li>" for doubt in words.doubts(data))
    if doubts:
        more += f'<p class="lead">This report is uncertain:</p><ul>{doubts}</ul>'
    return f"<h1>{escape(head)}</h1>{more}<p>{escape(facts)}</p>"


def _stages(data: Mapping[str, Any]) -> str:
    longest = max((stage["seconds"] for stage in data["stages"]), default=0.0)
    if longest <= 0:
        return ""
    boxes = [
        (s["name"], s["resource"], duration(s["seconds"]), s["seconds"] / longest, _STAGE_COLORS.get(s["name"], 2))
        for s in data["stages"]
    ]
    return "<h2>The way of a sample</h2>" + pictures.strip(boxes) + "<p>Time of one sample on its resource.</p>"


def _stalls(data: Mapping[str, Any]) -> str:
    rows = [
        (name, [(part, parts[part], color) for part, color in _COLORS.items()]) for name, parts in data.get("stall", {}).items()
    ]
    if not rows:
        return ""
    meaning = "; ".join(f"{part}: {words.MEANINGS[part]}" for part in _COLORS)
    note = f"<p>Measured with one accelerator. {escape(meaning)}.</p>"
    return f"<h2>Where the accelerator's time goes</h2>{pictures.stall_bars(rows)}{note}"


# Curves -------------------------------------------------------------------------------------------------


def _spread(low: float, high: float, n: int = 33) -> list[float]:
    return [low * (high / low) ** (i / (n - 1)) for i in range(n)]


def _curve(
    data: Mapping[str, Any], name: str, color: int, member: str, values: Sequence[float], dashed: bool = False, **fixed: Any
) -> pictures.Curve:
    points = []
    for value in values:
        answer = model.predict(data, {**fixed, member: value})
        points.append((value, answer.samples_per_second, answer.low, answer.high))
    return pictures.Curve(name, color, points, dashed)


def _limit(data: Mapping[str, Any]) -> tuple[float, str] | None:
    step = data["accelerator"]
    if not step.get("step_seconds"):
        return None
    subject = data["subject"]
    rate = subject["batch_size"] * subject.get("ranks", 1) / step["step_seconds"]
    return rate, f"{subject.get('ranks', 1)} × {step.get('title', 'accelerator')}"


def _curves(data: Mapping[str, Any]) -> str:
    own = data["subject"]["form"]
    other = words.best_form(data) or next(iter(words.alternatives(data)), None)
    best = other[0] if other else None
    limit, cores = _limit(data), float(data["machine"]["cores"])
    numbers = _spread(max(0.5, cores / 4), max(64.0, cores * 4))
    forms = [(own, 4)] + ([(best, 3)] if best else [])
    charts = [
        pictures.chart(
            "Cores", "CPU cores of the machine",
            [_curve(data, form, color, "cores", numbers, form=form) for form, color in forms],
            log=True, line=limit, mark=(cores, "now"), measured=_range(data, "cores"),
        )
    ]  # fmt: skip
    charts += _storage_charts(data, forms, limit)
    if limit is not None:
        speeds = _spread(0.25, 8.0)
        charts.append(
            pictures.chart(
                "A faster accelerator", "speed, now = 1",
                [_curve(data, form, color, "gpu_speed", speeds, form=form) for form, color in forms],
                log=True, mark=(1.0, "now"),
            )
        )  # fmt: skip
    note = "Bands: what the model says for the ends of the measured intervals, wider where nothing was measured (shaded: measured)."
    return f'<h2>What if</h2><div class="charts">{"".join(charts)}</div><p>{note}</p>'


def _storage_charts(data: Mapping[str, Any], forms: Sequence[tuple[str, int]], limit: tuple[float, str] | None) -> list[str]:
    storage = data["machine"].get("storage_nbytes_per_second")
    if not storage:
        return []
    whole = float(data["subject"]["nbytes"])
    rates = _spread(storage / 64, storage * 2)
    parts = [whole * i / 32 for i in range(33)]
    # A cache only matters where storage is slower than the rest: shown for the storage rate at which it is.
    answer = model.predict(data, {"cache": whole * 4 + 1})
    demand = answer.samples_per_second * data["forms"][data["subject"]["form"]]["cpu"]["nbytes"]
    slow = min(storage, demand / 3)
    shown = f"storage {size(slow)}/s" + ("" if slow == storage else " (slower than measured)")
    fixed = {"storage": slow, "page_cache": 0, "shared_cache": True}
    charts = [
        pictures.chart(
            "Storage, nothing cached", "storage, bytes/s",
            [_curve(data, form, color, "storage", rates, form=form, page_cache=0, cache=0) for form, color in forms],
            log=True, line=limit, mark=(storage, "now"), x_words=lambda v: size(v),
        ),
        pictures.chart(
            f"Cache, {shown}", "part of the data set that fits",
            [
                _curve(data, "nothing evicted", 1, "cache", parts, **fixed),
                _curve(data, "page cache", 5, "page_cache", parts, True, storage=slow),
            ],
            log=False, x_words=lambda v: f"{100 * v / whole:.0f} %",
        ),
    ]  # fmt: skip
    return charts


def _range(data: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    found = data.get("measured", {}).get(name)
    return (float(found[0]), float(found[1])) if found else None


# Tables -------------------------------------------------------------------------------------------------


def _table(heads: Sequence[str], rows: Sequence[tuple[bool, Sequence[str]]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr{' class=now' if now else ''}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for now, row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def _forms(data: Mapping[str, Any]) -> str:
    rows = []
    for form, places in data["forms"].items():
        for place, costs in places.items():
            try:
                answer = model.predict(data, {"form": form, "decode": place})
            except PenstockError:
                continue
            rows.append(
                (
                    form == data["subject"]["form"],
                    (
                        form if place == "cpu" else f"{form} on {place}",
                        duration(costs["cpu_seconds"]),
                        size(costs.get("item_nbytes", costs["nbytes"])),
                        size(costs["nbytes"]),
                        f"{answer.samples_per_second:.4g}",
                        f"{answer.low:.4g} to {answer.high:.4g}",
                        f"{answer.utilisation:.2f}",
                        answer.binding,
                    ),
                )
            )
    heads = ("form", "CPU per sample", "bytes", "bytes read", "samples/s", "band", "utilisation", "limited by")
    return (
        f"<h2>Forms</h2>{_table(heads, rows)}<p>Shaded: how the data set is stored now. Pixels are the same in all of them.</p>"
    )


def advice(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns recommendations: a sentence, and the command to run ("": none)."""
    found: list[tuple[str, str]] = []
    if "warm" in words.misses(data):
        found.append(("Measure again while nothing else runs: the model contradicts what was measured.", ""))
    now = model.predict(data, {})
    best = words.best_form(data)
    ranked = sorted(words.alternatives(data), key=lambda pair: best is None or pair[0] != best[0])
    for form, answer in ranked[:3]:
        gain = answer.samples_per_second / now.samples_per_second
        if gain > 1.05:
            found.append(_store_as(data, form, gain))
    for resource, value in model.needs(data, words.limit_of(data), {}).items():
        if isinstance(value, str) or now.utilisation >= words.limit_of(data):
            continue
        if resource == "cache":
            found.append((f"A cache of {size(value)} is enough.", f"Loader(..., cache={int(value)})"))
        else:
            found.append((f"{resource.capitalize()}: {words.need_value(resource, value)} are enough.", ""))
    if not found:
        found.append(("Nothing to do: the accelerator is the limit, or no single change helps.", ""))
    return found


def _store_as(data: Mapping[str, Any], form: str, gain: float) -> tuple[str, str]:
    """Returns the advice to use a form, and its command."""
    subject = data["subject"]
    path = shlex.quote(str(subject["path"]))
    if subject["loader"] == "torch" and form in ("jpeg", "png", "webp"):
        return f"Load these files with Penstock: {gain:.2g} times the rate.", f"penstock.Loader({str(subject['path'])!r}, ...)"
    costs, own = data["forms"][form]["cpu"], data["forms"][subject["form"]]["cpu"]
    ratio = costs["item_nbytes"] / max(own["item_nbytes"], 1)
    command = f"penstock pack {path} packed.pst --form {form}"
    if form.startswith("pli-") and form != "pli-jpeg":
        command = f"penstock pack {path} packed.pst --form pli --tier {form.removeprefix('pli-')} --of-lossy"
    return f"Store it as {form}: {gain:.2g} times the rate, {ratio:.2f} times the bytes.", command


def _advice(data: Mapping[str, Any]) -> str:
    items = "".join(
        f"<p class='lead'>{escape(sentence)}</p>" + (f"<pre>{escape(command)}</pre>" if command else "")
        for sentence, command in advice(data)
    )
    return f"<h2>What would help</h2>{items}"


def _phases(data: Mapping[str, Any]) -> str:
    rows = []
    for name, phase in data["phases"].items():
        low, high = phase["low"], phase["high"]
        check = data.get("check", {}).get(name)
        rows.append(
            (
                False,
                (
                    name,
                    f"{phase['samples_per_second']:.4g}",
                    f"{low:.4g} to {high:.4g}" if low is not None and high is not None else "unknown",
                    duration(phase["wait_seconds_per_batch"]),
                    duration(phase["step_seconds"]),
                    duration(phase["step_p99_seconds"]),
                    f"{check['predicted']:.4g} ({100 * check['error']:+.1f} %)" if check else "",
                ),
            )
        )
    heads = ("phase", "samples/s", "95 % interval", "wait per batch", "step", "step p99", "model says")
    return f"<h2>Phases</h2>{_table(heads, rows)}"


def _notes(data: Mapping[str, Any]) -> str:
    lines = list(data.get("notes", []))
    others = data["machine"].get("other_cores", 0)
    if others > 0.1:
        lines.append(f"other processes used {others:.1f} cores meanwhile")
    lines += [line.strip() for line in words._rank_lines(data)]
    if not lines:
        return ""
    return "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(str(line))}</li>" for line in lines) + "</ul>"
