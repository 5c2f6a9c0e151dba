#!/usr/bin/env python3
"""Writes the tars and indexes of this folder, one set for each library.

    python make_containers.py SET FOLDER [FILES]

SET is one of these; each needs only the packages named behind it:

    files           the samples as plain files in FOLDER/files: Pillow, numpy
    gnu_tar         GNU tar
    tarfile         Python
    webdataset      webdataset: one tar by TarWriter, three by ShardWriter
    wids            wids: the index of the ShardWriter's tars, which must exist
    wds2idx         nvidia-dali: the same
    energon         megatron-energon: the same

FILES is the folder of the samples; the default is FOLDER/files. Each set writes the versions of its libraries into VERSIONS.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

MTIME = 1_700_000_000
LONG = "nested/" + "a_folder_whose_name_is_long_enough/" * 3 + "sample_with_a_long_name"
# Sorted by bytes, which is the order in which every library here writes the samples.
KEYS = ("bird/0000", "bird/0001", "house/0002", "house/0003", LONG, "tree.v1/0005")
SHARDS = ("shards-000000.tar", "shards-000001.tar", "shards-000002.tar")
SUFFIXES = ("cls", "jpg", "json", "npy", "seg.png", "txt")


def samples(files: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Returns the samples of a folder of files: for each key a dict of bytes by suffix."""
    for key in KEYS:
        yield key, {suffix: (files / f"{key}.{suffix}").read_bytes() for suffix in SUFFIXES}


def say_versions(folder: Path, **versions: str) -> None:
    path = folder / "VERSIONS"
    lines = dict(line.split(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    lines |= versions
    path.write_text("".join(f"{name} {version}\n" for name, version in sorted(lines.items())))


def version(package: str) -> str:
    return importlib.metadata.version(package)


def make_files(folder: Path, files: Path) -> None:
    import io

    import numpy as np
    from PIL import Image

    for i, key in enumerate(KEYS):
        rows, columns = np.mgrid[0:24 + i, 0:32]
        pixels = np.stack([rows * 8 + i, columns * 7, (rows + columns) * 4], axis=-1).astype(np.uint8)
        jpeg, png, npy = io.BytesIO(), io.BytesIO(), io.BytesIO()
        Image.fromarray(pixels).save(jpeg, "JPEG", quality=80)
        Image.fromarray((rows > columns).astype(np.uint8) * (i + 1)).save(png, "PNG")
        np.save(npy, np.arange(6, dtype=np.float32).reshape(2, 3) + i)
        text = f"Probe {i}: ein schöner Baum" + " und noch einer" * (6 * (i % 2))
        contents = {"cls": str(i % 3).encode(), "jpg": jpeg.getvalue(), "json": json.dumps({"i": i}).encode(),
                    "npy": npy.getvalue(), "seg.png": png.getvalue(), "txt": text.encode()}
        for suffix, content in contents.items():
            path = files / f"{key}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    say_versions(folder, pillow=version("pillow"), numpy=version("numpy"))


def make_gnu_tar(folder: Path, files: Path) -> None:
    """Writes tars with folders as members, names that begin with ./, and long names if the format allows them."""
    out = folder / "gnu_tar"
    out.mkdir(parents=True, exist_ok=True)
    for form in ("gnu", "posix", "ustar", "v7"):
        what = ["./bird"] if form in ("ustar", "v7") else ["./bird", "./nested"]
        subprocess.run(["tar", "--create", f"--file={out / form}.tar", f"--format={form}", "--sort=name", f"--mtime=@{MTIME}",
                        "--owner=0", "--group=0", "--numeric-owner", "--mode=0644", "--blocking-factor=2", "-C", str(files),
                        *what], check=True)
    first = subprocess.run(["tar", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    say_versions(folder, tar=first.split()[-1])


def make_tarfile(folder: Path, files: Path) -> None:
    out = folder / "tarfile"
    out.mkdir(parents=True, exist_ok=True)
    forms = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.mode, info.uid, info.gid, info.uname, info.gname = MTIME, 0o644, 0, 0, "", ""
        return info

    for name, form in forms.items():
        with tarfile.open(out / f"{name}.tar", "w", format=form) as tar:
            for key in (*KEYS[:2], LONG):
                for suffix in SUFFIXES:
                    tar.add(files / f"{key}.{suffix}", f"{key}.{suffix}", filter=plain)
    say_versions(folder, python=sys.version.split()[0])


def make_webdataset(folder: Path, files: Path) -> None:
    import webdataset

    out = folder / "webdataset"
    out.mkdir(parents=True, exist_ok=True)
    with webdataset.TarWriter(str(out / "one.tar"), encoder=False, mtime=MTIME) as writer:
        for key, values in samples(files):
            writer.write({"__key__": key, **values})
    with webdataset.ShardWriter(str(out / "shards-%06d.tar"), maxcount=2, encoder=False, mtime=MTIME, verbose=0) as writer:
        for key, values in samples(files):
            writer.write({"__key__": key, **values})
    say_versions(folder, webdataset=version("webdataset"))


def make_wids(folder: Path, files: Path) -> None:
    del files
    out = folder / "webdataset"
    subprocess.run([sys.executable, "-m", "wids.wids_index", "create", *SHARDS, "--output", "wids.json"], cwd=out, check=True)
    say_versions(folder, wids=version("wids"))


def make_wds2idx(folder: Path, files: Path) -> None:
    del files
    out = folder / "webdataset"
    for name in SHARDS:
        subprocess.run([str(Path(sys.executable).with_name("wds2idx")), name, name.replace(".tar", ".idx")], cwd=out, check=True,
                       stdout=subprocess.DEVNULL)
    found = next(d for d in importlib.metadata.distributions() if d.name.lower().startswith("nvidia-dali"))
    say_versions(folder, **{found.name: found.version})


def make_energon(folder: Path, files: Path) -> None:
    """Lets Energon prepare two copies of the tars: all shards as one split, and two splits."""
    del files
    from megatron.energon.flavors.webdataset import BaseWebdatasetFactory

    for name, parts in (("energon", [("train", 1.0)]), ("energon_splits", [("train", 2.0), ("val", 1.0)])):
        out = folder / name
        out.mkdir(parents=True, exist_ok=True)
        for shard in SHARDS:
            shutil.copyfile(folder / "webdataset" / shard, out / shard)
        BaseWebdatasetFactory.prepare_dataset(out, list(SHARDS), split_parts_ratio=parts, shuffle_seed=42, workers=1)
        (out / ".nv-meta" / "dataset.yaml").write_text(
            "__module__: megatron.energon\n__class__: CaptioningSample\nfield_map:\n  image: jpg\n  caption: txt\n")
        for shard in SHARDS:  # keep only the files that Energon wrote
            (out / shard).unlink()
        for database in (out / ".nv-meta").glob("index.*"):  # the database repeats what is in the tars
            database.unlink()
    say_versions(folder, **{"megatron-energon": version("megatron-energon")})


SETS: dict[str, Callable[[Path, Path], None]] = {
    "files": make_files, "gnu_tar": make_gnu_tar, "tarfile": make_tarfile, "webdataset": make_webdataset, "wids": make_wids,
    "wds2idx": make_wds2idx, "energon": make_energon,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="?")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    SETS[arguments.set](folder, (arguments.files or folder / "files").resolve())


if __name__ == "__main__":
    main()
