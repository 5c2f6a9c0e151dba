"""Every engine and page cache mode delivers the same batches and does what was requested."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, limits_address_space, picture
from flat import keywords
from penstock import transforms as T

ENGINES = ("threads", "uring", "memory")
PAGE_CACHES = ("keep", "drop", "direct")


def open_loader(data: Path, **options: object) -> ps.Loader:
    """Makes a loader. Skips the test if the kernel forbids io_uring."""
    options = {"batch_size": 5, "num_workers": 2, "transforms": {"image": [T.Resize((24, 24))]}, **options}
    try:
        return ps.Loader(data, **keywords(**options))
    except ps.errors.UnsupportedError as error:
        if options.get("storage") != "uring":
            raise
        pytest.skip(f"io_uring: {error}")


def epoch(loader: ps.Loader) -> list[bytes]:
    return [np.asarray(batch["image"]).tobytes() + np.asarray(batch["index"]).tobytes() for batch in loader]


@pytest.mark.parametrize("page_cache", PAGE_CACHES)
@pytest.mark.parametrize("storage", ENGINES)
def test_batches_are_the_same(folder, packed, storage, page_cache):
    for data in folder, packed:
        loader = open_loader(data, storage=storage, page_cache=page_cache)
        wanted = epoch(open_loader(data, storage="threads"))
        assert epoch(loader) == wanted and len(wanted) == 5
        assert loader.stats()["storage"]["kind"] == storage


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen raw images of 192 KiB. They have so many pages that pages shared with neighbours do not matter."""
    path = tmp_path_factory.mktemp("large") / "large.pst"
    with ps.Writer(path, {"image": "raw"}) as writer:
        for i in range(16):
            writer.write({"image": picture(i, 256, 256)})
    return path


def cached(path: Path) -> float:
    """Returns the share of a file's pages in the page cache, from 0 to 1. Looking does not read them."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
        pages = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(view)
        status = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(view)), pages)
        del first  # a mapping that is still in use cannot be closed
        assert status == 0, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in pages) / len(pages)


def drop(path: Path) -> bool:
    """Drops a file from the page cache. Returns False if it stays, as in tmpfs."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    return cached(path) == 0


@pytest.mark.parametrize("storage", ("threads", "uring"))
@pytest.mark.parametrize("page_cache", PAGE_CACHES)
def test_page_cache_is_left_as_asked(large, page_cache, storage):
    (shard,) = large.glob("shard-*")
    loader = open_loader(large, storage=storage, page_cache=page_cache)
    if not drop(shard):
        pytest.skip("this file system keeps all files in memory")
    epoch(loader)
    if loader.stats()["storage"]["fallback_direct"]:
        pytest.skip("this file system has no O_DIRECT")
    # Pages that the kernel read ahead after the last reads, and pages shared with neighbours, stay in the page cache.
    least, most = {"keep": (0.9, 1), "drop": (0, 0.6), "direct": (0, 0.05)}[page_cache]
    assert least <= cached(shard) <= most


def test_regions_of_progressive_files_are_counted(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(encoded(picture(i, 96, 80), "JPEG", progressive=True))
    whole = open_loader(tmp_path, batch_size=2)
    part = open_loader(tmp_path, batch_size=2, transforms={"image": [T.CenterCrop(24)]})
    epoch(whole)
    epoch(part)
    assert whole.stats()["decode"]["fallback_region"] == 0
    assert part.stats()["decode"]["fallback_region"] == 4


def test_shards_are_closed_where_descriptors_are_few(folder, tmp_path, run):
    """24 shards, and only 12 descriptors more than the process has open."""
    report = ps.pack(folder, tmp_path / "many.pst", shard_size=1)
    assert report.n_samples == len(list((tmp_path / "many.pst").glob("shard-*"))) == 24
    out = run(f"""
        import os, resource, penstock as ps
        from penstock import transforms as T
        loader = ps.Loader({str(tmp_path / "many.pst")!r}, 4, transforms=[T.Resize((8, 8))], output="numpy", cache=None)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 12,) * 2)
        print([sum(len(b["index"]) for b in loader) for _ in range(2)])
        """)
    assert out.split() == ["[24,", "24]"]


def test_auto_does_without_the_host_cache_where_address_space_is_short(packed, tmp_path, run):
    """An address space limit as schedulers set it, with a host service whose memory is larger."""
    limits_address_space()
    out = run(f"""
        import logging, os, resource, subprocess, sys
        logging.getLogger("penstock").setLevel(logging.ERROR)
        os.environ["PENSTOCK_SOCKET"] = {str(tmp_path / "socket")!r}
        program = sys.prefix + "/bin/penstock"
        subprocess.run([program, "serve", "--detach", "--quiet"], check=True)
        try:
            import penstock as ps
            from penstock import transforms as T
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
            loader = ps.Loader(packed, 4, transforms=[T.Resize((8, 8))], output="numpy")
            print(sum(len(b["index"]) for b in loader), loader.stats()["cache"]["choice"])
        finally:
            subprocess.run([program, "serve", "stop", "--quiet"], check=True)
        """)
    assert out.startswith("24 no cache: that of the host service fails:")
