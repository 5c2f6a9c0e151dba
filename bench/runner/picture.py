"""Pictures as SVG: its elements, and images per second as bars."""

from __future__ import annotations

from html import escape

WIDTH, LEFT, RIGHT, TOP = 960, 230, 104, 76
BAR, GAP, HEAD, FOOT = 11, 8, 34, 26
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, MUTED, GRID = "#1b1f24", "#5b6470", "#e6e9ed"
# Bars for few cores are light, bars for more cores are darker.
OWN, PEER, PIXELS = ("#7fb2e5", "#0b6bcb"), ("#c3cad2", "#7a8591"), ("#ecd9c6", "#c9a27c")
TITLES = {"imagenet": "ImageNet JPEG, RandomResizedCrop(224)",
          "photographs": "Photographs of 2.7 Mpixel, JPEG, RandomResizedCrop(224)",
          "frames": "Frames 2048 x 1024, PNG, RandomCrop(768)"}


def text(x: float, y: float, what: str, size=12, color=INK, anchor="start", more="") -> str:
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{color}' text-anchor='{anchor}' {FONT} {more}>"
            f"{escape(what)}</text>")


def square(x: float, y: float, color: str) -> str:
    """Returns the coloured square of a legend's entry."""
    return f"<rect x='{x}' y='{y}' width='10' height='10' fill='{color}'/>"


def svg(width: float, height: float, parts: list[str]) -> str:
    """Returns an SVG picture with a white background."""
    size = f"width='{width}' height='{height:.0f}'"
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' {size} viewBox='0 0 {width} {height:.0f}'>",
                      f"<rect {size} fill='#ffffff'/>", *parts, "</svg>"]) + "\n"


def colors_of(cell: dict) -> tuple[str, str]:
    return OWN if cell["peer"].startswith("penstock") else PEER if cell["decodes"] else PIXELS


def step_of(largest: float) -> float:
    """Returns a round distance between grid lines that gives at most six of them."""
    power = 1.0
    while largest / power > 60:
        power *= 10
    return next(s * power for s in (1, 2, 5, 10) if largest / (s * power) <= 6)


def grid(largest: float, top: float, bottom: float, scale: float) -> list[str]:
    out, step = [], step_of(largest)
    for i in range(int(largest / step) + 1):
        x = LEFT + i * step * scale
        out += [f"<line x1='{x:.1f}' y1='{top:.1f}' x2='{x:.1f}' y2='{bottom:.1f}' stroke='{GRID}'/>",
                text(x, bottom + 14, f"{i * step:g}", 10, MUTED, "middle")]
    return out


def bar(cell: dict, y: float, dark: bool, scale: float) -> list[str]:
    speed, wide = cell["images_per_s"], cell["images_per_s"] * scale
    shown = f"{speed:.0f}" + ("" if cell.get("clean", True) else " (disturbed)")
    return [f"<rect x='{LEFT}' y='{y:.1f}' width='{wide:.1f}' height='{BAR}' fill='{colors_of(cell)[dark]}'>"
            f"<title>{escape(cell['name'])}, {cell['cores']} cores: {speed:.1f} images/s</title></rect>",
            text(LEFT + wide + 5, y + BAR - 2, shown, 10, MUTED)]


def panel(cells: list[dict], group: str, top: float) -> tuple[list[str], float]:
    """Draws a panel. Returns it and the y at which it ends."""
    largest = max(c["images_per_s"] for c in cells)
    scale = (WIDTH - LEFT - RIGHT) / largest
    counts = sorted({c["cores"] for c in cells})
    by_peer = {peer: [c for c in cells if c["peer"] == peer] for peer in dict.fromkeys(c["peer"] for c in cells)}
    rows = sorted(by_peer.values(), key=lambda row: -max(c["images_per_s"] for c in row))
    high = len(counts) * BAR
    bottom = top + HEAD + len(rows) * (high + GAP)
    out = [text(LEFT, top + 16, TITLES.get(group, group), 13, INK, more="font-weight='600'")]
    out += grid(largest, top + HEAD - 6, bottom, scale)
    for i, row in enumerate(rows):
        y = top + HEAD + i * (high + GAP)
        own = row[0]["peer"].startswith("penstock")
        out.append(text(LEFT - 10, y + high / 2 + 4, row[0]["name"], 12, OWN[1] if own else INK, "end"))
        for cell in row:
            place = counts.index(cell["cores"])
            out += bar(cell, y + place * BAR, place > 0, scale)
    return out, bottom + FOOT


def legend(counts: list[int]) -> list[str]:
    out, x = [], LEFT
    for name, colors in (("Penstock", OWN), ("peers", PEER), ("peers that keep pixels", PIXELS)):
        for color in colors[-len(counts):]:
            out.append(square(x, 52, color))
            x += 12
        out.append(text(x + 4, 61, name, 12, MUTED))
        x += 24 + 6 * len(name)
    return [*out, text(x, 61, " and ".join(map(str, counts)) + (" cores: light, dark" if len(counts) > 1 else " cores"), 12, MUTED)]


def bars(merged: dict, title: str = "Loaders of images: images per second, float32 NCHW, CPU only",
         where: str = "; files in the page cache") -> str:
    """Draws images per second: a panel per group, a row per loader, a bar per number of cores."""
    cells = [c for c in merged["cells"] if "absent" not in c]
    machine = merged["machine"]
    out, y = [], float(TOP)
    for group in dict.fromkeys(c["group"] for c in cells):
        drawn, y = panel([c for c in cells if c["group"] == group], group, y)
        out += drawn
    return svg(WIDTH, y, [
        text(20, 24, title, 17, INK, more="font-weight='600'"),
        text(20, 42, f"{machine['cpu']}, {machine['date']}, commit {machine['commit']}{where}", 12, MUTED),
        *legend(sorted({c["cores"] for c in cells})), *out])
