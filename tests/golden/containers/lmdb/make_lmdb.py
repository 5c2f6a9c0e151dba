#!/usr/bin/env python3
"""Writes the databases of this folder, and beside each the list of its samples as the library reads them.

    python make_lmdb.py SET FOLDER [FILES]

SET is one of these; each needs only the packages named behind it:

    lmdb        lmdb, protobuf, pillow, numpy: all but the following
    flags       lmdb 2.3.0, whose module exports the functions of liblmdb: databases with flags
    psize       lmdb-psize: a database with pages of 8192 bytes

FILES is the folder of the images; the default is ../files. Lists have the format of tests/containers/rows_helper.h.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import io
import os
import pickle
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MAP_NBYTES = 1 << 20
REVERSE_KEY, DUPSORT, INTEGER_KEY = 0x02, 0x04, 0x08  # of liblmdb
Entries = list[tuple[bytes, bytes]]


def images(files: Path) -> list[bytes]:
    """Returns five JPEGs, a JPEG larger than a page, a PNG and a WebP."""
    import numpy as np
    from PIL import Image

    out = [path.read_bytes() for path in sorted(files.rglob("*.jpg"))[:5]]
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    for form, options in (("JPEG", {"quality": 95}), ("PNG", {}), ("WEBP", {"quality": 50})):
        picture = noise if form == "JPEG" else noise.crop((0, 0, 9, 7))
        content = io.BytesIO()
        picture.save(content, form, **options)
        out.append(content.getvalue())
    return out


def name_of(key: bytes) -> str:
    try:
        name = key.decode()
    except UnicodeDecodeError:
        return "hex:" + key.hex()
    is_plain = all(c >= " " and not "\x7f" <= c <= "\x9f" for c in name)
    return name if is_plain and not name.startswith("hex:") else "hex:" + key.hex()


def item(content: bytes, shape: Iterable[int] | None = None) -> str:
    brackets = "" if shape is None else "[" + ",".join(map(str, shape)) + "]"
    return f"{brackets}{len(content)}:{zlib.crc32(content):08x}"


def say_versions(folder: Path, *packages: str, **sets: str) -> None:
    """Writes the versions of the packages to VERSIONS, and of a package that a set needs in another version."""
    path = folder / "VERSIONS"
    lines = dict(line.split(" ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    lines |= {package: importlib.metadata.version(package) for package in packages}
    lines |= {f"{package}-for-{name}": importlib.metadata.version(package) for name, package in sets.items()}
    path.write_text("".join(f"{name} {version}\n" for name, version in sorted(lines.items())))


def set_flags(place: str, flags: int) -> None:
    """Sets the flags of the main database of a new environment. The Python binding cannot do that, so this calls the liblmdb in
    it."""
    import lmdb.cpython

    library = ctypes.CDLL(lmdb.cpython.__file__)
    env, txn, database = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
    for status in (library.mdb_env_create(ctypes.byref(env)), library.mdb_env_open(env, place.encode(), 0, 0o644),
                   library.mdb_txn_begin(env, None, 0, ctypes.byref(txn)),
                   library.mdb_dbi_open(txn, None, flags, ctypes.byref(database)), library.mdb_txn_commit(txn)):
        if status != 0:
            raise OSError(status, "liblmdb")
    library.mdb_env_close(env)


def write(folder: Path, name: str, entries: Entries, flags: int = 0, named: dict[bytes, Entries] | None = None) -> Entries:
    """Writes a database. Returns what the library reads from the main database, without named databases."""
    import lmdb

    with tempfile.TemporaryDirectory() as place:
        if flags != 0:
            set_flags(place, flags)
        with lmdb.open(place, map_size=MAP_NBYTES, max_dbs=8) as env:
            with env.begin(write=True) as txn:
                for key, value in entries:
                    txn.put(key, value)
            for database, inner in (named or {}).items():
                handle = env.open_db(database)
                with env.begin(write=True, db=handle) as txn:
                    for key, value in inner:
                        txn.put(key, value)
            with env.begin() as txn:
                read = [(bytes(k), bytes(v)) for k, v in txn.cursor() if bytes(k) not in (named or {})]
            out = Path(place) / "copy"
            out.mkdir()
            env.copy(str(out), compact=True)
        shutil.copyfile(out / "data.mdb", folder / f"{name}.mdb")
    return read


def write_list(folder: Path, name: str, fields: list[str], rows: Iterable[tuple[bytes, str]]) -> None:
    lines = [f"field {field}" for field in fields] + [f"{name_of(key)}: {values}" for key, values in rows]
    (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines))


def datum_class(is_packed: bool) -> Any:
    """Returns the class that protobuf makes from the description of Caffe's Datum."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"datum{is_packed}.proto", package=f"caffe{int(is_packed)}", syntax="proto2")
    message = file.message_type.add(name="Datum")
    for number, (name, form) in enumerate((("channels", kind.TYPE_INT32), ("height", kind.TYPE_INT32), ("width", kind.TYPE_INT32),
                                           ("data", kind.TYPE_BYTES), ("label", kind.TYPE_INT32),
                                           ("float_data", kind.TYPE_FLOAT), ("encoded", kind.TYPE_BOOL)), 1):
        is_list = name == "float_data"
        field = message.field.add(name=name, number=number, type=form,
                                  label=kind.LABEL_REPEATED if is_list else kind.LABEL_OPTIONAL)
        if is_list:
            field.options.packed = is_packed
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"caffe{int(is_packed)}.Datum"))


def make_images(folder: Path, files: Path) -> None:
    entries = [(f"{zlib.crc32(image):08x}{i}".encode(), image) for i, image in enumerate(images(files))]
    read = write(folder, "images", [*entries, (b"num-samples", b"8"), (b"__len__", pickle.dumps(8, 4)),
                                    (b"__keys__", pickle.dumps([key for key, _ in entries], 2))])
    rows = [(k, v) for k, v in read if k not in (b"num-samples", b"__len__", b"__keys__")]
    write_list(folder, "images", ["image image"], [(k, f"image={item(v)}") for k, v in rows])
    write(folder, "scene_text", [(b"image-000000001", entries[0][1]), (b"label-000000001", b"COFFEE"), (b"num-samples", b"1")])


def make_datums(folder: Path, files: Path) -> None:
    import numpy as np

    pictures, datum = images(files), datum_class(False)
    rng = np.random.default_rng(4)

    def pixels(i: int, shape: tuple[int, int, int]) -> bytes:
        data = rng.integers(0, 256, shape, dtype=np.uint8).tobytes()
        return datum(channels=shape[0], height=shape[1], width=shape[2], data=data, label=i - 1, encoded=False).SerializeToString()

    def rows(read: Entries, parse: Callable[[Any], str], of: Any = datum) -> list[tuple[bytes, str]]:
        return [(key, parse(of.FromString(value))) for key, value in read]

    def array(d: Any) -> str:
        content = d.data or np.array(d.float_data, np.float32).tobytes()
        return f"data={item(content, (d.channels, d.height, d.width))} label={d.label}"

    keys = [f"{i:08d}_n{i % 2:08d}/{i}.JPEG".encode() for i in range(8)]
    read = write(folder, "datum_pixels", [(key, pixels(i, (3, 8, 8))) for i, key in enumerate(keys)])
    write_list(folder, "datum_pixels", ["data array uint8 [3,8,8]", "label int"], rows(read, array))
    read = write(folder, "datum_ragged", [(key, pixels(i, (3, 20, 20 + i))) for i, key in enumerate(keys[:3])])
    write_list(folder, "datum_ragged", ["data array uint8 []", "label int"], rows(read, array))
    # convert_imageset --encoded writes no shape.
    read = write(folder, "datum_images", [(key, datum(data=pictures[i], label=10 * i, encoded=True).SerializeToString())
                                          for i, key in enumerate(keys)])
    write_list(folder, "datum_images", ["image image", "label int"],
               rows(read, lambda d: f"image={item(d.data)} label={d.label}"))
    for is_packed in (True, False):
        of = datum_class(is_packed)
        name = "datum_floats" if is_packed else "datum_apart"
        read = write(folder, name, [(key, of(channels=2, height=3, width=4, float_data=rng.normal(size=24), label=i)
                                     .SerializeToString()) for i, key in enumerate(keys[:4])])
        if is_packed:
            write_list(folder, name, ["data array float32 [2,3,4]", "label int"], rows(read, array, of))


def make_bytes(folder: Path, files: Path) -> None:
    """Writes a database with keys that cannot be names, values of any kind, and many pages."""
    del files
    entries = [(b"plain", b"1"), ("schön".encode(), b"22"), (b"\x00\x00\x00\x01", b"333"), (b"hex:00", b"4444"), (b"a\nb", b""),
               (b"\xff\xfe", b"6" * 3000), (b"length", b"not a number")]
    read = write(folder, "keys", entries)
    write_list(folder, "keys", ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
    deep = [(f"{i:03d}-{'k' * 400}".encode(), bytes([i]) * (i % 50 + 8)) for i in range(64)]
    read = write(folder, "deep", [deep[i * 37 % 64] for i in range(64)])
    write_list(folder, "deep", ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
    write(folder, "empty", [])


def make_refused(folder: Path, files: Path) -> None:
    """Writes databases that are refused: pickled values, and named databases."""
    del files
    atoms = [(f"{i}".encode(), pickle.dumps({"energy": i * 0.5, "positions": [i] * 3}, 4)) for i in range(3)]
    read = write(folder, "pickles", [*atoms, (b"length", pickle.dumps(3, 4))])
    write_list(folder, "pickles", ["value bytes"], [(k, f"value={item(v)}") for k, v in read if k != b"length"])
    named = {b"train": [(b"0", b"a")], b"val": [(b"0", b"b")]}
    read = write(folder, "names", [(b"first", b"1"), (b"zlast", b"2")], 0, named)
    write_list(folder, "names", ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
    write(folder, "only_names", [], 0, named)


def make_commits(folder: Path, files: Path) -> None:
    """Writes a database in several commits, so the file also contains pages of older commits."""
    import lmdb

    del files
    with tempfile.TemporaryDirectory() as place:
        with lmdb.open(place, map_size=MAP_NBYTES) as env:
            for commit in range(4):
                with env.begin(write=True) as txn:
                    for i in range(commit * 5, commit * 5 + 12):
                        txn.put(f"{i:04d}".encode(), f"{commit}".encode() * (100 + i))
                    txn.delete(f"{commit:04d}".encode())
                with env.begin() as txn:
                    read = [(bytes(k), bytes(v)) for k, v in txn.cursor()]
                name = "commits" if commit == 3 else "commits_before"
                write_list(folder, name, ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
        shutil.copyfile(Path(place) / "data.mdb", folder / "commits.mdb")


def make_lmdb(folder: Path, files: Path) -> None:
    for make in (make_images, make_datums, make_bytes, make_refused, make_commits):
        make(folder, files)
    say_versions(folder, "lmdb", "protobuf", "pillow", "numpy")


def make_flags(folder: Path, files: Path) -> None:
    """Writes databases with other orders of keys, and with several values for a key."""
    del files
    numbers = [(i.to_bytes(8, "little"), f"value {i}".encode()) for i in (1, 255, 256, 65536, 1 << 40)]
    read = write(folder, "integer_keys", numbers, INTEGER_KEY)
    write_list(folder, "integer_keys", ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
    read = write(folder, "reverse_keys", [(text, text * 2) for text in (b"za", b"b", b"ab", b"aaa", b"ccb")], REVERSE_KEY)
    write_list(folder, "reverse_keys", ["value bytes"], [(k, f"value={item(v)}") for k, v in read])
    write(folder, "several_values", [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")], DUPSORT)
    say_versions(folder, flags="lmdb")


def make_psize(folder: Path, files: Path) -> None:
    os.environ["LMDB_PAGE_SIZE"] = "8192"
    entries = [(f"{path.stem}{i}".encode(), path.read_bytes()) for i, path in enumerate(sorted(files.rglob("*.jpg")))]
    read = write(folder, "page_8192", [*entries, (b"big", entries[0][1] + bytes(9000))])
    write_list(folder, "page_8192", ["image image"], [(k, f"image={item(v)}") for k, v in read])
    say_versions(folder, "lmdb-psize")


SETS: dict[str, Callable[[Path, Path], None]] = {"lmdb": make_lmdb, "flags": make_flags, "psize": make_psize}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent / "files")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    SETS[arguments.set](arguments.folder.resolve(), arguments.files.resolve())


if __name__ == "__main__":
    main()
