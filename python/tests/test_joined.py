"""Samples of tars that are joined with rows of a table."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from penstock.data.sources import joined

N = 6
KEYS = [f"train/ü{i:03d}" for i in range(N)]


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def jpeg(i: int) -> bytes:
    return encoded(picture(i, 30 + i, 40), "JPEG")


@pytest.fixture
def tars(tmp_path):
    for part in range(2):
        with tarfile.open(tmp_path / f"photos-{part}.tar", "w") as tar:
            for i in range(3 * part, 3 * part + 3):
                add(tar, f"{KEYS[i]}.jpg", jpeg(i))
                add(tar, f"{KEYS[i]}.txt", f"text {i}".encode())
                add(tar, f"{KEYS[i]}.cls", str(i).encode())
    return [tmp_path / f"photos-{part}.tar" for part in range(2)]


ROWS = [{"key": key, "kind": ["b", "a"][i % 2], "id": f"0{i}", "n": i, "score": i / 4, "note": f'a "{i}",\nü'}
        for i, key in enumerate(KEYS)]  # fmt: skip


def csv_text(rows=ROWS) -> str:
    def quoted(value) -> str:
        return '"' + str(value).replace('"', '""') + '"'

    return "\r\n".join([",".join(rows[0]), *(",".join(map(quoted, row.values())) for row in reversed(rows))])


def written(path, text) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def tables(tmp_path):
    yield written(tmp_path / "bom.csv", "\ufeff" + csv_text())
    yield written(tmp_path / "rows.jsonl", "\r\n".join(json.dumps(row) for row in ROWS) + "\n\n")


def test_rows_join_their_samples_by_key(tmp_path, tars):
    outs = []
    for i, table in enumerate(tables(tmp_path)):
        for n_workers in (1, 3):
            outs.append(tmp_path / f"{i} {n_workers}")
            report = ps.pack(tars, outs[-1], join=table, num_workers=n_workers)
            assert (report.n_samples, report.n_pli_jpeg) == (N, N)
    ds = ps.Dataset(outs[0])
    assert {name: field.type for name, field in ds.fields.items()} == {
        "image": "image", "text": "text", "label": "int", "kind": "text", "id": "text", "n": "int", "score": "float",
        "note": "text",
    }  # fmt: skip
    for i in range(N):
        row = ds[i]
        assert ds.name(i) == KEYS[i] and (row["text"], row["label"]) == (f"text {i}", i)
        assert {name: row[name] for name in ROWS[i] if name != "key"} == {k: v for k, v in ROWS[i].items() if k != "key"}
        assert ds.read(i, "image", original=True) == jpeg(i)
    for out in outs[1:]:
        for name in os.listdir(out):
            assert (out / name).read_bytes() == (outs[0] / name).read_bytes()


def test_labels_have_classes(tmp_path, tars):
    rules = {"cls": None}
    rows = [{"name": key, "label": ["dög", "cat"][i % 2]} for i, key in enumerate(KEYS)]
    ps.pack(tars, tmp_path / "out", join=written(tmp_path / "a.csv", csv_text(rows)), fields=rules)
    assert ps.Dataset(tmp_path / "out").classes == ["cat", "dög"] and ps.Dataset(tmp_path / "out")[0]["label"] == 1
    with pytest.raises(ps.errors.CorruptError, match="have a field 'label', too"):
        ps.pack(tars, tmp_path / "both", join=tmp_path / "a.csv")
    rows = [{"id": key, "label": 2 * i} for i, key in enumerate(KEYS)]
    ps.pack(tars, tmp_path / "numbers", join=written(tmp_path / "b.csv", csv_text(rows)), fields=rules)
    assert ps.Dataset(tmp_path / "numbers").fields["label"].n_classes == 2 * N - 1


def test_missing_and_extra_keys_are_counted_and_named(tmp_path, tars):
    rows = [*ROWS[:2], {**ROWS[5], "key": "train/other"}, {**ROWS[5], "key": "u"}]
    words = ("4 samples have no row, the first 'train/ü002', 'train/ü003', 'train/ü004'; "
             "2 rows have no sample, the first 'u', 'train/other'")  # fmt: skip
    with pytest.raises(ps.errors.CorruptError, match=words):
        ps.pack(tars, tmp_path / "out", join=written(tmp_path / "a.csv", csv_text(rows)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "no column has the keys"), ("a.csv", "title,n\na,1\n", "there are title, n"), ("a.csv", "key,n\n", "no row"),
        ("a.csv", "key,n\na\n", "line 2 has not as many cells"),
        ("a.csv", "key,n\na,1\na,2\n", "line 3: the key 'a' is there twice"),
        ("a.csv", "key,n,n\na,1,2\n", "two columns"), ("a.csv", 'key,n\n"a,1\n', "line"), ("a.csv", "key,n\n,1\n", "the key is ''"),
        ("a.csv", b"key,n\n\xff,1\n", "UTF-8"), ("a.jsonl", '{"key": 7, "n": 1}', "the key is 7"),
        ("a.jsonl", "[1]", "line 1 is no object"),
        ("a.jsonl", '{"key": "a", "n": 1}\n{"key": "b"}', "line 2 has the members key, the first line key, n"),
        ("a.jsonl", '{"key": "a", "n": 1}\n{"key": "b", "n": "1"}', "several types: int, str"),
        ("a.jsonl", '{"key": "a", "n": null}', "several types: NoneType"), ("a.jsonl", "{", "line 1: not JSON"),
        ("a.csv", "key,label\na,18446744073709551616\n", "label 18446744073709551616 is beyond 64 bits"),
        ("a.jsonl", '{"key": "a", "v": 1.5}\n{"key": "b", "v": 9223372036854775808}\n', "line 2: 'v' is beyond 64 bits"),
        ("a.jsonl", "[" * 100000, "line 1"), ("a.txt", "key\n", "the ending is not known|expected"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path, name, text, words):
    path = written(tmp_path / name, text)
    with pytest.raises(ps.PenstockError, match=words) as raised:
        joined.open_table(path)
    assert raised.value.file == path
    with pytest.raises(ps.errors.NotFoundError):
        joined.open_table(str(tmp_path / "gone.csv"))


def test_cells_become_numbers_by_stated_rules(tmp_path):
    cells = {"whole": ["1", "-2"], "code": ["007", "1"], "float": ["1", "2.5e3"], "big": ["9223372036854775808", "1"],
             "nan": ["nan", "1"], "gap": ["", "1"], "plus": ["+1", "1"], "space": [" 1", "1"], "inf": ["1e999", "1"],
             "small": ["-9223372036854775808", "9223372036854775807"], "small float": ["-9223372036854775809", "0.5"],
             "under": ["1_0", "1"], "arabic": ["\u0661", "1"], "long": ["9" * 5000, "1"]}  # fmt: skip
    rows = [{"key": str(i), **{name: values[i] for name, values in cells.items()}} for i in range(2)]
    table = joined.open_table(written(tmp_path / "a.csv", csv_text(rows)))
    kinds = {name: spec.type for name, spec in table.schema.items()}
    assert kinds == {**dict.fromkeys(cells, "text"), "whole": "int", "small": "int", "float": "float"}
    assert table.rows["0"]["big"] == "9223372036854775808" and table.rows["0"]["small"] == -(2**63)
    assert table.rows["0"]["code"] == "007" and table.rows["1"]["float"] == 2500.0


def test_a_table_of_arrow(tmp_path, tars):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    pq.write_table(pa.table({**columns, "vector": [[1.5, i] for i in range(N)]}), tmp_path / "t.parquet")
    ps.pack(tars, tmp_path / "out", join=tmp_path / "t.parquet")
    ds = ps.Dataset(tmp_path / "out")
    assert [ds[i]["note"] for i in range(N)] == columns["note"] and ds[2]["n"] == 2 and ds[3]["vector"].tolist() == [1.5, 3]


def test_it_goes_on_after_a_bad_sample(tmp_path, tars):
    table = written(tmp_path / "a.csv", csv_text())
    whole = tars[1].read_bytes()
    at = whole.index(jpeg(4))
    tars[1].write_bytes(whole[:at] + b"no JPEG at all" + whole[at + 14:])
    with pytest.raises(ps.PenstockError, match="sample 'train/ü004'"):
        ps.pack(tars, tmp_path / "out", join=table, commit_size=1)
    assert ps.pack(tars, tmp_path / "left", join=table, on_error="skip").n_bad == 1
    tars[1].write_bytes(whole)
    assert ps.pack(tars, tmp_path / "out", join=table, resume=True).n_resumed == 4
    ps.pack(tars, tmp_path / "whole", join=table)
    for name in os.listdir(tmp_path / "whole"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert np.array_equal(ps.Dataset(tmp_path / "out")[4]["image"].shape, (34, 40, 3))


def test_refusals_and_command_line(tmp_path, tars):
    table = written(tmp_path / "a.csv", csv_text())
    for more, words in [({"voc": True}, "voc"), ({"append": True}, "append"), ({"schema": {"a": "int"}}, "schema")]:
        with pytest.raises(ps.errors.ArgumentError, match=f"join goes without {words}"):
            ps.pack(tars, tmp_path / "out", join=table, **more)
    program = os.path.join(os.path.dirname(sys.executable), "penstock")
    words = ["pack", str(tmp_path / "photos-*.tar"), str(tmp_path / "out"), "--join", table, "--members", "cls=number:int,txt=-"]
    environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable}
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done
    ds = ps.Dataset(tmp_path / "out")
    assert len(ds) == N and ds[5]["number"] == 5 and "text" not in ds.fields
