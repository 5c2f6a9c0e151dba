"""The state of a loader: its place, the identity of the samples, and a digest of the operations."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _native
from ..base import options
from ..errors import ArgumentError, NotFoundError

KEYS = ("epoch", "position", "seed", "n_samples", "order_version", "order_hash", "augment_version")  # keys of the place
_VERSION = 2
_IDENTITY = "identity"  # key: identity of the samples, 32 hexadecimal digits
_FILES = "files"  # key: identity of the source files, 32 hexadecimal digits; missing if the data set has none
_TRANSFORMS = "transforms"  # key: digest of the operations, 16 hexadecimal digits
_OPERATIONS = ("transforms", "mix", "views")  # the loader's arguments that the digest covers


def _text(value: Any) -> str:
    """Formats arguments so that equal ones give equal texts. Members with defaults are left out, since later versions add some."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{key!r}:{_text(entry)}" for key, entry in value.items())) + "}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "[" + ",".join(map(_text, value)) + "]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        given = (f"{f.name}={_text(v)}" for f, v in members if f.default is dataclasses.MISSING or v != f.default)
        return f"{type(value).__name__}({','.join(given)})"
    return repr(value)


def digest(given: Mapping[str, Any]) -> str:
    """Returns the digest of the operations in a loader's arguments."""
    import hashlib

    return hashlib.sha256(_text({name: given[name] or None for name in _OPERATIONS}).encode()).hexdigest()[:16]


class Facts(NamedTuple):
    """What a state contains besides its place. "": not known."""

    identity: str
    files: str
    transforms: str

    def to_state(self) -> dict[str, str]:
        """Returns these facts as a part of a state."""
        found = {_IDENTITY: self.identity, _FILES: self.files, _TRANSFORMS: self.transforms}
        return {key: value for key, value in found.items() if value}


def facts(data: _native.Dataset, transforms: str) -> Facts:
    """Reads the identities of the data set."""
    try:
        files = data.identity(options.IDENTITY_FILES).hex()
    except NotFoundError:
        files = ""
    return Facts(data.identity(options.IDENTITY_SAMPLES).hex(), files, transforms)


def to_state(place: Sequence[int], known: Facts) -> dict[str, Any]:
    """Returns the state for a place, whose numbers have the order of KEYS."""
    return {"version": _VERSION, **dict(zip(KEYS, place, strict=True)), **known.to_state()}


def place(
    state: Mapping[str, Any], mine: Mapping[str, int], known: Facts, path: str, *, strict: bool, advice: str = ""
) -> dict[str, Any]:
    """Checks a state against the place and the facts of the loader that is to load it, and returns it.

    The end of an epoch is converted to the beginning of the next one. ``advice`` ends the error of a state with another order.
    """
    if state.get("version") != _VERSION:
        raise ArgumentError(f"state of version {state.get('version')!r}, not {_VERSION}")
    missing = [key for key in KEYS if key not in state]
    if missing:
        raise ArgumentError(f"state without {', '.join(missing)}")
    taken: dict[str, Any] = {**state, **{key: options.count(key, state[key], 0, 2**64 - 1) for key in KEYS}}
    _compare(state, known, path, strict=strict)
    for key in KEYS[2:]:
        if state[key] != mine[key]:
            raise ArgumentError(
                f"the state is of another loader: its {key} is {state[key]}, here it is {mine[key]}"
                f"{advice if key == 'order_hash' else ''}",
                dataset=path,
            )
    position, n = taken["position"], taken["n_samples"]
    if position > n:
        raise ArgumentError(f"the state's position {position} is beyond the epoch's end: it has {n} positions", dataset=path)
    if position and position == n:
        taken.update(epoch=taken["epoch"] + 1, position=0)
    return taken


def _compare(state: Mapping[str, Any], mine: Facts, path: str, *, strict: bool) -> None:
    """Raises ArgumentError if the state counts the samples of another data set. Warns if its operations differ.

    With ``strict``, other operations are an error, and so is a state that does not record its samples and operations.
    """
    identity, files = state.get(_IDENTITY), state.get(_FILES)
    if identity is not None and identity != mine.identity:
        raise ArgumentError(
            f"the state is of another data set: its samples have the identity {identity}, those of {path} have {mine.identity}",
            dataset=path,
        )
    if files is not None and mine.files and files != mine.files:
        raise ArgumentError(
            f"the state is of another data set: its samples have the same names and labels, but its files the identity {files}, "
            f"those of {path} have {mine.files}: their lengths differ",
            dataset=path,
        )
    doubt = ""
    if identity is None:
        doubt = (
            "the state does not say which samples it counts, because an older Penstock made it: only their number could be "
            f"compared with that of {path}"
        )
    elif state.get(_TRANSFORMS, mine.transforms) != mine.transforms:
        doubt = (
            "the state was made with other transforms, mix or views: the order goes on, but samples are augmented otherwise "
            "than they would have been"
        )
    if doubt and strict:
        raise ArgumentError(doubt, dataset=path)
    if doubt:
        warnings.warn(f"{doubt} (strict=True refuses such a state)", stacklevel=5)
