"""Signatures and lifetimes of the objects that users call: keywords, close, with, and the type of stats."""

from __future__ import annotations

import inspect
import pickle
import types
import typing

import pytest

import penstock as ps
from penstock.errors import StateError
from penstock.loading import stats


def test_loader_takes_all_but_two_arguments_by_name(packed):
    kinds = [p.kind for name, p in inspect.signature(ps.Loader).parameters.items() if name != "older"]
    assert kinds[:2] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 2
    assert set(kinds[2:]) == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError):
        ps.Loader(packed, 2, True)


def test_no_public_function_has_a_parameter_of_one_letter():
    functions = [ps.decode, ps.pack, ps.verify, ps.Loader, ps.Dataset, ps.Writer]
    functions += [getattr(ps.pli, name) for name in ps.pli.__all__ if callable(getattr(ps.pli, name))]
    short = [(f.__name__, p) for f in functions for p in inspect.signature(f).parameters if len(p) == 1]
    assert short == []


def test_a_closed_dataset_says_so_and_its_loader_goes_on(packed):
    with ps.Dataset(packed) as ds:
        loader = ps.Loader(ds, batch_size=2, num_workers=1, transforms=[])
        count = len(ds)
    with pytest.raises(StateError, match="closed"):
        ds[0]
    ds.close()
    assert sum(len(batch["index"]) for batch in loader) == count
    loader.close()


def test_a_dataset_pickles_by_its_arguments(packed):
    ds = ps.Dataset(packed, allow_unreadable=True)
    again = pickle.loads(pickle.dumps(ds))
    assert (again.path, again.id, len(again)) == (ds.path, ds.id, len(ds))
    view = pickle.loads(pickle.dumps(ds.subset([1, 0])))
    assert list(view.indices) == [1, 0]


def test_attributes_of_a_subclass_are_pickled_and_the_loaders_own_are_not(packed):
    loader = _Named(packed, batch_size=2, num_workers=0, transforms=[])
    extra = loader.__getstate__()["extra"]
    assert extra == {"name": "mine", "later": 7}
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(loader))))
    assert (again.name, again.later, len(again)) == ("mine", 7, len(loader))


class _Named(ps.Loader):
    def __init__(self, *args, **kwargs):
        self.name = "mine"
        super().__init__(*args, **kwargs)
        self.later = 7


def test_stats_are_what_their_type_says(packed):
    def compare(value, kind):
        if not typing.is_typeddict(kind):
            kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (typing.get_origin(kind) or kind,)
            assert isinstance(value, kinds)
            return
        hints = typing.get_type_hints(kind)
        assert list(value) == list(hints)
        for name, hint in hints.items():
            compare(value[name], hint)

    with ps.Loader(packed, batch_size=2, num_workers=1, transforms=[]) as loader:
        next(iter(loader))
        compare(loader.stats(), stats.LoaderStats)
