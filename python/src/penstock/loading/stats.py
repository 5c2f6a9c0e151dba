"""The result of ``Loader.stats()``: its type, and its conversion from the C library's counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from ..data.notebook import Stats
from ..functions.counts import NO_FUNCTION, FunctionStats


class SampleStats(TypedDict):
    """Numbers of samples: delivered, bad, replaced by another one, repeated to fill ranks."""

    delivered: int
    bad: int
    replaced: int
    padded: int


class SourceStats(TypedDict):
    """One source of a mixture. delivered: rows of it, since the loader was made."""

    delivered: int


class StorageStats(TypedDict):
    """Reads: requests to the storage. merged: reads that came in the request of a neighbour, so that ``reads`` does not
    count them; nbytes_gap: bytes between neighbours that were read and thrown away; ordered: of ``reads``, files of a
    folder that were issued together with others, in the order in which the disk has them. seconds: time with at least
    one read under way; partial_reads: images read in parts; unchecked: items that were used although the data set has no
    checksum of them: files of plain folders, and of tars, zips and tables whose index has none. Of tables with compressed
    pages: pages_decoded, page_hits (items of a page that was decoded for another item, which are not read), and the memory
    of the pages that are kept, a part of ``host_memory``."""

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
    """Decoding. seconds: summed over workers; units of PLI images that were decoded, and all units of these images."""

    nbytes_decoded: int
    seconds: float
    fallback_region: int
    units: int
    units_whole: int
    scaled: int


class CacheStats(TypedDict):
    """Items taken from the cache (hits), and items read because it did not have them (misses).

    limit and used: the cache's bytes, of all data sets in it; items: those of this data set. All 0 without a cache.
    choice: what cache="auto" chose, and why; "" if the argument was another one.
    form, resolution: what the cache keeps (``CacheUse.form``,
                                            ``CacheUse.resolution``); "" without one. hits_training: of the hits, pictures at
    the training size.
    For a form other than "stored", recoded: images that this loader, or the host service because of it, re-coded;
    nbytes_saved: by how many bytes those became smaller that did; not_recoded: images that were kept as they are stored
    although the form is for them. With ``CacheUse(recode="idle")``, to_recode: items of the cache that were not looked at
    yet; recode_seconds: what workers, or the host service because of this loader, spent on it in all.
    Of the host cache, limit and items are the service's, used is what this data set takes; fetched: the misses that the
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
    """What one place of stored bytes gave: items (of the storage: reads), their bytes, and how fast.

    mean_seconds, p99_seconds: from the request to the last byte; for "memory" and "host", which copy nothing, the time of
    the look-up. bytes_per_second: while at least one request was under way; 0 where nothing is copied. All 0: no hit yet.
    """

    hits: int
    nbytes: int
    mean_seconds: float
    p99_seconds: float
    bytes_per_second: float


class ShareStats(TypedDict):
    """Batches that came from the group of ``share`` (batches), and that this loader made itself all the same (alone).

    sharing: the host service is there. copied: batches that were copied as a whole. reason: why the last batch that was
    not shared was not, or "". epoch: the newest epoch that a job of the group, or of one with
    other transforms, has begun, as far as this loader knows, or None. samples: what the service has prepared for the group so far.

    What the service has done so far for the group and for groups of the same name, data set and order with other transforms,
    all together: decoded: images and masks that it decoded; decoded_shared: that a group took from another one's decode;
    decoded_apart: decoded ones of which another group needs other pixels. read, nbytes_read: stored items that it read;
    read_shared, nbytes_read_shared: that a group took from another one's read. cached: items from the host cache.
    given_up: items that it had no memory to keep until all groups had come to them.
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
    """The loop. wait_seconds: time that it waited for a batch."""

    wait_seconds: float


class MemoryStats(TypedDict):
    """Host memory in bytes, and batch slots."""

    limit: int
    used: int
    peak: int
    slots: int
    slots_held: int


class DeviceStats(TypedDict):
    """Where batches lie ("cpu", "cuda:k"), who decoded, and the GPU's memory in bytes."""

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
    """One stage. Seconds of work, of waiting for the stage before (wait_in) and for the one behind (wait_out).

    include/penstock/meter.h says for each stage what its times, ``count`` and ``nbytes`` are. Of "upload", link and gpu are the
    seconds of uploads and of decoding and augmenting on the GPU, by its own clock.
    """

    work: float
    wait_in: float
    wait_out: float
    count: int
    nbytes: int
    link: float
    gpu: float


class StepStats(TypedDict):
    """Steps, each from one batch to the next. mean, sd, p50, p99, max, max_wait: seconds of a step.

    seconds: of all steps; wait_seconds: of it, waiting for batches; peers_seconds: of the rest, waiting for other
    ranks (``Loader.waiting_for_peers``). stall: wait_seconds / seconds. causes: wait_seconds by stage. cause: the stage
    with the most, "" if stall is below 2 %.
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
    """Steps of the epoch under way (or the last one), and the last 256 of them.

    first_wait: seconds until its first batch, which is in no step. workers_busy: share of the window in which workers
    filled rows, 0 to 1. text: one line on the window, such as "stall 37 %: decode (2 workers busy 99 %)".
    """

    epoch: StepStats
    window: StepStats
    first_wait: float
    workers_busy: float
    text: str


class QueueStats(TypedDict):
    """Lengths of queues now: rows being read, rows read that wait for a worker, batches being filled, whole batches."""

    rows_reading: float
    rows_ready: float
    batches_running: float
    batches_ready: float


class Queues(TypedDict):
    """Lengths of queues now, and their mean over the moments when a batch was asked for."""

    now: QueueStats
    mean: QueueStats


class WorkerClock(TypedDict):
    """Seconds of one worker. fetch to keep are the parts of busy, by its own sample of images."""

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
    """What became of one of the forms of ``Loader(forms=...)``.

    share: of the rows, now. rows: those whose item was looked up in this form, also for batches that are not delivered yet.
    """

    share: float
    rows: int


class FormsStats(TypedDict):
    """How rows were divided over forms.

    by_form: by the names that were given. other: rows whose sample does not have the form that they were given, or has it with
    other pixels; they were read in the first form that is allowed. corrections: how often ``form_choice="measured"`` moved shares.
    """

    by_form: dict[str, FormStats]
    other: int
    corrections: int


class LoaderStats(TypedDict):
    """Counters since the loader was made. Times are seconds, sizes are bytes. batches: those that were made, also anew after
    an exception. skipped: those that :meth:`Loader.skip_batch` went past. sources: by name, of a :class:`Mixture`; {} otherwise."""

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


# Below this share of the time a stall is not worth a cause.
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
    """Returns one line on what the caller waited for."""
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
    """Groups the counters of ``_native.Loader.stats()``, in a dict that notebooks show.

    kept: what the cache is: the choice of "auto", and form and resolution of what it keeps.
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
