"""Data sets as a data source of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.public import public
from ..data.dataset import Dataset, Field
from ..errors import ArgumentError
from .rows import Rows

try:
    from pyspark.sql import datasource, types
except ImportError as error:
    raise ImportError(f"penstock.spark needs Spark 4: pip install 'penstock[spark]' ({error})", name=error.name) from error

__all__ = ["Source", "register"]

_OPTIONS = ("path", "columns", "decode", "name", "partitions", "labels", "split")
# For each dtype, the smallest type of Spark that holds all its values. Spark has no unsigned types.
_ELEMENTS = {
    "bool": types.BooleanType, "int8": types.ByteType, "uint8": types.ShortType, "int16": types.ShortType,
    "uint16": types.IntegerType, "int32": types.IntegerType, "uint32": types.LongType, "int64": types.LongType,
    "float16": types.FloatType, "float32": types.FloatType, "float64": types.DoubleType,
}  # fmt: skip
_SCALARS = {
    "int": types.LongType, "float": types.DoubleType, "text": types.StringType, "json": types.StringType,
    "bytes": types.BinaryType, "audio": types.BinaryType,
}  # fmt: skip


class Source(datasource.DataSource):
    """Reads a data set as a data source of Spark, named ``penstock``::

        penstock.spark.register(spark)
        spark.read.format("penstock").option("columns", "image,label").load("train.pst")

    Each partition is a range of samples. Its task opens the data set by its path, on a file system that all executors see, and
    fails with StateError if the path holds another or a changed data set.

    Options: ``columns``: names separated by commas; ``decode``: true for pixels instead of files; ``name``: the column that gets
    the samples' names, "" for none; ``partitions``: their number (default: about 64 MiB each); ``labels`` and ``split`` as for
    :class:`penstock.Dataset`.

    Columns: int as long, float as double, text and JSON as string; files, bytes and audio as binary; boxes and keypoints
    as array<array<float>>; an array field as struct<shape: array<int>, values: array<...>>, the values in C order; decoded
    images as struct<height, width, channels, bits: int, pixels: binary>, 16 bits in little endian.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        if unknown := [option for option in options if option.lower() not in _OPTIONS]:
            raise ArgumentError(f"the options of a data set are {', '.join(_OPTIONS)}; unknown: {', '.join(unknown)}")
        given = {option.lower(): value for option, value in options.items()}
        if not given.get("path"):
            raise ArgumentError("the path of the data set is missing: load(path)")
        words = given.get("columns")
        self._partitions = _number(given.get("partitions"))
        dataset = Dataset(given["path"], labels=given.get("labels"), split=given.get("split"))
        self._rows = Rows(
            dataset,
            None if words is None else [word.strip() for word in words.split(",")],
            _flag("decode", given.get("decode", "false")),
            given.get("name", "name") or None,
        )

    @classmethod
    def name(cls) -> str:
        """Returns the name of the data source."""
        return "penstock"

    def schema(self) -> types.StructType:
        """Returns the columns with their types."""
        rows = self._rows
        named = [] if rows.name is None else [types.StructField(rows.name, types.StringType(), False)]
        fields = [types.StructField(column, _type(field, rows.decode)) for column, field in rows.fields.items()]
        return types.StructType([*named, *fields])

    def reader(self, schema: types.StructType) -> _Reader:
        """Returns the reader of the partitions."""
        if schema != self.schema():
            raise ArgumentError("a data set has the schema of its fields: choose columns by the option columns, or by select",
                                dataset=self._rows.dataset.path)  # fmt: skip
        return _Reader(self._rows, self._partitions)


class _Partition(datasource.InputPartition):
    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)


class _Reader(datasource.DataSourceReader):
    def __init__(self, rows: Rows, n: int | None) -> None:
        self._rows, self._n = rows, n

    def partitions(self) -> list[datasource.InputPartition]:
        n = self._rows.count([] if self._n is not None else self._rows.probed(), self._n)
        return [_Partition(part) for part in self._rows.ranges(n)]

    def read(self, partition: datasource.InputPartition) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, _Partition):  # Spark passes None if the data set has no partitions
            return
        rows: Rows = partition.value
        for row in rows:
            yield tuple(_value(rows.fields.get(column), value) for column, value in row.items())


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"partitions is a number above 0, not {text!r}")
    return int(text)


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ArgumentError(f"{option} is true or false, not {text!r}")
    return text.lower() == "true"


def _type(field: Field, decode: bool) -> types.DataType:
    """Returns the Spark type of a field."""
    if field.type in _SCALARS:
        return _SCALARS[field.type]()
    if field.type in ("image", "mask"):
        if not decode:
            return types.BinaryType()
        numbers = [types.StructField(word, types.IntegerType()) for word in ("height", "width", "channels", "bits")]
        return types.StructType([*numbers, types.StructField("pixels", types.BinaryType())])
    if field.type in ("boxes", "keypoints"):
        return types.ArrayType(types.ArrayType(types.FloatType()))
    if field.dtype not in _ELEMENTS:
        raise ArgumentError(f"Spark has no type for {field.dtype}, of the field {field.name!r}: give the option columns")
    shape = types.StructField("shape", types.ArrayType(types.IntegerType()))
    return types.StructType([shape, types.StructField("values", types.ArrayType(_ELEMENTS[field.dtype]()))])


def _value(field: Field | None, value: Any) -> Any:
    """Converts a value of a row to the type that Spark expects. field: None for the column of names."""
    if field is None or value is None or field.type in _SCALARS or isinstance(value, bytes):
        return value
    if field.type in ("image", "mask"):
        height, width, channels = value.shape if value.ndim == 3 else (*value.shape, 1)
        return (height, width, channels, 8 * value.itemsize, value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes())
    if field.type in ("boxes", "keypoints"):
        return value.tolist()
    return (list(value.shape), value.reshape(-1).tolist())


def register(spark: Any) -> None:
    """Registers the format "penstock" with a Spark session: ``spark.read.format("penstock")``. See :class:`Source`."""
    spark.dataSource.register(Source)


public(__name__, "penstock.spark")
