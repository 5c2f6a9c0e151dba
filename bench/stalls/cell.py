"""One cell: a loader in this process for some epochs. Argument: a JSON object; result: one on stdout.

    {"way": "torch" or "penstock", "path": files or data set, "task": "classify", "detect", "audio", or "bytes" (nothing is
     decoded), "samples": of an epoch, "batch": 16, "cores": 2, "storage": bytes/s or 0, "cached": bytes that stay in memory,
     "rate": samples/s of the step or 0, "seconds": 2}

"torch" is a DataLoader with torchvision (for sound with wave and torch, whole files, as DALI decodes them), four workers for each
core, so that workers that wait for storage hold no core. The page cache is simulated in the order in which samples are drawn: it
holds `cached` bytes, and evicts at random, as bench/cache has measured for Linux. Samples that it does not hold wait for a storage
that serves one request after another, at `storage` bytes/s. "penstock" has its own cache of these bytes and its own throttle.

Whole epochs are counted, after one epoch or more that fill the cache.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import multiprocessing
import os
import random
import sys
import time
import warnings
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402
import common  # noqa: E402

WORKERS_OF_A_CORE = 4
WARM_UP = 0.3  # share of the measured seconds that is for warming up
SIZE, DETECT_SIZE = 224, 300
RATE, WANTED, WINDOW, CLIP = 44_100, 8000, 160_000, 29_000  # M5 (the paper's audio model) takes a window of the clip, resampled
EPOCHS = 400


# torch ---------------------------------------------------------------------------------------------------


class PageCache:
    """Simulates which samples are in memory: it has room for so many bytes, and evicts at random."""

    def __init__(self, sizes: list[int], room: int, seed: int = 1) -> None:
        self.sizes, self.room, self.random = sizes, room, random.Random(seed)
        self.held: list[int] = []
        self.place: dict[int, int] = {}
        self.used = 0

    def ask(self, i: int) -> bool:
        """Returns whether sample i is in memory. If not, keeps it from now on, unless it is larger than the whole memory."""
        if i in self.place:
            return True
        if self.sizes[i] > self.room:
            return False
        while self.used + self.sizes[i] > self.room:
            self._evict(self.random.randrange(len(self.held)))
        self.place[i] = len(self.held)
        self.held.append(i)
        self.used += self.sizes[i]
        return False

    def _evict(self, k: int) -> None:
        gone, last = self.held[k], self.held.pop()
        if gone != last:
            self.held[k], self.place[last] = last, k
        del self.place[gone]
        self.used -= self.sizes[gone]


class Drawn:
    """Yields (sample, whether it is in memory) without end, in a new order in each epoch."""

    def __init__(self, n: int, cache: PageCache, epochs_before: int = 6) -> None:
        self.n, self.cache, self.random = n, cache, random.Random(2)
        for _ in range(epochs_before if cache.room else 0):  # fills the cache to the state that it has after some epochs
            for i in self.order():
                cache.ask(i)

    def order(self) -> list[int]:
        return self.random.sample(range(self.n), self.n)

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        while True:
            for i in self.order():
                yield i, self.cache.ask(i)

    def __len__(self) -> int:
        return 1 << 40


class Storage:
    """Simulates storage that serves one request after another, for all processes."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free = rate, multiprocessing.Value("d", 0.0)

    def wait(self, nbytes: int) -> None:
        if self.rate == 0:
            return
        with self.free.get_lock():
            end = max(self.free.value, time.monotonic()) + nbytes / self.rate
            self.free.value = end
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)


def resampler():
    """Returns a function that resamples from RATE to WANTED, by one convolution with a windowed sinc, as torchaudio does."""
    import torch

    common_part = math.gcd(RATE, WANTED)
    old, new = RATE // common_part, WANTED // common_part
    base = 0.99 * new
    width = math.ceil(6 * old / base)
    t = torch.arange(0, -new, -1)[:, None] / new + torch.arange(-width, width + old)[None] / old
    t = (t * base).clamp(-6, 6)
    kernel = (torch.sinc(t) * torch.cos(t * math.pi / 12) ** 2 * base / old)[:, None]

    def resample(sound):
        padded = torch.nn.functional.pad(sound, (width, width + old))[None, None]
        return torch.nn.functional.conv1d(padded, kernel, stride=old)[0].T.reshape(-1)[:CLIP]

    return resample


def preparation(task: str):
    """Returns the function that makes a sample from a file's bytes."""
    import numpy as np
    import torch

    if task == "bytes":
        return lambda data: len(data)
    if task == "audio":
        resample = resampler()

        def sound(data: bytes):
            with wave.open(io.BytesIO(data)) as file:
                frames = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
            mono = torch.from_numpy(frames.astype(np.float32) @ np.full(frames.shape[1], 1 / 32768 / frames.shape[1], np.float32))
            first = random.randrange(len(mono) - WINDOW)
            return resample(mono[first : first + WINDOW])

        return sound
    import peer_torchvision
    from torchvision.transforms import v2

    chain = peer_torchvision.random_transform(common.Work("", Path(), 1, SIZE, True, True))
    if task == "detect":
        chain = v2.Compose([v2.Resize((DETECT_SIZE, DETECT_SIZE), antialias=True), v2.RandomHorizontalFlip(),
                            *peer_torchvision.TAIL])  # fmt: skip
    return lambda data: chain(peer_torchvision.decode(torch.frombuffer(bytearray(data), dtype=torch.uint8), True))


def torch_batches(cell: dict[str, Any]) -> Iterator[Any]:
    import torch

    files = sorted(path for path in Path(cell["path"]).glob("*/*") if path.is_file())[: cell["samples"]]
    sizes = [path.stat().st_size for path in files]
    storage, prepare = Storage(cell["storage"]), preparation(cell["task"])

    class Samples(torch.utils.data.Dataset):
        def __getitem__(self, drawn: tuple[int, bool]):
            i, there = drawn
            if not there:
                storage.wait(sizes[i])
            return prepare(files[i].read_bytes())

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "This DataLoader will create")  # the bench needs more workers than cores
    return iter(torch.utils.data.DataLoader(
        Samples(), batch_size=cell["batch"], sampler=Drawn(len(files), PageCache(sizes, int(cell["cached"]))), drop_last=True,
        num_workers=WORKERS_OF_A_CORE * cell["cores"], prefetch_factor=2, multiprocessing_context="fork"))  # fmt: skip


# Penstock ------------------------------------------------------------------------------------------------


def penstock_loader(cell: dict[str, Any]) -> Any:
    import numpy as np

    import penstock as ps
    from penstock import transforms as T

    normalize = T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)
    task = cell["task"]
    how: dict[str, Any] = {
        "classify": {"transforms": [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), normalize]},
        "detect": {"transforms": [T.Resize((DETECT_SIZE, DETECT_SIZE)), T.RandomHorizontalFlip(), normalize]},
        "audio": {"transforms": [T.Mono(), T.Resample(WANTED), T.RandomClip(CLIP)], "fields": ["audio"]},
        "bytes": {"fields": ["image"], "encoded": ["image"]},
    }[task]  # fmt: skip
    order = np.random.default_rng(1)
    indices = np.concatenate([order.permutation(cell["samples"]) for _ in range(EPOCHS)])
    return ps.Loader(cell["path"], cell["batch"], indices=indices, drop_last=True, num_workers=cell["cores"], output="numpy",
                     cache=int(cell["cached"]) or None, reading=ps.Reading(throttle=(cell["storage"],
                                                                                     0.0) if cell["storage"] else None),
                     watch=ps.Watch(live=False), **how)  # fmt: skip


# Both ----------------------------------------------------------------------------------------------------


def run(cell: dict[str, Any], batches: Iterator[Any], read: Any) -> dict[str, float]:
    """Measures rates over whole epochs. read() returns the bytes read from storage so far."""
    step = cell["batch"] / cell["rate"] if cell["rate"] else 0.0
    epoch = cell["samples"] // cell["batch"]
    start = begun = time.perf_counter()
    cpu = nbytes = counted = 0.0
    for n in itertools.count(1):
        next(batches)
        if step:
            end = time.perf_counter() + step
            while (left := end - time.perf_counter()) > 0:
                time.sleep(left)
        now = time.perf_counter()
        if n % epoch:
            continue
        if not counted and now - start >= WARM_UP * cell["seconds"]:
            begun, counted, cpu, nbytes = now, n, runner.cpu_seconds(), read()
        elif counted and now - begun >= (1 - WARM_UP) * cell["seconds"]:
            samples = (n - counted) * cell["batch"]
            return {"samples_per_second": samples / (now - begun), "cpu_seconds": (runner.cpu_seconds() - cpu) / samples,
                    "nbytes": (read() - nbytes) / samples, "epochs": (n - counted) / epoch}  # fmt: skip
    raise AssertionError("without end")


def main() -> None:
    cell = json.loads(sys.argv[1])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: cell["cores"]])
    if cell["way"] == "torch":
        found = run(cell, torch_batches(cell), lambda: 0.0)
    else:
        loader = penstock_loader(cell)
        batches = itertools.chain.from_iterable(loader for _ in itertools.count())  # an epoch has few samples, so they are chained
        found = run(cell, batches, lambda: loader.stats()["storage"]["nbytes_read"])
    runner.tell(found)


if __name__ == "__main__":
    main()
