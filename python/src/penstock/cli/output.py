"""Writes what the Python commands print on stdout and stderr: results, errors as text or JSON, and progress."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import unicodedata
from collections.abc import Iterator
from typing import Any

from ..errors import ArgumentError, CancelledError, PenstockError

OK, FAILED, USAGE, INTERRUPTED, PIPE = 0, 1, 2, 130, 141
_PARTS = ("status", "text", "room", "dataset", "sample", "file", "offset", "codec", "os_error")


def shown(text: str) -> str:
    """Escapes the characters that are not printable, such as terminal control codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            break
        nbytes /= 1024
    return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"


def columns(fd: int, otherwise: int) -> int:
    """Returns the width of the terminal in columns, else the variable COLUMNS, else `otherwise`."""
    with contextlib.suppress(OSError):
        if found := os.get_terminal_size(fd).columns:
            return found
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:6]) <= 10000 else otherwise


def fitted(text: str, width: int) -> str:
    """Cuts a text to at most `width` columns of a terminal."""
    used = 0
    for i, c in enumerate(text):
        if unicodedata.category(c) not in ("Mn", "Me", "Cf"):
            used += 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1
        if used > width:
            return text[:i]
    return text


def may_write(verb: str, path: str, force: bool, as_json: bool, option: str = "--force") -> None:
    """Asks whether an existing file may be overwritten, unless `force`.

    option: name of the option that overwrites without asking, for the error's text. CancelledError: the user said no.
    ArgumentError: there is no terminal to ask on.
    """
    if path == "-" or force or not os.path.isfile(path):
        return
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ArgumentError(f"{path} is there already, and there is no terminal to ask on: {option} writes over it", file=path)
    print(f"penstock {verb}: {shown(path)} is there already: write over it? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    if answer.strip().lower() not in ("y", "yes"):
        raise CancelledError(f"{path}: nothing was written")


class Meter:
    """Prints lines of progress from time to time. On a terminal each line overwrites the last one and is cut to the terminal's
    width."""

    def __init__(self, quiet: bool) -> None:
        self._is_bar = sys.stderr.isatty()
        self._quiet = quiet or os.environ.get("PENSTOCK_DISABLE_PROGRESS_BARS") == "1"
        self._every = 0.2 if self._is_bar else float(os.environ.get("PENSTOCK_PROGRESS_SECONDS") or 30)
        self._next = time.monotonic() + self._every

    def show(self, line: str) -> None:
        """Prints the line, unless the last one was printed too recently."""
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        if self._is_bar:
            # The last column stays empty, because some terminals begin a new line after it.
            line = f"\r{fitted(line, columns(2, 80) - 1)}\033[K"
        print(line, end="" if self._is_bar else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clears the line of progress on a terminal."""
        if self._is_bar and not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_result(result: str | bytes, status: int = OK) -> int:
    """Writes the result of a command to stdout: a text, or the bytes of a file. Returns `status`, or the exit status for a stdout
    that cannot be written."""
    try:
        if isinstance(result, bytes):
            sys.stdout.buffer.write(result)
            sys.stdout.buffer.flush()
        else:
            print(result.rstrip("\n"), flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes stdout again when it ends
        if isinstance(error, BrokenPipeError):
            return PIPE
        print(f"penstock: writing to stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    return status


def parts(error: PenstockError | dict[str, Any]) -> dict[str, Any]:
    """Converts an error, or a dict of its attributes, to the dict that all commands print as JSON."""
    found = {part: error.get(part) if isinstance(error, dict) else getattr(error, part) for part in _PARTS}
    found["status"] = str(found["status"]).removeprefix("PST_ERROR_")
    if found["os_error"] is not None:
        found["os_error"] = os.strerror(found["os_error"])
    return found


def failed(verb: str, error: BaseException, status: str, as_json: bool, exit_status: int) -> int:
    """Reports a failure on stderr, and with --json on stdout, too. Returns the exit status."""
    text, notes = _reason(error), getattr(error, "__notes__", [])
    if as_json:
        known = {part: getattr(error, part, None) for part in _PARTS}
        known["os_error"] = known["os_error"] or getattr(error, "errno", None)
        known["file"] = known["file"] or getattr(error, "filename", None)
        print(json.dumps({"error": {**parts(known), "status": status.removeprefix("PST_ERROR_"), "text": text, "notes": notes}}))
    for line in (text, *notes):
        print(_head(verb), "\n".join(map(shown, line.splitlines())), file=sys.stderr)
    return exit_status


def bad_sample(verb: str, error: PenstockError) -> None:
    """Reports on stderr a bad sample that is left out."""
    print(f"{_head(verb, 'bad sample:')} {shown(str(error))}", file=sys.stderr)


def _head(verb: str, more: str = "") -> str:
    head = f"penstock {verb}:{' ' * bool(more)}{more}"
    plain = not sys.stderr.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    return head if plain else f"\033[31m{head}\033[0m"


def _reason(error: BaseException) -> str:
    """Returns the text of an error. An error of the operating system is "FILE: reason"."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, PenstockError):
        return str(error)
    if isinstance(error, OSError):
        return str(error) if error.filename is None else f"{os.fspath(error.filename)}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def only_results() -> Iterator[None]:
    """Redirects stdout to stderr for a while, so that prints of the user's code and of libraries do not mix with the result."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
