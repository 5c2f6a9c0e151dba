#!/bin/bash
# run.sh [options of mix.py]: mixes of forms against single forms. DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder and cityscapes are used. Data sets are kept in MIX_WORK (default build/mix). Figures: OUT
# (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "$root/.venv/bin/python" "$root/bench/mix/mix.py" --data "$data" --work "${MIX_WORK:-$root/build/mix}" --out "$out" "$@"
