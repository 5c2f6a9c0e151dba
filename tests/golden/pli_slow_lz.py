"""Mode lz of the slow PLI decoder (docs/format-pli.md, section 6)."""

import struct
from itertools import islice
from types import SimpleNamespace

from pli_slow_bits import Bits, need
from pli_slow_tables import read_tables, slots

N_RUNS, N_OFFSETS, N_LENGTHS = 44, 57, 92
NEAR = ((0, -1), (0, -2), (0, -3), (0, -4), (1, 0), (1, -1), (1, 1), (1, -2), (1, 2), (1, -3), (1, 3), (1, -4), (1, 4), (2, 0),
        (2, -1), (2, 1), (2, -2), (2, 2), (3, 0))
BUILT_IN = read_tables()


class Lanes:
    """The rANS states of all lanes, and the words that they share."""

    def __init__(self, states, words):
        self.states, self.words = states, words[::-1]

    def symbol(self, lane, table):
        x = self.states[lane]
        symbol, f, start = table[x % len(table)]
        x = f * (x // len(table)) + x % len(table) - start
        if x < 65536:
            need(self.words, "words run out")
            x = x << 16 | self.words.pop()
        self.states[lane] = x
        return symbol

    def shared(self, n):
        """Yields for each step the list of (lane, index) that divides n things among the lanes."""
        k = len(self.states)
        p = -(-n // k)
        for t in range(p):
            yield [(lane, lane * p + t) for lane in range(k) if lane * p + t < min(n, (lane + 1) * p)]


def take_number(data, at):
    value = 0
    for i in range(4):
        need(at < len(data), "a number is cut off")
        value |= (data[at] & 127) << 7 * i
        at += 1
        if data[at - 1] < 128:
            return value, at
    need(False, "a number of more than 4 bytes")


def read_head(data, head, h, w):
    """Reads the head of a unit up to the states (section 6.1)."""
    need(len(data) > 1 and data[1] < 32 and data[1] & 7 <= 5, "form")
    u = SimpleNamespace(n=h * w, width=w, p=head.channels * head.bits // 8, lanes=1 << (data[1] & 7), green=data[1] >> 3 & 1,
                        set=data[1] >> 4)
    need(not u.green or head.channels >= 3, "green")
    u.n_sequences, at = take_number(data, 2)
    u.n_literals, at = take_number(data, at)
    u.n_colours, at = take_number(data, at)
    u.n_escapes, at = take_number(data, at) if u.n_colours else (u.n_literals, at)
    u.raw_nbytes, at = take_number(data, at)
    u.tables_nbytes, at = take_number(data, at)
    need(u.n_sequences <= 16384 and u.n_literals <= u.n and u.n_colours <= 255 and u.n_escapes <= u.n_literals, "counts")
    need(not u.n_colours or u.n_literals * (u.p + 1) <= u.n * u.p, "too many literals with colours")
    return u, at


def read_tables_of(bits, n_contexts, n_symbols, total, built_in):
    """Reads the tables of one kind of symbol (section 6.3)."""
    tables = []
    for context in range(n_contexts):
        how = bits.take(2)
        need(how < 2 or (how == 2 and context > 0), "how a table is told")
        if how == 2:
            tables.append(tables[-1])
        else:
            tables.append(slots(described(bits, n_symbols, total) if how else built_in[context]))
    return tables


def described(bits, n_symbols, total):
    freqs = []
    while sum(freqs) < total:
        w = bits.take(4)
        freqs += [(1 << (w - 1)) + bits.take(w - 1)] if w else [0] * (bits.take(3) + 1)
        need(len(freqs) <= n_symbols, "symbols of a table")
    need(sum(freqs) == total, "sum of a table")
    return freqs


def even(n_symbols, total):
    return [total // n_symbols + (i < total % n_symbols) for i in range(n_symbols)]


def own_set(name, which):
    return [row[2:] for row in BUILT_IN[name] if row[0] == which]


def decode(data, head, h, w):
    """Decodes a unit to h * w * channels samples."""
    u, at = read_head(data, head, h, w)
    tables_at = at + 4 * u.lanes
    raw_at = tables_at + u.tables_nbytes
    words_at = raw_at + u.raw_nbytes
    need(words_at <= len(data) and (len(data) - words_at) % 2 == 0, "parts are cut off")
    states = list(struct.unpack_from(f"<{u.lanes}I", data, at))
    lanes = Lanes(states, [word for word, in struct.iter_unpack("<H", data[words_at:])])
    bits, raw = Bits(data, tables_at, raw_at), Bits(data, raw_at, words_at)
    sequence_tables = index_table = sample_tables = None
    if u.n_sequences:
        sequence_tables = [read_tables_of(bits, len(own_set(name, u.set)), n, 1024, own_set(name, u.set))
                           for name, n in (("lz_run", N_RUNS), ("lz_offset", N_OFFSETS), ("lz_length", N_LENGTHS))]
    if u.n_literals:
        if u.n_colours:
            index_table, = read_tables_of(bits, 1, u.n_colours + 1, 2048, [even(u.n_colours + 1, 2048)])
        n_contexts = head.channels if head.bits == 8 else 2 if head.channels == 1 else 4
        sample_tables = read_tables_of(bits, n_contexts, 256, 2048, [even(256, 2048)] * n_contexts)
    need(bits.end() == raw_at, "bytes of tables")

    tokens = decode_sequences(lanes, u.n_sequences, sequence_tables)
    indices = [0] * u.n_literals
    if u.n_colours:
        for step in lanes.shared(u.n_literals):
            for lane, i in step:
                indices[i] = lanes.symbol(lane, index_table)
    pixels = decode_pixels(lanes, u, head, sample_tables)
    need(not lanes.words and all(x == 65536 for x in lanes.states), "states at the end")

    literals = pixels
    if u.n_colours:
        behind = iter(pixels[u.n_colours:])
        need(indices.count(u.n_colours) == u.n_escapes, "escapes")
        literals = [next(behind) if i == u.n_colours else pixels[i] for i in indices]
    out = copy(u, tokens, literals, raw)
    need(raw.end() == words_at, "raw bytes")
    return [sample for pixel in out for sample in pixel]


def decode_sequences(lanes, n, tables):
    """Returns the (run, offset, length) tokens of each sequence (section 6.4)."""
    tokens = [[0, 0, 0] for _ in range(n)]
    ending = [5] * len(lanes.states)
    for step in lanes.shared(n):
        for lane, i in step:
            tokens[i][0] = lanes.symbol(lane, tables[0][0 if ending[lane] < 4 else 1])
        for lane, i in step:
            tokens[i][1] = lanes.symbol(lane, tables[1][6 if tokens[i][0] else ending[lane]])
        for lane, i in step:
            offset = tokens[i][1]
            context = 0 if offset < 3 else 1 if offset < 7 else 2 if offset < 22 else 3
            length = tokens[i][2] = lanes.symbol(lane, tables[2][context])
            ending[lane] = (length - 44) // 12 if length >= 44 else 4 if offset >= 7 else 5
    return tokens


def decode_pixels(lanes, u, head, tables):
    """Returns the colours, then the escaped pixels, as tuples of samples (section 6.5)."""
    n = u.n_colours + u.n_escapes if u.n_literals else 0
    pixels = [[0] * u.p for _ in range(n)]
    for step in lanes.shared(n):
        for b in range(u.p):
            for lane, i in step:
                pixels[i][b] = lanes.symbol(lane, tables[b if head.bits == 8 else min(b, 2 + b % 2)])
    out, mask = [], (1 << head.bits) - 1
    for pixel in pixels:
        samples = pixel if head.bits == 8 else [low | high << 8 for low, high in zip(pixel[::2], pixel[1::2], strict=True)]
        if u.green:
            samples = [samples[0] + samples[1] & mask, samples[1], samples[2] + samples[1] & mask] + samples[3:]
        out.append(tuple(samples))
    return out


def count(token, raw):
    if token < 16:
        return token
    b = (token - 16) // 2 + 3
    return (2 + token % 2 << b) + raw.take(b)


def offset_of(token, recent, w, raw):
    if token < 3:
        return recent[token]
    if token < 22:
        dy, dx = NEAR[token - 3]
        return dy * w - dx
    if token == 22:
        return 1
    b = (token - 23) // 2
    return (2 + (token - 23) % 2 << b) + raw.take(b)


def copy(u, tokens, literals, raw):
    """Makes the pixels by carrying out the sequences one after the other."""
    out, used, recent = [], 0, [1, u.width, 2 * u.width]
    for run_token, offset_token, length_token in tokens:
        run = count(run_token, raw)
        need(run <= len(literals) - used, "literals run out")
        out += literals[used:used + run]
        used += run
        offset = offset_of(offset_token, recent, u.width, raw)
        need(1 <= offset <= len(out), "offset")
        if offset != recent[0]:
            recent = [offset, recent[0], recent[2] if offset == recent[1] else recent[1]]
        source, end = len(out) - offset, len(out)
        if length_token < 44:
            length = count(length_token, raw) + 1
        else:
            before, number = divmod(length_token - 44, 12)
            edges = (i for i in range(source + 1, end) if out[i] != out[i - 1])
            edge = next(islice(edges, number, None), None)
            need(edge is not None, "edge")
            length = edge - before - source
        need(1 <= length <= u.n - end - (len(literals) - used), "length")
        for i in range(length):
            out.append(out[source + i])
    out += literals[used:]
    need(len(out) == u.n, "pixels")
    return out
