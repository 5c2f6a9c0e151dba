"""The file of a plan: JSON, docs/format-plan.md. It is read by the loader, by pack and repack, and by people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _file_kinds, _files, _loader_set
from ._plan_cache import Planned
from .errors import ArgumentError

KIND = "penstock plan"
VERSION = 1

# Members of the section "loader", with the types that they may have. None: the loader's default.
LOADER: dict[str, tuple[type, ...]] = {
    "num_workers": (int,),
    "prefetch": (int,),
    "order": (str,),
    "cache": (int, str),
    "cache_form": (str,),
    "cache_plan": (str,),
    "cache_size": (str,),
    "decode": (str,),
    "gpu_share": (int, float),
    "forms": (dict,),
}


def read(plan: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Reads a plan's file, or takes its data, and checks what the loader uses. Errors name file and member."""
    if isinstance(plan, Mapping):
        return checked(plan, "the plan")
    name = os.fspath(plan)
    data = _files.read_json(name, "plan")
    with _files.of_file(name):
        return checked(data, "the plan")


def checked(data: Any, where: str) -> dict[str, Any]:
    """Returns the data of a plan. ArgumentError: it is none, or a member that the loader uses has a wrong type."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind != KIND:
        raise ArgumentError(f"{where} is no plan: its kind is {kind!r}, not {KIND!r}")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ArgumentError(f"{where} has version {version!r}; this Penstock knows {VERSION}")
    loader = data.get("loader") or {}
    if not isinstance(loader, Mapping):
        raise ArgumentError(f"{where}: loader is an object, not {loader!r}")
    for name, types in LOADER.items():
        value = loader.get(name)
        if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
            raise ArgumentError(f"{where}: loader.{name} is {' or '.join(t.__name__ for t in types)}, not {value!r}")
    _loader_set.stages(data.get("schedule") or [], where)
    _file_kinds.PLAN(data, where)
    return dict(data)


def changes_forms(data: Mapping[str, Any]) -> bool:
    """Whether samples are to be stored otherwise than they are."""
    return any(
        [one["form"] for one in way["store"]] != [part["form"]] or "tier" in way["store"][0] or "max_error" in way["store"][0]
        for part in data.get("classes") or []
        for way in part["ways"]
    )


# Defaults of the arguments of a Loader that a plan may set.
_DEFAULTS = {"num_workers": None, "prefetch": 2, "order": None, "cache": "auto", "cache_form": "stored", "cache_plan": None,
             "cache_size": "whole",
             "decode": "auto", "gpu_share": None, "forms": None}  # fmt: skip


def foreign(plan: Any, n_samples: int) -> str | None:
    """Returns a warning if a plan was made for another number of samples."""
    planned = (read(getattr(plan, "data", plan)).get("data") or {}).get("samples")
    if planned is None or planned == n_samples:
        return None
    return f"the plan was made for {planned} samples, and the data set has {n_samples}"


def applied(given: Mapping[str, Any], plan: Any) -> dict[str, Any]:
    """Returns a Loader's arguments with those of a plan (its data, file, or :class:`penstock.Plan`) in the place of defaults."""
    data = getattr(plan, "data", plan)
    found = dict(given)
    options = loader_options(data)
    if given["device"] == "cpu":
        options = {name: value for name, value in options.items() if name not in ("decode", "gpu_share")}
    else:
        options.pop("cache_size", None)  # the cache keeps whole images for a GPU
    if given["cache"] is None:
        options = {name: value for name, value in options.items() if not name.startswith("cache")}
    for name, value in options.items():
        default = _DEFAULTS[name]
        if given[name] is default or (isinstance(default, (str, int)) and given[name] == default):
            found[name] = value
    whole = read(data)
    found["schedule"] = whole.get("schedule")
    planned = Planned(whole)
    if planned and found["cache"] is not None and found["cache_plan"] is None:
        found["cache_plan"] = planned
    return found


def loader_options(plan: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of :class:`penstock.Loader` that a plan has."""
    loader = read(plan).get("loader") or {}
    return {name: loader[name] for name in LOADER if loader.get(name) is not None}
