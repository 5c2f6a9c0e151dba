"""Operations against those of torchvision v2 with the same names and arguments, on photographs.

Deterministic operations are compared with torchvision's functionals for the same arguments, random ones for the drawn parameters.
Skipped where torchvision is not installed.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as PilImage

import penstock as ps
from conftest import torchvision_v2
from flat import keywords
from penstock import transforms as T

v2 = torchvision_v2(module_level=True)
F, Mode = v2.functional, v2.InterpolationMode

PHOTOGRAPHS = Path(__file__).parents[2] / "examples" / "photographs"
# File, left, top, width, height: wide, tall, square and small.
CROPS = [("kodak03.jpg", 20, 31, 301, 203), ("kodak05.jpg", 100, 3, 187, 260), ("kodak23.jpg", 60, 60, 224, 224),
         ("kodak07.png", 5, 8, 96, 63)]


@functools.cache  # tests only read them
def originals() -> list[np.ndarray]:
    """uint8 (H, W, 3)."""
    return [np.array(PilImage.open(PHOTOGRAPHS / name).convert("RGB").crop((x, y, x + width, y + height)))
            for name, x, y, width, height in CROPS]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """The crops, with a class map and two corners as keypoints for each; they show the drawn parameters."""
    path = tmp_path_factory.mktemp("photographs") / "set.pst"
    schema = {"image": ps.Image("raw"), "mask": ps.Mask(), "corners": ps.Keypoints()}
    with ps.Writer(path, schema) as writer:
        for pixels in originals():
            height, width = pixels.shape[:2]
            corners = np.array([[0, 0, 2], [width, height, 2]], np.float32)
            writer.write({"image": pixels, "mask": np.ascontiguousarray(pixels[..., 1]), "corners": corners})
    return path


def run(path, ops, field="image", **options):
    """Returns the rows of a field in torchvision's layout: uint8 (C, H, W)."""
    loader = ps.Loader(path, **keywords(transforms={field: ops}, fields=[field], output="torch", **options))
    return [batch[field][0].clone() for batch in loader]


def levels(a, b):
    assert a.shape == b.shape
    return int((a.int() - b.int()).abs().max())


def compare(path, op, reference, most=1):
    for pixels, mine in zip(originals(), run(path, [op]), strict=True):
        theirs = reference(torch.from_numpy(pixels).permute(2, 0, 1))
        assert levels(mine, theirs) <= most


SIZES = [(96, 96), (64, 211), (400, 333), 75, 300]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", [Mode.BILINEAR, Mode.BICUBIC])
def test_resize(photographs, size, antialias, mode):
    wanted = [size] if isinstance(size, int) else list(size)
    compare(photographs, T.Resize(size, mode, antialias=antialias),
            lambda image: F.resize(image, wanted, mode, antialias=antialias))


@pytest.mark.parametrize("size", [*SIZES, (17, 3), (203, 602), (1, 1)])
@pytest.mark.parametrize("mode", [Mode.NEAREST, Mode.NEAREST_EXACT])
def test_resize_takes_the_same_pixels(photographs, size, mode):
    wanted = [size] if isinstance(size, int) else list(size)
    compare(photographs, T.Resize(size, mode), lambda image: F.resize(image, wanted, mode), most=0)
    masks = run(photographs, [T.Resize(size, mode)], "mask")
    for pixels, mine in zip(originals(), masks, strict=True):
        assert torch.equal(mine, F.resize_mask(torch.from_numpy(pixels[None, ..., 1]), wanted)[0]) \
            or mode is Mode.NEAREST_EXACT


def test_nearest_and_nearest_exact_differ(photographs):
    one, other = (run(photographs, [T.Resize((100, 100), name)]) for name in ("nearest", "nearest-exact"))
    assert not torch.equal(one[0], other[0])


@pytest.mark.parametrize("size", [50, (63, 96), (225, 400)])
def test_center_crop(photographs, size):
    wanted = [size, size] if isinstance(size, int) else list(size)
    compare(photographs, T.CenterCrop(size), lambda image: F.center_crop(image, wanted), most=0)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("padding", [3, (7, 2), (5, 0, 11, 31)])
def test_pad(photographs, mode, padding):
    wanted = [padding] if isinstance(padding, int) else list(padding)
    fill = 90 if mode == "constant" else 0
    compare(photographs, T.Pad(padding, fill=fill, padding_mode=mode),
            lambda image: F.pad(image, wanted, fill=fill, padding_mode=mode), most=0)


def test_flips(photographs):
    compare(photographs, T.RandomHorizontalFlip(1.0), F.horizontal_flip, most=0)
    compare(photographs, T.RandomVerticalFlip(1.0), F.vertical_flip, most=0)


@pytest.mark.parametrize(("member", "factor", "name"), [
    ("brightness", 0.6, "adjust_brightness"), ("brightness", 1.4, "adjust_brightness"),
    ("contrast", 0.55, "adjust_contrast"), ("contrast", 1.5, "adjust_contrast"),
    ("saturation", 0.3, "adjust_saturation"), ("saturation", 1.7, "adjust_saturation"),
    ("hue", -0.31, "adjust_hue"), ("hue", 0.2, "adjust_hue"),
])
def test_color_jitter(photographs, member, factor, name):
    compare(photographs, T.ColorJitter(**{member: (factor, factor)}),
            lambda image: getattr(F, name)(image, factor))


@pytest.mark.parametrize("op", [T.Grayscale(3), T.Grayscale(1), T.RandomGrayscale(1.0)])
def test_grayscale(photographs, op):
    """The luma is that of PIL, and of torchvision for PIL images. For tensors torchvision truncates where PIL rounds."""
    channels = getattr(op, "num_output_channels", 3)
    for pixels, mine in zip(originals(), run(photographs, [op]), strict=True):
        assert torch.equal(mine, F.pil_to_tensor(F.rgb_to_grayscale(PilImage.fromarray(pixels), channels)))
        more = mine.int() - F.rgb_to_grayscale(torch.from_numpy(pixels).permute(2, 0, 1), channels).int()
        assert set(more.unique().tolist()) == {0, 1}


def test_grayscale_leaves_gray(tmp_path):
    """torchvision's weights for tensors add up to 0.9999, so gray becomes one level darker there."""
    ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, 2)
    with ps.Writer(tmp_path / "set.pst", {"image": ps.Image("raw")}) as writer:
        writer.write({"image": ramp})
    image, = run(tmp_path / "set.pst", [T.Grayscale(3)])
    assert np.array_equal(image.permute(1, 2, 0).numpy(), ramp)
    theirs = F.rgb_to_grayscale(torch.from_numpy(ramp).permute(2, 0, 1), 3)
    assert torch.equal(theirs.int(), (image.int() - 1).clamp(min=0))


def test_normalize(photographs):
    mean, std = ps.IMAGENET_MEAN, ps.IMAGENET_STD
    got = run(photographs, [T.Normalize(mean, std)])
    for pixels, mine in zip(originals(), got, strict=True):
        image = F.to_dtype(torch.from_numpy(pixels).permute(2, 0, 1), torch.float32, scale=True)
        torch.testing.assert_close(mine, F.normalize(image, list(mean), list(std)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", [Mode.BILINEAR, Mode.BICUBIC, Mode.NEAREST])
@pytest.mark.parametrize("antialias", [True, False])
def test_random_resized_crop(photographs, mode, antialias):
    size = (80, 72)
    ops = [T.RandomResizedCrop(size, interpolation=mode, antialias=antialias), T.RandomHorizontalFlip()]
    n_flipped = n_smaller = 0
    for epoch in range(12):
        loader = ps.Loader(photographs, transforms={"image": ops}, fields=["image", "corners"], output="torch", seed=5)
        loader.set_epoch(epoch)
        for pixels, batch in zip(originals(), loader, strict=True):
            (x0, y0, _), (x1, y1, _) = batch["corners"][0].tolist()
            flipped = x0 > x1
            if flipped:
                x0, x1 = size[1] - x0, size[1] - x1
            width, height = (pixels.shape[1] * size[1] / (x1 - x0), pixels.shape[0] * size[0] / (y1 - y0))
            left, top = (round(-x0 * width / size[1]), round(-y0 * height / size[0]))
            image = torch.from_numpy(pixels).permute(2, 0, 1)
            theirs = F.resized_crop(image, top, left, round(height), round(width), list(size), mode, antialias=antialias)
            assert levels(batch["image"][0], F.horizontal_flip(theirs) if flipped else theirs) <= 1
            n_flipped += flipped
            n_smaller += round(height) < pixels.shape[0] and round(width) < pixels.shape[1]
    assert 10 < n_flipped < 38 and n_smaller > 30
