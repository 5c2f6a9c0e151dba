"""A contact sheet: draws pictures, masks, boxes, points and captions with Pillow."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ..data.markup import COLORS
from ..errors import LimitError
from .output import shown
from .samples import Place, Tile

_Color = tuple[int, int, int]

_GAP, _CAPTION = 8, 36  # pixels: the gap between cells, and the height of the caption below a picture
_PIXELS_MOST = 1 << 28
_WHITE, _GREY, _PAPER, _RED, _BLACK = (240, 240, 240), (160, 160, 160), (32, 32, 36), (255, 96, 96), (0, 0, 0)
_CELL, _BAD_CELL, _IGNORED = (20, 20, 22), (64, 16, 16), (150, 150, 150)
_SHADES = (1.0, 0.69, 0.0, 0.5, 0.84)  # brightness of each round through COLORS; 0: mixed with white half and half
_TEXT_MOST = 300  # longest text that is drawn, in characters
_FAR = 100_000  # pixels; box coordinates are clipped to this range


def palette(i: int) -> _Color:
    """Returns the colour of a class, an instance or a box. Neighbouring numbers get different colours. The first number is 0."""
    hue, shade = COLORS[i % len(COLORS)], _SHADES[i // len(COLORS) % len(_SHADES)]
    red, green, blue = (int(part * shade) if shade else part + (255 - part) // 2 for part in hue)
    return red, green, blue


def _font(size: int) -> Any:
    """Returns Pillow's default font in this size. Pillow before 10.1 or without FreeType has one bitmap font of one size."""
    try:
        return ImageFont.load_default(size)
    except (ImportError, TypeError):
        return ImageFont.load_default()


class Sheet:
    """A PNG with n cells, which are drawn one after another.

    side: largest side of a picture in pixels. columns: cells in a row; 0: as many as rows. LimitError: the sheet would be too
    large.
    """

    def __init__(self, n: int, side: int, columns: int) -> None:
        self._side = side
        self._columns = min(n, columns or math.isqrt(n - 1) + 1)
        rows = -(-n // self._columns)
        self.width = self._columns * (side + _GAP) + _GAP
        self.height = rows * (side + _GAP + _CAPTION) + _GAP
        if self.width * self.height > _PIXELS_MOST:
            size = f"{self.width}x{self.height}"
            raise LimitError(f"the sheet would have {size} pixels: take fewer samples, or a smaller --size than {side}")
        self._image = Image.new("RGB", (self.width, self.height), _PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._large, self._small = _font(15), _font(11)

    def png(self) -> bytes:
        """Returns the sheet as the bytes of a PNG."""
        out = io.BytesIO()
        self._image.save(out, "PNG")
        return out.getvalue()

    def draw(self, i: int, tile: Tile, more: str = "") -> None:
        """Draws a sample into cell i, with a caption: number of the sample, `more` and class, and on the next line the sample's
        name."""
        cell = Place(_GAP + i // self._columns * (self._side + _CAPTION + _GAP), _GAP + i % self._columns * (self._side + _GAP),
                     self._side, self._side)  # fmt: skip
        corners = (cell.x, cell.y, cell.x + cell.width - 1, cell.y + cell.height - 1)
        if tile.error is None:
            self._draw.rectangle(corners, _CELL)
            tile.place = _fitted(cell, tile.height, tile.width)
            picture = self._picture(tile)
            self._image.paste(picture, (tile.place.x, tile.place.y))
        else:
            self._draw.rectangle(corners, _BAD_CELL)
            self._write_error(cell, tile.error.text)
        y = cell.y + cell.height + 2
        line = f"{tile.sample}{more}" + (f" {tile.label}" if tile.label else "")
        self._write(cell.x, y, cell.width, line, self._large, _WHITE)
        self._write(cell.x, y + 19, cell.width, tile.name, self._small, _GREY, keep_end=True)

    def _picture(self, tile: Tile) -> Image.Image:
        """Returns the picture of a sample at its size on the sheet, with mask, boxes and points drawn on it."""
        height, width = tile.place.height, tile.place.width
        if tile.image is None:
            pixels = np.zeros((height, width, 3), np.uint8)
        else:
            # A smaller picture averages the pixels (BOX); a larger one shows each pixel as a square (NEAREST).
            how = Image.Resampling.NEAREST if height >= tile.height else Image.Resampling.BOX
            pixels = np.array(Image.fromarray(np.ascontiguousarray(tile.image)).resize((width, height), how))
        if tile.mask is not None:
            _tint(pixels, _resized(tile.mask, height, width), alone=tile.image is None)
        picture = Image.fromarray(pixels)
        draw = ImageDraw.Draw(picture)
        y_scale, x_scale = height / tile.height, width / tile.width
        for i, box in enumerate(tile.boxes):
            x0, y0, x1, y1 = (float(part) for part in box[:4])
            if not (x1 - x0) * (y1 - y0) < 1:  # the loader drops boxes smaller than one pixel
                label = tile.labels[i] if tile.labels else ""
                self._box(draw, picture.size, (x0 * x_scale, y0 * y_scale, x1 * x_scale, y1 * y_scale), label, i)
                tile.n_boxes += 1
        for i, (x, y, visibility) in enumerate(tile.points):
            _point(draw, _pixel(x * x_scale), _pixel(y * y_scale), bool(visibility > 0), palette(i))
        return picture

    def _box(self, draw: Any, size: tuple[int, int], corners: tuple[float, ...], label: str, i: int) -> None:
        """Draws the outline of a box. Its label stands above it, or inside if the box is at the upper edge."""
        x0, y0, x1, y1 = (_pixel(corner) for corner in corners)
        color = _label_color(label, i)
        for inset, line in ((0, color), (1, color), (2, _BLACK)):
            if x1 - x0 > 2 * inset and y1 - y0 > 2 * inset:
                draw.rectangle((x0 + inset, y0 + inset, x1 - 1 - inset, y1 - 1 - inset), outline=line)
        text = self._cut(label, self._small, size[0] - x0 - 4, keep_end=False)
        if text:
            top = min(y0 - 13 if y0 >= 13 else max(y0, 0), size[1] - 13)
            draw.rectangle((x0, top, x0 + int(self._small.getlength(text)) + 3, top + 12), color)
            draw.text((x0 + 2, top), text, _BLACK if sum(color) > 300 else _WHITE, self._small)

    def _write(self, x: int, y: int, width: int, text: str, font: Any, color: _Color, keep_end: bool = False) -> None:
        self._draw.text((x, y), self._cut(text, font, width, keep_end), color, font)

    def _write_error(self, cell: Place, text: str) -> None:
        """Writes the error of a bad sample into its cell, broken into lines."""
        self._write(cell.x + 4, cell.y + 4, cell.width - 8, "bad sample", self._large, _RED)
        y, rest = cell.y + 26, self._writable(text, self._small)[: 4 * _TEXT_MOST]
        while rest and y < cell.y + cell.height - 13:
            n = len(rest)
            while n > 1 and self._small.getlength(rest[:n]) > cell.width - 8:
                n -= 1
            self._draw.text((cell.x + 4, y), rest[:n].strip(), _WHITE, self._small)
            y, rest = y + 13, rest[n:]

    def _writable(self, text: str, font: Any) -> str:
        """Escapes or replaces the characters of a text that the font cannot draw, so that it is one line."""
        text = shown(text)
        return text if isinstance(font, ImageFont.FreeTypeFont) else text.encode("latin-1", "replace").decode("latin-1")

    def _cut(self, text: str, font: Any, width: int, keep_end: bool) -> str:
        """Cuts a text to `width` pixels. ".." replaces its beginning (`keep_end`) or its end. Returns "" if even ".." does not
        fit."""
        text = self._writable(text[-_TEXT_MOST:] if keep_end else text[:_TEXT_MOST], font)
        if font.getlength(text) <= width:
            return text
        for n in range(len(text) - 1, 1, -1):
            part = f"..{text[-n:]}" if keep_end else f"{text[:n]}.."
            if font.getlength(part) <= width:
                return part
        return ""


def _fitted(cell: Place, height: int, width: int) -> Place:
    """Returns the largest rectangle in a cell with a picture's proportions. Small pictures are enlarged by whole factors."""
    longer = max(height, width)
    times = cell.height // longer
    h = height * times if times else max(1, height * cell.height // longer)
    w = width * times if times else max(1, width * cell.width // longer)
    return Place(cell.y + (cell.height - h) // 2, cell.x + (cell.width - w) // 2, h, w)


def _pixel(value: float) -> int:
    """Rounds a coordinate of a box to a pixel, clipped to a drawable range. NaN becomes a pixel far outside."""
    return math.floor(min(max(value, -_FAR), _FAR) + 0.5) if value == value else -_FAR


def _label_color(label: str, i: int) -> _Color:
    """Returns a colour that is the same for equal labels. Without a label, the colour of the box number `i`."""
    number = 0 if label else i
    for byte in label.encode("utf-8", "surrogatepass"):
        number = (10 * number + byte - 48 if 48 <= byte < 58 else 31 * number + byte) % 2**64
    return palette(number)


def _point(draw: Any, x: int, y: int, visible: bool, color: _Color) -> None:
    """Draws a keypoint with a dark rim. A point that is not visible is drawn hollow."""
    draw.ellipse((x - 4, y - 4, x + 4, y + 4), outline=_BLACK)
    draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=color if visible else None, outline=color, width=2)


# Masks ----------------------------------------------------------------------------------------------


def _resized(mask: npt.NDArray[np.int32], height: int, width: int) -> npt.NDArray[np.int32]:
    """Scales a mask down without interpolation: each new pixel gets the label at the middle of the area that it covers."""
    rows = (2 * np.arange(height) + 1) * mask.shape[0] // (2 * height)
    columns = (2 * np.arange(width) + 1) * mask.shape[1] // (2 * width)
    found: npt.NDArray[np.int32] = mask[rows[:, None], columns]
    return found


def _tint(pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.int32], alone: bool) -> None:
    """Tints pixels by their labels: each label has a colour, and a dark line separates labels. Label 0 is not tinted.

    alone: there is no image, so the colours replace the pixels.
    """
    found, places = np.unique(labels, return_inverse=True)
    colors = np.array([_mask_color(int(label)) for label in found], np.int32)[places.reshape(labels.shape)]
    if alone:
        pixels[:] = colors
        return
    edges = np.zeros(labels.shape, bool)
    edges[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    edges[:-1] |= labels[1:] != labels[:-1]
    inner = (labels != 0) & ~edges
    pixels[edges] = pixels[edges].astype(np.int32) * 96 >> 8
    pixels[inner] = pixels[inner].astype(np.int32) + colors[inner] >> 1


def _mask_color(label: int) -> _Color:
    if label == 0:
        return _BLACK
    return _IGNORED if label == 255 or label < 0 else palette(label - 1)  # 255 usually marks pixels to ignore
