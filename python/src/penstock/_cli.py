"""The verbs of the command line that need Python: analyze, plan, tune, whatif, and pack of annotations. `penstock` starts it
with their arguments."""

from __future__ import annotations

import argparse
import contextlib
import glob
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _analyze_probe, _files, _loader_set, _outputs, _transform_words, _usual, _whatif, accelerators
from ._cli_pack import PARTS, pack_verb
from .errors import ArgumentError, PenstockError, UnsupportedError
from .report import Report, load_machine

_OK, _FAILED, _USAGE, _INTERRUPTED, _PIPE = 0, 1, 2, 130, 141


class _Parser(argparse.ArgumentParser):
    """Errors of use in the form that the other verbs have."""

    def error(self, message: str) -> Any:
        raise ArgumentError(message)


def _analyze_parser() -> _Parser:
    parser = _Parser(
        prog="penstock analyze",
        usage="penstock analyze DATA [--train MODULE:FUNCTION | --rate N | --as NAME] [options]\n"
        '       penstock analyze --command "python train.py ..." [options]',
        description="Measures where a training run stalls and what would help. Takes a minute, needs no root, changes no file of "
        "yours.",
        epilog="example: penstock analyze photos --as mlperf:resnet50:h100 --accelerators 8 --html report.html",
    )
    parser.add_argument("data", nargs="?", metavar="DATA", help="a data set, or a folder of images")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--train", metavar="MODULE:FUNCTION", help="step(batch), which returns when the step is done")
    how.add_argument("--command", metavar="TEXT", help="a training script with torch's DataLoader; it is run once, as it is")
    how.add_argument("--rate", type=float, metavar="N", help="an accelerator that takes N samples/s")
    how.add_argument("--as", dest="name", metavar="NAME", help="an emulated accelerator: " + ", ".join(accelerators.names()))
    parser.add_argument("--accelerators", type=int, default=None, metavar="N", help="how many share this machine (1)")
    parser.add_argument("--budget", default="60s", metavar="TIME", help='about how long it may take: "60s", "2min" (60s)')
    _add_usual(parser)
    parser.add_argument("--forms", metavar="A,B", help="forms to probe (those that are worth it)")
    parser.add_argument(
        "--machine", metavar="FILE", help="predict for this machine (capacities in JSON) instead of the measured one"
    )
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N", help="--command: loops over DataLoaders before the training's (0)"
    )
    parser.add_argument("--finish", action="store_true", help="--command: let the script go on after the measurement")
    parser.add_argument("--out", metavar="FILE", help="write the report (JSON), for penstock whatif")
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    _add_common(parser)
    return parser


def _add_common(parser: _Parser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_usual(parser: _Parser) -> None:
    """Adds what can be said of the loader of DATA."""
    parser.add_argument("--batch-size", type=int, metavar="N", help="samples per batch of DATA (the accelerator's, or 64)")
    parser.add_argument("--transforms", "-t", metavar="FILE", help="operations (RandomResizedCrop(224), flip, Normalize)")
    parser.add_argument("--size", metavar="SIZE", help="side of that crop: PIXELS or HEIGHTxWIDTH (224)")
    parser.add_argument("--fields", metavar="A,B", help="fields to deliver (all)")
    parser.add_argument("--per-box", metavar="A,B", help="fields with a row for each box, or A=BOXES (none)")
    parser.add_argument("--labels", metavar="FILE", help="label file of a plain folder")
    parser.add_argument("--masks", metavar="COLUMNS", help="columns of the label file that name mask files")
    parser.add_argument("--allow-unreadable", action="store_true", help="leave out files that cannot be read")
    parser.add_argument("--ignore-labels", action="store_true", help="the images of a folder alone")


_USUAL = ("batch_size", "transforms", "size", "fields", "per_box", "labels", "masks", "allow_unreadable", "ignore_labels")


def _given_of_usual(given: argparse.Namespace) -> list[str]:
    """Returns the options that say something of the loader of DATA."""
    return ["--" + name.replace("_", "-") for name in _USUAL if getattr(given, name) not in (None, False)]


def _refuse_usual(given: argparse.Namespace, why: str) -> None:
    if names := _given_of_usual(given):
        raise ArgumentError(f"{', '.join(names)}: {why}")


def _list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(filter(None, (part.strip() for part in text.split(","))))


def _per_box(text: str | None) -> Any:
    """Returns names, or a dict of boxes by name where one says A=BOXES."""
    names = _list(text)
    if names is None or not any("=" in name for name in names):
        return names
    pairs = [name.partition("=")[::2] for name in names]
    if not all(name and boxes for name, boxes in pairs):
        raise ArgumentError(f"--per-box is A,B or A=BOXES,B=BOXES, not {text!r}")
    return dict(pairs)


def _usual_of(given: argparse.Namespace, accelerator: Any) -> _usual.Usual:
    """Returns what makes the loader of DATA."""
    side = None if given.size is None else _loader_set.size_of(given.size)
    if given.size is not None and side is None:
        raise ArgumentError(f"--size is PIXELS or HEIGHTxWIDTH, not {given.size!r}")
    if given.size is not None and given.transforms is not None:
        raise ArgumentError("--size is that of the usual transforms: those of --transforms have their own")
    return _usual.Usual(
        batch_size=given.batch_size,
        usual_batch=_usual.batch_of(accelerator),
        transforms=None if given.transforms is None else _transform_words.read_transforms(given.transforms),
        size=side if side is None else tuple(side),
        fields=_list(given.fields),
        per_box=_per_box(given.per_box),
        labels=given.labels,
        masks=_list(given.masks) or (),
        allow_unreadable=given.allow_unreadable,
        ignore_labels=given.ignore_labels,
    )


def _forms(text: str | None) -> tuple[str, ...] | None:
    found = _list(text)
    _analyze_probe.check_forms(found)
    return found


def _outputs_of(given: argparse.Namespace, *names: str) -> None:
    """Looks at the files that will be written: none is DATA, or another one of them."""
    others = [getattr(given, "data", None) or getattr(given, "report", None)]
    for name in names:
        path = getattr(given, name)
        if path is not None:
            _outputs.checked(f"--{name}", path, *others)
            others.append(path)


_PATHS = ("data", "out", "html", "plan", "report", "transforms", "labels", "machine", "machines")


def _fix_paths(given: argparse.Namespace) -> None:
    """Makes paths absolute where a module of the user will be imported, which may change the working directory."""
    if not given.train and not getattr(given, "loader", None):
        return
    for name in _PATHS:
        path = getattr(given, name, None)
        if path is not None and not (name == "machines" and path == "example"):
            setattr(given, name, os.path.abspath(path))


def _how_many(given: argparse.Namespace, count: int) -> int:
    return count if given.accelerators is None else given.accelerators


def _step_of(text: str) -> Callable[..., Any]:
    module, _, function = text.partition(":")
    if not module or not function:
        raise ArgumentError(f"MODULE:FUNCTION is expected, not {text!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise ArgumentError(f"{text}: {error}{_install(error.name or '', module)}") from None
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"{text}: {error}") from None
    except Exception as error:  # of the user's module
        raise ArgumentError(f"{text}: importing {module} failed: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ArgumentError(f"{text}: {function} is no function")
    step: Callable[..., Any] = found
    return step


def _install(missing: str, module: str) -> str:
    """Returns how a module that is not there is installed; "": the module is the user's own."""
    if missing in ("", module) or module.startswith(missing + "."):
        return f"; modules are looked for in {os.getcwd()} first"
    package = missing.partition(".")[0]
    return f": {shlex.quote(sys.executable)} -m pip install {package}, or name another Python by PENSTOCK_PYTHON"


def _need_torch(python: str) -> None:
    """UnsupportedError: this Python, which will run a training script, has no torch."""
    if not re.fullmatch(r"python[\d.]*", os.path.basename(python)):
        return
    look = "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec('torch') is None else 0)"
    try:
        found = subprocess.run([python, "-c", look], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    except OSError:
        return  # it cannot be started: running the script says so
    if found == 3:
        raise UnsupportedError(
            f"--command measures torch's DataLoader, and {python} has no torch: {shlex.quote(python)} -m pip install torch"
        )


def _analyze(arguments: Sequence[str]) -> str:
    parser = _analyze_parser()
    given = parser.parse_args(arguments)
    _fix_paths(given)
    if (given.data is None) == (given.command is None):
        parser.error("DATA or --command is expected, and not both")
    say = (lambda line: None) if given.quiet else (lambda line: print(f"penstock: analyze: {line}", file=sys.stderr))
    _outputs_of(given, "out", "html")
    machine = None if given.machine is None else load_machine(given.machine)
    if given.command is not None:
        _refuse_usual(given, "these are for DATA; the script of --command has its own loader")
    report = _of_command(given) if given.command is not None else _of_data(given, say)
    if machine is not None:
        report = report.with_machine(machine)
    if given.out is not None:
        report.to_json(given.out)
    if given.html is not None:
        report.to_html(given.html)
    return report.to_json() if given.json else report.report()


def _of_data(given: argparse.Namespace, say: Callable[[str], Any]) -> Report:
    from ._analyze import analyze

    count, name = accelerators.split_count(given.name) if given.name else (1, None)
    accelerator = name or given.rate
    forms, making = _forms(given.forms), _usual_of(given, accelerator)
    step = _step_of(given.train) if given.train else None
    return analyze(
        making(given.data),
        step,
        budget=given.budget,
        accelerator=accelerator,
        accelerators=_how_many(given, count),
        forms=forms,
        progress=say,
    )


def _of_command(given: argparse.Namespace) -> Report:
    """Runs the script once, with the hook on its path, and puts together what its ranks have written."""
    forms = _forms(given.forms)
    words = shlex.split(given.command)
    if not words:
        raise ArgumentError("--command is empty")
    _need_torch(words[0])
    from ._analyze import seconds_of
    from ._analyze_finish import finished, ranks_of
    from ._analyze_machine import scratch_directory

    with scratch_directory("analyze") as folder:
        out = os.path.join(folder, "report.json")
        hook = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_hook")
        path = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": hook + (os.pathsep + path if path else ""),
            "PENSTOCK_ANALYZE_OUT": out,
            "PENSTOCK_ANALYZE_SECONDS": str(seconds_of(given.budget)),
            "PENSTOCK_ANALYZE_FINISH": "1" if given.finish else "0",
            "PENSTOCK_ANALYZE_SKIP": str(given.skip),
            "PENSTOCK_ANALYZE_QUIET": "1" if given.quiet else "0",
            "PENSTOCK_ANALYZE_ACCELERATORS": str(_how_many(given, 1)),
        }
        if forms is not None:
            environment["PENSTOCK_ANALYZE_FORMS"] = ",".join(forms)
        try:
            # What the script prints is no part of this program's output.
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
    report = finished(found[0])
    if len(found) > 1:
        report.data["ranks"] = ranks_of([data["phases"] for data in found])
        report.data["subject"]["ranks"] = len(found)
    return report


def _whatif_parser() -> _Parser:
    parser = _Parser(
        prog="penstock whatif",
        usage="penstock whatif REPORT [options]",
        description="Predicts the rate of an analysed run under other conditions. Values may be lists (8,16,32): all combinations "
        "are answered.",
        epilog="example: penstock whatif report.json --cores 8,16,32 --form pli-jpeg --gpu-speed 2x",
    )
    parser.add_argument("report", metavar="REPORT", help="a file of penstock analyze --out")
    texts = {
        "cores": "CPU cores of the machine",
        "workers": "workers of a rank",
        "prefetch": "batches ahead",
        "batch-size": "samples",
        "ranks": "accelerators of a job",
        "jobs": "jobs on the machine",
        "hosts": "machines over which a cache is partitioned",
        "cache": "of Penstock's cache: 64GiB",
        "page-cache": "memory left for the page cache",
        "policy": "of the cache: minio, lru, ...",
        "storage": "rate of storage: 2GB/s",
        "reads": "reads/s of storage",
        "network": "rate between hosts",
        "link": "to the accelerator",
        "gpu-speed": "of the accelerator: 2x",
        "gpu-part": "of the rows, decoded by the GPU",
        "gpu-free": "of the GPU, for preparation",
        "form": "pli-jpeg, pli-small, ...",
        "decode": "cpu or gpu",
    }
    for name, text in texts.items():
        parser.add_argument(f"--{name}", metavar="V", help=text)
    for name in _whatif.OLD:
        parser.add_argument(f"--{name.replace('_', '-')}", help=argparse.SUPPRESS)
    parser.add_argument("--shared-cache", action="store_true", default=None, help="ranks and jobs share one cache")
    parser.add_argument(
        "--shared-preparation", action="store_true", default=None, help="a sample is prepared once for all jobs"
    )
    parser.add_argument("--machine", metavar="FILE", help="capacities of another machine")
    parser.add_argument("--utilisation", type=float, metavar="U", help="what counts as fed (the accelerator's limit, or 0.98)")
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    _add_common(parser)
    return parser


def _whatif_verb(arguments: Sequence[str]) -> str:
    given = _whatif_parser().parse_args(arguments)
    _outputs_of(given, "html")
    report = Report.load(given.report)
    if given.machine is not None:
        report = report.with_machine(given.machine)
    with _files.unfit("the report", given.report):
        return _answer(given, report)


def _answer(given: argparse.Namespace, report: Report) -> str:
    """Answers the question of `whatif`."""
    question: dict[str, Any] = {}
    for name in (*_whatif.QUESTIONS, *_whatif.OLD):
        value = getattr(given, name)
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            question[name] = parts if len(parts) > 1 else parts[0]
        elif value is not None:
            question[name] = value
    question = _whatif.renamed(question)
    answers = _whatif.sweep(report.data, question)
    limit = given.utilisation or report.data["accelerator"].get("limit") or 0.98
    enough = [_whatif.needs(report.data, limit, answer.question) for answer in answers]
    if given.html is not None:
        report.to_html(given.html)
    if given.json:
        return json.dumps({"answers": [{**a.as_dict(), "enough": e} for a, e in zip(answers, enough, strict=True)]}, indent=2)
    return "\n".join(_table(answers, enough))


def _table(answers: Sequence[_whatif.Answer], enough: Sequence[dict[str, float | str]]) -> list[str]:
    from ._report_text import need_value

    names = list(answers[0].question)
    heads = [*names, "samples/s", "band", "utilisation", "limited by", "then"]
    rows = []
    for answer in answers:
        beyond = " *" if answer.extrapolated else ""
        rows.append(
            [
                *(str(answer.question[name]) for name in names),
                f"{answer.samples_per_second:.4g}",
                f"{answer.low:.4g}..{answer.high:.4g}{beyond}",
                f"{answer.utilisation:.2f}",
                answer.binding,
                answer.next,
            ]
        )
    widths = [max(len(head), *(len(row[i]) for row in rows)) for i, head in enumerate(heads)]
    lines = ["  ".join(f"{cell:{width}s}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in [heads, *rows]]
    outside = sorted({name for answer in answers for name in answer.extrapolated})
    if outside:
        lines.append(f"* beyond the range in which costs were measured: {', '.join(outside)}; the band is wider")
    if len(answers) == 1:
        for resource, value in enough[0].items():
            lines.append(f"enough {resource}: {value if isinstance(value, str) else need_value(resource, value)}")
    return lines


def _plan_parser() -> _Parser:
    parser = _Parser(
        prog="penstock plan",
        usage="penstock plan DATA|REPORT [options]",
        description="Finds in which forms to store a data set, what to cache and where to decode, by measured costs and a linear "
        "programme.",
        epilog="example: penstock plan photos --as mlperf:resnet50:h100 --storage-limit 100GiB --out plan.json",
    )
    parser.add_argument("data", metavar="DATA", help="a data set, a folder of images, or a file of penstock analyze --out")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--train", metavar="MODULE:FUNCTION", help="step(batch), which returns when the step is done")
    how.add_argument("--rate", type=float, metavar="N", help="an accelerator that takes N samples/s")
    how.add_argument("--as", dest="name", metavar="NAME", help="an emulated accelerator: " + ", ".join(accelerators.names()))
    parser.add_argument("--accelerators", type=int, default=None, metavar="N", help="how many share this machine (1)")
    parser.add_argument("--budget", default="60s", metavar="TIME", help='about how long it may take: "60s", "2min" (60s)')
    _add_usual(parser)
    parser.add_argument("--forms", metavar="A,B", help="forms to consider (those that are worth it)")
    parser.add_argument("--goal", default="rate", choices=("rate", "storage", "cost"), help="what to optimise (rate)")
    parser.add_argument("--least-rate", type=float, default=0.0, metavar="N", help="samples/s that a plan must reach")
    parser.add_argument("--storage-limit", metavar="SIZE", help="most bytes on storage: 100GiB, or 150%% of today's")
    parser.add_argument("--cache", default="auto", metavar="SIZE", help="memory for the cache: 8GiB, 50%%, 0, auto (auto)")
    parser.add_argument("--page-cache", default="auto", metavar="SIZE", help="memory for the kernel's page cache: 8GiB, 0 (auto)")
    parser.add_argument("--max-error", type=int, default=0, metavar="N", help="allow PLI whose samples differ by up to N (0)")
    parser.add_argument("--copies", action="store_true", help="store a sample in each form of the mix")
    parser.add_argument("--machines", metavar="FILE", help='compare these machines; "example": those that come with Penstock')
    parser.add_argument("--no-layout", action="store_true", help="do not measure files against packed samples")
    parser.add_argument(
        "--schedule", metavar="STAGES", help="sizes from epochs on: EPOCH:SIZE[:BATCH],... such as 0:128:512,6:192:256,12:224"
    )
    parser.add_argument("--machine", metavar="FILE", help="plan for this machine (capacities in JSON); for a REPORT only")
    parser.add_argument("--out", metavar="FILE", help="write the plan (JSON)")
    _add_common(parser)
    return parser


def _plan_verb(arguments: Sequence[str]) -> str:
    from . import _solver
    from ._plan import plan, report_or_data
    from ._plan_machines import example

    parser = _plan_parser()
    given = parser.parse_args(arguments)
    _fix_paths(given)
    say = (lambda line: None) if given.quiet else (lambda line: print(f"penstock: plan: {line}", file=sys.stderr))
    count, name = accelerators.split_count(given.name) if given.name else (1, None)
    accelerator = name or given.rate
    _outputs_of(given, "out")
    forms = _forms(given.forms)
    _solver.require()
    data: Any = report_or_data(given.data)
    is_report = isinstance(data, Report)
    if given.machine is not None and not is_report:
        parser.error("--machine needs a REPORT: costs are measured on this machine")
    if is_report:
        _refuse_usual(given, "nothing is loaded for a REPORT; give the data set")
        data = data if given.machine is None else data.with_machine(given.machine)
    step = _step_of(given.train) if given.train else None
    found = plan(
        data if is_report else _usual_of(given, accelerator)(data),
        step,
        goal=given.goal,
        least_rate=given.least_rate,
        storage=given.storage_limit,
        cache=given.cache,
        page_cache=given.page_cache,
        max_error=given.max_error,
        forms=forms,
        copies=given.copies,
        machines=example() if given.machines == "example" else given.machines,
        accelerator=accelerator,
        accelerators=_how_many(given, count),
        budget=given.budget,
        layout=not given.no_layout,
        schedule=given.schedule,
        progress=say,
    )
    if given.out is not None:
        found.to_json(given.out)
    return found.to_json() if given.json else found.report()


def _tune_parser() -> _Parser:
    parser = _Parser(
        prog="penstock tune",
        usage="penstock tune DATA [options]",
        description="Analyses, plans, asks, writes what the plan wants, analyses again, and compares before with after.",
        epilog="example: penstock tune photos --train train:step --yes",
    )
    parser.add_argument("data", metavar="DATA", help="a folder of images, which is packed, or a data set, changed in place")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--train", metavar="MODULE:FUNCTION", help="step(batch), which returns when the step is done")
    how.add_argument("--rate", type=float, metavar="N", help="an accelerator that takes N samples/s")
    how.add_argument("--as", dest="name", metavar="NAME", help="an emulated accelerator: " + ", ".join(accelerators.names()))
    parser.add_argument("--loader", metavar="MODULE:FUNCTION", help="make(path, plan), which returns the training's Loader")
    parser.add_argument("--accelerators", type=int, default=None, metavar="N", help="how many share this machine (1)")
    parser.add_argument("-y", "--yes", action="store_true", help="write without a question")
    parser.add_argument("--out", metavar="DIR", help="where a folder is packed to (DATA.pst)")
    parser.add_argument("--budget", default="2min", metavar="TIME", help="about how long it may measure (2min)")
    _add_usual(parser)
    parser.add_argument("--storage-limit", metavar="SIZE", help="most bytes on storage: 100GiB, or 150%% of today's")
    parser.add_argument("--cache", default="auto", metavar="SIZE", help="memory for the cache: 8GiB, 50%%, 0, auto (auto)")
    parser.add_argument("--page-cache", default="auto", metavar="SIZE", help="memory for the kernel's page cache: 8GiB, 0 (auto)")
    parser.add_argument("--max-error", type=int, default=0, metavar="N", help="allow PLI whose samples differ by up to N (0)")
    parser.add_argument("--copies", action="store_true", help="store a sample in each form of the mix")
    parser.add_argument("--plan", metavar="FILE", help="write the plan (JSON)")
    parser.add_argument("--report", metavar="FILE", help="write both analyses and the plan (JSON)")
    _add_common(parser)
    return parser


def _asks(given: argparse.Namespace) -> Callable[[str], bool] | None:
    """Returns who is asked before anything is written; None: nobody."""
    if given.yes:
        return None
    if not sys.stdin.isatty():
        raise ArgumentError("there is no terminal to ask on: --yes writes without a question")

    def ask(question: str) -> bool:
        print(f"penstock: tune: {question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return ask


def _tune_verb(arguments: Sequence[str]) -> str:
    from . import _solver
    from ._tune import tune

    given = _tune_parser().parse_args(arguments)
    _fix_paths(given)
    say = (lambda line: None) if given.quiet else (lambda line: print(f"penstock: tune: {line}", file=sys.stderr))
    count, name = accelerators.split_count(given.name) if given.name else (1, None)
    accelerator = name or given.rate
    ask = _asks(given)
    _outputs_of(given, "plan", "report")
    _solver.require()
    if given.loader:
        _refuse_usual(given, "the function of --loader makes the loader")
    tuned = tune(
        given.data,
        _step_of(given.train) if given.train else None,
        out=given.out,
        make=_step_of(given.loader) if given.loader else _usual_of(given, accelerator),
        ask=ask,
        budget=given.budget,
        accelerator=accelerator,
        accelerators=_how_many(given, count),
        plan_file=given.plan,
        report_file=given.report,
        progress=say,
        storage=given.storage_limit,
        cache=given.cache,
        page_cache=given.page_cache,
        max_error=given.max_error,
        copies=given.copies,
    )
    return json.dumps(tuned.as_dict(), indent=2, allow_nan=False) if given.json else tuned.report()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a verb; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbs = {"analyze": _analyze, "plan": _plan_verb, "tune": _tune_verb, "whatif": _whatif_verb}
    if words and words[0] == "pack":
        return pack_verb(words[1:])
    if not words or words[0] not in verbs:
        print(f"penstock: a verb is expected: {', '.join(sorted([*verbs, 'pack']))}", file=sys.stderr)
        return _USAGE
    as_json = "--json" in words
    try:
        with _only_results() if as_json else contextlib.nullcontext(), _old_names():
            result = verbs[words[0]](words[1:])
    except KeyboardInterrupt as error:
        return _failed(words[0], error, "PST_ERROR_CANCELLED", "interrupted", as_json, _INTERRUPTED)
    except (PenstockError, OSError) as error:
        status = _USAGE if isinstance(error, ArgumentError) else _FAILED
        return _failed(words[0], error, getattr(error, "status", "PST_ERROR_IO"), _reason(error), as_json, status)
    except Exception as error:  # of the user's step or loader, or a fault of ours: both want the traceback
        traceback.print_exc()
        return _failed(words[0], error, "PST_ERROR_INTERNAL", f"{type(error).__name__}: {error}", as_json, _FAILED)
    return _print(result)


@contextlib.contextmanager
def _old_names() -> Iterator[None]:
    """Tells of old names of options and members of files in a line of the command, without places in Python files."""
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


def _print(result: str) -> int:
    """Prints the result; returns the exit status, which is that of a reader that has gone if nobody reads it."""
    try:
        print(result.rstrip("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes stdout once more
        return _PIPE
    return _OK


def _reason(error: BaseException) -> str:
    """Returns an error's text; an error of the system as "FILE: what"."""
    if isinstance(error, PenstockError) or not isinstance(error, OSError) or error.filename is None:
        return str(error)
    return f"{os.fspath(error.filename)}: {error.strerror}"


def _failed(verb: str, error: BaseException, status: str, text: str, as_json: bool, exit_status: int) -> int:
    """Reports a failure on stderr, and with --json on stdout. Returns the exit status."""
    notes = getattr(error, "__notes__", [])
    if as_json:
        system = {"os_error": getattr(error, "errno", None), "file": getattr(error, "filename", None)}
        parts = {part: getattr(error, part, system.get(part)) for part in PARTS}
        print(json.dumps({"error": {**parts, "status": status, "text": text, "notes": notes}}))
    for line in (text, *notes):
        print(f"penstock: {verb}: {line}", file=sys.stderr)
    return exit_status


@contextlib.contextmanager
def _only_results() -> Iterator[None]:
    """Keeps stdout for the result: what a step, a module or a library prints meanwhile goes to stderr."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


if __name__ == "__main__":
    sys.exit(main())
