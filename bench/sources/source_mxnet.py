"""MXNet's ImageRecordIter: records shuffled, decoded and cropped by its own threads.

It has no resize of the whole image to a square, so images that are checked are read by mxnet.recordio and resized by mxnet.image.
"""

from __future__ import annotations

from pathlib import Path

import common
import mxnet
import numpy as np
from mxnet import recordio

NAME = "MXNet ImageRecordIter"
EXACT = True
AREA = True  # for the check, images are resized by averaging areas
AREA_RULE = 3  # mxnet.image's number of that rule


def versions() -> dict:
    return {"mxnet": mxnet.__version__, "numpy": np.__version__}


def prepare(store: Path) -> None:
    """Does nothing: the index was written together with the file."""


def read_all(work: common.Work, store: Path):
    reader, images, numbers = recordio.MXIndexedRecordIO(str(store / "train.idx"), str(store / "train.rec"), "r"), [], []
    mean, std = (np.array(values, np.float32) for values in (common.MEAN, common.STD))
    for key in reader.keys:
        header, data = recordio.unpack(reader.read_idx(key))
        image = mxnet.image.imresize(mxnet.image.imdecode(data), work.size, work.size, AREA_RULE).asnumpy()
        images.append(((image.astype(np.float32) / 255 - mean) / std).transpose(2, 0, 1))
        numbers.append(int(header.label))
    yield np.stack(images), numbers


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    if fixed:
        yield read_all(work, store)
    scale = {f"{what}_{colour}": 255 * value for what, values in (("mean", common.MEAN), ("std", common.STD))
             for colour, value in zip("rgb", values, strict=True)}
    found = mxnet.io.ImageRecordIter(
        path_imgrec=str(store / "train.rec"), path_imgidx=str(store / "train.idx"), data_shape=(3, work.size, work.size),
        batch_size=work.batch, shuffle=True, preprocess_threads=threads, random_resized_crop=True, min_random_area=0.08,
        max_random_area=1.0, min_aspect_ratio=3 / 4, max_aspect_ratio=4 / 3, rand_mirror=True, **scale)

    def epoch():
        found.reset()
        for batch in found:
            own = work.batch - batch.pad  # number of samples: the last batch is filled up with repeats
            yield batch.data[0].asnumpy()[:own], [int(label) for label in batch.label[0].asnumpy()[:own]]

    while True:
        yield epoch()
