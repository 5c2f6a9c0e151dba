"""The picture of bench/whatif: a panel for each kind and a row for each cell, with the prediction and its band beside the measured
rate.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from draw import KINDS, Cell

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import GRID, INK, MUTED, svg, text  # noqa: E402

WIDTH, LEFT, RIGHT, TOP = 960, 330, 760, 84
ROW, HEAD, FOOT = 14, 26, 34
HOLDS, MISSES, MEASURED = "#1666b5", "#c4590c", "#1b1f24"
LEAST_EDGE, MOST_EDGE, STEP = 0.1, 0.3, 0.05  # of the axis
BOLD = "font-weight='600'"


def edge_of(cells: list[Cell]) -> float:
    """Returns where the axis ends: far enough for nine of ten error bands, within limits."""
    ends = sorted(max(abs(cell["predicted"][end] / cell["measured"] - 1) for end in ("low", "high")) for cell in cells)
    return min(MOST_EDGE, max(LEAST_EDGE, STEP * math.ceil(ends[int(0.9 * (len(ends) - 1))] / STEP)))


def place(ratio: float, edge: float) -> float:
    """Returns the x of a value, which is given as a part of the measured one. A value beyond the axis is drawn at its end."""
    return LEFT + (RIGHT - LEFT) * (max(-edge, min(edge, ratio - 1)) + edge) / (2 * edge)


def grid(edge: float, top: float, bottom: float) -> list[str]:
    found = []
    for i in range(-round(edge / STEP), round(edge / STEP) + 1):
        x = place(1 + i * STEP, edge)
        color = MEASURED if i == 0 else GRID
        found += [f"<line x1='{x:.1f}' y1='{top:.1f}' x2='{x:.1f}' y2='{bottom:.1f}' stroke='{color}'/>",
                  text(x, bottom + 14, f"{100 * i * STEP:+.0f} %" if i else "measured", 10, MUTED, "middle")]  # fmt: skip
    return found


def row(cell: Cell, y: float, edge: float) -> list[str]:
    predicted, measured = cell["predicted"], cell["measured"]
    color = HOLDS if cell["in_band"] else MISSES
    low, high, x = (place(predicted[name] / measured, edge) for name in ("low", "high", "samples_per_second"))
    beyond = abs(cell["error"]) > edge
    fill = "#ffffff" if cell["unsteady"] else color
    return [text(LEFT - 10, y + 4, cell["name"], 10.5, INK, "end"),
            f"<rect x='{low:.1f}' y='{y - 3:.1f}' width='{max(high - low, 1):.1f}' height='6' fill='{color}' fill-opacity='0.3'/>",
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{color}' stroke-width='1.5'/>",
            text(RIGHT + 14, y + 4, f"{predicted['samples_per_second']:,.0f} : {measured:,.0f}/s", 10.5, MUTED),
            text(WIDTH - 16, y + 4, f"{100 * cell['error']:+.1f} %{' >' if beyond else ''}", 10.5, color, "end",
                 BOLD if beyond or not cell["in_band"] else "")]  # fmt: skip


def panel(kind: str, cells: list[Cell], figures: dict[str, Any], edge: float, top: float) -> tuple[list[str], float]:
    """Draws a panel. Returns it and the y at which it ends."""
    bottom = top + HEAD + len(cells) * ROW
    words = (f"{len(cells)} cells, median {100 * figures['median_error']:.1f} %, worst {100 * figures['worst_error']:.1f} %, "
             f"{100 * figures['in_band']:.0f} % within the band")  # fmt: skip
    found = [text(20, top + 14, kind + ("" if kind in KINDS else " (not counted)"), 13, INK, more=BOLD),
             text(LEFT, top + 14, words, 11, MUTED), text(RIGHT + 14, top + 14, "predicted : measured", 11, MUTED),
             text(WIDTH - 16, top + 14, "error", 11, MUTED, "end"), *grid(edge, top + HEAD - 4, bottom)]  # fmt: skip
    for i, cell in enumerate(cells):
        found += row(cell, top + HEAD + (i + 0.5) * ROW, edge)
    return found, bottom + FOOT


def legend() -> list[str]:
    found, x = [], 20.0
    marks = ((HOLDS, HOLDS, "predicted, and its band: measured lies within"), (MISSES, MISSES, "measured lies outside"),
             (INK, "#ffffff", "hollow: runs still differ by more than 4 %"))  # fmt: skip
    for color, fill, words in marks:
        found += [f"<rect x='{x:.0f}' y='58' width='26' height='6' fill='{color}' fill-opacity='0.3'/>",
                  f"<circle cx='{x + 13:.0f}' cy='61' r='3.5' fill='{fill}' stroke='{color}' stroke-width='1.5'/>",
                  text(x + 32, 65, words, 11, MUTED)]  # fmt: skip
        x += 60 + 6 * len(words)
    return found


def draw(result: dict[str, Any]) -> str:
    cells, summary, machine = result["cells"], result["summary"], result["machine"]
    edge = edge_of(cells)
    parts, y = [], float(TOP)
    for kind, figures in summary["by_kind"].items():
        found, y = panel(kind, [cell for cell in cells if cell["kind"] == kind], figures, edge, y)
        parts += found
    head = (f"{machine['cpu']}, {machine['date']}; counted: {summary['n_cells']} cells, "
            f"median {100 * summary['median_error']:.1f} %, worst {100 * summary['worst_error']:.1f} %")  # fmt: skip
    title = "What-if: predicted from the report of the user's own folder, then measured"
    return svg(WIDTH, y, [text(20, 26, title, 16, INK, more=BOLD), text(20, 44, head, 12, MUTED), *legend(), *parts])
