"""Rows of a table without a value of an int column, which is left out or, where a rule names it, an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps

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
