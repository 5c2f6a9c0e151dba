"""Several views of a sample's image, each with its own operations and random draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..data.dataset import Dataset
from ..errors import ArgumentError
from ..transforms.base import Transform, chain

_MAX_VIEWS = 64  # PST_MAX_VIEWS


@dataclass(frozen=True)
class Views:
    """A group of views of one image that become one array of the batch.

    Attributes:
        name: name of the array.
        field: name of the image field.
        count: number of views, the length of the array's second axis; 0: one view, without that axis.
        first: number of the group's first view among all views of the sample, from 0.
        ops: the operations of each view.
    """

    name: str
    field: str
    count: int
    first: int
    ops: list[Transform]

    def options(self) -> dict[str, Any]:
        """Returns the options that these views add to the options of their field."""
        return {"as": self.name, "n_views": self.count, "first_view": self.first}


def of(given: Mapping[str, Any], dataset: Dataset) -> list[Views]:
    """Returns the groups of views in a loader's arguments."""
    views = given["views"]
    if views is None:
        return []
    if not isinstance(views, Mapping) or not views:
        raise ArgumentError(f'views is a dict, such as {{"global": (2, [...]), "local": (6, [...])}}, not {views!r}')
    if given["mix"] is not None:
        raise ArgumentError("mix is not for views: mix them where the model gets them")
    found: list[Views] = []
    first = 0
    for name, value in views.items():
        found.append(_one(name, value, first, dataset))
        if found[-1].field in given["encoded"]:
            raise ArgumentError(f"views[{name!r}]: field {found[-1].field!r} is delivered encoded")
        first += found[-1].count or 1
    if first > _MAX_VIEWS:
        raise ArgumentError(f"views: a sample has at most {_MAX_VIEWS} views, not {first}")
    return found


def _one(name: object, value: object, first: int, dataset: Dataset) -> Views:
    if not isinstance(name, str) or not 0 < len(name.encode()) < 64 or "\0" in name or name == "index":
        raise ArgumentError(f'views: the name of an array is a text of 1 to 63 bytes, and not "index", not {name!r}')
    count, ops, field = 0, value, None
    if isinstance(value, tuple):
        if len(value) not in (2, 3) or isinstance(value[0], bool) or not isinstance(value[0], int):
            raise ArgumentError(f"views[{name!r}] is (count, operations), (count, operations, field) or operations, not {value!r}")
        count, ops = value[0], value[1]
        field = value[2] if len(value) == 3 else None
        if not 1 <= count <= _MAX_VIEWS:
            raise ArgumentError(f"views[{name!r}]: 1 to {_MAX_VIEWS} views, not {count}")
    try:
        checked = chain(name, ops)
    except ArgumentError as error:
        raise ArgumentError(error.text.replace("transforms", "views", 1)) from None
    return Views(name, _field(name, field, dataset), count, first, checked)


def _field(name: str, field: object, dataset: Dataset) -> str:
    """Returns the name of the image field for a group of views. Default: the sample's image, which boxes and masks follow."""
    images = [known.name for known in dataset.fields.values() if known.type == "image"]
    if field is None:
        if not images:
            raise ArgumentError(f"views[{name!r}]: {dataset.path} has no image", dataset=dataset.path)
        return "image" if "image" in images else images[0]
    if field not in images:
        raise ArgumentError(
            f"views[{name!r}]: {dataset.path} has no image {field!r}, but {', '.join(images) or 'none'}", dataset=dataset.path
        )
    return str(field)


def delivered(given: Mapping[str, Any], views: Sequence[Views], dataset: Dataset) -> tuple[str, ...] | None:
    """Returns the fields that are delivered under their own names. An image with views is delivered only if `fields` names it."""
    if given["fields"] is not None or not views:
        return None if given["fields"] is None else tuple(given["fields"])
    viewed = {view.field for view in views}
    return tuple(name for name in dataset.fields if name not in viewed)
