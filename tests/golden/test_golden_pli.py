#!/usr/bin/env python3
"""Compares the slow decoder, written from docs/format-pli.md alone, with the manifest, for every golden PLI.

    tests/golden/test_golden_pli.py [FOLDER]
"""

import sys
from pathlib import Path

import pli_slow


def main(folder):
    lines = [line.split(maxsplit=1) for line in (folder / "MANIFEST").read_text().splitlines() if not line.startswith("#")]
    names = {name for name, _ in lines}
    failures = [f"{path.name}: not in the manifest" for path in folder.glob("*.pli") if path.name not in names]
    for name, expected in lines:
        try:
            got = pli_slow.sha256(folder / name)
        except (pli_slow.Corrupt, OSError) as error:
            got = f"{type(error).__name__}: {error}"
        if got != expected:
            failures.append(f"{name}: {got}")
    print("\n".join(failures) or f"{len(lines)} files decode as the document says")
    return 1 if failures or not lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "pli"))
