"""TensorSocket 0.0.5 over a torch DataLoader with torchvision v2 (the pipeline of bench/loader).

Its payloads are made for CUDA tensors. A CPU tensor is pickled: each slice for each consumer carries the bytes of the whole
producer batch through TCP, with the default of 8 batches 308 MB for each batch of 64 images. producer_batch_size=2 is therefore
its best setting on CPUs; with 1 it stops after the first batch. It binds four fixed ports on all interfaces, so the cell runs in a
network namespace.

Acknowledgements go from PUB sockets of the consumers to a SUB socket of the producer. ZeroMQ sends a SUB socket's subscription
to a new peer when the socket is next used, which the producer does for the first time after it has sent the first batches: the
acknowledgement of a consumer that is faster than the subscription is dropped. The producer then waits 10 s, and sends the same
batches again and again, which that consumer refuses because it has them. All consumers stand still. produce() polls the socket
before any batch is sent, so that this does not happen; the package is as it is on PyPI.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings

import torch

import kinds
import peer_torchvision

NAME = "TensorSocket over torch DataLoader"
SAMPLES = 1 << 20  # of the producer's epoch, so that no window has the end of one
BAND_BATCHES = 16  # that a job may be behind
SETTLE_S = 1.0  # for subscriptions to get to the jobs
_prepared = _epochs = 0


class Counted:
    """A loader with a length, which TensorSocket asks for, and a count of images."""

    def __init__(self, batches, n_batches: int) -> None:
        first = next(batches)  # starts the workers, before TensorSocket has threads
        self._batches, self._n_batches = itertools.chain([first], batches), n_batches

    def __len__(self) -> int:
        return self._n_batches

    def __iter__(self):
        global _prepared
        for images, labels in self._batches:
            _prepared += len(images)
            yield images, labels


def produce(loader: Counted, setting: kinds.Setting, ready, **options) -> None:
    global _epochs
    from tensorsocket import TensorProducer

    import service

    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    producer = TensorProducer(loader, rubber_band_pct=BAND_BATCHES / len(loader), producer_batch_size=2, **options)
    ready()
    while len(producer.hb.consumers) < setting.n_jobs:  # who joins later misses batches
        producer.ack_socket.poll(50)
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:  # nothing comes: no batch was sent
        producer.ack_socket.poll(50)
    while not service.ended():
        for _ in producer:
            pass
        _epochs += 1


def serve(setting: kinds.Setting, ready) -> None:
    batches = peer_torchvision.batches(setting.work, setting.work.root, setting.threads)
    produce(Counted(batches, SAMPLES // setting.work.batch), setting, ready)


def consume(setting: kinds.Setting, **options):
    from tensorsocket import TensorConsumer

    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    consumer = TensorConsumer(batch_size=setting.work.batch, **options)
    while True:
        for images, labels in consumer:
            yield images.numpy(), labels.numpy()


def jobs_batches(setting: kinds.Setting):
    torch.set_num_threads(1)
    return consume(setting)


def counters() -> dict:
    """epochs: how often the producer began anew before its epoch had ended, as it does if all consumers are behind the band."""
    return {"prepared": _prepared, "epochs": _epochs} if "service" in sys.modules else {}
