"""Loaders with a cache: equal batches, exact hits, sharing, forks, pickles, and refused arguments."""

from __future__ import annotations

import os
import pickle
import resource
import stat
import time
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from flat import keywords


def epoch(loader: ps.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def make(source, **options) -> ps.Loader:
    from penstock import transforms as T

    return ps.Loader(source, **keywords(batch_size=4, shuffle=True, seed=3, num_workers=2, output="numpy",
                     transforms=[T.RandomResizedCrop(32)], **options))


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
        assert unused.pop("form") == unused.pop("resolution") == ""
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
        again = pickle.loads(pickle.dumps(auto))  # cache="auto" chooses its size by the memory of the machine where it is unpickled
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


def count_jpegs(folder) -> int:
    files = [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]
    return sum(Path(file).read_bytes()[:2] == b"\xff\xd8" for file in files)


@pytest.mark.parametrize("kind", ["folder", "jpegs"])
def test_recoded_jpegs_give_the_same_batches(kind, folder, tmp_path):
    path = folder
    if kind == "jpegs":
        path = tmp_path / "jpegs.pst"
        ps.pack(folder, path, forms=["original"])
    source = ps.Dataset(path)
    with (
        make(source) as plain,
        make(source, cache="64MiB") as stored,
        make(source, cache="64MiB", cache_form="pli-jpeg") as recoded,
    ):
        for number in range(3):
            want = epoch(plain)
            for loader in (stored, recoded):
                for a, b in zip(want, epoch(loader), strict=True):
                    np.testing.assert_array_equal(b, a)
            use = recoded.stats()["cache"]
            assert use["items"] == len(source)
            assert use["hits"] == number * len(source)
            assert use["recoded"] + use["not_recoded"] == count_jpegs(folder) > 0
            assert use["recoded"] > 0 and use["nbytes_saved"] > 0
            assert recoded.stats()["fallbacks"].get("cache_form", 0) == use["not_recoded"]
        assert use["used"] < stored.stats()["cache"]["used"]
        assert stored.stats()["cache"]["recoded"] == stored.stats()["cache"]["not_recoded"] == 0


def test_idle_workers_recode_and_batches_stay_the_same(folder):
    source = ps.Dataset(folder)
    use = ps.CacheUse("64MiB", form="pli-jpeg", recode="idle")
    with make(source) as plain, make(source, cache=use) as later:
        for number in range(3):
            for want, got in zip(epoch(plain), epoch(later), strict=True):
                np.testing.assert_array_equal(got, want)
            assert later.stats()["cache"]["hits"] == number * len(source)
            for _ in range(3000):  # between epochs, too
                found = later.stats()["cache"]
                if found["recoded"] + found["not_recoded"] == count_jpegs(folder):
                    break
                time.sleep(0.01)
        found = later.stats()["cache"]
        assert found["recoded"] + found["not_recoded"] == count_jpegs(folder) > 0
        assert found["recoded"] > 0 and found["nbytes_saved"] > 0 and found["recode_seconds"] > 0
        assert found["to_recode"] == 0
    for wrong, text in (("stored", "cache_form is STORED"), ("pli", "num_workers is 0")):
        with pytest.raises(ps.errors.ArgumentError, match=text):
            options = {"num_workers": 0} if wrong == "pli" else {}
            ps.Loader(source, batch_size=4, cache=ps.CacheUse("64MiB", form=wrong, recode="idle"), **options)
    with pytest.raises(ps.errors.ArgumentError, match="CacheUse.recode"):
        make(source, cache=ps.CacheUse("64MiB", form="pli", recode="later"))


@pytest.mark.parametrize("form", ["pli", "pli-fast", "raw"])
def test_other_images_are_recoded_too(folder, form):
    source = ps.Dataset(folder)
    with make(source) as plain, make(source, cache="64MiB", cache_form=form) as recoded:
        for number in range(2):
            for a, b in zip(epoch(plain), epoch(recoded), strict=True):
                np.testing.assert_array_equal(b, a)
            use = recoded.stats()["cache"]
            assert use["hits"] == number * len(source)
            assert use["recoded"] > count_jpegs(folder)


def test_forms_share_a_cache(folder):
    source, cache = ps.Dataset(folder), ps.Cache("64MiB")
    with (
        make(source, cache=cache, cache_form="pli-jpeg") as recoded,
        make(source, cache=cache) as stored,
        ps.Loader(source, batch_size=4, encoded=["image"], cache=ps.CacheUse(cache, form="pli-jpeg"), output="numpy") as given,
    ):
        want = epoch(recoded)
        for a, b in zip(want, epoch(stored), strict=True):
            np.testing.assert_array_equal(b, a)
        files = [bytes(row) for batch in given for row in batch["image"]]
        assert sum(file[:2] == b"\xff\xd8" for file in files) == count_jpegs(folder)
        assert stored.stats()["storage"]["reads"] == len(source)
        assert given.stats()["storage"]["reads"] == 0  # the stored bytes are in the cache already
    assert cache.stats()["datasets"] == 2


def test_saved_items_keep_their_form(folder, tmp_path):
    source, cache, again = ps.Dataset(folder), ps.Cache("64MiB"), ps.Cache("64MiB")
    with make(source, cache=cache, cache_form="pli-jpeg") as recoded, make(source, cache=cache) as stored:
        want = epoch(recoded)
        epoch(stored)
        use = recoded.stats()["cache"]
    saved = cache.save(tmp_path / "both.cache")
    assert again.load(tmp_path / "both.cache").items == saved.items == 2 * len(source)
    assert again.stats()["used"] == cache.stats()["used"]
    for form in ("pli-jpeg", "stored"):
        with make(source, cache=again, cache_form=form) as loader:
            for a, b in zip(want, epoch(loader), strict=True):
                np.testing.assert_array_equal(b, a)
            assert loader.stats()["storage"]["reads"] == 0
            assert loader.stats()["cache"]["hits"] == len(source)
    assert use["recoded"] > 0


def test_auto_without_a_cache_ignores_the_form(folder):
    with make(folder, cache_form="pli-jpeg") as loader:
        epoch(loader)
        assert loader.stats()["cache"]["recoded"] == 0
    with pytest.raises(ps.errors.ArgumentError, match="no cache"):
        make(folder, cache=None, cache_form="pli-jpeg")


def test_a_pickled_loader_keeps_its_form(folder):
    with make(folder, cache="16MiB", cache_form="pli-jpeg") as loader:
        again = pickle.loads(pickle.dumps(loader))
        epoch(again)
        assert again.stats()["cache"]["recoded"] > 0
        again.close()


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
    with make(source, cache=cache) as third:  # items that were kept outlive the loaders
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


def filled(*sources) -> ps.Cache:
    """Returns a cache that holds all items of these data sets."""
    cache = ps.Cache("16MiB")
    for source in sources:
        with make(source, cache=cache) as loader:
            epoch(loader)
    return cache


def test_a_saved_cache_serves_the_first_epoch(folder, packed, tmp_path):
    path, datasets = tmp_path / "cache", [ps.Dataset(folder), ps.Dataset(packed)]
    saved = filled(*datasets).save(path)
    assert isinstance(saved, ps.CacheReport)
    assert saved.items == sum(map(len, datasets)) and saved.datasets == 2
    assert saved.file_nbytes == path.stat().st_size > saved.nbytes > 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cache = ps.Cache("16MiB")
    assert cache.load(str(path)) == saved
    for source in datasets:
        with make(source, cache=cache) as loader, make(source) as plain:
            for want, got in zip(epoch(plain), epoch(loader), strict=True):
                np.testing.assert_array_equal(got, want)
            assert loader.stats()["cache"]["hits"] == len(source)
            assert loader.stats()["storage"]["reads"] == 0
    again = cache.load(path)
    assert again.items == 0 and again.present == saved.items
    assert os.listdir(tmp_path) == ["cache"]


def test_a_saved_cache_of_a_data_set_that_changed(folder, tmp_path):
    import shutil

    source = tmp_path / "photographs"
    shutil.copytree(folder, source)
    filled(source).save(tmp_path / "cache")
    next(source.rglob("*.jpg")).touch()
    cache = ps.Cache("16MiB")
    assert cache.load(tmp_path / "cache").items > 0
    with make(source, cache=cache) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["hits"] == 0


def test_a_cache_smaller_than_the_file(tmp_path):
    source = tmp_path / "set"
    pixels = np.zeros((100, 1000, 3), "u1")
    with ps.Writer(source, {"image": ps.Image("raw")}) as writer:
        for number in range(10):
            writer.write({"image": pixels + number}, name=f"s{number}")
    filled(source).save(tmp_path / "cache")
    small = ps.Cache("1MiB")
    report = small.load(tmp_path / "cache")
    assert report.items == 3 and report.refused == 7
    assert small.stats()["used"] <= small.nbytes
    with make(source, cache=small) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["hits"] == 3
        assert loader.stats()["storage"]["reads"] == 7


def test_a_damaged_file(folder, tmp_path):
    path, bad = tmp_path / "cache", tmp_path / "bad"
    filled(folder).save(path)
    data, cache = path.read_bytes(), ps.Cache("16MiB")
    altered = bytearray(data)
    altered[len(data) // 2] ^= 4
    for content, kind in ((data[:-1], ps.errors.TruncatedError), (altered, ps.errors.ChecksumError),
                          (b"no cache" * 100, ps.errors.CorruptError), (data + b"x", ps.errors.CorruptError),
                          (data[:8] + b"\x02" + data[9:], ps.errors.VersionError), (b"", ps.errors.TruncatedError)):
        bad.write_bytes(content)
        with pytest.raises(kind) as caught:
            cache.load(bad)
        assert caught.value.file == str(bad) and caught.value.offset is not None
        assert cache.stats()["items"] == cache.stats()["used"] == 0
    assert cache.load(path).items == 24
    with pytest.raises(ps.errors.NotFoundError):
        cache.load(tmp_path / "none")
    with pytest.raises(TypeError):
        cache.load(3)


def test_a_file_that_cannot_be_written(folder, tmp_path):
    path, cache = tmp_path / "cache", filled(folder)
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10000, hard))
    try:
        with pytest.raises(ps.errors.StorageError):
            cache.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["cache"]
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(ps.errors.StorageError, match="symbolic link"):
        cache.save(link)
    with pytest.raises(ps.errors.StorageError, match="no plain file"):
        cache.save(tmp_path)
    with pytest.raises(ps.errors.NotFoundError):
        cache.save(tmp_path / "none" / "cache")
    assert path.read_bytes() == b"old" and len(os.listdir(tmp_path)) == 2


def test_a_forked_child_does_not_use_the_parents_cache(folder, tmp_path):
    path, cache = tmp_path / "cache", filled(folder)
    saved = cache.save(path)
    child = os.fork()
    if child == 0:
        code = 0
        try:
            for call in (cache.save, cache.load):
                try:
                    call(path)
                    code = 1
                except ps.errors.ForkedError:
                    pass
            code = code or (0 if ps.Cache("16MiB").load(path).items == saved.items else 2)
        except BaseException:
            code = 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.load(path).present == saved.items
