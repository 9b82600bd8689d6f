#!/usr/bin/env bash
# P6: nothing of the CUDA runtime API and no default stream in exec/cuda and ops/cuda. The names are looked for in the
# code, comments left out; that a default stream cannot be reached by a NULL is the stand-in's to see
# (tests/exec/cuda/cuda_stub.c).
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

forbidden='cuda_runtime|cudart|\bcuda[A-Z][A-Za-z]*\(|<<<|CU_STREAM_LEGACY|CU_STREAM_PER_THREAD|CU_STREAM_DEFAULT'
forbidden+='|_ptsz|_ptds|CU_GET_PROC_ADDRESS_PER_THREAD|API_PER_THREAD_DEFAULT_STREAM'

code() { # a file without its comments
  sed -e 's@//.*$@@' "$1" | awk \
    'BEGIN { RS = "/[*]|[*]/"; inside = 0 } { if (!inside) printf "%s", $0; inside = !inside }'
}
# What a kernel calls to set a conditional node's handle, or a node's grid, is the compiler's, not the runtime API's.
of_kernels='cudaGraph(SetConditional|KernelNodeSetGridDim)\('

look() { # files...: prints what is forbidden
  local found=0 file
  for file in "$@"; do
    if code "$file" | sed -E "s@$of_kernels@@g" | grep -nE "$forbidden" | sed "s@^@$file: @"; then found=1; fi
  done
  return $found
}

shopt -s nullglob
files=(exec/cuda/* ops/cuda/*)
((${#files[@]} >= 15)) || { echo "only ${#files[@]} files were looked at: the tree has moved"; exit 1; }
look "${files[@]}" || exit 1
# And it notices.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
for line in '#include <cuda_runtime.h>' 'cudaMalloc(&p, 1);' 'kernel<<<1, 1>>>();' 'cuStreamQuery(CU_STREAM_LEGACY);';
do
  echo "$line /* a comment */" >"$planted/planted.c"
  if look "$planted/planted.c" >/dev/null; then echo "'$line' went unnoticed"; exit 1; fi
done
echo 'int x; /* cudaMalloc( */' >"$planted/planted.c"
look "$planted/planted.c" || { echo "a comment was taken for code"; exit 1; }
echo "${#files[@]} files name no runtime API and no default stream"
