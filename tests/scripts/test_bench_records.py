"""Record formats of other libraries: what was written is read back unchanged; the measures of a shuffle; when a conversion has
paid off."""

import argparse
import ctypes
import mmap
import os
import random
import struct

import numpy as np
import pytest

from bench_modules import load

crc32c, formats, shuffle, records, delivered, cell_of_records, common = (load(*place) for place in (
    *(("records", name) for name in ("crc32c", "formats", "shuffle", "records", "delivered", "cell")), ("loader", "common")))
N, BATCH = 4000, 50


def slow_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (crc32c.POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_checksum_has_the_published_values():
    assert crc32c.crc32c(b"123456789") == 0xE3069283
    assert crc32c.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720
    assert crc32c.crc32c(bytes([255] * 32)) == 0x62A8AB43
    assert crc32c.crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("nbytes", [0, 1, 3, 4, 5, 63, 64, 65, 127, 128, 129, 1000, 4096, 10001])
def test_the_checksum_is_that_of_the_definition(nbytes):
    data = random.Random(nbytes).randbytes(nbytes)
    assert crc32c.crc32c(data) == slow_crc(data)


@pytest.fixture
def work(tmp_path):
    """Makes files of many lengths, which are no JPEGs, because record formats accept any bytes."""
    root = tmp_path / "imagenet"
    for i in range(37):
        path = root / f"c{i % 3}" / f"{i}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(i).randbytes(1 + i * 97))
    return common.Work("imagenet", root, 8, 224, True, True)


def bytes_of(sample):
    return sample.path.read_bytes()[sample.offset : sample.offset + sample.nbytes]


@pytest.mark.parametrize("form", ["folder", "tfrecord", "recordio", "tar"])
def test_what_is_written_is_found_again(work, form, tmp_path):
    store = work.root if form == "folder" else tmp_path / "store"
    if form != "folder":
        formats.convert(work, form, store)
    found = formats.samples(work, form, store)
    assert [sample.number for sample in found] == list(range(37))
    assert [bytes_of(sample) for sample in found] == [path.read_bytes() for path in work.files()]
    if form in formats.RECORDS:
        assert len(formats.shards(store, form)) == formats.RECORDS[form][3]


def test_the_indexes_name_whole_records(work, tmp_path):
    for form, path in (("tfrecord", tmp_path / "a"), ("recordio", tmp_path / "b")):
        formats.convert(work, form, path)
    n = 0
    for shard in formats.shards(tmp_path / "a", "tfrecord"):
        end = 0
        for line in shard.with_suffix(".index").read_text().splitlines():
            start, nbytes = map(int, line.split())
            (length,) = struct.unpack_from("<Q", shard.read_bytes(), start)
            assert start == end and nbytes == length + 16
            end, n = start + nbytes, n + 1
        assert end == shard.stat().st_size
    assert n == 37
    (shard,) = formats.shards(tmp_path / "b", "recordio")
    lines = [tuple(map(int, line.split("\t"))) for line in shard.with_suffix(".idx").read_text().splitlines()]
    assert [number for number, _ in lines] == list(range(37))
    for _, start in lines:
        assert start % 4 == 0
        assert shard.read_bytes()[start : start + 4] == struct.pack("<I", formats.RECORDIO_MAGIC)


def test_an_example_is_tensorflows_protocol_buffer():
    made = formats.example(300, b"xy")
    # features { feature { key: "number" value { int64_list { value: 300 } } } feature { key: "image" value { bytes_list ... } } }
    number = b"\x0a\x06number\x12\x06\x1a\x04\x0a\x02\xac\x02"
    image = b"\x0a\x05image\x12\x06\x0a\x04\x0a\x02xy"
    features = b"\x0a" + bytes([len(number)]) + number + b"\x0a" + bytes([len(image)]) + image
    wanted = b"\x0a" + bytes([len(features)]) + features
    assert made == wanted
    found, start, end = formats.read_example(made)
    assert found == 300 and made[start:end] == b"xy"


@pytest.mark.parametrize("where", ["length", "bytes"])
def test_a_damaged_tfrecord_is_an_error(work, tmp_path, where):
    formats.convert(work, "tfrecord", tmp_path / "store")
    path = formats.shards(tmp_path / "store", "tfrecord")[2]
    data = bytearray(path.read_bytes())
    data[9 if where == "length" else 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        formats.samples(work, "tfrecord", tmp_path / "store")


def test_an_image_with_recordios_mark_is_refused(tmp_path):
    with pytest.raises(ValueError, match="image 3 "):
        formats.write_recordio(tmp_path / "x.rec", [(3, b"abcd" + struct.pack("<I", formats.RECORDIO_MAGIC))])


PAGE = mmap.PAGESIZE


def pages_held(path):
    """Returns for each page of a file whether it is in the page cache."""
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype, found.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
    found.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    found.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    nbytes = path.stat().st_size
    held = ctypes.create_string_buffer(-(-nbytes // PAGE))
    with path.open("rb") as file:
        mapped = found.mmap(None, nbytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        assert found.mincore(mapped, nbytes, held) == 0
        found.munmap(mapped, nbytes)
    return [bool(byte & 1) for byte in held.raw[: -(-nbytes // PAGE)]]


@pytest.fixture
def shard(tmp_path):
    """Makes a file of three pages with samples 0, 1 and 2, all in the page cache. Sample 1 begins in the middle of a page."""
    path = tmp_path / "shard"
    path.write_bytes(random.Random(1).randbytes(3 * PAGE))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if any(pages_held(path)):
            pytest.skip("this file system keeps pages that are to be dropped")
    path.read_bytes()
    places = [(0, 0, PAGE + PAGE // 2), (1, PAGE + PAGE // 2 + 20, PAGE // 2 - 20), (2, 2 * PAGE + 8, PAGE - 100)]
    return path, delivered.Delivered(formats.Sample(number, path, offset, nbytes) for number, offset, nbytes in places)


def test_pages_that_were_read_ahead_stay_until_their_samples_are_delivered(shard):
    path, places = shard
    places.drop([0])
    assert pages_held(path) == [False, True, True]  # half of the second page belongs to sample 1
    places.drop([1, 7])  # samples of another file
    assert pages_held(path) == [False, False, True]
    places.drop([2])  # the rest of the file belongs to the last sample
    assert pages_held(path) == [False, False, False]
    path.read_bytes()
    places.drop([2, 1])  # samples of the next epoch
    assert pages_held(path) == [True, True, False]


def test_a_cold_epoch_keeps_what_a_reader_has_read_ahead(work, tmp_path, shard):
    """The reader loads whole files into the page cache before it delivers their samples, like a sequential reader."""
    store, held = tmp_path / "store", []
    formats.convert(work, "recordio", store)
    (path,) = formats.shards(store, "recordio")
    with path.open("rb") as file:
        os.fsync(file.fileno())

    def epoch():
        path.read_bytes()
        for first in range(0, 37, 4):
            held.append(sum(pages_held(path)))
            numbers = list(range(first, min(first + 4, 37)))
            yield np.zeros((len(numbers), 1), np.float32), numbers

    args = argparse.Namespace(form="recordio", epochs=1, NAME="a reader")
    runs = cell_of_records.timed((epoch() for _ in range(2)), work, store, args, True)
    half = held[10:]
    assert len(runs) == 1 and half == held[:10]
    # later samples, and so later files, are larger
    assert half == sorted(half, reverse=True) and half[5] > len(pages_held(path)) // 3
    assert not any(pages_held(path))


@pytest.mark.parametrize("form", ["tfrecord", "recordio", "tar"])
def test_a_whole_epoch_drops_every_page(work, form, tmp_path):
    formats.convert(work, form, tmp_path / "store")
    places = delivered.Delivered(formats.samples(work, form, tmp_path / "store"))
    for path in formats.shards(tmp_path / "store", form):
        file = next(file for found in places._places.values() for file, _ in found if file.path == path)
        assert len(file.owners) == -(-path.stat().st_size // PAGE) and file.owners.all()
        runs = [run for extent in range(len(file.pages)) for run in file.deliver(extent)]
        assert sorted(page for first, end in runs for page in range(first, end)) == list(range(len(file.owners)))
        assert (file.left == file.owners).all()


def test_items_of_a_penstock_shard(tmp_path):
    shard = formats.PST_MAGIC + bytes(56)
    bodies = {5: b"item of five", 6: b"x" * 100}
    for number, body in bodies.items():
        shard += struct.pack("<4sHHBB6xQQ8x8x", b"PSTR", 64, 0, 0, 0, number, len(body)) + bytes(16) + body
        shard += bytes(-len(shard) % 8)
    path = tmp_path / "shard-000000.pst"
    path.write_bytes(shard)
    found = list(formats.read_pst(path))
    assert {sample.number: bytes_of(sample) for sample in found} == bodies
    path.write_bytes(shard[:64] + b"junk" + shard[68:])
    with pytest.raises(ValueError, match="no record"):
        list(formats.read_pst(path))


def buffered(n, held, seed=5):
    """Returns the order of a buffer that is filled in sequence and drawn from at random."""
    rng, buffer, out = random.Random(seed), [], []
    for i in range(n):
        buffer.append(i)
        if len(buffer) == held:
            out.append(buffer.pop(rng.randrange(held)))
    rng.shuffle(buffer)
    return out + buffer


def quality(*orders):
    return shuffle.quality(list(orders), np.arange(N) * 10 // N, BATCH)


def test_the_order_of_storage_is_no_shuffle():
    found = quality(range(N), range(N))
    assert found["displacement"] == 0 and found["serial"] > 0.999 and found["repeats"] > 0.999 and found["entropy"] < 0.05


def test_a_permutation_is_as_good_as_random():
    rng = np.random.default_rng(3)
    found = quality(rng.permutation(N), rng.permutation(N))
    assert abs(found["displacement"] - 1) < 0.05 and abs(found["serial"]) < 0.05
    assert abs(found["repeats"]) < 0.05 and abs(found["entropy"] - 1) < 0.02


def test_a_larger_buffer_mixes_better():
    small, large = (quality(buffered(N, held), buffered(N, held, 6)) for held in (N // 100, N // 4))
    assert 0 < small["displacement"] < large["displacement"] < 1
    assert small["entropy"] < large["entropy"] < 1
    assert small["serial"] > large["serial"] > 0.1 and small["repeats"] > large["repeats"] > 0.1


def test_a_conversion_pays_by_what_each_epoch_saves():
    assert records.break_even(6.0, 5.0, 3.0) == 3.0
    assert records.break_even(6.0, 3.0, 3.0) is None and records.break_even(6.0, 3.0, 5.0) is None


def cell(form, loader, warm, cold, **more):
    def kind(seconds):
        return {"epoch_s": seconds, "images_per_s": 100 / seconds, "low": 1.0, "high": 2.0, "disk_mb": 3.0, "foreign_cores": 0.0}

    return {"form": form, "loader": loader, "cores": 1, "rate": 30, "name": loader.upper(), "warm": kind(warm), "cold": kind(cold),
            "shuffle": {"displacement": 1.0, "serial": 0.0, "entropy": 1.0}, "versions": {loader: "1"}, **more}


def merged():
    cells = [cell("folder", "dali", 4.0, 8.0), cell("folder", "torch", 5.0, 9.0), cell("tfrecord", "dali", 3.0, 8.5),
             cell("tfrecord", "tfdata", 3.0, 8.5, written_s=0.5), cell("tar", "webdataset", 4.0, 6.0),
             {"form": "recordio", "loader": "dali", "cores": 1, "rate": 30, "absent": "no | such"}]
    records.with_break_even(cells, {"tfrecord": {"seconds": 2.0}, "tar": {"seconds": 3.0}, "recordio": {"seconds": 1.0}})
    return {"machine": {"cpu": "a CPU", "cores": 2, "commit": "abc", "date": "2000-01-02"}, "conversions": {}, "cells": cells,
            "settings": {"images": 100, "set_mb": 9.0, "epochs": 2, "rates": [30]}}


def test_each_loader_is_compared_with_its_own_folder():
    found = {(each["form"], each["loader"]): each.get("break_even") for each in merged()["cells"]}
    assert found["tfrecord", "dali"] == {"warm": 0.5, "cold": None}  # only the faster writer of the format counts
    assert found["tfrecord", "tfdata"] == {}  # tfdata's own folder was not measured
    assert found["tar", "webdataset"] == {"warm": 3.0, "cold": 1.0}  # measured with torch's folder
    assert found["folder", "dali"] is None and found["recordio", "dali"] is None


def test_the_table_shows_what_was_found():
    text = records.table(merged())
    assert "| TFRecord | DALI | 33 (1-2) | 12 (1-2) | 3.0 | 0.50 | 0.5 | never | 1.0 |" in text
    assert "no / such" in text and "arXiv 2304.08925" in text
    assert records.picture(merged()).count("<rect") > 9
