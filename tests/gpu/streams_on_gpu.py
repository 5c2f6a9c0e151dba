#!/usr/bin/env python3
"""When a batch's memory on a GPU may be overwritten, and what happens to a loader that gets no memory there.

    tests/gpu/streams_on_gpu.py DATA

DATA has folders of .pli files and of JPEGs, as scripts/gpu_carry.py makes it. Streams of torch read batches long after these
were released, while the loader goes on: each stream must see its own batch, whose memory may not be overwritten before. Then the
limit on GPU memory is reached, and another user fills the GPU.

The streams are torch's. If torch does not support CUDA, only the limit is tested, and the exit status is 77.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock import transforms as T

BATCH_SIZE = 2
LATE_CYCLES = 40_000_000  # about 20 ms, in which a GPU prepares a hundred such batches
LEFT_NBYTES = 32 << 20  # less than a loader of pli-jpeg needs


def make_loader(data: Path, **place: Any) -> ps.Loader:
    """Returns a loader that gives the same batches in every epoch."""
    return ps.Loader(str(data), batch_size=BATCH_SIZE, fields=["image"], transforms=[T.Resize(200), T.CenterCrop(192)],
                     drop_last=True, prefetch=2, **place)


def assert_decoded(loader: ps.Loader) -> None:
    stats = loader.stats()["device"]
    assert stats["gpu_samples"] > 2 * stats["cpu_samples"], stats


def expected_of(data: Path) -> list[np.ndarray]:
    return [batch["image"].copy() for batch in make_loader(data, output="numpy")]


def check(seen: list[Any], expected: list[np.ndarray], what: str) -> None:
    assert len(seen) == len(expected), (what, len(seen), len(expected))
    for step, (a, b) in enumerate(zip(seen, expected, strict=True)):
        assert np.array_equal(a.cpu().numpy(), b), f"{what}: batch {step} was written before its reader had passed"


def late_readers(torch: Any, data: Path, expected: list[np.ndarray]) -> None:
    """Reads on one stream after the other; torch hands batches over on the current stream."""
    streams = {"default stream": torch.cuda.default_stream(), "stream": torch.cuda.Stream(),
               "stream of high priority": torch.cuda.Stream(priority=-1)}
    loader = make_loader(data, device="cuda", output="torch")
    for name, stream in streams.items():
        seen = []
        with torch.cuda.stream(stream):
            for batch in loader:
                torch.cuda._sleep(LATE_CYCLES)
                seen.append(batch["image"].clone())
                del batch
        late = not stream.query()
        stream.synchronize()
        check(seen, expected, name)
        assert_decoded(loader)
        print(f"{name}: the same" + ("" if late else ", but it was not late: this says little"), flush=True)


def two_readers(torch: Any, data: Path, expected: list[np.ndarray]) -> None:
    """Two streams read each batch, and the loader is closed before either has finished."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    seen: list[list[Any]] = [[], []]
    loader = make_loader(data, device="cuda", output="dlpack")
    for batch in loader:
        for stream, into in zip(streams, seen, strict=True):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(LATE_CYCLES)
                into.append(torch.from_dlpack(batch["image"]).clone())
        del batch
    del loader
    gc.collect()
    for stream, into in zip(streams, seen, strict=True):
        stream.synchronize()
        check(into, expected, "two streams")
    print("two streams, and a loader that was closed: the same", flush=True)


def limit(data: Path, n: int) -> None:
    """A caller keeps more batches than fit into the limit of GPU memory."""
    loader = make_loader(data, device="cuda", output="dlpack")
    assert sum(1 for _ in loader) == n
    assert_decoded(loader)
    needed = loader.stats()["device"]["memory_used"]
    del loader
    loader = make_loader(data, device="cuda", output="dlpack", device_memory=needed)
    held = []
    try:
        for batch in loader:
            held.append(batch)
    except ps.errors.LimitError as error:
        assert "hold" in str(error), error
    else:
        raise AssertionError("device_memory was no limit")
    assert loader.stats()["device"]["memory_peak"] <= needed, loader.stats()["device"]
    batch = None
    held.clear()
    assert sum(1 for _ in loader) == n
    try:
        make_loader(data, device="cuda", output="dlpack", device_memory="64KiB")
    except ps.errors.LimitError:
        pass
    else:
        raise AssertionError("64 KiB were enough")
    print("device_memory: held", flush=True)


def full_gpu(torch: Any, data: Path, expected: list[np.ndarray]) -> None:
    """Another user takes all memory of the GPU, then frees it."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    taken = torch.empty(torch.cuda.mem_get_info()[0] - LEFT_NBYTES, dtype=torch.uint8, device="cuda")
    try:
        make_loader(data, device="cuda", output="torch")
    except ps.errors.OutOfMemoryError as error:
        print(f"a full GPU: {error}", flush=True)
    else:
        raise AssertionError("a full GPU had room")
    del taken
    torch.cuda.empty_cache()
    again = make_loader(data, device="cuda", output="torch")
    check([batch["image"].clone() for batch in again], expected, "after a full GPU")
    print("a full GPU: said so, and the next loader works", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        data = Path(work) / "data.pst"
        ps.pack(str(Path(sys.argv[1]) / "pli-jpeg"), str(data))
        expected = expected_of(data)
        assert len(expected) > 4, f"{len(expected)} batches are too few"
        limit(data, len(expected))
        try:
            import torch

            has_streams = torch.cuda.is_available()
        except ImportError:
            has_streams = False
        if not has_streams:
            print("no torch with CUDA: streams are left out")
            sys.exit(77)
        late_readers(torch, data, expected)
        two_readers(torch, data, expected)
        full_gpu(torch, data, expected)


if __name__ == "__main__":
    main()
