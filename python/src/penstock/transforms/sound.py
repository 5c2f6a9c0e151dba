"""Operations on sound, for audio fields. They are imported from penstock.transforms.

If torchaudio has the operation, its definition, argument names and defaults are the same. See include/penstock/audio.h.
"""

from __future__ import annotations

import importlib.util
import math
import numbers
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.public import public
from ..errors import ArgumentError
from .base import AudioTransform, Range, Transform

__all__ = [
    "AddNoise",
    "AmplitudeToDB",
    "CenterClip",
    "FrequencyMask",
    "Gain",
    "LogMel",
    "MFCC",
    "MelSpectrogram",
    "Mono",
    "PadTo",
    "RandomClip",
    "Resample",
    "Spectrogram",
    "TimeMask",
]

# Numbers of operations in include/penstock/audio.h, which never change.
_MONO, _RESAMPLE, _RANDOM_CLIP, _CENTER_CLIP, _PAD_TO, _GAIN, _NOISE = 1, 2, 3, 4, 5, 6, 7
_TIME_MASK, _FREQUENCY_MASK, _SPECTROGRAM, _MEL, _DECIBEL, _LOG, _DCT = 8, 9, 10, 11, 12, 13, 14
_SHORT = {"pad": 0, "error": 1, "repeat": 2}
_WINDOWS = {"hann": 0, "hamming": 1, "blackman": 2, "ones": 3}
_PAD_MODES = {"reflect": 0, "constant": 1, "replicate": 2}
_NORMALIZED: dict[Any, int] = {False: 0, True: 1, "window": 1, "frame_length": 2}
_MEL_SCALES = {"htk": 0, "slaney": 1}
_MEL_NORMS: dict[Any, int] = {None: 0, "slaney": 1}


def _count(op: object, name: str, value: object, low: int, high: int = 2**31 - 1) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise ArgumentError(f"{type(op).__name__}: {name} is a whole number, {low} to {high}, not {value!r}")
    return int(value)


def _one_of(op: object, name: str, value: Any, choices: Mapping[Any, int]) -> int:
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise ArgumentError(
            f"{type(op).__name__}: {name} is one of {', '.join(map(repr, choices))}, not {value!r}"
        ) from None


def _number(op: object, name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    if not isinstance(value, numbers.Real) or not low <= float(value) <= high or not math.isfinite(float(value)):
        raise ArgumentError(f"{type(op).__name__}: {name} is a number from {low:g} to {high:g}, not {value!r}")
    return float(value)


def _decibels(op: object, name: str, value: Any) -> list[float]:
    pair = (value, value) if isinstance(value, numbers.Real) else value
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ArgumentError(f"{type(op).__name__}: {name} is a number of decibels or (low, high), not {value!r}")
    low, high = (_number(op, name, part, -200, 200) for part in pair)
    if low > high:
        raise ArgumentError(f"{type(op).__name__}: {name} falls: {value!r}")
    return [low, high]


@dataclass(frozen=True)
class Mono(AudioTransform):
    """Averages all channels to one."""

    def steps(self) -> list[dict[str, Any]]:
        return [{"kind": _MONO}]


@dataclass(frozen=True)
class Resample(AudioTransform):
    """Resamples to ``rate`` samples per second, whatever the rate of the file is.

    A windowed sinc filter of exact ratio, as ``torchaudio.functional.resample`` with its defaults. Only the samples that a later
    clip needs are decoded and computed.
    """

    rate: int
    lowpass_filter_width: int = 6
    rolloff: float = 0.99

    def steps(self) -> list[dict[str, Any]]:
        return [
            {
                "kind": _RESAMPLE,
                "rate": _count(self, "rate", self.rate, 1, 10_000_000),
                "filter_width": _count(self, "lowpass_filter_width", self.lowpass_filter_width, 1, 128),
                "rolloff": _number(self, "rolloff", self.rolloff, 1e-3, 1),
            }
        ]


def _clip(op: Any, kind: int) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "n_samples": _count(op, "samples", op.samples, 1),
            "if_short": _one_of(op, "if_short", op.if_short, _SHORT),
        }
    ]


@dataclass(frozen=True)
class RandomClip(AudioTransform):
    """Takes ``samples`` samples of the sound at a random place.

    A shorter sound is padded with zeros at its end (``if_short="pad"``), repeated ("repeat"), or a bad sample ("error").
    """

    _draws = True

    samples: int
    if_short: str = "pad"

    def steps(self) -> list[dict[str, Any]]:
        return _clip(self, _RANDOM_CLIP)


@dataclass(frozen=True)
class CenterClip(AudioTransform):
    """Takes ``samples`` samples from the middle of the sound. ``if_short`` is as for :class:`RandomClip`."""

    samples: int
    if_short: str = "pad"

    def steps(self) -> list[dict[str, Any]]:
        return _clip(self, _CENTER_CLIP)


@dataclass(frozen=True)
class PadTo(AudioTransform):
    """Appends zeros to a sound with fewer than ``samples`` samples. A longer sound stays unchanged."""

    samples: int

    def steps(self) -> list[dict[str, Any]]:
        return [{"kind": _PAD_TO, "n_samples": _count(self, "samples", self.samples, 1)}]


@dataclass(frozen=True)
class Gain(AudioTransform):
    """Changes the level by ``db`` decibels, or by a random number within (low, high), with probability ``p``."""

    db: Range
    p: float = 1.0

    def steps(self) -> list[dict[str, Any]]:
        return [{"kind": _GAIN, "range": _decibels(self, "db", self.db), "p": _number(self, "p", self.p, 0, 1)}]


@dataclass(frozen=True)
class AddNoise(AudioTransform):
    """Adds white noise at a signal-to-noise ratio of ``snr`` decibels, or of a random ratio within (low, high).

    The ratio is that of the energies of each channel, as in ``torchaudio.functional.add_noise``. ``p``: probability.
    """

    _draws = True

    snr: Range
    p: float = 1.0

    def steps(self) -> list[dict[str, Any]]:
        return [{"kind": _NOISE, "range": _decibels(self, "snr", self.snr), "p": _number(self, "p", self.p, 0, 1)}]


@dataclass(frozen=True)
class TimeMask(AudioTransform):
    """Sets a random run of up to ``time_mask_param`` frames (of a waveform: samples) to ``value``.

    The run is at most the fraction ``p`` of all frames: torchaudio's TimeMasking.
    """

    _draws = True

    time_mask_param: int
    p: float = 1.0
    value: float = 0.0

    def steps(self) -> list[dict[str, Any]]:
        return [
            {
                "kind": _TIME_MASK,
                "mask_max": _count(self, "time_mask_param", self.time_mask_param, 0),
                "p": _number(self, "p", self.p, 0, 1),
                "value": _number(self, "value", self.value),
            }
        ]


@dataclass(frozen=True)
class FrequencyMask(AudioTransform):
    """Sets a random run of up to ``freq_mask_param`` bins to ``value``: torchaudio's FrequencyMasking."""

    _draws = True

    freq_mask_param: int
    value: float = 0.0

    def steps(self) -> list[dict[str, Any]]:
        return [
            {
                "kind": _FREQUENCY_MASK,
                "mask_max": _count(self, "freq_mask_param", self.freq_mask_param, 0),
                "value": _number(self, "value", self.value),
            }
        ]


def _spectrogram(op: Any) -> dict[str, Any]:
    n_fft = _count(op, "n_fft", op.n_fft, 2, 65536)
    return {
        "kind": _SPECTROGRAM,
        "n_fft": n_fft,
        "win_length": 0 if op.win_length is None else _count(op, "win_length", op.win_length, 1, n_fft),
        "hop_length": 0 if op.hop_length is None else _count(op, "hop_length", op.hop_length, 1),
        "pad": _count(op, "pad", op.pad, 0, 65536),
        "window": _one_of(op, "window", op.window, _WINDOWS),
        "power": _count(op, "power", int(op.power) if op.power in (1.0, 2.0) else op.power, 1, 2),
        "normalized": _one_of(op, "normalized", op.normalized, _NORMALIZED),
        "no_center": not op.center,
        "pad_mode": _one_of(op, "pad_mode", op.pad_mode, _PAD_MODES),
    }


@dataclass(frozen=True)
class Spectrogram(AudioTransform):
    """Converts (channels, samples) to (channels, ``n_fft // 2 + 1`` bins, frames): torchaudio's Spectrogram.

    ``window``: "hann", "hamming", "blackman" or "ones", periodic. ``power``: 1 (magnitude) or 2. ``n_fft`` must have no prime
    factor above 13.
    """

    n_fft: int = 400
    win_length: int | None = None
    hop_length: int | None = None
    pad: int = 0
    window: str = "hann"
    power: float = 2.0
    normalized: bool | str = False
    center: bool = True
    pad_mode: str = "reflect"

    def steps(self) -> list[dict[str, Any]]:
        return [_spectrogram(self)]


def _mel(op: Any) -> list[dict[str, Any]]:
    rate = _count(op, "sample_rate", op.sample_rate, 2, 10_000_000)
    high = float(rate // 2) if op.f_max is None else _number(op, "f_max", op.f_max, 0)
    low = _number(op, "f_min", op.f_min, 0)
    if not low < high:
        raise ArgumentError(f"{type(op).__name__}: f_min {low:g} is not below f_max {high:g}")
    return [
        _spectrogram(op),
        {
            "kind": _MEL,
            "rate": rate,
            "n_mels": _count(op, "n_mels", op.n_mels, 1, 4096),
            "f_min": low,
            "f_max": high,
            "mel_scale": _one_of(op, "mel_scale", op.mel_scale, _MEL_SCALES),
            "mel_norm": _one_of(op, "norm", op.norm, _MEL_NORMS),
        },
    ]


@dataclass(frozen=True)
class MelSpectrogram(AudioTransform):
    """Converts (channels, samples) to (channels, ``n_mels``, frames): torchaudio's MelSpectrogram.

    A sound that does not have the rate ``sample_rate`` here is a bad sample: put a :class:`Resample` before it.
    """

    sample_rate: int = 16000
    n_fft: int = 400
    win_length: int | None = None
    hop_length: int | None = None
    f_min: float = 0.0
    f_max: float | None = None
    pad: int = 0
    n_mels: int = 128
    window: str = "hann"
    power: float = 2.0
    normalized: bool | str = False
    center: bool = True
    pad_mode: str = "reflect"
    norm: str | None = None
    mel_scale: str = "htk"

    def steps(self) -> list[dict[str, Any]]:
        return _mel(self)


def _to_decibel(op: Any, power: bool, top_db: float | None) -> dict[str, Any]:
    return {
        "kind": _DECIBEL,
        "multiplier": 10.0 if power else 20.0,
        "amin": 1e-10,
        "ref": 1.0,
        "top_db": -1.0 if top_db is None else _number(op, "top_db", top_db, 0),
    }


@dataclass(frozen=True)
class AmplitudeToDB(AudioTransform):
    """Converts a spectrogram to decibels: torchaudio's AmplitudeToDB. ``stype``: "power" or "magnitude".

    ``top_db``: values further below the sample's largest value are raised to that limit.
    """

    stype: str = "power"
    top_db: float | None = None

    def steps(self) -> list[dict[str, Any]]:
        power = _one_of(self, "stype", self.stype, {"magnitude": 0, "power": 1})
        return [_to_decibel(self, bool(power), self.top_db)]


@dataclass(frozen=True)
class LogMel(MelSpectrogram):
    """:class:`MelSpectrogram` in decibels (``log="db"``, with ``top_db``), or its natural logarithm (``log="ln"``, of value +
    ``offset``)."""

    log: str = "db"
    top_db: float | None = 80.0
    offset: float = 1e-6

    def steps(self) -> list[dict[str, Any]]:
        if _one_of(self, "log", self.log, {"db": 1, "ln": 0}):
            return [*_mel(self), _to_decibel(self, self.power == 2, self.top_db)]
        return [*_mel(self), {"kind": _LOG, "offset": _number(self, "offset", self.offset, 0)}]


@dataclass(frozen=True)
class MFCC(AudioTransform):
    """Converts (channels, samples) to (channels, ``n_mfcc``, frames): torchaudio's MFCC.

    ``mel``: the :class:`MelSpectrogram`; its sample rate is ``sample_rate``. ``norm``: "ortho" or None. ``log_mels``: use the
    logarithm of mel bands + 1e-6 instead of decibels (top_db 80).
    """

    sample_rate: int = 16000
    n_mfcc: int = 40
    norm: str | None = "ortho"
    log_mels: bool = False
    mel: MelSpectrogram | None = None

    def steps(self) -> list[dict[str, Any]]:
        mel = MelSpectrogram(self.sample_rate) if self.mel is None else self.mel
        if not isinstance(mel, MelSpectrogram) or isinstance(mel, LogMel):
            raise ArgumentError(f"MFCC: mel is a MelSpectrogram, not {mel!r}")
        if mel.sample_rate != self.sample_rate:
            raise ArgumentError(f"MFCC: sample_rate is {self.sample_rate}, and that of mel is {mel.sample_rate}")
        ortho = _one_of(self, "norm", self.norm, {"ortho": 1, None: 0})
        log = {"kind": _LOG, "offset": 1e-6} if self.log_mels else _to_decibel(self, True, 80.0)
        n_mfcc = _count(self, "n_mfcc", self.n_mfcc, 1, mel.n_mels)
        return [*_mel(mel), log, {"kind": _DCT, "n_mfcc": n_mfcc, "no_ortho": not ortho}]


def steps_of(field: str, ops: Sequence[Transform]) -> list[dict[str, Any]]:
    """Returns the steps of an audio field's chain for the C library."""
    steps: list[dict[str, Any]] = []
    for op in ops:
        if not isinstance(op, AudioTransform):
            raise ArgumentError(f"transforms[{field!r}]: {type(op).__name__} is for images, and the field is audio")
        steps.extend(op.steps())
    return steps


def find_library() -> None:
    """Sets the environment to the libsndfile of the package soundfile, if no other is named there and the system has none."""
    from .. import _native

    if os.environ.get("PENSTOCK_SNDFILE") or _native.sndfile()[0]:
        return
    found = importlib.util.find_spec("_soundfile_data")
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    for folder in (found.submodule_search_locations or ()) if found else ():
        for name in (f"libsndfile_{machine}.so", "libsndfile.so"):
            if (path := Path(folder) / name).is_file():
                os.environ["PENSTOCK_SNDFILE"] = str(path)
                return


public(__name__, "penstock.transforms")
