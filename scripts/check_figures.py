#!/usr/bin/env python3
"""Checks that the figures of the documents are those of bench/results: tables of docs/figures.md and docs/figures are made from the
JSON that they name, and each measured number in their sentences and in README.md has a marker that names a file and an expression.

    scripts/check_figures.py [--update]

--update makes the tables anew. Sentences are not updated: change a number, and the line of its marker.
scripts/figures/figure_pages.py explains markers; those of README.md are in docs/figures/readme.json. A finding is printed as
file:line: what.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "figures"))

import figure_pages as pages  # noqa: E402  (its folder has just become known)
from check_docs import prose_of  # noqa: E402
from figure_data import FigureError  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
README_MARKERS = Path("docs/figures/readme.json")
# Figures without JSON, each with the reason. tests/scripts/test_check_figures.py refuses new entries: the bench should write JSON
# instead.
KNOWN = {
    "reference": "plain C, after the reference implementation was written anew: the tables of two runs were read by eye",
    "examples": "the training examples print their results, and write no JSON",
    "profile": "shares of time by perf, Nsight Compute or clocks within the process",
    "l3": "rows l3 of bench-codec: printed, the JSON not kept",
    "learning": "bench-endtoend prints what a network that learns takes, and does not write it",
    "large": "make check tests a bound, and prints the value",
}


def page_paths(root: Path) -> list[Path]:
    return [root / "docs" / "figures.md", *sorted((root / "docs" / "figures").glob("*.md"))]


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def table_findings(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Compares the made tables with their JSON, and finds tables that no view makes."""
    for match in pages.TABLE.finditer(text):
        try:
            if pages.made(match[1], path.parent) != match[2]:
                yield (
                    line_of(text, match.start()),
                    f"the table {match[1]} is not that of its JSON: scripts/check_figures.py --update",
                )
        except FigureError as error:
            yield line_of(text, match.start()), str(error)
    before = of = ""
    for number, line in enumerate(prose_of(pages.TABLE.sub(blank, text)).splitlines(), 1):
        if line.startswith("|") and not before.startswith("|"):
            of = before
            if not re.fullmatch(r"<!-- (?:known: [\w-]+|words) -->", of):
                yield number, "a table without a marker"
        if line.startswith("|") and of == "<!-- words -->" and pages.numbers_of(line.split("|", 2)[2]):
            yield number, f"a number in a table of words: {line}"
        before = line


def paragraphs(text: str) -> Iterator[tuple[int, str, pages.Marker | None]]:
    """Yields line, text and marker of each paragraph of a page, without its tables, headings and code."""
    plain = re.sub(r"^(?:\||#).*$", blank, prose_of(pages.TABLE.sub(blank, text)), flags=re.MULTILINE)
    at = 0
    for match in [*pages.MARKER.finditer(plain), None]:
        blocks = list(re.finditer(r"(?:^(?!\s*$).*\n?)+", plain[at : match.start() if match else len(plain)], re.MULTILINE))
        for i, block in enumerate(blocks):
            if block[0].startswith("    "):  # commands
                continue
            marked = match and i == len(blocks) - 1
            yield (
                line_of(plain, at + block.start()),
                block[0],
                pages.marker_of(match[1], match[2]) if match and marked else None,
            )
        if match:
            at = match.end()


def sentence_findings(text: str) -> Iterator[tuple[int, str]]:
    try:
        for line, words, marker in paragraphs(text):
            for finding in pages.marker_findings(marker or pages.Marker(""), words):
                yield line, finding
    except FigureError as error:
        yield 1, str(error)


def readme_findings(root: Path) -> Iterator[tuple[int, str]]:
    """Checks that each text of docs/figures/readme.json is in README.md, and that together they have all numbers that need a
    source.
    """
    left = " ".join(re.sub(r"^```.*?^```$", "", (root / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL).split())
    for entry in json.loads((root / README_MARKERS).read_text()):
        words = entry["text"]
        if words not in left:
            yield 1, f"README.md has no such text: {words[:70]}"
            continue
        left = left.replace(words, " ; ")
        marker = pages.Marker(
            entry.get("file", ""),
            list(entry.get("numbers", {}).items()),
            set(entry.get("set", [])),
            {name: set(texts) for name, texts in entry.get("known", {}).items()},
        )
        for finding in pages.marker_findings(marker, words):
            yield 1, finding
    for number in pages.numbers_of(left):
        yield 1, f"{number} has no source in {README_MARKERS}"


def used_names(root: Path) -> set[str]:
    """Returns the names of KNOWN that pages, goals and README.md use."""
    text = "\n".join(path.read_text() for path in page_paths(root))
    used = set(re.findall(r"^(?:<!-- known:|known) ([\w-]+)", text, re.MULTILINE)) | pages.figure_goals.known_names()
    return used | {name for entry in json.loads((root / README_MARKERS).read_text()) for name in entry.get("known", {})}


def check(root: Path) -> list[str]:
    findings = []
    for path in page_paths(root):
        text, where = path.read_text(), path.relative_to(root)
        findings += [f"{where}:{line}: {what}" for line, what in [*table_findings(path, text), *sentence_findings(text)]]
    findings += [f"README.md:{line}: {what}" for line, what in readme_findings(root)]
    used = used_names(root)
    findings += [
        f"scripts/check_figures.py:1: nothing needs {name} of KNOWN any more: take it out" for name in KNOWN if name not in used
    ]
    return findings + [f"docs/figures.md:1: KNOWN has no {name}" for name in sorted(used - set(KNOWN))]


def update(root: Path) -> None:
    """Makes the tables anew. A table that cannot be made stays unchanged and is a finding."""
    for path in page_paths(root):

        def made(match: re.Match[str], folder: Path = path.parent) -> str:
            try:
                return f"<!-- table: {match[1]} -->\n{pages.made(match[1], folder)}<!-- end -->"
            except FigureError:
                return match[0]

        path.write_text(pages.TABLE.sub(made, path.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--update", action="store_true", help="make the tables anew")
    args = parser.parse_args()
    if args.update:
        update(args.root.resolve())
    findings = check(args.root.resolve())
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
