"""FFCV, with the original JPEG bytes in its own file. FFCV's writer would encode JPEGs again, so original_field stores the file's
bytes unchanged."""

from __future__ import annotations

import io
from importlib.metadata import version
from pathlib import Path
from types import MethodType

import ffcv.transforms as T
import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import IMAGE_MODES, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.compiler import Compiler
from ffcv.writer import DatasetWriter
from PIL import Image

import common

NAME = "FFCV, original JPEG"
AREA = True  # FFCV resizes with OpenCV's INTER_AREA
PAGE_NBYTES = 1 << 25  # an image must fit into a page
EPOCHS = 1000  # FFCV restarts its threads in every epoch, so one long epoch repeats the images


def versions() -> dict:
    return {name: version(name) for name in ("ffcv", "numba", "opencv-python-headless", "numpy", "torch")}


def encode_original(_field: RGBImageField, destination, data: bytes, malloc) -> None:
    destination["width"], destination["height"] = Image.open(io.BytesIO(data)).size
    destination["mode"] = IMAGE_MODES["jpg"]
    destination["data_ptr"], storage = malloc(len(data))
    storage[:] = np.frombuffer(data, np.uint8)


def original_field() -> RGBImageField:
    """A field of FFCV's own class: the file then names that class, so every reader of FFCV's files can read it."""
    field = RGBImageField("jpg")
    field.encode = MethodType(encode_original, field)
    return field


class Samples:
    def __init__(self, work: common.Work, load, labels=None):
        self.files, self.labels, self.load = work.files(), work.labels() if labels is None else labels, load

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int):
        return self.load(self.files[i]), self.labels[i]


def written(work: common.Work, name: str, field: RGBImageField, load, labels=None) -> Path:
    def write(path: Path) -> None:
        writer = DatasetWriter(str(path), {"image": field, "label": IntField()}, num_workers=1, page_size=PAGE_NBYTES)
        writer.from_indexed_dataset(Samples(work, load, labels))

    return common.made(work.store(name), write)


def prepare(work: common.Work) -> Path:
    if not work.jpeg:
        raise common.Unavailable("FFCV stores JPEG or raw pixels")
    return written(work, "jpeg.beton", original_field(), Path.read_bytes)


def whole(height, width, _scale, _ratio):
    return 0, 0, int(height), int(width)


def centered(size: int):
    def box(height, width, _scale, _ratio):
        return (height - size) // 2, (width - size) // 2, size, size

    return box


def anywhere(size: int):
    def box(height, width, _scale, _ratio):
        return np.random.randint(0, height - size + 1), np.random.randint(0, width - size + 1), size, size

    return box


def decoder(size: int, rule=None):
    class Decoder(RandomResizedCropRGBImageDecoder):
        @property
        def get_crop_generator(self):
            return rule or super().get_crop_generator

    return Decoder((size, size))


def loader(work: common.Work, store: Path, numbers, threads: int, order, image: list) -> Loader:
    scaled = [np.array(values) * 255 for values in (common.MEAN, common.STD)]
    image = [*image, T.NormalizeImage(*scaled, np.float32), T.ToTensor(), T.ToTorchImage(channels_last=False)]
    return Loader(str(store), indices=numbers, batch_size=min(work.batch, len(numbers)), num_workers=threads, order=order,
                  os_cache=True, drop_last=True, batches_ahead=3,
                  pipelines={"image": image, "label": [IntDecoder(), T.ToTensor()]})


def batches(work: common.Work, store: Path, threads: int):
    numbers = np.tile(np.arange(len(work.files())), EPOCHS)
    crop = decoder(work.size, None if work.resized else anywhere(work.size))
    yield from loader(work, store, numbers, threads, OrderOption.RANDOM, [crop, T.RandomHorizontalFlip()])


def evaluate(work: common.Work, store: Path, files):
    known = {path: i for i, path in enumerate(work.files())}
    numbers = np.array([known[path] for path in files])
    crop = decoder(work.size, whole if work.resized else centered(work.size))
    Compiler.set_enabled(False)  # without compilation, which takes 5 to 20 s, plain Python runs the same functions
    images = next(iter(loader(work, store, numbers, 1, OrderOption.SEQUENTIAL, [crop])))[0].numpy().copy()
    Compiler.set_enabled(True)
    return images
