"""The HTML that notebooks show of a loader. Showing it makes no batch and does not change the loader's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.units import size
from ..data.dataset import Dataset
from ..data.markup import details, escape, facts, framed, plain, table
from ..data.notebook import About
from ..errors import PenstockError
from . import table as arguments

_APART = ("dataset", "transforms", "schedule", "batch_size")  # arguments that the page shows in other parts


def about(dataset: Dataset, transforms: Any) -> About:
    """Returns what notebooks need to know about batches besides their arrays."""
    known = dataset._about
    rates = {}
    for field in dataset.fields.values():
        if field.type != "audio":
            continue
        from ..transforms.sound import Resample

        chain = transforms.get(field.name) if isinstance(transforms, Mapping) else transforms
        found = [op.rate for op in chain or () if isinstance(op, Resample)] if isinstance(chain, Sequence) else []
        if found:
            rates[field.name] = int(found[-1])
    return About(known.class_names, rates, known.label)


def _operations(transforms: Any) -> list[tuple[str, str]]:
    """Returns for each field the description of its operations."""
    if transforms is None:
        return []
    chains = transforms.items() if isinstance(transforms, Mapping) else [("", transforms)]
    found = []
    for name, chain in chains:
        operations = chain if isinstance(chain, (list, tuple)) else [chain]
        found.append((plain(str(name)), plain(", ".join(map(repr, operations)), 400)))
    return found


def _facts(loader: Any) -> list[tuple[str, str]]:
    found = [("samples", f"{len(loader.dataset):,}"), ("a batch", f"{loader.batch_size:,} samples")]
    try:
        rank, world_size, _ = loader._ranks_now()
        found += [("batches", f"{len(loader):,}"), ("epoch", f"{loader.epoch:,}"), ("rank", f"{rank} of {world_size}")]
    except PenstockError as error:  # a launcher's variables are wrong
        found.append(("rank", plain(error.text)))
    options = loader._native_options
    memory = f"at most {size(options['host_memory'])}"
    return [*found, ("workers", str(options["num_workers"])), ("arrays", loader._output), ("memory", memory)]


def _arguments(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the arguments that differ from their defaults, with their values as text."""
    usual = arguments.completed({"dataset": given["dataset"]})
    found = []
    for name, value in given.items():
        if name in _APART or name not in arguments.ROWS:
            continue
        if value is not usual.get(name) and repr(value) != repr(usual.get(name)):
            found.append((arguments.ROWS[name].shown, plain(repr(value), 200)))
    return found


def page(loader: Any) -> str:
    """Returns a loader as HTML. It never fails, even for a closed loader."""
    try:
        inner = f"<h3>{escape(plain(f'Loader of {loader.dataset.path}', 300))}</h3>{facts(_facts(loader))}"
        operations = _operations(loader._given["transforms"])
        if operations:
            inner += table("", (), operations)
        stats = loader.stats()
        if stats["batches"]:
            inner += details(f"statistics: {stats['step']['text'] or 'no step yet'}", stats._repr_html_())
        inner += details("arguments that are not the defaults", table("", (), _arguments(loader._given)))
        inner += details("data set", loader.dataset._repr_html_())
    except Exception as error:  # e.g. a launcher's variables are wrong, or the data set is gone
        inner = f"<p>{escape(plain(repr(loader), 400))}: {escape(plain(str(error), 200))}</p>"
    return framed(inner)
