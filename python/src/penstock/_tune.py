"""penstock.tune: analyse, plan, ask, write what the plan asks for, analyse again; and a report of before and after."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _plan, _plan_layout, _solver, writer
from ._analyze import _default_loader, analyze, seconds_of
from ._plan import Plan
from ._report_text import bar, duration, size
from .errors import ArgumentError
from .loader import Loader
from .report import Report

__all__ = ["Tuned", "tune"]

KIND = "penstock tune"
VERSION = 1
_ANALYSIS_PART = 0.4  # of the budget, for each of the two

Make = Callable[[str, Any], Loader]


@dataclass
class Tuned:
    """What tuning did.

    Attributes:
        before, after: reports of :func:`penstock.analyze`; `after` is None where nothing was changed.
        plan: the plan that was applied, or would be.
        data: path of the data set that the plan is for, after writing.
        written_seconds: how long writing it took; 0: nothing was written.
        nbytes: of images on storage, before and after.
        notes: what was left as it is, and why.
    """

    before: Report
    plan: Plan
    data: str
    after: Report | None = None
    written_seconds: float = 0.0
    nbytes: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        epochs = self.break_even()
        return {
            "kind": KIND,
            "version": VERSION,
            "data": self.data,
            "before": self.before.data,
            "after": None if self.after is None else self.after.data,
            "plan": self.plan.data,
            "written_seconds": self.written_seconds,
            "nbytes": list(self.nbytes),
            "break_even_epochs": epochs if math.isfinite(epochs) else None,
            "notes": self.notes,
        }

    def rate(self, report: Report) -> float:
        """Returns the samples/s of the run: from memory if the plan counts on it to hold all stored bytes, else from storage."""
        phases = report.data["phases"]
        room = self.plan.data["machine"].get("page_cache_nbytes") or 0
        held = max(self.nbytes) <= room or bool(self.plan.data["loader"].get("cache"))
        return float(phases["warm" if held else "cold"]["samples_per_second"] if "cold" in phases else
                     phases["warm"]["samples_per_second"])  # fmt: skip

    def break_even(self) -> float:
        """Returns the epochs after which the time of writing has been saved; infinity: never."""
        if self.after is None:
            return math.inf
        samples = self.before.data["subject"]["samples"]
        return _plan_layout.break_even(self.written_seconds, self.rate(self.before), self.rate(self.after), samples)

    def report(self) -> str:
        """Returns before and after as text for a terminal."""
        lines = [self.plan.report(), "", f"{'':24s}{'before':>14s}{'after':>14s}"]
        reports = [self.before] if self.after is None else [self.before, self.after]
        for name, title in (("warm", "samples/s from memory"), ("cold", "samples/s from storage")):
            rates = [r.data["phases"].get(name, {}).get("samples_per_second") for r in reports]
            if all(rates):
                gain = f"   {rates[1] / rates[0]:.2f} x" if len(rates) == 2 else ""
                lines.append(f"{title:24s}" + "".join(f"{rate:14.0f}" for rate in rates) + gain)
        lines.append(f"{'on storage':24s}" + "".join(f"{size(n):>14s}" for n in self.nbytes if n))
        for one, title in zip(reports, ("before", "after"), strict=False):
            lines += [f"{title}, {phase:5s} {bar(parts)}" for phase, parts in one.data["stall"].items()]
        if self.written_seconds:
            epochs = self.break_even()
            paid = f"paid back after {epochs:.2g} epochs" if math.isfinite(epochs) else "by time it never pays"
            lines.append(f"written in {duration(self.written_seconds)}: {paid}")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def __str__(self) -> str:
        return self.report()


def tune(
    data: str | os.PathLike[str],
    step: Callable[[Any], Any] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    make: Make | None = None,
    ask: Callable[[str], bool] | None = None,
    budget: float | str = "2min",
    accelerator: Any = None,
    accelerators: int = 1,
    batch_size: int | None = None,
    progress: Callable[[str], Any] | None = None,
    **planned: Any,
) -> Tuned:
    """Analyses a data set, plans, writes what the plan asks for, and analyses again.

    Args:
        data: a folder of images, which is never changed; or a data set, which is repacked in place.
        step: as for :func:`penstock.analyze`: called with a batch, returns when the step is done.
        out: where a folder is packed to; None: beside it, with the suffix ".pst".
        make: called with (path, plan) and returns the Loader of the training. The plan is None before, and is for
            ``Loader(..., plan=plan)`` afterwards. None: RandomResizedCrop(224), flip and Normalize.
        ask: called with a question before anything is written; True: go on. None: nothing is asked.
        budget: about how long all measurements may take: seconds, or "60s", "2min".
        accelerator, accelerators, batch_size: as for :func:`penstock.analyze`.
        progress: called with a line before each step.
        planned: further arguments of :func:`penstock.plan`.

    Nothing is written if the plan keeps what is there, or `ask` says no. Errors of writing leave the data as they were.
    """
    say = progress or (lambda line: None)
    _solver.require(planned.get("library"))
    seconds, path = seconds_of(budget), os.fspath(data)
    making = make or _usual(batch_size or 64)
    measured = {"budget": max(1.0, _ANALYSIS_PART * seconds), "accelerator": accelerator, "accelerators": accelerators}
    with making(path, None) as loader:
        folder = loader.dataset.is_folder
        if out is not None and not folder:
            raise ArgumentError("out is where a folder is packed to: a data set is repacked in place")
        before = analyze(loader, step, progress=say, **measured)
        say("plan")
        found = _plan.plan(loader, report=before, budget=max(1.0, (1 - 2 * _ANALYSIS_PART) * seconds), progress=say, **planned)
    tuned = Tuned(before, found, path, nbytes=(int(before.data["subject"]["nbytes"]), 0))
    if found.changes_forms and not _write(tuned, folder, out, ask, say):
        return tuned
    with making(tuned.data, found) as loader:
        tuned.after = analyze(loader, step, forms=(), progress=say, **measured)
    tuned.nbytes = (tuned.nbytes[0], int(tuned.after.data["subject"]["nbytes"]))
    tuned.notes.append(found.check(tuned.rate(tuned.after)))
    return tuned


def _usual(batch_size: int) -> Make:
    def make(path: str, plan: Any) -> Loader:
        loader = _default_loader(path, batch_size)
        return loader if plan is None else Loader(**{**loader._given, "plan": plan})

    return make


def _write(
    tuned: Tuned, folder: bool, out: Any, ask: Callable[[str], bool] | None, say: Callable[[str], Any]
) -> bool:
    """Packs the folder, or repacks the data set, as the plan says. False: the user does not want it."""
    target = os.fspath(out) if out is not None else tuned.data.rstrip("/") + ".pst" if folder else tuned.data
    if folder and os.path.exists(target):
        raise ArgumentError(f"{target} exists: give another out")
    convert = tuned.plan.data["convert"]
    question = (
        f"write {size(convert['nbytes'])} to {target}, in about {duration(convert['seconds'])}?"
        if folder
        else f"change {tuned.data} in place: write {size(convert['nbytes'])}, in about {duration(convert['seconds'])}?"
    )
    if ask is not None and not ask(question):
        tuned.notes.append("nothing was written: the question was answered by no")
        return False
    say(f"writing {target}")
    start = time.perf_counter()
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="penstock-plan-", encoding="utf-8") as file:
        file.write(json.dumps(tuned.plan.data))
        file.flush()
        if folder:
            writer.pack(tuned.data, target, plan=file.name)
        else:
            writer.repack(tuned.data, plan=file.name)
    tuned.written_seconds = time.perf_counter() - start
    tuned.data = target
    return True

