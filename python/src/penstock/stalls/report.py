"""The report of an analysis: its data, which can be saved, edited and shared, and its text and HTML.

docs/format-report.md describes the file.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from typing import Any

from ..base import file_kinds, files, outputs
from ..base.public import door
from ..errors import ArgumentError, CorruptError
from ..loading import table
from . import model
from . import text as _report_text

__all__ = ["Report"]

KIND = "penstock-report"
VERSION = 1
MACHINE_KIND = "penstock-machine"
_SECTIONS = ("subject", "machine", "accelerator", "phases", "forms", "stages", "bands")


class Report:
    """The result of an analysis.

    Attributes:
        data: the whole report as plain data, as in its file.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        if data.get("kind") != KIND:
            raise ArgumentError(f"this is no report: its kind is {data.get('kind')!r}, not {KIND!r}")
        if not isinstance(data.get("version"), int) or data["version"] > VERSION:
            raise ArgumentError(f"the report has version {data.get('version')!r}; this Penstock knows {VERSION}")
        missing = [name for name in _SECTIONS if not isinstance(data.get(name), (dict, list))]
        if missing:
            raise ArgumentError(f"the report has no {', '.join(missing)}")
        if isinstance(data["subject"], dict):
            data = {**data, "subject": table.renamed(data["subject"], "the report")}
        file_kinds.REPORT(data, "")
        self.data = data
        self._file: str | None = None

    # Files ------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Reads a report's file."""
        name = os.fspath(path)
        data = files.read_json(name, "report")
        if not isinstance(data, dict):
            raise CorruptError(f"file {name!r}: this is no report: a JSON object is expected", file=name)
        with files.of_file(name):
            made = cls(data)
        made._file = name
        return made

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns the report as JSON, and writes it to a file if a path is given."""
        text = json.dumps(self.data, indent=2, allow_nan=False) + "\n"
        if path is not None:
            outputs.write(path, text)
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns one self-contained HTML page, and writes it to a file if a path is given."""
        from . import html

        with self._shown():
            text = html.page(self.data)
        if path is not None:
            outputs.write(path, text)
        return text

    def with_machine(self, machine: dict[str, Any] | str | os.PathLike[str]) -> Report:
        """Returns this report for another machine, whose capacities replace the measured ones.

        ``machine``: a dict of capacities as in the section "machine" of a report, or the path of a file of kind "penstock-machine"
        or "penstock-report". ``core_speed`` is the speed of a core relative to the cores of this report, which have 1.
        """
        name = None
        if isinstance(machine, (str, os.PathLike)):
            name, machine = os.fspath(machine), load_machine(machine)
        data = json.loads(json.dumps(self.data))
        data["machine"].update(machine)
        data["elsewhere"] = True  # the measurements are from another machine
        data["notes"] = [*(data.get("notes") or []), "capacities are of another machine than the one that was measured"]
        with files.of_file(name):
            return Report(data)

    def learned(self, stats: Any) -> Report:
        """Returns this report with the costs that a training run has shown. ``stats``: its loader, or the dict of
        ``loader.stats()``.

        The workers' time per sample scales the costs of all forms; the more samples the run has seen, the more it weighs. The
        storage rate is replaced if waiting for storage was most of the stall. So a plan made from the new report fits what the
        machine really does::

            report = report.learned(loader)
            report.to_json("report.json")
            plan = ps.plan(report)
        """
        from .learn import learned

        return Report(learned(self.data, stats if isinstance(stats, dict) else stats.stats()))

    # Views ------------------------------------------------------------------------------------------

    def _shown(self) -> AbstractContextManager[None]:
        return files.unfit("the report", self._file)

    def report(self) -> str:
        """Returns the report as text for a terminal."""
        with self._shown():
            return _report_text.text(self.data)

    def summary(self) -> str:
        """Returns the answer in sentences: "The data are enough for 3.4 of 8 H100: they wait for data in 57 % ..."."""
        with self._shown():
            return _report_text.words(self.data)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"Report({self.summary()!r})"

    def _repr_html_(self) -> str:
        from . import html

        with self._shown():
            return html.fragment(self.data)

    # Questions --------------------------------------------------------------------------------------

    def whatif(self, **question: Any) -> Any:
        """Predicts the rate under other conditions: see :func:`penstock.whatif`."""
        return self._asked(model.renamed(question))

    def _asked(self, question: dict[str, Any]) -> Any:
        with self._shown():
            return model.answers(self.data, question)

    def need(self, resource: str, utilisation: float | None = None, **question: Any) -> float:
        """Returns how much of a resource ("cores", "workers", "storage", "reads", "network", "link", "gpu", "cache", "copying") is
        enough to make the accelerator the limit. LimitError: no amount is enough; the error names what is then too slow.

        utilisation: the fraction of the accelerator's own rate that is enough; None: its limit, or 0.98 if it has none.
        """
        wanted = utilisation if utilisation is not None else self.data["accelerator"].get("limit") or 0.98
        with self._shown():
            return model.need(self.data, resource, wanted, question)


def load_machine(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the capacities of a machine from a file of kind "penstock-machine", or from a report."""
    name = os.fspath(path)
    data = files.read_json(name, "description of a machine")
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in (KIND, MACHINE_KIND):
        raise ArgumentError(f"{name} is no description of a machine: its kind is {kind!r}, not {MACHINE_KIND!r}")
    machine = data.get("machine")
    if not isinstance(machine, dict):
        raise ArgumentError(f"{name} has no section machine")
    known = (*model.CAPACITIES, "core_speed", "cpu", "memory_available_nbytes", "other_cores", "other_cores_at_start")
    for key, value in machine.items():
        if key not in known:
            raise ArgumentError(f"{name}: no capacity {key!r}: there are {', '.join(known)}")
        if key != "cpu":
            files.number()(value, f"{name}: {key}")
    return dict(machine)


door(__name__, "penstock.report")
