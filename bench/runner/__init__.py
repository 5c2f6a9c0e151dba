"""What the benches share: cells, tables and pictures. A program puts the folder bench into sys.path and imports this package.

Importing it puts bench/loader into sys.path, too: the peers, their environments and the check of their output are there.
"""

import sys
from pathlib import Path

from .cell import (CLOCK_TICKS, Meter, Process, Unavailable, cores_seconds, cpu_seconds, disk_nbytes, end_at_once, forget_peak_rss,
                   last_line, peak_rss_mb, pinned, run_cell, run_program, tell)
from .picture import GRID, INK, MUTED, bars, square, svg, text
from .table import (absent, by_commas, chosen, copies_folder, finish, heads, machine, parsed, parser, said, stored_mb, versions,
                    where, work_folder, write)

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "loader"))
