"""Packing in parts from Python gives the same bytes as one call of pack."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock import writer

PHOTOGRAPHS = Path(__file__).parents[2] / "examples/photographs"
SMALL = {"forms": ["original"], "shard_size": "64KiB"}


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_parts_and_merge_make_the_bytes_of_one_call(tmp_path):
    one = ps.pack(PHOTOGRAPHS, tmp_path / "one.pst", **SMALL)
    plan = writer.pack(PHOTOGRAPHS, tmp_path / "parts.pst", prepare=True, **SMALL)
    assert plan.n_shards > 1
    assert writer.pack(PHOTOGRAPHS, tmp_path / "parts.pst", part=(1, 2), **SMALL).n_shards_before == 0
    with pytest.raises(ps.errors.IncompleteError):
        writer.merge(tmp_path / "parts.pst")
    again = writer.pack(PHOTOGRAPHS, tmp_path / "parts.pst", part=(1, 1), **SMALL)
    assert (again.n_shards, again.n_shards_before) == (plan.n_shards, (plan.n_shards + 1) // 2)
    assert writer.merge(tmp_path / "parts.pst").n_samples == one.n_samples
    assert bytes_of(tmp_path / "one.pst") == bytes_of(tmp_path / "parts.pst")
    writer.merge(tmp_path / "parts.pst")
    assert bytes_of(tmp_path / "one.pst") == bytes_of(tmp_path / "parts.pst")


@pytest.mark.parametrize("part", [(0, 2), (3, 2)])
def test_a_part_that_is_none_is_refused(tmp_path, part):
    with pytest.raises(ps.errors.ArgumentError, match="part"):
        writer.pack(PHOTOGRAPHS, tmp_path / "set.pst", part=part)


def test_parts_do_not_append(tmp_path):
    ps.pack(PHOTOGRAPHS, tmp_path / "set.pst")
    with pytest.raises(ps.PenstockError):
        writer.pack(PHOTOGRAPHS, tmp_path / "set.pst", part=(1, 2), append=True)
