"""A sample that takes 50 times as long as others delays neither other workers nor changes the order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

N, BATCH, SLOW = 64, 4, (9, 33)


@pytest.fixture(scope="module")
def tailed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tailed") / "folder" / "c"
    root.mkdir(parents=True)
    large = encoded(np.tile(picture(1, 448, 448), (7, 7, 1)), "JPEG")
    for i in range(N):
        (root / f"{i:03d}.jpg").write_bytes(large if i in SLOW else encoded(picture(i, 64, 64), "JPEG"))
    return root.parent


def make(source: Path, **options) -> ps.Loader:
    return ps.Loader(source, **keywords(batch_size=BATCH, output="numpy", transforms=[T.Resize((32, 32))], **options))


def test_order_and_pixels_are_those_of_one_thread(tailed):
    with make(tailed, num_workers=0, shuffle=True, seed=5) as alone, \
            make(tailed, num_workers=3, prefetch=6, shuffle=True, seed=5) as threads:
        for want, got in zip(alone, threads, strict=True):
            np.testing.assert_array_equal(got["index"], want["index"])
            np.testing.assert_array_equal(got["image"], want["image"])


def rows_meanwhile(rows: list[dict], slow: dict) -> list[dict]:
    """Returns the rows that another worker made completely while a slow row was made."""
    begun, ended = slow["ts"], slow["ts"] + slow["dur"]
    return [row for row in rows if row["tid"] != slow["tid"] and begun <= row["ts"] and row["ts"] + row["dur"] <= ended]


def test_other_workers_go_on_with_later_batches(tailed, tmp_path):
    """Looks at several epochs, because on a busy machine a worker may have no core for as long as a slow row takes."""
    path = tmp_path / "trace.json"
    with make(tailed, num_workers=2, prefetch=6, trace=path) as loader:
        for _ in range(8):
            assert [int(i) for batch in loader for i in batch["index"]] == list(range(N))
    rows = [event for event in json.loads(path.read_text()) if event.get("ph") == "X" and event["name"] == "row"]
    seen = [(slow, rows_meanwhile(rows, slow)) for slow in rows if slow["args"]["sample"] in SLOW]
    assert len(seen) >= 8 * len(SLOW)  # the trace has rows of a ninth epoch, too
    # The rest of its batch and all rows of the five batches ahead are done before it is, as far as they were left.
    assert any(len(made) >= 2 * BATCH and max(row["args"]["step"] for row in made) > slow["args"]["step"] for slow, made in seen)


def test_one_batch_ahead_is_not_enough(tailed, tmp_path):
    """With prefetch 1 no row of a later batch is made meanwhile. So the test above is able to fail."""
    path = tmp_path / "trace.json"
    with make(tailed, num_workers=2, prefetch=1, trace=path) as loader:
        assert [int(i) for batch in loader for i in batch["index"]] == list(range(N))
    rows = [event for event in json.loads(path.read_text()) if event.get("ph") == "X" and event["name"] == "row"]
    for slow in (row for row in rows if row["args"]["sample"] in SLOW):
        ended = slow["ts"] + slow["dur"]
        assert not [row for row in rows if row["args"]["step"] > slow["args"]["step"] and row["ts"] < ended - 1e-2]
