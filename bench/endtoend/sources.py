"""The loaders of bench/endtoend: endless batches of each set, through DALI's CPU pipeline, torchvision, and Penstock.

A batch is its number of samples, and its images where a network is to learn from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sets

Batches = Iterator[tuple[int, Any]]


def through(module, each: sets.Set, cores: int, cold: bool) -> Batches:
    """Images of a plain folder, through a module of bench/records."""
    for epoch in module.epochs(each.work, "folder", each.work.root, cores, 0, False, cold):
        for images, numbers in epoch:
            yield len(numbers), images


def recipe(module, each: sets.Set, cores: int, **options) -> Batches:
    """The recipe of detection, through a module of bench/tasks."""
    for images, *_ in module.batches(each.work, each.work.root, cores, **options):
        yield len(images), images


def clips(name: str, each: sets.Set, cores: int, cold: bool) -> Batches:
    import clips as audio

    epoch = audio.make(name, each.work.root, cores, False, cold)
    while True:
        yield from ((n, None) for n in epoch())


def module_of(bench: str, name: str):
    """Imports a module of another bench; two benches have modules of these names."""
    import importlib.util

    path = sets.BENCH / bench / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{bench}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dali(each: sets.Set, cores: int, cold: bool) -> Batches:
    if each.name == "audio":
        return clips("dali", each, cores, cold)
    if each.name == "boxes":
        return recipe(module_of("tasks", "with_dali"), each, cores, cold=cold)
    return through(module_of("records", "with_dali"), each, cores, cold)


def torchvision(each: sets.Set, cores: int, cold: bool) -> Batches:
    if each.name == "audio":
        return clips("soundfile", each, cores, cold)
    if each.name == "boxes":
        return recipe(module_of("tasks", "with_torchvision"), each, cores)
    return through(module_of("records", "with_torch"), each, cores, cold)


# Penstock, with everything on: a planned data set of a form of its own where the set has images, and a cache.

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


def planned(each: sets.Set, store: Path, cores: int, rate: float | None, cache: int, budget: str) -> dict[str, Any]:
    """Plans for so many cores (those that this process may use), this storage and this memory, and packs by the plan."""
    import common
    import penstock as ps

    if each.name == "audio":
        return {"source": each.work.root, "words": "WAV as it is", "options": {"num_workers": cores, "cache": cache}}
    common.remove(store)
    if each.name == "boxes":
        ps.pack(each.work.root, store, voc=True, forms=("pli-jpeg",))
        return {"source": store, "words": "100 % pli-jpeg", "options": {"num_workers": cores, "cache": cache}}
    reading = ps.Reading(throttle=None if rate is None else (rate, 0.0))
    with loader_of(each, each.work.root, cache=None, num_workers=cores, reading=reading) as loader:
        found = ps.plan(loader, cache=cache, page_cache="auto" if rate is None else 0, layout=False, budget=budget)
    path = store.with_suffix(".plan.json")
    found.to_json(path)
    ps.pack(each.work.root, store, plan=path, num_workers=cores)
    return {"source": store, "words": repr(found)[6:-2], "options": {"plan": str(path)}}


def penstock(each: sets.Set, plan: dict[str, Any]) -> Batches:
    import penstock as ps

    reading = ps.Reading(page_cache="drop" if plan["cold"] else "keep")
    loader = loader_of(each, plan["source"], reading=reading, **plan["options"])
    field = "audio" if each.name == "audio" else "image"
    for batch in itertools.chain.from_iterable(loader for _ in itertools.count()):
        yield len(batch["index"]), batch[field]
