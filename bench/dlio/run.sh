#!/bin/bash
# run.sh [options of dlio.py]: MLPerf Storage's benchmark program drives Penstock, beside its own loader. DLIO: a checkout of
# github.com/argonne-lcf/dlio_benchmark. Its packages are installed in a directory of their own under PEERS_BUILD (default
# build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
[ -f "${DLIO:-}/dlio_benchmark/main.py" ] || { echo "set DLIO to a checkout of github.com/argonne-lcf/dlio_benchmark" >&2; exit 2; }
python=${PYTHON:-$root/.venv/bin/python}
peers=${DLIO_ENVIRONMENT:-${PEERS_BUILD:-$root/build/peers}/dlio}
if [ ! -x "$peers/bin/packages-installed" ]; then
    # PyPI's dlio_benchmark pins a pydftracer that is too old for the source; mpich brings MPI itself, into the environment's lib.
    "$python" -m venv "$peers"
    "$peers/bin/pip" install --quiet hydra-core omegaconf pandas psutil Pillow PyYAML h5py pydftracer mpi4py mpich
    ln -s "$(command -v true)" "$peers/bin/packages-installed"
fi
# Penstock and torch come from the tree's environment, behind DLIO's own packages.
site='import sysconfig; print(sysconfig.get_path("purelib"))'
paths=$DLIO:$("$peers/bin/python" -c "$site"):$("$python" -c "$site")
PYTHONPATH="$paths${PYTHONPATH:+:$PYTHONPATH}" exec "$peers/bin/python" "$here/dlio.py" --images "$data/imagenet_folder" \
    --out "${OUT:-$root/bench/out}" "$@"
