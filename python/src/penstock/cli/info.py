"""The verb info where Python writes: --croissant. All else of it is the program's own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from ..data.croissant.write import write_croissant
from .options import Parser, UsageError, add_source, open_source
from .output import shown


def info_verb(arguments: Sequence[str]) -> str:
    """Writes Croissant metadata; returns what is printed."""
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
