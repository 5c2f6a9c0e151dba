"""CityPersons: boxes of persons beside the images of Cityscapes."""

from __future__ import annotations

import os
from typing import Any

from ...base.files import parse, read_file
from ...errors import CorruptError, NotFoundError
from ..schema import Array, Boxes, FieldSpec, Text
from .given import (
    AnnotationError,
    Drops,
    Given,
    box_problem,
    boxes_array,
    is_image_name,
    listed,
    number,
    size_problem,
    tidy_path,
)

# The class names, in the order of CityPersons' class numbers.
_CLASSES = ["ignore", "pedestrian", "rider", "sitting person", "person (other)", "person group"]
_IMAGES, _BOXES, _MASKS = "leftImg8bit", "gtBboxCityPersons", "gtFine"
_MOST_BYTES = 64 << 20


class CityPersons:
    """Reads a folder with leftImg8bit/, gtBboxCityPersons/ and, optionally, gtFine/."""

    def __init__(self, folder: str, given: Given) -> None:
        self.folder, self._given = folder, given
        self.early = Drops(given.drop)
        self._json: dict[str, str] = {}  # path of an image: path of the JSON file with its boxes
        end = f"_{_BOXES}.json"
        for path in listed(folder, f"{_BOXES}/"):
            parts = path.split("/")
            if not path.endswith(end) or len(parts) != 4 or given.split not in (None, parts[1]):
                continue
            if tidy_path(path) != path:
                raise CorruptError(f"{path!a}: the name is not UTF-8", file=os.path.join(folder, path))
            stem = parts[3][: -len(end)]
            self._json[f"{_IMAGES}/{parts[1]}/{parts[2]}/{stem}_{_IMAGES}.png"] = path
        if not self._json:
            split = "*" if given.split is None else given.split
            raise NotFoundError(f"{folder!r}: there is no {_BOXES}/{split}/*/*{end}", dataset=folder)
        masks = set(listed(folder, f"{_MASKS}/")) if os.path.isdir(os.path.join(folder, _MASKS)) else set()
        self._masks = {
            name: end
            for name, end in (("mask", "_gtFine_labelIds.png"), ("instances", "_gtFine_instanceIds.png"))
            if any(self._mask_of(image, end) in masks for image in self._json)
        }
        unknown = [path for path in listed(folder, f"{_IMAGES}/") if is_image_name(path) and path not in self._json]
        self.notices = (
            [{"kind": "left_out", "name": "not annotated", "count": len(unknown), "first": unknown[0]}] if unknown else []
        )

    @staticmethod
    def _mask_of(image: str, end: str) -> str:
        return f"{_MASKS}{image[len(_IMAGES) : -len(f'_{_IMAGES}.png')]}{end}"

    def names(self) -> list[str]:
        return list(self._json)

    def schema(self) -> dict[str, FieldSpec]:
        made_for = self._given.made_for
        schema: dict[str, FieldSpec] = {name: self._given.mask("original") for name in self._masks}
        return {
            **schema,
            "boxes": Boxes(made_for),
            "visible_boxes": Boxes(made_for),
            "labels": Array("int64", classes=_CLASSES),
            "ignore": Array("uint8"),
            "instance_ids": Array("int64"),
            "split": Text(),
            "city": Text(),
        }

    def _parse(self, path: str) -> dict[str, Any]:
        found = parse(read_file(path, "boxes", _MOST_BYTES), path)
        if not isinstance(found, dict) or not isinstance(found.get("objects"), list):
            text = 'an object with the list "objects" is expected'
            raise CorruptError(f"{path!r}: {text}", text=text, file=path)
        return found

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        path = os.path.join(self.folder, self._json[name])
        found = self._parse(path)
        size = [found.get("imgHeight", height), found.get("imgWidth", width)]
        wrong = size_problem(size, height, width, self._given.made_for)
        if wrong is not None:
            text = f"the image {wrong}"
            raise CorruptError(f"{path!r}: {text}", text=text, file=path)
        kept: list[tuple[list[float], list[float], int, int]] = []
        for i, each in enumerate(found["objects"]):
            try:
                kept.append(_object(each, height, width))
            except ValueError as error:
                text = f"object {i}: {error}"
                drops.add(AnnotationError(f"{path!r}: {text}", text=text, file=path))
        _, split, city, _ = name.split("/")
        masks = {
            field: read_file(os.path.join(self.folder, self._mask_of(name, end)), f"{field} of {name!r}")
            for field, end in self._masks.items()
        }
        return {
            **masks,
            "boxes": boxes_array([box for box, *_ in kept]),
            "visible_boxes": boxes_array([visible for _, visible, *_ in kept]),
            "labels": np.array([label for *_, label, _ in kept], np.int64),
            "ignore": np.array([label == 0 for *_, label, _ in kept], np.uint8),
            "instance_ids": np.array([instance for *_, instance in kept], np.int64),
            "split": split,
            "city": city,
        }


def _box(name: str, given: Any) -> list[float]:
    sides = [number(side) for side in given] if isinstance(given, list) else []
    if len(sides) != 4 or None in sides:
        raise ValueError(f"{name} is {given!r}: four numbers [x, y, width, height] are expected")
    x, y, w, h = (side or 0.0 for side in sides)
    if w < 0 or h < 0:
        raise ValueError(f"{name} {given} has a negative size")
    return [x, y, x + w, y + h]


def _object(given: Any, height: int, width: int) -> tuple[list[float], list[float], int, int]:
    """Returns the whole box, the visible box, the label, and the number of the instance."""
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object")
    label = given.get("label")
    if label not in _CLASSES:
        raise ValueError(f"the label {label!r} is none of {', '.join(_CLASSES)}")
    box, visible = _box("bbox", given.get("bbox")), _box("bboxVis", given.get("bboxVis", given.get("bbox")))
    problem = box_problem(box, height, width)
    if problem is not None:
        raise ValueError(f"bbox {given['bbox']} {problem}")
    problem = box_problem(visible, height, width)
    if problem is not None and label == "ignore":
        visible, problem = box, None  # an ignored region has no visible part
    if problem is not None:
        raise ValueError(f"bboxVis {given['bboxVis']} {problem}")
    instance = given.get("instanceId", -1)
    if type(instance) is not int or not -(2**63) <= instance < 2**63:
        raise ValueError(f"instanceId is {instance!r}, a whole number is expected")
    return box, visible, _CLASSES.index(label), instance
