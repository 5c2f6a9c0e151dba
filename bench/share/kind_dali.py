"""DALI on the CPU: each job has its own pipeline, which is that of bench/loader."""

from __future__ import annotations

import kinds
import peer_dali

NAME = "DALI, a CPU pipeline for each job"
_taken, _mean_nbytes = 0, 0.0


def jobs_batches(setting: kinds.Setting):
    global _taken, _mean_nbytes
    sizes = [path.stat().st_size for path in setting.work.files()]
    _mean_nbytes = sum(sizes) / len(sizes)
    for images, labels in peer_dali.batches(setting.work, setting.work.root, setting.threads):
        _taken += len(images)
        yield images, labels


def counters() -> dict:
    """Returns the images taken, and their bytes by the files' mean size (files are mapped, so the kernel counts no reads). Images
    that the pipeline has prepared but not delivered are not counted.
    """
    return {"prepared": _taken, "nbytes": _taken * _mean_nbytes}
