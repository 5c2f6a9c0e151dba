"""Replaces pyspark where it is not installed: it has the base classes of its data sources and the types that penstock.spark uses.

A session reads partition by partition in this process; source, partitions and reader go through pickle, as between Spark's
processes. Values are not compared with the schema as Spark does: scripts/check_ray.py runs the same tests with the real one.
"""

from __future__ import annotations

import pickle
import sys
from types import ModuleType, SimpleNamespace


class DataSource:
    def __init__(self, options):
        self.options = options


class DataSourceReader:
    pass


class InputPartition:
    def __init__(self, value):
        self.value = value


class _Type:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return type(self) is type(other) and self.parts == other.parts

    __hash__ = None


class StructField(_Type):
    def __init__(self, name, kind, nullable=True):
        super().__init__(name, kind, nullable)
        self.name, self.dataType = name, kind


class StructType(_Type):
    def __init__(self, fields):
        super().__init__(tuple(fields))
        self.names = [field.name for field in fields]


class Row(SimpleNamespace):
    def __getitem__(self, name):
        return getattr(self, name)


class Frame:
    def __init__(self, source):
        self._source, self.schema = source, source.schema()

    def _partitions(self):
        return [pickle.loads(pickle.dumps(one)) for one in self._source.reader(self.schema).partitions()]

    @property
    def rdd(self):
        return SimpleNamespace(getNumPartitions=lambda: len(self._partitions()))

    def count(self):
        return len(self.collect())

    def collect(self):
        reader = pickle.loads(pickle.dumps(self._source.reader(self.schema)))
        return [_row(self.schema, values) for one in self._partitions() or [None] for values in reader.read(one)]


def _row(schema, values):
    """Returns a row as Spark returns it: structs with named members, bytes as bytearray."""
    row = Row()
    for field, value in zip(schema.parts[0], values, strict=True):
        if isinstance(field.dataType, StructType) and value is not None:
            value = _row(field.dataType, value)
        setattr(row, field.name, bytearray(value) if isinstance(value, bytes) else value)
    return row


class Reader:
    def __init__(self, known):
        self._known, self._options = known, {}

    def format(self, name):
        self._source = self._known[name]
        return self

    def option(self, name, value):
        self._options[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def load(self, path=None):
        return Frame(self._source(self._options | ({"path": path} if path else {})))


class Session:
    def __init__(self):
        self._known = {}
        self.dataSource = SimpleNamespace(register=lambda source: self._known.update({source.name(): source}))

    @property
    def read(self):
        return Reader(self._known)

    def stop(self):
        pass


TYPES = ("BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType", "StringType", "BinaryType",
         "ArrayType")  # fmt: skip


def install() -> None:
    """Makes `import pyspark` return this stand-in."""
    pyspark, sql = ModuleType("pyspark"), ModuleType("pyspark.sql")
    datasource, types = ModuleType("pyspark.sql.datasource"), ModuleType("pyspark.sql.types")
    for thing in (DataSource, DataSourceReader, InputPartition):
        setattr(datasource, thing.__name__, thing)
    for name in TYPES:
        setattr(types, name, type(name, (_Type,), {}))
    types.DataType, types.StructField, types.StructType = _Type, StructField, StructType
    pyspark.sql, sql.datasource, sql.types, pyspark.is_stand_in = sql, datasource, types, True
    sys.modules.update({"pyspark": pyspark, "pyspark.sql": sql, "pyspark.sql.datasource": datasource, "pyspark.sql.types": types})


def remove() -> None:
    """Removes the stand-in, because other packages in this process must not take it for pyspark."""
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.types"):
        del sys.modules[name]
