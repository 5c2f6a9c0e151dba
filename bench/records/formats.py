"""formats.py FORMAT FOLDER STORE: writes JPEGs in class folders as a format of records. Prints a line of JSON.

    tfrecord   TensorFlow's: tf.train.Example of `image` (the file's bytes) and `number`, with the index that DALI wants
    recordio   MXNet's: an image header with the number as label, with its index
    tar        WebDataset's: NUMBER.jpg and NUMBER.cls, whose text is the number
    pst        Penstock's data set with the files' own bytes; pst_pli_jpeg: as pli-jpeg

A sample's number is its place among the sorted files. Records are written in this order, in files of neighbours (RecordIO in one,
as MXNet does), with the bytes of the images as they are. `samples` finds these bytes again in each format.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import crc32c

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import common  # noqa: E402

RECORDIO_MAGIC, LENGTH_BITS = 0xCED7230A, 29
RECORDIO_HEAD = struct.Struct("<II")
IMAGE_HEAD = struct.Struct("<IfQQ")  # flag, label, id, id2
PST_MAGIC, PST_HEAD_NBYTES = b"\x89PSTS\r\n\x1a", 64
PST_RECORD = struct.Struct("<4sH10xQQ")  # docs/format-dataset.md: mark, offset of the item, number of the sample, item length
PENSTOCK = {"pst": "original", "pst_pli_jpeg": "pli-jpeg"}


class Sample(NamedTuple):
    """Where the bytes of an image lie in a file."""

    number: int
    path: Path
    offset: int
    nbytes: int


# Protocol buffers: only what tf.train.Example needs.

def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def part(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def example(number: int, image: bytes) -> bytes:
    """Returns a tf.train.Example, which maps names to features."""
    features = {b"number": part(3, part(1, varint(number))), b"image": part(1, part(1, image))}
    return part(1, b"".join(part(1, part(1, name) + part(2, feature)) for name, feature in features.items()))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a varint. Returns the value and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def parts(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields the number, the start and the end of each field of a message. In an Example all fields have a length."""
    while start < end:
        tag, start = read_varint(data, start)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7} in a tf.train.Example")
        nbytes, start = read_varint(data, start)
        yield tag >> 3, start, start + nbytes
        start += nbytes


def read_example(data: bytes) -> tuple[int, int, int]:
    """Returns the sample's number, and the start and end of the image's bytes in the record."""
    number, image = -1, (0, 0)
    for _, start, end in parts(data, 0, len(data)):
        for _, *entry in parts(data, start, end):
            (_, *name), (_, *feature) = parts(data, *entry)
            ((_, *values),) = parts(data, *feature)
            ((_, *value),) = parts(data, *values)
            if data[slice(*name)] == b"number":
                number = read_varint(data, value[0])[0]
            elif data[slice(*name)] == b"image":
                image = (value[0], value[1])
    return number, *image


# Writers: each writes one shard.

Images = Iterable[tuple[int, bytes]]


def write_tfrecord(path: Path, images: Images) -> None:
    index = []
    with path.open("wb") as file:
        for number, image in images:
            data, start = example(number, image), file.tell()
            length = struct.pack("<Q", len(data))
            file.write(length + struct.pack("<I", crc32c.masked(length)) + data + struct.pack("<I", crc32c.masked(data)))
            index.append(f"{start} {file.tell() - start}\n")
    path.with_suffix(INDEXES["tfrecord"]).write_text("".join(index))


def write_recordio(path: Path, images: Images) -> None:
    index = []
    with path.open("wb") as file:
        for number, image in images:
            data = IMAGE_HEAD.pack(0, number, number, 0) + image
            if len(data) >> LENGTH_BITS or struct.pack("<I", RECORDIO_MAGIC) in data:
                raise ValueError(f"image {number} would have to be split: it is too large, or has RecordIO's own mark in it")
            index.append(f"{number}\t{file.tell()}\n")
            file.write(RECORDIO_HEAD.pack(RECORDIO_MAGIC, len(data)) + data + bytes(-len(data) % 4))
    path.with_suffix(INDEXES["recordio"]).write_text("".join(index))


def write_tar(path: Path, images: Images) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, image in images:
            for suffix, content in (("jpg", image), ("cls", b"%06d" % number)):
                member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                member.size = len(content)
                tar.addfile(member, BytesIO(content))


# Readers: each finds the samples of one shard.

def read_tfrecord(path: Path) -> Iterator[Sample]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        (nbytes,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + nbytes]
        stated = struct.unpack_from("<I", data, at + 8) + struct.unpack_from("<I", data, at + 12 + nbytes)
        if stated != (crc32c.masked(data[at : at + 8]), crc32c.masked(body)):
            raise ValueError(f"{path}: the record at byte {at} is damaged")
        number, start, end = read_example(body)
        yield Sample(number, path, at + 12 + start, end - start)
        at += nbytes + 16


def read_recordio(path: Path) -> Iterator[Sample]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        magic, length = RECORDIO_HEAD.unpack_from(data, at)
        if magic != RECORDIO_MAGIC or length >> LENGTH_BITS:
            raise ValueError(f"{path}: no whole record at byte {at}")
        start = at + RECORDIO_HEAD.size
        _, label, _, _ = IMAGE_HEAD.unpack_from(data, start)
        yield Sample(int(label), path, start + IMAGE_HEAD.size, length - IMAGE_HEAD.size)
        at = start + length + -length % 4


def read_tar(path: Path) -> Iterator[Sample]:
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name.endswith(".jpg"):
                yield Sample(int(member.name.split(".")[0]), path, member.offset_data, member.size)


def read_pst(path: Path) -> Iterator[Sample]:
    """Yields the items of a shard of a Penstock data set. Their number is that of the sample, which may have several items."""
    data, at = path.read_bytes(), PST_HEAD_NBYTES
    if data[: len(PST_MAGIC)] != PST_MAGIC:
        raise ValueError(f"{path}: no shard of a data set")
    while at < len(data):
        mark, before, number, nbytes = PST_RECORD.unpack_from(data, at)
        if mark != b"PSTR":
            raise ValueError(f"{path}: no record at byte {at}")
        yield Sample(number, path, at + before, nbytes)
        at += before + nbytes
        at += -at % 8


RECORDS = {"tfrecord": (write_tfrecord, read_tfrecord, ".tfrecord", 8), "recordio": (write_recordio, read_recordio, ".rec", 1),
           "tar": (write_tar, read_tar, ".tar", 8)}  # the last value: number of files
INDEXES = {"tfrecord": ".index", "recordio": ".idx"}
FORMATS = ("folder", *RECORDS, *PENSTOCK)


def shards(store: Path, form: str) -> list[Path]:
    return sorted(store.glob("*" + RECORDS[form][2]))


def write_records(files: list[Path], form: str, store: Path) -> None:
    """Writes the samples into a folder of shards."""
    write, _, suffix, n = RECORDS[form]
    store.mkdir()
    edges = [len(files) * i // n for i in range(n + 1)]
    for i in range(n):
        images = ((number, files[number].read_bytes()) for number in range(edges[i], edges[i + 1]))
        write(store / f"{i:02d}{suffix}", images)


def samples(work: common.Work, form: str, store: Path) -> list[Sample]:
    """Returns all samples in the order of their numbers."""
    if form == "folder":
        return [Sample(i, path, 0, path.stat().st_size) for i, path in enumerate(work.files())]
    if form in PENSTOCK:
        number = penstock_numbers(work, store)
        return sorted(sample._replace(number=number[sample.number]) for sample in pst_samples(store))
    return sorted(sample for path in shards(store, form) for sample in RECORDS[form][1](path))


def pst_samples(store: Path) -> Iterator[Sample]:
    for path in sorted(store.glob("shard-*.pst")):
        yield from read_pst(path)


def penstock_numbers(work: common.Work, store: Path) -> list[int]:
    """Returns for each sample of a data set its number among the sorted files."""
    import penstock as ps

    dataset = ps.Dataset(store)
    numbers = {str(path.relative_to(work.root)): i for i, path in enumerate(work.files())}
    return [numbers[dataset.name(i)] for i in range(len(dataset))]


def convert(work: common.Work, form: str, store: Path) -> float:
    """Deletes the store and writes it in this format. Returns the seconds."""
    common.remove(store)
    begun = time.perf_counter()
    if form in PENSTOCK:
        import penstock as ps

        ps.pack(work.root, store, forms=(PENSTOCK[form],))
    else:
        write_records(work.files(), form, store)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=[name for name in FORMATS if name != "folder"], metavar="FORMAT")
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path)
    args = parser.parse_args()
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    seconds = convert(work, args.form, args.store)
    print(json.dumps({"seconds": round(seconds, 3), "stored_mb": round(runner.stored_mb(args.store), 1)}))


if __name__ == "__main__":
    main()
