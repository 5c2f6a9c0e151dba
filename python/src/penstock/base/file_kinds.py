"""Checks of the members of reports and plans that answers are computed from. See docs/format-report.md and docs/format-plan.md.

Members that are only displayed are not checked. Unknown members are allowed, as both formats say.
"""

from __future__ import annotations

from .files import by_name, listed, members, needed, number, text, truth

_COUNT = number(0, 1e15)
_MANY = number(0, 1e6)
_PART = number(0, 1)
_AMOUNT = number()

_COSTS = members(
    {
        **dict.fromkeys(
            ("cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds", "wait_seconds", "nbytes", "nbytes_sd", "reads", "item_nbytes",
             "nbytes_band", "pixels", "link_nbytes", "gpu_seconds", "pack_seconds", "batch_cpu_seconds"),
            _AMOUNT,
        ),
        "workers": _MANY,
        "prefetch": _MANY,
    }
)  # fmt: skip

_PHASE = members(
    dict.fromkeys(
        ("samples_per_second", "low", "high", "batches", "warm_up_batches", "seconds", "batch_sd_seconds", "cpu_seconds_per_sample",
         "wait_seconds_per_batch", "step_seconds", "step_sd_seconds", "step_p99_seconds", "other_cores"),
        _AMOUNT,
    )
)  # fmt: skip

_OPENING = members(
    {
        "path": text,
        "labels": text,
        "masks": listed(needed(text)),
        "allow_unreadable": truth,
        "ignore_labels": truth,
        "split": text,
        "fields": members({}),
    }
)

_SOURCES = listed(
    needed(
        members(
            {
                "name": needed(text),
                "path": needed(text),
                "kind": text,
                "opening": _OPENING,
                "samples": needed(_COUNT),
                "draws": needed(_AMOUNT),
            }
        )
    )
)

REPORT = members(
    {
        "subject": members(
            {
                "opening": _OPENING,
                "samples": needed(_COUNT),
                "nbytes": _AMOUNT,
                "stored_samples": _COUNT,
                "stored_part": _AMOUNT,
                "sources": _SOURCES,
                "form": needed(text),
                "decode": text,
                "gpu_part": _PART,
                "batch_size": needed(number(1, 1e9)),
                "batches_per_epoch": _COUNT,
                "prefetch": _MANY,
                "workers": _MANY,
                "workers_follow_cores": truth,
                "batch_cpu_seconds": _AMOUNT,
                "ranks": number(1, 1e6),
                "jobs": number(1, 1e6),
                "hosts": number(1, 1e6),
            }
        ),
        "machine": members(
            {
                "cores": needed(number(1e-6, 1e6)),
                "core_speed": number(1e-6, 1e6),
                **dict.fromkeys(
                    ("storage_nbytes_per_second", "reads_per_second", "network_nbytes_per_second", "link_nbytes_per_second",
                     "copy_nbytes_per_second", "cache_nbytes", "page_cache_nbytes", "memory_available_nbytes", "other_cores"),
                    _AMOUNT,
                ),
                "gpu_free": _PART,
                "gpu_interference": _PART,
            }
        ),
        "accelerator": members(
            {
                **dict.fromkeys(("step_seconds", "step_sd_seconds", "step_cpu_seconds"), _AMOUNT),
                "limit": _PART,
                "count": _MANY,
                "name": text,
                "title": text,
            }
        ),
        "phases": by_name(_PHASE),
        "alone": _PHASE,
        "forms": by_name(by_name(needed(_COSTS))),
        "kept": by_name(_COSTS),
        "stages": listed(needed(members({"name": needed(text), "resource": needed(text), "seconds": needed(_AMOUNT)}))),
        "stall": by_name(needed(by_name(number(-1, 2)))),
        "bands": by_name(number(0, 1e6)),
        "measured": by_name(needed(listed(needed(_AMOUNT), 2, 2))),
        "notes": listed(needed(text)),
        "changed": text,
    }
)  # fmt: skip

_STORED = members({"form": needed(text), "tier": text, "max_error": number(0, 127, whole=True),
                   "resize": number(1, 65535, whole=True)})  # fmt: skip
_WAY = members(
    {
        "share": needed(_PART),
        "store": needed(listed(needed(_STORED), 1)),
        "cache": text,
        "decode": text,
        "stored_nbytes": _AMOUNT,
        "cached_nbytes": _AMOUNT,
        "saves": by_name(number(-1e18, 1e18)),
    }
)
PLAN = members(
    {
        "field": text,
        "data": members({"samples": _COUNT, "nbytes": _AMOUNT, "opening": _OPENING, "draws": _COUNT, "sources": _SOURCES}),
        "epochs": number(1, 1e6),
        "recode": members({"form": needed(text), "cpu_seconds": needed(_AMOUNT), "saved_cpu_seconds": needed(number(-1e18, 1e18)),
                           "from_epochs": _COUNT, "is_planned": truth}),
        "loader": members({"cache_nbytes": _AMOUNT}),
        "classes": listed(
            needed(
                members(
                    {
                        "form": needed(text),
                        "pixels": needed(listed(_AMOUNT, 2, 2)),
                        "samples": needed(_COUNT),
                        "draws": _COUNT,
                        "sources": listed(needed(text)),
                        "ways": needed(listed(needed(_WAY), 1)),
                    }
                )
            )
        ),
    }
)
