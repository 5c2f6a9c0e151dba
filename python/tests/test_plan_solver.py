"""The C library's solver of plans: dicts in, a dict out. It uses highspy or the library of HiGHS, which must agree; and modules
that fail or return wrong results.
"""

from __future__ import annotations

import copy
import math
import os
import random
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from conftest import highs_library
from penstock import _native
from penstock.planning import solver as _solver
from penstock.stalls.model import RESOURCES

np = pytest.importorskip("numpy")
CORES, STORAGE, GPU, CACHE = (RESOURCES.index(name) for name in ("cores", "storage", "gpu", "cache"))
SAMPLES = [1000.0]


def module() -> Any:
    """Returns the function that calls highspy."""
    pytest.importorskip("highspy", reason="highspy is not installed (scripts/setup_venv.sh build)")
    return _solver.solve_lp


def library() -> str:
    return highs_library() or pytest.skip("there is no library of HiGHS (scripts/setup_venv.sh check, or PENSTOCK_HIGHS)")


@pytest.fixture(params=[module, library])
def solver(request: pytest.FixtureRequest) -> Any:
    return request.param()


def by_resource(**values: float) -> list[float]:
    return [values.get(name, 0.0) for name in RESOURCES]


# Frames of 2048 x 1024: with PNG 16 cores are the bottleneck, with the other form a disk of 1 GB/s.
WAYS: list[dict[str, Any]] = [
    {"form": 0, "demands": by_resource(cores=1 / 22, storage=2.32e6), "stored_nbytes": 2.32e6},
    {"form": 1, "demands": by_resource(storage=3.72e6), "stored_nbytes": 3.72e6},
]
SETUP: dict[str, Any] = {"goal": 0, "capacities": by_resource(cores=16, storage=1e9)}
RATE = 352 + (1000 - 2.32 * 352) / 3.72


def solve(
    solver: Any, setup: dict[str, Any], ways: list[dict[str, Any]] = WAYS, samples: list[float] = SAMPLES
) -> dict[str, Any]:
    return _native.plan_solve(setup, samples, ways, solver)


def test_a_mix(solver: Any) -> None:
    answer = solve(solver, SETUP)
    assert answer["samples_per_second"] == pytest.approx(RATE)
    assert answer["shares"] == pytest.approx([352 / RATE, 1 - 352 / RATE])
    assert answer["binding"] == 1 << CORES | 1 << STORAGE
    assert answer["used"][CORES] == pytest.approx(16)
    assert answer["capacities"] == SETUP["capacities"]
    assert answer["stored_nbytes"] == pytest.approx(1000 * (answer["shares"][0] * 2.32e6 + answer["shares"][1] * 3.72e6))
    assert not answer["quota_binds"] and answer["quota_price"] == 0 and answer["cost"] == 0
    single = {"form": 0, "samples_per_second": 352, "stored_nbytes": 2.32e9, "cost": 0}
    assert answer["single"] == pytest.approx(single)
    # Within its range, a price says exactly how much one more unit of a resource improves the goal.
    more = 18.0
    assert answer["price_low"][CORES] < more < answer["price_high"][CORES]
    gain = answer["prices"][CORES] * answer["samples_per_second"] * (more - 16)
    faster = solve(solver, {**SETUP, "capacities": by_resource(cores=more, storage=1e9)})
    assert faster["samples_per_second"] == pytest.approx(RATE + gain)


def test_each_member_counts(solver: Any) -> None:
    family = {**SETUP, "capacities_most": by_resource(cores=64), "unit_prices": by_resource(cores=0.01), "price": 1.0}
    answer = solve(solver, family)
    assert answer["capacities"][CORES] == pytest.approx(1e9 / 2.32e6 / 22)
    assert answer["cost"] == pytest.approx((1.0 + 0.01 * (answer["capacities"][CORES] - 16)) * 1000 / (1e9 / 2.32e6))
    assert solve(solver, {**SETUP, "goal": 1, "least_rate": 380.0})["samples_per_second"] == pytest.approx(380)
    assert solve(solver, {**SETUP, "goal": 2, "price": 2.0})["cost"] == pytest.approx(2.0 * 1000 / RATE)
    assert solve(solver, {**SETUP, "stored_nbytes": 2.4e9})["quota_binds"]
    lossy = [WAYS[0], {**WAYS[1], "is_lossy": True}]
    assert solve(solver, SETUP, lossy)["shares"] == [1, 0]
    assert solve(solver, {**SETUP, "allow_lossy": True}, lossy)["samples_per_second"] == pytest.approx(RATE)
    gpu = [{"demands": by_resource(gpu=1e-3)}]
    setup = {"capacities": by_resource(gpu=1, accelerator=500), "gpu_interference": 0.5}
    assert solve(solver, setup, gpu)["samples_per_second"] == pytest.approx(400)
    # Two classes; the second has only one way.
    ways = [*copy.deepcopy(WAYS), {"i_class": 1, "form": 0, "demands": by_resource(cores=1 / 22)}]
    assert solve(solver, SETUP, ways, [500.0, 500.0])["shares"][2] == 1


def test_need(solver: Any) -> None:
    def need(form: int, resource: int) -> float:
        return _native.plan_need(SETUP, SAMPLES, WAYS, solver, form, resource, RATE)

    assert need(0, CORES) == pytest.approx(RATE / 22)
    assert need(1, STORAGE) == pytest.approx(RATE * 3.72e6)
    assert need(0xFFFFFFFF, CORES) == pytest.approx(16)
    with pytest.raises(ps.errors.LimitError, match="cores"):
        need(1, CORES)
    with pytest.raises(ps.errors.ArgumentError, match="no way has form 5"):
        need(5, CORES)


def test_errors(solver: Any) -> None:
    with pytest.raises(ps.errors.LimitError, match="the rate that must be reached"):
        solve(solver, {**SETUP, "least_rate": 500.0})
    with pytest.raises(ps.errors.ArgumentError, match="way 0: its demand of cores is nan"):
        solve(solver, SETUP, [{"demands": by_resource(cores=float("nan"))}])
    with pytest.raises(ps.errors.ArgumentError, match="key is not known"):
        solve(solver, {**SETUP, "speed": 1})
    with pytest.raises(ps.errors.ArgumentError, match="classes"):
        solve(solver, SETUP, [], [])
    with pytest.raises(TypeError):
        solve(solver, SETUP, [3])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        solve(solver, SETUP, WAYS, ["many"])  # type: ignore[list-item]
    with pytest.raises(ps.errors.UnsupportedError, match="cannot be loaded: /nonexistent/libhighs.so"):
        solve("/nonexistent/libhighs.so", SETUP)
    for other in (7, b"bytes", "\0"):
        with pytest.raises((TypeError, ps.errors.UnsupportedError)):
            solve(other, SETUP)


# Both ways agree ------------------------------------------------------------------------------------


def drawn(random: random.Random) -> tuple[dict[str, Any], list[dict[str, Any]], list[float]]:
    """Returns a random setup with some classes, forms, budgets and a goal."""
    n_classes, n_forms = random.randint(1, 4), random.randint(1, 4)
    ways = [
        {
            "i_class": i, "form": form, "is_lossy": random.random() < 0.1 and form > 0, "stored_nbytes": random.uniform(1e5, 4e6),
            "demands": by_resource(cores=random.uniform(1e-4, 0.05), storage=random.uniform(0, 3e6), gpu=random.choice([0, 1e-3]),
                                   cache=random.choice([0, random.uniform(1e4, 1e6)])),
        }
        for i in range(n_classes) for form in range(n_forms) for _ in range(random.randint(1, 3))
    ]  # fmt: skip
    setup = {
        "goal": random.randint(0, 2), "price": 1.0, "gpu_interference": random.choice([0, 0.5]),
        "allow_lossy": random.random() < 0.5,
        "capacities": by_resource(accelerator=random.choice([0, 900]), cores=random.uniform(2, 32),
                                  storage=random.uniform(2e8, 2e9), gpu=1.0, cache=random.choice([0, 5e8])),
        "stored_nbytes": random.choice([0, 2e9, 4e9]), "least_rate": random.choice([0, 100, 400]),
    }  # fmt: skip
    if random.random() < 0.3:
        setup |= {"capacities_most": by_resource(cores=64), "unit_prices": by_resource(cores=0.01)}
    return setup, ways, [random.uniform(50, 2000) for _ in range(n_classes)]


def outcome(call: Callable[[], Any]) -> Any:
    """Returns the result of a call, or the class and text of its error."""
    try:
        return call()
    except ps.PenstockError as error:
        return type(error), str(error)


def assert_same(a: Any, b: Any, name: str = "") -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key], key)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other, name)
    elif isinstance(a, float):
        assert a == b or math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9), name
    else:
        assert a == b, name


@pytest.mark.parametrize("seed", range(60))
def test_both_ways_agree(seed: int) -> None:
    """Both ways give the same solutions, prices, ranges and errors."""
    setup, ways, samples = drawn(random.Random(seed))
    by_module, by_library = module(), library()
    assert_same(outcome(lambda: solve(by_module, setup, ways, samples)), outcome(lambda: solve(by_library, setup, ways, samples)))
    for resource in (CORES, STORAGE):
        needs = [
            outcome(lambda way=way, r=resource: _native.plan_need(setup, samples, ways, way, 0xFFFFFFFF, r, 200.0))
            for way in (by_module, by_library)
        ]
        assert_same(*needs)


def test_the_drawn_setups_are_of_all_kinds() -> None:
    answers = [outcome(lambda seed=seed: solve(module(), *drawn(random.Random(seed)))) for seed in range(60)]
    failed = [answer for answer in answers if isinstance(answer, tuple)]
    solved = [answer for answer in answers if isinstance(answer, dict)]
    assert failed and len(solved) > 20
    assert any(sum(0 < share < 1 for share in answer["shares"]) > 1 for answer in solved)
    assert any(0 < price < math.inf for answer in solved for price in answer["prices"])
    assert any(0 < end < math.inf for answer in solved for end in answer["price_high"])


# Solvers that fail or lie ---------------------------------------------------------------------------


def changed(change: Callable[[Any, int, int], None]) -> Callable[..., bytes]:
    """Returns a highspy whose solution is changed by a function of (numbers, columns, rows)."""

    def lies(cost: bytes, *rest: Any) -> bytes:
        numbers = np.frombuffer(_solver.solve_lp(cost, *rest)).copy()
        change(numbers, len(cost) // 8, len(rest[2]) // 8)
        return numbers.tobytes()

    return lies


def set_number(at: int, value: float) -> Callable[[Any, int, int], None]:
    def change(numbers: Any, n_columns: int, n_rows: int) -> None:
        numbers[at if at >= 0 else 1 + n_columns + n_rows + at] = value

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_number(0, math.nan), "objective"),
        (set_number(1, math.nan), "value 0"),
        (set_number(2, math.inf), "value 1"),
        (set_number(2, 0.9), "row 0"),
        (set_number(-1, math.nan), "dual of row"),
        (set_number(-1, 5.0), "dual of row"),
        (lambda numbers, columns, rows: numbers[1 + columns : 1 + columns + rows].fill(0), "do not prove"),
    ],
)
def test_lies_are_found_out(change: Any, text: str) -> None:
    module()
    with pytest.raises(ps.errors.InternalError, match=f"solver of linear programmes.*{text}.*another version of HiGHS"):
        solve(changed(change), SETUP)


def test_a_solver_that_breaks_the_rules() -> None:
    module()
    for returned, error in ((b"", ValueError), (b"1234567", ValueError), ("text", TypeError), (7, TypeError)):
        with pytest.raises(error):
            solve(lambda *_, returned=returned: returned, SETUP)
    with pytest.raises(ps.errors.LimitError, match="no plan keeps within"):
        solve(lambda *_: None, SETUP)
    with pytest.raises(TypeError):
        solve(lambda: None, SETUP)

    class OwnError(Exception):
        pass

    for kind in (OwnError, KeyboardInterrupt, SystemExit, MemoryError):
        def fail(*_: Any, kind: Any = kind) -> bytes:
            raise kind("from the solver")

        with pytest.raises(kind, match="from the solver"):
            solve(fail, SETUP)
        with pytest.raises(kind, match="from the solver"):
            _native.plan_need(SETUP, SAMPLES, WAYS, fail, 0, CORES, RATE)


def highs_like(monkeypatch: pytest.MonkeyPatch, **members: Any) -> types.ModuleType:
    """Returns a module like highspy whose solver class has other members."""
    real = pytest.importorskip("highspy", reason="highspy is not installed (scripts/setup_venv.sh build)")
    fake = types.ModuleType("highspy")
    vars(fake).update({name: value for name, value in vars(real).items() if not name.startswith("__")})
    fake._Highs = type("Fake", (real._Highs,), members)
    monkeypatch.setitem(sys.modules, "highspy", fake)
    monkeypatch.delenv("PENSTOCK_HIGHS", raising=False)
    return fake


def raises_value(*_: Any) -> None:
    raise ValueError("of another version")


@pytest.mark.parametrize(
    ("members", "error", "text"),
    [
        ({"run": lambda self: _status("kError")}, "InternalError", "^HiGHS failed"),
        ({"getModelStatus": lambda self: _model("kTimeLimit")}, "InternalError", "did not end within its time"),
        ({"getModelStatus": lambda self: _model("kInterrupt")}, "InternalError", "ended with model status 17"),
        ({"getModelStatus": lambda self: _model("kUnbounded")}, "InternalError", "nothing limits the goal"),
        ({"getModelStatus": lambda self: _model("kUnboundedOrInfeasible")}, "LimitError", "no plan keeps within"),
        ({"getModelStatus": lambda self: _model("kInfeasible")}, "LimitError", "no plan keeps within"),
        ({"passModel": lambda self, model: _status("kError")}, "ArgumentError", "too far apart"),
        ({"getRanging": lambda self: (_status("kError"), None)}, "InternalError", "no ranges"),
        ({"getSolution": raises_value}, "InternalError", r"highspy [\d.]+ failed: ValueError: of another version"),
        ({"getInfo": None}, "InternalError", r"highspy [\d.]+ failed: TypeError"),
    ],
)
def test_a_highspy_that_fails(monkeypatch: pytest.MonkeyPatch, members: Any, error: str, text: str) -> None:
    highs_like(monkeypatch, **members)
    with pytest.raises(getattr(ps.errors, error), match=text):
        solve(_solver.find(), SETUP)


def _status(name: str) -> Any:
    return getattr(sys.modules["highspy"].HighsStatus, name)


def _model(name: str) -> Any:
    return getattr(sys.modules["highspy"].HighsModelStatus, name)


def test_ctrl_c_ends_a_plan(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores Ctrl-C
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    fake = highs_like(monkeypatch)
    real = fake._Highs.run

    def run(self: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(self)

    fake._Highs.run = run
    with pytest.raises(KeyboardInterrupt):
        solve(_solver.find(), SETUP)
    fake._Highs.run = real
    assert solve(_solver.find(), SETUP)["samples_per_second"] == pytest.approx(RATE)


@pytest.mark.parametrize("version", ["1.14.9", "0.99", "1.9.0rc1"])
def test_a_highspy_that_is_too_old(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    highs_like(monkeypatch, version=lambda self: version)
    with pytest.raises(ps.errors.UnsupportedError, match=f"highspy {version} is too old.*pip install 'penstock\\[plan\\]'"):
        _solver.require()


@pytest.mark.parametrize("version", ["1.15.0", "1.17.0rc1", "2.0"])
def test_a_highspy_of_a_later_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    highs_like(monkeypatch, version=lambda self: version)
    assert _solver.require() == f"highspy {version}"


def test_a_highspy_that_is_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_HIGHS", raising=False)
    monkeypatch.setitem(sys.modules, "highspy", types.ModuleType("highspy"))
    with pytest.raises(ps.errors.UnsupportedError, match="is not the module of HiGHS.*pip install"):
        _solver.require()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise OSError('libhighs.so.1: cannot open shared object file')", "OSError: libhighs.so.1.*force-reinstall highspy"),
        ("import numpy_that_is_missing", r"numpy_that_is_missing.*pip install 'penstock\[plan\]'"),
    ],
)
def test_a_highspy_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, text: str) -> None:
    (tmp_path / "highspy.py").write_text(body + "\n")
    monkeypatch.delenv("PENSTOCK_HIGHS", raising=False)
    monkeypatch.delitem(sys.modules, "highspy", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ps.errors.UnsupportedError, match=text):
        _solver.require()


# What is said, and when ------------------------------------------------------------------------------


WITHOUT = """
import ctypes, os, sys
try:
    ctypes.CDLL("libhighs.so.1")
    sys.exit("the system has a library of HiGHS")
except OSError:
    pass
sys.modules["highspy"] = None  # cannot be imported
import penstock as ps
from penstock.stalls.measure import run as _analyze
from penstock.planning import plan as _plan
from penstock.planning import solver as _solver
from penstock.planning import tune as _tune
def measured(*_, **__):
    sys.exit("it measured")
_analyze.analyze = _plan.analyze = _tune.analyze = measured
def said(call, **options):
    try:
        print(call(sys.argv[1], progress=measured, **options))
    except ps.errors.UnsupportedError as error:
        return str(error)
for call in (ps.plan, ps.tune):
    print(said(call))
    print(said(call, library="/nonexistent"))
os.environ["PENSTOCK_HIGHS"] = "/nonexistent/libhighs.so"
print(said(ps.plan))
"""


def test_without_highs_nothing_is_measured(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_HIGHS"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder)], capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    if done.stderr.startswith("the system has"):
        pytest.skip(done.stderr)
    missing = "plans need HiGHS, which is not installed: pip install 'penstock[plan]'"
    named = "the library of HiGHS that PENSTOCK_HIGHS or the caller names cannot be loaded: /nonexistent"
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == lines[2] == missing, done
    assert all(line.startswith(named) for line in (lines[1], lines[3], lines[4])), done


@pytest.mark.parametrize("verb", ["plan", "tune"])
def test_the_verbs_say_it_first(verb: str, folder: Path, tmp_path: Path) -> None:
    """The error comes before anything else, also before a training script is imported."""
    (tmp_path / "highspy.py").write_text("raise OSError('broken')\n")
    (tmp_path / "own.py").write_text("raise SystemExit('imported')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    environment.pop("PENSTOCK_HIGHS", None)
    command = [sys.executable, "-m", "penstock.cli.main", verb, str(folder), "--train", "own:step", *["--yes"] * (verb == "tune")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=240)
    assert done.returncode == 1 and done.stdout == ""
    assert "highspy cannot be imported (OSError: broken)" in done.stderr and len(done.stderr.splitlines()) == 1


def test_require_says_what_solves(solver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(solver, str):
        assert _solver.require(solver) == solver
        monkeypatch.setenv("PENSTOCK_HIGHS", solver)
        assert _solver.find() == solver and _solver.require() == solver
    else:
        monkeypatch.delenv("PENSTOCK_HIGHS", raising=False)
        assert _solver.find() is solver
        assert _solver.require() == f"highspy {sys.modules['highspy']._Highs().version()}"


def test_nothing_is_printed(solver: Any, capfd: pytest.CaptureFixture[str]) -> None:
    solve(solver, SETUP)
    assert capfd.readouterr() == ("", "")


def test_from_several_threads(solver: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: solve(solver, SETUP), range(40)))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("way", ["module", "library"])
def test_beside_a_program_that_uses_highs(way: str) -> None:
    """HiGHS keeps one thread count for each thread of a program that calls it, and refuses another count."""
    module()
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import highspy, test_plan_solver as t
def theirs(n):
    h = highspy._Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", n)
    h.addCol(-1.0, 0.0, 4.0, 0, [], [])
    return h.run(), h.getObjectiveValue()
first = theirs(3)
ours = t.solve(getattr(t, sys.argv[2])(), t.SETUP)["samples_per_second"]
assert abs(ours / t.RATE - 1) < 1e-6, ours
assert theirs(3) == first, first
print("both")
"""
    if way == "library":
        library()
    done = subprocess.run(
        [sys.executable, "-c", script, os.path.dirname(__file__), way], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "both\n", done.stderr
