"""Text and JSON: the library accepts the JSON that Python's json accepts; an invalid text is a bad sample."""

from __future__ import annotations

import json

import pytest

import penstock as ps

WIDTH = 80  # bytes of each stored text; it is filled with spaces

# Bytes of a JSON field, valid or not: the library must agree with json.loads.
TEXTS = [
    b"null", b"true", b"false", b"0", b"-0", b"-12.5e+3", b"1E5", b"1e999", b"NaN", b"Infinity", b"-Infinity",
    b'""', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\/\\b\\f"', '"€\x7f"'.encode(),
    b"[]", b"[ ]", b"{ }", b"[1,2 , [3]]", b'{"a":1,"a":{"b":[{}]}}', b"\t\r\n[\n]\r\n", b"[[],[]]", b"[{},{}]",
    b"123456789012345678901234567890", b"-0.0e-0", b"[true,false,null]", b"1.0000000000000000000000000000000001",
    b"nul", b"True", b"nan", b"-NaN", b"+1", b"01", b"-", b"-01", b"1.", b".5", b"1.e5", b"1e", b"1e+", b"--1",
    b"0x1", b'"', b'"\\"', b'"\\x"', b'"\\u12"', b'"\\u12g4"', b'"\\u 123"', b'"\\u+123"', b'"\n"', b'"\t"', b'"\0"',
    b"'a'", b"[", b"]", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"{", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{1:2}",
    b"{a:1}", b"[}", b"{]", b"[1]]", b"1 2", b"null null", b"\xef\xbb\xbf1", b"\xff\xfe1\0", b'"\xff"',
    b'"\xed\xa0\x80"', b'"\xc0\x80"', b"//1", b"[1]//", b"\v1", b"\xc2\xa01", b"-Inf", b"1\0", b"\0", b"1_000",
    "１".encode(), "-١".encode(), b"[" * 30 + b"]" * 30, b"1" * 79, b"1e-400", b"\x0c1", b"[1}", b'{"a":1]', b'{"a" 1}',
]


def parsed(data: bytes) -> object:
    """Returns what Python reads; raises ValueError if it is not JSON."""
    return json.loads(data.decode())


@pytest.fixture
def make(tmp_path):
    def write(kind: str, texts: list[bytes]) -> str:
        """Makes a data set with the items `texts`. They overwrite the writer's items, so the checksums are wrong."""
        path = tmp_path / kind
        with ps.Writer(path, {"value": kind, "number": ps.Int()}) as writer:
            for i, text in enumerate(texts):
                width = max(WIDTH, len(text))
                place = f"{i:08}" + "x" * (width - 8)
                writer.write({"value": place if kind == "text" else place[:-2], "number": i}, f"sample {i}")
        shard = path / "shard-000000.pst"
        data = bytearray(shard.read_bytes())
        for i, text in enumerate(texts):
            at = data.index(f"{i:08}xxx".encode()) - (kind == "json")
            width = max(WIDTH, len(text))
            data[at : at + width] = text.ljust(width)
        shard.write_bytes(data)
        return str(path)

    return write


def test_json_is_what_python_reads(make):
    wanted = {}
    for i, text in enumerate(TEXTS):
        try:
            wanted[i] = parsed(text.ljust(WIDTH))
        except ValueError:
            continue
    assert 25 < len(wanted) < len(TEXTS) - 25
    path = make("json", TEXTS)
    found = {}
    with ps.Loader(path, batch_size=7, reading=ps.Reading(verify=False), on_error="skip", num_workers=2, output="numpy") as loader:
        for batch in loader:
            found.update(zip((int(i) for i in batch["index"]), batch["value"], strict=True))
        bad = {entry["sample"]: entry for entry in loader.quarantine}
    assert repr(dict(sorted(found.items()))) == repr(wanted)  # NaN is not equal to itself
    assert sorted(bad) == [i for i in range(len(TEXTS)) if i not in wanted]
    for i, entry in bad.items():
        assert entry["name"] == f"sample {i}" and "JSON" in entry["text"] and entry["file"].startswith(path)


def test_bounds_are_within_pythons(make):
    deep = [b"[" * n + b"]" * n for n in (64, 65)]
    long = [b"7" * n for n in (4300, 4301)]
    path = make("json", [*deep, *long, b"7" * 4301 + b".5"])
    with ps.Loader(path, batch_size=9, reading=ps.Reading(verify=False), on_error="skip", output="numpy") as loader:
        (batch,) = loader
        assert [int(i) for i in batch["index"]] == [0, 2, 4]
        assert [entry["sample"] for entry in loader.quarantine] == [1, 3]


def test_text_that_is_not_utf8(make):
    path = make("text", [b"good", b"\xff bad", "grün".encode(), b"\xed\xa0\x80"])
    with ps.Loader(path, batch_size=4, reading=ps.Reading(verify=False), on_error="skip", output="numpy") as loader:
        assert [text.strip() for batch in loader for text in batch["value"]] == ["good", "grün"]
        assert [entry["sample"] for entry in loader.quarantine] == [1, 3]
    with ps.Loader(path, reading=ps.Reading(verify=False), num_workers=2, output="numpy") as loader:
        with pytest.raises(ps.errors.CorruptError, match="not UTF-8") as caught:
            list(loader)
        assert caught.value.sample == 1 and caught.value.dataset == path


def test_the_writer_refuses_what_no_loader_reads(tmp_path):
    deep: list = []
    for _ in range(64):
        deep = [deep]
    with ps.Writer(tmp_path / "set", {"value": ps.Json()}) as writer:
        with pytest.raises(ps.errors.ArgumentError, match="nested deeper than 64"):
            writer.write({"value": deep}, "deep")
        writer.write({"value": deep[0]}, "good")


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_an_index_that_is_cut_under_a_loader(tmp_path, on_error):
    """Neither a signal nor an epoch without samples follows: the error says that the index is lost, and no sample counts as bad."""
    path, n = tmp_path / "set", 4000
    with ps.Writer(path, {"value": ps.Text(), "number": ps.Int()}) as writer:
        for i in range(n):
            writer.write({"value": f"text {i}", "number": i}, f"sample {i}")
    ds = ps.Dataset(path)
    with ps.Loader(ds, batch_size=8, num_workers=2, output="numpy", on_error=on_error) as loader:
        batches = iter(loader)
        assert list(next(batches)["number"]) == list(range(8))
        with open(path / "index.pst", "r+b") as file:
            file.truncate(5000)
        with pytest.raises(ps.errors.StorageError, match="cut short") as caught:
            for batch in batches:
                assert [f"text {i}" for i in batch["index"]] == batch["value"]
        assert caught.value.file == str(path / "index.pst") and caught.value.dataset == str(path)
        assert loader.quarantine == []
    with pytest.raises(ps.errors.StorageError):
        ds.name(n - 1)
    with pytest.raises(ps.errors.TruncatedError):
        ps.Dataset(path)
