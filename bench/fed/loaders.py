"""The loaders that are compared: each yields batches without end, prepared ahead of the caller by its own threads or processes.

    batches(peer, workload, folder, cores) -> iterator of (pixels, number of samples)

ResNet50: f32 (400, 3, 224, 224), normalised. RetinaNet: 24 whole images, u8, in the layout that is fastest for the loader.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads import Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402,F401 (it puts bench/loader in reach)
import common  # noqa: E402

Batches = Iterator[tuple[Any, int]]
REPEATS = 4000  # samples of an epoch: so many that no measured window contains its end


def penstock_loader(workload: Workload, source: Path, cores: int) -> Any:
    import numpy as np
    import penstock as ps
    from penstock import transforms as T

    dataset = ps.Dataset(str(source))
    chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return ps.Loader(dataset, batch_size=workload.batch, shuffle=True, seed=1, num_workers=cores, output="numpy",
                     indices=np.tile(np.arange(len(dataset)), REPEATS), cache=None,
                     layout="NCHW" if workload.name == "resnet50" else "NHWC",
                     transforms=chain if workload.name == "resnet50" else None)


def penstock(workload: Workload, source: Path, cores: int) -> Batches:
    for batch in penstock_loader(workload, source, cores):
        yield batch["image"], len(batch["index"])


def packed(folder: Path) -> Path:
    import penstock as ps

    return common.made(folder.with_name(folder.name + ".pst"),
                       lambda path: ps.pack(str(folder), str(path), forms=("pli-jpeg",)))


def torchvision(workload: Workload, folder: Path, cores: int) -> Batches:
    import peer_torchvision
    import torch
    import torchvision.io as io
    from torch_loader import Endless

    work = common.Work(workload.name, folder, workload.batch, 224, True, True)
    whole = workload.name == "retinanet"

    class Whole(torch.utils.data.Dataset):
        files = work.files()

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, i: int):
            return io.decode_jpeg(io.read_file(str(self.files[i])), mode=io.ImageReadMode.RGB), 0

    samples = Whole() if whole else peer_torchvision.Samples(work)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(samples, batch_size=workload.batch, sampler=Endless(len(samples)), num_workers=cores,
                                         drop_last=True, persistent_workers=True, prefetch_factor=2)
    for images, _ in loader:
        yield images, len(images)


def dali(workload: Workload, folder: Path, cores: int) -> Batches:
    import peer_dali
    import nvidia.dali.fn as fn
    import nvidia.dali.types as types
    from nvidia.dali import pipeline_def

    work = common.Work(workload.name, folder, workload.batch, 224, True, True)
    if workload.name == "resnet50":
        for images, _ in peer_dali.batches(work, folder, cores):
            yield images, len(images)
        return

    @pipeline_def(batch_size=workload.batch, num_threads=cores, device_id=None, prefetch_queue_depth=2, seed=1)
    def pipeline():
        encoded, _ = fn.readers.file(files=[str(path) for path in work.files()], random_shuffle=True, read_ahead=True,
                                     name="reader")
        return fn.decoders.image(encoded, device="cpu", output_type=types.RGB)

    pipe = pipeline()
    pipe.build()
    while True:
        (images,) = pipe.run()
        yield images, workload.batch


def dlio(workload: Workload, folder: Path, cores: int) -> Batches:
    """MLPerf Storage's own reader and torch data set: PIL decodes whole images, and a constant is delivered instead."""
    sys.path.insert(0, os.environ["DLIO"])
    import numpy as np
    import torch
    from dlio_benchmark.common.enumerations import DatasetType, FormatType, ReadType
    from dlio_benchmark.data_loader.torch_data_loader import TorchDataset
    from dlio_benchmark.utils.config import ConfigArguments
    from dlio_benchmark.utils.utility import DLIOMPI
    from torch_loader import Endless

    files = [str(path) for path in common.Work(workload.name, folder, workload.batch, 224, True, True).files()]
    DLIOMPI.get_instance().initialize()
    settings = ConfigArguments.get_instance()
    settings.file_list_train, settings.batch_size = files, workload.batch
    settings.train_global_index_map = {i: (path, 0) for i, path in enumerate(files)}
    settings.train_file_map = {}
    settings.read_type, settings.resized_image = ReadType.ON_DEMAND, np.zeros((8, 8), np.uint8)
    settings.logfile_path = os.devnull
    settings.configure_dlio_logging()
    samples = TorchDataset(FormatType.JPEG, DatasetType.TRAIN, 1, len(files), cores, workload.batch)
    loader = torch.utils.data.DataLoader(samples, batch_size=workload.batch, sampler=Endless(len(files)), num_workers=cores,
                                         drop_last=True, persistent_workers=True, prefetch_factor=2,
                                         worker_init_fn=samples.worker_init, multiprocessing_context="fork")
    for images in loader:
        yield images, len(images)


WITHOUT_PIXELS = ("dlio",)
PEERS = {
    "penstock_pli_jpeg": ("Penstock, pli-jpeg", penstock, True),
    "penstock": ("Penstock, plain files", penstock, False),
    "dali": ("DALI, CPU pipeline", dali, False),
    "torchvision": ("torch DataLoader + torchvision v2", torchvision, False),
    "dlio": ("DLIO's reader, which decodes and throws away", dlio, False),
}


def batches(peer: str, workload: Workload, folder: Path, cores: int) -> Batches:
    _, make, packs = PEERS[peer]
    return make(workload, packed(folder) if packs else folder, cores)
