"""``python -m penstock.demo``: tries Penstock from analysis to training, on images that it generates, in about half a minute.

It analyzes a training that reads a folder, makes a plan, packs the folder, trains from the folder and from the packed data set, and
reports both rates. It needs only numpy and no network; a plan also needs HiGHS (``pip install 'penstock[plan]'``). It writes into
one temporary folder, which it removes at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import penstock as ps

from . import transforms as T  # noqa: N812  (as the documents have it)
from .base.units import size
from .data.notebook import png

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["main"]

CLASSES = {"dunes": (205, 160, 95), "forest": (60, 120, 70), "sea": (50, 105, 165), "town": (150, 130, 135)}
HEIGHT, WIDTH, SIDE, BATCH = 288, 384, 64, 16
_CELLS = 8  # a picture has 8 x 8 cells, and the model gets the mean colour of each


# Images ---------------------------------------------------------------------------------------------


def _picture(rng: np.random.Generator, color: Sequence[int]) -> Array:
    """Generates a picture like a photograph: soft shapes around a colour, light from above, and sensor noise."""
    import numpy as np

    shapes = np.zeros((HEIGHT, WIDTH))
    for step in (96, 48, 24, 12):
        coarse = rng.normal(0, step / 4, (HEIGHT // step + 2, WIDTH // step + 2))
        for axis, n in ((0, HEIGHT), (1, WIDTH)):
            at = np.arange(n) / step
            left, part = at.astype(int), at % 1
            part = part[:, None] if axis == 0 else part[None, :]
            coarse = np.take(coarse, left, axis) * (1 - part) + np.take(coarse, left + 1, axis) * part
        shapes += coarse
    light = np.linspace(30, -30, HEIGHT)[:, None]
    pixels = np.array(color) + rng.normal(0, 25, 3) + (shapes + light)[..., None] * rng.uniform(0.7, 1.3, 3)
    found: Array = (pixels + rng.normal(0, 3, pixels.shape)).clip(0, 255).astype(np.uint8)
    return found


def _make_images(folder: Path, per_class: int) -> int:
    """Writes PNG files, with a folder for each class. Returns their total bytes."""
    import numpy as np

    nbytes = 0
    for i_class, (name, color) in enumerate(CLASSES.items()):
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            data = png(_picture(np.random.default_rng([i_class, i]), color))
            (folder / name / f"{i:03}.png").write_bytes(data)
            nbytes += len(data)
    return nbytes


# Training -------------------------------------------------------------------------------------------


class _Model:
    """Softmax regression on the mean colours of a picture's cells. The model is so small that loading data limits the rate."""

    def __init__(self) -> None:
        import numpy as np

        self.weights = np.zeros((3 * _CELLS * _CELLS + 1, len(CLASSES)))

    def step(self, batch: Any) -> tuple[float, int]:
        """Trains on one batch. Returns the loss, and how many images were classified correctly."""
        import numpy as np

        images, labels = batch["image"], batch["label"]
        n, side = len(images), SIDE // _CELLS
        cells = images.reshape(n, 3, _CELLS, side, _CELLS, side).mean((3, 5)).reshape(n, -1)
        inputs = np.hstack([cells, np.ones((n, 1))])
        scores = inputs @ self.weights
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        rows = np.arange(n)
        loss, right = float(-np.log(shares[rows, labels] + 1e-12).mean()), int((shares.argmax(1) == labels).sum())
        shares[rows, labels] -= 1
        self.weights -= 0.02 / n * inputs.T @ shares
        return loss, right


class Epoch(NamedTuple):
    """Results of one epoch of training."""

    loss: float
    accuracy: float
    rate: float  # images per second
    waited: float  # fraction of the epoch's time spent waiting for batches

    def __str__(self) -> str:
        return (
            f"loss {self.loss:5.2f}  accuracy {self.accuracy:6.1%}  {self.rate:6.0f} images/s"
            f"  waited for data {self.waited:4.0%} of the time"
        )


def one_epoch(loader: ps.Loader, step: Callable[[Any], tuple[float, int]]) -> Epoch:
    """Trains one epoch. `step` trains on a batch and returns its loss and the number of correctly classified images."""
    losses: list[float] = []
    n_right, images, waited, begun = 0, 0, 0.0, time.perf_counter()
    batches = iter(loader)
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        waited += time.perf_counter() - asked
        if batch is None:
            break
        loss, right = step(batch)
        losses.append(loss)
        n_right, images = n_right + right, images + len(batch["label"])
    wall = time.perf_counter() - begun
    return Epoch(sum(losses) / len(losses), n_right / images, images / wall, waited / wall)


def _loader(data: Path, plan: Path | None = None) -> ps.Loader:
    chain = [T.RandomResizedCrop(SIDE), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return ps.Loader(data, BATCH, shuffle=True, seed=1, transforms=chain, output="numpy", cache=None, plan=plan)


def _train(name: str, data: Path, epochs: int, plan: Path | None) -> float:
    """Trains some epochs and prints a line for each. Returns the images per second of the fastest epoch."""
    model, fastest = _Model(), 0.0
    with _loader(data, plan) as loader:
        for number in range(epochs):
            epoch = one_epoch(loader, model.step)
            fastest = max(fastest, epoch.rate)
            _say(f"  {name:6}  epoch {number}  {epoch}")
    return fastest


# The way --------------------------------------------------------------------------------------------


def _say(line: str) -> None:
    print(line, flush=True)


def _analyze(data: Path, budget: float) -> Any:
    with _loader(data) as loader:
        report = ps.analyze(loader, _Model().step, budget=budget)
    _say("  " + report.summary())
    return report


def _plan(report: Any, file: Path) -> Path | None:
    """Writes the plan and returns its path, or None if HiGHS is missing or cannot be used."""
    try:
        plan = ps.plan(report, cache=0)
    except ps.errors.UnsupportedError as error:
        _say(f"  left out: {error.text}")
        return None
    plan.to_json(file)
    for line in plan.report().splitlines():
        if line.startswith(("now ", "planned ", "stored ")):
            _say("  " + line)
    return file


def _same_batches(one: Path, other: Path) -> bool:
    import numpy as np

    with _loader(one) as left, _loader(other) as right:
        return all(
            np.array_equal(x["image"], y["image"]) and np.array_equal(x["label"], y["label"])
            for x, y in zip(left, right, strict=True)
        )


def _run(folder: Path, per_class: int, epochs: int, budget: float) -> int:
    images, packed = folder / "images", folder / "images.pst"
    n = per_class * len(CLASSES)
    before = _make_images(images, per_class)
    _say(f"1 of 5  Made {n} images of {WIDTH} x {HEIGHT} pixels in {len(CLASSES)} classes: PNG, {size(before)}, in {images}")
    _say("2 of 5  Analyze: a training from these files is measured")
    report = _analyze(images, budget)
    (folder / "report.html").write_text(report.to_html(), encoding="utf-8")
    _say("3 of 5  Plan: the forms to store, from the measured costs")
    plan = _plan(report, folder / "plan.json")
    _say("4 of 5  Pack: the same pixels, stored to be decoded fast")
    done = ps.pack(images, packed, plan=plan) if plan is not None else ps.pack(images, packed, forms=["pli"], tier="fast")
    same = _same_batches(images, packed)
    compared = "the same, bit by bit" if same else "DIFFERENT"
    _say(f"  {size(before)} became {size(done.nbytes_out)}; all batches of both are {compared}")
    _say("5 of 5  Train from both")
    from_files = _train("files", images, epochs, None)
    from_packed = _train("packed", packed, epochs, plan)
    times = from_packed / from_files
    _say(f"\nPacked data gave {from_packed:.0f} images/s, the files {from_files:.0f}: {times:.1f} times as fast.")
    _say("Your data: penstock analyze FOLDER --rate IMAGES_PER_SECOND, penstock pack FOLDER DATA.pst, ps.Loader('DATA.pst')")
    return 0 if same else 1


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Yields the folder to write to: `keep`, or a temporary folder that is removed at the end, also when a signal ends the demo."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep
        return
    path = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield path
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second Ctrl-C must not stop the removal halfway
            signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(path, ignore_errors=True)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo. Returns the exit status: 0, or 1 if something failed; after a signal, 128 plus its number."""
    parser = argparse.ArgumentParser(prog="python -m penstock.demo", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder, where images, report and data set stay")
    parser.add_argument("--per-class", type=int, default=24, metavar="N", help="images in each of the four classes, 8 to 1000")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="epochs of each training, 1 to 100")
    parser.add_argument("--budget", type=float, default=8.0, metavar="SECONDS", help="time of the analysis, 1 to 600")
    given = parser.parse_args(arguments)
    for name, value, low, high in (
        ("--per-class", given.per_class, 8, 1000), ("--epochs", given.epochs, 1, 100), ("--budget", given.budget, 1, 600),
    ):  # fmt: skip
        if not low <= value <= high:
            parser.error(f"{name} is {low} to {high}, not {value}")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with _folder(given.keep) as folder:
            status = _run(folder, given.per_class, given.epochs, given.budget)
        _say(f"Kept in {given.keep}: report.html is the analysis as a page." if given.keep else "Nothing is left behind.")
        return status
    except BrokenPipeError:  # the program that reads the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ps.PenstockError, OSError) as error:
        print(f"penstock.demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
