"""The comparison of loaders: its rule for crops, its reference, and table lines for missing and disturbed peers. Figures are
invented."""

import itertools
import json
import os
import random
import sys
import types
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench_modules import BENCH, load

LOADER = BENCH / "loader"
common, measure, report, environments = (load("loader", name) for name in ("common", "measure", "report", "environments"))
bars = report.runner.bars


@pytest.mark.parametrize("size", [(500, 375), (40, 1000), (1000, 40), (1, 1)])
def test_random_boxes_lie_inside(size):
    random.seed(5)
    for _ in range(300):
        left, top, width, height = common.random_box(*size)
        assert left >= 0 and top >= 0 and width > 0 and height > 0
        assert left + width <= size[0] and top + height <= size[1]


def test_random_boxes_have_the_areas_and_ratios_of_the_rule():
    random.seed(5)
    boxes = [common.random_box(800, 600) for _ in range(2000)]
    areas = [w * h / 480000 for _, _, w, h in boxes]
    ratios = [w / h for _, _, w, h in boxes]
    assert 0.075 < min(areas) < 0.1 and 0.9 < max(areas) <= 1
    assert 0.74 < min(ratios) < 0.76 and 1.32 < max(ratios) < 1.35


def test_no_box_fits_so_the_largest_allowed_is_taken():
    assert common.random_box(10, 1000)[2:] == (10, 13)
    assert common.random_box(1000, 10)[2:] == (13, 10)


def test_area_means_are_means():
    array = np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(common.area_means(array, 3), array.reshape(3, 2, 2).mean(axis=1))
    # From 3 samples to 2: the middle sample counts half in each mean.
    np.testing.assert_allclose(common.area_means(np.array([0.0, 3.0, 9.0]), 2), [1.0, 7.0])
    np.testing.assert_allclose(common.area_means(np.array([2.0, 4.0]), 4), [2, 2, 4, 4])


def test_what_is_made_is_whole_or_absent(tmp_path):
    target = tmp_path / "store"

    def fails(path):
        path.mkdir()
        (path / "half").write_text("")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        common.made(target, fails)
    assert not target.exists()
    assert common.made(target, lambda path: path.write_text("whole")) == target
    assert common.made(target, fails).read_text() == "whole"


class Peer:
    NAME = "a peer"

    def __init__(self, change):
        self.change = change

    def evaluate(self, work, store, files):
        return self.change(common.reference(work, files))


def work_of(folder, size=32):
    (folder / "g" / "c").mkdir(parents=True)
    rng = np.random.default_rng(3)
    for i in range(3):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
        coarse.resize((80, 60), Image.Resampling.BICUBIC).save(folder / "g" / "c" / f"{i}.png")
    return common.Work("g", folder / "g", 2, size, True, False)


@pytest.mark.parametrize("change", [
    lambda x: x[:, ::-1], lambda x: x[:, :, ::-1], lambda x: x[..., ::-1], lambda x: np.roll(x, 1, axis=3),
    lambda x: x + 0.05, lambda x: x * np.nan, lambda x: x.astype(np.float64), lambda x: x[:, :, :-1], lambda x: x[::-1],
], ids=["channels", "upside down", "mirrored", "shifted", "brighter", "not numbers", "double", "too small", "other images"])
def test_another_picture_is_rejected(tmp_path, change):
    work = work_of(tmp_path)
    with pytest.raises(SystemExit):
        measure.check(Peer(change), work, work.root)


def test_the_same_picture_passes(tmp_path):
    work = work_of(tmp_path)
    assert measure.check(Peer(lambda x: x + 0.001), work, work.root)["mean_levels"] < 0.1


def test_disturbed_windows_are_timed_again_and_then_reported(monkeypatch):
    def run(foreign, windows, retries):
        values = iter(foreign)
        monkeypatch.setattr(measure, "window", lambda *_: {"images_per_s": 1.0, "cpu_ms": 1.0, "foreign": next(values)})
        args = type("Args", (), {"windows": windows, "retries": retries, "seconds": 1})
        runs = measure.time_windows(None, args)
        return len(runs), sum(map(measure.is_clean, runs))

    assert run([0, 0, 0], 3, 5) == (3, 3)
    assert run([0, 0.9, 0, 0.2, 0], 3, 5) == (5, 3)
    assert run([0.9] * 8, 3, 5) == (8, 0)


def test_figures_are_medians_of_clean_windows_or_of_all():
    runs = [{"images_per_s": float(rate), "cpu_ms": 1 / rate, "foreign": foreign} for rate, foreign in ((10, 0), (8, 0.9), (20, 0))]
    found = measure.summed(runs)
    assert (found["images_per_s"], found["low"], found["high"], found["clean"], found["disturbed"]) == (15, 10, 20, 2, 1)
    found = measure.summed(runs[1:2])
    assert (found["images_per_s"], found["clean"], found["disturbed"], found["foreign_cores"]) == (8, 0, 1, 0.9)


def cell(peer, speed, cores=1, **more):
    return {"group": "imagenet", "cores": cores, "peer": peer, "name": peer.upper(), "decodes": True, "images_per_s": speed,
            "low": speed, "high": speed, "cpu_ms_per_image": 1.0, "peak_rss_mb": 1, "stored_mb": 1.0, "clean": 3,
            "disturbed": 0, "check": {"mean_levels": 0.1}, "versions": {peer: "1"}, **more}


MERGED = {"machine": {"cpu": "a <cpu>", "cores": 2, "commit": "abc", "date": "2000-01-02"},
          "settings": {"seconds": 1, "windows": 3, "retries": 5},
          "cells": [cell("penstock", 200.0), cell("dali", 100.0), cell("ffcv_raw", 400.0, decodes=False),
                    cell("pillow", 50.0, clean=0, disturbed=8), cell("penstock", 400.0, 2),
                    {"group": "imagenet", "cores": 1, "peer": "spdl", "absent": "did not install: no | wheel"}]}


def test_the_table_compares_with_peers_that_decode():
    rows = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")] for line in report.table(MERGED).splitlines()
            if line.startswith("| ")}
    assert rows["PENSTOCK"][3] == "-"  # two cores have no peer
    assert rows["DALI"][3] == "1.00" and rows["FFCV_RAW"][3] == "4.00" and rows["PILLOW"][3] == "0.50"
    assert rows["PILLOW"][8] == "0/8 **disturbed**"
    assert rows["spdl"][2] == "did not install: no / wheel"


def test_the_picture_is_xml_and_names_every_loader():
    texts = [element.text for element in ET.fromstring(bars(MERGED)).iter() if element.text and element.text.strip()]
    for name in ("PENSTOCK", "DALI", "FFCV_RAW", "PILLOW", "50 (disturbed)"):
        assert name in texts
    assert not any("SPDL" in text for text in texts)


def test_nothing_measured_is_no_error():
    absent = {**MERGED, "cells": [c for c in MERGED["cells"] if "absent" in c]}
    for merged in (absent, {**MERGED, "cells": []}):
        assert ET.fromstring(bars(merged)).tag.endswith("svg")
        assert report.table(merged)


def test_every_peer_has_a_module_and_an_environment_with_pins():
    for peer, environment in report.PEERS.items():
        assert (LOADER / f"peer_{peer}.py").exists()
        pins = (LOADER / "pins" / f"{environment}.txt").read_text().lower().replace("_", "-")
        wanted = environments.ENVIRONMENTS[environment]
        for package in (*wanted.packages, *wanted.alone):
            assert f"\n{package}==" in pins, (environment, package)


class Chunks:
    """Iterates like LitData's data sets: an epoch ends with StopIteration, and the epoch's number is raised."""

    def __init__(self, folder, n=2, **_):
        self.current_epoch, self.left, self.n = 1, [], n

    def __iter__(self):
        self.left = [f"{self.current_epoch}.{i}" for i in range(self.n)]
        return self

    def __next__(self):
        if not self.left:
            self.current_epoch += 1
            raise StopIteration
        return self.left.pop(0)


def optimize(fn, inputs, output_dir, **_):
    """Loses the samples with label 9, and leaves behind the environment variables it was given and one of its own."""
    samples = [fn(i) for i in inputs]
    kept = [sample["image"]["path"] for sample in samples if sample["label"] != 9]
    os.environ["DATA_OPTIMIZER_NUM_WORKERS"] = "1"
    Path(output_dir).mkdir()
    index = {"chunks": [{"chunk_size": len(kept)}], "files": kept, "folder": os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"]}
    (Path(output_dir) / "index.json").write_text(json.dumps(index))


@pytest.fixture
def litdata_peer(monkeypatch):
    for name, members in (("litdata", {"StreamingDataset": Chunks, "optimize": optimize, "Image": dict}), ("torch", {}),
                          ("peer_torchvision", {})):  # fmt: skip
        stand_in = types.ModuleType(name)
        vars(stand_in).update(members)
        monkeypatch.setitem(sys.modules, name, stand_in)
    return load("loader", "peer_litdata")


def test_litdata_goes_from_epoch_to_epoch(litdata_peer):
    assert list(itertools.islice(litdata_peer.Forever(""), 5)) == ["1.0", "1.1", "2.0", "2.1", "3.0"]
    # an empty data set must not make an endless loop of epochs
    with pytest.raises(litdata_peer.common.Unavailable, match="no samples"):
        next(iter(litdata_peer.Forever("", n=0)))


def test_litdata_writes_chunks_in_the_order_of_the_files_beside_no_other_data(litdata_peer, tmp_path):
    work = work_of(tmp_path)
    store = litdata_peer.prepare(work)
    found = json.loads((store / "index.json").read_text())
    assert found["files"] == [str(path) for path in work.files()] and litdata_peer.n_stored(store) == 3
    assert str(tmp_path) in found["folder"]  # the folder is emptied, so it must not be /tmp/data
    assert "DATA_OPTIMIZER_NUM_WORKERS" not in os.environ
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", store.name]


def test_chunks_of_litdata_that_lack_samples_are_no_store(litdata_peer, tmp_path, monkeypatch):
    work = work_of(tmp_path)
    monkeypatch.setattr(type(work), "labels", lambda _: [0, 9, 0])
    with pytest.raises(RuntimeError, match="2 of 3 samples"):
        litdata_peer.prepare(work)
    assert not work.store("litdata").exists()


def test_the_python_of_the_bench_needs_no_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert environments.python_of(tmp_path, environments.OWN) == Path(sys.executable)
    assert environments.variables(tmp_path, environments.OWN, A="1") == {**os.environ, "A": "1"}
    assert environments.variables(tmp_path, "litdata")["LD_LIBRARY_PATH"] == str(tmp_path / "stand_in")
    asked = []
    monkeypatch.setattr(environments, "prepare", lambda build, name: asked.append(name))
    monkeypatch.setattr(environments.subprocess, "run", lambda *_, **__: None)
    assert environments.install(tmp_path, [environments.OWN, "dali"], penstock=False) == {}
    assert asked == ["torch", "dali"]


def test_what_does_not_install_gives_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setitem(environments.ENVIRONMENTS, "tf", environments.Environment(("tensorflow-cpu",)))
    assert "tensorflow-cpu" in environments.prepare(tmp_path, "tf")  # says that the package is missing or in conflict
    assert not (tmp_path / "venv" / "tf" / "ready").exists()
    assert "ERROR" in (tmp_path / "install.log").read_text()
