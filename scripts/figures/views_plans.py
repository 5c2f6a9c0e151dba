"""Tables of mixes, plans, predictions, augmentation, start and compilers: bench/mix, bench/whatif, bench/start and others."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from figure_views import only, percent, signed, table, times, view, where, whole

BESIDE_PLI = ("mix of", "half and half")
SMALL = "all, training size"  # name of the plan that may store images at the training size


def rates_of(setting: dict[str, Any], fraction: float = 4.0) -> dict[str, float]:
    return {cell["way"]: cell["rate"] for cell in where(setting["cells"], fraction=fraction)}


def settings_of(run: dict[str, Any]) -> Iterable[tuple[str, str, dict[str, Any]]]:
    return ((group, name, setting) for group, settings in run["groups"].items() for name, setting in settings.items())


def singles(setting: dict[str, Any], *, pli: bool) -> dict[str, float]:
    """Returns the rates of the single forms: all of them, or those without PLI. Raw pixels at the training size have no PLI
    variant.
    """
    found = {way: rate for way, rate in rates_of(setting).items() if not way.startswith(BESIDE_PLI)}
    return found if pli else {way: rate for way, rate in found.items() if not way.startswith("pli")}


def best(rates: dict[str, float]) -> str:
    return max(rates, key=lambda way: rates[way])


def shares(mix: dict[str, float]) -> str:
    return ", ".join(f"{100 * share:.0f} % {form}" for form, share in mix.items())


def mix_ratio(setting: dict[str, Any]) -> float | None:
    """Returns the solved mix's rate divided by that of the best single form, both without PLI. None if the mix is a single form."""
    rates = rates_of(setting)
    return rates["mix of before"] / max(singles(setting, pli=False).values()) if "mix of before" in rates else None


@view
def mixes_without_pli(run: dict[str, Any]) -> list[str]:
    rows = []
    for group, _, setting in settings_of(run):
        rates = rates_of(setting)
        mix = shares(setting["mixes"]["before"])
        ratio = mix_ratio(setting)
        rows.append(
            [
                f"{group}: {setting['cores']} cores, {setting['storage'] / 1e6:.0f} MB/s",
                *(
                    whole(rates[form]) if form in rates else None
                    for form in ("png" if "png" in rates else "jpeg", "raw", "raw-256")
                ),
                mix,
                whole(rates["mix of before"]) if ratio else None,
                times(ratio, 2) if ratio else "one form",
                whole(rates["half and half of before"]) if ratio else None,
            ]
        )
    return table(["samples/s", "files", "raw", "raw-256", "solved mix", "its rate", "x best single", "coin flip"], rows)


def plan_rate(setting: dict[str, Any]) -> float:
    rates, form = rates_of(setting), next(iter(setting["mixes"]["all"]))
    return rates.get("mix of all") or rates["pli-small" if form == "pli" else form]


def plan_ratio(setting: dict[str, Any]) -> float:
    """Returns the plan's rate divided by that of the original files."""
    rates = rates_of(setting)
    return plan_rate(setting) / rates["png" if "png" in rates else "jpeg"]


def at_training_size(setting: dict[str, Any]) -> list[str | None]:
    """Returns what the plan with images at the training size stores, and its rate; None if there is no such plan."""
    if SMALL not in setting["mixes"]:
        return [None, None]
    return [shares(setting["mixes"][SMALL]), whole(rates_of(setting)[f"mix of {SMALL}"])]


@view
def mixes_of_all(run: dict[str, Any]) -> list[str]:
    rows, has_small = [], any(SMALL in setting["mixes"] for _, _, setting in settings_of(run))
    for group, _, setting in settings_of(run):
        rates, forms = rates_of(setting), singles(setting, pli=True)
        rows.append(
            [
                f"{group}: {setting['cores']} cores, {setting['storage'] / 1e6:.0f} MB/s",
                f"{best(forms)}, {max(forms.values()):.0f}",
                shares(setting["mixes"]["all"]),
                whole(plan_rate(setting)),
                times(plan_rate(setting) / max(forms.values()), 2),
                times(plan_ratio(setting), 2),
                whole(rates["half and half of all"]) if "half and half of all" in rates else None,
                *(at_training_size(setting) if has_small else []),
            ]
        )
    head = ["", "best single form", "the plan", "its samples/s", "x best single", "x the files", "coin flip"]
    return table([*head, *(["with images at the training size", "its samples/s"] if has_small else [])], rows)


def plan_errors(run: dict[str, Any]) -> dict[str, list[float]]:
    """Returns predicted / measured - 1 at the highest accelerator rate, by the way of storing."""
    found: dict[str, list[float]] = {}
    for _, _, setting in settings_of(run):
        for cell in where(setting["cells"], fraction=4.0):
            if cell.get("predicted") and "half" not in cell["way"]:
                found.setdefault(cell["way"], []).append(cell["predicted"] / cell["rate"] - 1)
    return found


@view
def mix_errors(run: dict[str, Any]) -> list[str]:
    rows = [
        [way, len(errors), sum(abs(error) <= 0.05 for error in errors), signed(min(errors)), signed(max(errors))]
        for way, errors in plan_errors(run).items()
    ]
    every = [error for errors in plan_errors(run).values() for error in errors]
    rows.append(["**all**", len(every), sum(abs(error) <= 0.05 for error in every), signed(min(every)), signed(max(every))])
    return table(["way", "cells", "within 5 %", "least", "most"], rows)


@view
def grid(run: dict[str, Any]) -> list[str]:
    rows = []
    for setting in run["settings"]:
        rates, convert = setting["rates"], setting["convert"]
        found = setting["plan"].split("'")[1].split(":")[0]
        rows.append(
            [
                f"{setting['group']}: {setting['setting']}",
                found,
                whole(rates["plan"]),
                signed(setting["predicted"] / rates["plan"] - 1),
                setting["best"].replace(", shuffled", ""),
                whole(rates[setting["best"]]),
                f"{setting['part_of_best']:.2f}",
                f"{convert['seconds']:.2f}, {convert['predicted_seconds']:.2f}",
                f"{convert['epochs']:.1f}, {convert['predicted_epochs']:.1f}",
            ]
        )
    return table(
        [
            "",
            "plan",
            "samples/s",
            "predicted",
            "best of the grid",
            "samples/s",
            "of the best",
            "converting: s, predicted",
            "pays after epochs, predicted",
        ],
        rows,
    )


EASY = ("byte throttle", "sleep for the accelerator's step", "workers that sleep")
EMULATED = "emulated GPU"
# Kinds of cells, as bench/whatif/draw.py names them.
PACES = {
    "storage, own form": EASY[0],
    "step": EASY[1],
    "sleeping workers": EASY[2],
    "GPU, emulated": EMULATED,
    "cores": "fewer cores, all forms",
    "storage": "slow storage, other forms",
    "cache": "a cache of a part",
    "jobs": "two or three jobs",
}


def pace(cell: dict[str, Any]) -> str:
    """Says what limits a cell's rate. Cells limited by a throttle or a sleep are easy to predict."""
    if "kind" in cell:
        return PACES[cell["kind"]]
    group, binding = cell["group"], cell["predicted"]["binding"]  # results from before cells had kinds
    if binding == "storage":
        return EASY[0]
    if binding == "accelerator":
        return EASY[1]
    if group.startswith("workers"):
        return EASY[2]
    if group.startswith("hybrid"):
        return EMULATED
    two = cell["question"].get("cores", 2) in (2, None)
    again = group in ("form", "cache") or (group == "cores" and two) or cell["name"].endswith(", 1 jobs")
    return "what was analysed, again" if again else "fewer cores, or more jobs"


def counts(cell: dict[str, Any]) -> bool:
    """Returns whether the goals hold for a cell: it is not easy to predict and, where cells have kinds, its GPU is not emulated."""
    return pace(cell) not in EASY and not ("kind" in cell and pace(cell) == EMULATED)


def whatif_errors(run: dict[str, Any], *, easy: bool | None = None) -> list[float]:
    """Returns the errors of the predictions: of all cells, of the easy ones, or of those that count."""
    return [abs(cell["error"]) for cell in run["cells"]
            if easy is None or (pace(cell) in EASY if easy else counts(cell))]  # fmt: skip


@view
def whatif(run: dict[str, Any]) -> list[str]:
    kinds: dict[str, list[float]] = {}
    for cell in run["cells"]:
        kinds.setdefault(pace(cell), []).append(abs(cell["error"]))
    ordered = [*EASY, *(kind for kind in kinds if kind not in EASY)]
    rows = [[kind, errors] for kind in ordered if (errors := kinds.get(kind))]
    others = "all others" if all(counts(cell) or pace(cell) in EASY for cell in run["cells"]) else "all others, but for the GPU"
    rows += [
        ["**all that can hardly miss**", whatif_errors(run, easy=True)],
        [f"**{others}**", whatif_errors(run, easy=False)],
        ["all", whatif_errors(run)],
    ]
    return table(
        ["paced by", "cells", "median", "worst", "within 3 %"],
        [
            [kind, len(errors), percent(statistics.median(errors), 2), percent(max(errors), 1), sum(e <= 0.03 for e in errors)]
            for kind, errors in rows
        ],
    )


@view
def augment(run: dict[str, Any]) -> list[str]:
    rows = []
    for row in where(run["rows"], level="avx2"):
        plain = only(run["rows"], level="c", chain=row["chain"])
        rows.append([row["chain"], *(f"{each:.2f}" for each in (row["ms_per_image"], plain["ms_per_image"], row["memcpy_ms"]))])
    return table(["ms an image", "AVX2", "C", "memcpy of the result"], rows)


@view
def second_half(run: dict[str, Any]) -> list[str]:
    rows, peers = [], list(run["peer_versions"])
    long_names = {"f16": "float16", "f32": "float32"}
    for row in where(run["builds"], level="avx2"):
        wide = only(run["builds"], source=row["source"], dtype=row["dtype"], level="avx512")
        dtype = long_names.get(row["dtype"], row["dtype"])
        others = {each["peer"]: each["rate"] for each in where(run["peers"], source=row["source"], dtype=dtype)}
        rows.append([f"{row['source']}, {row['dtype']}", row["after"], wide["after"], *(whole(others[peer]) for peer in peers)])
    return table(["images/s", "AVX2", "AVX-512", *peers], rows)


@view
def start(run: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{cell['package']} {cell['version']}",
            f"{cell['wheel_mb']:.2f}",
            f"{cell['installed_mb']:.1f}",
            f"{cell['import_ms']:.1f}",
            f"{cell['install_s']:.1f}",
            f"{cell['first_batch_s']:.2f}",
            f"{cell['from_nothing_s']:.1f}",
        ]
        for cell in run["cells"]
    ]
    return table(
        ["package", "wheel, MB", "installed, MB", "imports, ms", "pip install, s", "first batch, s", "from nothing, s"], rows
    )


def quartiles(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


@view
def turns(run: dict[str, Any]) -> list[str]:
    """Makes the table of zig's build relative to gcc's, in loaders."""
    return table(
        ["zig over gcc", "median (quartiles)"],
        [[name.replace(", images per CPU second", ""), quartiles(values)] for name, values in run["ratios"].items()],
    )


@view
def turns_codec(run: dict[str, Any]) -> list[str]:
    """Returns the range of the medians over the rows of a kind."""
    kinds: dict[tuple[str, str], list[float]] = {}
    for name, values in run["ratios"].items():
        group, *tier, what = name.split()
        kind = f"{tier[0]}, {'photographs' if group in ('kodak', 'cityscapes') else 'graphics'}" if tier else "pli-jpeg"
        kinds.setdefault((kind, what), []).append(statistics.median(values))
    rows = [
        [kind, what.replace("pli_", ""), f"{min(medians):.3f} to {max(medians):.3f}"]
        for (kind, what), medians in kinds.items()
        if what in ("decode", "pli_whole", "pli_crop")
    ]
    return table(["zig over gcc", "", "medians"], rows)
