"""The picture of bench/stalls: how an epoch's time is divided for each model, before and with Penstock, on each storage."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from runner import INK, MUTED, square, svg, text  # noqa: E402

TEXT_SHARE = 0.2  # share of a panel that its text needs
PARTS = {"compute": ("the accelerator computes", "#b9c3cd"), "prepare": ("it waits for preparation", "#e08a2b"),
         "fetch": ("it waits for storage", "#1666b5")}  # fmt: skip
WIDTH, LEFT, PANEL, GAP, TOP, BAR, ROW = 1000, 170, 380, 30, 96, 13, 38


def bar(found: dict[str, float], left: float, y: float, label: str) -> list[str]:
    """Draws the parts of an epoch's time beside each other. Together they are as wide as the panel."""
    out, x = [], left
    for part, (_, color) in PARTS.items():
        wide = PANEL * found[part]
        out.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='{wide:.1f}' height='{BAR}' fill='{color}'>"
                   f"<title>{escape(label)}: {part} {100 * found[part]:.0f} %</title></rect>")  # fmt: skip
        x += wide
    return out


def panel(cells: list[dict[str, Any]], left: float, title: str) -> list[str]:
    out = [text(left, TOP - 10, title, 13, INK, more="font-weight='600'")]
    for i, cell in enumerate(cells):
        y = TOP + i * ROW
        for k, which in enumerate(("before", "with")):
            out += bar(cell[which], left, y + k * (BAR + 2), f"{cell['model']}, {which}")
        color = "#ffffff" if cell["with"]["fetch"] > TEXT_SHARE else INK
        out.append(text(left + PANEL - 4, y + 2 * BAR, f"{cell['times']:.1f} x as fast", 10, color, "end"))
    return out


def legend() -> list[str]:
    out, x = [], float(LEFT)
    for words, color in PARTS.values():
        out += [square(x, 46, color), text(x + 14, 55, words, 12, MUTED)]
        x += 34 + 6.2 * len(words)
    return [*out, text(x, 55, "upper bar: before; lower: with Penstock", 12, MUTED)]


def draw(panels: dict[str, list[dict[str, Any]]], machine: dict[str, Any]) -> str:
    first = next(iter(panels.values()))
    height = TOP + len(first) * ROW + 40
    out = [text(20, 28, "What an epoch's time goes to: 35 % cached (SSD300 65 %), 3 cores for each accelerator", 16, INK,
                more="font-weight='600'"), *legend()]  # fmt: skip
    for i, cell in enumerate(first):
        y = TOP + i * ROW + BAR
        rate = f"{cell['rate']:,.0f}/s{', sweep' if cell['sweep'] else ''}"
        out += [text(LEFT - 10, y, cell["model"], 12, INK, "end"), text(LEFT - 10, y + 13, rate, 10, MUTED, "end")]
    for i, (storage, cells) in enumerate(panels.items()):
        out += panel(cells, LEFT + i * (PANEL + GAP), storage)
    out.append(text(20, height - 14, f"Predicted from costs measured on {machine['cpu']}, {machine['date']}", 11, MUTED))
    return svg(WIDTH, height, out)
