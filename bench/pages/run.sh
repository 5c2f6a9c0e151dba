#!/bin/bash
# run.sh [options]: the page-aware order beside random order. DATA: folder that has imagenet_folder (default $PST_SHARED_DATA, then
# ../shared/data), any folder of folders of images. Data sets are kept in PAGES_WORK (default build/pages). Figures: OUT (default
# bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
work=${PAGES_WORK:-$root/build/pages}
exec "$root/.venv/bin/python" "$root/bench/pages/pages.py" --data "$data" --work "$work" --out "$out" "$@"
