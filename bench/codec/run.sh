#!/bin/bash
# run.sh [arguments of bench_codec]: compares PLI with other lossless image codecs on the groups of DATA (default:
# $PST_SHARED_DATA, then ../shared/data). Installs the peers' packages if it may; the table names missing peers with the
# reasons. Table, picture and figures: OUT (default bench/out). Build: build/bench-codec.
# run.sh jpeg [arguments of bench_codec_jpeg]: compares JPEGs kept as PLI with libjpeg-turbo.
source "$(dirname "$0")/../lib.sh"
here=$root/bench/codec
build=${CODEC_BUILD:-$root/build/bench-codec}
need "$data" "a folder of images, or of folders of them (jpeg: JPEGs)"

if [ "${1:-}" = jpeg ]; then
    shift
    cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DPST_BUILD_BENCH=ON -DPST_BUILD_TOOLS=OFF \
        --log-level=WARNING
    ninja -C "$build" ${NINJAFLAGS:-} bench_codec_jpeg
    exec python3 "$here/jpegs_report.py" --program "$build/bench/bench_codec_jpeg" --out "$out" -- --data "$data" "$@"
fi

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
for package in libwebp-dev libspng-dev libjxl-dev libzstd-dev libqoi-dev libcharls-dev; do
    command -v dpkg-query >/dev/null || break
    case "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)" in *"ok installed") continue ;; esac
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" \
        </dev/null >/dev/null 2>&1 || echo "$package did not install: its rows are absent" >&2
done

cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DPST_BUILD_BENCH=ON -DPST_BUILD_TOOLS=OFF \
    --log-level=WARNING
ninja -C "$build" ${NINJAFLAGS:-} bench_codec bench_codec_crops
exec python3 "$here/report.py" --program "$build/bench/bench_codec" --crops "$build/bench/bench_codec_crops" --out "$out" \
    -- --data "$data" "$@"
