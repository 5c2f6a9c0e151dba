"""Maps boxes, keypoints and masks from the delivered picture back to the original one, with the matrices of a batch."""

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

__all__ = ["tiles_of", "to_original"]

KINDS = ("boxes", "keypoints", "masks")
_GEOMETRY, _SIZE, _TILES, _TILE, _BEHIND = "_geometry", "_original_size", "_tiles", "_tile", "_mosaic_geometry"


def to_original(
    values: Any,
    batch: Mapping[str, Any],
    *,
    kind: str | None = None,
    image: str | None = None,
    view: int | None = None,
    tiles: Any = None,
    clip: bool = True,
    fill: float = 0,
) -> list[Any]:
    """Maps boxes, keypoints or masks on the delivered pictures of a batch back to the original pictures.

    It only uses the geometry in the batch, which a loader with ``Annotations(geometry=True)`` adds. The original picture is the
    input of the operations: upright, or as stored with ``Decoding(ignore_orientation=True)``. Coordinates are continuous; pixel i
    covers i to i + 1.

    A row of a loader with ``Mosaic`` shows several originals, one on each tile. Each value is mapped to the original of its tile,
    whose sample is in ``NAME_tile_index``. :func:`tiles_of` describes how the tile of a value is found.

    Args:
        values: for each row of the batch an array or tensor, as a list or stacked: boxes (n, 4), x0, y0, x1, y1; keypoints (..., 3)
            or (..., 2), x, y and further values, which stay; masks (H, W) of classes, or (n, H, W) of instances.
        batch: a batch with ``NAME_geometry`` and ``NAME_original_size`` of its rows.
        kind: "boxes", "keypoints" or "masks". None: decided by the shape of a row: (n, 4) are boxes, (..., 3) and (..., 2)
            keypoints, all others masks.
        image: NAME of the image or of the views. None: the only one with a geometry, or "image".
        view: number of the view, if the views have their own axis.
        tiles: for each row the numbers of tiles, int (n), of its boxes, instances of keypoints, or masks. None: :func:`tiles_of`.
        clip: clip boxes to the original picture.
        fill: value of mask pixels that the delivered picture does not show.

    Returns:
        a list of arrays, one for each row, with the kind, dtype and device of the input. A box becomes the smallest upright box
        around its four mapped corners; with rotations, shears and perspectives it is larger than the original box. A pixel of a
        mask gets the value of the delivered mask at the place of its centre. With ``Mosaic``, a row of masks is a list, because
        originals differ in size: n masks for (n, H, W), each of its tile's original, and one mask per tile for (H, W).

    Raises:
        ArgumentError: the batch has no geometry, or another number of rows, or `tiles` does not fit or names a tile that shows
            nothing.
    """
    geometry = _Geometry(values, batch, image, view)
    if kind is not None:
        options.choice("kind", kind, KINDS)
    if tiles is not None and geometry.rectangles is None:
        raise ArgumentError("the batch has no tiles: they are those of loaders with Mosaic; leave tiles out")
    if tiles is not None and len(tiles) != len(values):
        raise ArgumentError(f"tiles has {len(tiles)} rows, and values {len(values)}")
    given = tiles if tiles is not None else geometry.own_tiles(values)
    found = []
    for r, row in enumerate(values):
        place = geometry.place(r)
        kind_of_row = _checked_kind(row, kind)
        if place.rectangles is None:
            found.append(_back(row, kind_of_row, place, 0, clip, fill))
        else:
            given_of_row = None if given is None else _host(given[r])
            if tiles is not None:
                _check_shown(given_of_row, place.rectangles, r)
            found.append(_back_by_tiles(row, kind_of_row, place, given_of_row, clip, fill))
    return found


def tiles_of(values: Any, batch: Mapping[str, Any], *, kind: str | None = None, image: str | None = None) -> list[Any]:
    """Returns the tile of a mosaic that each box, instance of keypoints or mask comes from.

    For values that are an entry of the batch, such as ``batch["boxes"]``, the batch has the tiles in ``boxes_tile``. For others,
    such as a network's predictions, it is the tile under the centre. The centre of a box is its middle. The centre of an instance
    of keypoints (n, k, 2 or 3) is the mean of its points; with three numbers a point, of the points whose third number is above 0,
    if there are any. For keypoints (n, 2 or 3), each point is a centre. A mask (n, H, W) belongs to the tile that shows most of its
    pixels other than 0. A centre outside of the picture belongs to the nearest tile, one on the border of two to the right or lower
    tile.

    Args:
        values: as for :func:`to_original`, but without masks (H, W), which cover all tiles.
        batch: a batch of a loader with ``Mosaic`` and ``Annotations(geometry=True)``.
        kind: as for :func:`to_original`.
        image: NAME of the image. None: the only one with a geometry, or "image".

    Returns:
        a list of arrays or tensors, int64 (n), one for each row: 0 is the top left tile, 1 top right, 2 bottom left, 3 bottom
        right. ``batch["image_tile_index"][row, tile]`` is the number of the sample on that tile.

    Raises:
        ArgumentError: the batch has no tiles, or another number of rows.
    """
    geometry = _Geometry(values, batch, image, None)
    if geometry.rectangles is None:
        raise ArgumentError("the batch has no tiles: give the loader mix=T.Mosaic() and annotations=ps.Annotations(geometry=True)")
    given, found = geometry.own_tiles(values), []
    for r, row in enumerate(values):
        kind_of_row = _checked_kind(row, kind)
        if kind_of_row == "masks" and len(row.shape) != 3:
            raise ArgumentError(f"masks are (n, H, W), not {tuple(row.shape)}: a mask (H, W) lies on all tiles")
        numbers = _tiles_of_row(row, kind_of_row, geometry.place(r), None if given is None else _host(given[r]))
        found.append(_as_given(row, numbers))
    return found


class _Place:
    """The originals of one row: matrices (T, 3, 3), sizes (T, 2), and for a mosaic the rectangles of its tiles (T, 4)."""

    def __init__(self, matrices: Floats, sizes: Any, rectangles: Any, behind: Floats | None) -> None:
        import numpy as np

        self.matrices, self.sizes, self.rectangles = matrices, sizes.tolist(), rectangles
        self._before: Floats | None = None
        if behind is not None and (behind != np.eye(3)).any():
            self._before = np.linalg.inv(behind).astype(np.float64)

    def on_mosaic(self, places: Floats) -> Floats:
        """Maps points (..., 2) on the delivered picture to the mosaic, by undoing the operations that came after the mosaic."""
        return places if self._before is None else _moved(places, self._before)

    def tiles_at(self, places: Floats) -> Any:
        """Returns the tiles at points (..., 2) on the delivered picture, int64. A point outside all tiles gets the nearest tile."""
        import numpy as np

        at = self.on_mosaic(places)
        n, edges = len(self.rectangles), (1,) * (at.ndim - 1)
        low, high = (self.rectangles[:, part].reshape(n, *edges, 2) for part in (slice(0, 2), slice(2, 4)))
        beyond = np.maximum(np.maximum(low - at, at - high), 0)
        far = np.where((high > low).all(-1), np.nan_to_num(np.square(beyond).sum(-1), nan=np.inf), np.inf)
        nearest = n - 1 - np.argmin(far[::-1], 0)
        first = np.argmax((high > low).all(-1).reshape(n))  # used for points that are NaN
        return np.where(np.isfinite(far).any(0), nearest, first)


class _Geometry:
    """The geometry of a batch's rows.

    Attributes:
        rectangles: rectangles of the tiles, int64 (N, T, 4), if rows may be mosaics. None: each row shows one picture.
    """

    def __init__(self, values: Any, batch: Mapping[str, Any], image: str | None, view: int | None) -> None:
        import numpy as np

        self._batch, name = batch, _name(batch, image)
        matrices, sizes = _host(batch[name + _GEOMETRY]), _host(batch[name + _SIZE])
        self.rectangles = _host(batch[name + _TILES]) if name + _TILES in batch else None
        if self.rectangles is None and matrices.ndim == 4:
            if view is None or not 0 <= view < matrices.shape[1]:
                raise ArgumentError(f"{name!r} has {matrices.shape[1]} views: say which, view=0 to {matrices.shape[1] - 1}")
            matrices = matrices[:, view]
        elif view is not None:
            raise ArgumentError(f"{name!r} has no axis of views: leave view out")
        if len(values) != len(matrices):
            raise ArgumentError(
                f"{len(values)} values, and the batch has {len(matrices)} rows: give a list with one array a row "
                '(not ragged="offsets")'
            )
        if self.rectangles is None:
            matrices, sizes = matrices[:, None], sizes[:, None]
        self._matrices, self._sizes = matrices.astype(np.float64), sizes
        is_behind = self.rectangles is not None and name + _BEHIND in batch
        self._behind = _host(batch[name + _BEHIND]).astype(np.float64) if is_behind else None

    def place(self, row: int) -> _Place:
        rectangles, behind = (None if part is None else part[row] for part in (self.rectangles, self._behind))
        return _Place(self._matrices[row], self._sizes[row], rectangles, behind)

    def own_tiles(self, values: Any) -> Any:
        """Returns the tiles that the batch holds for one of its own entries, or None."""
        if self.rectangles is None:
            return None
        for name, entry in self._batch.items():
            if entry is values and name + _TILE in self._batch:
                return self._batch[name + _TILE]
        return None


def _checked_kind(row: Any, kind: str | None) -> str:
    if len(row.shape) < 2:
        raise ArgumentError(f"a row has the shape {tuple(row.shape)}: boxes are (n, 4), keypoints (n, 3), masks (H, W)")
    found = kind or _kind(tuple(row.shape))
    if found == "boxes" and row.shape[-1] != 4:
        raise ArgumentError(f"boxes are (n, 4), not {tuple(row.shape)}")
    return found


def _back(row: Any, kind: str, place: _Place, tile: int, clip: bool, fill: float) -> Any:
    """Maps a row that lies wholly on one tile back to the tile's original."""
    import numpy as np

    matrix, size = place.matrices[tile], place.sizes[tile]
    if kind == "masks":
        return _mask(row, place, tile, fill)
    if kind == "boxes":
        return _like(row, _boxes(_host(row), np.linalg.inv(matrix), size if clip else None))
    return _like(row, _points(_host(row), np.linalg.inv(matrix)))


def _back_by_tiles(row: Any, kind: str, place: _Place, given: Any, clip: bool, fill: float) -> Any:
    """Maps a row of a mosaic back: each value to the original of its tile."""
    import numpy as np

    n_tiles = len(place.matrices)
    if kind == "masks" and len(row.shape) == 2:
        return [_back(row, kind, place, tile, clip, fill) for tile in range(n_tiles)]
    numbers = _tiles_of_row(row, kind, place, given)
    if kind == "masks":
        return [_back(row[i], kind, place, tile, clip, fill) for i, tile in enumerate(numbers.tolist())]
    values = _host(row)
    found = np.zeros(values.shape, np.float64)
    for tile in range(n_tiles):
        found[numbers == tile] = _back(values[numbers == tile].astype(np.float64), kind, place, tile, clip, fill)
    return _like(row, found)


def _check_shown(given: Any, rectangles: Any, r: int) -> None:
    """Raises an error if the caller names a tile that shows nothing. A row that is no mosaic has only tile 0."""
    import numpy as np

    shown = np.flatnonzero((rectangles[:, 2:] > rectangles[:, :2]).all(-1)).tolist()
    unshown = [tile for tile in range(len(rectangles)) if tile not in shown]
    if np.isin(given, unshown).any():
        raise ArgumentError(f"tiles of row {r} name one that shows nothing there: {', '.join(map(str, shown))} do")


def _tiles_of_row(row: Any, kind: str, place: _Place, given: Any) -> Any:
    """Returns the tiles of a row's values, int64 (n): the given ones, and for -1 the tile at the value's place."""
    import numpy as np

    values = _host(row)
    if given is None:
        given = np.full(len(values), -1)
    if given.shape != (len(values),) or given.dtype.kind not in "iu":
        raise ArgumentError(f"tiles are whole numbers of shape ({len(values)},) for a row of {len(values)}, not {given.dtype} "
                            f"{given.shape}")  # fmt: skip
    if len(given) and not (given.min() >= -1 and given.max() < len(place.matrices)):
        raise ArgumentError(f"tiles are 0 to {len(place.matrices) - 1}, not {given.min()} to {given.max()}")
    found = given.astype(np.int64)
    if (found < 0).any():
        found[found < 0] = _tiles_by_place(values[found < 0], kind, place)
    return found


def _tiles_by_place(values: Any, kind: str, place: _Place) -> Any:
    import numpy as np

    if kind == "masks":
        rectangles = place.rectangles
        tiles = place.tiles_at(np.stack(np.meshgrid(np.arange(values.shape[2]) + 0.5, np.arange(values.shape[1]) + 0.5), -1))
        shown = [((values != 0) & (tiles == tile)).sum((1, 2)) for tile in range(len(rectangles))]
        return np.argmax(np.where((rectangles[:, 2:] > rectangles[:, :2]).all(-1), np.stack(shown, -1), -1), -1)
    values = values.astype(np.float64)
    if kind == "boxes":
        centres = (values[..., :2] + values[..., 2:]) / 2
    elif values.ndim == 2:
        centres = values[..., :2]
    else:
        centres = _middles(values.reshape(len(values), -1, values.shape[-1]))
    return place.tiles_at(centres)


def _middles(points: Floats) -> Floats:
    """Returns the mean point of each instance (n, k, 2 or 3): of its visible points, if it has any."""
    import numpy as np

    counts = np.ones(points.shape[:2])
    if points.shape[-1] == 3:
        counts = np.where((points[..., 2] > 0).any(-1, keepdims=True), points[..., 2] > 0, counts)
    found: Floats = (points[..., :2] * counts[..., None]).sum(1) / np.maximum(counts.sum(1), 1)[:, None]
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
    """Converts an array or a tensor to a numpy array."""
    import numpy as np

    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def _like(given: Any, values: Any) -> Any:
    """Converts a numpy array to the type of `given`: array or tensor, its dtype and device."""
    if not hasattr(given, "detach"):
        return values.astype(given.dtype if given.dtype.kind == "f" else "float32")
    import torch

    dtype = given.dtype if given.dtype.is_floating_point else torch.float32
    return torch.from_numpy(values).to(given.device, dtype)


def _as_given(given: Any, numbers: Any) -> Any:
    """Converts whole numbers to the type of `given`: an array, or a tensor on the same device."""
    if not hasattr(given, "detach"):
        return numbers
    import torch

    return torch.from_numpy(numbers).to(given.device)


def _moved(xy: Floats, matrix: Floats) -> Floats:
    """Applies a 3x3 matrix to points (..., 2)."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):  # points on the horizon of a perspective are divided by 0
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


def _within(places: Floats, rectangle: Sequence[int]) -> Any:
    """Whether points (..., 2) lie within the rectangle x0, y0, x1, y1."""
    left, top, right, bottom = rectangle
    x, y = places[..., 0], places[..., 1]
    return (x >= left) & (x < right) & (y >= top) & (y < bottom)


def _mask(mask: Any, place: _Place, tile: int, fill: float) -> Any:
    """Samples the mask for each pixel of a tile's original, at the place where the delivered picture shows the pixel's centre."""
    import numpy as np

    matrix, size = place.matrices[tile], place.sizes[tile]
    height, width = mask.shape[-2:]
    x, y = np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5
    if matrix[0, 1] == matrix[1, 0] == matrix[2, 0] == matrix[2, 1] == 0:
        x, y = (matrix[0, 0] * x + matrix[0, 2]) / matrix[2, 2], (matrix[1, 1] * y + matrix[1, 2]) / matrix[2, 2]
        at = np.stack(np.meshgrid(x, y), -1)
    else:
        at = _moved(np.stack(np.meshgrid(x, y), -1), matrix)
    is_shown = _within(at, (0, 0, width, height))
    if place.rectangles is not None:
        is_shown &= _within(place.on_mosaic(at), place.rectangles[tile].tolist())
    at = np.nan_to_num(at)
    i_x = np.clip(at[..., 0], 0, width - 1).astype(np.int64)
    i_y = np.clip(at[..., 1], 0, height - 1).astype(np.int64)
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
