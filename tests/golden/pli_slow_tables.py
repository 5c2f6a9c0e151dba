"""Reads the trained constants from docs/format-pli-tables.txt: lines of a name and integers, # comments."""

from pathlib import Path

PATH = Path(__file__).resolve().parent.parent.parent / "docs" / "format-pli-tables.txt"


def read_tables(path=PATH):
    """Returns {name: its lines in order, as lists of integers}."""
    out = {}
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            out.setdefault(words[0], []).append([int(word) for word in words[1:]])
    return out


def slots(freqs):
    """Returns for each remainder modulo the sum of a table its symbol, the symbol's frequency f and its start F."""
    out = []
    for symbol, f in enumerate(freqs):
        out += [(symbol, f, len(out))] * f
    return out
