#!/usr/bin/env bash
# Builds Debian's packages (librota1, librota-dev, rota-tools), a tarball, and what they are made of
# as an SPDX document, into build-packages/out. build_packages.sh [cmake options]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
rota_install_missing
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

# As Debian wants programs to be linked; paths as in /usr.
hardened="-Wl,-z,relro,-z,now"
cmake --preset release -B build-packages -DCMAKE_INSTALL_PREFIX=/usr -DROTA_TESTS=OFF \
  -DCMAKE_EXE_LINKER_FLAGS=$hardened -DCMAKE_SHARED_LINKER_FLAGS=$hardened "$@" >build-packages.log 2>&1 ||
  { cat build-packages.log; exit 1; }
mv build-packages.log build-packages/configure.log
cmake --build build-packages --parallel "$(nproc)" >build-packages/build.log 2>&1 ||
  { tail -n 50 build-packages/build.log; exit 1; }
rm -rf build-packages/out
for generator in DEB TGZ; do
  (cd build-packages && cpack -G $generator -B out) >build-packages/cpack.log 2>&1 || { cat build-packages/cpack.log; exit 1; }
done
rm -rf build-packages/out/_CPack_Packages
python3 scripts/sbom.py . build-packages/out
ls build-packages/out
