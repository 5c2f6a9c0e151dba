"""Loaders with a fleet of memcached servers: equal batches, each item read once, pickles, and refused arguments."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import memcached
from flat import keywords

pytestmark = pytest.mark.skipif(not shutil.which("memcached"), reason="memcached is not installed")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[str]]:
    paths = [tmp_path / name for name in ("a.sock", "b.sock")]
    with memcached(paths[0]), memcached(paths[1]):
        yield [str(path) for path in paths]


def make(source, **options) -> ps.Loader:
    from penstock import transforms as T

    return ps.Loader(source, **keywords(batch_size=4, shuffle=True, seed=3, num_workers=2, output="numpy",
                     transforms=[T.RandomResizedCrop(32)], **options))


def check_epoch(want: ps.Loader, got: ps.Loader) -> None:
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a["image"], b["image"])


@pytest.mark.parametrize("kind", ["folder", "packed"])
def test_each_item_is_read_once(kind, request, servers):
    source = ps.Dataset(request.getfixturevalue(kind))
    fleet = ps.Fleet(servers, timeout=30)
    with make(source) as plain, make(source, fleet=fleet) as loader:
        for _ in range(3):
            check_epoch(plain, loader)
        stats = loader.stats()
        assert stats["storage"]["reads"] == len(source)
        tiers = stats["tiers"]
        assert list(tiers) == ["memory", "host", "fleet", "storage"]
        assert tiers["fleet"]["hits"] == 2 * len(source)
        assert tiers["fleet"]["bytes_per_second"] > 0
        assert 0 < tiers["fleet"]["mean_seconds"] <= 1.2 * tiers["fleet"]["p99_seconds"] * len(source)
        assert tiers["storage"]["nbytes"] == stats["storage"]["nbytes_read"]
        assert tiers["memory"]["hits"] == 0
    use = fleet.stats()
    assert (use["added"], use["hits"], use["servers_up"]) == (len(source), 2 * len(source), 2)
    assert sum(server["hits"] for server in fleet.servers()) == use["hits"]
    assert all(server["up"] and server["local"] and not server["error"] for server in fleet.servers())
    with make(source, fleet=servers) as again:  # another loader, which gets the servers as a list
        list(again)
        assert again.stats()["storage"]["reads"] == 0


def test_variable_and_file(folder, servers, tmp_path, monkeypatch):
    source = ps.Dataset(folder)
    with make(source) as loader:
        list(loader)
        assert loader.stats()["storage"]["reads"] == len(source)
    (tmp_path / "servers").write_text("# two\n" + "\n".join(servers))
    monkeypatch.setenv("PENSTOCK_FLEET", f"@{tmp_path}/servers")
    for reads in (len(source), 0):
        with make(source) as loader:
            list(loader)
            assert loader.stats()["storage"]["reads"] == reads
    with make(source, fleet=None) as loader, make(source, storage="memory") as resident:
        list(loader)
        list(resident)
        assert loader.stats()["tiers"]["fleet"]["hits"] == resident.stats()["tiers"]["fleet"]["hits"] == 0


def test_cache_form(folder, servers):
    source = ps.Dataset(folder)
    with make(source) as plain, make(source, fleet=servers, cache=None, cache_form="pli-jpeg") as loader:
        check_epoch(plain, loader)
        check_epoch(plain, loader)
        assert loader.stats()["storage"]["reads"] == len(source)


def test_a_dead_server_costs_speed_only(folder, tmp_path):
    source = ps.Dataset(folder)
    path = tmp_path / "c.sock"
    with memcached(path) as process, make(source) as plain, make(source, fleet=[str(path)]) as loader:
        check_epoch(plain, loader)
        process.send_signal(signal.SIGKILL)
        process.wait()
        check_epoch(plain, loader)
        stats = loader.stats()
        assert stats["storage"]["reads"] == 2 * len(source)
        assert stats["fallbacks"]["fleet_server"] == len(source)
        assert "server was down" in stats["fallback_reasons"]["fleet_server"]


def test_pickle_and_fork(servers):
    fleet = ps.Fleet(servers, max_item="64KiB")
    other = pickle.loads(pickle.dumps(fleet))
    assert repr(other) == repr(fleet)
    assert other.stats()["servers"] == 2
    pid = os.fork()
    if pid == 0:
        os._exit(0 if fleet.stats()["servers"] == 2 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_refused(folder, monkeypatch):
    monkeypatch.delenv("PENSTOCK_FLEET", raising=False)
    for given in ("", "a:0", "x y x", ()):
        with pytest.raises(ps.errors.ArgumentError):
            ps.Fleet(given)
    with pytest.raises(ps.errors.ArgumentError, match="PENSTOCK_FLEET"):
        ps.Fleet()
    with pytest.raises(ps.errors.ArgumentError, match="auth"):
        ps.Fleet("a", auth="plain")
    with pytest.raises(ps.errors.ArgumentError, match="timeout"):
        ps.Fleet("a", timeout=100)
    with pytest.raises(ps.errors.NotFoundError):
        ps.Fleet("a", auth_file="/nowhere")
    with pytest.raises(ps.errors.ArgumentError, match="fleet"):
        make(folder, fleet=3)
    with pytest.raises(ps.errors.UnsupportedError, match="memcached -Y"):
        ps.Fleet("a", auth="sasl")
