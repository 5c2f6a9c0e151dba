"""Spark reads data sets. Uses pyspark if it is installed, else tests/stand_ins/small_spark.py."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import penstock as ps

sys.path.insert(0, str(Path(__file__).parent / "stand_ins"))
if importlib.util.find_spec("pyspark") is None:
    import small_spark

    small_spark.install()
import pyspark

from penstock import spark as pst_spark

if hasattr(pyspark, "is_stand_in"):
    small_spark.remove()

N = 13
SCHEMA = {
    "image": ps.Image("raw"), "mask": ps.Mask(made_for="stored"), "boxes": "boxes", "label": ps.Int(classes=["ant", "bee"]),
    "score": "float", "note": "text", "more": ps.Json(missing=None), "blob": "bytes", "bits": ps.Array("uint8", (2, 3)),
    "ragged": ps.Array("float16"), "large": ps.Array("uint32", (1,)), "flags": ps.Array("bool"),
}  # fmt: skip


def sample(i):
    rng = np.random.default_rng(i)
    more = {"more": {"i": i}} if i % 2 else {}
    return {
        **more, "image": rng.integers(0, 65536, (3 + i, 4, 3), np.uint16), "mask": np.full((3 + i, 4), i, np.uint8),
        "boxes": np.array([[0, 0, 1 + k, 2] for k in range(i % 3)], np.float32).reshape(-1, 4), "label": i % 2, "score": i / 7,
        "note": f"nöte {i}", "blob": bytes([i, 0, 255]) * (i % 3), "bits": rng.integers(0, 256, (2, 3), np.uint8),
        "ragged": np.arange(i % 4, dtype=np.float16), "large": np.array([2**32 - 1 - i], np.uint32), "flags": np.arange(i % 5) > 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def session():
    """Starts one small session of Spark in a JVM, or the stand-in's session."""
    if hasattr(pyspark, "is_stand_in"):
        import small_spark

        found = small_spark.Session()
    else:
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        from pyspark.sql import SparkSession

        # the Python of Spark's workers; the first python3 in PATH may lack packages that they need
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {"spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1",
                    "spark.driver.bindAddress": "127.0.0.1"}  # fmt: skip
        builder = SparkSession.builder.master("local[2]").appName("penstock")
        for name, value in settings.items():
            builder = builder.config(name, value)
        found = builder.getOrCreate()
    pst_spark.register(found)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "set.pst"
    with ps.Writer(path, SCHEMA) as writer:
        writer.write_many((f"sample {i}", sample(i)) for i in range(N))
    return path


def reader(session, **options):
    found = session.read.format("penstock")
    for name, value in options.items():
        found = found.option(name, value)
    return found


def same(struct, array):
    return list(struct["shape"]) == list(array.shape) and list(struct["values"]) == array.reshape(-1).tolist()


def test_rows_are_the_samples(session, packed):
    whole = ps.Dataset(packed)
    frame = reader(session, decode=True, partitions=4).load(str(packed))
    assert frame.schema.names == ["name", *SCHEMA]
    assert frame.rdd.getNumPartitions() == 4
    rows = frame.collect()
    assert [row["name"] for row in rows] == [whole.name(i) for i in range(N)]
    for i, row in enumerate(rows):
        wanted = whole[i]
        for field in ("label", "score", "note"):
            assert row[field] == wanted[field]
        assert row["more"] == (f'{{"i":{i}}}' if i % 2 else None)
        assert bytes(row["blob"]) == wanted["blob"]
        assert np.array_equal(np.array(row["boxes"]).reshape(-1, 4), wanted["boxes"])
        for field in ("bits", "ragged", "large", "flags"):
            assert same(row[field], wanted[field])
        for field, dtype in (("image", "<u2"), ("mask", "u1")):
            picture = row[field]
            pixels = np.frombuffer(picture["pixels"], dtype).reshape(picture["height"], picture["width"], picture["channels"])
            assert picture["bits"] == 8 * np.dtype(dtype).itemsize
            assert np.array_equal(pixels, wanted[field].reshape(pixels.shape))


def test_columns_and_files(session, packed):
    whole = ps.Dataset(packed)
    frame = reader(session, columns="label, image", name="").load(str(packed))
    assert frame.schema.names == ["label", "image"]
    for i, row in enumerate(frame.collect()):
        assert row["label"] == i % 2
        assert np.array_equal(ps.decode(bytes(row["image"])), whole[i]["image"])


def test_a_folder_is_read_too(session):
    folder = Path(__file__).parents[2] / "examples/photographs"
    whole = ps.Dataset(folder)
    rows = reader(session, partitions=3).load(str(folder)).collect()
    assert [row["name"] for row in rows] == [whole.name(i) for i in range(len(whole))]
    assert all(bytes(row["image"]) == (folder / row["name"]).read_bytes() for row in rows)


def test_an_empty_data_set_has_no_rows(session, tmp_path):
    with ps.Writer(tmp_path / "set.pst", {"label": "int"}):
        pass
    assert reader(session).load(str(tmp_path / "set.pst")).count() == 0


def test_another_data_set_at_the_path_is_refused(packed, tmp_path):
    import pickle

    shutil.copytree(packed, tmp_path / "set.pst")
    source = pst_spark.Source({"path": str(tmp_path / "set.pst"), "partitions": "2"})
    sent = [pickle.dumps(one) for one in source.reader(source.schema()).partitions()]
    shutil.rmtree(tmp_path / "set.pst")
    with ps.Writer(tmp_path / "set.pst", SCHEMA) as writer:
        writer.write_many((f"sample {i}", sample(i + 1)) for i in range(N))
    for one in sent:
        with pytest.raises(ps.errors.StateError, match="another data set, or a changed one"):
            pickle.loads(one)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"columns": "imag"}, "no field 'imag'"), ({"rows": "image"}, "unknown: rows"), ({"partitions": "0"}, "above 0"),
     ({"partitions": "²"}, "above 0"), ({"decode": "yes"}, "true or false"), ({"path": ""}, "path of the data set is missing")],
)  # fmt: skip
def test_bad_options_are_told(packed, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        pst_spark.Source({"path": str(packed), **options})


def test_numbers_that_spark_has_no_type_for_are_refused(tmp_path):
    with ps.Writer(tmp_path / "set.pst", {"wide": ps.Array("uint64", (1,)), "label": "int"}) as writer:
        writer.write({"wide": np.array([2**64 - 1], np.uint64), "label": 1})
    with pytest.raises(ps.errors.ArgumentError, match="no type for uint64, of the field 'wide'"):
        pst_spark.Source({"path": str(tmp_path / "set.pst")}).schema()
    assert pst_spark.Source({"path": str(tmp_path / "set.pst"), "columns": "label"}).schema().names == ["name", "label"]


def test_without_spark_the_words_say_what_to_install():
    code = """
        import sys
        sys.modules["pyspark"] = None
        import penstock
        try:
            import penstock.spark
        except ImportError as error:
            assert "pip install 'penstock[spark]'" in str(error), error
        else:
            raise AssertionError
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
