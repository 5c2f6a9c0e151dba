"""Replaces Ray where it is not installed: it has the few classes of ray.data that penstock.ray uses, and runs tasks.

A block is a dict of numpy arrays. Read and write tasks go through pickle, as between Ray's machines, and run one after
another in this process; a write task is one block. It has no cluster, no retries, no lost nodes and no Arrow: tests with it prove
only that our own code is right. scripts/check_ray.py runs the same tests with the real one.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np


class Datasource:
    pass


class Datasink:
    pass


@dataclass
class BlockMetadata:
    num_rows: int
    size_bytes: int
    input_files: list | None
    exec_stats: object


@dataclass
class ReadTask:
    read_fn: object
    metadata: BlockMetadata
    schema: object = None

    def __call__(self):
        return self.read_fn()


@dataclass
class Schema:
    names: list


class BlockAccessor:
    def __init__(self, block):
        self._block = block

    @staticmethod
    def for_block(block):
        return BlockAccessor(block)

    @staticmethod
    def batch_to_block(batch):
        return dict(batch)

    def schema(self):
        return Schema(list(self._block))

    def iter_rows(self, public_row_format):
        for i in range(len(next(iter(self._block.values())))):
            yield {name: values[i] for name, values in self._block.items()}


@dataclass
class TaskContext:
    task_idx: int


@dataclass
class WriteResult:
    num_rows: int
    size_bytes: int
    write_returns: list = field(default_factory=list)


class Dataset:
    def __init__(self, tasks):
        self._tasks = tasks

    def _blocks(self):
        for task in self._tasks:
            yield from pickle.loads(pickle.dumps(task))()

    def num_blocks(self):
        return len(self._tasks)

    def count(self):
        return sum(task.metadata.num_rows for task in self._tasks)

    def schema(self):
        return self._tasks[0].schema

    def take_all(self):
        return [row for block in self._blocks() for row in BlockAccessor(block).iter_rows(True)]

    def materialize(self):
        return self

    def write_datasink(self, sink):
        sink.on_write_start()
        n, returns = 0, []
        try:
            for i, block in enumerate(self._blocks()):
                n += len(next(iter(block.values())))
                returns.append(pickle.loads(pickle.dumps(sink)).write([block], TaskContext(i)))
        except Exception as error:
            sink.on_write_failed(error)
            raise
        sink.on_write_complete(WriteResult(n, 0, returns))


def read_datasource(source, override_num_blocks=2):
    return Dataset(source.get_read_tasks(override_num_blocks))


def _rows_task(rows):
    names = list(rows[0])
    return [{name: _column([row[name] for row in rows]) for name in names}]


def _column(values):
    column = np.empty(len(values), object)
    column[:] = values
    return column


def from_items(rows, override_num_blocks=1):
    from functools import partial

    cuts = [len(rows) * i // override_num_blocks for i in range(override_num_blocks + 1)]
    parts = [rows[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    return Dataset([ReadTask(partial(_rows_task, part), BlockMetadata(len(part), 0, None, None)) for part in parts])


class RemoteFunction:
    def __init__(self, function):
        self._function = function

    def remote(self, *arguments):
        init()  # as Ray does
        return pickle.loads(pickle.dumps(self._function))(*pickle.loads(pickle.dumps(arguments)))


def remote(**arguments):
    return RemoteFunction


def get(results):
    return list(results)


_started: list[bool] = []


def init():
    _started[:] = [True]


def is_initialized():
    return bool(_started)


def shutdown():
    _started.clear()


def cluster_resources():
    if not is_initialized():
        raise RuntimeError("Ray has not been started yet")
    return {"CPU": 2.0}


def install() -> ModuleType:
    """Makes `import ray` return this stand-in."""
    ray, data, block = ModuleType("ray"), ModuleType("ray.data"), ModuleType("ray.data.block")
    for thing in (Datasource, Datasink, ReadTask, read_datasource, from_items):
        setattr(data, thing.__name__, thing)
    block.BlockAccessor, block.BlockMetadata = BlockAccessor, BlockMetadata
    ray.data, data.block, ray.is_stand_in = data, block, True
    for function in (remote, get, init, is_initialized, shutdown, cluster_resources):
        setattr(ray, function.__name__, function)
    sys.modules.update({"ray": ray, "ray.data": data, "ray.data.block": block})
    return ray


def remove() -> None:
    """Removes the stand-in, because other packages in this process must not take it for Ray."""
    for name in ("ray", "ray.data", "ray.data.block"):
        del sys.modules[name]
