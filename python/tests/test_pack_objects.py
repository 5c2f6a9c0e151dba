"""Packing a user's own data set: any object with __len__ and __getitem__, by ps.pack and penstock pack --from."""

from __future__ import annotations

import collections
import enum
import filecmp
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import types
from multiprocessing import resource_tracker

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from penstock.data.sources import huggingface, items, typed
from pictures import Breaks, N, Photos, Shrinks


def same(a, b) -> bool:
    """Returns whether two data sets have the same files with the same bytes."""
    names = sorted(os.listdir(a))
    assert filecmp.cmpfiles(a, b, names, shallow=False)[0] == names
    return names == sorted(os.listdir(b))


def running(word: str) -> list[int]:
    """Returns the processes whose environment contains this word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes() and \
                    pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(pid))
        except OSError:
            pass
    return found


@pytest.fixture(scope="module", autouse=True)
def tracker() -> None:
    """Starts multiprocessing's resource tracker. It lives as long as the tests, so it must not be started while a test has put its
    word into the environment.
    """
    resource_tracker.ensure_running()


def gone(word: str) -> bool:
    end = time.monotonic() + 60
    while (left := running(word)) and time.monotonic() < end:
        time.sleep(0.05)
    return not left


class Listed:
    """A data set of the values of a list."""

    def __init__(self, *values, **more) -> None:
        self.values = values
        vars(self).update(more)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int):
        return self.values[i]


def test_fields_values_and_names(tmp_path):
    report = ps.pack(Photos(), tmp_path / "out")
    assert (report.n_samples, report.n_pli_jpeg + report.n_kept_jpeg) == (N, N * 3 // 4)
    assert report.jpeg_nbytes + report.kept_jpeg_nbytes == sum(len(Photos()[i]["image"]) for i in range(N) if i % 4 != 3)
    ds = ps.Dataset(tmp_path / "out")
    assert {name: field.type for name, field in ds.fields.items()} == {
        "image": "image", "label": "int", "id": "text", "score": "float", "path": "text", "more": "json", "vector": "array",
    }  # fmt: skip
    assert ds.classes == ["ant", "bee", "cow"] and [ds.name(i) for i in (0, 23)] == ["000000000000", "000000000023"]
    for i in range(N):
        want, found = Photos()[i], ds[i]
        assert (found["label"], found["id"], found["path"], found["more"]) == (i % 3, f"{i:04d}", want["path"], want["more"])
        assert found["score"] == i / 7 and np.array_equal(found["vector"], want["vector"])
    subprocess.run([os.path.join(os.path.dirname(sys.executable), "penstock"), "unpack", tmp_path / "out", tmp_path / "back"],
                   check=False, capture_output=True)  # fmt: skip
    files = {path.name.partition(".")[0]: path for path in (tmp_path / "back").iterdir()}
    assert all(files[f"{i:012d}"].read_bytes() == Photos()[i]["image"] for i in range(N))


def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    for n in (0, 1, 3):
        ps.pack(Photos(), tmp_path / str(n), num_workers=n)
    assert same(tmp_path / "0", tmp_path / "1") and same(tmp_path / "0", tmp_path / "3")


BAD = {
    "raise": "sample 9: .*KeyError: 'no such picture'(.|\n)*Traceback",
    "float": "sample 9: field 'label': Int: a whole number is wanted, not float",
    "image": "sample 9: field 'image': ",
    "none": "sample 9: field 'score': ",
    "surrogate": "sample 9: field 'id': ",
    "missing": r"sample 9: .*unknown: \['odd'\]",
    "big": "sample 9: field 'label': ",
    "text": "sample 9: field 'score': Float: a number is wanted, not str",
    "class": "sample 9: ",
}
IN_WORKERS = ("raise", "image", "missing")  # the other cases are refused by the same code; starting worker processes takes a second


@pytest.mark.parametrize(("how", "n_workers"), [
    *[(how, 0) for how in BAD],
    *[pytest.param(how, 2, marks=[pytest.mark.long] * (how not in IN_WORKERS)) for how in BAD],
])  # fmt: skip
def test_a_bad_sample_is_named_and_the_run_goes_on_to_the_same_bytes(tmp_path, how, n_workers):
    flag = tmp_path / "flag"
    flag.touch()
    data = Breaks(how, flag)
    with pytest.raises(ps.PenstockError, match=BAD[how]):
        ps.pack(data, tmp_path / "out", num_workers=n_workers, commit_size=1)
    if how == "raise":
        skipped = ps.pack(data, tmp_path / "skipped", num_workers=n_workers, on_error="skip")
        assert [(bad["name"], bad["sample"]) for bad in skipped.bad] == [("000000000009", 9)] and skipped.n_samples == N - 1
        left = ps.Dataset(tmp_path / "skipped")
        assert [left.name(i) for i in (8, 9)] == ["000000000008", "000000000010"]
    flag.unlink()
    report = ps.pack(data, tmp_path / "out", num_workers=n_workers, resume=True)
    assert report.n_resumed == 9 and report.n_samples == N
    ps.pack(Photos(), tmp_path / "whole")
    assert same(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize(("how", "words"), [("kill", "SIGKILL"), ("exit", "status 3")])
def test_a_worker_that_dies(tmp_path, how, words, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TEST_OF", word := f"dies-{os.getpid()}-{how}")
    flag = tmp_path / "flag"
    flag.touch()
    for n_workers in (1, 3):
        with pytest.raises(ps.errors.StateError, match=f"worker process .*{words}.* while it read sample 9"):
            ps.pack(Breaks(how, flag), tmp_path / "out", num_workers=n_workers, on_error="skip", resume=n_workers == 3)
    assert gone(word)  # this process does not count, because its environment was read before the word was set
    flag.unlink()
    ps.pack(Breaks(how, flag), tmp_path / "out", num_workers=2, resume=True)
    ps.pack(Photos(), tmp_path / "whole")
    assert same(tmp_path / "out", tmp_path / "whole")


def test_a_progress_that_cancels(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TEST_OF", word := f"cancels-{os.getpid()}")
    with pytest.raises(ps.errors.CancelledError):
        ps.pack(Photos(), tmp_path / "out", num_workers=2, progress=lambda done, *rest: done == 5)
    assert gone(word)
    assert ps.pack(Photos(), tmp_path / "out", resume=True).n_samples == N


def test_pictures_of_pil_numpy_and_torch(tmp_path):
    torch = pytest.importorskip("torch")
    rgb, gray, deep = picture(1, 20, 30), picture(2, 20, 30)[..., 0], np.full((20, 30), 40000, np.uint16)
    palette = PilImage.fromarray(rgb).quantize(16)
    see_through = palette.copy()
    see_through.info["transparency"] = 3
    for i, (given, want) in enumerate([
        (PilImage.fromarray(rgb), rgb),
        (PilImage.fromarray(gray), gray),
        (PilImage.fromarray(rgb).convert("RGBA"), np.dstack([rgb, np.full_like(gray, 255)])),
        (palette, np.asarray(palette.convert("RGB"))),
        (see_through, np.asarray(see_through.convert("RGBA"))),
        (PilImage.fromarray(gray > 99), (gray > 99).astype(np.uint8)),
        (PilImage.fromarray(deep), deep),
        (rgb, rgb),
        (torch.from_numpy(rgb).permute(2, 0, 1), rgb),
        (torch.from_numpy(gray)[None], gray),
        (torch.from_numpy(gray), gray),
    ]):  # fmt: skip
        ps.pack(Listed((given, 1)), tmp_path / str(i))
        found = ps.Dataset(tmp_path / str(i))[0]
        assert np.array_equal(found["image"].squeeze(), want), i
        assert found["label"] == 1
        ps.pack(Listed({"image": given}), tmp_path / f"{i} pli", forms="pli", effort=1)
        assert np.array_equal(ps.Dataset(tmp_path / f"{i} pli")[0]["image"].squeeze(), want), i


def test_masks(tmp_path):
    torch = pytest.importorskip("torch")
    rgb, labels = picture(1, 20, 30), np.random.default_rng(1).integers(0, 19, (20, 30))
    small = PilImage.fromarray(labels.astype(np.uint8))
    indices = small.copy()
    indices.putpalette([i for j in range(256) for i in (j, 255 - j, 7)])
    wide = np.array(labels + 40000, np.int32)
    for i, (given, want) in enumerate([
        (small, labels), (indices, labels), (PilImage.fromarray(wide), wide), (torch.from_numpy(labels), labels),
        (torch.from_numpy(labels)[None], labels), (labels.astype(np.uint8), labels), (labels == 3, labels == 3),
    ]):  # fmt: skip
        ps.pack(Listed((PilImage.fromarray(rgb), given)), tmp_path / str(i), mask_forms="pli")
        ds = ps.Dataset(tmp_path / str(i))
        assert ds.fields["mask"].type == "mask" and np.array_equal(ds[0]["mask"].squeeze(), want), i
    for bad in (labels - 1, labels + 70000, labels / 2):
        with pytest.raises(ps.errors.ArgumentError, match="sample 0: field 'mask': "):
            ps.pack(Listed({"image": rgb, "mask": bad}), tmp_path / "bad")


def test_pairs_with_a_dict_are_detection(tmp_path):
    torch = pytest.importorskip("torch")
    boxes = torch.tensor([[1.0, 2, 9, 8], [0, 0, 3, 3]])
    target = {"boxes": boxes, "labels": torch.tensor([3, 1]), "image_id": 17, "area": torch.tensor([48.0, 9])}
    ps.pack(Listed((PilImage.fromarray(picture(1, 20, 30)), target)), tmp_path / "out")
    ds = ps.Dataset(tmp_path / "out")
    assert (ds.fields["boxes"].type, ds.fields["labels"].dtype, ds.fields["area"].dtype) == ("boxes", "int64", "float32")
    assert np.array_equal(ds[0]["boxes"], boxes.numpy()) and ds[0]["image_id"] == 17
    other = types.SimpleNamespace(value="XYWH")
    boxes.format = other
    with pytest.raises(ps.errors.ArgumentError, match="field 'boxes': boxes in the format XYWH"):
        items.plain_sample({"boxes": boxes})


def test_paths_named_tuples_enums_and_scalars(tmp_path):
    (tmp_path / "ä b.jpg").write_bytes(encoded(picture(1, 20, 30), "JPEG"))
    (tmp_path / "c.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    (tmp_path / "d").write_bytes(b"anything")
    row = collections.namedtuple("row", "image text number truth half")
    kind = enum.IntEnum("kind", ["one", "two"])
    ps.pack(Listed(row(tmp_path / "ä b.jpg", "007", kind.two, np.bool_(True), np.float16(0.5))), tmp_path / "out")
    ds = ps.Dataset(tmp_path / "out")
    assert {name: field.type for name, field in ds.fields.items()} == {
        "image": "image", "text": "text", "number": "int", "truth": "int", "half": "float"}  # fmt: skip
    assert (ds[0]["text"], ds[0]["number"], ds[0]["truth"], ds[0]["half"]) == ("007", 2, 1, 0.5)
    paths = {"a": tmp_path / "ä b.jpg", "b": tmp_path / "c.wav", "c": tmp_path / "d", "image": str(tmp_path / "d")}
    sample = items.plain_sample(paths)
    found = typed.schema_of(sample, None, ps.Image, ps.Mask)
    assert {name: spec.type for name, spec in found.items()} == {"a": "image", "b": "audio", "c": "bytes", "image": "image"}
    with pytest.raises(ps.errors.NotFoundError, match=r"sample 1: field 'image': .*gone.jpg"):
        ps.pack(Listed({"image": tmp_path / "ä b.jpg"}, {"image": tmp_path / "gone.jpg"}), tmp_path / "gone")


def test_a_schema(tmp_path):
    pixels = picture(1, 20, 30)
    data = Listed((pixels, 0, 2, None), (pixels, 1, 0.5, -1))
    schema = {"image": ps.Image("pli", effort=1), "label": ps.Int(["a", "b"]), "score": "float", "extra": ps.Int(missing=-9)}
    for n_workers in (0, 1):
        ps.pack(data, tmp_path / str(n_workers), schema=schema, num_workers=n_workers)
    ds = ps.Dataset(tmp_path / "1")
    assert ds.classes == ["a", "b"] and [ds[i]["score"] for i in range(2)] == [2.0, 0.5] and ds[0]["extra"] == -9
    assert same(tmp_path / "0", tmp_path / "1")
    with pytest.raises(ps.errors.ArgumentError, match="forms"):
        ps.pack(data, tmp_path / "x", schema=schema, forms="raw")
    with pytest.raises(ps.errors.ArgumentError, match="4 values came, the fields are image, label"):
        ps.pack(data, tmp_path / "y", schema={"image": "image", "label": "int"})
    with pytest.raises(ps.errors.ArgumentError, match="schema goes with"):
        ps.pack(str(tmp_path), tmp_path / "z", schema=schema)


def hostile() -> list:
    deep = inner = []
    for _ in range(100):
        inner.append([])
        inner = inner[0]
    return [
        (object(), "object cannot be stored"), ({1: 2}, "names of fields are texts"), ({"a": {1: 2}}, "keys of a dict are texts"),
        ({"a": deep}, "nested too deep"), ({"a": np.array(["x"])}, "array of <U1"), ({"a": np.array([None])}, "array of object"),
        ({"a": np.array([1j])}, "array of complex128"), ({"a": None}, "first sample has None"), ((1, 2, 3), "tuple of 3 values"),
        ((), "tuple of 0 values"), (({"a": 1}, {"b": 2}), "pair of two dicts"),
        ({"image": PilImage.new("CMYK", (4, 4))}, "mode CMYK"), ({"image": np.zeros((4, 4, 3), np.float32)}, "pixels are whole"),
        ({"image": np.zeros((4, 4, 7), np.uint8)}, "7 channels"), ({"image": np.zeros(4, np.uint8)}, "image"),
        ({"image": b""}, "image"), ({"image": "a\0b"}, "image"), ({"image": np.zeros((0, 4), np.uint8)}, "image"),
        ({"a": np.datetime64("2020-01-01")}, "datetime64"), ({"a": np.ma.array([1], mask=[1])}, "mask"),
        ({"a": float("nan"), "b": [float("nan")]}, "field 'b'"), ({"a b": 1}, "a b"), ({}, "field"), ({"a": 10**30}, "field 'a'"),
    ]  # fmt: skip


@pytest.mark.parametrize("i", range(len(hostile())))
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(tmp_path, i):
    value, words = hostile()[i]
    with pytest.raises(ps.PenstockError, match=words):
        ps.pack(Listed(value), tmp_path / "out")
    assert not os.path.exists(tmp_path / "out") or not os.listdir(tmp_path / "out")


def test_nulls_in_lists_of_datasets():
    """For a dtype of floats, numpy makes NaN of None. The package datasets need not be installed for this test."""
    numbers = huggingface._Numbers("float32")
    assert numbers(None) is None and numbers([[1, 2.5], [3, 4]]).tolist() == [[1, 2.5], [3, 4]]
    for value in ([1.5, None], [None], [[1.0], [None]]):
        with pytest.raises(ps.errors.CorruptError, match="a null is in a list"):
            numbers(value)


def test_tensors_that_are_no_pixels(tmp_path):
    torch = pytest.importorskip("torch")
    for value, words in [
        (torch.zeros(3, 4, 4), "float32 came, and pixels"), (torch.zeros(4, 4, 5, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(8, 4, 3, dtype=torch.uint8), r"\(C, H, W\)"), (torch.zeros(2, 2).to_sparse(), "no plain array"),
        (torch.zeros(2, 2, device="meta"), "no plain array"),
    ]:  # fmt: skip
        with pytest.raises(ps.errors.ArgumentError, match=f"field 'image': .*{words}"):
            ps.pack(Listed({"image": value}), tmp_path / "out")


def test_objects_that_are_no_data_sets(tmp_path, packed):
    for source, words in [
        (iter([1]), "no data set with __len__"), (7, "int is no data set"), (ps.Dataset(packed), "packed by its path"),
        ({0: "a"}, "no data set"), (types.SimpleNamespace(), "no data set"),
    ]:  # fmt: skip
        with pytest.raises(ps.errors.ArgumentError, match=words):
            ps.pack(source, tmp_path / "out")
    with pytest.raises(ps.errors.NotFoundError, match="no samples"):
        ps.pack(Listed(), tmp_path / "out")
    with pytest.raises(ps.errors.ArgumentError, match="goes without labels, voc"):
        ps.pack(Photos(), tmp_path / "out", labels="x.csv", voc=True)
    assert ps.pack([{"number": 1}, {"number": 2}], tmp_path / "list").n_samples == 2
    assert not os.path.exists(tmp_path / "out")


def test_workers_need_an_object_that_can_be_sent(tmp_path):
    with pytest.raises(ps.errors.ArgumentError, match="cannot be sent to a worker process"):
        ps.pack(Listed({"a": 1}, hook=lambda: 0), tmp_path / "out", num_workers=1)


def test_workers_see_the_same_number_of_samples(tmp_path):
    with pytest.raises(ps.errors.StateError, match=r"samples here and \d+ in a worker"):
        ps.pack(Shrinks(), tmp_path / "out", num_workers=1)


# The command line
# ---------------------------------------------------------------------------------------------------------------------

MODULE = """
    import os, time, numpy as np
    from pictures import Photos

    class Slow(Photos):
        def __getitem__(self, i):
            if i >= 12 and os.path.exists("slow"):
                open(f"at-{i}", "w").close()
                time.sleep(600)
            return super().__getitem__(i)

    def train(): print("making"); return Slow()
    def part(path): return [{"path": path, "label": i} for i in range(3)]
    def typed(): return [(1, 2)], {"a": "float", "b": "int"}
    def fails(): raise OSError("no disk")
    def number(): return 7
    photos = 5
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    here = os.path.dirname(os.path.abspath(__file__))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), here]).strip(os.pathsep))
    return tmp_path


def begun(*words, **environment: str) -> subprocess.Popen:
    program = os.path.join(os.path.dirname(sys.executable), "penstock")
    return subprocess.Popen([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, env={**os.environ, "PENSTOCK_PYTHON": sys.executable, **environment})


def penstock(*words, status: int = 0) -> tuple[str, str]:
    process = begun(*words)
    out, err = process.communicate(timeout=600)
    assert process.returncode == status, (process.returncode, out, err)
    return out, err


def test_from_a_function(work):
    out, _ = penstock("pack", "out", "--from", "mine:train", "--workers", 2, "--json")
    assert json.loads(out)["samples"] == N
    ps.pack(Photos(), "whole")
    assert same("out", "whole")
    penstock("pack", "some/folder", "part", "--from", "mine:part")
    assert ps.Dataset("part")[2]["path"] == "some/folder"
    penstock("pack", "typed", "--from=mine:typed")
    assert ps.Dataset("typed").fields["a"].type == "float"


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--from", "mine:none"], 1, "has no attribute 'none'"),
        (["--from", "nowhere:train"], 1, "No module named 'nowhere'"),
        (["--from", "mine"], 1, "MODULE:FUNCTION is expected"),
        (["--from", "mine:photos"], 1, "photos is no function"),
        (["--from", "mine:fails"], 1, "mine:fails failed: OSError: no disk\nTraceback"),
        (["--from", "mine:number"], 1, "int is no data set"),
        (["--from", "mine:train", "--voc"], 2, "only one of --from"),
        (["--from", "mine:train", "--resize", 9], 2, "--resize goes without --from"),
        (["--from", "mine:train", "--split", "x"], 1, "split goes with a DatasetDict"),
        (["--from", "mine:train", "--paint", "mask"], 2, "--paint and --bad-annotations go without --from"),
        ([], 2, "an operand is missing: penstock pack SRC DST"),
    ],
)
def test_from_what_is_no_function(work, words, status, text):
    _, err = penstock("pack", "out", *words, status=status)
    assert text in err and not os.path.exists("out")


@pytest.mark.parametrize(("number", "n_workers"), [
    (signal.SIGINT, 2), (signal.SIGTERM, 0), (signal.SIGKILL, 2),
    *[pytest.param(*rest, marks=pytest.mark.long) for rest in ((signal.SIGINT, 0), (signal.SIGTERM, 2), (signal.SIGKILL, 0))],
])  # fmt: skip
def test_signals_leave_no_process_and_the_run_goes_on(work, number, n_workers):
    (work / "slow").touch()
    word = f"signals-{os.getpid()}-{number}-{n_workers}"
    process = begun("pack", "out", "--from", "mine:train", "--workers", n_workers, "--commit-size", 1, PENSTOCK_TEST_OF=word)
    end = time.monotonic() + 120
    while not list(work.glob("at-*")):  # threads take work in any order, so it may be sample 13 or 14
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: to the whole group
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=600)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert "Traceback" not in err and gone(word)
    (work / "slow").unlink()
    penstock("pack", "out", "--from", "mine:train", "--workers", 2 - n_workers, "--resume")
    ps.pack(Photos(), "whole")
    assert same("out", "whole")
