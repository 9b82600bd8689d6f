#!/usr/bin/env bash
# What run_device.sh takes along: bundle_device.sh PYTHON BUILD OUT makes a folder that is copied as it is, with the
# wheel, built with PYTHON (3.12 or later, with nanobind and scikit-build-core) over a release build's library, the
# tests, pytest, and the shared libraries that the wheel needs but the C library's and the compiler's, which PyTorch has
# its own of.
set -euo pipefail
python=$1 build=$(realpath "$2") out=$3
here=$(dirname "$(realpath "$0")")
mkdir -p "$out"
out=$(realpath "$out")
rm -rf "$out/lib" "$out/wheels" "$out/tests"
mkdir -p "$out/lib" "$out/wheels" "$out/tests"
"$python" -m pip wheel -q --no-build-isolation --no-deps -C cmake.define.ROTA_BUILT="$build" \
  -C build-dir="$build/device-build" -w "$out/wheels" "$here/.."
"$python" -m pip download -q --disable-pip-version-check --only-binary=:all: -d "$out/wheels" \
  "$(grep '^pytest==' "$here/requirements.txt")"
cp "$here"/*.py "$here"/run_device.sh "$out/tests/"
mkdir -p "$out/examples"
cp "$here"/../examples/*.py "$out/examples/"
cp "$here/../README.md" "$out/"
module=$(find "$build/device-build" -name '_rota*.so' | head -1)
ldd "$module" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | while read -r library; do
  case ${library##*/} in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux* | libstdc++.so* | libgcc_s.so*) ;;
    *) cp -L "$library" "$out/lib/" ;;
  esac
done
