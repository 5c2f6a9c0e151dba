"""Finds, tests and calls HiGHS, which solves the linear programmes of plans.

Python calls HiGHS through its own module, highspy. A library named by an argument or by PENSTOCK_HIGHS comes first, and the
system's library last; the C library opens both. `python -m penstock.planning.solver` prints what was found, for `penstock doctor`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable
from typing import Any

from .. import _native
from ..errors import ArgumentError, InternalError, PenstockError, UnsupportedError

__all__ = ["INSTALL", "Solver", "find", "require"]

INSTALL = "pip install 'penstock[plan]'"
LEAST = (1, 15)  # oldest version of HiGHS that is supported, as in src/plan/plan_highs.c
Solver = str | Callable[..., bytes | None] | None  # path of a library, a function, or None: the C library looks for one

_ROOM = "plan"
_TINY = [0.0, 1.0]  # capacities of the accelerator and of the cores in a tiny test plan


def find(library: str | None = None) -> Solver:
    """Returns the solver of plans: the named library, else highspy, else None for the system's library.

    UnsupportedError: highspy is installed, but cannot be used.
    """
    named = library or os.environ.get("PENSTOCK_HIGHS")
    if named:
        return named
    return None if _module() is None else solve_lp


def require(library: str | None = None) -> str:
    """Solves a tiny plan as a test. Returns the name of the solver, such as "highspy 1.16.0".

    UnsupportedError: HiGHS is missing or cannot be used; the text has the command that installs it. InternalError: it failed.
    """
    solver = find(library)
    try:
        _native.plan_solve({"capacities": _TINY}, [1.0], [{"demands": _TINY}], solver)
    except UnsupportedError as error:
        if solver is None:
            raise _unsupported(f"plans need HiGHS, which is not installed: {INSTALL}") from error
        raise
    if isinstance(solver, str):
        return solver
    return "the system's libhighs" if solver is None else f"highspy {_version(_module())}"


def _unsupported(text: str) -> UnsupportedError:
    return UnsupportedError(text, room=_ROOM)


def _internal(text: str) -> InternalError:
    return InternalError(text, room=_ROOM)


# highspy --------------------------------------------------------------------------------------------


def _module() -> Any:
    """Returns the module highspy, or None if it is not installed. UnsupportedError: it is installed but cannot be used."""
    try:
        module = importlib.import_module("highspy")
    except ModuleNotFoundError as error:
        if error.name == "highspy":
            return None
        raise _unsupported(f"the package highspy cannot be imported ({error}): {INSTALL}") from error
    except Exception as error:  # a library that does not load, or an error of another version
        mend = "pip install --force-reinstall highspy"
        raise _unsupported(f"the package highspy cannot be imported ({type(error).__name__}: {error}): {mend}") from error
    version = _version(module)
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < LEAST:
        least = ".".join(map(str, LEAST))
        raise _unsupported(f"highspy {version} is too old, {least} or later is needed: {INSTALL}")
    return module


def _version(module: Any) -> str:
    try:
        return str(_class_of(module)().version())
    except (AttributeError, TypeError) as error:
        where = getattr(module, "__file__", None) or "highspy"
        raise _unsupported(f"{where} is not the module of HiGHS ({error}): {INSTALL}") from error


def _class_of(module: Any) -> Any:
    """Returns the solver's class. The base class _Highs is preferred, because its subclass Highs prints a line when it is made
    (1.16)."""
    return getattr(module, "_Highs", None) or module.Highs


def solve_lp(
    cost: bytes, low: bytes, high: bytes, row_low: bytes, row_high: bytes, row_begin: bytes, columns: bytes, entries: bytes,
    seconds_most: float, ranges: int,
) -> bytes | None:  # fmt: skip
    """Solves a linear programme with highspy, as src/plan/plan_highs.c does with the library.

    The arguments are those of struct psti_plan_lp: arrays of float64, and of int32 for `row_begin` and `columns`. ranges: whether
    the ends of the ranges are needed.

    Returns the members of struct psti_plan_lp_solution as float64, in their order, the objective first. None: no x meets the
    limits.
    """
    highs = _module()
    try:
        return _solve(highs, (cost, low, high), (row_low, row_high), (row_begin, columns, entries), seconds_most, ranges)
    except (PenstockError, MemoryError):
        raise
    except Exception as error:  # e.g. another version with other names or types
        raise _internal(f"highspy {_version(highs)} failed: {type(error).__name__}: {error}") from error


def _solve(
    highs: Any, of_columns: tuple[bytes, ...], of_rows: tuple[bytes, ...], matrix: tuple[bytes, ...], seconds: float, ranges: int
) -> bytes | None:
    import numpy as np  # highspy needs numpy, too

    solver = _class_of(highs)()
    worst = [solver.setOptionValue("output_flag", False)]  # must be first, since setting other options may print
    worst.append(solver.setOptionValue("threads", 1))
    worst.append(solver.setOptionValue("solver", "simplex"))  # the simplex method ends at a vertex, with a basis
    worst.append(solver.setOptionValue("time_limit", float(seconds)))
    worst.append(solver.passModel(_programme(highs, np, of_columns, of_rows, matrix)))
    if highs.HighsStatus.kError in worst:
        text = "HiGHS refused the programme: its numbers are too far apart"
        raise ArgumentError(text, room=_ROOM)
    if not _run(highs, solver):
        return None
    solution = solver.getSolution()
    parts = [[solver.getInfo().objective_function_value], solution.col_value, solution.row_dual, solution.row_value]
    if ranges:
        status, found = solver.getRanging()
        if status == highs.HighsStatus.kError:
            raise _internal("HiGHS found no ranges")
        for end in (found.row_bound_dn, found.row_bound_up):
            parts += [end.value_, end.objective_]
    return b"".join(np.asarray(part, np.float64).tobytes() for part in parts)


def _programme(highs: Any, np: Any, of_columns: tuple[bytes, ...], of_rows: tuple[bytes, ...], matrix: tuple[bytes, ...]) -> Any:
    lp = highs.HighsLp()
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = (np.frombuffer(part, np.float64) for part in of_columns)
    lp.row_lower_, lp.row_upper_ = (np.frombuffer(part, np.float64) for part in of_rows)
    lp.num_col_, lp.num_row_ = len(of_columns[0]) // 8, len(of_rows[0]) // 8
    lp.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
    lp.a_matrix_.start_, lp.a_matrix_.index_ = (np.frombuffer(part, np.int32) for part in matrix[:2])
    lp.a_matrix_.value_ = np.frombuffer(matrix[2], np.float64)
    return lp


def _run(highs: Any, solver: Any) -> bool:
    """Runs the solver. Returns True if there is a solution, False if no x meets the limits."""
    failed, model = highs.HighsStatus.kError, highs.HighsModelStatus
    # If the program has used HiGHS in this thread before, the number of its threads is fixed. The value 0 accepts that number.
    if solver.run() == failed and (solver.setOptionValue("threads", 0) == failed or solver.run() == failed):
        raise _internal("HiGHS failed")
    status = solver.getModelStatus()
    if status in (model.kInfeasible, model.kUnboundedOrInfeasible):
        return False
    if status == model.kTimeLimit:
        raise _internal("HiGHS did not end within its time")
    if status != model.kOptimal:
        unbounded = ": nothing limits the goal" if status == model.kUnbounded else ""
        raise _internal(f"HiGHS ended with model status {int(status)}{unbounded}")
    return True


def _main() -> None:
    """Prints JSON: the solver ("found"), or the reason why there is none ("reason", and whether HiGHS is "missing")."""
    missing = False
    try:
        missing = find() is None
        said: dict[str, Any] = {"found": require()}
    except PenstockError as error:
        said = {"reason": error.text, "missing": missing}
    print(json.dumps(said))


if __name__ == "__main__":
    _main()
