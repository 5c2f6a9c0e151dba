#!/usr/bin/env python3
"""The package's features around a GPU: page-locked batches, the GPU's own clock, costs of forms, and shared preparation.

    tests/gpu/features_on_gpu.py DATA PENSTOCK [--report FILE.json]

DATA has folders of .pli files and of JPEGs, as scripts/gpu_carry.py makes it; PENSTOCK is the command, for the host service.
Pixels must be bit-identical to the CPU's. The analysis, with the costs measured on this GPU, is written to FILE.json. A
simulated driver (PENSTOCK_CUDA_DRIVER) can replace the GPU, but then the times are not a GPU's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from loader_on_gpu import check_same, on_host, torch_output
from penstock import transforms as T

CHAIN = [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
N_EPOCHS = 2


def loader_of(data: Path, **options: Any) -> ps.Loader:
    given = {"batch_size": 8, "shuffle": True, "seed": 3, "transforms": CHAIN, "fields": ["image"], "cache": None, **options}
    return ps.Loader(str(data), **given)


def images_of(loader: ps.Loader) -> list[np.ndarray]:
    return [on_host(batch["image"]) for _ in range(N_EPOCHS) for batch in loader]


def page_locked(data: Path, expected: list[np.ndarray]) -> None:
    loader = loader_of(data, output="numpy", pin_memory=True)
    check_same(images_of(loader), expected, "pin_memory")
    assert "pin" not in loader.stats()["fallbacks"], loader.stats()["fallbacks"]
    print("pin_memory: the same", flush=True)


def clock(data: Path, output: str) -> None:
    """GPU events time each batch: its transfer over the link, and the kernels after it."""
    loader = loader_of(data, output=output, device=ps.Gpu(decode="gpu"))
    images_of(loader)
    upload = loader.stats()["stages"]["upload"]
    assert upload["link"] > 0 and upload["gpu"] > 0 and upload["nbytes"] > 0, upload
    print(f"clock: {upload['nbytes'] / 1e6:.1f} MB in {1e3 * upload['link']:.2f} ms over the link, "
          f"{1e3 * upload['gpu']:.2f} ms of the GPU", flush=True)


def costs(data: Path, output: str, report_path: Path | None) -> None:
    loader = loader_of(data, output=output, device="cuda", num_workers=2)
    report = ps.analyze(loader, budget="20s", accelerator=1000.0, forms=("jpeg", "pli-jpeg", "pli-small", "pli-fast", "raw"))
    for form in ("pli-jpeg", "pli-small", "pli-fast"):
        on_gpu = report.data["forms"][form]["gpu"]
        assert on_gpu["gpu_seconds"] > 0 and on_gpu["link_nbytes"] > 0, (form, on_gpu)
        print(f"costs of {form}: {1e6 * on_gpu['gpu_seconds']:.1f} us of the GPU, {on_gpu['link_nbytes']:.0f} bytes", flush=True)
    rate = report.data["machine"]["link_nbytes_per_second"]
    print(f"costs: link {rate / 1e9:.1f} GB/s; half on the GPU: {report.whatif(gpu_part=0.5)}", flush=True)
    if report_path:
        report.to_json(str(report_path))


@contextmanager
def service(command: str, folder: Path) -> Iterator[None]:
    socket = folder / "host.sock"
    os.environ["PENSTOCK_SOCKET"] = str(socket)
    server = subprocess.Popen([command, "serve"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not socket.exists():
            assert server.poll() is None and time.monotonic() < deadline, "the service did not start"
            time.sleep(0.01)
        yield
    finally:
        server.terminate()
        server.wait(30)


def shared_job(data: Path, output: str, place: dict[str, Any], send: Any) -> None:
    loader = loader_of(data, share="gpu-test", output=output, **place)
    images = images_of(loader)
    send.send((images, loader.stats()["share"], loader.stats()["fallbacks"]))


def share(data: Path, output: str, expected: list[np.ndarray], command: str, folder: Path) -> None:
    """Two jobs on one GPU and one job without a GPU share one preparation."""
    places: list[tuple[str, dict[str, Any]]] = [(output, {"device": "cuda"}), (output, {"device": "cuda"}), ("numpy", {})]
    spawn = multiprocessing.get_context("spawn")
    with service(command, folder):
        jobs = []
        for out, place in places:
            receive, send = spawn.Pipe(duplex=False)
            process = spawn.Process(target=shared_job, args=(data, out, place, send))
            process.start()
            send.close()
            jobs.append((process, receive, place))
        for process, receive, place in jobs:
            images, stats, fallbacks = receive.recv()
            process.join()
            check_same(images, expected, f"share, {place or 'host'}")
            assert stats["batches"] > 0, (stats, fallbacks)
            print(f"share, {place or 'host'}: the same; {stats['batches']} batches shared, {stats['alone']} alone, "
                  f"{stats['copied']} copied", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("penstock", help="the command")
    parser.add_argument("--report", type=Path, help="JSON of the analysis")
    args = parser.parse_args()
    output = torch_output()
    with tempfile.TemporaryDirectory() as work:
        data = Path(work) / "data.pst"
        ps.pack(str(args.data / "pli-jpeg"), str(data))
        expected = images_of(loader_of(data, output="numpy"))
        page_locked(data, expected)
        clock(data, output)
        costs(data, output, args.report)
        share(data, output, expected, args.penstock, Path(work))


if __name__ == "__main__":
    main()
