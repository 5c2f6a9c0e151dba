"""Metadatasets of Megatron-Energon as mixtures: weights, repetitions, subsets, nested files, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock as ps
from penstock.data.metadataset import Range, chosen
from penstock.errors import ArgumentError, CorruptError, NotFoundError, PenstockError

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"
HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Makes data sets a, b and c of 10, 20 and 30 numbers, which start at 0, 100 and 200."""
    for k, name in enumerate("abc"):
        with ps.Writer(tmp_path / name, {"label": ps.Int()}) as writer:
            for i in range(10 * (k + 1)):
                writer.write({"label": 100 * k + i})
    return tmp_path


def written(place: Path, text: str, name: str = "meta.yaml") -> Path:
    (place / name).write_text(text)
    return place / name


def batches(mixture: ps.Mixture, n: int) -> list[list[int]]:
    with ps.Loader(mixture, batch_size=n, shuffle=True, seed=1, output="numpy", num_workers=0, cache=None) as loader:
        return [batch["label"].tolist() for batch in loader]


def shares(batch: list[int]) -> list[int]:
    return [sum(label // 100 == k for label in batch) for k in range(3)]


def test_weights(place: Path) -> None:
    blend = "    blend:\n      - weight: 5\n        path: ./a\n      - weight: 2.0\n        path: b\n      - path: c\n"
    path = written(place, HEAD + "  train:\n" + blend + "  val:\n    path: ./c\n")
    for batch in batches(ps.Mixture.from_energon(path), 8):
        assert shares(batch) == [5, 2, 1]
    assert len(batches(ps.Mixture.from_energon(path, stop="first_exhausted"), 8)) == 2
    val = ps.Mixture.from_energon(path, "val")
    assert sorted(sum(batches(val, 7), [])) == [*range(200, 230)]
    with pytest.raises(ArgumentError, match="with weights"):
        ps.Mixture.from_energon(path, "val", stop="endless")


def test_repetitions_and_subsets(place: Path) -> None:
    """The example of Energon's documentation: an inner subset is taken first, then the part that the outer subset names."""
    parts = "      - {path: a, subset: {range: [0, 10]}}\n      - {repetitions: 2, path: b, subset: {range: [5, 15]}}\n"
    path = written(place, HEAD + "  train:\n    subset: {range: [20%, 80%]}\n    blend_epochized:\n" + parts)
    assert sorted(sum(batches(ps.Mixture.from_energon(path), 5), [])) == sorted([*range(2, 8), *[*range(107, 113)] * 2])
    outer = written(place, HEAD + "  train:\n    blend_epochized:\n      - path: meta.yaml\n        subset: {range: [50%, 100%]}\n"
                    "      - path: c\n        subset: {range: [10%, 12.5%]}\n", "outer.yml")  # fmt: skip
    assert sorted(sum(batches(ps.Mixture.from_energon(outer), 5), [])) == [5, 6, 7, 110, 110, 111, 111, 112, 112]


def test_subsets_are_those_of_energon_to_the_sample() -> None:
    """Energon combines nested subsets into one range and rounds once: int(n * (percent / 100))."""
    assert chosen([Range(0.0, 0.9, True)], 70) == range(63)
    for n in range(200):
        for percent in range(101):
            assert chosen([Range(percent / 100, 1.0, True)], n) == range(int(n * (percent / 100)), n)
    half = Range(0.5, 1.0, True)
    late = Range(0.1, 1.0, True)
    assert chosen([late, late], 6) == range(1, 6)  # int(6 * 0.19); if each part were rounded, the result would be 0
    assert chosen([Range(3, 9, False), half], 100) == range(6, 9) and chosen([Range(3, 9, False), half], 5) == range(4, 5)


def test_files_within_files(place: Path) -> None:
    written(place, "splits:\n  train:\n    datasets:\n      - {weight: 1, path: a}\n      - {weight: 3, path: b}\n", "first.yaml")
    path = written(place, HEAD + "  train:\n    blend:\n      - {weight: 1, path: first.yaml}\n      - {weight: 1, path: c}\n")
    for batch in batches(ps.Mixture.from_energon(path), 8):
        assert shares(batch) == [1, 3, 4]
    loop = written(place, HEAD + "  train:\n    path: loop.yaml\n", "loop.yaml")
    with pytest.raises(CorruptError, match="name each other"):
        ps.Mixture.from_energon(loop)


def test_prepared_folders(tmp_path: Path) -> None:
    """A folder that Energon prepared has its own splits. The metadataset's split is used, or the split that it names for the
    folder.
    """
    folder = shutil.copytree(GOLDEN / "energon_splits", tmp_path / "prepared")
    for shard in (GOLDEN / "webdataset").glob("shards-*.tar"):
        shutil.copy(shard, folder)
    path = written(tmp_path, HEAD + "  train:\n    path: prepared\n  val:\n    path: prepared\n  test:\n    blend_epochized:\n"
                   "      - {path: prepared, split_part: train}\n      - {path: prepared, split: val}\n")  # fmt: skip
    assert [len(ps.Mixture.from_energon(path, split)) for split in ("train", "val", "test")] == [4, 2, 6]
    other = written(tmp_path, HEAD + "  more:\n    path: prepared\n", "other.yaml")
    with pytest.raises(PenstockError, match=r"train.*val"):
        ps.Mixture.from_energon(other, "more")


def test_what_is_refused(place: Path) -> None:
    blend = "  train:\n    blend:\n      - "
    for text, words in [
        (HEAD + blend + "{path: a, weight: x}\n", "line 6: weight: a number"),
        (HEAD + blend + "{path: a, weight: -1}\n", "weight: a number"),
        (HEAD + blend + "{path: a, weight: nan}\n", "weight: a number"),
        (HEAD + blend + "{path: a, subflavors: {x: y}}\n", "'subflavors' is not read"),
        (HEAD + blend + "{path: a, repetitions: 2}\n", "'repetitions' is not read"),
        (HEAD + blend + "{path: a, shuffle_over_epochs_multiplier: 3}\n", "read only where it is 1"),
        (HEAD + blend + "{join: [a, b]}\n", "one of path is expected"),
        (HEAD + blend + "a\n", "a map is expected"),
        (HEAD + "  train:\n    blend: a\n", "a list of data sets"),
        (HEAD + "  train:\n    blend: []\n", "a list of data sets"),
        (HEAD + "  train:\n    path: a\n    blend: []\n", "path and blend"),
        (HEAD + "  train:\n    blend:\n      - path: a\n    joiner: x\n", "'joiner' is not read"),
        (HEAD + "  train:\n    path: a\n    subset: {range: [0%, 101%]}\n", "no range"),
        (HEAD + "  train:\n    path: a\n    subset: {range: [5, 3]}\n", "no range"),
        (HEAD + "  train:\n    path: a\n    subset: {range: [5, 11]}\n", "ends at 11, and the data set has 10 samples"),
        (HEAD + "  train:\n    path: a\n    subset: {range: [5, 30%]}\n", "two percentages"),
        (HEAD + "  train:\n    path: a\n    subset: {range: [1]}\n", "two percentages"),
        (HEAD + "  train:\n    path: a\n    subset: 3\n", "range:"),
        (HEAD + "  train:\n    subset: {range: [0, 3]}\n    blend:\n      - path: a\n", "two percentages"),
        (HEAD + "  train:\n    blend_epochized:\n      - {path: a, repetitions: 1.5}\n", "whole number"),
        (HEAD + "  train:\n    blend_epochized:\n      - {path: a, repetitions: 0}\n", "1 to 1000"),
        (HEAD + "  val:\n    path: a\n", "no split 'train': the file has 'val'"),
        (HEAD.replace("V2", "V3") + "  train:\n    path: a\n", "MetadatasetV2 and Metadataset are read"),
        ("splits: 3\n", "a map of splits"),
        ("a: 3\n", "'a' is not read"),
        ("- a\n", "keys with values"),
        ("", "expected|empty|keys"),
    ]:
        with pytest.raises(CorruptError, match=words):
            ps.Mixture.from_energon(written(place, text))
    with pytest.raises(ArgumentError, match="sum is 0"):
        ps.Mixture.from_energon(written(place, HEAD + blend + "{path: a, weight: 0}\n"))
    with pytest.raises(NotFoundError):
        ps.Mixture.from_energon(written(place, HEAD + "  train:\n    path: nowhere\n"))
    with pytest.raises(NotFoundError):
        ps.Mixture.from_energon(place / "none.yaml")
