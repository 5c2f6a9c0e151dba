#!/usr/bin/env python3
"""Accuracy of a network after equal training on the same images in several forms: quality.py --data DIR --work DIR --out DIR.

A form that changes pixels can cost accuracy, and how much depends on the details that a network needs. Here it needs the finest
ones, which makes any loss visible: each tile of a photograph gets a trace like those of sensors (noise of rows, of columns, of all
pixels, a pattern of 2 x 2, or none) of about two levels of 255, and the kind of trace is the class. Training and test use different
photographs. Each form keeps the same tiles:

    png                   as made; the reference
    pli                   lossless: its batches must be those of png, bit for bit
    pli-1, pli-2, pli-4   near-lossless, with max_error 1, 2 and 4
    jpeg-90               quality 90; pli-jpeg: the same files kept as PLI, so batches must be those of jpeg-90
    webp                  lossy, at the quality that takes as many bytes as jpeg-90
    jpeg-30, webp-low     so lossy that the accuracy must fall; if not, the comparison cannot show losses; webp-low has the bytes of
                          jpeg-30

Batches are compared by a hash before anything is trained, and so is the order of samples of all forms. Then each form trains the
same network from the same weights for the same number of steps, once for each seed. Forms with equal batches are trained once.
Accuracy is on the test tiles in the same form, and on the original test tiles, as a camera would deliver them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402
from runner import picture as bars  # noqa: E402

import penstock as ps  # noqa: E402
from penstock import transforms as T  # noqa: E402

GROUPS = ("kodak", "cid22", "clic2025")  # folders of photographs that are stored as PNG
TRACES = ("none", "rows", "columns", "noise", "pattern")
TILE, CROP, MOST_TILES = 96, 56, 60  # edge of a tile and of a crop in pixels; most tiles of a photograph
TEST_EVERY = 4  # one photograph of so many is for the test
LEVELS = [T.Normalize((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))]  # floats in levels of 0 to 255
TWINS = {"pli": "png", "pli-jpeg": "jpeg-90"}  # form -> the form whose batches it must equal
LOSSY_BY = {"pli-1": 1, "pli-2": 2, "pli-4": 4}
FORMS = ("png", "pli", "pli-1", "pli-2", "pli-4", "jpeg-90", "pli-jpeg", "webp", "jpeg-30", "webp-low")
SEES = ("jpeg-30", "webp-low")  # if none of these forms is worse than png, the task cannot show losses


def trace(kind: str, random: np.random.Generator, strength: float) -> np.ndarray:
    """Returns the trace that is added to a tile: f64 (TILE, TILE, 1), with that standard deviation."""
    shape = {"rows": (TILE, 1, 1), "columns": (1, TILE, 1), "noise": (TILE, TILE, 1)}.get(kind)
    if shape:
        return np.broadcast_to(random.normal(0, strength, shape), (TILE, TILE, 1))
    if kind == "none":
        return np.zeros((TILE, TILE, 1))
    y, x = np.mgrid[:TILE, :TILE]
    return np.where((x + y + random.integers(2)) % 2, strength, -strength)[..., None]


def corners(height: int, width: int) -> list[tuple[int, int]]:
    """Returns the corners of at most MOST_TILES tiles of a photograph, spread over it without overlap."""
    places = [(y, x) for y in range(0, height - TILE + 1, TILE) for x in range(0, width - TILE + 1, TILE)]
    step = max(1.0, len(places) / MOST_TILES)
    return [places[int(i * step)] for i in range(min(MOST_TILES, len(places)))]


def tiles_of(paths: list[Path], strength: float) -> list[tuple[np.ndarray, int]]:
    """Returns tiles, u8 (TILE, TILE, 3), and the numbers of their traces. They are the same in every run."""
    made = []
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        pixels = np.asarray(Image.open(path).convert("RGB"), np.float64)
        for i, (y, x) in enumerate(corners(*pixels.shape[:2])):
            kind = (i + number) % len(TRACES)
            tile = pixels[y : y + TILE, x : x + TILE] + trace(TRACES[kind], random, strength)
            made.append((np.clip(np.rint(tile), 0, 255).astype(np.uint8), kind))
    return made


def split(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """Returns the photographs for training and those for the test."""
    return [p for i, p in enumerate(paths) if i % TEST_EVERY], [p for i, p in enumerate(paths) if i % TEST_EVERY == 0]


def coded(pixels: np.ndarray, kind: str, quality: int = 0) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **({"quality": quality} if quality else {}))
    return out.getvalue()


def matching_quality(tiles: list[np.ndarray], nbytes: int) -> int:
    """Returns the highest quality of lossy WebP at which the tiles take at most `nbytes`; at least 1."""
    low, high = 1, 100
    while low < high:
        middle = (low + high + 1) // 2
        if sum(len(coded(tile, "webp", middle)) for tile in tiles) <= nbytes:
            low = middle
        else:
            high = middle - 1
    return low


def field_of(form: str) -> ps.Image:
    if form in LOSSY_BY:
        return ps.Image("pli", max_error=LOSSY_BY[form])
    return ps.Image(form) if form in TWINS else ps.Image("original")


def original(pixels: np.ndarray, form: str, qualities: dict[str, int]) -> bytes:
    """Returns the file of a tile, from which the writer makes the form."""
    if form == "pli-jpeg" or form.startswith("jpeg"):
        return coded(pixels, "jpeg", qualities["jpeg-90" if form == "pli-jpeg" else form])
    return coded(pixels, "webp", qualities[form]) if form.startswith("webp") else coded(pixels, "png")


def store(tiles: list[tuple[np.ndarray, int]], path: Path, form: str, qualities: dict[str, int]) -> int:
    """Writes a data set. Returns the stored bytes of its images."""
    shutil.rmtree(path, ignore_errors=True)
    with ps.Writer(path, {"image": field_of(form), "label": ps.Int(len(TRACES))}) as writer:
        for i, (pixels, kind) in enumerate(tiles):
            writer.write({"image": original(pixels, form, qualities), "label": kind}, name=f"{i:05}")
    dataset = ps.Dataset(path)
    return sum(len(dataset.read(i, "image")) for i in range(len(dataset)))


def train_loader(path: Path, seed: int, args: argparse.Namespace, output: str) -> ps.Loader:
    chain = [T.RandomCrop(CROP), T.RandomHorizontalFlip(), *LEVELS]
    return ps.Loader(path, args.batch, shuffle=True, seed=seed, transforms=chain, drop_last=True, output=output,
                     num_workers=1, cache=None, watch=ps.Watch(live=False))


def hashes(path: Path, seed: int, args: argparse.Namespace) -> tuple[str, str]:
    """Hashes two epochs. Returns the hash of the order of samples with their labels, and the hash of the batches' pixels."""
    order, pixels = hashlib.sha256(), hashlib.sha256()
    loader = train_loader(path, seed, args, "numpy")
    for _ in range(2):
        for batch in loader:
            order.update(np.ascontiguousarray(batch["index"]).tobytes() + np.ascontiguousarray(batch["label"]).tobytes())
            pixels.update(np.ascontiguousarray(batch["image"]).tobytes())
    return order.hexdigest(), pixels.hexdigest()


def check_equal(found: dict[str, tuple[str, str]]) -> None:
    """Ends the program unless all forms have the same order of samples, twins have equal pixels, and all other forms have different
    pixels.
    """
    if len({order for order, _ in found.values()}) != 1:
        sys.exit("forms give samples in different orders")
    for form, other in TWINS.items():
        if found[form][1] != found[other][1]:
            sys.exit(f"{form} does not give the batches of {other}")
    lossy = [form for form in found if form not in TWINS]
    if len({found[form][1] for form in lossy}) != len(lossy):
        sys.exit("two different forms give the same batches")


def differences(path: Path, tiles: list[tuple[np.ndarray, int]]) -> tuple[int, float]:
    """Returns the largest difference of a value from the original tiles, and the PSNR in dB (inf: equal)."""
    loader = ps.Loader(path, 64, output="numpy", layout="NHWC", num_workers=1, cache=None, watch=ps.Watch(live=False))
    most, squares, n, i = 0, 0.0, 0, 0
    for batch in loader:
        for pixels in np.asarray(batch["image"]):
            gap = pixels.astype(np.int64) - tiles[i][0]
            most, squares, n, i = max(most, int(abs(gap).max())), squares + float((gap**2).sum()), n + gap.size, i + 1
    return most, float("inf") if squares == 0 else float(10 * np.log10(255**2 * n / squares))


def network() -> Any:
    """Returns a small network whose input is, in levels, the difference of a pixel from the mean of its surroundings."""
    import torch
    from torch import nn

    class Detail(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ((x - nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)) / 3).clamp(-4, 4)

    def part(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(Detail(), *part(3, 16, 1), *part(16, 32, 2), *part(32, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, len(TRACES)))


def train(path: Path, seed: int, args: argparse.Namespace) -> tuple[Any, int, float]:
    """Trains a network. Returns it with the number of steps and the last loss. Its first weights depend on the seed alone."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(args.threads)
    model, loader = network(), train_loader(path, seed, args, "torch")
    total = len(loader) * args.epochs
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total)
    steps, loss = 0, torch.zeros(())
    for _ in range(args.epochs):
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            steps += 1
    return model.eval(), steps, float(loss.detach())


def accuracy(model: Any, path: Path) -> float:
    import torch

    loader = ps.Loader(path, 64, transforms=LEVELS, output="torch", num_workers=1, cache=None, watch=ps.Watch(live=False))
    right = n = 0
    with torch.no_grad():
        for batch in loader:
            right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
            n += len(batch["label"])
    return right / n


def overlap(a: list[float], b: list[float]) -> bool:
    """Returns whether the ranges of two lists of values overlap."""
    return max(min(a), min(b)) <= min(max(a), max(b))


def measure(work: Path, forms: dict[str, dict[str, Any]], args: argparse.Namespace) -> None:
    """Trains all forms in turns: each seed goes over all forms. Adds accuracies, steps and seconds to the forms."""
    for seed in args.seeds:
        for name, form in forms.items():
            if name in TWINS:
                continue
            begun = time.perf_counter()
            model, steps, loss = train(work / f"train-{name}.pst", seed, args)
            form.setdefault("accuracy", []).append(accuracy(model, work / f"test-{name}.pst"))
            form.setdefault("accuracy_as_made", []).append(accuracy(model, work / "test-png.pst"))
            form.setdefault("loss", []).append(loss)
            form["steps"] = steps
            print(f"seed {seed}, {name}: {form['accuracy'][-1]:.1%} (as made {form['accuracy_as_made'][-1]:.1%}), {steps} steps, "
                  f"{time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)


def conclude(forms: dict[str, dict[str, Any]]) -> list[str]:
    """Copies the figures of a form to its twin, marks the forms whose range of accuracy overlaps that of png, and states the
    result.
    """
    for name, other in TWINS.items():
        forms[name].update({key: forms[other][key] for key in ("accuracy", "accuracy_as_made", "loss", "steps")})
    if len({form["steps"] for form in forms.values()}) != 1:
        sys.exit("forms were trained for different numbers of steps")
    for form in forms.values():
        form["meets_png"] = overlap(form["accuracy"], forms["png"]["accuracy"])
        form["meets_png_as_made"] = overlap(form["accuracy_as_made"], forms["png"]["accuracy_as_made"])
    seen = [name for name in SEES if not forms[name]["meets_png"]]
    lines = [f"The task sees losses: {', '.join(seen)} lies outside of png's range." if seen else
             "The task does NOT see losses: even the lowest qualities lie within png's range, so nothing follows from the others."]
    worse = [name for name, form in forms.items() if not form["meets_png"] and name not in SEES]
    lines.append(f"Outside of png's range: {', '.join(worse) or 'none of the others'}.")
    return lines


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.1%} ({min(values):.1%} to {max(values):.1%})"


def table(result: dict[str, Any]) -> str:
    out = [f"{len(TRACES)} classes, {result['n_train']} tiles to train on, {result['n_test']} of other photographs to test on; "
           f"{len(result['seeds'])} seeds, {result['forms']['png']['steps']} steps each; {result['machine']['cpu']}, "
           f"{result['machine']['date']}, commit {result['machine']['commit']}.", "",
           "| form | quality | bytes of a tile | PSNR, dB | largest error | accuracy: mean (least to most) | meets png | "
           "tested on tiles as made | meets png |", "|---|---|---|---|---|---|---|---|---|"]
    for name, form in result["forms"].items():
        twin = f" (batches of {TWINS[name]})" if name in TWINS else ""
        psnr = "lossless" if form["psnr"] is None else f"{form['psnr']:.1f}"
        cells = (name + twin, str(form.get("quality") or "-"), f"{form['nbytes'] / result['n_train']:.0f}", psnr,
                 str(form["most"]), spread(form["accuracy"]), "yes" if form["meets_png"] else "NO",
                 spread(form["accuracy_as_made"]), "yes" if form["meets_png_as_made"] else "NO")
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join([*out, "", *result["conclusion"]]) + "\n"


def draw(result: dict[str, Any]) -> str:
    """Draws a row for each form: a line from the lowest to the highest accuracy, and a dot at the mean. The range of png is
    shaded.
    """
    width, left, right, top, row = 960, 250, 190, 92, 30
    forms, scale = result["forms"], width - left - right
    least = min(min(form["accuracy"]) for form in forms.values())
    low = max(0.0, int(least * 20 - 1) / 20)
    bottom = top + row * len(forms)

    def place(value: float) -> float:
        return left + scale * (value - low) / (1 - low)

    out = [bars.text(20, 26, "Accuracy after equal work, by the form of the images", 17, more="font-weight='600'"),
           bars.text(20, 46, f"Traces of about {result['strength']:g} levels in tiles of photographs; "
                     f"{len(result['seeds'])} seeds: line from least to most, dot at the mean; shaded: range of png", 12,
                     bars.MUTED),
           bars.text(width - 20, top - 12, "bytes of a tile", 12, bars.MUTED, "end")]
    for tick in np.arange(low, 1.001, 0.1 if low < 0.7 else 0.05):
        out += [f"<line x1='{place(tick):.1f}' y1='{top - 6}' x2='{place(tick):.1f}' y2='{bottom}' stroke='{bars.GRID}'/>",
                bars.text(place(tick), bottom + 16, f"{tick:.0%}", 11, bars.MUTED, "middle")]
    png = forms["png"]["accuracy"]
    wide = max(2.0, place(max(png)) - place(min(png)))
    out.append(f"<rect x='{place(min(png)):.1f}' y='{top - 6}' width='{wide:.1f}' height='{bottom - top + 6}' fill='#dbe9f8'/>")
    for i, (name, form) in enumerate(forms.items()):
        y, own = top + row * i + row / 2, name.startswith("pli")
        color, values = bars.OWN[1] if own else bars.PEER[1], form["accuracy"]
        out += [bars.text(left - 14, y + 4, name + (f", batches of {TWINS[name]}" if name in TWINS else ""), 12,
                          bars.OWN[1] if own else bars.INK, "end"),
                f"<line x1='{place(min(values)):.1f}' y1='{y}' x2='{place(max(values)):.1f}' y2='{y}' stroke='{color}' "
                "stroke-width='3'/>",
                f"<circle cx='{place(statistics.mean(values)):.1f}' cy='{y}' r='5' fill='{color}'/>",
                bars.text(width - right + 16, y + 4, f"{statistics.mean(values):.1%}", 12, color),
                bars.text(width - 20, y + 4, f"{form['nbytes'] / result['n_train']:.0f}", 12, bars.MUTED, "end")]
    return bars.svg(width, bottom + 40, out)


def prepare(args: argparse.Namespace) -> tuple[dict[str, dict[str, Any]], int, int]:
    """Writes the data sets of all forms. Returns their bytes, qualities and differences, and the numbers of tiles."""
    paths = [path for group in GROUPS for path in sorted((args.data / group).glob("*.png"))][: args.photographs]
    train_paths, test_paths = split(paths)
    train_tiles, test_tiles = tiles_of(train_paths, args.strength), tiles_of(test_paths, args.strength)
    if len(train_tiles) < args.batch or not test_tiles:
        sys.exit(f"{args.data}: too few photographs in {', '.join(GROUPS)}")
    some = [pixels for pixels, _ in train_tiles[:: max(1, len(train_tiles) // 100)]]
    qualities = {"jpeg-90": 90, "jpeg-30": 30}
    for name, like in (("webp", "jpeg-90"), ("webp-low", "jpeg-30")):
        qualities[name] = matching_quality(some, sum(len(coded(tile, "jpeg", qualities[like])) for tile in some))
    forms = {}
    for name in FORMS:
        nbytes = store(train_tiles, args.work / f"train-{name}.pst", name, qualities)
        store(test_tiles, args.work / f"test-{name}.pst", name, qualities)
        most, psnr = differences(args.work / f"train-{name}.pst", train_tiles)
        if most > LOSSY_BY.get(name, 0 if name in ("png", "pli") else 255):
            sys.exit(f"{name}: a sample is wrong by {most}")
        forms[name] = {"nbytes": nbytes, "most": most, "psnr": None if psnr == float("inf") else psnr,
                       "quality": qualities.get("jpeg-90" if name == "pli-jpeg" else name)}
    return forms, len(train_tiles), len(test_tiles)


def main() -> None:
    parser = runner.parser(__doc__, "data", "work", again=False)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--strength", type=float, default=2.0, help="standard deviation of a trace, in levels of 255 (2)")
    parser.add_argument("--photographs", type=int, default=40, help="take the first so many only (40)")
    args = runner.parsed(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    forms, n_train, n_test = prepare(args)
    check_equal({name: hashes(args.work / f"train-{name}.pst", args.seeds[0], args) for name in FORMS})
    print("batches of png and pli, and of jpeg-90 and pli-jpeg, are equal bit for bit", file=sys.stderr, flush=True)
    measure(args.work, forms, args)
    conclusion = conclude(forms)
    result = {"bench": "quality", "machine": runner.machine(), "strength": args.strength, "seeds": args.seeds,
              "epochs": args.epochs, "batch": args.batch, "n_train": n_train, "n_test": n_test, "forms": forms,
              "conclusion": conclusion}
    runner.write(args.out / f"quality-{result['machine']['date']}", result, table(result), draw(result))


if __name__ == "__main__":
    main()
