#!/usr/bin/env bash
# Installs into a temporary prefix, builds an example outside the tree with pkg-config (shared and static) and with the
# CMake package, and runs each on the CPU.
# test_install.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build_dir" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

# Nothing private goes out, and every public header stands on its own, in C and in C++.
if find "$work/prefix/include" -name '*internal*' | grep .; then
  echo "private headers were installed"
  exit 1
fi
cd "$work/prefix/include"
while read -r header; do
  for language in c c++; do
    printf '#include <rota/%s>\n' "$header" | cc -x "$language" -fsyntax-only -Wall -Wextra -Werror -I. - ||
      { echo "rota/$header does not stand on its own in $language"; exit 1; }
  done
done < <(cd rota && find . -name '*.h' | sed 's,^\./,,')

mkdir "$work/app"
cd "$work/app"
cp "$source_dir/examples/quickstart.c" .
pc=$(find "$work/prefix" -name rota.pc)
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir rota)

# The flags are words for the compiler.
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror quickstart.c -o shared $(pkg-config --cflags --libs rota)
LD_LIBRARY_PATH=$libdir ./shared cpu
# shellcheck disable=SC2046
cc -std=c17 -Wall -Wextra -Werror quickstart.c -o static $(pkg-config --cflags rota) "$libdir/librota.a" \
  $(pkg-config --static --libs rota | sed 's/-lrota\b//')
./static cpu

cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(app LANGUAGES C)
find_package(rota 0.1 REQUIRED)
foreach(library rota rota_static)
  add_executable(with_${library} quickstart.c)
  target_link_libraries(with_${library} PRIVATE rota::${library})
endforeach()
CMAKE
{ cmake -S . -B build -DCMAKE_PREFIX_PATH="$work/prefix" && cmake --build build; } >cmake.log 2>&1 || { cat cmake.log; exit 1; }
./build/with_rota cpu
./build/with_rota_static cpu
