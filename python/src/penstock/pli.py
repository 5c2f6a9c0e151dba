"""PLI, the parallel lossless image: numpy arrays to bytes and back.

    data = penstock.pli.encode(array, tier="small")
    crop = penstock.pli.decode(data, region=(y, x, height, width))

A region costs only the 64x64 units that it touches. Where Pillow is installed, importing this module registers the
format there, so that ``Image.open("x.pli")`` and ``image.save("x.pli")`` work.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8 | np.uint16]

TIERS = ("fast", "small", "dense")

__all__ = ["TIERS", "decode", "encode", "info"]


def encode(
    a: Any,
    tier: str = "small",
    effort: int = 3,
    max_error: int = 0,
    *,
    checksums: bool = True,
    num_threads: int = 1,
) -> bytes:
    """Encodes an image.

    Args:
        a: uint8 or uint16, (H, W) or (H, W, C) with C 1 to 4, any strides; H and W 1 to 65535.
        tier: "fast" (quickest to decode, about PNG's size), "small" (about WebP lossless's size) or "dense" (smallest).
        effort: 1 to 5; more is smaller and takes longer to encode, not to decode.
        max_error: 0 is lossless; else no sample differs by more than this (at most 127).
        checksums: of each unit, 4 bytes each, so that damage is noticed when a region is decoded.
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
    return _native.pli_encode(a, TIERS.index(tier) + 1, effort, max_error, checksums, num_threads)


def info(b: Any) -> dict[str, Any]:
    """What the head of a PLI says: height, width, channels, bits, tier, effort, max_error, units, sizes, checksums.

    The first 40 bytes are enough for all but "nbytes" and "units", which are 0 then.
    """
    result = _native.pli_info(b)
    result["tier"] = TIERS[result["tier"] - 1]
    return result


def decode(
    b: Any,
    region: tuple[int, int, int, int] | None = None,
    out: Pixels | None = None,
    *,
    channel: int | None = None,
) -> Pixels:
    """Decodes an image or a part of it.

    Args:
        b: bytes, or any buffer that holds them.
        region: (y, x, height, width) in pixels; None is the whole image. Only the units it touches are decoded.
        out: array to write to, of the region's size, any strides: ``chw.transpose(1, 2, 0)`` fills a (C, H, W) array.
        channel: that channel alone, as (H, W).

    Returns:
        `out`, or a new uint8 or uint16 array (H, W, C); (H, W) for one channel.
    """
    import numpy as np

    head = _native.pli_info(b)
    y, x, height, width = region if region is not None else (0, 0, head["height"], head["width"])
    if min(y, x) < 0 or height < 1 or width < 1 or y + height > head["height"] or x + width > head["width"]:
        raise ArgumentError(f"region {(y, x, height, width)} is not within {head['height']}x{head['width']} pixels")
    if channel is not None and not 0 <= channel < head["channels"]:
        raise ArgumentError(f"channel {channel} of an image of {head['channels']}")
    n_channels = head["channels"] if channel is None else 1
    shape = (height, width) if n_channels == 1 else (height, width, n_channels)
    dtype = np.dtype(np.uint16 if head["bits"] == 16 else np.uint8)
    if out is None:
        out = np.empty(shape, dtype)
    elif out.dtype != dtype or out.shape not in (shape, (height, width, n_channels)):
        raise ArgumentError(f"out is {out.dtype} {out.shape}; {dtype} {shape} is needed")
    _native.pli_decode(b, y, x, -1 if channel is None else channel, out)
    return out


if find_spec("PIL") is not None:
    from . import _pillow

    _pillow.register()
