"""What becomes of samples of which a Functions.sample raises: ``Loader(on_error=...)`` decides, as for damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..data.dataset import Dataset
from ..errors import LimitError
from . import calls

_MOST_TRIES = 16  # other samples that are tried for a bad one
_MOST_LISTED = 4096  # bad samples in the quarantine

Fetch = Callable[[int, int], dict[str, Any]]  # (epoch, sample): that sample's values, as Functions.sample gets them


class BadSamples:
    """The bad samples of one loader's Functions.sample. A batch that is made anew counts once."""

    def __init__(self, given: Mapping[str, Any], dataset: Dataset) -> None:
        self._given, self._dataset = given, dataset
        self.decides = given["on_error"] != "raise"  # else the error is the caller's
        self.replaces = given["on_error"] == "replace"
        self.pads = given["on_empty"] != "empty"
        self.entries: dict[int, dict[str, Any]] = {}  # of the quarantine, by sample
        self.n_bad = self.n_replaced = self.n_dropped = 0
        self._epoch = -1
        self._noted: set[tuple[int, int]] = set()  # (step, sample) of that epoch

    def note(self, place: calls.Place, failure: calls.Failure) -> bool:
        """Counts a bad sample. False: it was counted before. LimitError: the epoch has too many."""
        if place.epoch != self._epoch:
            self._epoch, self._noted = place.epoch, set()
        sample = -1 if failure.sample is None else failure.sample
        if (place.step, sample) in self._noted:
            return False
        self._noted.add((place.step, sample))
        self.n_bad += 1
        if len(self.entries) < _MOST_LISTED:
            error = calls.error_of(failure, self._dataset, place)
            self.entries.setdefault(sample, {
                "message": str(error), "status": error.status, "text": error.text, "room": "function", "codec": None,
                "dataset": error.dataset, "file": None, "sample": sample, "source_sample": error.source_sample,
                "offset": None, "os_error": None,
            })  # fmt: skip
        most = self._given["max_errors"]
        if most is not None and len(self._noted) > most:
            text = f"Functions.sample has failed for more samples of the epoch than max_errors {most}; the last one: {failure.text}"
            raise LimitError(f"data set {self._dataset.path!r}: {text}", text=text, dataset=self._dataset.path, sample=sample)
        return True

    def add_to(self, raw: dict[str, Any]) -> None:
        """Adds to the counters of the C library, which has handed out what was dropped or replaced here."""
        raw["n_bad"] += self.n_bad
        raw["n_replaced"] += self.n_replaced
        raw["n_samples"] -= self.n_dropped

    def others(self, place: calls.Place, row: int) -> Iterator[int]:
        """Yields samples that may stand for that of a row: a function of seed, epoch, sample and draw."""
        import numpy as np

        samples = self._dataset._indices
        if self._given["indices"] is not None:
            chosen = np.asarray(self._given["indices"])
            samples = chosen if samples is None else np.asarray(samples)[chosen]
        n = self._dataset._count if samples is None else len(samples)
        key = (place.draws[row], place.samples[row], place.epoch)
        for i in calls.generator(self._given["seed"], calls.REPLACE, *key).integers(n, size=_MOST_TRIES).tolist():
            yield i if samples is None else int(samples[i])
