#!/usr/bin/env bash
# The examples in other languages, over an installed rota: examples/rust by bindgen and rustc, examples/go by cgo.
# test_languages.sh SOURCE_DIR BUILD_DIR rust|go
# Exits with 77, which is skipped, where the tools are not there.
set -euo pipefail
source_dir=$1 build_dir=$2 language=$3
case $language in rust) tools=(rustc bindgen) ;; go) tools=(go) ;; esac
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT # go's cache is read-only
cmake --install "$build_dir" --prefix "$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
pc=$(find "$work/prefix" -name rota.pc)
export PKG_CONFIG_PATH=${pc%/*}
export LD_LIBRARY_PATH=${pc%/pkgconfig/*}
mkdir "$work/out"
case $language in
  rust) "$source_dir/examples/rust/build.sh" "$work/out" ;;
  go)
    cp "$source_dir"/examples/go/* "$work/out"
    (cd "$work/out" && GOFLAGS=-mod=mod GOPROXY=off GOCACHE=$work/cache GOPATH=$work/path go vet . &&
      GOPROXY=off GOCACHE=$work/cache GOPATH=$work/path go build -o axpy .)
    ;;
esac
said=$("$work/out/axpy" cpu)
[[ ${said//[^0-9 ]/} =~ ^14\ 28\ 42\ 56$ || ${said//.0/} == '[14, 28, 42, 56]' ]] || { echo "axpy says $said"; exit 1; }
if said=$("$work/out/axpy" none:7 2>&1) || [[ $said != *none:7* ]]; then
  echo "on a device that is not there axpy says: $said"
  exit 1
fi
