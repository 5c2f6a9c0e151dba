#!/usr/bin/env python3
"""What examples/train_audio.py reaches on speakers that it has not heard, beside its goal: accuracy.py --out DIR FOLDER [...].

FOLDER holds spoken digits as the example takes them. Each seed is a training with the example's own settings. Accuracy does not
depend on other work on the machine. Writes audio_accuracy-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import runner  # noqa: E402

GOAL = 0.9  # of the sounds of two unseen speakers
SPLIT = re.compile(r"(\d+) sounds to train on, (\d+) of (.+) to test on")
RESULT = re.compile(r"penstock, seed (\d+): .* unseen speakers ([\d.]+)%")


def read(output: str) -> dict:
    """Returns what the example says: sounds, speakers, and the accuracy of each seed."""
    split = SPLIT.search(output)
    if split is None:
        raise SystemExit("the example does not say what it trains on:\n" + output)
    seeds = [{"seed": int(seed), "accuracy": round(float(percent) / 100, 4)} for seed, percent in RESULT.findall(output)]
    return {"trained_on": int(split[1]), "tested_on": int(split[2]), "unseen": split[3].split(" and "), "seeds": seeds}


def measure(args: argparse.Namespace) -> dict:
    command = [sys.executable, str(ROOT / "examples" / "train_audio.py"), str(args.folder), "--epochs", str(args.epochs),
               "--seeds", *map(str, args.seeds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = read(done.stdout)
    rates = [each["accuracy"] for each in found["seeds"]]
    found |= {"lowest": min(rates), "median": statistics.median(rates), "highest": max(rates), "goal": GOAL,
              "met": min(rates) >= GOAL}
    return {"bench": "audio_accuracy", "machine": runner.machine(), "settings": {"epochs": args.epochs}, **found}


def table(found: dict) -> str:
    rates = " / ".join(f"{each['accuracy']:.1%}" for each in found["seeds"])
    words = f"{found['tested_on']} digits of {' and '.join(found['unseen'])}, after {found['trained_on']} of other speakers"
    return "\n".join([runner.where(found), "", *runner.heads("spoken digits", "accuracy of each seed", "goal", ""),
                      f"| {words} | {rates} | {found['goal']:.0%} | {'met' if found['met'] else 'missed'} |"]) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, again=True)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = runner.parsed(parser)
    if not args.source and not args.folder:
        parser.error("give a folder, or --from")
    runner.finish(args, "audio_accuracy", measure, table)


if __name__ == "__main__":
    main()
