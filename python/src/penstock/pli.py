"""PLI, the parallel lossless image: converts numpy arrays to bytes and back.

    data = penstock.pli.encode(array, tier="small")
    crop = penstock.pli.decode(data, region=(y, x, height, width))

    smaller = penstock.pli.from_jpeg(jpeg)         # keeps the JPEG's coefficients, so the pixels are the same
    assert penstock.pli.to_jpeg(smaller) == jpeg   # restores the file byte for byte

Decoding a region decodes only the units that it touches, of 64x64 pixels each (128x128 in most PLI of JPEGs). Functions that take
bytes also take the path of a file (str or os.PathLike). If Pillow is installed, importing this module registers the format there,
as ``import penstock.pillow`` does.
"""

from __future__ import annotations

from importlib.util import find_spec

from .data.pli import TIERS, decode, encode, from_jpeg, info, to_jpeg

__all__ = ["TIERS", "decode", "encode", "from_jpeg", "info", "to_jpeg"]

if find_spec("PIL") is not None:
    from . import pillow  # noqa: F401  # it registers the format
