"""Tests of analyze() and plan() on data without a loader: messages, assumptions, and checks before anything is measured."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import needs_highs
from flat import keywords
from penstock import transforms as T
from penstock.base import outputs
from penstock.cli import main
from penstock.loading import options, table
from penstock.planning import text as _plan_text
from penstock.stalls import text as _report_text
from penstock.stalls.measure import usual
from penstock.transforms import words as _transform_words

needs_solver = needs_highs()


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=240)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of boxes, each with a label and a keypoint."""
    path = tmp_path_factory.mktemp("people") / "people.pst"
    random = np.random.default_rng(1)
    schema = {"image": ps.Image("pli"), "boxes": ps.Boxes(), "labels": ps.Array("int64"), "keypoints": ps.Keypoints()}
    with ps.Writer(path, schema) as writer:
        for i in range(16):
            n = 1 + i % 3
            writer.write({
                "image": random.integers(0, 255, (80, 96, 3), dtype=np.uint8),
                "boxes": np.array([[5 + k, 5 + k, 40 + k, 60 + k] for k in range(n)], np.float32),
                "labels": np.arange(n),
                "keypoints": np.array([[10 + k, 10 + k, 2] for k in range(n)], np.float32),
            })  # fmt: skip
    return path


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs the command in this process, in the test's directory. It must fail with these words before anything is measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run_here(*words: str, status: int, says: str) -> None:
        assert main.main([*words, "--json"]) == status
        out, err = capfd.readouterr()
        assert says in err and says in json.loads(out)["error"]["text"], (words, out, err)
        assert "Traceback" not in err and "alone:" not in err

    return run_here


# Assumptions are stated.


def test_boxes_and_keypoints(people: Path) -> None:
    found = ps.analyze(people, budget=1, forms=())
    subject = found.data["subject"]
    assert subject["assumed"] == ["batch_size", "transforms", "per_box"] and subject["per_box"] == []
    assert [op["op"] for op in subject["transforms"]] == ["RandomResizedCrop", "RandomHorizontalFlip", "Normalize"]
    for text in (found.report(), found.to_html()):
        assert "RandomResizedCrop(224), RandomHorizontalFlip, Normalize(...) (assumed" in text
        assert "batches of 8 are assumed, not of 64: the data set has 16 samples" in text
        assert "no field is assumed to have a row for each box" in text


def test_operations_that_need_boxes_are_probed(people: Path, tmp_path: Path) -> None:
    (tmp_path / "ops.json").write_text(T.to_json([T.RandomIoUCrop(), T.Resize((32, 48)), T.SanitizeBoxes()]))
    done = run(tmp_path, "analyze", str(people), "-t", "ops.json", "--per-box", "labels=boxes,keypoints=boxes", "--batch-size", "4",
               "--fields", "image,boxes,labels,keypoints", "--budget", "2s", "--forms", "raw", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert set(data["forms"]) == {"pli", "raw"} and not any("needs" in note for note in data["notes"])
    subject = data["subject"]
    assert subject["assumed"] == [] and subject["batch_size"] == 4
    assert subject["per_box"] == {"labels": "boxes", "keypoints": "boxes"}
    text = ps.report.Report(data).report()
    assert "RandomIoUCrop, Resize(32x48), SanitizeBoxes; fields image, boxes, labels, keypoints; a row for each box: labels" in text


def test_what_has_no_images(tmp_path: Path) -> None:
    with ps.Writer(tmp_path / "n.pst", {"x": ps.Array("float32", (8,))}) as writer:
        for _ in range(64):
            writer.write({"x": np.zeros(8, np.float32)})
    found = ps.analyze(tmp_path / "n.pst", budget=1)
    assert found.data["subject"]["transforms"] is None and "chain      none (assumed" in found.report()
    with pytest.raises(ps.errors.ArgumentError, match="no images: there is nothing to plan"):
        ps.plan(tmp_path / "n.pst")


def test_batch_sizes(folder: Path) -> None:
    """A given batch size is used or refused, never changed."""
    assert usual.usual(20, None)(folder).batch_size == 20
    assert usual.usual(None, None)(folder).batch_size == 12
    assert usual.usual(None, "mlperf:unet3d:h100")(folder).batch_size == 7
    assert usual.usual(None, "mlperf:unet3d:h100")(folder)._assumed["batch_size"] == "batches of 7 are assumed"
    with pytest.raises(ps.errors.ArgumentError, match="too few"):
        ps.analyze(folder, batch_size=25)
    for wrong in (0, -1, 2**40):
        with pytest.raises(ps.errors.ArgumentError, match="batch_size must be"):
            ps.analyze(folder, batch_size=wrong)
    for call in (ps.analyze, ps.plan):
        with pytest.raises(ps.errors.ArgumentError, match="a loader has its own"):
            call(ps.Loader(folder, 4), batch_size=8)


def test_the_size_of_the_usual_crop(folder: Path) -> None:
    loader = usual.Usual(size=(32, 48), batch_size=4)(folder)
    assert next(iter(loader))["image"].shape == (4, 3, 32, 48)
    with pytest.raises(ps.errors.ArgumentError, match="usual transforms"):
        usual.Usual(size=32, transforms=[T.Resize(8)])


def test_words_of_operations() -> None:
    assert _transform_words.words(None) == "none" and _transform_words.words([]) == "none"
    assert _transform_words.words([T.Resize(8), T.RandomHorizontalFlip(0.3)]) == "Resize(8), RandomHorizontalFlip(p=0.3)"
    assert _transform_words.words({"image": [T.CenterCrop((8, 9))]}) == "image: CenterCrop(8x9)"
    assert _transform_words.words([T.RandomApply([T.GaussianBlur(3, (0.1, 2.0))], 0.5)]) == "RandomApply(...)"


@needs_solver
def test_a_plan_says_it_too(people: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "plan", str(people), "--size", "32", "--per-box", "labels,keypoints", "--budget", "2s", "--no-layout",
               "--as", "mlperf:unet3d:h100", "--out", "plan.json", "--quiet")  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = "measured with batches of 7 samples; RandomResizedCrop(32x32), RandomHorizontalFlip, Normalize(...) (assumed"
    assert said in done.stdout
    data = ps.Plan.load(tmp_path / "plan.json").data["data"]
    assert data["batch_size"] == 7 and data["assumed"] == ["batch_size", "transforms"]
    assert data["per_box"] == ["labels", "keypoints"]
    assert done.stdout.splitlines()[-1].startswith(("Do it: ", "Leave it as it is: "))


# Rebuilding a loader


def test_arguments_make_a_loader_again(folder: Path) -> None:
    plan = {"kind": "penstock plan", "version": 1, "loader": {"prefetch": 5}, "schedule": [{"epoch": 0, "size": 16}]}
    with ps.Loader(folder, 4, transforms=[T.RandomResizedCrop(32)], plan=plan, output="numpy") as loader:
        given = options.arguments(loader, batch_size=6)
    assert given.keys() == table.ROWS.keys() - {"plan"}
    with ps.Loader(**keywords(**given)) as again:
        assert next(iter(again))["image"].shape == (6, 3, 32, 32) and options.arguments(again)["prefetch"] == 5


# Before anything is measured


def test_wrong_commands(folder: Path, tmp_path: Path, refused: Any) -> None:
    (tmp_path / "ops.json").write_text('[{"op": "Resize", "sice": 8}]')
    (tmp_path / "bad.json").write_text("[{]")
    (tmp_path / "r.json").write_text('{"kind": "penstock-report", "version": 9}')
    parts = dict.fromkeys(("subject", "machine", "accelerator", "phases", "forms", "stages", "bands"), {})
    (tmp_path / "cut.json").write_text(json.dumps({"kind": "penstock-report", "version": 1, **parts}))
    (tmp_path / "dir").mkdir()
    (tmp_path / "mod.py").write_text("import torch_that_is_not_there\n")
    data = str(folder)
    for words, status, says in (
        (["analyze", "nowhere"], 1, "nowhere"),
        (["analyze", "r.json"], 1, "no index of wids"),
        (["analyze", data, "--transforms", "none.json"], 1, "none.json"),
        (["analyze", data, "--transforms", "ops.json"], 2, "did you mean 'size'"),
        (["analyze", data, "--transforms", "bad.json"], 2, "not JSON"),
        (["analyze", data, "--transforms", "ops.json", "--size", "8"], 2, "have their own"),
        (["analyze", data, "--size", "12y9"], 2, "PIXELS or HEIGHTxWIDTH"),
        (["analyze", data, "--fields", "imgae"], 2, "no field 'imgae'"),
        (["analyze", data, "--per-box", "label"], 2, "boxes"),
        (["analyze", data, "--per-box", "label="], 2, "--per-box is"),
        (["analyze", data, "--forms", "pli-smal"], 2, "did you mean 'pli-small'"),
        (["analyze", data, "--batch-size", "0"], 2, "batch_size must be"),
        (["analyze", data, "--accelerators", "0"], 2, "accelerators must be"),
        (["analyze", data, "--labels", "none.csv"], 1, "none.csv"),
        (["analyze", data, "--out", "dir"], 2, "--out is a file to write"),
        (["analyze", data, "--html", "no/x.html"], 2, "there is no directory"),
        (["analyze", data, "--out", "x", "--html", "x"], 2, "written over"),
        (["analyze", data, "--machine", "none.json"], 1, "none.json"),
        (["analyze", data, "--train", "mod:step"], 2, "-m pip install torch_that_is_not_there"),
        (["analyze", data, "--train", "nomod:step"], 2, "looked for in"),
        (["analyze", "--command", "python x.py", "--size", "8"], 2, "--size: these are for DATA"),
        (["whatif", "dir"], 1, "'dir': not a regular file"),
        (["whatif", "r.json"], 2, "version 9"),
        (["whatif", "bad.json"], 1, "not JSON"),
        (["whatif", "cut.json"], 2, "subject.samples is missing"),
        (["plan", "bad.json"], 2, "no report of penstock analyze"),
        (["plan", data, "--out", "no/p.json"], 2, "there is no directory"),
        (["plan", data, "--cache", "8GB0"], 2, "cache is bytes"),
        (["plan", data, "--max-error", "200"], 2, "max_error"),
        (["plan", "nowhere"], 1, "nowhere"),
    ):  # fmt: skip
        if words[0] == "plan" and needs_solver.args[0]:
            continue
        refused(*words, status=status, says=says)
    assert {"x", "no"}.isdisjoint(os.listdir(tmp_path))


def test_torch_is_looked_for_before_a_script_runs(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "train.py").write_text("print('it ran')\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\nexit 3\n")  # the answer of a Python without torch
    (tmp_path / "bin" / "python").chmod(0o755)
    refused("analyze", "--command", "bin/python train.py", status=1, says="bin/python -m pip install torch")


@needs_solver
def test_a_report_has_nothing_to_measure(report: ps.report.Report, tmp_path: Path, refused: Any) -> None:
    report.to_json(tmp_path / "r.json")
    for words, says in ((["--size", "8"], "--size: nothing is loaded"), (["--rate", "5"], "accelerator: nothing is measured"),
                        (["--out", "r.json"], "written over")):  # fmt: skip
        refused("plan", "r.json", *words, status=2, says=says)
    assert "raw" not in [row["form"] for row in ps.plan(report, forms=["pli-small"], cache=0).data["singles"]]


def test_without_highs_nothing_is_measured(folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    monkeypatch.setenv("PENSTOCK_HIGHS", "/nowhere/libhighs.so")
    refused("plan", str(folder), status=1, says="pip install")
    refused("tune", str(folder), "--yes", status=1, says="pip install")


def test_room_for_the_probe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "free_nbytes", lambda path: 1000)
    with pytest.raises(ps.errors.NoSpaceError, match="TMPDIR=DIR"):
        ps.analyze(folder, budget=1)


def test_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.json"
    outputs.write(path, "old")
    path.chmod(0o600)
    (tmp_path / "link.json").symlink_to(path)
    outputs.write(tmp_path / "link.json", "new")
    assert path.read_text() == "new" and (tmp_path / "link.json").is_symlink() and path.stat().st_mode & 0o777 == 0o600
    outputs.write("/dev/null", "x")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        outputs.write(path, "newer")
    assert path.read_text() == "new" and sorted(os.listdir(tmp_path)) == ["f.json", "link.json"]


def test_a_reader_that_has_gone(report: ps.report.Report, tmp_path: Path) -> None:
    report.to_json(tmp_path / "r.json")
    done = subprocess.run(f"{sys.executable} -m penstock.cli.main whatif r.json; echo $? >&2", shell=True, stdout=_closed_pipe(),
                          stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=240)  # fmt: skip
    assert done.stderr.strip() == "141"


def _closed_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


# Uncertain reports say so.


@pytest.fixture(scope="module")
def report(folder: Path) -> ps.report.Report:
    return ps.analyze(ps.Loader(folder, 4, transforms=[T.RandomResizedCrop(16)]), budget=1, accelerator=50.0)


def quiet(report: ps.report.Report) -> dict[str, Any]:
    """Returns the report as a machine without other work would make it."""
    data = copy.deepcopy(report.data)
    data["machine"]["other_cores"] = 0.0
    data["machine"].pop("other_cores_at_start", None)
    for name in data["check"].keys() & data["phases"].keys():
        data["check"][name]["error"] = 0.01
    for phase in data["phases"].values():
        phase["step_seconds"] = data["phases"]["resident"]["step_seconds"]
    return data


def test_what_contradicts_itself_says_so(report: ps.report.Report) -> None:
    data = quiet(report)
    assert _report_text.doubts(data) == [] and "uncertain" not in ps.report.Report(data).to_html()
    data["check"]["warm"].update(predicted=41.1, measured=30.1, error=0.37)
    found = ps.report.Report(data)
    for text in (found.summary(), found.report(), found.to_html()):
        assert "DISTURBED" in text
        assert "From memory the model expects 41.1 samples/s, and 30.1 were measured (+37 %)" in text
    assert "Measure again on a quiet machine" in found.to_html() and "Nothing to do" not in found.to_html()


def test_other_work_is_named(report: ps.report.Report) -> None:
    data = quiet(report)
    data["machine"].update(other_cores=1.5, cores=2.0, other_cores_at_start=0.8)
    assert _report_text.doubts(data) == [
        "other programs used 0.8 of 2 CPU cores at the start", "other programs used 1.5 of 2 CPU cores while this was measured",
    ]  # fmt: skip
    assert "uncertain  other programs used 0.8 of 2 CPU cores at the start" in ps.report.Report(data).report()


# A plan ends with what to do.


def plan_of(changes: bool, gain: float, epochs: float | None, stored: float) -> dict[str, Any]:
    store = [{"form": "pli", "tier": "fast"}] if changes else [{"form": "png"}]
    return {
        "classes": [{"form": "png", "ways": [{"store": store}]}],
        "predicted": {"samples_per_second": 100.0 * gain},
        "now": {"samples_per_second": 100.0},
        "data": {"nbytes": 100e6},
        "stored_nbytes": stored,
        "convert": {"break_even_epochs": epochs},
    }


def test_verdicts() -> None:
    for data, says in (
        (plan_of(False, 1.0, None, 100e6), "Leave it as it is: no other form is worth writing."),
        (plan_of(False, 1.5, None, 100e6), "Do it: nothing is written, and with the plan's cache and threads the data are loaded "
         "1.5 times as fast."),
        (plan_of(True, 1.0, None, 100e6), "Leave it as it is: no time is saved."),
        (plan_of(True, 1.0, None, 80e6), "Do it: 20 MB less are stored, though no time is saved."),
        (plan_of(True, 2.0, 0.5, 100e6), "Do it: the first epoch pays for the writing, each later one is 2 times as fast."),
        (plan_of(True, 1.05, 74.0, 90e6), "Do it: from 74 epochs of training on time is saved (1.05 times as fast), and 10 MB less "
         "are stored."),
        (plan_of(True, 1.05, 74.0, 100e6), "Leave it as it is: only from 74 epochs of training on is time saved "
         "(1.05 times as fast)."),
        ({**plan_of(True, 2.0, 0.5, 100e6), "check": {"trusted": False, "reason": "R."}},
         "Leave it as it is: the measurements were disturbed, and the plan follows from them. Measure again."),
    ):  # fmt: skip
        assert says == _plan_text.verdict(data)
    assert _plan_text.packed_path("photos/") == "photos.pst" and _plan_text.packed_path("a.pst") == "a.pst"
    assert _plan_text.packed_path(".") == os.getcwd() + ".pst"
