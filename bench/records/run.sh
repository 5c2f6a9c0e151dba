#!/bin/bash
# run.sh [options of records.py]: raw files and records (TFRecord, RecordIO, tar, Penstock's data set), read by NVIDIA DALI,
# tf.data, torch DataLoader, WebDataset and Penstock, from the page cache and from a slow disk: rates, what conversion costs and
# when it has paid, how well orders are mixed. Installs the peers as bench/loader/run.sh does (PEERS_BUILD, default build/peers).
# DATA: folder that has imagenet_folder (default $PST_SHARED_DATA, then ../shared/data). Cold epochs need root and control groups,
# as bench/cache. Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "$root/.venv/bin/python" "$root/bench/records/records.py" --data "$data" --build "$build" --out "$out" "$@"
