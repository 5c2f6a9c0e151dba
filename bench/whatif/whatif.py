#!/usr/bin/env python3
"""Predictions of `penstock whatif` against runs: `make bench-whatif`, twice.

    1. The first call makes two sets, analyses the folder of each as its user would (penstock.analyze, its own form, all cores),
       draws the cells by --seed, predicts each of them from these two reports alone, and writes
       bench/results/whatif_NAME-DATE.predictions.json. Commit that file.
    2. The second call measures. It refuses to begin before git has the file as it was written, and the result has its hash. The
       forms are packed first. Each cell runs twice: first all cells run, then all run again in another order. Where its runs differ
       by more than 4 % it runs again, three times at most, and is marked if they still do. No cell is dropped.

draw.py says which cells are counted, and which are reported separately because they are easy to predict. With --stop-after the
second call stops after some time; the next call goes on there. --no-commit does both parts in one call, to try the bench; the file
of predictions then lies beside the result.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import draw
import hybrid
import picture
import predictions
import rounds
import sets
import summary
from quota import Quota

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402

GO_ON = 75  # exit status if --stop-after ended the call
OTHERS = 0.1  # maximum number of cores that other programs may use during an analysis
ANALYSES = 3  # attempts to analyse a set without disturbance
ROOM_S = 5 * 60  # estimated seconds of making, analysing and packing both sets


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def say_estimate(cells: list[draw.Cell], seconds: float, room_s: float) -> None:
    least, most = ((runs + room_s) / 60 for runs in rounds.estimate(cells, seconds))
    say(f"{len(cells)} cells: about {least:.0f} minutes to the end, and {most:.0f} if no two runs of a counted cell agree")


# Before anything is measured -----------------------------------------------------------------------------


def analyse(of: sets.Set, work: Path, seconds: float, *, needs_quiet: bool) -> dict[str, Any]:
    """Analyses the folder of a set with the loader of its training.

    needs_quiet: the analysis is repeated if other programs used more than OTHERS cores meanwhile; after ANALYSES failed attempts
    the bench ends. Other programs take memory bandwidth, which makes forms of many bytes up to 1.5 times as costly, and CPU clocks
    cannot show this.
    """
    import penstock as ps

    for _ in range(ANALYSES):
        with sets.loader_of(of.name, work / of.name) as loader:
            report = ps.analyze(loader, budget=seconds, wait_quiet=60.0 if needs_quiet else None)
        others = report.data["machine"]["other_cores"]
        if not needs_quiet or others <= OTHERS:
            break
        say(f"{of.name}: other programs used {others:.2f} cores during the analysis")
    else:
        sys.exit(f"{of.name}: other programs used more than {OTHERS} cores during each analysis: call again on a quiet machine")
    report.data["subject"]["path"] = of.name  # figures should not contain paths of this machine
    report.to_json(work / f"{of.name}.report.json")
    return dict(report.data)


def analyse_sleeping(seconds: float) -> dict[str, Any]:
    """Analyses a torch DataLoader whose samples spin and sleep."""
    import torch

    import known
    import penstock as ps

    loader = torch.utils.data.DataLoader(known.Known(**draw.SLEEPING), batch_size=draw.SLEEPING_BATCH, num_workers=2)
    return dict(ps.analyze(loader, budget=seconds, forms=()).data)


def analyse_emulated(name: str, work: Path, seconds: float, stand_in: Path) -> dict[str, Any]:
    sets.pack(name, "pli-jpeg", work)
    data = work / sets.stored(name, "pli-jpeg")
    command = [sys.executable, str(HERE / "hybrid.py"), name, str(data), str(seconds)]
    done = subprocess.run(command, env=hybrid.environment(stand_in), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the emulated GPU could not be analysed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["subject"]["path"] = data.name
    return found


def settings_of(args: argparse.Namespace, quota: Quota) -> tuple[dict[str, Any], list[str]]:
    """Returns the settings that determine cells and runs, and notes on what is left out."""
    notes = [] if quota.path is not None else ["Cores by CPU quota are left out: no control group can be made here."]
    if args.apart and args.stand_in is None:
        notes.append("Cells with an emulated GPU are left out: --stand-in was not given.")
    if args.cells is not None:
        notes.append(f"--cells: only {args.cells} counted cells were drawn.")
    return {"seed": args.seed, "seconds": args.seconds, "analysis_seconds": args.analysis_seconds, "cores": len(args.cpus),
            "has_quota": quota.path is not None, "cells": args.cells}, notes  # fmt: skip


def begin(args: argparse.Namespace, work: Path, quota: Quota) -> dict[str, Any]:
    """Analyses, draws and predicts; writes the predictions and the state of the runs."""
    settings, notes = settings_of(args, quota)
    described = runner.machine()
    name = f"whatif_{args.name or predictions.name_of(described['cpu'])}-{described['date']}"
    file = ((args.out if args.no_commit else args.results) / f"{name}.predictions.json").resolve()
    if args.no_commit:
        file.unlink(missing_ok=True)
    predictions.check_absent(file)
    work.mkdir(parents=True, exist_ok=True)
    made = [sets.make(name, args.data, work / name) for name in sets.OWN]
    machine = draw.Machine(settings["cores"], settings["has_quota"])
    cells = draw.counted(args.seed, made, machine, args.cells)
    if args.apart:
        cells += draw.easy(made, machine.cores)
    if args.apart and args.stand_in is not None:
        cells += draw.emulated(made[0], machine.cores)
    say_estimate(cells, args.seconds, ROOM_S)
    reports = {}
    for of in made:
        say(f"{of.name}: a folder of {of.samples} {of.own} is analysed")
        reports[of.name] = analyse(of, work, args.analysis_seconds, needs_quiet=not args.no_commit)
    if any(cell["report"] == "sleeping" for cell in cells):
        reports["sleeping"] = analyse_sleeping(args.analysis_seconds / 4)
    if args.stand_in is not None and any(cell["report"] == "emulated" for cell in cells):
        reports["emulated"] = analyse_emulated(made[0].name, work, args.analysis_seconds / 4, args.stand_in)
    predictions.predict(cells, reports)
    for cell in cells:
        cell["command"] = rounds.command_of(cell, args.cpus, args.seconds)
    found = {"bench": "whatif", "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "machine": described,
             "settings": settings, "notes": notes, "sets": [of.plain() for of in made], "reports": reports, "cells": cells}
    return {"name": name, "file": str(file), "sha256": predictions.write(file, found), "packs": {}, "runs": [[] for _ in cells]}


# Runs ----------------------------------------------------------------------------------------------------


def save(work: Path, state: dict[str, Any]) -> None:
    half = work / "state.json.part"
    half.write_text(json.dumps(state))
    half.rename(work / "state.json")


def pack_all(found: dict[str, Any], work: Path, state: dict[str, Any]) -> None:
    """Packs each form of the cells once."""
    wanted = {(cell["set"], cell["form"]) for cell in found["cells"] if "form" in cell}
    for name, form in sorted(wanted):
        if form != sets.OWN[name] and f"{name}-{form}" not in state["packs"]:
            say(f"{name}: {form} is packed")
            state["packs"][f"{name}-{form}"] = sets.pack(name, form, work)
            save(work, state)


def check_place(args: argparse.Namespace, found: dict[str, Any], quota: Quota) -> None:
    """Ends the program if this machine or call cannot measure the cells that an earlier call drew."""
    settings = found["settings"]
    if settings["has_quota"] and quota.path is None:
        sys.exit("the cells were drawn where CPU quotas can be set, and here they cannot: --fresh draws others")
    if settings["cores"] != len(args.cpus):
        sys.exit(f"the cells were drawn for {settings['cores']} cores, and here are {len(args.cpus)}: --fresh draws others")
    if args.stand_in is None and any("gpu_part" in cell for cell in found["cells"]):
        sys.exit("cells with an emulated GPU were drawn: give --stand-in again, or --fresh to draw others")


def run_all(args: argparse.Namespace, found: dict[str, Any], work: Path, state: dict[str, Any], quota: Quota) -> bool:
    """Runs cells until none is pending. Returns false if --stop-after ended it earlier."""
    cells, seed, seconds = found["cells"], found["settings"]["seed"], found["settings"]["seconds"]
    start = time.monotonic()
    while todo := rounds.pending(cells, seed):
        for cell in todo:
            try:
                cell["runs"].append(rounds.measure(cell, work, args.cpus, seconds, quota, args.stand_in))
            except runner.Unavailable as error:
                sys.exit(f"{error}; call again to go on with this cell")
            save(work, state)
            done = sum(len(one["runs"]) for one in cells)
            say(f"{done}: {cell['name']}: {cell['runs'][-1]['samples_per_second']:.1f}")
            if args.stop_after and time.monotonic() - start > args.stop_after:
                return False
    return True


def finish(args: argparse.Namespace, found: dict[str, Any], state: dict[str, Any], proof: dict[str, str]) -> None:
    """Writes figures, tables and picture."""
    result = {**found, "packs": state["packs"], "predictions": proof}
    result["summary"] = summary.summarise(result["cells"])
    runner.write(args.out / state["name"], result, summary.table(result), picture.draw(result))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with imagenet_folder, cityscapes, hrstereo, nuscenes_png")
    parser.add_argument("--out", type=Path, required=True, help="figures, and the sets in its folder whatif")
    parser.add_argument("--results", type=Path, default=HERE.parent / "results", help="where predictions are committed")
    parser.add_argument("--name", help="of the machine, in names of files (default: its processor's)")
    parser.add_argument("--seed", type=int, default=1, help="draws the cells (default 1)")
    parser.add_argument("--cells", type=int, help="fewer counted cells than 72")
    parser.add_argument("--counted-only", dest="apart", action="store_false", help="leave out the cells that are not counted")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a run that are counted, at least (default 4)")
    parser.add_argument("--analysis-seconds", type=float, default=60.0, help="budget of the analysis of a set (default 60)")
    parser.add_argument("--stop-after", type=float, default=0, help="seconds of runs; exit status 75 says: call again")
    parser.add_argument("--alone", action="store_true", help="keep others' work away (root, control groups of version 1)")
    parser.add_argument("--stand-in", type=Path, help="folder tests/device of a build: cells with an emulated GPU")
    parser.add_argument("--no-commit", action="store_true", help="predict and measure in one call, to try the bench")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier call predicted and measured")
    args = parser.parse_args()
    args.cpus = sorted(os.sched_getaffinity(0))
    return args


def prepared(args: argparse.Namespace, work: Path, quota: Quota) -> tuple[dict[str, Any], bool]:
    """Returns the state of the runs, and whether an earlier call began it."""
    place = work / "state.json"
    if place.exists() and not args.fresh:
        return json.loads(place.read_text()), True
    state = begin(args, work, quota)
    save(work, state)
    return state, False


def main() -> int:
    args = arguments()
    work = args.out.resolve() / "whatif"
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # jobs and control groups end, too
    quota = Quota(args.alone)
    try:
        state, was_there = prepared(args, work, quota)
        file = Path(state["file"])
        if not was_there and not args.no_commit:
            print(f"predictions: {file}\ncommit this file, then call again to measure")
            return 0
        proof = predictions.check(file, state["sha256"], commit=not args.no_commit)
        found = json.loads(file.read_text())
        check_place(args, found, quota)
        for cell, runs in zip(found["cells"], state["runs"], strict=True):
            cell["runs"] = runs
        say_estimate(found["cells"], found["settings"]["seconds"], 60 if not state["packs"] else 0)
        pack_all(found, work, state)
        if not run_all(args, found, work, state, quota):
            return GO_ON
    finally:
        quota.remove()
    finish(args, found, state, proof)
    (work / "state.json").unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
