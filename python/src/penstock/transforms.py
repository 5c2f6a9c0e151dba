"""Operations on the pixels of a sample, with torchvision's names and arguments, and on its sound, with torchaudio's.

Operations only describe. The C library runs them, fused, straight into the batch. A list of operations is for a sample:
Resize, CenterCrop, RandomCrop, RandomResizedCrop, Pad, the flips, RandomRotation, RandomAffine, RandomPerspective,
ElasticTransform, and RandomIoUCrop, RandomZoomOut, Letterbox, ScaleJitter, RandomShortestSize, RandomResize and RandomScaleCrop are
geometric and move its images, masks, boxes and keypoints together (ElasticTransform: images and masks); MapLabels is for masks,
SanitizeBoxes for boxes, the others are for images only. Masks are interpolated by "nearest" whatever ``interpolation`` is,
except "nearest-exact". Their padding gets ``mask_fill``.

Random parameters are a function of (seed, epoch, sample, draw, view, operation): see
``include/penstock/augment.h``. Geometric operations are numbered among themselves, so a colour
operation put between them changes no geometry.

Operations on sound (:class:`Mono` to :class:`MFCC`) are for audio fields, each of which has a chain of its own; clips are
numbered among themselves, too.

Sizes are pixels, (height, width). A chain may hold ``Normalize`` once, at its end; only ``RandomErasing`` may follow.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from . import _options
from ._detection import (
    _DETECTION_MOVING,
    _FOR_ANNOTATIONS,
    Letterbox,
    MapLabels,
    RandomIoUCrop,
    RandomResize,
    RandomScaleCrop,
    RandomShortestSize,
    RandomZoomOut,
    SanitizeBoxes,
    ScaleJitter,
)
from ._policies import (
    _MOVING,
    AugMix,
    AutoAugment,
    CutMix,
    ElasticTransform,
    GaussianBlur,
    Identity,
    Mix,
    MixUp,
    Mosaic,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomEqualize,
    RandomErasing,
    RandomInvert,
    RandomPerspective,
    RandomPosterize,
    RandomRotation,
    RandomSolarize,
    TrivialAugmentWide,
)
from ._sound import (
    MFCC,
    AddNoise,
    AmplitudeToDB,
    AudioTransform,
    CenterClip,
    FrequencyMask,
    Gain,
    LogMel,
    MelSpectrogram,
    Mono,
    PadTo,
    RandomClip,
    Resample,
    Spectrogram,
    TimeMask,
)
from ._transform import (
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
    chain,
)
from .errors import ArgumentError

__all__ = [
    "AddNoise",
    "AmplitudeToDB",
    "AudioTransform",
    "AugMix",
    "AutoAugment",
    "CenterClip",
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "ElasticTransform",
    "FrequencyMask",
    "Gain",
    "GaussianBlur",
    "Grayscale",
    "Identity",
    "Letterbox",
    "LogMel",
    "MFCC",
    "MapLabels",
    "MelSpectrogram",
    "Mix",
    "MixUp",
    "Mosaic",
    "Mono",
    "Normalize",
    "Pad",
    "PadTo",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomClip",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomScaleCrop",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resample",
    "Resize",
    "SanitizeBoxes",
    "ScaleJitter",
    "Spectrogram",
    "TimeMask",
    "Transform",
    "TrivialAugmentWide",
    "from_json",
    "to_json",
]

_NO_OPERATIONS = ("Transform", "AudioTransform", "Mix", "MixUp", "CutMix", "Mosaic")

# Numbers of include/penstock/augment.h, which pins them.
_RESIZE, _CENTER_CROP, _RANDOM_CROP, _RANDOM_RESIZED_CROP = 1, 2, 3, 4
_HORIZONTAL_FLIP, _VERTICAL_FLIP, _PAD, _COLOR_JITTER, _GRAYSCALE, _NORMALIZE = 5, 6, 7, 8, 9, 10
MIRRORS = (_HORIZONTAL_FLIP, _VERTICAL_FLIP)  # kinds of operations that change left and right
_GEOMETRIC = _MOVING.union(range(_RESIZE, _PAD + 1), _DETECTION_MOVING)


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
            **_filter(self),
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
    """Crops a random part (share of the area in ``scale``, width/height in ``ratio``), resized."""

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


def geometric(ops: Sequence[Transform]) -> list[Transform]:
    """Returns the operations of `ops` for masks that follow no image: those that move pixels, map classes, or drop boxes."""
    wanted = _GEOMETRIC | _FOR_ANNOTATIONS
    return [op for op in ops if not isinstance(op, AudioTransform) and any(part["kind"] in wanted for part in op.parts())]


def described(ops: Sequence[Transform]) -> list[dict[str, Any]]:
    """Returns a chain for the C library."""
    return [part for op in ops for part in op.parts()]


def output_channels(field: str, ops: list[Transform]) -> int:
    """Returns 1 if the chain makes one channel, else 0 (no wish)."""
    for i, op in enumerate(ops):
        if isinstance(op, Grayscale) and op.num_output_channels == 1:
            for before in ops[:i]:
                if before.describe()["kind"] in _GEOMETRIC | _FOR_ANNOTATIONS or isinstance(before, (Grayscale, RandomGrayscale)):
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
    if isinstance(value, Transform):
        return _to_plain(value)
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


def _argument(value: object) -> object:
    """An argument from JSON: a list as tuple, an object as the operation that it is."""
    return tuple(value) if isinstance(value, list) else _from_plain(value) if isinstance(value, dict) else value


def _from_plain(plain: object) -> Transform:
    if not isinstance(plain, dict) or not isinstance(plain.get("op"), str):
        raise ArgumentError(f'an operation is an object like {{"op": "CenterCrop", "size": 224}}, not {plain!r}')
    known = [name for name in __all__ if name[0].isupper() and name not in _NO_OPERATIONS]
    name = plain["op"]
    if name not in known:
        raise ArgumentError(f"no operation {name!r}{_options.nearest(name, known)}")
    operation: type[Transform] = globals()[name]
    arguments = {key: _argument(value) for key, value in plain.items() if key != "op"}
    if name in ("RandomApply", "RandomChoice") and "transforms" in plain:
        arguments["transforms"] = tuple(_chain_from_plain(plain["transforms"]))
    parameters = {field.name: field for field in fields(operation)}  # type: ignore[arg-type]
    for key in arguments:
        if key not in parameters:
            raise ArgumentError(f"{name}: no argument {key!r}{_options.nearest(key, list(parameters))}")
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

    Lists of numbers become tuples. ArgumentError says what is not JSON, and which operation or argument there is not.
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
