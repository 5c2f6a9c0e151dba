"""Measures the phases of a penstock.Loader.

The user's loader is never used. Each phase makes its own loader with the same arguments, except for where bytes come from. Warm
phases read from a cache of Penstock that holds a whole subset of the samples. Cold phases bypass the page cache (O_DIRECT, or
POSIX_FADV_DONTNEED on file systems without O_DIRECT), which needs no root and evicts no data of other programs.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...base.outputs import need_room
from ...caching.cache import Cache
from ...data import opening
from ...data.dataset import Dataset
from ...data.items import kept_nbytes
from ...data.mixture_sources import leaves
from ...data.mixture_weights import unweighted
from ...errors import ArgumentError, PenstockError
from ...loading import draws, table
from ...loading import options as _loader_options
from ...loading.loader import Loader
from ...transforms import words
from . import machine, phases
from .probe import forever, gpu_costs
from .survey import Look, Sample, kind_of

_MOST_SUBSET = 4096  # maximum number of samples in the warm phases
_LEAST_DRAWN = 1 << 16  # number of draws that stand for an epoch of a mixture with weights
_PREPARED = 8  # number of batches that are kept for the phase "prepared"
_OVERHEAD = 1 << 20
PROBE_SAMPLES, PROBE_NBYTES = 32, 64 << 20  # maximum number of samples, and of their bytes, for the probe of forms
_GROWS, _GROWS_LOSSLESS = 12, 3  # size of all forms of the probe together, relative to the stored bytes


def _named(per_box: Any) -> Any:
    return dict(per_box) if isinstance(per_box, Mapping) else list(per_box)


class Delivered:
    """Yields batches of stored bytes, and counts their samples and bytes. The loader's own counters include what it has read ahead,
    which is a large part of the reads in a short phase on slow storage."""

    def __init__(self, batches: Iterator[Any], field: str) -> None:
        self._batches = batches
        self._field = field
        self.samples = self.nbytes = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        self.samples += len(batch[self._field])
        self.nbytes += sum(map(len, batch[self._field]))
        return batch


def _changed(dataset: Dataset) -> str:
    """Returns a sentence about how a data set changed since it was opened, or "" if it did not change or is a folder."""
    if dataset.is_folder:
        return ""
    try:
        with opening.reopened(dataset) as now:
            is_same = now.bytes_identity == dataset.bytes_identity
    except (PenstockError, OSError) as error:
        return f"The data set cannot be opened any more: {str(error).rstrip('.')}."
    return "" if is_same else "The data set was changed while it was measured, and the figures are those of its old state."


class LoaderSubject:
    """Measures a loader. As a context manager, it closes the loaders that it makes."""

    def __init__(self, loader: Loader) -> None:
        import numpy as np

        self.given = _loader_options.arguments(loader)
        self.assumed = dict(loader._assumed)  # arguments that were assumed, with their values in words
        self.dataset = loader.dataset
        self.dataset_nbytes = int(self.dataset._native.nbytes())  # stored bytes of the whole data set, also for a view
        self.n_stored = max(1, self.dataset._count)
        self.batch_size = int(self.given["batch_size"])
        self._random = np.random.default_rng(0)
        self.drawn = draws.of(loader)  # the draws of a mixture with weights, else None
        chosen = self.given["indices"]
        if self.drawn is not None:
            self.numbers = self.drawn.chosen(self._random, max(_LEAST_DRAWN, len(self.drawn.positions)))
        else:
            self.numbers = np.arange(len(self.dataset)) if chosen is None else np.asarray(chosen)
        self.samples = len(self.numbers) if self.drawn is None else self.drawn.epoch  # number of samples in an epoch of all ranks
        if len(self.numbers) < self.batch_size:
            raise ArgumentError(
                f"{len(self.numbers)} samples are too few to analyse batches of {self.batch_size}: choose a smaller batch_size",
                dataset=self.dataset.path,
            )
        self._open: list[Loader] = []
        self._cache: Cache | None = None
        self._looked: Look | None = None
        self.image = next(
            (n for n, f in self.dataset.fields.items() if f.type == "image" and n not in self.given["encoded"]), None
        )
        self.prefetch = int(self.given["prefetch"])
        self.workers = int(loader._native_options["num_workers"])
        self.workers_follow = self.given["num_workers"] is None
        self.cold_storage = self.given["storage"] != "memory"
        self.reads_by_pages = self.given["order"] == "pages" and self.workers > 0 and self.given["page_cache"] != "direct"
        self.on_gpu = self.given["device"] != "cpu"
        self.decode = "gpu" if self.on_gpu and self.given["decode"] != "cpu" else "cpu"
        self.gpu_part = 1.0 if self.given["gpu_part"] is None else float(self.given["gpu_part"])

    def __enter__(self) -> LoaderSubject:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for loader in self._open:
            loader.close()

    def described(self) -> dict[str, Any]:
        """Returns the section of a report about what the loader delivers, and which arguments were assumed."""
        return {
            "transforms": words.plain(self.given["transforms"]),
            "fields": None if self.given["fields"] is None else list(self.given["fields"]),
            "per_box": None if self.given["per_box"] is None else _named(self.given["per_box"]),
            "assumed": list(self.assumed),
        }

    def need_scratch(self) -> None:
        """Raises NoSpaceError if the forms of the probe do not fit into the directory for temporary files."""
        if self.image is None:
            return
        kind = self.kind_of(int(self.numbers[0]))
        stored = min(PROBE_NBYTES, PROBE_SAMPLES * self.mean_item_nbytes())
        grows = _GROWS if kind in ("jpeg", "pli-jpeg", ".jpg", ".jpeg") else _GROWS_LOSSLESS
        place = tempfile.gettempdir()
        need_room(place, grows * stored, "The probe of forms", "free some, or name another directory by TMPDIR=DIR")

    def _loader(self, **changes: Any) -> Loader:
        base = {**self.given, "shuffle": False, "order": None, "weights": None, "drop_last": True, "pad_epoch": True}
        base.update(cache=None, cache_plan=None, dataset=unweighted(self.given["dataset"]))
        if "cache" not in changes:
            base["cache_form"] = "stored"
        loader = Loader._of({**base, **changes})
        self._open.append(loader)
        return loader

    def _tiled(self, numbers: Any, n_batches: int) -> Any:
        """Returns positions for `n_batches` batches: permutations of `numbers`, one after another."""
        import numpy as np

        wanted = max(n_batches, 1) * self.batch_size
        turns = -(-wanted // len(numbers))
        return np.concatenate([self._random.permutation(numbers) for _ in range(turns)])

    def subset(self, most_nbytes: int) -> Any:
        """Returns the samples of the warm phases: enough for some batches, but at most `most_nbytes` of stored bytes."""
        mean = max(1, self.dataset_nbytes // self.n_stored)
        n = min(len(self.numbers), _MOST_SUBSET, max(2 * self.batch_size, most_nbytes // mean))
        return self._random.permutation(self.numbers)[:n]

    # Where batches come from ------------------------------------------------------------------------

    def resident(self) -> Iterator[Any]:
        batch = next(iter(self._loader()))
        return itertools.repeat(batch)

    def prepared(self) -> Iterator[Any]:
        """Yields the same few finished batches again and again. They are copies if the loader's memory holds fewer batches."""
        loader = self._loader(indices=self.subset(256 << 20), prefetch=_PREPARED)
        kept = list(itertools.islice(iter(loader), _PREPARED))
        return itertools.cycle(kept)

    def warm(self, seconds: float, **changes: Any) -> Iterator[Any]:
        """Yields batches whose stored bytes are all in a cache of Penstock."""
        n_batches = self._batches_for(seconds)
        loader = self._loader(cache=self._filled(), indices=self._tiled(self._subset, n_batches), page_cache="keep", **changes)
        self.last = loader
        return forever(loader)

    def paged(self, seconds: float) -> Iterator[Any]:
        """Yields batches of the same samples as `warm`, read from the kernel's page cache, so that reading takes CPU time, too."""
        self._filled()
        loader = self._loader(indices=self._tiled(self._subset, self._batches_for(seconds)), page_cache="keep")
        self.last = loader
        return forever(loader)

    def cold(self, seconds: float) -> Iterator[Any]:
        """Yields batches whose stored bytes are read from storage."""
        loader = self._loader(indices=self._tiled(self.numbers, self._batches_for(seconds)), page_cache="direct")
        self.last = loader
        return forever(loader)

    def stored(self, seconds: float) -> Iterator[Any]:
        """Yields batches of undecoded stored bytes, read from storage at full speed."""
        options = {name: self.given[name] for name in table.marked(table.STORED)}
        options.update(page_cache="direct", cache=None, drop_last=True, encoded=[self.image], fields=[self.image])
        options["indices"] = self._tiled(self.numbers, self._batches_for(seconds))
        loader = Loader._of({**options, "dataset": unweighted(self.dataset)})
        self._open.append(loader)
        self.last = loader
        return forever(loader)

    def _filled(self) -> Cache:
        if self._cache is None:
            self._subset = self.subset(machine.memory_available() // 8 or 1 << 30)
            each = max((self._item_nbytes(int(i)) for i in self._subset[:256]), default=0)
            self._cache = Cache(int(1.5 * each * len(self._subset)) + 64 * len(self.dataset) + _OVERHEAD)
            with self._loader(cache=self._cache, indices=self._subset, drop_last=False, page_cache="keep") as loader:
                for _ in loader:
                    pass
        return self._cache

    def _item_nbytes(self, i: int) -> int:
        return 0 if self.image is None else kept_nbytes(self.dataset.item(i, self.image))

    def _look(self) -> Look:
        if self._looked is None:
            self._looked = Look(self.dataset, self.image or "image", self._random.permutation(self.numbers).tolist())
        return self._looked

    def mean_item_nbytes(self, kind: str | None = None) -> float:
        """Returns the mean stored bytes of a sample's image, or of the whole sample if no image is decoded.

        kind: count only images of this kind (see `kind_of`); None: all.
        """
        found = 0.0 if self.image is None else self._look().mean_nbytes(kind)
        return found or self.dataset_nbytes / self.n_stored

    def stored_nbytes(self) -> tuple[float, float]:
        """Returns the stored bytes of all samples that are drawn, and their fraction of the bytes that an epoch delivers. With
        weights, some samples come several times in an epoch, and others never."""
        delivered = self.mean_item_nbytes() * self.samples
        if self.drawn is None:
            return delivered, 1.0
        positions = self._random.permutation(self.drawn.positions).tolist()
        mean = 0.0 if self.image is None else Look(self.dataset, self.image, positions).mean_nbytes(None)
        nbytes = (mean or self.dataset_nbytes / self.n_stored) * len(positions)
        return nbytes, nbytes / max(delivered, 1.0)

    def sources(self) -> list[dict[str, Any]]:
        """Returns the data sets of a mixture for a report: name, path, kind and opening of each, the number of its samples that are
        drawn, and the number of draws of them in an epoch."""
        import numpy as np

        found = list(leaves(self.dataset))
        if not found:
            return []
        positions = np.unique(self.numbers) if self.drawn is None else self.drawn.positions
        rates = np.ones(len(positions)) if self.drawn is None else self.drawn.rates
        own = np.searchsorted([leaf.first for leaf in found], self.dataset.indices[positions], side="right") - 1
        counts = np.bincount(own, minlength=len(found))
        sums = np.bincount(own, rates, len(found))
        return [
            {"name": leaf.name, "path": leaf.dataset.path, "kind": leaf.dataset.kind, "opening": opening.opening_of(leaf.dataset),
             "samples": int(counts[i]), "draws": round(float(sums[i]), 3)}
            for i, leaf in enumerate(found)
        ]  # fmt: skip

    def kind_of(self, i: int) -> str:
        """Returns the form of a sample's image, or its file name's extension if the form is unknown before the file is read."""
        return kind_of(self.dataset.item(i, self.image or "image"))

    def _batches_for(self, seconds: float) -> int:
        """Returns more batches than a phase can use, because the end of an epoch would interrupt the phase."""
        return max(64, int(seconds * 200_000 / self.batch_size / 10))

    # Quantities -------------------------------------------------------------------------------------

    def storage_of(self, seconds: float) -> tuple[phases.Phase, float]:
        """Reads for `seconds`. Returns the phase, and the bytes read per sample."""
        counted = Delivered(self.stored(seconds), self.image or "image")
        phase = phases.run("storage", counted, phases.nothing, seconds)
        return phase, counted.nbytes / max(counted.samples, 1)

    def images(self, n: int, most_nbytes: int) -> tuple[list[int], Sample, str]:
        """Returns up to n samples, their stored bytes, and the form that most samples have. The samples' means are near those of
        all."""
        from ...data.image import probe

        self.kind = self._look().main
        survey = self._look().survey(self.kind)
        n = max(2, min(n, int(most_nbytes / max(survey.mean_nbytes, 1))))
        found: dict[str, dict[int, bytes]] = {}
        for place in map(int, self._random.permutation(survey.spread(n))):
            number = survey.numbers[place]
            data = self.dataset.read(number, self.image or "image")
            form = self.dataset.item(number, self.image or "image")["form"] or probe(data).form
            found.setdefault(str(form), {})[place] = data
        form = max(found, key=lambda name: len(found[name]))
        places = list(found[form])
        sample = Sample(list(found[form].values()), survey, places, self.dataset, self.image or "image")
        return [survey.numbers[place] for place in places], sample, form

    def changed(self) -> str:
        """Returns sentences about how the data set changed since it was opened, as far as noticed, or "".

        Every read compares the file with what it was, and another file is an error. But readers of a packed data set keep reading
        the state that they have open, so the data set is opened again here and compared.
        """
        lost = [] if self._looked is None else self._looked.lost
        if lost:
            images = "An image" if len(lost) == 1 else f"{len(lost)} images"
            return f"{images} could not be read any more as the data set had listed them; the first: {lost[0].rstrip('.')}."
        own = [leaf.dataset for leaf in leaves(self.dataset)] or [self.dataset]
        return next(filter(None, map(_changed, own)), "")

    def gpu(self) -> tuple[dict[str, float], float]:
        """Returns a sample's costs of link and GPU in the last phase, and the bytes per second of the link (0: no upload)."""
        stats = self.last.stats()
        upload = stats["stages"]["upload"]
        return gpu_costs(stats), upload["nbytes"] / upload["link"] if upload["link"] > 0 else 0.0

    def close_last(self) -> None:
        while self._open:
            self._open.pop().close()

    def wait_until_steady(self) -> None:
        """Gives the threads of closed loaders time to end before the next clock starts."""
        time.sleep(0.01)
