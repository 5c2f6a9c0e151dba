#!/usr/bin/env python3
"""Writes seeds for fuzz_decode_mp3, fuzz_decode_ogg and fuzz_decode_sound: short sounds made by libsndfile, and tags.

    .venv/bin/python tests/fuzz/make_sound_corpus.py DIRECTORY

Writes DIRECTORY/decode_mp3, decode_ogg and decode_sound. Needs the package soundfile.
"""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path

import numpy as np
import soundfile


def encoded(rate: int, n: int, channels: int, format: str, subtype: str, **options) -> bytes:
    rng, t, file = np.random.default_rng(n), np.arange(n) / rate, io.BytesIO()
    bursts = 0.1 * rng.standard_normal(n) * (t % 0.05 < 0.01)
    tones = [0.3 * np.sin(2 * np.pi * (300 + 200 * c) * t) + bursts for c in range(channels)]
    soundfile.write(file, np.stack(tones, 1), rate, format=format, subtype=subtype, **options)
    return file.getvalue()


def id3(n: int) -> bytes:
    return b"ID3\4\0\0" + bytes([0, 0, n >> 7 & 127, n & 127]) + bytes(n)


def main(root: Path) -> None:
    modes = ((8000, 1, "CONSTANT"), (16000, 2, "VARIABLE"), (22050, 1, "VARIABLE"), (44100, 2, "CONSTANT"))
    mp3 = {f"{rate}-{channels}-{mode}": encoded(rate, rate // 8, channels, "MP3", "MPEG_LAYER_III", bitrate_mode=mode,
                                                compression_level=0.7) for rate, channels, mode in modes}
    joint = bytearray(mp3["16000-2-VARIABLE"])
    for at in range(len(joint) - 4):  # intensity stereo
        if joint[at] == 0xFF and joint[at + 1] & 0xFE == 0xF2:
            joint[at + 3] |= 0x70
    mp3 |= {"joint": bytes(joint), "tags": id3(20) + mp3["8000-1-CONSTANT"] + b"TAG" + bytes(125)}
    vorbis, opus = encoded(8000, 2000, 1, "OGG", "VORBIS"), encoded(48000, 9600, 2, "OGG", "OPUS")
    ogg = {"vorbis": vorbis, "opus": opus, "chain": opus + opus, "cut": opus[:-9]}
    flac, aiff = encoded(8000, 600, 1, "FLAC", "PCM_16"), encoded(8000, 100, 2, "AIFF", "PCM_16")
    ape = b"APETAGEX" + struct.pack("<IIII", 2000, 40, 1, 0x80000000) + bytes(8)
    sound = {"flac": b"\1" + flac[8:42] + flac[42:], "aiff": b"\2" + aiff, "id3": b"\0" + id3(9), "id3v1": b"\0TAG" + bytes(125),
             "ape": b"\0" + bytes(32) + bytes(8) + ape, "lyrics": b"\0LYRICSBEGININD0000200000026LYRICS200",
             "lyrics1": b"\0LYRICSBEGINlalaLYRICSEND"}
    for what, files in (("decode_mp3", mp3), ("decode_ogg", ogg), ("decode_sound", sound)):
        (root / what).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (root / what / name.lower()).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
