"""Joins several data sets to one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from ..base import options as _options
from ..base.public import door
from ..errors import ArgumentError
from . import mixture_weights as _weights
from .dataset import Dataset, _type_text, _view

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Mixture"]

_LACKING = ("error", "drop")

Source = Dataset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""What a mixture is made of: a data set, also a view or a mixture, or what :class:`Dataset` opens."""


class Mixture(Dataset):
    """Several data sets as one. Its samples are those of the data sets, one data set after the other. A loader delivers each sample
    once, or draws from the data sets by weights.

    Args:
        sources: the data sets, a list or a dict by name. Each is a :class:`Dataset` of any kind, also a view or a mixture, or a
            path. Options such as ``split`` and ``labels`` are given to the data set: ``ps.Dataset(path, split="train")``. In a list
            the names are "0", "1", ... The same data set may be given several times.
        fields: names of the mixture's fields, which all sources must have. None: all fields.
        lacking: what happens with a field that some sources lack: "error", or "drop": the mixture leaves the field out. A batch has
            no missing values.
        rename: other names for fields, by source: ``{"web": {"img": "image"}}``; by number if the sources are a list.
        weights: one for each source, a list or a dict by name, in any unit: how often a :class:`Loader` draws from the source. A
            source delivers each of its samples once, in its own order, and then starts again. 0: the source is not drawn. None:
            each sample comes once an epoch. :meth:`Loader.set_weights` changes the weights during a run.
        stop: when an epoch with weights ends. "all_exhausted": when each source has delivered all its samples; smaller sources then
            repeat some. "first_exhausted": before a source repeats a sample. "endless": never; the epoch goes on until you leave
            its loop, and ``len(loader)`` is a TypeError. An epoch ends at the end of a block of ``quota``.
        quota: the block of positions in which the sources have exact shares. "batch": each batch of ``batch_size`` samples, on any
            number of ranks. A number: blocks of that many positions; a loader with another ``batch_size`` needs the same number to
            load its states. "epoch": only the epoch as a whole is exact, and batches vary like random draws. Shares that are no
            whole numbers are rounded down or up; the largest remainder is carried on, so that the sum of all blocks is off by less
            than one sample.

    Fields with the same name become one field and must have the same type. If the sources' tables of classes are equal, labels keep
    their numbers. If they differ and all classes have names, classes with the same name are joined: :meth:`Dataset.class_names` has
    the joined table, and labels, also those of boxes, are renumbered. Tables without names must be equal. Arrays of different
    shapes become ragged.

    A sample's name is "SOURCE/NAME", made of the names of its source and of the sample there. A mixture within a mixture counts as
    its own sources, named "outer/inner". A loader's state identifies a mixture by its sources and their order, not by paths or
    names.

    ``len(mixture)`` counts the samples, whatever their weights; ``len(loader)`` counts the batches of an epoch, which depend on
    ``stop``. The weights of an inner mixture divide its share. The outer mixture then needs weights, too, and its ``stop`` and
    ``quota`` count. An inner mixture without weights counts as one source of a mixture with weights. Only a :class:`Loader` draws
    by weights.

    :class:`Loader`, :class:`TorchDataset`, views and pickles treat it like any :class:`Dataset`. The source data sets may be
    closed. Caches keep an item under its source data set, so mixtures that have a data set in common, and loaders of that data set,
    share its items.
    """

    def __init__(
        self,
        sources: Mapping[str, Source] | Iterable[Source],
        *,
        fields: Sequence[str] | None = None,
        lacking: str = "error",
        rename: Mapping[Any, Mapping[str, str]] | None = None,
        weights: _weights.Weights | None = None,
        stop: str = "all_exhausted",
        quota: int | str = "batch",
    ) -> None:
        names, given = _named(sources)
        self._rule = _weights.rule(weights, stop, quota, names or [str(i) for i in range(len(given))], names is None)
        if isinstance(fields, str):
            raise ArgumentError(f"fields is a list of names, not {fields!r}")
        if fields is not None and not list(fields):
            raise ArgumentError("fields is empty: a mixture has one field or more")
        _options.choice("lacking", lacking, _LACKING)
        self._sources = _opened(given)
        self._names = names
        self._wanted = None if fields is None else tuple(fields)
        self._lacking = lacking
        self._renames = _renames(rename, names, len(given))
        parts = tuple(
            (source._native, None if names is None else names[i], self._renames[i]) for i, source in enumerate(self._sources)
        )
        self._take(_native.Dataset.mixture(parts, self._wanted or (), lacking == "drop"))
        self._leaves = self._native.sources()
        self._indices = self._shown = _shown(self._sources)
        if self._rule.weights is not None:
            _weights.check_filled(self._shares(), self._shown)
        elif inner := [self._name_of(i) for i, source in enumerate(self._sources) if _weights.is_weighted(source)]:
            raise ArgumentError(f"source {inner[0]!r} is a mixture with weights: give this mixture weights, too")

    @classmethod
    def from_energon(
        cls,
        path: str | os.PathLike[str],
        split: str = "train",
        *,
        fields: Sequence[str] | None = None,
        lacking: str = "error",
        stop: str = "all_exhausted",
        quota: int | str = "batch",
    ) -> Mixture:
        """Reads a metadataset of Megatron-Energon (a YAML file with ``splits``) as a mixture.

        ``blend`` gives data sets weights. ``blend_epochized`` says how many times each data set comes in an epoch. ``subset`` is a
        range of samples. A path is relative to the file's folder, and names a folder that Energon prepared, another metadataset, or
        anything that :class:`Dataset` opens. CorruptError: the file has an unsupported key, such as ``join`` or ``subflavors``; the
        text names the key and its line.

        Args:
            path: the YAML file.
            split: a name under ``splits``.
            fields, lacking, stop, quota: as for :class:`Mixture`; ``stop`` and ``quota`` count only if there is a blend.
        """
        from . import metadataset

        rule = {"stop": stop, "quota": quota}
        found: Mixture = metadataset.read(path, split, cls, {"fields": fields, "lacking": lacking}, rule)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        view = None if self._indices is self._shown else self._indices
        return _reopened, (type(self), self._names, tuple(self._sources), self._keywords(), view)

    def close(self) -> None:
        """Closes the files of this mixture and all its views. The data sets that were given as sources stay open."""
        super().close()
        for source in self._sources:
            source.close()

    @property
    def path(self) -> str:
        """The paths of the sources, joined by " + ", for messages. It cannot be opened."""
        return self._path

    @property
    def sources(self) -> dict[str, Dataset]:
        """The source data sets by name, as they were given. A view stays a view."""
        return {self._name_of(i): source for i, source in enumerate(self._sources)}

    @property
    def notices(self) -> list[dict[str, Any]]:
        """The notices of all sources that are plain folders. Each has the name of its source as ``source``."""
        return [
            {**notice, "source": name if "source" not in notice else f"{name}/{notice['source']}"}
            for name, source in self.sources.items()
            for notice in source.notices
        ]

    def source_of(self, i: int) -> tuple[str, int]:
        """Returns the source of the sample at position i ("outer/inner" in a mixture of mixtures), and the sample's number there.

        The number counts all samples of that data set, also if a view of it is the source.
        """
        sample = self._sample(i)
        name, _, _, first, _ = self._leaf(sample)
        return name, sample - first

    def _of_numbers(self, numbers: Any) -> Dataset:
        """Returns a view of the samples that have these numbers in the whole mixture."""
        import numpy as np

        return _view(self, np.asarray(numbers, np.uint64))

    def _keywords(self) -> dict[str, Any]:
        """Returns the keyword arguments that the mixture was made with."""
        keys: Sequence[Any] = range(len(self._sources)) if self._names is None else self._names
        pairs = zip(keys, self._renames, strict=True)
        rename = {key: dict(zip(names[::2], names[1::2], strict=True)) for key, names in pairs if names}
        found = {"fields": self._wanted, "lacking": self._lacking, "rename": rename or None}
        if self._rule.weights is None:
            return found
        weights = self._rule.weights if self._names is None else dict(zip(self._names, self._rule.weights, strict=True))
        return {**found, "weights": weights, "stop": self._rule.stop, "quota": self._rule.quota}

    def _shares(self, weights: Any = None) -> list[_weights.Share]:
        """Returns the shares of the sources in a mixture with weights. They are computed from `weights` if given, else from its own
        weights."""
        names = [self._name_of(i) for i in range(len(self._sources))]
        given = self._rule.weights if weights is None else _weights.numbers(weights, names, self._names is None)
        return _weights.shares(self, given or ())

    def _unweighted(self) -> Mixture:
        """Returns the mixture without weights, so that each sample comes once an epoch."""
        copy: Mixture = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._rule = _weights.Rule(None, _weights.STOPS[0], _weights.QUOTAS[0])
        return copy

    def _name_of(self, i: int) -> str:
        return str(i) if self._names is None else self._names[i]

    def _leaf(self, sample: int) -> tuple[str, str, str, int, int]:
        low, high = 0, len(self._leaves)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._leaves[middle][3] <= sample else (low, middle)
        return self._leaves[low]

    def _origin(self, sample: int) -> tuple[str, int, str]:
        _, path, _, first, _ = self._leaf(sample)
        return path, sample - first, f"sample {sample - first} ({sample} of the mixture)"

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {_type_text(field)}" for field in self._fields)
        parts = ", ".join(f"{name!r}: {path!r}" for name, path, *_ in self._leaves[:4])
        more = f", and {len(self._leaves) - 4} more" if len(self._leaves) > 4 else ""
        n = f"{self._count}" if self._indices is None else f"{len(self)} of {self._count}"
        return f"Mixture({{{parts}{more}}}, {n} samples, {{{columns}}})"


def _named(sources: Any) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Returns the names of the sources, or None if they are numbered, and the sources."""
    if isinstance(sources, Mapping):
        names = tuple(sources)
        if not all(isinstance(name, str) for name in names):
            raise ArgumentError(f"names of sources are texts, not {names!r}")
        given = list(sources.values())
    elif isinstance(sources, (str, bytes, os.PathLike, Dataset)) or not isinstance(sources, Iterable):
        raise ArgumentError(f"sources is a list of data sets or paths, or a dict of them by name, not {sources!r}")
    else:
        names, given = None, list(sources)
    if not given:
        raise ArgumentError("a mixture has one source or more")
    return names, given


def _opened(given: Sequence[Any]) -> list[Dataset]:
    """Opens the sources. A data set that is given twice is opened once."""
    opened: dict[int, Dataset] = {}
    for source in given:
        if id(source) not in opened:
            opened[id(source)] = _own(source)
    return [opened[id(source)] for source in given]


def _own(source: Any) -> Dataset:
    """Opens a source, or returns a separate handle of one that is already open."""
    if not isinstance(source, Dataset):
        return Dataset(source)
    copy: Dataset = object.__new__(type(source))
    copy.__dict__.update(source.__dict__)
    copy._native = source._native.again()
    if isinstance(source, Mixture) and isinstance(copy, Mixture):
        copy._sources = _opened(source._sources)
    return copy


def _renames(rename: Any, names: tuple[str, ...] | None, n: int) -> tuple[tuple[str, ...], ...]:
    """Returns for each source a flat tuple of its renamed fields: old name, new name, ..."""
    found: list[tuple[str, ...]] = [()] * n
    if rename is not None and not isinstance(rename, Mapping):
        raise ArgumentError(f"rename is a dict by source, such as {{'web': {{'img': 'image'}}}}, not {rename!r}")
    for key, pairs in (rename or {}).items():
        known: list[Any] = list(range(n)) if names is None else list(names)
        if key not in known or isinstance(key, bool):
            raise ArgumentError(f"rename: there is no source {key!r}{_options.nearest(str(key), list(map(str, known)))}")
        if not isinstance(pairs, Mapping) or not all(isinstance(text, str) for pair in pairs.items() for text in pair):
            raise ArgumentError(f"rename[{key!r}] is a dict of old names to new ones, not {pairs!r}")
        found[known.index(key)] = tuple(text for pair in pairs.items() for text in pair)
    return tuple(found)


def _shown(sources: Sequence[Dataset]) -> npt.NDArray[Any] | None:
    """Returns the mixture's numbers of the samples that the sources' views show, or None if they show all."""
    import numpy as np

    if all(source._indices is None for source in sources):
        return None
    firsts = np.cumsum([0, *(source._count for source in sources)]).astype(np.uint64)
    return np.concatenate([source.indices + first for source, first in zip(sources, firsts, strict=False)])


def _reopened(
    kind: type[Mixture],
    names: tuple[str, ...] | None,
    sources: Sequence[Dataset],
    options: Mapping[str, Any],
    view: npt.NDArray[Any] | None,
) -> Dataset:
    """Unpickles a mixture or a view of one. Its sources were unpickled and checked before."""
    mixture = kind(list(sources) if names is None else dict(zip(names, sources, strict=True)), **options)
    return mixture if view is None else _view(mixture, view)


door(__name__, "penstock.mixture")
