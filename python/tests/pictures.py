"""Pictures, and Python data sets of them. Processes that tests spawn import this file, so it has no slow import."""

from __future__ import annotations

import io
import os
import signal

import numpy as np
from PIL import Image as PilImage

N = 24  # samples of Photos


def picture(number: int, height: int, width: int) -> np.ndarray:
    """uint8 (H, W, 3): soft gradients and some noise, different for each number."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [
        np.sin(x / rng.uniform(5, 30) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(5, 30))
        for _ in range(3)
    ]
    image = 128 + 90 * np.stack(waves, -1) + rng.normal(0, 8, (height, width, 3))
    return image.clip(0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    PilImage.fromarray(pixels).save(buffer, form, **options)
    return buffer.getvalue()


class Photos:
    """JPEGs, PNGs and labels, as bytes."""

    classes = ("ant", "bee", "cow")

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int):
        pixels = picture(i, 40 + i, 50 - i)
        return {"image": encoded(pixels, "PNG" if i % 4 == 3 else "JPEG"), "label": i % 3, "id": f"{i:04d}", "score": i / 7,
                "path": f"café/ü {i}", "more": {"list": [i, None, "ß"]}, "vector": np.arange(i, dtype=np.float32)}


class Breaks(Photos):
    """A data set in which sample 9 fails while a file exists: it raises an error, ends its process, or returns a value that no
    field takes.
    """

    def __init__(self, how: str, flag) -> None:
        super().__init__()
        self.how, self.flag = how, str(flag)

    def __getitem__(self, i: int):
        sample = super().__getitem__(i)
        if i != 9 or not os.path.exists(self.flag):
            return sample
        if self.how == "raise":
            raise KeyError("no such picture")
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "exit":
            os._exit(3)
        return {**sample, **{"float": {"label": 0.5}, "image": {"image": b"\xff\xd8 no jpeg"}, "none": {"score": None},
                             "surrogate": {"id": "\ud800"}, "missing": {"odd": 1}, "big": {"label": 2**63},
                             "text": {"score": "0.5"}, "class": {"label": 3}}[self.how]}  # fmt: skip


class Shrinks(Photos):
    """A data set that has another number of samples in each process."""

    def __len__(self) -> int:
        return self.n if self.n != N else os.getpid()
