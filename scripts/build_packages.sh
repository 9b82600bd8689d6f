#!/usr/bin/env bash
# Builds Debian's packages (librota1, librota-mpi1 where there is MPI, librota-dev, rota-tools, python3-rota, rota-doc),
# a tarball, and what they are made of as an SPDX document, into build-packages/out. build_packages.sh [cmake options]
# ROTA_PACKAGES_FOLDER is another folder than build-packages.
# Where the Python registry does not answer python3-rota and rota-doc are left out, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/pip_install.sh
rota_install_missing
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

folder=${ROTA_PACKAGES_FOLDER:-build-packages}
mkdir -p "$folder"
folder=$(realpath "$folder")

# As Debian wants programs to be linked; paths as in /usr.
hardened="-Wl,-z,relro,-z,now"
cmake --preset release -B "$folder" -DCMAKE_INSTALL_PREFIX=/usr -DROTA_TESTS=OFF \
  -DCMAKE_EXE_LINKER_FLAGS=$hardened -DCMAKE_SHARED_LINKER_FLAGS=$hardened "$@" >"$folder/configure.log" 2>&1 ||
  { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder" --parallel "$(nproc)" >"$folder"/build.log 2>&1 ||
  { tail -n 50 "$folder"/build.log; exit 1; }

# What else cpack takes: the Python package for the system's Python, as pip would lay it out, and the site. Each in a
# subshell, which is left with 77 where the registry does not answer.
package_of_python() (
  set -e
  rota_pip_install "$folder"/python-venv -r python/tests/requirements.txt
  local made="$folder"/package/python
  rm -rf "$folder"/wheel "$made"
  "$folder"/python-venv/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps \
    -C cmake.define.ROTA_BUILT="$folder" -C build-dir="$folder/python-build" \
    -w "$folder"/wheel ./python
  python3 -m zipfile -e "$folder"/wheel/rota-*.whl "$made"
  rm "$made"/rota-*.dist-info/RECORD # of pip's, which would take out what dpkg put there
  strip --strip-unneeded "$made"/rota/*.so
)
package_of_documentation() (scripts/build_docs.sh "$folder")
components=''
for component in python documentation; do
  set +e # which a condition would be for all that it calls
  package_of_$component
  code=$?
  set -e
  case $code in
    0) components+="$component;" ;;
    77) echo "left out: the package of component $component" ;;
    *) exit $code ;;
  esac
done
cmake -B "$folder" -DROTA_PACKAGES="$components" >>"$folder"/configure.log

rm -rf "$folder"/out
for generator in DEB TGZ; do
  (cd "$folder" && cpack -G $generator -B out) >"$folder"/cpack.log 2>&1 ||
    { cat "$folder"/cpack.log; exit 1; }
done
rm -rf "$folder"/out/_CPack_Packages
python3 scripts/sbom.py . "$folder"/out
ls "$folder"/out
