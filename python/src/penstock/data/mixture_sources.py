"""Walks through the data sets of a mixture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .dataset import Dataset
from .mixture import Mixture


class Leaf(NamedTuple):
    """A data set within a mixture: its name ("outer/inner" within a mixture of mixtures), the data set as given (it may be a view),
    and the number of its first sample in the whole mixture."""

    name: str
    dataset: Dataset
    first: int


def leaves(dataset: Dataset, prefix: str = "", first: int = 0) -> Iterator[Leaf]:
    """Yields the data sets of a mixture, and those of the mixtures within it. Yields nothing for another data set."""
    if not isinstance(dataset, Mixture):
        return
    for i, source in enumerate(dataset._sources):
        name = prefix + dataset._name_of(i)
        if isinstance(source, Mixture):
            yield from leaves(source, name + "/", first)
        else:
            yield Leaf(name, source, first)
        first += source._count


def with_others(mixture: Mixture, others: Mapping[str, Dataset], prefix: str = "") -> Mixture:
    """Returns the mixture with some data sets replaced, by name. A replacement has the same number of samples in the same order."""
    made: dict[str, Any] = {}
    for i, source in enumerate(mixture._sources):
        name = mixture._name_of(i)
        if isinstance(source, Mixture):
            made[name] = with_others(source, others, prefix + name + "/")
        elif prefix + name not in others:
            made[name] = source
        else:
            other = others[prefix + name]
            made[name] = other if source._indices is None else other.subset(source.indices)
    given: Any = made if mixture._names is not None else list(made.values())
    copy = type(mixture)(given, **mixture._keywords())
    if mixture._indices is mixture._shown:
        return copy
    view: Any = copy._of_numbers(mixture.indices)
    return view  # type: ignore[no-any-return]
