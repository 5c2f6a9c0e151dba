#!/usr/bin/env python3
"""Runs all pages of the guide as a new user does, from top to bottom, and `python -m penstock.demo` and `penstock doctor`.
`make check-long` calls it.

    scripts/check_pages.py [--wheel FILE] [--cuda] [--only PAGE ...]

A page says what it needs: "needs `pip install penstock timm`". Each set of packages gets a virtual environment of its own,
build/pages/N, with the wheel and these packages in their newest releases, and nothing else; then the pages that need exactly these
packages run in it, each in a new folder with the files that pages expect. The demo and doctor run with the wheel alone, and again
with the extra `plan`. Where `unshare` can remove the network, pages run without it; elsewhere the page of ultralytics, whose
licence is the AGPL, does not run. torch is the newest build for CPUs, as in check_newest.py. Beside it torchvision's compiled
operators do not load, and python/tests/conftest.py replaces them; so pytest and Pillow are installed, too.

The exit status is 1 if a page fails. At the end the script lists, with reasons, the pages that cannot run here (no index, no build
of torch for CPUs, no memcached, no Java), and the pages with blocks that are only compiled because the page does not install the
packages that they use.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from check_newest import (
    FAILS,
    MOST_OF_WHEEL,
    UNTRIED,
    WORKS,
    Row,
    Session,
    last_line,
    make_environment,
    of_command,
    table,
    torch_for_cpus,
)

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "python" / "tests"
WORK = ROOT / "build" / "pages"
NEEDS = re.compile(r"pip install '?penstock(\[\w+\])?'?((?: [\w-]+(?:\[\w+\])?)*)")
MOST_OF_INSTALL, MOST_OF_PAGE = 1800, 900  # seconds
EXTRA = re.compile(r"\bpenstock\[(\w+)\]")
OFFLINE = ("unshare", "--user", "--map-root-user", "--net")
# A new network namespace has only lo, which is down. This brings it up, because ranks of torchrun and servers of a page use it.
# 0x8914: SIOCSIFFLAGS, 1: IFF_UP.
WITH_LO = ("import fcntl, os, socket, struct, sys; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 1)); "
           "os.execvp(sys.argv[1], sys.argv[1:])")  # fmt: skip
WITH_COMMANDS: list[tuple[str, ...]] = [(), ("[plan]",)]  # environments in which demo and doctor run
DEMO_LAST_LINE = "Nothing is left behind."
sys.path.append(str(TESTS))

from page_folder import GUIDE, environment, make_folder  # noqa: E402
from run_page import BLOCK_OF_PEER, USES_TORCHVISION  # noqa: E402


def needs(text: str) -> tuple[str, ...]:
    """Returns what pip must install for a page besides the wheel: an extra of the wheel in brackets, and packages."""
    said = NEEDS.search(text)
    words = [*(f"[{name}]" for name in dict.fromkeys(EXTRA.findall(text))), *(said[2].split() if said else [])]
    code = BLOCK_OF_PEER.sub("", text)
    if re.search(r'^\s*(?:from|import) torch\b|output="torch"', code, re.MULTILINE) and "torch" not in words:
        words.append("torch")
    return tuple(sorted(words))


def missing(text: str) -> str:
    """Returns what the page needs and this machine does not have, or ""."""
    if "memcached -M" in text and not shutil.which("memcached"):
        return "memcached is not installed"
    if "pkg-config" in text and "PKG_CONFIG_PATH" not in environment():
        return "the C library is not in build/installed"
    if "```python peer pyspark" in text and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        return "Java is not installed"
    return ""


@functools.cache
def offline() -> tuple[str, ...]:
    """Returns the beginning of a command line that runs a command without network; empty if this machine cannot do that."""
    words = (*OFFLINE, sys.executable, "-c", WITH_LO)
    possible = shutil.which("unshare") is not None and subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if possible else ()


def install(session: Session, wheel: str, words: tuple[str, ...], helped: bool, torch: str) -> tuple[int, str]:
    """Makes the environment for a set of packages. torch: pip's requirement for torch. helped: whether pytest and Pillow are
    installed, too.
    """
    shutil.rmtree(session.folder, ignore_errors=True)
    session.folder.mkdir(parents=True)
    status, output = session.run(sys.executable, "-m", "venv", session.folder / "venv")
    if status != 0:
        return status, output
    extras = ",".join(word.strip("[]") for word in words if word.startswith("["))  # pip takes one pair of brackets
    packages = [torch if word == "torch" else word for word in words if not word.startswith("[")]
    if "torch" not in words and torch != "torch" and packages:
        (session.folder / "constraints.txt").write_text(torch + "\n")
        packages = ["--constraint", str(session.folder / "constraints.txt"), *packages]
    return session.run(session.python, "-m", "pip", "install", "--quiet", f"{wheel}[{extras}]" if extras else wheel, *packages,
                       *(["pytest", "pillow"] if helped else []), seconds=MOST_OF_INSTALL)


def try_page(session: Session, page: str, text: str) -> tuple[str, str]:
    """Runs a page in a new folder. Returns verdict and detail."""
    why = missing(text)
    if why:
        return UNTRIED, why
    if not offline() and ("import ultralytics" in text or "from ultralytics" in text):
        return UNTRIED, "the network cannot be taken away here (unshare)"
    with tempfile.TemporaryDirectory(prefix="penstock-page-") as folder:
        made = make_folder(Path(folder), page)
        os.environ["YOLO_CONFIG_DIR"] = folder  # the user's own configuration must not be read or changed
        os.environ.update({name: value for name, value in environment().items() if name.startswith(("PKG_", "LD_LIBRARY"))})
        status, output = session.run(*offline(), session.python, TESTS / "run_page.py", ROOT / page, cwd=made, seconds=MOST_OF_PAGE)
    verdict, detail = of_command(status, output)
    if verdict == FAILS:
        print(output[-3000:])
    return verdict, detail or only_compiled(output)


def only_compiled(output: str) -> str:
    """Returns the blocks of a page that were only compiled, from the last lines that run_page.py prints."""
    try:
        compiled = json.loads(output.splitlines()[-1])["compiled"]
    except (IndexError, ValueError, KeyError, TypeError):
        return ""
    return f"code for {'; '.join(sorted(set(compiled)))} is only compiled" if compiled else ""


def of_demo(status: int, output: str) -> tuple[str, str]:
    verdict, detail = of_command(status, output)
    ended = output.rstrip().endswith(DEMO_LAST_LINE) and "DIFFERENT" not in output
    return (FAILS, f"it says {last_line(output)}") if verdict == WORKS and not ended else (verdict, detail)


def of_doctor(status: int, output: str) -> tuple[str, str]:
    """Returns verdict and detail of `penstock doctor`. The package must work, and its advice must be possible for a user of the
    wheel; the machine may lack other things.
    """
    try:
        checks = json.loads(output)["checks"]
        package = next(check for check in checks if check["name"] == "package")
    except (ValueError, KeyError, TypeError, StopIteration):
        return FAILS, f"status {status}: {last_line(output)}"
    if "make build" in output or "cmake" in output:
        return FAILS, "it advises a build, and the user has a wheel"
    return (WORKS, "") if package["state"] == "ok" else (FAILS, package["text"])


COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[int, str], tuple[str, str]]]] = {
    "python -m penstock.demo": (("python", "-m", "penstock.demo", "--budget", "4"), of_demo),
    "penstock doctor": (("penstock", "doctor", "--json"), of_doctor),
}


def try_commands(session: Session, words: tuple[str, ...]) -> list[Row]:
    """Runs the demo and doctor in an empty folder, and checks that it stays empty."""
    rows = []
    for name, (command, verdict_of) in COMMANDS.items():
        with tempfile.TemporaryDirectory(prefix="penstock-page-") as folder:
            status, output = session.run(*offline(), *command, cwd=Path(folder), seconds=MOST_OF_PAGE)
            left = sorted(path.name for path in Path(folder).iterdir())
        verdict, detail = verdict_of(status, output)
        if left:
            verdict, detail = FAILS, f"it leaves {', '.join(left)} behind"
        if verdict == FAILS:
            print(output[-3000:])
        rows.append(Row(name, verdict, detail, " ".join(words), must=True))
    return rows


def run_all(wheel: str, pages: list[str], torch: str | None, commands: Sequence[tuple[str, ...]] = ()) -> list[Row]:
    """Returns a row for each page, and rows for demo and doctor in each environment of `commands`."""
    sets: dict[tuple[str, ...], list[str]] = {words: [] for words in commands}
    for page in pages:
        sets.setdefault(needs((ROOT / page).read_text()), []).append(page)
    rows = []
    for number, (words, members) in enumerate(sets.items()):
        session = Session(WORK / str(number), time.monotonic() + MOST_OF_WHEEL)
        texts = {page: (ROOT / page).read_text() for page in members}
        status, output = 0, ""
        if torch is None and any(not word.startswith("[") for word in words):
            why = "there is no build of torch for CPUs (--cuda, or PIP_EXTRA_INDEX_URL)"
        else:
            helped = any(USES_TORCHVISION.search(BLOCK_OF_PEER.sub("", text)) for text in texts.values())
            status, output = install(session, wheel, words, helped, torch or "torch")
            why = f"pip: {last_line(output)}" if status else ""
        for page, text in texts.items():
            began = time.monotonic()
            verdict, detail = (FAILS if status else UNTRIED, why) if why else try_page(session, page, text)
            print(f"{page}: {verdict} after {time.monotonic() - began:.0f} s {detail}".rstrip(), flush=True)
            rows.append(Row(page, verdict, detail, " ".join(words), must=True))
        if words in commands:
            rows += [Row("environment", FAILS, why, " ".join(words), must=True)] if why else try_commands(session, words)
        shutil.rmtree(session.folder, ignore_errors=True)  # some have gigabytes
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="this one, instead of one that is built now")
    parser.add_argument("--cuda", action="store_true", help="take PyPI's torch, which brings CUDA")
    parser.add_argument("--only", nargs="+", metavar="PAGE", choices=[Path(page).stem for page in GUIDE], help="these, as evaluate")
    arguments = parser.parse_args()
    session = Session(WORK / "wheel", time.monotonic() + MOST_OF_WHEEL)
    wheel = make_environment(session, arguments.wheel and arguments.wheel.resolve())
    if wheel.startswith("no "):
        print(f"check-pages: skipped: {wheel}")
        return 0
    torch: str | None = "torch"
    if not arguments.cuda:
        version = torch_for_cpus(session.pip("index", "versions", "torch")[1], platform.machine())
        torch = f"torch=={version}" if version else None
    pages = [page for page in GUIDE if not arguments.only or Path(page).stem in arguments.only]
    rows = run_all(wheel, pages, torch, [] if arguments.only else WITH_COMMANDS)
    print(f"\nPages of the guide, each with the wheel and what it names, Python {platform.python_version()}:\n")
    print(table(rows, {}))
    apart = [f"  {row.name}: {row.detail}" for row in rows if row.verdict == UNTRIED or (row.verdict == WORKS and row.detail)]
    print("\nNot run, or not all of it:", *(apart or ["  nothing"]), sep="\n")
    failed = [row.name for row in rows if row.verdict == FAILS]
    print(f"\ncheck-pages: {len(failed)} fail" + (f": {', '.join(failed)}" if failed else ""))
    return int(bool(failed) or not rows)


if __name__ == "__main__":
    sys.exit(main())
