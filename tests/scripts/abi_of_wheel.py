"""Checks that one wheel, built by this Python, works with the other CPython versions on this machine. `make check-long` runs it.

The name of this file keeps it out of this folder's other tests, because it builds the wheel.
"""

import glob
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# Uses only the standard library and the package, because the other Python may lack numpy.
PROGRAM = """
import sys, pathlib
photographs, out = sys.argv[1:]
import penstock as ps
assert ps.show_config("dict")["version"] == ps.__version__
report = ps.pack(photographs, out)
assert report.n_bad == 0
verified = ps.verify(out, decode=True)
assert verified.n_bad == 0 and verified.n_samples == report.n_samples
dataset = ps.Dataset(out)
assert len(dataset) == report.n_samples
try:
    ps.Dataset(out + "/absent")
    raise SystemExit("no error")
except ps.errors.NotFoundError:
    pass
print("samples", report.n_samples)
"""


def others() -> dict[str, str | None]:
    """Returns the interpreter of each other version, or None if the machine lacks it."""
    found = {}
    for version in VERSIONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        names = [f"/usr/bin/python{version}", f"/usr/local/bin/python{version}",
                 *sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python{version}")))]
        found[version] = next((name for name in names if os.access(name, os.X_OK)), None)
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Returns the folder of the unpacked wheel."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation",
                    "--no-deps", "-C", "cmake.define.PST_CUDA=OFF", "-w", str(out), str(ROOT / "python")], check=True)
    (wheel,) = out.glob("penstock-*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "package")
    return out / "package"


@pytest.mark.parametrize("version", others())
def test_another_python_imports_and_runs_it(package, tmp_path, version):
    python = others()[version]
    if python is None:
        pytest.skip(f"no CPython {version} on this machine")
    done = subprocess.run([python, "-I", "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n" + PROGRAM,
                           str(ROOT / "examples" / "photographs"), str(tmp_path / "out.pst")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "samples 12\n"
