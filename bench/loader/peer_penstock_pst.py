"""Penstock, from a data set that keeps the original bytes."""

from __future__ import annotations

import dataclasses

import penstock as ps

import common
import peer_penstock

NAME = "Penstock, packed data set"
versions = peer_penstock.versions


def packed(work: common.Work) -> common.Work:
    path = work.root.parent / (work.name + ".pst")
    if not path.exists():
        ps.pack(str(work.root), str(path))
    return dataclasses.replace(work, root=path)


def batches(work: common.Work, threads: int):
    return peer_penstock.batches(packed(work), threads)


def evaluate(work: common.Work, files):
    dataset = ps.Dataset(str(packed(work).root))
    numbers = {dataset.name(i): i for i in range(len(dataset))}
    wanted = [numbers[str(path.relative_to(work.root))] for path in files]
    return peer_penstock.evaluate_samples(dataset, work, wanted)
