"""check_gpu.py keeps what each step gave, whatever becomes of the others, and does not exceed its time."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import check_gpu
from check_gpu import Report, Step, run_steps

SCRIPT = Path(check_gpu.__file__).resolve()


def shell(part: str, name: str, command: str, seconds: int = 60, **more: object) -> Step:
    return Step(part, name, seconds, ("sh", "-c", command), **more)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    (tmp_path / "gpu-check.log").touch()
    return Report(tmp_path, "a GPU", "1234")


def states(report: Report) -> dict[str, str]:
    """Returns the states as the file has them."""
    return {name: step["state"] for name, step in json.loads((report.out / "gpu-check.json").read_text())["steps"].items()}


def test_a_step_that_fails_or_is_skipped_ends_no_other(report, capsys):
    steps = [shell("tests", "good", "echo fine"), shell("tests", "bad", "echo broken; exit 3"),
             shell("tests", "skips", "echo no such thing; exit 77"), shell("bench", "lacking", "exit 1", lacks=lambda: "no torch"),
             shell("bench", "last", "exit 0")]  # fmt: skip
    run_steps(steps, 600, report, {})
    assert states(report) == {"good": "passed", "bad": "failed", "skips": "left out", "lacking": "left out", "last": "passed"}
    assert report.summary().splitlines() == ["passed: good, last", "failed: bad: status 3", "left out: skips: no such thing",
                                             "left out: lacking: no torch"]  # fmt: skip
    assert "broken" in (report.out / "gpu-check.log").read_text() and "broken" in capsys.readouterr().out


def test_a_sanitizer_without_access_tests_nothing(report):
    run_steps([shell("sanitizers", "memcheck", "echo Error: Device not supported; exit 1")], 600, report, {})
    assert states(report) == {"memcheck": "left out"}


def test_a_step_ends_at_its_limit_with_all_that_it_started(report, tmp_path, monkeypatch):
    monkeypatch.setattr(check_gpu, "LEAST_SECONDS", 0.0)
    still = tmp_path / "still"
    begin = time.monotonic()
    steps = [shell("bench", "slow", f"(sleep 60; touch {still}) & sleep 60", seconds=1), shell("bench", "next", "exit 0")]
    run_steps(steps, 600, report, {})
    assert time.monotonic() - begin < 60
    assert states(report) == {"slow": "failed", "next": "passed"}
    assert report.steps["slow"]["reason"] == "time was up"
    assert not still.exists()


def test_a_part_leaves_time_to_the_next_one(report, monkeypatch):
    monkeypatch.setattr(check_gpu, "ENDS", {"tests": 0.02, "bench": 1.0})  # the tests have 6 s of 300
    steps = [shell("tests", "slow", "sleep 60"), shell("tests", "late", "exit 0"), shell("bench", "figures", "exit 0")]
    run_steps(steps, 300, report, {})
    assert states(report) == {"slow": "failed", "late": "left out", "figures": "passed"}
    assert report.steps["late"]["reason"] == "no time left"


def test_figures_are_there_after_each_step(report, tmp_path):
    to = tmp_path / "gpu-kernels.json"
    made = [tmp_path / "a.json", tmp_path / "b.json"]
    steps = [shell("bench", path.stem, f"echo '{{\"set\": \"{path.stem}\"}}' >{path}; exit {status}", figures=(path, to))
             for path, status in zip(made, (0, 4), strict=True)]  # fmt: skip
    run_steps(steps, 600, report, {})
    assert [one["set"] for one in json.loads(to.read_text())] == ["a"]


def test_an_interrupted_run_keeps_what_it_had(tmp_path):
    program = f"""import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import check_gpu
report = check_gpu.Report(check_gpu.Path({str(tmp_path)!r}), "a GPU", "1234")
(report.out / "gpu-check.log").touch()
steps = [check_gpu.Step("tests", name, 600, ("sh", "-c", command)) for name, command in (("done", "exit 0"), ("long", "sleep 600"))]
check_gpu.run_steps(steps, 6000, report, {{}})
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    while "== long" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert json.loads((tmp_path / "gpu-check.json").read_text())["steps"]["done"]["state"] == "passed"


def test_steps_are_chosen_by_name_or_part():
    steps = [shell("tests", "env", ""), shell("bench", "pack", ""), shell("bench", "shares", "", after="pack")]
    assert [step.name for step in check_gpu.chosen(steps, [])] == ["env", "pack", "shares"]
    assert [step.name for step in check_gpu.chosen(steps, ["bench"])] == ["pack", "shares"]
    assert [step.name for step in check_gpu.chosen(steps, ["env", "shares"])] == ["env", "pack", "shares"]
    assert [step.name for step in check_gpu.chosen(steps, ["env"])] == ["env"]
    with pytest.raises(SystemExit, match="'jpeg'"):
        check_gpu.chosen(steps, ["jpeg"])


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, check=False)


def test_without_a_gpu_it_says_so(tmp_path):
    done = call("--out", str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == check_gpu.SKIPPED and "no GPU" in done.stderr, done


def test_a_dry_run_without_tools_says_what_is_missing(tmp_path):
    done = call("--dry-run", "--out", str(tmp_path), "build", "kernels", PATH=str(tmp_path))
    assert done.returncode == 0, done
    for words in ("nvcc: no nvcc", "registers: no nvcc", "configure: no cmake", "cpu-build: no ninja", "kernels: no ctest"):
        assert f"left out: {words}" in done.stdout, done.stdout


def test_all_files_that_steps_name_are_there(tmp_path):
    steps = check_gpu.test_steps(tmp_path, tmp_path) + check_gpu.bench_steps(tmp_path, tmp_path, tmp_path)
    assert len({step.name for step in steps}) == len(steps)
    named = [Path(word) for step in [*steps, *check_gpu.dry_steps(tmp_path)] for word in step.command if word.endswith(".py")]
    assert named and all((check_gpu.ROOT / path).exists() for path in named), named
