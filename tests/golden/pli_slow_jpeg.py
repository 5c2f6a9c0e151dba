"""Content 2 of the slow PLI decoder (docs/format-pli.md, sections 7 to 9): JPEG coefficients, and the pixels made from them."""

import struct
from types import SimpleNamespace

from pli_slow_bits import Bits, need
from pli_slow_lz import take_number
from pli_slow_tables import read_tables, slots
from pli_slow_wave import own_table

COEFFICIENTS, LANES, M = 5, 32, 4096
END_LOWEST = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 52)
END_BITS = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4)
AC_LOWEST = (0, 1, 2, 3, 5, 9, 17, 33)
G = (0, 1, 2, 4, 7, 12, 20, 32)
ESCAPE = 7


def make_zigzag():
    """Returns the (column, row) of each zigzag number."""
    order = sorted(((u, v) for u in range(8) for v in range(8)),
                   key=lambda p: (p[0] + p[1], p[0] if (p[0] + p[1]) % 2 == 0 else p[1]))
    return order


ZIGZAG = make_zigzag()
NUMBER = {place: k for k, place in enumerate(ZIGZAG)}


def features(k):
    """Returns the zigzag numbers of the six earlier coefficients that form the context; 0 (DC) for those that do not exist."""
    u, v = ZIGZAG[k]
    near = ((u - 1, v), (u, v - 1), (u - 2, v), (u, v - 2))
    return [max(k - 1, 0), max(k - 2, 0)] + [NUMBER.get(place, 0) for place in near]


FEATURES = [features(k) for k in range(64)]


def parse_frame(block, head):
    """Section 7."""
    at, n = 2, head.channels
    need(len(block) >= 2 + 2 * n, "the frame is cut off")
    need(block[0] == 1 and 1 <= block[1] <= 8, "model or orientation")
    frame = SimpleNamespace(width=head.width, height=head.height, transform=head.transform, components=[])
    for c in range(n):
        factors, quant = block[at], block[at + 1]
        frame.components.append(SimpleNamespace(h=factors >> 4, v=factors & 15, quant=quant,
                                                side=1 if head.transform == 1 and c > 0 else 0))
        need(quant <= 3, "number of a quantisation table")
        at += 2
    tables = {}
    for quant in sorted({c.quant for c in frame.components}):
        need(at < len(block) and block[at] < 2, "a quantisation table")
        layout = struct.Struct("<64H" if block[at] else "<64B")
        need(at + 1 + layout.size <= len(block), "a quantisation table is cut off")
        tables[quant] = layout.unpack_from(block, at + 1)
        need(min(tables[quant]) > 0, "a quantisation value")
        at += 1 + layout.size
    need(at + 20 == len(block), "length of the frame")
    frame.jpeg_nbytes, frame.jpeg_checksum, frame.restoration_nbytes, frame.restoration_checksum = struct.unpack_from(
        "<IQII", block, at)
    most = 64 * frame.restoration_nbytes + 4 * head.width * head.height * n + 65536
    need(frame.jpeg_nbytes <= most, "length of the JPEG file")
    measure(frame, tables)
    return frame


def measure(frame, tables):
    """Computes how many blocks and samples the components have."""
    components = frame.components
    frame.h, frame.v = max(c.h for c in components), max(c.v for c in components)
    for c in components:
        need(all(f in (1, 2, 4) for f in (c.h, c.v)) and frame.h % c.h == 0 and frame.v % c.v == 0, "sampling factors")
        c.columns, c.rows = c.h * -(-frame.width // (8 * frame.h)), c.v * -(-frame.height // (8 * frame.v))
        c.width, c.height = -(-frame.width * c.h // frame.h), -(-frame.height * c.v // frame.v)
        c.quants = tables[c.quant]
        c.blocks = {}  # (row, column) -> 64 coefficients in zigzag order
    need(len(components) > 1 or (frame.h, frame.v) == (1, 1), "sampling factors of one component")


def parse_tables(block):
    """Returns the built-in tables, replaced by those that model block 2 contains (sections 8.6 and 8.7)."""
    stored = read_tables()
    names = ["jpeg_ac"] * 32 + ["jpeg_ends"] * 32 + ["jpeg_dc"] * 32
    rows = [row[2:] for name in ("jpeg_ac", "jpeg_ends", "jpeg_dc") for row in stored[name]]
    if block is not None:
        field = Bits(block)
        for i, name in enumerate(names):
            if field.take(1):
                rows[i] = own_table(field, {"jpeg_ac": 8, "jpeg_ends": 16, "jpeg_dc": 14}[name], M)
        need(field.end() == len(block), "bytes after the tables")
    rows = [slots(row) for row in rows]
    weights = {(row[0], row[1]): (row[2:8], row[8]) for row in stored["jpeg_weights"]}
    return SimpleNamespace(ac=rows[:32], ends=(rows[32:48], rows[48:64]), dc=(rows[64:80], rows[80:96]), weights=weights,
                           limits=stored["jpeg_limits"][0])


class Square:
    """A square of up to 8 x 8 blocks of a component, with its blocks by position."""

    def __init__(self, component, row, column, rows, columns):
        self.component, self.side = component, component.side
        self.row, self.column, self.rows, self.columns = row, column, rows, columns
        self.positions = [8 * y + x for y in range(rows) for x in range(columns)]
        self.kinds, self.ends, self.blocks = {}, {}, {p: [0] * 64 for p in self.positions}

    def has(self, y, x):
        return 0 <= y < self.rows and 0 <= x < self.columns


def squares_of(frame, edge, unit_row, unit_column):
    """Returns the squares of a unit in order (section 8)."""
    out = []
    for c in frame.components:
        high, wide = edge // 8 * c.v // frame.v, edge // 8 * c.h // frame.h
        y1, x1 = min((unit_row + 1) * high, c.rows), min((unit_column + 1) * wide, c.columns)
        for y in range(unit_row * high, y1, 8):
            for x in range(unit_column * wide, x1, 8):
                out.append(Square(c, y, x, min(8, y1 - y), min(8, x1 - x)))
    return out


class States:
    """The 32 rANS states of a unit, the words that refill them, and the raw bits (section 8.1)."""

    def __init__(self, data):
        raw_nbytes, at = take_number(data, 1)
        words_at = at + 80 + raw_nbytes
        need(words_at <= len(data) and (len(data) - words_at) % 2 == 0, "raw bytes")
        exponents = Bits(data, at, at + 16)
        low = struct.unpack_from("<32H", data, at + 16)
        self.raw = Bits(data, at + 80, words_at)
        sizes = [exponents.take(4) for _ in range(LANES)]
        self.x = [((1 << e) + self.raw.take(e) << 16) + half for e, half in zip(sizes, low, strict=True)]
        self.raw.end()
        self.words = [word for word, in struct.iter_unpack("<H", data[words_at:])][::-1]

    def token(self, lane, table):
        x = self.x[lane]
        token, f, start = table[x % M]
        x = f * (x // M) + x % M - start
        if x < 65536:
            need(self.words, "words run out")
            x = x << 16 | self.words.pop()
        self.x[lane] = x
        return token

    def finish(self):
        """Checks the states after the last token, and appends their low halves, which are raw bits, too."""
        need(not self.words and all(x >> 16 == 1 for x in self.x), "states at the end")
        raw = self.raw
        raw.data = raw.data[:raw.stop // 8] + struct.pack("<32H", *(x & 0xFFFF for x in self.x))
        raw.stop += 8 * 64


def take_planes(raw, sizes):
    """Takes numbers of the given bit sizes from the raw bits: bit 0 of all numbers that have one, then bit 1, and so on."""
    values = [0] * len(sizes)
    for bit in range(max(sizes, default=0)):
        for i, size in enumerate(sizes):
            if size > bit:
                values[i] |= raw.take(1) << bit
    return values


def end_context(square, p):
    """Returns the context for the end of an odd block (section 8.2)."""
    y, x = divmod(p, 8)

    def pair(a, b):
        there = [8 * i + j for i, j in (a, b) if square.has(i, j)]
        return there if len(there) == 2 else there * 2

    sideways, upright = pair((y, x - 1), (y, x + 1)), pair((y - 1, x), (y + 1, x))
    near = (sideways or upright) + (upright or sideways)
    return min(14, sum(square.kinds[q] for q in near) + 2 >> 2)


def decode_ends(states, squares, tables):
    for square in squares:
        for parity in (0, 1):
            places = [p for p in range(64) if (p // 8 + p % 8) % 2 == parity]
            for lane, p in enumerate(places):
                if p in square.blocks:
                    context = end_context(square, p) if parity else 15
                    square.kinds[p] = states.token(lane, tables.ends[square.side][context])
    for square in squares:
        kinds = [square.kinds[p] for p in square.positions]
        rest = take_planes(states.raw, [END_BITS[t] for t in kinds])
        square.ends = {p: END_LOWEST[t] + r for p, t, r in zip(square.positions, kinds, rest, strict=True)}
        need(max(square.ends.values()) <= 63, "end of a block")


def decode_dc_tokens(states, squares, tables):
    """Decodes the DC tokens of each square, by ascending position (section 8.3)."""
    return [[states.token(p % 32, tables.dc[square.side][square.kinds[p]]) for p in square.positions] for square in squares]


def decode_dc_bits(raw, squares, tokens_of):
    for square, tokens in zip(squares, tokens_of, strict=True):
        signs = [raw.take(1) if t else 0 for t in tokens]
        rest = take_planes(raw, [max(t - 2, 0) for t in tokens])
        for p, t, sign, r in zip(square.positions, tokens, signs, rest, strict=True):
            d = t if t < 3 else (1 << t - 2) + 1 + r
            before = square.blocks[p - 1][0] if p % 8 else square.blocks[p - 8][0] if p else 0
            value = before + (-d if sign else d)
            square.blocks[p][0] = (value + 32768 & 65535) - 32768


def ac_context(tables, side, k, tokens, end):
    """Returns the context of an AC coefficient (section 8.4). `tokens`: the block's tokens by zigzag number; DC counts as 0."""
    weights, bias = tables.weights[side, k]
    total = bias + sum(w * G[tokens[i]] for w, i in zip(weights, FEATURES[k], strict=True))
    x = min(max(total >> 1, 0), 127)
    left = end - k
    distance = 0 if left == 0 else 1 if left <= 2 else 2 if left <= 6 else 3
    return 8 * distance + sum(limit <= x for limit in tables.limits)


def decode_ac_tokens(states, squares, tables):
    """Decodes the AC tokens. Returns the list of blocks, each with its tokens (section 8.4)."""
    blocks = [SimpleNamespace(end=square.ends[p], side=square.side, tokens=[0] * 64, values=square.blocks[p])
              for square in squares for p in square.positions]
    blocks.sort(key=lambda block: -block.end)  # stable
    for k in range(1, 64):
        for i, block in enumerate(blocks):
            if block.end < k:
                break
            table = tables.ac[ac_context(tables, block.side, k, block.tokens, block.end)]
            block.tokens[k] = states.token(i % LANES, table)
    return blocks


def decode_ac_bits(raw, blocks):
    """Section 8.5."""
    for k in range(1, 64):
        all_k = [block for block in blocks if block.end >= k]
        for first in range(0, len(all_k), 64):
            group = all_k[first:first + 64]
            tokens = [block.tokens[k] for block in group]
            signs = [raw.take(1) if t else 0 for t in tokens]
            kinds = [0] * len(group)
            goes_on = [i for i, t in enumerate(tokens) if t == ESCAPE]
            for _ in range(5):
                goes_on = [i for i in goes_on if raw.take(1)]
                for i in goes_on:
                    kinds[i] += 1
            rest = take_planes(raw, [5 + kind if t == ESCAPE else max(t - 2, 0) for t, kind in zip(tokens, kinds, strict=True)])
            for block, t, sign, kind, r in zip(group, tokens, signs, kinds, rest, strict=True):
                m = r + (AC_LOWEST[t] if t < ESCAPE else 1 + (32 << kind))
                block.values[k] = -m if sign else m


def decode_unit(data, frame, tables, edge, row, column):
    """Decodes the coefficients of a unit into the blocks of its components."""
    need(data[0] == COEFFICIENTS, "mode of a unit")
    squares = squares_of(frame, edge, row, column)
    states = States(data)
    decode_ends(states, squares, tables)
    dc_tokens = decode_dc_tokens(states, squares, tables)
    blocks = decode_ac_tokens(states, squares, tables)
    states.finish()
    decode_dc_bits(states.raw, squares, dc_tokens)
    decode_ac_bits(states.raw, blocks)
    for square in squares:
        for p, block in square.blocks.items():
            square.component.blocks[square.row + p // 8, square.column + p % 8] = block


def signed(v, bits):
    half = 1 << (bits - 1)
    return (v + half & 2 * half - 1) - half


def transform_8(i, shift, low, high):
    """Transforms eight values back (inverse DCT, section 9), with rounding, shift and clamping."""
    t0, t1 = 8192 * (i[0] + i[4]), 8192 * (i[0] - i[4])
    t2, t3 = 4433 * i[2] - 10704 * i[6], 10703 * i[2] + 4433 * i[6]
    a = (t0 + t3, t1 + t2, t1 - t2, t0 - t3)
    b = (11363 * i[1] + 9633 * i[3] + 6437 * i[5] + 2260 * i[7], 9633 * i[1] - 2259 * i[3] - 11362 * i[5] - 6436 * i[7],
         6437 * i[1] - 11362 * i[3] + 2261 * i[5] + 9633 * i[7], 2260 * i[1] - 6436 * i[3] + 9633 * i[5] - 11363 * i[7])
    sums = [p + q for p, q in zip(a, b, strict=True)] + [p - q for p, q in zip(a[::-1], b[::-1], strict=True)]
    return [min(max(signed(s + (1 << shift - 1), 32) >> shift, low), high) for s in sums]


def samples_of_block(block, quants):
    """Returns the 8 rows of 8 samples of a block."""
    columns = [[0] * 8 for _ in range(8)]
    for k, (u, v) in enumerate(ZIGZAG):
        columns[u][v] = signed(block[k] * quants[k], 16)
    columns = [transform_8(column, 11, -32768, 32767) for column in columns]
    return [[s + 128 for s in transform_8(row, 18, -128, 127)] for row in zip(*columns, strict=True)]


def samples_of(component):
    """Returns the samples of a component, row by row."""
    rows = [[0] * (8 * component.columns) for _ in range(8 * component.rows)]
    for (y, x), block in component.blocks.items():
        for i, row in enumerate(samples_of_block(block, component.quants)):
            rows[8 * y + i][8 * x:8 * x + 8] = row
    return [row[:component.width] for row in rows[:component.height]]


def upsample_row(q, x, ones):
    """Widens a row x times: by fancy upsampling if x is 2, otherwise by repetition. `ones`: (shift, rounding left, rounding
    right) of the sums."""
    if x == 1:
        return q
    shift, left, right = ones
    out = []
    for i, v in enumerate(q):
        out.append(3 * v + q[max(i - 1, 0)] + left >> shift)
        out.append(3 * v + q[min(i + 1, len(q) - 1)] + right >> shift)
    return out


def upsample(rows, x, y):
    """Upsamples a component to the size of the whole picture (section 9)."""
    if x == 1 and y == 1:
        return rows
    narrow = len(rows[0]) <= 2
    if (x, y) == (2, 1) and not narrow:
        return [upsample_row(row, 2, (2, 1, 2)) for row in rows]
    if y == 2 and (x == 1 or x == 2 and not narrow):
        out = []
        for r, row in enumerate(rows):
            for other, rounding in ((rows[max(r - 1, 0)], 1), (rows[min(r + 1, len(rows) - 1)], 2)):
                q = [3 * a + b for a, b in zip(row, other, strict=True)]
                out.append(upsample_row(q, 2, (4, 8, 7)) if x == 2 else [v + rounding >> 2 for v in q])
        return out
    return [[v for v in row for _ in range(x)] for row in rows for _ in range(y)]


def clamp(v):
    return min(max(v, 0), 255)


def color(luma, cb, cr):
    b, r = cb - 128, cr - 128
    return (clamp(luma + (91881 * r + 32768 >> 16)), clamp(luma + (-22554 * b - 46802 * r + 32768 >> 16)),
            clamp(luma + (116130 * b + 32768 >> 16)))


def pixels(frame):
    """Returns all samples as (height, width, channels)."""
    planes = []
    for c in frame.components:
        planes.append(upsample(samples_of(c), frame.h // c.h, frame.v // c.v))
    out = []
    for y in range(frame.height):
        row = zip(*(plane[y][:frame.width] for plane in planes), strict=True)
        for pixel in row:
            out += color(*pixel) if frame.transform == 1 else pixel
    return out
