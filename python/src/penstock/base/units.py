"""Amounts as people read them."""

from __future__ import annotations


def size(nbytes: float) -> str:
    """Returns bytes as people read them, in powers of 1000 as rates of disks are: "114 kB"."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes:.0f} B"


def duration(seconds: float) -> str:
    """Returns seconds with the unit that fits: "114 ms"."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds > 0 else "0"
