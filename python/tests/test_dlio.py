"""bench/dlio/penstock_dlio.py with stand-ins for DLIO's base classes, which have the same members (dlio_benchmark of June 2026).
bench/dlio runs the real program."""

from __future__ import annotations

import enum
import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps


class DatasetType(enum.Enum):
    TRAIN, VALID = "train", "valid"


class Shuffle(enum.Enum):
    OFF, SEED = "off", "seed"


class DataLoaderType(enum.Enum):
    PYTORCH = "pytorch"


class Base:
    """Sets the members that DLIO's BaseDataLoader and FormatReader set, from the one configuration of the process."""

    args: Any

    def __init__(self, *arguments: Any) -> None:
        self._args = Base.args
        if len(arguments) == 4:
            _, self.dataset_type, self.epoch_number, _ = arguments
        else:
            self.dataset_type, self.thread_index = arguments
        self.batch_size = 4
        self._file_list = Base.args.file_list_train
        self.global_index_map = {i: (file, 0) for i, file in enumerate(map(str, map(Path.resolve, map(Path, self._file_list))))}
        self.file_map = {0: [(i, file, 0) for i, (file, _) in self.global_index_map.items()]}
        self.preprocessed = 0

    def preprocess(self, a: Any = None) -> Any:
        self.preprocessed += 1
        return a


@pytest.fixture
def dlio(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Any]:
    names = ("common.enumerations", "data_loader.base_data_loader", "reader.reader_handler")
    for name in ("", ".common", ".data_loader", ".reader", *("." + n for n in names)):
        monkeypatch.setitem(sys.modules, "dlio_benchmark" + name, types.ModuleType("dlio_benchmark" + name))
    enumerations = sys.modules["dlio_benchmark.common.enumerations"]
    for thing in (DatasetType, Shuffle, DataLoaderType):
        setattr(enumerations, thing.__name__, thing)
    sys.modules["dlio_benchmark.data_loader.base_data_loader"].BaseDataLoader = Base  # type: ignore[attr-defined]
    sys.modules["dlio_benchmark.reader.reader_handler"].FormatReader = Base  # type: ignore[attr-defined]
    files = sorted(str(path) for path in folder.rglob("*.*"))
    Base.args = types.SimpleNamespace(
        file_list_train=files, file_list_eval=files[:8], sample_shuffle=Shuffle.SEED, seed=7, read_threads=2, prefetch_size=0,
        my_rank=0, comm_size=1,
    )  # fmt: skip
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "bench" / "dlio")
    monkeypatch.setenv("PENSTOCK_DLIO_CROP", "16")
    yield importlib.import_module("penstock_dlio")
    sys.modules.pop("penstock_dlio", None)


def test_loader_gives_each_epoch_once_in_a_new_order(dlio: Any) -> None:
    loader = dlio.Loader("jpeg", DatasetType.TRAIN, 1)
    loader.read()
    first = list(loader.next())
    loader.finalize()
    second = list(loader.next())  # DLIO does not call read again for the second epoch
    loader.finalize()
    assert [b.shape for b in first] == [(4, 3, 16, 16)] * 6 and first[0].dtype == np.float32
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert loader.epoch_number == 3


def test_loader_gives_bytes(dlio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DLIO_DECODE", "0")
    Base.args.sample_shuffle = Shuffle.OFF
    loader = dlio.Loader("jpeg", DatasetType.VALID, 0)
    found = [bytes(row) for batch in loader.next() for row in batch]
    assert found == [Path(file).read_bytes() for file in Base.args.file_list_eval]


def test_loader_reads_a_packed_data_set_of_the_folder(dlio: Any, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = list(dlio.Loader("jpeg", DatasetType.TRAIN, 0).next())
    monkeypatch.setenv("PENSTOCK_DLIO_DATA", str(packed))
    for a, b in zip(plain, dlio.Loader("jpeg", DatasetType.TRAIN, 0).next(), strict=True):
        assert np.array_equal(a, b)  # pli-jpeg decodes to the pixels of the JPEG


def test_ranks_share_an_epoch(dlio: Any) -> None:
    counts = []
    for rank in range(2):
        Base.args.my_rank, Base.args.comm_size = rank, 2
        counts.append(len(list(dlio.Loader("jpeg", DatasetType.TRAIN, 0).next())))
    assert counts == [3, 3]


def test_reader_gives_real_pixels(dlio: Any) -> None:
    pytest.importorskip("torch")
    reader = dlio.Reader(DatasetType.TRAIN, 0, 0)
    sample = reader.read_index(5, 1)
    assert tuple(sample.shape) == (3, 16, 16) and float(sample.std()) > 0 and reader.preprocessed == 1
    assert [b.shape for b in reader.next()] == [(4, 3, 16, 16)] * 6
    assert reader.is_index_based() and reader.is_iterator_based()


def test_wrong_settings(dlio: Any, monkeypatch: pytest.MonkeyPatch, packed: Path) -> None:
    monkeypatch.setenv("PENSTOCK_DLIO_CROP", "big")
    with pytest.raises(ps.errors.ArgumentError, match="PENSTOCK_DLIO_CROP"):
        dlio.Loader("jpeg", DatasetType.TRAIN, 0).read()
    monkeypatch.setenv("PENSTOCK_DLIO_DECODE", "yes")
    with pytest.raises(ps.errors.ArgumentError, match="PENSTOCK_DLIO_DECODE"):
        dlio.decodes()
    with pytest.raises(ps.errors.ArgumentError, match="no files"):
        dlio.samples_of([])
    monkeypatch.setenv("PENSTOCK_DLIO_DATA", str(packed))
    with pytest.raises(ps.errors.NotFoundError, match="was the data set packed of"):
        dlio.samples_of([str(packed / "other" / "x.jpg"), str(packed / "other" / "y.jpg")])
