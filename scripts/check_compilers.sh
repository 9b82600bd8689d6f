#!/usr/bin/env bash
# Builds the library, rota-bench and the examples with each compiler, with every warning an error: Debian 12's oldest,
# default and newest gcc and clang (its default gcc is its newest). One that is not installed is left out, by name.
# ./scripts/check_compilers.sh [--install] [COMPILER...]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
install=
if [ "${1-}" = --install ]; then
  install=1
  shift
fi
compilers=("$@")
if [ ${#compilers[@]} -eq 0 ]; then compilers=(gcc-11 gcc-12 clang-13 clang-14 clang-19); fi
if [ -n "$install" ]; then rota_packages+=("${compilers[@]}"); fi
rota_install_missing

built=0
failed=()
for compiler in "${compilers[@]}"; do
  if ! command -v "$compiler" >/dev/null; then
    echo "skipped: $compiler is not installed"
    continue
  fi
  log=$(mktemp)
  folder=build-compilers/$compiler
  if cmake -G Ninja -S . -B "$folder" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS=-Werror -DROTA_TESTS=OFF >"$log" \
    2>&1 &&
    cmake --build "$folder" >>"$log" 2>&1; then
    echo "$compiler: no warning"
    built=$((built + 1))
  else
    tail -n 40 "$log"
    failed+=("$compiler")
  fi
  rm -f "$log"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "$built compilers built it without a warning"
