"""Packing the record sets of croissant.json: tables, files, archives, joins, classes, splits; and metadata with false
statements.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from penstock.writer import write_croissant

N = 6


def jpeg(i: int) -> bytes:
    return encoded(picture(i, 30 + i, 40), "JPEG")


def file_object(id_: str, url: str, format_: str, **more) -> dict:
    return {"@type": "cr:FileObject", "@id": id_, "name": id_, "contentUrl": url, "encodingFormat": format_, **more}


def file_set(id_: str, includes, **more) -> dict:
    return {"@type": "cr:FileSet", "@id": id_, "name": id_, "encodingFormat": "image/jpeg", "includes": includes, **more}


def source(kind: str, id_: str, extract: dict | None = None, transform=None, **more) -> dict:
    found = {kind: {"@id": id_}, **more}
    found |= {} if extract is None else {"extract": extract}
    return found | ({} if transform is None else {"transform": transform})


def field(id_: str, type_, from_: dict | None = None, **more) -> dict:
    return {"@type": "cr:Field", "@id": id_, "name": id_, "dataType": type_, **({} if from_ is None else {"source": from_}), **more}


def record_set(id_: str, fields: list, **more) -> dict:
    return {"@type": "cr:RecordSet", "@id": id_, "name": id_, "field": fields, **more}


def written(root, distribution: list, record_sets: list, **more):
    tree = {"@context": {"@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/",
                         "recordSet": "cr:recordSet", "conformsTo": "dct:conformsTo", "dct": "http://purl.org/dc/terms/"},
            "@type": "sc:Dataset", "name": "birds", "conformsTo": "http://mlcommons.org/croissant/1.0",
            "distribution": distribution, "recordSet": record_sets, **more}  # fmt: skip
    (root / "croissant.json").write_text(json.dumps(tree))
    return root


CLASSES = record_set("classes", [field("classes/id", "sc:Integer"), field("classes/name", "sc:Text")],
                     dataType="sc:Enumeration", key={"@id": "classes/id"},
                     data=[{"classes/id": 7, "classes/name": "bird"}, {"classes/id": 3, "classes/name": "ünï"}])  # fmt: skip
SPLITS = record_set("splits", [field("splits/name", "sc:Text"), field("splits/url", "sc:URL")], dataType="cr:Split",
                    data=[{"splits/name": a, "splits/url": f"cr:{b}Split"} for a, b in (("A", "Training"), ("B", "Test"))])
IMAGE = source("fileSet", "files", {"fileProperty": "content"})


def birds() -> list:
    """Record sets of images with a table of labels, joined by file names, with classes and splits."""
    rows = record_set("rows", [field("rows/key", "sc:Text", source("fileObject", "table", {"column": "key"}))])
    hash_ = source("fileSet", "files", {"fileProperty": "filename"}, {"regex": r"^(.*)\.jpg$"})
    split = source("fileSet", "files", {"fileProperty": "fullpath"}, {"regex": r"^img/([AB])/"})
    return [CLASSES, SPLITS, rows, record_set("images", [
        field("images/key", "sc:Text", hash_, references={"field": {"@id": "rows/key"}}),
        field("images/picture", "sc:ImageObject", IMAGE),
        field("images/label", "sc:Integer", source("fileObject", "table", {"column": "label"}), references={"@id": "classes/id"}),
        field("images/score", "sc:Float", source("fileObject", "table", {"column": "score"})),
        field("images/part", "sc:Text", split, references={"@id": "splits/name"}),
        field("images/origin", "sc:Text", value="somewhere"),
    ])]  # fmt: skip


TABLE = "key,label,score\r\n" + "".join(f"é {i},{[3, 7][i % 2]},{i / 4}\r\n" for i in range(N))


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "birds"
    for i in range(N):
        (root / "img" / "AB"[i % 2]).mkdir(parents=True, exist_ok=True)
        (root / "img" / "AB"[i % 2] / f"é {i}.jpg").write_bytes(jpeg(i))
    (root / "table.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.encode())
    sha = hashlib.sha256((root / "table.csv").read_bytes()).hexdigest()
    return written(root, [file_set("files", "img/*.jpg"), file_object("table", "table.csv", "text/csv", sha256=sha)], birds())


def check_birds(path, numbers=range(N)) -> None:
    ds = ps.Dataset(path)
    assert len(ds) == len(list(numbers)) and ds.class_names("label") == ["ünï", "bird"]
    assert {name: each.type for name, each in ds.fields.items()} == {
        "key": "text", "picture": "image", "label": "int", "score": "float", "part": "text", "origin": "text"}  # fmt: skip
    for i in numbers:
        name = f"img/{'AB'[i % 2]}/é {i}.jpg"
        row = ds[next(k for k in range(len(ds)) if ds.name(k) == name)]
        assert {key: row[key] for key in ("key", "label", "score", "part", "origin")} == {
            "key": f"é {i}", "label": i % 2, "score": i / 4, "part": "AB"[i % 2], "origin": "somewhere"}  # fmt: skip
        assert ds.read([ds.name(k) for k in range(len(ds))].index(name), "picture", original=True) == jpeg(i)


def test_folder_table_classes_and_splits(tmp_path, root):
    outs = []
    for workers in (1, 3):
        outs.append(tmp_path / f"out{workers}")
        report = ps.pack(root, outs[-1], croissant=True, num_workers=workers)
        assert (report.n_samples, report.n_pli_jpeg) == (N, N)
    check_birds(outs[0])
    for name in os.listdir(outs[0]):
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()
    for split in ("A", "train", "training"):
        ps.pack(root / "croissant.json", tmp_path / split, croissant=True, record_set="images", split=split)
        check_birds(tmp_path / split, range(0, N, 2))
    with pytest.raises(ps.errors.NotFoundError, match="no split 'val'; there are A, B"):
        ps.pack(root, tmp_path / "val", croissant=True, split="val")
    with pytest.raises(ps.errors.ArgumentError, match="no record set 'no'"):
        ps.pack(root, tmp_path / "no", croissant=True, record_set="no")


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_archives_are_read_in_place(tmp_path, root, kind):
    names = sorted((root / "img").rglob("*.jpg"))
    if kind == "zip":
        with zipfile.ZipFile(root / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in names:
                archive.write(path, path.relative_to(root))
            archive.writestr("../../evil/img/é 0.jpg", b"x")
            archive.writestr("/tmp/img/evil.jpg", b"x")
    else:
        with tarfile.open(root / "a.tar", "w") as archive:
            for path in names:
                archive.add(path, str(path.relative_to(root)))
            link = tarfile.TarInfo("img/A/evil.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        if kind == "tar.gz":
            (root / "a.tar.gz").write_bytes(gzip.compress((root / "a.tar").read_bytes()))
    for path in names:
        path.unlink()
    format_ = {"zip": "application/zip", "tar": "application/x-tar", "tar.gz": "application/x-gzip"}[kind]
    distribution = [file_object("all", f"https://example.org/files/a.{kind}?download=1", format_),
                    file_set("files", ["img/*.jpg", "*/no"], containedIn={"@id": "all"}, excludes="*evil*"),
                    file_object("table", "table.csv", "text/csv")]  # fmt: skip
    written(root, distribution, birds())
    ps.pack(root, tmp_path / "out", croissant=True)
    check_birds(tmp_path / "out")
    data = (root / f"a.{kind}").read_bytes()
    (root / f"a.{kind}").write_bytes(data[: len(data) // 2])
    with pytest.raises(ps.errors.CorruptError, match=rf"a\.{kind}"):
        ps.pack(root, tmp_path / "half", croissant=True)
    (root / f"a.{kind}").unlink()
    with pytest.raises(ps.errors.NotFoundError, match=rf"https://example\.org.*nothing is fetched: put it to .*a\.{kind}'"):
        ps.pack(root, tmp_path / "none", croissant=True)


def test_json_lines_json_and_parquet_give_the_same(tmp_path):
    rows = [{"id": i, "note": f"ü {i}", "box": [i, 1, 5, 6], "tags": ["a", str(i)], "in": {"deep": [i, 2 * i]}} for i in range(5)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (tmp_path / "rows.json").write_text(json.dumps({"all": rows}))
    ends = {"rows.jsonl": ("application/jsonlines", "$."), "rows.json": ("application/json", "$.all[*].")}
    for name, (format_, start) in ends.items():
        def at(path: str, start=start, name=name, **more) -> dict:
            return source("fileObject", name, {"jsonPath": start + path}, **more)

        fields = [field("r/id", "sc:Integer", at("id")), field("r/note", "sc:Text", at("note")),
                  field("r/boxes", "cr:BoundingBox", at("box", format="XYWH")),
                  field("r/tags", "sc:Text", at("tags"), isArray=True),
                  field("r/deep", "cr:Int16", at("in['deep']"), isArray=True, arrayShape="2"),
                  {"@type": "cr:Field", "@id": "r/both", "subField": [field("r/both/a", "sc:Integer", at("id")),
                                                                      field("r/both/b", "sc:Text", at("note"))]}]  # fmt: skip
        written(tmp_path, [file_object(name, name, format_)], [record_set("r", fields, key={"@id": "r/note"})])
        ps.pack(tmp_path, tmp_path / f"out-{name}", croissant=True)
        ds = ps.Dataset(tmp_path / f"out-{name}")
        for i in range(5):
            row = ds[i]
            assert ds.name(i) == f"ü {i}" and row["id"] == i and row["boxes"].tolist() == [[i, 1, i + 5, 7]]
            assert row["tags"] == ["a", str(i)] and row["deep"].tolist() == [i, 2 * i] and row["deep"].dtype == np.int16
            assert row["both"] == {"a": i, "b": f"ü {i}"}


def test_several_tables_by_chained_references(tmp_path):
    (tmp_path / "a.csv").write_text("who\n2\n1\n2\n")
    (tmp_path / "b.tsv").write_text("id\tcity\n1\tX\n2\tY\n")
    (tmp_path / "c.jsonl").write_text('{"name": "X", "n": 10}\n{"name": "Y", "n": 20}\n')
    cities = record_set("c", [field("c/name", "sc:Text", source("fileObject", "fc", {"column": "name"})),
                              field("c/n", "sc:Integer", source("fileObject", "fc", {"column": "n"}))])
    people = record_set("b", [field("b/id", "sc:Integer", source("fileObject", "fb", {"column": "id"}))])
    main = record_set("a", [
        field("a/who", "sc:Integer", source("fileObject", "fa", {"column": "who"}), references={"@id": "b/id"}),
        field("a/city", "sc:Text", source("fileObject", "fb", {"column": "city"}), references={"field": {"@id": "c/name"}}),
        {"@id": "a/n", "@type": "cr:Field", "source": {"field": {"@id": "c/n"}}},
    ])  # fmt: skip
    files = [file_object("fa", "a.csv", "text/csv"), file_object("fb", "b.tsv", "text/tab-separated-values"),
             file_object("fc", "c.jsonl", "application/x-ndjson")]  # fmt: skip
    written(tmp_path, files, [main, people, cities])
    with pytest.raises(ps.errors.ArgumentError, match="record sets a, b, c: record_set="):
        ps.pack(tmp_path, tmp_path / "none", croissant=True)
    ps.pack(tmp_path, tmp_path / "out", croissant=True, record_set="a")
    ds = ps.Dataset(tmp_path / "out")
    assert [tuple(ds[i].values()) for i in range(3)] == [(2, "Y", 20), (1, "X", 10), (2, "Y", 20)]
    (tmp_path / "b.tsv").write_text("id\tcity\n1\tX\n3\tY\n")
    with pytest.raises(ps.errors.CorruptError, match=r"a\.csv.*line 2: a/who: b/id has no 2"):
        ps.pack(tmp_path, tmp_path / "gap", croissant=True, record_set="a")
    report = ps.pack(tmp_path, tmp_path / "skip", croissant=True, record_set="a", on_error="skip")
    assert (report.n_samples, report.n_bad) == (1, 2)
    (tmp_path / "b.tsv").write_text("id\tcity\n1\tX\n1\tY\n")
    with pytest.raises(ps.errors.CorruptError, match=r"b\.tsv.*line 3: b/id: the value 1 is there twice"):
        ps.pack(tmp_path, tmp_path / "twice", croissant=True, record_set="a")


def of_file(**more):
    """Returns metadata with one column of one file, whose FileObject has the given members."""
    made = {"id_": "t", "url": "t.csv", "format_": "text/csv", **more}
    return lambda root: one_field(root, COLUMN, distribution=[file_object(**made)])


def in_container(container: dict):
    """Returns metadata with a column of a file inside a container."""
    inside = file_object("t", "t.csv", "text/csv", containedIn={"@id": "c"})
    return lambda root: one_field(root, COLUMN, distribution=[container, inside])


def of_set(includes):
    content = source("fileSet", "f", {"fileProperty": "content"})
    return lambda root: one_field(root, content, distribution=[file_set("f", includes)])


def transformed(transform: dict):
    return lambda root: one_field(root, source("fileObject", "t", {"column": "x"}, transform))


def one_field(root, from_: dict, type_="sc:Text", distribution=None, **more):
    return written(root, [file_object("t", "t.csv", "text/csv")] if distribution is None else distribution,
                   [record_set("r", [field("r/x", type_, from_, **more)])])  # fmt: skip


COLUMN = source("fileObject", "t", {"column": "x"})
LIES = [
    (lambda r: one_field(r, source("fileObject", "t", {"column": "y"})), "line 2: there is no column 'y'"),
    (lambda r: one_field(r, COLUMN, "sc:Integer"), "line 2: r/x: a whole number is expected, not 'one'"),
    (lambda r: one_field(r, COLUMN, "sc:Float"), "a finite number is expected"),
    (lambda r: one_field(r, COLUMN, "sc:VideoObject"), r"recordSet\[0\]\.field\[0\]\.dataType: VideoObject is not read"),
    (lambda r: one_field(r, COLUMN, "sc:ImageObject"), "r/x: the bytes of a file is expected"),
    (transformed({"regex": "(a"}), "transform.regex"),
    (transformed({"regex": "one"}), "has no group"),
    (transformed({"regex": "(two)"}), "'one' does not fit"),
    (transformed({"replace": "a/b"}), r"source\.transform\[0\]\.replace"),
    (transformed({"jsonPath": "$..x"}), "is not read from"),
    (lambda r: one_field(r, source("fileObject", "t", {"regex": "x"})), "extract: regex: one of column"),
    (lambda r: one_field(r, source("fileObject", "t", {"fileProperty": "md5"})), "fileProperty: 'md5'"),
    (lambda r: one_field(r, source("fileObject", "no", {"column": "x"})), "there is no fileObject 'no'"),
    (lambda r: one_field(r, source("fileObject", "t", {"column": "x"}, format="YYYY")), "format"),
    (lambda r: one_field(r, COLUMN, parentField={"@id": "r"}), "parentField"),
    (lambda r: one_field(r, {"field": {"@id": "r/x"}}), "its own source"),
    (of_file(url="../t.csv"), r"'\.\./t\.csv' is no path within"),
    (of_file(url="/etc/passwd"), "'/etc/passwd' is no path within"),
    (of_file(url="%2e%2e/t.csv"), "is not in"),
    (of_file(url="file:///etc/passwd"), "nothing is fetched"),
    (of_file(url="link.csv"), "links are not followed"),
    (of_file(url="away/t.csv"), "links are not followed"),
    (of_file(url="pipe"), "not a regular file"),
    (in_container(file_object("c", "away/data", "local_directory")), "links are not followed"),
    (in_container(file_object("c", "away/data", "text/plain")), "links are not followed"),
    (in_container(file_set("c", "*.zip", containedIn={"@id": "c"})), "'c' contains itself"),
    (in_container(file_set("c", "*.zip", containedIn={"@id": "t"})), "contains itself"),
    (lambda r: one_field(r, {"fileObject": []}), r"source\.fileObject: one id is expected, not 0"),
    (of_file(url="folder"), "folder"),
    (of_file(sha256="0" * 64), "its sha256 is "),
    (of_file(md5="0" * 32), "its md5 is "),
    (of_file(sha256="sha256"), "no sum of 64"),
    (of_file(url="t.xml", format_="text/xml"), "columns are read of CSV"),
    (of_file(containedIn={"@id": "t"}), "contains itself"),
    (lambda r: one_field(r, COLUMN, distribution=[file_object("t", "t.csv", "text/csv")] * 2), "'t' is there twice"),
    (of_set("*.link"), "not followed"),
    (of_set("no*"), "no file in"),
    (of_set([]), "no pattern"),
    (lambda r: written(r, [], []), "there is no record set"),
    (lambda r: written(r, [], [record_set("r", [])]), "has no field"),
    (lambda r: written(r, [], [CLASSES], conformsTo="http://mlcommons.org/croissant/0.8"), "Croissant 1.0 and 1.1 are read"),
    (lambda r: written(r, [], [record_set("r", [field("r/x", "sc:Text")], data=[{"y": 1}])]), "'y' is the id of no field"),
    (lambda r: written(r, [], [CLASSES] * 2), "there twice"),
]


@pytest.mark.parametrize("i", range(len(LIES)))
def test_metadata_that_lie_or_ask_for_more(tmp_path, i):
    root = tmp_path / "data"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "t.csv").write_text("x\nsecret\n")
    (root / "t.csv").write_text("x\none\n")
    (root / "t.xml").write_text("<x/>")
    os.symlink("t.csv", root / "link.csv")
    os.symlink("t.csv", root / "t.link")
    os.symlink("..", root / "away")
    os.mkfifo(root / "pipe")
    make, words = LIES[i]
    with pytest.raises(ps.PenstockError, match=words):
        ps.pack(make(root), tmp_path / "out", croissant=True)
    assert not (tmp_path / "out").exists() or i < 12


@pytest.mark.parametrize("seeds", [range(9), pytest.param(range(9, 600), marks=pytest.mark.long)])
def test_damaged_metadata_are_errors_of_penstock(tmp_path, root, seeds):
    """Any damage causes an error of Penstock, or gives the existing records."""
    text = (root / "croissant.json").read_text()
    for seed in seeds:
        draw = random.Random(seed)
        damaged = json.loads(text)
        if seed % 3 == 0:
            at = draw.randrange(len(text))
            new = draw.choice(["", "}", '"', "\0", "1e999"])
            (root / "croissant.json").write_text(text[:at] + new + text[at + draw.randrange(3) :])
        else:
            node, path = damaged, damaged
            while isinstance(node, (dict, list)) and node and (path is node or draw.random() < 0.8):
                path, key = node, draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
                node = node[key]
            path[key] = draw.choice([None, 7, "", [], {}, {"@id": 3}, [[]], "x" * 300, path, True, -1.5])
            try:
                (root / "croissant.json").write_text(json.dumps(damaged))
            except ValueError:  # the value contains itself
                continue
        try:
            ps.pack(root, tmp_path / f"out{seed}", croissant=True)
        except ps.PenstockError as error:
            assert str(error), seed


def test_command_line_and_arguments(tmp_path, root):
    program = os.path.join(os.path.dirname(sys.executable), "penstock")
    environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable}
    done = subprocess.run([program, "pack", root, tmp_path / "out", "--croissant", "--record-set", "images", "--split", "A"],
                          capture_output=True, text=True, check=False, env=environment)  # fmt: skip
    assert done.returncode == 0, done
    check_birds(tmp_path / "out", range(0, N, 2))
    done = subprocess.run([program, "info", "out", "--croissant", "out.json", "--json"], capture_output=True, text=True,
                          check=False, env=environment, cwd=tmp_path)  # fmt: skip
    said = {"croissant": "out.json", "table": "out.jsonl", "samples": N // 2}
    assert done.returncode == 0 and json.loads(done.stdout) == said, done
    done = subprocess.run([program, "pack", root, tmp_path / "no", "--record-set", "images"], capture_output=True, text=True,
                          check=False, env=environment)  # fmt: skip
    assert done.returncode == 2 and "--record-set goes with --croissant" in done.stderr
    with pytest.raises(ps.errors.ArgumentError, match="croissant goes without labels"):
        ps.pack(root, tmp_path / "no", croissant=True, labels="x.csv")
    with pytest.raises(ps.errors.ArgumentError, match="record_set goes with croissant"):
        ps.pack(root, tmp_path / "no", record_set="images")


def test_many_files_of_parquet(tmp_path):
    golden = os.path.join(os.path.dirname(__file__), "../../tests/golden/containers/parquet/datasets.parquet")
    for part in ("train", "test"):
        shutil.copyfile(golden, tmp_path / f"{part}.parquet")
    rows = ps.Dataset(tmp_path / "train.parquet")
    fields = [field("r/image", "sc:ImageObject", source("fileSet", "p", {"column": "image"}, {"jsonPath": "bytes"})),
              field("r/label", "sc:Integer", source("fileSet", "p", {"column": "label"})),
              field("r/box", "sc:Float", source("fileSet", "p", {"column": "box"}), isArray=True),
              field("r/split", "sc:Text", source("fileSet", "p", {"fileProperty": "filename"}, {"regex": "^(.*)\\.parquet"}))]
    written(tmp_path, [file_set("p", "*.parquet", encodingFormat="application/x-parquet")], [record_set("r", fields)])
    ps.pack(tmp_path, tmp_path / "all", croissant=True)
    ps.pack(tmp_path, tmp_path / "out", croissant=True, split="train")
    ds = ps.Dataset(tmp_path / "out")
    assert len(ps.Dataset(tmp_path / "all")) == 2 * len(rows) and len(ds) == len(rows)
    for i in range(len(rows)):
        assert (ds.name(i), ds[i]["label"], ds[i]["split"]) == (f"{i:012d}", rows[i]["label"], "train")
        assert ds.read(i, "image", original=True) == rows.read(i, "image", original=True)
        assert np.array_equal(ds[i]["box"], rows[i]["box"])


def test_lines_of_texts(tmp_path):
    (tmp_path / "a.txt").write_bytes("one ü\r\ntwo\n".encode())
    (tmp_path / "b.txt").write_bytes(b"three")
    fields = [field("r/text", "sc:Text", source("fileSet", "f", {"fileProperty": "lines"})),
              field("r/n", "sc:Integer", source("fileSet", "f", {"fileProperty": "lineNumbers"})),
              field("r/words", "sc:Text", source("fileSet", "f", {"fileProperty": "lines"}, {"separator": " "}), isArray=True)]
    written(tmp_path, [file_set("f", "*.txt")], [record_set("r", fields)])
    ps.pack(tmp_path, tmp_path / "out", croissant=True)
    ds = ps.Dataset(tmp_path / "out")
    assert [(ds[i]["text"], ds[i]["n"], ds[i]["words"]) for i in range(3)] == [
        ("one ü", 0, ["one", "ü"]), ("two", 1, ["two"]), ("three", 0, ["three"])]  # fmt: skip


def test_metadata_that_penstock_writes_are_read_back(tmp_path, root):
    ps.pack(root, tmp_path / "set.pst", croissant=True)
    write_croissant(tmp_path / "set.pst", tmp_path / "set.json", license="CC0-1.0", creators=["A"])
    with pytest.raises(ps.errors.ExistsError, match=r"set\.json"):
        write_croissant(tmp_path / "set.pst", tmp_path / "set.json")
    tree = json.loads((tmp_path / "set.json").read_text())
    stated = {each["contentUrl"]: each["sha256"] for each in tree["distribution"]}
    assert {f"set.pst/{name}" for name in os.listdir(tmp_path / "set.pst")} | {"set.jsonl"} == set(stated)
    assert all(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sha for name, sha in stated.items())
    ps.pack(tmp_path / "set.json", tmp_path / "again", croissant=True, record_set="samples")
    ds, again = ps.Dataset(tmp_path / "set.pst"), ps.Dataset(tmp_path / "again")
    assert again.class_names("label") == ["ünï", "bird"] and "picture" not in again.fields
    for i in range(N):
        assert again.name(i) == ds.name(i) and all(again[i][name] == ds[i][name] for name in ("label", "score", "part", "key"))
    (tmp_path / "set.jsonl").write_text((tmp_path / "set.jsonl").read_text().replace('"score": 0.5', '"score": 0.6'))
    with pytest.raises(ps.errors.ChecksumError, match="its sha256 is"):
        ps.pack(tmp_path / "set.json", tmp_path / "changed", croissant=True, record_set="samples")
    with pytest.raises(ps.errors.ArgumentError, match="does not lie in the folder"):
        write_croissant(tmp_path / "set.pst", root / "set.json")


def test_metadata_of_a_folder_and_what_is_refused(tmp_path, root):
    write_croissant(root / "img", root / "img.json")
    ps.pack(root / "img.json", tmp_path / "out", croissant=True, record_set="samples")
    ds, folder = ps.Dataset(tmp_path / "out"), ps.Dataset(root / "img")
    for i in range(N):
        assert (ds.name(i), ds[i]["label"]) == (folder.name(i), folder[i]["label"])
        assert ds.read(i, "image", original=True) == folder.read(i, "image")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(root / "img/A/é 0.jpg", "a.jpg")
    with pytest.raises(ps.errors.UnsupportedError, match="of the kind tar: pack it"):
        write_croissant(tmp_path / "a.tar", tmp_path / "a.json")
    with ps.Writer(tmp_path / "nan.pst", {"x": "float"}) as writer:
        writer.write({"x": float("nan")})
    with pytest.raises(ps.errors.ArgumentError, match="sample 0: .*cannot hold"):
        write_croissant(tmp_path / "nan.pst", tmp_path / "nan.json")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nan.js")]


def member(name: str, type_=tarfile.REGTYPE, linkname="") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = type_, linkname, 1 if type_ == tarfile.REGTYPE else 0
    return info


def packed_texts(root, out, includes="*.txt") -> list:
    """Returns the texts of all files of that name in the archive "a", and the ends of their names."""
    (name,) = (each for each in os.listdir(root) if each.startswith("a."))
    format_ = "application/zip" if name.endswith(".zip") else "application/x-tar"
    fields = [field("r/x", "sc:Text", source("fileSet", "f", {"fileProperty": "lines"}))]
    written(root, [file_object("a", name, format_), file_set("f", includes, containedIn={"@id": "a"})], [record_set("r", fields)])
    ps.pack(root, out, croissant=True)
    ds = ps.Dataset(out)
    return [ds[i]["x"] for i in range(len(ds))]


SYM, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
TARS = [
    ([("a.txt", b"1"), ("a.txt", b"2")], ["2"]),
    ([("a.txt", b"1"), ("b.txt", HARD, "a.txt"), ("c.txt", HARD, "./b.txt")], ["1", "1", "1"]),
    ([("a.txt", b"1"), ("b.txt", HARD, "no.txt")], (ps.errors.UnsupportedError, r"b\.txt.*'no\.txt', which is no earlier file")),
    ([("a.txt", b"1"), ("b.txt", SYM, "a.txt")], (ps.errors.UnsupportedError, r"b\.txt.*links are not followed")),
    ([("a.txt", b"1"), ("../b.txt", b"2")], (ps.errors.UnsupportedError, r"b\.txt.*leads out")),
    ([("a.txt", b"1"), ("b.txt", tarfile.FIFOTYPE, "")], (ps.errors.UnsupportedError, r"b\.txt.*not a regular")),
    ([("a.txt", b"1"), ("./a.txt", b"2")], (ps.errors.CorruptError, r"'a\.txt' is there twice")),
    ([("a.txt", b"1"), ("../b", b"2"), ("c", SYM, "a.txt")], ["1"]),
]


@pytest.mark.parametrize("i", range(len(TARS)))
def test_members_of_a_tar_that_are_no_files(tmp_path, i):
    members, wanted = TARS[i]
    (tmp_path / "d").mkdir()
    with tarfile.open(tmp_path / "d/a.tar", "w") as archive:
        for name, *rest in members:
            archive.addfile(member(name) if len(rest) == 1 else member(name, *rest), io.BytesIO(rest[0] if len(rest) == 1 else b""))
    if isinstance(wanted, list):
        assert packed_texts(tmp_path / "d", tmp_path / "out") == wanted
    else:
        with pytest.raises(wanted[0], match=wanted[1]):
            packed_texts(tmp_path / "d", tmp_path / "out")


def test_members_of_a_zip_that_are_no_files(tmp_path):
    link = zipfile.ZipInfo("b.txt")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    for i, (second, error, words) in enumerate([
        ("./a.txt", ps.errors.CorruptError, r"'a\.txt' is there twice"),
        ("../b.txt", ps.errors.UnsupportedError, r"b\.txt.*leads out"),
        (link, ps.errors.UnsupportedError, r"b\.txt.*links are not followed"),
    ]):  # fmt: skip
        root = tmp_path / f"d{i}"
        root.mkdir()
        with zipfile.ZipFile(root / "a.zip", "w") as archive:
            archive.writestr("a.txt", b"1")
            archive.writestr(second, b"2")
        with pytest.raises(error, match=words):
            packed_texts(root, tmp_path / f"out{i}")
    with zipfile.ZipFile(tmp_path / "d0/a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.txt", b"1" * 99)
    data = (tmp_path / "d0/a.zip").read_bytes()
    at = data.index(b"a.txt") + 5
    (tmp_path / "d0/a.zip").write_bytes(data[:at] + b"\xff" * 12 + data[at + 12 :])
    with pytest.raises(ps.errors.CorruptError, match=r"a\.txt"):
        packed_texts(tmp_path / "d0", tmp_path / "lzma")
    (tmp_path / "d0/a.zip").write_bytes(data.replace(b"\x0e\0", b"\x63\0"))  # another compression
    with pytest.raises(ps.errors.UnsupportedError, match="compression"):
        packed_texts(tmp_path / "d0", tmp_path / "unknown")


def test_a_full_disk_is_not_a_damaged_archive(tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "d").mkdir()
    with tarfile.open(tmp_path / "d/a.tar.gz", "w:gz") as archive:
        archive.addfile(member("a.txt"), io.BytesIO(b"1"))
    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(ps.errors.StorageError, match="No space left"):
        packed_texts(tmp_path / "d", tmp_path / "out")


def test_keys_that_are_no_numbers_join_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("who\n1\nx\n")
    (tmp_path / "b.csv").write_text("id,city\n1,X\nnone,Y\n,Z\n")
    people = record_set("b", [field("b/id", "sc:Integer", source("fileObject", "fb", {"column": "id"}))])
    main = record_set("a", [
        field("a/who", "sc:Text", source("fileObject", "fa", {"column": "who"}), references={"@id": "b/id"}),
        field("a/city", "sc:Text", source("fileObject", "fb", {"column": "city"})),
        field("a/part", "sc:Text", {"field": {"@id": "k/v"}, "transform": {"regex": "(.)-"}}),
    ])  # fmt: skip
    constant = record_set("k", [field("k/v", "sc:Text", value="b-1")])
    written(tmp_path, [file_object("fa", "a.csv", "text/csv"), file_object("fb", "b.csv", "text/csv")], [main, people, constant])
    report = ps.pack(tmp_path, tmp_path / "out", croissant=True, record_set="a", on_error="skip")
    assert (report.n_samples, report.n_bad) == (1, 1)
    assert list(ps.Dataset(tmp_path / "out")[0].values()) == ["1", "X", "b"]
    with pytest.raises(ps.errors.CorruptError, match="line 3: a/who: b/id has no 'x'"):
        ps.pack(tmp_path, tmp_path / "no", croissant=True, record_set="a")


def test_paths_with_several_stars_pair_within_one_parent(tmp_path):
    def at(path: str) -> dict:
        return source("fileObject", "t", {"jsonPath": path})

    fields = [field("r/a", "sc:Integer", at("$[*].p[*].a")), field("r/b", "sc:Integer", at("$[*].q[*].b"))]
    written(tmp_path, [file_object("t", "t.json", "application/json")], [record_set("r", fields)])
    one, two = [{"a": 1, "b": 1}], [{"a": 2, "b": 2}, {"a": 3, "b": 3}]
    (tmp_path / "t.json").write_text(json.dumps([{"p": one, "q": one}, {"p": two, "q": two}]))
    ps.pack(tmp_path, tmp_path / "out", croissant=True)
    assert [list(ps.Dataset(tmp_path / "out")[i].values()) for i in range(3)] == [[1, 1], [2, 2], [3, 3]]
    (tmp_path / "t.json").write_text(json.dumps([{"p": one, "q": two}, {"p": two, "q": one}]))
    with pytest.raises(ps.errors.CorruptError, match="other numbers of values"):
        ps.pack(tmp_path, tmp_path / "no", croissant=True)


@pytest.mark.parametrize(("type_", "dtype"), [("cr:Float16", "float16"), ("cr:Float32", "float32")])
def test_numbers_too_large_for_their_type(tmp_path, type_, dtype):
    (tmp_path / "t.jsonl").write_text('{"x": [1, 1e39]}\n')
    one_field(tmp_path, COLUMN, type_, [file_object("t", "t.jsonl", "application/jsonlines")], isArray=True)
    with pytest.raises(ps.errors.CorruptError, match=f"too large for {dtype}"):
        ps.pack(tmp_path, tmp_path / "out", croissant=True)


def test_what_is_written_of_odd_names(tmp_path, root):
    shutil.copytree(root / "img", root / "i[m]g")
    write_croissant(root / "i[m]g", root / "odd.json")
    ps.pack(root / "odd.json", tmp_path / "out", croissant=True, record_set="samples")
    assert len(ps.Dataset(tmp_path / "out")) == N
    with ps.Writer(tmp_path / "own.pst", {"sample": "float"}) as writer:
        writer.write({"sample": 1.0})
    with pytest.raises(ps.errors.ArgumentError, match="the field 'sample' is called like"):
        write_croissant(tmp_path / "own.pst", tmp_path / "own.json")
    with ps.Writer(tmp_path / "k.pst", {"points": ps.Keypoints(points=["a", "b"])}) as writer:
        writer.write({"points": np.zeros((2, 3), np.float32)})
    write_croissant(tmp_path / "k.pst", tmp_path / "k.json")
    assert "points_classes" not in (tmp_path / "k.json").read_text()
