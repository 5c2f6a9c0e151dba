"""NVIDIA DALI, CPU pipeline. Classification has no MixUp and CutMix: DALI has no operator for them."""

from __future__ import annotations

import json
from pathlib import Path

import common
import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.math as dali_math
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.auto_aug import rand_augment
from peer_dali import evaluate, finish, resize, versions

import recipes

NAME = "DALI"
MIXED = False
__all__ = ["evaluate", "versions"]

CPU = {"device": "cpu", "output_type": types.RGB}


def name(task: recipes.Task, form: str) -> str:
    return "DALI, CPU pipeline" + (", without MixUp and CutMix" if task.name == "classify" else "")


def uniform(low: float, high: float):
    return fn.random.uniform(range=[low, high])


def coin(p: float = 0.5):
    return fn.random.coin_flip(probability=p)


def erased(images, size: int):
    """Applies RandomErasing with zeros: an area of 0.02 to 0.33, height / width of 0.3 to 3.3, with the recipe's probability."""
    area, ratio = uniform(0.02, 0.33), dali_math.exp(uniform(float(np.log(0.3)), float(np.log(3.3))))
    done = coin(recipes.ERASING)
    height = dali_math.min(dali_math.sqrt(area * ratio), 1.0) * done
    width = dali_math.min(dali_math.sqrt(area / ratio), 1.0) * done
    anchor = fn.stack(uniform(0, 1) * (1.0 - height), uniform(0, 1) * (1.0 - width))
    return fn.erase(images, anchor=anchor * size, shape=fn.stack(height, width) * size, axis_names="HW", fill_value=0.0)


def reader(files: list[Path], labels: list[int], **options):
    return fn.readers.file(files=[str(path) for path in files], labels=labels, random_shuffle=True, read_ahead=True,
                           initial_fill=min(len(files), 1024), **options)


def classify(task: recipes.Task, **options):
    encoded, label = reader(task.files(), task.labels(), name="reader", **options)
    images = fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4 / 3], num_attempts=10,
                                           **CPU)
    images = resize(images, resize_x=task.size, resize_y=task.size)
    images = rand_augment.rand_augment(images, n=2, m=9, shape=(task.size, task.size), max_translate_rel=150 / 331, fill_value=0)
    return erased(finish(images, mirror=coin()), task.size), label


def write_coco(task: recipes.Task) -> None:
    """Writes the boxes as a COCO file for DALI's reader, if it does not exist."""
    from PIL import Image

    def make(path: Path) -> None:
        names, images, annotations = recipes.class_names(task), [], []
        for i, file in enumerate(task.files()):
            width, height = Image.open(file).size
            images.append({"id": i, "file_name": file.name, "width": width, "height": height})
            for (x0, y0, x1, y1), name in zip(*recipes.objects(task.annotation_of(file)), strict=True):
                annotations.append({"id": len(annotations), "image_id": i, "category_id": names.index(name), "iscrowd": 0,
                                    "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0)})
        categories = [{"id": i, "name": name} for i, name in enumerate(names)]
        path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))

    common.made(task.store("coco.json"), make)


def detect(task: recipes.Task, **options):
    encoded, boxes, labels, *numbers = fn.readers.coco(
        file_root=str(task.root / "images"), annotations_file=str(task.store("coco.json")), ltrb=True, ratio=True,
        random_shuffle=True, read_ahead=True, avoid_class_remapping=True, name="reader", **options)
    anchors, shapes, boxes, labels = fn.random_bbox_crop(
        boxes, labels, aspect_ratio=[0.5, 2.0], thresholds=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9], scaling=[0.3, 1.0], bbox_layout="xyXY",
        allow_no_crop=True, all_boxes_above_threshold=False, num_attempts=40, total_num_attempts=4000)
    images = fn.decoders.image_slice(encoded, anchors, shapes, normalized_anchor=True, normalized_shape=True, **CPU)
    images = resize(images, resize_x=task.size, resize_y=task.size)
    brightness, contrast, saturation, hue = recipes.JITTER
    images = fn.color_twist(images, brightness=uniform(1 - brightness, 1 + brightness),
                            contrast=uniform(1 - contrast, 1 + contrast), saturation=uniform(1 - saturation, 1 + saturation),
                            hue=uniform(-360 * hue, 360 * hue))
    mirror = coin()
    boxes = fn.bb_flip(boxes, ltrb=True, horizontal=mirror) * float(task.size)
    return (finish(images, mirror=mirror), fn.pad(boxes), fn.pad(labels, fill_value=-1), labels.shape(dtype=types.INT64), *numbers)


def segment(task: recipes.Task, **options):
    """Cuts the crop out of the frame before resizing, because then only delivered pixels are resized."""
    files = task.files()
    options["seed"] = 7  # images and masks have two readers, which must shuffle alike
    encoded, _ = reader(files, [0] * len(files), name="images", **options)
    encoded_masks, _ = reader([task.mask_of(path) for path in files], [0] * len(files), name="masks", **options)
    side = task.size / uniform(*recipes.SCALES)
    window = {"crop_h": side, "crop_w": side, "crop_pos_x": uniform(0, 1), "crop_pos_y": uniform(0, 1),
              "out_of_bounds_policy": "pad"}
    mirror = coin()
    images = resize(fn.crop(fn.decoders.image(encoded, **CPU), **window), resize_x=task.size, resize_y=task.size)
    masks = fn.crop(fn.decoders.image(encoded_masks, device="cpu", output_type=types.GRAY), fill_values=recipes.IGNORE, **window)
    masks = fn.resize(masks, resize_x=task.size, resize_y=task.size, interp_type=types.INTERP_NN)
    return finish(images, mirror=mirror), fn.squeeze(fn.flip(masks, horizontal=mirror), axes=[2])


def batches(task: recipes.Task, store: Path, threads: int, cold: bool = False, numbered: bool = False):
    """`cold`: files are read, not mapped, because mapped pages cannot be dropped from the page cache. `numbered` (detection only):
    the last part of a batch is the numbers of its files."""
    if task.name == "detect":
        write_coco(task)
    graph = {"classify": classify, "detect": detect, "segment": segment}[task.name]

    @pipeline_def(batch_size=task.batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1,
                  enable_conditionals=True)
    def pipeline():
        return graph(task, dont_use_mmap=cold, **({"image_ids": True} if numbered else {}))

    pipe = pipeline()
    pipe.build()
    while True:
        images, *others = (np.asarray(each.as_tensor()) for each in pipe.run())
        if task.name == "detect":
            boxes, labels, *rest = others
            others = [boxes, labels, *(each.reshape(-1) for each in rest)]
        yield (images, *others)
