"""The command line's verbs on tars that have splits and fields with other names; and the progress of opening."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import needs_highs
from penstock.cli import main
from penstock.data import opening, progress
from penstock.planning import classes as _classes
from penstock.planning import plan as _plan
from penstock.stalls.measure.usual import Usual

N = 24
OPTIONS = ("--split", "train", "--members", "png=picture,cls=kind:int:3,pkl=-")
FIELDS = {"png": "picture", "cls": ("kind", "int", 3), "pkl": None}


def _write(path: Path, first: int, n: int, bad: frozenset[int] = frozenset()) -> None:
    rows = np.add.outer(np.arange(160), np.arange(160))[..., None]
    random = np.random.default_rng(first)
    with tarfile.open(path, "w") as tar:
        for i in range(first, first + n):
            picture = io.BytesIO()
            pixels = (rows * [1, 2, 3] // 4 + random.integers(0, 8, (160, 160, 3)) + i) % 256
            PilImage.fromarray(pixels.astype(np.uint8)).save(picture, "png")
            content = b"no picture" if i in bad else picture.getvalue()
            for suffix, member in (("png", content), ("cls", b"%d" % (i % 3)), ("pkl", b"code")):
                entry = tarfile.TarInfo(f"{i:05d}.{suffix}")
                entry.size = len(member)
                tar.addfile(entry, io.BytesIO(member))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tars")
    _write(folder / "train-0.tar", 0, N // 2)
    _write(folder / "train-1.tar", N // 2, N // 2)
    _write(folder / "val-0.tar", N, 4)
    return folder


@pytest.fixture
def tars(made: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "tars"
    folder.mkdir()
    for path in made.glob("*.tar"):
        os.link(path, folder / path.name)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


def run(capfd: pytest.CaptureFixture[str], *words: object, status: int = 0) -> str:
    assert main.main([str(word) for word in words]) == status, capfd.readouterr().err
    return capfd.readouterr().out


# How a data set was opened


def test_opened_again(tars: Path) -> None:
    with ps.Dataset(tars, split="train", fields=FIELDS) as dataset:
        found = json.loads(json.dumps(opening.opening_of(dataset)))
        subject = {"loader": "penstock", "path": dataset.path, "opening": found}
        assert opening.words(found) == list(OPTIONS)
        for again in (opening.reopened(dataset), opening.of_subject(subject)):
            with again:
                assert len(again) == N and again.bytes_identity == dataset.bytes_identity
        assert eval(opening.expression(dataset.path, found), {"ps": ps}).fields.keys() == dataset.fields.keys()
    with ps.Dataset(sorted(tars.glob("train-*.tar")), fields=FIELDS) as dataset:
        found = opening.opening_of(dataset)
        assert found is not None and "::" in found["path"]
        assert len(opening.of_subject({"path": dataset.path, "opening": found})) == N


def test_opened_again_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("file,label,m\n" + "".join(f"ant/{path.name},0,bee/{path.name}\n"
                                    for path in sorted((Path(folder) / "ant").iterdir())[:3]))  # fmt: skip
    with ps.Dataset(folder) as dataset:
        assert opening.opening_of(dataset) == {}
        assert opening.expression(dataset.path, {}) == repr(dataset.path)
    with ps.Dataset(folder, ignore_labels=True, allow_unreadable=True) as dataset:
        found = opening.opening_of(dataset)
        assert found == {"ignore_labels": True, "allow_unreadable": True}
        assert opening.words(found) == ["--allow-unreadable", "--ignore-labels"]
    with ps.Dataset.from_files(sorted(Path(folder).glob("*/*"))[:4]) as dataset:
        assert opening.opening_of(dataset) is None
        assert len(opening.reopened(dataset)) == 4
        assert not opening.can_open({"loader": "penstock", "path": dataset.path, "opening": None})
    assert opening.can_open({"loader": "penstock", "path": "x"})  # an index of an older version


# The verbs


@pytest.fixture(scope="module")
def report(made: Path) -> ps.report.Report:
    return ps.analyze(ps.Loader(ps.Dataset(made, split="train", fields=FIELDS), 4, output="numpy"), budget="2s", forms=("raw",))


def test_analyze(tars: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    text = run(capfd, "analyze", tars, *OPTIONS, "--budget", "2s", "--batch-size", 4, "--forms", "raw", "--out", out)
    assert f"{tars}: {N} samples" in text and "cannot be opened" not in text
    subject = json.loads(out.read_text())["subject"]
    assert subject["opening"] == {"split": "train", "fields": {"png": "picture", "cls": ["kind", "int", 3], "pkl": None}}
    assert run(capfd, "whatif", out, "--cores", 8)


def test_plan_of_a_report_knows_field_and_samples(report: ps.report.Report) -> None:
    assert _plan._field_of(report.data, None) == "picture"
    (part,) = _classes.of_report(report.data)
    assert part.samples == N


@needs_highs()
def test_plan(tars: Path, report: ps.report.Report, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = contents(tars)
    text = run(capfd, "plan", tars, *OPTIONS, "--budget", "2s", "--batch-size", 4, "--cache", 0, "--no-layout", "--json")
    found = json.loads(text)
    assert found["field"] == "picture" and found["data"]["opening"]["split"] == "train"
    made = ps.plan(report, cache=0)
    commands = [line for line in made.report().splitlines() if line.startswith("  penstock pack")]
    if made.changes_forms:
        assert len(commands) == 1 and " ".join(OPTIONS[:3]) in commands[0]
    else:
        assert "split='train'" in made.report()
    one = run(capfd, "plan", tars / "train-0.tar", "--members", OPTIONS[3], "--budget", "2s", "--batch-size", 4, "--cache", 0,
              "--no-layout", "--json")  # fmt: skip
    assert json.loads(one)["data"]["samples"] == N // 2
    assert contents(tars) == before


@pytest.mark.long  # test_tune_packs_and_looks_again does the same from Python, and test_plan reads the same words
@needs_highs()
def test_tune(tars: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = contents(tars)
    text = run(capfd, "tune", tars, *OPTIONS, "--yes", "--budget", "3s", "--batch-size", 4, "--cache", 0, "--json")
    found = json.loads(text)
    assert contents(tars) == before
    if found["written_seconds"]:
        assert found["after"] is not None
        with ps.Dataset(tmp_path / "tars.pst") as packed, ps.Dataset(tars, split="train", fields=FIELDS) as source:
            assert len(packed) == N and packed.samples_identity == source.samples_identity


@needs_highs()
def test_tune_packs_and_looks_again(tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second analysis uses the packed data set, which has no splits and no members."""
    monkeypatch.setattr(ps.Plan, "changes_forms", True)
    making = Usual(4, split="train", members=FIELDS)
    tuned = ps.tune(tars, make=making, budget="2.5s", cache=0)
    assert tuned.after is not None and tuned.data == str(tmp_path / "tars.pst")
    assert len(ps.Dataset(tuned.data)) == N


def test_view(tars: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "view", tars, "0:4", *OPTIONS, "-o", tmp_path / "sheet.png")
    assert "4 pictures" in text


def test_pack_and_verify(tars: Path, tmp_path: Path) -> None:
    made = ps.pack(tars, tmp_path / "a.pst", split="train", fields=FIELDS)
    assert made.n_samples == N
    assert ps.verify(tars, split="train", fields=FIELDS).ok


def test_images_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    _write(tmp_path / "a.tar", 0, 12, frozenset({3, 7}))
    notes: list[str] = []
    with ps.Dataset(tmp_path, fields=FIELDS) as dataset:
        found = _classes.survey(dataset, "picture", 30, notes=notes)
    assert sum(len(part.numbers) for part in found) == 10
    (note,) = notes
    assert note.startswith("2 of the 12 images that were looked at could not be read") and "the first: " in note
    _write(tmp_path / "a.tar", 0, 4, frozenset(range(4)))
    with ps.Dataset(tmp_path, fields=FIELDS) as dataset, pytest.raises(ps.errors.ArgumentError, match="could be read; the first:"):
        _classes.survey(dataset, "picture", 30)


# How far opening is


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    for k in range(4):
        (folder / f"c{k}").mkdir(parents=True)
        for i in range(1500):
            os.close(os.open(folder / f"c{k}" / f"{i:05d}.jpg", os.O_WRONLY | os.O_CREAT, 0o666))
    return folder


def test_a_line_in_the_log(many: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(progress, "_LOG_EVERY_S", 0.0)
    monkeypatch.setenv("PENSTOCK_LISTING_FILES", "1")
    told = progress._Lines()
    told(0, 0)
    with caplog.at_level(logging.INFO, "penstock"):
        told(1234567, 0)
        told(12, 3_400_000_000)
    assert [record.message for record in caplog.records] == [
        "looking through the data: 1,234,567 found", "looking through the data: 12 found, 3.4 GB walked over"
    ]  # fmt: skip
    with ps.Dataset(many) as dataset:
        assert len(dataset) == 6000


def test_a_line_on_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_is_wanted", lambda: True)
    with progress.shown() as told:
        told(5, 0)
        assert capsys.readouterr().err == ""  # short work prints no line
        monkeypatch.setattr(told, "_next", 0.0)
        told(1234, 0)
        assert capsys.readouterr().err.endswith("penstock: looking through the data: 1,234 found")
        told(0, 0)
        assert capsys.readouterr().err == "\r\033[K"  # opening is over
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("call", ["ps.Dataset(p)", "ps.verify(p)", "ps.pack(p, p + '.pst')", "ps.Dataset(p, files=names)"])
def test_ctrl_c_ends_the_listing(many: Path, call: str) -> None:
    """The signal comes while the folder is listed: the progress callback sleeps until the signal is pending."""
    code = f"""
import os, signal, sys, time
import penstock as ps
from penstock.data import progress

class Told:
    def __call__(self, *found):
        print("told", flush=True)
        time.sleep(0.2)  # the signal is pending after it
    def clear(self):
        pass

progress._Lines = Told
p = {str(many)!r}
names = [f"c{{k}}/{{i:05d}}.jpg" for k in range(4) for i in range(1500)]
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={
        **os.environ, "PENSTOCK_LISTING_FILES": "0"})  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "told\n"
    begun = time.monotonic()
    timer = threading.Timer(60, process.kill)
    timer.start()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 7, rest
    timer.cancel()
    assert "interrupted" in rest and time.monotonic() - begun < 30
