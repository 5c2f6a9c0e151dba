"""Exports a loader's statistics to other tools: Prometheus, TensorBoard, and a summary over ranks.

All functions read ``Loader.stats()``, which costs some tens of microseconds. So call them about once a second, not for every batch.
No other package is needed, except for :class:`PrometheusCollector`.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

from ..base.public import door

if TYPE_CHECKING:
    from ..loading.loader import Loader
    from ..loading.stats import LoaderStats, StepStats

__all__ = ["PrometheusCollector", "RankReport", "RankSteps", "log_scalars", "metrics_text", "rank_report", "straggler"]

# A rank is a straggler if its steps take longer than those of the median rank by this fraction.
_STRAGGLER_SHARE = 0.05


class _Family(NamedTuple):
    """A metric: its name without suffix, its kind ("counter" or "gauge"), its meaning, and its values by labels."""

    name: str
    kind: str
    help: str
    samples: list[tuple[dict[str, str], float]]


def _one(value: float, **labels: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value)]


def _stage_families(stats: LoaderStats) -> Iterator[_Family]:
    stages = stats["stages"]
    yield _Family(
        "penstock_stage_seconds", "counter", "Time of each stage: work, and waiting for the stage before and behind.",
        [
            ({"stage": name, "kind": kind}, seconds)
            for name, clock in stages.items()
            for kind, seconds in (("work", clock["work"]), ("wait_in", clock["wait_in"]), ("wait_out", clock["wait_out"]))
        ],
    )
    yield _Family(
        "penstock_worker_seconds", "counter", "Time of each worker.",
        [
            ({"worker": str(i), "state": state}, seconds)
            for i, clock in enumerate(stats["worker_clocks"])
            for state, seconds in (
                ("busy", clock["busy"]), ("waiting_for_storage", clock["waiting_for_storage"]), ("idle", clock["idle"])
            )
        ],
    )


def _step_families(stats: LoaderStats) -> Iterator[_Family]:
    step = stats["step"]
    spans = {"epoch": step["epoch"], "window": step["window"]}
    yield _Family(
        "penstock_step_seconds", "gauge", "Time from one batch to the next: of this epoch, and of the last 256 steps.",
        [
            ({"span": span, "stat": stat}, value)
            for span, steps in spans.items()
            for stat, value in (
                ("mean", steps["mean"]), ("sd", steps["sd"]), ("p50", steps["p50"]), ("p99", steps["p99"]),
                ("max", steps["max"]),
            )
        ],
    )
    yield _Family(
        "penstock_stall_ratio", "gauge", "Share of step time in which the caller waited for a batch, 0 to 1.",
        [({"span": span}, steps["stall"]) for span, steps in spans.items()],
    )
    yield _Family(
        "penstock_stall_seconds", "gauge", "Time of waiting for batches, by the stage that was the cause.",
        [
            ({"span": span, "stage": stage}, seconds)
            for span, steps in spans.items()
            for stage, seconds in steps["causes"].items()
        ],
    )
    yield _Family("penstock_steps", "counter", "Steps.", _one(stats["stages"]["caller"]["count"]))
    yield _Family(
        "penstock_workers_busy_ratio", "gauge", "Share of the last 256 steps in which workers filled rows, 0 to 1.",
        _one(step["workers_busy"]),
    )


def _families(stats: LoaderStats) -> Iterator[_Family]:
    yield _Family("penstock_batches", "counter", "Batches delivered.", _one(stats["batches"]))
    yield _Family(
        "penstock_samples", "counter", "Samples by what became of them.",
        [({"result": result}, float(n)) for result, n in stats["samples"].items()],  # type: ignore[arg-type]
    )
    yield _Family("penstock_read_bytes", "counter", "Bytes read from storage.", _one(stats["storage"]["nbytes_read"]))
    yield _Family("penstock_reads", "counter", "Reads from storage.", _one(stats["storage"]["reads"]))
    yield _Family(
        "penstock_unchecked_items", "counter", "Items used although the data set has no checksum of them.",
        _one(stats["storage"]["unchecked"]),
    )
    yield _Family("penstock_decoded_bytes", "counter", "Bytes of pixels decoded.", _one(stats["decode"]["nbytes_decoded"]))
    cache = stats["cache"]
    yield _Family(
        "penstock_cache_items", "counter", "Items by whether the cache had them.",
        _one(cache["hits"], result="hit") + _one(cache["misses"], result="miss"),
    )
    yield _Family("penstock_cache_hit_bytes", "counter", "Bytes of items taken from the cache.", _one(cache["nbytes_hit"]))
    yield _Family("penstock_cache_used_bytes", "gauge", "Used part of the cache.", _one(cache["used"]))
    yield from _stage_families(stats)
    yield from _step_families(stats)
    yield _Family(
        "penstock_queue_length", "gauge", "Rows and batches in queues now.",
        [({"queue": queue}, float(n)) for queue, n in stats["queues"]["now"].items()],  # type: ignore[arg-type]
    )
    yield _Family(
        "penstock_fallbacks", "counter", "Slower ways taken because a faster one was not possible.",
        [({"kind": kind}, n) for kind, n in stats["fallbacks"].items()],
    )
    memory = stats["memory"]
    yield _Family(
        "penstock_host_memory_bytes", "gauge", "Host memory.",
        _one(memory["limit"], kind="limit") + _one(memory["used"], kind="used") + _one(memory["peak"], kind="peak"),
    )


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (name, str(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))
        for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


def _labels_of(loader: Loader, labels: Mapping[str, str] | None) -> dict[str, str]:
    return {"rank": str(loader.stats()["ranks"]["rank"])} if labels is None else dict(labels)


def metrics_text(loader: Loader, labels: Mapping[str, str] | None = None) -> str:
    """Returns the loader's counters in Prometheus' text format, to be served as ``text/plain; version=0.0.4``.

    ``labels`` are added to each metric; None: ``{"rank": "0"}``. Give the loaders of one process different labels.
    """
    own = _labels_of(loader, labels)
    lines = []
    for family in _families(loader.stats()):
        name = family.name + ("_total" if family.kind == "counter" else "")
        lines.append(f"# HELP {name} {family.help}")
        lines.append(f"# TYPE {name} {family.kind}")
        lines.extend(f"{name}{_labels(own | extra)} {float(value)!r}" for extra, value in family.samples)
    return "\n".join(lines) + "\n"


class PrometheusCollector:
    """Offers the metrics of :func:`metrics_text` to the package prometheus_client:
    ``REGISTRY.register(PrometheusCollector(loader))``.

    Needs ``prometheus_client``. It reads the loader whenever the registry collects.
    """

    def __init__(self, loader: Loader, labels: Mapping[str, str] | None = None) -> None:
        self._loader = loader
        self._own = _labels_of(loader, labels)

    def collect(self) -> Iterator[Any]:
        """Yields the metrics. The registry calls this method."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for family in _families(self._loader.stats()):
            names = [*self._own, *(family.samples[0][0] if family.samples else ())]
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=names)
            for extra, value in family.samples:
                metric.add_metric([*self._own.values(), *extra.values()], value)
            yield metric


class _Writer(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


def log_scalars(writer: _Writer, loader: Loader, global_step: int, prefix: str = "penstock") -> None:
    """Writes the statistics of the last 256 steps to a ``SummaryWriter`` of TensorBoard, or to any object with ``add_scalar``.

    Tags: ``penstock/step/mean`` (seconds; also sd, p50, p99), ``penstock/stall`` (0 to 1), ``penstock/stall/<stage>``
    (its parts, by cause), ``penstock/workers_busy``, ``penstock/samples_per_second``, ``penstock/queues/<queue>``,
    ``penstock/cache/hit_ratio``.
    """
    stats = loader.stats()
    window = stats["step"]["window"]
    scalars = {f"step/{name}": window[name] for name in ("mean", "sd", "p50", "p99")}
    scalars["stall"] = window["stall"]
    for stage, seconds in window["causes"].items():
        scalars[f"stall/{stage}"] = seconds / window["seconds"] if window["seconds"] else 0.0
    scalars["workers_busy"] = stats["step"]["workers_busy"]
    scalars["samples_per_second"] = loader.batch_size / window["mean"] if window["mean"] else 0.0
    for queue, length in stats["queues"]["mean"].items():
        scalars[f"queues/{queue}"] = float(length)  # type: ignore[arg-type]
    asked = stats["cache"]["hits"] + stats["cache"]["misses"]
    scalars["cache/hit_ratio"] = stats["cache"]["hits"] / asked if asked else 0.0
    for tag, value in scalars.items():
        writer.add_scalar(f"{prefix}/{tag}", value, global_step)


class RankSteps(TypedDict):
    """The steps of one rank: their number, and the mean seconds of a step and of its parts.

    data: waiting for a batch. peers: waiting for other ranks, marked by ``Loader.waiting_for_peers``. own: the rest, which is the
    rank's own computation. cause: the stage that most of ``data`` was due to, or "".
    """

    rank: int
    steps: int
    step: float
    own: float
    data: float
    peers: float
    cause: str


class RankReport(TypedDict):
    """The steps of all ranks, the rank that the others wait for (or None), and one line about it."""

    ranks: list[RankSteps]
    straggler: int | None
    text: str


def _rank_steps(rank: int, steps: StepStats) -> RankSteps:
    n = max(steps["steps"], 1)
    return {
        "rank": rank,
        "steps": steps["steps"],
        "step": steps["mean"],
        "own": (steps["seconds"] - steps["wait_seconds"] - steps["peers_seconds"]) / n,
        "data": steps["wait_seconds"] / n,
        "peers": steps["peers_seconds"] / n,
        "cause": steps["cause"],
    }


def straggler(ranks: Sequence[RankSteps]) -> RankReport:
    """Finds the rank that the others wait for: the one with the longest time of its own computation and of waiting for data.

    None if that time is at most 5 % longer than the median rank's. If waiting for other ranks was not marked
    (``Loader.waiting_for_peers``), all ranks seem as slow as the slowest one, and the report says so.
    """
    listed = sorted(ranks, key=lambda steps: steps["rank"])
    if len(listed) < 2 or not all(steps["steps"] for steps in listed):
        return {"ranks": listed, "straggler": None, "text": "one rank, or no steps yet"}
    busy = {steps["rank"]: steps["own"] + steps["data"] for steps in listed}
    slowest = max(listed, key=lambda steps: busy[steps["rank"]])
    median = statistics.median_low(busy.values())
    late = busy[slowest["rank"]] - median
    if late <= _STRAGGLER_SHARE * median:
        marked = any(steps["peers"] for steps in listed)
        hint = "" if marked else "; no waiting for other ranks was marked, which would hide one"
        return {"ranks": listed, "straggler": None, "text": f"no straggler among {len(listed)} ranks{hint}"}
    others = [steps for steps in listed if steps is not slowest]
    own = slowest["own"] - statistics.median_low([steps["own"] for steps in others])
    data = slowest["data"] - statistics.median_low([steps["data"] for steps in others])
    why = f"waiting for data ({slowest['cause'] or 'no single cause'})" if data > own else "its own computation"
    text = f"rank {slowest['rank']} is {1e3 * late:.1f} ms a step behind the median rank: {why}"
    return {"ranks": listed, "straggler": slowest["rank"], "text": text}


def rank_report(loader: Loader) -> RankReport:
    """Gathers the last 256 steps of all ranks and finds the straggler: see :func:`straggler`.

    If ``torch.distributed`` is initialised, this is a collective call, which all ranks must make. Otherwise it reports this rank
    alone.
    """
    stats = loader.stats()
    mine = _rank_steps(stats["ranks"]["rank"], stats["step"]["window"])
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return straggler([mine])
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, mine)
    return straggler(gathered)


door(__name__, "penstock.metrics")
