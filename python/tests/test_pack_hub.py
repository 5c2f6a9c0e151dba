"""Objects of Hugging Face's `datasets` packed as data sets: fields follow their features, and files keep their bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture

datasets = pytest.importorskip("datasets", reason="datasets is not installed")


def jpeg(i: int) -> bytes:
    return encoded(picture(i, 30 + i, 40), "PNG" if i == 2 else "JPEG")


def made(n: int = 5, first: int = 0, **more):
    numbers = range(first, first + n)
    columns = {
        "image": [{"bytes": jpeg(i), "path": None} for i in numbers], "label": [i % 2 for i in numbers],
        "id": [f"{i:03d}" for i in numbers], "score": [i / 3 for i in numbers], "flag": [i == 1 for i in numbers],
        "vector": [[1.5] * i for i in numbers], "tags": [[i % 2, 1] for i in numbers], "words": [["ü", str(i)] for i in numbers],
        "grid": [[[i, 1], [2, 3]] for i in numbers], "data": [bytes([i]) for i in numbers],
    }  # fmt: skip
    label = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({
        "image": datasets.Image(), "label": label, "id": datasets.Value("string"), "score": datasets.Value("float32"),
        "flag": datasets.Value("bool"), "vector": datasets.Sequence(datasets.Value("float32")), "tags": datasets.Sequence(label),
        "words": datasets.Sequence(datasets.Value("string")), "grid": datasets.Array2D((2, 2), "int32"),
        "data": datasets.Value("binary"),
    })  # fmt: skip
    return datasets.Dataset.from_dict({**columns, **more}, features=features)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_features_become_fields_and_files_stay(tmp_path, n_workers):
    report = ps.pack(made(), tmp_path / "out", num_workers=n_workers)
    assert report.n_pli_jpeg + report.n_kept_jpeg == 4
    ds = ps.Dataset(tmp_path / "out")
    assert {name: field.type for name, field in ds.fields.items()} == {
        "image": "image", "label": "int", "id": "text", "score": "float", "flag": "int", "vector": "array", "tags": "array",
        "words": "json", "grid": "array", "data": "bytes",
    }  # fmt: skip
    assert ds.classes == ["cat", "dog"] and ds.class_names("tags") == ["cat", "dog"]
    assert (ds.fields["grid"].dtype, ds.fields["vector"].dtype) == ("int32", "float32")
    for i in range(5):
        row = ds[i]
        found = [row[name] for name in ("label", "id", "flag", "words", "data")]
        assert found == [i % 2, f"{i:03d}", i == 1, ["ü", str(i)], bytes([i])]
        assert np.array_equal(row["vector"], np.full(i, 1.5, np.float32)) and row["grid"].tolist() == [[i, 1], [2, 3]]
        assert row["score"] == np.float32(i / 3)
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "penstock"), "unpack", tmp_path / "out", tmp_path / "back"],
                   check=False, capture_output=True)  # fmt: skip
    assert [path.read_bytes() for path in sorted((tmp_path / "back").glob("0*"))] == [jpeg(i) for i in range(5)]


def test_files_beside_the_table_formats_and_selections(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.jpg").write_bytes(jpeg(0) + b"")
    paths = datasets.Dataset.from_dict({"image": [str(tmp_path / f"{i}.jpg") for i in range(3)]})
    paths = paths.cast_column("image", datasets.Image())
    ps.pack(paths, tmp_path / "paths")
    assert len(ps.Dataset(tmp_path / "paths")) == 3
    os.unlink(tmp_path / "1.jpg")
    with pytest.raises(ps.errors.NotFoundError, match=r"sample 1: field 'image': .*1\.jpg"):
        ps.pack(paths, tmp_path / "gone")
    chosen = made().with_format("numpy").select([3, 1]).remove_columns(["vector", "grid"])
    ps.pack(chosen, tmp_path / "chosen")
    assert [row["id"] for row in ps.Dataset(tmp_path / "chosen")] == ["003", "001"]


def test_a_transform_is_applied(tmp_path):
    shown = made()
    shown.set_transform(lambda rows: {"image": [np.asarray(image) for image in rows["image"]], "label": rows["label"]})
    ps.pack(shown, tmp_path / "out")
    ds = ps.Dataset(tmp_path / "out")
    assert list(ds.fields) == ["image", "label"] and ds[1]["image"].shape == (31, 40, 3)


def test_splits(tmp_path):
    several = datasets.DatasetDict({"train": made(3), "test": made(2, 3)})
    with pytest.raises(ps.errors.ArgumentError, match=r"splits train, test: split= \(--split\)"):
        ps.pack(several, tmp_path / "out")
    with pytest.raises(ps.errors.ArgumentError, match="no split 'dev'"):
        ps.pack(several, tmp_path / "out", split="dev")
    with pytest.raises(ps.errors.ArgumentError, match="split goes with a DatasetDict"):
        ps.pack(made(), tmp_path / "out", split="train")
    ps.pack(several, tmp_path / "test", split="test")
    assert [row["id"] for row in ps.Dataset(tmp_path / "test")] == ["003", "004"]
    ps.pack(several, tmp_path / "all", split="all", num_workers=1)
    assert [(row["split"], row["id"]) for row in ps.Dataset(tmp_path / "all")] == [
        ("train", "000"), ("train", "001"), ("train", "002"), ("test", "003"), ("test", "004")]  # fmt: skip
    other = datasets.DatasetDict({"train": made(3), "test": made(2, 3).remove_columns("id")})
    with pytest.raises(ps.errors.ArgumentError, match="train and test have other columns"):
        ps.pack(other, tmp_path / "other", split="all")


def test_refusals(tmp_path):
    streamed = made().to_iterable_dataset()
    with pytest.raises(ps.errors.UnsupportedError, match="streamed"):
        ps.pack(streamed, tmp_path / "out")
    lists = datasets.Dataset.from_dict({"a": [[{"bytes": jpeg(0), "path": None}]]},
                                       features=datasets.Features({"a": datasets.Sequence(datasets.Image())}))
    with pytest.raises(ps.errors.UnsupportedError, match="column 'a' has images or sounds in a list"):
        ps.pack(lists, tmp_path / "out")
    with pytest.raises(ps.errors.ArgumentError, match="sample 3: field 'id'"):
        ps.pack(made(id=["a", "b", "c", None, "e"]), tmp_path / "null")
    with pytest.raises(ps.errors.FunctionError, match="a null is in a list of numbers"):
        ps.pack(made(vector=[[1.5], [], [None, 1.5], [], []]), tmp_path / "null in a list")
    empty = made().select([])
    with pytest.raises(ps.errors.NotFoundError, match="no samples"):
        ps.pack(empty, tmp_path / "empty")


def test_command_line(tmp_path, monkeypatch):
    datasets.DatasetDict({"train": made(3), "test": made(2, 3)}).save_to_disk(tmp_path / "saved")
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "script.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    program = os.path.join(os.path.dirname(sys.executable), "penstock")

    def penstock(*words: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
        return subprocess.run([program, "pack", *words], capture_output=True, text=True, check=False, env=environment)

    done = penstock("saved", "out", "--from", "datasets:load_from_disk", "--split", "test", "--workers", "1")
    assert done.returncode == 0, done
    assert [row["id"] for row in ps.Dataset("out")] == ["003", "004"]
    code = penstock("script", "code", "--from", "datasets:load_dataset")
    assert code.returncode == 1 and "datasets:load_dataset failed" in code.stderr, code
    assert not (tmp_path / "ran").exists() and not (tmp_path / "code").exists()
