"""ahead.py: how much is gained by reading ahead in the known order of coming epochs (clairvoyant placement). Writes
ahead-<date>.json and .md.

    ahead.py --out DIR [--mib N] [--rate MB_PER_S] [--repeats N] [--cases LIST]

Two hosts (processes), each with a loader, a memcached server and a disk of its own: a control group limits what a host reads, so
that all its loaders share that. Both run two epochs over the same data set, with and without a second loader in each host that
fills the fleet ahead: it goes through the host's own order from some batches ahead to the end of the next epoch. For each item it
asks the server that the item belongs to, and reads the item from storage if the server does not have it. It has one item under way
at a time, and only while the training computes, so that it uses idle bandwidth. Cases:

    storage    no computing: storage is the bottleneck
    compute    each step takes 1.5 times as long as reading a batch from the disk: nobody has to wait
    uneven     12 short and 12 long steps in turn, of the same mean: storage waits in the long ones and is waited for in the others
    start      3 s before the first step, as for compiling a model; then no computing
    half       as uneven, with memory for half of the set
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import fleet  # of this folder

import penstock as ps

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cache"))
import groups  # noqa: E402

import runner  # noqa: E402, which fleet has put in reach

HOSTS, BATCH, AHEAD, RUN = 2, 8, 6, 12
CASES = ("storage", "compute", "uneven", "start", "half")


def loader_of(settings: dict, servers: ps.Fleet, **more) -> ps.Loader:
    return ps.Loader(settings["data"], batch_size=BATCH, shuffle=True, seed=1, rank=settings["rank"], world_size=HOSTS,
                     output="numpy", fields=["blob", "label"], cache=None, fleet=servers, reading=ps.Reading(page_cache="direct"),
                     pad_epoch=False,
                     host_memory="256MiB", **more)


class Filler(threading.Thread):
    """A second loader that reads ahead while `idle` is set, until the end of the next epoch."""

    def __init__(self, settings: dict, servers: ps.Fleet) -> None:
        super().__init__(daemon=True)
        self.loader = loader_of(settings, servers, num_workers=1, prefetch=1)
        state = self.loader.state_dict()
        if settings["case"] != "start":
            state["position"] = AHEAD * BATCH * HOSTS
        self.loader.load_state_dict(state)
        self.idle, self.ends = threading.Event(), threading.Event()

    def run(self) -> None:
        for _ in range(2):
            for _ in self.loader:
                self.idle.wait()
                if self.ends.is_set():
                    return


def steps(case: str, step: float):
    """Returns the seconds of computing of each step."""
    i = 0
    while True:
        short = (i // RUN) % 2 == 0
        yield {"compute": step, "storage": 0, "start": 0}.get(case, step / 4 if short else 1.75 * step)
        i += 1


def host() -> None:
    """Runs one host in a process. Its settings are a line of JSON on stdin; the next line starts both epochs. It answers with a
    line of JSON.
    """
    settings = json.loads(sys.stdin.readline())
    servers = ps.Fleet(settings["fleet"])
    loader = loader_of(settings, servers, num_workers=1, prefetch=2)
    filler = Filler(settings, servers) if settings["ahead"] else None
    while servers.stats()["servers_up"] < HOSTS:
        time.sleep(0.01)
    print("ready", flush=True)
    sys.stdin.readline()
    idle = filler.idle if filler else threading.Event()
    idle.set()
    if filler:
        filler.start()
    if settings["case"] == "start":
        time.sleep(3)
    rows, computing = [], steps(settings["case"], settings["step"])
    for _ in range(2):
        begin, waited, labels, batches = time.monotonic(), 0.0, 0, iter(loader)
        before = loader.stats()["storage"]["reads"]
        while True:
            idle.clear()
            asked = time.monotonic()
            batch = next(batches, None)
            waited += time.monotonic() - asked
            if batch is None:
                break
            labels += int(batch["label"].sum())
            if seconds := next(computing):
                idle.set()
                time.sleep(seconds)
        rows.append({"seconds": time.monotonic() - begin, "waited": waited, "labels": labels,
                     "reads": loader.stats()["storage"]["reads"] - before})
    filled = 0
    if filler:
        filled = filler.loader.stats()["storage"]["reads"]
        filler.ends.set()
        idle.set()
    print(json.dumps({"epochs": rows, "filled": filled}), flush=True)


def run(args, case: str, ahead: bool, data: Path, wanted: dict, folder: Path) -> dict:
    """Runs two epochs on both hosts. Returns the figures."""
    memory = wanted["nbytes"] // HOSTS
    room = memory // 2 if case == "half" else memory * 5 // 4
    sockets = [folder / f"{i}.sock" for i in range(HOSTS)]
    servers = [subprocess.Popen(fleet.server_command(room, "--socket", str(socket))) for socket in sockets]
    names = [f"s{i}={socket}" for i, socket in enumerate(sockets)]
    step = 1.5 * BATCH * wanted["nbytes"] / wanted["items"] / (args.rate * 1e6)
    disk, hosts, limits = groups.disk_of(data), [], []
    try:
        for rank in range(HOSTS):
            limits.append(groups.Group(None, int(args.rate * 1e6), disk))
            hosts.append(subprocess.Popen([sys.executable, str(HERE / "ahead.py"), "--host"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True, preexec_fn=limits[-1].join))
            fleet.Cell.tell(hosts[-1], json.dumps({"data": str(data), "rank": rank, "fleet": names, "case": case, "ahead": ahead,
                                                   "step": step}))
        for process in hosts:
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"{case}: a host has ended")
        for process in hosts:
            fleet.Cell.tell(process, "go")
        found = [json.loads(process.stdout.readline()) for process in hosts]
    finally:
        for process in [*hosts, *servers]:
            process.kill()
            process.wait()
        for limit in limits:
            limit.remove()
        for socket in sockets:
            socket.unlink(missing_ok=True)
    epochs = []
    for i in range(2):
        each = [host["epochs"][i] for host in found]
        if sum(row["labels"] for row in each) != wanted["items"] * (wanted["items"] - 1) // 2:
            raise SystemExit(f"{case}: an epoch has not delivered each item once")
        epochs.append({"seconds": max(row["seconds"] for row in each), "waited": statistics.mean(row["waited"] for row in each),
                       "reads": sum(row["reads"] for row in each)})
    return {"epochs": epochs, "filled": sum(host["filled"] for host in found)}


def measure(args, data: Path, wanted: dict, folder: Path) -> list[dict]:
    cells = []
    for case in args.cases:
        for ahead in (False, True):
            runs = [run(args, case, ahead, data, wanted, folder) for _ in range(args.repeats)]
            cells.append({"case": case, "ahead": ahead, "filled": statistics.median(each["filled"] for each in runs), "epochs": [
                {key: statistics.median(each["epochs"][i][key] for each in runs) for key in runs[0]["epochs"][0]}
                for i in range(2)]})
            runner.said(cells[-1])
    return cells


def table(result: dict) -> str:
    machine = result["machine"]
    lines = [f"{result['set']['items']} items, {result['set']['nbytes'] / 1e6:.0f} MB; {HOSTS} hosts with disks of "
             f"{result['rate']:g} MB/s; medians of {result['repeats']}; {machine['cpu']}, {machine['date']}.", "",
             "| | fill-ahead | epoch 1: s, waited | epoch 2: s, waited | loaders' reads: epoch 1, 2 | of the fill | all reads |",
             "|---|---|---|---|---|---|---|"]
    for cell in result["cells"]:
        one, two = cell["epochs"]
        filled = cell["filled"]
        lines.append(f"| {cell['case']} | {'yes' if cell['ahead'] else 'no'} | {one['seconds']:.2f}, {one['waited']:.2f} | "
                     f"{two['seconds']:.2f}, {two['waited']:.2f} | {one['reads']:.0f}, {two['reads']:.0f} | {filled:.0f} | "
                     f"{one['reads'] + two['reads'] + filled:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mib", type=int, default=256, help="at least 256: a server has 64 MiB or more")
    parser.add_argument("--rate", type=float, default=60.0, help="MB/s of a host's disk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pst-ahead-") as place:
        folder = Path(place)
        wanted = fleet.make_set(folder / "set.pst", args.mib * fleet.MIB)
        try:
            cells = measure(args, folder / "set.pst", wanted, folder)
        except groups.NoGroups as error:
            sys.exit(f"bench/fleet: {error}")
    result = {"bench": "ahead", "set": wanted, "rate": args.rate, "repeats": args.repeats, "cells": cells,
              "machine": runner.machine()}
    runner.write(args.out / f"ahead-{result['machine']['date']}", result, table(result))


if __name__ == "__main__":
    host() if sys.argv[1:] == ["--host"] else main()
