"""Spark reads data sets: see docs/guide/ray-spark.md. Importing this module imports pyspark."""

from __future__ import annotations

from .engines.spark import Source, register

__all__ = ["Source", "register"]
