"""Compares weighted mixtures with those of other libraries: datasets' interleave_datasets and grain's MapDataset.mix.

Both are installed into an environment of their own, build/mixtures, where they run and print which samples they give. `make
check-long` runs this. The name of this file keeps it out of this folder's other tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import penstock as ps

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "build" / "mixtures"
PACKAGES = ["datasets", "grain"]
SIZES = [19, 5, 40]
LIMIT_S = 1800
# Both programs print lists of (source, number).
INTERLEAVED = """
import json, sys, datasets
sizes, weights, stop = json.loads(sys.argv[1])
sets = [datasets.Dataset.from_dict({"of": [k] * n, "i": list(range(n))}) for k, n in enumerate(sizes)]
sum_ = sum(weights or [1])
mixed = datasets.interleave_datasets(sets, weights and [w / sum_ for w in weights], seed=3, stopping_strategy=stop)
print(json.dumps([[row["of"], row["i"]] for row in mixed]))
"""
MIXED = """
import json, sys, grain
sizes, weights, shuffled = json.loads(sys.argv[1])
sets = [grain.MapDataset.source([(k, i) for i in range(n)]) for k, n in enumerate(sizes)]
if shuffled:
    sets = [part.seed(3).shuffle() for part in sets]
mixed = grain.MapDataset.mix(sets, weights)
print(json.dumps([list(mixed[i]) for i in range(len(mixed))]))
"""


@pytest.fixture(scope="module")
def python() -> str:
    """Returns the interpreter of the other libraries' environment."""
    found, ready = PLACE / "venv" / "bin" / "python", PLACE / "ready"
    if not ready.exists():
        for command in ([sys.executable, "-m", "venv", "--clear", str(PLACE / "venv")],
                        [str(found), "-m", "pip", "install", "-q", *PACKAGES]):  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                                  env={**os.environ, "PIP_CONSTRAINT": os.devnull})  # fmt: skip
            if done.returncode:
                pytest.fail(f"{PACKAGES} cannot be installed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        ready.write_text(" ".join(PACKAGES))
    return str(found)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("mixtures")
    for k, n in enumerate(SIZES):
        with ps.Writer(folder / f"{k}.pst", {"of": ps.Int(), "i": ps.Int()}) as writer:
            for i in range(n):
                writer.write({"of": k, "i": i})
    return [folder / f"{k}.pst" for k in range(len(SIZES))]


def theirs(python: str, program: str, *given: object) -> list[tuple[int, int]]:
    done = subprocess.run([python, "-c", program, json.dumps(given)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(row) for row in json.loads(done.stdout.strip().splitlines()[-1])]


def ours(sets: list[Path], weights: list[float], *, shuffle: bool = False, **options: object) -> list[tuple[int, int]]:
    mixture = ps.Mixture(sets, weights=weights, **options)
    with ps.Loader(mixture, batch_size=1, shuffle=shuffle, seed=3, output="numpy", num_workers=0, cache=None) as loader:
        return [(int(batch["of"][0]), int(batch["i"][0])) for batch in loader]


def farthest(rows: list[tuple[int, int]], weights: list[float]) -> float:
    """Returns the largest distance, in samples, of a source from its exact share at any position."""
    had, far = Counter(), 0.0
    for t, (k, _) in enumerate(rows, 1):
        had[k] += 1
        far = max(far, *(abs(had[j] - t * weight / sum(weights)) for j, weight in enumerate(weights)))
    return far


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted"])
def test_equal_weights_are_those_of_interleave_datasets(python: str, sets: list[Path], stop: str) -> None:
    """Sources give samples by turns, and an exhausted source begins again: both give the same samples in the same order."""
    wanted = theirs(python, INTERLEAVED, SIZES, None, stop)
    assert ours(sets, [1, 1, 1], stop=stop, quota=3) == wanted


@pytest.mark.parametrize("stop", ["first_exhausted", "all_exhausted"])
def test_shares_beside_interleave_datasets(python: str, sets: list[Path], stop: str) -> None:
    """interleave_datasets draws at random, so its shares are right on average; Penstock's are right at each position. Both end
    by the same rule."""
    weights = [5.0, 2.0, 3.0]
    other = theirs(python, INTERLEAVED, SIZES, weights, stop)
    mine = ours(sets, weights, stop=stop, quota=1)
    for rows in (other, mine):
        given = [len({i for k, i in rows if k == j}) for j in range(3)]
        if stop == "all_exhausted":
            assert given == SIZES
        else:
            assert max(Counter(rows).values()) == 1
    print(f"{stop}: {len(other)} samples of interleave_datasets, {len(mine)} of ours; farthest from the shares "
          f"{farthest(other, weights):.2f} and {farthest(mine, weights):.2f}")  # fmt: skip
    assert farthest(mine, weights) < 1 < farthest(other, weights)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [5.0, 2.0, 3.0], [0.1, 0.05, 0.85], [1.0, 1.0, 8.0]])
def test_shares_are_those_of_mix(python: str, sets: list[Path], weights: list[float], shuffle: bool) -> None:
    """grain also gives exact shares, and ends before a source repeats. Up to there each source gives as many samples as in
    Penstock, or one more or fewer."""
    other = theirs(python, MIXED, SIZES, weights, shuffle)
    mine = ours(sets, weights, stop="first_exhausted", quota=1, shuffle=shuffle)
    assert max(Counter(other).values()) == max(Counter(mine).values()) == 1
    n = min(len(other), len(mine))
    print(f"{weights}: {len(other)} samples of grain, {len(mine)} of ours; farthest from the shares "
          f"{farthest(other, weights):.2f} and {farthest(mine, weights):.2f}")  # fmt: skip
    assert len(mine) >= len(other) and farthest(mine, weights) < 1
    one, two = Counter(k for k, _ in other[:n]), Counter(k for k, _ in mine[:n])
    assert all(abs(one[k] - two[k]) <= 1 for k in range(3))
