"""The goals of the project, each with its bound and its measured values; docs/figures.md is made from them.

A goal is met if all of its figures keep their bounds: on each machine, and against each baseline that was measured, including the
harder ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import views_codec
import views_plans
import views_service
from figure_data import evaluate, geometric, results
from figure_views import table, view
from views_loaders import PACKED, loader_ratios, masked

HOLDS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
Values = Callable[[], Iterable[float]]
PAGES_ON_DISK = "setting=throttle,layout=packed"  # cells of bench/pages


@dataclass
class Known:
    """Values that have no JSON. They are found by a name of check_figures.KNOWN."""

    name: str
    values: tuple[float, ...]

    def __call__(self) -> tuple[float, ...]:
        return self.values


@dataclass
class Figure:
    """Measured values of a goal that belong together, the bound that all must keep, the digits to print, and a text that says what
    was measured.
    """

    values: Values
    bound: str  # as ">= 12"
    digits: int = 1
    of: str = ""

    def kept(self) -> list[bool]:
        """Returns for each value whether it keeps the bound."""
        sign, bound = self.bound.split()
        return [HOLDS[sign](value, float(bound)) for value in self.values()]

    def shown(self) -> str:
        values = list(self.values())
        shown = [min(values), max(values)] if len(values) > 4 else values
        numbers = (" to " if len(values) > 4 else ", ").join(f"{value:,.{self.digits}f}" for value in shown)
        return f"{numbers} ({self.of})" if self.of else numbers


@dataclass
class Goal:
    """A goal. `figures` is empty if no figure can show it: then `note` is the verdict and says why."""

    text: str
    figures: list[Figure] = field(default_factory=list)
    page: str = ""
    note: str = ""
    enough: int = 0  # number of values that must keep the bound; 0: all

    def verdict(self) -> str:
        if not self.figures:
            return self.note
        if self.enough:
            return "met" if sum(sum(figure.kept()) for figure in self.figures) >= self.enough else "**missed**"
        return "met" if all(all(figure.kept()) for figure in self.figures) else "**missed**"


def sums(stem: str, *expressions: str) -> Values:
    return lambda: [evaluate(expression, stem) for expression in expressions]


RECODED, PARTS = "sources_recoded_zen3", "parts_zen5"
VERBS = ("pack", "repack", "verify", "index")


def recoded(name: str, factor: int = 1) -> Values:
    """A value of the cells of bench/cache/recode.py that re-code by idle workers."""
    return sums("recode_zen5", *(f"{factor} * cells[set={kind},way=idle].{name}" for kind in ("folder", "tars")))


def behind(source: str, *groups: str, stem: str = "containers_zen3") -> Values:
    """How many times the rate of another reader of these containers Penstock has in later epochs, on two cores."""
    return sums(stem, *(f"cells[group={group},source={source},cores=2].behind_later" for group in groups))


def codec(what: str, tier: str, *peers: str, level: str = "avx512") -> Values:
    """Returns the ratios of bytes, or of rates, to other codecs on photographs."""

    def found() -> list[float]:
        run = views_codec.run_at(results("codec"), level)
        of = views_codec.nbytes if what == "bytes" else views_codec.rate
        return [of(run, tier) / of(run, peer) for peer in peers]

    return found


def encoding() -> list[float]:
    run = views_codec.run_at(results("codec"), "avx512")
    return [views_codec.rate(run, tier, "encode") for tier, _ in views_codec.TIERS]


MAPS = (("labels8",), ("inst16",), ("screens",))  # label maps, instance maps, screenshots


def map_bytes() -> list[float]:
    """Returns the bytes of MAPS divided by the smaller of PNG 9 and zstd -3."""
    run = views_codec.run_at(results("codec"), "avx512")
    least = [min(views_codec.nbytes(run, peer, group) for peer in ("png9", "zstd3_raw")) for group in MAPS]
    return [views_codec.nbytes(run, "pli_small", group) / other for group, other in zip(MAPS, least, strict=True)]


def map_rates(run: dict[str, Any]) -> list[float]:
    """GB/s of MAPS."""
    return [views_codec.rate(run, "pli_small", groups=group) / 1000 for group in MAPS]


def jpeg(level: str, what: str) -> list[float]:
    """Returns the speed relative to libjpeg-turbo on ImageNet's files, for each machine that has the level."""
    runs = [results(stem) for stem in ("codec_jpeg_zen4", "codec_jpeg_zen5", "codec_jpeg_zen3")]
    return [views_codec.jpeg_ratio(run, level, what, views_codec.JPEGS[0][1]) for run in runs if level in run["levels"]]


def loader(group: str, own: str, *stems: str) -> list[float]:
    """Returns the rate relative to the fastest other loader that decodes, on 1 and 2 cores of each run."""
    return [ratio for stem in stems for ratio in loader_ratios(results(stem), group, own)]


AVX512, AVX2 = ("loader_jpeg", "loader_jpeg_zen4"), ("loader_jpeg_avx2_zen4", "loader_jpeg_zen3")
ZEN5, ZEN5_AVX2 = "loader_zen5", "loader_avx2_zen5"
INTEL, INTEL_NAMES = ("loader_sapphire_rapids", "loader_granite_rapids"), "Sapphire Rapids, Granite Rapids"


def jpeg_loaders(group: str) -> list[Figure]:
    return [
        Figure(partial(loader, group, PACKED[0], *AVX512), ">= 8", of="AVX-512, Zen 4"),
        Figure(partial(loader, group, PACKED[0], ZEN5), ">= 8", of="Zen 5"),
        Figure(partial(loader, group, PACKED[0], *INTEL), ">= 8", of=INTEL_NAMES),
        Figure(partial(loader, group, PACKED[0], *AVX2), ">= 6", of="AVX2, Zen 4, Zen 3"),
        Figure(partial(loader, group, PACKED[0], ZEN5_AVX2), ">= 6", of="AVX2, Zen 5"),
        Figure(lambda: loader_ratios(masked(results(INTEL[0])), group, PACKED[0]), ">= 6", of="AVX2, Sapphire Rapids"),
    ]


def shared(kind: str, *, n_times: bool) -> list[float]:
    """Returns the rate of 2, 4 and 8 jobs that share, divided by n times one loader's rate, or by that of as many jobs of another
    kind.
    """
    rate = partial(views_service.shared_rate, results("share_zen5"))
    return [rate("penstock_share", n) / (n * rate(kind, 1) if n_times else rate(kind, n)) for n in (2, 4, 8)]


MIX = "mix_granite_rapids"


def mixes(group: str) -> list[float]:
    found = [views_plans.mix_ratio(setting) for name, _, setting in views_plans.settings_of(results(MIX)) if name == group]
    return [ratio for ratio in found if ratio]


def plan_cells() -> list[float]:
    """Returns the percentage of cells whose prediction is within 5 %."""
    errors = [abs(error) for each in views_plans.plan_errors(results(MIX)).values() for error in each]
    return [100 * sum(error <= 0.05 for error in errors) / len(errors)]


def predicted(what: str) -> list[float]:
    """Returns a figure of the counted cells of bench-whatif in percent, by its name in the summary."""
    return [100 * results("whatif_zen1")["summary"][what]]


def end_to_end_means(name: str) -> list[float]:
    """Returns the mean, over networks and machines, of the ratio to the fastest other loader, FFCV with raw pixels included."""
    return [geometric([row["times_fastest"] for row in results("endtoend_granite_rapids")["epochs"] if row["set"] == name])]


def planned(group: str) -> list[float]:
    """Returns the plans' rates divided by the rate of the original files."""
    found = views_plans.settings_of(results(MIX))
    return [views_plans.plan_ratio(setting) for name, _, setting in found if name.startswith(group)]


SLOW = "slow_samples_granite_rapids"
AUDIO = "audio_granite_rapids"
FUSED = [f"[set=frames-{tier}-fused]" for tier in ("small", "dense", "fast")]
KERNELS = "[].sets"
HELD = "held by tests"
GOALS = [
    Goal(
        "PLI small, photographs: bytes <= 0.97 x WebP lossless",
        [Figure(codec("bytes", "pli_small", "webp_m4"), "<= 0.97", 3)],
        "codec",
    ),
    Goal(
        "decodes >= 12 x libwebp and >= 15 x libpng with AVX-512, >= 8 x libpng with AVX2",
        [
            Figure(codec("rate", "pli_small", "webp_m4"), ">= 12"),
            Figure(codec("rate", "pli_small", "png6"), ">= 15"),
            Figure(codec("rate", "pli_small", "png6", level="avx2"), ">= 8"),
        ],
        "codec",
    ),
    Goal(
        "PLI dense, photographs: bytes <= 0.93 x WebP lossless",
        [Figure(codec("bytes", "pli_dense", "webp_m4"), "<= 0.93", 3)],
        "codec",
    ),
    Goal(
        "decodes >= 6 x libwebp with AVX-512, >= 2.5 x with AVX2",
        [
            Figure(codec("rate", "pli_dense", "webp_m4"), ">= 6"),
            Figure(codec("rate", "pli_dense", "webp_m4", level="avx2"), ">= 2.5"),
        ],
        "codec",
    ),
    Goal(
        "PLI fast, photographs: bytes <= 0.95 x PNG of level 6",
        [Figure(codec("bytes", "pli_fast", "png6"), "<= 0.95", 2)],
        "codec",
    ),
    Goal(
        "decodes >= 40 x libpng with AVX-512, >= 20 x with AVX2",
        [Figure(codec("rate", "pli_fast", "png6"), ">= 40"), Figure(codec("rate", "pli_fast", "png6", level="avx2"), ">= 20")],
        "codec",
    ),
    Goal(
        "plain C: PLI small >= 0.8 x libpng, pli-jpeg >= 0.5 x libjpeg-turbo",
        [
            Figure(Known("reference", (1.07,)), ">= 0.8", 2, "Zen 3"),
            Figure(partial(jpeg, "c", "whole"), ">= 0.5", 2, "Zen 4, Zen 5, Zen 3"),
        ],
        "codec",
    ),
    Goal("PLI encoding >= 100 MB/s a core", [Figure(encoding, ">= 100", 0, "fast, small, dense")], "codec"),
    Goal(
        "label maps, instance maps, screenshots: bytes <= the smaller of PNG 9 and zstd -3",
        [Figure(map_bytes, "<= 1", 2)],
        "codec",
    ),
    Goal(
        "decoding them >= 5 GB/s a core",
        [
            Figure(lambda: map_rates(views_codec.run_at(results("codec"), "avx512")), ">= 5"),
            Figure(lambda: map_rates(results("codec_zen3")["runs"][0]), ">= 5", of="Zen 3"),
        ],
        "codec",
    ),
    Goal(
        "pli-jpeg, ImageNet files: bytes <= 0.88 x the files",
        [Figure(lambda: [views_codec.jpeg_bytes(results("codec_jpeg_zen4"), views_codec.JPEGS[0][1])], "<= 0.88", 3)],
        "codec",
    ),
    Goal(
        "decodes whole files >= 3 x, crops >= 4 x libjpeg-turbo, with AVX-512 and AVX2",
        [
            Figure(partial(jpeg, "avx512", "whole"), ">= 3", 2),
            Figure(partial(jpeg, "avx512", "crop"), ">= 4", 2, "AVX-512, Zen 4, Zen 5"),
            Figure(partial(jpeg, "avx2", "whole"), ">= 3", 2),
            Figure(partial(jpeg, "avx2", "crop"), ">= 4", 2, "AVX2, Zen 4, Zen 5, Zen 3"),
        ],
        "codec",
    ),
    Goal(
        ">= 99 % of files restored byte for byte",
        [
            Figure(
                sums(
                    "codec_jpeg_zen4",
                    "100 * sum(levels.avx512[group=imagenet|imagenet_folder].restored)"
                    " / sum(levels.avx512[group=imagenet|imagenet_folder].files)",
                ),
                ">= 99",
                0,
                "%",
            )
        ],
        "codec",
    ),
    Goal(
        "packing >= 150 files/s a core",
        [
            Figure(
                lambda: [
                    views_codec.jpeg_rate(results(stem), level, "from_jpeg_per_s", views_codec.JPEGS[0][1])
                    for stem, level in (("codec_jpeg_zen4", "avx512"), ("codec_jpeg_zen3", "avx2"))
                ],
                ">= 150",
                0,
                "Zen 4, Zen 3",
            )
        ],
        "codec",
    ),
    Goal(
        "loader, ImageNet JPEG from pli-jpeg: >= 8 x the fastest other that decodes with AVX-512, >= 6 x with AVX2, 1 and 2 cores",
        jpeg_loaders("imagenet"),
        "loaders",
    ),
    Goal(
        "from the plain folder >= 1.7 x",
        [
            Figure(partial(loader, "imagenet", "penstock", *AVX512, *AVX2), ">= 1.7", of="Zen 4, Zen 3"),
            Figure(partial(loader, "imagenet", "penstock", ZEN5, ZEN5_AVX2), ">= 1.7", of="Zen 5"),
            Figure(partial(loader, "imagenet", "penstock", *INTEL), ">= 1.7", of=INTEL_NAMES),
        ],
        "loaders",
    ),
    Goal(
        "loader, photographs of 2.7 Mpixel from pli-jpeg: >= 8 x with AVX-512, >= 6 x with AVX2",
        jpeg_loaders("photographs"),
        "loaders",
    ),
    Goal(
        "from the plain folder >= 1.5 x",
        [
            Figure(partial(loader, "photographs", "penstock", *AVX512, *AVX2), ">= 1.5", of="Zen 4, Zen 3"),
            Figure(partial(loader, "photographs", "penstock", ZEN5, ZEN5_AVX2), ">= 1.5", of="Zen 5"),
            Figure(partial(loader, "photographs", "penstock", *INTEL), ">= 1.5", of=INTEL_NAMES),
        ],
        "loaders",
    ),
    Goal(
        "loader, lossless frames of 2048 x 1024, crops of 768: >= 15 x the fastest other that reads PNG",
        [
            Figure(partial(loader, "frames", PACKED[1], "loader_frames"), ">= 15", of="Zen 4"),
            Figure(partial(loader, "frames", PACKED[1], *INTEL), ">= 15", of=INTEL_NAMES),
        ],
        "loaders",
    ),
    Goal(
        ">= 4 x FFCV's raw pixels, at <= 1/3 of its bytes",
        [
            Figure(
                sums(
                    "loader_frames",
                    *(
                        f"cells[cores={n},peer=penstock_pli].images_per_s / cells[cores={n},peer=ffcv_raw].images_per_s"
                        for n in (1, 2)
                    ),
                ),
                ">= 4",
                of="Zen 4",
            ),
            Figure(
                sums(
                    INTEL[0],
                    *(
                        f"{stem}:cells[group=frames,cores={n},peer=penstock_pli].images_per_s"
                        f" / {stem}:cells[group=frames,cores={n},peer=ffcv_raw].images_per_s"
                        for stem in INTEL
                        for n in (1, 2)
                    ),
                ),
                ">= 4",
                of=INTEL_NAMES,
            ),
            Figure(
                sums("loader_frames", "cells[cores=1,peer=penstock_pli].stored_mb / cells[cores=1,peer=ffcv_raw].stored_mb"),
                "<= 0.333",
                2,
                "bytes",
            ),
        ],
        "loaders",
    ),
    Goal(
        "loader overhead: raw samples from memory at >= 0.8 x memcpy into the batch",
        [Figure(sums("loader_raw", "min(results[].ratio)"), ">= 0.8", 2, "least of six settings")],
        "loaders",
    ),
    Goal(
        "page order by default: >= 5 x random order on storage of 200 MB/s and 10 ms a request",
        [
            Figure(
                sums("pages_zen5", f"cells[{PAGES_ON_DISK},chain=bytes,way=pages, 16 x 64].times_random"),
                ">= 5",
                1,
                "default windows",
            ),
            Figure(
                sums(
                    "pages_zen5",
                    *(f"cells[{PAGES_ON_DISK},chain=bytes,way=pages, {way}].times_random" for way in ("64 x 8", "8 x 64")),
                ),
                ">= 5",
                1,
                "windows chosen by hand",
            ),
        ],
        "loaders",
    ),
    Goal(
        "page order by default on a local disk: >= 1 x random order",
        [
            Figure(
                sums(
                    "pages_zen5",
                    *(
                        f"cells[setting=local,layout={layout},chain=bytes,way=pages, 16 x 64].times_random"
                        for layout in ("packed", "folder")
                    ),
                ),
                ">= 1",
                2,
                "packed, folder",
            )
        ],
        "loaders",
    ),
    Goal(
        "heavy tails, 1 % of samples cost 50 times as much: >= 2.2 x an in-order loader, and a larger part of the rate kept",
        [
            Figure(
                sums(SLOW, *(f"cells[{n}].penstock.images_per_s / cells[{n}].torch.images_per_s" for n in (2, 4))),
                ">= 2.2",
                1,
                "x torch, Pillow; 2 and 4 workers",
            ),
            Figure(
                sums(SLOW, *(f"cells[{n}].penstock.keeps / cells[{n}].torch.keeps" for n in (2, 4))),
                ">= 1",
                2,
                "part kept, over torch's",
            ),
        ],
        "feeding",
    ),
    Goal(
        "accelerators of MLPerf Storage fed by a core from pli-jpeg: ResNet50-H100 >= 2.0 with AVX-512, >= 1.4 with AVX2",
        [
            Figure(
                sums("fed_zen5", "cells[peer=penstock_pli_jpeg,workload=resnet50].fed_per_core"), ">= 2.0", 2, "AVX-512, Zen 5"
            ),
            Figure(
                sums("fed_zen3", "cells[peer=penstock_pli_jpeg,workload=resnet50].fed_per_core"),
                ">= 1.4",
                2,
                "AVX2, a busy Zen 3",
            ),
        ],
        "feeding",
    ),
    Goal(
        "RetinaNet-B200 >= 1",
        [
            Figure(sums("fed_zen5", "cells[peer=penstock_pli_jpeg,workload=retinanet].fed_per_core"), ">= 1", 2, "Zen 5"),
            Figure(sums("fed_zen3", "cells[peer=penstock_pli_jpeg,workload=retinanet].fed_per_core"), ">= 1", 2, "a busy Zen 3"),
        ],
        "feeding",
    ),
    Goal(
        "short epochs, one behind the other: >= 0.97 of the lower of the rates of steps and of preparation",
        [Figure(sums("short_epochs_granite_rapids", "min(cells[].part)"), ">= 0.97", 2, "least of nine")],
        "feeding",
    ),
    Goal(
        "clips of 1 s of files of 30 s: >= 3 x the fastest other loader",
        [
            Figure(sums(AUDIO, *(f"cells[format={form},cores={n}].ratio" for n in (1, 2))), ">= 3", 2, f"{title}, 1 and 2 cores")
            for form, title in (("wav", "WAV"), ("flac", "FLAC"), ("mp3", "MP3"))
        ],
        "feeding",
    ),
    Goal(
        "PLI on an H200: >= 200 GB/s of decoded pixels, with crop, flip, normalise and f16 in the launch",
        [
            Figure(
                sums("gpu_kernels_h200", *(f"{KERNELS}{one}.pixels_nbytes / {KERNELS}{one}.launches_s / 1e9" for one in FUSED)),
                ">= 200",
                0,
                "small, dense, fast",
            )
        ],
        "gpu",
    ),
    Goal(
        "whole frames >= 80 % of what the link allows",
        [
            Figure(
                sums(
                    "gpu_kernels_h200",
                    *(
                        f"100 * {KERNELS}[set=frames-{tier}].upload_s / {KERNELS}[set=frames-{tier}].both_s"
                        for tier in ("small", "dense", "fast")
                    ),
                ),
                ">= 80",
                0,
                "small, dense, fast",
            )
        ],
        "gpu",
    ),
    Goal(
        "pli-jpeg to 224 pixels >= 200,000 ImageNet images/s",
        [Figure(sums("gpu_kernels_h200", f"{KERNELS}[set=pli-jpeg].rows / {KERNELS}[set=pli-jpeg].launches_s"), ">= 200000", 0)],
        "gpu",
    ),
    Goal(
        "loaders >= 95 % of the kernels",
        [
            Figure(
                sums(
                    "gpu_jpegs_h200",
                    "100 * images_per_second[pli-jpeg, gpu] * gpu_kernels_h200:[].sets[set=pli-jpeg].both_s / 256",
                ),
                ">= 95",
                0,
                "pli-jpeg, with the upload",
            )
        ],
        "gpu",
    ),
    Goal(
        "a ResNet-50 step <= 2 % slower",
        [
            Figure(
                sums("gpu_training_h200", "100 * slow_down", "100 * slow_down_first"),
                "<= 2",
                1,
                "as it is; with a stream of high priority",
            )
        ],
        "gpu",
    ),
    Goal(
        "pli-jpeg in a loader >= 4 x nvJPEG",
        [Figure(sums("gpu_jpegs_h100", "images_per_second[pli-jpeg] / images_per_second[nvjpeg]"), ">= 4", 1, "H100")],
        "gpu",
    ),
    Goal(
        ">= 10 x L3's kernel in images/s",
        [
            Figure(
                sums(
                    "gpu_kernels_h200",
                    f"{KERNELS}[set=frames-l3-each].both_s / {KERNELS}[set=frames-small-fused].both_s",
                    f"{KERNELS}[set=frames-l3-each].both_s / {KERNELS}[set=frames-small].both_s",
                ),
                ">= 10",
                1,
                "crops, whole frames",
            )
        ],
        "gpu",
    ),
    Goal("cache: hits = items cached, exactly, and a hit copies nothing", note=HELD, page="cache"),
    Goal(
        "decoded images in the shared cache: >= 2.3 x as many photographs as raw u8",
        [Figure(sums("images_zen5", "groups[group=clic2025].cells[way=penstock pli].of_arrays"), ">= 2.3", 1, "lossless")],
        "cache",
    ),
    Goal(
        "the same from JPEGs >= 6 x",
        [
            Figure(sums("images_zen5", "groups[group=imagenet].cells[way=penstock pli].of_arrays"), ">= 6", 1, "ImageNet files"),
            Figure(sums("images_zen5", "min(qualities[].of_arrays)"), ">= 6", 1, "least of quality 75 to 95"),
        ],
        "cache",
    ),
    Goal(
        "coordinated preparation: n jobs do the work of one",
        [
            Figure(
                sums("share_zen5", *(f"median(cells[kind=penstock_share,n_jobs={n}].work)" for n in (1, 2, 4, 8))), "<= 1.005", 2
            )
        ],
        "sharing",
    ),
    Goal(
        "n jobs together >= 0.95 n x a lone loader without sharing",
        [
            Figure(partial(shared, "penstock_alone", n_times=True), ">= 0.95", 2, "2, 4, 8 jobs"),
            Figure(partial(shared, "penstock_share", n_times=True), ">= 0.95", 2, "over one that shares"),
        ],
        "sharing",
    ),
    Goal(
        "a lone job that shares pays <= 0.03 ms an image",
        [
            Figure(
                lambda: [
                    1000
                    * (
                        views_service.shared_rate(results("share_zen5"), "penstock_share", 1, "cpu_s_per_image")
                        - views_service.shared_rate(results("share_zen5"), "penstock_alone", 1, "cpu_s_per_image")
                    )
                ],
                "<= 0.03",
                2,
            )
        ],
        "sharing",
    ),
    Goal(
        ">= 1.3 x TensorSocket",
        [
            Figure(partial(shared, "tensorsocket_penstock", n_times=False), ">= 1.3", 2, "only sharing differs; 2, 4, 8 jobs"),
            Figure(partial(shared, "tensorsocket_shm", n_times=False), ">= 1.3", 2, "over torch DataLoader"),
        ],
        "sharing",
    ),
    Goal(
        "partitioned cache: no storage reads from epoch 2 on",
        [
            Figure(
                sums("fleet_zen5", "max(cells[kind=fleet].epochs[1].reads, cells[kind=fleet].epochs[2].reads)"),
                "<= 0",
                0,
                "items",
            )
        ],
        "fleet",
    ),
    Goal(
        "one item of 110 kB <= 1.3 x a raw socket's time",
        [
            Figure(sums("fleet_client_zen1", "one.ratio"), "<= 1.3", 2, "the same parts"),
            Figure(sums("fleet_client_zen1", "one.ratio_whole"), "<= 1.3", 2, "whole values"),
        ],
        "fleet",
    ),
    Goal(
        ">= 2 GB/s a client on one host",
        [Figure(sums("fleet_client_zen1", "many.fleet_bytes_per_second / 1e9"), ">= 2", 2)],
        "fleet",
    ),
    Goal("a dead, slow or lying server costs speed only", note=HELD, page="fleet"),
    Goal(
        "what-if, counted cells: median <= 3 %, 95 % of them <= 8 %, worst <= 12 %",
        [
            Figure(partial(predicted, "median_error"), "<= 3"),
            Figure(partial(predicted, "error_95"), "<= 8"),
            Figure(partial(predicted, "worst_error"), "<= 12"),
        ],
        "what-if",
    ),
    Goal(
        "what-if, other forms on slow storage: median <= 2 %, worst <= 6 %",
        [Figure(partial(predicted, "storage_median_error"), "<= 2"), Figure(partial(predicted, "storage_worst_error"), "<= 6")],
        "what-if",
    ),
    Goal(
        "bands hold >= 95 % of what was measured, with a median half width <= 8 %",
        [Figure(partial(predicted, "in_band"), ">= 95", 0), Figure(partial(predicted, "half_width"), "<= 8")],
        "what-if",
    ),
    Goal("plans within 5 % of predicted in 40 of 44 cells", [Figure(plan_cells, ">= 90.9", 0, "% of the cells")], "mixes"),
    Goal(
        "a solved mix >= 1.3 x the best single form without PLI, in two settings",
        [
            Figure(partial(mixes, group), ">= 1.3", 2, of)
            for group, of in (("frames", "frames"), ("imagenet", "ImageNet"), ("imagenet256", "ImageNet at 256 pixels"))
        ],
        "mixes",
        enough=2,
    ),
    Goal(
        "planned data sets: >= 3.05 x PNG, >= 1.54 x JPEG (Liquid)",
        [Figure(partial(planned, "frames"), ">= 3.05", 2, "PNG"), Figure(partial(planned, "imagenet"), ">= 1.54", 2, "JPEG")],
        "mixes",
    ),
    Goal(
        "the plan >= 95 % of the best of a grid",
        [Figure(sums("sweep_zen5", "100 * min(settings[].part_of_best)"), ">= 95", 0, "least of six")],
        "mixes",
    ),
    Goal(
        "training with plans: >= 1.71 x PNG, >= 1.77 x JPEG, >= 2.87 x lossy WebP (L3)",
        [
            Figure(partial(end_to_end_means, name), f">= {bound}", 2)
            for name, bound in (("frames", 1.71), ("imagenet", 1.77), ("webp", 2.87))
        ],
        "training",
    ),
    Goal(
        "train_audio.py: >= 90 % of the spoken digits of two speakers that it has not heard",
        [Figure(sums("audio_accuracy", *(f"100 * {what}" for what in ("lowest", "median", "highest"))), ">= 90", 1, "three seeds")],
        "training",
    ),
    Goal(
        "opening 10 million samples < 10 ms, < 16 MiB; nothing allocated in the steady state; `host_memory` kept",
        note=HELD,
        page="start",
    ),
    Goal(
        "wheels made by zig >= 0.97 x gcc's build",
        [
            Figure(
                sums(
                    "turns_wheel_zen5",
                    *(
                        f"median(ratios[{name}, images per CPU second])"
                        for name in (
                            "imagenet Penstock, packed, original bytes",
                            "imagenet Penstock, packed, pli-jpeg",
                            "frames Penstock, packed, pli",
                        )
                    ),
                ),
                ">= 0.97",
                3,
                "loaders",
            ),
            Figure(
                sums("turns_wheel_codec_zen5", "median(ratios[kodak pli_small decode])"),
                ">= 0.97",
                3,
                "PLI small, the least of the codecs",
            ),
        ],
        "start",
    ),
    Goal(
        "tars of JPEG in place, first epoch: >= 2.7 x WebDataset (1 core), >= 3.3 x (2 cores)",
        [
            Figure(sums("sources_zen3", "cells[source=penstock,cores=1].times_first"), ">= 2.7", 2),
            Figure(sums("sources_zen3", "cells[source=penstock,cores=2].times_first"), ">= 3.3", 2),
        ],
        "sources",
    ),
    Goal(
        "JPEGs of tars and folders, re-coded by idle workers in the first epoch: >= 6 x WebDataset in later ones",
        [
            Figure(sums(RECODED, f"cells[source={source},cores=2].times_later"), ">= 6", 1, of)
            for source, of in (("penstock_recoded", "tars"), ("penstock_recoded_folder", "folder"))
        ],
        "sources",
    ),
    Goal(
        "JPEGs re-coded by idle workers, first epoch at half pace: <= 1.2 x the time without re-coding",
        [Figure(recoded("of_stored_s"), "<= 1.2", 2, "folder, tars")],
        "cache",
    ),
    Goal("the same: >= 80 % re-coded by its end", [Figure(recoded("part", 100), ">= 80", 0, "folder, tars")], "cache"),
    Goal(
        "the same: later epochs cost what packed pli-jpeg costs",
        [Figure(recoded("of_packed"), "<= 1.1", 2, "CPU time of an image: folder, tars")],
        "cache",
    ),
    Goal(
        "Parquet, shuffled rows of encoded bytes: >= 8 x a reader of row groups, >= Lance, >= 2 x LitData's reader",
        [
            Figure(behind(source, "rows", "rows_snappy"), f">= {times}", 1, f"{of}; not compressed, Snappy")
            for source, times, of in (("rowgroups", 8, "row groups"), ("lance", 1, "Lance"), ("litdata", 2, "LitData"))
        ],
        "records",
    ),
    Goal(
        "MDS and TFRecord: >= 3 x their libraries on two cores",
        [
            Figure(behind(source, group, stem=f"containers_{machine}"), ">= 3", 1, f"{of}, {title}")
            for source, group, of in (("mosaic", "mds", "Streaming"), ("tfrecord", "tfrecord", "tf.data"))
            for machine, title in (("zen3", "Zen 3"), ("zen5", "Zen 5"))
        ],
        "records",
    ),
    Goal(
        "pack, repack, verify, index by N parts on N cores: >= 0.95 N",
        [Figure(sums(PARTS, *(f"results[verb={verb}].ratio" for verb in VERBS)), ">= 1.9", 2, ", ".join(VERBS))],
        "records",
    ),
    Goal("object storage: >= 2.5 GB/s a core, >= 6,000 samples/s a core, >= 95 % of 1 Gbit/s at 100 ms", note="no figure yet"),
    Goal(
        "faults: each kind injected >= 200 times, nothing lost, repeated, wrong or hung",
        note="held by tests of `make check-long`",
    ),
]


def known_names() -> set[str]:
    return {figure.values.name for goal in GOALS for figure in goal.figures if isinstance(figure.values, Known)}


@view
def goals() -> list[str]:
    rows: list[list[Any]] = []
    page = ""
    for goal in GOALS:
        if goal.page != page:
            page = goal.page
            rows.append([f"[{page}](figures/{page}.md)" if page else "no page", None, None])
        rows.append([goal.text, "; ".join(figure.shown() for figure in goal.figures), goal.verdict()])
    return table(["goal", "measured", ""], rows)
