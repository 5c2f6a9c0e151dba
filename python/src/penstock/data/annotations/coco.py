"""Reads COCO JSON: instances, keypoints, and segmentations as polygons or run lengths.

The file is parsed in one go, as COCO's own tool does. As soon as the parser ends an object, the needed members are packed into
small arrays. So a file of n bytes takes about 2 n bytes of memory (3 n with segmentations) instead of 10 n.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ...base.files import parse, read_file
from ...errors import CorruptError
from ..schema import Array, Boxes, FieldSpec, Int, Keypoints, Text
from .given import (
    AnnotationError,
    Drops,
    Given,
    box_problem,
    boxes_array,
    is_image_name,
    is_text,
    listed,
    number,
    size_problem,
    tidy_path,
    whole,
)
from .regions import RegionError, from_segmentation, painted

_SIDE_MAX = 65535
_MOST_BYTES = 4 << 30


def _compact(values: Any) -> Any:
    """Packs a list of numbers into an array, which takes a tenth of the memory. Returns anything else unchanged; it is checked
    later."""
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        return values
    try:
        return array("d", values)
    except (TypeError, OverflowError):
        return values


class _Annotation:
    """The members of an annotation that are used. They are not checked yet."""

    __slots__ = ("area", "box", "category", "crowd", "image", "keypoints", "number", "segmentation")

    def __init__(self, given: dict[str, Any], *, paints: bool) -> None:
        self.number, self.image, self.category = given.get("id"), given["image_id"], given["category_id"]
        self.box, self.area, self.crowd = _compact(given.get("bbox")), given.get("area"), given.get("iscrowd", 0)
        self.keypoints = None if given.get("keypoints") == [] else _compact(given.get("keypoints"))
        self.segmentation = given.get("segmentation") if paints else None
        if isinstance(self.segmentation, list):
            self.segmentation = [_compact(polygon) for polygon in self.segmentation]


def _parse(path: str, paints: bool) -> dict[str, Any]:
    def hook(given: dict[str, Any]) -> Any:
        return _Annotation(given, paints=paints) if "image_id" in given and "category_id" in given else given

    def bad(text: str) -> CorruptError:
        return CorruptError(f"{path!r}: {text}", text=text, file=path)

    found = parse(read_file(path, "annotations", _MOST_BYTES), path, hook)
    if not isinstance(found, dict):
        raise bad("an object with the lists images, annotations and categories is expected")
    for name in ("images", "annotations", "categories"):
        if not isinstance(found.get(name), list):
            raise bad(f'there is no list "{name}"')
    return found


def _are_names(points: list[Any]) -> bool:
    """Whether the keypoints have names that are all different."""
    return all(isinstance(name, str) and name.isprintable() and name for name in points) and len(set(points)) == len(points)


def _id(value: Any) -> int | str | None:
    """Checks an id as COCO's own tool does: a whole number, also written as 7.0, or a text. Returns None for anything else."""
    found = whole(value)
    if found is not None:
        return found if -(2**63) <= found < 2**63 else None
    return value if is_text(value) else None


def _order(of_id: int | str) -> tuple[bool, Any]:
    """Returns a sort key for ids: numbers come before texts."""
    return isinstance(of_id, str), of_id


def _without_groups(found: dict[str, Any]) -> list[Any]:
    """Returns the categories without those that only group others. Exports of Roboflow begin with such a category: it has no
    annotation, and it has the name of the project, which one of the classes may have, too."""
    used = {annotation.category for annotation in found["annotations"]
            if isinstance(annotation, _Annotation) and isinstance(annotation.category, (int, float, str))}
    categories = [each for each in found["categories"] if isinstance(each, dict)]

    def is_group(each: Any) -> bool:
        if not isinstance(each, dict) or each.get("supercategory") != "none" or not isinstance(each.get("id"), (int, float, str)):
            return False
        same = [other for other in categories if other is not each and other.get("name") == each.get("name")]
        return each["id"] not in used and any(other.get("supercategory") == each.get("name") for other in same)

    return [each for each in found["categories"] if not is_group(each)]


class Coco:
    """Reads one file of annotations and the folder of its images."""

    def __init__(self, folder: str, path: str, given: Given) -> None:
        self.folder, self._path, self._given = folder, path, given
        self.early = Drops(given.drop)
        found = _parse(path, bool(given.paint))
        self._read_categories(_without_groups(found))
        self._read_images(found["images"])
        self._sort(found["annotations"])
        left_out = [name for name in listed(folder) if is_image_name(name) and name not in self._images]
        self.notices = [_left_out(left_out)] if left_out else []

    def _fault(self, text: str) -> CorruptError:
        return CorruptError(f"{self._path!r}: {text}", text=text, file=self._path)

    def _read_categories(self, categories: Sequence[Any]) -> None:
        names: dict[int | str, str] = {}
        points: list[list[Any]] = []  # the distinct lists of keypoint names
        seen: set[str] = set()
        for i, category in enumerate(categories):
            own = _id(category.get("id")) if isinstance(category, dict) else None
            if own is None or not is_text(category.get("name")):
                raise self._fault(
                    f"category number {i} of the list is no object with an id, a whole number or a text, and a text name in UTF-8"
                )
            if own in names:
                raise self._fault(f"category {own!r} is there twice")
            if category["name"] in seen:
                raise self._fault(f"two categories are named {category['name']!r}")
            names[own] = category["name"]
            seen.add(category["name"])
            if isinstance(category.get("keypoints"), list) and category["keypoints"]:
                points += [category["keypoints"]] if category["keypoints"] not in points else []
        if not names:
            raise self._fault("there are no categories")
        numbers = sorted({len(names_) for names_ in points})
        if len(numbers) > 1:
            raise self._fault(f"categories have {' and '.join(map(str, numbers))} keypoints: one number is possible")
        ordered = sorted(names, key=_order)
        self._classes = [names[category] for category in ordered]
        self._label = {category: i for i, category in enumerate(ordered)}
        self._n_points = max(numbers, default=0)
        self._points_named = points[0] if len(points) == 1 and _are_names(points[0]) else None

    def _read_images(self, images: Sequence[Any]) -> None:
        self._images: dict[str, tuple[int | str, int, int]] = {}  # path of an image: its id, height and width
        self._of_image: dict[int | str, list[_Annotation]] = {}
        for i, image in enumerate(images):
            own = _id(image.get("id")) if isinstance(image, dict) else None
            if own is None:
                raise self._fault(f"image number {i} of the list is no object with an id, a whole number or a text")
            what = f"image {own!r}"
            name = tidy_path(image.get("file_name"))
            if name is None:
                raise self._fault(f"{what}: file_name {image.get('file_name')!r} is no path within the folder of images, in UTF-8")
            if own in self._of_image:
                raise self._fault(f"{what} is there twice")
            if name in self._images:
                raise self._fault(f"{what}: file {name!r} is that of image {self._images[name][0]!r}, too")
            height, width = whole(image.get("height")), whole(image.get("width"))
            if height is None or width is None or not (1 <= height <= _SIDE_MAX and 1 <= width <= _SIDE_MAX):
                raise self._fault(
                    f"{what}: height {image.get('height')!r} and width {image.get('width')!r} are no whole numbers from 1 to "
                    f"{_SIDE_MAX}"
                )
            self._images[name] = (own, height, width)
            self._of_image[own] = []
        self._has_text_ids = any(isinstance(own, str) for own in self._of_image)

    def _sort(self, annotations: Sequence[Any]) -> None:
        """Assigns the annotations to their images, in the order of the file."""
        seen: set[int | str] = set()
        self._has_points = self._n_points > 0
        for i, annotation in enumerate(annotations):
            problem = self._resolve(annotation, i, seen)
            if problem is not None:
                self.early.add(AnnotationError(f"{self._path!r}: {problem}", text=problem, file=self._path))
                continue
            seen.add(annotation.number)
            self._of_image[annotation.image].append(annotation)
            points = annotation.keypoints
            if isinstance(points, array) and len(points) % 3 == 0 and not self._has_points:
                self._n_points, self._has_points = len(points) // 3, True

    def _resolve(self, annotation: Any, i: int, seen: set[int | str]) -> str | None:
        """Converts the ids of an annotation to the types that the lookup tables use. Returns the fault of the annotation, or
        None."""
        if not isinstance(annotation, _Annotation):
            return f"annotation number {i} of the list is no object with image_id and category_id"
        own, image, category = _id(annotation.number), _id(annotation.image), _id(annotation.category)
        what = f"annotation {annotation.number!r}"
        if annotation.number is None:
            own, what = i, f"annotation {i}"
        if own is None:
            return f"{what}: the id is no whole number and no text"
        if own in seen:
            return f"{what} is there twice"
        if image is None or image not in self._of_image:
            return f"{what}: there is no image {annotation.image!r}"
        if category is None or category not in self._label:
            return f"{what} of image {image!r}: there is no category {annotation.category!r}"
        annotation.number, annotation.image, annotation.category = own, image, category
        return None

    def names(self) -> list[str]:
        return list(self._images)

    def schema(self) -> dict[str, FieldSpec]:
        made_for = self._given.made_for
        schema: dict[str, FieldSpec] = {
            "boxes": Boxes(made_for),
            "labels": Array("int64", classes=self._classes),
            "iscrowd": Array("uint8"),
            "area": Array("float32"),
            "image_id": Text() if self._has_text_ids else Int(),
        }
        if self._has_points:
            schema["keypoints"] = Keypoints(made_for, points=self._points_named or self._n_points or None)
        return schema | self._given.paints()

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        number_, *size = self._images[name]
        problem = size_problem(size, height, width, self._given.made_for)
        if problem is not None:
            raise self._fault(f"image {number_!r} ({name!r}) {problem}")
        kept: list[tuple[_Annotation, list[float], float, Any]] = []
        points: list[Any] = []
        for annotation in self._of_image[number_]:
            try:
                box, area = self._box(annotation, height, width)
                region = self._region(annotation, height, width)
                of_one = self._points(annotation)
            except ValueError as error:
                text = f"annotation {annotation.number!r} of image {number_!r} ({name!r}): {error}"
                drops.add(AnnotationError(f"{self._path!r}: {text}", text=text, file=self._path))
                continue
            kept.append((annotation, box, area, region))
            points.append(of_one)
        crowds = [int(annotation.crowd) for annotation, *_ in kept]
        labels = [self._label[annotation.category] for annotation, *_ in kept]
        values: dict[str, Any] = {
            "boxes": boxes_array([box for _, box, _, _ in kept]),
            "labels": np.array(labels, np.int64),
            "iscrowd": np.array(crowds, np.uint8),
            "area": np.array([area for _, _, area, _ in kept], np.float32),
            "image_id": str(number_) if self._has_text_ids else number_,
        }
        if self._has_points:
            values["keypoints"] = np.array(points, np.float32).reshape(-1, 3)
        regions = [region for *_, region in kept]
        values.update(painted(self._given.paint, regions, labels, (height, width), len(self._classes), crowds))
        return values

    @staticmethod
    def _box(annotation: _Annotation, height: int, width: int) -> tuple[list[float], float]:
        given = annotation.box
        if not isinstance(given, array) or len(given) != 4:
            raise ValueError(f"bbox is {given!r}: four numbers [x, y, width, height] are expected")
        x, y, w, h = given
        if not isinstance(annotation.crowd, (int, float)) or annotation.crowd not in (0, 1):
            raise ValueError(f"iscrowd is {annotation.crowd!r}, 0 or 1 is expected")
        box = [x, y, x + w, y + h]
        problem = "has a negative size" if w < 0 or h < 0 else box_problem(box, height, width)
        if problem is not None:
            raise ValueError(f"bbox {list(given)} {problem}")
        area = w * h if annotation.area is None else number(annotation.area)
        if area is None or not 0 <= area < 3e38:
            raise ValueError(f"area is {annotation.area!r}, a number from 0 on is expected")
        return box, area

    def _points(self, annotation: _Annotation) -> Any:
        import numpy as np

        if annotation.keypoints is None:
            return np.zeros((self._n_points, 3), np.float32) if self._has_points else None
        given = annotation.keypoints
        if not isinstance(given, array) or len(given) != 3 * self._n_points:
            count = f"{len(given)} numbers" if isinstance(given, (array, list)) else repr(given)
            raise ValueError(f"keypoints are {count}: {self._n_points or 'numbers'} of x, y, visibility are expected")
        with np.errstate(over="ignore"):
            points = np.array(given, np.float32).reshape(-1, 3)
        if not np.isfinite(points).all():
            raise ValueError("a keypoint is not finite")
        return points

    def _region(self, annotation: _Annotation, height: int, width: int) -> Any:
        if annotation.segmentation is None:
            return None
        try:
            return from_segmentation(annotation.segmentation, height, width)
        except RegionError as error:
            raise ValueError(f"the segmentation {error}") from None


def _left_out(names: Sequence[str]) -> dict[str, Any]:
    return {"kind": "left_out", "name": "not annotated", "count": len(names), "first": names[0]}
