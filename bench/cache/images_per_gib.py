"""images_per_gib.py: how many images a GiB of cache holds, and how many a second it gives. Writes images-<date>.json and .md.

    images_per_gib.py --data DIR --out DIR [--groups clic2025,imagenet] [--most N] [--rounds N]

For each group of files in DIR, one thread, warm page cache: ps.CachedImages in its forms and both orders of colours; a dict of
decoded numpy arrays, as ultralytics' cache="ram" keeps them, once as they are and once copied, because the others give arrays
that the caller may change; PIL from the files; OpenCV from the files, where it is installed. All pixels are compared with PIL's
first. Ways take turns in each round; figures are medians over the rounds. A GiB holds 2^30 / (bytes of cache per image).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import penstock as ps

FORMS = ("pli", "pli-fast", "pli-jpeg", "stored", "raw")
GIB = 1 << 30


def by_pil(path: Path) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))


def ways_of(files: list[Path], wanted: list[np.ndarray]) -> dict[str, dict]:
    """Ways to get image i, with the bytes that each keeps in memory."""
    ways: dict[str, dict] = {}
    for form in FORMS:
        images = ps.CachedImages(files, "4GiB", form=form)
        images.fill()
        ways[f"penstock {form}"] = {"get": images.__getitem__, "nbytes": images.stats()["used"], "keep": images}
    bgr = ps.CachedImages(files, "4GiB", color="bgr")
    bgr.fill()
    ways["penstock pli, bgr"] = {"get": bgr.__getitem__, "nbytes": bgr.stats()["used"], "keep": bgr, "bgr": True}
    raw = dict(enumerate(wanted))
    nbytes = sum(array.nbytes for array in wanted)
    ways["arrays"] = {"get": raw.__getitem__, "nbytes": nbytes}
    ways["arrays, copied"] = {"get": lambda i: raw[i].copy(), "nbytes": nbytes}
    ways["pil"] = {"get": lambda i: by_pil(files[i]), "nbytes": 0}
    if importlib.util.find_spec("cv2"):
        import cv2

        cv2.setNumThreads(1)
        ways["cv2"] = {"get": lambda i: cv2.imread(str(files[i])), "nbytes": 0, "bgr": True}
    return ways


def check(ways: dict[str, dict], wanted: list[np.ndarray]) -> None:
    for name, way in ways.items():
        for i, array in enumerate(wanted):
            got = way["get"](i)
            if not np.array_equal(got[..., ::-1] if way.get("bgr") else got, array):
                raise SystemExit(f"{name}: image {i} has other pixels than PIL's")


def measure(ways: dict[str, dict], n: int, rounds: int) -> dict[str, float]:
    """Seconds for all images, the median over rounds in which the ways take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            get, start = way["get"], time.perf_counter()
            for i in range(n):
                get(i)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def run(data: Path, group: str, most: int, rounds: int) -> dict:
    files = sorted(path for path in (data / group).iterdir() if path.suffix.lower() in (".png", ".jpg", ".jpeg"))[:most]
    wanted = [by_pil(path) for path in files]
    ways = ways_of(files, wanted)
    check(ways, wanted)
    seconds = measure(ways, len(files), rounds)
    pixels = sum(array.nbytes for array in wanted)
    cells = [{"way": name, "nbytes": way["nbytes"], "images_per_s": len(files) / seconds[name],
              "gbytes_per_s": pixels / seconds[name] / 1e9,
              "images_per_gib": GIB / (way["nbytes"] / len(files)) if way["nbytes"] else None,
              "of_arrays": pixels / way["nbytes"] if way["nbytes"] else None} for name, way in ways.items()]
    return {"group": group, "images": len(files), "pixel_nbytes": pixels,
            "file_nbytes": sum(path.stat().st_size for path in files), "cells": cells}


def table(groups: list[dict]) -> str:
    lines = []
    for group in groups:
        each = group["pixel_nbytes"] / group["images"] / 1e6
        lines += [f"{group['group']}: {group['images']} images, {each:.2f} MB of pixels each", "",
                  "| | images per GiB | as many as arrays | images/s | GB/s of pixels |", "|---|---|---|---|---|"]
        for cell in group["cells"]:
            held = "" if cell["images_per_gib"] is None else f"{cell['images_per_gib']:.0f}"
            times = "" if cell["of_arrays"] is None else f"{cell['of_arrays']:.2f} x"
            lines.append(f"| {cell['way']} | {held} | {times} | {cell['images_per_s']:.1f} | {cell['gbytes_per_s']:.2f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", default="clic2025,imagenet")
    parser.add_argument("--most", type=int, default=64, help="images of a group")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    groups = [run(args.data, group, args.most, args.rounds) for group in args.groups.split(",")]
    found = {"date": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "python": sys.version.split()[0],
             "penstock": ps.__version__, "pillow": importlib.import_module("PIL").__version__, "groups": groups}
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"images-{found['date']}"
    stem.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    stem.with_suffix(".md").write_text(table(groups))
    print(table(groups))


if __name__ == "__main__":
    main()
