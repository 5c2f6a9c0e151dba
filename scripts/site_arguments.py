"""The site's page of a loader's arguments by task, made from the installed package's table of arguments and docstrings
(build_site.py)."""

from __future__ import annotations

import itertools
import re
import textwrap

import penstock as ps
from penstock.loading.table import GROUPS, PARAMETERS, TABLE, Argument

HEAD = """# Arguments of a loader

All arguments of `ps.Loader`, by task; [its page](penstock.rst) says more. An argument with a dot is a member of a small object, and
the line below the table names the parameter whose value the object is: `ps.Loader(data, reading=ps.Reading(page_cache="direct"))`.
Parameters with a plain value take the object, too: `cache="8GiB"`, or `cache=ps.CacheUse("8GiB", form="pli-jpeg")`.

`ps.TorchDataset` takes those without "no" in the last column. A plan's file may set those with a * ([plan.md](../../docs/plan.md)).

Names of before 0.1 are read until 1.0, with a warning (`FutureWarning`) that gives the new ones. `scripts/rename_arguments.py` of
Penstock's sources writes programs anew.
"""


def described(doc: str | None) -> dict[str, str]:
    """Returns the texts of a docstring's Args section, by argument name."""
    section = textwrap.dedent((doc or "").split("Args:\n", 1)[1].split("\n\n", 1)[0])
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        names, _, text = entry.partition(":")
        found.update(dict.fromkeys(re.split(r",\s*", names.strip()), " ".join(text.split())))
    return found


def short(text: str) -> str:
    """Returns the first sentence of a text, in Markdown."""
    first = re.split(r"(?<=[^.0-9])\. (?=[A-Z\"`*])|(?<=[^.])\.$|(?<=\w); (?=None|a |an |0)", text, maxsplit=1)[0]
    plain = re.sub(r":\w+:`~?([\w.]+)`", lambda found: f"`{found[1].rsplit('.', 1)[-1]}`", first)
    return plain.replace("``", "`").replace("|", "\\|").rstrip(":;,")


DOCS = {"": described(ps.Loader.__doc__), **{name: described(group.__doc__) for name, group in GROUPS.items()}}


def meaning(row: Argument) -> str:
    return short(DOCS[row.of][row.member or row.name])


def line(rows: list[Argument]) -> str:
    """Returns the table row for arguments that share one description."""
    first = rows[0]
    names = ", ".join(f"`{row.shown}`{' *' if row.plan else ''}" for row in rows)
    defaults = ", ".join(dict.fromkeys("required" if row.name == "dataset" else f"`{row.default!r}`" for row in rows))
    return f"| {names} | {defaults} | {meaning(first)} | {torch(first)} |"


def torch(row: Argument) -> str:
    return "no" if row.torch and "{} is an argument" not in row.torch else ""


def tasks() -> str:
    text = []
    for task in dict.fromkeys(row.task for row in TABLE):
        rows = [row for row in TABLE if row.task == task]
        text.append(f"\n## {task}\n\n| argument | default | | torch |\n|---|---|---|---|")
        text.extend(line(list(alike)) for _, alike in itertools.groupby(rows, key=lambda row: (meaning(row), torch(row))))
        objects = [f"`{of}=ps.{GROUPS[of].__name__}(...)`" for of in dict.fromkeys(row.of for row in rows if row.of)]
        if objects:
            text.append(f"\nMembers of {', '.join(objects)}.")
    return "\n".join(text) + "\n"


def page() -> str:
    return HEAD + tasks() + f"\nParameters of `ps.Loader`: {len(PARAMETERS)}.\n"
