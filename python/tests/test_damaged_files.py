"""Files of JSON that are damaged, deep or huge: plans, reports, machines, operations, annotations. Each damage causes an error of
Penstock that names the file, or has no effect. No other error occurs, and memory stays bounded.

PENSTOCK_SWEEP is the number of changes that are tried on each kind of file, PENSTOCK_SWEEP_SEED their random seed.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from conftest import limits_address_space
from penstock import transforms as T
from penstock.planning import machines
from penstock.report import Report
from test_whatif import data as report_data

N = int(os.environ.get("PENSTOCK_SWEEP", "250"))
SEED = int(os.environ.get("PENSTOCK_SWEEP_SEED", "44"))
DEEP = "[" * 200_000 + "]" * 200_000
LONG_NUMBER = "9" * 10_000

_WAY = {"share": 0.5, "cache": "encoded", "decode": "cpu", "stored_nbytes": 1000.0, "cached_nbytes": 1000.0,
        "saves": {"sample": 0.001, "nbyte": 1e-9, "pixel": 1e-9}}  # fmt: skip
_RATE = {"samples_per_second": 900.0, "low": 800.0, "high": 1000.0}


def plan_data() -> dict[str, Any]:
    """Returns a plan with every member of docs/format-plan.md."""
    return {
        "kind": "penstock plan", "version": 1, "made": "2026-01-01T00:00:00+00:00", "penstock": ps.__version__,
        "data": {"path": "photos", "samples": 8, "nbytes": 8000}, "field": "image", "goal": "rate", "stored_nbytes": 7000.0,
        "machine": {"cores": 4.0, "storage_nbytes_per_second": 1e8}, "accelerator": {"step_seconds": 0.1, "name": "a", "count": 1},
        "classes": [{"form": "png", "pixels": [0, None], "samples": 8, "ways": [
            {**_WAY, "store": [{"form": "pli", "tier": "small"}]}, {**_WAY, "cache": "", "store": [{"form": "png"}]}]}],
        "loader": {"num_workers": 2, "prefetch": 2, "order": "shuffled", "cache": 4000, "cache_form": "stored",
                   "cache_nbytes": 4000, "cache_resolution": "full", "decode": "cpu", "gpu_part": None, "form_parts": None},
        "predicted": {**_RATE, "utilisation": 0.5, "prep_stall": 0.4, "fetch_stall": 0.1, "binding": ["cores"],
                      "bound_samples_per_second": 950.0},
        "now": {**_RATE, "form": "png", "binding": "cores"},
        "singles": [{"form": "png", "samples_per_second": 300.0, "binding": "cores", "stored_nbytes": 8000.0},
                    {"form": "raw", "why": "too large"}],
        "prices": [{"resource": "cores", "unit": "core", "gain": 0.04, "there": 4, "low": 3.0, "high": None}],
        "need": {"form": "png", "is_plan": False, "rate": 900.0, "samples_per_second": 300.0, "cores": 12.0,
                 "together": {"cores": 12.0, "storage": 2e8}},
        "convert": {"seconds": 1.0, "cpu_seconds": 2.0, "nbytes": 7000, "break_even_epochs": 3.0},
        "schedule": [{"epoch": 0, "size": 128}, {"epoch": 2, "size": [160, 224], "batch_size": 4}],
        "solved_for": {"size": [224, 224], "batch_size": 8}, "notes": ["a note"],
    }  # fmt: skip


def machines_data() -> dict[str, Any]:
    return {
        "kind": "penstock-machines", "version": 1, "date": "2026-01-01", "currency": "USD", "source": "nobody",
        "machines": [
            {"name": "small", "price_per_hour": 0.2, "cores": 4, "memory_nbytes": 1e10, "storage_nbytes_per_second": 2e8,
             "accelerators": 1, "gpu_free": 0.1},
            {"name": "family", "price_per_hour": 1.0, "cores": 8, "choose": {"cores": {"most": 64, "price_per_hour": 0.03},
             "accelerators": {"most": 8, "price_per_hour": 1.0}}},
        ],
    }  # fmt: skip


def chain_data() -> Any:
    chain = [
        T.RandomResizedCrop(32), T.RandomApply([T.ColorJitter(0.1, 0.1, 0.1)], 0.5), T.RandomChoice([T.RandomHorizontalFlip()]),
        T.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
    ]  # fmt: skip
    return json.loads(T.to_json(chain))


def coco_data() -> dict[str, Any]:
    return {
        "images": [{"id": i + 1, "file_name": f"{i}.png", "height": 6, "width": 8} for i in range(2)],
        "categories": [{"id": 3, "name": "cat", "keypoints": ["nose"]}, {"id": 7, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 4, 3], "area": 12.0, "iscrowd": 0, "keypoints": [2, 2, 1],
             "segmentation": [[1, 1, 5, 1, 5, 4, 1, 4]]},
            {"id": 2, "image_id": 2, "category_id": 7, "bbox": [0.5, 0, 2, 2], "iscrowd": 1,
             "segmentation": {"size": [6, 8], "counts": [0, 12, 36]}},
        ],
    }  # fmt: skip


# Changes of a file -----------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 0.5, 48.0, 1e308, -1e308, 2**63, -(2**63), 10**300, float("inf"), float("nan"), "", "x", "1",
    "a\0b", "\ud800", "\u202e", "1e999", [], {}, [[]], [None], {"": None}, {"form": "jpeg"}, [0, 1], ["x"] * 3,
)  # fmt: skip


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in the data."""
    found = [at]
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        found += places(value, (*at, key))
    return found


def changed(data: Any, rng: random.Random) -> Any:
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.choice(places(data))
        if not at:
            return copy.deepcopy(rng.choice(ODD))
        parent = data
        for key in at[:-1]:
            parent = parent[key]
        value, kind = parent[at[-1]], rng.randrange(8)
        if kind == 0:
            del parent[at[-1]]
        elif kind == 1 and isinstance(value, (int, float)):
            parent[at[-1]] = rng.choice((-value, value * 1e12, value / 1e12, -0.0, str(value), [value], float(value)))
        elif kind == 2 and isinstance(value, list):
            parent[at[-1]] = value * rng.choice((0, 2, 50))
        elif kind == 3 and isinstance(parent, dict):
            parent[rng.choice(("", "x", "\0", "pixels", "form"))] = parent.pop(at[-1])
        else:
            parent[at[-1]] = copy.deepcopy(rng.choice(ODD))
    return data


def damaged(data: Any, rng: random.Random) -> bytes:
    """Returns the text of a damaged file: with changed data, or with a damaged text."""
    kind = rng.randrange(10)
    text = json.dumps(data if kind >= 8 else changed(data, rng))
    if kind < 6:
        return text.encode("utf-8", "surrogatepass")
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    i = rng.randrange(len(raw)) if raw else 0
    if kind == 6:
        return bytes(raw[:i])
    if kind == 7:
        raw[i : i + 1] = bytes([rng.randrange(256)])
        return bytes(raw)
    if kind == 8:
        at = text.find(":") + 1
        return (text[:at] + rng.choice((DEEP, LONG_NUMBER, "1e99999", "-" + LONG_NUMBER)) + "," + text[at:]).encode()
    return b"\xef\xbb\xbf" * rng.randrange(3) + bytes(raw) + rng.choice((b"", b"\0", b"}", b" \n"))


# What reads them -------------------------------------------------------------------------------------


def read_report(path: Path) -> None:
    report = Report.load(path)
    report.report()
    report.summary()
    report.to_html()
    report.whatif(cores=[1, 64])
    with contextlib.suppress(ps.errors.LimitError):  # the answer that no amount of a resource is enough
        report.need("cores")


def read_plan(path: Path) -> None:
    plan = ps.Plan.load(path)
    assert plan.loader is not None
    repr(plan)
    plan.report()
    assert plan.changes_forms in (True, False)
    plan.check(10.0)


def read_chain(path: Path) -> None:
    try:
        T.from_json(path.read_bytes())
    except ps.PenstockError as error:  # the function gets only the text, not the file name
        raise type(error)(str(error), file=str(path)) from None


READERS: dict[str, tuple[Callable[[], Any], Callable[[Path], None]]] = {
    "report": (report_data, read_report),
    "plan": (plan_data, read_plan),
    "machines": (machines_data, lambda path: machines.read(path) and None),
    "machine": (
        lambda: {"kind": "penstock-machine", "version": 1, "machine": {"cores": 8, "cpu": "x", "storage_nbytes_per_second": 1e9}},
        lambda path: Report(report_data()).with_machine(path).whatif(cores=2) and None,
    ),
    "operations": (chain_data, read_chain),
}


def tried(read: Callable[[Path], None], path: Path, raw: bytes) -> bool:
    """Reads a file. Returns whether it was accepted. Any error must be one of Penstock that names the file."""
    path.write_bytes(raw)
    try:
        read(path)
    except ps.PenstockError as error:
        assert str(path) in (error.file or "") or str(path) in str(error), f"no file in {error!r}"
        return False
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} of {raw[:2000]!r}") from error
    return True


@pytest.mark.parametrize("kind", READERS)
def test_changes_of(kind: str, tmp_path: Path) -> None:
    make, read = READERS[kind]
    path, rng = tmp_path / "file.json", random.Random(SEED)
    assert tried(read, path, json.dumps(make()).encode()), "the file itself is good"
    taken = sum(tried(read, path, damaged(make(), rng)) for _ in range(N))
    assert 0 < taken < N


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("raw", [b"", b"\0", b"null", b"[]", b"3", DEEP.encode(), LONG_NUMBER.encode(), b"{" * 100_000, b'"\xff"'])
def test_texts_that_are_none_of(kind: str, raw: bytes, tmp_path: Path) -> None:
    taken = tried(READERS[kind][1], tmp_path / "file.json", raw)
    assert not taken or (kind, raw) == ("operations", b"[]")


def test_a_plan_that_a_loader_takes(tmp_path: Path) -> None:
    """Uses the plan as a loader does: for its arguments, and for the samples that its cache admits."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(8):
        Image.new("RGB", (8, 6), (i, 2 * i, 3 * i)).save(folder / f"{i}.png")

    def read(path: Path) -> None:
        try:
            loader = ps.Loader(folder, batch_size=2, plan=path, num_workers=1, cache=None, transforms=[T.Resize((32, 32))])
        except ps.errors.ArgumentError as error:  # the error concerns an argument of the loader, which may come from elsewhere
            raise type(error)(str(error), file=str(path)) from None
        del loader

    path, rng = tmp_path / "plan.json", random.Random(SEED)
    for _ in range(N // 5):
        data = changed(plan_data(), rng)
        if isinstance(data, dict) and isinstance(data.get("loader"), dict):
            data["loader"].pop("num_workers", None)  # hundreds of threads are allowed
        tried(read, path, json.dumps(data).encode("utf-8", "surrogatepass"))


def test_changes_of_coco(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(2):
        Image.new("RGB", (8, 6)).save(folder / f"{i}.png")
    path, rng = tmp_path / "coco.json", random.Random(SEED)

    def read(path: Path) -> None:
        try:
            ps.pack(folder, tmp_path / f"{rng.random()}.pst", coco=path, paint=["mask", "instances"], num_workers=1)
        except ps.PenstockError as error:  # the fault of a sample names its image
            assert error.file or str(folder) in str(error)
            raise type(error)(str(error), file=str(path)) from None

    assert tried(read, path, json.dumps(coco_data()).encode())
    for _ in range(N // 3):
        tried(read, path, damaged(coco_data(), rng))


@pytest.mark.parametrize("kind", ["report", "plan", "machines", "machine"])
def test_a_huge_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # a hole in the file, which takes no disk space
    with pytest.raises(ps.errors.LimitError, match="more than 16777216 bytes") as caught:
        READERS[kind][1](path)
    assert caught.value.file == str(path)


def test_a_huge_coco_file_is_refused(tmp_path: Path) -> None:
    code = (
        "import resource, sys, penstock as ps\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30,) * 2)\n"
        "try: ps.pack(sys.argv[1], sys.argv[1] + '.pst', coco=sys.argv[2])\n"
        "except ps.errors.LimitError as error: sys.exit('more than' not in str(error))\n"
    )
    (tmp_path / "images").mkdir()
    with open(tmp_path / "huge.json", "wb") as file:
        file.truncate(1 << 40)
    limits_address_space()
    words = [sys.executable, "-c", code, str(tmp_path / "images"), str(tmp_path / "huge.json")]
    done = subprocess.run(words, check=False, timeout=600)
    assert done.returncode == 0


# Pipes, sockets, devices, folders --------------------------------------------------------------------


def no_files(folder: Path) -> list[Path]:
    folder.mkdir()
    pipe, own = folder / "pipe", folder / "socket"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        cwd = os.getcwd()
        os.chdir(folder)  # a socket's path must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(cwd)
    return [pipe, own, Path("/dev/null"), folder]


@pytest.mark.parametrize("kind", ["report", "plan", "machines", "machine"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    for path in no_files(tmp_path / "none"):
        with pytest.raises(ps.PenstockError):
            READERS[kind][1](path)


def test_annotations_and_images_that_are_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(2):
        Image.new("RGB", (8, 6)).save(folder / f"{i}.png")
    good = tmp_path / "coco.json"
    good.write_text(json.dumps(coco_data()))
    for number, path in enumerate(no_files(tmp_path / "none")):
        with pytest.raises(ps.PenstockError):
            ps.pack(folder, tmp_path / f"{number}.pst", coco=path)
        with pytest.raises(ps.PenstockError):
            ps.Dataset(folder, labels=path)
        with pytest.raises(ps.PenstockError):
            ps.pack(folder, tmp_path / f"{number}.pst", plan=path)
    (folder / "1.png").unlink()
    os.mkfifo(folder / "1.png")
    with pytest.raises(ps.errors.UnsupportedError, match="not a regular file"):
        ps.pack(folder, tmp_path / "a.pst", coco=good)
    with pytest.raises(ps.errors.UnsupportedError, match="not a regular file"):
        ps.Dataset(folder)


def test_values_and_arguments_that_are_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (8, 6)).save(folder / "0.png")
    pixels = np.zeros((6, 8, 3), np.uint8)
    for number, path in enumerate(no_files(tmp_path / "none")):
        for read in (ps.decode, ps.probe):
            with pytest.raises(ps.PenstockError):
                read(path)
        with ps.Writer(tmp_path / f"{number}.pst", {"image": ps.Image(), "sound": ps.Audio()}) as writer:
            for values in ({"image": path, "sound": b""}, {"image": pixels, "sound": path}):
                with pytest.raises(ps.PenstockError):
                    writer.write(values)
        with pytest.raises(ps.PenstockError):
            ps.Loader(folder, cache=ps.CacheUse("8MiB", admit=path))
        command = ["penstock", "analyze", str(folder), "--transforms", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 1 and str(path) in done.stderr


def test_pipes_in_place_of_a_data_sets_files(tmp_path: Path) -> None:
    folder, packed = tmp_path / "images", tmp_path / "a.pst"
    folder.mkdir()
    for i in range(4):
        Image.new("RGB", (8, 6), (i, 0, 0)).save(folder / f"{i}.png")
    ps.pack(folder, packed)
    opened, plain = ps.Dataset(packed), ps.Dataset(folder)
    shard = packed / "shard-000000.pst"
    for path in (shard, folder / "2.png"):
        path.rename(tmp_path / path.name)
        os.mkfifo(path)
    for dataset in (opened, plain):
        with pytest.raises(ps.errors.UnsupportedError, match="pipe, not a regular file"):
            dataset.read(2, "image")
        for storage in ("auto", "threads", "memory"):
            with pytest.raises(ps.PenstockError, match="not a regular file|was replaced or changed"):
                list(ps.Loader(dataset, batch_size=4, reading=ps.Reading(storage=storage)))
    for name in ("index.pst",):
        (packed / name).rename(tmp_path / name)
        os.mkfifo(packed / name)
        with pytest.raises(ps.errors.UnsupportedError, match="the index is a pipe"):
            ps.Dataset(packed)
    done = subprocess.run(["penstock", "verify", str(packed)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and "pipe" in done.stderr + done.stdout
    os.mkfifo(tmp_path / "operations.json")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "view", str(folder), "0", "-t", str(tmp_path / "operations.json"),
         "-o", "x.png"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode != 0
