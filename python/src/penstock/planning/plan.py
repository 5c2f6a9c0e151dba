"""penstock.plan: chooses the forms to store, what to cache, where to decode and on which machine, by measured costs."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import json
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import _native
from ..base import files, outputs
from ..base import options as _options
from ..base.public import public
from ..base.units import duration, size
from ..caching.cache import CachePlan
from ..caching.planned import Planned
from ..data import metadataset, opening
from ..data.dataset import Dataset
from ..data.image import stored_form
from ..errors import ArgumentError, CorruptError, LimitError, NoSpaceError, PenstockError
from ..loading import options as _loader_options
from ..loading import plan_file
from ..loading import stages as _loader_set
from ..loading.loader import Loader
from ..stalls import conclusion, model
from ..stalls.measure import probe
from ..stalls.measure.run import analyze, seconds_of
from ..stalls.measure.usual import usual
from ..stalls.report import Report
from . import choice as _choice
from . import classes as _classes
from . import layout as _plan_layout
from . import machines as _plan_machines
from . import mixtures as _mixtures
from . import recoding, solver
from . import text as _plan_text
from . import ways as _ways
from .classes import Class

__all__ = ["Plan", "plan"]

_LAYOUT_PART, _CLASSES_PART, _SURVEY_PART = 0.2, 0.2, 0.05
_MACHINE = ("cpu", "cores", "storage_nbytes_per_second", "page_cache_nbytes")  # members of the machine that the plan's file repeats
_SUBJECT = ("path", "opening", "samples", "nbytes", "batch_size", "transforms", "fields", "per_box", "assumed")
_LEAST_CACHE = 1 << 20
_CACHE_PART = 0.5  # fraction of the available memory that the cache gets by default


class Plan:
    """The result of :func:`plan`.

    Attributes:
        data: the whole plan as plain data, as in its file (docs/format-plan.md).
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = plan_file.checked(data, "the plan")
        self._file: str | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan's file."""
        made = cls(plan_file.read(path))
        made._file = os.fspath(path)
        return made

    def to_json(self, path: str | os.PathLike[str] | None = None, *, source: str | None = None) -> str:
        """Returns the plan as JSON, and writes it to a file if a path is given.

        source: name of a data set of the planned mixture: the result is the plan for ``pack --plan`` or ``repack --plan`` of it.
        """
        data = self.data if source is None else _mixtures.of_source(self.data, source)
        text = json.dumps(data, indent=2, allow_nan=False) + "\n"
        if path is not None:
            outputs.write(path, text)
        return text

    @property
    def changes_forms(self) -> bool:
        """Whether the plan stores samples in other forms than now. Then run ``pack --plan`` or ``repack --plan`` first."""
        return plan_file.changes_forms(self.data)

    def cache_plan(self, dataset: Dataset) -> CachePlan | None:
        """Returns the samples of a data set that a loader with this plan caches. None: all of them, or none.

        The result depends only on the plan and the data set, so all ranks get the same.
        """
        planned = Planned(self.data)
        return planned.of(dataset) if planned else None

    @property
    def loader(self) -> dict[str, Any]:
        """The plan's settings of a loader, by the names in its file (docs/format-plan.md). ``Loader(plan=plan)`` uses them."""
        return plan_file.loader_options(plan_file.read(self.data))

    def check(self, samples_per_second: float) -> str:
        """Compares a measured rate with the predicted one. Returns a sentence."""
        with files.unfit("the plan", self._file):
            return _plan_text.check(self.data["predicted"], samples_per_second)

    def report(self) -> str:
        """Returns the plan as text for a terminal."""
        with files.unfit("the plan", self._file):
            return _plan_text.text(self.data)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        with files.unfit("the plan", self._file):
            return f"Plan({_plan_text.words(self.data)!r})"


def _read(data: Any, *_: Any, **__: Any) -> tuple[str, str | None] | None:
    """For the decorator `tells`: returns that a plan is made from a report, and the report's file."""
    if isinstance(data, Report):
        return "the report", data._file
    is_file = isinstance(data, (str, os.PathLike)) and os.path.isfile(data)
    return ("the report", os.fspath(data)) if is_file else None


@files.tells(_read)
def plan(
    data: Any,
    step: Callable[[Any], Any] | None = None,
    *,
    goal: str = "rate",
    least_rate: float = 0.0,
    storage: int | str | None = None,
    cache: int | str | None = "auto",
    page_cache: int | str | None = "auto",
    epochs: int | None = None,
    max_error: int = 0,
    forms: Sequence[str] | None = None,
    copies: bool = False,
    training_size: bool = False,
    machines: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    report: Report | None = None,
    accelerator: Any = None,
    accelerators: int = 1,
    batch_size: int | None = None,
    budget: float | str = "60s",
    wait_quiet: float | str | None = None,
    layout: bool = True,
    schedule: str | Sequence[Mapping[str, Any]] | None = None,
    library: str | None = None,
    progress: Callable[[str], Any] | None = None,
) -> Plan:
    """Finds the best plan for a data set on this machine, by measured costs and a linear programme.

    Args:
        data: a folder of images, a data set, or a :class:`penstock.Loader`, which is analysed first; or a
            :class:`penstock.report.Report` (or its file), whose costs are used as they are. In a :class:`penstock.Mixture` with
            weights, each source counts as often as an epoch draws it.
        step, accelerator, accelerators, batch_size, budget, wait_quiet: as for :func:`penstock.analyze`.
        report: an earlier analysis of ``data``; None: the analysis is made now.
        goal: "rate": most samples/s, and among equal plans the one that stores the fewest bytes. "storage": fewest bytes stored, at
            ``least_rate``. "cost": lowest cost of an epoch, at ``least_rate``; needs ``machines``.
        least_rate: samples/s that a plan must reach.
        storage: most bytes on storage: a number, a text like "100GiB", or "150%" of what is stored now; None: no limit.
        cache: memory for the cache: bytes, "8GiB", "50%" of what is stored now, or "auto" (half of the available memory). None or
            0: no cache.
        page_cache: memory that the kernel's page cache can use for the data: bytes, "8GiB", or "auto" (the available memory less
            ``cache``). None or 0: data are read from storage in each epoch. Choose this if the real data set is larger than
            ``data``.
        epochs: number of epochs of the training, which all use the same cache. The plan then counts the first epoch, which fills
            the cache. It also counts re-coding images for the cache, which pays only over many epochs, and it does not write forms
            that pay later. None: so many epochs that the first one does not matter.
        max_error: 0: only forms with unchanged pixels. Else also near-lossless PLI whose samples differ by at most this much.
        forms: forms that may be stored besides the present one; None: those that are worthwhile. A cache may keep others.
        copies: store a sample in every form that its class mixes. Each batch then has the mix exactly, and the loader can correct
            it, but it takes more storage. False: each sample is stored in one form.
        training_size: images may be stored after the ``Resize(side)`` that the transforms begin with, as raw pixels or PLI. Batches
            with these transforms are the same; every other use sees smaller images. Only for a data set or a Loader.
        machines: a file of machines (docs/format-plan.md), or its data: the plan adds the time and cost of an epoch on each.
        layout: also measure how storage reads files and packed samples, at random and in pages.
        schedule: sizes of pictures and batches that begin with certain epochs; a Loader with the plan follows it
            (:meth:`Loader.set`). A text like "0:128:512,6:192:256,12:224" (epoch, size, samples per batch), or a list as in a
            plan's file. The mix is solved for the pictures that were measured, whatever the schedule says.
        library: path of HiGHS's library; None: the one that PENSTOCK_HIGHS names, the package highspy, or the system's library.
        progress: called with a line before each step.

    Raises LimitError if no plan meets the limits, and UnsupportedError, before anything is measured, without HiGHS.
    """
    say = progress or (lambda line: None)
    check_options(
        goal=goal, storage=storage, cache=cache, page_cache=page_cache, epochs=epochs, forms=forms, schedule=schedule,
        max_error=max_error,
    )  # fmt: skip
    table = _plan_machines.read(machines) if isinstance(machines, (str, os.PathLike)) else machines
    seconds = seconds_of(budget)
    errors = () if max_error == 0 else (f"pli-small:{_options.count('max_error', max_error, 0, 127)}",)
    stages = _schedule_of(schedule)
    given = report_or_data(data)
    if isinstance(given, Report):
        measured_here = {"step": step, "accelerator": accelerator, "batch_size": batch_size, "wait_quiet": wait_quiet}
        _refuse_measuring({name for name, value in measured_here.items() if value is not None})
        if training_size:
            raise ArgumentError("training_size: a report does not know the sizes of all images; give the data set")
        if given.data["subject"].get("sources"):
            raise ArgumentError("the report is of a mixture, and does not know its samples one by one: give the mixture")
    solver.require(library)
    notes: list[str] = []
    loader = _loader_of(given, batch_size, accelerator)
    if loader is not None:
        _mixtures.check(loader, copies=copies, training_size=training_size)
        image_field(loader.dataset)  # raises an error before anything is measured if there are no images
    side = training_side(loader) if training_size and loader is not None else 0
    layout = layout and loader is not None and _layout_fits(loader.dataset, notes, say)
    costs = _report_of(
        given if loader is None else loader, step, report, accelerator=accelerator, accelerators=accelerators,
        budget=seconds * (1 - _CLASSES_PART - (_LAYOUT_PART if layout else 0.0)), forms=forms, errors=errors,
        caches=cache not in (None, 0, "0"), wait_quiet=wait_quiet, progress=say,
    )  # fmt: skip
    classes, measured = _costs_of(costs, loader, seconds, layout, notes, say, side)
    limits = _limits(costs, goal, least_rate, storage, cache, max_error, library, epochs)
    costs = _with_page_cache(costs, page_cache, limits, loader)
    say("solve")
    if forms is not None:
        _keep_forms(classes, forms)
    made = _data(costs, classes, limits, table, measured, copies, _field_of(costs, loader), notes)
    made = _mixtures.to_samples(made, classes, costs["subject"])
    if loader is not None and loader.dataset.kind != "mixture":
        _say_of_room(made)
    return Plan({**made, **_schedule_section(stages, costs, loader)})


def _schedule_of(schedule: Any) -> list[dict[str, Any]]:
    """Converts a schedule to the stages of a plan's file."""
    found = _loader_set.stages_of(schedule) if isinstance(schedule, str) else [dict(stage) for stage in schedule or []]
    _loader_set.stages(found, "schedule")
    return found


def _schedule_section(stages: list[dict[str, Any]], report: Mapping[str, Any], loader: Loader | None) -> dict[str, Any]:
    """Returns the members of a plan about its schedule: the stages, and the size and batch size that the mix was solved for."""
    if not stages:
        return {}
    height, width = (0, 0) if loader is None else loader._changes.opened[1:]  # the size that was measured
    return {
        "schedule": stages,
        "solved_for": {"size": [height, width] if height else None, "batch_size": report["subject"]["batch_size"]},
    }


def report_or_data(data: Any) -> Any:
    """Returns a Loader, a Dataset, a path of data, or a Report. A file is read as a report, unless it holds samples."""
    if not isinstance(data, (str, os.PathLike)) or not os.path.isfile(data) or _holds_samples(os.fspath(data)):
        return data
    try:
        return Report.load(data)
    except (CorruptError, ArgumentError) as error:
        raise ArgumentError(
            f"{os.fspath(data)} is a file and no report of penstock analyze ({error.text}): give a folder of images, a data set, "
            "tars or tables, or a report"
        ) from None


def _holds_samples(path: str) -> bool:
    """Whether a file holds samples: a tar, a zip, a table, or a JSON index of such files. Reports are JSON, too."""
    if not path.lower().endswith(".json"):
        return metadataset.is_one(path) or _native.path_holds_samples(path)
    try:
        with files.open_data(path, "file") as file:
            head = file.read(65536)
            return b'"shardlist"' in head or (b'"shards"' in head and b'"column_encodings"' in head)
    except PenstockError:
        return False  # no file of samples; reading it as a report will then raise the error


def _refuse_measuring(names: Collection[str]) -> None:
    if names:
        raise ArgumentError(f"{', '.join(sorted(names))}: nothing is measured for a report, which has its own; give the data set")


def storage_limit(value: Any, whole: float) -> float:
    """Converts a limit such as "100GiB", or "150%" of what is stored now, to bytes. 0: no limit."""
    return _size("storage", value, whole)


def check_options(**given: Any) -> None:
    """Raises ArgumentError for an argument that :func:`plan` does not have, and for values that are wrong for any data."""
    known = inspect.signature(plan).parameters
    for name in given:
        if name not in known:
            raise ArgumentError(f"plan has no argument {name!r}{_options.nearest(name, list(known))}")
    values = {name: given.get(name, known[name].default) for name in known}
    if values["goal"] not in _ways.GOALS:
        raise ArgumentError(f"goal is one of {', '.join(_ways.GOALS)}, not {values['goal']!r}")
    for name in ("storage", "cache", "page_cache"):
        if values[name] != "auto" or name == "storage":
            _size(name, values[name], 1.0)
    _options.count("max_error", values["max_error"], 0, 127)
    if values["epochs"] is not None:
        _options.count("epochs", values["epochs"], 1, 10**6)
    probe.check_forms(values["forms"])
    _schedule_of(values["schedule"])


def _keep_forms(classes: Sequence[Class], forms: Sequence[str]) -> None:
    """Removes the forms that the user does not want stored. The present form stays."""
    for part in classes:
        part.held, part.forms = part.forms, {
            form: places for form, places in part.forms.items()
            if form.partition("@")[0] in forms or form == part.form or ":" in form
        }  # fmt: skip


def _loader_of(data: Any, batch_size: int | None, accelerator: Any) -> Loader | None:
    """Returns the loader to measure, or None if `data` is a report."""
    if isinstance(data, Report):
        return None
    if not isinstance(data, Loader):
        return usual(batch_size, accelerator)(data)
    if batch_size is not None:
        raise ArgumentError("batch_size is for a data set or a path: a loader has its own")
    return data


def training_side(loader: Loader) -> int:
    """Returns the side of the Resize that the transforms begin with. ArgumentError: images cannot be stored after it without
    changing the batches."""
    options, name = _loader_options.arguments(loader), image_field(loader.dataset)
    chain = options["transforms"]
    side = plan_file.resize_of(chain.get(name) if isinstance(chain, Mapping) else chain)
    own = [option for option in ("channels", "bits", "ignore_orientation", "scaled_decode") if options.get(option)]
    images = [field.name for field in loader.dataset.fields.values() if field.type == "image"]
    why = (
        "the transforms do not begin with Resize(side), bilinear and antialiased" if side is None
        else f"not with {', '.join(own)}" if own
        else f"samples have several images: {', '.join(images)}" if len(images) > 1
        else None
    )  # fmt: skip
    if side is None or why is not None:
        raise ArgumentError(f"training_size: images cannot be stored at the training size with the same batches: {why}")
    return side


def _layout_fits(dataset: Dataset, notes: list[str], say: Callable[[str], Any]) -> bool:
    """Whether the files that are packed to compare layouts fit on the disk."""
    if dataset.kind == "mixture":
        notes.append("layouts were not measured: the samples lie in several data sets")
        return False
    try:
        if not dataset.is_packed:
            _plan_layout.need_room(dataset)
    except NoSpaceError as error:
        notes.append(f"layouts were not measured: {error.text}")
        say(notes[-1])
        return False
    return True


def _say_of_room(made: dict[str, Any]) -> None:
    """Adds a note to a plan whose data do not fit on the disk."""
    place = os.path.dirname(os.path.abspath(made["data"]["path"]))
    nbytes, room = made["convert"]["nbytes"], outputs.storable_nbytes(place)
    if nbytes > room:
        made["notes"].append(
            f"this plan writes {size(nbytes)}, and the disk of {place} has room for {size(room)}: --storage-limit plans with less"
        )


def _report_of(
    data: Any, step: Any, report: Report | None, *, forms: Sequence[str] | None, errors: Sequence[str], caches: bool, **options: Any
) -> dict[str, Any]:
    """Returns the data of a report, after analysing `data` if it is no report."""
    if isinstance(data, Report):
        return data.data
    wanted = forms
    if forms is None and errors:
        wanted = (*probe.usual_forms(_form_of(data)), *errors)
    elif forms is not None and caches and _form_of(data) == "jpeg":
        wanted = (*forms, "pli-jpeg")
    found = report or analyze(data, step, forms=wanted, **options)
    return found.data


def _form_of(loader: Loader) -> str:
    """Returns the form of the first sample's image."""
    from ..data.image import probe as header

    field = image_field(loader.dataset)
    form = loader.dataset.item(0, field)["form"]
    return str(form or header(loader.dataset.read(0, field)).form)


def image_field(dataset: Dataset) -> str:
    """Returns the name of the data set's first image field."""
    for name, field in dataset.fields.items():
        if field.type == "image":
            return name
    raise ArgumentError(f"{dataset.path} has no images: there is nothing to plan")


def _copies(classes: list[Class], report: Mapping[str, Any], limits: _ways.Limits, notes: list[str]) -> _ways.Solution:
    """Returns the best plan whose mixed forms can be stored as copies of a sample: with at most one tier of PLI, and only full
    size."""
    every = list(dict.fromkeys(form for part in classes for form in part.forms))
    forms = [form for form in every if "@" not in form]
    tiers = [form for form in forms if stored_form(form) == "pli"]
    choices = [tuple(f for f in forms if f == tier or stored_form(f) != "pli") for tier in tiers or [""]]
    choices += [(form,) for form in every if "@" in form]
    found = [_ways.solve(classes, report, limits, only=only) for only in choices]
    best = max(found, key=lambda one: float(one.answer["samples_per_second"]))
    if any(way.cache_form for way, _ in best.used()):
        notes.append("with a cache copies do not help: it keeps one form of a sample. Use no copies, or no cache")
    return best


def _field_of(report: Mapping[str, Any], loader: Loader | None) -> str:
    """Returns the name of the image field, if the data set can be opened."""
    if loader is not None:
        return image_field(loader.dataset)
    try:
        with opening.of_subject(report["subject"]) as dataset:
            return image_field(dataset)
    except (PenstockError, OSError):
        return "image"


def _costs_of(
    report: Mapping[str, Any],
    loader: Loader | None,
    seconds: float,
    layout: bool,
    notes: list[str],
    say: Callable[[str], Any],
    side: int,
) -> tuple[list[Class], dict[str, Any] | None]:
    """Returns the classes with their costs, and the layouts of storage, or None if layouts were not measured.

    side: images may be stored after Resize(side); 0: not.
    """
    if loader is None:
        return _classes.of_report(report), None
    field = image_field(loader.dataset)
    classes = _mixtures.survey(loader, field, _SURVEY_PART * seconds, side, notes)
    options = _loader_options.arguments(loader)
    notes += _classes.measure(classes, report, loader.dataset, field, options, _CLASSES_PART * seconds, say)
    for part in [part for part in classes if not part.forms]:
        notes.append(f"{part.samples} samples of the form {part.form} could not be probed: they stay as they are")
        classes.remove(part)
    _mixtures.to_draws(classes)
    if side:
        _classes.add_training_size(classes, side)
        if not any("@" in form for part in classes for form in part.forms):
            notes.append(f"no form at the training size: images hardly become smaller by Resize({side}), or a GPU takes them")
    measured = None
    if layout and options.get("storage") != "memory":
        throttle = options.get("throttle")
        try:
            measured = _plan_layout.measure(loader.dataset, _LAYOUT_PART * seconds, field=field, throttle=throttle, progress=say)
        except PenstockError as error:
            notes.append(f"layouts were not measured: {error.text}")
    return classes, measured


def _limits(
    report: Mapping[str, Any], goal: str, least_rate: float, storage: Any, cache: Any, max_error: int, library: str | None,
    epochs: int | None,
) -> _ways.Limits:  # fmt: skip
    now = float(report["subject"]["nbytes"])
    if cache == "auto":
        room = _CACHE_PART * float(report["machine"].get("memory_available_nbytes") or 0.0)
    else:
        room = _size("cache", cache, now)
    room = room if room >= _LEAST_CACHE else 0.0  # a cache cannot be smaller
    return _ways.Limits(goal, float(least_rate), storage_limit(storage, now), room, max_error > 0, library, epochs or 0)


def _with_page_cache(report: dict[str, Any], given: Any, limits: _ways.Limits, loader: Loader | None) -> dict[str, Any]:
    """Returns the report with the page cache that the plan may use. It has no effect for throttled storage, which is always
    slow."""
    found: dict[str, Any] = json.loads(json.dumps(report))
    there = float(report["machine"].get("page_cache_nbytes") or 0.0)
    if given != "auto":
        there = _size("page_cache", given, float(report["subject"]["nbytes"]))
    elif loader is not None and _loader_options.arguments(loader)["throttle"]:
        there = 0.0
    else:
        there = max(there - limits.cache_nbytes, 0.0)
    found["machine"]["page_cache_nbytes"] = there
    return found


def _size(name: str, value: Any, whole: float) -> float:
    if value is None or value in (0, "0"):
        return 0.0
    text = str(value).strip()
    if text.endswith("%"):
        try:
            return float(text[:-1]) / 100 * whole
        except ValueError:
            raise ArgumentError(f"{name} is bytes, or a text like 8GiB or 50%, not {value!r}") from None
    return float(_options.nbytes(name, value))


# Putting together -----------------------------------------------------------------------------------


def _data(
    report: Mapping[str, Any],
    classes: list[Class],
    limits: _ways.Limits,
    machines: Mapping[str, Any] | None,
    layout: dict[str, Any] | None,
    copies: bool,
    field: str,
    notes: list[str],
) -> dict[str, Any]:
    solved = _copies(classes, report, limits, notes) if copies else _ways.solve(classes, report, limits)
    alone = _alone(report, classes, limits)
    singles = [one for one in alone.values() if isinstance(one, _ways.Solution)]
    best = _choice.best_of(solved, singles, report, classes, limits, copies)
    solution = _that_pays(best, report, classes, limits, copies, notes)
    answer, chosen = _ways.predict(report, _ways.mixed(solution, classes, copies), _ways.is_mix(solution))
    now = model.predict(report, {"cache": 0})
    subject = report["subject"]
    made: dict[str, Any] = {
        "kind": plan_file.KIND,
        "version": plan_file.VERSION,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "penstock": _native.version,
        "data": {name: subject[name] for name in _SUBJECT if name in subject},
        "field": field,
        "goal": limits.goal,
        "epochs": limits.epochs or None,
        "classes": _class_sections(solution, classes, copies),
        "loader": _loader_section(solution, classes, limits, subject, chosen, copies),
        "predicted": _prediction(answer, solution),
        "now": {"form": subject["form"], "samples_per_second": now.samples_per_second, "low": now.low, "high": now.high,
                "binding": now.binding},
        "check": {"trusted": not conclusion.distrust(report), "reason": conclusion.distrust(report)},
        "machine": {name: report["machine"].get(name) for name in _MACHINE},
        "accelerator": {name: report["accelerator"].get(name) for name in ("name", "title", "step_seconds", "count")},
        "singles": _singles(alone, report, classes),
        "prices": _prices(solution),
        "need": _needs(solution, classes, report, limits),
        "notes": notes,
    }  # fmt: skip
    made["stored_nbytes"] = _stored(made["classes"]) + _others(classes, subject)
    made["convert"] = _conversion(made, solution, classes, report)
    recode = recoding.section(solution, classes, limits)
    if recode is not None:
        made["recode"] = recode
    if layout is not None:
        made["layout"] = layout
        made["convert"]["of_layout"] = _layout_gain(layout, subject["samples"])
    if machines is not None:
        rows = _plan_machines.compare(machines, classes, report, limits)
        made["machines"] = {"rows": rows, **{key: machines.get(key) for key in ("date", "currency", "source")}}
        made["need"].update(_plan_machines.price_of_single(rows))
    whole: dict[str, Any] = _finite(made)
    return whole


def _finite(value: Any) -> Any:
    """Replaces infinities in plain data, because JSON has none."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _store(form: str) -> dict[str, Any]:
    """Returns a form as a dict with the names that the command line and the plan's file use."""
    name, _, side = form.partition("@")
    if side:
        return {**_store(name), "resize": int(side)}
    if not form.startswith("pli-") or form == "pli-jpeg":
        return {"form": form}
    tier, _, error = form.removeprefix("pli-").partition(":")
    return {"form": "pli", "tier": tier, **({"max_error": int(error)} if error else {})}


def _class_sections(solution: _ways.Solution, classes: Sequence[Class], copies: bool) -> list[dict[str, Any]]:
    found = []
    for i, part in enumerate(classes):
        ways = [(way, share) for way, share in solution.used() if way.i_class == i]
        section: dict[str, Any] = {"form": part.stored, "pixels": [part.low, part.high], "samples": part.samples}
        section["ways"] = [
            {
                "share": share,
                "store": [_store(way.form)],
                "cache": "encoded" if way.cache_form == "stored" else _ways.of_cache(way.cache_form)["cache_form"],
                "decode": way.place,
                "stored_nbytes": way.stored_nbytes,
                **_ways.saved_by(solution, way, part),
            }
            for way, share in ways
        ]
        if copies and len({way.form for way, _ in ways}) > 1:
            section["ways"] = [_copied(section["ways"])]
        found.append(section)
    return found


def _copied(ways: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Joins several ways to one that stores all their forms, the most frequent first."""
    shares: dict[str, float] = {}
    stores: dict[str, dict[str, Any]] = {}
    nbytes: dict[str, float] = {}
    for way in ways:
        name = json.dumps(way["store"][0])
        shares[name] = shares.get(name, 0.0) + way["share"]
        stores[name], nbytes[name] = way["store"][0], way["stored_nbytes"]
    order = sorted(shares, key=lambda name: -shares[name])
    first = ways[0]
    return {
        "share": 1.0,
        "store": [stores[name] for name in order],
        "cache": first["cache"],
        "decode": first["decode"],
        "stored_nbytes": sum(nbytes.values()),
    }


def _loader_section(
    solution: _ways.Solution,
    classes: Sequence[Class],
    limits: _ways.Limits,
    subject: Mapping[str, Any],
    chosen: Mapping[str, int],
    copies: bool,
) -> dict[str, Any]:
    whole = float(sum(part.samples for part in classes))
    parts = [(classes[way.i_class].samples / whole * share, way) for way, share in solution.used()]
    on_gpu = sum(p for p, way in parts if way.place == "gpu")
    found: dict[str, Any] = {**chosen, "cache": None, "cache_form": "stored"}
    if any(way.cache_form for _, way in parts):
        is_host = _ways.consumers(subject) > 1
        found.update(_ways.of_cache(solution.cache_form), **recoding.loader_options(solution))
        needed = sum(p * whole * recoding.room_of(way) for p, way in parts if way.cache_form)
        entries = sum(part.samples * part.per_draw for part in classes)
        room = int(min(limits.cache_nbytes, 1.02 * needed + 72 * entries + (1 << 20)))
        found.update(cache="host" if is_host else room, cache_nbytes=room)
    if any(way.place == "gpu" for way in solution.ways):
        found["decode"] = "gpu" if on_gpu > 1e-6 else "cpu"
        if 1e-6 < on_gpu < 1 - 1e-6:
            found["gpu_part"] = on_gpu
    if copies:
        forms: dict[str, float] = {}
        for p, way in parts:
            forms[way.form] = forms.get(way.form, 0.0) + p
        if len(forms) > 1:
            found["form_parts"] = forms
    return found


def _prediction(answer: Mapping[str, Any], solution: _ways.Solution) -> dict[str, Any]:
    bits = solution.answer["binding"]
    binding = [name for i, name in enumerate(model.RESOURCES) if bits >> i & 1]
    if solution.answer["quota_binds"]:
        binding.append("quota")
    return {
        **{name: answer[name] for name in ("samples_per_second", "low", "high", "utilisation", "prep_stall", "fetch_stall")},
        "binding": binding,
        "bound_samples_per_second": solution.answer["samples_per_second"],
    }


def _alone(
    report: Mapping[str, Any], classes: Sequence[Class], limits: _ways.Limits
) -> dict[str, _ways.Solution | LimitError]:
    """Returns the best plan of each single form, or the reason why there is none."""
    found: dict[str, _ways.Solution | LimitError] = {}
    for form in dict.fromkeys(form for part in classes for form in part.forms):
        try:
            found[form] = _ways.solve(classes, report, limits, only=(form,))
        except LimitError as error:
            found[form] = error
    return found


def _singles(
    alone: Mapping[str, _ways.Solution | LimitError], report: Mapping[str, Any], classes: Sequence[Class]
) -> list[dict[str, Any]]:
    """Returns the rate that each single form reaches, the fastest first."""
    found = []
    for form, single in alone.items():
        if isinstance(single, LimitError):
            found.append({"form": form, "samples_per_second": 0.0, "why": single.text})
            continue
        answer, _ = _ways.predict(report, _ways.mixed(single, classes))
        found.append(
            {
                "form": form,
                "samples_per_second": answer["samples_per_second"],
                "binding": answer["binding"],
                "stored_nbytes": single.answer["stored_nbytes"],
            }
        )
    return sorted(found, key=lambda row: -row["samples_per_second"])


# The unit of each resource's price in words, and how many of the solver's units it is.
_UNITS = {
    "accelerator": ("more sample/s of the accelerators", 1.0),
    "cores": ("more core", 1.0),
    "storage": ("more MB/s of storage", 1e6),
    "reads": ("more read/s of storage", 1.0),
    "network": ("more MB/s of network", 1e6),
    "link": ("more MB/s of the link to the accelerator", 1e6),
    "gpu": ("more GPU for preparation", 1.0),
    "cache": ("more GiB of cache", float(1 << 30)),
}


def _prices(solution: _ways.Solution) -> list[dict[str, Any]]:
    """Returns what one more unit of each resource is worth, as a fraction of the goal, and the range in which that holds."""
    found = []
    answer = solution.answer
    for i, name in enumerate(model.RESOURCES):
        if name in _UNITS and answer["prices"][i] > 1e-12 and answer["capacities"][i] > 0:
            words, unit = _UNITS[name]
            found.append(
                {
                    "resource": name,
                    "unit": words,
                    "gain": answer["prices"][i] * unit,
                    "there": answer["capacities"][i] / unit,
                    "low": answer["price_low"][i] / unit,
                    "high": answer["price_high"][i] / unit,
                }
            )
    if answer["quota_price"] > 0:
        found.append({"resource": "quota", "unit": "more GB on storage", "gain": answer["quota_price"] * 1e9})
    return found


def _needs(solution: _ways.Solution, classes: Sequence[Class], report: Mapping[str, Any], limits: _ways.Limits) -> dict[str, Any]:
    """Returns what the best single form (which may be the plan's) would need to reach the plan's rate: for each resource the amount
    if all others stay as they are, and under "together" the amounts of all resources that its best cache and placement would use at
    that rate."""
    single = solution.answer["single"]
    rate = solution.answer["samples_per_second"]
    used = {classes[way.i_class].stored: way.form for way, _ in solution.used()}
    forms = solution.problem.forms
    form = forms[single["form"]] if single else used[classes[0].stored]
    found: dict[str, Any] = {"form": form, "rate": rate, "samples_per_second": single["samples_per_second"] if single else rate}
    found["is_plan"] = single is None or {way.form for way, _ in solution.used()} == {form}
    for i, name in enumerate(model.RESOURCES):
        if form not in forms or name in ("accelerator", "workers") or solution.problem.setup["capacities"][i] <= 0:
            continue  # a form that is as fast without writing anything is a plan of its own
        with contextlib.suppress(LimitError):
            found[name] = solution.problem.need(form, name, rate)
    fastest = replace(limits, goal="rate", least_rate=0.0)
    alone = solution if found["is_plan"] else _ways.solve(classes, report, fastest, only=(form,))
    found["together"] = _ways.taken(alone, classes, rate)
    return found


def _stored(sections: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(part["samples"] * way["share"] * way["stored_nbytes"] for part in sections for way in part["ways"]))


def _others(classes: Sequence[Class], subject: Mapping[str, Any]) -> float:
    """Returns the bytes of the samples that belong to no class."""
    own = [part.samples * part.forms.get(part.form, {}).get("cpu", {}).get("item_nbytes", 0.0) for part in classes]
    covered = sum(part.samples for part in classes)
    return max(float(subject["nbytes"]) - sum(own), 0.0) if covered < 0.999 * subject["samples"] else 0.0


def _that_pays(
    best: _ways.Solution,
    report: Mapping[str, Any],
    classes: Sequence[Class],
    limits: _ways.Limits,
    copies: bool,
    notes: list[str],
) -> _ways.Solution:
    """Returns the plan, or the best plan with the present forms, if writing other forms and training with them does not take
    clearly less time."""
    writing = _writing(best, classes, report)
    if not limits.epochs or limits.goal != "rate" or not writing["nbytes"]:
        return best
    try:
        kept = _ways.solve(classes, report, limits, only=tuple({part.form for part in classes}))
    except LimitError:
        return best
    samples = limits.epochs * sum(part.samples for part in classes)
    now, then = (samples / _choice.rate_of(one, report, classes, copies) for one in (kept, best))
    if writing["seconds"] + then < (1 - _ways.MIX_WORTH) * now:
        return best
    takes, saved = duration(writing["seconds"]), duration(max(now - then, 0.0))
    notes.append(f"writing other forms would take {takes}, and save {saved} in {limits.epochs} epochs: the present ones stay")
    return kept


def _writing(solution: _ways.Solution, classes: Sequence[Class], report: Mapping[str, Any]) -> dict[str, float]:
    """Returns the time that writing the plan's forms takes on this machine, and their bytes."""
    seconds = nbytes = reads = 0.0
    for way, share in solution.used():
        part = classes[way.i_class]
        if way.form == part.form:
            continue
        own = part.forms.get(part.form, {}).get("cpu", {})
        seconds += part.samples * share * way.costs.get("pack_seconds", 0.0)
        reads += part.samples * share * own.get("item_nbytes", 0.0)
        nbytes += part.samples * share * way.stored_nbytes
    cores = float(report["machine"]["cores"])
    storage = report["machine"].get("storage_nbytes_per_second") or math.inf
    whole = max(seconds / cores, (reads + nbytes) / storage) if nbytes else 0.0
    return {"seconds": whole, "nbytes": nbytes, "cpu_seconds": seconds}


def _conversion(
    made: Mapping[str, Any], solution: _ways.Solution, classes: Sequence[Class], report: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the time and bytes of writing the plan's forms, and the number of epochs after which that time is saved."""
    found: dict[str, Any] = {**_writing(solution, classes, report)}
    samples = made["data"]["samples"]
    found["break_even_epochs"] = _plan_layout.break_even(
        found["seconds"], made["now"]["samples_per_second"], made["predicted"]["samples_per_second"], samples
    )
    return found


def _layout_gain(layout: Mapping[str, Any], samples: int) -> dict[str, Any] | None:
    """Returns what packing a folder or containers would bring: its time in seconds, and the number of epochs that save this
    time."""
    if not layout.get("packed_here"):
        return None
    rates = {(row["layout"], row["order"]): row["samples_per_second"] for row in layout["layouts"]}
    seconds = layout["pack_seconds"] * samples
    source = next(name for name, _ in rates if name != "packed")
    return {
        "seconds": seconds,
        "break_even_epochs": _plan_layout.break_even(
            seconds, rates[source, "shuffled"], rates["packed", "shuffled"], samples
        ),
    }


public(__name__, "penstock")
