"""Reads the file of a plan: JSON, see docs/format-plan.md. The loader, pack and repack use it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import file_kinds, files
from ..caching import cache, fleet
from ..caching.planned import Planned
from ..errors import ArgumentError
from ..transforms import Resize
from . import stages, table
from .table import ROWS, TABLE

KIND = "penstock plan"
VERSION = 1

# Members of the plan's section "loader": flat arguments of a Loader. None: the loader's default.
_LOADER = tuple(row for row in TABLE if row.plan)


def read(plan: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Reads a plan from its file or its data, and checks what the loader uses. Errors name the file and the member."""
    if isinstance(plan, Mapping):
        return checked(plan, "the plan")
    if not isinstance(plan, (str, os.PathLike)):
        raise ArgumentError(f"plan is a Plan, its data or the path of its file, not {plan!r}")
    name = os.fspath(plan)
    data = files.read_json(name, "plan")
    with files.of_file(name):
        return checked(data, "the plan")


def checked(data: Any, where: str) -> dict[str, Any]:
    """Checks and returns the data of a plan. ArgumentError: it is no plan, or a member that the loader uses has a wrong type."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind != KIND:
        raise ArgumentError(f"{where} is no plan: its kind is {kind!r}, not {KIND!r}")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ArgumentError(f"{where} has version {version!r}; this Penstock knows {VERSION}")
    loader = data.get("loader") or {}
    if not isinstance(loader, Mapping):
        raise ArgumentError(f"{where}: loader is an object, not {loader!r}")
    loader = table.renamed(loader, where)
    for row in _LOADER:
        value = loader.get(row.name)
        if value is not None and (not isinstance(value, row.plan) or isinstance(value, bool)):
            raise ArgumentError(f"{where}: loader.{row.name} is {' or '.join(t.__name__ for t in row.plan)}, not {value!r}")
    stages.stages(data.get("schedule") or [], where)
    file_kinds.PLAN(data, where)
    return {**data, "loader": loader}


def changes_forms(data: Mapping[str, Any]) -> bool:
    """Whether a plan stores samples in other forms or sizes than they have now."""
    return any(
        [one["form"] for one in way["store"]] != [part["form"]] or way["store"][0].keys() & {"tier", "max_error", "resize"}
        for part in data.get("classes") or []
        for way in part["ways"]
    )


def sides(data: Mapping[str, Any]) -> set[int]:
    """Returns the shorter sides to which a plan resizes images before it stores them; empty if it stores all at full size."""
    stores = [one for part in data.get("classes") or [] for way in part["ways"] for one in way["store"]]
    return {one["resize"] for one in stores if "resize" in one}


def foreign(plan: Mapping[str, Any], n_samples: int) -> str | None:
    """Returns a warning if a plan (a result of `read`) was made for another number of samples, else None."""
    planned = (plan.get("data") or {}).get("samples")
    if planned is None or planned == n_samples:
        return None
    return f"the plan was made for {planned} samples, and the data set has {n_samples}"


def _check_sizes(given: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Raises ArgumentError if a plan stores images after a Resize that the transforms do not begin with."""
    chain = given["transforms"]
    if isinstance(chain, Mapping):
        chain = chain.get(plan.get("field") or "image")
    for side in sides(plan) - {resize_of(chain)}:
        raise ArgumentError(f"the plan stores images after Resize({side}), and the transforms do not begin with that Resize")


def resize_of(chain: Any) -> int | None:
    """Returns the shorter side of the Resize that a chain begins with, if pack(resize=) can do the same, else None."""
    first = chain[0] if isinstance(chain, Sequence) and len(chain) else None
    if not isinstance(first, Resize):
        return None
    made = first.describe()
    side: int = made["height"]
    return side if made == Resize(side).describe() else None


def applied(given: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a Loader's flat arguments, in which values of the plan (a result of `read`) replace defaults."""
    found = dict(given)
    _check_sizes(given, plan)
    options = loader_options(plan)
    if given["device"] == "cpu":
        options = {name: value for name, value in options.items() if name not in ("decode", "gpu_part")}
    else:
        options.pop("cache_resolution", None)  # for a GPU the cache keeps whole images
    if given["cache"] is None:
        options = {name: value for name, value in options.items() if not name.startswith("cache")}
    for name, value in options.items():
        if table.is_default(ROWS[name], given[name]):
            found[name] = value
    if given["cache_recode"] != "idle" and not _may_wait(found):
        found["cache_recode"] = "at-once"
    found["schedule"] = plan.get("schedule")
    planned = Planned(plan)
    if planned and found["cache"] is not None and found["cache_plan"] is None:
        found["cache_plan"] = planned
    return found


def _may_wait(found: Mapping[str, Any]) -> bool:
    """Whether a loader with these flat arguments can use recode="idle", as a plan proposes it. Arguments that the user gave besides
    the plan may prevent that."""
    keeps_whole = found["cache_form"] != "stored" and found["cache_resolution"] == "full"
    has_fleet = fleet.is_wanted(found["fleet"], found["storage"] == "memory")
    has_cache = found["cache"] == "host" or cache.is_own(found["cache"])
    return has_cache and keeps_whole and found["num_workers"] != 0 and not has_fleet


def loader_options(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flat arguments of :class:`penstock.Loader` that a plan (a result of `read`) sets."""
    loader = plan["loader"]
    return {row.name: loader[row.name] for row in _LOADER if loader.get(row.name) is not None}
