"""Calls the user's functions on samples and batches, and checks and joins their results.

The calling thread, worker threads and worker processes (``functions/workers.py``) all use this code, so a result does not depend on
where it was made.
"""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..base import options
from ..base.signals import raised_by_handler
from ..data.dataset import Dataset
from ..errors import ArgumentError, FunctionError

KINDS = ("threads", "processes")
STARTS = ("fork", "spawn", "forkserver")
_SAMPLE, _BATCH, REPLACE = 1, 2, 3  # domains that keep random numbers for samples, batches and replacements apart
LIMIT = "host_memory"  # Failure.which if shared memory is too small for a result
_MOST_NAMED = 8  # sample numbers that an error about a batch lists


class Functions(NamedTuple):
    """The functions that a loader calls, and their options. Worker processes get a copy."""

    sample: Callable[..., Any] | None
    batch: Callable[..., Any] | None
    seed: int
    output: str  # "torch" or "numpy"


class Place(NamedTuple):
    """The rows of a batch: epoch, samples and draws, which are also the key of the rows' random numbers."""

    epoch: int
    samples: tuple[int, ...]
    draws: tuple[int, ...]
    step: int = 0  # number of the batch in its epoch


class Failure(Exception):
    """A user's function failed. The cause is kept as text, so that a worker process can send it.

    Attributes:
        which: "Functions.sample" or "Functions.batch".
        sample: number of the sample; None: the whole batch.
        text: description of the failure.
        trace: the original traceback; "" if the function itself did not raise.
        error: the original exception; None if it could not be sent.
    """

    def __init__(self, which: str, sample: int | None, text: str, trace: str = "", error: BaseException | None = None) -> None:
        super().__init__(which, sample, text, trace, error)
        self.which, self.sample, self.text, self.trace, self.error = which, sample, text, trace, error


class Task:
    """A batch that a worker handles: its arguments and its result."""

    def __init__(self, arrays: Any, place: Place) -> None:
        self.arrays, self.place = arrays, place
        self.result: Any = None
        self.failure: Failure | None = None
        self.seconds = 0.0
        self.n_given = 0  # bytes that the arguments take in the block of shared memory
        self.is_done = self.is_dropped = self.is_counted = False
        self.ends = threading.Lock()  # locked until a thread has done the task


def of(given: Mapping[str, Any]) -> Functions | None:
    """Checks the arguments of a loader and returns its functions; None if it has none."""
    found = [given[name] for name in ("sample_function", "batch_function")]
    workers = options.count("Functions.workers", given["function_workers"], 0, 1024)
    kind = given["function_kind"]
    options.choice("Functions.kind", kind, KINDS)
    options.choice("Functions.start", given["function_start"], STARTS)
    timeout = given["function_timeout"]
    if timeout is not None and not (0 < timeout <= 86400):
        raise ArgumentError(f"Functions.timeout is in seconds, above 0, to 86400, or None, not {timeout!r}")
    ragged = given["ragged"]
    if found[0] is not None and "offsets" in (ragged.values() if isinstance(ragged, Mapping) else (ragged,)):
        raise ArgumentError('Functions.sample needs rows of single samples, which ragged="offsets" has not: use "list" or "padded"')
    if found == [None, None]:
        if workers:
            raise ArgumentError("Functions.workers run the functions sample and batch: give one of them")
        return None
    if given["output"] not in ("torch", "numpy"):
        raise ArgumentError('functions get tensors or arrays: output="torch" or "numpy"')
    if workers and given["device"] != "cpu":
        raise ArgumentError('Functions.workers are for batches in host memory; on device="cuda" the calling thread runs functions')
    return Functions(found[0], found[1], given["seed"], given["output"])


def draws(functions: Functions | None) -> bool:
    """Whether one of the functions gets random numbers, so that its results depend on the epoch."""
    return functions is not None and any(each is not None and _takes_rng(each) for each in functions[:2])


def generator(seed: int, domain: int, *counter: int) -> Any:
    """Returns numpy's Generator over Philox-4x64 (Salmon et al., SC 2011). Its key is (seed, domain). Its counter begins at 2**64
    times the number made of `counter`: draw, sample, epoch."""
    import numpy as np

    key, start = np.array([seed, domain], np.uint64), np.array([0, *counter], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=start))


def apply(
    functions: Functions,
    arrays: dict[str, Any],
    place: Place,
    whole: bool = True,
    catch: type[BaseException] = Exception,
    mend: Mend | None = None,
) -> Any:
    """Calls the user's functions on a batch and returns the result. If `whole` is False, calls only Functions.sample. Raises
    Failure for a caught exception, unless `mend` replaces the failed sample."""
    result: Any = arrays
    if functions.sample is not None:
        result = _each(functions, arrays, place, catch, mend)
    if functions.batch is not None and whole:
        first = (place.draws[0], place.samples[0]) if place.samples else (0, 0)
        more = (generator(functions.seed, _BATCH, *first, place.epoch),) if _takes_rng(functions.batch) else ()
        result = _call(catch, functions.batch, "Functions.batch", None, result, *more)
    return result


def _takes_rng(function: Callable[..., Any]) -> bool:
    """Whether a function takes random numbers: its second parameter has no default, or is named rng or generator. ``*args`` does
    not count."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions have no signature
        return False
    places = [each for each in found if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].default is places[1].empty or places[1].name in ("rng", "generator"))


def _call(catch: type[BaseException], function: Callable[..., Any], which: str, sample: int | None, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except catch as error:  # in the calling thread, KeyboardInterrupt and SystemExit pass through
        if raised_by_handler(error):
            raise
        head = traceback.format_exception_only(type(error), error)[-1].strip()
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        trace = "".join(traceback.format_exception(type(error), error, frames))
        raise Failure(which, sample, head, trace, error) from None


def _row(values: Any, i: int) -> Any:
    """Returns one sample's value of a column: a number of Python, or an array in the batch's memory."""
    if isinstance(values, list):
        return values[i]
    return values[i].item() if values.ndim == 1 else values[i]


def values_of(arrays: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Returns the values of row i, which are the argument of Functions.sample."""
    return {name: _row(column, i) for name, column in arrays.items()}


def _columns(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns for values_of. Numbers on a GPU become Python's here: one wait for a column, not one for a row."""
    on_gpu = {name for name, column in arrays.items() if getattr(column, "is_cuda", False) and column.ndim == 1}
    return {name: column.tolist() if name in on_gpu else column for name, column in arrays.items()}


class Row(NamedTuple):
    """A sample's values before and after Functions.sample."""

    sample: int
    i: int | None  # row of the sample in the batch; None: a replacement from outside the batch
    given: Mapping[str, Any]
    made: Mapping[str, Any]


Call = Callable[[int, int, dict[str, Any]], Mapping[str, Any]]  # (sample, draw, values): returns the result of Functions.sample
# (row, its failure, call, whether the batch would be empty): returns the replacement row, or None to leave the row out.
Mend = Callable[[int, Failure, Call, bool], "Row | None"]


def _each(
    functions: Functions, arrays: dict[str, Any], place: Place, catch: type[BaseException], mend: Mend | None
) -> dict[str, Any]:
    assert functions.sample is not None
    function, takes_rng = functions.sample, _takes_rng(functions.sample)
    rows: list[Row] = []
    last: Failure | None = None

    def call(sample: int, draw: int, values: dict[str, Any]) -> Mapping[str, Any]:
        more = (generator(functions.seed, _SAMPLE, draw, sample, place.epoch),) if takes_rng else ()
        result = _call(catch, function, "Functions.sample", sample, values, *more)
        _check_names(result, sample, rows[0].made if rows else None)
        return result  # type: ignore[no-any-return]

    columns = _columns(arrays)
    for i, (sample, draw) in enumerate(zip(place.samples, place.draws, strict=True)):
        values = values_of(columns, i)
        given = dict(values)
        try:
            rows.append(Row(sample, i, given, call(sample, draw, values)))
        except Failure as failure:
            if mend is None or not failure.trace:  # an invalid result is the function's fault, not the sample's
                raise
            last = failure
            if (other := mend(i, failure, call, False)) is not None:
                rows.append(other)
    if not rows and last is not None and mend is not None and (other := mend(0, last, call, True)) is not None:
        rows.append(other)
    return _together(functions, arrays, rows) if rows else {name: _some(column, []) for name, column in arrays.items()}


def _check_names(result: Any, sample: int, first: Mapping[str, Any] | None) -> None:
    if not isinstance(result, Mapping) or not all(isinstance(name, str) for name in result):
        raise Failure("Functions.sample", sample, f"it returned {type(result).__name__}: a dict by names is wanted")
    if first is not None and result.keys() != first.keys():
        mine, others = (", ".join(sorted(each)) or "nothing" for each in (result, first))
        raise Failure("Functions.sample", sample, f"it returned {mine}, and {others} for the first sample")


def _together(functions: Functions, arrays: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """Joins the rows of a batch. Columns that no function changed are not copied."""
    whole = {
        name: _some(arrays[name], [row.i for row in rows])
        if name in arrays and all(row.i is not None and row.made[name] is row.given[name] for row in rows)
        else _joined(name, [row.made[name] for row in rows], functions.output)
        for name in rows[0].made
    }
    if "index" not in whole:
        kept = all(row.i is not None for row in rows)
        whole["index"] = (
            _some(arrays["index"], [row.i for row in rows])
            if kept
            else _joined("index", [row.sample for row in rows], functions.output)
        )
    return whole


def _some(column: Any, rows: Sequence[Any]) -> Any:
    """Returns some rows of a column. If they are all rows, returns the column itself."""
    if len(rows) == len(column):
        return column
    return [column[i] for i in rows] if isinstance(column, list) else column[list(rows)]


def _joined(name: str, values: list[Any], output: str) -> Any:
    try:
        return _stacked(values, output)
    except Exception as error:  # e.g. torch lacks the dtype, or a number is beyond int64
        if raised_by_handler(error):
            raise
        text = f"what it returned as {name!r} cannot be put together: {type(error).__name__}: {error}"
        raise Failure("Functions.sample", None, text, "", error) from None


def _stacked(values: list[Any], output: str) -> Any:
    """Stacks the values of all samples to an array (N, ...). Returns a list if they differ in shape or dtype or are no arrays."""
    import numpy as np

    if all(isinstance(value, (bool, int, np.integer, np.bool_)) for value in values):
        return _as_output(np.asarray(values, np.int64), output)
    if all(isinstance(value, (int, float, np.number)) for value in values):
        return _as_output(np.asarray(values, np.float32), output)
    if not all(hasattr(value, "shape") and hasattr(value, "dtype") for value in values):
        return values
    shown = [_as_output(value, output) for value in values]
    if any(value.shape != shown[0].shape or value.dtype != shown[0].dtype for value in shown):
        return shown
    if output == "torch":
        import torch

        return torch.stack(shown)
    return np.stack(shown)


def _as_output(value: Any, output: str) -> Any:
    """Converts an array to a tensor if `output` is "torch", or a tensor to an array, without a copy where possible."""
    import numpy as np

    if output == "torch":
        import torch

        if isinstance(value, torch.Tensor):
            return value
        array = np.asarray(value)
        return torch.from_numpy(array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy())
    return np.asarray(value)


def error_of(failure: Failure, dataset: Dataset, place: Place | None) -> FunctionError:
    """Returns the error that the caller of the loader gets: with the batch's place, the sample's name, and the function's
    traceback."""
    where, path, own = "no batch", dataset.path, None
    if place is not None:
        where = named(place.epoch, place.step, place.samples)
    if failure.sample is not None:
        name = dataset._native.name(failure.sample)
        path, own, words = dataset._origin(failure.sample)
        where = words + (f", {name!r}" if name else "") + f" of {where}"
    text = f"{failure.which}, {where}: {failure.text}"
    if failure.trace:
        text += f"\n\nThe function's own traceback:\n{failure.trace.rstrip()}"
    error = FunctionError(f"data set {path!r}: {text}", text=text, dataset=path, sample=failure.sample, source_sample=own)
    error.__cause__ = failure.error
    return error


def named(epoch: int, step: int, samples: Sequence[int]) -> str:
    """Describes a batch in words, for errors."""
    shown = ", ".join(map(str, samples[:_MOST_NAMED]))
    more = f" and {len(samples) - _MOST_NAMED} more" if len(samples) > _MOST_NAMED else ""
    return f"epoch {epoch}, batch {step}, samples {shown or 'none'}{more}"
