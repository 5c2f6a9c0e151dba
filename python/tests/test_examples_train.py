"""The examples of training for images, boxes and masks, short: losses equal the peer's, losses fall, and results are right.

Only the comparison with the peer needs torchvision.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import torchvision_v2

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# torchvision may need the help of conftest.py; the examples import it normally.
WITH_TORCHVISION = ["-c", "import sys, runpy, conftest; conftest.torchvision_v2(); sys.argv = sys.argv[1:]; "
                          "runpy.run_path(sys.argv[0], run_name='__main__')"]
TRAINED = re.compile(r"^(\w+), seed \d: loss ([\d.]+) to ([\d.]+), ([\d.]+)% of [\d.]+ s waiting, (.*)$", re.M)


def output_of(tmp_path: Path, *command: object, code: int = 0, errors: str = "", timeout: int = 300) -> str:
    """Runs the program and returns its output. errors: text that must be on standard error."""
    path = os.pathsep.join([str(Path(__file__).parent), str(EXAMPLES)])
    # Threads of OpenMP spin while they wait, which can take minutes on a busy machine.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=timeout,
                          cwd=tmp_path, env=environment)
    assert done.returncode == code and errors in done.stderr, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def results_of(text: str) -> dict[str, tuple[float, float, float, list[float]]]:
    """Returns for each loader: first and last loss, per cent of waiting, and the numbers of its results."""
    return {name: (float(first), float(last), float(stall), [float(n) for n in re.findall(r"[\d.]+(?=%| pixels)", results)])
            for name, first, last, stall, results in TRAINED.findall(text)}


@pytest.mark.parametrize("examples", [
    [("train_images.py",), ("train_detector.py", "--made", 80)],
    pytest.param([("train_segmentation.py", "--made", 60)], marks=pytest.mark.long)], ids=["images, boxes", "masks"])
def test_losses_equal_those_of_the_peer(tmp_path, examples):
    torchvision_v2()
    for done in outputs_of(tmp_path, *((*command, "--same", "--same-epochs", 2) for command in examples), by=WITH_TORCHVISION):
        assert done["code"] == 0, done
        text = str(done["out"])
        assert text.rstrip().endswith("largest difference 0")
        assert int(re.search(r"augmentation: (\d+) losses", text)[1]) >= 8


@pytest.mark.long  # test_losses_equal_those_of_the_peer runs the same programs
@pytest.mark.parametrize(("example", "options"), [
    ("train_images.py", ("--epochs", 1, "--ema")), ("train_detector.py", ("--made", 40, "--epochs", 1)),
    ("train_segmentation.py", ("--made", 32, "--epochs", 1))])
def test_the_peer_trains_with_augmentation(tmp_path, example, options):
    torchvision_v2()
    found = results_of(output_of(tmp_path, *WITH_TORCHVISION, EXAMPLES / example, "--loader", "penstock", "torch", *options))
    assert set(found) == {"penstock", "torch"}
    first, other = found["penstock"][0], found["torch"][0]
    assert abs(first - other) < 0.25 * first  # the first loss is that of the same network on pictures of the same kind
    assert all(0 <= stall <= 100 for _, _, stall, _ in found.values())


@pytest.mark.long  # The tests above run the same programs; here they train until they have learnt.
@pytest.mark.parametrize(("example", "options", "falls_to", "at_least"), [
    ("train_images.py", ("--epochs", 30), 0.97, 16),  # mixed labels keep the loss high; chance is 8.3 %
    ("train_detector.py", ("--made", 200, "--epochs", 12), 0.5, 15),  # a detector that learned nothing reaches less than 1 %
    ("train_segmentation.py", ("--made", 100, "--epochs", 10), 0.6, 40)])  # below 40 % if only sky and ground are told apart
def test_penstock_trains(tmp_path, example, options, falls_to, at_least):
    first, last, stall, (result, *rest) = results_of(output_of(tmp_path, EXAMPLES / example, *options))["penstock"]
    assert last < falls_to * first and result >= at_least and 0 <= stall < 100
    assert all(distance < 4 for distance in rest)  # keypoints that moved with their boxes


def outputs_of(tmp_path: Path, *commands: tuple[object, ...], by: Sequence[str] = ()) -> list[dict[str, object]]:
    """Runs programs in one process. Returns the status and the output of each."""
    given = json.dumps([[str(EXAMPLES / str(example)), *map(str, options)] for example, *options in commands])
    text = output_of(tmp_path, *by, Path(__file__).with_name("run_examples.py"), given, timeout=300 * len(commands))
    done: list[dict[str, object]] = json.loads(text)
    assert len(done) == len(commands)
    return done


def test_too_little_data_is_said(tmp_path):
    small = [("train_images.py", "--batch", 1000), ("train_detector.py", "--made", 8, "--batch", 16),
             ("train_segmentation.py", "--made", 8, "--batch", 16)]
    for done in outputs_of(tmp_path, *small, *((*command, "--same") for command in small),
                           ("train_audio.py", "--made", "--batch", 1000)):
        assert done["code"] == 1 and "nothing to train" in str(done["errors"]), done


@pytest.mark.long  # test_examples_ranks.py starts ranks in the same ways
def test_two_ranks_of_torchrun(tmp_path):
    """The example asserts that both ranks end with the same weights. Each rank tests its part."""
    text = output_of(tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, EXAMPLES / "train_images.py",
                     "--epochs", 2)
    assert len(results_of(text)) == 1 and text.count("images to train on") == 1


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning(tmp_path):
    text = output_of(tmp_path, EXAMPLES / "train_images_lightning.py", "--epochs", 2, "--devices", 2)
    found = re.findall(r"^lightning, rank (\d) of 2: (\d+) steps, loss [\d.]+ to [\d.]+, accuracy [\d.]+%$", text, re.M)
    assert sorted(rank for rank, _ in found) == ["0", "1"] and {steps for _, steps in found} == {"12"}


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning_options(tmp_path):
    refused = [(("--ema",), 2, "goes without --ema"), (("--same",), 2, "goes without --same"), (("--devices",), 2, "expected one"),
               (("--loader", "torch"), 2, "goes without --loader"), (("--devices=0",), 2, "--devices is 0"),
               (("--batch", "1000"), 1, "nothing to train")]
    *ended, trained = outputs_of(tmp_path, *(("train_images_lightning.py", *given) for given, _, _ in refused),
                                 ("train_images_lightning.py", "--devices=1", "--test", 0, "--epochs", 1, "--batch", 64))
    for done, (given, code, said) in zip(ended, refused, strict=True):
        assert done["code"] == code and said in str(done["errors"]), (given, done)
    assert trained["code"] == 0 and re.match(r"lightning, rank 0 of 1: \d+ steps, loss", str(trained["out"])), trained


@pytest.mark.long  # test_imports_kinds.py reads the same kinds of files
def test_voc_and_cityscapes_by_their_files(tmp_path):
    """A detector from Pascal VOC's XML files, and a segmenter from frames and label maps with Cityscapes' names."""
    for name in ("images", "annotations", "frames", "maps"):
        (tmp_path / name).mkdir()
    rng = np.random.default_rng(0)
    for i in range(5):
        pixels = rng.integers(0, 255, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{i}.jpg")
        sides = "<xmin>11</xmin><ymin>11</ymin><xmax>50</xmax><ymax>40</ymax>"
        box = f"<object><name>cat</name><bndbox>{sides}</bndbox></object>"
        (tmp_path / "annotations" / f"{i}.xml").write_text(f"<annotation><filename>{i}.jpg</filename>{box}</annotation>")
        Image.fromarray(pixels).save(tmp_path / "frames" / f"town_{i:06}_000019_leftImg8bit.png")
        labels = rng.choice(np.array([0, 7, 26], np.uint8), (60, 80))
        Image.fromarray(labels).save(tmp_path / "maps" / f"town_{i:06}_000019_gtFine_labelIds.png")
    (tmp_path / "annotations" / "lost.xml").write_text("<annotation><filename>lost.jpg</filename></annotation>")
    text = output_of(tmp_path, EXAMPLES / "train_detector.py", "--data", tmp_path, "--batch", 2, "--size", 48, "--epochs", 1)
    assert text.startswith("4 pictures to train on, 1 to test on; classes: cat\n") and results_of(text)
    text = output_of(tmp_path, EXAMPLES / "train_segmentation.py", "--frames", tmp_path / "frames", tmp_path / "maps", "--batch", 2,
                     "--size", 48, "--epochs", 1)
    assert text.startswith("19 classes, 4 pictures to train on, 1 to test on\n") and results_of(text)
