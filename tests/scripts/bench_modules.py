"""Imports modules of bench for its tests. Several benches have modules of the same name, so these names are removed from
sys.modules afterwards."""

import importlib
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def of_bench():
    return {name: module for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(BENCH))}


def load(bench, name):
    """Imports bench/BENCH/NAME.py, and the modules that it imports from its own folder."""
    path, before = list(sys.path), of_bench()
    for other in before:
        del sys.modules[other]
    sys.path[:0] = [str(BENCH / bench), str(BENCH)]
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = path
        for other in of_bench():
            del sys.modules[other]
        sys.modules.update(before)
