"""Two copies of a data set that were changed differently: no cache, service, fleet, group or state takes one for the other.

PENSTOCK_TEST_PAIRS pairs are made at random, 5 if it is not set; `make check-long` takes 200.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from conftest import PROGRAM, encoded, memcached, picture
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError

PAIRS = int(os.environ.get("PENSTOCK_TEST_PAIRS") or 5)
N = 6


def loader_of(path: Path, **options) -> ps.Loader:
    given = {"batch_size": 4, "transforms": [T.Resize((16, 20))], "output": "numpy", "num_workers": 1, "cache": None, "fleet": None,
             "shuffle": True, **options}  # fmt: skip
    return ps.Loader(path, **keywords(**given))


def pixels(loader: ps.Loader, epochs: int = 1) -> bytes:
    """Returns the pixels of the last of these epochs, sorted in the data set's order."""
    found: dict[int, bytes] = {}
    for _ in range(epochs):
        for batch in loader:
            found.update((int(i), image.tobytes()) for i, image in zip(batch["index"], batch["image"], strict=True))
    return b"".join(found[i] for i in sorted(found))


def write(folder: Path, numbers: range, start: int, form: str) -> Path:
    for i in numbers:
        path = folder / "ab"[i % 2] / f"{i:03d}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(start + i, 24, 32), form))
    return folder


def repack(path: Path, *options: str) -> None:
    subprocess.run([PROGRAM, "repack", path, *options, "--quiet"], check=True)


def go_a_way(dice: random.Random, path: Path, base: Path, form: str) -> None:
    """Changes a copy: appends samples, changes their forms in place, or restores the backup and continues from there."""
    forms = "original"
    for number in range(dice.randint(1, 2)):
        kind = dice.choice(("append", "lossless", "near-lossless", "restored"))
        if kind == "restored":
            shutil.rmtree(path)
            shutil.copytree(base, path)
            forms = "original"
        if kind in ("append", "restored"):
            first = len(ps.Dataset(path))
            more = path.parent / f"{path.name}-more-{number}"
            write(more, range(first, first + dice.randint(1, 2)), dice.randrange(1000), form)
            ps.pack(more, path, append=True, forms=forms.split(","), of_lossy="pli" in forms)
            continue
        forms = dice.choice(("pli", "raw", "raw,pli")) if kind == "lossless" else "pli"
        error = ("--max-error", dice.choice("246")) if kind == "near-lossless" else ()
        repack(path, "--form", forms, *(("--of-lossy", *error) if "pli" in forms else ()))


def make_pair(root: Path, seed: int) -> tuple[Path, Path]:
    dice = random.Random(seed)
    form = dice.choice(("png", "png", "jpeg"))
    base = root / "base.pst"
    ps.pack(write(root / "files", range(N), seed, form), base, forms=["original"], shard_size=dice.choice(("2KiB", "1GiB")))
    copies = root / "one.pst", root / "two.pst"
    for path in copies:
        shutil.copytree(base, path)
        go_a_way(dice, path, base, form)
    return copies


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ps.Fleet | None]:
    if not shutil.which("memcached"):
        yield None
        return
    path = tmp_path_factory.mktemp("fleet") / "a.sock"
    with memcached(path):
        yield ps.Fleet([str(path)], timeout=30)


def with_cache(**options) -> Callable[[Path, Path, Path], bytes]:
    def run(root: Path, first: Path, second: Path) -> bytes:
        cache = ps.Cache("8MiB")
        with loader_of(first, cache=cache, **options) as loader:
            pixels(loader)
        with loader_of(second, cache=cache, **options) as loader:
            return pixels(loader, 2)

    return run


def with_file(root: Path, first: Path, second: Path) -> bytes:
    cache, again = ps.Cache("8MiB"), ps.Cache("8MiB")
    with loader_of(first, cache=cache, cache_form="raw") as loader:
        pixels(loader)
    cache.save(root / "saved.cache")
    again.load(root / "saved.cache")
    with loader_of(second, cache=again, cache_form="raw") as loader:
        return pixels(loader, 2)


@pytest.mark.parametrize("seed", range(PAIRS))
def test_neither_is_taken_for_the_other(tmp_path: Path, seed: int, service: Path, fleet: ps.Fleet | None, monkeypatch) -> None:
    monkeypatch.setenv("PENSTOCK_SOCKET", str(service))
    one, two = make_pair(tmp_path, seed)
    truth = {}
    for path in (one, two):
        with loader_of(path) as loader:
            truth[path] = pixels(loader)
    same = ps.Dataset(one).bytes_identity == ps.Dataset(two).bytes_identity
    assert not same or truth[one] == truth[two]
    host = ps.Cache.host(start=False)

    def through(**options) -> Callable[[Path, Path, Path], bytes]:
        def run(root: Path, first: Path, second: Path) -> bytes:
            with loader_of(first, **options) as loader:
                pixels(loader)
            with loader_of(second, **options) as loader:
                return pixels(loader, 2)

        return run

    ways = {
        "stored": with_cache(), "unverified": with_cache(verify=False), "raw": with_cache(cache_form="raw"),
        "pli": with_cache(cache_form="pli"), "pli-fast": with_cache(cache_form="pli-fast"),
        "pli-jpeg": with_cache(cache_form="pli-jpeg"), "training": with_cache(cache_resolution="training"), "saved": with_file,
        "host": through(cache=host), "host raw": through(cache=host, cache_form="raw"), "share": through(share=f"group-{seed}"),
    }  # fmt: skip
    if fleet is not None:
        ways.update({"fleet": through(fleet=fleet), "fleet pli": through(fleet=fleet, cache_form="pli")})
    for name, run in ways.items():
        for first, second in ((one, two), (two, one)):
            assert run(tmp_path, first, second) == truth[second], name
    check_states(one, two)


def check_states(one: Path, two: Path) -> None:
    """A state is accepted by the other copy if number, names and labels agree, and also the lengths of the files if both are
    known.
    """
    with loader_of(one, shuffle=True) as loader, loader_of(two, shuffle=True) as other:
        batches = iter(loader)
        next(batches)
        a, b = loader.state_dict(), other.state_dict()
        known = "files" in a and "files" in b
        if a["identity"] == b["identity"] and not (known and a["files"] != b["files"]):
            other.load_state_dict(a, strict=True)
            rest = [i for batch in batches for i in batch["index"].tolist()]
            assert [i for batch in other for i in batch["index"].tolist()] == rest
        else:
            with pytest.raises(ArgumentError, match="another data set"):
                other.load_state_dict(a)
