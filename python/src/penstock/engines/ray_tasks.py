"""Packs, indexes and checks data sets by tasks of Ray: each task does a part, and the calling process joins the parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..base.public import public
from ..data import pack as _pack
from ..data.dataset import Dataset
from ..data.pack_report import IndexReport, PackReport, VerifyReport, joined
from ..errors import ArgumentError
from .rays import ray

__all__ = ["index", "pack", "repack", "verify"]

Path = str | os.PathLike[str]
# The arguments of penstock.verify that are passed to Dataset.
_OPENING = ("labels", "masks", "allow_unreadable", "ignore_labels", "split", "fields")


def pack(
    source: Any,
    destination: Path,
    *,
    parts: int | None = None,
    max_retries: int = 5,
    ray_remote_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> PackReport:
    """Packs by tasks of Ray. The data set has the same bytes as after :func:`penstock.pack` on one machine.

    All nodes must see source and destination under the same paths. Ray runs a failed task again as ``max_retries`` says. After an
    error, the same call packs what is missing.

    Args:
        source, destination, options: as for :func:`penstock.pack`, without ``append``, ``resume`` and callbacks.
            ``num_workers`` is 1 where it is not given.
        parts: the number of tasks; None: two for each CPU of the cluster, but at most one for each planned shard.
        max_retries, ray_remote_args: as for ``ray.remote``.

    Returns the report of the merge.
    """
    source = os.path.abspath(source) if isinstance(source, (str, os.PathLike)) else [os.path.abspath(one) for one in source]
    destination = os.path.abspath(destination)
    options = {"num_workers": 1, **options}
    planned = _pack.pack(source, destination, prepare=True, **options).n_shards
    n = parts or max(1, min(planned, _tasks()))
    _run(_part, n, {**(ray_remote_args or {}), "max_retries": max_retries}, source, destination, options)
    return _pack.merge(destination)


def repack(source: Path, destination: Path, **options: Any) -> PackReport:
    """Packs a data set into another one by tasks of Ray, as ``penstock repack SRC DST`` does: see :func:`pack`."""
    return pack(source, destination, **options)


def index(
    path: Path,
    *,
    parts: int | None = None,
    max_retries: int = 5,
    ray_remote_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> IndexReport:
    """Makes the index of containers of other programs by tasks of Ray. The index has the same bytes as after :func:`penstock.index`
    on one machine.

    All nodes must see the files under the same path, and can write beside them, or all below one ``PENSTOCK_CACHE_DIR``. Ray runs a
    failed task again as ``max_retries`` says. After an error, the same call does what is missing.

    Args:
        path, options: as for :func:`penstock.index`, without ``part``, ``merge`` and ``check``.
        parts: the number of tasks; None: two for each CPU of the cluster. More tasks than files do not help.
        max_retries, ray_remote_args: as for ``ray.remote``.

    Returns the report of the merge.
    """
    for name in ("part", "merge", "check"):
        if name in options:
            raise ArgumentError(f"{name} is not for penstock.ray.index: tasks make parts, and the call merges them")
    path = os.path.abspath(path)
    _run(_indexed, parts or _tasks(), {**(ray_remote_args or {}), "max_retries": max_retries}, path, options)
    return _pack.index(path, merge=True, **options)


def verify(
    path: Path,
    *,
    parts: int | None = None,
    max_retries: int = 5,
    ray_remote_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> VerifyReport:
    """Reads a whole data set by tasks of Ray and compares every checksum. The report equals that of :func:`penstock.verify`, but
    its findings have another order.

    All nodes must see the data set under the same path. Ray runs a failed task again as ``max_retries`` says.

    Args:
        path, options: as for :func:`penstock.verify`, without ``part`` and callbacks. ``num_workers`` is 1 where it is not given.
        parts: the number of tasks; None: two for each CPU of the cluster. More tasks than shards do not help.
        max_retries, ray_remote_args: as for ``ray.remote``.

    Raises StateError if nodes see different data sets under the path, or if it changed meanwhile.
    """
    path = os.path.abspath(path)
    options = {"num_workers": 1, **options}
    arguments = {**(ray_remote_args or {}), "max_retries": max_retries}
    opening = {name: value for name, value in options.items() if name in _OPENING}
    return joined(_run(_verified, parts or _tasks(), arguments, path, options), lambda: list(Dataset(path, **opening).fields))


def _tasks() -> int:
    """Returns the usual number of tasks: two for each CPU of the cluster."""
    if not ray.is_initialized():
        ray.init()  # remote functions do this themselves; cluster_resources() raises an error instead
    return max(1, 2 * int(ray.cluster_resources().get("CPU", 1)))


def _run(function: Callable[..., Any], n: int, arguments: dict[str, Any], *what: Any) -> list[Any]:
    """Runs a function by n tasks and waits for all. The last argument of each call is the part, (i, n)."""
    task = ray.remote(**arguments)(function)
    return list(ray.get([task.remote(*what, (i + 1, n)) for i in range(n)]))


def _part(source: Any, destination: str, options: dict[str, Any], part: tuple[int, int]) -> None:
    _pack.pack(source, destination, part=part, **options)


def _indexed(path: str, options: dict[str, Any], part: tuple[int, int]) -> IndexReport:
    return _pack.index(path, part=part, **options)


def _verified(path: str, options: dict[str, Any], part: tuple[int, int]) -> VerifyReport:
    return _pack.verify(path, part=part, **options)


public(__name__, "penstock.ray")
