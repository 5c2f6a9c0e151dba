"""The table of what-if cells, from files that bench/whatif writes and from older ones."""

import views_plans
from bench_modules import load

draw = load("whatif", "whatif").draw


def cell(kind, error, binding="cores"):
    """Returns a cell as summary.evaluate leaves it."""
    return {"kind": kind, "name": f"imagenet: raw, 2 cores, {kind}", "report": "imagenet", "set": "imagenet", "form": "raw",
            "own": False, "cores": 2.0, "storage": 0, "cache": 0, "jobs": 1, "question": {"form": "raw", "cores": 2.0},
            "predicted": {"samples_per_second": 100 * (1 + error), "low": 90.0, "high": 110.0, "binding": binding,
                          "next": "workers", "extrapolated": []},
            "runs": [{"samples_per_second": 100.0, "other_cores": 0.0}] * 2, "measured": 100.0, "error": error, "in_band": True,
            "half_width": 0.1, "runs_differ": 0.0, "unsteady": False}  # fmt: skip


def rows_of(run):
    return {row.split("|")[1]: row.split("|")[2:-1] for row in views_plans.whatif(run)[2:]}


def test_each_kind_of_the_bench_has_a_row():
    kinds = [*draw.KINDS, *draw.EASY, draw.EMULATED]
    rows = rows_of({"bench": "whatif", "cells": [cell(kind, (i + 1) / 100) for i, kind in enumerate(kinds)]})
    assert set(views_plans.PACES) == set(kinds) and len(rows) == len(kinds) + 3
    assert list(rows)[:3] == list(views_plans.EASY)
    assert rows["fewer cores, all forms"] == ["1", "1.00 %", "1.0 %", "1"]
    assert rows["**all that can hardly miss**"] == ["3", "6.00 %", "7.0 %", "0"]
    assert rows["**all others, but for the GPU**"] == ["4", "2.50 %", "4.0 %", "3"] and rows["all"][0] == "8"


def test_storage_that_binds_another_form_can_miss():
    """A throttle limits the cell. A form that was not analysed can still miss its prediction, because its bytes are predicted,
    too."""
    run = {"cells": [cell("storage", -0.04, "storage"), cell("storage, own form", 0.0, "storage")]}
    assert views_plans.whatif_errors(run, easy=False) == [0.04] and views_plans.whatif_errors(run, easy=True) == [0.0]
    assert list(rows_of(run))[-2] == "**all others**"


def test_cells_without_kinds():
    kinds = (("storage", 2, "storage"), ("cores", 1, "cores"), ("hybrid, emulated", 2, "gpu"))
    old = [{"group": group, "name": "jpeg", "question": {"cores": cores}, "predicted": {"binding": binding}, "error": 0.01}
           for group, cores, binding in kinds]
    assert [views_plans.pace(one) for one in old] == ["byte throttle", "fewer cores, or more jobs", "emulated GPU"]
    assert len(views_plans.whatif_errors({"cells": old}, easy=False)) == 2
