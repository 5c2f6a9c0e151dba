"""Plans of mixtures: divides their samples into classes by how often an epoch draws them.

The linear programme counts the samples that an epoch delivers. In a mixture with weights these are draws: a sample may come several
times in an epoch but is stored once. So while a plan is solved, a class counts draws instead of samples. Costs that a sample has
only once (its bytes on storage and in a cache, the work of writing it) are divided among its draws. The finished plan counts
samples again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..data import opening
from ..data.mixture_sources import leaves
from ..errors import ArgumentError
from ..loading import draws
from ..loading.loader import Loader
from ..loading.plan_file import changes_forms
from . import classes as _classes
from .classes import Class

_ONCE = ("item_nbytes", "pack_seconds")  # costs that a sample has only once, however often it is drawn
_MOST_RATES = 6  # maximum number of groups; the samples of a group are drawn (nearly) equally often


@dataclass
class Drawn(Class):
    """A class of a mixture with weights: similar samples that are drawn equally often.

    Attributes:
        samples: number of draws of these samples in an epoch.
        sources: names of the data sets that they belong to.
    """

    sources: tuple[str, ...] = ()


def check(loader: Loader, **given: Any) -> None:
    """Raises ArgumentError if the user asked for something that a plan of a mixture cannot have."""
    if loader.dataset.kind != "mixture":
        return
    for name in ("copies", "training_size"):
        if given.get(name):
            raise ArgumentError(f"{name} is for one data set, and this is a mixture: plan its sources one by one",
                                dataset=loader.dataset.path)  # fmt: skip


def survey(loader: Loader, image: str, seconds: float, side: int, notes: list[str]) -> list[Class]:
    """Divides the samples of a loader into classes without costs, as :func:`classes.survey` does. In a mixture with weights, the
    samples of a class are drawn equally often."""
    drawn = draws.of(loader)
    if drawn is None:
        return _classes.survey(loader.dataset, image, seconds, side, notes)
    groups = _groups(drawn)
    found: list[Class] = []
    for rate, positions in groups:
        names = _names(loader, positions)
        for part in _classes.survey(loader.dataset.subset(positions), image, seconds / len(groups), side, notes):
            part.numbers = [int(positions[i]) for i in part.numbers]
            members = {field.name: getattr(part, field.name) for field in fields(Class)}
            samples = max(1, round(rate * part.samples))
            found.append(Drawn(**{**members, "samples": samples, "per_draw": part.samples / samples}, sources=names))
    return sorted(found, key=lambda part: -part.samples)


def _groups(drawn: draws.Draws) -> list[tuple[float, Any]]:
    """Groups the samples by how often they are drawn. Returns the mean rate of each group and its samples. Similar rates share a
    group."""
    import numpy as np

    of_share = {int(share): float(drawn.rates[drawn.shares == share][0]) for share in np.unique(drawn.shares)}
    order = sorted(of_share, key=lambda share: of_share[share])
    groups: list[list[int]] = []
    for share in order:
        if groups and abs(of_share[groups[-1][0]] / of_share[share] - 1) < 1e-9:
            groups[-1].append(share)
        else:
            groups.append([share])
    while len(groups) > _MOST_RATES:
        gaps = [of_share[after[0]] / of_share[before[-1]] for before, after in zip(groups[:-1], groups[1:], strict=True)]
        i = gaps.index(min(gaps))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    chosen = [np.flatnonzero(np.isin(drawn.shares, group)) for group in groups]
    return [(float(drawn.rates[places].mean()), drawn.positions[places]) for places in chosen]


def _names(loader: Loader, positions: Any) -> tuple[str, ...]:
    """Returns the names of the data sets that have samples at these positions."""
    import numpy as np

    found = list(leaves(loader.dataset))
    own = np.searchsorted([leaf.first for leaf in found], loader.dataset.indices[positions], side="right") - 1
    return tuple(found[i].name for i in np.unique(own))


def to_draws(classes: Sequence[Class]) -> None:
    """Converts the costs of classes of a mixture with weights from samples to draws. Call it after the costs were measured."""
    for part in classes:
        if isinstance(part, Drawn):
            ratio = part.per_draw
            part.forms = {
                form: {place: _per_draw(costs, ratio) for place, costs in places.items()} for form, places in part.forms.items()
            }
            part.kept = {form: _per_draw(costs, ratio) for form, costs in part.kept.items()}


def _per_draw(costs: Mapping[str, float], ratio: float) -> dict[str, float]:
    once = {name: ratio * costs[name] for name in _ONCE if name in costs}
    return {**costs, "item_nbytes": ratio * costs.get("nbytes", 0.0), **once}


def to_samples(made: dict[str, Any], classes: Sequence[Class], subject: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a plan from draws to samples, and adds the names of the data sets of each class."""
    for section, part in zip(made["classes"], classes, strict=True):
        if isinstance(part, Drawn):
            section.update(draws=part.samples, samples=max(1, round(part.per_draw * part.samples)), sources=list(part.sources))
            section["ways"] = [_of_sample(way, part.per_draw) for way in section["ways"]]
    if "stored_samples" in subject:
        made["data"].update(draws=subject["samples"], samples=subject["stored_samples"])
    if "sources" in subject:
        made["data"]["sources"] = [dict(source) for source in subject["sources"]]
    return made


def _of_sample(way: Mapping[str, Any], ratio: float) -> dict[str, Any]:
    """Converts a way from draws to samples: its bytes, and what caching a sample saves in an epoch. The saving per byte stays,
    because a draw's saving was computed from its part of the sample's bytes."""
    found = {**way, **{name: way[name] / ratio for name in ("stored_nbytes", "cached_nbytes") if name in way}}
    if "saves" in way:
        found["saves"] = {name: value / (1.0 if name == "nbyte" else ratio) for name, value in way["saves"].items()}
    return found


def of_source(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the part of a mixture's plan that is needed to pack one of its data sets, as the data of a plan.

    ArgumentError: the plan is not of a mixture, or the mixture does not have this data set.
    """
    sources = {source["name"]: source for source in data["data"].get("sources") or ()}
    if name not in sources:
        raise ArgumentError(f"the plan has no source {name!r}: it is for {', '.join(map(repr, sources)) or 'one data set'}")
    own = {key: sources[name][key] for key in ("path", "opening", "samples") if key in sources[name]}
    parts = [dict(part) for part in data["classes"] if name in part.get("sources", sources)]
    return {
        **{key: data[key] for key in ("kind", "version", "made", "penstock", "field", "goal") if key in data},
        "data": own,
        "classes": parts,
        "loader": {},
        "notes": [f"for packing the source {name!r} of a mixture; the loader's settings are in the plan of the mixture"],
    }


def changed_sources(data: Mapping[str, Any]) -> list[str]:
    """Returns the names of the data sets that the plan stores in another form than now."""
    return [source["name"] for source in data["data"].get("sources") or () if changes_forms(of_source(data, source["name"]))]



def commands(data: Mapping[str, Any]) -> list[str]:
    """Returns lines of text that say how to apply the plan of a mixture."""
    sources = {source["name"]: source for source in data["data"]["sources"]}
    changed = changed_sources(data)
    if not changed:
        return ['  ps.Loader(mixture, ..., plan="plan.json")']
    lines = ["  ps.tune(mixture, out=DIR), or penstock tune, writes each of these data sets anew in a folder; or by hand:"]
    for name in changed:
        source, plain = sources[name], name.replace("/", "-")
        verb = ["repack", source["path"]] if source.get("kind") == "packed" else ["pack", source["path"]]
        words = ["penstock", *verb, f"{plain}.pst", *opening.words(source.get("opening")), "--plan", f"{plain}.json"]
        lines += [f"  plan.to_json({f'{plain}.json'!r}, source={name!r})", "  " + shlex.join(words)]
    return [*lines, '  ps.Loader(ps.Mixture(...), ..., plan="plan.json")   # of what is there then']
