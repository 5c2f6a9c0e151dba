#!/bin/bash
# run.sh [options of parts.py]: pack, repack, verify and index by one part on one core, and by two parts on two cores. DATA: folder
# that has imagenet_folder (default $PST_SHARED_DATA, then ../shared/data). Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "$root/.venv/bin/python" "$root/bench/parts/parts.py" --penstock "$root/.venv/bin/penstock" --data "$data" --build "$build" \
    --out "$out" "$@"
