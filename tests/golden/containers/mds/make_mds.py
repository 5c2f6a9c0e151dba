#!/usr/bin/env python3
"""Writes the shards of this folder with MosaicML's streaming, and lists what its own readers read from them.

    python make_mds.py FOLDER FILES

FILES is the folder of the samples (../files). Needs mosaicml-streaming, which installs numpy and Pillow. Sets:

    all         a column of each encoding that can be a field, in two shards; expected.txt lists their rows
    packed      a shard that is compressed as a whole
    odd         encodings that are refused: pkl, list[jpeg], jpeg_array, pil in the mode P

expected.txt has the format of tests/containers/table_print.h.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.format import reader_from_json

KEYS = ("bird/0000", "bird/0001", "house/0002", "house/0003", "tree.v1/0005")
COLUMNS = {
    "blob": "bytes", "photo": "bytes", "jpg": "jpeg", "seg": "png", "raw": "pil", "text": "str", "meta": "json",
    "label": "int", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "si": "str_int",
    "sf": "str_float", "sd": "str_decimal", "any": "ndarray", "typed": "ndarray:float32", "fixed": "ndarray:int16:2,3",
}
AS_BYTES = {"jpeg", "png"}
TYPES = {"photo": "image", "jpg": "image", "seg": "mask", "raw": "array", "text": "text", "sd": "text", "meta": "json",
         "blob": "bytes", "any": "array", "typed": "array", "fixed": "array"}


def sample(files: Path, i: int) -> dict[str, Any]:
    def read(suffix: str) -> bytes:
        return (files / f"{KEYS[i]}.{suffix}").read_bytes()

    with Image.open(files / f"{KEYS[i]}.jpg") as picture:
        small = picture.resize((5 + i, 3))
    return {
        "blob": bytes(range(i, 200)), "photo": read("jpg"), "jpg": read("jpg"), "seg": read("seg.png"),
        "raw": [small, small.convert("L"), small.convert("RGBA"), small.convert("LA"), small][i],
        "text": read("txt").decode(), "meta": {"i": i, "name": "ö" * (20 * i)}, "label": i - 2, "i8": -128 + i, "i16": -2 ** 15,
        "i32": -2 ** 31 + i, "i64": -2 ** 63, "u8": 255, "u16": 65535 - i, "u32": 2 ** 32 - 1, "u64": 2 ** 63 - 1,
        "f16": [0.5, 6e-8, -65504.0, float("inf"), 1 / 3][i], "f32": [0.1, -0.0, 1e-40, 3e38, float("nan")][i], "f64": 0.1 * i,
        "si": [0, -1, 2 ** 63 - 1, -2 ** 63, 7][i], "sf": [1e-5, float("-inf"), float("nan"), -0.25, 1e300][i],
        "sd": Decimal("0.1000000000000000000001") * (i + 1),
        "any": np.arange(300 * (i + 1), dtype=np.uint16).reshape([(1, 300), (2, 300), (450, 2), (1200, 1), (5, 300)][i]),
        "typed": np.arange(i + 1, dtype=np.float32), "fixed": np.arange(6, dtype=np.int16).reshape(2, 3) - i,
    }


def line(name: str, kind: str, value: Any) -> str:
    if kind == "int":
        return f"  {name} int {int(value)}\n"
    if kind == "float":
        return f"  {name} float {float(value):.9g}\n"
    if kind == "array":
        array = np.asarray(value)
        if name == "raw" and array.ndim == 2:
            array = array[:, :, None]
        shape = "x".join(str(n) for n in array.shape)
        return f"  {name} array {array.dtype} {shape} {zlib.crc32(array.tobytes()):08x}\n"
    data = value if isinstance(value, bytes) else str(value).encode()
    return f"  {name} {kind} {len(data)} {zlib.crc32(data):08x}\n"


def kind_of(name: str, encoding: str) -> str:
    number = "float" if encoding.startswith("float") or encoding == "str_float" else "int"
    return TYPES.get(name, number)


def listing(folder: Path) -> str:
    """Returns the listing of the rows of all shards, as streaming reads them."""
    out = []
    for entry in json.loads((folder / "index.json").read_text())["shards"]:
        reader = reader_from_json(str(folder), "", entry)
        encodings = list(reader.column_encodings)
        for k, encoding in enumerate(encodings):
            if encoding in AS_BYTES or encoding == "json":
                reader.column_encodings[k] = "bytes"  # stored bytes, not decoded images
        for i in range(reader.samples):
            row = reader.decode_sample(reader.get_sample_data(i))
            out.append(f"{Path(entry['raw_data']['basename']).stem}/{i:08d}\n")
            out += [line(name, kind_of(name, encoding), row[name])
                    for name, encoding in zip(reader.column_names, encodings, strict=True)]
    return "".join(out)


def write(folder: Path, columns: dict[str, str], rows: list[dict[str, Any]], **options: Any) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns=columns, **options) as writer:
        for row in rows:
            writer.write(row)


def main() -> None:
    folder, files = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [sample(files, i) for i in range(len(KEYS))]
    write(folder / "all", COLUMNS, rows, hashes=["sha1", "xxh64"], size_limit=20000)
    (folder / "all" / "expected.txt").write_text(listing(folder / "all"))
    write(folder / "packed", {"text": "str"}, [{"text": "a" * 100}], compression="zstd:7")
    with Image.open(files / "bird/0000.jpg") as picture:
        palette = picture.resize((4, 4)).convert("P")
    for name, encoding, value in (("pkl", "pkl", {"a": 1}), ("images", "list[jpeg]", [rows[0]["raw"]]),
                                  ("jpegs", "jpeg_array", [rows[0]["jpg"]]), ("palette", "pil", palette)):
        write(folder / "odd" / name, {"label": "int", "x": encoding}, [{"label": 1, "x": value}])
    (folder / "VERSIONS").write_text("".join(f"{name} {importlib.metadata.version(name)}\n"
                                             for name in ("mosaicml-streaming", "numpy", "pillow")))


if __name__ == "__main__":
    main()
