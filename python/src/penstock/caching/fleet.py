"""A cache in memcached servers, one on each host, that all ranks of a job share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypedDict

from .. import _native
from ..base import options
from ..base.public import door
from ..errors import ArgumentError

__all__ = ["Fleet", "FleetUse", "ServerUse", "chosen"]

_AUTH = ("ascii", "sasl")


class FleetUse(TypedDict):
    """Counters of this process for all servers of a fleet, since the fleet was opened.

    hits, misses: items that a server had, and had not. declined: items that a server did not give because it was down or late or
    sent other bytes. added: items added to a server. present: items that were to be added but were there already. full: items
    refused because the server was full. dropped: items not offered to a server, because too many were on their way or the server
    was down. bad_values: values that do not belong to their key, and answers without a request. late: items not given in time.
    lost, found: how often a server was given up, and how often one answered for the first time or again. Seconds and bytes per
    second are those of hits.
    """

    servers: int
    servers_up: int
    hits: int
    misses: int
    declined: int
    nbytes_hit: int
    added: int
    present: int
    full: int
    dropped: int
    nbytes_added: int
    bad_values: int
    late: int
    lost: int
    found: int
    mean_seconds: float
    p99_seconds: float
    bytes_per_second: float


class ServerUse(TypedDict):
    """One server, as this process sees it: up (it answers), local (it runs on this host), error (why it was last given up)."""

    name: str
    up: bool
    local: bool
    error: str
    hits: int
    misses: int
    declined: int
    added: int
    full: int
    lost: int


class Fleet:
    """Memcached servers that keep stored bytes of samples for all ranks.

        fleet = ps.Fleet("node1,node2,node3")
        loader = ps.Loader(data, batch_size=256, shuffle=True, fleet=fleet)

    An item's key decides which server keeps the item. An item that no rank has read yet is read from storage once and added to its
    server in the background; from then on every rank gets it from there. Servers that are dead, slow, full, restarted or faulty
    only cost speed: their items are read from storage and counted (``stats()["fallbacks"]``), and the servers are tried again.
    ``penstock cache fleet`` prints the command that starts a server; docs/fleet.md tells more.

    servers: a list of servers, or a text with commas between them. A server is ``host``, ``host:port`` (default 11211),
        ``[address]:port`` or the path of a Unix socket. ``name=`` before it gives the ranks another name for it. ``"@path"`` names
        a file with one server a line. All ranks give the same names. None: the variable PENSTOCK_FLEET.
    timeout: the longest time in seconds that a row waits for a server, 0.01 to 60.
    max_item: the largest size of one value on a server, in bytes or as text like "32KiB", not above memcached's -I. A longer item
        is kept in parts of that size. All ranks give the same number.
    auth_file: a file with ``user:password`` in its first line. None: the file that PENSTOCK_FLEET_AUTH names, if any.
    auth: "ascii" (memcached -Y). "sasl" is refused, because it needs memcached's binary protocol.

    UnsupportedError for auth="sasl"; ArgumentError for servers that cannot be parsed. Servers that do not answer are no error. A
    fleet belongs to its process: a pickled copy, or the fleet in a forked child, is opened again.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        timeout: float = 1.0,
        max_item: int | str = "32KiB",
        auth_file: str | os.PathLike[str] | None = None,
        auth: str = "ascii",
    ) -> None:
        if servers is not None and not isinstance(servers, str):
            servers = ",".join(servers)
        if auth not in _AUTH:
            raise ArgumentError(f"auth is one of {', '.join(_AUTH)}, not {auth!r}")
        self._arguments = (
            servers,
            float(timeout),
            options.nbytes("max_item", max_item),
            None if auth_file is None else os.fspath(auth_file),
            _AUTH.index(auth),
        )
        self._native = _native.Fleet(*self._arguments)

    def stats(self) -> FleetUse:
        """Counters since the fleet was opened."""
        found: FleetUse = self._open().stats()
        return found

    def servers(self) -> list[ServerUse]:
        """The servers of the fleet, sorted by name."""
        found: list[ServerUse] = self._open().servers()
        return found

    def _open(self) -> _native.Fleet:
        if self._native.pid != os.getpid():
            self._native = _native.Fleet(*self._arguments)
        return self._native

    def __repr__(self) -> str:
        return f"Fleet({self._arguments[0]!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_arguments": self._arguments}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arguments = state["_arguments"]
        self._native = _native.Fleet(*self._arguments)


def _is_auto(given: Any) -> bool:
    return isinstance(given, str) and given.strip().lower() == "auto"


def is_wanted(given: Any, in_memory: bool) -> bool:
    """Whether the argument ``fleet`` of a loader means any fleet at all: see :func:`chosen`."""
    return bool(os.environ.get("PENSTOCK_FLEET")) and not in_memory if _is_auto(given) else given is not None


def chosen(given: Any, in_memory: bool) -> Fleet | None:
    """Returns the fleet that the argument ``fleet`` of a loader means.

    in_memory: the loader's storage is memory. "auto" then chooses no fleet.
    """
    if given is None or isinstance(given, Fleet):
        return given
    if _is_auto(given):
        return Fleet() if is_wanted(given, in_memory) else None
    if isinstance(given, (str, Iterable)) and not isinstance(given, (bytes, dict)):
        return Fleet(given)
    raise ArgumentError(f'fleet is a ps.Fleet, servers as a text or list, "auto", or None, not {given!r}')


door(__name__, "penstock.fleet")
