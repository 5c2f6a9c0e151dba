"""Shared memory between a loader and its worker processes, and the values that are stored in it.

A block is an anonymous file (memfd_create). It has no name in /dev/shm, so nothing is left behind if a process is killed. Arrays
are copied to and from the block and never pickled. A message is a pickle in which each array is replaced by its offset in the
block. The message lies in the block, too, so that pipes carry only a few numbers and never fill up.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import LimitError

_ALIGNMENT = 64
_BFLOAT16 = "bfloat16"  # numpy has no bfloat16, so the bits are stored as int16


class Stored(NamedTuple):
    """An array in a block. `axes` is the order of the axes in memory, from which the original order is restored."""

    offset: int
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]
    is_torch: bool


class Account:
    """Counts the bytes of all blocks against a limit. It holds no reference to the pool, so the pool's finalizer may hold the
    account."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0  # bytes of all blocks
        self.reserved = 0  # bytes that tasks under way may add to their blocks
        self.short = 0  # bytes that were missing when a request was last refused

    def free(self) -> int:
        return max(0, self.limit - self.nbytes - self.reserved)

    def charge(self, nbytes: int) -> None:
        if nbytes > self.free():
            self.short = nbytes - self.free()
            raise LimitError(
                f"batches of Functions.workers would lie in {self.nbytes + self.reserved + nbytes} bytes of shared memory, more "
                f"than host_memory ({self.limit}): release some, or raise it"
            )
        self.nbytes += nbytes


class Block:
    """An anonymous file, of this or another process, that is mapped into memory."""

    def __init__(self, fd: int, charge: Callable[[int], None] | None = None) -> None:
        self.fd, self._charge = fd, charge  # charge: called before the file grows; if it raises an error, the file stays as it is
        self.memory = mmap.mmap(-1, 1)
        self.nbytes = 0
        self.size = 0  # size of the file when it was last counted

    @classmethod
    def new(cls, charge: Callable[[int], None]) -> Block:
        return cls(os.memfd_create("penstock-function", os.MFD_CLOEXEC), charge)

    def reach(self, nbytes: int) -> None:
        """Maps at least `nbytes` bytes and extends the file if it is shorter. Arrays over an older mapping stay valid."""
        size = os.fstat(self.fd).st_size  # the loader's process may have emptied the file
        if nbytes <= min(self.nbytes, size):
            return
        total = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if size < total:
            if self._charge is not None:
                self._charge(total - size)
            os.ftruncate(self.fd, total)
            self.size = total
        self.memory = mmap.mmap(self.fd, total)
        self.nbytes = total

    def growth(self) -> int:
        """Returns the bytes that another process has added to the file since the last count."""
        before, self.size = self.size, os.fstat(self.fd).st_size
        return self.size - before

    def empty(self) -> int:
        """Frees the memory of the file and returns its former bytes. No array in the block may be in use."""
        before, self.size, self.nbytes = self.size, 0, 0
        self.memory = mmap.mmap(-1, 1)
        os.ftruncate(self.fd, 0)
        return before

    def close(self) -> None:
        fd, self.fd = self.fd, -1  # set before close(): an exception between must not close it twice
        if fd >= 0:
            os.close(fd)


def _bits(array: Any) -> tuple[Any, str, bool]:
    """Returns an array as numpy array, the name of its dtype, and whether it was a tensor."""
    import numpy as np

    if isinstance(array, np.ndarray):
        return array, array.dtype.str, False
    import torch

    tensor = array.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy(), _BFLOAT16, True
    found = tensor.numpy()
    return found, found.dtype.str, True


def _is_array(value: Any) -> bool:
    import numpy as np

    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    kind = type(value)
    return kind.__module__.partition(".")[0] == "torch" and hasattr(value, "detach") and not value.is_sparse


def _address(memory: mmap.mmap) -> int:
    import numpy as np

    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])


class _Placing:
    """Assigns offsets after `start` to the arrays of a value. Arrays that already lie in the block before `start` stay there."""

    def __init__(self, block: Block, start: int) -> None:
        self.end = start
        self._base, self._n_here = _address(block.memory), start
        self.copies: list[tuple[Stored, Any]] = []

    def put(self, array: Any) -> Stored:
        bits, dtype, is_torch = _bits(array)
        axes = tuple(sorted(range(bits.ndim), key=lambda i: -abs(bits.strides[i])))  # stable: keeps the axes of arrays in C order
        packed = bits.transpose(axes)
        at = packed.__array_interface__["data"][0] - self._base
        if packed.flags.c_contiguous and 0 <= at and at + packed.nbytes <= self._n_here:
            return Stored(at, packed.shape, dtype, axes, is_torch)
        offset = -(-self.end // _ALIGNMENT) * _ALIGNMENT
        self.end = offset + packed.nbytes
        stored = Stored(offset, packed.shape, dtype, axes, is_torch)
        self.copies.append((stored, packed))
        return stored


def _replaced(value: Any, wanted: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Returns a copy of a value in which some parts are replaced, in dicts, lists and tuples of any depth."""
    if wanted(value):
        return change(value)
    if isinstance(value, dict):
        return {key: _replaced(part, wanted, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, wanted, change) for part in value]
    if isinstance(value, tuple):
        parts = [_replaced(part, wanted, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def write(block: Block, value: Any, start: int = 0) -> tuple[int, int]:
    """Writes a value to a block after `start`. Returns where its message begins and ends. Errors of pickle pass through."""
    import numpy as np

    placing = _Placing(block, start)
    message = pickle.dumps(_replaced(value, _is_array, placing.put), pickle.HIGHEST_PROTOCOL)
    end = placing.end + len(message)
    block.reach(end)
    for stored, packed in placing.copies:
        to = np.frombuffer(block.memory, packed.dtype, packed.size, stored.offset)
        to.reshape(packed.shape)[...] = packed
    block.memory[placing.end : end] = message
    return placing.end, end


def read(block: Block, begin: int, end: int, holder: Any = None) -> Any:
    """Reads the value of a message. Its arrays lie in the block and hold a reference to `holder`, a buffer over the block."""
    import numpy as np

    block.reach(end)
    buffer = block.memory if holder is None else holder

    def find(stored: Stored) -> Any:
        is_bfloat16 = stored.dtype == _BFLOAT16
        dtype = np.dtype(np.int16 if is_bfloat16 else stored.dtype)
        size = int(np.prod(stored.shape, dtype=np.int64))
        flat = np.frombuffer(buffer, dtype, size, stored.offset) if size else np.empty(0, dtype)
        array = flat.reshape(stored.shape).transpose(np.argsort(stored.axes)) if stored.shape else flat.reshape(())
        if not stored.is_torch:
            return array
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if is_bfloat16 else tensor

    message = pickle.loads(block.memory[begin:end])
    return _replaced(message, lambda value: isinstance(value, Stored), find)
