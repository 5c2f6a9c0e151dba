"""Reads the headers of single images and decodes their pixels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from ..base import files
from ..base.public import public
from ..errors import ArgumentError, PenstockError, in_file

__all__ = ["ImageInfo", "decode", "probe"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FORMS = ("jpeg", "png", "webp", "pli", "pli-jpeg", "raw")


class ImageInfo(NamedTuple):
    """The properties in an encoded image's header. Height and width are those after the orientation is applied."""

    form: str
    height: int
    width: int
    channels: int
    bits: int
    orientation: int
    palette: bool
    progressive: bool


def form_number(form: str | None) -> int:
    """Returns the library's number of a form. For None returns 0: the form is found from the first bytes."""
    if form is None:
        return 0
    number = _native.form_number(form)
    if form not in FORMS or number == 0:
        raise ArgumentError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    return number


def stored_form(form: str) -> str:
    """Returns "pli" for "pli-small" and other tiers. Other forms are returned unchanged."""
    return "pli" if form.startswith("pli-") and form != "pli-jpeg" else form


@contextmanager
def whole(data: Any) -> Iterator[Any]:
    """Yields the bytes of `data`, or of its file if it is a path (str or os.PathLike). Errors then name the file."""
    if not isinstance(data, (str, os.PathLike)):
        yield data
        return
    path = os.fsdecode(data)
    content = files.read_file(path, "image")
    try:
        yield content
    except PenstockError as error:
        raise in_file(error, path) from None


def probe(data: Any, form: str | None = None, *, ignore_orientation: bool = False) -> ImageInfo:
    """Reads the header of an encoded image.

    Args:
        data: bytes, any buffer that holds them, or the path of a file (str or os.PathLike).
        form: "jpeg", "png", "webp", "pli" or "pli-jpeg"; None: it is found from the first bytes.
        ignore_orientation: report the size as stored, before the orientation is applied.
    """
    options = {"ignore_orientation": ignore_orientation}
    with whole(data) as content:
        return ImageInfo(**_native.probe(content, form_number(form), options))


def decode(
    data: Any,
    form: str | None = None,
    *,
    channels: int = 0,
    bits: int = 0,
    ignore_orientation: bool = False,
    palette_indices: bool = False,
    max_pixels: int = 0,
    orientation: int = 0,
) -> npt.NDArray[np.uint8 | np.uint16]:
    """Decodes an image.

    Args:
        data: bytes, any buffer that holds them, or the path of a file (str or os.PathLike).
        form: "jpeg", "png", "webp", "pli" or "pli-jpeg"; None: it is found from the first bytes.
        channels: 0 keeps the stored channels; 1, 3 or 4 converts.
        bits: 0 keeps the stored bits; 8 or 16 converts.
        ignore_orientation: do not apply the orientation in the image's metadata.
        palette_indices: return the indices of a palette image as one channel, instead of its colours.
        max_pixels: larger images are an error; 0 = 2**28.
        orientation: 1 to 8: the EXIF orientation to apply instead of the one in the metadata; 0: that in the metadata.

    Returns:
        uint8 or uint16 (H, W, C).
    """
    import numpy as np

    options = {
        "channels": channels,
        "bits": bits,
        "ignore_orientation": ignore_orientation,
        "palette_indices": palette_indices,
        "max_pixels": max_pixels,
        "orientation": orientation,
    }
    number = form_number(form)
    with whole(data) as content:
        info = _native.probe(content, number, options)
        if palette_indices and info["palette"]:
            n_channels = 1
        else:
            n_channels = channels or info["channels"]
        dtype = np.uint16 if (bits or info["bits"]) == 16 else np.uint8
        pixels = np.empty((info["height"], info["width"], n_channels), dtype)
        _native.decode(content, number, options, pixels, pixels.strides[0])
        return pixels


public(__name__, "penstock")
