"""Makes Pillow open and save PLI. One line does it::

    import penstock.pillow

``Image.open("x.pli")`` gives modes L, LA, RGB, RGBA and I;16. For a PLI that holds a JPEG, ``image.info`` has what Pillow reads
from that JPEG: ``icc_profile``, ``exif``, ``xmp``, ``comment``, ``dpi``. A PLI of pixels stores no such properties.
``image.save("x.pli")`` takes ``tier``, ``effort`` and ``max_error`` as :func:`penstock.pli.encode` does. For an image with a
palette (mode P), ``indices=True`` saves the indices as mode L, which is right for masks of labels. Otherwise its colours are saved,
with a warning unless ``indices=False``. Mode 1 is saved as L.

Needs Pillow. Importing :mod:`penstock.pli` does the same where Pillow is installed.
"""

from __future__ import annotations

import warnings
from io import SEEK_END, BytesIO
from typing import IO, Any

from PIL import Image, ImageFile, JpegImagePlugin

from . import _native
from .data import pli
from .errors import ArgumentError, PenstockError

__all__ = ["PliImageFile", "register"]

MAGIC = b"\x89PLI"
HEADER_NBYTES = 40
ORIENTATION = 0x0112
MODES = {(1, 8): "L", (2, 8): "LA", (3, 8): "RGB", (4, 8): "RGBA", (1, 16): "I;16"}


class PliImageFile(ImageFile.ImageFile):
    """Opens a PLI by reading only the bytes before and after its units; load() decodes the pixels."""

    tile: Any
    fp: Any  # Pillow's stubs allow None, but it is None only after load()
    format = "PLI"
    format_description = "Parallel lossless image"

    def _open(self) -> None:
        try:
            start = self.fp.read(HEADER_NBYTES)
            head = pli.info(start)
            if head["content"] == "jpeg":
                start += self.fp.read(head["head_nbytes"] - HEADER_NBYTES)
                head = pli.info(start)
        except PenstockError as error:
            raise SyntaxError(str(error)) from error
        mode = MODES.get((head["channels"], head["bits"]))
        if mode is None:
            raise SyntaxError(f"Pillow has no mode for {head['channels']} channels of {head['bits']} bits")
        self._mode = mode
        self._size = (head["width"], head["height"])
        if head["content"] == "jpeg":
            self.info.update(self._info_of_jpeg(start, head))
            self.info.update(subsampling=head["subsampling"], jpeg_nbytes=head["jpeg_nbytes"])
        else:
            self.info.update(tier=head["tier"], max_error=head["max_error"])
        self._pending = True

    def _info_of_jpeg(self, start: bytes, head: dict[str, Any]) -> dict[Any, Any]:
        """Returns the properties that Pillow reads from the JPEG: EXIF, colour profile, XMP, comment, resolution, ..."""
        if head["restoration_nbytes"] > 0:
            self.fp.seek(0, SEEK_END)
            sparse = bytearray(self.fp.tell())  # zeros in place of the units, which are not read
            sparse[: len(start)] = start
            tail = max(len(start), len(sparse) - head["restoration_nbytes"])
            self.fp.seek(tail)
            sparse[tail:] = self.fp.read()
            return JpegImagePlugin.JpegImageFile(BytesIO(_native.pli_to_jpeg(sparse, True))).info
        if head["orientation"] == 1:
            return {}
        exif = Image.Exif()  # used by ImageOps.exif_transpose, as for a JPEG
        exif[ORIENTATION] = head["orientation"]
        return {"exif": exif.tobytes()}

    def load(self) -> Any:
        """Decodes the pixels at the first call. Pillow's own loader then takes them from memory."""
        if self._pending:
            self._pending = False
            self.fp.seek(0)
            pixels = pli.decode(self.fp.read())
            if self._exclusive_fp:
                self.fp.close()
            self.fp = BytesIO(pixels.tobytes())
            self.tile = [("raw", (0, 0, *self.size), 0, self.mode)]
        return super().load()

    def load_seek(self, pos: int) -> None:
        """Does nothing. If it did not exist, Pillow would map the file into memory, but the file does not hold the decoded
        pixels."""


def save(image: Image.Image, fp: IO[bytes], filename: str | bytes) -> None:
    """Implements Image.save. Options: tier, effort and max_error as for penstock.pli.encode; indices for mode P."""
    import numpy as np

    options = {name: image.encoderinfo[name] for name in ("tier", "effort", "max_error") if name in image.encoderinfo}
    indices = image.encoderinfo.get("indices")
    if image.mode == "P" and indices is None:
        warnings.warn(
            "PLI keeps no palette: mode P is saved by its colours; indices=True keeps the indices, as for a mask, "
            "and indices=False says that colours are wanted",
            stacklevel=3,
        )
    if image.mode == "P" and indices:
        if options.get("max_error"):
            raise ArgumentError("indices=True is for labels, which max_error would change")
        image = Image.frombytes("L", image.size, image.tobytes())
    if image.mode in ("P", "1"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB" if image.mode == "P" else "L")
    if image.mode not in MODES.values():
        raise OSError(f"cannot write mode {image.mode} as PLI")
    fp.write(pli.encode(np.asarray(image), **options))


def register() -> None:
    """Registers the format with Pillow. It may be called again."""
    Image.register_open("PLI", PliImageFile, lambda prefix: prefix.startswith(MAGIC))
    Image.register_save("PLI", save)
    Image.register_extension("PLI", ".pli")
    Image.register_mime("PLI", "image/x-pli")


register()
