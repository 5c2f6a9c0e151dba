"""Writes Croissant metadata (1.1) of a packed data set or a plain folder, with a table that any reader of Croissant can read.

The table FILE.jsonl lies beside FILE.json and has a line for each sample: its name, numbers, texts, arrays and boxes. The images of
a folder are described as a set of files that is joined with the table. The images of a packed data set lie in its shards, which are
listed with their checksums.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...base.files import open_data
from ...base.public import public
from ...errors import ArgumentError, ExistsError, StorageError, UnsupportedError, in_sample
from ..dataset import Dataset, Field

__all__ = ["write_croissant"]

_NAMES = ("citeAs", "column", "containedIn", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
          "includes", "isArray", "arrayShape", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet",
          "references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform")  # fmt: skip
_CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"}, "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, **{name: f"cr:{name}" for name in _NAMES},
}  # fmt: skip
_FILES = ("image", "mask", "audio", "bytes")
_TYPES = {"int": "sc:Integer", "float": "sc:Float", "text": "sc:Text", "json": "sc:Text"}
_SPLIT_URLS = {
    **dict.fromkeys(("train", "training"), "cr:TrainingSplit"), "test": "cr:TestSplit",
    **dict.fromkeys(("val", "valid", "validation"), "cr:ValidationSplit"),
}  # fmt: skip
_MOST_SPLITS = 64
_FORMATS = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".mp3": "audio/mpeg",
            ".wav": "audio/wav", ".flac": "audio/flac", ".ogg": "audio/ogg"}  # fmt: skip


def write_croissant(
    dataset: Dataset | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    description: str | None = None,
    license: str | None = None,
    url: str | None = None,
    creators: Sequence[str] = (),
    version: str | None = None,
    date_published: str | None = None,
    cite_as: str | None = None,
) -> None:
    """Writes Croissant metadata of a data set, and beside the file a table of its samples in JSON lines.

    Args:
        dataset: a packed data set or a plain folder, or its path. Its files must lie in or below the folder of ``path``, because
            metadata give their paths relative to that folder.
        path: the file to make, such as "croissant.json". The table has the same name with the ending ".jsonl". Neither file may
            exist.
        name, description, license, url, creators, version, date_published, cite_as: properties of the whole data set in Croissant.
            None: name and description are made from the folder's name and content. The others are left out, and readers warn about
            that.

    Raises:
        UnsupportedError: ``dataset`` is a tar, zip, table or mixture: pack it first. ArgumentError: the data set lies elsewhere,
            has a number that JSON cannot hold, or a field named like a column of the table (``sample``, for a folder also
            ``file``).
    """
    found = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    above, last = os.path.split(os.path.abspath(os.fspath(path)))
    target = os.path.join(os.path.realpath(above), last)
    if target.endswith(".jsonl"):
        raise ArgumentError(f"{target!r}: the table has the ending .jsonl, so metadata are called otherwise")
    about = {
        "name": name, "description": description, "license": license, "url": url, "version": version,
        "datePublished": date_published, "citeAs": cite_as,
        "creator": [{"@type": "sc:Person", "name": each} for each in creators] or None,
    }  # fmt: skip
    _Writing(found, target, {key: value for key, value in about.items() if value is not None}).write()


class _Writing:
    """Writes one data set: holds the file to write and the user's properties of the data set."""

    def __init__(self, dataset: Dataset, path: str, about: Mapping[str, Any]) -> None:
        self.dataset, self.path, self.about = dataset, path, about
        self.table = os.path.splitext(path)[0] + ".jsonl"
        self.root = os.path.abspath(dataset.path)
        self.below = os.path.relpath(self.root, os.path.dirname(path))
        if self.below.startswith(".."):
            raise ArgumentError(f"{path!r}: the data set {self.root!r} does not lie in the folder of the metadata or below it")
        if dataset.kind not in ("packed", "folder"):
            raise UnsupportedError(f"{dataset.path!r} is of the kind {dataset.kind}: pack it, and describe what was packed")
        self.is_folder = dataset.kind == "folder"
        self.fields = {key: field for key, field in dataset.fields.items() if field.type not in _FILES}
        own = next((key for key in ("sample", *["file"] * self.is_folder) if key in dataset.fields), None)
        if own is not None:
            raise ArgumentError(f"{dataset.path!r}: the field {own!r} is called like a column that the table has itself: rename it")
        self.splits: list[str] = []

    def write(self) -> None:
        for each in (self.path, self.table):
            if os.path.lexists(each):
                raise ExistsError(f"{each!r} is there already", file=each)
        self._new(self.table, self._lines())
        try:
            text = json.dumps(self._metadata(), indent=2, ensure_ascii=False, allow_nan=False)
            self._new(self.path, iter([text, "\n"]))
        except BaseException:
            os.unlink(self.table)
            raise

    @staticmethod
    def _new(path: str, parts: Iterator[str]) -> None:
        """Writes a file under a temporary name and then renames it, so the final name never belongs to an incomplete file."""
        half = f"{path}.{os.getpid()}.part"
        try:
            with open(half, "x", encoding="utf-8", newline="\n") as file:
                try:
                    for part in parts:
                        file.write(part)
                    file.flush()
                    os.fsync(file.fileno())
                    os.rename(half, path)
                except BaseException:
                    os.unlink(half)
                    raise
        except OSError as error:
            raise StorageError(f"{path!r}: {error.strerror or error}", file=path, os_error=error.errno or 0) from None

    # The table ---------------------------------------------------------------------------------

    def _lines(self) -> Iterator[str]:
        dataset = self.dataset
        seen: dict[str, None] = {}
        for i in range(len(dataset)):
            row: dict[str, Any] = {"sample": dataset.name(i)}
            if self.is_folder:
                row["file"] = os.path.normpath(os.path.join(self.below, dataset.name(i)))
            sample = dataset._sample(i)
            for key, field in self.fields.items():
                row[key] = _plain(dataset._value(sample, dataset._place(key), field), field)
            if isinstance(row.get("split"), str) and len(seen) <= _MOST_SPLITS:
                seen[row["split"]] = None
            try:
                yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
            except ValueError as error:
                raise in_sample(ArgumentError(f"Croissant's table cannot hold it: {error}"), i) from None
        self.splits = sorted(seen) if 0 < len(seen) <= _MOST_SPLITS else []

    # The metadata ------------------------------------------------------------------------------

    def _metadata(self) -> dict[str, Any]:
        name = os.path.splitext(os.path.basename(self.root))[0]
        unread = [key for key, field in self.dataset.fields.items() if field.type in _FILES and not self._is_described(key)]
        text = f"{len(self.dataset)} samples with the fields {', '.join(self.dataset.fields)}."
        if unread:
            text += f" Read by Penstock alone: {', '.join(unread)}."
        return {
            "@context": _CONTEXT, "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.1", "name": name,
            "description": text, **self.about, "distribution": list(self._distribution()), "recordSet": list(self._record_sets()),
        }  # fmt: skip

    def _is_described(self, key: str) -> bool:
        return self.is_folder and key == next(iter(self.dataset.fields))

    def _distribution(self) -> Iterator[dict[str, Any]]:
        yield self._file(self.table, "samples-table", "application/jsonlines")
        if self.is_folder:
            endings = sorted({os.path.splitext(self.dataset.name(i))[1] for i in range(len(self.dataset))})
            where = "" if self.below == "." else f"{glob.escape(self.below)}/"
            includes = [f"{where}*{glob.escape(ending)}" for ending in endings]
            formats = list(dict.fromkeys(_FORMATS.get(ending.lower(), "application/octet-stream") for ending in endings))
            made = {"@type": "cr:FileSet", "@id": "sample-files", "name": "sample-files"}
            yield {**made, "encodingFormat": formats[0] if len(formats) == 1 else formats, "includes": includes}
            return
        for file in sorted(os.listdir(self.root), key=os.fsencode):
            whole = os.path.join(self.root, file)
            if file.endswith(".pst") and os.path.isfile(whole):
                yield self._file(whole, os.path.relpath(whole, os.path.dirname(self.path)), "application/octet-stream")

    def _file(self, path: str, id_: str, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256()
        with open_data(path, "file of the data set") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
            nbytes = file.tell()
        relative = os.path.relpath(path, os.path.dirname(self.path))
        return {"@type": "cr:FileObject", "@id": id_, "name": os.path.basename(path), "contentUrl": relative,
                "contentSize": f"{nbytes} B", "encodingFormat": kind, "sha256": digest.hexdigest()}  # fmt: skip

    def _record_sets(self) -> Iterator[dict[str, Any]]:
        if self.is_folder:
            media = "sc:AudioObject" if "audio" in self.dataset.fields else "sc:ImageObject"
            yield _record_set("files", [_field("files/path", "sc:Text", _of_files("fullpath")),
                                        _field("files/content", media, _of_files("content"))])  # fmt: skip
        if self.splits:
            rows = [{"splits/name": name, "splits/url": _SPLIT_URLS.get(name, "cr:Split")} for name in self.splits]
            made = _record_set("splits", [_field("splits/name", "sc:Text"), _field("splits/url", "sc:URL")])
            yield {**made, "dataType": "cr:Split", "key": {"@id": "splits/name"}, "data": rows}
        for key, field in self.fields.items():
            if names := self._classes(field):
                yield _enumeration(f"{key}_classes", names)
        fields = [_field("samples/sample", "sc:Text", _column("sample"))]
        if self.is_folder:
            fields.append({**_field("samples/file", "sc:Text", _column("file")), "references": {"field": {"@id": "files/path"}}})
            first = next(iter(self.dataset.fields))
            media = "sc:AudioObject" if first == "audio" else "sc:ImageObject"
            fields.append(_field(f"samples/{first}", media, {"field": {"@id": "files/content"}}))
        fields += [self._described(key, field) for key, field in self.fields.items()]
        yield {**_record_set("samples", fields), "key": {"@id": "samples/sample"}}

    def _classes(self, field: Field) -> list[str]:
        return [] if not field.n_classes or field.type == "keypoints" else list(self.dataset.class_names(field.name) or ())

    def _described(self, key: str, field: Field) -> dict[str, Any]:
        id_ = f"samples/{key}"
        if field.type in _TYPES:
            made = _field(id_, _TYPES[field.type], _column(key))
        else:
            shape = field.shape or ()
            columns = {"boxes": (-1, 4), "keypoints": (-1, 3)}
            sides = columns.get(field.type) or tuple(side or -1 for side in shape)
            kind = "sc:Integer" if "int" in str(field.dtype) and field.type == "array" else "sc:Float"
            made = {**_field(id_, kind, _column(key)), "isArray": True}
            made |= {"arrayShape": ",".join(map(str, sides))} if sides else {}
        if self._classes(field):
            made["references"] = {"field": {"@id": f"{key}_classes/id"}}
        elif key == "split" and self.splits:
            made["references"] = {"field": {"@id": "splits/name"}}
        return made


def _plain(value: Any, field: Field) -> Any:
    if field.type == "json":
        return json.dumps(value, ensure_ascii=False)
    return value.tolist() if hasattr(value, "tolist") else value


def _field(id_: str, type_: str, source: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": id_, "name": id_, "dataType": type_, **({} if source is None else {"source": source})}


def _record_set(id_: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"@type": "cr:RecordSet", "@id": id_, "name": id_, "field": fields}


def _column(name: str) -> dict[str, Any]:
    return {"fileObject": {"@id": "samples-table"}, "extract": {"column": name}}


def _of_files(name: str) -> dict[str, Any]:
    return {"fileSet": {"@id": "sample-files"}, "extract": {"fileProperty": name}}


def _enumeration(id_: str, names: Sequence[str]) -> dict[str, Any]:
    fields = [_field(f"{id_}/id", "sc:Integer"), _field(f"{id_}/name", "sc:Text")]
    rows = [{f"{id_}/id": i, f"{id_}/name": name} for i, name in enumerate(names)]
    return {**_record_set(id_, fields), "dataType": "sc:Enumeration", "key": {"@id": f"{id_}/id"}, "data": rows}


public(__name__, "penstock.writer")
