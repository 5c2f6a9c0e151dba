"""Shows a report as one self-contained HTML page: inline SVG and CSS, no script, no external files, for light and dark themes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..base.units import amount, duration, percent, size
from ..data.markup import themes
from ..errors import PenstockError
from . import conclusion, model
from . import svg as pictures
from . import text as words

_LIGHT = """--text:#1c2430;--muted:#5d6b7c;--line:#d6dde5;--box:#f1f4f8;--back:#ffffff;--onbar:#ffffff;
--c1:#1f7a4d;--c2:#8250b8;--c3:#c4590c;--c4:#1666b5;--c5:#7a8593"""
_DARK = """--text:#e6ebf1;--muted:#9fadbd;--line:#364352;--box:#1e2732;--back:#131920;--onbar:#10151b;
--c1:#53c78f;--c2:#b794e6;--c3:#f09a5b;--c4:#6cb2f2;--c5:#8b98a7"""
_STYLE = themes(".pst", _LIGHT, _DARK) + """
.pst{color:var(--text);background:var(--back);font:15px/1.5 system-ui,"DejaVu Sans",sans-serif;
max-width:940px;margin:0 auto;padding:24px}
.pst h1{font-size:24px;line-height:1.3;margin:0 0 4px}.pst h2{font-size:17px;margin:30px 0 10px}
.pst p{margin:6px 0;color:var(--muted)}.pst .lead{color:var(--text);font-size:17px}
.pst table{border-collapse:collapse;width:100%;font-size:14px}
.pst th,.pst td{text-align:right;padding:5px 10px;border-bottom:1px solid var(--line)}
.pst th{color:var(--muted);font-weight:600}.pst th:first-child,.pst td:first-child{text-align:left}
.pst .now{background:var(--box)}
.pst code,.pst pre{font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;color:var(--text)}
.pst pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:8px 12px;
margin:4px 0 12px;white-space:pre-wrap}
.pst .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:18px}
.pst ul{padding-left:20px;color:var(--muted)}
.pst .banner{border:2px solid var(--c3);border-radius:6px;padding:10px 14px;margin:0 0 16px}
.pst .banner p{color:var(--text)}
.pst .way{display:flex;flex-wrap:wrap;gap:12px}
.pst .way div{flex:1 1 120px;background:var(--box);border:1px solid var(--line);border-radius:6px;padding:8px 10px}
.pst .way b,.pst .way span{display:block}.pst .way span{color:var(--muted)}
.pst .track{display:block;height:10px;border-radius:3px;background:var(--line);margin-top:6px;overflow:hidden}
.pst .track i{display:block;height:10px}
.pst .time{display:flex;height:26px;border-radius:3px;overflow:hidden;background:var(--line)}
.pst .key{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 5px 0 0}
.pst .shares span{margin-right:16px;white-space:nowrap;color:var(--text)}
@media (max-width:640px){
.pst{padding:12px}.pst h1{font-size:20px}
.pst tr{display:block;padding:8px 0;border-bottom:1px solid var(--line)}.pst tr.heads{display:none}
.pst td{display:flex;justify-content:space-between;gap:12px;border:0;padding:2px 6px}
.pst td::before{content:attr(data-head);color:var(--muted);text-align:left}
.pst td:first-child{font-weight:600;text-align:right}.pst td:empty{display:none}.pst .now{border-radius:6px}
}
"""
_COLORS = {"compute": 1, "slowed": 5, "upload": 4, "prepare": 2, "fetch": 3}
_STAGE_COLORS = {"compute": 1, "upload": 4, "fetch": 3}


def page(data: Mapping[str, Any]) -> str:
    """Returns the report as a whole HTML page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>Penstock: {escape(str(data['subject']['path']))}</title>"
        "<style>body{margin:0}@media (prefers-color-scheme:dark){body{background:#131920}}</style></head>"
        f"<body>{fragment(data)}</body></html>\n"
    )


def fragment(data: Mapping[str, Any]) -> str:
    """Returns the report as one HTML element, for a page or a notebook."""
    parts = [f"<style>{_STYLE}</style>", _head(data), _stages(data), _stalls(data), _curves(data), _forms(data)]
    parts += [_advice(data), _phases(data), _notes(data)]
    return f'<div class="pst">{"".join(parts)}</div>'


def _head(data: Mapping[str, Any]) -> str:
    subject, machine = data["subject"], data["machine"]
    facts = (
        f"{subject['path']}: {amount(subject['samples'])} samples, {size(subject['nbytes'])}, stored as {subject['form']} · "
        f"{words.loader_words(subject)} · "
        f"{amount(machine['cores'])} CPU cores{', ' + machine['cpu'] if machine.get('cpu') else ''} · {data['made'][:10]}"
    )
    if words.chain(subject):
        facts += f" · {words.chain(subject)}"
    banner = "".join(f"<p>{escape(warning)}.</p>" for warning in words.warnings(data))
    lead = "".join(f'<p class="lead">{escape(sentence)}.</p>' for sentence in words.explanations(data))
    doubts = "".join(f"<li>{escape(doubt)}</li>" for doubt in words.doubts(data))
    if doubts:
        lead += f'<p class="lead">This report is uncertain:</p><ul>{doubts}</ul>'
    top = f'<div class="banner" role="alert">{banner}</div>' if banner else ""
    return f"{top}<h1>{escape(words.title(data))}.</h1>{lead}<p>{escape(facts)}</p>"


def _stages(data: Mapping[str, Any]) -> str:
    longest = max((stage["seconds"] for stage in data["stages"]), default=0.0)
    if longest <= 0:
        return ""
    boxes = "".join(
        f"<div><b>{escape(stage['name'])}</b><span>{escape(words.limit_words(stage['resource']))}</span>"
        f"{duration(stage['seconds'])}<span class='track'>"
        f"{_filled(stage['seconds'] / longest, _STAGE_COLORS.get(stage['name'], 2))}</span></div>"
        for stage in data["stages"]
    )
    return f"<h2>The way of a sample</h2><div class='way'>{boxes}</div><p>Time of one sample on what it uses.</p>"


def _filled(part: float, color: int) -> str:
    return f'<i style="width:{100 * min(part, 1.0):.1f}%;background:var(--c{color})"></i>'


def _stalls(data: Mapping[str, Any]) -> str:
    rows = words.bars(data)
    if not rows:
        return ""
    found = ""
    used: set[str] = set()
    for name, parts in rows:
        shown = [(part, parts[part], color) for part, color in _COLORS.items() if parts.get(part, 0.0) >= 0.005]
        used.update(part for part, _, _ in shown)
        bar = "".join(f'<i style="flex:{share:.4f} 0 0;background:var(--c{color})"></i>' for _, share, color in shown)
        shares = "".join(
            f'<span><i class="key" style="background:var(--c{color})"></i>{part} {percent(share)}</span>'
            for part, share, color in shown
        )
        found += f'<p><b>{escape(name)}</b></p><div class="time">{bar}</div><p class="shares">{shares}</p>'
    meaning = "; ".join(f"{part}: {words.MEANINGS[part]}" for part in _COLORS if part in used)
    note = words.bars_note(data)
    return f"<h2>Where the accelerator's time goes</h2>{found}<p>{escape(note[:1].upper() + note[1:])}. {escape(meaning)}.</p>"


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
    return rate, words.who(data)


def _curves(data: Mapping[str, Any]) -> str:
    own = data["subject"]["form"]
    other = words.best_form(data) or next(iter(words.alternatives(data)), None)
    best = other[0] if other else None
    limit, cores = _limit(data), float(data["machine"]["cores"])
    numbers = _spread(max(0.5, cores / 4), max(64.0, cores * 4))
    forms = [(own, 4)] + ([(best, 3)] if best else [])
    charts = [
        pictures.chart(
            "Samples/s by CPU cores", "CPU cores of the machine",
            [_curve(data, form, color, "cores", numbers, form=form) for form, color in forms],
            log=True, line=limit, mark=(cores, "now"), measured=_range(data, "cores"),
        )
    ]  # fmt: skip
    charts += _storage_charts(data, forms, limit)
    if limit is not None:
        speeds = _spread(0.25, 8.0)
        charts.append(
            pictures.chart(
                "Samples/s with a faster accelerator", "speed of the accelerator, now = 1",
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
    # A cache only matters if storage is slower than the rest, so the curve is computed for a storage rate at which it is.
    answer = model.predict(data, {"cache": whole * 4 + 1})
    demand = answer.samples_per_second * data["forms"][data["subject"]["form"]]["cpu"]["nbytes"]
    slow = min(storage, demand / 3)
    shown = f"at {size(slow)}/s of storage"
    fixed = {"storage": slow, "page_cache": 0, "shared_cache": True}
    charts = [
        pictures.chart(
            "Samples/s by storage, nothing cached", "bytes/s of storage",
            [_curve(data, form, color, "storage", rates, form=form, page_cache=0, cache=0) for form, color in forms],
            log=True, line=limit, mark=(storage, "now"), x_words=lambda v: size(v),
        ),
        pictures.chart(
            f"Samples/s by cache, {shown}", "part of the data set that fits",
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
    """Returns an HTML table. On a narrow page, each row becomes a list of "head: cell"."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr{' class=now' if now else ''}>"
        + "".join(f'<td data-head="{escape(head)}">{escape(cell)}</td>' for head, cell in zip(heads, row, strict=True))
        + "</tr>"
        for now, row in rows
    )
    return f'<table><tr class="heads">{top}</tr>{body}</table>'


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
                        amount(answer.samples_per_second),
                        f"{amount(answer.low)} to {amount(answer.high)}",
                        percent(answer.utilisation) if answer.utilisation > 0 else "",
                        words.limit_words(answer.binding),
                    ),
                )
            )
    heads = ("form", "CPU per sample", "stored", "read", "samples/s", "band", "accelerators compute", "limited by")
    epochs = words.epochs_note(data)
    return (
        f"<h2>Predicted rates if the images were stored otherwise</h2>{_table(heads, rows)}"
        "<p>Shaded: how the data set is stored now. Pixels are the same in all forms."
        f"{f' {escape(epochs)}.' if epochs else ''}</p>"
    )


def advice(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns recommendations: each is a sentence and the command to run ("": none)."""
    found: list[tuple[str, str]] = []
    if conclusion.distrust(data):
        return [(f"{conclusion.again(data)}: what follows from these measurements is not to be relied on.", "")]
    concluded = conclusion.of(data)
    is_fed = concluded is not None and concluded.limit == "accelerator"
    if is_fed and concluded is not None and concluded.parts["slowed"] >= 0.1:
        found.append(("Give the step CPU cores of its own: fewer workers, or more cores.", ""))
    now = model.predict(data, {})
    best = words.best_form(data)
    ranked = sorted(words.alternatives(data), key=lambda pair: best is None or pair[0] != best[0])
    for form, answer in ranked[:3]:
        gain = answer.samples_per_second / now.samples_per_second
        if gain > 1.05:
            found.append(_store_as(data, form, gain))
    for resource, value in model.needs(data, words.limit_of(data), {}).items():
        if isinstance(value, str) or is_fed:
            continue
        command = f"Loader(..., cache={int(value)})" if resource == "cache" else ""
        found.append((f"To feed the accelerators, {words.need_value(resource, value)} are enough.", command))
    if not found:
        nothing = "Nothing to do: the accelerator is the limit." if is_fed else "The model knows no single change that would help."
        found.append((nothing, ""))
    return found


def _store_as(data: Mapping[str, Any], form: str, gain: float) -> tuple[str, str]:
    """Returns the advice to store the samples in a form, and the command for it."""
    subject = data["subject"]
    path = shlex.quote(str(subject["path"]))
    if subject["loader"] == "torch" and form in ("jpeg", "png", "webp"):
        return (
            f"Load these files with Penstock: {amount(gain, 2)} times the rate.",
            f"penstock.Loader({str(subject['path'])!r}, ...)",
        )
    costs, own = data["forms"][form]["cpu"], data["forms"][subject["form"]]["cpu"]
    ratio = costs["item_nbytes"] / max(own["item_nbytes"], 1)
    command = f"penstock pack {path} packed.pst --form {form}"
    if form.startswith("pli-") and form != "pli-jpeg":
        command = f"penstock pack {path} packed.pst --form pli --tier {form.removeprefix('pli-')} --of-lossy"
    return f"Store the images as {form}: {amount(gain, 2)} times the rate, {amount(ratio, 2)} times the bytes.", command


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
        check = dict(conclusion.checks(data)).get(name)
        rows.append(
            (
                False,
                (
                    f"{name}: {words.PHASES[name]}" if name in words.PHASES else name,
                    amount(phase["samples_per_second"]),
                    f"{amount(low)} to {amount(high)}" if low is not None and high is not None else "too short",
                    duration(phase["wait_seconds_per_batch"]),
                    duration(phase["step_seconds"]),
                    duration(phase["step_p99_seconds"]),
                    f"{amount(check['predicted'])} ({100 * check['error']:+.1f} %)" if check else "",
                ),
            )
        )
    heads = ("batches come from", "samples/s", "95 % sure of", "wait per batch", "step", "99 % of steps under", "model expects")
    return f"<h2>What was measured, with one accelerator</h2>{_table(heads, rows)}"


def _notes(data: Mapping[str, Any]) -> str:
    lines = list(data.get("notes", []))
    others = data["machine"].get("other_cores", 0)
    if others > 0.1:
        lines.append(f"other programs used {amount(others, 2)} CPU cores meanwhile")
    lines += words.rank_lines(data)
    if not lines:
        return ""
    return "<h2>Notes</h2><ul>" + "".join(f"<li>{escape(str(line))}</li>" for line in lines) + "</ul>"
