"""GPUs: whether a loader can prepare batches on one, which there are, and why not."""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["device_count", "info", "is_available", "nvjpeg", "reason"]


def device_count() -> int:
    """GPUs that ``Loader(device="cuda:k")`` can use; 0 without a driver, a GPU or kernels."""
    return _native.cuda_count()


def is_available() -> bool:
    return device_count() > 0


def reason() -> str:
    """Why there is no GPU to use, in one line; "" if there is one."""
    return _native.cuda_reason()


def info(device: int = 0) -> dict[str, Any]:
    """Name, compute capability, processors and memory of a GPU."""
    return _native.cuda_info(device)


def nvjpeg(device: int = 0) -> dict[str, Any]:
    """The nvJPEG that ``Loader(jpeg="nvjpeg")`` would use on a GPU: path, version, JPEG engines of the GPU, and whether
    it interpolates chroma. Raises UnsupportedError where there is none, saying what was looked for. Starts the GPU's
    context, so not in a process that is going to fork.
    """
    return _native.cuda_nvjpeg(device)
