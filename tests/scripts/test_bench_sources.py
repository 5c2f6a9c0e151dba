"""The parts of bench/sources that measure nothing: what is written and compared, cells and their goals, tables and pictures."""

import argparse
import json
import xml.etree.ElementTree as ET
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from bench_modules import BENCH, load

containers, make_containers, cell, common = (load(*place) for place in (
    ("sources", "containers"), ("sources", "make_containers"), ("sources", "cell"), ("loader", "common")))


def figures(group, source, cores, later, **more):
    return {"group": group, "source": source, "cores": cores, "name": source, "versions": {source: "1"}, "first": later / 2,
            "later": later, "low": later, "high": later, "peak_mb": 10.0, "prepared_s": 0.0, "opened_s": 0.5, "again_s": 0.25,
            "foreign_cores": 0.0, **more}


def merged(cells, short=False):
    containers.with_ratios(cells)
    forms = {group.form: {"stored_mb": 9.5} for group in containers.GROUPS.values()}
    return {"bench": "containers", "cells": cells, "forms": forms,
            "settings": {"images": 280, "set_mb": 32.2, "rounds": 5, "epochs": 3, "copies": 1, "short": short},
            "machine": {"cpu": "a CPU", "cores": 2, "commit": "0123", "date": "2026-01-01"}}


def test_each_name_has_its_parts():
    """Everything that a table names exists: modules, environments with pinned versions, writers. Penstock is the first of each
    group."""
    names = containers.environments.ENVIRONMENTS
    assert {source for group in containers.GROUPS.values() for source in group.sources} == set(containers.SOURCES)
    for source, kind in containers.SOURCES.items():
        assert (BENCH / "sources" / f"source_{source}.py").is_file()
        assert kind == containers.environments.OWN or kind in names
    for group in containers.GROUPS.values():
        assert group.sources[0] == "penstock"
        assert group.form in make_containers.WRITERS
    assert set(make_containers.WRITERS) == set(make_containers.KINDS)
    for kind in {*make_containers.KINDS.values(), *containers.SOURCES.values()} - {containers.environments.OWN}:
        assert (BENCH / "loader" / "pins" / f"{kind}.txt").is_file()
    for goal in containers.GOALS:
        assert goal.source in containers.GROUPS[goal.group].sources


@pytest.mark.parametrize("n", [1, 7, 8, 9, 280])
def test_files_have_all_samples_once(n):
    parts = make_containers.parts(n)
    assert [i for part in parts for i in part] == list(range(n))
    assert all(len(part) > 0 for part in parts) and len(parts) <= make_containers.SHARDS


def test_cells_are_those_that_were_asked_for():
    assert containers.cells_of(["mds", "rows"], ["penstock", "lance"], [1, 2]) == [
        ("mds", "penstock", 1), ("rows", "penstock", 1), ("rows", "lance", 1),
        ("mds", "penstock", 2), ("rows", "penstock", 2), ("rows", "lance", 2)]
    assert containers.form_of("rows_snappy", "lance") == "lance"
    assert containers.form_of("rows_snappy", "penstock") == "parquet_snappy"


def test_a_cell_without_its_library_or_its_file_says_why():
    made = {"mds": {"absent": "was not made: no such codec"}, "lmdb": {"seconds": 1.0}}
    assert containers.reason_of(("mds", "mosaic", 2), {"mosaic": "no wheel"}, made) == "did not install: no wheel"
    assert containers.reason_of(("mds", "penstock", 2), {"mosaic": "no wheel"}, made) == "was not made: no such codec"
    assert containers.reason_of(("lmdb", "penstock", 2), {}, made) is None


def test_links_are_the_same_files_and_go_alone(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a").write_bytes(b"x")
    containers.link(tmp_path / "made", tmp_path / "own")
    assert (tmp_path / "made" / "a").samefile(tmp_path / "own" / "a")
    (tmp_path / "own" / "index").touch()
    containers.common.remove(tmp_path / "own")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["a"]


def test_goals_are_reached_at_their_factor():
    def said(later, short=False):
        found = merged([figures("mds", "penstock", 2, later), figures("mds", "mosaic", 2, 100.0)], short)
        return containers.verdict(found)

    (line,) = said(300.0)
    assert line.endswith("3.0 x: reached.") and "MDS, 2 cores: 3 x mosaic" in line
    assert said(298.0)[0].endswith("2.98 x: missed.")
    assert said(300.0, short=True)[0].endswith("which says nothing.")
    assert containers.verdict(merged([figures("mds", "mosaic", 2, 100.0)])) == []
    assert containers.verdict(merged([figures("mds", "penstock", 1, 300.0), figures("mds", "mosaic", 1, 100.0)])) == []


def test_the_table_and_the_picture_have_all_cells():
    cells = [figures("parquet", "penstock", 2, 400.0), figures("parquet", "rowgroups", 2, 40.0, foreign_cores=1.0),
             {"group": "parquet", "source": "lance", "cores": 2, "absent": "did not install: no | wheel"},
             figures("rows", "penstock", 1, 9000.0)]
    found = merged(cells)
    text = containers.table(found)
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| loader")]
    assert [row.split(" | ")[0] for row in rows] == ["| penstock", "| rowgroups (other programs ran)", "| lance", "| penstock"]
    assert " | 10.00 | 10.00 | " in rows[1] and " | - | - | " in rows[0] and "no / wheel" in rows[2]
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|") and "no / wheel" not in line}) == 1
    assert "(9.5 MB)" in text and "A short run" not in text
    assert "A short run" in containers.table(merged(cells, short=True))
    assert ET.fromstring(containers.picture(found)) is not None


class Source:
    """Delivers the given samples in batches of two."""

    NAME = "a source"

    def __init__(self, values, numbers):
        self.values, self.numbers = values, numbers

    def epochs(self, work, store, threads, buffer, fixed, rows=False):
        yield ((self.values[i:i + 2], self.numbers[i:i + 2]) for i in range(0, len(self.values), 2))


def rows_args(values):
    return argparse.Namespace(store=None, threads=1, buffer=1, expected=[{"crc": zlib.crc32(value)} for value in values])


@pytest.mark.parametrize(("values", "numbers", "why"), [
    ([b"c", b"a", b"b"], [2, 0, 1], None),
    ([b"c", b"a", b"B"], [2, 0, 1], "sample 1 has other bytes"),
    ([b"c", b"a", b"b"], [2, 1, 0], "sample 1 has other bytes"),
    ([b"c", b"a"], [2, 0], "2 samples of 3"),
    ([b"c", b"a", b"a"], [2, 0, 0], "3 samples of 3, 2 of them different"),
])
def test_rows_are_compared_with_their_files(values, numbers, why):
    args = rows_args([b"a", b"b", b"c"])
    if why is None:
        assert cell.check_rows(Source(values, numbers), None, args) == {"rows": 3}
    else:
        with pytest.raises(SystemExit, match=why):
            cell.check_rows(Source(values, numbers), None, args)


def test_mean_colours_are_compared_by_number():
    expected = [{"means": [0.0, 0.5, 1.0]}, {"means": [-1.0, 0.0, 0.25]}]
    near = {1: [-1.0, 0.01, 0.25], 0: [0.0, 0.5, 1.0]}
    assert cell.check_means(near, expected, "x") == round(0.01 * common.STD[1] * 255, 3)
    with pytest.raises(SystemExit, match="sample 1 differs"):
        cell.check_means({0: [0.0, 0.5, 1.0], 1: [-1.0, 0.1, 0.25]}, expected, "x")
    with pytest.raises(SystemExit, match="differs"):
        cell.check_means({1: [0.0, 0.5, 1.0], 0: [-1.0, 0.0, 0.25]}, expected, "x")


def test_expected_images_are_those_of_the_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    root = tmp_path / "imagenet"
    for i in range(3):
        (root / f"c{i}").mkdir(parents=True)
        image.fromarray(np.full((8, 8, 3), 80 * i, np.uint8)).save(root / f"c{i}" / "a.JPEG")
    work = common.Work("imagenet", root, 2, 4, True, True)
    make_containers.write_expected(SimpleNamespace(files=work.files, size=4, resized=True), tmp_path / "expected")
    found = json.loads((tmp_path / "expected" / make_containers.EXPECTED).read_text())
    assert [one["crc"] for one in found] == [zlib.crc32(path.read_bytes()) for path in work.files()]
    for i, one in enumerate(found):
        assert one["means"] == pytest.approx([(80 * i / 255 - mean) / std
                                              for mean, std in zip(common.MEAN, common.STD, strict=True)], abs=0.02)
