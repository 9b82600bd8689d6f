#!/bin/sh
# Compiles the cooperative-matrix shaders to the <name>.spv.h beside them, which are kept in the tree because the
# distributions' glslang is older than the extensions. Needs glslangValidator 15 or newer and spirv-val on the PATH, and
# python3. With --check: only compares the sources with the hashes recorded in the headers; needs neither.
#   PATH=/path/to/glslang/bin:$PATH ops/vk/coopmat/build.sh
set -eu
cd "$(dirname "$0")"
abi=../../../exec/vk/rota_kernel.glsl

hash_of() { # source
  cat "$1" matmul_params.glsl bfloat16.py "$abi" variants.txt | sha256sum | cut -d ' ' -f 1
}

if [ "${1:-}" = --check ]; then
  sed -e 's/#.*//' -e '/^ *$/d' variants.txt | while read -r name source rest; do
    want=$(hash_of "$source")
    have=$(sed -n 's/.*SHA-256 of its sources: \([0-9a-f]*\).*/\1/p' "$name.spv.h" 2>/dev/null || true)
    if [ "$want" != "$have" ]; then
      echo "ops/vk/coopmat/$name.spv.h was not made from the present sources: run ops/vk/coopmat/build.sh" >&2
      exit 1
    fi
  done
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -e 's/#.*//' -e '/^ *$/d' variants.txt | while read -r name source type definitions; do
  # shellcheck disable=SC2086 # the definitions are words
  glslangValidator -V --quiet -g0 --target-env vulkan1.3 -I. -I../../../exec/vk $definitions "$source" \
    -o "$work/$name.spv"
  spirv-val --target-env vulkan1.3 "$work/$name.spv"
  python3 bfloat16.py "$type" "rota_spv_$name" "$source" "$(hash_of "$source")" "$work/$name.spv" >"$name.spv.h"
  echo "$name.spv.h"
done
