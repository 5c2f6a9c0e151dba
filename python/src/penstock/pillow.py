"""Makes Pillow open and save PLI. One line does it::

    import penstock.pillow

``Image.open("x.pli")`` gives modes L, LA, RGB, RGBA and I;16. Of a PLI that holds a JPEG, ``image.info`` has what
Pillow reads from that JPEG: ``icc_profile``, ``exif``, ``xmp``, ``comment``, ``dpi``. A PLI of pixels keeps none of
these. ``image.save("x.pli")`` takes ``tier``, ``effort`` and ``max_error`` as :func:`penstock.pli.encode` does, and
``indices=True``: of an image with a palette (mode P) the indices are saved, as mode L, which are the labels of a mask.
Otherwise its colours are, with a warning unless ``indices=False``.

Needs Pillow. Importing :mod:`penstock.pli` does the same where Pillow is installed.
"""

from __future__ import annotations

from . import pli as _pli  # noqa: F401  # comes first: it and _pillow import each other
from ._pillow import PliImageFile, register

__all__ = ["PliImageFile", "register"]

register()
