"""make_containers.py FORM FOLDER STORE: writes JPEGs in class folders as a container, by the container's own library.

Prints a line of JSON. A sample's label is its number among the sorted files; the bytes of the images stay as they are.

    parquet          datasets: the Hub's struct of bytes and path, not compressed    parquet_snappy  the same with Snappy
    arrow            datasets: save_to_disk                                           lance   pylance: bytes and number
    mds              MosaicML Streaming                                               tfrecord  TensorFlow: tf.train.Example
    lmdb             lmdb: Caffe's Datum                                              recordio  MXNet, with its index
    beton            FFCV
    expected         no container: expected.json has the mean colours of each image, resized by Pillow, and the sum of its bytes

Needs the Python that has the library (KINDS); its settings are the library's own, except where a row says otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import runner  # noqa: E402
import common  # noqa: E402

# The environment of bench/loader/environments.py with the library of each form.
KINDS = {"parquet": "hub", "parquet_snappy": "hub", "arrow": "hub", "lance": "hub", "lmdb": "hub", "mds": "mosaic",
         "tfrecord": "tf", "recordio": "mxnet", "beton": "ffcv", "expected": "torch"}
SHARDS = 8  # files of a container; bench/sources has as many tars
GROUP_ROWS = 100  # rows of a row group, as `datasets` writes images
LMDB_SPARE = 1 << 28  # bytes that the LMDB map is larger than the images
EXPECTED = "expected.json"


def numbered(work: common.Work) -> Iterator[tuple[int, bytes]]:
    for number, path in enumerate(work.files()):
        yield number, path.read_bytes()


def parts(n: int) -> list[range]:
    """Divides the samples among SHARDS files: neighbours lie in one file, and no file is empty."""
    n_files = max(1, min(SHARDS, n))
    return [range(n * i // n_files, n * (i + 1) // n_files) for i in range(n_files)]


def hub_rows(work: common.Work):
    """Returns the rows as `datasets` holds them. An image is a struct of bytes and path, as on the Hub."""
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    files = work.files()
    rows = {"image": [{"bytes": path.read_bytes(), "path": path.name} for path in files], "label": list(range(len(files)))}
    return datasets.Dataset.from_dict(rows, features=features)


def write_parquet(work: common.Work, store: Path, compression: str = "none") -> dict:
    import pyarrow.parquet as pq

    store.mkdir()
    table, ranges = hub_rows(work).with_format("arrow")[:], parts(len(work.files()))
    for i, own in enumerate(ranges):  # files are named as the Hub names them; `datasets` sets the compression of images itself
        path = store / f"train-{i:05d}-of-{len(ranges):05d}.parquet"
        pq.write_table(table.slice(own.start, len(own)), path, compression=compression, row_group_size=GROUP_ROWS)
    return {name: version(name) for name in ("datasets", "pyarrow")}


def write_arrow(work: common.Work, store: Path) -> dict:
    hub_rows(work).save_to_disk(store, num_shards=len(parts(len(work.files()))))
    return {"datasets": version("datasets")}


def write_lance(work: common.Work, store: Path) -> dict:
    import lance
    import pyarrow as pa

    store.mkdir()
    schema = pa.schema({"image": pa.binary(), "label": pa.int64()})
    batches = (pa.record_batch({"image": [data], "label": [number]}, schema=schema) for number, data in numbered(work))
    lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), store / "train.lance")
    return {"pylance": version("pylance")}


def write_lmdb(work: common.Work, store: Path) -> dict:
    import lmdb
    from datum import Datum

    store.mkdir()
    nbytes = sum(path.stat().st_size for path in work.files())
    with lmdb.open(str(store / "train"), map_size=2 * nbytes + LMDB_SPARE) as environment, environment.begin(write=True) as writer:
        for number, data in numbered(work):
            writer.put(b"%08d" % number, Datum(data=data, label=number, encoded=True).SerializeToString(), append=True)
    return {name: version(name) for name in ("lmdb", "protobuf")}


def write_mds(work: common.Work, store: Path) -> dict:
    from streaming import MDSWriter

    with MDSWriter(out=str(store), columns={"image": "bytes", "label": "int"}) as writer:
        for number, data in numbered(work):
            writer.write({"image": data, "label": number})
    return {"mosaicml-streaming": version("mosaicml-streaming")}


def write_tfrecord(work: common.Work, store: Path) -> dict:
    import tensorflow as tf

    store.mkdir()
    files, ranges = work.files(), parts(len(work.files()))
    for i, own in enumerate(ranges):
        with tf.io.TFRecordWriter(str(store / f"train.tfrecord-{i:05d}-of-{len(ranges):05d}")) as writer:
            for number in own:
                image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[files[number].read_bytes()]))
                label = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
                features = tf.train.Features(feature={"image/encoded": image, "image/class/label": label})
                writer.write(tf.train.Example(features=features).SerializeToString())
    return {"tensorflow": tf.__version__}


def write_recordio(work: common.Work, store: Path) -> dict:
    from mxnet import recordio

    store.mkdir()
    writer = recordio.MXIndexedRecordIO(str(store / "train.idx"), str(store / "train.rec"), "w")
    for number, data in numbered(work):
        writer.write_idx(number, recordio.pack(recordio.IRHeader(0, float(number), number, 0), data))
    writer.close()
    return {"mxnet": version("mxnet")}


def write_beton(work: common.Work, store: Path) -> dict:
    import peer_ffcv

    store.mkdir()
    field, labels = peer_ffcv.original_field(), list(range(len(work.files())))
    made = peer_ffcv.written(work, store.name + ".beton", field, Path.read_bytes, labels)  # FFCV also writes beside its output
    made.rename(store / "train.beton")
    return {"ffcv": version("ffcv")}


def write_expected(work: common.Work, store: Path) -> dict:
    store.mkdir()
    known, found = {}, []  # copies of one image are decoded only once
    for _, data in numbered(work):
        crc = zlib.crc32(data)
        if crc not in known:
            (image,) = common.reference(work, [work.files()[len(found)]])
            known[crc] = [round(float(mean), 5) for mean in image.mean(axis=(1, 2))]
        found.append({"crc": crc, "means": known[crc]})
    (store / EXPECTED).write_text(json.dumps(found))
    return {"pillow": version("pillow")}


WRITERS = {"parquet": write_parquet, "parquet_snappy": lambda work, store: write_parquet(work, store, "snappy"),
           "arrow": write_arrow, "lance": write_lance, "lmdb": write_lmdb, "mds": write_mds, "tfrecord": write_tfrecord,
           "recordio": write_recordio, "beton": write_beton, "expected": write_expected}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=WRITERS, metavar="FORM")
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path)
    args = parser.parse_args()
    work, begun, versions = common.Work("imagenet", args.folder, 64, 224, True, True), time.perf_counter(), {}
    store = common.made(args.store, lambda path: versions.update(WRITERS[args.form](work, path)))
    runner.tell({"seconds": round(time.perf_counter() - begun, 2), "stored_mb": round(runner.stored_mb(store), 1),
                 "versions": versions})


if __name__ == "__main__":
    main()
