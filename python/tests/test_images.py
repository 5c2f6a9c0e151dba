"""CachedImages: pixels equal PIL's, a hit reads nothing, threads and processes, and data set classes that use it."""

import json
import os
import pickle
import threading

import numpy as np
import pytest

import penstock as ps

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
FORMS = ["stored", "pli-jpeg", "pli", "pli-fast", "raw"]


def picture(height, width, channels, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    smooth = np.stack([(y * (c + 1) + x * 2) // 3 % 256 for c in range(channels)], -1)
    noisy = (smooth + rng.integers(0, 9, smooth.shape)) % 256
    return np.squeeze(noisy.astype(np.uint8))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """JPEGs (one rotated by EXIF, one gray) and PNGs of several kinds, in two folders."""
    root = tmp_path_factory.mktemp("images")
    paths = []
    for i in range(8):
        folder = root / ("a" if i % 2 else "b/c")
        folder.mkdir(parents=True, exist_ok=True)
        channels = [3, 3, 1, 3, 3, 4, 1, 3][i]
        image = Image.fromarray(picture(60 + 9 * i, 90 + 5 * i, channels, i))
        path = folder / f"{i}.{'jpg' if i < 4 else 'png'}"
        if i == 1:
            exif = Image.Exif()
            exif[0x0112] = 6
            image.save(path, quality=91, exif=exif)
        elif i < 4:
            image.save(path, quality=91)
        else:
            image.save(path)
        paths.append(path)
    return paths


def by_pil(path, upright=True):
    image = Image.open(path)
    return np.asarray((ImageOps.exif_transpose(image) if upright else image).convert("RGB"))


def check(images, files, **how):
    for i, path in enumerate(files):
        want = by_pil(path, how.get("orientation") != "stored")
        got = images[i]
        assert got.dtype == np.uint8 and got.flags.writeable and got.flags.c_contiguous
        np.testing.assert_array_equal(got, want[..., ::-1] if how.get("color") == "bgr" else want)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("orientation", ["upright", "stored"])
def test_pixels_are_those_of_pil(files, form, color, orientation):
    images = ps.CachedImages(files, "64MiB", form=form, color=color, orientation=orientation)
    assert len(images) == len(files)
    for number in range(2):
        check(images, files, color=color, orientation=orientation)
        use = images.stats()
        assert use["hits"] == number * len(files)
        assert use["misses"] == len(files) == use["items"]
        assert use["nbytes_read"] == sum(path.stat().st_size for path in files)
        assert (use["recoded"] > 0) == (form != "stored")
        assert not use["forked"]


def test_an_array_is_the_callers(files):
    images = ps.CachedImages(files, "64MiB")
    first = images[0]
    kept = first.copy()
    for i in range(40):
        images[0][:] = i
    np.testing.assert_array_equal(first, kept)
    first[:] = 7
    np.testing.assert_array_equal(images[0], kept)
    del images
    first[:] = 8  # the array outlives the object that made it


def test_batches_slices_and_places(files):
    images = ps.CachedImages(files, "64MiB")
    np.testing.assert_array_equal(images[-1], by_pil(files[-1]))
    assert len(images[2:5]) == 3
    for got, i in zip(images.batch([5, 0, 5], num_threads=3), [5, 0, 5], strict=True):
        np.testing.assert_array_equal(got, by_pil(files[i]))
    assert len(images.batch([])) == 0
    assert len(images.__getitems__([1, 2])) == 2
    with pytest.raises(IndexError):
        images[len(files)]
    assert images.index(files[3]) == 3
    assert images.index(os.path.relpath(files[3])) == 3
    np.testing.assert_array_equal(images.load_image(str(files[6])), by_pil(files[6]))
    with pytest.raises(ps.errors.NotFoundError, match="no image"):
        images.load_image("elsewhere.jpg")


def test_kinds_of_source(files, tmp_path):
    root = files[0].parent.parent.parent
    from_folder = ps.CachedImages(root, "64MiB")
    for i in range(len(files)):
        name = from_folder.dataset._native.name(i)
        np.testing.assert_array_equal(from_folder[i], by_pil(root / name))
    packed = tmp_path / "packed.pst"
    ps.pack(root, packed)
    source = ps.Dataset(packed)
    view = source.subset([5, 1])
    images = ps.CachedImages(view, "64MiB")
    assert len(images) == 2
    assert images.fill(2) == 2
    for got, want in zip(images[:], [view[0]["image"], view[1]["image"]], strict=True):
        np.testing.assert_array_equal(got, want if want.shape[-1] == 3 else np.repeat(want[..., :1], 3, -1))
    name = source._native.name(5)
    assert images.index(name) == 0


def test_fill_then_nothing_is_read(files):
    images = ps.CachedImages(files)  # "auto"
    assert images.fill(3) == len(files)
    before = images.stats()
    check(images, files)
    after = images.stats()
    assert after["misses"] == before["misses"] == len(files)
    assert after["limit"] > 0
    assert "8 of 8 images" in repr(images)


def test_without_a_cache(files):
    images = ps.CachedImages(files, None)
    check(images, files)
    check(images, files)
    assert images.fill(1) == 0
    assert images.stats()["limit"] == 0 and images.stats()["hits"] == 0


def test_loaders_share_the_cache(files):
    source, cache = ps.Dataset.from_files(files), ps.Cache("64MiB")
    images = ps.CachedImages(source, cache)
    images.fill(2)
    with ps.Loader(source, batch_size=3, cache=ps.CacheUse(cache, form="pli"), output="numpy", channels=3) as loader:
        rows = [row for batch in loader for row in batch["image"]]
        assert loader.stats()["storage"]["reads"] == 0
    for row, path in zip(rows, files, strict=True):
        np.testing.assert_array_equal(np.transpose(row, (1, 2, 0)), by_pil(path))


def test_many_threads(files):
    images = ps.CachedImages(files, "64MiB", color="bgr")
    wrong = []

    def work(start):
        for n in range(40):
            i = (start + 3 * n) % len(files)
            if not np.array_equal(images[i], by_pil(files[i])[..., ::-1]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    use = images.stats()
    assert use["hits"] + use["misses"] == 160 and use["items"] == len(files)


def test_a_forked_child_uses_what_was_cached(files):
    images = ps.CachedImages(files, "64MiB")
    for i in range(4):
        images[i]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            check(images, files)
            check(images, files)
            found = images.stats()
            os.write(write, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(write)
    found = json.loads(os.read(read, 65536))
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
    assert found["forked"] and found["hits"] == 8 and found["misses"] == 4 + 2 * 4
    assert images.stats()["items"] == 4


def test_a_pickled_copy_has_no_cache_and_says_so(files, caplog):
    images = ps.CachedImages(files, "64MiB", color="bgr", orientation="stored")
    copy = pickle.loads(pickle.dumps(images))
    assert "has no cache" in caplog.text
    check(copy, files, color="bgr", orientation="stored")
    check(copy, files, color="bgr", orientation="stored")
    assert copy.stats()["hits"] == 0


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_torch(files, context):
    data = pytest.importorskip("torch.utils.data")
    images = ps.CachedImages(files, "64MiB", output="torch")
    images.fill(2)
    workers = 2 if context == "fork" else 1  # a spawned worker imports torch, which takes seconds
    loader = data.DataLoader(
        images, batch_size=2, num_workers=workers, collate_fn=list, multiprocessing_context=context, persistent_workers=True
    )
    for _ in range(2):
        got = [image for batch in loader for image in batch]
        for image, path in zip(got, files, strict=True):
            np.testing.assert_array_equal(image.numpy(), by_pil(path))


def test_errors(files, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(files[5].read_bytes()[:200])
    images = ps.CachedImages([files[0], bad], "64MiB")
    with pytest.raises(ps.errors.CorruptError) as info:
        images[1]
    assert info.value.sample == 1 and "bad.png" in info.value.file and info.value.codec == "png"
    with pytest.raises(ps.errors.CorruptError):
        images.fill(2)
    assert images.fill(2, on_error="skip") == 1
    for wrong in ({"color": "yuv"}, {"orientation": "pil"}, {"form": "jpeg"}, {"output": "list"}, {"channels": 2}):
        with pytest.raises(ps.errors.ArgumentError):
            ps.CachedImages(files, "64MiB", **wrong)
    with pytest.raises(ps.errors.ArgumentError):
        ps.CachedImages(files, "64MiB", field="mask")
    with pytest.raises(ps.errors.ArgumentError):
        ps.CachedImages([], "64MiB")


def test_files_as_a_dataset(files, tmp_path):
    source = ps.Dataset.from_files(reversed(files))
    assert len(source) == len(files) and source.is_folder and list(source.fields) == ["image"]
    np.testing.assert_array_equal(source[0]["image"], by_pil(files[-1]))
    again = pickle.loads(pickle.dumps(source))
    assert again.id == source.id and len(again) == len(files)
    assert ps.Dataset.from_files(files).id != source.id
    with pytest.raises(ps.errors.ArgumentError, match="twice"):
        ps.Dataset.from_files([files[0], files[0]])
    with pytest.raises(ps.errors.NotFoundError):
        ps.Dataset.from_files([tmp_path / "none.png"])
    kept = ps.Dataset.from_files([files[0], tmp_path / "none.png"], allow_unreadable=True)
    assert len(kept) == 1 and kept.n_skipped == 1
    with pytest.raises(ps.errors.ArgumentError):
        ps.Dataset(tmp_path, files="a.png")


def test_a_plan_of_the_cache(files, tmp_path):
    source = ps.Dataset.from_files(files)
    sizes = [path.stat().st_size for path in files]
    plan = ps.plan_cache(source, 8 * len(files) + sizes[2] + sizes[4] + 100, seconds=[0, 0, 5, 0, 3, 0.001, 0, 0])
    assert list(np.flatnonzero(plan.admit)) == [2, 4] and plan.samples == 2
    assert plan.seconds == 8 and plan.bound >= 8
    np.save(tmp_path / "plan.npy", plan.admit)
    for given in (plan, plan.admit, tmp_path / "plan.npy"):
        with ps.Loader(source, batch_size=3, cache=ps.CacheUse("8MiB", admit=given), channels=3, output="numpy") as loader:
            for number in range(3):
                for _ in loader:
                    pass
                use = loader.stats()["cache"]
                assert use["items"] == 2 and use["hits"] == 2 * number
    for given in (plan, plan.admit, tmp_path / "plan.npy"):
        images = ps.CachedImages(source, "8MiB", form="stored", cache_plan=given)
        for number in range(3):
            check(images, files)
            use = images.stats()
            assert use["items"] == 2 and use["hits"] == 2 * number and use["misses"] == 8 + 6 * number
        assert images.fill(2) == 2
    slow = ps.plan_cache(source, "1MiB", read_rate=1e6, read_seconds=0.01)
    assert slow.samples == len(files) and slow.seconds == slow.bound
    with pytest.raises(ps.errors.ArgumentError, match="read_rate"):
        ps.plan_cache(source, "1MiB")
    with pytest.raises(ps.errors.ArgumentError, match="bool"):
        ps.Loader(source, batch_size=3, cache=ps.CacheUse("8MiB", admit=[1, 2]))
    with pytest.raises(ps.errors.ArgumentError, match="no cache"):
        ps.Loader(source, batch_size=3, cache=ps.CacheUse(None, admit=plan))
    with pytest.raises(ps.errors.ArgumentError, match="bool"):
        ps.CachedImages(source, "8MiB", cache_plan=[1, 2])
    with pytest.raises(ps.errors.ArgumentError, match="for a cache"):
        ps.CachedImages(source, None, cache_plan=plan)
    planned = ps.CachedImages(source, "8MiB", cache_plan=plan)
    check(pickle.loads(pickle.dumps(planned)), files)  # the copy has no cache and needs no plan


def test_torchvision_loads_images_here(files):
    from conftest import torchvision_v2

    torchvision_v2()
    datasets = pytest.importorskip("torchvision.datasets")
    root = files[0].parent.parent.parent
    images = ps.CachedImages(files, "64MiB")
    plain, cached = datasets.ImageFolder(root), datasets.ImageFolder(root, loader=images.load_image)
    for i in range(len(plain)):
        np.testing.assert_array_equal(cached[i][0], by_pil(plain.samples[i][0]))
        assert cached[i][1] == plain[i][1]
