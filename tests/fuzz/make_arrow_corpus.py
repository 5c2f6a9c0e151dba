#!/usr/bin/env python3
"""Writes seeds for fuzz_containers_arrow: one byte that chooses the rules, and a small Arrow file or stream. Needs pyarrow.

    tests/fuzz/make_arrow_corpus.py DIRECTORY

Writes DIRECTORY/containers_arrow and DIRECTORY/containers_hub.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

JPEG, PNG = b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"
PAIR = pa.struct({"bytes": pa.binary(), "path": pa.string()})
FEATURES = {
    "plain": {"image": {"_type": "Image"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"},
              "text": {"dtype": "string", "_type": "Value"}},
    "lists": {"a": {"feature": {"dtype": "int32", "id": None, "_type": "Value"}, "length": -1, "_type": "Sequence"},
              "b": [{"dtype": "float32", "_type": "Value"}], "z": {"feature": [{"_type": "Audio"}], "length": 3, "_type": "List"}},
    "arrays": {"a": {"shape": [2, 3], "dtype": "int16", "_type": "Array2D"},
               "b": {"shape": [None, 2, 2], "dtype": "uint8", "_type": "Array3D"}},
    "others": {"a": {"x": {"_type": "Json"}}, "b": {"_type": "Video"}, "text": {"languages": ["de"], "_type": "Translation"}},
    "classes": {"label": {"num_classes": 2, "names": ["a", ""], "_type": "ClassLabel"},
                "a": {"num_classes": 7, "names": None, "_type": "ClassLabel"}},
}


def write(table: pa.Table, is_file: bool, rows: int = 2, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def tables() -> dict[str, pa.Table]:
    hub = {"huggingface": json.dumps({"info": {"features": FEATURES["plain"]}})}
    return {
        "plain": pa.table({"text": ["a", None, "c" * 70], "raw": [JPEG, b"", None], "int": [1, 2, 3], "float": [0.5, 1.0, -1.0],
                           "flag": [True, False, True]}),
        "pairs": pa.table({"image": pa.array([{"bytes": PNG, "path": "a"}, None, {"bytes": None, "path": None}], PAIR),
                           "label": pa.array([0, 1, 0]), "text": ["x", "y", "z"]}).replace_schema_metadata(hub),
        "lists": pa.table({"list": pa.array([[1, 2], [], None], pa.list_(pa.int16())),
                           "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
                           "rows": pa.array([[[1, 2]], [], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.uint8(), 2))),
                           "photos": pa.array([[JPEG, PNG], None, [PNG, PNG]], pa.list_(pa.binary()))}),
        "views": pa.table({"text": pa.array(["short", None, "long enough to lie elsewhere"], pa.string_view()),
                           "raw": pa.array([JPEG * 5, b"", b"x"], pa.binary_view())}),
        "words": pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode(), "number": pa.array([7, 8, 7]).dictionary_encode(),
                           "grade": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), ["x", "y"], ordered=True)}),
        "tensor": pa.table({"t": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2, 1]),
                                                                pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)))}),
        "nested": pa.table({"a": pa.array([{"b": [{"c": 1}]}]), "d": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
                            "text": ["x"]}),
    }


def main() -> int:
    folder = Path(sys.argv[1]) / "containers_arrow"
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        (folder / f"{name}-file").write_bytes(b"\0" + write(table, True))
        (folder / f"{name}-stream").write_bytes(b"\4" + write(table, False, 3))
    plain = tables()["plain"]
    for name in ("lz4", "zstd"):
        (folder / f"plain-{name}").write_bytes(b"\0" + write(plain, True, 3, compression=name))
    (folder / "plain-rules").write_bytes(b"\3" + write(plain, False))
    old = write(plain, False, use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)
    (folder / "plain-old").write_bytes(b"\0" + old)
    (folder / "plain-cut").write_bytes(b"\0" + old[:-40])
    folder = Path(sys.argv[1]) / "containers_hub"
    folder.mkdir(parents=True, exist_ok=True)
    for name, features in FEATURES.items():
        (folder / name).write_text(json.dumps({"info": {"features": features}} if name == "plain" else {"features": features}))
    (folder / "image").write_bytes(PNG)
    return 0


if __name__ == "__main__":
    sys.exit(main())
