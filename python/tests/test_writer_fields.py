"""Fields of a schema: PLI made at writing, optional values, classes added by an append, options of pack."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import CLASSES, N, encoded, picture, write
from penstock import pli

PIXELS = picture(3, 70, 90)
LABELS = np.repeat(np.arange(7, dtype=np.uint8), 10)[:, None].repeat(90, 1)


def test_arrays_and_pngs_become_pli(tmp_path):
    schema = {"image": ps.Image("pli", tier="dense", effort=1), "mask": ps.Mask("pli")}
    deep = (PIXELS.astype(np.uint16) * 257).astype(">u2")
    samples = [
        {"image": PIXELS, "mask": LABELS},
        {"image": encoded(PIXELS, "PNG"), "mask": encoded(LABELS, "PNG")},
        {"image": deep, "mask": np.asfortranarray(LABELS.astype(np.uint16) * 999)},
        {"image": pli.encode(PIXELS, "fast"), "mask": LABELS[..., None]},
    ]
    ds = write(tmp_path / "a.pst", schema, *samples)
    assert {ds.item(i, name)["form"] for i in range(4) for name in schema} == {"pli"}
    assert [pli.info(ds.read(i, "image"))["tier"] for i in range(4)] == ["dense", "dense", "dense", "fast"]
    for i in 0, 1, 3:
        np.testing.assert_array_equal(ds[i]["image"], PIXELS)
        np.testing.assert_array_equal(ds[i]["mask"], LABELS)
    np.testing.assert_array_equal(ds[2]["image"], deep)
    np.testing.assert_array_equal(ds[2]["mask"], LABELS.astype(np.uint16) * 999)
    assert ps.verify(tmp_path / "a.pst", decode=True).ok
    near = write(tmp_path / "b.pst", {"image": ps.Image("pli", max_error=2)}, {"image": PIXELS})
    off = np.abs(near[0]["image"].astype(int) - PIXELS).max()
    assert 0 < off <= 2


def test_masks_of_a_palette_keep_their_indices_as_pli(tmp_path):
    from PIL import Image as PilImage

    mask = PilImage.fromarray(LABELS, "L").convert("L")
    palette = PilImage.frombytes("P", mask.size, mask.tobytes())
    palette.putpalette([0, 0, 0] * 256)  # all colours are equal: only the indices distinguish the labels
    palette.save(tmp_path / "mask.png")
    ds = write(tmp_path / "a.pst", {"image": "image", "mask": ps.Mask("pli")},
               {"image": PIXELS, "mask": tmp_path / "mask.png"})
    np.testing.assert_array_equal(ds[0]["mask"], LABELS)


def test_what_pli_does_not_take(tmp_path):
    with ps.Writer(tmp_path / "a.pst", {"image": ps.Image("pli")}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="bytes are jpeg, the schema says pli; encode"):
            writer.write({"image": encoded(PIXELS, "JPEG")})
        writer.write({"image": PIXELS})
    for wrong in ({"tier": "tiny"}, {"effort": 6}, {"max_error": 128}):
        with pytest.raises(ps.errors.ArgumentError):
            ps.Image("pli", **wrong)
    with pytest.raises(ps.errors.ArgumentError, match="go with the form"):
        ps.Image("raw", tier="fast")
    with pytest.raises(TypeError):
        ps.Mask("pli", max_error=1)  # labels are never changed


OPTIONAL = {
    "image": ps.Image(),
    "mask": ps.Mask(missing=255),
    "boxes": ps.Boxes(missing=()),
    "points": ps.Keypoints(missing=()),
    "sound": ps.Audio(missing=b""),
    "count": ps.Int(missing=-1),
    "label": ps.Int(["none", "cat"], missing="none"),
    "weight": ps.Float(missing=float("nan")),
    "blob": ps.Bytes(missing=b""),
    "title": ps.Text(missing=""),
    "facts": ps.Json(missing=None),
    "fixed": ps.Array("int16", (2,), missing=[0, 0]),
    "ragged": ps.Array("float32", missing=[]),
}
FULL = {
    "image": PIXELS, "mask": LABELS, "boxes": [[1, 2, 30, 40]], "points": [[5, 6, 1]], "sound": b"beep", "count": 7,
    "label": "cat", "weight": 0.5, "blob": b"x", "title": "t", "facts": {"a": 1},
    "fixed": np.array([1, 2], np.int16), "ragged": np.ones(3, np.float32),
}


def test_missing_values(tmp_path):
    empty = {"image": encoded(PIXELS, "JPEG")}
    nothing = {**dict.fromkeys(FULL), "image": PIXELS}
    ds = write(tmp_path / "a.pst", OPTIONAL, FULL, empty, nothing)
    assert ps.verify(tmp_path / "a.pst").ok
    bad = ps.verify(tmp_path / "a.pst", decode=True)  # a loader refuses these, too: bytes of sound that are empty, or not a sound
    assert bad.n_bad == 3 and [found["sample"] for found in bad.findings] == [0, 1, 2]
    for i in 1, 2:
        sample = ds[i]
        np.testing.assert_array_equal(sample["mask"], np.full(PIXELS.shape[:2], 255, np.uint8))
        assert ds.item(i, "mask")["nbytes"] < 1000
        assert sample["boxes"].shape == (0, 4) and sample["points"].shape == (0, 3)
        assert (sample["sound"], sample["blob"], sample["title"], sample["facts"]) == (b"", b"", "", None)
        assert (int(sample["count"]), int(sample["label"])) == (-1, 0) and np.isnan(sample["weight"])
        assert sample["fixed"].tolist() == [0, 0] and sample["ragged"].shape == (0,)
    assert ds.item(1, "facts")["nbytes"] == 0  # no value
    assert ds.read(2, "facts") == b"null"  # the value None, which was given
    assert ds[0]["facts"] == {"a": 1} and int(ds[0]["label"]) == 1
    with pytest.raises(ps.errors.TruncatedError, match="an audio file of 0 bytes"):
        next(iter(ps.Loader(ds.subset([1]), batch_size=1)))
    batch = next(iter(ps.Loader(ds, batch_size=3, output="numpy", encoded=["sound"])))
    assert batch["mask"].shape == (3, 70, 90) and batch["facts"][1] is None
    assert [len(boxes) for boxes in batch["boxes"]] == [1, 0, 0]


def test_required_fields_stay_required(tmp_path):
    with ps.Writer(tmp_path / "a.pst", {"image": ps.Image(), "title": ps.Text(missing="")}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match=r"missing: \['image'\]"):
            writer.write({"title": "x"})
        with pytest.raises(ps.errors.ArgumentError, match=r"unknown: \['titel'\]"):
            writer.write({"image": PIXELS, "titel": "x"})  # codespell:ignore titel
        writer.write({"image": PIXELS})
    with ps.Writer(tmp_path / "b.pst", {"title": ps.Text()}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="str is wanted"):
            writer.write({"title": None})
        writer.write({"title": ""})


def test_a_missing_mask_has_the_size_of_a_rotated_image(tmp_path):
    from PIL import Image as PilImage

    exif = PilImage.Exif()
    exif[0x0112] = 6
    jpeg = encoded(PIXELS, "JPEG", exif=exif.tobytes())
    for made_for, size in (("upright", (90, 70)), ("stored", (70, 90)), (None, (90, 70))):
        schema = {"mask": ps.Mask(made_for=made_for, missing=np.uint16(0)), "image": ps.Image()}
        ds = write(tmp_path / f"{made_for}.pst", schema, {"image": jpeg})
        item = ds.item(0, "mask")
        assert ((item["height"], item["width"]), item["bits"]) == (size, 16)
        [mask] = next(iter(ps.Loader(ds, output="numpy")))["mask"]
        assert mask.shape == (90, 70)
    with ps.Writer(tmp_path / "m.pst", {"mask": ps.Mask(missing=0)}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="no image whose size"):
            writer.write({})
        writer.write({"mask": LABELS})


@pytest.mark.parametrize("make", [
    lambda: ps.Int(3, missing=3),
    lambda: ps.Int(["a"], missing="b"),
    lambda: ps.Int(missing=0.5),
    lambda: ps.Text(missing=None),
    lambda: ps.Boxes(missing=[1, 2]),
    lambda: ps.Mask(missing=-1),
    lambda: ps.Mask("png", missing=0),
    lambda: ps.Mask(missing=LABELS),
    lambda: ps.Array("int8", (2,), missing=[1]),
    lambda: ps.Image(missing=b"junk"),
])
def test_a_value_for_missing_must_fit_the_field(make):
    with pytest.raises((ps.PenstockError, TypeError)):
        make()


def test_repr_says_what_is_missing():
    assert repr(ps.Int(["a"], missing="a")) == "Int(classes=['a'], missing='a')"
    assert repr(ps.Text(missing="")) == "Text(missing='')" and repr(ps.Text()) == "Text()"
    assert repr(ps.Image("pli", tier="fast")) == "Image(form='pli', tier='fast', effort=3, max_error=0)"
    assert repr(ps.Mask(made_for="stored")) == "Mask(form='original', made_for='stored')"


def test_an_append_adds_classes(tmp_path):
    path = tmp_path / "a.pst"
    write(path, {"label": ps.Int(["ant", "bee"])}, {"label": "bee"})
    with ps.Writer(path, append=True) as writer:
        assert writer.schema["label"].names == ["ant", "bee"]
        with pytest.raises(ps.errors.ArgumentError, match="none of the 2 class names"):
            writer.write({"label": "cow"})
        writer.add_classes("label", ["bee", "cow"])
        writer.write({"label": "cow"})
        writer.write({"label": 0})
        with pytest.raises(ps.errors.ArgumentError, match="no field with named classes"):
            writer.add_classes("labels", ["x"])
    ds = ps.Dataset(path)
    assert ds.classes == ["ant", "bee", "cow"] and ds["label"].tolist() == [1, 2, 0]
    with ps.Writer(path, {"label": ps.Int(["ant", "bee", "cow", "doe"])}, append=True) as writer:
        writer.write({"label": "doe"})
    assert ps.Dataset(path)["label"].tolist() == [1, 2, 0, 3]
    with pytest.raises(ps.errors.ArgumentError, match='class 1 of field "label" is "bee"'):
        ps.Writer(path, {"label": ps.Int(["ant", "cow", "bee", "doe", "elk"])}, append=True)
    assert ps.verify(path).ok


def test_an_interrupted_append_with_new_classes_goes_on(tmp_path):
    path = tmp_path / "a.pst"
    write(path, {"label": ps.Int(["ant"])}, {"label": "ant"})
    writer = ps.Writer(path, append=True)
    writer.add_classes("label", ["bee"])
    writer.write({"label": "bee"})
    writer.close()
    assert ps.Dataset(path).classes == ["ant"]
    with ps.Writer(path, {"label": ps.Int(["ant", "bee"])}, resume=True) as writer:
        assert len(writer) == 2
        writer.write({"label": "bee"})
    assert ps.Dataset(path).classes == ["ant", "bee"] and ps.Dataset(path)["label"].tolist() == [0, 1, 1]


def test_pack_adds_classes(folder, tmp_path):
    more = tmp_path / "more"
    for name in ("zebra", "bee", "ape"):
        (more / name).mkdir(parents=True)
        (more / name / "new.png").write_bytes(encoded(PIXELS, "PNG"))
    ps.pack(folder, tmp_path / "a.pst")
    with pytest.raises(ps.errors.ArgumentError, match='class "ape".*add_classes'):
        ps.pack(more, tmp_path / "a.pst", append=True)
    report = ps.pack(more, tmp_path / "a.pst", append=True, add_classes=True)
    ds = ps.Dataset(tmp_path / "a.pst")
    assert report.n_samples == 3 and len(ds) == N + 3
    assert ds.classes == [*CLASSES, "ape", "zebra"]
    assert ds["label"].tolist()[N:] == [3, 1, 4]
    assert [ds.name(i) for i in range(N, N + 3)] == ["ape/new.png", "bee/new.png", "zebra/new.png"]
    assert ps.verify(tmp_path / "a.pst").ok


def test_pack_has_every_option_of_the_command_line():
    program = Path(sys.executable).with_name("penstock")
    other_names = {"form": "forms", "mask_form": "mask_forms", "workers": "num_workers", "members": "fields"}
    for verb in ("pack", "repack", "append"):
        text = subprocess.run([program, verb, "--help"], check=True, capture_output=True, text=True).stdout
        options = {name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", text.partition("options:")[2])}
        options -= {"json", "quiet", "help"}
        ours = set(inspect.signature(ps.pack).parameters)
        assert {other_names.get(name, name) for name in options} <= ours, verb


def test_pack_skips_what_cannot_be_read(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f/a.png").write_bytes(encoded(PIXELS, "PNG"))
    (tmp_path / "f/b.png").symlink_to("nowhere")
    with pytest.raises(ps.PenstockError):
        ps.pack(tmp_path / "f", tmp_path / "a.pst")
    report = ps.pack(tmp_path / "f", tmp_path / "a.pst", on_error="skip")
    assert (report.n_samples, report.n_skipped) == (1, 1)
