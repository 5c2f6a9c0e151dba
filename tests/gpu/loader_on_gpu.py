#!/usr/bin/env python3
"""Batches that a GPU decodes and prepares are bit-identical to the CPU's, and it was the GPU that decoded them.

    tests/gpu/loader_on_gpu.py DATA [--few]

--few: a sixth of the combinations, for a simulated driver, which computes slowly.
DATA has folders of .pli files and of JPEGs, as scripts/gpu_carry.py makes it. Uses torch, if it supports CUDA, for batches that
stay on the GPU. A simulated driver (PENSTOCK_CUDA_DRIVER) works without torch, because its memory is the host's.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock import transforms as T

MIN_SAMPLES = 8  # fewest samples that GPU and CPU can share: a single image is not divided

CHAINS: dict[str, list[Any]] = {
    "resized": [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    "cropped": [T.RandomCrop(64, pad_if_needed=True), T.RandomHorizontalFlip()],
    "coloured": [T.Resize(80), T.CenterCrop(64), T.ColorJitter(0.4, 0.4, 0.4, 0.1),
                 T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    "policy": [T.RandomResizedCrop(96), T.RandAugment(), T.TrivialAugmentWide(), T.AutoAugment(),
               T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD), T.RandomErasing(p=0.5)],
    "elastic": [T.Resize(80), T.CenterCrop(64), T.ElasticTransform(60.0, (4.0, 3.0)), T.RandomHorizontalFlip(),
                T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD), T.RandomErasing(p=1.0, value="random")],
    "augmix": [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.AugMix(severity=6),
               T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    "warped": [T.Resize(80), T.CenterCrop(64), T.RandomRotation(30), T.RandomPerspective(p=0.7), T.GaussianBlur(5)],
}
FORMATS = (("float16", "NCHW"), ("float32", "NHWC"))
PLACES = (ps.Gpu(decode="gpu"), ps.Gpu(part=0.5), ps.Gpu(decode="cpu"))


def on_host(x: Any) -> np.ndarray:
    """Returns a batch's array in host memory, wherever it is."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if hasattr(x, "cpu"):
        return np.asarray(x.cpu().numpy())
    # Only with a simulated driver, whose work is done when a batch is delivered.
    interface = x.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    count = int(np.prod(interface["shape"]))
    if count == 0:
        return np.empty(interface["shape"], dtype)
    bytes_ = ctypes.string_at(interface["data"][0], count * dtype.itemsize)
    return np.frombuffer(bytes_, dtype).reshape(interface["shape"])


def check_fallbacks(loader: ps.Loader) -> None:
    """Checks that no image was left to the CPU because of its operations."""
    reason = loader.stats()["fallback_reasons"].get("gpu", "")
    assert "done on the CPU" not in reason and "passes" not in reason, reason


def batches(data: Path, chain: list[Any], dtype: str, layout: str, output: str,
            device: Any = "cpu") -> tuple[list[np.ndarray], dict[str, Any]]:
    """Returns the batches of two epochs, and the loader's statistics of the GPU."""
    loader = ps.Loader(str(data), batch_size=8, shuffle=True, seed=7, transforms={"image": chain}, dtype=dtype,
                       layout=layout, output=output, fields=["image"], device=device)
    found = [on_host(batch["image"]) for _ in range(2) for batch in loader]
    check_fallbacks(loader)
    return found, loader.stats()["device"]


def check_share(stats: dict[str, Any], place: ps.Gpu, where: tuple[Any, ...]) -> None:
    """Checks that the GPU decoded the requested share of a packed data set of PLI, except rows that did not fit into its memory."""
    on_gpu, on_cpu = stats["gpu_samples"], stats["cpu_samples"]
    shared = on_gpu > 0 < on_cpu or on_gpu + on_cpu < MIN_SAMPLES
    wanted = {"gpu": on_gpu > 2 * on_cpu, "auto": shared, "cpu": on_gpu == 0 < on_cpu}
    assert wanted[place.decode], (*where, stats)


def check_same(found: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    assert len(found) == len(expected), (what, len(found), len(expected))
    for step, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, (what, a.dtype, a.shape)
        assert np.array_equal(a, b), f"{what}, batch {step}: differs"


def compare(data: Path, output: str, turn: int | None) -> int:
    """Compares batches of a data set. Returns the number of images. turn: None: each chain in each format, decoded in each place;
    otherwise one format and one place for each chain, at the next turn others.
    """
    gpu_decodes = data.name.startswith("pli")  # its images are of a kind that a GPU decodes
    every, n = [(form, place) for form in FORMATS for place in PLACES], 0
    for number, (name, chain) in enumerate(CHAINS.items()):
        taken = every if turn is None else [every[(len(CHAINS) * turn + number) % len(every)]]
        for dtype, layout in dict.fromkeys(form for form, _ in taken):
            expected, _ = batches(data, chain, dtype, layout, "numpy")
            for place in (place for form, place in taken if form == (dtype, layout)):
                found, stats = batches(data, chain, dtype, layout, output, place)
                if gpu_decodes:
                    check_share(stats, place, (data.name, name, place))
                check_same(found, expected, f"{data.name}, {name}, {dtype}, {layout}, {place}")
                n += sum(map(len, found))
    return n


def compare_views(data: ps.Dataset, name: str, output: str, gpu_decodes: bool) -> int:
    """Compares views of the images of a data set, decoded in each place. Returns the number of images. gpu_decodes: some of the
    images are of a kind that a GPU decodes.
    """
    views = {"global": (2, CHAINS["resized"]), "local": (3, [T.RandomResizedCrop(32, scale=(0.05, 0.3)), CHAINS["resized"][2]])}
    found: list[list[np.ndarray]] = []
    for device in ("cpu", *PLACES):
        loader = ps.Loader(data, batch_size=8, shuffle=True, seed=7, views=views, dtype="float16", fields=[],
                           output="numpy" if device == "cpu" else output, device=device)
        found.append([on_host(batch[view]) for batch in loader for view in views])
        check_same(found[-1], found[0], f"{name}, views, {device}")
        stats = loader.stats()["device"]
        assert device != PLACES[0] or not gpu_decodes or stats["gpu_samples"] > 0, (name, stats)
    return sum(map(len, found[0])) * len(PLACES)


def compare_mixtures(sources: list[Path], output: str) -> int:
    """Compares views of mixtures of images of all forms, in folders and packed. Returns the number of images."""
    whole = ps.Mixture({path.name: str(path) for path in sources})
    drawn = ps.Mixture({path.name: str(path) for path in sources}, weights=range(1, len(sources) + 1), stop="first_exhausted")
    return compare_views(whole, "mixture", output, True) + compare_views(drawn, "mixture with weights", output, True)


def compare_masks(path: Path, output: str) -> int:
    """Compares images and their masks, which an elastic warp moves alike, in each place. Returns the number of images."""
    chain = [T.Resize((48, 40)), T.MapLabels({7: 1, 33: 19}), T.ElasticTransform(80.0, 3.0)]
    rng = np.random.default_rng(5)
    with ps.Writer(path, {"image": ps.Image(form="pli"), "mask": ps.Mask(form="pli")}) as writer:
        for i in range(MIN_SAMPLES):
            size = (40 + 9 * i, 90 - 5 * i)
            image, mask = (rng.integers(0, 200, (size[0] // 8 + 1, size[1] // 8 + 1)).astype(np.uint8) for _ in range(2))
            image, mask = (np.kron(x, np.ones((8, 8), np.uint8))[: size[0], : size[1]] for x in (image, mask))
            writer.write({"image": np.stack([image, mask, image[::-1]], axis=2), "mask": mask}, name=str(i))
    found: list[list[np.ndarray]] = []
    for device in ("cpu", *PLACES):
        loader = ps.Loader(str(path), batch_size=4, seed=7, transforms=chain, output="numpy" if device == "cpu" else output,
                           device=device)
        found.append([on_host(batch[name]) for batch in loader for name in ("image", "mask")])
        check_same(found[-1], found[0], f"masks, {device}")
        check_fallbacks(loader)
    return 2 * MIN_SAMPLES * len(PLACES)


def torch_output() -> str:
    """Returns "torch" if torch supports CUDA, otherwise "dlpack"."""
    try:
        import torch

        return "torch" if torch.cuda.is_available() else "dlpack"
    except ImportError:
        return "dlpack"


def main() -> None:
    output, n = torch_output(), 0
    sources: list[Path] = []
    turns = itertools.count() if "--few" in sys.argv[2:] else itertools.repeat(None)
    with tempfile.TemporaryDirectory() as work:
        for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
            packed = Path(work) / f"{folder.name}.pst"
            ps.pack(str(folder), str(packed))
            n += sum(compare(data, output, turn) for data, turn in zip((folder, packed), turns, strict=False))
            n += compare_views(ps.Dataset(str(packed)), packed.name, output, folder.name.startswith("pli"))
            sources += [folder, packed]
            print(f"{folder.name}: the same", flush=True)
        n += compare_mixtures(sources, output)
        n += compare_masks(Path(work) / "masks.pst", output)
    print(f"{n} images compared, output {output}")


if __name__ == "__main__":
    main()
