#!/usr/bin/env python3
"""Runs the pages of the guide as a new user does, from top to bottom. `make check-long` calls it.

    scripts/check_pages.py [--wheel FILE] [--cuda] [--only PAGE ...]

A page says what it needs: "needs `pip install penstock timm`". Each set of packages gets a virtual environment of its own,
build/pages/N, with the wheel and these packages in their newest releases, and nothing else; then the pages that need just that run
in it, each in a new folder with the files that pages expect. A page of ultralytics, whose licence is the AGPL, has no network where
`unshare` can take it away. torch is the newest build for CPUs, as in check_newest.py. Beside it torchvision's compiled operators do
not load, and python/tests/conftest.py replaces them; so pytest and Pillow are installed, too.

The exit status is 1 if a page fails. A page that cannot run here (no index, no build of torch for CPUs, no memcached) is listed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check_newest import FAILS, MOST_OF_WHEEL, UNTRIED, Row, Session, last_line, make_environment, of_command, table, torch_for_cpus

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "python" / "tests"
WORK = ROOT / "build" / "pages"
NEEDS = re.compile(r"pip install '?penstock(\[\w+\])?'?((?: [\w-]+(?:\[\w+\])?)*)")
MOST_OF_INSTALL, MOST_OF_PAGE = 1800, 900  # seconds
OFFLINE = ("unshare", "--user", "--map-root-user", "--net")
sys.path.append(str(TESTS))

from page_folder import GUIDE, environment, make_folder  # noqa: E402
from run_page import BLOCK_OF_PEER, USES_TORCHVISION  # noqa: E402


def needs(text: str) -> tuple[str, ...]:
    """Returns what pip installs for a page besides the wheel: an extra of the wheel, in brackets, and packages."""
    said = NEEDS.search(text)
    words = [word for word in (said[1], *said[2].split()) if word] if said else []
    code = BLOCK_OF_PEER.sub("", text)
    if re.search(r'^\s*(?:from|import) torch\b|output="torch"', code, re.MULTILINE) and "torch" not in words:
        words.append("torch")
    return tuple(sorted(words))


def missing(text: str) -> str:
    """Returns what the page needs and this machine lacks, or ""."""
    if "memcached -M" in text and not shutil.which("memcached"):
        return "memcached is not installed"
    if "pkg-config" in text and "PKG_CONFIG_PATH" not in environment():
        return "the C library is not in build/installed"
    return ""


def can_go_offline() -> bool:
    return shutil.which("unshare") is not None and subprocess.run([*OFFLINE, "true"], capture_output=True).returncode == 0


def install(session: Session, wheel: str, words: tuple[str, ...], helped: bool, torch: str) -> tuple[int, str]:
    """Makes the environment of a set of packages. torch: what pip gets for torch. helped: with pytest and Pillow, too."""
    shutil.rmtree(session.folder, ignore_errors=True)
    session.folder.mkdir(parents=True)
    status, output = session.run(sys.executable, "-m", "venv", session.folder / "venv")
    if status != 0:
        return status, output
    extras = "".join(word for word in words if word.startswith("["))
    packages = [torch if word == "torch" else word for word in words if not word.startswith("[")]
    if "torch" not in words and torch != "torch" and packages:
        (session.folder / "constraints.txt").write_text(torch + "\n")
        packages = ["--constraint", str(session.folder / "constraints.txt"), *packages]
    return session.run(session.python, "-m", "pip", "install", "--quiet", wheel + extras, *packages,
                       *(["pytest", "pillow"] if helped else []), seconds=MOST_OF_INSTALL)


def try_page(session: Session, page: str, text: str) -> tuple[str, str]:
    """Runs a page in a new folder. Returns verdict and detail."""
    why = missing(text)
    if why:
        return UNTRIED, why
    offline = "import ultralytics" in text or "from ultralytics" in text
    if offline and not can_go_offline():
        return UNTRIED, "the network cannot be taken away here (unshare)"
    with tempfile.TemporaryDirectory(prefix="penstock-page-") as folder:
        made = make_folder(Path(folder), page)
        os.environ["YOLO_CONFIG_DIR"] = folder  # not the user's own
        os.environ.update({name: value for name, value in environment().items() if name.startswith(("PKG_", "LD_LIBRARY"))})
        status, output = session.run(*(OFFLINE if offline else ()), session.python, TESTS / "run_page.py", ROOT / page, cwd=made,
                                     seconds=MOST_OF_PAGE)
    verdict, detail = of_command(status, output)
    if verdict == FAILS:
        print(output[-3000:])
    return verdict, detail


def run_all(wheel: str, pages: list[str], torch: str | None) -> list[Row]:
    sets: dict[tuple[str, ...], list[str]] = {}
    for page in pages:
        sets.setdefault(needs((ROOT / page).read_text()), []).append(page)
    rows = []
    for number, (words, members) in enumerate(sets.items()):
        session = Session(WORK / str(number), time.monotonic() + MOST_OF_WHEEL)
        texts = {page: (ROOT / page).read_text() for page in members}
        status, output = 0, ""
        if words and torch is None:
            why = "there is no build of torch for CPUs (--cuda, or PIP_EXTRA_INDEX_URL)"
        else:
            helped = any(USES_TORCHVISION.search(BLOCK_OF_PEER.sub("", text)) for text in texts.values())
            status, output = install(session, wheel, words, helped, torch or "torch")
            why = f"pip: {last_line(output)}" if status else ""
        for page, text in texts.items():
            verdict, detail = (FAILS if status else UNTRIED, why) if why else try_page(session, page, text)
            rows.append(Row(page, verdict, detail, " ".join(words), must=True))
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
    rows = run_all(wheel, [page for page in GUIDE if not arguments.only or Path(page).stem in arguments.only], torch)
    print(f"\nPages of the guide, each with the wheel and what it names, Python {platform.python_version()}:\n")
    print(table(rows, {}))
    failed = [row.name for row in rows if row.verdict == FAILS]
    print(f"\ncheck-pages: {len(failed)} fail" + (f": {', '.join(failed)}" if failed else ""))
    return int(bool(failed) or not rows)


if __name__ == "__main__":
    sys.exit(main())
