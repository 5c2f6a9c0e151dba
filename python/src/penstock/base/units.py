"""Formats numbers, sizes and durations for people."""

from __future__ import annotations

import math


def amount(value: float, digits: int = 3) -> str:
    """Formats a number with `digits` significant digits, never with an exponent: "1,774", "14.4", "0.0005".

    Whole numbers keep all their digits. Infinity is "any".
    """
    if not math.isfinite(value):
        return "any" if value > 0 else "unknown"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)) + 1e-12)
    text = f"{value:,.{min(max(places, 0), 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(part: float) -> str:
    """Formats a fraction as a percentage: "0.4 %", "27 %"."""
    shown = 100 * part
    return f"{shown:.0f} %" if abs(shown) >= 10 else f"{amount(round(shown, 1))} %"


def size(nbytes: float) -> str:
    """Formats bytes in powers of 1000: "114 kB"."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= 0.9995 * factor:
            return f"{amount(nbytes / factor)} {unit}"
    return f"{nbytes:.0f} B"


def duration(seconds: float) -> str:
    """Formats seconds with a fitting unit: "114 ms", "42 s", "3 min"."""
    for unit, factor, least in (
        ("h", 3600.0, 2.0),
        ("min", 60.0, 2.0),
        ("s", 1.0, 0.9995),
        ("ms", 1e-3, 0.9995),
        ("us", 1e-6, 0.9995),
    ):
        if seconds >= least * factor:
            return f"{amount(seconds / factor)} {unit}"
    return f"{amount(seconds * 1e9)} ns" if seconds > 0 else "0"
