#!/usr/bin/env python3
"""Draws docs/figures.svg, the picture of README.md, from the latest figures in bench/results.

    bench/figures.py [--out FILE.svg]

A column for each kind of data, and a bar for each loader: images per second on one core. Each column has a scale of its own, which
begins at 0. FFCV's decoded pixels have a row of their own, with the bytes that they take; "times the fastest other" is of loaders
that decode.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
RUN, MACHINE = "loader_granite_rapids", "Intel Xeon (Granite Rapids)"  # the newest run that has all loaders of the picture
COLUMNS = (("imagenet", ("ImageNet JPEG", "RandomResizedCrop(224)")),
           ("photographs", ("JPEG of 2.7 Mpixel", "RandomResizedCrop(224)")),
           ("frames", ("PNG of 2048 x 1024", "crops of 768 x 768")))
# Penstock's own form of the data: pli-jpeg for JPEG files, PLI for PNG files.
ROWS = (("Penstock, packed", ("penstock_pli_jpeg", "penstock_pli")), ("Penstock, plain folder", ("penstock",)),
        ("DALI", ("dali",)), ("torchvision v2", ("torchvision",)), ("TorchCodec", ("torchcodec",)), ("tf.data", ("tfdata",)),
        ("WebDataset", ("webdataset",)), ("LitData", ("litdata",)), ("FFCV", ("ffcv",)), ("Pillow", ("pillow",)),
        ("SPDL", ("spdl",)), ("FFCV, raw pixels", ("ffcv_raw",)))

NAMES, COLUMN, BAR, ROW, TOP, BOTTOM, MARGIN = 170, 236, 16, 25, 100, 34, 20
WIDTH, HEIGHT = MARGIN + NAMES + len(COLUMNS) * COLUMN + MARGIN, TOP + len(ROWS) * ROW + BOTTOM
LONGEST = COLUMN - 96  # the rest of the column's width is for the number and the ratio beside the bar
FONT = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"
INK, MUTED, OWN, PEER, FRAME = "#1b1f24", "#57606a", "#0b6bcb", "#a5adb7", "#d0d7de"


def latest(stem: str) -> dict:
    """Returns the newest results file with that name and a date. Files of other machines have another word between name and
    date.
    """
    return json.loads(max(RESULTS.glob(f"{stem}-*.json")).read_text())


def cell_of(run: dict, group: str, peers: tuple[str, ...]) -> dict | None:
    """Returns the fastest cell on one core of these loaders."""
    found = [cell for cell in run["cells"]
             if cell["group"] == group and cell["cores"] == 1 and cell["peer"] in peers and "absent" not in cell]
    return max(found, key=lambda cell: cell["images_per_s"]) if found else None


def stored_times(run: dict, group: str, cell: dict) -> float:
    """Returns the bytes that a loader's data take, divided by the bytes of the files."""
    return cell["stored_mb"] / cell_of(run, group, ("penstock",))["stored_mb"]


def text(x: float, y: float, what: str, size: int = 13, color: str = INK, anchor: str = "start", bold: bool = False) -> str:
    weight = " font-weight='600'" if bold else ""
    place = f"x='{x:.0f}' y='{y:.0f}' font-size='{size}'"
    return f"<text {place} fill='{color}' text-anchor='{anchor}' {FONT}{weight}>{escape(what)}</text>"


def column(left: float, run: dict, group: str, title: tuple[str, str]) -> list[str]:
    cells = [cell_of(run, group, peers) for _, peers in ROWS]
    most = max(cell["images_per_s"] for cell in cells if cell)
    best_peer = max(cell["images_per_s"] for cell in cells
                    if cell and cell.get("decodes", True) and not cell["peer"].startswith("penstock"))
    out = [text(left, TOP - 32, title[0], 14, bold=True), text(left, TOP - 14, title[1], 12, MUTED)]
    for i, ((name, _), cell) in enumerate(zip(ROWS, cells, strict=True)):
        own, y = name.startswith("Penstock"), TOP + i * ROW
        if not cell:
            out.append(text(left, y + BAR - 3, "reads no such files", 11, MUTED))
            continue
        speed = cell["images_per_s"]
        wide = LONGEST * speed / most
        shown = f"{speed:.0f}" + (f"  ({speed / best_peer:.1f} x)" if own else "")
        if not cell.get("decodes", True):
            shown += f"  ({stored_times(run, group, cell):.2g} times the bytes)"
        out += [f"<rect x='{left:.0f}' y='{y}' width='{wide:.1f}' height='{BAR}' rx='2' fill='{OWN if own else PEER}'/>",
                text(left + wide + 6, y + BAR - 3, shown, 12, INK if own else MUTED, bold=own)]
    return out


def draw() -> str:
    run = latest(RUN)
    machine = run["machine"]
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
           "<title>Images per second of Penstock and of other loaders, on one core</title>",
           f"<rect x='0.5' y='0.5' width='{WIDTH - 1}' height='{HEIGHT - 1}' rx='8' fill='#ffffff' stroke='{FRAME}'/>",
           text(MARGIN, 32, "Images per second on one core", 17, bold=True)]
    for i, (name, _) in enumerate(ROWS):
        own = name.startswith("Penstock")
        out.append(text(MARGIN + NAMES - 14, TOP + i * ROW + BAR - 3, name, 13, OWN if own else INK, "end", own))
    for i, (group, title) in enumerate(COLUMNS):
        out += column(MARGIN + NAMES + i * COLUMN, run, group, title)
    foot = (f"{MACHINE}, {machine['date']}; float32 NCHW, normalised. Packed: as pli-jpeg or PLI. "
            "(n x): times the fastest other that decodes")
    return "\n".join([*out, text(MARGIN, HEIGHT - 14, foot, 12, MUTED), "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures.svg")
    parser.parse_args().out.write_text(draw())


if __name__ == "__main__":
    main()
