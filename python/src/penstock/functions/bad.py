"""Handles samples for which the user's Functions.sample raises an error. ``Loader(on_error=...)`` decides, as for damaged
samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..data.dataset import Dataset
from ..errors import LimitError
from . import calls

_MOST_TRIES = 16  # other samples that are tried as a replacement of a bad one
_MOST_LISTED = 4096  # bad samples that the quarantine may list

Fetch = Callable[[int, int], dict[str, Any]]  # (epoch, sample): returns the sample's values, as Functions.sample gets them


class BadSamples:
    """Counts and replaces the samples for which the Functions.sample of one loader failed. A batch that is made again counts
    once."""

    def __init__(self, given: Mapping[str, Any], dataset: Dataset) -> None:
        self._given, self._dataset = given, dataset
        self.decides = given["on_error"] != "raise"  # if False, the caller gets the error
        self.replaces = given["on_error"] == "replace"
        self.pads = given["on_empty"] != "empty"
        self.entries: dict[int, dict[str, Any]] = {}  # the quarantine: its entries by sample number
        self.n_bad = self.n_replaced = self.n_dropped = 0
        self._epoch = -1
        self._noted: set[tuple[int, int]] = set()  # (step, sample) of the bad samples of this epoch

    def note(self, place: calls.Place, failure: calls.Failure) -> bool:
        """Counts a bad sample. Returns False if it was counted before. LimitError: the epoch has more than ``max_errors``."""
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
        """Adds these counts to the C library's statistics, because the library counts a sample that fails here as delivered."""
        raw["n_bad"] += self.n_bad
        raw["n_replaced"] += self.n_replaced
        raw["n_samples"] -= self.n_dropped

    def others(self, place: calls.Place, row: int) -> Iterator[int]:
        """Yields samples that may replace a row's sample. They depend on seed, epoch, sample and draw only."""
        import numpy as np

        samples = self._dataset._indices
        if self._given["indices"] is not None:
            chosen = np.asarray(self._given["indices"])
            samples = chosen if samples is None else np.asarray(samples)[chosen]
        n = self._dataset._count if samples is None else len(samples)
        key = (place.draws[row], place.samples[row], place.epoch)
        for i in calls.generator(self._given["seed"], calls.REPLACE, *key).integers(n, size=_MOST_TRIES).tolist():
            yield i if samples is None else int(samples[i])
