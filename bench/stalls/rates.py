"""The nine models of DS-Analyzer (PVLDB 14(5), 2021) as training rates, each with its source, and the results of the paper.

A rate is samples/s of one accelerator that never waits. A rate without a source is a point of a sweep over the range of such
accelerators; it describes none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

_DLE = "NVIDIA/DeepLearningExamples"
_RESNET = f"{_DLE} PyTorch/Classification/ConvNets/resnet50v1.5/README.md, one GPU, mixed precision, container 21.03"
_SSD = f"{_DLE} PyTorch/Detection/SSD/README.md, one GPU, mixed precision, batch 64, container 22.10; its backbone is ResNet-50"
_MLPERF = "MLPerf Storage v1.0 and v2.0, configs/dlio/workload, resnet50: 400 images a step of 0.224 s"
TIMM = "huggingface/pytorch-image-models results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv, batch 512, 224 pixels"
_ALEXNET = "tensorflow/benchmarks#491: over 11,000 images/s of two V100S, tf_cnn_benchmarks 1.12; halved"


@dataclass(frozen=True)
class Model:
    name: str
    task: str  # kind of samples that are prepared: classify, detect or audio
    sets: tuple[str, ...]
    paper_set: str  # name of the data set that the paper used for this model's figures


@dataclass(frozen=True)
class Rate:
    model: str
    accelerator: str
    samples_per_second: float
    source: str  # "": a sweep

    @property
    def title(self) -> str:
        return f"{self.accelerator}, {self.samples_per_second:,.0f}/s" + ("" if self.source else " (sweep)")

    @property
    def name(self) -> str:
        return f"{self.model}, {self.accelerator}" if self.source else f"{self.samples_per_second:g}/s (sweep)"


_IMAGES = ("imagenet-1k", "imagenet-22k", "openimages")
MODELS = {
    model.name: model
    for model in (
        *(Model(name, "classify", _IMAGES, "imagenet-22k")
          for name in ("ShuffleNetV2", "AlexNet", "ResNet-18", "SqueezeNet", "MobileNetV2", "ResNet-50", "VGG-11")),
        Model("SSD300-ResNet18", "detect", ("openimages",), "openimages"),
        Model("M5", "audio", ("fma",), "fma"),
    )
}  # fmt: skip


def _sweep(model: str, rates: tuple[float, ...]) -> list[Rate]:
    return [Rate(model, "no source", rate, "") for rate in rates]


# The first rate of a model is used in the main table. It is that of the V100, or that of the RTX 3090, which is as fast (ResNet-50:
# 1,218 and 1,200 images/s), if there is one.
RATES = (
    *_sweep("ShuffleNetV2", (2000, 4000, 8000)),
    Rate("AlexNet", "V100S", 5500, _ALEXNET),
    *_sweep("AlexNet", (11000,)),
    Rate("ResNet-18", "RTX 3090", 3481.78, TIMM),
    *_sweep("ResNet-18", (7000,)),
    *_sweep("SqueezeNet", (2000, 4000, 8000)),
    Rate("MobileNetV2", "RTX 3090", 2313.1, TIMM),
    *_sweep("MobileNetV2", (4600,)),
    Rate("ResNet-50", "V100", 1200, _RESNET),
    Rate("ResNet-50", "RTX 3090", 1218.01, TIMM),
    Rate("ResNet-50", "A100", 2470, _RESNET),
    Rate("ResNet-50", "H100", 400 / 0.224, _MLPERF),
    Rate("VGG-11", "RTX 3090", 954.03, TIMM),
    *_sweep("VGG-11", (1900,)),
    Rate("SSD300-ResNet18", "V100", 322.81, _SSD),
    Rate("SSD300-ResNet18", "A100", 724.41, _SSD),
    *_sweep("SSD300-ResNet18", (1500,)),
    *_sweep("M5", (100, 400, 1600)),
)


def rates_of(model: str) -> list[Rate]:
    return [rate for rate in RATES if rate.model == model]


@dataclass(frozen=True)
class Claim:
    """A result of the paper: a text, and the machine that it was measured on."""

    name: str
    text: str
    machine: str


_SSD_V100 = "8 V100, 24 cores, 500 GiB, SATA SSD of 530 MB/s (SSD-V100)"
_HDD_1080 = "8 GTX 1080 Ti, 24 cores, 500 GiB, hard disk of 15 to 50 MB/s at random (HDD-1080Ti)"
PAPER = (
    Claim("fetch", "fetch stalls take 10 to 70 % of an epoch, over the nine models, 35 % cached", _SSD_V100),
    Claim("prepare", "preparation stalls take up to 65 % of an epoch where all is cached, 3 cores for each accelerator", _SSD_V100),
    Claim("cores-resnet50", "3 to 4 cores for each accelerator hide the preparation for ResNet-50", _SSD_V100),
    Claim("cores-light", "12 to 24 cores for each accelerator hide it for ResNet-18 and AlexNet", _SSD_V100),
    Claim("ssd", "a cache that evicts nothing makes an epoch up to 1.8 x as fast (OpenImages, FMA; ImageNet-22k 1.5 x)", _SSD_V100),
    Claim("hdd", "and ResNet-50 up to 2.1 x as fast as DALI's sequential reader, 1.53 x as its shuffled one", _HDD_1080),
    Claim("error", "the what-if model is within 4 % of what was measured (AlexNet, ImageNet-1k)", _SSD_V100),
)
