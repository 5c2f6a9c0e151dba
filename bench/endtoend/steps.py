"""Rates of training steps on accelerators that never wait, with their sources, and the loaders' shares that papers reported.

A rate is samples/s at 224 x 224 pixels. The time of a step is scaled with the number of pixels of a picture; this is derived, not
measured. Sources: rates.py of bench/stalls. A rate without a source is only a point of a sweep, and belongs to no network.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "stalls"))
from rates import RATES, TIMM, Rate  # noqa: E402

SIDE = 224


def _sourced(model: str, accelerator: str) -> Rate:
    return next(rate for rate in RATES if (rate.model, rate.accelerator) == (model, accelerator))


# Networks from light to heavy.
NETWORKS = (
    Rate("MobileNetV3-small", "RTX 3090", 8035.08, TIMM),
    *(_sourced(*each) for each in (("ResNet-18", "RTX 3090"), ("ResNet-50", "A100"), ("MobileNetV2", "RTX 3090"),
                                   ("ResNet-50", "H100"), ("ResNet-50", "V100"), ("VGG-11", "RTX 3090"))),
)
SOUND = tuple(Rate("M5", "no source", rate, "") for rate in (3200.0, 1600.0, 400.0, 100.0))


@dataclass(frozen=True)
class Claim:
    paper: str
    sets: tuple[str, ...]
    times: float
    what: str
    machine: str


CLAIMS = (
    Claim("L3 (ECCV 2022)", ("frames",), 1.71, "end to end, Cityscapes, beside DALI's CPU decoding of PNG", "A100"),
    Claim("Liquid (APSys 2023)", ("frames",), 2.02, "up to; geometric mean over networks, Cityscapes and CityPersons, beside PNG",
          "three environments of cores and storage"),
    Claim("L3 (ECCV 2022)", ("imagenet",), 1.77, "up to; ImageNet, beside JPEG", "A100"),
    Claim("Liquid (APSys 2023)", ("imagenet",), 1.25, "up to; geometric mean over networks, ImageNet, beside JPEG",
          "three environments of cores and storage"),
    Claim("L3 (ECCV 2022)", ("webp",), 2.87, "up to; ImageNet, beside lossy WebP of the same quality", "A100"),
    Claim("CoorDL (VLDB 2021)", ("imagenet", "boxes", "audio"), 5.0, "up to; on one server, beside DALI: much of it by sharing "
          "among 8 jobs, which `make bench-share` measures", "8 V100 or 8 GTX 1080 Ti, 24 cores"),
)
