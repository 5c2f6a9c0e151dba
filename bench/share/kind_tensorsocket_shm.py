"""TensorSocket with a pack_fn and an unpack_fn of this benchmark, which pass the tensors by shared memory.

For CUDA tensors TensorSocket sends a handle instead of bytes. The functions here do so for CPU tensors, by torch's own means: the
tensors of its pool are moved to shared memory once, and a message holds the name of that memory.
"""

from __future__ import annotations

import pickle

import kind_tensorsocket
import kinds
import peer_torchvision
import torch
import torch.multiprocessing
from multiprocessing.reduction import ForkingPickler

NAME = "TensorSocket, tensors by shared memory"


def pack(data: tuple) -> bytes:
    return bytes(ForkingPickler.dumps(data))


def use_shared_memory() -> None:
    """Makes torch share the tensors that this process sends. The workers of a DataLoader must be started before, with torch's usual
    strategy.
    """
    torch.multiprocessing.set_sharing_strategy("file_system")
    torch.set_num_threads(1)


def serve(setting: kinds.Setting, ready) -> None:
    batches = peer_torchvision.batches(setting.work, setting.work.root, setting.threads)
    loader = kind_tensorsocket.Counted(batches, kind_tensorsocket.SAMPLES // setting.work.batch)
    use_shared_memory()
    kind_tensorsocket.produce(loader, setting, ready, pack_fn=pack)


def jobs_batches(setting: kinds.Setting):
    use_shared_memory()
    return kind_tensorsocket.consume(setting, unpack_fn=pickle.loads)


counters = kind_tensorsocket.counters
