"""Operations on the pixels of a sample, with torchvision's names and arguments, and on its sound, with torchaudio's.

Operations are only descriptions. The C library runs them, fused, and writes straight into the batch. A list of operations applies
to a whole sample. The geometric operations move its images, masks, boxes and keypoints together: Resize, CenterCrop, RandomCrop,
RandomResizedCrop, Pad, the flips, RandomRotation, RandomAffine, RandomPerspective, ElasticTransform (only images and masks),
RandomIoUCrop, RandomZoomOut, Letterbox, ScaleJitter, RandomShortestSize, RandomResize and RandomScaleCrop. MapLabels is for masks,
SanitizeBoxes for boxes, and the others only for images. Masks are interpolated by "nearest" whatever ``interpolation`` is, except
with "nearest-exact". Their padding gets ``mask_fill``.

Random parameters depend only on (seed, epoch, sample, draw, view, operation): see ``include/penstock/augment.h``. Geometric
operations have their own numbering, so a colour operation put between them does not change the geometry.

Operations on sound (:class:`Mono` to :class:`MFCC`) are for audio fields. Each audio field has its own chain, and clips have their
own numbering, too.

Sizes are pixels, (height, width). A chain may contain ``Normalize`` once, at its end; only ``RandomErasing`` may follow.
"""

from __future__ import annotations

# Names that the type hints of operations use. They are looked up in this module, too.
from collections.abc import Mapping, Sequence  # noqa: F401
from typing import TYPE_CHECKING, Any, ClassVar  # noqa: F401

from .base import AudioTransform, Fill, Jitter, Labels, Padding, Range, Size, Transform  # noqa: F401
from .pixels import (
    CenterCrop,
    ColorJitter,
    Grayscale,
    Normalize,
    Pad,
    RandomCrop,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from .plain import from_json, to_json

if TYPE_CHECKING:
    from .detection import (
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
    from .policies import (
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
    from .sound import (
        MFCC,
        AddNoise,
        AmplitudeToDB,
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

# The modules of less frequent operations. Each is loaded when one of its operations is first used.
_HOMES = {
    **dict.fromkeys(
        ("Letterbox", "MapLabels", "RandomIoUCrop", "RandomResize", "RandomScaleCrop", "RandomShortestSize", "RandomZoomOut",
         "SanitizeBoxes", "ScaleJitter"),
        "detection",
    ),
    **dict.fromkeys(
        ("AugMix", "AutoAugment", "CutMix", "ElasticTransform", "GaussianBlur", "Identity", "Mix", "MixUp", "Mosaic",
         "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice",
         "RandomEqualize", "RandomErasing", "RandomInvert", "RandomPerspective", "RandomPosterize", "RandomRotation",
         "RandomSolarize", "TrivialAugmentWide"),
        "policies",
    ),
    **dict.fromkeys(
        ("MFCC", "AddNoise", "AmplitudeToDB", "CenterClip", "FrequencyMask", "Gain", "LogMel", "MelSpectrogram", "Mono",
         "PadTo", "RandomClip", "Resample", "Spectrogram", "TimeMask"),
        "sound",
    ),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{home}", __name__)
    globals().update({each: getattr(module, each) for each in module.__all__})  # type hints use these names, too
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
