#!/usr/bin/env python3
"""Writes seeds for fuzz_containers_mds and fuzz_containers_tfrecord, from the golden files and by hand.

    tests/fuzz/make_records_corpus.py DIRECTORY

Writes DIRECTORY/containers_mds and DIRECTORY/containers_tfrecord.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "containers"


def shard(columns: dict[str, tuple[str, int | None]], samples: list[bytes]) -> bytes:
    config = json.dumps({"column_names": list(columns), "column_encodings": [c[0] for c in columns.values()],
                         "column_sizes": [c[1] for c in columns.values()], "format": "mds", "version": 2}).encode()
    at, offsets = 8 + 4 * len(samples) + len(config), []
    for sample in (*samples, b""):
        offsets.append(at)
        at += len(sample)
    return struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets) + config + b"".join(samples)


def mds_seeds() -> Iterator[tuple[str, bytes]]:
    def seed(rules: int, notes: bytes, file: bytes) -> bytes:
        return struct.pack("<BH", rules, len(notes)) + notes + file

    entry = {"column_names": ["x"], "column_encodings": ["int"], "column_sizes": [8], "format": "mds", "samples": 1,
             "raw_data": {"basename": "a.file", "bytes": 0, "hashes": {}}, "zip_data": None, "version": 2}
    one = shard({"x": ("int", 8)}, [bytes(8)])
    entry["raw_data"]["bytes"] = len(one)  # type: ignore[index]
    yield "one", seed(0, json.dumps({"shards": [entry], "version": 2}).encode(), one)
    yield "none", seed(0, b"", shard({"x": ("int", 8)}, []))
    yield "text", seed(2, b"", shard({"label": ("str_int", None), "text": ("str", None)},
                                     [struct.pack("<II", 1, 2) + b"7ab", struct.pack("<II", 2, 0) + b"-1"]))
    yield "array", seed(0, b"", shard({"x": ("ndarray", None), "y": ("ndarray:int16:2", 4)},
                                      [struct.pack("<I", 6) + b"\x08\x08\x01\x02ab" + bytes(4)]))
    yield "pil", seed(0, b"", shard({"p": ("pil", None)}, [struct.pack("<IIII", 15, 2, 1, 1) + b"Lab"]))
    yield "odd", seed(1, b"", shard({"x": ("pkl", None), "j": ("json", None)}, [struct.pack("<II", 1, 2) + b".{}"]))
    yield "numbers", seed(0, b"", shard({"a": ("float16", 2), "b": ("uint64", 8), "c": ("str_float", None)},
                                        [struct.pack("<I", 3) + bytes(10) + b"1.5"]))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + bytes([len(content)]) + content


def example(**features: bytes) -> bytes:
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature)) for name, feature in features.items()))


def tfrecord_seeds() -> Iterator[tuple[str, bytes]]:
    def seed(rules: int, notes: object, *records: bytes) -> bytes:
        text = b"" if notes is None else json.dumps(notes).encode()
        return bytes([rules]) + b"".join(struct.pack("<H", len(piece)) + piece for piece in (text, *records))

    def tfds(**features: object) -> object:
        return {"featuresDict": {"features": features}}

    ints, floats = field(3, field(1, b"\x01\x02")), field(2, field(1, struct.pack("<2f", 1, 2)))
    one = field(3, field(1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
    image, text = field(1, field(1, b"\xff\xd8\xff")), field(1, field(1, b"Hello"))
    loose = field(3, b"\x08\x05\x08\x06") + field(2, b"\x0d" + bytes(4))
    yield "example", seed(0, None, example(image=image, label=one, t=text), example(image=image, label=ints, t=text))
    yield "arrays", seed(0, None, example(a=ints, f=floats), example(a=loose, f=field(2, b"\x0d" + bytes(4) + b"\x0d" + bytes(4))))
    yield "rules", seed(4, None, example(x=text, a=one, label=field(3, field(1, b"\x03")), text=text))
    yield "several", seed(0, None, example(b=field(1, field(1, b"a") + field(1, b"b"))))
    yield "raw", seed(0, None, b"\xff\xd8\xff\xe0", b"")
    yield "sequence", seed(0, None, example(a=one) + field(2, b""))
    yield "empty", seed(0, None, b"", b"\x0a\x00")
    shape = {"dimensions": ["-1", "2"]}
    yield "tfds", seed(0, tfds(a={"tensor": {"dtype": "uint8", "shape": shape}}, s={"sequence": {"feature": {
        "featuresDict": {"features": {"b": {"boundingBox": {}}}}}, "length": "-1"}}, l={"classLabel": {"numClasses": "4"}},
        i={"image": {"dtype": "uint8"}}, t={"text": {}}), example(a=ints, l=field(3, field(1, b"\x03")), i=image, t=text, **{
            "s/b": field(2, field(1, bytes(16)))}))
    yield "packed", seed(0, tfds(z={"tensor": {"dtype": "int16", "encoding": "zlib"}},
                                 b={"tensor": {"dtype": "int16", "encoding": "bytes", "shape": {"dimensions": ["2"]}}}),
                         example(b=field(1, field(1, bytes(4))), x=text))
    yield "file", b"\x80" + (GOLDEN / "tfrecord" / "sequence.tfrecord").read_bytes()
    yield "gzip", b"\x80" + (GOLDEN / "tfrecord" / "gzip.tfrecord").read_bytes()


def main() -> int:
    for name, seeds in (("containers_mds", mds_seeds()), ("containers_tfrecord", tfrecord_seeds())):
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        for what, content in seeds:
            (folder / what).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
