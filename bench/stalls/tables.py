"""The tables of bench/stalls, and its figures beside those of the paper."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import rates

STORAGE = {"SSD": 530e6, "HDD": 15e6}  # bytes/s of the paper's disks; the hard disk at its most random reads
PAPER_CACHED = {"imagenet-22k": 0.35, "openimages": 0.65, "fma": 0.35}  # share that fits into the paper's 500 GiB; FMA: 45 %
NAMES = {"before": "DataLoader + torchvision", "files": "Penstock, files", "pli-jpeg": "Penstock, pli-jpeg"}
STALL_HEAD = ("before: fetch", "prepare", "with Penstock: fetch", "prepare", "form", "epoch is faster by")


def chosen(cells: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [cell for cell in cells if all(cell[name] == value for name, value in wanted.items())]


def main_cells(cells: list[dict[str, Any]], storage: str) -> list[dict[str, Any]]:
    """Returns the cells of the main table and the picture: each model at its first rate, in the paper's configuration."""
    found = []
    for name, about in rates.MODELS.items():
        rate = rates.rates_of(name)[0]
        found += chosen(cells, model=name, accelerator=rate.accelerator, rate=rate.samples_per_second, set=about.paper_set,
                        storage=storage, cached=PAPER_CACHED[about.paper_set], cores=3)  # fmt: skip
    return found


def percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def line(*words: Any) -> str:
    return "| " + " | ".join(map(str, words)) + " |"


def head(*words: str) -> list[str]:
    return [line(*words), "|---" * len(words) + "|"]


def stall_row(cell: dict[str, Any], *first: Any) -> str:
    before, after = cell["before"], cell["with"]
    return line(*first, percent(before["fetch"]), percent(before["prepare"]), percent(after["fetch"]), percent(after["prepare"]),
                after["form"], f"{cell['times']:.2f} x")  # fmt: skip


def rate_name(cell: dict[str, Any]) -> str:
    return rates.Rate(cell["model"], cell["accelerator"], cell["rate"], "" if cell["sweep"] else "given").title


def main_table(cells: list[dict[str, Any]], storage: str) -> list[str]:
    rows = main_cells(cells, storage)
    out = ["", f"### {storage}, {STORAGE[storage] / 1e6:g} MB/s, 3 cores for each accelerator, cached as in the paper", "",
           *head("model", "accelerator", "set", "cached", *STALL_HEAD)]  # fmt: skip
    out += [stall_row(cell, cell["model"], rate_name(cell), cell["set"], percent(cell["cached"])) for cell in rows]
    sound = [cell for cell in rows if cell["set"] == "fma"]
    return out + [line for cell in sound for line in ("", part_of_a_clip(cell))]


def part_of_a_clip(cell: dict[str, Any]) -> str:
    """Returns the paragraph that says where the gain on long clips comes from."""
    return (f"{cell['model']}'s {cell['times']:.2f} x comes from reading the part of each clip that is wanted, not from a form: "
            "the loader of before reads and decodes whole clips.")


def sweep_table(cells: list[dict[str, Any]], name: str) -> list[str]:
    """Returns the table of one model: cores and cached shares, on each storage."""
    rate, about = rates.rates_of(name)[0], rates.MODELS[name]
    out = ["", f"### {name} ({rate.title}), {about.paper_set}", "", *head("storage", "cores", "cached", *STALL_HEAD)]
    same = chosen(cells, model=name, accelerator=rate.accelerator, rate=rate.samples_per_second, set=about.paper_set)
    return out + [stall_row(cell, cell["storage"], cell["cores"], percent(cell["cached"])) for cell in same]


def rate_table(cells: list[dict[str, Any]]) -> list[str]:
    """Returns the table of faster accelerators: all rates, with 3 cores, SSD and 35 % cached."""
    out = ["", "### All rates: SSD, 3 cores, 35 % cached", "", *head("model", "accelerator", "set", *STALL_HEAD)]
    for rate in rates.RATES:
        name = rates.MODELS[rate.model].paper_set
        out += [stall_row(cell, rate.model, rate.title, name) for cell in chosen(
            cells, model=rate.model, accelerator=rate.accelerator, rate=rate.samples_per_second, set=name, storage="SSD", cores=3,
            cached=0.35)]  # fmt: skip
    return out


def cost_table(rows: list[dict[str, Any]]) -> list[str]:
    out = ["", "### Measured: preparation", "", *head("set", "task", "loader", "cores", "samples/s", "CPU ms each", "kB read each")]
    return out + [line(row["set"], row["task"], NAMES[row["way"]], row["cores"], f"{row['samples_per_second']:.0f}",
                       f"{1e3 * row['cpu_seconds']:.2f}", f"{row['nbytes'] / 1e3:.0f}") for row in rows]  # fmt: skip


def fetch_table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    out = ["", "### Measured: fetching, imagenet-1k (SSD: an eighth of it)", "",
           *head("storage", "cache", "cached", "samples/s", "predicted", "error")]  # fmt: skip
    cache = {"before": "page cache, simulated", "files": "Penstock's"}
    return out + [line(row["storage"], cache[row["way"]], percent(row["cached"]), f"{row['measured']:.0f}",
                       f"{row['predicted']:.0f}", f"{row['predicted'] / row['measured'] - 1:+.1%}") for row in rows]  # fmt: skip


def check_table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []

    def both(row: dict[str, Any], part: str) -> str:
        return f"{percent(row['predicted'][part])}, {percent(row['measured'][part])}"

    out = ["", "### Predicted, measured: cells that were run", "",
           *head("model", "set", "storage of", "cached", "cores", "loader", "samples/s", "fetch", "prepare", "error")]  # fmt: skip
    for row in rows:
        rate = f"{row['predicted']['samples_per_second']:.0f}, {row['measured']['samples_per_second']:.0f}"
        out.append(line(f"{row['model']} {row['rate']:.0f}/s" + (" (sweep)" if row["sweep"] else ""), row["set"],
                        f"{row['storage']} / {row['accelerators']}", percent(row["cached"]), row["cores"], NAMES[row["way"]], rate,
                        both(row, "fetch"), both(row, "prepare"), f"{row['error']:+.1%}"))  # fmt: skip
    return [*out, "", error_words(rows)]


def span(values: list[float]) -> str:
    return f"{percent(min(values))} to {percent(max(values))}"


def at_first_rates(cells: list[dict[str, Any]], cached: float) -> list[dict[str, Any]]:
    """Returns the cells of each model at its first rate on the paper's data set: SSD, 3 cores."""
    return [cell for name, about in rates.MODELS.items()
            for cell in chosen(cells, model=name, rate=rates.rates_of(name)[0].samples_per_second, set=about.paper_set,
                               storage="SSD", cached=cached, cores=3)]  # fmt: skip


def parts(cells: list[dict[str, Any]], which: str, part: str) -> list[float]:
    return [cell[which][part] for cell in cells]


def times_of(cells: list[dict[str, Any]]) -> str:
    def most(name: str) -> str:
        return f"{max(cell[name] for cell in cells):.2f} x"

    return f"the cache alone up to {most('cache_alone')}, with the form up to {most('times')}"


def cores_words(names: tuple[str, ...], to_hide: Callable[[str, float], dict[str, float]]) -> str:
    words = []
    for name in names:
        need = to_hide(name, rates.rates_of(name)[0].samples_per_second)
        words.append(f"{name}: {need['before']:.1f} before, {min(need['files'], need['pli-jpeg']):.1f} with Penstock")
    return "; ".join(words)


def error_words(checked: list[dict[str, Any]]) -> str:
    if not checked:
        return "no cell was run"
    errors = [abs(row["error"]) for row in checked]
    return f"error: median {statistics.median(errors):.1%}, worst {max(errors):.1%}, {len(errors)} cells"


def ours(
    cells: list[dict[str, Any]], to_hide: Callable[[str, float], dict[str, float]], checked: list[dict[str, Any]]
) -> dict[str, str]:
    """Returns our figures beside the paper's claims, keyed by the claims' names. to_hide: returns the cores that keep up with a
    model at a rate, by way.
    """
    some, full = at_first_rates(cells, 0.35), at_first_rates(cells, 1.0)
    return {
        "fetch": f"{span(parts(some, 'before', 'fetch'))} before, {span(parts(some, 'with', 'fetch'))} with",
        "prepare": f"up to {percent(max(parts(full, 'before', 'prepare')))} before, "
                   f"up to {percent(max(parts(full, 'with', 'prepare')))} with",
        "cores-resnet50": cores_words(("ResNet-50",), to_hide),
        "cores-light": cores_words(("ResNet-18", "AlexNet"), to_hide),
        "ssd": times_of(main_cells(cells, "SSD")),
        "hdd": times_of(chosen(cells, model="ResNet-50", storage="HDD", cores=3, sweep=False)),
        "error": error_words(checked),
    }  # fmt: skip


def paper_table(found: dict[str, str]) -> list[str]:
    out = ["", "### Beside the paper", "", *head("the paper reported", "of", "here")]
    return out + [line(claim.text, claim.machine, found[claim.name]) for claim in rates.PAPER]


def sources() -> list[str]:
    lines = (f"- {rate.model}, {rate.title}: {rate.source}" for rate in rates.RATES if rate.source)
    return ["", "Sources of the rates:", "", *lines]


def text_of(result: dict[str, Any]) -> str:
    about, cells = result["machine"], result["cells"]
    out = [f"{about['cpu']}, {about['date']}, commit {about['commit']}. Parts of an epoch; {result['accelerators']} accelerators "
           "share the storage. Before: DataLoader + torchvision, page cache. A rate without a source is a sweep."]  # fmt: skip
    for storage in STORAGE:
        out += main_table(cells, storage)
    out += sweep_table(cells, "ResNet-18") + rate_table(cells)
    out += cost_table(result["costs"]) + fetch_table(result["fetch"]) + check_table(result["checks"])
    return "\n".join([*out, *paper_table(result["beside"]), *sources()]) + "\n"
