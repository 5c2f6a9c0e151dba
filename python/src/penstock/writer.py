"""Writes and verifies data sets."""

from __future__ import annotations

# Names that the type hints of fields and reports use. They are looked up in this module, too.
from collections.abc import Sequence  # noqa: F401
from typing import Any, ClassVar  # noqa: F401

from .data.croissant.write import write_croissant
from .data.pack import index, merge, pack, repack, verify
from .data.pack_report import IndexReport, PackReport, VerifyReport
from .data.schema import Array, Audio, Boxes, Bytes, FieldSpec, Float, Image, Int, Json, Keypoints, Mask, Text
from .data.writer import Writer

__all__ = [
    "Array",
    "Audio",
    "Boxes",
    "Bytes",
    "FieldSpec",
    "Float",
    "Image",
    "IndexReport",
    "Int",
    "Json",
    "Keypoints",
    "Mask",
    "PackReport",
    "Text",
    "VerifyReport",
    "Writer",
    "index",
    "merge",
    "pack",
    "repack",
    "verify",
    "write_croissant",
]
