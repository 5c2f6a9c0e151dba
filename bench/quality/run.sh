#!/bin/bash
# run.sh [options]: accuracy after equal work from several forms of the same images. DATA: folder with kodak, cid22, clic2025
# (default $PST_SHARED_DATA, then ../shared/data). Data sets are kept in QUALITY_WORK (default build/quality). Figures: OUT
# (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/kodak" "a folder that has kodak, cid22 and clic2025, of PNGs"
exec "$root/.venv/bin/python" "$root/bench/quality/quality.py" --data "$data" --work "${QUALITY_WORK:-$root/build/quality}" \
    --out "$out" "$@"
