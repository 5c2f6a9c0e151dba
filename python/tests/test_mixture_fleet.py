"""Mixtures with a fleet of memcached servers: items of each source are stored under the source's own identity."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from conftest import PROGRAM, encoded, memcached, picture
from mixed_kinds import CHAIN, N, batches, loader_of, make_sources
from penstock.errors import StateError

pytestmark = pytest.mark.skipif(not shutil.which("memcached"), reason="memcached is not installed")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The data sets, a tar with checksums in its index, and a copy of it without checksums."""
    place = tmp_path_factory.mktemp("sources")
    found = make_sources(place)
    shutil.copy(place / "x.tar", place / "unsummed.tar")
    subprocess.run([PROGRAM, "index", place / "x.tar", "--sums"], check=True, capture_output=True)
    return {**found, "unsummed": place / "unsummed.tar"}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[str]]:
    names = [tmp_path / name for name in ("a.sock", "b.sock")]
    with memcached(names[0]), memcached(names[1]):
        yield [str(name) for name in names]


def reads_of(loader: ps.Loader) -> tuple[list[tuple[list[int], bytes]], int]:
    """Returns the batches of an epoch, and the number of storage reads for them."""
    before = loader.stats()["storage"]["reads"]
    return batches(loader), loader.stats()["storage"]["reads"] - before


def mixture_of(paths: dict[str, Path], *names: str, **options: object) -> ps.Mixture:
    return ps.Mixture({name: paths[name] for name in names}, fields=["image"], **options)


def test_items_belong_to_the_sources(paths: dict[str, Path], servers: list[str]) -> None:
    """Items that one mixture has stored are found by other mixtures and by loaders of single sources."""
    first, second = mixture_of(paths, "packed", "folder"), mixture_of(paths, "tar", "folder", "packed")
    with loader_of(first) as one, loader_of(second) as other, loader_of(paths["folder"], fields=["image"]) as alone:
        wanted = [batches(one), batches(one), batches(other), batches(alone)]
    fleet = ps.Fleet(servers, timeout=30)
    with loader_of(first, fleet=fleet) as one:
        assert reads_of(one) == (wanted[0], 21)
        assert reads_of(one) == (wanted[1], 0)
    with loader_of(second, fleet=fleet) as other, loader_of(paths["folder"], fields=["image"], fleet=fleet) as alone:
        assert reads_of(other) == (wanted[2], 7)
        assert reads_of(alone) == (wanted[3], 0)
    use = fleet.stats()
    assert (use["added"], use["present"], use["bad_values"]) == (28, 0, 0)


def test_a_thread_may_fill_the_fleet_source_by_source(paths: dict[str, Path], servers: list[str]) -> None:
    """As in docs/fleet.md, a thread fills the fleet while a job starts. The mixture then reads nothing from storage."""
    fleet = ps.Fleet(servers, timeout=30)
    for name in N:
        with loader_of(paths[name], fields=["image"], encoded=["image"], transforms=None, fleet=fleet) as filling:
            for _ in filling:
                pass
    weighted = mixture_of(paths, *N, weights={"packed": 2, "folder": 1, "tar": 1}, quota=4)
    with loader_of(weighted) as plain, loader_of(weighted, fleet=fleet) as loader:
        assert reads_of(loader) == (batches(plain), 0)


@pytest.mark.parametrize("form", ["stored", "pli"])
def test_forms_are_those_of_the_sources(paths: dict[str, Path], servers: list[str], tmp_path: Path, form: str) -> None:
    """Keys contain the fields' numbers in the source: a renamed or dropped field must not lead to another item."""
    with ps.Writer(tmp_path / "other.pst", {"note": ps.Text(), "photo": ps.Image()}) as writer:
        for i in range(8):
            writer.write({"note": f"n{i}", "photo": encoded(picture(i + 50, 40, 40), "png")})
    mixture = mixture_of({**paths, "other": tmp_path / "other.pst"}, "folder", "other", rename={"other": {"photo": "image"}})
    fleet = ps.Fleet(servers, timeout=30)
    with loader_of(mixture) as plain, loader_of(mixture, cache_form=form, fleet=fleet) as loader:
        assert reads_of(loader) == (batches(plain), 17)
        assert reads_of(loader) == (batches(plain), 0)
    alone = {"transforms": {"photo": CHAIN["image"]}, "fields": ["photo"]}
    with loader_of(tmp_path / "other.pst", fleet=fleet, cache_form=form, **alone) as source:
        for _ in source:
            pass
        assert source.stats()["storage"]["reads"] == 0
    if form != "stored":  # a loader of stored bytes never gets items in other forms
        with loader_of(tmp_path / "other.pst", fleet=fleet, **alone) as source:
            for _ in source:
                pass
            assert source.stats()["storage"]["reads"] == 8


def test_one_data_set_twice(paths: dict[str, Path], servers: list[str]) -> None:
    twice = ps.Mixture([paths["tar"], mixture_of(paths, "tar", "packed")], fields=["image"])
    with loader_of(twice) as plain, loader_of(twice, fleet=servers) as loader:
        got, reads = reads_of(loader)
        assert got == batches(plain) and 19 <= reads <= 26  # the second read of an item may come before the first has arrived
        assert reads_of(loader) == (batches(plain), 0)


def test_sums_are_wanted_of_each_source(paths: dict[str, Path], servers: list[str]) -> None:
    with pytest.raises(StateError, match=r"the index of \S*unsummed\.tar has no checksums.*penstock index PATH --sums"):
        loader_of(mixture_of(paths, "packed", "unsummed", "tar"), fleet=servers)
    with pytest.raises(StateError, match=r"the index of \S*unsummed\.tar has no checksums"):
        loader_of(paths["unsummed"], fleet=servers)


def test_more_data_sets_than_a_cache_has_sets(paths: dict[str, Path], servers: list[str], tmp_path: Path) -> None:
    """Without a cache a fleet can have any number of data sets. With a cache, a mixture of more than 64 counts as one set for
    both.
    """
    for i in range(66):
        with ps.Writer(tmp_path / f"{i}.pst", {"image": ps.Image()}) as writer:
            writer.write({"image": encoded(picture(i, 8, 8), "png")})
    many = ps.Mixture([tmp_path / f"{i}.pst" for i in range(66)])
    fleet = ps.Fleet(servers, timeout=30)
    with loader_of(many) as plain, loader_of(many, fleet=fleet) as loader:
        assert reads_of(loader) == (batches(plain), 66)
    with loader_of(tmp_path / "65.pst", batch_size=1, fleet=fleet) as alone:
        assert reads_of(alone)[1] == 0
    with loader_of(many) as plain, loader_of(many, fleet=fleet, cache="8MiB") as loader:
        assert reads_of(loader) == (batches(plain), 66)
        assert reads_of(loader) == (batches(plain), 0)


def test_a_server_is_killed(paths: dict[str, Path], tmp_path: Path) -> None:
    """A server is killed in the middle of an epoch. Its items are read again or are in a cache; the state resumes with other
    ranks.
    """
    mixture = mixture_of(paths, *N)
    with loader_of(mixture) as plain:
        wanted = [batches(plain) for _ in range(3)]
    path = tmp_path / "a.sock"
    with memcached(path) as process, memcached(tmp_path / "b.sock"):
        fleet = ps.Fleet([str(path), str(tmp_path / "b.sock")], timeout=5)
        with loader_of(mixture, fleet=fleet, cache="8MiB") as loader:
            assert batches(loader) == wanted[0]
            got = []
            for batch in loader:
                got.append((batch["index"].tolist(), batch["image"].tobytes()))
                if len(got) == 3:
                    state = loader.state_dict()
                    process.send_signal(signal.SIGKILL)
                    process.wait()
            assert got == wanted[1]
            assert batches(loader) == wanted[2]
        halves = [loader_of(mixture, fleet=fleet, rank=rank, world_size=2, batch_size=2) for rank in range(2)]
        for loader in halves:
            loader.load_state_dict(state)
        rest = [i for both in zip(*map(batches, halves), strict=True) for part in both for i in part[0]]
        assert rest == [i for part in wanted[1][3:] for i in part[0]]
        for loader in halves:
            loader.close()
