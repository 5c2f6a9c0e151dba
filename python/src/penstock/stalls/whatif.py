"""penstock.whatif: answers questions about a report or its file."""

from __future__ import annotations

import os
from typing import Any

from ..base.public import public
from . import model
from .report import Report

__all__ = ["whatif"]


def whatif(report: Any, **question: Any) -> Any:
    """Predicts the rate of a training run under other conditions.

    Args:
        report: a :class:`penstock.report.Report`, or the path of its file.
        cores: CPU cores of the machine, also fractions. The number of workers follows, unless ``workers`` is given.
        workers, prefetch, batch_size, ranks, jobs, hosts: numbers of the run. ``ranks`` and ``jobs`` share the machine. All but
            ``workers`` are at least 1.
        epoch_batches: a rank's batches in one epoch; 0: epochs never end. No batch is prepared between two epochs, so the first
            batch of each epoch has to be waited for. epoch_pause: seconds without training between two epochs, such as a
            validation.
        cache: bytes, or "64GiB", of Penstock's cache on one host; page_cache: bytes left for the kernel's page cache.
        policy: of ``cache``: "minio" (Penstock's), "random", "lru", "lru-sequential".
        storage, network, link: bytes per second, or "2GB/s"; reads: reads per second.
        copying: bytes per second of the thread that copies data out of the kernel's page cache.
        gpu_speed: "2x": the accelerator's steps take half the time.
        form: "jpeg", "pli-jpeg", "pli-small", ...: a form whose costs are in the report.
        decode: "cpu" or "gpu"; gpu_part: the fraction of the rows that the GPU decodes, 0 to 1, as in :class:`penstock.Gpu`.
        gpu_free: the fraction of the GPU's time that preparation may use, 0 to 1. With 0, a form that the GPU decodes has a rate of
            0 samples/s.
        shared_cache, shared_preparation: whether ranks and jobs share one cache, and one preparation.

    A value may be a list: then all combinations are computed. Returns an :class:`Answer`, or a list of them.
    """
    question = model.renamed(question)
    if isinstance(report, (str, os.PathLike)):
        report = Report.load(report)
    return report._asked(question)


public(__name__, "penstock")
