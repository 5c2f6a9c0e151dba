"""Reads croissant.json (versions 1.0 and 1.1): files, sets of files, record sets and their fields. Each member is checked.

The file's context maps the names of properties to plain names: `cr:recordSet`, `recordSet` and the full IRI mean the same. A
property that is not supported and would change the records is refused, with its name and its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...base.files import parse, read_file
from ...errors import CorruptError, UnsupportedError

MOST_BYTES = 256 << 20
_VERSIONS = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/1.1")
_PREFIXES = {"cr": "http://mlcommons.org/croissant/", "sc": "https://schema.org/", "dct": "http://purl.org/dc/terms/"}
_KNOWN = ("http://mlcommons.org/croissant/", "https://mlcommons.org/croissant/", "http://schema.org/", "https://schema.org/",
          "http://purl.org/dc/terms/")  # fmt: skip
_RESOURCES = ("fileObject", "fileSet", "recordSet")
_EXTRACTS = ("column", "jsonPath", "fileProperty")
_KEPT = ("format", "samplingRate")  # samplingRate asks for resampling, but the sound is kept as it is
PROPERTIES = ("fullpath", "filename", "content", "lines", "lineNumbers")
_TRANSFORMS = ("regex", "separator", "jsonPath", "format")


@dataclass
class Source:
    """Where values come from. kind: fileObject, fileSet, recordSet, field or "" (the id decides). extract: the kind of extract and
    its value."""

    kind: str
    target: str
    extract: tuple[str, str] | None
    transforms: list[tuple[str, str]]
    where: str


@dataclass
class Field:
    id: str
    where: str
    types: list[str]
    source: Source | None = None
    references: Source | None = None
    value: Any = None
    has_value: bool = False
    is_array: bool = False
    shape: str | None = None
    sub_fields: list[Field] = field(default_factory=list)


@dataclass
class RecordSet:
    id: str
    where: str
    types: list[str]
    fields: dict[str, Field]
    key: list[str]
    data: list[dict[str, Any]] | None


@dataclass
class Resource:
    """A FileObject, or a FileSet if `includes` is set."""

    id: str
    where: str
    name: str
    url: str | None
    formats: list[str]
    sha256: str | None
    md5: str | None
    inside: list[str]
    includes: list[str] | None
    excludes: list[str]


def of_list(value: Any) -> list[Any]:
    """Returns a list of the values of a property, which may be one value or a list."""
    return [] if value is None else value if isinstance(value, list) else [value]


class Metadata:
    """The parts of a metadata file, by their ids."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.resources: dict[str, Resource] = {}
        self.record_sets: dict[str, RecordSet] = {}
        self.fields: dict[str, tuple[RecordSet, Field]] = {}
        self._context: dict[str, str] = dict(_PREFIXES)
        tree = parse(read_file(path, "Croissant metadata", MOST_BYTES), path)
        if not isinstance(tree, Mapping):
            raise self.fault("", "an object is expected")
        if "@graph" in tree:
            raise self.refusal("@graph", "the file is expanded JSON-LD: the compact form is read, as tools write it")
        self._take_context(tree.get("@context"))
        root = self._plain(tree, "")
        self._check_version(root)
        for i, each in enumerate(of_list(root.get("distribution"))):
            self._resource(self._plain(each, f"distribution[{i}]"), f"distribution[{i}]")
        for i, each in enumerate(of_list(root.get("recordSet"))):
            self._record_set(self._plain(each, f"recordSet[{i}]"), f"recordSet[{i}]")
        for _, each in self.fields.values():
            self._inherit(each, 0)
        if not self.record_sets:
            raise self.fault("recordSet", "there is no record set, so nothing says what the records are")

    def fault(self, where: str, text: str) -> CorruptError:
        text = f"{where}: {text}" if where else text
        return CorruptError(f"{self.path!r}: {text}", text=text, file=self.path)

    def refusal(self, where: str, text: str) -> UnsupportedError:
        text = f"{where}: {text}" if where else text
        return UnsupportedError(f"{self.path!r}: {text}", text=text, file=self.path)

    # Names of properties -----------------------------------------------------------------------

    def _take_context(self, context: Any) -> None:
        for each in of_list(context):
            for key, value in each.items() if isinstance(each, Mapping) else ():
                iri = value.get("@id") if isinstance(value, Mapping) else value
                if isinstance(iri, str) and not key.startswith("@"):
                    self._context[key] = iri

    def local(self, name: str) -> str:
        """Returns the plain name of a property or type of Croissant or schema.org. Any other name is returned unchanged."""
        iri = name
        for _ in range(4):
            prefix, colon, rest = iri.partition(":")
            if iri in self._context and iri != self._context[iri]:
                iri = self._context[iri]
            elif colon and not rest.startswith("//") and prefix in self._context:
                iri = self._context[prefix] + rest
            else:
                break
        for known in _KNOWN:
            if iri.startswith(known):
                return iri[len(known) :]
        return name if iri != name and ":" in iri else iri

    def _plain(self, node: Any, where: str) -> dict[str, Any]:
        if not isinstance(node, Mapping):
            raise self.fault(where, "an object is expected")
        found: dict[str, Any] = {}
        for key, value in node.items():
            name = key if key.startswith("@") else self.local(key)
            if name in found:
                raise self.fault(where, f"{name} is there twice, by two names")
            found[name] = value
        return found

    # Checks ------------------------------------------------------------------------------------

    def _check_version(self, root: Mapping[str, Any]) -> None:
        stated = [each.get("@id") if isinstance(each, Mapping) else each for each in of_list(root.get("conformsTo"))]
        if not any(each in _VERSIONS for each in stated):
            raise self.refusal("conformsTo", f"{stated or 'nothing'} is stated: Croissant 1.0 and 1.1 are read, {_VERSIONS[0]}")

    def _text(self, value: Any, where: str) -> str:
        if isinstance(value, Mapping) and isinstance(value.get("@value"), str):
            value = value["@value"]
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.fault(where, f"a text is expected, not {str(value)[:60]!r}")
        return value

    def _texts(self, value: Any, where: str) -> list[str]:
        return [self._text(each, where) for each in of_list(value)]

    def _id(self, node: Mapping[str, Any], where: str) -> str:
        return self._text(node.get("@id", node.get("name")), f"{where}.@id")

    def _ids(self, value: Any, where: str) -> list[str]:
        return [self._text(each.get("@id") if isinstance(each, Mapping) else each, where) for each in of_list(value)]

    def _types(self, node: Mapping[str, Any]) -> list[str]:
        names = [each.get("@id") if isinstance(each, Mapping) else each for each in of_list(node.get("dataType"))]
        return [self.local(name) for name in names if isinstance(name, str)]

    # Parts -------------------------------------------------------------------------------------

    def _resource(self, node: dict[str, Any], where: str) -> None:
        kinds = [self.local(each) for each in of_list(node.get("@type")) if isinstance(each, str)]
        if "FileObject" not in kinds and "FileSet" not in kinds:
            raise self.refusal(f"{where}.@type", f"{', '.join(kinds) or 'nothing'}: FileObject and FileSet are read")
        id_ = self._id(node, where)
        inside = []
        for each in of_list(node.get("containedIn")):
            if isinstance(each, Mapping) and "@id" not in each:
                raise self.refusal(f"{where}.containedIn", "a DataSource there (a list of files, or a transform) is not read")
            inside += self._ids(each, f"{where}.containedIn")
        is_set = "FileSet" in kinds
        url = node.get("contentUrl")
        includes = self._texts(node.get("includes"), f"{where}.includes")
        if is_set and not includes:
            raise self.fault(f"{where}.includes", f"the FileSet {id_!r} says no pattern of names")
        if not is_set and url is None:
            raise self.fault(f"{where}.contentUrl", f"the FileObject {id_!r} says no place")
        sums = {name: None if node.get(name) is None else self._text(node[name], f"{where}.{name}") for name in ("sha256", "md5")}
        found = Resource(
            id_, where, str(node.get("name") or id_), None if url is None else self._text(url, f"{where}.contentUrl"),
            self._texts(node.get("encodingFormat"), f"{where}.encodingFormat"), sums["sha256"], sums["md5"], inside,
            includes if is_set else None, self._texts(node.get("excludes"), f"{where}.excludes"),
        )  # fmt: skip
        if id_ in self.resources:
            raise self.fault(where, f"the id {id_!r} is there twice")
        self.resources[id_] = found

    def _record_set(self, node: dict[str, Any], where: str) -> None:
        id_ = self._id(node, where)
        found = RecordSet(id_, where, self._types(node), {}, self._ids(node.get("key"), f"{where}.key"), None)
        if id_ in self.record_sets or id_ in self.resources:
            raise self.fault(where, f"the id {id_!r} is there twice")
        for i, each in enumerate(of_list(node.get("annotation"))):
            if self._has_source(each):
                raise self.refusal(f"{where}.annotation[{i}]", "an annotation with a source is not read: make it a field")
        for i, each in enumerate(of_list(node.get("field"))):
            made = self._field(self._plain(each, f"{where}.field[{i}]"), f"{where}.field[{i}]")
            if made.id in found.fields or made.id in self.fields:
                raise self.fault(f"{where}.field[{i}]", f"the id {made.id!r} is there twice")
            found.fields[made.id] = made
            for inner in self._all(made):
                self.fields[inner.id] = (found, inner)
        data = node.get("data")
        if data is not None:
            found.data = self._data(data, found)
        if not found.fields:
            raise self.fault(where, f"the record set {id_!r} has no field")
        self.record_sets[id_] = found

    def _inherit(self, field: Field, depth: int) -> None:
        """Gives a field without a type the type of the field that is its source, or that it references."""
        for source in (field.source, field.references) if not field.types and depth < 16 else ():
            if source is not None and source.target in self.fields and not field.types and not field.sub_fields:
                inner = self.fields[source.target][1]
                self._inherit(inner, depth + 1)
                field.types, field.is_array = inner.types, field.is_array or inner.is_array

    def _has_source(self, node: Any) -> bool:
        if not isinstance(node, Mapping):
            return False
        plain = self._plain(node, "annotation")
        return "source" in plain or any(map(self._has_source, of_list(plain.get("subField"))))

    def _all(self, made: Field) -> Iterator[Field]:
        yield made
        for inner in made.sub_fields:
            yield from self._all(inner)

    def _data(self, data: Any, record_set: RecordSet) -> list[dict[str, Any]]:
        where = f"{record_set.where}.data"
        rows = parse(data.encode(), self.path) if isinstance(data, str) else data
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise self.fault(where, "a list of objects is expected")
        for i, row in enumerate(rows):
            if unknown := [key for key in row if key not in record_set.fields]:
                raise self.fault(f"{where}[{i}]", f"{unknown[0]!r} is the id of no field")
        return [dict(row) for row in rows]

    def _field(self, node: dict[str, Any], where: str, depth: int = 0) -> Field:
        found = Field(self._id(node, where), where, self._types(node))
        if depth > 8:
            raise self.fault(where, "fields are nested too deep")
        if "parentField" in node:
            raise self.refusal(f"{where}.parentField", "it is not read")
        for i, each in enumerate(of_list(node.get("annotation"))):
            if self._has_source(each):
                raise self.refusal(f"{where}.annotation[{i}]", "an annotation with a source is not read: make it a field")
        found.is_array = node.get("isArray") is True or node.get("repeated") is True
        found.shape = None if node.get("arrayShape") is None else self._text(node["arrayShape"], f"{where}.arrayShape")
        found.value, found.has_value = node.get("value"), "value" in node
        if "source" in node:
            found.source = self._source(node["source"], f"{where}.source")
        if len(of_list(node.get("references"))) > 1:
            raise self.refusal(f"{where}.references", "several references of one field are not read")
        if node.get("references"):
            found.references = self._source(of_list(node["references"])[0], f"{where}.references")
        for i, each in enumerate(of_list(node.get("subField"))):
            inner = f"{where}.subField[{i}]"
            found.sub_fields.append(self._field(self._plain(each, inner), inner, depth + 1))
        return found

    def _source(self, value: Any, where: str) -> Source:
        if isinstance(value, str):
            value = {"@id": value}
        node = self._plain(value, where)
        if unknown := node.keys() - {"@id", "@type", "name", "description", "field", "extract", "transform", *_KEPT, *_RESOURCES}:
            raise self.refusal(f"{where}.{min(unknown)}", "this property of a source is not read")
        named = [kind for kind in (*_RESOURCES, "field") if kind in node]
        if not named and "@id" in node:
            kind, target = "", self._text(node["@id"], where)  # the kind of resource follows from the id
        elif len(named) == 1:
            ids = self._ids(node[named[0]], f"{where}.{named[0]}")
            if len(ids) != 1:
                raise self.fault(f"{where}.{named[0]}", f"one id is expected, not {len(ids)}")
            kind, target = named[0], ids[0]
        else:
            raise self.fault(where, "a source names one of fileObject, fileSet, recordSet and a field")
        transforms: list[tuple[str, str]] = []
        for i, each in enumerate(of_list(node.get("transform"))):
            transforms += self._transforms(each, f"{where}.transform[{i}]")
        if "format" in node:
            transforms.append(("format", self._text(node["format"], f"{where}.format")))
        return Source(kind, target, self._extract(node.get("extract"), f"{where}.extract"), transforms, where)

    def _extract(self, value: Any, where: str) -> tuple[str, str] | None:
        if value is None:
            return None
        node = {key: each for key, each in self._plain(value, where).items() if not key.startswith("@")}
        if len(node) != 1 or not node.keys() <= set(_EXTRACTS):
            raise self.refusal(where, f"{', '.join(node) or 'nothing'}: one of {', '.join(_EXTRACTS)} is read")
        name, text = next(iter(node.items()))
        text = self._text(text, f"{where}.{name}")
        if name == "fileProperty":
            text = self.local(text)
            if text not in PROPERTIES:
                raise self.refusal(f"{where}.fileProperty", f"{text!r}: {', '.join(PROPERTIES)} are read")
        return name, text

    def _transforms(self, value: Any, where: str) -> Iterator[tuple[str, str]]:
        for name, text in self._plain(value, where).items():
            if name.startswith("@"):
                continue
            if name not in _TRANSFORMS:
                raise self.refusal(f"{where}.{name}", f"this transform is not read: {', '.join(_TRANSFORMS)} are")
            yield name, self._text(text, f"{where}.{name}")
