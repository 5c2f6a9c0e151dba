"""The part of `penstock info` that runs in Python: --croissant. The C program does everything else."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from ..data.croissant.write import write_croissant
from .options import Parser, UsageError, add_source, open_source
from .output import shown


def info_verb(arguments: Sequence[str]) -> str:
    """Runs `penstock info --croissant`: writes Croissant metadata to a file, and returns the text to print."""
    parser = Parser("info PATH --croissant FILE", "Writes Croissant metadata of a data set or folder.", "", ("path",), 1)
    parser.option("--croissant", metavar="FILE", text="the file to make")
    parser.option("--all", "-a", action="store_true", text="has no effect here")
    add_source(parser)
    parser.common()
    given = parser.parse(arguments)
    if given.croissant is None:
        raise UsageError("info: --croissant is missing")
    with open_source(given) as dataset:
        write_croissant(dataset, given.croissant)
        table = os.path.splitext(given.croissant)[0] + ".jsonl"
        if given.json:
            return json.dumps({"croissant": given.croissant, "table": table, "samples": len(dataset)})
        return "" if given.quiet else f"{shown(given.croissant)}, {shown(table)}: {len(dataset)} samples"
