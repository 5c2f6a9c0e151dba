"""Reads data sets for ray.data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ..base.public import public
from .rays import block, ray_data
from .rows import Rows, row_nbytes

__all__ = ["Source", "read"]

_BLOCK_NBYTES = 32 << 20


class Source(ray_data.Datasource):
    """Reads a data set for ray.data: ``ray.data.read_datasource(Source("train.pst"))``.

    Each read task has a range of samples. It opens the data set by its path, on a file system that all nodes see, and fails with
    StateError if the path holds another or a changed data set. The number of rows and the schema are known before any task runs.

    Args:
        dataset: a :class:`penstock.Dataset`, also a view of one, or the path of any data set that Penstock reads.
        columns: names of fields; None: all.
        decode: deliver images and masks as uint8 or uint16 arrays. Otherwise as bytes: the file that was packed, or PLI of raw
            pixels. :func:`penstock.decode` reads both.
        name: the column that gets the samples' names; None: no such column.

    Columns: int and float as numbers, text and JSON as str, bytes and audio as bytes; arrays, boxes and keypoints as
    tensors.
    """

    def __init__(
        self, dataset: Any, *, columns: Sequence[str] | None = None, decode: bool = False, name: str | None = "name"
    ) -> None:
        super().__init__()
        self._rows = Rows(dataset, columns, decode, name)
        self._probed = self._rows.probed()

    def get_name(self) -> str:
        """Returns the name that Ray shows."""
        return "Penstock"

    def estimate_inmemory_data_size(self) -> int | None:
        """Estimates the bytes of all rows in memory from a few of them."""
        return self._rows.nbytes(self._probed)

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
        """Returns at most `parallelism` read tasks. Newer releases of Ray pass more arguments, which are ignored."""
        schema = block.BlockAccessor.for_block(_block(self._rows, self._probed)).schema() if self._probed else None
        tasks = []
        for part in self._rows.ranges(max(1, parallelism)):
            metadata = block.BlockMetadata(
                num_rows=len(part), size_bytes=part.nbytes(self._probed), input_files=None, exec_stats=None
            )
            tasks.append(ray_data.ReadTask(partial(blocks, part), metadata, schema=schema))
        return tasks


def blocks(part: Rows) -> Iterator[Any]:
    """Yields the rows as blocks of ray.data."""
    rows: list[dict[str, Any]] = []
    nbytes = 0
    for row in part:
        rows.append(row)
        nbytes += row_nbytes(row)
        if nbytes >= _BLOCK_NBYTES:
            yield _block(part, rows)
            rows, nbytes = [], 0
    if rows:
        yield _block(part, rows)


def _block(part: Rows, rows: Sequence[dict[str, Any]]) -> Any:
    import numpy as np

    columns: dict[str, Any] = {}
    for column in rows[0]:
        values = [row[column] for row in rows]
        field = part.fields.get(column)
        if field is not None and field.type in ("int", "float"):
            columns[column] = np.array(values, np.int64 if field.type == "int" else np.float64)
        elif field is not None and field.type == "array" and field.shape:
            columns[column] = np.stack(values)
        else:  # always an array of objects, so that the column has the same type in all blocks
            columns[column] = np.empty(len(values), object)
            for i, value in enumerate(values):
                columns[column][i] = value
    return block.BlockAccessor.batch_to_block(columns)


def read(
    dataset: Any,
    *,
    columns: Sequence[str] | None = None,
    decode: bool = False,
    name: str | None = "name",
    **options: Any,
) -> Any:
    """Returns a ray.data.Dataset of a data set: see :class:`Source`.

    options: arguments of ``ray.data.read_datasource``: ``override_num_blocks``, ``ray_remote_args``, ``concurrency``, ...
    """
    return ray_data.read_datasource(Source(dataset, columns=columns, decode=decode, name=name), **options)


public(__name__, "penstock.ray")
