"""The table of a loader's arguments, one row for each. The signature, TorchDataset, plans, the analyser, the loader's configuration
and the site's page of arguments by task (scripts/site_arguments.py) are derived from it or checked against it.

Inside the package every argument has one short name, that of its row, even if it is a member of an object of arguments.py. "Flat"
arguments are a dict of all arguments by these names. To add an argument: add a row here, the parameter of Loader or the member of
its object, and its docstring.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import NoneType
from typing import Any, TypedDict

from ..base import options
from ..data.schema import Keypoints
from ..errors import ArgumentError
from . import arguments as _groups

# The reasons why TorchDataset refuses an argument.
_OF_DATA_LOADER = "{} belongs to torch's DataLoader and its sampler"
_NO_EFFECT = "{} has no effect on samples that are fetched by number: see Loader"
_OF_GPU = "samples of a TorchDataset are in host memory, and {} is for a GPU: use Loader(device=...)"
_OF_ITSELF = "{} is an argument of TorchDataset itself"

# The steps of an analysis that an argument of the user's loader can affect.
PIXELS, READS, STORED = "pixels", "reads", "stored"


@dataclass(frozen=True)
class Argument:
    """One row of the table: one argument of a loader.

    Attributes:
        name: the flat name of the argument.
        default: default of the flat argument.
        task: heading of the argument in the page of arguments by task.
        of: the parameter of Loader whose object has it as a member; "": it is a parameter itself.
        member: name of the member in that object; "": the same as `name`.
        old: its former keyword; "": it had none, or the same.
        old_values: values that were renamed: old word to new word.
        torch: why TorchDataset refuses it, where "{}" stands for its name; "": it is allowed.
        plan: types that it may have in a plan's file; (): a plan does not set it.
        analysis: PIXELS, READS, STORED: the steps of an analysis in which the analyser's own loaders use the user's value.
        convert: called with `shown` and the given value, returns the flat value; None: the value is not converted.
    """

    name: str
    default: Any
    task: str
    of: str = ""
    member: str = ""
    old: str = ""
    old_values: Mapping[str, str] | None = None
    torch: str = ""
    plan: tuple[type, ...] = ()
    analysis: tuple[str, ...] = ()
    convert: Callable[[str, Any], Any] | None = None

    @property
    def shown(self) -> str:
        """The name in error messages: "CacheUse.form"."""
        return f"{GROUPS[self.of].__name__}.{self.member or self.name}" if self.of else self.name


#: The classes of argument objects, by the parameter of Loader that takes them.
GROUPS: dict[str, type] = {
    "order": _groups.Pages,
    "on_error": _groups.OnError,
    "cache": _groups.CacheUse,
    "share": _groups.Share,
    "device": _groups.Gpu,
    "forms": _groups.Forms,
    "reading": _groups.Reading,
    "decoding": _groups.Decoding,
    "annotations": _groups.Annotations,
    "functions": _groups.Functions,
    "watch": _groups.Watch,
    "ragged": _groups.Padded,
}


def _names(shown: str, value: Any) -> Any:
    """Converts a list of names to a tuple. Refuses a text, which would become a list of letters."""
    if isinstance(value, str) or not isinstance(value, (Iterable, NoneType)):
        raise ArgumentError(f"{shown} is a list of names, not {value!r}")
    return value if value is None or isinstance(value, Mapping) else tuple(value)


def _truth(shown: str, value: Any) -> Any:
    """Converts a value, or each value of a dict per field, to bool."""
    if isinstance(value, Mapping):
        return {name: options.flag(shown, part) for name, part in value.items()}
    return options.flag(shown, value)


def _number(shown: str, value: Any) -> Any:
    """Refuses a text or a bool in place of a number, also in a dict per field. None is allowed."""
    for part in value.values() if isinstance(value, Mapping) else (value,):
        if part is not None and (isinstance(part, bool) or not isinstance(part, Real)):
            raise ArgumentError(f"{shown} is a number, not {part!r}")
    return value


def _function(shown: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ArgumentError(f"{shown} is a function, not {value!r}")
    return value


def _dict(shown: str, value: Any) -> Any:
    if not isinstance(value, (Mapping, NoneType)):
        raise ArgumentError(f"{shown} is a dict by field, not {value!r}")
    return value


def _throttle(shown: str, value: Any) -> Any:
    if not value:
        return value
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) not in (2, 3):
        raise ArgumentError(f"{shown} is (bytes per second, seconds) or (..., requests at a time), not {value!r}")
    for part in value:
        _number(shown, part)
    return value


def _side(shown: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _side(shown, part) for name, part in value.items()}
    options.made_for(value)
    return value


def _pairs(shown: str, value: Any) -> Any:
    if not isinstance(value, (Mapping, Keypoints, Iterable, NoneType)) or isinstance(value, str):
        raise ArgumentError(f"{shown} is a list of pairs (left, right), not {value!r}")
    return value


def _device(_shown: str, value: Any) -> str:
    return options.device_name(value)


def _live(shown: str, value: Any) -> Any:
    return None if value is None else options.flag(shown, value)


def _trace(shown: str, value: Any) -> Any:
    if not isinstance(value, (str, os.PathLike, NoneType)):
        raise ArgumentError(f"{shown} is the path of a file, not {value!r}")
    return None if value is None else options.absolute(value) if os.fspath(value) else ""


def _path(_shown: str, value: Any) -> Any:
    return options.absolute(value) if isinstance(value, (str, os.PathLike)) else value


DATA, ORDER, PIXEL, BATCH = "Data and forms", "Order and epochs", "Transforms and pixels", "Batches"
CODE, KEPT, STORAGE, ACCELERATOR = "Your own functions", "Cache, fleet, sharing", "Threads, memory and storage", "GPU"
BOXES, FAULTS, WATCHING = "Masks, boxes, keypoints", "Bad samples", "Plans and watching"

TABLE: tuple[Argument, ...] = (
    Argument("dataset", None, DATA, torch=_OF_ITSELF),
    Argument("batch_size", 1, BATCH, torch=_OF_DATA_LOADER, analysis=(STORED,)),
    Argument("shuffle", False, ORDER, torch=_OF_DATA_LOADER, convert=_truth),
    Argument("seed", 0, ORDER, torch=_OF_ITSELF),
    Argument("transforms", None, PIXEL, torch=_OF_ITSELF),
    Argument("device", "cpu", ACCELERATOR, torch=_OF_GPU, convert=_device),
    Argument("decode", "auto", ACCELERATOR, of="device", old="decode", plan=(str,), torch=_OF_GPU),
    Argument("gpu_part", None, ACCELERATOR, of="device", member="part", old="gpu_share", plan=(int, float), torch=_OF_GPU,
             convert=_number),  # fmt: skip
    Argument("device_memory", None, ACCELERATOR, of="device", member="memory", old="device_memory", torch=_OF_GPU),
    Argument("dtype", None, PIXEL, analysis=(PIXELS,)),
    Argument("layout", "NCHW", PIXEL, analysis=(PIXELS,)),
    Argument("channels", None, PIXEL, analysis=(PIXELS,)),
    Argument("bits", None, PIXEL, of="decoding", old="bits", analysis=(PIXELS,)),
    Argument("ignore_orientation", False, PIXEL, of="decoding", old="ignore_orientation", analysis=(PIXELS,), convert=_truth),
    Argument("scaled_decode", False, PIXEL, of="decoding", member="scaled", old="scaled_decode", analysis=(PIXELS,),
             convert=_truth),  # fmt: skip
    Argument("max_pixels", None, PIXEL, of="decoding", old="max_pixels", analysis=(PIXELS,)),
    Argument("num_workers", None, STORAGE, torch=_OF_DATA_LOADER, plan=(int,), analysis=(STORED,)),
    Argument("drop_last", False, ORDER, torch=_OF_DATA_LOADER, convert=_truth),
    Argument("pad_epoch", True, ORDER, old="padding", torch=_OF_DATA_LOADER, convert=_truth),
    Argument("rank", None, ORDER, torch=_OF_DATA_LOADER),
    Argument("world_size", None, ORDER, torch=_OF_DATA_LOADER),
    Argument("order", None, ORDER, torch=_OF_DATA_LOADER, plan=(str,)),
    Argument("page_samples", None, ORDER, of="order", old="page_samples", torch=_OF_DATA_LOADER),
    Argument("window_pages", None, ORDER, of="order", old="window_pages", torch=_OF_DATA_LOADER),
    Argument("indices", None, ORDER),
    Argument("weights", None, ORDER, torch=_OF_DATA_LOADER),
    Argument("repeats", 1, ORDER, torch=_OF_DATA_LOADER),
    Argument("on_error", "raise", FAULTS),
    Argument("max_errors", None, FAULTS, of="on_error", old="max_errors", torch=_NO_EFFECT),
    Argument("on_empty", None, FAULTS, of="on_error", old="on_empty", torch=_NO_EFFECT),
    Argument("host_memory", "4GiB", STORAGE, analysis=(STORED,)),
    Argument("pin_memory", False, STORAGE, torch=_OF_DATA_LOADER),
    Argument("prefetch", 2, STORAGE, torch=_OF_DATA_LOADER, plan=(int,), analysis=(STORED,)),
    Argument("fields", None, DATA, convert=_names),
    Argument("encoded", (), DATA, convert=_names),
    Argument("form_parts", None, DATA, of="forms", member="parts", plan=(dict,)),
    Argument("allowed_forms", None, DATA, of="forms", member="allowed", old="variants", convert=_dict),
    Argument("form_choice", "batch", DATA, of="forms", member="choice", old="form_choice"),
    Argument("views", None, PIXEL),
    Argument("mix", None, PIXEL),
    Argument("per_box", None, BOXES, of="annotations", old="per_box", convert=_names),
    Argument("min_area", 1.0, BOXES, of="annotations", old="min_area", convert=_number),
    Argument("min_visibility", 0.0, BOXES, of="annotations", old="min_visibility", convert=_number),
    Argument("keep_boxes", False, BOXES, of="annotations", old="keep_boxes", convert=_truth),
    Argument("made_for", None, BOXES, of="annotations", old="made_for", convert=_side),
    Argument("own_geometry", (), BOXES, of="annotations", old="own_geometry", convert=_names),
    Argument("pairs", None, BOXES, of="annotations", old="pairs", convert=_pairs),
    Argument("geometry", False, BOXES, of="annotations", convert=_truth),
    Argument("output", "auto", BATCH, torch=_OF_ITSELF, analysis=(PIXELS,)),
    Argument("as_tuple", False, BATCH, torch=_OF_ITSELF),
    Argument("ragged", None, BATCH, torch=_OF_DATA_LOADER),
    Argument("pad_value", None, BATCH, of="ragged", member="value", old="pad_value", torch=_OF_DATA_LOADER, convert=_number),
    Argument("pad_multiple", 1, BATCH, of="ragged", member="multiple", old="pad_multiple", torch=_OF_DATA_LOADER),
    Argument("collate_fn", None, BATCH, torch=_OF_DATA_LOADER, convert=_function),
    Argument("sample_function", None, CODE, of="functions", member="sample", old="sample_function", convert=_function),
    Argument("batch_function", None, CODE, of="functions", member="batch", old="batch_function", torch=_NO_EFFECT,
             convert=_function),  # fmt: skip
    Argument("function_workers", 0, CODE, of="functions", member="workers", old="function_workers", torch=_NO_EFFECT),
    Argument("function_kind", "threads", CODE, of="functions", member="kind", old="function_kind", torch=_NO_EFFECT),
    Argument("function_start", "fork", CODE, of="functions", member="start", old="function_start", torch=_NO_EFFECT),
    Argument("function_timeout", 300.0, CODE, of="functions", member="timeout", old="function_timeout", torch=_NO_EFFECT,
             convert=_number),  # fmt: skip
    Argument("cache", "auto", KEPT, plan=(int, str)),
    Argument("cache_form", "stored", KEPT, of="cache", member="form", old="cache_form", plan=(str,)),
    Argument("cache_resolution", "full", KEPT, of="cache", member="resolution", old="cache_size", old_values={"whole": "full"},
             plan=(str,)),  # fmt: skip
    Argument("cache_plan", None, KEPT, of="cache", member="admit", old="cache_plan", plan=(str,), convert=_path),
    Argument("cache_recode", "at-once", KEPT, of="cache", member="recode", plan=(str,)),
    Argument("fleet", "auto", KEPT),
    Argument("share", None, KEPT),
    Argument("share_wait", 10.0, KEPT, of="share", member="wait", old="share_wait", convert=_number),
    Argument("storage", "auto", STORAGE, of="reading", old="storage", analysis=(STORED,)),
    Argument("page_cache", "keep", STORAGE, of="reading", old="page_cache", analysis=(READS, STORED)),
    Argument("io_threads", None, STORAGE, of="reading", old="io_threads", torch=_NO_EFFECT, analysis=(READS, STORED)),
    Argument("verify", True, STORAGE, of="reading", old="verify", analysis=(STORED,), convert=_truth),
    Argument("throttle", None, STORAGE, of="reading", old="throttle", analysis=(READS, STORED), convert=_throttle),
    Argument("plan", None, WATCHING),
    Argument("live", None, WATCHING, of="watch", old="live", convert=_live),
    Argument("trace", None, WATCHING, of="watch", old="trace", convert=_trace),
)
ROWS: dict[str, Argument] = {row.name: row for row in TABLE}
_OLD = {row.old: row for row in TABLE if row.old}
#: Parameters of Loader with their defaults: those of their rows, and None for objects without a plain value.
PARAMETERS: dict[str, Any] = {row.name: row.default for row in TABLE if not row.of} | {
    name: None for name in GROUPS if name not in ROWS
}


class OldArguments(TypedDict, total=False):
    """Keywords that Loader had before 0.1. They are accepted until 1.0, with a warning that gives the new ones."""

    decode: str
    gpu_share: float | None
    device_memory: int | str | None
    bits: Any
    ignore_orientation: bool
    scaled_decode: Any
    max_pixels: int | None
    padding: bool
    page_samples: int | None
    window_pages: int | None
    max_errors: int | None
    on_empty: str | None
    variants: Any
    form_choice: str
    per_box: Any
    min_area: float
    min_visibility: float
    keep_boxes: bool
    made_for: Any
    own_geometry: Any
    pairs: Any
    pad_value: Any
    pad_multiple: Any
    sample_function: Any
    batch_function: Any
    function_workers: int
    function_kind: str
    function_start: str
    function_timeout: float | None
    cache_form: str
    cache_size: str
    cache_plan: Any
    share_wait: float
    storage: str
    page_cache: str
    io_threads: int | None
    verify: bool
    throttle: Any
    live: bool | None
    trace: Any


def defaults() -> dict[str, Any]:
    """Returns all flat arguments with their defaults."""
    return {row.name: row.default for row in TABLE}


def marked(analysis: str) -> tuple[str, ...]:
    """Returns the flat names of the arguments that affect one step of an analysis."""
    return tuple(row.name for row in TABLE if analysis in row.analysis)


def said_now(row: Argument) -> str:
    """Returns how the argument is written today: "cache=ps.CacheUse(form=...)"."""
    return f"{row.of}=ps.{GROUPS[row.of].__name__}({row.member or row.name}=...)" if row.of else f"{row.name}="


def _value_now(row: Argument, value: Any) -> Any:
    return row.old_values.get(value, value) if row.old_values and isinstance(value, str) else value


def is_default(row: Argument, value: Any) -> bool:
    """Whether a flat value equals the default of its row and has the same type."""
    return value is row.default or (type(value) is type(row.default) and bool(value == row.default))


def flat(given: Mapping[str, Any], older: Mapping[str, Any], who: str, stacklevel: int) -> tuple[dict[str, Any], set[str]]:
    """Converts keyword arguments of Loader to flat arguments. Also returns the names of those that were given.

    Args:
        given: parameters of Loader by name; missing ones have their defaults.
        older: further keywords: old names, which cause a warning, or unknown ones.
        who: name of the called function or class, for errors.
        stacklevel: stacklevel of the warning, as seen from the caller of this function.

    ArgumentError: a keyword is unknown, an object is given to a wrong parameter, or an argument is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        _take(name, value, found)
    renamed = []
    for name, value in older.items():
        row = _OLD.get(name)
        if row is None:
            raise ArgumentError(f"{who} has no argument {name!r}{nearest(name)}")
        if row.name in found and not is_default(row, found[row.name]):
            raise ArgumentError(f"{name}= is the old name of {said_now(row)}: give one of them")
        found[row.name] = _value_now(row, value)
        renamed.append(f"{name}= is {said_now(row)} now")
    if renamed:
        warnings.warn(f"{who}: {'; '.join(renamed)}", FutureWarning, stacklevel=stacklevel + 1)
    return {**defaults(), **found}, set(found)


def converted(flat_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flat arguments in the package's internal form: tuples of names, absolute paths."""
    found = dict(flat_arguments)
    for row in TABLE:
        if row.convert is not None:
            found[row.name] = row.convert(row.shown, found[row.name])
    return found


def nearest(name: str) -> str:
    """Returns the end of an error about an unknown keyword: the most similar known one, and the object that it is a member of
    today."""
    known = [*PARAMETERS, *_OLD]
    near = options.nearest(name, known)
    row = _OLD.get(near.split("'")[1]) if near.count("'") == 2 else None
    return near if row is None else f": did you mean {said_now(row)}?"


def _take(name: str, value: Any, found: dict[str, Any]) -> None:
    """Adds a parameter of Loader to the flat arguments: a plain value, or the members of an object."""
    group = GROUPS.get(name)
    if name == "ragged":
        found.update(_ragged(value))
    elif group is not None and isinstance(value, group):
        for row in _rows_of(name):
            found[row.name] = getattr(value, row.member or row.name)
        plain = PLAIN.get(name)
        if plain is not None:
            found[name] = getattr(value, plain) if plain else "pages"
    elif name == "forms":
        found["form_parts"] = value
    elif name in ROWS:
        found[name] = value
    elif value is not None:
        raise ArgumentError(f"{name} is a penstock.{GROUPS[name].__name__}, not {value!r}")


#: Parameters that take a plain value or an object, with the member that gets the plain value. Pages has no such member: its plain
#value is always "pages".
PLAIN = {"order": "", "on_error": "action", "cache": "cache", "share": "group", "device": "device"}


def _rows_of(parameter: str) -> Iterable[Argument]:
    return (row for row in TABLE if row.of == parameter)


def _ragged(value: Any) -> dict[str, Any]:
    """Returns the flat arguments of ``ragged``: a way, a Padded, or either per field."""
    if isinstance(value, _groups.Padded):
        return {"ragged": "padded", "pad_value": value.value, "pad_multiple": value.multiple}
    if not isinstance(value, Mapping):
        return {"ragged": value}
    padded = {name: way for name, way in value.items() if isinstance(way, _groups.Padded)}
    found: dict[str, Any] = {"ragged": {name: "padded" if name in padded else way for name, way in value.items()}}
    if values := {name: way.value for name, way in padded.items() if way.value is not None}:
        found["pad_value"] = values
    if multiples := {name: way.multiple for name, way in padded.items() if way.multiple != 1}:
        found["pad_multiple"] = multiples
    return found


def renamed(flat_arguments: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Replaces the names of an older Penstock in flat arguments by the current names.

    where: the file with the arguments, for a warning; "": no warning.
    """
    found, old = {}, []
    for name, value in flat_arguments.items():
        row = _OLD.get(name) or (ROWS["form_parts"] if name == "forms" else None)
        if row is None or name == row.name:
            found[name] = value
            continue
        found[row.name] = _value_now(row, value)
        old.append(f"{name} is {row.name} now")
    if old and where:
        warnings.warn(f"{where}: {'; '.join(old)}", FutureWarning, stacklevel=4)
    return found


def completed(flat_arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Completes flat arguments, which may have names of an older Penstock: missing ones get their defaults."""
    return {**defaults(), **renamed(flat_arguments)}


def refuse_for_torch(given: Iterable[str], whole: Mapping[str, Any]) -> None:
    """Raises ArgumentError if a given argument has no effect in a TorchDataset. A member of an object counts only if it differs
    from its default. The error names the first such argument of the table, so an object comes before its members."""
    said = set(given)
    for row in TABLE:
        if row.torch and row.name in said and not (row.of and is_default(row, whole[row.name])):
            raise ArgumentError(row.torch.format(row.shown))
