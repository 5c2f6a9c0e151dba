"""Ray reads and writes data sets: see docs/guide/ray-spark.md. Importing it imports Ray."""

from __future__ import annotations

from .engines.ray_sink import Sink, write
from .engines.ray_source import Source, read

__all__ = ["Sink", "Source", "read", "write"]
