#!/usr/bin/env bash
# Cross-builds rota for aarch64 on Debian and runs under qemu-user what needs no driver: whether it is portable, not
# whether it is fast, nor how aarch64 orders memory (qemu orders as this machine does).
# scripts/check_aarch64.sh [ctest options], such as -R test_ops
# The compiler and qemu are installed; aarch64's libraries are unpacked into build-aarch64/sysroot and nowhere else.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
rota_packages+=(gcc-aarch64-linux-gnu qemu-user)
rota_install_missing

folder=$PWD/build-aarch64
sysroot=$folder/sysroot
libraries=(libc6-dev libgcc-12-dev libhwloc-dev libck-dev libvulkan-dev libcjson-dev libopenblas-dev libcmocka-dev
  libpcre2-dev libcbor-dev)

# apt with lists and a state of its own: what this machine has installed is neither asked about nor changed.
make_sysroot() {
  local apt=$folder/apt log=$folder/apt.log deb link
  rm -rf "$apt" "$sysroot"
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$sysroot"
  : >"$apt/status"
  cat >"$apt/apt.conf" <<EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Debug::NoLocking "true";
EOF
  echo "deb [arch=arm64] http://deb.debian.org/debian $(. /etc/os-release && echo "$VERSION_CODENAME") main" \
    >"$apt/sources.list"
  if ! { APT_CONFIG=$apt/apt.conf apt-get update &&
    APT_CONFIG=$apt/apt.conf apt-get install -y --download-only "${libraries[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "aarch64's libraries could not be fetched" >&2
    return 1
  fi
  for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$sysroot"; done
  rm -rf "$apt"
  # What the packages' scripts would do: alternatives. And no link may leave the folder.
  local lib=$sysroot/usr/lib/aarch64-linux-gnu
  ln -s openblas-pthread/libopenblas.so openblas-pthread/libopenblas.so.0 "$lib"
  ln -s "../openblas-pthread/pkgconfig/openblas.pc" "$lib/pkgconfig"
  find "$sysroot" -type l -lname '/*' | while read -r link; do
    ln -sfr "$sysroot$(readlink "$link")" "$link"
  done
  touch "$sysroot/complete"
}

[ -e "$sysroot/complete" ] || make_sysroot

log=$folder/build.log
if ! { cmake -S . -B "$folder" -G Ninja --toolchain "$PWD/cmake/aarch64.cmake" -DROTA_SYSROOT="$sysroot" \
  -DCMAKE_BUILD_TYPE=Release -DROTA_CUDA=OFF && cmake --build "$folder" --target rota_tests all; } >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  echo "the aarch64 build failed" >&2
  exit 1
fi
grep -E 'warning:' "$log" >&2 || true

# Left out: drivers (of Vulkan and CUDA devices), programs that a shell starts, and what takes long, in place of which
# some hundred random graphs are run below; test_fork, as qemu 7.2 ends with an assertion of its own in a child that
# starts threads; test_limits, which judges resident memory, of which most is qemu's here, and times; the models, the
# explored protocols and the listing, which this machine's own compiler makes; and what this machine's Python, Sphinx,
# clang-tidy, Rust and Go read or link.
left_out='_vk|shaders|touch|_device$|^fuzz_(cpu|adversary|two|three|shared|ordered|cuda|vk|touch)|_more$'
left_out+='|conformance_(adversary|processes)|coopmat_sources|test_(cli|train|patchtst|inputs|oracle|gpt_bpe|gpt_model'
left_out+='|cg|bfs|check_device|report|install|exports|abi|python|tidy|site|rust|go|tensorboard'
left_out+='|cpp_gxx|cpp_clangxx|folders|cuda_streams|endless|fork|limits|listing|models)$|^explore_'
failed=0
ctest --test-dir "$folder" --output-on-failure --parallel "$(nproc)" -LE full -E "$left_out" "$@" || failed=1

# What it draws is the same on every machine, so this many are as in the other builds.
for devices in '--device cpu' '--device adversary' '--device adversary --second cpu --nodes 120'; do
  # shellcheck disable=SC2086 # words
  qemu-aarch64 -L "$sysroot" "$folder/tests/rota-fuzz" $devices --count 300 || failed=1
done
exit $failed
