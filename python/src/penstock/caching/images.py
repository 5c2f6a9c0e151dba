"""Decoded images for any data set class, from a cache that keeps them compressed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict, overload

from .. import _native
from ..base import options as _options
from ..base.public import door
from ..data.dataset import Dataset
from ..errors import LimitError, NotFoundError, PenstockError
from . import cache as _cache

__all__ = ["CachedImages", "CachedImagesStats"]

_log = logging.getLogger("penstock")

_FORMS = ("stored", "pli-jpeg", "pli", "pli-fast", "raw")
_COLORS = ("rgb", "bgr")
_ORIENTATIONS = ("upright", "stored")
_OUTPUTS = ("numpy", "torch")
_LARGEST = 2**62  # bytes: more than the data set of any machine


class CachedImagesStats(TypedDict):
    """Counters of a :class:`CachedImages` in this process.

    hits and nbytes_hit: images taken from the cache, and their bytes there. misses and nbytes_read: images read from storage, and
    their bytes. recoded: images re-coded for the cache. not_recoded: images that the form would re-code, but that are kept as they
    are stored. Neither counts images of the host service. refused: how often the cache had no memory for an image. limit, used,
    items: the cache's bytes, and its items of this data set; 0 without a cache and in a forked child that uses its parent's.
    forked: this process was forked with such a cache and adds nothing to it. fetched: images that the host service brought because
    this process asked. lost: images that were read because the host service was lost. renewed: how often the service was found
    again.
    """

    hits: int
    nbytes_hit: int
    misses: int
    nbytes_read: int
    recoded: int
    not_recoded: int
    refused: int
    limit: int
    used: int
    items: int
    forked: bool
    fetched: int
    lost: int
    renewed: int


class CachedImages(Sequence[Any]):
    """Images by number as numpy arrays or torch tensors. The cache that keeps them is several times smaller than their pixels.

        images = ps.CachedImages("photographs", cache="8GiB", color="bgr")
        images[3]                       # uint8 (H, W, 3); the second time, the image comes from the cache

    Made for data set classes of torchvision, COCO or ultralytics, which read images by path: :meth:`load_image` takes a path where
    they call ``cv2.imread`` or ``PIL.Image.open``. JPEGs are kept as pli-jpeg, other images as small-tier PLI. The pixels are those
    of libjpeg-turbo's default decoder, and so equal those of PIL and OpenCV.

    Args:
        source: a :class:`Dataset`, a view of one, a folder, a packed data set, or a list of files.
        cache: where images are kept. Bytes, a text like "8GiB", or "50%" of the stored bytes: memory of this process. A
            :class:`Cache`: shared with all others that were given it. "host": the cache of the host service, which all processes of
            this user share. "auto": the host cache if a service runs and has memory left; else as much memory as the images need,
            but at most half of what is available; no cache if a launcher started several processes on this machine, because each
            would have its own. None: each image is read from storage each time. LimitError if the cache is larger than the machine
            or a control group allows.
        form: the form in which images are kept: "pli", "pli-fast", "pli-jpeg", "stored" or "raw", as ``cache_form`` of
            :class:`Loader`. A loader with the same cache and form finds the same items.
        color: order of the channels: "rgb", or "bgr" as in OpenCV.
        orientation: "upright": images are rotated as their file's metadata says, as by ``PIL.ImageOps.exif_transpose``; "stored":
            they are not, as by ``PIL.Image.open``.
        channels: 3, 1 or 4, or 0 for the channels that each image has.
        output: "numpy", or "torch" for tensors (H, W, C).
        field: name of the field of images or masks; None: the first field of images.
        verify: compare the checksums of stored bytes, where a data set has them.
        cache_plan: which images the cache admits, as ``cache_plan`` of :class:`Loader`: a result of :func:`plan_cache`, a bool for
            each sample of the whole data set, or the path of such an array. None: all, in the order in which they are read.

    ``images[i]`` is uint8 (H, W, C) and belongs to the caller, who may write to it. Any number of threads may call. An error names
    the data set, the sample and the file (see :mod:`penstock.errors`).

    **Other processes.** With ``cache="host"`` forked workers and spawned or unpickled copies share one cache: each connects to the
    service by itself when it is made or first used. If the service is lost, images are read from storage, and the service is looked
    for again, at most every two seconds. A cache of this process is not shared with others. A forked worker of torch's DataLoader
    uses what was cached when it was forked, without copying it, and adds nothing: so call :meth:`fill` before. A spawned or
    unpickled copy has no cache, and says so in the log ("penstock", WARNING).
    """

    def __init__(
        self,
        source: Dataset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        cache: Any = "auto",
        *,
        form: str = "pli",
        color: str = "rgb",
        orientation: str = "upright",
        channels: int = 3,
        output: str = "numpy",
        field: str | None = None,
        verify: bool = True,
        cache_plan: Any = None,
    ) -> None:
        import numpy as np

        self._asarray: Callable[[Any], Any] = np.asarray
        self._dataset = _dataset_of(source)
        self._indices = self._dataset._indices
        self._arguments: dict[str, Any] = {
            "form": form,
            "color": color,
            "orientation": orientation,
            "channels": channels,
            "output": output,
            "field": field,
            "verify": verify,
            "cache_plan": cache_plan,
        }
        options = {
            "cache_form": _options.choice("form", form, _FORMS),
            "color": _options.choice("color", color, _COLORS),
            "ignore_orientation": _options.choice("orientation", orientation, _ORIENTATIONS) == 1,
            "channels": _options.count("channels", channels, 0, 4),
            "no_verify": not _options.flag("verify", verify),
        }
        if _options.choice("output", output, _OUTPUTS) == 1:
            import torch

            self._asarray = lambda picture: torch.from_numpy(np.asarray(picture))
        plan = None if cache_plan is None else _cache.plan_bytes(cache_plan, self._dataset)
        self._cache, reason = _chosen(cache, self._dataset, form)
        try:
            self._native = self._opened(field, plan, options)
        except LimitError as error:
            if not _is_auto(cache) or _shared(self._cache) is None:
                raise
            _log.warning("%s: the host service is not used: %s", self._dataset.path, error)
            self._cache, reason = _advised(self._dataset, form)
            self._native = self._opened(field, plan, options)
        if reason:
            _log.info("%s: %s", self._dataset.path, reason)
        _cache.tell(self._dataset.path, self._native.stats()["host_reason"])
        self._places: dict[str, int] | None = None

    def _opened(self, field: str | None, plan: Any, options: dict[str, Any]) -> _native.Images:
        cache = self._cache
        return _native.Images(
            self._dataset._native,
            field,
            None if cache is None else cache._open(),
            plan,
            options if cache is not None else {**options, "cache_form": 0},
        )

    @property
    def dataset(self) -> Dataset:
        """The data set of these images."""
        return self._dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def _sample(self, i: int) -> int:
        n = len(self)
        place = int(i) + n if int(i) < 0 else int(i)
        if not 0 <= place < n:
            raise IndexError(f"image {int(i)} of {n}")
        return place if self._indices is None else int(self._indices[place])

    @overload
    def __getitem__(self, i: int) -> Any: ...

    @overload
    def __getitem__(self, i: slice) -> list[Any]: ...

    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return [self[place] for place in range(*i.indices(len(self)))]
        return self._asarray(self._native.get(self._sample(i)))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Returns the images of a batch. torch's DataLoader calls this method."""
        return [self[i] for i in indices]

    def batch(self, indices: Iterable[int], num_threads: int = 1) -> list[Any]:
        """Returns the images of these numbers, in the given order.

        num_threads: number of threads that decode the images, 1 or more.
        """
        numbers = [int(i) for i in indices]
        threads = min(_options.count("num_threads", num_threads, 1, 1024), max(1, len(numbers)))
        if threads == 1:
            return [self[i] for i in numbers]
        with ThreadPoolExecutor(threads, "pst-images") as pool:
            return list(pool.map(self.__getitem__, numbers))

    def index(self, path: Any, start: int = 0, stop: int | None = None) -> int:
        """Returns the number of the image with this path.

        path: path of the file, absolute or relative to the current folder; or the sample's name in the data set.

        NotFoundError if no image has this path or name.
        """
        if self._places is None:
            self._places = self._find_places()
        text = os.fspath(path)
        place = self._places.get(text)
        if place is None:
            place = self._places.get(os.path.abspath(text))
        if place is None or place < start or (stop is not None and place >= stop):
            raise NotFoundError(f"no image of {self._dataset.path} is {text}")
        return place

    def _find_places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        root = os.path.abspath(self._dataset.path)
        native = self._dataset._native
        for i in range(len(self)):
            name = native.name(self._sample(i))
            places.setdefault(name, i)
            if self._dataset.is_folder:
                places[os.path.join(root, name)] = i
        return places

    def load_image(self, path: str | os.PathLike[str]) -> Any:
        """Returns the image with this path. A data set class calls it in place of ``cv2.imread(path)`` or the like.

        path: see :meth:`index`. NotFoundError if no image has it.
        """
        return self[self.index(path)]

    def fill(self, num_threads: int | None = None, *, on_error: str = "raise") -> int:
        """Loads all images into the cache until it is full. Returns how many of them the cache holds.

        num_threads: threads that read, decode and re-code; None: one for each core that this process may use.
        on_error: "raise": the first bad image ends the call with its error; "skip": bad images are left out.

        Re-coding takes about a second of one core for 100 MB of pixels.
        """
        skips = _options.choice("on_error", on_error, ("raise", "skip")) == 1
        threads = _options.workers(num_threads) or 1

        def load(i: int) -> bool:
            try:
                return self._native.load(self._sample(i))
            except PenstockError:
                if not skips:
                    raise
                return False

        with ThreadPoolExecutor(threads, "pst-images") as pool:
            return sum(_in_order(pool, load, len(self), 4 * threads))

    def stats(self) -> CachedImagesStats:
        """Counters of the images that this process has loaded."""
        found = self._native.stats()
        return {
            "hits": found["hits"],
            "nbytes_hit": found["nbytes_hit"],
            "misses": found["misses"],
            "nbytes_read": found["nbytes_read"],
            "recoded": found["recoded"],
            "not_recoded": found["not_recoded"],
            "refused": found["refused"],
            "limit": found["limit"],
            "used": found["used"],
            "items": found["items"],
            "forked": found["forked"],
            "fetched": found["fetched"],
            "lost": found["lost"],
            "renewed": found["renewed"],
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._dataset, _shared(self._cache), self._cache is not None, self._arguments)

    def __repr__(self) -> str:
        use = self.stats()
        return f"CachedImages({self._dataset.path}, {use['items']} of {len(self)} images in {use['used']} bytes)"


def _shared(cache: _cache.Cache | None) -> _cache.Cache | None:
    """Returns the cache if it is the host cache, which other processes can use, else None."""
    return cache if getattr(cache, "_host", None) is not None else None


def _unpickled(
    dataset: Dataset, shared: _cache.Cache | None, had_cache: bool, arguments: dict[str, Any]
) -> CachedImages:
    """Makes the copy of a pickled object in another process, which cannot use a cache in the memory of the first process."""
    if had_cache and shared is None:
        _log.warning("%s: a copy of CachedImages in another process has no cache", dataset.path)
    if shared is None:
        arguments = {**arguments, "cache_plan": None}
    return CachedImages(dataset, cache=shared, **arguments)


def _dataset_of(source: Any) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Dataset(source)
    return Dataset.from_files(source)


def _is_auto(given: Any) -> bool:
    return isinstance(given, str) and given.strip().lower() == "auto"


def _chosen(given: Any, dataset: Dataset, form: str) -> tuple[_cache.Cache | None, str]:
    """Returns the cache that the argument ``cache`` means, and for "auto" the reason for the choice."""
    if not _is_auto(given):
        return _cache.chosen(given, dataset._native.nbytes, False)
    return _cache._running_host() or _advised(dataset, form)


def _advised(dataset: Dataset, form: str) -> tuple[_cache.Cache | None, str]:
    """Returns a cache of this process for "auto", or None, and the reason for the choice."""
    most, reason = _native.cache_advise(_LARGEST)
    if most == 0:
        return None, reason
    stored = dataset._native.nbytes()
    needed = stored + stored // 8 + 64 * len(dataset) + (1 << 20)
    nbytes = most if form == "raw" else min(most, needed)
    try:
        return _cache.Cache(nbytes), f"a cache of {nbytes} bytes for images of {stored}"
    except (LimitError, MemoryError) as error:  # another process took the memory meanwhile
        return None, f"no cache: {error}"


def _in_order(
    pool: ThreadPoolExecutor, call: Callable[[int], bool], n: int, ahead: int
) -> Iterator[bool]:
    """Runs `call` for 0 to n - 1 in a pool and yields the results in order. At most `ahead` calls wait, so an error or Ctrl-C ends
    it soon."""
    waiting = []
    try:
        for i in range(n):
            waiting.append(pool.submit(call, i))
            if len(waiting) > ahead:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:
            future.cancel()


door(__name__, "penstock.images")
