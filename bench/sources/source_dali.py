"""NVIDIA DALI's fn.readers.webdataset, CPU pipeline, with the indexes that its wds2idx makes beforehand."""

import subprocess
import sys
from pathlib import Path

import source_records


def prepare(store: Path) -> None:
    for tar in sorted(store.glob("*.tar")):
        subprocess.run([str(Path(sys.executable).with_name("wds2idx")), str(tar), str(tar.with_suffix(".idx"))], check=True,
                       stdout=subprocess.DEVNULL)


vars().update(vars(source_records.source("dali", prepare)))
