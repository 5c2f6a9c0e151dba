"""Reads what benches left in bench/results: files by their names without a date, values by paths and sums of paths.

A path goes down a file: `groups[imagenet256].balanced`, `cells[group=imagenet,cores=1,peer=dali].images_per_s`. Brackets hold a
key, an index, or conditions on the rows of a list (`=` or `!=`; `|` separates values; `a.b` is a member of a member); `[]` takes
all rows. If one row matches, the value is a number; if several match, a list. An expression has paths, numbers, + - * / and
functions. A path may begin with another file and a colon: `share_zen3:cells[n_jobs=8,kind=dali].images_per_s`. Operators work on
lists item by item.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
DATED = re.compile(r"(.+)-\d{4}-\d\d-\d\d")
PATH = re.compile(r"(?<![\w.\]])(?:([a-z][\w-]*):)?((?:[A-Za-z_]\w*|\[[^\]]*\])(?:\.[A-Za-z_]\w*|\[[^\]]*\])*)(?![\w(\[.])")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class FigureError(Exception):
    """A marker that names no file or no value, or that cannot be computed."""


def newest(stem: str) -> Path:
    """Returns the newest results file with that name and a date. Files of other machines have other names."""
    dated = ((path, DATED.fullmatch(path.stem)) for path in RESULTS.glob(f"{stem}-*.json"))
    found = [path for path, match in dated if match and match[1] == stem]  # files of predictions are not results
    if not found:
        raise FigureError(f"bench/results has no {stem}-DATE.json")
    return max(found)


@cache
def read(path: Path) -> Any:
    return json.loads(path.read_text())


def results(stem: str) -> Any:
    return read(newest(stem))


def member(value: Any, name: str) -> Any:
    """Returns a member by its key or index, or None."""
    if isinstance(value, list):
        return value[int(name)] if re.fullmatch(r"-?\d+", name) and -len(value) <= int(name) < len(value) else None
    return value.get(name) if isinstance(value, dict) else None


def holds(row: Any, condition: str) -> bool:
    name, negated, wanted = re.fullmatch(r"([\w.]+)(!?)=(.*)", condition).groups()
    for part in name.split("."):
        row = member(row, part)
    shown = f"{row:g}" if isinstance(row, float) else str(row)
    return (shown in wanted.split("|")) != bool(negated)


def pick(value: Any, path: str) -> Any:
    """Returns the value at a path: a single value, or a list if the path goes through several rows."""
    rows = [value]
    for dotted, inside in re.findall(r"\.?([A-Za-z_]\w*)|\[([^\]]*)\]", path):
        if dotted or (inside and "=" not in inside):
            rows = [found for found in (member(row, dotted or inside) for row in rows) if found is not None]
        else:
            conditions = re.split(r",(?=[\w.]+!?=)", inside) if inside else []
            listed = [each for row in rows for each in (row.values() if isinstance(row, dict) else row)]
            rows = [row for row in listed if all(holds(row, condition) for condition in conditions)]
    if not rows:
        raise FigureError(f"{path}: there is no such value")
    return rows[0] if len(rows) == 1 else rows


def get(stem: str, path: str) -> Any:
    return pick(results(stem), path)


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def itemwise(function: Callable[..., Any], *values: Any) -> Any:
    length = max((len(value) for value in values if isinstance(value, list)), default=0)
    if not length:
        return function(*values)
    rows = [value if isinstance(value, list) else [value] * length for value in values]
    return [function(*row) for row in zip(*rows, strict=True)]


def listed(function: Callable[[list[float]], float]) -> Callable[..., float]:
    """Returns a function that takes either one list or several numbers."""
    return lambda *values: function([each for value in values for each in (value if isinstance(value, list) else [value])])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": listed(max),
    "min": listed(min),
    "median": listed(statistics.median),
    "mean": listed(statistics.fmean),
    "geometric": listed(geometric),
    "sum": listed(math.fsum),
    "count": listed(len),
    "abs": lambda value: itemwise(abs, value),
    "below": lambda values, bound: sum(each <= bound for each in values),
}


def compute(node: ast.AST, names: dict[str, Any]) -> Any:
    """Computes an expression of numbers, names, and the operators and functions of this module."""
    match node:
        case ast.Expression(body=body):
            return compute(body, names)
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return itemwise(operator.neg, compute(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return itemwise(OPERATORS[type(op)], compute(left, names), compute(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(compute(arg, names) for arg in args))
    raise FigureError(f"{ast.unparse(node)}: only paths, numbers, + - * / and {', '.join(FUNCTIONS)}")


def evaluate(expression: str, stem: str) -> float:
    """Returns the value of an expression. Paths without a file name belong to the file `stem`."""
    names: dict[str, Any] = {}

    def named(match: re.Match[str]) -> str:
        name = f"path_{len(names)}"
        names[name] = get(match[1] or stem, match[2])
        return name

    plain = PATH.sub(named, expression)
    try:
        found = compute(ast.parse(plain, mode="eval"), names)
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError) as error:
        raise FigureError(f"{expression}: {error}") from error
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise FigureError(f"{expression}: this is {str(found)[:60]}, no number")
    return float(found)
