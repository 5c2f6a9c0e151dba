"""The first things that a new user does with the package. Prints the results as one line of JSON. scripts/stranger.py runs it.

    stranger_job.py PHOTOGRAPHS OUT [--command PENSTOCK] [--beside MODULE] [--after] [--fork-server] [--analyze]

It packs photographs, verifies the set, and loads two epochs of it and of the plain folder. The digests of the results are compared
with those of another build. --beside imports a module first, or, with --after, between opening and loading. --analyze runs
penstock.demo, too.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import json
import multiprocessing
import subprocess
import sys
import tempfile
from pathlib import Path

import penstock as ps
from penstock import transforms as T


def digest_of(path: str, output: str = "numpy") -> str:
    """Loads two epochs of crops. Returns the digest of all batches, in order."""
    total = hashlib.sha256()
    loader = ps.Loader(ps.Dataset(path), batch_size=4, shuffle=True, seed=3, num_workers=2, output=output, transforms=[
        T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)])
    for _ in range(2):
        for batch in loader:
            for name in ("index", "image"):
                array = batch[name]
                total.update((array.numpy() if output == "torch" else array).tobytes())
    return total.hexdigest()


def stored_digest(path: str) -> str:
    """Returns the digest of the images that pack stored."""
    dataset = ps.Dataset(path)
    total = hashlib.sha256()
    for number in range(len(dataset)):
        total.update(dataset.read(number, "image"))
    return total.hexdigest()


def send_digest(path: str, pipe) -> None:
    pipe.send(digest_of(path))
    pipe.close()


def digest_in_fork_server(path: str) -> str:
    """Returns the same digest as digest_of, from a child of a fork server that has loaded the package and frozen its objects."""
    gc.freeze()
    multiprocessing.set_forkserver_preload(["penstock"])
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=send_digest, args=(path, there))
    child.start()
    there.close()
    found = here.recv()
    child.join()
    if child.exitcode != 0:
        sys.exit(f"the child of the fork server ended with {child.exitcode}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("photographs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--command")
    parser.add_argument("--beside")
    parser.add_argument("--after", action="store_true")
    parser.add_argument("--fork-server", action="store_true")
    parser.add_argument("--analyze", action="store_true")
    arguments = parser.parse_args()
    out = arguments.out / "photographs.pst"
    if arguments.beside and not arguments.after:
        importlib.import_module(arguments.beside)
    if arguments.command:
        subprocess.run([arguments.command, "--quiet", "pack", str(arguments.photographs), str(out)], check=True)
        subprocess.run([arguments.command, "--quiet", "verify", str(out), "--decode", "--restore"], check=True)
    else:
        ps.pack(str(arguments.photographs), str(out))
        if ps.verify(str(out), decode=True).n_bad:
            sys.exit("verify found bad samples")
    if arguments.beside and arguments.after:
        importlib.import_module(arguments.beside)
    found = {"version": ps.__version__, "stored": stored_digest(str(out)),
             "packed": digest_in_fork_server(str(out)) if arguments.fork_server else digest_of(str(out)),
             "folder": digest_of(str(arguments.photographs))}
    if arguments.beside == "torch":
        found["packed"] = digest_of(str(out), "torch")
    if arguments.analyze:
        report = subprocess.run([arguments.command, "analyze", str(arguments.photographs), "--rate", "1000", "--budget", "4s",
                                 "--json", "--quiet"], check=True, capture_output=True, text=True).stdout
        found["analyzed"] = sorted(json.loads(report))[:3]
        demo = subprocess.run([sys.executable, "-m", "penstock.demo", "--per-class", "8", "--epochs", "1", "--budget", "2"],
                              check=True, capture_output=True, text=True).stdout
        if demo.splitlines()[-1] != "Nothing is left behind." or list(Path(tempfile.gettempdir()).glob("penstock-demo-*")):
            sys.exit(f"the demo left something behind, or did not end: {demo}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
