"""The three tasks: their files, the parts that their recipes share, and the required shape of a batch.

    classify  RandomResizedCrop(224), flip, RandAugment (bilinear), normalise, RandomErasing(0.1), MixUp or CutMix of the batch;
              batches of 64. torchvision's references/classification.
    detect    RandomIoUCrop, resize to 300 x 300, flip, colour jitter, normalise; boxes and labels padded; batches of 32. SSD.
    segment   a random scale of 0.5 to 2, a crop of 768 x 768 padded with the class 255, flip, normalise; masks by the nearest
              pixel; batches of 8.

A batch is a tuple: images (float32 NCHW), and labels (N, classes); or boxes (N, most, 4), their labels (N, most) and their counts
(N); or masks (N, H, W), uint8.
"""

from __future__ import annotations

import shutil
import xml.etree.ElementTree
from dataclasses import dataclass
from pathlib import Path

import common

MIXUP, CUTMIX, ERASING = 0.2, 1.0, 0.1
JITTER = (0.125, 0.5, 0.5, 0.05)  # SSD's brightness, contrast, saturation and hue
SCALES, IGNORE = (0.5, 2.0), 255
COPIES = 8  # copies of each frame, because a batch needs more frames than there are
PATTERNS = {"classify": "*/*.JPEG", "detect": "images/*.jpg", "segment": "images/*.png"}
MIN_BOXES_SHARE = 0.5  # at least this share of a batch's images must have a box; most crops keep a box


@dataclass(frozen=True)
class Task(common.Work):
    """A task. `root` holds its files, `folder` what a loader makes of them."""

    folder: Path

    def files(self) -> list[Path]:
        return sorted(self.root.glob(PATTERNS[self.name]))

    def store(self, what: str) -> Path:
        return self.folder / f"{self.name}-{len(self.files())}.{what}"

    def mask_of(self, image: Path) -> Path:
        return self.root / "masks" / image.name

    def annotation_of(self, image: Path) -> Path:
        return self.root / "annotations" / f"{image.stem}.xml"


def tasks(data: Path, folder: Path) -> dict[str, Task]:
    return {
        "classify": Task("classify", data / "imagenet_folder", 64, 224, True, True, folder),
        "detect": Task("detect", data / "boxes", 32, 300, True, True, folder),
        "segment": Task("segment", folder / "frames", 8, 768, True, False, folder),
    }


def lay_out(data: Path, folder: Path) -> None:
    """Makes the folder of frames: images/ beside masks/, each frame COPIES times."""

    def make(path: Path) -> None:
        for kind in ("images", "masks"):
            (path / kind).mkdir(parents=True)
        for image in sorted((data / "cityscapes").glob("*_leftImg8bit.png")):
            mask = data / "labels8" / image.name.replace("leftImg8bit", "gtFine_labelIds")
            for i in range(COPIES if mask.is_file() else 0):
                shutil.copyfile(image, path / "images" / f"{image.stem}_{i}.png")
                shutil.copyfile(mask, path / "masks" / f"{image.stem}_{i}.png")

    folder.mkdir(parents=True, exist_ok=True)
    common.made(folder / "frames", make)


def objects(annotation: Path) -> tuple[list[list[float]], list[str]]:
    """Returns boxes as x0, y0, x1, y1 and their classes. VOC counts pixels from 1 and includes the last one."""
    found = list(xml.etree.ElementTree.parse(annotation).getroot().iter("object"))
    corners = [[float(each.findtext(f"bndbox/{side}", "")) for side in ("xmin", "ymin", "xmax", "ymax")] for each in found]
    boxes = [[max(x0 - 1, 0.0), max(y0 - 1, 0.0), x1, y1] for x0, y0, x1, y1 in corners]
    return boxes, [each.findtext("name", "") for each in found]


def class_names(task: Task) -> list[str]:
    """Returns the class names of all boxes in byte order. A label is a name's place in this list."""
    return sorted({name for path in task.files() for name in objects(task.annotation_of(path))[1]})


def mask_classes(task: Task) -> set[int]:
    """Returns the classes of all masks, including IGNORE."""
    import numpy as np
    from PIL import Image

    return {IGNORE}.union(*(np.unique(np.asarray(Image.open(task.mask_of(path)))).tolist() for path in task.files()[::COPIES]))


# Returns a text that says what is wrong with a batch, or None.

def wrong_images(task: Task, images) -> str | None:
    import numpy as np

    shape = (task.batch, 3, task.size, task.size)
    if images.shape != shape or images.dtype != np.float32 or not images.flags["C_CONTIGUOUS"]:
        return f"images are {images.shape} {images.dtype}, wanted contiguous float32 {shape}"
    if not (-2.2 < float(images.min()) and float(images.max()) < 2.7 and 0.3 < float(images.std()) < 2):
        return "images are not normalised"
    return None


def wrong_labels(task: Task, labels, mixed: bool) -> str | None:
    import numpy as np

    n_classes = max(task.labels()) + 1
    if not mixed:
        flat = labels.reshape(-1)
        fits = flat.shape == (task.batch,) and 0 <= flat.min() and flat.max() < n_classes
        return None if fits else f"labels are {labels.shape}, {labels.min()} to {labels.max()}"
    if labels.shape != (task.batch, n_classes) or not np.allclose(labels.sum(1), 1, atol=1e-5) or labels.min() < 0:
        return f"labels are {labels.shape}, sums {labels.sum(1).min()} to {labels.sum(1).max()}: not shares of {n_classes} classes"
    return None


def wrong_boxes(task: Task, boxes, labels, counts) -> str | None:
    import numpy as np

    if boxes.ndim != 3 or boxes.dtype != np.float32 or labels.shape != boxes.shape[:2] or counts.shape != (task.batch,):
        return f"boxes are {boxes.shape} {boxes.dtype}, their labels {labels.shape}, their counts {counts.shape}"
    own = np.arange(boxes.shape[1]) < counts[:, None]
    inside = boxes[own]
    if (counts > 0).mean() < MIN_BOXES_SHARE:
        return f"only {(counts > 0).sum()} of {task.batch} images have boxes"
    if inside.min() < -0.01 or inside.max() > task.size + 0.01 or (inside[:, 2:] <= inside[:, :2]).any():
        return f"boxes are not inside of the picture: {inside.min(0)} to {inside.max(0)}"
    n_classes = len(class_names(task))
    return None if ((labels[own] >= 0) & (labels[own] < n_classes)).all() else f"labels of boxes are not below {n_classes}"


def wrong_masks(task: Task, masks) -> str | None:
    import numpy as np

    if masks.shape != (task.batch, task.size, task.size) or masks.dtype != np.uint8:
        return f"masks are {masks.shape} {masks.dtype}"
    unknown = set(np.unique(masks).tolist()) - mask_classes(task)
    return f"masks have the classes {sorted(unknown)}, which the files have not" if unknown else None


def wrong(task: Task, batch: tuple, mixed: bool) -> str | None:
    import numpy as np

    images, *others = map(np.asarray, batch)
    rest = {"classify": lambda: wrong_labels(task, others[0], mixed), "detect": lambda: wrong_boxes(task, *others),
            "segment": lambda: wrong_masks(task, others[0])}
    return wrong_images(task, images) or rest[task.name]()
