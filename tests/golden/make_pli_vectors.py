#!/usr/bin/env python3
"""Prints the test vectors of docs/format-pli.md, section 12, made by the installed penstock.

    tests/golden/make_pli_vectors.py

Each is the smallest picture of its kind for which the encoder chooses the wanted mode. Pillow makes the JPEG.
"""

import io

import numpy as np
from PIL import Image

from penstock import pli


def show(name, data):
    pixels = pli.decode(data)
    modes = [mode for mode, n in pli.info(data)["units"].items() if n]
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    print(f"```\nvector {name} {height} {width} {channels} {8 * pixels.itemsize}")
    for at in range(0, len(data), 32):
        print("hex", data[at:at + 32].hex(" "))
    for row in pixels.reshape(height, -1):
        print("pixels", *row)
    print("```\n")
    assert name.split("-")[0] in modes, modes


def main():
    y, x = np.mgrid[0:8, 0:16]
    ramp = (10 + 3 * x + 5 * y + (x * y * 7 + x) % 3).astype(np.uint8)
    noise = np.random.default_rng(1).integers(0, 256, (2, 3), dtype=np.uint8)
    show("raw", pli.encode(noise, checksums=False))
    show("constant", pli.encode(np.full((2, 3, 3), (1, 2, 255), np.uint8), checksums=False))
    show("packed", pli.encode(ramp[:3, :9], tier="fast", checksums=False))
    show("packed-rgb", pli.encode(np.stack([ramp, ramp + 3, 2 * ramp], 2)[:3, :9].copy(), tier="fast", checksums=False))
    show("packed-16", pli.encode(ramp[:4, :16].astype(np.uint16) + 700, tier="fast", checksums=False))
    show("wave", pli.encode(ramp, checksums=False))
    show("wave-16", pli.encode(ramp.astype(np.uint16) + 700, checksums=False))
    show("lz", pli.encode((x // 5 + y // 3 * 4).astype(np.uint8), checksums=False))
    show("wave-near", pli.encode(ramp, max_error=1, checksums=False))
    jpeg = io.BytesIO()
    Image.fromarray(ramp[:8, :8]).save(jpeg, "JPEG", quality=50, optimize=True)
    show("coefficients", pli.from_jpeg(jpeg.getvalue(), checksums=False))


if __name__ == "__main__":
    main()
