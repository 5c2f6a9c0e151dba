"""Mixtures (several data sets opened as one): batches, names, states with other ranks, pickles, counts, and errors that name the
source.
"""

from __future__ import annotations

import json
import pickle
import random
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError, ChecksumError, NotFoundError, StateError

CHAIN = {"image": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]}


def write(folder: Path, numbers: range, classes: str = "ab") -> Path:
    """Writes pictures of these numbers in class folders."""
    for i in numbers:
        path = folder / classes[i % len(classes)] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(i, 24 + i % 3, 32), "png"))
    return folder


def write_tar(path: Path, numbers: range) -> Path:
    with tarfile.open(path, "w") as tar:
        for i in numbers:
            member = path.parent / f"{i:03d}.png"
            member.write_bytes(encoded(picture(i, 24 + i % 3, 32), "png"))
            tar.add(member, member.name)
            member.unlink()
    return path


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A packed data set, a folder, and a tar without labels, with 10, 7 and 6 pictures, numbered from 0 to 22."""
    ps.pack(write(tmp_path / "files", range(10)), tmp_path / "packed.pst", forms=["original"])
    return [tmp_path / "packed.pst", write(tmp_path / "folder", range(10, 17)), write_tar(tmp_path / "x.tar", range(17, 23))]


def loader_of(dataset: object, **options: object) -> ps.Loader:
    given = {"batch_size": 4, "seed": 5, "shuffle": True, "output": "numpy", "num_workers": 1, "cache": None, **options}
    return ps.Loader(dataset, **keywords(**given))


def order_of(loader: ps.Loader) -> list[int]:
    return [int(i) for batch in loader for i in batch["index"]]


def test_samples_of_all_kinds(parts: list[Path]) -> None:
    mixture = ps.Mixture(parts, lacking="drop")
    assert (len(mixture), mixture.kind, mixture.is_packed, mixture.is_folder) == (23, "mixture", False, False)
    assert list(mixture.fields) == ["image"]
    by_name = {}
    for i, sample in enumerate(mixture):
        number = int(mixture.name(i).partition("/")[2].split("/")[-1].split(".")[0])
        by_name[number] = sample["image"]
        name, own = mixture.source_of(i)
        source = mixture.sources[name]
        assert mixture.name(i) == f"{name}/{source.name(own)}" and mixture.index_of(mixture.name(i)) == i
        assert np.array_equal(source[own]["image"], sample["image"])
    assert sorted(by_name) == list(range(23))
    for number, image in by_name.items():
        assert np.array_equal(image, picture(number, 24 + number % 3, 32))
    assert "'1': " in repr(mixture) and "mixture" in mixture._repr_html_()
    assert str(parts[0]) in mixture.path and " + " in mixture.path
    with pytest.raises(ArgumentError, match=r"lacks the field \"label\""):
        ps.Mixture(parts)
    with pytest.raises(ArgumentError, match="'imagf'|imagf"):
        ps.Mixture(parts, fields=["imagf"])


def test_classes_are_joined(tmp_path: Path) -> None:
    a = write(tmp_path / "a", range(8), "ab")
    ps.pack(write(tmp_path / "files", range(9), "bc"), tmp_path / "b.pst")
    mixture = ps.Mixture({"one": a, "two": tmp_path / "b.pst"})
    assert mixture.classes == ["a", "b", "c"] == mixture.class_names("label")
    for i in range(len(mixture)):
        name, own = mixture.source_of(i)
        source = mixture.sources[name]
        assert mixture.classes[mixture[i]["label"]] == source.classes[source[own]["label"]]
    assert sorted(set(mixture.column("label"))) == [0, 1, 2]
    bees = mixture.filter(label=1)
    assert {bees.source_of(i)[0] for i in range(len(bees))} == {"one", "two"}
    with loader_of(mixture) as loader:
        labels = {int(i): int(label) for batch in loader for i, label in zip(batch["index"], batch["label"], strict=True)}
        assert labels == dict(enumerate(map(int, mixture.column("label"))))


def test_views_and_fields_of_sources(parts: list[Path], tmp_path: Path) -> None:
    folder = ps.Dataset(parts[1])
    mixture = ps.Mixture([ps.Dataset(parts[0]).subset([4, 2]), folder, folder.subset([6])], fields=["image"])
    assert len(mixture) == 10 and [mixture.source_of(i) for i in (0, 1, 2, 9)] == [("0", 4), ("0", 2), ("1", 0), ("2", 6)]
    folder.close()  # the mixture has its own handle
    with loader_of(mixture, shuffle=False) as loader:
        assert order_of(loader) == [4, 2, *range(10, 17), 23]
    assert [mixture.subset([9, 0]).source_of(i) for i in (0, 1)] == [("2", 6), ("0", 4)]
    (tmp_path / "tars").mkdir()
    write_tar(tmp_path / "tars" / "train-1.tar", range(3))
    write_tar(tmp_path / "tars" / "test-1.tar", range(3, 8))
    tars = [ps.Dataset(tmp_path / "tars", split=split, fields={"png": "photo"}) for split in ("train", "test")]
    split = ps.Mixture({"train": tars[0], "test": tars[1], "more": parts[1]}, fields=["image"],
                       rename={"train": {"photo": "image"}, "test": {"photo": "image"}})  # fmt: skip
    assert len(split) == 3 + 5 + 7 and split.name(0).startswith("train/")
    assert np.array_equal(split[3]["image"], picture(3, 24, 32))


def test_nested(parts: list[Path]) -> None:
    inner = ps.Mixture({"x": parts[0], "y": parts[1]}, fields=["image"])
    outer, flat = ps.Mixture({"in": inner, "tar": parts[2]}), ps.Mixture(parts, fields=["image"])
    assert outer.name(10).startswith("in/y/") and outer.source_of(10) == ("in/y", 0)
    assert outer.samples_identity == flat.samples_identity and outer.bytes_identity == flat.bytes_identity
    assert list(outer.sources) == ["in", "tar"] and outer.sources["in"].source_of(10) == ("y", 0)


def test_arguments(parts: list[Path]) -> None:
    for wrong, words in [
        ({"sources": []}, "one source"),
        ({"sources": str(parts[0])}, "list of data sets"),
        ({"sources": ps.Dataset(parts[0])}, "list of data sets"),
        ({"sources": {1: parts[0]}}, "names of sources"),
        ({"sources": {"a/b": parts[0]}}, "has a"),
        ({"sources": parts, "lacking": "keep"}, "lacking"),
        ({"sources": parts, "fields": "image"}, "fields is a list"),
        ({"sources": parts, "fields": []}, "fields is empty"),
        ({"sources": parts, "rename": {7: {"a": "b"}}}, "no source 7"),
        ({"sources": parts, "rename": {0: "a"}}, "dict of old names"),
        ({"sources": parts, "rename": {0: {"imag": "photo"}}}, "no field"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            ps.Mixture(**wrong)
    with pytest.raises(NotFoundError, match="nowhere"):
        ps.Mixture([parts[0], parts[0].parent / "nowhere"])


def test_pickles(parts: list[Path], tmp_path: Path) -> None:
    folder = ps.Dataset(parts[1]).subset([3, 1])
    mixture = ps.Mixture({"a": parts[0], "b": folder, "c": folder}, fields=["image"], rename={"a": {"label": "kind"}})
    for made in (mixture, mixture.subset([11, 0, 5])):
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is ps.Mixture and [again.name(i) for i in range(len(again))] == [made.name(i) for i in range(len(made))]
        assert again.bytes_identity == made.bytes_identity and list(again.fields) == ["image"]
        assert np.array_equal(again[1]["image"], made[1]["image"])
    with loader_of(mixture.subset([11, 0, 5]), shuffle=False) as loader:
        with pickle.loads(pickle.dumps(loader)) as again:
            assert order_of(loader) == order_of(again) == [mixture.subset([11, 0, 5]).indices[i] for i in range(3)]
    data = pickle.dumps(mixture)
    (tmp_path / "folder" / "a" / "010.png").write_bytes(encoded(picture(1, 40, 40), "png"))
    with pytest.raises(StateError, match="another data set, or a changed one"):
        pickle.loads(data)
    shutil.rmtree(tmp_path / "folder")
    with pytest.raises(NotFoundError, match="folder"):
        pickle.loads(data)


def test_configurations(parts: list[Path]) -> None:
    named = ps.Mixture({"a": ps.Dataset(parts[0]).subset([3, 1]), "b": parts[1]}, rename={"a": {"label": "kind"}}, lacking="drop")
    listed = ps.Mixture([parts[1], ps.Mixture(parts[:2])], rename={0: {"label": "kind"}}, fields=["image"])
    for made in (named, listed, listed.subset([5, 2, 7])):
        with loader_of(made, transforms=CHAIN) as loader:
            config = json.loads(json.dumps(loader.config()))
            assert "absent" not in config
            with ps.Loader.from_config(config) as again:
                assert order_of(again) == order_of(loader) and again.stats()["sources"] == loader.stats()["sources"]
    with pytest.raises(ArgumentError, match="no member 'lackin'"):
        ps.Loader.from_config({**config, "dataset": {"sources": [str(parts[0])], "lackin": "drop"}})


def test_states_resume_with_other_ranks(parts: list[Path], tmp_path: Path) -> None:
    """The rest of the epoch comes from all new ranks together, in its order, as if nothing had happened."""
    chance = random.Random(52)
    mixture = ps.Mixture(parts, fields=["image"])
    moved = tmp_path / "moved"  # resume works after the data moved and the sources were renamed
    ps.pack(parts[1], moved)
    other = ps.Mixture({"p": parts[0], "q": moved, "r": parts[2]}, fields=["image"])
    with loader_of(mixture, fields=[], batch_size=1) as loader:
        whole = order_of(loader)
    for round in range(200):
        world, size, rank = chance.randint(1, 4), chance.randint(1, 5), 0
        with loader_of(mixture, fields=[], batch_size=size, rank=rank, world_size=world) as loader:
            passes = iter(loader)
            for _ in range(chance.randrange(len(loader))):
                next(passes)
            state = loader.state_dict()
        world, size, rest = chance.randint(1, 5), chance.randint(1, 5), {}
        for rank in range(world):
            with loader_of((mixture, other)[round % 2], fields=[], batch_size=size, rank=rank, world_size=world) as loader:
                loader.load_state_dict(state)
                at = state["position"]
                for batch in loader:
                    left = len(whole) - at
                    block = min(size, -(-left // world))
                    rest.update((at + rank * block + i, int(index)) for i, index in enumerate(batch["index"]))
                    at += size * world
        assert [rest[i] for i in range(state["position"], len(whole))] == whole[state["position"]:]
    swapped = ps.Mixture([parts[1], parts[0], parts[2]], fields=["image"])
    with loader_of(swapped, fields=[]) as loader, pytest.raises(ArgumentError, match="another data set"):
        loader.load_state_dict(state)


def test_counts_and_cache(parts: list[Path]) -> None:
    mixture = ps.Mixture({"a": parts[0], "b": parts[1], "again": parts[0]}, fields=["image"])
    with loader_of(mixture, transforms=CHAIN, cache="64MiB") as loader:
        first, second = ([batch["image"].copy() for batch in loader] for _ in range(2))
        stats = loader.stats()
        assert stats["sources"] == {"a": {"delivered": 20}, "b": {"delivered": 14}, "again": {"delivered": 20}}
        assert 27 <= stats["cache"]["hits"] <= 37 and len(first) == len(second)  # the second "again" may already be there
        assert stats["cache"]["items"] == 17  # a data set given twice is stored once
    with loader_of(parts[0], transforms=CHAIN) as loader:
        assert loader.stats()["sources"] == {}
    with loader_of(mixture, transforms=CHAIN, cache="auto") as loader:
        order_of(loader)


def test_errors_name_the_source(parts: list[Path]) -> None:
    packed = ps.Dataset(parts[0])
    item = packed.item(6, "image")
    mixture = ps.Mixture({"f": parts[1], "p": parts[0]}, fields=["image"])
    with open(item["file"], "r+b") as file:
        file.seek(item["offset"] + item["nbytes"] // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 90]))
    for read in (lambda: mixture[13], lambda: order_of(loader_of(mixture, transforms=CHAIN))):
        with pytest.raises(ChecksumError, match=r"packed.pst', sample 6 \(13 of the mixture\)") as caught:
            read()
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.sample, error.source_sample, error.dataset) == (13, 6, str(parts[0]))
    with loader_of(mixture, transforms=CHAIN, on_error="skip") as loader:
        assert len(order_of(loader)) == 16
        (entry,) = loader.quarantine
        assert (entry["sample"], entry["source_sample"], entry["dataset"]) == (13, 6, str(parts[0]))
        assert entry["name"] == mixture.name(13)


def test_a_bad_image_names_the_source(tmp_path: Path) -> None:
    write(tmp_path / "a", range(3))
    bad = write(tmp_path / "b", range(3)) / "a" / "002.png"
    bad.write_bytes(bad.read_bytes()[:200])
    mixture = ps.Mixture([tmp_path / "a", tmp_path / "b"], fields=["image"])
    with pytest.raises(ps.PenstockError, match=r"/b: sample 1 \(4 of the mixture\)") as caught:
        mixture[4]
    assert (caught.value.sample, caught.value.source_sample, caught.value.file) == (4, 1, str(bad))


def test_torch_and_functions(parts: list[Path]) -> None:
    torch = pytest.importorskip("torch")
    mixture = ps.Mixture(parts, fields=["image"])
    dataset = ps.TorchDataset(mixture, CHAIN, seed=5)
    assert len(dataset) == 23 and dataset.dataset is mixture
    with loader_of(mixture, transforms=CHAIN, shuffle=False, batch_size=23) as loader:
        (wanted,) = [batch["image"] for batch in loader]
    for workers in (0, 2):
        batches = list(torch.utils.data.DataLoader(dataset, 5, num_workers=workers))
        assert np.array_equal(np.concatenate([batch["image"].numpy() for batch in batches]), wanted)


def test_functions_name_the_source(parts: list[Path]) -> None:
    mixture = ps.Mixture(parts, fields=["image"])

    def fails(sample: dict[str, object]) -> dict[str, object]:
        if int(sample["index"]) == 12:
            raise ValueError("not this one")
        return sample

    with loader_of(mixture, transforms=CHAIN, functions=ps.Functions(fails)) as loader:
        with pytest.raises(ps.errors.FunctionError, match=r"sample 2 \(12 of the mixture\)") as caught:
            order_of(loader)
        assert (caught.value.sample, caught.value.source_sample, caught.value.dataset) == (12, 2, str(parts[1]))
