"""CRC-32C (Castagnoli) of bytes, by numpy: the checksum of TFRecord.

A CRC is linear. So the bytes are cut into rows of 64, whose CRCs are computed together. Two neighbouring CRCs are joined by
advancing the left one over as many zero bytes as the right one has, by a table.
"""

from __future__ import annotations

import functools

import numpy as np

POLYNOMIAL = 0x82F63B78
ROW = 64  # bytes


@functools.cache
def byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    return table


@functools.cache
def pair_table() -> np.ndarray:
    """Returns the table that advances a CRC over two bytes."""
    once = byte_table()[np.arange(1 << 16) & 255] ^ (np.arange(1 << 16, dtype=np.uint32) >> 8)
    return (byte_table()[once & 255] ^ (once >> 8)).astype(np.uint32)


def advanced(columns: np.ndarray, crcs: np.ndarray) -> np.ndarray:
    """Applies a linear map to CRCs. The map is given by its result for each bit."""
    out = np.zeros_like(crcs)
    for bit in range(32):
        out ^= np.where((crcs >> np.uint32(bit)) & 1, columns[bit], np.uint32(0))
    return out


@functools.cache
def zeros_columns(level: int) -> np.ndarray:
    """Returns the linear map that advances a CRC over ROW << level zero bytes."""
    if level:
        half = zeros_columns(level - 1)
        return advanced(half, half)
    crcs = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(ROW // 2):
        crcs = pair_table()[crcs & 0xFFFF] ^ (crcs >> 16)
    return crcs


@functools.cache
def zeros_tables(level: int) -> list[np.ndarray]:
    """Returns the same map as zeros_columns, as one table for each of the CRC's four bytes."""
    return [advanced(zeros_columns(level), np.arange(256, dtype=np.uint32) << np.uint32(8 * i)) for i in range(4)]


def crc32c(data: bytes) -> int:
    if len(data) < 4:  # too short for the start value to be mixed in
        crc = 0xFFFFFFFF
        for byte in data:
            crc = int(byte_table()[(crc ^ byte) & 255]) ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    rows = 1 << max(0, (len(data) - 1) // ROW).bit_length()
    padded = np.zeros(rows * ROW, np.uint8)  # zeros in front do not change a CRC that starts at 0
    first = len(padded) - len(data)
    padded[first:] = np.frombuffer(data, np.uint8)
    padded[first : first + 4] ^= 255  # the start value
    crcs = np.zeros(rows, np.uint32)
    for column in np.ascontiguousarray(padded.view("<u2").reshape(rows, ROW // 2).T):
        crcs = pair_table()[(crcs ^ column) & 0xFFFF] ^ (crcs >> 16)
    level = 0
    while len(crcs) > 1:
        left, right, tables = crcs[0::2], crcs[1::2], zeros_tables(level)
        crcs = right ^ tables[0][left & 255] ^ tables[1][left >> 8 & 255] ^ tables[2][left >> 16 & 255] ^ tables[3][left >> 24]
        level += 1
    return int(crcs[0]) ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """Returns the masked form of the checksum, as TFRecord stores it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
