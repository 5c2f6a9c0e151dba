"""The picture of bench/ladder: how many times as fast each optimisation makes loading, alone and when added last."""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from runner import GRID, INK, MUTED, square, svg, text  # noqa: E402

Gains = dict[str, tuple[float | None, float | None]]
ALONE, LAST = "#7fb2e5", "#0b6bcb"
WIDTH, LEFT, PANEL, GAP, TOP, BAR, ROW = 1000, 150, 390, 40, 100, 12, 36


def panel(gains: Gains, names: list[str], left: float, title: str, edge: float) -> list[str]:
    """Draws a panel of bars on a logarithmic axis. Bars start at 1 and go to the right for a gain, to the left for a loss."""

    def place(value: float) -> float:
        return left + 60 + (PANEL - 110) * math.log2(value) / edge

    bottom = TOP + len(names) * ROW
    out = [text(left, TOP - 14, title, 13, INK, more="font-weight='600'")]
    for power in range(math.floor(edge) + 1):
        x = place(2.0**power)
        out += [f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP - 4}' y2='{bottom}' stroke='{GRID if power else MUTED}'/>",
                text(x, bottom + 14, f"{2**power} x", 10, MUTED, "middle")]  # fmt: skip
    for i, name in enumerate(names):
        for k, (value, color) in enumerate(zip(gains.get(name, (None, None)), (ALONE, LAST), strict=True)):
            y = TOP + i * ROW + k * (BAR + 2)
            if value is None:
                continue
            a, b = sorted((place(1.0), max(place(value), left)))
            out += [f"<rect x='{a:.1f}' y='{y}' width='{b - a:.1f}' height='{BAR}' fill='{color}'/>",
                    text(max(a, b) + 4, y + BAR - 2, f"{value:.2f}", 10, MUTED)]  # fmt: skip
    return out


def draw(panels: dict[str, Gains], machine: dict) -> str:
    names = list(dict.fromkeys(name for gains in panels.values() for name in gains))
    values = [value for gains in panels.values() for pair in gains.values() for value in pair if value]
    edge, height = max(1.0, math.log2(max(values))), TOP + len(names) * ROW + 50
    out = [text(20, 28, "How many times as fast each optimisation makes loading", 16, INK, more="font-weight='600'"),
           square(20, 46, ALONE), text(34, 55, "alone, all others off", 12, MUTED),
           square(190, 46, LAST), text(204, 55, "as the last one, all others on", 12, MUTED)]  # fmt: skip
    for i, name in enumerate(names):
        out.append(text(LEFT - 10, TOP + i * ROW + BAR + 4, name, 12, INK, "end"))
    for i, (title, gains) in enumerate(panels.items()):
        out += panel(gains, names, LEFT + i * (PANEL + GAP), title, edge)
    out.append(text(20, height - 12, f"{machine['cpu']}, {machine['date']}; images/s, scale by powers of two", 11, MUTED))
    return svg(WIDTH, height, out)
