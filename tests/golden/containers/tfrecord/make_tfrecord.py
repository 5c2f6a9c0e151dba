#!/usr/bin/env python3
"""Writes the TFRecord files of this folder with TensorFlow, and lists what TensorFlow reads from them.

    python make_tfrecord.py FOLDER FILES

FILES is the folder of the samples (../files). Needs tensorflow-cpu and tensorflow-datasets. Sets:

    imagenet-0000?-of-00002.tfrecord    Examples with the keys of ImageNet, in two shards; imagenet.txt lists their rows
    tfds                                a data set of TFDS with its features.json; expected.txt lists its rows
    gzip.tfrecord zlib.tfrecord         compressed as a whole
    sequence.tfrecord                   SequenceExamples
    images.tfrecord                     records that are JPEGs

The listings have the format of tests/containers/table_print.h.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

KEYS = ("bird/0000", "bird/0001", "house/0002", "house/0003", "tree.v1/0005")
IMAGES = {"image_encoded": "image", "image": "image", "mask": "mask"}


def feature(value: Any) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(files: Path, i: int) -> dict[str, Any]:
    def read(suffix: str) -> bytes:
        return (files / f"{KEYS[i]}.{suffix}").read_bytes()

    boxes = [j / 8 for j in range((0, 1, 3, 2, 1)[i])]
    return {
        "image/encoded": read("jpg"), "image/height": 24 + i, "image/width": 32, "image/format": b"JPEG",
        "image/filename": f"{KEYS[i]}.jpg".encode(), "image/class/label": i + 1, "image/class/synset": b"n01440764",
        "image/class/text": read("txt"), "image/object/bbox/xmin": boxes,
        "image/object/bbox/label": [-i] * (i % 4 + 1), "score": 0.1 * i, "blob": bytes([i, 0, 255]) * 30,
    }


def line(name: str, kind: str, value: Any) -> str:
    name = name.replace("/", "_")
    if kind == "int":
        return f"  {name} int {int(value)}\n"
    if kind == "float":
        return f"  {name} float {float(value):.9g}\n"
    if kind == "array":
        shape = "x".join(str(n) for n in value.shape)
        return f"  {name} array {value.dtype} {shape} {zlib.crc32(value.tobytes()):08x}\n"
    return f"  {name} {kind} {len(value)} {zlib.crc32(value):08x}\n"


def rows_of_examples(path: Path, lists: set[str]) -> Iterator[str]:
    """Reads Examples with TensorFlow. `lists`: the keys whose values are arrays."""
    for i, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
        yield f"{path.stem}/{i:08d}\n"
        features = tf.train.Example.FromString(record).features.feature
        for name in sorted(features, key=lambda name: name.replace("/", "_")):
            of = features[name]
            if of.HasField("bytes_list"):
                kind = "image" if name == "image/encoded" else "bytes" if name == "blob" else "text"
                yield line(name, kind, of.bytes_list.value[0])
            elif of.HasField("int64_list"):
                values = np.array(of.int64_list.value, np.int64)
                yield line(name, "array", values) if name in lists else line(name, "int", values[0])
            else:
                values = np.array(of.float_list.value, np.float32)
                yield line(name, "array", values) if name in lists else line(name, "float", values[0])


class Probe(tfds.core.GeneratorBasedBuilder):
    """A TFDS data set with each kind of feature."""

    VERSION = tfds.core.Version("1.0.0")
    files: Path

    def _info(self) -> tfds.core.DatasetInfo:
        classes = tfds.features.ClassLabel(num_classes=3)
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
            "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
            "mask": tfds.features.LabeledImage(labels=9, shape=(None, None, 1)),
            "label": classes, "caption": tfds.features.Text(), "weight": tfds.features.Scalar(np.float64),
            "flag": tfds.features.Scalar(np.bool_), "grid": tfds.features.Tensor(shape=(2, 3), dtype=np.uint8),
            "wave": tfds.features.Tensor(shape=(None, 2), dtype=np.float32),
            "raw": tfds.features.Tensor(shape=(4,), dtype=np.int16, encoding="bytes"),
            "packed": tfds.features.Tensor(shape=(4,), dtype=np.int16, encoding="zlib"),
            "objects": tfds.features.Sequence({"bbox": tfds.features.BBoxFeature(), "label": classes}),
            "pose": {"angle": tfds.features.Scalar(np.int32)},
        }))

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        del dl_manager
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for i, key in enumerate(KEYS):
            box = tfds.features.BBox(0.1, 0.2, 0.5, 0.25 * i)
            yield i, {
                "image": str(self.files / f"{key}.jpg"), "mask": np.full((4, 5 + i, 1), i, np.uint8), "label": i % 3,
                "caption": (self.files / f"{key}.txt").read_text(), "weight": 0.5 * i, "flag": i % 2 == 0,
                "grid": np.arange(6, dtype=np.uint8).reshape(2, 3) * 40 + i, "wave": np.ones((i + 1, 2), np.float32) * i,
                "raw": np.arange(4, dtype=np.int16) - i, "packed": np.arange(4, dtype=np.int16),
                "objects": [{"bbox": box, "label": i % 3}] * i, "pose": {"angle": -i},
            }


def flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in row.items():
        out |= flat(value, f"{before}{name}/") if isinstance(value, dict) else {f"{before}{name}": value}
    return out


def make_tfds(folder: Path, files: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    Probe.files = files
    with tempfile.TemporaryDirectory() as scratch:
        builder = Probe(data_dir=scratch)
        builder.download_and_prepare()
        made = Path(builder.data_dir)
        for path in made.iterdir():
            shutil.copyfile(path, folder / path.name)
        kept = tfds.decode.SkipDecoding()
        rows = builder.as_dataset(split="train", decoders={"image": kept, "mask": kept, "packed": kept})
        out = []
        shard = next(made.glob("*.tfrecord*"))
        for i, row in enumerate(tfds.as_numpy(rows)):
            out.append(f"{shard.name}/{i:08d}\n")
            values = flat(row)
            del values["packed"]
            for name in sorted(values, key=lambda name: name.replace("/", "_")):
                value = values[name]
                kind = IMAGES.get(name, "text" if isinstance(value, bytes) else "array" if value.ndim > 0 else
                                  "float" if np.issubdtype(value.dtype, np.floating) else "int")
                out.append(line(name, kind, value))
    (folder / "expected.txt").write_text("".join(out))


def main() -> None:
    folder, files = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    listing = []
    for shard, numbers in enumerate(((0, 1, 2), (3, 4))):
        path = folder / f"imagenet-{shard:05d}-of-00002.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for i in numbers:
                features = {name: feature(value) for name, value in example(files, i).items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        listing += rows_of_examples(path, {"image/object/bbox/xmin", "image/object/bbox/label"})
    (folder / "imagenet.txt").write_text("".join(listing))
    one = tf.train.Example(features=tf.train.Features(feature={"a": feature(1)}))
    for packer in ("GZIP", "ZLIB"):
        with tf.io.TFRecordWriter(str(folder / f"{packer.lower()}.tfrecord"), packer) as writer:
            writer.write(one.SerializeToString())
    frames = tf.train.FeatureList(feature=[feature(1), feature(2)])
    with tf.io.TFRecordWriter(str(folder / "sequence.tfrecord")) as writer:
        for _ in range(2):
            writer.write(tf.train.SequenceExample(
                context=one.features, feature_lists=tf.train.FeatureLists(feature_list={"frames": frames})).SerializeToString())
    with tf.io.TFRecordWriter(str(folder / "images.tfrecord")) as writer:
        for key in KEYS[:2]:
            writer.write((files / f"{key}.jpg").read_bytes())
    make_tfds(folder / "tfds", files)
    (folder / "VERSIONS").write_text("".join(f"{name} {importlib.metadata.version(name)}\n"
                                             for name in ("numpy", "protobuf", "tensorflow-cpu", "tensorflow-datasets")))


if __name__ == "__main__":
    main()
