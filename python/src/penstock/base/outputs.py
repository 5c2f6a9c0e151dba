"""Writes the output files of commands, each whole or not at all, and checks the free disk space before anything is measured."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, NoSpaceError
from .units import size

_MARGIN = 1.02  # ratio of disk space to stored bytes: adds the index and the file system's partial blocks


def checked(name: str, path: str | os.PathLike[str], *others: Any) -> str:
    """Checks that a file can be written, and returns its absolute path.

    name: name of the option, for errors. others: paths of files that must not be overwritten; None stands for no file.
    ArgumentError: a file cannot be written there.
    """
    found = os.path.abspath(os.fspath(path))
    parent = os.path.dirname(found)
    if os.path.isdir(found):
        raise ArgumentError(f"{name} is a file to write: {os.fspath(path)} is a directory")
    if not os.path.isdir(parent):
        raise ArgumentError(f"{name}: there is no directory {parent}")
    if not os.access(found if os.path.exists(found) else parent, os.W_OK):
        raise ArgumentError(f"{name}: {found} cannot be written")
    for other in others:
        if other is not None and os.path.realpath(found) == os.path.realpath(other):
            raise ArgumentError(f"{name}: {os.fspath(path)} would be written over; name another file")
    return found


def write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file whole, texts as UTF-8. After an interruption, or if the disk is full, the file has its old content or the new
    one.

    A pipe or a device is written to directly.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        target.write_bytes(data)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with open(new, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            new.chmod(mode)
        os.replace(new, target)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def free_nbytes(path: str) -> int:
    """Returns the free bytes that this user may write to the disk of a path. The last folders of the path need not exist."""
    place = os.path.abspath(path)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def storable_nbytes(path: str) -> float:
    """Returns how many bytes of stored samples fit on the disk of `path`."""
    return free_nbytes(path) / _MARGIN


def need_room(path: str, nbytes: float, what: str, mend: str) -> None:
    """Raises NoSpaceError if `nbytes` of stored samples do not fit on the disk of `path`. `mend` is the advice in the error's
    text."""
    room = storable_nbytes(path)
    if nbytes > room:
        raise NoSpaceError(
            f"{what} takes about {size(nbytes)}, and the disk of {path} has room for {size(room)}: {mend}", file=path
        )
