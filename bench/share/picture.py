"""picture.py: the aggregate rate of all jobs as bars in an SVG: a row for each kind, a bar for each number of jobs."""

from __future__ import annotations

from html import escape

from runner import picture as bars

LEFT, TOP, FOOT = 330, 62, 30
BLUES, GREYS = ("#b9d4ee", "#7fb2e5", "#3f8bd6", "#0b5cab"), ("#dfe3e8", "#c3cad2", "#9aa4af", "#6a747f")


def color_of(line: dict, place: int, n: int) -> str:
    shades = BLUES if line["kind"].startswith("penstock") else GREYS
    return shades[place * (len(shades) - 1) // max(1, n - 1)]


def bar(line: dict, y: float, scale: float, color: str) -> list[str]:
    speed = line["images_per_s"]
    shown = f"{speed:.0f}, {line['n_jobs']} job{'s' if line['n_jobs'] > 1 else ''}"
    return [f"<rect x='{LEFT}' y='{y:.1f}' width='{speed * scale:.1f}' height='{bars.BAR}' fill='{color}'>"
            f"<title>{escape(line['name'])}, {shown}</title></rect>",
            bars.text(LEFT + speed * scale + 5, y + bars.BAR - 2, shown, 10, bars.MUTED)]


def draw(results: dict, lines: list[dict]) -> str:
    good = [line for line in lines if "images_per_s" in line]
    counts = sorted({line["n_jobs"] for line in good})
    rows = {kind: [line for line in good if line["kind"] == kind] for kind in dict.fromkeys(line["kind"] for line in good)}
    scale = (bars.WIDTH - LEFT - bars.RIGHT) / max((line["images_per_s"] for line in good), default=1.0)
    machine, y, out = results["machine"], float(TOP), []
    for kind, row in rows.items():
        own = kind.startswith("penstock")
        out.append(bars.text(LEFT - 10, y + len(row) * bars.BAR / 2 + 4, row[0]["name"], 12, BLUES[-1] if own else bars.INK, "end"))
        for line in row:
            out += bar(line, y, scale, color_of(line, counts.index(line["n_jobs"]), len(counts)))
            y += bars.BAR
        y += bars.GAP
    foot = f"{machine['cpu']}, {results['threads']} cores, {machine['date']}, commit {machine['commit']}"
    return bars.svg(bars.WIDTH, y + FOOT, [
        bars.text(20, 24, "Jobs on one host: images per second of all jobs together", 17, bars.INK, more="font-weight='600'"),
        bars.text(20, 44, "ImageNet JPEG, RandomResizedCrop(224), float32 NCHW, CPU only; jobs that only take batches", 12,
                  bars.MUTED),
        *out, bars.text(20, y + 14, foot, 12, bars.MUTED)])
