"""Bits, channels, dtypes of masks, and forms: the pixels that Loader delivers for each way of storing an image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

HEIGHT, WIDTH = 40, 56


def deep(number: int, channels: int = 3) -> np.ndarray:
    """Returns an image uint16 (H, W, channels) in which the low bytes matter: all values lie within 512 of each other."""
    rng = np.random.default_rng(number)
    return rng.integers(30000, 30512, (HEIGHT, WIDTH, channels)).astype(np.uint16)


def shallow(number: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, channels)).astype(np.uint8)


def write(path, images, schema="raw"):
    with ps.Writer(path, {"image": schema}) as writer:
        for image in images:
            writer.write({"image": image})
    return path


def rows(path, field="image", output="numpy", **options):
    """Returns the rows of a field: (N, H, W, C) or a list, or for a mask (N, H, W)."""
    return next(iter(ps.Loader(path, **keywords(batch_size=100, output=output, layout="NHWC", **options))))[field]


@pytest.fixture(scope="module")
def images16(tmp_path_factory):
    return write(tmp_path_factory.mktemp("deep") / "set.pst", [deep(0), deep(1)])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Images of 8 bits first, then one of 16."""
    return write(tmp_path_factory.mktemp("mixed") / "set.pst", [shallow(0), shallow(1), deep(2)])


# 16 bits into floats ---------------------------------------------------------------------------------


def test_16_bits_reach_floats(images16):
    got = rows(images16, dtype="float32")
    for i, row in enumerate(got):
        np.testing.assert_allclose(row, deep(i) / 65535, rtol=0, atol=1e-7)
        assert len(np.unique(row)) > 400
    assert rows(images16).dtype == np.uint8


def test_16_bits_reach_normalize(images16):
    got = rows(images16, transforms=[T.Normalize(0.46, 0.002)])
    for i, row in enumerate(got):
        np.testing.assert_allclose(row, (deep(i) / 65535 - 0.46) / 0.002, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_reach_half_floats(images16, dtype):
    wide = torch.from_numpy(rows(images16, dtype="float32"))
    narrow = rows(images16, dtype=dtype, output="torch")
    assert torch.equal(narrow, wide.to(getattr(torch, dtype)))


def test_16_bits_are_resized_as_16(images16):
    got = rows(images16, transforms=[T.Resize((20, 28))], dtype="float32")
    whole = torch.from_numpy(deep(0).astype(np.float64)).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(whole, size=(20, 28), mode="bilinear", antialias=True)
    np.testing.assert_allclose(got[0] * 65535, wanted[0].permute(1, 2, 0), rtol=0, atol=1.5)


def test_bits_can_be_chosen(images16):
    np.testing.assert_array_equal(rows(images16, dtype="uint16")[0], deep(0))
    reduced = rows(images16, dtype="float32", bits=8)[0]
    np.testing.assert_array_equal(reduced, rows(images16)[0].astype(np.float32) * np.float32(1 / 255))
    assert rows(images16, bits=16).dtype == np.uint16
    np.testing.assert_array_equal(rows(images16, bits={"image": 16})[0], deep(0))
    # conversion to 8 bits at the end instead of the beginning gives the nearest level
    np.testing.assert_array_equal(rows(images16, bits=16, dtype="uint8")[0], np.rint(deep(0) / 257))


def test_depths_of_a_field_have_one_scale(mixed):
    got = rows(mixed, dtype="float32")
    assert got.shape == (3, HEIGHT, WIDTH, 3)
    np.testing.assert_allclose(got[0], shallow(0) / 255, rtol=0, atol=1e-7)
    np.testing.assert_allclose(got[2], deep(2) / 65535, rtol=0, atol=1e-7)
    wide = rows(mixed, bits=16)
    np.testing.assert_array_equal(wide[1], shallow(1).astype(np.uint16) * 257)
    np.testing.assert_array_equal(wide[2], deep(2))


def test_fill_has_one_scale(mixed):
    got = rows(mixed, transforms=[T.Pad(1, fill=51)], dtype="float32")
    np.testing.assert_allclose(got[:, 0, 0], np.full((3, 3), 0.2), rtol=0, atol=1e-7)
    wide = rows(mixed, transforms=[T.Pad(1, fill=51)], bits=16)
    assert (wide[:, 0, 0] == 51).all()


def test_an_image_does_not_depend_on_the_others_of_its_field(mixed, tmp_path):
    alone = write(tmp_path / "alone.pst", [shallow(0)])
    ops = [T.Resize((17, 23)), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.Normalize(0.5, 0.2)]
    np.testing.assert_array_equal(rows(mixed, transforms=ops)[0], rows(alone, transforms=ops)[0])


def test_16_bits_in_a_folder(tmp_path):
    for i, pixels in enumerate([deep(0, 1), deep(1, 1)]):
        PilImage.fromarray(pixels[..., 0]).save(tmp_path / f"{i}.png")
    got = rows(tmp_path, dtype="float32", channels=1)
    np.testing.assert_allclose(got[1], deep(1, 1) / 65535, rtol=0, atol=1e-7)


# Channels ---------------------------------------------------------------------------------------------


def test_channels_as_stored(tmp_path):
    images = [shallow(i, channels) for i, channels in enumerate((1, 2, 3, 4, 1))]
    path = write(tmp_path / "set.pst", images)
    for layout, axes in (("NHWC", (0, 1, 2)), ("NCHW", (2, 0, 1)), ("channels_last", (2, 0, 1))):
        batch = next(iter(ps.Loader(path, batch_size=5, output="numpy", layout=layout, channels="stored")))
        assert isinstance(batch["image"], list)
        for row, image in zip(batch["image"], images, strict=True):
            np.testing.assert_array_equal(row, image.transpose(axes))
    ops = [T.CenterCrop(20), T.Resize((10, 10)), T.RandomHorizontalFlip(), T.ColorJitter(0.2, 0.2, 0.2, 0.1),
           T.RandomGrayscale()]
    assert [row.shape for row in rows(path, transforms=ops, channels="stored")] == [
        (10, 10, 1), (10, 10, 2), (10, 10, 3), (10, 10, 4), (10, 10, 1)]
    got = rows(path, transforms=[T.Normalize(0.5, 0.25)], channels={"image": "stored"})
    np.testing.assert_allclose(got[1], (images[1] / 255 - 0.5) / 0.25, rtol=0, atol=1e-5)


def test_channels_as_stored_are_an_array_where_they_are_equal(tmp_path):
    path = write(tmp_path / "gray.pst", [shallow(i, 1) for i in range(3)])
    got = rows(path, channels="stored")
    assert isinstance(got, np.ndarray) and got.shape == (3, HEIGHT, WIDTH, 1)
    np.testing.assert_array_equal(got[2], shallow(2, 1))
    assert rows(path).shape == (3, HEIGHT, WIDTH, 3)
    loader = ps.Loader(path, batch_size=2, output="numpy", transforms=[T.Resize((8, 8))], channels="stored")
    assert [batch["image"].shape for batch in loader] == [(2, 1, 8, 8), (1, 1, 8, 8)]


def test_files_have_the_channels_they_have(tmp_path):
    for name, pixels in (("a.png", shallow(0, 4)), ("b.png", shallow(1, 2)), ("c.png", shallow(2, 3))):
        (tmp_path / name).write_bytes(encoded(pixels, "PNG"))
    (tmp_path / "d.jpg").write_bytes(encoded(picture(0, HEIGHT, WIDTH)[..., 0], "JPEG"))
    assert [row.shape[-1] for row in rows(tmp_path, channels="stored")] == [4, 2, 3, 1]


# Normalize --------------------------------------------------------------------------------------------


def test_normalize_has_as_many_channels_as_the_pixels(tmp_path):
    path = write(tmp_path / "set.pst", [shallow(0, 4), shallow(1, 1), shallow(2, 3)])
    three, one = [T.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.2])], [T.Normalize(0.5, 0.2)]
    for channels in (1, 4):
        with pytest.raises(ps.errors.ArgumentError, match="another number of channels"):
            ps.Loader(path, transforms=three, channels=channels)
        assert rows(path, transforms=one, channels=channels).shape[-1] == channels
    with pytest.raises(ps.errors.ArgumentError, match="another number of channels"):
        ps.Loader(path, transforms=[T.Grayscale(1), *three])
    mixture = rows(path, transforms=[T.Normalize([0.5, 0.4, 0.3], 0.2)])
    np.testing.assert_array_equal(mixture, rows(path, transforms=three))


def test_an_image_that_normalize_does_not_suit_is_named(tmp_path):
    path = write(tmp_path / "set.pst", [shallow(0, 3), shallow(1, 1), shallow(2, 3)])
    three = [T.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.2])]
    with pytest.raises(ps.errors.UnsupportedError, match="1 channels of 8 bits here") as caught:
        rows(path, transforms=three, channels="stored", on_error="skip")
    assert caught.value.sample == 1
    assert len(rows(path, transforms=three, channels="stored", indices=[0, 2])) == 2


# Masks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    """Masks of 8 bits, then of 16 with numbers above 255."""
    path = tmp_path_factory.mktemp("masks") / "set.pst"
    with ps.Writer(path, {"image": ps.Image("raw"), "mask": ps.Mask()}) as writer:
        for i in range(4):
            mask = shallow(i, 1)[..., 0] if i < 2 else deep(i, 1)[..., 0]
            writer.write({"image": shallow(i), "mask": mask})
    return path


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64", "float32"])
def test_masks_of_every_dtype(masks, dtype):
    for ops, undo in (([], slice(None)), ([T.RandomHorizontalFlip(1.0)], slice(None, None, -1))):
        got = rows(masks, "mask", dtype={"mask": dtype}, transforms=ops)
        assert got.dtype == dtype and got.shape == (4, HEIGHT, WIDTH)
        for i in range(4):
            pixels = shallow(i, 1) if i < 2 else deep(i, 1)
            np.testing.assert_array_equal(got[i][:, undo], pixels[..., 0])


def test_masks_suit_torchs_losses(masks):
    batch = next(iter(ps.Loader(masks, batch_size=2, output="torch", dtype={"mask": torch.int64, "image": "float32"},
                                transforms={"image": [T.CenterCrop(8)], "mask": [T.CenterCrop(8)]})))
    assert batch["image"].dtype == torch.float32
    scores = torch.zeros(2, 256, 8, 8)
    assert torch.nn.functional.cross_entropy(scores, batch["mask"]).item() == pytest.approx(np.log(256), rel=1e-5)


def test_dtype_of_masks_is_their_own(masks):
    first = next(iter(ps.Loader(masks, batch_size=2, output="numpy", dtype="float32")))
    assert first["mask"].dtype == np.uint8 and first["image"].dtype == np.float32
    assert rows(masks, "mask", dtype={"mask": "uint8"}, indices=[0, 1]).dtype == np.uint8
    for dtype in ("float16", "int16", "bool"):
        with pytest.raises(ps.errors.ArgumentError, match="a mask of 8 bits cannot be delivered"):
            ps.Loader(masks, dtype={"mask": dtype})
    with pytest.raises(ps.errors.UnsupportedError, match="1 channels of 16 bits"):
        rows(masks, "mask", dtype={"mask": "uint8"})


# Forms ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """Samples as PNG and raw, raw twice, JPEG and raw, each of a single colour."""
    colours = [np.full((8, 8, 3), value, np.uint8) for value in (10, 20, 30)]
    images = [encoded(colours[0], "PNG"), colours[1], encoded(colours[2], "JPEG")]
    return write(tmp_path_factory.mktemp("variants") / "set.pst", images, ps.Image(["original", "raw"]))


def test_forms_are_chosen_for_each_sample(variants):
    """The first sample has "png" as its first variant; other samples have another form there."""
    for forms, values in ((["png"], [10]), (["jpeg", "png"], [10, 30]), (["webp", "jpeg"], [30])):
        loader = ps.Loader(variants, batch_size=3, output="numpy", forms=ps.Forms(allowed={"image": forms}), on_error="skip")
        batch = next(iter(loader))
        assert [int(row[0, 0, 0]) for row in batch["image"]] == values
        assert all("none of the forms allowed" in bad["text"] for bad in loader.quarantine)
        assert len(loader.quarantine) == 3 - len(values)
    assert rows(variants, variants={"image": ["raw"]})[:, 0, 0, 0].tolist() == [10, 20, 30]


def test_a_sample_without_the_form_is_an_error(variants):
    with pytest.raises(ps.PenstockError, match="none of the forms allowed") as caught:
        rows(variants, variants={"image": ["jpeg"]})
    assert caught.value.sample == 0


def test_forms_of_a_folder_are_refused(folder):
    with pytest.raises(ps.errors.ArgumentError, match="plain folder"):
        ps.Loader(folder, forms=ps.Forms(allowed={"image": ["jpeg"]}))
