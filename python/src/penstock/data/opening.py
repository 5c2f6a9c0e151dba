"""How a data set was opened, as plain data: it is opened again by that, here or from a report, and commands say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dataset import Dataset, rules_text

_NAMES = ("labels", "allow_unreadable", "masks", "files", "ignore_labels", "split", "fields")


def opening_of(dataset: Dataset) -> dict[str, Any] | None:
    """Returns the arguments of :class:`Dataset` that are not the defaults, and the path where it is not :attr:`Dataset.path`.

    None: it cannot be opened by them alone, because its files were named one by one, or it is a mixture.
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
    """Opens what lies at the path now, as the data set was opened."""
    path, *values = dataset._arguments
    given: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
    return Dataset(path, **given)


def of_subject(subject: Mapping[str, Any]) -> Dataset:
    """Opens the data set that a report is of. Its path may be that of another machine."""
    given = subject.get("opening", {})
    known = {name: value for name, value in (given or {}).items() if name in _NAMES and name != "files"}
    return Dataset((given or {}).get("path", subject["path"]), **known)


def can_open(subject: Mapping[str, Any]) -> bool:
    """Whether a report says how its data set is opened. Those of older versions say the path alone."""
    return subject.get("loader") == "penstock" and subject.get("opening", {}) is not None


def expression(path: str, opening: Mapping[str, Any]) -> str:
    """Returns what a program gives to a Loader: the path, or the data set if it is opened otherwise than by the path alone."""
    given = {name: value for name, value in opening.items() if name != "path"}
    if not given:
        return repr(opening.get("path", path))
    return f"ps.Dataset({opening.get('path', path)!r}, {', '.join(f'{name}={value!r}' for name, value in given.items())})"


def words(opening: Mapping[str, Any] | None) -> list[str]:
    """Returns the options of a command that opens data so."""
    given = opening or {}
    found = ["--labels", str(given["labels"])] if given.get("labels") else []
    found += ["--masks", ",".join(given["masks"])] if given.get("masks") else []
    found += ["--allow-unreadable"] if given.get("allow_unreadable") else []
    found += ["--ignore-labels"] if given.get("ignore_labels") else []
    found += ["--split", str(given["split"])] if given.get("split") else []
    return found + (["--members", rules_text(given["fields"])] if given.get("fields") else [])
