"""Shared code of the slow PLI decoder: a reader of bits (LSB first), samples, and the only exception."""

import struct


class Corrupt(Exception):
    """Raised if the bytes are no PLI as docs/format-pli.md defines it."""


def need(condition, what):
    if not condition:
        raise Corrupt(what)


def take_sample(data, at, bits):
    need(at + bits // 8 <= len(data), "a sample is cut off")
    return struct.unpack_from("<B" if bits == 8 else "<H", data, at)[0], at + bits // 8


class Bits:
    """Reads the bits of data[at:end], LSB first."""

    def __init__(self, data, at=0, end=None):
        self.data, self.at = data, 8 * at
        self.stop = 8 * (len(data) if end is None else end)

    def take(self, n):
        need(self.at + n <= self.stop, "bits run out")
        first = self.at // 8
        window = int.from_bytes(self.data[first:(self.at + n + 7) // 8], "little")
        value = window >> (self.at & 7) & (1 << n) - 1
        self.at += n
        return value

    def end(self):
        """Returns the offset after the byte of the last bit taken. Padding bits are not checked."""
        self.at = -(-self.at // 8) * 8
        return self.at // 8
