#!/bin/bash
# run.sh [options of sources.py]: tars in place, read by Penstock, WebDataset, wids, Energon, DALI, tf.data and torch: images per
# second in the first and in later epochs, memory, opening. Installs the peers as bench/loader/run.sh does (PEERS_BUILD, default
# build/peers). DATA: folder that has imagenet_folder (default $PST_SHARED_DATA, then ../shared/data). Figures: OUT (default
# bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "$root/.venv/bin/python" "$root/bench/sources/sources.py" --data "$data" --build "$build" --out "$out" "$@"
