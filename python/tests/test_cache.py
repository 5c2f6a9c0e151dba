"""Loaders with a cache: same batches, exact hits, sharing, forks, pickles, and what is refused."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

import penstock as ps


def epoch(loader: ps.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def make(source, **options) -> ps.Loader:
    from penstock import transforms as T

    return ps.Loader(source, batch_size=4, shuffle=True, seed=3, num_workers=2, output="numpy",
                     transforms=[T.RandomResizedCrop(32)], **options)


@pytest.mark.parametrize("kind", ["folder", "packed"])
def test_batches_are_the_same_and_hits_exact(kind, request):
    source = ps.Dataset(request.getfixturevalue(kind))
    with make(source) as plain, make(source, cache="64MiB") as cached:
        for number in range(3):
            for want, got in zip(epoch(plain), epoch(cached), strict=True):
                np.testing.assert_array_equal(got, want)
            use = cached.stats()["cache"]
            assert use["misses"] == len(source)
            assert use["hits"] == number * len(source)
            assert use["items"] == len(source)
            assert cached.stats()["storage"]["reads"] == len(source)
        assert use["limit"] == 64 << 20
        assert use["nbytes_hit"] == 2 * source._native.nbytes() or kind == "packed"
        unused = plain.stats()["cache"]
        assert unused.pop("choice").startswith("no cache: the page cache can hold the data set")
        assert unused == dict.fromkeys(unused, 0)


def test_auto(folder, monkeypatch, caplog):
    source, asked = ps.Dataset(folder), []

    def advise(nbytes: int) -> tuple[int, str]:
        asked.append(nbytes)
        return 8 << 20, "a cache of 8 MiB"

    monkeypatch.setattr("penstock._native.cache_advise", advise)
    caplog.set_level("INFO", "penstock")
    with make(source) as auto, make(source, cache=" AUTO ") as named, make(source, cache=None) as none:
        assert asked == [source._native.nbytes()] * 2
        for loader, limit in ((auto, 8 << 20), (named, 8 << 20), (none, 0)):
            epoch(loader)
            epoch(loader)
            use = loader.stats()["cache"]
            assert use["limit"] == limit
            assert use["hits"] == (len(source) if limit else 0)
            assert use["choice"] == ("a cache of 8 MiB" if limit else "")
        again = pickle.loads(pickle.dumps(auto))  # chooses by the memory of the place where it wakes up
        assert len(asked) == 3
        again.close()
    assert [record.message for record in caplog.records].count(f"{source.path}: a cache of 8 MiB") == 3
    with make(source, storage="memory") as loader:
        assert loader.stats()["cache"]["choice"] == "no cache: the storage is memory"
    monkeypatch.setattr("penstock._native.cache_advise", lambda nbytes: (1 << 62, "too much"))
    with make(source) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["limit"] == 0
        assert "this process may have" in loader.stats()["cache"]["choice"]


def test_a_part_of_the_data_set(folder):
    source = ps.Dataset(folder)
    total = sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names)
    with make(source, cache="100%") as loader:
        assert loader.stats()["cache"]["limit"] == max(1 << 20, total)
    for wrong in ("0%", "101%", "-3%", "x%", "nan%", "%"):
        with pytest.raises(ps.errors.ArgumentError, match="cache"):
            make(source, cache=wrong)


def test_loaders_share_a_cache(folder):
    source, cache = ps.Dataset(folder), ps.Cache("16MiB")
    assert cache.nbytes == 16 << 20
    with make(source, cache=cache) as first, make(ps.Dataset(folder), cache=cache) as second:
        epoch(first)
        epoch(second)
        assert second.stats()["cache"]["hits"] == len(source)
        assert second.stats()["storage"]["reads"] == 0
    use = cache.stats()
    assert use["items"] == len(source) and use["datasets"] == 1 and use["refused"] == 0
    assert "items" in repr(cache)
    with make(source, cache=cache) as third:  # what was kept outlives the loaders
        epoch(third)
        assert third.stats()["storage"]["reads"] == 0


def test_processes_have_caches_of_their_own(folder):
    cache = ps.Cache("16MiB")
    with make(folder, cache=cache) as loader:
        epoch(loader)
        again = pickle.loads(pickle.dumps(loader))
        assert again.stats()["cache"]["items"] == 0
        assert again.stats()["cache"]["limit"] == 16 << 20
        again.close()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                batches = epoch(loader)
                use = loader.stats()["cache"]
                code = 0 if len(batches) == 6 and use["items"] == 24 and use["hits"] == 0 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        epoch(loader)
        assert loader.stats()["cache"]["hits"] == 24


@pytest.mark.parametrize("wrong", [True, 0, -1, 1.5, "8 parsecs", "", [1], object()])
def test_what_a_cache_is_not(folder, wrong):
    with pytest.raises(ps.errors.ArgumentError, match="cache"):
        make(folder, cache=wrong)


def test_limits(folder):
    with pytest.raises(ps.errors.ArgumentError, match="1 MiB"):
        ps.Cache(1000)
    with pytest.raises(ps.errors.LimitError, match="bytes of memory"):
        ps.Cache("1000000TiB")
    with pytest.raises(ps.errors.ArgumentError, match="cache"):
        make(folder, cache="8MiB", storage="memory")


def test_torch_dataset_takes_a_cache(folder):
    pytest.importorskip("torch")
    dataset = ps.TorchDataset(folder, cache="8MiB")
    for _ in range(2):
        for i in range(len(dataset)):
            dataset[i]
    assert dataset._loader.stats()["storage"]["reads"] == len(dataset)
