"""The functions of penstock.pli: PLI to and from numpy arrays, and to and from JPEG files. Their public path is pli.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _native
from ..base.options import TIERS
from ..base.public import public
from ..errors import ArgumentError, LimitError
from .image import whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8 | np.uint16]

__all__ = ["TIERS", "decode", "encode", "from_jpeg", "info", "to_jpeg"]

# Usual names of chroma subsampling, by the sampling factors (16 h + v) of luma and of both chroma components.
_SUBSAMPLINGS: dict[tuple[int, ...], str] = {
    (0x11, 0x11, 0x11): "4:4:4",
    (0x21, 0x11, 0x11): "4:2:2",
    (0x22, 0x11, 0x11): "4:2:0",
    (0x12, 0x11, 0x11): "4:4:0",
    (0x41, 0x11, 0x11): "4:1:1",
}


def _subsampling(samplings: tuple[int, ...]) -> str | None:
    """Returns the usual name of the subsampling. Other factors are listed: "1x2,1x1,1x1". None if only the header was given."""
    if not any(samplings):
        return None
    if len(samplings) == 1:
        return "gray"
    return _SUBSAMPLINGS.get(samplings) or ",".join(f"{s >> 4}x{s & 15}" for s in samplings)


def encode(
    image: Any,
    tier: str = "small",
    effort: int = 3,
    max_error: int = 0,
    *,
    checksums: bool = True,
    num_threads: int = 1,
) -> bytes:
    """Encodes an image.

    Args:
        image: uint8 or uint16, (H, W) or (H, W, C) with C 1 to 4, any strides; H and W 1 to 65535.
        tier: "fast" (quickest to decode, about PNG's size), "small" (about WebP lossless's size) or "dense" (smallest).
        effort: 1 to 5. A higher effort makes the result smaller and encoding slower. It does not change the decoding time.
        max_error: 0 is lossless. Otherwise no sample differs by more than this (at most 127).
        checksums: store 4 bytes for each unit, so that damage is detected when an image or a region is decoded. Without them,
            damage is detected only when the whole image is decoded, by the checksum of its pixels.
        num_threads: threads that encode; the bytes do not depend on it.
    """
    if tier not in TIERS:
        raise ArgumentError(f"tier is one of {', '.join(TIERS)}, not {tier!r}")
    if not 1 <= effort <= 5:
        raise ArgumentError(f"effort is 1 to 5, not {effort!r}")
    if not 0 <= max_error <= 127:
        raise ArgumentError(f"max_error is 0 to 127, not {max_error!r}")
    if num_threads < 1:
        raise ArgumentError(f"num_threads is at least 1, not {num_threads!r}")
    return _native.pli_encode(image, TIERS.index(tier) + 1, effort, max_error, checksums, num_threads)


def info(data: Any) -> dict[str, Any]:
    """Reads the head of a PLI. Returns content, height, width, channels, bits, tier, effort, max_error, sizes, checksums, and the
    number of units by mode.

    "content" is "pixels" or "jpeg". A "jpeg" has no tier, but has "subsampling" ("4:2:0", ...), "orientation", "jpeg_nbytes"
    (length of the file) and "restoration_nbytes" (bytes for the parts of the file other than coefficients). The first 40 bytes of a
    PLI are enough, except for these four members, "nbytes" and "units", which are 0 then.
    """
    with whole(data) as content:
        result = _native.pli_info(content)
    is_jpeg = result["content"] == "jpeg"
    samplings = tuple(result.pop("samplings"))
    if is_jpeg:
        result["tier"] = result["effort"] = None
        result["subsampling"] = _subsampling(samplings)
    else:
        result["tier"] = TIERS[result["tier"] - 1]
        for name in ("orientation", "jpeg_nbytes", "restoration_nbytes"):
            del result[name]
    return result


def from_jpeg(jpeg: Any, *, unit_edge: int = 0, checksums: bool = True) -> bytes:
    """Makes a PLI of a JPEG file from its quantised coefficients. The PLI is about a tenth smaller.

    The PLI decodes to exactly the pixels of libjpeg-turbo's default decoder, several times as fast, and :func:`to_jpeg` restores
    the file. The function checks both before it returns. :func:`decode` returns the pixels in the stored orientation. :func:`info`
    returns the EXIF orientation; ``penstock.decode``, the loader and Pillow's exif_transpose apply it.

    Args:
        jpeg: the bytes of the whole file, any buffer that holds them, or the file's path.
        unit_edge: side of a unit: 64, 128 or 256 pixels; 0: chosen by the bit rate.
        checksums: store 4 bytes for each unit, so that damage is detected when an image or a region is decoded. Without them,
            damage is detected only when the whole image is decoded, and by :func:`to_jpeg`.

    Raises:
        PenstockError: the JPEG cannot be converted without loss (the text has the reason): keep the file. UnsupportedError: an
            unsupported kind of JPEG. CorruptError, TruncatedError: the JPEG is broken. InternalError: a check failed, which is a
            bug in Penstock.
    """
    if unit_edge not in (0, 64, 128, 256):
        raise ArgumentError(f"unit_edge is 64, 128, 256 or 0, not {unit_edge!r}")
    with whole(jpeg) as content:
        return _native.pli_from_jpeg(content, unit_edge, checksums)


def to_jpeg(data: Any, *, max_nbytes: int = 1 << 30) -> bytes:
    """Restores, byte for byte, the JPEG file that was given to :func:`from_jpeg`.

    Args:
        data: the bytes of the whole PLI, any buffer that holds them, or the file's path.
        max_nbytes: a longer JPEG file is a LimitError, before its memory is allocated.
    """
    with whole(data) as content:
        nbytes = _native.pli_info(content)["jpeg_nbytes"]
        if nbytes > max_nbytes:
            raise LimitError(f"the JPEG file has {nbytes} bytes, more than max_nbytes={max_nbytes}")
        return _native.pli_to_jpeg(content)


def decode(
    data: Any,
    region: tuple[int, int, int, int] | None = None,
    out: Pixels | None = None,
    *,
    channel: int | None = None,
    max_pixels: int = 1 << 28,
    verify: bool = False,
) -> Pixels:
    """Decodes an image or a part of it.

    Args:
        data: bytes, any buffer that holds them, or the path of a file.
        region: (y, x, height, width) in pixels; None: the whole image. Only the units that the region touches are decoded.
        out: array to write to, of the region's size, any strides: ``chw.transpose(1, 2, 0)`` fills a (C, H, W) array.
        channel: decode only this channel, as (H, W).
        max_pixels: a result with more pixels (height * width) is a LimitError, before its memory is allocated. Ignored if `out` is
            given.
        verify: compare the pixels with their checksum in the head, in addition to the checksums of units. Only for a whole image. A
            whole image without checksums of units is always compared.

    Returns:
        `out`, or a new uint8 or uint16 array (H, W, C); (H, W) for one channel.
    """
    with whole(data) as content:
        return _decode(content, region, out, channel, max_pixels, verify)


def _decode(
    data: Any,
    region: tuple[int, int, int, int] | None,
    out: Pixels | None,
    channel: int | None,
    max_pixels: int,
    verify: bool,
) -> Pixels:
    import numpy as np

    head = _native.pli_info(data)
    y, x, height, width = region if region is not None else (0, 0, head["height"], head["width"])
    if min(y, x) < 0 or height < 1 or width < 1 or y + height > head["height"] or x + width > head["width"]:
        raise ArgumentError(f"region {(y, x, height, width)} is not within {head['height']}x{head['width']} pixels")
    if channel is not None and not 0 <= channel < head["channels"]:
        raise ArgumentError(f"channel {channel} of an image of {head['channels']}")
    if verify and (channel is not None or (height, width) != (head["height"], head["width"])):
        raise ArgumentError("verify compares all channels of a whole image, not of a region")
    if out is None and height * width > max_pixels:
        raise LimitError(f"{height}x{width} pixels are more than max_pixels={max_pixels}")
    n_channels = head["channels"] if channel is None else 1
    shape = (height, width) if n_channels == 1 else (height, width, n_channels)
    dtype = np.dtype(np.uint16 if head["bits"] == 16 else np.uint8)
    if out is None:
        out = np.empty(shape, dtype)
    elif out.dtype != dtype or out.shape not in (shape, (height, width, n_channels)):
        raise ArgumentError(f"out is {out.dtype} {out.shape}; {dtype} {shape} is needed")
    _native.pli_decode(data, y, x, -1 if channel is None else channel, out, verify)
    return out


public(__name__, "penstock.pli")
