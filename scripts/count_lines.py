#!/usr/bin/env python3
"""Counts the code of the tracked files: lines, statements and tokens, by folder and room.

    scripts/count_lines.py [COMMIT [COMMIT]] [--tops]

Without a commit the files of the working tree are counted. With two commits the script prints before, after and difference; a `.`
names the working tree. --tops leaves out the rooms.

Lines are those that hold code of C, CUDA, Python, shell or CMake. Blank lines, comments and docstrings do not count. Generated
files and third-party code (NOT_OURS) do not count either. Statements and tokens do not change when lines are only re-flowed:

- statements: logical lines of Python; in C each `;` outside parentheses, each `{` and each directive; in CMake each command;
  in shell each line, joined at a backslash.
- tokens: names, numbers, strings and signs; in shell the words.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tarfile
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORKING_TREE = "."
# Generated files and third-party files. An entry that ends in a slash is a folder.
NOT_OURS = ("tests/augment/augment_golden.h", "third_party/kissfft/")

C_TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<directive>^[ \t]*\#)"
    r'|(?P<token>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*'
    r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||\#\#|::|[^\s\\\w])", re.DOTALL | re.MULTILINE)
CMAKE_TOKEN = re.compile(
    r'(?P<comment>#\[(=*)\[.*?\]\2\]|#[^\n]*)|(?P<token>"(?:\\.|[^"\\])*"|[()]|[^\s()#"]+)', re.DOTALL)


class Count(NamedTuple):
    lines: int = 0
    statements: int = 0
    tokens: int = 0

    def plus(self, other: Count, sign: int = 1) -> Count:
        return Count(*(mine + sign * its for mine, its in zip(self, other, strict=True)))


def lines_of(text: str, spans: list[tuple[int, int]]) -> int:
    """Returns how many lines the character spans touch. The spans are in order."""
    n_lines, line, at = 0, 0, 0
    last = -1
    for begin, end in spans:
        line += text.count("\n", at, begin)
        after = line + text.count("\n", begin, end)
        n_lines += after - max(line, last + 1) + 1
        last, line, at = after, after, end
    return n_lines


def count_c(text: str) -> Count:
    spans, statements, tokens, depth = [], 0, 0, 0
    for match in C_TOKEN.finditer(text):
        if match["comment"]:
            continue
        spans.append(match.span(match.lastgroup or 0))
        tokens += 1
        token = match[0]
        depth += (token == "(") - (token == ")")
        statements += bool(match["directive"]) or token == "{" or (token == ";" and depth <= 0)
    return Count(lines_of(text, spans), statements, tokens)


def count_cmake(text: str) -> Count:
    spans, statements, tokens, depth = [], 0, 0, 0
    for match in CMAKE_TOKEN.finditer(text):
        if match["comment"]:
            continue
        spans.append(match.span())
        tokens += 1
        statements += match[0] == "(" and depth == 0
        depth += (match[0] == "(") - (match[0] == ")")
    return Count(lines_of(text, spans), statements, tokens)


def count_shell(text: str) -> Count:
    """Counts words up to a comment. Lines of a here-document count as code."""
    lines, statements, tokens, goes_on = 0, 0, 0, False
    for line in text.splitlines():
        words = []
        for word in line.split():
            if word.startswith("#"):
                break
            words.append(word)
        lines += bool(words)
        statements += bool(words) and not goes_on
        goes_on = line.endswith("\\")
        tokens += sum(word != "\\" for word in words)
    return Count(lines, statements, tokens)


def count_python(text: str) -> Count:
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
    lines: set[int] = set()
    statements = tokens = 0
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in silent:
            continue
        if token.type != tokenize.NEWLINE:
            statement.append(token)
            continue
        if any(part.type != tokenize.STRING for part in statement):  # else a docstring
            statements += 1
            tokens += len(statement)
            for part in statement:
                lines.update(range(part.start[0], part.end[0] + 1))
        statement = []
    return Count(len(lines), statements, tokens)


COUNTERS: dict[str, Callable[[str], Count]] = {
    **dict.fromkeys((".c", ".h", ".cu", ".cuh"), count_c), **dict.fromkeys((".py", ".pyi"), count_python),
    ".sh": count_shell, ".cmake": count_cmake,
}


def counter_of(path: str, text: str) -> Callable[[str], Count] | None:
    if path.startswith(tuple(entry for entry in NOT_OURS if entry.endswith("/"))) or path in NOT_OURS:
        return None
    if PurePosixPath(path).name == "CMakeLists.txt":
        return count_cmake
    suffix = PurePosixPath(path).suffix
    if not suffix and re.match(r"#!.*\b(ba)?sh\b", text):
        return count_shell
    return COUNTERS.get(suffix)


def files_of(root: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yields path and text of each tracked file of a commit or of the working tree."""
    if commit == WORKING_TREE:
        names = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            path = root / name
            if path.is_file() and not path.is_symlink():
                yield name, path.read_bytes().decode(errors="replace")
        return
    packed = subprocess.run(["git", "-C", str(root), "archive", "--format=tar", commit], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content:
                yield member.name, content.read().decode(errors="replace")


def room_of(path: str) -> tuple[str, str]:
    """Returns the top folder of a file and the room in it. Files in the root have the top folder `.`; files directly in a top
    folder have the room "".
    """
    folders = PurePosixPath(path).parts[:-1]
    return (folders[0] if folders else ".", folders[1] if len(folders) > 1 else "")


def count(root: Path, commit: str) -> dict[tuple[str, str], Count]:
    found: dict[tuple[str, str], Count] = defaultdict(Count)
    for path, text in files_of(root, commit):
        counter = counter_of(path, text)
        if counter:
            found[room_of(path)] = found[room_of(path)].plus(counter(text))
    return found


def total(counts: list[dict[tuple[str, str], Count]], keys: list[tuple[str, str]]) -> list[Count]:
    """Returns for each of `counts` the sum over these rooms."""
    sums = []
    for each in counts:
        taken = [each[key] for key in keys if key in each]
        sums.append(Count(*map(sum, zip(*taken, strict=True))) if taken else Count())
    return sums


def rows(counts: list[dict[tuple[str, str], Count]], tops_only: bool) -> Iterator[tuple[str, list[Count]]]:
    """Yields a name with a count for each of `counts`: the rooms below their top folder, then the sum."""
    keys = sorted(set().union(*counts))
    for top in dict.fromkeys(key[0] for key in keys):
        inside = [key for key in keys if key[0] == top]
        yield top, total(counts, inside)
        for room in [] if tops_only else [key for key in inside if key[1]]:
            yield f"  {room[1]}", total(counts, [room])
    yield "all", total(counts, keys)


def table(counts: list[dict[tuple[str, str], Count]], tops_only: bool = False) -> str:
    """Returns the table as text. With two counts each measure has three columns: before, after and difference."""
    two = len(counts) == 2
    heads = ["before", "after", "difference"] if two else []
    out = [" " * 18 + "".join(f"{name:>{33 if two else 12}}" for name in Count._fields)]
    if two:
        out.append(" " * 18 + "".join(f"{head:>11}" for head in heads) * len(Count._fields))
    for name, found in rows(counts, tops_only):
        values = [*found, found[1].plus(found[0], -1)] if two else found
        cells = [each[i] for i in range(len(Count._fields)) for each in values]
        formats = ["11,", "11,", "+11,"] * len(Count._fields) if two else ["12,"] * len(cells)
        out.append(f"{name:<18}" + "".join(format(value, spec) for value, spec in zip(cells, formats, strict=True)))
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="*", default=[WORKING_TREE], metavar="COMMIT")
    parser.add_argument("--tops", action="store_true", help="top folders only")
    arguments = parser.parse_args()
    if len(arguments.commits) > 2:
        parser.error("one commit, or two")
    print(table([count(ROOT, commit) for commit in arguments.commits], arguments.tops))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
