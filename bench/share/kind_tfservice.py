"""tf.data service with cross_trainer_cache: one dispatcher and one worker, in one process; the pipeline is that of bench/loader.

Each job is a trainer of the cache, whose sliding window is 10 GB (a default that Python cannot change). Batches are sent as they
are: compressing them would cost more than making them.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import kinds
import peer_tfdata

NAME = "tf.data service, cross_trainer_cache"


def serve(setting: kinds.Setting, ready) -> None:
    import service

    dispatcher = tf.data.experimental.service.DispatchServer()
    config = tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    worker = tf.data.experimental.service.WorkerServer(config)
    address = setting.folder / "address"
    address.with_suffix(".new").write_text(dispatcher.target)
    address.with_suffix(".new").rename(address)
    ready()
    while not service.ended():
        time.sleep(0.05)
    del worker


def jobs_batches(setting: kinds.Setting):
    cache = tf.data.experimental.service.CrossTrainerCache(trainer_id=f"job{setting.job}")
    data = peer_tfdata.dataset(setting.work, setting.threads).apply(tf.data.experimental.service.distribute(
        processing_mode=tf.data.experimental.service.ShardingPolicy.OFF, service=(setting.folder / "address").read_text(),
        job_name="bench", compression=None, cross_trainer_cache=cache))
    for images, labels in data:
        yield images.numpy(), labels.numpy()


def counters() -> dict:
    return {}
