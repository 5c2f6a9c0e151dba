"""The result of ``Loader.stats()``: its type, and its conversion from the C library's counters."""

from __future__ import annotations

from typing import Any, TypedDict


class SampleStats(TypedDict):
    """Numbers of samples: delivered, bad, replaced by another one, repeated to fill ranks."""

    delivered: int
    bad: int
    replaced: int
    padded: int


class StorageStats(TypedDict):
    """Reads. seconds: time with at least one read under way; partial_reads: images read in parts."""

    kind: str
    reason: str
    nbytes_read: int
    reads: int
    seconds: float
    fallback_direct: int
    partial_reads: int


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
    For ``cache_form="pli-jpeg"``, recoded: JPEGs that this loader re-coded; nbytes_saved: the bytes that they became
    smaller by; not_recoded: JPEGs that it kept as they are stored.
    """

    hits: int
    misses: int
    nbytes_hit: int
    items: int
    limit: int
    used: int
    choice: str
    recoded: int
    nbytes_saved: int
    not_recoded: int


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
    nvjpeg_samples: int
    nvjpeg_version: str
    jpeg_engines: int
    memory_limit: int
    memory_used: int
    memory_peak: int


class WorkerSeconds(TypedDict):
    """Seconds summed over workers: making rows, waiting for storage, idle because the caller is slower."""

    busy: float
    waiting_for_storage: float
    idle: float


RankStats = TypedDict("RankStats", {"rank": int, "world_size": int, "from": str})


class LoaderStats(TypedDict):
    """Counters since the loader was made. Times are seconds, sizes are bytes."""

    batches: int
    samples: SampleStats
    storage: StorageStats
    decode: DecodeStats
    cache: CacheStats
    tiers: dict[str, TierStats]
    boxes: BoxStats
    caller: CallerStats
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


def loader_stats(
    raw: dict[str, Any], storages: tuple[str, ...], epoch: int, ranks: tuple[int, int, str], cache_choice: str
) -> LoaderStats:
    """Groups the counters of ``_native.Loader.stats()``."""
    return {
        "batches": raw["n_batches"],
        "samples": {
            "delivered": raw["n_samples"],
            "bad": raw["n_bad"],
            "replaced": raw["n_replaced"],
            "padded": raw["n_padded"],
        },
        "storage": {
            "kind": storages[raw["storage"]],
            "reason": raw["storage_reason"],
            "nbytes_read": raw["nbytes_read"],
            "reads": raw["n_reads"],
            "seconds": raw["read_ns"] / 1e9,
            "fallback_direct": raw["n_fallback_direct"],
            "partial_reads": raw["n_partial_reads"],
        },
        "decode": {
            "nbytes_decoded": raw["nbytes_decoded"],
            "seconds": raw["decode_ns"] / 1e9,
            "fallback_region": raw["n_fallback_region"],
            "units": raw["n_units_decoded"],
            "units_whole": raw["n_units_whole"],
            "scaled": raw["n_scaled"],
        },
        "cache": {
            "hits": raw["n_cache_hits"],
            "misses": raw["n_cache_misses"],
            "nbytes_hit": raw["nbytes_cache_hit"],
            "items": raw["n_cache_items"],
            "limit": raw["cache_nbytes"],
            "used": raw["cache_nbytes_used"],
            "choice": cache_choice,
            "recoded": raw["n_cache_recoded"],
            "nbytes_saved": raw["nbytes_cache_saved"],
            "not_recoded": raw["n_cache_not_recoded"],
        },
        "tiers": {
            name: {
                "hits": hits,
                "nbytes": nbytes,
                "mean_seconds": mean / 1e9,
                "p99_seconds": p99 / 1e9,
                "bytes_per_second": rate,
            }
            for name, (hits, nbytes, mean, p99, rate) in raw["tiers"].items()
        },
        "boxes": {"dropped": raw["n_boxes_dropped"]},
        "caller": {"wait_seconds": raw["caller_wait_ns"] / 1e9},
        "memory": {
            "limit": raw["host_memory"],
            "used": raw["host_memory_used"],
            "peak": raw["host_memory_peak"],
            "slots": raw["n_slots"],
            "slots_held": raw["n_slots_held"],
        },
        "device": {
            "device": "cpu" if raw["device"] < 0 else f"cuda:{raw['device']}",
            "cpu_samples": raw["n_cpu_samples"],
            "gpu_samples": raw["n_gpu_samples"],
            "gpu_fallback": raw["n_gpu_fallback"],
            "gpu_fallback_reason": raw["gpu_fallback_reason"],
            "gpu_again": raw["n_gpu_again"],
            "nbytes_upload": raw["nbytes_upload"],
            "nvjpeg_samples": raw["n_nvjpeg_samples"],
            "nvjpeg_version": raw["nvjpeg_version"],
            "jpeg_engines": raw["n_jpeg_engines"],
            "memory_limit": raw["device_memory"],
            "memory_used": raw["device_memory_used"],
            "memory_peak": raw["device_memory_peak"],
        },
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
        "ranks": {
            "rank": ranks[0],
            "world_size": ranks[1],
            "from": ranks[2],
        },
    }
