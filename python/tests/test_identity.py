"""What counts as the same data set: identities, pickles and states, paths that lead elsewhere later, replaced files."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError, CorruptError, StateError

PROGRAM = Path(sysconfig.get_path("scripts")) / "penstock"


def write(folder: Path, numbers: range, form: str = "png", start: int = 0) -> Path:
    """Writes pictures with these numbers, in two classes. Another `start` gives other pixels under the same names."""
    for i in numbers:
        path = folder / "ab"[i % 2] / f"{i:03d}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(start + i, 24 + i % 3, 32), form))
    return folder


def identities(path: Path) -> tuple[str, str]:
    with ps.Dataset(path) as dataset:
        return dataset.bytes_identity, dataset.samples_identity


def loader_of(path, **options) -> ps.Loader:
    given = {"batch_size": 3, "shuffle": True, "seed": 5, "output": "numpy", "num_workers": 1, "cache": None, **options}
    return ps.Loader(path, **keywords(**given))


# Identities -------------------------------------------------------------------------------------------


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "files", range(12))
    for name, workers in (("one.pst", 1), ("two.pst", 4)):
        ps.pack(tmp_path / "files", tmp_path / name, forms=["pli", "original"], num_workers=workers, shard_size="4KiB")
    names = sorted(path.name for path in (tmp_path / "one.pst").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two.pst").iterdir()) and len(names) > 3
    for name in names:
        assert (tmp_path / "one.pst" / name).read_bytes() == (tmp_path / "two.pst" / name).read_bytes(), name
    assert identities(tmp_path / "one.pst") == identities(tmp_path / "two.pst")


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_samples_are_the_same_in_all_forms(tmp_path: Path, form: str) -> None:
    folder = write(tmp_path / "files", range(9), form)
    of_samples = identities(folder)[1]
    ps.pack(folder, tmp_path / "packed.pst")
    ps.pack(tmp_path / "packed.pst", tmp_path / "again.pst", forms=["original", "raw"])
    shutil.copytree(folder, tmp_path / "elsewhere")
    found = [identities(tmp_path / name) for name in ("packed.pst", "again.pst", "elsewhere")]
    assert [samples for _, samples in found] == [of_samples] * 3
    assert len({of_bytes for of_bytes, _ in found}) == 3
    before = identities(tmp_path / "packed.pst")
    subprocess.run([PROGRAM, "repack", tmp_path / "packed.pst", "--form", "pli", "--of-lossy", "--quiet"], check=True)
    after = identities(tmp_path / "packed.pst")
    assert after[1] == of_samples and after[0] != before[0]


def test_labels_names_and_order_are_part_of_the_samples(tmp_path: Path) -> None:
    folder = write(tmp_path / "files", range(4))
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    seen = set()
    for rows in (names, names[1:], names[:3]):
        for score in ("0.5", "0.25"):
            (tmp_path / "labels.csv").write_text("file,score\n" + "".join(f"{name},{score}\n" for name in rows))
            labelled = ps.Dataset(folder, labels=tmp_path / "labels.csv")
            ps.pack(folder, tmp_path / "packed.pst", labels=tmp_path / "labels.csv")
            assert identities(tmp_path / "packed.pst")[1] == labelled.samples_identity
            shutil.rmtree(tmp_path / "packed.pst")
            seen.add(labelled.samples_identity)
    assert len(seen) == 6
    os.rename(folder / names[0], folder / "a" / "renamed.png")
    assert ps.Dataset(folder).samples_identity not in seen


def test_an_append_makes_another_data_set(tmp_path: Path) -> None:
    ps.pack(write(tmp_path / "files", range(4)), tmp_path / "a.pst")
    before = identities(tmp_path / "a.pst")
    shutil.copytree(tmp_path / "a.pst", tmp_path / "b.pst")
    assert identities(tmp_path / "b.pst") == before
    for name, start in (("a", 0), ("b", 50)):  # the names and labels are equal, the pixels are not
        ps.pack(write(tmp_path / f"more-{name}", range(4, 6), start=start), tmp_path / f"{name}.pst", append=True)
    a, b = (identities(tmp_path / f"{name}.pst") for name in "ab")
    assert a[0] != b[0] != before[0] != a[0] and a[1] == b[1] != before[1]


# Paths ------------------------------------------------------------------------------------------------


def test_paths_mean_what_they_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, start in ((tmp_path / "one", 0), (tmp_path / "two", 40)):
        ps.pack(write(place / "files", range(9), start=start), place / "train.pst")
        (place / "labels.csv").write_text("file,score\na/000.png,1\nb/001.png,2\n")
    (tmp_path / "link").symlink_to("one")
    monkeypatch.chdir(tmp_path / "one")
    made = {
        "files": loader_of("files"), "packed": loader_of("train.pst"), "linked": loader_of("../link/train.pst"),
        "labels": loader_of(ps.Dataset("files", labels="labels.csv")),
    }  # fmt: skip
    wanted = {name: [batch["image"][0].copy() for batch in loader_of(loader.dataset)] for name, loader in made.items()}
    monkeypatch.chdir(tmp_path / "two")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    for name, loader in made.items():
        assert loader.dataset.path.startswith(str(tmp_path / "one")), name
        for other in (pickle.loads(pickle.dumps(loader)), loader):
            for want, batch in zip(wanted[name], other, strict=True):
                np.testing.assert_array_equal(batch["image"][0], want)


def test_a_data_set_that_was_moved_away_is_read_on(tmp_path: Path) -> None:
    """Another data set lies at its path by now. Its shards had not been opened before the move."""
    for name, start in (("one", 0), ("two", 40)):
        ps.pack(write(tmp_path / name, range(9), start=start), tmp_path / f"{name}.pst", shard_size="4KiB")
    loader, wanted = loader_of(tmp_path / "one.pst", verify=False), list(loader_of(tmp_path / "one.pst"))
    os.rename(tmp_path / "one.pst", tmp_path / "old.pst")
    os.rename(tmp_path / "two.pst", tmp_path / "one.pst")
    for want, batch in zip(wanted, loader, strict=True):
        np.testing.assert_array_equal(want["index"], batch["index"])
        for a, b in zip(want["image"], batch["image"], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["files", "train.pst"])
@pytest.mark.parametrize("how", ["view", "loader", "spawn"])
def test_another_data_set_at_the_path_is_no_copy(tmp_path: Path, kind: str, how: str) -> None:
    ps.pack(write(tmp_path / "files", range(6)), tmp_path / "train.pst")
    path = tmp_path / kind
    made = ps.Dataset(path).subset([1, 2]) if how == "view" else loader_of(path)
    data = pickle.dumps(made)
    assert len(pickle.loads(data)) == len(made)
    shutil.rmtree(path)
    if kind == "files":
        write(path, range(6))  # names, sizes and pixels are equal, but the files are others, so other things may have changed, too
    else:
        ps.pack(write(tmp_path / "others", range(6), start=9), path)
    if how == "spawn":
        code = "import pickle, sys; pickle.load(sys.stdin.buffer)"
        ended = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
        assert ended.returncode != 0 and b"StateError" in ended.stderr
        return
    with pytest.raises(StateError, match="another data set, or a changed one"):
        pickle.loads(data)


def test_pickles_of_a_folder_go_to_other_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "files", range(6))
    (tmp_path / "labels.jsonl").write_text('{"file": "a/000.png", "boxes": [[0, 0, 1, 1]]}\n')
    data = [pickle.dumps(ps.Dataset(folder)), pickle.dumps(ps.Dataset(folder, labels=tmp_path / "labels.jsonl"))]
    monkeypatch.setattr("penstock.base.options.boot", lambda: "another run of a machine")
    shutil.rmtree(folder)
    write(folder, range(6))
    assert [len(pickle.loads(each)) for each in data] == [6, 1]
    (tmp_path / "labels.jsonl").write_text('{"file": "a/000.png", "boxes": [[0, 0, 1, 2]]}\n')
    with pytest.raises(StateError, match="another data set"):
        pickle.loads(data[1])


# Files that were replaced -----------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["threads", "auto", "memory"])
def test_a_replaced_file_is_noticed(tmp_path: Path, storage: str) -> None:
    """The replacement has the same size and modification time."""
    folder = write(tmp_path / "files", range(6))
    dataset, loader = ps.Dataset(folder), loader_of(folder, storage=storage, shuffle=False)
    path = folder / "a" / "002.png"
    was, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    place = dataset.index_of("a/002.png")
    with pytest.raises(CorruptError, match="replaced or changed") as caught:
        dataset[place]
    assert caught.value.file == str(path)
    if storage == "memory":  # its bytes were read when the loader was made
        assert len(list(loader)) == len(loader)
        with pytest.raises(CorruptError, match="replaced or changed"):
            loader_of(dataset, storage=storage)
    else:
        with pytest.raises(CorruptError, match="replaced or changed"):
            list(loader)
    with loader_of(dataset, storage=storage, shuffle=False, on_error="skip") as skipping:
        assert place not in [int(i) for batch in skipping for i in batch["index"]]
        assert [entry["name"] for entry in skipping.quarantine] == ["a/002.png"]
    assert len(list(loader_of(folder, storage=storage))) == 2  # opened again, it is a different data set


# States -----------------------------------------------------------------------------------------------


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """A folder, data sets packed from it, and another folder with the same names and labels but other files."""
    folder = write(tmp_path / "files", range(9), "jpeg")
    ps.pack(folder, tmp_path / "packed.pst")
    ps.pack(folder, tmp_path / "pixels.pst", forms=["raw"])
    ps.pack(write(tmp_path / "others", range(9), "jpeg", start=70), tmp_path / "others.pst")
    write(tmp_path / "names", range(1, 10), "jpeg")
    return tmp_path


def state_of(path: Path, **options) -> dict:
    with loader_of(path, **options) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        return loader.state_dict()


def test_a_state_goes_on_with_each_form(sets: Path) -> None:
    forms = [sets / name for name in ("files", "packed.pst", "pixels.pst")]
    wanted = [batch["index"].tolist() for batch in loader_of(sets / "files")][2:]
    for path in forms:
        state = state_of(path)
        for other in forms:
            loader = loader_of(other, batch_size=2)
            loader.load_state_dict(state, strict=True)
            assert [i for batch in loader for i in batch["index"].tolist()] == sum(wanted, [])


def test_states_of_other_samples_are_refused(sets: Path) -> None:
    of_names = ps.Dataset(sets / "names").samples_identity
    mine = ps.Dataset(sets / "files").samples_identity
    with pytest.raises(ArgumentError, match=f"another data set.*{of_names}.*{mine}"):
        loader_of(sets / "files").load_state_dict(state_of(sets / "names"))
    for mine, other in (("files", "others"), ("files", "others.pst"), ("packed.pst", "others"), ("packed.pst", "others.pst")):
        with pytest.raises(ArgumentError, match="same names and labels.*their lengths differ"):
            loader_of(sets / mine).load_state_dict(state_of(sets / other))


def test_states_of_other_operations_warn(sets: Path) -> None:
    chain = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]
    state = state_of(sets / "files", transforms=chain)
    loader_of(sets / "packed.pst", transforms=tuple(chain)).load_state_dict(state, strict=True)
    for other in (chain[:1], [T.RandomResizedCrop(17), chain[1]], None):
        loader = loader_of(sets / "files", transforms=other)
        with pytest.warns(UserWarning, match="other transforms"):
            loader.load_state_dict(state)
        assert loader.state_dict()["position"] == 6
        with pytest.raises(ArgumentError, match="other transforms"):
            loader.load_state_dict(state, strict=True)


def test_states_of_older_versions_warn(sets: Path) -> None:
    state = {key: value for key, value in state_of(sets / "files").items() if key not in ("identity", "files", "transforms")}
    loader = loader_of(sets / "others")
    with pytest.warns(UserWarning, match="older Penstock"):
        loader.load_state_dict(state)
    assert loader.state_dict()["position"] == 6
    with pytest.raises(ArgumentError, match="older Penstock"):
        loader.load_state_dict(state, strict=True)


def test_the_end_of_an_epoch_is_the_next_one(sets: Path) -> None:
    loader = loader_of(sets / "files")
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 0)
    loader.set_epoch(1)
    wanted = [batch["index"].tolist() for batch in loader]
    for place in ({}, {"epoch": 0, "position": 9}):
        loader = loader_of(sets / "files")
        loader.load_state_dict({**state, **place})
        assert loader.epoch == 1 and [batch["index"].tolist() for batch in loader] == wanted


def test_a_state_after_the_data_set_or_the_loader_was_closed(sets: Path) -> None:
    dataset = ps.Dataset(sets / "files")
    loader = loader_of(dataset)
    dataset.close()
    before = loader.state_dict()
    loader.close()
    assert loader.state_dict() == before and before["identity"] == ps.Dataset(sets / "files").samples_identity


# Replay and forms -------------------------------------------------------------------------------------


def test_replay_knows_its_rank_before_the_first_pass(sets: Path) -> None:
    def make() -> ps.Loader:
        return loader_of(sets / "files", rank=1, world_size=2, shuffle=True)

    ran = make()
    wanted = [batch["index"].tolist() for batch in ran]
    state = ran.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    for loader in (ran, resumed, make(), pickle.loads(pickle.dumps(ran))):
        for step, want in enumerate(wanted):
            assert loader.replay(step, 0)["index"].tolist() == want


def test_forms_that_would_change_the_batches_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "files", range(6), "jpeg")
    ps.pack(folder, tmp_path / "d.pst", forms=["pli-jpeg", "original"])
    forms = {"jpeg": 0.5, "pli-jpeg": 0.5}
    for options in ({"encoded": ["image"]}, {"scaled_decode": True}, {"scaled_decode": {"image": True}}):
        for choice in ("batch", "measured"):
            with pytest.raises(ArgumentError, match="from form to form|for other forms"):
                loader_of(tmp_path / "d.pst", forms=forms, form_choice=choice, transforms=None, **options)
    with loader_of(tmp_path / "d.pst", forms=forms, form_choice="sample", encoded=["image"]) as loader:
        first, second = ([bytes(image) for batch in loader for image in batch["image"]] for _ in range(2))
        assert sorted(first) == sorted(second)  # each sample has only one form
