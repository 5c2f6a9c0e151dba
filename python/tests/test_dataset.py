"""Data sets and single images."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import CLASSES, N, encoded, picture, typed_sample


@pytest.mark.parametrize("which", ["folder", "packed"])
def test_folder_and_packed_say_the_same(which, request, folder):
    path = request.getfixturevalue(which)
    ds = ps.Dataset(path)
    assert len(ds) == N and ds.classes == list(CLASSES)
    assert ds.is_folder == (which == "folder") and ds.path == str(path)
    assert len(ds.id) == 32 and int(ds.id, 16)
    assert list(ds.fields) == ["image", "label"]
    assert ds.fields["label"].n_classes == 3 and ds.fields["image"].type == "image"
    for i in (0, 7, N - 1, -1):
        file = folder / ds.name(i)
        assert ds.read(i, "image", original=True) == file.read_bytes()
        sample = ds[i]
        assert CLASSES[sample["label"]] == ds.name(i).split("/")[0]
        with PilImage.open(file) as pil:
            expected = np.asarray(pil.convert("RGB"))
        np.testing.assert_array_equal(sample["image"], expected)


def test_indices_out_of_range(packed):
    ds = ps.Dataset(packed)
    for i in (N, -N - 1, 10**12):
        with pytest.raises(IndexError):
            ds[i]
    with pytest.raises(ps.errors.ArgumentError, match="'image'.*no column"):
        ds["image"]
    assert len(list(ds)) == N


def test_unknown_field_is_named(packed):
    with pytest.raises(ps.errors.ArgumentError, match="no field 'picture'.*image, label") as caught:
        ps.Dataset(packed).read(0, "picture")
    assert caught.value.dataset == str(packed)


def test_every_type_comes_back(typed):
    ds = ps.Dataset(typed)
    for i, sample in enumerate(ds):
        wanted = typed_sample(i)
        assert ds.name(i) == f"sample {i}"
        np.testing.assert_array_equal(sample["image"], picture(i, 32, 48))
        np.testing.assert_array_equal(sample["mask"], wanted["mask"])
        for name in ("boxes", "points", "fixed", "ragged"):
            assert sample[name].dtype == wanted[name].dtype
            np.testing.assert_array_equal(sample[name], wanted[name])
        for name in ("sound", "weight", "blob", "title", "facts"):
            assert sample[name] == wanted[name]
        assert sample["label"] == i % 2
    assert ds.classes == ["zero", "one"] and ds.class_names("label") == ["zero", "one"]
    assert ds.fields["fixed"].shape == (2, 3) and ds.fields["ragged"].shape == ()


def test_item_says_where_it_lies(packed):
    ds = ps.Dataset(packed)
    item = ds.item(3, "image")
    with open(item["file"], "rb") as file:
        file.seek(item["offset"])
        assert file.read(item["nbytes"]) == ds.read(3, "image")
    assert item["form"] == "png" and item["has_checksum"] and item["height"] > 0


def test_pickle_and_copy(packed):
    ds = ps.Dataset(packed)
    for other in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds)):
        assert other.id == ds.id and other.read(5, "image") == ds.read(5, "image")


def test_repr_and_html(packed, typed):
    assert repr(ps.Dataset(packed)) == (
        f"Dataset({str(packed)!r}, 24 samples, {{image: image, label: int, 3 classes}})"
    )
    html = ps.Dataset(typed)._repr_html_()
    assert html.startswith('<div class="pst-see">') and "int16 (2, 3)" in html and "10 samples" in html


def test_absent_path_and_labels(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        ps.Dataset(tmp_path / "nowhere")
    assert isinstance(caught.value, ps.PenstockError) and caught.value.status == "PST_ERROR_NOT_FOUND"
    labels = tmp_path / "labels.csv"
    labels.write_text("file,label,score\nant/00.jpg,3,0.5\nbee/01.jpg,1,2.5\n")
    ds = ps.Dataset(folder, labels=labels)
    assert len(ds) == 2 and set(ds.fields) >= {"image", "label", "score"}
    assert pickle.loads(pickle.dumps(ds)).fields == ds.fields


def test_altered_bytes_are_found(packed, tmp_path):
    import shutil

    path = tmp_path / "altered.pst"
    shutil.copytree(packed, path)
    item = ps.Dataset(path).item(5, "image")
    with open(item["file"], "r+b") as file:
        file.seek(item["offset"] + item["nbytes"] // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    ds = ps.Dataset(path)
    with pytest.raises(ps.errors.ChecksumError) as caught:
        ds.read(5, "image")
    error = caught.value
    assert error.sample == 5 and error.dataset.endswith("altered.pst") and error.file
    assert error.offset is not None
    report = ps.verify(path)
    assert not report.ok and report.n_bad == len(report.findings) >= 1
    assert ds.name(5) in [finding["name"] for finding in report.findings if finding["sample"] == 5]
    assert ps.verify(packed, decode=True).ok


def test_bad_image_in_a_folder_names_itself(tmp_path):
    (tmp_path / "x").mkdir()
    whole = encoded(picture(1, 40, 40), "JPEG")
    (tmp_path / "x" / "cut.jpg").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(ps.errors.CorruptError, match="cut.jpg") as caught:
        ps.Dataset(tmp_path)[0]
    assert caught.value.sample == 0 and caught.value.file.endswith("cut.jpg")


def test_probe_and_decode():
    pixels = picture(3, 21, 34)
    data = encoded(pixels, "PNG")
    info = ps.probe(data)
    assert info == ("png", 21, 34, 3, 8, 1, False, False) and info.height == 21
    np.testing.assert_array_equal(ps.decode(data), pixels)
    np.testing.assert_array_equal(ps.decode(memoryview(data), "png", channels=4)[..., :3], pixels)
    assert ps.decode(data, channels=1).shape == (21, 34, 1)
    wide = ps.decode(data, bits=16)
    assert wide.dtype == np.uint16
    np.testing.assert_array_equal(wide, pixels.astype(np.uint16) * 257)
    with pytest.raises(ps.errors.LimitError):
        ps.decode(data, max_pixels=100)
    with pytest.raises(ps.errors.ArgumentError):
        ps.decode(data, "bmp")
    with pytest.raises(ps.errors.TruncatedError):
        ps.decode(data[:-40])
    for junk in (b"", b"junk" * 10):
        with pytest.raises(ps.PenstockError):
            ps.probe(junk)


def test_orientation_is_applied():
    exif = PilImage.Exif()
    exif[0x0112] = 6
    data = encoded(picture(4, 20, 30), "JPEG", exif=exif)
    assert ps.probe(data)[:3] == ("jpeg", 30, 20) and ps.probe(data).orientation == 6
    assert ps.probe(data, ignore_orientation=True)[1:3] == (20, 30)
    turned = np.rot90(ps.decode(data, ignore_orientation=True), -1)
    np.testing.assert_array_equal(ps.decode(data), turned)


def test_palette_indices():
    indices = np.arange(64, dtype=np.uint8).reshape(8, 8) % 7
    image = PilImage.fromarray(indices, "L").convert("P")
    image.putpalette(list(range(21)))
    import io

    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    stored = np.asarray(PilImage.open(io.BytesIO(buffer.getvalue())))
    np.testing.assert_array_equal(
        ps.decode(buffer.getvalue(), palette_indices=True)[..., 0], stored
    )


def test_notices_and_masks_of_a_folder(tmp_path):
    image = PilImage.fromarray(np.zeros((8, 8, 3), np.uint8))
    for folder, name in (("images", "a.jpg"), ("masks", "a.png"), ("mask_inst", "a.png")):
        (tmp_path / folder).mkdir()
        (image if folder == "images" else image.convert("L")).save(tmp_path / folder / name)
    (tmp_path / "images/b.gif").write_bytes(b"")
    ds = ps.Dataset(tmp_path)
    assert {name: field.type for name, field in ds.fields.items()} == {
        "image": "image", "mask": "mask", "mask_inst": "mask"}
    notice = {"kind": "left_out", "name": ".gif", "count": 1, "first": "images/b.gif"}
    assert ds.notices == [notice]
    report = ps.pack(tmp_path, tmp_path.parent / "packed.pst")
    assert report.notices == [notice]
    assert ps.Dataset(tmp_path.parent / "packed.pst").notices == []
    (tmp_path / "l.csv").write_text("file,inst\nimages/a.jpg,masks/a.png\n")
    labelled = ps.Dataset(tmp_path, labels=tmp_path / "l.csv", masks=["inst"])
    assert labelled.fields["inst"].type == "mask"
    assert pickle.loads(pickle.dumps(labelled)).fields["inst"].type == "mask"
    assert ps.Dataset(tmp_path, labels=tmp_path / "l.csv").notices[0]["kind"] == "text_names_files"
    with pytest.raises(ps.errors.ArgumentError, match="list of columns"):
        ps.Dataset(tmp_path, labels=tmp_path / "l.csv", masks="inst")
    assert ps.verify(tmp_path, labels=tmp_path / "l.csv", masks=["inst"]).n_items == 2


def test_masks_in_colours_are_named_at_opening(tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for i, mode in enumerate(("P", "L", "RGB")):
        PilImage.new("RGB", (8, 6)).save(tmp_path / "images" / f"{i}.png")
        PilImage.new(mode, (8, 6)).save(tmp_path / "masks" / f"{i}.png")
    with pytest.warns(UserWarning, match="masks/2.png.*masks-in-colours.md") as caught:
        dataset = ps.Dataset(tmp_path)
    assert len(caught) == 1 and caught[0].filename == __file__
    for call in (lambda: list(ps.Loader(dataset, output="numpy")), lambda: ps.pack(tmp_path, tmp_path / "out.pst")):
        with pytest.raises(ps.PenstockError, match="masks-in-colours.md"):
            call()
    (tmp_path / "masks" / "2.png").unlink()
    (tmp_path / "images" / "2.png").unlink()
    assert [notice["kind"] for notice in ps.Dataset(tmp_path).notices] == ["left_out"]  # the notice is about out.pst


def test_labels_of_yolo(tmp_path):
    import pickle

    for kind in ("images", "labels"):
        (tmp_path / "det" / kind / "train").mkdir(parents=True)
    PilImage.new("RGB", (8, 6)).save(tmp_path / "det/images/train/a.png")
    (tmp_path / "det/labels/train/a.txt").write_text("0 0.5 0.5 0.25 0.5\n")
    for folder in ("det", "det/images", "det/images/train"):
        for call in (ps.Dataset, ps.Loader, lambda path: ps.pack(path, tmp_path / "out.pst")):
            with pytest.raises(ps.errors.ArgumentError, match="from-yolo.md.*ignore_labels"):
                call(tmp_path / folder)
        dataset = ps.Dataset(tmp_path / folder, ignore_labels=True)
        for shown in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert len(shown) == 1 and list(shown.fields) == ["image"]
    ps.pack(tmp_path / "det", tmp_path / "out.pst", ignore_labels=True)
    assert len(ps.Dataset(tmp_path / "out.pst")) == 1
    assert ps.verify(tmp_path / "det", ignore_labels=True).ok


@pytest.mark.parametrize(("path", "page"), [
    ("s3://bucket/train", "object-storage"), ("hf://datasets/a", "from-huggingface"), ("x.h5", "from-records"),
])
def test_what_is_no_data_set_names_a_page(tmp_path, monkeypatch, path, page):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.h5").write_bytes(b"x")
    for call in (ps.Dataset, ps.Loader, lambda path: ps.pack(path, "out.pst")):
        with pytest.raises(ps.errors.UnsupportedError, match=f"docs/guide/{page}.md"):
            call(path)
    with pytest.raises(ps.errors.UnsupportedError, match="object-storage"):
        ps.Writer("s3://bucket/out.pst", {"image": ps.Image()})
