"""Operations of training recipes: tone curves, blur, warps, erasing, random groups, and published policies.

They are imported from :mod:`penstock.transforms`, whose description applies to them.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.public import public
from ..errors import ArgumentError
from .base import (
    Fill,
    Size,
    Transform,
    _fail,
    _fill,
    _interpolation,
    _mask_fill,
    _pair,
    _probability,
    _range,
    _whole,
    chain,
)

__all__ = [
    "AugMix",
    "AutoAugment",
    "CutMix",
    "ElasticTransform",
    "GaussianBlur",
    "Identity",
    "Mix",
    "MixUp",
    "Mosaic",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomEqualize",
    "RandomErasing",
    "RandomInvert",
    "RandomPerspective",
    "RandomPosterize",
    "RandomRotation",
    "RandomSolarize",
    "TrivialAugmentWide",
]

# Numbers of operations in include/penstock/augment.h, which never change.
_IDENTITY, _RANDOM_APPLY, _RANDOM_CHOICE, _INVERT, _POSTERIZE, _SOLARIZE, _AUTOCONTRAST, _EQUALIZE = range(20, 28)
_SHARPNESS, _GAUSSIAN_BLUR, _AFFINE, _PERSPECTIVE, _ELASTIC, _ERASING = range(28, 34)
_RAND_AUGMENT, _TRIVIAL_AUGMENT, _AUTO_AUGMENT, _AUGMIX = range(34, 38)
_POLICIES = {"imagenet": 0, "cifar10": 1, "svhn": 2}
_MAX_INNER = 14
# Operations that cannot be in a group: they change the size, end a chain, or are only for annotations.
_NOT_INNER = frozenset((1, 2, 3, 4, 7, *range(10, 19)))


@dataclass(frozen=True)
class Identity(Transform):
    """Changes nothing. It is useful as a choice of :class:`RandomChoice`."""

    def describe(self) -> dict[str, Any]:
        return {"kind": _IDENTITY}


class _Group(Transform):
    """Base of operations that contain other operations and choose among them at random. These must keep the size of the image."""

    transforms: Sequence[Transform]

    @property
    def is_random(self) -> bool:
        return super().is_random or any(op.is_random for op in self.transforms)

    def _inner(self, given: object) -> list[dict[str, Any]]:
        ops = chain(type(self).__name__, given)
        object.__setattr__(self, "transforms", tuple(ops))
        inner = [part for op in ops for part in op.parts()]
        if not 1 <= len(inner) <= _MAX_INNER:
            raise _fail(self, f"1 to {_MAX_INNER} operations, not {len(inner)}")
        for op in ops:
            if isinstance(op, (RandomErasing, _Group)) or op.describe()["kind"] in _NOT_INNER:
                raise _fail(self, f"{type(op).__name__} cannot be within it: operations here keep the size of the image, "
                            "are no group, and come before Normalize")  # fmt: skip
        return inner


@dataclass(frozen=True)
class RandomApply(_Group):
    """With probability ``p``, applies all of ``transforms``, else none. They must keep the size of the image."""

    transforms: Sequence[Transform]
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _RANDOM_APPLY, "p": _probability(self, self.p), "n_inner": len(self._inner(self.transforms))}

    def parts(self) -> list[dict[str, Any]]:
        return [self.describe(), *self._inner(self.transforms)]


@dataclass(frozen=True)
class RandomChoice(_Group):
    """Applies one of ``transforms``: operation i with probability ``p[i] / sum(p)``, or all with equal probability if ``p`` is
    None.

    They must keep the size of the image. RandAugment can be a choice only with ``num_ops=1``.
    """

    _draws = True

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
    """Keeps only the ``bits`` highest bits of each channel value, with probability ``p``."""

    bits: int
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.bits, numbers.Integral) or not 0 <= int(self.bits) <= 16:
            raise _fail(self, f"bits is a whole number from 0 to 16, not {self.bits!r}")
        return {"kind": _POSTERIZE, "bits": int(self.bits), "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomSolarize(Transform):
    """Inverts channel values of at least ``threshold`` (0 to 255; for 16 bits multiplied by 257), with probability ``p``."""

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
    """Equalizes each channel's histogram, as PIL does, with probability ``p``. Images of 16 bits use 256 levels."""

    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        return {"kind": _EQUALIZE, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class RandomAdjustSharpness(Transform):
    """Changes the sharpness with probability ``p``: factor 0 blurs, 1 changes nothing, 2 sharpens."""

    sharpness_factor: float
    p: float = 0.5

    def describe(self) -> dict[str, Any]:
        if not isinstance(self.sharpness_factor, numbers.Real) or not float(self.sharpness_factor) >= 0:
            raise _fail(self, f"sharpness_factor is 0 or more, not {self.sharpness_factor!r}")
        return {"kind": _SHARPNESS, "factor": float(self.sharpness_factor), "p": _probability(self, self.p)}


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """Blurs with a Gaussian filter of ``kernel_size`` taps (odd; one number or (height, width)).

    ``sigma`` is the standard deviation in pixels, or a range to draw it from. All channels are blurred.
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
    """Returns a range of angles. One number x means -x to x."""
    if isinstance(value, numbers.Real):
        if float(value) < 0:
            raise _fail(op, f"{name} of one number is not negative, not {value!r}")
        value = (-float(value), float(value))
    return _range(op, name, value, -most, most)


def _warp(op: Any) -> dict[str, Any]:
    """Returns the members of struct pst_op that all warps have."""
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
    """Rotates counter-clockwise by a random angle of ``degrees`` (one number x: -x to x). The size stays.

    ``center`` is (x, y) in pixels, by default the middle. ``fill`` is in pixel units. None: the area outside is 0 and is not
    blended with the edge. Masks are filled with ``mask_fill``.
    """

    _draws = True

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
    """Rotates, shifts, scales and shears by random amounts, with the rules of torchvision.

    ``degrees``: a range, clockwise; one number x: -x to x. ``translate``: largest shift as fractions (x, y) of width and height, in
    whole pixels. ``scale``: a range of factors. ``shear``: degrees along x: one number (-x to x), a range, or two ranges (4
    numbers).
    """

    _draws = True

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
    """With probability ``p``, moves each of the four corners inwards by up to ``distortion_scale`` of half the sides."""

    _draws = True

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
    """Moves every pixel by smooth noise, with strength ``alpha`` and smoothness ``sigma`` in pixels (at most 31), for x and y.

    A pixel moves by ``alpha / 2`` pixels times noise within -1 to 1 that was blurred with ``sigma``. For images and masks; boxes
    and keypoints cannot follow. It costs as much as a blur with 8 sigma taps.
    """

    _draws = True

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
    """Overwrites a rectangle with probability ``p``. It must be the last operation of a chain, after Normalize if there is one.

    ``scale`` is the range of the rectangle's fraction of the area, ``ratio`` the range of height / width. ``value`` is a number,
    one per channel, or "random" for normal noise. It is in units of the delivered numbers: 0 after Normalize is the mean.
    """

    _draws = True

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


@dataclass(frozen=True)
class RandAugment(Transform):
    """Applies ``num_ops`` random operations of a list of 14, at strength ``magnitude`` of ``num_magnitude_bins``.

    Cubuk et al., 2020, with torchvision's ranges. Only for images: masks, boxes and keypoints cannot follow.
    """

    _draws = True

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
    """Applies one operation of a list of 14 at a random strength (Mueller and Hutter, 2021). Only for images."""

    _draws = True

    num_magnitude_bins: int = 31
    interpolation: Any = "nearest"
    fill: Fill | None = None

    def describe(self) -> dict[str, Any]:
        bins = _whole(self, "num_magnitude_bins", self.num_magnitude_bins, 2, 1000)
        return {"kind": _TRIVIAL_AUGMENT, "magnitude": 0, "n_magnitudes": bins, **_warp(self)}


@dataclass(frozen=True)
class AutoAugment(Transform):
    """Applies one of 25 published pairs of operations (Cubuk et al., 2019). ``policy``: imagenet, cifar10 or svhn. Only for
    images."""

    _draws = True

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
    """Mixes the image with ``mixture_width`` copies of it, each changed by a chain of operations (Hendrycks et al., 2020).

    ``severity`` is 1 to 10. ``chain_depth`` is the length of a chain; -1 draws 1 to 3. ``alpha`` is the parameter of both
    distributions from which the weights are drawn. ``all_ops`` also allows operations that change colours. Only for images.
    """

    _draws = True

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
class Mix:
    """Base of :class:`MixUp` and :class:`CutMix`, which mix the images of a batch and their labels (``Loader(mix=...)``).

    ``alpha``: both parameters of the beta distribution from which the weight lambda is drawn for each batch. ``num_classes``:
    number of classes of the labels; None: the number that the data set states.
    """

    alpha: float = 1.0
    num_classes: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, numbers.Real) or not 0 < float(self.alpha) <= 1e6:
            raise _fail(self, f"alpha is above 0, not {self.alpha!r}")
        if self.num_classes is not None:
            _whole(self, "num_classes", self.num_classes, 1, 1 << 24)


class MixUp(Mix):
    """Computes lambda * image + (1 - lambda) * partner (Zhang et al., 2018). The partner of row i is row i - 1; of row 0, the last
    row."""


class CutMix(Mix):
    """Replaces a rectangle of 1 - lambda of the area by the partner's (Yun et al., 2019). Partners are those of :class:`MixUp`."""


@dataclass(frozen=True)
class Mosaic(Mix):
    """Joins four images of the batch at a point, with their boxes, keypoints and masks (Bochkovskiy et al., YOLOv4, 2020).

    The four images lie on a canvas of twice the batch's size, with a corner of each at the point: the row's own image top left, and
    three random rows' images right, below and diagonally. The result is the middle of the canvas. Boxes are clipped to their
    quarter and dropped by the loader's ``min_area`` and ``min_visibility``, with the rows of ``per_box``. ``p``: the fraction of
    rows that become mosaics. ``centre``: the range of the point, as a fraction of the canvas. To vary sizes, use earlier operations
    such as ``RandomResizedCrop``. A Mosaic must be the only element of ``mix``. It leaves labels of images unchanged.

    ``transforms``: operations after the mosaic, such as ``[RandomAffine(10, (0.1, 0.1), (0.5, 1.5)), RandomHorizontalFlip()]``.
    They move the finished picture with its masks, boxes and keypoints, also in rows that become no mosaic. They must keep the size,
    so a crop or resize must have the size of the batch. They work on images that are delivered as uint8 or uint16, and cannot
    contain ``Normalize`` or ``RandomIoUCrop``.
    """

    alpha: float = field(default=1.0, init=False, repr=False)
    num_classes: int | None = field(default=None, init=False, repr=False)
    p: float = 1.0
    centre: tuple[float, float] = (0.25, 0.75)
    transforms: Sequence[Transform] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "transforms", tuple(chain("Mosaic", self.transforms)))
        if any("audio" in part for op in self.transforms for part in op.parts()):
            raise _fail(self, "transforms are operations on pictures, and one is on sound")
        if not isinstance(self.p, numbers.Real) or not 0 < float(self.p) <= 1:
            raise _fail(self, f"p is above 0, at most 1, not {self.p!r}")
        is_pair = isinstance(self.centre, Sequence) and len(self.centre) == 2
        if not is_pair or not all(isinstance(part, numbers.Real) for part in self.centre):
            raise _fail(self, f"centre is (lower, upper), two numbers, not {self.centre!r}")
        if not 0 <= self.centre[0] <= self.centre[1] <= 1 or self.centre[1] == 0:
            raise _fail(self, f"centre is (lower, upper) within 0 to 1, not {self.centre!r}")


def mixes(given: object) -> list[tuple[Any, ...]]:
    """Checks ``Loader(mix=...)``, one or several ways of mixing, and returns tuples (number, alpha, ...) for the C library."""
    ways = [given] if isinstance(given, Mix) else given
    if not isinstance(ways, Sequence) or not 1 <= len(ways) <= 4 or not all(type(way) in (MixUp, CutMix, Mosaic) for way in ways):
        raise ArgumentError(f"mix is MixUp, CutMix, or a list of 1 to 4 of them, or Mosaic, not {given!r}")
    if any(isinstance(way, Mosaic) for way in ways):
        if len(ways) > 1:
            raise ArgumentError(f"mix is one Mosaic, or other ways, not {given!r}")
        behind = [part for op in ways[0].transforms for part in op.parts()]
        return [(3, 1.0, float(ways[0].p), float(ways[0].centre[0]), float(ways[0].centre[1]), behind)]
    if len({way.num_classes for way in ways}) > 1:
        raise ArgumentError(f"all of mix have the same num_classes, not {given!r}")
    return [(1 if isinstance(way, MixUp) else 2, float(way.alpha)) for way in ways]


public(__name__, "penstock.transforms")
