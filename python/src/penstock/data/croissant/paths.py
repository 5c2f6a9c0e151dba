"""The subset of JSONPath that Croissant metadata use: `$`, names, indices and `[*]`. Filters, slices and descent (`..`) are
refused.

The grammar is that of RFC 9535, limited to child segments with one selector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r"\.(?P<name>[\w-]+)|\.(?P<all>\*)|\[\s*(?P<star>\*)\s*\]|\[\s*(?P<index>-?\d{1,9})\s*\]"
                   r"|\[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]|\[\s*\"(?P<double>(?:[^\"\\]|\\.)*)\"\s*\]")  # fmt: skip
MOST_STEPS = 64

Step = str | int | None  # a member's name, an index, or None for all elements


def steps_of(text: str) -> list[Step]:
    """Parses a path. Raises ValueError that names the unsupported part. A path without `$` also begins at the root value."""
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
    """Returns the values that a path selects. A name that an object lacks selects None. Any other missing part raises
    ValueError."""
    values = [value]
    for step in steps:
        values = [inner for each in values for inner in _step(each, step)]
    return values


def counts_at(value: Any, steps: list[Step]) -> list[list[int]]:
    """Returns for each [*] of a path how many values it selects in each parent value. A [*] that selects one value everywhere is
    left out."""
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
