"""service.py KIND ROOT N_JOBS THREADS FOLDER: the process that prepares for all jobs of a cell, until standard input ends.

Prints "ready" once, and at the end one JSON line with the kind's counters.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import kinds

_ended = threading.Event()


def ended() -> bool:
    return _ended.is_set()


def watch(kind) -> None:
    """Waits for the end of standard input, then ends the process, even if the producer is stuck. It does not use sys.stdin: the
    thread would hold its lock while a DataLoader forks workers, which close sys.stdin."""
    while os.read(0, 4096):
        pass
    _ended.set()
    print(json.dumps(kind.counters()), flush=True)
    os._exit(0)


def main() -> None:
    name, root, n_jobs, threads, folder = sys.argv[1:]
    sys.modules["service"] = sys.modules["__main__"]
    kind = kinds.load(name)
    threading.Thread(target=watch, args=(kind,), daemon=True).start()
    kind.serve(kinds.setting_of(Path(root), int(n_jobs), -1, int(threads), Path(folder)), lambda: print("ready", flush=True))
    threading.Event().wait()  # waits for ever: watch() ends the process


if __name__ == "__main__":
    main()
