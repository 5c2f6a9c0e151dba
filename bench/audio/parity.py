"""parity.py: the largest and the mean difference of each operation on sound from torchaudio's, as a table in Markdown.

Differences of waveforms are relative to full scale (1). Differences of spectrograms, mel bands, logarithms and MFCC are relative to
the largest value of the reference. Needs torch and torchaudio. --limit L: exit status 1 if a difference is larger.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from clips import import_torchaudio

import penstock as ps
from penstock import transforms as T

RATE = 16000


def sound(rate: int, channels: int = 1, seconds: float = 1) -> np.ndarray:
    rng, t = np.random.default_rng(rate), np.arange(int(rate * seconds)) / rate
    rows = [0.4 * np.sin(2 * np.pi * (200 + 100 * c) * t * (1 + t)) + 0.1 * rng.standard_normal(len(t)) for c in range(channels)]
    return np.clip(np.stack(rows), -1, 1).astype(np.float32)


def float_wav(x: np.ndarray, rate: int) -> bytes:
    data = np.ascontiguousarray(x.T, "<f4").tobytes()
    head = struct.pack("<HHIIHH", 3, len(x), rate, rate * len(x) * 4, len(x) * 4, 32)
    return b"".join((b"RIFF", struct.pack("<I", 36 + len(data)), b"WAVEfmt ", struct.pack("<I", 16), head, b"data",
                     struct.pack("<I", len(data)), data))


def by_penstock(x: np.ndarray, rate: int, ops: list[T.Transform]) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.wav").write_bytes(float_wav(x, rate))
        loader = ps.Loader(folder, 1, transforms=ops, num_workers=0, output="numpy")
        return np.array(next(iter(loader))["audio"][0])


def cases():
    """Yields for each case: a name, the sound, its sample rate, Penstock's operations, torchaudio's function, and whether the
    result is a waveform.
    """
    torchaudio = import_torchaudio()
    theirs, functional = torchaudio.transforms, torchaudio.functional
    for old, new in ((44100, 8000), (44100, 16000), (48000, 44100), (8000, 16000), (22050, 16000), (8000, 44100)):
        yield (f"Resample {old} to {new}", sound(old, 2), old, [T.Resample(new)],
               lambda x, old=old, new=new: functional.resample(x, old, new), True)
    yield "Mono", sound(RATE, 2), RATE, [T.Mono()], lambda x: x.mean(0, keepdim=True), True
    yield "Gain", sound(RATE), RATE, [T.Gain(-6)], lambda x: functional.gain(x, -6), True
    windows = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window}
    for arguments in ({}, {"n_fft": 512, "win_length": 400, "hop_length": 160}, {"power": 1.0}, {"window": "hamming"},
                      {"window": "blackman"}, {"center": False}, {"pad_mode": "constant"}, {"pad_mode": "replicate"},
                      {"normalized": True}, {"normalized": "frame_length"}, {"n_fft": 441}):
        more = dict(arguments)
        window = windows[more.pop("window", "hann")]
        yield (f"Spectrogram {arguments or ''}", sound(RATE), RATE, [T.Spectrogram(**arguments)],
               theirs.Spectrogram(window_fn=window, **more), False)
    for arguments in ({}, {"n_mels": 40}, {"n_mels": 64, "n_fft": 1024, "mel_scale": "slaney", "norm": "slaney"},
                      {"n_mels": 80, "n_fft": 512, "f_min": 50.0, "f_max": 7000.0}):
        mel = theirs.MelSpectrogram(RATE, **arguments)
        name = str(arguments or "")
        yield f"MelSpectrogram {name}", sound(RATE), RATE, [T.MelSpectrogram(RATE, **arguments)], mel, False
        yield (f"LogMel, decibels {name}", sound(RATE), RATE, [T.LogMel(RATE, **arguments)],
               lambda x, mel=mel: theirs.AmplitudeToDB("power", 80)(mel(x)), False)
        yield (f"LogMel, ln {name}", sound(RATE), RATE, [T.LogMel(RATE, log="ln", **arguments)],
               lambda x, mel=mel: torch.log(mel(x) + 1e-6), False)
    yield "MFCC", sound(RATE), RATE, [T.MFCC()], theirs.MFCC(), False
    yield ("MFCC, 13 of 23 bands, ln", sound(RATE), RATE,
           [T.MFCC(RATE, 13, log_mels=True, mel=T.MelSpectrogram(RATE, n_mels=23, hop_length=160))],
           theirs.MFCC(RATE, 13, log_mels=True, melkwargs={"n_mels": 23, "hop_length": 160, "n_fft": 400}), False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=1e-4)
    arguments = parser.parse_args()
    worst = 0.0
    print("| operation | largest | mean |\n|---|---|---|")
    for name, x, rate, ops, reference, is_waveform in cases():
        wanted = reference(torch.from_numpy(x)).numpy()
        found = by_penstock(x, rate, ops)
        gap = np.abs(found.astype(np.float64) - wanted) / (1 if is_waveform else np.abs(wanted).max())
        worst = max(worst, gap.max())
        print(f"| {name} | {gap.max():.1e} | {gap.mean():.1e} |")
    return int(worst > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
