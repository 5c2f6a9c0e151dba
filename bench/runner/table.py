"""Arguments, figures and tables of a bench: <out>/<name>-<date>.json, .md and .svg."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

# Arguments -----------------------------------------------------------------------------------------------


PATHS = {"work": "data sets are kept there", "build": "environments of peers are kept there"}


def parser(doc: str, *needed: str, again: bool = True) -> argparse.ArgumentParser:
    """Returns a parser with --out and an option for each path that measuring needs; if `again` is set, also with --from."""
    found = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if again:
        found.add_argument("--from", type=Path, dest="source", metavar="FILE.json", help="measure nothing, show these figures")
    for name in needed:
        found.add_argument(f"--{name}", type=Path, required=not again, help=PATHS.get(name))
    found.add_argument("--out", type=Path, required=True)
    found.set_defaults(needed=needed)
    return found


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parses the command line, resolves the needed paths, and adds `cpus`, the cores that may be used."""
    args = parser.parse_args()
    paths = {name: getattr(args, name) for name in args.needed}
    if not all(paths.values()) and not args.source:
        parser.error(f"{' and '.join('--' + name for name in paths)}, or --from")
    vars(args).update({name: path and path.resolve() for name, path in paths.items()})
    args.cpus = sorted(os.sched_getaffinity(0))
    return args


def chosen(text: str, known) -> list[str]:
    """Returns the known names that match one of the comma-separated patterns. A pattern without a match is an error."""
    for pattern in text.split(","):
        if not fnmatch.filter(known, pattern):
            sys.exit(f"{pattern}: none of {', '.join(known)}")
    return [name for name in known if any(fnmatch.fnmatch(name, pattern) for pattern in text.split(","))]


def by_commas(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def work_folder(build: Path | None, data: Path | None, name: str) -> Path | None:
    """Returns the folder for files that a bench makes of the data. Each folder of data has one."""
    return build / f"{name}-{zlib.crc32(str(data.resolve()).encode()):08x}" if build and data else None


def copies_folder(build: Path, data: Path, name: str, copies: int) -> Path:
    """Returns the folder for files that a bench makes of n copies of the data's ImageNet images. Makes its parent folders."""
    folder = work_folder(build, data, name)
    assert folder is not None
    folder = folder.with_name(f"{folder.name}-{copies}") / "imagenet"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


# Figures -------------------------------------------------------------------------------------------------


def libraries() -> dict[str, str]:
    """Returns versions of the codec libraries that Penstock links, from pkg-config."""
    versions = {}
    for name in ("libjpeg", "libpng", "zlib", "libdeflate", "libwebp", "libxxhash", "liburing"):
        try:
            found = subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            break
        if found.returncode == 0:
            versions[name] = found.stdout.strip()
    return versions


def machine() -> dict:
    """Returns the machine, versions, commit and date of the figures."""
    facts: dict[str, str] = {}  # of the first core
    for line in Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    commit = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True, check=False).stdout.strip()
    # Family and model tell generations apart that share a name: a virtual AMD EPYC is Zen 1 in family 23, Zen 3 in family 25.
    return {"cpu": facts.get("model name", ""), "family": facts.get("cpu family", ""), "model": facts.get("model", ""),
            "cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0],
            "commit": commit, "libraries": libraries(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def stored_mb(store: Path) -> float:
    files = [store] if store.is_file() else [p for p in store.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files) / 1e6


def said(found: dict) -> dict:
    """Prints the figures of a cell to stderr and returns them."""
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def write(stem: Path, result: dict, table: str, picture: str | None = None) -> None:
    """Writes the figures to <stem>.json, the table to <stem>.md and the picture to <stem>.svg, and prints the table."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".md").write_text(table)
    if picture is not None:
        stem.with_suffix(".svg").write_text(picture)
    print(table)
    print(f"{stem}.json, .md" + (", .svg" if picture is not None else ""))


def finish(args: argparse.Namespace, name: str, measure: Callable[[argparse.Namespace], dict], table: Callable[[dict], str],
           draw: Callable[[dict], str] | None = None) -> None:
    """Measures, or takes the figures of --from. Writes figures, table and picture."""
    result = json.loads(args.source.read_text()) if args.source else measure(args)
    write(args.out / f"{name}-{result['machine']['date']}", result, table(result), draw and draw(result))


# Tables --------------------------------------------------------------------------------------------------


def where(result: dict) -> str:
    """Returns the line about machine and date with which a table begins."""
    machine = result["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores; commit {machine['commit'] or 'unknown'}; {machine['date']}."


def heads(*names: str) -> list[str]:
    """Returns the two head lines of a table in Markdown."""
    return ["|" + "|".join(f" {name} " if name else " " for name in names) + "|", "|" + "---|" * len(names)]


def absent(*words: str, n: int) -> str:
    """Returns the table row of a cell without figures: name and reason, filled up to n columns."""
    return f"| {' | '.join(word.replace('|', '/') for word in words)} |" + " |" * (n - len(words))


def versions(result: dict) -> str:
    found = {name: text for cell in result["cells"] for name, text in cell.get("versions", {}).items()}
    return "versions: " + ", ".join(f"{name} {text}" for name, text in sorted(found.items()))
