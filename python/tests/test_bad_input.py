"""Hostile input through Python: every image form, damaged files and data sets, policies, odd sizes, long runs."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import traceback
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import errors
from penstock import transforms as T

AUGMENT = [
    T.RandomResizedCrop(32),
    T.RandomHorizontalFlip(),
    T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD),
]


def loader_of(path, **options):
    defaults = {"transforms": AUGMENT, "output": "numpy", "num_workers": 2, "batch_size": 4}
    return ps.Loader(path, **keywords(**{**defaults, **options}))


def contents(loader):
    return [(batch["index"].tolist(), batch["image"].copy()) for batch in loader]


def same(a, b):
    return len(a) == len(b) and all(
        i == j and np.array_equal(x, y) for (i, x), (j, y) in zip(a, b, strict=True)
    )


@pytest.fixture(scope="module")
def forms(tmp_path_factory) -> Path:
    """Returns one picture in every form of image that a data set can hold."""
    root = tmp_path_factory.mktemp("forms") / "f"
    root.mkdir()
    image = PilImage.fromarray(picture(1, 50, 70))
    gray16 = np.arange(50 * 70, dtype=np.uint16).reshape(50, 70) * 17

    def save(name, what=image, **options):
        what.save(root / name, **options)

    save("rgb.jpg")
    save("progressive.jpg", progressive=True)
    save("gray.jpg", image.convert("L"))
    save("cmyk.jpg", image.convert("CMYK"))
    for n, sub in enumerate(("444", "422", "420")):
        save(f"sub{sub}.jpg", subsampling=n)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        save(f"{mode}.png", image.convert(mode))
    save("16.png", PilImage.fromarray(gray16))
    save("lossless.webp", lossless=True)
    save("lossy.webp")
    save("alpha.webp", image.convert("RGBA"), lossless=True)
    for orientation in range(1, 9):
        exif = PilImage.Exif()
        exif[0x112] = orientation
        save(f"turn{orientation}.jpg", exif=exif)
    return root


def test_every_form_is_the_same_for_all_workers_and_storages(forms, tmp_path):
    wanted = contents(loader_of(forms, shuffle=True, seed=3, num_workers=0))
    assert sum(len(index) for index, _ in wanted) == len(os.listdir(forms))
    assert all(np.isfinite(image).all() for _, image in wanted)
    packed = tmp_path / "forms.pst"
    ps.pack(forms, packed)
    for path in (forms, packed):
        for workers in (1, 7):
            for storage in ("threads", "auto", "memory"):
                got = contents(
                    loader_of(path, shuffle=True, seed=3, num_workers=workers, storage=storage)
                )
                assert same(got, wanted), (path, workers, storage)


def test_orientation_is_pillows(forms):
    from PIL import ImageOps

    ds = ps.Dataset(forms)
    number = {ds.name(i): i for i in range(len(ds))}
    for orientation in range(1, 9):
        name = f"turn{orientation}.jpg"
        with PilImage.open(forms / name) as image:
            upright = np.asarray(ImageOps.exif_transpose(image))
        pixels = ds[number[name]]["image"]
        assert pixels.shape == upright.shape
        assert int(np.abs(pixels.astype(int) - upright).max()) <= 2, name


BAD = {5: b"", 9: None, 14: b"no image at all"}  # None: the first half of a good file
N = 24


@pytest.fixture
def damaged(tmp_path) -> Path:
    root = tmp_path / "d"
    root.mkdir()
    for i in range(N):
        data = encoded(picture(i, 40, 60), "JPEG")
        content = BAD.get(i, data)
        (root / f"{i:02d}.jpg").write_bytes(data[: len(data) // 2] if content is None else content)
    return root


def test_raise_names_all_that_is_known_and_goes_on(damaged):
    for workers in (0, 1, 3):
        with pytest.raises(errors.TruncatedError) as caught:
            list(loader_of(damaged, num_workers=workers))
        error = caught.value
        assert (error.sample, error.dataset, error.offset) == (5, str(damaged), 0)
        assert error.file == str(damaged / "05.jpg")
        for word in (str(damaged), "sample 5", "05.jpg", "empty"):
            assert word in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.sample, again.file) == (str(error), 5, error.file)


def test_direct_access_names_the_sample_whatever_is_wrong(damaged):
    ds = ps.Dataset(damaged)
    for i in BAD:
        with pytest.raises(ps.PenstockError) as caught:
            ds[i]
        assert caught.value.sample == i and caught.value.dataset == str(damaged)
        assert caught.value.file == str(damaged / f"{i:02d}.jpg")
        assert f"{i:02d}.jpg" in str(caught.value)
    assert ds[6]["image"].shape == (40, 60, 3)


@pytest.mark.parametrize("workers", [0, 1, 7])
def test_skip_and_replace(damaged, workers):
    loader = loader_of(damaged, on_error="skip", num_workers=workers)
    got = [i for index, _ in contents(loader) for i in index]
    assert got == [i for i in range(N) if i not in BAD]
    assert [(q["sample"], q["name"]) for q in loader.quarantine] == [
        (i, f"{i:02d}.jpg") for i in BAD
    ]
    assert [q["codec"] for q in loader.quarantine][1] == "jpeg"
    assert loader.stats()["samples"]["bad"] == 3

    options = {"on_error": "replace", "shuffle": True, "seed": 8}
    loader = loader_of(damaged, num_workers=workers, **options)
    replaced = contents(loader)
    assert [len(index) for index, _ in replaced] == [4] * (N // 4)
    assert not {i for index, _ in replaced for i in index} & set(BAD)
    assert same(replaced, contents(loader_of(damaged, num_workers=2, **options)))
    assert {q["sample"] for q in loader.quarantine} == set(BAD)


def test_more_bad_samples_than_allowed(damaged):
    assert sum(len(i) for i, _ in contents(loader_of(damaged, on_error="skip", max_errors=3))) == 21
    with pytest.raises(ps.PenstockError, match="3 bad samples .* more than max_errors 2") as caught:
        list(loader_of(damaged, on_error="skip", max_errors=2))
    assert caught.value.sample == 14 and caught.value.dataset == str(damaged)


def test_nothing_but_bad_samples(tmp_path):
    for i in range(6):
        (tmp_path / f"{i}.jpg").write_bytes(b"x")
    loader = loader_of(tmp_path, on_error="skip", on_empty="empty")
    with pytest.raises(ps.PenstockError, match="all 6 samples of this rank's epoch are bad"):
        list(loader)
    assert len(loader.quarantine) == 6
    for on_error in ("skip", "replace"):
        with pytest.raises(ps.PenstockError, match="no good replacement"):
            list(loader_of(tmp_path, on_error=on_error))


def test_files_that_change_after_the_folder_was_listed(damaged):
    for i, content in BAD.items():
        if content is not None:
            (damaged / f"{i:02d}.jpg").write_bytes(encoded(picture(i, 40, 60), "JPEG"))
    ds = ps.Dataset(damaged)
    (damaged / "00.jpg").unlink()
    (damaged / "01.jpg").write_bytes(b"")
    with open(damaged / "02.jpg", "ab") as file:
        file.write(b"more")
    loader = loader_of(ds, on_error="skip")
    got = [i for index, _ in contents(loader) for i in index]
    assert got == [i for i in range(N) if i not in (0, 1, 2, 9)]
    texts = {q["sample"]: (q["status"], q["text"]) for q in loader.quarantine}
    assert texts[0][0] == "PST_ERROR_NOT_FOUND"
    assert "0 bytes now" in texts[1][1] and "bytes now" in texts[2][1]


def test_one_sample_none_and_batches_larger_than_the_set(tmp_path):
    one = tmp_path / "one"
    one.mkdir()
    (one / "a.png").write_bytes(encoded(picture(0, 20, 20), "PNG"))
    loader = loader_of(one, batch_size=1000)
    for _ in range(3):
        assert [index for index, _ in contents(loader)] == [[0]]
    assert list(loader_of(one, batch_size=1000, drop_last=True)) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no image"):
        loader_of(tmp_path / "empty")
    with ps.Writer(tmp_path / "none.pst", {"image": ps.Image()}):
        pass
    loader = loader_of(tmp_path / "none.pst")
    assert (len(loader), list(loader), len(ps.Dataset(tmp_path / "none.pst"))) == (0, [], 0)
    with pytest.raises(IndexError):
        ps.Dataset(tmp_path / "none.pst")[0]


def test_bombs_and_limits(tmp_path, forms):
    data = bytearray(encoded(picture(0, 8, 8), "PNG"))
    import struct
    import zlib

    data[16:24] = struct.pack(">II", 2**31 - 1, 2**31 - 1)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    (tmp_path / "huge.png").write_bytes(data)
    with pytest.raises(errors.LimitError, match="2147483647 x 2147483647") as caught:
        list(loader_of(tmp_path))
    assert caught.value.codec == "png" and caught.value.sample == 0
    with pytest.raises(errors.LimitError, match="limit of 100"):
        list(loader_of(forms, max_pixels=100))
    with pytest.raises(errors.LimitError, match="host_memory of 1024 bytes is too small"):
        loader_of(forms, host_memory="1KiB")


def test_keeping_batches_to_the_limit_loses_none(forms):
    loader = loader_of(
        forms, batch_size=2, host_memory="24MiB", transforms=[T.Resize((512, 512))], dtype="float32"
    )
    iterator, kept = iter(loader), []
    with pytest.raises(errors.LimitError, match="you hold"):
        while True:
            kept.append(next(iterator))
    seen = [i for batch in kept for i in batch["index"].tolist()]
    assert seen, "at least one batch fits"
    kept.clear()
    seen += [i for batch in iterator for i in batch["index"].tolist()]
    assert seen == list(range(len(os.listdir(forms))))
    assert loader.stats()["memory"]["peak"] <= loader.stats()["memory"]["limit"]


def test_an_altered_data_set(forms, tmp_path):
    packed = tmp_path / "p.pst"
    ps.pack(forms, packed)
    whole = (packed / "index.pst").read_bytes()
    for n in (0, 100, 4095, 4096, len(whole) - 1):
        (packed / "index.pst").write_bytes(whole[:n])
        with pytest.raises(errors.TruncatedError, match="index ends after") as caught:
            ps.Dataset(packed)
        assert (caught.value.dataset, caught.value.offset) == (str(packed), n)
    (packed / "index.pst").write_bytes(whole[:8] + b"\x07" + whole[9:])
    with pytest.raises(errors.VersionError, match=r"version 7\.1"):
        ps.Dataset(packed)
    (packed / "index.pst").write_bytes(whole)
    shard = packed / "shard-000000.pst"
    good = shard.read_bytes()
    shard.write_bytes(good[: len(good) // 2])
    loader = loader_of(packed, on_error="skip", storage="threads")
    with pytest.raises(errors.TruncatedError, match="shard"):
        ps.Dataset(packed).read(0, "image")
    try:
        list(loader)
    except ps.PenstockError as error:  # the shard as a whole is refused
        assert error.file == str(shard) and error.dataset == str(packed)
    else:
        assert loader.quarantine and all(q["file"] == str(shard) for q in loader.quarantine)
    shard.unlink()
    with pytest.raises(FileNotFoundError, match="shard-000000"):
        list(loader_of(packed))
    assert not ps.verify(packed).ok


def test_a_damaged_file_in_torch_workers(damaged):
    torch = pytest.importorskip("torch")
    from penstock.torch import TorchDataset

    data = TorchDataset(damaged, AUGMENT)
    for workers, method in ((0, None), (2, "fork")):
        rows = torch.utils.data.DataLoader(
            data, batch_size=4, num_workers=workers, multiprocessing_context=method
        )
        got = 0
        with pytest.raises(ps.PenstockError, match=r"05\.jpg") as caught:
            for _ in rows:
                got += 1
        assert got == 1
        # The frames hold torch's iterator in a cycle. When the garbage collector frees it, it waits ten seconds for its workers.
        traceback.clear_frames(caught.tb)


def test_memory_stays_over_many_epochs(forms):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    loader = loader_of(forms, batch_size=5)
    for _ in range(30):
        for _batch in loader:
            pass
    before = resident(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for turn in range(201):  # the last epoch runs to its end, because reads under way hold descriptors
        for _batch in loader:
            if turn % 2:
                break
    del _batch
    assert resident() - before[0] < 8 << 20
    after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    assert after == before[1:]


def test_names_that_are_no_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    with open(path, "wb") as file:
        file.write(encoded(picture(0, 20, 20), "JPEG"))
    with pytest.raises(ps.PenstockError, match=r"caf\\xE9\.jpg"):
        ps.Dataset(tmp_path)
    shutil.copy(path, os.fsencode(tmp_path) + b"/good.jpg")
    ds = ps.Dataset(tmp_path, allow_unreadable=True)
    assert (len(ds), ds.n_skipped, ds.name(0)) == (1, 1, "good.jpg")
    with PilImage.open(io.BytesIO(ds.read(0, "image"))) as image:
        assert image.size == (20, 20)
