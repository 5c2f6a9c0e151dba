"""Tables of the benches that repeat papers: bench/stalls, bench/records, bench/endtoend, bench/quality."""

from __future__ import annotations

import statistics
from typing import Any

from figure_data import geometric
from figure_views import only, percent, table, times, view, where, whole


@view
def stalls(run: dict[str, Any], storage: str) -> list[str]:
    """Makes the table of each model at its first rate, with three cores for each accelerator and the paper's cached share."""
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


PEERS = {"dali": "DALI", "torchvision": "torch", "ffcv_raw": "FFCV raw"}


def peers_of(run: dict[str, Any]) -> dict[str, str]:
    """Returns the names of the other loaders in a run."""
    return {peer: name for peer, name in PEERS.items() if any(cell["loader"] == peer for cell in run["cells"])}


def ratios_to(run: dict[str, Any], name: str, peer: str) -> list[str]:
    """Returns the geometric mean and the maximum of the ratios to a loader, or, for peer "", to the fastest loader of each
    epoch.
    """
    ratios = [epoch["times"].get(peer) if peer else epoch["times_fastest"] for epoch in epochs_of(run, name)]
    known = [ratio for ratio in ratios if ratio is not None]  # some loaders cannot read some data sets
    return [f"{geometric(known):.2f}", f"{max(known):.2f}"] if known else ["-", "-"]


def stall_of(run: dict[str, Any], name: str, loader: str) -> str:
    found = [epoch["loaders"][loader]["stall"] for epoch in epochs_of(run, name) if loader in epoch["loaders"]]
    return percent(statistics.fmean(found)) if found else "-"


@view
def endtoend(run: dict[str, Any]) -> list[str]:
    peers = peers_of(run)
    rows = []
    for name in (*run["sets"], "all"):
        ratios = [value for peer in (*peers, "") for value in ratios_to(run, name, peer)]
        rows.append([name, *ratios, *(stall_of(run, name, loader) for loader in (*peers, "penstock"))])
    fastest = "the faster" if len(peers) == 2 else "the fastest"
    means = [words for other in (*peers.values(), fastest) for words in (f"x {other}: mean", "most")]
    first, *others = peers.values()
    return table(["set", *means, f"stall: {first}", *others, "Penstock"], rows)


@view
def endtoend_plans(run: dict[str, Any]) -> list[str]:
    """Makes the table of the forms that Penstock stored on each machine, and the loaders' rates without an accelerator."""
    peers = peers_of(run)
    rows = []
    for name in run["sets"]:
        for machine in ("few", "slow", "balanced"):
            cells = [only(run["cells"], set=name, machine=machine, loader=loader) for loader in ("penstock", *peers)]
            rates = [whole(cell["alone"]["samples_per_s"]) if "alone" in cell else "-" for cell in cells]
            rows.append([f"{name}, {machine}", cells[0]["plan"].split(":")[0], *rates])
    return table(["set, machine", "Penstock's plan", "alone, samples/s: Penstock", *peers.values()], rows)


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
