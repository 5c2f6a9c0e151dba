"""The package with an emulated GPU: a driver that replaces CUDA's, and the kernels' CPU build.

PST_TEST_GPU names the folder where a build of the tests has put both (scripts/check.py does).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from conftest import encoded, picture

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(90, 70), (64, 64), (33, 120), (128, 65), (70, 81)]


@pytest.fixture
def gpu() -> dict[str, str]:
    """Returns the environment of a process that has the emulated GPU."""
    folder = Path(os.environ.get("PST_TEST_GPU", "."))
    files = {
        "PENSTOCK_CUDA_DRIVER": folder / "libpst_fake_driver.so",
        "PENSTOCK_CUDA_KERNELS": folder / "libpst_fake_kernels.so",
    }
    if not all(path.exists() for path in files.values()):
        pytest.skip("no build of the tests: PST_TEST_GPU")
    return os.environ | {name: str(path) for name, path in files.items()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Folders of JPEGs, of the same JPEGs as pli-jpeg, and of PLI in two tiers."""
    for name in ("jpeg", "pli-jpeg", "pli-fast", "pli-small"):
        (tmp_path / name).mkdir()
    for i, (height, width) in enumerate(SIZES):
        pixels = picture(i, height, width)
        jpeg = encoded(pixels, "JPEG", quality=85)
        (tmp_path / "jpeg" / f"{i}.jpg").write_bytes(jpeg)
        (tmp_path / "pli-jpeg" / f"{i}.pli").write_bytes(ps.pli.from_jpeg(jpeg))
        for tier in ("fast", "small"):
            (tmp_path / f"pli-{tier}" / f"{i}.pli").write_bytes(ps.pli.encode(pixels, tier=tier))
    return tmp_path


@pytest.mark.parametrize("more", [["--few"], pytest.param([], marks=pytest.mark.long)], ids=["few", "all"])
def test_batches_of_a_gpu_are_those_of_the_cpu(gpu: dict[str, str], data: Path, more: list[str]) -> None:
    script = ROOT / "tests" / "gpu" / "loader_on_gpu.py"
    done = subprocess.run([sys.executable, str(script), str(data), *more], env=gpu, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "images compared" in done.stdout


def test_features_of_a_gpu_are_those_of_the_cpu(gpu: dict[str, str]) -> None:
    script = ROOT / "tests" / "gpu" / "sound_on_gpu.py"
    command = Path(sys.executable).with_name("penstock")
    done = subprocess.run([sys.executable, str(script), str(command)], env=gpu, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "chains compared" in done.stdout


def test_memory_of_a_gpu_is_limited(gpu: dict[str, str], data: Path) -> None:
    script = ROOT / "tests" / "gpu" / "streams_on_gpu.py"
    for i in range(len(SIZES)):  # more batches than the loader keeps ready
        first = data / "pli-jpeg" / f"{i}.pli"
        (data / "pli-jpeg" / f"{i}-again.pli").write_bytes(first.read_bytes())
    # If torch has CUDA, it would look for a real GPU.
    environment = gpu | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, str(script), str(data)], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 77, done.stdout + done.stderr
    assert "device_memory: held" in done.stdout


def test_rows_that_differ_lie_on_the_gpu(gpu: dict[str, str]) -> None:
    script = ROOT / "tests" / "gpu" / "ragged_on_gpu.py"
    done = subprocess.run([sys.executable, str(script)], env=gpu, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:3]] == ["list", "padded", "offsets"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_costs_of_a_gpu_are_probed(gpu: dict[str, str], data: Path, device: str) -> None:
    """The emulated GPU takes 20 us for a block and computes nothing."""
    source = f"""if True:
        import math
        import penstock as ps
        transforms = [ps.transforms.Resize(40), ps.transforms.CenterCrop(32)]
        loader = ps.Loader({str(data / "pli-jpeg")!r}, 2, device={device!r}, output="numpy" if {device!r} == "cpu" else "dlpack",
                           num_workers=2, transforms=transforms)
        report = ps.analyze(loader, budget="2s", forms=("pli-jpeg", "pli-small", "jpeg"))
        subject, forms = report.data["subject"], report.data["forms"]
        assert (subject["form"], subject["decode"]) == ("pli-jpeg", {"gpu" if device == "cuda" else "cpu"!r})
        assert set(forms["pli-jpeg"]) == set(forms["pli-small"]) == {{"cpu", "gpu"}}
        for form in ("pli-jpeg", "pli-small"):
            costs = forms[form]["gpu"]
            assert costs["gpu_seconds"] >= 20e-6 and 0 < costs["link_nbytes"] < 128 * 128 * 3, costs
        on_cpu = forms["pli-jpeg"]["cpu"]
        # Rows that the CPU decodes are augmented on the GPU where the batch is; else it has no part in them.
        assert (on_cpu["gpu_seconds"] > 0) == (on_cpu["link_nbytes"] > 0) == ({device!r} == "cuda"), on_cpu
        assert ("link_nbytes_per_second" in report.data["machine"]) == ({device!r} == "cuda")
        bounds = report.whatif(gpu_part=0.5).bounds
        seconds = (forms["pli-jpeg"]["gpu"]["gpu_seconds"] + on_cpu["gpu_seconds"]) / 2
        assert math.isclose(bounds["gpu"], 1 / seconds, rel_tol=1e-6), (bounds, seconds)
    """
    environment = gpu | {"PENSTOCK_FAKE_BLOCK_NS": "20000", "PENSTOCK_FAKE_PROCESSORS": "1"}
    done = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_gpu_is_told(gpu: dict[str, str]) -> None:
    source = "import penstock as ps; print(ps.cuda.device_count(), ps.cuda.reason() == '', ps.cuda.info(0)['name'])"
    done = subprocess.run([sys.executable, "-c", source], env=gpu, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "True" and int(done.stdout.split()[0]) >= 1


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_page_locked_memory(gpu: dict[str, str], data: Path, output: str) -> None:
    source = f"""if True:
        import ctypes, gc, os
        import numpy as np
        import penstock as ps

        def pinned_bytes():
            counts = (ctypes.c_uint64 * 16)()
            ctypes.CDLL(os.environ["PENSTOCK_CUDA_DRIVER"]).fake_counts(counts)
            return counts[10]  # live_host_nbytes

        options = {{"batch_size": 2, "output": {output!r}, "transforms": [ps.transforms.Resize(40), ps.transforms.CenterCrop(32)]}}
        plain = [batch["image"] for batch in ps.Loader({str(data / "jpeg")!r}, **options)]
        assert pinned_bytes() == 0
        for pin in (True, "auto"):
            loader = ps.Loader({str(data / "jpeg")!r}, pin_memory=pin, **options)
            n = loader.stats()["memory"]["slots"]
            assert n * 2 * 32 * 32 * 3 <= pinned_bytes() <= loader.stats()["memory"]["used"], (n, pinned_bytes())
            images = [batch["image"] for batch in loader]
            assert all(np.array_equal(x, y) for x, y in zip(images, plain, strict=True))
            assert "pin" not in loader.stats()["fallbacks"]
            image = images[0]  # outlives its loader
            loader.close()
            del images, loader
            gc.collect()
            assert pinned_bytes() >= image.nbytes and np.array_equal(image, plain[0])
            del image
            gc.collect()
            assert pinned_bytes() == 0
    """
    done = subprocess.run([sys.executable, "-c", source], env=gpu, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
