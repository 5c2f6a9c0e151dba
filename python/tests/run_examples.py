"""Runs programs one after another in this process, each as `python PROGRAM ARGUMENT ...` would. Modules stay imported from one
program to the next, because torch and Lightning take seconds to import.

    python run_examples.py JSON

JSON is a list of lists [PROGRAM, ARGUMENT, ...]. Prints a list of {"code", "out", "errors"}, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def written_to(descriptor: int, stream: IO[str]) -> Iterator[IO[str]]:
    """Directs a stream of this process, including output that bypasses Python, to a file that the caller reads afterwards."""
    stream.flush()
    before = os.dup(descriptor)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield file
        finally:
            stream.flush()
            os.dup2(before, descriptor)
            os.close(before)


def status_of(program: str) -> int:
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)  # the interpreter's exit status for sys.exit("words")
        return 1
    return 0


def run(program: str, *arguments: str) -> dict[str, object]:
    sys.argv = [program, *arguments]
    with written_to(1, sys.stdout) as out, written_to(2, sys.stderr) as errors:
        code = status_of(program)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read())
    return {"code": code, "out": texts[0], "errors": texts[1]}


if __name__ == "__main__":
    print(json.dumps([run(*command) for command in json.loads(sys.argv[1])]))
