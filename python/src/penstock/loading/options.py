"""Converts a loader's arguments to options of the C library: samples, order, operations, placement of batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import transforms as _transforms
from ..base import options as _options
from ..caching import cache as _cache
from ..data import image
from ..data import mixture_weights as _weights
from ..data.dataset import Dataset
from ..data.mixture import Mixture
from ..errors import ArgumentError
from ..transforms import plain as _plain
from ..transforms.base import chain
from . import convert
from .table import ROWS

# The index of each word is its number in an enum of include/penstock/loader.h.
ORDERS = ("sequential", "shuffled", "pages")
ON_EMPTY = ("pad", "empty")
PLACEMENTS = ("cpu", "cuda")
DECODES = ("auto", "cpu", "gpu")
FORM_CHOICES = ("batch", "sample", "measured")
ON_ERROR = ("raise", "skip", "replace")
STORAGES = ("auto", "threads", "uring", "memory")
PAGE_CACHES = ("keep", "drop", "direct")
CACHE_FORMS = ("stored", "pli-jpeg", "pli", "pli-fast", "raw")
CACHE_RESOLUTIONS = ("full", "training")
CACHE_RECODES = ("at-once", "idle")


def add_bad_samples(given: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Adds what to do with bad samples, and with batches that have only bad samples."""
    on_error, on_empty = given["on_error"], given["on_empty"]
    if given["max_errors"] is not None and on_error == "raise":
        raise ArgumentError('OnError.max_errors is a bound for on_error="skip" and "replace"')
    if on_empty is not None:
        options["on_empty"] = _options.choice("OnError.on_empty", on_empty, ON_EMPTY)
        if on_error != "skip":
            raise ArgumentError(f'OnError.on_empty={on_empty!r} says what on_error="skip" does')
    options["no_epoch_padding"] = not given["pad_epoch"]


def add_share(given: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Adds the group that shares its batches."""
    share, wait = given["share"], given["share_wait"]
    if share is None:
        return
    if not isinstance(share, str) or not share or "\0" in share:
        raise ArgumentError(f"share is the name of a group, not {share!r}")
    if not 0 < wait <= 86400:
        raise ArgumentError(f"Share.wait is in seconds, above 0, to 86400, not {wait!r}")
    if given["decode"] == "gpu":
        raise ArgumentError('share is not possible with Gpu.decode="gpu": CPUs prepare shared batches')
    options.update(share=share, share_wait_seconds=float(wait), service=_options.service_program())


def add_gpu(given: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Adds where batches lie, and whether CPU or GPU decodes."""
    device, part = given["device"], given["gpu_part"]
    options["pin_memory"] = _options.pin(given["pin_memory"], device)
    if device == "cpu":
        for name, default in (("decode", ("auto", "cpu")), ("gpu_part", (None,)), ("device_memory", (None,))):
            if given[name] not in default:
                raise ArgumentError(f"{ROWS[name].shown}={given[name]!r} needs device=\"cuda\"")
        return
    options["placement"] = PLACEMENTS.index("cuda")
    options["device"] = int(device.partition(":")[2])
    options["decode"] = _options.choice("Gpu.decode", given["decode"], DECODES)
    if part is not None:
        if not 0 < part <= 1:
            raise ArgumentError(f"Gpu.part is above 0, to 1, not {part!r}")
        options["gpu_part"] = float(part)
    if given["device_memory"] is not None:
        options["device_memory"] = _options.nbytes("Gpu.memory", given["device_memory"])


def form_names(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the forms among which rows are divided, as the user gave them."""
    return tuple(str(name) for name in given["form_parts"] or ())


def add_forms(given: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Adds the forms among which the rows of the first image are divided."""
    forms, choice = given["form_parts"], given["form_choice"]
    number = _options.choice("Forms.choice", choice, FORM_CHOICES)
    if forms is None:
        if number != 0:
            raise ArgumentError(f"Forms.choice={choice!r} says how rows are divided over forms: give Forms.parts, too")
        return
    if not isinstance(forms, Mapping) or not forms:
        raise ArgumentError(f'forms is a dict of parts, such as {{"pli": 0.6, "raw": 0.4}}, not {forms!r}')
    if given["share"] is not None:
        raise ArgumentError("parts of forms are not for loaders that share: a group reads each item in one form")
    parts = []
    for name, part in forms.items():
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 < part < math.inf:
            raise ArgumentError(f"forms[{name!r}] is the part of a form, above 0, not {part!r}")
        is_variant = isinstance(name, int) or str(name).isdecimal()
        parts.append((0, int(name), float(part)) if is_variant else (_form_number(str(name)), 0, float(part)))
    options.update(form_parts=parts, form_choice=number)


def add_mix(given: Mapping[str, Any], dataset: Dataset, is_torch: bool, options: dict[str, Any]) -> convert.Labels | None:
    """Adds how the images of each batch are mixed. Returns the conversion of their labels, or None."""
    if given["mix"] is None:
        return None
    from ..transforms.policies import mixes

    options["mixes"] = mixes(given["mix"])
    if options["mixes"][0][0] == 3:  # Mosaic does not change labels
        return None
    first = given["mix"] if isinstance(given["mix"], _transforms.Mix) else given["mix"][0]
    delivered = [field for field in dataset.fields.values() if given["fields"] is None or field.name in given["fields"]]
    images = [field.name for field in delivered if field.type == "image" and field.name not in given["encoded"]]
    labels = [field for field in delivered if field.type == "int"]
    label = next((field for field in labels if field.name == "label"), labels[0] if len(labels) == 1 else None)
    if label is None:
        raise ArgumentError("mix mixes labels, too: deliver one int field, or one that is called 'label'")
    n_classes = first.num_classes or label.n_classes
    if not n_classes:
        raise ArgumentError(f"field {label.name!r} does not say how many classes there are: give mix num_classes")
    if given["output"] == "dlpack":
        raise ArgumentError('mix needs output="torch" or "numpy"')
    return convert.Labels(images[0] if images else "", label.name, n_classes, is_torch)


def _form_number(name: str) -> int:
    """Returns the number of a form. The tiers of PLI ("pli-small") are one form; variants are told apart by number."""
    form = "pli" if name.startswith("pli-") and name != "pli-jpeg" else name
    return image.form_number(form)


def order_number(given: Mapping[str, Any]) -> int:
    order, shuffle = given["order"], given["shuffle"]
    if order is None:
        order = "shuffled" if shuffle or given["weights"] is not None else "sequential"
    elif shuffle and order == "sequential":
        raise ArgumentError('shuffle=True and order="sequential" contradict each other')
    return _options.choice("order", order, ORDERS)


def add_repeats(given: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Adds how many rows an epoch has for each of its samples."""
    options["repeats"] = _options.count("repeats", given["repeats"], 1, 65536)
    if options["repeats"] > 1 and given["order"] == "pages":
        raise ArgumentError('repeats is not possible with order="pages", whose windows have each sample once')


def add_subset(given: Mapping[str, Any], dataset: Dataset, options: dict[str, Any]) -> None:
    """Adds which samples are used, and how often."""
    import numpy as np

    n, view = len(dataset), dataset._indices
    if view is not None and given["indices"] is None:
        if n == 0:
            raise ArgumentError(f"this view of {dataset.path} has no samples")
        options["indices"] = np.ascontiguousarray(view)
    if given["indices"] is not None:
        indices = np.asarray(given["indices"])
        if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu":
            raise ArgumentError("indices is a list of sample numbers, at least one")
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= n:
            wrong = low if low < 0 else high
            raise ArgumentError(f"indices holds {wrong}: the data set has samples 0 to {n - 1}")
        options["indices"] = np.ascontiguousarray(indices if view is None else view[indices], np.uint64)
        n = indices.size
    if given["weights"] is not None:
        try:
            weights = np.ascontiguousarray(given["weights"], np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"weights are numbers, not {given['weights']!r}") from None
        if weights.shape != (n,):
            raise ArgumentError(f"weights has shape {weights.shape}: one per sample is {n}")
        options["weights"] = weights


def add_weights(dataset: Dataset, options: dict[str, Any]) -> None:
    """Adds the weight shares by which the sources of a mixture are drawn."""
    import numpy as np

    if not isinstance(dataset, Mixture) or not _weights.is_weighted(dataset):
        return
    found = dataset._shares()
    _weights.check_filled(found, options.get("indices"))
    options["source_weights"] = np.array([share.weight for share in found], np.float64)
    options["source_firsts"] = np.array([share.first for share in found], np.uint64)
    options.update(dataset._rule.to_options(options["batch_size"]))


def _sound_chains(
    given: Mapping[str, Any], dataset: Dataset, ops: list[_transforms.Transform]
) -> dict[str, list[_transforms.Transform]]:
    """Returns the chain `ops` for each audio field."""
    chains = {
        field.name: ops
        for field in dataset.fields.values()
        if field.type == "audio"
        and (given["fields"] is None or field.name in given["fields"])
        and field.name not in given["encoded"]
    }
    if not chains and all(name in dataset.fields for name in given["fields"] or ()):
        raise ArgumentError("transforms are for sound: none is delivered decoded")
    return chains


def _sample_chains(
    given: Mapping[str, Any], dataset: Dataset, ops: list[_transforms.Transform]
) -> dict[str, list[_transforms.Transform]]:
    """Returns the chain `ops` for each field of pixels: the whole chain for images. Masks get none if they follow an image, else
    its geometric operations."""
    wanted, own = given["fields"], given["own_geometry"]
    if ops and all(isinstance(op, _transforms.AudioTransform) for op in ops):
        return _sound_chains(given, dataset, ops)
    pixels = {
        field.name: field.type
        for field in dataset.fields.values()
        if field.type in ("image", "mask")
        and (wanted is None or field.name in wanted)
        and field.name not in given["encoded"]
    }
    if ops and not pixels and all(name in dataset.fields for name in wanted or ()):
        raise ArgumentError("transforms are for images and masks: none is delivered as pixels")
    follows = any(kind == "image" and name not in own for name, kind in pixels.items())
    return {
        name: ops if kind == "image" else _plain.geometric(ops)
        for name, kind in pixels.items()
        if kind == "image" or name in own or not follows
    }


def chains_of(given: Mapping[str, Any], dataset: Dataset) -> dict[str, list[_transforms.Transform]]:
    """Returns the chains of operations by field."""
    transforms = given["transforms"]
    if transforms is None:
        return {}
    if not isinstance(transforms, Mapping):
        return _sample_chains(given, dataset, chain(None, transforms))
    chains = {name: chain(name, ops) for name, ops in transforms.items()}
    for name in chains:
        field = dataset.fields.get(name)
        if field is not None and field.type in ("boxes", "keypoints"):
            raise ArgumentError(
                f"transforms[{name!r}]: {field.type} follow the image by themselves"
            )
    return chains


def arguments(loader: Any, **changes: Any) -> dict[str, Any]:
    """Returns the flat arguments that make the same Loader again, with `changes`. They are as given or taken from a plan.

    Changes by Loader.set are not included. A plan's schedule of sizes is no argument: to get it, pass the plan.
    """
    return {**{name: value for name, value in loader._given.items() if name != "schedule"}, **changes}


def native_options(given: dict[str, Any], dataset: Dataset, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the options of the C library for a loader's arguments."""
    throttle = given["throttle"] or (0, 0)
    options: dict[str, Any] = {
        "batch_size": _options.count("batch_size", given["batch_size"], 1, 2**31 - 1),
        "order": order_number(given),
        "seed": _options.count("seed", given["seed"], 0, 2**64 - 1),
        "drop_last": given["drop_last"],
        "num_workers": _options.workers(given["num_workers"]),
        "prefetch": _options.count("prefetch", given["prefetch"], 1, 2**16),
        "host_memory": _options.nbytes("host_memory", given["host_memory"]),
        "on_error": _options.choice("on_error", given["on_error"], ON_ERROR),
        "only_listed": True,
        "fields": fields,
        "storage": _options.choice("Reading.storage", given["storage"], STORAGES),
        "page_cache": _options.choice("Reading.page_cache", given["page_cache"], PAGE_CACHES),
        "cache_form": _options.choice("CacheUse.form", given["cache_form"], CACHE_FORMS),
        "cache_resolution": _options.choice("CacheUse.resolution", given["cache_resolution"], CACHE_RESOLUTIONS),
        "cache_recode": _options.choice("CacheUse.recode", given["cache_recode"], CACHE_RECODES),
        "throttle_bytes_per_second": float(throttle[0]),
        "throttle_latency_seconds": float(throttle[1]),
        "throttle_requests": _options.count("Reading.throttle[2]", tuple(throttle)[-1], 0, 256) if len(throttle) == 3 else 0,
        "no_verify": not given["verify"],
    }
    if given["cache_plan"] is not None:
        options["cache_plan"] = _cache.plan_bytes(given["cache_plan"], dataset)
    for name, high in (
        ("io_threads", 1024),
        ("page_samples", 2**32 - 1),
        ("window_pages", 2**32 - 1),
        ("max_errors", 2**64 - 1),
        ("max_pixels", 2**64 - 1),
    ):
        if given[name] is not None:
            options[name] = _options.count(ROWS[name].shown, given[name], 1, high)
    if given["trace"] is not None:
        options["trace"] = given["trace"]
    add_bad_samples(given, options)
    add_share(given, options)
    add_forms(given, options)
    add_gpu(given, options)
    add_subset(given, dataset, options)
    add_weights(dataset, options)
    add_repeats(given, options)
    return options
