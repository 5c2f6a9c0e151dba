"""Shows sounds in notebooks: a curve and a player, with a WAV of limited size inside the HTML."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from .. import _native
from ..errors import PenstockError
from .markup import as_array, escape, plain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Sound = npt.NDArray[np.float32]

MOST = 48_000  # samples of a WAV at most, of 2 bytes each
_RATE_LEAST = 16_000  # samples/s below which the rate of a WAV is not lowered
_CHANNELS_MOST = 8  # an array with more rows has bands of a spectrogram, not channels
_DECODED_MOST = 1 << 20  # samples of a file that are decoded at most
_WIDTH, _HEIGHT = 192, 48  # size of the curve in pixels


def _of_file(data: bytes) -> tuple[Sound, int, float]:
    """Decodes the beginning of a file. Returns float32 (n), samples/s, and the length of the whole file in seconds."""
    import numpy as np

    info = _native.audio_probe(data)
    rate, channels, n = info["rate"], info["channels"], info["samples"]
    part = np.zeros((min(n, MOST * max(rate // _RATE_LEAST, 1), _DECODED_MOST // channels), channels), np.float32)
    if len(part):
        _native.audio_decode(data, 0, len(part), part)
    return part.mean(1), rate, n / rate


def _of_array(value: Any) -> Sound | None:
    """Converts a sound (n) or (channels, n) to one channel, float32 (n). Returns None for a spectrogram or anything else."""
    import numpy as np

    array = as_array(value)
    if array is None or array.ndim not in (1, 2) or array.size == 0 or (array.ndim == 2 and len(array) > _CHANNELS_MOST):
        return None
    mono: Sound = (array if array.ndim == 1 else array.mean(0)).astype(np.float32)
    return mono


def wav(sound: Sound, rate: int) -> bytes:
    """Returns the beginning of a sound as WAV with 16 bits and one channel. A high sample rate is lowered."""
    import numpy as np

    step = max(rate // _RATE_LEAST, 1)
    n = min(len(sound) // step, MOST)
    kept = np.nan_to_num(sound[: n * step]).clip(-1, 1).reshape(n, step).mean(1)
    values: bytes = (kept * 32767).round().astype("<i2").tobytes()
    rate //= step
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(values), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(values)
    ) + values  # fmt: skip


def _curve(sound: Sound) -> str:
    """Draws the waveform as SVG, from the lowest and highest values of each stretch."""
    import numpy as np

    values = np.nan_to_num(sound)
    n = min(_WIDTH, len(values))
    ends = np.arange(n) * len(values) // n
    low, high = np.minimum.reduceat(values, ends), np.maximum.reduceat(values, ends)
    scale = (_HEIGHT / 2 - 1) / max(float(np.abs(values).max()), 1e-9)
    lines = "".join(
        f"M{x * _WIDTH / n + 0.5:.1f} {_HEIGHT / 2 - top * scale:.1f}V{_HEIGHT / 2 - bottom * scale + 0.6:.1f}"
        for x, (bottom, top) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="curve of the sound">'
        f'<path d="{lines}" stroke="currentColor" fill="none"/></svg>'
    )


def player(value: Any, caption: str, rate: int | None) -> str:
    """Returns HTML with a curve and a player of a sound; "" if it cannot be shown.

    value: the bytes of an audio file, or an array (n) or (channels, n). rate: samples/s of an array; None: not known.
    """
    seconds = 0.0
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            sound, rate, seconds = _of_file(bytes(value))
        except PenstockError:
            return ""
        if len(sound) == 0:
            return ""
    else:
        found = _of_array(value)
        if found is None:
            return ""
        sound = found
    words = [f"{rate:,} Hz" if rate else f"rate not known, played at {_RATE_LEAST:,} Hz"]
    played = rate or _RATE_LEAST
    seconds = seconds or len(sound) / played
    step = max(played // _RATE_LEAST, 1)
    heard = min(len(sound) // step, MOST) * step / played
    words.insert(0, f"{seconds:.2f} s" if heard > seconds - 0.01 else f"{heard:.2f} of {seconds:.2f} s")
    data = base64.b64encode(wav(sound, played)).decode()
    text = ", ".join(([plain(caption)] if caption else []) + words)
    return (
        '<figure style="display:inline-block;margin:4px;vertical-align:top;text-align:center">'
        f'{_curve(sound)}<div><audio controls="" preload="none" style="width:{_WIDTH}px;height:32px" '
        f'src="data:audio/wav;base64,{data}"></audio></div>'
        f'<figcaption style="max-width:{_WIDTH}px">{escape(text)}</figcaption></figure>'
    )
