#!/usr/bin/env python3
"""Predictions of `penstock whatif` against runs: `make bench-whatif`.

    1. Each form is analysed (penstock.analyze), with all cores and without a step.
    2. Every cell is predicted from these reports, and the predictions are written to FILE.predictions.json before any cell runs.
    3. Each cell runs in turns with the others, twice; cells whose repeats differ by more than 3 % run again, up to five times.
       None is dropped.

Cells: cores by CPU quota, 1 to 32 workers that sleep, storage rates by the loader's throttle, cache 0 to 100 %, accelerators by a
timed step, forms, 1 to 4 jobs; the GPU's part 0 to 1 on an emulated GPU (--stand-in). The run can be stopped (--stop-after)
and goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hybrid
import picture

HERE = Path(__file__).resolve().parent
FORMS = ("jpeg", "pli-jpeg", "png", "pli", "raw")
BATCH, PREFETCH, N_IMAGES = 16, 2, 128
AGAIN = 0.03  # repeats that differ by more are repeated
MOST_RUNS = 5
GO_ON = 75  # exit status of --stop-after


# Data and costs -----------------------------------------------------------------------------------------


def prepare(images: Path, folder: Path) -> None:
    """Makes a data set of the same photographs in each form."""
    import numpy as np
    from PIL import Image as PilImage

    import penstock as ps
    from penstock import pli

    # Files of middling size: a few large ones would make each window's mean another one.
    files = sorted(images.rglob("*.JPEG"), key=lambda file: (file.stat().st_size, file.name))
    files = files[(len(files) - N_IMAGES) // 2 :][:N_IMAGES]
    folder.mkdir(parents=True, exist_ok=True)
    for form in FORMS:
        path = folder / f"{form}.pst"
        if path.exists():
            shutil.rmtree(path)
        with ps.Writer(path, {"image": ps.Image(form)}) as writer:
            for file in files:
                data = file.read_bytes()
                value: Any = data
                if form in ("png", "pli", "raw"):
                    value = np.asarray(PilImage.open(io.BytesIO(data)).convert("RGB"))
                if form == "png":
                    buffer = io.BytesIO()
                    PilImage.fromarray(value).save(buffer, "PNG", compress_level=6)
                    value = buffer.getvalue()
                elif form == "pli":
                    value = pli.encode(value, "small")
                writer.write({"image": value}, name=file.stem)


def analyse_hybrid(folder: Path, seconds: float, stand_in: Path) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "hybrid.py"), str(folder / "pli-jpeg.pst"), str(BATCH), str(PREFETCH), str(seconds)]
    done = subprocess.run(command, env=hybrid.environment(stand_in), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the emulated GPU could not be analysed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def analyse(folder: Path, seconds: float) -> dict[str, Any]:
    """Returns the reports by form, and one of a torch DataLoader whose samples spin and sleep."""
    import torch

    import known
    import penstock as ps
    from penstock import transforms as T

    chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    reports = {}
    for form in FORMS:
        loader = ps.Loader(folder / f"{form}.pst", BATCH, shuffle=True, num_workers=2, prefetch=PREFETCH, transforms=chain,
                           output="numpy")  # fmt: skip
        reports[form] = ps.analyze(loader, budget=seconds, forms=()).data
    sleeping = torch.utils.data.DataLoader(known.Known(**SLEEPING), batch_size=SLEEPING_BATCH, num_workers=2)
    reports["sleeping"] = ps.analyze(sleeping, budget=seconds, forms=()).data
    return reports


# Cells --------------------------------------------------------------------------------------------------

SLEEPING, SLEEPING_BATCH = {"spin": 0.0002, "sleep": 0.02}, 4


def cells_of(reports: dict[str, Any], has_quota: bool) -> list[dict[str, Any]]:
    """Returns all cells: a group, a name, what is asked of the model, and what is run."""
    found: list[dict[str, Any]] = []

    def add(group: str, name: str, report: str, question: dict[str, Any], rate: float = 0, **run: Any) -> None:
        found.append({"group": group, "name": name, "report": report, "question": question, "rate": rate, "run": run})

    full = 4 * max(reports[form]["subject"]["nbytes"] for form in FORMS) + 1
    for form in ("jpeg", "pli-jpeg"):
        for cores in (0.5, 1, 1.5, 2) if has_quota else ():
            add("cores", f"{form}, {cores} cores", form, {"cores": cores, "workers": 2, "page_cache": full}, cores=cores)
    for form in FORMS:
        add("form", form, form, {"page_cache": full})
    for megabytes in (10, 20, 40, 80):
        add("storage", f"jpeg, {megabytes} MB/s", "jpeg", {"storage": megabytes * 1e6, "page_cache": 0}, throttle=megabytes * 1e6)
    add("storage", "pli-jpeg, 20 MB/s", "pli-jpeg", {"storage": 20e6, "page_cache": 0}, throttle=20e6)
    add("storage", "raw, 80 MB/s", "raw", {"storage": 80e6, "page_cache": 0}, throttle=80e6)
    nbytes = reports["jpeg"]["subject"]["nbytes"]
    for percent in (0, 25, 50, 75, 100):
        cache = int(nbytes * percent / 100)
        question = {"storage": 20e6, "page_cache": 0, "cache": cache}
        add("cache", f"jpeg, 20 MB/s, {percent} %", "jpeg", question, throttle=20e6, cache=cache)
    for form, rates in (("jpeg", (200, 400, 800)), ("pli-jpeg", (400, 800, 1600))):
        for rate in rates:
            add("accelerator", f"{form}, takes {rate}/s", form, {"page_cache": full}, rate=rate)
    for jobs in (1, 2, 3, 4):
        add("jobs", f"pli-jpeg, {jobs} jobs", "pli-jpeg", {"jobs": jobs, "page_cache": full}, jobs=jobs)
    add("jobs", "jpeg, 2 jobs that take 150/s", "jpeg", {"jobs": 2, "page_cache": full}, rate=150, jobs=2)
    for share in (0, 0.25, 0.5, 0.75, 1) if "hybrid" in reports else ():
        question = {"gpu_part": share, "page_cache": full}
        add("hybrid, emulated", f"emulated GPU, part {share}", "hybrid", question, gpu_part=share)
    for workers in (1, 2, 4, 8, 16, 32):
        add("workers", f"sleeping, {workers} workers", "sleeping", {"workers": workers}, torch=workers)
    return found


def predict(cells: list[dict[str, Any]], reports: dict[str, Any]) -> None:
    from penstock.report import Report

    for cell in cells:
        data = json.loads(json.dumps(reports[cell["report"]]))
        if cell["rate"]:
            data["accelerator"].update(step_seconds=data["subject"]["batch_size"] / cell["rate"], title="accelerator")
        answer = Report(data).whatif(**cell["question"])
        cell["predicted"] = {
            "samples_per_second": answer.samples_per_second, "low": answer.low, "high": answer.high, "binding": answer.binding,
            "next": answer.next, "extrapolated": answer.extrapolated,
        }  # fmt: skip


# Running ------------------------------------------------------------------------------------------------


class Quota:
    """Control groups of version 1 or 2, removed at the end: one for this program, which may get most of the CPU time where others
    work too (alone), and in it one with a CPU quota for cells.
    """

    def __init__(self, alone: bool) -> None:
        self.path: Path | None = None
        for root in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")):
            place = root / f"penstock-whatif-{os.getpid()}"
            try:
                place.mkdir()
            except OSError:
                continue
            if (place / "cpu.cfs_quota_us").exists():
                self.root, self.top, self.path = root, place, place / "quota"
                self.path.mkdir()
                if alone:
                    (place / "cpu.shares").write_text("262144")
                    (place / "cgroup.procs").write_text(str(os.getpid()))
                return
            if (place / "cpu.max").exists():  # no processes in inner groups: the quota's alone
                self.root, self.top, self.path = root, place, place
                return
            place.rmdir()

    def set(self, cores: float) -> str:
        assert self.path is not None
        # A short period: threads that are stopped until its end make batches that are late.
        if (self.path / "cpu.max").exists():
            (self.path / "cpu.max").write_text(f"{int(cores * 20000)} 20000")
        else:
            (self.path / "cpu.cfs_period_us").write_text("20000")
            (self.path / "cpu.cfs_quota_us").write_text(str(int(cores * 20000)))
        return str(self.path)

    def remove(self) -> None:
        if self.path is None:
            return
        if self.top != self.path:
            (self.root / "cgroup.procs").write_text(str(os.getpid()))
            self.path.rmdir()
        self.top.rmdir()


def measure(cell: dict[str, Any], folder: Path, seconds: float, quota: Quota, stand_in: Path | None) -> dict[str, float]:
    from penstock.stalls.measure.machine import OtherWork

    how = cell["run"]
    words: dict[str, Any] = {
        "data": str(folder / f"{'pli-jpeg' if 'gpu_part' in how else cell['report']}.pst"), "seconds": seconds,
        "batch_size": SLEEPING_BATCH if "torch" in how else BATCH,
        "workers": 2, "prefetch": PREFETCH, "epoch": N_IMAGES // BATCH, "throttle": how.get("throttle", 0),
        "cache": how.get("cache", 0), "rate": cell["rate"],
        "cgroup": quota.set(how["cores"]) if "cores" in how else "",
    }  # fmt: skip
    if "torch" in how:
        words["torch"] = {"workers": how["torch"], "costs": SLEEPING}
    environment = None
    if "gpu_part" in how and stand_in is not None:
        words["gpu"] = hybrid.on_gpu(how["gpu_part"])
        environment = hybrid.environment(stand_in)
    if how.get("jobs", 1) > 1:
        words["window"] = [time.perf_counter() + 2.5, time.perf_counter() + 2.5 + seconds]
    others = OtherWork()
    started = [
        subprocess.Popen([sys.executable, str(HERE / "cell.py"), json.dumps({**words, "seed": i})],
                         stdout=subprocess.PIPE, text=True, env=environment)  # fmt: skip
        for i in range(how.get("jobs", 1))
    ]
    outputs = [process.communicate(timeout=300)[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"cell {cell['name']} failed")
    found = [json.loads(output) for output in outputs]
    return {"samples_per_second": sum(f["samples_per_second"] for f in found), "other_cores": round(others.cores(), 2)}


def differs(cell: dict[str, Any]) -> float:
    rates = [run["samples_per_second"] for run in cell["runs"]]
    return (max(rates) - min(rates)) / statistics.median(rates) if len(rates) > 1 else 1.0


def pending(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fewest = min(len(cell["runs"]) for cell in cells)
    if fewest < 2:
        return [cell for cell in cells if len(cell["runs"]) == fewest]
    return [cell for cell in cells if differs(cell) > AGAIN and len(cell["runs"]) < MOST_RUNS]


# Results ------------------------------------------------------------------------------------------------


def summarise(cells: list[dict[str, Any]]) -> dict[str, Any]:
    errors = []
    for cell in cells:
        cell["measured"] = statistics.median(run["samples_per_second"] for run in cell["runs"])
        cell["error"] = cell["predicted"]["samples_per_second"] / cell["measured"] - 1
        cell["repeats_differ"] = differs(cell)
        errors.append(abs(cell["error"]))
    return {"median_error": statistics.median(errors), "worst_error": max(errors), "n_cells": len(cells),
            "unsteady": [c["name"] for c in cells if c["repeats_differ"] > AGAIN],
            "in_band": sum(c["predicted"]["low"] <= c["measured"] <= c["predicted"]["high"] for c in cells)}  # fmt: skip


def table(cells: list[dict[str, Any]], summary: dict[str, Any]) -> str:
    lines = [f"{'cell':32s} {'predicted':>10s} {'measured':>10s} {'error':>9s} {'repeats':>8s} {'runs':>5s}  limited by"]
    for cell in cells:
        predicted = cell["predicted"]
        beyond = " (beyond what was measured)" if predicted["extrapolated"] else ""
        lines.append(
            f"{cell['name']:32s} {predicted['samples_per_second']:10.1f} {cell['measured']:10.1f} "
            f"{100 * cell['error']:+7.1f} % "
            f"{100 * cell['repeats_differ']:6.1f} % {len(cell['runs']):5d}  "
            f"{predicted['binding']}{beyond}"
        )
    lines.append(
        f"median error {100 * summary['median_error']:.1f} %, worst {100 * summary['worst_error']:.1f} %, "
        f"{summary['n_cells']} cells, {summary['in_band']} within their band; "
        f"repeats still differ by more than 3 %: {len(summary['unsteady'])}"
    )
    return "\n".join(lines)


def begin(arguments: argparse.Namespace, work: Path, has_quota: bool) -> dict[str, Any]:
    """Analyses and predicts, or goes on with what an earlier call began."""
    state = work / "state.json"
    if state.exists() and not arguments.fresh:
        found: dict[str, Any] = json.loads(state.read_text())
        return found
    prepare(arguments.images, work)
    reports = analyse(work, arguments.analysis_seconds)
    if arguments.stand_in is not None:
        reports["hybrid"] = analyse_hybrid(work, arguments.analysis_seconds, arguments.stand_in)
    for report in reports.values():  # paths of this machine do not belong into figures
        report["subject"]["path"] = Path(report["subject"]["path"]).name
    cells = cells_of(reports, has_quota)
    predict(cells, reports)
    (arguments.out / "whatif.predictions.json").write_text(json.dumps({"cells": cells, "reports": reports}, indent=1))
    for cell in cells:
        cell["runs"] = []
    return {"cells": cells, "date": datetime.date.today().isoformat(), "machine": reports["jpeg"]["machine"],
            "has_quota": has_quota, "reports": reports}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a cell")
    parser.add_argument("--analysis-seconds", type=float, default=10.0, help="of the analysis of a form")
    parser.add_argument("--stop-after", type=float, default=0, help="seconds; exit status 75 says that it is to be called again")
    parser.add_argument("--alone", action="store_true", help="keep others' work away (root, control groups of version 1)")
    parser.add_argument("--stand-in", type=Path, help="folder tests/device of a build: cells with an emulated GPU")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier call has done")
    arguments = parser.parse_args()
    start = time.monotonic()
    arguments.out.mkdir(parents=True, exist_ok=True)
    work = arguments.out / "whatif"
    quota = Quota(arguments.alone)
    try:
        state = begin(arguments, work, quota.path is not None)
        while todo := pending(state["cells"]):
            for cell in todo:
                cell["runs"].append(measure(cell, work, arguments.seconds, quota, arguments.stand_in))
                print(f"{cell['name']}: {cell['runs'][-1]['samples_per_second']:.1f}", file=sys.stderr, flush=True)
                (work / "state.json").write_text(json.dumps(state))
                if arguments.stop_after and time.monotonic() - start > arguments.stop_after:
                    return GO_ON
    finally:
        quota.remove()
    summary = summarise(state["cells"])
    others = [run["other_cores"] for cell in state["cells"] for run in cell["runs"]]
    summary["other_cores_median"], summary["other_cores_most"] = statistics.median(others), max(others)
    result = {**state, "summary": summary, "python": platform.python_version(), "seconds": arguments.seconds}
    (arguments.out / "whatif.json").write_text(json.dumps(result, indent=1))
    (arguments.out / "whatif.svg").write_text(picture.draw(state["cells"], summary))
    text = table(state["cells"], summary)
    if not state["has_quota"]:
        text += "\ncells with a CPU quota are left out: no control group can be made here"
    if "hybrid" not in state["reports"]:
        text += "\ncells with an emulated GPU are left out: --stand-in was not given"
    print(text)
    print(f"other processes used {summary['other_cores_median']:.2f} cores (median), at most {summary['other_cores_most']:.2f}")
    (work / "state.json").unlink()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
