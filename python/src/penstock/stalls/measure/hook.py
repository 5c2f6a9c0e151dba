"""The part of `penstock analyze --command` that runs inside the process of the training script.

When torch's DataLoader is imported, its `__iter__` is replaced. The first DataLoader that the script loops over is steered through
the phases (steer.py), and then the report is written. The script is then ended by SystemExit, or continues (`--finish`). Under
torchrun each rank does this. Rank 0 decides at which step all ranks stop, because a rank that goes on alone would wait for
gradients for ever.

Environment variables are the arguments: PENSTOCK_ANALYZE_OUT (path of the report; ranks add ".rankN"), _SECONDS, _FINISH, _SKIP
(how many loops over DataLoaders come before the one to measure), _FORMS, _ACCELERATORS. Before the measurement begins, only the
standard library is imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

_TARGET = "torch.utils.data.dataloader"
_AHEAD = 10  # number of steps between rank 0's announcement and the stop


class _Finder(importlib.abc.MetaPathFinder):
    """An import hook: notices the import of DataLoader, and replaces its __iter__ afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, original: Any) -> None:
        self._original = original

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._original.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        patch(module.DataLoader)


def install(package_parent: str) -> None:
    """Installs the hook that waits for the import of torch's DataLoader. `package_parent`: the directory with the package
    penstock."""
    global _package_parent
    _package_parent = package_parent
    if _TARGET in sys.modules:
        patch(sys.modules[_TARGET].DataLoader)
    else:
        sys.meta_path.insert(0, _Finder())


_package_parent = ""
_state: _Session | None = None
_done = False
_loops = 0
_owner = 0


def patch(cls: Any) -> None:
    original = cls.__iter__

    def __iter__(self: Any) -> Any:
        global _loops, _owner
        if _done or (_owner and _owner != os.getpid()) or in_worker():
            return original(self)
        _loops += 1
        if _loops <= int(os.environ.get("PENSTOCK_ANALYZE_SKIP", "0")):
            return original(self)
        _owner = os.getpid()
        return _session().steer(self, original)

    cls.__iter__ = __iter__


def in_worker() -> bool:
    """Returns True in a worker process of a DataLoader."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and module.get_worker_info() is not None


def _session() -> _Session:
    global _state
    if _state is None:
        _state = _Session()
    return _state


def _say(line: str) -> None:
    if os.environ.get("RANK", "0") == "0" and os.environ.get("PENSTOCK_ANALYZE_QUIET") != "1":
        print(f"penstock: analyze: {line}", file=sys.stderr, flush=True)


class _Session:
    """The state that is kept between several loops of the script, in case it leaves a loop before all phases are done."""

    def __init__(self) -> None:
        try:
            from penstock.stalls.measure import steer
        except ImportError:
            sys.path.append(_package_parent)
            from penstock.stalls.measure import steer

        self.steering = steer
        self.board = steer.Board.make()
        self.seconds = float(os.environ.get("PENSTOCK_ANALYZE_SECONDS", "60"))
        self.rank, self.world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.out = os.environ["PENSTOCK_ANALYZE_OUT"] + (f".rank{self.rank}" if self.world > 1 else "")
        self.stop = os.environ["PENSTOCK_ANALYZE_OUT"] + ".stop"
        self.earlier: Any = None
        self.steps = 0

    def steer(self, loader: Any, original: Any) -> Iterator[Any]:
        """Yields the batches of one loop of the script, and measures meanwhile."""
        steered = self.steering.Steered(loader, original, self.board, 0.75 * self.seconds, _say)
        if self.earlier is not None:
            steered.phases, steered.worker = self.earlier.phases, self.earlier.worker
            steered.plan = [part for part in steered.plan if part[0] not in steered.worker]
            steered.batch = self.earlier.batch
        self.earlier = steered
        for batch in steered:
            self.steps += 1
            yield batch
        if self.world > 1:
            yield from self._until_stop(steered)
        self._write(steered)
        if os.environ.get("PENSTOCK_ANALYZE_FINISH") == "1":
            steered.let_go()
            yield from steered.source
            return
        _say("done: the script is ended (--finish lets it go on)")
        raise SystemExit(0)

    def _until_stop(self, steered: Any) -> Iterator[Any]:
        """Yields batches until the step at which all ranks stop."""
        if self.rank == 0:
            with open(self.stop + ".new", "w", encoding="ascii") as file:
                file.write(str(self.steps + _AHEAD))
            os.replace(self.stop + ".new", self.stop)
        until = None
        while until is None or self.steps < until:
            if until is None and os.path.exists(self.stop):
                with open(self.stop, encoding="ascii") as file:
                    until = int(file.read())
                continue
            batch = next(steered.source, None)
            if batch is None:
                return
            self.steps += 1
            yield batch

    def _write(self, steered: Any) -> None:
        global _done
        from penstock.stalls.measure import torch

        _done = True
        _say("what Penstock would give")
        forms = os.environ.get("PENSTOCK_ANALYZE_FORMS")
        wanted = () if self.rank > 0 else None if forms is None else tuple(forms.split(","))
        seconds = 0.25 * self.seconds if self.rank == 0 else 0.0
        paths = self.board.paths() if self.rank == 0 else []
        data = torch.build(
            steered, paths, None, int(os.environ.get("PENSTOCK_ANALYZE_ACCELERATORS", "1")), seconds, wanted
        )
        self.board.close()
        with open(self.out + ".new", "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(self.out + ".new", self.out)
