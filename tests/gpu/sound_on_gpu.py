#!/usr/bin/env python3
"""Features of sound that a GPU makes are bit-identical to the CPU's, and the CPU made none of them.

    tests/gpu/sound_on_gpu.py COMMAND

The script makes its own data: an image, two sounds and a label per sample. COMMAND is the command `penstock`, for the host service.
A simulated driver (PENSTOCK_CUDA_DRIVER) can replace the GPU.
"""

from __future__ import annotations

import io
import sys
import tempfile
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from features_on_gpu import service
from loader_on_gpu import check_same, on_host, torch_output
from penstock import transforms as T

RATE, N_SAMPLES, LENGTH = 8000, 13, 6000
CLIP = [T.Mono(), T.RandomClip(4000)]
CHAINS: dict[str, list[Any]] = {
    "spectrogram": [*CLIP, T.Spectrogram(n_fft=512, hop_length=128)],
    "magnitude of 441": [*CLIP, T.Spectrogram(n_fft=441, hop_length=100, power=1)],
    "magnitude of 1001": [*CLIP, T.Spectrogram(n_fft=1001, hop_length=250, power=1)],
    "mel": [*CLIP, T.Gain((-6, 6), p=0.5), T.MelSpectrogram(RATE, n_fft=400, hop_length=80, n_mels=40)],
    "logarithm": [*CLIP, T.LogMel(RATE, n_fft=400, hop_length=80, n_mels=40, log="ln")],
    "decibels": [*CLIP, T.LogMel(RATE, n_fft=400, hop_length=80, n_mels=40, top_db=50), T.TimeMask(10), T.FrequencyMask(8)],
    "mfcc": [*CLIP, T.MFCC(RATE, n_mfcc=13, mel=T.MelSpectrogram(RATE, n_fft=400, hop_length=100, n_mels=32))],
    "resampled": [T.Mono(), T.Resample(5000), T.RandomClip(2500), T.LogMel(5000, n_fft=2048, hop_length=64, n_mels=64)],
}
PLACES = (ps.Gpu(decode="gpu"), "cuda", ps.Gpu(part=0.5), ps.Gpu(decode="cpu"))


def wav(number: int) -> bytes:
    """Returns a WAV in stereo."""
    noise = np.random.default_rng(number).normal(0, 3000, (LENGTH + 7 * number, 2))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(noise.astype("<i2").tobytes())
    return file.getvalue()


def make_data(path: Path) -> None:
    with ps.Writer(path, {"image": ps.Image(), "left": ps.Audio(), "right": ps.Audio(), "label": ps.Int()}) as writer:
        for i in range(N_SAMPLES):
            pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), np.uint8)
            writer.write({"image": pixels, "left": wav(2 * i), "right": wav(2 * i + 1), "label": i})


def batches(data: Path, left: list[Any], right: list[Any], **options: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Returns the arrays of two epochs, and the loader's statistics."""
    transforms = {"image": [T.RandomCrop(24), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)], "left": left, "right": right}
    loader = ps.Loader(str(data), batch_size=6, shuffle=True, seed=5, transforms=transforms, cache=None, **options)
    return list(arrays(loader)), loader.stats()


def arrays(loader: ps.Loader) -> Iterator[np.ndarray]:
    for _ in range(2):
        for batch in loader:
            for name in ("image", "left", "right", "label"):
                yield on_host(batch[name])


def compare(data: Path, output: str) -> None:
    """Each chain is compared beside the next one, so that a block has the tables of both."""
    names = list(CHAINS)
    for i, name in enumerate(names):
        left, right = CHAINS[name], CHAINS[names[(i + 1) % len(names)]]
        dtype = {"left": ("float32", "float16")[i % 2], "right": "float32"}
        expected, _ = batches(data, left, right, dtype=dtype, output="numpy")
        for place in PLACES:
            found, stats = batches(data, left, right, dtype=dtype, output=output, device=place)
            check_same(found, expected, f"{name}, {place}")
            assert "gpu" not in stats["fallbacks"], (name, place, stats["fallbacks"])
        print(f"{name}: the same", flush=True)


def compare_shared(data: Path, output: str, folder: Path) -> None:
    """The host service prepares features by the CPU, and the loader uploads them."""
    chains = CHAINS["decibels"], CHAINS["mfcc"]
    expected, _ = batches(data, *chains, output="numpy")
    with service(sys.argv[1], folder):
        found, stats = batches(data, *chains, output=output, device="cuda", share="sound-test")
    check_same(found, expected, "share")
    assert stats["share"]["batches"] > 0, stats["share"]
    print("share: the same", flush=True)


def main() -> None:
    output = torch_output()
    with tempfile.TemporaryDirectory() as work:
        data = Path(work) / "data.pst"
        make_data(data)
        compare(data, output)
        compare_shared(data, output, Path(work))
    print(f"{len(CHAINS)} chains compared, output {output}")


if __name__ == "__main__":
    main()
