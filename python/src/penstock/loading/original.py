"""From the delivered picture back to the original one: boxes, keypoints and masks, by the matrices of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base import options
from ..base.public import public
from ..errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = ["to_original"]

KINDS = ("boxes", "keypoints", "masks")
_GEOMETRY, _SIZE = "_geometry", "_original_size"


def to_original(
    values: Any,
    batch: Mapping[str, Any],
    *,
    kind: str | None = None,
    image: str | None = None,
    view: int | None = None,
    clip: bool = True,
    fill: float = 0,
) -> list[Any]:
    """Takes boxes, keypoints or masks on the delivered pictures of a batch back to the original pictures.

    Only the geometry of the batch is used, which a loader with ``Annotations(geometry=True)`` puts there. The original picture
    is the one that the operations got: upright, or as it is stored with ``Decoding(ignore_orientation=True)``. Coordinates are
    continuous, pixel i covers i to i + 1.

    Args:
        values: for each row of the batch an array or tensor, as a list or stacked: boxes (n, 4), x0, y0, x1, y1; keypoints
            (..., 3) or (..., 2), x, y and whatever follows, which stays; masks (H, W) of classes, or (n, H, W) of instances.
        batch: with ``NAME_geometry`` and ``NAME_original_size`` of its rows.
        kind: "boxes", "keypoints" or "masks". None: by the shape of a row: (n, 4) are boxes, (..., 3) and (..., 2) keypoints,
            others masks.
        image: NAME of the image or the views. None: the only one with a geometry, or "image".
        view: number of the view, for views with an axis of their own.
        clip: boxes are clipped to the original picture.
        fill: what masks get where the delivered picture shows nothing.

    Returns:
        a list of arrays, one for each row, of the kind, dtype and device that came in. A box becomes the smallest upright one
        around its four moved corners: with rotations, shears and perspectives it is larger than the box that it comes from. A
        pixel of a mask is that of the delivered mask where its centre is shown.

    Raises:
        ArgumentError: the batch has no geometry, or not as many rows.
    """
    import numpy as np

    name = _name(batch, image)
    matrices, sizes = _host(batch[name + _GEOMETRY]), _host(batch[name + _SIZE])
    if matrices.ndim == 4:
        if view is None or not 0 <= view < matrices.shape[1]:
            raise ArgumentError(f"{name!r} has {matrices.shape[1]} views: say which, view=0 to {matrices.shape[1] - 1}")
        matrices = matrices[:, view]
    elif view is not None:
        raise ArgumentError(f"{name!r} has no axis of views: leave view out")
    if len(values) != len(matrices):
        raise ArgumentError(
            f'{len(values)} values, and the batch has {len(matrices)} rows: give a list with one array a row (not ragged="offsets")'
        )
    if kind is not None:
        options.choice("kind", kind, KINDS)
    found = []
    for row, matrix, size in zip(values, matrices.astype(np.float64), sizes.tolist(), strict=True):
        if len(row.shape) < 2:
            raise ArgumentError(f"a row has the shape {tuple(row.shape)}: boxes are (n, 4), keypoints (n, 3), masks (H, W)")
        kind_of_row = kind or _kind(tuple(row.shape))
        if kind_of_row == "masks":
            found.append(_mask(row, matrix, size, fill))
        elif kind_of_row == "boxes":
            if row.shape[-1] != 4:
                raise ArgumentError(f"boxes are (n, 4), not {tuple(row.shape)}")
            found.append(_like(row, _boxes(_host(row), np.linalg.inv(matrix), size if clip else None)))
        else:
            found.append(_like(row, _points(_host(row), np.linalg.inv(matrix))))
    return found


def _name(batch: Mapping[str, Any], image: str | None) -> str:
    names = [key[: -len(_GEOMETRY)] for key in batch if key.endswith(_GEOMETRY) and key[: -len(_GEOMETRY)] + _SIZE in batch]
    if image is None and len(names) > 1 and "image" in names:
        return "image"
    if image in names:
        return str(image)
    if image is not None:
        raise ArgumentError(f"the batch has no {image + _GEOMETRY!r}, but geometries of {', '.join(names) or 'nothing'}")
    if not names:
        raise ArgumentError("the batch has no geometry: give the loader annotations=ps.Annotations(geometry=True)")
    if len(names) > 1:
        raise ArgumentError(f"the batch has geometries of {', '.join(names)}: say which, image={names[0]!r}")
    return names[0]


def _kind(shape: Sequence[int]) -> str:
    if len(shape) == 2 and shape[-1] == 4:
        return "boxes"
    return "keypoints" if shape[-1] in (2, 3) else "masks"


def _host(array: Any) -> Any:
    """Returns a numpy array of an array or a tensor."""
    import numpy as np

    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def _like(given: Any, values: Any) -> Any:
    """Returns a numpy array as what `given` is."""
    if not hasattr(given, "detach"):
        return values.astype(given.dtype if given.dtype.kind == "f" else "float32")
    import torch

    dtype = given.dtype if given.dtype.is_floating_point else torch.float32
    return torch.from_numpy(values).to(given.device, dtype)


def _moved(xy: Floats, matrix: Floats) -> Floats:
    """Applies a matrix to points (..., 2)."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):  # points on the horizon of a perspective
        moved = xy @ matrix[:2, :2].T + matrix[:2, 2]
        found: Floats = moved / (xy @ matrix[2, :2] + matrix[2, 2])[..., None]
    return found


def _boxes(boxes: Any, inverse: Floats, size: Sequence[int] | None) -> Floats:
    import numpy as np

    corners = boxes.astype(np.float64)[..., [0, 1, 2, 1, 0, 3, 2, 3]].reshape(*boxes.shape[:-1], 4, 2)
    moved = _moved(corners, inverse)
    low, high = moved.min(-2), moved.max(-2)
    if size is not None:
        limit = np.array(size[::-1], np.float64)
        low, high = np.clip(low, 0, limit), np.clip(high, 0, limit)
    return np.concatenate([low, high], -1)


def _points(points: Any, inverse: Floats) -> Floats:
    import numpy as np

    found: Floats = points.astype(np.float64)
    found[..., :2] = _moved(found[..., :2], inverse)
    return found


def _mask(mask: Any, matrix: Floats, size: Sequence[int], fill: float) -> Any:
    """Asks, for each pixel of the original, which pixel of the mask shows its centre."""
    import numpy as np

    height, width = mask.shape[-2:]
    x, y = np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5
    if matrix[0, 1] == matrix[1, 0] == matrix[2, 0] == matrix[2, 1] == 0:
        at_x = (matrix[0, 0] * x + matrix[0, 2])[None, :] / matrix[2, 2]
        at_y = (matrix[1, 1] * y + matrix[1, 2])[:, None] / matrix[2, 2]
    else:
        places = _moved(np.stack(np.meshgrid(x, y), -1), matrix)
        at_x, at_y = places[..., 0], places[..., 1]
    is_shown = (at_x >= 0) & (at_x < width) & (at_y >= 0) & (at_y < height)
    i_x = np.clip(np.nan_to_num(at_x), 0, width - 1).astype(np.int64)
    i_y = np.clip(np.nan_to_num(at_y), 0, height - 1).astype(np.int64)
    if not hasattr(mask, "detach"):
        found = np.asarray(mask)[..., i_y, i_x]
        found[..., ~is_shown] = fill
        return found
    import torch

    device = mask.device
    taken = mask[..., torch.from_numpy(i_y).to(device), torch.from_numpy(i_x).to(device)]
    taken[..., torch.from_numpy(~is_shown).to(device)] = fill
    return taken


public(__name__, "penstock")
