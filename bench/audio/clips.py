"""clips.py: clips per second that loaders make of long sounds: 1 second at 8 kHz, mono, out of 30 seconds in stereo at 44.1 kHz.

Loaders: Penstock on the folder; torch's DataLoader with soundfile (which reads the part that is wanted) and torchaudio's Resample;
the same as users of torchaudio.load write it, the whole file decoded; DALI, whose decoder takes whole files. Each is installed in
an environment of its own below --build. A loader that cannot be installed is left out, and the table names it. All see the same
files in the page cache, and the same cores. They take turns; the median of the rounds counts. With --features the clip becomes a
log-mel spectrogram of 64 bands.

    clips.py --data /tmp/clips --build build/peers --cores 1 2 --out bench/out        writes audio-<date>.json and .md
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import make_clips
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import environments  # noqa: E402  (of bench/loader, which runner puts in reach)

GOAL = 3.0  # times the fastest other loader
RATE, WANTED, BATCH = 44100, 8000, 16
N_FFT, HOP, N_MELS = 256, 80, 64
NAMES = {"penstock": None, "soundfile": "audio", "torchaudio": "audio", "dali": "dali"}  # and their environments
PACKAGES = ("soundfile", "torchaudio", "torch", "nvidia-dali-cuda130")


def files_of(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*.*"))


def penstock(folder: Path, cores: int, features: bool):
    import penstock as ps
    from penstock import transforms as T

    ops: list = [T.Mono(), T.Resample(WANTED), T.RandomClip(WANTED)]
    if features:
        ops.append(T.LogMel(WANTED, n_fft=N_FFT, hop_length=HOP, n_mels=N_MELS))
    loader = ps.Loader(folder, BATCH, shuffle=True, transforms=ops, num_workers=cores, output="torch")
    return lambda: (batch["index"].tolist() for batch in loader)


def import_torchaudio():
    """Imports torchaudio without its native library, which is linked against another build of torch. The operations used here need
    no native code.
    """
    name = "torchaudio._extension"
    if name not in sys.modules:
        stand_in = ModuleType(name)
        stand_in._IS_TORCHAUDIO_EXT_AVAILABLE = stand_in._IS_ALIGN_AVAILABLE = False
        stand_in.fail_if_no_align = lambda function: function
        sys.modules[name] = stand_in
    import torchaudio
    import torchaudio.transforms

    return torchaudio


def torch_loader(folder: Path, cores: int, features: bool, whole: bool):
    import soundfile
    import torch

    transforms = import_torchaudio().transforms
    torch.set_num_threads(1)
    resample = transforms.Resample(RATE, WANTED)
    mel = transforms.MelSpectrogram(WANTED, n_fft=N_FFT, hop_length=HOP, n_mels=N_MELS)
    decibel = transforms.AmplitudeToDB("power", 80)
    files = files_of(folder)

    class Clips(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, i: int):
            if whole:
                sound = torch.from_numpy(soundfile.read(files[i], dtype="float32", always_2d=True)[0].T)
                first = int(torch.randint(sound.shape[1] - RATE, ()))
                sound = sound[:, first : first + RATE]
            else:
                with soundfile.SoundFile(files[i]) as file:
                    file.seek(int(torch.randint(file.frames - RATE, ())))
                    sound = torch.from_numpy(file.read(RATE, dtype="float32", always_2d=True).T)
            clip = resample(sound.mean(0, keepdim=True))
            return (decibel(mel(clip)) if features else clip), i

    loader = torch.utils.data.DataLoader(
        Clips(), BATCH, shuffle=True, num_workers=cores, persistent_workers=True,
        worker_init_fn=lambda _: torch.set_num_threads(1))
    return lambda: (numbers.tolist() for _, numbers in loader)


def dali(folder: Path, cores: int, features: bool, cold: bool = False):
    from nvidia.dali import fn, pipeline_def, types

    files = files_of(folder)
    if not files[0].endswith((".wav", ".flac", ".ogg")):
        raise ImportError("DALI decodes WAV, FLAC and Ogg")

    @pipeline_def(batch_size=BATCH, num_threads=cores, device_id=None)
    def pipeline():
        encoded, number = fn.readers.file(files=files, labels=list(range(len(files))), random_shuffle=True, name="files",
                                         dont_use_mmap=cold)
        sound, _ = fn.decoders.audio(encoded, dtype=types.FLOAT, downmix=True)
        first = fn.random.uniform(range=(0.0, 1.0))
        length = fn.cast(fn.shapes(sound)[0], dtype=types.FLOAT)
        place = fn.cast(first * (length - RATE), dtype=types.INT32)
        clip = fn.slice(sound, place, RATE, axes=[0])
        clip = fn.experimental.audio_resample(clip, in_rate=RATE, out_rate=WANTED) if hasattr(
            fn.experimental, "audio_resample") else fn.audio_resample(clip, in_rate=RATE, out_rate=WANTED)
        if features:
            made = fn.spectrogram(clip, nfft=N_FFT, window_step=HOP, window_length=N_FFT)
            made = fn.mel_filter_bank(made, sample_rate=WANTED, nfilter=N_MELS)
            clip = fn.to_decibels(made, multiplier=10.0, cutoff_db=-80.0)
        return clip, number

    pipe = pipeline()
    pipe.build()

    def epoch():
        for _ in range(-(-len(files) // BATCH)):
            _, numbers = pipe.run()
            yield np.asarray(numbers.as_tensor()).reshape(-1).tolist()

    return epoch


def make(name: str, folder: Path, cores: int, features: bool, cold: bool = False):
    """Returns a function that runs one epoch and yields the file numbers of each batch. `cold`: DALI reads files instead of mapping
    them, because mapped pages cannot be dropped from the page cache.
    """
    if name == "penstock":
        return penstock(folder, cores, features)
    if name == "dali":
        return dali(folder, cores, features, cold)
    return torch_loader(folder, cores, features, whole=name == "torchaudio")


def versions() -> dict[str, str]:
    """Returns the versions of the peers' packages that this Python has."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def serve(name: str, folder: Path, cores: int, features: bool) -> None:
    """Runs one loader in a process of its own and prints the versions when the loader is ready. For each line on standard input it
    runs epochs, then prints the number of clips and the seconds.
    """
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    epoch = make(name, folder, cores, features)
    n_files, numbers = len(files_of(folder)), [number for batch in epoch() for number in batch]
    if len(numbers) < n_files or not set(numbers) <= set(range(n_files)):
        sys.exit(f"{name}: an epoch is {len(numbers)} clips of {n_files} files, some of which are not there")
    print(json.dumps({} if name == "penstock" else versions()), flush=True)
    for line in sys.stdin:
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(line):
            n += sum(map(len, epoch()))
        print(n, time.perf_counter() - start, flush=True)


def resumed_round(process: subprocess.Popen, seconds: float) -> float:
    """Measures one round of one loader, in clips per second. Between its rounds the loader's processes are stopped (SIGSTOP): some
    loaders prepare batches ahead, and would take CPU time from the loader that is measured.
    """
    os.killpg(process.pid, signal.SIGCONT)
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    n, took = process.stdout.readline().split()
    os.killpg(process.pid, signal.SIGSTOP)
    return round(int(n) / float(took), 1)


def measure(folder: Path, cores: int, args: argparse.Namespace) -> tuple[dict, dict]:
    """Returns the clips per second of each round for each loader, or the reason why a loader has none; and the versions of the
    peers.
    """
    running, results, found = {}, {}, {}
    for name in args.loaders:
        environment = NAMES[name]
        if environment in args.absent:
            results[name] = {"absent": args.absent[environment]}
            continue
        python = sys.executable if environment is None else str(environments.python_of(args.build, environment))
        command = [python, __file__, "--serve", name, "--data", str(folder), "--cores", str(cores)]
        command += ["--features"] if args.features else []
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environments.variables(args.build, environment), start_new_session=True)
        if ready := process.stdout.readline():
            os.killpg(process.pid, signal.SIGSTOP)
            running[name], results[name] = process, []
            found |= json.loads(ready)
        else:
            results[name] = {"absent": runner.last_line(process.communicate()[1], process.returncode)}
    try:
        for _ in range(args.rounds):
            for name, process in running.items():
                results[name].append(resumed_round(process, args.time))
        for process in running.values():
            os.killpg(process.pid, signal.SIGCONT)
            process.communicate("")
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return results, found


def measure_all(arguments: argparse.Namespace) -> dict:
    made = make_clips.make(arguments.data, arguments.clips, arguments.seconds)
    wanted = dict.fromkeys(environment for name in arguments.loaders if (environment := NAMES[name]))
    arguments.absent = environments.install(arguments.build, wanted, False) if wanted else {}
    cells, peers = [], {}
    for name in (name for name in arguments.formats if name in made):
        for cores in arguments.cores:
            rounds, known = measure(arguments.data / name, cores, arguments)
            peers |= known
            rates = {loader: statistics.median(each) for loader, each in rounds.items() if isinstance(each, list)}
            best = max((rate for loader, rate in rates.items() if loader != "penstock"), default=0)
            ratio = rates["penstock"] / best if best and "penstock" in rates else None
            cells.append(runner.said({"format": name, "cores": cores, "features": arguments.features, "rounds": rounds,
                                      "clips_per_s": rounds | rates, "ratio": ratio}))
    settings = {"clips": arguments.clips, "seconds": arguments.seconds, "rounds": arguments.rounds, "round_s": arguments.time,
                "goal": GOAL}
    return {"bench": "audio", "machine": runner.machine(), "numpy": np.__version__, "versions": peers, "settings": settings,
            "cells": cells}


def table(result: dict) -> str:
    """Returns the table of clips per second. A cell meets the goal if its ratio to the fastest other loader reaches it."""
    loaders = list(dict.fromkeys(name for cell in result["cells"] for name in cell["clips_per_s"]))
    out = [f"{runner.where(result)} Clips of 1 s at {WANTED} Hz out of {result['settings']['seconds']:g} s, per second.", "",
           *runner.heads("files", "cores", *loaders, "x the fastest other", f"goal, {result['settings']['goal']:g} x")]
    for cell in result["cells"]:
        rates = [cell["clips_per_s"].get(name) for name in loaders]
        shown = [f"{rate:.0f}" if isinstance(rate, float) else "absent" for rate in rates]
        ratio = cell["ratio"]
        verdict = "-" if ratio is None else "met" if ratio >= result["settings"]["goal"] else "missed"
        words = cell["format"] + (", log-mel" if cell["features"] else "")
        out.append(f"| {words} | {cell['cores']} | {' | '.join(shown)} | {'-' if ratio is None else f'{ratio:.2f}'} | {verdict} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder for the clips, which are made if they are not there")
    parser.add_argument("--build", type=Path, default=Path("build/peers"), help="environments of peers are kept there")
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30, help="length of a sound")
    parser.add_argument("--cores", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--time", type=float, default=1, help="least seconds of a round of one loader")
    parser.add_argument("--loaders", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--formats", nargs="+", default=["wav", "flac", "mp3"])
    parser.add_argument("--features", action="store_true", help="log-mel spectrograms")
    parser.add_argument("--out", type=Path, default=Path("bench/out"))
    parser.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.data, arguments.cores[0], arguments.features)
        return
    result = measure_all(arguments)
    runner.write(arguments.out / f"audio-{result['machine']['date']}", result, table(result))


if __name__ == "__main__":
    main()
