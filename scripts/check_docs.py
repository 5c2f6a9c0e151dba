#!/usr/bin/env python3
"""Checks the documents: links and anchors of *.md resolve, and the files and `make` targets that they name exist. Each public
declaration in C has a comment and each comment a declaration, the public headers have enough comments, and each public name in
Python has a docstring. The users' documents have at most a given number of words.

    scripts/check_docs.py [--root DIR] [--words]

--words prints the words of each of the users' documents, the longest first.

Links to the web are not followed: a check must not depend on the network.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import headers
import python_names
from check_style import tracked

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
# A path in back-quotes must exist if it begins with one of the repository's folders.
NAMED = re.compile(r"`((?:src|include|tests|scripts|docs|examples|bench|python|cmake|tools)/[\w./-]+\w/?)`")
# Minimum ratio of lines of comments to lines of code over all public headers, because the headers are the reference of the C
# library.
COMMENT_TO_CODE = 1.5
TARGET = re.compile(r"`make ([a-z][a-z0-9-]*)")
# The users' documents: README.md and docs/, without formats, figures and internals. Words are counted as `wc -w` does, including
# code and the bars of tables. If a page makes them too many, it repeats something, or belongs to formats or internals.
NOT_FOR_USERS = ("docs/format-", "docs/figures", "docs/internals/")
WORDS_MOST = 45_000


def anchor_of(heading: str) -> str:
    """Returns the anchor that GitHub and similar sites make from a heading."""
    text = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", lambda match: match[1] or "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose_of(text: str) -> str:
    """Returns the text with fenced code blanked out. The line numbers stay the same."""
    return re.sub(r"^(```|~~~).*?^\1[^\n]*$", lambda match: "\n" * match[0].count("\n"), text,
                  flags=re.MULTILINE | re.DOTALL)


def anchors_of(path: Path) -> set[str]:
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose_of(path.read_text()), re.MULTILINE):
        base = anchor = anchor_of(heading)
        again = 0
        while anchor in anchors:
            again += 1
            anchor = f"{base}-{again}"
        anchors.add(anchor)
    return anchors


def check_link(document: Path, target: str) -> str | None:
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (document.parent / unquote(name)) if name else document
    if not path.exists():
        return f"{target}: there is no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors_of(path):
        return f"{target}: there is no such heading"
    return None


def check_document(root: Path, where: str, targets: set[str]) -> list[str]:
    findings = []
    document = root / where
    for number, line in enumerate(prose_of(document.read_text()).splitlines(), 1):
        for match in LINK.finditer(line):
            problem = check_link(document, match[1] or match[2])
            if problem:
                findings.append(f"{where}:{number}: {problem}")
        for name in NAMED.findall(line):
            if not any(root.glob(name.rstrip("/"))):
                findings.append(f"{where}:{number}: {name}: there is no such file")
        for target in TARGET.findall(line):
            if target not in targets:
                findings.append(f"{where}:{number}: make {target}: there is no such target")
    return findings


def header_lines(text: str) -> tuple[int, int]:
    """Counts the lines of code and of comments in a C header. A line with code and a comment counts as code; blank lines do not
    count.
    """
    n_code = n_comment = 0
    within = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if within:
            n_comment += within == "comment"
        elif line.startswith("/*"):
            n_comment += 1
            within = "comment"
        else:
            n_code += 1
            within = "remark" if "/*" in line else ""
        if "*/" in line:
            within = ""
    return n_code, n_comment


def check_headers(root: Path) -> list[str]:
    """Checks that each public declaration has a comment, and that public headers have enough comments."""
    findings, n_code, n_comment = [], 0, 0
    for header in headers.read_all(root):
        code, comment = header_lines(header.path.read_text())
        n_code, n_comment = n_code + code, n_comment + comment
        where = header.path.relative_to(root)
        findings += [f"{where}:{one.line}: {one.name} has no comment right before it"
                     for one in header.declarations if not one.comment]
        findings += [f"{where}:{line}: the comment belongs to nothing: a declaration has one comment, right before it"
                     for line in header.orphans]
    if n_comment < COMMENT_TO_CODE * n_code:
        findings.append(f"include: {n_comment} lines of comments for {n_code} of code, {COMMENT_TO_CODE} for each are wanted")
    return findings


def users_words(root: Path) -> dict[str, int]:
    """Returns the number of words of each of the users' documents."""
    pages = [name for name in tracked(root) if name == "README.md" or (name.startswith("docs/") and name.endswith(".md"))]
    return {name: len((root / name).read_text().split()) for name in pages if not name.startswith(NOT_FOR_USERS)}


def check_words(root: Path) -> list[str]:
    total = sum(users_words(root).values())
    return [f"docs: the users' documents have {total:,} words, {WORDS_MOST:,} are the most (--words)"] if total > WORDS_MOST else []


def check(root: Path) -> list[str]:
    makefile = root / "Makefile"
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile.read_text(), re.MULTILINE)) if makefile.exists() else set()
    findings = []
    for where in tracked(root):
        if where.endswith(".md"):
            findings += check_document(root, where, targets)
    return findings + check_words(root) + check_headers(root) + python_names.undocumented(root / "python" / "src" / "penstock")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--words", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.words:
        words = users_words(root)
        print("\n".join(f"{n:7,} {name}" for name, n in sorted(words.items(), key=lambda item: -item[1])))
        print(f"{sum(words.values()):7,} of {WORDS_MOST:,}")
        return 0
    findings = check(root)
    print("\n".join(findings) if findings else "docs: every link resolves")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
