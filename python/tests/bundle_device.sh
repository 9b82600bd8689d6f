#!/usr/bin/env bash
# What run_device.sh takes along: bundle_device.sh PYTHON BUILD OUT builds the wheel with PYTHON (3.12 or later, with
# nanobind and scikit-build-core) over a release build's library, and gathers the shared libraries that it needs but the
# C library's and the compiler's, which PyTorch has its own of.
set -euo pipefail
python=$1 build=$(realpath "$2") out=$3
here=$(dirname "$(realpath "$0")")
mkdir -p "$out/lib"
out=$(realpath "$out")
"$python" -m pip wheel -q --no-build-isolation --no-deps -C cmake.define.ROTA_BUILT="$build" \
  -C build-dir="$out/build" -w "$out" "$here/.."
module=$(find "$out/build" -name '_rota*.so' | head -1)
ldd "$module" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | while read -r library; do
  case ${library##*/} in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux* | libstdc++.so* | libgcc_s.so*) ;;
    *) cp -L "$library" "$out/lib/" ;;
  esac
done
