"""Reads the pages of figures: their generated tables, and the numbers in their sentences with the markers that give the source of
each.

`<!-- table: VIEW FILE... OPTION=VALUE... -->` begins a generated table, `<!-- end -->` ends it. `<!-- figures: FILE`, below a
paragraph, opens lines, up to `-->`, that give the sources of its numbers:

    1.46 = EXPRESSION         the number as it is printed, and what it is computed from (figure_data.py)
    set: 30 2048              settings of the bench, sizes of the data, goals
    known NAME: 0.46 0.60     measured, but without JSON; NAME is in check_figures.KNOWN with the reason

`<!-- known: NAME -->` stands before a table that has no JSON, `<!-- words -->` before one whose first column alone has numbers:
those of a paper, or none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import figure_goals  # noqa: F401  (registers its view, as the next ones)
import views_codec  # noqa: F401
import views_gpu  # noqa: F401
import views_loaders  # noqa: F401
import views_papers  # noqa: F401
import views_plans  # noqa: F401
import views_service  # noqa: F401
from figure_data import FigureError, evaluate, newest, read
from figure_views import VIEWS

TABLE = re.compile(r"^<!-- table: (.+?) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- figures: ([\w-]+)\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.,/#-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w/]|-\w|,?\.?\d)")
UNITS = r" ?(?:x\b|%|(?:times|ms|us|ns|s|seconds|[KMGT]i?B(?:/s)?|Gbit/s|bytes|images|crops|samples|points|bits|dB|n)\b)"
RANGE = re.compile(r"(?: ?(?:x|%))?(?:,| to| and| or| of| x|, and) ")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
SPELT = {"two": "2", "three": "3", "four": "4", "five": "5"}
DISTANT = re.compile(r"`[^`]*`|\]\([^)]*\)|\b[A-Z]\w*\(\d+\)|\b(?:ECCV|APSys|VLDB|arXiv) [\d.]+(?:, \d{4})?")


@dataclass
class Marker:
    """A marker below a paragraph: it gives the sources of the paragraph's numbers."""

    stem: str
    sums: list[tuple[str, str]] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    known: dict[str, set[str]] = field(default_factory=dict)

    def numbers(self) -> set[str]:
        return {text for text, _ in self.sums} | self.given | {text for texts in self.known.values() for text in texts}


def made(words: str, folder: Path) -> str:
    """Returns the text between a table's marker and its end. Links are relative to the page's folder."""
    name, *rest = shlex.split(words)
    if name not in VIEWS:
        raise FigureError(f"{name}: there is no such view")
    files = [newest(word) for word in rest if "=" not in word]
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    try:
        lines = VIEWS[name](*(read(path) for path in files), **options)
    except (KeyError, IndexError, TypeError, ValueError, StopIteration, ZeroDivisionError) as error:
        raise FigureError(f"{words}: {type(error).__name__}: {error}") from error
    links = []
    for path in dict.fromkeys(files):
        picture = path.with_suffix(".svg")
        links.append(
            f"[{path.stem}]({relative(path, folder)})"
            + (f" ([picture]({relative(picture, folder)}))" if picture.exists() else "")
        )
    return "\n".join([*lines, "", *([", ".join(links)] if links else [])]).rstrip("\n") + "\n"


def relative(path: Path, folder: Path) -> str:
    common = next(parent for parent in path.parents if folder.is_relative_to(parent))
    return "../" * len(folder.relative_to(common).parts) + path.relative_to(common).as_posix()


def marker_of(stem: str, lines: str) -> Marker:
    found = Marker(stem)
    for line in filter(None, map(str.strip, lines.splitlines())):
        if line.startswith("set:"):
            found.given |= set(line[4:].split())
        elif match := re.fullmatch(r"known ([\w-]+):(.+)", line):
            found.known.setdefault(match[1], set()).update(match[2].split())
        elif match := re.fullmatch(r"(-?[\d.,]+) = (.+)", line):
            found.sums.append((match[1], match[2]))
        else:
            raise FigureError(f"{line}: neither NUMBER = EXPRESSION, nor set: or known NAME:")
    return found


def numbers_of(text: str) -> list[str]:
    """Returns the numbers of a text that need a source: numbers with a decimal point, with three digits and more, or before a unit.
    A number in a range or a list needs a source if the next number does.
    """
    plain = DATE.sub("", DISTANT.sub("", COMMENT.sub("", text)))
    found = list(NUMBER.finditer(plain))
    needed: list[str] = []
    next_needs = False
    for i, match in reversed(list(enumerate(found))):
        number, after = match[0], plain[match.end() :]
        between = plain[match.end() : found[i + 1].start()] if i + 1 < len(found) else ""
        needs = (
            "." in number or len(number) >= 3 or bool(re.match(UNITS, after)) or (next_needs and bool(RANGE.fullmatch(between)))
        )
        if needs:
            needed.append(number)
        next_needs = needs
    return needed[::-1]


def is_printed(text: str, value: float) -> bool:
    """Returns whether a value is printed as this text: rounded to the printed digits, or as a word."""
    plain = SPELT.get(text, text.replace(",", ""))
    digits = len(plain.partition(".")[2])
    return abs(value - float(plain)) <= 0.5 * 10.0**-digits + 1e-9


def marker_findings(marker: Marker, text: str) -> Iterator[str]:
    """Compares the numbers of a paragraph with its marker. Returns the findings."""
    needed = numbers_of(text)
    for number in needed:
        if number not in marker.numbers():
            yield f"{number} has no source: {' '.join(text.split())[:60]}"
    plain = COMMENT.sub("", text)
    for number in sorted(marker.numbers()):
        if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", plain):
            yield f"{number} has a source, and is not in: {' '.join(text.split())[:60]}"
    for number, expression in marker.sums:
        try:
            value = evaluate(expression, marker.stem)
        except FigureError as error:
            yield str(error)
            continue
        if not is_printed(number, value):
            yield f"{number} is {value:.5g}: {expression}"
