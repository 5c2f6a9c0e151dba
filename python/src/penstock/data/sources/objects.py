"""Packs the user's own data set: any object with `__len__` and `__getitem__`.

Samples are named by their numbers, in twelve digits, so an interrupted run can be resumed, and the number of workers does not
change the bytes. Workers only read samples. The calling process encodes and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, overload

from ...base import options
from ...errors import ArgumentError, FunctionError, NotFoundError, PenstockError, in_sample
from .. import packing
from ..pack_report import PackReport
from ..schema import FieldSpec, Mask, spec
from ..writer import Writer
from . import typed
from .huggingface import Hub, hub_of, is_hub
from .processes import Make, Processes, read


class Numbers(Sequence[str]):
    """The names of samples: their numbers."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        return f"{range(self._n)[i]:012d}" if isinstance(i, int) else [f"{j:012d}" for j in range(self._n)[i]]


def is_object(source: Any) -> bool:
    """Whether `source` is an object with samples, and not a path or a list of paths."""
    import os

    if isinstance(source, (str, bytes, os.PathLike)):
        return False
    if isinstance(source, (list, tuple)):
        return bool(source) and not isinstance(source[0], (str, bytes, os.PathLike))
    return True


def length(dataset: Any) -> int:
    """Returns the number of samples. Raises an error if the object cannot be packed."""
    kind = type(dataset)
    if not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")) or isinstance(dataset, Mapping):
        raise ArgumentError(
            f"a {kind.__module__}.{kind.__qualname__} is no data set with __len__ and __getitem__ by number; what is only iterated "
            "over is written with ps.Writer"
        )
    if kind.__module__.partition(".")[0] == "penstock" and not isinstance(dataset, Hub):
        raise ArgumentError(f"a {kind.__qualname__} of Penstock is packed by its path, which keeps what is stored")
    try:
        n = len(dataset)
    except Exception as error:
        raise FunctionError(f"__len__ of the data set failed: {type(error).__name__}: {error}") from error
    if n == 0:
        raise NotFoundError("the data set has no samples")
    return n


def _classes(dataset: Any) -> Any:
    """Returns the class names of a data set. For a subset, returns those of the data set beneath."""
    for _ in range(8):
        if (found := getattr(dataset, "classes", None)) is not None:
            return found
        dataset = getattr(dataset, "dataset", None)
    return None


class Objects:
    """The user's data set as the packing loop reads it. `get`: returns a sample by its number, in any thread; None: the calling
    thread reads all samples."""

    def __init__(self, dataset: Any, n: int, place: str) -> None:
        self.place = place
        self.notices: list[dict[str, Any]] = []
        self.early: list[str] = []
        self.schema: Mapping[str, FieldSpec] = {}
        self.order: list[str] | None = None  # field names for samples that are tuples
        self._dataset, self._n = dataset, n
        self._processes: Processes | None = None

    def start(self, make: Make, n_workers: int) -> None:
        """Starts the worker processes that read samples."""
        self._processes = Processes(make, n_workers, self._n)

    def names(self) -> Sequence[str]:
        return Numbers(self._n)

    def begin(self, name: str) -> Callable[[Writer], packing.Ready]:
        i = int(name)
        if self._processes is not None:
            processes = self._processes
            return lambda writer: self._prepare(writer, i, lambda: processes.read(i))
        try:
            sample = read(self._dataset, i)
        except PenstockError as error:
            fault = error
            return lambda writer: self._prepare(writer, i, lambda: _raise(fault))
        return lambda writer: self._prepare(writer, i, lambda: sample)

    def _prepare(self, writer: Writer, i: int, get: Callable[[], Any]) -> packing.Ready:
        try:
            sample, nbytes, jpegs = typed.stored(typed.named(get(), self.order), self.schema)
            values, kept = writer._prepare(sample)
        except PenstockError as error:
            raise in_sample(error, i) from error.__cause__
        return packing.Ready(f"{i:012d}", values, kept, nbytes, jpegs)

    def located(self, error: PenstockError, name: str) -> PenstockError:
        return in_sample(error, int(name))

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()


def _raise(error: PenstockError) -> Any:
    raise error


class Storing(NamedTuple):
    """How images and masks are stored, for fields that are derived from the first sample."""

    forms: Sequence[str] | None
    mask_forms: Sequence[str] | None
    tier: str | None
    effort: int | None
    max_error: int
    made_for: str | None

    def image(self) -> Any:
        return packing.image_field(self.forms, self.tier, self.effort, self.max_error)

    def mask(self) -> Mask:
        forms = tuple(self.mask_forms or ("original",))
        if "pli" not in forms:
            return Mask(forms, self.made_for)
        return Mask(forms, self.made_for, tier=self.tier or "small", effort=3 if self.effort is None else self.effort)


def pack_object(
    dataset: Any,
    destination: str,
    schema: Mapping[str, Any] | None,
    storing: Storing,
    *,
    make: Make | None,
    split: str | None,
    num_workers: int | None,
    **how: Any,
) -> PackReport:
    """Packs the user's own data set. `make`: makes the data set again in a worker process; None: the process gets a pickled
    copy."""
    n_workers = options.count("num_workers", num_workers or 0, 0, 1024)
    if schema and storing != Storing(None, None, None, None, 0, None):
        raise ArgumentError("schema says how fields are stored: forms, mask_forms, tier, effort, max_error, made_for go without it")
    source = _opened(dataset, split)
    found = Objects(source, length(source), f"{type(dataset).__module__}.{type(dataset).__qualname__}")
    if schema:
        found.schema = {name: spec(name, given) for name, given in schema.items()}
    elif isinstance(source, Hub):
        found.schema = source.schema(storing.image)
    else:
        found.schema = _first_tells(source, storing)
    found.order = list(found.schema)
    if n_workers:
        found.start(_Copy(source) if make is None else _Opened(make, split), min(n_workers, len(found.names())))
    n_threads = packing.threads(None) + n_workers
    return packing.run(found, destination, dict(found.schema), n_threads=n_threads, **how)


def _first_tells(dataset: Any, storing: Storing) -> dict[str, FieldSpec]:
    """Returns the fields of the first sample, in its order."""
    try:
        sample = typed.named(read(dataset, 0), None)
        return typed.schema_of(sample, _classes(dataset), storing.image, storing.mask)
    except PenstockError as error:
        raise in_sample(error, 0) from error.__cause__


def _opened(dataset: Any, split: str | None) -> Any:
    """Returns the object to pack. A `datasets` object without a transform becomes a Hub, which returns images and sounds as the
    bytes of their files."""
    if is_hub(dataset):
        hub = hub_of(dataset, split)
        return dataset if hub is None else hub
    if split is not None:
        raise ArgumentError("split goes with a DatasetDict of datasets: your object is one split")
    return dataset


class _Opened:
    """Makes the data set again in a worker process, and opens it as the calling process did."""

    def __init__(self, make: Make, split: str | None) -> None:
        self._make, self._split = make, split

    def __call__(self) -> Any:
        return _opened(self._make(), self._split)


class _Copy:
    """Returns the object that it holds. The object is pickled for worker processes."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self) -> Any:
        return self.dataset
