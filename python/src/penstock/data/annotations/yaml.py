"""Reads the subset of YAML that `data.yaml` uses, with the library's reader of YAML.

Tags in a file create no objects and run no code, and aliases are not allowed. Texts stay texts, so a class may be called `no` or
`1e3`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ... import _native
from ...base.files import read_file, text_of
from ...errors import CorruptError

_MOST_BYTES = 16 << 20
# A text of several lines, as under `download: |`, holds scripts and remarks. It is read as an empty text.
_BLOCK = re.compile(r"([A-Za-z_][\w-]*):[ \t]*[|>][-+0-9]*[ \t]*(#.*)?\r?")


@dataclass
class Node:
    """A value with its file and line. `value` is a dict from texts to nodes, a list of nodes, or a text."""

    path: str
    line: int
    value: Any
    is_plain: bool = False

    def fault(self, text: str) -> CorruptError:
        return CorruptError(f"{self.path!r}, line {self.line}: {text}", text=f"line {self.line}: {text}", file=self.path)

    @property
    def is_null(self) -> bool:
        return self.is_plain and self.value in ("", "~", "null", "Null", "NULL")

    def text(self, what: str) -> str:
        if not isinstance(self.value, str) or self.is_null:
            raise self.fault(f"{what}: a text is expected")
        return self.value

    def whole(self, what: str) -> int:
        if isinstance(self.value, str) and re.fullmatch(r"[0-9]{1,9}(\.0*)?", self.value):
            return int(float(self.value))
        raise self.fault(f"{what} is {self.value if isinstance(self.value, str) else 'a list or map'}, a whole number is expected")


def _node(path: str, given: tuple[str, int, Any]) -> Node:
    kind, line, value = given
    if kind == "list":
        return Node(path, line, [_node(path, each) for each in value])
    if kind != "map":
        return Node(path, line, value, kind == "plain")
    found: dict[str, Node] = {}
    for key, each in value:
        node = _node(path, each)
        if key in found:
            raise node.fault(f"the key {key!r} stands there twice: remove one")
        found[key] = node
    return Node(path, line, found)


def _without_blocks(text: str) -> str:
    lines, is_inside = text.split("\n"), False
    for i, line in enumerate(lines):
        if is_inside and (not line.strip() or line[0] in " \t"):
            lines[i] = ""
            continue
        found = _BLOCK.fullmatch(line)
        is_inside = found is not None
        if found is not None:
            lines[i] = f"{found[1]}:"
    return "\n".join(lines)


def read_yaml(path: str, what: str) -> dict[str, Node]:
    """Reads a YAML file whose root is a map. A byte order mark (BOM) is skipped."""
    text = text_of(read_file(path, what, _MOST_BYTES), path, ": save the file as UTF-8")
    root = _node(path, _native.yaml_tree(_without_blocks(text).encode(), path.encode("ascii", "backslashreplace").decode()))
    if not isinstance(root.value, dict):
        raise root.fault("keys with values are expected, such as names:")
    return root.value
