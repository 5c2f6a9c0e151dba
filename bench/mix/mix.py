#!/usr/bin/env python3
"""Mixes of forms against single forms: mix.py --data DIR --work DIR --out DIR.

Three settings, like the three environments of Liquid: few cores and fast storage, many cores and slow storage, and a balanced one.
Cores are limited by affinity, storage by the loader's throttle. The images of a data set are stored in several forms beside each
other. penstock.plan measures costs and solves the mix; its prediction is saved before anything is run. Then loaders run in turns,
for accelerators of half to four times the best single form's rate: each form alone, the solved mix, a fixed random half of the
samples in each of the mix's two forms, and the original files. Batches are compared first: all must be equal.

Each group is solved twice: with the forms that existed before Penstock (PNG and raw pixels; JPEG and raw pixels), which is the
situation of the paper, and with PLI. Where transforms begin with a Resize, raw pixels of that size are a data set of their own, and
a third plan may store images at that size (`penstock plan --training-size`). The files are packed by it, each in one form. Mixes
are run with the threads and the read-ahead of their plans. Files have several names where there are few of them: at the end of each
epoch the read-ahead runs empty and starts anew, which costs a tenth of the time if an epoch takes a quarter of a second. --from
FILE.json only makes the tables of existing figures.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
import mix_accuracy  # noqa: E402
import runner  # noqa: E402

import penstock as ps  # noqa: E402
from penstock import transforms as T  # noqa: E402

FRACTIONS = (0.5, 1.0, 2.0, 4.0)
FEWEST = 12  # minimum number of batches in a measured window
GROUPS: dict[str, dict[str, Any]] = {
    "frames": {
        "source": "cityscapes", "own": "png", "forms": ("png", "pli-small", "raw"), "before": ("png", "raw"), "copies": 16,
        "batch": 8, "chain": lambda: [T.RandomCrop(768), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
        "settings": {"few cores, fast storage": (1, 800e6), "many cores, slow storage": (2, 300e6), "balanced": (2, 1000e6)},
    },
    "imagenet": {
        "source": "imagenet_folder", "own": "jpeg", "forms": ("jpeg", "pli-jpeg", "pli-small", "raw"), "before": ("jpeg", "raw"),
        "copies": 4, "batch": 32,
        "chain": lambda: [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
        "settings": {"few cores, fast storage": (1, 400e6), "many cores, slow storage": (2, 100e6), "balanced": (2, 800e6)},
    },
    # Groups whose transforms begin with a Resize. Raw pixels can be stored after the Resize ("raw-256") and give equal batches.
    "imagenet256": {
        "source": "imagenet_folder", "own": "jpeg", "forms": ("jpeg", "pli-jpeg", "pli-small", "raw"), "before": ("jpeg", "raw"),
        "copies": 4, "batch": 32, "resize": 256,
        "chain": lambda: [T.Resize(256), T.RandomCrop(224, pad_if_needed=True), T.RandomHorizontalFlip(),
                          T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
        "settings": {"few cores, fast storage": (1, 400e6), "many cores, slow storage": (2, 100e6), "balanced": (2, 800e6)},
    },
}  # fmt: skip
RESIZES = "resize" in inspect.signature(ps.pack).parameters
SMALL = "all, training size"  # name of the plan that may store images after the Resize


def folder_of(source: Path, path: Path, group: dict[str, Any]) -> Path:
    """Returns the folder to pack: the source, or a folder in which each source file has several names."""
    if group["copies"] == 1:
        return source
    folder = path.with_name(path.name + ".files")
    folder.mkdir(exist_ok=True)
    for i, file in itertools.product(range(group["copies"]), sorted(source.rglob("*"))):
        link = folder / f"{i:02d}-{file.name}"
        if file.suffix.lower() in (".png", ".jpeg", ".jpg") and not link.exists():
            link.symlink_to(file.resolve())
    return folder


def store(source: Path, path: Path, group: dict[str, Any]) -> Path:
    """Writes each image in all forms of the group, as variants of one sample."""
    if path.exists():
        return path
    half = path.with_name(path.name + ".part")
    forms = ["original" if form == group["own"] else form.split("-small")[0] for form in group["forms"]]
    ps.pack(folder_of(source, path, group), half, forms=forms, of_lossy=True, verify_pixels=True)
    half.rename(path)
    return path


def store_resized(source: Path, path: Path, group: dict[str, Any]) -> Path | None:
    """Writes the images as raw pixels at the training size. Returns None if the group's transforms do not begin with a Resize."""
    if "resize" not in group or not RESIZES:
        return None
    small = path.with_name(f"{path.stem}-raw{group['resize']}.pst")
    if not small.exists():
        half = small.with_name(small.name + ".part")
        ps.pack(folder_of(source, path, group), half, forms=["raw"], of_lossy=True, resize=group["resize"])
        half.rename(small)
    return small


def store_planned(
    source: Path, path: Path, group: dict[str, Any], cores: int, storage: float, budget: str
) -> tuple[Path, ps.Plan] | None:
    """Plans with images at the training size, and packs the files by the plan. Returns None if the transforms do not begin with a
    Resize.
    """
    if "resize" not in group:
        return None
    folder, packed = folder_of(source, path, group), path.with_name(f"{path.stem}-training.pst")
    with loader_of(folder, group, storage) as loader:
        found = ps.plan(loader, cache=0, page_cache=0, layout=False, forms=group["forms"], budget=budget, training_size=True)
    shutil.rmtree(packed, ignore_errors=True)
    file = packed.with_suffix(".plan.json")
    found.to_json(file)
    ps.pack(folder, packed, plan=file, num_workers=cores)
    return packed, found


def loader_of(path: Path, group: dict[str, Any], storage: float, **options: Any) -> ps.Loader:
    return ps.Loader(options.pop("data", path), group["batch"], shuffle=True, seed=1, transforms=group["chain"](), output="numpy",
                     cache=None, reading=ps.Reading(throttle=(storage, 0.0)), **options)  # fmt: skip


def variant(form: str) -> str:
    return form.split("-small")[0]


def rate_of(loader: ps.Loader, samples_per_second: float, seconds: float) -> float:
    """Returns the samples/s of a training whose accelerator takes so many samples/s, over a window after a warm-up."""
    step = loader.batch_size / samples_per_second
    start, n, batches = 0.0, 0, 0
    begin = free = time.perf_counter()
    for batch in itertools.chain.from_iterable(loader for _ in itertools.count()):
        now = time.perf_counter()
        if start:
            n += len(batch["index"])
            batches += 1
            if now - start >= seconds and batches >= FEWEST:
                return n / (now - start)
        elif now - begin >= seconds / 3:
            start = now
        free = max(free, now) + step  # a step begins when its batch is ready and the previous step has ended
        left = free - time.perf_counter()
        if left > 0:
            time.sleep(left)
    raise AssertionError("the loader ended")


def check_batches(path: Path, group: dict[str, Any], mixes: list[dict[str, Any]]) -> None:
    """Checks that all ways of storing deliver equal batches."""
    import numpy as np

    def some(**options: Any) -> list[Any]:
        with loader_of(path, group, 0.0, **options) as loader:
            return [batch["image"].copy() for batch in itertools.islice(iter(loader), 4)]

    wanted = some()
    for options in [{"forms": ps.Forms(allowed={"image": [variant(form)]})} for form in group["forms"]] + mixes:
        if not all(np.array_equal(a, b) for a, b in zip(some(**options), wanted, strict=True)):
            raise SystemExit(f"other pixels with {options}")


def solved(path: Path, group: dict[str, Any], storage: float, forms: tuple[str, ...], budget: str, report: Any) -> ps.Plan:
    with loader_of(path, group, storage) as loader:
        return ps.plan(loader, report=report, cache=0, page_cache=0, copies=True, layout=False, forms=forms, budget=budget)


def shares_of(plan: ps.Plan) -> dict[str, float]:
    shares = plan.loader.get("form_parts")
    return shares or {_name(plan.data["classes"][0]["ways"][0]["store"][0]): 1.0}


def shares_stored(plan: ps.Plan) -> dict[str, float]:
    """Returns for a plan without copies the share of samples that it stores in each form, largest first."""
    found: dict[str, float] = {}
    classes = plan.data["classes"]
    whole = sum(part["samples"] for part in classes)
    for samples, way in ((part["samples"], way) for part in classes for way in part["ways"]):
        form = _name(way["store"][0])
        found[form] = found.get(form, 0.0) + way["share"] * samples / whole
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _name(store: dict[str, Any]) -> str:
    form = store["form"] + (f"-{store['tier']}" if "tier" in store else "")
    return f"{form}@{store['resize']}" if "resize" in store else form


def restricted(report: ps.report.Report, forms: tuple[str, ...]) -> ps.report.Report:
    data = json.loads(json.dumps(report.data))
    data["forms"] = {form: costs for form, costs in data["forms"].items() if form in forms}
    return ps.report.Report(data)


def setting(
    source: Path, path: Path, small: Path | None, group: dict[str, Any], cores: int, storage: float, args: argparse.Namespace
) -> dict[str, Any]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with loader_of(path, group, storage, forms=ps.Forms(allowed={"image": [variant(group["own"])]})) as loader:
        report = ps.analyze(loader, budget=args.budget, forms=group["forms"])
    plans = {}
    for name, forms in (("before", group["before"]), ("all", group["forms"])):
        with loader_of(path, group, storage) as loader:
            plans[name] = ps.plan(restricted(report, forms), cache=0, page_cache=0, copies=True)
    mixes = {name: {variant(form): share for form, share in shares_of(plan).items()} for name, plan in plans.items()}
    ways: dict[str, dict[str, Any]] = {form: {"forms": ps.Forms(allowed={"image": [variant(form)]})} for form in group["forms"]}
    if small is not None:
        ways[f"raw-{group['resize']}"] = {"data": small}
    for name, mix in mixes.items():
        if len(mix) > 1:
            ahead = {option: plans[name].loader[option] for option in ("num_workers", "prefetch")}
            ways[f"mix of {name}"] = {"forms": mix, **ahead}
            half = dict.fromkeys(sorted(mix, key=lambda form: -mix[form])[:2], 0.5)
            ways[f"half and half of {name}"] = {"forms": ps.Forms(half, choice="sample"), **ahead}
    trained = store_planned(source, path, group, cores, storage, args.budget)
    if trained is not None:
        packed, plans[SMALL] = trained
        mixes[SMALL] = shares_stored(plans[SMALL])
        ways[f"mix of {SMALL}"] = {"data": packed, "plan": plans[SMALL]}
    check_batches(path, group, [way for name, way in ways.items() if name not in group["forms"]])
    predicted = {row["form"]: row["samples_per_second"] for name in ("before", "all") for row in plans[name].data["singles"]}
    predicted.update({f"mix of {name}": plan.data["predicted"]["samples_per_second"] for name, plan in plans.items()})
    if small is not None:
        with loader_of(path, group, storage, data=small) as loader:
            planned = ps.plan(loader, cache=0, page_cache=0, layout=False, forms=("raw",), budget=args.budget)
        rates = {row["form"]: row["samples_per_second"] for row in planned.data["singles"]}
        predicted[f"raw-{group['resize']}"] = rates["raw"]
    best = max(predicted[form] for form in group["forms"])
    cells = []
    for fraction in FRACTIONS:
        runs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, options in ways.items():
                with loader_of(path, group, storage, **options) as loader:
                    runs[name].append(rate_of(loader, fraction * best, args.seconds))
        for name, rates in runs.items():
            wanted = min(predicted[name], fraction * best) if name in predicted else None
            cells.append({"accelerator": fraction * best, "fraction": fraction, "way": name, "rate": statistics.median(rates),
                          "predicted": wanted, "rates": rates})  # fmt: skip
    return {"cores": cores, "storage": storage, "mixes": mixes, "cells": cells,
            "prices": {name: plan.data["prices"] for name, plan in plans.items()}}  # fmt: skip


def table(group: str, name: str, found: dict[str, Any]) -> str:
    own, top = GROUPS[group]["own"], mix_accuracy.top_of(found)
    lines = [f"\n### {group}: {name} ({found['cores']} cores, {found['storage'] / 1e6:.0f} MB/s)\n"]
    for mix, shares in found["mixes"].items():
        lines.append(f"mix of {mix}: {', '.join(f'{100 * share:.0f} % {form}' for form, share in shares.items())}  ")
    lines += ["", *runner.heads("", *(f"{fraction:g} x" for fraction in FRACTIONS), "predicted", "x best single", "x own")]
    for way, cell in top.items():
        rates = [each["rate"] for each in found["cells"] if each["way"] == way]
        predicted = "" if cell["predicted"] is None else f"{cell['predicted']:.0f} ({mix_accuracy.off(cell):+.1%})"
        ratios = f"{mix_accuracy.over_best_single(found, way):.2f} | {cell['rate'] / top[own]['rate']:.2f}"
        lines.append(f"| {way} | {' | '.join(f'{rate:.0f}' for rate in rates)} | {predicted} | {ratios} |")
    return "\n".join(lines)


def tables(result: dict[str, Any]) -> str:
    """Returns the tables of all settings, and the number of good predictions."""
    parts = [table(group, name, found) for group, settings in result["groups"].items() for name, found in settings.items()]
    good = mix_accuracy.accuracy(result)
    parts.append(f"\n{good['near']} of {good['cells']} predictions for the fastest accelerator are within "
                 f"{100 * good['within']:.0f} % of what was measured.\n")  # fmt: skip
    return "\n".join([runner.where(result), *parts])


def measure(args: argparse.Namespace) -> dict[str, Any]:
    args.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"bench": "mix", "machine": runner.machine(), "rounds": args.rounds, "groups": {}}
    for name in runner.chosen(args.groups, GROUPS):
        group = GROUPS[name]
        path = store(args.data / group["source"], args.work / f"mix-{name}-{group['copies']}.pst", group)
        source = args.data / group["source"]
        small = store_resized(source, path, group)
        found["groups"][name] = {}
        for title, (cores, storage) in group["settings"].items():
            os.sched_setaffinity(0, args.cpus)
            print(f"{name}: {title}", file=sys.stderr, flush=True)
            found["groups"][name][title] = setting(source, path, small, group, cores, storage, args)
            print(table(name, title, found["groups"][name][title]), flush=True)
    return found


def main() -> None:
    parser = runner.parser(__doc__, "data", "work")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--budget", default="30s", help="of the analysis of a setting")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a window")
    args = runner.parsed(parser)
    result = mix_accuracy.with_summary(json.loads(args.source.read_text()) if args.source else measure(args))
    runner.write(args.out / f"mix-{result['machine']['date']}", result, tables(result))


if __name__ == "__main__":
    main()
