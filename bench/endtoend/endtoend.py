#!/usr/bin/env python3
"""Training time per epoch through four loaders, over networks, data and machines: endtoend.py --data DIR --build DIR --out DIR.

    endtoend.py ... [--sets imagenet,frames] [--machines slow] [--seconds 1] [--share 0.5] [--budget 8s] [--long]
    endtoend.py --from FILE.json --out DIR

DALI's CPU pipeline and torch DataLoader + torchvision read the files as they are, FFCV a file of decoded pixels. Penstock uses all
that it offers: a data set whose form `penstock.plan` has chosen, and a cache (what is planned, packed or written before is not
counted; `make bench-records` and `make bench-mix` say when that time is regained).

All loaders may keep the same number of bytes of data in memory, which each cell of the figures has: the size of the set's files if
the files are in memory, and the part --share of it on slow storage. So decoded pixels that are larger than the files do not fit
into memory, neither for FFCV nor for Penstock. cell.py has the rules.

Each loader's rate is measured once on each machine. The time of an epoch is computed: a loader that prepares the next batch while
the accelerator computes takes the longer of both, max(1 / rate, 1 / step) for each sample. For the sets of --verify the same epoch
also runs with an emulated accelerator, and the table shows the error of the computed rate. One network is real: the CPU trains it.

A network's step is emulated at a rate that has a source (steps.py). Writes endtoend-<date>.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import sets  # noqa: E402  (it puts the other benches in reach)
import runner  # noqa: E402
import environments  # noqa: E402
import groups  # noqa: E402
import measure  # noqa: E402
import steps  # noqa: E402

LOADERS = {"dali": "DALI, CPU", "torchvision": "torch DataLoader", "ffcv_raw": "FFCV, raw pixels", "penstock": "Penstock"}
SHORT = {"dali": "DALI", "torchvision": "torch", "ffcv_raw": "FFCV raw", "penstock": "Penstock"}
PEERS = tuple(name for name in LOADERS if name != "penstock")
MEMORY = "bytes of data that stay in memory, equal for all loaders: memory_mb of each cell"
CELL_LIMIT_S = 300
STORAGE_BOUND = 0.85  # storage counts as the bottleneck if at least this part of the disk's rate is in use
VERIFIED = ("imagenet", "frames")
VERIFY_STEPS = ("ResNet-18", "VGG-11")


@dataclass(frozen=True)
class Machine:
    name: str
    title: str
    cores: int
    rate: float | None  # MB/s of storage


MACHINES = {machine.name: machine for machine in (
    Machine("few", "few cores, fast disk: 1 core, files in memory", 1, None),
    Machine("slow", "many cores, slow disk: 2 cores, 30 MB/s", 2, 30),
    Machine("balanced", "balanced: 2 cores, 200 MB/s", 2, 200))}


def networks_of(each: sets.Set) -> tuple[steps.Rate, ...]:
    return steps.SOUND if each.pixels == 0 else steps.NETWORKS


def rate_of(step: steps.Rate, each: sets.Set) -> float:
    """Returns the samples/s of the accelerator for pictures of this set's size."""
    return step.samples_per_second if each.pixels == 0 else step.samples_per_second * steps.SIDE**2 / each.pixels


def epoch_of(loader_rate: float, step_rate: float) -> dict[str, float]:
    """Returns the samples/s of a training, and the share of its time in which the accelerator waits."""
    rate = min(loader_rate, step_rate)
    return {"samples_per_s": rate, "stall": 1 - rate / step_rate}


def binding(cell: dict, step_rate: float, machine: Machine) -> str:
    alone = cell["alone"]
    if step_rate <= alone["samples_per_s"]:
        return "network"
    if machine.rate and alone["disk_mb_per_s"] >= STORAGE_BOUND * machine.rate:
        return "storage"
    return "cores"


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def memory_of(args: argparse.Namespace, machine: Machine, each: sets.Set) -> int:
    """Returns the bytes of data that may stay in memory."""
    return int(sum(path.stat().st_size for path in each.files()) * (1 if machine.rate is None else args.share))


def command_of(args: argparse.Namespace, machine: Machine, each: sets.Set, python: str, program: str, *rest: str) -> list[str]:
    options = ["--data", str(args.data), "--folder", str(args.folder), "--memory", str(memory_of(args, machine, each))]
    options += [] if machine.rate is None else ["--rate", str(machine.rate)]
    return [*runner.pinned(args.cpus, machine.cores), python, str(HERE / program), *rest, *options]


def environment_of(each: sets.Set, loader: str) -> str | None:
    """Returns the name of the environment that a cell runs in; None: this Python."""
    if (loader, each.name) == ("torchvision", "audio"):
        return "audio"
    return {"penstock": None, "dali": "dali", "ffcv_raw": "ffcv"}.get(loader, "torch")


def plan(args: argparse.Namespace, machine: Machine, each: sets.Set) -> tuple[dict, Path]:
    """Plans and packs in a process of its own. Returns what was planned, and the file that cell.py opens."""
    store = args.folder / f"{each.name}-{machine.name}.pst"
    path = store.with_suffix(".json")
    command = command_of(args, machine, each, sys.executable, "plan.py", each.name, str(machine.cores), str(store), "--budget",
                         args.budget, "--write", str(path))
    return runner.run_cell(command, dict(os.environ), CELL_LIMIT_S), path


def run_cell(args: argparse.Namespace, machine: Machine, each: sets.Set, loader: str) -> dict:
    found: dict = {"set": each.name, "machine": machine.name, "loader": loader}
    name = environment_of(each, loader)
    python = sys.executable if name is None else str(environments.python_of(args.build, name))
    command = command_of(args, machine, each, python, "cell.py", loader, each.name, str(machine.cores),
                         "--seconds", str(args.seconds))
    if loader == "penstock":
        made, path = plan(args, machine, each)
        if "absent" in made:
            return found | made
        found["planned_s"] = made["seconds"]
        command += ["--plan", str(path)]
    if each.name in args.verify:
        chosen = [step for step in networks_of(each) if step.model in VERIFY_STEPS]
        command += ["--steps", *(str(rate_of(step, each)) for step in chosen)]
    if args.real and (each.name, machine.name) == ("imagenet", "balanced"):
        command += ["--torch", str(next((args.build / "venv/torch/lib").glob("python*/site-packages")))]
    for path in each.files():
        path.read_bytes()
    with groups.slowed(machine.rate, args.folder) as join:
        return found | runner.run_cell(command, environments.variables(args.build, name, OMP_NUM_THREADS="1"), CELL_LIMIT_S, join)


def measure_all(args: argparse.Namespace) -> dict:
    absent = environments.install(args.build, ["dali", "ffcv", "audio"], False)
    sets.prepare(args.data, args.folder, args.sets)
    known, cells = sets.sets(args.data, args.folder), []
    for name in args.sets:
        for machine in (MACHINES[machine] for machine in args.machines):
            for loader in LOADERS:
                reason = absent.get(environment_of(known[name], loader))
                if reason:
                    cell = {"set": name, "machine": machine.name, "loader": loader, "absent": f"did not install: {reason}"}
                else:
                    cell = run_cell(args, machine, known[name], loader)
                cells.append(runner.said(cell))
    about = {name: {"files": len(each.files()), "mb": round(sum(path.stat().st_size for path in each.files()) / 1e6, 1),
                    "batch": each.work.batch, "title": each.title} for name, each in known.items() if name in args.sets}
    if "webp" in about:
        psnr = json.loads((args.folder / sets.WEBP_PSNR).read_text())
        about["webp"]["title"] += f" of quality {sets.WEBP_QUALITY}, {psnr} dB from the JPEG's pixels"
    settings = {"share": args.share, "seconds": args.seconds, "memory": MEMORY}
    return {"bench": "endtoend", "machine": runner.machine(), "settings": settings,
            "sets": about, "cells": cells, "epochs": [row for name in args.sets for row in epochs(cells, known[name])]}


def epochs(cells: list[dict], each: sets.Set) -> list[dict]:
    """Computes the training time of each network on each machine from the loaders' rates."""
    rows = []
    for machine in MACHINES.values():
        found = {cell["loader"]: cell for cell in cells if (cell["set"], cell["machine"]) == (each.name, machine.name)}
        rates = {loader: cell["alone"]["samples_per_s"] for loader, cell in found.items() if "alone" in cell}
        if "penstock" not in rates or not set(rates) & set(PEERS):
            continue
        for step in networks_of(each):
            own = rate_of(step, each)
            row = {"set": each.name, "machine": machine.name, "network": step.name, "source": step.source, "step_rate": own,
                   "loaders": {loader: epoch_of(rate, own) | {"binds": binding(found[loader], own, machine)}
                               for loader, rate in rates.items()}}
            ours = row["loaders"]["penstock"]["samples_per_s"]
            row["times"] = {peer: ours / row["loaders"][peer]["samples_per_s"] for peer in PEERS if peer in rates}
            row["times_fastest"] = min(row["times"].values())
            rows.append(row)
    return rows


# What is shown.

def summary(rows: list[dict]) -> dict[str, float]:
    """Returns how many times as fast as each other loader, and as the fastest, Penstock is: mean and maximum over networks."""
    out = {}
    for peer in (*PEERS, "fastest"):
        times = [row["times_fastest"] if peer == "fastest" else row["times"].get(peer) for row in rows]
        known = [value for value in times if value is not None]
        if known:
            out |= {f"{peer}_mean": geometric_mean(known), f"{peer}_max": max(known)}
    return out


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def times(row: dict, peer: str) -> str:
    return f"{row['times'][peer]:.2f}" if peer in row["times"] else "-"


def set_lines(merged: dict, name: str) -> list[str]:
    about = merged["sets"][name]
    out = ["", f"### {about['title']}", "", f"{about['files']} files, {about['mb']} MB, batches of {about['batch']}.", "",
           *runner.heads("machine", "network", *(f"samples/s: {name}" for name in SHORT.values()),
                         *(f"x {SHORT[peer]}" for peer in PEERS), *(f"stall: {name}" for name in SHORT.values()),
                         *(f"binds: {name}" for name in SHORT.values()))]
    for row in (row for row in merged["epochs"] if row["set"] == name):
        found = [row["loaders"].get(loader) for loader in LOADERS]
        rates = " | ".join(f"{each['samples_per_s']:.0f}" if each else "-" for each in found)
        stalls = " | ".join(percent(each["stall"]) if each else "-" for each in found)
        binds = " | ".join(each["binds"] if each else "-" for each in found)
        ratios = " | ".join(times(row, peer) for peer in PEERS)
        out.append(f"| {row['machine']} | {row['network']} ({row['step_rate']:.0f}/s) | {rates} | {ratios} | {stalls} | {binds} |")
    return out


def rates_lines(merged: dict) -> list[str]:
    out = ["", "### Rates of the loaders, from which epochs are computed", "",
           *runner.heads("set", "machine", "loader", "samples/s", "CPU ms each", "MB/s from the disk", "stored, MB",
                         "in memory, MB", "plan, seconds")]
    for cell in merged["cells"]:
        head = cell["set"], cell["machine"], LOADERS[cell["loader"]]
        if "absent" in cell:
            out.append(runner.absent(*head, cell["absent"], n=9))
            continue
        alone = cell["alone"]
        planned = f"{cell['plan']}, {cell['planned_s']}" if "plan" in cell else ""
        disturbed = " (disturbed)" if alone["foreign_cores"] > measure.FOREIGN_LIMIT else ""
        out.append(f"| {' | '.join(head)} | {alone['samples_per_s']:.0f}{disturbed} | {alone['cpu_ms']} | "
                   f"{alone['disk_mb_per_s']} | {cell.get('stored_mb', '-')} | {cell.get('memory_mb', '-')} | {planned} |")
    return out


def verified_lines(merged: dict) -> list[str]:
    lines = []
    for cell in (cell for cell in merged["cells"] if cell.get("steps")):
        for step in cell["steps"]:
            computed = epoch_of(cell["alone"]["samples_per_s"], step["step_rate"])["samples_per_s"]
            lines.append(f"| {cell['set']} | {cell['machine']} | {LOADERS[cell['loader']]} | {step['step_rate']:.0f} | "
                         f"{computed:.0f} | {step['samples_per_s']:.0f} | {computed / step['samples_per_s'] - 1:+.1%} |")
    head = ["", "### Computed epochs beside emulated ones", "",
            *runner.heads("set", "machine", "loader", "step, samples/s", "computed", "measured", "off")]
    return [*head, *lines] if lines else []


def real_lines(merged: dict) -> list[str]:
    found = {cell["loader"]: cell for cell in merged["cells"] if "real" in cell}
    if "penstock" not in found:
        return []
    ours = found["penstock"]["real"]["samples_per_s"]
    return ["", "### A real network of three convolutions, on the CPU beside the loader (ImageNet, balanced machine)", "",
            *runner.heads("loader", "samples/s, measured", "Penstock is"),
            *(f"| {LOADERS[name]} | {cell['real']['samples_per_s']:.0f} | {ours / cell['real']['samples_per_s']:.2f} x as fast |"
              for name, cell in found.items())]


def claim_lines(merged: dict) -> list[str]:
    out = ["", "### Beside the papers", "",
           *runner.heads("paper", "claim", "its machine", "it reports", "ours: mean, most, beside DALI",
                         "beside the fastest other", "")]
    for claim in steps.CLAIMS:
        rows = [row for row in merged["epochs"] if row["set"] in claim.sets]
        if not rows:
            continue
        found = summary(rows)
        shown = [f"{found[f'{peer}_mean']:.2f}, {found[f'{peer}_max']:.2f}" if f"{peer}_mean" in found else "-"
                 for peer in ("dali", "fastest")]
        reached = found["fastest_max"] >= claim.times
        binds = sorted({row["loaders"]["penstock"]["binds"] for row in rows})
        verdict = "reached" if reached else f"not reached: {', '.join(binds)} bind Penstock's epochs"
        out.append(f"| {claim.paper} | {claim.what} ({', '.join(claim.sets)}) | {claim.machine} | {claim.times} x | {shown[0]} | "
                   f"{shown[1]} | {verdict} |")
    return out


def summary_lines(merged: dict) -> list[str]:
    out = ["", "### All networks and machines", "",
           *runner.heads("set", *(words for name in (*(SHORT[peer] for peer in PEERS), "the fastest other")
                                  for words in (f"x {name}: mean", "most")), *(f"mean stall: {name}" for name in SHORT.values()))]
    groups_of = {name: [row for row in merged["epochs"] if row["set"] == name] for name in merged["sets"]}
    for name, rows in {**groups_of, "all": merged["epochs"]}.items():
        if not rows:
            continue
        found = summary(rows)
        shown = [f"{found[f'{peer}_{what}']:.2f}" if f"{peer}_{what}" in found else "-"
                 for peer in (*PEERS, "fastest") for what in ("mean", "max")]
        stalls = []
        for loader in LOADERS:
            values = [row["loaders"][loader]["stall"] for row in rows if loader in row["loaders"]]
            stalls.append(percent(statistics.fmean(values)) if values else "-")
        out.append(f"| {name} | {' | '.join([*shown, *stalls])} |")
    return out


def table(merged: dict) -> str:
    settings = merged["settings"]
    used = {row["network"]: row["source"] for row in merged["epochs"]}
    out = [f"{runner.where(merged)} Training of "
           "emulated networks: samples/s computed as the lower of the loader's measured rate and the network's; no step is "
           "measured here. In memory, for each loader: as many bytes as a set's files take where they lie in memory, "
           f"{percent(settings['share'])} of that on slow storage. Stall: part of the time in which the network waits.",
           "Machines: " + "; ".join(f"{each.name}: {each.title}" for each in MACHINES.values()) + "."]
    out += summary_lines(merged) + claim_lines(merged)
    for name in merged["sets"]:
        out += set_lines(merged, name)
    out += rates_lines(merged) + verified_lines(merged) + real_lines(merged)
    out += ["", "Rates of steps, at 224 x 224 pixels and in proportion to pixels beyond (derived):",
            *(f"- {name}: {source or 'no source, a sweep'}" for name, source in used.items())]
    return "\n".join(out) + "\n"


def picture(merged: dict) -> str:
    """Draws the geometric mean, over networks, of the samples/s of each loader."""
    cells = []
    for name, about in merged["sets"].items():
        for machine in MACHINES:
            rows = [row for row in merged["epochs"] if (row["set"], row["machine"]) == (name, machine)]
            for loader in (loader for loader in LOADERS if rows and loader in rows[0]["loaders"]):
                mean = geometric_mean([row["loaders"][loader]["samples_per_s"] for row in rows])
                title = f"{about['title'].split(' of quality')[0]}; {MACHINES[machine].title}"
                cells.append({"group": title, "peer": loader, "name": LOADERS[loader],
                              "cores": MACHINES[machine].cores, "decodes": True, "images_per_s": mean, "clean": True})
    return runner.bars({**merged, "cells": cells}, "Training, samples per second: mean over networks", "")


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--sets", default="*", help="of frames, imagenet, webp, boxes, audio")
    parser.add_argument("--machines", default="*", help=f"of {', '.join(MACHINES)}")
    parser.add_argument("--share", type=float, default=0.5, help="part of a set that memory holds (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.8, help="of a window, at least (%(default)s)")
    parser.add_argument("--budget", default="6s", help="of a plan's analysis (%(default)s)")
    parser.add_argument("--verify", default=",".join(VERIFIED), help="sets that also run beside emulated steps (%(default)s)")
    parser.add_argument("--no-real", dest="real", action="store_false", help="leave the real network out")
    parser.add_argument("--long", action="store_true", help="windows of 4 s, plans of 30 s, all sets verified")
    args = runner.parsed(parser)
    names = tuple(sets.sets(Path(), Path()))
    if args.long:
        args.seconds, args.budget, args.verify = 4.0, "30s", ",".join(names)
    args.sets, args.machines = runner.chosen(args.sets, names), runner.chosen(args.machines, tuple(MACHINES))
    args.verify = args.verify.split(",")
    args.folder = runner.work_folder(args.build, args.data, "endtoend")
    return args


def main() -> None:
    runner.finish(arguments(), "endtoend", measure_all, table, picture)


if __name__ == "__main__":
    main()
