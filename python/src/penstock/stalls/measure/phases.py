"""Runs a phase of an analysis: takes batches, runs a step on each, and measures the time of both."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from . import steady
from .machine import OtherWork

Step = Callable[[Any], Any]

_FEWEST = 6  # minimum number of batches, unless they take more than 3 times the phase's seconds


@dataclass(frozen=True)
class Phase:
    """The measurements of a phase, without its warm-up.

    Attributes:
        name: "resident", "prepared", "warm", "cold", or the name of a part of the cost probe.
        rate: samples per second with its confidence interval.
        cpu_seconds, cpu_low, cpu_high: CPU seconds of the whole process per sample, with their 95 % interval.
        caller_cpu_seconds: CPU seconds of the calling thread per batch, without the step.
        step_cpu_seconds: CPU seconds of the calling thread per step.
        wait_seconds, step_seconds: mean time per batch: of waiting for it, and of the step.
        step_sd_seconds: standard deviation of the step's time.
        step_p99_seconds: 99th percentile of the step's time.
        other_cores: mean number of cores that other processes used meanwhile.
    """

    name: str
    rate: steady.Rate
    cpu_seconds: float
    cpu_low: float
    cpu_high: float
    caller_cpu_seconds: float
    step_cpu_seconds: float
    wait_seconds: float
    step_seconds: float
    step_sd_seconds: float
    step_p99_seconds: float
    other_cores: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        rate = self.rate
        return {
            "samples_per_second": rate.samples_per_second,
            "low": finite(rate.low),
            "high": finite(rate.high),
            "batches": rate.batches,
            "warm_up_batches": rate.dropped,
            "seconds": rate.seconds,
            "batch_sd_seconds": rate.sd_seconds,
            "cpu_seconds_per_sample": self.cpu_seconds,
            "wait_seconds_per_batch": self.wait_seconds,
            "step_seconds": self.step_seconds,
            "step_sd_seconds": self.step_sd_seconds,
            "step_p99_seconds": self.step_p99_seconds,
            "other_cores": round(self.other_cores, 3),
        }


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def nothing(batch: Any) -> None:
    """A step that does nothing."""


def sleeper(seconds: float) -> Step:
    """Returns a step that ends `seconds` after it began, like an emulated accelerator."""

    def step(batch: Any) -> None:
        end = time.perf_counter() + seconds
        left = seconds
        while left > 0:
            time.sleep(left)
            left = end - time.perf_counter()

    return step


def synchronise() -> None:
    """Waits for the GPU if the process uses torch's CUDA, so that the phase includes the GPU's work."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()


def samples_in(batch: Any) -> int:
    """Returns the number of samples in a batch: the length of its first array."""
    if isinstance(batch, dict):
        values = [batch["index"]] if "index" in batch else list(batch.values())
    elif isinstance(batch, (list, tuple)):
        values = list(batch)
    else:
        values = [batch]
    for value in values:
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
        if isinstance(value, (dict, list, tuple)) and value is not batch:
            found = samples_in(value)
            if found > 0 and not isinstance(value[0] if isinstance(value, (list, tuple)) else None, (str, bytes)):
                return found
            return len(value)
    return 1


class _Clock:
    """The times of a phase: a list for each quantity, with an entry for each batch."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.steps: list[float] = []
        self.samples: list[int] = []
        self.cpu: list[float] = []
        self.caller_cpu: list[float] = []
        self.step_cpu: list[float] = []


def _one(clock: _Clock, batches: Iterator[Any], step: Step, at_end: Callable[[], None]) -> bool:
    """Takes one batch and runs one step. Returns False if no batch is left."""
    cpu, own, begin = time.process_time(), time.thread_time(), time.perf_counter()
    batch = next(batches, None)
    if batch is None:
        return False
    middle, own_middle = time.perf_counter(), time.thread_time()
    step(batch)
    at_end()
    end, own_end = time.perf_counter(), time.thread_time()
    clock.waits.append(middle - begin)
    clock.steps.append(end - middle)
    clock.samples.append(samples_in(batch))
    clock.cpu.append(time.process_time() - cpu)
    clock.caller_cpu.append(own_middle - own)
    clock.step_cpu.append(own_end - own_middle)
    return True


def run(name: str, batches: Iterator[Any], step: Step, seconds: float, *, sync: bool = False) -> Phase:
    """Runs `step` on `batches` for about `seconds` and returns the phase.

    sync: wait for the GPU after each step, so that a step's time includes its work on the GPU.
    """
    clock = _Clock()
    at_end = synchronise if sync else lambda: None
    others = OtherWork()
    start = time.perf_counter()
    while _one(clock, batches, step, at_end):
        now = time.perf_counter() - start
        if now >= seconds and (len(clock.steps) >= _FEWEST or now >= 3 * seconds):
            break
    synchronise()
    return replace(summary(name, clock), other_cores=others.cores())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _deviation(values: list[float]) -> float:
    mean = _mean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


def summary(name: str, clock: _Clock) -> Phase:
    times = [wait + step for wait, step in zip(clock.waits, clock.steps, strict=True)]
    rate = steady.rate_of(times, clock.samples)
    first = rate.dropped
    cpu_of = [c / max(n, 1) for c, n in zip(clock.cpu[first:], clock.samples[first:], strict=True)]
    cpu = steady.batch_means(cpu_of)
    steps = clock.steps[first:]
    ordered = sorted(steps)
    return Phase(
        name=name,
        rate=rate,
        cpu_seconds=sum(clock.cpu[first:]) / max(sum(clock.samples[first:]), 1),
        cpu_low=cpu.low,
        cpu_high=cpu.high,
        caller_cpu_seconds=_mean(clock.caller_cpu[first:]),
        step_cpu_seconds=_mean(clock.step_cpu[first:]),
        wait_seconds=_mean(clock.waits[first:]),
        step_seconds=_mean(steps),
        step_sd_seconds=_deviation(steps),
        step_p99_seconds=ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else math.nan,
    )
