"""The options of the commands that Python runs: argparse with the help and the errors of the C program."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple, NoReturn

from ..base import options as _options
from ..data.dataset import Dataset
from ..errors import ArgumentError
from .output import columns as _columns

_COLUMNS_MOST, _COLUMNS_LEAST, _COLUMNS_WIDE, _INDENT, _INDENT_NARROW = 100, 20, 60, 29, 8


class UsageError(ArgumentError):
    """The words of the command line are wrong."""

    default_status = "USAGE"


class HelpAsked(Exception):
    """Raised for --help. str() of it is the text of the help."""


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *unused: Any) -> None:
        raise HelpAsked(parser.format_help())


class Row(NamedTuple):
    """One option in help, manual pages and shell completion. Its attributes are those of an entry of `penstock --describe`."""

    group: str
    name: str
    letter: str | None
    argument: str | None
    values: list[str]
    several: bool
    default: str | None
    help: str


class Parser(argparse.ArgumentParser):
    """Parses the options of one command.

    usage: text after "penstock " in the first line of the help. about: paragraphs of the help. examples: commands, one a line.
    operands: names of the positional arguments. n_least: how many of the operands must be given; the others are None if they are
    missing.
    """

    def __init__(self, usage: str, about: str, examples: str, operands: Sequence[str], n_least: int) -> None:
        super().__init__(prog=f"penstock {usage.partition(' ')[0]}", add_help=False, allow_abbrev=False, exit_on_error=False)
        self._usage, self._about, self._examples = usage, about, examples
        self._operands, self._n_least = operands, n_least
        self._rows: list[Row] = []
        self._heading = "options"
        self._names: list[str] = []

    def heading(self, title: str) -> None:
        """Sets the heading that the following options stand under in the help."""
        self._heading = title

    def option(
        self, *names: str, text: str | None, shown: str | None = None, group: Any = None, several: Sequence[str] = (), **more: Any
    ) -> None:
        """Adds an option.

        names: "--name", and its short form "-n" if it has one. text: help of the option; None: an old name, which the help leaves
        out. shown: the default, in words. group: a group of which at most one option may be given. several: the words that the
        comma-separated value may contain. more: arguments of argparse.
        """
        action = (group or self).add_argument(*names, **more)
        self._names.append(names[0])
        if text is not None:
            values = [*map(str, action.choices or several)]
            letter = names[1][1:] if len(names) > 1 else None
            argument = str(action.metavar) if action.metavar else None
            row = Row(self._heading, names[0][2:], letter, argument, values, bool(several), shown, text)
            self._rows.append(row)

    def common(self) -> None:
        """Adds the options that every command has. Call it last."""
        self.heading("options of every verb")
        self.option("--json", action="store_true", text="results and errors as JSON on stdout")
        self.option("--quiet", action="store_true", text="no progress and no remarks on stderr")
        self.option("--help", "-h", action=_Help, nargs=0, text="this text")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses the words after the command's name. UsageError: they are wrong. HelpAsked: --help is among them."""
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
        near = _options.near(word.partition("=")[0], self._names) if word.startswith("--") else None
        raise UsageError(f"no option {word}: " + (f"did you mean {near}?" if near else f"see {self.prog} --help"))

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def describe(self) -> dict[str, Any]:
        """Returns the table of options in the format of `penstock --describe`."""
        rows = [row._asdict() for row in self._rows]
        return {"usage": self._usage, "about": self._about, "examples": self._examples, "options": rows}

    def format_help(self) -> str:
        width = min(max(_columns(1, _COLUMNS_MOST), _COLUMNS_LEAST), _COLUMNS_MOST)
        about = [textwrap.fill(part, width, break_on_hyphens=False) for part in self._about.split("\n\n")]
        usage = textwrap.fill(f"usage: penstock {self._usage}", width, subsequent_indent=" " * 16, break_on_hyphens=False)
        lines = [usage, "", "\n\n".join(about)]
        for title, rows in groupby(self._rows, lambda row: row.group):
            lines += ["", f"{title}:", *(_shown(row, width) for row in rows)]
        return "\n".join([*lines, "", "examples:", *(_command(line, width) for line in self._examples.splitlines())])


def _shown(row: Row, width: int) -> str:
    """Returns the help lines of one option."""
    letter = f"-{row.letter}, " if row.letter else "    "
    left = f"  {letter}--{row.name}{f' {row.argument}' if row.argument else ''}"
    text = row.help if row.default is None else f"{row.help} (default {row.default})"
    indent = " " * (_INDENT_NARROW if width < _COLUMNS_WIDE else _INDENT)
    beside = width >= _COLUMNS_WIDE and len(left) < _INDENT
    first = f"{left:{_INDENT}s}" if beside else indent
    lines = textwrap.fill(text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return lines if beside else f"{left}\n{lines}"


def _command(line: str, width: int) -> str:
    """Splits a long command into lines for the shell. Lines end with a backslash, and no quoted word is split."""
    lines, at = [""], 2
    for word in re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", line):
        if lines[-1] and at + 1 + len(word) > width - 2:
            lines.append("")
            at = 6
        at += len(word) + bool(lines[-1])
        lines[-1] += f"{' ' * bool(lines[-1])}{word}"
    return "  " + " \\\n      ".join(lines)


def whole(text: str) -> int:
    """argparse type: converts the text of a whole number, 0 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f'"{text}": a whole number is expected')
    return int(text)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}": a number is expected') from None


def add_source(parser: Parser) -> None:
    """Adds the options that say how to read a plain folder or containers of other programs."""
    parser.heading("plain folders")
    parser.option("--labels", metavar="FILE", shown="one class per sub-folder",
                  text="file of CSV, JSON lines, or lines of path and label that names the images of a plain folder and their "
                  "fields")  # fmt: skip
    parser.option("--masks", metavar="COLUMNS", shown="mask, mask_..., ..._mask",
                  text="other columns of the label file that name mask files, comma-separated")  # fmt: skip
    alone = "the images alone: sub-folders are no classes, and texts with boxes beside the images are left out"
    parser.option("--ignore-labels", action="store_true", text=alone)
    parser.option("--allow-unreadable", action="store_true",
                  text="leave out files and folders of a plain folder that cannot be read or named")  # fmt: skip
    parser.heading("files of others")
    parser.option("--split", metavar="NAME", shown="all",
                  text="of files of others, and of some annotations: the split to read, such as train")  # fmt: skip
    parser.option("--members", metavar="RULES", text="of files of others: what members are, by suffix (docs/tar-fields.md), or "
                  "columns, by name (docs/table-fields.md): jpg=image,cls=label:int,pkl=-")  # fmt: skip


def open_source(given: argparse.Namespace) -> Dataset:
    """Opens ``given.path`` with the options of :func:`add_source`."""
    return Dataset(
        given.path,
        labels=given.labels,
        masks=words_of(given.masks) or (),
        allow_unreadable=given.allow_unreadable,
        ignore_labels=given.ignore_labels,
        split=given.split,
        fields=members_of(given.members),
    )


def add_force(parser: Parser) -> None:
    parser.option("--force", action="store_true", text="write over files that are there, without a question")


def members_of(text: str | None) -> dict[str, Any] | None:
    """Returns the rules that --members gives, as the argument of :class:`penstock.Dataset`; None if there are none."""
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
    """Splits a comma-separated list. None stays None."""
    return None if text is None else tuple(filter(None, (part.strip() for part in text.split(","))))
