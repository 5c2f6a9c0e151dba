#!/usr/bin/env python3
"""A decoder of PLI written from docs/format-pli.md alone: small, simple and slow.

    tests/golden/pli_slow.py FILE...

prints the SHA-256 of each file's pixels as (height, width, channels) samples, little-endian, and verifies every checksum. For a
JPEG kept as PLI it also restores the JPEG file and prints its SHA-256. The decoder shares no code with the library, so each
checks the other and the document. Trained constants are read from docs/format-pli-tables.txt. Any fault in a file raises
Corrupt.
"""

import hashlib
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pli_slow_jpeg
import pli_slow_jpeg_file
import pli_slow_lz
import pli_slow_wave
from pli_slow_bits import Bits, need, take_sample
from pli_slow_bits import Corrupt as Corrupt  # re-exported for programs that import this module
from xxh3 import xxh3

RAW, CONSTANT, PACKED, WAVE, LZ = range(5)
PIXELS, JPEG = 1, 2
MODEL_WAVE, MODEL_TABLES, MODEL_FRAME = 1, 2, 3
MODEL_KINDS = {PIXELS: (MODEL_WAVE,), JPEG: (MODEL_TABLES, MODEL_FRAME)}


def parse_header(data):
    """Parses and checks the 40 bytes of the header (section 1)."""
    need(len(data) >= 40, "no room for a header")
    names = ("magic", "version", "content", "channels", "bits", "width", "height", "unit_log2", "transform", "flags",
             "max_error", "model_nbytes", "tier", "effort", "zero", "pixel_checksum", "head_checksum")
    head = SimpleNamespace(**dict(zip(names, struct.unpack("<4s4B2H4BI2BH2Q", data[:40]), strict=True)))
    need(head.magic == b"\x89PLI" and head.version == 2 and head.content in (PIXELS, JPEG), "no PLI of version 2")
    need(1 <= head.channels <= 4 and head.bits in (8, 16), "channels or bits")
    need(head.width > 0 and head.height > 0 and 6 <= head.unit_log2 <= 9, "sizes")
    need(head.transform == 0 or (head.transform == 1 and head.channels >= 3), "transform")
    need(head.flags < 4 and head.zero == 0, "flags")
    if head.content == PIXELS:
        need(head.max_error <= 127 and 1 <= head.tier <= 3, "max_error or tier")
    else:
        need(head.channels in (1, 3) and head.bits == 8 and head.unit_log2 <= 8, "channels, bits or unit")
        need(head.max_error == head.tier == head.effort == 0, "max_error, tier or effort")
    head.edge = 1 << head.unit_log2
    return head


def parse_model(block, content):
    """Returns {kind: bytes of the model block of that kind}."""
    out, at, last = {}, 0, 0
    while at < len(block):
        need(at + 4 <= len(block), "a model block is cut off")
        kind, zero, nbytes = struct.unpack_from("<BBH", block, at)
        need(kind in MODEL_KINDS[content] and kind > last and zero == 0, "model block")
        out[kind], last = block[at + 4:at + 4 + nbytes], kind
        need(len(out[kind]) == nbytes, "a model block is cut off")
        at += 4 + nbytes
    need(content == PIXELS or MODEL_FRAME in out, "a frame is not there")
    return out


def parse_index(data, head):
    """Returns the bytes of each unit, with verified checksums, the number of columns of units, and the end offset of the last
    unit."""
    wide, checked = head.flags & 1, head.flags & 2
    rows, columns = -(-head.height // head.edge), -(-head.width // head.edge)
    entry = struct.Struct("<" + ("I" if wide else "H") + ("I" if checked else ""))
    at, start = 40 + head.model_nbytes, 40 + head.model_nbytes + rows * columns * entry.size
    need(start <= len(data), "the index is cut off")
    need(xxh3(data[:32] + data[40:start]) == head.head_checksum, "head checksum")
    units, offset = [], start
    for i in range(rows * columns):
        size, *checksum = entry.unpack_from(data, at + i * entry.size)
        unit = data[offset:offset + size]
        need(size > 0 and len(unit) == size, "size of a unit")
        need(not checked or xxh3(unit) & 0xFFFFFFFF == checksum[0], "checksum of a unit")
        units.append(unit)
        offset += size
    return units, columns, offset


def join_planes(planes, head):
    """Undoes the colour transform and returns the pixels of a unit's planes."""
    if head.transform == 1:
        half, mask = 1 << (head.bits - 1), (1 << head.bits) - 1
        green = planes[0]
        red = [(p + g - half) & mask for p, g in zip(planes[1], green, strict=True)]
        blue = [(p + g - half) & mask for p, g in zip(planes[2], green, strict=True)]
        planes = [red, green, blue] + planes[3:]
    return [sample for pixel in zip(*planes, strict=True) for sample in pixel]


def decode_packed(data, head, h, w):
    """Section 4."""
    need(head.edge == 64, "packed needs units of 64")
    mask = (1 << head.bits) - 1
    groups = -(-w // 8)
    records, at = [], 1
    for plane in range(head.channels):
        record, at = packed_record(data, at, head, plane, h)
        records.append(record)
    coded = [r for r in records if not r.constant]
    bits = Bits(data, at)
    widths, at = packed_widths(bits, [r.first_width for r in coded], h, groups, head.bits) if coded else ([], at)
    residuals, number = [], 0  # residuals of planes 0 and 1, which the taps of later planes need
    planes = []
    for record in records:
        if record.constant:
            planes.append([record.sample] * (h * w))
            residuals.append([[0] * (8 * groups)] * h)
            continue
        rows = []
        for _ in range(h):
            row = []
            for _ in range(groups):
                width = widths[number]
                group = int.from_bytes(data[at:at + width], "little")
                need(at + width <= len(data), "data of a packed unit are cut off")
                for k in range(8):
                    field = group >> k * width & (1 << width) - 1
                    row.append(field - (1 << width) if width and field >> (width - 1) else field)
                at, number = at + width, number + 1
            rows.append(row)
        residuals.append(rows)
        planes.append(packed_predict(record, rows, residuals, w, mask))
    need(at == len(data), "bytes after a packed unit")
    return join_planes(planes, head)


def packed_record(data, at, head, plane, h):
    """Section 4.2."""
    need(at + 2 <= len(data), "a record is cut off")
    number = struct.unpack_from("<H", data, at)[0]
    sample, at = take_sample(data, at + 2, head.bits)
    if number == 0:
        return SimpleNamespace(constant=True, sample=sample), at
    used = -(-h // 16)
    predictors = [number >> 4 * k & 15 for k in range(4)]
    need(all(1 <= p <= 5 if k < used else p == 0 for k, p in enumerate(predictors)), "predictors")
    n_taps = plane if head.transform == 1 and plane in (1, 2) else 0
    need(at + n_taps < len(data), "a record is cut off")
    taps = struct.unpack_from(f"<{n_taps}b", data, at)
    need(all(-64 <= tap <= 64 for tap in taps) and data[at + n_taps] <= head.bits, "taps or first width")
    return SimpleNamespace(constant=False, sample=sample, predictors=predictors, taps=taps,
                           first_width=data[at + n_taps]), at + n_taps + 1


def packed_widths(bits, first_widths, h, groups, most):
    """Returns the bit width of every group, and the offset of the data (section 4.3)."""
    n = len(first_widths) * h * groups
    size = [bits.take(1) for _ in range(n)]
    negative = [bits.take(1) if s else 0 for s in size]
    k = 1
    while k in size:
        k += 1
        need(k <= most + 1, "a difference of widths")
        size = [k if s == k - 1 and bits.take(1) else s for s in size]
    widths = []
    for i in range(n):
        plane, column = i // (h * groups), i % groups
        above = first_widths[plane] if i % (h * groups) < groups else widths[i - groups]
        widths.append(above + (-size[i] if negative[i] else size[i]))
        need(0 <= widths[i] <= most and column < groups, "width of a group")
    return widths, bits.end()


def packed_predict(record, rows, residuals, w, mask):
    """Section 4.5."""
    samples, above = [], None
    for y, row in enumerate(rows):
        now = []
        for x, residual in enumerate(row):
            if y == 0:
                p = now[x - 1] if x else record.sample
            else:
                p = packed_prediction(record.predictors[y // 16], above, now, x)
            t = sum(tap * residuals[i][y][x] for i, tap in enumerate(record.taps)) + 16 >> 5
            now.append((p + residual + t) & mask)
        samples += now[:w]
        above = now
    return samples


def packed_prediction(number, above, now, x):
    def smooth(i):
        ul, ur = above[max(i - 1, 0)], above[min(i + 1, len(above) - 1)]
        return ((ul + ur >> 1) + above[i] + 1) >> 1

    u = above[x]
    left, ul = (now[x - 1], above[x - 1]) if x else (u, u)
    if number == 4:
        return smooth(x)
    if number == 5:
        return left + smooth(x) - smooth(x - 1) if x else smooth(0)
    return (left, u, left + u - ul)[number - 1]


def decode_unit(data, head, tables, h, w):
    """Decodes a unit to h * w * channels samples (section 3)."""
    mode, n = data[0], h * w * head.channels
    if mode in (RAW, CONSTANT):
        n = n if mode == RAW else head.channels
        need(len(data) == 1 + n * head.bits // 8, "size of a raw or constant unit")
        samples = list(struct.unpack_from(f"<{n}{'B' if head.bits == 8 else 'H'}", data, 1))
        return samples if mode == RAW else samples * (h * w)
    if mode == PACKED:
        return decode_packed(data, head, h, w)
    if mode == WAVE:
        need(head.edge == 64, "wave needs units of 64")
        return join_planes(pli_slow_wave.decode(data, head, tables, h, w), head)
    need(mode == LZ, "mode of a unit")
    return pli_slow_lz.decode(data, head, h, w)


def decode(data):
    """Decodes the bytes of a PLI. Returns (height, width, channels, bits, samples) and the restored JPEG file or None."""
    head = parse_header(data)
    model = parse_model(data[40:40 + head.model_nbytes], head.content)
    units, columns, end = parse_index(data, head)
    jpeg = None
    if head.content == JPEG:
        frame = decode_jpeg(head, model, units, columns)
        jpeg = pli_slow_jpeg_file.restore(frame, data[end:])
        samples = pli_slow_jpeg.pixels(frame)
    else:
        need(end == len(data), "bytes after the last unit")
        samples = decode_units(head, pli_slow_wave.tables(model.get(MODEL_WAVE, b""), head.bits), units, columns)
    need(xxh3(pixel_bytes(samples, head.bits)) == head.pixel_checksum, "pixel checksum")
    return (head.height, head.width, head.channels, head.bits, samples), jpeg


def decode_jpeg(head, model, units, columns):
    """Decodes a file of content 2. Returns the frame with all coefficients."""
    frame = pli_slow_jpeg.parse_frame(model[MODEL_FRAME], head)
    tables = pli_slow_jpeg.parse_tables(model.get(MODEL_TABLES))
    for i, unit in enumerate(units):
        pli_slow_jpeg.decode_unit(unit, frame, tables, head.edge, i // columns, i % columns)
    return frame


def decode_units(head, tables, units, columns):
    """Decodes a file of content 1. Returns all samples."""
    stride = head.width * head.channels
    samples = [0] * (head.height * stride)
    for i, unit in enumerate(units):
        y0, x0 = i // columns * head.edge, i % columns * head.edge
        h, w = min(head.edge, head.height - y0), min(head.edge, head.width - x0)
        n, at = w * head.channels, y0 * stride + x0 * head.channels
        part = decode_unit(unit, head, tables, h, w)
        for y in range(h):
            samples[at + y * stride:at + y * stride + n] = part[y * n:(y + 1) * n]
    if head.max_error:
        step, most = 2 * head.max_error + 1, (1 << head.bits) - 1
        samples = [min(q * step, most) for q in samples]
    return samples


def pixel_bytes(samples, bits):
    return struct.pack(f"<{len(samples)}{'B' if bits == 8 else 'H'}", *samples)


def sha256(path):
    """Returns the SHA-256 of the pixels, followed by that of the JPEG file if there is one."""
    (*_, bits, samples), jpeg = decode(Path(path).read_bytes())
    parts = [pixel_bytes(samples, bits)] + ([jpeg] if jpeg is not None else [])
    return " ".join(hashlib.sha256(part).hexdigest() for part in parts)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(sha256(name), name)
