"""scaled_decode.py FOLDER...: the effect of Decoding(scaled=True) on pixels and speed.

Each FOLDER holds photographs in JPEG files, which are kept as pli-jpeg. RandomResizedCrop(SIDE) of every image, with and
without `scaled_decode`, with the same seeds and so the same crops: the difference in levels of 0..255 over the images that were
decoded at a part of their size, and the images/s of both on one core, in turns. Needs numpy.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import penstock as ps
from penstock import transforms as T


def make(data: Path, scaled: bool, side: int, batch_size: int) -> ps.Loader:
    return ps.Loader(
        data,
        batch_size=batch_size,
        seed=1,
        transforms=[T.RandomResizedCrop(side)],
        num_workers=0,
        decoding=ps.Decoding(scaled=scaled),
        output="numpy",
        reading=ps.Reading(storage="memory"),
        fields=["image"],
    )


def compare(data: Path, side: int, epochs: int) -> tuple[int, list[np.ndarray]]:
    """Returns the number of images compared, and the pixel differences of the images that were decoded at a part of their size."""
    n_images, gaps = 0, []
    with contextlib.closing(make(data, False, side, 1)) as exact, contextlib.closing(make(data, True, side, 1)) as scaled:
        for _ in range(epochs):
            for one, other in zip(exact, scaled, strict=True):
                n_images += 1
                if scaled.stats()["decode"]["scaled"] > len(gaps):
                    gaps.append(np.abs(one["image"].astype(np.int16) - other["image"]))
                elif not np.array_equal(one["image"], other["image"]):
                    raise SystemExit(f"{data}: an image that was not decoded smaller differs")
    return n_images, gaps


def rates(data: Path, side: int, epochs: int) -> tuple[float, float]:
    """Returns the median images/s, without and with scaled_decode."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with contextlib.closing(make(data, False, side, 32)) as exact, contextlib.closing(make(data, True, side, 32)) as scaled:
        n = len(exact._dataset)
        for epoch in range(epochs + 1):
            for way, loader in ((False, exact), (True, scaled)):
                begin = time.perf_counter()
                for _ in loader:
                    pass
                if epoch > 0:
                    seconds[way].append(time.perf_counter() - begin)
    return n / statistics.median(seconds[False]), n / statistics.median(seconds[True])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--side", type=int, default=224, help="of the crops after the resize (default 224)")
    parser.add_argument("--epochs", type=int, default=3, help="crops of each image (default 3)")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for folder in arguments.folders:
        with tempfile.TemporaryDirectory() as scratch:
            data = Path(scratch) / "data.pst"
            ps.pack(folder, data, forms=["pli-jpeg"])
            n, gaps = compare(data, arguments.side, arguments.epochs)
            before, after = rates(data, arguments.side, arguments.epochs)
        print(f"{folder}: {len(gaps)} of {n} crops decoded at a part of their size")
        if gaps:
            squares = [float((gap.astype(np.float64) ** 2).mean()) for gap in gaps]
            worst = [int(gap.max()) for gap in gaps]
            print(
                f"  PSNR {10 * np.log10(255**2 / np.mean(squares)):.1f} dB over all of these, worst image "
                f"{10 * np.log10(255**2 / max(squares)):.1f} dB; mean difference "
                f"{np.mean([gap.mean() for gap in gaps]):.2f} levels; largest {statistics.median(worst):.0f} in the median "
                f"image, {max(worst)} in all"
            )
        print(f"  images/s on one core: {before:.0f} without, {after:.0f} with scaled_decode ({after / before:.2f} x)")


if __name__ == "__main__":
    main()
