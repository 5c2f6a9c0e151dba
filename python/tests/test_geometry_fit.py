"""Checks that masks, boxes and keypoints that do not fit their image are found: sizes, EXIF orientations, impossible boxes."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image as PilImage
from PIL import ImageOps

import penstock as ps
from conftest import encoded
from flat import keywords
from penstock import transforms as T

HEIGHT, WIDTH = 40, 64  # as stored
MARK = (6, 10, 18, 16)  # x0, y0, x1, y1 of the only class 9 in the stored picture


def turned_sample(orientation: int, height: int = HEIGHT, width: int = WIDTH):
    """Returns (PNG with that EXIF orientation, stored mask, upright mask, stored box, upright box)."""
    mask = np.zeros((height, width), np.uint8)
    x0, y0, x1, y1 = MARK
    mask[y0:y1, x0:x1] = 9
    exif = PilImage.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    picture = PilImage.fromarray(np.repeat(mask[:, :, None] * 20, 3, 2))
    picture.save(buffer, "PNG", exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(_with(PilImage.fromarray(mask), exif)))
    return buffer.getvalue(), mask, upright, box_of(mask), box_of(upright)


def _with(image: PilImage.Image, exif: PilImage.Exif) -> PilImage.Image:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    return PilImage.open(io.BytesIO(buffer.getvalue()))


def box_of(mask: np.ndarray) -> np.ndarray:
    ys, xs = np.nonzero(mask == 9)
    return np.array([[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]], np.float32)


def write(path, samples, made_for=None, **more):
    schema = {"mask": ps.Mask(made_for=made_for), "image": ps.Image(), "boxes": ps.Boxes(made_for),
              "points": ps.Keypoints(made_for), **more}
    with ps.Writer(path, schema) as writer:
        for i, sample in enumerate(samples):
            writer.write(sample, name=f"s{i}")
    return path


def sample_of(image, mask, box):
    corners = np.array([[box[0, 0], box[0, 1], 1], [box[0, 2], box[0, 3], 2]], np.float32)
    return {"image": image, "mask": mask, "boxes": box, "points": corners}


def one(path, **options):
    loader = ps.Loader(path, **keywords(output="numpy", layout="NHWC", num_workers=0, **options))
    batch = next(iter(loader))
    return {name: np.asarray(batch[name][0]) for name in ("image", "mask", "boxes", "points")}


def assert_aligned(row):
    image = (row["image"][..., 0] > 90).astype(np.uint8) * 9
    np.testing.assert_array_equal(row["mask"], image)
    np.testing.assert_array_equal(row["boxes"], box_of(image))
    corners = row["points"][:, :2]
    np.testing.assert_array_equal([[*corners.min(0), *corners.max(0)]], box_of(image))


CHAINS = (None, [T.Resize((320, 320), interpolation="nearest"), T.RandomHorizontalFlip(1), T.Pad(3)])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("made_for", ["stored", "upright"])
@pytest.mark.parametrize("form", ["png", "raw", "pli"])
def test_what_follows_is_turned_with_the_image(tmp_path, orientation, made_for, form):
    image, *both = turned_sample(orientation)
    mask, box = both[made_for == "upright"], both[2 + (made_for == "upright")]
    mask = {"raw": mask, "png": encoded(mask, "PNG"), "pli": ps.pli.encode(mask)}[form]
    path = write(tmp_path / "data", [sample_of(image, mask, box)], made_for)
    assert ps.Dataset(path).fields["boxes"].made_for == made_for
    for transforms in CHAINS:
        for ignore in (False, True):
            assert_aligned(one(path, transforms=transforms, ignore_orientation=ignore))
            assert_aligned(one(path, transforms=transforms, ignore_orientation=ignore, storage="memory"))


@pytest.mark.parametrize("orientation", range(2, 9))
def test_what_nobody_knows_is_refused(tmp_path, orientation):
    image, stored, upright, box, _ = turned_sample(orientation)
    with pytest.raises(ps.errors.ArgumentError, match=f's0.*"(mask|boxes)".*EXIF orientation {orientation}.*made_for'):
        write(tmp_path / "boxes", [sample_of(image, stored, box)])
    schema = {"mask": ps.Mask(), "image": ps.Image()}
    for i, mask in enumerate((stored, upright)):
        path = tmp_path / f"mask{i}"
        with ps.Writer(path, schema) as writer:
            if orientation < 5:
                with pytest.raises(ps.errors.ArgumentError, match='"mask".*EXIF orientation'):
                    writer.write({"image": image, "mask": mask}, name="a")
                continue
            writer.write({"image": image, "mask": mask}, name="a")  # the size decides
        if orientation >= 5:
            batch = next(iter(ps.Loader(path, output="numpy", layout="NHWC")))
            np.testing.assert_array_equal(batch["mask"][0], upright)
            np.testing.assert_array_equal(batch["image"][0][..., 0], upright * 20)


def test_a_folder_has_it_stated_by_loader_or_pack(tmp_path):
    image, stored, _, box, _ = turned_sample(3)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.png").write_bytes(image)
    (folder / "m.png").write_bytes(encoded(stored, "PNG"))
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"file": "a.png", "mask": "m.png", "boxes": box.tolist()}) + "\n")
    data = ps.Dataset(folder, labels=labels)

    def row(source, **options):
        batch = next(iter(ps.Loader(source, **keywords(output="numpy", layout="NHWC", **options))))
        return batch["image"][0][..., 0] // 20, batch["mask"][0], np.asarray(batch["boxes"][0])

    with pytest.raises(ps.errors.ArgumentError, match="made_for"):
        row(data)
    with pytest.raises(ps.errors.ArgumentError, match="made_for"):
        ps.pack(folder, tmp_path / "no.pst", labels=labels)
    ps.pack(folder, tmp_path / "yes.pst", labels=labels, made_for="stored")
    for found in (row(data, made_for="stored"), row(tmp_path / "yes.pst"),
                  row(data, made_for={"mask": "stored", "boxes": "stored"})):
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[2], box_of(found[0]))
    with pytest.raises(ps.errors.ArgumentError, match="made_for is one of upright, stored"):
        ps.Mask(made_for="shown")


def plain(height=50, width=100):
    return {"image": np.full((height, width, 3), 7, np.uint8), "mask": np.full((height, width), 1, np.uint8),
            "boxes": np.array([[1, 2, 30, 40]], np.float32), "points": np.zeros((1, 3), np.float32)}


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("mask", np.zeros((25, 50), np.uint8), '"mask": the mask has 50 x 25 pixels, field "image" has 100 x 50'),
        ("mask", np.zeros((100, 50), np.uint8), "the mask has 50 x 100 pixels"),
        ("boxes", [[1, 2, 3, 4], [5, 5, 1, 1]], r'"boxes": row 1, \(5, 5, 1, 1\), has no area'),
        ("boxes", [[5, 5, 5, 9]], "row 0.*has no area"),
        ("boxes", [[np.nan, 0, 1, 1]], "row 0.*is not finite"),
        ("boxes", [[0, 0, np.inf, 1]], "row 0.*is not finite"),
        ("boxes", [[100, 0, 120, 10]], r"row 0.*lies outside of the image \(100 x 50 pixels\)"),
        ("boxes", [[0, -9, 10, -1]], "row 0.*lies outside of the image"),
        ("points", [[1, np.nan, 1]], '"points": row 0.*is not finite'),
    ],
)
def test_the_writer_refuses_what_does_not_fit(tmp_path, field, value, text):
    bad = {**plain(), field: np.asarray(value, np.uint8 if field == "mask" else np.float32)}
    schema = {"mask": ps.Mask(), "image": ps.Image(), "boxes": ps.Boxes(), "points": ps.Keypoints(pairs=[])}
    with ps.Writer(tmp_path / "data", schema) as writer:
        writer.write(plain(), name="good")
        with pytest.raises(ps.errors.ArgumentError, match='"bad".*' + text):
            writer.write(bad, name="bad")
        writer.write({**plain(), "boxes": np.array([[-5, -5, 500, 500]], np.float32)}, name="reaches beyond")
    assert len(ps.Dataset(tmp_path / "data")) == 2


def bad_folder(tmp_path, **bad):
    """A folder of three samples. The second has a fault, which nothing has checked yet."""
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = []
    for i in range(3):
        values = {**plain(), **(bad if i == 1 else {})}
        (folder / f"{i}.png").write_bytes(encoded(values["image"], "PNG"))
        (folder / f"m{i}.png").write_bytes(encoded(values["mask"], "PNG"))
        lines.append({"file": f"{i}.png", "mask": f"m{i}.png", "boxes": np.asarray(values["boxes"]).tolist()})
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ps.Dataset(folder, labels=labels)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"mask": np.zeros((25, 50), np.uint8)}, "'mask' has 50 x 25 pixels, field 'image'.* has 100 x 50"),
        ({"boxes": [[5, 5, 1, 1]]}, "'boxes': row 0 has no area"),
        ({"boxes": [[100, 0, 120, 10]]}, "row 0.*outside of the image, which has 100 x 50 pixels"),
    ],
)
@pytest.mark.parametrize("transforms", [None, [T.RandomCrop(16), T.RandomHorizontalFlip()]])
def test_at_load_they_are_bad_samples(tmp_path, bad, text, transforms):
    data = bad_folder(tmp_path, **bad)
    with pytest.raises(ps.errors.CorruptError, match=text) as caught:
        list(ps.Loader(data, transforms=transforms, output="numpy"))
    assert caught.value.sample == 1
    loader = ps.Loader(data, transforms=transforms, output="numpy", on_error="skip", batch_size=3)
    assert next(iter(loader))["index"].tolist() == [0, 2]
    assert loader.quarantine[0]["sample"] == 1


def test_further_images_of_another_size_only_matter_where_they_move(tmp_path):
    schema = {"image": ps.Image(), "small": ps.Image()}
    with ps.Writer(tmp_path / "data", schema) as writer:
        writer.write({"image": plain()["image"], "small": plain(25, 50)["image"]}, name="a")
    path = tmp_path / "data"
    next(iter(ps.Loader(path)))
    next(iter(ps.Loader(path, transforms=[T.ColorJitter(0.1)])))
    next(iter(ps.Loader(path, transforms=[T.RandomCrop(8)], annotations=ps.Annotations(own_geometry=["small"]))))
    with pytest.raises(ps.errors.CorruptError, match="'small' has 50 x 25 pixels, field 'image'"):
        next(iter(ps.Loader(path, transforms=[T.RandomCrop(8)])))
