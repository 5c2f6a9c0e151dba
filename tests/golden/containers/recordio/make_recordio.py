#!/usr/bin/env python3
"""Writes the RecordIO files of this folder with MXNet, and beside each the list of its samples as MXNet reads them.

    python make_recordio.py FOLDER [FILES]

Needs mxnet 1.9.1 and numpy 1.23.5. FILES is the folder of the images; the default is ../files. Lists have the format of
tests/containers/rows_helper.h.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import mxnet
import numpy as np
from mxnet import recordio

MAGIC = struct.pack("<I", 0xced7230a)
Label = float | list[float]


def item(content: bytes, shape: Iterable[int] | None = None) -> str:
    brackets = "" if shape is None else "[" + ",".join(map(str, shape)) + "]"
    return f"{brackets}{len(content)}:{zlib.crc32(content):08x}"


def write(folder: Path, name: str, records: list[bytes]) -> list[bytes]:
    """Writes a file and its index. Returns the records as MXNet reads them."""
    writer = recordio.MXIndexedRecordIO(str(folder / f"{name}.idx"), str(folder / f"{name}.rec"), "w")
    for i, record in enumerate(records):
        writer.write_idx(i, record)
    writer.close()
    reader = recordio.MXRecordIO(str(folder / f"{name}.rec"), "r")
    read = []
    while (record := reader.read()) is not None:
        read.append(bytes(record))
    reader.close()
    return read


def label_text(label: float | np.ndarray, is_whole: bool) -> str:
    if isinstance(label, np.ndarray):
        return f"label={item(label.astype('<f4').tobytes(), label.shape)}"
    return f"label={int(label)}" if is_whole else f"label={label:.17g}"


def write_images(folder: Path, name: str, labels: list[Label], contents: list[bytes], label_field: str, n_passed: int = 0) -> None:
    records = [recordio.pack(recordio.IRHeader(0, label, i, 0), content)
               for i, (label, content) in enumerate(zip(labels, contents, strict=True))]
    lines = ["field image image", f"field {label_field}"]  # a file that is refused gets no list
    for record in write(folder, name, records):
        header, content = recordio.unpack(record)
        if n_passed > 0 and len(content) == 0:
            continue
        number = len(lines) - 2
        lines.append(f"{name}/{number:08d}: image={item(content)} {label_text(header.label, label_field == 'label int')}")
    if label_field:
        (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines))


def with_magic(image: bytes, n: int, n_before: int) -> bytes:
    """Returns a JPEG with a comment that contains the magic number n times, at multiples of four bytes within the record."""
    n_padding = -(6 + n_before) % 4  # after the markers of image and comment and the comment's length
    comment = bytes(n_padding) + MAGIC * n
    return image[:2] + b"\xff\xfe" + struct.pack(">H", 2 + len(comment)) + comment + image[2:]


def ends_with_magic(image: bytes, n_before: int) -> bytes:
    return image + bytes(-(len(image) + n_before) % 4) + MAGIC


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent / "files")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    images = [path.read_bytes() for path in sorted(arguments.files.rglob("*.jpg"))]
    images += [path.read_bytes() for path in sorted(arguments.files.rglob("*.png"))[:2]]
    n = len(images)
    write_images(folder, "whole", [float(i % 3) for i in range(n)], images, "label int")
    write_images(folder, "fractions", [i / 3 for i in range(n)], images, "label float")
    write_images(folder, "several", [[float(i), 0.5, -2.0] for i in range(n)], images, "label array float32 [3]")
    write_images(folder, "ragged", [[4.0, 5.0, *[0.25] * (5 * (i + 1))] for i in range(n)], images, "label array float32 []")
    write_images(folder, "large_label", [16777217.0, 1.0], images[:2], "")
    write_images(folder, "mixed_labels", [1.0, [1.0, 2.0]], images[:2], "")
    # Records in several parts: cut once, cut twice in a row, cut at the image's end; and cut within a list of labels.
    magic_label = struct.unpack("<f", MAGIC)[0]
    joined = [with_magic(images[0], 1, 24), with_magic(images[1], 3, 24), ends_with_magic(images[2], 24), images[3]]
    write_images(folder, "joined", [1.0, 2.0, 3.0, 4.0], joined, "label int")
    write_images(folder, "joined_labels", [[1.0, magic_label, 3.0], [4.0, 5.0, 6.0]], images[:2], "label array float32 [3]")
    # insightface: record 0 and the records of identities have the flag 2 and no image.
    write_images(folder, "insightface", [[4.0, 6.0], 0.0, 0.0, 1.0, [1.0, 3.0], [3.0, 4.0]],
                 [b"", images[0], images[1], images[2], b"", b""], "label int", n_passed=3)
    plain = [b"", b"a", b"record " * 20, MAGIC * 2 + b"xyz", bytes(1000)]
    lines = ["field record bytes"]
    lines += [f"plain/{i:08d}: record={item(record)}" for i, record in enumerate(write(folder, "plain", plain))]
    (folder / "plain.txt").write_text("".join(line + "\n" for line in lines))
    (folder / "VERSIONS").write_text(f"mxnet {mxnet.__version__}\nnumpy {np.__version__}\n")


if __name__ == "__main__":
    main()
