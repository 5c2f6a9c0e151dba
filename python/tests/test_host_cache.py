"""Loaders with the host cache: one service for several processes, which is started on first use, lost, and found again."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import PROGRAM
from flat import keywords
from penstock.errors import ArgumentError, NotFoundError, StorageError


def make(source, **options) -> ps.Loader:
    from penstock import transforms as T

    return ps.Loader(source, **keywords(batch_size=4, shuffle=True, seed=3, num_workers=2, output="numpy",
                     transforms=[T.RandomResizedCrop(32)], **options))


def epoch(loader: ps.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


def status(socket: Path) -> dict:
    import json

    shown = subprocess.run([PROGRAM, "serve", "status", "--socket", socket, "--json"], capture_output=True, check=True)
    return json.loads(shown.stdout)


@pytest.fixture
def socket(tmp_path, monkeypatch):
    """The path of a socket, set in PENSTOCK_SOCKET. Afterwards ends the service that a test has started there."""
    path = tmp_path / "host.sock"
    monkeypatch.setenv("PENSTOCK_SOCKET", str(path))
    monkeypatch.setenv("PENSTOCK_SERVE", str(PROGRAM))
    yield path
    subprocess.run([PROGRAM, "serve", "stop", "--socket", path], capture_output=True, check=False)


CHILD = """
import sys
import penstock as ps
from penstock.errors import ArgumentError, NotFoundError
with ps.Loader(sys.argv[1], batch_size=4, cache="host", num_workers=2, output="numpy") as loader:
    for _ in range(2):
        for batch in loader:
            pass
    use = loader.stats()
    print(use["cache"]["hits"], use["cache"]["fetched"], use["storage"]["reads"])
"""


def test_a_service_is_started_and_shared_by_processes(folder, socket):
    source = ps.Dataset(folder)
    n = len(source)
    with make(source) as plain, make(source, cache="host") as hosted:
        for _ in range(2):
            for want, got in zip(epoch(plain), epoch(hosted), strict=True):
                np.testing.assert_array_equal(got, want)
        use = hosted.stats()
        assert use["cache"]["fetched"] == use["cache"]["misses"] == n
        assert use["cache"]["hits"] == n
        assert use["storage"]["reads"] == 0
        assert use["fallbacks"].get("host", 0) == 0
        child = subprocess.run([sys.executable, "-c", CHILD, str(folder)], capture_output=True, check=True, text=True)
        assert child.stdout.split() == [str(2 * n), "0", "0"]
        shown = status(socket)
        assert shown["reads"] == n
        assert shown["pid"] != os.getpid()
        assert [s["items"] for s in shown["sets"]] == [n]


def test_a_service_is_started_where_none_has_run_before(folder, tmp_path, monkeypatch):
    """The runtime directory is empty, as after a boot. The service makes its own directory in it."""
    monkeypatch.delenv("PENSTOCK_SOCKET", raising=False)
    monkeypatch.setenv("PENSTOCK_SERVE", str(PROGRAM))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    try:
        with make(ps.Dataset(folder), cache="host") as loader:
            assert len(epoch(loader)) == len(loader) and loader.stats()["cache"]["fetched"] > 0
        assert (tmp_path / "penstock").stat().st_mode & 0o777 == 0o700
    finally:
        stop = [PROGRAM, "serve", "stop", "--socket", tmp_path / "penstock" / "host.sock"]
        subprocess.run(stop, capture_output=True, check=False)


def test_auto_takes_a_running_service(folder, socket):
    with make(folder) as before:
        assert before.stats()["cache"]["choice"].startswith("no cache")
    with pytest.raises(NotFoundError, match="penstock serve"):
        ps.Cache.host(start=False)
    cache = ps.Cache.host()
    with make(folder) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["choice"] == "the host cache: a host service runs"
        assert loader.stats()["cache"]["fetched"] == len(loader.dataset)
    assert cache.stats()["items"] == len(ps.Dataset(folder))
    assert cache.nbytes > 1 << 20


def test_a_killed_service_costs_only_reads(folder, socket):
    with make(folder, cache="host", prefetch=1) as loader, make(folder, cache=None) as plain:
        wanted = [epoch(plain) for _ in range(3)]
        for number, batch in enumerate(loader):
            np.testing.assert_array_equal(np.array(batch["image"]), wanted[0][number])
            if number == 0:
                os.kill(status(socket)["pid"], signal.SIGKILL)
        for want, got in zip(wanted[1], epoch(loader), strict=True):
            np.testing.assert_array_equal(got, want)
        assert loader.stats()["fallbacks"]["host"] > 0
        ps.Cache.host()  # another service
        before = loader.stats()["fallbacks"]["host"]
        for want, got in zip(wanted[2], epoch(loader), strict=True):
            np.testing.assert_array_equal(got, want)
        assert loader.stats()["fallbacks"]["host"] == before
        assert status(socket)["reads"] > 0


def test_a_handle_is_pickled_and_saved(folder, socket, tmp_path):
    cache = ps.Cache.host()
    with make(folder, cache=cache) as loader:
        epoch(loader)
    again = pickle.loads(pickle.dumps(cache))
    assert again.stats()["items"] == cache.stats()["items"] > 0
    report = again.save(tmp_path / "warm.cache")
    assert report.items == cache.stats()["items"]
    subprocess.run([PROGRAM, "serve", "stop"], check=True)
    deadline = time.monotonic() + 60
    while socket.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert cache.stats()["items"] == 0  # no service runs
    assert ps.Cache.host().load(tmp_path / "warm.cache").items == report.items
    with make(folder, cache=cache) as loader:
        epoch(loader)
        assert loader.stats()["cache"]["misses"] == 0


def test_jpegs_are_recoded_by_the_service(folder, socket):
    with make(folder, cache="host", cache_form="pli-jpeg") as loader, make(folder, cache=None) as plain:
        for _ in range(2):
            for want, got in zip(epoch(plain), epoch(loader), strict=True):
                np.testing.assert_array_equal(got, want)
    assert status(socket)["sets"][0]["recoded_form"] is True


IDLE_CHILD = """
import sys
import penstock as ps
use = ps.CacheUse("host", form="pli-jpeg", recode="idle")
with ps.Loader(sys.argv[1], batch_size=4, cache=use, num_workers=2, output="numpy") as loader:
    while True:
        for batch in loader:
            print(len(batch["image"]), flush=True)
"""


def test_the_service_recodes_when_workers_are_idle(folder, socket):
    """Two processes share the items. One is killed while it reads items, and while the service re-codes them."""
    use = ps.CacheUse("host", form="pli-jpeg", recode="idle")
    with make(folder, cache=use) as loader, make(folder, cache=None) as plain:
        wanted = [epoch(plain) for _ in range(3)]
        child = subprocess.Popen([sys.executable, "-c", IDLE_CHILD, str(folder)], stdout=subprocess.PIPE)
        try:
            assert child.stdout.readline()
            for want, got in zip(wanted[0], epoch(loader), strict=True):
                np.testing.assert_array_equal(got, want)
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        for number in (1, 2):
            for want, got in zip(wanted[number], epoch(loader), strict=True):
                np.testing.assert_array_equal(got, want)
            deadline = time.monotonic() + 60
            while loader.stats()["cache"]["to_recode"] > 0 and time.monotonic() < deadline:  # between epochs, too
                time.sleep(0.01)
        found, shown = loader.stats(), status(socket)["sets"][0]
        assert found["cache"]["to_recode"] == shown["to_recode"] == 0
        assert found["fallbacks"].get("host", 0) == found["storage"]["reads"] == 0
        assert shown["recoded"] > 0 and shown["nbytes_saved"] > 0
        assert found["cache"]["recoded"] <= shown["recoded"]
        assert shown["reads"] == shown["items"] == len(loader.dataset)


def test_what_cannot_be(folder, socket, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SERVE", "/no/such/program")
    with pytest.raises(NotFoundError, match="/no/such/program"):
        make(folder, cache="host")
    monkeypatch.delenv("PENSTOCK_SERVE")
    with pytest.raises(ArgumentError, match="a socket has"):
        ps.Cache.host("/tmp/" + "x" * 200)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_images_in_workers_of_torch_are_one_copy(folder, socket, context):
    data = pytest.importorskip("torch.utils.data")
    images = ps.CachedImages(folder, "host", output="torch")
    plain = ps.CachedImages(folder, None)
    workers = data.DataLoader(images, batch_size=2, num_workers=2, collate_fn=list, multiprocessing_context=context,
                              persistent_workers=True)
    for _ in range(2):
        got = [image.numpy() for batch in workers for image in batch]
        for i, image in enumerate(got):
            np.testing.assert_array_equal(image, plain[i])
    shown = status(socket)
    assert shown["reads"] == len(images)
    assert [s["items"] for s in shown["sets"]] == [len(images)]
    for i in range(len(images)):
        images[i]
    use = images.stats()
    assert use["hits"] == use["items"] == len(images)
    assert use["misses"] == use["fetched"] == use["lost"] == 0 and not use["forked"]


def test_images_find_another_service(folder, socket):
    images, plain = ps.CachedImages(folder, "host"), ps.CachedImages(folder, None)
    images[0]
    first = status(socket)["pid"]
    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while images.stats()["lost"] == 0 and time.monotonic() < deadline:
        np.testing.assert_array_equal(images[1], plain[1])
    while time.monotonic() < deadline:
        try:
            ps.Cache.host()  # starts another service
            break
        except StorageError:  # the killed service has not ended yet
            pass
    while images.stats()["renewed"] == 0 and time.monotonic() < deadline:
        np.testing.assert_array_equal(images[2], plain[2])
    assert images.fill(2) == len(images)
    use = images.stats()
    assert use["renewed"] == 1 and use["lost"] == use["misses"] > 0 and use["items"] == len(images)
    assert status(socket)["pid"] != first


def test_images_go_without_a_service_that_has_no_room(tmp_path, socket, caplog):
    image = np.zeros((1, 1, 3), np.uint8)
    with ps.Writer(tmp_path / "many.pst", {"image": ps.Image()}) as writer:
        for _ in range(140_000):  # its table alone is larger than 1 MiB
            writer.write({"image": image})
    subprocess.run([PROGRAM, "serve", "--detach", "--memory", "1MiB"], check=True)
    for _ in range(2):
        shared = ps.CachedImages(tmp_path / "many.pst", "host")
        np.testing.assert_array_equal(shared[5], image)
        assert shared.stats()["lost"] > 0
        assert "the host cache is not used" in caplog.text
        caplog.clear()
    with make_raw(tmp_path / "many.pst") as loader:
        next(iter(loader))
        assert "has no room for a table" in loader.stats()["cache"]["choice"]
        assert loader.stats()["fallbacks"]["host"] > 0
    images = ps.CachedImages(tmp_path / "many.pst")
    assert "the host service is not used" in caplog.text
    np.testing.assert_array_equal(images[5], image)
    np.testing.assert_array_equal(images[5], image)
    assert images.stats()["hits"] == images.stats()["items"] == 1


def make_raw(source) -> ps.Loader:
    return ps.Loader(source, batch_size=4, output="numpy", cache="host")


def test_a_service_that_does_not_answer_costs_a_wait(folder, socket, monkeypatch):
    """A process listens on the socket and never answers. After ten seconds a loader goes on without the service and states the
    reason. Opening the host cache, which a loader does first, fails after ten seconds too: a thread does that meanwhile.
    """
    error = StorageError("the host service does not answer")
    with silent(socket), concurrent.futures.ThreadPoolExecutor() as pool:
        opened = pool.submit(ps.Cache.host)

        def fails(*args, **options):
            raise error

        monkeypatch.setattr(ps.Cache, "host", fails)
        with make(folder, cache="host") as loader, make(folder, cache=None) as plain:
            for want, got in zip(epoch(plain), epoch(loader), strict=True):
                np.testing.assert_array_equal(got, want)
            assert "does not answer" in loader.stats()["cache"]["choice"]
            assert loader.stats()["fallbacks"]["host"] > 0
        with pytest.raises(StorageError, match=str(error)):
            opened.result()


@contextlib.contextmanager
def silent(path):
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        yield
    os.unlink(path)


WAITS = {
    "handle": "ps.Cache.host(start=False)",
    "loader": "ps.Loader(sys.argv[1], batch_size=4, output='numpy', cache='host')",
    "images": "ps.CachedImages(sys.argv[1], 'host')",
    "share": "ps.Loader(sys.argv[1], batch_size=4, output='numpy', cache=None, share='group')",
}


INTERRUPTED = """
import os, signal, sys, threading, time
import penstock as ps
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is born with it ignored
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    CALL
except KeyboardInterrupt:
    print(time.monotonic() - start)
"""


def test_an_interrupt_ends_every_wait_for_the_service(folder, socket):
    """All of them wait at the same time, each in a process of its own."""
    with silent(socket):
        waiting = {call: subprocess.Popen([sys.executable, "-c", INTERRUPTED.replace("CALL", code), folder], text=True,
                                          stdout=subprocess.PIPE) for call, code in WAITS.items()}  # fmt: skip
        for call, process in waiting.items():
            seconds, _ = process.communicate()
            assert process.returncode == 0, call
            assert float(seconds) < 9, call  # without the interrupt the wait would take ten seconds


def test_images_take_a_running_service(folder, socket):
    assert ps.CachedImages(folder).stats()["limit"] < 1 << 30
    ps.Cache.host()
    images = ps.CachedImages(folder)
    images.fill(2)
    assert status(socket)["reads"] == images.stats()["items"] == len(images)
