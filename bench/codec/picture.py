"""picture.py: draws an SVG of compressed size against speed. Both axes are logarithmic, and every point has its name beside it."""

from __future__ import annotations

import math
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import GRID, INK, MUTED, svg, text  # noqa: E402

WIDTH, HEIGHT = 960, 640
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 84, 62
PEER = "#7a8591"
SERIES = {"avx512": "#6a2fb5", "avx2": "#0b6bcb", "neon": "#0b6bcb", "c": "#c2570c"}
LABEL_HEIGHT_PX = 13
LETTERS_PX = {**dict.fromkeys("mw", 10.5), **dict.fromkeys("iljtfr", 4.2)}  # pixels; all other letters: 6.9


def ticks(low: float, high: float, steps) -> list[float]:
    found = []
    for exponent in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
        found += [s * 10**exponent for s in steps if low <= s * 10**exponent <= high]
    return found


class Axis:
    """Makes a logarithmic axis over the values, with space at both ends."""

    def __init__(self, values: list[float], start: float, end: float, steps):
        low, high = min(values) / 1.18, max(values) * 1.25
        self.low, self.high, self.start, self.end = low, high, start, end
        self.ticks = ticks(low, high, steps)

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)


def overlap(a, b) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def places(x: float, y: float, name: str):
    """Returns the boxes around a point in which its name could stand, best first."""
    wide, high = sum(LETTERS_PX.get(letter, 6.9) for letter in name), LABEL_HEIGHT_PX
    for gap in (8, 20, 34, 50):
        for left, top in ((x + gap, y - high / 2), (x - gap - wide, y - high / 2), (x - wide / 2, y - gap - high),
                          (x - wide / 2, y + gap), (x + gap, y - gap - high / 2), (x + gap, y + gap - high / 2),
                          (x - gap - wide, y - gap - high / 2), (x - gap - wide, y + gap - high / 2)):
            yield (left, top, left + wide, top + high), gap


def place_names(marks: list[tuple[float, float, str]]) -> list[tuple]:
    """Chooses the box of each point's name: of the boxes nearest to the point, the one that covers the least of other things."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y, _ in marks]
    boxes = []
    for x, y, name in marks:
        best, cost_of_best = None, math.inf
        for box, gap in places(x, y, name):
            outside = (box[0] < LEFT + 2) + (box[2] > WIDTH - 4) + (box[1] < TOP) + (box[3] > HEIGHT - BOTTOM)
            cost = sum(overlap(box, other) for other in taken) + outside * 4000 + gap * 0.6
            if cost < cost_of_best:
                best, cost_of_best = box, cost
        boxes.append(best)
        taken.append(best)
    return boxes


def frame(x_axis: Axis, y_axis: Axis, title: str) -> list[str]:
    out = [text(LEFT, 26, "Lossless image codecs: size against decoding speed, one core", 17, INK, more="font-weight='600'"),
           text(LEFT, 46, title, 12, MUTED)]
    for value in x_axis.ticks:
        x = x_axis.at(value)
        out += [f"<line x1='{x:.1f}' y1='{TOP}' x2='{x:.1f}' y2='{HEIGHT - BOTTOM}' stroke='{GRID}'/>",
                text(x, HEIGHT - BOTTOM + 18, f"{value:g}", 11, MUTED, "middle")]
    for value in y_axis.ticks:
        y = y_axis.at(value)
        out += [f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='{GRID}'/>",
                text(LEFT - 8, y + 4, f"{value:g}", 11, MUTED, "end")]
    middle_y = (TOP + HEIGHT - BOTTOM) / 2
    out += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 20, "bits per pixel (smaller files to the left)", 12, MUTED, "middle"),
            text(18, middle_y, "MB/s of decoded pixels (faster upwards)", 12, MUTED, "middle",
                 f"transform='rotate(-90 18 {middle_y:.1f})'")]
    return out


def legend(series: list[str]) -> list[str]:
    out, x = [], LEFT + 5
    for name in series:
        color = SERIES.get(name, PEER)
        out += [f"<circle cx='{x}' cy='{TOP - 14}' r='5' fill='{color}'/>",
                text(x + 9, TOP - 10, f"PLI {name}" if name in SERIES else "peers", 12, MUTED)]
        x += 92
    return out


def draw(points: list[dict], title: str) -> str:
    if not points:
        return svg(WIDTH, HEIGHT, [text(LEFT, 40, "nothing was measured")])
    x_axis = Axis([p["x"] for p in points], LEFT, WIDTH - RIGHT, (1, 1.5, 2, 3, 4, 5, 6, 8))
    y_axis = Axis([p["y"] for p in points], HEIGHT - BOTTOM, TOP, (1, 2, 5))
    marks = [(x_axis.at(p["x"]), y_axis.at(p["y"]), p["name"]) for p in points]
    out = [*frame(x_axis, y_axis, title), *legend(list(dict.fromkeys(p["series"] for p in points)))]
    boxes = place_names(marks)
    for (x, y, _), box in zip(marks, boxes, strict=True):
        near_x, near_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
        if math.hypot(near_x - x, near_y - y) > 12:
            out.append(f"<line x1='{x:.1f}' y1='{y:.1f}' x2='{near_x:.1f}' y2='{near_y:.1f}' stroke='#b8c0c8'/>")
    for point, (x, y, name), box in zip(points, marks, boxes, strict=True):
        color = SERIES.get(point["series"], PEER)
        out += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{color}' stroke='#ffffff' stroke-width='1.5'>"
                f"<title>{escape(name)}: {point['x']:.3f} bits per pixel, {point['y']:.0f} MB/s</title></circle>",
                text(box[0], box[3] - 3, name, 11, INK if color == PEER else color)]
    return svg(WIDTH, HEIGHT, out)
