#!/usr/bin/env python3
"""Accuracy of examples/train_audio.py on speakers that were not in its training, beside the goal: accuracy.py --out DIR FOLDER
[...].

FOLDER holds spoken digits as the example takes them. Each seed is a training with the example's own settings, with one thread of
torch. Accuracy does not depend on other work on the machine. --fewer also trains on fewer speakers, and on half of the takes of
all of them, for as many steps: the loss of accuracy shows whether more voices or more takes would help. Writes
audio_accuracy-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import runner  # noqa: E402

GOAL = 0.9  # the least accuracy on the sounds of two unseen speakers
SPLIT = re.compile(r"(\d+) sounds to train on, (\d+) of (.+) to test on")
RESULT = re.compile(r"penstock, seed (\d+): .* unseen speakers ([\d.]+)%")


def read(output: str) -> dict:
    """Returns what the example printed: the number of sounds, the speakers, and the accuracy of each seed."""
    split = SPLIT.search(output)
    if split is None:
        raise SystemExit("the example does not say what it trains on:\n" + output)
    seeds = [{"seed": int(seed), "accuracy": round(float(percent) / 100, 4)} for seed, percent in RESULT.findall(output)]
    return {"trained_on": int(split[1]), "tested_on": int(split[2]), "unseen": split[3].split(" and "), "seeds": seeds}


def trained(folder: Path, epochs: int, seeds: list[int], *more: str) -> dict:
    """Trains on a folder once for each seed. Returns the accuracies and their range."""
    command = [sys.executable, str(ROOT / "examples" / "train_audio.py"), str(folder), "--epochs", str(epochs),
               "--seeds", *map(str, seeds), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = read(done.stdout)
    rates = [each["accuracy"] for each in found["seeds"]]
    return found | {"lowest": min(rates), "median": statistics.median(rates), "highest": max(rates)}


def linked(folder: Path, into: Path, whole: Collection[str], halved: Collection[str] = ()) -> Path:
    """Makes a folder with links to all files of some speakers, and to every second file of the others."""
    into.mkdir()
    taken: dict[tuple[str, str], int] = {}
    for path in sorted(folder.glob("*_*_*.wav")):
        digit, speaker, _ = path.stem.split("_")
        taken[digit, speaker] = taken.get((digit, speaker), -1) + 1
        if speaker in whole or (speaker in halved and taken[digit, speaker] % 2 == 0):
            (into / path.name).symlink_to(path.resolve())
    return into


def fewer(folder: Path, found: dict, args: argparse.Namespace) -> list[dict]:
    """Trains on fewer speakers, and on half of the takes of all speakers. The number of steps is that of a training on all
    sounds.
    """
    seen = sorted({path.stem.split("_")[1] for path in folder.glob("*_*_*.wav")} - set(found["unseen"]))
    parts = [(n, 1.0, seen[:n], []) for n in range(1, len(seen))] + [(len(seen), 0.5, [], seen)]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for i, (n, takes, whole, halved) in enumerate(parts):
            part = linked(folder, Path(scratch) / str(i), [*found["unseen"], *whole], halved)
            n_sounds = sum(path.stem.split("_")[1] not in found["unseen"] for path in part.iterdir())
            epochs = round(args.epochs * found["trained_on"] / n_sounds)
            one = trained(part, epochs, args.seeds, "--unseen", *found["unseen"])
            rows.append(runner.said({"speakers": n, "takes": takes, "epochs": epochs, **one}))
    return rows


def measure(args: argparse.Namespace) -> dict:
    found = trained(args.folder, args.epochs, args.seeds)
    found |= {"goal": GOAL, "met": found["lowest"] >= GOAL, "fewer": fewer(args.folder, found, args) if args.fewer else []}
    return {"bench": "audio_accuracy", "machine": runner.machine(), "settings": {"epochs": args.epochs}, **found}


def percents(found: dict) -> str:
    return " / ".join(f"{each['accuracy']:.1%}" for each in found["seeds"])


def table(found: dict) -> str:
    words = f"{found['tested_on']} digits of {' and '.join(found['unseen'])}, after {found['trained_on']} of other speakers"
    lines = [runner.where(found), "", *runner.heads("spoken digits", "accuracy of each seed", "goal", ""),
             f"| {words} | {percents(found)} | {found['goal']:.0%} | {'met' if found['met'] else 'missed'} |"]
    for row in found["fewer"]:
        of = f"{row['speakers']} speakers" + (", half of their takes" if row["takes"] < 1 else "")
        lines.append(f"| trained on {row['trained_on']} of {of} | {percents(row)} | | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, again=True)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--fewer", action="store_true", help="also train on fewer speakers, and on half of the takes")
    args = runner.parsed(parser)
    if not args.source and not args.folder:
        parser.error("give a folder, or --from")
    runner.finish(args, "audio_accuracy", measure, table)


if __name__ == "__main__":
    main()
