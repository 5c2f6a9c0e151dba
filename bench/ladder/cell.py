"""One cell of bench/ladder: a loader in this process. Argument: a JSON object; result: one on stdout.

    {"path": data set or folder, "options": of ps.Loader, "fused": true, "seconds": 1.5, "threads": 2}

The first epoch fills caches; whole epochs after it are counted until the seconds are over. Images are RandomResizedCrop(224),
flipped, normalised, float32 NCHW. Without "fused" the loader delivers whole decoded images, and Pillow and numpy prepare them in
separate passes, with the same number of threads.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402
import common  # noqa: E402

SIZE, BATCH = 224, 32


def crop_of(height: int, width: int, draw: Any) -> tuple[int, int, int, int]:
    """Draws a RandomResizedCrop. Returns left, top, right, bottom."""
    for _ in range(10):
        area, ratio = height * width * draw.uniform(0.08, 1), math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(draw.integers(width - w + 1)), int(draw.integers(height - h + 1))
            return left, top, left + w, top + h
    side = min(height, width)
    return (width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2


def separate(sample: dict[str, Any], draw: Any) -> dict[str, Any]:
    """Prepares a decoded image pass by pass, as pipelines without fusion do."""
    import numpy as np
    from PIL import Image

    image = Image.fromarray(sample["image"].transpose(1, 2, 0))
    image = image.crop(crop_of(image.height, image.width, draw)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)
    if draw.random() < 0.5:
        pixels = pixels[:, ::-1]
    floats = pixels.astype(np.float32) / 255
    floats = (floats - np.array(common.MEAN, np.float32)) / np.array(common.STD, np.float32)
    return {**sample, "image": np.ascontiguousarray(floats.transpose(2, 0, 1))}


def loader_of(cell: dict[str, Any]) -> Any:
    import penstock as ps
    from penstock import transforms as T

    how: dict[str, Any] = {"transforms": [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(),
                                          T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]}  # fmt: skip
    if not cell["fused"]:
        how = {"functions": ps.Functions(separate, workers=cell["threads"])}
    options = {"dataset": cell["path"], "batch_size": BATCH, "seed": 1, "fields": ["image"], "watch": {"live": False},
               **cell["options"]}
    output = "dlpack" if "device" in options else "numpy"
    return ps.Loader.from_config(options, output=output, **how)


def check(batch: dict[str, Any]) -> None:
    import numpy as np

    images = batch["image"]
    if isinstance(images, np.ndarray):
        shape = (BATCH, 3, SIZE, SIZE)
        if images.shape != shape or images.dtype != np.float32 or not 0.3 < float(images.std()) < 2:
            raise SystemExit(f"batch is {images.shape} {images.dtype}, wanted normalised {shape} float32")


def run(loader: Any, seconds: float) -> dict[str, Any]:
    checked = False
    for batch in loader:
        if not checked:
            check(batch)
            checked = True
        del batch
    first = len(loader.dataset)
    read, meter, images = loader.stats()["storage"]["nbytes_read"], runner.Meter(), 0
    while images == 0 or meter.seconds() < seconds:
        for _ in loader:
            pass
        images += len(loader.dataset)
    spent, stats = meter.spent(), loader.stats()
    share = stats.get("share") or {}
    return {"images_per_s": images / spent.wall_s, "cpu_s_per_1000": 1000 * spent.cpu_s / images,
            "peak_rss_mb": runner.peak_rss_mb(), "read_kb_per_image": (stats["storage"]["nbytes_read"] - read) / images / 1e3,
            "all_images": images + first, "all_cpu_s": runner.cpu_seconds(), "foreign_cores": spent.foreign_cores,
            "shared_batches": share.get("batches", 0), "group_read_kb": share.get("nbytes_read", 0) / 1e3}  # fmt: skip


def main() -> None:
    cell = json.loads(sys.argv[1])
    with loader_of(cell) as loader:
        found = run(loader, cell["seconds"])
    runner.tell(found)


if __name__ == "__main__":
    main()
