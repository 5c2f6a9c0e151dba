#!/usr/bin/env python3
"""Prints comments chosen by a hash, for readers who have not seen the code, to test whether each is clear.

    scripts/sample_comments.py [N] [--seed TEXT] [--under PATH ...] [--root DIR]

N comments (120) of the tracked files in C, CUDA and Python, or of those below PATH: blocks of comments and docstrings of four
words and more. Each has the file, the line, and the name of the function or type that it stands in or in front of. The default seed
is the hash of the last commit, so nobody can influence the choice. The same seed and files give the same comments in the same
order.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from check_style import tracked

WORDS_LEAST = 4
C_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".inc")
# Strings and character constants are matched, too, because a /* in a string is not a comment.
C_TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
C_NAME = re.compile(r"^(?:[\w*][\w\s*]*?\b(\w+)\s*\(|(?:typedef\s+)?(?:struct|enum|union)\s+(\w+)|#define\s+(\w+))", re.MULTILINE)
# The names that a line declares before its trailing comment: members of a struct, constants of an enum.
MEMBER = re.compile(r"\b([A-Za-z_]\w*)(?:\[[^]]*\])*\s*(?=[,;]|=[^=;]*[,;])(?!.*\()")
TOOLS = re.compile(r"^(?:noqa|type: ignore|fmt:|NOLINT|codespell:|clang-format)")


class Comment(NamedTuple):
    path: str
    line: int
    name: str
    text: str


def plain(text: str) -> str:
    """Returns the words of a C comment without its frame."""
    return " ".join(re.sub(r"^\s*\*", " ", text[2:-2], flags=re.MULTILINE).split())


def comments_of_c(path: str, text: str) -> Iterator[Comment]:
    names = [(match.start(), next(filter(None, match.groups()))) for match in C_NAME.finditer(text)]
    for match in C_TOKEN.finditer(text):
        if match[0].startswith("/*"):
            start = text.rfind("\n", 0, match.start()) + 1
            within = text[start : match.start()].strip() or start != match.start()
            before = [name for at, name in names if at < match.start()]
            after = [name for at, name in names if at > match.start()]
            of = [] if match.start() == 0 else before[-1:] if within else after[:1]
            name = ".".join(of + MEMBER.findall(text[start : match.start()]))
            yield Comment(path, text.count("\n", 0, match.start()) + 1, name, plain(match[0]))


def comments_of_python(path: str, text: str) -> Iterator[Comment]:
    places: list[tuple[int, int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = ""
            if not isinstance(node, ast.Module):
                name = node.name
                places.append((node.lineno, node.end_lineno or node.lineno, name))
            doc = ast.get_docstring(node)
            if doc:
                yield Comment(path, node.body[0].lineno, name, " ".join(doc.split()))
    block: list[tuple[int, str]] = []
    for token in [*tokenize.generate_tokens(io.StringIO(text).readline)]:
        if token.type == tokenize.COMMENT:
            own = not token.line[: token.start[1]].strip()
            if block and not (own and token.start[0] == block[-1][0] + 1):
                yield python_block(path, block, places)
                block = []
            block.append((token.start[0], token.string.lstrip("#:! ")))
    if block:
        yield python_block(path, block, places)


def python_block(path: str, block: list[tuple[int, str]], places: list[tuple[int, int, str]]) -> Comment:
    line = block[0][0]
    inner = [place for place in places if place[0] <= line <= place[1]]
    return Comment(path, line, max(inner)[2] if inner else "", " ".join(text for _, text in block))


def comments(root: Path, under: list[str]) -> list[Comment]:
    """Returns all comments that may be chosen."""
    found: list[Comment] = []
    for name in tracked(root):
        if under and not any(name == part or name.startswith(part.rstrip("/") + "/") for part in under):
            continue
        read = comments_of_python if name.endswith(".py") else comments_of_c if name.endswith(C_SUFFIXES) else None
        if read and "third_party/" not in name:
            found += read(name, (root / name).read_text(encoding="utf-8"))
    return [one for one in found if len(one.text.split()) >= WORDS_LEAST and not TOOLS.match(one.text)]


def chosen(found: list[Comment], n: int, seed: str) -> list[Comment]:
    """Returns n of the comments: those with the lowest hashes of seed and comment."""
    return sorted(found, key=lambda one: hashlib.sha256(f"{seed}\n{one.path}\n{one.line}\n{one.text}".encode()).digest())[:n]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", type=int, nargs="?", default=120)
    parser.add_argument("--seed")
    parser.add_argument("--under", nargs="+", default=[])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    seed = arguments.seed
    if seed is None:
        done = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], text=True, stdout=subprocess.PIPE, check=True)
        seed = done.stdout.strip()
    found = comments(root, arguments.under)
    print(f"{min(arguments.n, len(found))} of {len(found)} comments, seed {seed}")
    for i, one in enumerate(chosen(found, arguments.n, seed), 1):
        print(f"\n{i}. {one.path}:{one.line}  {one.name}")
        print(textwrap.fill(one.text, 110, initial_indent="   ", subsequent_indent="   ", break_long_words=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
