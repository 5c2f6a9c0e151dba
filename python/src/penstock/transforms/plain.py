"""Converts chains of operations for the C library, and to and from JSON."""

from __future__ import annotations

import functools
import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from ..base import options
from ..base.public import public
from ..errors import ArgumentError
from .base import FOR_ANNOTATIONS, MOVING, AudioTransform, Transform, chain
from .pixels import Grayscale, RandomGrayscale

__all__ = ["from_json", "to_json"]


@functools.cache
def _operations() -> dict[str, type[Transform]]:
    """Returns the classes of all operations, by their names in files."""
    from . import detection, pixels, policies, sound

    return {
        name: kind
        for module in (detection, pixels, policies, sound)
        for name in module.__all__
        if isinstance(kind := getattr(module, name), type) and issubclass(kind, Transform)
    }


def geometric(ops: Sequence[Transform]) -> list[Transform]:
    """Returns the operations of `ops` that apply to masks without an image: those that move pixels, map classes, or drop boxes."""
    wanted = MOVING | FOR_ANNOTATIONS
    return [op for op in ops if not isinstance(op, AudioTransform) and any(part["kind"] in wanted for part in op.parts())]


def described(ops: Sequence[Transform]) -> list[dict[str, Any]]:
    """Returns the C library's description of a chain."""
    return [part for op in ops for part in op.parts()]


def output_channels(field: str, ops: list[Transform]) -> int:
    """Returns 1 if the chain reduces an image to one channel, else 0 (channels are not decided by the chain)."""
    for i, op in enumerate(ops):
        if isinstance(op, Grayscale) and op.num_output_channels == 1:
            for before in ops[:i]:
                moves = before.describe()["kind"] in MOVING | FOR_ANNOTATIONS
                if moves or isinstance(before, (Grayscale, RandomGrayscale)):
                    continue
                raise ArgumentError(
                    f"transforms[{field!r}]: {type(before).__name__} before Grayscale(1) is not possible; use "
                    f"Grayscale(3), or put {type(before).__name__} after it"
                )
            return 1
    return 0


def _plain(value: object) -> object:
    """Converts an argument to JSON: torchvision's InterpolationMode to its name, numbers of numpy to Python's."""
    if isinstance(value, Transform):
        return _to_plain(value)
    value = getattr(value, "value", value)
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, Transform):
        return _to_plain(value)
    if isinstance(value, Sequence):
        return [_plain(part) for part in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value)  # type: ignore[arg-type]


def _to_plain(op: Transform) -> dict[str, object]:
    """Converts an operation to a JSON object: its name, and the arguments that differ from their defaults."""
    plain: dict[str, object] = {"op": type(op).__name__}
    for field in fields(op):  # type: ignore[arg-type]
        value = getattr(op, field.name)
        if field.default is MISSING or value != field.default:
            plain[field.name] = _plain(value)
    return plain


def to_json(transforms: Transform | Sequence[Transform] | Mapping[str, Sequence[Transform]]) -> str:
    """Returns operations as JSON, for a file that ``penstock view --transforms`` and :func:`from_json` read.

    A list of operations becomes a list of objects such as ``{"op": "RandomCrop", "size": 224}``: the class, and the arguments that
    differ from their defaults. A dict of lists by field becomes an object of lists.
    """
    if isinstance(transforms, Mapping):
        plain: object = {name: [_to_plain(op) for op in chain(name, ops)] for name, ops in transforms.items()}
    else:
        plain = [_to_plain(op) for op in chain(None, transforms)]
    return json.dumps(plain, indent=2)


def _argument(value: object) -> object:
    """Converts an argument from JSON: a list to a tuple, an object to an operation."""
    return tuple(value) if isinstance(value, list) else _from_plain(value) if isinstance(value, dict) else value


def _from_plain(plain: object) -> Transform:
    if not isinstance(plain, dict) or not isinstance(plain.get("op"), str):
        raise ArgumentError(f'an operation is an object like {{"op": "CenterCrop", "size": 224}}, not {plain!r}')
    name = plain["op"]
    if name not in _operations():
        raise ArgumentError(f"no operation {name!r}{options.nearest(name, sorted(_operations()))}")
    operation = _operations()[name]
    arguments = {key: _argument(value) for key, value in plain.items() if key != "op"}
    if name in ("RandomApply", "RandomChoice") and "transforms" in plain:
        arguments["transforms"] = tuple(_chain_from_plain(plain["transforms"]))
    parameters = {field.name: field for field in fields(operation)}  # type: ignore[arg-type]
    for key in arguments:
        if key not in parameters:
            raise ArgumentError(f"{name}: no argument {key!r}{options.nearest(key, list(parameters))}")
    for key, field in parameters.items():
        if field.default is MISSING and key not in arguments:
            raise ArgumentError(f"{name}: the argument {key!r} is missing")
    try:
        return operation(**arguments)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ArgumentError(f"{name}: an argument is of a wrong kind ({error})") from None
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{name}: {error}") from None


def _chain_from_plain(plain: object) -> list[Transform]:
    if not isinstance(plain, list):
        raise ArgumentError(f"a list of operations is expected, not {plain!r}")
    return [_from_plain(op) for op in plain]


def from_json(text: str | bytes) -> list[Transform] | dict[str, list[Transform]]:
    """Returns the operations that :func:`to_json` wrote: a list for the sample, or a dict of lists by field.

    Lists of numbers become tuples. ArgumentError: the text is not JSON, or names an unknown operation or argument.
    """
    try:
        plain = json.loads(text)
        if isinstance(plain, dict) and "op" not in plain:
            return {name: _chain_from_plain(ops) for name, ops in plain.items()}
        return _chain_from_plain(plain)
    except RecursionError:
        raise ArgumentError("the operations are nested too deep") from None
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"the operations are not JSON: {error}") from None


public(__name__, "penstock.transforms")
