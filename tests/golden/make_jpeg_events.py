#!/usr/bin/env python3
"""Writes a JPEG file that differs from what docs/format-pli.md, section 10.2, expects, at as many places as possible.

    tests/golden/make_jpeg_events.py PLI JPEG

Coefficients and skeleton come from a PLI of content 2. The file differs at every n-th possible place, with the least n from 3 on
for which it has the needed Huffman codes: an end of block does not join the run that it should join, or joins a run that it
should not; needless codes F0 follow a coefficient, bytes FF precede a restart marker, or the last byte of an interval is padded
with other bits than 1. make_pli_jpeg makes golden files from such JPEGs.
"""

import struct
import sys
import zlib
from pathlib import Path

import pli_slow
import pli_slow_jpeg_file
from pli_slow_tables import read_tables


class EventsAtWill:
    """Replaces pli_slow_jpeg_file.Events: inserts an event at every n-th place where one is allowed."""

    def __init__(self, step):
        self.step, self.chances, self.coder, self.zeros = step, {}, None, 0

    def take(self, _, codes):
        first = codes[0]
        if first == 0 and self.coder.run == 0 or first == 1 and self.zeros == 0:
            return None
        kind = first, self.coder.counted > pli_slow_jpeg_file.CORRECTIONS_MOST
        n = self.chances[kind] = self.chances.get(kind, 0) + 1
        if n % (8 * self.step if kind == (0, False) else self.step):  # fewer of these, so that runs grow
            return None
        most = min(self.zeros, 4) if first == 1 else 1 if first == 0 else len(codes)
        return codes[37 * n % most]


class Coder(pli_slow_jpeg_file.Coder):
    """A coder that tells the events how many needless codes F0 fit."""

    def block(self, part, block, position):
        band = [abs(v) >> self.low for v in block[max(self.first, 1):self.last + 1]]
        behind = [i for i, m in enumerate(band) if m]
        room = (len(band) - 1 - behind[-1]) // 16 if behind else 0
        self.events.coder, self.events.zeros = self, room if part.ac and 0xF0 in part.ac else 0
        super().block(part, block, position)


def main(pli, jpeg):
    pli_slow_jpeg_file.Coder = Coder
    data = Path(pli).read_bytes()
    head = pli_slow.parse_header(data)
    model = pli_slow.parse_model(data[40:40 + head.model_nbytes], head.content)
    units, columns, end = pli_slow.parse_index(data, head)
    frame = pli_slow.decode_jpeg(head, model, units, columns)
    flags, skeleton_nbytes = struct.unpack_from("<BI", data, end)
    dictionary = bytes(v for row in read_tables()["jpeg_dictionary"] for v in row)
    skeleton = zlib.decompressobj(-15, zdict=dictionary).decompress(data[end + 9:])[:skeleton_nbytes]
    for step in range(3, 1000):
        events = EventsAtWill(step)
        try:
            Path(jpeg).write_bytes(pli_slow_jpeg_file.Writer(frame, skeleton, events, flags).write())
            break
        except pli_slow.Corrupt:
            continue


if __name__ == "__main__":
    main(*sys.argv[1:])
