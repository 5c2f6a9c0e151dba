#!/usr/bin/env python3
"""Writes the corpora of fuzz_pli_head, fuzz_pli_unit and fuzz_pli_roundtrip from the golden PLI files.

    tests/fuzz/make_pli_corpus.py

Goes through files and units from small to large, and takes those with something new: a tier, mode, predictor, form, channel
count, depth, cut edge or near-lossless step not seen before.
"""

import struct
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "golden"))

import pli_slow  # noqa: E402

LIMIT = 110_000  # largest size of a corpus in bytes
# Inputs of fuzz_pli_roundtrip: channels - 1 and depth, height - 1, width - 1, tier, effort, flags, max_error, larger; then strokes
# {kind + 8 * channel, y, x, h - 1, w - 1, value, p, q}.
STROKES = {
    "photo": [(1, 0, 0, 255, 255, 90, 0x31, 0), (10, 0, 0, 255, 255, 80, 9, 0), (17, 5, 9, 80, 90, 60, 0x12, 0)],
    "labels": [(0, 0, 0, 255, 255, 3, 0, 0), (0, 20, 9, 60, 70, 7, 0, 0), (0, 50, 40, 90, 33, 11, 0, 0),
               (4, 99, 0, 70, 99, 2, 9, 3)],
    "screen": [(0, 0, 0, 255, 255, 250, 0, 0), (8, 0, 0, 255, 255, 250, 0, 0), (4, 10, 10, 99, 99, 30, 4, 40),
               (12, 30, 4, 50, 99, 9, 6, 80)],
    "noise": [(3, 0, 0, 255, 255, 1, 77, 0), (11, 0, 0, 255, 255, 2, 78, 0), (19, 0, 0, 255, 255, 3, 79, 0)],
    "extremes": [(6, 0, 0, 255, 255, 0, 5, 0), (14, 3, 3, 99, 99, 0, 9, 0), (7, 40, 40, 99, 99, 0, 3, 0)],
    "bytes": [(5, 0, 0, 255, 255, 0, 0, 0), (13, 0, 0, 255, 255, 0, 0, 0)],
}
HEADS = ((0, 40, 63), (2, 64, 70), (3, 30, 99), (4, 63, 63), (6, 20, 64), (1, 0, 0), (7, 9, 130))


def write(folder, entries):
    """Writes the inputs with new features, smallest first, up to LIMIT bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    seen, total = set(), 0
    for name, features, data in sorted(entries, key=lambda entry: (len(entry[2]), entry[0])):
        if features <= seen or total + len(data) > LIMIT:
            continue
        seen |= features
        total += len(data)
        (folder / name).write_bytes(data)
    print(f"{folder.name}: {len(list(folder.iterdir()))} files, {total} bytes")


def from_golden():
    heads, units = [], []
    for path in sorted((TESTS / "golden" / "pli").glob("*.pli")):
        data = path.read_bytes()
        head = pli_slow.parse_header(data)
        parts, columns, _ = pli_slow.parse_index(data, head)
        shape = (head.channels, head.bits)
        modes = {part[0] for part in parts}
        features = {(mode, *shape, head.flags) for mode in modes}
        features |= {("edge", head.edge), ("many", len(parts) > 4), ("near", head.max_error)}
        heads.append((path.stem, features, data))
        model = data[44:40 + head.model_nbytes]
        for i, part in enumerate(parts):
            y0, x0 = i // columns * head.edge, i % columns * head.edge
            h, w = min(head.edge, head.height - y0), min(head.edge, head.width - x0)
            own = model if part[0] == pli_slow.WAVE else b""
            flags = head.channels - 1 | (head.bits == 16) << 2 | head.transform << 3 | (head.unit_log2 - 6) << 6
            features = {(part[0], part[1] if part[0] > 2 else 0, *shape, head.transform), (part[0], h < 32, w < 32, h < 64, w < 64),
                        (part[0], head.edge), (part[0], head.max_error > 0), (part[0], len(own) > 0)}
            geometry = struct.pack("<BBHHH", flags, head.max_error, w - 1, h - 1, len(own))
            units.append((f"{path.stem}-{i}", features, geometry + own + part))
    return heads, units


def from_jpegs():
    heads = []
    for path in sorted((TESTS / "golden" / "pli_jpeg").glob("*.pli")):
        data = path.read_bytes()
        end = 40 + struct.unpack_from("<I", data, 16)[0]
        at = 40
        while data[at] != 3:  # the frame, whose components follow its first two bytes
            at += 4 + struct.unpack_from("<H", data, at + 2)[0]
            assert at < end
        samplings = data[at + 6:at + 6 + 2 * data[6]:2]
        heads.append((path.stem, {("jpeg", samplings), ("jpeg", data[12], data[13], data[14])}, data))
    return heads


def strokes():
    for i, (name, parts) in enumerate(STROKES.items()):
        for j, (shape, h, w) in enumerate(HEADS):
            near = (1, 1 + j) if j % 3 == 2 else (0, 0)
            data = bytes((shape, h, w, (i + j) % 3, j % 6, *near, 3 * (j == 3))) + b"".join(bytes(part) for part in parts)
            yield f"{name}-{j}", {(name, j)}, data


if __name__ == "__main__":
    heads, units = from_golden()
    corpus = TESTS / "fuzz" / "corpus"
    write(corpus / "pli_head", heads + from_jpegs())
    write(corpus / "pli_unit", units)
    write(corpus / "pli_roundtrip", list(strokes()))
