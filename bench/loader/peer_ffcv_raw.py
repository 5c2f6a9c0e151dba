"""FFCV in raw mode: pixels in its own file, nothing to decode."""

import numpy as np
from ffcv.fields import RGBImageField
from PIL import Image

from peer_ffcv import AREA, batches, evaluate, versions, written

NAME = "FFCV, raw pixels"
DECODES = False
__all__ = ["AREA", "batches", "evaluate", "versions"]


def prepare(work, labels=None):
    """Writes the pixels, with labels of the caller's instead of the classes, in a file of its own then."""
    name = "raw.beton" if labels is None else "raw-numbered.beton"
    return written(work, name, RGBImageField(write_mode="raw"), lambda path: np.array(Image.open(path).convert("RGB")), labels)
