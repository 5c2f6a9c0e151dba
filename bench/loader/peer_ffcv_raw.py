"""FFCV in raw mode: its file holds decoded pixels, and nothing is decoded."""

import numpy as np
from ffcv.fields import RGBImageField
from PIL import Image

from peer_ffcv import AREA, batches, evaluate, versions, written

NAME = "FFCV, raw pixels"
DECODES = False
__all__ = ["AREA", "batches", "evaluate", "versions"]


def prepare(work, labels=None):
    """Writes the pixels. If the caller gives labels instead of the classes, they go into another file."""
    name = "raw.beton" if labels is None else "raw-numbered.beton"
    return written(work, name, RGBImageField(write_mode="raw"), lambda path: np.array(Image.open(path).convert("RGB")), labels)
