"""Tables of codecs: bench/codec, on the CPU."""

from __future__ import annotations

from typing import Any

from figure_views import only, table, times, view, whole

PHOTOGRAPHS = ("kodak", "cityscapes", "clic2025", "imagenet", "nuscenes_png", "cid22")
TIERS = (("pli_fast", "PLI fast"), ("pli_small", "PLI small"), ("pli_dense", "PLI dense"))
LEVELS = ("avx512", "avx2", "c")


def rows_of(run: dict[str, Any], codec: str, groups: tuple[str, ...] = PHOTOGRAPHS) -> list[dict[str, Any]]:
    return [only(run["results"], codec=codec, group=group) for group in groups]


def run_at(result: dict[str, Any], level: str) -> dict[str, Any]:
    return next(run for run in result["runs"] if run["environment"]["cpu_used"] == level)


def nbytes(run: dict[str, Any], codec: str, groups: tuple[str, ...] = PHOTOGRAPHS) -> int:
    return sum(row["nbytes"] for row in rows_of(run, codec, groups))


def rate(run: dict[str, Any], codec: str, what: str = "decode", groups: tuple[str, ...] = PHOTOGRAPHS) -> float:
    """Returns MB/s over all images of the groups. `what` is "decode", "decode_undisturbed" or "encode"."""
    rows = rows_of(run, codec, groups)
    return sum(row["raw_nbytes"] for row in rows) / sum(row["raw_nbytes"] / row[what] for row in rows)


@view
def sizes(result: dict[str, Any], others: dict[str, Any]) -> list[str]:
    run, other = run_at(result, "avx512"), others["runs"][0]
    png, webp = nbytes(run, "png6"), nbytes(run, "webp_m4")
    rows = []
    for codec, name in (*TIERS, ("png6", "PNG, level 6"), ("webp_m4", "WebP lossless"), ("qoi", "QOI")):
        of = other if codec == "qoi" else run
        found = nbytes(of, codec)
        bits = 8 * found / sum(row["pixels"] for row in rows_of(of, codec))
        rows.append([name, f"{bits:.2f}", f"{found / png:.2f}", f"{found / webp:.3f}", whole(rate(of, codec, "encode"))])
    return table(["", "bits a pixel", "x PNG", "x WebP lossless", "encode MB/s"], rows)


@view
def decoding(result: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """Makes the table of decoding rates. A ratio compares figures of one process: libpng and libwebp were measured again beside
    Penstock's decoders of PNG and QOI.
    """
    runs = [run_at(result, level) for level in LEVELS[:2]]
    rows = []
    for codec, name in TIERS:
        against = [[rate(run, codec) / rate(run, peer) for run in runs] for peer in ("png6", "webp_m4")]
        rows.append(
            [name, *(whole(rate(run, codec)) for run in runs[:2]), *(", ".join(times(each) for each in row) for row in against)]
        )
    other = others["runs"][0]
    for codec, name, run in (
        ("png6", "PNG, libpng", runs[0]),
        ("webp_m4", "WebP, libwebp", runs[0]),
        ("penstock_png", "PNG, Penstock's decoder", other),
        ("qoi", "QOI", other),
    ):
        rows.append(
            [name, whole(rate(run, codec)), None, *(times(rate(run, codec) / rate(run, peer)) for peer in ("png6", "webp_m4"))]
        )
    return table(["", "MB/s, AVX-512", "AVX2", "x libpng: AVX-512, AVX2", "x libwebp: AVX-512, AVX2"], rows)


@view
def graphics(result: dict[str, Any]) -> list[str]:
    best, narrow = run_at(result, "avx512"), run_at(result, "avx2")
    rows = []
    for group, name in (("labels8", "label maps, 8 bits"), ("inst16", "instance maps, 16 bits"), ("screens", "screenshots, RGB")):
        groups = (group,)
        least = min(nbytes(best, "png9", groups), nbytes(best, "zstd3_raw", groups))
        rows.append(
            [
                name,
                f"{nbytes(best, 'pli_small', groups) / least:.2f}",
                *(
                    whole(rate(run, codec, groups=groups))
                    for run, codec in ((best, "pli_small"), (narrow, "pli_small"), (best, "png9"), (best, "zstd3_raw"))
                ),
            ]
        )
    return table(["", "bytes x the smaller of PNG 9, zstd -3", "decode MB/s, AVX-512", "AVX2", "libpng", "zstd -3"], rows)


@view
def other_images(result: dict[str, Any]) -> list[str]:
    run, rows = run_at(result, "avx512"), []
    for group, codec, name in (
        ("landsat16", "pli_small", "Landsat bands, 16 bits, small"),
        ("landsat16", "pli_dense", "the same, dense"),
        ("em_gray8", "pli_small", "electron microscopy, 8-bit gray, small"),
    ):
        groups = (group,)
        rows.append(
            [
                name,
                f"{nbytes(run, codec, groups) / nbytes(run, 'png6', groups):.2f}",
                *(whole(rate(run, each, groups=groups)) for each in (codec, "png6")),
                whole(rate(run, codec, "encode", groups)),
            ]
        )
    return table(["", "bytes x PNG", "decode MB/s", "libpng", "encode MB/s"], rows)


@view
def crops(run: dict[str, Any]) -> list[str]:
    """Makes the table of how much faster a crop is than the whole image."""
    rows = [
        [
            row["what"],
            row["tier"][4:],
            f"{100 * row['units'] / row['units_whole']:.0f} %",
            times(row["speedup"]),
            times(row["speedup_loader"], 2),
        ]
        for row in run["results"]
    ]
    return table(["", "tier", "units decoded", "codec", "loader"], rows)


JPEGS = (
    ("ImageNet, {} files", ("imagenet", "imagenet_folder")),
    ("photographs, quality 90, 4:2:0", ("photographs_420",)),
    ("photographs, quality 95, 4:4:4", ("photographs_444",)),
)


def jpeg_rate(result: dict[str, Any], level: str, name: str, groups: tuple[str, ...]) -> float:
    """Returns the files, or the rectangles, per second over all files of the groups."""
    rows = [only(result["levels"][level], group=group) for group in groups]
    return sum(row["files"] for row in rows) / sum(row["files"] / row[name] for row in rows)


def jpeg_ratio(result: dict[str, Any], level: str, what: str, groups: tuple[str, ...]) -> float:
    return jpeg_rate(result, level, f"pli_{what}_per_s", groups) / jpeg_rate(result, level, f"peer_{what}_per_s", groups)


def jpeg_bytes(result: dict[str, Any], groups: tuple[str, ...]) -> float:
    rows = [only(next(iter(result["levels"].values())), group=group) for group in groups]
    return sum(row["pli_nbytes"] for row in rows) / sum(row["file_nbytes"] for row in rows)


@view
def jpegs(*results: dict[str, Any], names: str) -> list[str]:
    """Makes the table of speeds relative to libjpeg-turbo, by level: whole files and rectangles."""
    rows = []
    for result, machine in zip(results, names.split(";"), strict=True):
        for title, groups in JPEGS:
            levels = result["levels"]
            files = sum(only(next(iter(levels.values())), group=group)["files"] for group in groups)
            top = next(iter(levels))
            row = [
                f"{machine}: {title.format(files)}",
                f"{jpeg_bytes(result, groups):.3f}",
                ", ".join(whole(jpeg_rate(result, top, f"peer_{what}_per_s", groups)) for what in ("whole", "crop")),
            ]
            for level in LEVELS:
                row.append(
                    ", ".join(times(jpeg_ratio(result, level, what, groups), 2) for what in ("whole", "crop"))
                    if level in levels
                    else "-"
                )
            rows.append([*row, whole(jpeg_rate(result, top, "from_jpeg_per_s", groups))])
    return table(["", "bytes x files", "libjpeg-turbo, per second", "AVX-512", "AVX2", "C", "packed per second"], rows)
