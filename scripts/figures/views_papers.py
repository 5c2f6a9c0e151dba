"""Tables beside the papers: bench/stalls, bench/records, bench/endtoend, bench/quality."""

from __future__ import annotations

import statistics
from typing import Any

from figure_data import geometric
from figure_views import only, percent, table, times, view, where, whole


@view
def stalls(run: dict[str, Any], storage: str) -> list[str]:
    """Each model at its first rate, with three cores for each accelerator and what the paper cached."""
    rows = {}
    for cell in where(run["cells"], storage=storage, cores=3):
        cached = {"imagenet-22k": 0.35, "openimages": 0.65, "fma": 0.35}.get(cell["set"])
        if cell["cached"] != cached or cell["model"] in rows or (cell["set"] == "openimages") != cell["model"].startswith("SSD"):
            continue
        shown = [percent(cell[way][part]) for way in ("before", "with") for part in ("fetch", "prepare")]
        name = "a sweep's" if cell["sweep"] else cell["accelerator"]
        rows[cell["model"]] = [
            f"{cell['model']}, {cell['set']}",
            f"{name}, {cell['rate']:,.0f}/s",
            *shown,
            cell["with"]["form"],
            times(cell["times"], 2),
        ]
    return table(
        ["model, set", "accelerator", "before: fetch", "prepare", "Penstock: fetch", "prepare", "form", "faster by"],
        rows.values(),
    )


def shown_epochs(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


FORMS = {
    "folder": "plain folder",
    "tfrecord": "TFRecord",
    "recordio": "RecordIO",
    "tar": "tar",
    "pst": ".pst, the files' bytes",
    "pst_pli_jpeg": ".pst, pli-jpeg",
}


@view
def records(run: dict[str, Any]) -> list[str]:
    rows = []
    for cell in run["cells"]:
        warm, cold, shuffle = cell["warm"], cell["cold"], cell["shuffle"]
        pays = [shown_epochs(cell["break_even"][name]) for name in ("warm", "cold")] if "break_even" in cell else [None, None]
        rows.append(
            [
                f"{FORMS.get(cell['form'], cell['form'])}: {cell['name']}",
                whole(warm["images_per_s"]),
                whole(cold["images_per_s"]),
                f"{cold['disk_mb']:.0f}",
                f"{cell['conversion_s']:.2f}" if "conversion_s" in cell else None,
                ", ".join(filter(None, pays)),
                *(f"{shuffle[name]:.2f}" for name in ("displacement", "serial", "repeats", "entropy")),
            ]
        )
    return table(
        [
            "format: loader",
            "warm, images/s",
            "cold",
            "MB read, cold",
            "conversion, s",
            "pays after: warm, cold",
            "displacement",
            "neighbours",
            "epochs",
            "entropy",
        ],
        rows,
    )


def epochs_of(run: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return run["epochs"] if name == "all" else where(run["epochs"], set=name)


def end_to_end(run: dict[str, Any], name: str, peer: str = "") -> tuple[float, float]:
    """Returns the geometric mean and the most of the ratios to a peer, or to the faster of both."""
    ratios = [epoch["times"][peer] if peer else epoch["times_fastest"] for epoch in epochs_of(run, name)]
    return geometric(ratios), max(ratios)


@view
def endtoend(run: dict[str, Any]) -> list[str]:
    rows = []
    for name in (*run["sets"], "all"):
        ratios = [f"{value:.2f}" for peer in ("dali", "torchvision", "") for value in end_to_end(run, name, peer)]
        waits = [
            percent(statistics.fmean(epoch["loaders"][loader]["stall"] for epoch in epochs_of(run, name)))
            for loader in ("dali", "torchvision", "penstock")
        ]
        rows.append([name, *ratios, *waits])
    return table(
        [
            "set",
            "x DALI: mean",
            "most",
            "x torch: mean",
            "most",
            "x the faster: mean",
            "most",
            "stall: DALI",
            "torch",
            "Penstock",
        ],
        rows,
    )


@view
def endtoend_plans(run: dict[str, Any]) -> list[str]:
    """What Penstock stored on each machine, and the loaders' rates alone."""
    rows = []
    for name in run["sets"]:
        for machine in ("few", "slow", "balanced"):
            cells = {
                loader: only(run["cells"], set=name, machine=machine, loader=loader)
                for loader in ("penstock", "dali", "torchvision")
            }
            rows.append(
                [
                    f"{name}, {machine}",
                    cells["penstock"]["plan"].split(":")[0],
                    *(whole(cell["alone"]["samples_per_s"]) for cell in cells.values()),
                ]
            )
    return table(["set, machine", "Penstock's plan", "alone, samples/s: Penstock", "DALI", "torch"], rows)


@view
def quality(run: dict[str, Any]) -> list[str]:
    tiles, rows = run["n_train"], []
    for name, form in run["forms"].items():
        row = [
            name,
            form["quality"] or None,
            whole(form["nbytes"] / tiles),
            f"{form['psnr']:.1f}" if form["most"] else "lossless",
            form["most"],
        ]
        shown = [
            f"{100 * value:.1f}" for value in (statistics.fmean(form["accuracy"]), min(form["accuracy"]), max(form["accuracy"]))
        ]
        rows.append([*row, shown[0], f"{shown[1]} to {shown[2]}"])
    return table(["form", "quality", "bytes a tile", "PSNR, dB", "largest error", "accuracy, %", "range"], rows)
