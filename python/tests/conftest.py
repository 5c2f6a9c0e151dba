"""Small real data sets, made anew in each run: a folder of classes and what is packed from it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.planning import solver
from pictures import encoded, picture

CLASSES = ("ant", "bee", "cow")
PER_CLASS = 8
N = len(CLASSES) * PER_CLASS


def torchvision_v2(module_level: bool = False) -> ModuleType:
    """Returns torchvision.transforms.v2. Skips the test, or all tests of its file, if torchvision is not installed."""
    find_references()
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed (scripts/setup_venv.sh check)", allow_module_level=module_level)
    try:
        from torchvision.transforms import v2
    except RuntimeError:
        # torchvision's wheel from PyPI is linked against CUDA. With the CPU build of torch its compiled operators do not load, and
        # its import fails when it describes the first of them. Declaring their names is enough, except that nms must work, because
        # detectors call it.
        import torch

        names = _torchvision_operators.setdefault("names", torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            names.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        names.impl("nms", _nms, "CPU")
        from torchvision import extension
        from torchvision.transforms import v2

        extension._has_ops = lambda: True
    return v2


def _nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Replaces torchvision's nms. Of boxes that overlap by more than the threshold, it keeps the one with the highest score. The
    result is in the order of scores.
    """
    import torch

    order, kept = scores.argsort(descending=True).tolist(), []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    is_gone = torch.zeros(len(boxes), dtype=torch.bool)
    for i in order:
        if is_gone[i]:
            continue
        kept.append(i)
        sides = (torch.minimum(boxes[i, 2:], boxes[:, 2:]) - torch.maximum(boxes[i, :2], boxes[:, :2])).clamp(min=0)
        common = sides.prod(1)
        is_gone |= common / (area[i] + area - common) > iou_threshold
    return torch.tensor(kept, dtype=torch.int64)


_torchvision_operators: dict[str, object] = {}  # lives as long as the tests


def torchaudio_itself() -> ModuleType:
    """Returns torchaudio with its transforms. Skips the test if it is not installed."""
    find_references()
    if importlib.util.find_spec("torchaudio") is None:
        pytest.skip("torchaudio is not installed (scripts/setup_venv.sh check)")
    try:
        import torchaudio
    except OSError:
        # torchaudio's native library is linked against another build of torch. The operations that are compared do not need it.
        stand_in = ModuleType("torchaudio._extension")
        vars(stand_in).update(_IS_TORCHAUDIO_EXT_AVAILABLE=False, _IS_ALIGN_AVAILABLE=False, fail_if_no_align=lambda f: f)
        sys.modules["torchaudio._extension"] = stand_in
        import torchaudio
    import torchaudio.transforms

    return torchaudio


def find_references() -> None:
    """Adds the folder in which scripts/setup_venv.sh installs torchvision and torchaudio to Python's module search path."""
    apart = Path(sys.prefix) / "references"
    if apart.is_dir() and str(apart) not in sys.path:
        sys.path.append(str(apart))


def only_numpy(folder: Path) -> Path:
    """Makes a folder of packages that has only Penstock and numpy."""
    (folder / "penstock").symlink_to(Path(ps.__file__).parent)
    for entry in Path(sysconfig.get_path("platlib")).glob("numpy*"):
        (folder / entry.name).symlink_to(entry)
    return folder


def needs_highs() -> pytest.MarkDecorator:
    """Skips the tests of a file if there is no HiGHS, which solves plans."""
    missing = ""
    try:
        solver.require()
    except ps.errors.UnsupportedError as error:
        missing = str(error)
    return pytest.mark.skipif(bool(missing), reason=missing)


def highs_library() -> str | None:
    """Returns the path of HiGHS's library for C programs: PENSTOCK_HIGHS, or the one that scripts/setup_venv.sh installs. None:
    there is none.
    """
    named = os.environ.get("PENSTOCK_HIGHS")
    installed = Path(sys.prefix) / "highs" / "highspy" / "libhighs.so.1"
    return named or (str(installed) if installed.is_file() else None)


def limits_address_space() -> None:
    """Skips a test that limits its address space if AddressSanitizer reserves more than the limit."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("AddressSanitizer reserves more address space than the limit")


PROGRAM = Path(os.environ.get("PENSTOCK_SERVE") or Path(sysconfig.get_path("scripts")) / "penstock")


@contextlib.contextmanager
def host_service(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a host service with its socket at `path`."""
    process = subprocess.Popen([PROGRAM, "serve", "--socket", path], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not path.exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("service") / "host.sock"
    with host_service(path):
        yield path


@contextlib.contextmanager
def memcached(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a memcached server with its socket at `path`."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    process = subprocess.Popen(["memcached", "-M", "-m", "64", "-s", str(path), *user])
    try:
        end = time.monotonic() + 60
        while True:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(path))
                    break
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of eight pictures, JPEG and PNG, all of different sizes."""
    root = tmp_path_factory.mktemp("data") / "animals"
    for c, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for i in range(PER_CLASS):
            number = c * PER_CLASS + i
            pixels = picture(number, 60 + 3 * number, 90 - number)
            form, suffix = ("PNG", ".png") if i % 4 == 3 else ("JPEG", ".jpg")
            (root / name / f"{i:02d}{suffix}").write_bytes(encoded(pixels, form))
    return root


@pytest.fixture(scope="session")
def packed(folder: Path) -> Path:
    path = folder.parent / "animals.pst"
    report = ps.pack(folder, path)
    assert report.n_samples == N and report.n_bad == 0
    return path


@pytest.fixture(scope="session")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a data set of ten samples with a field of every type."""
    path = tmp_path_factory.mktemp("typed") / "typed.pst"
    schema = {
        "image": ps.Image(),
        "mask": ps.Mask(),
        "boxes": ps.Boxes(),
        "points": ps.Keypoints(),
        "sound": ps.Audio(),
        "label": ps.Int(classes=["zero", "one"]),
        "weight": ps.Float(),
        "blob": ps.Bytes(),
        "title": ps.Text(),
        "facts": ps.Json(),
        "fixed": ps.Array("int16", (2, 3)),
        "ragged": ps.Array("float32"),
    }
    with ps.Writer(path, schema) as writer:
        for i in range(10):
            writer.write(typed_sample(i), name=f"sample {i}")
    return path


def wav(samples: np.ndarray, rate: int) -> bytes:
    """Returns a WAV file of 16-bit samples of shape (n, channels)."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def typed_sample(i: int) -> dict[str, object]:
    rng = np.random.default_rng(i)
    return {
        "image": encoded(picture(i, 32, 48), "PNG"),
        "mask": rng.integers(0, 20, (32, 48), dtype=np.uint8),
        "boxes": np.sort(rng.random((i % 3, 2, 2), dtype=np.float32) * 30, axis=1).reshape(-1, 4),
        "points": rng.random((2, 3), dtype=np.float32) * 30,
        "sound": wav(np.arange(1, i + 2, dtype=np.int16).reshape(-1, 1), 8000),
        "label": ("zero", "one")[i % 2],
        "weight": i / 7,
        "blob": bytes(range(i)),
        "title": f"Nr. {i} äöü",
        "facts": {"i": i, "list": [1, 2.5, None]},
        "fixed": np.arange(6, dtype=np.int16).reshape(2, 3) + i,
        "ragged": rng.random((i + 1, 2), dtype=np.float32),
    }


@pytest.fixture
def run(folder: Path, packed: Path, typed: Path):
    """Runs Python source in a new process with these paths as variables. Returns its output."""

    def call(source: str, *, check: bool = True, timeout: float = 120) -> str:
        head = f"folder, packed, typed = {str(folder)!r}, {str(packed)!r}, {str(typed)!r}\n"
        # A process that a shell starts in the background ignores Ctrl-C, and its children inherit that.
        head += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        done = subprocess.run(
            [sys.executable, "-c", head + textwrap.dedent(source)],
            capture_output=True,
            text=True,
            timeout=timeout,
            # Newer Pythons warn about every fork in a process with threads, but the tests do just that.
            env={
                **os.environ,
                "PYTHONFAULTHANDLER": "1",
                "PYTHONWARNINGS": "ignore::DeprecationWarning",
            },
        )
        if check:
            assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
            assert done.stderr == "", done.stderr
        return done.stdout

    return call


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes a launcher's variables: ranks come from the tests, not from the process that started them."""
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith(("SLURM_", "OMPI_", "PENSTOCK_")):
            monkeypatch.delenv(name)


def write(path, schema, *samples, **options):
    """Writes the samples and opens the data set."""
    with ps.Writer(path, schema, **options) as writer:
        for sample in samples:
            writer.write(sample)
    return ps.Dataset(path)


def philox(counter, key):
    """Philox-4x32-10 (Salmon et al., SC 2011). Returns four numbers of 32 bits."""
    c, k, low = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & low, (first >> 32) ^ c[3] ^ k[1], first & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c
