#!/usr/bin/env bash
# Builds axpy.rs over an installed rota, which pkg-config finds: bindgen reads the headers, rustc does the rest.
# build.sh OUT_FOLDER
set -euo pipefail
out=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
eval "flags=($(pkg-config --cflags rota))" # pkg-config quotes spaces, for a shell to read
libdir=$(pkg-config --variable=libdir rota)
# Expanded first: of functions that a macro declares, as most ops are, bindgen sees none.
echo '#include <rota/rota.h>' | cc -E -P -x c "${flags[@]}" - >"$out/all.h"
bindgen "$out/all.h" --allowlist-function 'rota_.*' --allowlist-type 'rota_.*' -o "$out/bindings.rs"
ROTA_BINDINGS=$out rustc --edition 2021 -O -D warnings "$here/axpy.rs" -o "$out/axpy" -L "$libdir" -l rota \
  -C "link-arg=-Wl,-rpath,$libdir"
