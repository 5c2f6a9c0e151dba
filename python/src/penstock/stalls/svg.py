"""Draws the charts of a report as inline SVG. Colours are CSS variables of the page, for light and dark themes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, FONT_SIZE = 400.0, 13  # size of a chart; the font stays readable when a phone shows the chart smaller
_FONT = f'font-family="inherit" font-size="{FONT_SIZE}"'


@dataclass(frozen=True)
class Curve:
    """A line of a chart with its error band: points (x, y, low, high), a name, and the number of its colour (1 to 4)."""

    name: str
    color: int
    points: Sequence[tuple[float, float, float, float]]
    dashed: bool = False


def number(value: float) -> str:
    """Formats a number for an axis: 950, 1.5k, 20M."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "muted", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{kind})" font-weight="{weight}" {_FONT}>'
        f"{escape(words)}</text>"
    )


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="100%" role="img" aria-label="{escape(label)}" '
        f'style="max-width:{width:.0f}px">{"".join(parts)}</svg>'
    )


# Curves -------------------------------------------------------------------------------------------------


def _ticks(top: float) -> list[float]:
    if top <= 0:
        return [0.0]
    step = 10 ** math.floor(math.log10(top / 4))
    for factor in (1, 2, 2.5, 5, 10):
        if top / (step * factor) <= 5:
            step *= factor
            break
    return [step * i for i in range(int(top / step + 1e-9) + 1)]


def _log_ticks(first: float, last: float) -> list[float]:
    """Returns 3 to 6 round numbers between two positive numbers, for a logarithmic axis."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [
            step * 10.0**power
            for power in range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
            for step in steps
            if first * 0.999 <= step * 10.0**power <= last * 1.001
        ]
        if len(found) <= 6:
            return found
    return found[:: -(-len(found) // 6)]


def chart(
    title: str,
    axis: str,
    curves: Sequence[Curve],
    *,
    log: bool,
    line: tuple[float, str] | None = None,
    mark: tuple[float, str] | None = None,
    x_words: Callable[[float], str] = number,
    measured: tuple[float, float] | None = None,
) -> str:
    """Draws samples/s over a capacity. line: (y, words) of a limit; mark: (x, words) of the present value."""
    width, height, left, right, top, bottom = WIDTH, 290.0, 52.0, 26.0, 34.0, 70.0
    inner, tall = width - left - right, height - top - bottom
    xs = [p[0] for c in curves for p in c.points]
    first, last = min(xs), max(xs)
    highest = max([p[1] for c in curves for p in c.points] + ([line[0]] if line else []))
    ticks = _ticks(highest * 1.08)
    scale = max(highest * 1.12, 1e-9)

    def across(x: float) -> float:
        part = math.log(x / first) / math.log(last / first) if log else (x - first) / (last - first)
        return left + inner * min(max(part, 0.0), 1.0)

    def up(y: float) -> float:
        return top + tall * (1 - min(y / scale, 1.0))

    parts = [text(0, 16, title, kind="text", weight="600")]
    if measured is not None:
        a, b = across(max(measured[0], first)), across(min(measured[1], last))
        parts.append(f'<rect x="{a:.1f}" y="{top}" width="{max(b - a, 2):.1f}" height="{tall}" fill="var(--box)"/>')
    for y in ticks:
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="var(--line)"/>')
        parts.append(text(left - 6, up(y) + 4, number(y), "end"))
    places = _log_ticks(first, last) if log else [first + (last - first) * i / 4 for i in range(5)]
    for x in places:
        parts.append(text(across(x), top + tall + 17, x_words(x), "middle"))
    parts.append(text(left + inner / 2, top + tall + 34, axis, "middle"))
    for curve in curves:
        parts += _curve(curve, across, up)
    if line is not None:
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{up(line[0]):.1f}" y2="{up(line[0]):.1f}" '
            'stroke="var(--c1)" stroke-dasharray="2 3"/>'
        )
        parts.append(text(left + 5, up(line[0]) - 5, line[1]))
    if mark is not None and first <= mark[0] <= last:
        x = across(mark[0])
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + tall}" stroke="var(--muted)" stroke-dasharray="4 3"/>'
        )
        parts.append(text(x + 4, top + 11, mark[1]))
    at = left
    for curve in curves:
        dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
        parts.append(
            f'<line x1="{at}" x2="{at + 18}" y1="{height - 10}" y2="{height - 10}" '
            f'stroke="var(--c{curve.color})" stroke-width="2.5"{dash}/>'
        )
        parts.append(text(at + 23, height - 6, curve.name, kind="text"))
        at += 40 + 7 * len(curve.name)
    return svg(width, height, parts, title)


def _curve(curve: Curve, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    points = curve.points
    upper = " ".join(f"{across(x):.1f},{up(high):.1f}" for x, _, _, high in points)
    lower = " ".join(f"{across(x):.1f},{up(low):.1f}" for x, _, low, _ in reversed(points))
    line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _, _ in points)
    dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
    return [
        f'<polygon points="{upper} {lower}" fill="var(--c{curve.color})" opacity="0.16"/>',
        f'<polyline points="{line}" fill="none" stroke="var(--c{curve.color})" stroke-width="2.2"{dash}/>',
    ]
