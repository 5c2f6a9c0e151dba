"""Files of others: read in bounded memory, parsed as JSON, and checked member by member.

A file may be damaged, nested without end, huge, or no file at all. Each such case is an error of Penstock that names the file.
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

#: Most bytes of a file of JSON that people and Penstock write: plans, reports, machines.
MOST_BYTES = 16 << 20

_P = ParamSpec("_P")
_R = TypeVar("_R")

Check = Callable[[Any, str], None]


def unreadable(error: OSError, path: str, what: str) -> PenstockError:
    """Returns the error of a file that cannot be read."""
    kind = NotFoundError if isinstance(error, (FileNotFoundError, NotADirectoryError)) else StorageError
    return kind(f"{what} {path!r}: {error.strerror or error}", text=f"{what}: {error.strerror or error}", file=path,
                os_error=error.errno or 0)


def open_data(path: str, what: str) -> BinaryIO:
    """Opens a file for reading. A pipe, a socket, a device or a folder in its place is refused at once."""
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
    """Reads a whole file of at most `most` bytes."""
    with open_data(path, what) as file:
        nbytes = os.fstat(file.fileno()).st_size
        try:
            # read(n) takes memory for n bytes at once. One byte more than the file has tells whether it grows.
            data = b"" if most is not None and nbytes > most else file.read(nbytes + 1)
        except OSError as error:
            raise unreadable(error, path, what) from None
    if most is not None and max(nbytes, len(data)) > most:
        raise LimitError(f"{what} {path!r}: more than {most} bytes", file=path)
    if len(data) > nbytes:
        raise CorruptError(f"{what} {path!r}: the file grew while it was read", file=path)
    return data


def text_of(data: bytes, path: str, advice: str = "") -> str:
    """Returns the text of a file in UTF-8, without a mark of the order of bytes (BOM). `advice` ends the error's text."""
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
    except ValueError as error:  # an integer of more digits than Python takes
        raise bad(f"not JSON: {error}") from None


def read_json(path: str | os.PathLike[str], what: str, most: int = MOST_BYTES) -> Any:
    """Reads a file of JSON."""
    name = os.fspath(path)
    return parse(read_file(name, what, most), name)


@contextmanager
def of_file(path: str | None) -> Iterator[None]:
    """Adds the path to errors about a member that name no file. That something is not possible (LimitError) is an answer."""
    try:
        yield
    except (ArgumentError, CorruptError) as error:
        if path is None or error.file is not None:
            raise
        raise in_file(error, path) from error.__cause__


# Exceptions that Python raises when code meets an unfit member that no check has looked at.
_SURPRISES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@contextmanager
def unfit(what: str, path: str | None) -> Iterator[None]:
    """Makes an error of Penstock of whatever an unfit member of the file leads to. Checks come first: this is for members that
    are only shown."""
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
    """A decorator: `unfit` around a function. `of` gets the function's arguments and says what is read, and its file; None:
    nothing."""

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
    """A number, or null."""
    kinds = (int,) if whole else (int, float)

    def check(value: Any, where: str) -> None:
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not low <= value <= high):
            raise ArgumentError(f"{where} is a {'whole ' if whole else ''}number from {low:g} to {high:g}, not {_shown(value)}")

    return check


def needed(check: Check) -> Check:
    """A member that must be there."""

    def with_value(value: Any, where: str) -> None:
        if value is None:
            raise ArgumentError(f"{where} is missing")
        check(value, where)

    return with_value


def kind(types: type | tuple[type, ...], name: str) -> Check:
    """A value of these types, or null."""

    def check(value: Any, where: str) -> None:
        if value is not None and not isinstance(value, types):
            raise ArgumentError(f"{where} is {name}, not {_shown(value)}")

    return check


text = kind(str, "a text")
truth = kind(bool, "true or false")


def listed(check: Check, least: int = 0, most: int | None = None) -> Check:
    """A list, or null."""

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
    """An object with members of any name, or null."""

    def each(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{where} is an object, not {_shown(value)}")
        for name, one in value.items():
            check(one, f"{where}.{name}")

    return each


def members(checks: Mapping[str, Check]) -> Check:
    """An object with these members, and perhaps others; or null."""

    def each(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, Mapping):
            raise ArgumentError(f"{where} is an object, not {_shown(value)}")
        for name, check in checks.items():
            check(value.get(name), f"{where}.{name}" if where else name)

    return each
