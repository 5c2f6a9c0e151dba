"""Page-aware order in plain folders: pages follow paths, reads follow the disk's order, and batches depend only on the paths."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords

CLASSES, EACH = ["ant", "bee", "cat", "dog"], 24
N = len(CLASSES) * EACH
PAGES = {"order": "pages", "page_samples": 4, "window_pages": 3, "seed": 5}


def write_shuffled(root: Path, files: dict[str, bytes], seed: int) -> None:
    """Writes the files in a random order, so inode numbers do not follow names."""
    names = sorted(files)
    random.Random(seed).shuffle(names)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(files[name])


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos") / "photos"
    files = {
        f"{name}/{i:02d}.jpg": encoded(picture(c * EACH + i, 24 + i % 5, 30), "JPEG")
        for c, name in enumerate(CLASSES)
        for i in range(EACH)
    }
    write_shuffled(root, files, 1)
    return root


@pytest.fixture(scope="module")
def moved(photos: Path) -> Path:
    """Returns a copy of the folder whose files were written in another order."""
    copy = photos.parent / "moved"
    write_shuffled(copy, {str(path.relative_to(photos)): path.read_bytes() for path in photos.rglob("*.jpg")}, 2)
    return copy


def loader_of(data, **options) -> ps.Loader:
    return ps.Loader(data, **keywords(**{"output": "numpy", "fields": ["image"], "encoded": ["image"], "batch_size": 6, **PAGES,
                                         **options}))


def samples_of(batches) -> list[int]:
    return [int(i) for batch in batches for i in batch["index"]]


def places(root: Path, by_name: list[str]) -> list[int]:
    """Returns the rank of each file when all files are sorted by inode."""
    inodes = [(root / name).stat().st_ino for name in by_name]
    return np.argsort(np.argsort(inodes)).tolist()


def test_the_folders_differ_on_disk_alone(photos, moved):
    names = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.jpg"))
    assert len(names) == N
    assert places(photos, names) != places(moved, names)
    assert places(photos, names) != list(range(N)) != places(moved, names)


def test_each_sample_once_and_few_pages_in_a_window(photos):
    loader = loader_of(photos)
    order = samples_of(loader)
    assert sorted(order) == list(range(N)) != order

    def pages(offset: int) -> list[int]:  # pages begin at an offset that changes by epoch
        return [(sample - offset) % N // 4 for sample in order]

    assert any(all(len(set(pages(k)[w : w + 12])) == 3 for w in range(0, N, 12)) for k in range(4))
    assert samples_of(loader) != order  # another epoch


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_on_machines_with_other_inodes_are_one_order(photos, moved, world_size):
    whole = samples_of(loader_of(photos))
    parts = [
        [batch["index"].tolist() for batch in
         loader_of((photos, moved)[rank % 2], rank=rank, world_size=world_size, throttle=(0, 1e-5, 1))]
        for rank in range(world_size)
    ]  # fmt: skip
    assert [i for step in zip(*parts, strict=True) for batch in step for i in batch] == whole


@pytest.mark.parametrize("world_size", [1, 3, 4])
def test_resume_with_another_world_size_on_another_machine(photos, moved, world_size):
    whole = samples_of(loader_of(photos))
    seen, states = [], []
    for rank in range(2):
        loader = loader_of(photos, rank=rank, world_size=2, batch_size=3)
        batches = iter(loader)
        seen.append([next(batches)["index"].tolist() for _ in range(6)])
        states.append(loader.state_dict())
    assert states[0]["position"] == states[1]["position"] == 36
    assert [i for step in zip(*seen, strict=True) for batch in step for i in batch] == whole[:36]
    parts = []
    for rank in range(world_size):
        loader = loader_of(moved, rank=rank, world_size=world_size, batch_size=5)
        loader.load_state_dict(states[0])
        parts.append([batch["index"].tolist() for batch in loader])
    assert [i for step in zip(*parts, strict=True) for batch in step for i in batch] == whole[36:]


def test_pages_of_listed_files_follow_paths_not_the_list(photos):
    """With the list of files in another order, samples have other numbers, but the epoch has the same files in the same order."""
    scanned = ps.Dataset(photos)
    wanted = [scanned.name(i) for i in samples_of(loader_of(scanned))]
    names = [scanned.name(i) for i in range(N)]
    random.Random(7).shuffle(names)
    listed = ps.Dataset.from_files([photos / name for name in names])
    loader = loader_of(listed)
    order = samples_of(loader)
    assert [listed.name(i) for i in order] == wanted
    assert samples_of(loader_of(listed, order="sequential")) == list(range(N))  # orders other than "pages" follow the list
    loader.set_epoch(0)
    next(iter(loader))
    state = loader.state_dict()
    again = ps.Dataset.from_files([photos / name for name in names])
    resumed = loader_of(again)
    resumed.load_state_dict(state)
    assert samples_of(resumed) == order[6:]
    # A list in another order numbers the samples differently, so a state would resume with other samples.
    for other in (scanned, ps.Dataset.from_files([photos / name for name in reversed(names)])):
        with pytest.raises(ValueError, match="another data set"):
            loader_of(other).load_state_dict(state)


def test_label_files_follow_paths_too(photos, tmp_path):
    names = [f"{name}/{i:02d}.jpg" for name in CLASSES for i in range(EACH)]
    random.Random(3).shuffle(names)
    labels = tmp_path / "labels.csv"
    labels.write_text("file,label\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names)))
    listed, scanned = ps.Dataset(photos, labels=labels), ps.Dataset(photos)
    order = samples_of(loader_of(listed))
    assert sorted(order) == list(range(N))
    assert [listed.name(i) for i in order] == [scanned.name(i) for i in samples_of(loader_of(scanned))]


def test_a_subset_is_cut_into_pages_as_listed(photos):
    subset = list(range(0, N, 2))
    order = samples_of(loader_of(photos, indices=subset))
    assert sorted(order) == subset != order
    assert order == samples_of(loader_of(photos, indices=subset, throttle=(0, 1e-5, 1), prefetch=8))


def test_images_and_masks_of_cityscapes_are_ordered_together(tmp_path):
    files = {}
    for city in ("aachen", "ulm"):
        for i in range(10):
            stem = f"train/{city}/{city}_{i:06d}_000019"
            files[f"leftImg8bit/{stem}_leftImg8bit.png"] = encoded(picture(i, 16, 20), "PNG")
            files[f"gtFine/{stem}_gtFine_labelIds.png"] = encoded(picture(i, 16, 20)[:, :, 0], "PNG")
    write_shuffled(tmp_path / "a", files, 1)
    write_shuffled(tmp_path / "b", files, 2)
    dataset = ps.Dataset(tmp_path / "a")
    mask = next(name for name in dataset.fields if name not in ("image", "split", "city"))
    seen = []
    for root in ("a", "b"):
        with ps.Loader(tmp_path / root, **keywords(fields=["image", mask], output="numpy", batch_size=4, prefetch=5, num_workers=2,
                       throttle=(0, 1e-5, 1), **PAGES)) as loader:  # fmt: skip
            seen.append([(int(i), a.tobytes(), b.tobytes()) for batch in loader
                         for i, a, b in zip(batch["index"], batch["image"], batch[mask], strict=True)])  # fmt: skip
            storage = loader.stats()["storage"]
        assert storage["reads"] == storage["ordered"] == 40  # an image and a mask of each sample
    assert seen[0] == seen[1] and sorted(row[0] for row in seen[0]) == list(range(20))


def test_counters_of_requests(photos):
    total = sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    for order, throttle in (("shuffled", None), ("pages", (0, 1e-5, 1))):
        with loader_of(photos, order=order, prefetch=4, num_workers=2, throttle=throttle) as loader:
            assert sorted(samples_of(loader)) == list(range(N))
            storage = loader.stats()["storage"]
        assert storage["reads"] == N and storage["nbytes_read"] == total  # each file needs a request, in any order
        assert storage["merged"] == storage["nbytes_gap"] == 0
        assert storage["ordered"] == (N if order == "pages" else 0)


def test_a_file_that_vanishes_is_named(photos, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(photos, copy)
    dataset = ps.Dataset(copy)
    (copy / "cat/03.jpg").unlink()
    for throttle in (None, (0, 1e-5, 1)):
        with pytest.raises(ps.PenstockError, match=r"cat/03\.jpg"):
            samples_of(loader_of(dataset, prefetch=8, throttle=throttle))
        loader = loader_of(dataset, prefetch=8, throttle=throttle, on_error="skip")
        assert sorted(samples_of(loader)) == [i for i in range(N) if i != 2 * EACH + 3]
        assert [entry["name"] for entry in loader.quarantine] == ["cat/03.jpg"]


def test_a_file_that_was_written_anew_changes_no_order(photos, tmp_path):
    """The file that was written anew is a bad sample for readers that opened the data set before. It keeps its place in the
    order.
    """
    copy = tmp_path / "copy"
    shutil.copytree(photos, copy)
    wanted = samples_of(loader_of(copy))
    dataset = ps.Dataset(copy)
    for name in ("ant/00.jpg", "dog/23.jpg"):  # the data set still has the old inodes' places
        content = (copy / name).read_bytes()
        (copy / name).rename(copy / f"{name}.old")
        (copy / name).write_bytes(content)
    assert samples_of(loader_of(copy)) == wanted
    loader = loader_of(dataset, throttle=(0, 1e-5, 1), on_error="skip")
    good = samples_of(loader)
    bad = {entry["sample"] for entry in loader.quarantine}
    assert good == [i for i in wanted if i not in bad] and {dataset.name(i) for i in bad} == {"ant/00.jpg", "dog/23.jpg"}
