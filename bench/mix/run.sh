#!/bin/bash
# run.sh [sweep] [options]: mixes of forms against single forms; sweep: plans against a whole grid. DATA: folder of images (default
# $PST_SHARED_DATA, then ../shared/data); its imagenet_folder and cityscapes are used. Data sets are kept in MIX_WORK (default
# build/mix). Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
program=mix
if [ "${1:-}" = sweep ]; then
    program=sweep
    shift
fi
exec "$root/.venv/bin/python" "$root/bench/mix/$program.py" --data "$data" --work "${MIX_WORK:-$root/build/mix}" --out "$out" "$@"
