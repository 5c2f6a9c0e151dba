"""The result of ``Loader.stats()``: its types, and its conversion from the C library's counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from ..data.notebook import Stats
from ..functions.counts import NO_FUNCTION, FunctionStats


class SampleStats(TypedDict):
    """Numbers of samples: delivered, bad, replaced by another sample, and repeated so that all ranks have equally many."""

    delivered: int
    bad: int
    replaced: int
    padded: int


class SourceStats(TypedDict):
    """One source of a mixture. delivered: rows delivered of it since the loader was made."""

    delivered: int


class StorageStats(TypedDict):
    """Reads. reads: requests to the storage. merged: reads that were part of a neighbour's request and are not counted in
    ``reads``; nbytes_gap: bytes between such neighbours that were read and thrown away. ordered: those of ``reads`` that read files
    of a folder together, in the order in which the disk stores them. seconds: time with at least one read under way. partial_reads:
    images that were read in parts. unchecked: items that were used without a checksum, because the data set has none: files of
    plain folders, and items of tars, zips and tables whose index has none. For tables with compressed pages: pages_decoded;
    page_hits (items found in a page that was decoded for another item, and not read again); and the memory of the pages that are
    kept, which is part of ``host_memory``."""

    kind: str
    reason: str
    nbytes_read: int
    reads: int
    merged: int
    nbytes_gap: int
    ordered: int
    seconds: float
    fallback_direct: int
    partial_reads: int
    unchecked: int
    pages_decoded: int
    page_hits: int
    pages_nbytes: int


class DecodeStats(TypedDict):
    """Decoding. seconds: summed over workers. units: units of PLI images that were decoded, and all units of these images."""

    nbytes_decoded: int
    seconds: float
    fallback_region: int
    units: int
    units_whole: int
    scaled: int


class CacheStats(TypedDict):
    """Items taken from the cache (hits), and items that were read because the cache did not have them (misses).

    limit and used: the cache's bytes, for all data sets in it; items: of this data set. All 0 without a cache. choice: what
    cache="auto" chose, and why; "" for other arguments.
    form, resolution: what the cache keeps (``CacheUse.form``, ``CacheUse.resolution``); "" without a cache. hits_training: hits
    whose pictures were at the training size.
    For a form other than "stored": recoded: images that were re-coded by this loader, or by the host service for it; nbytes_saved:
    bytes saved by images that became smaller; not_recoded: images that the form applies to, but that were kept as stored. With
    ``CacheUse(recode="idle")``: to_recode: items of the cache that still wait to be re-coded; recode_seconds: total time that
    workers, or the host service for this loader, spent on re-coding.
    For the host cache, limit and items are those of the service, and used is the share of this data set. fetched: misses that the
    service read for this loader, nbytes_fetched: their stored bytes.
    """

    hits: int
    misses: int
    nbytes_hit: int
    items: int
    limit: int
    used: int
    choice: str
    form: str
    resolution: str
    hits_training: int
    recoded: int
    nbytes_saved: int
    not_recoded: int
    to_recode: int
    recode_seconds: float
    fetched: int
    nbytes_fetched: int


class TierStats(TypedDict):
    """Counters of one tier that stored bytes come from: items (for the storage: reads), their bytes, and the speed.

    mean_seconds, p99_seconds: time from the request to the last byte; for "memory" and "host", which copy nothing, time of the
    look-up. bytes_per_second: while at least one request was under way; 0 where nothing is copied. All 0: no hit yet.
    """

    hits: int
    nbytes: int
    mean_seconds: float
    p99_seconds: float
    bytes_per_second: float


class ShareStats(TypedDict):
    """batches: batches that came from the group of ``share``. alone: batches that this loader nevertheless made itself.

    sharing: whether the host service is connected. copied: batches that were copied as a whole. reason: why the last batch made
    alone was not shared, or "". epoch: the newest epoch that a job has begun in this group, or in a group with other transforms, as
    far as this loader knows, or None. samples: number of samples that the service has prepared for the group.

    The following counters are the service's totals for this group and for all groups of the same name, data set and order with
    other transforms. decoded: images and masks that it decoded; decoded_shared: decodes that a group took over from another group;
    decoded_apart: images decoded for one group although another group needs other pixels of them. read, nbytes_read: stored items
    that it read; read_shared, nbytes_read_shared: reads that a group took over from another group. cached: items from the host
    cache. given_up: items that it had no memory to keep until all groups had used them.
    """

    sharing: bool
    batches: int
    copied: int
    alone: int
    reason: str
    epoch: int | None
    samples: int
    decoded: int
    decoded_shared: int
    decoded_apart: int
    read: int
    nbytes_read: int
    read_shared: int
    nbytes_read_shared: int
    cached: int
    given_up: int


class BoxStats(TypedDict):
    """Number of boxes that ``min_area`` or ``min_visibility`` dropped."""

    dropped: int


class CallerStats(TypedDict):
    """The training loop. wait_seconds: time that it waited for a batch."""

    wait_seconds: float


class MemoryStats(TypedDict):
    """Host memory in bytes, and the number of batch slots."""

    limit: int
    used: int
    peak: int
    slots: int
    slots_held: int


class DeviceStats(TypedDict):
    """Where batches lie ("cpu", "cuda:k"), which images CPU and GPU decoded, and the GPU's memory in bytes."""

    device: str
    cpu_samples: int
    gpu_samples: int
    gpu_fallback: int
    gpu_fallback_reason: str
    gpu_again: int
    nbytes_upload: int
    memory_limit: int
    memory_used: int
    memory_peak: int


class WorkerSeconds(TypedDict):
    """Seconds summed over workers: making rows, waiting for storage, idle because the caller is slower."""

    busy: float
    waiting_for_storage: float
    idle: float


class StageStats(TypedDict):
    """One stage of loading. Seconds of work, of waiting for the previous stage (wait_in), and of waiting for the next one
    (wait_out).

    include/penstock/meter.h defines the times, ``count`` and ``nbytes`` of each stage. In "upload", link is the time of uploads,
    and gpu the time of decoding and augmenting on the GPU, both in seconds by the GPU's clock.
    """

    work: float
    wait_in: float
    wait_out: float
    count: int
    nbytes: int
    link: float
    gpu: float


class StepStats(TypedDict):
    """Training steps, each from one batch to the next. mean, sd, p50, p99, max, max_wait: seconds of a step.

    seconds: total time of all steps. wait_seconds: the part of it spent waiting for batches. peers_seconds: the part spent waiting
    for other ranks (``Loader.waiting_for_peers``). stall: wait_seconds / seconds. causes: wait_seconds by stage. cause: the stage
    with the largest wait, "" if stall is below 2 %.
    """

    steps: int
    mean: float
    sd: float
    p50: float
    p99: float
    max: float
    max_wait: float
    seconds: float
    wait_seconds: float
    peers_seconds: float
    stall: float
    causes: dict[str, float]
    cause: str


class Steps(TypedDict):
    """Steps of the current (or last) epoch, and a window of the last 256 steps.

    first_wait: seconds until the first batch of the epoch, which is in no step. workers_busy: fraction of the window in which
    workers filled rows, 0 to 1. text: one line about the window, such as "stall 37 %: decode (2 workers busy 99 %)".
    """

    epoch: StepStats
    window: StepStats
    first_wait: float
    workers_busy: float
    text: str


class QueueStats(TypedDict):
    """Present lengths of queues: rows being read, rows that wait for a worker, batches being filled, complete batches."""

    rows_reading: float
    rows_ready: float
    batches_running: float
    batches_ready: float


class Queues(TypedDict):
    """Present lengths of queues, and their means over the moments when a batch was requested."""

    now: QueueStats
    mean: QueueStats


class WorkerClock(TypedDict):
    """Seconds of one worker. fetch to keep are the parts of busy, estimated from the images that the worker timed."""

    busy: float
    waiting_for_storage: float
    idle: float
    rows: int
    fetch: float
    decode: float
    augment: float
    batch: float
    keep: float


RankStats = TypedDict("RankStats", {"rank": int, "world_size": int, "from": str})


class FormStats(TypedDict):
    """Counters of one of the forms of ``Loader(forms=...)``.

    share: present fraction of the rows. rows: rows whose item was looked up in this form, including batches not delivered yet.
    """

    share: float
    rows: int


class FormsStats(TypedDict):
    """How rows were divided among forms.

    by_form: counters by the names that were given. other: rows whose sample lacks the chosen form, or has other pixels in it; they
    were read in the first allowed form. corrections: how often ``Forms(choice="measured")`` changed the fractions.
    """

    by_form: dict[str, FormStats]
    other: int
    corrections: int


class LoaderStats(TypedDict):
    """Counters since the loader was made. Times are seconds, sizes are bytes. batches: batches that were made, also again after an
    exception. skipped: batches that :meth:`Loader.skip_batch` skipped. sources: by name, for a :class:`Mixture`, else {}."""

    batches: int
    skipped: int
    samples: SampleStats
    sources: dict[str, SourceStats]
    storage: StorageStats
    decode: DecodeStats
    forms: FormsStats
    cache: CacheStats
    share: ShareStats
    tiers: dict[str, TierStats]
    boxes: BoxStats
    caller: CallerStats
    function: FunctionStats
    memory: MemoryStats
    device: DeviceStats
    workers: int
    worker_seconds: WorkerSeconds
    cpu_level: str
    cpu_rooms: str
    fallbacks: dict[str, int]
    fallback_reasons: dict[str, str]
    epoch: int
    ranks: RankStats
    stages: dict[str, StageStats]
    step: Steps
    queues: Queues
    worker_clocks: list[WorkerClock]


# A stall of less than this fraction of the time gets no cause.
_STALL_MIN = 0.02


def _step_stats(raw: dict[str, Any]) -> StepStats:
    causes = {name: ns / 1e9 for name, ns in raw["causes"].items()}
    stall = raw["wait_ns"] / raw["total_ns"] if raw["total_ns"] else 0.0
    return {
        "steps": raw["n"],
        "mean": raw["mean_ns"] / 1e9,
        "sd": raw["sd_ns"] / 1e9,
        "p50": raw["p50_ns"] / 1e9,
        "p99": raw["p99_ns"] / 1e9,
        "max": raw["max_ns"] / 1e9,
        "max_wait": raw["wait_max_ns"] / 1e9,
        "seconds": raw["total_ns"] / 1e9,
        "wait_seconds": raw["wait_ns"] / 1e9,
        "peers_seconds": raw["peers_ns"] / 1e9,
        "stall": stall,
        "causes": causes,
        "cause": max(causes, key=lambda name: causes[name]) if stall >= _STALL_MIN else "",
    }


def stall_text(window: StepStats, workers_busy: float, n_workers: int) -> str:
    """Returns one line about the time that the caller waited, and its cause."""
    if window["steps"] == 0:
        return "no steps yet"
    text = f"stall {100 * window['stall']:.0f} %"
    if not window["cause"]:
        return text
    workers = f"{n_workers} worker{'s' if n_workers != 1 else ''} busy" if n_workers else "no workers: the caller busy"
    return f"{text}: {window['cause']} ({workers} {100 * workers_busy:.0f} %)"


def _queues(raw: dict[str, Any]) -> Queues:
    n = max(raw["n_asked"], 1)
    return {
        "now": {
            "rows_reading": float(raw["n_rows_reading"]),
            "rows_ready": float(raw["n_rows_ready"]),
            "batches_running": float(raw["n_batches_running"]),
            "batches_ready": float(raw["n_batches_ready"]),
        },
        "mean": {
            "rows_reading": raw["sum_rows_reading"] / n,
            "rows_ready": raw["sum_rows_ready"] / n,
            "batches_running": raw["sum_batches_running"] / n,
            "batches_ready": raw["sum_batches_ready"] / n,
        },
    }


def _worker_clock(raw: dict[str, int]) -> WorkerClock:
    return {
        "busy": raw["busy_ns"] / 1e9,
        "waiting_for_storage": raw["wait_in_ns"] / 1e9,
        "idle": raw["wait_out_ns"] / 1e9,
        "rows": raw["n_rows"],
        "fetch": raw["fetch_ns"] / 1e9,
        "decode": raw["decode_ns"] / 1e9,
        "augment": raw["augment_ns"] / 1e9,
        "batch": raw["batch_ns"] / 1e9,
        "keep": raw["keep_ns"] / 1e9,
    }


def _steps(raw: dict[str, Any], n_workers: int) -> Steps:
    window = _step_stats(raw["window"])
    return {
        "epoch": _step_stats(raw["epoch"]),
        "window": window,
        "first_wait": raw["first_wait_ns"] / 1e9,
        "workers_busy": raw["workers_busy"],
        "text": stall_text(window, raw["workers_busy"], n_workers),
    }


def _stages(raw: dict[str, Any]) -> dict[str, StageStats]:
    return {
        name: {
            "work": clock["work_ns"] / 1e9,
            "wait_in": clock["wait_in_ns"] / 1e9,
            "wait_out": clock["wait_out_ns"] / 1e9,
            "count": clock["n"],
            "nbytes": clock["nbytes"],
            "link": clock["link_ns"] / 1e9,
            "gpu": clock["gpu_ns"] / 1e9,
        }
        for name, clock in raw["stages"].items()
    }


def _storage(raw: dict[str, Any], storages: tuple[str, ...]) -> StorageStats:
    return {
        "kind": storages[raw["storage"]],
        "reason": raw["storage_reason"],
        "nbytes_read": raw["nbytes_read"],
        "reads": raw["n_reads"],
        "merged": raw["n_merged_reads"],
        "nbytes_gap": raw["nbytes_gap"],
        "ordered": raw["n_ordered_reads"],
        "seconds": raw["read_ns"] / 1e9,
        "fallback_direct": raw["n_fallback_direct"],
        "partial_reads": raw["n_partial_reads"],
        "unchecked": raw["n_unchecked"],
        "pages_decoded": raw["n_pages_decoded"],
        "page_hits": raw["n_page_hits"],
        "pages_nbytes": raw["pages_nbytes"],
    }


def _decode(raw: dict[str, Any]) -> DecodeStats:
    return {
        "nbytes_decoded": raw["nbytes_decoded"],
        "seconds": raw["decode_ns"] / 1e9,
        "fallback_region": raw["n_fallback_region"],
        "units": raw["n_units_decoded"],
        "units_whole": raw["n_units_whole"],
        "scaled": raw["n_scaled"],
    }


def _cache(raw: dict[str, Any], kept: tuple[str, str, str]) -> CacheStats:
    return {
        "hits": raw["n_cache_hits"],
        "misses": raw["n_cache_misses"],
        "nbytes_hit": raw["nbytes_cache_hit"],
        "items": raw["n_cache_items"],
        "limit": raw["cache_nbytes"],
        "used": raw["cache_nbytes_used"],
        "choice": f"the host cache is not used: {raw['host_reason']}" if raw["host_reason"] else kept[0],
        "form": kept[1],
        "resolution": kept[2],
        "hits_training": raw["n_cache_training_hits"],
        "recoded": raw["n_cache_recoded"],
        "nbytes_saved": raw["nbytes_cache_saved"],
        "not_recoded": raw["n_cache_not_recoded"],
        "to_recode": raw["n_cache_to_recode"],
        "recode_seconds": raw["cache_recode_ns"] * 1e-9,
        "fetched": raw["n_cache_fetched"],
        "nbytes_fetched": raw["nbytes_cache_fetched"],
    }


def _share(raw: dict[str, Any]) -> ShareStats:
    return {
        "sharing": bool(raw["is_sharing"]),
        "batches": raw["n_shared"],
        "copied": raw["n_shared_copied"],
        "alone": raw["fallbacks"].get("share", (0, ""))[0],
        "reason": raw["share_reason"],
        "epoch": None if raw["share_epoch"] == 2**64 - 1 else raw["share_epoch"],
        "samples": raw["share_samples"],
        "decoded": raw["share_decoded"],
        "decoded_shared": raw["share_decoded_shared"],
        "decoded_apart": raw["share_decoded_apart"],
        "read": raw["share_read"],
        "nbytes_read": raw["share_nbytes_read"],
        "read_shared": raw["share_read_shared"],
        "nbytes_read_shared": raw["share_nbytes_read_shared"],
        "cached": raw["share_cached"],
        "given_up": raw["share_given_up"],
    }


def _tiers(raw: dict[str, Any]) -> dict[str, TierStats]:
    return {
        name: {
            "hits": hits,
            "nbytes": nbytes,
            "mean_seconds": mean / 1e9,
            "p99_seconds": p99 / 1e9,
            "bytes_per_second": rate,
        }
        for name, (hits, nbytes, mean, p99, rate) in raw["tiers"].items()
    }


def _device(raw: dict[str, Any]) -> DeviceStats:
    return {
        "device": "cpu" if raw["device"] < 0 else f"cuda:{raw['device']}",
        "cpu_samples": raw["n_cpu_samples"],
        "gpu_samples": raw["n_gpu_samples"],
        "gpu_fallback": raw["n_gpu_fallback"],
        "gpu_fallback_reason": raw["gpu_fallback_reason"],
        "gpu_again": raw["n_gpu_again"],
        "nbytes_upload": raw["nbytes_upload"],
        "memory_limit": raw["device_memory"],
        "memory_used": raw["device_memory_used"],
        "memory_peak": raw["device_memory_peak"],
    }


def loader_stats(
    raw: dict[str, Any],
    storages: tuple[str, ...],
    epoch: int,
    ranks: tuple[int, int, str],
    kept: tuple[str, str, str],
    forms: Sequence[str] = (),
    function: FunctionStats = NO_FUNCTION,
    sources: Sequence[str] = (),
) -> LoaderStats:
    """Converts the counters of ``_native.Loader.stats()`` to a nested dict that notebooks can show.

    kept: the choice of cache="auto" in words, and form and resolution of the cache.
    """
    grouped = {
        "batches": raw["n_batches"],
        "skipped": raw["n_skipped"],
        "samples": {
            "delivered": raw["n_samples"],
            "bad": raw["n_bad"],
            "replaced": raw["n_replaced"],
            "padded": raw["n_padded"],
        },
        "sources": {name: {"delivered": rows} for name, rows in zip(sources, raw["source_rows"], strict=True)},
        "storage": _storage(raw, storages),
        "decode": _decode(raw),
        "forms": {
            "by_form": {
                name: {"share": share, "rows": rows} for name, (share, rows) in zip(forms, raw["forms"], strict=False)
            },
            "other": raw["n_form_rows_other"],
            "corrections": raw["n_form_corrections"],
        },
        "cache": _cache(raw, kept),
        "share": _share(raw),
        "tiers": _tiers(raw),
        "boxes": {"dropped": raw["n_boxes_dropped"]},
        "caller": {"wait_seconds": raw["caller_wait_ns"] / 1e9},
        "function": {**function},
        "memory": {
            "limit": raw["host_memory"],
            "used": raw["host_memory_used"],
            "peak": raw["host_memory_peak"],
            "slots": raw["n_slots"],
            "slots_held": raw["n_slots_held"],
        },
        "device": _device(raw),
        "workers": raw["n_workers"],
        "worker_seconds": {
            "busy": raw["decode_ns"] / 1e9,
            "waiting_for_storage": raw["worker_read_wait_ns"] / 1e9,
            "idle": raw["worker_idle_ns"] / 1e9,
        },
        "cpu_level": raw["cpu_level"],
        "cpu_rooms": raw["cpu_rooms"],
        "fallbacks": {name: count for name, (count, _) in raw["fallbacks"].items()},
        "fallback_reasons": {name: reason for name, (_, reason) in raw["fallbacks"].items()},
        "epoch": epoch,
        "ranks": {"rank": ranks[0], "world_size": ranks[1], "from": ranks[2]},
        "stages": _stages(raw["meter"]),
        "step": _steps(raw["meter"], raw["n_workers"]),
        "queues": _queues(raw["meter"]),
        "worker_clocks": [_worker_clock(clock) for clock in raw["meter"]["workers"]],
    }
    return cast(LoaderStats, Stats(grouped))
