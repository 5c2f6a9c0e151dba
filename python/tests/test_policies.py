"""Operations of policies against torchvision v2, with the same draws.

The tests compute the random numbers of every draw by Philox and the rules of src/augment/augment_draw.c and augment_policy.c. Then
torchvision's functionals apply the drawn operations. Skipped where torchvision is not installed.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import philox, torchvision_v2
from flat import keywords
from penstock import transforms as T
from test_torchvision import originals

v2 = torchvision_v2(module_level=True)
F, Mode = v2.functional, v2.InterpolationMode
SEED = 7
NOT_GEOMETRIC = 0x80000000


class Stream:
    """The random numbers of one operation for one sample."""

    def __init__(self, epoch, sample, number, seed=SEED):
        folded = philox((epoch, 0, 0, 0x70737430), (seed, 0))
        self.key = philox((0, 0, 0, 0), folded)[:2]
        self.sample, self.number = sample, number

    def words(self, turn):
        return philox((self.sample, 0, self.number, turn), self.key)


def unit(word):
    return (word >> 8) * 2.0**-24


def below(word, n):
    return word * n >> 32


def between(low, high, word):
    return float(np.float32(low + (high - low) * unit(word)))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    path = tmp_path_factory.mktemp("policies") / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw")}) as writer:
        for pixels in originals():
            writer.write({"image": pixels})
    return path


def run(path, ops, n_epochs=1, **options):
    """Returns tensors (C, H, W) by (epoch, sample)."""
    loader = ps.Loader(path, **keywords(transforms=ops, output="torch", seed=SEED, order="sequential", **options))
    return {(epoch, sample): batch["image"][0].clone()
            for epoch in range(n_epochs) for sample, batch in enumerate(loader)}


@functools.cache  # read for each compared row
def images():
    return [torch.from_numpy(pixels).permute(2, 0, 1) for pixels in originals()]


def far(mine, theirs, most):
    """Returns the share of values that differ by more than `most` levels."""
    assert mine.shape == theirs.shape
    return float(((mine.int() - theirs.int()).abs() > most).float().mean())


def compare(path, op, reference):
    for (_, sample), mine in run(path, [op]).items():
        assert far(mine, reference(images()[sample]), 1) == 0


@pytest.mark.parametrize(("op", "reference"), [
    (T.RandomInvert(1), F.invert),
    (T.RandomPosterize(0, 1), lambda x: F.posterize(x, 0)),
    (T.RandomPosterize(3, 1), lambda x: F.posterize(x, 3)),
    (T.RandomSolarize(0, 1), lambda x: F.solarize(x, 0)),
    (T.RandomSolarize(192, 1), lambda x: F.solarize(x, 192)),
    (T.RandomAutocontrast(1), F.autocontrast),
    (T.RandomEqualize(1), F.equalize),
    (T.RandomAdjustSharpness(0, 1), lambda x: F.adjust_sharpness(x, 0)),
    (T.RandomAdjustSharpness(2.5, 1), lambda x: F.adjust_sharpness(x, 2.5)),
])  # fmt: skip
def test_tones_are_those_of_torchvision(photographs, op, reference):
    for (_, sample), mine in run(photographs, [op]).items():
        assert torch.equal(mine, reference(images()[sample]))


@pytest.mark.parametrize(("size", "sigma"), [(3, 1.0), (23, 2.0), ((3, 9), 1.5), (63, 0.2)])
def test_gaussian_blur(photographs, size, sigma):
    taps = [size, size] if isinstance(size, int) else [size[1], size[0]]
    compare(photographs, T.GaussianBlur(size, sigma), lambda x: F.gaussian_blur(x, taps, [sigma, sigma]))


def test_gaussian_blur_draws_sigma(photographs):
    for (_, sample), mine in run(photographs, [T.GaussianBlur(9, (0.5, 3))]).items():
        sigma = between(0.5, 3, Stream(0, sample, NOT_GEOMETRIC).words(0)[0])
        assert far(mine, F.gaussian_blur(images()[sample], [9, 9], [sigma, sigma]), 1) == 0


@pytest.mark.parametrize("angle", [0, 10, 46.1, 180, -33.3])
@pytest.mark.parametrize("mode", [Mode.NEAREST, Mode.BILINEAR])
def test_rotation(photographs, angle, mode):
    rotation = T.RandomRotation((angle, angle), mode, fill=(10, 200, 30))
    for (_, sample), mine in run(photographs, [rotation]).items():
        theirs = F.rotate(images()[sample], angle, mode, fill=[10.0, 200.0, 30.0])
        # two pixels can be equally near, and the last bits of float32 choose one
        assert far(mine, theirs, 1) <= (0 if mode == Mode.BILINEAR else 1e-4)


@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("mode", [Mode.NEAREST, Mode.BILINEAR])
def test_affine_with_what_was_drawn(photographs, mode, fill):
    op = T.RandomAffine((-20, 40), (0.1, 0.2), (0.7, 1.4), (-10, 10, -5, 15), mode, fill, center=(20, 30))
    for (epoch, sample), mine in run(photographs, [op], n_epochs=3).items():
        stream, image = Stream(epoch, sample, 0), images()[sample]
        first, second = stream.words(0), stream.words(1)
        height, width = image.shape[1:]
        shares = (float(np.float32(0.1)), float(np.float32(0.2)))
        shift = [round(-share * side + 2 * share * side * unit(word))
                 for share, side, word in zip(shares, (width, height), first[1:3], strict=True)]
        angle = between(-20, 40, first[0])
        scale = between(float(np.float32(0.7)), float(np.float32(1.4)), first[3])
        shear = [between(-10, 10, second[0]), between(-5, 15, second[1])]
        theirs = F.affine(image, angle, shift, scale, shear, mode, fill, [20.0, 30.0])
        assert far(mine, theirs, 1) <= (0 if mode == Mode.BILINEAR else 1e-4)


def corners_drawn(stream, height, width, scale):
    """Returns the corners of a picture, and the places to which RandomPerspective moves them."""
    n_x, n_y = int(float(np.float32(scale)) * (width // 2)) + 1, int(float(np.float32(scale)) * (height // 2)) + 1
    x, y = ([below(word, n) for word in stream.words(turn)] for n, turn in ((n_x, 1), (n_y, 2)))
    ends = [[x[0], y[0]], [width - n_x + x[1], y[1]], [width - n_x + x[2], height - n_y + y[2]], [x[3], height - n_y + y[3]]]
    return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends


@pytest.mark.parametrize("mode", [Mode.NEAREST, Mode.BILINEAR])
def test_perspective_with_what_was_drawn(photographs, mode):
    done = 0
    for (epoch, sample), mine in run(photographs, [T.RandomPerspective(0.6, 0.7, mode, fill=9)], n_epochs=4).items():
        stream, image = Stream(epoch, sample, 0), images()[sample]
        height, width = image.shape[1:]
        if not unit(stream.words(0)[0]) < np.float32(0.7):
            assert torch.equal(mine, image)
            continue
        done += 1
        assert far(mine, F.perspective(image, *corners_drawn(stream, height, width, 0.6), mode, 9), 1) <= 5e-4
    assert done >= 4


def shifts_drawn(stream, height, width, alpha, sigma):
    """Returns the displacement of ElasticTransform in torchvision's form."""
    shifts = []
    for axis in range(2):
        words = [stream.words((1 + i) | axis << 31) for i in range((height * width + 3) // 4)]
        noise = torch.tensor(words, dtype=torch.float64).reshape(-1)[: height * width].reshape(1, 1, height, width)
        plane = (torch.floor(noise / 256) * 2.0**-24 * 2 - 1).float()
        taps = int(8 * sigma[axis] + 1) | 1
        plane = F.gaussian_blur(plane, [taps, taps], [sigma[axis]] * 2)
        shifts.append(plane * (alpha[axis] / (width if axis == 0 else height)))
    return torch.cat(shifts, 1).permute(0, 2, 3, 1)


def test_elastic_with_what_was_drawn(photographs):
    alpha, sigma = (60.0, 30.0), (4.0, 2.0)
    mine, image = run(photographs, [T.ElasticTransform(alpha, sigma)])[0, 0], images()[0]
    shifts = shifts_drawn(Stream(0, 0, 0), *image.shape[1:], alpha, sigma)
    assert far(mine, F.elastic(image, shifts, Mode.BILINEAR, 0), 1) <= 2e-4
    assert far(mine, image, 8) > 0.05


NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness",
         "Posterize", "Solarize", "AutoContrast", "Equalize"]  # fmt: skip


def done_by_torchvision(policy, image, name, magnitude, negative):
    """Returns the image after one operation of torchvision's policy at one of its magnitudes."""
    space = getattr(policy, "_AUGMENTATION_SPACE", None) or policy._PARTIAL_AUGMENTATION_SPACE
    make, signed = space[name]
    bins = getattr(policy, "num_magnitude_bins", 10)
    magnitudes = make(bins, *image.shape[1:])
    value = 0.0 if magnitudes is None else float(magnitudes[magnitude])
    if signed and negative:
        value = -value
    return policy._apply_image_or_video_transform(image, name, value, interpolation=policy.interpolation, fill=policy._fill)


def near_enough(sheared, mode):
    """Returns the share of values that may differ. A shear by 1/5 has two nearest pixels in every fifth row, and the last bits of
    float32 choose between them. A difference of one level before Equalize or Posterize may become many levels.
    """
    return 0.08 if sheared and mode == Mode.NEAREST else 6e-3


LONG = pytest.mark.long


@pytest.mark.parametrize(("magnitude", "mode"), [
    (9, Mode.BILINEAR), (0, Mode.NEAREST), pytest.param(0, Mode.BILINEAR, marks=LONG), pytest.param(9, Mode.NEAREST, marks=LONG),
    pytest.param(30, Mode.NEAREST, marks=LONG), pytest.param(30, Mode.BILINEAR, marks=LONG)])
def test_rand_augment_with_what_was_drawn(photographs, magnitude, mode):
    policy = v2.RandAugment(2, magnitude, interpolation=mode)
    seen = set()
    for (epoch, sample), mine in run(photographs, [T.RandAugment(2, magnitude, interpolation=mode)], n_epochs=12).items():
        theirs, sheared = images()[sample], False
        for i in range(2):
            words = Stream(epoch, sample, NOT_GEOMETRIC | i).words(0)
            name = NAMES[below(words[0], 14)]
            seen.add(name)
            theirs = done_by_torchvision(policy, theirs, name, magnitude, words[1] < 1 << 31)
            sheared = sheared or name.startswith("Shear")
        assert far(mine, theirs, 1) <= near_enough(sheared, mode)
    assert len(seen) >= 12


def test_trivial_augment_with_what_was_drawn(photographs):
    policy = v2.TrivialAugmentWide()
    for (epoch, sample), mine in run(photographs, [T.TrivialAugmentWide()], n_epochs=20).items():
        words = Stream(epoch, sample, NOT_GEOMETRIC).words(0)
        name, magnitude = NAMES[below(words[0], 14)], below(words[2], 31)
        theirs = done_by_torchvision(policy, images()[sample], name, magnitude, words[1] < 1 << 31)
        assert far(mine, theirs, 1) <= near_enough(name.startswith("Shear"), Mode.NEAREST)


def test_magnitudes_are_not_rounded_to_float32(photographs):
    """At magnitude 18 of 31 the threshold of Solarize is 102. torchvision's is a little higher, so it does not change values of
    102.
    """
    policy = v2.RandAugment(1, 18)
    n, differs = 0, False
    for (epoch, sample), mine in run(photographs, [T.RandAugment(1, 18)], n_epochs=12).items():
        if NAMES[below(Stream(epoch, sample, NOT_GEOMETRIC).words(0)[0], 14)] == "Solarize":
            n += 1
            assert torch.equal(mine, F.solarize(images()[sample], 102))
            differs = differs or not torch.equal(mine, done_by_torchvision(policy, images()[sample], "Solarize", 18, False))
    assert n > 0
    assert differs


@pytest.mark.parametrize("table", ["imagenet", pytest.param("cifar10", marks=LONG), pytest.param("svhn", marks=LONG)])
def test_auto_augment_with_what_was_drawn(photographs, table):
    policy = v2.AutoAugment(v2.AutoAugmentPolicy(table))
    for (epoch, sample), mine in run(photographs, [T.AutoAugment(table)], n_epochs=15).items():
        stream, theirs = Stream(epoch, sample, NOT_GEOMETRIC), images()[sample]
        pair, sheared = policy._policies[below(stream.words(0)[0], 25)], False
        for i, (name, probability, magnitude) in enumerate(pair):
            words = stream.words(1 + i)
            if unit(words[0]) * 10 < round(probability * 10):
                theirs = done_by_torchvision(policy, theirs, name, magnitude, words[1] < 1 << 31)
                sheared = sheared or name.startswith("Shear")
        assert far(mine, theirs, 1) <= near_enough(sheared, Mode.NEAREST)


def test_augmix_mixes(photographs):
    """The mixing shares sum to 1 and depend on the sample: the mean stays near, the picture changes, and alpha changes the
    shares.
    """
    for op in (T.AugMix(), T.AugMix(5, 2, 2, 0.4), T.AugMix(all_ops=False, chain_depth=1, alpha=4.0)):
        found = run(photographs, [op], n_epochs=6)
        changed = [far(mine, images()[sample], 2) for (_, sample), mine in found.items()]
        assert np.mean([share > 0.01 for share in changed]) > 0.7
        assert all(torch.equal(found[key], again) for key, again in run(photographs, [op], n_epochs=6, num_workers=2).items())


@pytest.mark.parametrize("value", [0, (1, -2, 3), "random"])
def test_erasing_with_what_was_drawn(photographs, value):
    ops = [T.Resize((64, 96)), T.Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2)), T.RandomErasing(0.8, value=value)]
    plain = run(photographs, ops[:2], n_epochs=6)
    n_erased, noise = 0, []
    for (epoch, sample), mine in run(photographs, ops, n_epochs=6).items():
        stream, theirs = Stream(epoch, sample, NOT_GEOMETRIC | 1), plain[epoch, sample].clone()
        if unit(stream.words(0)[0]) < np.float32(0.8):
            low, high = math.log(np.float32(0.3)), math.log(np.float32(3.3))
            for turn in range(1, 11):
                words = stream.words(turn)
                area = 64 * 96 * (float(np.float32(0.02)) + float(np.float32(0.33) - np.float32(0.02)) * unit(words[0]))
                aspect = math.exp(low + (high - low) * unit(words[1]))
                height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
                if height < 64 and width < 96:
                    break
            y, x = below(words[2], 64 - height + 1), below(words[3], 96 - width + 1)
            hole = (slice(None), slice(y, y + height), slice(x, x + width))
            n_erased += 1
            if value == "random":
                noise.append(mine[hole].flatten())
                theirs[hole] = mine[hole]
            else:
                theirs[hole] = torch.tensor([value] * 3 if value == 0 else value, dtype=theirs.dtype)[:, None, None]
        assert torch.equal(mine, theirs)
    assert n_erased > 10
    if noise:
        numbers = torch.cat(noise)
        assert abs(float(numbers.mean())) < 0.05
        assert abs(float(numbers.std()) - 1) < 0.05


def test_random_apply_and_choice(photographs):
    invert = T.RandomInvert(1)
    n = 0
    for (epoch, sample), mine in run(photographs, [T.RandomApply([invert, T.RandomPosterize(1, 1)], 0.4)], n_epochs=10).items():
        image = images()[sample]
        applies = unit(Stream(epoch, sample, NOT_GEOMETRIC).words(0)[0]) < np.float32(0.4)
        n += applies
        assert torch.equal(mine, F.posterize(F.invert(image), 1) if applies else image)
    assert 5 <= n <= 28
    counts = [0, 0, 0]
    choice = T.RandomChoice([T.Identity(), invert, T.RandomHorizontalFlip(1)], (1, 0, 3))
    for (epoch, sample), mine in run(photographs, [choice], n_epochs=10).items():
        image = images()[sample]
        place = 0 if unit(Stream(epoch, sample, 0).words(0)[0]) * 4 < 1 else 2
        counts[place] += 1
        assert torch.equal(mine, (image, F.invert(image), image.flip(2))[place])
    assert counts[0] >= 3
    assert counts[2] >= 15
    assert counts[1] == 0


def test_a_group_that_moves_keeps_what_follows_it(photographs, tmp_path):
    """Masks, boxes and keypoints take part in a group's moves; the group's colour operations leave them unchanged."""
    path = tmp_path / "set.pst"
    schema = {"image": ps.Image("raw"), "mask": ps.Mask(), "boxes": ps.Boxes(), "points": ps.Keypoints(pairs=[])}
    with ps.Writer(path, schema) as writer:
        for pixels in originals():
            mask = np.ascontiguousarray(pixels[..., 0] // 128)
            writer.write({"image": np.repeat((mask * 128)[..., None], 3, 2), "mask": mask,
                          "boxes": np.array([[10, 12, 40, 33]], np.float32),
                          "points": np.array([[10, 12, 2], [40, 33, 2]], np.float32)})  # fmt: skip
    ops = [T.RandomApply([T.RandomRotation((30, 30)), T.RandomPosterize(8, 1)], 0.5), T.RandomHorizontalFlip(0.5)]
    loader = ps.Loader(path, transforms=ops, output="torch", seed=SEED, order="sequential")
    turned = 0
    for epoch in range(6):
        for sample, batch in enumerate(loader):  # rows of several sizes are delivered as lists
            assert torch.equal(batch["image"][0][0] // 128, batch["mask"][0])
            angle = 30 if unit(Stream(epoch, sample, 0).words(0)[0]) < 0.5 else 0
            flips = unit(Stream(epoch, sample, 2).words(0)[0]) < 0.5
            height, width = batch["mask"][0].shape
            turned += angle > 0
            corners = [(10, 12), (40, 12), (10, 33), (40, 33)]
            sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
            moved = []
            for x, y in corners:
                dx, dy = x - width / 2, y - height / 2
                x, y = cosine * dx + sine * dy + width / 2, -sine * dx + cosine * dy + height / 2
                moved.append((width - x if flips else x, y))
            xs, ys = [p[0] for p in moved], [p[1] for p in moved]
            clamp = lambda v, most: min(max(v, 0), most)  # noqa: E731
            box = [clamp(min(xs), width), clamp(min(ys), height), clamp(max(xs), width), clamp(max(ys), height)]
            if (box[2] - box[0]) * (box[3] - box[1]) >= 1:  # smaller boxes are dropped
                np.testing.assert_allclose(batch["boxes"][0][0].numpy(), box, atol=1e-3)
            np.testing.assert_allclose(batch["points"][0][:, :2].numpy(), [moved[0], moved[3]], atol=1e-3)
    assert 4 <= turned <= 20


def test_what_cannot_follow_is_refused(photographs, tmp_path):
    path = tmp_path / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "mask": ps.Mask(), "boxes": ps.Boxes()}) as writer:
        pixels = originals()[0]
        writer.write({"image": pixels, "mask": np.ascontiguousarray(pixels[..., 0]), "boxes": np.zeros((0, 4), np.float32)})
    with pytest.raises(ps.errors.ArgumentError, match="RandAugment.*mask"):
        next(iter(ps.Loader(path, transforms=[T.RandAugment()])))
    with pytest.raises(ps.errors.ArgumentError, match="ElasticTransform.*boxes"):
        next(iter(ps.Loader(path, transforms=[T.ElasticTransform()])))
    for wrong in ([T.RandomErasing(), T.RandomInvert()], [T.Normalize(0.5, 0.5), T.RandomInvert()]):
        with pytest.raises(ps.errors.ArgumentError, match="must be the last operation"):
            ps.Loader(photographs, transforms=wrong)
    for group in (T.RandomApply, T.RandomChoice):
        with pytest.raises(ps.errors.ArgumentError, match="keep the size"):
            group([T.RandomCrop(5)])
        with pytest.raises(ps.errors.ArgumentError, match="1 to 14"):
            group([])
    assert ps.transforms.from_json(ps.transforms.to_json([T.RandomApply([T.RandomRotation(5)], 0.3)])) == [
        T.RandomApply([T.RandomRotation(5)], 0.3)]  # fmt: skip


@pytest.mark.parametrize("op", [
    T.RandomInvert(1), T.RandomPosterize(5, 1), T.RandomSolarize(100, 1), T.RandomAutocontrast(1), T.RandomEqualize(1),
    T.RandomAdjustSharpness(2, 1), T.GaussianBlur(5, 1.0), T.RandomAffine((10, 10), interpolation="bilinear"),
    T.RandAugment(3), T.AugMix(), T.ElasticTransform(20.0, 3.0), T.RandomPerspective(p=1),
])  # fmt: skip
def test_16_bits_and_alpha(tmp_path, op):
    """On 16-bit values that are 257 times 8-bit ones, an operation gives the corresponding result; colour operations leave alpha
    unchanged.
    """
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (48, 61, 4), dtype=np.uint8)
    sets = {}
    for name, image in (("8", pixels), ("16", pixels.astype(np.uint16) * 257), ("3", pixels[..., :3].copy())):
        sets[name] = tmp_path / f"{name}.pst"
        with ps.Writer(sets[name], {"image": ps.Image("raw")}) as writer:
            writer.write({"image": image})
    wishes = {"8": {"channels": 4}, "16": {"channels": 4, "bits": 16, "dtype": "uint16"}, "3": {}}
    eight, sixteen, three = (run(sets[name], [op], **wishes[name])[0, 0] for name in ("8", "16", "3"))
    assert torch.equal(eight[:3], three)
    moves = isinstance(op, (T.GaussianBlur, T.RandomAffine, T.RandAugment, T.AugMix, T.ElasticTransform, T.RandomPerspective))
    assert moves or torch.equal(eight[3], torch.from_numpy(pixels[..., 3]))
    if not isinstance(op, (T.RandomPosterize, T.RandAugment, T.AugMix)):  # bits are counted from 16
        difference = (sixteen.to(torch.float64) / 257 - eight.to(torch.float64)).abs()
        assert float(difference.max()) <= 1.01
