#!/usr/bin/env python3
"""Writes calls of penstock.Loader and penstock.TorchDataset with the argument names of 0.1.

    python scripts/rename_arguments.py [--check] [--call NAME] FILE...

FILE: a Python file, or a Markdown file whose blocks of Python are changed. A keyword that is a member of an object now goes into
the
object: ``Loader(d, cache="8GiB", cache_form="pli")`` becomes ``Loader(d, cache=ps.CacheUse("8GiB", form="pli"))``. --call adds
functions that pass their keywords on to Loader. --check changes nothing, and ends with 1 if something would change.

Keywords in dicts (``options = {"cache_form": "pli"}``) are not seen: run your program with ``-W error::FutureWarning`` to find
them. Run this by a Python that has penstock, whose table of arguments has the names.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys

from penstock.loading.table import GROUPS, PLAIN, TABLE

# Parameter -> its object class, the member that takes a plain value ("": none), and the members by old keyword.
OBJECTS = {
    name: (
        group.__name__, "parts" if name == "forms" else PLAIN.get(name, ""),
        {row.old: row.member or row.name for row in TABLE if row.of == name and row.old},
    )
    for name, group in GROUPS.items()
}  # fmt: skip
WORDS = {row.old: row.name for row in TABLE if row.old and not row.of}
VALUES = {(row.old, f'"{old}"'): f'"{new}"' for row in TABLE for old, new in (row.old_values or {}).items()}
PLACE = {old: name for name, (_, _, members) in OBJECTS.items() for old in members}


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def module_of(call: ast.Call, text: str) -> str:
    """Returns the module name, with its dot, to write before an object such as CacheUse; it may be empty."""
    if isinstance(call.func, ast.Attribute) and name_of(call) == "Loader":
        return ast.unparse(call.func.value) + "."
    return "penstock." if re.search(r"^\s*import penstock$", text, re.M) else "ps."


class Source:
    """The text of a file, with offsets for places in the syntax tree. The tree counts bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        lines, columns = (node.lineno, node.end_lineno), (node.col_offset, node.end_col_offset)
        return self.starts[lines[0] - 1] + columns[0], self.starts[lines[1] - 1] + columns[1]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()


def objects_of(call: ast.Call, source: Source, module: str) -> dict[ast.keyword, str | None]:
    """Returns the new text for keywords of a call. None: the keyword is removed."""
    given = {keyword.arg: keyword for keyword in call.keywords if keyword.arg}
    changed: dict[ast.keyword, str | None] = {
        keyword: f"{WORDS[name]}={source.text(keyword.value)}" for name, keyword in given.items() if name in WORDS
    }
    for parameter in dict.fromkeys(PLACE[name] for name in given if name in PLACE):
        kind, plain, members = OBJECTS[parameter]
        parts = [f"{members[n]}={VALUES.get((n, source.text(k.value)), source.text(k.value))}" for n,
                 k in given.items() if n in members]
        mine = [keyword for name, keyword in given.items() if name in members or name == parameter]
        if parameter in given and plain:
            parts.insert(0, source.text(given[parameter].value))
        elif parameter in given and f"{kind}(" in source.text(given[parameter].value):
            continue  # both the old and the new form are given, which is an error
        changed[mine[0]] = f"{parameter}={module}{kind}({', '.join(parts)})"
        changed.update(dict.fromkeys(mine[1:]))
    return changed


def edits_of(call: ast.Call, source: Source, module: str) -> list[tuple[int, int, bytes]]:
    edits = []
    for keyword, text in objects_of(call, source, module).items():
        start, end = source.span(keyword)
        if text is None:  # removes the comma before it, too
            start = source.data.rindex(b",", 0, start)
        edits.append((start, end, (text or "").encode()))
    return edits


def renamed(text: str, calls: set[str]) -> str:
    """Returns a program with the new argument names. Nested calls are changed one at a time, the inner calls first."""
    while True:
        source = Source(text)
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and name_of(node) in calls]
        for call in reversed(found):
            if edits := edits_of(call, source, module_of(call, text)):
                break
        else:
            return text
        data = source.data
        for start, end, new in sorted(edits, reverse=True):
            data = data[:start] + new + data[end:]
        text = data.decode()


def in_markdown(text: str, calls: set[str]) -> str:
    def block(match: re.Match[str]) -> str:
        try:
            return match[1] + renamed(match[2], calls) + match[3]
        except SyntaxError:  # the block is not a whole program
            return match[0]

    return re.sub(r"(```python[^\n]*\n)(.*?)(```)", block, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes calls of penstock.Loader with the argument names of 0.1.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="Python or Markdown")
    parser.add_argument("--check", action="store_true", help="change nothing; 1: something would change")
    parser.add_argument("--call", action="append", default=[], metavar="NAME", help="a function that hands its keywords to Loader")
    given = parser.parse_args()
    calls, n = {"Loader", "TorchDataset", *given.call}, 0
    for name in given.files:
        path = pathlib.Path(name)
        before = path.read_text(encoding="utf-8")
        try:
            after = in_markdown(before, calls) if path.suffix == ".md" else renamed(before, calls)
        except SyntaxError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        if after != before:
            n += 1
            print(name)
            if not given.check:
                path.write_text(after, encoding="utf-8")
    return 1 if n and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
