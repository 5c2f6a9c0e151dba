"""proxy.py LISTEN TARGET MS MB_PER_S: passes TCP connections on, with a latency and a limited rate, as a network would.

LISTEN, TARGET: address:port. MS: added to a round trip, half of it in each direction. MB_PER_S: of all connections together, in
each direction; 0: no limit. Prints "ready". When one side closes a connection, bytes under way are delivered first. The program
waits by select(), because only select() can wait for less than a millisecond.
"""

from __future__ import annotations

import collections
import ctypes
import select
import socket
import sys
import time

CHUNK, WAITING_MOST = 1 << 16, 4 << 20
PR_SET_TIMERSLACK = 29


class Wire:
    """One direction, shared by all connections. It keeps the time at which the next byte may leave."""

    def __init__(self, delay: float, rate: float) -> None:
        self.delay, self.rate, self.free = delay, rate, 0.0

    def due(self, nbytes: int) -> float:
        now = time.monotonic()
        self.free = max(now, self.free) + (nbytes / self.rate if self.rate else 0)
        return self.free + self.delay


class Pipe:
    """One direction of one connection. An empty chunk marks its end."""

    def __init__(self, source: socket.socket, target: socket.socket, wire: Wire) -> None:
        self.source, self.target, self.wire = source, target, wire
        self.chunks: collections.deque[tuple[float, bytes]] = collections.deque()
        self.waiting, self.ended = 0, False

    def take(self) -> None:
        try:
            chunk = self.source.recv(CHUNK)
        except OSError:
            chunk = b""
        self.ended = not chunk
        self.waiting += len(chunk)
        self.chunks.append((self.wire.due(len(chunk)), chunk))

    def give(self) -> bool:
        """Sends the chunks whose time has come. Returns false when the connection is over."""
        while self.chunks and self.chunks[0][0] <= time.monotonic():
            due, chunk = self.chunks.popleft()
            if not chunk:
                return False
            try:
                sent = self.target.send(chunk)
            except BlockingIOError:
                sent = 0
            except OSError:
                return False
            self.waiting -= sent
            if sent < len(chunk):
                self.chunks.appendleft((due, chunk[sent:]))
                break
        return True


def place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def accept(listener: socket.socket, target: tuple[str, int], wires: list[Wire]) -> list[Pipe]:
    client, _ = listener.accept()
    try:
        server = socket.create_connection(target, timeout=1)
    except OSError:
        client.close()
        return []
    for end in (client, server):
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return [Pipe(client, server, wires[0]), Pipe(server, client, wires[1])]


def main() -> None:
    listen, target, ms, rate = place(sys.argv[1]), place(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]) * 1e6
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # without this, waits end 50 us late
    wires = [Wire(ms / 2000, rate), Wire(ms / 2000, rate)]
    listener = socket.create_server(listen)
    print("ready", flush=True)
    pipes: list[Pipe] = []
    while True:
        now = time.monotonic()
        heads = [pipe.chunks[0][0] - now for pipe in pipes if pipe.chunks]
        full = [pipe.target for pipe in pipes if pipe.chunks and pipe.chunks[0][0] <= now]  # connections whose receivers are slow
        readers = [pipe.source for pipe in pipes if not pipe.ended and pipe.waiting < WAITING_MOST]
        wait = min((head for head in heads if head > 0), default=None)
        readable, _, _ = select.select([listener, *readers], full, [], wait)
        for pipe in pipes:
            if pipe.source in readable:
                pipe.take()
        over = {end for pipe in pipes if not pipe.give() for end in (pipe.source, pipe.target)}
        pipes = [pipe for pipe in pipes if pipe.source not in over]
        for end in over:
            end.close()
        if listener in readable:
            pipes += accept(listener, target, wires)


if __name__ == "__main__":
    main()
