"""first_batch.py PACKAGE FOLDER: a batch of 64 pictures of a folder of JPEGs, 224 x 224, u8, as the documentation of each package
shows it. Prints its shape and mean as a line of JSON. Imports nothing but the package and what it needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BATCH, SIZE = 64, 224


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())[:BATCH]


def penstock(folder: Path) -> Any:
    import penstock as ps
    from penstock import transforms as T

    loader = ps.Loader(ps.Dataset(folder), BATCH, transforms=[T.Resize(SIZE), T.CenterCrop(SIZE)], output="numpy")
    return next(iter(loader))["image"]


def pillow(folder: Path) -> Any:
    import numpy as np
    from PIL import Image

    return np.stack([np.asarray(Image.open(path).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))
                     for path in files(folder)])


def simplejpeg(folder: Path) -> Any:
    """simplejpeg cannot resize: takes the corner of a picture decoded at the smallest scale that has enough pixels."""
    import numpy as np
    import simplejpeg as package

    batch = np.zeros((BATCH, SIZE, SIZE, 3), np.uint8)
    for row, path in zip(batch, files(folder), strict=False):
        pixels = package.decode_jpeg(path.read_bytes(), min_height=SIZE, min_width=SIZE)[:SIZE, :SIZE]
        row[: pixels.shape[0], : pixels.shape[1]] = pixels  # some pictures are smaller than the output
    return batch


def torchcodec(folder: Path) -> Any:
    import torch
    from torchcodec.decoders import decode_image

    def resized(path: Path) -> torch.Tensor:
        pixels = decode_image(path).float()
        return torch.nn.functional.interpolate(pixels[None], (SIZE, SIZE), mode="bilinear", antialias=True)[0].byte()

    return torch.stack([resized(path) for path in files(folder)]).numpy()


def spdl(folder: Path) -> Any:
    import spdl.io

    scale = f"scale={SIZE}:{SIZE}:flags=bilinear,format=pix_fmts=rgb24"
    frames = [spdl.io.decode_packets(spdl.io.demux_image(str(path)), filter_desc=scale) for path in files(folder)]
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def ffcv(folder: Path) -> Any:
    """FFCV reads only its own format, so this writes it first."""
    import numpy as np
    from ffcv.fields import RGBImageField
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.writer import DatasetWriter
    from PIL import Image

    found = files(folder)

    class Pictures:
        def __len__(self) -> int:
            return len(found)

        def __getitem__(self, i: int) -> tuple[Any]:
            return (np.asarray(Image.open(found[i]).convert("RGB")),)

    store = "pictures.beton"
    field = RGBImageField(write_mode="jpg", jpeg_quality=90)
    DatasetWriter(store, {"image": field}, num_workers=1).from_indexed_dataset(Pictures())
    loader = Loader(store, BATCH, 1, order=OrderOption.SEQUENTIAL,
                    pipelines={"image": [CenterCropRGBImageDecoder((SIZE, SIZE), ratio=1)]})
    return np.array(next(iter(loader))[0])


def dali(folder: Path) -> Any:
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def pictures():
        data, _ = fn.readers.file(files=[str(path) for path in files(folder)])
        return fn.resize(fn.decoders.image(data, device="cpu"), size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR)

    pipeline = pictures()
    pipeline.build()
    return pipeline.run()[0].as_array()


def main() -> None:
    package, folder = sys.argv[1], Path(sys.argv[2])
    batch = globals()[package](folder)
    print(json.dumps({"shape": list(batch.shape), "dtype": str(batch.dtype), "mean": round(float(batch.mean()), 2)}), flush=True)


if __name__ == "__main__":
    main()
