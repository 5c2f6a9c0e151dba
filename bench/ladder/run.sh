#!/bin/bash
# run.sh [options of ladder.py]: which optimisation pays when. DATA: folder that has imagenet_folder (default $PST_SHARED_DATA,
# then ../shared/data). Data sets are kept in LADDER_WORK (default build/ladder). Figures: OUT (default bench/out). With --from
# nothing is measured.
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
work=${LADDER_WORK:-$root/build/ladder}
exec "$root/.venv/bin/python" "$root/bench/ladder/ladder.py" --data "$data" --work "$work" --out "$out" "$@"
