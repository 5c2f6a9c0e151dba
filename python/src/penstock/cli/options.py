"""Options of the verbs that Python runs: argparse, with the help and the errors that the program's other verbs have."""

from __future__ import annotations

import argparse
import difflib
import os
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ..errors import ArgumentError

_COLUMNS_MOST, _COLUMNS_LEAST, _INDENT = 100, 50, 29


class UsageError(ArgumentError):
    """The words of a command are wrong."""

    default_status = "USAGE"


class HelpAsked(Exception):
    """--help was given; str() is the help."""


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *unused: Any) -> None:
        raise HelpAsked(parser.format_help())


class Parser(argparse.ArgumentParser):
    """The options of a verb.

    usage: what follows "penstock " in the first line of the help. about: paragraphs. example: a command. operands: their names
    in what is parsed. n_least: how many of them must be given; the others are None.
    """

    def __init__(self, usage: str, about: str, example: str, operands: Sequence[str], n_least: int) -> None:
        super().__init__(prog=f"penstock {usage.partition(' ')[0]}", add_help=False, allow_abbrev=False, exit_on_error=False)
        self._usage, self._about, self._example = usage, about, example
        self._operands, self._n_least = operands, n_least
        self._rows: list[tuple[str, str]] = []  # of the help
        self._names: list[str] = []

    def option(self, *names: str, text: str | None, shown: str | None = None, group: Any = None, **more: Any) -> None:
        """Adds an option.

        names: "--name", and its letter "-n" if it has one. text: what it does; None: an old name, which the help leaves out.
        shown: the default, in words. group: of options of which one at most may be given. more: of argparse.
        """
        action = (group or self).add_argument(*names, **more)
        self._names.append(names[0])
        if text is not None:
            letter = f"{names[1]}, " if len(names) > 1 else "    "
            argument = f" {action.metavar}" if action.metavar else ""
            self._rows.append((f"{letter}{names[0]}{argument}", text if shown is None else f"{text} (default {shown})"))

    def common(self) -> None:
        """Adds the options that every verb has; they come last."""
        self.option("--json", action="store_true", text="results and errors as JSON on stdout")
        self.option("--quiet", action="store_true", text="no progress and no remarks on stderr")
        self.option("--help", "-h", action=_Help, nargs=0, text="this text")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses the words after the verb. UsageError: they are wrong. HelpAsked: --help is among them."""
        before = list(takewhile(lambda word: word != "--", words))
        for word in before:
            if word.startswith("--") and word.partition("=")[0] not in self._names:
                self._unknown(word)
        try:
            given, rest = self.parse_known_args(before)
        except argparse.ArgumentError as error:
            raise UsageError(f"{(error.argument_name or '').partition('/')[0]}: {error.message}") from None
        for word in rest:
            if word.startswith("-") and word != "-":
                self._unknown(word)
        found = [*rest, *words[len(before) + 1 :]]
        if len(found) > len(self._operands):
            raise UsageError(f"one operand too many: {found[len(self._operands)]}")
        if len(found) < self._n_least:
            raise UsageError(f"an operand is missing: penstock {self._usage}")
        for i, name in enumerate(self._operands):
            setattr(given, name, found[i] if i < len(found) else None)
        return given

    def _unknown(self, word: str) -> NoReturn:
        near = difflib.get_close_matches(word.partition("=")[0], self._names, 1) if word.startswith("--") else []
        raise UsageError(f"no option {word}: " + (f"did you mean {near[0]}?" if near else f"see {self.prog} --help"))

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def format_help(self) -> str:
        columns = _columns()
        about = [textwrap.fill(part, columns, break_on_hyphens=False) for part in self._about.split("\n\n")]
        return "\n".join([f"usage: penstock {self._usage}", "", "\n\n".join(about), "", "options:",
                          *(_row(left, text, columns) for left, text in self._rows),
                          "", "example:", f"  {self._example}"])  # fmt: skip


def _row(left: str, text: str, columns: int) -> str:
    """Returns the lines of one option in the help."""
    return textwrap.fill(text, columns, initial_indent=f"  {left:26s} ", subsequent_indent=" " * _INDENT, break_on_hyphens=False)


def _columns() -> int:
    """Returns the columns of the terminal that help is written to."""
    try:
        found = os.get_terminal_size(1).columns
    except OSError:
        found = 0
    return _COLUMNS_MOST if found == 0 else min(max(found, _COLUMNS_LEAST), _COLUMNS_MOST)


def whole(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f'"{text}": a whole number is expected')
    return int(text)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}": a number is expected') from None


def add_source(parser: Parser) -> None:
    """Adds the options that say how to read a plain folder."""
    parser.option("--labels", metavar="FILE", shown="one class per sub-folder",
                  text="CSV or JSON-lines file that names the images of a plain folder and their fields")  # fmt: skip
    parser.option("--masks", metavar="COLUMNS", shown="mask, mask_..., ..._mask",
                  text="other columns of the label file that name mask files, comma-separated")  # fmt: skip
    alone = "the images alone: sub-folders are no classes, and texts with boxes beside the images are left out"
    parser.option("--ignore-labels", action="store_true", text=alone)
    parser.option("--allow-unreadable", action="store_true",
                  text="leave out files and folders of a plain folder that cannot be read or named")  # fmt: skip
    parser.option("--split", metavar="NAME", text="of files of others: the split to read, such as train")
    parser.option("--members", metavar="RULES", text="of files of others: what members are, by suffix (docs/tar-fields.md), or "
                  "columns, by name (docs/table-fields.md): jpg=image,cls=label:int,pkl=-")  # fmt: skip


def members_of(text: str | None) -> dict[str, Any] | None:
    """Returns the rules of --members, as :class:`penstock.Dataset` has them; None if there are none."""
    if text is None:
        return None
    found: dict[str, Any] = {}
    for word in words_of(text) or ():
        suffix, is_rule, rule = word.partition("=")
        name, *more = rule.split(":")
        if not is_rule or not suffix or not rule or len(more) > 2 or (len(more) == 2 and not more[1].isdecimal()):
            raise ArgumentError(f"--members: {word!r} is not SUFFIX=NAME, SUFFIX=NAME:TYPE, SUFFIX=NAME:int:CLASSES or SUFFIX=-")
        found[suffix] = None if rule == "-" else (name or None, *more[:1], *map(int, more[1:])) if more else name
    return found


def words_of(text: str | None) -> tuple[str, ...] | None:
    """Returns the parts of a list with commas; None if there is none."""
    return None if text is None else tuple(filter(None, (part.strip() for part in text.split(","))))
