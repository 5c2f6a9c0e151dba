"""Penstock, share="bench": the host service prepares each sample once for all jobs."""

from __future__ import annotations

import common
import kind_penstock_alone
import kinds

NAME = 'Penstock, share="name"'
_loaders: list = []


def jobs_batches(setting: kinds.Setting):
    try:
        loader = kind_penstock_alone.make(setting, share="bench")
    except TypeError as reason:
        raise common.Unavailable(f"this Penstock cannot share: {reason}") from reason
    _loaders.append(loader)
    return kind_penstock_alone.forever(loader)


def counters() -> dict:
    """group_prepared: samples that the service has prepared for all jobs, as far as this job has been told. alone: batches that
    this job has prepared itself.
    """
    share = _loaders[0].stats()["share"]
    return {"group_prepared": share["samples"], "alone": share["alone"], "copied": share["copied"], "reason": share["reason"]}
