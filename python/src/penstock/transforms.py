"""Operations on the pixels of a sample, with torchvision's names and arguments.

Operations only describe. The C library runs them, fused, straight into the batch. A list of operations is for a sample:
Resize, CenterCrop, RandomCrop, RandomResizedCrop, Pad, the flips, RandomRotation, RandomAffine, RandomPerspective and
ElasticTransform are geometric and move its images, masks, boxes and keypoints together (ElasticTransform: images and masks);
the others are for images only. Masks are interpolated by "nearest" whatever ``interpolation`` is,
except "nearest-exact". Their padding gets ``mask_fill``.

Random parameters are a function of (seed, epoch, sample, draw, view, operation): see
``include/penstock/augment.h``. Geometric operations are numbered among themselves, so a colour
operation put between them changes no geometry.

Sizes are pixels, (height, width). A chain may hold ``Normalize`` once, at its end; only ``RandomErasing`` may follow.
"""

from __future__ import annotations

import difflib
import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Union

from .errors import ArgumentError

__all__ = [
    "AugMix",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "ElasticTransform",
    "GaussianBlur",
    "Grayscale",
    "Identity",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "Transform",
    "TrivialAugmentWide",
    "from_json",
    "to_json",
]

Size = Union[int, Sequence[int]]
Padding = Union[int, Sequence[int]]
Fill = Union[float, Sequence[float]]
Jitter = Union[float, Sequence[float]]

# Numbers of include/penstock/augment.h, which pins them.
_RESIZE, _CENTER_CROP, _RANDOM_CROP, _RANDOM_RESIZED_CROP = 1, 2, 3, 4
_HORIZONTAL_FLIP, _VERTICAL_FLIP, _PAD, _COLOR_JITTER, _GRAYSCALE, _NORMALIZE = 5, 6, 7, 8, 9, 10
_IDENTITY, _RANDOM_APPLY, _RANDOM_CHOICE, _INVERT, _POSTERIZE, _SOLARIZE, _AUTOCONTRAST, _EQUALIZE = range(20, 28)
_SHARPNESS, _GAUSSIAN_BLUR, _AFFINE, _PERSPECTIVE, _ELASTIC, _ERASING = range(28, 34)
_RAND_AUGMENT, _TRIVIAL_AUGMENT, _AUTO_AUGMENT, _AUGMIX = range(34, 38)
_GEOMETRIC = frozenset((*range(_RESIZE, _PAD + 1), _AFFINE, _PERSPECTIVE, _ELASTIC))
_POLICIES = {"imagenet": 0, "cifar10": 1, "svhn": 2}
_MAX_INNER = 14
_INTERPOLATIONS = {"nearest": 1, "bilinear": 2, "bicubic": 3, "nearest-exact": 4}
_PAD_MODES = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 3}
_MAX_SIDE = 65535


def _fail(op: object, text: str) -> ArgumentError:
    return ArgumentError(f"{type(op).__name__}: {text}")


def _side(op: object, value: object) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise _fail(op, f"a size is a whole number of pixels, not {value!r}")
    if not 1 <= int(value) <= _MAX_SIDE:
        raise _fail(op, f"a side has 1 to {_MAX_SIDE} pixels, not {value}")
    return int(value)


def _pair(op: object, size: object, square: bool) -> tuple[int, int]:
    """Returns (height, width) of `size`; one number is a square, or (shorter side, 0)."""
    if isinstance(size, numbers.Integral):
        side = _side(op, size)
        return (side, side) if square else (side, 0)
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) not in (1, 2):
        raise _fail(op, f"size is a number or (height, width), not {size!r}")
    if len(size) == 1:
        return _pair(op, size[0], square)
    return _side(op, size[0]), _side(op, size[1])


def _interpolation(op: object, value: object) -> int:
    """Returns the name of an interpolation, from that name or from torchvision's InterpolationMode."""
    name = getattr(value, "value", value)
    if isinstance(name, str) and name.lower() in _INTERPOLATIONS:
        return _INTERPOLATIONS[name.lower()]
    raise _fail(op, f"interpolation is one of {', '.join(_INTERPOLATIONS)}, not {value!r}")


def _probability(op: object, p: object) -> float:
    if not isinstance(p, numbers.Real) or not 0 <= float(p) <= 1:
        raise _fail(op, f"p is a probability from 0 to 1, not {p!r}")
    return float(p)


def _range(op: object, name: str, value: object, low: float, high: float) -> list[float]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise _fail(op, f"{name} is (low, high), not {value!r}")
    first, last = float(value[0]), float(value[1])
    if not low <= first <= last <= high:
        raise _fail(op, f"{name} must lie within {low} to {high} and not fall, not {value!r}")
    return [first, last]


def _padding(op: object, padding: object) -> list[int]:
    """Returns left, top, right, bottom by torchvision's rule for 1, 2 and 4 numbers."""
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


class Transform:
    """Base of all operations. Operations are values: equal by their arguments, hashable, picklable."""

    def __post_init__(self) -> None:
        self.describe()  # reports wrong arguments when the operation is made

    def describe(self) -> dict[str, Any]:
        """Returns the operation for the C library: members of ``struct pst_op``."""
        raise NotImplementedError

    def parts(self) -> list[dict[str, Any]]:
        """Returns the operations of the C library that this one stands for, in their order."""
        return [self.describe()]


@dataclass(frozen=True)
class Resize(Transform):
    """Resizes to ``size``: (height, width), or the shorter side.

    ``antialias=False`` keeps the filter narrow when shrinking. Interpolation: "bilinear", "bicubic",
    "nearest", "nearest-exact", or torchvision's InterpolationMode; each means what it means there.
    """

    size: Size
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.size, square=False)
        return {
            "kind": _RESIZE,
            "height": height,
            "width": width,
            "interpolation": _interpolation(self, self.interpolation),
            "no_antialias": not self.antialias,
        }


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Crops ``size`` out of the middle. A smaller image is first padded with zeros, a mask with ``mask_fill``."""

    size: Size
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.size, square=True)
        return {
            "kind": _CENTER_CROP,
            "height": height,
            "width": width,
            "mask_fill": _mask_fill(self, self.mask_fill),
        }


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Crops ``size`` at a random place, after padding.

    An image that is smaller is an error unless ``pad_if_needed``. ``fill`` is in pixel units
    (0..255, or 0..65535 for 16-bit images), ``mask_fill`` a class, for masks that follow.
    """

    size: Size
    padding: Padding | None = None
    pad_if_needed: bool = False
    fill: Fill = 0
    padding_mode: str = "constant"
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.size, square=True)
        return {
            "kind": _RANDOM_CROP,
            "height": height,
            "width": width,
            "pad": _padding(self, 0 if self.padding is None else self.padding),
            "pad_if_needed": bool(self.pad_if_needed),
            "fill": _fill(self, self.fill),
            "mask_fill": _mask_fill(self, self.mask_fill),
            "pad_mode": _pad_mode(self, self.padding_mode),
        }


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Crops a random part (share of the area in ``scale``, width/height in ``ratio``), resized."""

    size: Size
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    interpolation: Any = "bilinear"
    antialias: bool = True

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.size, square=True)
        scale = _range(self, "scale", self.scale, 0, 1e6)
        ratio = _range(self, "ratio", self.ratio, 1e-6, 1e6)
        if scale[0] <= 0:
            raise _fail(self, f"scale must be above 0, not {self.scale!r}")
        return {
            "kind": _RANDOM_RESIZED_CROP,
            "height": height,
            "width": width,
            "scale": scale,
            "ratio": ratio,
            "interpolation": _interpolation(self, self.interpolation),
            "no_antialias": not self.antialias,
        }


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirrors left and right with probability ``p``."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _HORIZONTAL_FLIP, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirrors top and bottom with probability ``p``."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _VERTICAL_FLIP, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class Pad(Transform):
    """Adds a border: one width, (left/right, top/bottom), or (left, top, right, bottom).

    Masks that follow their image get ``mask_fill`` there, a class (255 is often the one to ignore).
    """

    padding: Padding
    fill: Fill = 0
    padding_mode: str = "constant"
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        return {
            "kind": _PAD,
            "pad": _padding(self, self.padding),
            "fill": _fill(self, self.fill),
            "mask_fill": _mask_fill(self, self.mask_fill),
            "pad_mode": _pad_mode(self, self.padding_mode),
        }


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue by random factors, in random order.

    A number x draws a factor from 1-x to 1+x (hue: a shift in turns from -x to x, at most 0.5); a
    pair (low, high) is the range itself.
    """

    brightness: Jitter = 0
    contrast: Jitter = 0
    saturation: Jitter = 0
    hue: Jitter = 0

    def describe(self) -> dict[str, Any]:
        members: dict[str, Any] = {"kind": _COLOR_JITTER}
        for name in ("brightness", "contrast", "saturation"):
            members[name] = self._factors(name)
        hue = self.hue
        if isinstance(hue, numbers.Real):
            hue = (-float(hue), float(hue))
        members["hue"] = _range(self, "hue", hue, -0.5, 0.5)
        return members

    def _factors(self, name: str) -> list[float]:
        value = getattr(self, name)
        if isinstance(value, numbers.Real):
            if float(value) < 0:
                raise _fail(self, f"{name} must not be negative, not {value!r}")
            value = (max(0.0, 1 - float(value)), 1 + float(value))
        return _range(self, name, value, 0, 1e6)


@dataclass(frozen=True)
class Grayscale(Transform):
    """BT.601 luma, in one channel or copied to three.

    With one channel nothing but geometry may come before it: the image is then delivered with
    one channel from the start.
    """

    num_output_channels: int = 1

    def describe(self) -> dict[str, Any]:
        if self.num_output_channels not in (1, 3):
            raise _fail(self, f"num_output_channels is 1 or 3, not {self.num_output_channels!r}")
        return {"kind": _GRAYSCALE, "p": 1.0}


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Converts to BT.601 luma in all channels with probability ``p``."""

    p: float = 0.1

    def describe(self) -> dict[str, Any]:
        return {"kind": _GRAYSCALE, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class Identity(Transform):
    """Changes nothing: a choice of :class:`RandomChoice`."""

    def describe(self) -> dict[str, Any]:
        return {"kind": _IDENTITY}


class _Group(Transform):
    """Operations of which a random draw decides what is done. They keep the size of the image."""

    def _inner(self, given: object) -> list[dict[str, Any]]:
        ops = chain(type(self).__name__, given)
        object.__setattr__(self, "transforms", tuple(ops))
        inner = [part for op in ops for part in op.parts()]
        if not 1 <= len(inner) <= _MAX_INNER:
            raise _fail(self, f"1 to {_MAX_INNER} operations, not {len(inner)}")
        for op in ops:
            if isinstance(op, (Resize, CenterCrop, RandomCrop, RandomResizedCrop, Pad, Normalize, RandomErasing, _Group)):
                raise _fail(self, f"{type(op).__name__} cannot be within it: operations here keep the size of the image, "
                            "are no group, and come before Normalize")  # fmt: skip
        return inner


@dataclass(frozen=True)
class RandomApply(_Group):
    """Does all of ``transforms`` with probability ``p``, else none. They keep the size of the image."""

    transforms: Sequence[Transform]
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _RANDOM_APPLY, "p": _probability(self, self.p), "n_inner": len(self._inner(self.transforms))}

    def parts(self) -> list[dict[str, Any]]:
        return [self.describe(), *self._inner(self.transforms)]


@dataclass(frozen=True)
class RandomChoice(_Group):
    """Does one of ``transforms``: operation i with probability ``p[i] / sum(p)``, all alike if ``p`` is None.

    They keep the size of the image. RandAugment is one choice only with ``num_ops=1``.
    """

    transforms: Sequence[Transform]
    p: Sequence[float] | None = None

    def describe(self) -> dict[str, Any]:
        inner = self._inner(self.transforms)
        if len(inner) != len(self.transforms):
            raise _fail(self, "each choice is one operation: give RandAugment num_ops=1")
        weights = [1.0] * len(inner) if self.p is None else [float(value) for value in self.p]
        if self.p is not None:
            object.__setattr__(self, "p", tuple(weights))
        if len(weights) != len(inner) or min(weights) < 0 or not sum(weights) > 0:
            raise _fail(self, f"p is one number of at least 0 for each operation, not all 0; not {self.p!r}")
        return {"kind": _RANDOM_CHOICE, "n_inner": len(inner), "weights": weights}

    def parts(self) -> list[dict[str, Any]]:
        return [self.describe(), *self._inner(self.transforms)]


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Inverts all colours with probability ``p``."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _INVERT, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomPosterize(Transform):
    """Keeps the ``bits`` highest bits of each sample, with probability ``p``."""

    bits: int
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.bits, numbers.Integral) or not 0 <= int(self.bits) <= 16:
            raise _fail(self, f"bits is a whole number from 0 to 16, not {self.bits!r}")
        return {"kind": _POSTERIZE, "bits": int(self.bits), "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomSolarize(Transform):
    """Inverts samples of at least ``threshold`` (0 to 255; of 16 bits: times 257), with probability ``p``."""

    threshold: float
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.threshold, numbers.Real) or not 0 <= float(self.threshold) <= 255:
            raise _fail(self, f"threshold lies within 0 to 255, not {self.threshold!r}")
        return {"kind": _SOLARIZE, "threshold": float(self.threshold), "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomAutocontrast(Transform):
    """Stretches each channel to the full range with probability ``p``."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _AUTOCONTRAST, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomEqualize(Transform):
    """Makes each channel's histogram level, as PIL does, with probability ``p``. 16 bits get 256 levels."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _EQUALIZE, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomAdjustSharpness(Transform):
    """Blurs (factor 0), leaves (1) or sharpens (2) with probability ``p``."""

    sharpness_factor: float
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.sharpness_factor, numbers.Real) or not float(self.sharpness_factor) >= 0:
            raise _fail(self, f"sharpness_factor is 0 or more, not {self.sharpness_factor!r}")
        return {"kind": _SHARPNESS, "factor": float(self.sharpness_factor), "p": _probability(self, self.p)}


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blurs with a filter of ``kernel_size`` taps (odd; one number or (height, width)).

    ``sigma`` is the standard deviation in pixels, or a range from which one is drawn. All channels are blurred.
    """

    kernel_size: Size
    sigma: float | Sequence[float] = (0.1, 2.0)

    def describe(self) -> dict[str, Any]:
        height, width = _pair(self, self.kernel_size, square=True)
        if height % 2 == 0 or width % 2 == 0 or max(height, width) > 255:
            raise _fail(self, f"kernel_size is odd, at most 255, not {self.kernel_size!r}")
        given = (self.sigma, self.sigma) if isinstance(self.sigma, numbers.Real) else self.sigma
        sigma = _range(self, "sigma", given, 0, 1e3)
        if sigma[0] <= 0:
            raise _fail(self, f"sigma is above 0, not {self.sigma!r}")
        return {"kind": _GAUSSIAN_BLUR, "height": height, "width": width, "sigma": sigma}


def _angles(op: object, name: str, value: object, most: float) -> list[float]:
    """Returns a range of angles: of one number x it is -x to x."""
    if isinstance(value, numbers.Real):
        if float(value) < 0:
            raise _fail(op, f"{name} of one number is not negative, not {value!r}")
        value = (-float(value), float(value))
    return _range(op, name, value, -most, most)


def _warp(op: Any) -> dict[str, Any]:
    """Returns the members that all warps have."""
    interpolation = _interpolation(op, op.interpolation)
    if interpolation not in (1, 2):
        raise _fail(op, f"interpolation is nearest or bilinear, not {op.interpolation!r}")
    filled = {"no_blend": True} if op.fill is None else {"fill": _fill(op, op.fill)}
    return {"interpolation": interpolation, **filled}


def _center(op: object, center: object) -> dict[str, Any]:
    if center is None:
        return {}
    if not isinstance(center, Sequence) or len(center) != 2:
        raise _fail(op, f"center is (x, y), not {center!r}")
    return {"has_center": True, "center": [float(value) for value in center]}


@dataclass(frozen=True)
class RandomRotation(Transform):
    """Turns by an angle drawn from ``degrees`` (one number x: -x to x), counter-clockwise. The size stays.

    ``center`` is (x, y) in pixels, by default the middle. ``fill`` is in pixel units; None counts what is outside as 0
    without blending. Masks are filled with ``mask_fill``.
    """

    degrees: float | Sequence[float]
    interpolation: Any = "nearest"
    center: Sequence[float] | None = None
    fill: Fill | None = 0
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        low, high = _angles(self, "degrees", self.degrees, 1e5)
        return {
            "kind": _AFFINE,
            "degrees": [-high, -low],
            "mask_fill": _mask_fill(self, self.mask_fill),
            **_center(self, self.center),
            **_warp(self),
        }


@dataclass(frozen=True)
class RandomAffine(Transform):
    """Turns, shifts, scales and shears by amounts drawn at random, with the rules of torchvision.

    ``degrees``: a range, clockwise; one number x: -x to x. ``translate``: most shift as shares (x, y) of width and height, in
    whole pixels. ``scale``: a range of factors. ``shear``: degrees along x, -x to x, a range, or two ranges (4 numbers).
    """

    degrees: float | Sequence[float]
    translate: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    shear: float | Sequence[float] | None = None
    interpolation: Any = "nearest"
    fill: Fill | None = 0
    center: Sequence[float] | None = None
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        translate = [0.0, 0.0] if self.translate is None else [float(value) for value in self.translate]
        if len(translate) != 2 or not all(0 <= value <= 1 for value in translate):
            raise _fail(self, f"translate is two shares from 0 to 1, not {self.translate!r}")
        return {
            "kind": _AFFINE,
            "degrees": _angles(self, "degrees", self.degrees, 1e5),
            "translate": translate,
            "scale": [1.0, 1.0] if self.scale is None else _range(self, "scale", self.scale, 1e-3, 1e3),
            "shear": self._shears(),
            "mask_fill": _mask_fill(self, self.mask_fill),
            **_center(self, self.center),
            **_warp(self),
        }

    def _shears(self) -> list[float]:
        given = self.shear
        if given is None:
            return [0.0] * 4
        if isinstance(given, Sequence) and len(given) == 4:
            return [*_angles(self, "shear", given[:2], 89), *_angles(self, "shear", given[2:], 89)]
        return [*_angles(self, "shear", given, 89), 0.0, 0.0]


@dataclass(frozen=True)
class RandomPerspective(Transform):
    """Moves the four corners inwards, each by up to ``distortion_scale`` of half the sides, with probability ``p``."""

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Any = "bilinear"
    fill: Fill | None = 0
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.distortion_scale, numbers.Real) or not 0 <= float(self.distortion_scale) <= 1:
            raise _fail(self, f"distortion_scale lies within 0 to 1, not {self.distortion_scale!r}")
        return {
            "kind": _PERSPECTIVE,
            "distortion": float(self.distortion_scale),
            "p": _probability(self, self.p),
            "mask_fill": _mask_fill(self, self.mask_fill),
            **_warp(self),
        }


@dataclass(frozen=True)
class ElasticTransform(Transform):
    """Moves every pixel by smooth noise: strength ``alpha``, smoothness ``sigma`` in pixels (at most 31), for x and y.

    Images and masks; boxes and keypoints cannot follow. Its cost is that of a blur with 8 sigma taps.
    """

    alpha: float | Sequence[float] = 50.0
    sigma: float | Sequence[float] = 5.0
    interpolation: Any = "bilinear"
    fill: Fill | None = 0
    mask_fill: float = 0

    def describe(self) -> dict[str, Any]:
        both = {}
        for name in ("alpha", "sigma"):
            value = getattr(self, name)
            both[name] = [float(value)] * 2 if isinstance(value, numbers.Real) else [float(part) for part in value]
            if len(both[name]) != 2:
                raise _fail(self, f"{name} is a number or (x, y), not {value!r}")
        if not all(0 <= value < 31 for value in both["sigma"]):
            raise _fail(self, f"sigma lies within 0 to 31, not {self.sigma!r}")
        return {"kind": _ELASTIC, **both, "mask_fill": _mask_fill(self, self.mask_fill), **_warp(self)}


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Overwrites a rectangle with probability ``p``; the last operation of a chain, after Normalize where there is one.

    ``scale`` is the range of its share of the area, ``ratio`` that of height / width. ``value`` is a number, one per channel, or
    "random" for normal noise, in units of the numbers that are delivered: 0 after Normalize is the mean.
    """

    p: float = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0

    def describe(self) -> dict[str, Any]:
        if isinstance(self.value, str) and self.value != "random":
            raise _fail(self, f'value is a number, one per channel, or "random", not {self.value!r}')
        value = {"noise": True} if isinstance(self.value, str) else {"fill": _fill(self, self.value)}
        return {
            "kind": _ERASING,
            "p": _probability(self, self.p),
            "scale": _range(self, "scale", self.scale, 0, 1),
            "ratio": _range(self, "ratio", self.ratio, 1e-6, 1e6),
            **value,
        }


def _whole(op: object, name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise _fail(op, f"{name} is a whole number from {low} to {high}, not {value!r}")
    return int(value)


@dataclass(frozen=True)
class RandAugment(Transform):
    """Does ``num_ops`` operations of a list of 14, each drawn at random, at strength ``magnitude`` of ``num_magnitude_bins``.

    Cubuk et al., 2020, with torchvision's ranges. Images alone: masks, boxes and keypoints cannot follow.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill | None = None

    def describe(self) -> dict[str, Any]:
        _whole(self, "num_ops", self.num_ops, 1, 10)
        bins = _whole(self, "num_magnitude_bins", self.num_magnitude_bins, 2, 1000)
        return {
            "kind": _RAND_AUGMENT,
            "magnitude": _whole(self, "magnitude", self.magnitude, 0, bins - 1),
            "n_magnitudes": bins,
            **_warp(self),
        }

    def parts(self) -> list[dict[str, Any]]:
        return [self.describe()] * int(self.num_ops)


@dataclass(frozen=True)
class TrivialAugmentWide(Transform):
    """Does one operation of a list of 14 at a random strength (Mueller and Hutter, 2021). Images alone."""

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill | None = None

    def describe(self) -> dict[str, Any]:
        bins = _whole(self, "num_magnitude_bins", self.num_magnitude_bins, 2, 1000)
        return {"kind": _TRIVIAL_AUGMENT, "magnitude": 0, "n_magnitudes": bins, **_warp(self)}


@dataclass(frozen=True)
class AutoAugment(Transform):
    """Does one of 25 published pairs of operations (Cubuk et al., 2019). ``policy``: imagenet, cifar10 or svhn. Images alone."""

    policy: Any = "imagenet"
    interpolation: Any = "nearest"
    fill: Fill | None = None

    def describe(self) -> dict[str, Any]:
        policy = getattr(self.policy, "value", self.policy)
        if not isinstance(policy, str) or policy.lower() not in _POLICIES:
            raise _fail(self, f"policy is one of {', '.join(_POLICIES)}, not {self.policy!r}")
        return {"kind": _AUTO_AUGMENT, "policy": _POLICIES[policy.lower()], **_warp(self)}


@dataclass(frozen=True)
class AugMix(Transform):
    """Mixes the image with ``mixture_width`` versions of itself, each after a chain of operations (Hendrycks et al., 2020).

    ``severity`` is 1 to 10. ``chain_depth`` is the length of a chain; -1 draws 1 to 3. ``alpha`` is the parameter of both
    distributions of shares. ``all_ops`` also changes colours. Images alone.
    """

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: Any = "bilinear"
    fill: Fill | None = None

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.alpha, numbers.Real) or not 0 < float(self.alpha) <= 1e6:
            raise _fail(self, f"alpha is above 0, not {self.alpha!r}")
        depth = _whole(self, "chain_depth", self.chain_depth, -1, 8)
        return {
            "kind": _AUGMIX,
            "magnitude": _whole(self, "severity", self.severity, 1, 10),
            "mixture_width": _whole(self, "mixture_width", self.mixture_width, 1, 8),
            "chain_depth": max(depth, 0),
            "alpha": [float(self.alpha)] * 2,
            "all_ops": bool(self.all_ops),
            **_warp(self),
        }


@dataclass(frozen=True)
class Normalize(Transform):
    """Computes (v - mean) / std per channel, with pixels scaled to 0..1. The result is floats; it must come last.

    Images are scaled by their own depth: 8 bits as v / 255, 16 bits as v / 65535 (see ``bits`` of the
    loader). So ``mean`` lies within 0..1, and ``std`` is above 0, to 10. One number is for all channels,
    more are for exactly so many.
    """

    mean: Fill
    std: Fill

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real):  # lists, arrays, tensors
                object.__setattr__(self, name, tuple(float(part) for part in value))
        super().__post_init__()

    def describe(self) -> dict[str, Any]:
        mean, std = _per_channel(self, "mean", self.mean), _per_channel(self, "std", self.std)
        n = max(len(mean), len(std))
        if not {len(mean), len(std)} <= {1, n}:
            raise _fail(self, "mean and std must have the same number of channels")
        scaled = "pixels are scaled to 0..1: divide numbers for 0..255 by 255"
        if not all(0 <= value <= 1 for value in mean):
            raise _fail(self, f"mean must be within 0..1, not {self.mean!r}; {scaled}")
        if not all(0 < value <= 10 for value in std):
            raise _fail(self, f"std must be above 0, to 10, not {self.std!r}; {scaled}")
        every = 4 if n == 1 else n
        return {
            "kind": _NORMALIZE,
            "mean": mean if len(mean) > 1 else mean * every,
            "std": std if len(std) > 1 else std * every,
            "n_channels": 0 if n == 1 else n,
        }


def chain(field: str | None, transforms: object) -> list[Transform]:
    """Checks `transforms` of one field, or of a sample (None), and returns them as a list."""
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


def geometric(ops: Sequence[Transform]) -> list[Transform]:
    """Returns the operations of `ops` that move pixels."""
    return [op for op in ops if any(part["kind"] in _GEOMETRIC for part in op.parts())]


def described(ops: Sequence[Transform]) -> list[dict[str, Any]]:
    """Returns a chain for the C library."""
    return [part for op in ops for part in op.parts()]


def output_channels(field: str, ops: list[Transform]) -> int:
    """Returns 1 if the chain makes one channel, else 0 (no wish)."""
    for i, op in enumerate(ops):
        if isinstance(op, Grayscale) and op.num_output_channels == 1:
            for before in ops[:i]:
                if before.describe()["kind"] in _GEOMETRIC or isinstance(before, (Grayscale, RandomGrayscale)):
                    continue
                raise ArgumentError(
                    f"transforms[{field!r}]: {type(before).__name__} before Grayscale(1) is not possible; use "
                    f"Grayscale(3), or put {type(before).__name__} after it"
                )
            return 1
    return 0


def _plain(value: object) -> object:
    """Returns an argument as JSON has it: torchvision's InterpolationMode by its name, numbers of numpy as Python's."""
    if isinstance(value, Transform):
        return _to_plain(value)
    value = getattr(value, "value", value)
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, Sequence):
        return [_plain(part) for part in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value)  # type: ignore[arg-type]


def _to_plain(op: Transform) -> dict[str, object]:
    """Returns the operation as an object of JSON: its name, and the arguments that differ from their defaults."""
    plain: dict[str, object] = {"op": type(op).__name__}
    for field in fields(op):  # type: ignore[arg-type]
        value = getattr(op, field.name)
        if field.default is MISSING or value != field.default:
            plain[field.name] = _plain(value)
    return plain


def to_json(transforms: Transform | Sequence[Transform] | Mapping[str, Sequence[Transform]]) -> str:
    """Returns operations as JSON, for a file that ``penstock view --transforms`` and :func:`from_json` read.

    A list of operations becomes a list of objects such as ``{"op": "RandomCrop", "size": 224}``: the class and
    those arguments that differ from their defaults. A dict of lists by field becomes an object of lists.
    """
    if isinstance(transforms, Mapping):
        plain: object = {name: [_to_plain(op) for op in chain(name, ops)] for name, ops in transforms.items()}
    else:
        plain = [_to_plain(op) for op in chain(None, transforms)]
    return json.dumps(plain, indent=2)


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def _from_plain(plain: object) -> Transform:
    if not isinstance(plain, dict) or not isinstance(plain.get("op"), str):
        raise ArgumentError(f'an operation is an object like {{"op": "CenterCrop", "size": 224}}, not {plain!r}')
    known = [name for name in __all__ if name[0].isupper() and name != "Transform"]
    name = plain["op"]
    if name not in known:
        raise ArgumentError(f"no operation {name!r}{_near(name, known)}")
    operation: type[Transform] = globals()[name]
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items() if key != "op"}
    if name in ("RandomApply", "RandomChoice") and "transforms" in plain:
        arguments["transforms"] = tuple(_chain_from_plain(plain["transforms"]))
    parameters = {field.name: field for field in fields(operation)}  # type: ignore[arg-type]
    for key in arguments:
        if key not in parameters:
            raise ArgumentError(f"{name}: no argument {key!r}{_near(key, list(parameters))}")
    for key, field in parameters.items():
        if field.default is MISSING and key not in arguments:
            raise ArgumentError(f"{name}: the argument {key!r} is missing")
    return operation(**arguments)


def _chain_from_plain(plain: object) -> list[Transform]:
    if not isinstance(plain, list):
        raise ArgumentError(f"a list of operations is expected, not {plain!r}")
    return [_from_plain(op) for op in plain]


def from_json(text: str | bytes) -> list[Transform] | dict[str, list[Transform]]:
    """Returns the operations that :func:`to_json` wrote: a list for the sample, or a dict of lists by field.

    Lists of numbers become tuples. ArgumentError says what is not JSON, and which operation or argument there is not.
    """
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"the operations are not JSON: {error}") from None
    if isinstance(plain, dict) and "op" not in plain:
        return {name: _chain_from_plain(ops) for name, ops in plain.items()}
    return _chain_from_plain(plain)
