"""Analyses a torch DataLoader: measures it as it is, and estimates what Penstock would reach."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ... import _native, transforms
from ...errors import PenstockError
from ...transforms.base import IMAGENET_MEAN, IMAGENET_STD
from ..accelerators import Accelerator
from ..report import KIND, VERSION, Report
from . import machine, phases
from . import probe as _analyze_probe
from .finish import accelerator_of, finished, half
from .steer import Board, Steered

_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".pli")
# How a run with Penstock's loader differs from one with the DataLoader: its threads follow the cores and do not wait for reads.
_PENSTOCK_RUN: dict[str, Any] = {
    "wait_seconds": 0.0,
    "link_nbytes": 0.0,
    "batch_cpu_seconds": 0.0,
    "workers": None,
    "prefetch": 2,
}
_PROBE_PART = 0.25  # fraction of the budget for estimating what Penstock would reach


def analyze(
    loader: Any,
    step: Callable[[Any], Any] | None,
    seconds: float,
    accelerator: Any,
    n_accelerators: int,
    forms: Sequence[str] | None,
    say: Callable[[str], Any],
) -> Report:
    """Analyses a DataLoader in this process: see :func:`penstock.analyze`."""
    batch_size = int(loader.batch_size or 1)
    fed: Accelerator | None = accelerator_of(accelerator, batch_size)
    work: phases.Step = step or (phases.sleeper(fed.step_seconds * batch_size / fed.batch_size) if fed else phases.nothing)
    start = time.perf_counter()
    board = Board.make()
    try:
        has_step = step is not None or fed is not None
        steered = Steered(loader, type(loader).__iter__, board, (1 - _PROBE_PART) * seconds, say, has_step)
        for batch in steered:
            work(batch)
        say("what Penstock would give")
        data = build(steered, board.paths(), fed, n_accelerators, _PROBE_PART * seconds, forms)
    finally:
        board.close()
    data["seconds"] = round(time.perf_counter() - start, 2)
    return finished(data)


def build(
    steered: Steered,
    paths: Sequence[str],
    fed: Accelerator | None,
    n_accelerators: int,
    seconds: float,
    forms: Sequence[str] | None,
) -> dict[str, Any]:
    """Makes a report from the results of a steered DataLoader."""
    notes: list[str] = []
    batch_size = int(steered.loader.batch_size or phases.samples_in(steered.batch))
    demands, storage_rate = _demands(steered, batch_size, notes)
    machine_found = machine.describe()
    machine_found["page_cache_nbytes"] = machine_found["memory_available_nbytes"]
    machine_found["cache_nbytes"] = 0
    if storage_rate:
        machine_found["storage_nbytes_per_second"] = storage_rate
    data: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "penstock": _native.version,
        "subject": _subject(steered, paths, batch_size, demands, n_accelerators),
        "machine": machine_found,
        "accelerator": _step(steered, fed, batch_size, n_accelerators),
        "phases": {name: phase.as_dict() for name, phase in steered.phases.items()},
        "forms": {"torch": {"cpu": demands}},
        "stages": _stages(steered, demands),
        "bands": _bands(steered),
        "measured": {"cores": [1, machine.quota_cores()], "workers": [1, max(1, steered.n_workers)]},
        "notes": notes,
    }
    _add_penstock(data, paths, steered, batch_size, seconds, forms)
    return data


def _demands(steered: Steered, batch_size: int, notes: list[str]) -> tuple[dict[str, float], float]:
    """Returns the costs of a sample, and the storage rate that the cold phase reached."""
    warm = steered.worker.get("warm") or steered.worker.get("cold") or (0.0,) * 6
    n = max(warm[0], 1.0)
    cpu = warm[2] / n
    demands = {
        "cpu_seconds": cpu,
        "cpu_sd_seconds": math.sqrt(max(warm[3] / n - cpu * cpu, 0.0) * batch_size),
        "wait_seconds": max(warm[1] / n - cpu, 0.0),
        "nbytes": warm[4] / n,
        "reads": warm[5] / n,
        "item_nbytes": warm[4] / n,
        "link_nbytes": 0.0,
    }
    if warm[5] == 0:
        notes.append("no file was opened from Python while samples were fetched, so none was read from storage on purpose")
    cold = steered.worker.get("cold")
    rate = 0.0
    if cold and cold[0] and cold[5] and warm[0]:
        more = (cold[1] / cold[0]) - (warm[1] / n)
        if more > 1e-6 and steered.n_workers >= 0:
            rate = max(steered.n_workers, 1) * (cold[4] / cold[0]) / more
    return demands, rate


def _subject(steered: Steered, paths: Sequence[str], batch_size: int, demands: dict[str, float], n: int) -> dict[str, Any]:
    try:
        samples = len(steered.loader.dataset)
    except TypeError:
        samples = 0
    caller = steered.phases["warm"].caller_cpu_seconds if "warm" in steered.phases and steered.n_workers else 0.0
    return {
        "loader": "torch",
        "path": common_folder(paths) or type(steered.loader.dataset).__name__,
        "samples": samples,
        "nbytes": int(samples * demands["item_nbytes"]),
        "form": "torch",
        "decode": "cpu",
        "batch_size": batch_size,
        **_epoch(steered.loader, n),
        "prefetch": max(1, steered.ahead - 1) if steered.n_workers else 1,
        "workers": steered.n_workers,
        "workers_follow_cores": False,
        "batch_cpu_seconds": caller,
        "ranks": n,
        "jobs": 1,
    }


def _epoch(loader: Any, n_accelerators: int) -> dict[str, float]:
    """Returns "batches_per_epoch" of a rank. A short last batch counts as a fraction. Returns {} if the loader has no length.

    A distributed sampler yields the samples of one rank. Without one, all accelerators share the loader's batches.
    """
    try:
        batches = float(len(loader))
    except TypeError:  # an iterable data set without a length
        return {}
    with contextlib.suppress(TypeError):
        if loader.batch_size and not loader.drop_last:
            batches = len(loader.sampler) / loader.batch_size
    ranks = max(n_accelerators / getattr(loader.sampler, "num_replicas", 1), 1.0)
    return {"batches_per_epoch": max(round(batches / ranks, 3), 1.0)}


def _step(steered: Steered, fed: Accelerator | None, batch_size: int, n: int) -> dict[str, Any]:
    resident = steered.phases.get("resident")
    if resident is None:
        return {"name": "none", "step_seconds": 0.0, "count": n}
    return {
        "name": fed.name if fed else "step",
        "title": fed.title if fed else "accelerator",
        "batch_size": batch_size,
        "step_seconds": resident.step_seconds,
        "step_sd_seconds": resident.step_sd_seconds,
        "step_cpu_seconds": resident.step_cpu_seconds,
        "limit": fed.limit if fed else None,
        "source": fed.source if fed else "the training loop, measured",
        "count": n,
    }


def _stages(steered: Steered, demands: dict[str, float]) -> list[dict[str, Any]]:
    found = [
        {"name": "prepare", "resource": "cores", "seconds": demands["cpu_seconds"]},
        {"name": "wait", "resource": "workers", "seconds": demands["wait_seconds"]},
    ]
    rates = {name: phase.rate.samples_per_second for name, phase in steered.phases.items()}
    if "resident" in rates and "prepared" in rates:
        upload = max(1 / rates["prepared"] - 1 / rates["resident"], 0.0)
        found.append({"name": "upload", "resource": "link", "seconds": upload})
        found.append({"name": "compute", "resource": "accelerator", "seconds": 1 / rates["resident"]})
    return found


def _bands(steered: Steered) -> dict[str, float]:
    worker = steered.worker.get("warm") or (0.0,) * 6
    mean = worker[2] / max(worker[0], 1.0)
    spread = math.sqrt(max(worker[3] / max(worker[0], 1.0) - mean * mean, 0.0))
    batches = worker[0] / max(int(steered.loader.batch_size or 1), 1)
    bands = {"cpu_band": min(2 * spread / mean / math.sqrt(batches), 0.5) if mean > 0 and batches > 0 else 0.0}
    for member, name in (("storage_band", "cold"), ("step_band", "resident")):
        phase = steered.phases.get(name)
        rate = phase.rate if phase else None
        bands[member] = min(half(rate.low, rate.high, rate.samples_per_second), 0.5) if rate else 0.0
    return bands


# What Penstock would give -------------------------------------------------------------------------------


def common_folder(paths: Sequence[str]) -> str:
    images = [path for path in paths if path.lower().endswith(_IMAGES)]
    return os.path.commonpath([os.path.dirname(path) for path in images]) if images else ""


def chain_of(batch: Any) -> tuple[list[Any], str]:
    """Returns Penstock's operations for batches of the same shape as the DataLoader's, and their description."""
    values = list(batch.values()) if isinstance(batch, dict) else list(batch) if isinstance(batch, (list, tuple)) else [batch]
    for value in values:
        shape = tuple(getattr(value, "shape", ()))
        if len(shape) != 4:
            continue
        height, width = (shape[2], shape[3]) if shape[1] in (1, 3, 4) else (shape[1], shape[2])
        chain: list[Any] = [transforms.RandomResizedCrop((int(height), int(width))), transforms.RandomHorizontalFlip()]
        if "float" in str(getattr(value, "dtype", "")):
            chain.append(transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD))
        return chain, f"RandomResizedCrop({height}, {width}) and flip"
    return [], "no operation"


def _add_penstock(
    data: dict[str, Any], paths: Sequence[str], steered: Steered, batch_size: int, seconds: float, forms: Sequence[str] | None
) -> None:
    """Probes, with Penstock, the files that the workers read. Their costs become forms of the report."""
    images, stored = _read(paths)
    if not images:
        data["notes"].append("what Penstock would give is not said: no image files were opened by the workers")
        return
    chain, words = chain_of(steered.batch)
    options = {"transforms": chain, "image_field": "image"}
    wanted = _analyze_probe.usual_forms(stored) if forms is None else tuple(forms)
    try:
        places = _analyze_probe.places_of(options)
        probed = _analyze_probe.costs(images, stored, options, batch_size, wanted, places, seconds)
    except PenstockError as error:
        data["notes"].append(f"what Penstock would give is not said: {error}")
        return
    found = probed.forms
    own = found.get(stored, {}).get("cpu", {})
    # Only few files were probed, so their bytes are scaled to the mean of all files that were read.
    mean = data["forms"]["torch"]["cpu"]["item_nbytes"]
    scale = mean / own["item_nbytes"] if own.get("item_nbytes") and mean > 0 else 1.0
    for name, places_found in found.items():
        data["forms"][name] = {}
        for place, costs in places_found.items():
            for member in ("nbytes", "nbytes_sd", "item_nbytes"):
                costs[member] *= scale
            deviation = own.get("cpu_sd_seconds", 0.0) * costs["cpu_seconds"] / own.get("cpu_seconds", 1.0) if own else 0.0
            data["forms"][name][place] = {**_PENSTOCK_RUN, "cpu_sd_seconds": deviation, **costs}
    data["notes"] += probed.notes
    data["notes"].append(f"forms other than torch are Penstock's, probed with {words} on {len(images)} of the files")


def _read(paths: Sequence[str], most: int = 32) -> tuple[list[bytes], str]:
    from ...data.image import probe

    found: dict[str, list[bytes]] = {}
    for path in [p for p in paths if p.lower().endswith(_IMAGES)][:most]:
        try:
            with open(path, "rb") as file:
                content = file.read()
            found.setdefault(str(probe(content).form), []).append(content)
        except (OSError, PenstockError):
            continue
    if not found:
        return [], ""
    form = max(found, key=lambda name: len(found[name]))
    return found[form], form
