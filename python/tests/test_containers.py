"""Tars as data sets: they have the samples of the folder that they were made of, and work with the same functions."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import N, host_service


def _tars(folder: Path, target: Path, each: int = 10, word: str = "train") -> Path:
    """Makes tars of the images in class folders, in the folder's order. Each image has its class beside it."""
    target.mkdir(exist_ok=True)
    dataset = ps.Dataset(folder)
    for start in range(0, len(dataset), each):
        with tarfile.open(target / f"{word}-{start:04d}.tar", "w") as tar:
            for i in range(start, min(start + each, len(dataset))):
                path = folder / dataset.name(i)
                tar.add(path, f"{i:06d}{path.suffix}")
                label = target / "label"
                label.write_text(str(dataset["label"][i]))
                tar.add(label, f"{i:06d}.cls")
                label.unlink()
    return target


@pytest.fixture
def tars(folder: Path, tmp_path: Path) -> Path:
    return _tars(Path(folder), tmp_path / "tars")


def test_samples_are_those_of_the_folder(folder: Path, tars: Path) -> None:
    one, other = ps.Dataset(folder), ps.Dataset(tars)
    assert (other.kind, other.is_packed, other.is_folder, len(other)) == ("tar", False, False, N)
    for i in range(N):
        assert np.array_equal(one[i]["image"], other[i]["image"]) and one[i]["label"] == other[i]["label"]


def test_paths_of_all_kinds(tars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(tars.glob("*.tar"))
    assert len(ps.Dataset(paths)) == N
    assert len(ps.Dataset(paths[0])) == 10
    assert len(ps.Dataset(str(tars / "train-00{00..10..10}.tar"))) == 20
    monkeypatch.chdir(tars)
    listed = ps.Dataset([path.name for path in paths[:2]])
    monkeypatch.chdir("/")
    assert len(pickle.loads(pickle.dumps(listed))) == 20
    with pytest.raises(ps.errors.ArgumentError, match="::"):
        ps.Dataset(["a::b.tar", "c.tar"])


def test_fields(tars: Path) -> None:
    dataset = ps.Dataset(tars, fields={"cls": ("kind", "int", 3)})
    assert dataset.fields["kind"].n_classes == 3
    again = pickle.loads(pickle.dumps(dataset))
    assert list(again.fields) == list(dataset.fields) and again.bytes_identity == dataset.bytes_identity
    assert list(ps.Dataset(tars, fields={"cls": None}).fields) == ["image"]
    with pytest.raises(ps.errors.ArgumentError, match="did you mean 'int'"):
        ps.Dataset(tars, fields={"cls": ("kind", "inte")})


def test_split(folder: Path, tars: Path) -> None:
    _tars(Path(folder), tars, each=N, word="val")
    with pytest.raises(ps.errors.PenstockError, match="val"):
        ps.Dataset(tars)
    dataset = ps.Dataset(tars, split="val")
    assert len(dataset) == N and len(pickle.loads(pickle.dumps(dataset))) == N
    assert dataset.bytes_identity != ps.Dataset(tars, split="train").bytes_identity


def test_loader(folder: Path, tars: Path) -> None:
    kwargs = {"batch_size": 4, "shuffle": True, "seed": 3}
    with ps.Loader(folder, **kwargs) as one, ps.Loader(tars, **kwargs) as other:
        for a, b in zip(one, other, strict=True):
            assert np.array_equal(a["index"], b["index"]) and np.array_equal(a["label"], b["label"])


def test_nothing_is_written_into_them(tars: Path, folder: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tars.glob("*.tar")}
    ps.pack(tars, tmp_path / "packed.pst")
    assert ps.verify(tars).ok and ps.verify(tmp_path / "packed.pst").ok
    for change in (lambda: ps.pack(folder, tars, append=True), lambda: ps.repack(tars, forms=["raw"])):
        with pytest.raises(ps.errors.PenstockError, match="others made"):
            change()
    assert before == {path: path.read_bytes() for path in tars.glob("*.tar")}
    assert ps.Dataset(tars).samples_identity != "" and len(ps.Dataset(tmp_path / "packed.pst")) == N


def test_state_goes_on_with_what_was_packed(tars: Path, tmp_path: Path) -> None:
    ps.pack(tars, tmp_path / "packed.pst")
    kwargs = {"batch_size": 4, "shuffle": True, "seed": 5}
    with ps.Loader(tars, **kwargs) as whole:
        wanted = [batch["index"].tolist() for batch in whole]
    with ps.Loader(tars, **kwargs) as first:
        batches = iter(first)
        got = [next(batches)["index"].tolist() for _ in range(2)]
        state = first.state_dict()
    with ps.Loader(tmp_path / "packed.pst", **kwargs) as second:
        second.load_state_dict(state)
        assert got + [batch["index"].tolist() for batch in second] == wanted


def test_ranks_share_the_samples(tars: Path) -> None:
    seen: list[int] = []
    for rank in range(2):
        with ps.Loader(tars, batch_size=4, shuffle=True, rank=rank, world_size=2) as loader:
            seen += [i for batch in loader for i in batch["index"].tolist()]
    assert sorted(set(seen)) == list(range(N))


def test_cache_gives_the_same(tars: Path) -> None:
    with ps.Loader(tars, batch_size=4, cache="64MiB") as loader:
        one, other = ([batch["image"] for batch in loader] for _ in range(2))
        assert loader.stats()["cache"]["hits"] > 0
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_torch_workers_open_it_again(tars: Path) -> None:
    torch = pytest.importorskip("torch")
    dataset = ps.TorchDataset(ps.Dataset(tars, fields={"cls": ("kind", "int")}), transforms=[ps.transforms.Resize((8, 8))])
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert len(list(loader)) == N


def test_the_host_service_reads_them(tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service gets descriptors of the folder and the index from the client. Its batches equal those of a loader without it."""
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "s.sock"))
    kwargs = {"batch_size": 4, "shuffle": True, "seed": 3}
    with host_service(tmp_path / "s.sock"), ps.Loader(tars, **kwargs) as alone, ps.Loader(tars, **kwargs, cache="host") as hosted:
        for _ in range(2):
            for a, b in zip(alone, hosted, strict=True):
                assert np.array_equal(a["index"], b["index"])
                assert all(np.array_equal(x, y) for x, y in zip(a["image"], b["image"], strict=True))
        assert hosted.stats()["cache"]["hits"] > 0


def test_checksums_come_with_an_epoch(tars: Path, tmp_path: Path) -> None:
    """The first loader's items had no checksums when it was made, so they are counted as missing and not saved. The second loader's
    items have checksums.
    """
    cache = ps.Cache("64MiB")
    for n_unchecked, n_saved in ((N, 0), (0, N)):
        with ps.Loader(tars, batch_size=4, cache=cache) as loader:
            for _ in loader:
                pass
            assert loader.stats()["storage"]["unchecked"] == n_unchecked
        report = cache.save(tmp_path / "items.cache")
        assert (report.items, report.unsaved) == (n_saved, N)
