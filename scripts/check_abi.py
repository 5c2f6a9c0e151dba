#!/usr/bin/env python3
"""Compares the library's ABI with the committed description, tests/headers/abi.txt.

    scripts/check_abi.py [BUILD_OR_LIBRARY] [--include DIR] [--update]

The description has a line for each public enumerator (its number), struct (its size), member (offset, size and type), function
(types of its result and its parameters) and symbol (its version node in src/penstock.map). The headers are preprocessed and
parsed here; numbers, sizes and offsets are the C compiler's, on a machine with pointers of 8 bytes. If a library is given, it
must export each symbol with its version. A difference is printed and the exit status is 1. --update rewrites the description;
the message of that commit must say why existing programs keep working.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import check_symbols

ROOT = Path(__file__).resolve().parent.parent
DESCRIPTION = ROOT / "tests" / "headers" / "abi.txt"
MAP = ROOT / "src" / "penstock.map"
COMPILER = os.environ.get("CC", "cc")
POINTER_TO_FUNCTION = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(")


def preprocessed(include: Path) -> str:
    """Returns the declarations of all public headers, without comments, attributes and declarations from other headers."""
    code = "".join(f"#include <penstock/{path.name}>\n" for path in sorted((include / "penstock").glob("*.h")))
    text = subprocess.run([COMPILER, "-std=gnu17", "-E", f"-I{include}", "-xc", "-"], input=code, check=True,
                          capture_output=True, text=True).stdout
    ours, lines = False, []
    for line in text.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            ours = marker[1].startswith(str(include))
        elif ours and not line.startswith("#"):
            lines.append(line)
    text = "\n".join(lines).replace("_Bool", "bool")
    return re.sub(r"__attribute__\s*\(\(.*?\)\)\s+", "", text)


def spaced(text: str) -> str:
    """Returns a type or declaration with a single space where C needs one and no other white space."""
    return re.sub(r"\s*\*\s*", " *", re.sub(r"\s+", " ", text)).replace("* *", "**").strip()


def split(parameters: str) -> list[str]:
    """Splits parameters at the commas outside parentheses."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in map(str.strip, parts) if part]


def without_name(declaration: str) -> str:
    """Returns the type of a parameter or member without its name. Names of parameters are not part of the ABI."""
    text = spaced(declaration)
    if POINTER_TO_FUNCTION.search(text):
        head, parameters = re.split(r"\)\s*\(", text, maxsplit=1)
        inner = ", ".join(map(without_name, split(parameters.rstrip(") "))))
        return f"{head[:head.index('(')].strip()} (*)({inner})"
    array = "".join(re.findall(r"\[.*?\]", text))
    text = re.sub(r"\s*\[.*?\]", "", text)
    if text == "void" or re.fullmatch(r"(const )?(struct|enum) \w+", text):
        return text + array
    return spaced(re.sub(r"\b\w+$", "", text)) + (" " + array if array else "")


def members(body: str) -> list[tuple[str, str]]:
    """Returns names and types of the members of a struct, in order."""
    found = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        callback = POINTER_TO_FUNCTION.search(declaration)
        if callback:
            found.append((callback[1], without_name(declaration)))
            continue
        first, *rest = split(declaration)
        match = re.match(r"(.*?)(\w+)\s*((?:\[.*\])?)$", spaced(first))
        assert match, declaration
        base = spaced(match[1])
        for name in [match[2] + match[3], *rest]:
            name, bracket, size = name.partition("[")
            found.append((name.strip(), base + (" " + bracket + size if bracket else "")))
    return found


def probe(text: str, include: Path) -> list[str]:
    """Returns the lines of enumerators, structs and members, with numbers that the C compiler computes."""
    prints = []
    for enum, body in re.findall(r"\benum (pst_\w+)\s*\{(.*?)\}", text, flags=re.S):
        prints += [f'printf("enumerator {enum} {name} %d\\n", (int){name});' for name in re.findall(r"\b(PST_\w+)\s*=", body)]
    for struct, body in re.findall(r"\bstruct (pst_\w+)\s*\{(.*?)\n\}", text, flags=re.S):
        prints.append(f'printf("struct {struct} %zu\\n", sizeof(struct {struct}));')
        for name, kind in members(body):
            at = f"offsetof(struct {struct}, {name}), sizeof(((struct {struct} *)0)->{name})"
            prints.append(f'printf("member {struct}.{name} at %zu, %zu bytes, {kind}\\n", {at});')
    source = ("#include <penstock/penstock.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n"
              + "\n".join(prints) + "\nreturn 0;\n}\n")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "probe"
        subprocess.run([COMPILER, "-std=gnu17", f"-I{include}", "-xc", "-", "-o", str(program)], input=source, text=True,
                       check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()


def functions(text: str) -> list[str]:
    """Returns the lines of functions and of callback types, sorted."""
    text = re.sub(r"\{[^{}]*\}", "", text)
    lines = []
    for result, name, parameters in re.findall(r"^((?!typedef)[a-z_][\w \t*\n]*?)\b(pst_\w+)\s*\(([^;]*)\)\s*;", text, flags=re.M):
        lines.append(f"function {name}: {spaced(result)} ({', '.join(map(without_name, split(parameters)))})")
    for result, name, parameters in re.findall(r"^typedef ([\w *]+)\(\*(\w+)\)\(([^;]*)\)\s*;", text, flags=re.M):
        lines.append(f"callback {name}: {spaced(result)} ({', '.join(map(without_name, split(parameters)))})")
    return sorted(lines)


def symbols(version_script: str) -> list[str]:
    """Returns lines of exported names, each with its version node."""
    text = re.sub(r"/\*.*?\*/", "", version_script, flags=re.S)
    return [f"symbol {name} {node}" for node, body in re.findall(r"(PENSTOCK_[\d.]+)\s*\{(.*?)\}", text, flags=re.S)
            for name in re.findall(r"\b(pst_[\w*]+);", body)]


def describe(include: Path) -> list[str]:
    text = preprocessed(include)
    return probe(text, include) + functions(text) + symbols(MAP.read_text())


def key(line: str) -> str:
    """Returns the subject of a line of the description: the name without its properties."""
    words = line.split()
    return " ".join(words[:3] if words[0] == "enumerator" else words[:2]).rstrip(":")


def compare(wanted: list[str], found: list[str]) -> list[str]:
    old, new = ({key(line): line for line in lines} for lines in (wanted, found))
    findings = [f"gone: {old[name]}" for name in old if name not in new]
    findings += [f"changed: {old[name]}\n     to: {new[name]}" for name in old if name in new and old[name] != new[name]]
    return findings + [f"new: {new[name]}" for name in new if name not in old]


def missing(description: list[str], library: Path) -> list[str]:
    """Returns the symbols of the description that the library does not export with the stated version."""
    exported = check_symbols.exported(library)
    wanted = [line.split()[1:] for line in description if line.startswith("symbol ")]
    return [f"{library.name} does not export {name}@{node}" for name, node in wanted if exported.get(name) != node]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path, nargs="?")
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--update", action="store_true", help="write the description anew")
    arguments = parser.parse_args()
    found = describe(arguments.include.resolve())
    if arguments.update:
        DESCRIPTION.write_text("\n".join(found) + "\n")
    findings = compare(DESCRIPTION.read_text().splitlines(), found)
    if arguments.library:
        library = arguments.library / "libpenstock.so" if arguments.library.is_dir() else arguments.library
        findings += missing(found, library)
    print("\n".join(findings) if findings else f"abi: {len(found)} facts are as described")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
