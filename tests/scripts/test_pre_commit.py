"""The hooks of .pre-commit-config.yaml are steps of `make check`, and run only programs of this repository."""

import importlib.util
from pathlib import Path

import pytest

import check_steps

yaml = pytest.importorskip("yaml")  # installed with pre-commit
ROOT = Path(check_steps.__file__).resolve().parent.parent


def hooks():
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    return repos[0]["hooks"]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_a_hook_runs_what_a_step_of_check_runs(hook):
    assert hook["language"] == "system"
    python, *words = hook["entry"].split()
    assert python == ".venv/bin/python"
    what = words[:2] if words[0] == "-m" else words[:1]
    if words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
    else:
        assert (ROOT / words[0]).is_file()
    step, = (step for step in check_steps.check_steps() if step.name == hook["id"])
    assert step.commands[0][1:1 + len(what)] == what


def test_the_file_is_one_for_pre_commit():
    clientlib = pytest.importorskip("pre_commit.clientlib")
    clientlib.load_config(str(ROOT / ".pre-commit-config.yaml"))
