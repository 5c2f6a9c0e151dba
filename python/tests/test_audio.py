"""Audio fields: operations compared with torchaudio's definitions, all kinds of files, folders, packing, and the handling of bad
sounds.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import torchaudio_itself, wav
from flat import keywords
from penstock import _native
from penstock import transforms as T

RATE = 16000


def sound(rate: int, n: int, channels: int = 1) -> np.ndarray:
    """Returns a sweep with noise, of shape (channels, n), within -1 to 1."""
    rng, t = np.random.default_rng(n), np.arange(n) / rate
    rows = [0.4 * np.sin(2 * np.pi * (200 + 100 * c) * t * (1 + t)) + 0.1 * rng.standard_normal(n) for c in range(channels)]
    return np.clip(np.stack(rows), -1, 1).astype(np.float32)


def float_wav(x: np.ndarray, rate: int) -> bytes:
    """Returns a WAV file with float32 samples."""
    data = np.ascontiguousarray(x.T, "<f4").tobytes()
    head = struct.pack("<HHIIHH", 3, len(x), rate, rate * len(x) * 4, len(x) * 4, 32)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack(
        "<I", len(data)) + data


def write(path, files):
    with ps.Writer(path, {"sound": ps.Audio()}) as writer:
        for file in files:
            writer.write({"sound": file})
    return path


def one(tmp_path, file: bytes, ops, **options):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.pst"
    loader = ps.Loader(write(path, [file]), 1, **keywords(transforms={"sound": ops}, num_workers=0, output="numpy", **options))
    return np.asarray(next(iter(loader))["sound"][0])


# References: torchaudio's definitions, written out ---------------------------------------------------------------------


def resampled(x: torch.Tensor, old: int, new: int, width: int = 6, rolloff: float = 0.99) -> torch.Tensor:
    common = math.gcd(old, new)
    if old == new:
        return x
    old, new = old // common, new // common
    base = min(old, new) * rolloff
    reach = math.ceil(width * old / base)
    index = torch.arange(-reach, reach + old, dtype=torch.float64)[None] / old
    t = ((torch.arange(0, -new, -1, dtype=torch.float64)[:, None] / new + index) * base).clamp(-width, width)
    kernel = torch.where(t == 0, 1.0, torch.sin(t * math.pi) / (t * math.pi)) * torch.cos(t * math.pi / width / 2) ** 2 * base / old
    padded = torch.nn.functional.pad(x.double(), (reach, reach + old))
    made = torch.nn.functional.conv1d(padded[:, None], kernel[:, None], stride=old).transpose(1, 2).reshape(len(x), -1)
    return made[:, : math.ceil(new * x.shape[1] / old)]


WINDOWS = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window, "ones": torch.ones}


def spectrogram(x, n_fft=400, win_length=None, hop_length=None, pad=0, window="hann", power=2.0, normalized=False, center=True,
                pad_mode="reflect"):
    win_length = win_length or n_fft
    shape = WINDOWS[window](win_length, dtype=torch.float64)
    made = torch.stft(torch.nn.functional.pad(x.double(), (pad, pad)), n_fft, hop_length or win_length // 2, win_length, shape,
                      center, pad_mode, normalized == "frame_length", True, return_complex=True)
    if normalized is True or normalized == "window":
        made = made / shape.pow(2).sum().sqrt()
    return made.abs().pow(power)


def bands(n_freqs, low, high, n_mels, rate, norm, scale):
    def mel(f):
        return 2595 * np.log10(1 + f / 700) if scale == "htk" else np.where(
            f >= 1000, 15 + np.log(np.maximum(f, 1) / 1000) / (np.log(6.4) / 27), f * 3 / 200)

    def hertz(m):
        return 700 * (10 ** (m / 2595) - 1) if scale == "htk" else np.where(
            m >= 15, 1000 * np.exp(np.log(6.4) / 27 * (m - 15)), m * 200 / 3)

    edges = hertz(np.linspace(mel(np.float64(low)), mel(np.float64(high)), n_mels + 2))
    bins = np.linspace(0, rate // 2, n_freqs)[:, None]
    up, down = (bins - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - bins) / np.diff(edges)[1:]
    made = np.maximum(0, np.minimum(up, down))
    return torch.from_numpy(made * (2 / (edges[2:] - edges[:-2])) if norm == "slaney" else made)


def mels(x, sample_rate=RATE, n_mels=128, f_min=0.0, f_max=None, norm=None, mel_scale="htk", **kwargs):
    made = spectrogram(x, **kwargs)
    bank = bands(made.shape[-2], f_min, f_max or sample_rate // 2, n_mels, sample_rate, norm, mel_scale)
    return (made.transpose(-1, -2) @ bank).transpose(-1, -2)


def decibels(x, multiplier=10.0, top_db=80.0):
    made = multiplier * torch.log10(x.clamp(min=1e-10))
    return torch.maximum(made, made.max() - top_db)


def close(found, wanted, tolerance=1e-5):
    """Returns whether two arrays are equal, up to a part of the largest value."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("old, new", [(44100, 8000), (44100, 16000), (48000, 44100), (8000, 16000), (22050, 16000), (16000, 8000),
                                      (8000, 44100), (11025, 8000), (16000, 16000)])
def test_resample(tmp_path, old, new):
    x = sound(old, old // 4 + 17, 2)
    close(one(tmp_path, float_wav(x, old), [T.Resample(new)]), resampled(torch.from_numpy(x), old, new), 3e-6)


@pytest.mark.parametrize("arguments", [
    {}, {"n_fft": 512, "hop_length": 160, "win_length": 400}, {"n_fft": 1024, "power": 1.0}, {"window": "hamming"},
    {"window": "blackman"}, {"window": "ones"}, {"center": False}, {"pad_mode": "constant"}, {"pad_mode": "replicate"},
    {"normalized": True}, {"normalized": "window"}, {"normalized": "frame_length"}, {"pad": 100}, {"n_fft": 441, "hop_length": 99},
    {"n_fft": 2}, {"n_fft": 3}, {"n_fft": 2048}])
def test_spectrogram(tmp_path, arguments):
    x = sound(RATE, 8000)
    close(one(tmp_path, float_wav(x, RATE), [T.Spectrogram(**arguments)]), spectrogram(torch.from_numpy(x), **arguments), 2e-6)


@pytest.mark.parametrize("arguments", [
    {}, {"n_mels": 40}, {"n_mels": 64, "mel_scale": "slaney", "norm": "slaney", "n_fft": 1024},
    {"f_min": 50.0, "f_max": 7000.0, "n_mels": 80, "n_fft": 512, "hop_length": 160}, {"power": 1.0, "n_mels": 23}])
def test_mel_bands_and_their_logarithms(tmp_path, arguments):
    x = sound(RATE, 8000)
    file, wanted = float_wav(x, RATE), mels(torch.from_numpy(x), **arguments)
    close(one(tmp_path, file, [T.MelSpectrogram(RATE, **arguments)]), wanted)
    multiplier = 10.0 if arguments.get("power", 2.0) == 2 else 20.0
    # If a narrow triangle barely touches a frequency bin, the rounding of float32 is visible in the logarithm.
    wide = 1e-5 if "n_mels" in arguments else 1e-4
    close(one(tmp_path, file, [T.LogMel(RATE, **arguments)]), decibels(wanted, multiplier), wide)
    close(one(tmp_path, file, [T.LogMel(RATE, log="ln", **arguments)]), torch.log(wanted + 1e-6), wide)
    stype = "power" if multiplier == 10 else "magnitude"
    same = [T.MelSpectrogram(RATE, **arguments), T.AmplitudeToDB(stype, 80.0)]
    np.testing.assert_array_equal(one(tmp_path, file, same), one(tmp_path, file, [T.LogMel(RATE, **arguments)]))


@pytest.mark.parametrize("norm", ["ortho", None])
def test_mfcc(tmp_path, norm):
    x = sound(RATE, 8000)
    file, arguments = float_wav(x, RATE), {"n_mels": 40, "n_fft": 512, "hop_length": 128}
    basis = np.cos(np.pi / 40 * (np.arange(40) + 0.5)[None] * np.arange(13)[:, None])
    basis *= 2 if norm is None else np.sqrt(2 / 40) * np.where(np.arange(13) == 0, np.sqrt(0.5), 1)[:, None]
    for log_mels in False, True:
        made = mels(torch.from_numpy(x), **arguments)
        made = torch.log(made + 1e-6) if log_mels else decibels(made)
        found = one(tmp_path, file, [T.MFCC(RATE, 13, norm, log_mels, T.MelSpectrogram(RATE, **arguments))])
        close(found, torch.from_numpy(basis) @ made)


def test_torchaudio_itself(tmp_path):
    transforms = torchaudio_itself().transforms
    mel = {"n_fft": 512, "hop_length": 160, "n_mels": 40, "norm": "slaney", "mel_scale": "slaney"}
    x = sound(RATE, 8000)
    for ours, theirs in (
        (T.Resample(11025), transforms.Resample(RATE, 11025)),
        (T.Gain(-6), transforms.Vol(-6, "db")),
        (T.Spectrogram(), transforms.Spectrogram()),
        (T.Spectrogram(441, 400, 100, power=1.0, center=False), transforms.Spectrogram(441, 400, 100, power=1.0, center=False)),
        (T.MelSpectrogram(RATE, n_mels=64), transforms.MelSpectrogram(RATE, n_mels=64)),
        (T.MelSpectrogram(RATE, **mel), transforms.MelSpectrogram(RATE, **mel)),
        (T.LogMel(RATE, **mel), torch.nn.Sequential(transforms.MelSpectrogram(RATE, **mel), transforms.AmplitudeToDB(top_db=80))),
        (T.MFCC(), transforms.MFCC()),
        (T.MFCC(RATE, 13, None, True), transforms.MFCC(RATE, 13, norm=None, log_mels=True)),
    ):  # fmt: skip
        close(one(tmp_path, float_wav(x, RATE), [ours]), theirs(torch.from_numpy(x)), 3e-5)


def test_waveforms(tmp_path):
    x = sound(8000, 3000, 2)
    file = float_wav(x, 8000)
    np.testing.assert_array_equal(one(tmp_path, file, []), x)
    np.testing.assert_array_equal(one(tmp_path, file, [T.Mono()]), x.mean(0, keepdims=True))
    np.testing.assert_array_equal(one(tmp_path, file, [T.CenterClip(1000)]), x[:, 1000:2000])
    np.testing.assert_array_equal(one(tmp_path, file, [T.CenterClip(4000)])[:, 3000:], 0)
    np.testing.assert_array_equal(one(tmp_path, file, [T.CenterClip(4000, "repeat")])[:, 3000:], x[:, :1000])
    np.testing.assert_array_equal(one(tmp_path, file, [T.PadTo(3500)]), np.pad(x, ((0, 0), (0, 500))))
    np.testing.assert_allclose(one(tmp_path, file, [T.Gain(-6)]), x * 10 ** (-6 / 20), rtol=1e-6)
    noise = one(tmp_path, file, [T.AddNoise(10)]) - x
    np.testing.assert_allclose((x**2).sum(1) / (noise**2).sum(1), 10, rtol=1e-4)
    masked = one(tmp_path, file, [T.TimeMask(500, value=-2)])
    assert 0 < (masked == -2).sum() < 1000 and (masked[0] == -2).tolist() == (masked[1] == -2).tolist()


def test_float16_is_float32_rounded(tmp_path):
    file = float_wav(sound(RATE, 4000), RATE)
    full = one(tmp_path, file, [T.LogMel(RATE)])
    half = one(tmp_path, file, [T.LogMel(RATE)], dtype={"sound": "float16"})
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, full.astype(np.float16))
    with pytest.raises(ps.errors.ArgumentError, match="float32 or float16"):
        one(tmp_path, file, [], dtype={"sound": "uint8"})


def test_draws_do_not_depend_on_workers_or_resume(tmp_path):
    path = write(tmp_path / "d.pst", [float_wav(sound(8000, 6000 + i), 8000) for i in range(12)])
    ops = [T.RandomClip(2000), T.Gain((-6, 6)), T.AddNoise((5, 20), p=0.5), T.LogMel(8000, n_mels=20), T.TimeMask(5),
           T.FrequencyMask(4)]

    def rows(**options):
        loader = ps.Loader(path, 4, **keywords(shuffle=True, seed=7, transforms=ops, output="numpy", **options))
        loader.set_epoch(3)
        return {int(i): row.copy() for batch in loader for i, row in zip(batch["index"], batch["sound"], strict=True)}

    first = rows(num_workers=0)
    again = rows(num_workers=3, storage="memory")
    assert first.keys() == again.keys()
    for i in first:
        np.testing.assert_array_equal(first[i], again[i])
    ranks = {**rows(rank=0, world_size=2), **rows(rank=1, world_size=2)}
    for i in first:
        np.testing.assert_array_equal(first[i], ranks[i])
    assert not np.array_equal(first[0][:, :, :5], first[1][:, :, :5])


def test_rows_of_different_shape_are_lists(tmp_path):
    files = [float_wav(sound(8000, 1000, channels), 8000) for channels in (2, 2, 1)]
    loader = ps.Loader(write(tmp_path / "d.pst", files), 2, output="numpy", num_workers=0, transforms=[T.CenterClip(500)])
    whole, single = (batch["sound"] for batch in loader)
    assert isinstance(whole, np.ndarray) and whole.shape == (2, 2, 500)
    assert [row.shape for row in single] == [(1, 500)]
    loader = ps.Loader(tmp_path / "d.pst", 3, output="numpy", num_workers=0, transforms=[T.CenterClip(500)])
    assert [row.shape for row in next(iter(loader))["sound"]] == [(2, 500), (2, 500), (1, 500)]
    batch = next(iter(ps.Loader(tmp_path / "d.pst", 3, num_workers=0, encoded=["sound"])))
    assert batch["sound"] == files


# Files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format, subtype", [("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "DOUBLE"),
                                             ("WAV", "ULAW"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS"),
                                             ("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_16")])
def test_files_and_parts_of_them(tmp_path, format, subtype):
    soundfile = pytest.importorskip("soundfile")
    if format not in soundfile.available_formats():
        pytest.skip(f"this libsndfile has no {format}")
    x, file = sound(44100, 44100, 2), io.BytesIO()
    soundfile.write(file, x.T, 44100, format=format, subtype=subtype)
    wanted, rate = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")
    tolerance = 1e-4 if format in ("MP3", "OGG") else 0
    np.testing.assert_allclose(one(tmp_path, file.getvalue(), []), wanted.T, atol=tolerance)
    first = (len(wanted) - 5000) // 2
    clip = one(tmp_path, file.getvalue(), [T.CenterClip(5000)])
    np.testing.assert_allclose(clip, wanted.T[:, first : first + 5000], atol=tolerance)
    info = _native.audio_probe(file.getvalue())
    assert (info["rate"], info["channels"], info["samples"]) == (rate, 2, len(wanted))
    part = np.empty((100, 2), np.float32)
    _native.audio_decode(file.getvalue(), 300, 100, part)
    np.testing.assert_allclose(part, wanted[300:400], atol=tolerance)
    with pytest.raises(ps.errors.ArgumentError, match="does not fit"):
        _native.audio_decode(file.getvalue(), 300, 99, part)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Classes of long and short WAV files, in stereo at 44.1 kHz."""
    root = tmp_path_factory.mktemp("audio") / "clips"
    for i, name in enumerate(("high", "low")):
        (root / name).mkdir(parents=True)
        for k in range(3):
            x = (sound(44100, 100_000 + 1000 * k, 2).T * 3e4).astype(np.int16)
            (root / name / f"{i}{k}.wav").write_bytes(wav(x, 44100))
    (root / "notes.txt").write_text("left out")
    return root


def rows_of(source, **options):
    ops = [T.Resample(8000), T.Mono(), T.RandomClip(4000)]
    loader = ps.Loader(source, 2, **keywords(transforms={"audio": ops}, seed=1, output="numpy", **options))
    rows = [(batch["audio"].copy(), batch["label"].tolist()) for batch in loader]
    return np.concatenate([row[0] for row in rows]), [label for row in rows for label in row[1]], loader.stats()


def test_folder_pack_and_partial_reads(folder, tmp_path):
    ds = ps.Dataset(folder)
    assert ds.fields["audio"].type == "audio" and ds.classes == ["high", "low"] and len(ds) == 6
    assert ds[0]["audio"] == (folder / "high" / "00.wav").read_bytes()
    whole, labels, stats = rows_of(folder, storage="memory", num_workers=0)
    assert whole.shape == (6, 1, 4000) and labels == [0, 0, 0, 1, 1, 1]
    parts, _, some = rows_of(folder, num_workers=2)
    np.testing.assert_array_equal(parts, whole)
    assert some["storage"]["partial_reads"] == 6 and stats["storage"]["partial_reads"] == 0
    report = ps.Writer.from_folder(tmp_path / "packed.pst", folder)
    assert report.n_samples == 6
    for verify in True, False:
        packed, labels, _ = rows_of(tmp_path / "packed.pst", verify=verify, num_workers=2)
        np.testing.assert_array_equal(packed, whole)
    assert labels == [0, 0, 0, 1, 1, 1]
    for cache in "16MiB", "1MiB":
        cached, _, _ = rows_of(folder, cache=cache)
        np.testing.assert_array_equal(cached, whole)


@pytest.mark.parametrize("format", ["FLAC", "OGG", "MP3", "AIFF"])
def test_decoders_have_only_read_what_a_clip_needs(tmp_path, format):
    soundfile = pytest.importorskip("soundfile")
    (tmp_path / "clips").mkdir()
    rng = np.random.default_rng(0)
    for i in range(2):  # a file of noise is larger than the 256 KiB from which on files are read in parts
        noise = (0.3 * rng.standard_normal((44100 * 20, 2))).astype(np.float32)
        soundfile.write(tmp_path / "clips" / f"{i}.{format.lower()}", noise, 44100, format=format)
    names = ["AIFF", "FLAC", "MP3", "OGG"]
    assert format in names and min(path.stat().st_size for path in (tmp_path / "clips").iterdir()) > 256 << 10
    rows = {}
    for storage in "memory", "threads", "uring":
        if storage == "uring" and ps.Loader(tmp_path / "clips").stats()["storage"]["kind"] != "uring":
            continue
        loader = ps.Loader(tmp_path / "clips", 2, seed=1, transforms=[T.RandomClip(4000)], reading=ps.Reading(storage=storage),
                           output="numpy")
        rows[storage] = next(iter(loader))["audio"].copy()
        stats = loader.stats()["storage"]
        assert stats["partial_reads"] == (0 if storage == "memory" else 2)
        np.testing.assert_array_equal(rows[storage], rows["memory"])
    whole = sum(path.stat().st_size for path in (tmp_path / "clips").iterdir())
    if format in ("FLAC", "AIFF"):
        assert stats["nbytes_read"] < whole / 2


def test_label_files(folder, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("file,label,speaker\nhigh/00.wav,3,ann\nlow/11.wav,1,bob\n")
    ds = ps.Dataset(folder, labels=table)
    assert [field.type for field in ds.fields.values()] == ["audio", "int", "text"]
    batch = next(iter(ps.Loader(ds, 2, transforms=[T.CenterClip(100)], output="numpy")))
    assert batch["audio"].shape == (2, 2, 100) and batch["label"].tolist() == [3, 1] and batch["speaker"] == ["ann", "bob"]
    table.write_text("file,audio\nhigh/00.wav,3\n")
    with pytest.raises(ps.errors.ArgumentError, match='"audio" is taken'):
        ps.Dataset(folder, labels=table)
    assert ps.Dataset(folder, files=["low/10.wav"]).fields["audio"].type == "audio"


def test_a_folder_of_neither(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ps.errors.NotFoundError, match="no image .* and no audio"):
        ps.Dataset(tmp_path)


# Rules ------------------------------------------------------------------------------------------------------------------


def bad_files() -> dict[str, bytes]:
    x = sound(8000, 400)
    good, holes = float_wav(x, 8000), x.copy()
    holes[0, 123] = np.nan
    return {
        "the file ends after 1593 of 1600 bytes": good[:-7],
        "NaN": float_wav(holes, 8000),
        "0 channels": good[:22] + b"\0\0" + good[24:],
        "0 samples per second": good[:24] + bytes(4) + good[28:],
        "0 bytes": b"",
        "clip: the sound has 10 samples, and 100 are wanted": float_wav(x[:, :10], 8000),
    }


@pytest.mark.parametrize("name", bad_files())
def test_bad_sounds(tmp_path, name):
    file, good = bad_files()[name], float_wav(sound(8000, 400), 8000)
    with ps.Writer(tmp_path / "d.pst", {"sound": ps.Audio(missing=b"")}) as writer:
        for each in (good, file, good):
            writer.write({"sound": each} if each else {})
    options = {"transforms": [T.RandomClip(100, "error") if "clip" in name else T.PadTo(1)], "num_workers": 0, "output": "numpy"}
    with pytest.raises(ps.errors.PenstockError, match=name.partition(":")[0]) as caught:
        list(ps.Loader(tmp_path / "d.pst", 3, **keywords(**options)))
    error = caught.value
    assert error.sample == 1 and error.dataset.endswith("d.pst") and error.codec in ("wav", "audio")
    loader = ps.Loader(tmp_path / "d.pst", 3, **keywords(on_error="skip", **options))
    assert [len(batch["sound"]) for batch in loader] == [2]
    assert [bad["sample"] for bad in loader.quarantine] == [1]


def test_a_wrong_rate_is_a_bad_sample(tmp_path):
    with pytest.raises(ps.errors.UnsupportedError, match="put a Resample before.* 8000 .* 16000"):
        one(tmp_path, float_wav(sound(8000, 4000), 8000), [T.LogMel(16000)])
    assert one(tmp_path, float_wav(sound(8000, 4000), 8000), [T.Resample(16000), T.LogMel(16000)]).shape == (1, 128, 41)
    with pytest.raises(ps.errors.UnsupportedError, match="Spectrogram"):
        one(tmp_path, float_wav(sound(8000, 100), 8000), [T.Spectrogram(400)])


def test_without_libsndfile(tmp_path):
    """A missing libsndfile is an error that no policy for bad samples hides."""
    write(tmp_path / "d.pst", [b"fLaC" + bytes(100)] * 3)
    script = f"""if True:
        import penstock as ps
        try:
            list(ps.Loader({str(tmp_path / 'd.pst')!r}, 2, on_error="skip"))
        except ps.errors.UnsupportedError as error:
            print("libsndfile1" in str(error))
    """
    environment = {**os.environ, "PENSTOCK_SNDFILE": "/nowhere/libsndfile.so"}
    made = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert made.stdout.strip() == "True"


@pytest.mark.parametrize("make, text", [
    (lambda: T.Resample(0), "rate is a whole number"), (lambda: T.RandomClip(1.5), "samples is"),
    (lambda: T.CenterClip(5, "cut"), "if_short is one of"), (lambda: T.Gain((3, 1)), "db falls"),
    (lambda: T.Gain("loud"), "db is a number"), (lambda: T.AddNoise(5, p=2), "p is a number"),
    (lambda: T.Spectrogram(400, 500), "win_length"), (lambda: T.Spectrogram(window="kaiser"), "window is one of"),
    (lambda: T.Spectrogram(power=3.0), "power is"), (lambda: T.MelSpectrogram(16000, f_min=9000.0), "f_min"),
    (lambda: T.MFCC(16000, 60, mel=T.MelSpectrogram(16000, n_mels=40)), "n_mfcc"),
    (lambda: T.MFCC(8000, mel=T.MelSpectrogram(16000)), "sample_rate is 8000"), (lambda: T.TimeMask(-1), "time_mask_param")])
def test_wrong_arguments(make, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        make()


def test_chains_that_are_not_possible(tmp_path, typed):
    path = write(tmp_path / "d.pst", [float_wav(sound(8000, 400), 8000)])
    for ops, text in (([T.LogMel(8000), T.Mono()], "behind a spectrogram"), ([T.AmplitudeToDB()], "none stands before"),
                      ([T.Spectrogram(17)], "prime factor"), ([T.CenterCrop(5)], "for images")):
        with pytest.raises(ps.errors.ArgumentError, match=text):
            ps.Loader(path, transforms={"sound": ops})
    with pytest.raises(ps.errors.ArgumentError, match="operations on sound"):
        ps.Loader(typed, transforms={"image": [T.Mono()]})
    with pytest.raises(ps.errors.ArgumentError, match="delivered encoded"):
        ps.Loader(path, transforms={"sound": [T.Mono()]}, encoded=["sound"])


def test_operations_are_values():
    ops = [T.Mono(), T.Resample(8000), T.RandomClip(8000), T.PadTo(9), T.Gain((-3, 3), 0.5), T.AddNoise(20), T.CenterClip(3),
           T.LogMel(8000, n_mels=20), T.TimeMask(3), T.FrequencyMask(2), T.Spectrogram(), T.AmplitudeToDB(), T.MelSpectrogram(),
           T.MFCC(8000, 13, mel=T.MelSpectrogram(8000, n_mels=30))]
    assert pickle.loads(pickle.dumps(ops)) == ops
    assert T.from_json(T.to_json(ops)) == ops
    assert len(set(ops)) == len(ops)


@pytest.mark.skipif(importlib.util.find_spec("_soundfile_data") is None, reason="no libsndfile of the package soundfile")
def test_libsndfile_of_soundfile_is_found(monkeypatch):
    from penstock.transforms import sound as _sound

    monkeypatch.delenv("PENSTOCK_SNDFILE", raising=False)
    monkeypatch.setattr(_native, "sndfile", lambda: (False, ""))
    _sound.find_library()
    assert os.path.isfile(os.environ.pop("PENSTOCK_SNDFILE"))
