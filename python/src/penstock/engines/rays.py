"""Imports the modules of Ray that this package uses. If Ray is missing, the error says how to install it."""

from __future__ import annotations

try:
    import ray
    import ray.data as ray_data
    from ray.data import block
except ImportError as error:
    raise ImportError(f"penstock.ray needs Ray: pip install 'penstock[ray]' ({error})", name=error.name) from error

__all__ = ["block", "ray", "ray_data"]
