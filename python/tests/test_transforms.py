"""Operations compared with Pillow, torch and numpy, and the checks of their arguments."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image as PilImage
from PIL import ImageEnhance

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

SIZES = [(37, 53), (120, 80), (64, 64), (200, 31)]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A data set of lossless pictures of several sizes, and their pixels as arrays."""
    path = tmp_path_factory.mktemp("pictures") / "set.pst"
    with ps.Writer(path, {"image": "png"}) as writer:
        for i, (height, width) in enumerate(SIZES):
            writer.write({"image": encoded(picture(i, height, width), "PNG")})
    return path


def run(path, ops, epoch=0, **options):
    """Returns the pixels of each picture, uint8 (H, W, C)."""
    loader = ps.Loader(path, **keywords(batch_size=1, transforms=ops, output="numpy", layout="NHWC", **options))
    loader.set_epoch(epoch)
    return [batch["image"][0].copy() for batch in loader]


def originals():
    return [picture(i, height, width) for i, (height, width) in enumerate(SIZES)]


def levels(a, b):
    assert a.shape == b.shape
    return np.abs(a.astype(int) - b.astype(int)).max()


@pytest.mark.parametrize("size", [(24, 24), (90, 70), (50, 200), 40, 100])
@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_resize_is_within_one_level_of_pillow_and_torch(pictures, size, name):
    for pixels, got in zip(originals(), run(pictures, [T.Resize(size, name)]), strict=True):
        height, width = pixels.shape[:2]
        if isinstance(size, int):  # torchvision's rule for the longer side
            short, long = sorted((height, width))
            other = int(size * long / short)
            target = (size, other) if height <= width else (other, size)
        else:
            target = size
        pil = PilImage.fromarray(pixels).resize(target[::-1], PilImage.Resampling[name.upper()])
        assert levels(got, np.asarray(pil)) <= 1
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        other = torch.nn.functional.interpolate(
            tensor, size=target, mode=name, antialias=True, align_corners=False
        )
        assert levels(got, other[0].permute(1, 2, 0).numpy()) <= 1


def test_resize_without_antialias(pictures):
    got = run(pictures, [T.Resize((20, 20), antialias=False)])
    for pixels, mine in zip(originals(), got, strict=True):
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
        other = torch.nn.functional.interpolate(tensor, size=(20, 20), mode="bilinear")
        assert levels(mine, other[0].round().permute(1, 2, 0).numpy()) <= 1


def test_resize_nearest_takes_pixels_of_the_image(pictures):
    for mode in ("nearest", "nearest-exact"):
        for pixels, got in zip(originals(), run(pictures, [T.Resize((30, 40), mode)]), strict=True):
            tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
            other = torch.nn.functional.interpolate(tensor, size=(30, 40), mode=mode)
            assert levels(got, other[0].permute(1, 2, 0).numpy()) == 0


def test_float_output_is_not_rounded_to_levels(pictures):
    got = run(pictures, [T.Resize((24, 24))], dtype="float32")
    for pixels, mine in zip(originals(), got, strict=True):
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
        other = torch.nn.functional.interpolate(tensor, size=(24, 24), mode="bilinear", antialias=True)
        assert np.abs(mine - other[0].permute(1, 2, 0).numpy()).max() <= 1 / 255 + 1e-6


@pytest.mark.parametrize("size", [16, (20, 31), (100, 100)])
def test_center_crop(pictures, size):
    height, width = (size, size) if isinstance(size, int) else size
    for pixels, got in zip(originals(), run(pictures, [T.CenterCrop(size)]), strict=True):
        h, w = pixels.shape[:2]
        # torchvision's rule: pad missing pixels, half on each side, then crop at the rounded middle.
        pad_h, pad_w = max(height - h, 0), max(width - w, 0)
        padded = np.pad(pixels, ((pad_h // 2, (pad_h + 1) // 2), (pad_w // 2, (pad_w + 1) // 2), (0, 0)))
        top = round((padded.shape[0] - height) / 2)
        left = round((padded.shape[1] - width) / 2)
        np.testing.assert_array_equal(got, padded[top : top + height, left : left + width])


@pytest.mark.parametrize(("mode", "numpy_mode"), [("constant", "constant"), ("edge", "edge"),
                                                  ("reflect", "reflect"), ("symmetric", "symmetric")])
def test_pad(pictures, mode, numpy_mode):
    got = run(pictures, [T.Pad((1, 2, 3, 4), fill=0, padding_mode=mode)])
    for pixels, mine in zip(originals(), got, strict=True):
        np.testing.assert_array_equal(mine, np.pad(pixels, ((2, 4), (1, 3), (0, 0)), numpy_mode))


def test_pad_with_a_colour(pictures):
    for pixels, got in zip(originals(), run(pictures, [T.Pad(2, fill=(10, 20, 30))]), strict=True):
        assert (got[0, 0] == (10, 20, 30)).all() and (got[2:-2, 2:-2] == pixels).all()


def test_flips(pictures):
    for pixels, got in zip(originals(), run(pictures, [T.RandomHorizontalFlip(1)]), strict=True):
        np.testing.assert_array_equal(got, pixels[:, ::-1])
    for pixels, got in zip(originals(), run(pictures, [T.RandomVerticalFlip(1.0)]), strict=True):
        np.testing.assert_array_equal(got, pixels[::-1])
    for pixels, got in zip(originals(), run(pictures, [T.RandomVerticalFlip(0)]), strict=True):
        np.testing.assert_array_equal(got, pixels)


def test_flip_with_probability(pictures):
    flipped = 0
    for epoch in range(100):
        for pixels, got in zip(originals(), run(pictures, [T.RandomHorizontalFlip(0.25)], epoch,
                                                num_workers=0), strict=True):
            same = np.array_equal(got, pixels)
            assert same or np.array_equal(got, pixels[:, ::-1])
            flipped += not same
    assert 60 < flipped < 145  # 100 of 400, within six sigma


def test_random_crop_is_a_window(pictures):
    places = set()
    for epoch in range(20):
        for pixels, got in zip(originals(), run(pictures, [T.RandomCrop(25, padding=3)], epoch),
                               strict=True):
            padded = np.pad(pixels, ((3, 3), (3, 3), (0, 0)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (25, 25, 3))[:, :, 0]
            where = np.argwhere((windows == got).all((2, 3, 4)))
            assert len(where) >= 1
            places.add((pixels.shape, *where[0].tolist()))
    assert len(places) > 60
    with pytest.raises(ps.errors.ArgumentError, match="sample 0"):
        run(pictures, [T.RandomCrop(60)])
    assert run(pictures, [T.RandomCrop(60, pad_if_needed=True)])[0].shape == (60, 60, 3)


def test_random_resized_crop(pictures):
    whole = [T.RandomResizedCrop((24, 24), scale=(1, 1), ratio=(1, 1))]
    square = run(pictures, whole)[2]  # 64 x 64: the whole picture
    pil = PilImage.fromarray(originals()[2]).resize((24, 24), PilImage.Resampling.BILINEAR)
    assert levels(square, np.asarray(pil)) <= 1
    first = run(pictures, [T.RandomResizedCrop(24)])
    again = run(pictures, [T.RandomResizedCrop(24)])
    later = run(pictures, [T.RandomResizedCrop(24)], epoch=1)
    for a, b, c in zip(first, again, later, strict=True):
        assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_grayscale_is_pillows_luma(pictures):
    for pixels, got in zip(originals(), run(pictures, [T.Grayscale(3)]), strict=True):
        luma = np.asarray(PilImage.fromarray(pixels).convert("L"))
        assert levels(got, np.stack([luma] * 3, -1)) <= 1
    one = run(pictures, [T.Grayscale()])
    assert one[0].shape == (*SIZES[0], 1)


def test_random_grayscale(pictures):
    for ops, wanted in (([T.RandomGrayscale(0.0)], False), ([T.RandomGrayscale(1.0)], True)):
        for got in run(pictures, ops):
            assert bool((got[..., 0] == got[..., 1]).all()) == wanted


@pytest.mark.parametrize(("member", "enhance"), [("brightness", ImageEnhance.Brightness),
                                                 ("contrast", ImageEnhance.Contrast),
                                                 ("saturation", ImageEnhance.Color)])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.6])
def test_color_jitter_against_pillow(pictures, member, enhance, factor):
    got = run(pictures, [T.ColorJitter(**{member: (factor, factor)})])
    for pixels, mine in zip(originals(), got, strict=True):
        pil = enhance(PilImage.fromarray(pixels)).enhance(factor)
        assert levels(mine, np.asarray(pil)) <= 2  # Pillow rounds the mean and the luma to levels


def test_hue(pictures):
    import colorsys

    got = run(pictures, [T.ColorJitter(hue=(0.25, 0.25))])
    pixels = originals()[0]
    wanted = np.empty(pixels.shape)
    for y, x in np.ndindex(pixels.shape[:2]):
        h, s, v = colorsys.rgb_to_hsv(*(pixels[y, x] / 255))
        wanted[y, x] = np.array(colorsys.hsv_to_rgb((h + 0.25) % 1, s, v)) * 255
    assert np.abs(got[0] - wanted).max() <= 1


def test_color_jitter_ranges(pictures):
    assert T.ColorJitter(0.4, hue=0.1).describe()["brightness"] == pytest.approx([0.6, 1.4])
    assert T.ColorJitter(2.0).describe()["brightness"] == [0.0, 3.0]
    assert T.ColorJitter().describe()["hue"] == [0.0, 0.0]
    changed = run(pictures, [T.ColorJitter(0.8, 0.8, 0.8, 0.4)])
    assert all(levels(a, b) > 5 for a, b in zip(changed, originals(), strict=True))


@pytest.mark.parametrize(("make", "text"), [
    (lambda: T.Resize(0), "Resize: a side has 1"),
    (lambda: T.Resize("big"), "Resize: size is"),
    (lambda: T.Resize((1, 2, 3)), "Resize: size is"),
    (lambda: T.Resize(2.5), "Resize: size is"),
    (lambda: T.Resize(True), "whole number"),
    (lambda: T.Resize(5, "lanczos"), "interpolation is one of"),
    (lambda: T.CenterCrop((3, 70000)), "a side has 1"),
    (lambda: T.RandomCrop(5, padding=(1, 2, 3)), "padding is 1, 2 or 4"),
    (lambda: T.RandomCrop(5, padding=-1), "padding is pixels"),
    (lambda: T.RandomCrop(5, padding_mode="wrap"), "padding_mode is one of"),
    (lambda: T.RandomResizedCrop(5, scale=(1, 0.5)), "scale must lie"),
    (lambda: T.RandomResizedCrop(5, scale=(0, 0.5)), "scale must be above 0"),
    (lambda: T.RandomResizedCrop(5, ratio=2), "ratio is"),
    (lambda: T.RandomHorizontalFlip(1.5), "p is a probability"),
    (lambda: T.RandomVerticalFlip("often"), "p is a probability"),
    (lambda: T.Pad(1, fill=(1, 2, 3, 4, 5)), "fill is a number"),
    (lambda: T.ColorJitter(brightness=-1), "must not be negative"),
    (lambda: T.ColorJitter(hue=0.7), "hue must lie"),
    (lambda: T.ColorJitter(contrast=(2, 1)), "contrast must lie"),
    (lambda: T.Grayscale(2), "num_output_channels"),
    (lambda: T.Normalize(0.5, 0), "std must be above 0"),
    (lambda: T.Normalize((0.5, 0.5, 0.5), (1, 1)), "same number"),
    (lambda: T.Normalize((123.68, 116.78, 103.94), (58.4, 57.1, 57.4)), "mean must be within 0..1.*by 255"),
    (lambda: T.Normalize((0.485, 0.456, 0.406), (58.4, 57.1, 57.4)), "std must be above 0.*by 255"),
    (lambda: T.Normalize((-0.1, 0.456, 0.406), 0.2), "mean must be within"),
    (lambda: T.Normalize(float("nan"), 0.2), "mean must be within"),
    (lambda: T.Normalize([1] * 5, 1), "1 to 4"),
])
def test_wrong_arguments(make, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        make()


def test_operations_are_values():
    ops = [T.Resize(5), T.CenterCrop((3, 4)), T.RandomCrop(9, 2), T.RandomResizedCrop(224),
           T.RandomHorizontalFlip(), T.RandomVerticalFlip(0.1), T.Pad(3, 7, "edge"),
           T.ColorJitter(0.1, (0.5, 1.5)), T.Grayscale(3), T.RandomGrayscale(),
           T.Normalize(np.array([0.5, 0.4, 0.3]), torch.ones(3))]
    assert pickle.loads(pickle.dumps(ops)) == ops == copy.deepcopy(ops)
    assert repr(T.Resize(5)) == "Resize(size=5, interpolation='bilinear', antialias=True)"
    assert repr(ops[-1]) == "Normalize(mean=(0.5, 0.4, 0.3), std=(1.0, 1.0, 1.0))"
    with pytest.raises(AttributeError):
        ops[0].size = 3


def test_torchvision_interpolation_mode():
    class Mode:  # as torchvision.transforms.InterpolationMode.BICUBIC
        value = "bicubic"

    assert T.Resize(5, Mode()).describe()["interpolation"] == 3
    Mode.value = "nearest-exact"
    assert T.Resize(5, Mode()).describe()["interpolation"] == 4


def test_one_channel_after_colour_is_refused(pictures):
    with pytest.raises(ps.errors.ArgumentError, match="Grayscale"):
        run(pictures, [T.ColorJitter(0.5), T.Grayscale(1)])


EVERY_OPERATION = [
    T.Resize((40, 50), "bicubic", antialias=False),
    T.CenterCrop(38, mask_fill=255),
    T.RandomCrop((32, 30), padding=(1, 2), fill=(1, 2, 3), padding_mode="reflect"),
    T.RandomResizedCrop(24, scale=(0.2, 1.0), interpolation="nearest-exact"),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(0.25),
    T.Pad((1, 2, 3, 4), fill=7),
    T.ColorJitter(0.4, (0.5, 1.5), hue=0.1),
    T.RandomGrayscale(0.2),
    T.Grayscale(3),
    T.Identity(),
    T.RandomApply([T.RandomInvert(1), T.RandomPosterize(3)], 0.2),
    T.RandomChoice([T.RandomSolarize(100.5), T.RandomAutocontrast(), T.RandomEqualize(0.3)], (1, 0, 2.5)),
    T.RandomAdjustSharpness(2, 0.9),
    T.GaussianBlur((3, 5), (0.5, 2)),
    T.RandomRotation(15, "bilinear", (3, 4), fill=None, mask_fill=255),
    T.RandomAffine((-5, 10), (0.1, 0.2), (0.5, 1.5), (-3, 3, 1, 2), "bilinear", fill=(1, 2, 3)),
    T.RandomPerspective(0.3, 0.4),
    T.ElasticTransform((10, 20), 4.0, "nearest", fill=9),
    T.RandAugment(3, 5, 10),
    T.TrivialAugmentWide(20, "bilinear", fill=3),
    T.AutoAugment("svhn"),
    T.AugMix(2, 2, 1, 0.5, all_ops=False),
    T.RandomIoUCrop(0.2, sampler_options=(0.5, 1.0), trials=7),
    T.RandomZoomOut((1, 2, 3), (1.5, 2), 0.3, mask_fill=7),
    T.Letterbox((64, 32), scale_up=False),
    T.ScaleJitter((64, 32), (0.2, 1.0), "bicubic"),
    T.RandomShortestSize((10, 20), 40),
    T.RandomResize(10, 20),
    T.RandomScaleCrop(64, (0.5, 0.7)),
    T.MapLabels({7: 0, 8: 1}, other=None),
    T.SanitizeBoxes(3, 9),
    T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD),
    T.RandomErasing(0.3, (0.1, 0.2), (0.5, 2), value="random"),
]


def test_json_gives_the_operations_back():
    assert T.from_json(T.to_json(EVERY_OPERATION)) == EVERY_OPERATION
    by_field = {"image": EVERY_OPERATION, "mask": EVERY_OPERATION[:3]}
    assert T.from_json(T.to_json(by_field)) == by_field
    assert T.from_json(T.to_json(T.CenterCrop(np.int64(8)))) == [T.CenterCrop(8)]
    assert json.loads(T.to_json([T.RandomCrop(8)])) == [{"op": "RandomCrop", "size": 8}]
    [listed] = T.from_json(T.to_json([T.Resize([9, 8])]))
    assert listed.describe() == T.Resize((9, 8)).describe()
    inner = [op for group in EVERY_OPERATION for op in getattr(group, "transforms", ())]
    names = {type(op).__name__ for op in EVERY_OPERATION + inner} | {"Transform", "from_json", "to_json"}
    apart = (T.AudioTransform, T.Mix)
    others = {name for name in T.__all__ if isinstance(getattr(T, name), type) and issubclass(getattr(T, name), apart)}
    assert names | others == set(T.__all__)  # a new operation must be added to this round trip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "not JSON"),
        ("3", "a list of operations"),
        ('{"op": "Pad", "padding": 1}', "a list of operations"),
        ("[3]", "an operation is an object"),
        ('[{"op": "CentreCrop", "size": 2}]', "did you mean 'CenterCrop'"),
        ('[{"op": "Transform"}]', "no operation 'Transform'"),
        ('[{"op": "CenterCrop", "sise": 2}]', "did you mean 'size'"),  # codespell:ignore sise
        ('[{"op": "CenterCrop"}]', "'size' is missing"),
        ('[{"op": "CenterCrop", "size": 0}]', "a side has 1 to"),
    ],
)
def test_wrong_json(text, says):
    with pytest.raises(ps.errors.ArgumentError, match=says):
        T.from_json(text)


def test_the_command_line_draws_what_the_loader_gives(pictures, tmp_path):
    """`penstock view` reads the same operations: its sheet shows the loader's pixels."""
    for ops in [
        [T.RandomCrop(28, padding=(3, 4), pad_if_needed=True, fill=(9, 8, 7)), T.ColorJitter(0.3, (0.5, 1.5), 0.2, 0.1)],
        [T.RandomResizedCrop((31, 40), (0.2, 0.9), (0.5, 2.0), "bicubic"), T.RandomVerticalFlip(0.7), T.RandomGrayscale(0.6)],
        [T.Resize(40, "nearest", antialias=False), T.Pad((1, 2, 3, 4), padding_mode="symmetric"), T.CenterCrop(44)],
        [T.Resize((40, 40)), T.RandAugment(3, 8, fill=9), T.TrivialAugmentWide(20), T.AutoAugment("cifar10", "bilinear")],
        [T.Resize((40, 40)), T.AugMix(4, 2, 2, 0.7, all_ops=False), T.RandomRotation((5, 40), "bilinear", (9, 9), (1, 2, 3))],
        [T.Resize((40, 40)), T.RandomAffine(20, (0.2, 0.1), (0.6, 1.4), (1, 9, -8, 2)), T.RandomPerspective(0.4, 0.8, fill=None)],
        [T.Resize((40, 40)), T.ElasticTransform((50, 20), 3), T.GaussianBlur((3, 5), (0.4, 2)), T.RandomErasing(0.7, value=77)],
        [T.Resize((40, 40)), T.RandomApply([T.RandomInvert(1), T.RandomPosterize(3), T.RandomVerticalFlip()], 0.6),
         T.RandomChoice([T.Identity(), T.RandomSolarize(90, 1), T.RandomEqualize(1)], (1, 2, 3)), T.RandomAutocontrast(),
         T.RandomAdjustSharpness(2.5, 0.9)],
    ]:
        (tmp_path / "ops.json").write_text(T.to_json(ops))
        command = [sys.executable, "-m", "penstock.cli.main", "view", pictures, ":", "--epoch", "3", "--size", "48"]
        command += ["--transforms", tmp_path / "ops.json", "-o", tmp_path / "sheet.png", "--json", "--force"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        sheet = np.asarray(PilImage.open(tmp_path / "sheet.png"))
        for tile, expected in zip(report["tiles"], run(pictures, ops, epoch=3), strict=True):
            y, x, height, width = (tile[name] for name in ("y", "x", "height", "width"))
            np.testing.assert_array_equal(sheet[y : y + height, x : x + width], expected)
