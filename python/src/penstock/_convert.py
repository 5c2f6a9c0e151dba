"""Fields of a batch as numpy arrays, torch tensors, DLPack or Python objects.

Pixels and large arrays lie in the batch's memory. Other arrays of up to 64 KiB are copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from . import _native
from ._html import Batch

Wrap = Callable[[_native.Tensor], Any]


def wrapper(output: str) -> Wrap:
    """Returns the function that makes an array of the wanted kind over a Tensor's memory."""
    if output == "dlpack":
        return lambda tensor: tensor
    if output == "torch":
        import torch

        return torch.from_dlpack  # type: ignore[no-any-return, attr-defined, unused-ignore]
    import numpy as np

    return np.asarray


def _channels_last(array: Any) -> Any:
    """Shows an array (..., H, W, C) as (..., C, H, W)."""
    n = len(array.shape)
    axes = (*range(n - 3), n - 1, n - 3, n - 2)
    return array.permute(axes) if hasattr(array, "permute") else array.transpose(axes)


def _without_channel(array: Any) -> Any:
    return array.first_of_last() if isinstance(array, _native.Tensor) else array[..., 0]


def _parse(text: str) -> Any:
    return json.loads(text) if text else None


def to_dict(
    batch: _native.Batch, wrap: Wrap, encoded: Collection[str], channels_last: Collection[str]
) -> Batch:
    """Returns all fields and "index", as a dict that notebooks show.

    `encoded` names the image fields that hold stored bytes. `channels_last` names those that are shown as NCHW over
    NHWC memory.
    """
    fields = batch.fields()
    result = Batch({}, {name: kind for name, kind, _ in fields}, f"batch of {len(batch)}")
    for i_field, (name, kind, ragged) in enumerate(fields):
        if kind == "text":
            result[name] = batch.text(i_field)
        elif kind == "json":
            result[name] = [_parse(text) for text in batch.text(i_field)]
        elif kind == "bytes" or name in encoded:
            result[name] = batch.bytes(i_field)
        else:
            view: Callable[[Any], Any] | None = None
            if kind == "mask":
                view = _without_channel
            elif name in channels_last:
                view = _channels_last
            if ragged:
                rows = [wrap(row) for row in batch.rows(i_field)]
                result[name] = [view(row) for row in rows] if view else rows
            else:
                array = wrap(batch.tensor(i_field))
                result[name] = view(array) if view else array
    result["index"] = wrap(batch.index())
    return result
