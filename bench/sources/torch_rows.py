"""Functions that the sources under torch's DataLoader share: they make batches of transformed images of bytes, in an exact random
order."""

from __future__ import annotations

import common
import torch
from peer_torchvision import decode, fixed_transform, random_transform


class Transform:
    """Makes a tensor of an encoded image. It can be pickled for a spawned process."""

    def __init__(self, work: common.Work, fixed: bool) -> None:
        self.chain = (fixed_transform if fixed else random_transform)(work)

    def __call__(self, data) -> torch.Tensor:
        return self.chain(decode(torch.frombuffer(bytearray(data), dtype=torch.uint8), True))


def no_transform(data) -> bytes:
    return bytes(data)


def transform_of(work: common.Work, fixed: bool, rows: bool):
    return no_transform if rows else Transform(work, fixed)


def collate(samples: list[tuple]) -> tuple:
    """Stacks images to a batch; encoded rows stay a list of bytes."""
    values, numbers = [value for value, _ in samples], [int(number) for _, number in samples]
    return (values if isinstance(values[0], bytes) else torch.stack(values)), numbers


def workers_of(threads: int) -> dict:
    """Returns the number of workers. On one core the calling process does the work, which is faster."""
    torch.set_num_threads(threads)
    return {"num_workers": threads, "persistent_workers": True} if threads > 1 else {"num_workers": 0}


def epochs(data, work: common.Work, threads: int, shuffle: bool, **more):
    loader = torch.utils.data.DataLoader(data, work.batch, shuffle=shuffle, collate_fn=collate, **workers_of(threads), **more)
    while True:
        yield delivered(loader)


def delivered(batches):
    return ((values if isinstance(values, list) else values.numpy(), numbers) for values, numbers in batches)
