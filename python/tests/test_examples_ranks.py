"""Runs the examples of training with several ranks. They assert disjoint parts and exact resume, and end with one line."""

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


@pytest.mark.long  # slow: processes are started three times
def test_torchrun_that_loses_a_worker(tmp_path):
    example = (EXAMPLES / "torchrun_elastic.py", tmp_path / "checkpoint.pt")
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "PENSTOCK_EXAMPLE_DIE": "1:3"}
    lost = subprocess.run([*run, "2", *map(str, example)], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=env)
    assert lost.returncode != 0 and "SIGKILL" in lost.stderr and example[1].exists()
    assert lines_of(tmp_path, *run[1:], 3, *example) == ["9 steps of [2, 3] ranks, each sample once: equal"]

    example[1].unlink()  # torchrun itself restarts the workers, with the same number of ranks
    (tmp_path / "checkpoint.died").unlink()
    again = subprocess.run([*run, "2", "--max-restarts", "1", *map(str, example)], capture_output=True, text=True, timeout=300,
                           cwd=tmp_path, env=env)  # fmt: skip
    assert again.returncode == 0, again.stderr[-4000:]
    assert "12 steps of [2] ranks, each sample once: equal" in again.stdout.splitlines()


@pytest.mark.long  # test_torchrun also starts ranks
def test_spawn(tmp_path):
    lines = lines_of(tmp_path, EXAMPLES / "spawn_ddp.py")
    assert lines == ["2 ranks: 12 samples, disjoint; resumed by each rank and by one process: equal"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
@pytest.mark.long  # test_torchrun also starts ranks
def test_lightning(tmp_path):
    lines = lines_of(tmp_path, EXAMPLES / "lightning_ddp.py")
    assert lines == [f"rank {rank} of 2: 6 batches, resumed after 2 and 3: equal" for rank in range(2)]
