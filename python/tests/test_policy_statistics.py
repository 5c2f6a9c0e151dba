"""The draws of each random operation against those of torchvision v2 or torchaudio, by two-sample tests.

The drawn parameters are read from the operation's effect: on keypoints, on a picture whose pixels encode their positions, or on a
picture on which all outcomes of the operation differ. They are read in the same way for Penstock and for the reference. If
torchvision and torchaudio have no such operation, the reference is the distribution that the documents state. The tests with the
mark `long` take 4,000 draws of each side, the others 300, and leave out what takes a second. All seeds are fixed, so a test passes
always or never.

    python python/tests/test_policy_statistics.py [NAME ...]      prints the table of docs/internals/torchvision.md, or rows of it
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import picture, torchaudio_itself, torchvision_v2
from draw_statistics import Classes, Comparison, chi_square, compare, kolmogorov_smirnov
from flat import keywords
from penstock import transforms as T
from test_policies import done_by_torchvision

v2 = torchvision_v2(module_level=True)
from torchvision import tv_tensors  # noqa: E402  (torchvision_v2 says where it is)

F, Mode = v2.functional, v2.InterpolationMode
DRAWS, FEW_DRAWS, N_EPOCHS = 4000, 300, 20
SEED = 19
# If all distributions are equal, any comparison fails with a probability of at most a hundredth (Bonferroni).
N_COMPARISONS = 102
LEAST_P = 0.01 / N_COMPARISONS
NOTHING = float("nan")
SLOW = {"ElasticTransform", "TrivialAugmentWide", "RandAugment, 2 operations", "AutoAugment, cifar10", "AutoAugment, svhn",
        "AugMix"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "torchvision.md"


@dataclasses.dataclass(frozen=True)
class Run:
    """Where data sets are written, and the number of draws of each side. Penstock draws in 20 epochs."""

    folder: Path
    n: int

    @property
    def n_rows(self) -> int:
        return self.n // N_EPOCHS

    def unused(self) -> Path:
        return self.folder / f"{len(list(self.folder.iterdir()))}.pst"


Draws = dict[str, Any]  # parameter -> a number for each draw; NaN if it was not drawn
Sides = tuple[Draws, Draws]  # Penstock's, and the reference's
CASES: dict[str, Callable[[Run], Sides]] = {}


def case(name: str) -> Callable[[Any], Any]:
    def add(function: Callable[[Run], Sides]) -> Callable[[Run], Sides]:
        CASES[name] = function
        return function

    return add


# Both sides ---------------------------------------------------------------------------------------------------------------


def ours(run: Run, row: dict[str, Any], ops: list[Any], **options: Any) -> list[dict[str, np.ndarray]]:
    """Returns Penstock's results for one sample, one for each draw; images are (H, W, C)."""
    path = run.unused()
    bits = {"bits": 16, "dtype": "uint16"} if row["image"].dtype == np.uint16 else {}
    schema: dict[str, Any] = {"image": ps.Image("raw")}
    schema |= {name: kind for name, kind in (("points", ps.Keypoints(pairs=[])), ("boxes", ps.Boxes())) if name in row}
    with ps.Writer(path, schema) as writer:
        for _ in range(run.n_rows):
            writer.write(row)
    options = {"batch_size": min(50, run.n_rows), "num_workers": 0, "layout": "NHWC", **bits, **options}
    loader = ps.Loader(path, **keywords(transforms=ops, output="numpy", seed=SEED, **options))
    return [{name: np.array(batch[name][i]) for name in schema}
            for _ in range(N_EPOCHS) for batch in loader for i in range(len(batch["image"]))]  # fmt: skip


def theirs(run: Run, draw: Callable[[], Any]) -> list[Any]:
    torch.manual_seed(SEED)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the pictures are too small for more
    try:
        return [draw() for _ in range(run.n)]
    finally:
        torch.set_num_threads(threads)


def table(rows: Iterable[dict[str, float]]) -> Draws:
    rows = list(rows)
    return {name: [row[name] for row in rows] for name in rows[0]}


def chw(image: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(image).permute(2, 0, 1).contiguous()


def hwc(image: torch.Tensor) -> np.ndarray:
    return image.permute(1, 2, 0).numpy()


def by_image(run: Run, image: np.ndarray, op: Any, reference: Any, read: Callable[[np.ndarray], dict[str, float]],
             **options: Any) -> Sides:  # fmt: skip
    """Compares parameters that are read from the operation's effect on one picture."""
    tensor = tv_tensors.Image(chw(image))
    mine = table(read(row["image"]) for row in ours(run, {"image": image}, [op], **options))
    return mine, table(read(hwc(done)) for done in theirs(run, lambda: reference(tensor)))


def by_points(run: Run, size: tuple[int, int], points: list[tuple[float, float]], op: Any, reference: Any,
              read: Callable[[np.ndarray], dict[str, float]]) -> Sides:  # fmt: skip
    """Compares parameters that are read from the new places of keypoints (x, y) of a picture of `size`."""
    image, flat = np.zeros((*size, 3), np.uint8), np.array(points, np.float32)
    row = {"image": image, "points": np.concatenate([flat, np.full((len(flat), 1), 2, np.float32)], 1)}
    sample = tv_tensors.KeyPoints(torch.from_numpy(flat), canvas_size=size)
    mine = table(read(done["points"][:, :2].astype(np.float64)) for done in ours(run, row, [op]))
    return mine, table(read(done.numpy().astype(np.float64)) for done in theirs(run, lambda: reference(sample)))


def places(height: int, width: int) -> np.ndarray:
    """Returns a picture whose pixels encode their positions: red is the column, green the row, blue is 255."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x, y, np.full_like(x, 255)], -1).astype(np.uint8)


def window_of(image: np.ndarray) -> dict[str, float]:
    return {"left": image[0, 0, 0], "top": image[0, 0, 1], "width": image.shape[1], "height": image.shape[0]}


def size_of(image: np.ndarray) -> dict[str, float]:
    return {"height": image.shape[0], "width": image.shape[1]}


# Crops and sizes ----------------------------------------------------------------------------------------------------------


@case("RandomCrop")
def random_crop(run: Run) -> Sides:
    def read(image: np.ndarray) -> dict[str, float]:
        return {"left": image[0, 0, 0], "top": image[0, 0, 1]}

    return by_image(run, places(40, 90), T.RandomCrop((24, 30)), v2.RandomCrop((24, 30)), read)


@case("RandomResizedCrop")
def random_resized_crop(run: Run) -> Sides:
    height, width = 90, 120
    op, crop = T.RandomResizedCrop(16), v2.RandomResizedCrop(16, antialias=True)

    def read(points: np.ndarray) -> dict[str, float]:
        (x0, y0), (x1, y1) = points
        w, h = round(16 * width / (x1 - x0)), round(16 * height / (y1 - y0))
        return {"left": round(-x0 * w / 16), "top": round(-y0 * h / 16), "width": w, "height": h, "ratio": w / h}

    return by_points(run, (height, width), [(0, 0), (width, height)], op, crop, read)


@case("RandomIoUCrop")
def random_iou_crop(run: Run) -> Sides:
    image, boxes = places(60, 88), np.array([[5, 8, 70, 50], [30, 20, 80, 58]], np.float32)
    overlaps = (0.0, 0.3, 0.6, 1.0)
    sample = tv_tensors.Image(chw(image)), tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=(60, 88))
    reference = v2.RandomIoUCrop(sampler_options=list(overlaps))

    def read(image: np.ndarray) -> dict[str, float]:
        crops = image.shape[:2] != (60, 88)
        return {"crops": crops, **{name: value if crops else NOTHING for name, value in window_of(image).items()}}

    mine = ours(run, {"image": image, "boxes": boxes}, [T.RandomIoUCrop(sampler_options=overlaps)])
    return table(read(row["image"]) for row in mine), table(read(hwc(done)) for done in theirs(run, lambda: reference(*sample)[0]))


@case("RandomZoomOut")
def random_zoom_out(run: Run) -> Sides:
    def read(image: np.ndarray) -> dict[str, float]:
        zooms = image.shape[0] > 20
        y, x = np.argwhere(image[..., 2] == 255)[0]
        return {"zooms": zooms, **{name: value if zooms else NOTHING for name, value in
                                   {"left": x, "top": y, "width": image.shape[1], "height": image.shape[0]}.items()}}  # fmt: skip

    return by_image(run, places(20, 44), T.RandomZoomOut(side_range=(1.1, 4)), v2.RandomZoomOut(side_range=(1.1, 4)), read)


@case("ScaleJitter")
def scale_jitter(run: Run) -> Sides:
    return by_image(run, places(60, 88), T.ScaleJitter((100, 90), (0.1, 2.0)), v2.ScaleJitter((100, 90), (0.1, 2.0)), size_of)


@case("RandomShortestSize")
def random_shortest_size(run: Run) -> Sides:
    sizes = [20, 24, 33, 40, 60]
    return by_image(run, places(60, 88), T.RandomShortestSize(sizes, 70), v2.RandomShortestSize(sizes, 70), size_of)


@case("RandomResize")
def random_resize(run: Run) -> Sides:
    return by_image(run, places(60, 88), T.RandomResize(16, 49), v2.RandomResize(16, 49), size_of)


@case("RandomScaleCrop")
def random_scale_crop(run: Run) -> Sides:
    """The reference combines parts of torchvision: a resize by a uniformly drawn factor, and RandomCrop."""
    jitter, crop = v2.ScaleJitter((88, 60), (0.5, 2.0)), v2.RandomCrop(40, pad_if_needed=True)
    op = T.RandomScaleCrop(40, (0.5, 2.0))

    def read(points: np.ndarray) -> dict[str, float]:
        return {"factor": (points[1, 0] - points[0, 0]) / 88, "left": points[0, 0], "top": points[0, 1]}

    return by_points(run, (60, 88), [(0, 0), (88, 60)], op, v2.Compose([jitter, crop]), read)


# Warps --------------------------------------------------------------------------------------------------------------------


@case("RandomRotation")
def random_rotation(run: Run) -> Sides:
    def read(points: np.ndarray) -> dict[str, float]:
        (x, y), (x0, y0) = points
        return {"angle": math.degrees(math.atan2(y - y0, x - x0))}

    return by_points(run, (40, 40), [(30, 20), (20, 20)], T.RandomRotation((-20, 45)), v2.RandomRotation((-20, 45)), read)


@case("RandomAffine")
def random_affine(run: Run) -> Sides:
    arguments: tuple[Any, ...] = ((-20, 40), (0.1, 0.2), (0.7, 1.4), (-10, 10, -5, 15))

    def read(points: np.ndarray) -> dict[str, float]:
        origin, x, y = points  # the middle, 10 to the right, 10 down
        (a, c), (b, d) = (x - origin) / 10, (y - origin) / 10
        return {"matrix xx": a, "matrix xy": b, "matrix yx": c, "matrix yy": d, "area": a * d - b * c,
                "shift x": round(origin[0] - 40), "shift y": round(origin[1] - 30)}  # fmt: skip

    points = [(40, 30), (50, 30), (40, 40)]
    return by_points(run, (60, 80), points, T.RandomAffine(*arguments), v2.RandomAffine(*arguments), read)


@case("RandomPerspective")
def random_perspective(run: Run) -> Sides:
    corners = [(0, 0), (79, 0), (79, 59), (0, 59)]

    def read(points: np.ndarray) -> dict[str, float]:
        moves = np.abs(points - corners).max() > 0.01
        found = {f"{'xy'[axis]} of corner {i}": round(points[i, axis]) if moves else NOTHING for i in range(4) for axis in (0, 1)}
        return {"moves": moves, **found}

    return by_points(run, (60, 80), corners, T.RandomPerspective(0.6, 0.7), v2.RandomPerspective(0.6, 0.7), read)


@case("ElasticTransform")
def elastic(run: Run) -> Sides:
    """Reads the shift of the middle pixel from ramps of 1,000 levels per pixel."""
    height, width = 33, 41
    y, x = np.mgrid[0:height, 0:width]
    ramp = np.stack([1000 * x, 1000 * y, 0 * x], -1)
    tensor, transform = tv_tensors.Image(chw(ramp.astype(np.float32))), v2.ElasticTransform([60.0, 40.0], [3.0, 3.0])

    def read(image: np.ndarray) -> dict[str, float]:
        middle = image[height // 2, width // 2].astype(np.float64)
        return {"shift x": round(middle[0] / 1000 - width // 2, 2), "shift y": round(middle[1] / 1000 - height // 2, 2)}

    mine = ours(run, {"image": ramp.astype(np.uint16)}, [T.ElasticTransform((60.0, 40.0), 3.0)])
    return table(read(row["image"]) for row in mine), table(read(hwc(done)) for done in theirs(run, lambda: transform(tensor)))


# Colours and filters ------------------------------------------------------------------------------------------------------


def coloured() -> np.ndarray:
    """Returns a small picture of gentle tones on which no two operations have the same effect."""
    image = picture(3, 24, 32).astype(np.float64)
    image = 40 + 0.6 * image + np.array([20.0, 0.0, -25.0])
    image[4:9, 5:14], image[15:20, 18:30] = (200, 60, 40), (30, 90, 150)
    return image.clip(0, 255).astype(np.uint8)


def happens(op: Any, reference: Any) -> Callable[[Run], Sides]:
    """Compares how often an operation is applied."""

    def both(run: Run) -> Sides:
        image = coloured()
        return by_image(run, image, op, reference, lambda done: {"done": not np.array_equal(done, image)})

    return both


for name, op, reference in (
    ("RandomHorizontalFlip", T.RandomHorizontalFlip(0.3), v2.RandomHorizontalFlip(0.3)),
    ("RandomVerticalFlip", T.RandomVerticalFlip(0.6), v2.RandomVerticalFlip(0.6)),
    ("RandomGrayscale", T.RandomGrayscale(0.2), v2.RandomGrayscale(0.2)),
    ("RandomInvert", T.RandomInvert(), v2.RandomInvert()),
    ("RandomPosterize", T.RandomPosterize(3, 0.4), v2.RandomPosterize(3, 0.4)),
    ("RandomSolarize", T.RandomSolarize(100, 0.7), v2.RandomSolarize(100, 0.7)),
    ("RandomAutocontrast", T.RandomAutocontrast(0.25), v2.RandomAutocontrast(0.25)),
    ("RandomEqualize", T.RandomEqualize(0.9), v2.RandomEqualize(0.9)),
    ("RandomAdjustSharpness", T.RandomAdjustSharpness(2, 0.35), v2.RandomAdjustSharpness(2, 0.35)),
    ("RandomApply", T.RandomApply([T.RandomInvert(1)], 0.8), v2.RandomApply([v2.RandomInvert(1)], 0.8)),
):
    CASES[name] = happens(op, reference)


@case("RandomChoice")
def random_choice(run: Run) -> Sides:
    image = coloured()
    op = T.RandomChoice([T.Identity(), T.RandomInvert(1), T.RandomHorizontalFlip(1)], (1, 2, 3))
    reference = v2.RandomChoice([v2.Identity(), v2.RandomInvert(1), v2.RandomHorizontalFlip(1)], [1, 2, 3])

    def read(done: np.ndarray) -> dict[str, float]:
        return {"operation": [np.array_equal(done, one) for one in (image, 255 - image, image[:, ::-1])].index(True)}

    return by_image(run, image, op, reference, read)


@case("ColorJitter")
def color_jitter(run: Run) -> Sides:
    """Reads each factor alone from flat colours, rounded to a level, and the order of all four from its 24 outcomes."""
    mine: Draws = {}
    others: Draws = {}
    flat = np.zeros((2, 2, 3), np.uint8)
    for member, colours, value in (
        ("brightness", [(120, 120, 120)] * 4, lambda x: x[0, 0, 0]),
        ("contrast", [(70, 70, 70), (150, 150, 150)] * 2, lambda x: int(x[0, 1, 0]) - int(x[0, 0, 0])),
        ("saturation", [(150, 100, 100)] * 4, lambda x: int(x[0, 0, 0]) - int(x[0, 0, 1])),
        ("hue", [(200, 50, 50)] * 4, lambda x: int(x[0, 0, 1]) - int(x[0, 0, 2])),
    ):
        given = {member: 0.1 if member == "hue" else (0.5, 1.6)}
        flat[:] = np.array(colours, np.uint8).reshape(2, 2, 3)
        a, b = by_image(run, flat, T.ColorJitter(**given), v2.ColorJitter(**given),
                        lambda image, value=value, member=member: {member: value(image)})  # fmt: skip
        mine |= a
        others |= b
    image, outcomes = coloured(), []
    factors = {"brightness": 0.6, "contrast": 1.7, "saturation": 2.5, "hue": 0.2}
    fixed = {name: (value, value) for name, value in factors.items()}
    doers = [(getattr(F, f"adjust_{name}"), value) for name, value in factors.items()]
    for order in itertools.permutations(range(4)):
        done = chw(image)
        for i in order:
            done = doers[i][0](done, doers[i][1])
        outcomes.append(hwc(done))
    classes, tensor, transform = Classes(outcomes), chw(image), v2.ColorJitter(**fixed)
    mine["order"] = classes([row["image"] for row in ours(run, {"image": image}, [T.ColorJitter(**fixed)])], 1.5)
    others["order"] = classes([hwc(done) for done in theirs(run, lambda: transform(tensor))], 1.5)
    return mine, others


@case("GaussianBlur")
def gaussian_blur(run: Run) -> Sides:
    image = np.zeros((9, 9, 3), np.uint8)
    image[4, 4] = 255
    return by_image(run, image, T.GaussianBlur(5, (0.5, 3)), v2.GaussianBlur(5, (0.5, 3)), lambda done: {"sigma": done[4, 4, 0]})


@case("RandomErasing")
def random_erasing(run: Run) -> Sides:
    def read(image: np.ndarray) -> dict[str, float]:
        hole = np.argwhere(image[..., 0] == 0)
        if len(hole) == 0:
            return {"erases": 0, "left": NOTHING, "top": NOTHING, "width": NOTHING, "height": NOTHING}
        (y, x), (end_y, end_x) = hole.min(0), hole.max(0) + 1
        return {"erases": 1, "left": x, "top": y, "width": end_x - x, "height": end_y - y}

    image = np.full((48, 64, 3), 255, np.uint8)
    return by_image(run, image, T.RandomErasing(0.7), v2.RandomErasing(0.7), read)


@case("RandomErasing, noise")
def random_erasing_noise(run: Run) -> Sides:
    half = np.full((8, 8, 3), 255, np.uint8)
    ours_ops = [T.Normalize(0.5, 0.05), T.RandomErasing(1.0, (0.5, 0.7), (0.9, 1.1), "random")]
    reference = v2.RandomErasing(1.0, (0.5, 0.7), (0.9, 1.1), "random")
    tensor = torch.full((3, 8, 8), 10.0)
    mine = [row["image"][4, 4] for row in ours(run, {"image": half}, ours_ops)]
    others = [hwc(done)[4, 4] for done in theirs(run, lambda: reference(tensor))]
    return tuple({name: [x[i] if abs(x[i]) < 9 else NOTHING for x in side] for i, name in enumerate(("red", "green"))}
                 for side in (mine, others))  # type: ignore[return-value]  # fmt: skip


# Policies -----------------------------------------------------------------------------------------------------------------


def outcomes_of(policy: Any, image: torch.Tensor, magnitude: int | None = None) -> list[tuple[str, float, torch.Tensor]]:
    """Returns the outcomes of a policy: for each operation, sign and magnitude the name, the signed magnitude, and the picture."""
    space = getattr(policy, "_AUGMENTATION_SPACE", None)
    found = []
    for name, (make, signed) in space.items():
        magnitudes = make(getattr(policy, "num_magnitude_bins", 10), *image.shape[1:])
        levels = [magnitude or 0] if magnitude is not None or magnitudes is None else range(len(magnitudes))
        for level in levels:
            for negative in (False, True) if signed else (False,):
                done = done_by_torchvision(policy, image, name, level, negative)
                found.append((name, -level if negative else level, done))
    return found


def in_float64(policy: Any) -> Any:
    """Returns torchvision's policy with Penstock's magnitudes, which are not rounded to float32."""

    def exact(magnitudes: torch.Tensor | None) -> torch.Tensor | None:
        if magnitudes is None or not magnitudes.is_floating_point():
            return magnitudes
        first, last = magnitudes.double()[[0, -1]]
        return first + (last - first) * torch.arange(len(magnitudes)) / (len(magnitudes) - 1)

    space = {name: (lambda *sides, make=make: exact(make(*sides)), signed)
             for name, (make, signed) in policy._AUGMENTATION_SPACE.items()}  # fmt: skip
    policy._AUGMENTATION_SPACE = space
    return policy


def our_outcomes(run: Run, op: Any, outcomes: list[torch.Tensor], most: float) -> np.ndarray:
    """Returns for each of Penstock's draws the class of its outcome. It may differ from that outcome by at most `most` levels."""
    pictures = [row["image"] for row in ours(run, {"image": coloured()}, [op])]
    return Classes([hwc(done) for done in outcomes])(pictures, most)


def their_outcomes(run: Run, policy: Any, outcomes: list[torch.Tensor]) -> np.ndarray:
    tensor = chw(coloured())
    return Classes([hwc(done) for done in outcomes])([hwc(done) for done in theirs(run, lambda: policy(tensor))], 0.2)


@case("RandAugment, 1 operation")
def rand_augment(run: Run) -> Sides:
    policy = v2.RandAugment(1, 9, interpolation=Mode.BILINEAR)
    outcomes = [done for _, _, done in outcomes_of(policy, chw(coloured()), 9)]
    mine = our_outcomes(run, T.RandAugment(1, 9, interpolation="bilinear"), outcomes, 3)
    return {"operation and sign": mine}, {"operation and sign": their_outcomes(run, policy, outcomes)}


@case("RandAugment, 2 operations")
def rand_augment_twice(run: Run) -> Sides:
    policy = v2.RandAugment(2, 9, interpolation=Mode.BILINEAR)
    outcomes = [second for _, _, first in outcomes_of(policy, chw(coloured()), 9) for _, _, second in outcomes_of(policy, first, 9)]
    mine = our_outcomes(run, T.RandAugment(2, 9, interpolation="bilinear"), outcomes, 6)
    return {"pair of operations": mine}, {"pair of operations": their_outcomes(run, policy, outcomes)}


@case("TrivialAugmentWide")
def trivial_augment(run: Run) -> Sides:
    """torchvision's magnitudes are float32, so it shifts by 15 pixels instead of 16, and has other thresholds."""
    policy, exact = (v2.TrivialAugmentWide(interpolation=Mode.BILINEAR) for _ in range(2))
    found, meant = (outcomes_of(one, chw(coloured())) for one in (policy, in_float64(exact)))
    numbers = {name: i for i, name in enumerate(dict.fromkeys(name for name, _, _ in found))}

    def read(outcomes: np.ndarray) -> Draws:
        signed = [found[i][1] for i in outcomes]
        return {"operation": [numbers[found[i][0]] for i in outcomes], "magnitude and sign": [one or NOTHING for one in signed]}

    mine = our_outcomes(run, T.TrivialAugmentWide(interpolation="bilinear"), [done for _, _, done in meant], 1.5)
    return read(mine), read(their_outcomes(run, policy, [done for _, _, done in found]))


def auto_augment(policy_name: str) -> Callable[[Run], Sides]:
    def both(run: Run) -> Sides:
        policy = v2.AutoAugment(v2.AutoAugmentPolicy(policy_name), interpolation=Mode.BILINEAR)
        outcomes = []
        for pair in policy._policies:
            done = [chw(coloured())]
            for name, _, magnitude in pair:
                signs = (False, True) if policy._AUGMENTATION_SPACE[name][1] else (False,)
                done += [done_by_torchvision(policy, one, name, magnitude, sign) for one in done for sign in signs]
            outcomes += done
        mine = our_outcomes(run, T.AutoAugment(policy_name, "bilinear"), outcomes, 8)
        return {"outcome": mine}, {"outcome": their_outcomes(run, policy, outcomes)}

    return both


for name in ("imagenet", "cifar10", "svhn"):
    CASES[f"AutoAugment, {name}"] = auto_augment(name)


@case("AugMix")
def augmix(run: Run) -> Sides:
    """Compares the overall effect of AugMix, because its outcomes cannot be enumerated."""
    image = coloured()
    before = image.astype(np.float64)

    def read(done: np.ndarray) -> dict[str, float]:
        gap = done - before
        return {"distance": np.abs(gap).mean(), "mean level": gap.mean(), "contrast": done.std(),
                "red of a pixel": done[6, 9, 0] + 0.001 * done[6, 9, 1]}  # fmt: skip

    return by_image(run, image, T.AugMix(), v2.AugMix(), read)


# Batches ------------------------------------------------------------------------------------------------------------------


def batches(run: Run, images: list[np.ndarray], mix: Any) -> list[dict[str, np.ndarray]]:
    """Yields mixed batches of the same rows, one for each draw."""
    path, ops = run.unused(), [T.Resize(images[0].shape[:2])]
    with ps.Writer(path, {"image": ps.Image("raw"), "label": ps.Int()}) as writer:
        for _ in range(run.n_rows):
            for label, image in enumerate(images):
                writer.write({"image": image, "label": label})
    options = {"batch_size": len(images), "num_workers": 0, "output": "numpy", "layout": "NHWC", "seed": SEED, "mix": mix}
    loader = ps.Loader(path, **keywords(transforms=ops, **options))
    return [{name: np.array(value) for name, value in batch.items()} for _ in range(N_EPOCHS) for batch in loader]


def two_rows() -> tuple[list[np.ndarray], torch.Tensor, torch.Tensor]:
    images = [np.full((32, 48, 3), level, np.uint8) for level in (0, 200)]
    return images, torch.stack([chw(image).float() for image in images]), torch.tensor([0, 1])


@case("MixUp")
def mixup(run: Run) -> Sides:
    images, tensors, labels = two_rows()
    mine: Draws = {}
    others: Draws = {}
    for alpha in (0.2, 1.0):
        transform = v2.MixUp(alpha=alpha, num_classes=2)
        done = theirs(run, lambda t=transform: t(tensors.clone(), labels)[1])
        mine[f"lambda of alpha {alpha}"] = [batch["label"][0, 0] for batch in batches(run, images, T.MixUp(alpha, 2))]
        others[f"lambda of alpha {alpha}"] = [float(label[0, 0]) for label in done]
    return mine, others


@case("CutMix")
def cutmix(run: Run) -> Sides:
    images, tensors, labels = two_rows()
    transform = v2.CutMix(alpha=1.0, num_classes=2)

    def read(image: np.ndarray, share: float) -> dict[str, float]:
        hole = np.argwhere(image[..., 0] == 200)
        if len(hole) == 0:
            return {"lambda": share, "left": NOTHING, "top": NOTHING, "width": 0, "height": 0}
        (y, x), (end_y, end_x) = hole.min(0), hole.max(0) + 1
        return {"lambda": share, "left": x, "top": y, "width": end_x - x, "height": end_y - y}

    mine = table(read(batch["image"][0], batch["label"][0, 0]) for batch in batches(run, images, T.CutMix(1.0, 2)))
    done = theirs(run, lambda: transform(tensors.clone(), labels))
    return mine, table(read(hwc(image[0]), float(label[0, 0])) for image, label in done)


@case("Mosaic")
def mosaic(run: Run) -> Sides:
    """Compares with the documented distribution: a point uniform within `centre` of the canvas, three partners with replacement."""
    height, width, low, high = 32, 48, 0.3, 0.7
    images = [places(height, width) for _ in range(4)]
    for i, image in enumerate(images):
        image[..., 2] = 60 * i

    def read(image: np.ndarray) -> dict[str, float]:
        done = image[-1, -1, 0] != width - 1  # the left part of the partner is visible
        found = {"x": width - int(image[0, 0, 0]), "y": height - int(image[0, 0, 1]), "top right": image[0, -1, 2] // 60,
                 "bottom left": image[-1, 0, 2] // 60, "bottom right": image[-1, -1, 2] // 60}  # fmt: skip
        return {"done": done, **{name: value if done else NOTHING for name, value in found.items()}}

    rng = np.random.default_rng(SEED)
    point = [np.floor((2 * rng.uniform(low, high, run.n) - 0.5) * size + 0.5) for size in (width, height)]
    partners = rng.integers(0, 4, (3, run.n))
    law = {"done": rng.random(run.n) < 0.6, "x": point[0], "y": point[1],
           "top right": partners[0], "bottom left": partners[1], "bottom right": partners[2]}  # fmt: skip
    return table(read(batch["image"][0]) for batch in batches(run, images, T.Mosaic(0.6, (low, high)))), law


# Sound --------------------------------------------------------------------------------------------------------------------


def sounds(run: Run, samples: np.ndarray, ops: list[Any]) -> list[np.ndarray]:
    """Returns what operations make of one mono sound at 8 kHz, one result for each draw."""
    from test_audio import float_wav

    path = run.unused()
    with ps.Writer(path, {"sound": ps.Audio()}) as writer:
        for _ in range(run.n_rows):
            writer.write({"sound": float_wav(samples[None], 8000)})
    loader = ps.Loader(path, min(50, run.n_rows), **keywords(transforms={"sound": ops}, num_workers=0, output="numpy", seed=SEED))
    return [np.array(row) for _ in range(N_EPOCHS) for batch in loader for row in batch["sound"]]


def run_of(masked: np.ndarray) -> dict[str, float]:
    at = np.flatnonzero(masked)
    return {"start": at[0] if len(at) else NOTHING, "length": len(at)}


@case("TimeMask")
def time_mask(run: Run) -> Sides:
    transforms = torchaudio_itself().transforms
    wave = np.random.default_rng(2).uniform(-0.5, 0.5, 1100).astype(np.float32)
    chain = [T.Spectrogram(40, hop_length=20)]
    shape = sounds(run, wave, chain)[0].shape
    mask, tensor = transforms.TimeMasking(30, p=0.4), torch.ones(1, *shape[1:])
    mine = table(run_of((row[0] == -1).all(0)) for row in sounds(run, wave, [*chain, T.TimeMask(30, 0.4, -1)]))
    return mine, table(run_of((done[0].numpy() == -1).all(0)) for done in theirs(run, lambda: mask(tensor, mask_value=-1.0)))


@case("FrequencyMask")
def frequency_mask(run: Run) -> Sides:
    transforms = torchaudio_itself().transforms
    wave = np.random.default_rng(2).uniform(-0.5, 0.5, 400).astype(np.float32)
    mask, tensor = transforms.FrequencyMasking(27), torch.ones(1, 61, 7)
    mine = table(run_of((row[0] == -1).all(1)) for row in sounds(run, wave, [T.Spectrogram(120), T.FrequencyMask(27, -1)]))
    return mine, table(run_of((done[0].numpy() == -1).all(1)) for done in theirs(run, lambda: mask(tensor, mask_value=-1.0)))


@case("RandomClip")
def random_clip(run: Run) -> Sides:
    """Compares with the documented distribution: uniform over the places where the clip fits."""
    ramp = (np.arange(500) / 1000).astype(np.float32)
    start = [round(1000 * float(row[0, 0])) for row in sounds(run, ramp, [T.RandomClip(100)])]
    return {"start": start}, {"start": np.random.default_rng(SEED).integers(0, 401, run.n)}


@case("Gain")
def gain(run: Run) -> Sides:
    """Compares with the documented distribution: uniform in decibels, applied with probability p."""
    rng = np.random.default_rng(SEED)
    done = rng.random(run.n) < 0.6
    rows = sounds(run, np.full(20, 0.25, np.float32), [T.Gain((3, 9), 0.6)])
    levels = [20 * math.log10(float(row[0, 0]) / 0.25) for row in rows]
    return ({"done": [db > 1 for db in levels], "decibels": [db if db > 1 else NOTHING for db in levels]},
            {"done": done, "decibels": np.where(done, rng.uniform(3, 9, run.n), NOTHING)})  # fmt: skip


@case("AddNoise")
def add_noise(run: Run) -> Sides:
    """Compares with the documented distribution: the ratio is uniform in decibels, the noise normal."""
    wave = np.random.default_rng(2).uniform(-0.5, 0.5, 400).astype(np.float32)
    mine: list[dict[str, float]] = []
    for row in sounds(run, wave, [T.AddNoise((5, 25))]):
        noise = row[0].astype(np.float64) - wave
        power = (noise**2).mean()
        ratio = (wave.astype(np.float64) ** 2).mean() / power
        mine.append({"decibels": 10 * math.log10(ratio), "noise": noise[200] / math.sqrt(power)})
    rng = np.random.default_rng(SEED)
    return table(mine), {"decibels": rng.uniform(5, 25, run.n), "noise": rng.standard_normal(run.n)}


# Tests --------------------------------------------------------------------------------------------------------------------


def comparisons(name: str, run: Run) -> dict[str, Comparison]:
    mine, others = CASES[name](run)
    assert list(mine) == list(others)
    assert all(len(side[what]) == run.n for side in (mine, others) for what in mine)
    return {what: compare(mine[what], others[what]) for what in mine}


def differing(found: dict[str, Comparison]) -> dict[str, Comparison]:
    return {what: one for what, one in found.items() if not one.p >= LEAST_P}


def documented() -> dict[str, list[str]]:
    """Returns the cases in the document's table, with the parameters compared for each."""
    section = DOCUMENT.read_text().split("## What is drawn")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE)
    return {name.replace("`", ""): [part.rsplit(" ", 1)[0] for part in parts.split(", ")] for name, parts in rows}


@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW])
def test_few_draws_have_the_reference_s_distribution(name: str, tmp_path: Path) -> None:
    found = comparisons(name, Run(tmp_path, FEW_DRAWS))
    assert differing(found) == {}
    assert documented()[name] == list(found)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_reference_s_distribution(name: str, tmp_path: Path) -> None:
    found = comparisons(name, Run(tmp_path, DRAWS))
    assert differing(found) == {}
    assert documented()[name] == list(found)


def test_every_random_operation_has_a_case() -> None:
    kinds = [getattr(T, name) for name in T.__all__ if isinstance(getattr(T, name), type)]
    kinds = [kind for kind in kinds if dataclasses.is_dataclass(kind) and kind is not T.Mix]
    chances = {"p", "brightness", "sigma", "alpha"}  # arguments that leave something to chance
    given = {kind.__name__: {each.name for each in dataclasses.fields(kind)} for kind in kinds}
    random = {kind.__name__ for kind in kinds if getattr(kind, "_draws", False) or chances & given[kind.__name__]}
    assert {"GaussianBlur", "RandomInvert", "MixUp", "Gain"} <= random
    assert random == {name.split(",")[0] for name in CASES}


def test_the_document_s_table_is_of_all_cases() -> None:
    found = documented()
    assert list(found) == list(CASES)
    assert sum(len(parts) for parts in found.values()) == N_COMPARISONS


@pytest.mark.parametrize(("name", "function", "wrong"), [
    ("RandomHorizontalFlip", "rand", lambda *size: torch.full(size, 0.9)),
    ("RandomCrop", "randint", lambda low, high, size, **_: torch.zeros(size, dtype=torch.long)),
    ("ColorJitter", "randperm", torch.arange),
    ("RandAugment, 1 operation", "rand", lambda *_: torch.tensor(0.9)),
    ("TimeMask", "rand", lambda *_, **_2: torch.tensor([0.4])),
])  # fmt: skip
def test_a_wrong_draw_is_found(name: str, function: str, wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is made to draw wrong numbers: another order, no sign, a fixed place. The tests must notice."""
    monkeypatch.setattr(torch, function, wrong)
    assert differing(comparisons(name, Run(tmp_path, FEW_DRAWS)))


def test_small_differences_are_found() -> None:
    """With 4,000 draws the tests detect a distribution that is shifted by 0.06, and a probability that differs by 0.06."""
    rng = np.random.default_rng(1)
    same = [compare(rng.random(DRAWS), rng.random(DRAWS)).p for _ in range(100)]
    assert 27 < sum(p < 0.4 for p in same) < 53 and min(same) > LEAST_P
    assert kolmogorov_smirnov(rng.random(DRAWS), rng.uniform(0.06, 1.06, DRAWS)).p < LEAST_P
    even = [compare(rng.integers(0, 14, DRAWS), rng.integers(0, 14, DRAWS)).p for _ in range(100)]
    assert 27 < sum(p < 0.4 for p in even) < 53 and min(even) > LEAST_P
    assert chi_square(rng.random(DRAWS) < 0.30, rng.random(DRAWS) < 0.36).p < LEAST_P
    assert chi_square(rng.integers(0, 14, DRAWS), rng.integers(0, 13, DRAWS)).p < LEAST_P


def test_probabilities_are_those_of_tables() -> None:
    near = kolmogorov_smirnov(np.arange(100), np.arange(100) + 0.5)
    assert abs(near.statistic - 0.01) < 1e-9 and near.p == 1
    assert chi_square(np.repeat([0, 1], 50), np.repeat([0, 1], [60, 40])).p == pytest.approx(0.155, abs=0.002)


def main(names: list[str]) -> None:
    print("| operation | what is compared, with p |\n|---|---|")
    total = 0
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = comparisons(name, Run(Path(folder), DRAWS))
        total += len(found)
        operation, comma, rest = name.partition(",")
        print(f"| `{operation}`{comma}{rest} | {', '.join(f'{what} {one.p:.2g}' for what, one in found.items())} |", flush=True)
    print(f"{total} comparisons")


if __name__ == "__main__":
    main(sys.argv[1:])
