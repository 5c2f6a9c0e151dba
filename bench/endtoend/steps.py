"""Steps of training on accelerators that never wait, as rates with their sources, and what the papers reported.

A rate is samples/s at 224 x 224 pixels. On larger pictures a step takes as much longer as they have more pixels, which is derived,
not measured. A rate without a source is a sweep: no statement on a network.
"""

from __future__ import annotations

from dataclasses import dataclass

_TIMM = "huggingface/pytorch-image-models results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv, batch 512, 224 pixels"
_RESNET = ("NVIDIA/DeepLearningExamples PyTorch/Classification/ConvNets/resnet50v1.5/README.md, one GPU, mixed precision, "
           "container 21.03")
_MLPERF = "MLPerf Storage v1.0, workload resnet50: 400 images a step of 0.224 s"
SIDE = 224


@dataclass(frozen=True)
class Step:
    network: str
    accelerator: str
    samples_per_s: float
    source: str  # "": a sweep

    @property
    def title(self) -> str:
        return f"{self.network}, {self.accelerator}" if self.source else f"{self.samples_per_s:g}/s (sweep)"


# From light to heavy.
NETWORKS = (
    Step("MobileNetV3-small", "RTX 3090", 8035.08, _TIMM),
    Step("ResNet-18", "RTX 3090", 3481.78, _TIMM),
    Step("ResNet-50", "A100", 2470, _RESNET),
    Step("MobileNetV2", "RTX 3090", 2313.1, _TIMM),
    Step("ResNet-50", "H100", 400 / 0.224, _MLPERF),
    Step("ResNet-50", "V100", 1200, _RESNET),
    Step("VGG-11", "RTX 3090", 954.03, _TIMM),
)
SOUND = tuple(Step("M5", "no source", rate, "") for rate in (3200.0, 1600.0, 400.0, 100.0))


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
