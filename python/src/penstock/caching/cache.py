"""A cache of the stored bytes of samples, or of re-coded JPEGs. It never evicts single items."""

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
    """The content of a cache: its limit and used bytes, items, data sets, and how often an item was refused for lack of memory."""

    limit: int
    used: int
    items: int
    datasets: int
    refused: int


class CacheReport(NamedTuple):
    """What :meth:`Cache.save` wrote or :meth:`Cache.load` loaded: the items, their stored bytes, and the number of their data sets.

    ``file_nbytes`` is the length of the file. After a load, ``present`` counts the items that the cache had already, and
    ``refused`` those that did not fit; both are 0 after a save. ``unsaved`` counts the items that a save left out, because the
    index of their data set (tars, zips and tables read in place) has no checksums of items: see :meth:`Cache.save`.
    """

    items: int
    nbytes: int
    datasets: int
    file_nbytes: int
    present: int
    refused: int
    unsaved: int


class Cache:
    """Memory of this process for stored bytes of samples. All loaders that are given the same cache share it.

        cache = ps.Cache("8GiB")
        train = ps.Loader(train_set, batch_size=256, shuffle=True, cache=cache)
        check = ps.Loader(check_set, batch_size=256, cache=cache)

    Items are kept as they are read until the memory is used up, and then stay: in later epochs these items are not read again.
    Loaders of the same data set find each other's items, if they keep them in the same form (``cache_form``); a data set that is
    kept in two forms counts as two data sets. When a data set needs memory, all items of a data set that no loader uses any more
    are removed at once. A data set that was written anew counts as another data set, and so does a folder in which a file has
    changed.

    nbytes: the limit, a number of bytes or a text like "8GiB". It counts the items, 16 to 31 bytes beside each, and 8 bytes for
        each item of every data set that uses the cache. It is not part of a loader's ``host_memory``. LimitError if it is more than
        the machine or a control group leaves this process.

    :meth:`host` returns another kind of cache: that of the host service, which all processes share.

    A cache belongs to its process: a pickled copy, or the cache in a forked child, is new and empty, with the same limit. The
    memory is freed when neither you nor a loader holds the cache. :meth:`save` and :meth:`load` keep the items in a file.
    """

    def __init__(self, nbytes: int | str) -> None:
        self._nbytes = options.nbytes("nbytes", nbytes)
        self._host: tuple[str | None, bool] | None = None  # the host cache: path of the socket, and whether to start a service
        self._strict = self._later = False  # options of the host cache: see struct pst_cache_host_options
        self._native = _native.Cache(self._nbytes)

    @classmethod
    def host(cls, socket: str | os.PathLike[str] | None = None, *, start: bool = True) -> Cache:
        """Returns the host cache: one cache for all loaders, processes and jobs of this user on this machine.

            cache = ps.Cache.host()
            loader = ps.Loader("photographs", batch_size=256, cache=cache)      # or cache="host"

        The host service keeps the cache in memory that other processes map for reading only. The service reads each missing item
        once for all of them. If the service ends or stops, or cannot be used when a loader is made, loaders read the storage
        themselves, which is counted in ``stats()["fallbacks"]["host"]``, and look for the service again at their next epoch.
        :meth:`stats`, :meth:`save` and :meth:`load` work on the whole host cache. The stats are zero while no service runs.

        socket: path of the service's socket; None: PENSTOCK_SOCKET, else one for each user.
        start: start the service (``penstock serve``, or the program that PENSTOCK_SERVE names) if none runs. It ends 10
            minutes after its last client.

        NotFoundError: no service runs, and ``start`` is False or the program was not found. VersionError: the service has another
        version. ArgumentError: the service belongs to another user. StorageError: the service does not answer.
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
        """The present content of the cache."""
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

        path: the file. An older file is replaced only when the new one is complete and durable. If anything fails, the older one
            stays as it was. A symbolic link is refused. Only its owner can read the file.

        Loaders may run during the call: an item that they add meanwhile may be in the file or not. The file takes as many bytes as
        the items, and 40 to 55 bytes more for each.

        Items of tars, zips and tables that are read in place are left out, with a warning in the log, if their index has no
        checksums of items: a later load could not tell whether the bytes are still theirs. ``penstock index PATH --sums`` makes the
        checksums. Loaders with a cache of their own make them, too, when all ranks together have read every item of their fields
        once, usually in the first epoch. A data set that is opened after that has them.

        Returns a :class:`CacheReport`. StorageError: the file system refuses something; NoSpaceError: the disk is full.
        ForkedError: the cache belongs to the parent process. May be called from any thread.
        """
        return CacheReport(**self._native.save(os.fspath(path)))

    def load(self, path: str | os.PathLike[str]) -> CacheReport:
        """Loads the items of a file that :meth:`save` wrote, in one sequential read.

        Loaders with this cache find the items if their data set is the same and unchanged. Items are loaded in the order of the
        file, if the cache lacks them and has memory left; no other item is removed for them. Call it before the first epoch: an
        item that a loader adds during the call may take memory twice.

        path: the file. Load a file only if you trust its source as you trust that of the data set: checksums find damage, not
        forgery.

        Returns a :class:`CacheReport`. CorruptError and its subclasses: the file is not a saved cache, or is damaged; the error
        names the offset, and the cache keeps what it held before. VersionError: the file's format has another version. ForkedError:
        the cache belongs to the parent process. May be called from any thread.
        """
        return CacheReport(**self._native.load(os.fspath(path)))

    def _open(self) -> _native.Cache:
        if self._native.pid != os.getpid():
            self._native = self._make(later=not self._strict)  # the cache of a forked child looks for the service at its epochs
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
    """The samples that a cache should admit, and the benefit: see :func:`plan_cache`.

    admit: a bool for each sample of the data set. ``numpy.save(path, plan.admit)`` keeps it in a file that
    ``Loader(cache_plan=path)`` takes. samples and nbytes: how many samples are admitted, and their bytes in the cache. seconds:
    time saved in each epoch. bound: an upper limit of the time that any choice can save. It exceeds ``seconds`` by less than one
    sample saves.
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
    """Chooses which samples a cache should admit, so that later epochs take the least time.

    Admits the samples that save the most seconds per byte, until the cache is full. Without a plan, a cache admits samples in the
    order in which they are read. That is equally good if all bytes cost the same.

    Args:
        dataset: the data set. A plan is for the whole data set, also if this is a view.
        cache: bytes of the cache, or a text like "8GiB".
        nbytes: bytes that each sample takes in the cache; None: the stored bytes.
        seconds: measured time that caching each sample saves in an epoch, 0 or more; None: read_seconds + bytes / read_rate +
            decode_seconds.
        read_rate: bytes a second of the storage. Needed unless ``seconds`` is given.
        read_seconds: the fixed time of one read, which does not depend on its bytes.
        decode_seconds: decoding time that the form in the cache saves: one number for all samples, or one for each.
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
    """Returns the stored bytes of each sample's first variants, and how many items the cache's table counts for the data set."""
    import numpy as np

    stored = np.zeros(dataset._count, np.uint64)
    fields = [(i, field) for i, field in enumerate(dataset._fields) if field.type not in ("int", "float")]
    for sample in range(dataset._count):
        stored[sample] = sum(kept_nbytes(dataset._native.item(sample, i, 0)) for i, _ in fields)
    return stored, dataset._count * sum(field.n_variants for _, field in fields)


def plan_bytes(plan: Any, dataset: Dataset) -> Any:
    """Converts the argument ``cache_plan`` of a loader to one byte for each sample of the whole data set: not 0 if the cache may
    admit the sample. If `plan` has a method `of`, as a plan that chooses samples does, the method is called."""
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
    """Returns the cache that the argument ``cache`` of a loader means, and for "auto" the reason for the choice.

    dataset_nbytes: returns the bytes of the data set. in_memory: the loader's storage already holds the whole data set in memory.
    shares: the loader gets its batches from the host service.
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
    """Whether the argument ``cache`` of a loader always means a cache of this process, whether a host service runs or not."""
    if isinstance(given, str):
        return given.strip().lower() not in ("auto", "host")
    return given is not None and (not isinstance(given, Cache) or given._host is None)


def _host_or_later() -> Cache:
    """Returns the host cache. If its service does not answer now, loaders look for it again when their epochs begin."""
    try:
        return Cache.host()
    except (NotFoundError, VersionError, ArgumentError):
        raise
    except (PenstockError, MemoryError, OSError) as error:  # e.g. it was just killed, or file descriptors are short
        _log.warning("the host service is not there yet: %s", error)
        return Cache._host_cache(None, False, later=True)


def tell(path: str, reason: str) -> None:
    """Logs why the host cache is not used."""
    if reason:
        _log.warning("%s: the host cache is not used: %s", path, reason)


def _running_host() -> tuple[Cache, str] | None:
    """Returns the host cache if its service already runs, else None. The cache is strict: a loader made with it fails if the cache
    cannot be used, and "auto" then goes without a cache."""
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
    except (LimitError, MemoryError) as error:  # another process took the memory meanwhile, or no address space is left
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
