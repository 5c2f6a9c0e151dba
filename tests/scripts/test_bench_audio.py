"""Output of the benches of sound and of DLIO, and of the example that learns spoken digits. Figures are invented."""

import argparse
import itertools

import pytest

import views_loaders
from bench_modules import load

clips, accuracy, dlio = load("audio", "clips"), load("audio", "accuracy"), load("dlio", "dlio")
MACHINE = {"cpu": "a CPU", "cores": 2, "commit": "abc", "date": "2000-01-02"}
SAID = """520 sounds to train on, 260 of theo and yweweler to test on
without augmentation: 32 losses, from 2.6208 to 1.3413; largest difference 0
penstock, seed 1: loss 2.401 to 0.611, 12.0% of the time waiting, unseen speakers 91.2%
torch, seed 1: loss 2.401 to 0.611, 80.0% of the time waiting, unseen speakers 99.9%
penstock, seed 2: loss 2.401 to 0.611, 12.0% of the time waiting, unseen speakers 88.8%
"""


def test_the_goal_is_held_by_each_seed(monkeypatch):
    monkeypatch.setattr(accuracy.subprocess, "run", lambda *_, **__: argparse.Namespace(stdout=SAID, returncode=1))
    found = accuracy.measure(argparse.Namespace(folder="x", epochs=40, seeds=[1, 2], fewer=False)) | {"machine": MACHINE}
    assert found["seeds"] == [{"seed": 1, "accuracy": 0.912}, {"seed": 2, "accuracy": 0.888}]
    assert (found["unseen"], found["tested_on"], found["lowest"], found["met"]) == (["theo", "yweweler"], 260, 0.888, False)
    assert "| 91.2% / 88.8% | 90% | missed |" in accuracy.table(found)
    assert views_loaders.audio_accuracy(found)[2:] == ["|all other speakers|520|91.2 %, 88.8 %|"]


def test_fewer_speakers_and_takes_train_as_many_steps(monkeypatch, tmp_path):
    """Four speakers, two of them held out, with five takes of two digits."""
    for digit, speaker, take in itertools.product("01", ("ann", "bob", "cem", "dia"), range(5)):
        (tmp_path / f"{digit}_{speaker}_{take}.wav").write_bytes(b"")
    asked = []

    def trained(folder, epochs, seeds, *more):
        names = sorted(path.name for path in folder.iterdir())
        asked.append((epochs, names, more))
        return {"trained_on": sum(name.split("_")[1] in ("ann", "bob") for name in names), "seeds": [{"seed": 1, "accuracy": 0.5}]}

    monkeypatch.setattr(accuracy, "trained", trained)
    args = argparse.Namespace(epochs=12, seeds=[1])
    rows = accuracy.fewer(tmp_path, {"unseen": ["cem", "dia"], "trained_on": 20}, args)
    assert [(row["speakers"], row["takes"], row["trained_on"]) for row in rows] == [(1, 1.0, 10), (2, 0.5, 12)]
    assert [epochs for epochs, _, _ in asked] == [24, 20]
    assert all(more == ("--unseen", "cem", "dia") and len([n for n in names if "cem" in n]) == 10 for _, names, more in asked)
    assert [name for name in asked[1][1] if name.startswith("0_ann")] == ["0_ann_0.wav", "0_ann_2.wav", "0_ann_4.wav"]
    lines = views_loaders.audio_accuracy({"trained_on": 20, "tested_on": 20, "seeds": [{"accuracy": 0.6}], "fewer": rows})
    assert lines[3:] == ["|1 of them|10|50.0 %|", "|2 of them, half of the takes|12|50.0 %|"]


def test_an_example_that_says_nothing_is_an_error():
    with pytest.raises(SystemExit, match="does not say"):
        accuracy.read("the losses differ\n")


def test_clips_beside_the_fastest_other(monkeypatch):
    rates = {"penstock": [890.0, 900.0, 910.0], "soundfile": [250.0], "dali": [100.0, 200.0, 400.0],
             "torchaudio": {"absent": "no torchaudio"}}
    monkeypatch.setattr(clips.make_clips, "make", lambda *_: ["wav"])
    monkeypatch.setattr(clips, "measure", lambda *_: (rates, {"torch": "2"}))
    monkeypatch.setattr(clips.environments, "install", lambda build, names, penstock: {} if "audio" in names else 1 / 0)
    args = argparse.Namespace(data=clips.Path("/nowhere"), clips=4, seconds=30.0, formats=["wav", "mp3"], cores=[1], features=False,
                              loaders=list(rates), rounds=1, time=1.0, build=clips.Path("/nowhere"))
    found = clips.measure_all(args) | {"machine": MACHINE}
    assert found["versions"] == {"torch": "2"}
    assert [cell["ratio"] for cell in found["cells"]] == [3.6]
    assert found["cells"][0]["rounds"] == rates  # each round's rate is kept, to show how rounds differ
    assert "| wav | 1 | 900 | 250 | 200 | absent | 3.60 | met |" in clips.table(found)
    assert views_loaders.clips(found) == ["|files|cores|penstock|soundfile|dali|x the fastest other|", "|---|---|---|---|---|---|",
                                          "|wav|1|900|250|200|3.6 x|"]  # fmt: skip


def test_dlio_says_who_feeds_the_accelerator():
    result = {"machine": MACHINE, "settings": {"files": 480, "threads": 2, "epochs": 3},
              "ways": {"dlio": {"au": 0.4, "samples_per_second": 100.0}, "loader": {"au": 0.86, "samples_per_second": 215.0}}}
    text = dlio.table(result)
    assert "| dlio | 0.400 | 100.0 | no |" in text and "| loader | 0.860 | 215.0 | yes |" in text
    assert views_loaders.dlio(result)[2:] == ["|dlio|0.400|100.0|", "|loader|0.860|215.0|"]
