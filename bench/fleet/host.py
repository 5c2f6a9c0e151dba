"""host.py: one host of the fleet's bench: two loaders in threads of one process. Started by fleet.py.

Reads one JSON line of settings from stdin, then `epoch N` for each epoch, and answers each with a JSON line: seconds, items and
bytes read from storage, and the sum of the CRC-32s of all bytes that were delivered.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib

import penstock as ps


class Rank:
    """One loader and its thread, which runs one epoch at a time."""

    def __init__(self, settings: dict, rank: int, cache: ps.Cache | None, fleet: ps.Fleet | None) -> None:
        rate = settings["rate"] * 1e6 / 2  # the two loaders of a host share its disk, so each gets half the rate
        self.loader = ps.Loader(settings["data"], batch_size=8, shuffle=True, seed=1, rank=rank, world_size=settings["world"],
                                num_workers=1, output="numpy", fields=["blob", "label"], cache=cache, fleet=fleet,
                                reading=ps.Reading(throttle=(rate, 0.0) if rate else None), pad_epoch=False, host_memory="1GiB")
        self.crcs = 0
        self.items = 0

    def run(self) -> None:
        self.crcs = self.items = 0
        for batch in self.loader:
            for blob in batch["blob"]:
                self.crcs += zlib.crc32(blob)
                self.items += 1

    def counts(self) -> tuple[int, int]:
        storage = self.loader.stats()["storage"]
        return storage["reads"], storage["nbytes_read"]


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    cache = ps.Cache(settings["cache"]) if settings["cache"] else None
    fleet = ps.Fleet(settings["fleet"], timeout=settings["timeout"]) if settings["fleet"] else None
    ranks = [Rank(settings, rank, cache, fleet) for rank in settings["ranks"]]
    if fleet is not None:
        end = time.monotonic() + 10
        while fleet.stats()["servers_up"] < settings["servers"] and time.monotonic() < end:
            time.sleep(0.01)
    print("ready", flush=True)
    for _ in sys.stdin:
        before = [rank.counts() for rank in ranks]
        start = time.monotonic()
        threads = [threading.Thread(target=rank.run) for rank in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - start
        after = [rank.counts() for rank in ranks]
        tiers = [rank.loader.stats()["tiers"] for rank in ranks]
        print(json.dumps({
            "seconds": seconds,
            "reads": sum(b[0] - a[0] for a, b in zip(before, after, strict=True)),
            "nbytes": sum(b[1] - a[1] for a, b in zip(before, after, strict=True)),
            "items": sum(rank.items for rank in ranks),
            "crcs": sum(rank.crcs for rank in ranks),
            "fallbacks": [rank.loader.stats()["fallbacks"] for rank in ranks],
            "tiers": tiers[0],
            "fleet": fleet.stats() if fleet else None,
        }), flush=True)


if __name__ == "__main__":
    main()
