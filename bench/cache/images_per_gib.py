"""images_per_gib.py: how many images a GiB of cache holds, and images/s read from it. Writes images-<date>.json and .md.

    images_per_gib.py --data DIR --out DIR [--build DIR] [--groups clic2025,imagenet] [--photographs kodak,clic2025] [--most N]
                      [--rounds N]

For each group of files in DIR, one thread, warm page cache: ps.CachedImages in each of its forms, as RGB and as BGR; a dict of
decoded numpy arrays, as ultralytics' cache="ram" keeps them, once as they are and once copied, because all other caches return
arrays that the caller may change; PIL from the files; OpenCV from the files, where it is installed or can be (in an environment of
its own under --build). All pixels are compared with PIL's first. All caches take turns in each round; figures are medians over the
rounds. A GiB holds 2^30 / (bytes of cache per image). The goal is 2.3 times as many as arrays for lossless files, and 6 for JPEGs.

Then by bits per pixel: the lossless photographs of --photographs, made as small as those of ImageNet (500 pixels on the longer
side) and of COCO (640), are saved as JPEG (libjpeg, 4:2:0, optimised tables) in four qualities, and cached in the form pli.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import penstock as ps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import environments  # noqa: E402

FORMS = ("pli", "pli-fast", "pli-jpeg", "stored", "raw")
GIB = 1 << 30
SUFFIXES = (".png", ".jpg", ".jpeg")
LOSSLESS_GOAL, JPEG_GOAL = 2.3, 6.0
SIDES = {"ImageNet": 500, "COCO": 640}
QUALITIES = (75, 85, 90, 95)


def find_opencv(build: Path | None) -> str | None:
    """Makes OpenCV importable, after this Python's own packages in the search path. Returns the reason if that is not possible."""
    if importlib.util.find_spec("cv2"):
        return None
    if build is None:
        return "not installed, and no --build is given"
    build.mkdir(parents=True, exist_ok=True)
    if reason := environments.prepare(build, "cv2"):
        return reason
    sys.path.extend(map(str, (environments.python_of(build, "cv2").parents[1] / "lib").glob("python*/site-packages")))
    return None if importlib.util.find_spec("cv2") else "of another Python"


def by_pil(path: Path) -> np.ndarray:
    return np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))


def ways_of(files: list[Path], wanted: list[np.ndarray]) -> dict[str, dict]:
    """Returns the ways to get image i, each with the bytes of memory that it keeps."""
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
    """Returns the seconds that each way takes for all images: the median over rounds, in which the ways take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            get, start = way["get"], time.perf_counter()
            for i in range(n):
                get(i)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def images_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def run(data: Path, group: str, most: int, rounds: int) -> dict:
    files = images_of(data / group)[:most]
    wanted = [by_pil(path) for path in files]
    ways = ways_of(files, wanted)
    check(ways, wanted)
    seconds = measure(ways, len(files), rounds)
    pixels = sum(array.nbytes for array in wanted)
    cells = [{"way": name, "nbytes": way["nbytes"], "images_per_s": len(files) / seconds[name],
              "gbytes_per_s": pixels / seconds[name] / 1e9,
              "images_per_gib": GIB / (way["nbytes"] / len(files)) if way["nbytes"] else None,
              "of_arrays": pixels / way["nbytes"] if way["nbytes"] else None} for name, way in ways.items()]
    goal = LOSSLESS_GOAL if files[0].suffix.lower() == ".png" else JPEG_GOAL
    stored = sum(path.stat().st_size for path in files)
    return {"group": group, "images": len(files), "pixel_nbytes": pixels, "file_nbytes": stored,
            "file_bits_per_pixel": 24 * stored / pixels, "goal": goal, "met": cells[0]["of_arrays"] >= goal, "cells": cells}


def of_quality(photographs: list[Image.Image], quality: int, folder: Path) -> dict:
    files = [folder / f"{i}.jpg" for i in range(len(photographs))]
    for photograph, path in zip(photographs, files, strict=True):
        photograph.save(path, quality=quality, optimize=True, subsampling="4:2:0")
    images = ps.CachedImages(files, "4GiB")
    images.fill()
    pixels = sum(3 * photograph.width * photograph.height for photograph in photographs)
    stored, cached = sum(path.stat().st_size for path in files), images.stats()["used"]
    return {"quality": quality, "file_nbytes": stored, "nbytes": cached, "file_bits_per_pixel": 24 * stored / pixels,
            "cache_bits_per_pixel": 24 * cached / pixels, "of_arrays": pixels / cached}


def qualities(data: Path, groups: list[str]) -> list[dict]:
    """Saves the same photographs as JPEG at several sizes and qualities, and measures each."""
    rows = []
    sources = [path for group in groups for path in images_of(data / group) if path.suffix.lower() == ".png"]
    for name, side in SIDES.items():
        photographs = []
        for path in sources:
            image = Image.open(path).convert("RGB")
            image.thumbnail((side, side), Image.Resampling.LANCZOS)
            photographs.append(image)
        with tempfile.TemporaryDirectory() as folder:
            rows += [{"size": name, "side": side, "images": len(photographs), **of_quality(photographs, quality, Path(folder))}
                     for quality in QUALITIES]
    return rows


def bits_of_goal(rows: list[dict], groups: list[dict]) -> float | None:
    """Returns the bits per pixel at which JPEG files just meet JPEG_GOAL, interpolated between the nearest rows or groups. None:
    all rows meet it, or none does.
    """
    rows = sorted(rows + [{**group, "of_arrays": group["cells"][0]["of_arrays"]} for group in groups if group["goal"] == JPEG_GOAL],
                  key=lambda row: row["file_bits_per_pixel"])
    for below, above in itertools.pairwise(rows):
        if below["of_arrays"] >= JPEG_GOAL > above["of_arrays"]:
            part = math.log(below["of_arrays"] / JPEG_GOAL) / math.log(below["of_arrays"] / above["of_arrays"])
            return below["file_bits_per_pixel"] * (above["file_bits_per_pixel"] / below["file_bits_per_pixel"]) ** part
    return None


def table(found: dict) -> str:
    lines = [f"{found['machine']['cpu']}, {found['machine']['date']}, one thread.", ""]
    for group in found["groups"]:
        each = group["pixel_nbytes"] / group["images"] / 1e6
        lines += [f"{group['group']}: {group['images']} images, {each:.2f} MB of pixels each, files of "
                  f"{group['file_bits_per_pixel']:.2f} bits per pixel. Goal, form pli: {group['goal']:g} x as many as arrays, "
                  + ("met" if group["met"] else "missed"), "",
                  "| | images per GiB | as many as arrays | images/s | GB/s of pixels |", "|---|---|---|---|---|"]
        for cell in group["cells"]:
            held = "" if cell["images_per_gib"] is None else f"{cell['images_per_gib']:.0f}"
            times = "" if cell["of_arrays"] is None else f"{cell['of_arrays']:.2f} x"
            lines.append(f"| {cell['way']} | {held} | {times} | {cell['images_per_s']:.1f} | {cell['gbytes_per_s']:.2f} |")
        lines.append("")
    lines += ["| photographs as | quality | bits per pixel: file, cache | as many as arrays | goal |", "|---|---|---|---|---|"]
    for row in found["qualities"]:
        lines.append(f"| {row['size']}: {row['side']} pixels | {row['quality']} | {row['file_bits_per_pixel']:.2f}, "
                     f"{row['cache_bits_per_pixel']:.2f} | {row['of_arrays']:.2f} x | "
                     f"{JPEG_GOAL:g} x {'met' if row['of_arrays'] >= JPEG_GOAL else 'missed'} |")
    if found["bits_of_goal"]:
        lines += ["", f"{JPEG_GOAL:g} x is met by files of up to {found['bits_of_goal']:.1f} bits per pixel."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--groups", default="clic2025,imagenet")
    parser.add_argument("--photographs", default="kodak,clic2025")
    parser.add_argument("--most", type=int, default=64, help="images of a group")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if reason := find_opencv(args.build and args.build.resolve()):
        print(f"OpenCV is left out: {reason}", file=sys.stderr)
    groups = [run(args.data, group, args.most, args.rounds) for group in args.groups.split(",")]
    rows = qualities(args.data, args.photographs.split(","))
    found = {"bench": "images", "machine": runner.machine(), "penstock": ps.__version__,
             "cpu_level": ps.show_config("dict")["cpu_used"], "pillow": importlib.import_module("PIL").__version__,
             "opencv": importlib.import_module("cv2").__version__ if importlib.util.find_spec("cv2") else None,
             "groups": groups, "qualities": rows, "bits_of_goal": bits_of_goal(rows, groups)}
    runner.write(args.out / f"images-{found['machine']['date']}", found, table(found))


if __name__ == "__main__":
    main()
