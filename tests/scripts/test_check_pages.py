"""check_pages.py: what it reads from a page, and what it reports."""

import pytest

import check_pages as pages
from check_newest import FAILS, UNTRIED, WORKS, Session


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Page\n\n```python\nimport penstock as ps\n```\n", ()),
        ("This page needs `pip install penstock timm`.\n", ("timm",)),
        ("needs `pip install penstock torchmetrics[detection]`.\n", ("torchmetrics[detection]",)),
        ("```sh\npenstock view a -o b   # pip install 'penstock[view]'\n```\n", ("[view]",)),
        ("needs `pip install penstock[view] opencv-python-headless` and\n", ("[view]", "opencv-python-headless")),
        ('```python\nps.Loader("photographs", output="torch")\n```\n', ("torch",)),
        ("needs `pip install penstock lightning`\n```python\nimport torch\n```\n", ("lightning", "torch")),
        ("`pip install 'penstock[ray]'` or `'penstock[spark]'`.\n", ("[ray]", "[spark]")),
        ("```python peer torch\nimport torch\n```\n", ()),  # code that uses another package is only compiled
    ],
)
def test_what_a_page_needs(text, words):
    assert pages.needs(text) == words


def test_frameworks_are_named_by_the_pages_that_import_them():
    named = {"lightning": "lightning", "hf-trainer": "transformers", "accelerate": "accelerate", "ignite": "pytorch-ignite",
             "timm": "timm", "evaluate": "pycocotools", "evaluate-torchmetrics": "torchmetrics[detection]"}  # fmt: skip
    for name, package in named.items():
        assert package in pages.needs((pages.ROOT / "docs" / "guide" / f"{name}.md").read_text())


@pytest.mark.parametrize(
    ("words", "installed"),
    [
        ((), ["w.whl"]),
        (("[view]",), ["w.whl[view]"]),
        (("[ray]", "[spark]"), ["w.whl[ray,spark]"]),
        (("[view]", "timm", "torch"), ["w.whl[view]", "timm", "torch==2.13.0+cpu"]),
    ],
)
def test_what_pip_gets(words, installed, tmp_path, monkeypatch):
    commands = []

    def run(session, *command, **more):
        commands.append(command)
        return 0, ""

    monkeypatch.setattr(Session, "run", run)
    assert pages.install(Session(tmp_path / "1", 0.0), "w.whl", words, False, "torch==2.13.0+cpu")[0] == 0
    assert list(commands[-1][commands[-1].index("--quiet") + 1 :]) == installed


def test_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "make_folder", lambda folder, page: folder)
    answers = {"good.md": (0, ""), "bad.md": (1, "Traceback\nAssertionError\n"), "slow.md": (124, "")}
    monkeypatch.setattr(Session, "run", lambda session, *command, **more: answers[command[-1].name])
    session = Session(tmp_path, 0.0)
    assert pages.try_page(session, "good.md", "") == (WORKS, "")
    assert pages.try_page(session, "bad.md", "") == (FAILS, "AssertionError")
    assert pages.try_page(session, "slow.md", "") == (UNTRIED, "time was over")
    answers["good.md"] = (0, 'words\n{"ran": 3, "compiled": ["ray", "pyspark", "ray"]}\n')
    assert pages.try_page(session, "good.md", "") == (WORKS, "code for pyspark; ray is only compiled")
    monkeypatch.setattr(pages, "offline", lambda: ())
    assert pages.try_page(session, "good.md", "from ultralytics import YOLO")[0] == UNTRIED
    monkeypatch.setattr(pages.shutil, "which", lambda name: None)
    assert pages.try_page(session, "good.md", "memcached -M")[1] == "memcached is not installed"
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert pages.try_page(session, "good.md", "```python peer pyspark\n") == (UNTRIED, "Java is not installed")


def test_verdicts_of_demo_and_doctor():
    good = "5 of 5\nNothing is left behind.\n"
    assert pages.of_demo(0, good) == (WORKS, "")
    for status, output in ((1, good), (0, "5 of 5\n"), (0, "all batches of both are DIFFERENT\n" + good)):
        assert pages.of_demo(status, output)[0] == FAILS
    package = '{"checks": [{"name": "package", "state": "%s", "text": "%s"}]}'
    assert pages.of_doctor(1, package % ("ok", "Penstock 1")) == (WORKS, "")
    assert pages.of_doctor(0, package % ("ok", "run make build")) == (FAILS, "it advises a build, and the user has a wheel")
    assert pages.of_doctor(0, package % ("bad", "no core")) == (FAILS, "no core")
    assert pages.of_doctor(1, "Traceback\nOSError: x\n") == (FAILS, "status 1: OSError: x")


def test_a_command_that_leaves_something_fails(tmp_path, monkeypatch):
    def run(session, *command, cwd=None, **more):
        if "doctor" in command:
            (cwd / "left.txt").touch()
        return 0, '{"checks": [{"name": "package", "state": "ok", "text": ""}]}\nNothing is left behind.\n'

    monkeypatch.setattr(Session, "run", run)
    demo, doctor = pages.try_commands(Session(tmp_path, 0.0), ("[plan]",))
    assert (demo.verdict, demo.version) == (WORKS, "[plan]")
    assert (doctor.verdict, doctor.detail) == (FAILS, "it leaves left.txt behind")


def test_an_installation_that_fails_fails_its_pages_alone(tmp_path, monkeypatch):
    for name, package in (("one.md", "timm"), ("two.md", "ignite")):
        (tmp_path / name).write_text(f"needs `pip install penstock {package}`\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "WORK", tmp_path / "work")
    monkeypatch.setattr(pages, "install", lambda session, wheel, words, *more: (int("timm" in words), "ERROR: no such release\n"))
    monkeypatch.setattr(pages, "try_page", lambda session, page, text: (WORKS, ""))
    rows = pages.run_all("w.whl", ["one.md", "two.md"], "torch==2.13.0+cpu")
    assert [(row.name, row.verdict) for row in rows] == [("one.md", FAILS), ("two.md", WORKS)]
    assert rows[0].detail == "pip: ERROR: no such release"
    assert all(row.verdict == UNTRIED for row in pages.run_all("w.whl", ["one.md"], None))
