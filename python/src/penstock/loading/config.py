"""Converts a loader's arguments to plain data and back: ``Loader.config`` and ``Loader.from_config``.

A configuration is a dict by parameter of Loader. Objects such as Reading become dicts of their members, operations the result of
transforms.to_json, a data set its path or a dict. It contains all arguments, so another version with other defaults makes the same
loader from it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import transforms as _transforms
from ..base import files
from ..base import options as _options
from ..caching.planned import Planned
from ..data.dataset import Dataset
from ..data.mixture import Mixture
from ..data.schema import Keypoints
from ..errors import ArgumentError
from . import table
from .table import GROUPS, PLAIN, ROWS

KIND = "penstock loader"
VERSION = 1
_ABSENT = "absent"
_MIXTURE = ("fields", "lacking", "weights", "stop", "quota")
_DATASET = ("path", "labels", "allow_unreadable", "masks", "files", "ignore_labels", "split", "fields")


class _NoPlainForm(Exception):
    """Raised for a value that cannot be converted to JSON."""


# Arguments to plain data ---------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if hasattr(value, "tolist") and not callable(value):  # an array of numpy or torch
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(part) for part in value]
    raise _NoPlainForm


def _dtype(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _dtype(part) for name, part in value.items()}
    return None if value is None else _options.dtype_name(value)


def _operations(value: Any) -> Any:
    for op in _all_operations(value):
        if type(op) is not getattr(_transforms, type(op).__name__, None):  # a class of the user's, which a file cannot name
            raise _NoPlainForm
    return None if value is None else json.loads(_transforms.to_json(value))


def _all_operations(value: Any) -> Iterator[_transforms.Transform]:
    """Yields the operations in a value of transforms or mix, and the operations inside other operations."""
    if isinstance(value, _transforms.Transform):
        yield value
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]  # type: ignore[arg-type]
    elif isinstance(value, Mapping):
        value = list(value.values())
    for part in value if isinstance(value, (list, tuple)) else ():
        yield from _all_operations(part)


def _views(value: Any) -> Any:
    return None if value is None else {name: _view(view) for name, view in value.items()}


def _view(view: Any) -> dict[str, Any]:
    if not isinstance(view, tuple):
        return {"transforms": _operations(view)}
    return {"count": view[0], "transforms": _operations(view[1]), "field": view[2] if len(view) > 2 else None}


def _mixes(value: Any) -> Any:
    if value is None:
        return None
    ways = value if isinstance(value, Sequence) else [value]
    if any(type(way) is not getattr(_transforms, type(way).__name__, None) for way in ways):
        raise _NoPlainForm
    return [_way(way) for way in ways]


def _way(way: Any) -> dict[str, Any]:
    members = {field.name: getattr(way, field.name) for field in _given_of(way)}
    behind = members.pop("transforms", ())  # the operations that follow a Mosaic
    return {"mix": type(way).__name__, **_plain(members), **({"transforms": _operations(behind)} if behind else {})}


def _given_of(way: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(way) if field.init]


def _pairs(value: Any) -> Any:
    if isinstance(value, Keypoints):
        return {"points": value.names or value.n_points or None, "pairs": _plain(value.pairs)}
    if isinstance(value, Mapping):
        return {"fields": {name: _pairs(part) for name, part in value.items()}}
    return _plain(value)


def _admitted(value: Any) -> Any:
    return None if isinstance(value, Planned) else _plain(value)  # left out, because the configuration's plan contains it


_TO_PLAIN: dict[str, Callable[[Any], Any]] = {
    "dtype": _dtype,
    "transforms": _operations,
    "views": _views,
    "mix": _mixes,
    "pairs": _pairs,
    "cache_plan": _admitted,
}


def _mixture(mixture: Mixture) -> dict[str, Any]:
    sources = [_dataset(source) for source in mixture._sources]
    named = sources if mixture._names is None else dict(zip(mixture._names, sources, strict=True))
    view = None if mixture._indices is mixture._shown else mixture.indices.tolist()
    plain = {"sources": named, **_plain(mixture._keywords()), "indices": view}
    return {name: value for name, value in plain.items() if value is not None}


def _dataset(dataset: Dataset) -> Any:
    if type(dataset) is Mixture:
        return _mixture(dataset)
    if type(dataset) is not Dataset:
        raise _NoPlainForm
    plain = dict(zip(_DATASET, _plain(dataset._arguments), strict=True))
    view = {} if dataset._indices is None else {"indices": dataset._indices.tolist()}
    options = {name: value for name, value in {**plain, **view}.items() if value not in (None, False, [])}
    return options if len(options) > 1 else plain["path"]


def _parameter(name: str, given: Mapping[str, Any]) -> Any:
    """Returns a parameter of Loader as plain data: a dict if the parameter is an object."""
    values = {row.name: _TO_PLAIN.get(row.name, _plain)(given[row.name]) for row in table.TABLE if name in (row.name, row.of)}
    if name == "order" and given["order"] != "pages":
        return given["order"]
    members = {ROWS[key].member or key: value for key, value in values.items() if ROWS[key].of}
    if name not in ROWS or name == "forms":
        return members
    if all(table.is_default(ROWS[key], given[key]) for key in values if ROWS[key].of):
        return values[name]
    if name == "ragged":
        return {"kind": values[name], **members}
    return members if name == "order" else {PLAIN[name]: values[name], **members}


def to_config(given: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Returns the configuration of a loader with these flat arguments."""
    config: dict[str, Any] = {"kind": KIND, "version": VERSION}
    absent = ["plan"] if given["schedule"] or isinstance(given["cache_plan"], Planned) else []
    for name in table.PARAMETERS:
        try:
            if name == "dataset":
                config[name] = _dataset(dataset)
            elif name != "plan":
                config[name] = _parameter(name, given)
        except _NoPlainForm:
            absent.append(name)
    return {**config, _ABSENT: absent} if absent else config


# Plain data to arguments -------------------------------------------------------------------------------------


def _to_mixture(value: Mapping[str, Any]) -> Dataset:
    options = dict(value)
    indices, sources, rename = (options.pop(name, None) for name in ("indices", "sources", "rename"))
    for name in options:
        if name not in _MIXTURE:
            raise ArgumentError(f"dataset: no member {name!r}{_options.nearest(name, [*_MIXTURE, 'sources', 'rename', 'indices'])}")
    if isinstance(sources, Mapping):
        sources = {name: _to_dataset(source) for name, source in sources.items()}
    else:
        sources = [_to_dataset(source) for source in sources]
        rename = rename and {int(key): names for key, names in rename.items()}  # JSON has only texts as keys
    mixture = Mixture(sources, rename=rename, **options)
    return mixture if indices is None else mixture._of_numbers(indices)


def _to_dataset(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "sources" in value:
        return _to_mixture(value)
    options = dict(value)
    indices = options.pop("indices", None)
    for name in options:
        if name not in _DATASET:
            raise ArgumentError(f"dataset: no member {name!r}{_options.nearest(name, [*_DATASET, 'indices'])}")
    if "path" not in options:
        raise ArgumentError("dataset: the member 'path' is missing")
    dataset = Dataset(**options)
    return dataset if indices is None else dataset.subset(list(indices))


def _to_operations(value: Any) -> Any:
    return None if value is None else _transforms.from_json(json.dumps(_as_json(value)))


def _as_json(value: Any) -> Any:
    """Converts containers of other libraries, such as OmegaConf's, to dicts and lists. Operations in them are converted to JSON."""
    if isinstance(value, _transforms.Transform):
        return json.loads(_transforms.to_json([value]))[0]
    if isinstance(value, Mapping):
        return {name: _as_json(part) for name, part in value.items()}
    return [_as_json(part) for part in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _to_views(value: Any) -> Any:
    return {name: _to_view(view) for name, view in value.items()} if isinstance(value, Mapping) else value


def _to_view(view: Any) -> Any:
    if not isinstance(view, Mapping):
        return _to_operations(view)
    operations = _to_operations(view.get("transforms"))
    if view.get("count") is None:
        return operations
    return (view["count"], operations) if view.get("field") is None else (view["count"], operations, view["field"])


def _to_mixes(value: Any) -> Any:
    if value is None:
        return None
    ways = [value] if isinstance(value, Mapping) else list(value)
    return [_to_mix(way) if isinstance(way, Mapping) else way for way in ways]


def _to_mix(way: Mapping[str, Any]) -> _transforms.Mix:
    known = {kind.__name__: kind for kind in (_transforms.MixUp, _transforms.CutMix, _transforms.Mosaic)}
    name = str(way.get("mix"))
    if name not in known:
        raise ArgumentError(f"mix: no way {name!r}{_options.nearest(name, list(known))}")
    members = {key: _to_operations(value) if key == "transforms" else value for key, value in way.items() if key != "mix"}
    made: _transforms.Mix = _made(f"mix {name}", known[name], members)
    return made


def _to_pairs(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"points", "pairs"}:
        return Keypoints(points=value["points"], pairs=value["pairs"])
    if isinstance(value, Mapping):
        return {name: _to_pairs(part) for name, part in value.get("fields", value).items()}
    return value


_FROM_PLAIN: dict[str, Callable[[Any], Any]] = {
    "dataset": _to_dataset,
    "transforms": _to_operations,
    "views": _to_views,
    "mix": _to_mixes,
}


def _made(where: str, kind: type, members: Mapping[str, Any]) -> Any:
    """Makes an object from a dict of its members. An unknown member raises an error that lists the known ones."""
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for name in members:
        if name not in known:
            raise ArgumentError(f"{where}: no member {name!r}{_options.nearest(str(name), known)}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in members.items()}
    try:
        return kind(**values)
    except TypeError as error:  # TypeError: a required member is missing
        raise ArgumentError(f"{where}: {error}") from None


def _value(name: str, value: Any) -> Any:
    """Converts the plain data of a parameter (dict, number or text) back to its value."""
    group = GROUPS.get(name)
    if name in _FROM_PLAIN:
        return _FROM_PLAIN[name](value)
    if group is None or not isinstance(value, Mapping):
        return value
    if name == "ragged":
        return _to_ragged(value)
    members = {field.name for field in dataclasses.fields(group)}
    if name == "forms" and not members & set(value):
        return dict(value)  # for example, the parts of `forms`
    if name == "annotations" and "pairs" in value:
        value = {**value, "pairs": _to_pairs(value["pairs"])}
    return _made(name, group, value)


def _to_ragged(value: Mapping[str, Any]) -> Any:
    """Returns the value of ``ragged``: one value for all fields, or a dict by field."""
    if "kind" not in value:
        return {name: _made(f"ragged[{name!r}]", GROUPS["ragged"], way) if isinstance(way, Mapping) else way for name,
                way in value.items()}
    kind, pads, multiples = value["kind"], value.get("value"), value.get("multiple", 1)
    if not isinstance(kind, Mapping):
        return GROUPS["ragged"](pads, multiples) if kind == "padded" else kind
    return {name: GROUPS["ragged"](_of_field(pads, name), _of_field(multiples, name) or 1) if way == "padded" else way
            for name, way in kind.items()}  # fmt: skip


def _of_field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value


def to_arguments(config: Mapping[str, Any] | str | os.PathLike[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments for Loader from a configuration or its file. Arguments in `given` override the
    configuration."""
    if isinstance(config, Mapping):
        return _to_arguments(config, given)
    name = os.fspath(config)
    found = files.read_json(name, "configuration")
    with files.of_file(name):
        return _to_arguments(found, given)


def _to_arguments(config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(config, Mapping) or config.get("kind", KIND) != KIND:
        raise ArgumentError(f"the configuration of a loader has the kind {KIND!r}, or none")
    version = config.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise ArgumentError(f"the configuration has version {version!r}; this Penstock knows {VERSION}")
    missing = [name for name in config.get(_ABSENT) or () if name not in given]
    if missing:
        raise ArgumentError(f"the configuration has no {', '.join(missing)}, which its loader had: give them to from_config")
    found = dict(given)
    for name, value in config.items():
        if name in ("kind", "version", _ABSENT) or name in found:
            continue
        if name not in table.PARAMETERS:
            raise ArgumentError(f"the configuration has an argument {name!r}{table.nearest(name)}")
        found[name] = _value(name, value)
    if "dataset" not in found:
        raise ArgumentError("the configuration names no dataset")
    return found
