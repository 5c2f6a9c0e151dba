"""Restoration of the slow PLI decoder (docs/format-pli.md, section 10): the JPEG file that a PLI was made from."""

import re
import struct
import zlib
from types import SimpleNamespace

from pli_slow_bits import need
from pli_slow_lz import take_number
from pli_slow_tables import read_tables
from xxh3 import xxh3

SOI, EOI, SOS, DQT, DHT, DRI, RST0 = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xD0
SEQUENTIAL, PROGRESSIVE = (0xC0, 0xC1), 0xC2
ALONE = (0x01, *range(RST0, RST0 + 8))  # markers without a length
RUN_MOST, CORRECTIONS_MOST = 32767, 937


def restore(frame, data):
    """Returns the bytes of the JPEG file, or None if the PLI has no restoration."""
    need(len(data) == frame.restoration_nbytes, "length of the restoration")
    if not data:
        return None
    need(xxh3(data) & 0xFFFFFFFF == frame.restoration_checksum, "checksum of the restoration")
    need(len(data) >= 9 and data[0] < 4, "flags of the restoration")
    flags, skeleton_nbytes, extra_nbytes = struct.unpack_from("<BII", data)
    need(skeleton_nbytes <= frame.jpeg_nbytes, "length of the skeleton")
    dictionary = bytes(v for row in read_tables()["jpeg_dictionary"] for v in row)
    inflate = zlib.decompressobj(-15, zdict=dictionary)
    try:
        told = inflate.decompress(data[9:])
    except zlib.error as error:
        need(False, f"DEFLATE: {error}")
    need(inflate.eof and not inflate.unused_data and len(told) == skeleton_nbytes + extra_nbytes, "length of DEFLATE data")
    events = Events(told[skeleton_nbytes:])
    jpeg = Writer(frame, told[:skeleton_nbytes], events, flags).write()
    need(not events.rest, "an event that does not occur")
    need(len(jpeg) == frame.jpeg_nbytes and xxh3(jpeg) == frame.jpeg_checksum, "the JPEG file is another one")
    return jpeg


class Events:
    """The events of a restoration: places where the JPEG file differs from the expected coding (section 10.2)."""

    def __init__(self, extra):
        self.rest, position, at = [], 0, 0
        while at < len(extra):
            step, at = take_number(extra, at)
            need(at < len(extra), "an event is cut off")
            position += step
            self.rest.append((position, extra[at]))
            at += 1
        self.rest.reverse()

    def take(self, position, codes):
        """Returns the code of the next event and removes it, if it is at this position and has one of these codes."""
        if self.rest and self.rest[-1][0] == position and self.rest[-1][1] in codes:
            return self.rest.pop()[1]
        return None


class Writer:
    """Writes the JPEG file by going through its skeleton (section 10.1)."""

    def __init__(self, frame, skeleton, events, flags):
        self.frame, self.skeleton, self.events = frame, skeleton, events
        self.padding, self.cut = "0" if flags & 1 else "1", flags >> 1
        self.out, self.at = bytearray(), 0
        self.huffman, self.interval, self.position = {}, 0, 0
        self.ids, self.progressive = None, False
        self.scans, self.passed = 0, 0

    def copy(self, n):
        part = self.skeleton[self.at:self.at + n]
        need(len(part) == n, "the skeleton is cut off")
        self.out += part
        self.at += n
        return part

    def write(self):
        need(self.copy(2) == bytes((0xFF, SOI)), "no JPEG file")
        while found := re.compile(b"\xff+([^\x00\xff])", re.DOTALL).search(self.skeleton, self.at):
            self.copy(found.end() - self.at)
            marker = found.group(1)[0]
            if marker == EOI:
                break
            if marker not in ALONE:
                self.segment(marker)
        self.out += self.skeleton[self.at:]
        return bytes(self.out)

    def segment(self, marker):
        length = struct.unpack(">H", self.copy(2))[0] - 2
        need(length >= 0, "length of a segment")
        if marker == DQT and self.cut:
            self.quantisation(length)
            return
        body = self.copy(length)
        if marker == DHT:
            self.read_huffman(body)
        elif marker == DRI:
            need(length == 2, "length of DRI")
            self.interval = struct.unpack(">H", body)[0]
        elif marker in SEQUENTIAL or marker == PROGRESSIVE:
            self.read_frame(body)
            self.progressive = marker == PROGRESSIVE
        elif marker == SOS:
            self.scan(body)

    def quantisation(self, length):
        named = {c.quant: c.quants for c in self.frame.components}
        while length > 0:
            kind = self.copy(1)[0]
            size = 128 if kind >> 4 else 64
            if kind & 15 in named:
                need(kind >> 4 or max(named[kind & 15]) < 256, "a quantisation value")
                self.out += struct.pack(">64H" if kind >> 4 else ">64B", *named[kind & 15])
            else:
                self.copy(size)
            length -= 1 + size
        need(length == 0, "length of DQT")

    def read_huffman(self, body):
        at = 0
        while at < len(body):
            need(at + 17 <= len(body), "DHT is cut off")
            counts = body[at + 1:at + 17]
            symbols = body[at + 17:at + 17 + sum(counts)]
            need(len(symbols) == sum(counts) <= 256, "DHT is cut off, or has too many codes")
            codes, code, used = {}, 0, 0
            for length, count in enumerate(counts, 1):
                for symbol in symbols[used:used + count]:
                    need(code + 1 < 1 << length, "a Huffman table that cannot be")
                    codes[symbol] = f"{code:0{length}b}"
                    code += 1
                used += count
                code <<= 1
            self.huffman[body[at]] = codes
            at += 17 + used

    def read_frame(self, body):
        need(self.ids is None and len(body) == 6 + 3 * len(self.frame.components), "frame header")
        bits, height, width, n = struct.unpack_from(">BHHB", body)
        need((bits, height, width, n) == (8, self.frame.height, self.frame.width, len(self.frame.components)), "frame header")
        self.ids = []
        for i, c in enumerate(self.frame.components):
            number, factors, quant = body[6 + 3 * i:9 + 3 * i]
            need(n == 1 or factors == 16 * c.h + c.v, "sampling factors")
            need(quant == c.quant, "number of a quantisation table")
            self.ids.append(number)

    def scan(self, body):
        need(self.ids is not None and body and len(body) == 4 + 2 * body[0], "scan header")
        parts = []
        for i in range(body[0]):
            number, tables = body[1 + 2 * i:3 + 2 * i]
            need(number in self.ids, "component of a scan")
            parts.append(SimpleNamespace(component=self.frame.components[self.ids.index(number)], before=0,
                                         dc=self.huffman.get(tables >> 4), ac=self.huffman.get(16 + (tables & 15))))
        self.scans += 1
        self.passed += sum(p.component.h * p.component.v for p in parts)
        need(self.scans <= 500 and self.passed <= 100 * sum(c.h * c.v for c in self.frame.components), "scans")
        first, last, bits = body[-3:]
        need(first <= last <= 63 and (self.progressive or (first, last, bits) == (0, 63, 0)), "band of a scan")
        need(not self.progressive or (first == 0) == (last == 0), "band of a scan")
        need(first == 0 or len(parts) == 1, "components of a scan")
        coder = Coder(self.events, first, last, bits >> 4, bits & 15, self.progressive)
        for number, mcu in enumerate(self.mcus(parts)):
            if self.interval and number and number % self.interval == 0:
                self.end_interval(coder)
                more = (self.events.take(self.position, range(65, 128)) or 64) - 64
                marker = RST0 + (number // self.interval - 1) % 8
                self.out += bytes([0xFF] * (1 + more) + [marker])
                for part in parts:
                    part.before = 0
            for part, block in mcu:
                coder.block(part, block, self.position)
                self.position += 1
        self.end_interval(coder)

    def end_interval(self, coder):
        """Turns the bits of an interval into bytes and pads the last byte."""
        coder.end_run()
        bits = "".join(coder.out)
        coder.out.clear()
        n = -len(bits) % 8
        code = self.events.take(self.position, range(128, 256))
        if n:
            bits += self.padding * n if code is None else f"{code % (1 << n):0{n}b}"
        if bits:
            self.out += int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")

    def mcus(self, parts):
        """Yields for each MCU its list of (part, block), in the order of the file."""
        if len(parts) == 1:
            c = parts[0].component
            for y in range(-(-c.height // 8)):
                for x in range(-(-c.width // 8)):
                    yield [(parts[0], c.blocks[y, x])]
            return
        rows, columns = -(-self.frame.height // (8 * self.frame.v)), -(-self.frame.width // (8 * self.frame.h))
        for y in range(rows):
            for x in range(columns):
                yield [(part, part.component.blocks[y * part.component.v + i, x * part.component.h + j]) for part in parts
                       for i in range(part.component.v) for j in range(part.component.h)]


class Coder:
    """Codes the blocks of a scan as bits (section 10.2)."""

    def __init__(self, events, first, last, high, low, progressive):
        self.events, self.first, self.last, self.high, self.low = events, first, last, high, low
        self.progressive = progressive
        self.out = []
        self.run, self.corrections, self.counted, self.codes = 0, [], 0, None

    def symbol(self, codes, symbol):
        need(codes is not None and symbol in codes, "a symbol without a code")
        self.out.append(codes[symbol])

    def value(self, v, size):
        if size:
            self.out.append(f"{v if v > 0 else v + (1 << size) - 1:0{size}b}")

    def block(self, part, block, position):
        if self.first == 0:
            self.dc(part, block[0])
        if self.last > 0:
            self.codes = part.ac
            if self.high:
                self.ac_later(block, position)
            else:
                self.ac_first(block, position)

    def dc(self, part, v):
        if self.high:
            self.out.append(str(v >> self.low & 1))
            return
        v >>= self.low
        d = v - part.before
        part.before = v
        size = abs(d).bit_length()
        self.symbol(part.dc, size)
        self.value(d, size)

    def ac_first(self, block, position):
        zeros, coded = 0, False
        for k in range(max(self.first, 1), self.last + 1):
            m = abs(block[k]) >> self.low
            if m == 0:
                zeros += 1
                continue
            self.end_run()
            for _ in range(zeros // 16):
                self.symbol(self.codes, 0xF0)
            size = m.bit_length()
            self.symbol(self.codes, zeros % 16 << 4 | size)
            self.value(m if block[k] > 0 else -m, size)
            zeros, coded = 0, True
        more = self.events.take(position, range(1, 5)) or 0
        need(coded or not more, "zeros in a block without coefficients")
        for _ in range(more):
            self.symbol(self.codes, 0xF0)
            zeros -= 16
        need(zeros >= 0, "zeros beyond the band")
        if zeros and self.progressive:
            self.end_block(coded, [], position)
        elif zeros:
            self.symbol(self.codes, 0)

    def ac_later(self, block, position):
        band = range(self.first, self.last + 1)
        m = {k: abs(block[k]) >> self.low for k in band}
        last_new = max((k for k in band if m[k] == 1), default=0)
        zeros, coded, corrections = 0, False, []
        for k in band:
            if m[k] == 0:
                zeros += 1
                continue
            while zeros > 15 and k <= last_new:
                self.end_run()
                self.symbol(self.codes, 0xF0)
                self.out += corrections
                zeros, coded, corrections = zeros - 16, True, []
            if m[k] > 1:
                corrections.append(str(m[k] & 1))
                continue
            self.end_run()
            self.symbol(self.codes, zeros << 4 | 1)
            self.out += ["1" if block[k] > 0 else "0"] + corrections
            zeros, coded, corrections = 0, True, []
        if zeros or corrections:
            self.end_block(coded, corrections, position)

    def end_block(self, coded, corrections, position):
        """Codes the end of a block, alone or as part of an end-of-block run."""
        if not coded:
            joins = 0 < self.run < RUN_MOST and self.counted <= CORRECTIONS_MOST
            if self.events.take(position, (0,)) is not None:
                need(0 < self.run and (joins or self.run < RUN_MOST), "a run of ends of blocks")
                joins, self.counted = not joins, 0
            if not joins:
                self.end_run()
        self.run += 1
        self.corrections += corrections
        self.counted += len(corrections)

    def end_run(self):
        if self.run:
            size = self.run.bit_length() - 1
            self.symbol(self.codes, size << 4)
            if size:
                self.out.append(f"{self.run - (1 << size):0{size}b}")
            self.out += self.corrections
        self.run, self.corrections, self.counted = 0, [], 0
