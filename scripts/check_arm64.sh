#!/bin/sh
# Builds for 64-bit ARM (the toolchain of cmake/aarch64-linux-gnu.cmake) and runs the tests under qemu's user mode.
#
#   scripts/check_arm64.sh [ARGUMENT OF CTEST ...]      for example: scripts/check_arm64.sh -R test_pli
#
# It fetches missing tools: the cross compiler and qemu as packages of this machine (as root or with sudo), and libraries for
# arm64 into build/arm64-root, a folder of their own, so that this machine's packages stay as they are. That works on Debian;
# elsewhere PST_ARM64_ROOT names a folder that has them (usr/include, usr/lib/aarch64-linux-gnu). PST_ARM64_BUILD: folder of the
# build, instead of build/arm64. PST_SANITIZE=address: with AddressSanitizer and UndefinedBehaviorSanitizer.
set -eu
cd "$(dirname "$0")/.."
source=$(pwd)
build=${PST_ARM64_BUILD:-build/arm64${PST_SANITIZE:+-$PST_SANITIZE}}
root=${PST_ARM64_ROOT:-$source/build/arm64-root}

# Tests that start programs for arm64 themselves are left out if the kernel cannot run these by qemu (binfmt_misc).
starts_programs='test_cli_.*|test_pli_wave_same'

if [ "$(uname -m)" = aarch64 ]; then
    echo "check_arm64.sh: this is such a machine; make check runs the tests here" >&2
    exit 2
fi

missing=""
for pair in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu aarch64-linux-gnu-g++:g++-aarch64-linux-gnu \
    qemu-aarch64:qemu-user; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
if [ -n "$missing" ]; then
    as_root=""
    [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
    echo "installing:$missing"
    $as_root apt-get update >/dev/null
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
fi

# Uses an apt configuration of its own for arm64 alone, in which no package is installed. Downloaded packages are unpacked.
fetch_libraries() {
    apt=$root.apt
    rm -rf "$apt" "$root.new"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root.new"
    : >"$apt/status"
    cat >"$apt/apt.conf" <<EOF
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "$(id -un)";
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOF
    echo "fetching libraries for arm64 into $root"
    APT_CONFIG=$apt/apt.conf apt-get update >/dev/null
    APT_CONFIG=$apt/apt.conf apt-get install -y --no-install-recommends --download-only libc6-dev libgcc-s1 \
        libstdc++6 libasan8 libubsan1 libjpeg-dev libpng-dev zlib1g-dev libdeflate-dev libxxhash-dev libwebp-dev \
        liburing-dev libcmocka-dev >/dev/null
    for package in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$root.new"
    done
    # Makes one folder of libraries, as in an installed system, and links that stay within it.
    if [ ! -L "$root.new/lib" ]; then
        cp -a "$root.new/lib/." "$root.new/usr/lib/"
        rm -rf "$root.new/lib"
        ln -s usr/lib "$root.new/lib"
    fi
    find "$root.new" -lname '/*' | while read -r link; do
        ln -sfn "$root$(readlink "$link")" "$link"
    done
    rm -rf "$apt" "$root"
    mv "$root.new" "$root"
}
[ -e "$root/usr/include/aarch64-linux-gnu" ] || fetch_libraries

cmake -G Ninja -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64-linux-gnu.cmake" \
    -DPST_SYSROOT="$root" -DPST_BUILD_TESTS=ON -DPST_FAULTS=ON -DPST_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DPST_SANITIZE="${PST_SANITIZE:-}" --log-level=WARNING
ninja -C "$build" ${NINJAFLAGS:-} --quiet
# Detection of leaks needs ptrace, which qemu does not have.
[ -z "${PST_SANITIZE:-}" ] || export ASAN_OPTIONS=detect_leaks=0
left_out='^$'
[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || left_out="^($starts_programs)\$"
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" -E "$left_out" -LE "^long$" "$@"
