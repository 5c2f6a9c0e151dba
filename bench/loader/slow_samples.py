#!/usr/bin/env python3
"""slow_samples.py DATA ROOT: loaders over data in which 1 % of the samples cost about 50 times as much as the others.

ROOT gets a folder of JPEGs: crops of photographs of 448 x 448, and for every hundredth a picture of 3136 x 3136. All loaders have
the same number of workers (--workers, default as many as cores, and twice as many) and of batches ahead (4). The order of samples
is kept except where noted:

    torch DataLoader + Pillow, in order    a batch belongs to one worker; a slow sample holds up all later batches
    the same with in_order=False           batches are delivered as soon as they are ready: the order is lost
    Penstock, prefetch 1                   one batch at a time: workers that have finished wait for the slow sample
    Penstock, prefetch 4                   workers take single rows of all batches ahead

Each loader is compared with its own rate over the same samples without the slow ones:

    keeps            its rate with slow samples / its rate without
    decoding         the ratio if nothing waited: CPU time of an image without / with slow samples
    order            keeps / decoding: 1 if no worker waits for a slow sample of another one
    held up          part of an epoch spent in waits for a batch that are longer than twice the median wait
    at work          CPU time / (wall time x the lesser of workers and cores)

The goal compares `keeps` with that of the in-order loader. The ratio of the rates would also contain the speed of decoding, which
is the ratio of the rates without slow samples. Rounds take turns over all loaders; figures are medians. With --json the rounds of
an earlier call go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
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


def held_up(waits: list[float]) -> float:
    """Returns the share of an epoch's time that is spent in waits longer than twice the median wait."""
    limit = 2 * statistics.median(waits)
    return sum(wait for wait in waits if wait > limit) / sum(waits)


def measure(peer: str, root: Path, workers: int, slow: bool) -> dict:
    """Measures one epoch. The clock starts at the first batch, because the start of worker processes is not measured."""
    _, make_batches, options = PEERS[peer]
    batches = make_batches(root, slow, workers, **options)
    seen = next(batches)
    n_first, cpu, times = len(seen), runner.cpu_seconds(), [time.perf_counter()]
    for indices in batches:
        seen += indices
        times.append(time.perf_counter())
    cpu = runner.cpu_seconds() - cpu
    if sorted(seen) != sorted(set(seen)) or len(seen) != len(files(root, slow)):
        raise SystemExit(f"{peer}: {len(seen)} samples, {len(set(seen))} different, wanted {len(files(root, slow))}")
    waits, n = [after - before for before, after in itertools.pairwise(times)], len(seen) - n_first
    return {"images_per_s": n / sum(waits), "wall_s": sum(waits), "cpu_s": cpu, "cpu_ms": 1e3 * cpu / n, "held_up": held_up(waits),
            "longest_s": max(waits)}


def run(peer: str, args: argparse.Namespace, workers: int, slow: bool) -> dict:
    command = [sys.executable, __file__, str(args.data), str(args.root), "--only", peer, "--workers", str(workers),
               *["--without"] * (not slow)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def summed(peer: str, kinds: dict[str, list[dict]], workers: int, cores: int) -> dict:
    """Returns the medians over all rounds."""
    def median(kind: str, what: str) -> float:
        return statistics.median(one[what] for one in kinds[kind])

    keeps = median("with", "images_per_s") / median("without", "images_per_s")
    decoding = median("without", "cpu_ms") / median("with", "cpu_ms")
    busy = statistics.median(one["cpu_s"] / min(workers, cores) / one["wall_s"] for one in kinds["with"])
    return {"name": PEERS[peer][0], "workers": workers, "rounds": len(kinds["with"]),
            "images_per_s": round(median("with", "images_per_s"), 1), "without_slow": round(median("without", "images_per_s"), 1),
            "keeps": round(keeps, 3), "decoding": round(decoding, 3), "order": round(keeps / decoding, 3),
            "held_up": round(median("with", "held_up"), 3), "longest_s": round(median("with", "longest_s"), 3),
            "busy": round(busy, 3)}


def beside(cells: dict[str, dict], peer: str, base: str = "torch") -> dict:
    """Compares a loader with the in-order one: the ratio of `keeps` (the goal), the ratio of the rates, and the part of it that is
    decoding speed.
    """
    ours, theirs = cells[peer], cells[base]
    return {"loader": peer, "workers": ours["workers"], "keeps": round(ours["keeps"] / theirs["keeps"], 2),
            "rates": round(ours["images_per_s"] / theirs["images_per_s"], 2),
            "decoding_alone": round(ours["without_slow"] / theirs["without_slow"], 2)}


def table(found: dict) -> str:
    out = []
    for workers, cells in found["cells"].items():
        head = f"loader, {workers} workers on {found['machine']['cores']} cores, {AHEAD} batches of {BATCH} ahead"
        out += ["", *runner.heads(head, "images/s", "without slow ones", "keeps", "decoding", "order", "held up",
                                  "longest wait, s", "at work")]
        out += [f"| {cell['name']} | {cell['images_per_s']:.0f} | {cell['without_slow']:.0f} | {cell['keeps']:.2f} | "
                f"{cell['decoding']:.2f} | {cell['order']:.2f} | {cell['held_up']:.0%} | {cell['longest_s']:.2f} | "
                f"{cell['busy']:.2f} |" for cell in cells.values()]
    out += ["", *runner.heads("beside the in-order DataLoader", "workers", "keeps, times", "rates, times", "of which decoding")]
    out += [f"| {PEERS[each['loader']][0]} | {each['workers']} | {each['keeps']:.2f} | {each['rates']:.2f} | "
            f"{each['decoding_alone']:.2f} |" for each in found["beside"]]
    return "\n".join(out[1:]) + "\n"


def all_rounds(args: argparse.Namespace) -> dict[str, dict[str, dict[str, list[dict]]]]:
    """Runs all rounds. Returns the runs by workers, loader and kind, with those of an earlier call first."""
    found = json.loads(args.json.read_text())["runs"] if args.json and args.json.exists() else {}
    for i in range(args.rounds):
        for workers in args.workers:
            of_peers = found.setdefault(str(workers), {})
            for peer in PEERS:
                kinds = of_peers.setdefault(peer, {"with": [], "without": []})
                for kind, runs in kinds.items():
                    runs.append(run(peer, args, workers, kind == "with"))
        print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("root", type=Path)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, nargs="+", default=[cores, 2 * cores])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PEERS)
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    common.made(args.root, lambda root: make(args.data, root))
    if args.only:
        print(json.dumps(measure(args.only, args.root, args.workers[0], not args.without)))
        return
    runs = all_rounds(args)
    cells = {workers: {peer: summed(peer, kinds, int(workers), cores) for peer, kinds in of_peers.items()}
             for workers, of_peers in runs.items()}
    found = {"bench": "slow_samples", "machine": runner.machine(), "cells": cells,
             "beside": [beside(each, peer) for each in cells.values() for peer in PEERS if peer.startswith("penstock")],
             "runs": runs}
    print(table(found), end="")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
