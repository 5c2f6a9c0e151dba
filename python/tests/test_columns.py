"""Columns that are read without decoding, and views of a data set: subset, filter, split."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import penstock as ps
from conftest import CLASSES, PER_CLASS, N
from flat import keywords


@pytest.mark.parametrize("which", ["folder", "packed"])
def test_labels_are_a_column(which, request, monkeypatch):
    ds = ps.Dataset(request.getfixturevalue(which))
    monkeypatch.setattr(ps.Dataset, "_value", None)  # reading the column reads no image and no sample
    for labels in (ds["label"], ds.column("label")):
        assert labels.dtype == np.int64
        np.testing.assert_array_equal(labels, np.repeat(np.arange(3), PER_CLASS))
    labels[:] = 0  # the array is the caller's own copy
    assert ds["label"].max() == 2


def test_every_type_has_its_column(typed):
    ds = ps.Dataset(typed)
    wanted = list(ds)
    checked = 0
    for name, field in ds.fields.items():
        if field.type in ("image", "mask"):
            with pytest.raises(ps.errors.ArgumentError, match=f"'{name}'.*no column"):
                ds.column(name)
            continue
        column = ds.column(name)
        assert len(column) == len(ds)
        if field.type in ("int", "float"):
            assert column.dtype == (np.int64 if field.type == "int" else np.float64)
        if field.type == "array":
            assert isinstance(column, np.ndarray) == bool(field.shape)
        for value, sample in zip(column, wanted, strict=True):
            np.testing.assert_array_equal(value, sample[name])
        checked += 1
    assert checked >= 6
    with pytest.raises(ps.errors.ArgumentError, match="no field 'nothing'"):
        ds["nothing"]


def test_numbers_have_no_items_and_the_error_says_where_they_are(packed):
    ds = ps.Dataset(packed)
    for ask in (ds.item, ds.read):
        with pytest.raises(ps.errors.ArgumentError, match=r"ds\.column\('label'\)"):
            ask(0, "label")


def test_slices_lists_and_arrays(packed):
    ds = ps.Dataset(packed)
    for chosen, numbers in (
        (slice(2, 5), [2, 3, 4]),
        (slice(None, None, -7), list(range(N))[::-7]),
        ([0, -1], [0, N - 1]),
        (np.array([3, 3]), [3, 3]),
        (np.arange(N) % 9 == 1, [1, 10, 19]),
        ([], []),
        (slice(5, 2), []),
    ):
        samples = ds[chosen]
        assert isinstance(samples, list) and len(samples) == len(numbers)
        for sample, number in zip(samples, numbers, strict=True):
            np.testing.assert_array_equal(sample["image"], ds[number]["image"])
            assert sample["label"] == ds[number]["label"]
    for wrong in ([0, N], [-N - 1], np.array([10**9])):
        with pytest.raises(IndexError):
            ds[wrong]
    for wrong in (1.5, [0.5], [[1]], None, [True]):
        with pytest.raises((ps.errors.ArgumentError, TypeError)):
            ds[wrong]


@pytest.mark.parametrize("which", ["folder", "packed"])
def test_names_lead_to_numbers(which, request):
    ds = ps.Dataset(request.getfixturevalue(which))
    for i in range(N):
        assert ds.index_of(ds.name(i)) == i
    with pytest.raises(ps.errors.NotFoundError, match="no sample is named"):
        ds.index_of("nobody")
    view = ds.subset([5, 2])
    assert view.index_of(ds.name(2)) == 1
    with pytest.raises(ps.errors.NotFoundError, match="this view"):
        view.index_of(ds.name(3))


def test_views_are_data_sets(packed):
    ds = ps.Dataset(packed)
    view = ds.subset([20, 3, 3, 11])
    assert len(view) == 4 and "4 of 24 samples" in repr(view) and view.classes == list(CLASSES)
    np.testing.assert_array_equal(view.indices, [20, 3, 3, 11])
    np.testing.assert_array_equal(view["label"], ds["label"][[20, 3, 3, 11]])
    assert [view.name(i) for i in range(4)] == [ds.name(i) for i in (20, 3, 3, 11)]
    assert view.read(0, "image") == ds.read(20, "image")
    assert view.item(-1, "image") == ds.item(11, "image")
    assert [s["label"] for s in view] == list(view["label"])
    with pytest.raises(IndexError, match="sample 4 of 4"):
        view[4]
    inner = view.subset(slice(1, None)).subset([True, False, True])
    np.testing.assert_array_equal(inner.indices, [3, 11])
    again = pickle.loads(pickle.dumps(inner))
    np.testing.assert_array_equal(again.indices, [3, 11])
    np.testing.assert_array_equal(again[1]["image"], ds[11]["image"])
    assert len(ds) == N and len(ds.indices) == N


def batches(loader):
    return [int(i) for batch in loader for i in batch["index"]]


def test_loaders_of_views(packed):
    ds = ps.Dataset(packed)
    view = ds.subset([20, 3, 11, 7])
    options = {"batch_size": 3, "transforms": [ps.transforms.Resize((8, 8))], "output": "numpy"}
    with ps.Loader(view, **keywords(**options)) as loader:
        assert batches(loader) == [20, 3, 11, 7] and loader.dataset is view
        np.testing.assert_array_equal(loader.fetch([20])["index"], [20])
    with ps.Loader(view, **keywords(indices=[3, 0], **options)) as loader:
        assert batches(loader) == [7, 20]
    with ps.Loader(view, **keywords(shuffle=True, weights=[0, 0, 1, 0], **options)) as loader:
        assert batches(loader) == [11] * 4
    with ps.Loader(view, **keywords(shuffle=True, seed=3, **options)) as loader:
        expected = batches(loader)
    with pickle.loads(pickle.dumps(ps.Loader(view, **keywords(shuffle=True, seed=3, **options)))) as loader:
        assert batches(loader) == expected
    for wrong in ({"indices": [4]}, {"weights": [1.0] * N, "shuffle": True}):
        with pytest.raises(ps.errors.ArgumentError):
            ps.Loader(view, **keywords(**options, **wrong))
    with pytest.raises(ps.errors.ArgumentError, match="no samples"):
        ps.Loader(ds.filter(label=-1), **keywords(**options))


def test_torch_data_sets_of_views(packed):
    pytest.importorskip("torch")
    ds = ps.Dataset(packed)
    view = ds.subset([20, 3, 11])
    both = ps.TorchDataset(view, [ps.transforms.Resize((8, 8))])
    assert len(both) == 3 and [int(both[i]["index"]) for i in range(3)] == [20, 3, 11]
    part = ps.TorchDataset(view, [ps.transforms.Resize((8, 8))], indices=[2, -3])
    assert [int(s["index"]) for s in part.__getitems__([0, 1])] == [11, 20]


def test_filters(typed, packed):
    ds = ps.Dataset(packed)
    np.testing.assert_array_equal(ds.filter(label=1).indices, np.arange(PER_CLASS, 2 * PER_CLASS))
    assert len(ds.filter(label=[0, 2])) == 2 * PER_CLASS
    assert len(ds.filter(label=lambda label: label > 0).filter(label=lambda label: label < 2)) == PER_CLASS
    np.testing.assert_array_equal(ds.filter(ds["label"] == 2).indices, np.arange(2 * PER_CLASS, N))
    seen = []
    kept = ds.filter(lambda sample: seen.append(set(sample)) or sample["label"] == 0, label=[0, 1])
    np.testing.assert_array_equal(kept.indices, np.arange(PER_CLASS))
    assert seen == [{"label"}] * N  # no image was decoded
    for wrong in ([True], [0] * N, np.ones((N, 1), bool)):
        with pytest.raises(ps.errors.ArgumentError, match="one per sample"):
            ds.filter(wrong)
    with pytest.raises(ps.errors.ArgumentError, match="no field"):
        ds.filter(lable=1)  # codespell:ignore lable
    texts = ps.Dataset(typed)
    name = next(field.name for field in texts.fields.values() if field.type == "text")
    wanted = texts[name][1]
    assert texts.filter(**{name: wanted})[name] == [wanted]


def test_splits_share_the_samples_out(packed):
    ds = ps.Dataset(packed)
    train, val = ds.split([0.75, 0.25], seed=5)
    assert len(train) == 18 and len(val) == 6
    assert sorted([*train.indices, *val.indices]) == list(range(N))
    assert list(train.indices) == sorted(train.indices)
    # The split never changes: it is a function of (seed, numbers) only.
    assert [int(i) for i in val.indices] == [0, 1, 4, 5, 18, 23]
    assert list(val.indices) != list(ds.split([0.75, 0.25], seed=6)[1].indices)
    assert [len(part) for part in ds.split([0.1, 0.2, 0.3], seed=1)] == [2, 5, 7]
    for wrong in ([], [0.9, 0.2], [-0.1], 0.5, [float("nan")]):
        with pytest.raises(ps.errors.ArgumentError):
            ds.split(wrong)


def test_strata_are_shared_out_alike(packed):
    ds = ps.Dataset(packed)
    for seed in range(5):
        parts = ds.split([0.5, 0.25, 0.25], seed=seed, stratify="label")
        for part, each in zip(parts, (4, 2, 2), strict=True):
            np.testing.assert_array_equal(np.bincount(part["label"]), [each] * 3)
    first = ds.split([0.5, 0.5], stratify=[i % 2 for i in range(N)])[0]
    assert abs(int((first.indices % 2).sum()) * 2 - len(first)) <= 1
    with pytest.raises(ps.errors.ArgumentError, match="stratify has 3 values"):
        ds.split([0.5], stratify=[1, 2, 3])
