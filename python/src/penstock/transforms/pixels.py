"""Operations that crop, resize, flip, pad and colour images, and Normalize, which comes last."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.public import public
from .base import (
    Fill,
    Jitter,
    Padding,
    Size,
    Transform,
    _fail,
    _fill,
    _filter,
    _mask_fill,
    _pad_mode,
    _padding,
    _pair,
    _per_channel,
    _probability,
    _range,
)

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Grayscale",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
]

# Numbers of operations in include/penstock/augment.h, which never change.
_RESIZE, _CENTER_CROP, _RANDOM_CROP, _RANDOM_RESIZED_CROP = 1, 2, 3, 4
_HORIZONTAL_FLIP, _VERTICAL_FLIP, _PAD, _COLOR_JITTER, _GRAYSCALE, _NORMALIZE = 5, 6, 7, 8, 9, 10
MIRRORS = (_HORIZONTAL_FLIP, _VERTICAL_FLIP)  # kinds of operations that swap left and right


@dataclass(frozen=True)
class Resize(Transform):
    """Resizes to ``size``: (height, width), or one number for the shorter side.

    ``antialias=False`` keeps the filter narrow when shrinking. Interpolation: "bilinear", "bicubic", "nearest", "nearest-exact", or
    torchvision's InterpolationMode, with the same meanings as in torchvision.
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
            **_filter(self),
        }


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Crops ``size`` from the middle. A smaller image is first padded with zeros, a mask with ``mask_fill``."""

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

    A smaller image is an error unless ``pad_if_needed``. ``fill`` is in pixel units (0..255, or 0..65535 for 16-bit images).
    ``mask_fill`` is a class, for masks that follow the image.
    """

    _draws = True

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
    """Crops a random part (its fraction of the area in ``scale``, width / height in ``ratio``) and resizes it to ``size``."""

    _draws = True

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
            **_filter(self),
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

    In masks that follow their image, the border gets ``mask_fill``, a class (255 is often the one to ignore).
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

    A number x means a factor from 1-x to 1+x (for hue: a shift in turns from -x to x, at most 0.5). A pair (low, high) is the range
    itself.
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
    """Converts to gray: BT.601 luma, rounded as PIL does, in one channel or copied to three.

    torchvision rounds PIL's images in the same way, but truncates tensors. With one channel, only geometric operations may come
    before it: the image is then delivered with one channel from the start.
    """

    num_output_channels: int = 1

    def describe(self) -> dict[str, Any]:
        if self.num_output_channels not in (1, 3):
            raise _fail(self, f"num_output_channels is 1 or 3, not {self.num_output_channels!r}")
        return {"kind": _GRAYSCALE, "p": 1.0}


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Converts to BT.601 luma in all channels with probability ``p``, rounded as :class:`Grayscale` does."""

    p: float = 0.1

    def describe(self) -> dict[str, Any]:
        return {"kind": _GRAYSCALE, "p": _probability(self, self.p)}


@dataclass(frozen=True)
class Normalize(Transform):
    """Computes (v - mean) / std per channel, with pixels scaled to 0..1. The result is floats. It must come last.

    Images are scaled by their own bits: 8 bits as v / 255, 16 bits as v / 65535 (see ``Decoding.bits``). So ``mean`` lies within
    0..1, and ``std`` is above 0, at most 10. One number applies to all channels; several apply to exactly that many channels.
    """

    mean: Fill
    std: Fill

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real):  # lists, arrays and tensors
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


public(__name__, "penstock.transforms")
