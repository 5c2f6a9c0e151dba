#!/usr/bin/env python3
"""Which optimisation pays when: each one on alone, one added after another, and each one left out of all.

    ladder.py --data DIR --work DIR --out DIR [--rounds 2] [--seconds 1.5] [--settings local,throttled]
    ladder.py --from FILE.json --markdown docs/internals/ladder.md

The ground (lowest configuration) has all of them off: a plain folder of JPEGs, one thread, one batch and one read ahead, random
order, no cache, and preparation in separate passes. The top has all of them on. Settings: "local" is this machine's disk, read past
the page cache; "throttled" is the loader's throttle of a disk that turns (200 MB/s, 4 ms for each request, one at a time). Sharing
is measured with two jobs, on the local disk. Placement needs a GPU. A round goes over all cells; figures are medians.

Writes ladder.json, ladder.md, ladder.svg, and with --markdown the table of the guide's page, between its two marks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "pages")]
import runner  # noqa: E402
import common  # noqa: E402
import picture  # noqa: E402

THROTTLE = (200e6, 0.004, 1)
SETTINGS = {"local": "this machine's disk, around the page cache",
            "throttled": "a disk that turns: 200 MB/s, 4 ms for each request, one at a time"}  # fmt: skip
# In the order in which they are added one after another: the one that binds most pipelines first.
STEPS = ("fused preparation", "threads", "read-ahead", "records", "page order", "form", "cache")
PAGES = {"page_samples": 16, "window_pages": 4}
AHEAD = 8  # batches
CACHE_PART = 0.5  # memory of the cache, as a part of the files' bytes
JOBS = 2
FIGURES = ("images_per_s", "cpu_s_per_1000", "peak_rss_mb", "read_kb_per_image", "foreign_cores")
CELL_LIMIT_S = 600
BEGIN, END = "<!-- ladder: begin -->", "<!-- ladder: end -->"


@dataclass(frozen=True)
class Data:
    files: Path
    plis: Path  # a folder of .pli files: PLI without a packed data set
    packed: Path
    packed_pli: Path
    nbytes: int  # bytes of the files
    samples: int

    def path(self, on: frozenset[str]) -> Path:
        if "form" in on:
            return self.packed_pli if "records" in on else self.plis
        return self.packed if "records" in on else self.files


def prepare(source: Path, work: Path, copies: int) -> Data:
    import pages
    import penstock as ps

    files = work / f"files-{copies}"
    work.mkdir(parents=True, exist_ok=True)
    common.made(files, lambda path: pages.make_folder(source, path, copies))
    packed = common.made(work / f"packed-{copies}.pst", lambda path: ps.pack(str(files), str(path), forms=("original",)))
    packed_pli = common.made(work / f"pli-{copies}.pst", lambda path: ps.pack(str(files), str(path), forms=("pli-jpeg",)))

    def unpack(path: Path) -> None:
        with ps.Dataset(packed_pli) as dataset:
            for i in range(len(dataset)):
                target = (path / dataset.name(i)).with_suffix(".pli")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(dataset.read(i, "image"))

    plis = common.made(work / f"plis-{copies}", unpack)
    found = [path for path in files.glob("*/*") if path.is_file()]
    return Data(files, plis, packed, packed_pli, sum(path.stat().st_size for path in found), len(found))


def options_of(on: frozenset[str], setting: str, data: Data, cores: int) -> dict[str, Any]:
    """Returns the Loader's arguments for a configuration in which these optimisations are on."""
    found: dict[str, Any] = {"num_workers": cores if "threads" in on else 0, "order": "shuffled", "cache": None}
    reading: dict[str, Any] = {} if "read-ahead" in on else {"storage": "threads", "io_threads": 1}
    found |= {"prefetch": AHEAD if "read-ahead" in on else 1, "reading": reading}
    if "page order" in on:
        found["order"] = PAGES
    if "cache" in on:
        found["cache"] = int(CACHE_PART * data.nbytes)
    if setting == "throttled":
        reading["throttle"] = THROTTLE
    else:
        reading["page_cache"] = "drop"
    return found


@dataclass(frozen=True)
class Cell:
    kind: str  # ground, top, alone, rung, left out, jobs, jobs shared, placement
    step: str
    setting: str
    on: frozenset[str]


def cells_of(settings: list[str], gpu: bool) -> list[Cell]:
    every, found = frozenset(STEPS), []
    for setting in settings:
        found += [Cell("ground", "", setting, frozenset()), Cell("top", "", setting, every)]
        found += [Cell("alone", step, setting, frozenset({step})) for step in STEPS]
        found += [Cell("rung", step, setting, frozenset(STEPS[: i + 1])) for i, step in enumerate(STEPS[:-1]) if i > 0]
        found += [Cell("left out", step, setting, every - {step}) for step in STEPS]
        if setting == "local":
            found += [Cell(kind, level, setting, on) for level, on in (("ground", frozenset({"fused preparation"})), ("top", every))
                      for kind in ("jobs", "jobs shared")]  # fmt: skip
        if gpu:
            found.append(Cell("placement", "placement", setting, every))
    return found


# Running -------------------------------------------------------------------------------------------------


def words_of(cell: Cell, data: Data, args: argparse.Namespace) -> dict[str, Any]:
    options = options_of(cell.on, cell.setting, data, args.cores)
    if cell.kind == "placement":
        options["device"] = "cuda"
    if cell.kind == "jobs shared":
        options["share"] = "ladder"
    return {"path": str(data.path(cell.on)), "options": options, "fused": "fused preparation" in cell.on, "seconds": args.seconds,
            "threads": args.cores if "threads" in cell.on else 0}  # fmt: skip


def run_alone(cell: Cell, data: Data, args: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(words_of(cell, data, args))]
    return runner.run_cell(command, dict(os.environ, OMP_NUM_THREADS="1"), CELL_LIMIT_S)


def rss_and_cpu(pid: int) -> tuple[float, float]:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024, sum(map(int, fields[11:15])) / runner.CLOCK_TICKS


def run_jobs(cell: Cell, data: Data, args: argparse.Namespace) -> dict[str, float]:
    """Runs several jobs at once. CPU seconds and images are totals over the jobs' whole lives, the host service included."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "host.sock"
        env = dict(os.environ, OMP_NUM_THREADS="1", PENSTOCK_SOCKET=str(socket))
        service = None
        rss = cpu = 0.0
        if cell.kind == "jobs shared":
            command = [str(Path(sys.executable).parent / "penstock"), "serve"]
            service = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            while not socket.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        try:
            command = [sys.executable, str(HERE / "cell.py"), json.dumps(words_of(cell, data, args))]
            jobs = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(JOBS)]
            found = [json.loads(job.communicate(timeout=CELL_LIMIT_S)[0].splitlines()[-1]) for job in jobs]
            if service is not None:
                rss, cpu = rss_and_cpu(service.pid)
        finally:
            if service is not None:
                service.terminate()
                service.wait()
    if cell.kind == "jobs shared" and not all(one["shared_batches"] for one in found):
        return {"absent": "the jobs did not share"}  # type: ignore[dict-item]
    images = sum(one["all_images"] for one in found)
    return {"images_per_s": sum(one["images_per_s"] for one in found),
            "cpu_s_per_1000": 1000 * (cpu + sum(one["all_cpu_s"] for one in found)) / images,
            "peak_rss_mb": rss + sum(one["peak_rss_mb"] for one in found),
            # The service's counter of bytes is for the whole group, and each job reports it: count it once.
            "read_kb_per_image": max(one["group_read_kb"] for one in found) / images if service is not None
            else statistics.mean(one["read_kb_per_image"] for one in found),
            "foreign_cores": 0.0}  # fmt: skip


def run_cells(cells: list[Cell], data: Data, args: argparse.Namespace) -> list[dict[str, Any]]:
    import pages

    runs: dict[Cell, list[dict[str, Any]]] = {cell: [] for cell in cells}
    for i in range(args.rounds):
        for cell in cells:
            pages.drop(data.path(cell.on))
            found = run_jobs(cell, data, args) if cell.kind.startswith("jobs") else run_alone(cell, data, args)
            if "absent" in found:
                sys.exit(f"{cell.setting}, {cell.kind} {cell.step}: {found['absent']}")
            runs[cell].append(found)
            print(f"round {i + 1}: {cell.setting}, {cell.kind} {cell.step}: {found['images_per_s']:.0f} images/s", file=sys.stderr,
                  flush=True)  # fmt: skip
    rows = []
    for cell, found in runs.items():
        rows.append({"kind": cell.kind, "step": cell.step, "setting": cell.setting,
                     "stored_mb": runner.stored_mb(data.path(cell.on)),
                     **{name: statistics.median(one[name] for one in found) for name in FIGURES},
                     "rates": [one["images_per_s"] for one in found]})  # fmt: skip
    return rows


# Tables --------------------------------------------------------------------------------------------------


def one(rows: list[dict[str, Any]], setting: str, kind: str, step: str = "") -> dict[str, Any] | None:
    found = [row for row in rows if (row["setting"], row["kind"], row["step"]) == (setting, kind, step)]
    return found[0] if found else None


def gain(row: dict[str, Any] | None, other: dict[str, Any] | None) -> float | None:
    """Returns how many times as fast a row is as another row."""
    return row["images_per_s"] / other["images_per_s"] if row and other else None


def gains(rows: list[dict[str, Any]], setting: str) -> dict[str, tuple[float | None, float | None]]:
    """Returns for each optimisation its gain alone (added to the ground) and its gain when added last. For runs of several jobs:
    the gain of sharing.
    """
    ground, top = one(rows, setting, "ground"), one(rows, setting, "top")
    found = {step: (gain(one(rows, setting, "alone", step), ground), gain(top, one(rows, setting, "left out", step)))
             for step in STEPS}  # fmt: skip
    if one(rows, setting, "jobs", "top"):
        found[f"share, {JOBS} jobs"] = tuple(  # type: ignore[assignment]
            gain(one(rows, setting, "jobs shared", level), one(rows, setting, "jobs", level)) for level in ("ground", "top"))
    if placed := one(rows, setting, "placement", "placement"):
        found["placement"] = (None, gain(placed, top))
    return found


def rungs(rows: list[dict[str, Any]], setting: str) -> dict[str, dict[str, Any] | None]:
    """Returns for each optimisation the row in which it and all optimisations before it in the list are on."""
    first = {STEPS[0]: one(rows, setting, "alone", STEPS[0]), STEPS[-1]: one(rows, setting, "top")}
    return {step: first[step] if step in first else one(rows, setting, "rung", step) for step in STEPS}


def rung_words(rows: list[dict[str, Any]], setting: str, step: str) -> str:
    """Returns the images/s of a rung, and how many times as fast it is as the rung below; "" if the row is not a rung."""
    if step not in STEPS:
        return ""
    found = [one(rows, setting, "ground"), *rungs(rows, setting).values()]
    below, row = found[STEPS.index(step)], found[STEPS.index(step) + 1]
    return f"{row['images_per_s']:.0f} ({times(gain(row, below))})" if row else ""


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"


def changes(row: dict[str, Any] | None, other: dict[str, Any] | None, name: str, digits: int) -> str:
    """Returns "before -> after" of a quantity that an optimisation changes."""
    return "" if not row or not other else f"{other[name]:.{digits}f} -> {row[name]:.{digits}f}"


def gain_table(rows: list[dict[str, Any]], setting: str) -> list[str]:
    """Returns the table of a setting: the changes by each optimisation when it is the only one, and when it is added last."""
    ground, top = one(rows, setting, "ground"), one(rows, setting, "top")
    assert ground and top
    out = [f"**{setting}**: {SETTINGS[setting]}. All off: {ground['images_per_s']:.0f} images/s, all on: {top['images_per_s']:.0f} "
           f"({top['images_per_s'] / ground['images_per_s']:.1f} x)", "",
           *runner.heads("", "alone", "one after another: images/s", "as the last one", "CPU s for 1000 images, alone",
                         "as the last one", "most memory, MB", "stored, MB", "read, kB/image")]  # fmt: skip
    for step, (alone, last) in gains(rows, setting).items():
        if step.startswith("share"):
            a, b = (one(rows, setting, kind, "ground") for kind in ("jobs shared", "jobs"))
            c, d = (one(rows, setting, kind, "top") for kind in ("jobs shared", "jobs"))
        elif step == "placement":
            a, b, c, d = None, None, one(rows, setting, "placement", "placement"), top
        else:
            a, b, c, d = one(rows, setting, "alone", step), ground, top, one(rows, setting, "left out", step)
        words = (step, times(alone), rung_words(rows, setting, step), times(last), changes(a, b, "cpu_s_per_1000", 2),
                 changes(c, d, "cpu_s_per_1000", 2), changes(c, d, "peak_rss_mb", 0), changes(c, d, "stored_mb", 1),
                 changes(c, d, "read_kb_per_image", 1))  # fmt: skip
        out.append(f"| {' | '.join(words)} |")
    if "placement" not in gains(rows, setting):
        out.append("| placement |  |  | not measured: no GPU here |  |  |  |  |  |")
    return out


def text_of(result: dict[str, Any]) -> str:
    about = result["machine"]
    out = [f"{about['cpu']}, {result['cores']} cores, {about['date']}, commit {about['commit']}; {result['samples']} ImageNet "
           f"JPEGs of {result['nbytes'] / 1e6:.0f} MB, RandomResizedCrop(224); median of {result['rounds']} rounds. Memory, "
           "bytes stored and bytes read are those of the last step, without it -> with it.", ""]  # fmt: skip
    for setting in dict.fromkeys(row["setting"] for row in result["rows"]):
        out += [*gain_table(result["rows"], setting), ""]
    return "\n".join(out)


def put_in(page: Path, text: str) -> None:
    """Replaces the text between the two marks of the page."""
    whole = page.read_text()
    if BEGIN not in whole or END not in whole:
        sys.exit(f"{page}: the marks {BEGIN} and {END} are not there")
    first, rest = whole.split(BEGIN, 1)
    page.write_text(f"{first}{BEGIN}\n{text.strip()}\n{END}{rest.split(END, 1)[1]}")


def measure(args: argparse.Namespace) -> dict[str, Any]:
    import penstock as ps

    data = prepare(args.data / "imagenet_folder", args.work, args.copies)
    settings = runner.chosen(args.settings, list(SETTINGS))
    cells = cells_of(settings, ps.cuda.is_available())
    return {"bench": "ladder", "machine": runner.machine(), "cores": args.cores, "rounds": args.rounds, "seconds": args.seconds,
            "samples": data.samples, "nbytes": data.nbytes, "throttle": THROTTLE, "gpu": ps.cuda.reason() or "measured",
            "rows": run_cells(cells, data, args)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that has imagenet_folder")
    parser.add_argument("--work", type=Path, help="data sets are kept there")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--settings", default="*")
    parser.add_argument("--copies", type=int, default=1, help="of each image (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a cell, after its first epoch (%(default)s)")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--from", dest="found", type=Path, help="figures of an earlier run, instead of measuring")
    parser.add_argument("--markdown", type=Path, help="page of the guide whose table is written anew")
    args = parser.parse_args()
    if args.found:
        result = json.loads(args.found.read_text())
        print(text_of(result))
    else:
        if not (args.data and args.work and args.out):
            parser.error("--data, --work and --out are needed, or --from")
        result = measure(args)
        panels = {name: gains(result["rows"], name) for name in dict.fromkeys(row["setting"] for row in result["rows"])}
        runner.write(args.out / "ladder", result, text_of(result), picture.draw(panels, result["machine"]))
    if args.markdown:
        put_in(args.markdown, text_of(result))


if __name__ == "__main__":
    main()
