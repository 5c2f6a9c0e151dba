#!/usr/bin/env python3
"""Writes the beton files of this folder with FFCV's writer, and beside each the list of its samples as FFCV's reader gives them.

    python make_beton.py FOLDER [FILES]

Needs ffcv 1.0.2, torch, numpy and opencv-python-headless. FFCV's compiled part only decodes and copies for its loader, while the
writer and the reader of the tables are Python. So the compiled part may be missing: an empty module then replaces it. The
smallest page that FFCV writes has 2 MiB, mostly zeros; this script lowers that limit to keep the files small.

FILES is the folder of the images; the default is ../files. Lists have the format of tests/containers/rows_helper.h.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import struct
import sys
import types
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

try:
    import ffcv.libffcv  # noqa: F401
except (ImportError, OSError, AttributeError):
    for loaded in [name for name in sys.modules if name.startswith("ffcv")]:
        del sys.modules[loaded]
    stand_in = types.ModuleType("ffcv.libffcv")
    stand_in.__getattr__ = lambda name: None  # type: ignore[method-assign]
    sys.modules["ffcv.libffcv"] = stand_in

import ffcv.writer
from ffcv import fields
from ffcv.reader import Reader

PAGE = 4096
JSON = 5  # FFCV's number for the type
multiprocessing.set_start_method("fork", force=True)
ffcv.writer.MIN_PAGE_SIZE = PAGE


class CustomField(fields.IntField):
    """A field class that FFCV does not know."""


def item(content: bytes, shape: Iterable[int] | None = None) -> str:
    brackets = "" if shape is None else "[" + ",".join(map(str, shape)) + "]"
    return f"{brackets}{len(content)}:{zlib.crc32(content):08x}"


def values_of(reader: Reader, file: bytes) -> Callable[[int, str, Any, Any], str]:
    """Returns a function that gives the text of a value, from the tables that FFCV's reader has read."""
    sizes = {(int(e["sample_id"]), int(e["ptr"])): int(e["size"]) for e in reader.alloc_table if e["size"] > 0}

    def value(i: int, name: str, handler: Any, entry: Any) -> str:
        # the reader gives it the handler of bytes
        is_json = reader.field_descriptors[reader.field_names.index(name)]["type_id"] == JSON
        if isinstance(handler, (fields.FloatField, fields.IntField)):
            return f"{name}={float(entry):.17g}" if isinstance(handler, fields.FloatField) else f"{name}={int(entry)}"
        if isinstance(handler, fields.RGBImageField):
            at, shape = int(entry["data_ptr"]), (int(entry["height"]), int(entry["width"]), 3)
            if entry["mode"] == 0:
                return f"{name}={item(file[at:at + sizes[i, at]])}"
            return f"{name}={item(file[at:at + int(np.prod(shape))], shape)}"
        if isinstance(handler, fields.NDArrayField):
            at, nbytes = int(entry), int(handler.dtype.itemsize * np.prod(handler.shape))
            return f"{name}={item(file[at:at + nbytes], handler.shape)}"
        at, nbytes = int(entry["ptr"]), int(entry["size"])
        if is_json:
            text = file[at:at + nbytes]
            assert text.endswith(b"\0") and json.loads(text[:-1]) is not None
            return f"{name}={item(text[:-1])}"
        return f"{name}={item(file[at:at + nbytes] if nbytes > 0 else b'')}"

    return value


def write(folder: Path, name: str, made: dict[str, Any], samples: list[tuple[Any, ...]], listed: list[str] | None,
          page: int = PAGE, workers: int = 1) -> None:
    path = folder / f"{name}.beton"
    ffcv.writer.DatasetWriter(str(path), made, page_size=page, num_workers=workers).from_indexed_dataset(samples, chunksize=2)
    if listed is None:
        return
    reader = Reader(str(path))
    value, lines = values_of(reader, path.read_bytes()), [f"field {field}" for field in listed]
    for i, record in enumerate(reader.metadata):
        texts = [value(i, field, handler, record[k]) for k, (field, handler) in enumerate(reader.handlers.items())]
        lines.append(f"{name}/{i:08d}: {' '.join(texts)}")
    (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent / "files")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(arguments.files.resolve().rglob("*.jpg"))
    pictures = [cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB) for path in paths]
    n = len(pictures)
    rgb, integer = fields.RGBImageField, fields.IntField
    # The most common layout: 24 bytes a record. Two processes write the file, so its table is not in order.
    write(folder, "jpegs", {"image": rgb("jpg"), "label": integer()}, [(pictures[i % n], i - 1) for i in range(9)],
          ["image image", "label int"], workers=2)
    # Images alone: 13 bytes a record, without alignment.
    write(folder, "images_only", {"image": rgb("jpg")}, [(picture,) for picture in pictures], ["image image"])
    small = [np.ascontiguousarray(picture[:12, :16]) for picture in pictures]
    write(folder, "pixels", {"image": rgb("raw"), "label": integer()}, [(picture, i) for i, picture in enumerate(small)],
          ["image array uint8 [12,16,3]", "label int"])
    ragged = [np.ascontiguousarray(picture[:6 + i, :9]) for i, picture in enumerate(pictures)]
    write(folder, "pixels_ragged", {"image": rgb("raw")}, [(picture,) for picture in ragged], ["image array uint8 []"])
    # Images are stored by size: some as JPEGs, some as pixels.
    mixed = [*small[:2], pictures[0], small[2]]
    write(folder, "smart", {"image": rgb("smart", smart_threshold=1000), "label": integer()},
          [(picture, i) for i, picture in enumerate(mixed)], None)
    every = {"left": rgb("jpg"), "score": fields.FloatField(), "text": fields.BytesField(), "label": integer(),
             "notes": fields.JSONField(), "mask": fields.NDArrayField(np.dtype("<u2"), (3, 4)),
             "tensor": fields.TorchTensorField(torch.float32, (2, 2)), "right": rgb("raw"), "sixteen_letters_": integer(),
             "scalars": fields.NDArrayField(np.dtype("<i8"), (2,))}
    samples = [(pictures[i % n], i / 3, np.frombuffer(b"t" * (40 * i), np.uint8), -i, {"i": i, "more": "m" * (30 * i)},
                np.arange(12, dtype="<u2").reshape(3, 4) + i, torch.full((2, 2), i / 2), small[i % n], 1 << (40 + i),
                np.array([i, -i], "<i8")) for i in range(6)]
    write(folder, "every", every, samples,
          ["left image", "score float", "text bytes", "label int", "notes json", "mask array uint16 [3,4]",
           "tensor array float32 [2,2]", "right array uint8 [12,16,3]", "sixteen_letters_ int", "scalars array int64 [2]"])
    # The first item is empty, so FFCV gives it an offset before all pages.
    write(folder, "empty_first", {"text": fields.BytesField(), "label": integer()},
          [(np.zeros(0, np.uint8), 5), (np.frombuffer(b"x" * 100, np.uint8), 6), (np.zeros(0, np.uint8), 7)],
          ["text bytes", "label int"])
    write(folder, "custom", {"label": integer(), "mine": CustomField()}, [(1, 2)], None)
    # FFCV cuts both names to the same 16 bytes.
    write(folder, "cut_names", {"label_of_the_left_eye": integer(), "label_of_the_left_ear": integer()}, [(1, 2), (3, 4)], None)
    write(folder, "records", {"label": integer(), "mine": fields.NDArrayField(np.dtype([("a", "<f4"), ("b", "<i4")]), (2,))},
          [(1, np.zeros(2, [("a", "<f4"), ("b", "<i4")]))], None)
    # What FFCV has written if it is killed: the header, the fields, and whole pages.
    whole = (folder / "pixels.beton").read_bytes()
    partly = bytearray(whole[:struct.unpack_from("<Q", whole, 16)[0]])
    partly[16:24] = bytes(8)
    (folder / "unfinished.beton").write_bytes(partly)
    versions = {name: importlib.metadata.version(name) for name in ("ffcv", "numpy", "torch", "opencv-python-headless")}
    (folder / "VERSIONS").write_text("".join(f"{name} {version}\n" for name, version in versions.items()))


if __name__ == "__main__":
    main()
