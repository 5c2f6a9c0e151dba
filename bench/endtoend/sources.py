"""The loaders of bench/endtoend: endless batches of each set, through DALI's CPU pipeline, torchvision, FFCV, and Penstock.

A batch consists of the numbers of its samples, and of its images if a real network trains on them. A number names a stored sample;
the source knows where its bytes are stored.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sets  # makes the modules of the other benches importable
import common
import delivered
import formats

Batches = Iterator[tuple[list[int], Any]]


@dataclass
class Source:
    batches: Batches
    samples: list[formats.Sample]
    release: Callable = delivered.release  # drops the pages of the source's files

    def nbytes(self) -> int:
        """Returns the total bytes of all samples as they are stored."""
        return sum(sample.nbytes for sample in self.samples)


def of_files(each: sets.Set, batches: Batches) -> Source:
    return Source(batches, [formats.Sample(i, path, 0, path.stat().st_size) for i, path in enumerate(each.files())])


def through(module, each: sets.Set, cores: int, cold: bool) -> Batches:
    """Yields batches of a plain folder through the loader of a module of bench/records."""
    for epoch in module.epochs(each.work, "folder", each.work.root, cores, 0, False, cold):
        for images, numbers in epoch:
            yield numbers, images


def recipe(module, each: sets.Set, cores: int, **options) -> Batches:
    """Yields batches of the detection recipe through a module of bench/tasks."""
    for images, *_, numbers in module.batches(each.work, each.work.root, cores, numbered=True, **options):
        yield numbers.tolist(), images


def clips(name: str, each: sets.Set, cores: int, cold: bool) -> Batches:
    import clips as audio

    epoch = audio.make(name, each.work.root, cores, False, cold)
    while True:
        yield from ((numbers, None) for numbers in epoch())


def module_of(bench: str, name: str):
    """Imports a module of another bench by its path, because two benches have modules of the same name."""
    import importlib.util

    path = sets.BENCH / bench / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{bench}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dali(each: sets.Set, cores: int, cold: bool) -> Source:
    if each.name == "audio":
        return of_files(each, clips("dali", each, cores, cold))
    if each.name == "boxes":
        return of_files(each, recipe(module_of("tasks", "with_dali"), each, cores, cold=cold))
    return of_files(each, through(module_of("records", "with_dali"), each, cores, cold))


def torchvision(each: sets.Set, cores: int, cold: bool) -> Source:
    if each.name == "audio":
        return of_files(each, clips("soundfile", each, cores, cold))
    if each.name == "boxes":
        return of_files(each, recipe(module_of("tasks", "with_torchvision"), each, cores))
    return of_files(each, through(module_of("records", "with_torch"), each, cores, cold))


def ffcv_raw(each: sets.Set, cores: int, cold: bool) -> Source:
    """Opens FFCV's file of decoded pixels, mapped and read in random order. Its labels are the numbers of the samples."""
    if each.name in ("boxes", "audio"):
        raise common.Unavailable("FFCV has no boxes" if each.name == "boxes" else "FFCV has no sound")
    import numpy as np
    import peer_ffcv
    import peer_ffcv_raw
    from ffcv.loader import OrderOption

    n = len(each.files())
    store = peer_ffcv_raw.prepare(each.work, range(n))
    crop = peer_ffcv.decoder(each.work.size, None if each.work.resized else peer_ffcv.anywhere(each.work.size))
    loader = peer_ffcv.loader(each.work, store, np.tile(np.arange(n), peer_ffcv.EPOCHS), cores, OrderOption.RANDOM,
                              [crop, peer_ffcv.T.RandomHorizontalFlip()])

    def release(path: Path, runs: list[tuple[int, int]]) -> None:
        mapped = loader.memory_manager.context.mmap
        if mapped is not None:  # files that stay mapped would stay in the page cache
            for first, end in runs:
                mapped._mmap.madvise(mmap.MADV_DONTNEED, first * delivered.PAGE,
                                     min(end * delivered.PAGE, len(mapped)) - first * delivered.PAGE)
        delivered.release(path, runs)

    table = loader.reader.alloc_table
    samples = [formats.Sample(int(row["sample_id"]), store, int(row["ptr"]), int(row["size"])) for row in table]
    return Source(((numbers.reshape(-1).tolist(), images.numpy()) for images, numbers in loader), samples, release)


# Penstock with all its means: a data set in the form that the plan has chosen (if the set has images), and a cache.

def transforms(each: sets.Set) -> list:
    from penstock import transforms as T

    if each.name == "audio":
        return [T.Mono(), T.Resample(8000), T.RandomClip(8000)]
    if each.name == "boxes":
        return module_of("tasks", "with_penstock").random_transforms(each.work)
    import peer_penstock

    crop = T.RandomResizedCrop(each.work.size) if each.work.resized else T.RandomCrop(each.work.size)
    return [crop, T.RandomHorizontalFlip(), *peer_penstock.normalize()]


def loader_of(each: sets.Set, source: Path, **options) -> Any:
    import penstock as ps

    fields: dict[str, Any] = {"fields": ["audio" if each.name == "audio" else "image"]}
    if each.name == "boxes":
        fields = {"fields": ["image", "boxes", "labels"], "annotations": ps.Annotations(per_box=["labels"]), "ragged": "padded"}
    return ps.Loader(ps.Dataset(source), each.work.batch, shuffle=True, seed=1, transforms=transforms(each), output="numpy",
                     **fields, **options)


def planned(each: sets.Set, store: Path, cores: int, rate: float | None, memory: int, budget: str) -> dict[str, Any]:
    """Plans for the cores that this process may use, and for the given storage and memory for data. Packs the data set by the plan.

    On slow storage the memory is for Penstock's cache, and the page cache keeps nothing. Else the page cache holds the packed set,
    which must fit into the memory, and there is no other cache.
    """
    import penstock as ps

    cache = None if rate is None else memory
    if each.name == "audio":
        return {"source": each.work.root, "words": "WAV as it is", "options": {"num_workers": cores, "cache": cache}}
    common.remove(store)
    if each.name == "boxes":
        ps.pack(each.work.root, store, voc=True, forms=("pli-jpeg",))
        return {"source": store, "words": "100 % pli-jpeg", "options": {"num_workers": cores, "cache": cache}}
    reading = ps.Reading(throttle=None if rate is None else (rate, 0.0))
    limits = {"storage": memory, "page_cache": memory} if rate is None else {"page_cache": 0}
    with loader_of(each, each.work.root, cache=None, num_workers=cores, reading=reading) as loader:
        found = ps.plan(loader, cache=cache, layout=False, budget=budget, **limits)
    path = store.with_suffix(".plan.json")
    found.to_json(path)
    ps.pack(each.work.root, store, plan=path, num_workers=cores)
    return {"source": store, "words": repr(found)[6:-2], "options": {"plan": str(path)}}


def penstock(each: sets.Set, plan: dict[str, Any]) -> Source:
    import penstock as ps

    reading = ps.Reading(page_cache="drop" if plan["cold"] else "keep")
    store = Path(plan["source"])
    loader = loader_of(each, store, reading=reading, **plan["options"])
    field = "audio" if each.name == "audio" else "image"
    samples = list(formats.pst_samples(store))
    if each.name == "audio":
        paths = [store / loader.dataset.name(i) for i in range(len(loader.dataset))]
        samples = [formats.Sample(i, path, 0, path.stat().st_size) for i, path in enumerate(paths)]
    batches = itertools.chain.from_iterable(loader for _ in itertools.count())
    return Source(((batch["index"].tolist(), batch[field]) for batch in batches), samples)
