"""The files that metadata name: in the folder of croissant.json, or in zips and tars there. Nothing is fetched; links are refused.

Archives are never unpacked to the disk: a zip and a tar are read in place. A gzipped tar becomes a plain one in a temporary file
without a name.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import os
import re
import stat
import tarfile
import tempfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import BinaryIO, NamedTuple, Protocol

from ...base.files import unreadable
from ...errors import ArgumentError, ChecksumError, CorruptError, LimitError, NotFoundError, UnsupportedError
from .metadata import Metadata, Resource

MOST_BYTES = 4 << 30  # of one file that is read whole
_ZIPS = ("application/zip", "application/x-zip-compressed")
_TARS = ("application/x-tar", "application/tar")
_GZIPPED = ("application/x-gzip", "application/gzip", "application/x-tgz", "application/x-gtar", "application/x-gziptar")
_FOLDERS = ("git+https", "git+ssh", "local_directory")
_PIECE = 1 << 20


class Place(Protocol):
    """A folder or an archive."""

    shown: str

    def names(self) -> Sequence[str]:
        """The regular files in it, by their paths, in byte order."""

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> BinaryIO: ...


class Entry(NamedTuple):
    """A file in a place."""

    place: Place
    name: str

    @property
    def shown(self) -> str:
        return os.path.join(self.place.shown, self.name)

    def read(self) -> bytes:
        return self.place.read(self.name)


def _too_long(shown: str) -> LimitError:
    return LimitError(f"{shown!r}: more than {MOST_BYTES} bytes", file=shown)


def tidy(name: str) -> str | None:
    """Returns the normalised path, or None if it leads out of its folder."""
    if name.startswith("/") or "\\" in name or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if not parts or ".." in parts else "/".join(parts)


class Folder:
    """A folder of the disk. Each part of a path is opened from the one above it, so that no link is passed."""

    def __init__(self, path: str) -> None:
        self.shown = path
        self._names: list[str] | None = None

    def names(self) -> Sequence[str]:
        if self._names is None:
            self._names = sorted(self._walk(""), key=os.fsencode)
        return self._names

    def _walk(self, below: str) -> Iterator[str]:
        root = os.path.join(self.shown, below)
        try:
            entries = list(os.scandir(root))
        except OSError as error:
            raise unreadable(error, root, "folder") from None
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(path + "/") if not entry.name.startswith(".") else ()
            else:
                yield path

    def has(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.shown, name))

    def is_folder(self, name: str) -> bool:
        return os.path.isdir(os.path.join(self.shown, name)) and not os.path.islink(os.path.join(self.shown, name))

    def open(self, name: str) -> BinaryIO:
        path = os.path.join(self.shown, name)
        flags = os.O_RDONLY | os.O_CLOEXEC
        at = os.open(self.shown, flags | os.O_DIRECTORY)
        try:
            *above, last = name.split("/")
            for part in above:
                inner = os.open(part, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = inner
            handle = os.open(last, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=at)
        except OSError as error:
            if self._has_link(name):
                text = "it is a link or lies behind one, and links are not followed"
                raise UnsupportedError(f"{path!r}: {text}", text=text, file=path) from None
            raise unreadable(error, path, "file") from None
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnsupportedError(f"{path!r}: not a regular file", text="not a regular file", file=path)
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")

    def _has_link(self, name: str) -> bool:
        parts = name.split("/")
        return any(os.path.islink(os.path.join(self.shown, *parts[: i + 1])) for i in range(len(parts)))

    def read(self, name: str) -> bytes:
        path = os.path.join(self.shown, name)
        with self.open(name) as file:
            nbytes = os.fstat(file.fileno()).st_size
            if nbytes > MOST_BYTES:
                raise _too_long(path)
            try:
                data = file.read(nbytes + 1)
            except OSError as error:
                raise unreadable(error, path, "file") from None
        if len(data) != nbytes:
            raise CorruptError(f"{path!r}: the file changed while it was read", file=path)
        return data


class Zip:
    def __init__(self, file: BinaryIO, shown: str) -> None:
        self.shown = shown
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise CorruptError(f"{shown!r}: no zip: {error}", text=f"no zip: {error}", file=shown) from None
        self._members = {}
        for info in self._zip.infolist():
            name = tidy(info.filename)
            if info.is_dir() or name is None or stat.S_ISLNK(info.external_attr >> 16):
                continue
            self._members[name] = info

    def names(self) -> Sequence[str]:
        return sorted(self._members, key=os.fsencode)

    def read(self, name: str) -> bytes:
        info, shown = self._members[name], os.path.join(self.shown, name)
        if info.file_size > MOST_BYTES:
            raise _too_long(shown)
        try:
            with self._zip.open(info) as member:  # compares the CRC
                data = member.read(info.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            raise CorruptError(f"{shown!r}: {error}", text=str(error), file=shown) from None
        if len(data) != info.file_size:
            raise CorruptError(f"{shown!r}: it has other bytes than the zip says", file=shown)
        return data

    def open(self, name: str) -> BinaryIO:
        raise UnsupportedError(f"{os.path.join(self.shown, name)!r}: an archive in an archive is not read", file=self.shown)


class Tar:
    def __init__(self, file: BinaryIO, shown: str, gzipped: bool) -> None:
        self.shown, self._lock = shown, Lock()
        self._file = self._plain(file) if gzipped else file
        self._members: dict[str, tuple[int, int]] = {}
        try:
            with tarfile.open(fileobj=self._file, mode="r:") as tar:
                for info in tar:
                    name = tidy(info.name)
                    if info.isreg() and not info.issparse() and name is not None:
                        self._members[name] = info.offset_data, info.size
                self._file.seek(tar.offset)
                if self._file.read(512) != bytes(512):
                    raise tarfile.ReadError("it has no end, so it was cut")
        except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
            raise CorruptError(f"{shown!r}: no tar: {error}", text=f"no tar: {error}", file=shown) from None

    def _plain(self, file: BinaryIO) -> BinaryIO:
        """Returns the bytes of a gzip, in a temporary file without a name."""
        most = 256 * os.fstat(file.fileno()).st_size + (1 << 30)
        out = tempfile.TemporaryFile()  # noqa: SIM115  (the archive is read from it later)
        nbytes = 0
        try:
            with gzip.GzipFile(fileobj=file, mode="rb") as plain:
                while piece := plain.read(_PIECE):
                    nbytes += out.write(piece)
                    if nbytes > most:
                        raise LimitError(f"{self.shown!r}: it grows to more than 256 times its size", file=self.shown)
        except (zlib.error, EOFError, OSError) as error:
            raise CorruptError(f"{self.shown!r}: no gzip: {error}", text=f"no gzip: {error}", file=self.shown) from None
        out.seek(0)
        return out

    def names(self) -> Sequence[str]:
        return sorted(self._members, key=os.fsencode)

    def read(self, name: str) -> bytes:
        offset, nbytes = self._members[name]
        if nbytes > MOST_BYTES:
            raise _too_long(os.path.join(self.shown, name))
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(nbytes)
        if len(data) != nbytes:
            raise CorruptError(f"{self.shown!r}: the tar ends within {name!r}", file=self.shown)
        return data

    def open(self, name: str) -> BinaryIO:
        raise UnsupportedError(f"{os.path.join(self.shown, name)!r}: an archive in an archive is not read", file=self.shown)


class Files:
    """Finds the files of resources. Sums that metadata state are compared when a file is first used."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.folder = Folder(os.path.dirname(os.path.abspath(metadata.path)))
        self._places: dict[str, Place] = {}
        self._checked: set[str] = set()

    def entries(self, id_: str) -> list[Entry]:
        """Returns the files of a FileObject (one) or a FileSet, in byte order of their names within each place."""
        resource = self._metadata.resources[id_]
        if resource.includes is None:
            return [self._file(resource)]
        places = [self.folder] if not resource.inside else self._insides(resource, set())
        found = [Entry(place, name) for place in places for name in place.names() if _is_taken(resource, name)]
        if not found:
            where = ", ".join(place.shown for place in places)
            raise self._missing(resource, f"no file in {where} fits the patterns {', '.join(resource.includes)}")
        return found

    def _missing(self, resource: Resource, text: str) -> NotFoundError:
        text = f"{resource.where} ({resource.id}): {text}"
        return NotFoundError(f"{self._metadata.path!r}: {text}", text=text, file=self._metadata.path)

    def _insides(self, resource: Resource, seen: set[str]) -> list[Place]:
        found: list[Place] = []
        for id_ in resource.inside:
            inner = self._metadata.resources.get(id_)
            if inner is None:
                raise self._metadata.fault(f"{resource.where}.containedIn", f"there is no {id_!r}")
            if id_ in seen:
                raise self._metadata.fault(f"{resource.where}.containedIn", f"{id_!r} contains itself")
            if inner.includes is None:
                found.append(self._place(inner))
            else:
                found += [self._archive(entry, inner) for entry in self.entries(id_)]
        return found

    def _place(self, resource: Resource) -> Place:
        """Returns a FileObject as a folder or an archive."""
        if resource.id not in self._places:
            if any(each in _FOLDERS for each in resource.formats) or self._is_local_folder(resource):
                self._places[resource.id] = self._repository(resource)
            else:
                self._places[resource.id] = self._archive(self._file(resource), resource)
        return self._places[resource.id]

    def _is_local_folder(self, resource: Resource) -> bool:
        name = tidy(resource.url or "")
        return not resource.inside and (resource.url in (".", "./") or (name is not None and self.folder.is_folder(name)))

    def _repository(self, resource: Resource) -> Place:
        """A folder, or a repository of git: its copy lies in a folder called by the id, or is the folder of the metadata itself."""
        if resource.url in (".", "./"):
            return self.folder
        scheme = urllib.parse.urlsplit(resource.url or "").scheme
        name = tidy(resource.id if scheme else resource.url or "")
        if name is not None and self.folder.is_folder(name):
            return Folder(os.path.join(self.folder.shown, name))
        if scheme:
            return self.folder
        raise self._missing(resource, f"there is no folder {resource.url!r} in {self.folder.shown!r}")

    def _archive(self, entry: Entry, resource: Resource) -> Place:
        file = entry.place.open(entry.name)
        low = entry.name.lower()
        if any(each in _ZIPS for each in resource.formats) or low.endswith(".zip"):
            return Zip(file, entry.shown)
        gzipped = low.endswith((".tar.gz", ".tgz")) or (file.read(2) == b"\x1f\x8b")
        file.seek(0)
        if any(each in (*_TARS, *_GZIPPED) for each in resource.formats) or low.endswith((".tar", ".tar.gz", ".tgz")):
            return Tar(file, entry.shown, gzipped)
        file.close()
        text = f"{', '.join(resource.formats) or 'nothing'}: zip, tar and gzipped tar are read as containers"
        raise self._metadata.refusal(f"{resource.where}.encodingFormat", text)

    def _file(self, resource: Resource) -> Entry:
        if resource.inside:
            entry = self._member(resource)
        else:
            entry = Entry(self.folder, self._local_name(resource))
        if resource.id not in self._checked:
            self._check_sums(resource, entry)
            self._checked.add(resource.id)
        return entry

    def _member(self, resource: Resource) -> Entry:
        name = tidy(urllib.parse.unquote(resource.url or ""))
        if name is None:
            raise ArgumentError(f"{self._metadata.path!r}: {resource.where}.contentUrl: {resource.url!r} leaves its container",
                                file=self._metadata.path)  # fmt: skip
        places = self._insides(resource, {resource.id})
        for place in places:
            if name in place.names():
                return Entry(place, name)
        raise self._missing(resource, f"there is no {name!r} in {', '.join(place.shown for place in places)}")

    def _local_name(self, resource: Resource) -> str:
        """Returns the path of a FileObject within the folder. A file with an address on the net is looked for by its name."""
        url = urllib.parse.urlsplit(resource.url or "")
        if not url.scheme and not url.netloc:
            name = tidy(resource.url or "")
            if name is None:
                raise ArgumentError(f"{self._metadata.path!r}: {resource.where}.contentUrl: {resource.url!r} is no path within the "
                                    "folder of the metadata", file=self._metadata.path)  # fmt: skip
            if not self.folder.has(name) and self.folder.has(tidy(urllib.parse.unquote(name)) or name):
                return tidy(urllib.parse.unquote(name)) or name
            if not self.folder.has(name):
                raise self._missing(resource, f"{name!r} is not in {self.folder.shown!r}")
            return name
        last = urllib.parse.unquote(url.path.rstrip("/").rpartition("/")[2])
        wanted = [name for name in (last, resource.name, resource.id) if name and tidy(name) is not None]
        found = next((name for name in wanted if self.folder.has(tidy(name) or name)), None)
        if found is None:
            place = os.path.join(self.folder.shown, (wanted or ["FILE"])[0])
            raise self._missing(resource, f"it is at {resource.url}, and nothing is fetched: put it to {place!r}")
        return tidy(found) or found

    def _check_sums(self, resource: Resource, entry: Entry) -> None:
        for kind, stated, n_digits in (("sha256", resource.sha256, 64), ("md5", resource.md5, 32)):
            if stated is None:
                continue
            if not re.fullmatch(rf"[0-9a-fA-F]{{{n_digits}}}", stated):
                raise self._metadata.fault(f"{resource.where}.{kind}", f"{stated[:80]!r} is no sum of {n_digits} hex digits")
            found = _sum_of(entry, kind)
            if found != stated.lower():
                text = f"its {kind} is {found}, {resource.where} ({resource.id}) says {stated}"
                raise ChecksumError(f"{entry.shown!r}: {text}", text=text, file=entry.shown)


def _sum_of(entry: Entry, kind: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    if isinstance(entry.place, Folder):
        with entry.place.open(entry.name) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    else:
        digest.update(entry.read())
    return digest.hexdigest()


def _is_taken(resource: Resource, name: str) -> bool:
    """A `*` of a pattern also stands for `/`, as in the tools of Croissant."""
    return any(fnmatch.fnmatchcase(name, each) for each in resource.includes or ()) and not any(
        fnmatch.fnmatchcase(name, each) for each in resource.excludes
    )


