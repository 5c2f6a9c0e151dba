"""Converts the fields of a batch to numpy arrays, torch tensors, DLPack or Python objects.

Pixels and large arrays share the batch's memory. Other arrays of up to 64 KiB are copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from .. import _native
from ..data.notebook import Batch
from ..errors import ArgumentError

Wrap = Callable[[_native.Tensor], Any]


def wrapper(output: str) -> Wrap:
    """Returns the function that wraps a native Tensor's memory in an array of the wanted library."""
    if output == "dlpack":
        return lambda tensor: tensor
    if output == "torch":
        import torch

        return torch.from_dlpack  # type: ignore[no-any-return, attr-defined, unused-ignore]
    import numpy as np

    return np.asarray


def _channels_last(array: Any) -> Any:
    """Returns a view of an NHWC array (..., H, W, C) with the axes (..., C, H, W)."""
    n = len(array.shape)
    axes = (*range(n - 3), n - 1, n - 3, n - 2)
    return array.permute(axes) if hasattr(array, "permute") else array.transpose(axes)


def _without_channel(array: Any) -> Any:
    return array.first_of_last() if isinstance(array, _native.Tensor) else array[..., 0]


def _parse(text: str) -> Any:
    return json.loads(text) if text else None


class Labels:
    """Converts the labels of mixed batches (MixUp, CutMix) to shares of classes."""

    def __init__(self, image: str, label: str, n_classes: int, is_torch: bool) -> None:
        self.image, self.label, self.n_classes, self._is_torch = image, label, n_classes, is_torch

    def mix(self, mixed: tuple[int, float, int, int, int, int, bool], result: dict[str, Any]) -> None:
        """Replaces the labels, int64 (N), by shares of classes, float32 (N, n_classes), and mixes the images of a batch on a
        GPU."""
        kind, share, y, x, height, width, is_applied = mixed
        labels = result[self.label]
        # A batch may have no rows if all its samples are bad (on_empty="empty").
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= self.n_classes):
            raise ArgumentError(f"field {self.label!r}: labels of mixed images are 0 to {self.n_classes - 1} (num_classes)")
        result[self.label] = self._shares(labels, share)
        if is_applied:
            return
        images = result[self.image]
        partners = images.roll(1, 0)
        if kind == _CUTMIX:
            images[..., y : y + height, x : x + width] = partners[..., y : y + height, x : x + width]
        else:
            images.copy_(images.float() * share + partners.float() * (1 - share))

    def _shares(self, labels: Any, share: float) -> Any:
        if self._is_torch:
            import torch

            ones = torch.nn.functional.one_hot(labels, self.n_classes).float()
            return ones * share + ones.roll(1, 0) * (1 - share)
        import numpy as np

        ones = np.eye(self.n_classes, dtype=np.float32)[labels]
        return ones * np.float32(share) + np.roll(ones, 1, 0) * np.float32(1 - share)


_CUTMIX = 2


def to_dict(
    batch: _native.Batch, wrap: Wrap, encoded: Collection[str], channels_last: Collection[str], labels: Labels | None = None
) -> Batch:
    """Returns all fields of a batch and "index" as a dict that notebooks can show.

    `encoded` names the image fields that are delivered as stored bytes. `channels_last` names the fields with NCHW shape over NHWC
    memory. `labels` converts the labels of mixed images.
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
            if parts := batch.collated(i_field):
                for suffix, tensor in parts:
                    array = wrap(tensor)
                    result[name + suffix] = view(array) if view and not suffix and len(array.shape) == 4 else array
            elif ragged:
                rows = [wrap(row) for row in batch.rows(i_field)]
                result[name] = [view(row) for row in rows] if view else rows
            else:
                array = wrap(batch.tensor(i_field))
                result[name] = view(array) if view else array
    mixed = batch.mix() if labels else None
    if labels and mixed:
        labels.mix(mixed, result)
    result["index"] = wrap(batch.index())
    return result
