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

# Names in hints of the operations, which are looked up here, too.
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

# The modules of those that many chains do not have: each is loaded when one of its operations is first used.
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
    globals().update({each: getattr(module, each) for each in module.__all__})  # hints name them, too
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
