"""Reads ranges of a data set as rows of plain values, for tasks on other machines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..base import options
from ..data import pli
from ..data.dataset import Dataset, Field
from ..errors import ArgumentError

TARGET_NBYTES = 64 << 20  # bytes of one range, if the user does not give the number of ranges
PROBED = 8  # number of samples that are read to estimate the size of all samples


class Rows:
    """Yields the samples `start` to `stop` of a data set, each as a dict of its columns.

    It can be pickled: the copy opens the data set by its path and fails if another data set lies there (:class:`Dataset`).

    Args:
        dataset: open, or a path.
        columns: names of fields; None: all.
        decode: return images and masks as pixels, else as the bytes of a file.
        name: the column that gets the samples' names; None: no such column.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None, decode: bool, name: str | None) -> None:
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.name = name
        self.decode = bool(decode)
        fields = self.dataset.fields
        chosen = list(fields) if columns is None else list(options.words(columns) or ())
        for column in chosen:
            self.dataset._place(column)  # raises an error if there is no such field
        if len(set(chosen)) != len(chosen) or not (chosen or name):
            raise ArgumentError(f"columns names each field once, and one or more: {chosen}", dataset=self.dataset.path)
        if name in chosen:
            raise ArgumentError(f"the field {name!r} has the name of the column of names: give name=", dataset=self.dataset.path)
        self.fields: dict[str, Field] = {column: fields[column] for column in chosen}
        self.start, self.stop = 0, len(self.dataset)

    def __len__(self) -> int:
        return self.stop - self.start

    def ranges(self, n: int) -> list[Rows]:
        """Splits the samples into n ranges of nearly equal size, in order; fewer if there are fewer samples."""
        n = min(n, len(self))
        cuts = [self.start + len(self) * i // n for i in range(n + 1)] if n else []
        return [self._range(a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]

    def _range(self, start: int, stop: int) -> Rows:
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part.start, part.stop = start, stop
        if self.dataset._indices is not None:  # a view's indices: a task gets only those of its range
            part.dataset = self.dataset.subset(slice(start, stop))
            part.start, part.stop = 0, stop - start
        return part

    def row(self, i: int) -> dict[str, Any]:
        """Returns the values of the sample at position i of the data set."""
        values = {column: self._value(i, field) for column, field in self.fields.items()}
        return values if self.name is None else {self.name: self.dataset.name(i), **values}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(self.start, self.stop):
            yield self.row(i)

    def _value(self, i: int, field: Field) -> Any:
        dataset = self.dataset
        is_picture = field.type in ("image", "mask")
        if field.type == "json" or (is_picture and not self.decode):
            item = dataset.item(i, field.name)
            if not item["present"]:
                return None
            if field.type == "json":  # JSON stays text, because a column cannot hold values of several types
                return dataset.read(i, field.name).decode() or None
            # Raw pixels are not a file, and a PLI file with an EXIF orientation above 1 would be shown rotated, so both are
            # decoded.
            if item["form"] != "raw" and (item["form"] != "pli" or item["orientation"] <= 1):
                return dataset.read(i, field.name, original=True)
        sample = dataset._sample(i)
        value = dataset._value(sample, dataset._place(field.name), field)
        return pli.encode(value, tier="fast") if is_picture and not self.decode else value

    def probed(self) -> list[dict[str, Any]]:
        """Returns a few rows spread over the range, for estimates of sizes."""
        n = min(PROBED, len(self))
        return [self.row(self.start + len(self) * i // n) for i in range(n)]

    def nbytes(self, rows: Sequence[dict[str, Any]]) -> int:
        """Estimates the bytes of all rows in memory from some of them."""
        return sum(map(row_nbytes, rows)) * len(self) // max(1, len(rows))

    def count(self, rows: Sequence[dict[str, Any]], wanted: int | None) -> int:
        """Returns the number of ranges: `wanted`, or a number for ranges of about TARGET_NBYTES."""
        if wanted is not None:
            return options.count("the number of ranges", wanted, 1, 1 << 20)
        return max(1, math.ceil(self.nbytes(rows) / TARGET_NBYTES))


def row_nbytes(row: dict[str, Any]) -> int:
    """Estimates the bytes of a row in memory."""
    total = 0
    for value in row.values():
        nbytes = getattr(value, "nbytes", None)
        total += nbytes if nbytes is not None else len(value) if isinstance(value, (bytes, str)) else 8
    return total
