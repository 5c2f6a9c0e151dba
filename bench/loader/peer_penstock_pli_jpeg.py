"""Penstock on a data set of pli-jpeg, which keeps the coefficients of the JPEGs."""

import subprocess
import sys
from pathlib import Path

import common
from peer_penstock import batches, evaluate, packed, versions

NAME = "Penstock, packed, pli-jpeg"
__all__ = ["batches", "evaluate", "versions"]


def prepare(work):
    command = Path(sys.executable).parent / "penstock"
    text = subprocess.run([command, "pack", "--help"], capture_output=True, text=True, check=True).stdout
    if "pli-jpeg" not in text:
        raise common.Unavailable("`penstock pack` of this build has no form pli-jpeg")
    if not work.jpeg:
        raise common.Unavailable("pli-jpeg is for JPEG files")
    return packed(work, "pli-jpeg")
