"""Output paths of tune for a mixture: a folder with new data sets that replace those that change, and the loader's
configuration."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from typing import Any

from ..base import outputs
from ..data.dataset import Dataset
from ..data.mixture_sources import Leaf, leaves, with_others
from ..errors import ArgumentError, ExistsError
from ..loading import plan_file as _plan_file
from ..loading.loader import Loader
from . import mixtures
from .places import PLAN_SUFFIX, Places, Written, appearing, pack

_LOADER_FILE = "loader.json"


class MixturePlaces(Places):
    """The output paths of a mixture. The original data sets are not changed, because they may belong to or be used by others.

    Attributes:
        target: path of a folder that does not exist yet.
    """

    def _find_target(self, path: str, out: Any) -> None:
        if out is None:
            raise ArgumentError(
                "the data sets of a mixture stay as they are: name the folder for the new ones by out (--out DIR for the command)"
            )
        self.target = os.path.abspath(os.fspath(out))
        self._mixture: Any = self.dataset
        parent = os.path.dirname(self.target)
        if os.path.lexists(self.target):
            raise ExistsError(f"{self.target} exists: give another out")
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
            raise ArgumentError(f"{parent} is no directory that can be written: give another out")
        for leaf in leaves(self.dataset):
            if type(leaf.dataset) is not Dataset or leaf.dataset._arguments[4]:
                raise ArgumentError(
                    f"tune packs whole data sets, and source {leaf.name!r} is a list of files: pack it with ps.Writer first",
                    dataset=leaf.dataset.path,
                )

    def check_training_size(self, loader: Loader) -> None:
        """Raises ArgumentError, because a plan of a mixture cannot store images at the training size."""
        mixtures.check(loader, training_size=True)

    def question(self, data: str, about: str) -> str:
        """Returns the question to ask before anything is written."""
        return f"write data sets of the mixture anew to {self.target}: {about}"

    def training_data(self, data: str) -> Any:
        """Returns the mixture, with the new data sets in place once they are written."""
        return self._mixture

    def need_room(self, nbytes: float) -> None:
        """Raises NoSpaceError if `nbytes` of samples do not fit on the disk."""
        outputs.need_room(self.target, nbytes, "Writing the data sets of the mixture anew", "free some, or give another out")

    def resume(self, plan_file: str) -> str:
        """Returns advice on how to start again after an interruption."""
        return f"nothing is left of {shlex.quote(self.target)}: begin anew, with the same call"

    def write(self) -> None:
        """Writes the data sets that change: all of them, or none after an error."""
        data = _plan_file.read(self.plan_file)
        written: dict[str, str] = {}
        with appearing(self.target) as place:
            os.mkdir(place)
            for names, leaf in self._changed(data):
                file = _free_name(place, leaf.name.replace("/", "-"))
                plan_file = os.path.join(place, file + PLAN_SUFFIX)
                outputs.write(plan_file, json.dumps(mixtures.of_source(data, leaf.name), indent=2, allow_nan=False) + "\n")
                pack(leaf.dataset, os.path.join(place, file), plan_file)
                written.update(dict.fromkeys(names, os.path.join(self.target, file)))
        opened = {path: Dataset(path) for path in dict.fromkeys(written.values())}
        self._mixture = with_others(self._mixture, {name: opened[path] for name, path in written.items()})
        for dataset in opened.values():
            dataset.close()

    def _changed(self, data: dict[str, Any]) -> Iterator[tuple[list[str], Leaf]]:
        """Yields each data set that the plan stores in another form, with the names of all sources of the mixture that use it."""
        changed = mixtures.changed_sources(data)
        draws = {source["name"]: source["draws"] for source in data["data"]["sources"]}
        groups: dict[str, list[Leaf]] = {}
        for leaf in leaves(self.dataset):
            groups.setdefault(repr(leaf.dataset._arguments), []).append(leaf)
        for group in groups.values():
            if any(leaf.name in changed for leaf in group):
                names = [leaf.name for leaf in group]
                yield names, max(group, key=lambda leaf: (leaf.name in changed, draws[leaf.name]))

    def keep(self, tuned: Written, loader: Loader) -> None:
        """Writes the configuration of a loader for the new data sets into their folder."""
        if os.path.isdir(self.target):
            tuned.loader_file = os.path.join(self.target, _LOADER_FILE)
            outputs.write(tuned.loader_file, json.dumps(loader.config(), indent=2) + "\n")


def _free_name(place: str, name: str) -> str:
    """Returns a name for a data set that does not exist yet in the folder."""
    found, n = f"{name}.pst", 1
    while os.path.exists(os.path.join(place, found)):
        n += 1
        found = f"{name}-{n}.pst"
    return found
