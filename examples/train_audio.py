"""M5 on spoken digits: waveforms of 8 kHz, trained on some speakers and tested on others that it has not heard.

    python examples/train_audio.py FOLDER [--unseen nicolas theo] [--epochs 60] [--seeds 1 2 3]
    python examples/train_audio.py --made [--epochs 3]

FOLDER holds WAV files named DIGIT_SPEAKER_TAKE.wav (such as those of the Free Spoken Digit Dataset). --made generates files
instead: a "digit" is a pair of tones, and each "speaker" has another pitch.

First, without augmentation, Penstock and a plain torch Dataset with the same order train the same network, and every loss must be
equal. The network is M5 of Dai et al., "Very deep convolutional neural networks for raw waveforms" (ICASSP 2017).

Then a similar network over log-mel spectrograms, which is better at unseen voices, is trained with augmentation by Penstock, and
with the same operations written in torch (--peer), and tested on the unseen speakers. --waveform also trains M5 in this way.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import time
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn

import penstock as ps
from penstock import transforms as T

RATE, LENGTH, LONG = 8000, 6000, 7000  # samples/s of all files; samples of a clip; samples of the sound that a clip is cut from
GAIN, NOISE, MASK = (-6.0, 6.0), (15.0, 40.0), 500
N_FFT, HOP, N_MELS, LOWEST, OFFSET = 256, 80, 40, 60.0, 1e-4
FRAMES_MASK, BANDS_MASK = 8, 6
SPEEDS = (1, 8 / 9, 8 / 7, 4 / 5, 5 / 4)  # speeds of successive epochs, which imitate other voices and resample with small tables


def m5(n_classes: int, width: int = 32) -> nn.Module:
    def block(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        convolution = nn.Conv1d(inputs, outputs, kernel, stride, padding=kernel // 2)
        return [convolution, nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(4)]

    return nn.Sequential(*block(1, width, 80, 4), *block(width, width, 3), *block(width, 2 * width, 3),
                         *block(2 * width, 4 * width, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.3),
                         nn.Linear(4 * width, n_classes))


def mel_network(n_classes: int) -> nn.Module:
    """Convolutions over time on log-mel bands. Each band is normalised to mean 0 and variance 1."""
    def block(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
        return [nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(2)]

    return nn.Sequential(nn.Flatten(1, 2), nn.InstanceNorm1d(N_MELS), *block(N_MELS, 64, 5), nn.Dropout(0.1), *block(64, 128, 3),
                         nn.Dropout(0.1), *block(128, 128, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.3),
                         nn.Linear(128, n_classes))


def make_digits(folder: Path, n_takes: int = 4) -> None:
    """Writes files with two tones. The digit decides which tones, the speaker their pitch, and the take their length and
    loudness."""
    rng = np.random.default_rng(0)
    for digit in range(10):
        for k, speaker in enumerate(("ann", "bob", "cem", "dia")):
            for take in range(n_takes):
                n = int(RATE * rng.uniform(0.3, 0.6))
                t, pitch = np.arange(n) / RATE, 1 + 0.01 * k
                low, high = 300 * pitch * (1 + digit % 5), 2000 * pitch * (1 + digit // 5 / 2)
                tones = np.sin(2 * np.pi * low * t) + np.sin(2 * np.pi * high * t)
                sound = 0.2 * rng.uniform(0.5, 1.5) * np.hanning(n) * tones + 0.01 * rng.standard_normal(n)
                with wave.open(str(folder / f"{digit}_{speaker}_{take}.wav"), "wb") as file:
                    file.setparams((1, 2, RATE, n, "NONE", ""))
                    file.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())


def open_digits(folder: Path, labels: Path) -> ps.Dataset:
    """Opens the files as a data set with the fields audio, label and speaker, which come from the file names."""
    with labels.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "label", "speaker"])
        for path in sorted(folder.glob("*_*_*.wav")):
            digit, speaker, _ = path.stem.split("_")
            table.writerow([path.name, digit, speaker])
    return ps.Dataset(folder, labels=labels)


def read_wav(path: Path) -> torch.Tensor:
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    return torch.from_numpy(samples.T.astype(np.float32) / 32768)


def resample(x: torch.Tensor, old: int, new: int) -> torch.Tensor:
    """Does the same as torchaudio.functional.resample, so torchaudio is not needed."""
    old, new = old // math.gcd(old, new), new // math.gcd(old, new)
    base = min(old, new) * 0.99
    width = math.ceil(6 * old / base)
    t = ((torch.arange(0, -new, -1)[:, None] / new + torch.arange(-width, width + old)[None] / old) * base).clamp(-6, 6)
    kernel = torch.sinc(t) * torch.cos(t * math.pi / 12).square() * base / old
    made = nn.functional.conv1d(nn.functional.pad(x, (width, width + old))[:, None], kernel[:, None], stride=old)
    return made.transpose(1, 2).reshape(len(x), -1)[:, : math.ceil(new * x.shape[1] / old)]


def log_mel(x: torch.Tensor) -> torch.Tensor:
    """Returns the logarithm of torchaudio's MelSpectrogram (HTK), without needing torchaudio."""
    power = torch.stft(x, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True).abs().square()
    edges = 700 * (10 ** (torch.linspace(*(2595 * math.log10(1 + f / 700) for f in (LOWEST, RATE // 2)), N_MELS + 2) / 2595) - 1)
    bins = torch.linspace(0, RATE // 2, N_FFT // 2 + 1)[:, None]
    up, down = (bins - edges[:-2]) / edges.diff()[:-1], (edges[2:] - bins) / edges.diff()[1:]
    return torch.log((power.transpose(1, 2) @ torch.minimum(up, down).clamp(min=0)).transpose(1, 2) + OFFSET)


def mask(x: torch.Tensor, axis: int, most: int, value: float) -> None:
    length = torch.rand(()) * most
    first = int(torch.rand(()) * (x.shape[axis] - length))
    x.narrow(axis, first, int(length)).fill_(value)


class Clips(torch.utils.data.Dataset):
    """The data set for comparison: torch alone, with the same operations as Penstock's chain."""

    def __init__(self, folder: Path, dataset: ps.Dataset, augment: bool, speed: float = 1, mel: bool = False):
        self.folder, self.augment, self.speed, self.mel = folder, augment, speed, mel
        self.names, self.labels = [dataset.name(i) for i in range(len(dataset))], dataset.column("label")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        x = read_wav(self.folder / self.names[i]).mean(0, keepdim=True)
        if self.speed != 1:
            x = resample(x, RATE, round(RATE / self.speed))
        n = LONG if self.augment else LENGTH
        x = nn.functional.pad(x, (0, max(0, n - x.shape[1])))
        first = int(torch.randint(x.shape[1] - LENGTH + 1, ())) if self.augment else (x.shape[1] - LENGTH) // 2
        x = x[:, first : first + LENGTH]
        if self.augment:
            x = x * 10 ** (torch.empty(()).uniform_(*GAIN) / 20)
            noise, snr = torch.randn_like(x), torch.empty(()).uniform_(*NOISE)
            x = x + noise * (x.square().sum() / noise.square().sum() / 10 ** (snr / 10)).sqrt()
            if not self.mel:
                mask(x, 1, MASK, 0)
        if self.mel:
            x = log_mel(x)
            mask(x, 2, FRAMES_MASK, math.log(OFFSET))
            mask(x, 1, BANDS_MASK, math.log(OFFSET))
        return x, int(self.labels[i])


def chain(augment: bool, speed: float = 1, mel: bool = False) -> list[T.Transform]:
    """Returns the operations. A voice resampled to RATE / speed and treated as RATE is faster and higher."""
    rate = round(RATE / speed)
    bands = T.LogMel(rate, n_fft=N_FFT, hop_length=HOP, n_mels=N_MELS, f_min=LOWEST / speed, log="ln", offset=OFFSET)
    if not augment:
        return [T.Mono(), T.CenterClip(LENGTH), *([bands] if mel else [])]
    silence = math.log(OFFSET)
    rest = [bands, T.TimeMask(FRAMES_MASK, value=silence), T.FrequencyMask(BANDS_MASK, silence)] if mel else [T.TimeMask(MASK)]
    return [T.Mono(), T.Resample(rate), T.PadTo(LONG), T.RandomClip(LENGTH), T.Gain(GAIN), T.AddNoise(NOISE), *rest]


class Turns:
    """Several loaders that are used in turn, one per epoch."""

    def __init__(self, loaders: list):
        self.loaders, self.epoch = loaders, 0

    def __len__(self) -> int:
        return len(self.loaders[0])

    def __iter__(self):
        loader = self.loaders[self.epoch % len(self.loaders)]
        if isinstance(loader, ps.Loader):
            loader.set_epoch(self.epoch)
        self.epoch += 1
        return iter(loader)


def penstock_batches(dataset: ps.Dataset, indices: np.ndarray, args: argparse.Namespace, augment: bool, seed: int) -> Turns:
    mel = augment and not args.waveform
    return Turns([ps.Loader(dataset, args.batch, shuffle=True, seed=seed, indices=indices, transforms=chain(augment, speed, mel),
                            drop_last=True, num_workers=args.workers, output="torch") for speed in (SPEEDS if augment else (1,))])


def train(make, batches, n_epochs: int, seed: int) -> tuple[nn.Module, list[float], float]:
    """Trains a network. Returns it, the loss of each step, and the fraction of the time in which it waited for batches."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    network, losses, waited, n_steps = make(10), [], 0.0, n_epochs * len(batches)
    if not n_steps:
        sys.exit("there is nothing to train: an epoch has fewer samples than --batch says, or the number of epochs is 0")
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, n_steps)
    begun = time.perf_counter()
    for _ in range(n_epochs):
        since = time.perf_counter()
        for batch in batches:
            sound, label = (batch["audio"], batch["label"]) if isinstance(batch, dict) else batch
            waited += time.perf_counter() - since
            loss = nn.functional.cross_entropy(network(sound), label, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            since = time.perf_counter()
    return network, losses, waited / (time.perf_counter() - begun)


def accuracy(network: nn.Module, dataset: ps.Dataset, indices: np.ndarray, mel: bool) -> float:
    network.eval()
    right, ops = 0, chain(False, mel=mel)
    with torch.no_grad():
        for batch in ps.Loader(dataset, 64, indices=indices, transforms=ops, pad_epoch=False, output="torch", num_workers=1):
            right += int((network(batch["audio"]).argmax(1) == batch["label"]).sum())
    return right / len(indices)


def same_losses(folder: Path, dataset: ps.Dataset, indices: np.ndarray, args: argparse.Namespace) -> bool:
    """Trains without augmentation, once with each loader, and compares the losses. torch's loader reads the samples in Penstock's
    order."""
    loader = penstock_batches(dataset, indices, args, False, 1)
    orders = [batch["index"].tolist() for _ in range(args.same_epochs) for batch in loader]
    # With its own generator, the DataLoader does not advance torch's global one, which Dropout uses.
    peer = torch.utils.data.DataLoader(Clips(folder, dataset, False), batch_sampler=orders, generator=torch.Generator())
    _, ours, _ = train(m5, penstock_batches(dataset, indices, args, False, 1), args.same_epochs, 1)
    _, theirs, _ = train(m5, peer, 1, 1)
    gap = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"without augmentation: {len(ours)} losses, from {ours[0]:.4f} to {ours[-1]:.4f}; largest difference {gap:g}")
    return gap == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--made", action="store_true", help="sounds of a generator")
    parser.add_argument("--unseen", nargs="+", help="speakers to test on; by default the last two by name")
    parser.add_argument("--waveform", action="store_true", help="train M5, on waveforms")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--same-epochs", type=int, default=2, help="of the comparison of losses")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--peer", action="store_true", help="train with torch's loader, too")
    args = parser.parse_args()
    if (args.folder is None) != args.made:
        parser.error("give a folder, or --made")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        if args.made:
            make_digits(folder)
        dataset = open_digits(folder, Path(scratch) / "labels.csv")
        speakers = np.array(dataset.column("speaker"))
        unseen = args.unseen or sorted(set(speakers))[-2:]
        seen, heard = np.flatnonzero(~np.isin(speakers, unseen)), np.flatnonzero(np.isin(speakers, unseen))
        print(f"{len(seen)} sounds to train on, {len(heard)} of {' and '.join(unseen)} to test on")
        if not same_losses(folder, dataset, seen, args):
            print("the losses differ")
            return 1
        make, mel = (m5, False) if args.waveform else (mel_network, True)
        for seed in args.seeds:
            network, losses, stall = train(make, penstock_batches(dataset, seen, args, True, seed), args.epochs, seed)
            print(f"penstock, seed {seed}: loss {losses[0]:.3f} to {np.mean(losses[-5:]):.3f}, {stall:.1%} of the time waiting, "
                  f"unseen speakers {accuracy(network, dataset, heard, mel):.1%}", flush=True)
            if args.peer:
                peers = [torch.utils.data.Subset(Clips(folder, dataset, True, speed, mel), seen.tolist()) for speed in SPEEDS]
                turns = Turns([torch.utils.data.DataLoader(each, args.batch, shuffle=True, drop_last=True)
                               for each in peers])
                network, losses, stall = train(make, turns, args.epochs, seed)
                print(f"torch, seed {seed}: loss {losses[0]:.3f} to {np.mean(losses[-5:]):.3f}, {stall:.1%} of the time waiting, "
                      f"unseen speakers {accuracy(network, dataset, heard, mel):.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
