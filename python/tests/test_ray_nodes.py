"""A node of Ray dies in the middle of a pack. The test needs Ray itself: scripts/check_ray.py runs it in an environment of its
own.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps

PHOTOGRAPHS = Path(__file__).parents[2] / "examples/photographs"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: make check-ray"),
]


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_node_that_dies_changes_no_byte(tmp_path):
    """Three nodes are each in the middle of a part. One node is killed; its part runs again on another node."""
    ps.pack(PHOTOGRAPHS, tmp_path / "one.pst", forms=["original"], shard_size="64KiB")
    (tmp_path / "scratch").mkdir()
    program = [sys.executable, Path(__file__).with_name("ray_nodes.py"), PHOTOGRAPHS, tmp_path / "ray.pst", tmp_path / "scratch"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"part"')))  # Ray prints, too
    assert told["tried"] >= 3, "each part had begun a shard"
    assert told["again"] and told["node"] not in told["again"]
    assert bytes_of(tmp_path / "ray.pst") == bytes_of(tmp_path / "one.pst")
    assert not ps.verify(tmp_path / "ray.pst", decode=True).findings
