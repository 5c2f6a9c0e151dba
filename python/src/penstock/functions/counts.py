"""Statistics of the user's functions."""

from __future__ import annotations

from typing import TypedDict


class FunctionStats(TypedDict):
    """Counters of Functions.sample and Functions.batch, see :class:`Loader`. seconds: run time, summed over the workers;
    wait_seconds: time that the caller waited for their results. nbytes_shared: bytes of shared memory of worker processes."""

    kind: str
    workers: int
    batches: int
    samples: int
    seconds: float
    seconds_per_sample: float
    wait_seconds: float
    nbytes_shared: int


NO_FUNCTION: FunctionStats = {
    "kind": "", "workers": 0, "batches": 0, "samples": 0, "seconds": 0.0, "seconds_per_sample": 0.0, "wait_seconds": 0.0,
    "nbytes_shared": 0,
}  # fmt: skip
