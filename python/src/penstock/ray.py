"""Ray reads, writes, packs and checks data sets: see docs/guide/ray-spark.md. Importing this module imports Ray."""

from __future__ import annotations

from .engines.ray_sink import Sink, write
from .engines.ray_source import Source, read
from .engines.ray_tasks import index, pack, repack, verify

__all__ = ["Sink", "Source", "index", "pack", "read", "repack", "verify", "write"]
