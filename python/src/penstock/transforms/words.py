"""Converts transforms to a line of words and to plain data, and reads them from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..base import files
from .plain import from_json, to_json

_WORDS_MAX = 40  # maximum number of letters of an operation's arguments that are shown


def read_transforms(path: str) -> Any:
    """Reads a JSON file of operations that :func:`penstock.transforms.to_json` wrote. Errors name the file."""
    text = files.read_file(path, "file of operations", files.MOST_BYTES)
    with files.of_file(path):
        return from_json(text)


def plain(chain: Any) -> Any:
    """Converts transforms to plain data, as in a file of operations. None stays None."""
    return None if chain is None else json.loads(to_json(chain))


def words(chain: Any) -> str:
    """Describes transforms, or their plain data, in one line: "Resize(256), CenterCrop(224), Normalize(...)"."""
    if not chain:
        return "none"
    if not isinstance(chain, (list, tuple, Mapping)) or not _is_plain(chain):
        chain = plain(chain)
    if isinstance(chain, Mapping):
        return "; ".join(f"{name}: {words(ops)}" for name, ops in chain.items())
    return ", ".join(map(_operation, chain))


def _is_plain(chain: Any) -> bool:
    parts = chain.values() if isinstance(chain, Mapping) else [chain]
    return all(isinstance(op, Mapping) for ops in parts for op in ops)


def _operation(op: Mapping[str, Any]) -> str:
    given = [f"{name}={_value(value)}" if name != "size" else _value(value) for name, value in op.items() if name != "op"]
    text = ", ".join(given)
    return f"{op['op']}({text if len(text) <= _WORDS_MAX else '...'})" if text else str(op["op"])


def _value(value: Any) -> str:
    if isinstance(value, list) and len(value) == 2 and not any(isinstance(part, (list, dict)) for part in value):
        return f"{value[0]}x{value[1]}" if all(isinstance(part, int) for part in value) else f"{value[0]}..{value[1]}"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)
