"""Mode wave of the slow PLI decoder (docs/format-pli.md, section 5)."""

import struct
from types import SimpleNamespace

from pli_slow_bits import Bits, need, take_sample
from pli_slow_tables import read_tables, slots

N_CONTEXTS, LANES = 16, 32
CONSTANT, LEFT, UP, AVERAGE, MED, FILTERS = 0, 1, 2, 3, 4, 8
# Section 5.4, 8 bits: for each token its bits of R, bits of S, base and activity.
PAIRS = ((0, 0, 0, 0), (2, 0, 0, 1), (3, 0, 1, 2), (4, 0, 3, 3), (4, 0, 7, 4), (5, 0, 11, 6), (5, 0, 19, 7), (6, 0, 27, 8),
         (6, 0, 43, 10), (7, 0, 59, 12), (7, 0, 91, 15), (6, 4, 7, 21), (5, 4, 15, 25), (7, 5, 15, 43), (6, 5, 31, 45),
         (8, 8, 0, 46))


def tables(block, bits):
    """Returns the built-in tables, replaced by those that the model block contains."""
    stored = read_tables()
    freqs = [row[1:] for row in stored[f"freqs{bits}"]]
    if block:
        field = Bits(block)
        for context in range(N_CONTEXTS):
            if field.take(1):
                freqs[context] = own_table(field, 16, 256, True) if bits == 8 else own_table(field, 47, 1024)
        need(field.end() == len(block), "bytes after the tables")
    buckets = [context for row in stored[f"buckets{bits}"] for context in row]
    filters = [[row[2:] for row in stored["filter"] if row[0] == k] for k in range(3)]
    return SimpleNamespace(freqs=[slots(row) for row in freqs], buckets=buckets, filters=filters)


def own_table(field, most, m, complete=False):
    n = field.take(6)
    need(1 <= n <= most, "tokens of a table")
    q = [field.take(6) for _ in range(n)] + [0]
    if complete:
        q[0] = max(q[0], 1)
        if not any(q[1:]):
            q[1] = 1
    weights = [round(2 ** ((v - 1) / 5)) if v else 0 for v in q]
    total = sum(weights)
    need(total > 0, "an empty table")
    freqs = [max(1, m * w // total) if w else 0 for w in weights]
    largest = freqs.index(max(freqs))
    freqs[largest] += m - sum(freqs)
    need(freqs[largest] >= 1, "a table that cannot be")
    return freqs


def read_record(data, at, head, plane, h, w):
    """Section 5.2."""
    need(at < len(data), "a record is cut off")
    predictor = data[at]
    need(predictor in (CONSTANT, LEFT, UP, AVERAGE, MED, FILTERS), "predictor")
    sample, at = take_sample(data, at + 1, head.bits)
    record = SimpleNamespace(predictor=predictor, sample=sample, taps=(), numbers=(), plane=plane)
    if predictor == FILTERS:
        field = Bits(data, at)
        record.numbers = [field.take(6) for _ in range(-(-h // 16) * -(-w // 16))]
        at = field.end()
    elif predictor != CONSTANT and head.transform == 1 and plane in (1, 2):
        need(at + plane <= len(data), "a record is cut off")
        record.taps = struct.unpack_from(f"<{plane}b", data, at)
        at += plane
    return record, at


def decode(data, head, tables, h, w):
    """Decodes the planes of a unit, each a list of h * w samples."""
    records, at = [], 1
    for plane in range(head.channels):
        record, at = read_record(data, at, head, plane, h, w)
        records.append(record)
    coded = [record for record in records if record.predictor != CONSTANT]
    found = decode_tokens(data, at, head, tables, coded, h, w) if coded else []
    need(coded or at == len(data), "bytes after constant planes")
    planes, residuals = [], []
    for record in records:
        if record.predictor == CONSTANT:
            planes.append([record.sample] * (h * w))
            residuals.append([0] * (h * w))
            continue
        j = len([r for r in coded if r.plane < record.plane])
        residuals.append([signed(r, head.bits) for r in found[j]])
        planes.append(predict(record, residuals, head, tables, h, w))
    return planes


def signed(v, bits):
    half = 1 << (bits - 1)
    return (v + half & 2 * half - 1) - half


def decode_tokens(data, at, head, tables, coded, h, w):
    """Returns for each coded plane its residuals, modulo 2^bits (sections 5.4 to 5.7)."""
    k, half_type, exponent_bits = (8, "B", 3) if head.bits == 8 else (16, "H", 4)
    low_at = at + 2 + LANES * exponent_bits // 8
    raw_at = low_at + LANES * k // 8
    need(raw_at <= len(data), "states are cut off")
    raw_nbytes = struct.unpack_from("<H", data, at)[0]
    exponents = Bits(data, at + 2, low_at)
    low = struct.unpack_from(f"<32{half_type}", data, low_at)
    words_at = raw_at + raw_nbytes
    need(words_at <= len(data) and (len(data) - words_at) % (k // 8) == 0, "raw bytes")
    raw = Bits(data, raw_at, words_at)
    sizes = [exponents.take(exponent_bits) for _ in range(LANES)]
    states = [((1 << e) + raw.take(e) << k) + half for e, half in zip(sizes, low, strict=True)]
    bits_at = raw.end()
    words = [word for word, in struct.iter_unpack(f"<{half_type}", data[words_at:])]
    take_units = take_pairs if head.bits == 8 else take_samples
    planes, steps = take_units(states, words, coded, head, tables, h, w)
    need(not words and all(x >> k == 1 for x in states), "states at the end")

    low = struct.pack(f"<32{half_type}", *(x & (1 << k) - 1 for x in states))
    rest = Bits(data[bits_at:words_at] + low)
    return join_pairs(rest, planes, steps, h, w) if head.bits == 8 else join_samples(rest, planes, steps)


def take_token(states, words, lane, table, bits):
    """Section 5.7."""
    state, m = states[lane], len(table)
    token, f, start = table[state % m]
    state = f * (state // m) + state % m - start
    if state < 1 << bits:
        need(words, "words run out")
        state = state << bits | words.pop(0)
    states[lane] = state
    return token


def take_pairs(states, words, coded, head, tables, h, w):
    """Decodes the tokens of pairs with 8 bits (section 5.5). Returns them for each coded plane, and for each step the places
    (index of the coded plane, index of the pair)."""
    high, across = 32 if h <= 32 else 64, (w + 1) // 2
    bands = len(coded) * high // LANES
    planes, steps = [[0] * (h * across) for _ in coded], []
    for t in range(32 * bands + 31):
        steps.append([])
        for lane in range(LANES):
            for band in range(bands):
                j, y = divmod(band * LANES + lane, high)
                p = t - 32 * band - lane
                if y < h and 0 <= p < across:
                    context = context_of_pair(planes, coded, j, y, p, head, tables, across)
                    planes[j][y * across + p] = take_token(states, words, lane, tables.freqs[context], 8)
                    steps[-1].append((j, y * across + p))
    return planes, steps


def context_of_pair(planes, coded, j, y, p, head, tables, across):
    """Returns the context of a pair with 8 bits (section 5.6)."""
    def g(tokens, dy, dp):
        inside = 0 <= y + dy and 0 <= p + dp < across
        return PAIRS[tokens[(y + dy) * across + p + dp]][3] if inside else 0

    here = planes[j]
    if head.transform == 1 and coded[j].plane == 2 and j > 0:
        z = sum(g(tokens, 0, 0) for tokens, record in zip(planes, coded, strict=True) if record.plane == 1)
    else:
        z = g(here, 0, -2)
    energy = 2 * (g(here, 0, -1) + g(here, -1, 0)) + g(here, -2, 0) + (g(here, -1, -1) + g(here, -2, 1) + 1 >> 1) + z
    return tables.buckets[min(energy, 255)]


def join_pairs(rest, planes, steps, h, w):
    """Makes residuals modulo 256 from the tokens of pairs and their raw bits."""
    across = (w + 1) // 2
    out = [[0] * (h * w) for _ in planes]
    for places in steps:
        tokens = [planes[j][i] for j, i in places]
        first = [rest.take(PAIRS[token][0]) for token in tokens]
        second = [rest.take(PAIRS[token][1]) for token in tokens]
        for (j, i), pair in zip(places, map(pair_of, tokens, first, second), strict=True):
            y, p = divmod(i, across)
            for x, residual in zip(range(2 * p, w), pair, strict=False):
                out[j][y * w + x] = residual
    return out


def pair_of(token, r, s):
    """Returns the residuals x and y of a token with 8 bits (section 5.4)."""
    if token in (0, 15):
        return r, s
    index, base = r // 4, PAIRS[token][2]
    if token <= 10:
        q = base + index
        d = max(d for d in range(1, 17) if d * (d - 1) // 2 <= q)
        b = q - d * (d - 1) // 2
        a = d - b
    else:
        u = (16 if token <= 12 else 32) + s
        b = (u >> 1) - base + index
        a = u - b
    return ((a, b), (-b, a), (-a, -b), (b, -a))[r % 4]


def take_samples(states, words, coded, head, tables, h, w):
    """Decodes tokens with 16 bits (section 5.5). Returns them for each coded plane, and the places (index of the coded plane,
    index of the sample) of all tokens in their order."""
    high = 32 if h <= 32 else 64
    bands = len(coded) * high // LANES
    planes, order = [[0] * (h * w) for _ in coded], []
    for t in range(64 * bands + 62):
        for lane in range(LANES):
            for band in range(bands):
                j, y = divmod(band * LANES + lane, high)
                x = t - 64 * band - 2 * lane
                if y < h and 0 <= x < w:
                    context = context_of_sample(planes, coded, j, y, x, head, tables, w)
                    planes[j][y * w + x] = take_token(states, words, lane, tables.freqs[context], 16)
                    order.append((j, y * w + x))
    return planes, order


def context_of_sample(planes, coded, j, y, x, head, tables, w):
    """Returns the context of a sample with 16 bits (section 5.6)."""
    def g(tokens, dy, dx):
        inside = 0 <= y + dy and 0 <= x + dx < w
        return tokens[(y + dy) * w + x + dx] if inside else 0

    def of_plane(number):
        return sum(tokens[y * w + x] for tokens, record in zip(planes, coded, strict=True) if record.plane == number)

    here, plane = planes[j], coded[j].plane
    a = g(here, 0, -1) + g(here, -1, 0) + g(here, -1, 1) + g(here, -2, 0)
    b = g(here, -1, -1) + g(here, 0, -2)
    if j == 0 or head.transform == 0 or plane in (0, 3):
        energy = 2 * a + b
    elif plane == 1:
        energy = a + (a + 1 >> 1) + b + (of_plane(0) + 1 >> 1)
    else:
        energy = a + (a + 1 >> 1) + b + 2 * of_plane(1)
    return tables.buckets[min(energy >> 1, 255)]


def join_samples(rest, planes, order):
    """Makes residuals from tokens, signs and raw bits."""
    signs = [rest.take(1) if planes[j][i] else 0 for j, i in order]
    for (j, i), sign in zip(order, signs, strict=True):
        token = planes[j][i]
        if token == 24:
            token = 24 + rest.take(3)
        elif token > 24:
            e, f = 5 + (token - 25) // 2, (token - 25) % 2
            token = (2 + f << e - 1) + rest.take(e - 1)
        planes[j][i] = -token if sign else token
    return planes


def predict(record, residuals, head, tables, h, w):
    """Section 5.3."""
    mask, wide = (1 << head.bits) - 1, 2 * head.bits
    own = residuals[record.plane]
    filters = tables.filters[record.plane if head.transform == 1 and record.plane < 3 else 0]
    s = []
    for i in range(h * w):
        y, x = divmod(i, w)
        near = neighbours(s, i, y, x, w, record.sample)
        n = record.numbers[y // 16 * -(-w // 16) + x // 16] if record.numbers else 0
        if n:
            left = near[0]
            *k, a, b = filters[n - 1]
            total = 32 * left + 16 + sum(c * (v - left) for c, v in zip(k, near[1:], strict=True))
            if head.transform == 1 and record.plane in (1, 2):
                total += a * residuals[0][i] + (b * residuals[1][i] if record.plane == 2 else 0)
            p = min(max(signed(total, wide) >> 5, 0), mask)
        else:
            p = plain(record.predictor, *near[:3])
            if record.taps:
                p += signed(sum(c * r[i] for c, r in zip(record.taps, residuals, strict=False)) + 16, wide) >> 5
        s.append(p + own[i] & mask)
    return s


def neighbours(s, i, y, x, w, start):
    """Returns the neighbours L, U, UL, UR, UU and LL of a sample."""
    if y == 0:
        left = s[i - 1] if x else start
        return left, left, left, left, left, s[i - 2] if x > 1 else left
    u = s[i - w]
    left = s[i - 1] if x else u
    return (left, u, s[i - w - 1] if x else u, s[i - w + 1] if x < w - 1 else u, s[i - 2 * w] if y > 1 else u,
            s[i - 2] if x > 1 else left)


def plain(predictor, left, u, ul):
    if predictor == LEFT:
        return left
    if predictor == UP:
        return u
    if predictor == AVERAGE:
        return left + u >> 1
    return left + u - min(max(ul, min(left, u)), max(left, u))
