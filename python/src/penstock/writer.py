"""Writes and verifies data sets."""

from __future__ import annotations

from ._pack import pack, repack, verify
from ._pack_report import PackReport, VerifyReport
from ._schema import Array, Audio, Boxes, Bytes, FieldSpec, Float, Image, Int, Json, Keypoints, Mask, Text
from ._writer import Writer

__all__ = [
    "Array",
    "Audio",
    "Boxes",
    "Bytes",
    "FieldSpec",
    "Float",
    "Image",
    "Int",
    "Json",
    "Keypoints",
    "Mask",
    "PackReport",
    "Text",
    "VerifyReport",
    "Writer",
    "pack",
    "repack",
    "verify",
]
