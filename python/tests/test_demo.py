"""python -m penstock.demo: what it requires and prints, and that it leaves nothing behind, even if it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock as ps
from conftest import only_numpy

SHORT = ("--per-class", "8", "--epochs", "1", "--budget", "1")


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder of packages with only Penstock and numpy, like an environment in which only the wheel was installed."""
    return only_numpy(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def start(packages, tmp_path):
    """Starts the demo with only these packages, in an empty folder. Temporary files go to another folder."""

    def call(*arguments: str) -> subprocess.Popen[str]:
        (tmp_path / "here").mkdir()
        (tmp_path / "temporary").mkdir()
        source = (
            f"import sys, runpy, signal; sys.path[:0] = [{str(packages)!r}]; "
            "signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'demo'; "
            "runpy.run_module('penstock.demo', run_name='__main__')"
        )
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PENSTOCK_HIGHS")}
        return subprocess.Popen(
            [sys.executable, "-S", "-c", source, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path / "here", env={**environment, "TMPDIR": str(tmp_path / "temporary")},
        )  # fmt: skip

    yield call
    assert not list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "here").iterdir())


def test_it_needs_the_wheel_alone(start):
    run = start(*SHORT)
    out, err = run.communicate(timeout=400)
    assert (run.returncode, err) == (0, ""), err
    lines = out.splitlines()
    assert [line[:6] for line in lines if line[1:6] == " of 5"] == [f"{i} of 5" for i in range(1, 6)]
    assert "all batches of both are the same, bit by bit" in out and "pip install" in out  # HiGHS is not installed
    assert sum(" images/s  waited for data" in line for line in lines) == 2
    assert "times as fast" in out and lines[-1] == "Nothing is left behind."


@pytest.mark.parametrize(("number", "after"), [
    (signal.SIGINT, "2 of 5"),
    *[pytest.param(*rest, marks=pytest.mark.long) for rest in ((signal.SIGINT, "1 of 5"), (signal.SIGTERM, "5 of 5"))],
])  # fmt: skip
def test_an_interrupted_demo_leaves_nothing(start, number, after):
    run = start("--per-class", "8", "--budget", "2", "--epochs", "100")
    for line in run.stdout:
        if line.startswith(after):
            break
    time.sleep(0.3)
    run.send_signal(number)
    _, err = run.communicate(timeout=120)
    assert (run.returncode, err) == (128 + number, "")


def test_a_reader_that_is_gone(start):
    run = start(*SHORT)
    run.stdout.close()
    assert run.wait(timeout=400) == 1 and run.stderr.read() == ""
    run.stderr.close()


@pytest.mark.long
def test_what_is_kept(start, tmp_path):
    run = start(*SHORT, "--keep", str(tmp_path / "kept"))
    out, err = run.communicate(timeout=400)
    assert (run.returncode, err) == (0, "") and "report.html" in out.splitlines()[-1]
    assert (tmp_path / "kept/report.html").read_text().startswith("<!doctype html>")
    assert len(ps.Dataset(tmp_path / "kept/images.pst")) == len(ps.Dataset(tmp_path / "kept/images")) == 32


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--keep", "."), 1, "File exists"),
        (("--per-class", "0"), 2, "8 to 1000"),
        (("--budget", "nan"), 2, "1 to 600"),
        (("x",), 2, "x"),
    ],
)
def test_wrong_use(start, arguments, status, says):
    run = start(*arguments)
    _, err = run.communicate(timeout=120)
    assert run.returncode == status and says in err.splitlines()[-1]
