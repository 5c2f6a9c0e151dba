"""Accuracy of mix.py's predictions: planned rates beside measured rates, and mixes beside the best single form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NEAR = 0.05  # error, as a part of the measured rate, up to which a prediction is good


def top_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns a setting's cells for the fastest accelerator, by the way of storing."""
    most = max(cell["fraction"] for cell in found["cells"])
    return {cell["way"]: cell for cell in found["cells"] if cell["fraction"] == most}


def singles_of(found: dict[str, Any], way: str) -> list[str]:
    """Returns the single forms that a way is compared with: all measured ones, or, for a way without PLI, all without PLI."""
    singles = [name for name in top_of(found) if not name.startswith(("mix of", "half and half of"))]
    return [name for name in singles if not (way.endswith("before") and name.startswith("pli"))]


def over_best_single(found: dict[str, Any], way: str) -> float:
    """Returns a way's samples/s divided by those of the best single form that it is compared with."""
    top = top_of(found)
    return float(top[way]["rate"] / max(top[name]["rate"] for name in singles_of(found, way)))


def off(cell: dict[str, Any]) -> float | None:
    """Returns the relative error of the prediction (positive: too high). None if there was no prediction."""
    return None if cell["predicted"] is None else cell["predicted"] / cell["rate"] - 1


def cells_of(result: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields group, setting and cell of all cells for the fastest accelerator."""
    for group, settings in result["groups"].items():
        for title, found in settings.items():
            yield from ((group, title, cell) for cell in top_of(found).values())


def accuracy(result: dict[str, Any]) -> dict[str, Any]:
    """Counts the predicted cells for the fastest accelerator, where the data pipeline is the bottleneck, and the good predictions
    among them.

    Returns "cells", "near" and "within" (the part that is near), and "far": the others with what they are off.
    """
    every = [(group, title, cell) for group, title, cell in cells_of(result) if cell["predicted"] is not None]
    far = [{"group": group, "setting": title, "way": cell["way"], "off": off(cell)}
           for group, title, cell in every if abs(cell["predicted"] / cell["rate"] - 1) > NEAR]  # fmt: skip
    return {"cells": len(every), "near": len(every) - len(far), "within": NEAR, "far": far}


def with_summary(result: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures, with "off" (the error) added to each cell, "over_best_single" to each setting for each way, and
    "accuracy".
    """
    for settings in result["groups"].values():
        for found in settings.values():
            for cell in found["cells"]:
                cell["off"] = off(cell)
            found["over_best_single"] = {way: over_best_single(found, way) for way in top_of(found)}
    result["accuracy"] = accuracy(result)
    return result
