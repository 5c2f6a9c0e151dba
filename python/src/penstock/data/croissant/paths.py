"""JSONPath, as far as metadata need it: `$`, names, indices and `[*]`. Filters, slices and descent (`..`) are refused by name.

The grammar is that of RFC 9535, of which this reads child segments with one selector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r"\.(?P<name>[\w-]+)|\.(?P<all>\*)|\[\s*(?P<star>\*)\s*\]|\[\s*(?P<index>-?\d{1,9})\s*\]"
                   r"|\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]|\[\s*\"(?P<double>(?:[^\"\\]|\\.)*)\"\s*\]")  # fmt: skip
MOST_STEPS = 64

Step = str | int | None  # a member's name, an index, or all


def steps_of(text: str) -> list[Step]:
    """Parses a path; raises ValueError, whose text says what is not read. A path without `$` begins at the value, too."""
    rest = text.strip()
    rest = rest[1:] if rest.startswith("$") else rest if rest[:1] in (".", "[") else f".{rest}"
    steps: list[Step] = []
    while rest:
        found = _STEP.match(rest)
        if found is None or len(steps) == MOST_STEPS:
            raise ValueError(f"the JSONPath {text[:80]!r} is not read from {rest[:20]!r} on: names, indices and [*] are")
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["all"] or found["star"]:
            steps.append(None)
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(found["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        rest = rest[found.end() :]
    return steps


def values_at(value: Any, steps: list[Step]) -> list[Any]:
    """Returns the values that a path leads to. A name that an object does not have leads to None; anything else that is not there
    raises ValueError."""
    values = [value]
    for step in steps:
        values = [inner for each in values for inner in _step(each, step)]
    return values


def counts_at(value: Any, steps: list[Step]) -> list[list[int]]:
    """Returns how many values each [*] gives, of each of the values above it. One [*] with one value everywhere counts as none."""
    values, found = [value], []
    for step in steps:
        inner = [_step(each, step) for each in values]
        if step is None:
            found.append(list(map(len, inner)))
        values = [each for several in inner for each in several]
    return [counts for counts in found if set(counts) != {1}]


def _step(value: Any, step: Step) -> list[Any]:
    if step is None:
        if isinstance(value, Mapping):
            return list(value.values())
        if isinstance(value, list):
            return value
        raise ValueError(f"[*] is asked of a {type(value).__name__}")
    if isinstance(step, int):
        if not isinstance(value, list) or not -len(value) <= step < len(value):
            raise ValueError(f"[{step}] is not there")
        return [value[step]]
    if not isinstance(value, Mapping):
        raise ValueError(f".{step} is asked of a {type(value).__name__}")
    return [value.get(step)]
