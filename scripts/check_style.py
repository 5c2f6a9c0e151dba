#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that a program can check: sizes, names, white space, labels, forbidden calls.

    scripts/check_style.py [--root DIR] [--lengths N]

A finding is printed as file:line: what; the exit status is 1 if there is any. --lengths shows the N longest functions.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FUNCTION_LINES = 100
FILE_LINES = 1000
COLUMNS = {".c": 100, ".h": 100, ".cu": 100, ".cuh": 100, ".py": 132, ".pyi": 132, ".sh": 132, ".cmake": 132}
SOURCE_TOPS = ("src", "include", "tools", "bench", "examples", "python", "tests", "scripts", "cmake", ".ci")

# Functions that may be longer than FUNCTION_LINES, each with its reason: inner loops that are one loop on purpose.
LONG_FUNCTIONS: dict[str, str] = {}
# Python functions that are longer than the limit, with their lines. None may grow; at present there is none.
LONG_IN_PYTHON: dict[str, int] = {}
# Names of files in src/<room>/ begin with the room's name, except in base.
UNPREFIXED_ROOMS = {"base"}

# Functions that only tests may call, because they have no bounds, hide errors, or end the user's process.
FORBIDDEN = {
    "strcpy": "no bound", "strcat": "no bound", "sprintf": "no bound", "vsprintf": "no bound", "gets": "no bound",
    "strncpy": "may not terminate", "alloca": "no bound",
}
FORBIDDEN_IN_LIBRARY = {
    "atoi": "hides errors", "atol": "hides errors", "atof": "hides errors", "strtok": "shared state",
    "rand": "shared state; use base/philox.h", "srand": "shared state", "localtime": "shared state",
    "gmtime": "shared state",
    "exit": "a library does not end its user's process", "_exit": "a library does not end its user's process",
    "abort": "a library does not end its user's process", "printf": "a library does not print",
    "puts": "a library does not print", "putchar": "a library does not print", "perror": "a library does not print",
    "system": "a library starts no programs",
}
# Memory goes through base/alloc.h so that limits and hooks hold.
MEMORY = {"malloc", "calloc", "realloc", "free", "strdup", "strndup", "aligned_alloc", "posix_memalign", "reallocarray"}

LABEL = re.compile(r"^\s*([A-Za-z_]\w*)\s*:(?!:)\s*(?:;|$)")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(psti_\w+)\s*\{")
NOT_FUNCTIONS = {"if", "for", "while", "switch", "do", "else", "return", "sizeof"}


@dataclass
class Function:
    name: str
    line: int
    n_lines: int
    is_static: bool


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def code_only(text: str) -> str:
    """Returns the text with comments, strings and preprocessor lines blanked out. Line numbers stay the same.

    A macro that expands to `static ...` is replaced by `static`: one that the file defines, or one named INLINE or PSTI_..._INLINE.
    """
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    text = token.sub(blank, text)
    directive = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
    macros = re.findall(r"define\s+(\w+)\s+(?:\\\s+)?static\b", "\n".join(directive.findall(text)))
    text = directive.sub(blank, text)
    return re.sub(rf"\b(?:{'|'.join([*macros, '(?:PSTI_[A-Z0-9_]+_)?INLINE'])})\b", "static", text)


def functions_of(code: str) -> list[Function]:
    """Finds function definitions at file scope. `code` is the result of code_only. The braces of extern "C" do not count as
    nesting.
    """
    code = re.sub(r"\bextern\s+\{", lambda match: match[0][:-1] + " ", code)
    found, depth, start_of_item, opened = [], 0, 0, None
    for match in re.finditer(r"[{};]", code):
        at, char = match.start(), match[0]
        if char == "{":
            if depth == 0:
                opened = head_of_function(code[start_of_item:at], start_of_item, code)
            depth += 1
        elif char == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if opened:
                    name, line, is_static = opened
                    found.append(Function(name, line, code.count("\n", 0, at) + 2 - line, is_static))
                opened, start_of_item = None, at + 1
        elif depth == 0:
            start_of_item = at + 1
    return found


def functions_of_python(text: str) -> list[Function]:
    """Finds all functions, also inner ones. Docstrings are not counted as lines, because they grow with the arguments that they
    describe.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                n_lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            found.append(Function(node.name, node.lineno, n_lines, node.name.startswith("_")))
    return found


def head_of_function(head: str, start: int, code: str) -> tuple[str, int, bool] | None:
    """Returns name, line and linkage if `head`, the text before a brace, is the head of a function. The last parenthesis of `head`
    closes the arguments. Macro calls before it at file scope are skipped.
    """
    bare = re.sub(r"__attribute__\s*\(\(.*?\)\)|\bPST\w*\s*\([^()]*\)(?=\s*$)", blank, head, flags=re.DOTALL).rstrip()
    if not bare.endswith(")"):
        return None
    depth, at = 0, len(bare)
    while at > 0:
        at -= 1
        depth += (bare[at] == ")") - (bare[at] == "(")
        if depth == 0:
            break
    match = re.search(r"([A-Za-z_]\w*)\s*$", bare[:at])
    begin = bare.rfind(")", 0, at) + 1
    if not match or "=" in bare[begin:at] or match[1] in NOT_FUNCTIONS:
        return None
    declaration = bare[begin:at]
    first = start + begin + len(declaration) - len(declaration.lstrip())
    return match[1], code.count("\n", 0, first) + 1, bool(re.search(r"\bstatic\b", declaration))


def check_white_space(where: str, text: str, suffix: str) -> list[str]:
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        if line != line.rstrip():
            findings.append(f"{where}:{number}: trailing space")
        if "\t" in line and not where.endswith("Makefile") and suffix != ".tsv":
            findings.append(f"{where}:{number}: tab")
        limit = COLUMNS.get(suffix)
        if limit and len(line) > limit:
            findings.append(f"{where}:{number}: {len(line)} columns, {limit} is the limit")
    if text and not text.endswith("\n"):
        findings.append(f"{where}:{text.count(chr(10)) + 1}: no newline at the end")
    if suffix in (".c", ".h", ".cu", ".cuh", ".py") and text.count("\n") > FILE_LINES:
        findings.append(f"{where}:1: {text.count(chr(10))} lines, {FILE_LINES} is the limit")
    return findings


def check_calls(where: str, code: str) -> list[str]:
    findings = []
    in_library = where.startswith("src/")
    banned = {} if where.startswith("tests/") else dict(FORBIDDEN)
    if in_library:
        banned.update(FORBIDDEN_IN_LIBRARY)
        if not where.startswith("src/base/alloc"):
            banned.update(dict.fromkeys(MEMORY, "memory comes from base/alloc.h"))
    keeps_labels = where.startswith(("src/", "tools/"))
    call = re.compile(r"(?<![\w.>])(" + "|".join(banned or ["(?!)"]) + r")\s*\(")
    for number, line in enumerate(code.splitlines(), 1):
        for match in call.finditer(line):
            findings.append(f"{where}:{number}: {match[1]}() is forbidden here: {banned[match[1]]}")
        label = LABEL.match(line)
        if keeps_labels and label and label[1] != "default" and not re.fullmatch(r"out|fail_\w+", label[1]):
            findings.append(f"{where}:{number}: label {label[1]}: only out and fail_<step> are used")
        if in_library and re.search(r"\bstd(?:out|err)\b", line):
            findings.append(f"{where}:{number}: a library does not print")
    return findings


def check_functions(where: str, functions: list[Function], public: set[str]) -> list[str]:
    findings = []
    for function in functions:
        if function.n_lines > FUNCTION_LINES and function.name not in LONG_FUNCTIONS:
            findings.append(f"{where}:{function.line}: {function.name} has {function.n_lines} lines, "
                            f"{FUNCTION_LINES} is the limit")
        if not where.startswith("src/"):
            continue
        if function.name.startswith("pst_") and function.name not in public:
            findings.append(f"{where}:{function.line}: {function.name} is not declared in include/penstock")
        room = where.split("/")[1]
        prefix = "psti_" if room in UNPREFIXED_ROOMS else f"psti_{room}_"
        if not function.is_static and not function.name.startswith(("pst_", prefix)):
            findings.append(f"{where}:{function.line}: {function.name}: functions seen by other files begin with "
                            f"{prefix} (or are static)")
        if function.is_static and function.name.startswith(("pst_", "psti_")) and where.endswith(".c"):
            findings.append(f"{where}:{function.line}: {function.name} is static: its name has no prefix")
    return findings


def check_python(where: str, text: str) -> list[str]:
    findings = []
    for function in functions_of_python(text):
        most = LONG_IN_PYTHON.get(function.name, FUNCTION_LINES)
        if function.n_lines > most:
            findings.append(f"{where}:{function.line}: {function.name} has {function.n_lines} lines, {most} is the limit")
        elif function.n_lines < most > FUNCTION_LINES:
            findings.append(f"{where}:{function.line}: {function.name} has {function.n_lines} lines now: "
                            "lower its entry in scripts/check_style.py")
    return findings


def check_guard(where: str, text: str) -> list[str]:
    """Checks that a header has an include guard, or that its first comment says that it is included several times."""
    code = re.sub(r"/\*.*?\*/", blank, text, flags=re.DOTALL)
    match = re.search(r"^\s*#\s*ifndef (\w+)\s*\n\s*#\s*define (\w+)\b", code)
    if match and match[1] == match[2]:
        good = match[1].startswith(("PENSTOCK_", "PST")) or where.startswith("tests/")
        return [] if good else [f"{where}:1: the guard's name begins with PENSTOCK_ or PST"]
    if "template" in text.split("*/")[0].lower():
        return []
    return [f"{where}:1: no include guard (a template says so in its first comment)"]


def check_head(where: str, text: str) -> list[str]:
    match = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    if not match or len(match[1].split()) < 4:
        return [f"{where}:1: a file opens with a comment that says what it is for"]
    return []


def check_file_name(where: str) -> list[str]:
    parts = where.split("/")
    if parts[0] != "src" or len(parts) < 3 or parts[1] in UNPREFIXED_ROOMS:
        return []
    room, name = parts[1], parts[-1]
    if name.startswith((f"{room}_", f"{room}.")):
        return []
    return [f"{where}:1: the name of a file in {room}/ begins with {room}_"]


def check_unique(names: list[str]) -> list[str]:
    seen: dict[str, str] = {}
    findings = []
    for where in names:
        base = where.rsplit("/", 1)[-1]
        if where.startswith("include/") or not base.endswith((".c", ".h")):
            continue  # a room's door may have the same name as the public header that it implements
        if base in seen:
            findings.append(f"{where}:1: the name {base} is taken by {seen[base]}")
        seen.setdefault(base, where)
    return findings


def check_global_names(functions: dict[str, list[Function]]) -> list[str]:
    """Finds functions that two files of the library define. Linking would fail, or take the wrong one."""
    seen: dict[str, str] = {}
    findings = []
    for where, found in functions.items():
        for function in found:
            if function.is_static or not (where.startswith("src/") and where.endswith(".c")):
                continue
            if seen.setdefault(function.name, where) != where:
                findings.append(f"{where}:{function.line}: {function.name} is defined in {seen[function.name]} too")
    return findings


def check_tags(codes: dict[str, str]) -> list[str]:
    """Finds struct tags that two rooms define with different members, because they confuse readers and debuggers."""
    seen: dict[str, str] = {}
    findings = []
    for where, code in codes.items():
        parts = where.split("/")
        if parts[0] != "src" or len(parts) < 3:
            continue
        for match in TAG.finditer(code):
            if seen.setdefault(match[1], where).split("/")[1] != parts[1]:
                line = code.count("\n", 0, match.start()) + 1
                findings.append(f"{where}:{line}: {match[1]} is defined in {seen[match[1]]} too")
    return findings


def tracked(root: Path) -> list[str]:
    """Returns the files to check: all that git tracks or would add. Without git: every file."""
    if (root / ".git").exists():
        output = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                                capture_output=True, text=True).stdout
        names = [name for name in output.split("\0") if name and (root / name).is_file()]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return sorted(names)


def is_text(where: str) -> bool:
    path = Path(where)
    known = (".c", ".h", ".py", ".pyi", ".sh", ".cmake", ".md", ".toml", ".in", ".map", ".txt", ".cu", ".cuh")
    in_house = "/" not in where or where.startswith(tuple(top + "/" for top in SOURCE_TOPS))
    is_data = "/corpus/" in where or where.startswith(("tests/data/", "tests/golden/containers/files/")) or where == "LICENSE"
    return in_house and not is_data and (path.suffix in known or path.name in ("Makefile", ".clang-format"))


def public_functions(root: Path) -> set[str]:
    names: set[str] = set()
    for header in (root / "include").rglob("*.h"):
        names.update(re.findall(r"\b(pst_\w+)\s*\(", code_only(header.read_text())))
    return names


def check(root: Path) -> list[str]:
    names = tracked(root)
    public = public_functions(root)
    findings = check_unique(names)
    functions: dict[str, list[Function]] = {}
    codes: dict[str, str] = {}
    for where in filter(is_text, names):
        text = (root / where).read_text(errors="replace")
        suffix = Path(where).suffix
        findings += check_white_space(where, text, suffix)
        if suffix == ".py":
            findings += check_python(where, text)
        if suffix not in (".c", ".h"):
            continue
        code = codes[where] = code_only(text)
        functions[where] = functions_of(code)
        findings += check_calls(where, code) + check_functions(where, functions[where], public)
        findings += check_file_name(where) + check_head(where, text)
        if suffix == ".h":
            findings += check_guard(where, text)
    return findings + check_global_names(functions) + check_tags(codes)


def longest(root: Path, n: int) -> list[str]:
    functions = []
    for where in tracked(root):
        text = (root / where).read_text() if where.endswith((".c", ".h", ".py")) else ""
        if where.startswith(("src/", "tools/", "python/")) and where.endswith((".c", ".h")):
            functions += [(f.n_lines, where, f.name) for f in functions_of(code_only(text))]
        elif where.endswith(".py"):
            functions += [(f.n_lines, where, f.name) for f in functions_of_python(text)]
    return [f"{n_lines:5d} {where} {name}" for n_lines, where, name in sorted(functions, reverse=True)[:n]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--lengths", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    if arguments.lengths:
        print("\n".join(longest(arguments.root, arguments.lengths)))
        return 0
    findings = check(arguments.root.resolve())
    print("\n".join(findings) if findings else "style: nothing to say")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
