"""examples/same_training.py, short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import encoded, picture

pytest.importorskip("torch")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "same_training.py"


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of four JPEGs."""
    root = tmp_path_factory.mktemp("training") / "jpegs"
    for c in range(2):
        (root / f"class{c}").mkdir(parents=True)
        for i in range(4):
            (root / f"class{c}" / f"{i}.jpg").write_bytes(encoded(picture(4 * c + i, 70 + i, 60), "JPEG"))
    return root


def test_a_folder_and_its_pli_train_alike(jpegs):
    command = [sys.executable, str(EXAMPLE), str(jpegs), "--epochs", "1", "--size", "32", "--batch", "4"]
    # Threads of OpenMP spin while they wait, which can take minutes on a busy machine.
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "the same"
    hashes = [line.split("batches ")[1][:16] for line in done.stdout.splitlines() if "batches" in line]
    assert len(hashes) == 2 and hashes[0] == hashes[1]
