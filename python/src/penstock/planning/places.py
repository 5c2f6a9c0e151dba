"""Output paths of tune: data, plan and report. All paths are checked before anything is measured."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from ..base import outputs
from ..data import opening
from ..data import pack as packing
from ..data.dataset import Dataset
from ..errors import ArgumentError, ExistsError, PenstockError
from ..loading import plan_file as _plan_file
from ..loading.loader import Loader
from ..stalls.measure.machine import scratch_directory
from . import plan as _plan
from . import text
from .plan import Plan

PLAN_SUFFIX = ".plan.json"


class Written(Protocol):
    """The part of a tuning's result that is written."""

    plan: Plan
    plan_file: str | None
    loader_file: str | None

    def as_dict(self) -> dict[str, Any]: ...


class Places:
    """Output paths of tune: data, plan and report. All are checked before anything is measured.

    Attributes:
        target: path of the data: the data set to be packed from a folder, or the data set itself.
        dataset: the folder to pack or the data set to repack.
        is_limited: True if the free disk space limits the plan, and not a limit of the user.
    """

    is_limited = False

    def __init__(self, dataset: Dataset, path: str, out: Any, plan_file: Any, report_file: Any) -> None:
        self.dataset = dataset
        self._find_target(path, out)
        self.plan_file = self._checked_plan(plan_file)
        self.report_file = None if report_file is None else outputs.checked("report_file", report_file, self.plan_file)

    def _find_target(self, path: str, out: Any) -> None:
        """Sets the target. ArgumentError, ExistsError: it cannot be written."""
        if not self.dataset.is_packed:
            self.target = os.path.abspath(os.fspath(out)) if out is not None else text.packed_path(path)
            self._check_new()
        elif out is not None:
            raise ArgumentError("out is where a folder is packed to: a data set is repacked in place")
        else:
            self.target = path
            if not os.access(path, os.W_OK | os.X_OK):
                raise ArgumentError(f"{path} cannot be written, and it would be changed in place")

    def _check_new(self) -> None:
        """Raises ArgumentError if the folder cannot be packed to the target."""
        if self.dataset._arguments[4]:
            raise ArgumentError("tune packs a whole folder, and make gives a list of files: pack them with ps.Writer first")
        parent = os.path.dirname(self.target)
        if os.path.exists(os.path.join(self.target, "journal.pst")):
            plan_file = self.target + PLAN_SUFFIX
            goes_on = os.path.exists(plan_file) and not makes_smaller(plan_file)
            resume = self.resume(plan_file) if goes_on else "remove it, or give another out"
            raise ExistsError(f"{self.target} exists and is not finished: {resume}")
        if os.path.lexists(self.target):
            again = f"penstock tune {shlex.quote(self.target)}"
            raise ExistsError(f"{self.target} exists: give another out, or tune it in place: {again}")
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
            raise ArgumentError(f"{parent} is no directory that can be written: give another out")

    def check_training_size(self, loader: Loader) -> None:
        """Raises ArgumentError if images cannot be stored at the training size, or if the originals would be lost."""
        if not self.dataset.is_folder:
            path = shlex.quote(self.target)
            raise ArgumentError(
                f"training_size: {self.target} would be changed in place, and its whole images would be lost. To store them in "
                f"another data set: penstock plan {path} --training-size --out plan.json, then penstock repack {path} DST --plan "
                "plan.json"
            )
        _plan.training_side(loader)

    def _checked_plan(self, given: Any) -> str:
        if given is not None:
            return outputs.checked("plan_file", given)
        found = outputs.checked("plan_file, which nobody named", self.target + PLAN_SUFFIX)
        if os.path.exists(found):
            try:
                _plan_file.read(found)
            except PenstockError as error:
                raise ExistsError(
                    f"{found} is there and would be written over ({error.text}): name another plan_file, --plan on the command line"
                ) from None
        return found

    def question(self, data: str, about: str) -> str:
        """Returns the question to ask before anything is written."""
        return f"change {data} in place: {about}" if self.dataset.is_packed else f"pack {data} to {self.target}: {about}"

    def training_data(self, data: str) -> Any:
        """Returns the data for the second analysis, with which `make` is called. data: path of the present data."""
        return data

    def keep(self, tuned: Written, loader: Loader) -> None:
        """Called with the loader of the second analysis. Here there is nothing to write for it."""

    def need_room(self, nbytes: float) -> None:
        """Raises NoSpaceError if `nbytes` of samples do not fit on the disk beside the present data."""
        if not self.dataset.is_packed:
            outputs.need_room(self.target, nbytes, f"Packing {self.dataset.path}", "free some, or give another out")
        else:
            outputs.need_room(self.target, nbytes, f"Changing {self.target} in place, where the old state stays until the end,",
                               "free some, or make another data set: penstock repack SRC DST --plan FILE")  # fmt: skip

    def storage_limit(self, given: Any) -> int | None:
        """Returns the most bytes that a plan may store: the given limit, or less if the disk has less space.

        NoSpaceError: not even the bytes that are stored now fit, so even a plan that keeps the present form could not be written.
        """
        nbytes = float(self.dataset._native.nbytes())
        wanted = _plan.storage_limit(given, nbytes)
        self.need_room(min(wanted or nbytes, nbytes))
        room = outputs.storable_nbytes(self.target)
        self.is_limited = not 0 < wanted <= room
        return int(min(wanted or room, room))

    def save_plan(self, tuned: Written) -> None:
        tuned.plan.to_json(self.plan_file)
        tuned.plan_file = self.plan_file

    def save_report(self, tuned: Written) -> None:
        if self.report_file is not None:
            outputs.write(self.report_file, json.dumps(tuned.as_dict(), indent=2, allow_nan=False) + "\n")

    def resume(self, plan_file: str) -> str:
        """Returns the command that resumes or restarts an interrupted conversion."""
        if self.dataset.is_packed:
            return f"go on with: penstock repack {shlex.quote(self.target)} --plan {shlex.quote(plan_file)}"
        anew = makes_smaller(plan_file)
        words = ["penstock", "pack", self.dataset._arguments[0], self.target, "--plan", plan_file]
        words += [*([] if anew else ["--resume"]), *opening.words(opening.opening_of(self.dataset))]
        return ("nothing is left of the packing; begin anew with: " if anew else "go on with: ") + " ".join(map(shlex.quote, words))

    def write(self) -> None:
        """Packs the folder with the options it was opened with, or repacks the data set."""
        if self.dataset.is_packed:
            packing.repack(self.target, plan=self.plan_file)
        elif makes_smaller(self.plan_file):  # a pack with resize cannot be resumed
            with appearing(self.target) as place:
                pack(self.dataset, place, self.plan_file)
        else:
            pack(self.dataset, self.target, self.plan_file)


def makes_smaller(plan_file: str) -> bool:
    """Whether a plan's file stores images at the training size. Returns False if the file is no plan."""
    try:
        return bool(_plan_file.sides(_plan_file.read(plan_file)))
    except PenstockError:
        return False


def pack(dataset: Dataset, target: str, plan_file: str) -> None:
    """Packs a data set with the options it was opened with. A packed data set is copied and stays unchanged."""
    path, labels, allow_unreadable, masks, _, ignore_labels, split, fields = dataset._arguments
    packing.pack(
        path, target, labels=labels, allow_unreadable=allow_unreadable, masks=masks, ignore_labels=ignore_labels,
        split=split, fields=fields, plan=plan_file,
    )  # fmt: skip


@contextlib.contextmanager
def appearing(target: str) -> Iterator[str]:
    """Yields a path in a hidden directory beside the target. At the end, the result is renamed to the target as a whole; after an
    error nothing is left. Also removes the leftovers of killed processes."""
    parent, name = os.path.split(target)
    with scratch_directory(f"tune{zlib.crc32(name.encode(errors='surrogateescape')):08x}", parent) as place:
        yield os.path.join(place, name)
        os.rename(os.path.join(place, name), target)
    handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
