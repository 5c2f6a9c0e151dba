"""The solver of plans as the C library has it: dicts in, a dict out."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any

import pytest

import penstock as ps
from penstock import _native, _plan_ways
from penstock._whatif import RESOURCES

HIGHS = os.environ.get("PENSTOCK_HIGHS") or _plan_ways.library()
pytestmark = pytest.mark.skipif(HIGHS is None, reason="HiGHS is not installed (scripts/setup_venv.sh build)")
CORES, STORAGE = RESOURCES.index("cores"), RESOURCES.index("storage")
SAMPLES = [1000.0]


def by_resource(**values: float) -> list[float]:
    return [values.get(name, 0.0) for name in RESOURCES]


# Frames of 2048 x 1024: PNG is bound by 16 cores, the other form by a disk of 1 GB/s.
WAYS: list[dict[str, Any]] = [
    {"form": 0, "demands": by_resource(cores=1 / 22, storage=2.32e6), "stored_nbytes": 2.32e6},
    {"form": 1, "demands": by_resource(storage=3.72e6), "stored_nbytes": 3.72e6},
]
SETUP: dict[str, Any] = {"goal": 0, "capacities": by_resource(cores=16, storage=1e9)}
RATE = 352 + (1000 - 2.32 * 352) / 3.72


def solve(setup: dict[str, Any], ways: list[dict[str, Any]] = WAYS, samples: list[float] = SAMPLES) -> dict[str, Any]:
    return _native.plan_solve(setup, samples, ways, HIGHS)


def test_a_mix() -> None:
    answer = solve(SETUP)
    assert answer["samples_per_second"] == pytest.approx(RATE)
    assert answer["shares"] == pytest.approx([352 / RATE, 1 - 352 / RATE])
    assert answer["binding"] == 1 << CORES | 1 << STORAGE
    assert answer["used"][CORES] == pytest.approx(16)
    assert answer["capacities"] == SETUP["capacities"]
    assert answer["stored_nbytes"] == pytest.approx(1000 * (answer["shares"][0] * 2.32e6 + answer["shares"][1] * 3.72e6))
    assert not answer["quota_binds"] and answer["quota_price"] == 0 and answer["cost"] == 0
    single = {"form": 0, "samples_per_second": 352, "stored_nbytes": 2.32e9, "cost": 0}
    assert answer["single"] == pytest.approx(single)
    # Within its range, a price says exactly what more of a resource gives.
    more = 18.0
    assert answer["price_low"][CORES] < more < answer["price_high"][CORES]
    gain = answer["prices"][CORES] * answer["samples_per_second"] * (more - 16)
    faster = solve({**SETUP, "capacities": by_resource(cores=more, storage=1e9)})
    assert faster["samples_per_second"] == pytest.approx(RATE + gain)


def test_each_member_counts() -> None:
    family = {**SETUP, "capacities_most": by_resource(cores=64), "unit_prices": by_resource(cores=0.01), "price": 1.0}
    answer = solve(family)
    assert answer["capacities"][CORES] == pytest.approx(1e9 / 2.32e6 / 22)
    assert answer["cost"] == pytest.approx((1.0 + 0.01 * (answer["capacities"][CORES] - 16)) * 1000 / (1e9 / 2.32e6))
    assert solve({**SETUP, "goal": 1, "least_rate": 380.0})["samples_per_second"] == pytest.approx(380)
    assert solve({**SETUP, "goal": 2, "price": 2.0})["cost"] == pytest.approx(2.0 * 1000 / RATE)
    assert solve({**SETUP, "stored_nbytes": 2.4e9})["quota_binds"]
    lossy = [WAYS[0], {**WAYS[1], "is_lossy": True}]
    assert solve(SETUP, lossy)["shares"] == [1, 0]
    assert solve({**SETUP, "allow_lossy": True}, lossy)["samples_per_second"] == pytest.approx(RATE)
    gpu = [{"demands": by_resource(gpu=1e-3)}]
    setup = {"capacities": by_resource(gpu=1, accelerator=500), "gpu_interference": 0.5}
    assert solve(setup, gpu)["samples_per_second"] == pytest.approx(400)
    # Two classes, of which the second has one way.
    ways = [*copy.deepcopy(WAYS), {"i_class": 1, "form": 0, "demands": by_resource(cores=1 / 22)}]
    assert solve(SETUP, ways, [500.0, 500.0])["shares"][2] == 1


def test_need() -> None:
    def need(form: int, resource: int) -> float:
        return _native.plan_need(SETUP, SAMPLES, WAYS, HIGHS, form, resource, RATE)

    assert need(0, CORES) == pytest.approx(RATE / 22)
    assert need(1, STORAGE) == pytest.approx(RATE * 3.72e6)
    assert need(0xFFFFFFFF, CORES) == pytest.approx(16)
    with pytest.raises(ps.errors.LimitError, match="cores"):
        need(1, CORES)
    with pytest.raises(ps.errors.ArgumentError, match="no way has form 5"):
        need(5, CORES)


def test_errors() -> None:
    with pytest.raises(ps.errors.LimitError, match="the rate that must be reached"):
        solve({**SETUP, "least_rate": 500.0})
    with pytest.raises(ps.errors.ArgumentError, match="way 0: its demand of cores is nan"):
        solve(SETUP, [{"demands": by_resource(cores=float("nan"))}])
    with pytest.raises(ps.errors.ArgumentError, match="key is not known"):
        solve({**SETUP, "speed": 1})
    with pytest.raises(ps.errors.ArgumentError, match="classes"):
        solve(SETUP, [], [])
    with pytest.raises(TypeError):
        solve(SETUP, [3])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        solve(SETUP, WAYS, ["many"])  # type: ignore[list-item]
    with pytest.raises(ps.errors.UnsupportedError, match="highspy"):
        _native.plan_solve(SETUP, SAMPLES, WAYS, "/nonexistent/libhighs.so")


def test_beside_a_program_that_uses_highs() -> None:
    """HiGHS keeps one number of threads for each thread of a program that calls it, and refuses another number."""
    pytest.importorskip("highspy")
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import highspy, test_plan_solver as t
def theirs(n):
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", n)
    x = h.addVariable(lb=0, ub=4)
    return h.maximize(x), h.getObjectiveValue()
first = theirs(3)
ours = t.solve(t.SETUP)["samples_per_second"]
assert abs(ours / t.RATE - 1) < 1e-6, ours
assert theirs(3) == first, first
print("both")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, os.path.dirname(__file__)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "both\n", done.stderr
