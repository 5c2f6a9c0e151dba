"""ray.data reads and writes data sets. Uses Ray if it is installed, else tests/stand_ins/small_ray.py."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import penstock as ps

sys.path.insert(0, str(Path(__file__).parent / "stand_ins"))
if importlib.util.find_spec("ray") is None:
    import small_ray

    small_ray.install()
import ray
from ray.data.block import BlockAccessor

from penstock import ray as pst_ray
from penstock.data.pack_report import joined

if hasattr(ray, "is_stand_in"):
    small_ray.remove()

N = 23
SCHEMA = {
    "image": ps.Image(["raw", "png"]), "mask": ps.Mask(made_for="stored"), "boxes": ps.Boxes("upright"),
    "points": ps.Keypoints(points=["nose", "left_eye", "right_eye"]), "label": ps.Int(classes=["ant", "bee"]), "number": "int",
    "score": "float", "note": "text", "more": ps.Json(missing=None), "blob": "bytes", "fixed": ps.Array("uint8", (2, 3)),
    "ragged": ps.Array("int32", classes=4),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Starts one small node of Ray. The stand-in has no nodes."""
    if hasattr(ray, "is_stand_in"):
        yield
        return
    ray.init(num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def png(pixels):
    from io import BytesIO

    from PIL import Image

    out = BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def sample(i):
    rng = np.random.default_rng(i)
    more = ({"more": {"i": [i, None]}}, {"more": None}, {})[i % 3]
    return {
        **more,
        "image": png(rng.integers(0, 256, (5 + i % 3, 7, 3), np.uint8)), "mask": np.full((5 + i % 3, 7), i, np.uint16),
        "boxes": np.array([[0, 0, 1 + k, 2] for k in range(i % 3)], np.float32).reshape(-1, 4),
        "points": np.array([[i, k, 2] for k in range(3)], np.float32), "label": i % 2, "number": -i, "score": i / 7,
        "note": f"nöte {i}" if i % 4 else "", "blob": bytes([i, 0, 255]) * (i % 3),
        "fixed": rng.integers(0, 256, (2, 3), np.uint8), "ragged": np.arange(i % 4, dtype=np.int32),
    }  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "set.pst"
    with ps.Writer(path, SCHEMA) as writer:
        writer.write_many((f"sample {i}", sample(i)) for i in range(N))
    return path


def assert_equal(a, b):
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


def by_name(dataset):
    return sorted(dataset.take_all(), key=lambda row: int(row["name"].split()[-1]))


def test_rows_are_the_samples(packed):
    whole = ps.Dataset(packed)
    found = pst_ray.read(packed, decode=True, override_num_blocks=4)
    assert found.count() == N
    assert found.schema().names == ["name", *SCHEMA]
    rows = by_name(found)
    assert len(rows) == N
    for i, row in enumerate(rows):
        assert row.pop("name") == whole.name(i)
        wanted = whole[i]
        wanted["more"] = (f'{{"i":[{i},null]}}', "null", None)[i % 3]
        for field in SCHEMA:
            assert_equal(row[field], wanted[field])


def test_files_are_those_that_were_packed(packed, tmp_path):
    """Raw pixels have no original file, so they are delivered as a PLI file of the same pixels."""
    whole = ps.Dataset(packed)
    for i, row in enumerate(by_name(pst_ray.read(packed, columns=["image", "mask"]))):
        assert ps.probe(row["image"]).form == "pli"
        assert_equal(ps.decode(row["image"]), whole[i]["image"])
        assert_equal(ps.decode(row["mask"])[..., 0], whole[i]["mask"])
    jpeg = (Path(__file__).parents[2] / "examples/photographs").rglob("*.jpg")
    files = {path.name: path.read_bytes() for path in sorted(jpeg)[:3]}
    with ps.Writer(tmp_path / "jpeg.pst", {"image": ps.Image("pli-jpeg")}) as writer:
        for name, data in files.items():
            writer.write({"image": data}, name)
    assert {row["name"]: row["image"] for row in pst_ray.read(tmp_path / "jpeg.pst").take_all()} == files


@pytest.mark.parametrize("wanted", [1, 2, 5, N, 10 * N])
def test_tasks_share_the_samples(packed, wanted):
    tasks = pst_ray.Source(packed, columns="number").get_read_tasks(wanted)
    assert len(tasks) == min(wanted, N)
    sizes = [task.metadata.num_rows for task in tasks]
    assert sum(sizes) == N and max(sizes) - min(sizes) <= 1
    numbers = []
    for task, size in zip(tasks, sizes, strict=True):
        rows = [row["number"] for part in task() for row in pst_rows(part)]
        assert len(rows) == size
        numbers += rows
    assert numbers == [-i for i in range(N)]


def pst_rows(part):
    return BlockAccessor.for_block(part).iter_rows(True)


def test_a_view_gives_its_samples(packed):
    view = ps.Dataset(packed).subset([20, 3, 11, 3])
    found = pst_ray.read(view, columns=["number"], name=None, override_num_blocks=3)
    assert found.count() == 4
    assert sorted(row["number"] for row in found.take_all()) == [-20, -11, -3, -3]
    assert pst_ray.Source(ps.Dataset(packed).subset([])).get_read_tasks(3) == []


def test_a_large_range_comes_in_blocks(packed, monkeypatch):
    from penstock.engines import ray_source

    monkeypatch.setattr(ray_source, "_BLOCK_NBYTES", 300)
    [task] = pst_ray.Source(packed, decode=True, columns=["image"]).get_read_tasks(1)
    blocks = list(task())
    assert len(blocks) > 5
    assert sum(len(list(pst_rows(block))) for block in blocks) == N


def test_another_data_set_at_the_path_is_refused(packed, tmp_path):
    shutil.copytree(packed, tmp_path / "set.pst")
    tasks = pst_ray.Source(tmp_path / "set.pst").get_read_tasks(2)
    sent = [pickle.dumps(task.read_fn) for task in tasks]
    shutil.rmtree(tmp_path / "set.pst")
    with ps.Writer(tmp_path / "set.pst", SCHEMA) as writer:
        writer.write_many((f"sample {i}", sample(i + 1)) for i in range(N))
    for one in sent:
        with pytest.raises(ps.errors.StateError, match="another data set, or a changed one"):
            pickle.loads(one)
    shutil.rmtree(tmp_path / "set.pst")
    with pytest.raises(FileNotFoundError):
        pickle.loads(sent[0])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"columns": ["imag"]}, "no field 'imag'"), ({"columns": []}, "columns names"), ({"columns": ["label", "label"]}, "once"),
     ({"name": "label"}, "has the name of the column of names")],
)  # fmt: skip
def test_bad_arguments_are_told(packed, arguments, text):
    if arguments.get("columns") == []:
        arguments = {**arguments, "name": None}
    with pytest.raises(ps.errors.ArgumentError, match=text):
        pst_ray.Source(packed, **arguments)


# Writing ---------------------------------------------------------------------------------------------


def test_what_was_read_is_written(packed, tmp_path):
    """Names, values, classes and points are kept, whatever the number of tasks."""
    pst_ray.write(pst_ray.read(packed, override_num_blocks=4).materialize(), tmp_path / "copy.pst", packed)
    before, after = ps.Dataset(packed), ps.Dataset(tmp_path / "copy.pst")
    assert sorted(map(after.name, range(N))) == sorted(map(before.name, range(N)))
    for field, own in before.fields.items():
        kept = after.fields[field]
        assert (kept.type, kept.n_classes, kept.made_for, kept.pairs) == (own.type, own.n_classes, own.made_for, own.pairs)
        assert before.class_names(field) == after.class_names(field)
    for i in range(N):
        for field, value in before[i].items():
            assert_equal(after[after.index_of(before.name(i))][field], value)
    assert ps.verify(tmp_path / "copy.pst", decode=True).ok
    assert os.listdir(tmp_path) == ["copy.pst"]


def test_samples_without_names_get_numbers(tmp_path):
    rows = ray.data.from_items([{"number": i} for i in range(10)], override_num_blocks=3)
    pst_ray.write(rows.materialize(), tmp_path / "set.pst", {"number": "int"})
    written = ps.Dataset(tmp_path / "set.pst")
    assert [written.name(i) for i in range(10)] == [f"{i:012d}" for i in range(10)]
    assert sorted(written["number"]) == list(range(10))


def test_names_that_look_like_numbers_stay(tmp_path):
    sink, ctx = sink_of(tmp_path)
    parts = [sink.write([block_of(name=[f"{i:012d}"], number=[i])], ctx(3 - i)) for i in range(3)]
    complete(sink, parts)
    written = ps.Dataset(tmp_path / "set.pst")
    assert [(written.name(i), written[i]["number"]) for i in range(3)] == [(f"{i:012d}", i) for i in (2, 1, 0)]


def sink_of(folder, **arguments):
    sink = pst_ray.Sink(folder / "set.pst", {"number": "int"}, **arguments)
    sink.on_write_start()
    return pickle.loads(pickle.dumps(sink)), lambda number: SimpleNamespace(task_idx=number)


def block_of(**columns):
    arrays = {name: np.array(values, object if isinstance(values[0], str) else None) for name, values in columns.items()}
    return BlockAccessor.batch_to_block(arrays)


def complete(sink, parts, n=None):
    n_rows = sum(part.n_samples for part in parts if part) if n is None else n
    sink.on_write_complete(SimpleNamespace(num_rows=n_rows, size_bytes=0, write_returns=parts))


def test_a_task_that_ran_again_adds_nothing_twice(tmp_path):
    """Ray does not report the first run of a repeated task, whether it failed or ended well. A run after the end of the write finds
    no folder.
    """
    sink, ctx = sink_of(tmp_path)

    def broken():
        yield block_of(number=[1, 2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sink.write(broken(), ctx(0))
    finished_unheard = sink.write([block_of(number=[1, 2])], ctx(0))
    parts = [sink.write([block_of(number=[1, 2])], ctx(0)), sink.write([], ctx(1)), sink.write([block_of(number=[3])], ctx(2))]
    assert parts[1] is None and finished_unheard.folder != parts[0].folder
    assert not (tmp_path / "set.pst").exists()
    complete(sink, parts)
    assert list(ps.Dataset(tmp_path / "set.pst")["number"]) == [1, 2, 3]
    with pytest.raises(FileNotFoundError, match="the write has ended"):
        sink.write([block_of(number=[1, 2])], ctx(0))
    assert os.listdir(tmp_path) == ["set.pst"]


def test_order_is_that_of_tasks_not_of_their_ends(tmp_path):
    sink, ctx = sink_of(tmp_path)
    parts = [sink.write([block_of(number=[i, i])], ctx(i)) for i in (11, 2, 100)]
    complete(sink, parts)
    assert list(ps.Dataset(tmp_path / "set.pst")["number"]) == [2, 2, 11, 11, 100, 100]


@pytest.mark.parametrize("fault", ["twice", "lost", "shorter", "folder"])
def test_parts_that_do_not_fit_are_refused(tmp_path, fault):
    sink, ctx = sink_of(tmp_path)
    parts = [sink.write([block_of(number=[i, i])], ctx(i)) for i in range(3)]
    if fault == "twice":
        parts.append(sink.write([block_of(number=[1, 1])], ctx(1)))
    elif fault == "shorter":
        parts[1] = parts[1]._replace(n_samples=1)
    elif fault == "folder":
        shutil.rmtree(Path(sink._staging) / parts[1].folder)
    with pytest.raises(FileNotFoundError if fault == "folder" else ps.errors.StateError):
        complete(sink, parts[:2] if fault == "lost" else parts, 6 if fault == "lost" else None)
    assert os.listdir(tmp_path) == []


def test_nothing_is_left_of_a_write_that_failed(tmp_path):
    rows = ray.data.from_items([{"number": i} if i != 7 else {"number": None} for i in range(10)], override_num_blocks=3)
    with pytest.raises(Exception, match="number"):
        pst_ray.write(rows, tmp_path / "set.pst", {"number": "int"})
    assert os.listdir(tmp_path) == []


def test_a_name_that_comes_twice_is_refused(tmp_path):
    sink, ctx = sink_of(tmp_path)
    parts = [sink.write([block_of(name=["a"], number=[i])], ctx(i)) for i in range(2)]
    with pytest.raises(ps.PenstockError, match="already"):
        complete(sink, parts)
    assert os.listdir(tmp_path) == []


def test_names_of_some_rows_are_refused(tmp_path):
    sink, ctx = sink_of(tmp_path)
    parts = [sink.write([block_of(name=["a"], number=[1])], ctx(0)), sink.write([block_of(number=[2])], ctx(1))]
    with pytest.raises(ps.errors.ArgumentError, match="others have none"):
        complete(sink, parts)
    assert os.listdir(tmp_path) == []


def test_no_data_set_is_written_over(packed, tmp_path):
    """An existing data set is not overwritten, even if it was made while the tasks were running."""
    sink, ctx = sink_of(tmp_path)
    part = sink.write([block_of(number=[1])], ctx(0))
    with pytest.raises(FileExistsError):
        pst_ray.Sink(packed, {"number": "int"}).on_write_start()
    shutil.copytree(packed, tmp_path / "set.pst")
    with pytest.raises(FileExistsError):
        complete(sink, [part])
    assert len(ps.Dataset(tmp_path / "set.pst")) == N
    assert os.listdir(tmp_path) == ["set.pst"]


def test_text_that_is_no_json_is_refused(tmp_path):
    sink = pst_ray.Sink(tmp_path / "set.pst", {"more": "json"})
    sink.on_write_start()
    with pytest.raises(ps.errors.ArgumentError, match="'more': a str is text of JSON"):
        sink.write([block_of(more=["{"])], SimpleNamespace(task_idx=0))
    assert os.listdir(sink._staging) == []
    sink.on_write_failed(ValueError())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EXDEV, errno.EIO])
def test_a_rename_that_fails_is_told_as_what_it_is(tmp_path, monkeypatch, code):
    sink, ctx = sink_of(tmp_path)
    part = sink.write([block_of(number=[1])], ctx(0))

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match=os.strerror(code)) as raised:
        complete(sink, [part])
    assert raised.value.errno == code and not isinstance(raised.value, FileExistsError)
    assert os.listdir(tmp_path) == []


# Packing and checking --------------------------------------------------------------------------------

SMALL = {"forms": ["original"], "shard_size": "2KiB"}


@pytest.fixture
def folder(tmp_path):
    for i in range(30):
        path = tmp_path / "folder" / "ab"[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sample(i)["image"])
    return tmp_path / "folder"


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_tasks_pack_the_bytes_of_one_machine(folder, tmp_path):
    ps.pack(folder, tmp_path / "one.pst", **SMALL)
    assert len(bytes_of(tmp_path / "one.pst")) > 3
    assert pst_ray.pack(folder, tmp_path / "ray.pst", parts=3, **SMALL).n_samples == 30
    assert bytes_of(tmp_path / "ray.pst") == bytes_of(tmp_path / "one.pst")
    ps.pack(tmp_path / "one.pst", tmp_path / "raw.pst", forms=["raw"], shard_size="2KiB")
    pst_ray.repack(tmp_path / "one.pst", tmp_path / "ray_raw.pst", forms=["raw"], shard_size="2KiB")
    assert bytes_of(tmp_path / "ray_raw.pst") == bytes_of(tmp_path / "raw.pst")


@pytest.mark.parametrize("parts", [1, 4, 100, None])
def test_tasks_find_what_one_machine_finds(folder, tmp_path, parts):
    ps.pack(folder, tmp_path / "one.pst", **SMALL)
    whole = ps.verify(tmp_path / "one.pst", decode=True)
    found = pst_ray.verify(tmp_path / "one.pst", parts=parts, decode=True)
    assert found[:6] == whole[:6] and found.ok and found.n_samples == found.n_samples_total == 30
    shard = sorted((tmp_path / "one.pst").glob("shard-*.pst"))[1]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.chmod(0o600)
    shard.write_bytes(data)
    whole = ps.verify(tmp_path / "one.pst")
    found = pst_ray.verify(tmp_path / "one.pst", parts=parts)
    assert not found.ok and found[1:5] == whole[1:5] and len(found.findings) == len(whole.findings) > 0
    assert sorted(map(repr, found.findings)) == sorted(map(repr, whole.findings))


def test_a_folder_is_checked_by_tasks(folder):
    (folder / "a" / "000.png").write_bytes(b"no image")
    found = pst_ray.verify(folder, parts=3)
    assert (found.n_samples, found.n_bad, [finding["name"] for finding in found.findings]) == (30, 1, ["a/000.png"])


def test_a_fault_is_told_of_the_fields_that_labels_bring(folder, tmp_path, monkeypatch):
    """The error uses the field names of the data set as it was opened for the check."""
    from penstock.engines import ray_tasks

    lines = [json.dumps({"file": f"{'ab'[i % 2]}/{i:03d}.png", "caption": f"number {i}"}) for i in range(30)]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines))
    options = {"labels": tmp_path / "labels.jsonl"}
    i = list(ps.Dataset(folder, **options).fields).index("caption")
    report = ps.verify(folder, part=(1, 1), **options)._replace(unreached_items=1 << i)
    monkeypatch.setattr(ray_tasks, "_run", lambda *_: [report])
    found = pst_ray.verify(folder, **options)
    assert not found.ok and "largest item of field caption" in found.findings[0]["text"]
    with pytest.raises(ps.errors.StateError, match="more fields than"):
        joined([report._replace(unreached_items=1 << 40)], lambda: ["image", "caption"])


def test_tasks_make_the_index_of_one_machine(folder, tmp_path):
    (tmp_path / "tars").mkdir()
    for i in range(4):
        with tarfile.open(tmp_path / "tars" / f"{i}.tar", "w") as tar:
            for path in sorted((folder / "a").iterdir())[i::4]:
                tar.add(path, path.name)
    ps.index(tmp_path / "tars", sums=True)
    [index] = (tmp_path / "tars" / ".penstock").iterdir()
    wanted = index.read_bytes()
    index.unlink()
    report = pst_ray.index(tmp_path / "tars", parts=3, sums=True)
    assert report.was_made and (report.n_samples, report.n_files) == (15, 4)
    assert bytes_of(tmp_path / "tars" / ".penstock") == {index.name: wanted}
    assert not pst_ray.index(tmp_path / "tars", sums=True).was_made


def test_reports_that_do_not_belong_together_are_refused(folder):
    parts = [ps.verify(folder, part=(i + 1, 3)) for i in range(3)]
    assert joined(parts, list).ok
    with pytest.raises(ps.errors.StateError, match="changed between the parts"):
        joined([parts[0], parts[1]._replace(identity=b"another identity"), parts[2]], list)
    with pytest.raises(ps.errors.StateError, match="the data set has 30"):
        joined([parts[0], parts[0]], list)
    faulty = joined([part._replace(unreached_items=2) for part in parts], lambda: ["label", "image"])
    assert not faulty.ok and "largest item of field image" in faulty.findings[0]["text"]
    assert joined([parts[0]._replace(unreached_items=2), parts[1]._replace(unreached_pixels=2), *parts[2:]], list).ok
    with pytest.raises(ps.errors.ArgumentError, match="part 4 of 3"):
        ps.verify(folder, part=(4, 3))


def test_without_ray_the_words_say_what_to_install():
    code = """
        import sys
        sys.modules["ray"] = None
        import penstock
        assert "ray" not in [name for name in sys.modules if sys.modules[name] is not None]
        try:
            import penstock.ray
        except ImportError as error:
            assert "pip install 'penstock[ray]'" in str(error), error
        else:
            raise AssertionError
        """
    import textwrap

    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_a_program_need_not_start_ray(folder, tmp_path):
    """The first call of a program starts Ray, or joins the cluster of RAY_ADDRESS, as remote functions do."""
    ray.shutdown()
    assert pst_ray.pack(folder, tmp_path / "ray.pst", **SMALL).n_samples == 30
    ray.shutdown()
    assert pst_ray.verify(tmp_path / "ray.pst").ok and ray.is_initialized()
