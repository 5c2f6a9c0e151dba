"""Rows of different shapes in one batch: lists, padded arrays and offsets hold the same values with all other options."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import penstock as ps
from conftest import picture
from flat import keywords
from penstock import transforms as T
from test_share import command, service  # noqa: F401

N = 23
FIELDS = ("boxes", "centres", "labels", "ids")


def n_boxes(i: int) -> int:
    return 40 if i == 9 else i % 5


def row_of(i: int) -> dict:
    rng = np.random.default_rng(i)
    corners = rng.integers(0, 24, (n_boxes(i), 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.integers(4, 9, corners.shape)], 1).astype(np.float32)
    centres = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.full((len(boxes), 1), 2)], 1).astype(np.float32)
    return {"image": picture(i, 33 + i % 4, 48 - i % 3), "boxes": boxes, "centres": centres,
            "labels": np.arange(len(boxes)) + 100 * i, "ids": np.full((len(boxes), 2, 3), i, np.uint8),
            "mask": np.full((33 + i % 4, 48 - i % 3), i, np.uint8), "number": i}


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    path = tmp_path_factory.mktemp("ragged") / "set.pst"
    schema = {"labels": ps.Array("int64"), "centres": ps.Keypoints(pairs=[]), "boxes": ps.Boxes(), "image": ps.Image("raw"),
              "ids": ps.Array("uint8"), "mask": ps.Mask(), "number": ps.Int()}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(row_of(i))
    return path


def load(path, kind, **options):
    options = {"batch_size": 4, "shuffle": True, "seed": 2, "output": "numpy", "num_workers": 2, "per_box": FIELDS[1:], **options}
    return ps.Loader(path, **keywords(ragged=kind, **options))


def as_lists(batch, name):
    """Returns the rows of a field as lists, whichever way they were combined."""
    values = batch[name]
    n = len(batch["index"])
    if f"{name}_counts" in batch:
        return [values[i, : batch[f"{name}_counts"][i]] for i in range(n)]
    if f"{name}_sizes" in batch:
        sizes = batch[f"{name}_sizes"]
        return [values[i][..., : sizes[i, 0], : sizes[i, 1]] for i in range(n)]
    if f"{name}_shapes" in batch:
        ends = batch[f"{name}_offsets"]
        return [values[ends[i] : ends[i + 1]].reshape(tuple(batch[f"{name}_shapes"][i])) for i in range(n)]
    if f"{name}_offsets" in batch:
        ends = batch[f"{name}_offsets"]
        assert len(ends) == n + 1 and ends[0] == 0 and ends[-1] == len(values)
        return [values[ends[i] : ends[i + 1]] for i in range(n)]
    return list(values)


def assert_same(one, other, names=(*FIELDS, "image", "mask")):
    np.testing.assert_array_equal(one["index"], other["index"])
    for name in names:
        for a, b in zip(as_lists(one, name), as_lists(other, name), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype
            if a.size or b.size:
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("transforms", [None, [T.RandomCrop(24), T.RandomHorizontalFlip()]])
@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_three_ways_say_the_same(ragged, transforms, workers, drop_last):
    options = {"transforms": transforms, "num_workers": workers, "drop_last": drop_last}
    lists, padded, offsets = (list(load(ragged, kind, **options)) for kind in ("list", "padded", "offsets"))
    assert len(lists) == len(padded) == len(offsets) == (N // 4 if drop_last else N // 4 + 1)
    for a, b, c in zip(lists, padded, offsets, strict=True):
        assert_same(a, b)
        assert_same(a, c)
        assert b["boxes"].shape == (len(a["index"]), max(map(len, as_lists(a, "boxes"))), 4)
        assert b["boxes_counts"].dtype == np.int64 and c["boxes_offsets"].dtype == np.int64
        assert c["ids"].shape[1:] == (2, 3) or len(c["ids"]) == 0


def test_none_is_list(ragged):
    for a, b in zip(load(ragged, None), load(ragged, "list"), strict=True):
        assert a.keys() == b.keys() and isinstance(a["boxes"], list)


def test_boxes_are_a_list_also_where_all_have_as_many(tmp_path):
    """A collate function such as torch.cat(batch["boxes"]) relies on it. Images are one array where their sizes are equal."""
    schema = {"image": ps.Image("raw"), "boxes": ps.Boxes(), "points": ps.Keypoints(pairs=[]), "ids": ps.Array("int32")}
    with ps.Writer(tmp_path / "set.pst", schema) as writer:
        for i in range(4):
            writer.write({"image": picture(i, 8, 9), "boxes": np.array([[0, 0, i + 1, 2]] * 2, np.float32),
                          "points": np.ones((2, 3), np.float32), "ids": np.full(2, i, np.int32)})
    [batch] = ps.Loader(tmp_path / "set.pst", batch_size=4, output="numpy")
    assert all(isinstance(batch[name], list) and len(batch[name]) == 4 for name in ("boxes", "points", "ids"))
    assert batch["image"].shape == (4, 3, 8, 9)


def test_rows_are_those_of_the_data_set(ragged):
    for batch in load(ragged, {"boxes": "padded", "labels": "offsets", "ids": "padded"}):
        for row, index in enumerate(batch["index"]):
            stored = row_of(int(index))
            for name in FIELDS:
                np.testing.assert_array_equal(as_lists(batch, name)[row], stored[name])
            assert (batch["boxes"][row, len(stored["boxes"]) :] == 0).all()


def test_fill_values(ragged):
    batch = next(iter(load(ragged, "padded", batch_size=N)))
    counts = batch["labels_counts"]
    past = np.arange(batch["labels"].shape[1])[None, :] >= counts[:, None]
    assert past.any() and (batch["labels"][past] == -1).all() and (batch["ids"][past] == 0).all()
    values = {"boxes": float("nan"), "labels": -100, "ids": 255, "mask": 7, "image": 9}
    batch = next(iter(load(ragged, "padded", batch_size=N, pad_value=values)))
    assert np.isnan(batch["boxes"][past]).all() and not np.isnan(batch["boxes"][~past]).any()
    assert (batch["labels"][past] == -100).all() and (batch["ids"][past] == 255).all()
    for row, (height, width) in enumerate(batch["mask_sizes"]):
        assert (batch["mask"][row, height:] == 7).all() and (batch["mask"][row, :, width:] == 7).all()
        assert (batch["image"][row, :, height:] == 9).all() and (batch["image"][row, :, :, width:] == 9).all()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("multiple", [1, 32])
def test_images_of_several_sizes(ragged, layout, dtype, multiple):
    options = {"layout": layout, "dtype": {"image": dtype}}
    value = 114 if dtype == "uint8" else 114 / 255
    plain = list(load(ragged, "list", **options))
    for a, b in zip(plain, load(ragged, "padded", pad_multiple=multiple, pad_value={"image": value}, **options), strict=True):
        axes = (1, 2) if layout == "NHWC" else (2, 3)
        rows = a["image"]
        for axis, place in enumerate(axes):
            longest = max(row.shape[place - 1] for row in rows)
            assert b["image"].shape[place] == -(-longest // multiple) * multiple
            assert b["mask"].shape[axis + 1] == b["image"].shape[place]
        for row, image in enumerate(rows):
            height, width = b["image_sizes"][row]
            assert (height, width) == tuple(b["mask_sizes"][row]) == tuple(image.shape[axis - 1] for axis in axes)
            expected = np.full(b["image"].shape[1:], value, np.float32).astype(image.dtype)
            if layout == "NHWC":
                expected[:height, :width] = image
            else:
                expected[:, :height, :width] = image
            np.testing.assert_array_equal(b["image"][row], expected)


def test_images_of_one_size_stay_one_array(ragged):
    options = {"transforms": [T.Resize((20, 20))], "keep_boxes": True}
    for a, b in zip(load(ragged, "list", **options), load(ragged, "padded", **options), strict=True):
        assert "image_sizes" not in b and b["image"].shape[1:] == (3, 20, 20)
        np.testing.assert_array_equal(a["image"], b["image"])


def write_boxes(path, rows):
    with ps.Writer(path, {"boxes": ps.Boxes(), "labels": ps.Array("int32"), "scores": ps.Array("float32")}) as writer:
        for boxes in rows:
            writer.write({"boxes": boxes, "labels": np.arange(len(boxes), dtype=np.int32),
                          "scores": np.full(len(boxes), np.nan, np.float32)})
    return path


@pytest.mark.parametrize("kind", ["padded", "offsets"])
def test_samples_without_boxes_alone(tmp_path, kind):
    path = write_boxes(tmp_path / "set.pst", [np.zeros((0, 4), np.float32)] * 5)
    batches = list(load(path, kind, per_box=None, batch_size=2))
    assert len(batches) == 3
    for batch in batches:
        n = len(batch["index"])
        assert batch["boxes"].shape == ((n, 0, 4) if kind == "padded" else (0, 4))
        assert batch["labels"].shape == ((n, 0) if kind == "padded" else (0,)) and batch["labels"].dtype == np.int32
        lengths = batch["boxes_counts"] if kind == "padded" else batch["boxes_offsets"]
        assert (lengths == 0).all() and len(lengths) == n + (kind == "offsets")


def test_a_sample_of_many_boxes_and_nan(tmp_path):
    """The writer refuses boxes that are not finite, but arrays may hold them."""
    huge = np.arange(50_000, dtype=np.float32)[:, None] + np.array([0, 0, 1, 2], np.float32)
    odd = np.array([[0, 0, 1, 1], [0, 0, 2, 3]], np.float32)
    with pytest.raises(ps.errors.ArgumentError, match="not finite"):
        write_boxes(tmp_path / "nan.pst", [odd * np.nan])
    path = write_boxes(tmp_path / "set.pst", [odd, huge, odd[:0], odd[:1]])
    batch = next(iter(load(path, "padded", per_box=None, batch_size=4, shuffle=False)))
    assert batch["boxes"].shape == (4, 50_000, 4) and batch["boxes_counts"].tolist() == [2, 50_000, 0, 1]
    np.testing.assert_array_equal(batch["boxes"][0, :2], odd)
    np.testing.assert_array_equal(batch["boxes"][1], huge)
    assert (batch["boxes"][2] == 0).all()
    assert np.isnan(batch["scores"][1]).all() and np.isnan(batch["scores"][0]).sum() == 2 and (batch["scores"][2] == 0).all()
    batch = next(iter(load(path, "offsets", per_box=None, batch_size=4, shuffle=False)))
    np.testing.assert_array_equal(batch["boxes"], np.concatenate([odd, huge, odd[:1]]))
    assert batch["boxes_offsets"].tolist() == [0, 2, 50_002, 50_002, 50_003]


def test_the_limit_holds(tmp_path):
    """Padded rows of a batch count towards host_memory. If they are too large, an error says so and no memory is taken."""
    huge = np.tile(np.array([0, 0, 1, 1], np.float32), (200_000, 1))
    path = write_boxes(tmp_path / "set.pst", [huge, *[huge[:1]] * 15])
    with pytest.raises(ps.errors.LimitError, match="host_memory"):
        list(load(path, "padded", per_box=None, batch_size=16, fields=["boxes"], host_memory="48MiB", num_workers=1))
    loader = load(path, "offsets", per_box=None, batch_size=16, fields=["boxes"], host_memory="48MiB", num_workers=1)
    (batch,) = list(loader)
    assert len(batch["boxes"]) == 200_015
    assert loader.stats()["memory"]["peak"] <= 48 << 20


def test_ranks_and_resume(ragged):
    whole = list(load(ragged, "padded"))
    loader = load(ragged, "padded")
    passing = iter(loader)
    next(passing), next(passing)
    again = load(ragged, "padded")
    again.load_state_dict(loader.state_dict())
    for a, b in zip(whole[2:], again, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    rows = {}
    for batch in whole:
        rows.update(zip(batch["index"].tolist(), as_lists(batch, "boxes"), strict=True))
    for rank in range(3):
        for batch in load(ragged, "offsets", rank=rank, world_size=3):
            for index, boxes in zip(batch["index"].tolist(), as_lists(batch, "boxes"), strict=True):
                np.testing.assert_array_equal(boxes, rows[index])


def test_replay_and_fetch(ragged):
    loader = load(ragged, "padded")
    batches = list(loader)
    again = loader.replay(1, epoch=0)
    for name, value in batches[1].items():
        np.testing.assert_array_equal(value, again[name])
    fetched = loader.fetch(batches[0]["index"], epoch=0)
    for name, value in batches[0].items():
        np.testing.assert_array_equal(value, fetched[name])


def test_torch_and_dlpack(ragged):
    torch = pytest.importorskip("torch")
    plain = list(load(ragged, "offsets"))
    for a, b in zip(plain, load(ragged, "offsets", output="torch"), strict=True):
        for name, value in a.items():
            assert isinstance(b[name], torch.Tensor)
            np.testing.assert_array_equal(value, b[name].numpy())
        nested = torch.nested.nested_tensor_from_jagged(b["boxes"], b["boxes_offsets"])
        for row, boxes in enumerate(nested.unbind()):
            np.testing.assert_array_equal(boxes.numpy(), as_lists(a, "boxes")[row])
    for a, b in zip(plain, load(ragged, "offsets", output="dlpack"), strict=True):
        for name, value in a.items():
            np.testing.assert_array_equal(value, torch.from_dlpack(b[name]).numpy())


def test_numpy_copies_without_warnings(ragged):
    """Arrays of a batch follow numpy 2's rules for `copy`."""
    batch = next(iter(load(ragged, "padded", output="dlpack", num_workers=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in batch.values():
            view, copy = np.asarray(value), np.array(value)
            np.testing.assert_array_equal(view, copy)
            assert not np.shares_memory(view, copy) or view.size == 0
            if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
                assert np.shares_memory(np.array(value, copy=False), view) or view.size == 0
            assert np.asarray(value, np.float64).dtype == np.float64


def test_bad_samples_leave_the_rest(tmp_path, ragged):
    wrong = tmp_path / "set.pst"
    with ps.Writer(wrong, {"boxes": ps.Boxes(), "values": ps.Array("float32")}) as writer:
        writer.write({"boxes": np.array([[0, 0, 1, 1]], np.float32), "values": np.zeros((2, 3), np.float32)})
        writer.write({"boxes": np.array([[0, 0, 1, 1]], np.float32), "values": np.zeros((2, 5), np.float32)})
    with pytest.raises(ps.errors.ArgumentError, match="'values' cannot be put together.*axis") as raised:
        list(load(wrong, "padded", per_box=None, shuffle=False))
    assert raised.value.sample == 1


@pytest.mark.filterwarnings("ignore:Loader. pad_value=:FutureWarning")
def test_arguments(ragged):
    for options, text in (
        ({"ragged": "sparse"}, "ragged"),
        ({"ragged": {"number": "padded"}}, "number"),
        ({"ragged": {"nothing": "padded"}}, "no field 'nothing'"),
        ({"ragged": "padded", "pad_value": {"ids": 256}}, "pad_value 256 is no value of dtype"),
        ({"ragged": "padded", "pad_value": {"labels": 0.5}}, "pad_value 0.5"),
        ({"ragged": "padded", "pad_multiple": 0}, r"Padded\.multiple"),
        ({"ragged": "offsets", "pad_value": {"boxes": 1}}, "pad_value"),
        ({"pad_value": 3}, "ragged"),
    ):
        with pytest.raises(ps.errors.ArgumentError, match=text):
            ps.Loader(ragged, **keywords(**options))


def test_names_that_are_taken(tmp_path):
    path = tmp_path / "set.pst"
    with ps.Writer(path, {"boxes": ps.Boxes(), "boxes_counts": ps.Int()}) as writer:
        writer.write({"boxes": np.array([[0, 0, 1, 1]], np.float32), "boxes_counts": 1})
    with pytest.raises(ps.errors.ArgumentError, match="boxes_counts"):
        ps.Loader(path, ragged="padded")
    for batch in ps.Loader(path, ragged="padded", fields=["boxes"], output="numpy"):
        assert batch["boxes_counts"].tolist() == [1] and batch["boxes"].tolist() == [[[0, 0, 1, 1]]]


@pytest.mark.parametrize("kind", ["padded", "offsets"])
def test_shared_batches_are_those_of_a_loader_alone(service, ragged, kind):
    wanted = list(load(ragged, kind, cache=None))
    job = load(ragged, kind, cache=None, share="ragged")
    for a, b in zip(wanted, job, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    assert job.stats()["share"]["batches"] > 0
