"""A cache of stored bytes, or of JPEGs re-coded. It never evicts anything."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from .. import _native
from ..base import files, options
from ..base.public import door
from ..data.items import kept_nbytes
from ..errors import ArgumentError, LimitError, NotFoundError, PenstockError, VersionError

__all__ = ["Cache", "CachePlan", "CacheReport", "CacheUse", "chosen", "plan_bytes", "plan_cache", "tell"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..data.dataset import Dataset

_log = logging.getLogger("penstock")


class CacheUse(TypedDict):
    """What a cache holds: bytes (limit, used), items, data sets, and how often an item found no room."""

    limit: int
    used: int
    items: int
    datasets: int
    refused: int


class CacheReport(NamedTuple):
    """What :meth:`Cache.save` wrote or :meth:`Cache.load` took: items, their stored bytes, and the data sets they are of.

    ``file_nbytes`` is the length of the file. ``present`` counts the items of a loaded file that the cache had already,
    ``refused`` those that found no room; both are 0 for a saved one. ``unsaved`` counts the items that were left out of it,
    because the index of their data set (tars, zips and tables in place) has no checksums of items: see :meth:`Cache.save`.
    """

    items: int
    nbytes: int
    datasets: int
    file_nbytes: int
    present: int
    refused: int
    unsaved: int


class Cache:
    """Memory of this process for stored bytes of samples, which loaders that are given it share.

        cache = ps.Cache("8GiB")
        train = ps.Loader(train_set, batch_size=256, shuffle=True, cache=cache)
        check = ps.Loader(check_set, batch_size=256, cache=cache)

    Items are kept as they are read until the bytes are used up, and stay: in each later epoch exactly these are not
    read. Loaders of the same data set find each other's items, if they keep them in the same form (``cache_form``); in
    two forms, it counts as two data sets. The items of a data set that no loader uses any more
    give way, all at once, when another one needs the room. A data set that was written anew, or a folder of which a
    file has changed since, is another data set.

    nbytes: a number of bytes, or a text like "8GiB": items, 16 to 31 bytes beside each, and 8 bytes for each item of
        a data set that uses the cache. It is no part of a loader's ``host_memory``. LimitError if it is more than the
        machine or a control group leaves this process.

    :meth:`host` gives another kind: the cache of the host service, which all processes share.

    It belongs to its process: pickled or in a forked child it is a new, empty one of the same size. The memory is
    freed when neither you nor a loader holds the cache. :meth:`save` and :meth:`load` keep the items in a file.
    """

    def __init__(self, nbytes: int | str) -> None:
        self._nbytes = options.nbytes("nbytes", nbytes)
        self._host: tuple[str | None, bool] | None = None  # socket, and whether to start a service
        self._strict = self._later = False  # of the host cache: see struct pst_cache_host_options
        self._native = _native.Cache(self._nbytes)

    @classmethod
    def host(cls, socket: str | os.PathLike[str] | None = None, *, start: bool = True) -> Cache:
        """The host cache: one for all loaders, processes and jobs of this user on this machine.

            cache = ps.Cache.host()
            loader = ps.Loader("photographs", batch_size=256, cache=cache)      # or cache="host"

        The host service keeps it, in memory that processes map for reading only; it reads each missing item once for all
        of them. If it ends or stops, or cannot be used when a loader is made, loaders read for themselves, counted in
        ``stats()["fallbacks"]["host"]``, and look for it again at their next epoch. :meth:`stats`, :meth:`save` and
        :meth:`load` are of the whole host cache; stats are zero while no service runs.

        socket: path of the service's socket; None: PENSTOCK_SOCKET, else one for each user.
        start: start the service (``penstock serve``, or the program that PENSTOCK_SERVE names) if none runs. It ends 10
            minutes after its last client.

        NotFoundError: no service runs, and none was to be started or there is no program. VersionError: the service is of
        another version. ArgumentError: it is another user's. StorageError: it does not answer.
        """
        return cls._host_cache(socket, start)

    @classmethod
    def _host_cache(cls, socket: Any, start: bool, strict: bool = False, later: bool = False) -> Cache:
        self = cls.__new__(cls)
        self._nbytes = 0
        self._host = (None if socket is None else options.absolute(socket), start)
        self._strict, self._later = strict, later
        self._native = self._make()
        return self

    def _make(self, later: bool = False) -> _native.Cache:
        if self._host is None:
            return _native.Cache(self._nbytes)
        socket, start = self._host
        program = options.service_program() if start else None
        return _native.Cache(socket, program, self._strict, self._later or later)

    @property
    def nbytes(self) -> int:
        """The limit in bytes."""
        return self._nbytes if self._host is None else self.stats()["limit"]

    def stats(self) -> CacheUse:
        """What it holds now."""
        found = self._open().stats()
        return {
            "limit": found["limit"],
            "used": found["used"],
            "items": found["items"],
            "datasets": found["datasets"],
            "refused": found["refused"],
        }

    def save(self, path: str | os.PathLike[str]) -> CacheReport:
        """Writes the items of all data sets in the cache to a local file, for :meth:`load`.

        path: the file. An older one is replaced when the new one is whole and durable; if anything fails, it stays as it
            was. A symbolic link is refused. The file can be read by its owner only.

        Loaders may go on meanwhile: an item that they add during the call may be in the file or not. The file takes as
        many bytes as the items, with 40 to 55 bytes for each.

        Items of tars, zips and tables that are read in place are left out, with a warning in the log, while their index has no
        checksums of items: nothing would tell later whether the bytes are theirs. ``penstock index PATH --sums`` makes
        the checksums. Loaders with a cache of their own make them, too, when they have read all items of their fields once,
        all ranks together: as a rule in the first epoch. They count for those who open the data set from then on.

        Returns a :class:`CacheReport`. StorageError: what the file system refuses; NoSpaceError: the disk is full.
        ForkedError: the cache belongs to the parent process. May be called from any thread.
        """
        return CacheReport(**self._native.save(os.fspath(path)))

    def load(self, path: str | os.PathLike[str]) -> CacheReport:
        """Takes items from a file that :meth:`save` wrote, in one sequential read.

        Loaders with this cache find the items of a data set if it is the same, unchanged one. Items are taken in the
        order of the file, each if the cache lacks it and has room; nothing gives way to them. Call it before the first
        epoch: an item that a loader adds during the call may take memory twice.

        path: the file. Load files only from where you would load the data set: checksums find damage, not forgery.

        Returns a :class:`CacheReport`. CorruptError and its kinds: the file is no saved cache, or is damaged; the error
        names the offset, and the cache holds what it held before. VersionError: the file's format is of another
        version. ForkedError: the cache belongs to the parent process. May be called from any thread.
        """
        return CacheReport(**self._native.load(os.fspath(path)))

    def _open(self) -> _native.Cache:
        if self._native.pid != os.getpid():
            self._native = self._make(later=not self._strict)  # what a child makes looks for the service by itself
        return self._native

    def __reduce__(self) -> tuple[Any, ...]:
        if self._host is None:
            return (Cache, (self._nbytes,))
        return (_host_again, (*self._host, self._strict, self._later))

    def __repr__(self) -> str:
        use = self.stats()
        return f"Cache({use['used']} of {use['limit']} bytes, {use['items']} items)"


def _host_again(socket: str | None, start: bool, strict: bool, later: bool) -> Cache:
    return Cache._host_cache(socket, start, strict, later)


class CachePlan(NamedTuple):
    """Which samples a cache should admit, and what that brings: see :func:`plan_cache`.

    admit: a bool for each sample of the data set. ``numpy.save(path, plan.admit)`` keeps it in a file that
    ``Loader(cache_plan=path)`` takes. samples and nbytes: how many are admitted and what they take of the cache.
    seconds: saved in each epoch. bound: no choice saves more; it is less than the seconds of one sample above.
    """

    admit: npt.NDArray[np.bool_]
    samples: int
    nbytes: int
    seconds: float
    bound: float


def plan_cache(
    dataset: Dataset,
    cache: int | str,
    *,
    nbytes: Any = None,
    seconds: Any = None,
    read_rate: float | None = None,
    read_seconds: float = 0.0,
    decode_seconds: Any = 0.0,
) -> CachePlan:
    """Chooses which samples a cache should admit, so that each later epoch takes the least time.

    Those are admitted that save the most seconds for each byte, as far as they fit. Without a plan a cache takes samples
    as they come, which is as good where all bytes cost the same.

    Args:
        dataset: the data set. A plan is for the whole of it, also if this is a view.
        cache: bytes of the cache, or a text like "8GiB".
        nbytes: bytes of each sample as the cache will keep it; None: as it is stored.
        seconds: what each sample saves in an epoch, 0 or more, measured; None: read_seconds + bytes / read_rate +
            decode_seconds.
        read_rate: bytes a second of the storage. None: only needed without ``seconds``.
        read_seconds: what one read costs besides.
        decode_seconds: decoding time that the cache's form saves, one number or one for each sample.
    """
    import numpy as np

    limit = options.nbytes("cache", cache)
    stored, n_items = _stored_nbytes(dataset)
    n = len(stored)
    sizes = np.ascontiguousarray(stored if nbytes is None else nbytes, np.uint64)
    if seconds is None:
        if read_rate is None or not read_rate > 0:
            raise ArgumentError("plan_cache wants seconds, or read_rate, which is above 0")
        seconds = read_seconds + stored / read_rate + np.broadcast_to(decode_seconds, (n,))
    saved = np.ascontiguousarray(seconds, np.float64)
    if sizes.shape != (n,) or saved.shape != (n,):
        raise ArgumentError(f"nbytes and seconds have one number for each of the {n} samples")
    admit = np.zeros(n, np.uint8)
    report = _native.cache_plan(sizes, saved, max(0, limit - 8 * n_items), admit)
    return CachePlan(admit.astype(bool), *report)


def _stored_nbytes(dataset: Dataset) -> tuple[Any, int]:
    """Bytes of each sample's first variants, and how many items a cache's table counts."""
    import numpy as np

    stored = np.zeros(dataset._count, np.uint64)
    fields = [(i, field) for i, field in enumerate(dataset._fields) if field.type not in ("int", "float")]
    for sample in range(dataset._count):
        stored[sample] = sum(kept_nbytes(dataset._native.item(sample, i, 0)) for i, _ in fields)
    return stored, dataset._count * sum(field.n_variants for _, field in fields)


def plan_bytes(plan: Any, dataset: Dataset) -> Any:
    """Converts the argument ``cache_plan`` of a loader: a byte for each sample of the whole data set, not 0 if the cache may admit
    it. An object that chooses samples has a method `of`, which is called."""
    import numpy as np

    n = dataset._count
    if hasattr(plan, "of"):
        plan = plan.of(dataset)
    if isinstance(plan, CachePlan):
        plan = plan.admit
    elif isinstance(plan, (str, os.PathLike)):
        with files.open_data(os.fsdecode(plan), "cache_plan") as file:
            plan = np.load(file, allow_pickle=False)
    admit = np.asarray(plan)
    if admit.shape != (n,) or admit.dtype.kind != "b":
        raise ArgumentError(f"cache_plan has {admit.shape} of {admit.dtype}: a bool for each of {n} samples is wanted")
    return admit.astype(np.uint8)


def chosen(
    given: Any, dataset_nbytes: Callable[[], int], in_memory: bool, shares: bool = False
) -> tuple[Cache | None, str]:
    """Returns the cache that the argument ``cache`` of a loader means, and for "auto" the reason of the choice.

    dataset_nbytes: returns the bytes of the data set. in_memory: the loader's storage holds them all already. shares:
    its batches come from the host service.
    """
    if given is None or isinstance(given, Cache):
        return given, ""
    if isinstance(given, str) and given.strip().lower() == "auto":
        if shares:
            return None, "no cache: batches come from the host service (share)"
        if in_memory:
            return None, "no cache: the storage is memory"
        return _running_host() or _advised(dataset_nbytes())
    if isinstance(given, str) and given.strip().lower() == "host":
        return _host_or_later(), ""
    if isinstance(given, str) and given.strip().endswith("%"):
        return Cache(_share(given, dataset_nbytes())), ""
    if isinstance(given, (int, str)) and not isinstance(given, bool):
        return Cache(options.nbytes("cache", given)), ""
    raise ArgumentError(f'cache is a ps.Cache, bytes, a text such as "8GiB", "50%", "host" or "auto", or None, not {given!r}')


def is_own(given: Any) -> bool:
    """Whether the argument ``cache`` of a loader means a cache of this process, whatever runs on the machine."""
    if isinstance(given, str):
        return given.strip().lower() not in ("auto", "host")
    return given is not None and (not isinstance(given, Cache) or given._host is None)


def _host_or_later() -> Cache:
    """The host cache; if its service does not answer now, loaders look for it at their epochs."""
    try:
        return Cache.host()
    except (NotFoundError, VersionError, ArgumentError):
        raise
    except (PenstockError, MemoryError, OSError) as error:  # it was killed just now, say, or descriptors are short
        _log.warning("the host service is not there yet: %s", error)
        return Cache._host_cache(None, False, later=True)


def tell(path: str, reason: str) -> None:
    """Logs why the host cache is not used."""
    if reason:
        _log.warning("%s: the host cache is not used: %s", path, reason)


def _running_host() -> tuple[Cache, str] | None:
    """The host cache, if its service runs already. What is made with it fails if it cannot be used: then "auto" goes without."""
    try:
        return Cache._host_cache(None, False, strict=True), "the host cache: a host service runs"
    except NotFoundError:
        return None
    except PenstockError as error:
        _log.warning("the host service is not used: %s", error)
        return None


def _advised(dataset_nbytes: int) -> tuple[Cache | None, str]:
    nbytes, reason = _native.cache_advise(dataset_nbytes)
    if nbytes == 0:
        return None, reason
    try:
        return Cache(nbytes), reason
    except (LimitError, MemoryError) as error:  # memory went meanwhile, or no address space is left
        return None, f"no cache: {error}"


def _share(text: str, nbytes: int) -> int:
    try:
        percent = float(text.strip()[:-1])
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise ArgumentError(f"cache={text!r}: a part of the data set is above 0%, to 100%")
    return max(1 << 20, int(nbytes * percent / 100))


door(__name__, "penstock.cache")
