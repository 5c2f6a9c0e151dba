# lib.sh: sourced by each run.sh. Sets root, data (DATA; default $PST_SHARED_DATA, then ../shared/data), build (PEERS_BUILD; default
# build/peers) and out (OUT; default bench/out).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
build=${PEERS_BUILD:-$root/build/peers}
out=${OUT:-$root/bench/out}

# need FOLDER WHAT: ends the bench if the data has no such folder.
need() {
    [ -d "$1" ] || { echo "no images at $1: set DATA to $2" >&2; exit 2; }
}
