#!/usr/bin/env python3
"""Writes the Parquet files of this folder, one set for each library, and beside each file the listing of its rows.

    python make_parquet.py SET FOLDER

SET is one of these; each needs only the packages named behind it, and pyarrow and zlib for the listings:

    pyarrow         pyarrow, numpy, Pillow
    legacy          fastparquet: schemas of older writers, in the footers of files of pyarrow
    refused         pyarrow, numpy, Pillow: files that cannot be read in place
    datasets        datasets: the features of Hugging Face
    polars          polars
    duckdb          duckdb
    fastparquet     fastparquet, pandas

A listing is a file of JSON lines: the fields with their types, then the values of each row as pyarrow reads them. Bytes and
texts are listed as length and CRC-32, floats as the bits of a double, arrays with their shape. Null values are not listed. The
script makes the pictures itself. Each set writes the versions of its libraries into VERSIONS.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import importlib.metadata
import io
import json
import math
import struct
import sys
import wave
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N = 8
CAPTION = "a sentence of more than sixty-four bytes, which is too long for the index (naïve), number "
EPOCH = datetime.datetime(1970, 1, 1)
Row = dict[str, Any]
Field = tuple[str, str, Callable[[Row], Any]]


def picture(i: int, form: str = "JPEG", side: int = 40) -> bytes:
    from PIL import Image

    noise = np.random.default_rng(i).integers(0, 256, (side, side + i, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, form, quality=90)
    return out.getvalue()


def sound(i: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", round(9000 * math.sin(k * (i + 2) / 9))) for k in range(400)))
    return out.getvalue()


def say_versions(folder: Path, *packages: str) -> None:
    path = folder / "VERSIONS"
    lines = dict(line.split(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    lines |= {name: importlib.metadata.version(name) for name in ("numpy", "pillow", "pyarrow", *packages)}
    lines["python"] = sys.version.split()[0]
    path.write_text("".join(f"{name} {version}\n" for name, version in sorted(lines.items())))


# Values in the form of the listings. ----------------------------------------------------------------------------------------


def listed_bytes(value: bytes | str | None) -> list[Any] | None:
    if value is None:
        return None
    value = value.encode() if isinstance(value, str) else value
    return [len(value), f"{zlib.crc32(value):08x}"]


def listed_float(value: float | None) -> str | None:
    return None if value is None else struct.pack(">d", value).hex()


def listed_array(value: Any, dtype: str) -> list[Any] | None:
    if value is None:
        return None
    array = np.asarray(value, dtype)
    return [" ".join(map(str, array.shape)), *listed_bytes(array.tobytes())]


def of_bytes(name: str, kind: str, column: str | None = None) -> Field:
    return name, kind, lambda row: listed_bytes(row[column or name])


def of_file(name: str, kind: str, column: str | None = None, i: int | None = None) -> Field:
    """Returns the bytes of a struct of bytes and path, or those of item i of a list of such structs."""

    def get(row: Row) -> Any:
        value = row[column or name]
        if value is not None and i is not None:
            value = value[i]
        return None if value is None else listed_bytes(value["bytes"])

    return name, kind, get


def of_item(name: str, kind: str, column: str, i: int) -> Field:
    return name, kind, lambda row: None if row[column] is None else listed_bytes(row[column][i])


def of_int(name: str, kind: str = "int") -> Field:
    return name, kind, lambda row: None if row[name] is None else int(row[name])


def of_time(name: str, zero: Any, unit: datetime.timedelta) -> Field:
    return name, "int", lambda row: (row[name] - zero) // unit


def of_float(name: str) -> Field:
    return name, "float", lambda row: None if row[name] is None else listed_float(float(row[name]))


def of_array(name: str, dtype: str, shape: str) -> Field:
    return name, f"array {dtype} {shape}", lambda row: listed_array(row[name], dtype)


def list_rows(path: Path, fields: list[Field], table: pa.Table | None = None) -> None:
    """Writes the listing of a file, or of a table that equals the file except for types that do not affect any value."""
    table = pq.ParquetFile(path).read() if table is None else table
    lines = [json.dumps({name: kind for name, kind, _ in fields}, ensure_ascii=False)]
    for row in table.to_pylist():
        values = {name: get(row) for name, _, get in fields}
        lines.append(json.dumps({name: value for name, value in values.items() if value is not None}))
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")


# Sets ------------------------------------------------------------------------------------------------------------------------


def file_type() -> pa.DataType:
    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def simple(n: int = N) -> tuple[dict[str, list[Any]], list[Field]]:
    """Columns that every library can write, without nulls."""
    columns = {
        "image": [picture(i) for i in range(n)],
        "label": [i % 3 for i in range(n)],
        "caption": [CAPTION + str(i) if i % 3 == 0 else f"short {i % 2}" for i in range(n)],
        "score": [i / 7 for i in range(n)],
        "good": [i % 2 == 0 for i in range(n)],
    }
    fields = [of_bytes("image", "image"), of_int("label"), of_bytes("caption", "text"), of_float("score"), of_int("good")]
    return columns, fields


def rich() -> tuple[pa.Table, list[Field]]:
    """Columns of many types, some with nulls."""
    columns, _ = simple()
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    cells = {
        "image": pa.array([{"bytes": b, "path": None if i == 1 else f"a/{i}.jpg"} if i != 5 else None
                           for i, b in enumerate(columns["image"])], file_type()),
        "png": pa.array([None if i < 2 else picture(i, "PNG", 12) for i in range(N)], pa.binary()),
        "sound": pa.array([{"path": None, "bytes": sound(i)} for i in range(N)],
                          pa.struct([("path", pa.string()), ("bytes", pa.binary())])),
        "caption": pa.array([None if i == 2 else text for i, text in enumerate(columns["caption"])]),
        "empty": pa.array(["" if i % 2 else "x" for i in range(N)]),
        "label": pa.array(columns["label"], pa.int64()),
        "small": pa.array([-i for i in range(N)], pa.int8()),
        "u32": pa.array([2**32 - 1 - i for i in range(N)], pa.uint32()),
        "u64": pa.array([2**63 - 1 - i for i in range(N)], pa.uint64()),
        "maybe": pa.array([None if i % 3 == 1 else i * 10**9 for i in range(N)], pa.int64()),
        "score": pa.array(columns["score"], pa.float32()),
        "double": pa.array(columns["score"], pa.float64()),
        "half": pa.array(np.array([0, -1.5, 1e-7, 65504, np.inf, 6e-8, 0.1, -0.0], np.float16)),
        "good": pa.array([None if i == 3 else i % 2 == 0 for i in range(N)]),
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(N)], pa.decimal128(9, 2)),
        "day": pa.array([datetime.date(2024, 1, i + 1) for i in range(N)]),
        "at": pa.array([at] * N, pa.timestamp("us")),
        "blob": pa.array([b"\x00\x01no picture" + bytes(i) for i in range(N)]),
        "uuid": pa.array([bytes([i] * 16) for i in range(N)], pa.binary(16)),
        "nothing": pa.nulls(N),
        "nested": pa.array([{"a": 1, "b": {"c": "x"}}] * N),
        "map": pa.array([[("k", 1)]] * N, pa.map_(pa.string(), pa.int32())),
        "words": pa.array([["a", "b"]] * N),
        "tables": pa.array([[[1, 2], [3]]] * N),
    }
    fields = [
        of_file("image", "image"), of_bytes("png", "image"), of_file("sound", "audio"), of_bytes("caption", "text"),
        of_bytes("empty", "text"), of_int("label"), of_int("small"), of_int("u32"), of_int("u64"), of_int("maybe"),
        of_float("score"), of_float("double"), of_float("half"), of_int("good"), of_float("price"),
        of_time("day", EPOCH.date(), datetime.timedelta(days=1)), of_time("at", EPOCH, datetime.timedelta(microseconds=1)),
        of_bytes("blob", "bytes"), of_bytes("uuid", "bytes"),
    ]
    return pa.table(cells), fields


def lists() -> tuple[pa.Table, list[Field]]:
    items = [{"bytes": picture(i, side=16), "path": None} for i in range(N)]
    cells = {
        "plain": pa.array([[i + k / 3 for k in range(5)] for i in range(N)], pa.list_(pa.float32())),
        "coded": pa.array([None if i == 4 else [k % 2 for k in range(i % 3)] for i in range(N)], pa.list_(pa.int64())),
        "half": pa.array([np.array([i, 0.5], np.float16) for i in range(N)], pa.list_(pa.float16())),
        "flags": pa.array([[i % 2 == 0, True, False] for i in range(N)], pa.list_(pa.bool_())),
        "bytes8": pa.array([[i, 255] for i in range(N)], pa.list_(pa.uint8())),
        "needed": pa.array([[1.5, i] for i in range(N)],
                           pa.list_(pa.field("element", pa.float64(), nullable=False))),
        "pair": pa.array([None if i == 2 else [items[i], items[N - 1 - i]] for i in range(N)], pa.list_(file_type())),
        "frame": pa.array([[picture(i, "PNG", 8), None if i == 3 else picture(i + 1, "PNG", 8), picture(0, "PNG", 8)]
                           for i in range(N)], pa.list_(pa.binary())),
    }
    fields = [
        of_array("plain", "float32", "5"), of_array("coded", "int64", "any"), of_array("half", "float16", "2"),
        of_array("flags", "bool", "3"), of_array("bytes8", "uint32", "2"), of_array("needed", "float64", "2"),
        *(of_file(f"pair_{i}", "image", "pair", i) for i in range(2)),
        *(of_item(f"frame_{i}", "image", "frame", i) for i in range(3)),
    ]
    return pa.table(cells), fields


def make_pyarrow(folder: Path) -> None:
    table, fields = rich()
    columns, simple_fields = simple()
    again = pa.table({name: values * 2 for name, values in columns.items()})
    numbers, number_fields = lists()
    cases = {
        "pyarrow_default": (table, fields, {}),
        "pyarrow_plain": (table, fields, {"compression": "none", "use_dictionary": False, "row_group_size": 5,
                                          "data_page_size": 2048, "write_batch_size": 2}),
        "pyarrow_v2_zstd": (table, fields, {"compression": "zstd", "data_page_version": "2.0", "write_page_checksum": True,
                                            "data_page_size": 4096, "write_batch_size": 3}),
        "pyarrow_v2_none": (table, fields, {"compression": "none", "data_page_version": "2.0", "write_page_checksum": True,
                                            "row_group_size": 6}),
        "pyarrow_encodings": (pa.table(columns), simple_fields, {
            "compression": "none", "data_page_version": "2.0", "use_dictionary": False, "row_group_size": 7,
            "column_encoding": {"image": "DELTA_LENGTH_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED",
                                "caption": "DELTA_LENGTH_BYTE_ARRAY", "score": "BYTE_STREAM_SPLIT", "good": "RLE"}}),
        "pyarrow_fallback": (again, simple_fields, {"dictionary_pagesize_limit": 4096, "write_batch_size": 2,
                                                    "data_page_size": 4096, "row_group_size": 12}),
        "pyarrow_lists": (numbers, number_fields, {"compression": "none", "use_dictionary": ["coded.list.element"]}),
        "pyarrow_lists_snappy": (numbers, number_fields, {"data_page_size": 64, "write_batch_size": 4}),
        "pyarrow_empty": (table.slice(0, 0), [(name, kind.replace("image", "bytes").replace("audio", "bytes"), get)
                                              for name, kind, get in fields], {}),
    }
    for name, (rows, its, options) in cases.items():
        path = folder / f"{name}.parquet"
        pq.write_table(rows, path, store_decimal_as_integer=True, write_statistics=name == "pyarrow_plain", **options)
        list_rows(path, its)
    path = folder / "pyarrow_empty_groups.parquet"
    small = pa.table(columns)
    with pq.ParquetWriter(path, small.schema, write_statistics=False) as writer:
        for part in (small.slice(0, 0), small.slice(0, 2), small.slice(2, 0), small.slice(2, 1), small.slice(3, 0)):
            writer.write_table(part)
    list_rows(path, simple_fields)
    make_nulls(folder)
    say_versions(folder)


def make_nulls(folder: Path) -> None:
    """Writes two files of one data set. Some columns, typed or of type null, have no values in the first file. In one column the
    first value comes late."""
    few = [picture(i, side=8) for i in range(3)]
    first = pa.table({"id": [0, 1, 2], "image": pa.nulls(3, pa.binary()), "label": pa.nulls(3), "caption": pa.nulls(3),
                      "score": pa.nulls(3), "weight": pa.nulls(3, pa.float32()), "never": pa.nulls(3),
                      "tags": pa.array([[["a"]]] * 3)})
    second = pa.table({"id": [3, 4, 5], "image": few, "label": [0, 1, 2], "caption": ["a", None, "c"], "score": [0.5, 1.0, 2.0],
                       "weight": pa.array([1.0, 2.0, 3.0], pa.float32()), "never": pa.nulls(3), "tags": pa.array([[["b"]]] * 3)})
    pq.write_table(first, folder / "nulls_first_0.parquet")
    pq.write_table(second, folder / "nulls_first_1.parquet")
    late = pa.table({"image": [None, None, *few], "id": range(5)})
    pq.write_table(late, folder / "nulls_late.parquet", row_group_size=2)


def make_legacy(folder: Path) -> None:
    """Writes lists of two levels, and a list without a group around it, as older writers did."""
    import fastparquet

    item = pa.field("element", pa.int32(), nullable=False)
    values = [[i, i + 1, 7][:1 + i % 3] for i in range(N)]
    table = pa.table({"two": pa.array(values, pa.list_(item)),
                      "bare": pa.array(values, pa.list_(item)),
                      "pair": pa.array([[picture(i, "PNG", 8), picture(i + 1, "PNG", 8)] for i in range(N)],
                                       pa.list_(pa.field("element", pa.binary(), nullable=False)))},
                     pa.schema([pa.field("two", pa.list_(item)), pa.field("bare", pa.list_(item), nullable=False),
                                pa.field("pair", pa.list_(pa.field("element", pa.binary(), nullable=False)))]))
    path = folder / "legacy_lists.parquet"
    pq.write_table(table, path, store_schema=False, compression="none", use_dictionary=False)
    meta = fastparquet.ParquetFile(str(path)).fmd
    schema = dict(enumerate(meta.schema))
    # two: optional group (LIST) { repeated int32 array }; bare: repeated int32.
    for i in (3, 9):
        schema[i].repetition_type = 2
    schema[3].name = "array"
    schema[6].repetition_type, schema[6].name = 2, "bare"
    schema[9].name = "pair_tuple"
    for i in (1, 7):
        schema[i].logicalType = None
    meta.schema = [schema[i] for i in (0, 1, 3, 6, 7, 9)]
    footer = meta.to_bytes()
    whole = path.read_bytes()
    old = struct.unpack("<I", whole[-8:-4])[0]
    path.write_bytes(whole[:-8 - old] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    list_rows(path, [of_array("two", "int32", "any"), of_array("bare", "int32", "any"),
                     *(of_item(f"pair_{i}", "image", "pair", i) for i in range(2))], table)
    say_versions(folder, "fastparquet")


def make_refused(folder: Path) -> None:
    jpeg = [picture(i, side=8) for i in range(3)]
    image = pa.table({"image": jpeg, "label": [0, 1, 2]})
    for codec in ("gzip", "brotli", "lz4"):
        pq.write_table(image, folder / f"refused_{codec}.parquet", write_statistics=False,
                       compression={"image": codec, "label": "none"})
    old = image.append_column("at", pa.array([datetime.datetime(2024, 1, 1)] * 3, pa.timestamp("ns")))
    pq.write_table(old, folder / "refused_int96.parquet", use_deprecated_int96_timestamps=True)
    wide = image.append_column("price", pa.array([decimal.Decimal(1)] * 3, pa.decimal128(30, 2)))
    pq.write_table(wide, folder / "refused_decimal.parquet")
    text = image.append_column("text", pa.array(["aa", "ab", "ac"]))
    pq.write_table(text, folder / "refused_delta.parquet", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    outside = [{"bytes": jpeg[0], "path": "a"}, {"bytes": None, "path": "a/b.jpg"}]
    pq.write_table(pa.table({"image": pa.array(outside, file_type())}), folder / "refused_outside.parquet")
    several = pa.array([jpeg[:2], jpeg[:1], jpeg], pa.list_(pa.binary()))
    pq.write_table(pa.table({"images": several}), folder / "refused_lengths.parquet")
    pq.write_table(pa.table({"emb": [[1.0, 2.0], [1.0, None]]}), folder / "refused_null.parquet")
    big = pa.table({"u": pa.array([1, 2**63], pa.uint64())})
    pq.write_table(big, folder / "refused_u64.parquet")
    long = pa.table({"emb": pa.array([[float(i % 3) for i in range(20000)]], pa.list_(pa.float32()))})
    pq.write_table(long, folder / "refused_long.parquet")
    say_versions(folder)


def make_datasets(folder: Path) -> None:
    import datasets

    features = datasets.Features({
        "image": datasets.Image(),
        "views": datasets.Sequence(datasets.Image()),
        "sound": datasets.Audio(),
        "label": datasets.ClassLabel(names=["bird", "house", "tree top"]),
        "box": datasets.Sequence(datasets.Value("float32"), length=4),
        "grid": datasets.Array2D((2, 3), "int32"),
        "rows": datasets.Array2D((None, 2), "float32"),
        "text": datasets.Value("string"),
        "objects": {"bbox": datasets.Sequence(datasets.Value("float32"))},
    })
    rows = {
        "image": [{"bytes": picture(i), "path": f"{i}.jpg"} for i in range(N)],
        "views": [[{"bytes": picture(i + k, side=12), "path": None} for k in range(2)] for i in range(N)],
        "label": [i % 3 for i in range(N)],
        "box": [[i, 0.5, i + 2, 3] for i in range(N)],
        "grid": [np.arange(6).reshape(2, 3) + i for i in range(N)],
        "rows": [np.ones((1 + i % 3, 2), np.float32) * i for i in range(N)],
        "text": [f"Text {i}" for i in range(N)],
        "objects": [{"bbox": [1.0]} for i in range(N)],
    }
    path = folder / "datasets.parquet"
    # Audio is cast from its storage type, because `datasets` encodes audio only if torch is installed.
    storage = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    rows["sound"] = [{"bytes": sound(i), "path": None} for i in range(N)]
    data = datasets.Dataset.from_dict(rows, features=datasets.Features({**features, "sound": storage}))
    data = data.cast_column("sound", datasets.Audio())
    data.to_parquet(str(path), batch_size=3)
    fields = [
        of_file("image", "image"), *(of_file(f"views_{i}", "image", "views", i) for i in range(2)),
        of_int("label", "int 3 bird,house,tree top"), of_array("box", "float32", "4"), of_array("grid", "int32", "2 3"),
        of_array("rows", "float32", "any"), of_bytes("text", "text"), of_file("sound", "audio"),
    ]
    hidden = pa.table({"label": pa.array([-1, -1], pa.int64())}, datasets.Features({"label": features["label"]}).arrow_schema)
    pq.write_table(hidden, folder / "datasets_hidden.parquet")
    list_rows(folder / "datasets_hidden.parquet", [of_int("label")])
    # pyarrow knows the array types of `datasets` only after `datasets` was imported; their storage types are lists.
    table = pq.ParquetFile(path).read()
    cells = [column.cast(column.type.storage_type) if isinstance(column.type, pa.ExtensionType) else column
             for column in table.columns]
    list_rows(path, fields, pa.table(cells, table.column_names))
    say_versions(folder, "datasets")


def make_polars(folder: Path) -> None:
    import polars

    columns, fields = simple()
    frame = polars.DataFrame(columns)
    for codec in ("zstd", "snappy", "uncompressed"):
        path = folder / f"polars_{codec}.parquet"
        frame.write_parquet(path, compression=codec, row_group_size=5)
        list_rows(path, fields)
    say_versions(folder, "polars")


def make_duckdb(folder: Path) -> None:
    import duckdb

    columns, fields = simple()
    rows = pa.table(columns)
    cases = {"snappy": "CODEC 'snappy'", "zstd": "CODEC 'zstd'", "v2": "CODEC 'uncompressed', PARQUET_VERSION V2"}
    for name, options in cases.items():
        path = folder / f"duckdb_{name}.parquet"
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, {options})")
        list_rows(path, fields)
    say_versions(folder, "duckdb")


def make_fastparquet(folder: Path) -> None:
    import fastparquet
    import pandas

    columns, fields = simple()
    columns["caption"] = [None if i == 4 else text for i, text in enumerate(columns["caption"])]
    frame = pandas.DataFrame(columns)
    encodings = {"image": "bytes", "caption": "utf8", "label": "int", "score": "float", "good": "bool"}
    for name, codec in {"snappy": "SNAPPY", "none": "UNCOMPRESSED"}.items():
        path = folder / f"fastparquet_{name}.parquet"
        fastparquet.write(str(path), frame, compression=codec, object_encoding=encodings, row_group_offsets=[0, 5])
        list_rows(path, fields)
    say_versions(folder, "fastparquet", "pandas")


def main() -> int:
    sets = {name[5:]: make for name, make in globals().items() if name.startswith("make_")}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sets)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sets[arguments.set](arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
