"""tune: the whole loop, on pictures whose PNGs are slow to decode."""

from __future__ import annotations

import copy
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import penstock as ps
from conftest import needs_highs
from penstock import transforms as T
from penstock.base import outputs
from penstock.cli import main
from penstock.planning import places, tune

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")
pytestmark = needs_highs()


def make(path, plan):
    return ps.Loader(path, 4, shuffle=True, seed=1, transforms=[T.RandomCrop(160), T.RandomHorizontalFlip()], output="numpy",
                     cache=None if plan is None else "auto", plan=plan)  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    rows = np.add.outer(np.arange(320), np.arange(320))[..., None]
    random = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("images")
    for i in range(24):
        pixels = (rows * [1, 2, 3] // 4 + random.integers(0, 8, (320, 320, 3)) + i) % 256
        pil.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02d}.png")
    return folder


@pytest.fixture
def folder(images, tmp_path):
    return shutil.copytree(images, tmp_path / "images")


@pytest.fixture
def no_analysis(monkeypatch):
    """Makes a test fail if something is measured."""
    monkeypatch.setattr(tune, "analyze", lambda *args, **options: pytest.fail("it was measured"))


@pytest.fixture(scope="module")
def reports(images, tmp_path_factory):
    """Reports with the usual loader, made once for all tests of this file: of the folder, and of a data set packed from it."""
    packed = tmp_path_factory.mktemp("analysed") / "set.pst"
    ps.pack(images, packed, forms=["original"])
    found = {}
    for is_packed, path in ((False, images), (True, packed)):
        with ps.Loader(path, 4, transforms=[T.RandomResizedCrop(224)], output="numpy", cache=None) as loader:
            found[is_packed] = ps.analyze(loader, budget=1)
    return found


@pytest.fixture
def analysed(reports, monkeypatch):
    """Makes tune use copies of these reports instead of measuring. Each copy gets the path of the tuned data."""

    def again(loader, step=None, **options):
        report = copy.deepcopy(reports[loader.dataset.is_packed])
        report.data["subject"]["path"] = loader.dataset.path
        for batch in itertools.islice(loader, 2 if step else 0):
            step(batch)
        return report

    monkeypatch.setattr(tune, "analyze", again)


def pixels(path) -> list:
    with ps.Loader(path, 1, output="numpy", cache=None) as loader:
        return [batch["image"].copy() for batch in loader]


def form_of(path) -> str:
    return ps.Dataset(path).item(0, "image")["form"]


def command(folder, *words: str, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the verb in a directory, without a terminal."""
    return subprocess.run([sys.executable, "-m", "penstock.cli.main", "tune", *words], capture_output=True, text=True, cwd=folder,
                          timeout=timeout, stdin=subprocess.DEVNULL, env={**os.environ, **environment})  # fmt: skip


# The usual loader: no `make` is given.


def test_a_folder_and_then_its_data_set(folder, tmp_path) -> None:
    asked = []
    tuned = ps.tune(folder, ask=lambda text: asked.append(text) or True, budget="2.5s", cache=0)
    packed = tmp_path / "images.pst"
    assert tuned.data == str(packed) and len(asked) == 1 and str(packed) in asked[0]
    assert tuned.after is not None and tuned.rate(tuned.after) > 0
    forms = {ps.Dataset(packed).item(i, "image")["form"] for i in range(24)}
    assert forms == {way["store"][0]["form"] for part in tuned.plan.data["classes"] for way in part["ways"]}
    assert "png" not in forms
    assert all(np.array_equal(a, b) for a, b in zip(pixels(packed), pixels(folder), strict=True))
    text = tuned.report()
    tuned.before.data["machine"].update(other_cores=1.5, cores=2.0)
    assert "other programs used 1.5 of 2 CPU cores" in tuned.report()
    assert "before" in text and "that time" in text and "were predicted" in text
    assert "RandomResizedCrop(224)" in text and "assumed" in text and "penstock pack" not in text
    json.dumps(tuned.as_dict(), allow_nan=False)
    assert ps.Plan.load(tuned.plan_file).changes_forms and tuned.plan_file == str(packed) + ".plan.json"
    with ps.Loader(packed, 4, plan=tuned.plan_file) as loader:
        assert len(next(iter(loader))["image"]) == 4
    with pytest.raises(ps.errors.ExistsError, match="exists: give another out, or tune it in place"):
        ps.tune(folder, budget="2s", cache=0)


def test_a_data_set_in_place(folder, tmp_path) -> None:
    path = tmp_path / "d.pst"
    ps.pack(folder, path, forms=["original"])
    said_no = ps.tune(path, ask=lambda text: False, budget="2.5s", cache=0)
    assert said_no.after is None and "answered by no" in said_no.notes[0] and said_no.written_seconds == 0
    assert form_of(path) == "png" and said_no.plan_file is None and not (tmp_path / "d.pst.plan.json").exists()
    tuned = ps.tune(path, budget="2.5s", cache=0)
    assert tuned.data == str(path) and tuned.after is not None and form_of(path) != "png"
    assert all(np.array_equal(a, b) for a, b in zip(pixels(path), pixels(folder), strict=True))
    assert ps.verify(path, decode=True).ok
    with pytest.raises(ps.errors.ArgumentError, match="repacked in place"):
        ps.tune(path, out=tmp_path / "other.pst", budget="2s")


def test_a_disturbed_analysis_is_in_the_question(folder, analysed, monkeypatch) -> None:
    """The question says first that the measurements cannot be trusted. If the user says yes, the notes say it, too."""

    def disturbed(*args, **options):
        found = analyze(*args, **options)
        found.data["check"]["warm"] = {"predicted": 45.0, "measured": 30.0, "error": 0.5, "cores": 1.0}
        return found

    analyze = tune.analyze
    monkeypatch.setattr(tune, "analyze", disturbed)
    asked = []
    tuned = ps.tune(folder, ask=lambda text: asked.append(text) or len(asked) > 1, budget="2.5s", cache=0)
    assert asked[0].startswith("DISTURBED, do not rely on this plan. From memory the model expects ")
    assert asked[0].splitlines()[1].startswith("pack ") and tuned.after is None and "answered by no" in tuned.notes[-1]
    assert tuned.report().startswith("DISTURBED") and tuned.as_dict()["plan"]["check"]["trusted"] is False
    assert "Leave it as it is: the measurements were disturbed" in tuned.report()
    tuned = ps.tune(folder, ask=lambda text: asked.append(text) or True, budget="2.5s", cache=0)
    assert tuned.after is not None and "it was written although the measurements before it were disturbed" in tuned.notes
    assert tuned.report().startswith("Of the second analysis: DISTURBED")


def test_a_loader_of_ones_own(folder, tmp_path) -> None:
    tuned = ps.tune(folder, make=make, budget="2.5s", cache=0, out=tmp_path / "own.pst")
    assert form_of(tmp_path / "own.pst") != "png" and tuned.after.data["subject"]["batch_size"] == 4
    with pytest.raises(ps.errors.ArgumentError, match="the loader of make has its own"):
        ps.tune(folder, make=make, batch_size=8)
    with pytest.raises(ps.errors.ArgumentError, match="returns a penstock.Loader, not list"):
        ps.tune(folder, make=lambda path, plan: [])


def test_what_is_fast_enough_is_left(folder) -> None:
    tuned = ps.tune(folder, accelerator=20.0, budget="2.5s", cache=0, batch_size=4)
    assert tuned.written_seconds == 0 and tuned.after is not None and not tuned.plan.changes_forms
    assert "Leave it as it is: " in tuned.report()


def test_labels_of_a_label_file_are_packed(folder, tmp_path, analysed, monkeypatch) -> None:
    rows = "".join(f"{i:02d}.png,{i % 3}\n" for i in range(24))
    (tmp_path / "labels.csv").write_text("file,label\n" + rows)
    monkeypatch.chdir(tmp_path)
    assert main.main(["tune", "images", "--labels", "labels.csv", "--yes", "--budget", "2s", "--cache", "0", "--quiet"]) == 0
    assert list(ps.Dataset(tmp_path / "images.pst")["label"]) == [i % 3 for i in range(24)]


@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_command(folder, tmp_path, packed) -> None:
    """Relative paths, a module that prints and changes the directory, and output that is only JSON."""
    data = "images"
    if packed:
        ps.pack(folder, tmp_path / "set.pst", forms=["original"])
        data = "set.pst"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "own.py").write_text("import os\nos.chdir('elsewhere')\nprint('imported')\n\n\ndef step(batch):\n    "
                                     "print('a step')\n    os.write(1, b'raw')\n")  # fmt: skip
    done = command(tmp_path, data, "--yes", "--train", "own:step", "--budget", "2.5s", "--cache", "0", "--plan", "plan.json",
                   "--report", "tuned.json", "--batch-size", "4", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    target = tmp_path / (data if packed else "images.pst")
    assert found["kind"] == "penstock tune" and found["after"] is not None and found["data"] == str(target)
    assert form_of(target) != "png" and "a step" in done.stderr
    assert ps.Plan.load(tmp_path / "plan.json").changes_forms
    assert json.loads((tmp_path / "tuned.json").read_text()) == found
    assert found["before"]["subject"]["assumed"] == ["transforms"] and found["before"]["subject"]["batch_size"] == 4


# Nothing is lost if tune ends early.


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ps.errors.NoSpaceError])
def test_the_plan_is_written_first(folder, tmp_path, analysed, monkeypatch, packed, error) -> None:
    path = folder
    if packed:
        path = tmp_path / "set.pst"
        ps.pack(folder, path, forms=["original"])

    def ends(*args, **options):
        assert ps.Plan.load(tmp_path / "p.json").changes_forms
        assert json.loads((tmp_path / "r.json").read_text())["after"] is None
        raise error("ends here")

    monkeypatch.setattr(places.packing, "repack" if packed else "pack", ends)
    with pytest.raises(error) as caught:
        ps.tune(path, budget="2s", cache=0, batch_size=4, plan_file=tmp_path / "p.json", report_file=tmp_path / "r.json")
    verb = f"penstock repack {path}" if packed else f"penstock pack {path} {tmp_path / 'images.pst'}"
    assert verb in caught.value.__notes__[0] and str(tmp_path / "p.json") in caught.value.__notes__[0]
    assert ps.Plan.load(tmp_path / "p.json").changes_forms
    assert "no second analysis" in str(json.loads((tmp_path / "r.json").read_text())["notes"])


def test_goes_on_after_an_interruption(folder, tmp_path, analysed, monkeypatch) -> None:
    real = ps.pack

    def cancels(done, *rest):
        time.sleep(0.11)  # progress is reported at most every 0.1 s; this makes it report each sample
        return done > 2

    monkeypatch.setattr(
        places.packing, "pack", lambda *args, **options: real(*args, **options, commit_size=1, num_workers=1, progress=cancels)
    )
    with pytest.raises(ps.errors.CancelledError):
        ps.tune(folder, budget="2s", cache=0, batch_size=4)
    monkeypatch.undo()
    packed = tmp_path / "images.pst"
    with pytest.raises(ps.errors.ExistsError, match="is not finished: go on with: penstock pack .* --plan .* --resume"):
        ps.tune(folder, budget="2s", cache=0)
    ps.pack(folder, packed, plan=f"{packed}.plan.json", resume=True)
    assert all(np.array_equal(a, b) for a, b in zip(pixels(packed), pixels(folder), strict=True))


def test_a_second_analysis_that_fails(folder, tmp_path, analysed) -> None:
    written = []

    def step(batch) -> None:
        if written:
            raise RuntimeError("the card fell out")

    with pytest.raises(RuntimeError, match="fell out") as caught:
        ps.tune(folder, step, ask=lambda text: written.append(1) or True, budget="2s", cache=0, report_file=tmp_path / "r.json",
                batch_size=4)  # fmt: skip
    assert "is written, and its plan is in" in caught.value.__notes__[0]
    saved = json.loads((tmp_path / "r.json").read_text())
    assert saved["data"] == str(tmp_path / "images.pst") and "fell out" in str(saved["notes"])
    assert form_of(tmp_path / "images.pst") != "png"


# At the training size a folder is packed completely or not at all.

SMALL = [T.Resize(40), T.RandomCrop(32), T.RandomHorizontalFlip()]
WORDS = ("images", "--yes", "--training-size", "--transforms", "small.json", "--budget", "2.5s", "--cache", "0",
         "--batch-size", "4")
# Packs one sample at a time and stops after the third, where the test ends the process.
SLOWLY = f"""
import sys, time
from penstock.cli import main
from penstock.planning import places

def progress(done, *rest):
    time.sleep(0.11)
    if done > 2:
        open("packing", "w").close()
        time.sleep(100)

pack = places.packing.pack
places.packing.pack = lambda *args, **options: pack(*args, **options, commit_size=1, num_workers=1, progress=progress)
sys.exit(main.main(["tune", *{WORDS!r}]))
"""


def hidden(folder) -> list:
    return list(folder.glob(".penstock-tune*"))


def ended_while_packing(folder, signal_number: int) -> tuple[int, str]:
    """Runs the command until it packs, and ends it. Returns its status and its output."""
    (folder / "packing").unlink(missing_ok=True)
    child = subprocess.Popen([sys.executable, "-c", SLOWLY], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        end = time.monotonic() + 600
        while not (folder / "packing").exists() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert (folder / "packing").exists()
        child.send_signal(signal_number)
        said = child.communicate(timeout=240)[1]
    finally:
        child.kill()
    return child.returncode, said


@pytest.mark.long  # three analyses, each in its own process
def test_the_training_size_after_interruptions(folder, tmp_path) -> None:
    """An incomplete data set never has the final name. The same command begins again, and removes the files of a killed run."""
    (tmp_path / "small.json").write_text(T.to_json(SMALL))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    packed, plan = tmp_path / "images.pst", tmp_path / "images.pst.plan.json"
    status, said = ended_while_packing(tmp_path, signal.SIGINT)
    assert status == 130 and "nothing is left of the packing; begin anew with: penstock pack" in said and "--resume" not in said
    assert not packed.exists() and not hidden(tmp_path)
    status, _ = ended_while_packing(tmp_path, signal.SIGKILL)
    assert status == -signal.SIGKILL and not packed.exists() and len(hidden(tmp_path)) == 1
    done = command(tmp_path, *WORDS, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert not hidden(tmp_path) and ps.verify(packed, decode=True).ok and ps.Dataset(packed).item(0, "image")["height"] == 40
    with ps.Loader(folder, 24, transforms=SMALL, output="numpy") as whole, ps.Loader(
        packed, 24, transforms=SMALL, output="numpy", plan=plan
    ) as small:
        np.testing.assert_array_equal(next(iter(whole))["image"], next(iter(small))["image"])


def test_the_question_says_that_images_become_smaller(folder, tmp_path) -> None:
    def made(path, plan):
        return ps.Loader(path, 4, shuffle=True, transforms=SMALL, output="numpy", cache=None, plan=plan)

    asked = []
    tuned = ps.tune(folder, make=made, ask=lambda text: asked.append(text), budget="2.5s", cache=0, training_size=True)
    smaller = f"{tmp_path / 'images.pst'} will have images after Resize(40); only {folder} keeps the whole ones."
    assert smaller in asked[0].splitlines() and asked[0].splitlines()[-1].startswith("pack ") and tuned.after is None


def test_where_no_image_is_made_smaller(folder, tmp_path, capfd, monkeypatch, no_analysis) -> None:
    """A data set, which would be changed in place, and transforms that begin with another operation: both are reported before
    anything is measured.
    """
    ps.pack(folder, tmp_path / "set.pst", forms=["original"])
    (tmp_path / "small.json").write_text(T.to_json(SMALL))
    monkeypatch.chdir(tmp_path)
    anew = f"penstock plan {tmp_path / 'set.pst'} --training-size --out plan.json, then penstock repack {tmp_path / 'set.pst'} DST"
    for words, says in (
        (["set.pst", "--transforms", "small.json"], f"its whole images would be lost. To store them in another data set: {anew}"),
        (["images"], "the transforms do not begin with Resize(side)"),
    ):
        assert main.main(["tune", *words, "--yes", "--training-size"]) == 2
        assert says in capfd.readouterr().err
    assert form_of(tmp_path / "set.pst") == "png" and not (tmp_path / "images.pst").exists()


def test_an_unfinished_pack_of_small_images_is_not_resumed(folder, tmp_path, no_analysis) -> None:
    plan = {"kind": "penstock plan", "version": 1, "field": "image", "loader": {}, "data": {"samples": 24}, "classes": [
        {"form": "png", "pixels": [0, None], "samples": 24, "ways": [{"share": 1.0, "store": [{"form": "raw", "resize": 40}]}]}]}
    (tmp_path / "images.pst.plan.json").write_text(json.dumps(plan))
    (tmp_path / "images.pst").mkdir()
    (tmp_path / "images.pst" / "journal.pst").write_bytes(b"")
    with pytest.raises(ps.errors.ExistsError, match="is not finished: remove it, or give another out"):
        ps.tune(folder)


# Checks before anything is measured.


def test_room_on_the_disk(folder, tmp_path, monkeypatch, no_analysis) -> None:
    monkeypatch.setattr(outputs, "free_nbytes", lambda path: 100_000)
    with pytest.raises(ps.errors.NoSpaceError, match=r"Packing .* takes about 3\.5 MB, and .* give another out"):
        ps.tune(folder)
    ps_set = tmp_path / "set.pst"
    monkeypatch.undo()
    ps.pack(folder, ps_set, forms=["original"])
    monkeypatch.setattr(outputs, "free_nbytes", lambda path: 100_000)
    with pytest.raises(ps.errors.NoSpaceError, match="in place, where the old state stays until the end"):
        ps.tune(ps_set)


def test_a_plan_keeps_to_the_room(folder, analysed, monkeypatch) -> None:
    whole = sum(file.stat().st_size for file in folder.iterdir())
    monkeypatch.setattr(outputs, "free_nbytes", lambda path: int(1.04 * whole) if path.endswith("images.pst") else 1 << 40)
    tuned = ps.tune(folder, budget="2s", cache=0, batch_size=4, ask=lambda text: False)
    assert tuned.plan.data["stored_nbytes"] <= 1.04 * whole


def test_places_to_write_to(folder, tmp_path, no_analysis) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "there").mkdir()
    (tmp_path / "images.pst.plan.json").write_text("mine")
    for options, says in (
        ({"plan_file": tmp_path / "no" / "p.json"}, "there is no directory"),
        ({"plan_file": tmp_path / "there"}, "is a directory"),
        ({"plan_file": tmp_path / "p.json", "report_file": tmp_path / "p.json"}, "written over"),
        ({"out": tmp_path / "there"}, "exists"),
        ({"out": tmp_path / "no" / "x.pst"}, "no directory that can be written"),
        ({}, "would be written over"),
        ({"cache": "8GB0"}, "cache is bytes"),
        ({"goal": "speed"}, "goal is one of"),
        ({"storag": 1}, "did you mean 'storage'"),  # codespell:ignore storag
        ({"accelerators": 0}, "accelerators must be 1"),
        ({"budget": "soon"}, "budget is seconds"),
    ):
        with pytest.raises((ps.errors.ArgumentError, ps.errors.ExistsError), match=says):
            ps.tune(folder, **options)
    assert (tmp_path / "images.pst.plan.json").read_text() == "mine"
    with pytest.raises(ps.errors.UnsupportedError, match="HiGHS"):
        ps.tune(folder, out=tmp_path / "x.pst", library="/nowhere/libhighs.so")


def test_wrong_commands(folder, tmp_path, monkeypatch, capfd, no_analysis) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken.py").write_text("def step(batch:\n")
    (tmp_path / "needs.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "own.py").write_text("def make(path, plan):\n    pass\n")
    (tmp_path / "ops.json").write_text('[{"op": "Resise", "size": 8}]')
    for words, status, says in (
        (["images"], 2, "--yes"),
        (["imags", "--yes"], 1, "imags"),
        (["ops.json", "--yes"], 1, "index of wids"),
        (["images", "--yes", "--train", "broken:step"], 2, "importing broken failed: SyntaxError"),
        (["images", "--yes", "--train", "needs:step"], 2, "-m pip install a_package_that_is_not_there"),
        (["images", "--yes", "--transforms", "ops.json"], 2, "did you mean 'Resize'"),
        (["images", "--yes", "--loader", "own:make", "--size", "64"], 2, "--size: the function of --loader"),
        (["images", "--yes", "--loader", "own:make"], 2, "returns a penstock.Loader, not NoneType"),
    ):
        monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
        assert main.main(["tune", *words, "--json"]) == status
        out, err = capfd.readouterr()
        assert says in err and says in json.loads(out)["error"]["text"] and "Traceback" not in err, (words, out, err)
    assert not (tmp_path / "images.pst").exists()
