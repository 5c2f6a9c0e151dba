"""Describes how a data set was opened, as plain data. Reports store it, and the data set is opened again from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dataset import Dataset, rules_text

_NAMES = ("labels", "allow_unreadable", "masks", "files", "ignore_labels", "split", "fields")


def opening_of(dataset: Dataset) -> dict[str, Any] | None:
    """Returns the non-default arguments that the data set was opened with, and the path if it differs from :attr:`Dataset.path`.

    Returns None if these arguments cannot open it again: its files were listed one by one, or it is a mixture.
    """
    if dataset.kind == "mixture":
        return None
    path, *values = dataset._arguments
    found: dict[str, Any] = {name: value for name, value in zip(_NAMES, values, strict=True) if value not in (None, False, ())}
    if "files" in found:
        return None
    if "masks" in found:
        found["masks"] = list(found["masks"])
    if "fields" in found:
        found["fields"] = {suffix: list(rule) if isinstance(rule, tuple) else rule for suffix, rule in found["fields"].items()}
    return {**({} if path == dataset.path else {"path": path}), **found}


def reopened(dataset: Dataset) -> Dataset:
    """Opens the data set again with the same arguments. The path may hold other data now."""
    path, *values = dataset._arguments
    given: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
    return Dataset(path, **given)


def of_subject(subject: Mapping[str, Any]) -> Dataset:
    """Opens the data set that a report describes. The report may come from another machine, so the path may not exist here."""
    given = subject.get("opening", {})
    known = {name: value for name, value in (given or {}).items() if name in _NAMES and name != "files"}
    return Dataset((given or {}).get("path", subject["path"]), **known)


def can_open(subject: Mapping[str, Any]) -> bool:
    """Whether a report says how to open its data set. Reports of older versions have only the path."""
    return subject.get("loader") == "penstock" and subject.get("opening", {}) is not None


def expression(path: str, opening: Mapping[str, Any]) -> str:
    """Returns Python code of a Loader's first argument: the path, or a call of ps.Dataset if other arguments are needed."""
    given = {name: value for name, value in opening.items() if name != "path"}
    if not given:
        return repr(opening.get("path", path))
    return f"ps.Dataset({opening.get('path', path)!r}, {', '.join(f'{name}={value!r}' for name, value in given.items())})"


def words(opening: Mapping[str, Any] | None) -> list[str]:
    """Returns the command-line options that open a data set in the same way."""
    given = opening or {}
    found = ["--labels", str(given["labels"])] if given.get("labels") else []
    found += ["--masks", ",".join(given["masks"])] if given.get("masks") else []
    found += ["--allow-unreadable"] if given.get("allow_unreadable") else []
    found += ["--ignore-labels"] if given.get("ignore_labels") else []
    found += ["--split", str(given["split"])] if given.get("split") else []
    return found + (["--members", rules_text(given["fields"])] if given.get("fields") else [])
