"""The emulated accelerators of MLPerf Storage, and files of the size that their workloads read.

A workload is a model on an accelerator: batch size, time of a step, and the least utilisation that counts as fed (MLPerf Storage's
workload files of v1.0 for ResNet50, v3.0 for RetinaNet). Files are real copies, each with pages of its own in the page cache.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from pathlib import Path

COPIES = 5
RETINANET_NBYTES = 322_957  # mean bytes of an OpenImages file in MLPerf Storage
RETINANET_SIZE = (1024, 683)
RETINANET_FILES = 192


@dataclass(frozen=True)
class Workload:
    name: str
    accelerator: str
    batch: int
    step_s: float
    utilisation: float
    what: str

    @property
    def rate(self) -> float:
        """Samples per second of one accelerator that never waits."""
        return self.batch / self.step_s


WORKLOADS = {
    "resnet50": Workload("resnet50", "H100", 400, 0.224, 0.90, "RandomResizedCrop(224), flip, normalise, f32 NCHW"),
    "retinanet": Workload("retinanet", "B200", 24, 0.04755, 0.85, "whole images, u8; the model resizes"),
}


def copy_imagenet(data: Path, root: Path, copies: int = COPIES) -> None:
    for source in sorted((data / "imagenet_folder").glob("*/*.JPEG")):
        for i in range(copies):
            target = root / source.parent.name / f"{source.stem}-{i}.JPEG"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def crops_of(photograph, n: int):
    """Returns n crops of RETINANET_SIZE, spread over the photograph."""
    width, height = RETINANET_SIZE
    for i in range(n):
        left = (photograph.width - width) * (i % 3) // 2
        top = (photograph.height - height) * (i // 3) // max((n - 1) // 3, 1)
        yield photograph.crop((left, top, left + width, top + height))


def make_retinanet(data: Path, root: Path) -> None:
    """Makes JPEGs of crops with qualities 84 to 99. Each file gets the quality that brings the mean size nearest to that of the
    workload's files.
    """
    from PIL import Image

    crops = []
    for path in sorted((data / "clic2025").glob("*.png")):
        photograph = Image.open(path).convert("RGB")
        if photograph.height > photograph.width:
            photograph = photograph.transpose(Image.Transpose.ROTATE_90)
        crops += list(crops_of(photograph, 6))

    def encoded(crop, quality: int) -> bytes:
        buffer = io.BytesIO()
        crop.save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
        return buffer.getvalue()

    files: list[bytes] = []
    for i in range(RETINANET_FILES):
        left = (i + 1) * RETINANET_NBYTES - sum(map(len, files))  # brings the mean size to that of the workload
        sizes = [encoded(crops[i % len(crops)], quality) for quality in range(84, 100)] if i < len(crops) else files
        files.append(min(sizes, key=lambda file: abs(len(file) - left)))
    for i in range(RETINANET_FILES):
        target = root / f"c{i % 4}" / f"{i:04d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(files[i])


def prepare(data: Path, root: Path) -> dict[str, Path]:
    """Makes the folders of both workloads if they do not exist. Returns them."""
    made = {}
    for name, make in (("resnet50", copy_imagenet), ("retinanet", make_retinanet)):
        made[name] = root / name
        if not made[name].exists():
            unfinished = root / f"unfinished-{name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            make(data, unfinished)
            unfinished.rename(made[name])
    return made
