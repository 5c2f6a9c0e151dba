#!/bin/bash
# run.sh [options of report.py]: compares Penstock with other loaders on the same files and cores: torch DataLoader (torchvision
# v2, TorchCodec, Pillow), WebDataset, LitData, NVIDIA DALI, tf.data, FFCV, SPDL. Installs the peers in environments of their own
# under PEERS_BUILD (default build/peers; torch with CUDA, as PyPI has it, takes 5.4 GB once); the table names peers that cannot be
# installed, with the reasons. DATA: folder of the images (default $PST_SHARED_DATA, then ../shared/data), any one (prepare.py says
# what becomes of it). Table, picture and figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data" "any folder of JPEGs, or of PNGs of 768 x 768 and more"
exec "${PYTHON:-python3}" "$root/bench/loader/report.py" --data "$data" --build "$build" --out "$out" "$@"
