"""The base class of all operations, and checks of their arguments."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..base.public import public
from ..errors import ArgumentError

__all__ = ["AudioTransform", "Transform"]

Size = int | Sequence[int]
Padding = int | Sequence[int]
Fill = float | Sequence[float]
Jitter = float | Sequence[float]
Range = float | Sequence[float]
Labels = Mapping[int, int] | Sequence[int] | Sequence[Sequence[int]]

#: Means of ImageNet's channels (red, green, blue), as in torchvision, for ``transforms.Normalize``.
IMAGENET_MEAN: tuple[float, float, float] = (0.485, 0.456, 0.406)
#: Standard deviations of ImageNet's channels, for ``transforms.Normalize``.
IMAGENET_STD: tuple[float, float, float] = (0.229, 0.224, 0.225)

# Numbers of enums in include/penstock/augment.h, which never change.
_INTERPOLATIONS = {"nearest": 1, "bilinear": 2, "bicubic": 3, "nearest-exact": 4}
_PAD_MODES = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 3}
_MAX_SIDE = 65535
#: Kinds of operations that move pixels. FOR_ANNOTATIONS: kinds that move none, and change only masks or boxes.
MOVING = frozenset((*range(1, 8), *range(11, 17), *range(30, 33)))
FOR_ANNOTATIONS = frozenset((17, 18))


def _fail(op: object, text: str) -> ArgumentError:
    return ArgumentError(f"{type(op).__name__}: {text}")


def _side(op: object, value: object) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise _fail(op, f"a size is a whole number of pixels, not {value!r}")
    if not 1 <= int(value) <= _MAX_SIDE:
        raise _fail(op, f"a side has 1 to {_MAX_SIDE} pixels, not {value}")
    return int(value)


def _pair(op: object, size: object, square: bool) -> tuple[int, int]:
    """Returns (height, width) for `size`. One number means a square, or, if `square` is False, (shorter side, 0)."""
    if isinstance(size, numbers.Integral):
        side = _side(op, size)
        return (side, side) if square else (side, 0)
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) not in (1, 2):
        raise _fail(op, f"size is a number or (height, width), not {size!r}")
    if len(size) == 1:
        return _pair(op, size[0], square)
    return _side(op, size[0]), _side(op, size[1])


def _interpolation(op: object, value: object) -> int:
    """Returns the number of an interpolation, which is given by name or as torchvision's InterpolationMode."""
    name = getattr(value, "value", value)
    if isinstance(name, str) and name.lower() in _INTERPOLATIONS:
        return _INTERPOLATIONS[name.lower()]
    raise _fail(op, f"interpolation is one of {', '.join(_INTERPOLATIONS)}, not {value!r}")


def _filter(op: Any) -> dict[str, Any]:
    """Returns the members of struct pst_op that all resizes have."""
    return {"interpolation": _interpolation(op, op.interpolation), "no_antialias": not op.antialias}


def _probability(op: object, p: object) -> float:
    if not isinstance(p, numbers.Real) or not 0 <= float(p) <= 1:
        raise _fail(op, f"p is a probability from 0 to 1, not {p!r}")
    return float(p)


def _range(op: object, name: str, value: object, low: float, high: float) -> list[float]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise _fail(op, f"{name} is (low, high), not {value!r}")
    if not all(isinstance(each, numbers.Real) for each in value):
        raise _fail(op, f"{name} is two numbers, (low, high), not {value!r}")
    first, last = float(value[0]), float(value[1])
    if not low <= first <= last <= high:
        raise _fail(op, f"{name} must lie within {low} to {high} and not fall, not {value!r}")
    return [first, last]


def _padding(op: object, padding: object) -> list[int]:
    """Returns left, top, right, bottom. 1, 2 or 4 numbers are given, with the same meaning as in torchvision."""
    given = [padding] if isinstance(padding, numbers.Integral) else padding
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) not in (1, 2, 4):
        raise _fail(op, f"padding is 1, 2 or 4 numbers, not {padding!r}")
    for value in given:
        if not isinstance(value, numbers.Integral) or not 0 <= int(value) <= _MAX_SIDE:
            raise _fail(op, f"padding is pixels from 0 to {_MAX_SIDE}, not {padding!r}")
    sides = [int(value) for value in given]
    return sides if len(sides) == 4 else sides * (4 // len(sides))


def _fill(op: object, fill: object) -> list[float]:
    given = [fill] * 4 if isinstance(fill, numbers.Real) else fill
    if not isinstance(given, Sequence) or isinstance(given, str) or not 1 <= len(given) <= 4:
        raise _fail(op, f"fill is a number or one per channel, not {fill!r}")
    return [float(value) for value in given]


def _mask_fill(op: object, fill: object) -> float:
    if not isinstance(fill, numbers.Real) or not 0 <= float(fill) <= 65535:
        raise _fail(op, f"mask_fill is a class, 0 to 65535, not {fill!r}")
    return float(fill)


def _pad_mode(op: object, mode: object) -> int:
    if isinstance(mode, str) and mode in _PAD_MODES:
        return _PAD_MODES[mode]
    raise _fail(op, f"padding_mode is one of {', '.join(_PAD_MODES)}, not {mode!r}")


def _per_channel(op: object, name: str, values: object) -> list[float]:
    given = [values] if isinstance(values, numbers.Real) else list(values)  # type: ignore[call-overload]
    if not 1 <= len(given) <= 4:
        raise _fail(op, f"{name} has one number per channel, 1 to 4, not {len(given)}")
    return [float(value) for value in given]


def _whole(op: object, name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise _fail(op, f"{name} is a whole number from {low} to {high}, not {value!r}")
    return int(value)


# Members for which a pair (low, high) is a range to draw from.
_RANGES = ("brightness", "contrast", "saturation", "hue", "sigma", "range")


class Transform:
    """Base of all operations. Operations are values: they compare by their arguments, and are hashable and picklable."""

    _draws: ClassVar[bool] = False  # True: random whatever its arguments are

    def __post_init__(self) -> None:
        self.describe()  # raises an error for wrong arguments when the operation is made

    def describe(self) -> dict[str, Any]:
        """Returns the operation for the C library: members of ``struct pst_op``."""
        raise NotImplementedError

    def parts(self) -> list[dict[str, Any]]:
        """Returns the C library's operations that this operation consists of, in order."""
        return [self.describe()]

    @property
    def is_random(self) -> bool:
        """True if it draws random numbers for each sample, so that the result depends on the epoch."""
        return self._draws or any(_draws_by(part) for part in self.parts())


class AudioTransform(Transform):
    """Base of all operations on sound."""

    def steps(self) -> list[dict[str, Any]]:
        """Returns the steps of the operation for the C library: one or more dicts with members of ``struct pst_audio_op``."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {"kind": 0, "audio": self.steps()}


def _draws_by(part: dict[str, Any]) -> bool:
    """Whether the arguments of an operation of the C library leave something to random draws."""
    if "audio" in part:
        return any(_draws_by(step) for step in part["audio"])
    return 0 < part.get("p", 1) < 1 or any(part[name][0] < part[name][1] for name in _RANGES if name in part)


def chain(field: str | None, transforms: object) -> list[Transform]:
    """Checks the `transforms` of one field, or of the whole sample (None), and returns them as a list."""
    name = "transforms" if field is None else f"transforms[{field!r}]"
    given = [transforms] if isinstance(transforms, Transform) else transforms
    if not isinstance(given, Sequence):
        raise ArgumentError(f"{name} is a list of operations, not {transforms!r}")
    for op in given:
        if not isinstance(op, Transform):
            raise ArgumentError(
                f"{name} holds {op!r}: operations of penstock.transforms only; "
                "apply others to the batch"
            )
    return list(given)


public(__name__, "penstock.transforms")
