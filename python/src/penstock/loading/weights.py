"""The changes of :meth:`penstock.Loader.set_weights`, and the part of a loader's state about a mixture with weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from .. import _native
from ..base import options
from ..data import mixture_weights
from ..data.mixture import Mixture
from ..errors import ArgumentError
from ..functions.place import Place

_KEY = "mixture"  # key of a loader's state: the rule of a mixture with weights, and its changes of weights
_MEMBERS = ("weights", "stop", "quota", "changes")
_FAR = 2**64 - 1


class Change(NamedTuple):
    """The weight shares of the sources that apply from a place on."""

    epoch: int
    position: int
    shares: tuple[float, ...]


class Passing(Protocol):
    """The part of a loader that is needed to find the place of a change during a pass."""

    _epoch: int
    _over: bool

    @property
    def batch_size(self) -> int: ...

    def _ranks_now(self) -> tuple[int, int, str]: ...


def place_of(loader: Passing, native: _native.Loader, here: Place) -> Sequence[int]:
    """Returns the state of the next step of all ranks. It begins with epoch and position.

    That is `here`, with one exception: with pad_epoch=False, this rank may have had its last batch while others still have one.
    Then it is the place of their next step, so that all ranks record a change at the same place.
    """
    if here.left > 0 or loader._over:
        return here.state
    state = native.state()
    if state[0] != loader._epoch:
        return native.step_place()
    rank, world_size, _ = loader._ranks_now()  # batches that were skipped at the end were not made
    position = state[1] + native.n_batches(state[1], rank, world_size) * loader.batch_size * world_size
    others_go_on = position < state[3] and native.n_batches(position, 0, world_size) > 0
    return (loader._epoch, position) if others_go_on else here.state


class Weights:
    """The weights of a loader's mixture, and the changes so far."""

    def __init__(self, dataset: Any, native_options: Mapping[str, Any]) -> None:
        weighted = isinstance(dataset, Mixture) and mixture_weights.is_weighted(dataset)
        self._mixture: Mixture | None = dataset if weighted else None
        self._view = native_options.get("indices")
        self._opened = tuple(native_options["source_weights"].tolist()) if weighted else ()
        self._quota = int(native_options["source_quota"]) if weighted else 0
        self.changes: tuple[Change, ...] = ()

    @property
    def is_endless(self) -> bool:
        """Whether an epoch never ends."""
        return self._mixture is not None and self._mixture._rule.stop == mixture_weights.STOPS[mixture_weights.ENDLESS]

    def changed(self, weights: Any, epoch: int, position: int, path: str) -> tuple[Change, ...]:
        """Returns the list of changes with a new one at this epoch and position. Known changes for this or a later place are
        dropped.
        """
        if self._mixture is None:
            raise ArgumentError("set_weights is for a Mixture that was made with weights", dataset=path)
        found = self._mixture._shares(weights)
        mixture_weights.check_filled(found, self._view)
        earlier = (change for change in self.changes if change[:2] < (epoch, position))
        return (*earlier, Change(epoch, position, tuple(share.weight for share in found)))

    def apply(self, native: _native.Loader, changes: Sequence[Change]) -> None:
        """Replaces a loader's changes of weights."""
        import numpy as np

        if self._mixture is None:
            return
        places = np.array([change[:2] for change in changes], np.uint64)
        native.set_source_weights(places, np.array([change.shares for change in changes], np.float64), len(changes))
        self.changes = tuple(changes)

    def to_state(self) -> dict[str, Any]:
        """Returns the part of a loader's state that says how the mixture is drawn."""
        if self._mixture is None:
            return {}
        changes = [[change.epoch, change.position, list(change.shares)] for change in self.changes]
        values = (list(self._opened), self._mixture._rule.stop, self._quota, changes)
        return {_KEY: dict(zip(_MEMBERS, values, strict=True))}

    def of_state(self, state: Mapping[str, Any], path: str) -> tuple[Change, ...]:
        """Returns the changes in a state. ArgumentError: the state is of a mixture with other weights or other rules."""
        given = state.get(_KEY)
        if given is None and self._mixture is None:
            return ()
        if given is None or self._mixture is None:
            one, other = ("no weights", "some") if given is None else ("weights", "none")
            raise ArgumentError(
                f"the state is of another loader: its data set had {one} of sources, this one has {other}", dataset=path
            )
        if not isinstance(given, Mapping) or set(given) != set(_MEMBERS):
            raise ArgumentError(f"a state's {_KEY!r} has {', '.join(_MEMBERS)}, not {given!r}", dataset=path)
        opened = _numbers(given["weights"], "weights")
        if len(opened) != len(self._opened) or not all(map(_is_close, opened, self._opened)):
            raise ArgumentError(
                f"the state is of a mixture with other weights: their shares are {_shown(opened)}, here they are "
                f"{_shown(self._opened)}; make the Mixture with the weights of the run, and change them by set_weights",
                dataset=path,
            )
        for key, mine in (("stop", self._mixture._rule.stop), ("quota", self._quota)):
            if given[key] != mine:
                raise ArgumentError(
                    f"the state is of a mixture with another {key}: it is {given[key]!r}, here it is {mine!r}; give "
                    f"Mixture({key}=...)",
                    dataset=path,
                )
        if not isinstance(given["changes"], Sequence) or isinstance(given["changes"], str):
            raise ArgumentError(f"a state's changes of weights are a list, not {given['changes']!r}", dataset=path)
        return tuple(self._change(entry) for entry in given["changes"])

    def _change(self, entry: Any) -> Change:
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 3:
            raise ArgumentError(f"a change of weights is [epoch, position, weights], not {entry!r}")
        shares = _numbers(entry[2], "weights of a change")
        if len(shares) != len(self._opened):
            raise ArgumentError(f"a change has {len(shares)} weights, and the mixture {len(self._opened)} sources")
        return Change(options.count("epoch", entry[0], 0, _FAR), options.count("position", entry[1], 0, _FAR), shares)


def _numbers(given: Any, what: str) -> tuple[float, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in given
    ):
        raise ArgumentError(f"a state's {what} are a list of numbers, not {given!r}")
    return tuple(float(value) for value in given)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9)


def _shown(shares: Sequence[float]) -> str:
    text = ", ".join(f"{share:.6g}" for share in shares[:8])
    return f"({text}{', ...' if len(shares) > 8 else ''})"
