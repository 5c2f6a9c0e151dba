"""Reads the public C headers: declarations with the comments that describe them. The site's reference and its check use this.

A declaration's comment stands right before it, or after it in the same line. Macros without a blank line between them share the
comment before the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# A comment that is the title of the next part of a header: a single line, or a line with dashes below.
HEADING = re.compile(r"/\* [^.\n]*(\*/|\n \* ---)")
# Comments that belong to no declaration, by header.
GUARD = re.compile(r"^#define PENSTOCK_\w+_H$")
NAME = {
    "function": re.compile(r"\b(pst_\w+)\("),
    "type": re.compile(r"\(\*(pst_\w+)\)\(|\b(pst_\w+);$"),
    "struct": re.compile(r"^(?:struct|union) (pst_\w+) *\{"),
    "enum": re.compile(r"^enum (pst_\w+) *\{"),
    "macro": re.compile(r"^#define (\w+)"),
}


@dataclass
class Declaration:
    kind: str  # kind of the declaration: a key of NAME
    name: str
    line: int
    text: str  # the declaration as the header has it
    comment: str  # "" if there is none

    @property
    def signature(self) -> str:
        """Returns the declaration in one line, without comments and attributes."""
        bare = re.sub(r"/\*.*?\*/", " ", self.text, flags=re.DOTALL)
        bare = re.sub(r"\bPST_(?:WARN_UNUSED|PRINTF\([^)]*\))", " ", bare)
        return re.sub(r"\s+", " ", bare).replace("( ", "(").strip(" ;")


@dataclass
class Header:
    path: Path
    overview: str
    declarations: list[Declaration]
    orphans: list[int]  # line numbers of comments before another comment or a blank line: they describe no declaration


def comment_text(comment: str) -> str:
    """Returns the text of a C comment without its marks."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").splitlines()
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() if i else line.strip() for i, line in enumerate(lines)).strip()


def end_of(text: str, start: int) -> int:
    """Returns the end of the declaration that begins at `start`: after the semicolon outside of braces and comments, and after a
    comment in the same line. A macro ends with its last line."""
    if text[start] == "#":
        stop = re.compile(r"(?<!\\)\n|\Z").search(text, start)
        return stop.start() if stop else len(text)
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
        if text[at - 1] == ";" and depth == 0:
            break
    remark = re.compile(r"[ \t]*/\*(?:[^*\n]|\*(?!/))*\*/").match(text, at)
    return remark.end() if remark else at


def kind_of(text: str) -> tuple[str, str] | None:
    if text.startswith("#"):
        match = NAME["macro"].match(text)
        return ("macro", match[1]) if match and not GUARD.match(text) else None
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).strip()
    for kind in ("struct", "enum"):
        if match := NAME[kind].match(bare):
            return kind, match[1]
    kind = "type" if bare.startswith("typedef") else "function"
    match = NAME[kind].search(bare)
    return (kind, match[1] or match[2] if kind == "type" else match[1]) if match else None


def passed_over(text: str, at: int) -> bool:
    """Returns whether the line is not a declaration: a preprocessor line except #define, or a brace of extern "C"."""
    return text[at] == "}" or text.startswith('extern "C"', at) or (text[at] == "#" and not text.startswith("#define", at))


def read(path: Path) -> Header:
    """Reads a header. A comment before #if describes the declaration after it."""
    text = path.read_text()
    overview = text[: text.index("*/") + 2]
    declarations: list[Declaration] = []
    orphans: list[int] = []
    seen: set[tuple[str, str]] = set()
    at, comment = len(overview), ""
    while at < len(text):
        if text[at].isspace():
            stop = at + 1
        elif text.startswith("/*", at):
            stop = text.index("*/", at) + 2
            comment = text[at:stop]
            if re.compile(r"\s*/\*|\n\n|\s*\Z").match(text, stop) and not HEADING.match(comment):
                orphans.append(text.count("\n", 0, at) + 1)
        elif passed_over(text, at):
            stop = text.find("\n", at)
        else:
            stop = end_of(text, at)
            body = text[at:stop]
            found = kind_of(body)
            remark = re.search(r"/\*(?:[^*]|\*(?!/))*\*/\s*$", body)
            said = comment or (remark[0] if remark else "")
            if found and found not in seen:
                seen.add(found)
                declarations.append(Declaration(*found, text.count("\n", 0, at) + 1, body, comment_text(said)))
            if not text.startswith("#", at):
                comment = ""
        if text.startswith("\n\n", stop):
            comment = ""
        at = stop
    return Header(path, comment_text(overview), declarations, orphans)


def read_all(root: Path) -> list[Header]:
    return [read(path) for path in sorted((root / "include").rglob("*.h"))]
