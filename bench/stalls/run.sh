#!/bin/bash
# run.sh [options of stalls.py]: what part of an epoch is a stall, of nine models, before and with Penstock. torch and torchvision
# are installed as bench/loader/run.sh does (PEERS_BUILD, default build/peers). DATA: folder of images (default $PST_SHARED_DATA,
# then ../shared/data); its imagenet_folder and clic2025 are used. Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
here=$root/bench/stalls
(cd "$here/../loader" && "${PYTHON:-python3}" -c "import environments, pathlib; environments.install(pathlib.Path('$build'), [])")
LD_LIBRARY_PATH=$build/stand_in exec "$build/venv/torch/bin/python" "$here/stalls.py" --data "$data" --work "$build/stalls" \
    --out "$out" "$@"
