#!/bin/bash
# run.sh [options of sources.py]: tars in place, read by Penstock, WebDataset, wids, Energon, DALI, tf.data and torch: images per
# second in the first and in later epochs, memory, opening.
# run.sh containers [options of containers.py]: the same for Parquet, Arrow, MDS, TFRecord, LMDB, RecordIO and FFCV's files, each
# beside its own library.
# Installs the peers as bench/loader/run.sh does (PEERS_BUILD, default build/peers). DATA: folder that has imagenet_folder (default
# $PST_SHARED_DATA, then ../shared/data). Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
program=sources
if [ "${1:-}" = containers ]; then
    program=containers
    shift
fi
exec "$root/.venv/bin/python" "$root/bench/sources/$program.py" --data "$data" --build "$build" --out "$out" "$@"
