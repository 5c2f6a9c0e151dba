"""Mixtures with the host service: items of each source are kept under the source's own identity, and jobs share preparation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock as ps
from conftest import PROGRAM, encoded, host_service, picture
from mixed_kinds import N, batches, loader_of, make_sources
from penstock import transforms as T
from penstock.errors import StateError


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    return make_sources(tmp_path)


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "s.sock"))
    return tmp_path / "s.sock"


def status(socket: Path) -> dict:
    shown = subprocess.run([PROGRAM, "serve", "status", "--socket", socket, "--json"], capture_output=True, check=True)
    return json.loads(shown.stdout)


def mixture_of(paths: dict[str, Path], *names: str, **options: object) -> ps.Mixture:
    return ps.Mixture({name: paths[name] for name in names}, fields=["image"], **options)


def test_items_belong_to_the_sources(paths: dict[str, Path], socket: Path) -> None:
    """Items that one mixture has read are found by other mixtures and by loaders of single sources."""
    first, second = mixture_of(paths, "packed", "folder"), mixture_of(paths, "tar", "folder", "packed")
    with loader_of(first) as one, loader_of(second) as other, loader_of(paths["folder"], fields=["image"]) as alone:
        wanted = batches(one) + batches(one), batches(other), batches(alone)
    with host_service(socket), loader_of(first, cache="host") as one:
        assert batches(one) + batches(one) == wanted[0]
        use = one.stats()
        assert (use["cache"]["fetched"], use["cache"]["hits"], use["storage"]["reads"]) == (21, 21, 0)
        assert sorted(entry["items"] for entry in status(socket)["sets"]) == [9, 12]
        with loader_of(second, cache="host") as other, loader_of(paths["folder"], fields=["image"], cache="host") as alone:
            assert (batches(other), batches(alone)) == wanted[1:]
            assert (other.stats()["cache"]["fetched"], other.stats()["cache"]["hits"]) == (7, 21)
            assert (alone.stats()["cache"]["fetched"], alone.stats()["cache"]["hits"]) == (0, 9)
        assert (status(socket)["reads"], sorted(entry["items"] for entry in status(socket)["sets"])) == (28, [7, 9, 12])


def test_auto_takes_the_service(paths: dict[str, Path], socket: Path) -> None:
    with host_service(socket), loader_of(mixture_of(paths, "packed", "tar"), cache="auto") as loader:
        assert len(batches(loader)) == 5 and loader.stats()["cache"]["choice"] == "the host cache: a host service runs"
        assert loader.stats()["cache"]["fetched"] == 19


@pytest.mark.parametrize("form", ["stored", "pli", "raw", "training"])
def test_forms_are_those_of_the_sources(paths: dict[str, Path], socket: Path, form: str) -> None:
    """Keys contain the fields' numbers in the source: a renamed or dropped field must not lead to another item."""
    with ps.Writer(paths["packed"].with_name("other.pst"), {"note": ps.Text(), "photo": ps.Image()}) as writer:
        for i in range(8):
            writer.write({"note": f"n{i}", "photo": encoded(picture(i + 50, 40, 40), "png")})
    paths["other"] = paths["packed"].with_name("other.pst")
    mixture = mixture_of(paths, "folder", "other", rename={"other": {"photo": "image"}})
    options = {"transforms": {"image": [T.Resize(20), T.CenterCrop(16)]}}
    kept = {"cache_form": "raw", "cache_resolution": "training"} if form == "training" else {"cache_form": form}
    with loader_of(mixture, **options) as plain:
        wanted = batches(plain) + batches(plain)
    alone = {"transforms": {"photo": [T.Resize(20), T.CenterCrop(16)]}, "fields": ["photo"], **kept}
    with host_service(socket):
        with loader_of(mixture, cache="host", **options, **kept) as hosted:
            assert batches(hosted) + batches(hosted) == wanted
            assert (hosted.stats()["cache"]["fetched"], hosted.stats()["cache"]["hits"]) == (17, 17)
        with loader_of(paths["other"], cache="host", **alone) as source:
            for _ in source:
                pass
            assert (source.stats()["cache"]["fetched"], source.stats()["cache"]["hits"]) == (0, 8)
    cache = ps.Cache("8MiB")  # a cache of this process
    with loader_of(mixture, cache=cache, **options, **kept) as own, loader_of(paths["other"], cache=cache, **alone) as source:
        assert batches(own) + batches(own) == wanted and own.stats()["cache"]["hits"] == 17
        assert own.stats()["cache"]["items"] == 17
        for _ in source:
            pass
        assert source.stats()["cache"]["hits"] == 8 and cache.stats()["items"] == 17


def test_items_are_recoded_later(paths: dict[str, Path], socket: Path) -> None:
    """The service re-codes the items of each source later; idle workers do it for a cache of this process."""
    mixture = mixture_of(paths, *N)
    later = {"cache_form": "pli", "cache_recode": "idle", "num_workers": 2}
    with loader_of(mixture) as plain:
        wanted = [batches(plain) for _ in range(3)]
    with host_service(socket), loader_of(mixture, cache="host", **later) as hosted:
        assert [batches(hosted), batches(hosted)] == wanted[:2]
        deadline = time.monotonic() + 60
        while hosted.stats()["cache"]["to_recode"] > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert batches(hosted) == wanted[2]
        sets = status(socket)["sets"]
        assert [entry["to_recode"] for entry in sets] == [0, 0, 0]
        assert all(entry["recoded"] > 0 for entry in sets)
        assert hosted.stats()["cache"]["fetched"] == sum(N.values())
    with loader_of(mixture, cache="8MiB", **later) as own:
        assert [batches(own), batches(own)] == wanted[:2]
        while own.stats()["cache"]["to_recode"] > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert batches(own) == wanted[2]
        assert own.stats()["cache"]["items"] == sum(N.values()) and own.stats()["cache"]["recoded"] > 0


def test_one_data_set_twice(paths: dict[str, Path], socket: Path) -> None:
    twice = ps.Mixture([paths["tar"], mixture_of(paths, "tar", "packed")], fields=["image"])
    with loader_of(twice) as plain:
        wanted = batches(plain)
    with host_service(socket), loader_of(twice, cache="host") as hosted:
        assert batches(hosted) == wanted
        assert status(socket)["reads"] == 19 and len(status(socket)["sets"]) == 2


def test_cached_images(paths: dict[str, Path], socket: Path) -> None:
    """CachedImages keep the mixture as a whole. Files of a folder are read by path, those of tars and shards by offset."""
    mixture = mixture_of(paths, *N)
    wanted = [sample["image"].tobytes() for sample in mixture]
    with host_service(socket):
        for _ in range(2):
            images = ps.CachedImages(mixture)
            assert [images[i].tobytes() for i in range(len(mixture))] == wanted
        assert status(socket)["reads"] == sum(N.values()) == len(mixture)


def test_the_service_is_killed(paths: dict[str, Path], socket: Path) -> None:
    """The service is killed in the middle of an epoch with weights. The state resumes on other ranks with another service."""
    mixture = mixture_of(paths, *N, weights={"packed": 2, "folder": 1, "tar": 1}, quota=4)
    with loader_of(mixture) as plain:
        wanted = [batches(plain) for _ in range(2)]
    with host_service(socket), loader_of(mixture, cache="host", prefetch=1) as loader:
        got = []
        for batch in loader:
            got.append((batch["index"].tolist(), batch["image"].tobytes()))
            if len(got) == 3:
                state = loader.state_dict()
                os.kill(status(socket)["pid"], signal.SIGKILL)
        assert got == wanted[0]
        assert loader.stats()["fallbacks"]["host"] > 0
        got = batches(loader)
        assert got == wanted[1]
    socket.unlink(missing_ok=True)
    with host_service(socket):
        halves = [loader_of(mixture, cache="host", rank=rank, world_size=2, batch_size=2) for rank in range(2)]
        for loader in halves:
            loader.load_state_dict(state)
        rest = [i for both in zip(*map(batches, halves), strict=True) for part in both for i in part[0]]
        assert rest == [i for part in wanted[0][3:] for i in part[0]]
        for loader in halves:
            assert loader.stats()["fallbacks"].get("host", 0) == 0
            loader.close()


def test_a_source_that_changed(paths: dict[str, Path], socket: Path) -> None:
    mixture = mixture_of(paths, "packed", "folder")
    (paths["folder"] / "a" / "new.png").write_bytes(encoded(picture(99, 24, 24), "png"))
    with host_service(socket), pytest.raises(StateError, match="has changed since"):
        loader_of(mixture, cache="host")


CHILD = """
import sys
import penstock as ps
mixture = ps.Mixture(sys.argv[1:], fields=["image"])
with ps.Loader(mixture, batch_size=4, cache="host", output="numpy") as loader:
    for _ in loader:
        break
    print("began", flush=True)
    sys.stdin.read()
"""


def test_a_client_is_killed(paths: dict[str, Path], socket: Path) -> None:
    """A killed client's sets are all given back, and another client goes on."""
    with host_service(socket), loader_of(mixture_of(paths, "packed", "tar"), cache="host") as loader:
        child = subprocess.Popen([sys.executable, "-c", CHILD, *(str(paths[name]) for name in N)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "began\n"
        assert sum(entry["loaders"] for entry in status(socket)["sets"]) == 5
        child.kill()
        child.communicate()
        assert len(batches(loader)) == 5
        while sum(entry["loaders"] for entry in status(socket)["sets"]) > 2:
            pass
        assert [entry["loaders"] for entry in status(socket)["sets"] if entry["loaders"]] == [1, 1]
