"""Makes the folder and the environment in which the commands of a page run, for test_readme.py and scripts/check_pages.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PHOTOGRAPHS = ROOT / "examples" / "photographs"
CONTAINERS = ROOT / "tests" / "golden" / "containers"
# Files that other libraries wrote: their names in the pages, and their paths in tests/golden/containers.
OTHERS = {
    "mds": "mds/all",
    "records/imagenet-00000-of-00002.tfrecord": "tfrecord/imagenet-00000-of-00002.tfrecord",
    "records/imagenet-00001-of-00002.tfrecord": "tfrecord/imagenet-00001-of-00002.tfrecord",
    "tfds": "tfrecord/tfds",
    "photographs.beton": "beton/jpegs.beton",
    "photographs.rec": "recordio/whole.rec",
    "lsun_lmdb/data.mdb": "lmdb/images.mdb",
    "hub/data/train-00000-of-00001.parquet": "parquet/datasets.parquet",
    "saved": "arrow/dict",
}
GUIDE = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "guide").glob("*.md") if path.stem != "README")


def make_folder(folder: Path, document: str) -> Path:
    """Makes a folder as the pages expect it: examples/photographs, photographs/<class>/*.jpg, and the files of OTHERS that the page
    names.
    """
    shutil.copytree(PHOTOGRAPHS, folder / "examples" / "photographs")
    for i, path in enumerate(sorted(PHOTOGRAPHS.glob("*.jpg"))[:8]):
        kind = folder / "photographs" / ("bird", "house")[i % 2]
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kind)
    text = (ROOT / document).read_text()
    for name, golden in OTHERS.items():
        if f'"{name.split("/")[0]}"' in text:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (CONTAINERS / golden).is_dir() else shutil.copy
            copy(CONTAINERS / golden, folder / name)
    return folder


def environment() -> dict[str, str]:
    """Adds to the environment the paths of the C library that `make check` has installed, and of the peers' environments, if they
    exist.
    """
    prefix, peers = ROOT / "build" / "installed", ROOT / "bench" / "out" / "venv"
    lib = next((path.parent.parent for path in prefix.glob("lib*/**/pkgconfig/penstock.pc")), None)
    found = {"OMP_NUM_THREADS": "1"}
    if lib:
        found |= {"PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib)}
    if peers.is_dir():
        found["PST_PEERS"] = str(peers)
    return {**os.environ, **found}
