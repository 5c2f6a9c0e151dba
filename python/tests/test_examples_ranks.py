"""The examples of training with several ranks: they assert disjoint parts and exact resume, and end with one line."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def lines_of(tmp_path, *command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300,
                          cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-4000:]
    return sorted(line for line in done.stdout.splitlines() if line.endswith(": equal"))


def test_torchrun(tmp_path):
    lines = lines_of(tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
                     EXAMPLES / "torchrun_resume.py")
    assert lines == [f"rank {rank} of 2: 6 batches, resumed after 2: equal" for rank in range(2)]


@pytest.mark.long  # test_torchrun has ranks, too
def test_spawn(tmp_path):
    lines = lines_of(tmp_path, EXAMPLES / "spawn_ddp.py")
    assert lines == ["2 ranks: 12 samples, disjoint; resumed by each rank and by one process: equal"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
@pytest.mark.long  # test_torchrun has ranks, too
def test_lightning(tmp_path):
    lines = lines_of(tmp_path, EXAMPLES / "lightning_ddp.py")
    assert lines == [f"rank {rank} of 2: 6 batches, resumed after 2 and 3: equal" for rank in range(2)]
