"""Runs examples/train_audio.py briefly on sounds that it makes. It ends with status 1 if its losses differ from the peer's."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_audio.py"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.long  # test_audio.py compares the batches
def test_losses_are_equal_and_fall(tmp_path):
    done = subprocess.run([sys.executable, str(EXAMPLE), "--made", "--epochs", "40"], capture_output=True, text=True, timeout=300,
                          cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    same, trained = done.stdout.splitlines()[1:]
    assert same.endswith("largest difference 0")
    first, last, right = re.search(r"loss ([\d.]+) to ([\d.]+), .* unseen speakers ([\d.]+)%", trained).groups()
    assert float(last) < 0.8 * float(first) and float(right) > 30  # guessing would reach 10
