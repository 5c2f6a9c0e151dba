"""The best layout of samples: files or packed, random or page-aware order."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import ArgumentError
from penstock.planning import layout


def test_a_folder_is_compared_with_packed(folder: Path) -> None:
    before = sorted(os.listdir(folder.parent))
    lines: list[str] = []
    found = layout.measure(folder, 0.4, progress=lines.append)
    assert [(row["layout"], row["order"]) for row in found["layouts"]] == [
        ("folder", "shuffled"), ("folder", "pages"), ("packed", "shuffled"), ("packed", "pages")]  # fmt: skip
    assert len(lines) == 5 and found["packed_here"] and found["pack_seconds"] > 0
    dataset = ps.Dataset(folder)
    assert found["samples"] == len(dataset)
    assert found["nbytes"] == sum(dataset.item(i, "image")["nbytes"] for i in range(len(dataset)))
    for row in found["layouts"]:
        assert row["samples_per_second"] > 0 and row["cpu_seconds"] > 0
        # Each sample is read once, in whole disk blocks.
        assert row["reads_per_second"] >= 0.5 * row["samples_per_second"]
        assert row["nbytes_per_second"] >= 0.5 * row["samples_per_second"] * found["nbytes"] / found["samples"]
    assert sorted(os.listdir(folder.parent)) == before  # nothing stays in memory
    assert len(layout.text(found)) == 5


def test_of_a_packed_set_only_orders_are_compared(packed: Path) -> None:
    found = layout.measure(packed, 0.2)
    assert [(row["layout"], row["order"]) for row in found["layouts"]] == [("packed", "shuffled"), ("packed", "pages")]
    assert "pack_seconds" not in found and not found["packed_here"]


def test_wrong_fields(packed: Path) -> None:
    with pytest.raises(ArgumentError, match="no field 'picture': there are"):
        layout.measure(packed, 1.0, field="picture")


def test_break_even() -> None:
    # An epoch of 1000 samples takes 10 s before and 5 s after converting, so 50 s of converting pay after ten epochs.
    assert layout.break_even(50, 100, 200, 1000) == pytest.approx(10)
    assert layout.break_even(50, 200, 200, 1000) == math.inf
    assert layout.break_even(50, 200, 100, 1000) == math.inf
