"""Writes data sets from ray.data: each write task writes a part, and one commit joins the parts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .. import _native
from ..base.public import public
from ..data.dataset import Dataset, Field
from ..data.schema import FieldSpec, Json, Keypoints, _Value, spec, spec_on_disk
from ..data.writer import Writer
from ..errors import ArgumentError, ExistsError, NotFoundError, StateError
from .rays import block, ray_data

__all__ = ["Sink", "write"]


class _Part(NamedTuple):
    """The result of one write task: its number, the folder with the data set that it wrote, the number of samples, and whether the
    rows named their samples."""

    number: int
    folder: str
    n_samples: int
    is_named: bool


class Sink(ray_data.Datasink):
    """Writes a new data set from ray.data: ``dataset.write_datasink(Sink("train.pst", schema))``.

    Each write task writes a part into its own folder beside the destination, on a file system that all nodes see. When all tasks
    are done, the process that called for the write copies the parts in the order of the tasks and renames the result. Until then
    the destination does not exist. A task that Ray runs again or twice adds no sample twice. After an error nothing is left. If the
    calling process is killed, the folder ``.NAME.ray-...`` is left, and you may remove it.

    Args:
        path: the directory to make; it must not exist, or must be empty.
        schema: as for :class:`penstock.Writer`: a field for each column. Or a data set (open, or its path) whose fields the new one
            copies: types, classes, and the orientation that masks and boxes were made for. Images keep the form in which their
            bytes are stored.
        name: the column with the samples' names, which must differ. Without such a column, or with None, the samples are named by
            their numbers.
        shard_size, commit_size: as for :class:`penstock.Writer`.

    Values are those that :class:`penstock.Writer` takes. For a field :class:`penstock.Json`, a str is parsed as JSON text, because
    :class:`Source` delivers JSON as text.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Any,
        *,
        name: str | None = "name",
        shard_size: int | str = "1GiB",
        commit_size: int | str = "256MiB",
    ) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._specs = _specs(schema)
        if name in self._specs:
            raise ArgumentError(f"the field {name!r} has the name of the column of names: give name=", dataset=self._path)
        self._name = name
        self._sizes = {"shard_size": shard_size, "commit_size": commit_size}
        above, own = os.path.split(self._path)
        self._staging = os.path.join(above, f".{own}.ray-{uuid.uuid4().hex}")

    def get_name(self) -> str:
        """Returns the name that Ray shows."""
        return "Penstock"

    @property
    def supports_distributed_writes(self) -> bool:
        """Returns True: write tasks may run on any node."""
        return True

    def on_write_start(self, *_: Any, **__: Any) -> None:
        """Makes the folder of parts. Newer releases of Ray pass more arguments, which are ignored."""
        self._refuse_existing()
        os.mkdir(self._staging)

    def write(self, blocks: Iterable[Any], ctx: Any) -> _Part | None:
        """Writes the rows of one task into its own data set. Returns None if there were no rows."""
        # If mkdir fails because the parent folder is gone, the whole write has ended and this rerun comes too late. makedirs would
        # hide that.
        folder = f"task-{ctx.task_idx:08d}-{uuid.uuid4().hex}"
        path = os.path.join(self._staging, folder)
        try:
            os.mkdir(path)
        except FileNotFoundError:
            raise NotFoundError(
                f"the folder of parts {self._staging} is not there: the write has ended, or this node does not see the "
                "file system of the destination",
                dataset=self._path,
            ) from None
        try:
            n, is_named = self._write_part(path, blocks)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if n == 0:
            shutil.rmtree(path, ignore_errors=True)
        return _Part(ctx.task_idx, folder, n, is_named) if n else None

    def _write_part(self, path: str, blocks: Iterable[Any]) -> tuple[int, bool]:
        is_named = False
        with Writer(path, self._specs, **self._sizes) as writer:  # type: ignore[arg-type]
            for name, sample in self._samples(blocks):
                if len(writer) == 0:
                    is_named = name is not None
                elif is_named != (name is not None):
                    raise self._some_names()
                writer.write(sample, name)
            return len(writer), is_named

    def _some_names(self) -> ArgumentError:
        return ArgumentError(f"some rows have a name in the column {self._name!r}, and others have none", dataset=self._path)

    def _samples(self, blocks: Iterable[Any]) -> Iterator[tuple[str | None, dict[str, Any]]]:
        for one in blocks:
            for row in block.BlockAccessor.for_block(one).iter_rows(public_row_format=True):
                sample = dict(row)
                name = None if self._name is None else sample.pop(self._name, None)
                for field, kind in self._specs.items():
                    if isinstance(kind, Json) and isinstance(sample.get(field), str):
                        sample[field] = _parsed(field, sample[field])
                yield None if name is None else str(name), sample

    def on_write_complete(self, write_result: Any) -> None:
        """Joins the parts to one data set. Of a task that ran several times, Ray reports only the last run."""
        try:
            self._commit([part for part in write_result.write_returns if part is not None], write_result.num_rows)
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)

    def on_write_failed(self, error: Exception) -> None:
        """Removes the folder of parts."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def _commit(self, parts: list[_Part], n_rows: int) -> None:
        parts.sort()
        n_parts, n_samples = len({part.number for part in parts}), sum(part.n_samples for part in parts)
        if n_parts != len(parts) or n_samples != n_rows:
            raise StateError(
                f"Ray tells of {n_rows} rows, and {len(parts)} parts of {n_parts} tasks have {n_samples} samples",
                dataset=self._path,
            )
        if len({part.is_named for part in parts}) > 1:
            raise self._some_names()
        whole = os.path.join(self._staging, "whole")
        with Writer(whole, self._specs, **self._sizes) as writer:  # type: ignore[arg-type]
            for part in parts:
                folder = os.path.join(self._staging, part.folder)
                with Dataset(folder) as dataset:
                    if len(dataset) != part.n_samples:
                        raise StateError(f"{folder} has {len(dataset)} samples, its task told of {part.n_samples}",
                                         dataset=self._path)  # fmt: skip
                    _copy(dataset, writer, part.is_named)
                shutil.rmtree(folder)
        self._refuse_existing()
        try:
            os.rename(whole, self._path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            raise ExistsError(f"{self._path} came into being during the write: {error}", dataset=self._path) from None
        above = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(above)
        finally:
            os.close(above)

    def _refuse_existing(self) -> None:
        if os.path.lexists(self._path) and not (os.path.isdir(self._path) and not os.listdir(self._path)):
            raise ExistsError(f"{self._path} exists already", dataset=self._path)


def _specs(schema: Any) -> dict[str, FieldSpec]:
    if isinstance(schema, Mapping):
        if not schema:
            raise ArgumentError("schema says which fields the data set has; it is empty")
        return {name: spec(name, given) for name, given in schema.items()}
    dataset = schema if isinstance(schema, Dataset) else Dataset(schema)
    # A field of the other data set may have several variants of an image, but a row has only one file for it.
    fields = [{**field, "n_variants": 1} for field in dataset._native.fields()]
    specs = {field["name"]: spec_on_disk(field, dataset.class_names(field["name"])) for field in fields}
    for name, field in dataset.fields.items():
        if field.type == "keypoints":
            points = dataset.class_names(name) or field.n_classes or None
            specs[name] = Keypoints(field.made_for or None, points=points, pairs=field.pairs)
    return specs


def _parsed(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"field {field!r}: a str is text of JSON here, and this is none: {error}") from None


def _copy(dataset: Dataset, writer: Writer, is_named: bool) -> None:
    """Copies all samples of a data set as they are stored. A sample without a name gets its number in the new data set as its
    name."""
    fields = list(enumerate(dataset.fields.values()))
    for i in range(len(dataset)):
        values: dict[str, list[_Value | None]] = {}
        for i_field, field in fields:
            if field.type in ("int", "float"):
                value = dataset._native.value(i, i_field)
                values[field.name] = [_Value(struct.pack("=q" if field.type == "int" else "=d", value))]
            else:
                values[field.name] = [_stored(dataset, field, (i, i_field, variant)) for variant in range(field.n_variants)]
        writer._add(dataset.name(i) if is_named else f"{len(writer):012d}", values, ())


def _stored(dataset: Dataset, field: Field, place: tuple[int, int, int]) -> _Value | None:
    """Returns the stored bytes at a place (sample, field, variant); None if the sample lacks that variant."""
    item = dataset._native.item(*place)
    if not item["present"]:
        return None
    data = dataset._native.read(*place, 0, item["decoded_nbytes"])
    if field.type not in ("image", "mask"):
        return _Value(data, shape=item["shape"] if field.type == "array" else None)
    if item["form"] == "raw":
        return _Value(data, _native.form_number("raw"), item["height"], item["width"], item["channels"], item["bits"])
    return _Value(data, _native.form_number(item["form"]), was_pli=item["was_pli"])


def write(dataset: Any, path: str | os.PathLike[str], schema: Any, *, name: str | None = "name", **options: Any) -> None:
    """Writes a ray.data.Dataset as a data set: see :class:`Sink`.

    options: shard_size and commit_size of :class:`Sink`. Others go to ``write_datasink``: ``ray_remote_args``, ``concurrency``.
    """
    sizes = {word: options.pop(word) for word in ("shard_size", "commit_size") if word in options}
    dataset.write_datasink(Sink(path, schema, name=name, **sizes), **options)


public(__name__, "penstock.ray")
