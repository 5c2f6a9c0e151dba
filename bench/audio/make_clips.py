"""make_clips.py FOLDER: clips of sound to measure loaders with, in stereo at 44.1 kHz, in class folders.

The sounds are chords that decay over noise, from a generator, which codecs cannot compress to nothing. WAV is written here; FLAC,
MP3 and Ogg by the package soundfile, where it is installed and its libsndfile can write them.

    make_clips.py /tmp/clips --clips 64 --seconds 30      /tmp/clips/wav/0/000.wav ..., /tmp/clips/flac/..., /tmp/clips/mp3/...
"""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np

CLASSES = 4


def make_sound(number: int, seconds: float, rate: int) -> np.ndarray:
    """Returns the samples of a sound: int16 of shape (n, 2)."""
    rng, n = np.random.default_rng(number), int(seconds * rate)
    t, sound = np.arange(n) / rate, 0.02 * rng.standard_normal((n, 2))
    for start in np.arange(0, seconds, 0.5):
        note, first = 110 * 2 ** (rng.integers(36) / 12), int(start * rate)
        length = min(n - first, rate)
        envelope = 0.2 * np.exp(-4 * t[:length])
        for k in (1, 2, 3, 5):
            phase = 2 * np.pi * note * k * t[:length]
            sound[first : first + length, 0] += envelope / k * np.sin(phase)
            sound[first : first + length, 1] += envelope / k * np.sin(phase + 0.3 * k)
    return np.round(np.clip(sound, -1, 1) * 32767).astype("<i2")


def write_wav(path: Path, sound: np.ndarray, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.tobytes())


def formats_here() -> list[str]:
    try:
        import soundfile
    except (ImportError, OSError):
        return []
    return [name for name in ("flac", "mp3", "ogg") if name.upper() in soundfile.available_formats()]


def make(folder: Path, n: int, seconds: float, rate: int = 44100) -> list[str]:
    """Writes n clips in each format that this machine can write, and returns these formats. Existing files are kept."""
    formats = ["wav", *formats_here()]
    for i in range(n):
        missing = []
        for name in formats:
            path = folder / name / str(i % CLASSES) / f"{i:04d}.{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            missing += [] if path.exists() else [(name, path)]
        sound = make_sound(i, seconds, rate) if missing else None
        for name, path in missing:
            if name == "wav":
                write_wav(path, sound, rate)
            else:
                import soundfile

                soundfile.write(path, sound, rate, format=name.upper())
    return formats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    formats = make(arguments.folder, arguments.clips, arguments.seconds)
    print(f"{arguments.folder}: {arguments.clips} clips of {arguments.seconds:g} s as {', '.join(formats)}")


if __name__ == "__main__":
    main()
