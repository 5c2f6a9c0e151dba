"""The exceptions of Penstock: one base class, and a subclass for each kind that also has a built-in base.

``except ps.PenstockError`` catches everything; ``except FileNotFoundError`` and the like work too.
The message has all known facts, which are also attributes.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "ArgumentError",
    "BusyError",
    "CancelledError",
    "ChecksumError",
    "CorruptError",
    "DeviceError",
    "ExistsError",
    "ForkedError",
    "FunctionError",
    "IncompleteError",
    "InternalError",
    "LimitError",
    "NoSpaceError",
    "NotFoundError",
    "OutOfMemoryError",
    "PenstockError",
    "StateError",
    "StorageError",
    "TruncatedError",
    "UnsupportedError",
    "VersionError",
]

_PARTS = ("text", "dataset", "sample", "source_sample", "file", "offset", "codec", "room", "os_error")


class PenstockError(Exception):
    """Base of all errors of Penstock.

    Attributes (None where not known):
        status: name of the status, e.g. ``"PST_ERROR_CORRUPT"``.
        text: the cause alone.
        dataset: path of the data set.
        sample: number of the sample. For a :class:`Mixture`: its number in the mixture.
        source_sample: only for a mixture: the sample's number in the data set that ``dataset`` names.
        file: path of the file read or written.
        offset: byte offset in ``file``.
        codec: ``"jpeg"``, ``"png"``, ...
        room: the part of Penstock that reported the error.
        os_error: errno of the failed system call.
    """

    default_status = "PST_ERROR_INTERNAL"

    status: str
    text: str
    dataset: str | None
    sample: int | None
    source_sample: int | None
    file: str | None
    offset: int | None
    codec: str | None
    room: str | None
    os_error: int | None

    def __init__(self, message: str = "", /, status: str | None = None, **parts: Any) -> None:
        super().__init__(message)
        self.status = status or self.default_status
        for name in _PARTS:
            setattr(self, name, parts.get(name))
        if self.text is None:
            self.text = message
        if isinstance(self, OSError) and self.os_error:
            OSError.__setattr__(self, "errno", self.os_error)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # Without this method, a pickle would be rebuilt from args alone and lose the attributes.
        parts = {name: getattr(self, name) for name in _PARTS}
        return _rebuild, (type(self), str(self), self.status, parts)


class ArgumentError(PenstockError, ValueError):
    """An argument is not valid."""

    default_status = "PST_ERROR_ARGUMENT"


class FunctionError(PenstockError, RuntimeError):
    """The user's own code failed: ``Functions.sample`` or ``Functions.batch`` of a loader raised an error, or its worker process
    ended or took too long; or the user's data set that :func:`pack` reads failed.

    ``str()`` has the sample's name and the function's traceback. ``__cause__`` is the function's exception, if it could be sent
    from the worker process.
    """

    default_status = "PST_ERROR_STATE"


class OutOfMemoryError(PenstockError, MemoryError):
    """The operating system gave no memory."""

    default_status = "PST_ERROR_MEMORY"


class LimitError(PenstockError, RuntimeError):
    """The operation would exceed a limit (``host_memory``, ``max_pixels``, ``max_errors``)."""

    default_status = "PST_ERROR_LIMIT"


class StateError(PenstockError, RuntimeError):
    """The call is not possible now: closed, finished, or superseded by a newer iterator."""

    default_status = "PST_ERROR_STATE"


class NotFoundError(PenstockError, FileNotFoundError):
    """A file or data set does not exist."""

    default_status = "PST_ERROR_NOT_FOUND"


class ExistsError(PenstockError, FileExistsError):
    """A file, data set or sample name exists already."""

    default_status = "PST_ERROR_EXISTS"


class BusyError(PenstockError, OSError):
    """Another writer holds the data set."""

    default_status = "PST_ERROR_BUSY"


class StorageError(PenstockError, OSError):
    """Reading or writing failed."""

    default_status = "PST_ERROR_IO"


class NoSpaceError(PenstockError, OSError):
    """The disk is full."""

    default_status = "PST_ERROR_NO_SPACE"


class CorruptError(PenstockError, ValueError):
    """Stored data is damaged or invalid."""

    default_status = "PST_ERROR_CORRUPT"


class TruncatedError(CorruptError):
    """Stored data ends too early."""

    default_status = "PST_ERROR_TRUNCATED"


class ChecksumError(CorruptError):
    """Stored data was altered: its checksum does not match."""

    default_status = "PST_ERROR_CHECKSUM"


class VersionError(PenstockError, ValueError):
    """The data set was written by a newer version of Penstock."""

    default_status = "PST_ERROR_VERSION"


class UnsupportedError(PenstockError, NotImplementedError):
    """This build or release does not support the operation."""

    default_status = "PST_ERROR_UNSUPPORTED"


class IncompleteError(PenstockError, RuntimeError):
    """The data set is unfinished; its writer can be resumed."""

    default_status = "PST_ERROR_INCOMPLETE"


class CancelledError(PenstockError, RuntimeError):
    """A callback stopped the operation."""

    default_status = "PST_ERROR_CANCELLED"


class ForkedError(PenstockError, RuntimeError):
    """A handle of the parent process was used in a forked child."""

    default_status = "PST_ERROR_FORKED"


class InternalError(PenstockError, RuntimeError):
    """A bug in Penstock: please report it."""


class DeviceError(PenstockError, RuntimeError):
    """The accelerator or its driver failed. The message has the driver's name for the error."""

    default_status = "PST_ERROR_DEVICE"


_KINDS: dict[str, type[PenstockError]] = {
    kind.default_status: kind
    for kind in (
        ArgumentError,
        OutOfMemoryError,
        LimitError,
        StateError,
        NotFoundError,
        ExistsError,
        BusyError,
        StorageError,
        NoSpaceError,
        CorruptError,
        TruncatedError,
        ChecksumError,
        VersionError,
        UnsupportedError,
        IncompleteError,
        CancelledError,
        ForkedError,
        InternalError,
        DeviceError,
    )
}


def _rebuild(
    kind: type[PenstockError], message: str, status: str, parts: dict[str, Any]
) -> PenstockError:
    return kind(message, status=status, **parts)


def in_file(error: PenstockError, path: str) -> PenstockError:
    """Returns the error with the file's path added, if it names no file yet."""
    if error.file is not None:
        return error
    parts = {name: getattr(error, name) for name in _PARTS}
    return type(error)(f"file {path!r}: {error}", status=error.status, **{**parts, "file": path})


def in_field(error: PenstockError, field: str) -> PenstockError:
    """Returns the error with the name of a field put before its message."""
    parts = {name: getattr(error, name) for name in _PARTS}
    return type(error)(f"field {field!r}: {error}", status=error.status, **parts)


def in_sample(error: PenstockError, sample: int | str) -> PenstockError:
    """Returns the error with a sample's number or name put before its message. A number also becomes the error's attribute
    `sample`."""
    parts = {name: getattr(error, name) for name in _PARTS}
    if isinstance(sample, int):
        parts["sample"] = sample
    return type(error)(f"sample {sample!r}: {error}", status=error.status, **parts)


def from_parts(parts: dict[str, Any]) -> PenstockError:
    """Returns the exception for an error of the C library (called by the extension module)."""
    kind = _KINDS.get(parts["status"], InternalError)
    known = {name: parts.get(name) for name in _PARTS}
    return kind(parts["message"], status=parts["status"], **known)
