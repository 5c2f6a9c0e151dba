#!/usr/bin/env python3
"""Tries Penstock with the newest releases of the packages that it works with. `make check-newest` and `make check-long` call it.

    scripts/check_newest.py [--wheel FILE] [--minutes N] [--cuda] [--large] [--only PACKAGE ...]

A fresh virtual environment, build/newest/venv, gets the wheel with all extras, none pinned, and runs the commands and the tests of
each extra. Then it gets the packages that the documents name, and runs the tests that use them. A table lists what was tried, with
versions. The exit status is 1 if Penstock does not work with its own extras; a failure of any other package is only listed. Known
problems with versions are in docs/internals/ports.md.

On x86-64 PyPI's torch brings CUDA, several GB. Without --cuda it takes the newest build for CPUs that pip finds, by
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu or PIP_FIND_LINKS. --large tries MosaicML Streaming, DALI and TensorFlow,
too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "newest"
TESTS = ROOT / "python" / "tests"
PHOTOGRAPHS = ROOT / "examples" / "photographs"
PINS = ROOT / "python" / "constraints.txt"
WORKS, FAILS, UNTRIED = "works", "FAILS", "not tried"
MOST_OF_ONE = 240  # seconds for one run of tests, or one installation of a third-party package; all together have --minutes
MOST_OF_WHEEL = 3000  # seconds to build the wheel
PYTEST_SUMMARY = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+)(?: in [\d.]+s.*)$", re.MULTILINE)
NO_INDEX = re.compile(r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|Network is unreachable"
                      r"|Connection refused|Read timed out|No matching distribution found for pip")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A third-party package, and our tests that use it.

    Attributes:
        name: its name on the package index.
        tests: arguments of pytest, in python/tests.
        needs: packages that are installed with it.
        extra: whether it belongs to an extra of Penstock, and so must work.
        large: whether it is tried only with --large.
        torch: whether it needs torch.
    """

    name: str
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()
    extra: bool = False
    large: bool = False
    torch: bool = False


def page(name: str, test: str = "test_page") -> str:
    return f"test_readme.py::{test}[docs/guide/{name}.md]"


APART = ("torchvision", "torchaudio")  # installed into a folder of their own, as scripts/setup_venv.sh does
EXTRAS = ("plan", "view", "audio", "search", "datasets", "torch", "test")
ELSEWHERE = ("ray", "spark")  # scripts/check_ray.py tries them
PARTS = (
    Part("numpy", ("test_loader_arrays.py",), extra=True),
    Part("highspy", ("test_plan_solver.py",), extra=True),
    Part("pillow", ("test_pli.py", "test_view_sheet.py", "-k", "pillow or sheet"), extra=True),
    Part("soundfile", ("test_audio.py", "-k", "sound or flac or ogg"), extra=True),
    Part("torch", ("test_torch.py",), extra=True, torch=True),
    Part("datasets", ("test_pack_hub.py",), extra=True),
    Part("optuna", ("test_example_search.py",), extra=True, torch=True),
    Part("lightning", (page("lightning"),), torch=True),
    Part("transformers", (page("hf-trainer"),), needs=("accelerate",), torch=True),
    Part("accelerate", (page("hf-trainer"),), needs=("transformers",), torch=True),
    Part("torchvision", ("test_torchvision.py",), torch=True),
    Part("torchaudio", ("test_audio.py", "-k", "torchaudio"), torch=True),
    Part("albumentations", (page("albumentations"),)),
    Part("prometheus-client", ("test_meter.py", "-k", "prometheus")),
    Part("pycocotools", ("test_imports.py", "-k", "pycocotools")),
    Part("pytorch-ignite", (page("ignite"),), torch=True),
    Part("torchmetrics", (page("evaluate-torchmetrics"),), needs=("pycocotools",), torch=True),
    Part("timm", (page("timm"),), torch=True),
    Part("webdataset", (page("from-webdataset", "test_peers"),), torch=True),
    # comes after transformers, because it needs older packages than transformers does
    Part("mosaicml-streaming", (page("from-mosaic", "test_peers"),), torch=True, large=True),
    Part("nvidia-dali-cuda130", (page("from-dali", "test_peers"),), large=True),
    Part("tensorflow", (page("from-tfdata", "test_peers"),), large=True),
)


@dataclass
class Row:
    """A row of the printed table."""

    name: str
    verdict: str
    detail: str = ""
    version: str = ""
    must: bool = False  # True: a failure of this part makes the script fail


@dataclass
class Session:
    """The virtual environment, and the time that is left."""

    folder: Path
    deadline: float
    rows: list[Row] = field(default_factory=list)

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def left(self) -> float:
        return min(float(MOST_OF_ONE), self.deadline - time.monotonic())

    def run(self, *command: str | Path, cwd: Path | None = None, seconds: float = 0.0) -> tuple[int, str]:
        """Runs a command. Returns its status and output; status 124: the time was over. seconds: a limit that replaces the time
        left.
        """
        print("$ " + " ".join(map(str, command)), flush=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTHONPATH"))}
        path = os.pathsep.join([str(self.python.parent), os.environ["PATH"]])
        environment = {**kept, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            # the command gets a process group, which ends with it: tests may leave processes
            process = subprocess.Popen([str(word) for word in command], cwd=cwd or ROOT, env=environment, text=True,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0)
            try:
                status = process.wait(seconds or max(1.0, self.left()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                status = 124
            output.seek(0)
            return status, output.read()

    def pip(self, *words: str | Path) -> tuple[int, str]:
        return self.run(self.python, "-m", "pip", *words)

    def versions(self) -> dict[str, str]:
        """Returns the versions of the installed packages, by names in lower case with hyphens."""
        status, output = self.pip("list", "--format=json")
        listed = json.loads(next(line for line in output.splitlines() if line.startswith("["))) if status == 0 else []
        return {normal(one["name"]): one["version"] for one in listed}


# Reading what commands say ---------------------------------------------------------------------------


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def last_line(output: str) -> str:
    """Returns the most informative line of a failed command's output: the last error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("WARNING")]
    errors = [line for line in lines if re.match(r"(E  |ERROR|\w*Error\b|\w+\.\w*Error\b|penstock: )", line)]
    return (errors or lines or ["it said nothing"])[-1][:160]


def of_tests(status: int, output: str) -> tuple[str, str]:
    """Returns verdict and detail of a run of pytest. If all tests were skipped, the package counts as not tried."""
    if status == 124:
        return UNTRIED, "time was over"
    found = PYTEST_SUMMARY.findall(output)
    counts = dict(reversed(pair.split(" ")) for pair in found[-1].split(", ")) if found else {}
    detail = ", ".join(f"{number} {word}" for word, number in counts.items() if word in ("passed", "failed", "error", "errors"))
    if status == 0 and "passed" in counts:
        return WORKS, detail
    if status in (0, 5) and "skipped" in counts:
        reasons = re.findall(r"^SKIPPED \[\d+\] (.*)$", output, re.MULTILINE)
        return UNTRIED, reasons[-1][-160:] if reasons else "its tests were skipped"
    return FAILS, f"{detail or f'pytest ended with status {status}'}: {last_line(output)}"


def of_command(status: int, output: str) -> tuple[str, str]:
    if status == 124:
        return UNTRIED, "time was over"
    return (WORKS, "") if status == 0 else (FAILS, last_line(output))


def of_doctor(status: int, output: str) -> tuple[str, str]:
    """Returns verdict and detail of `penstock doctor`. Only the package itself and HiGHS must work; the machine may lack other
    things.
    """
    try:
        checks = {check["name"]: check for check in json.loads(output)["checks"]}
    except (ValueError, KeyError, TypeError):
        return FAILS, f"status {status}: {last_line(output)}"
    bad = [f"{name}: {checks[name]['text'] if name in checks else 'is not there'}" for name in ("package", "highs")
           if checks.get(name, {}).get("state") != "ok"]  # fmt: skip
    return (FAILS, "; ".join(bad)) if bad else (WORKS, checks["highs"]["text"])


def torch_for_cpus(output: str, machine: str) -> str | None:
    """Returns the newest build of torch for CPUs that `pip index versions torch` lists; None: there is none.

    Only x86-64 has CUDA in the builds of PyPI. A build for CPUs has a version that ends with "+cpu".
    """
    listed = re.search(r"^Available versions: (.*)$", output, re.MULTILINE)
    versions = [version.strip() for version in listed[1].split(",")] if listed else []
    return next((version for version in versions if version.endswith("+cpu") or machine != "x86_64"), None)


def pins(text: str) -> dict[str, str]:
    return dict(line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))


def table(rows: list[Row], pinned: dict[str, str]) -> str:
    """Returns the rows as text: package, version, the version that CI uses, verdict."""
    lines = [("package", "newest", "in CI", "verdict")]
    for row in rows:
        verdict = row.verdict + (f": {row.detail}" if row.detail else "")
        lines.append((row.name, row.version or "-", pinned.get(row.name, "-"), verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]).rstrip()
                     for line in lines)  # fmt: skip


def exit_status(rows: list[Row]) -> int:
    """Returns 1 if Penstock does not work with its own extras. Running out of time is not a failure; the table shows it."""
    own = [row for row in rows if row.must]
    return int(not own or any(row.verdict == FAILS for row in own))


# What is done ----------------------------------------------------------------------------------------


def make_environment(session: Session, wheel: Path | None) -> str:
    """Makes the environment, and the wheel if none is given. Returns the environment's path, or the reason why there is none, which
    begins with "no ".
    """
    shutil.rmtree(session.folder, ignore_errors=True)
    session.folder.mkdir(parents=True)
    status, output = session.run(sys.executable, "-m", "venv", session.folder / "venv")
    if status != 0:
        raise SystemExit(f"check_newest.py: no virtual environment: {last_line(output)}")
    status, output = session.pip("download", "--quiet", "--no-deps", "--retries", "1", "--dest", session.folder, "pip")
    if status != 0 and (status == 124 or NO_INDEX.search(output)):
        return "no package index can be reached"
    if wheel is None:
        status, output = session.run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
                                     "--wheel-dir", session.folder / "wheel", ROOT / "python", seconds=MOST_OF_WHEEL)
        if status != 0:
            raise SystemExit(f"check_newest.py: the wheel was not built:\n{output[-3000:]}")
        wheel = next((session.folder / "wheel").glob("penstock-*.whl"))
    return str(wheel)


def install_own(session: Session, wheel: str, cuda: bool) -> bool:
    """Installs the wheel with its extras. Returns whether torch is installed."""
    torch = ["torch"]
    if not cuda:
        _, output = session.pip("index", "versions", "torch")
        version = torch_for_cpus(output, platform.machine())
        torch = [f"torch=={version}"] if version else []
    extras = [extra for extra in EXTRAS if torch or extra not in ("torch", "test")]
    status, output = session.run(session.python, "-m", "pip", "install", "--quiet", f"{wheel}[{','.join(extras)}]", *torch,
                                 "pytest", "pillow", seconds=max(1.0, session.deadline - time.monotonic()))
    if status != 0:
        verdict, detail = of_command(status, output)
        session.rows.append(Row("penstock: its extras, by pip", verdict, detail, must=True))
        print(output[-3000:])
    return bool(torch) and status == 0


def try_commands(session: Session) -> None:
    """Tries the command line as a new user would, on a folder and on a packed data set."""
    data = session.folder / "photographs"
    shutil.copytree(PHOTOGRAPHS, data)
    penstock, common = session.python.parent / "penstock", ("--rate", "500", "--batch-size", "4", "--budget", "5s")
    commands = {
        "import": (session.python, "-W", "error", "-c", "import penstock"),
        "doctor": (penstock, "doctor", "--json"),
        "analyze": (penstock, "analyze", data, *common, "--out", "report.json"),
        "whatif": (penstock, "whatif", "report.json", "--cores", "8"),
        "plan": (penstock, "plan", data, *common, "--no-layout", "--out", "plan.json"),
        "tune, a folder": (penstock, "tune", data, *common, "--yes", "--out", "tuned.pst"),
        "pack": (penstock, "pack", data, "set.pst"),
        "tune, a packed set in place": (penstock, "tune", "set.pst", *common, "--yes"),
    }
    for name, command in commands.items():
        status, output = session.run(*command, cwd=session.folder)
        verdict, detail = (of_doctor if name == "doctor" else of_command)(status, output)
        if verdict == FAILS:
            print(output[-3000:])
        session.rows.append(Row(f"penstock: {name}", verdict, detail, must=True))


def install(session: Session, part: Part, versions: dict[str, str]) -> str:
    """Installs the newest release of a package. Returns the reason of a failure, or ""."""
    # torch must not be replaced: another one would be a build with CUDA
    kept = session.folder / "constraints.txt"
    kept.write_text(f"torch=={versions['torch']}\n" if "torch" in versions else "")
    words = ["install", "--quiet", "--upgrade", "--constraint", kept]
    if part.name in APART:  # these packages do not fit this build of torch: python/tests/conftest.py helps their import
        words = ["install", "--quiet", "--no-deps", "--upgrade", "--target", session.folder / "venv" / "references"]
    status, output = session.pip(*words, part.name, *part.needs)
    return "" if status == 0 else "time was over" if status == 124 else f"pip: {last_line(output)}"


def try_part(session: Session, part: Part) -> tuple[str, str]:
    tests = [str(TESTS / word) if word.endswith((".py", ".md]")) else word for word in part.tests]
    status, output = session.run(session.python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests)
    verdict, detail = of_tests(status, output)
    if verdict == FAILS:
        print(output[-6000:])
    return verdict, detail


def version_of(session: Session, part: Part, versions: dict[str, str]) -> str:
    if part.name in APART:
        found = next((session.folder / "venv" / "references").glob(f"{part.name}-*.dist-info"), None)
        return found.name.removeprefix(f"{part.name}-").removesuffix(".dist-info") if found else ""
    return versions.get(part.name, "")


def try_parts(session: Session, parts: list[Part], has_torch: bool, large: bool) -> None:
    versions = session.versions()
    for part in parts:
        row = Row(part.name, UNTRIED, must=part.extra)
        session.rows.append(row)
        if part.torch and not has_torch:
            row.detail = "there is no build of torch for CPUs (--cuda, or PIP_EXTRA_INDEX_URL)"
        elif part.large and not large:
            row.detail = "it is large (--large)"
        elif session.left() < 5:
            row.detail = "time was over"
        else:
            why = "" if part.extra else install(session, part, versions)
            versions = versions if part.extra else session.versions()
            row.version = version_of(session, part, versions)
            row.verdict, row.detail = (UNTRIED if why == "time was over" else FAILS, why) if why else try_part(session, part)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="this one, instead of one that is built now")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of it, without the building of the wheel (10)")
    parser.add_argument("--cuda", action="store_true", help="take PyPI's torch, which brings CUDA")
    parser.add_argument("--large", action="store_true", help="try large packages, too")
    parser.add_argument("--only", nargs="+", metavar="PACKAGE", choices=[part.name for part in PARTS], help="of others, try these")
    arguments = parser.parse_args()
    session = Session(WORK, time.monotonic() + 60 * arguments.minutes)
    wheel = make_environment(session, arguments.wheel)
    if wheel.startswith("no "):
        print(f"check-newest: skipped: {wheel}")
        return 0
    session.deadline = time.monotonic() + 60 * arguments.minutes
    has_torch = install_own(session, wheel, arguments.cuda)
    if not session.rows:
        parts = [part for part in PARTS if not arguments.only or part.name in arguments.only]
        try_commands(session)
        try_parts(session, [part for part in parts if part.extra], has_torch, arguments.large)
        try_parts(session, [part for part in parts if not part.extra], has_torch, arguments.large)
        print(session.pip("check")[1].strip())
    print(f"\nPenstock with the newest releases, Python {platform.python_version()}:\n")
    print(table(session.rows, pins(PINS.read_text())))
    failed = [row.name for row in session.rows if row.verdict == FAILS]
    print(f"\ncheck-newest: {len(failed)} fail" + (f": {', '.join(failed)}" if failed else ""))
    return exit_status(session.rows)


if __name__ == "__main__":
    sys.exit(main())
