#!/usr/bin/env python3
"""Reads a data set by docs/format-dataset.md alone: `read_reference.py DATASET` lists its samples as JSON lines.

Checks every checksum if the package xxhash is there (--require-checksums: fail if it is not). Slow and plain on
purpose: it shares nothing with the C library, so that the two can be held against each other.
"""
import argparse
import json
import os
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None

TYPES = [None, "image", "mask", "boxes", "keypoints", "audio", "int", "float", "bytes", "text", "json", "array"]


def check(condition, what):
    if not condition:
        raise SystemExit(f"not valid: {what}")


def check_sum(data, stored, what):
    if xxhash is not None:
        check(xxhash.xxh3_64_intdigest(data) == stored, f"checksum of {what}")


class Index:
    def __init__(self, path):
        with open(os.path.join(path, "index.pst"), "rb") as file:
            self.data = data = file.read()
        check(data[:8] == b"\x89PSTI\r\n\x1a", "magic")
        check(struct.unpack_from("<H", data, 8)[0] == 1, "major version")
        check_sum(data[:4088], self.u64(4088), "header")
        self.id = data[16:32]
        self.generation, self.n_samples = self.u64(32), self.u64(40)
        self.n_fields, self.n_shards = struct.unpack_from("<II", data, 48)
        (fields, shards, self.name_offsets, self.names, self.names_nbytes, blocks, n_blocks, blocks_sum,
         file_nbytes) = struct.unpack_from("<9Q", data, 56)
        check(file_nbytes == len(data) == blocks + 8 * n_blocks, "length")
        check_sum(data[blocks:], blocks_sum, "block table")
        for i in range(n_blocks):
            block = data[4096 + 65536 * i:min(4096 + 65536 * (i + 1), blocks)]
            check_sum(block, self.u64(blocks + 8 * i), f"block {i}")
        self.fields = [self.field(fields + 256 * i) for i in range(self.n_fields)]
        self.check_samples(data[136:152])
        self.shards = [(self.data[at:at + 32].rstrip(b"\0").decode(), *struct.unpack_from("<QQQ", data, at + 32))
                       for at in range(shards, shards + 64 * self.n_shards, 64)]

    def check_samples(self, stated):
        """Compares the identity of the samples that the header states with docs/format-dataset.md, section 3.6."""
        if xxhash is None or stated == bytes(16):
            return
        parts = [struct.pack("<Q", self.n_samples)]
        for field in self.fields:
            if field["type"] in ("int", "float"):
                parts += [bytes([TYPES.index(field["type"])]), field["name"].encode() + b"\0",
                          struct.pack("<Q", len(field["classes"]))]
                parts += [name.encode() + b"\0" for name in field["classes"]]
                parts.append(self.data[field["column"]:field["column"] + 8 * self.n_samples])
        run = b"".join(parts) + b"\0" + self.data[self.names:self.names + self.names_nbytes]
        halves = [xxhash.xxh3_64_intdigest(bytes([i]) + run) for i in range(2)]
        check(struct.pack("<QQ", *halves) == stated, "identity of the samples")

    def u64(self, at):
        return struct.unpack_from("<Q", self.data, at)[0]

    def field(self, at):
        kind, dtype, ndim, n_variants = self.data[at + 64:at + 68]
        n_classes, _, _, column, classes, _ = struct.unpack_from("<qQQQQQ", self.data, at + 104)
        if TYPES[kind] in ("array", "keypoints"):
            n_classes, classes = struct.unpack_from("<qQ", self.data, at + 152)
        field = {"name": self.data[at:at + 64].rstrip(b"\0").decode(), "type": TYPES[kind], "n_variants": n_variants,
                 "column": column, "classes": []}
        n_pairs, pairs = struct.unpack_from("<QQ", self.data, at + 176)
        if TYPES[kind] == "keypoints" and n_pairs:
            field["pairs"] = [list(struct.unpack_from("<II", self.data, pairs + 8 * i)) for i in range(n_pairs - 1)]
        for i in range(n_classes if classes else 0):
            start, end = struct.unpack_from("<QQ", self.data, classes + 8 * i)
            blob = classes + 8 * (n_classes + 1)
            field["classes"].append(self.data[blob + start:blob + end - 1].decode())
        return field

    def name(self, sample):
        start, end = struct.unpack_from("<QQ", self.data, self.name_offsets + 8 * sample)
        check(self.data[self.names + end - 1] == 0, "name's end")
        return self.data[self.names + start:self.names + end - 1].decode()

    def item(self, field, sample, variant):
        at = field["column"] + 64 * (sample * field["n_variants"] + variant)
        offset, nbytes, checksum, shard, form, ndim, flags = struct.unpack_from("<QQQIBBB", self.data, at)
        if form == 0:
            return None
        item = {"shard": shard, "offset": offset, "nbytes": nbytes, "xxh3": checksum, "form": form}
        if field["type"] in ("image", "mask"):
            item.update(zip(("height", "width", "channels", "bits", "orientation"),
                            struct.unpack_from("<IIBBB", self.data, at + 32), strict=True))
            if flags & 1:
                item["pixels_xxh3"] = self.u64(at + 48)
        elif ndim:
            item["shape"] = list(struct.unpack_from(f"<{ndim}I", self.data, at + 32))
        return item


def read_shard(index, path, number):
    """Returns all items of a shard, as its own records list them: {(sample, field, variant): (offset, bytes)}."""
    name, nbytes, header_sum, n_items = index.shards[number]
    with open(os.path.join(path, name), "rb") as file:
        data = file.read(nbytes)
    check(len(data) == nbytes, f"length of {name}")
    check(data[:8] == b"\x89PSTS\r\n\x1a" and data[16:32] == index.id, f"header of {name}")
    check(struct.unpack_from("<I", data, 32)[0] == number, f"number of {name}")
    check(struct.unpack_from("<Q", data, 56)[0] == header_sum, f"header checksum of {name}")
    check_sum(data[:56], header_sum, f"header of {name}")
    items, at = {}, 64
    while at < nbytes:
        check(data[at:at + 4] == b"PSTR", f"record at {at} of {name}")
        data_offset, field, variant, form = struct.unpack_from("<HHBB", data, at + 4)
        sample, length, item_sum, record_sum = struct.unpack_from("<QQQQ", data, at + 16)
        check_sum(data[at:at + 40], record_sum, f"record at {at} of {name}")
        item = data[at + data_offset:at + data_offset + length]
        check(len(item) == length, f"item at {at} of {name}")
        check_sum(item, item_sum, f"item at {at} of {name}")
        items[sample, field, variant] = (at + data_offset, form, item_sum, item)
        at = (at + data_offset + length + 7) // 8 * 8
    check(at == nbytes and len(items) == n_items, f"items of {name}")
    return items


def samples(path):
    index = Index(path)
    shards = {}
    n_items = 0
    for sample in range(index.n_samples):
        row = {"name": index.name(sample)}
        for i, field in enumerate(index.fields):
            if field["type"] in ("int", "float"):
                row[field["name"]] = struct.unpack_from("<q" if field["type"] == "int" else "<d", index.data,
                                                        field["column"] + 8 * sample)[0]
                continue
            row[field["name"]] = []
            for variant in range(field["n_variants"]):
                item = index.item(field, sample, variant)
                if item is not None:
                    number = item["shard"]
                    if number not in shards:
                        shards = {number: read_shard(index, path, number)}
                    offset, form, item_sum, data = shards[number][sample, i, variant]
                    check((offset, form, item_sum, len(data)) ==
                          (item["offset"], item["form"], item["xxh3"], item["nbytes"]), f"entry of sample {sample}")
                    n_items += 1
                row[field["name"]].append(item)
        yield row
    check(n_items == sum(shard[3] for shard in index.shards), "number of items")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--require-checksums", action="store_true")
    arguments = parser.parse_args()
    if xxhash is None and arguments.require_checksums:
        raise SystemExit("the package xxhash is missing")
    for row in samples(arguments.dataset):
        print(json.dumps(row, ensure_ascii=False))
    if xxhash is None:
        print("checksums not verified: the package xxhash is missing", file=sys.stderr)


if __name__ == "__main__":
    main()
