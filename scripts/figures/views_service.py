"""Tables of caches, sharing and fleets: bench/cache, bench/share, bench/fleet, bench/parts."""

from __future__ import annotations

import statistics
from typing import Any

from figure_views import only, percent, table, times, view, where, whole

KINDS = (
    ("penstock-cache", "**Penstock, its cache**"),
    ("penstock", "Penstock, page cache"),
    ("dali-shuffled", "DALI, shuffled"),
    ("dali-sequential", "DALI, sequential"),
)


def expected(row: dict[str, Any]) -> str:
    return " to ".join(f"{hits:.3f}" for hits in sorted(row["expected_hits"].values()))


@view
def cache(slow: dict[str, Any], fast: dict[str, Any]) -> list[str]:
    rows = []
    for share in (25, 50, 75):
        for kind, name in KINDS:
            row = [f"{name}, {share} %"]
            for run, rate in ((slow, 15), (fast, 530)):
                found, own = (only(run["rows"], kind=each, share=share, rate=rate) for each in (kind, "penstock-cache"))
                row += [] if len(row) > 1 else [expected(found)]
                row += [
                    f"{max(found['hits'], 0):.3f}",
                    f"{found['seconds']:.2f}",
                    None if found is own else times(found["seconds"] / own["seconds"], 2),
                ]
            rows.append(row)
    return table(
        [
            "",
            "expected hits",
            "15 MB/s: hits",
            "s an epoch",
            "cache faster by",
            "530 MB/s: hits",
            "s an epoch",
            "cache faster by",
        ],
        rows,
    )


@view
def asking(run: dict[str, Any]) -> list[str]:
    rows = [[f"{row['cache']}, threads: {row['threads']}", whole(row["ask_ns"])] for row in run["rows"]]
    return table(["cache of", "ns to ask"], rows)


@view
def training_size(run: dict[str, Any]) -> list[str]:
    base = run["rows"][0]["images_per_core_second"]
    rows = [
        [
            row["cache"],
            f"{row['nbytes'] / 1e6:.1f}",
            whole(row["images_per_core_second"]),
            times(row["images_per_core_second"] / base),
            whole(row["first_epoch_images_per_core_second"]),
        ]
        for row in run["rows"]
    ]
    return table(["cache", "MB", "images/s of a core", "x no cache", "first epoch, which fills it"], rows)


@view
def images(run: dict[str, Any]) -> list[str]:
    left, right = run["groups"]
    rows = []
    for cell in left["cells"]:
        if cell["way"] == "arrays":  # cached arrays are only returned: no work is done for an image
            continue
        other = where(right["cells"], way=cell["way"])
        row = [cell["way"].replace("penstock", "CachedImages,")]
        for each in (cell, other[0] if other else {}):
            row += [
                times(each["of_arrays"], 2) if each.get("of_arrays") else None,
                whole(each["images_per_s"]) if each.get("images_per_s") else None,
            ]
        rows.append(row)
    names = [f"{group['images']} of {group['group']}" for group in (left, right)]
    return table(["one image from", f"{names[0]}: as many", "images/s", f"{names[1]}: as many", "images/s"], rows)


@view
def qualities(run: dict[str, Any]) -> list[str]:
    rows = [
        [row["quality"], f"{row['file_bits_per_pixel']:.2f}", f"{row['cache_bits_per_pixel']:.2f}", times(row["of_arrays"])]
        for row in run["qualities"]
        if row["side"] == 500
    ]
    return table(["quality", "bits a pixel, file", "cache", "as many as arrays"], rows)


SHARING = (
    ("penstock_share", '**Penstock, `share="name"`**'),
    ("penstock_alone", "Penstock, a loader for each job"),
    ("dali", "DALI, a pipeline for each job"),
    ("tfservice", "tf.data service, cross_trainer_cache"),
    ("tensorsocket_shm", "TensorSocket over torch DataLoader"),
    ("tensorsocket_penstock", "TensorSocket over a Penstock loader"),
)


def shared_rate(run: dict[str, Any], kind: str, n_jobs: int, name: str = "images_per_s") -> float:
    """Returns the median rate of the windows."""
    return statistics.median(cell[name] for cell in where(run["cells"], kind=kind, n_jobs=n_jobs))


@view
def sharing(run: dict[str, Any]) -> list[str]:
    rows = []
    for kind, name in SHARING:
        row = [name]
        for n in (1, 2, 4, 8):
            row.append(f"{shared_rate(run, kind, n):.0f}; {1000 * shared_rate(run, kind, n, 'cpu_s_per_image'):.2f}")
        rows.append([*row, ", ".join(whole(shared_rate(run, kind, n, "pss_mb")) for n in (1, 8))])
    return table(["images/s of all jobs; CPU ms an image", "1 job", "2 jobs", "4 jobs", "8 jobs", "memory of 1, 8: MB"], rows)


@view
def sharing_ratios(run: dict[str, Any]) -> list[str]:
    """Returns the ratios that the goals are about: the rate relative to n times one job, and relative to TensorSocket."""
    rows: list[list[str]] = []
    for kind, name in (
        ("penstock_share", "over n x one job that shares"),
        ("penstock_alone", "over n x one loader without `share`"),
    ):
        rows.append([name, *(f"{shared_rate(run, 'penstock_share', n) / shared_rate(run, kind, 1) / n:.2f}" for n in (2, 4, 8))])
    for kind, name in SHARING[1:]:
        rows.append(
            [f"times {name}", *(f"{shared_rate(run, 'penstock_share', n) / shared_rate(run, kind, n):.2f}" for n in (2, 4, 8))]
        )
    return table(["jobs that share", "2 jobs", "4 jobs", "8 jobs"], rows)


FLEET = {
    "page cache": "page cache (model)",
    "MinIO": "a cache for each host (MinIO)",
    "fleet": "fleet",
    "killed": "fleet, a server killed",
}


@view
def fleet(run: dict[str, Any]) -> list[str]:
    """Makes the rows without latency, and with the least and the greatest latency."""
    rows = []
    for cell in run["cells"]:
        if cell["latency_ms"] not in (0, 2):
            continue
        later = [
            sum(epoch["seconds"] for epoch in each["epochs"][1:])
            for each in (only(run["cells"], kind="MinIO", rate=cell["rate"]), cell)
        ]
        rows.append(
            [
                f"{cell['rate']:g} MB/s: {FLEET[cell['kind']]}",
                f"{cell['round_trip_ms']:.2f} ms" if cell["round_trip_ms"] else None,
                *(f"{epoch['reads']}, {epoch['seconds']:.2f}" for epoch in cell["epochs"]),
                f"{later[0] / later[1]:.1f}",
            ]
        )
    return table(["disk of each host", "round trip", "epoch 1: reads, s", "epoch 2", "epoch 3", "x MinIO, epochs 2 and 3"], rows)


@view
def fleet_client(run: dict[str, Any]) -> list[str]:
    one, many = run["one"], run["many"]
    gb = [
        f"{many[name] / 1e9:.2f} GB/s"
        for name in ("raw_bytes_per_second", "raw_whole_bytes_per_second", "fleet_bytes_per_second")
    ]
    return table(
        ["", "raw socket, the same parts", "raw socket, whole values", "fleet", "times as long: parts (whole)"],
        [
            [
                "one item at a time",
                *(f"{one[name]:.1f} us" for name in ("raw_us", "raw_whole_us", "fleet_us")),
                f"{one['ratio']:.2f} ({one['ratio_whole']:.2f})",
            ],
            [f"{run['in_flight']} in flight", *gb, f"{many['ratio']:.2f} ({many['ratio_whole']:.2f})"],
        ],
    )


CASES = {
    "storage": "storage is short",
    "compute": "computing is short",
    "half": "the same, memory for half of the set",
    "start": "a pause before the first step, then storage is short",
}


@view
def ahead(run: dict[str, Any]) -> list[str]:
    rows = []
    for cell in run["cells"]:
        if cell["case"] not in CASES:
            continue
        epochs = cell["epochs"]
        rows.append(
            [
                CASES[cell["case"]],
                "yes" if cell["ahead"] else "no",
                *(f"{epoch['seconds']:.2f}, {epoch['waited']:.2f}" for epoch in epochs),
                ", ".join(whole(epoch["reads"]) for epoch in epochs),
                whole(cell["filled"]) if cell["ahead"] else None,
            ]
        )
    return table(["training", "fill", "epoch 1: s, of it waited", "epoch 2", "reads of the loaders", "of the fill"], rows)


WAYS = {
    "files": "none",
    "stored": "stored bytes",
    "idle": "re-coded by idle workers",
    "at-once": "re-coded when admitted",
    "packed": "stored bytes of packed pli-jpeg",
}


@view
def recode(run: dict[str, Any]) -> list[str]:
    """Caches of JPEGs that are re-coded, as bench/cache/recode.py counts them: a paced first epoch, and later ones."""
    rows = []
    for cell in run["cells"]:
        paced = cell["way"] != "files"
        first = [times(cell["of_stored_s"], 2), percent(cell["part"]), f"{cell['rest_s']:.1f}"] if paced else ["", "", ""]
        later = [f"{cell['later_cpu_ms']:.2f}", times(cell["of_files"], 2), times(cell["of_packed"], 2) if paced else ""]
        rows.append([cell["set"], WAYS[cell["way"]], *first, *later, whole(cell["later"])])
    heads = ["files in", "cache", "first epoch, of stored bytes", "re-coded by its end", "the rest, s"]
    return table([*heads, "later: CPU ms an image", "of no cache", "of packed", "images/s"], rows)


@view
def parts(run: dict[str, Any]) -> list[str]:
    rows = []
    for cell in run["results"]:
        one, merge = (statistics.median(each[name] for each in cell[of]) for name, of in (("parts_s", "one"), ("merge_s", "many")))
        spread = f"{min(cell['ratios']):.2f} to {max(cell['ratios']):.2f}"
        rows.append([f"`{cell['verb']}`", f"{cell['ratio']:.2f}", spread, f"{one:.2f}", f"{merge:.2f}"])
    return table(["command", "2 parts on 2 cores: times one part", "range", "one part, s", "merge, s"], rows)
