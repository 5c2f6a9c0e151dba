"""`penstock view` with errors: samples, words, files of operations, disks, interruptions, and Pillow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from penstock import cli
from penstock.cli import main, samples

NOISE = np.random.default_rng(1).integers(0, 255, (48, 64, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's directory, with a folder f of two pictures."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    for name in ("a.png", "b.png"):
        PilImage.fromarray(NOISE).save(tmp_path / "f" / name)
    return tmp_path


@pytest.fixture
def fails(folder: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs the verb, which must fail with these words on stderr and in JSON. Returns the JSON."""

    def run(status: int, *words: object, says: str) -> dict[str, Any]:
        assert main.main(["view", *map(str, words), "--json"]) == status, words
        out, err = capfd.readouterr()
        assert says in err and "Traceback" not in err, (words, err)
        found: dict[str, Any] = json.loads(out)
        return found

    return run


def test_a_bad_sample_has_its_message_in_its_place(folder: Path, fails: Any) -> None:
    (folder / "f/a.png").write_bytes((folder / "f/b.png").read_bytes()[:60])
    report = fails(1, "f", ":", "--size", 64, says="penstock view: bad sample:")
    assert report["bad"] == 1 and report["tiles"][0]["name"] == "a.png"
    error = report["tiles"][0]["error"]
    assert error["sample"] == 0 and error["file"].endswith("a.png") and not error["status"].startswith("PST_")
    assert report["tiles"][1]["image_width"] == 64
    assert tuple(np.asarray(PilImage.open("view.png"))[70, 70]) == (64, 16, 16)


def test_a_huge_picture_is_a_bad_sample(folder: Path, fails: Any) -> None:
    data = bytearray((folder / "f/a.png").read_bytes())
    data[16:24] = (1 << 20).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    (folder / "f/a.png").write_bytes(data)
    assert fails(1, "f", "0", says="a.png")["bad"] == 1


def test_large_pictures(folder: Path) -> None:
    PilImage.new("L", (20_000, 3000), 5).save(folder / "f/c.png", compress_level=1)
    assert main.main(["view", "f", "c.png", "--size", "2048"]) == 0
    assert PilImage.open("view.png").size == (2064, 2100)


def test_pictures_are_not_kept(folder: Path, fails: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's memory is that of one picture, however many there are."""
    PilImage.fromarray(np.zeros((1000, 1000, 3), np.uint8)).save(folder / "f/a.png")
    make = samples.Loader
    monkeypatch.setattr(samples, "Loader", lambda *given, **options: make(*given, **options, host_memory="24MiB"))
    assert main.main(["view", "f", "0", "--epochs", "20", "--size", "32"]) == 0


def test_wrong_use(fails: Any) -> None:
    for words, says in [(["f"], "an operand is missing"), (["f", "1:1"], "A < B"), (["f", "5:9"], "A < B"),
                        (["f", "0:1:2"], "A < B"),
                        (["f", "0", "--size", "9"], "--size"), (["f", "0", "--epochs", "0"], "--epochs"),
                        (["f", "0:2", "--epochs", "4000"], "8000 pictures"), (["f", "0", "--columns", "5000"], "at most"),
                        (["f", "a.png", "--batch"], "positions"), (["f", "0", "-o", "-"], "--json"),
                        (["f", "0", "--transform", "x"], "did you mean --transforms"), (["f", "0", "1"], "too many: 1"),
                        (["f", "0", "--seed", "-1"], "--seed"), (["f", "0", "-x"], "no option -x")]:  # fmt: skip
        assert fails(2, *words, says=says)["error"]["status"] == "USAGE"
    for words, says in [(["f", "7"], "no sample 7"), (["f", "c.png"], "c.png"), (["nowhere", "0"], "nowhere"),
                        (["f", "0", "-t", "none.json"], "none.json"),
                        (["f", ":", "--size", "2048", "--epochs", "90"], "smaller --size"),
                        (["f", "0", "-o", "no/such/x.png"], "no/such/x.png"), (["f", "0", "-n"], "0")]:  # fmt: skip
        fails(1, *words, says=says)
    for words, says in [(["f", "0", "--field", "imagee"], "did you mean 'image'"), (["f", "0", "--field", "index"], "no field"),
                        (["f", "0", "--masks", "x"], "masks")]:  # fmt: skip
        assert fails(2, *words, says=says)["error"]["status"] == "ARGUMENT"


def test_nothing_to_draw(folder: Path, fails: Any) -> None:
    with ps.Writer(folder / "empty.pst", {"image": ps.Image()}):
        pass
    fails(2, "empty.pst", ":", says="there are 0 samples")
    fails(1, "empty.pst", "0", says="there are 0")
    with ps.Writer(folder / "n.pst", {"x": ps.Int()}) as writer:
        writer.write({"x": 1})
    fails(2, "n.pst", "0", says="no image or mask: nothing to draw")


@pytest.mark.parametrize(("content", "says"), [
    ("", "line 1 column 1"), ("[", "line 1 column 2"), ("hello", "not JSON"), ("[1]", "an operation is an object"),
    ('{"op": "CenterCrop", "size": 2}', "op"), ('[{"op": "CentreCrop", "size": 2}]', "did you mean 'CenterCrop'"),
    ('[{"op": "CenterCrop", "sise": 2, "size": 3}]', "did you mean 'size'"),  # codespell:ignore sise
    ('[{"op": "CenterCrop"}]', "'size' is missing"),
    ('[{"op": "CenterCrop", "size": 2.5}]', "CenterCrop"), ('[{"op": "Pad", "padding": [1, 2, 3]}]', "Pad"),
    ('[{"op": "Resize", "size": 9, "interpolation": "bilinaer"}]', "bilinear"),
    ('[{"op": "Normalize", "mean": 128, "std": 1}]', "255"), ('{"mask": []}', 'no field "mask"'),
    ('[{"op": "Normalize", "mean": 0, "std": 1}, {"op": "Pad", "padding": 1}]', "last"),
    ('[{"op": "RandomVerticalFlip", "p": 2}]', "p "), ("[] []", "Extra data"), ("[" * 99999, "nested too deep"),
])  # fmt: skip
def test_wrong_files_of_operations(folder: Path, fails: Any, content: str, says: str) -> None:
    (folder / "t.json").write_text(content)
    error = fails(2, "f", "0", "-t", "t.json", says=says)["error"]
    assert error["status"] == "ARGUMENT" and error["file"] == "t.json"
    assert not (folder / "view.png").exists()


def test_odd_names(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = 'ä"\\ \u20ac \U0001f600\u202e'
    os.rename(folder / "f/a.png", folder / "f" / f"{name}.png")
    assert main.main(["view", "f", f"{name}.png", "-o", "sh\neet.png"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("sh\\neet.png: 1 picture, 272x308 pixels") and (folder / "sh\neet.png").exists()
    (folder / os.fsdecode(b"caf\xe9")).mkdir()
    assert main.main(["view", os.fsdecode(b"caf\xe9"), "0"]) == 1
    assert "caf\\xe9" in capfd.readouterr().err
    assert main.main(["view", "f", "no\nsuch\x1b[31m"]) == 1
    assert "\x1b" not in capfd.readouterr().err


def test_stdout(folder: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "view", "f", "0", "-o", "-", "--size", "64"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.startswith(b"\x89PNG") and done.stderr == b""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"penstock: writing to stdout: No space left on device\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk(folder: Path, fails: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "view.png").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    error = fails(1, "f", "0", "--force", says="view.png: cannot be written: No space left on device")["error"]
    assert (error["status"], error["file"], error["os_error"]) == ("NO_SPACE", "view.png", "No space left on device")
    assert (folder / "view.png").read_bytes() == b"old" and sorted(os.listdir(folder)) == ["f", "view.png"]
    fails(1, "f", "0", "-o", "/dev/full", says="/dev/full: cannot be written")


def test_an_interruption_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt(*unused: object) -> None:
        raise KeyboardInterrupt

    for target, name in ((samples.Samples, "tile"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, interrupt)
            assert main.main(["view", "f", "0"]) == 130
        assert "penstock view: interrupted" in capfd.readouterr().err and os.listdir(folder) == ["f"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(folder: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "view", "f", "0:2", "--epochs", "2000", "-c", "60", "-s", "64"]
    environment = {**os.environ, "PENSTOCK_PROGRESS_SECONDS": "0"}
    # A background job ignores SIGINT, and its children inherit that.
    process = subprocess.Popen(["env", "--default-signal=INT", *command], env=environment, stderr=subprocess.PIPE)
    assert process.stderr is not None and process.stderr.readline().startswith(b"view: ")
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait(60) == 130 and rest.endswith(b"penstock view: interrupted\n")
    assert os.listdir(folder) == ["f"]


def test_without_pillow(folder: Path, fails: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "penstock.cli.sheet" or name.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(cli, "sheet", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    error = fails(1, "f", "0", says="view draws with Pillow, which this Python does not have")["error"]
    assert error["status"] == "UNSUPPORTED" and error["text"].endswith("-m pip install 'penstock[view]'")


def test_no_data_set(folder: Path, fails: Any) -> None:
    (folder / "s").write_bytes(b"\0" * 257 + b"ustar" + b"\0" * 250)
    for path, page in (("s", "from-webdataset.md"), ("s3://bucket/train", "object-storage.md")):
        assert fails(1, path, "0", says=page)["error"]["status"] == "UNSUPPORTED"
    os.mkfifo("pipe")
    started = time.monotonic()
    fails(1, "f", "0", "-t", "pipe", says="not a regular file")
    assert time.monotonic() - started < 60
