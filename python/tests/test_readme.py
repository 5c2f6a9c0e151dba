"""The examples of README.md and of pages of docs run as they stand, one after another, as a reader tries them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PHOTOGRAPHS = ROOT / "examples" / "photographs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks that are marked as that language and nothing else ("python notest" is left out)."""
    return [text for marked, text in BLOCK.findall((ROOT / document).read_text()) if marked == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder as the examples expect it: examples/photographs, and photographs/<class>/*.jpg."""
    shutil.copytree(PHOTOGRAPHS, tmp_path / "examples" / "photographs")
    for i, path in enumerate(sorted(PHOTOGRAPHS.glob("*.jpg"))[:8]):
        kind = tmp_path / "photographs" / ("bird", "house")[i % 2]
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kind)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document, n_blocks", [("README.md", 2), ("docs/python.md", 10), ("docs/images.md", 5),
                                                ("docs/detection.md", 4)])
def test_python_examples(folder, document, n_blocks):
    pytest.importorskip("torch")
    found = blocks(document, "python")
    assert len(found) == n_blocks
    # A process of its own: workers of a DataLoader are forked, and must not inherit what other tests have opened.
    done = subprocess.run([sys.executable, "-W", "error::UserWarning:penstock", "-c", "\n".join(found)], cwd=folder, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_commands(folder):
    (commands,) = blocks("README.md", "sh")
    command = Path(sys.executable).parent / "penstock"
    if not command.exists():
        pytest.skip(f"the command line is not beside {sys.executable}")
    script = f"set -e\nPATH={command.parent}:$PATH\n{commands}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    packed = {path.name for path in (folder / "restored").iterdir()}
    assert packed == {path.name for path in PHOTOGRAPHS.iterdir() if path.suffix in (".jpg", ".png")}
