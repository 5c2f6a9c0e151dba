"""report.py: runs bench_codec at every CPU level of this machine; makes a table, a picture and a JSON per run.

    report.py --program bench_codec --out DIR [--crops bench_codec_crops] -- ARGUMENTS OF bench_codec
    report.py --from FILE.json --out DIR

The first run has every codec at the machine's own level. Each lower level (PENSTOCK_CPU_MASK) runs in a process of its own, which
measures PLI and again libpng and libwebp, because ratios compare only figures of one process. Writes codec-<date>.json, .md and
.svg into DIR. Needs only Python.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402

import goals  # noqa: E402
import picture  # noqa: E402

PHOTOGRAPHS = ("kodak", "cityscapes", "clic2025", "imagenet", "nuscenes_png", "cid22")
LEVELS = ("c", "avx2", "avx512")  # the values of PENSTOCK_CPU_MASK, lowest level first


class Figures:
    """The results of a run, by codec, CPU level and group. Other codecs than PLI are at the machine's own level."""

    def __init__(self, merged: dict):
        self.groups = list(dict.fromkeys(r["group"] for run in merged["runs"] for r in run["results"]))
        self.levels = [run["environment"]["cpu_used"] for run in merged["runs"]]
        self.top = self.levels[0]
        self.codecs = list(dict.fromkeys(r["codec"] for r in merged["runs"][0]["results"]))
        self.rows = {(run["environment"]["cpu_used"], r["codec"], r["group"]): r
                     for run in merged["runs"] for r in run["results"]}

    def row(self, codec: str, group: str, level: str | None = None) -> dict | None:
        return self.rows.get((level or self.top, codec, group))

    def together(self, codec: str, groups, level: str | None = None) -> dict | None:
        """Returns totals over groups: bytes, and the speed as all pixels divided by all time. None if a group is missing."""
        rows = [self.row(codec, g, level) for g in groups]
        if not rows or any(r is None for r in rows):
            return None
        raw = sum(r["raw_nbytes"] for r in rows)
        total = {"nbytes": sum(r["nbytes"] for r in rows), "raw_nbytes": raw, "pixels": sum(r["pixels"] for r in rows)}
        for speed in ("decode", "decode_undisturbed", "decode_all", "encode"):
            if all(r.get(speed) for r in rows):
                total[speed] = raw / sum(r["raw_nbytes"] / r[speed] for r in rows)
        total["bpp"] = 8 * total["nbytes"] / total["pixels"]
        return total


def measure(program: Path, arguments: list[str], mask: str | None, codecs: str | None) -> dict:
    command = [str(program), *arguments, *(["--codecs", codecs, "--threads", "0"] if codecs else [])]
    return runner.run_program(mask or "this machine", command, {"PENSTOCK_CPU_MASK": mask} if mask else {})


def measure_all(args) -> dict:
    first = measure(args.program, args.arguments, None, None)
    runs = [first]
    used = first["environment"]["cpu_used"]
    lower = LEVELS[:LEVELS.index(used)] if used in LEVELS else ("c",)
    for level in reversed(lower):
        if not os.environ.get("PENSTOCK_CPU_MASK"):
            runs.append(measure(args.program, args.arguments, level, "png6,webp_m4,pli_fast,pli_small,pli_dense"))
    merged = {"bench": "codec", "date": time.strftime("%Y-%m-%d", time.gmtime()), "runs": runs}
    if args.crops:
        merged["crops"] = measure_crops(args)
    return merged


def measure_crops(args) -> dict:
    """Runs the crop benchmark on the same images, with its default rounds and seconds."""
    data = args.arguments[args.arguments.index("--data") + 1]
    return runner.run_program("crops", [str(args.crops), "--data", data], {})


def cell(row: dict | None) -> str:
    if row is None:
        return "-"
    return f"{row['bpp']:.3f} / {row['decode']:.0f}" if row.get("decode") else f"{row['bpp']:.3f}"


def rows_of(figures: Figures) -> list[tuple[str, str]]:
    """Returns (codec, level) in the order of the table's rows: other codecs first, then PLI with its levels together."""
    rows = []
    for codec in figures.codecs:
        own = codec.startswith("pli")
        rows += [(codec, level) for level in (figures.levels if own else figures.levels[:1])]
    return rows


def label(codec: str, level: str, figures: Figures) -> str:
    return f"{codec} {level}" if codec.startswith("pli") and len(figures.levels) > 1 else codec


def table(merged: dict, figures: Figures) -> str:
    run = merged["runs"][0]
    photographs = [g for g in PHOTOGRAPHS if g in figures.groups]
    out = [f"{run['cpu']}, {run['cores']} cores, {figures.top}; commit {run['commit'] or 'unknown'}; median of {run['repeats']} x "
           f"{run['seconds']:g} s; output compared with the pixels first.",
           "Cells: bits per pixel / MB/s of decoded pixels, one core. x: bytes and speed relative to png6 and webp_m4 of the "
           "same process, photographs taken together.", ""]
    heads = ["codec", *figures.groups]
    if photographs:
        heads += ["photographs", "all cores MB/s", "encode MB/s", "bytes x png6", "bytes x webp_m4", "speed x png6",
                  "speed x webp_m4"]
    out += runner.heads(*heads)
    for codec, level in rows_of(figures):
        cells = [label(codec, level, figures), *(cell(figures.row(codec, g, level)) for g in figures.groups)]
        if photographs:
            cells += photograph_cells(figures, codec, level, photographs)
        out.append("| " + " | ".join(cells) + " |")
    out.append("")
    out += [f"absent: {name} ({why})" for name, why in run["absent"].items()]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return "\n".join([*out, f"versions: {versions}, Penstock {run['environment']['version']}"])


def photograph_cells(figures: Figures, codec: str, level: str, groups: list[str]) -> list[str]:
    own = figures.together(codec, groups, level)
    if own is None:
        return ["-"] * 7
    cells = [cell(own)] + [f"{own[speed]:.0f}" if own.get(speed) else "-" for speed in ("decode_all", "encode")]
    for what in ("nbytes", "decode"):
        for peer in ("png6", "webp_m4"):
            other = figures.together(peer, groups, level)
            cells.append(f"{own[what] / other[what]:.3g}" if other and own.get(what) and other.get(what) else "-")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--program", type=Path)
    source.add_argument("--from", type=Path, dest="source", metavar="FILE.json")
    parser.add_argument("--crops", type=Path, help="the program that measures crops, on the folder of --data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENTS")
    args = parser.parse_args()
    merged = json.loads(args.source.read_text()) if args.source else measure_all(args)
    figures = Figures(merged)
    text = table(merged, figures) + "\n\n" + goals.table(merged, figures, PHOTOGRAPHS) + "\n"
    runner.write(args.out / f"codec-{merged['date']}", merged, text, picture.draw(points(figures), title(figures)))


def points(figures: Figures) -> list[dict]:
    """Returns the points to draw: codecs that can hold every drawn group. Drawn are the groups of photographs, or all groups if
    there are none.
    """
    groups = [g for g in PHOTOGRAPHS if g in figures.groups] or figures.groups
    found = []
    for codec, level in rows_of(figures):
        own = figures.together(codec, groups, level)
        if own and own.get("decode"):
            found.append({"name": codec, "x": own["bpp"], "y": own["decode"],
                          "series": level if codec.startswith("pli") else "peer"})
    return found


def title(figures: Figures) -> str:
    groups = [g for g in PHOTOGRAPHS if g in figures.groups]
    return "Photographs (" + ", ".join(groups) + ")" if groups else "All groups (" + ", ".join(figures.groups) + ")"


if __name__ == "__main__":
    main()
