"""The statistics of a loader as one HTML page: where the time goes, what is wrong, and all numbers on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.units import amount, duration, percent, size
from .markup import bar, details, escape, facts, framed, plain, table

_STALL_MIN = 0.02  # if the training waits less than this fraction of the time, it is not limited by loading
# For each stage of loading: its name in words, its colour, and what helps if the training waits for it.
_STAGES = {
    "fetch": ("reading", 3, "faster storage, a cache, or smaller forms (penstock pack)"),
    "decode": ("decoding", 2, "more cores, or forms that decode faster (penstock pack)"),
    "augment": ("augmentation", 2, 'more cores, cheaper operations, or CacheUse(resolution="training")'),
    "batch": ("making batches", 2, "more cores, or a smaller dtype"),
    "keep": ("filling the cache", 2, "another CacheUse(form=...)"),
    "upload": ("the link to the GPU", 4, 'dtype="float16" or "uint8", or pin_memory=True'),
    "function": ("your function", 4, "more Functions(workers=...), or native operations"),
    "handover": ("handing over", 5, "a larger prefetch"),
    "caller": ("the caller", 5, "nothing: the training itself is the limit"),
}


def _get(stats: Any, *path: str) -> Any:
    """Returns a member of the statistics, or 0 if it is missing, because statistics of another version may lack members."""
    for name in path:
        stats = stats.get(name) if isinstance(stats, Mapping) else None
    return 0 if stats is None else stats


def _number(stats: Any, *path: str) -> float:
    value = _get(stats, *path)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _steps(stats: Any) -> str:
    """Returns the member to show: "window" (the last steps) if it has steps, else "epoch" (all steps of the epoch)."""
    return "window" if _number(stats, "step", "window", "steps") else "epoch"


def _title(stats: Any) -> str:
    steps = _get(stats, "step", _steps(stats))
    if not _number(steps, "steps"):
        n = int(_number(stats, "batches"))
        return f"{n:,} batches were made, and no step has ended" if n else "No batch was asked for yet"
    stall, cause = _number(steps, "stall"), str(_get(steps, "cause") or "")
    if stall < _STALL_MIN:
        return f"The training is fed: it waits for data in {percent(stall)} of its time"
    words = _STAGES[cause][0] if cause in _STAGES else plain(cause)
    return f"The training waits for data in {percent(stall)} of its time" + (f", most of all for {words}" if words else "")


def _advice(stats: Any) -> str:
    steps = _get(stats, "step", _steps(stats))
    cause = str(_get(steps, "cause") or "")
    if _number(steps, "stall") < _STALL_MIN or cause not in _STAGES:
        return ""
    busy = percent(min(_number(stats, "step", "workers_busy"), 1.0))
    return f"<p>What helps: {escape(_STAGES[cause][2])}. Workers are busy {busy} of the time.</p>"


def _facts(stats: Any) -> list[tuple[str, str]]:
    steps = _get(stats, "step", _steps(stats))
    found = []
    batches, samples, seconds = _number(stats, "batches"), _number(stats, "samples", "delivered"), _number(steps, "seconds")
    if batches and seconds > 0:
        found.append(("samples/s", amount(samples / batches * _number(steps, "steps") / seconds)))
        found.append(("a step", duration(_number(steps, "mean"))))
        found.append(("99 % of steps", duration(_number(steps, "p99"))))
    found.append(("delivered", f"{samples:,.0f} samples"))
    limit = _number(stats, "memory", "limit")
    if limit:
        found.append(("memory", f"{size(_number(stats, 'memory', 'used'))} of {size(limit)}"))
    hits, misses = _number(stats, "cache", "hits"), _number(stats, "cache", "misses")
    if hits + misses:
        found.append(("from the cache", percent(hits / (hits + misses))))
    if nbytes := _number(stats, "storage", "nbytes_read"):
        found.append(("read", size(nbytes)))
    return found


def _bars(stats: Any) -> str:
    steps = _get(stats, "step", _steps(stats))
    waited = _number(steps, "wait_seconds")
    parts = [("the step itself", max(_number(steps, "seconds") - waited, 0.0), 1)]
    causes = _get(steps, "causes") or {}
    for name, seconds in causes.items():
        words, color, _ = _STAGES.get(name, (plain(str(name)), 5, ""))
        parts.append((f"waiting for {words}", float(seconds), color))
    shown = bar("Steps", parts)
    seconds = _get(stats, "worker_seconds") or {}
    colors = {"busy": 1, "waiting_for_storage": 3, "idle": 5}
    n = int(_number(stats, "workers"))
    workers = [(name.replace("_", " "), _number(seconds, name), colors.get(name, 4)) for name in seconds]
    return shown + bar(f"{n} worker{'s' if n != 1 else ''}", workers)


def _wrong(stats: Any) -> Iterator[str]:
    """Yields a sentence for each thing that is wrong, or that a user would not expect."""
    for path, words in (
        (("samples", "bad"), "bad samples were left out or replaced: loader.quarantine lists them"),
        (("samples", "replaced"), "samples stand in for bad ones"),
        (("skipped",), "batches were skipped by skip_batch()"),
        (("share", "alone"), "batches were prepared alone although the loader shares"),
        (("share", "given_up"), "shared batches were given up"),
        (("cache", "not_recoded"), "items of the cache could not be stored in its form"),
        (("boxes", "dropped"), "boxes were dropped: operations left too little of them"),
    ):
        if n := int(_number(stats, *path)):
            reason = str(_get(stats, "share", "reason") or "") if path == ("share", "alone") else ""
            yield f"{n:,} {words}" + (f": {plain(reason, 200)}" if reason else "")
    reasons = _get(stats, "fallback_reasons") or {}
    for name, n in (_get(stats, "fallbacks") or {}).items():
        if n:
            reason = str(_get(reasons, name) or "no reason is known")
            yield f"{n:,} times {plain(str(name)).replace('_', ' ')} went another way: {plain(reason, 300)}"
    if reason := _get(stats, "device", "gpu_fallback_reason"):
        yield f"{int(_number(stats, 'device', 'gpu_fallback')):,} images were decoded by the CPU: {plain(str(reason), 300)}"
    if reason := _get(stats, "storage", "reason"):
        yield f"io_uring is not used: {plain(str(reason), 300)}"


def _rows(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields all numbers of a member and of its nested members, each with the path of names that leads to it. Zeros and empty texts
    are left out."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _rows(f"{name} {key}".strip().replace("_", " "), part)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from _rows(f"{name} {i}".strip(), part)
    elif value:
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else plain(str(value), 200)
        yield plain(name, 80), text


def _details(stats: Mapping[str, Any]) -> str:
    groups = {name: list(_rows("", value)) for name, value in stats.items() if isinstance(value, (Mapping, list, tuple))}
    rest = [row for name, value in stats.items() if name not in groups for row in _rows(name, value)]
    found = "".join(details(name.replace("_", " "), table("", (), rows)) for name, rows in groups.items() if rows)
    return details("All numbers", table("", (), rest) + found)


def page(stats: Mapping[str, Any]) -> str:
    """Returns the statistics of ``Loader.stats()``, also after a user changed them, as HTML. It never fails."""
    try:
        wrong = "".join(f"<li>{escape(text)}.</li>" for text in _wrong(stats))
        below = f'<ul class="wrong">{wrong}</ul>' if wrong else '<p class="fine">Nothing is wrong.</p>'
        inner = f"<h3>{escape(_title(stats))}.</h3>{_bars(stats)}{_advice(stats)}{facts(_facts(stats))}{below}{_details(stats)}"
    except Exception:  # members were replaced by values of other types
        inner = table("loader", (), ((plain(str(name)), plain(repr(value), 200)) for name, value in stats.items()))
    return framed(inner)
