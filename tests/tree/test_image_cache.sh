#!/usr/bin/env bash
# Trees that share a cache of images don't take away one another's: what is compiled again is what nobody had compiled, and old images
# go by and by. The compilers are stand-ins that count how often they run. test_image_cache.sh SOURCE_DIR
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
  cmake -DNAME=one -DSOURCE="trees/$1/one.comp" -DINPUTS="trees/$1/one.comp" -DGLSLANG="$work/compile" -DVERSION=1 -DFLAGS=-V \
    -DROOT="$work/trees/$1" -DCACHE="$work/cache/spv" -DOUT="$work/trees/$1/one.h" -P "$cmake/shader.cmake"
}
image() { # TREE TEXT
  mkdir -p "trees/$1"
  echo "$2" >"trees/$1/one.cu"
  cmake -DNAME=one -DSOURCE="trees/$1/one.cu" -DINPUTS="trees/$1/one.cu" -DNVCC="$work/compile" -DVERSION=1 -DFLAGS=-O3 \
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
for pattern in 'spv/one-*.h' 'one-*.fatbin' 'one-*.fatbin.entries'; do
  # shellcheck disable=SC2086
  left=$(ls -d cache/$pattern | wc -l)
  [ "$left" -eq 8 ] || { echo "$left of $pattern are left, expected 8"; exit 1; }
done
echo "each text was compiled once; 8 of 23 images are left"
