#!/usr/bin/env bash
# Trees that share a cache of images don't take away one another's: what is compiled again is what nobody had compiled,
# and old images go by and by. The compilers are stand-ins that count how often they run. test_image_cache.sh SOURCE_DIR
set -euo pipefail
cmake=$1/cmake work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir trees cache
cat >compile <<'STANDIN'
#!/usr/bin/env bash
# Both compilers: copies its last argument to what stands behind -o, with a kernel's name for nvcc.
echo run >>runs
while [ $# -gt 1 ]; do
  case $1 in
    -o) out=$2 ;;
    --keep-dir) keep=$2 ;;
  esac
  shift
done
cp "$1" "$out"
if [ -n "${keep-}" ]; then echo ".visible .entry test_entry(" >"$keep/one.ptx"; fi
STANDIN
chmod +x compile
runs() { wc -l <runs; }
: >runs
shader() { # TREE TEXT
  mkdir -p "trees/$1"
  echo "$2" >"trees/$1/one.comp"
  cmake -DNAME=one -DSOURCE="trees/$1/one.comp" -DINPUTS="trees/$1/one.comp" -DGLSLANG="$work/compile" -DVERSION=1 \
    -DFLAGS=-V \
    -DROOT="$work/trees/$1" -DCACHE="$work/cache/spv" -DOUT="$work/trees/$1/one.h" -P "$cmake/shader.cmake"
}
image() { # TREE TEXT
  mkdir -p "trees/$1"
  echo "$2" >"trees/$1/one.cu"
  cmake -DNAME=one -DSOURCE="$work/trees/$1/one.cu" -DNVCC="$work/compile" -DVERSION=1 "-DFLAGS=-O3|-I$work/trees/$1" \
    -DROOT="$work/trees/$1" -DCACHE="$work/cache" -DFOLDER="$work/trees/$1" -P "$cmake/cuda_image.cmake"
}
expect() { # COUNT WHAT
  [ "$(runs)" -eq "$1" ] || { echo "$2: $(runs) compilations, expected $1"; exit 1; }
}
for what in shader image; do
  : >runs
  for turn in 1 2 3; do # two trees, and a branch that comes and goes
    $what a text; $what b "another text"; $what a "text of a branch"
  done
  expect 3 "$what: three texts in turn"
  for text in $(seq 20); do $what a "text $text"; done
  expect 23 "$what: twenty more"
  [ "$(cat trees/a/one.*h 2>/dev/null | wc -l)" -gt 0 ]
done
# An image is made anew when a header changes that it includes, through another one, too; and not for one that it does
# not. What it depends on is told to the build.
mkdir -p trees/a/below trees/b/below
for tree in a b; do
  printf '#include "above.h"\n' >trees/$tree/below/deep.h
  echo "an upper one" >trees/$tree/above.h
  echo "another" >trees/$tree/other.h
done
including=$'#include "below/deep.h"\n#include <stdint.h>'
: >runs
image a "$including"; image b "$including"
expect 1 "image: two trees alike"
grep -q "trees/a/one.h .*trees/a/one.c: .*/a/one.cu .*/a/below/deep.h .*/a/above.h$" trees/a/one.d
echo "changed" >trees/a/other.h; image a "$including"
expect 1 "image: a header that it does not include"
echo "changed" >trees/a/above.h; image a "$including"
expect 2 "image: a header that its header includes"
image b "$including"
expect 2 "image: the other tree, as it was"
if image a '#include "nowhere.h"' 2>said || ! grep -q nowhere.h said; then echo \
  "a header that is not there is accepted"; exit 1; fi
for pattern in 'spv/one-*.h' 'one-*.fatbin' 'one-*.fatbin.entries'; do
  # shellcheck disable=SC2086
  left=$(ls -d cache/$pattern | wc -l)
  [ "$left" -eq 8 ] || { echo "$left of $pattern are left, expected 8"; exit 1; }
done
echo "each text was compiled once; 8 of 23 images are left"
