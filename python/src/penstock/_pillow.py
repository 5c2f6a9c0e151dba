"""Pillow's view of PLI: modes L, LA, RGB, RGBA, I;16, and P and 1 by their values on saving."""

from __future__ import annotations

from io import BytesIO
from typing import IO, Any

from PIL import Image, ImageFile

from . import pli
from .errors import PenstockError

MAGIC = b"\x89PLI"
HEADER_NBYTES = 40
ORIENTATION = 0x0112
MODES = {(1, 8): "L", (2, 8): "LA", (3, 8): "RGB", (4, 8): "RGBA", (1, 16): "I;16"}


class PliImageFile(ImageFile.ImageFile):
    """Opens by the header alone; pixels are decoded at load()."""

    tile: Any
    fp: Any  # Pillow's stubs allow None, which it is only after load()
    format = "PLI"
    format_description = "Parallel lossless image"

    def _open(self) -> None:
        try:
            start = self.fp.read(HEADER_NBYTES)
            head = pli.info(start)
            if head["content"] == "jpeg":
                head = pli.info(start + self.fp.read(head["head_nbytes"] - HEADER_NBYTES))
        except PenstockError as error:
            raise SyntaxError(str(error)) from error
        mode = MODES.get((head["channels"], head["bits"]))
        if mode is None:
            raise SyntaxError(f"Pillow has no mode for {head['channels']} channels of {head['bits']} bits")
        self._mode = mode
        self._size = (head["width"], head["height"])
        if head["content"] == "jpeg":
            self.info.update(subsampling=head["subsampling"], jpeg_nbytes=head["jpeg_nbytes"])
            if head["orientation"] != 1:  # for ImageOps.exif_transpose, as of the JPEG itself
                exif = Image.Exif()
                exif[ORIENTATION] = head["orientation"]
                self.info["exif"] = exif.tobytes()
        else:
            self.info.update(tier=head["tier"], max_error=head["max_error"])
        self._pending = True

    def load(self) -> Any:
        """Decodes the pixels, once; Pillow's own loader takes them from memory."""
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
        """Being there keeps Pillow from mapping the file, which does not hold the pixels."""


def save(image: Image.Image, fp: IO[bytes], filename: str | bytes) -> None:
    """Handler of Image.save: options tier, effort, max_error as of penstock.pli.encode."""
    import numpy as np

    options = {name: image.encoderinfo[name] for name in ("tier", "effort", "max_error") if name in image.encoderinfo}
    if image.mode in ("P", "1"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB" if image.mode == "P" else "L")
    if image.mode not in MODES.values():
        raise OSError(f"cannot write mode {image.mode} as PLI")
    fp.write(pli.encode(np.asarray(image), **options))


def register() -> None:
    """Makes Pillow know the format; harmless when repeated."""
    Image.register_open("PLI", PliImageFile, lambda prefix: prefix.startswith(MAGIC))
    Image.register_save("PLI", save)
    Image.register_extension("PLI", ".pli")
    Image.register_mime("PLI", "image/x-pli")
