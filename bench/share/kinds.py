"""The ways in which n jobs of one host get their batches. A kind is a module `kind_<name>.py` with

    NAME
    jobs_batches(setting)   -> endless iterator of (images, labels) of one job, f32 NCHW, normalised; images may be any array
    counters()              -> {"prepared": images, "nbytes": bytes} that this process has made so far, or {}

and, where a process of its own prepares for all jobs,

    serve(setting, ready)   -> runs it until standard input ends; calls ready() once; and then counters() is the service's

A module raises common.Unavailable where it cannot take part.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402,F401 (it puts bench/loader in reach)

import common  # noqa: E402

SEED = 1


@dataclass(frozen=True)
class Kind:
    environment: str  # of bench/loader/environments.py
    pipeline: str  # name of the peer of bench/loader whose pixels are compared with Pillow's
    shares: bool  # whether jobs share the preparation; False: each job prepares for itself
    same: str  # check of the jobs' first batches: "lone" (equal to a lone Penstock loader's), "jobs" (equal in all jobs), "" (none)
    serves: bool = False
    network: bool = False  # the loader opens ports, so it runs in a network namespace of its own


KINDS = {
    "penstock_share": Kind("torch", "penstock", True, "lone"),
    "penstock_alone": Kind("torch", "penstock", False, "lone"),
    "dali": Kind("dali", "dali", False, ""),
    "tensorsocket": Kind("torch", "torchvision", True, "jobs", serves=True, network=True),
    "tensorsocket_shm": Kind("torch", "torchvision", True, "jobs", serves=True, network=True),
    "tensorsocket_penstock": Kind("torch", "penstock", True, "jobs", serves=True, network=True),
    "tfservice": Kind("tf", "tfdata", True, "", serves=True, network=True),
}


@dataclass(frozen=True)
class Setting:
    """The settings that each process of a cell gets. threads: for preparing; job: number of the job, -1 in the service."""

    work: common.Work
    n_jobs: int
    job: int
    threads: int
    folder: Path  # the cell's own folder, for sockets and addresses


def setting_of(root: Path, n_jobs: int, job: int, threads: int, folder: Path) -> Setting:
    work = common.Work("share", root, 64, 224, True, True)
    return Setting(work, n_jobs, job, threads, folder)


def load(kind: str):
    return importlib.import_module(f"kind_{kind}")
