"""report.py: n jobs on one host, by each way to feed them. Prints a table; writes share-<date>.json, .md and .svg.

    report.py --images DIR --build DIR --out DIR [--jobs 1,2,4,8] [--kinds LIST] [--repeats 5] [--short] ...
    report.py --from FILE.json --out DIR

The set: COPIES names (hard links) for each file of DIR, so that no window has many ends of epochs. A cell is n jobs of one kind,
each a process that only takes batches; cell.py counts what they take in a window. All kinds are run for a number of
jobs, then the next number, and then all again, --repeats times; figures are medians. A cell that other work disturbed (it had
more than FOREIGN of a core) is run again, at most --retries times. Before anything is timed each pipeline's pixels are compared
with Pillow's; then each cell checks its first batches: Penstock's are bit-identical to those of a lone loader.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import runner  # noqa: E402
import environments  # noqa: E402
import kinds  # noqa: E402
import picture  # noqa: E402

COPIES = 32
FOREIGN = 0.1
CELL_LIMIT_S = 900
MEDIANS = ("images_per_s", "slowest_job", "fastest_job", "cpu_s_per_image", "cores_used", "read_per_image", "foreign", "pss_mb",
           "work")
# A program that compares one pipeline of bench/loader with Pillow. It runs in the pipeline's own environment.
CHECK = ("import sys, json, importlib, pathlib, measure, common;"
         "work = common.Work('share', pathlib.Path(sys.argv[2]), 64, 224, True, True);"
         "print(json.dumps(measure.check(importlib.import_module('peer_' + sys.argv[1]), work, work.root)))")


def make_set(images: Path, root: Path) -> dict:
    sources = [path for path in sorted(images.glob("*/*")) if path.suffix.lower() in (".jpeg", ".jpg")]
    for source in sources:
        first = root / source.parent.name / source.name
        if first.exists():
            continue
        first.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, first)
        for copy in range(1, COPIES):
            os.link(first, first.with_stem(f"{first.stem}-{copy:02d}"))
    return {"files": len(sources) * COPIES, "different": len(sources), "mean_nbytes":
            sum(path.stat().st_size for path in sources) / max(1, len(sources))}


def prepare(args) -> dict[str, str]:
    """Makes the environments. Returns those that could not be made, with the reasons."""
    return {} if args.no_install else environments.install(args.build, (kinds.KINDS[kind].environment for kind in args.kinds))


def variables(args, name: str) -> dict[str, str]:
    return environments.variables(args.build, name, PYTHONPATH=f"{HERE.parent}:{HERE.parent / 'loader'}")


def check_pixels(args, pipeline: str, name: str) -> dict:
    python = environments.python_of(args.build, name)
    done = subprocess.run([str(python), "-c", CHECK, pipeline, str(args.root)], capture_output=True, text=True,
                          env=variables(args, name), check=False)
    if done.returncode:
        sys.exit(f"{pipeline}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def command_of(args, kind: str, n_jobs: int, *more: str) -> list[str]:
    python = environments.python_of(args.build, kinds.KINDS[kind].environment)
    command = [str(python), str(HERE / "cell.py"), kind, str(args.root), str(n_jobs), "--build", str(args.build),
               "--seconds", str(args.seconds), f"--serve={args.serve}", *(["--later"] if args.later else []), *more]
    if kinds.KINDS[kind].network:
        user = [] if os.geteuid() == 0 else ["-r"]
        command = ["unshare", *user, "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "cell", *command]
    return [*shlex.split(args.wrap), *command]


def run_cell(args, kind: str, n_jobs: int, *more: str) -> dict:
    return runner.run_cell(command_of(args, kind, n_jobs, *more), variables(args, kinds.KINDS[kind].environment), CELL_LIMIT_S)


def check_jobs(kind: str, found: dict, lone: list[str]) -> str | None:
    """Compares the jobs' first batches. Returns a text if they are wrong, else None."""
    hashes = [report.get("hashes") for report in found["jobs"] if "late" not in report]
    same = kinds.KINDS[kind].same
    if same == "lone" and any(each != lone for each in hashes):
        return "a job's first batches are not those of a lone loader"
    if same == "jobs" and any(each != hashes[0] for each in hashes):
        return "the jobs' first batches differ"
    return None


def add_work(found: dict, mean_nbytes: float) -> None:
    """Adds `work`: images that were prepared for each image that one job took; 1 if everything is shared, n if nothing is. If a
    kind counts the bytes that it read, they replace the kernel's count. If it does not count images, their number is computed from
    the bytes."""
    told = [found["service"]] if found["service"] else found["jobs"]
    taken = [report["images"] for report in found["jobs"] if "images" in report]
    group = [report["group_prepared"] for report in found["jobs"] if "group_prepared" in report]
    if group:  # each image is one read of its file
        alone = sum(report["alone"] for report in found["jobs"] if "alone" in report)
        prepared = max(group) + alone * 64
        found.update(work=prepared / statistics.mean(taken), read_per_image=prepared * mean_nbytes / sum(taken))
        return
    if taken and all("nbytes" in report for report in told):
        found["read_per_image"] = sum(report["nbytes"] for report in told) / sum(taken)
    if taken and all("prepared" in report for report in told):
        found["work"] = sum(report["prepared"] for report in told) / statistics.mean(taken)
    elif taken:
        found["work"] = found["read_per_image"] * found["n"] / mean_nbytes


def measure_cell(args, kind: str, n_jobs: int, lone: list[str]) -> dict:
    for attempt in range(args.retries + 1):  # noqa: B007  (told at the end)
        found = run_cell(args, kind, n_jobs)
        if "failed" in found or "absent" in found:
            break
        wrong = check_jobs(kind, found, lone)
        if wrong:
            found = {"failed": wrong}
            break
        found["n"] = n_jobs
        add_work(found, args.mean_nbytes)
        if found["foreign"] <= FOREIGN:
            break
    shown = {name: round(found[name], 4) for name in MEDIANS if name in found}
    found["commit"] = args.commit
    print(kind, n_jobs, json.dumps(shown or found), file=sys.stderr, flush=True)
    return {"kind": kind, "n_jobs": n_jobs, "attempts": attempt + 1, **found}


def count_epoch(args, n_jobs: int) -> dict:
    """Runs one epoch in each job, to its end. Counts the images and bytes that were prepared."""
    found = run_cell(args, "penstock_share", n_jobs, "--epoch")
    print("epoch", n_jobs, json.dumps(found), file=sys.stderr, flush=True)
    return {"n_jobs": n_jobs, **found}


def lone_hashes(args) -> list[str]:
    """Returns the hashes of the first batches of a lone Penstock loader."""
    lone = run_cell(args, "penstock_alone", 1)
    if "jobs" not in lone:
        sys.exit(f"a lone Penstock loader: {lone}")
    return lone["jobs"][0]["hashes"]


def measure_all(args) -> dict:
    made = make_set(args.images, args.root)
    args.mean_nbytes, args.commit = made["mean_nbytes"], runner.machine()["commit"]
    absent = prepare(args)
    pixels = {kind.pipeline: check_pixels(args, kind.pipeline, kind.environment)
              for name, kind in kinds.KINDS.items() if name in args.kinds and kind.environment not in absent}
    lone = lone_hashes(args)
    cells = []
    for _ in range(args.repeats):
        for n_jobs in args.jobs:
            for kind in args.kinds:
                name = kinds.KINDS[kind].environment
                cells.append({"kind": kind, "n_jobs": n_jobs, "absent": f"did not install: {absent[name]}"} if name in absent
                             else measure_cell(args, kind, n_jobs, lone))
    epochs = [count_epoch(args, n) for n in args.jobs] if "penstock_share" in args.kinds else []
    results = {"bench": "share", "machine": runner.machine(), "set": made, "pixels": pixels, "repeats": args.repeats,
               "seconds": args.seconds, "threads": len(os.sched_getaffinity(0)), "cells": cells, "epochs": epochs}
    return merged(json.loads(args.append.read_text()), results) if args.append and args.append.exists() else results


def merged(old: dict, new: dict) -> dict:
    """Adds the cells of a run to those of an earlier run of the same machine, set and window. Each cell keeps its commit."""
    if (old["machine"]["cpu"], old["seconds"], old["set"]) != (new["machine"]["cpu"], new["seconds"], new["set"]):
        sys.exit("--append: another machine, window or set")
    cells = old["cells"] + new["cells"]
    most = max(sum(cell["kind"] == kind and cell["n_jobs"] == n for cell in cells)
               for kind, n in {(cell["kind"], cell["n_jobs"]) for cell in cells})
    return {**new, "cells": cells, "epochs": old["epochs"] + new["epochs"], "pixels": {**old["pixels"], **new["pixels"]},
            "repeats": most}


def summed(results: dict) -> list[dict]:
    """Returns a row for each kind and number of jobs: medians, lowest and highest rate, failures."""
    lines = []
    for kind in kinds.KINDS:
        for n_jobs in dict.fromkeys(cell["n_jobs"] for cell in results["cells"]):
            cells = [cell for cell in results["cells"] if cell["kind"] == kind and cell["n_jobs"] == n_jobs]
            good = [cell for cell in cells if "images_per_s" in cell]
            if not cells:
                continue
            failures = [cell.get("failed") or cell.get("absent") for cell in cells if cell not in good]
            line = {"kind": kind, "n_jobs": n_jobs, "n": len(good), "failures": failures}
            for name in MEDIANS:
                values = [cell[name] for cell in good if name in cell]
                if values:
                    line[name] = statistics.median(values)
            if good:
                rates = [cell["images_per_s"] for cell in good]
                line.update(name=good[0]["jobs"][0].get("name", kind), low=min(rates), high=max(rates),
                            disturbed=sum(cell["foreign"] > FOREIGN for cell in good))
            lines.append(line)
    return lines


def row(line: dict, first: dict | None) -> str:
    name = line.get("name", line["kind"])
    if "images_per_s" not in line:
        return runner.absent(name, str(line["n_jobs"]), line["failures"][0], n=9)
    times = f"{line['images_per_s'] / first['images_per_s']:.2f}" if first and "images_per_s" in first else "-"
    work = f"{line['work']:.2f}" if "work" in line else "-"
    note = f" ({len(line['failures'])} of {line['n'] + len(line['failures'])} failed)" if line["failures"] else ""
    rate, cpu = f"{line['images_per_s']:.0f} ({line['low']:.0f}-{line['high']:.0f})", line["cpu_s_per_image"]
    saved = f"{first['cpu_s_per_image'] / cpu:.2f}" if times != "-" else "-"
    return (f"| {name}{note} | {line['n_jobs']} | {rate} | {times} | {cpu * 1e3:.2f} | {saved} | {work} | "
            f"{line['read_per_image'] / 1e3:.0f} | {line['pss_mb']:.0f} |")


def table(results: dict) -> str:
    machine, made, lines = results["machine"], results["set"], summed(results)
    short = " Short form: fewer than 5 repeats." if results["repeats"] < 5 else ""
    out = [f"{machine['cpu']}, {results['threads']} cores; commit {machine['commit']}; {machine['date']}. Jobs that only take "
           f"batches of 64; {made['different']} ImageNet JPEGs under {made['files']} names, in the page cache; "
           "RandomResizedCrop(224), flip, normalise, float32 NCHW. "
           f"Medians of {results['repeats']} windows of {results['seconds']:g} s.{short}",
           "Aggregate: images per second of all jobs together (lowest-highest). x one job: relative to one job of the same kind. "
           "CPU ms: of all processes, per image taken; x one job: how many more images a CPU second gives, which other work on "
           "the machine changes less. Prepared: images prepared for each image that one job takes. kB read: per image taken. MB: "
           "memory of all processes.", "",
           *runner.heads("", "jobs", "aggregate", "x one job", "CPU ms", "x one job", "prepared", "kB read", "MB")]
    for line in lines:
        first = next((other for other in lines if other["kind"] == line["kind"] and other["n_jobs"] == 1), None)
        out.append(row(line, first))
    return "\n".join(out) + "\n"


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "images", "build")
    parser.add_argument("--jobs", default="1,2,4,8")
    parser.add_argument("--kinds", default=",".join(kinds.KINDS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="3 repeats")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a window")
    parser.add_argument("--retries", type=int, default=2)
    parser.add_argument("--serve", default="", help="options of `penstock serve`")
    parser.add_argument("--later", action="store_true", help="windows begin after the first epoch, which fills the service's cache")
    parser.add_argument("--append", type=Path, metavar="FILE.json", help="add the cells to those of an earlier run")
    parser.add_argument("--no-install", action="store_true", help="the environments are as they should be")
    parser.add_argument("--wrap", default="", help="a command before each cell's, such as a lock of the machine")
    args = runner.parsed(parser)
    args.kinds, args.jobs = runner.chosen(args.kinds, list(kinds.KINDS)), runner.by_commas(args.jobs)
    args.repeats = 3 if args.short else args.repeats
    args.root = args.build and args.build / "data" / "share"
    return args


def main() -> None:
    runner.finish(arguments(), "share", measure_all, table, lambda results: picture.draw(results, summed(results)))


if __name__ == "__main__":
    main()
