"""reader.py KIND FOLDER EPOCHS CACHE_BYTES THREADS: reads every file of FOLDER once per epoch, in batches, without decoding.

KIND: penstock-cache, penstock (no cache of its own), dali-shuffled, dali-sequential. Prints one JSON line per epoch: seconds,
files, bytes, the sum of the files' CRC-32s (it does not depend on their order), bytes that the process read from the disk
(/proc/self/io), and for penstock-cache the loader's own counters. CRCs are computed in the first epoch only.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

BATCH = 64


def disk_nbytes() -> int:
    return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


def penstock(folder: str, cache: int, threads: int) -> Iterator[tuple[list[bytes], dict]]:
    import penstock as ps

    loader = ps.Loader(folder, BATCH, shuffle=True, seed=7, fields=["image"], encoded=["image"], num_workers=threads,
                       reading=ps.Reading(page_cache="drop" if cache else "keep"), cache=cache or None, output="numpy")
    while True:
        before = loader.stats()
        for batch in loader:
            yield batch["image"], {}
        after = loader.stats()
        yield [], {"nbytes_read": after["storage"]["nbytes_read"] - before["storage"]["nbytes_read"],
                   **{name: after["cache"][name] - before["cache"][name] for name in ("hits", "misses", "nbytes_hit")},
               **{name: after["cache"][name] for name in ("items", "used", "limit")}}


def dali(folder: str, shuffled: bool, threads: int) -> Iterator[tuple[list[bytes], dict]]:
    import numpy as np
    from nvidia.dali import fn, pipeline_def

    files = sorted(str(path) for path in Path(folder).glob("*/*"))

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=7)
    def pipeline():
        return fn.readers.file(files=files, shuffle_after_epoch=shuffled, read_ahead=True, pad_last_batch=True,
                               name="reader")[0]

    pipe = pipeline()
    pipe.build()
    while True:
        left = len(files)
        while left > 0:
            (encoded,) = pipe.run()
            n = min(left, BATCH)
            yield [np.array(encoded.at(i)).tobytes() for i in range(n)], {}
            left -= n
        yield [], {}


def main() -> None:
    kind, folder, epochs, cache, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    batches = dali(folder, kind == "dali-shuffled", threads) if kind.startswith("dali") else penstock(folder, cache, threads)
    for epoch in range(epochs):
        start, disk, files, nbytes, crcs, counters = time.perf_counter(), disk_nbytes(), 0, 0, 0, {}
        for items, counters in batches:  # noqa: B007  (the last ones are printed)
            if not items:
                break
            files += len(items)
            nbytes += sum(len(item) for item in items)
            if epoch == 0:
                crcs += sum(zlib.crc32(item) for item in items)
        print(json.dumps({"epoch": epoch, "seconds": time.perf_counter() - start, "files": files, "nbytes": nbytes,
                          "crcs": crcs, "disk_nbytes": disk_nbytes() - disk, **counters}), flush=True)


if __name__ == "__main__":
    main()
