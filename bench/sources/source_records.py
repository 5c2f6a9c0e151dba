"""Makes sources of the modules with_NAME of bench/records, for tars and RecordIO."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import common


def source(name: str, prepare=lambda store: None, form: str = "tar", **more) -> SimpleNamespace:
    module = importlib.import_module("with_" + name)

    def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
        return module.epochs(work, form, store, threads, buffer, fixed, False)

    return SimpleNamespace(NAME=module.NAME, versions=module.versions, prepare=prepare, epochs=epochs, EXACT=True, **more)
