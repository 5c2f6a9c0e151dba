"""The commands that Python runs: analyze, plan, tune, view, whatif, and pack of annotations. The C program `penstock` starts this
module with the words of its command line."""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base import files as _files
from ..base import outputs
from ..base.named import function_of
from ..errors import ArgumentError, PenstockError, UnsupportedError
from ..loading import stages
from ..stalls import accelerators, model
from ..stalls.measure import probe, usual
from ..stalls.report import Report, load_machine
from ..transforms import words as _transform_words
from . import view as _view
from .info import info_verb
from .options import HelpAsked, Parser, add_force, add_source, members_of, number, whole, words_of
from .output import FAILED, INTERRUPTED, USAGE, failed, may_write, only_results, print_result
from .pack import pack_verb

_ASSUMED = (
    "The loader is assumed where nobody says more: batches of the accelerator's size or of 64 (but of no more than half of the "
    "samples), images with RandomResizedCrop(224), RandomHorizontalFlip and Normalize, all fields. The options say otherwise, and "
    "the output says what was taken."
)


def _analyze_parser() -> Parser:
    parser = Parser(
        "analyze DATA [options]",
        "Measures where a training run stalls, and what would help: what the accelerator waits for, what a sample costs in each "
        "form, and what more cores, memory or another form would give. It takes about a minute, needs no root, and drops nothing "
        f"of others from the page cache.\n\n{_ASSUMED}",
        "penstock analyze photos --as mlperf:resnet50:h100 --accelerators 8 --html report.html\n"
        "penstock analyze photos.pst --train train:step --out report.json\n"
        "penstock analyze --command 'python train.py' --budget 2min",
        ("data",),
        0,
    )
    _add_accelerator(parser, "60s", "about how long it may take", command=True)
    _add_usual(parser)
    parser.heading("what is asked")
    parser.option("--forms", metavar="A,B", text=f"forms to probe: {', '.join(probe.FORMS)}; empty: only the stored one",
                  shown="those that are worth it", several=probe.FORMS)  # fmt: skip
    parser.option("--machine", metavar="FILE", text="predict for the machine of this file")
    parser.option("--skip", type=whole, default=0, metavar="N", shown="0",
                  text="--command: the script's loops over DataLoaders before the training's")  # fmt: skip
    parser.option("--finish", action="store_true",
                  text="--command: let the script go on after the measurement, which else ends it by SystemExit")  # fmt: skip
    parser.heading("what is written")
    parser.option("--out", metavar="FILE", text="write the report (JSON), for penstock whatif")
    parser.option("--html", metavar="FILE", text="write the report as one HTML page")
    add_force(parser)
    parser.common()
    return parser


def _add_accelerator(parser: Parser, budget: str, about_budget: str, command: bool = False) -> None:
    """Adds the options that name the training or its rate, and the time that measuring it may take."""
    parser.heading("what trains")
    how = parser.add_mutually_exclusive_group()
    parser.option("--train", metavar="MODULE:FUNCTION", group=how, text="step(batch), which returns when the step is done; the "
                  "module is looked for in the working directory first")  # fmt: skip
    if command:
        parser.option("--command", metavar="TEXT", group=how,
                      text="instead of DATA: a training script with torch's DataLoader, run once as it is, with phases that "
                      "change between its batches")  # fmt: skip
    parser.option("--rate", type=number, metavar="N", group=how, text="an accelerator that takes N samples/s, emulated by pauses")
    parser.option("--as", dest="name", metavar="NAME", group=how, text="an emulated accelerator of MLPerf Storage, such as "
                  "mlperf:resnet50:h100; '8 x mlperf:resnet50:h100' is eight of them")  # fmt: skip
    parser.option("--accelerators", type=whole, metavar="N", text="how many share this machine", shown="1")
    parser.heading("how it is measured")
    parser.option("--budget", default=budget, metavar="TIME", text=about_budget, shown=budget)
    parser.option("--wait-quiet", metavar="TIME", shown="measure at once",
                  text="wait at most so long, such as 60s, until other programs leave the CPU cores alone")  # fmt: skip


def _add_usual(parser: Parser) -> None:
    """Adds the options of the loader that is made for DATA."""
    parser.heading("the loader of DATA")
    parser.option("--batch-size", type=whole, metavar="N", text="samples per batch of DATA", shown="the accelerator's, or 64")
    parser.option("--transforms", "-t", metavar="FILE", shown="RandomResizedCrop(224), flip, Normalize",
                  text="JSON file of operations, as penstock.transforms.to_json writes it")  # fmt: skip
    parser.option("--size", metavar="SIZE", shown="224", text="without --transforms: side of the crop, PIXELS or HEIGHTxWIDTH")
    parser.option("--fields", metavar="A,B", text="fields to deliver", shown="all")
    parser.option("--per-box", metavar="A,B", shown="none",
                  text="fields with a row for each box, or A=BOXES where there are several boxes")  # fmt: skip
    add_source(parser)


def _add_plan(parser: Parser) -> None:
    """Adds the options that limit a plan."""
    parser.heading("limits of the plan")
    parser.option("--storage-limit", metavar="SIZE", text="most bytes on storage: 100GiB, or 150% of today's")
    parser.option("--cache", default="auto", metavar="SIZE", shown="auto",
                  text="memory for the cache: 8GiB, 50%, 0; auto: half of what is free")  # fmt: skip
    parser.option("--page-cache", default="auto", metavar="SIZE", shown="auto",
                  text="memory for the kernel's page cache: 8GiB; 0: data always come from storage")  # fmt: skip
    parser.option("--epochs", type=whole, metavar="N", shown="many",
                  text="epochs of the training: says whether re-coding images for the cache, and writing forms, pay")  # fmt: skip
    parser.option("--max-error", type=whole, default=0, metavar="N", shown="0",
                  text="allow PLI whose samples differ by up to N of 255; 0: no pixel changes")  # fmt: skip
    parser.option("--copies", action="store_true",
                  text="store a sample in each form of the mix, so that every batch has the mix exactly")  # fmt: skip
    parser.option("--training-size", action="store_true",
                  text="images may be stored after the Resize(side) that the transforms begin with")  # fmt: skip


_USUAL = (
    "batch_size", "transforms", "size", "fields", "per_box", "labels", "masks", "allow_unreadable", "ignore_labels", "split",
    "members",
)  # fmt: skip


def _given_of_usual(given: argparse.Namespace) -> list[str]:
    """Returns the given options of the loader that is made for DATA, as they are written on the command line."""
    return ["--" + name.replace("_", "-") for name in _USUAL if getattr(given, name) not in (None, False)]


def _refuse_usual(given: argparse.Namespace, why: str) -> None:
    if names := _given_of_usual(given):
        raise ArgumentError(f"{', '.join(names)}: {why}")


def _per_box(text: str | None) -> Any:
    """Returns the listed names of fields. If one is written A=BOXES, returns a dict from each field to the field of its boxes."""
    names = words_of(text)
    if names is None or not any("=" in name for name in names):
        return names
    pairs = [name.partition("=")[::2] for name in names]
    if not all(name and boxes for name, boxes in pairs):
        raise ArgumentError(f"--per-box is A,B or A=BOXES,B=BOXES, not {text!r}")
    return dict(pairs)


def _usual_of(given: argparse.Namespace, accelerator: Any) -> usual.Usual:
    """Returns the settings from which the loader of DATA is made."""
    side = None if given.size is None else stages.size_of(given.size)
    if given.size is not None and side is None:
        raise ArgumentError(f"--size is PIXELS or HEIGHTxWIDTH, not {given.size!r}")
    if given.size is not None and given.transforms is not None:
        raise ArgumentError("--size is that of the usual transforms: those of --transforms have their own")
    return usual.Usual(
        batch_size=given.batch_size,
        usual_batch=usual.batch_of(accelerator),
        transforms=None if given.transforms is None else _transform_words.read_transforms(given.transforms),
        size=side if side is None else tuple(side),
        fields=words_of(given.fields),
        per_box=_per_box(given.per_box),
        labels=given.labels,
        masks=words_of(given.masks) or (),
        allow_unreadable=given.allow_unreadable,
        ignore_labels=given.ignore_labels,
        split=given.split,
        members=members_of(given.members),
        output="auto" if given.train else "numpy",  # only --train reads the batches, so torch is imported only for it
    )


def _forms(text: str | None) -> tuple[str, ...] | None:
    found = words_of(text)
    probe.check_forms(found)
    return found


def _outputs_of(verb: str, given: argparse.Namespace, *names: str) -> None:
    """Checks the files that will be written: none may be DATA or another output file. Asks before a file is overwritten."""
    data = getattr(given, "data", None) or getattr(given, "report", None)
    written: list[str] = []
    for name in names:
        path = getattr(given, name)
        if path is not None:
            outputs.checked(f"--{name}", path, data, *written)
            written.append(path)
    force, option = (given.yes, "--yes") if verb == "tune" else (given.force, "--force")
    for path in written:
        may_write(verb, path, force, given.json, option)


_PATHS = ("data", "out", "html", "plan", "report", "transforms", "labels", "machine", "machines")


def _fix_paths(given: argparse.Namespace) -> None:
    """Makes the paths of options absolute if a module of the user will be imported, because it may change the working directory."""
    if not given.train and not getattr(given, "loader", None):
        return
    for name in _PATHS:
        path = getattr(given, name, None)
        if path is not None and not (name == "machines" and path == "example"):
            setattr(given, name, os.path.abspath(path))


def _accelerator(given: argparse.Namespace) -> tuple[Any, int]:
    """Returns the given accelerator (a name, a rate or None) and the number of accelerators."""
    count, name = accelerators.split_count(given.name) if given.name else (1, None)
    return name or given.rate, count if given.accelerators is None else given.accelerators


def _sayer(verb: str, given: argparse.Namespace) -> Callable[[str], Any]:
    """Returns a function that prints a line of progress on stderr, or nothing if --quiet is given."""

    def say(line: str) -> None:
        if not given.quiet:
            print(f"penstock: {verb}: {line}", file=sys.stderr)

    return say


def _need_torch(python: str) -> None:
    """Raises UnsupportedError if this Python, which will run a training script, has no torch."""
    if not re.fullmatch(r"python[\d.]*", os.path.basename(python)):
        return
    look = "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('torch') is None else 0)"
    try:
        found = subprocess.run([python, "-c", look], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    except OSError:
        return  # this Python cannot be started, which running the script will report
    if found == 3:
        raise UnsupportedError(
            f"--command measures torch's DataLoader, and {python} has no torch: {shlex.quote(python)} -m pip install torch"
        )


def _analyze(arguments: Sequence[str]) -> str:
    parser = _analyze_parser()
    given = parser.parse(arguments)
    _fix_paths(given)
    if (given.data is None) == (given.command is None):
        parser.error("DATA or --command is expected, and not both")
    say = _sayer("analyze", given)
    _outputs_of("analyze", given, "out", "html")
    machine = None if given.machine is None else load_machine(given.machine)
    if given.command is not None:
        _refuse_usual(given, "these are for DATA; the script of --command has its own loader")
    report = _of_command(given, say) if given.command is not None else _of_data(given, say)
    if machine is not None:
        report = report.with_machine(machine)
    if given.out is not None:
        report.to_json(given.out)
    if given.html is not None:
        report.to_html(given.html)
    return report.to_json() if given.json else report.report()


def _of_data(given: argparse.Namespace, say: Callable[[str], Any]) -> Report:
    from ..stalls.measure.run import analyze

    accelerator, count = _accelerator(given)
    forms, making = _forms(given.forms), _usual_of(given, accelerator)
    step = function_of(given.train) if given.train else None
    return analyze(
        making(given.data),
        step,
        budget=given.budget,
        accelerator=accelerator,
        accelerators=count,
        forms=forms,
        wait_quiet=given.wait_quiet,
        progress=say,
    )


def _of_command(given: argparse.Namespace, say: Callable[[str], Any]) -> Report:
    """Runs the user's script once, with the measuring hook on its path, and makes a report from the files of its ranks."""
    forms = _forms(given.forms)
    words = shlex.split(given.command)
    if not words:
        raise ArgumentError("--command is empty")
    _need_torch(words[0])
    from ..stalls.measure import quiet
    from ..stalls.measure.finish import begun, finished
    from ..stalls.measure.machine import scratch_directory
    from ..stalls.measure.run import seconds_of

    others = quiet.wait(quiet.checked(given.wait_quiet), say)
    with scratch_directory("analyze") as folder:
        out = os.path.join(folder, "report.json")
        hook = os.path.join(os.path.dirname(os.path.abspath(probe.__file__)), "_hook")
        path = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": hook + (os.pathsep + path if path else ""),
            "PENSTOCK_ANALYZE_OUT": out,
            "PENSTOCK_ANALYZE_SECONDS": str(seconds_of(given.budget)),
            "PENSTOCK_ANALYZE_FINISH": "1" if given.finish else "0",
            "PENSTOCK_ANALYZE_SKIP": str(given.skip),
            "PENSTOCK_ANALYZE_QUIET": "1" if given.quiet else "0",
            "PENSTOCK_ANALYZE_ACCELERATORS": str(1 if given.accelerators is None else given.accelerators),
        }
        if forms is not None:
            environment["PENSTOCK_ANALYZE_FORMS"] = ",".join(forms)
        try:
            # The script's stdout goes to stderr, because stdout is for this program's result.
            ended = subprocess.run(words, env=environment, stdout=sys.stderr, check=False)
        except OSError as error:
            raise ArgumentError(f"--command {words[0]}: {error.strerror}") from None
        files = sorted(glob.glob(glob.escape(out) + ".rank*[0-9]"), key=lambda name: int(name.rpartition("rank")[2]))
        files = files or ([out] if os.path.exists(out) else [])
        if not files:
            raise ArgumentError(
                f"the script ended (status {ended.returncode}) before anything was measured: it must loop over a torch "
                "DataLoader, with this Python's site module (no python -S, -I or -E)"
            )
        found = []
        for file_name in files:
            with open(file_name, encoding="utf-8") as file:
                found.append(json.load(file))
    if len(found) > 1:
        found[0]["subject"]["ranks"] = len(found)
    return begun(finished(found[0], [data["phases"] for data in found]), others)


_QUESTIONS = {
    "cores": "CPU cores of the machine, fractions too; workers follow unless the DataLoader's number is fixed",
    "workers": "workers of a rank",
    "prefetch": "batches prepared ahead",
    "batch-size": "samples per batch",
    "ranks": "accelerators of one job on this machine",
    "jobs": "jobs on this machine",
    "hosts": "machines over which a cache is partitioned",
    "cache": "Penstock's cache on one host: 64GiB",
    "page-cache": "memory left for the kernel's page cache",
    "policy": "of the cache: minio (nothing is evicted), random, lru, lru-sequential (default minio)",
    "storage": "rate of storage: 2GB/s",
    "reads": "reads/s of storage",
    "network": "rate between hosts: 1.2GB/s",
    "link": "rate from the host to an accelerator",
    "copying": "rate of the thread that copies what is read out of the page cache",
    "epoch-batches": "batches of a rank in one epoch; 0: epochs never end",
    "epoch-pause": "seconds between two epochs, for validation",
    "gpu-speed": "speed of the accelerator: 2x",
    "gpu-free": "part of its time that preparation may have, 0 (none) to 1",
    "gpu-part": "part of the rows that it decodes, 0 to 1",
    "form": "form of the images, one of the report's: pli-jpeg, pli-small, ...",
    "decode": "where images are decoded: cpu or gpu",
}


_WORDS = {"policy": tuple(model.POLICIES), "form": probe.FORMS, "decode": ("cpu", "gpu")}


def _whatif_parser() -> Parser:
    parser = Parser(
        "whatif REPORT [options]",
        "Predicts the rate of an analysed run under other conditions, with an error band, what limits it, and how much of each "
        "resource would be enough. A value V may be a list (8,16,32): all combinations are answered.",
        "penstock whatif report.json --cores 8,16,32 --form pli-jpeg --gpu-speed 2x\n"
        "penstock whatif report.json --storage 2GB/s --cache 64GiB --json",
        ("report",),
        1,
    )
    parser.heading("conditions")
    for name, text in _QUESTIONS.items():
        parser.option(f"--{name}", metavar="V", text=text, several=_WORDS.get(name, ()))
    for name in model.OLD:
        parser.option(f"--{name.replace('_', '-')}", text=None)
    parser.option("--shared-cache", action="store_true", default=None, text="ranks and jobs share one cache")
    parser.option("--shared-preparation", action="store_true", default=None, text="a sample is prepared once for all jobs")
    parser.heading("what is asked")
    parser.option("--machine", metavar="FILE", text="capacities of another machine")
    parser.option("--utilisation", type=number, metavar="U", text="what counts as fed", shown="the accelerator's limit, or 0.98")
    parser.option("--html", metavar="FILE", text="write the report as one HTML page")
    add_force(parser)
    parser.common()
    return parser


def _whatif_verb(arguments: Sequence[str]) -> str:
    given = _whatif_parser().parse(arguments)
    _outputs_of("whatif", given, "html")
    report = Report.load(given.report)
    if given.machine is not None:
        report = report.with_machine(given.machine)
    with _files.unfit("the report", given.report):
        return _answer(given, report)


def _answer(given: argparse.Namespace, report: Report) -> str:
    """Answers the question of `penstock whatif`."""
    question: dict[str, Any] = {}
    for name in (*model.QUESTIONS, *model.OLD):
        value = getattr(given, name)
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            question[name] = parts if len(parts) > 1 else parts[0]
        elif value is not None:
            question[name] = value
    question = model.renamed(question)
    answers = model.sweep(report.data, question)
    limit = given.utilisation or report.data["accelerator"].get("limit") or 0.98
    enough = [model.needs(report.data, limit, answer.question) for answer in answers]
    if given.html is not None:
        report.to_html(given.html)
    if given.json:
        return json.dumps({"answers": [{**a.as_dict(), "enough": e} for a, e in zip(answers, enough, strict=True)]}, indent=2)
    from ..stalls.text import warnings as distrust

    return "\n".join([*(f"{line}." for line in distrust(report.data)), *_table(answers, enough)])


def _table(answers: Sequence[model.Answer], enough: Sequence[dict[str, float | str]]) -> list[str]:
    from ..base.units import amount, percent
    from ..stalls.text import enough as enough_words
    from ..stalls.text import limit_words

    names = list(answers[0].question)
    heads = [*names, "samples/s", "band", "accelerators compute", "limited by", "next limit"]
    rows = []
    for answer in answers:
        beyond = " *" if answer.extrapolated else ""
        rows.append(
            [
                *(str(answer.question[name]) for name in names),
                amount(answer.samples_per_second),
                f"{amount(answer.low)} to {amount(answer.high)}{beyond}",
                f"{percent(answer.utilisation)} of the time" if answer.utilisation > 0 else "none was given",
                limit_words(answer.binding),
                limit_words(answer.next),
            ]
        )
    widths = [max(len(head), *(len(row[i]) for row in rows)) for i, head in enumerate(heads)]
    lines = ["  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in [heads, *rows]]
    outside = sorted({limit_words(name) for answer in answers for name in answer.extrapolated})
    if outside:
        lines.append(f"* beyond what was measured of {', '.join(outside)}: the band is wider")
    return lines + (enough_words(enough[0]) if len(answers) == 1 else [])


def _plan_parser() -> Parser:
    parser = Parser(
        "plan DATA|REPORT [options]",
        "Finds in which forms to store a data set, what to cache, where to decode, with how many threads, and on which "
        "machine: by costs that it measures (or those of a report of penstock analyze) and a linear programme that is solved "
        "exactly. Says what limits, what one unit more of it is worth, what single forms give, and when converting has paid. "
        f"Changes no data. Needs HiGHS (pip install 'penstock[plan]').\n\n{_ASSUMED}",
        "penstock plan photos --as mlperf:resnet50:h100 --storage-limit 100GiB --out plan.json\n"
        "penstock plan report.json --goal storage --least-rate 3000",
        ("data",),
        1,
    )
    _add_accelerator(parser, "60s", "about how long it may take")
    _add_usual(parser)
    parser.heading("what is asked")
    parser.option("--forms", metavar="A,B", text=f"forms that may be stored: {', '.join(probe.FORMS)}; a cache may keep others",
                  shown="those that are worth it", several=probe.FORMS)  # fmt: skip
    parser.option("--goal", default="rate", choices=("rate", "storage", "cost"), metavar="rate|storage|cost", shown="rate",
                  text="most samples/s; or least storage or least cost of an epoch, with --least-rate")  # fmt: skip
    parser.option("--least-rate", type=number, default=0.0, metavar="N", text="samples/s that a plan must reach")
    _add_plan(parser)
    parser.heading("machines and schedule")
    parser.option("--machines", metavar="FILE", text='compare these machines; "example": those that come with Penstock')
    parser.option("--machine", metavar="FILE", text="plan a REPORT for the machine of this file")
    parser.option("--no-layout", action="store_true", text="do not measure files against packed samples")
    parser.option("--schedule", metavar="STAGES",
                  text="sizes of pictures and batches from epochs on, which Loader(plan=) follows: EPOCH:SIZE[:BATCH],... such as "
                  "0:128:512,6:192:256,12:224; SIZE is PIXELS, HEIGHTxWIDTH or nothing. Mix and rates are for the pictures that "
                  "were measured")  # fmt: skip
    parser.heading("what is written")
    parser.option("--out", metavar="FILE", text="write the plan (JSON), for pack, repack and Loader(plan=)")
    add_force(parser)
    parser.common()
    return parser


def _plan_verb(arguments: Sequence[str]) -> str:
    from ..planning import solver
    from ..planning.machines import example
    from ..planning.plan import plan, report_or_data

    parser = _plan_parser()
    given = parser.parse(arguments)
    _fix_paths(given)
    say = _sayer("plan", given)
    accelerator, count = _accelerator(given)
    _outputs_of("plan", given, "out")
    forms = _forms(given.forms)
    solver.require()
    data: Any = report_or_data(given.data)
    is_report = isinstance(data, Report)
    if given.machine is not None and not is_report:
        parser.error("--machine needs a REPORT: costs are measured on this machine")
    if is_report:
        _refuse_usual(given, "nothing is loaded for a REPORT; give the data set")
        data = data if given.machine is None else data.with_machine(given.machine)
    step = function_of(given.train) if given.train else None
    found = plan(
        data if is_report else _usual_of(given, accelerator)(data),
        step,
        goal=given.goal,
        least_rate=given.least_rate,
        storage=given.storage_limit,
        cache=given.cache,
        page_cache=given.page_cache,
        epochs=given.epochs,
        max_error=given.max_error,
        forms=forms,
        copies=given.copies,
        training_size=given.training_size,
        machines=example() if given.machines == "example" else given.machines,
        accelerator=accelerator,
        accelerators=count,
        budget=given.budget,
        wait_quiet=given.wait_quiet,
        layout=not given.no_layout,
        schedule=given.schedule,
        progress=say,
    )
    if given.out is not None:
        found.to_json(given.out)
    return found.to_json() if given.json else found.report()


def _tune_parser() -> Parser:
    parser = Parser(
        "tune DATA [options]",
        "Analyses DATA, plans, asks, writes what the plan wants, analyses again, and compares before with after. A folder is "
        "packed and stays as it is; a data set is changed in place, unless the question is answered by no. HiGHS, the room on "
        "the disk and the places to write to are looked at first, and the plan is written before any data are. Needs HiGHS "
        f"(pip install 'penstock[plan]').\n\n{_ASSUMED} With --loader your own function makes the loader.",
        "penstock tune photos --train train:step --yes\n"
        "penstock tune photos.pst --rate 3000 --storage-limit 150%",
        ("data",),
        1,
    )
    _add_accelerator(parser, "2min", "about how long it may measure")
    parser.heading("the loader of DATA")
    parser.option("--loader", metavar="MODULE:FUNCTION", text="make(path, plan), which returns the training's Loader; "
                  "plan is None before, and for Loader(plan=) after")  # fmt: skip
    _add_usual(parser)
    _add_plan(parser)
    parser.heading("what is written")
    parser.option("--yes", "-y", action="store_true", text="write without a question, also over files that are there")
    parser.option("--out", metavar="DIR", text="where a folder is packed to, or new data sets of a mixture", shown="DATA.pst")
    parser.option("--plan", metavar="FILE", text="write the plan (JSON), also where no data are written",
                  shown="beside the data set written, .plan.json")  # fmt: skip
    parser.option("--report", metavar="FILE", text="write both analyses and the plan (JSON)")
    parser.common()
    return parser


def _asks(given: argparse.Namespace) -> Callable[[str], bool] | None:
    """Returns the function that asks the user before anything is written, or None with --yes."""
    if given.yes:
        return None
    if not sys.stdin.isatty():
        raise ArgumentError("there is no terminal to ask on: --yes writes without a question")

    def ask(question: str) -> bool:
        print(f"penstock: tune: {question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return ask


def _tune_verb(arguments: Sequence[str]) -> str:
    from ..planning import solver
    from ..planning.tune import tune

    given = _tune_parser().parse(arguments)
    _fix_paths(given)
    say = _sayer("tune", given)
    accelerator, count = _accelerator(given)
    ask = _asks(given)
    _outputs_of("tune", given, "plan", "report")
    solver.require()
    if given.loader:
        _refuse_usual(given, "the function of --loader makes the loader")
    tuned = tune(
        given.data,
        function_of(given.train) if given.train else None,
        out=given.out,
        make=function_of(given.loader) if given.loader else _usual_of(given, accelerator),
        ask=ask,
        budget=given.budget,
        wait_quiet=given.wait_quiet,
        accelerator=accelerator,
        accelerators=count,
        plan_file=given.plan,
        report_file=given.report,
        progress=say,
        storage=given.storage_limit,
        cache=given.cache,
        page_cache=given.page_cache,
        epochs=given.epochs,
        max_error=given.max_error,
        copies=given.copies,
        training_size=given.training_size,
    )
    return json.dumps(tuned.as_dict(), indent=2, allow_nan=False) if given.json else tuned.report()


_VERBS: dict[str, Callable[[Sequence[str]], str | tuple[str | bytes, int]]] = {
    "analyze": _analyze,
    "info": info_verb,
    "plan": _plan_verb,
    "tune": _tune_verb,
    "view": _view.view_verb,
    "whatif": _whatif_verb,
}


_PARSERS: dict[str, Callable[[], Parser]] = {
    "analyze": _analyze_parser,
    "plan": _plan_parser,
    "tune": _tune_parser,
    "view": _view.parser,
    "whatif": _whatif_parser,
}


def describe() -> dict[str, dict[str, Any]]:
    """Returns the option tables of these commands, from which manual pages and shell completions are made
    (scripts/write_cli_pages.py)."""
    return {name: parser().describe() for name, parser in _PARSERS.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    verb, *words = [*(sys.argv[1:] if arguments is None else arguments)] or [""]
    if verb == "pack":
        return pack_verb(words)
    if verb not in _VERBS:
        print(f"penstock: a verb is expected: {', '.join(sorted([*_VERBS, 'pack']))}", file=sys.stderr)
        return USAGE
    as_json = "--json" in words
    try:
        with only_results() if as_json else contextlib.nullcontext(), _old_names():
            found = _VERBS[verb](words)
    except HelpAsked as asked:
        return print_result(str(asked))
    except KeyboardInterrupt as error:
        return failed(verb, error, "CANCELLED", as_json, INTERRUPTED)
    except (PenstockError, OSError) as error:
        status = USAGE if isinstance(error, ArgumentError) else FAILED
        return failed(verb, error, getattr(error, "status", "IO"), as_json, status)
    except Exception as error:  # the user's step or loader failed, or Penstock has a bug: a traceback helps with both
        traceback.print_exc()
        return failed(verb, error, "INTERNAL", as_json, FAILED)
    return print_result(*found) if isinstance(found, tuple) else print_result(found)


@contextlib.contextmanager
def _old_names() -> Iterator[None]:
    """Prints warnings of renamed options as plain lines of the command, without the file and line of a Python program."""
    show = warnings.showwarning

    def say(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None
    ) -> None:
        if category is FutureWarning:
            print(f"penstock: {message}", file=sys.stderr)
        else:
            show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def _end(signal_number: int, frame: Any) -> None:
    """Handles a signal: ends the program as Ctrl-C does. A second signal ends it at once."""
    signal.signal(signal_number, signal.SIG_DFL)
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
