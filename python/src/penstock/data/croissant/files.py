"""Finds the files that metadata name: in the folder of croissant.json, or in zips and tars there. Nothing is downloaded, and links
are refused.

Archives are never unpacked to named files: zips and tars are read in place. A gzipped tar is unpacked to a temporary file without a
name.
"""

from __future__ import annotations

import errno
import fnmatch
import gzip
import hashlib
import lzma
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
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar

from ...base.files import unreadable
from ...errors import (
    ArgumentError,
    ChecksumError,
    CorruptError,
    LimitError,
    NotFoundError,
    PenstockError,
    StorageError,
    UnsupportedError,
)
from .metadata import Metadata, Resource

MOST_BYTES = 4 << 30  # files up to this length in bytes are read whole
_ZIPS = ("application/zip", "application/x-zip-compressed")
_TARS = ("application/x-tar", "application/tar")
_GZIPPED = ("application/x-gzip", "application/gzip", "application/x-tgz", "application/x-gtar", "application/x-gziptar")
_FOLDERS = ("git+https", "git+ssh", "local_directory")
_PIECE = 1 << 20
M = TypeVar("M")  # how an archive locates a member
_DEEPEST = 16  # levels of containers within containers
_LINK = "it is a link, and links are not followed"
_OUTSIDE = "the name leads out of the archive"


class Place(Protocol):
    """A folder or an archive that holds files."""

    shown: str

    def names(self) -> Sequence[str]:
        """Returns the paths of the regular files in it, sorted by their bytes."""

    def check(self, name: str) -> None:
        """Raises UnsupportedError if the file is a link or another special file."""

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> BinaryIO: ...


class Entry(NamedTuple):
    """A file in a folder or an archive."""

    place: Place
    name: str

    @property
    def shown(self) -> str:
        return os.path.join(self.place.shown, self.name)

    def read(self) -> bytes:
        return self.place.read(self.name)


def _too_long(shown: str) -> LimitError:
    return LimitError(f"{shown!r}: more than {MOST_BYTES} bytes", file=shown)


def _refusal(shown: str, text: str) -> UnsupportedError:
    return UnsupportedError(f"{shown!r}: {text}", text=text, file=shown)


def _broken(error: Exception, shown: str, what: str = "") -> PenstockError:
    """Converts an exception of reading an archive: to an error of the disk, to UnsupportedError, or to CorruptError for damaged
    bytes."""
    text = f"{what}{error}"
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a damaged archive names a negative offset
        return unreadable(error, shown, "file")
    if isinstance(error, RuntimeError):  # an unsupported compression or version, or a password
        return _refusal(shown, text)
    return CorruptError(f"{shown!r}: {text}", text=text, file=shown)


def tidy(name: str) -> str | None:
    """Normalises a path. Returns None if it leads out of its folder."""
    if name.startswith("/") or "\\" in name or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if not parts or ".." in parts else "/".join(parts)


class Folder:
    """A folder on the disk. Each part of a path is opened relative to the open folder above it, so no link is followed."""

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
        return os.path.isdir(os.path.join(self.shown, name)) and not self._has_link(name)

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
            self.check(name)
            raise unreadable(error, path, "file") from None
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnsupportedError(f"{path!r}: not a regular file", text="not a regular file", file=path)
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")

    def check(self, name: str) -> None:
        if self._has_link(name):
            raise _refusal(os.path.join(self.shown, name), "it is a link or lies behind one, and links are not followed")

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


class _Archive(Generic[M]):
    """The members of an archive by their normalised names, and the reasons why some are refused."""

    shown: str
    _members: dict[str, M]
    _refused: dict[str, str]

    def names(self) -> Sequence[str]:
        return sorted([*self._members, *self._refused], key=os.fsencode)

    def check(self, name: str) -> None:
        if name in self._refused:
            raise _refusal(os.path.join(self.shown, name), self._refused[name])


class Zip(_Archive[zipfile.ZipInfo]):
    def __init__(self, file: BinaryIO, shown: str) -> None:
        self.shown = shown
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise _broken(error, shown, "no zip: ") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._refused: dict[str, str] = {}
        for info in self._zip.infolist():
            if info.is_dir():
                continue
            name = tidy(info.filename)
            if name in self._members or name in self._refused:
                raise CorruptError(f"{shown!r}: {name!r} is there twice", text=f"{name!r} is there twice", file=shown)
            if name is None:
                self._refused[info.filename] = _OUTSIDE
            elif stat.S_ISLNK(info.external_attr >> 16):
                self._refused[name] = _LINK
            else:
                self._members[name] = info

    def read(self, name: str) -> bytes:
        self.check(name)
        info, shown = self._members[name], os.path.join(self.shown, name)
        if info.file_size > MOST_BYTES:
            raise _too_long(shown)
        try:
            with self._zip.open(info) as member:  # reading the member to its end compares its CRC
                data = member.read(info.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError) as error:
            raise _broken(error, shown) from None
        if len(data) != info.file_size:
            raise CorruptError(f"{shown!r}: it has other bytes than the zip says", file=shown)
        return data

    def open(self, name: str) -> BinaryIO:
        raise UnsupportedError(f"{os.path.join(self.shown, name)!r}: an archive in an archive is not read", file=self.shown)


class Tar(_Archive[tuple[int, int]]):
    """A tar. If several members have the same name, the last one counts, as for the program tar."""

    def __init__(self, file: BinaryIO, shown: str, gzipped: bool) -> None:
        self.shown, self._lock = shown, Lock()
        self._file = self._plain(file) if gzipped else file
        self._members: dict[str, tuple[int, int]] = {}
        self._refused: dict[str, str] = {}
        raw: dict[str, str] = {}
        try:
            with tarfile.open(fileobj=self._file, mode="r:") as tar:
                for info in tar:
                    if not info.isdir():
                        name = tidy(info.name)
                        if raw.setdefault(name or info.name, info.name) != info.name:
                            raise tarfile.ReadError(f"{name!r} is there twice, by two names")
                        self._add(name, info)
                self._file.seek(tar.offset)
                if self._file.read(512) != bytes(512):
                    raise tarfile.ReadError("it has no end, so it was cut")
        except (tarfile.TarError, OSError, ValueError, OverflowError) as error:
            raise _broken(error, shown, "no tar: ") from None

    def _add(self, name: str | None, info: tarfile.TarInfo) -> None:
        member, text = None, _OUTSIDE
        if name is not None and info.isreg():
            member, text = (None if info.issparse() else (info.offset_data, info.size)), "a sparse file is not read"
        elif name is not None and info.islnk():
            member, text = self._members.get(tidy(info.linkname) or ""), f"a link to {info.linkname!r}, which is no earlier file"
        elif name is not None:
            text = _LINK if info.issym() else "not a regular file"
        name = info.name if name is None else name
        self._members.pop(name, None)
        self._refused.pop(name, None)
        if member is None:
            self._refused[name] = text
        else:
            self._members[name] = member

    def _plain(self, file: BinaryIO) -> BinaryIO:
        """Decompresses a gzip to a temporary file without a name, and returns that file."""
        most = 256 * os.fstat(file.fileno()).st_size + (1 << 30)
        try:
            out = tempfile.TemporaryFile()  # noqa: SIM115  (the archive is read from it later)
            for piece in self._pieces(file, most):
                out.write(piece)
            out.seek(0)
        except PenstockError:
            raise
        except OSError as error:
            text = f"a temporary file for {self.shown!r}: {error.strerror or error}"
            raise StorageError(text, text=text, file=self.shown, os_error=error.errno or 0) from None
        return out

    def _pieces(self, file: BinaryIO, most: int) -> Iterator[bytes]:
        nbytes = 0
        with gzip.GzipFile(fileobj=file, mode="rb") as plain:
            while True:
                try:
                    piece = plain.read(_PIECE)
                except (zlib.error, EOFError, OSError) as error:
                    raise _broken(error, self.shown, "no gzip: ") from None
                if not piece:
                    return
                nbytes += len(piece)
                if nbytes > most:
                    raise LimitError(f"{self.shown!r}: it grows to more than 256 times its size", file=self.shown)
                yield piece

    def read(self, name: str) -> bytes:
        self.check(name)
        offset, nbytes = self._members[name]
        if nbytes > MOST_BYTES:
            raise _too_long(os.path.join(self.shown, name))
        with self._lock:
            try:
                self._file.seek(offset)
                data = self._file.read(nbytes)
            except OSError as error:
                raise unreadable(error, self.shown, "file") from None
        if len(data) != nbytes:
            raise CorruptError(f"{self.shown!r}: the tar ends within {name!r}", file=self.shown)
        return data

    def open(self, name: str) -> BinaryIO:
        raise UnsupportedError(f"{os.path.join(self.shown, name)!r}: an archive in an archive is not read", file=self.shown)


class Files:
    """Finds the files of resources. Checksums in the metadata are compared when a file is first used."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.folder = Folder(os.path.dirname(os.path.abspath(metadata.path)))
        self._places: dict[str, Place] = {}
        self._checked: set[str] = set()
        self._in_progress: list[str] = []

    def entries(self, id_: str) -> list[Entry]:
        """Returns the files of a FileObject (one) or of a FileSet. Within each folder or archive, they are sorted by the bytes of
        their names."""
        resource = self._metadata.resources[id_]
        if resource.includes is None:
            return [self._file(resource)]
        places = [self.folder] if not resource.inside else self._insides(resource)
        found = [Entry(place, name) for place in places for name in place.names() if _is_taken(resource, name)]
        for entry in found:
            if not isinstance(entry.place, Folder):  # a folder makes this check when it opens a file
                entry.place.check(entry.name)
        if not found:
            where = ", ".join(place.shown for place in places)
            raise self._missing(resource, f"no file in {where} fits the patterns {', '.join(resource.includes)}")
        return found

    def _missing(self, resource: Resource, text: str) -> NotFoundError:
        text = f"{resource.where} ({resource.id}): {text}"
        return NotFoundError(f"{self._metadata.path!r}: {text}", text=text, file=self._metadata.path)

    def _insides(self, resource: Resource) -> list[Place]:
        where = f"{resource.where}.containedIn"
        if resource.id in self._in_progress:
            raise self._metadata.fault(where, f"{resource.id!r} contains itself")
        if len(self._in_progress) == _DEEPEST:
            raise self._metadata.fault(where, f"more than {_DEEPEST} containers in each other")
        self._in_progress.append(resource.id)
        try:
            return self._found_insides(resource)
        finally:
            self._in_progress.pop()

    def _found_insides(self, resource: Resource) -> list[Place]:
        found: list[Place] = []
        for id_ in resource.inside:
            inner = self._metadata.resources.get(id_)
            if inner is None:
                raise self._metadata.fault(f"{resource.where}.containedIn", f"there is no {id_!r}")
            if inner.includes is None:
                found.append(self._place(inner))
            else:
                found += [self._archive(entry, inner) for entry in self.entries(id_)]
        return found

    def _place(self, resource: Resource) -> Place:
        """Returns the folder or the archive that a FileObject stands for."""
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
        """Returns the folder of a git repository or of another folder: a folder named by the id, or the folder of the metadata
        itself."""
        if resource.url in (".", "./"):
            return self.folder
        scheme = urllib.parse.urlsplit(resource.url or "").scheme
        name = tidy(resource.id if scheme else resource.url or "")
        if name is not None:
            self.folder.check(name)
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
        places = self._insides(resource)
        for place in places:
            if name in place.names():
                place.check(name)
                return Entry(place, name)
        raise self._missing(resource, f"there is no {name!r} in {', '.join(place.shown for place in places)}")

    def _local_name(self, resource: Resource) -> str:
        """Returns the path of a FileObject within the folder. For a URL, looks for a local file by its name."""
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
    """Whether the patterns of a FileSet select a file. A `*` also matches `/`, as in the tools of Croissant."""
    return any(fnmatch.fnmatchcase(name, each) for each in resource.includes or ()) and not any(
        fnmatch.fnmatchcase(name, each) for each in resource.excludes
    )
