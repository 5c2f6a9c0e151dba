"""Reads files that users give: in bounded memory, parsed as JSON, and checked member by member.

A file may be damaged, nested too deeply, huge, or not a file at all. Each case raises an error of Penstock that names the file.
"""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, ParamSpec, TypeVar

from ..errors import (
    ArgumentError,
    CorruptError,
    LimitError,
    NotFoundError,
    PenstockError,
    StorageError,
    UnsupportedError,
    in_file,
)

#: The largest JSON file in bytes that is read: plans, reports and descriptions of machines.
MOST_BYTES = 16 << 20

_P = ParamSpec("_P")
_R = TypeVar("_R")

Check = Callable[[Any, str], None]


def unreadable(error: OSError, path: str, what: str) -> PenstockError:
    """Returns the error for a file that cannot be read."""
    kind = NotFoundError if isinstance(error, (FileNotFoundError, NotADirectoryError)) else StorageError
    return kind(f"{what} {path!r}: {error.strerror or error}", text=f"{what}: {error.strerror or error}", file=path,
                os_error=error.errno or 0)


def open_data(path: str, what: str) -> BinaryIO:
    """Opens a regular file for reading. Refuses a pipe, a socket, a device or a folder at once."""
    if "\0" in path:
        raise ArgumentError(f"{what}: the path {path!r} has a character NUL")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise unreadable(error, path, what) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise UnsupportedError(f"{what} {path!r}: not a regular file", text=f"{what}: not a regular file", file=path)


def read_file(path: str, what: str, most: int | None = None) -> bytes:
    """Reads a whole file. It may have at most `most` bytes."""
    with open_data(path, what) as file:
        nbytes = os.fstat(file.fileno()).st_size
        try:
            # file.read(n) allocates n bytes at once. Asking for one byte more than the file's size shows whether the file grows
            # meanwhile.
            data = b"" if most is not None and nbytes > most else file.read(nbytes + 1)
        except OSError as error:
            raise unreadable(error, path, what) from None
    if most is not None and max(nbytes, len(data)) > most:
        raise LimitError(f"{what} {path!r}: more than {most} bytes", file=path)
    if len(data) > nbytes:
        raise CorruptError(f"{what} {path!r}: the file grew while it was read", file=path)
    return data


def text_of(data: bytes, path: str, advice: str = "") -> str:
    """Decodes the bytes of a file as UTF-8, without a byte order mark (BOM). `advice` is added to the end of the error's text."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = f"byte {error.start} is not UTF-8{advice}"
        raise CorruptError(f"{path!r}: {text}", text=text, file=path, offset=error.start) from None


def parse(data: bytes, path: str, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Parses the bytes of a file as JSON in UTF-8."""

    def bad(text: str, **parts: Any) -> CorruptError:
        return CorruptError(f"{path!r}: {text}", text=text, file=path, **parts)

    text = text_of(data, path)
    try:
        return json.loads(text, object_hook=hook)
    except json.JSONDecodeError as error:
        raise bad(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})", offset=error.pos) from None
    except RecursionError:
        raise bad("nested too deep") from None
    except ValueError as error:  # an integer has more digits than Python accepts
        raise bad(f"not JSON: {error}") from None


def read_json(path: str | os.PathLike[str], what: str, most: int = MOST_BYTES) -> Any:
    """Reads and parses a JSON file of at most `most` bytes."""
    name = os.fspath(path)
    return parse(read_file(name, what, most), name)


@contextmanager
def of_file(path: str | None) -> Iterator[None]:
    """Adds the path to errors about a member that name no file. A LimitError passes: it is a valid answer, not a fault of the
    file."""
    try:
        yield
    except (ArgumentError, CorruptError) as error:
        if path is None or error.file is not None:
            raise
        raise in_file(error, path) from error.__cause__


# Exceptions that Python raises when code uses a member of the wrong type or value that no check has tested.
_SURPRISES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@contextmanager
def unfit(what: str, path: str | None) -> Iterator[None]:
    """Turns any exception that an invalid member of the file causes into an error of Penstock. This is for members that are only
    displayed. The others have been checked before."""
    try:
        with of_file(path):
            yield
    except PenstockError:
        raise
    except _SURPRISES as error:
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        text = f"{what} has a member that is missing or unfit ({cause})"
        raise CorruptError(text if path is None else f"file {path!r}: {text}", text=text, file=path) from error


def tells(of: Callable[..., tuple[str, str | None] | None]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator that runs a function within `unfit`. `of` gets the function's arguments and returns what is read and its file, or
    None to run the function without `unfit`."""

    def decorator(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            read = of(*args, **kwargs)
            if read is None:
                return function(*args, **kwargs)
            with unfit(*read):
                return function(*args, **kwargs)

        return guarded

    return decorator


# Checks ---------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, (dict, list)) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def number(low: float = 0.0, high: float = 1e18, whole: bool = False) -> Check:
    """Returns a check: the value is a number in [low, high], or null."""
    kinds = (int,) if whole else (int, float)

    def check(value: Any, where: str) -> None:
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high):
            raise ArgumentError(f"{where} is a {'whole ' if whole else ''}number from {low:g} to {high:g}, not {_shown(value)}")

    return check


def needed(check: Check) -> Check:
    """Returns a check: the member is present and passes `check`."""

    def with_value(value: Any, where: str) -> None:
        if value is None:
            raise ArgumentError(f"{where} is missing")
        check(value, where)

    return with_value


def kind(types: type | tuple[type, ...], name: str) -> Check:
    """Returns a check: the value has one of these types, or is null."""

    def check(value: Any, where: str) -> None:
        if value is not None and not isinstance(value, types):
            raise ArgumentError(f"{where} is {name}, not {_shown(value)}")

    return check


text = kind(str, "a text")
truth = kind(bool, "true or false")


def listed(check: Check, least: int = 0, most: int | None = None) -> Check:
    """Returns a check: the value is a list of `least` to `most` elements that pass `check`, or null."""

    def each(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, (list, tuple)) or len(value) < least or (most is not None and len(value) > most):
            size = "" if not least and most is None else f" of {least}" if least == most else f" of {least} or more"
            raise ArgumentError(f"{where} is a list{size}, not {_shown(value)}")
        for i, one in enumerate(value):
            check(one, f"{where}[{i}]")

    return each


def by_name(check: Check) -> Check:
    """Returns a check: the value is an object whose members, of any name, pass `check`, or null."""

    def each(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{where} is an object, not {_shown(value)}")
        for name, one in value.items():
            check(one, f"{where}.{name}")

    return each


def members(checks: Mapping[str, Check]) -> Check:
    """Returns a check: the value is an object whose members pass their checks, or null. Other members are allowed."""

    def each(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{where} is an object, not {_shown(value)}")
        for name, check in checks.items():
            check(value.get(name), f"{where}.{name}" if where else name)

    return each
