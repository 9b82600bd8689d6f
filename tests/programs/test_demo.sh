#!/usr/bin/env bash
# ./demo.sh as README.md has it, on what this build made in the place of a build of its own: devices, smoke tests, a
# checked product, and a GPT that learns and writes.
# test_demo.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work/said"; exit 1; }
export XDG_CACHE_HOME=$work/cache
grep -qE '^    \./demo\.sh ' "$source/README.md" || fail "README.md has no ./demo.sh"
mkdir -p "$work/root/scripts"
ln -s "$source"/* "$work/root" 2>/dev/null || true # but scripts, of which one is another here
rm -f "$work/root/build"
ln -s "$build" "$work/root/build"
ln -s "$source"/scripts/* "$work/root/scripts"
rm "$work/root/scripts/packages.sh"
printf '. "%s/scripts/packages.sh"\nrota_install_missing() { :; }\nrota_build() { :; }\n' "$source" \
  >"$work/root/scripts/packages.sh"
cd "$work"
timeout 900 root/demo.sh --device cpu >said 2>&1 || fail "./demo.sh ended with $?"
for pattern in '^== Devices ==' '^cpu ' '^default: ' 'passed' ' 0 of ' 'validation loss'; do
  grep -qE -- "$pattern" said || fail "./demo.sh does not say '$pattern'"
done
if root/demo.sh --frobnicate >said 2>&1 || ! grep -q '^usage: ./demo.sh' said; then fail "--frobnicate is taken"; fi
