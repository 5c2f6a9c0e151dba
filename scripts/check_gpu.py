#!/usr/bin/env python3
"""Builds, tests and measures Penstock on the GPU of this machine, within a time.

    scripts/check_gpu.py [--seconds 540] [--carried build/gpu] [--out build/gpu-report] [--dry-run] [--list] [STEP|PART ...]

The parts follow each other:

    build        programs, kernels, package and images, by scripts/gpu_carry.py, unless FOLDER of --carried has those of this commit
    tests        every operation beside the CPU's, batches in Python, streams that read late
    sanitizers   the kernels' tests under compute-sanitizer: memcheck, racecheck, synccheck, initcheck
    bench        figures, the most wanted ones first

A machine with a GPU is often lent for minutes, and a command there may end without warning. So each step has a limit, a part ends
when its share of --seconds is over, and files are written after each step: OUT/gpu-check.json says what became of it,
gpu-check.log has its output, and figures go to OUT/gpu-*.json. A step that fails ends no other one. At the end the script prints
what passed, failed and was left out; the exit status is 1 if a step failed, and 77 if there is no GPU.

--dry-run needs no GPU: it builds all kernels with nvcc, if there is one, prints their registers, and runs the kernels' CPU build
through their tests, and bench_gpu, with the driver that stands for a GPU (CMake's preset `check`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
SKIPPED = 77
LEAST_SECONDS = 5.0  # a step is not begun for less
# When a part must be over, as a share of the time that is left after the build.
ENDS = {"tests": 0.35, "sanitizers": 0.6, "bench": 1.0}
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Sets of bench_gpu: name, folder of the carried images, rows and operations. The first ones are the most wanted.
SETS = (
    ("pli-jpeg", "pli-jpeg", "256:resized:224"),
    ("pli-jpeg-64", "pli-jpeg", "64:resized:224"),
    ("frames-small-fused", "pli-small-frames", "64:fused:512x512"),
    ("frames-small-fused-256", "pli-small-frames", "256:fused:512x512"),
    ("frames-fast-fused", "pli-fast-frames", "64:fused:512x512"),
    ("frames-small", "pli-small-frames", "64:picture"),
    ("frames-fast", "pli-fast-frames", "64:picture"),
)
MORE_SETS = (
    ("pli-jpeg-policy", "pli-jpeg", "256:policy:224"),
    ("frames-dense-fused", "pli-dense-frames", "64:fused:512x512"),
    ("frames-dense", "pli-dense-frames", "64:picture"),
    *((f"frames-{tier}-resized", f"pli-{tier}-frames", "64:resized:224") for tier in ("small", "dense", "fast")),
    *((f"images-{tier}-resized", f"pli-{tier}", "256:resized:224") for tier in ("small", "dense", "fast")),
    ("frames-l3-t64", "pli-small-frames", "64:l3:64"),
    ("frames-l3-t32", "pli-small-frames", "64:l3:32"),
    ("frames-l3-each", "pli-small-frames", "64:l3-each:64"),
)


@dataclass(frozen=True)
class Step:
    part: str
    name: str
    seconds: int  # its limit
    command: tuple[str, ...]
    lacks: Callable[[], str] = lambda: ""  # what the machine lacks for this step
    figures: tuple[Path, Path] | None = None  # a JSON file of the step, and the list to which it is added
    after: str = ""  # a step that is chosen with this one


@dataclass
class Report:
    """What became of the steps, in OUT."""

    out: Path
    gpu: str
    commit: str
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, step: Step, state: str, reason: str = "", seconds: float = 0.0) -> None:
        self.steps[step.name] = {"part": step.part, "state": state, "reason": reason, "seconds": round(seconds, 1)}
        print(f"   {step.name}: {state}{', ' + reason if reason else ''} ({seconds:.0f} s)", flush=True)
        self.write("gpu-check.json", {"what": "gpu check", "gpu": self.gpu, "commit": self.commit, "steps": self.steps})

    def add_figures(self, made: Path, to: Path) -> None:
        """Adds the figures of a step to a list in OUT."""
        found = json.loads(to.read_text()) if to.exists() else []
        self.write(to.name, [*found, json.loads(made.read_text())])

    def write(self, name: str, content: object) -> None:
        """Replaces a file at once, so that an interrupted write leaves the older one."""
        new = self.out / f".{name}"
        new.write_text(json.dumps(content, indent=1) + "\n")
        new.replace(self.out / name)

    def names(self, state: str) -> list[str]:
        return [name for name, step in self.steps.items() if step["state"] == state]

    def summary(self) -> str:
        lines = [f"passed: {', '.join(self.names('passed')) or 'nothing'}"]
        for state in ("failed", "left out"):
            lines += [f"{state}: {name}: {self.steps[name]['reason']}" for name in self.names(state)]
        return "\n".join(lines)


def gpu_name() -> str:
    """Returns the name of the first GPU, or "" if there is none."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.partition("\n")[0].strip()
    return ""


def head_commit() -> str:
    """Returns the commit of the tree, or "" in a copy without a history."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return ""


def carried_commit(carried: Path) -> str:
    """Returns the commit of what gpu_carry.py has put together, or "" if that is missing or of another commit than the tree."""
    file = carried / "commit"
    commit = file.read_text().strip() if file.exists() else ""
    return commit if commit and head_commit() in ("", commit) else ""


def lacks_torch() -> str:
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no torch with CUDA"


def lacks_file(path: Path) -> Callable[[], str]:
    return lambda: "" if path.exists() else f"{path.name} is not there"


def lacks_program(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"no {name}"


def build_steps(carried: Path) -> list[Step]:
    # Without the environment of `make build` no package is made, and the steps in Python are left out.
    only = () if (ROOT / ".venv" / ".stamps").exists() else ("--programs",)
    carry = (PYTHON, str(ROOT / "scripts" / "gpu_carry.py"), "--out", str(carried), *only)
    return [Step("build", "build", 480, carry, lacks_program("nvcc"))]


def test_steps(carried: Path, out: Path) -> list[Step]:
    tests, data = ROOT / "tests" / "gpu", carried / "data"
    batch = (str(carried / "bin" / "test_gpu_batch"), str(ROOT / "tests" / "golden"))
    package = lacks_file(carried / "python")

    def python(name: str, limit: int, *more: object) -> Step:
        return Step("tests", name, limit, (PYTHON, str(tests / f"{name}_on_gpu.py"), str(data), *map(str, more)), package)

    return [
        Step("tests", "env", 30, (str(carried / "bin" / "penstock"), "env")),
        Step("tests", "batch", 120, batch),
        python("loader", 180),
        python("features", 120, carried / "bin" / "penstock", "--report", out / "gpu-analysis.json"),
        Step("tests", "sound", 120, (PYTHON, str(tests / "sound_on_gpu.py"), str(carried / "bin" / "penstock")), package),
        python("streams", 90),
        Step("tests", "ragged", 60, (PYTHON, str(tests / "ragged_on_gpu.py")), package),
        *(sanitizer(tool, batch) for tool in TOOLS),
    ]


def sanitizer(tool: str, program: tuple[str, ...]) -> Step:
    options = ["--tool", tool, "--error-exitcode", "9"]
    if tool == "memcheck":  # kernels are looked for in one image after the other, which is no error
        options += ["--report-api-errors", "no"]
    return Step("sanitizers", tool, 150, ("compute-sanitizer", *options, *program), lacks_program("compute-sanitizer"))


def kernels(carried: Path, work: Path, out: Path, name: str, folder: str, rest: str) -> Step:
    made, data = work / f"{name}.json", carried / "data" / folder
    command = (str(carried / "bin" / "bench_gpu"), "--seconds", "0.3", "--timeline", "--l3",
               str(carried / "lib" / "libbench_l3_cuda.so"), "--json", str(made), f"{name}:{data}:{rest}")
    return Step("bench", name, 60, command, lacks_file(data), (made, out / "gpu-kernels.json"))


def bench_steps(carried: Path, work: Path, out: Path) -> list[Step]:
    bench, data, jpegs = ROOT / "bench" / "gpu", carried / "data", work / "jpeg.pst"
    frames = sorted(map(str, data.glob("pli-*-frames")))

    def python(name: str, limit: int, *more: object, lacks: Callable[[], str] | None = None) -> Step:
        command = (PYTHON, str(bench / f"{name}.py"), *map(str, more), "--out", str(out / f"gpu-{name.replace('_', '-')}.json"))
        return Step("bench", name, limit, command, lacks or lacks_file(data / "jpeg"))

    def lacks_training() -> str:
        return lacks_file(jpegs)() or lacks_torch()

    return [
        *(kernels(carried, work, out, *one) for one in SETS),
        python("host_cpu", 90, data / "pli-jpeg", *frames, lacks=lacks_file(data / "pli-jpeg")),
        python("shares", 120, data / "jpeg"),
        Step("bench", "pack", 60, (str(carried / "bin" / "penstock"), "pack", "--quiet", str(data / "jpeg"), str(jpegs)),
             lacks_file(data / "jpeg")),
        replace(python("training", 150, jpegs, "--seconds", 2, lacks=lacks_training), after="pack"),
        python("jpegs", 120, data / "jpeg", "--seconds", 3),
        *(kernels(carried, work, out, *one) for one in MORE_SETS),
    ]  # fmt: skip


def dry_steps(to: Path) -> list[Step]:
    """Returns the steps of a dry run, which builds programs and kernels in `to`."""
    tests = sorted(path.stem for path in (ROOT / "tests" / "kernels").glob("test_*.c"))
    ninja = ("ninja", "-C", "build/check", *tests, "test_gpu_batch", "bench_gpu_tried")
    carry = (PYTHON, "scripts/gpu_carry.py", "--programs", "--out", str(to))
    registers = (PYTHON, "scripts/check_cuda.py", "--built", "build/gpu-build")
    return [
        Step("build", "nvcc", 3600, carry, lacks_program("nvcc")),
        Step("build", "registers", 3600, registers, lacks_program("nvcc")),
        Step("build", "configure", 600, ("cmake", "--preset", "check"), lacks_program("cmake")),
        Step("build", "cpu-build", 3600, ninja, lacks_program("ninja")),
        Step("tests", "kernels", 3600, ("ctest", "--test-dir", "build/check", "-L", "^(kernels|gpu)$", "--output-on-failure"),
             lacks_program("ctest")),
        Step("bench", "training", 300, (PYTHON, "bench/gpu/training.py", "--dry-run"), lacks_dry_torch),
    ]  # fmt: skip


def lacks_dry_torch() -> str:
    code = "import torch, numpy, penstock"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"{PYTHON} has no torch, or no package"


@contextlib.contextmanager
def libraries(carried: Path, work: Path) -> Iterator[dict[str, str]]:
    """Yields an environment for programs that gpu_carry.py brought to this machine. The system's libraries come before the
    libraries that were brought, which may be too old for the system's Python and torch.
    """
    folder = work / "lib"
    folder.mkdir()
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        known = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
        for library in (carried / "lib").glob("*"):
            if f"\t{library.name} " not in known:
                (folder / library.name).symlink_to(library)

    def before(name: str, value: object) -> str:
        return f"{value}:{os.environ[name]}" if os.environ.get(name) else str(value)

    yield {
        **os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": before("PYTHONPATH", carried / "python"),
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", folder),
        "PENSTOCK_CUDA_KERNELS": os.environ.get("PENSTOCK_CUDA_KERNELS", str(carried / "lib" / "libpenstock_cuda.so")),
    }  # fmt: skip


def run_for(command: tuple[str, ...], seconds: float, log: Path, env: dict[str, str]) -> tuple[int | None, str]:
    """Runs a command for at most `seconds`, with all that it starts. Returns its status (None: time was up) and its output."""
    begin = log.stat().st_size
    with log.open("ab") as to:
        try:
            process = subprocess.Popen(command, stdout=to, stderr=to, cwd=ROOT, env=env, start_new_session=True)
        except OSError as error:
            return 127, str(error)
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with log.open("rb") as written:
        written.seek(begin)
        return status, written.read().decode(errors="replace")


def run_step(step: Step, end: float, report: Report, env: dict[str, str]) -> None:
    """Runs a step until its limit or until `end`, whichever is first."""
    limit, reason = min(step.seconds, end - time.monotonic()), step.lacks()
    log = report.out / "gpu-check.log"
    if reason or limit < LEAST_SECONDS:
        report.add(step, "left out", reason or "no time left")
        return
    print(f"== {step.name}", flush=True)
    with log.open("a") as to:
        to.write(f"== {step.name}: {' '.join(step.command)}\n")
    begin = time.monotonic()
    status, output = run_for(step.command, limit, log, env)
    seconds = time.monotonic() - begin
    print("\n".join(output.splitlines()[-5:]), flush=True)
    if status == 0:
        if step.figures:
            report.add_figures(*step.figures)
        report.add(step, "passed", "", seconds)
    elif status == SKIPPED or "Device not supported" in output:  # what compute-sanitizer says if it has no access to the GPU
        last = output.strip().splitlines()
        report.add(step, "left out", last[-1] if last else "skipped", seconds)
    else:
        report.add(step, "failed", "time was up" if status is None else f"status {status}", seconds)


def run_steps(steps: list[Step], seconds: float, report: Report, env: dict[str, str]) -> None:
    begin = time.monotonic()
    for step in steps:
        run_step(step, begin + ENDS.get(step.part, 1.0) * seconds, report, env)


def chosen(steps: list[Step], names: list[str]) -> list[Step]:
    """Returns the steps that are named by themselves or by their part; all without names."""
    known = {name for step in steps for name in (step.name, step.part)}
    for name in set(names) - known:
        sys.exit(f"check_gpu.py: no step or part '{name}' (--list)")
    wanted = [step for step in steps if not names or {step.name, step.part} & set(names)]
    return [step for step in steps if step in wanted or step.name in {one.after for one in wanted}]


def check(args: argparse.Namespace, work: Path) -> Report:
    report = Report(args.out, gpu_name(), carried_commit(args.carried) or head_commit())
    end = time.monotonic() + args.seconds
    if args.dry_run:
        steps = dry_steps(ROOT / "build" / "gpu-dry")  # not taken for what a run on a GPU needs
        run_steps(chosen(steps, args.steps), 24 * 3600.0, report, dict(os.environ))
        return report
    if not carried_commit(args.carried):
        run_steps(build_steps(args.carried), args.seconds, report, dict(os.environ))
    steps = test_steps(args.carried, args.out) + bench_steps(args.carried, work, args.out)
    with libraries(args.carried, work) as env:
        run_steps(chosen(steps, args.steps), end - time.monotonic(), report, env)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP|PART", help="only these")
    parser.add_argument("--seconds", type=float, default=540.0, help="of all steps together")
    parser.add_argument("--carried", type=Path, default=ROOT / "build" / "gpu", help="what gpu_carry.py has put together")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-report")
    parser.add_argument("--dry-run", action="store_true", help="builds all, and runs what needs no GPU")
    parser.add_argument("--list", action="store_true", help="prints the steps and ends")
    args = parser.parse_args()
    args.carried, args.out = args.carried.resolve(), args.out.resolve()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if args.list:
            steps = test_steps(args.carried, args.out) + bench_steps(args.carried, work, args.out)
            print("\n".join(f"{step.part:10} {step.name:20} {step.seconds:4} s" for step in steps))
            return 0
        if not args.dry_run and not gpu_name():
            print("check_gpu.py: no GPU here; --dry-run builds everything and runs what needs none", file=sys.stderr)
            return SKIPPED
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "gpu-kernels.json").unlink(missing_ok=True)  # steps add to it
        (args.out / "gpu-check.log").write_bytes(b"")
        report = check(args, work)
    print(report.summary())
    return 1 if report.names("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
