"""Batches and samples as tuples: the argument ``as_tuple`` of Loader and TorchDataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import options
from ..data.dataset import Dataset
from ..errors import ArgumentError
from . import ragged


def names(as_tuple: bool | Sequence[str], dataset: Dataset, given: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the names of the arrays that make up a tuple; None if as_tuple is False and dicts are delivered.

    given: a loader's flat arguments. ArgumentError: a named array is not delivered, or the image or label is ambiguous.
    """
    if isinstance(as_tuple, str):
        raise ArgumentError(f"as_tuple is a list of names, not {as_tuple!r}")
    if not isinstance(as_tuple, Sequence):
        return _image_and_label(dataset, given) if options.flag("as_tuple", as_tuple) else None
    known = [*_delivered(dataset, given), *(given["views"] or ()), "index"]
    for name in as_tuple:
        if name not in known and not name.endswith(ragged.SUFFIXES):
            raise ArgumentError(f"as_tuple: no field {name!r}{options.nearest(name, known)}")
    if not as_tuple:
        raise ArgumentError("as_tuple is a list of names, at least one")
    return tuple(as_tuple)


def of(arrays: Any, wanted: Sequence[str]) -> tuple[Any, ...]:
    """Returns the arrays of these names. They may come from a batch function, or have names that depend on the batch."""
    if not isinstance(arrays, Mapping):
        raise ArgumentError(f"as_tuple needs batches that are dicts, and the batch function returned {type(arrays).__name__}")
    for name in wanted:
        if name not in arrays:
            raise ArgumentError(f"as_tuple: the batch has no {name!r}{options.nearest(name, list(arrays))}")
    return tuple(arrays[name] for name in wanted)


def _delivered(dataset: Dataset, given: Mapping[str, Any]) -> list[str]:
    wanted = given["fields"]
    return [name for name in dataset.fields if wanted is None or name in wanted]


def _image_and_label(dataset: Dataset, given: Mapping[str, Any]) -> tuple[str, str]:
    fields = [dataset.fields[name] for name in _delivered(dataset, given)]
    views = list(given["views"] or ())
    image = next((field.name for field in fields if field.type == "image"), None) if not views else views[0]
    labels = [field.name for field in fields if field.type == "int"]
    label = "label" if "label" in labels else labels[0] if len(labels) == 1 else None
    if image is None or label is None or len(views) > 1:
        raise ArgumentError("as_tuple=True wants an image and an int field: name those that you mean, as_tuple=[...]")
    return image, label
