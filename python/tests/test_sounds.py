"""Sound files are decoded completely or refused: clips compared with the whole sound, other decoders, damages, tags, and lengths
that headers do not state.

``PENSTOCK_TEST_SOUNDS=2000`` tries 60 sounds, 2000 clips and 1000 damages, as `make check-long` does.
"""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest

import penstock as ps
from penstock import _native
from penstock import transforms as T

soundfile = pytest.importorskip("soundfile")
pytestmark = pytest.mark.skipif(not {"MP3", "OGG", "FLAC"} <= set(soundfile.available_formats()), reason="a libsndfile without MP3")

CLIPS = int(os.environ.get("PENSTOCK_TEST_SOUNDS", "150"))
MANY = CLIPS >= 2000
STEP = 2 / 32768


def speech(rate: int, seconds: float, channels: int, seed: int) -> np.ndarray:
    """Returns speech-like sound (n, channels): syllables of harmonics, nearly silent pauses, a sweep."""
    rng, t = np.random.default_rng(seed), np.arange(int(rate * seconds)) / rate
    voiced = np.clip(np.sin(2 * np.pi * 2.1 * t + seed), 0, 1) * (np.sin(2 * np.pi * 0.3 * t) > -0.2)
    turns = 2 * np.pi * np.cumsum(110 + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    rows = [0.2 * voiced * sum(np.sin(k * turns + c) / k for k in range(1, 12)) + 3e-4 * rng.standard_normal(len(t))
            + 0.05 * np.sin(2 * np.pi * (200 + 400 * t) * t) for c in range(channels)]
    return np.stack(rows, 1)


def encoded(samples: np.ndarray, rate: int, format: str, subtype: str, **options) -> bytes:
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate, samples.shape[1], format=format, subtype=subtype, **options) as out:
        for at in range(0, len(samples), rate):  # libvorbis needs a large stack for long sounds
            out.write(samples[at : at + rate])
    return file.getvalue()


def mp3(samples: np.ndarray, rate: int, mode: str = "VARIABLE", level: float = 0.5) -> bytes:
    return encoded(samples, rate, "MP3", "MPEG_LAYER_III", bitrate_mode=mode, compression_level=level)


KBITS = {True: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
         False: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]}


def frames_of(file: bytes) -> list[tuple[int, int]]:
    """Returns offsets and sizes of the frames of an MP3 file without tags."""
    at, frames = 0, []
    while at + 4 <= len(file) and file[at] == 0xFF:
        version = file[at + 1] >> 3 & 3
        rate = (44100, 48000, 32000)[file[at + 2] >> 2 & 3] >> {3: 0, 2: 1, 0: 2}[version]
        nbytes = (144000 if version == 3 else 72000) * KBITS[version == 3][file[at + 2] >> 4] // rate + (file[at + 2] >> 1 & 1)
        frames.append((at, nbytes))
        at += nbytes
    return frames


def without_info(file: bytes) -> bytes:
    """Returns an MP3 file without its first frame, which has the Xing or LAME header."""
    return file[frames_of(file)[0][1] :]


def id3(n: int) -> bytes:
    return b"ID3\3\0\0" + bytes([n >> 21 & 127, n >> 14 & 127, n >> 7 & 127, n & 127]) + bytes(n)


def ogg_pages(file: bytes) -> list[bytes]:
    pages, at = [], 0
    while at < len(file):
        nbytes = 27 + file[at + 26] + sum(file[at + 27 : at + 27 + file[at + 26]])
        pages.append(file[at : at + nbytes])
        at += nbytes
    return pages


def renumbered(pages: list[bytes], serial: int) -> bytes:
    """Returns the Ogg pages as a stream with another serial number and matching checksums."""
    made = b""
    for page in pages:
        page, crc = bytearray(page), 0
        page[14:18], page[22:26] = struct.pack("<I", serial), bytes(4)
        for byte in page:
            crc ^= byte << 24
            for _ in range(8):
                crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
        page[22:26] = struct.pack("<I", crc)
        made += page
    return made


def decode(file: bytes, first: int = 0, n: int | None = None) -> np.ndarray:
    info = _native.audio_probe(file)
    out = np.empty((info["samples"] - first if n is None else n, info["channels"]), np.float32)
    _native.audio_decode(file, first, len(out), out)
    return out


def of_soundfile(file: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)[0]


def kinds() -> dict[str, bytes]:
    """Returns sounds of all kinds, by names that state the kind."""
    made, seconds = {}, 9.0 if MANY else 4.5
    for i, rate in enumerate((16000, 22050, 24000, 32000, 44100, 48000) if MANY else (16000, 44100)):
        mono, stereo = speech(rate, seconds, 1, i), speech(rate, seconds, 2, i + 50)
        made |= {f"mp3-vbr-{rate}": mp3(mono, rate), f"mp3-cbr-{rate}": mp3(stereo, rate, "CONSTANT", 0.9),
                 f"mp3-low-{rate}": mp3(mono, rate, "VARIABLE", 0.99), f"mp3-no-header-{rate}": without_info(mp3(stereo, rate)),
                 f"vorbis-{rate}": encoded(stereo, rate, "OGG", "VORBIS"), f"flac-{rate}": encoded(stereo, rate, "FLAC", "PCM_24"),
                 f"wav-{rate}": encoded(mono, rate, "WAV", "FLOAT"), f"aiff-{rate}": encoded(stereo, rate, "AIFF", "PCM_16")}
    for i, rate in enumerate((8000, 12000, 16000, 24000, 48000) if MANY else (16000, 48000)):
        made |= {f"opus-{rate}": encoded(speech(rate, seconds, 1 + i % 2, i), rate, "OGG", "OPUS"),
                 f"vorbis-mono-{rate}": encoded(speech(rate, seconds, 1, i), rate, "OGG", "VORBIS")}
    vorbis = [renumbered(ogg_pages(encoded(speech(16000, 1 + i, 1, i), 16000, "OGG", "VORBIS")), i) for i in range(3)]
    opus = [renumbered(ogg_pages(encoded(speech(48000, 1 + 3 * i, 2, i), 48000, "OGG", "OPUS")), i) for i in range(2)]
    return made | {"chain-vorbis": b"".join(vorbis), "chain-opus": b"".join(opus)}


@pytest.fixture(scope="module")
def sounds() -> dict[str, bytes]:
    return kinds()


def test_clips_equal_that_part_of_the_whole(sounds):
    rng = np.random.default_rng(11)
    assert not MANY or len(sounds) >= 60
    for file in sounds.values():
        whole = decode(file)
        for _ in range(-(-CLIPS // len(sounds))):
            first = int(rng.integers(0, len(whole)))
            n = int(rng.integers(1, min(24000, len(whole) - first) + 1))
            np.testing.assert_array_equal(decode(file, first, n), whole[first : first + n])


def test_wholes_are_those_of_libsndfile(sounds):
    """Compares whole sounds with libsndfile's, if it decodes all frames."""
    for name, file in sounds.items():
        if "chain" in name or "no-header" in name:
            continue
        wanted = of_soundfile(file)
        np.testing.assert_allclose(decode(file), wanted, atol=STEP if name[0] in "mvo" else 0)


@pytest.mark.parametrize("program", ["mpg123", "oggdec", "opusdec", "flac"])
def test_wholes_are_those_of_the_reference_decoders(sounds, tmp_path, program):
    if not shutil.which(program):
        pytest.skip(f"no {program} is installed")
    source, made = tmp_path / "in", tmp_path / "out.wav"
    commands = {"mpg123": ("mp3", ["mpg123", "-q", "-e", "f32", "-w", made, source]),
                "oggdec": ("vorbis", ["oggdec", "-Q", "-o", made, source]),
                "opusdec": ("opus-48000", ["opusdec", "--quiet", "--force-wav", "--float", "--no-dither", "--rate", "48000", source,
                                           made]),
                "flac": ("flac", ["flac", "-s", "-f", "-d", "-o", made, source])}
    kind, command = commands[program]
    for name, file in sounds.items():
        if not name.startswith(kind):
            continue
        source.write_bytes(file)
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        wanted = of_soundfile(made.read_bytes())
        np.testing.assert_allclose(decode(file), wanted, atol=0 if program == "flac" else STEP, err_msg=name)


def damage(file: bytes, rng: np.random.Generator, kind: int) -> bytes:
    at = int(rng.integers(0, len(file) - 1))
    if kind == 0:
        return file[:at]
    if kind == 1:
        return file[:at] + bytes([file[at] ^ 1 << int(rng.integers(8))]) + file[at + 1 :]
    if kind == 2:
        return file[:at] + file[at + int(rng.integers(1, 500)) :]
    if kind == 3:
        return file[:at] + rng.bytes(int(rng.integers(1, 300))) + file[at:]
    return file[:at] + bytes(min(20, len(file) - at)) + file[at + 20 :]


def test_damages_are_errors_or_change_nothing(sounds, capfd):
    """MP3 has no checksums: damage that its structure does not show leaves the length unchanged and prints nothing."""
    rng = np.random.default_rng(12)
    names = [name for name in sounds if name.startswith(("mp3", "vorbis", "opus", "flac"))]
    refused = 0
    for i in range(max(CLIPS // 2, 3 * len(names))):
        name = names[i % len(names)]
        file = sounds[name]
        try:
            found = decode(damage(file, rng, i // len(names) % 5))
        except ps.PenstockError as error:
            refused += 1
            assert isinstance(error, (ps.errors.CorruptError, ps.errors.TruncatedError, ps.errors.UnsupportedError)), error
            continue
        wanted = decode(file)
        if name.startswith("mp3"):
            assert found.shape == wanted.shape
        else:
            np.testing.assert_array_equal(found, wanted)
    assert refused > 0
    captured = capfd.readouterr()
    assert captured.err == "" and captured.out == ""


# MP3 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [16000, 48000])
def test_frames_are_counted(rate):
    file = mp3(np.concatenate([np.zeros((rate, 1)), speech(rate, 3, 1, 0)]), rate)
    bare, spf = without_info(file), 1152 if rate >= 32000 else 576
    n_frames = len(frames_of(bare))
    assert len(decode(file)) == 4 * rate  # the encoder's delay and padding are left out
    assert len(decode(bare)) == n_frames * spf
    np.testing.assert_array_equal(decode(bare)[1105 : 1105 + 4 * rate], decode(file))
    for tags in (b"TAG" + bytes(125), b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8), bytes(700),
                 b"LYRICSBEGIN" + b"x" * 50 + b"LYRICSEND" + b"TAG" + bytes(125)):
        np.testing.assert_array_equal(decode(id3(40) + bare + tags), decode(bare))
    at, nbytes = frames_of(bare)[5]
    np.testing.assert_array_equal(decode(bare[:at] + id3(99) + bare[at:]), decode(bare))
    assert len(decode(bare[:at] + bare[at + nbytes :])) == (n_frames - 1) * spf
    with pytest.raises(ps.errors.TruncatedError, match=f"{n_frames - 1} frames, and its header states {n_frames}"):
        decode(file[: frames_of(file)[-1][0]])
    with pytest.raises(ps.errors.TruncatedError, match="ends within frame"):
        decode(bare[:-1])
    with pytest.raises(ps.errors.CorruptError, match="header states"):
        decode(file + bare)
    with pytest.raises(ps.errors.CorruptError, match="no MPEG audio frame behind 5 frames") as caught:
        decode(id3(70) + bare[:at] + b"junk" + bare[at:])
    assert caught.value.offset == 80 + at and caught.value.codec == "mp3"


def test_a_header_of_xing_alone(tmp_path):
    """mpg123 leaves out only the delay of the decoder."""
    file = bytearray(mp3(speech(44100, 1, 1, 4), 44100))
    at = file.index(b"LAME")
    file[at] = 0
    n = (len(frames_of(bytes(file))) - 1) * 1152
    assert len(decode(bytes(file))) == n - 529
    np.testing.assert_array_equal(decode(bytes(file)), decode(without_info(bytes(file)))[529:])


def test_frames_of_other_kinds_are_named():
    bare = without_info(mp3(speech(16000, 1, 1, 0), 16000))
    free, layer2 = bytearray(bare), bytearray(bare)
    free[2] &= 0x0F
    layer2[1] = layer2[1] & 0xF9 | 4
    with pytest.raises(ps.errors.UnsupportedError, match="free format"):
        decode(bytes(free))
    with pytest.raises(ps.errors.UnsupportedError, match="layer I or II"):
        decode(bytes(layer2))
    with pytest.raises(ps.errors.CorruptError, match="samples per second"):
        decode(bare + without_info(mp3(speech(24000, 1, 1, 0), 24000)))


def test_a_part_cut_out_of_an_mp3_begins_with_silence():
    """The first frames refer to bits of frames that were cut off."""
    bare = without_info(mp3(speech(16000, 4, 1, 7), 16000, "CONSTANT", 0.9))
    at = frames_of(bare)[20][0]
    part, whole = decode(bare[at:]), decode(bare)
    assert len(part) == len(whole) - 20 * 576
    np.testing.assert_array_equal(part[-20000:], whole[-20000:])


@pytest.mark.parametrize("rate", [24000, 32000])
def test_intensity_stereo(tmp_path, rate):
    """No encoder here writes intensity stereo, so the headers of another file are changed, and mpg123 is the reference. In MPEG 2
    files the right channel's scale factors would be others, so it has no bits there.
    """
    if not shutil.which("mpg123"):
        pytest.skip("no mpg123 is installed")
    file = bytearray(mp3(speech(rate, 2, 2, 3), rate, "CONSTANT", 0.9))
    for extension in (1, 3):
        for at, _ in frames_of(bytes(file))[1:]:
            file[at + 3] = file[at + 3] & 0x0F | 0x40 | extension << 4
            for bit in range(10 + 63, 10 + 63 + 21) if rate < 32000 else ():  # sizes of bits and of values
                file[at + 4 + bit // 8] &= ~(0x80 >> bit % 8)
        (tmp_path / "in.mp3").write_bytes(file)
        subprocess.run(["mpg123", "-q", "-e", "f32", "-w", tmp_path / "out.wav", tmp_path / "in.mp3"], check=True, timeout=120)
        np.testing.assert_allclose(decode(bytes(file)), of_soundfile((tmp_path / "out.wav").read_bytes()), atol=STEP)


# Ogg ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate, subtype", [(16000, "VORBIS"), (48000, "OPUS")])
def test_streams_of_ogg(rate, subtype):
    one, two = (encoded(speech(rate, 1.5 + i, 1, i), rate, "OGG", subtype) for i in range(2))
    pages = ogg_pages(one)
    chain = renumbered(pages, 1) + renumbered(ogg_pages(two), 2)
    np.testing.assert_array_equal(decode(chain), np.concatenate([decode(one), decode(two)]))
    np.testing.assert_array_equal(decode(id3(30) + id3(200) + one), decode(one))
    flipped = bytearray(one)
    flipped[len(one) * 2 // 3] ^= 4
    truncated, corrupt, unsupported = ps.errors.TruncatedError, ps.errors.CorruptError, ps.errors.UnsupportedError
    stereo = encoded(speech(rate, 1, 2, 1), rate, "OGG", subtype)
    for file, error, text in (
            (one[: len(one) * 2 // 3], truncated, "within an Ogg page"), (b"".join(pages[:-1]), truncated, "before the last page"),
            (bytes(flipped), corrupt, "checksum"), (one + b"junk", corrupt, "no Ogg"),
            (pages[0] + b"".join(pages[2:]), corrupt, "missing"),
            (pages[0] + renumbered(pages[:1], 9) + b"".join(pages[1:]), unsupported, "several Ogg streams at once"),
            (renumbered(pages, 1) + renumbered(ogg_pages(stereo), 2), corrupt, "2 channels, the first")):
        with pytest.raises(error, match=text):
            decode(file)


# Others ---------------------------------------------------------------------------------------------------------------


def test_lengths_of_flac():
    samples = speech(16000, 2, 2, 1)
    file = encoded(samples, 16000, "FLAC", "PCM_16")
    total = int.from_bytes(file[18:26], "big")

    def stating(n: int) -> bytes:
        return file[:18] + (total >> 36 << 36 | n).to_bytes(8, "big") + file[26:]

    whole = decode(file)
    np.testing.assert_array_equal(decode(stating(0)), whole)
    np.testing.assert_array_equal(decode(stating(0), 20000, 3000), whole[20000:23000])
    np.testing.assert_array_equal(decode(id3(300) + file + b"TAG" + bytes(125)), whole)
    for n, error in ((len(whole) + 1, ps.errors.TruncatedError), (len(whole) - 1, ps.errors.CorruptError)):
        with pytest.raises(error, match=f"{len(whole)} samples, and its header states {n}"):
            decode(stating(n))
    end = 4
    while not file[end] & 0x80:
        end += 4 + int.from_bytes(file[end + 1 : end + 4], "big")
    assert decode(stating(0)[: end + 4 + int.from_bytes(file[end + 1 : end + 4], "big")]).shape == (0, 2)
    for cut in (file[:-1], stating(0)[:-1], stating(0)[: len(file) // 2]):
        with pytest.raises(ps.errors.CorruptError, match="last frame"):
            decode(cut)


def riff(*chunks: tuple[bytes, bytes], size: int | None = None, mark: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return mark + struct.pack("<I", len(body) if size is None else size) + body


FORMAT = (b"fmt ", struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16))


def test_an_empty_data_chunk():
    values = np.arange(1, 301, dtype="<i2")
    behind = [(b"LIST", b"INFOISFT\4\0\0\0abcd"), (b"odd ", b"xyz")]
    assert len(decode(riff(FORMAT, (b"data", b""), *behind))) == 0
    assert len(decode(riff(FORMAT, (b"data", b"")))) == 0
    assert len(decode(riff(FORMAT, (b"data", b""), *behind, size=0))) == 0
    for size in (0, 0xFFFFFFFF, 36):
        streamed = riff(FORMAT, (b"data", b""), size=size) + values.tobytes()
        np.testing.assert_array_equal(decode(streamed)[:, 0], values / np.float32(32768))


def test_wide_sizes_and_tags_in_front():
    values = np.arange(1, 301, dtype="<i2")
    wanted = (values / np.float32(32768))[:, None]
    sizes = (b"ds64", struct.pack("<QQQI", 0, 600, 300, 0))
    wide = bytearray(riff(sizes, FORMAT, (b"data", values.tobytes()), (b"LIST", b"INFO"), size=0xFFFFFFFF, mark=b"RF64"))
    at = wide.index(b"data")
    wide[at + 4 : at + 8] = b"\xff" * 4
    plain = riff(FORMAT, (b"data", values.tobytes()))
    aiff = encoded(wanted, 16000, "AIFF", "PCM_16")
    for file in (bytes(wide), b"BW64" + bytes(wide[4:]), plain, aiff):
        for tags in (b"", id3(31), id3(5000) + id3(7)):
            np.testing.assert_array_equal(decode(tags + file), wanted)
    for file in (aiff[:-1], aiff[:60], aiff[:20]):
        with pytest.raises(ps.errors.TruncatedError):
            decode(file)


def test_tags_in_front_of_files_that_are_read_in_parts(tmp_path):
    """The loader reads only the tag, the header and the clip."""
    (tmp_path / "clips").mkdir()
    samples = (speech(16000, 20, 1, 2) * 30000).astype("<i2")
    for i in range(2):
        (tmp_path / "clips" / f"{i}.wav").write_bytes(id3(9000) + riff(FORMAT, (b"data", samples.tobytes())))
    loader = ps.Loader(tmp_path / "clips", 2, transforms=[T.CenterClip(4000)], num_workers=1,
                       reading=ps.Reading(storage="threads"), output="numpy")
    middle = (len(samples) - 4000) // 2
    np.testing.assert_array_equal(next(iter(loader))["audio"][1, 0], samples[middle : middle + 4000, 0] / np.float32(32768))
    stats = loader.stats()["storage"]
    assert stats["partial_reads"] == 2 and stats["nbytes_read"] < 2 * samples.nbytes // 2
