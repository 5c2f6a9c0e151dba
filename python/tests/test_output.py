"""output="auto" depends on the installed packages, and not on the packages that were imported before."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import penstock as ps
from conftest import only_numpy


def first_batch(data: Path, source: str, paths: list[Path]) -> subprocess.CompletedProcess[str]:
    """Runs `source` with only these folders of packages. KIND in it is replaced by code that prints the type of a batch's
    arrays.
    """
    head = f"import sys; sys.path[:0] = {[str(path) for path in paths]!r}\n"
    kind = f"print(type(next(iter(ps.Loader({str(data)!r}, num_workers=1)))['label']).__module__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-S", "-c", head + source.replace("KIND", kind)],
        capture_output=True, text=True, timeout=240, env=environment, cwd=data.parent,
    )  # fmt: skip


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory) -> Path:
    """A folder of packages with only Penstock and numpy."""
    return only_numpy(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "a.pst"
    with ps.Writer(path, {"label": "int"}) as writer:
        for i in range(4):
            writer.write({"label": i})
    return path


@pytest.mark.parametrize(
    "source",
    [
        "import torch, penstock as ps\nKIND",
        "import penstock as ps, torch\nKIND",
        "import penstock as ps\nassert 'torch' not in sys.modules\nKIND\nKIND\nimport torch\nKIND",
    ],
    ids=["before", "after", "between"],
)
def test_torch_is_installed(plain, without_torch, source):
    done = first_batch(plain, source, [without_torch, Path(sysconfig.get_path("platlib"))])
    assert (done.returncode, set(done.stdout.split()), done.stderr) == (0, {"torch"}, "")


def test_torch_is_absent(plain, without_torch):
    done = first_batch(plain, "import penstock as ps\nKIND", [without_torch])
    assert (done.returncode, done.stdout, done.stderr) == (0, "numpy\n", "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("torch/data.txt", "a folder of the user's"),
        ("torch.py", "lamp = 1"),
        ("torch/__init__.py", "raise ModuleNotFoundError(name='torch')"),
    ],
)
def test_something_else_has_its_name(plain, without_torch, tmp_path, name, content):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    done = first_batch(plain, "import penstock as ps\nKIND", [tmp_path, without_torch])
    assert (done.returncode, done.stdout, done.stderr) == (0, "numpy\n", "")


def test_another_module_took_its_place(plain, without_torch):
    for stand_in in ("None", "type(sys)('torch')"):
        source = f"import penstock as ps\nsys.modules['torch'] = {stand_in}\nKIND"
        done = first_batch(plain, source, [without_torch, Path(sysconfig.get_path("platlib"))])
        assert (done.returncode, done.stdout, done.stderr) == (0, "numpy\n", "")


@pytest.mark.parametrize(
    "error", ["OSError('libcudart.so: cannot open')", "ImportError('undefined symbol')", "RuntimeError('NumPy ABI')"]
)
def test_torch_is_broken(plain, without_torch, tmp_path, error):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(f"raise {error}")
    done = first_batch(plain, "import penstock as ps\nKIND\nKIND", [tmp_path, without_torch])
    assert (done.returncode, done.stdout) == (0, "numpy\nnumpy\n")
    assert done.stderr.count("UserWarning") == 1 and error.split("'")[1] in done.stderr
    wanted = first_batch(plain, "import penstock as ps\nps.Loader('a.pst', output='torch')", [tmp_path, without_torch])
    assert wanted.returncode == 1 and error.split("'")[1] in wanted.stderr  # a user who asks for tensors gets the import error
