"""Mixtures with weights: quotas, ends of epochs, states with other ranks, weights that change, and what is refused.

PENSTOCK_TEST_MIXTURES is the number of states that are resumed with other ranks, 40 if it is not set; `make check-long` takes
2,000. Half as many epochs are tested with changing weights and ranks.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from flat import keywords
from penstock.errors import ArgumentError, LimitError, StateError

N_STATES = int(os.environ.get("PENSTOCK_TEST_MIXTURES") or 40)
SIZES = {"a": 19, "b": 5, "c": 40}
FIRSTS = {"a": 0, "b": 19, "c": 24}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Makes three data sets of numbers."""
    folder = tmp_path_factory.mktemp("weights")
    for name, n in SIZES.items():
        with ps.Writer(folder / f"{name}.pst", {"label": ps.Int()}) as writer:
            for i in range(n):
                writer.write({"label": FIRSTS[name] + i})
    return {name: folder / f"{name}.pst" for name in SIZES}


def loader_of(dataset: object, **options: object) -> ps.Loader:
    given = {"batch_size": 10, "seed": 5, "shuffle": True, "output": "numpy", "num_workers": 0, "cache": None, **options}
    return ps.Loader(dataset, **keywords(**given))


def source_of(label: int) -> str:
    return "a" if label < 19 else "b" if label < 24 else "c"


def labels_of(loader: ps.Loader) -> list[list[int]]:
    return [batch["label"].tolist() for batch in loader]


def counts(labels: list[int]) -> dict[str, int]:
    return dict(Counter(map(source_of, labels)))


def test_batches_have_their_quotas(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture(paths, weights={"c": 2, "a": 7, "b": 1})
    assert len(mixture) == 64
    for workers, world_size in ((0, 1), (2, 3)):
        with loader_of(mixture, num_workers=workers, rank=world_size - 1, world_size=world_size) as loader:
            assert len(loader) == math.ceil(20 / world_size)
            batches = labels_of(loader)
            assert len(batches) == len(loader)
            for batch in batches[:-1]:
                assert counts(batch) == {"a": 7, "b": 1, "c": 2}
            assert loader.epoch == 1
            delivered = {name: source["delivered"] for name, source in loader.stats()["sources"].items()}
            assert delivered == counts([label for batch in batches for label in batch])


def test_each_sample_once_a_pass(paths: dict[str, Path]) -> None:
    """A source delivers all of its samples before any comes again. Each pass over it has a new order."""
    with loader_of(ps.Mixture(paths, weights=dict.fromkeys(paths, 1), quota=3)) as loader:
        labels = [label for batch in labels_of(loader) for label in batch]
    assert len(labels) == 120  # the 40 samples of c set the end of the epoch
    for name, n in SIZES.items():
        own = [label for label in labels if source_of(label) == name]
        assert len(own) == 40
        for first in range(0, 40 - n + 1, n):
            assert len(set(own[first : first + n])) == n
    bs = [label for label in labels if source_of(label) == "b"]
    assert len({tuple(bs[first : first + 5]) for first in range(0, 40, 5)}) > 1


def test_ends_of_epochs(paths: dict[str, Path]) -> None:
    for stop, wanted in (("all_exhausted", 80), ("first_exhausted", 20)):
        with loader_of(ps.Mixture(list(paths.values()), weights=[1, 1, 2], stop=stop, quota=4), batch_size=4) as loader:
            assert len(loader) == wanted // 4 == len(labels_of(loader)) and f"{wanted // 4} batches" in repr(loader)
    with loader_of(ps.Mixture(paths, weights={"a": 1, "b": 0, "c": 1}, stop="first_exhausted", quota=2)) as loader:
        assert sum(map(len, labels_of(loader))) == 38  # the epoch does not wait for b
    with loader_of(ps.Mixture(paths, weights={"a": 1, "b": 1, "c": 1}, stop="endless")) as loader:
        with pytest.raises(TypeError, match="endless"):
            len(loader)
        assert "endless" in repr(loader) and loader.remaining > 2**50
        for i, batch in enumerate(loader):
            assert len(batch["label"]) == 10
            if i == 300:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["position"] == 3010
        wanted_next = loader.replay(301)["label"].tolist()
        loader.load_state_dict(state)
        assert next(iter(loader))["label"].tolist() == wanted_next


def test_quota_of_the_epoch(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights={"a": 1, "b": 1, "c": 2}, quota="epoch")) as loader:
        batches = labels_of(loader)
    assert len({counts(batch).get("c", 0) for batch in batches}) > 2  # as random draws
    total = counts([label for batch in batches for label in batch])
    assert abs(total["c"] - 2 * total["a"]) <= 2 and abs(total["b"] - total["a"]) <= 1


def test_without_shuffle(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights={"a": 2, "b": 1, "c": 1}), shuffle=False, batch_size=4) as loader:
        batches = labels_of(loader)
        assert [sorted(batch) for batch in batches[:3]] == [[0, 1, 19, 24], [2, 3, 20, 25], [4, 5, 21, 26]]
        assert labels_of(loader) == batches


def test_nested(paths: dict[str, Path]) -> None:
    """Weights of an inner mixture divide its share; an inner mixture without weights counts as one source."""
    inner = ps.Mixture({"a": paths["a"], "b": paths["b"]}, weights={"a": 4, "b": 1})
    with loader_of(ps.Mixture({"in": inner, "c": paths["c"]}, weights={"in": 1, "c": 1})) as loader:
        for batch in labels_of(loader):
            assert counts(batch) == {"a": 4, "b": 1, "c": 5}
        assert list(loader.stats()["sources"]) == ["in/a", "in/b", "c"]
    with pytest.raises(ArgumentError, match="source 'in' is a mixture with weights"):
        ps.Mixture({"in": inner, "c": paths["c"]})
    plain = ps.Mixture([paths["a"], paths["b"]])
    with loader_of(ps.Mixture([plain, paths["c"]], weights=[1, 1])) as loader:
        labels = [label for batch in labels_of(loader) for label in batch]
        of_plain = [label for label in labels if label < 24]
        assert len(of_plain) == len(labels) / 2 and set(of_plain[:25]) == set(range(24))


def test_views_are_drawn(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture({"a": ps.Dataset(paths["a"]).subset([3, 7]), "c": paths["c"]}, weights={"a": 1, "c": 1})
    with loader_of(mixture, batch_size=4) as loader:
        labels = [label for batch in labels_of(loader) for label in batch]
        assert Counter(labels)[3] == Counter(labels)[7] == 20 and len(labels) == 80
    view = mixture.subset([0, 1, 2, 5])
    assert len(view) == 4
    with loader_of(view, batch_size=4) as loader:
        assert [sorted(batch) for batch in labels_of(loader)] == [[3, 7, 24, 27]]
    with pytest.raises(ArgumentError, match="source 'c' has a weight, and no samples among"):
        loader_of(mixture.subset([0, 1]))
    with loader_of(mixture, indices=[0, 2, 3], batch_size=2) as loader:
        assert [counts(batch) for batch in labels_of(loader)] == [{"a": 1, "c": 1}] * 2


def test_augmentation_differs_each_time(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights={"a": 0, "b": 1, "c": 0}, stop="endless"), batch_size=5) as loader:
        batches = iter(loader)
        assert sorted(next(batches)["label"].tolist()) == sorted(next(batches)["label"].tolist()) == [*range(19, 24)]


# States ------------------------------------------------------------------------------------------------------


def rest_of(dataset: ps.Dataset, state: dict[str, object], world_size: int, **options: object) -> list[int]:
    """Returns what all ranks together deliver from a state to the end of its epoch, by position and without padding."""
    steps: list[list[list[int]]] = []
    for rank in range(world_size):
        with loader_of(dataset, rank=rank, world_size=world_size, **options) as loader:
            loader.load_state_dict(state)
            steps.append(labels_of(loader))
    return [label for step in zip(*steps, strict=True) for batch in step for label in batch]


def test_states_go_on_with_other_ranks(paths: dict[str, Path]) -> None:
    draw = random.Random(52)
    for _ in range(N_STATES):
        weights = {name: draw.randrange(1, 9) for name in paths}
        mixture = ps.Mixture(paths, weights=weights, quota=draw.choice([4, 7, "epoch"]))
        world_size, options = draw.randrange(1, 4), {"seed": draw.randrange(99), "batch_size": draw.randrange(2, 9)}
        rank = draw.randrange(world_size)
        with loader_of(mixture, rank=rank, world_size=world_size, **options) as loader:
            passed = iter(loader)
            for _ in range(draw.randrange(len(loader))):
                if draw.random() < 0.2:
                    loader.set_weights({name: draw.randrange(1, 9) for name in paths})
                next(passed)
            state = json.loads(json.dumps(loader.state_dict()))
            del passed
        options.pop("batch_size")
        whole = rest_of(mixture, {**state, "position": 0}, 1, batch_size=5, **options)
        n = draw.randrange(1, 5)
        rest = rest_of(mixture, state, n, batch_size=draw.randrange(1, 8), **options)
        wanted = whole[state["position"] :]
        assert rest[: len(wanted)] == wanted and len(rest) < len(wanted) + n


def test_weights_change_at_a_step(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture(paths, weights={"a": 1, "b": 0, "c": 1})
    with loader_of(mixture) as loader, loader_of(mixture) as other:
        n, batches = len(loader), iter(loader)
        seen = [next(batches)["label"].tolist() for _ in range(3)]
        assert all(counts(batch) == {"a": 5, "c": 5} for batch in seen)
        loader.set_weights({"a": 1, "b": 3, "c": 1})
        assert len(loader) == n
        later = [batch["label"].tolist() for batch in batches]
        assert all(counts(batch) == {"a": 2, "b": 6, "c": 2} for batch in later[:4]) and len(seen) + len(later) == n
        of_a = [label for batch in seen + later for label in batch if label < 19]
        assert len(set(of_a[:19])) == 19  # source a continues its pass
        again = labels_of(loader)  # the new weights hold from the first batch of the next epoch
        assert counts(again[0]) == {"a": 2, "b": 6, "c": 2} and len(again) == n
        state = loader.state_dict()
        assert [entry[:2] for entry in state["mixture"]["changes"]] == [[0, 30]]
        other.load_state_dict({**state, "epoch": 0, "position": 0})
        assert labels_of(other) == seen + later and labels_of(other) == again
        copy = pickle.loads(pickle.dumps(other))
        assert copy.state_dict() == other.state_dict() and labels_of(copy) == labels_of(other)
        copy.close()


def test_a_change_forgets_those_behind_it(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights=dict.fromkeys(paths, 1))) as loader:
        loader.set_epoch(4)
        loader.set_weights({"a": 1, "b": 0, "c": 0})
        loader.set_epoch(2)
        loader.set_weights({"a": 0, "b": 1, "c": 0})
        loader.set_weights({"a": 0, "b": 0, "c": 1})
        assert [entry[:2] for entry in loader.state_dict()["mixture"]["changes"]] == [[2, 0]]
        assert counts(labels_of(loader)[0]) == {"c": 10}
        loader.set_epoch(1)
        assert len(counts(labels_of(loader)[0])) == 3
        before = loader.state_dict()
        for wrong, words in [({"a": 1}, "source 'b' has none"), ([1, 2], "2 weights and 3"), (dict.fromkeys(paths, 0), "sum is 0")]:
            with pytest.raises(ArgumentError, match=words):
                loader.set_weights(wrong)
        with pytest.raises(ArgumentError, match="source 0 has the weight"):
            loader.set_weights({"a": 1e-300, "b": 1, "c": 1})
        assert loader.state_dict() == before
    with loader_of(ps.Mixture(paths)) as loader, pytest.raises(ArgumentError, match="made with weights"):
        loader.set_weights({"a": 1, "b": 1, "c": 1})


def test_a_run_has_1024_changes(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights=dict.fromkeys(paths, 1)), batch_size=1) as loader:
        for n in range(1024):
            loader.set_epoch(n)
            loader.set_weights({"a": 1 + n % 5, "b": 1, "c": 1})
        before = loader.state_dict()
        loader.set_epoch(1024)
        with pytest.raises(LimitError, match="more than 1024"):
            loader.set_weights(dict.fromkeys(paths, 1))
        assert loader.state_dict() == {**before, "epoch": 1024} and len(labels_of(loader)) == len(loader)


def test_set_weights_before_a_pass_that_does_not_count(paths: dict[str, Path]) -> None:
    with loader_of(ps.Mixture(paths, weights=dict.fromkeys(paths, 1))) as loader:
        first = next(iter(loader))["label"].tolist()
        loader.set_weights({"a": 0, "b": 0, "c": 1})
        batches = labels_of(loader)  # begins at the same position
        assert batches[0] == first and counts(batches[1]) == {"c": 10} and loader.epoch == 1


UNEVEN = {
    "threads": {"num_workers": 2},
    "functions": {"sample_function": dict, "function_workers": 2, "function_kind": "threads"},
}


@pytest.mark.parametrize("options", list(UNEVEN.values()), ids=list(UNEVEN))
def test_ranks_that_have_had_their_last_batch_change_alike(paths: dict[str, Path], options: dict[str, object]) -> None:
    """Without padding one of three ranks has one batch more. All ranks change the weights after the same batch, so all have the
    same order.
    """
    mixture = ps.Mixture(paths, weights={"a": 1, "b": 0, "c": 0}, quota=1)  # an epoch of 19 positions, in steps of 9
    given = {"batch_size": 3, "pad_epoch": False, "world_size": 3, **options}
    loaders = [loader_of(mixture, rank=rank, **given) for rank in range(3)]
    passes = [iter(loader) for loader in loaders]
    steps = [[next(one)["label"].tolist() for one in passes] for _ in range(1)]
    loaders[2].skip_batch()  # rank 2 skips its last batch
    steps.append([next(one)["label"].tolist() for one in passes[:2]])
    assert [loader.remaining for loader in loaders] == [1, 0, 0]
    for loader in loaders:
        loader.set_weights({"a": 0, "b": 0, "c": 1})
    changes = [loader.state_dict()["mixture"]["changes"] for loader in loaders]
    assert [[entry[:2] for entry in found] for found in changes] == [[[0, 18]]] * 3
    steps.append([batch["label"].tolist() for one in passes for batch in one])
    state = json.loads(json.dumps(loaders[0].state_dict()))
    assert (state["epoch"], state["position"]) == (1, 0)
    wanted = rest_of(mixture, {**state, "epoch": 0}, 1, batch_size=5)
    got = [label for step in steps for batch in step for label in batch]
    assert got == wanted[:15] + wanted[18:] and counts(wanted[18:]) == {"c": 1}
    for rank, loader in enumerate(loaders):
        loader.set_weights({"a": 0, "b": 1, "c": 0})  # between epochs all ranks are at one position again
        loader.set_world(rank, 3, state=loaders[0].state_dict())
    for loader in loaders:
        assert counts([label for batch in labels_of(loader) for label in batch]).keys() == {"b"}
        loader.close()


def test_a_pass_that_ends_for_all_ranks_changes_the_next_epoch(paths: dict[str, Path]) -> None:
    for options in ({"drop_last": True}, {"pad_epoch": True}, {"pad_epoch": False, "indices": range(18)}):
        mixture = ps.Mixture(paths, weights={"a": 1, "b": 0, "c": 0}, quota=1)
        for skips in (False, True):
            with loader_of(mixture, rank=2, world_size=3, batch_size=3, **options) as loader:
                batches = iter(loader)
                while loader.remaining > skips:
                    next(batches)
                if skips:
                    loader.skip_batch()
                loader.set_weights({"a": 1, "b": 0, "c": 0})
                assert loader.state_dict()["mixture"]["changes"][0][:2] == [1, 0]


class Ranks:
    """Loaders of one mixture that play ranks. Ranks join and leave while weights change."""

    def __init__(self, mixture: ps.Mixture, draw: random.Random) -> None:
        self.mixture, self.draw = mixture, draw
        self.options = {"batch_size": draw.randrange(2, 6), "seed": draw.randrange(99), "num_workers": draw.randrange(2)}
        self.loaders = [loader_of(mixture, rank=0, world_size=1, **self.options)]
        self.passes = [iter(self.loaders[0])]

    def state(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(json.dumps(self.loaders[0].state_dict()))
        assert all(loader.state_dict() == found for loader in self.loaders)
        return found

    def change_weights(self) -> None:
        weights = {name: self.draw.randrange(1, 9) for name in SIZES}
        for loader in self.loaders:
            loader.set_weights(weights)

    def change_world(self) -> None:
        """Some ranks leave, some stay, and some join with a state or as a pickle."""
        state, world = self.state(), self.draw.randrange(1, 5)
        for loader in self.loaders[world:]:
            loader.close()
        del self.loaders[world:], self.passes[world:]
        for rank in range(world):
            if rank < len(self.loaders):
                self.loaders[rank].set_world(rank, world, state=state)
                continue
            if self.draw.random() < 0.5:
                loader = loader_of(self.mixture, rank=rank, world_size=world, **self.options)
                loader.load_state_dict(state)
            else:
                loader = pickle.loads(pickle.dumps(self.loaders[0]))
                loader.set_world(rank, world, state=state)
            self.loaders.append(loader)
            self.passes.append(iter(loader))

    def step(self) -> list[list[int]]:
        return [batch["label"].tolist() for batch in (next(one, None) for one in self.passes) if batch is not None]


def test_weights_and_ranks_change_in_one_epoch(paths: dict[str, Path]) -> None:
    """Whatever the order of calls, all ranks together deliver the order that a lone rank makes from the last state."""
    draw = random.Random(54)
    for _ in range(max(1, N_STATES // 2)):
        weights = {name: draw.randrange(1, 9) for name in paths}
        mixture = ps.Mixture(paths, weights=weights, quota=draw.choice([4, "batch", "epoch"]))
        ranks, given, n_changes = Ranks(mixture, draw), [], [0, 0]
        while ranks.loaders[0].remaining:
            for i, change in enumerate((ranks.change_weights, ranks.change_world)):
                if draw.random() < 0.3:
                    change()
                    n_changes[i] += 1
            step = ranks.step()
            assert len(step) == len(ranks.loaders)
            given += [label for batch in step for label in batch]
        state = ranks.state()
        for loader in ranks.loaders:
            loader.close()
        quota = mixture._rule.quota
        alone = ps.Mixture(paths, weights=weights, quota=ranks.options["batch_size"] if quota == "batch" else quota)
        wanted = rest_of(alone, {**state, "epoch": 0, "position": 0}, 1, seed=state["seed"], batch_size=7)
        assert given[: len(wanted)] == wanted and len(given) < len(wanted) + 4
    assert min(n_changes) > 0 and len(state["mixture"]["changes"]) > 1


CALLS = {
    "set_weights": lambda loader: loader.set_weights({"a": 0, "b": 0, "c": 1}),
    "set_epoch": lambda loader: loader.set_epoch(3),
    "skip_batch": lambda loader: loader.skip_batch(),
    "load_state_dict": lambda loader: loader.load_state_dict(loader.state_dict()),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_refused_while_a_batch_is_made(paths: dict[str, Path], call: str) -> None:
    """Refused, because the batch that is being made would be delivered, and its samples would come again after it."""
    refused = []

    def collate(batch: dict[str, object]) -> dict[str, object]:
        try:
            CALLS[call](loader)
        except StateError as error:
            refused.append(str(error))
        return batch

    mixture = ps.Mixture(paths, weights=dict.fromkeys(paths, 1))
    with loader_of(mixture, collate_fn=collate) as loader, loader_of(mixture) as other:
        assert labels_of(loader) == labels_of(other) and loader.state_dict() == other.state_dict()
        assert len(refused) == len(loader) and f"{call}() is for between two steps" in refused[0]


def test_a_state_that_is_refused_changes_no_weights(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture(paths, weights=dict.fromkeys(paths, 1))
    with loader_of(mixture) as loader, loader_of(mixture) as other:
        other.set_weights({"a": 0, "b": 0, "c": 1})
        batches = iter(loader)
        seen = [next(batches)["label"].tolist()]
        before = loader.state_dict()
        for wrong in ({"skipped": -1}, {"batch_size": 0}, {"height": 24}, {"position": 10**6}):
            with pytest.raises(ArgumentError):
                loader.load_state_dict({**other.state_dict(), **wrong})
            assert loader.state_dict() == before
        seen += [batch["label"].tolist() for batch in batches]
        loader.load_state_dict({**before, "position": 0})
        assert labels_of(loader) == seen


def test_states_of_other_mixtures_are_refused(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture(paths, weights={"a": 1, "b": 1, "c": 2})
    with loader_of(mixture) as loader:
        loader.set_weights({"a": 1, "b": 2, "c": 1})
        state = json.loads(json.dumps(loader.state_dict()))
    others = [
        ("other weights", ps.Mixture(paths, weights={"a": 1, "b": 1, "c": 1}), {}),
        ("another stop", ps.Mixture(paths, weights={"a": 1, "b": 1, "c": 2}, stop="first_exhausted"), {}),
        ("another quota: it is 10, here it is 5", mixture, {"batch_size": 5}),
        ("had weights of sources, this one has none", ps.Mixture(paths), {}),
        ("another data set", ps.Mixture([paths["a"], paths["c"], paths["b"]], weights=[1, 1, 2]), {}),
    ]
    for words, other, options in others:
        with loader_of(other, **options) as loader:
            before = loader.state_dict()
            with pytest.raises(ArgumentError, match=words):
                loader.load_state_dict(state)
            assert loader.state_dict() == before and len(labels_of(loader)[0]) == loader.batch_size
    with loader_of(ps.Mixture(paths, weights={"a": 2, "b": 2, "c": 4}, quota=10), batch_size=5) as loader:
        loader.load_state_dict(state)  # the same shares and quota
    with loader_of(ps.Mixture(paths)) as loader:
        plain = loader.state_dict()
    with loader_of(mixture) as loader:
        with pytest.raises(ArgumentError, match="had no weights of sources, this one has some"):
            loader.load_state_dict(plain)
        for entry in (7, "x", [[0, 0]], [[0, 0, [1, 1]]], [[0, 0, [1, -1, 1]]], [[0, 10**9, [1, 1, 1]]], [[-1, 0, [1, 1, 1]]],
                      [[0, 0, [1, None, 1]]], [[3, 0, [1, 1, 1]], [1, 0, [1, 1, 1]]], [[0, 0, [1, 1, 1]]] * 1025):  # fmt: skip
            before = loader.state_dict()
            with pytest.raises(ps.PenstockError):
                loader.load_state_dict({**state, "mixture": {**state["mixture"], "changes": entry}})
            assert loader.state_dict() == before
        for wrong in ({}, {**state["mixture"], "more": 1}, [1], {**state["mixture"], "weights": "abc"}):
            with pytest.raises(ArgumentError):
                loader.load_state_dict({**state, "mixture": wrong})
        dropped = {**state, "mixture": {**state["mixture"], "changes": []}}
        with pytest.raises(ArgumentError, match="order_hash"):
            loader.load_state_dict(dropped)
        loader.load_state_dict(state)


# Arguments, other uses ---------------------------------------------------------------------------------------


def test_arguments(paths: dict[str, Path], tmp_path: Path) -> None:
    with ps.Writer(tmp_path / "none.pst", {"label": ps.Int()}):
        pass
    some = list(paths.values())
    for wrong, words in [
        ({"weights": [1, 1]}, "2 weights and 3 sources"),
        ({"weights": [1, 1, math.nan]}, "source '2' has the weight nan"),
        ({"weights": [1, -1, 1]}, "source '1' has the weight -1"),
        ({"weights": [1, math.inf, 1]}, "source '1' has the weight inf"),
        ({"weights": [1, True, 1]}, "source '1' has the weight True"),
        ({"weights": [1, "1", 1]}, "source '1' has the weight '1'"),
        ({"weights": [0, 0, 0]}, "sum is 0"),
        ({"weights": "111"}, "weights are numbers"),
        ({"weights": 3}, "weights are numbers"),
        ({"weights": {"0": 1}}, "weights is a list"),
        ({"sources": paths, "weights": {"a": 1, "b": 1}}, "source 'c' has none"),
        ({"sources": paths, "weights": {"a": 1, "b": 1, "c": 1, "cc": 1}}, "no source 'cc'"),
        ({"weights": [1, 1, 1], "stop": "exhausted"}, "stop"),
        ({"weights": [1, 1, 1], "quota": 0}, "quota"),
        ({"weights": [1, 1, 1], "quota": "batches"}, "quota"),
        ({"weights": [1, 1, 1], "quota": 1.5}, "quota"),
        ({"stop": "endless"}, "with weights"),
        ({"quota": 8}, "with weights"),
        ({"sources": [*some, tmp_path / "none.pst"], "weights": [1, 1, 1, 1]}, "source '3' has a weight, and no samples"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            ps.Mixture(**{"sources": some, **wrong})
    ps.Mixture([*some, tmp_path / "none.pst"], weights=[1, 1, 1, 0])
    weighted = ps.Mixture(some, weights=np.ones(3))
    for options, words in [({"order": "pages"}, "page order"), ({"weights": np.ones(64)}, "weights of samples"),
                           ({"repeats": 2}, "repeats")]:  # fmt: skip
        with pytest.raises(ArgumentError, match=words):
            loader_of(weighted, **options)
    with pytest.raises(ArgumentError, match="no whole block of 10 samples"):
        loader_of(ps.Mixture(some, weights=[1, 99, 1], stop="first_exhausted"))
    with loader_of(ps.Mixture([paths["b"]], weights=[1])) as loader:  # one source
        assert len(labels_of(loader)) == 1 and loader.stats()["sources"]["0"]["delivered"] == 10


def test_torch_draws_by_itself(paths: dict[str, Path]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match="WeightedRandomSampler"):
        ps.TorchDataset(ps.Mixture(paths, weights=dict.fromkeys(paths, 1)))


def test_pickles_and_configurations(paths: dict[str, Path]) -> None:
    mixture = ps.Mixture({name: str(path) for name, path in paths.items()}, weights={"a": 1, "b": 2, "c": 3}, quota=6)
    numbered = ps.Mixture(list(map(str, paths.values())), weights=[1, 2, 3], stop="first_exhausted")
    for made in (mixture, numbered, mixture.subset(range(0, 64, 3))):
        with loader_of(made, batch_size=6) as loader, loader_of(pickle.loads(pickle.dumps(made)), batch_size=6) as copy:
            wanted = labels_of(loader)
            assert labels_of(copy) == wanted
            with ps.Loader.from_config(json.loads(json.dumps(loader.config()))) as again:
                assert labels_of(again) == wanted


def test_bad_samples_are_replaced_from_their_source(tmp_path: Path) -> None:
    """A damaged sample is replaced from its own source, so the shares do not change."""
    for name in "ab":
        with ps.Writer(tmp_path / f"{name}.pst", {"data": ps.Bytes(), "label": ps.Int()}) as writer:
            for i in range(12):
                writer.write({"data": bytes([i + 1]) * 999, "label": "ab".index(name) * 100 + i})
    dataset = ps.Dataset(tmp_path / "a.pst")
    for shard in sorted((tmp_path / "a.pst").glob("shard-*")):
        data = bytearray(shard.read_bytes())
        at = data.find(b"\x04" * 999)
        if at >= 0:
            data[at + 5] ^= 0x55
            shard.write_bytes(data)
    dataset.close()
    mixture = ps.Mixture([tmp_path / "a.pst", tmp_path / "b.pst"], weights=[2, 1])
    with loader_of(mixture, batch_size=6, on_error="replace") as loader:
        for batch in labels_of(loader):
            assert sum(label < 100 for label in batch) == 4 and 3 not in batch
        assert loader.stats()["samples"]["replaced"] > 0
    with loader_of(mixture, batch_size=6, on_error="skip") as loader:
        assert {len(batch) for batch in labels_of(loader)} == {5, 6}


