#!/usr/bin/env python3
"""Analyses batches on an emulated GPU, in a process of its own: hybrid.py SET DATA SECONDS.

The environment names the driver that emulates the GPU (see `environment`). Its launches compute nothing and take a fixed time. So
not pixels are compared, but how the work of CPUs and GPU adds up. The report is printed as JSON.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BLOCK_NS = 4000  # nanoseconds of one block of a launch


def environment(stand_in: Path) -> dict[str, str]:
    """Returns the environment variables of a process with the emulated GPU. stand_in: the folder tests/device of a build."""
    names = {"PENSTOCK_CUDA_DRIVER": "libpst_fake_driver.so", "PENSTOCK_CUDA_KERNELS": "libpst_fake_kernels.so"}
    speed = {"PENSTOCK_FAKE_BLOCK_NS": str(BLOCK_NS), "PENSTOCK_FAKE_PROCESSORS": "1"}
    return {**os.environ, **{name: str(stand_in / file) for name, file in names.items()}, **speed}


def on_gpu(part: float) -> dict:
    """Returns the Loader's arguments as a configuration has them: the GPU decodes a part of the rows, and all rows end there."""
    gpu = {"decode": "cpu"} if part == 0 else {"part": part}
    return {"device": {"device": "cuda", **gpu}, "output": "dlpack"}


def main() -> None:
    import penstock as ps
    import sets

    loader = sets.loader_of(sys.argv[1], Path(sys.argv[2]), on_gpu(0.5))
    print(ps.analyze(loader, budget=float(sys.argv[3]), forms=()).to_json())


if __name__ == "__main__":
    main()
