"""Compares the runs with the predictions: errors, bands, goals, and the table."""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import Any

from draw import EMULATED, KINDS, Cell
from rounds import AGAIN, differs, rates_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from runner import heads, where  # noqa: E402

# Name, description, and the largest value wanted (for counts and shares of cells the smallest).
GOALS = (
    ("n_cells", "counted cells", 60),
    ("median_error", "counted cells, median error", 0.03),
    ("error_95", "counted cells, 95 % of them within", 0.08),
    ("worst_error", "counted cells, worst error", 0.12),
    ("storage_median_error", "bound by storage, other forms: median error", 0.02),
    ("storage_worst_error", "bound by storage, other forms: worst error", 0.06),
    ("in_band", "measured within the band", 0.95),
    ("half_width", "median half width of the bands", 0.08),
)
AT_LEAST = ("n_cells", "in_band")


def evaluate(cells: list[Cell]) -> None:
    """Adds to each cell the measured rate (the median of its runs), the error of the prediction, and whether the runs agree."""
    for cell in cells:
        predicted, rates = cell["predicted"], rates_of(cell)
        cell["measured"] = statistics.median(rates)
        cell["error"] = predicted["samples_per_second"] / cell["measured"] - 1
        cell["in_band"] = predicted["low"] <= cell["measured"] <= predicted["high"]
        cell["half_width"] = (predicted["high"] - predicted["low"]) / 2 / predicted["samples_per_second"]
        cell["runs_differ"] = differs(rates)
        cell["unsteady"] = cell["runs_differ"] > AGAIN


def part_of_cells(errors: list[float], part: float) -> float:
    """Returns the least error that is not exceeded by that share of the cells."""
    return sorted(errors)[max(0, math.ceil(part * len(errors) - 1e-9) - 1)]


def figures(cells: list[Cell]) -> dict[str, Any]:
    """Returns the figures of a group of cells."""
    errors = [abs(cell["error"]) for cell in cells]
    return {"n_cells": len(cells), "median_error": statistics.median(errors), "error_95": part_of_cells(errors, 0.95),
            "worst_error": max(errors), "mean_signed_error": statistics.mean(cell["error"] for cell in cells),
            "in_band": statistics.mean(cell["in_band"] for cell in cells),
            "half_width": statistics.median(cell["half_width"] for cell in cells),
            "unsteady": sum(cell["unsteady"] for cell in cells)}  # fmt: skip


def by_storage(cell: Cell) -> bool:
    """Returns whether the cell asks about another form than the analysed one, and the prediction says that storage is the
    bottleneck.
    """
    return not cell["own"] and cell["predicted"]["binding"] in ("storage", "reads")


def summarise(cells: list[Cell]) -> dict[str, Any]:
    """Returns the figures of the counted cells, each beside its goal, and the figures of each kind."""
    evaluate(cells)
    counted = [cell for cell in cells if cell["kind"] in KINDS]
    found = figures(counted)
    if slow := [cell for cell in counted if by_storage(cell)]:
        of_storage = figures(slow)
        found.update(storage_n_cells=len(slow), storage_median_error=of_storage["median_error"],
                     storage_worst_error=of_storage["worst_error"])  # fmt: skip
    goals = []
    for name, title, goal in GOALS:
        value = found.get(name)
        is_met = value is not None and (value >= goal if name in AT_LEAST else value <= goal)
        goals.append({"name": name, "title": title, "goal": goal, "value": value, "met": is_met})
    others = [run["other_cores"] for cell in cells for run in cell["runs"]]
    kinds = dict.fromkeys(cell["kind"] for cell in cells)
    return {**found, "goals": goals, "by_kind": {kind: figures([c for c in cells if c["kind"] == kind]) for kind in kinds},
            "other_cores_median": statistics.median(others), "other_cores_most": max(others)}  # fmt: skip


# Tables --------------------------------------------------------------------------------------------------


def shown(name: str, value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if name == "n_cells" else f"{100 * value:.1f} %"


def goal_rows(summary: dict[str, Any]) -> list[str]:
    lines = heads("goal", "wanted", "found", "")
    for goal in summary["goals"]:
        name, sign = goal["name"], ">=" if goal["name"] in AT_LEAST else "<="
        words = "met" if goal["met"] else "missed"
        lines.append(f"| {goal['title']} | {sign} {shown(name, goal['goal'])} | {shown(name, goal['value'])} | {words} |")
    return lines


def kind_rows(summary: dict[str, Any]) -> list[str]:
    names = ("median_error", "error_95", "worst_error", "mean_signed_error", "in_band", "half_width")
    lines = heads("what differs from the analysed run", "cells", "median error", "95 % of cells", "worst", "mean, signed",
                  "within the band", "half width of the band", "unsteady")  # fmt: skip
    for kind, of in summary["by_kind"].items():
        apart = "" if kind in KINDS else " (not counted)"
        lines.append(f"| {kind}{apart} | {of['n_cells']} | {' | '.join(shown(n, of[n]) for n in names)} | {of['unsteady']} |")
    return lines


def cell_rows(cells: list[Cell]) -> list[str]:
    lines = heads("cell", "predicted", "band", "measured", "error", "in the band", "runs", "differ by", "limited by",
                  "others' cores")  # fmt: skip
    for cell in cells:
        predicted = cell["predicted"]
        beyond = ", beyond what was measured" if predicted["extrapolated"] else ""
        others = max(run["other_cores"] for run in cell["runs"])
        lines.append(
            f"| {cell['name']} | {predicted['samples_per_second']:.1f} | {predicted['low']:.1f} to {predicted['high']:.1f} | "
            f"{cell['measured']:.1f} | {100 * cell['error']:+.1f} % | {'yes' if cell['in_band'] else 'no'} | {len(cell['runs'])} | "
            f"{100 * cell['runs_differ']:.1f} %{' (unsteady)' if cell['unsteady'] else ''} | {predicted['binding']}{beyond} | "
            f"{others:.2f} |"
        )
    return lines


def table(result: dict[str, Any]) -> str:
    """Returns the page of tables: goals, kinds, counted cells, and cells that do not count."""
    cells, summary, made = result["cells"], result["summary"], result["predictions"]
    parts = [
        [where(result) + f" Seed {result['settings']['seed']}; samples/s of all jobs; medians of at least two runs, of "
         f"{result['settings']['seconds']:g} s and of whole epochs.",
         f"Predictions: {made['file']}, sha256 {made['sha256'][:16]}, commit {made['commit'][:12] or 'none'}.",
         f"Other programs used {summary['other_cores_median']:.2f} cores (median of the runs), at most "
         f"{summary['other_cores_most']:.2f}."],
        goal_rows(summary), kind_rows(summary), ["Counted:"], cell_rows([c for c in cells if c["kind"] in KINDS])]  # fmt: skip
    if easy := [cell for cell in cells if cell["kind"] not in (*KINDS, EMULATED)]:
        parts += [["Not counted, because they can hardly miss:"], cell_rows(easy)]
    if gpu := [cell for cell in cells if cell["kind"] == EMULATED]:
        parts += [["Not counted: a GPU that a stand-in emulates:"], cell_rows(gpu)]
    parts += [["- " + note for note in result["notes"]]] if result["notes"] else []
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
