"""The GPUs that a loader can use: their number, their properties, and the reason if there are none."""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["device_count", "info", "is_available", "reason"]


def device_count() -> int:
    """Returns the number of GPUs that ``Loader(device="cuda:k")`` can use.

    Returns 0 without a CUDA driver, without a GPU, or if Penstock was built without its CUDA kernels. Raises nothing;
    :func:`reason` tells the cause. Any thread.
    """
    return _native.cuda_count()


def is_available() -> bool:
    """Returns True if ``Loader(device="cuda")`` can use at least one GPU. Any thread."""
    return device_count() > 0


def reason() -> str:
    """Returns one line that says why no GPU can be used, or "" if one can. Any thread."""
    return _native.cuda_reason()


def info(device: int = 0) -> dict[str, Any]:
    """Returns the properties of a GPU.

    Args:
        device: number of the GPU, from 0, as CUDA counts them.

    Returns:
        ``ordinal``: the number; ``name``; ``capability``: compute capability as (major, minor); ``processors``:
        streaming multiprocessors; ``driver_version``: 1000 * major + 10 * minor of the newest CUDA that the driver
        knows; ``memory_nbytes``: bytes of memory.

    Raises UnsupportedError if there is no such GPU or if it is too old. Starts no CUDA context. Any thread.
    """
    return _native.cuda_info(device)
