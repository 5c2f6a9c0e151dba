"""One geometry per sample: images, masks, boxes and keypoints are moved together, or an error is raised.

Each image is a pattern that its mask repeats (mask = red channel // 8), so both can be compared pixel by pixel after any operation
that moves pixels.
"""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T

N = 12
SIZE = (48, 64)

RC = T.RandomCrop(32)
RRC = T.RandomResizedCrop(32, interpolation="nearest")
HF = T.RandomHorizontalFlip()
VF = T.RandomVerticalFlip()
JITTER = T.ColorJitter(brightness=(1.0, 1.0))  # operations that draw random numbers but do not change the pixels
GRAY = T.RandomGrayscale(p=0.5)  # does not change gray pictures
NORMALIZE = T.Normalize(0.0, 1.0)


def pattern(i: int) -> np.ndarray:
    """Returns a pattern without symmetry, uint8 (H, W): classes 0..31 in cells of four pixels."""
    rng = np.random.default_rng(i)
    cells = rng.integers(0, 32, (SIZE[0] // 4, SIZE[1] // 4), dtype=np.uint8)
    return cells.repeat(4, 0).repeat(4, 1)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "pairs.pst"
    schema = {"mask": ps.Mask(), "image": ps.Image(), "image2": ps.Image(), "boxes": ps.Boxes(), "mask2": ps.Mask()}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            classes = pattern(i)
            pixels = np.repeat(classes[:, :, None] * 8, 3, 2)
            # A box around one cell with class 40, which no other cell has.
            y, x = 4 * (i % 8 + 2), 4 * (i % 10 + 3)
            marked = classes.copy()
            marked[y : y + 4, x : x + 4] = 40
            writer.write({"mask": classes, "image": pixels, "image2": pixels, "mask2": marked,
                          "boxes": np.array([[x, y, x + 4, y + 4]], np.float32)}, name=str(i))
    return path


def rows(path, transforms, fields=("image", "mask"), **options):
    """Returns the rows of an epoch as [{field: row}]. Images are converted to classes."""
    options = {"batch_size": 5, "seed": 3, "shuffle": True, "num_workers": 1, **options}
    loader = ps.Loader(path, **keywords(transforms=transforms, fields=fields, output="numpy", layout="NHWC", **options))
    result = []
    for batch in loader:
        for r in range(len(batch["index"])):
            row = {name: np.asarray(batch[name][r]) for name in fields}
            for name in fields:
                if name.startswith("image"):
                    image = row[name]
                    row[name] = np.rint(image * 255 if image.dtype != np.uint8 else image)[..., 0] // 8
            result.append(row)
    assert len(result) == N
    return result


ALIGNED = {
    "RC,HF": ([RC, HF], [RC, HF]),
    "jitter last": ([RC, HF, JITTER], [RC, HF]),
    "normalize last": ([RC, HF, NORMALIZE], [RC, HF]),
    "RRC": ([RRC], [RRC]),
    "jitter first": ([JITTER, RC, HF], [RC, HF]),
    "jitter between": ([RC, JITTER, HF], [RC, HF]),
    "gray first": ([GRAY, RC, HF], [RC, HF]),
    "all": ([GRAY, RRC, JITTER, HF, GRAY, VF, NORMALIZE], [RRC, HF, VF]),
    "no chain of the mask": ([JITTER, RC, GRAY, HF], None),
    "no chain, resized": ([T.Resize(40, interpolation="nearest"), RC, HF, NORMALIZE], None),
    "no chain, padded": ([T.Pad(5), JITTER, VF], None),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_chains_per_field_are_aligned(pairs, name):
    image, mask = ALIGNED[name]
    chains = {"image": image} if mask is None else {"image": image, "mask": mask}
    got = rows(pairs, chains)
    for row in got:
        np.testing.assert_array_equal(row["image"], row["mask"])
    assert len({row["mask"].tobytes() for row in got}) == N


@pytest.mark.parametrize("name", ALIGNED)
def test_a_list_is_for_the_sample(pairs, name):
    ops = ALIGNED[name][0]
    got = rows(pairs, ops, fields=("image", "image2", "mask"))
    expected = rows(pairs, {"image": ops})
    for row, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(row["image"], row["mask"])
        np.testing.assert_array_equal(row["image"], row["image2"])
        np.testing.assert_array_equal(row["image"], wanted["image"])


@pytest.mark.parametrize(
    ("image", "mask", "difference"),
    [
        ([RC, HF], [RC], r"no operation of 'mask' against operation 1 \(HorizontalFlip\) of 'image'"),
        ([RC], [RC, HF], r"operation 1 \(HorizontalFlip\) of 'mask' against no operation of 'image'"),
        ([RC, HF], [HF, RC], r"operation 0 \(HorizontalFlip\) of 'mask' against operation 0 \(RandomCrop\)"),
        ([JITTER, RC, JITTER, HF], [RC, T.RandomHorizontalFlip(0.3)],
         r"operation 1 \(HorizontalFlip\) of 'mask' against operation 3 \(HorizontalFlip\) of 'image'"),
        ([RC], [T.RandomCrop(31)], r"operation 0 \(RandomCrop\) of 'mask' against operation 0 \(RandomCrop\)"),
        ([T.RandomResizedCrop(32)], [T.RandomResizedCrop(32, scale=(0.5, 1))], "RandomResizedCrop"),
        ([T.Pad(3)], [T.Pad(4)], "Pad"),
        ([T.Resize((32, 32))], [T.Resize(32)], "Resize"),
        ([], [HF], "no operation of 'image'"),
    ],
)
def test_a_chain_that_departs_is_an_error(pairs, image, mask, difference):
    with pytest.raises(ps.errors.ArgumentError, match="'mask' and 'image' would be moved differently.*" + difference):
        ps.Loader(pairs, transforms={"image": image, "mask": mask}, fields=["image", "mask"])
    rows(pairs, {"image": [*image, T.Resize((8, 8))], "mask": [*mask, T.Resize((8, 8))]}, own_geometry=["mask"])


def test_interpolation_antialias_and_fill_may_differ(pairs):
    image = [T.Pad(4, fill=80), T.Resize((24, 24), antialias=False), T.RandomCrop(20, padding=2, fill=9)]
    mask = [T.Pad(4, fill=7), T.Resize((24, 24), interpolation="nearest"), T.RandomCrop(20, padding=2, fill=3)]
    for row in rows(pairs, {"image": image, "mask": mask}):
        assert row["image"].shape == row["mask"].shape == (20, 20)


def test_masks_are_nearest_and_have_a_fill_of_their_own(pairs):
    ops = [T.Resize((19, 37)), T.Pad((2, 1), fill=200, mask_fill=255)]
    for row, whole in zip(rows(pairs, ops), rows(pairs, None), strict=True):
        assert set(np.unique(row["mask"])) <= set(np.unique(whole["mask"])) | {255}
        border = np.ones(row["mask"].shape, bool)
        border[1:-1, 2:-2] = False
        assert (row["mask"][border] == 255).all() and (row["mask"][~border] < 255).all()
        assert (row["image"][border] == 25).all()
    for row in rows(pairs, [T.Pad(2, fill=200)]):
        assert (row["mask"][:2] == 0).all()


def test_boxes_move_with_masks(pairs):
    ops = [JITTER, T.Resize((96, 128), interpolation="nearest"), GRAY, HF, T.Pad(3), VF]
    for row in rows(pairs, ops, fields=("image", "mask2", "boxes")):
        ys, xs = np.nonzero(row["mask2"] == 40)
        np.testing.assert_allclose(row["boxes"][0], [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])


def test_masks_alone_follow_the_list(pairs):
    got = rows(pairs, [JITTER, RC, HF], fields=("mask", "mask2", "boxes"))
    expected = rows(pairs, [RC, HF], fields=("image", "mask", "mask2", "boxes"))
    for row, wanted in zip(got, expected, strict=True):
        for name in row:
            np.testing.assert_array_equal(row[name], wanted[name])


def test_own_geometry_draws_anew(pairs):
    fields = ("image", "image2", "mask")
    shared = rows(pairs, [RC, HF], fields=fields)
    own = rows(pairs, [RC, HF], fields=fields, own_geometry=("image2",))
    for row, wanted in zip(own, shared, strict=True):
        np.testing.assert_array_equal(row["image"], wanted["image"])
        np.testing.assert_array_equal(row["mask"], wanted["mask"])
    assert sum((row["image2"] != row["image"]).any() for row in own) >= N - 1
    again = rows(pairs, [RC, HF], fields=fields, own_geometry=("image2",), num_workers=0)
    assert all((a["image2"] == b["image2"]).all() for a, b in zip(own, again, strict=True))
    with pytest.raises(ps.errors.ArgumentError, match="own_geometry is for images and masks"):
        ps.Loader(pairs, annotations=ps.Annotations(own_geometry=["boxes"]))
    with pytest.raises(ps.errors.ArgumentError, match="no field 'nothing'"):
        ps.Loader(pairs, annotations=ps.Annotations(own_geometry=["nothing"]))


def test_without_operations_pixels_are_as_stored(pairs):
    for row in rows(pairs, None, shuffle=False):
        np.testing.assert_array_equal(row["image"], row["mask"])
