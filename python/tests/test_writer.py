"""Writing data sets: values, schema, resume, append, packing."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image as PilImage

import penstock as ps
from conftest import N, encoded, picture, write
from flat import keywords

PNG = encoded(picture(0, 9, 7), "PNG")
JPEG = encoded(picture(0, 9, 7), "JPEG")


def test_original_bytes_pass_through(tmp_path):
    (tmp_path / "file.jpg").write_bytes(JPEG)
    values = [PNG, bytearray(JPEG), memoryview(PNG), tmp_path / "file.jpg", str(tmp_path / "file.jpg")]
    ds = write(tmp_path / "a.pst", {"image": ps.Image()}, *({"image": value} for value in values))
    assert [ds.read(i, "image") for i in range(5)] == [PNG, JPEG, PNG, JPEG, JPEG]
    assert [ds.item(i, "image")["form"] for i in range(5)] == ["png", "jpeg", "png", "jpeg", "jpeg"]
    assert ds.name(4) == "000000000004"


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 1), (5, 6, 3), (5, 6, 4)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2"])
def test_arrays_become_raw(tmp_path, shape, dtype):
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    strided = np.asfortranarray(pixels)
    ds = write(tmp_path / "a.pst", {"image": "image"}, {"image": pixels}, {"image": strided},
               {"image": torch.from_numpy(pixels.astype(pixels.dtype.newbyteorder("=")))})
    for i in range(3):
        got = ds[i]["image"]
        assert got.dtype == pixels.dtype.newbyteorder("=") and ds.item(i, "image")["form"] == "raw"
        np.testing.assert_array_equal(got, pixels if pixels.ndim == 3 else pixels[..., None])


def test_pil_images_are_refused_with_a_hint(tmp_path):
    with ps.Writer(tmp_path / "a.pst", {"image": ps.Image()}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="lost its file's bytes"):
            writer.write({"image": PilImage.fromarray(picture(0, 4, 4))})
        writer.write({"image": PNG})


def test_forms(tmp_path):
    ds = write(tmp_path / "a.pst", {"image": ps.Image(["raw", "original"])}, {"image": PNG})
    assert ds.fields["image"].n_variants == 2
    assert ds.item(0, "image", 0)["form"] == "raw" and ds.read(0, "image", 1) == PNG
    np.testing.assert_array_equal(ds[0]["image"], picture(0, 9, 7))
    for forms in (["raw"], ["png"], ["png", "raw"]):
        batch = next(iter(ps.Loader(ds, output="numpy", layout="NHWC", forms=ps.Forms(allowed={"image": forms}))))
        np.testing.assert_array_equal(batch["image"][0], picture(0, 9, 7))
    with ps.Writer(tmp_path / "b.pst", {"image": "jpeg"}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="bytes are png, the schema says jpeg"):
            writer.write({"image": PNG})
        with pytest.raises(ps.errors.ArgumentError, match="cannot be stored as jpeg"):
            writer.write({"image": picture(0, 4, 4)})
        writer.write({"image": JPEG})
    for wrong in ("tiff", [], ["raw", "raw"]):
        with pytest.raises(ps.errors.ArgumentError):
            ps.Image(wrong)


def test_arrays_of_every_dtype(tmp_path):
    names = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
             "float32", "float64", "bool"]
    schema = {name: ps.Array(name) for name in names} | {"bf": ps.Array("bfloat16", (3,))}
    sample = {name: np.array([[0, 1, 1]], name) for name in names}
    sample["bf"] = torch.tensor([0.5, -1, 3], dtype=torch.bfloat16)
    ds = write(tmp_path / "a.pst", schema, sample, sample)
    for name in names:
        np.testing.assert_array_equal(ds[0][name], sample[name])
        assert ds[0][name].dtype == name
    assert torch.equal(ds[1]["bf"], sample["bf"])
    batch = next(iter(ps.Loader(ds, batch_size=2, output="torch")))
    for name in names:
        assert str(batch[name][0].dtype) == f"torch.{name}"
    assert torch.equal(batch["bf"], torch.stack([sample["bf"]] * 2))
    with pytest.raises(ps.errors.ArgumentError, match="bfloat16"):
        ps.Loader(ds, output="numpy")
    assert next(iter(ps.Loader(ds, output="numpy", fields=["int8"])))["int8"][0].dtype == np.int8


@pytest.mark.parametrize(("schema", "value", "text"), [
    (ps.Int(), 1.5, "whole number"),
    (ps.Int(), 2**63, "64 bits"),
    (ps.Int(3), 3, "label 3 is outside"),
    (ps.Int(["a"]), "b", "class names"),
    (ps.Bytes(), "text", "bytes are wanted"),
    (ps.Text(), b"bytes", "str is wanted"),
    (ps.Json(), {1, 2}, "Json"),
    (ps.Json(), float("nan"), "Json"),
    (ps.Boxes(), [[1, 2, 3]], r"\(n, 4\)"),
    (ps.Keypoints(), np.zeros(3), r"\(n, 3\)"),
    (ps.Array("float32"), np.zeros(3), "float32 is wanted"),
    (ps.Array("float32", (2,)), np.zeros(3, np.float32), "shape"),
    (ps.Array("int8"), np.zeros((1,) * 9, np.int8), "8 axes"),
    (ps.Array("bfloat16"), np.zeros(3), "torch.bfloat16"),
    (ps.Image(), np.zeros((3, 3)), "uint8 or uint16"),
    (ps.Image(), np.zeros((3, 3, 5), np.uint8), "5 channels"),
    (ps.Mask(), np.zeros((3, 3, 3), np.uint8), "3 channels"),
    (ps.Image(), b"junk", "image|form"),
    (ps.Image(), PNG[:20], "png"),
])
def test_bad_values_leave_the_writer_whole(tmp_path, schema, value, text):
    with ps.Writer(tmp_path / "a.pst", {"x": schema, "n": "int"}) as writer:
        with pytest.raises(ps.PenstockError, match=text):
            writer.write({"x": value, "n": 1})
        assert len(writer) == 0
    assert len(ps.Dataset(tmp_path / "a.pst")) == 0


def test_schema_and_names(tmp_path):
    for schema in (None, {}, {"x": "picture"}, {"x": 3}, {"index": "int"}, {"no space": "int"},
                   {"x" * 64: "int"}):
        with pytest.raises(ps.PenstockError):
            ps.Writer(tmp_path / "a.pst", schema)
    with ps.Writer(tmp_path / "b.pst", {"x": ps.Int, "y": "float"}) as writer:
        writer.write({"x": 1, "y": 2}, name="a")
        assert "a" in writer and "b" not in writer and len(writer) == 1
        with pytest.raises(FileExistsError):
            writer.write({"x": 1, "y": 2}, name="a")
        with pytest.raises(ps.errors.ArgumentError, match=r"missing: \['y'\], unknown: \['z'\]"):
            writer.write({"x": 1, "z": 2})
        assert repr(writer.schema["x"]) == "Int(classes=None)"
        assert writer.write_many([{"x": 3, "y": 4}, ("named", {"x": 5, "y": 6})]) == 2
    ds = ps.Dataset(tmp_path / "b.pst")
    assert [ds.name(i) for i in range(3)] == ["a", "000000000001", "named"]
    with pytest.raises(ps.errors.StateError):
        writer.write({"x": 1, "y": 2})
    with pytest.raises(FileExistsError):
        ps.Writer(tmp_path / "b.pst", {"x": "int"})


def test_an_exception_leaves_it_resumable(tmp_path):
    path = tmp_path / "a.pst"
    schema = {"n": ps.Int(classes=["zero", "one", "two"]), "t": ps.Text()}
    with pytest.raises(ZeroDivisionError), ps.Writer(path, schema) as writer:
        writer.write({"n": "one", "t": "first"})
        writer.commit()
        raise ZeroDivisionError
    with pytest.raises(ps.errors.IncompleteError):
        ps.Dataset(path)
    with ps.Writer(path, resume=True) as writer:
        assert len(writer) == 1 and list(writer.schema) == ["n", "t"]
        writer.write({"n": 2, "t": "second"})
    ds = ps.Dataset(path)
    assert [(s["n"], s["t"]) for s in ds] == [(1, "first"), (2, "second")]
    assert ps.verify(path).ok


def test_append(tmp_path):
    path = tmp_path / "a.pst"
    schema = {"image": ps.Image(), "n": ps.Int(["a", "b"])}
    first = write(path, schema, {"image": PNG, "n": "a"})
    with ps.Writer(path, append=True) as writer:
        writer.write({"image": JPEG, "n": 1})
    ds = ps.Dataset(path)
    assert len(first) == 1 and len(ds) == 2 and ds.read(1, "image") == JPEG
    assert ds.class_names("n") == ["a", "b"] and ps.verify(path, decode=True).ok
    with pytest.raises(ps.PenstockError):
        ps.Writer(path, {"other": "int"}, append=True)
    with pytest.raises(ps.errors.ArgumentError):
        ps.Writer(path, append=True, resume=True)


def test_two_writers(tmp_path):
    writer = ps.Writer(tmp_path / "a.pst", {"n": "int"})
    with pytest.raises(ps.errors.BusyError):
        ps.Writer(tmp_path / "a.pst", {"n": "int"}, resume=True)
    writer.close()
    writer.close()
    with ps.Writer(tmp_path / "a.pst", {"n": "int"}, resume=True) as again:
        again.write({"n": 1})


def test_shards(tmp_path):
    samples = [{"x": bytes([i]) * 1000} for i in range(20)]
    ds = write(tmp_path / "a.pst", {"x": "bytes"}, *samples, shard_size=5000, commit_size="4 KB")
    assert len({ds.item(i, "x")["file"] for i in range(20)}) >= 4
    assert [sample["x"] for sample in ds] == [sample["x"] for sample in samples]


def test_pack_and_from_folder(folder, tmp_path):
    counts = []
    report = ps.Writer.from_folder(tmp_path / "a.pst", folder, num_workers=2, verify_pixels=True,
                                   progress=lambda *n: counts.append(n))
    assert report.n_samples == N and report.n_bad == 0 and report.bad == []
    assert counts and counts[-1][1] == N
    raw = ps.pack(tmp_path / "a.pst", tmp_path / "b.pst", forms=["raw", "original"])
    assert raw.n_samples == N
    a, b = ps.Dataset(tmp_path / "a.pst"), ps.Dataset(tmp_path / "b.pst")
    assert b.item(0, "image", 0)["form"] == "raw"
    for i in (0, 3):
        np.testing.assert_array_equal(a[i]["image"], b[i]["image"])
        assert a.read(i, "image", original=True) == b.read(i, "image", 1)
    with pytest.raises(ps.errors.CancelledError):
        ps.pack(folder, tmp_path / "c.pst", progress=lambda *n: True)
    with pytest.raises(FileExistsError):
        ps.pack(folder, tmp_path / "a.pst")
    with pytest.raises(ps.errors.ArgumentError):
        ps.pack(folder, tmp_path / "d.pst", forms=["gif"])


def test_an_append_goes_on(folder, tmp_path):
    ps.pack(folder, tmp_path / "a.pst")
    with pytest.raises(ps.PenstockError, match="there already|already"):
        ps.pack(folder, tmp_path / "a.pst", append=True)
    report = ps.pack(folder, tmp_path / "a.pst", append=True, resume=True)
    assert report.n_resumed == N and report.n_skipped == 0
    assert len(ps.Dataset(tmp_path / "a.pst")) == N


def test_pack_with_a_bad_file(tmp_path):
    (tmp_path / "in" / "x").mkdir(parents=True)
    (tmp_path / "in" / "x" / "good.png").write_bytes(PNG)
    (tmp_path / "in" / "x" / "bad.jpg").write_bytes(b"no image at all")
    with pytest.raises(ps.PenstockError, match="bad.jpg"):
        ps.pack(tmp_path / "in", tmp_path / "a.pst")
    report = ps.pack(tmp_path / "in", tmp_path / "b.pst", on_error="skip")
    assert report.n_samples == 1 and report.n_bad == 1
    assert report.bad[0]["name"] == "x/bad.jpg" and report.bad[0]["text"]
    assert ps.Dataset(tmp_path / "b.pst").read(0, "image") == PNG


def test_callbacks_that_raise(folder, tmp_path):
    def fail(*counts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ps.pack(folder, tmp_path / "a.pst", progress=fail)
    with pytest.raises(ZeroDivisionError):
        ps.verify(folder, progress=fail)
    with pytest.raises(FileNotFoundError):
        ps.verify(tmp_path / "nowhere")
    assert ps.verify(folder).ok


def test_plans_and_changes_in_place(tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(30):
        PilImage.fromarray(picture(i, 40, 50)).save(tmp_path / "in" / f"{i:02}.png")
    ways = [{"share": 0.4, "store": [{"form": "pli", "tier": "small"}]},
            {"share": 0.6, "store": [{"form": "raw"}, {"form": "pli", "tier": "fast"}]}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kind": "penstock plan", "version": 1, "field": "image",
                                "classes": [{"form": "png", "pixels": [0, None], "ways": ways}]}))
    path = tmp_path / "a.pst"
    ps.pack(tmp_path / "in", path, shard_size="64KiB")
    options = {"batch_size": 5, "order": "sequential", "num_workers": 1, "host_memory": "64MiB"}
    wanted = [picture(i, 40, 50) for i in range(30)]
    before = ps.Dataset(path)
    with ps.Loader(path, **keywords(**options)) as loader:  # the loader goes on with the old state
        batches = iter(loader)
        got = [*next(batches)["image"]]
        report = ps.repack(path, plan=plan, num_workers=2)
        got += [image for batch in batches for image in batch["image"]]
    np.testing.assert_array_equal(np.stack(got).transpose(0, 2, 3, 1), wanted)
    assert report.n_samples == report.n_changed == 30 and report.waits and report.n_files > 2
    after = ps.Dataset(path)
    assert sum(after.item(i, "image", 0)["form"] == "pli" for i in range(30)) == 12
    with ps.Loader(path, **keywords(**options)) as loader:
        images = np.concatenate([batch["image"] for batch in loader])
    np.testing.assert_array_equal(images.transpose(0, 2, 3, 1), wanted)
    np.testing.assert_array_equal([before[i]["image"] for i in range(30)], wanted)
    del before, loader, batches
    again = ps.repack(path, plan=plan)
    assert again.n_changed == 0 and again.n_resumed == 30
    packed = ps.pack(tmp_path / "in", tmp_path / "b.pst", plan=plan)
    assert packed.n_samples == 30
    ours = [ps.Dataset(tmp_path / "b.pst").read(i, "image") for i in range(30)]
    assert ours == [after.read(i, "image") for i in range(30)]
    assert ps.verify(path, decode=True).ok
    for wrong in ({"plan": plan, "forms": ["raw"]}, {}, {"forms": ["raw"], "effort": 3}):
        with pytest.raises(ps.errors.ArgumentError):
            ps.repack(path, **wrong)
    plan.write_text('{"kind": "penstock plan", "version": 2}')
    with pytest.raises(ps.PenstockError, match="version 2"):
        ps.pack(tmp_path / "in", tmp_path / "c.pst", plan=plan)


def test_a_change_in_place_keeps_other_fields(tmp_path):
    rng = np.random.default_rng(0)
    schema = {"image": ps.Image("pli"), "mask": ps.Mask("pli"), "label": ps.Int(classes=["a", "b"]), "x": ps.Float(),
              "note": ps.Json(), "boxes": ps.Boxes(), "text": ps.Text(), "array": ps.Array("float32")}
    samples = [{"image": rng.integers(0, 255, (20 + i, 30, 3)).astype(np.uint8),
                "mask": rng.integers(0, 3, (20 + i, 30)).astype(np.uint8), "label": i % 2, "x": i / 3, "note": {"i": i},
                "boxes": np.tile(np.float32([1, 2, 5, 6]), (i % 3, 1)), "text": "\u00e9" * i,
                "array": np.arange(i, dtype=np.float32)} for i in range(20)]
    path = tmp_path / "a.pst"
    write(path, schema, *samples, shard_size="8KiB")

    def contents():
        ds = ps.Dataset(path)
        return ds.classes, [(ds.name(i), {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in ds[i].items()})
                            for i in range(len(ds))]

    before = contents()
    assert ps.repack(path, forms=["raw", "pli"], mask_forms=["raw"]).n_changed == 20
    assert contents() == before
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kind": "penstock plan", "version": 1, "classes": [
        {"form": "raw", "pixels": [900, None], "ways": [{"share": 1, "store": [{"form": "pli", "tier": "dense"}]}]}]}))
    report = ps.repack(path, plan=plan)
    assert report.n_changed == 10 and 0 < report.n_kept_files < report.n_files
    assert contents() == before and ps.verify(path, decode=True).ok
