"""Runs examples/hp_search.py briefly. It asserts that each image is prepared once per epoch for all trials, and ends with one
line.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hp_search.py"
COMMAND = Path(sys.executable).with_name("penstock")


def can_share() -> bool:
    return subprocess.run([COMMAND, "serve", "--help"], capture_output=True).returncode == 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="Optuna is not installed")
@pytest.mark.parametrize("more", [pytest.param(["--each"], marks=pytest.mark.long), []])
def test_trials(tmp_path, more):
    if not more and not can_share():
        pytest.skip("this command has no serve")
    command = [sys.executable, str(EXAMPLE), "--views", "4", "--epochs", "3", "--trials", "3", "--late", "1", *more]
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_SOCKET"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path,
                          env={**environment, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    last = done.stdout.splitlines()[-1]
    found = re.match(r"3 trials, \d pruned: (\d+) samples taken, (\d+) prepared", last)
    assert found, done.stdout
    taken, prepared = map(int, found.groups())
    if more:
        assert prepared == taken
    else:
        assert last.endswith(f"; the group's epochs have {prepared}, each once per epoch: equal") and prepared < taken
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("torchinductor")] == []
