"""fleet.py: several hosts on one machine, which share a data set. Prints tables; writes fleet-<date>.json and .md.

    fleet.py --out DIR [--mib N] [--rates 15,530] [--kinds LIST] [--latencies 0,0.1,0.5,2] [--epochs N] [--link MBIT]
             [--memory-mib N] [--skip-memory]

Three hosts are network namespaces joined by a bridge; each has one memcached server, and one process with two loaders. tbf (Linux's
token bucket filter) limits the rate of a host's link. With a latency (milliseconds, added to a round trip) other hosts reach a
server through proxy.py, which also limits the rate; the time of a round trip is measured. A host's disk is the loaders' throttle:
MB/s for both together (15: random reads of the paper's hard disk; 530: its SATA SSD). Each host has memory for a third of the set
plus `--spare` per cent:

    page cache   a model: Linux evicts at random, so the share h of reads is hits, h = ((1 - exp(-s)) / s)^2, s = (1 - h) / c,
                 for the share c that fits. The throttle is 1 / (1 - h) times as fast.
    MinIO        a cache of the host's own, which evicts nothing; its two loaders share it
    fleet        the host's memory is its server's
    killed       as fleet; one server is killed after a third of an epoch. Shown are epoch 1, the epoch of the kill, and the next

Items are random bytes of log-normal length, 100 kB in the mean. The bytes that are delivered are compared with those written,
over all ranks, in each epoch. Then, without disk rates, a set of --memory-mib: servers of 1.05 times its bytes in all must hold it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import penstock as ps

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402

PORT, PROXY_PORT = 11211, 11212
MIB = 1 << 20
HOSTS = 3
KINDS = ("page cache", "MinIO", "fleet", "killed")
TITLES = {"page cache": "page cache (model)", "MinIO": "a cache for each host (MinIO)", "fleet": "fleet",
          "killed": "fleet, a server killed in epoch 2"}
DISKS = {15: "hard disk, 15 MB/s", 530: "SATA SSD, 530 MB/s"}


def make_set(path: Path, nbytes: int) -> dict:
    """Writes random items until they have nbytes in all. Returns their number, bytes and sum of CRC-32s."""
    source, chance = os.urandom(8 * MIB), random.Random(1)
    found = {"items": 0, "nbytes": 0, "crcs": 0}
    with ps.Writer(path, {"blob": ps.Bytes(), "label": ps.Int()}) as writer:
        while found["nbytes"] < nbytes:
            n = min(2 * MIB, int(chance.lognormvariate(-0.18, 0.6) * 100_000))
            at = chance.randrange(len(source) - n)
            blob = source[at:at + n]
            writer.write({"blob": blob, "label": found["items"]})
            found["items"] += 1
            found["nbytes"] += n
            found["crcs"] += zlib.crc32(blob)
    return found


def page_cache_hits(share: float) -> float:
    """Returns the share of hits of a cache with random eviction that holds the part `share` of the set."""
    hits = 0.0 if share < 1 else 1 - 1e-6
    for _ in range(1000):
        s = max(1e-9, (1 - hits) / share)
        hits = min(1 - 1e-6, ((1 - math.exp(-s)) / s) ** 2)
    return hits


class Network:
    """Network namespaces pst-<pid>-0.. with addresses 10.77.0.1.., joined by a bridge in a namespace of its own."""

    def __init__(self, link_mbit: int) -> None:
        self.link_mbit = link_mbit
        self.hub = f"pst-{os.getpid()}-hub"
        self.names = [f"pst-{os.getpid()}-{i}" for i in range(HOSTS)]
        self.shaped = True

    @staticmethod
    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    def __enter__(self) -> Network:
        self.run("ip", "netns", "add", self.hub)
        self.run("ip", "-n", self.hub, "link", "add", "hub", "type", "bridge")
        self.run("ip", "-n", self.hub, "link", "set", "hub", "up")
        for i, name in enumerate(self.names):
            self.run("ip", "netns", "add", name)
            self.run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.hub)
            self.run("ip", "-n", self.hub, "link", "set", f"port{i}", "master", "hub", "up")
            self.run("ip", "-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            self.run("ip", "-n", name, "link", "set", "eth0", "up")
            self.run("ip", "-n", name, "link", "set", "lo", "up")
            try:
                self.run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{self.link_mbit}mbit",
                         "burst", "1mb", "latency", "50ms")
            except subprocess.CalledProcessError:
                self.shaped = False
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*self.names, self.hub]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    @staticmethod
    def address(host: int) -> str:
        return f"10.77.0.{host + 1}"

    def inside(self, host: int, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.names[host], *words]


def server_command(nbytes: int, *where: str) -> list[str]:
    """Returns the command that starts a memcached, as `penstock` prints it. where: --listen ADDRESS or --socket PATH."""
    printed = subprocess.run([str(Path(sys.executable).parent / "penstock"), "cache", "fleet", "--json", "--memory", str(nbytes),
                              *where, "--threads", "1", "--user", "root"], check=True, capture_output=True)
    return json.loads(printed.stdout)["command"]


def start_servers(network: Network, nbytes: int) -> list[subprocess.Popen[bytes]]:
    """Starts a memcached on each host."""
    return [subprocess.Popen(network.inside(host, *server_command(nbytes, "--listen", network.address(host))))
            for host in range(HOSTS)]


def start_proxies(network: Network, latency: float) -> list[subprocess.Popen[str]]:
    """Starts a proxy in front of each host's server. Without a latency there are none."""
    proxies = []
    for host in range(HOSTS if latency else 0):
        address = network.address(host)
        proxies.append(subprocess.Popen(network.inside(
            host, sys.executable, str(HERE / "proxy.py"), f"{address}:{PROXY_PORT}", f"{address}:{PORT}", str(latency),
            str(network.link_mbit / 8)), stdout=subprocess.PIPE, text=True))
    for proxy in proxies:
        assert proxy.stdout is not None and proxy.stdout.readline() == "ready\n"
    return proxies


# Run inside a namespace: prints the median milliseconds of a round trip of one small request.
ROUND_TRIP = """
import socket, statistics, sys, time
server, times = socket.create_connection((sys.argv[1], int(sys.argv[2]))), []
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(200):
    start = time.monotonic()
    server.sendall(b"version\\r\\n")
    server.recv(100)
    times.append(time.monotonic() - start)
print(1e3 * statistics.median(times))
"""


def round_trip(network: Network, latency: float) -> float:
    """Returns the milliseconds of a round trip from host 0 to the server of host 1."""
    deadline, port = time.monotonic() + 10, PROXY_PORT if latency else PORT
    while True:
        done = subprocess.run(network.inside(0, sys.executable, "-c", ROUND_TRIP, network.address(1), str(port)),
                              capture_output=True, text=True)
        if done.returncode == 0:
            return float(done.stdout)
        if time.monotonic() > deadline:  # a server that has not started yet
            raise SystemExit(done.stderr)


class Cell:
    """The hosts of one cell, which run epochs together. latency: milliseconds that are added to a round trip to another host."""

    def __init__(self, network: Network, kind: str, rate: float, latency: float, data: Path, wanted: dict, memory: int) -> None:
        self.wanted = wanted
        self.servers = start_servers(network, memory) if kind in ("fleet", "killed") else []
        self.proxies = start_proxies(network, latency) if self.servers else []
        self.round_trip_ms = round_trip(network, latency) if self.servers else None
        if kind == "page cache":
            rate /= 1 - page_cache_hits(memory / wanted["nbytes"])
        self.hosts = []
        for host in range(HOSTS):
            process = subprocess.Popen(network.inside(host, sys.executable, str(HERE / "host.py")), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
            self.hosts.append(process)
            # Each server has the same name on all hosts. Only its own host reaches it without the proxy.
            names = [f"s{i}={network.address(i)}:{PORT if i == host or not latency else PROXY_PORT}"
                     for i in range(len(self.servers))]
            self.tell(process, json.dumps({
                "data": str(data), "world": 2 * HOSTS, "ranks": [host, host + HOSTS], "rate": rate, "servers": len(names),
                "cache": memory if kind == "MinIO" else 0, "fleet": names, "timeout": 0.5 if rate else 5}))
        for process in self.hosts:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"

    @staticmethod
    def tell(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def epoch(self, kill_after: float | None = None) -> dict:
        for process in self.hosts:
            self.tell(process, "epoch")
        if kill_after is not None:
            time.sleep(kill_after)
            self.servers[0].send_signal(signal.SIGKILL)
        found = [json.loads(process.stdout.readline()) for process in self.hosts if process.stdout]
        for key in ("items", "crcs"):
            if sum(host[key] for host in found) != self.wanted[key]:
                raise SystemExit(f"wrong output: {key} is not that of the set")
        return {"seconds": max(host["seconds"] for host in found), "reads": sum(host["reads"] for host in found),
                "nbytes": sum(host["nbytes"] for host in found), "fallbacks": found[0]["fallbacks"], "tiers": found[0]["tiers"],
                "fleet": found[0]["fleet"]}

    def close(self) -> None:
        for process in self.hosts:
            if process.stdin:
                process.stdin.close()
            process.wait()
        for process in [*self.servers, *self.proxies]:
            process.kill()
            process.wait()


def measure(network: Network, args: argparse.Namespace, data: Path, wanted: dict) -> list[dict]:
    cells = []
    memory = int(wanted["nbytes"] / HOSTS * (1 + args.spare / 100))
    for rate in args.rates:
        pairs = [(kind, latency) for kind in args.kinds for latency in (args.latencies if kind in ("fleet", "killed") else [0.0])]
        for kind, latency in pairs:
            cell = Cell(network, kind, rate, latency, data, wanted, memory)
            try:
                epochs = [cell.epoch() for _ in range(args.epochs)]
                if kind == "killed":
                    later = statistics.median(epoch["seconds"] for epoch in epochs[1:])
                    epochs = epochs[:1] + [cell.epoch(kill_after=later / 3), cell.epoch()]
            finally:
                cell.close()
            cells.append({"rate": rate, "kind": kind, "latency_ms": latency, "round_trip_ms": cell.round_trip_ms, "epochs": epochs})
            print(rate, kind, latency, [(round(e["seconds"], 2), e["reads"]) for e in epochs], flush=True)
    return cells


def check_memory(network: Network, args: argparse.Namespace, folder: Path) -> dict:
    """Checks that servers whose memory is 1.05 times the set's bytes hold the whole set: the second epoch must read nothing from
    storage.
    """
    wanted = make_set(folder / "large.pst", args.memory_mib * MIB)
    cell = Cell(network, "fleet", 0, 0, folder / "large.pst", wanted, int(wanted["nbytes"] / HOSTS * 1.05))
    try:
        epochs = [cell.epoch() for _ in range(3)]
    finally:
        cell.close()
    return {"nbytes": wanted["nbytes"], "items": wanted["items"], "epochs": epochs}


def local_cost(data: Path, wanted: dict, folder: Path) -> dict:
    """Measures the time of an item from this host's own server, beside a read from the page cache and a hit in the loader's
    cache.
    """
    server = subprocess.Popen(server_command(2 * wanted["nbytes"], "--socket", str(folder / "m.sock")))
    found = {}
    try:
        while not (folder / "m.sock").exists():
            time.sleep(0.01)
        for name, tier, extra in (("a server of this host", "fleet", {"fleet": [str(folder / "m.sock")]}),
                                  ("a direct read, page cache", "storage", {}),
                                  ("a direct read, O_DIRECT", "storage", {"reading": ps.Reading(page_cache="direct")}),
                                  ("the loader's cache", "memory", {"cache": 2 * wanted["nbytes"]})):
            options = {"cache": None, "fleet": None, **extra}
            # One worker and few rows ahead: the latency measured is that of one request, not of a queue of requests.
            with ps.Loader(data, batch_size=1, shuffle=True, seed=1, num_workers=1, prefetch=2, output="numpy",
                           fields=["blob", "label"], **options) as loader:
                for _ in loader:
                    pass
                seconds = []
                for _ in range(5):
                    start = time.monotonic()
                    crcs = sum(zlib.crc32(blob) for batch in loader for blob in batch["blob"])
                    seconds.append(time.monotonic() - start)
                    if crcs != wanted["crcs"]:
                        raise SystemExit("wrong output")
                found[name] = {**loader.stats()["tiers"][tier], "epoch_seconds": statistics.median(seconds)}
    finally:
        server.kill()
        server.wait()
    return found


def table(result: dict) -> str:
    n, lines = result["set"]["items"], []
    for rate in sorted({cell["rate"] for cell in result["cells"]}):
        lines += [f"{DISKS.get(rate, f'{rate} MB/s')}: items read from storage, and seconds, of each epoch", "",
                  "| | epoch 1 | epoch 2 | epoch 3 | times as fast as MinIO (epochs 2 and 3) |", "|---|---|---|---|---|"]
        later = {cell["kind"]: statistics.median(e["seconds"] for e in cell["epochs"][1:])
                 for cell in result["cells"] if cell["rate"] == rate and not cell["latency_ms"]}
        for cell in (cell for cell in result["cells"] if cell["rate"] == rate):
            is_model = cell["kind"] == "page cache"  # the model's rate already contains the page cache's hits
            shown = " | ".join(("" if is_model else f"{epoch['reads']}, ") + f"{epoch['seconds']:.2f} s"
                               for epoch in cell["epochs"][:3])
            ratio = later.get("MinIO", 0) / statistics.median(e["seconds"] for e in cell["epochs"][1:])
            trip = f", round trip {cell['round_trip_ms']:.2f} ms" if cell["round_trip_ms"] else ""
            lines.append(f"| {TITLES[cell['kind']]}{trip} | {shown} | {ratio:.1f} |")
        lines.append("")
    lines += ["| one item from | mean | 99 % within | rate while asked | an epoch |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {1e6 * t['mean_seconds']:.1f} us | {1e6 * t['p99_seconds']:.1f} us | "
              + (f"{t['bytes_per_second'] / 1e9:.2f} GB/s" if t["bytes_per_second"] else "")
              + f" | {t['epoch_seconds']:.2f} s |" for name, t in result["local"].items()] + [""]
    if result["memory"]:
        memory = result["memory"]
        lines.append(f"{memory['items']} items of {memory['nbytes'] / 1e9:.2f} GB, servers of 1.05 times that in all: "
                     f"{', '.join(str(epoch['reads']) for epoch in memory['epochs'])} items read in epochs 1 to 3.")
    return f"{n} items, {result['set']['nbytes'] / 1e6:.0f} MB\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mib", type=int, default=192)
    parser.add_argument("--rates", type=lambda text: [float(rate) for rate in text.split(",")], default=[15.0, 530.0])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--latencies", type=lambda text: [float(ms) for ms in text.split(",")], default=[0.0, 0.1, 0.5, 2.0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--spare", type=float, default=25, help="per cent; the set is small, and a slab page is 1 MiB")
    parser.add_argument("--link", type=int, default=10_000, help="Mbit/s of each host")
    parser.add_argument("--memory-mib", type=int, default=3072)
    parser.add_argument("--skip-memory", action="store_true")
    args = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "memcached"))):
        raise SystemExit("fleet.py needs root, iproute2 and memcached")
    folder = Path(tempfile.mkdtemp(prefix="pst-fleet-"))
    try:
        with Network(args.link) as network:
            wanted = make_set(folder / "set.pst", args.mib * MIB)
            cells = measure(network, args, folder / "set.pst", wanted)
            local = local_cost(folder / "set.pst", wanted, folder)
            memory = None if args.skip_memory else check_memory(network, args, folder)
            result = {"set": wanted, "hosts": HOSTS, "link_mbit": args.link if network.shaped else None, "spare": args.spare,
                      "cells": cells, "local": local, "memory": memory, "machine": runner.machine()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    runner.write(args.out / f"fleet-{result['machine']['date']}", result, table(result))


if __name__ == "__main__":
    main()
