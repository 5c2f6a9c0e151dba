"""The documented rules of nearest resizes and warps, and of bicubic resizes of 16-bit images, compared with torch's arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import penstock as ps
from flat import keywords
from penstock import transforms as T

LARGEST = 256
DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "torchvision.md"


def exact_rule(n_from: int, n_to: int) -> np.ndarray:
    """Nearest-exact in integers: the pixel that contains the centre of output i. If the centre lies between two pixels: the higher
    one.
    """
    return (2 * np.arange(n_to) + 1) * n_from // (2 * n_to)


def is_tie(n_from: int, n_to: int) -> np.ndarray:
    return (2 * np.arange(n_to) + 1) * n_from % (2 * n_to) == 0


def exact_by_torch(n_from: int, n_to: int) -> np.ndarray:
    """Nearest-exact by torch's arithmetic: float32."""
    scale = np.float32(n_from) / np.float32(n_to)
    return np.minimum(((np.arange(n_to, dtype=np.float32) + np.float32(0.5)) * scale).astype(np.int64), n_from - 1)


def nearest_rule(n_from: int, n_to: int) -> np.ndarray:
    """Nearest: the pixel in which output i begins. In float32: one division, one multiplication."""
    scale = np.float32(n_from) / np.float32(n_to)
    return np.minimum((np.arange(n_to, dtype=np.float32) * scale).astype(np.int64), n_from - 1)


def by_torch(n_from: int, n_to: int, mode: str) -> np.ndarray:
    row = torch.arange(n_from, dtype=torch.uint8).reshape(1, 1, 1, n_from)
    return torch.nn.functional.interpolate(row, size=(1, n_to), mode=mode).reshape(-1).numpy().astype(np.int64)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Returns rows of pixels of 22 widths. Pixels encode their positions."""
    path, widths = tmp_path_factory.mktemp("rows") / "set.pst", [1, 2, 3, 5, 7, *range(8, LARGEST + 1, 15)]
    with ps.Writer(path, {"image": ps.Image("raw")}) as writer:
        for width in widths:
            writer.write({"image": np.repeat(np.arange(width, dtype=np.uint8)[None, :, None], 3, 2)})
    return path, widths


def resized(path: Path, op: T.Transform, **options: object) -> list[np.ndarray]:
    loader = ps.Loader(path, **keywords(transforms=[op], output="numpy", layout="NHWC", num_workers=0, **options))
    return [np.array(image) for batch in loader for image in batch["image"]]


@pytest.mark.parametrize(("mode", "rule"), [("nearest", nearest_rule), ("nearest-exact", exact_rule)])
def test_nearest_resizes_follow_their_rule(rows: tuple[Path, list[int]], mode: str, rule) -> None:  # noqa: ANN001
    path, widths = rows
    for n_to in (1, 2, 3, 6, 12, 16, 22, 30, 46, 54, 62, 78, 94, 106, 118, 166, 190, 207, 255, 256, 302):
        for n_from, image in zip(widths, resized(path, T.Resize((1, n_to), mode)), strict=True):
            np.testing.assert_array_equal(image[0, :, 0], rule(n_from, n_to), err_msg=f"{n_from} to {n_to}")
            theirs, mine = by_torch(n_from, n_to, mode), rule(n_from, n_to)
            assert not ((theirs != mine) & (~is_tie(n_from, n_to) | (mode == "nearest"))).any()


def test_torch_differs_from_nearest_exact_at_ties_alone() -> None:
    """Compares all pairs of sides up to 256. The document states the numbers of differences."""
    n_pairs = n_tied = n_outputs = 0
    for n_from in range(1, LARGEST + 1):
        for n_to in range(1, LARGEST + 1):
            wrong = exact_by_torch(n_from, n_to) != exact_rule(n_from, n_to)
            tied = is_tie(n_from, n_to)
            assert not (wrong & ~tied).any()
            n_tied += tied.any()
            n_pairs += wrong.any()
            n_outputs += int(wrong.sum())
    assert f"| {n_tied:,} | {n_pairs:,} | {n_outputs:,} |" in DOCUMENT.read_text(), (n_tied, n_pairs, n_outputs)
    for n_from, n_to in ((16, 94), (8, 94), (7, 106), (60, 16), (256, 166)):
        np.testing.assert_array_equal(exact_by_torch(n_from, n_to), by_torch(n_from, n_to, "nearest-exact"))
    assert exact_rule(16, 94)[23] == 4 and exact_by_torch(16, 94)[23] == 3


def test_nearest_warps_take_the_higher_of_two_pixels(tmp_path: Path) -> None:
    """At half the scale, each output's centre lies on a corner of four pixels."""
    size = 12
    y, x = np.mgrid[0:size, 0:size]
    with ps.Writer(tmp_path / "set.pst", {"image": ps.Image("raw")}) as writer:
        writer.write({"image": np.stack([x, y, x * 0 + 200], -1).astype(np.uint8)})
    [image] = resized(tmp_path / "set.pst", T.RandomAffine(0, scale=(0.5, 0.5), interpolation="nearest"))
    place = 2 * np.arange(size) - size / 2 + 0.5  # position of output i's centre, in pixels
    assert (place % 1 == 0.5).all()
    chosen = np.floor(place + 0.5).astype(int)
    inside = (chosen >= 0) & (chosen < size)
    assert inside.sum() == size // 2
    np.testing.assert_array_equal(image[..., 2] == 200, inside[:, None] & inside[None])
    np.testing.assert_array_equal(image[inside][:, inside, 0], np.tile(chosen[inside], (inside.sum(), 1)))
    np.testing.assert_array_equal(image[inside][:, inside, 1].T, np.tile(chosen[inside], (inside.sum(), 1)))


# The largest and the mean difference, in 65,535ths, from a resize that clips only at its end: the numbers in the document.
WITHOUT_CLIP = {"photograph": (800, 0.8), "noise": (7700, 41), "black and white": (11300, 980)}
PHOTOGRAPH = Path(__file__).parents[2] / "examples" / "photographs" / "kodak23.jpg"


def wide_pictures() -> dict[str, np.ndarray]:
    from PIL import Image

    rng = np.random.default_rng(5)
    with Image.open(PHOTOGRAPH) as image:
        photograph = np.asarray(image.convert("RGB").crop((60, 60, 220, 200))).astype(np.uint16) * 257
    black_and_white = (rng.integers(0, 2, (61, 83, 3)) * 65535).astype(np.uint16)
    noise = rng.integers(0, 65536, (61, 83, 3)).astype(np.uint16)
    return {"photograph": photograph, "noise": noise, "black and white": black_and_white}


def two_passes(image: np.ndarray, size: tuple[int, int], antialias: bool, clips: bool) -> np.ndarray:
    """A bicubic resize in float64: columns, then rows. Between the passes values are clipped to 0..65535, or not."""
    tensor = torch.from_numpy(image.astype(np.float64)).permute(2, 0, 1)[None]
    for part in ((image.shape[0], size[1]), size):
        tensor = torch.nn.functional.interpolate(tensor, size=part, mode="bicubic", antialias=antialias)
        if clips or part == size:
            tensor = tensor.clamp(0, 65535)
    return tensor[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(140, 190), (40, 50)])
def test_bicubic_of_16_bits_clips_between_the_passes(tmp_path: Path, size: tuple[int, int], antialias: bool) -> None:
    for name, image in wide_pictures().items():
        path = tmp_path / f"{name}.pst"
        with ps.Writer(path, {"image": ps.Image("raw")}) as writer:
            writer.write({"image": image})
        [mine] = resized(path, T.Resize(size, "bicubic", antialias), bits=16, dtype="uint16")
        assert np.abs(mine - two_passes(image, size, antialias, clips=True)).max() <= 1.4, name
        gap = np.abs(mine - two_passes(image, size, antialias, clips=False))
        largest, mean = WITHOUT_CLIP[name]
        assert gap.max() <= largest and gap.mean() <= mean, (name, gap.max(), gap.mean())
        assert f"| {largest:,} | {mean} |" in DOCUMENT.read_text()
