"""TensorSocket 0.0.5 over a torch DataLoader with torchvision v2 (the pipeline of bench/loader).

Its payloads are made for CUDA tensors. A CPU tensor is pickled: each slice for each consumer carries the bytes of the whole
producer batch through TCP. With the default producer batch of 8 batches, that is 308 MB for each batch of 64 images.
producer_batch_size=2 is therefore its best setting on CPUs; with 1 it stops after the first batch. It binds four fixed ports on all
interfaces, so the cell runs in a network namespace.

Acknowledgements go from PUB sockets of the consumers to a SUB socket of the producer. ZeroMQ sends a SUB socket's subscription
to a new peer when the socket is next used, which the producer does for the first time after it has sent the first batches: an
acknowledgement that is sent before the subscription has arrived is dropped. The producer then waits 10 s, and sends the same
batches again and again, which that consumer refuses because it has them. All consumers stand still. To avoid this, produce() polls
the socket before any batch is sent; the package itself is unchanged from PyPI.
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
SAMPLES = 1 << 20  # samples of the producer's epoch: so many that no measured window contains its end
BAND_BATCHES = 16  # batches that a job may be behind the fastest one
SETTLE_S = 1.0  # seconds in which subscriptions reach the jobs
_prepared = _epochs = 0


class Counted:
    """The loader with a length, which TensorSocket asks for. It counts its images."""

    def __init__(self, batches, n_batches: int) -> None:
        first = next(batches)  # starts the worker processes before TensorSocket starts threads
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
    while len(producer.hb.consumers) < setting.n_jobs:  # a job that joins later would miss batches
        producer.ack_socket.poll(50)
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:  # no message can arrive, because no batch was sent yet
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
    """epochs: how often the producer started again before its epoch had ended. It does so when all consumers are too far behind."""
    return {"prepared": _prepared, "epochs": _epochs} if "service" in sys.modules else {}
