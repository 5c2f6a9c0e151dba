"""Tests the wheels as an outside user would install them (scripts/stranger.py). `make check-long` runs this.

The name of this file keeps it out of this folder's other tests, because it builds wheels and downloads packages. What cannot be
tested on this machine is skipped, with the reason.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stranger

PEERS = {"torch": "torch", "pillow": "PIL.Image", "opencv": "cv2", "torchvision": "torchvision.io", "dali": "nvidia.dali",
         "torchcodec": "torchcodec.decoders"}
NO_NUMPY = """
import sys
import penstock as ps
ps.pack("/job/photographs", "/tmp/a.pst")
try:
    for batch in ps.Loader(ps.Dataset("/tmp/a.pst"), batch_size=2, num_workers=1):
        batch["image"]
except ImportError as error:
    print(error)
    sys.exit(0)
sys.exit("no error")
"""


def tried(function, *arguments):
    """Calls a function of scripts/stranger.py. Skips the test if this machine cannot run it."""
    try:
        return function(*arguments)
    except stranger.CannotTryError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def expected():
    return stranger.reference()


@pytest.fixture(scope="module")
def home():
    """Returns the root file system of Debian 12 with the wheel installed: its folder and its Python."""
    root = tried(stranger.make_root, "bookworm", "amd64")
    return root, tried(stranger.install, root, "amd64")


def found_in(home, *arguments, **options):
    root, python = home
    return stranger.job(root, "amd64", python, *arguments, **options)


def test_debian_12(home, expected):
    """The installed command runs the main job with results that are bit-identical to this machine's own build, and then analyze.
    The wheel must choose the processor's level, which pixels alone would not show."""
    root, _ = home
    level = json.loads(stranger.enter(root, "amd64", "/env/bin/penstock", "env").stdout)["cpu_detected"]
    own = subprocess.run([Path(sys.executable).with_name("penstock"), "env"], capture_output=True, text=True, check=True).stdout
    assert level == json.loads(own)["cpu_detected"]
    found = found_in(home, "--command", "/env/bin/penstock", "--analyze")
    assert found.pop("analyzed")
    assert found == expected


@pytest.mark.parametrize("codename", ["trixie", "noble"], ids=["debian_13", "ubuntu_24_04"])
def test_other_release(expected, codename):
    root = tried(stranger.make_root, codename, "amd64")
    python = tried(stranger.install, root, "amd64")
    assert stranger.job(root, "amd64", python, "--command", "/env/bin/penstock") == expected


def test_sdist(expected):
    """Where libraries are missing, pip builds the sdist from the sources in it, with bit-identical results."""
    root = tried(stranger.make_root, "bookworm", "amd64", stranger.COMPILER)
    python = tried(stranger.install_sdist, root, "amd64")
    assert stranger.job(root, "amd64", python, "--command", "/env/bin/penstock") == expected


def test_arm64_under_qemu(expected):
    root = tried(stranger.make_root, "bookworm", "arm64")
    python = tried(stranger.install, root, "arm64")
    assert stranger.job(root, "arm64", python) == expected
    program = "import glob; print(*glob.glob('/env/**/penstock', recursive=True))"
    done = stranger.enter(root, "arm64", "/usr/bin/python3", "-c", program)
    command = next(path for path in done.stdout.split() if path.endswith("bin/penstock"))  # lib64 is a link to lib
    assert stranger.enter(root, "arm64", command, "info", "/job/photographs").returncode == 0


@pytest.mark.parametrize("flags, environment", [(("-I",), {}), ((), {"LD_BIND_NOW": "1"})], ids=["isolated", "bind_now"])
def test_started_otherwise(home, expected, flags, environment):
    assert found_in(home, flags=flags, **environment) == expected


def test_site_packages_are_read_only(home, expected):
    root, python = home
    denied = stranger.enter(root, "amd64", python, "-c", "open('/env/touched', 'w')", read_only="/env", check=False)
    assert "Read-only file system" in denied.stderr
    assert found_in(home, "--command", "/env/bin/penstock", read_only="/env") == expected


def test_frozen_fork_server(home, expected):
    assert found_in(home, "--fork-server") == expected


def test_without_numpy():
    """The package can be imported and packs data; functions that need numpy say so."""
    root = tried(stranger.make_root, "bookworm", "amd64")
    python = tried(stranger.install, root, "amd64", False)
    done = stranger.enter(root, "amd64", python, "-c", NO_NUMPY)
    assert "No module named 'numpy'" in done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns a folder with the wheel's package, for interpreters of this machine that have other libraries."""
    wheel = tried(stranger.wheel_of, "amd64")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target",
                    str(folder), str(wheel)], check=True)
    return folder


def python_with(module):
    """Returns an interpreter that has the module: this one, or one of the loader benchmark's environments."""
    peers = Path(os.environ.get("PEERS_BUILD", stranger.ROOT / "build" / "peers"))
    for python in [sys.executable, *sorted(map(str, peers.glob("venv/*/bin/python")))]:
        if subprocess.run([python, "-c", f"import numpy, {module}"], capture_output=True).returncode == 0:
            return python
    return None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("peer", PEERS)
def test_beside_others(site, expected, tmp_path, peer, after):
    """No symbol of one library replaces that of another: results are the same whether other libraries are imported before or
    after."""
    python = python_with(PEERS[peer])
    if python is None:
        pytest.skip(f"no interpreter with {PEERS[peer]} here (bench/loader/environments.py makes them; PEERS_BUILD: where)")
    command = [python, str(stranger.JOB), str(stranger.PHOTOGRAPHS), str(tmp_path), "--beside", PEERS[peer]]
    done = subprocess.run([*command, *["--after"] * after], env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected
