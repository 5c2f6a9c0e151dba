"""A table of each kind works like any data set: loaders, caches, states, packing, verbs, and files that change meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import penstock as ps
from conftest import PROGRAM, needs_highs
from penstock.cli import main

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"


class Kind(NamedTuple):
    """A data set of files in tests/golden/containers: the files, the field of images, and the rules and arguments to open it."""

    files: tuple[str, ...]
    image: str
    rules: dict[str, Any] | None = None
    words: tuple[str, ...] = ()


KINDS = {
    "parquet": Kind(("parquet/datasets.parquet",), "image", {"views_0": None, "views_1": None},
                    ("--members", "views_0=-,views_1=-")),
    "arrow": Kind(("arrow/saved/data-00000-of-00002.arrow", "arrow/saved/data-00001-of-00002.arrow", "arrow/saved/state.json",
                   "arrow/saved/dataset_info.json"), "image"),
    "mds": Kind(("mds/all/index.json", "mds/all/shard.00000.mds", "mds/all/shard.00001.mds"), "jpg",
                {"sf": None, "f16": None, "f32": None}, ("--members", "sf=-,f16=-,f32=-")),  # unpack cannot express NaN
    "tfrecord": Kind(("tfrecord/imagenet-00000-of-00002.tfrecord", "tfrecord/imagenet-00001-of-00002.tfrecord"), "image_encoded"),
    "tfds": Kind(("tfrecord/tfds/features.json", "tfrecord/tfds/dataset_info.json",
                  "tfrecord/tfds/probe-train.tfrecord-00000-of-00001"), "image", {"packed": None, "mask": None},
                 ("--members", "packed=-,mask=-")),
    "lmdb": Kind(("lmdb/datum_images.mdb",), "image"),
    "recordio": Kind(("recordio/whole.rec",), "image"),
    "beton": Kind(("beton/jpegs.beton",), "image"),
}
DATA = {".json", ".idx"}  # what lies beside


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def table(kind: Kind, tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    folder.mkdir()
    for name in kind.files:
        shutil.copyfile(GOLDEN / name, folder / Path(name).name)
    return folder


def opened(kind: Kind, path: Any) -> ps.Dataset:
    return ps.Dataset(path, fields=kind.rules)


def shards(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix not in DATA]


def plain(kind: Kind, ds: ps.Dataset, folder: Path) -> ps.Dataset:
    """The same images as single files, in the same order."""
    folder.mkdir()
    for i in range(len(ds)):
        data = ds.read(i, kind.image)
        (folder / f"{i:03d}").with_suffix(".png" if data.startswith(b"\x89PNG") else ".jpg").write_bytes(data)
    return ps.Dataset(folder, ignore_labels=True)


def loader_of(ds: ps.Dataset | Path, field: str, **options: Any) -> ps.Loader:
    given = {"batch_size": 3, "shuffle": True, "seed": 5, "output": "numpy", "num_workers": 1, "cache": None, "fields": [field],
             **options}
    return ps.Loader(ds, **given)


def batches_of(loader: ps.Loader, field: str) -> list[tuple[list[int], list[Any]]]:
    return [(batch["index"].tolist(), [np.array(image) for image in batch[field]]) for batch in loader]


def assert_equal(a: list[tuple[list[int], list[Any]]], b: list[tuple[list[int], list[Any]]]) -> None:
    assert [index for index, _ in a] == [index for index, _ in b]
    for (_, one), (_, other) in zip(a, b, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def test_loader(kind: Kind, table: Path, tmp_path: Path) -> None:
    """Pixels equal those of the same bytes in a folder: with threads, without threads, and from a cache."""
    ds = opened(kind, table)
    files = plain(kind, ds, tmp_path / "plain")
    with loader_of(files, "image") as loader:
        wanted = [batches_of(loader, "image") for _ in range(2)]
    assert wanted[0] != [] and [index for index, _ in wanted[0]] != [index for index, _ in wanted[1]]
    for options in ({}, {"num_workers": 0}, {"cache": ps.Cache("64MiB")}):
        with loader_of(ds, kind.image, **options) as loader:
            for epoch in wanted:
                assert_equal(batches_of(loader, kind.image), epoch)
            if "cache" in options:
                assert loader.stats()["cache"]["hits"] >= len(ds)


def test_a_state_goes_on_with_what_was_packed(kind: Kind, table: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pst"
    with opened(kind, table) as ds:
        ps.pack(table, packed, fields=kind.rules)
        with ps.Dataset(packed) as other:
            assert other.samples_identity == ds.samples_identity
            assert [other.name(i) for i in range(len(other))] == [ds.name(i) for i in range(len(ds))]
        with loader_of(ds, kind.image) as loader:
            wanted = batches_of(loader, kind.image)
            rest = iter(loader)
            next(rest)
            state = loader.state_dict()
        with loader_of(ds, kind.image) as loader:
            next(iter(loader))
            early = loader.state_dict()
    with loader_of(packed, kind.image) as loader:
        loader.load_state_dict(early)
        assert_equal(batches_of(loader, kind.image), wanted[1:])
        loader.load_state_dict(state)
        assert len(batches_of(loader, kind.image)) == len(wanted) - 1


def test_two_files(kind: Kind, table: Path, tmp_path: Path) -> None:
    """Several files of one kind form one data set, in the order in which they are named."""
    first = shards(table)[0]
    other = tmp_path / "other" / first.name.replace("0000", "0009").replace("datasets", "x").replace("whole", "x")
    other.parent.mkdir()
    if other.name == first.name:
        other = other.with_name("x" + first.suffix)
    shutil.copyfile(first, other)
    for path in table.iterdir():
        if path.suffix in DATA and path.name == "features.json":
            shutil.copyfile(path, other.parent / path.name)
    with opened(kind, first) as one, opened(kind, [first, other]) as both:
        n = len(one)
        assert len(both) == 2 * n
        for i in (0, n - 1):
            assert both.read(i, kind.image) == both.read(n + i, kind.image) == one.read(i, kind.image)
            assert both.name(i) == one.name(i)
            assert (both.name(n + i) == one.name(i)) == (first.suffix == ".mdb")  # the keys are the names


def test_a_replaced_file_is_noticed(kind: Kind, table: Path) -> None:
    """The new file has the same size and modification time. It replaces the old file while the data set is open, before its first
    read.
    """
    path = shards(table)[-1]
    with opened(kind, table) as first:
        last = len(first) - 1
    ds = opened(kind, table)
    was, data = path.stat(), path.read_bytes()
    copy = path.with_name("copy")
    copy.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(copy, ns=(was.st_atime_ns, was.st_mtime_ns))
    copy.rename(path)
    with pytest.raises(ps.errors.CorruptError, match="replaced or changed") as caught:
        ds.read(last, kind.image)
    assert path.name in str(caught.value)
    with loader_of(ds, kind.image) as loader, pytest.raises(ps.errors.CorruptError, match="replaced or changed") as caught:
        list(loader)
    assert path.name in str(caught.value)
    try:
        fresh = opened(kind, table)  # the index is made anew: the last byte may be damage that is told, or nothing that is read
    except ps.errors.PenstockError as error:
        assert str(table) in str(error)
    else:
        assert len(fresh) == last + 1


def test_a_file_that_is_cut(kind: Kind, table: Path) -> None:
    path = shards(table)[-1]
    ds = opened(kind, table)
    place = ds.item(len(ds) - 1, kind.image)
    os.truncate(path, place["offset"] + 1)
    with loader_of(ds, kind.image) as loader, pytest.raises(ps.errors.PenstockError) as caught:
        list(loader)
    said = str(caught.value)
    assert str(table) in said and path.name in said
    assert re.search(r"sample \d", said) and "the file changed" in said


def test_a_moved_folder_keeps_its_index(kind: Kind, table: Path) -> None:
    def index(folder: Path) -> dict[str, tuple[int, int, int]]:
        return {path.name: (path.stat().st_ino, path.stat().st_size, path.stat().st_mtime_ns)
                for path in (folder / ".penstock").rglob("*") if path.is_file() and path.suffix != ".lock"}

    with opened(kind, table) as ds:
        identity, was = ds.samples_identity, index(table)
    moved = table.rename(table.with_name("moved"))
    with opened(kind, moved) as ds:
        assert ds.samples_identity == identity and len(ds.read(0, kind.image)) > 0
    assert was != {} and index(moved) == was


@pytest.mark.parametrize(("name", "ends"), [("parquet/datasets.parquet", ("parq", "pq")),
                                            ("arrow/polars_zstd.arrow", ("arrows", "feather", "ipc")),
                                            ("arrow/numbers_old.arrow", ("arrows", "feather", "ipc"))])
def test_other_endings(name: str, ends: tuple[str, ...], tmp_path: Path) -> None:
    with ps.Dataset(shutil.copy(GOLDEN / name, tmp_path)) as ds:
        wanted = ds.samples_identity
    for end in ends:
        folder = tmp_path / end
        folder.mkdir()
        shutil.copyfile(GOLDEN / name, folder / f"{Path(name).stem}.{end}")
        for path in (folder, folder / f"{Path(name).stem}.{end}"):
            with ps.Dataset(path) as ds:
                assert ds.samples_identity == wanted


def test_hidden_labels(tmp_path: Path) -> None:
    """One of two files has labels of -1, so the field has no classes, in either order."""
    rows = {}
    for split in ("train", "test"):
        path = tmp_path / f"{split}.arrow"
        shutil.copyfile(GOLDEN / "arrow" / "dict" / split / "data-00000-of-00001.arrow", path)
        with ps.Dataset(path) as ds:
            rows[split] = [ds[i]["unsure"] for i in range(len(ds))]
            assert ds.class_names("unsure") == (None if -1 in rows[split] else ["no", "yes"])
            assert ds.class_names("label") == ["bird", "house", "tree"]
    assert -1 in rows["train"] and -1 not in rows["test"]
    for order in (("train", "test"), ("test", "train")):
        with ps.Dataset([tmp_path / f"{split}.arrow" for split in order]) as ds:
            assert ds.fields["unsure"].n_classes == 0 and ds.class_names("label") == ["bird", "house", "tree"]
            assert [ds[i]["unsure"] for i in range(len(ds))] == rows[order[0]] + rows[order[1]]


# Verbs


def run(*words: object, status: int = 0) -> str:
    done = subprocess.run([str(PROGRAM), *map(str, words)], capture_output=True, timeout=300, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == status, said
    return said


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def log_of(path: Path) -> str:
    """Opens a data set for the first time and returns the log. Removes the index afterwards."""
    code = "import sys, penstock as ps; ps.Dataset(sys.argv[1])"
    environment = {**os.environ, "PENSTOCK_LOG_LEVEL": "warning"}
    done = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True, env=environment)
    shutil.rmtree((path if path.is_dir() else path.parent) / ".penstock")
    return done.stderr


def test_an_index_of_mxnet_is_compared_with_its_file(tmp_path: Path):
    """A matching .idx causes no message. If it does not match, all records are read, and the log names both files."""
    rec, idx = tmp_path / "whole.rec", tmp_path / "whole.idx"
    shutil.copyfile(GOLDEN / "recordio/whole.rec", rec)
    assert log_of(rec) == ""
    identity = ps.Dataset(rec).samples_identity
    shutil.rmtree(tmp_path / ".penstock")
    good = (GOLDEN / "recordio/whole.idx").read_bytes()
    idx.write_bytes(good)
    assert log_of(rec) == ""
    lines = good.splitlines(keepends=True)
    for wrong, what in (((GOLDEN / "recordio/joined.idx").read_bytes(), "lie where no record begins"),
                        (b"".join(lines[:-1]), "1 records are not named"),
                        (good + b"7\t18446744073709551615\n", "1 offsets are 1844"),
                        (good + lines[0], "1 keys came before"), (b"\0" * 4096, "1 lines are no entries")):
        idx.write_bytes(wrong)
        said = log_of(rec)
        assert str(rec) in said and "whole.idx does not fit this file" in said and what in said
        assert ps.Dataset(rec).samples_identity == identity
        shutil.rmtree(tmp_path / ".penstock")
    with idx.open("wb") as file:
        file.truncate((256 << 20) + 1)
    assert "is not compared with it: the file has 268435457 bytes" in log_of(rec)
    idx.unlink()
    os.mkfifo(idx)
    assert "whole.idx, beside whole.rec, is not compared with it" in log_of(rec)
    idx.unlink()
    idx.symlink_to(tmp_path / "nowhere")
    assert log_of(rec) == ""
    ps.Dataset(rec)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / ".penstock").iterdir()}
    idx.unlink()
    idx.write_bytes(good)  # the .idx decides nothing: the saved index stays valid
    assert ps.Dataset(rec).samples_identity == identity
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / ".penstock").iterdir()} == made


def tfrecord2idx(path: Path) -> bytes:
    """Returns the index that DALI's tfrecord2idx writes for a file: offset and length of each record, including its header and
    checksums.
    """
    data, at, lines = path.read_bytes(), 0, []
    while at < len(data):
        nbytes = int.from_bytes(data[at:at + 8], "little") + 16
        lines.append(b"%d %d\n" % (at, nbytes))
        at += nbytes
    return b"".join(lines)


def test_an_index_of_tfrecord2idx_has_no_say(tmp_path: Path) -> None:
    """The index is ignored whatever it states: samples are those of the records, it is not taken for a shard, and nothing is
    logged.
    """
    names = [Path(name).name for name in KINDS["tfrecord"].files]
    for name in names:
        shutil.copyfile(GOLDEN / "tfrecord" / name, tmp_path / name)

    def contents_of(path: Any) -> tuple[Any, ...]:
        with ps.Dataset(path) as ds:
            return (ds.bytes_identity, ds.samples_identity, ds.notices,
                    [(ds.name(i), ds.read(i, "image_encoded"), ds[i]["image_class_label"]) for i in range(len(ds))])

    wanted = contents_of(tmp_path)
    shutil.rmtree(tmp_path / ".penstock")
    right = {name: tfrecord2idx(tmp_path / name) for name in names}
    assert sum(len(text.splitlines()) for text in right.values()) == len(wanted[-1])
    for stated in (right, {name: right[other] for name, other in zip(names, reversed(names), strict=True)},
                   {name: b"".join(reversed(text.splitlines(keepends=True))) for name, text in right.items()},
                   {name: text.splitlines(keepends=True)[0] for name, text in right.items()},
                   dict.fromkeys(names, b"0 18446744073709551615\n" * 9), dict.fromkeys(names, b""),
                   dict.fromkeys(names, b"\xff" * 64)):
        for name in names:
            for beside in (f"{name}.idx", f"{name}.index", Path(name).with_suffix(".idx").name):
                (tmp_path / beside).write_bytes(stated[name])
        assert log_of(tmp_path) == ""
        for path in (tmp_path, tmp_path / "*.tfrecord*", f"{tmp_path}/imagenet-{{00000..00001}}-of-00002.tfrecord"):
            assert contents_of(path) == wanted
        shutil.rmtree(tmp_path / ".penstock")
    # In DALI's examples the indexes have the names of the data files and lie in another folder. Such a file is not taken for a
    # shard, either.
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / names[0]).write_bytes(right[names[0]])
    assert contents_of(tmp_path) == wanted
    with pytest.raises(ps.errors.CorruptError, match=f"idx/{names[0]}.*no TFRecord file"):
        ps.Dataset(tmp_path / "idx")


def test_an_index_of_another_version_is_made_anew_without_a_word(tmp_path: Path) -> None:
    rec = tmp_path / "whole.rec"
    shutil.copyfile(GOLDEN / "recordio/whole.rec", rec)
    with ps.Dataset(rec) as ds:
        wanted = ds.bytes_identity, ds.samples_identity, [ds.name(i) for i in range(len(ds))]
    index = next((tmp_path / ".penstock").glob("*.index"))
    new = index.read_bytes()
    for major in (2, 99):
        index.write_bytes(new[:8] + major.to_bytes(2, "little") + new[10:])
        code = "import sys, penstock as ps; ps.Dataset(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", code, rec], check=True, capture_output=True, text=True,
                              env={**os.environ, "PENSTOCK_LOG_LEVEL": "warning"})
        assert done.stderr == "" and index.read_bytes() == new
    with ps.Dataset(rec) as ds:
        assert (ds.bytes_identity, ds.samples_identity, [ds.name(i) for i in range(len(ds))]) == wanted


def test_verbs(kind: Kind, table: Path, tmp_path: Path) -> None:
    before = contents(table)
    ds = opened(kind, table)
    assert f"{len(ds)} samples" in run("info", table, *kind.words)
    assert ds.name(len(ds) - 1) in run("ls", table, *kind.words)
    done = subprocess.run([str(PROGRAM), "cat", str(table), ds.name(0), "--field", kind.image, *kind.words], capture_output=True,
                          check=False)
    assert done.stdout == ds.read(0, kind.image), done.stderr
    run("verify", table, *kind.words)
    run("index", table, *kind.words, "--check")
    done = subprocess.run([str(PROGRAM), "unpack", str(table), str(tmp_path / "out"), *kind.words], capture_output=True,
                          text=True, check=False)
    assert done.returncode == ("NOT RESTORED" in done.stdout), done.stderr
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) >= len(ds)
    run("pack", table, tmp_path / "packed.pst", *kind.words)
    run("verify", tmp_path / "packed.pst")
    assert f"{len(ds)} samples" in run("info", tmp_path / "packed.pst")
    run("bench", table, "-b", "2", "-e", "1", "-w", "1", *kind.words)
    assert contents(table) == before


def test_nothing_is_written_into_them(kind: Kind, table: Path, tmp_path: Path) -> None:
    before = contents(table)
    images = tmp_path / "images" / "a"
    images.mkdir(parents=True)
    (images / "a.jpg").write_bytes(opened(kind, table).read(0, kind.image))
    for change in (lambda: ps.pack(images.parent, table, append=True), lambda: ps.repack(table, forms=["raw"])):
        with pytest.raises(ps.errors.PenstockError, match="others made.*pack"):
            change()
    for words in (("append", table, images.parent), ("repack", table, "--forms", "raw")):
        done = subprocess.run([str(PROGRAM), *map(str, words)], capture_output=True, check=False, text=True)
        assert done.returncode != 0 and "pack" in done.stderr
    assert contents(table) == before


def test_view(kind: Kind, table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status = main.main(["view", str(table), "0:2", *kind.words, "-o", str(tmp_path / "sheet.png")])
    assert status == 0, capfd.readouterr().err
    assert (tmp_path / "sheet.png").stat().st_size > 0


@pytest.mark.long
@needs_highs()
def test_analyze_and_plan(kind: Kind, table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, out = contents(table), tmp_path / "report.json"
    more = [*kind.words, "--budget", "2s", "--batch-size", "2"]
    status = main.main(["analyze", str(table), *more, "--forms", "raw", "--out", str(out)])
    assert status == 0, capfd.readouterr().err
    assert "cannot be opened" not in capfd.readouterr().out
    status = main.main(["plan", str(table), *more, "--cache", "0", "--no-layout"])
    assert status == 0, capfd.readouterr().err
    assert contents(table) == before
