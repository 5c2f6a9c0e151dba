"""tune: the whole loop on pictures whose PNGs are slow to decode."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import needs_highs

import penstock as ps
from penstock import transforms as T

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")
pytestmark = needs_highs()


def make(path, plan):
    return ps.Loader(path, 4, shuffle=True, seed=1, transforms=[T.RandomCrop(160), T.RandomHorizontalFlip()], output="numpy",
                     cache=None if plan is None else "auto", plan=plan)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    rows = np.add.outer(np.arange(320), np.arange(320))[..., None]
    random = np.random.default_rng(1)
    (tmp_path / "images").mkdir()
    for i in range(24):
        pixels = (rows * [1, 2, 3] // 4 + random.integers(0, 8, (320, 320, 3)) + i) % 256
        pil.fromarray(pixels.astype(np.uint8)).save(tmp_path / "images" / f"{i:02d}.png")
    return tmp_path / "images"


def pixels(path) -> list:
    with ps.Loader(path, 1, output="numpy", cache=None) as loader:
        return [batch["image"].copy() for batch in loader]


def test_a_folder_and_then_its_data_set(folder, tmp_path) -> None:
    asked = []
    tuned = ps.tune(folder, make=make, ask=lambda text: asked.append(text) or True, budget="2.5s", cache=0)
    packed = tmp_path / "images.pst"
    assert tuned.data == str(packed) and len(asked) == 1 and str(packed) in asked[0]
    assert tuned.after is not None and tuned.rate(tuned.after) > 0
    forms = {ps.Dataset(packed).item(i, "image")["form"] for i in range(24)}
    assert forms == {way["store"][0]["form"] for part in tuned.plan.data["classes"] for way in part["ways"]}
    assert "png" not in forms
    assert all(np.array_equal(a, b) for a, b in zip(pixels(packed), pixels(folder), strict=True))
    text = tuned.report()
    assert "before" in text and "paid back" in text and "predicted" in text
    json.dumps(tuned.as_dict(), allow_nan=False)
    with pytest.raises(ps.errors.ArgumentError, match="exists"):
        ps.tune(folder, make=make, budget="2s", cache=0)


def test_a_data_set_in_place(folder, tmp_path) -> None:
    path = tmp_path / "d.pst"
    ps.pack(folder, path, forms=["original"])
    said_no = ps.tune(path, make=make, ask=lambda text: False, budget="2.5s", cache=0)
    assert said_no.after is None and "answered by no" in said_no.notes[0] and said_no.written_seconds == 0
    assert ps.Dataset(path).item(0, "image")["form"] == "png"
    tuned = ps.tune(path, make=make, budget="2.5s", cache=0)
    assert tuned.data == str(path) and tuned.after is not None
    assert ps.Dataset(path).item(0, "image")["form"] != "png"
    assert all(np.array_equal(a, b) for a, b in zip(pixels(path), pixels(folder), strict=True))
    assert ps.verify(path, decode=True).ok
    with pytest.raises(ps.errors.ArgumentError, match="repacked in place"):
        ps.tune(path, make=make, out=tmp_path / "other.pst", budget="2s")


def test_what_is_fast_enough_is_left(folder) -> None:
    tuned = ps.tune(folder, make=make, accelerator=20.0, budget="2.5s", cache=0)
    assert tuned.written_seconds == 0 and tuned.after is not None and not tuned.plan.changes_forms


def test_the_command(folder, tmp_path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock._cli", "tune", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240, stdin=subprocess.DEVNULL)

    refused = run("images", "--budget", "3s")
    assert refused.returncode == 2 and "--yes" in refused.stderr
    (tmp_path / "own.py").write_text("def step(batch):\n    pass\n\n\ndef make(path, plan):\n    import test_tune_make\n"
                                     "    return test_tune_make.make(path, plan)\n")  # fmt: skip
    (tmp_path / "test_tune_make.py").write_text(
        "import penstock as ps\nfrom penstock import transforms as T\n\n\ndef make(path, plan):\n"
        "    return ps.Loader(path, 4, shuffle=True, transforms=[T.RandomCrop(160)], output='numpy', plan=plan)\n"
    )
    done = run("images", "--yes", "--train", "own:step", "--loader", "own:make", "--budget", "2.5s", "--cache", "0", "--plan",
               "plan.json", "--report", "tuned.json", "--quiet")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "images.pst").exists() and "samples/s from memory" in done.stdout
    assert ps.Plan.load(tmp_path / "plan.json").changes_forms
    assert json.loads((tmp_path / "tuned.json").read_text())["kind"] == "penstock tune"
