"""penstock.analyze: measures where a training run stalls, by comparing phases, and what would help."""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ... import _native
from ...base import options as _options
from ...base.public import public
from ...data.dataset import Dataset
from ...data.opening import opening_of
from ...errors import ArgumentError
from ...loading.loader import Loader
from ..accelerators import Accelerator
from ..report import KIND, VERSION, Report
from . import machine, phases, probe, quiet, steady
from .finish import accelerator_of, begun, finished, half
from .loader import PROBE_NBYTES, PROBE_SAMPLES, LoaderSubject
from .usual import usual

__all__ = ["analyze"]

# The fraction of the time budget for each phase.
_PARTS = {
    "resident": 0.07,
    "prepared": 0.07,
    "warm": 0.15,
    "cold": 0.15,
    "alone": 0.08,
    "paged": 0.12,
    "single": 0.07,
    "storage": 0.03,
    "probe": 0.20,
    "again": 0.04,
    "storage again": 0.02,
}

_BY_PAGES = (
    "the loader reads by pages, and storage was measured, and is predicted, by single reads in random order: where a read takes "
    "a millisecond or more, packed neighbours come in one request with the bytes between them, and fewer PLI are read in parts, "
    "so that there are fewer reads and more bytes than predicted"
)


def seconds_of(budget: float | str) -> float:
    """Converts 60, "60", "60s" or "2min" to seconds."""
    seconds = _options.seconds(budget)
    if seconds is None or not 1 <= seconds <= 86400:
        raise ArgumentError(f'budget is seconds, or a text such as "60s" or "2min", of at least 1 s, not {budget!r}')
    return seconds


def analyze(
    loader: Any,
    step: Callable[[Any], Any] | None = None,
    *,
    budget: float | str = "60s",
    accelerator: Accelerator | str | float | None = None,
    accelerators: int = 1,
    forms: Sequence[str] | None = None,
    batch_size: int | None = None,
    wait_quiet: float | str | None = None,
    progress: Callable[[str], Any] | None = None,
) -> Report:
    """Measures where a training run stalls, and what a sample costs, within a time budget.

    Phases differ in where batches come from: "resident" (one batch again and again: the accelerator's own rate), "prepared"
    (finished batches from memory), "warm" (stored bytes from memory), "cold" (from storage). The time by which a phase is slower
    than the one before it is the stall of the added stage. It needs no root, and drops nothing from the page cache except what it
    reads itself.

    Args:
        loader: a :class:`penstock.Loader`. Or a :class:`penstock.Dataset` or a path, for which a loader is assumed: images with
            RandomResizedCrop(224), flip and Normalize, all fields, and no field with a row for each box; the report says so. Or a
            torch DataLoader, which is measured as it is, with an estimate of what Penstock would reach.
        step: called with a batch; returns when the step is done. It may train a model, and then changes its weights. If the process
            uses torch's CUDA, the analysis waits for the GPU after each step. None: the named accelerator is emulated, if any.
        budget: seconds, or "60s", "2min".
        accelerator: instead of a step: a name such as "mlperf:resnet50:h100" (:mod:`penstock.accelerators`), or the samples/s that
            one accelerator consumes. It is emulated by a pause.
        accelerators: how many accelerators share this machine, for the answer in words.
        forms: the forms whose costs are measured, among "jpeg", "pli-jpeg", "png", "webp", "pli-fast", "pli-small", "pli-dense",
            "raw"; None: those that are worthwhile. ``()``: only the stored form.
        batch_size: batch size for a data set; None: that of the accelerator, else 64, but at most half of the samples; in that case
            the report says so. A loader has its own.
        wait_quiet: waits up to this time, in seconds or "60s", until other programs use almost no CPU time (5 % of the cores that
            this process may use, or a tenth of a core), and then measures in any case. The report says how much they used at the
            start. None: measures at once.
        progress: called with a line before each phase, and while it waits.

    Under torch.distributed, every rank calls it and gets the report, which lists all ranks.
    """
    seconds = seconds_of(budget)
    if step is not None and accelerator is not None:
        raise ArgumentError("give a step or an accelerator, not both")
    _options.count("accelerators", accelerators, 1, 1 << 20)
    probe.check_forms(forms)
    say = progress or (lambda line: None)
    patience = quiet.checked(wait_quiet)
    if batch_size is not None and not isinstance(loader, (Dataset, str, os.PathLike)):
        raise ArgumentError("batch_size is for a data set or a path: a loader has its own")
    if _is_torch(loader):
        from . import torch as _analyze_torch

        others = quiet.wait(patience, say)
        return begun(_analyze_torch.analyze(loader, step, seconds, accelerator, accelerators, forms, say), others)
    if not isinstance(loader, Loader):
        loader = usual(batch_size, accelerator)(loader)
    fed = accelerator_of(accelerator, loader.batch_size)
    with LoaderSubject(loader) as subject:
        for line in subject.assumed.values():
            say(line)
        subject.need_scratch()
        others = quiet.wait(patience, say)
        return begun(_Analysis(subject, step, fed, accelerators, seconds, say).run(forms), others)


def _is_torch(loader: Any) -> bool:
    return any(base.__module__.startswith("torch.utils.data") for base in type(loader).__mro__)


class _Analysis:
    """The analysis of one Penstock loader."""

    def __init__(
        self,
        subject: LoaderSubject,
        step: Callable[[Any], Any] | None,
        fed: Accelerator | None,
        n_accelerators: int,
        seconds: float,
        say: Callable[[str], Any],
    ) -> None:
        self.subject = subject
        self.fed = fed
        self.n_accelerators = n_accelerators
        self.seconds = seconds
        self.say = say
        self.notes: list[str] = [line for name, line in subject.assumed.items() if name != "transforms"]
        self.phases: dict[str, phases.Phase] = {}
        self.kept: dict[str, dict[str, float]] = {}
        self.storage: list[tuple[steady.Rate, float]] = []  # for each time window of reading: the rate, and the bytes of a sample
        self.engine = "uring"  # the way in which the loader reads
        self.own = step
        if step is not None:
            self.step: phases.Step = step
        elif fed is not None:
            self.step = phases.sleeper(fed.step_seconds * subject.batch_size / fed.batch_size)
        else:
            self.step = phases.nothing
        self.has_step = step is not None or fed is not None

    def _run(self, name: str, batches: Any, step: phases.Step, sync: bool = True) -> phases.Phase:
        seconds = _PARTS[name] * self.seconds
        self.say(f"{name}: {seconds:.0f} s")
        found = phases.run(name, batches, step, seconds, sync=sync and step is self.own)
        if name == "alone":
            self.on_gpu = self.subject.gpu()
        if name == "paged":
            self.engine = self.subject.last.stats()["storage"]["kind"]
        self.subject.close_last()
        return found

    def run(self, forms: Sequence[str] | None) -> Report:
        start = time.perf_counter()
        others = machine.OtherWork()
        subject = self.subject
        warm_seconds = _PARTS["warm"] * self.seconds
        if self.has_step:
            self.phases["resident"] = self._run("resident", subject.resident(), self.step)
            self.phases["prepared"] = self._run("prepared", subject.prepared(), self.step)
            self.phases["warm"] = self._run("warm", subject.warm(warm_seconds), self.step)
            if subject.cold_storage:
                self.phases["cold"] = self._run("cold", subject.cold(warm_seconds), self.step)
        self.alone = self._run("alone", subject.warm(warm_seconds), phases.nothing)
        self.gpu, self.link = self.on_gpu
        self.paged = self._run("paged", subject.paged(warm_seconds), phases.nothing) if subject.cold_storage else self.alone
        self.single = self._single()
        if not self.has_step:
            self.phases["warm"] = self.alone
            if subject.cold_storage:
                self.phases["cold"] = self._run("cold", subject.cold(warm_seconds), phases.nothing)
        self._read("storage")
        self.copies = self._copies()
        forms_found, stages = self._forms(forms)
        # The loader alone and the storage are measured a second time. Costs differ between windows of time, and the error bands
        # include this difference.
        self.again = self._run("again", subject.warm(warm_seconds), phases.nothing)
        self._read("storage again")
        if not self.storage:
            self.notes.append("storage was not measured: all bytes are in memory, or no image is decoded")
        elif subject.reads_by_pages:
            self.notes.append(_BY_PAGES)
        data = self._data(forms_found, stages)
        data["machine"]["other_cores"] = round(others.cores(), 3)
        if changed := subject.changed():
            data["changed"] = changed
        data["seconds"] = round(time.perf_counter() - start, 2)
        return finished(data)

    def _epoch(self) -> float:
        """Returns the number of batches in a rank's epoch. A short last batch counts as a fraction."""
        given = self.subject.given
        ranks = max(self.n_accelerators, given.get("world_size") or 1)
        batches = self.subject.samples / (self.subject.batch_size * ranks)
        return max(float(math.floor(batches)) if given.get("drop_last") else round(batches, 3), 1.0)

    def _single(self) -> phases.Phase | None:
        """Measures the cost of a sample with one worker. Compared with all workers, it shows how the rate grows with the cores."""
        if self.subject.workers <= 1:
            return None
        return self._run("single", self.subject.warm(_PARTS["single"] * self.seconds, num_workers=1), phases.nothing)

    def _read(self, name: str) -> None:
        """Measures reads from storage for a while."""
        if not self.subject.cold_storage or self.subject.image is None:
            return
        self.say(name)
        phase, nbytes = self.subject.storage_of(_PARTS[name] * self.seconds)
        self.subject.close_last()
        self.storage.append((phase.rate, nbytes))

    def _copies(self) -> list[float]:
        """Returns the bytes/s at which the loader's reading threads copy out of the page cache, for some passes; an empty list if
        they do not."""
        given = self.subject.given
        if not self.subject.cold_storage or self.subject.workers == 0 or given.get("page_cache") == "direct":
            return []
        n_threads = 1 if self.engine == "uring" else given.get("io_threads") or 4
        return [n_threads * rate for rate in machine.copy_rates()]

    def _forms(self, forms: Sequence[str] | None) -> tuple[dict[str, Any], dict[str, float]]:
        subject = self.subject
        if subject.image is None:
            self.notes.append("forms were not probed: no image is decoded")
            return {}, {}
        self.say("probe of forms")
        numbers, images, stored = subject.images(PROBE_SAMPLES, PROBE_NBYTES)
        self.stored = stored
        wanted = probe.usual_forms(stored) if forms is None else tuple(forms)
        boxes = probe.boxes_of(subject.dataset, subject.given["fields"], numbers)
        options = {**subject.given, "image_field": subject.image, "boxes": boxes}
        seconds = _PARTS["probe"] * self.seconds
        places = probe.places_of(options)
        found = probe.costs(images, stored, options, subject.batch_size, wanted, places, seconds)
        self.notes += found.notes
        self.kept = found.kept
        return found.forms, found.stages

    # Putting together -------------------------------------------------------------------------------

    def _data(self, probed: dict[str, Any], stages: dict[str, float]) -> dict[str, Any]:
        subject, alone = self.subject, self.alone
        windows = [self._preparation(phase) for phase in (alone, self.again)]
        cpu = _mean(windows)
        form = getattr(self, "stored", "stored")
        decode = subject.decode if subject.decode in probed.get(form, {}) else "cpu"
        forms = self._scaled(probed, form, decode, self._preparation(self.paged), cpu)
        return {
            "kind": KIND,
            "version": VERSION,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "penstock": _native.version,
            "subject": self._subject(form, decode),
            "machine": self._machine(),
            "accelerator": self._step(),
            "phases": {name: phase.as_dict() for name, phase in self.phases.items()},
            "alone": alone.as_dict(),
            "forms": forms,
            "kept": self.kept,
            "stages": self._stages(stages, self._preparation(self.paged)),
            "bands": self._bands(windows),
            "measured": {"cores": [1, machine.quota_cores()], "workers": [1, max(1, subject.workers)]},
            "notes": self.notes,
        }

    def _preparation(self, phase: phases.Phase) -> float:
        """Returns the CPU seconds of preparing a sample, without the training thread's work of taking batches."""
        if self.subject.workers == 0:
            return max(phase.cpu_seconds, 1e-9)
        return max(phase.cpu_seconds - phase.caller_cpu_seconds / self.subject.batch_size, 1e-9)

    def _scaled(self, probed: dict[str, Any], form: str, decode: str, cpu: float, hit_cpu: float) -> dict[str, Any]:
        """Scales the probe's seconds to the time that all workers together took. The probe's bytes already are those of the whole
        data set."""
        if form not in probed:
            mean = self.subject.mean_item_nbytes(getattr(self.subject, "kind", None))
            costs = {"cpu_seconds": cpu, "hit_cpu_seconds": hit_cpu, "nbytes": mean, "item_nbytes": mean, "reads": 1.0}
            return {form: {decode: {**costs, **self.gpu}}}
        own = self._own(probed[form], decode)
        scales = dict.fromkeys(("cpu_seconds", "cpu_sd_seconds"), cpu / max(own["cpu_seconds"], 1e-9))
        scales["hit_cpu_seconds"] = hit_cpu / max(own["hit_cpu_seconds"], 1e-9)
        if self.gpu["gpu_seconds"] > 0 and own["gpu_seconds"] > 0:
            scales["gpu_seconds"] = self.gpu["gpu_seconds"] / own["gpu_seconds"]
        # The workers' CPU seconds only say something about the places where they decoded.
        used = ("cpu", "gpu") if self.subject.gpu_part < 1 else (decode,)
        return {
            name: {place: _scale(costs, scales if place in used else {}, own) for place, costs in places.items()}
            for name, places in probed.items()
        }

    def _own(self, places: dict[str, dict[str, float]], decode: str) -> dict[str, float]:
        """Returns the probe's costs for the place where the user's loader decodes."""
        part = self.subject.gpu_part
        if decode == "cpu" or part == 1:
            return places[decode]
        return {name: part * value + (1 - part) * places["cpu"][name] for name, value in places["gpu"].items()}

    def _subject(self, form: str, decode: str) -> dict[str, Any]:
        subject = self.subject
        caller = self.alone.caller_cpu_seconds if subject.workers > 0 else 0.0
        nbytes, part = subject.stored_nbytes()
        return {
            "loader": "penstock",
            "path": subject.dataset.path,
            "opening": opening_of(subject.dataset),
            "samples": subject.samples,
            "nbytes": int(nbytes),
            **({} if subject.drawn is None else {"stored_samples": len(subject.drawn.positions), "stored_part": part}),
            **({} if not (sources := subject.sources()) else {"sources": sources}),
            "form": form,
            "decode": decode,
            "gpu_part": subject.gpu_part,
            "batch_size": subject.batch_size,
            "batches_per_epoch": self._epoch(),
            "prefetch": subject.prefetch,
            "workers": subject.workers,
            "workers_follow_cores": subject.workers_follow,
            "batch_cpu_seconds": caller,
            "ranks": self.n_accelerators,
            "jobs": 1,
            **subject.described(),
        }

    def _machine(self) -> dict[str, Any]:
        found = machine.describe()
        if self.storage:
            found["storage_nbytes_per_second"] = _mean(self._storage_rates())
        if self.copies:
            found["copy_nbytes_per_second"] = _mean(self.copies)
        found["page_cache_nbytes"] = found["memory_available_nbytes"]
        found["cache_nbytes"] = 0
        if self.link > 0:
            found["link_nbytes_per_second"] = self.link
        found["gpu_interference"] = self._interference()
        return found

    def _interference(self) -> float:
        """Returns how much the GPU's preparation delays steps, 0 to 1: the time by which steps got longer / the time of the
        preparation."""
        per_batch = self.gpu["gpu_seconds"] * self.subject.batch_size
        if self.own is None or per_batch <= 0:
            return 0.0
        longer = self.phases["warm"].step_seconds - self.phases["resident"].step_seconds
        return min(max(longer / per_batch, 0.0), 1.0)

    def _step(self) -> dict[str, Any]:
        resident = self.phases.get("resident")
        found: dict[str, Any] = {"name": "none", "step_seconds": 0.0, "count": self.n_accelerators}
        if resident is None:
            return found
        found.update(
            name=self.fed.name if self.fed else "step",
            title=self.fed.title if self.fed else "accelerator",
            batch_size=self.subject.batch_size,
            step_seconds=resident.step_seconds,
            step_sd_seconds=resident.step_sd_seconds,
            step_cpu_seconds=max(resident.cpu_seconds * self.subject.batch_size - resident.caller_cpu_seconds, 0.0),
            limit=self.fed.limit if self.fed else None,
            source=self.fed.source if self.fed else "the step that was given, measured",
        )
        return found

    def _storage_rates(self) -> list[float]:
        return [rate.samples_per_second * nbytes for rate, nbytes in self.storage]

    def _bands(self, windows: list[float]) -> dict[str, float]:
        """Returns half widths of 95 % error bands. They combine the interval within a window of time and the difference between
        windows.

        windows: the CPU seconds of a sample in each window.
        """
        alone, cpu = self.alone, _mean(windows)
        bands = {
            "cpu_band": math.hypot(half(alone.cpu_low, alone.cpu_high, alone.cpu_seconds), steady.windows_band(windows)),
            "cores_band": 0.0,
            "storage_band": 0.0,
            "step_band": 0.0,
            "copy_band": steady.windows_band(self.copies),
        }
        if self.single is not None:
            bands["cores_band"] = abs(self._preparation(self.single) / cpu - 1)
        if self.storage:
            within = max(half(rate.low, rate.high, rate.samples_per_second) for rate, _ in self.storage)
            bands["storage_band"] = math.hypot(within, steady.windows_band(self._storage_rates()))
        if "resident" in self.phases:
            rate = self.phases["resident"].rate
            bands["step_band"] = half(rate.low, rate.high, rate.samples_per_second)
        return {name: min(band, 0.5) for name, band in bands.items()}

    def _stages(self, probed: dict[str, float], cpu: float) -> list[dict[str, Any]]:
        """Divides the CPU seconds of a sample among stages: a raw picture costs everything except decoding, stored bytes everything
        except work on pixels."""
        subject = self.subject
        batch = self.alone.caller_cpu_seconds / subject.batch_size if subject.workers > 0 else 0.0
        fetch = probed.get("fetch", 0.0)
        rest = max(cpu - fetch, 0.0)
        augment = min(probed.get("augment", 0.0), rest)
        found = [
            {"name": "fetch", "resource": "cores", "seconds": fetch},
            {"name": "decode", "resource": "cores", "seconds": rest - augment},
            {"name": "augment", "resource": "cores", "seconds": augment},
            {"name": "batch", "resource": "cores", "seconds": batch},
        ]
        if "augment" not in probed:
            self.notes.append("decode and augment were not told apart: the form raw was not probed")
        rates = {name: phase.rate.samples_per_second for name, phase in self.phases.items()}
        if "resident" in rates:
            upload = max(1 / rates["prepared"] - 1 / rates["resident"], 0.0)
            found.append({"name": "upload", "resource": "link", "seconds": upload})
            if self.gpu["gpu_seconds"] > 0:
                found.append({"name": "GPU preparation", "resource": "gpu", "seconds": self.gpu["gpu_seconds"]})
            found.append({"name": "compute", "resource": "accelerator", "seconds": 1 / rates["resident"]})
        return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _scale(costs: dict[str, float], scales: dict[str, float], own: dict[str, float]) -> dict[str, float]:
    scaled = {member: value * scales.get(member, 1.0) for member, value in costs.items()}
    ratio = own.get("cpu_sd_seconds", 0.0) / own["cpu_seconds"]
    scaled.setdefault("cpu_sd_seconds", ratio * scaled["cpu_seconds"])
    return scaled


public(__name__, "penstock")
