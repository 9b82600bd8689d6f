#!/usr/bin/env bash
# Installs into a temporary prefix, builds an example outside the tree with pkg-config (shared and static) and with the
# CMake package, and runs each on the CPU; then in a project that takes rota's tree in. All in folders with spaces in
# their names.
# test_install.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)/"some where"
mkdir "$work"
trap 'rm -rf "${work%/*}"' EXIT
quietly() { "$@" >"$work/log" 2>&1 || { echo "failed: $*"; cat "$work/log"; exit 1; }; }
prefix="$work/the prefix"
quietly cmake --install "$build_dir" --prefix "$prefix"
[ -s "$prefix/share/doc/rota/LICENSE" ] || { echo "the licence is not installed"; exit 1; }

# What demo.sh builds is enough to install.
if [ -f "$build_dir/build.ninja" ]; then
  targets=$(sed -n 's/^rota_build release \([^#]*\).*/\1/p' "$source_dir/demo.sh")
  # shellcheck disable=SC2086
  ninja -C "$build_dir" -t graph $targets >"$work/graph"
  for library in librota.a librota.so; do
    grep -q "\"$library" "$work/graph" || { echo "demo.sh builds no $library, which cmake --install wants: $targets";
    exit 1; }
  done
fi

# Programs that were built, with their pages.
if [ -x "$build_dir/bench/rota-bench" ]; then
  [[ $("$prefix/bin/rota-bench" --version) == "rota-bench "[0-9]* ]] || { echo "no rota-bench was installed"; exit 1; }
  for program in "$prefix"/bin/*; do
    name=$(basename "$program")
    for file in "man/man1/$name.1.gz" "bash-completion/completions/$name" "zsh/site-functions/_$name" \
      "fish/vendor_completions.d/$name.fish"; do
      [ -s "$prefix/share/$file" ] || { echo "share/$file was not installed"; exit 1; }
    done
  done
  if man --version 2>/dev/null | grep -q man; then
    MANPATH="$prefix/share/man" LC_ALL=C.UTF-8 man -P cat rota-bench >"$work/page" ||
      { echo "man rota-bench finds nothing"; exit 1; }
    grep -q 'rota-bench plan' "$work/page" || { echo "man rota-bench does not have its commands"; exit 1; }
  fi
fi

# What kernels of one's own include: all that the guide names, and what that includes; compiled as it says.
mapfile -t included < <(grep -oE 'rota_kernel(_[a-z]+)?\.(glsl|cuh)' "$source_dir/docs/guide.md" | sort -u)
[ "${#included[@]}" -ge 3 ] || { echo "the guide names only ${included[*]}"; exit 1; }
for file in "${included[@]}"; do
  [ -s "$prefix/share/rota/$file" ] || { echo "share/rota/$file, which the guide names, was not installed"; exit 1; }
done
quietly glslangValidator -V --target-env vulkan1.2 -I"$prefix/share/rota" -o "$work/logistic.spv" \
  "$source_dir/examples/basics/logistic.comp"

# Nothing private goes out, and every public header stands on its own in C (in C++: test_cpp.sh).
if find "$prefix/include" -name '*internal*' | grep .; then
  echo "private headers were installed"
  exit 1
fi
cd "$prefix/include"
while read -r header; do
  printf '#include <rota/%s>\nextern int here;\n' "$header" |
    cc -x c -std=c17 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I. - ||
    { echo "rota/$header does not stand on its own"; exit 1; }
done < <(cd rota && find . -name '*.h' | sed 's,^\./,,')

# On a machine without the development files of what rota itself is linked with: only its own pkg-config file is found.
mkdir "$work/app"
cd "$work/app"
cp "$source_dir/examples/basics/quickstart.c" .
pc=$(find "$prefix" -name rota.pc)
cbor=
grep -q -e -lcbor "$pc" && cbor=", libcbor" # without, there are no graph files
# pkg-config quotes spaces, for a shell to read
eval "libdir=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --variable=libdir rota)"
[ -e "$libdir/librota.so" ] || { echo "rota.pc says libdir=$libdir, where no library is"; exit 1; }
without() { env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="${pc%/*}" "$@"; }
eval "flags=($(without pkg-config --cflags --libs rota))"
cc -std=c17 -Wall -Wextra -Werror quickstart.c -o shared "${flags[@]}"
LD_LIBRARY_PATH=$libdir ./shared cpu
quietly without cmake -S "$source_dir/tests/interface/client" -B package -DHOW=package -DROTA_SOURCE="$source_dir" \
  -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build package
./package/with_rota cpu
[ ! -e package/with_rota_static ] || { echo "the static library was offered without what it is linked with"; exit 1; }
for program in shared package/with_rota; do
  if readelf -d "$program" | grep NEEDED | grep -E 'hwloc|openblas|libck|libcbor'; then
    echo "$program is linked with what only rota uses"
    exit 1
  fi
done
if without cmake -S "$source_dir/tests/interface/client" -B refused -DHOW=package -DCOMPONENTS=static \
  -DROTA_SOURCE="$source_dir" \
  -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || ! grep -q "hwloc, openblas, ck$cbor" "$work/log"; then
  echo "the static library was asked for without what it is linked with:"
  cat "$work/log"
  exit 1
fi

# With them, the static library too.
eval "flags=($(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags rota))"
eval "libraries=($(PKG_CONFIG_PATH=${pc%/*} pkg-config --static --libs rota | sed 's/-lrota\b//'))"
cc -std=c17 -Wall -Wextra -Werror quickstart.c -o static "${flags[@]}" "$libdir/librota.a" "${libraries[@]}"
./static cpu
rm -r package
quietly cmake -S "$source_dir/tests/interface/client" -B package -DHOW=package -DCOMPONENTS=static \
  -DROTA_SOURCE="$source_dir" \
  -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build package
./package/with_rota cpu
./package/with_rota_static cpu

# Taken in, by either way; most of the library's objects are those of the build that is there.
cp -r "$source_dir/tests/interface/client" "$work/client"
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build_dir/CMakeCache.txt")
images=$(sed -n 's/^ROTA_IMAGE_CACHE:PATH=//p' "$build_dir/CMakeCache.txt")
only=$(sed -n 's/^ROTA_CUDA_ONLY_COMPILES:BOOL=//p' "$build_dir/CMakeCache.txt")
draw=$(sed -n 's/^ROTA_CUDA_DRAW:STRING=//p' "$build_dir/CMakeCache.txt")
launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=//p' "$build_dir/CMakeCache.txt")
for how in add fetch; do
  quietly cmake -G "$generator" -S "$work/client" -B taken -DHOW=$how -DROTA_SOURCE="$source_dir" \
    -DROTA_IMAGE_CACHE="$images" -DROTA_CUDA_ONLY_COMPILES="$only" -DROTA_CUDA_DRAW="$draw" \
    "-DCMAKE_C_COMPILER_LAUNCHER=$work/client/compile_some.sh${launcher:+;$launcher}"
  ROTA_REUSE=$build_dir quietly cmake --build taken -j 2
  ./taken/with_rota cpu
  ./taken/with_rota_static cpu
  rm taken/with_rota taken/with_rota_static
done
quietly cmake --install taken --prefix "$work/of the client"
if find "$work/of the client" -name '*rota*' 2>/dev/null | grep .; then
  echo "the client's install took rota's along"
  exit 1
fi
echo "installed, found and taken in"
