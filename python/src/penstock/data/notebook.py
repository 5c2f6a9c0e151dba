"""Shows samples, batches and statistics in notebooks: as tables, pictures and sound players.

:class:`Sample`, :class:`Batch` and :class:`Stats` are dicts with added methods for display. Pictures are PNGs of at most 192 pixels
a side inside the HTML, and sounds are WAVs of at most 96 kB. Masks are tinted. Boxes and keypoints are drawn over the picture as
SVG, with their class names. Values that cannot be shown as a picture (another layout, memory of a GPU) appear only in the table.
Displaying never fails. Texts of the data are escaped and cut, and the number of rows, shapes and pictures is limited.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import sounds, stats_page
from .markup import COLORS, ROWS, as_array, color, escape, framed, plain, table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]

SIDE = 192  # pixels of the longer side of a shown picture
MOST = 8  # pictures that are shown
SHAPES = 100  # boxes or keypoints that are drawn on one picture
_BOX_LABELS = ("labels", "box_labels", "classes", "names", "categories", "category")


@dataclass(frozen=True)
class About:
    """What a data set or a loader knows about fields but their arrays do not contain.

    class_names: of the fields with labels. rates: samples/s of sounds, by field. label: the int field that captions show.
    """

    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)
    label: str | None = None


_NOTHING = About()


def png(pixels: Pixels) -> bytes:
    """Encodes uint8 (H, W, 3) as PNG."""
    height, width = pixels.shape[:2]

    def chunk(tag: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _to_rgb(image: Any) -> Pixels | None:
    """Converts one image in either layout to uint8 (H, W, 3). Floats within 0..1 are multiplied by 255. Other values that are not
    uint8 are stretched to the full range."""
    import numpy as np

    array = as_array(image)
    if array is not None and array.ndim == 4 and len(array):
        array = array[0]  # the first of several views
    if array is None or array.ndim not in (2, 3) or array.size == 0:
        return None
    if array.ndim == 2:
        array = array[..., None]
    elif array.shape[-1] > 4 and array.shape[0] <= 4:
        array = array.transpose(1, 2, 0)
    if array.shape[-1] > 4:
        return None
    rgb: Pixels
    array = array[..., :3] if array.shape[-1] >= 3 else array[..., :1].repeat(3, -1)
    if array.dtype == np.uint8:
        rgb = np.ascontiguousarray(array)
        return rgb
    values = np.nan_to_num(array.astype(np.float32))
    low, high = float(values.min()), float(values.max())
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    rgb = ((values - low) * (255.0 / ((high - low) or 1.0)) + 0.5).clip(0, 255).astype(np.uint8)
    return rgb


def _tinted(rgb: Pixels, mask: Any) -> Pixels:
    """Returns the picture, tinted by the labels of a mask. Label 0 is not tinted."""
    import numpy as np

    labels = as_array(mask)
    if labels is None or labels.squeeze().shape != rgb.shape[:2]:
        return rgb
    labels = labels.squeeze().astype(np.int64)
    colors = np.array(COLORS, np.uint16)[(labels - 1) % len(COLORS)]
    colors[labels == 255] = 150
    mixed = ((rgb.astype(np.uint16) + colors) // 2).astype(np.uint8)
    result: Pixels = np.where((labels != 0)[..., None], mixed, rgb)
    return result


def _smaller(rgb: Pixels) -> Pixels:
    """Shrinks the picture by a whole factor so that it fits into SIDE."""
    n = -(-max(rgb.shape[:2]) // SIDE)
    height, width = (max(1, side // n) for side in rgb.shape[:2])
    if n == 1 or min(rgb.shape[:2]) < n:
        return rgb[::n, ::n]
    blocks = rgb[: height * n, : width * n].reshape(height, n, width, n, 3)
    means: Pixels = blocks.mean((1, 3)).astype(rgb.dtype)
    return means


def _shapes(boxes: Any, points: Any, labels: Any, size: tuple[int, int], scale: float) -> str:
    """Returns boxes and keypoints as SVG of the shown picture's size."""
    height, width = (max(1, round(side * scale)) for side in size)
    parts = []
    names = [] if labels is None else [str(label) for label in labels]
    known = sorted(set(names))
    for i, (x0, y0, x1, y1) in enumerate([] if boxes is None else boxes[:SHAPES]):
        if not (x1 > x0 and y1 > y0):
            continue
        name = names[i] if len(names) == len(boxes) else ""
        hue = color(known.index(name) if name else i)
        x, y = x0 * scale, y0 * scale
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{(x1 - x0) * scale:.1f}" height="{(y1 - y0) * scale:.1f}" '
            f'fill="none" stroke="{hue}" stroke-width="2"/>'
        )
        if name:
            parts.append(
                f'<text x="{max(x, 0) + 3:.1f}" y="{max(y, 0) + 11:.1f}" font-size="12" font-weight="600" fill="white" '
                f'stroke="black" stroke-width="3" paint-order="stroke">{escape(plain(name, 24))}</text>'
            )
    for i, (x, y, visibility) in enumerate([] if points is None else points[:SHAPES]):
        fill = color(i) if visibility > 0 else "none"
        parts.append(f'<circle cx="{x * scale:.1f}" cy="{y * scale:.1f}" r="3" fill="{fill}" stroke="{color(i)}"/>')
    if not parts:
        return ""
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="position:absolute;left:0;top:0;overflow:hidden">{"".join(parts)}</svg>'
    )


def figure(image: Any, caption: str, mask: Any = None, boxes: Any = None, points: Any = None, labels: Any = None) -> str:
    """Returns HTML of one picture with its mask, boxes, points and caption; "" if it cannot be shown."""
    rgb = _to_rgb(image)
    if rgb is None:
        return ""
    small = _smaller(_tinted(rgb, mask) if mask is not None else rgb)
    height, width = small.shape[:2]
    data = base64.b64encode(png(small)).decode()
    shapes = _shapes(as_array(boxes), as_array(points), labels, (rgb.shape[0], rgb.shape[1]), height / rgb.shape[0])
    return (
        '<figure style="display:inline-block;margin:4px;vertical-align:top;text-align:center">'
        f'<div style="position:relative;width:{width}px;height:{height}px">'
        f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="{escape(caption)}"/>{shapes}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _short(value: Any) -> str:
    if isinstance(value, str):
        return plain(value)
    # repr() would format the whole value, even a list as long as the data set.
    if isinstance(value, (list, tuple, dict, set)) and len(value) > ROWS:
        return f"{len(value):,} values"
    return plain(repr(value))


def _describe(value: Any) -> tuple[str, str]:
    """Describes a field's value in words: its kind, and its contents."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None:
        kind = f"{str(dtype).rpartition('.')[2]} {tuple(shape)}"
        array = as_array(value) if len(shape) <= 1 else None
        return kind, "" if array is None else _short(", ".join(str(part) for part in array.ravel()[:12]))
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value):,} bytes", ""
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape"):
        return f"{len(value)} arrays", _short(", ".join(str(tuple(part.shape)) for part in value[:6]))
    return type(value).__name__, _short(value)


def _named(names: Sequence[str] | None, label: Any) -> str:
    """Returns the name of the class with this number. Without a name, returns the number or text itself."""
    if names is not None and not isinstance(label, str):
        number = int(label)
        return names[number] if 0 <= number < len(names) else str(number)
    return str(label)


def _box_labels(values: Mapping[str, Any], row: int | None, about: About) -> list[str] | None:
    for name in _BOX_LABELS:
        if name in values:
            value = values[name] if row is None else values[name][row]
            labels = value if isinstance(value, list) else as_array(value)
            return None if labels is None else [_named(about.class_names.get(name), label) for label in labels[:SHAPES]]
    return None


class _Fields(dict[str, Any]):
    """A dict of a sample's or batch's fields that knows their types for display."""

    kinds: Mapping[str, str]
    receipt: object = None  # the Receipt of the iterator that delivered the batch
    about: About = _NOTHING

    # Libraries that rebuild a dict with other values pass only the values.
    def __init__(self, values: Any = (), kinds: Mapping[str, str] | None = None, title: str = "", about: About = _NOTHING) -> None:
        super().__init__(values)
        self.kinds, self.title, self.about = kinds or {}, title, about
        _register_trees()

    def __repr__(self) -> str:
        """Describes each field in one line, because the arrays of a batch would fill pages. ``dict(batch)`` prints the values."""
        lines = [f"  {plain(str(name), 40)}: {' '.join(part for part in _describe(value) if part)}" for name, value in self.items()]
        more = [f"  and {len(lines) - ROWS:,} more"] if len(lines) > ROWS else []
        title = f"({plain(self.title)})" if self.title else ""
        return "\n".join([type(self).__name__ + title, *lines[:ROWS], *more])

    def _first(self, kind: str) -> str | None:
        return next((name for name in self if self.kinds.get(name) == kind), None)

    def _figure(self, caption: str, row: int | None) -> str:
        """Returns HTML of the sample's picture, or of one row of a batch."""
        image, mask = self._first("image"), self._first("mask")
        names = {"mask": mask, "boxes": self._first("boxes"), "points": self._first("keypoints")}
        if image is None:
            image, names["mask"] = mask, None
        if image is None:
            return ""
        pixels = self[image] if row is None else self[image][row]
        try:
            given = {key: self[name] if row is None else self[name][row] for key, name in names.items() if name is not None}
            return figure(pixels, caption, **given, labels=_box_labels(self, row, self.about))
        except Exception:  # the user replaced boxes, masks or points by other values
            return figure(pixels, caption)

    def _sound(self, caption: str, row: int | None) -> str:
        """Returns HTML of a player for the sample's sound, or for one row of a batch."""
        name = self._first("audio")
        if name is None:
            return ""
        return sounds.player(self[name] if row is None else self[name][row], caption, self.about.rates.get(name))

    def _shown(self, caption: str, row: int | None) -> str:
        return self._figure(caption, row) + self._sound(caption, row)

    def _pictures(self) -> str:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        try:
            pictures = self._pictures()
        except Exception:  # the user replaced the values
            pictures = ""
        try:
            rows = [(plain(str(name)), self.kinds.get(name, ""), *_describe(value)) for name, value in self.items()]
            return framed(pictures + table(plain(self.title, 200), ("field", "type", "value", ""), rows))
        except Exception as error:  # raised by a value that cannot be described
            return f"<div>{escape(plain(f'{type(self).__name__}: {error}', 200))}</div>"


class Sample(_Fields):
    """A decoded sample: a dict of its fields' values. Notebooks show it as a picture or player, and a table."""

    def _pictures(self) -> str:
        label = self.about.label
        return self._shown("" if label is None or label not in self else caption(self.about, label, self[label]), None)


class Batch(_Fields):
    """A batch: a dict of its fields' arrays and "index". Notebooks show it as pictures and a table."""

    def _pictures(self) -> str:
        numbers = as_array(self.get("index"))
        if numbers is None:
            return ""
        label = self._first("int")
        captions = []
        for row, number in enumerate(numbers[:MOST].tolist()):
            labels = as_array(self[label]) if label is not None else None
            text = "" if labels is None or labels.ndim != 1 else f", {caption(self.about, label, labels[row])}"
            captions.append(f"{number}{text}")
        more = len(numbers) - MOST
        shown = "".join(self._shown(text, row) for row, text in enumerate(captions))
        return shown + (f"<p>and {more} more</p>" if more > 0 and shown else "")


def caption(about: About, label: str | None, number: Any) -> str:
    """Returns the name of the class for a caption, or "label 3" if classes have no names."""
    if label is None or number is None:
        return ""
    names = about.class_names.get(label)
    return plain(_named(names, number), 24) if names is not None else f"{plain(label, 24)} {int(number)}"


_registered: set[str] = set()


def _register_trees() -> None:
    """Registers samples and batches with the tree functions of torch and JAX, if they are imported, so that these functions treat
    them like plain dicts."""
    for name, register in (("torch.utils._pytree", "register_pytree_node"), ("jax.tree_util", "register_pytree_node")):
        module = sys.modules.get(name)
        if module is None or name in _registered:
            continue
        _registered.add(name)
        for kind in (Sample, Batch):
            try:
                getattr(module, register)(
                    kind,
                    lambda fields: (list(fields.values()), (tuple(fields), tuple(fields.kinds.items()))),
                    *_unflattens(kind, name),
                )
            except (AttributeError, TypeError, ValueError):
                continue  # another version of that library: it treats samples and batches as leaves


def _unflattens(kind: type[_Fields], name: str) -> tuple[Any, ...]:
    """Returns the functions that make `kind` again: torch calls it with (values, context), JAX with (context, values)."""

    def make(values: Any, context: Any) -> _Fields:
        keys, kinds = context
        return kind(zip(keys, values, strict=True), dict(kinds))

    return (make,) if name.startswith("torch") else (lambda context, values: make(values, context),)


class Stats(dict[str, Any]):
    """The statistics of a loader: a dict. Notebooks show it as one screen with details on demand."""

    def _repr_html_(self) -> str:
        return stats_page.page(self)
