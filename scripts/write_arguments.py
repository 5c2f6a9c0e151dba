#!/usr/bin/env python3
"""Writes docs/arguments.md, the page of a loader's arguments, from the table and the docstrings of the installed package.

    python scripts/write_arguments.py [--check]

--check writes nothing, and ends with 1 if the page is not as it would be written.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import penstock as ps
from penstock.loading import table
from penstock.loading.table import GROUPS, PARAMETERS, TABLE, Argument

PAGE = Path(__file__).resolve().parent.parent / "docs" / "arguments.md"
HEAD = """# Arguments of a loader

All arguments of `ps.Loader`, by task. An argument with a dot is a member of a small object, and the line below the table names the
parameter whose value the object is: `ps.Loader(data,
                                                reading=ps.Reading(page_cache="direct"))`. Parameters with a plain value take the
object, too: `cache="8GiB"`, or `cache=ps.CacheUse("8GiB", form="pli-jpeg")`. `help(ps.Loader)` and `help(ps.CacheUse)` say more.

`ps.TorchDataset` takes those without "no" in the last column. `loader.config()` returns all of them as plain data, and
`ps.Loader.from_config(config)` makes the same loader again ([python.md](python.md)). A plan's file may set those with a *
([plan.md](plan.md)).

Penstock before 0.1 had other names. They are read until 1.0, with a warning (`FutureWarning`) that gives the new ones; the last
table lists them. `python scripts/rename_arguments.py FILE...` of Penstock's sources writes programs anew.

This page is written by `scripts/write_arguments.py`.
"""


def described(doc: str | None) -> dict[str, str]:
    """Returns the texts of a docstring's section Args by name."""
    section = textwrap.dedent((doc or "").split("Args:\n", 1)[1].split("\n\n", 1)[0])
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        names, _, text = entry.partition(":")
        found.update(dict.fromkeys(re.split(r",\s*", names.strip()), " ".join(text.split())))
    return found


def short(text: str) -> str:
    """Returns a text up to the end of its first sentence, in Markdown."""
    first = re.split(r"(?<=[^.0-9])\. (?=[A-Z\"`*])|(?<=[^.])\.$|(?<=\w); (?=None|a |an |0)", text, maxsplit=1)[0]
    plain = re.sub(r":\w+:`~?([\w.]+)`", lambda found: f"`{found[1].rsplit('.', 1)[-1]}`", first)
    return plain.replace("``", "`").replace("|", "\\|").rstrip(":;,")


DOCS = {"": described(ps.Loader.__doc__), **{name: described(group.__doc__) for name, group in GROUPS.items()}}


def meaning(row: Argument) -> str:
    return short(DOCS[row.of][row.member or row.name])


def line(row: Argument) -> str:
    name = f"`{row.shown}`{' *' if row.plan else ''}"
    default = "required" if row.name == "dataset" else f"`{row.default!r}`"
    return f"| {name} | {default} | {meaning(row)} | {'no' if row.torch and '{} is an argument' not in row.torch else ''} |"


def tasks() -> str:
    text = []
    for task in dict.fromkeys(row.task for row in TABLE):
        rows = [row for row in TABLE if row.task == task]
        text.append(f"\n## {task}\n\n| argument | default | | torch |\n|---|---|---|---|")
        text.extend(map(line, rows))
        for of in dict.fromkeys(row.of for row in rows if row.of):
            group = GROUPS[of].__name__
            members = ", ".join(row.member or row.name for row in TABLE if row.of == of)
            text.append(f"\n`{of}=ps.{group}(...)`: {members}.")
    return "\n".join(text) + "\n"


def renames() -> str:
    changed = [row for row in TABLE if row.old]
    lines = [f"| `{row.old}` | `{table.said_now(row)}` |" for row in changed]
    return "\n## Names before 0.1\n\n| before | now |\n|---|---|\n" + "\n".join(lines) + "\n"


def page() -> str:
    return HEAD + tasks() + renames() + f"\nParameters of `ps.Loader`: {len(PARAMETERS)}.\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
