"""Steps of torchvision's networks, measured on this machine's GPU if it has one. These rates replace published ones."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import rates  # noqa: E402

NETWORKS = {"ShuffleNetV2": "shufflenet_v2_x1_0", "AlexNet": "alexnet", "ResNet-18": "resnet18", "SqueezeNet": "squeezenet1_1",
            "MobileNetV2": "mobilenet_v2", "ResNet-50": "resnet50", "VGG-11": "vgg11"}  # fmt: skip
WARM_UP, SIZE = 5, 224  # steps, pixels


def rate_of(network: str, batch: int, seconds: float) -> float:
    """Returns the samples/s of training steps on one batch that is already on the device; mixed precision on a GPU."""
    import models
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    step = models.trainer(network)
    images = torch.randn(batch, 3, SIZE, SIZE, device=device).contiguous(memory_format=torch.channels_last)
    given = {"image": images, "label": torch.randint(models.CLASSES, (batch,), device=device)}

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    done = 0
    with torch.autocast(device, enabled=device == "cuda"):
        for _ in range(WARM_UP):
            step(given)
        wait()
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            step(given)
            wait()
            done += batch
    return done / (time.perf_counter() - start)


def measured(batch: int = 256, seconds: float = 2.0) -> tuple[rates.Rate, ...]:
    """Returns the rates of this machine's GPU; none without one."""
    import torch

    if not torch.cuda.is_available():
        return ()
    name = torch.cuda.get_device_name()
    source = f"measured here: torchvision, torch {torch.__version__}, mixed precision, batch {batch}"
    return tuple(rates.Rate(model, name, rate_of(network, batch, seconds), source) for model, network in NETWORKS.items())
