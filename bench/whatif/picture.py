"""The picture of bench/whatif: predicted against measured, and the errors by group, as one SVG file."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import INK, MUTED, svg, text  # noqa: E402

FRAME, GOAL, LIMIT = "#d0d7de", "#1f7a4d", "#c4590c"
COLORS = {"cores": "#1666b5", "form": "#8250b8", "storage": "#c4590c", "cache": "#1f7a4d", "accelerator": "#b3261e",
          "jobs": "#7a5c00", "workers": "#57606a", "hybrid, emulated": "#00707a"}  # fmt: skip
BOLD = "font-weight='bold'"
WIDTH, HEIGHT, SIDE, TOP = 960, 460, 360, 60


def scatter(cells: list[dict[str, Any]]) -> list[str]:
    rates = [r for c in cells for r in (c["measured"], c["predicted"]["samples_per_second"])]
    low, high = math.log10(min(rates) / 1.3), math.log10(max(rates) * 1.3)
    left = 60

    def place(rate: float) -> float:
        return SIDE * (math.log10(rate) - low) / (high - low)

    parts = [f"<rect x='{left}' y='{TOP}' width='{SIDE}' height='{SIDE}' fill='none' stroke='{FRAME}'/>"]
    parts.append(f"<line x1='{left}' y1='{TOP + SIDE}' x2='{left + SIDE}' y2='{TOP}' stroke='{MUTED}' stroke-dasharray='4 3'/>")
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = place(10**power)
        parts.append(f"<line x1='{left + at:.1f}' x2='{left + at:.1f}' y1='{TOP}' y2='{TOP + SIDE}' stroke='{FRAME}'/>")
        y = TOP + SIDE - at
        parts.append(f"<line x1='{left}' x2='{left + SIDE}' y1='{y:.1f}' y2='{y:.1f}' stroke='{FRAME}'/>")
        parts.append(text(left + at, TOP + SIDE + 16, f"{10**power:g}", 12, MUTED, "middle"))
        parts.append(text(left - 6, TOP + SIDE - at + 4, f"{10**power:g}", 12, MUTED, "end"))
    for cell in cells:
        x, y = left + place(cell["measured"]), TOP + SIDE - place(cell["predicted"]["samples_per_second"])
        parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4.5' fill='{COLORS[cell['group']]}' fill-opacity='0.75'/>")
    parts.append(text(left, TOP - 12, "samples/s: predicted (up) against measured (right)", 12, INK, more=BOLD))
    return parts


def strips(cells: list[dict[str, Any]], summary: dict[str, Any]) -> list[str]:
    left, right = 560, WIDTH - 30
    groups = [group for group in COLORS if any(c["group"] == group for c in cells)]
    edge = max(0.1, *(abs(c["error"]) for c in cells)) * 1.1
    row = SIDE / len(groups)

    def place(error: float) -> float:
        return left + (right - left) * (error + edge) / (2 * edge)

    parts = [text(left - 60, TOP - 12, "error of the prediction, by what was changed", 12, INK, more=BOLD)]
    for error, color in ((0.03, GOAL), (0.06, LIMIT)):
        a, b = place(-error), place(error)
        parts.append(f"<rect x='{a:.1f}' y='{TOP}' width='{b - a:.1f}' height='{SIDE}' fill='{color}' fill-opacity='0.08'/>")
    step = 0.05 if edge < 0.3 else 0.2
    for i in range(-int(edge / step), int(edge / step) + 1):
        x = place(i * step)
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{TOP + SIDE}' stroke='{FRAME}'/>")
        parts.append(text(x, TOP + SIDE + 16, f"{100 * i * step:+.0f} %" if i else "0", 12, MUTED, "middle"))
    for i, group in enumerate(groups):
        middle = TOP + (i + 0.5) * row
        parts.append(text(left - 8, middle + 4, group, 12, COLORS[group], "end", BOLD))
        own = [c for c in cells if c["group"] == group]
        for k, cell in enumerate(own):
            y = middle + (k - (len(own) - 1) / 2) * min(6.0, 0.7 * row / len(own))
            parts.append(f"<circle cx='{place(cell['error']):.1f}' cy='{y:.1f}' r='4' fill='{COLORS[group]}' fill-opacity='0.75'/>")
    note = f"median {100 * summary['median_error']:.1f} %, worst {100 * summary['worst_error']:.1f} %, {summary['n_cells']} cells"
    parts.append(text(right, TOP + SIDE + 34, note, 12, INK, "end"))
    return parts


def draw(cells: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    title = text(60, 24, "What-if: predicted before, measured after", 16, INK, more=BOLD)
    return svg(WIDTH, HEIGHT, [title, *scatter(cells), *strips(cells, summary)])
