"""Tables of GPUs: bench/gpu."""

from __future__ import annotations

from typing import Any

from figure_views import percent, signed, table, view


def sets_of(kernels: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["set"]: each for run in kernels for each in run["sets"]}


def shown(found: dict[str, Any], name: str) -> str:
    return f"{found['pixels_nbytes'] / found[name] / 1e9:.0f} GB/s; {found['rows'] / found[name]:,.0f}"


KERNELS = (
    ("pli-jpeg", "pli-jpeg, resized"),
    ("pli-jpeg-policy", "the same with RandAugment and RandomErasing"),
    *(
        (f"frames-{tier}{end}", f"frames, {tier}, {what}")
        for end, what in (("", "whole"), ("-fused", "fused"))
        for tier in ("small", "dense", "fast")
    ),
    ("frames-small-resized", "frames, small, resized"),
    ("images-small-resized", "images, small, resized"),
    ("frames-l3-each", "L3, whole: a launch for each image"),
    ("frames-l3-t64", "L3, whole: one launch, tiles of 64"),
    ("frames-l3-t32", "L3, whole: one launch, tiles of 32"),
)


@view
def kernels(run: list[dict[str, Any]]) -> list[str]:
    found = sets_of(run)
    rows = [
        [
            title,
            f"{found[name]['upload_nbytes'] / 1e6:.0f}",
            shown(found[name], "launches_s"),
            shown(found[name], "both_s"),
            f"{found[name]['upload_nbytes'] / found[name]['upload_s'] / 1e9:.0f}",
        ]
        for name, title in KERNELS
    ]
    return table(["set", "MB uploaded", "launches alone: GB/s; images/s", "with the upload", "link GB/s"], rows)


@view
def gpu_loaders(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    h200, h100 = new["images_per_second"], old["images_per_second"]
    return table(
        ["", "H200, images/s", "H100, images/s"],
        [
            ["pli-jpeg, decoded on the GPU", f"{h200['pli-jpeg, gpu']:,.0f}", f"{h100['pli-jpeg']:,.0f}"],
            ["pli-jpeg, decoded by the CPU", f"{h200['pli-jpeg, cpu']:,.0f}", None],
            ["JPEG, decoded by the CPU", f"{h200['jpeg, cpu']:,.0f}", f"{h100['cpu']:,.0f}"],
            ["JPEG by nvJPEG", None, f"{h100['nvjpeg']:,.0f}"],
        ],
    )


@view
def host_cpu(run: dict[str, Any]) -> list[str]:
    rows = []
    for name, title in (
        ("pli-jpeg", "pli-jpeg"),
        ("pli-small-frames", "frames, small"),
        ("pli-dense-frames", "frames, dense"),
        ("pli-fast-frames", "frames, fast"),
    ):
        both = [run["sets"][name][kind] for kind in ("cpu", "cuda")]
        rows.append(
            [
                title,
                ", ".join(f"{1000 * each['cpu_seconds']:.3f}" for each in both),
                ", ".join(f"{each['images_per_s']:,.0f}" for each in both),
            ]
        )
    return table(["CPU decodes, GPU decodes", "CPU ms an image", "images/s"], rows)


@view
def shares(h200: dict[str, Any], h100: dict[str, Any]) -> list[str]:
    rows = []
    for share in h200["shares"]:
        row = [f"{float(share):g}"]
        for run in (h200, h100):
            found = run["shares"][share]
            row += [f"{found['measured']:,.0f}", f"{1000 * found['cpu_seconds']:.3f}", signed(found["error"])]
        rows.append(row)
    return table(["`Gpu.part`", "H200: images/s", "CPU ms", "predicted", "H100: images/s", "CPU ms", "predicted"], rows)


@view
def gpu_training(h200: dict[str, Any], h100: dict[str, Any]) -> list[str]:
    rows = []
    for name, run in (("H200", h200), ("H100", h100)):
        steps = run["step_ms"]
        rows.append(
            [
                name,
                *(f"{steps[each]:.1f}" for each in ("synthetic", "loaded")),
                percent(run["slow_down"], 1),
                percent(run["slow_down_first"], 1),
            ]
        )
    return table(
        ["", "one batch again and again, ms a step", "Penstock's batches", "slower by", "with a stream of high priority"], rows
    )
