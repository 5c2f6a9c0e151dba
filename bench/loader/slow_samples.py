#!/usr/bin/env python3
"""slow_samples.py DATA ROOT: loaders over data in which 1 % of the samples cost about 50 times as much as the others.

ROOT gets a folder of JPEGs: crops of photographs of 448 x 448, and for every hundredth a picture of 3136 x 3136. All loaders have
the same number of workers (--workers, default 2) and of batches ahead (4). The order is exact but where that is said:

    torch DataLoader + Pillow, in order    a batch belongs to one worker; a slow sample holds up all batches behind it
    the same with in_order=False           batches come as they are done: the order is lost
    Penstock, prefetch 1                   one batch at a time: workers that are done wait for the slow sample
    Penstock, prefetch 4                   work goes by rows over the batches ahead

Beside each rate stand the same loader's rate over the samples without the slow ones, and the part of the workers' time in which
they worked: processor time by time and workers. Medians of the rounds, in turns. With --json the rounds of an earlier call go on.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import common  # noqa: E402

SMALL, LARGE, N, BATCH, AHEAD, SIZE = 448, 3136, 800, 16, 4, 224


def make(data: Path, root: Path) -> None:
    from PIL import Image

    photographs = [Image.open(path).convert("RGB") for path in sorted((data / "clic2025").glob("*.png"))]
    rng = random.Random(7)
    large = photographs[0].resize((LARGE, LARGE), Image.Resampling.BICUBIC)
    (root / "c0").mkdir(parents=True)
    for i in range(N):
        path = root / "c0" / f"{i:05d}.jpg"
        if i % 100 == 50:
            large.save(path, quality=90)
            continue
        photograph = photographs[i % len(photographs)]
        left, top = rng.randrange(photograph.width - SMALL), rng.randrange(photograph.height - SMALL)
        photograph.crop((left, top, left + SMALL, top + SMALL)).save(path, quality=90)


def files(root: Path, slow: bool) -> list[Path]:
    return [path for i, path in enumerate(sorted(root.glob("c0/*.jpg"))) if slow or i % 100 != 50]


def torch_batches(root: Path, slow: bool, workers: int, in_order: bool) -> Iterator[list[int]]:
    import numpy as np
    import torch
    from PIL import Image

    paths = files(root, slow)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, i: int):
            image = Image.open(paths[i]).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255), i

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    loader = torch.utils.data.DataLoader(Samples(), BATCH, shuffle=True, generator=generator, num_workers=workers,
                                         prefetch_factor=max(AHEAD // workers, 1), in_order=in_order)
    for _, index in loader:
        yield index.tolist()


def penstock_batches(root: Path, slow: bool, workers: int, prefetch: int) -> Iterator[list[int]]:
    import penstock as ps
    from penstock import transforms as T

    dataset = ps.Dataset(str(root))
    indices = [i for i in range(len(dataset)) if slow or i % 100 != 50]
    loader = ps.Loader(dataset, BATCH, shuffle=True, seed=1, num_workers=workers, prefetch=prefetch, output="numpy", cache=None,
                       indices=indices, dtype="float32", transforms=[T.Resize((SIZE, SIZE))])
    for batch in loader:
        yield batch["index"].tolist()


PEERS: dict[str, tuple[str, Callable[..., Iterator[list[int]]], dict]] = {
    "torch": ("torch DataLoader + Pillow, in order", torch_batches, {"in_order": True}),
    "torch_any_order": ("the same, in_order=False", torch_batches, {"in_order": False}),
    "penstock_1": ("Penstock, prefetch 1", penstock_batches, {"prefetch": 1}),
    "penstock": (f"Penstock, prefetch {AHEAD}", penstock_batches, {"prefetch": AHEAD}),
}


def measure(peer: str, root: Path, workers: int, slow: bool) -> dict:
    """One epoch. The clock starts with the first batch, so that starting processes is not part of it."""
    _, make_batches, options = PEERS[peer]
    batches = make_batches(root, slow, workers, **options)
    seen = next(batches)
    n_first, cpu, start = len(seen), runner.cpu_seconds(), time.perf_counter()
    for indices in batches:
        seen += indices
    wall = time.perf_counter() - start
    if sorted(seen) != sorted(set(seen)) or len(seen) != len(files(root, slow)):
        raise SystemExit(f"{peer}: {len(seen)} samples, {len(set(seen))} different, wanted {len(files(root, slow))}")
    return {"images_per_s": (len(seen) - n_first) / wall, "wall_s": wall, "cpu_s": runner.cpu_seconds() - cpu,
            "order": hash(tuple(seen))}


def run(peer: str, args: argparse.Namespace, slow: bool) -> dict:
    command = [sys.executable, __file__, str(args.data), str(args.root), "--only", peer, "--workers", str(args.workers),
               *["--without"] * (not slow)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def summed(peer: str, kinds: dict[str, list[dict]], workers: int) -> dict:
    """Medians of all rounds. busy: processor time of an epoch, by its time and the workers."""
    rates = {kind: statistics.median(one["images_per_s"] for one in runs) for kind, runs in kinds.items()}
    cpu = statistics.median(one["cpu_s"] for one in kinds["with"])
    return {"name": PEERS[peer][0], "rounds": len(kinds["with"]), "images_per_s": round(rates["with"], 1),
            "without_slow": round(rates["without"], 1), "cpu_s": round(cpu, 2),
            "busy": round(statistics.median(one["cpu_s"] / workers / one["wall_s"] for one in kinds["with"]), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PEERS)
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    common.made(args.root, lambda root: make(args.data, root))
    if args.only:
        print(json.dumps(measure(args.only, args.root, args.workers, not args.without)))
        return
    found: dict[str, dict[str, list[dict]]] = {peer: {"with": [], "without": []} for peer in PEERS}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text())["runs"]
    for i in range(args.rounds):
        for peer in PEERS:
            for kind in ("with", "without"):
                found[peer][kind].append(run(peer, args, kind == "with"))
        print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    cells = {peer: summed(peer, kinds, args.workers) for peer, kinds in found.items()}
    base = cells["torch"]["images_per_s"]
    print(f"| loader, {args.workers} workers, {AHEAD} batches of {BATCH} ahead | images/s | x in-order torch | without slow ones | "
          "workers at work |\n|---|---|---|---|---|")
    for cell in cells.values():
        print(f"| {cell['name']} | {cell['images_per_s']:.0f} | {cell['images_per_s'] / base:.2f} | {cell['without_slow']:.0f} | "
              f"{cell['busy']:.2f} |")
    if args.json:
        args.json.write_text(json.dumps({"bench": "slow_samples", "machine": runner.machine(), "workers": args.workers,
                                         "cells": cells, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
