"""Penstock on a data set that keeps the original bytes of the files."""

from peer_penstock import batches, evaluate, packed, versions

NAME = "Penstock, packed, original bytes"
__all__ = ["batches", "evaluate", "versions"]


def prepare(work):
    return packed(work, "original")
