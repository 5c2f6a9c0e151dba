"""What is counted of functions of the user."""

from __future__ import annotations

from typing import TypedDict


class FunctionStats(TypedDict):
    """Functions.sample and Functions.batch, see :class:`Loader`. seconds: summed over workers; wait_seconds: time that the
    caller waited for workers' results. nbytes_shared: shared memory of worker processes."""

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
