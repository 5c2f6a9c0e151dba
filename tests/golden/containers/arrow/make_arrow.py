#!/usr/bin/env python3
"""Writes the Arrow files of this folder, and beside each file a listing of its contents as pyarrow reads them.

    python make_arrow.py FOLDER FILES

Needs pyarrow, datasets, polars and numpy. FILES is the folder "files" that make_containers.py writes; its pictures are used. The
versions of the libraries are written to FOLDER/VERSIONS.

A listing has a line for each column that becomes a field, "NAME TYPE" with the dtype and shape of arrays and the names of
classes, and a line for each row, "ROW NAME=VALUE ...". A float is listed as the bits of its double, bytes as their length and
CRC-32, an array as its shape and the CRC-32 of its elements. Missing values are not listed. Which columns become fields is
decided by the rules of docs/table-fields.md, which this script implements independently of the library.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import shutil
import struct
import sys
import wave
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

MAGICS = ((b"\xff\xd8\xff", "image"), (b"\x89PNG\r\n\x1a\n", "image"), (b"fLaC", "audio"), (b"OggS", "audio"))


def pictures(files: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(files.rglob("*.jpg"))] + \
           [path.read_bytes() for path in sorted(files.rglob("*.png"))][:2]


def sound(i: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(np.arange(64 + i, dtype="<i2").tobytes())
    return out.getvalue()


# Listings ------------------------------------------------------------------------------------------------------------------

def crc(content: bytes) -> str:
    return f"{len(content)}/{zlib.crc32(content):08x}"


def guess(head: bytes) -> str:
    for magic, name in MAGICS:
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF":
        return {b"WEBP": "image", b"WAVE": "audio"}.get(head[8:12], "bytes")
    return "bytes"


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def is_bytes(kind: pa.DataType) -> bool:
    return (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
            or pa.types.is_fixed_size_binary(kind))


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_number(kind: pa.DataType) -> bool:
    return (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not pa.types.is_boolean(kind)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


class Column:
    """The field that a column becomes. `values` yields the values of a batch one by one."""

    def __init__(self, field: pa.Field, hub: dict | None, arrays: list[pa.Array], ordered_classes: list[str] | None) -> None:
        self.field, self.hub, self.kind = field, hub or {}, field.type
        self.name, self.type, self.more = field.name, None, ""
        self.classes, self.n_items = ordered_classes, None
        kind = self.kind
        hub_type = self.hub.get("_type") if isinstance(self.hub, dict) else None
        self.shape: list[int | None] = []
        if isinstance(kind, pa.BaseExtensionType):
            if kind.extension_name.startswith("datasets."):
                self.shape = list(kind.shape)
            if kind.extension_name == "arrow.fixed_shape_tensor":
                self.shape = list(kind.shape)
            self.is_json = kind.extension_name == "arrow.json"
            kind = kind.storage_type
        else:
            self.is_json = False
        self.storage = kind
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_dictionary(kind) and self.classes is not None:
            self.type, self.more = "int", " classes=" + ",".join(self.classes)
        elif pa.types.is_boolean(value) or pa.types.is_integer(value) or (pa.types.is_temporal(value)
                                                                          and not pa.types.is_interval(value)):
            self.type = "int"
            if hub_type == "ClassLabel" and not any(x == -1 for array in arrays for x in array.to_pylist()):
                self.more = " classes=" + ",".join(self.hub["names"])
        elif pa.types.is_floating(value):
            self.type = "float"
        elif is_text(value):
            self.type = "json" if self.is_json else "text"
        elif is_bytes(value) or (pa.types.is_struct(value) and {f.name for f in value} <= {"bytes", "path"}
                                 and value.get_field_index("bytes") >= 0):
            self.type = {"Image": "image", "Audio": "audio"}.get(hub_type or "")
            if self.type is None:
                heads = (x for array in arrays for x in self.bytes_of(array) if x)
                self.type = "bytes" if pa.types.is_dictionary(kind) else guess(next(heads, b""))
        elif is_list(value):
            self.decide_list(value)
            if self.type is None:
                self.decide_items(value.value_type, arrays)

    def decide_list(self, kind: pa.DataType) -> None:
        sizes: list[int | None] = []
        while is_list(kind):
            sizes.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
            kind = kind.value_type
        if not is_number(kind):
            return
        shape = self.shape or sizes
        if None in shape[1:]:
            return
        self.type, self.shape = "array", shape
        self.dtype = np.dtype(kind.to_pandas_dtype())
        self.more = f" {self.dtype.name} " + ("any" if shape[0] is None else "x".join(map(str, shape)))

    def decide_items(self, kind: pa.DataType, arrays: list[pa.Array]) -> None:
        """Decides on a list of images or sounds: each position becomes a field."""
        if not is_bytes(kind) and not (pa.types.is_struct(kind) and {f.name for f in kind} <= {"bytes", "path"}):
            return
        rows = [row for array in arrays for row in array.to_pylist() if row is not None]
        item = rows[0][0]
        head = item["bytes"] if isinstance(item, dict) else item
        inner = (self.hub.get("feature") or {}).get("_type")
        what = {"Image": "image", "Audio": "audio"}.get(inner) or guess(head)
        if what != "bytes":
            self.type, self.n_items = what, len(rows[0])

    def lines(self) -> list[str]:
        if self.n_items is None:
            return [f"{self.name} {self.type}{self.more}"]
        return [f"{self.name}_{k} {self.type}" for k in range(self.n_items)]

    def cells(self, array: pa.Array) -> list[list[str]]:
        """Returns the text for each row: NAME=VALUE, or several of them."""
        if self.n_items is None:
            return [[] if value is None else [f"{self.name}={value}"] for value in self.values(array)]
        rows = []
        for row in array.to_pylist():
            items = [] if row is None else [item["bytes"] if isinstance(item, dict) else item for item in row]
            rows.append([f"{self.name}_{k}={crc(item)}" for k, item in enumerate(items) if item is not None])
        return rows

    def bytes_of(self, array: pa.Array) -> list[bytes | None]:
        if pa.types.is_struct(array.type):
            return [None if x is None else x["bytes"] for x in array.to_pylist()]
        return array.to_pylist()

    def values(self, array: pa.Array) -> Iterator[str | None]:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_dictionary(array.type) and self.classes is not None:
            yield from (None if i is None else str(i) for i in array.indices.to_pylist())
            return
        if pa.types.is_temporal(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        if pa.types.is_dictionary(array.type):
            entries = array.dictionary.to_pylist()
            content = [None if i is None else entries[i] for i in array.indices.to_pylist()]
        else:
            content = self.bytes_of(array)
        for value in content:
            if value is None:
                yield None
            elif self.type == "int":
                yield str(int(value))
            elif self.type == "float":
                yield bits(float(value))
            elif self.type in ("text", "json"):
                yield crc(value.encode())
            elif self.type == "array":
                shape = [len(value) if n is None else n for n in self.shape]
                elements = np.array(value, dtype=self.dtype).reshape(shape)
                yield "x".join(map(str, shape)) + ":" + crc(elements.tobytes())
            else:
                yield crc(value)


def read(path: Path) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    content = path.read_bytes()
    if is_file:
        reader = pa.ipc.open_file(content)
        return reader.schema, [reader.get_batch(i) for i in range(reader.num_record_batches)]
    stream = pa.ipc.open_stream(content)
    return stream.schema, list(stream)


def listing(path: Path, classes: dict[str, list[str]] | None = None) -> str:
    """Returns the listing of a file. classes: names of columns with ordered dictionaries."""
    schema, batches = read(path)
    hub = {}
    if schema.metadata and b"huggingface" in schema.metadata:
        hub = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    columns = []
    for i, field in enumerate(schema):
        column = Column(field, hub.get(field.name), [batch.column(i) for batch in batches], (classes or {}).get(field.name))
        if column.type is not None:
            columns.append((i, column))
    lines = [line for _, column in columns for line in column.lines()]
    row = 0
    for batch in batches:
        values = [column.cells(batch.column(i)) for i, column in columns]
        for k in range(batch.num_rows):
            cells = [cell for column in values for cell in column[k]]
            lines.append(" ".join([f"{path.stem}/{row:08d}", *cells]))
            row += 1
    return "\n".join(lines) + "\n"


def put_listing(path: Path, classes: dict[str, list[str]] | None = None) -> None:
    path.with_suffix(".txt").write_text(listing(path, classes))


# Files ---------------------------------------------------------------------------------------------------------------------

def numbers() -> pa.Table:
    """Writes columns of every type of numbers. Only floats and texts have missing values."""
    n = 20
    kinds = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
    ints = {kind: pa.array([(i * 37 + 5) % 100 - (0 if kind[0] == "u" else 50) for i in range(n)], getattr(pa, kind)())
            for kind in kinds}
    floats = {"half": pa.array(np.array([0, 1, -2.5, 6e-8, 65504, np.inf, -np.inf, np.nan, 0.1, -0.0] * 2, dtype=np.float16)),
              "float": pa.array(np.linspace(-3, 3, n, dtype=np.float32)), "double": pa.array(np.linspace(-1e300, 1e300, n))}
    return pa.table({**ints, **floats, "flag": pa.array([i % 3 == 0 for i in range(n)]),
                     "text": pa.array([None if i % 4 == 1 else "wort " * i for i in range(n)])})


def values(images: list[bytes]) -> pa.Table:
    """Writes columns of bytes, texts and lists, with missing values."""
    n = 13
    image = [None if i == 3 else images[i % len(images)] for i in range(n)]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 3])
    return pa.table({
        "image": pa.array(image, pa.binary()),
        "large_image": pa.array(image, pa.large_binary()),
        "pair": pa.array([None if x is None else {"bytes": x, "path": f"{i}.jpg"} for i, x in enumerate(image)], kind),
        "sound": pa.array([sound(i) for i in range(n)], pa.binary()),
        "raw": pa.array([bytes(range(i)) for i in range(n)], pa.binary()),
        "fixed": pa.array([bytes([i] * 5) if i != 6 else None for i in range(n)], pa.binary(5)),
        "large_text": pa.array(["" if i == 2 else "über " * i if i != 4 else None for i in range(n)], pa.large_string()),
        "empty": pa.array([None] * n, pa.string()),
        "list": pa.array([list(range(i)) if i != 5 else None for i in range(n)], pa.list_(pa.int32())),
        "large_list": pa.array([[0.5] * i for i in range(n)], pa.large_list(pa.float64())),
        "fixed_list": pa.array([[i, i + 1, i + 2] if i != 7 else None for i in range(n)], pa.list_(pa.uint8(), 3)),
        "matrix": pa.array([[[i, 1], [2, 3], [4, i]] for i in range(n)], pa.list_(pa.list_(pa.int16(), 2), 3)),
        "rows": pa.array([[[k, i] for k in range(i % 3)] for i in range(n)], pa.list_(pa.list_(pa.int64(), 2))),
        "tensor": pa.ExtensionArray.from_storage(tensor, pa.array([[float(i + k) for k in range(6)] for i in range(n)],
                                                                  pa.list_(pa.float32(), 6))),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps({"i": i}) for i in range(n)])),
        "photos": pa.array([None if i == 2 else [images[i % len(images)], images[(i + 1) % len(images)]] for i in range(n)],
                           pa.list_(pa.binary())),
        "left_out": pa.array([{"a": i} for i in range(n)], pa.struct({"a": pa.int64()})),
        "when": pa.array([i * 10**15 for i in range(n)], pa.timestamp("us", tz="UTC")),
        "day": pa.array([i - 5 for i in range(n)], pa.date32()), "late": pa.array(list(range(n)), pa.time64("ns")),
        "soon": pa.array([i * 1000 for i in range(n)], pa.time32("ms")), "long": pa.array([-i for i in range(n)], pa.duration("s")),
        "price": pa.array([None] * n, pa.decimal128(5, 2)),
        "nothing": pa.nulls(n),
        "words": pa.array([["a", "b"]] * n, pa.list_(pa.string())),
    })


def views(images: list[bytes]) -> pa.Table:
    n = 9
    return pa.table({
        "text": pa.array([None if i == 1 else "x" * (i * 3) for i in range(n)], pa.string_view()),
        "image": pa.array([images[i % len(images)] if i != 4 else None for i in range(n)], pa.binary_view()),
        "small": pa.array([bytes(range(i * 2)) for i in range(n)], pa.binary_view()),
        "after": pa.array(list(range(n)), pa.int16()),
    })


def write_file(path: Path, table: pa.Table, rows: int, **options: object) -> None:
    how = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=how) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_stream(path: Path, table: pa.Table, rows: int, **options: object) -> None:
    how = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=how) as writer:
        writer.write_table(table, max_chunksize=rows)


def make_plain(folder: Path, images: list[bytes]) -> None:
    write_file(folder / "numbers.arrow", numbers(), 7)
    put_listing(folder / "numbers.arrow")
    write_stream(folder / "numbers_old.arrow", numbers(), 6, use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)
    put_listing(folder / "numbers_old.arrow")
    write_file(folder / "values.arrow", values(images), 5)
    put_listing(folder / "values.arrow")
    # Slices, whose offsets do not begin at 0, and batches without rows.
    table = values(images)
    with pa.OSFile(str(folder / "slices.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches():
            for start, length in ((3, 4), (0, 0), (1, 1), (7, 6), (13, 0)):
                writer.write_batch(batch.slice(start, length))
    put_listing(folder / "slices.arrow")
    for name in ("lz4", "zstd"):
        write_file(folder / f"values_{name}.arrow", values(images), 8, compression=name)
        put_listing(folder / f"values_{name}.arrow")
        write_stream(folder / f"numbers_{name}.arrow", numbers(), 11, compression=name)
        put_listing(folder / f"numbers_{name}.arrow")
    write_file(folder / "views.arrow", views(images), 4)
    put_listing(folder / "views.arrow")
    write_stream(folder / "views_zstd.arrow", views(images), 5, compression="zstd")
    put_listing(folder / "views_zstd.arrow")


def make_dictionaries(folder: Path) -> None:
    words = ["bird", "house", "tree", None, "bird"]
    plain = pa.array(words * 4).dictionary_encode()
    ordered = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 0, 2] * 4, pa.int8()), ["a", "b", "c"], ordered=True)
    numbers_ = pa.array([100, 200, 100, 300, 200] * 4).dictionary_encode()
    raw = pa.array([b"\0\1", b"\2", b"\0\1", b"", b"\2"] * 4).dictionary_encode()
    long = pa.array(["long " * 20, "short", "long " * 30, "short", None] * 4).dictionary_encode()
    table = pa.table({"word": plain, "grade": ordered, "number": numbers_, "raw": raw, "long": long})
    write_file(folder / "dictionaries.arrow", table, 6)
    put_listing(folder / "dictionaries.arrow", {"grade": ["a", "b", "c"]})
    write_stream(folder / "dictionaries_zstd.arrow", table, 6, compression="zstd")
    put_listing(folder / "dictionaries_zstd.arrow", {"grade": ["a", "b", "c"]})
    # Dictionaries that grow (deltas), and dictionaries that are replaced.
    for name, emit_deltas in (("deltas", True), ("replaced", False)):
        parts = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d and more than that"]]
        schema = pa.schema({"word": pa.dictionary(pa.int16(), pa.string(), ordered=True)})
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=emit_deltas)
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink, pa.ipc.new_stream(sink, schema, options=options) as writer:
            for part in parts:
                array = pa.DictionaryArray.from_arrays(pa.array([len(part) - 1, 0, None], pa.int16()), part, ordered=True)
                writer.write_batch(pa.record_batch([array], schema=schema))
        put_listing(folder / f"{name}.arrow")


def make_refused(folder: Path, images: list[bytes]) -> None:
    """Writes columns that are refused, each for another reason, beside two that are not. A test leaves all but one of them out."""
    import datasets

    grid = datasets.features.features.Array2DExtensionType((2, 2), "int16")
    whole = [[1, 2], [3, 4]]
    grids = pa.array([whole, whole, whole, whole, [[1, 2], [3]]], pa.list_(pa.list_(pa.int16())))
    table = pa.table({
        "big": pa.array([1, 2**63 - 1, 2**63, 4, 5], pa.uint64()),
        "holes": pa.array([[1], [], [2], [3, None], [4]], pa.list_(pa.int32())),
        "grid": pa.ExtensionArray.from_storage(grid, grids),
        "photos": pa.array([images[:2], None, images[:1], None, None], pa.list_(pa.binary())),
        "text": pa.array(["a", None, "bb", None, "c"]),
        "word": pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 2, 0], pa.int8()), ["x", "y", "z"]),
    })
    write_stream(folder / "refused.arrow", table, 5)
    # Two files of one data set. Some columns have no values in the first file.
    first = pa.table({"id": [0, 1], "image": pa.nulls(2, pa.binary()), "label": pa.nulls(2), "caption": pa.nulls(2)})
    second = pa.table({"id": [2, 3], "image": images[:2], "label": [0, 1], "caption": ["a", "b"]})
    write_stream(folder / "nulls_first_0.arrow", first, 2)
    write_stream(folder / "nulls_first_1.arrow", second, 2)
    write_stream(folder / "small.arrow", table.select(["text", "word"]), 5)
    put_listing(folder / "small.arrow")


def make_polars(folder: Path, images: list[bytes]) -> None:
    import polars as pl

    n = 7
    frame = pl.DataFrame({"text": ["abc" * i for i in range(n)], "image": [images[i % len(images)] for i in range(n)],
                          "number": list(range(n)), "share": [i / 3 for i in range(n)],
                          "kind": pl.Series(["x", "y", "x", "z", "y", "x", None], dtype=pl.Categorical),
                          "rating": pl.Series(["low", "high", "low", "mid", "mid", "high", "low"],
                                              dtype=pl.Enum(["low", "mid", "high"])),
                          "vector": pl.Series([[i, i + 1] for i in range(n)], dtype=pl.Array(pl.Float32, 2)),
                          "list": [[float(i)] * i for i in range(n)]})
    for name in ("uncompressed", "lz4", "zstd"):
        path = folder / f"polars_{name}.arrow"
        frame.write_ipc(path, compression=name)
        schema, batches = read(path)
        classes = {field.name: batches[0].column(i).dictionary.to_pylist() for i, field in enumerate(schema)
                   if pa.types.is_dictionary(field.type) and field.type.ordered}
        put_listing(path, classes)


def make_datasets(folder: Path, images: list[bytes]) -> None:
    import datasets

    datasets.disable_progress_bars()
    n = 6
    features = datasets.Features({
        "image": datasets.Image(), "audio": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
        "label": datasets.ClassLabel(names=["bird", "house", "tree"]), "unsure": datasets.ClassLabel(names=["no", "yes"]),
        "caption": datasets.Value("string"), "score": datasets.Value("float32"),
        "box": datasets.List(datasets.Value("float32"), length=4), "tokens": datasets.List(datasets.Value("int32")),
        "grid": datasets.Array2D(shape=(2, 3), dtype="int16"), "frames": datasets.Array3D(shape=(None, 2, 2), dtype="uint8"),
        "objects": datasets.List({"id": datasets.Value("int64")}),
    })
    data = datasets.Dataset.from_dict({
        "image": [{"bytes": images[i], "path": f"{i}.jpg"} for i in range(n)],
        "audio": [{"bytes": sound(i), "path": f"{i}.wav"} for i in range(n)],
        "label": [i % 3 for i in range(n)], "unsure": [i % 3 - 1 for i in range(n)],
        "caption": [f"Probe {i}" + " und mehr" * (10 * (i % 2)) for i in range(n)], "score": [i / 7 for i in range(n)],
        "box": [[0.0, 1.0, 2.0, float(i)] for i in range(n)], "tokens": [list(range(i)) for i in range(n)],
        "grid": [np.full((2, 3), i, dtype=np.int16) for i in range(n)],
        "frames": [np.full((i % 3 + 1, 2, 2), i, dtype=np.uint8) for i in range(n)],
        "objects": [[{"id": k} for k in range(i)] for i in range(n)],
    }, features=features).cast_column("audio", datasets.Audio(sampling_rate=8000, decode=False))  # encoding needs torchcodec
    for name in ("saved", "dict"):
        shutil.rmtree(folder / name, ignore_errors=True)
    data.save_to_disk(folder / "saved", num_shards=2)
    datasets.DatasetDict({"train": data.select(range(4)), "test": data.select(range(4, 6))}).save_to_disk(folder / "dict")
    for path in sorted([*(folder / "saved").glob("*.arrow"), *(folder / "dict").glob("*/*.arrow")]):
        put_listing(path)
    # A picture in a file of its own, as older versions of save_to_disk stored it.
    features = datasets.Features({"image": datasets.Image()})
    rows = [{"bytes": images[0], "path": None}, {"bytes": None, "path": "elsewhere/1.jpg"}]
    write_stream(folder / "outside.arrow", pa.Table.from_pylist([{"image": row} for row in rows], features.arrow_schema), 2)


def main() -> None:
    folder, files = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    images = pictures(files)
    make_plain(folder, images)
    make_dictionaries(folder)
    make_refused(folder, images)
    make_polars(folder, images)
    make_datasets(folder, images)
    names = ("pyarrow", "datasets", "polars", "numpy")
    (folder / "VERSIONS").write_text("".join(f"{name} {importlib.metadata.version(name)}\n" for name in sorted(names)))


if __name__ == "__main__":
    main()
