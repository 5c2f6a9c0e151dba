"""penstock.tune: analyses, plans, asks, writes the planned forms, and analyses again. Reports both analyses."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..base import options, outputs
from ..base.public import public
from ..base.units import amount, duration, size
from ..data import metadataset
from ..data.dataset import path_text
from ..data.mixture import Mixture
from ..errors import ArgumentError
from ..loading import plan_file as _plan_file
from ..loading.loader import Loader
from ..stalls.measure import quiet
from ..stalls.measure.run import analyze, seconds_of
from ..stalls.measure.usual import Usual, usual
from ..stalls.report import Report
from ..stalls.text import bar, doubts, warnings
from . import layout, solver, text
from . import plan as _plan
from .mixture_places import MixturePlaces
from .places import Places
from .plan import Plan

__all__ = ["Tuned", "tune"]

KIND = "penstock tune"
VERSION = 1
_ANALYSIS_PART = 0.4  # fraction of the budget for each of the two analyses

Make = Callable[[Any, Any], Loader]


@dataclass
class Tuned:
    """The result of :func:`tune`.

    Attributes:
        before, after: reports of :func:`penstock.analyze`; `after` is None if nothing was changed.
        plan: the plan that was applied, or would be applied.
        data: path of the data set that the plan is for, after writing.
        plan_file: path of the written plan; None: it was not written.
        loader_file: for a mixture, path of the written configuration of the loader; None: it was not written.
        written_seconds: time that writing the data took; 0: nothing was written.
        nbytes: bytes of the images on storage, before and after.
        notes: what was not changed, and why.
    """

    before: Report
    plan: Plan
    data: str
    after: Report | None = None
    written_seconds: float = 0.0
    nbytes: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)
    plan_file: str | None = None
    loader_file: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain data for JSON."""
        epochs = self.break_even()
        return {
            "kind": KIND,
            "version": VERSION,
            "data": self.data,
            "plan_file": self.plan_file,
            "loader_file": self.loader_file,
            "before": self.before.data,
            "after": None if self.after is None else self.after.data,
            "plan": self.plan.data,
            "written_seconds": self.written_seconds,
            "nbytes": list(self.nbytes),
            "break_even_epochs": epochs if math.isfinite(epochs) else None,
            "notes": self.notes,
        }

    def rate(self, report: Report) -> float:
        """Returns the samples/s of a report: with data in memory if the plan expects all stored bytes to fit there, else from
        storage."""
        phases = report.data["phases"]
        room = self.plan.data["machine"].get("page_cache_nbytes") or 0
        held = max(self.nbytes) <= room or bool(self.plan.data["loader"].get("cache"))
        return float(phases["warm" if held else "cold"]["samples_per_second"] if "cold" in phases else
                     phases["warm"]["samples_per_second"])  # fmt: skip

    def break_even(self) -> float:
        """Returns the number of epochs after which the time of writing has been saved; infinity: never."""
        if self.after is None:
            return math.inf
        samples = self.before.data["subject"]["samples"]
        return layout.break_even(self.written_seconds, self.rate(self.before), self.rate(self.after), samples)

    def report(self) -> str:
        """Returns both analyses and the plan as text for a terminal."""
        second = [] if self.after is None else warnings(self.after.data)
        lines = [f"Of the second analysis: {warning}." for warning in second]
        lines += [text.text(self.plan.data, commands=False), "", f"{'':24s}{'before':>14s}{'after':>14s}"]
        reports = [self.before] if self.after is None else [self.before, self.after]
        for name, title in (("warm", "samples/s from memory"), ("cold", "samples/s from storage")):
            rates = [r.data["phases"].get(name, {}).get("samples_per_second") for r in reports]
            if all(rates):
                gain = f"   {amount(rates[1] / rates[0])} times as fast" if len(rates) == 2 else ""
                lines.append(f"{title:24s}" + "".join(f"{amount(rate):>14s}" for rate in rates) + gain)
        lines.append(f"{'on storage':24s}" + "".join(f"{size(n):>14s}" for n in self.nbytes if n))
        waits = "waiting for u: upload, p: preparation, f: storage"
        if any(one.data["stall"] for one in reports):
            lines.append(f"Where the accelerator's time goes (#: computing, s: a slower step, {waits}):")
        for one, title in zip(reports, ("before", "after"), strict=False):
            lines += [f"  {title + ', ' + phase:13s} [{bar(parts):40s}]" for phase, parts in one.data["stall"].items()]
            lines += [f"uncertain {title}: {doubt}" for doubt in doubts(one.data)]
        if self.written_seconds:
            epochs = self.break_even()
            paid = f"that time is saved after {amount(epochs, 2)} epochs of training"
            paid = paid if math.isfinite(epochs) else "it never saves the time that it takes"
            lines.append(f"Writing took {duration(self.written_seconds)}; {paid}.")
        if self.loader_file is not None and self.plan_file is not None:
            lines.append(f"Train with it: ps.Loader.from_config({self.loader_file!r}, plan={self.plan_file!r})")
        elif self.plan_file is not None and self.after is not None:
            lines.append(f"Train with it: ps.Loader({self.data!r}, ..., plan={self.plan_file!r})")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def __str__(self) -> str:
        return self.report()


def tune(
    data: str | os.PathLike[str] | Mixture,
    step: Callable[[Any], Any] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    make: Make | None = None,
    ask: Callable[[str], bool] | None = None,
    budget: float | str = "2min",
    wait_quiet: float | str | None = None,
    accelerator: Any = None,
    accelerators: int = 1,
    batch_size: int | None = None,
    plan_file: str | os.PathLike[str] | None = None,
    report_file: str | os.PathLike[str] | None = None,
    progress: Callable[[str], Any] | None = None,
    **planned: Any,
) -> Tuned:
    """Analyses a data set, plans, writes the planned forms, and analyses again.

    Args:
        data: a folder of images, or containers of other programs (tars, zips, tables), which are never changed; or a data set,
            which is repacked in place; or a :class:`penstock.Mixture` or a metadataset of Energon, whose data sets are not changed.
        step: as for :func:`penstock.analyze`: called with a batch, returns when the training step is done.
        out: path of the packed data set; None: beside ``data``, with the suffix ".pst". For a mixture (required): a folder for a
            new data set of each source that changes, and "loader.json", the configuration of a loader of the new and the unchanged
            data sets (:meth:`Loader.from_config`).
        make: called with (path, plan), for a mixture with (mixture, plan); returns the Loader of the training. The plan is None in
            the first analysis, and is for ``Loader(..., plan=plan)`` in the second. None: the loader that :func:`penstock.analyze`
            assumes for a path.
        ask: called with a question before any data are written; True: go on. None: nothing is asked. If the analysis was disturbed
            (its ``check`` cannot be trusted), the question says so first; without ``ask``, the data are written nevertheless, and a
            note says so.
        budget: approximate time for all measurements: seconds, or "60s", "2min".
        wait_quiet: as for :func:`penstock.analyze`, before each of the two analyses.
        accelerator, accelerators, batch_size: as for :func:`penstock.analyze`. A loader of ``make`` has its own batch size.
        plan_file: path for the plan, which is written before the question and before any data. None: beside the data set, with the
            suffix ".plan.json", and only if data are written.
        report_file: path for both analyses and the plan. It is written before any data, at first without the second analysis.
        progress: called with a line before each step.
        planned: further arguments of :func:`penstock.plan`. With ``training_size``, a folder is packed whole or not at all: after
            an interruption nothing is left, and the same call starts again. A data set is refused, because its original images
            would be lost.

    All requirements are checked before anything is measured: HiGHS, disk space, writable paths. Nothing is written if the plan
    keeps the present forms, or if `ask` returns False. After an error of writing, the data are unchanged. No plan needs more space
    than the disk has.
    """
    say = progress or (lambda line: None)
    seconds = seconds_of(budget)
    if make is not None and batch_size is not None:
        raise ArgumentError("batch_size is for the usual loader: the loader of make has its own")
    options.count("accelerators", accelerators, 1, 1 << 20)
    _plan.check_options(**planned)
    solver.require(planned.get("library"))
    making = make or usual(batch_size, accelerator)
    path = data.path if isinstance(data, Mixture) else _whole_path(data)
    given = data if isinstance(data, Mixture) else path
    if metadataset.is_one(given) and not isinstance(making, Usual):
        given = Mixture.from_energon(path)
    quiet.checked(wait_quiet)
    measured = {"budget": max(1.0, _ANALYSIS_PART * seconds), "accelerator": accelerator, "accelerators": accelerators,
                "wait_quiet": wait_quiet}  # fmt: skip
    with _made(making, given, None) as loader:
        kind = MixturePlaces if loader.dataset.kind == "mixture" else Places
        places = kind(loader.dataset, path, out, plan_file, report_file)
        if planned.get("training_size"):
            places.check_training_size(loader)
        planned = {**planned, "storage": places.storage_limit(planned.get("storage"))}
        before = analyze(loader, step, progress=say, **measured)
        say("plan")
        found = _plan.plan(loader, report=before, budget=max(1.0, (1 - 2 * _ANALYSIS_PART) * seconds), progress=say, **planned)
    tuned = Tuned(before, found, path, nbytes=(int(before.data["subject"]["nbytes"]), 0))
    if places.is_limited and "quota" in found.data["predicted"]["binding"]:
        room = size(outputs.storable_nbytes(places.target))
        tuned.notes.append(f"the disk of {places.target} limits the plan: it has room for {room}")
    if plan_file is not None:
        places.save_plan(tuned)
    if found.changes_forms and not _agreed(tuned, places, ask):
        places.save_report(tuned)
        return tuned
    if found.changes_forms:
        _write(tuned, places, say)
    _look_again(tuned, making, step, measured, places, say)
    return tuned


def _whole_path(data: Any) -> str:
    """Returns the absolute path of the data. Several paths become the one text that names them all."""
    text = str(path_text(data))
    return text if "::" in text and not os.path.exists(text) else os.path.abspath(text)


def _made(making: Make, data: Any, plan: Any) -> Loader:
    loader = making(data, plan)
    if not isinstance(loader, Loader):
        raise ArgumentError(f"make(path, plan) returns a penstock.Loader, not {type(loader).__name__}")
    return loader


def _agreed(tuned: Tuned, places: Places, ask: Callable[[str], bool] | None) -> bool:
    """Asks whether to write the plan. The free disk space is checked again, because others use the disk, too."""
    convert = tuned.plan.data["convert"]
    places.need_room(convert["nbytes"])
    about = f"write {size(convert['nbytes'])}, in about {duration(convert['seconds'])}?"
    disturbed = text.warnings(tuned.plan.data)
    smaller = [f"{places.target} will have images after Resize({side}); only {tuned.data} keeps the whole ones."
               for side in _plan_file.sides(tuned.plan.data)]  # fmt: skip
    if ask is None or ask("\n".join([*disturbed, *smaller, places.question(tuned.data, about)])):
        if disturbed:
            tuned.notes.append("it was written although the measurements before it were disturbed")
        return True
    tuned.notes.append("nothing was written: the question was answered by no")
    return False


def _write(tuned: Tuned, places: Places, say: Callable[[str], Any]) -> None:
    """Packs the folder, or repacks the data set. The plan and the report so far are saved before."""
    places.save_plan(tuned)
    under_way = "the data were being written when this was: it has no second analysis"
    tuned.notes.append(under_way)
    places.save_report(tuned)
    say(f"the plan is in {places.plan_file}; writing {places.target}")
    start = time.perf_counter()
    try:
        places.write()
    except BaseException as error:
        error.add_note(f"the plan is in {places.plan_file}; {places.resume(places.plan_file)}")
        raise
    tuned.notes.remove(under_way)
    tuned.written_seconds = time.perf_counter() - start
    tuned.data = places.target


def _look_again(
    tuned: Tuned, making: Make, step: Any, measured: dict[str, Any], places: Places, say: Callable[[str], Any]
) -> None:
    """Analyses the written data. If that fails, the report still says what was written."""
    try:
        if tuned.written_seconds and isinstance(making, Usual):
            making = making.of_packed()
        with _made(making, places.training_data(tuned.data), tuned.plan) as loader:
            places.keep(tuned, loader)
            tuned.after = analyze(loader, step, forms=(), progress=say, **measured)
    except BaseException as error:
        if tuned.written_seconds:
            error.add_note(f"{tuned.data} is written, and its plan is in {places.plan_file}; only the second analysis is missing")
        tuned.notes.append(f"the second analysis failed: {type(error).__name__}: {error}")
        with contextlib.suppress(OSError):
            places.save_report(tuned)
        raise
    tuned.nbytes = (tuned.nbytes[0], int(tuned.after.data["subject"]["nbytes"]))
    tuned.notes.append(tuned.plan.check(tuned.rate(tuned.after)))
    places.save_report(tuned)


public(__name__, "penstock")
