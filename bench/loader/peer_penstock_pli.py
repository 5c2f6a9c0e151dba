"""Penstock on a data set of PLI, its own lossless form."""

import common
from peer_penstock import batches, evaluate, packed, versions

NAME = "Penstock, packed, pli"
__all__ = ["batches", "evaluate", "versions"]


def prepare(work):
    if work.jpeg:
        raise common.Unavailable("pli is for lossless images")
    return packed(work, "pli")
