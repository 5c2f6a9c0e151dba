"""Reads a metadataset of Megatron-Energon as a mixture. It is a YAML file that names data sets and their weights.

A metadataset has splits. A split is one data set (``path``), data sets with weights (``blend``, in the first version of the format
``datasets``), or data sets that are repeated in an epoch (``blend_epochized``). A path may name another metadataset. A subset is a
range of a data set's samples. A subset of an entry with several data sets is that range of each of them. An unsupported key is
refused with its name and line, because ignoring it would give other samples than Energon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import files
from ..errors import PenstockError
from .annotations.yaml import Node, read_yaml
from .dataset import Dataset
from .mixture_weights import is_weighted
from .mixture_weights import rule as check_rule

_DEEPEST = 16  # levels of metadatasets that name metadatasets
_HEAD_NBYTES = 1 << 16
_BLENDS = {"MetadatasetV2": ("blend", "blend_epochized"), "Metadataset": ("datasets",)}
# Keys that are allowed only with these values. The values ask for what this reader does anyway.
_USUAL = {"dataset_config": "dataset.yaml", "split_config": "split.yaml", "shuffle_over_epochs_multiplier": "1"}
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?")


class Range(NamedTuple):
    """Begin and end of a subset: fractions of a data set (0 to 1), or sample numbers."""

    first: float
    end: float
    is_relative: bool


def chosen(ranges: Sequence[Range], n: int) -> range:
    """Returns the sample numbers that nested subsets select from a data set of n samples. ranges: the innermost subset first.

    The result equals Energon's exactly: all fractions are combined to one range in floats, and rounded once at the end.
    """
    numbers, parts = range(n), list(ranges)
    if parts and not parts[0].is_relative:
        counted = parts.pop(0)
        numbers = numbers[int(counted.first) : int(counted.end)]
    if not parts:
        return numbers
    first, end, _ = parts.pop()
    for inner in reversed(parts):
        size = inner.end - inner.first
        first, end = inner.first + first * size, inner.first + end * size
    return numbers[int(len(numbers) * first) : int(len(numbers) * end)]


class _Reader:
    """Reads a metadataset and the metadatasets that it names. options: arguments for each mixture that is made."""

    def __init__(self, make: Any, options: dict[str, Any], rule: dict[str, Any]) -> None:
        self._make = make
        self._options = options
        self._rule = rule

    def file(self, path: str, split: str, ranges: Sequence[Range], depth: int) -> Any:
        """Returns the data set or mixture that a metadataset file defines for a split."""
        root = read_yaml(path, "metadataset")
        nodes = list(root.values())
        _refuse(root, ("__module__", "__class__", "splits"))
        kind = root["__class__"].text("__class__") if "__class__" in root else "Metadataset"
        if kind not in _BLENDS:
            raise root["__class__"].fault(f"__class__ is {kind!r}: {' and '.join(_BLENDS)} are read")
        if "splits" not in root or not isinstance(root["splits"].value, dict):
            raise (nodes[0] if nodes else Node(path, 1, "")).fault("splits: with a map of splits is expected")
        splits = root["splits"].value
        if split not in splits:
            raise root["splits"].fault(f"there is no split {split!r}: the file has {', '.join(map(repr, splits)) or 'none'}")
        if depth > _DEEPEST:
            raise root["splits"].fault(f"metadatasets name each other more than {_DEEPEST} deep")
        return self._entry(splits[split], split, ranges, depth, _BLENDS[kind], ())

    def _entry(
        self, node: Node, split: str, ranges: Sequence[Range], depth: int, blends: Sequence[str], more: Sequence[str]
    ) -> Any:
        """Returns the data set or mixture that an entry with a path or a blend defines. more: other keys of the entry, which the
        caller reads."""
        entry = node.value
        if not isinstance(entry, dict):
            raise node.fault("a map is expected, with path: or one of " + ", ".join(f"{name}:" for name in blends))
        found = [name for name in ("path", *blends) if name in entry]
        if len(found) != 1:
            raise node.fault(f"one of {', '.join(('path', *blends))} is expected, not {' and '.join(found) or 'none of them'}")
        if "subset" in entry:
            ranges = [_range(entry["subset"], found[0] == "path"), *ranges]
        if found[0] == "path":
            _refuse(entry, ("path", "split_part", "split", "subset", *_USUAL, *more))
            return self._path(entry, split, ranges, depth)
        _refuse(entry, (found[0], "subset", *more))
        return self._blend(entry[found[0]], found[0], split, ranges, depth)

    def _path(self, entry: dict[str, Node], split: str, ranges: Sequence[Range], depth: int) -> Any:
        node = entry["path"]
        path = os.path.join(os.path.dirname(node.path), node.text("path"))
        named = entry.get("split_part", entry.get("split"))
        part = named.text("split_part") if named is not None else split
        if os.path.isfile(path) and path.endswith((".yaml", ".yml")):
            if any(not each.is_relative for each in ranges[:1]):
                raise entry["subset"].fault("a subset of a metadataset is in percent: [0%, 50%]")
            return self.file(path, part, ranges, depth + 1)
        is_prepared = os.path.isdir(os.path.join(path, ".nv-meta"))
        dataset = Dataset(path, split=part) if is_prepared or named is not None else Dataset(path)
        if ranges and not ranges[0].is_relative and ranges[0].end > len(dataset):
            raise entry["subset"].fault(f"range: it ends at {int(ranges[0].end)}, and the data set has {len(dataset)} samples")
        return dataset.subset(chosen(ranges, len(dataset))) if ranges else dataset

    def _blend(self, node: Node, kind: str, split: str, ranges: Sequence[Range], depth: int) -> Any:
        if not isinstance(node.value, list) or not node.value:
            raise node.fault(f"{kind}: a list of data sets is expected")
        key = "repetitions" if kind == "blend_epochized" else "weight"
        sources, weights = [], []
        for each in node.value:
            source = self._entry(each, split, ranges, depth, (), (key,))
            number = each.value.get(key)
            if key == "weight":
                weights.append(1.0 if number is None else _weight(number))
                sources.append(source)
                continue
            if is_weighted(source):
                raise each.fault("blend_epochized has a data set with weights: one epoch of it has no end")
            n = 1 if number is None else number.whole("repetitions")
            if not 1 <= n <= 1000:
                raise each.fault(f"repetitions is {n}: 1 to 1000 are possible")
            sources += [source] * n
        if key == "repetitions":
            return self._make(sources, **self._options)
        return self._make(sources, weights=weights, **self._options, **self._rule)


def _refuse(entry: dict[str, Node], known: Sequence[str]) -> None:
    """Raises CorruptError for an unknown key, and for a value that asks for something that this reader does not do."""
    for key, node in entry.items():
        if key not in known:
            raise node.fault(f"the key {key!r} is not read here: {', '.join(known)} are")
        if key in _USUAL and node.value != _USUAL[key]:
            raise node.fault(f"{key} is read only where it is {_USUAL[key]}")


def _weight(node: Node) -> float:
    if not isinstance(node.value, str) or not _NUMBER.fullmatch(node.value):
        raise node.fault("weight: a number, 0 or more, is expected")
    return float(node.value)


def _range(node: Node, may_count: bool) -> Range:
    """Reads a subset, {range: [FIRST, END]}."""
    entry = node.value
    if not isinstance(entry, dict) or set(entry) != {"range"} or not isinstance(entry["range"].value, list):
        raise node.fault("subset: {range: [FIRST, END]} is expected")
    ends = [each.value if isinstance(each.value, str) else "" for each in entry["range"].value]
    percents = [_PERCENT.fullmatch(end) for end in ends]
    counted = may_count and all(end.isascii() and end.isdecimal() and len(end) < 16 for end in ends)
    if len(ends) != 2 or not (counted or all(percents)):
        raise node.fault(f"range: two percentages, such as [0%, 50%],{' or numbers of samples,' if may_count else ''} are expected")
    first, end = (float(each[1]) if each else float(text) for each, text in zip(percents, ends, strict=True))
    if first > end or (not counted and end > 100):
        raise node.fault(f"range: {ends[0]} to {ends[1]} is no range")
    return Range(first, end, False) if counted else Range(first / 100, end / 100, True)


def is_one(path: Any) -> bool:
    """Whether a path is that of a metadataset: a YAML file with splits."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path) or not os.fspath(path).endswith((".yaml", ".yml")):
        return False
    try:
        with files.open_data(os.fspath(path), "file") as file:
            return re.search(rb"^splits[ \t]*:", file.read(_HEAD_NBYTES), re.MULTILINE) is not None
    except PenstockError:
        return False  # opening the file will report the error


def read(path: Any, split: str, make: Any, options: dict[str, Any], rule: dict[str, Any]) -> Any:
    """Returns the mixture that a metadataset defines. make: the mixture's class; rule: its arguments stop and quota."""
    found = _Reader(make, options, rule).file(os.fspath(path), split, (), 0)
    if not is_weighted(found):
        check_rule(None, rule["stop"], rule["quota"], (), True)
    return found if isinstance(found, make) else make([found], **options)
