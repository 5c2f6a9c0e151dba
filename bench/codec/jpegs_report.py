"""jpegs_report.py: runs bench_codec_jpeg at every CPU level of this machine; makes a table, its goals and a JSON per run.

    jpegs_report.py --program bench_codec_jpeg --out DIR -- ARGUMENTS OF bench_codec_jpeg

Each level is a process of its own (PENSTOCK_CPU_MASK) that measures libjpeg-turbo, which keeps its vectors, again: every ratio
compares figures of one process. Writes codec_jpeg-<date>.json and .md into DIR. Needs only Python.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402

LEVELS = ("avx512", "avx2", "c")
# For each group: the greatest allowed share of the files' bytes; and for each level the least speed of whole files and of crops,
# relative to libjpeg-turbo
BYTES = {"imagenet": 0.90, "imagenet_folder": 0.90, "photographs_420": 0.88, "photographs_444": 0.88}
SPEEDS = {"avx512": {"imagenet": (3.0, 4.0), "imagenet_folder": (3.0, 4.0), "photographs_420": (2.5, 4.0),
                     "photographs_444": (2.5, 4.0)},
          "avx2": {"imagenet": (3.0, 4.0), "imagenet_folder": (3.0, 4.0), "photographs_420": (2.0, 2.5),
                   "photographs_444": (2.0, 2.5)},
          "c": dict.fromkeys(BYTES, (1.0, 1.0))}
ENCODE_PER_S, RESTORED = 150, 0.99


def used_level(flags: str) -> str:
    if " avx512vbmi" in flags:
        return "avx512"
    return "avx2" if " avx2 " in flags else "c"


def verdict(value: float, least: float) -> str:
    return f"{value:.2f} ({'met' if value >= least else f'NOT MET, goal {least:g}'})"


def line(level: str, row: dict) -> list[str]:
    group, share = row["group"], row["pli_nbytes"] / row["file_nbytes"]
    whole, crop = row["pli_whole_per_s"] / row["peer_whole_per_s"], row["pli_crop_per_s"] / row["peer_crop_per_s"]
    goals = SPEEDS.get(level, {}).get(group, (0, 0))
    is_small = share <= BYTES.get(group, 1)
    return [level, group, f"{row['files']}", f"{row['kept']}", f"{row['same_pixels']}", f"{row['restored']}",
            f"{share:.4f} ({'met' if is_small else 'NOT MET'})", f"{row['peer_whole_per_s']:.0f}",
            f"{row['pli_whole_per_s']:.0f}", verdict(whole, goals[0]), f"{row['peer_crop_per_s']:.0f}",
            f"{row['pli_crop_per_s']:.0f}", verdict(crop, goals[1]), f"{row['from_jpeg_per_s']:.0f}",
            f"{row['to_jpeg_per_s']:.0f}"]


def table(merged: dict) -> str:
    heads = ["level", "group", "files", "kept", "same pixels", "restored", "bytes x file", "libjpeg-turbo/s", "pli-jpeg/s", "x",
             "libjpeg-turbo crops/s", "pli-jpeg crops/s", "x", "from JPEG/s", "to JPEG/s"]
    out = [f"{merged['cpu']}; one core, CPU time, medians of {merged['repeats']} passes, both sides in turns.", "",
           *runner.heads(*heads)]
    out += ["| " + " | ".join(line(level, row)) + " |" for level, rows in merged["levels"].items() for row in rows]
    rows = next(iter(merged["levels"].values()))
    files = [row for row in rows if row["group"].startswith("imagenet")]
    if not files:  # the goals were set for another folder
        return "\n".join(out) + "\n"
    restored = sum(row["restored"] for row in files) / sum(row["files"] for row in files)
    speed = sum(row["files"] for row in files) / sum(row["files"] / row["from_jpeg_per_s"] for row in files)
    out += ["", f"ImageNet: {100 * restored:.2f} % kept and restored to the byte "
            f"({'met' if restored >= RESTORED else f'NOT MET, goal {100 * RESTORED:g} %'}); packing with its proof "
            f"{speed:.0f} files/s ({'met' if speed >= ENCODE_PER_S else f'NOT MET, goal {ENCODE_PER_S}'})."]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENTS")
    args = parser.parse_args()
    about = Path("/proc/cpuinfo").read_text()

    def field(name: str) -> str:
        return next((line.split(":", 1)[1] for line in about.splitlines() if line.startswith(name)), "")

    levels = LEVELS[LEVELS.index(used_level(field("flags") + " ")):]
    repeats = args.arguments[args.arguments.index("--repeats") + 1] if "--repeats" in args.arguments else "5"
    merged = {"bench": "codec_jpeg", "date": time.strftime("%Y-%m-%d", time.gmtime()), "cpu": field("model name").strip(),
              "machine": runner.machine(), "repeats": int(repeats),
              "levels": {level: runner.run_program(level, [str(args.program), *args.arguments],
                                                   {"PENSTOCK_CPU_MASK": level})["results"] for level in levels}}
    runner.write(args.out / f"codec_jpeg-{merged['date']}", merged, table(merged))


if __name__ == "__main__":
    main()
