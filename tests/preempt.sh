#!/usr/bin/env bash
# Runs tests of a build without sanitizers while their threads are stopped at random (tests/kit/preempt.c): whose result
# depends on how fast threads run, or in which order, fails.
# tests/preempt.sh BUILD SEED [ctest options], such as: tests/preempt.sh build 1 -j5 -LE full
# SEED modulo 3 says which threads above all: 0 any, 1 each test's first, 2 another one. Tests that preload a
# sanitizer themselves cannot be run so (test_cpp_gxx, test_listing).
set -euo pipefail
build=$(cd "$1" && pwd) seed=$2
shift 2
cmake --build "$build" --target preempt >/dev/null
exec env ROTA_PREEMPT="$seed" ROTA_PREEMPT_IN="$build/" LD_PRELOAD="$build/tests/preempt.so" \
  ctest --test-dir "$build" --output-on-failure "$@"
