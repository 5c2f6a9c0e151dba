"""Packing by tasks of Ray: each packs a part, and one merge makes the data set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.public import public
from ..data import pack as _pack
from ..data.pack_report import PackReport
from .rays import ray

__all__ = ["pack", "repack"]

Path = str | os.PathLike[str]


def pack(
    source: Any,
    destination: Path,
    *,
    parts: int | None = None,
    max_retries: int = 5,
    ray_remote_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> PackReport:
    """Packs by tasks of Ray; the bytes are those of :func:`penstock.pack` on one machine.

    All nodes see source and destination under the same paths. Ray runs a task again as ``max_retries`` says. After an
    error the same call packs what is missing.

    Args:
        source, destination, options: as for :func:`penstock.pack`, without ``append``, ``resume`` and callbacks.
            ``num_workers`` is 1 where it is not given.
        parts: the number of tasks; None: two for each CPU of the cluster, and no more than planned shards.
        max_retries, ray_remote_args: as for ``ray.remote``.

    Returns what the merge reports.
    """
    source = os.path.abspath(source) if isinstance(source, (str, os.PathLike)) else [os.path.abspath(one) for one in source]
    destination = os.path.abspath(destination)
    options = {"num_workers": 1, **options}
    planned = _pack.pack(source, destination, prepare=True, **options).n_shards
    n = parts or max(1, min(planned, 2 * int(ray.cluster_resources().get("CPU", 1))))
    task = ray.remote(**{**(ray_remote_args or {}), "max_retries": max_retries})(_part)
    ray.get([task.remote(source, destination, (i + 1, n), options) for i in range(n)])
    return _pack.merge(destination)


def repack(source: Path, destination: Path, **options: Any) -> PackReport:
    """Packs a data set into another one by tasks of Ray, as ``penstock repack SRC DST`` does: see :func:`pack`."""
    return pack(source, destination, **options)


def _part(source: Any, destination: str, part: tuple[int, int], options: dict[str, Any]) -> None:
    _pack.pack(source, destination, part=part, **options)


public(__name__, "penstock.ray")
