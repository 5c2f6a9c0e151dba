"""Tables of loaders: bench/loader, bench/tasks, bench/pages, bench/audio, slow samples, MLPerf's accelerators, networks that
train."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from figure_views import only, percent, signed, table, times, view, where, whole

PACKED = ("penstock_pli_jpeg", "penstock_pli")


def is_own(cell: dict[str, Any]) -> bool:
    return cell["peer"].startswith("penstock")


def cells_of(run: dict[str, Any], group: str, cores: int) -> list[dict[str, Any]]:
    return [
        cell for cell in run["cells"] if cell.get("group", "frames") == group and cell["cores"] == cores and "absent" not in cell
    ]


def fastest_other(cells: Iterable[dict[str, Any]]) -> float:
    """Returns the rate of the fastest loader other than Penstock that decodes."""
    return max(cell["images_per_s"] for cell in cells if not is_own(cell) and cell.get("decodes", True))


@view
def loaders(run: dict[str, Any], group: str) -> list[str]:
    """Makes a row for each loader, fastest first. In brackets: the rate relative to the fastest other loader that decodes, and the
    bytes relative to the files.
    """
    one, two = cells_of(run, group, 1), cells_of(run, group, 2)
    files = only(one, peer="penstock")["stored_mb"]
    rows = []
    for cell in sorted(one, key=lambda cell: -cell["images_per_s"]):
        rates = [cell["images_per_s"], only(two, peer=cell["peer"])["images_per_s"]]
        shown = [whole(rate) for rate in rates]
        if is_own(cell):
            shown = [f"{rate:.0f} ({rate / fastest_other(cells):.1f} x)" for rate, cells in zip(rates, (one, two), strict=True)]
        rows.append([f"**{cell['name']}**" if is_own(cell) else cell["name"], *shown, f"{cell['stored_mb'] / files:.2f}"])
    return table(["loader", "1 core", "2 cores", "bytes"], rows)


def masked(run: dict[str, Any]) -> dict[str, Any]:
    """Returns Penstock's cells at the level of AVX2 with the peers of both parts of a run. The CPU mask lowers only Penstock's
    level.
    """
    other = run["cells_with_cpu_mask_avx2"]
    return {"cells": [*other, *(cell for cell in run["cells"] if not is_own(cell))]}


def loader_ratios(run: dict[str, Any], group: str, own: str) -> list[float]:
    """Returns the rate relative to the fastest other loader that decodes, on 1 and 2 cores; nothing if the loader was not
    measured.
    """
    both = [cells_of(run, group, cores) for cores in (1, 2)]
    return [cell["images_per_s"] / fastest_other(cells) for cells in both for cell in cells if cell["peer"] == own]


@view
def ratios(*runs: dict[str, Any], names: str) -> list[str]:
    """Makes the table of rates relative to the fastest other loader that decodes, on 1 and 2 cores, for each machine. A column
    whose name contains AVX2 shows the part of the run in which a CPU mask limited Penstock to AVX2.
    """
    rows = []
    titles = names.split(";")
    parts = [
        masked(run) if "AVX2" in name and "cells_with_cpu_mask_avx2" in run else run
        for run, name in zip(runs, titles, strict=True)
    ]
    for group, title, packed in (("imagenet", "ImageNet", PACKED[0]), ("photographs", "photographs", PACKED[0])):
        for own, form in ((packed, "pli-jpeg"), ("penstock", "plain folder")):
            found = [", ".join(times(ratio) for ratio in loader_ratios(run, group, own)) for run in parts]
            rows.append([f"{title}, {form}", *(each or "-" for each in found)])
    return table(["", *titles], rows)


@view
def sources(run: dict[str, Any], cores: str) -> list[str]:
    """Makes the table of loaders of containers on so many cores, from bench-sources."""
    rows = []
    for cell in where(run["cells"], cores=int(cores)):
        rates = f"{cell['first']:.0f}", f"{cell['later']:.0f}"
        times_first, times_later = (times(cell[key]) for key in ("times_first", "times_later"))
        name = f"**{cell['name']}**" if cell["source"] == "penstock" else cell["name"]
        rows.append([name, *rates, times_first, times_later, whole(cell["peak_mb"]), f"{cell['opened_s']:.2f}"])
    return table(
        ["loader", "first epoch, images/s", "later", "times WebDataset, first", "later", "peak memory, MB", "first batch, s"], rows
    )


@view
def containers(run: dict[str, Any], cores: str, titles: str) -> list[str]:
    """Makes the table of loaders of containers on so many cores, each beside Penstock on the same files. `titles`: group=title,
    joined by ";".
    """
    rows = []
    for group, title in (each.split("=") for each in titles.split(";")):
        for cell in where(run["cells"], group=group, cores=int(cores)):
            if "absent" in cell:
                continue
            own = cell["source"] == "penstock"
            behind = ["", ""] if own else [times(cell[name]) for name in ("behind_first", "behind_later")]
            name = f"**{cell['name']}**" if own else cell["name"]
            rates = [whole(cell["first"]), whole(cell["later"])]
            rows.append([title, name, *rates, *behind, whole(cell["peak_mb"]), f"{cell['opened_s']:.2f}"])
            title = ""
    heads = ["container", "loader", "first epoch, a second", "later", "Penstock has times, first", "later", "peak memory, MB"]
    return table([*heads, "first batch, s"], rows)


@view
def tasks(run: dict[str, Any], detect: dict[str, Any]) -> list[str]:
    """Makes the table of CPU time and rates of whole recipes. Detection was measured in a run of its own."""
    rows = []
    for task, title, cells, cores in (
        ("classify", "classification", run["cells"], (1, 2)),
        ("detect", "detection", detect["cells"], (1,)),
        ("segment", "segmentation", run["cells"], (1,)),
    ):
        mine = [where(cells, task=task, cores=n) for n in cores]
        best = [min(cell["cpu_ms_per_image"] for cell in row if not cell["loader"].startswith("penstock")) for row in mine]
        for first in mine[0]:
            pair = [only(row, loader=first["loader"]) for row in mine]
            ms = [f"{cell['cpu_ms_per_image']:.2f}" for cell in pair]
            if first["loader"].startswith("penstock"):
                ms = [
                    f"{cell['cpu_ms_per_image']:.2f} ({other / cell['cpu_ms_per_image']:.1f} x)"
                    for cell, other in zip(pair, best, strict=True)
                ]
            rows.append([title, first["name"], ", ".join(ms), ", ".join(whole(cell["images_per_s"]) for cell in pair)])
            title = ""
    return table(["task", "loader", "CPU ms an image", "images/s"], rows)


@view
def raw(run: dict[str, Any]) -> list[str]:
    rows = [
        [size, *(f"{only(run['results'], batch_size=size, num_workers=n)['ratio']:.2f}" for n in (1, 2))]
        for size in (64, 128, 256)
    ]
    return table(["batch", "1 worker", "2 workers"], rows)


@view
def pages(run: dict[str, Any], setting: str) -> list[str]:
    """Makes a row for each order. The columns of crops are left out if they were not measured."""
    rows = []
    has_crops = bool(where(run["cells"], chain="crops", setting=setting))
    for cell in where(run["cells"], chain="bytes", setting=setting):
        rates = [cell]
        if has_crops:
            rates.append(only(run["cells"], chain="crops", setting=cell["setting"], layout=cell["layout"], way=cell["way"]))
        rows.append(
            [
                cell["way"] + (", folder" if cell["layout"] == "folder" else ""),
                whole(cell["requests_per_s"]),
                f"{cell['items_per_request']:.1f}",
                f"{cell['useful_mb_per_s']:.0f} + {cell['thrown_away_mb_per_s']:.0f}",
                *(f"{each['images_per_s']:.0f} ({each['times_random']:.2f} x)" for each in rates),
                f"{rates[-1]['cpu_ms_per_image']:.2f}",
            ]
        )
    shown = ["bytes, images/s", "crops, images/s"][: 1 + has_crops]
    return table(["order", "requests/s", "items each", "MB/s used + thrown away", *shown, "CPU ms"], rows)


@view
def pages_mixing(run: dict[str, Any]) -> list[str]:
    """Makes a row for each order: the mean number of classes in so many samples in a row."""
    lengths = sorted({one["run"] for one in run["mixing"]})
    ways = dict.fromkeys(one["way"] for one in run["mixing"])
    rows = [[way, *(f"{only(run['mixing'], way=way, run=n)['classes']:.1f}" for n in lengths)] for way in ways]
    return table(["order", *(f"{n} samples" for n in lengths)], rows)


@view
def slow(run: dict[str, Any]) -> list[str]:
    """Makes the table of rates with and without slow samples, the kept part of the rate, and the part that would be kept if no
    sample waited for another.
    """
    rows = []
    for workers, cells in run["cells"].items():
        base = cells["torch"]
        for cell in cells.values():
            ratios = (times(cell[what] / base[what]) for what in ("without_slow", "images_per_s"))
            rates = (whole(cell[what]) for what in ("without_slow", "images_per_s"))
            pairs = [each for pair in zip(rates, ratios, strict=True) for each in pair]
            rows.append([workers, cell["name"], *pairs, *(f"{cell[what]:.2f}" for what in ("keeps", "decoding"))])
    heads = ["workers", "", "without slow samples", "x torch", "with", "x torch", "kept", "if nothing waited"]
    return table(heads, rows)


@view
def fed(fast: dict[str, Any], busy: dict[str, Any]) -> list[str]:
    rows = []
    for cell in where(fast["cells"], workload="resnet50"):
        row = [cell["name"]]
        for workload in ("resnet50", "retinanet"):
            for run in (fast, busy):
                found = where(run["cells"], workload=workload, peer=cell["peer"])
                row.append(f"{found[0]['fed_per_core']:.2f}" if found else "-")
        rows.append(row)
    return table(["loader, 1 core", "ResNet50-H100: Zen 5", "Zen 3, busy", "RetinaNet-B200: Zen 5", "Zen 3, busy"], rows)


@view
def models(run: dict[str, Any], storage: str) -> list[str]:
    rows = []
    for cell in run["cells"]:
        if cell["storage"] not in storage.split(";"):
            continue
        stall, form = cell["stall"], cell["form"]
        rows.append(
            [
                f"{cell['model']}, {form}",
                cell["storage"],
                f"{1000 * cell['step_s']:.0f}",
                whole(cell["own"]),
                whole(cell["rate"]),
                *(f"{stall[name]:.2f}" for name in ("compute", "prepare", "fetch")),
                signed(cell["predicted"] / cell["rate"] - 1),
            ]
        )
    return table(
        ["network, form", "storage", "step, ms", "alone", "images/s", "computes", "preparation", "fetch", "predicted"], rows
    )


@view
def dlio(run: dict[str, Any]) -> list[str]:
    """Makes the table of DLIO's figures: for each way in which Penstock takes part, and for DLIO's own loader."""
    return table(
        ["way", "utilisation", "samples/s"],
        [[way, f"{each['au']:.3f}", f"{each['samples_per_second']:.1f}"] for way, each in run["ways"].items()],
    )


@view
def clips(run: dict[str, Any]) -> list[str]:
    """Makes the table of clips of sound per second, for each loader that was measured."""
    names = list(dict.fromkeys(name for cell in run["cells"] for name, rate in cell["clips_per_s"].items() if rate_of(rate)))
    rows = []
    for cell in run["cells"]:
        rates = [rate_of(cell["clips_per_s"].get(name)) for name in names]
        rows.append(
            [
                cell["format"] + (", log-mel" if cell["features"] else ""),
                cell["cores"],
                *(whole(rate) if rate else "-" for rate in rates),
                times(cell["ratio"]) if cell["ratio"] else "-",
            ]
        )
    return table(["files", "cores", *names, "x the fastest other"], rows)


def rate_of(rate: Any) -> float | None:
    """Returns a rate; None for a loader that was not measured."""
    return rate if isinstance(rate, float) else None


@view
def short_epochs(run: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Makes the table of short epochs: the share of the lower of two rates that is reached, now and when each epoch started
    cold.
    """
    rows = [
        [cell["samples"], f"{cell['step']:g}", f"{cell['part']:.3f}", f"{former['part']:.3f}"]
        for cell, former in zip(run["cells"], before["cells"], strict=True)
    ]
    return table(["samples of an epoch", "rate of steps, of that of preparation", "of the lower rate", "before"], rows)


@view
def audio_accuracy(run: dict[str, Any]) -> list[str]:
    rows = []
    for row in [{"speakers": None, "takes": 1.0, **run}, *run["fewer"]]:
        of = "all other speakers" if row["speakers"] is None else f"{row['speakers']} of them"
        rows.append(
            [
                of + (", half of the takes" if row["takes"] < 1 else ""),
                row["trained_on"],
                ", ".join(percent(each["accuracy"], 1) for each in row["seeds"]),
            ]
        )
    return table(["trained on", "sounds", f"right of {run['tested_on']} sounds of two unseen speakers, each seed"], rows)
