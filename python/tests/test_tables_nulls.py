"""Rows of a table that lack a value in an int column. The column is left out, or is an error if a rule names it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from conftest import PROGRAM

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers" / "parquet"


@pytest.fixture
def table(tmp_path):
    """A Parquet file whose int column "maybe" has nulls."""
    return shutil.copy(GOLDEN / "pyarrow_default.parquet", tmp_path)


def test_an_int_column_with_nulls_is_left_out(table):
    rows = [json.loads(line) for line in (GOLDEN / "pyarrow_default.jsonl").read_text().splitlines()]
    assert rows[0]["maybe"] == "int"
    program = "import sys, penstock as ps; ds = ps.Dataset(sys.argv[1]); print(len(ds), *ds.fields)"
    done = subprocess.run([sys.executable, "-c", program, str(table)], env={**os.environ, "PENSTOCK_LOG_LEVEL": "warning"},
                          capture_output=True, text=True, check=True)  # fmt: skip
    n, *fields = done.stdout.split()
    assert int(n) == len(rows) - 1
    assert "label" in fields
    assert "maybe" not in fields
    assert 'the field "maybe" is left out: it has no value in ' in done.stderr
    assert 'the first of them "pyarrow_default/00000001"' in done.stderr


def test_a_rule_for_such_a_column_is_an_error(table):
    with pytest.raises(ps.PenstockError, match='"pyarrow_default/00000001".*no value of field "maybe"'):
        ps.Dataset(table, fields={"maybe": "maybe"})


def told(ds: ps.Dataset) -> dict[str, dict]:
    """Returns the notices by name."""
    return {notice["name"]: notice for notice in ds.notices}


def test_notices_name_what_is_left_out_also_by_a_saved_index(table):
    first = ps.Dataset(table)
    maybe = {"kind": "column_left_out", "name": "maybe", "count": 3, "first": "pyarrow_default/00000001",
             "why": "some samples have no value of it"}
    nothing = {"kind": "column_left_out", "name": "nothing", "count": 1, "first": "pyarrow_default.parquet",
               "why": "it has no values"}
    assert told(first)["maybe"] == maybe
    assert told(first)["nothing"] == nothing
    assert ps.Dataset(table).notices == first.notices
    asked = ps.Dataset(table, fields={"maybe": None, "nothing": None})
    assert not {"maybe", "nothing"} & set(told(asked))


def test_info_shows_them(table):
    done = subprocess.run([PROGRAM, "info", str(table)], capture_output=True, text=True, check=True)
    said = done.stdout + done.stderr
    assert "left out: column maybe: some samples have no value of it (the first of 3: pyarrow_default/00000001)" in said
    done = subprocess.run([PROGRAM, "info", "--json", str(table)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["notices"] == ps.Dataset(table).notices


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_may_have_no_values_in_the_first_file(tmp_path, kind):
    for i in range(2):
        shutil.copy(GOLDEN.parent / kind / f"nulls_first_{i}.{kind}", tmp_path)
    ds = ps.Dataset(tmp_path)
    half = len(ds) // 2
    assert ds.fields["image"].type == "image" and ds.fields["caption"].type == "text"
    assert ds[0]["image"] is None and ds[half]["image"] is not None
    assert ds[0]["caption"] is None and ds[half]["caption"] == "a"
    assert "label" not in ds.fields
    label = told(ds)["label"]
    assert label["count"] == half and label["first"] == "nulls_first_0/00000000" and "caption" not in told(ds)
    if kind == "parquet":
        assert told(ds)["score"]["why"] == "some samples have no value of it"
        assert told(ds)["never"] == {"kind": "column_left_out", "name": "never", "count": 2, "first": "nulls_first_0.parquet",
                                     "why": "it has no values"}
        assert told(ds)["tags"]["count"] == 2 and "list" in told(ds)["tags"]["why"]
        assert ds[0]["weight"] != ds[0]["weight"] and ds[half]["weight"] == 1
    with pytest.raises(ps.PenstockError, match='no value of field "label"'):
        ps.Dataset(tmp_path, fields={"label": "label"})


def test_the_first_image_may_lie_in_a_later_row_group(tmp_path):
    ds = ps.Dataset(shutil.copy(GOLDEN / "nulls_late.parquet", tmp_path))
    assert ds.fields["image"].type == "image"
    assert [ds[i]["image"] is None for i in range(5)] == [True, True, False, False, False]


def test_other_containers_have_notices(tmp_path):
    ds = ps.Dataset(shutil.copy(GOLDEN.parent / "lmdb" / "names.mdb", tmp_path))
    assert [(n["kind"], n["name"]) for n in ds.notices] == [("rows_left_out", "databases with names")]
    saved = told(ps.Dataset(shutil.copytree(GOLDEN.parent / "arrow" / "saved", tmp_path / "saved")))
    assert saved["objects"]["kind"] == "column_left_out" and saved["objects"]["count"] == 2
    assert saved["objects"]["why"].startswith("its type (")
    assert ps.Dataset(shutil.copy(GOLDEN.parent / "arrow" / "small.arrow", tmp_path)).notices == []


def test_pack_leaves_out_rows_that_lack_an_item(tmp_path):
    table = shutil.copy(GOLDEN / "nulls_late.parquet", tmp_path)
    with pytest.raises(ps.PenstockError, match='"nulls_late/00000000", field "image": the value is absent'):
        ps.pack(table, tmp_path / "all.pst")
    report = ps.pack(table, tmp_path / "some.pst", on_error="skip")
    assert [bad["name"] for bad in report.bad] == ["nulls_late/00000000", "nulls_late/00000001"]
    packed = ps.Dataset(tmp_path / "some.pst")
    assert [packed.name(i) for i in range(len(packed))] == [f"nulls_late/0000000{i}" for i in (2, 3, 4)]
    assert all(packed[i]["image"] is not None for i in range(3))
