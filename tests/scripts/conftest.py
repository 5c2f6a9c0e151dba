"""Makes scripts importable as modules, as they import each other."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("scripts", "scripts/figures")]
