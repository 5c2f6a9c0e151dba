"""The proxy that imitates a network with latency: it passes bytes on unchanged but later, and also passes on the end of
connections."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

PROXY = Path(__file__).resolve().parents[2] / "bench" / "fleet" / "proxy.py"
MS = 20.0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def answer(peer):
    """Echoes what it receives, until the connection ends or a message ends with "end"."""
    with peer, contextlib.suppress(OSError):
        while chunk := peer.recv(1 << 16):
            peer.sendall(chunk)
            if chunk.endswith(b"end"):
                return


def echo(listener):
    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


@pytest.fixture
def proxied():
    """Returns the port of a proxy in front of an echo server."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo, args=(listener,), daemon=True).start()
    port = free_port()
    command = [sys.executable, str(PROXY), f"127.0.0.1:{port}", f"127.0.0.1:{listener.getsockname()[1]}", str(MS), "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout.readline() == "ready\n"
        yield port
        proxy.kill()
    listener.close()


def receive(peer, nbytes):
    found = b""
    while len(found) < nbytes:
        chunk = peer.recv(1 << 16)
        assert chunk
        found += chunk
    return found


def test_a_round_trip_takes_the_latency_and_more(proxied):
    with socket.create_connection(("127.0.0.1", proxied), timeout=60) as peer:
        for _ in range(3):
            start = time.monotonic()
            peer.sendall(b"x")
            assert receive(peer, 1) == b"x"
            assert time.monotonic() - start >= MS / 1000


def test_bytes_of_several_connections_arrive_whole(proxied):
    data = [bytes((i * k) % 251 for i in range(300_000)) for k in (1, 2, 3)]
    peers = [socket.create_connection(("127.0.0.1", proxied), timeout=60) for _ in data]
    senders = [threading.Thread(target=peer.sendall, args=(part,)) for peer, part in zip(peers, data, strict=True)]
    for sender in senders:
        sender.start()
    for peer, part in zip(peers, data, strict=True):
        assert receive(peer, len(part)) == part
    for sender, peer in zip(senders, peers, strict=True):
        sender.join()
        peer.close()


def test_the_end_of_a_connection_comes_after_its_bytes(proxied):
    with socket.create_connection(("127.0.0.1", proxied), timeout=60) as peer:
        peer.sendall(b"the end")
        assert receive(peer, 7) == b"the end"
        assert peer.recv(1) == b""
